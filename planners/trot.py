"""The trot: from a command and the measured state to what every joint should do (planner.md 2 to 5)."""

from __future__ import annotations

import math

import numpy as np
import pinocchio as pin

from idcontrol.errors import InputError
from idcontrol.system import System
from idcontrol.types import Array, Booleans, Reference, State
from planners.balance import Balance, righting_acceleration
from planners.base import BaseReference, advance_base, command_base
from planners.commands import CommandLimits, Drive, Guide, limit_command
from planners.feet import CAPTURE_GAIN, STANDING, FootPlan, Ground, choose_footholds, move_feet, notice_touchdowns
from planners.gait import Gait, Timing
from planners.joints import LegPlan, Measured, collect, move_joints, reach_feet
from planners.legs import Feet, Legs
from planners.momentum import MomentumBase

GRAVITY = 9.81

_STAND = Drive(walk=False)


class TrotPlanner:
    """Plans a trot; a callable that the loop asks once per control period.

    The plan advances by the time between two states, so a late or skipped tick is harmless. The planner never raises
    while it runs: in place of a state with a NaN it goes on from the last good one, and a foot out of reach shows in
    `Reference.residual`.

    Attributes:
        feet: The feet, in the order of all per-foot arrays.
        gait: The gait.
        height: Height of the base over the ground in the nominal stance, z0 [m].
        nominal: Nominal feet in the horizontal frame, their mean under the centre of mass, shape (n_feet, 3) [m].
        command: The limited command (v_x, v_y, ω) of now, shape (3,) [m/s, rad/s].
        base: Reference of the base.
        plan: Planned motion of the feet.
        standing: Whether the machine has come to rest because it was asked to.
    """

    def __init__(
        self,
        system: System,
        feet: Feet,
        home: Array,
        *,
        gait: Gait,
        guide: Guide,
        limits: CommandLimits | None = None,
        ground: Ground | None = None,
        constant_momentum: bool = False,
        balance: Balance | None = None,
    ) -> None:
        """Prepare a planner.

        Args:
            system: The machine; a floating base and legs of three revolute joints.
            feet: Its feet.
            home: Joint angles of the nominal stance in the order of `System.actuated_names`, shape (a,) [rad].
            gait: Timing and shape of the steps; its touchdowns are in the order of `feet`.
            guide: Where commands come from.
            limits: How fast the command may change.
            ground: The ground; None is the plane z = 0.
            constant_momentum: Let the base yield to the reaction of the swinging legs. For friction below about 0.3;
                above, it costs tracking and gains nothing.
            balance: Gains that right the base in addition; None is none.

        Raises:
            InputError: The machine has no such legs, or the gait or the pose does not fit it.
        """
        n = len(feet.names)
        if len(gait.touchdown) != n:
            raise InputError(f"the gait has {len(gait.touchdown)} touchdowns for {n} feet; give one for each foot")
        if np.shape(home) != (system.n_actuated,) or not np.all(np.isfinite(home)):
            raise InputError(
                f"the home pose must be {system.n_actuated} finite joint angles, one for each actuated joint"
            )
        self.feet, self.gait = feet, gait
        self._guide, self._limits, self._ground = guide, limits or CommandLimits(), ground
        self._legs = Legs.of(system, feet)
        self._radius = np.ascontiguousarray(feet.radii, dtype=np.float64)
        # Joints that belong to no leg hold the home pose.
        self._still = np.zeros((3, system.n_actuated))
        self._still[0] = home
        self.height, self.nominal = self._nominal_stance(system)
        self._capture_s = CAPTURE_GAIN * math.sqrt(self.height / GRAVITY)
        # Height follows the ground within about half a gait cycle.
        self._bandwidth = 2.0 / gait.period_s

        self.command: Array = np.zeros(3)
        self.standing = True
        self._command_rate = np.zeros(3)
        self._measured = Measured.of(n)
        self.base = BaseReference()
        self._momentum = MomentumBase(system, self._legs, self._still[0]) if constant_momentum else None
        self.plan = FootPlan.of(n)
        self._leg_plan = LegPlan.of(n)
        self._where = np.zeros((2, n))
        self._flat_height, self._flat_normal = np.zeros(n), np.tile([0.0, 0.0, 1.0], (n, 1))
        self._balance, self._righting = balance, np.zeros(3)
        self._t = math.nan
        self._begin = math.inf
        self._touched = np.full(n, -math.inf)

    def reset(self, state: State) -> None:
        """Begin anew at `state`: all feet stand where they are, the command is zero.

        Raises:
            InputError: The state has a NaN.
        """
        if not self._measured.read(state, self._legs):
            raise InputError("the planner cannot begin at a state that is not finite")
        measured, plan = self._measured, self.plan
        self._guide.reset(measured.position.copy())
        self._t, self._begin, self.standing = state.t, state.t + self.gait.start_s, False
        self._touched[:] = -math.inf
        self.command[:] = 0.0
        plan.phase[:] = STANDING
        plan.slide[:] = 0.0
        plan.position[:], plan.landing[:] = measured.feet, measured.feet
        self._where[:] = measured.feet[:, :2].T
        plan.level[:], _ = self._look_at_ground()
        self._leg_plan.motion[0] = measured.angles
        base = self.base
        base.pose[:2], base.pose[2], base.pose[3] = measured.position[:2], self.height + plan.level.mean(), measured.yaw
        base.twist[:], base.rate[:] = 0.0, 0.0

    def __call__(self, state: State) -> Reference:
        """What the joints should do at `state.t`; the planner must have been reset."""
        self._measured.read(state, self._legs)
        dt = max(state.t - self._t, 0.0)
        self._t = state.t
        measured, plan = self._measured, self.plan

        drive = self._guide(state.t, measured.position, measured.yaw)
        timing = self._time(state.t, drive)
        self._move_base(dt, drive)
        self._move_feet(dt, timing)
        through_measured = plan.phase != STANDING
        self._move_legs(through_measured)
        return self._describe(dt, timing)

    def _time(self, t: float, drive: Drive) -> Timing:
        """The cycle of the feet at `t`; stops the gait when all feet stand and nothing moves, and starts it again."""
        if self.standing and drive.walk:
            self.standing, self._begin = False, t + self.gait.start_s
        timing = self.gait.timing(t - self._begin)
        if not self.standing and not drive.walk and timing.stance.all() and not self.command.any():
            self.standing, self._begin = True, math.inf
            timing = self.gait.timing(-math.inf)
        m, plan = self._measured, self.plan
        notice_touchdowns(
            t,
            self.gait.stance_s,
            self.gait.swing_s,
            self.gait.touchdown_speed_m_s,
            m.feet,
            m.feet_velocity,
            plan.phase,
            plan.landing,
            timing.stance,
            timing.since_touchdown,
            timing.to_liftoff,
            timing.since_liftoff,
            timing.to_touchdown,
            self._touched,
        )
        return timing

    def _move_base(self, dt: float, drive: Drive) -> None:
        """Advance the base reference and let its velocity follow the command."""
        if not drive.walk or self._t < self._begin:
            drive = _STAND
        base, m, limits = self.base, self._measured, self._limits
        advance_base(dt, base.pose, base.twist, base.rate)
        target = (drive.v_x, drive.v_y, drive.omega)
        limit_command(dt, target, limits.linear_m_s2, limits.angular_rad_s2, self.command, self._command_rate)
        command_base(
            m.position,
            m.yaw,
            self.command,
            self._command_rate,
            self.height,
            self.plan.level,
            self._bandwidth,
            base.pose,
            base.twist,
            base.rate,
        )

    def _move_feet(self, dt: float, timing: Timing) -> None:
        """Choose footholds, look at the ground there, and advance the planned feet."""
        m, plan, gait = self._measured, self.plan, self.gait
        choose_footholds(
            timing.stance,
            timing.since_liftoff,
            timing.to_touchdown,
            gait.stance_s,
            m.position,
            m.yaw,
            m.velocity,
            self.command,
            self.nominal,
            self._capture_s,
            m.feet,
            plan.phase,
            plan.position,
            plan.landing,
            self._where,
        )
        ground, normal = self._look_at_ground()
        move_feet(
            dt,
            timing.stance,
            timing.since_touchdown,
            timing.since_liftoff,
            timing.to_touchdown,
            gait.step_height_m,
            gait.touchdown_speed_m_s,
            m.feet,
            m.feet_velocity,
            m.shank_rate,
            self._radius,
            ground,
            normal,
            plan.phase,
            plan.position,
            plan.velocity,
            plan.acceleration,
            plan.course,
            plan.slide,
            plan.landing,
            plan.level,
        )

    def _move_legs(self, through_measured: Booleans) -> None:
        """Joint positions, velocities and accelerations that move the feet as planned."""
        m, base, plan, legs, out = self._measured, self.base, self.plan, self._legs, self._leg_plan
        reach_feet(
            through_measured,
            plan.position,
            base.pose,
            m.position,
            m.rotation,
            legs.origin,
            legs.axis,
            legs.foot,
            out.motion,
            out.origin,
            out.axis,
            out.foot,
            out.jacobian,
            out.residual,
        )
        if self._momentum is not None:
            self._momentum.apply(base, plan, out)
        if self._balance is not None:
            gains = self._balance
            righting_acceleration(gains.stiffness_1_s2, gains.damping_1_s, m.rotation, m.omega_B, self._righting)
        move_joints(
            through_measured,
            plan.velocity,
            plan.acceleration,
            base.pose,
            base.twist,
            base.rate,
            self._righting,
            m.rotation,
            m.velocity,
            m.omega_B,
            out.origin,
            out.axis,
            out.foot,
            out.jacobian,
            out.residual,
            out.motion,
        )

    def _look_at_ground(self) -> tuple[Array, Array]:
        """Height and normal of the ground where the feet need it, shapes (n,) and (n, 3)."""
        if self._ground is None:
            return self._flat_height, self._flat_normal
        x, y = self._where
        return (
            np.ascontiguousarray(self._ground.height(x, y), dtype=np.float64),
            np.ascontiguousarray(self._ground.normal(x, y), dtype=np.float64),
        )

    def _describe(self, dt: float, timing: Timing) -> Reference:
        """The plan of this instant as plain data of its own.

        Joint velocities are means over the period `dt` that ends now: a machine whose accelerations are held for a
        period each cannot have others. Feedback on the velocities of the instant would drive it ahead of its plan.
        """
        legs, plan, base = self._leg_plan, self.plan, self.base
        joints = self._still.copy()
        residual = collect(legs.motion, legs.residual, self._legs.actuated, joints)
        q, v, a = joints
        return Reference(
            q=q,
            v=v - 0.5 * dt * a,
            a=a,
            stance=timing.stance,
            since_touchdown=timing.since_touchdown,
            to_liftoff=timing.to_liftoff,
            base_position=base.pose[:3].copy(),
            base_yaw=float(base.pose[3]),
            feet=plan.position.copy(),
            residual=residual,
        )

    def _nominal_stance(self, system: System) -> tuple[float, Array]:
        """Height of the base and feet in the horizontal frame at the home pose, the feet's mean moved under the com."""
        q = system.configuration(self._still[0], np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]))
        measured = Measured.of(len(self.feet.names))
        measured.read(State(t=0.0, q=q, v=np.zeros(system.n_velocities)), self._legs)
        com = pin.centerOfMass(system.model, system.model.createData(), q)
        feet = measured.feet
        feet[:, :2] += com[:2] - feet[:, :2].mean(axis=0)
        return float(np.max(self._radius - feet[:, 2])), feet
