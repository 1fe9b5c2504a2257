"""Step problem of points that each meet their own floor."""

from __future__ import annotations

import numpy as np

from idcontrol.contact.contacts import Contacts
from idcontrol.models.step import StepProblem


def point_masses(mass, velocity, gap, mu, *, h=1e-3, push=0.0):
    """Return the problem of points that each meet their own floor: velocities (x, y, z), shape (3 n,)."""
    n = len(mass)
    rows = np.zeros((3, n, 3 * n))
    for i in range(n):
        rows[:, i, 3 * i : 3 * i + 3] = np.eye(3)[[2, 0, 1]]
    contacts = Contacts(
        identity=np.arange(n),
        point=np.zeros((n, 3)),
        axes=np.tile(np.eye(3), (n, 1, 1)),
        gap=np.array(gap, dtype=float),
        mu=np.array(mu, dtype=float),
        jacobian=rows.reshape(3 * n, 3 * n),
    )
    M = np.diag(np.repeat(np.array(mass, dtype=float), 3))
    return StepProblem(h=h, M=M, kappa=-M @ np.array(velocity, dtype=float) + push, contacts=contacts)
