"""Step problem of points that each meet their own floor."""

import numpy as np

from idcontrol.models.step import StepProblem
from tests.scenes import by_hand


def point_masses(mass, velocity, gap, mu, *, h=1e-3, push=0.0):
    """Return the problem of points that each meet their own floor: velocities (x, y, z), shape (3 n,)."""
    n = len(mass)
    rows = np.zeros((3, n, 3 * n))
    for i in range(n):
        rows[:, i, 3 * i : 3 * i + 3] = np.eye(3)[[2, 0, 1]]
    contacts = by_hand(rows.reshape(3 * n, 3 * n), np.array(mu, dtype=float), np.array(gap, dtype=float))
    M = np.diag(np.repeat(np.array(mass, dtype=float), 3))
    return StepProblem(h=h, M=M, kappa=-M @ np.array(velocity, dtype=float) + push, contacts=contacts)
