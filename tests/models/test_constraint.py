"""The constraint solver: springs integrated implicitly, unilateral ones, contact with friction (math.md 11)."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from idcontrol.bench.judge import unbalanced
from idcontrol.contact.contacts import Contacts, concatenate
from idcontrol.errors import InputError
from idcontrol.kernels.arena import HEAP
from idcontrol.models import constraint
from idcontrol.models.constraint import solver, unilateral
from idcontrol.models.step import StepProblem
from idcontrol.models.whitened import whiten
from idcontrol.types import Status
from tests import scenes
from tests.models.test_no_slip import gripper, moving_problem
from tests.parameters import solved
from tests.scenes import by_hand

G = 9.81


def unilateral_rows(G_rows, gap, stiffness, damping):
    """Contacts without friction along the given rows."""
    n, m = G_rows.shape
    jacobian = np.vstack((G_rows, np.zeros((2 * n, m))))
    return by_hand(jacobian, 0.0, gap, stiffness=stiffness, damping=damping)


def random_machine(rng, m):
    """A well-conditioned inertia, a velocity and a force."""
    A = rng.normal(size=(m, m))
    return A @ A.T + m * np.eye(m), rng.normal(size=m), 10.0 * rng.normal(size=m)


@pytest.mark.parametrize("mu", [0.0, 0.3, 1.0, 1.7])
def test_the_kernel_for_closed_contacts_finds_what_solve_finds(mu):
    rng, stiffness, damping = np.random.default_rng(5), 1e5, 50.0
    for _ in range(20):
        M, v, force = random_machine(rng, 6)
        J = rng.normal(size=(6, 6))
        contacts = by_hand(J, mu, stiffness=stiffness, damping=damping)
        problem = StepProblem(h=1e-3, M=M, kappa=-M @ v - 1e-3 * force, contacts=contacts)
        f = np.zeros(6)
        solver.closed_kernel(1e-3, (stiffness, damping), whiten(problem), contacts.mu, f, HEAP)
        dense = constraint.solve(problem)
        np.testing.assert_allclose(f.reshape(3, 2).T, dense.impulses, rtol=0, atol=1e-9 * np.abs(f).max(initial=1.0))
        assert mu == 0.0 or not dense.impulses[:, 0].any() or dense.impulses[:, 1:].any()


def test_a_body_at_rest_stays_held_next_to_a_body_a_thousand_kilometres_deep():
    """Pivoting alone mistakes this body's motion for rounding. Weight is 9.81 mN s per step, drag half of it."""
    stiffness, g, slope, v = 1e9, np.array([0.0, 0.0, -9.81] * 2), 0.5, np.array([0.1, 0.0, 0.0, 0.1, 0.05, 0.0])
    J = np.zeros((6, 6))
    J[[0, 2, 4], [2, 0, 1]] = J[[1, 3, 5], [5, 3, 4]] = 1.0  # normals along z, tangents along x and y
    contacts = by_hand(J, slope, np.array([-1e6, -9.81 / stiffness]), stiffness=stiffness, damping=0.0)
    dense = solved(constraint.solve(StepProblem(h=1e-3, M=np.eye(6), kappa=-v - 1e-3 * g, contacts=contacts)))
    np.testing.assert_allclose(dense.impulses[1], [9.81e-3, -4.905e-3, 0.0], rtol=1e-6, atol=1e-12)


# -- bilateral --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stiffness", [1e3, 1e8, 1e12, 1e15])
@pytest.mark.parametrize("h", [1e-4, 1e-1])
def test_a_mass_on_a_spring_moves_as_in_implicit_euler(stiffness, h):
    """Against exact fractions; v⁺ = (m v + h (f - K x)) / (m + hB + h²K)."""
    m, B, x, v, f = 2.0, 3.0, 0.013, -0.7, 5.0
    M, K, H, b, X, V, F = (Fraction(value) for value in (m, stiffness, h, B, x, v, f))
    exact = (M * V + H * (F - K * X)) / (M + H * b + H * H * K)
    ties = constraint.spring_rows(np.eye(1), np.array([x]), h, stiffness, B)
    problem = StepProblem(
        h=h, M=np.array([[m]]), kappa=np.array([-m * v - h * f]), contacts=Contacts.none(1), bilateral=ties
    )
    solution = constraint.solve(problem)
    # v⁺ is the sum of terms of the size of v: their rounding, for any K
    assert solution.v_plus[0] == pytest.approx(float(exact), rel=1e-13, abs=4e-16 * abs(v))


def test_coupled_springs_push_by_their_law_at_the_end_of_the_step():
    """λ = -K φ⁺ - B φ̇⁺ for 1-4 rows and K to 1e8 (math.md 11.1: to 1e-11)."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        m, k, h = 6, int(rng.integers(1, 5)), 10.0 ** rng.uniform(-4, -1)
        M, v, f = random_machine(rng, m)
        rows, phi = rng.normal(size=(k, m)), 1e-3 * rng.normal(size=k)
        K, B = 10.0 ** rng.uniform(0, 8, k), 10.0 ** rng.uniform(-2, 2, k)
        problem = StepProblem(
            h=h,
            M=M,
            kappa=-M @ v - h * f,
            contacts=Contacts.none(m),
            bilateral=constraint.spring_rows(rows, phi, h, K, B),
        )
        v_plus = constraint.solve(problem).v_plus
        # implicit Euler, unknowns v⁺, with the springs' stiffness in the matrix
        implicit = M + rows.T @ np.diag(h * h * K + h * B) @ rows
        expected = np.linalg.solve(implicit, M @ v + h * f - h * rows.T @ (K * phi))
        # the oracle's own condition number is up to 1e6
        np.testing.assert_allclose(v_plus, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def test_the_same_bilateral_constraint_twice_shares_its_load():
    """Drumwright 2019, 4.3: compliance resolves indeterminacy; (G M⁻¹Gᵀ)⁻¹ does not exist here."""
    h, x = 0.1, 1e-3
    problem = StepProblem(h=h, M=np.eye(1), kappa=np.zeros(1), contacts=Contacts.none(1))
    twice = constraint.spring_rows(np.ones((2, 1)), np.full(2, x), h, 1e15, 1.0)
    once = constraint.spring_rows(np.ones((1, 1)), np.full(1, x), h, 2e15, 2.0)
    v_twice = constraint.solve(replace(problem, bilateral=twice)).v_plus
    v_once = constraint.solve(replace(problem, bilateral=once)).v_plus
    assert v_twice[0] == pytest.approx(v_once[0], rel=1e-12)


# -- unilateral -------------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_symmetric_lcp_is_the_nonnegative_least_squares_problem(seed):
    """Minimize ½|AᵀΛ + d|² over Λ ≥ 0 with A = [ρ, √C], A d = c, by Lawson and Hanson."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(1, 30)), int(rng.integers(1, 7))
    rho, c = rng.normal(size=(n, k)), rng.normal(size=n)
    C = 10.0 ** rng.uniform(-4, 2) * rng.uniform(0.1, 10.0, n)
    status, z, _, residual = unilateral.solve_springs(rho, c, C)
    assert status == 0
    assert residual <= 1e-8
    A = np.hstack((rho, np.diag(np.sqrt(C))))
    expected, _ = nnls(A.T, -np.linalg.lstsq(A, c, rcond=None)[0])
    # Λ is unique; its condition number is that of ρρᵀ + C, up to about 1e6 here
    np.testing.assert_allclose(z, expected, rtol=0, atol=1e-8 * np.abs(expected).max(initial=1e-300))


def particle(height, speed, h, *, K, B, mass=2.0, mu=0.0):
    """A particle above the ground, order x, y, z, slides in x; one step under gravity."""
    contacts = by_hand(np.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]]), mu, height, stiffness=K, damping=B)
    v = np.array([0.0, 0.0, speed])
    return StepProblem(h=h, M=mass * np.eye(3), kappa=-mass * v + np.array([0, 0, h * mass * G]), contacts=contacts)


@pytest.mark.parametrize("K", [0.0, 1e3, 1e10, np.inf])
@pytest.mark.parametrize("B", [0.0, 1e6])
def test_open_contacts_have_no_force(K, B):
    """Neither spring nor damper acts at a distance: a force appears only if the step ends in the ground."""
    falls_short = constraint.solve(particle(1e-3, -0.5, 1e-3, K=K, B=B))
    assert falls_short.impulses[0, 0] == 0.0
    touches = constraint.solve(particle(1e-3, -2.0, 1e-3, K=K, B=B))
    assert (touches.impulses[0, 0] > 0.0) == (K > 0.0)
    end = 1e-3 + 1e-3 * touches.v_plus[2]
    assert end <= 1e-18 or K == 0.0


def test_a_contact_that_another_one_pushes_closed_is_caught_in_the_same_step():
    """Without the floor contact the slope contact would open; the floor deflects the point into the slope."""
    h, v_free = 1e-2, np.array([-0.5, -1.0])
    floor, slope = [0.0, 1.0], [1.0, -2.0]
    contacts = unilateral_rows(np.array([floor, slope]), np.array([0.0, 1e-3]), np.full(2, 1e12), np.full(2, 1e3))
    problem = StepProblem(h=h, M=np.eye(2), kappa=-v_free, contacts=contacts)
    assert contacts.N[1] @ v_free > 0.0
    by_the_floor = constraint.solve(replace(problem, contacts=contacts.take([0])))
    assert contacts.gap[1] + h * contacts.N[1] @ by_the_floor.v_plus < -1e-3
    both = constraint.solve(problem)
    # impulses are about 1 N s: such springs yield by 1/(hK) = 1e-10 m
    assert (contacts.gap + h * contacts.N @ both.v_plus).min() > -1e-9
    assert (both.impulses[:, 0] > 0.0).all()


def test_a_damper_alone_pushes_only_while_it_is_compressed():
    pressed = constraint.solve(particle(-1e-3, -1.0, 1e-3, K=0.0, B=2e3))
    assert pressed.v_plus[2] == pytest.approx((-1.0 - G * 1e-3) / 2.0, rel=1e-12)  # hB = m halves the speed
    leaving = constraint.solve(particle(-1e-3, 1.0, 1e-3, K=0.0, B=2e3))
    assert leaving.impulses[0, 0] == 0.0


def test_hertz_comes_to_rest_at_its_own_depth():
    """At this depth 4/3 E* √r d^{3/2} equals the weight, although each step uses only the tangent (math.md 11.3)."""
    E, r, h = 7.5e6, 0.01, 1e-2
    model = constraint.compliant(constraint.hertz(E, r, damping=10.0))
    v, x = 0.0, 0.0
    for _ in range(400):
        v = model(particle(x, v, h, K=0.0, B=0.0), None).v_plus[2]
        x += h * v
    depth = (2.0 * G / (4.0 / 3.0 * E * np.sqrt(r))) ** (2.0 / 3.0)
    assert -x == pytest.approx(depth, rel=1e-12)


def test_an_elastic_foundation_is_as_stiff_as_the_column_under_each_contact():
    contacts = unilateral_rows(np.zeros((3, 2)), np.zeros(3), np.zeros(3), np.zeros(3))
    law = constraint.elastic_foundation(1e7, 0.5, [1.0, 0.01, 0.0], damping=2.0)(contacts)
    np.testing.assert_allclose(law.stiffness, [2e7, 2e5, 0.0])
    np.testing.assert_allclose(law.damping, 2.0)


# -- friction ---------------------------------------------------------------------------------------------------------


def laws_missed(problem, solution):
    """Return the relative errors of momentum balance, of the springs' law and of Coulomb's law (math.md 13.3)."""
    contacts, f, v = problem.contacts, solution.impulses.T, solution.v_plus
    n = len(contacts)
    compliance, rest = solver.contact_law(contacts, problem.h)
    creep = solver.tangential_compliance(problem)
    slip = (contacts.jacobian @ v - contacts.surface_velocity).reshape(3, n)
    normal = slip[0] + compliance * f[0] + rest
    s, t = slip[1:] + creep * f[1:]
    v_free = np.linalg.solve(problem.M, -problem.kappa)
    speed = np.abs(contacts.jacobian @ v_free).max() + np.abs(rest).max()
    impulse = max(f[0].max(), 4.8 * G * scenes.H)
    mu = contacts.mu
    with np.errstate(invalid="ignore"):
        room = np.where(np.isinf(mu), 0.0, mu * f[0] - np.abs(f[1]) - np.abs(f[2]))
        work = np.where(np.isinf(mu), np.where(f[0] > 0, np.hypot(s, t) * impulse, 0.0), f[1] * s + f[2] * t)
        work += np.where(np.isinf(mu), 0.0, mu * f[0] * np.maximum(np.abs(s), np.abs(t)))
    return max(
        np.abs(unbalanced(problem, solution)).max() / np.abs(problem.kappa).max(),
        np.abs(np.minimum(f[0] / impulse, normal / speed)).max(),
        -room.min() / impulse,
        np.abs(work).max() / (impulse * speed),
    )


def stiffened(problem, rng):
    """Return the problem on ground of random stiffness and damping at each contact; some rigid, some moving."""
    n = len(problem.contacts)
    K = 10.0 ** rng.uniform(4, 12, n)
    K[rng.uniform(size=n) < 0.2] = np.inf
    contacts = replace(
        problem.contacts,
        stiffness=K,
        damping=10.0 ** rng.uniform(-1, 3, n),
        surface_velocity=0.1 * rng.normal(size=3 * n),
    )
    return replace(problem, contacts=contacts)


def test_forward_solutions_obey_springs_dampers_and_coulomb(quadruped):
    rng = np.random.default_rng(5)
    for _ in range(200):
        problem = stiffened(moving_problem(quadruped, rng, inverse=False), rng)
        solution = constraint.solve(problem)
        assert solution.status is Status.SOLVED, solution.note
        assert solution.residual <= 1e-8
        assert laws_missed(problem, solution) <= 1e-8


@pytest.mark.parametrize("mu", [0.0, np.inf, "mixed"])
def test_no_friction_and_no_slip_are_its_limits(quadruped, mu):
    rng = np.random.default_rng(7)
    for _ in range(60):
        problem = stiffened(moving_problem(quadruped, rng, inverse=False), rng)
        values = rng.choice([0.0, 0.5, np.inf], 4) if mu == "mixed" else np.full(4, mu)
        problem = replace(problem, contacts=replace(problem.contacts, mu=values))
        solution = constraint.solve(problem)
        if solution.status is Status.REPAIRED:  # no mode of infinite friction has a solution: see `coulomb`
            assert mu != 0.0
            continue
        assert solution.status is Status.SOLVED
        assert laws_missed(problem, solution) <= 1e-8
        if mu == 0.0:
            assert not solution.impulses[:, 1:].any()


def test_what_the_inverse_predicts_solves_the_forward_problem(quadruped):
    """Right inverse: same laws, same momentum, under the torques that it returned."""
    rng = np.random.default_rng(8)
    for _ in range(200):
        problem = stiffened(moving_problem(quadruped, rng), rng)
        inverse = solved(constraint.solve(problem))
        np.testing.assert_allclose(inverse.v_plus[6:], problem.prescribed.velocity, atol=1e-12)
        kappa = problem.kappa.copy()
        kappa[6:] -= inverse.multipliers
        forward = replace(problem, kappa=kappa, prescribed=None)
        assert laws_missed(forward, inverse) <= 1e-8


def test_conflicting_velocities_have_a_solution_only_on_compliant_contacts():
    rigid = gripper(0.1)
    assert constraint.solve(rigid).status is Status.FALLBACK
    assert constraint.solve(rigid).note == "squeeze"
    assert constraint.compliant(constraint.springs(1e15, 0.0))(rigid, None).note != "squeeze"  # a solution exists
    soft = solved(constraint.compliant(constraint.springs(1e4, 1.0))(rigid, None))
    assert (soft.impulses[:, 0] > 0.0).all()


# -- the block on the incline -----------------------------------------------------------------------------------------

TILT = np.radians(15.0)
CORNERS = np.array([[x, y, -0.025] for x in (0.1, -0.1) for y in (0.05, -0.05)])


def slide(mu, h, law, seconds=1.0, model=constraint.solve):
    """Slide Drumwright 2019's block (1 kg, 0.2 x 0.1 x 0.05 m) down 15°: distance, velocity, last forces."""
    M = np.diag([1.0, 1.0, 1.0, *((0.1**2 + 0.05**2, 0.2**2 + 0.05**2, 0.2**2 + 0.1**2) / np.float64(12.0))])
    weight = G * np.array([np.sin(TILT), 0.0, -np.cos(TILT), 0.0, 0.0, 0.0])
    jacobian = np.zeros((12, 6))
    for axis, e in enumerate(np.array([[0, 0, 1.0], [1.0, 0, 0], [0, 1.0, 0]])):
        jacobian[4 * axis : 4 * axis + 4] = np.hstack((np.tile(e, (4, 1)), np.cross(CORNERS, e)))
    base = by_hand(jacobian, mu)
    q, v = np.zeros(6), np.zeros(6)
    for _ in range(round(seconds / h)):
        contacts = law(replace(base, gap=base.N @ q))
        solution = solved(model(StepProblem(h=h, M=M, kappa=-M @ v - h * weight, contacts=contacts)))
        v = solution.v_plus
        q = q + h * v
    return q[0], v, solution.impulses / h


@pytest.mark.parametrize(
    ("mu", "h", "distance"),
    [
        *((0.0, 1e-2, 1.2822), (0.125, 1e-2, 0.6840), (0.25, 1e-2, 0.0859)),
        pytest.param(0.0, 1e-3, 1.2708, marks=pytest.mark.slow),
        pytest.param(0.125, 1e-3, 0.6780, marks=pytest.mark.slow),
    ],
)
def test_the_block_slides_as_far_as_the_closed_form_says(mu, h, distance):
    """½ g (sin α - μ cos α) t (t + h) for symplectic Euler; math.md 11.3's table to its digits."""
    x, _, force = slide(mu, h, constraint.NEARLY_RIGID)
    assert x == pytest.approx(0.5 * G * (np.sin(TILT) - mu * np.cos(TILT)) * (1.0 + h), abs=1e-6)
    assert x == pytest.approx(distance, abs=5.1e-5)
    # friction acts below the middle and loads the lower corners more
    tip = mu * 0.025 / 0.1
    quarter = 0.25 * G * np.cos(TILT)
    np.testing.assert_allclose(force[:, 0], quarter * np.array([1 + tip, 1 + tip, 1 - tip, 1 - tip]), rtol=1e-6)


@pytest.mark.parametrize("law", [constraint.NEARLY_RIGID, constraint.hertz(1e11, 0.01, 1.0)], ids=["springs", "hertz"])
@pytest.mark.parametrize("h", [1e-2, 1e-3])
def test_the_block_sticks_just_above_tan_15_degrees_and_slides_just_below(law, h):
    """A sticking block creeps at CREEP of the speed that gravity adds in a step."""
    assert slide(0.2679, h, law, 0.2)[1][0] > 5e-5  # g (sin - μ cos) t = 9e-5 m/s
    for mu in (0.268, 0.375):
        creep = slide(mu, h, law, 0.2)[1][0]
        assert 0.0 < creep < 2.0 * solver.CREEP * h * G * np.sin(TILT)


# -- joint limits, and what cannot be used ----------------------------------------------------------------------------


def test_a_joint_runs_into_its_limit_and_stops_there_beside_the_feet(quadruped):
    rng = np.random.default_rng(13)
    problem = moving_problem(quadruped, rng, inverse=False)
    contacts = replace(problem.contacts, stiffness=np.full(4, 1e8))
    v_free = constraint.solve(replace(problem, contacts=contacts)).v_plus
    fastest = 6 + int(np.argmax(np.abs(v_free[6:])))
    span = 0.5 * scenes.H * abs(v_free[fastest])  # it would be passed half way through the step
    limits = constraint.joint_limits(
        np.array([fastest]), np.zeros(1), np.array([-span]), np.array([span]), 18, stiffness=1e12
    )
    both = replace(problem, contacts=concatenate((contacts, limits)))
    solution = solved(constraint.solve(both))
    assert abs(scenes.H * solution.v_plus[fastest]) == pytest.approx(span, rel=1e-6)
    assert (solution.impulses[4:, 0] > 0.0).sum() == 1


def test_meaningless_values_are_refused_in_one_line():
    rows, zero = np.eye(1), np.zeros(1)
    for make in (
        lambda: constraint.springs(-1.0),
        lambda: constraint.springs(np.nan),
        lambda: constraint.elastic_foundation(1e7, 0.0, 1.0),
        lambda: constraint.hertz(1e9, 0.0),
        lambda: constraint.spring_rows(rows, zero, 1e-3, 0.0, 0.0),
        lambda: constraint.spring_rows(rows, zero, 1e-3, -1.0),
        lambda: constraint.solve(particle(0.0, 0.0, 1e-3, K=-1.0, B=0.0)),
    ):
        with pytest.raises(InputError) as error:
            make()
        assert "\n" not in str(error.value)
