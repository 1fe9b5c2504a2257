"""The trot: the motion of every joint from a command and the measured state (planner.md 2 to 5).

A tick of the planner is three compiled calls; between the calls, Python calls the command source and the ground.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pinocchio as pin

from idcontrol.dynamics.system import System
from idcontrol.errors import InputError
from idcontrol.kernels.bound import entry
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign
from idcontrol.planners.balance import Balance, righting_acceleration
from idcontrol.planners.base import (
    BaseReference,
    Push,
    advance_base,
    command_base,
    follow_feet,
    follow_machine,
    sway_base,
    wrap,
)
from idcontrol.planners.commands import CommandLimits, CommandSource, LimitedCommand, VelocityCommand, limit_command
from idcontrol.planners.feet import (
    GRAVITY,
    STANDING,
    SWINGING,
    FootPlan,
    Ground,
    GroundSamples,
    NominalStance,
    choose_footholds,
    lifts_too_early,
    move_feet,
    notice_touchdowns,
)
from idcontrol.planners.gait import Gait, Timing, write_timing
from idcontrol.planners.governor import (
    Ability,
    JointLimits,
    Stride,
    adopt_stride,
    govern,
    least_duty,
    limit_joints,
    steady_pace,
)
from idcontrol.planners.joints import LegPlan, collect_joints, move_joints, reach_feet
from idcontrol.planners.legs import Feet, Legs
from idcontrol.planners.measured import Measured, heading, read_state
from idcontrol.planners.momentum import MomentumBase, MomentumSystem, Planned, yield_base
from idcontrol.planners.packing import Record, dtype_of, pack, put
from idcontrol.planners.push import Pushing
from idcontrol.types import Array, Booleans, Reference, State

FADED = 0.02
"""Remaining share of the sway below which a gait may end [-]."""

REST = (0.0, 0.0, 0.0)
"""The command to rest."""

CHANGE_S = 0.03
"""Least time with all feet standing between two gaits [s]: enough to unload the feet that lift first."""


class _Motion(NamedTuple):
    """The plan of a tick, for `Reference`.

    Attributes:
        q: Angles of all joints, shape (a,) [rad].
        v: Velocities of all joints, shape (a,) [rad/s].
        a: Accelerations of all joints, shape (a,) [rad/s²].
        stance: True for feet that are planned to stand and do stand, shape (n,).
        since_touchdown: Time since the last touchdown of each foot, inf in swing and before the first, shape (n,) [s].
        to_liftoff: Time to the planned lift-off of each foot, inf in swing and without a lift-off, shape (n,) [s].
        feet: Planned centres of the feet, world frame, shape (n, 3) [m].
        base: Reference position and heading of the base, world frame, shape (4,) [m, m, m, rad].
    """

    q: Array
    v: Array
    a: Array
    stance: Booleans
    since_touchdown: Array
    to_liftoff: Array
    feet: Array
    base: Array

    @staticmethod
    def at(home: Array, n: int) -> _Motion:
        """Allocate the motion of `n` feet; joints outside the legs stay at the angles `home`, shape (a,) [rad]."""
        return _Motion(
            q=home,
            v=np.zeros_like(home),
            a=np.zeros_like(home),
            stance=np.ones(n, dtype=np.bool_),
            since_touchdown=np.zeros(n),
            to_liftoff=np.zeros(n),
            feet=np.zeros((n, 3)),
            base=np.zeros(4),
        )


class _Parts(NamedTuple):
    """Constants and memory of a planner, stored in its record."""

    gait: Gait
    limits: CommandLimits
    balance: Balance
    nominal: NominalStance
    legs: Legs
    joint_limits: JointLimits
    ability: Ability
    measured: Measured
    stride: Stride
    timing: Timing
    command: LimitedCommand
    plan: FootPlan
    ground: GroundSamples
    base: BaseReference
    leg_plan: LegPlan
    momentum: MomentumSystem
    push: Push
    motion: _Motion


@njit(cache=True, inner=True)
def _time_feet(
    parts: _Parts, t: float, dt: float, needed: tuple[float, float, float], ends: bool
) -> None:  # pragma: no cover - compiled
    """Compute the phases of the feet (planner.md 4.1).

    Args:
        parts: In and out: timing and stride.
        t: Time [s].
        dt: Time since the last tick [s].
        needed: Period [s], duty [-] and step height [m] of the command's stride.
        ends: True if the gait ends: feet in the air land as planned, and stance feet stay.
    """
    gait, stride, timing, plan = parts.gait, parts.stride, parts.timing, parts.plan
    write_timing(t - stride.begin[0], stride.period[0], stride.duty[0], gait.touchdown, timing)
    if lifts_too_early(t, gait, timing, plan):
        stride.begin[0] += dt
        write_timing(t - stride.begin[0], stride.period[0], stride.duty[0], gait.touchdown, timing)
    if not ends:
        adopt_stride(t, dt, needed, gait, stride, timing)
        return
    for i in range(timing.stance.shape[0]):
        if plan.phase[i] != SWINGING:
            timing.stance[i], timing.since_touchdown[i], timing.since_liftoff[i] = True, np.inf, 0.0
        if timing.stance[i]:
            timing.to_liftoff[i] = np.inf


@njit(cache=True)
def _plan_base_and_footholds(
    record: Record, t: float, dt: float, target: tuple[float, float, float], stops: bool, changes: bool
) -> bool:  # pragma: no cover - compiled
    """Compute the phases of the feet, the motion of the base, and the landing points of swinging feet.

    Args:
        record: The planner's record.
        t: Time [s].
        dt: Time since the last tick [s].
        target: Commanded velocity (v_x, v_y, ω) before governor and limiter [m/s, rad/s].
        stops: True if the gait ends once the command is zero.
        changes: True if the gait ends now: feet in the air land as planned, and stance feet stay.

    Returns:
        True if the gait has ended: all feet stand.
    """
    parts: _Parts = record[0]
    gait, measured, stride, timing, plan = parts.gait, parts.measured, parts.stride, parts.timing, parts.plan
    command = parts.command
    share, needed = govern(target, parts.limits.linear_m_s2, gait, parts.nominal.feet, parts.ability)
    if not gait.sways:
        share *= steady_pace(measured.rotation, dt, stride)
    ends = changes or (stops and not command.velocity.any())
    _time_feet(parts, t, dt, needed, ends)
    if gait.sways and stride.begin[0] < np.inf:
        period, duty = stride.period[0], stride.duty[0]
        phase, builds = (t - stride.begin[0]) / period, t >= stride.begin[0] - period and not ends
        sway_base(phase, dt, period, duty, gait.touchdown, parts.push, command, builds, parts.base)
    ended = bool(ends and timing.stance.all() and parts.base.extent[0] < FADED)
    if ended:
        parts.base.sway[:], parts.base.extent[:] = 0.0, 0.0
        write_timing(-math.inf, stride.period[0], stride.duty[0], gait.touchdown, timing)
    notice_touchdowns(t, gait, stride, measured, timing, plan)
    advance_base(dt, parts.base)
    granted = (share * target[0], share * target[1], share * target[2])
    limit_command(dt, granted, parts.limits.linear_m_s2, parts.limits.angular_rad_s2, command)
    if stride.begin[0] == np.inf:
        follow_feet(dt, parts.nominal.feet, plan.position, parts.base.goal)
    else:
        follow_machine(measured.position, heading(measured.rotation), parts.nominal.lead, parts.base)
    bandwidth = 2.0 / gait.period_s  # the height follows the ground within half a gait cycle
    command_base(command, parts.nominal.height, plan.level, bandwidth, parts.base)
    sway = parts.base.sway
    choose_footholds(stride, parts.ability, parts.nominal, command, sway, measured, timing, plan, parts.ground)
    return ended


@njit(cache=True, error_model="numpy")
def _plan_joints(record: Record, momentum: tuple[Planned, bool], dt: float) -> float:  # pragma: no cover - compiled
    """Advance the planned feet, and compute the motion of the joints within their limits.

    Args:
        record: The planner's record; its `motion` is written.
        momentum: The planned motion, and True if the base moves with the reaction of the swinging legs.
        dt: Time since the last tick [s].

    Returns:
        Largest distance between a planned foot and its reachable position [m].
    """
    parts: _Parts = record[0]
    balance, measured, leg_plan, plan, timing = parts.balance, parts.measured, parts.leg_plan, parts.plan, parts.timing
    move_feet(dt, parts.gait, parts.stride, parts.nominal.radius, parts.ground, measured, timing, plan)
    reach_feet(parts.legs, parts.ability, parts.nominal, plan, parts.base, measured, leg_plan)
    planned, yields = momentum
    if yields:
        yield_base(parts.legs, plan, leg_plan, parts.base, parts.momentum, planned)
    righting = righting_acceleration(balance.stiffness_1_s2, balance.damping_1_s, measured.rotation, measured.omega_B)
    move_joints(plan, parts.base, righting, measured, leg_plan)
    limit_joints(dt, parts.joint_limits, leg_plan.motion, leg_plan.reference)
    motion = parts.motion
    for i in range(timing.stance.shape[0]):
        motion.stance[i] = timing.stance[i] and plan.phase[i] == STANDING
        motion.since_touchdown[i], motion.to_liftoff[i] = timing.since_touchdown[i], timing.to_liftoff[i]
        assign(motion.feet[i], plan.position[i])
    assign(motion.base, parts.base.pose)
    residual: float = collect_joints(
        leg_plan.reference, leg_plan.residual, parts.legs.actuated, (motion.q, motion.v, motion.a)
    )
    return residual


@dataclass(frozen=True, slots=True, kw_only=True)
class TrotSettings:
    """Settings of a trot.

    Attributes:
        gait: Timing and shape of the steps, with touchdowns in the order of the feet.
        changes: Start time [s] and gait of each later gait; None as gait means standing.
        limits: Limits on the change of the command.
        speed_limit: Largest speeds of the joints in the order of `System.actuated_names`, shape (a,) [rad/s]; None for
            no limit.
        balance: Gains that right the base in addition to the joint feedback.
        constant_momentum: True if the base moves with the reaction of the swinging legs (planner.md 3.3).
    """

    gait: Gait
    changes: Sequence[tuple[float, Gait | None]] = ()
    limits: CommandLimits = field(default_factory=CommandLimits)
    speed_limit: Array | None = None
    balance: Balance = field(default_factory=Balance)
    constant_momentum: bool = False


class TrotPlanner:
    """A planner of trots, called by the loop once per control period.

    The plan advances by the time between two states, so a late or skipped tick is harmless. A running planner never
    raises: instead of a state that is not finite, it uses the last finite state; `Reference.residual` reports a foot
    out of reach.

    Attributes:
        feet: The feet, in the order of all per-foot arrays.
        gait: The current gait.
        height: Height of the base over the ground in the nominal stance, z0 [m].
        nominal: Nominal feet in the horizontal frame, their mean under the centre of mass, shape (n_feet, 3) [m].
        commanded: The command (v_x, v_y, ω) of the source, shape (3,) [m/s, rad/s].
        command: Command after governor and limiter, shape (3,) [m/s, rad/s].
        base: Reference of the base.
        plan: Planned motion of the feet.
        standing: True before the first `reset`, and while the robot rests by command.
        halted: True if the robot rests after `halt`, from the next call of the planner on.
    """

    def __init__(
        self,
        system: System,
        feet: Feet,
        home: Array,
        settings: TrotSettings,
        *,
        commands: CommandSource,
        ground: Ground | None = None,
    ) -> None:
        """Prepare a planner.

        Args:
            system: The machine; a floating base and legs of three revolute joints.
            feet: Feet of the machine.
            home: Joint angles of the nominal stance in the order of `System.actuated_names`, shape (a,) [rad].
            settings: Settings of the trot.
            commands: Source of the walking commands.
            ground: The ground; None for the plane z = 0.

        Raises:
            InputError: The robot or its legs are not supported (`Legs.of`, `MomentumBase`), a leg is stretched at
                `home`, or the gait or the pose does not fit the robot.
        """
        n, gait = len(feet.names), settings.gait
        if len(gait.touchdown) != n:
            raise InputError(f"the gait has {len(gait.touchdown)} touchdowns for {n} feet; give one for each foot")
        if np.shape(home) != (system.n_actuated,) or not np.all(np.isfinite(home)):
            raise InputError(
                f"the home pose must be {system.n_actuated} finite joint angles, one for each actuated joint"
            )
        self.feet, self.gait, self._first, self._changes = feet, gait, gait, settings.changes
        self._commands, self._ground = commands, ground
        parts, self._pushing, planned = _at_rest(system, feet, np.array(home, dtype=np.float64), settings)
        self._record, self._parts = pack(parts)
        self._motion, self._motion_type = self._record["motion"], dtype_of(parts.motion)
        self._momentum = planned, settings.constant_momentum
        # compiled functions with constant argument types
        self._plan_base = entry(_plan_base_and_footholds, self._record, 0.0, 0.0, REST, False, False)
        self._plan_joints = entry(_plan_joints, self._record, self._momentum, 0.0)
        self.plan, self.base, self.nominal = self._parts.plan, self._parts.base, self._parts.nominal.feet
        self.height = self._parts.nominal.height
        self.command: Array = self._parts.command.velocity
        self.commanded: Array = np.zeros(3)
        self.standing, self.halted = True, False
        self._t = math.nan
        self._home_feet, self._halts, self._rests = self.nominal.copy(), False, math.inf

    def halt(self, out_m: float = 0.0) -> None:
        """Stop walking: step on the spot for one period, then stand until `reset`, ignoring commands.

        Each foot is then `out_m` [m] farther out than nominally, so that the robot can lie down.
        """
        self._halts, self._rests, self.halted = True, math.inf, False
        self.nominal[:, 1] = self._home_feet[:, 1] + np.copysign(out_m, self._home_feet[:, 1])

    def reset(self, state: State) -> None:
        """Restart at `state`: all feet stand in place, the command is zero.

        Raises:
            InputError: The state is not finite.
        """
        measured, plan, base, ground = self._parts.measured, self.plan, self.base, self._parts.ground
        if not measured.read(state, self._parts.legs):
            raise InputError("the planner cannot begin at a state with a NaN or an infinity")
        self._commands.reset(measured.position.copy())
        self._t, self.standing, self.halted = state.t, False, False
        self._asked, self._settles = self._first, -math.inf
        self._halts, self._rests, self.nominal[:] = False, math.inf, self._home_feet
        self._take_up(self._first)
        stride = self._parts.stride
        stride.begin[0] = state.t + self._rest(self.gait.start_s)
        stride.pace[0], stride.lean[:] = 1.0, measured.rotation[2, :2]
        self.command[:] = 0.0
        plan.phase[:], plan.touched[:], plan.slide[:] = STANDING, -math.inf, 0.0
        plan.position[:], plan.landing[:] = measured.feet, measured.feet
        ground.points[:] = measured.feet[:, :2].T
        self._sample_ground()
        plan.level[:] = measured.feet[:, 2] - self._parts.nominal.radius / ground.normal[:, 2]
        plan.offset[:] = plan.level - ground.height
        self._parts.leg_plan.motion[0], self._parts.leg_plan.reference[:] = measured.angles, np.nan
        base.pose[:2], base.pose[2] = measured.position[:2], self.height + plan.level.mean()
        base.pose[3] = heading(measured.rotation)
        base.goal[:] = base.pose[[0, 1, 3]]
        base.twist[:], base.rate[:], base.sway[:], base.extent[:] = 0.0, 0.0, 0.0, 0.0

    def __call__(self, state: State) -> Reference:
        """Plan the motion of the joints at `state.t`; the planner must have been reset."""
        t, record = state.t, self._record
        yaw = read_state(record, state.q, state.v)
        dt = max(t - self._t, 0.0)
        self._t = t
        command, gait = self._ask(t, yaw)
        walks = command.walk and t >= self._parts.stride.begin[0]
        target = (command.v_x, command.v_y, command.omega) if walks else REST
        asked = self.commanded
        asked[0], asked[1], asked[2] = target  # assigning a slice would take four times as long
        stops, changes = not self.standing and not command.walk, command.walk and gait is not self._asked
        if changes or t < self._settles:
            target = REST  # feet that wait for each other would lag behind
        if self._plan_base(record, t, dt, target, stops, changes):
            if gait is not None and changes:
                self._asked = gait
                self._take_up(replace(gait, touchdown=self._first_lift(gait)))
                self._parts.stride.begin[0] = t + self._rest(CHANGE_S)
                self._settles = self._parts.stride.begin[0] + 0.75 * gait.period_s
            else:
                self.standing, self._parts.stride.begin[0] = True, math.inf
        self.halted = self._halts and self.standing  # not before: a standing robot steps once more after `halt`
        self._sample_ground()
        residual = self._plan_joints(record, self._momentum, dt)
        # fields of an array without axes are accessed fastest
        motion = np.ndarray((), self._motion_type, self._motion.tobytes())
        base = motion["base"]
        return Reference(
            q=motion["q"],
            v=motion["v"],
            a=motion["a"],
            stance=motion["stance"],
            since_touchdown=motion["since_touchdown"],
            to_liftoff=motion["to_liftoff"],
            base_position=base[:3],
            base_yaw=float(base[3]),
            feet=motion["feet"],
            residual=residual,
        )

    def _ask(self, t: float, yaw: float) -> tuple[VelocityCommand, Gait | None]:
        """Return the command and the gait at time `t` [s]; None as gait means standing.

        On a command to walk, the gait of a standing robot is started.
        """
        stride, measured = self._parts.stride, self._parts.measured
        if self._halts and not self.command.any() and stride.begin[0] < math.inf == self._rests:
            self._rests = max(t, stride.begin[0]) + self.gait.period_s  # each foot steps once more
        command = VelocityCommand(walk=t < self._rests) if self._halts else self._commands(t, measured.position, yaw)
        gait: Gait | None = self._first
        for begin, other in self._changes:
            gait = other if t >= begin else gait
        if gait is None:
            return VelocityCommand(walk=False), None
        if self.standing and command.walk:
            self._relocate()
            self._asked = gait
            self._take_up(gait)
            self.standing, stride.begin[0] = False, t + self._rest(gait.start_s)
        return command, gait

    def _relocate(self) -> None:
        """Move the plan of a standing robot to the measured position and heading of its base, without moving a joint.

        Without this update, the correction of the base would pull the robot off its feet if it was moved or the
        estimate of its pose jumped.
        """
        base, plan, measured, ground = self.base, self.plan, self._parts.measured, self._parts.ground
        turn = wrap(heading(measured.rotation) - base.pose[3])
        c, s = np.cos(turn), np.sin(turn)
        over = (plan.position[:, :2] - base.pose[:2]) @ np.array([[c, s], [-s, c]])
        plan.position[:, :2] = measured.position[:2] + over
        base.pose[:2] = measured.position[:2]
        base.pose[3] += turn
        ground.points[:] = plan.position[:, :2].T
        self._sample_ground()
        plan.offset[:] = plan.level - ground.height

    def _take_up(self, gait: Gait) -> None:
        """Switch to a new gait while all feet stand."""
        self.gait = gait
        put(self._record, "gait", gait)
        parts = self._parts
        parts.stride.period[0], parts.stride.duty[0] = gait.period_s, gait.duty
        parts.stride.height[0], parts.ability.duty[0] = gait.step_height_m, least_duty(gait)
        parts.push.acceleration[:] = self._pushing.push(gait).acceleration

    def _rest(self, least: float) -> float:
        """Return how long all feet stand before the next gait [s]: `least`, or at least a period if the base sways."""
        return max(least, self.gait.period_s) if self.gait.sways else least

    def _first_lift(self, gait: Gait) -> tuple[float, ...]:
        """Return the touchdowns of a gait, shifted in time so that the feet that lag most step first."""
        parts, touchdown = self._parts, np.array(gait.touchdown)
        v = self.command[:2]
        c, s = np.cos(self.base.pose[3]), np.sin(self.base.pose[3])
        feet = (self.plan.position[:, :2] - self.base.pose[:2]) @ np.array([[c, -s], [s, c]])
        ahead = (feet - parts.nominal.feet[:, :2]) @ v
        lift = (touchdown + gait.duty) % 1.0
        waits = np.round((lift - lift[:, None]) % 1.0, 6)
        best = lift[np.argmax((ahead - gait.period_s * waits * (v @ v)).min(axis=1))]
        return tuple(((touchdown - best + np.min(lift)) % 1.0).tolist())

    def _sample_ground(self) -> None:
        """Sample the heights and normals of the ground under the feet; samples of a plane stay constant."""
        if self._ground is not None:
            samples = self._parts.ground
            x, y = samples.points
            samples.height[:], samples.normal[:] = self._ground.height(x, y), self._ground.normal(x, y)


def _at_rest(system: System, feet: Feet, home: Array, settings: TrotSettings) -> tuple[_Parts, Pushing, Planned]:
    """Return the planner's parts, the feet's effects on the base, and the planned motion, all at rest at `home`."""
    n, gait, legs = len(feet.names), settings.gait, Legs.of(system, feet)
    nominal, limits = _nominal_stance(system, feet, legs, home), _joint_limits(system, legs, home, settings.speed_limit)
    weight = GRAVITY * pin.computeTotalMass(system.model)
    ability = Ability.of(legs, home[legs.actuated], nominal.feet, limits, gait, weight)
    stroke = ability.stroke.min()
    nominal.lead[:] = stroke, stroke / np.hypot(*nominal.feet[:, :2].T).max()
    momentum, pushing = MomentumBase(system, home), Pushing.of(system, legs, nominal, home)
    parts = _Parts(
        gait=gait,
        limits=settings.limits,
        balance=settings.balance,
        nominal=nominal,
        legs=legs,
        joint_limits=limits,
        ability=ability,
        measured=Measured.of(n),
        stride=Stride.of(gait),
        timing=Timing.of(n),
        command=LimitedCommand.at_rest(),
        plan=FootPlan.of(n),
        ground=GroundSamples.of(n),
        base=BaseReference.at_rest(),
        leg_plan=LegPlan.of(n),
        momentum=MomentumSystem.of(n)._replace(nominal=momentum.nominal),
        push=pushing.push(gait),
        motion=_Motion.at(home, n),
    )
    return parts, pushing, momentum.planned


def _nominal_stance(system: System, spheres: Feet, legs: Legs, home: Array) -> NominalStance:
    """Return the stance at the joint angles `home`, with the mean of the feet moved under the centre of mass."""
    q = system.configuration(home, np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]))
    measured = Measured.of(len(spheres.names))
    measured.read(State(t=0.0, q=q, v=np.zeros(system.n_velocities)), legs)
    com = pin.centerOfMass(system.model, system.model.createData(), q)
    feet, radius = measured.feet, np.ascontiguousarray(spheres.radii, dtype=np.float64)
    feet[:, :2] += com[:2] - feet[:, :2].mean(axis=0)
    height = float(np.max(radius - feet[:, 2]))
    com_height = float(com[2]) + height
    return NominalStance(height=height, com_height=com_height, feet=feet, radius=radius, lead=np.full(2, np.inf))


def _joint_limits(system: System, legs: Legs, home: Array, speed: Array | None) -> JointLimits:
    """Return the limits of the leg joints, with accelerations at the angles `home`."""
    speed = np.full(system.n_actuated, np.inf) if speed is None else speed
    q = system.configuration(home, np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]))
    carried = np.diag(pin.crba(system.model, system.model.createData(), q))
    lower, upper = system.model.lowerPositionLimit[legs.q_index], system.model.upperPositionLimit[legs.q_index]
    return JointLimits(
        lower=np.where(lower < upper, lower, -np.inf),  # a URDF without limits has the limits 0 and 0
        upper=np.where(lower < upper, upper, np.inf),
        speed=speed[legs.actuated],
        acceleration=system.effort_limit[legs.actuated] / carried[legs.v_index],
        torque=system.effort_limit[legs.actuated],
    )
