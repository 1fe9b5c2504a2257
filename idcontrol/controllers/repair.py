r"""The nearest motion without slip that friction and motors allow (math.md, section 12.2).

    minimize   ½ |P v⁺ - b|²_W + small ½|hτ|² + small ½|f|²                       W = M_qq
    s.t.       M v⁺ + κ = Jᵀf + Pᵀ(hτ)
               N v⁺ + φ/h = 0, S v⁺ = 0, T v⁺ = 0,  f in the friction pyramid      contacts that are held
               N v⁺ + φ/h ≥ 0,  f = 0                                             the others
               least ≤ hτ ≤ most

Zapolsky & Drumwright 2017, eqs. 46-51, print the norm in eq. 46 without the square, and neither pyramids nor limits; a
contact that presses while it opens would meet their eq. 47, too, so the held ones stay closed here. The joints give
way: where no motion at all meets the rows there is no answer, and the contacts have to slip.
"""

from __future__ import annotations

import numpy as np

from idcontrol.models.distribution import Bounds
from idcontrol.models.step import StepProblem, StepSolution
from idcontrol.models.whitened import Whitened
from idcontrol.solvers.active_set_qp import solve_qp
from idcontrol.types import Array, Booleans, Status

MOTOR_WEIGHT = 1e-8
"""Weight of the motor impulses, relative to what they are worth in tracking: small enough that tracking decides."""

CONTACT_WEIGHT = 1e-10
"""Weight of the contact impulses, relative to the same: makes duplicate contacts share evenly."""

ACCURATE = 1e-6
"""Largest residual of an answer that is used [-]. Where the joints need not give way at all, what is left of the
gradient is the weights' share, 1e-10 of the terms that cancel in it, and rounding alone leaves 1e-8 of that."""


def nearest_motion(
    problem: StepProblem, whitened: Whitened, held: Booleans, bounds: Bounds, weight: Array
) -> StepSolution | None:
    """Solve the quadratic program that the module's text states.

    Args:
        problem: The step, with prescribed velocities b.
        whitened: The step in whitened form, with the rows of contacts and of rigid joints and their constants.
        held: Contacts that neither slip nor open, shape (n,).
        bounds: Of the motor impulses.
        weight: Extra weight of each contact's impulse, as in `idcontrol.models.distribution.Cones`, shape (n,).

    Returns:
        The solution, its status REPAIRED, its multipliers the motor impulses; None if there is none.
    """
    assert problem.prescribed is not None
    r, mu = whitened, problem.contacts.mu
    n, index, b = mu.size, problem.prescribed.index, problem.prescribed.velocity
    stand, apart = np.flatnonzero(held), np.flatnonzero(~held)
    s, p = stand.size, index.size
    tangents = np.concatenate((n + stand, 2 * n + stand))
    rigid = np.arange(3 * n, r.rows.shape[0])
    pushing = np.concatenate((stand, tangents, rigid))  # rows that hold, and that have impulses
    offset = r.c - r.rows @ r.v_free

    # v⁺ = v_0 + A x in the impulses x = (f, hτ)
    forces = np.zeros((pushing.size + p, r.M.shape[0]))
    forces[: pushing.size] = r.rows[pushing]
    forces[pushing.size + np.arange(p), index] = 1.0
    answer = np.linalg.solve(r.M, np.column_stack((forces.T, -r.kappa)))
    A, v_0 = answer[:, :-1], answer[:, -1]

    W = r.M[np.ix_(index, index)]
    H = A[index].T @ W @ A[index]
    scale = np.concatenate(
        (
            # a mean, of nothing where no contact is held
            np.full(pushing.size, CONTACT_WEIGHT * H.diagonal()[: pushing.size].sum() / max(pushing.size, 1)),
            np.full(p, MOTOR_WEIGHT * H.diagonal()[pushing.size :].mean()),
        )
    )
    scale[: 3 * s] *= 1.0 + np.tile(weight[stand], 3)
    pyramid = np.zeros((5 * s, pushing.size + p))
    for j, i in enumerate(stand):
        pyramid[5 * j, j] = 1.0
        if np.isfinite(mu[i]):
            for k, (sign, other) in enumerate(((1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0)), start=1):
                pyramid[5 * j + k, [j, s + j, 2 * s + j]] = mu[i], sign, other
    least, most = (np.flatnonzero(np.isfinite(bound)) for bound in bounds)
    motor = np.eye(pushing.size + p)[pushing.size :]
    result = solve_qp(
        H + np.diag(scale),
        A[index].T @ W @ (v_0[index] - b),
        np.vstack((pyramid, motor[least], -motor[most], r.rows[apart] @ A)),
        np.concatenate(
            (np.zeros(5 * s), bounds.least[least], -bounds.most[most], -offset[apart] - r.rows[apart] @ v_0)
        ),
        r.rows[pushing] @ A,
        -offset[pushing] - r.rows[pushing] @ v_0,
    )
    if not result.residual <= ACCURATE:
        return None
    impulses = np.zeros((n, 3))
    impulses[stand] = _within_pyramids(result.x[: 3 * s].reshape(3, s).T, mu[stand])
    return StepSolution(
        v_plus=v_0 + A @ result.x,
        impulses=impulses,
        multipliers=np.clip(result.x[pushing.size :], bounds.least, bounds.most),
        status=Status.REPAIRED,
        residual=result.residual,
        iterations=result.iterations,
        note="the joints gave way so that no contact slips",
    )


def _within_pyramids(f: Array, mu: Array) -> Array:
    """Impulses (s, 3) without what rounding has put outside their pyramids."""
    pressing = np.maximum(f[:, 0], 0.0)
    friction = np.abs(f[:, 1:]).sum(axis=1)
    bound, share = np.full_like(friction, np.inf), np.ones_like(friction)
    finite = np.isfinite(mu)
    bound[finite] = mu[finite] * pressing[finite]
    beyond = friction > bound
    share[beyond] = bound[beyond] / friction[beyond]
    return np.column_stack((pressing, share[:, None] * f[:, 1:]))
