"""Effect of the feet of a swaying gait on the base (planner.md 4.5).

When the base moves over fixed feet, the legs rotate less than the base, or in the opposite direction. With the
centroidal momentum matrix A_g (columns of the base, columns of legs), feet p_i and their Jacobians J_i, the momentum of
a base with twist u over feet with velocities ṗ_i is

    h = A u + Σ A_g,i J_i⁻¹ ṗ_i,        A = A_g,base - Σ A_g,i J_i⁻¹ [1, -p_i×]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pinocchio as pin

from idcontrol.dynamics.system import System
from idcontrol.planners.base import Push
from idcontrol.planners.feet import GRAVITY, NominalStance
from idcontrol.planners.gait import Gait
from idcontrol.planners.legs import IK_TOLERANCE, LegPose, Legs, reach
from idcontrol.types import Array

LEAN: Final = 0.3
"""Largest tangential force of a foot in a swaying gait, relative to the normal force; `TURN` may need more [-]."""

TURN: Final = 0.13
"""If the amplitude of roll or pitch would exceed this [rad], the forces of the feet lean more than `LEAN`, but not
beyond the centre of mass. If the robot rotated much farther during a bound, joints limited to 15 rad/s could not
follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushing:
    """Effect of each of n feet on the base, for `Push`.

    Attributes:
        acceleration: `Push.acceleration` if forces lean towards the centre of mass by at most `LEAN`, shape (5, n)
            [m/s², rad/s²].
        leaning: Additional acceleration if forces point at the centre of mass, along x and along y, shape (2, 5, n)
            [m/s², rad/s²].
        reaction: `Push.reaction`, shape (n, 2, 3) [rad/m].
    """

    acceleration: Array
    leaning: Array
    reaction: Array

    @staticmethod
    def of(system: System, legs: Legs, nominal: NominalStance, home: Array) -> Pushing:
        """Return the effect of the feet in the nominal stance, with joint angles about `home`, shape (a,) [rad]."""
        feet, n, data = nominal.feet, len(nominal.feet), system.model.createData()
        q = system.configuration(home, np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]))
        pin.ccrba(system.model, data, q, np.zeros(system.model.nv))
        mass, A, swung = data.Ig.mass, data.Ag[:5, :6].copy(), np.empty((n, 5, 3))
        for i in range(n):
            zero = LegPose(legs.origin[i], legs.axis[i], legs.foot[i])
            here, J = LegPose(np.empty((3, 3)), np.empty((3, 3)), np.empty(3)), np.empty((3, 3))
            reach(zero, feet[i], IK_TOLERANCE, home[legs.actuated[i]], here, J)
            swung[i] = data.Ag[:5, legs.v_index[i]] @ np.linalg.inv(J)
            A -= swung[i] @ np.hstack([np.eye(3), -pin.skew(feet[i])])
        A = A[:, :5]  # the heading follows the command

        x, y, z = (feet - pin.centerOfMass(system.model, data, q)).T
        z = z - nominal.radius
        towards = np.stack([x / z, y / z])

        def pushed(lean: Array) -> Array:
            force = np.stack((*lean, np.ones(n), y - z * lean[1], z * lean[0] - x))
            acceleration: Array = np.linalg.solve(A, GRAVITY * mass / n * force)
            acceleration[:2] = A[:2, :2] @ acceleration[:2] / mass  # the base moves with constant momentum (`momentum`)
            return acceleration

        least = np.clip(towards, -LEAN, LEAN)
        acceleration = pushed(least)
        leaning = np.stack(
            [pushed(np.stack(lean)) - acceleration for lean in ((towards[0], least[1]), (least[0], towards[1]))]
        )
        return Pushing(acceleration=acceleration, leaning=leaning, reaction=-np.linalg.solve(A, swung)[:, 3:])

    def push(self, gait: Gait) -> Push:
        """Return how the feet push the base in a gait.

        If possible, the forces lean far enough to limit the rotation of the base to `TURN`.
        """
        D, w = gait.duty, 2.0 * np.pi / gait.period_s
        # amplitude of a half sine at the gait's frequency, 2 cos πD / (1 - 4 D²)
        share = 0.5 * np.pi * (np.sinc(D - 0.5) + np.sinc(D + 0.5)) / w**2
        wave = share * np.exp(2j * np.pi * np.array(gait.touchdown))
        acceleration = self.acceleration.copy()
        for axis, turn in ((0, 4), (1, 3)):
            amplitude = self.acceleration[turn] @ wave
            own, less = abs(amplitude), -(np.conj(amplitude) * (self.leaning[axis, turn] @ wave)).real
            if own > TURN and less > 0.0:
                acceleration += min(own * (own - TURN) / less, 1.0) * self.leaning[axis]
        return Push(acceleration, self.reaction)
