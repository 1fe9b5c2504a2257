"""Brute force over contact modes, written from math.md, section 6.2 without the code under test."""

import ctypes
import itertools

import daqp
import numpy as np

from idcontrol.solvers.enumerate import RIDGE, NearestProblem
from idcontrol.solvers.lemke import solve_lemke
from idcontrol.solvers.status import SolverStatus
from tests.solvers.oracles import body_velocity, coulomb_lcp, standing_feet


def friction_signs(mode):
    """Directions (S, T) in which friction acts in modes 2 to 9."""
    return {2: (1, 0), 3: (-1, 0), 4: (0, 1), 5: (0, -1), 6: (1, 1), 7: (1, -1), 8: (-1, 1), 9: (-1, -1)}[mode]


def polyhedron(problem, modes):
    """Rows (equalities, inequalities ≥ 0), each as pairs (row over y, constant)."""
    n = problem.mu.size
    eye = np.eye(3 * n)
    equal, above = [], []
    for i, mode in enumerate(modes):
        f_n, f_s, f_t = ((eye[k * n + i], 0.0) for k in range(3))
        v_n, v_s, v_t = ((problem.V[k * n + i], problem.v0[k * n + i]) for k in range(3))
        mu = problem.mu[i]

        def combine(*terms):
            return sum(a * row for a, (row, _) in terms), sum(a * c for a, (_, c) in terms)

        above += [f_n, v_n]
        if mode == 0:
            equal += [f_n, f_s, f_t]
            continue
        equal.append(v_n)
        for s, t in itertools.product((1, -1), repeat=2):
            above.append(combine((mu, f_n), (s, f_s), (t, f_t)))
        if mode == 1:
            if mu > 0.0:
                equal += [v_s, v_t]
            continue
        s, t = friction_signs(mode)
        equal.append(combine((s, f_s), (t, f_t), (-mu, f_n)))
        if s == 0 or t == 0:
            equal.append(f_s if s == 0 else f_t)
            along = combine((s, v_s), (t, v_t))
            across = v_t if t == 0 else v_s
            above += [combine((-1, along), (1, across)), combine((-1, along), (-1, across))]
        else:
            above += [combine((s, f_s)), combine((t, f_t)), combine((-s, v_s))]
            equal.append(combine((s, v_s), (-t, v_t)))
    return equal, above


def nearest_of_all_modes(problem):
    """Return the smallest objective over the 10^n polyhedra."""
    n = problem.mu.size
    W = np.diag(problem.weights**2)
    H = problem.T.T @ W @ problem.T
    H += RIDGE * np.trace(H) / (3 * n) * np.eye(3 * n)
    g = problem.T.T @ W @ (problem.t0 - problem.target)
    constant = 0.5 * (problem.t0 - problem.target) @ W @ (problem.t0 - problem.target)
    best = np.inf
    for modes in itertools.product(range(10), repeat=n):
        if any(mode > 1 and problem.mu[i] == 0.0 for i, mode in enumerate(modes)):
            continue
        equal, above = polyhedron(problem, modes)
        # orthonormal equalities, since those in a mode often depend on each other (math.md, section 6.3)
        E, e = np.array([row for row, _ in equal]), -np.array([c for _, c in equal])
        lengths = np.maximum(np.linalg.norm(E, axis=1), 1e-12)
        U, sigma, Vt = np.linalg.svd(E / lengths[:, None], full_matrices=False)
        keep = sigma > 1e-9
        inside = (U.T @ (e / lengths))[keep] / sigma[keep]
        if np.abs(E @ (Vt[keep].T @ inside) - e).max() > 1e-9 * (1e-3 + np.abs(e).max()):
            continue
        A, b = np.array([row for row, _ in above]), -np.array([c for _, c in above])
        x = by_daqp(H, g, A, b, Vt[keep], inside)
        if x is not None:
            best = min(best, 0.5 * x @ H @ x + g @ x + constant)
    return best


def by_daqp(H, g, A, b, E, e):
    """Return the minimizer of ½xᵀHx + gᵀx over A x ≥ b, E x = e; None if DAQP does not find it."""
    size, lengths = np.abs(H).max(), np.maximum(np.linalg.norm(A, axis=1), 1e-12)  # its tolerances are absolute
    rows, lower = np.vstack((E, A / lengths[:, None])), np.concatenate((e, b / lengths))
    upper = np.concatenate((e, np.full(b.size, 1e30)))
    sense = np.repeat((5, 0), (e.size, b.size)).astype(ctypes.c_int)  # 5: an equality, active from the start
    x, _, flag, _ = daqp.solve(H / size, g / size, rows, upper, lower, sense, primal_tol=1e-10, dual_tol=1e-12)
    return x if flag > 0 else None


def random_problem(rng, n, mu, tilt=0.0, speed=0.1, standing=False):
    """Return a problem on one rigid body, a target near the torque of its Lemke solution, and that solution.

    Impulses inside the pyramids bring a standing body to rest; with several feet many such impulses exist.
    """
    while True:
        N, S, T = standing_feet(rng, n, tilt)
        J = np.r_[N, S, T]
        if standing:
            f_n, share, sign = rng.uniform(0.0, 1.0, n), rng.uniform(0.0, 0.5, (2, n)), rng.choice([-1.0, 1.0], (2, n))
            v0 = -J @ (J.T @ np.r_[f_n, (mu * f_n * sign * share).ravel()])
        else:
            v0 = J @ body_velocity(rng, speed)
            v0[:n] += np.where(rng.uniform(size=n) < 0.2, rng.uniform(0.0, 5.0 * speed, n), 0.0)
        Q, _, scale = coulomb_lcp(N, S, T, np.zeros(6), mu)
        v_s, v_t = v0[n : 2 * n], v0[2 * n :]
        lemke = solve_lemke(Q, np.r_[v0[:n], v_s, -v_s, v_t, -v_t, np.zeros(n)], scale)
        if lemke.status is SolverStatus.SOLVED:
            break
    z = lemke.z
    y = np.r_[z[:n], z[n : 2 * n] - z[2 * n : 3 * n], z[3 * n : 4 * n] - z[4 * n : 5 * n]]
    torque = rng.normal(size=(12, 3 * n))
    t0 = 0.1 * np.abs(y).max() * rng.normal(size=12)
    target = torque @ y + t0 + np.abs(y).max() * rng.normal(size=12)
    problem = NearestProblem(V=J @ J.T, v0=v0, mu=mu, T=torque, t0=t0, target=target, weights=rng.uniform(0.5, 2.0, 12))
    return problem, y
