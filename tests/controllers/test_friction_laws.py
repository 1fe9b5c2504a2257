"""Solved steps obey the friction law of their scheme, and the torque-rate limit.

The judge computes the motion from torques and forces alone, independently of the schemes.
"""

import numpy as np
import pytest
from msgspec import structs

from idcontrol.controllers.step import problem_of
from idcontrol.types import State, Status
from tests import scenes
from tests.controllers import walker

RATE = 500.0
EXACT = ("id-coulomb-lcp", "id-coulomb-smooth", "id-coulomb-cone")
"""Schemes that obey their law at every speed; in other schemes a contact that slips by up to 1 mm/s counts as at
rest."""
COULOMB = (*EXACT, "id-constraint")
DISSIPATION = ("id-coulomb-qp", "id-coulomb-qp-1", "id-coulomb-qp-raw")
CIRCLE = ("id-coulomb-cone", "id-sap")
ALONE = {"learn_friction": False, "learn_load": False, "impacts": False}
"""Settings without estimators, and without impacts in the predicted forces."""
NAMES = (*COULOMB, *DISSIPATION, "id-sap")


def judged(name, problem, cones, command):
    """Judge a step's forces by the law of its scheme.

    Returns:
        The number of loaded sliding feet; the largest relative deficit of frictional power; the largest power of normal
        forces that violates the law [W].
    """
    contacts, h, n, a = problem.contacts, problem.h, len(problem.contacts), command.tau.size
    f = np.einsum("iad,id->ai", contacts.axes, command.predicted.force)
    push = h * (contacts.jacobian.T @ f.ravel()) - problem.kappa
    push[-a:] += h * command.tau
    u = (contacts.jacobian @ np.linalg.solve(problem.M, push) - contacts.surface_velocity).reshape(3, n)
    along = np.abs(u[1:]).max(axis=0)
    slip = np.hypot(u[1], u[2]) if name in CIRCLE else along
    opens = np.abs(u[0]) if name in COULOMB else np.abs(u[0] - cones.mu * slip)
    slides = (along > (1e-6 if name in EXACT else 1e-3)) & (f[0] > 1e-3)
    must = cones.mu * f[0] * slip
    lacks = np.abs(must + f[1] * u[1] + f[2] * u[2])[slides] / must[slides]
    idle = slides if name in DISSIPATION else (f[0] > 1e-3) & (name in EXACT)
    return np.count_nonzero(slides), lacks.max(initial=0.0), (f[0] * opens)[idle].max(initial=0.0)


def storm(control, state, reference, rng, steps):
    """Yield problem, cones, command and torque change of each step: random demands, fading feet and a moving state."""
    last = None
    for k in range(steps):
        if k % 20 == 0:
            control.reset()
            last, v = None, rng.choice([0.0, 0.02, 0.2]) * rng.normal(size=state.v.size)
        ramps = np.where(rng.random(reference.stance.size) < 0.3, 0.02 * rng.random(reference.stance.size), np.inf)
        asked = structs.replace(
            reference, a=rng.choice([20.0, 150.0]) * rng.normal(size=reference.q.size), to_liftoff=ramps
        )
        now = State(t=k * scenes.H, q=state.q, v=v)
        assembled, command = control.problem(now, asked), control(now, asked)
        yield problem_of(assembled), assembled.cones, command, 0.0 if last is None else np.abs(command.tau - last).max()
        last = command.tau


def holds(name, steps, rate):
    """Assert the laws over many random steps; return the number of sliding feet."""
    sliding = 0
    for problem, cones, command, change in steps:
        fast = change > scenes.H * rate
        assert ("rate" in command.dropped) == (fast and name != "id-coulomb-qp-raw")
        if command.status is Status.SOLVED:
            feet, lacks, power = judged(name, problem, cones, command)
            sliding += feet
            # with compliance or with regularization, lightly loaded feet that hardly slide have less friction
            rigid = name in (*EXACT, "id-coulomb-qp", "id-coulomb-qp-raw")
            assert lacks < (1e-5 if rigid else 1e-3)
            assert power < (1e-5 if rigid else 1e-4)
    return sliding


@pytest.mark.covering
@pytest.mark.parametrize("project", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_solved_steps_obey_friction_law_and_torque_rate(quadruped, name, project):
    sliding, rng = 0, np.random.default_rng(0)
    for mu in (0.05, 0.15, 0.6):
        control = walker.controller(name, mu=mu, limits={"torque_rate": RATE}, project=project, **ALONE)
        sliding += holds(name, storm(control, walker.at_home(quadruped), walker.stand(), rng, 20), RATE)
    assert sliding > 5


def carrying_in_motion(problem, command):
    """Count loaded feet that slip faster than 1 mm/s, or open."""
    contacts, n, a = problem.contacts, len(problem.contacts), command.tau.size
    impulse = problem.h * np.einsum("iad,id->ai", contacts.axes, command.predicted.force)
    momentum = contacts.jacobian.T @ impulse.ravel() - problem.kappa
    momentum[-a:] += problem.h * command.tau
    u = (contacts.jacobian @ np.linalg.solve(problem.M, momentum) - contacts.surface_velocity).reshape(3, n)
    moves = (u[0] > 2e-6) | (np.abs(u[1:]).max(axis=0) > 1.001e-3)
    return np.count_nonzero(moves & impulse.any(axis=0))


@pytest.mark.parametrize("name", ["id-coulomb-qp", "id-coulomb-qp-1", "id-noslip-lcp", "id-sap"])
def test_feet_of_infinite_friction_that_slip_or_part_carry_no_force(quadruped, name):
    solved, rng = 0, np.random.default_rng(0)
    for project in (True, False):
        control = walker.controller(name, mu=np.inf, project=project, **ALONE)
        for problem, _, command, _ in storm(control, walker.at_home(quadruped), walker.stand(), rng, 60):
            if command.status is Status.SOLVED:
                solved += 1
                assert carrying_in_motion(problem, command) == 0
    assert solved > 20
