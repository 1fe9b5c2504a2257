r"""Regularization of contacts, computed from their physical parameters: stiffness, damping, friction.

Source: Castro, Permenter & Han 2022, section IX.

    R_n = max(β² w/4π², 1/(h k (h + τ_d))),   R_t = σ w,   v̂_n = -φ₀/(h + τ_d),   τ_d = damping/stiffness

The mean inverse mass of a contact is ``w = ‖J_i M⁻¹ J_iᵀ‖_F / 3``. A contact that is rigid, or too stiff for the step,
becomes *near-rigid*: critically damped with the period βh; rigid contacts have τ_d = βh/π. A body at rest sinks by ``β²
g h²/4π²``, 2.5e-7 m at 1 ms; a sticking contact creeps at no more than ``μ σ g h``.
"""

from __future__ import annotations

import numpy as np

from idcontrol.kernels.jit import njit
from idcontrol.models.step import PUSH_OUT_SPEED
from idcontrol.types import Array

BETA = 1.0
"""Period of a near-rigid contact, in steps."""

SIGMA = 1e-3
"""Tangential regularization relative to w; the creep of sticking contacts is proportional to it."""

IMMOVABLE = 1e300
"""Regularization of a contact whose impulse moves nothing."""


@njit(cache=True, error_model="numpy")
def mean_inverse_mass(rho: Array, n: int) -> Array:  # pragma: no cover - compiled
    """Return w of n contacts [1/kg] from rows in block order, shape (3 n, k), whitened with the whole inertia."""
    w = np.empty(n)
    k = rho.shape[1]
    for i in range(n):
        squares = 0.0
        for a in range(3):
            for b in range(3):
                s = 0.0
                for j in range(k):
                    s += rho[a * n + i, j] * rho[b * n + i, j]
                squares += s * s
        w[i] = np.sqrt(squares) / 3.0
    return w


@njit(cache=True, error_model="numpy")
def regularize(
    h: float,
    w: float,
    gap: float,
    stiffness: float,
    damping: float,
    beta: float,
    sigma: float,
) -> tuple[float, float, float]:  # pragma: no cover - compiled
    """Return R_n and R_t [m/s per N s], and v̂_n [m/s], of one contact.

    Its arguments are the step h [s], the inverse mass w [1/kg], gap [m], stiffness [N/m], damping [N s/m], β and σ.
    A contact of infinite stiffness corrects penetration at no more than `PUSH_OUT_SPEED`. A contact whose impulse moves
    nothing (w = 0) is so soft that it has no impulse.
    """
    if w == 0.0:
        return IMMOVABLE, IMMOVABLE, 0.0
    if stiffness == np.inf:
        tau_d = beta * h / np.pi
        return beta * beta * w / (4.0 * np.pi**2), sigma * w, min(-gap / (h + tau_d), PUSH_OUT_SPEED)
    tau_d = damping / stiffness
    R_n = max(beta * beta * w / (4.0 * np.pi**2), 1.0 / (h * stiffness * (h + tau_d)))
    return R_n, sigma * w, -gap / (h + tau_d)
