"""Controllers on a MuJoCo model from elsewhere."""

import mujoco
import numpy as np
import pytest

from idcontrol import robots
from idcontrol.adapters.mujoco import Bridge
from idcontrol.errors import InputError, UnknownName
from idcontrol.experiments.examples import mujoco_go1
from idcontrol.types import State
from tests.adapters import foreign


@pytest.fixture(scope="module")
def robot():
    return robots.load("go1")


@pytest.fixture
def model():
    return foreign.go1()


@pytest.mark.parametrize("name", ["arm", "panda", "links", "solo12", "anymal"])
def test_every_robot_agrees_with_its_own_machine(name):
    robot, model = robots.load(name), foreign.same(robot=name)
    bridge, data, system = Bridge(model, robot), mujoco.MjData(model), robot.system()
    v = np.linspace(-1.0, 1.0, system.model.nv)
    q = system.integrate(robot.standing_state().q, 0.3 * v, 1.0)
    seen = bridge.place(data, State(t=0.0, q=q, v=v))
    np.testing.assert_allclose(seen.q, q, atol=1e-12)
    np.testing.assert_allclose(seen.v, v, atol=1e-12)


def test_standing_feet_carry_the_weight(model, robot):
    bridge, data = Bridge(model, robot, feet={"LF": "FL", "RF": "FR", "LH": "RL", "RH": "RR"}), mujoco.MjData(model)
    state, home = bridge.place(data, robot.standing_state()), robot.standing_reference().q
    for _ in range(500):
        bridge.actuate(data, 200.0 * (home - state.q[7:]) - 5.0 * state.v[6:])
        mujoco.mj_step(model, data)
        state = bridge.observe(data)
    assert state.forces.identity.tolist() == [0, 1, 2, 3]
    assert state.forces.force[:, 2].sum() == pytest.approx(9.81 * model.body_mass.sum(), rel=0.02)
    np.testing.assert_allclose(state.forces.normal, np.tile([0.0, 0.0, 1.0], (4, 1)), atol=1e-9)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"joints": {"FL_hip_joint": "FL_hop_joint"}}, "did you mean 'FL_hip_joint'"),
        ({"joints": {"FL_hip_joint": "FR_hip_joint"}}, "mm away from FL_hip_joint"),
        ({"feet": {"LF": "toe"}}, "no site, geom or body 'toe'"),
    ],
)
def test_a_model_with_mismatched_names_is_refused(model, robot, changes, line):
    with pytest.raises((InputError, UnknownName), match=line) as refused:
        Bridge(model, robot, **changes)
    assert "\n" not in str(refused.value)


def merged(model: mujoco.MjModel, robot) -> mujoco.MjModel:
    """The same robot by another maker: calves twice as heavy, joints and actuators in reverse order, gears of 9."""
    for calf in ("FL_calf", "FR_calf", "RL_calf", "RR_calf"):
        model.body(calf).mass *= 2.0
    model.actuator_trnid[:, 0] = model.actuator_trnid[::-1, 0].copy()
    model.actuator_gear[:, 0] = -9.0
    mujoco.mj_setConst(model, mujoco.MjData(model))
    return model


def test_contacts_that_push_before_they_touch_are_refused(model, robot):
    model.geom_margin[:] = 0.006
    Bridge(model, robot)
    foot = int(np.flatnonzero(model.geom_contype)[-1])
    model.geom_margin[foot] = 0.05
    with pytest.raises(InputError, match=rf"margin of 50 mm.*set model.geom_margin\[{foot}\] = 0"):
        Bridge(model, robot)


def test_other_masses_are_named_and_accepted_on_demand(model, robot):
    with pytest.raises(InputError, match=r"FL_calf .* different masses: .* other_masses=True") as refused:
        Bridge(merged(model, robot), robot)
    assert "\n" not in str(refused.value)
    model = merged(foreign.go1(), robot)
    bridge, data, tau = Bridge(model, robot, other_masses=True), mujoco.MjData(model), np.linspace(-9.0, 9.0, 12)
    assert [line.split()[0] for line in bridge.differences] == ["FL_calf", "FR_calf", "RL_calf", "RR_calf"]
    assert all("different masses" in line for line in bridge.differences)
    bridge.place(data, robot.standing_state())
    bridge.actuate(data, tau)
    mujoco.mj_forward(model, data)
    joints = [model.joint(name).dofadr[0] for name in robot.system().actuated_names]
    np.testing.assert_allclose(data.qfrc_actuator[joints], tau)


def test_accepted_masses_do_not_hide_a_different_axis(model, robot):
    model.jnt_axis[2] *= -1.0
    with pytest.raises(InputError, match="a different axis"):
        Bridge(model, robot, other_masses=True)


def test_a_robot_whose_base_floats_needs_a_free_joint(robot):
    spec = mujoco.MjSpec()
    body = spec.worldbody.add_body(name="leg")
    for name in robot.system().actuated_names:
        body = body.add_body(pos=[0.0, 0.0, 0.1], mass=1.0, inertia=[1.0, 1.0, 1.0])
        body.add_joint(name=name, type=mujoco.mjtJoint.mjJNT_HINGE)
    with pytest.raises(InputError, match="leg of the MuJoCo model has no free joint"):
        Bridge(spec.compile(), robot)


def soft(model: mujoco.MjModel, rotors: float) -> mujoco.MjModel:
    """Soft feet of 23 mm as in public models (MuJoCo Menagerie, unitree_go1), joints with rotors, no damping."""
    feet = model.geom_type == int(mujoco.mjtGeom.mjGEOM_SPHERE)
    model.geom_size[feet, 0], model.geom_solimp[feet, :3], model.geom_priority[feet] = 0.023, (0.015, 1.0, 0.022), 1
    model.dof_damping[6:], model.dof_armature[6:], model.dof_frictionloss[6:] = 0.0, rotors, 0.2
    return model


@pytest.mark.slow
def test_a_third_party_go1_trots():
    result = mujoco_go1.trot(foreign.go1(), 2.0)
    assert result["fell_at_s"] is None
    assert result["q_err_rad"] < 0.02  # damping in its joints that the controller does not know
    assert result["distance_m"] > 0.02  # it begins with a turn towards the first waypoint


@pytest.mark.slow
@pytest.mark.parametrize("rotors", [pytest.param(0.01, id="known"), pytest.param(0.02, id="twice the known")])
def test_a_go1_on_soft_feet_with_rotors_stands_to_the_end(rotors):
    result = mujoco_go1.trot(soft(foreign.go1(), rotors), 4.0)
    assert result["fell_at_s"] is None
    assert result["q_err_rad"] < 0.015


@pytest.mark.slow
def test_the_example_says_when_the_robot_fell():
    model = foreign.go1()
    model.geom_friction[:] = 0.0
    result = mujoco_go1.trot(model, 3.0)
    assert 0.1 < result["fell_at_s"] < 3.0
