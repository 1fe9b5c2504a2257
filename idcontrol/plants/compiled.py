"""A plain substep of `idcontrol.plants.stepping` as one compiled call, from the multibody terms to v⁺ and forces."""

from __future__ import annotations

import numpy as np
from numba import njit

from idcontrol.contact.spheres import SphereContacts, detect_kernel
from idcontrol.kernels.arena import begin, indices, reserve, vector, zeros
from idcontrol.kernels.bound import Bound, bind
from idcontrol.models.compiled import contact_impulses
from idcontrol.models.problem import CLOSED_GAP, PUSH_OUT_SPEED, StepSolution
from idcontrol.models.reduction import recover_kernel, reduce_kernel
from idcontrol.plants.parts import ROUNDING_N
from idcontrol.system import System
from idcontrol.types import Array, ContactForces, Integers, Status


@njit(cache=True, error_model="numpy")
def _substep(machine: Bound, h: float, v_theirs: Array, tau: Array) -> tuple[bool, int, float, int, int]:
    """One substep; see `CompiledSubstep` for what is bound.

    Returns:
        Whether the model solved it without any repair, iterations, residual, how many contacts n and how many of them p
        press. What is bound last gets v⁺ (m,) and impulses (n, 3); of the contacts that press identity (p,), forces
        (p, 3) and normals (p, 3) in world axes.
    """
    arena, model, near, M, bias, order, detection, warm, result = machine.values
    begin(arena)
    reads, writes = detection
    v_plus, impulses, listed, force, normal = result
    m, u = M.shape[0], M.shape[0] - tau.shape[0]
    v = vector(arena, m)
    reach = 0.0
    for i in range(m):
        v[i] = v_theirs[order[i]]
        reach += abs(v[i])
    n = detect_kernel(*reads, near + min(2.0 * h * reach, 0.1), *writes)
    _, _, _, _, identity, _, axes, gap, mu, J = writes

    kappa = vector(arena, m)
    np.dot(M, v, kappa)
    for i in range(m):
        kappa[i] = h * bias[i] - kappa[i]
    kappa[u:] -= h * tau
    free, nothing, no_speed = indices(arena, m), indices(arena, 0), vector(arena, 0)
    for i in range(m):
        free[i] = i
    L, v_free, rho, c = reduce_kernel(M, kappa, free, nothing, no_speed, J[: 3 * n], arena)
    bits, closed = indices(arena, n), np.empty(n, dtype=np.bool_)
    plain = True
    for i in range(n):
        c[i] += max(gap[i] / h, -PUSH_OUT_SPEED)
        bits[i] = warm[identity[i]]
        closed[i] = gap[i] <= CLOSED_GAP
        plain = plain and np.isfinite(mu[i])
    f = zeros(arena, 3 * n)
    iterations, residual = 0, 0.0
    if plain:
        plain, iterations, residual = contact_impulses(model, rho, c, mu[:n], closed, bits, f, arena)
    v_plus[:], _ = recover_kernel(M, kappa, free, nothing, L, v_free, J[: 3 * n], rho, f, arena)
    for i in range(m):
        plain = plain and np.isfinite(v_plus[i])
    warm[:] = 0
    p = 0
    for i in range(n):
        warm[identity[i]] = bits[i]
        largest = 0.0
        for axis in range(3):
            impulses[i, axis] = f[axis * n + i]
            largest = max(largest, abs(f[axis * n + i]))
        # not the normal impulse alone: what holds where nothing slips may need none
        if largest > ROUNDING_N * h:
            listed[p] = identity[i]
            for d in range(3):
                normal[p, d] = axes[i, 0, d]
                force[p, d] = 0.0
                for axis in range(3):
                    force[p, d] += f[axis * n + i] / h * axes[i, axis, d]
            p += 1
    return bool(plain), iterations, residual, n, p


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
        spheres = contacts.mu.shape[0]
        self._warm: Integers = np.zeros(spheres, dtype=np.int64)
        self._v_plus: Array = np.zeros(system.n_velocities)
        self._impulses, self._force, self._normal = (np.zeros((spheres, 3)) for _ in range(3))
        self._identity: Integers = np.zeros(spheres, dtype=np.int64)
        self._machine = bind(
            (
                reserve(),
                model,
                near,
                system.M,
                system.bias,
                system.order,
                contacts.detection,
                self._warm,
                (self._v_plus, self._impulses, self._identity, self._force, self._normal),
            )
        )

    def reset(self) -> None:
        """Forget the last substep."""
        self._warm[:] = 0

    def __call__(self, v: Array, tau: Array, h: float) -> tuple[StepSolution, ContactForces] | None:
        """A substep of `h` [s] from velocity `v`, Pinocchio's layout, under torques `tau` [N m], or None if not plain.

        The system must have been updated to the state.

        Returns:
            The solution, and the forces of the contacts that press.
        """
        plain, iterations, residual, n, pressing = _substep(self._machine, h, v, tau)
        if not plain:
            return None
        solution = StepSolution(
            v_plus=self._v_plus.copy(),
            impulses=self._impulses[:n].copy(),
            multipliers=_NO_MULTIPLIERS,
            status=Status.SOLVED,
            residual=residual,
            iterations=iterations,
        )
        forces = ContactForces(
            identity=self._identity[:pressing].copy(),
            force=self._force[:pressing].copy(),
            normal=self._normal[:pressing].copy(),
        )
        return solution, forces


_NO_MULTIPLIERS: Array = np.zeros(0)
