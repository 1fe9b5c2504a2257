"""The two pivoting methods as the papers write them, in NumPy: slow, short, and what the kernels are held against."""

from __future__ import annotations

import numpy as np


def lemke(Q, r, max_pivots=1000):
    """Lemke's method on the tableau [I, -Q, -1 | r] (math.md, section 5.2): z and pivots, None at a ray."""
    n = r.size
    if r.min() >= 0.0:
        return np.zeros(n), 0
    tableau = np.hstack((np.eye(n), -Q, -np.ones((n, 1)), (r / np.abs(r).max())[:, None]))
    basic = list(range(n))

    def lexicographic(rows, column):
        ratios = [tuple(np.round(np.r_[tableau[i, -1], tableau[i, :n]] / tableau[i, column], 11)) for i in rows]
        return rows[min(range(len(rows)), key=lambda c: ratios[c])]

    # the covering column is -1: the smallest of (r_i, e_i) / 1
    row = max(i for i in range(n) if r[i] == r.min())
    entering, pivots = 2 * n, 0
    while pivots < max_pivots:
        tableau[row] /= tableau[row, entering]
        for i in range(n):
            if i != row:
                tableau[i] -= tableau[i, entering] * tableau[row]
        pivots += 1
        leaving, basic[row] = basic[row], entering
        if leaving == 2 * n:
            z = np.zeros(n)
            for i, variable in enumerate(basic):
                if n <= variable < 2 * n:
                    z[variable - n] = tableau[i, -1] * np.abs(r).max()
            return z, pivots
        entering = leaving + n if leaving < n else leaving - n
        rows = [i for i in range(n) if tableau[i, entering] > 1e-9]
        if not rows:
            return None, pivots
        ratios = np.array([max(tableau[i, -1], 0.0) / tableau[i, entering] for i in rows])
        ties = [
            i for i, ratio in zip(rows, ratios, strict=True) if (ratio - ratios.min()) * tableau[i, entering] <= 1e-12
        ]
        row = next((i for i in ties if basic[i] == 2 * n), lexicographic(ties, entering))
    return None, pivots


def ppm(rho, r, max_passes):
    """Modified Principal Pivoting I with exchange (math.md, section 4.4): z, y, passes, or None."""
    n, k = rho.shape
    active, z = [], np.zeros(n)
    small = 1e-9 * np.abs(r).max()
    if r.min() >= -small:
        return z, np.zeros(k), 0
    for passes in range(1, max_passes + 1):
        block = rho[active]
        z_active = np.linalg.solve(block @ block.T, -r[active]) if active else np.zeros(0)
        y = block.T @ z_active
        w = rho @ y + r
        w[active] = 0.0
        i = int(np.argmin(w))
        j = int(np.argmin(z_active)) if active else None
        negative = j is not None and z_active[j] < -1e-9 * np.abs(z_active).max()
        if w[i] >= -small:
            if not negative:
                z[active] = np.maximum(z_active, 0.0)
                return z, y, passes
            active.pop(j)
            continue
        alpha = np.linalg.lstsq(block.T, rho[i], rcond=None)[0] if active else np.zeros(0)
        rest = rho[i] - block.T @ alpha
        if len(active) == k or rest @ rest <= 1e-12 * (rho[i] @ rho[i]):
            positive = [a for a in range(len(active)) if alpha[a] > 1e-10 * np.abs(alpha).max()]
            if not positive:
                return None, None, passes
            active.pop(min(positive, key=lambda a: z_active[a] / alpha[a]))
            active.append(i)
        else:
            active.append(i)
            if negative:
                active.pop(j)
    return None, None, max_passes
