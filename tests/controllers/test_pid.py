"""Joint-space feedback alone."""

import numpy as np
import pytest
from msgspec import structs

from idcontrol.types import State, Status
from tests import scenes
from tests.controllers import walker


def errors(system, rng):
    """A state and a reference that differs from it."""
    q = system.configuration(scenes.HOME + 0.1 * rng.normal(size=12), scenes.home(system)[:7])
    state = State(t=0.0, q=q, v=rng.normal(size=18))
    return state, walker.stand(q=scenes.HOME + 0.1 * rng.normal(size=12), v=rng.normal(size=12))


def test_torque_is_proportional_to_the_errors_of_position_and_velocity(quadruped):
    state, reference = errors(quadruped, np.random.default_rng(0))
    command = walker.controller("pid")(state, reference)
    gains = walker.TORQUE_GAINS
    expected = gains.kp * (reference.q - state.q[7:]) + gains.kd * (reference.v - state.v[6:])
    np.testing.assert_allclose(command.tau, expected, rtol=0, atol=1e-12)
    assert command.status is Status.SOLVED
    assert not command.clipped
    assert command.predicted is None


def test_torque_is_clipped_joint_by_joint_and_reported(quadruped):
    state, reference = errors(quadruped, np.random.default_rng(1))
    free = walker.controller("pid")(state, reference).tau
    limit = float(np.median(np.abs(free)))
    command = walker.controller("pid", limit=limit)(state, reference)
    assert command.clipped
    np.testing.assert_array_equal(command.tau, np.clip(free, -limit, limit))


@pytest.mark.parametrize("name", ["id-coulomb-qp", "id-sensed-1"])
def test_beside_another_controller_the_torques_add_up_and_are_clipped_once(quadruped, name):
    state, reference = errors(quadruped, np.random.default_rng(2))
    inverse, feedback = walker.controller(name)(state, reference), walker.controller("pid")(state, reference)
    command = walker.controller(name, beside=True)(state, reference)
    np.testing.assert_allclose(command.tau, inverse.tau + feedback.tau, rtol=0, atol=1e-12)
    limit = float(np.median(np.abs(command.tau)))
    clipped = walker.controller(name, beside=True, limit=limit)(state, reference)
    assert clipped.clipped
    assert np.abs(clipped.tau).max() == limit


def test_beside_a_controller_that_has_failed_no_feedback_acts(quadruped):
    state, reference = errors(quadruped, np.random.default_rng(3))
    command = walker.controller("id-coulomb-qp", beside=True)(state, structs.replace(reference, q=np.full(12, np.nan)))
    assert command.status is Status.FAILED
    np.testing.assert_array_equal(command.tau, 0.0)
