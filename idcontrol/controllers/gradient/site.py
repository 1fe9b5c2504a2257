"""The robot at a control step, its contacts in stance, and the derivatives of their terms."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.contact.contacts import AnyContacts, ContactArrays
from idcontrol.contact.sensitivity import RowDerivatives, row_slopes
from idcontrol.controllers.gradient.equations import BLOCKS, Columns, Terms
from idcontrol.controllers.stance import take
from idcontrol.controllers.step import internal_share
from idcontrol.dynamics.derivatives import MotionDerivatives, energies, motion_slopes
from idcontrol.kernels.arena import HEAP
from idcontrol.kernels.bound import Bound, bind, borrow
from idcontrol.kernels.jit import njit
from idcontrol.types import Array, Integers

NO_ERRORS: Final = np.zeros(BLOCKS)
"""Relative errors (`equations.errors`) of equations that hold."""


AT_LIMIT: Final = 1e-6
"""Distance from a limit up to which derivatives by limits are computed, relative to the distance of both limits."""


class Loads(NamedTuple):
    """Constant loads of a robot.

    Attributes:
        damping: Viscous friction of the joints, which the torques overcome, shape (a,); empty without a model of the
            motors.
        dry: Dry friction of the joints, shape (a,); empty without a model of the motors.
        base: Estimated load on the base, shape (3,) [N].
        wide: True for the derivatives by external forces, inertias and normals.
    """

    damping: Array
    dry: Array
    base: Array
    wide: bool


class Site(NamedTuple):
    """The robot, its n contacts in stance, and the derivatives of their rows.

    Attributes:
        terms: Inertia, rows of the contacts and their derivatives.
        bias: Bias c of the equations of motion, shape (m,).
        v: Velocity, shape (m,).
        contacts: The contacts as detected.
        rows: Derivatives of the contacts.
        motion: Derivatives of the motion of all bodies.
        flyers: `System.flyer_rows`.
        loads: Loads of the robot.
        at: Columns of the variables.
    """

    terms: Terms
    bias: Array
    v: Array
    contacts: ContactArrays
    rows: RowDerivatives
    motion: MotionDerivatives
    flyers: Integers
    loads: Loads
    at: Columns


class Solved(NamedTuple):
    """A step and its solution.

    Attributes:
        joints: The step with all joints tracked (`AssembledStep`), bound.
        step: The step that was solved last, maybe with released joints, bound.
        before: `AssembledStep.active` before this step was solved, shape (n,); used only by schemes whose stage II
            starts from the contact model's impulses.
        f: Impulses of the contacts, shape (3 n,) [N s].
        ending: Outcome of the scheme (`Answer.ending`).
        sticking: True if the sticking motion was the solution.
        impulse: Motor impulses of the tracked joints; used only by compliant contacts.
    """

    joints: Bound
    step: Bound
    before: Integers
    f: Array
    ending: int
    sticking: bool
    impulse: Array


@njit(cache=True, error_model="numpy")
def visit(bound: Bound, bodies: Bound, spheres: Bound, candidates: AnyContacts, joints: Bound, loads: Loads) -> Bound:
    """Return the `Site` of a step.

    Args:
        bound: The `Machine` at the inputs of the step.
        bodies: Constants of the robot (`Bodies`).
        spheres: `SphereContacts.bound` at the last detection.
        candidates: All candidate contacts.
        joints: The step with all joints tracked (`AssembledStep`).
        loads: Loads of the robot.
    """
    machine, constants, which = bound.values, bodies.values, joints.borrowed.which
    detected, terms, at = ContactArrays(*borrow(candidates)), machine.terms, machine.tasks.placement
    v = machine.inputs.v[terms.order]
    contacts = take(detected, which, HEAP)
    motion = motion_slopes(constants, at.jacobian, at.position, at.rotation, at.motion.velocity, v)
    rows = row_slopes(spheres, contacts.identity, motion, loads.wide)
    where, ends = _columns(bound, joints, contacts.identity, loads)
    moves = constants.support[spheres.borrowed[0].joint[contacts.identity]]
    own = Terms(terms.M.copy(), contacts.jacobian, rows.jacobian, moves, ends)
    site: Bound = bind(Site(own, terms.bias.copy(), v, contacts, rows, motion, constants.flyers, loads, where))
    return site


@njit(cache=True, inner=True, error_model="numpy")
def _columns(bound: Bound, joints: Bound, feet: Integers, loads: Loads) -> tuple[Columns, Integers]:
    """Return the columns of a step with the contacts `feet`, and the end of each block."""
    machine, bounds = bound.borrowed, joints.borrowed.bounds
    m, a, tasks, h = machine.terms.M.shape[0], machine.terms.fixed.shape[0], 0, machine.h
    for weight in machine.tasks.targets.weight.ravel():
        tasks += weight > 0.0
    limited = tasks > 0  # limits of the tasks' program may be active, too
    for j in range(a):
        room, s = AT_LIMIT * (bounds.most[j] - bounds.least[j]), h * machine.result.tau[j]
        limited |= room < np.inf and (s <= bounds.least[j] + room or s >= bounds.most[j] - room)
    held = a if internal_share(machine, feet) > 0.0 else 0
    load, turn, unit = m if loads.wide or loads.dry.shape[0] > 0 else 0, a if loads.wide else 0, int(loads.wide)
    n = feet.shape[0]
    e = np.cumsum(np.array([m, 2 * n * loads.wide, m, a, held, load, turn, unit, a if limited else 0, tasks, n]))
    return Columns(0, e[0], e[1], e[2], e[3], e[4], e[5], e[6], e[7], e[8], e[9], e[10]), e


@njit(cache=True, error_model="numpy")
def impulses_of(bound: Bound, joints: Bound) -> Array:
    """Return the impulses of the contacts in stance of a solved step, shape (3 n,) [N s], from `Machine.result`."""
    machine, axes = bound.borrowed, joints.borrowed.contacts.axes
    n = axes.shape[0]
    f = np.zeros(3 * n)
    for i in range(n):
        for axis in range(3):
            for x in range(3):
                f[axis * n + i] += machine.h * machine.result.force[i, x] * axes[i, axis, x]
    return f


@njit(cache=True, error_model="numpy")
def square_slopes(visited: Bound, solved: Bound) -> Array:
    """Return the derivatives by q and normals of |ρ_r|² for each whitened row ρ_r of a bound step, shape (3 n, w)."""
    site, free = visited.borrowed, solved.borrowed.w.free
    rows, m = site.terms.J.shape
    Y, out = np.zeros((rows, m)), np.zeros((rows, site.terms.slopes.shape[2]))
    if rows == 0:
        return out
    M_free = site.terms.M[free][:, free].copy()
    responses = np.linalg.solve(M_free, np.ascontiguousarray(site.terms.J[:, free].T))
    for k in range(free.shape[0]):
        Y[:, free[k]] = responses[k]
    for r in range(rows):
        for k in free:
            if site.terms.moves[r % site.terms.moves.shape[0], k]:
                for o in range(out.shape[1]):
                    out[r, o] += 2.0 * Y[r, k] * site.terms.slopes[r, k, o]
    out[:, :m] -= energies(site.motion.tree, Y)
    return out
