"""Derivatives of the terms of a control step, and linear algebra with equations that may depend on each other."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.contact.contacts import Contacts
from idcontrol.contact.sensitivity import RowDerivatives, row_derivatives
from idcontrol.contact.spheres import SphereContacts
from idcontrol.controllers.step import AssembledStep, Machine
from idcontrol.dynamics.derivatives import MotionDerivatives, energies, motions
from idcontrol.dynamics.system import System
from idcontrol.types import Array

RANK: Final = 1e-11
"""Relative length below which a direction counts as dependent. Directions that depend by geometry have a length of
about 1e-16, the ridges and compliances of the models 1e-8 or more."""


class Columns(NamedTuple):
    """Columns of all matrices, one for each of P parameters; velocities and joints are in the system's order.

    Attributes:
        q: Configuration, in the tangent space.
        v: Velocity.
        reference: `Reference.q`, then `Reference.v`, then `Reference.a`.
        task: Desired accelerations of the task rows.
        gains: kp of the joints, then kd.
        limits: Largest torques.
        mu: Friction of the contacts in stance.
        total: Number of columns.
    """

    q: slice
    v: slice
    reference: slice
    task: slice
    gains: slice
    limits: slice
    mu: slice
    total: int

    @staticmethod
    def of(m: int, a: int, tasks: int, n: int) -> Columns:
        """Return the columns of a robot with m velocities, a joints, this number of task rows, and n contacts."""
        ends = np.cumsum([0, m, m, 3 * a, tasks, 2 * a, a, n]).tolist()
        q, v, reference, task, gains, limits, mu = (slice(*ends[k : k + 2]) for k in range(7))
        return Columns(q, v, reference, task, gains, limits, mu, ends[-1])


BY: Final = Columns._fields[:-1]
"""Names of the parameters."""
NO_ERRORS: Final = np.zeros(len(BY) + 1)
"""`Site.errors` of equations that hold."""


class Site(NamedTuple):
    """The robot, its contacts in stance, and the derivatives of their rows."""

    machine: Machine
    system: System
    v: Array
    contacts: Contacts
    rows: RowDerivatives
    columns: Columns
    motion: MotionDerivatives

    def zeros(self, rows: int) -> Array:
        """Return a zero matrix with this number of rows: no dependence on any parameter."""
        return np.zeros((rows, self.columns.total))

    def by_q(self, slope: Array) -> Array:
        """Return the derivative `slope` by q with columns for all parameters, zero except for q."""
        out = self.zeros(slope.shape[0])
        out[:, self.columns.q] = slope
        return out

    def errors(self, missed: Array, right: Array) -> Array:
        """Return the relative error of linear equations for each block of parameters, shape (len(BY) + 1,).

        The last block is the friction of all contacts together.

        Args:
            missed: Left minus right sides, shape (r, P).
            right: Right sides, shape (r, P).
        """
        at, largest = self.columns, np.abs(missed).max(axis=0, initial=0.0)
        blocks = [largest[block].max(initial=0.0) for block in (getattr(at, name) for name in BY)]
        blocks.append(np.abs(missed[:, at.mu].sum(axis=1)).max(initial=0.0))
        return np.array(blocks) / max(np.abs(right).max(initial=0.0), 1e-300)

    def rows_times(self, x: Array) -> Array:
        """Return the derivative of ``J x`` at constant x (m,), shape (3 n, P)."""
        return self.by_q(x @ self.rows.jacobian)

    def rows_transposed(self, y: Array) -> Array:
        """Return the derivative of ``Jᵀ y`` at constant y (3 n,), shape (m, P)."""
        return self.by_q(np.tensordot(y, self.rows.jacobian, 1))


def visit(machine: Machine, system: System, spheres: SphereContacts, contacts: Contacts) -> Site:
    """Return the robot, its contacts in stance and the derivatives of their rows, at the inputs of the machine."""
    v = machine.inputs.v[system.order]
    placement = machine.tasks.placement
    motion = motions(system, (placement.position, placement.rotation), v)
    rows = row_derivatives(spheres, contacts, motion)
    tasks = int((machine.tasks.targets.weight > 0.0).sum())
    columns = Columns.of(v.size, system.n_actuated, tasks, len(contacts))
    return Site(machine, system, v, contacts, rows, columns, motion)


def least_squares(A: Array, right: Array) -> Array:
    """Return the shortest x with the smallest ``|A x - right|``."""
    if 0 in A.shape or right.shape[1] == 0:
        return np.zeros((A.shape[1], right.shape[1]))
    return np.asarray(np.linalg.lstsq(A, right, rcond=RANK)[0])


def fit(A: Array, right: Array) -> tuple[Array, float]:
    """Return the shortest solution of ``A x = right``, a vector, and the relative error of these equations."""
    x = least_squares(A, right[:, None])[:, 0]
    return x, float(np.abs(A @ x - right).max(initial=0.0) / max(np.abs(right).max(initial=0.0), 1e-300))


def optimum(H: Array, A: Array, g: Array, e: Array) -> Array:
    """Return x of ``H x + Aᵀλ = g``, ``A x = e``; rows of A may be dependent.

    Args:
        H: Positive semidefinite, shape (d, d).
        A: Rows, shape (r, d).
        g: Shape (d, P).
        e: Shape (r, P).
    """
    if A.shape[0] == 0:
        x, ways = np.zeros((H.shape[0], e.shape[1])), np.eye(H.shape[0])
    else:
        left, size, across = np.linalg.svd(A)
        rank = int((size > RANK * size.max(initial=0.0)).sum())
        x = across[:rank].T @ ((left[:, :rank].T @ e) / size[:rank, None])
        ways = across[rank:].T
    size, turned = np.linalg.eigh(ways.T @ H @ ways)
    # the ridge of stage II is 1e-8 of the torques; without a cost a direction stays zero
    costly = size > 1e-14 * np.abs(H).max(initial=0.0)
    ways = ways @ turned[:, costly]
    return x + ways @ ((ways.T @ (g - H @ x)) / size[costly][:, None])


def square_slopes(site: Site, step: AssembledStep) -> Array:
    """Return the derivatives of |ρ_r|² of all contact rows by q, shape (3 n, m)."""
    free, J = step.w.free, site.contacts.jacobian
    Y = np.zeros_like(J)
    Y[:, free] = np.linalg.solve(site.system.M[np.ix_(free, free)], J[:, free].T).T
    out = 2.0 * (Y[:, None] @ site.rows.jacobian)[:, 0]
    return out - energies(site.motion.tree, Y)
