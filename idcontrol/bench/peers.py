"""Solvers of other packages for the problems of `idcontrol.bench.solvers`; each is used if its package is installed."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from idcontrol.bench.timing import Job
from idcontrol.types import Array

PROXIMAL = 1e-9
"""Relative term added to the diagonal of the peers' matrices, which have rank six: most peers refuse singular
matrices."""

TIGHT = 1e-9
"""Tolerance of iterative solvers; with their defaults they stop early and appear faster than they are."""


def installed(*packages: str) -> bool:
    """True if Python finds all `packages`; they are not imported."""
    return all(importlib.util.find_spec(package) is not None for package in packages)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOne:
    """Stage I in the standard form of QP solvers: min ½xᵀHx + gᵀx with x ≥ 0 and C x ≥ 0.

    Stage I finds impulses in friction pyramids that dissipate the most energy (math.md, section 7). The unknowns are
    scaled impulses, x = (f_N, f_S⁺, f_S⁻, f_T⁺, f_T⁻) / s.

    Attributes:
        H: Hessian, scaled to a diagonal of about 1, shape (5n, 5n).
        g: Gradient, scaled to a largest entry of 1, shape (5n,).
        C: Friction pyramids, shape (n, 5n).
        scale: Unit s of x [N s].
    """

    H: Array
    g: Array
    C: Array
    scale: float

    @staticmethod
    def of(rho: Array, c: Array, mu: Array) -> StageOne:
        """Build stage I from whitened rows `rho` (3n, k), constants `c` (3n,) and friction coefficients `mu` (n,)."""
        n = mu.shape[0]
        N, S, T = rho[:n], rho[n : 2 * n], rho[2 * n :]
        c_N, c_S, c_T = c[:n], c[n : 2 * n], c[2 * n :]
        rows, r = np.vstack((N, S, -S, T, -T)), np.concatenate((c_N, c_S, -c_S, c_T, -c_T))
        size, most = float(np.mean(np.einsum("ij,ij->i", rows, rows))), float(np.abs(r).max()) or 1.0
        one = np.eye(n)
        return StageOne(
            H=np.ascontiguousarray(rows @ rows.T / size + PROXIMAL * np.eye(5 * n)),
            g=r / most,
            C=np.hstack((np.diag(mu), -one, -one, -one, -one)),
            scale=most / size,
        )

    def impulses(self, x: Array) -> Array:
        """Return contact impulses (f_N, f_S, f_T) of a solution x, shape (3n,) [N s]."""
        f_N, S, s, T, t = x.reshape(5, -1)
        return self.scale * np.concatenate((f_N, S - s, T - t))


Asked = Sequence[StageOne]


def _daqp(asked: Asked) -> Job:
    daqp: Any = importlib.import_module("daqp")
    first = asked[0]
    rows, bounds = first.C.shape
    upper, lower = np.full(rows + bounds, 1e30), np.zeros(rows + bounds)
    model: Any = None

    def reset() -> None:
        nonlocal model
        model = daqp.Model()
        model.setup(first.H, first.g, first.C, upper, lower)

    def run(i: int) -> Array | None:
        model.update(H=asked[i].H, f=asked[i].g)
        x, _, flag, _ = model.solve()
        return asked[i].impulses(np.asarray(x)) if flag > 0 else None

    return Job(run=run, reset=reset)


def _proxqp(asked: Asked) -> Job:
    proxsuite: Any = importlib.import_module("proxsuite")
    dense, first = proxsuite.proxqp.dense, asked[0]
    rows, size = first.C.shape
    # bounds are passed as rows: with ProxQP's own box constraints a warm start takes longer
    C, zero, most = np.vstack((first.C, np.eye(size))), np.zeros(rows + size), np.full(rows + size, 1e20)
    solver: Any = None

    def reset() -> None:
        nonlocal solver
        solver = dense.QP(size, 0, rows + size)
        solver.settings.eps_abs = TIGHT
        solver.settings.initial_guess = proxsuite.proxqp.InitialGuess.WARM_START_WITH_PREVIOUS_RESULT
        solver.init(first.H, first.g, None, None, C, zero, most)

    def run(i: int) -> Array | None:
        solver.update(H=asked[i].H, g=asked[i].g)
        solver.solve()
        solved = solver.results.info.status == proxsuite.proxqp.PROXQP_SOLVED
        return asked[i].impulses(np.array(solver.results.x)) if solved else None

    return Job(run=run, reset=reset)


def _piqp(asked: Asked) -> Job:
    piqp: Any = importlib.import_module("piqp")
    first = asked[0]
    rows, size = first.C.shape
    G, low, zero = np.asfortranarray(first.C), np.zeros(rows), np.zeros(size)
    solver = piqp.DenseSolver()
    solver.settings.eps_abs = TIGHT
    H = [np.asfortranarray(each.H) for each in asked]
    solver.setup(H[0], first.g, None, None, G, low, None, zero, None)

    def run(i: int) -> Array | None:
        solver.update(P=H[i], c=asked[i].g)
        status = solver.solve()
        return asked[i].impulses(np.array(solver.result.x)) if status == piqp.PIQP_SOLVED else None

    return Job(run=run)


def _osqp(asked: Asked) -> Job:
    osqp: Any = importlib.import_module("osqp")
    from scipy import sparse

    first = asked[0]
    rows, size = first.C.shape
    upper = np.triu_indices(size)
    order = np.lexsort(upper)  # OSQP stores matrices by column
    at = (upper[0][order], upper[1][order])
    A = sparse.csc_matrix(np.vstack((first.C, np.eye(size))))
    solver: Any = None

    def triangle(H: Array) -> Any:
        columns = np.concatenate(([0], np.cumsum(np.arange(1, size + 1))))
        return sparse.csc_matrix((H[at], at[0], columns), shape=(size, size))

    def reset() -> None:
        nonlocal solver
        solver = osqp.OSQP()
        solver.setup(
            P=triangle(first.H),
            q=first.g,
            A=A,
            l=np.zeros(rows + size),
            u=np.full(rows + size, np.inf),
            verbose=False,
            eps_abs=1e-6,
            eps_rel=1e-6,
            max_iter=20000,
            adaptive_rho_interval=50,  # OSQP would otherwise derive this interval from its run time
        )

    def run(i: int) -> Array | None:
        solver.update(Px=asked[i].H[at], q=asked[i].g)
        result = solver.solve(raise_error=False)
        return asked[i].impulses(np.asarray(result.x)) if result.info.status == "solved" else None

    return Job(run=run, reset=reset)


def _quadprog(asked: Asked) -> Job:
    quadprog: Any = importlib.import_module("quadprog")
    size = asked[0].g.size
    columns, zero = np.vstack((asked[0].C, np.eye(size))).T.copy(), np.zeros(asked[0].C.shape[0] + size)

    def run(i: int) -> Array | None:
        try:
            x = quadprog.solve_qp(asked[i].H, -asked[i].g, columns, zero)[0]
        except ValueError:  # raised if the matrix is not positive definite
            return None
        return asked[i].impulses(x)

    return Job(run=run)


def _ecos(asked: Asked) -> Job:
    cvxpy: Any = importlib.import_module("cvxpy")

    def run(i: int) -> Array | None:
        x = cvxpy.Variable(asked[i].g.size)
        cost = 0.5 * cvxpy.quad_form(x, cvxpy.psd_wrap(asked[i].H)) + asked[i].g @ x
        problem = cvxpy.Problem(cvxpy.Minimize(cost), [x >= 0, asked[i].C @ x >= 0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a result that "may be inaccurate" shows in the comparison of answers
            try:
                problem.solve(solver="ECOS")
            except cvxpy.SolverError:
                return None
        return None if x.value is None else asked[i].impulses(np.asarray(x.value))

    return Job(run=run)


@dataclass(frozen=True, slots=True, kw_only=True)
class QpPeer:
    """A general solver of quadratic programs.

    Attributes:
        name: Name of the solver, with a remark if it starts warm.
        packages: Packages that must be installed.
        make: Makes the job that solves the given programs.
        most: Largest number of contacts; with more contacts the solver takes seconds.
    """

    name: str
    packages: tuple[str, ...]
    make: Callable[[Asked], Job]
    most: int


QP_PEERS = (
    QpPeer(name="DAQP, warm", packages=("daqp",), make=_daqp, most=40),
    QpPeer(name="PIQP", packages=("piqp",), make=_piqp, most=120),
    QpPeer(name="ProxQP, warm", packages=("proxsuite",), make=_proxqp, most=4),
    QpPeer(name="quadprog", packages=("quadprog",), make=_quadprog, most=4),
    QpPeer(name="OSQP, warm", packages=("osqp",), make=_osqp, most=4),
    QpPeer(name="CVXPY with ECOS", packages=("cvxpy", "ecos"), make=_ecos, most=4),
)


def quantecon(matrices: Sequence[Array], constants: Sequence[Array]) -> Job | None:
    """Return the job of quantecon's Lemke method for LCPs ``M z + q ≥ 0 ⟂ z ≥ 0`` of `matrices` M and `constants` q.

    The job's answer is the solution z, or None if the method fails.

    Returns:
        The job; None if quantecon is not installed.
    """
    if not installed("quantecon"):
        return None
    from quantecon.optimize import lcp_lemke

    def run(i: int) -> Array | None:
        result = lcp_lemke(matrices[i], constants[i], max_iter=10_000)
        return np.asarray(result.z) if result.success else None

    return Job(run=run)
