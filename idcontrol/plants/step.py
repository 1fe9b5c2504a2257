"""One plant step with a contact model, compiled: contacts, whitened rows, impulses, v⁺ and forces in world axes.

This is the plant's counterpart of `idcontrol.controllers.step`: no velocity is prescribed, and the torques are known.
Steps that a model does not solve at its first attempt (`idcontrol.models.forward`) are solved by the Python model
(`idcontrol.plants.stepping`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numba import types

from idcontrol.contact.contacts import AnyContacts, ContactArrays
from idcontrol.contact.spheres import find
from idcontrol.contact.stops import reachable_stops
from idcontrol.dynamics.multibody import integrate_kernel, terms_kernel
from idcontrol.dynamics.system import Actuators, carry
from idcontrol.kernels.arena import Arena, begin, vector, zeros
from idcontrol.kernels.bound import Bound, borrow
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign
from idcontrol.kernels.linked import address, calls, linked
from idcontrol.models.forward import ForwardProblem, cone, coulomb, dissipation, whiten_forward
from idcontrol.models.memory import Memory, recall, remember
from idcontrol.models.whitened import recover_kernel
from idcontrol.plants.parts import ROUNDING_N, brake_kernel
from idcontrol.types import Array, Integers

MARGIN: Final = 5e-3
"""Gap below which contacts are listed [m]; contacts that could close within two steps are listed, too."""


class PlantResult(NamedTuple):
    """Arrays that a step writes its result into, with room for `most` contacts.

    Attributes:
        v_plus: Velocity at the end of the step, in the system's order, shape (m,).
        impulses: Impulses of all contacts, in the first n entries, shape (most, 3) [N s].
        identity: Identities of the pressing contacts, in the first p entries, shape (most,).
        force: Forces of the pressing contacts in world axes, shape (most, 3) [N].
        normal: Normals of the pressing contacts in world axes, shape (most, 3).
    """

    v_plus: Array
    impulses: Array
    identity: Integers
    force: Array
    normal: Array


class PlantMachine(NamedTuple):
    """Arrays that every step reads or writes; terms as in `idcontrol.dynamics.system.System`."""

    arena: Arena
    M: Array
    bias: Array
    order: Integers
    memory: Memory
    result: PlantResult


Stepped: TypeAlias = tuple[bool, int, float, int, bool]
"""True if the model solved the step at its first attempt, iterations, residual, number of pressing contacts, and True
if these are sorted by identity."""

PlantStep: TypeAlias = Callable[[Bound, float, AnyContacts, Array, Array], Stepped]
"""A compiled step. Arguments: bound `PlantMachine`, h [s], contacts, velocity in Pinocchio's layout, torques [N m]."""


@linked
@njit(cache=True, inner=True, error_model="numpy")
def pose(machine: PlantMachine, h: float, contacts: ContactArrays, v_pinocchio: Array, tau: Array) -> ForwardProblem:
    """Return the problem of one step of `h` [s] from velocity `v_pinocchio` under torques `tau` [N m]."""
    arena, m = machine.arena, machine.M.shape[0]
    v, kappa = vector(arena, m), vector(arena, m)
    for i in range(m):
        v[i] = v_pinocchio[machine.order[i]]
    np.dot(machine.M, v, kappa)
    for i in range(m):
        kappa[i] = h * machine.bias[i] - kappa[i]
    for j in range(tau.shape[0]):
        kappa[m - tau.shape[0] + j] -= h * tau[j]
    active = recall(machine.memory, contacts.identity, arena)
    return whiten_forward(machine.M, kappa, h, contacts, active, arena)


@linked
@njit(cache=True, inner=True, error_model="numpy")
def report(machine: PlantMachine, h: float, contacts: ContactArrays, f: Array) -> int:
    """Write impulses f (3 n,) and forces of pressing contacts to `PlantMachine.result`; return the number of forces."""
    result, n = machine.result, contacts.gap.shape[0]
    pressing = 0
    for i in range(n):
        largest = 0.0
        for axis in range(3):
            result.impulses[i, axis] = f[axis * n + i]
            largest = max(largest, abs(f[axis * n + i]))
        # not only the normal impulse: a contact without slip may have friction with zero normal impulse
        if largest > ROUNDING_N * h:
            result.identity[pressing] = contacts.identity[i]
            for d in range(3):
                result.normal[pressing, d] = contacts.axes[i, 0, d]
                result.force[pressing, d] = 0.0
                for axis in range(3):
                    result.force[pressing, d] += f[axis * n + i] / h * contacts.axes[i, axis, d]
            pressing += 1
    return pressing


@njit(inline="always")
def plant_step(model: Any, bound: Bound, h: float, listed: AnyContacts, v_pinocchio: Array, tau: Array) -> Stepped:
    """Take one step with a contact model, whose code is part of the compiled step; write `PlantMachine.result`."""
    machine = bound.borrowed
    begin(machine.arena)
    contacts = ContactArrays(*borrow(listed))
    problem = pose(machine, h, contacts, v_pinocchio, tau)
    f = zeros(machine.arena, 3 * contacts.gap.shape[0])
    solved, iterations, residual = model(problem, f, machine.arena)
    ordered = True
    v_plus, _ = recover_kernel(problem.w, f, machine.arena)
    assign(machine.result.v_plus, v_plus)
    for speed in machine.result.v_plus:
        solved = solved and np.isfinite(speed)
    pressing = 0
    if solved:
        pressing = report(machine, h, contacts, f)
        remember(machine.memory, contacts.identity, problem.active)
        for i in range(1, pressing):
            ordered = ordered and machine.result.identity[i - 1] < machine.result.identity[i]
    return solved, iterations, residual, pressing, ordered


class Moving(NamedTuple):
    """Data of a substep in one call, for a robot with terms and contacts in compiled code.

    Attributes:
        step: Address of a `PlantStep`.
        machine: `PlantMachine` of this step.
        terms: Argument of `terms_kernel`.
        spheres: Argument of `find`.
        contacts: Argument of `find`.
        stops: Argument of `reachable_stops`.
        flyers: Argument of `carry`.
        actuators: Dynamics of the actuators; empty arrays for none.
        q: Configuration in Pinocchio's layout, updated.
        v: Velocity in Pinocchio's layout, updated.
        q_next: Scratch, shape (nq,).
        tau: Torques, shape (a,) [N m].
    """

    step: int
    machine: Bound
    terms: Bound
    spheres: Bound
    contacts: Bound
    stops: Bound
    flyers: Bound
    actuators: Actuators
    q: Array
    v: Array
    q_next: Array
    tau: Array


MOVED: Final = 0
"""The substep is complete: q and v are the values at its end."""
FLIES: Final = 1
"""The step is solved, but a free-flyer is possibly in flight; `idcontrol.plants.flight` must check this and move it."""
UNSOLVED: Final = 2
"""Terms and contacts are computed, but the model's first attempt failed."""
STOPPED: Final = 3
"""A joint is close to a stop; nothing was computed."""

_RETURNS: Final = types.Tuple((types.boolean, types.int64, types.float64, types.int64, types.boolean))
_step_at: Any = calls(_RETURNS)


def place_of(step: PlantStep, *like: Any) -> int:
    """Return the address of a step (`Moving.step`) for arguments of the types of `like`."""
    place: int = address(step, _RETURNS, *like)
    return place


@njit(cache=True, error_model="numpy")
def substep(bound: Bound, h: float) -> tuple[int, int, int, float, int, bool]:
    """Move the robot of the `Moving` in `bound` for `h` [s].

    Returns:
        `MOVED`, `FLIES`, `UNSOLVED` or `STOPPED`; the number of contacts; then all values of `Stepped` but its first.
    """
    moving = bound.borrowed
    q, v, machine = moving.q, moving.v, moving.machine.borrowed
    if reachable_stops(moving.stops, q, v, h) > 0:
        return STOPPED, 0, 0, 0.0, 0, True
    work = moving.terms.borrowed
    terms_kernel(moving.terms, q, v)
    if moving.actuators.damping.shape[0] > 0:
        brake_kernel(work.terms, machine.order, moving.actuators, v, h)
    n = find(moving.spheres, moving.contacts, MARGIN + reach(v, h))
    arguments = (moving.machine, h, moving.contacts, v, moving.tau)
    solved, iterations, residual, pressing, ordered = _step_at(moving.step, arguments)
    ending = UNSOLVED if not solved else FLIES if work.tree.flyers.shape[0] > min(pressing, 1) else MOVED
    if ending == MOVED:
        for i in range(v.shape[0]):
            v[machine.order[i]] = machine.result.v_plus[i]
        integrate_kernel(work.tree, q, v, h, moving.q_next)
        carry(moving.flyers, q, moving.q_next, v, v, h)
        assign(q, moving.q_next)
    return ending, n, iterations, residual, pressing, ordered


@njit(cache=True)
def reach(v: Array, h: float) -> float:
    """Return a margin for the motion of contacts in two steps of `h` [s] at velocities v (m,), at most 0.1 [m]."""
    total = 0.0
    for speed in v:
        total += abs(speed)
    return min(2.0 * h * total, 0.1)


@njit(cache=True, error_model="numpy")
def coulomb_step(bound: Bound, h: float, listed: AnyContacts, v_pinocchio: Array, tau: Array) -> Stepped:
    """Take a plant step with `coulomb`; see `plant_step`."""
    return plant_step(coulomb, bound, h, listed, v_pinocchio, tau)


@njit(cache=True, error_model="numpy")
def cone_step(bound: Bound, h: float, listed: AnyContacts, v_pinocchio: Array, tau: Array) -> Stepped:
    """Take a plant step with `cone`; see `plant_step`."""
    return plant_step(cone, bound, h, listed, v_pinocchio, tau)


@njit(cache=True, error_model="numpy")
def dissipation_step(bound: Bound, h: float, listed: AnyContacts, v_pinocchio: Array, tau: Array) -> Stepped:
    """Take a plant step with `dissipation`; see `plant_step`."""
    return plant_step(dissipation, bound, h, listed, v_pinocchio, tau)
