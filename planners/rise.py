"""Stand up and lie down: relative to a level base, feet move along straight lines and roll without sliding.

The feet of a lying robot are at its sides, at a distance set by `Lair`. The robot stands up with the feet in place; the
first steps of a walk bring the feet under the hips, and the last steps bring them out again
(`idcontrol.planners.trot.TrotPlanner.halt`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.contact.spheres import SphereContacts
from idcontrol.kernels.arena import HEAP, Arena, matrix, vector
from idcontrol.kernels.bound import Bound, bind, entry
from idcontrol.kernels.jit import njit
from idcontrol.planners.legs import IK_TOLERANCE, Feet, LegPose, Legs, leg_solve, place_leg, reach
from idcontrol.solvers.basis import all_solutions
from idcontrol.types import Array

KNOTS = 25
"""Number of points of the motion that `Rise.problem` checks."""
MISS_M = 1e-3
"""Largest distance of a foot from its straight line with which the motion up counts as possible [m]."""
ABOVE_M = 0.05
"""Largest height of a foot above its lying position [m]; a higher foot hangs in the air."""
SPARE = 0.9
"""Largest share of a torque limit that carrying the robot may take [-]."""
BEYOND_RAD = 0.02
"""Tolerance of joint limits for a robot that lies with a joint at its stop [rad]."""
DEPENDENT: Final = 1e-12
"""A row of the base's equilibrium counts as a combination of other rows if its remainder, relative to the longest row,
is at most this. For example, feet on one line cannot hold the base against a rotation about this line."""


class Lair(NamedTuple):
    """Position of the feet while the robot lies, base axes."""

    below_m: float
    """Depth of the ground below the base's origin [m]."""
    out_m: float
    """Sideways distance of the feet from their home position, outwards [m]."""


class Posture(NamedTuple):
    """Joints at one point of the motion; arrays have shape (a,), in the order of `System.actuated_names`."""

    q: Array
    """Positions [rad]."""
    v: Array
    """Velocities [rad/s]."""
    torque: Array
    """Torques that carry the robot in this posture, with its feet at rest on level ground [N m]."""
    miss: float
    """Largest deviation of a foot from its straight line [m]."""


class Course(NamedTuple):
    """The legs during a motion up or down; arrays change in place.

    Attributes:
        legs: The legs.
        radius: Radii of the foot spheres, shape (n,) [m].
        begins: Initial positions of the feet, base axes, shape (n, 3) [m].
        ends: Final positions of the feet without rolling, shape (n, 3) [m].
        rolled: Rolled distances, shape (n, 3) [m].
        angles: Joint positions of the machine, shape (a,) [rad].
        speeds: Joint velocities of the machine, shape (a,) [rad/s].
        q: The configuration of the machine, its base level, shape (nq,).
        pose: Memory for one leg.
        jacobian: Memory for the Jacobian of a leg, shape (3, 3).
    """

    legs: Legs
    radius: Array
    begins: Array
    ends: Array
    rolled: Array
    angles: Array
    speeds: Array
    q: Array
    pose: LegPose
    jacobian: Array


@njit(cache=True, error_model="numpy")
def _follow(bound: Bound, share: float, rate: float) -> float:  # pragma: no cover - compiled
    """Move the legs of a `Course` to a `share` of the motion; the share grows at `rate` [1/s].

    Returns:
        Largest distance of a foot from its line [m].
    """
    course: Course = bound.borrowed
    legs, pose, J = course.legs, course.pose, course.jacobian
    target, velocity, angles, speeds = np.empty(3), np.empty(3), np.empty(3), np.empty(3)
    farthest = 0.0
    for i in range(course.radius.shape[0]):
        joints, radius = legs.actuated[i], course.radius[i]
        for x in range(3):
            way = course.ends[i, x] - course.begins[i, x]
            target[x], velocity[x] = course.begins[i, x] + course.rolled[i, x] + share * way, rate * way
            angles[x] = course.angles[joints[x]]
        zero = LegPose(legs.origin[i], legs.axis[i], legs.foot[i])
        farthest = max(farthest, reach(zero, target, IK_TOLERANCE, angles, pose, J))
        for k in range(3):
            # the centre of a sphere that rotates by ω on the ground moves by ω × r e_z
            rolls_x, rolls_y = radius * pose.axis[k, 1], -radius * pose.axis[k, 0]
            turned = angles[k] - course.angles[joints[k]]
            course.rolled[i, 0] += turned * rolls_x
            course.rolled[i, 1] += turned * rolls_y
            J[0, k] -= rolls_x
            J[1, k] -= rolls_y
        leg_solve(J, velocity, speeds)
        for k in range(3):
            course.angles[joints[k]], course.speeds[joints[k]] = angles[k], speeds[k]
            course.q[legs.q_index[i, k]] = angles[k]
    return farthest


class Rise:
    """The motion between lying and standing; joints outside the legs do not move.

    Attributes:
        lying: Joint positions of the lying robot, shape (a,) [rad].
    """

    def __init__(self, contacts: SphereContacts, feet: Feet, home: Array, lair: Lair) -> None:
        """Compute the lying and the standing pose.

        Args:
            contacts: The feet on a plane, on a separate system: a floating base, legs of three revolute joints.
            feet: The same feet, by name.
            home: Joint positions of the standing robot, shape (a,) [rad].
            lair: Position of the feet while it lies.

        Raises:
            InputError: The robot has no floating base, or a leg without exactly three revolute joints.
        """
        self._contacts, system = contacts, contacts.system
        legs, n = Legs.of(system, feet), len(feet.names)
        joints: Array = np.array(home, dtype=np.float64)
        self._course = Course(
            legs=legs,
            radius=np.array(feet.radii, dtype=np.float64),
            begins=np.zeros((n, 3)),
            ends=np.zeros((n, 3)),
            rolled=np.zeros((n, 3)),
            angles=joints,
            speeds=np.zeros_like(joints),
            q=system.configuration(joints),
            pose=LegPose(np.empty((3, 3)), np.empty((3, 3)), np.empty(3)),
            jacobian=np.empty((3, 3)),
        )
        self._bound, self._still = bind(self._course), np.zeros(system.n_velocities)
        self._follow = entry(_follow, self._bound, 0.0, 0.0)
        self._high = self._feet()
        self._low = self._high.copy()
        self._low[:, 1] += np.copysign(lair.out_m, self._high[:, 1])
        self._low[:, 2] = feet.radii - lair.below_m
        self._course.begins[:], self._course.ends[:] = self._high, self._low
        for share in np.linspace(0.0, 1.0, KNOTS):
            self(float(share))
        self.lying: Array = joints.copy()
        self._rolled_out = self._feet()  # feet have rolled on the way down, and roll back on the way up

    def begin(self, joints: Array, *, down: bool) -> None:
        """Begin a motion at the joint positions `joints` (a,) [rad]: down until the robot lies, or up until it stands.

        During the motion up, feet between their home and their lying position stay in place; all other feet move to the
        nearest position in this range.
        """
        course = self._course
        course.angles[:], course.q[:] = joints, self._contacts.system.configuration(joints)
        course.begins[:], course.rolled[:] = self._feet(), 0.0
        if down:
            course.ends[:] = self._low
        else:
            both = np.stack((self._high, self._rolled_out))
            course.ends[:] = np.clip(course.begins, both.min(axis=0), both.max(axis=0))
            course.ends[:, 2] = self._high[:, 2]

    @property
    def share(self) -> float:
        """Return the length of the motion of the last `begin`, as a share of the longest motion, at most 1."""
        way, longest = self._course.ends - self._course.begins, self._high - self._low
        return min(1.0, float(np.linalg.norm(way, axis=1).max() / np.linalg.norm(longest, axis=1).max()))

    def __call__(self, share: float, rate: float = 0.0) -> Posture:
        """Return the posture at a `share` of the motion, 0 to 1; the share grows at `rate` [1/s].

        Feet roll from call to call, so the share must grow in small steps.
        """
        course, contacts = self._course, self._contacts
        miss = self._follow(self._bound, share, rate)
        contacts.system.update(course.q, self._still)
        return Posture(course.angles.copy(), course.speeds.copy(), carrying(contacts), miss)

    def problem(self, joints: Array) -> str:
        """Return the reason why a robot at `joints` (a,) [rad] cannot stand up, in one line; "" if it can stand up.

        The joints must be within their limits, and the feet near the ground. On the whole way up, the feet must follow
        their lines, and the motors must carry the robot. The check replaces the motion of the last `begin`.
        """
        system = self._contacts.system
        names, limits, most = system.actuated_names, system.limits, system.effort_limit
        beyond = np.maximum(limits.lower - joints, joints - limits.upper)
        worst = int(beyond.argmax())
        if beyond[worst] > BEYOND_RAD:
            return (
                f"{names[worst]} is at {joints[worst]:.2f} rad, beyond its limits of {limits.lower[worst]:.2f} to "
                f"{limits.upper[worst]:.2f}; move it back by hand, or correct its zero (offset_rad)"
            )
        self.begin(joints, down=False)
        above = float((self._course.begins[:, 2] - self._low[:, 2]).max())
        if above > ABOVE_M:
            return (
                f"a foot is {1e3 * above:.0f} mm above the ground on which the body lies; fold the legs with the feet "
                "beside the body"
            )
        for share in np.linspace(0.0, 1.0, KNOTS):
            at = self(float(share))
            if at.miss > MISS_M:
                return (
                    f"a foot cannot follow the path up from here, but would miss it by {1e3 * at.miss:.0f} mm; fold "
                    "the legs with the feet beside the body"
                )
            worst = int((np.abs(at.torque) / most).argmax())
            if abs(at.torque[worst]) > SPARE * most[worst]:
                return (
                    f"to carry the machine {names[worst]} would need {abs(at.torque[worst]):.1f} N m of "
                    f"{most[worst]:.1f}, more than {SPARE:.0%}; fold the legs with the feet beside the body, or raise "
                    "a --power below 1"
                )
        return ""

    def _feet(self) -> Array:
        """Return the centres of the feet at the current angles, base axes, shape (n, 3) [m]."""
        course = self._course
        legs, pose = course.legs, course.pose
        feet = np.empty_like(course.begins)
        for i, joints in enumerate(legs.actuated):
            place_leg(LegPose(legs.origin[i], legs.axis[i], legs.foot[i]), course.angles[joints], pose)
            feet[i] = pose.foot
        return feet


def carrying(contacts: SphereContacts) -> Array:
    """Return torques that carry a robot at rest in the pose of its system's last update, shape (a,) [N m].

    The torques follow from the smallest contact forces::

        c_b = J_bᵀ f,   f smallest   =>   τ = c_q - J_qᵀ f

    with gravity c, which f balances completely at the base (b), and contact rows J of all `contacts`.
    """
    system = contacts.system
    torque: Array = _carry(contacts.detect(np.inf).jacobian, system.bias, system.n_unactuated, HEAP)
    return torque


@njit(cache=True, error_model="numpy")
def _carry(J: Array, bias: Array, u: int, arena: Arena) -> Array:  # pragma: no cover - compiled
    """Compute `carrying` for contact rows J, shape (3k, m), gravity, shape (m,), and u unactuated velocities."""
    k, a = J.shape[0], bias.shape[0] - u
    rows, balance = matrix(arena, u, k), vector(arena, u)
    longest = 0.0
    for j in range(u):
        square = 0.0
        for i in range(k):
            rows[j, i] = J[i, j]
            square += J[i, j] * J[i, j]
        balance[j], longest = bias[j], max(longest, square)
    force, _ = all_solutions(rows, balance, DEPENDENT * np.sqrt(longest), arena)
    torque = np.empty(a)
    for j in range(a):
        torque[j] = bias[u + j]
        for i in range(k):
            torque[j] -= J[i, u + j] * force[i]
    return torque
