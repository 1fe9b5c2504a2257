"""Measures the claims on solvers, against brute force and other implementations."""

from __future__ import annotations

import itertools
from typing import Final

import numpy as np
from scipy.optimize import nnls

from idcontrol.solvers.lemke import solve_lemke
from idcontrol.solvers.psd import solve_psd_lcp
from idcontrol.solvers.qp import QpProblem, solve_qp
from idcontrol.types import Array

PROBLEMS: Final = 30


def _enumerated(Q: Array, r: Array) -> Array:
    """The solution of w = Qz + r, 0 ≤ z ⊥ w ≥ 0 for a P-matrix, from the only feasible one among all bases."""
    n = r.size
    for bits in itertools.product((False, True), repeat=n):
        basic = np.array(bits)
        z = np.zeros(n)
        z[basic] = np.linalg.solve(Q[np.ix_(basic, basic)], -r[basic])
        if (z >= 0.0).all() and (Q @ z + r >= -1e-12).all():
            return z
    raise ArithmeticError("no basis is feasible, though a P-matrix has one")


def lemke_and_enumeration() -> float:
    """Largest difference between Lemke's solution and that of enumerating all bases, relative to its size."""
    rng, worst = np.random.default_rng(0), []
    for _ in range(PROBLEMS):
        A, B = rng.normal(size=(2, 6, 6))
        Q, r = A @ A.T + 0.1 * np.eye(6) + B - B.T, rng.normal(size=6)
        expected = _enumerated(Q, r)
        worst.append(np.abs(solve_lemke(Q, r).z - expected).max() / (expected.max() or 1.0))
    return float(np.max(worst))


def active_set_and_daqp() -> float:
    """Largest difference between the minima of the dual active set and of DAQP, relative to their size."""
    rng, worst = np.random.default_rng(0), []
    for _ in range(PROBLEMS):
        B = rng.normal(size=(8, 8))
        x = rng.normal(size=8)
        A, E = rng.normal(size=(12, 8)), rng.normal(size=(2, 8))
        problem = QpProblem(
            H=B @ B.T + 0.1 * np.eye(8), g=rng.normal(size=8), A=A, b=A @ x - rng.uniform(0.0, 1.0, 12), E=E, e=E @ x
        )
        ours, theirs = solve_qp(problem), solve_qp(problem, "daqp")
        worst.append(np.abs(ours.x - theirs.x).max() / np.abs(theirs.x).max())
    return float(np.max(worst))


def pivoting_and_nnls() -> float:
    """Largest difference between the points nearest to 0 in ρy + r ≥ 0 by principal pivoting and by NNLS."""
    rng, worst = np.random.default_rng(0), []
    for _ in range(PROBLEMS):
        rho = rng.normal(size=(12, 5))
        r = rng.uniform(0.0, 1.0, 12) - rho @ rng.normal(size=5)
        # least distance programming (Lawson & Hanson 1974): the residual of min |[ρ, -r]ᵀ u - e| over u ≥ 0 points to
        # it
        columns, last = np.vstack((rho.T, -r)), np.eye(6)[5]
        u, _ = nnls(columns, last)
        rest = columns @ u - last
        expected = -rest[:5] / rest[5]
        worst.append(np.abs(rho.T @ solve_psd_lcp(rho, r).z - expected).max())
    return float(np.max(worst))
