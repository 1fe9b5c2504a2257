r"""Contact impulses as a function of contact velocity: the analytic projection and its derivative.

Source: Castro, Permenter & Han 2022, section VII, eq. 18, and appendix E.

Let u be the velocity of a contact relative to v̂, with components (normal, first tangent, second tangent), R =
diag(R_n, R_t, R_t) and ``y = -u/R``. With μ̂ = μ R_t/R_n, μ̃² = μ² R_t/R_n, y_r = |y_t| and t̂ = y_t/y_r, the impulse γ
is the projection of y onto the friction cone in the norm of R:

    stick   y_r ≤ μ y_n        γ = y
    slide   between            γ_n = (y_n + μ̂ y_r)/(1 + μ̃²),  γ_t = μ γ_n t̂
    open    y_n ≤ -μ̂ y_r       γ = 0

For μ = 0 there is no tangential impulse. For μ = inf the cone is the half space γ_n ≥ 0. In every case the impulse is
minus the gradient of a convex cost, ``½ γᵀRγ``.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from idcontrol.kernels.jit import njit
from idcontrol.types import Array

OPEN, STICK, SLIDE = 0, 1, 2

Symmetric: TypeAlias = tuple[float, float, float, float, float, float]
"""A symmetric matrix over normal, first and second tangent: nn, ns, nt, ss, st, tt."""

EDGE = 1e-9
"""Relative distance from the border of the cone up to which a contact counts as sliding."""


@njit(cache=True, error_model="numpy")
def project(
    u_n: float, u_s: float, u_t: float, mu: float, R_n: float, R_t: float, gamma: Array
) -> int:  # pragma: no cover - compiled
    """Compute the impulse of one contact.

    Args:
        u_n: Velocity along the normal, relative to v̂ [m/s].
        u_s: Velocity along the first tangent [m/s].
        u_t: Velocity along the second tangent [m/s].
        mu: Friction coefficient.
        R_n: Normal regularization [m/s per N s].
        R_t: Tangential regularization [m/s per N s].
        gamma: Overwritten with the impulse, shape (3,) [N s].

    Returns:
        `OPEN`, `STICK` or `SLIDE`.
    """
    mode, gamma[0], gamma[1], gamma[2] = nearest(-u_n / R_n, -u_s / R_t, -u_t / R_t, mu, mu * R_t / R_n)
    return mode


@njit(cache=True, inner=True, error_model="numpy")
def nearest(
    y_n: float, y_s: float, y_t: float, mu: float, mu_hat: float
) -> tuple[int, float, float, float]:  # pragma: no cover - compiled
    """Return `OPEN`, `STICK` or `SLIDE`, and the three components of y's projection onto the cone in the norm of R.

    Args:
        y_n: Normal component of y [N s].
        y_s: First tangential component of y [N s].
        y_t: Second tangential component of y [N s].
        mu: Friction coefficient.
        mu_hat: μ̂ = μ R_t/R_n; unused if μ = inf.
    """
    if mu == 0.0:
        return SLIDE if y_n > 0.0 else OPEN, max(y_n, 0.0), 0.0, 0.0
    if mu == np.inf:
        return STICK if y_n > 0.0 else OPEN, max(y_n, 0.0), y_s, y_t
    y_r = np.sqrt(y_s * y_s + y_t * y_t)
    if y_r <= mu * y_n:
        return STICK, y_n, y_s, y_t
    if y_n <= -mu_hat * y_r:
        return OPEN, 0.0, 0.0, 0.0
    normal = (y_n + mu_hat * y_r) / (1.0 + mu * mu_hat)
    along = mu * normal / y_r
    return SLIDE, normal, along * y_s, along * y_t


@njit(cache=True, inner=True, error_model="numpy")
def answered(
    g_n: float, g_s: float, g_t: float, u: tuple[float, float, float], mu: float, R_n: float, R_t: float
) -> tuple[float, float, float]:  # pragma: no cover - compiled
    """Return a velocity at which one contact has the impulse (g_n, g_s, g_t), which lies in its friction cone.

    For open and sliding contacts many velocities give the same impulse; the returned velocity takes the undetermined
    speeds from `u`. A pressed contact without friction gets no tangential speed.

    Args:
        g_n: Normal impulse [N s].
        g_s: First tangential component of the impulse [N s].
        g_t: Second tangential component of the impulse [N s].
        u: A velocity (normal, first and second tangent) of the contact [m/s].
        mu: Friction coefficient.
        R_n: Normal regularization [m/s per N s].
        R_t: Tangential regularization [m/s per N s].
    """
    if mu == np.inf:
        return -R_n * g_n if g_n > 0.0 else abs(u[0]), -R_t * g_s, -R_t * g_t
    u_r = np.sqrt(u[1] * u[1] + u[2] * u[2])
    if not g_n > 0.0:  # the contact is open if u_n ≥ μ u_r
        return max(abs(u[0]), mu * u_r * (1.0 + EDGE)), u[1], u[2]
    g_r = np.sqrt(g_s * g_s + g_t * g_t)
    if g_r <= mu * g_n * (1.0 - EDGE) or mu == 0.0:
        return -R_n * g_n, -R_t * g_s, -R_t * g_t
    y_r = max(u_r / R_t, mu * g_n * (1.0 + EDGE))
    mu_hat = mu * R_t / R_n
    y_n = (1.0 + mu * mu_hat) * g_n - mu_hat * y_r
    return -R_n * y_n, -R_t * y_r * g_s / g_r, -R_t * y_r * g_t / g_r


@njit(cache=True, error_model="numpy")
def derivative(
    u_n: float, u_s: float, u_t: float, mu: float, R_n: float, R_t: float
) -> Symmetric:  # pragma: no cover - compiled
    """Return ``G = -∂γ/∂u`` of one contact, positive semidefinite.

    On the border of two regions, G is the derivative of sticking rather than sliding, and of sliding rather than open.

    Args:
        u_n: Velocity along the normal, relative to v̂ [m/s].
        u_s: Velocity along the first tangent [m/s].
        u_t: Velocity along the second tangent [m/s].
        mu: Friction coefficient.
        R_n: Normal regularization [m/s per N s].
        R_t: Tangential regularization [m/s per N s].
    """
    per_n, per_t = 1.0 / R_n, 1.0 / R_t  # a division takes as long as ten products
    y_n, y_s, y_t = -u_n * per_n, -u_s * per_t, -u_t * per_t
    if mu == 0.0:
        return per_n if y_n >= 0.0 else 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    if mu == np.inf:
        return per_n if y_n >= 0.0 else 0.0, 0.0, 0.0, per_t, 0.0, per_t
    y_r = np.sqrt(y_s * y_s + y_t * y_t)
    if y_r <= mu * y_n:
        return per_n, 0.0, 0.0, per_t, 0.0, per_t
    mu_hat = mu * R_t * per_n
    if y_n < -mu_hat * y_r:
        return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    share, per_r = 1.0 / (1.0 + mu * mu_hat), 1.0 / y_r
    s, t = y_s * per_r, y_t * per_r
    across = mu * share * (y_n * per_r + mu_hat) * per_t
    along = mu * share * mu_hat * per_t
    cross = mu * share * per_n
    return (
        share * per_n,
        cross * s,
        cross * t,
        along * s * s + across * t * t,
        (along - across) * s * t,
        along * t * t + across * s * s,
    )


@njit(cache=True, inner=True, error_model="numpy")
def cost(gamma: Array, R_n: float, R_t: float) -> float:  # pragma: no cover - compiled
    """Return ``½ γᵀRγ`` of one contact [J]."""
    total: float = 0.5 * (R_n * gamma[0] * gamma[0] + R_t * (gamma[1] * gamma[1] + gamma[2] * gamma[2]))
    return total
