"""Standing up and lying down: seen from a level base, each foot moves along a straight line; feet roll, none slides.

A machine that lies has its feet beside its body, as far out as `Lair` says. It stands up where they are; the first
steps of a walk bring them under the hips, and the last ones out again (`idcontrol.planners.trot.TrotPlanner.halt`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from idcontrol.contact.spheres import SphereContacts
from idcontrol.planners.legs import IK_TOLERANCE, Feet, LegPose, Legs, leg_solve, place_leg, reach
from idcontrol.types import Array

KNOTS = 25
"""Places on the way at which a start is checked."""
MISS_M = 1e-3
"""A foot that stays further than this from its line cannot follow it [m]."""
ABOVE_M = 0.05
"""A foot that is higher than this above where it is when the machine lies hangs in the air [m]."""
SPARE = 0.9
"""Share of a torque limit that carrying the machine may take."""
BEYOND_RAD = 0.02
"""How far a joint may be beyond its limits where a machine lies against a stop [rad]."""

UP = np.array([0.0, 0.0, 1.0])


class Lair(NamedTuple):
    """Where the feet are while the machine lies, in axes of the base."""

    below_m: float
    """How far the ground is below the base's origin [m]."""
    out_m: float
    """How much further out to their sides the feet are than at home [m]."""


class Posture(NamedTuple):
    """Joints on the way, in the order of `System.actuated_names`, shape (a,) each."""

    q: Array
    """Positions [rad]."""
    v: Array
    """Velocities [rad/s]."""
    torque: Array
    """Torques that carry the machine there, its feet at rest on level ground [N m]."""
    miss: float
    """Largest distance of a foot from its line [m]."""


class Rise:
    """The way between lying and standing; joints that belong to no leg stay where they are.

    Attributes:
        lying: Joints of the machine that lies, shape (a,) [rad].
    """

    def __init__(self, contacts: SphereContacts, feet: Feet, home: Array, lair: Lair) -> None:
        """Find the ends of the way.

        Args:
            contacts: The feet on a plane, on a system of their own: a floating base, legs of three revolute joints.
            feet: The same feet, by name.
            home: Joints of the machine that stands, shape (a,) [rad].
            lair: Where the feet are while it lies.

        Raises:
            InputError: The machine has no such legs.
        """
        self._contacts, self._names = contacts, feet.names
        self._legs = legs = Legs.of(contacts.system, feet)
        n = len(feet.names)
        self._zero = [LegPose(legs.origin[i], legs.axis[i], legs.foot[i]) for i in range(n)]
        self._pose = [LegPose(np.empty((3, 3)), np.empty((3, 3)), np.empty(3)) for _ in range(n)]
        self._jacobian, self._leg = np.empty((n, 3, 3)), np.empty(3)
        self._angles: Array = np.array(home, dtype=np.float64)
        self._high = self._feet()
        self._low = self._high.copy()
        self._low[:, 1] += np.copysign(lair.out_m, self._high[:, 1])
        self._low[:, 2] = feet.radii - lair.below_m
        self._begins, self._ends, self._rolled = self._high, self._low, np.zeros((n, 3))
        self._radius = feet.radii
        for share in np.linspace(0.0, 1.0, KNOTS):
            self(float(share))
        self.lying: Array = self._angles.copy()
        self._rolled_out = self._feet()  # they have rolled on the way down, and roll back on the way up

    def begin(self, joints: Array, *, down: bool) -> None:
        """Begin a way at `joints`, shape (a,) [rad]: down to lying, or up above the feet.

        Up ends with the feet where they are, but no further in than at home and no further out than lying.
        """
        self._angles[:] = joints
        self._begins, self._rolled[:] = self._feet(), 0.0
        if down:
            self._ends = self._low
        else:
            both = np.stack((self._high, self._rolled_out))
            self._ends = np.clip(self._begins, both.min(axis=0), both.max(axis=0))
            self._ends[:, 2] = self._high[:, 2]

    @property
    def share(self) -> float:
        """How long this way is, as a share of the longest there is, at most 1."""
        way, longest = self._ends - self._begins, self._high - self._low
        return min(1.0, float(np.linalg.norm(way, axis=1).max() / np.linalg.norm(longest, axis=1).max()))

    def __call__(self, share: float, rate: float = 0.0) -> Posture:
        """Joints at a `share` of the way, 0 to 1, that grows at `rate` [1/s]."""
        miss, v, way = 0.0, np.zeros_like(self._angles), self._ends - self._begins
        for i, joints in enumerate(self._legs.actuated):
            pose, J = self._pose[i], self._jacobian[i]
            before, target = self._angles[joints], self._begins[i] + self._rolled[i] + share * way[i]
            angles = before.copy()
            miss = max(miss, reach(self._zero[i], target, IK_TOLERANCE, angles, pose, J))
            # the centre of a sphere that turns by ω on the ground moves by ω × r e_z
            rolls = self._radius[i] * np.cross(pose.axis, UP)
            self._rolled[i] += (angles - before) @ rolls
            leg_solve(J - rolls.T, rate * way[i], self._leg)
            self._angles[joints], v[joints] = angles, self._leg
        return Posture(self._angles.copy(), v, carrying(self._contacts, self._angles), miss)

    def problem(self, joints: Array) -> str:
        """Why a machine at `joints`, shape (a,) [rad], cannot stand up from there, in one line; "" where it can.

        Its joints must be within their limits, its feet must follow their lines, and its motors carry it everywhere on
        the way.
        """
        system = self._contacts.system
        names, limits, most = system.actuated_names, system.limits, system.effort_limit
        beyond = np.maximum(limits.lower - joints, joints - limits.upper)
        worst = int(beyond.argmax())
        if beyond[worst] > BEYOND_RAD:
            return (
                f"{names[worst]} is at {joints[worst]:.2f} rad, beyond its limits of {limits.lower[worst]:.2f} to "
                f"{limits.upper[worst]:.2f}; move it back by hand, or mend its zero (offset_rad)"
            )
        self.begin(joints, down=False)
        above = float((self._begins[:, 2] - self._low[:, 2]).max())
        if above > ABOVE_M:
            return (
                f"a foot is {1e3 * above:.0f} mm above the ground on which the body lies; fold the legs with the feet "
                "beside the body"
            )
        for share in np.linspace(0.0, 1.0, KNOTS):
            at = self(float(share))
            if at.miss > MISS_M:
                return (
                    f"from here a foot cannot follow the way up: it would miss it by {1e3 * at.miss:.0f} mm; fold the "
                    "legs with the feet beside the body"
                )
            worst = int((np.abs(at.torque) / most).argmax())
            if abs(at.torque[worst]) > SPARE * most[worst]:
                return (
                    f"to carry the machine {names[worst]} would need {abs(at.torque[worst]):.1f} N m of "
                    f"{most[worst]:.1f}; fold the legs with the feet beside the body"
                )
        return ""

    def _feet(self) -> Array:
        """Centres of the feet at the present angles, base axes, shape (n, 3) [m]."""
        for i, joints in enumerate(self._legs.actuated):
            place_leg(self._zero[i], self._angles[joints], self._pose[i])
        return np.array([pose.foot for pose in self._pose])


def carrying(contacts: SphereContacts, joints: Array) -> Array:
    """Torques that carry a machine at rest, level, on the smallest forces that do, shape (a,) [N m].

    ::

        c_b = J_bᵀ f,   f smallest   =>   τ = c_q - J_qᵀ f

    with gravity c, of which no part may be left to the base (b), and the contact rows J of all `contacts`.

    Args:
        contacts: The feet; their system is updated.
        joints: Positions of the joints, shape (a,) [rad].
    """
    system = contacts.system
    system.update(system.configuration(joints), np.zeros(system.n_velocities))
    u, J = system.n_unactuated, contacts.detect(np.inf).jacobian
    force = np.linalg.lstsq(J[:, :u].T, system.bias[:u], rcond=None)[0]
    torque: Array = system.bias[u:] - J[:, u:].T @ force
    return torque
