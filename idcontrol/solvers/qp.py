"""Quadratic programs behind one function: the dual active set of this package, and other packages' solvers.

Those are the referees of tests and benchmarks; a control step calls `active_set_qp.qp_kernel`.

To add one: write a function ``_name(program) -> (x, u, v, iterations, infeasible)`` and a line in `_BACKENDS`.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from idcontrol.errors import InputError, UnknownName, install_command
from idcontrol.solvers import active_set_qp
from idcontrol.solvers.active_set_qp import QpResult, QuadraticProgram, checked_qp, qp_residual
from idcontrol.solvers.status import TOLERANCE, SolverStatus
from idcontrol.types import Array


@dataclass(frozen=True, slots=True)
class QpProblem:
    """The program min ½xᵀHx + gᵀx s.t. A x ≥ b, E x = e.

    Attributes:
        H: Symmetric positive semidefinite (positive definite for ``"active-set"`` and ``"daqp"``), shape (k, k).
        g: Shape (k,).
        A: Inequality rows, shape (p, k); None for none.
        b: Shape (p,).
        E: Equality rows, shape (m, k); None for none.
        e: Shape (m,).
    """

    H: Array
    g: Array
    A: Array | None = None
    b: Array | None = None
    E: Array | None = None
    e: Array | None = None


_Answer: TypeAlias = "tuple[Array | None, Array | None, Array | None, int, bool]"
"""x, multipliers u ≥ 0 of A and v of E (None where the backend gives none), iterations, proved infeasible."""


def _daqp(program: QuadraticProgram) -> _Answer:
    daqp = importlib.import_module("daqp")

    rows = np.ascontiguousarray(np.vstack((program.E, program.A)))
    m, p = program.e.size, program.b.size
    lower = np.concatenate((program.e, program.b))
    upper = np.concatenate((program.e, np.full(p, 1e30)))
    sense = np.concatenate((np.full(m, 5), np.zeros(p))).astype(ctypes.c_int)  # 5: an equality, active from the start
    x, _, flag, info = daqp.solve(program.H, program.g, rows, upper, lower, sense, primal_tol=1e-10, dual_tol=1e-12)
    multipliers = -np.asarray(info["lam"])
    found = flag > 0
    return (
        np.asarray(x) if found else None,
        multipliers[m:] if found else None,
        multipliers[:m] if found else None,
        int(info["iterations"]),
        flag == -1,
    )


def _proxqp(program: QuadraticProgram) -> _Answer:
    proxsuite = importlib.import_module("proxsuite")

    p = program.b.size
    solver = proxsuite.proxqp.dense.QP(program.g.size, program.e.size, p)
    solver.settings.eps_abs = 1e-11
    solver.settings.eps_rel = 0.0
    solver.settings.max_iter = 10000
    solver.init(program.H, program.g, program.E, program.e, program.A, program.b, np.full(p, 1e20))
    solver.solve()
    status, found = solver.results.info.status, proxsuite.proxqp.PROXQP_SOLVED
    infeasible = status == proxsuite.proxqp.PROXQP_PRIMAL_INFEASIBLE
    iterations = int(solver.results.info.iter)
    if status != found:
        return None, None, None, iterations, infeasible
    return np.array(solver.results.x), -np.array(solver.results.z), -np.array(solver.results.y), iterations, False


def _osqp(program: QuadraticProgram) -> _Answer:
    osqp = importlib.import_module("osqp")
    from scipy import sparse

    m, p = program.e.size, program.b.size
    solver = osqp.OSQP()
    solver.setup(
        P=sparse.triu(sparse.csc_matrix(program.H), format="csc"),
        q=program.g,
        A=sparse.csc_matrix(np.vstack((program.E, program.A))),
        l=np.concatenate((program.e, program.b)),
        u=np.concatenate((program.e, np.full(p, np.inf))),
        verbose=False,
        eps_abs=1e-10,
        eps_rel=1e-10,
        eps_prim_inf=1e-8,
        max_iter=200000,
        polishing=True,
        # time must not decide a result: the interval is otherwise tuned by the clock
        adaptive_rho_interval=50,
    )
    result = solver.solve(raise_error=False)
    iterations = int(result.info.iter)
    if "solved" not in result.info.status:
        return None, None, None, iterations, "primal infeasible" in result.info.status
    return np.asarray(result.x), -np.asarray(result.y)[m:], -np.asarray(result.y)[:m], iterations, False


def _cvxpy(solver: str, **options: float) -> Callable[[QuadraticProgram], _Answer]:
    def solve(program: QuadraticProgram) -> _Answer:
        cvxpy = importlib.import_module("cvxpy")

        x = cvxpy.Variable(program.g.size)
        rows = []
        if program.b.size:
            rows.append(program.A @ x >= program.b)
        if program.e.size:
            rows.append(program.E @ x == program.e)
        objective = 0.5 * cvxpy.quad_form(x, cvxpy.psd_wrap(program.H)) + program.g @ x
        problem = cvxpy.Problem(cvxpy.Minimize(objective), rows)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "may be inaccurate": the residual will tell
                problem.solve(solver=solver, **options)
        except cvxpy.SolverError:
            return None, None, None, 0, False
        iterations = int(problem.solver_stats.num_iters or 0)
        if x.value is None:
            return None, None, None, iterations, problem.status in ("infeasible", "infeasible_inaccurate")
        duals = [np.atleast_1d(row.dual_value) for row in rows]
        u = np.asarray(duals[0]) if program.b.size else np.zeros(0)
        v = -np.asarray(duals[-1]) if program.e.size else np.zeros(0)
        return np.asarray(x.value), u, v, iterations, False

    return solve


# name: (packages, extra that installs them, function)
_BACKENDS: dict[str, tuple[tuple[str, ...], str, Callable[[QuadraticProgram], _Answer]]] = {
    "daqp": (("daqp",), "", _daqp),
    "osqp": (("osqp",), "", _osqp),
    "proxqp": (("proxsuite",), "bench", _proxqp),
    "ecos": (("cvxpy", "ecos"), "cvx,gpl", _cvxpy("ECOS", abstol=1e-11, reltol=1e-11, feastol=1e-11, max_iters=300)),
    "clarabel": (
        ("cvxpy", "clarabel"),
        "cvx",
        _cvxpy("CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11),
    ),
}
BUILT_IN = "active-set"
"""The backend of this package."""


def _installed(packages: tuple[str, ...]) -> bool:
    return all(importlib.util.find_spec(package) is not None for package in packages)


def available() -> tuple[str, ...]:
    """Names of the backends whose packages are installed, sorted."""
    return tuple(sorted([BUILT_IN, *(name for name, entry in _BACKENDS.items() if _installed(entry[0]))]))


def solve_qp(problem: QpProblem, backend: str = BUILT_IN) -> QpResult:
    """Solve a quadratic program with any backend, and check the optimality conditions of its answer.

    Args:
        problem: The program.
        backend: One of `available`.

    Returns:
        The outcome; INACCURATE with its residual where the answer misses `TOLERANCE`, as first-order and interior point
        methods may. Only ``"active-set"`` gives a certificate of infeasibility.

    Raises:
        UnknownName: There is no such backend.
        InputError: Its package is not installed, or the shapes do not fit.
    """
    given = checked_qp(problem.H, problem.g, problem.A, problem.b, problem.E, problem.e)
    H, g = given.H, given.g
    A, b, E, e = given.A, given.b, given.E, given.e
    if backend == BUILT_IN:
        return active_set_qp.solve_qp(*given)
    if backend not in _BACKENDS:
        raise UnknownName("qp backend", backend, [BUILT_IN, *_BACKENDS])
    packages, extra, solve = _BACKENDS[backend]
    if not _installed(packages):
        raise InputError(
            f"qp backend {backend!r} needs {' and '.join(packages)}, not installed: {install_command(extra)}"
        )

    # general solvers have absolute tolerances: rows of length one, an objective of size one (math.md, section 13.1)
    size = float(max(np.abs(H).max(initial=0.0), np.abs(g).max(initial=0.0))) or 1.0
    a_length, e_length = _lengths(A), _lengths(E)
    scaled = QuadraticProgram(
        H / size, g / size, A / a_length[:, None], b / a_length, E / e_length[:, None], e / e_length
    )
    x, u, v, iterations, infeasible = solve(scaled)
    if x is None or u is None or v is None:
        return QpResult(
            status=SolverStatus.INFEASIBLE if infeasible else SolverStatus.ITERATIONS,
            x=np.zeros(g.size),
            multipliers=np.zeros(b.size),
            equality_multipliers=np.zeros(e.size),
            active=np.zeros(0, dtype=np.int64),
            residual=np.inf,
            iterations=iterations,
        )
    u = np.ascontiguousarray(np.maximum(u, 0.0) * size / a_length)
    v = np.ascontiguousarray(v * size / e_length)
    x = np.ascontiguousarray(x)
    residual = qp_residual(given, x, u, v)
    return QpResult(
        status=SolverStatus.SOLVED if residual <= TOLERANCE else SolverStatus.INACCURATE,
        x=x,
        multipliers=u,
        equality_multipliers=v,
        active=np.flatnonzero(u > 1e-9 * u.max(initial=0.0)),
        residual=residual,
        iterations=iterations,
    )


def _lengths(rows: Array) -> Array:
    """Length of each row, 1 for a zero row."""
    lengths: Any = np.linalg.norm(rows, axis=1)
    lengths[lengths == 0.0] = 1.0
    return np.asarray(lengths)
