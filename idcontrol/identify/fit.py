"""Least squares for the parameters of bodies and drives, with a prior, physical consistency and covariance.

The parameters θ depend on coordinates z (`idcontrol.identify.prior`), whose prior mean is z₀. After the unknowns are
eliminated from the equations A θ = b, the estimate minimizes ::

    |(A θ(z) - b) / (σ s)|² + |(z - z₀) / spread|²,

where s is the scale of the drive in the row of a joint, and 1 in other rows. So errors are compared with the torque
that the drive reports: otherwise a joint with small loads would seem to have no torque and no friction. The standard
deviation σ of each row is its rms error in the previous fit, separately for blocks in which the joint reverses. A
weighed mass adds one equation.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.dynamics.system import System
from idcontrol.identify.equations import Blocks
from idcontrol.identify.inertia import SIZE
from idcontrol.identify.prior import Prior
from idcontrol.types import Array, Integers

QUIET: Final = 0.01
"""Smallest assumed rms generalized force of a row, relative to the largest of all rows."""
COARSE: Final = 0.1
"""Standard deviation of a row in the first fit, relative to the rms generalized force of the row."""
EXACT: Final = 1e-4
"""Smallest standard deviation of a row, relative to its rms generalized force. A log does not show changes within a
tick, so its equations hold only to about this share."""
PASSES: Final = 5
"""Number of fits; σ of logs with noise settles within four."""
STEPS: Final = 200
"""Largest number of Levenberg-Marquardt steps in a fit; about twenty are taken."""
SLIGHT: Final = 1e-9
"""Relative decrease of the cost in a step at or below which a fit ends."""
FEW: Final = 1e-3
"""The standard deviation of a row is updated only if more equations remain after the elimination of the unknowns than
this share of the number of blocks."""
TOGETHER: Final = 10
"""Number of consecutive blocks whose errors may be correlated. For the covariance, the weight of all equations is
divided by the ratio of the squared sum of these errors to the sum of their squares, if this ratio exceeds 1."""
RANK: Final = 1e-9
"""Singular values of the unknowns' columns below this share of the largest are rounding errors."""
MASS_SPREAD: Final = 1e-4
"""Relative standard deviation of a weighed mass: so small that noise does not shrink all parameters together."""


class Fit(NamedTuple):
    """Fitted parameters.

    Attributes:
        theta: The parameters θ, shape (p,), in the order of `idcontrol.identify.equations.Blocks`.
        covariance: Covariance of θ after the fit, shape (p, p).
        before: Covariance of θ in the prior, shape (p, p).
        sigma: Standard deviation of each row of the equations in blocks without a reversal, shape (m,) [N, N m].
    """

    theta: Array
    covariance: Array
    before: Array
    sigma: Array


def rms_of(blocks: Blocks, prior: Prior, system: System) -> Array:
    """Return the rms generalized force in each row of the equations for nominal parameters, shape (m,) [N, N m].

    It is at least `QUIET` times the largest.

    The three linear rows of a free-flyer share one value, the root of the sum of their squares. The three angular rows
    share one value, too.
    """
    theta, k = prior.parameters(prior.start)[0], SIZE * len(prior.root)
    squares = sum(np.square(blocks.A[:, :, part] @ theta[part]) for part in (slice(k), slice(k, None)))
    rms: Array = np.sqrt(np.mean(squares, axis=0))
    for first in (*system.flyer_v, *(system.flyer_v + 3)):
        rms[first : first + 3] = np.linalg.norm(rms[first : first + 3])
    return np.maximum(rms, QUIET * rms.max())


class Rows(NamedTuple):
    """The equations of a log in squared form: divided by σ, without unknowns, and summed over all blocks.

    Attributes:
        gram: Sum of ``(A, -b)ᵀ (A, -b)`` of each row, shape (m, p + 1, p + 1).
        scale: Index in θ of the drive's scale for the row of a joint, -1 for other rows, shape (m,).
    """

    gram: Array
    scale: Integers


def misfits(blocks: Blocks, sigma: Array, theta: Array) -> Array:
    """Return the errors of the equations at `theta`, divided by `sigma`, shape (n, m).

    The unknowns have the values with the smallest errors. The shape of `sigma` is (m,) or (n, m).
    """
    errors = (blocks.A @ theta - blocks.b) / sigma
    return np.einsum("nij,nj->ni", remaining(blocks.U / sigma[..., None]), errors)


def remaining(unknowns: Array) -> Array:
    """Return the projections (n, m, m) of each block's equations that cancel the columns `unknowns` (n, m, u)."""
    left, singular, _ = np.linalg.svd(unknowns, full_matrices=False)
    used = left * (singular > RANK * singular[:, :1])[:, None, :]
    return np.eye(unknowns.shape[1]) - used @ np.swapaxes(used, 1, 2)


def _projected(blocks: Blocks, sigma: Array) -> tuple[Array, Array]:
    """Divide the equations by their standard deviations `sigma`, shape (n, m), and eliminate the unknowns.

    Returns:
        The coefficients and right sides ``(A, -b)``, shape (n, m, p + 1); and the share of each equation that remains,
            0 to 1, shape (n, m).
    """
    known = remaining(blocks.U / sigma[..., None])
    right = np.concatenate((blocks.A, -blocks.b[:, :, None]), axis=2) / sigma[..., None]
    return known @ right, np.einsum("nii->ni", known)


def fit(blocks: Blocks, prior: Prior, system: System) -> Fit:
    """Fit the parameters to the prior and to the equations `blocks` of the robot `system`."""
    a, z, p = system.n_actuated, prior.start, len(prior.spread)
    scale = np.full(system.n_velocities, -1)
    scale[system.order[system.n_unactuated :]] = np.arange(p - a, p)
    rms = rms_of(blocks, prior, system)
    kinds = np.stack((~blocks.reverses, blocks.reverses))
    sigma = np.tile(COARSE * rms, (2, 1))  # of blocks without and with a reversal
    for _ in range(PASSES):
        old = sigma
        each, share = _projected(blocks, np.where(blocks.reverses, old[1], old[0]))
        of_row = np.swapaxes(each, 0, 1)
        rows = Rows(np.swapaxes(of_row, 1, 2) @ of_row, scale)
        z = _descend(rows, prior, z)
        theta, _ = prior.parameters(z)
        errors = each @ np.append(theta, 1.0)
        counts = (kinds * share).sum(axis=1)
        ratio = np.sqrt((kinds * np.square(errors)).sum(axis=1) / np.maximum(counts, 1.0))
        sigma = np.where(counts > FEW * len(blocks.b), np.maximum(old * ratio, EXACT * rms), old)
    whole = len(errors) // TOGETHER * TOGETHER
    sums = errors[:whole].reshape(-1, TOGETHER, errors.shape[1]).sum(axis=1)
    alike = max(1.0, float(np.square(sums).sum() / np.square(errors[:whole]).sum())) if whole else 1.0
    _, slope = prior.parameters(z)
    _, _, H = _cost(rows._replace(gram=rows.gram / alike), prior, z, z)
    free = prior.free
    spread = np.where(free, prior.spread, 0.0)
    return Fit(
        theta=theta,
        covariance=slope[:, free] @ np.linalg.inv(H[np.ix_(free, free)]) @ slope[:, free].T,
        before=slope @ np.diag(spread**2) @ slope.T,
        sigma=old[0],
    )


def _cost(rows: Rows, prior: Prior, z: Array, first: Array) -> tuple[float, Array, Array]:
    """Return half the cost at coordinates `z`, with its gradient and its Gauss-Newton Hessian.

    Args:
        rows: The equations, divided by σ for the drives' scales in `first`.
        prior: The prior.
        z: Coordinates at which the cost is computed, shape (p,).
        first: Coordinates at the beginning of the fit, shape (p,).
    """
    theta, slope = prior.parameters(z)
    joints = np.flatnonzero(rows.scale >= 0)
    at = rows.scale[joints]
    weight = np.ones(len(rows.scale))
    weight[joints] = (first[at] / z[at]) ** 2
    whole = np.append(theta, 1.0)
    each = weight[:, None] * (rows.gram @ whole)
    squares = each @ whole
    gradient = each[:, :-1].sum(axis=0)
    gradient[at] -= squares[joints] / z[at]
    H = np.tensordot(weight, rows.gram[:, :-1, :-1], axes=1)
    mixed = each[joints, :-1] / z[at, None]
    H[at] -= mixed
    H[:, at] -= mixed.T
    H[at, at] += squares[joints] / z[at] ** 2
    away = (z - prior.start) / prior.spread
    cost = float(squares.sum() + away @ away)
    gradient = slope.T @ gradient + away / prior.spread
    H = slope.T @ H @ slope + np.diag(prior.spread**-2.0)
    if np.isfinite(prior.mass):
        missing, total = prior.masses @ theta - prior.mass, prior.masses @ slope
        weighed = (MASS_SPREAD * prior.mass) ** -2.0
        cost += weighed * missing**2
        gradient += weighed * missing * total
        H += weighed * np.outer(total, total)
    return 0.5 * cost, gradient, H


def _descend(rows: Rows, prior: Prior, first: Array) -> Array:
    """Minimize the cost within the bounds by Levenberg-Marquardt, from `first`; return the coordinates, shape (p,)."""
    z, damping = np.maximum(first, prior.least), 1e-3
    cost, gradient, H = _cost(rows, prior, z, first)
    for _ in range(STEPS):
        moves = np.flatnonzero(prior.free & ((z > prior.least) | (gradient < 0.0)))
        if moves.size == 0:
            break
        part = H[np.ix_(moves, moves)]
        step = np.zeros_like(z)
        step[moves] = np.linalg.solve(part + damping * np.diag(np.diag(part)), -gradient[moves])
        trial = np.maximum(z + step, prior.least)
        new = _cost(rows, prior, trial, first)
        if new[0] <= cost:
            done = cost - new[0] <= SLIGHT * cost
            z, (cost, gradient, H), damping = trial, new, 0.2 * damping
            if done:
                break
        else:
            damping *= 5.0
    return z
