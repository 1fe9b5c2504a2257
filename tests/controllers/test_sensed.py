"""Inverse dynamics with sensed forces: balance, and growth of internal forces (`idcontrol.controllers.sensed`)."""

import numpy as np
import pytest

from idcontrol.bench.problems.machines import forward_step
from idcontrol.models import coulomb
from idcontrol.types import ContactForces, State, Status
from tests import scenes
from tests.controllers import walker

STEPS = 100


def standing_forces(system, mu, turned, steps=STEPS):
    """Forces of four feet, shape (steps, 4, 3) [N], while the demand turns hips by `turned`, which the feet prevent."""
    control = walker.controller("id-sensed-1", mu=mu)
    demand = np.zeros(12)
    demand[::3] = turned * np.sign(scenes.HOME[::3])
    reference = walker.stand(q=scenes.HOME + demand)
    q, v = scenes.home(system), np.zeros(18)
    sensed = walker.controller(mu=mu)(State(t=0.0, q=q, v=v), walker.stand()).predicted
    history = []
    for k in range(steps):
        tau = control(State(t=k * scenes.H, q=q, v=v, forces=sensed), reference).tau
        system.update(q, v)
        contacts = scenes.foot_contacts(system, mu)
        solution = coulomb.solve(forward_step(system, system.from_pinocchio(v), scenes.H * tau, contacts))
        force = contacts.force_world(solution.impulses, scenes.H)
        sensed = ContactForces(identity=contacts.identity, force=force, normal=contacts.axes[:, 0].copy())
        history.append(force)
        v = system.to_pinocchio(solution.v_plus)
        q = system.integrate(q, solution.v_plus, scenes.H)
    return np.array(history)


@pytest.mark.parametrize("mu", [0.7, np.inf])
def test_forces_under_the_actual_motion_are_unchanged(quadruped, mu):
    force = standing_forces(quadruped, mu, 0.0)
    # the home pose is rounded to a nanometre: 1e-5 of the forces that 0.005 rad cause in this time
    np.testing.assert_allclose(force, force[:1].repeat(STEPS, axis=0), rtol=0, atol=2.5e-5)


def test_sticking_feet_integrate_forbidden_demands_as_internal_forces(quadruped):
    slow, fast = (standing_forces(quadruped, np.inf, turned)[:, 0, 1] for turned in (0.005, 0.01))
    grown, more = np.diff(slow), np.diff(fast)
    assert np.all(more < 0.0)  # inwards, without end
    # proportional to time and to the demand, except for the millimetre by which the base moves
    np.testing.assert_allclose(more, more.mean(), rtol=0.02)
    np.testing.assert_allclose(more, 2.0 * grown, rtol=0.02)


def test_friction_bounds_the_integrated_internal_forces(quadruped):
    mu, most = 0.7, 0.0
    for force in standing_forces(quadruped, mu, 0.02, steps=150)[100:]:
        side = np.abs(force[:, :2]).sum(axis=1)
        assert np.all(side <= mu * force[:, 2] * (1.0 + 1e-9))
        most = max(most, float((side / force[:, 2]).max()))
    assert most == pytest.approx(mu, rel=1e-6)
    endless = standing_forces(quadruped, np.inf, 0.02, steps=150)[-1]
    assert np.abs(endless[:, 1]).max() > 1.5 * mu * walker.WEIGHT / 4


def test_sensed_torques_are_clipped_and_reported(quadruped):
    state, far = walker.at_home(quadruped), walker.stand(q=scenes.HOME + 1.0)
    command = walker.controller("id-sensed-1", limit=0.5)(state, far)
    assert np.abs(command.tau).max() == 0.5
    assert (command.clipped, command.status) == (True, Status.REPAIRED)
    free = walker.controller("id-sensed-1", limit=1e6)(state, far)
    np.testing.assert_array_equal(command.tau, np.clip(free.tau, -0.5, 0.5))
