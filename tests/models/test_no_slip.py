"""The no-slip model: its laws, the general form of math.md 3 as oracle, and steps without a motion."""

from dataclasses import replace

import numpy as np
import pytest

from idcontrol.bench.judge import unbalanced
from idcontrol.bench.problems.machines import forward_step, inverse_step
from idcontrol.controllers.projection import project
from idcontrol.kernels.arena import HEAP
from idcontrol.models import no_slip
from idcontrol.models.distribution import Cones, smallest_torque
from idcontrol.models.step import SQUEEZE, Bilateral, Prescribed, StepProblem
from idcontrol.models.sticking import MOVING, NOTES
from idcontrol.models.whitened import recover, whiten
from idcontrol.solvers.status import SOLVED
from idcontrol.types import Status
from tests import scenes
from tests.models import oracles
from tests.scenes import by_hand


def allowed(system, v, contacts, b):
    """Return b projected onto the velocities for which closed contacts rest (math.md 12.1)."""
    closed = contacts.take(contacts.gap <= 1e-5)
    return project(system.M, closed.jacobian, closed.surface_velocity, b)


def moving_problem(system, rng, *, tilt=0.26, inverse=True, feet=(0, 1, 2, 3), airborne=0.25):
    """Return a moving state on uneven ground with large demands.

    Each foot is airborne with the probability `airborne`.
    """
    v = scenes.moving(system, rng)
    n = len(feet)
    gap = np.where(rng.random(n) < airborne, rng.uniform(1e-4, 5e-3, n), 0.0)
    contacts = scenes.foot_contacts(
        system, 0.5, normals=scenes.tilted(rng, n, tilt), gap=gap, feet=feet, angle=rng.uniform(0, np.pi)
    )
    if not inverse:
        return forward_step(system, v, scenes.H * rng.normal(scale=5.0, size=12), contacts)
    b = allowed(system, v, contacts, v[6:] + scenes.H * rng.normal(scale=30.0, size=12))
    return inverse_step(system, v, b, contacts)


def distributed(problem, solution):
    """Contact impulses (n, 3) and motor impulses after the distribution of math.md 4.3."""
    reduction, n = whiten(problem), len(problem.contacts)
    cones = Cones(problem.contacts.mu, problem.contacts.gap <= 1e-5, np.zeros(n), 1e-3)
    y, better = smallest_torque(reduction, cones, solution.impulses.T.ravel(), solution.multipliers)
    assert better
    rigid = np.zeros(reduction.rho.shape[0] - 3 * n)
    return y.reshape(3, n).T, recover(reduction, np.concatenate((y, rigid)))[1]


@pytest.mark.covering
@pytest.mark.parametrize("inverse", [True, False])
@pytest.mark.parametrize("tilt", [0.0, 0.02, 0.26])
def test_velocity_is_that_of_the_general_form_and_the_torque_balances_it(quadruped, tilt, inverse):
    rng = np.random.default_rng(0)
    solved = 0
    for _ in range(25):
        problem = moving_problem(quadruped, rng, tilt=tilt, inverse=inverse)
        solution = no_slip.solve(problem)
        expected = oracles.no_slip(problem)
        if expected is None:
            continue
        solved += 1
        v_plus, kept = expected
        # 1e-9 is the error of the general form, which inverts matrices of condition 1e6 and more (math.md 4.2)
        np.testing.assert_allclose(solution.v_plus, v_plus, rtol=0, atol=1e-9 * max(1.0, np.abs(v_plus).max()))
        impulse = max(1.0, np.abs(solution.impulses).max())
        np.testing.assert_allclose(unbalanced(problem, solution), 0.0, atol=1e-11 * impulse)
        n = len(problem.contacts)
        bits = {n * axis + i for i in range(n) for axis in (1, 2) if solution.warm[i] >> axis & 1}
        assert bits == set(kept)
    # beyond rank 5 the brute force can take its own rounding for a contradiction
    assert solved >= 23


@pytest.mark.parametrize("inverse", [True, False])
@pytest.mark.parametrize("compliance", [(0.0, 0.0), (0.3, 2.0), (0.0, 0.5, 0.0)])
def test_bilateral_rows_enter_as_in_the_general_form(quadruped, compliance, inverse):
    """Rigid rows join the basis first, soft rows join the inertia (math.md 3)."""
    rng = np.random.default_rng(1)
    k = len(compliance)
    for _ in range(10):
        problem = moving_problem(quadruped, rng, tilt=0.0, inverse=inverse, feet=(0, 3))
        ties = Bilateral(
            rows=0.3 * rng.normal(size=(k, 18)), target=0.1 * rng.normal(size=k), compliance=np.array(compliance)
        )
        problem = replace(problem, bilateral=ties)
        solution = no_slip.solve(problem)
        expected = oracles.no_slip(problem)
        if solution.status is Status.FALLBACK:
            assert expected is None
            continue
        if expected is not None:
            v_plus, _ = expected
            np.testing.assert_allclose(solution.v_plus, v_plus, rtol=0, atol=1e-8 * max(1.0, np.abs(v_plus).max()))
        else:  # trying roles finds no answer, the search finds one
            assert solution.status is Status.SOLVED
            motion = (problem.contacts.jacobian @ solution.v_plus).reshape(3, -1)
            assert np.abs(motion[:, solution.impulses[:, 0] > 0.0]).max(initial=0.0) < 1e-8
        impulse = max(1.0, np.abs(solution.impulses).max())
        np.testing.assert_allclose(unbalanced(problem, solution), 0.0, atol=1e-10 * impulse)


@pytest.mark.parametrize("inverse", [True, False])
def test_pivoting_and_the_dual_active_set_agree(quadruped, inverse):
    rng = np.random.default_rng(3)
    for _ in range(50):
        problem = moving_problem(quadruped, rng, inverse=inverse)
        one = no_slip.solve(problem)
        other = no_slip.solve_whitened(problem, whiten(problem), None, dual=True)
        assert one.status is other.status
        np.testing.assert_allclose(one.v_plus, other.v_plus, rtol=0, atol=1e-10 * max(1.0, np.abs(one.v_plus).max()))


@pytest.mark.interpreted
@pytest.mark.parametrize("inverse", [True, False])
def test_the_compiled_search_finds_the_motion_of_the_whole_solution(quadruped, inverse):
    rng = np.random.default_rng(20)
    for _ in range(30):
        problem = moving_problem(quadruped, rng, inverse=inverse, airborne=0.5)
        contacts, w = problem.contacts, whiten(problem)
        expected = contacts.jacobian[: len(contacts)] @ no_slip.solve(problem).v_plus + contacts.gap / problem.h
        closed = contacts.gap <= 1e-5
        answer, _ = no_slip.settled_kernel(w, no_slip.OPENING, closed, closed, HEAP)
        assert answer.number == SOLVED
        velocities = (w.c + w.rho @ (w.rho.T @ answer.f))[: len(contacts)]
        np.testing.assert_allclose(velocities, expected, rtol=0, atol=1e-9 * np.abs(expected).max() + 1e-12)


@pytest.mark.parametrize("degrees", [1.0, 5.0])
def test_on_tilted_ground_only_distributed_forces_carry_the_weight(quadruped, standing, degrees):
    """Tangential rows of rank 6 hold the machine alone, until the forces are distributed (math.md 4.3)."""
    rng = np.random.default_rng(4)
    weight = quadruped.mass * 9.81
    raw, spread, torque = [], [], []
    for _ in range(20):
        normals = scenes.tilted(rng, 4, np.radians(degrees))
        problem = inverse_step(quadruped, standing, np.zeros(12), scenes.foot_contacts(quadruped, 0.6, normals=normals))
        solution = no_slip.solve(problem)
        assert solution.status is Status.SOLVED
        impulses, motor = distributed(problem, solution)
        raw.append(solution.impulses[:, 0].sum() / scenes.H)
        spread.append(impulses[:, 0].sum() / scenes.H)
        torque.append(np.abs(motor).max() / scenes.H)
    np.testing.assert_allclose(spread, weight, rtol=0.10)
    assert min(raw) < 0.9 * weight
    # torques are as large as for standing on level ground, 0.72 N m in math.md's table for half the weight
    assert max(torque) < 3.0


def test_a_foot_that_lifts_is_not_pulled_sideways(quadruped, standing):
    contacts = scenes.foot_contacts(quadruped, 0.6)
    # the first leg folds, so that its foot leaves the ground, and slides while it does
    b = np.zeros(12)
    lifting = np.linalg.lstsq(contacts.jacobian[[0, 4, 8], 6:], np.array([0.1, 0.2, -0.1]), rcond=None)[0]
    b += lifting
    solution = no_slip.solve(inverse_step(quadruped, standing, b, contacts))
    normal, s, _ = (contacts.jacobian @ solution.v_plus).reshape(3, 4)
    assert solution.status is Status.SOLVED
    assert normal[0] > 0.05
    assert abs(s[0]) > 0.05
    assert not solution.impulses[0].any()
    assert np.abs(s[1:]).max() < 1e-9


def test_footholds_that_the_joints_contradict_are_reported(quadruped, standing):
    rng = np.random.default_rng(7)
    contacts = scenes.foot_contacts(quadruped, 0.6)
    b = 5e-3 * rng.normal(size=12)
    solution = no_slip.solve(inverse_step(quadruped, standing, b, contacts))
    normal, s, t = (contacts.jacobian @ solution.v_plus).reshape(3, 4)
    pressed = solution.impulses[:, 0] > 0.0
    assert pressed.sum() >= 2
    assert max(np.abs(s[pressed]).max(), np.abs(t[pressed]).max()) > 1e-6
    assert normal.min() > -1e-9
    assert solution.status is Status.REPAIRED
    assert solution.note == MOVING


# --- degenerate cases of this model; common cases are in test_degenerate ---


@pytest.mark.parametrize("mu", [0.0, 0.7, np.inf])
def test_friction_coefficients_are_not_used(quadruped, mu):
    rng = np.random.default_rng(9)
    problem = moving_problem(quadruped, rng)
    other = replace(problem, contacts=replace(problem.contacts, mu=np.full(4, mu)))
    np.testing.assert_array_equal(no_slip.solve(other).v_plus, no_slip.solve(problem).v_plus)


def gripper(closing):
    """Return a box of 1 kg between two prescribed fingers that close at `closing` [m/s]; order: box, fingers."""
    jacobian = np.zeros((6, 3))
    jacobian[0] = [1.0, -1.0, 0.0]
    jacobian[1] = [-1.0, 0.0, 1.0]
    contacts = by_hand(jacobian, 0.5)
    return StepProblem(
        h=1e-3,
        M=np.eye(3),
        kappa=np.zeros(3),
        contacts=contacts,
        prescribed=Prescribed(index=np.array([1, 2]), velocity=np.array([closing, -closing])),
    )


@pytest.mark.interpreted
def test_the_search_for_closed_contacts_reports_conflicting_velocities():
    closed = np.ones(2, dtype=np.bool_)
    answer, note = no_slip.settled_kernel(whiten(gripper(0.1)), no_slip.OPENING, closed, closed, HEAP)
    assert answer.number != SOLVED
    assert NOTES[note] == SQUEEZE


@pytest.mark.parametrize("dual", [False, True], ids=["pivoting", "dual"])
def test_a_lifted_foot_frees_a_foot_with_conflicting_tangents(dual):
    """The first foot drags a body at x = 0.1, which moves the second foot off its wall.

    If the second foot did not lift off, it would drag the body at y = 0.1 against the third foot's wall.
    """
    x, y, z, none = *np.eye(3), np.zeros(3)
    rho = np.array([z, x, -y, x, y, none, none, none, none])
    c = np.array([-0.05, 0.0, 0.0, -0.1, -0.1, 0.0, 0.0, 0.0, 0.0])
    closed, active, f = np.array([True, True, False]), np.zeros(3, dtype=np.int64), np.empty(9)
    number, *_ = no_slip.no_slip_kernel(rho, c, np.zeros(9), closed, active, dual, f, HEAP)
    assert number == SOLVED
    np.testing.assert_array_equal(f, [0.05, 0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(active, [3, 0, 0])


def test_a_loop_that_the_prescribed_joints_break_is_reported(quadruped, standing):
    """A rigid row on a prescribed joint, whose target differs from the joint's velocity, cannot hold."""
    row = np.zeros((1, 18))
    row[0, 7] = 1.0
    ties = Bilateral(rows=row, target=np.array([0.5]), compliance=np.zeros(1))
    problem = inverse_step(quadruped, standing, np.zeros(12), scenes.foot_contacts(quadruped, 0.6))
    assert no_slip.solve(replace(problem, bilateral=ties)).status is Status.REPAIRED
