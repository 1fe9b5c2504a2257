"""Machines for planner tests, and a machine that follows its plan perfectly."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from idcontrol import robots
from idcontrol.dynamics.system import System
from idcontrol.planners.commands import VelocityCommand
from idcontrol.planners.feet import Ground
from idcontrol.planners.gait import Gait
from idcontrol.planners.legs import Feet
from idcontrol.planners.measured import Measured
from idcontrol.planners.trot import TrotPlanner, TrotSettings
from idcontrol.types import Array, Reference, State

TICK = 1e-3
AT_THE_GROUND = 2e-6
"""A foot is at the ground below this gap [m]: far more than rounding, and less than it descends in a tick."""


@dataclass(frozen=True)
class Machine:
    system: System
    feet: Feet
    home: Array
    gait: Gait
    speed_limit: Array

    def planner(self, commands: Any, *, ground: Ground | None = None, **settings: Any) -> TrotPlanner:
        how = TrotSettings(**{"gait": self.gait, "speed_limit": self.speed_limit, **settings})
        return TrotPlanner(self.system, self.feet, self.home, how, commands=commands, ground=ground)

    def state(self, t: float, pose: Array, twist: Array, joints: Array, rates: Array) -> State:
        """The level base at `pose` (x, y, z, yaw), moving with `twist` in the world, and the joints."""
        yaw = pose[3]
        q = self.system.configuration(joints, np.array([*pose[:3], 0.0, 0.0, np.sin(yaw / 2), np.cos(yaw / 2)]))
        v = self.system.to_pinocchio(np.concatenate((np.zeros(6), rates)))
        c, s = np.cos(yaw), np.sin(yaw)
        v[:6] = c * twist[0] + s * twist[1], c * twist[1] - s * twist[0], twist[2], 0.0, 0.0, twist[3]
        return State(t=t, q=q, v=v)

    def standing(self, height: float) -> State:
        return self.state(0.0, np.array([0.0, 0.0, height, 0.0]), np.zeros(4), self.home, np.zeros_like(self.home))


class Smooth:
    """A command whose rate is continuous and within limits, so that accelerations jump only at events."""

    def reset(self, position: Array) -> None:
        pass

    def __call__(self, t: float, position: Array, yaw: float) -> VelocityCommand:
        s = math.sin(2.0 * (t - 0.2)) ** 3 if t > 0.2 else 0.0
        return VelocityCommand(v_x=0.1 * s, v_y=0.03 * s, omega=0.4 * s)


@cache
def machine(name: str, *, points: bool = False) -> Machine:
    """A robot by name; `points` shrinks its foot spheres to points, which do not roll."""
    robot = robots.load(name)
    system, text = robot.system(), robot.description
    feet = Feet(
        names=tuple(foot.name for foot in text.feet),
        frames=tuple(system.frame(foot.frame) for foot in text.feet),
        radii=np.array([0.0 if points else foot.radius_m for foot in text.feet]),
        offsets=np.array([foot.offset_m for foot in text.feet]),
    )
    assert text.gait is not None
    gait = Gait(
        period_s=text.gait.period_s,
        duty=text.gait.duty,
        touchdown=tuple(text.gait.touchdown[foot] for foot in feet.names),
        step_height_m=text.gait.step_height_m,
        touchdown_speed_m_s=text.gait.touchdown_speed_m_s,
    )
    names = system.actuated_names
    return Machine(system, feet, robot.home_joints(names), gait, robot.velocity_limit(names))


def follow_exactly(m: Machine, planner: TrotPlanner, steps: int, h: float = TICK) -> Iterator[tuple[State, Reference]]:
    """States of a machine that does exactly what its plan says, and the plan at each.

    The ground stops the descent of a foot that has come down to it. The accelerations of a tick are held until the
    next, and its velocities are means over the last period, as for a machine stepped by ``v⁺ = v + h a``, ``q⁺ = q + h
    v⁺``.
    """
    state = m.standing(planner.height)
    planner.reset(state)
    for k in range(steps):
        plan = planner(state)
        yield state, plan
        base = planner.base
        state = m.state(
            (k + 1) * h,
            base.pose + h * base.twist + 0.5 * h * h * base.rate,
            base.twist + 0.5 * h * base.rate,
            plan.q + h * (plan.v + h * plan.a),
            plan.v + h * plan.a,
        )
        stop_at_the_ground(planner, state)


def stop_at_the_ground(planner: TrotPlanner, state: State) -> None:
    """Take the downward velocity from the feet that are at the ground, in place."""
    parts, measured = planner._parts, Measured.of(len(planner.feet.names))
    measured.read(state, parts.legs)
    x, y, _ = measured.feet.T
    ground = planner._ground
    height, rise = (0.0, 1.0) if ground is None else (ground.height(x, y), ground.normal(x, y)[:, 2])
    gap = (measured.feet[:, 2] - height) * rise - planner.feet.radii
    for i in np.flatnonzero(gap < AT_THE_GROUND):
        down = min(measured.feet_velocity[i, 2], 0.0) * measured.rotation[2]
        state.v[parts.legs.v_index[i]] -= np.linalg.solve(parts.leg_plan.jacobian[i], down)


def within_limits(planner: TrotPlanner, plan: Reference, last: Reference | None) -> None:
    """Assert that joint references stay within limits and jump by at most 1 mrad."""
    limits, actuated = planner._parts.joint_limits, planner._parts.legs.actuated
    assert np.all(np.abs(plan.v[actuated]) <= limits.speed)
    assert np.all(np.abs(plan.a[actuated]) <= limits.acceleration)
    assert np.all((limits.lower <= plan.q[actuated]) & (plan.q[actuated] <= limits.upper))
    if last is not None:
        # angles go on with the velocity at the end of the period
        jump = np.abs(plan.q - last.q - TICK * (last.v + TICK * last.a))
        assert jump.max() <= 1e-3 + 1e-12
