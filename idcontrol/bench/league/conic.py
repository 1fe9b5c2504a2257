r"""A step of the contact model SAP as a second-order cone program (Castro, Permenter & Han 2022, section V, eq. 15).

    minimize over v, γ   ½ (v - v*)ᵀ M (v - v*) + ½ γᵀ R γ    subject to   g = J v - v̂ + R γ in the dual friction cones

γ are the contact impulses, v* the velocities without contact, R the regularization and v̂ the contact velocities that
SAP demands (`idcontrol.models.sap.regularization`). In whitened coordinates ``z = Lᵀ(v - v*)``, ``ζ = R^½ γ`` the cost
is ½|z|² + ½|ζ|². Solvers that accept quadratic costs minimize this cost. ECOS accepts only linear costs, so it
minimizes t, with one more cone |(z, ζ)| ≤ t. OSQP does not support cones and is left out.
"""

import importlib
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import csc_array, csc_matrix, diags_array, eye_array, hstack, vstack

from idcontrol.bench.peers import installed
from idcontrol.errors import InputError
from idcontrol.models.sap.cone import OPEN, derivative, project
from idcontrol.models.sap.regularization import mean_inverse_mass, regularize
from idcontrol.models.sparse import WORLD, SparseProblem, SparseSolution, dense_inertia, dense_rows
from idcontrol.models.step import StepProblem
from idcontrol.types import Array, Booleans


class Program(NamedTuple):
    """The program of n contacts and m velocities; rows 3 i to 3 i + 2 of J, rho, c and R belong to contact i.

    The first of these three rows is the normal.

    Attributes:
        M: Inertia, shape (m, m).
        L: Lower Cholesky factor of M, shape (m, m).
        v_star: Velocities without contact, shape (m,).
        J: Contact rows, shape (3 n, m).
        rho: Whitened rows ``J L⁻ᵀ``, shape (3 n, m).
        c: ``J v* - v̂`` minus the velocity of surfaces, shape (3 n,).
        R: Regularization, shape (3 n,).
        mu: Friction, shape (n,).
    """

    M: Array
    L: Array
    v_star: Array
    J: Array
    rho: Array
    c: Array
    R: Array
    mu: Array


class Answer(NamedTuple):
    """A solver's answer to a program.

    Attributes:
        v: Velocities, shape (m,).
        gamma: Impulses, shape (3 n,).
        iterations: Number of iterations.
        seconds: Processor time without setup [s], as Castro, Permenter & Han 2022 time Gurobi; for ECOS, the time that
            it reports.
        solved: True if the solver reports success.
    """

    v: Array
    gamma: Array
    iterations: int
    seconds: float
    solved: bool


def program(problem: SparseProblem, sigma: float, beta: float) -> Program:
    """Return the program of a step.

    Args:
        problem: The step.
        sigma: SAP's factor σ of the tangential regularization (`idcontrol.models.sap.regularization`).
        beta: SAP's factor β of the normal regularization of nearly rigid contacts.

    Raises:
        InputError: A friction coefficient is infinite: the dual of its cone has no interior.
    """
    if np.isinf(problem.mu).any():
        raise InputError("general solvers need finite friction")
    n, sizes = len(problem.gap), problem.size
    end = np.cumsum(sizes)
    M, J = dense_inertia(problem), dense_rows(problem)
    L, rho, v_star = np.zeros_like(M), np.empty_like(J), problem.v_star[_used(problem)]
    for at, size in zip(end - sizes, sizes, strict=True):
        own = slice(at, at + size)
        L[own, own] = np.linalg.cholesky(M[own, own])
        rho[:, own] = solve_triangular(L[own, own], J[:, own].T, lower=True).T
    w = mean_inverse_mass(rho, n)
    physical = zip(w, problem.gap, problem.stiffness, problem.damping, strict=True)
    result = np.array([regularize(problem.h, *each, beta, sigma) for each in physical]).reshape(n, 3)
    by_contact = np.arange(3 * n).reshape(3, n).T.ravel()
    c = (J @ v_star)[by_contact] - problem.surface_velocity.ravel()
    c[::3] -= result[:, 2]
    return Program(M, L, v_star, J[by_contact], rho[by_contact], c, result[:, [0, 1, 1]].ravel(), problem.mu)


def of_step(step: StepProblem, v: Array, impulse: Array) -> SparseProblem:
    """Return a forward step of one machine as a sparse problem with one tree, which has all m velocities.

    Args:
        step: The step; its bilateral rows and the velocities of surfaces are left out.
        v: Velocities at the beginning of the step, shape (m,).
        impulse: Impulses of motors and of all rows other than contacts, shape (m,) [N s, N m s].
    """
    contacts, m = step.contacts, len(v)
    n = len(contacts)
    rows = np.zeros((n, 2, 3, m))
    rows[:, 0] = contacts.jacobian.reshape(3, n, m).swapaxes(0, 1)
    return SparseProblem(
        h=step.h,
        size=np.array([m]),
        M=step.M[None],
        v=v[None],
        v_star=np.asarray(np.linalg.solve(step.M, impulse - step.kappa), dtype=np.float64)[None],
        tree=np.tile([0, WORLD], (n, 1)),
        rows=rows,
        gap=contacts.gap,
        mu=contacts.mu,
        stiffness=contacts.stiffness,
        damping=contacts.damping,
        surface_velocity=np.zeros((n, 3)),
    )


def by_sap(problem: SparseProblem, solution: SparseSolution, seconds: float) -> Answer:
    """Return SAP's own solution as an answer."""
    return Answer(solution.v_plus[_used(problem)], solution.impulses.ravel(), solution.iterations, seconds, True)


def _used(problem: SparseProblem) -> Booleans:
    """Return which velocities of each tree exist; the others fill the rows of smaller trees."""
    return np.arange(problem.v.shape[1]) < problem.size[:, None]


def momentum_error(problem: SparseProblem, answer: Answer) -> float:
    """Return ``|D(M(v - v*) - Jᵀγ)| / max(|D M v|, |D Jᵀγ|)``, D = diag(M)^(-1/2) (Castro et al. 2022, eq. 24)."""
    v, pushed = np.zeros_like(problem.v), np.zeros_like(problem.v)
    v[_used(problem)] = answer.v
    by_side = np.einsum("nsrd,nr->snd", problem.rows, answer.gamma.reshape(-1, 3))
    moves = problem.tree.T != WORLD
    np.add.at(pushed, problem.tree.T[moves], by_side[moves])
    scale = 1.0 / np.sqrt(np.einsum("tii->ti", problem.M))
    carried, free = (np.einsum("tij,tj->ti", problem.M, each) for each in (v, problem.v_star))
    size = max(np.linalg.norm(scale * carried), np.linalg.norm(scale * pushed))
    return float(np.linalg.norm(scale * (carried - free - pushed)) / size) if size > 0.0 else 0.0


def slackness(asked: Program, answer: Answer) -> float:
    """Return the mean |g · γ| per contact, divided by the cost at the answer (Castro et al. 2022, eq. 25).

    The result is 0 without contacts, or if the cost is 0.
    """
    away = answer.v - asked.v_star
    g = asked.c + asked.J @ away + asked.R * answer.gamma
    cost = 0.5 * away @ asked.M @ away + 0.5 * answer.gamma @ (asked.R * answer.gamma)
    per_contact = np.abs((g * answer.gamma).reshape(-1, 3).sum(axis=1))
    return float(per_contact.mean() / cost) if per_contact.size and cost > 0.0 else 0.0


def condition(asked: Program, v: Array) -> float:
    """Return the condition number of the Hessian ``M + JᵀG J`` of SAP's cost at v (Castro et al. 2022, Fig. 15)."""
    u = (asked.c + asked.J @ (v - asked.v_star)).reshape(-1, 3)
    H, gamma = asked.M.copy(), np.empty(3)
    for i, mu in enumerate(asked.mu):
        rows, R_n, R_t = asked.J[3 * i : 3 * i + 3], asked.R[3 * i], asked.R[3 * i + 1]
        if project(*u[i], mu, R_n, R_t, gamma) != OPEN:
            nn, ns, nt, ss, st, tt = derivative(*u[i], mu, R_n, R_t)
            G = np.array([[nn, ns, nt], [ns, ss, st], [nt, st, tt]])
            moves = np.flatnonzero(rows.any(axis=0))
            H[np.ix_(moves, moves)] += rows[:, moves].T @ G @ rows[:, moves]
    return float(np.linalg.cond(H))


def _matrices(asked: Program) -> tuple[csc_array, Array]:
    """Return G and h of ``G x + s = h``, with x = (z, ζ) of the module and s in second-order cones of three entries."""
    across = np.column_stack((np.ones_like(asked.mu), asked.mu, asked.mu)).ravel()
    G = -hstack([diags_array(across) @ csc_array(asked.rho), diags_array(across * np.sqrt(asked.R))])
    return csc_array(G), across * asked.c


def _answer(asked: Program, x: Array, iterations: int, seconds: float, solved: bool) -> Answer:
    m = len(asked.v_star)
    v = asked.v_star + solve_triangular(asked.L, x[:m], lower=True, trans="T")
    return Answer(v, x[m:] / np.sqrt(asked.R), iterations, seconds, solved)


def clarabel(asked: Program, tolerance: float) -> Answer:
    """Solve by Clarabel, an interior-point method for quadratic costs (Goulart & Chen 2024)."""
    package: Any = importlib.import_module("clarabel")
    G, h = _matrices(asked)
    settings = package.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
    cones = [package.SecondOrderConeT(3)] * len(asked.mu)
    solver = package.DefaultSolver(csc_array(eye_array(G.shape[1])), np.zeros(G.shape[1]), G, h, cones, settings)
    began = time.thread_time()
    result = solver.solve()
    took = time.thread_time() - began
    return _answer(asked, np.array(result.x), result.iterations, took, str(result.status) == "Solved")


def ecos(asked: Program, tolerance: float) -> Answer:
    """Solve by ECOS, an interior-point method for linear costs (Domahidi, Chu & Boyd 2013)."""
    package: Any = importlib.import_module("ecos")
    G, h = _matrices(asked)
    size = 1 + G.shape[1]
    whole = csc_matrix(vstack([-eye_array(size), hstack([csc_array((len(h), 1)), G])]))
    cost = np.zeros(size)
    cost[0] = 1.0
    result = package.solve(
        cost,
        whole,
        np.concatenate((np.zeros(size), h)),
        {"l": 0, "q": [size] + [3] * len(asked.mu)},
        verbose=False,
        abstol=tolerance,
        reltol=tolerance,
        feastol=tolerance,
    )
    info = result["info"]
    return _answer(asked, result["x"][1:], info["iter"], info["timing"]["tsolve"], info["exitFlag"] == 0)


def scs(asked: Program, tolerance: float) -> Answer:
    """Solve by SCS, a first-order method (O'Donoghue 2021)."""
    package: Any = importlib.import_module("scs")
    G, h = _matrices(asked)
    data = {"P": csc_array(eye_array(G.shape[1])), "A": G, "b": h, "c": np.zeros(G.shape[1])}
    solver = package.SCS(data, {"q": [3] * len(asked.mu)}, eps_abs=tolerance, eps_rel=tolerance, verbose=False)
    began = time.thread_time()
    result = solver.solve()
    took = time.thread_time() - began
    return _answer(asked, result["x"], result["info"]["iter"], took, result["info"]["status"] == "solved")


SOLVERS: Final[dict[str, Callable[[Program, float], Answer]]] = {"clarabel": clarabel, "ecos": ecos, "scs": scs}
"""General solvers by name. Clarabel replaces Gurobi, and ECOS replaces the geodesic interior-point method, of Castro et
al. 2022."""


def present() -> dict[str, Callable[[Program, float], Answer]]:
    """Return the installed `SOLVERS`."""
    return {name: solve for name, solve in SOLVERS.items() if installed(name)}
