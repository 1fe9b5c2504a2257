"""A plain substep of `idcontrol.plants.stepping` as one compiled call, from the multibody terms to v⁺ and forces."""

from __future__ import annotations

import numpy as np
from numba import njit

from idcontrol.contact.spheres import SphereContacts, detect_kernel
from idcontrol.models.compiled import contact_impulses
from idcontrol.models.problem import CLOSED_GAP, PUSH_OUT_SPEED, StepSolution
from idcontrol.models.reduction import recover_kernel, reduce_kernel
from idcontrol.plants.parts import ROUNDING_N
from idcontrol.system import System
from idcontrol.types import Array, ContactForces, Integers, Status


@njit(cache=True, error_model="numpy")
def _substep(
    model: int,
    h: float,
    near: float,
    M: Array,
    bias: Array,
    reads: tuple[Array, ...],
    writes: tuple[Array, ...],
    order: Integers,
    v_theirs: Array,
    tau: Array,
    warm: Integers,
) -> tuple[bool, int, float, Array, Array, Integers, Array, Array]:
    """One substep; `warm` is by contact identity, shape (spheres,).

    Returns:
        Whether the model solved it without any repair, iterations, residual, v⁺ (m,), impulses (n, 3); of p contacts
        that press identity (p,), forces (p, 3) and normals (p, 3) in world axes.
    """
    m, u = M.shape[0], M.shape[0] - tau.shape[0]
    v = np.empty(m)
    reach = 0.0
    for i in range(m):
        v[i] = v_theirs[order[i]]
        reach += abs(v[i])
    n = detect_kernel(*reads, near + min(2.0 * h * reach, 0.1), *writes)
    _, _, _, _, identity, _, axes, gap, mu, J = writes

    kappa = h * bias - np.dot(M, v)
    kappa[u:] -= h * tau
    nothing, no_speed = np.empty(0, dtype=np.int64), np.empty(0)
    free = np.arange(m)
    L, v_free, rho, c = reduce_kernel(M, kappa, free, nothing, no_speed, J[: 3 * n])
    bits, closed = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.bool_)
    plain = True
    for i in range(n):
        c[i] += max(gap[i] / h, -PUSH_OUT_SPEED)
        bits[i] = warm[identity[i]]
        closed[i] = gap[i] <= CLOSED_GAP
        plain = plain and np.isfinite(mu[i])
    f = np.zeros(3 * n)
    iterations, residual = 0, 0.0
    if plain:
        plain, iterations, residual = contact_impulses(model, rho, c, mu[:n].copy(), closed, bits, f)
    v_plus, _ = recover_kernel(M, kappa, free, nothing, L, v_free, J[: 3 * n], rho, f)
    for i in range(m):
        plain = plain and np.isfinite(v_plus[i])
    warm[:] = 0
    impulses, force = np.empty((n, 3)), np.zeros((n, 3))
    listed, normal = np.empty(n, dtype=np.int64), np.empty((n, 3))
    p = 0
    for i in range(n):
        warm[identity[i]] = bits[i]
        largest = 0.0
        for axis in range(3):
            impulses[i, axis] = f[axis * n + i]
            largest = max(largest, abs(f[axis * n + i]))
        # not the normal impulse alone: what holds where nothing slips may need none
        if largest > ROUNDING_N * h:
            listed[p], normal[p] = identity[i], axes[i, 0]
            for axis in range(3):
                force[p] += f[axis * n + i] / h * axes[i, axis]
            p += 1
    return bool(plain), iterations, residual, v_plus, impulses, listed[:p], force[:p], normal[:p]


class CompiledSubstep:
    """The plain substep of `idcontrol.plants.stepping.Stepping`."""

    def __init__(self, model: int, system: System, contacts: SphereContacts, near: float) -> None:
        """Bind it to a machine.

        Args:
            model: A number of `idcontrol.models.compiled`.
            system: The plant's own multibody terms.
            contacts: Detector of contacts on `system`.
            near: Contacts are listed below this gap, or where they could close within two steps [m].
        """
        self._model, self._system, self._near = model, system, near
        self._reads, self._writes = contacts.detection
        self._warm: Integers = np.zeros(contacts.mu.shape[0], dtype=np.int64)

    def reset(self) -> None:
        """Forget the last substep."""
        self._warm[:] = 0

    def __call__(self, v: Array, tau: Array, h: float) -> tuple[StepSolution, ContactForces] | None:
        """A substep of `h` [s] from velocity `v`, Pinocchio's layout, under torques `tau` [N m], or None if not plain.

        The system must have been updated to the state.

        Returns:
            The solution, and the forces of the contacts that press.
        """
        system = self._system
        plain, iterations, residual, v_plus, impulses, identity, force, normal = _substep(
            self._model,
            h,
            self._near,
            system.M,
            system.bias,
            self._reads,
            self._writes,
            system.order,
            v,
            tau,
            self._warm,
        )
        if not plain:
            return None
        solution = StepSolution(
            v_plus=v_plus,
            impulses=impulses,
            multipliers=_NO_MULTIPLIERS,
            status=Status.SOLVED,
            residual=residual,
            iterations=iterations,
        )
        return solution, ContactForces(identity=identity, force=force, normal=normal)


_NO_MULTIPLIERS: Array = np.zeros(0)
