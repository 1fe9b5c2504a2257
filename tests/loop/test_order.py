"""Machines whose joint order differs from the model: states and commands are converted, or the order is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from idcontrol import robots
from idcontrol.errors import InputError
from idcontrol.loop import launch
from idcontrol.loop.order import MachineOrder, translation
from idcontrol.loop.session import wire_format
from idcontrol.scenes.walk import WalkConfig
from tests.loop import rig
from tests.loop.rig import ArmSession
from tests.scenes import loops

UNITREE = [f"{leg}_{joint}_joint" for leg in ("FR", "FL", "RR", "RL") for joint in ("hip", "thigh", "calf")]
"""Numbering of `unitree_legged_sdk/quadruped.h`: FR_0 = 0, FR_1 = 1, ... RL_2 = 11."""
MOTORS = [0, 3, 2, 1, 5, 4, 6, 9, 8, 7, 11, 10]
REVERSED = [True, False, True, True, False, False] * 2
"""Signs of ``demos/config_solo12.yaml`` of odri_control_interface, by joints of the URDF."""


@pytest.fixture(scope="module", params=["go1", "solo12"])
def shipped(request):
    session = loops.walk.session(WalkConfig(robot=request.param))
    (order,) = session.orders.values()
    return session, order


def test_the_map_of_go1_is_that_of_its_makers_library():
    order = robots.load("go1").description.orders["unitree"]
    assert list(order.joints) == UNITREE
    assert not order.turned
    assert [foot[::-1].translate(str.maketrans("HF", "RF")) for foot in order.feet] == ["FR", "FL", "RR", "RL"]


def test_the_map_of_solo12_is_that_of_its_master_board():
    robot = robots.load("solo12")
    names, order = robot.system().actuated_names, robot.description.orders["odri"]
    assert [order.joints[motor] for motor in MOTORS] == list(names)
    assert {name for name, turned in zip(names, REVERSED, strict=True) if turned} == set(order.turned)


def test_each_number_of_a_state_comes_to_the_joint_that_the_machine_means(shipped):
    """A state is written once in the loop's order, and once by hand in the machine's order."""
    session, order = shipped
    wire, names, rng = wire_format(session), session.system.actuated_names, np.random.default_rng(0)
    order = structs.replace(order, offset_rad={names[4]: 0.3}, torque_scale={names[7]: 0.8})
    q, v, tau, errors, heat = rng.normal(size=(5, 12))
    force, normal = rng.normal(size=(2, 4, 3))
    sign = np.array([-1.0 if name in order.turned else 1.0 for name in names])
    own = np.r_[1.5, rng.normal(size=7), q, rng.normal(size=6), v, tau, rng.normal(size=3)]
    rest = rng.normal(size=9)
    ours = np.r_[own, force.ravel(), normal.ravel(), errors, heat, rest]
    at = [names.index(name) for name in order.joints]
    feet = [session.feet.index(name) for name in order.feet or session.feet]
    zero, scale = np.where(np.arange(12) == 4, 0.3, 0.0), np.where(np.arange(12) == 7, 0.8, 1.0)
    theirs = np.r_[
        own[:8], (sign * (q - zero))[at], own[20:26], (sign * v)[at], (sign * tau / scale)[at], own[50:53],
        force[feet].ravel(), normal[feet].ravel(), errors[at], heat[at], rest,
    ]  # fmt: skip
    maps = translation(order, session.system, session.feet, wire)
    np.testing.assert_allclose(maps.state(theirs), ours, rtol=0, atol=1e-15)  # rounding of the offset

    command = np.stack((tau, q, v, rng.random(12), rng.random(12)))
    asked = np.stack((sign * tau / scale, sign * (q - zero), sign * v, command[3] / scale, command[4] / scale))[:, at]
    np.testing.assert_allclose(maps.command(command.ravel()), asked.ravel(), rtol=0, atol=1e-15)


@settings(max_examples=50, deadline=None)
@given(st.permutations(["shoulder", "elbow"]), st.sets(st.sampled_from(["shoulder", "elbow"])), st.floats(-3, 3))
def test_a_drive_gives_the_intended_torque_in_any_order_of_joints(joints, turned, offset):
    """The torque of the impedance law, which the machine computes in its own order, equals the intended torque."""
    session = ArmSession()
    order = MachineOrder(
        joints=tuple(joints), turned=tuple(turned), offset_rad={"elbow": offset}, torque_scale={"elbow": 0.7}
    )
    maps = translation(order, session.system, (), wire_format(session))
    rng = np.random.default_rng(0)
    theirs = np.r_[0.0, rng.normal(size=6), np.zeros(3), np.full(11, np.nan), np.nan, np.nan]
    ours = maps.state(theirs)
    command = np.abs(rng.normal(size=(5, 2)))

    def torque(rows, values):
        return rows[0] + rows[3] * (rows[1] - values[1:3]) + rows[4] * (rows[2] - values[3:5])

    meant = torque(command, ours)
    applied = torque(maps.command(command.ravel()).reshape(5, 2), theirs)
    report = maps.state(np.r_[theirs[:5], applied, theirs[7:]])
    np.testing.assert_allclose(report[5:7], meant, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"joints": ("elbow",)}, "must name each of shoulder, elbow once"),
        ({"joints": ("elbow", "elbow")}, "must name each of shoulder, elbow once"),
        ({"turned": ("wrist",)}, "wrist is not a joint of arm"),
        ({"offset_rad": {"wrist": 0.1}}, "wrist is not a joint of arm"),
        ({"torque_scale": {"elbow": -1.0}}, "torque_scale of elbow is -1, not positive; correct"),
        ({"feet": ("LF",)}, "feet"),
    ],
)
def test_an_order_that_does_not_fit_the_joints_is_refused(change, line):
    session = ArmSession()
    order = structs.replace(session.orders["swapped"], **change)
    with pytest.raises(InputError, match=line):
        translation(order, session.system, session.feet, wire_format(session))


def test_an_order_that_the_robot_file_does_not_have_is_refused(tmp_path):
    far = launch.LoopSettings(transport="udp", peer="127.0.0.1:9", joints="reversed", arm=True)
    with pytest.raises(InputError, match="arm has no such order of joints; it has swapped"):
        launch.run("tests.loop.rig:offer", rig.Config(), far, tmp_path / "run")
    with pytest.raises(InputError, match=r"joints=swapped is for a machine at loop\.peer"):
        launch.run("tests.loop.rig:offer", rig.Config(), launch.LoopSettings(joints="swapped"), tmp_path / "run")
