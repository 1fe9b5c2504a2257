"""Oracles: the general form of math.md 3 by dense inverses, and the no-slip model by brute force."""

import itertools

import numpy as np


def tied(problem):
    """Return rows A, right side d and compliance C of prescribed velocities, then of bilateral rows."""
    m = problem.M.shape[0]
    A, d, C = np.zeros((0, m)), np.zeros(0), np.zeros(0)
    if problem.prescribed is not None:
        A = np.eye(m)[problem.prescribed.index]
        d = problem.prescribed.velocity
        C = np.zeros(d.size)
    if problem.bilateral is not None:
        A = np.vstack((A, problem.bilateral.rows))
        d = np.concatenate((d, problem.bilateral.target))
        C = np.concatenate((C, problem.bilateral.compliance))
    return A, d, C


def response(problem, A, d, C):
    """Γ_A and v° of math.md 3, with compliance: A v = d - C g."""
    m, k = problem.M.shape[0], d.size
    size = np.sqrt(np.diag(problem.M))  # balanced: translations and rotations of small links differ by 1e6
    X = np.block([[problem.M / np.outer(size, size), -(A / size).T], [A / size, np.diag(C)]])
    inverse = np.linalg.inv(X)
    gamma = inverse[:m, :m] / np.outer(size, size)
    free = np.linalg.solve(X, np.concatenate((-problem.kappa / size, d)))
    assert free.size == m + k
    return gamma, free[:m] / size


def psd_lcp(Q, r):
    """Return the first solution of LCP(r, Q) among all active sets; None if there is no solution."""
    n = r.size
    scale = np.abs(r).max(initial=1e-300)
    for size in range(n + 1):
        for active in itertools.combinations(range(n), size):
            B = list(active)
            z = np.zeros(n)
            z[B] = np.linalg.lstsq(Q[np.ix_(B, B)], -r[B], rcond=1e-12)[0]
            w = Q @ z + r
            if (
                z.min(initial=0.0) >= 0.0
                and w.min(initial=0.0) >= -1e-9 * scale
                and np.abs(w[B]).max(initial=0.0) < (1e-9 * scale)
            ):
                return z
    return None


def constants(problem):
    """Return the constants of J v⁺: φ/h on normals (clipped), minus the velocity of the surface; block order."""
    contacts = problem.contacts
    offset = -contacts.surface_velocity
    offset[: len(contacts)] += np.maximum(contacts.gap / problem.h, -0.1)
    return offset


def no_slip(problem):
    """Return v⁺ and the kept tangential rows of math.md 4 in general form; None if the normals have no solution."""
    contacts, J, offset = problem.contacts, problem.contacts.jacobian, constants(problem)
    n = len(contacts)
    A, d, C = tied(problem)
    rigid = np.zeros(d.size, dtype=bool)
    if problem.bilateral is not None:
        rigid[d.size - problem.bilateral.target.size :] = problem.bilateral.compliance == 0.0
    base = (A[~rigid], d[~rigid], C[~rigid])
    gamma_base, v_base = response(problem, *base)
    loops = list(zip(A[rigid], d[rigid], [None] * int(rigid.sum()), strict=True))
    free = J @ v_base + offset
    closed = contacts.gap <= 1e-5
    opening = 1e-6 * np.abs(free.reshape(3, n)[:, closed]).max(initial=0.0)

    def attempt(stick):
        """Return v⁺, kept rows, impulses (None without a solution), and the contacts that open."""
        A, d, C = base
        gamma, v_free = gamma_base, v_base
        kept = []
        tangents = [(J[row], -offset[row], row) for i in np.flatnonzero(stick) for row in (n + i, 2 * n + i)]
        for row, target, name in loops + tangents:
            if row @ gamma @ row > 1e-4 * (row @ gamma_base @ row):
                A, d, C = np.vstack((A, row)), np.append(d, target), np.append(C, 0.0)
                gamma, v_free = response(problem, A, d, C)
                kept.append(name)
        Q, r = J[:n] @ gamma @ J[:n].T, J[:n] @ v_free + offset[:n]
        held = np.diag(Q) < 1e-10 * np.diag(J[:n] @ gamma_base @ J[:n].T)
        Q[held] = Q[:, held] = 0.0
        r[held & (np.abs(r) <= 1e-6)] = 0.0
        z = psd_lcp(Q, r)
        if z is None:
            return None, None, held & (r > opening)
        motion = v_free + gamma @ J[:n].T @ z, [name for name in kept if name is not None]
        return motion, z, (Q @ z + r > opening) & (z == 0.0)

    stick = closed.copy()
    for trial in range(4 * n + 4):
        motion, z, parts = attempt(stick)
        back = closed & (trial < n + 2) & ~stick & (False if z is None else z > 0.0)
        wanted = (stick & ~parts) | back
        if (wanted == stick).all():
            break
        stick = wanted
    # a contact that presses without friction is held, if impulses can hold it
    while z is not None and (closed & ~stick & (z > 0.0)).any():
        stick = stick | (closed & (z > 0.0))
        other, z, _ = attempt(stick)
        motion = motion if z is None else other
    return motion
