"""The dual active set on general quadratic programs, against Clarabel, closed forms and proofs of infeasibility."""

from fractions import Fraction

import cvxpy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idcontrol.bench.problems.lcps import edge_rows
from idcontrol.bench.problems.steps import numbered_step
from idcontrol.errors import InputError
from idcontrol.kernels.arena import HEAP
from idcontrol.solvers.active_set import project
from idcontrol.solvers.active_set_qp import QuadraticProgram, qp_residual, solve_qp
from idcontrol.solvers.cuts import cut, minimizer, refined, uncut
from idcontrol.solvers.status import TOLERANCE, SolverStatus
from tests.parameters import solved


def feasible_program(rng, k, m, p, condition=1.0):
    """Return a least-squares program with a feasible point, tight rows, and an equality implied by other rows."""
    root = rng.normal(size=(k, k)) * np.logspace(0.0, -np.log10(condition) / 2, k)
    H = root @ root.T + np.eye(k) / condition
    E = rng.normal(size=(m, k))
    if m > 2:
        E[-1] = E[0] - 2.0 * E[1]
    A, x = rng.normal(size=(p, k)), rng.normal(size=k)
    b = A @ x - rng.uniform(0.0, 0.5, p) * rng.integers(0, 2, p)
    return H, -3.0 * H @ rng.normal(size=k), A, b, E, E @ x


def by_clarabel(H, g, A, b, E, e):
    x = cvxpy.Variable(g.size)
    rows = ([A @ x >= b] if b.size else []) + ([E @ x == e] if e.size else [])
    problem = cvxpy.Problem(cvxpy.Minimize(0.5 * cvxpy.quad_form(x, cvxpy.psd_wrap(H)) + g @ x), rows)
    problem.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return problem


@pytest.mark.parametrize("seed", range(12))
def test_the_minimum_is_clarabels(seed):
    rng = np.random.default_rng(seed)
    program = feasible_program(rng, 12, seed % 7, 16)
    result = solved(solve_qp(*program))
    H, g = program[:2]
    value = 0.5 * result.x @ H @ result.x + g @ result.x
    assert value == pytest.approx(by_clarabel(*program).value, rel=1e-7)


@given(
    seed=st.integers(0, 2**32 - 1),
    k=st.integers(1, 18),
    m=st.integers(0, 8),
    p=st.integers(0, 40),
    power=st.floats(0.0, 8.0),
)
@settings(max_examples=150, deadline=None)
def test_every_feasible_program_is_solved_to_its_optimality_conditions(seed, k, m, p, power):
    rng = np.random.default_rng(seed)
    H, g, A, b, E, e = feasible_program(rng, k, min(m, k), p, 10.0**power)
    result = solved(solve_qp(H, g, A, b, E, e))
    # the optimality conditions again, in NumPy; lengths and gradients are about one, multipliers as large as the
    # condition
    u, v, x = result.multipliers, result.equality_multipliers, result.x
    size = max(np.abs(H @ x).max(), np.abs(g).max(), np.abs(A.T @ u + E.T @ v).max())
    reach = max(np.linalg.norm(x), np.linalg.norm(g) / np.diag(H).max())
    assert np.abs(H @ x + g - A.T @ u - E.T @ v).max() <= 1e-8 * size
    assert np.all(A @ x - b >= -1e-8 * reach * np.linalg.norm(A, axis=1))
    assert np.all(np.abs(E @ x - e) <= 1e-8 * reach * np.linalg.norm(E, axis=1))
    assert np.all(u >= 0.0)
    assert np.all(u * (A @ x - b) <= 1e-8 * size * reach)


def test_dependent_equalities_that_agree_are_skipped():
    E = np.array([[1.0, 1.0], [2.0, 2.0], [0.0, 0.0]])
    result = solved(solve_qp(np.eye(2), np.zeros(2), E=E, e=np.array([1.0, 2.0, 0.0])))
    np.testing.assert_allclose(result.x, [0.5, 0.5], atol=1e-15)


def test_equalities_that_contradict_each_other_are_proved_infeasible():
    E, e = np.array([[1.0, 1.0], [2.0, 2.0]]), np.array([1.0, 3.0])
    result = solve_qp(np.eye(2), np.zeros(2), E=E, e=e)
    assert result.status is SolverStatus.INFEASIBLE
    assert result.certificate is not None
    _, c = result.certificate
    np.testing.assert_allclose(E.T @ c, 0.0, atol=1e-14)
    assert e @ c > 0.0


@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 8), m=st.integers(0, 3), p=st.integers(2, 12))
@settings(max_examples=100, deadline=None)
def test_rows_that_contradict_each_other_come_with_their_certificate(seed, k, m, p):
    rng = np.random.default_rng(seed)
    H, g, A, b, E, e = feasible_program(rng, k, min(m, k - 1), p)
    # one more row that contradicts a positive combination of the other rows by a margin
    weights = rng.uniform(0.1, 1.0, p) * rng.integers(0, 2, p)
    weights[0] = 1.0
    A = np.vstack([A, -(weights @ A) + (E.T @ rng.normal(size=e.size) if e.size else 0.0)])
    side = -(weights @ b) + 0.1
    if e.size:
        shift = A[-1] + weights @ A[:-1]
        side += np.linalg.lstsq(E.T, shift, rcond=None)[0] @ e
    b = np.r_[b, side]
    result = solve_qp(H, g, A, b, E, e)
    assert result.status is SolverStatus.INFEASIBLE
    assert result.certificate is not None
    c, d = result.certificate
    scale = np.abs(c).sum() + np.abs(d).sum()
    assert np.all(c >= 0.0)
    assert np.abs(A.T @ c + E.T @ d).max() <= 1e-9 * scale * max(np.abs(A).max(), np.abs(E).max(initial=0.0))
    assert b @ c + e @ d > 0.0


def test_a_program_that_is_not_convex_is_not_called_solved():
    assert solve_qp(np.diag([1.0, -1.0]), np.ones(2)).status is SolverStatus.INACCURATE


@pytest.mark.parametrize("where", range(6))
def test_a_nan_is_never_called_solved(where):
    program = [np.eye(2), np.ones(2), np.eye(2), np.zeros(2), np.ones((1, 2)), np.ones(1)]
    program[where] = program[where].copy()
    program[where][..., 0] = np.nan
    assert solve_qp(*program).status is not SolverStatus.SOLVED


def test_the_residual_sees_each_kind_of_violation():
    none = np.zeros(0)
    program = QuadraticProgram(np.eye(2), np.array([-1.0, 0.0]), np.eye(2), np.zeros(2), np.zeros((0, 2)), none)
    assert qp_residual(program, np.array([1.0, 0.0]), np.zeros(2), none) == 0.0
    assert qp_residual(program, np.array([0.9, 0.0]), np.zeros(2), none) == pytest.approx(0.1)
    assert qp_residual(program, np.array([1.0, -0.1]), np.zeros(2), none) == pytest.approx(0.1, rel=0.01)
    assert qp_residual(program, np.array([1.0, 0.0]), np.array([0.0, -0.1]), none) == pytest.approx(0.1)
    assert qp_residual(program, np.array([1.1, 0.0]), np.array([0.1, 0.0]), none) > 0.05
    assert qp_residual(program, np.array([np.nan, 0.0]), np.zeros(2), none) == np.inf


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="do not fit"):
        solve_qp(np.eye(3), np.zeros(3), np.eye(2), np.zeros(2))


@pytest.mark.parametrize("number", [87575, 95253])
def test_multipliers_too_large_for_double_precision_are_rounded_together(number):
    """Boxes with 5 and 27 contacts, rows that depend on each other to 3e-5 and 2e-7."""
    rows, r = edge_rows(numbered_step(number))
    result = solved(project(rows, r))
    # multipliers rounded one by one would have the violation of double precision
    in_double = np.minimum(result.z / result.z.max(), (rows @ (rows.T @ result.z) + r) / np.abs(r).max())
    assert np.abs(in_double).max() > TOLERANCE
    # the conditions again, in rational numbers: only the answer is rounded
    exact = [[Fraction(x) for x in row] for row in rows.tolist()]
    z = [Fraction(x) for x in result.z.tolist()]
    y = [sum((z[i] * row[d] for i, row in enumerate(exact) if z[i]), Fraction(0)) for d in range(rows.shape[1])]
    w = np.array(
        [
            float(sum((a * b for a, b in zip(row, y, strict=True)), Fraction(c)))
            for row, c in zip(exact, r.tolist(), strict=True)
        ]
    )
    assert result.z.min() >= 0.0
    # in units of the problem; the unit of a row may be a hundredth of this, and the rounding of other terms is excused
    missed = np.abs(np.minimum(result.z / result.z.max(), w / np.abs(r).max())).max()
    assert missed <= TOLERANCE


@pytest.mark.interpreted
def test_rows_added_when_violated_lead_to_the_optimum_with_all_rows():
    rng = np.random.default_rng(7)
    for _ in range(30):
        k, p = int(rng.integers(1, 8)), int(rng.integers(1, 30))
        root, g, A = rng.standard_normal((k, k)), rng.standard_normal(k), rng.standard_normal((p, k))
        H, b = root @ root.T + 0.1 * np.eye(k), A @ rng.standard_normal(k) - rng.random(p)
        cuts, order, x = uncut(H, g, HEAP), np.zeros(0, dtype=int), np.zeros(k)
        while True:
            minimizer(cuts, x)
            new = np.setdiff1d(np.flatnonzero(A @ x < b), order)
            if new.size == 0:
                break
            order, cuts = np.r_[order, new], cut(cuts, A[new], b[new], HEAP)
            assert cuts.nearest.status == SolverStatus.SOLVED
        answer, expected = refined(cuts, A[order], b[order], HEAP), solve_qp(H, g, A, b)
        np.testing.assert_allclose(answer.x, expected.x, atol=1e-9 * (1.0 + np.abs(expected.x).max()))
        np.testing.assert_allclose(answer.multipliers, expected.multipliers[order], atol=1e-7)
        assert answer.residual <= TOLERANCE
