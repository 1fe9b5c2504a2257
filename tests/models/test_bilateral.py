"""Bilateral rows in every model, forward and inverse: a closed loop that holds, and compliance that yields."""

from dataclasses import replace

import numpy as np
import pytest

from idcontrol.bench.judge import unbalanced
from idcontrol.models import acceleration, dissipation
from idcontrol.models.acceleration import AccelerationProblem
from idcontrol.models.step import Bilateral, Prescribed
from idcontrol.types import Status
from tests import scenes
from tests.models import test_degenerate as degenerate
from tests.models.test_degenerate import both_directions

MODELS = degenerate.MODELS | {"dissipation, printed": dissipation.solve_printed}
every_model = pytest.mark.parametrize("name", MODELS)

PUSHED = 0.02
"""Target speed of the loops [m/s]."""


def loop(system, compliance, target=PUSHED):
    """Return the left front foot tied, along x, to a moving cart: one row over base and leg."""
    contacts = scenes.foot_contacts(system, 0.7, feet=(0,))
    return Bilateral(rows=contacts.S.copy(), target=np.array([target]), compliance=np.array([compliance]))


def step(system, inverse, mu=0.7):
    """Return a step on three feet with the fourth tied; joints keep still (inverse) or are slack (forward)."""
    v = scenes.moving(system, np.random.default_rng(2), speed=0.02)
    v[2] -= 0.1  # feet press
    contacts = replace(scenes.foot_contacts(system, mu, feet=(1, 2, 3)), damping=np.full(3, 40.0))
    return degenerate.step(system, v, contacts, inverse)


def tie_impulse(problem, solution):
    """Return the impulse of the row by the momentum balance of the unknown velocities, and the balance error."""
    free = np.arange(problem.M.shape[0])
    if problem.prescribed is not None:
        free = np.setdiff1d(free, problem.prescribed.index)
    rest = problem.M @ solution.v_plus + problem.kappa - problem.contacts.jacobian.T @ solution.impulses.T.ravel()
    row = problem.bilateral.rows[0]
    g = float(row[free] @ rest[free]) / float(row[free] @ row[free])
    return g, rest - row * g


@every_model
@both_directions
def test_a_closed_loop_holds_beside_contacts_and_momentum_is_balanced(quadruped, name, inverse):
    problem = step(quadruped, inverse)
    problem = replace(problem, bilateral=loop(quadruped, 0.0))
    solution = MODELS[name](problem, None)
    # three feet and a tie are more than a body with still joints can always obey without slip; the status reports it
    assert solution.status in ((Status.SOLVED, Status.REPAIRED) if name.startswith("no slip") else (Status.SOLVED,))
    assert problem.bilateral.rows @ solution.v_plus == pytest.approx([PUSHED], abs=1e-9)
    assert solution.impulses[:, 0].max() > 0.0
    assert np.abs(unbalanced(problem, solution)).max() <= 1e-9 * np.abs(problem.kappa).max()


@pytest.mark.covering
@every_model
@both_directions
@pytest.mark.parametrize("compliance", [1e-3, 1.0])
def test_a_soft_loop_yields_by_its_compliance_times_its_impulse(quadruped, name, inverse, compliance):
    problem = step(quadruped, inverse)
    problem = replace(problem, bilateral=loop(quadruped, compliance))
    solution = MODELS[name](problem, None)
    assert solution.status in ((Status.SOLVED, Status.REPAIRED) if name.startswith("no slip") else (Status.SOLVED,))
    g, missed = tie_impulse(problem, solution)
    if inverse:
        missed[problem.prescribed.index] -= solution.multipliers
    assert np.abs(missed).max() <= 1e-9 * np.abs(problem.kappa).max()
    gave = PUSHED - float(problem.bilateral.rows[0] @ solution.v_plus)
    # the row of unit length has about 1e-2 m/s: rounding of the balance, through the compliance
    assert gave == pytest.approx(compliance * g, rel=1e-6, abs=1e-10)
    assert abs(g) > 1e-9


def test_the_printed_objective_pulls_a_soft_row_to_rest_however_stiff_it_is(quadruped):
    """Half (row v⁺)² / C is part of the objective, which depends on a moving target only through the rows."""
    problem = step(quadruped, inverse=True)
    rigid, stiff, stiffer = (
        dissipation.solve_printed(replace(problem, bilateral=loop(quadruped, compliance))).v_plus
        for compliance in (0.0, 1e-6, 1e-9)
    )
    scale = np.abs(rigid).max()
    assert np.abs(stiff - rigid).max() > 0.5 * scale
    assert np.abs(stiffer - stiff).max() < 1e-4 * scale


@both_directions
@pytest.mark.parametrize("compliance", [0.0, 0.1])
def test_loops_at_acceleration_level_hold_or_yield(quadruped, standing, inverse, compliance):
    tie = replace(loop(quadruped, compliance), target=np.array([0.5]))
    problem = AccelerationProblem(
        M=quadruped.M.copy(),
        force=-quadruped.bias,
        v=np.zeros(18),
        contacts=scenes.foot_contacts(quadruped, 0.3, feet=(1, 2, 3)),
        drift=np.zeros(9),
        prescribed=Prescribed(index=np.arange(6, 18), velocity=np.zeros(12)) if inverse else None,
        bilateral=tie,
    )
    solution = acceleration.solve(problem)
    assert solution.status is Status.SOLVED
    rest = problem.M @ solution.acceleration - problem.force - problem.contacts.jacobian.T @ solution.forces.T.ravel()
    row, free = tie.rows[0], np.arange(6 if inverse else 18)
    g = float(row[free] @ rest[free]) / float(row[free] @ row[free])
    rest -= row * g
    if inverse:
        rest[6:] -= solution.torque
    assert np.abs(rest).max() < 1e-7  # forces are about 50 N
    assert 0.5 - row @ solution.acceleration == pytest.approx(compliance * g, rel=1e-6, abs=1e-8)
