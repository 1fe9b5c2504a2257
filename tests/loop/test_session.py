"""Controllers by name, and one's own by module and name."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from idcontrol.errors import InputError, UnknownName
from idcontrol.loop.session import make_controller, wire_format
from idcontrol.scenes.walk import WalkConfig
from idcontrol.types import Command
from tests.loop.rig import ArmSession, Pd
from tests.scenes import loops

SETUP = ArmSession().setup()


class WithoutArguments:
    def reset(self):
        pass

    def __call__(self, state, reference):
        return Command(tau=np.zeros(2))


class WithSetup(WithoutArguments):
    def __init__(self, setup):
        self.setup = setup


def factory(setup):
    return WithSetup(setup)


ready = WithoutArguments()
number = 3


class NoReset:
    def __call__(self, state, reference):
        return Command(tau=np.zeros(2))


def own(name):
    return f"tests.loop.test_session:{name}"


def test_a_class_without_arguments_a_class_of_the_setup_and_a_function_all_make_controllers():
    assert isinstance(make_controller(own("WithoutArguments"), SETUP), WithoutArguments)
    for name in ("WithSetup", "factory"):
        assert make_controller(own(name), SETUP).setup is SETUP


def test_an_object_that_is_a_controller_is_taken_as_it_is():
    assert make_controller(own("ready"), SETUP) is ready


def test_a_module_in_the_working_directory_is_found(tmp_path, monkeypatch):
    (tmp_path / "my_own_law.py").write_text(
        "class Law:\n    def reset(self): pass\n    def __call__(self, state, reference): return None\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert type(make_controller("my_own_law:Law", SETUP)).__name__ == "Law"


def test_a_module_with_a_mistake_is_refused_in_one_line(tmp_path, monkeypatch):
    (tmp_path / "my_mistaken_law.py").write_text("def law(:\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(InputError, match=r"my_mistaken_law.py, line 1"):
        make_controller("my_mistaken_law:law", SETUP)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("no.such.module:Law", "No module named"),
        (own("Missing"), "Missing"),
        (own("number"), "it is a int"),
        (own("NoReset"), "no reset"),
    ],
)
def test_what_gives_no_controller_is_refused_in_one_line(name, line):
    with pytest.raises(InputError, match=line):
        make_controller(name, SETUP)


def test_other_names_are_those_of_the_registry():
    with pytest.raises(UnknownName, match="id-coulomb-qp"):
        make_controller("id-coulomb-pq", SETUP)


@pytest.mark.parametrize("robot", ["links", "go1", "solo12", "anymal"])
def test_every_walking_robot_fits_the_wire_and_has_finite_limits(robot):
    session = loops.walk.session(WalkConfig(robot=robot))
    wire, limits = wire_format(session), session.limits
    values = np.empty(wire.state_values)
    wire.write_state(values, session.start, np.zeros(12), np.zeros(3))
    low, high = wire.state_range()
    assert ((low <= values) & (values <= high)).all()
    for field in (limits.torque, limits.torque_rate, limits.speed, limits.damping):
        assert np.isfinite(field).all()
        assert (field > 0).all()
    joints = session.system.joint_positions(session.start.q)
    assert ((limits.low < joints) & (joints < limits.high)).all()


def test_the_gate_of_a_robot_has_the_limits_that_its_makers_give():
    session = loops.walk.session(WalkConfig(robot="go1"))
    limits, torque = session.limits, np.tile([23.7, 23.7, 35.55], 4)
    np.testing.assert_array_equal(limits.torque, torque)
    np.testing.assert_array_equal(wire_format(session).torque_limit, torque)
    np.testing.assert_array_equal(limits.torque_rate, 400.0 * torque)
    np.testing.assert_array_equal(limits.speed, np.tile([30.1, 30.1, 20.06], 4))
    np.testing.assert_array_equal(limits.low, np.tile([-0.863, -0.686, -2.818], 4))
    np.testing.assert_array_equal(limits.high, np.tile([0.863, 4.501, -0.888], 4))


def test_the_arm_of_these_tests_is_a_session_too():
    assert wire_format(ArmSession()).n_feet == 0
    assert isinstance(make_controller("tests.loop.rig:Pd", SETUP), Pd)
