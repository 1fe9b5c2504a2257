"""SAP: projection, derivatives, optimum and physics of math.md 10, against differences, Clarabel and closed forms."""

from dataclasses import replace

import cvxpy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idcontrol.bench.problems.machines import forward_step, inverse_step
from idcontrol.errors import InputError
from idcontrol.kernels.arena import HEAP
from idcontrol.models import sap
from idcontrol.models.sap import Bounded, Parameters, cone
from idcontrol.models.sap.newton import Cost, Law, hessian, minimize, respond
from idcontrol.models.step import Bilateral, StepProblem
from idcontrol.models.whitened import whiten
from idcontrol.types import Status
from tests import scenes
from tests.models.test_laws import random_inverse
from tests.parameters import solved
from tests.scenes import by_hand

G = 9.81

speeds = st.floats(-1.0, 1.0).map(lambda x: round(x, 6))
frictions = st.sampled_from([0.0, 0.1, 0.6, 1.0, 3.0, np.inf])
regularizations = st.floats(-3.0, 1.0).map(lambda x: 10.0**x)


def projected(u, mu, R_n, R_t):
    gamma = np.empty(3)
    mode = cone.project(*u, mu, R_n, R_t, gamma)
    return gamma, mode


def reference(u, mu, R_n, R_t):
    """Return the projection of Castro et al. 2022 (18), as printed, in vectors; the half space for μ = inf."""
    y = -np.asarray(u) / (R_n, R_t, R_t)
    y_n, y_t = y[0], y[1:]
    y_r = np.linalg.norm(y_t)
    if np.isinf(mu):
        return np.concatenate(([max(y_n, 0.0)], y_t))
    mu_hat, mu_tilde_2 = mu * R_t / R_n, mu**2 * R_t / R_n
    if mu == 0.0:
        return np.array([max(y_n, 0.0), 0.0, 0.0])
    if y_r <= mu * y_n:
        return y
    if y_n <= -mu_hat * y_r:
        return np.zeros(3)
    normal = (y_n + mu_hat * y_r) / (1.0 + mu_tilde_2)
    return np.concatenate(([normal], mu * normal * y_t / y_r))


@settings(deadline=None)
@given(u=st.tuples(speeds, speeds, speeds), mu=frictions, R_n=regularizations, R_t=regularizations)
def test_the_impulse_is_the_printed_projection_and_lies_in_the_cone(u, mu, R_n, R_t):
    gamma, _ = projected(u, mu, R_n, R_t)
    np.testing.assert_allclose(gamma, reference(u, mu, R_n, R_t), rtol=1e-12, atol=1e-12)
    assert gamma[0] >= 0.0
    if np.isfinite(mu):
        assert np.hypot(gamma[1], gamma[2]) <= mu * gamma[0] * (1.0 + 1e-12)


@settings(deadline=None)
@given(
    u=st.tuples(speeds, speeds, speeds),
    guess=st.tuples(speeds, speeds, speeds),
    mu=frictions,
    R_n=regularizations,
    R_t=regularizations,
)
def test_the_velocity_of_an_impulse_gives_the_same_impulse_and_mode(u, guess, mu, R_n, R_t):
    gamma, mode = projected(u, mu, R_n, R_t)
    there = cone.answered(*gamma, guess, mu, R_n, R_t)
    again, _ = projected(there, mu, R_n, R_t)
    # an impulse at the edge of the cone slides if it is within 1e-9; velocities are up to 1 m/s
    np.testing.assert_allclose(again, gamma, rtol=3e-9, atol=1e-12 / min(R_n, R_t))
    if mode == cone.OPEN:
        np.testing.assert_array_equal(again[0], 0.0)
    if mode == cone.SLIDE and 0.0 < mu < np.inf and np.hypot(*gamma[1:]) > 1e-6 * gamma[0]:
        turned = gamma[1] * there[2] - gamma[2] * there[1]
        assert abs(turned) <= 1e-9 * np.hypot(*gamma[1:]) * np.hypot(*there[1:])
        assert np.hypot(*there[1:]) >= np.hypot(*guess[1:]) * (1.0 - 1e-9)


@settings(deadline=None)
@given(u=st.tuples(speeds, speeds, speeds), mu=frictions, R_n=regularizations, R_t=regularizations)
def test_the_derivative_is_never_negative(u, mu, R_n, R_t):
    nn, ns, nt, ss, st, tt = cone.derivative(*u, mu, R_n, R_t)
    D = np.array([[nn, ns, nt], [ns, ss, st], [nt, st, tt]])
    assert bool(nn or ss) == bool(D.any())  # these two entries show whether a contact is open
    assert np.linalg.eigvalsh(D).min() >= -1e-12 * np.abs(D).max()


def random_whitened(rng):
    """Return rows, constants and law of a problem with contacts in all three regions, and of scalar rows."""
    n, e, k = int(rng.integers(1, 5)), int(rng.integers(0, 3)), 7
    rho = rng.normal(size=(3 * n + e, k))
    c = rng.normal(size=3 * n + e)
    limit = rng.uniform(0.1, 1.0, e)
    law = Law(
        rng.choice([0.0, 0.3, 1.0], n),
        rng.uniform(0.1, 1.0, n),
        rng.uniform(0.1, 1.0, n),
        rng.uniform(0.1, 1.0, e),
        -limit,
        limit,
    )
    return rho, c, law


def total_cost(z, rho, c, law):
    return 0.5 * z @ z + respond(c + rho @ z, law, np.empty(len(c)), HEAP)


def gradient(z, rho, c, law):
    gamma = np.empty(len(c))
    respond(c + rho @ z, law, gamma, HEAP)
    return z - rho.T @ gamma


def distance_to_kinks(z, rho, c, law):
    """Return the distance of the velocities from jumps of the second derivative."""
    u = c + rho @ z
    n, far = len(law.mu), np.inf
    for i in range(n):
        y_n, y_r = -u[i] / law.R_n[i], np.hypot(u[n + i], u[2 * n + i]) / law.R_t[i]
        far = min(far, abs(y_r - law.mu[i] * y_n), abs(y_n + law.mu[i] * law.R_t[i] / law.R_n[i] * y_r))
    g = -u[3 * n :] / law.C
    return min(far, *np.abs(g - law.lower), *np.abs(g - law.upper)) if g.size else far


def test_gradient_and_hessian_are_the_central_differences_of_the_cost():
    rng = np.random.default_rng(0)
    worst_gradient = worst_hessian = 0.0
    checked = 0
    while checked < 300:
        rho, c, law = random_whitened(rng)
        z = rng.normal(size=rho.shape[1])
        if distance_to_kinks(z, rho, c, law) < 1e-2:
            continue
        checked += 1
        k, step = z.size, 3e-5
        analytic = gradient(z, rho, c, law)
        H = np.empty((k, k))
        hessian(rho, c + rho @ z, law, H, HEAP)
        H = np.tril(H) + np.tril(H, -1).T
        axes = step * np.eye(k)
        slope = [(total_cost(z + d, rho, c, law) - total_cost(z - d, rho, c, law)) / (2 * step) for d in axes]
        curvature = [(gradient(z + d, rho, c, law) - gradient(z - d, rho, c, law)) / (2 * step) for d in axes]
        worst_gradient = max(worst_gradient, np.abs(slope - analytic).max() / np.abs(analytic).max())
        worst_hessian = max(worst_hessian, np.abs(np.array(curvature) - H).max() / np.abs(H).max())
    # differences with a step of 3e-5 are good to its square and to rounding over it, 1e-9 and 1e-11
    assert worst_gradient < 1e-8
    assert worst_hessian < 1e-8


def by_clarabel(problem, parameters):
    """Solve Castro et al. 2022 (15) as a second-order cone program in whitened velocities and the slack σ."""
    r, contacts = whiten(problem), problem.contacts
    n, h = len(contacts), problem.h
    whole = np.linalg.cholesky(problem.M)
    offset = np.maximum(contacts.gap / h, -0.1)
    x, cost, constraints = cvxpy.Variable(r.rho.shape[1]), 0.0, []
    for i in range(n):
        rows = contacts.jacobian[[i, n + i, 2 * n + i]]
        half = np.linalg.solve(whole, rows.T)
        w = np.linalg.norm(half.T @ half) / 3.0
        tau_d = parameters.beta * h / np.pi
        v_hat = min(-contacts.gap[i] / (h + tau_d), 0.1)
        R = np.array([parameters.beta**2 * w / (4 * np.pi**2), parameters.sigma * w, parameters.sigma * w])
        u = r.rho[[i, n + i, 2 * n + i]] @ x + r.c[[i, n + i, 2 * n + i]] - np.array([offset[i] + v_hat, 0, 0])
        # (15) with s = R^(1/2) σ, so that all unknowns have the same size
        s = cvxpy.Variable(3)
        g = u + cvxpy.multiply(np.sqrt(R), s)
        cost += cvxpy.sum_squares(s)
        constraints.append(contacts.mu[i] * cvxpy.norm(g[1:]) <= g[0])
    program = cvxpy.Problem(cvxpy.Minimize(0.5 * (cvxpy.sum_squares(x) + cost)), constraints)
    program.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    assert program.status == cvxpy.OPTIMAL
    v = r.v_free.copy()
    v[r.free] += np.linalg.solve(r.L.T, x.value)
    return v


def random_problem(system, rng, *, inverse):
    v, b, contacts = random_inverse(system, rng)
    if inverse:
        return inverse_step(system, v, b, contacts)
    return forward_step(system, v, scenes.H * rng.normal(scale=2.0, size=12), contacts)


@pytest.mark.parametrize("inverse", [True, False])
def test_the_velocity_is_the_cone_program_that_clarabel_solves(quadruped, inverse):
    rng = np.random.default_rng(int(inverse))
    for _ in range(10):
        problem = random_problem(quadruped, rng, inverse=inverse)
        solution = solved(sap.solve(problem))
        expected = by_clarabel(problem, Parameters())
        # Clarabel reaches 1e-11 in the objective, which determines half as many digits of the velocity
        np.testing.assert_allclose(solution.v_plus, expected, rtol=0, atol=2e-6 * np.abs(expected).max())


def test_without_sliding_the_last_modes_give_the_solution_in_one_step(quadruped):
    rng = np.random.default_rng(11)
    once = Parameters(tolerance=1e-9)
    checked = shortened = 0
    while checked < 10:
        problem = random_problem(quadruped, rng, inverse=False)
        problem = replace(problem, contacts=replace(problem.contacts, mu=np.full(4, 3.0)))
        cold = sap.solve(problem, None, once)
        if cone.SLIDE in cold.warm.values():
            continue
        checked += 1
        assert sap.solve(problem, cold.warm, once).iterations <= 1
        shortened += cold.iterations > 1
    assert shortened  # otherwise the start was not tested


def point_mass(mass, h, mu, slope=0.0, v=None, gap=0.0, stiffness=np.inf, damping=0.0, force=None):
    """A particle on a plane through the origin that falls along x; axes belong to the plane, normal first."""
    M = mass * np.eye(3)
    gravity = mass * G * np.array([-np.cos(slope), np.sin(slope), 0.0])
    applied = gravity if force is None else gravity + force
    contacts = by_hand(np.eye(3), mu, gap, stiffness=stiffness, damping=damping)
    velocity = np.zeros(3) if v is None else v
    return StepProblem(h=h, M=M, kappa=-h * applied - M @ velocity, contacts=contacts)


def slide(mu, h, slope, time=1.0):
    """Distance along the slope, and speed at the end, of a particle that starts at rest."""
    x, v, gap, warm = 0.0, np.zeros(3), 0.0, {}
    for _ in range(round(time / h)):
        solution = sap.solve(point_mass(1.0, h, mu, slope, v, gap), warm)
        v, warm = solution.v_plus, solution.warm
        x, gap = x + h * v[1], gap + h * v[0]
    return x, v[1], gap


@pytest.mark.parametrize(
    ("mu", "h", "distance"),
    [
        (0.0, 1e-2, 1.2822),
        (0.125, 1e-2, 0.6838),
        (0.25, 1e-2, 0.0858),
        (0.0, 1e-3, 1.2708),
        (0.125, 1e-3, 0.6779),
        (0.25, 1e-3, 0.0851),
    ],
)
def test_a_particle_slides_down_the_incline_as_the_table_says(mu, h, distance):
    """math.md 10; ½g(sin - μ cos)t² is 1.2695, 0.6773, 0.0850 m; first order in h."""
    x, _, _ = slide(mu, h, np.radians(15.0))
    assert x == pytest.approx(distance, abs=6e-5)  # the table's last digit
    closed = 0.5 * G * (np.sin(np.radians(15.0)) - mu * np.cos(np.radians(15.0)))
    assert x == pytest.approx(closed, rel=1.2 * h)


@pytest.mark.parametrize("h", [1e-2, 1e-3])
def test_stick_creeps_within_its_bound_up_to_the_slope_of_friction(h):
    slope = np.radians(15.0)
    _, creep, _ = slide(0.375, h, slope, 0.3)
    assert 0.0 < creep <= 0.375 * 1e-3 * G * h  # Castro et al. 2022 (23)
    for mu, sticks in ((0.2679, False), (0.268, True)):  # tan 15° = 0.26795
        _, speed, _ = slide(mu, h, slope, 1.0)
        assert (speed <= mu * 1e-3 * G * h) == sticks


@pytest.mark.parametrize("mass", [1e-3, 1e3])
def test_a_rigid_contact_sinks_by_a_quarter_micrometre_whatever_the_mass(mass):
    h = 1e-3
    v, gap = np.zeros(3), 0.0
    for _ in range(100):
        v = sap.solve(point_mass(mass, h, 0.5, 0.0, v, gap)).v_plus
        gap += h * v[0]
    # w is 1/(√3 m) of a particle (math.md 10), and k = 1/(R_n h (h + τ_d))
    expected = G * h * h * (1.0 + 1.0 / np.pi) / (4.0 * np.pi**2 * np.sqrt(3.0))
    assert gap == pytest.approx(-expected, rel=1e-6)


def test_infinite_friction_holds_a_pressing_contact_and_releases_it_after():
    pulled = sap.solve(point_mass(1.0, 1e-3, np.inf, force=np.array([0.0, 1e3, 0.0])))
    assert abs(pulled.v_plus[1]) < 2e-3 * 1e3 * 1e-3  # σ w times the impulse
    lifted = sap.solve(point_mass(1.0, 1e-3, np.inf, force=np.array([20.0, 1e3, 0.0])))
    np.testing.assert_array_equal(lifted.impulses, 0.0)
    above = sap.solve(point_mass(1.0, 1e-3, np.inf, gap=1e-4, v=np.array([-0.01, 0.5, 0.0])))
    assert above.v_plus[1] == 0.5


def test_bounded_rows_are_bilateral_until_their_limit(quadruped):
    rng = np.random.default_rng(9)
    problem = random_problem(quadruped, rng, inverse=False)
    rows, target, compliance = rng.normal(size=(2, 18)), 0.1 * rng.normal(size=2), np.array([0.3, 0.1])
    free = Bounded(rows=rows, target=target, compliance=compliance, lower=np.full(2, -np.inf), upper=np.full(2, np.inf))
    solution, impulse = sap.solve_bounded(problem, free)
    expected = sap.solve(replace(problem, bilateral=Bilateral(rows=rows, target=target, compliance=compliance)))
    np.testing.assert_allclose(solution.v_plus, expected.v_plus, atol=1e-9)
    limit = 0.5 * np.abs(impulse)
    solution, limited = sap.solve_bounded(problem, replace(free, lower=-limit, upper=limit))
    assert solution.status is Status.SOLVED
    np.testing.assert_allclose(
        limited, np.clip((target - rows @ solution.v_plus) / compliance, -limit, limit), rtol=1e-9
    )
    # when one row reaches its limit the other row takes over part of its load, so not both need be at their limit
    assert np.isclose(np.abs(limited), limit).any()


def test_conflicting_joint_velocities_give_large_torques_and_no_exception():
    """The rigid models have no solution here (math.md 5.1)."""
    solution = solved(sap.solve(scenes.squeeze(0.5)))
    np.testing.assert_allclose(solution.multipliers[0], -solution.multipliers[1], rtol=1e-9)
    # each contact yields by 0.1 m/s: this over R_n, plus the fingers' own momentum
    W = np.sqrt(4.0 + 1.0 + 1.0) / 3.0
    assert solution.impulses[:, 0] == pytest.approx(0.1 * 4.0 * np.pi**2 / W, rel=1e-9)


@pytest.mark.parametrize(("change", "said"), [({"stiffness": -1.0}, "stiffness"), ({"damping": -1.0}, "damping")])
def test_impossible_parameters_are_named(change, said):
    problem = point_mass(1.0, 1e-3, 0.5, **{"stiffness": 1e4} | change)
    with pytest.raises(InputError, match=said):
        sap.solve(problem)


@pytest.mark.interpreted
def test_a_momentum_that_is_not_finite_is_no_convergence():
    law = Law(*(np.zeros(0) for _ in range(6)))
    cost = Cost(np.zeros((0, 2)), np.zeros(0), law, np.array([np.nan, 1.0]))
    code, _, residual = minimize(cost, Parameters(), np.zeros(2), np.zeros(0), HEAP)
    assert code == sap.newton.NOT_FINITE
    assert residual == np.inf
