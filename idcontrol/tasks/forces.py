r"""Targets of contact forces: how forces are shared that give the same motion.

    minimize ½ Σ w_i (W_i y - h f_i)² + ½ SHARE |hτ(y) - hτ_ref|²     over the impulses y of stage II

W_i y are the components of the wrench that the contacts of a foot exert about its frame. Motion, friction cones and
bounds of motors stay as in `idcontrol.models.distribution`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.kernels.arena import Arena, indices, matrix, vector, zeros
from idcontrol.kernels.jit import njit
from idcontrol.models.distribution import TorqueMap
from idcontrol.tasks.rows import Targets
from idcontrol.types import Array, Integers

SHARE: Final = 1e-6
"""Weight of motor torques [(N m)⁻²]: it decides what force targets leave open."""


class ForceTerms(NamedTuple):
    """The force targets of a controller with s contact spheres.

    Attributes:
        targets: The k tasks; the wanted wrench is their acceleration, NaN where none is set.
        task: Task of each sphere, -1 where it has none, shape (s,).
        joint: Joint that carries each sphere, shape (s,).
        arm: From the origin of the task's frame to the sphere's centre, axes of the joint, shape (s, 3) [m].
        radius: Radius of each sphere, shape (s,) [m].
    """

    targets: Targets
    task: Integers
    joint: Integers
    arm: Array
    radius: Array


@njit(cache=True, inner=True, error_model="numpy")
def _wrenches(
    forces: ForceTerms, rotation: Array, identity: Integers, axes: Array, arena: Arena
) -> tuple[Array, Integers]:
    """Compute the wrench of each task as a function of impulses, shape (6 k, 3 n), and how many contacts it has (k,).

    Args:
        forces: The tasks.
        rotation: Axes of all joints (columns), shape (n_joints, 3, 3).
        identity: Spheres of the n contacts.
        axes: Axes of these contacts (rows), shape (n, 3, 3).
        arena: Where arrays come from.
    """
    n, k = identity.shape[0], forces.targets.kind.shape[0]
    W, count, arm = matrix(arena, 6 * k, 3 * n), indices(arena, k), vector(arena, 3)
    W[:], count[:] = 0.0, 0
    for i in range(n):
        sphere = identity[i]
        task = forces.task[sphere]
        if task < 0:
            continue
        count[task] += 1
        R = rotation[forces.joint[sphere]]
        for x in range(3):
            arm[x] = -forces.radius[sphere] * axes[i, 0, x]
            for o in range(3):
                arm[x] += R[x, o] * forces.arm[sphere, o]
        for axis in range(3):
            for x in range(3):
                y, z = (x + 1) % 3, (x + 2) % 3
                W[6 * task + x, axis * n + i] = axes[i, axis, x]
                W[6 * task + 3 + x, axis * n + i] = arm[y] * axes[i, axis, z] - arm[z] * axes[i, axis, y]
    return W, count


@njit(cache=True, inner=True, error_model="numpy")
def force_rows(
    forces: ForceTerms, rotation: Array, identity: Integers, axes: Array, h: float, arena: Arena
) -> TorqueMap:
    """Compute what is to vanish beside the torque, in units of it: the impulses that miss their targets.

    Targets of feet without contact are left out.

    Args:
        forces: As in `_wrenches`.
        rotation: Likewise.
        identity: Likewise.
        axes: Likewise.
        h: Control period [s].
        arena: Where arrays come from.
    """
    W, count = _wrenches(forces, rotation, identity, axes, arena)
    constant, rows = vector(arena, W.shape[0]), 0
    for r in range(W.shape[0]):
        task, x = r // 6, r % 6
        weight, wanted = forces.targets.weight[task, x], forces.targets.acceleration[task, x]
        if weight > 0.0 and count[task] > 0 and not np.isnan(wanted):
            scale = np.sqrt(weight / SHARE)
            constant[rows] = -scale * h * wanted
            for c in range(W.shape[1]):
                W[rows, c] = scale * W[r, c]
            rows += 1
    return TorqueMap(W[:rows], constant[:rows])


@njit(cache=True, inner=True, error_model="numpy")
def write_missed(
    forces: ForceTerms, rotation: Array, identity: Integers, axes: Array, force: Array, arena: Arena
) -> None:
    """Write what forces of contacts miss of their targets into `Targets.error` [N, N m]; NaN where none is set.

    Args:
        forces: As in `_wrenches`.
        rotation: Likewise.
        identity: Likewise.
        axes: Likewise.
        force: Forces [N; S; T], shape (3 n,) [N].
        arena: Where arrays come from.
    """
    W, _ = _wrenches(forces, rotation, identity, axes, arena)
    actual = zeros(arena, W.shape[0])
    for r in range(W.shape[0]):
        for c in range(W.shape[1]):
            actual[r] += W[r, c] * force[c]
        forces.targets.error[r // 6, r % 6] = forces.targets.acceleration[r // 6, r % 6] - actual[r]
