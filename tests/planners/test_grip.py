"""A grip moves nothing, and can be added to any controller."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idcontrol.planners.grip import GrippingController, internal_force
from idcontrol.types import Command, ContactForces, State
from tests.planners import hands
from tests.planners.hands import SWING

pytestmark = pytest.mark.interpreted


@settings(deadline=None, max_examples=12)
@given(st.floats(0.1, 100.0), st.integers(0, 10**6))
def test_an_internal_force_is_balanced_on_any_body_and_by_the_arm(grip, seed):
    """For small errors in the positions of box and fingers, no force remains on the box or on the joints of the arm."""
    system, tips, q = hands.machine()
    rng = np.random.default_rng(seed)
    off = np.zeros(system.n_velocities)
    off[:6], off[13:] = 1e-3 * rng.standard_normal(6), 1e-3 * rng.standard_normal(4)
    system.update(system.integrate(q, off, 1.0), np.zeros(system.n_velocities))
    contacts = tips.detect(np.inf)
    force = internal_force(contacts, 6, grip)
    pull = contacts.jacobian.T @ force
    # rounding of forces of this size
    np.testing.assert_allclose(pull[:13], 0.0, atol=1e-12 * grip)
    # errors of two millimetres and a few degrees at most: every finger still presses
    assert (force[:4] > 0.8 * grip).all()


class FixedAnswer:
    """A controller that always returns the same command, and stores its inputs."""

    def __init__(self, command):
        self.command, self.seen = command, None

    def reset(self):
        self.seen = None

    def __call__(self, state, reference):
        self.seen = state
        return self.command


def forces(value):
    return ContactForces(
        identity=np.array([1, 3]), force=np.full((2, 3), value), normal=np.array([[0.0, 1.0, 0.0], [0.0, -1.0, 0.0]])
    )


def test_the_grip_adds_its_force_and_its_torque_and_hides_both_from_the_controller():
    system, tips, q = hands.machine()
    inner = FixedAnswer(Command(tau=np.arange(11.0), predicted=forces(1.0)))
    command = GrippingController(inner, system, tips, 2.0)(
        State(t=0.0, q=q, v=np.zeros(17), forces=forces(5.0)), SWING.at(0.0)
    )
    contacts = tips.detect(np.inf)
    # τ₀ = -J_qᵀ f₀ closes the fingers: 2 N at a lever of 0.05 cos(π/4) m, against the growing angle
    np.testing.assert_allclose(
        command.tau - np.arange(11.0), [0.0] * 7 + [-2.0 * 0.05 * np.cos(np.pi / 4)] * 4, atol=1e-12
    )
    added = 2.0 * contacts.axes[[1, 3], 0]
    np.testing.assert_allclose(command.predicted.force, 1.0 + added, atol=1e-12)
    np.testing.assert_allclose(inner.seen.forces.force, 5.0 - added, atol=1e-12)


def test_the_grip_stays_within_torque_limits_and_says_when_it_meets_them():
    system, tips, q = hands.machine()
    system.effort_limit[:] = 0.05
    command = GrippingController(FixedAnswer(Command(tau=np.zeros(11))), system, tips, 100.0)(
        State(t=0.0, q=q, v=np.zeros(17)), SWING.at(0.0)
    )
    assert command.clipped
    assert np.abs(command.tau).max() <= 0.05


def test_a_state_that_is_no_number_is_passed_to_the_controller():
    system, tips, q = hands.machine()
    inner = FixedAnswer(Command(tau=np.zeros(11)))
    state = State(t=0.0, q=q, v=np.full(17, np.nan))
    assert GrippingController(inner, system, tips, 2.0)(state, SWING.at(0.0)) is inner.command
    assert inner.seen is state
