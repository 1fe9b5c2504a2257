"""Contact problems as dense LCPs, and certificates that they have no solution.

The problems are assembled from whitened rows and constants (`idcontrol.models.whitened.whiten`) by the equations in
math.md, independently of the code of the contact models.
"""

import numpy as np
from scipy.optimize import linprog

from idcontrol.models.step import StepProblem
from idcontrol.models.whitened import whiten
from idcontrol.types import Array


def coulomb_lcp(rho: Array, c: Array, mu: Array) -> tuple[Array, Array, Array]:
    """Return the friction LCP (math.md, section 5.1) over (f_N, f_F, λ); contacts with μ = 0 have no f_F and λ.

    Args:
        rho: Whitened rows [N; S; T], shape (3 n, k); further rows are ignored.
        c: Constants of the rows, shape (3 n,); further entries are ignored.
        mu: Friction coefficients, shape (n,).

    Returns:
        Q, r and the balancing factors (math.md, section 13.2), shapes (p, p), (p,) and (p,), where p = n + 5 t and t is
        the number of contacts with μ > 0.
    """
    n, rough = mu.size, np.flatnonzero(mu)
    t = rough.size
    N, S, T = (rho[axis * n : (axis + 1) * n] for axis in range(3))
    c_N, c_S, c_T = c[: 3 * n].reshape(3, n)
    R = np.vstack((N, S[rough], -S[rough], T[rough], -T[rough]))
    size = n + 5 * t
    Q = np.zeros((size, size))
    Q[: n + 4 * t, : n + 4 * t] = R @ R.T
    E = np.tile(np.eye(t), (4, 1))
    Q[n : n + 4 * t, n + 4 * t :] = E
    Q[n + 4 * t :, n : n + 4 * t] = -E.T
    Q[n + 4 * t + np.arange(t), rough] = mu[rough]
    r = np.concatenate((c_N, c_S[rough], -c_S[rough], c_T[rough], -c_T[rough], np.zeros(t)))
    typical = float(np.median(np.einsum("ij,ij->i", R, R)))
    d = typical**-0.5 if typical > 0.0 else 1.0
    return Q, r, np.concatenate((np.full(n + 4 * t, d), np.full(t, 1.0 / d)))


def normal_rows(problem: StepProblem) -> tuple[Array, Array]:
    """Return the whitened normal rows R and their constants r, shapes (n, k) and (n,).

    ``R y + r ≥ 0`` keeps the bodies apart (`excluded`).
    """
    reduction, n = whiten(problem), len(problem.contacts)
    return reduction.rho[:n], reduction.c[:n]


def edge_rows(problem: StepProblem) -> tuple[Array, Array]:
    """Return the whitened edge rows R of the friction pyramids and their constants r, shapes (e, k) and (e,).

    ``R y + r ≥ 0`` are the constraints of math.md, section 7.3, each divided by √(1 + μ²). A contact with μ = 0 has
    only its row N; these rows come first.
    """
    reduction, mu = whiten(problem), problem.contacts.mu
    rough, n = mu > 0.0, mu.size
    rows, constants = [reduction.rho[:n][~rough]], [reduction.c[:n][~rough]]
    weight = np.sqrt(1.0 + mu[rough] ** 2)
    for axis in (1, 2):
        for sign in (1.0, -1.0):
            tangent = slice(axis * n, (axis + 1) * n)
            slope = sign * mu[rough]
            edge = reduction.rho[:n][rough] + slope[:, None] * reduction.rho[tangent][rough]
            rows.append(edge / weight[:, None])
            constants.append((reduction.c[:n][rough] + slope * reduction.c[tangent][rough]) / weight)
    return np.ascontiguousarray(np.vstack(rows)), np.concatenate(constants)


def excluded(rows: Array, r: Array) -> bool | None:
    """True if no y has ``rows y + r ≥ 0``, with `rows` (m, k) and r (m,); None if undecided.

    A linear program searches for a certificate c ≥ 0 with ``rowsᵀc = 0`` and ``r·c < 0``.
    """
    lengths = np.linalg.norm(rows, axis=1)
    lengths[lengths < 1e-9 * max(float(lengths.max()), 1e-300)] = 1.0
    rho, constants = rows / lengths[:, None], r / lengths
    unit = float(np.abs(constants).max()) or 1.0
    program = linprog(constants / unit, A_eq=rho.T, b_eq=np.zeros(rows.shape[1]), bounds=(0.0, 1.0), method="highs-ds")
    if program.status != 0:
        return None
    if program.fun > -1e-9:
        return False
    # the certificate excludes every y with |y| below |r·c| / |ρᵀc|
    residual = float(np.linalg.norm(rho.T @ program.x))
    return True if -program.fun > 1e3 * residual else None
