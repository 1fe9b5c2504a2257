"""Forces of a period in which a foot lands: the contact model forward from the torques that were chosen.

Torques leave an impact to happen, so the step's own problem has none. Feet that stand are measured against the
velocities of that problem; feet that land, against the ground and their gap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from idcontrol.contact.contacts import ContactArrays, Near
from idcontrol.controllers.step import meets_ground, pose_borrowed, take
from idcontrol.kernels.arena import Arena, begin, indices, vector, zeros
from idcontrol.kernels.bound import Bound, borrow
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linked import linked
from idcontrol.models import forward
from idcontrol.models.forward import ForwardProblem, whiten_forward
from idcontrol.types import Array, Integers

Predicted: TypeAlias = tuple[bool, Integers, Array, Array]
"""Whether the model has solved the problem; identities, forces [N] and normals of the contacts, in world axes."""

Prediction: TypeAlias = Callable[[Bound, Near], Predicted]
"""A compiled prediction: of a bound controller whose step is done, and the contacts near the ground."""


@linked
@njit(cache=True, inner=True, error_model="numpy")
def impact(bound: Bound, near: Near, arena: Arena) -> tuple[ForwardProblem, ContactArrays]:
    """The forward problem of a step that has been solved: its contacts, and the feet that land (`meets_ground`).

    Args:
        bound: The controller; `Machine.result` has the torques.
        near: All contacts near the ground.
        arena: Where arrays come from.
    """
    machine, detected = bound.borrowed, ContactArrays(*borrow(near))
    posed = pose_borrowed(bound, detected, arena)
    h, found, m = machine.h, detected.gap.shape[0], machine.terms.M.shape[0]
    v, kappa = vector(arena, m), vector(arena, m)
    for i in range(m):
        v[i], kappa[i] = machine.inputs.v[machine.terms.order[i]], posed.w.kappa[i]
    for j in range(machine.result.tau.shape[0]):
        kappa[machine.terms.fixed[j]] -= h * machine.result.tau[j]
    which, stands = indices(arena, found), indices(arena, found)  # places of contacts; theirs in the step, or -1
    n, s = 0, 0
    for i in range(found):
        in_stance = s < posed.which.shape[0] and posed.which[s] == i
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
                contacts.surface_velocity[axis * n + i] = posed.target[axis * posed.which.shape[0] + stands[i]]
    fresh = indices(arena, n)
    fresh[:] = 0
    return whiten_forward(machine.terms.M, kappa, h, contacts, fresh, arena), contacts


@njit(inline="always")
def predict(model: Any, bound: Bound, near: Near) -> Predicted:
    """The forces of a landing by a contact model (`idcontrol.models.forward`), which is compiled into it."""
    arena, h = bound.borrowed.arena, bound.borrowed.h
    begin(arena)
    problem, contacts = impact(bound, near, arena)
    n = contacts.gap.shape[0]
    f = zeros(arena, 3 * n)
    solved, _, _ = model(problem, f, arena)
    identity, force, normal = np.empty(n, np.int64), np.zeros((n, 3)), np.empty((n, 3))
    for i in range(n):
        identity[i] = contacts.identity[i]
        for d in range(3):
            normal[i, d] = contacts.axes[i, 0, d]
            for axis in range(3):
                force[i, d] += f[axis * n + i] / h * contacts.axes[i, axis, d]
            solved = solved and np.isfinite(force[i, d])
    return solved, identity, force, normal


@njit(cache=True, error_model="numpy")
def by_coulomb(bound: Bound, near: Near) -> Predicted:
    """`predict` with Coulomb friction."""
    return predict(forward.coulomb, bound, near)


@njit(cache=True, error_model="numpy")
def by_cone(bound: Bound, near: Near) -> Predicted:
    """`predict` with friction cones."""
    return predict(forward.cone, bound, near)


@njit(cache=True, error_model="numpy")
def by_dissipation(bound: Bound, near: Near) -> Predicted:
    """`predict` with maximal dissipation."""
    return predict(forward.dissipation, bound, near)
