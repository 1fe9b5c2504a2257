"""Contact forces of a period with a touchdown: forward dynamics with the chosen torques.

No torque prevents an impact, so the problem of the control step omits landing feet. The forward problem of this module
includes them: landing feet close their gap to the ground, and standing feet keep the target velocities of the control
step.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
from numba import types

from idcontrol.contact.contacts import AnyContacts, ContactArrays, Packed
from idcontrol.controllers.stance import meets_ground, take
from idcontrol.controllers.step import assemble_borrowed, velocity
from idcontrol.kernels.arena import HEAP, Arena, begin, indices, vector, zeros
from idcontrol.kernels.bound import Bound, borrow
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign
from idcontrol.kernels.linked import address, calls, linked, type_returned
from idcontrol.models.forward import Attempt, ForwardProblem, whiten_forward
from idcontrol.types import Array, Integers

Predicted: TypeAlias = tuple[bool, Integers, Array, Array]
"""Result of `predict`: True if the model solved the problem with finite forces, the contacts' identities, their forces
[N] and normals in world axes."""

_RETURNS: Final = types.Tuple((types.boolean, types.int64, types.float64))
_ask: Any = calls(_RETURNS)


def model_at(model: Attempt, bound: Bound, candidates: Packed) -> int:
    """Return the address of a contact model, compiled for the types of these arguments."""
    step = type_returned(impact, bound, ContactArrays(*candidates), HEAP)
    where: int = address(model, _RETURNS, step and step[0], candidates[2], HEAP)
    return where


@linked
@njit(cache=True, error_model="numpy")
def impact(bound: Bound, detected: ContactArrays, arena: Arena) -> tuple[ForwardProblem, Integers, ContactArrays]:
    """Build the forward problem of a solved step, with the step's contacts and the landing feet (`meets_ground`).

    Return the problem, the indices of its contacts among `detected`, and copies of these contacts, in which standing
    feet have no gap, and move with their target velocities.

    Args:
        bound: The `Machine`; its result has the torques, and its assembled step is overwritten.
        detected: All candidate contacts.
        arena: Arena for all arrays.
    """
    machine = bound.borrowed
    assemble_borrowed(bound, detected, arena)
    step = machine.step[0].borrowed
    h, total, m = machine.h, detected.gap.shape[0], machine.terms.M.shape[0]
    v, kappa = velocity(machine, arena), vector(arena, m)
    assign(kappa, step.w.kappa)
    for j in range(machine.result.tau.shape[0]):
        kappa[machine.terms.fixed[j]] -= h * machine.result.tau[j]
    which, stands = indices(arena, total), indices(arena, total)  # index among the candidates; index in the step, or -1
    n, s = 0, 0
    for i in range(total):
        in_stance = s < step.which.shape[0] and step.which[s] == i
        lands = meets_ground(detected, i, v, h, machine.rule.approach_speed_m_s)
        if in_stance or lands:
            which[n], stands[n] = i, -1 if lands else s
            n += 1
        s += in_stance
    contacts = take(detected, which[:n], arena)
    for i in range(n):
        if stands[i] >= 0:
            contacts.gap[i] = 0.0
            for axis in range(3):
                contacts.surface_velocity[axis * n + i] = step.target[axis * step.which.shape[0] + stands[i]]
    fresh = indices(arena, n)
    fresh[:] = 0
    return whiten_forward(machine.terms.M, kappa, h, contacts, fresh, arena), which[:n], contacts


@njit(cache=True, error_model="numpy")
def predict(bound: Bound, candidates: AnyContacts) -> Predicted:
    """Predict the forces of a landing by the contact model at `Machine.impact` (`idcontrol.models.forward`)."""
    machine = bound.borrowed
    begin(machine.arena)
    problem, _, contacts = impact(bound, ContactArrays(*borrow(candidates)), machine.arena)
    n = contacts.gap.shape[0]
    f, force = zeros(machine.arena, 3 * n), np.zeros((n, 3))
    solved, _, _ = _ask(machine.impact, (problem, f, machine.arena))
    for i in range(n):
        for d in range(3):
            for axis in range(3):
                force[i, d] += f[axis * n + i] / machine.h * contacts.axes[i, axis, d]
    finite = bool(solved and np.isfinite(force).all())
    return finite, contacts.identity.copy(), force, contacts.axes[:, 0].copy()
