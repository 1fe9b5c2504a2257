"""The trot: from a command and the measured state to what every joint should do (planner.md 2 to 5)."""

from __future__ import annotations

import math

import numpy as np
import pinocchio as pin

from idcontrol.errors import InputError
from idcontrol.planners.balance import Balance
from idcontrol.planners.base import BaseReference
from idcontrol.planners.commands import CommandLimits, Guide
from idcontrol.planners.compiled import (
    Memory,
    Numbers,
    aim,
    follow,
    joined,
    observe,
    swing,
    viewed,
    yield_acceleration,
    yield_velocity,
)
from idcontrol.planners.feet import CAPTURE_GAIN, STANDING, FootPlan, Ground
from idcontrol.planners.gait import Gait
from idcontrol.planners.joints import LegPlan, Measured
from idcontrol.planners.legs import Feet, Legs
from idcontrol.planners.momentum import MomentumBase
from idcontrol.system import System
from idcontrol.types import Array, Reference, State

GRAVITY = 9.81


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
        self._guide, self._ground = guide, ground
        legs = Legs.of(system, feet)
        # Joints that belong to no leg hold the home pose.
        self._still = np.zeros((3, system.n_actuated))
        self._still[0] = home
        radius = np.ascontiguousarray(feet.radii, dtype=np.float64)
        self.height, self.nominal = _nominal_stance(system, legs, radius, self._still[0])
        self._momentum = MomentumBase(system, legs, self._still[0]) if constant_momentum else None
        limits, balance = limits or CommandLimits(), balance or Balance()
        numbers = Numbers(
            period_s=gait.period_s,
            duty=gait.duty,
            stance_s=gait.stance_s,
            swing_s=gait.swing_s,
            step_height_m=gait.step_height_m,
            touchdown_speed_m_s=gait.touchdown_speed_m_s,
            linear_m_s2=limits.linear_m_s2,
            angular_rad_s2=limits.angular_rad_s2,
            stiffness_1_s2=balance.stiffness_1_s2,
            damping_1_s=balance.damping_1_s,
            height=self.height,
            # Height follows the ground within about half a gait cycle.
            bandwidth=2.0 / gait.period_s,
            capture_s=CAPTURE_GAIN * math.sqrt(self.height / GRAVITY),
            touchdown=np.array(gait.touchdown),
            radius=radius,
            nominal=self.nominal,
        )
        bundles = {
            "numbers": numbers,
            "legs": legs,
            "measured": Measured.of(n),
            "plan": FootPlan.of(n),
            "base": BaseReference(),
            "leg_plan": LegPlan.of(n),
            "memory": Memory.of(n),
        }
        if self._momentum is not None:
            bundles["momentum"] = self._momentum.work
        self._record = joined(**bundles)
        self._legs = legs
        self._measured = viewed(Measured.of(n), self._record, "measured")
        self.plan = viewed(FootPlan.of(n), self._record, "plan")
        self.base = viewed(BaseReference(), self._record, "base")
        self._leg_plan = viewed(LegPlan.of(n), self._record, "leg_plan")
        self._memory = viewed(Memory.of(n), self._record, "memory")
        self.command: Array = self._memory.command
        self.standing = True
        self._t = math.nan
        self._begin = math.inf

    def reset(self, state: State) -> None:
        """Begin anew at `state`: all feet stand where they are, the command is zero.

        Raises:
            InputError: The state has a NaN.
        """
        if not self._measured.read(state, self._legs):
            raise InputError("the planner cannot begin at a state that is not finite")
        measured, plan, memory = self._measured, self.plan, self._memory
        self._guide.reset(measured.position.copy())
        self._t, self._begin, self.standing = state.t, state.t + self.gait.start_s, False
        memory.touched[:], memory.command[:] = -math.inf, 0.0
        plan.phase[:] = STANDING
        plan.slide[:] = 0.0
        plan.position[:], plan.landing[:] = measured.feet, measured.feet
        memory.where[:] = measured.feet[:, :2].T
        self._look_at_ground()
        plan.level[:] = memory.ground
        self._leg_plan.motion[0] = measured.angles
        base = self.base
        base.pose[:2], base.pose[2], base.pose[3] = measured.position[:2], self.height + plan.level.mean(), measured.yaw
        base.twist[:], base.rate[:] = 0.0, 0.0

    def __call__(self, state: State) -> Reference:
        """What the joints should do at `state.t`; the planner must have been reset."""
        t, record, measured = state.t, self._record, self._measured
        yaw = observe(record, state.q, state.v)
        if not math.isnan(yaw):
            measured.yaw = yaw
        dt = max(t - self._t, 0.0)
        self._t = t

        drive = self._guide(t, measured.position, measured.yaw)
        if self.standing and drive.walk:
            self.standing, self._begin = False, t + self.gait.start_s
        walks = drive.walk and t >= self._begin
        target = (drive.v_x, drive.v_y, drive.omega) if walks else (0.0, 0.0, 0.0)
        stops = not self.standing and not drive.walk
        n = len(self.feet.names)
        stance, times = np.empty(n, dtype=np.bool_), np.empty((4, n))
        if aim(record, t, dt, self._begin, measured.yaw, target, stops, stance, times):
            self.standing, self._begin = True, math.inf
        self._look_at_ground()
        swing(record, dt, stance, times)
        if self._momentum is not None:
            self._keep_momentum(self._momentum)
        joints = self._still.copy()
        residual = follow(record, dt, joints)
        pose = self.base.pose
        return Reference(
            q=joints[0],
            v=joints[1],
            a=joints[2],
            stance=stance,
            since_touchdown=times[0],
            to_liftoff=times[1],
            base_position=pose[:3].copy(),
            base_yaw=float(pose[3]),
            feet=self.plan.position.copy(),
            residual=residual,
        )

    def _look_at_ground(self) -> None:
        """Height and normal of the ground where the feet need it; the plane never changes."""
        if self._ground is not None:
            memory = self._memory
            x, y = memory.where
            memory.ground[:], memory.normal[:] = self._ground.height(x, y), self._ground.normal(x, y)

    def _keep_momentum(self, momentum: MomentumBase) -> None:
        """Let the base yield to the motion of the feet (planner.md 3.3)."""
        momentum.find_inertia(self._leg_plan.motion)
        yield_velocity(self._record, momentum.M, momentum.v)
        momentum.find_bias()
        yield_acceleration(self._record, momentum.M, momentum.bias, momentum.v)


def _nominal_stance(system: System, legs: Legs, radius: Array, home: Array) -> tuple[float, Array]:
    """Height of the base and feet in the horizontal frame at the home pose, the feet's mean moved under the com."""
    q = system.configuration(home, np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]))
    measured = Measured.of(radius.size)
    measured.read(State(t=0.0, q=q, v=np.zeros(system.n_velocities)), legs)
    com = pin.centerOfMass(system.model, system.model.createData(), q)
    feet = measured.feet
    feet[:, :2] += com[:2] - feet[:, :2].mean(axis=0)
    return float(np.max(radius - feet[:, 2])), feet
