r"""Force targets: they select among contact forces that cause the same motion.

    minimize ½ Σ w_i (W_i y - h f_i)² + ½ SHARE |hτ(y) - hτ_ref|²     over the impulses y of stage II

W_i y are the components of the ground's wrench on a foot about the origin of its frame, times the period h; f_i are
their targets. hτ(y) are the motor impulses; the reference hτ_ref, motion, friction cones and motor bounds are as in
`idcontrol.models.distribution`.
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
"""Weight of motor torques [(N m)⁻²]. It decides among forces that meet the targets equally well."""


class ForceTerms(NamedTuple):
    """The force targets of a controller with s contact spheres.

    Attributes:
        targets: The k tasks; `Targets.acceleration` has the target wrenches, NaN for no target.
        task: Task of each sphere, -1 for no task, shape (s,).
        joint: Joint that carries each sphere, shape (s,).
        arm: Vector from the origin of the task's frame to the sphere's centre, axes of the joint, shape (s, 3) [m].
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
    """Compute the wrench of each task per impulse, shape (6 k, 3 n), and each task's number of contacts, shape (k,).

    Args:
        forces: The tasks.
        rotation: Axes of all joints (columns), shape (n_joints, 3, 3).
        identity: Spheres of the n contacts, shape (n,).
        axes: Axes of the contacts (rows), shape (n, 3, 3).
        arena: Arena for all arrays.
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
    """Compute the errors of force targets as rows over the impulses, scaled to units of motor impulses.

    Rows without weight or target, and rows of feet without contact, are omitted.

    Args:
        forces: As in `_wrenches`.
        rotation: As in `_wrenches`.
        identity: As in `_wrenches`.
        axes: As in `_wrenches`.
        h: Control period [s].
        arena: Arena for all arrays.
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
    """Write target minus actual wrench of each task into `Targets.error` [N, N m]; NaN for no target.

    Args:
        forces: As in `_wrenches`.
        rotation: As in `_wrenches`.
        identity: As in `_wrenches`.
        axes: As in `_wrenches`.
        force: Forces [N; S; T], shape (3 n,) [N].
        arena: Arena for all arrays.
    """
    W, _ = _wrenches(forces, rotation, identity, axes, arena)
    actual = zeros(arena, W.shape[0])
    for r in range(W.shape[0]):
        for c in range(W.shape[1]):
            actual[r] += W[r, c] * force[c]
        forces.targets.error[r // 6, r % 6] = forces.targets.acceleration[r // 6, r % 6] - actual[r]
