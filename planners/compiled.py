"""A tick of `idcontrol.planners.trot.TrotPlanner` in few compiled calls, each on all that the planner remembers.

A compiled function is charged for its arguments, 0.2 µs for each array. So the arrays lie side by side in one record,
which is a single argument (0.5 µs), and the planner's dataclasses are views of it.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
from numba import njit

from idcontrol.planners.balance import righting_acceleration
from idcontrol.planners.base import advance_base, command_base
from idcontrol.planners.commands import limit_command
from idcontrol.planners.feet import STANDING, choose_footholds, move_feet, notice_touchdowns
from idcontrol.planners.gait import write_timing
from idcontrol.planners.joints import collect, measure, move_joints, reach_feet
from idcontrol.planners.momentum import momentum_acceleration, momentum_velocity
from idcontrol.types import Array, Booleans

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Record = npt.NDArray[np.void]
Bundle = TypeVar("Bundle", bound="DataclassInstance")


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """What stays as it is while a machine walks.

    Attributes:
        period_s: See `gait.Gait`, as the next five.
        duty: See there.
        stance_s: See there.
        swing_s: See there.
        step_height_m: See there.
        touchdown_speed_m_s: See there.
        linear_m_s2: See `commands.CommandLimits`.
        angular_rad_s2: See there.
        stiffness_1_s2: See `balance.Balance`.
        damping_1_s: See there.
        height: z0 [m].
        bandwidth: Of the height's motion [1/s].
        capture_s: k_f √(z0/g) [s].
        touchdown: Touchdown of each foot as a part of the cycle, shape (n,) [-].
        radius: Of the foot spheres, shape (n,) [m].
        nominal: Feet of the standing machine in the horizontal frame, shape (n, 3) [m].
    """

    period_s: float
    duty: float
    stance_s: float
    swing_s: float
    step_height_m: float
    touchdown_speed_m_s: float
    linear_m_s2: float
    angular_rad_s2: float
    stiffness_1_s2: float
    damping_1_s: float
    height: float
    bandwidth: float
    capture_s: float
    touchdown: Array
    radius: Array
    nominal: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What the planner remembers beside the plans of feet, base and legs; arrays change in place.

    Attributes:
        command: The limited command (v_x, v_y, ω), shape (3,) [m/s, rad/s].
        command_rate: Its derivative, shape (3,).
        touched: When each foot touched down, -inf before the first time, shape (n,) [s].
        where: Where each foot needs the ground, shape (2, n) [m].
        ground: Height of the ground there, shape (n,) [m].
        normal: Its normals there, shape (n, 3).
        righting: Angular acceleration that rights the base, shape (3,) [rad/s²].
    """

    command: Array
    command_rate: Array
    touched: Array
    where: Array
    ground: Array
    normal: Array
    righting: Array

    @staticmethod
    def of(n: int) -> Memory:
        """Room for `n` feet, on the plane z = 0."""
        return Memory(
            command=np.zeros(3),
            command_rate=np.zeros(3),
            touched=np.full(n, -math.inf),
            where=np.zeros((2, n)),
            ground=np.zeros(n),
            normal=np.tile([0.0, 0.0, 1.0], (n, 1)),
            righting=np.zeros(3),
        )


def joined(**bundles: Any) -> Record:
    """One record with copies of all arrays and numbers of some dataclasses, by the names of these, shape (1,)."""
    parts = {
        name: {field.name: np.asarray(getattr(bundle, field.name)) for field in dataclasses.fields(bundle)}
        for name, bundle in bundles.items()
    }
    record = np.zeros(
        1,
        dtype=np.dtype(
            [(name, [(key, x.dtype, x.shape) for key, x in part.items()]) for name, part in parts.items()], align=True
        ),
    )
    for name, part in parts.items():
        for key, value in part.items():
            record[name][key] = value
    return record


def viewed(bundle: Bundle, record: Record, name: str) -> Bundle:
    """The dataclass `bundle`, its arrays being views of those under `name` in a record; its numbers stay its own."""
    part = record[name]
    arrays = [f.name for f in dataclasses.fields(bundle) if isinstance(getattr(bundle, f.name), np.ndarray)]
    return dataclasses.replace(bundle, **{key: part[key][0] for key in arrays})


@njit(cache=True)
def observe(record: Record, q: Array, v: Array) -> float:  # pragma: no cover - compiled
    """Read a state (`joints.measure`); returns the heading [rad], NaN for a state that is not finite."""
    w = record[0]
    m, legs = w.measured, w.legs
    yaw: float = measure(
        q,
        v,
        legs.q_index,
        legs.v_index,
        legs.origin,
        legs.axis,
        legs.foot,
        m.position,
        m.rotation,
        m.velocity,
        m.omega_B,
        m.angles,
        m.feet,
        m.feet_velocity,
        m.shank_rate,
    )
    return yaw


@njit(cache=True)
def aim(
    record: Record,
    t: float,
    dt: float,
    begin: float,
    yaw: float,
    target: tuple[float, float, float],
    stops: bool,
    stance: Booleans,
    times: Array,
) -> bool:  # pragma: no cover - compiled
    """Where the feet are in their cycle, where the base moves, and where the swinging feet shall land.

    Args:
        record: The planner's.
        t: Now [s].
        dt: Time since the last tick [s].
        begin: When the gait began or begins [s].
        yaw: Measured heading [rad].
        target: The command (v_x, v_y, ω) to move towards [m/s, rad/s].
        stops: Whether the gait ends once all feet stand and nothing moves.
        stance: Out: see `gait.Timing`, shape (n,).
        times: Out: the times of `gait.Timing`, shape (4, n) [s].

    Returns:
        Whether the gait has ended.
    """
    w = record[0]
    numbers, m, plan, base, memory = w.numbers, w.measured, w.plan, w.base, w.memory
    write_timing(t - begin, numbers.period_s, numbers.duty, numbers.touchdown, stance, times)
    rests = bool(stops and stance.all() and not memory.command.any())
    if rests:
        write_timing(-math.inf, numbers.period_s, numbers.duty, numbers.touchdown, stance, times)
    since_touchdown, to_liftoff, since_liftoff, to_touchdown = times[0], times[1], times[2], times[3]
    notice_touchdowns(
        t,
        numbers.stance_s,
        numbers.swing_s,
        numbers.touchdown_speed_m_s,
        m.feet,
        m.feet_velocity,
        plan.phase,
        plan.landing,
        stance,
        since_touchdown,
        to_liftoff,
        since_liftoff,
        to_touchdown,
        memory.touched,
    )
    advance_base(dt, base.pose, base.twist, base.rate)
    limit_command(dt, target, numbers.linear_m_s2, numbers.angular_rad_s2, memory.command, memory.command_rate)
    command_base(
        m.position,
        yaw,
        memory.command,
        memory.command_rate,
        numbers.height,
        plan.level,
        numbers.bandwidth,
        base.pose,
        base.twist,
        base.rate,
    )
    choose_footholds(
        stance,
        since_liftoff,
        to_touchdown,
        numbers.stance_s,
        m.position,
        yaw,
        m.velocity,
        memory.command,
        numbers.nominal,
        numbers.capture_s,
        m.feet,
        plan.phase,
        plan.position,
        plan.landing,
        memory.where,
    )
    return rests


@njit(cache=True)
def swing(record: Record, dt: float, stance: Booleans, times: Array) -> None:  # pragma: no cover - compiled
    """Advance the planned feet by `dt` [s], and find the joint angles that put them there."""
    w = record[0]
    numbers, m, plan, base, memory, legs, out = w.numbers, w.measured, w.plan, w.base, w.memory, w.legs, w.leg_plan
    move_feet(
        dt,
        stance,
        times[0],
        times[2],
        times[3],
        numbers.step_height_m,
        numbers.touchdown_speed_m_s,
        m.feet,
        m.feet_velocity,
        m.shank_rate,
        numbers.radius,
        memory.ground,
        memory.normal,
        plan.phase,
        plan.position,
        plan.velocity,
        plan.acceleration,
        plan.course,
        plan.slide,
        plan.landing,
        plan.level,
    )
    reach_feet(
        plan.phase != STANDING,
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


@njit(cache=True, error_model="numpy")
def yield_velocity(record: Record, M: Array, v: Array) -> None:  # pragma: no cover - compiled
    """`momentum.momentum_velocity` on the planned feet and base."""
    w = record[0]
    plan, base, out, work = w.plan, w.base, w.leg_plan, w.momentum
    momentum_velocity(
        M,
        work.nominal,
        w.legs.v_index,
        plan.velocity,
        out.foot,
        out.jacobian,
        base.pose,
        base.twist,
        base.rate,
        work.own,
        work.give,
        work.A,
        v,
    )


@njit(cache=True, error_model="numpy")
def yield_acceleration(record: Record, M: Array, bias: Array, v: Array) -> None:  # pragma: no cover - compiled
    """`momentum.momentum_acceleration` on the planned feet and base."""
    w = record[0]
    plan, base, out, work = w.plan, w.base, w.leg_plan, w.momentum
    momentum_acceleration(
        M,
        bias,
        v,
        w.legs.v_index,
        plan.acceleration,
        out.origin,
        out.axis,
        out.foot,
        out.jacobian,
        base.pose,
        base.rate,
        work.own,
        work.give,
        work.A,
    )


@njit(cache=True)
def follow(record: Record, dt: float, joints: Array) -> float:  # pragma: no cover - compiled
    """Joint velocities and accelerations that move the feet as planned.

    Velocities are means over the period `dt` that ends now: a machine whose accelerations are held for a period each
    cannot have others. Feedback on the velocities of the instant would drive it ahead of its plan.

    Args:
        record: The planner's.
        dt: Time since the last tick [s].
        joints: Out: angles, velocities, accelerations of the joints of the legs, shape (3, a) [rad, rad/s, rad/s²].

    Returns:
        Largest distance between a planned foot and where the joints can put it [m].
    """
    w = record[0]
    numbers, m, plan, base, out, righting = w.numbers, w.measured, w.plan, w.base, w.leg_plan, w.memory.righting
    righting_acceleration(numbers.stiffness_1_s2, numbers.damping_1_s, m.rotation, m.omega_B, righting)
    move_joints(
        plan.phase != STANDING,
        plan.velocity,
        plan.acceleration,
        base.pose,
        base.twist,
        base.rate,
        righting,
        m.rotation[:],  # as a plain array: it shares a variable with one
        m.velocity,
        m.omega_B,
        out.origin,
        out.axis,
        out.foot,
        out.jacobian,
        out.residual,
        out.motion,
    )
    residual: float = collect(out.motion, out.residual, w.legs.actuated, joints)
    for j in range(joints.shape[1]):
        joints[1, j] -= 0.5 * dt * joints[2, j]
    return residual
