"""Solvers of other packages for `idcontrol.bench.league.solvers`, run in a separate script since some of them crash.

A line on stdin is a JSON list: the problem's file (.npz), the package, its solver, the tolerance, the largest number of
iterations, and the time after which the solver is not called again [s]. The answer is a line on stdout: ``{"r":
impulses or null, "seconds": shortest time}``. The script imports nothing of idcontrol, as siconos needs a separate
interpreter.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

Solve = Callable[[], Any]
"""Solves a problem, and returns impulses, shape (3 n,), or None."""

SOLVES = 60
"""Largest number of convex programs in a fixed-point iteration."""


def pinocchio(method: str, W: Any, q: Any, mu: Any, tolerance: float, rounds: int) -> Solve:
    """Return Pinocchio's ADMM (Carpentier et al. 2024) or projected Gauss-Seidel (PGS)."""
    pin: Any = importlib.import_module("pinocchio")
    n = mu.size
    # Pinocchio puts the tangents of a contact before its normal
    order = np.arange(3 * n).reshape(n, 3)[:, [1, 2, 0]].ravel()
    model = pin.Model()
    model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "body")
    points, places = pin.StdVec_ConstraintModel(), pin.StdVec_ConstraintData()
    kept = []  # keeps the entries of Pinocchio's vectors alive
    for friction in mu.tolist():
        point = pin.PointContactConstraintModel(model, 0, pin.SE3.Identity(), 1, pin.SE3.Identity())
        point.setFriction(friction)
        place = point.createData()
        kept.append((point, place))
        points.append(pin.ConstraintModel(point))
        places.append(pin.ConstraintData(place))
    settings = getattr(pin, f"{method}SolverSettings")()
    settings.absolute_feasibility_tol = settings.absolute_complementarity_tol = tolerance
    settings.relative_feasibility_tol = settings.relative_complementarity_tol = tolerance
    settings.max_iterations = rounds
    delassus, first = pin.DelassusOperatorDense(np.asfortranarray(W[np.ix_(order, order)])), q[order]

    def solve() -> Any:
        assert kept
        result, solver = getattr(pin, f"{method}SolverResult")(), getattr(pin, f"{method}ConstraintSolver")(3 * n)
        if not solver.solve(delassus, first, points, places, settings, result):
            return None
        r = np.empty(3 * n)
        r[order] = result.retrieveConstraintImpulses()
        return r

    return solve


def fixed_point(method: str, W: Any, q: Any, mu: Any, tolerance: float, rounds: int) -> Solve:
    """Return a fixed-point iteration over convex programs (Acary et al. 2011).

    Each program minimizes ½ rᵀWr + (q + s)ᵀr over impulses r in the friction cones. s has entries for the normals only:
    μ |u_T|, with the slip u_T of the last result, u = W r + q.
    """
    cvxpy: Any = importlib.import_module("cvxpy")
    n = mu.size
    size, vectors = np.linalg.eigh(W)
    root = vectors[:, size > 0.0] * np.sqrt(size[size > 0.0])
    r, linear = cvxpy.Variable(3 * n), cvxpy.Parameter(3 * n)
    held = [cvxpy.SOC(mu[i] * r[3 * i], r[3 * i + 1 : 3 * i + 3]) for i in range(n)]
    program = cvxpy.Problem(cvxpy.Minimize(0.5 * cvxpy.sum_squares(root.T @ r) + linear @ r), [*held, r[::3] >= 0.0])
    tight = 0.01 * tolerance

    def solve() -> Any:
        s = np.zeros(n)
        for _ in range(SOLVES):
            linear.value = q.copy()
            linear.value[::3] += s
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # the solver warns if it misses its tolerance
                    program.solve(solver=method, tol_gap_abs=tight, tol_gap_rel=tight, tol_feas=tight, max_iter=rounds)
            except cvxpy.error.SolverError:
                return None
            if r.value is None:
                return None
            slip = mu * np.linalg.norm((W @ r.value + q).reshape(n, 3)[:, 1:], axis=1)
            change, s = np.abs(slip - s).max(), slip
            if change <= tolerance:
                return r.value
        return None

    return solve


def siconos(method: str, W: Any, q: Any, mu: Any, tolerance: float, rounds: int) -> Solve:
    """Return Gauss-Seidel, ADMM or the semi-smooth Newton method of siconos (Acary et al. 2018)."""
    sn: Any = importlib.import_module("siconos.numerics")
    driver = {"NSGS": sn.fc3d_nsgs, "ADMM": sn.fc3d_admm, "NSN_AC": sn.fc3d_nonsmooth_Newton_AlartCurnier}[method]
    problem = sn.FrictionContactProblem(3, mu.size, np.asfortranarray(W), q, mu)

    def solve() -> Any:
        options = sn.SolverOptions(getattr(sn, "SICONOS_FRICTION_3D_" + method))
        options.dparam[sn.SICONOS_DPARAM_TOL] = tolerance
        options.iparam[sn.SICONOS_IPARAM_MAX_ITER] = rounds
        r, u = np.zeros(q.size), np.zeros(q.size)
        return None if driver(problem, r, u, options) else r

    return solve


PACKAGES = {"pinocchio": pinocchio, "cvxpy": fixed_point, "siconos": siconos}


def shortest(solve: Solve, patience: float) -> tuple[Any, float]:
    """Call `solve` again and again for `patience` [s]; return its result and the shortest time."""
    least, spent, impulses = float("inf"), 0.0, None
    while spent < patience:
        began = time.perf_counter()
        impulses = solve()
        took = time.perf_counter() - began
        least, spent = min(least, took), spent + took
    return impulses, least


def answer(file: str, package: str, method: str, tolerance: float, rounds: int, patience: float) -> dict[str, Any]:
    """Answer one request. The fastest contact is scaled to 1 m/s, so that tolerances are relative."""
    with np.load(file) as arrays:
        W, q, mu = arrays["W"], arrays["q"], arrays["mu"]
    unit = np.abs(q).max() or 1.0
    solve = PACKAGES[package](method, W, q / unit, mu, tolerance, rounds)
    impulses, least = shortest(solve, patience)
    return {"r": None if impulses is None else (unit * impulses).tolist(), "seconds": least}


if __name__ == "__main__":
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # some solvers print on stdout
    with contextlib.suppress(BrokenPipeError):
        for line in sys.stdin:
            print(json.dumps(answer(*json.loads(line))), file=channel, flush=True)
