"""The original planner of the paper with its quirks, for comparison: the authors' program (Pacer) of May 2015.

Goals live in the frame of the base, so nothing tells it where the robot is. Standing feet integrate the commanded
velocity open loop; swinging feet follow cubic splines without regard for the measured velocity; joint velocities and
accelerations come from a pseudo-inverse that also wants the shank not to rotate, without J̇q̇; and the velocity goal is
set to zero in the end.
Beside `trot.TrotPlanner` it shows what each correction is worth; it is no planner to build on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numba import njit

from idcontrol.errors import InputError
from idcontrol.planners.base import wrap
from idcontrol.planners.commands import Drive, Guide
from idcontrol.planners.gait import Gait
from idcontrol.planners.joints import Measured, collect
from idcontrol.planners.legs import Feet, Legs, leg_jacobian, place_leg, reach, solve_symmetric
from idcontrol.system import System
from idcontrol.types import Array, Booleans, Reference, State

LINKS_NOMINAL: Array = np.array([0.03, 0.0, 0.0]) + np.array(
    [
        [0.175, 0.0762394, -0.161853],
        [0.175, -0.0762394, -0.161853],
        [-0.175, 0.0762394, -0.161853],
        [-0.175, -0.0762394, -0.161853],
    ]
)
"""Nominal feet of `links` in the base frame: a rectangle, shifted ahead, as the program has it, shape (4, 3) [m]."""

IK_TOLERANCE = 1.5e-3
"""Where the original inverse kinematics stopped [m]."""

FILTER = 10
"""The command is the mean of this many ticks."""

LARGEST_ACCELERATION = 500.0
"""Limit of the differentiated foot velocity [m/s²]."""


class OriginalWaypoints:
    """The original rule: ahead with v cos θ and ω = θ, or on the spot at full rate where |θ| ≥ π/8; no slowing down.

    Attributes:
        points: All waypoints, shape (n, 2) [m].
        target: The waypoint ahead, shape (2,) [m].
        previous: The one behind, or the start, shape (2,) [m].
        reached: How many have been reached.
        turning: Whether the machine turns on the spot.
    """

    def __init__(self, points: Sequence[Sequence[float]], *, speed: float, turn: float, radius: float = 0.10) -> None:
        """Follow `points` [m] round and round at `speed` [m/s], turning at `turn` [rad/s]; reached within `radius` [m].

        Raises:
            InputError: The points are no list of pairs.
        """
        self.points: Array = np.array(points, dtype=np.float64)
        if self.points.ndim != 2 or self.points.shape[1] != 2:
            raise InputError(f"waypoints must be a list of (x, y) in metres; got {points!r}")
        self._speed, self._turn, self._radius = speed, turn, radius
        self.reset(np.zeros(3))

    def reset(self, position: Array) -> None:
        """Begin with the first waypoint, coming from `position` (world, (3,) [m])."""
        self.previous: Array = np.array(position[:2], dtype=np.float64)
        self.target: Array = self.points[0]
        self.reached = 0
        self.turning = False

    def __call__(self, t: float, position: Array, yaw: float) -> Drive:
        """The command at time `t` [s] with the base at `position` (3,) [m], heading `yaw` [rad]."""
        x, y = float(position[0]), float(position[1])
        if math.hypot(self.target[0] - x, self.target[1] - y) < self._radius:
            self.reached += 1
            self.previous, self.target = self.target, self.points[self.reached % len(self.points)]
        error = wrap(math.atan2(self.target[1] - y, self.target[0] - x) - yaw)
        self.turning = abs(error) >= math.pi / 8.0
        if self.turning:
            return Drive(omega=math.copysign(self._turn, error))
        return Drive(v_x=self._speed * math.cos(error), omega=error)


class PaperPlanner:
    """The original trot; the same call as `trot.TrotPlanner`.

    `Reference.base_position` and `base_yaw` are the measured ones, at nominal height: this planner has no others. It
    never stands: told to stop, it trots on the spot.

    Attributes:
        feet: The feet, in the order of all per-foot arrays.
        gait: The gait.
        height: Height of the base over the ground in the nominal stance [m].
        command: The filtered command (v_x, v_y, ω) of now, shape (3,) [m/s, rad/s].
    """

    def __init__(
        self,
        system: System,
        feet: Feet,
        home: Array,
        *,
        gait: Gait,
        guide: Guide,
        nominal: Array | None = None,
    ) -> None:
        """Prepare a planner.

        Args:
            system: The machine; a floating base and legs of three revolute joints.
            feet: Its feet.
            home: Joint angles in the order of `System.actuated_names`, shape (a,) [rad].
            gait: Timing and height of the steps; the touchdown speed is not used.
            guide: Where commands come from.
            nominal: Nominal feet in the base frame, shape (n_feet, 3) [m]; None means the feet at `home`.

        Raises:
            InputError: The machine has no such legs, or the gait does not fit it.
        """
        n = len(feet.names)
        if len(gait.touchdown) != n:
            raise InputError(f"the gait has {len(gait.touchdown)} touchdowns for {n} feet; give one for each foot")
        self.feet, self.gait, self._guide = feet, gait, guide
        self._legs = Legs.of(system, feet)
        self._still = np.zeros((3, system.n_actuated))
        self._still[0] = home
        self._measured = Measured.of(n)
        if nominal is None:
            level = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
            q = system.configuration(self._still[0], level)
            self._measured.read(State(t=0.0, q=q, v=np.zeros(system.n_velocities)), self._legs)
            nominal = self._measured.feet.copy()
        self._nominal = np.ascontiguousarray(nominal, dtype=np.float64)
        self.command: Array = np.zeros(3)
        self._recent = np.zeros((FILTER, 3))
        self._goal, self._goal_rate = np.zeros((3, n, 3)), np.zeros((n, 3))
        self._start, self._swinging = np.zeros((n, 3)), np.zeros(n, dtype=np.bool_)
        self._motion, self._residual = np.zeros((3, n, 3)), np.zeros(n)
        self.height = float(np.mean(feet.radii - self._nominal[:, 2]))
        self._tick, self._t, self._begin = 0, math.nan, math.inf

    def reset(self, state: State) -> None:
        """Begin anew at `state`: goals are the feet where they are, the command is zero."""
        if not self._measured.read(state, self._legs):
            raise InputError("the planner cannot begin at a state that is not finite")
        m = self._measured
        self._guide.reset(m.position.copy())
        self._tick, self._t, self._begin = 0, state.t, state.t + self.gait.start_s
        self._recent[:], self.command[:] = 0.0, 0.0
        self._goal[:], self._goal_rate[:], self._swinging[:] = 0.0, 0.0, False
        self._goal[0] = (m.feet - m.position) @ m.rotation

    def __call__(self, state: State) -> Reference:
        """What the joints should do at `state.t`; the planner must have been reset."""
        self._measured.read(state, self._legs)
        dt = max(state.t - self._t, 0.0)
        self._t = state.t
        m = self._measured
        timing = self.gait.timing(state.t - self._begin)
        drive = self._guide(state.t, m.position, m.yaw)
        walking = drive.walk and state.t >= self._begin
        self._recent[self._tick % FILTER] = (drive.v_x, drive.v_y, drive.omega) if walking else 0.0
        self._tick += 1
        self.command[:] = self._recent.mean(axis=0)
        _move_goals(
            dt,
            timing.stance,
            timing.since_liftoff,
            self.gait.period_s,
            self.gait.swing_s,
            self.gait.step_height_m,
            self.command,
            m.rotation,
            m.position,
            m.feet,
            self._nominal,
            self._goal,
            self._goal_rate,
            self._start,
            self._swinging,
        )
        legs = self._legs
        _to_joints(self._goal, m.angles, legs.origin, legs.axis, legs.foot, self._motion, self._residual)
        joints = self._still.copy()
        residual = collect(self._motion, self._residual, legs.actuated, joints)
        return Reference(
            q=joints[0],
            v=np.zeros_like(joints[1]),
            a=joints[2],
            stance=timing.stance,
            since_touchdown=timing.since_touchdown,
            to_liftoff=timing.to_liftoff,
            base_position=np.array([m.position[0], m.position[1], self.height]),
            base_yaw=m.yaw,
            feet=m.position + self._goal[0] @ m.rotation.T,
            residual=residual,
        )


@njit(cache=True)
def clamped_spline(
    x0: float, x1: float, x2: float, x3: float, knot_s: float, t: float
) -> tuple[float, float, float]:  # pragma: no cover - compiled
    """C² cubic through four values at equal times, at rest at both ends: value, first and second derivative at `t`.

    The original also asked for zero end accelerations, by two virtual knots at a thousandth of the end intervals whose
    pieces it then dropped; this is its limit, where the dropped pieces vanish.

    Args:
        x0: Value at time 0; x1, x2 and x3 follow at equal times.
        x1: See x0.
        x2: See x0.
        x3: See x0.
        knot_s: Time between the values [s].
        t: Time within [0, 3 knot_s] [s].
    """
    # v0 + 4 v1 + v2 = 3 (x2 - x0)/T and v1 + 4 v2 + v3 = 3 (x3 - x1)/T with v0 = v3 = 0
    r1, r2 = 3.0 * (x2 - x0), 3.0 * (x3 - x1)
    v1, v2 = (4.0 * r1 - r2) / 15.0, (4.0 * r2 - r1) / 15.0
    s = t / knot_s
    if s < 1.0:
        a, b, va, vb = x0, x1, 0.0, v1
    elif s < 2.0:
        a, b, va, vb, s = x1, x2, v1, v2, s - 1.0
    else:
        a, b, va, vb, s = x2, x3, v2, 0.0, s - 2.0
    d = b - a
    c2, c3 = 3.0 * d - 2.0 * va - vb, va + vb - 2.0 * d
    return (
        a + s * (va + s * (c2 + s * c3)),
        (va + s * (2.0 * c2 + 3.0 * s * c3)) / knot_s,
        (2.0 * c2 + 6.0 * s * c3) / (knot_s * knot_s),
    )


@njit(cache=True)
def _move_goals(
    dt: float,
    stance: Booleans,
    since_liftoff: Array,
    period: float,
    swing_s: float,
    step_height: float,
    command: Array,
    rotation: Array,
    position: Array,
    feet: Array,
    nominal: Array,
    goal: Array,
    goal_rate: Array,
    start: Array,
    swinging: Booleans,
) -> None:  # pragma: no cover - compiled
    """Advance the foot goals, position, velocity and acceleration in the base frame, shape (3, n, 3)."""
    up = rotation[2]
    v_x, v_y, omega = command[0], command[1], command[2]
    r = np.empty(3)
    for i in range(stance.shape[0]):
        if stance[i]:
            # ẋ* = -(v + ω × r), r measured, the base at the gait pose; x* integrated, ẍ* differentiated
            for k in range(3):
                r[k] = 0.0
                for j in range(3):
                    r[k] += rotation[j, k] * (feet[i, j] - position[j])
            goal[1, i, 0], goal[1, i, 1], goal[1, i, 2] = -v_x + omega * r[1], -v_y - omega * r[0], 0.0
            goal[2, i] = 0.0
            if dt > 0.0:
                goal[0, i] += dt * goal[1, i]
                goal[2, i] = (goal[1, i] - goal_rate[i]) / dt
                norm = math.sqrt(goal[2, i, 0] ** 2 + goal[2, i, 1] ** 2 + goal[2, i, 2] ** 2)
                if norm > LARGEST_ACCELERATION:
                    goal[2, i] *= LARGEST_ACCELERATION / norm
        else:
            if not swinging[i]:
                start[i] = goal[0, i]
            # Landing ahead of the nominal foot, the step turned about the vertical: s = R_up(ω T_sw)(v_x, v_y, 0) T/2
            c, s = math.cos(omega * swing_s), math.sin(omega * swing_s)
            along = (1.0 - c) * (up[0] * v_x + up[1] * v_y)
            half = 0.5 * period
            land_x = nominal[i, 0] + half * (c * v_x - s * up[2] * v_y + along * up[0])
            land_y = nominal[i, 1] + half * (c * v_y + s * up[2] * v_x + along * up[1])
            land_z = nominal[i, 2] + half * (s * (up[0] * v_y - up[1] * v_x) + along * up[2])
            for k in range(3):
                land = land_x if k == 0 else (land_y if k == 1 else land_z)
                rise = step_height * up[k]
                a = start[i, k]
                goal[0, i, k], goal[1, i, k], goal[2, i, k] = clamped_spline(
                    a, a + rise, land + rise, land, swing_s / 3.0, since_liftoff[i]
                )
        swinging[i] = not stance[i]
        goal_rate[i] = goal[1, i]


@njit(cache=True)
def _to_joints(
    goal: Array, angles: Array, origin0: Array, axis0: Array, foot0: Array, motion: Array, residual: Array
) -> None:  # pragma: no cover - compiled
    """Joints for the foot goals, each solved from the measured angles.

    Velocities and accelerations are the least-squares compromise between the wanted foot velocity and no rotation of
    the shank: the pseudo-inverse of the 6x3 Jacobian [J; A], with A the axes, applied to (ẋ*, 0).
    """
    origin, axis, foot, J = np.empty((3, 3)), np.empty((3, 3)), np.empty(3), np.empty((3, 3))
    N, y = np.empty((3, 3)), np.empty(3)
    for i in range(angles.shape[0]):
        motion[0, i] = angles[i]
        residual[i] = reach(
            origin0[i], axis0[i], foot0[i], goal[0, i], IK_TOLERANCE, motion[0, i], origin, axis, foot, J
        )
        place_leg(origin0[i], axis0[i], foot0[i], motion[0, i], origin, axis, foot)
        leg_jacobian(origin, axis, foot, J)
        for k in range(3):
            for j in range(k + 1):
                N[k, j] = 0.0
                for d in range(3):
                    N[k, j] += J[d, k] * J[d, j] + axis[k, d] * axis[j, d]
        for order in (1, 2):
            for k in range(3):
                y[k] = J[0, k] * goal[order, i, 0] + J[1, k] * goal[order, i, 1] + J[2, k] * goal[order, i, 2]
            x = solve_symmetric(N[0, 0], N[1, 1], N[2, 2], N[1, 0], N[2, 0], N[2, 1], y[0], y[1], y[2])
            motion[order, i, 0], motion[order, i, 1], motion[order, i, 2] = x
