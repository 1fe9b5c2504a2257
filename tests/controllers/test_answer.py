"""Answers of controllers that are not commands are refused with the reason."""

from types import SimpleNamespace

import numpy as np
import pytest
from msgspec import structs

from idcontrol.controllers.answer import check_command, check_finite
from idcontrol.controllers.feedback import Gains
from idcontrol.controllers.impedance import Impedance
from idcontrol.controllers.pid import Beside
from idcontrol.errors import InputError
from idcontrol.types import Command, ContactForces, Reference, State, Status

STATE = State(t=0.25, q=np.zeros(3), v=np.zeros(3))
REFERENCE = Reference.standing(np.zeros(3), 2)
TAU = np.ones(3)


def forces(identity, force):
    return ContactForces(identity=identity, force=force, normal=force)


WRONG = [
    (None, "NoneType; return a Command"),
    (TAU, "ndarray; return a Command"),
    (Command(tau=None), "tau of type object"),
    (Command(tau=np.array(["1", "2", "3"])), "tau of type str32"),
    (Command(tau=TAU * 1j), "tau of type complex128"),
    (Command(tau=TAU > 0.0), "tau of type bool"),
    (Command(tau=[1.0, [2.0], 3.0]), "tau that is no array of 3 numbers"),
    (Command(tau=np.ones(2)), r"tau of shape \(2,\), not \(3,\)"),
    (Command(tau=np.ones((3, 1))), r"tau of shape \(3, 1\), not \(3,\)"),
    (Command(tau=TAU, q=np.ones(2), v=TAU, kp=TAU, kd=TAU), r"q of shape \(2,\), not \(3,\)"),
    (Command(tau=TAU, status="SOLVED"), "status of type str; it must be a Status"),
    (Command(tau=TAU, status=7), "status of type int; it must be a Status"),
    (Command(tau=TAU, residual="none"), "residual of type str; it must be a number"),
    (Command(tau=TAU, gap=None), "gap of type NoneType; it must be a number"),
    (Command(tau=TAU, clipped=None), "clipped of type NoneType; it must be True or False"),
    (Command(tau=TAU, dropped="rate"), "dropped of type str; it must be a tuple of words"),
    (Command(tau=TAU, solved_by=1), "solved_by of type int; it must be a word or None"),
    (Command(tau=TAU, predicted=np.zeros((2, 3))), "predicted of type ndarray"),
    (Command(tau=TAU, predicted=forces(np.array([2]), np.zeros((1, 3)))), r"identity \[2\]; the 2 feet are numbered"),
    (Command(tau=TAU, predicted=forces(np.array([0, 1]), np.zeros((1, 3)))), r"force of shape \(1, 3\) at"),
    (Command(tau=TAU, predicted=forces(np.array([0.5]), np.zeros((1, 3)))), r"force of shape \(1, 3\) at"),
]


@pytest.mark.parametrize(("answer", "words"), WRONG)
def test_an_invalid_command_is_refused_with_its_fault(answer, words):
    with pytest.raises(InputError, match=r"^at 0\.250 s the controller returned .*" + words):
        check_command(answer, None, STATE, joints=3, feet=2)


@pytest.mark.parametrize(
    "change",
    [
        {"tau": [1, 2, 3]},
        {"tau": np.ones(3, dtype=np.float32), "status": Status.FAILED, "residual": np.float32(0.0), "gap": 0},
        {"tau": TAU * np.nan, "dropped": ["rate"], "clipped": np.True_, "solved_by": "mine"},
        {"predicted": ContactForces.none()},
        {"predicted": forces([1], [[0.0, 0.0, 1.0]])},
        {"q": TAU, "v": TAU, "kp": TAU, "kd": TAU},
    ],
)
def test_a_command_of_any_real_numbers_passes(change):
    check_command(structs.replace(Command(tau=TAU), **change), None, STATE, joints=3, feet=2)


@pytest.mark.parametrize("tau", [TAU * np.nan, [0.0, np.inf, 0.0]])
def test_torques_that_are_not_finite_are_refused(tau):
    check_finite(Command(tau=TAU), None, STATE)
    with pytest.raises(InputError, match=r"at 0\.250 s the controller returned torques that are not finite"):
        check_finite(Command(tau=tau), None, STATE)


def test_the_controller_within_another_is_checked_before_its_answer_is_used():
    gains, system = Gains(kp=TAU, kd=TAU), SimpleNamespace(n_actuated=3)
    for around in (Impedance(lambda *_: None, gains, 1e-3), Beside(lambda *_: None, system, gains)):
        with pytest.raises(InputError, match="returned NoneType; return a Command"):
            around(STATE, REFERENCE)


def test_arrays_of_a_sealed_state_and_reference_cannot_become_writable():
    felt = forces(np.array([0]), np.ones((1, 3)))
    state, reference = structs.replace(STATE, forces=felt).sealed(), REFERENCE.sealed()
    arrays = [state.q, state.v, state.forces.identity, state.forces.force, state.forces.normal]
    arrays += [value for value in structs.astuple(reference) if isinstance(value, np.ndarray)]
    assert len(arrays) == 13
    for array in arrays:
        with pytest.raises(ValueError, match="cannot set WRITEABLE flag"):
            array.setflags(write=True)
    np.testing.assert_array_equal(state.forces.force, felt.force)
    assert state.forces.identity.dtype == np.int64
    np.testing.assert_array_equal(reference.feet, REFERENCE.feet)
    assert structs.replace(STATE, forces=ContactForces.none()).sealed().forces.force.shape == (0, 3)
