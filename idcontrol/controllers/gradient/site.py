"""The robot at a control step, its contacts in stance, and the derivatives of their terms."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.contact.contacts import Contacts
from idcontrol.contact.sensitivity import RowDerivatives, row_derivatives
from idcontrol.contact.spheres import SphereContacts
from idcontrol.controllers.gradient.equations import BLOCKS, Columns, Terms, errors, rows_times, rows_transposed
from idcontrol.controllers.step import AssembledStep, Machine
from idcontrol.dynamics.derivatives import MotionDerivatives, energies, motions
from idcontrol.dynamics.system import System
from idcontrol.types import Array

NO_ERRORS: Final = np.zeros(BLOCKS)
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

    @property
    def terms(self) -> Terms:
        """Inertia, rows of the contacts and their derivatives."""
        return Terms(self.system.M, self.contacts.jacobian, self.rows.jacobian, self.columns.ends)

    def zeros(self, rows: int) -> Array:
        """Return a zero matrix with this number of rows: no dependence on any parameter."""
        return np.zeros((rows, self.columns.total))

    def by_q(self, slope: Array) -> Array:
        """Return the derivative `slope` by q with columns for all parameters, zero except for q."""
        out = self.zeros(slope.shape[0])
        out[:, self.columns.q] = slope
        return out

    def errors(self, missed: Array, right: Array) -> Array:
        """Return the relative error of linear equations for each block of parameters (`equations.errors`)."""
        return np.asarray(errors(self.columns.ends, missed, right))

    def rows_times(self, x: Array) -> Array:
        """Return the derivative of ``J x`` at constant x (m,), shape (3 n, P)."""
        return np.asarray(rows_times(self.terms, x))

    def rows_transposed(self, y: Array) -> Array:
        """Return the derivative of ``Jᵀ y`` at constant y (3 n,), shape (m, P)."""
        return np.asarray(rows_transposed(self.terms, y))


def visit(machine: Machine, system: System, spheres: SphereContacts, contacts: Contacts) -> Site:
    """Return the robot, its contacts in stance and the derivatives of their rows, at the inputs of the machine."""
    v = machine.inputs.v[system.order]
    placement = machine.tasks.placement
    motion = motions(system, (placement.position, placement.rotation), v)
    rows = row_derivatives(spheres, contacts, motion)
    tasks = int((machine.tasks.targets.weight > 0.0).sum())
    columns = Columns.of(v.size, system.n_actuated, tasks, len(contacts))
    return Site(machine, system, v, contacts, rows, columns, motion)


def square_slopes(site: Site, step: AssembledStep) -> Array:
    """Return the derivatives by q of |ρ_r|² for each whitened contact row ρ_r, shape (3 n, m)."""
    free, J = step.w.free, site.contacts.jacobian
    Y = np.zeros_like(J)
    Y[:, free] = np.linalg.solve(site.system.M[np.ix_(free, free)], J[:, free].T).T
    out = 2.0 * (Y[:, None] @ site.rows.jacobian)[:, 0]
    return out - energies(site.motion.tree, Y)
