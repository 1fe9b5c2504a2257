"""The planner of Zapolsky & Drumwright 2017 with its quirks, for comparison: the authors' program (Pacer) of May 2015.

Goals are relative to the base, so the planner does not depend on the robot's position. Standing feet integrate the
commanded velocity open loop. Swinging feet follow cubic splines and ignore the measured velocity. Joint velocities and
accelerations come from a pseudo-inverse. The pseudo-inverse also demands that the shank does not rotate, and omits
J̇q̇. Finally the velocity goal is set to zero. A comparison with `trot.TrotPlanner` shows the value of each correction;
do not build on this planner.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from idcontrol.dynamics.system import System
from idcontrol.errors import InputError
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import add, assign
from idcontrol.planners.base import wrap
from idcontrol.planners.commands import CommandSource, VelocityCommand
from idcontrol.planners.gait import Gait, Timing, write_timing
from idcontrol.planners.joints import LegPlan, collect_joints
from idcontrol.planners.legs import Feet, LegPose, Legs, leg_jacobian, place_leg, reach, solve_symmetric
from idcontrol.planners.measured import Measured, read_state
from idcontrol.planners.packing import Record, pack
from idcontrol.planners.waypoints import plane_points
from idcontrol.types import Array, Booleans, Reference, State

LINKS_NOMINAL: Array = np.array([0.03, 0.0, 0.0]) + np.array(
    [
        [0.175, 0.0762394, -0.161853],
        [0.175, -0.0762394, -0.161853],
        [-0.175, 0.0762394, -0.161853],
        [-0.175, -0.0762394, -0.161853],
    ]
)
"""Nominal feet of the robot `links` in the base frame, as in Pacer: a rectangle, shifted ahead, shape (4, 3) [m]."""

IK_TOLERANCE = 1.5e-3
"""Distance at which the original inverse kinematics stopped [m]."""

FILTER = 10
"""Number of ticks over which the command is averaged."""

LARGEST_ACCELERATION = 500.0
"""Limit of the differentiated foot velocity [m/s²]."""


class OriginalWaypoints:
    """Waypoints by the original rule, for a heading error θ.

    The robot walks ahead at v cos θ, with the walking speed v, and turns at the rate θ/s; if |θ| ≥ π/8 it turns on the
    spot at full rate. It never slows down.

    Attributes:
        points: All waypoints, shape (n, 2) [m].
        target: The next waypoint, shape (2,) [m].
        previous: The previous waypoint, or the start, shape (2,) [m].
        reached: Number of waypoints reached.
        turning: True if the machine turns on the spot.
    """

    def __init__(self, points: Sequence[Sequence[float]], *, speed: float, turn: float, radius: float = 0.10) -> None:
        """Follow `points` in a loop.

        Args:
            points: Waypoints in the world's plane, (x, y) each [m].
            speed: Walking speed [m/s].
            turn: Turning rate on the spot [rad/s].
            radius: Distance at which a waypoint counts as reached [m].

        Raises:
            InputError: The points are not a list of finite pairs, at least one.
        """
        self.points = plane_points(points)
        self._speed, self._turn, self._radius = speed, turn, radius
        self.reset(np.zeros(3))

    def reset(self, position: Array) -> None:
        """Begin with the first waypoint, coming from `position`, world frame, shape (3,) [m]."""
        self.previous: Array = np.array(position[:2], dtype=np.float64)
        self.target: Array = self.points[0]
        self.reached = 0
        self.turning = False

    def __call__(self, t: float, position: Array, yaw: float) -> VelocityCommand:
        """Return the command for a base at `position` (3,) [m] with heading `yaw` [rad]; time does not matter."""
        x, y = float(position[0]), float(position[1])
        if math.hypot(self.target[0] - x, self.target[1] - y) < self._radius:
            self.reached += 1
            self.previous, self.target = self.target, self.points[self.reached % len(self.points)]
        error = wrap(math.atan2(self.target[1] - y, self.target[0] - x) - yaw)
        self.turning = abs(error) >= math.pi / 8.0
        if self.turning:
            return VelocityCommand(omega=math.copysign(self._turn, error))
        return VelocityCommand(v_x=self._speed * math.cos(error), omega=error)


class FootGoals(NamedTuple):
    """Foot goals in the base frame; arrays change in place.

    Attributes:
        motion: Positions, velocities and accelerations, shape (3, n, 3) [m, m/s, m/s²].
        last_velocity: Velocities of the previous tick, shape (n, 3) [m/s].
        lifted: Position of each foot at lift-off, shape (n, 3) [m].
        swinging: True if a foot swung in the previous tick, shape (n,).
    """

    motion: Array
    last_velocity: Array
    lifted: Array
    swinging: Booleans

    @staticmethod
    def of(n: int) -> FootGoals:
        """Allocate goals for `n` feet."""
        return FootGoals(
            motion=np.zeros((3, n, 3)),
            last_velocity=np.zeros((n, 3)),
            lifted=np.zeros((n, 3)),
            swinging=np.zeros(n, dtype=np.bool_),
        )


class _NominalFeet(NamedTuple):
    """Feet of the standing machine in the base frame, shape (n, 3) [m]."""

    feet: Array


class _Parts(NamedTuple):
    """Constants and memory of a planner, stored in its record."""

    gait: Gait
    nominal: _NominalFeet
    legs: Legs
    measured: Measured
    timing: Timing
    goals: FootGoals
    leg_plan: LegPlan


class PaperPlanner:
    """The original trot, built and called like `trot.TrotPlanner`; it cannot halt.

    `Reference.base_position` and `base_yaw` are the measured pose at nominal height, as this planner has no reference
    for the base. After `gait.start_s` the robot never stands: at zero command it trots on the spot.

    Attributes:
        feet: The feet, in the order of all per-foot arrays.
        gait: The gait.
        height: Height of the base over the ground in the nominal stance [m].
        commanded: The command (v_x, v_y, ω) of the source, shape (3,) [m/s, rad/s].
        command: The filtered command, same shape and units.
        goals: The foot goals.
    """

    def __init__(
        self,
        system: System,
        feet: Feet,
        home: Array,
        *,
        gait: Gait,
        commands: CommandSource,
        nominal: Array | None = None,
    ) -> None:
        """Prepare a planner.

        Args:
            system: The machine; a floating base and legs of three revolute joints.
            feet: Feet of the machine.
            home: Joint angles in the order of `System.actuated_names`, shape (a,) [rad].
            gait: Timing and height of the steps; the touchdown speed is not used.
            commands: Source of the walking commands.
            nominal: Nominal feet in the base frame, shape (n_feet, 3) [m]; None for the feet at `home`.

        Raises:
            InputError: The robot has no floating base, or a leg without exactly three revolute joints; or the gait does
                not fit the robot.
        """
        n = len(feet.names)
        if len(gait.touchdown) != n:
            raise InputError(f"the gait has {len(gait.touchdown)} touchdowns for {n} feet; give one for each foot")
        self.feet, self.gait, self._commands = feet, gait, commands
        legs, measured = Legs.of(system, feet), Measured.of(n)
        self._still: Array = np.zeros((3, system.n_actuated))
        self._still[0] = home
        if nominal is None:
            level = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
            q = system.configuration(self._still[0], level)
            measured.read(State(t=0.0, q=q, v=np.zeros(system.n_velocities)), legs)
            nominal = measured.feet.copy()
        nominal = np.ascontiguousarray(nominal, dtype=np.float64)
        self._record, self._parts = pack(
            _Parts(
                gait=gait,
                nominal=_NominalFeet(nominal),
                legs=legs,
                measured=measured,
                timing=Timing.of(n),
                goals=FootGoals.of(n),
                leg_plan=LegPlan.of(n),
            )
        )
        self.goals = self._parts.goals
        self.commanded: Array = np.zeros(3)
        self.command: Array = np.zeros(3)
        self._recent = np.zeros((FILTER, 3))
        self.height = float(np.mean(feet.radii - nominal[:, 2]))
        self._tick, self._t, self._begin = 0, math.nan, math.inf

    def reset(self, state: State) -> None:
        """Restart at `state`: goals are the current feet, the command is zero.

        Raises:
            InputError: The state is not finite.
        """
        m, goals = self._parts.measured, self.goals
        if not m.read(state, self._parts.legs):
            raise InputError("the planner cannot begin at a state with a NaN or an infinity")
        self._commands.reset(m.position.copy())
        self._tick, self._t, self._begin = 0, state.t, state.t + self.gait.start_s
        self._recent[:], self.command[:] = 0.0, 0.0
        goals.motion[:], goals.last_velocity[:], goals.swinging[:] = 0.0, 0.0, False
        goals.motion[0] = (m.feet - m.position) @ m.rotation

    def __call__(self, state: State) -> Reference:
        """Plan the motion of the joints at `state.t`; the planner must have been reset."""
        m, timing = self._parts.measured, self._parts.timing
        yaw = read_state(self._record, state.q, state.v)
        dt = max(state.t - self._t, 0.0)
        self._t = state.t
        command = self._commands(state.t, m.position, yaw)
        walking = command.walk and state.t >= self._begin
        self.commanded[:] = (command.v_x, command.v_y, command.omega) if walking else 0.0
        self._recent[self._tick % FILTER] = self.commanded
        self._tick += 1
        self.command[:] = self._recent.mean(axis=0)
        joints = self._still.copy()
        residual = _plan_joints(self._record, state.t - self._begin, dt, self.command, joints)
        return Reference(
            q=joints[0],
            v=np.zeros_like(joints[1]),
            a=joints[2],
            stance=timing.stance.copy(),
            since_touchdown=timing.since_touchdown.copy(),
            to_liftoff=timing.to_liftoff.copy(),
            base_position=np.array([m.position[0], m.position[1], self.height]),
            base_yaw=yaw,
            feet=m.position + self.goals.motion[0] @ m.rotation.T,
            residual=residual,
        ).sealed()


@njit(cache=True, inner=True)
def clamped_spline(
    x0: float, x1: float, x2: float, x3: float, knot_s: float, t: float
) -> tuple[float, float, float]:  # pragma: no cover - compiled
    """Return value and two derivatives at `t` of the C² cubic spline through four values, at rest at both ends.

    The original also required zero accelerations at the ends. For this purpose it added two virtual knots, at a
    thousandth of the end intervals, and dropped the pieces next to the ends. This function is the limit in which the
    length of these pieces goes to zero.

    Args:
        x0: Value at time 0.
        x1: Value at time `knot_s`.
        x2: Value at time 2 `knot_s`.
        x3: Value at time 3 `knot_s`.
        knot_s: Time between the values [s].
        t: Time within [0, 3 `knot_s`] [s].
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


@njit(cache=True, inner=True)
def _move_goals(
    dt: float, gait: Gait, nominal: Array, command: Array, measured: Measured, timing: Timing, goals: FootGoals
) -> None:  # pragma: no cover - compiled
    """Advance the foot goals by `dt` [s]; `nominal` are the nominal feet, and `command` is (v_x, v_y, ω)."""
    swing_s = (1.0 - gait.duty) * gait.period_s
    rotation, goal = measured.rotation, goals.motion
    up = rotation[2]
    v_x, v_y, omega = command[0], command[1], command[2]
    r = np.empty(3)
    for i in range(timing.stance.shape[0]):
        if timing.stance[i]:
            # ẋ* = -(v + ω × r) with measured r and the base at the gait pose; x* is its integral, ẍ* its derivative
            for k in range(3):
                r[k] = 0.0
                for j in range(3):
                    r[k] += rotation[j, k] * (measured.feet[i, j] - measured.position[j])
            goal[1, i, 0], goal[1, i, 1], goal[1, i, 2] = -v_x + omega * r[1], -v_y - omega * r[0], 0.0
            goal[2, i] = 0.0
            if dt > 0.0:
                add(goal[0, i], dt, goal[1, i])
                for k in range(3):
                    goal[2, i, k] = (goal[1, i, k] - goals.last_velocity[i, k]) / dt
                norm = math.sqrt(goal[2, i, 0] ** 2 + goal[2, i, 1] ** 2 + goal[2, i, 2] ** 2)
                if norm > LARGEST_ACCELERATION:
                    for k in range(3):
                        goal[2, i, k] *= LARGEST_ACCELERATION / norm
        else:
            if not goals.swinging[i]:
                assign(goals.lifted[i], goal[0, i])
            # land ahead of the nominal foot, with the step rotated about the vertical: s = R_up(ω T_sw)(v_x, v_y, 0)
            # T/2
            c, s = math.cos(omega * swing_s), math.sin(omega * swing_s)
            along = (1.0 - c) * (up[0] * v_x + up[1] * v_y)
            half = 0.5 * gait.period_s
            land_x = nominal[i, 0] + half * (c * v_x - s * up[2] * v_y + along * up[0])
            land_y = nominal[i, 1] + half * (c * v_y + s * up[2] * v_x + along * up[1])
            land_z = nominal[i, 2] + half * (s * (up[0] * v_y - up[1] * v_x) + along * up[2])
            for k in range(3):
                land = land_x if k == 0 else (land_y if k == 1 else land_z)
                rise = gait.step_height_m * up[k]
                a = goals.lifted[i, k]
                goal[0, i, k], goal[1, i, k], goal[2, i, k] = clamped_spline(
                    a, a + rise, land + rise, land, swing_s / 3.0, timing.since_liftoff[i]
                )
        goals.swinging[i] = not timing.stance[i]
        assign(goals.last_velocity[i], goal[1, i])


@njit(cache=True, inner=True)
def _reach_goals(goal: Array, angles: Array, legs: Legs, leg_plan: LegPlan) -> None:  # pragma: no cover - compiled
    """Compute the motion of the joints for the foot goals, shape (3, n, 3); write it into `leg_plan`.

    The inverse kinematics starts from the measured `angles`, shape (n, 3) [rad]. Velocities and accelerations are a
    least-squares compromise between the desired foot velocity and no rotation of the shank: the pseudo-inverse of the
    6x3 Jacobian [J; A], with the joint axes A, applied to (ẋ*, 0).
    """
    motion, N, y = leg_plan.motion, np.empty((3, 3)), np.empty(3)
    for i in range(angles.shape[0]):
        zero = LegPose(legs.origin[i], legs.axis[i], legs.foot[i])
        pose, J = LegPose(leg_plan.origin[i], leg_plan.axis[i], leg_plan.foot[i]), leg_plan.jacobian[i]
        assign(motion[0, i], angles[i])
        leg_plan.residual[i] = reach(zero, goal[0, i], IK_TOLERANCE, motion[0, i], pose, J)
        place_leg(zero, motion[0, i], pose)
        leg_jacobian(pose, J)
        for k in range(3):
            for j in range(k + 1):
                N[k, j] = 0.0
                for d in range(3):
                    N[k, j] += J[d, k] * J[d, j] + pose.axis[k, d] * pose.axis[j, d]
        for order in (1, 2):
            for k in range(3):
                y[k] = J[0, k] * goal[order, i, 0] + J[1, k] * goal[order, i, 1] + J[2, k] * goal[order, i, 2]
            x = solve_symmetric((N[0, 0], N[1, 1], N[2, 2]), (N[1, 0], N[2, 0], N[2, 1]), (y[0], y[1], y[2]))
            motion[order, i, 0], motion[order, i, 1], motion[order, i, 2] = x


@njit(cache=True)
def _plan_joints(
    record: Record, since_begin: float, dt: float, command: Array, joints: Array
) -> float:  # pragma: no cover - compiled
    """Write a tick's plan into `joints`, shape (3, a); return the largest residual of the inverse kinematics [m]."""
    parts: _Parts = record[0]
    gait, measured, timing, goals, leg_plan = parts.gait, parts.measured, parts.timing, parts.goals, parts.leg_plan
    write_timing(since_begin, gait.period_s, gait.duty, gait.touchdown, timing)
    _move_goals(dt, gait, parts.nominal.feet, command, measured, timing, goals)
    _reach_goals(goals.motion, measured.angles, parts.legs, leg_plan)
    residual: float = collect_joints(
        leg_plan.motion, leg_plan.residual, parts.legs.actuated, (joints[0], joints[1], joints[2])
    )
    return residual
