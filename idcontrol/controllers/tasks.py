"""Joint velocities that whole-body tasks demand in a control step (docs/theory/tasks.md).

The velocities are first computed without limits of friction, motors and joints. If the resulting motion satisfies these
limits with all contacts sticking, it is also the optimum of the quadratic program with these limits, which then need
not be solved.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import typeof, types

from idcontrol.contact.contacts import ContactArrays
from idcontrol.kernels.arena import Arena, matrix, vector
from idcontrol.kernels.bound import Bound
from idcontrol.kernels.jit import njit
from idcontrol.kernels.lanes import dot
from idcontrol.kernels.linear import assign
from idcontrol.kernels.linked import late
from idcontrol.models.distribution import NO_TARGETS, TorqueMap
from idcontrol.tasks.demand import balance_rows, free_demand
from idcontrol.tasks.forces import ForceTerms, force_rows, write_missed
from idcontrol.tasks.program import Dynamics, Rows, bounded_demand
from idcontrol.tasks.rows import Placement, Targets, task_rows
from idcontrol.types import Array, Integers

FREE: Final = 0
"""The motion of the tasks satisfies all limits."""
BOUNDED: Final = 1
"""A quadratic program chose the motion."""
INFEASIBLE: Final = 2
"""No motion without slip satisfies contacts and limits; the contact model gets the demand without limits."""
DEMANDS: Final = ("free", "qp", "infeasible")
"""`Command.demand` of a controller with tasks, for the outcomes `FREE`, `BOUNDED` and `INFEASIBLE`. A step that relaxes
strict tasks is "infeasible", too."""
TARGETS: Final = typeof(NO_TARGETS)
VECTOR: Final = typeof(NO_TARGETS.constant)


class TaskTerms(NamedTuple):
    """The tasks of a controller.

    Attributes:
        targets: References and gains; empty if the joints' reference is the only demand.
        placement: Placement of the robot's bodies.
        joint_weight: Weights of the joints' reference, shape (a,).
        certificate: Address of the compiled `schemes.certify`, which tests if all contacts can stick with motors
            within their bounds.
        outcome: `FREE`, `BOUNDED` or `INFEASIBLE`, then 1 if contradictory strict tasks are relaxed, shape (2,).
        missed: Accelerations by which relaxed strict tasks miss their demand, in the order of the tasks' rows with a
            positive weight, shape (6 k,) for k tasks [m/s², rad/s²; N m for angular momentum].
        forces: Targets of contact forces.
    """

    targets: Targets
    placement: Placement
    joint_weight: Array
    certificate: int
    outcome: Integers
    missed: Array
    forces: ForceTerms


class Wish(NamedTuple):
    """The demand of the joints' reference, and the motion of contacts in stance.

    Attributes:
        v: Velocity in the system's order, shape (m,).
        b: Desired joint velocities, shape (a,) [rad/s].
        J: Rows of the contacts, shape (3 n, m).
        target: Target velocities of these rows, shape (3 n,) [m/s].
        h: Control period [s].
    """

    v: Array
    b: Array
    J: Array
    target: Array
    h: float


class Limits(NamedTuple):
    """Limits of contacts and joints.

    Attributes:
        mu: Friction of the contacts, shape (n,).
        least: Smallest torques, shape (a,) [N m].
        most: Largest torques, shape (a,) [N m].
        slowest: Smallest velocities that the joints' stops and largest speeds allow, shape (a,) [rad/s].
        fastest: Largest velocities that the joints' stops and largest speeds allow, shape (a,) [rad/s].
    """

    mu: Array
    least: Array
    most: Array
    slowest: Array
    fastest: Array


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def _rows(tasks: TaskTerms, M: Array, bias: Array, wish: Wish, arena: Arena) -> tuple[Rows, Array]:
    """Compute the rows of tasks, and the required accelerations of the contact rows, shape (3 n,)."""
    a, r, h = wish.b.shape[0], wish.target.shape[0], wish.h
    u = M.shape[0] - a
    A, y, weight = task_rows(M, bias, wish.v, tasks.placement, tasks.targets, arena)
    joints, d = vector(arena, a), vector(arena, r)
    for j in range(a):
        joints[j] = (wish.b[j] - wish.v[u + j]) / h
    for i in range(r):
        d[i] = (wish.target[i] - dot(wish.J[i], wish.v)) / h
    return Rows(A, y, weight, joints, tasks.joint_weight), d


@late(lambda *_: TARGETS)
@njit(cache=True, inner=True, error_model="numpy")
def force_targets(bound: Bound, contacts: ContactArrays, arena: Arena) -> TorqueMap:
    """Compute the force targets of contacts in stance (`idcontrol.tasks.forces.force_rows`) of a bound machine."""
    machine = bound.borrowed
    forces, rotation = machine.tasks.forces, machine.tasks.placement.rotation
    return force_rows(forces, rotation, contacts.identity, contacts.axes, machine.h, arena)


@late(lambda *_: types.none)
@njit(cache=True, inner=True, error_model="numpy")
def miss_targets(bound: Bound, contacts: ContactArrays, f: Array, arena: Arena) -> None:
    """Write the errors of the force targets of a bound machine under impulses f (3 n,) of contacts in stance."""
    tasks, force = bound.borrowed.tasks, vector(arena, f.shape[0])
    for r in range(f.shape[0]):
        force[r] = f[r] / bound.borrowed.h
    write_missed(tasks.forces, tasks.placement.rotation, contacts.identity, contacts.axes, force, arena)


@late(lambda *_: VECTOR)
@njit(cache=True, inner=True, error_model="numpy")
def free_velocities(bound: Bound, wish: Wish, arena: Arena) -> Array:
    """Compute the joint velocities that tasks demand without limits of friction and motors, shape (a,) [rad/s].

    Args:
        bound: The machine (`idcontrol.controllers.step.Machine`).
        wish: Reference of the joints, and the contacts.
        arena: Arena for all arrays.
    """
    machine = bound.borrowed
    tasks, M, bias = machine.tasks, machine.terms.M, machine.terms.bias
    rows, d = _rows(tasks, M, bias, wish, arena)
    a, (r, m) = wish.b.shape[0], wish.J.shape
    balance, constants = balance_rows(M, bias, wish.J, m - a, arena)
    k = constants.shape[0]
    strict, e = matrix(arena, r + k, m), vector(arena, r + k)
    for i in range(r + k):
        assign(strict[i], wish.J[i] if i < r else balance[i - r])
        e[i] = d[i] if i < r else constants[i - r]
    missed = tasks.missed[: rows.y.shape[0]]
    out, relaxes = free_demand(strict, e, rows.A, rows.y, rows.weight, rows.joints, rows.joint_weight, missed, arena)
    for j in range(a):
        out[j] = wish.v[m - a + j] + wish.h * out[j]
    tasks.outcome[0], tasks.outcome[1] = FREE, int(relaxes)
    return out


@late(lambda *_: VECTOR)
@njit(cache=True, inner=True, error_model="numpy")
def bounded_velocities(bound: Bound, wish: Wish, limits: Limits, arena: Arena) -> Array:
    """Compute the joint velocities that tasks demand within all limits; return `wish.b` if no such motion is found.

    Args:
        bound: The machine; the outcome of its tasks is overwritten. Strict tasks that `free_velocities` has relaxed
            stay relaxed.
        wish: Reference of the joints, and the contacts.
        limits: Limits of contacts and joints.
        arena: Arena for all arrays.
    """
    machine = bound.borrowed
    tasks, M, bias = machine.tasks, machine.terms.M, machine.terms.bias
    rows, d = _rows(tasks, M, bias, wish, arena)
    for i in range(rows.y.shape[0]):
        rows.y[i] -= tasks.missed[i]
    a, m, h = wish.b.shape[0], M.shape[0], wish.h
    slowest, fastest, out = vector(arena, a), vector(arena, a), vector(arena, a)
    weight = 0.0
    for x in range(3):
        weight += (M[0, 0] * tasks.placement.gravity[x]) ** 2
    for j in range(a):
        now = wish.v[m - a + j]
        slowest[j], fastest[j] = (limits.slowest[j] - now) / h, (limits.fastest[j] - now) / h
    dynamics = Dynamics(M, bias, wish.J, d, limits.mu, limits.least, limits.most, slowest, fastest)
    solved, x = bounded_demand(dynamics, rows, max(np.sqrt(weight), 1.0), arena)
    if not solved:
        tasks.outcome[0] = INFEASIBLE
        return wish.b
    for j in range(a):
        out[j] = wish.v[m - a + j] + h * x[m - a + j]
    tasks.outcome[0] = BOUNDED
    return out
