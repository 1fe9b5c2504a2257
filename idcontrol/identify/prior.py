"""Knowledge before the log: nominal parameters of bodies and drives, their standard deviations and bounds."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pinocchio as pin

from idcontrol.dynamics.system import Actuators, System
from idcontrol.identify.equations import DRIVE
from idcontrol.identify.inertia import SIZE, neighbours, physical, pseudo
from idcontrol.types import Array, Booleans

BODY_SPREAD: Final = 0.3
"""Prior standard deviation of each inertial coordinate of a body: about 30 % of its mass and moments."""
SCALE_SPREAD: Final = 0.3
"""Prior standard deviation of the scale of a drive."""
FRICTION_SHARE: Final = 0.1
"""Prior standard deviation of dry friction, and of viscous friction at the largest speed, relative to the torque limit.
A larger nominal value replaces it. A joint without a torque limit counts as limited to 1 N m, a joint without a speed
limit as limited to 1 rad/s."""
ROTOR_SHARE: Final = 10.0
"""Prior standard deviation of an armature, relative to its nominal value or to the inertia about its joint, whichever
is larger: rotors behind large gear ratios outweigh their links."""
SCALE_LEAST: Final = 0.05
"""Smallest scale of a drive."""


class Prior(NamedTuple):
    """Knowledge before the log, about p parameters θ (`idcontrol.identify.equations.Blocks`).

    The coordinates z of θ are the inertial coordinates of all bodies, then the parameters of the drives themselves.

    Attributes:
        bodies: Nominal parameters of the bodies, shape (k, 10).
        root: Cholesky factors of the bodies' pseudo-inertias, made physical, shape (k, 4, 4); zero for massless bodies.
        drives: Nominal parameters of the drives, shape (4 a,), in the order of θ.
        spread: Standard deviations of the inertial coordinates of bodies (`idcontrol.identify.inertia`), then of the
            parameters of drives, shape (p,).
        least: Lower bounds of the coordinates, shape (p,).
        free: True if a coordinate is fitted, shape (p,).
        mass: Weighed mass [kg]; NaN if unknown.
    """

    bodies: Array
    root: Array
    drives: Array
    spread: Array
    least: Array
    free: Booleans
    mass: float

    @property
    def masses(self) -> Array:
        """Return the coefficients of θ in the total mass: 1 for the mass of each body, otherwise 0, shape (p,)."""
        coefficients = np.zeros(len(self.spread))
        coefficients[: SIZE * len(self.root) : SIZE] = 1.0
        return coefficients

    @property
    def start(self) -> Array:
        """Return the nominal coordinates, shape (p,)."""
        return np.concatenate((np.zeros(SIZE * len(self.root)), self.drives))

    def parameters(self, z: Array) -> tuple[Array, Array]:
        """Return θ, shape (p,), and its derivatives, shape (p, p), at coordinates `z`, shape (p,).

        Bodies that are not fitted have their nominal parameters; their derivatives have no meaning.
        """
        k = len(self.root)
        bodies, slopes = neighbours(self.root, z[: SIZE * k].reshape(k, SIZE))
        # bodies that are not fitted keep parameters that no body can have
        bodies = np.where(self.free[: SIZE * k : SIZE, None], bodies, self.bodies)
        slope = np.eye(len(z))
        for body, own in enumerate(slopes):
            slope[SIZE * body : SIZE * (body + 1), SIZE * body : SIZE * (body + 1)] = own
        return np.concatenate((bodies.ravel(), z[SIZE * k :])), slope


def prior_of(system: System, actuators: Actuators, free: frozenset[str], mass: float | None) -> Prior:
    """Return the prior of a robot's bodies and drives.

    Args:
        system: The robot.
        actuators: Nominal dynamics of the robot's actuators; the nominal scale of each drive is 1.
        free: The parameters to fit: ``links`` for bodies, and names in `DRIVE`.
        mass: Weighed mass of all moving bodies [kg]; None if unknown.
    """
    bodies = np.array([inertia.toDynamicParameters() for inertia in list(system.model.inertias)[1:]])
    heavy = bodies[:, 0] > 0.0
    J = np.tile(np.eye(4), (len(bodies), 1, 1))
    J[heavy] = physical(pseudo(bodies[heavy]))
    root = np.asarray(np.linalg.cholesky(J), dtype=np.float64)
    root[~heavy] = 0.0  # all neighbours of a massless body are massless
    a, torque, speed = system.n_actuated, system.effort_limit, system.limits.speed
    rest = pin.neutral(system.model)
    inertia = np.diag(pin.crba(system.model, system.model.createData(), rest))[system.order[system.n_unactuated :]]
    friction = FRICTION_SHARE * np.where(np.isfinite(torque), torque, 1.0)
    slow = friction / np.where(np.isfinite(speed), speed, 1.0)
    spreads = (
        ROTOR_SHARE * np.maximum(inertia, actuators.armature),
        np.maximum(slow, actuators.damping),
        np.maximum(friction, actuators.friction),
        np.full(a, SCALE_SPREAD),
    )
    drives = (actuators.armature, actuators.damping, actuators.friction, np.ones(a))
    return Prior(
        bodies=bodies,
        root=root,
        drives=np.concatenate(drives),
        spread=np.concatenate((np.full(SIZE * len(bodies), BODY_SPREAD), *spreads)),
        least=np.concatenate((np.full(SIZE * len(bodies), -np.inf), np.zeros(3 * a), np.full(a, SCALE_LEAST))),
        free=np.concatenate(
            (np.repeat(heavy & ("links" in free), SIZE), np.repeat([name in free for name in DRIVE], a))
        ),
        mass=np.nan if mass is None else mass,
    )
