r"""Coulomb's law with a circular cone, for contact problems in terms of their Delassus operator.

    K ∋ r ⊥ u + μ |u_T| e_N ∈ K*,    u = W r + q,    K = {r : |r_T| ≤ μ r_N},    K* = {u : μ |u_T| ≤ u_N}

This is the bipotential of De Saxcé & Feng 1998. It states that contacts do not pull or penetrate, that pressing
contacts do not open, that friction stays in its cone, and that sliding friction fully opposes the motion.
"""

import numpy as np

from idcontrol.types import Array


def miss(W: Array, q: Array, mu: Array, r: Array) -> float:
    """Return the largest |r - P(r - s (u + μ |u_T| e_N))| of all contacts, scaled; inf if an impulse is not finite.

    Contact i owns entries 3 i (normal), 3 i + 1 and 3 i + 2 (tangents). P projects onto K. The step s = 3 / tr W_ii of
    each contact converts velocities to impulses. The scale is the largest impulse of the problem, or the largest s |q|
    of a contact, if that is larger.

    Args:
        W: Delassus operator, shape (3 n, 3 n) [1/kg].
        q: Velocities at zero impulse, shape (3 n,) [m/s].
        mu: Friction, finite, shape (n,); without contacts the result is 0.
        r: Impulses, shape (3 n,) [N s].
    """
    if not np.isfinite(r).all():
        return float(np.inf)
    if r.size == 0:
        return 0.0
    impulse, u = r.reshape(-1, 3), (W @ r + q).reshape(-1, 3)
    mobility = np.diag(W).reshape(-1, 3).mean(axis=1)
    s = 1.0 / np.maximum(mobility, 1e-12 * mobility.max())[:, None]  # the value for immovable contacts is arbitrary
    moved = u.copy()
    moved[:, 0] += mu * np.linalg.norm(u[:, 1:], axis=1)
    away = np.linalg.norm(impulse - onto_cones(impulse - s * moved, mu), axis=1)
    unit = max(np.linalg.norm(impulse, axis=1).max(), np.linalg.norm(s * q.reshape(-1, 3), axis=1).max())
    return float(away.max() / unit) if unit > 0.0 else 0.0


def onto_cones(r: Array, mu: Array) -> Array:
    """Project r, shape (n, 3), onto the cones K of `mu`, shape (n,)."""
    r_N, r_T = r[:, 0], np.linalg.norm(r[:, 1:], axis=1)
    on = (r_N + mu * r_T) / (1.0 + mu * mu)
    inside, below = r_T <= mu * r_N, mu * r_T <= -r_N
    normal = np.where(inside, r_N, np.where(below, 0.0, on))
    shorter = np.where(inside, 1.0, mu * normal / np.where(r_T > 0.0, r_T, 1.0))
    return np.column_stack((normal, shorter[:, None] * r[:, 1:]))
