"""Solutions computed without the solvers under test, and problems with the structure of contact."""

import itertools

import numpy as np

from idcontrol.types import Array


def all_lcp_bases(Q: Array, r: Array, tolerance: float = 1e-9) -> list[Array]:
    """Every solution z of 0 ≤ z ⊥ Qz + r ≥ 0 that belongs to a nonsingular basis, by trying all 2^n bases."""
    n = r.size
    solutions = []
    for size in range(n + 1):
        for basis in itertools.combinations(range(n), size):
            B = list(basis)
            z = np.zeros(n)
            if B:
                block = Q[np.ix_(B, B)]
                if np.linalg.cond(block) > 1e12:
                    continue
                z[B] = np.linalg.solve(block, -r[B])
            w = Q @ z + r
            if z.min(initial=0.0) >= -tolerance * (1.0 + np.abs(z).max()) and w.min() >= -tolerance * np.abs(r).max():
                solutions.append(z)
    return solutions


def standing_feet(rng: np.random.Generator, n: int, tilt: float = 0.0) -> tuple[Array, Array, Array]:
    """Whitened rows N, S, T, each (n, 6), of n contacts under one rigid body; normals tilted by about `tilt` rad."""
    inertia_root = np.diag([2.5**-0.5] * 3 + [0.02**-0.5, 0.04**-0.5, 0.05**-0.5])
    p = np.c_[rng.uniform(-0.3, 0.3, n), rng.uniform(-0.2, 0.2, n), -0.25 + tilt * rng.normal(size=n) / 10]
    rows = np.empty((3, n, 6))
    for i in range(n):
        axes, _ = np.linalg.qr(np.eye(3) + tilt * rng.normal(size=(3, 3)))
        axes *= np.sign(np.diag(axes))
        for k, axis in enumerate(axes.T):
            rows[k, i] = np.r_[axis, np.cross(p[i], axis)] @ inertia_root
    return rows[2], rows[0], rows[1]


def body_velocity(rng: np.random.Generator, speed: float = 0.1) -> Array:
    """Return the whitened velocity of the body of `standing_feet`: random motion and a fall at `speed`."""
    v = speed * np.r_[rng.normal(size=3), rng.normal(size=3)] - np.r_[0.0, 0.0, speed, 0.0, 0.0, 0.0]
    return v * np.r_[[2.5**0.5] * 3, 0.02**0.5, 0.04**0.5, 0.05**0.5]


def coulomb_lcp(N: Array, S: Array, T: Array, y: Array, mu: Array) -> tuple[Array, Array, Array]:
    """The LCP of math.md, section 5.1 on whitened rows, and its scale (13.2): Q (6n, 6n), r (6n,), scale (6n,)."""
    n = mu.size
    R = np.r_[N, S, -S, T, -T]
    E = np.tile(np.eye(n), (4, 1))
    Q = np.zeros((6 * n, 6 * n))
    Q[: 5 * n, : 5 * n] = R @ R.T
    Q[n : 5 * n, 5 * n :] = E
    Q[5 * n :, :n] = np.diag(mu)
    Q[5 * n :, n : 5 * n] = -E.T
    d = float(np.median(np.diag(Q)[: 5 * n])) ** -0.5
    return Q, np.r_[R @ y, np.zeros(n)], np.r_[np.full(5 * n, d), np.full(n, 1.0 / d)]


def edge_rows(N: Array, S: Array, T: Array, mu: Array) -> Array:
    """Edge rows of the friction pyramid N ± μS, N ± μT (math.md, section 7.3), shape (4n, k)."""
    m = mu[:, None]
    return np.ascontiguousarray(np.r_[N + m * S, N - m * S, N + m * T, N - m * T])
