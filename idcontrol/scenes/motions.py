"""Motions of a `Body`: standing and swaying, or walking. Each is a planner for `idcontrol.loop.simulated.ticks`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import pinocchio as pin
from scipy.interpolate import CubicSpline

from idcontrol.config.configuration import Positive
from idcontrol.planners import capture, dcm, route, turning
from idcontrol.planners.dcm import Steps
from idcontrol.scenes.body import Body, turned
from idcontrol.types import TOUCHING_N, Array, Reference, State

TOUCH_SHARE: Final = 0.02
"""A foot has landed when the force on it exceeds this share of the weight."""
LATE_S: Final = 0.02
"""A foot whose landing is overdue by this time has landed at the least force: on its way down, a light leg may press on
the ground with less than `TOUCH_SHARE` [s]."""
EARLIEST: Final = 0.5
"""Share of a swing before which no force counts as touchdown: shortly after liftoff the foot may still graze the
ground."""
LEAVES_M: Final = 0.02
"""Steps are replanned if the divergent component of motion or a landed foot is farther than this from its path [m]."""
EARLY_S: Final = 0.02
"""Steps are replanned if a foot lands earlier than planned by this time [s]."""
SURE: Final = 0.9
"""To catch the divergent component of motion, the soles are scaled by this factor about their common middle."""
ROUTE_ENDS_S: Final = 2.0
"""Time after the last waypoint in which the machine brings its feet together [s]."""
ARMS_HZ: Final = (0.2, 0.6)
"""Lowest and highest frequency of random motions of arms [Hz]."""
ARMS_RAMP_S: Final = 2.0
"""Time in which random motions of arms build up [s]."""
LESS: Final = 0.9
"""Factor by which the turn of each step shrinks until friction suffices for it."""
LEAST_RAD: Final = 0.005
"""A smaller turn of a step shrinks to zero [rad]."""
BESIDE_M: Final = 0.02
"""If a foot stands farther than this from its place beside the other feet, one more step is taken [m]."""


class Oscillation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A motion of the centre of mass relative to the home pose, ``centre + amplitude sin 2πft``.

    Attributes:
        amplitude_m: Amplitude along x, y and z.
        centre_m: Centre of the oscillation.
        frequency_hz: Frequency of the oscillation.
        ramp_s: Time in which the motion builds up from rest.
    """

    amplitude_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    centre_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    frequency_hz: Positive = 0.5
    ramp_s: Positive = 1.0


class Reach(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A hand moves through points, smoothly and from rest to rest.

    Attributes:
        frame: Frame of the hand; null for no motion.
        through_m: The points relative to the hand in the home pose, world axes.
        each_s: Mean time from point to point.
    """

    frame: str | None = None
    through_m: tuple[tuple[float, float, float], ...] = ((0.15, 0.0, 0.15), (0.2, 0.1, 0.25), (0.0, 0.0, 0.0))
    each_s: Positive = 1.2


class Stand:
    """A planner: all feet stand, the centre of mass oscillates, and a hand may move through points."""

    def __init__(self, body: Body, sway: Oscillation, reach: Reach) -> None:
        """Sway `body`, and let its hand reach if it has one."""
        self._body, self._sway, self._start = body, sway, body.system.com(body.home.q)
        for task in body.trunk:
            task.set(body.places(body.home.q)[task.frame])
        if body.hand is not None:
            hand = body.places(body.home.q)[body.hand.frame].translation
            points = hand + np.array([(0.0, 0.0, 0.0), *reach.through_m])
            self._way, self._reach_s = (
                CubicSpline(np.linspace(0.0, 1.0, len(points)), points),
                len(reach.through_m) * reach.each_s,
            )

    def __call__(self, state: State) -> Reference:
        """Set the tasks of centre of mass and hand for this instant; return `Body.reference`."""
        own, body = self._sway, self._body
        body.flatten(state.q)
        r, dr, ddr = dcm.smooth(state.t / own.ramp_s)
        dr, ddr = dr / own.ramp_s, ddr / own.ramp_s**2
        w = 2.0 * np.pi * own.frequency_hz
        amplitude, sin, cos = np.array(own.amplitude_m), np.sin(w * state.t), np.cos(w * state.t)
        x, dx, ddx = np.array(own.centre_m) + amplitude * sin, w * amplitude * cos, -(w**2) * amplitude * sin
        body.follow(body.com, self._start + r * x, dr * x + r * dx, ddr * x + 2.0 * dr * dx + r * ddx)
        if body.hand is not None:
            s, ds, dds = dcm.smooth(state.t / self._reach_s)
            ds, dds, way = ds / self._reach_s, dds / self._reach_s**2, self._way
            body.follow(body.hand, way(s), ds * way(s, 1), ds**2 * way(s, 2) + dds * way(s, 1))
        return body.reference()


@dataclass(frozen=True, slots=True)
class Landing:
    """A touchdown.

    Attributes:
        foot: The foot.
        late_s: Delay of the sensed touchdown after the plan [s].
        off_m: Horizontal distance of the foot's centre from its planned position [m].
    """

    foot: int
    late_s: float
    off_m: float


class Arms:
    """Random motions about the home pose of the joints that move neither trunk nor feet: sines, built up from rest."""

    def __init__(self, body: Body, amplitude_rad: float, rng: np.random.Generator) -> None:
        """Draw frequencies and phases; amplitudes leave all joints within their limits."""
        system, home = body.system, body.system.joint_positions(body.home.q)
        low, high = system.limits.lower, system.limits.upper
        room = np.maximum(np.minimum(home - low, high - home), 0.0)
        self._amplitude = np.where(body.idle, np.minimum(amplitude_rad, room), 0.0)
        self._w = 2.0 * np.pi * rng.uniform(*ARMS_HZ, len(home))
        self._phase, self._h = rng.uniform(0.0, 2.0 * np.pi, len(home)), body.h

    def __call__(self, reference: Reference, t: float) -> Reference:
        """Return `reference` with the motion of the arms at `t` [s] added."""
        r, dr, ddr = dcm.smooth(t / ARMS_RAMP_S)
        dr, ddr = dr / ARMS_RAMP_S, ddr / ARMS_RAMP_S**2
        angle, w = self._w * t + self._phase, self._w
        x, dx = self._amplitude * np.sin(angle), self._amplitude * w * np.cos(angle)
        a = ddr * x + 2.0 * dr * dx - r * w**2 * x
        q, v = reference.q + r * x, reference.v + dr * x + r * dx - 0.5 * self._h * a
        return msgspec.structs.replace(reference, q=q, v=v, a=reference.a + a)


class Walk:
    """A planner: steps, with a motion of the centre of mass that stance feet can support (`idcontrol.planners.dcm`).

    A foot in the air follows its path, and then continues downwards until a force on it is sensed; then it stands. If
    `Steps.reach_m` is positive, steps are replanned when the measured centre of mass leaves its path
    (`idcontrol.planners.capture`), and afterwards also when a foot lands early or elsewhere. Then a standing machine
    also takes steps when its soles cannot balance it, and one more step if its feet are not beside each other. Along a
    route, the steps are placed anew at each liftoff.

    Attributes:
        walk: The walk, with the turn of the first plan and its longest times of single and double support.
        steps: The steps; more are added as they are needed.
        plan: The horizontal motion of the centre of mass.
        landings: The touchdowns so far.
        caught: Number of times that steps were replanned, without the placements along a route.
        end_s: Time at which the walk comes to rest if no steps are replanned [s].
    """

    def __init__(
        self,
        body: Body,
        walk: Steps,
        *,
        begin_s: float = 1.0,
        lower_m: float = 0.0,
        way: route.Way | None = None,
        mu: float = np.inf,
        norm: int = 2,
    ) -> None:
        """Plan the walk from the home pose, which faces along the x axis.

        Args:
            body: Body of the machine that walks.
            walk: The steps.
            begin_s: Time for shifting the load before the first step, and before the step that brings the feet together
                [s].
            lower_m: Distance by which the centre of mass is lowered before the first step [m].
            way: A route, in place of the equal steps of `walk`.
            mu: Friction coefficient that the plan assumes.
            norm: Order of the norm of friction (`idcontrol.planners.dcm.slowed`).

        Raises:
            UnknownName: A foot in `walk.first` or `walk.together` is not a foot of the robot.
            InputError: `walk.together` names a foot twice, or all feet in one group; or friction is too low to step.
        """
        self._body, self._home = body, body.places(body.home.q)
        self._feet, self._groups = body.centres(body.home.q), body.groups(walk)
        self._route = way
        *_, height = start = body.system.com(body.home.q)
        self._heights, self._begin_s = (np.array(height), np.array(height - lower_m)), begin_s
        self._lowered_s = begin_s - min(walk.double_s, 0.5 * begin_s)
        self.walk, self.steps, self.plan = self._planned(walk, start[:2], mu, norm)
        times = self.plan.begin
        self.end_s = (float(times[-1]) if way is None else float(way.times[-1]) + ROUTE_ENDS_S) + dcm.SETTLE_S
        self.landings: list[Landing] = []
        self.caught, self._strayed = 0, False
        width = float(np.ptp(body.corners(body.home.q, [0])[:, 1]))
        distance = float(np.linalg.norm(self._feet[1] - self._feet[0]))
        # a gap as wide as a sole remains
        self._apart = min(capture.APART, 2.0 * width / distance) if width > 0.0 else capture.APART
        self._stood, self._passed = self._feet.copy(), 0
        self._done, self._starts, self._ways = 0, dict[int, Any](), dict[int, tuple[float, dcm.Motion]]()

    def _planned(self, walk: Steps, com: Array, mu: float, norm: int) -> tuple[Steps, list[dcm.Footstep], dcm.DcmPlan]:
        """Return a walk within friction, its steps, and its motion from rest at the centre of mass `com`, shape (2,).

        If the machine would tip during a longer swing, it turns less instead.
        """
        omega, inertia = float(np.sqrt(dcm.GRAVITY / self._heights[1])), self._body.yaw_inertia()
        way, feet, groups, begin_s = self._route, self._feet, self._groups, self._begin_s
        while True:
            if way is None:
                steps = dcm.footsteps(walk, feet, groups, begin_s)
            else:
                steps = route.footsteps(way, walk, feet, feet, groups, begin_s)
            times, zmp = dcm.zmp_knots(steps, feet, min(walk.double_s, 0.5 * begin_s), 0.0)
            zmp[0] = com
            if not steps:
                return walk, steps, dcm.dcm_plan(times, zmp, omega, com, com)
            twists = turning.twists(steps, feet, walk.height_m, inertia)
            slower = dcm.slowed(times, zmp, omega, com, mu, norm, twists)
            plan = dcm.dcm_plan(slower, zmp, omega, com, com)
            most = dcm.TURNING_SHARE * mu * dcm.GRAVITY
            fixed = way is not None or walk.turn_rad == 0.0  # a route sets the turns of its steps
            if fixed or dcm.turning_needs(plan, slower, twists, norm).max() <= most:
                break
            less = LESS * walk.turn_rad if abs(walk.turn_rad) > LEAST_RAD else 0.0
            walk = msgspec.structs.replace(walk, turn_rad=less)
        if slower is times:
            return walk, steps, plan
        steps, lasts = dcm.retimed(steps, slower), np.diff(slower)
        single_s = float(lasts[2::2].max())
        if single_s < (1.0 + 1e-9) * walk.single_s:  # the same but for rounding
            single_s = walk.single_s
        walk = msgspec.structs.replace(walk, single_s=single_s, double_s=float(lasts[1::2].max()))
        return walk, steps, plan

    def __call__(self, state: State) -> Reference:
        """Set all tasks for this instant; return `Body.reference`."""
        body, t = self._body, state.t
        body.flatten(state.q)
        if self.walk.reach_m > 0.0:
            self._catch(state)
        ahead, up = dcm.com_at(self.plan, t), dcm.blend(*self._heights, 0.0, self._lowered_s, t)
        body.follow(body.com, *(np.array([*xy, z]) for xy, z in zip(ahead, up, strict=True)))
        yaw, rate, turning = self._heading(t)
        upright, spin, spin_up = turned(yaw), np.array([0.0, 0.0, rate]), np.array([0.0, 0.0, turning])
        for task in body.trunk:
            body.follow(task, upright @ self._home[task.frame].rotation, spin, spin_up)
        if self._done < len(self.steps):
            self._step(state, self.steps[self._done])
        return body.reference()

    def _heading(self, t: float) -> tuple[float, float, float]:
        """Return the mean yaw of the feet at `t`, its rate and its acceleration [rad, rad/s, rad/s²]."""
        past = max(self._done - 1, 0)  # a foot that landed early may still turn
        for step in self.steps[self._passed : past]:
            self._stood[list(step.feet)] = step.places
        self._passed = past
        return dcm.heading_at(self.steps[past:], self._stood, t)

    def _catch(self, state: State) -> None:
        """Replan steps and motion from the measured centre of mass if it has left its path.

        If it is on its path after the last step, plan a step that brings the feet beside each other if they are not.
        """
        t, omega, ahead = state.t, self.plan.omega, self.steps[self._done :]
        # a fast swing may move the centre of mass: feedback against it would need zero-moment points beyond the soles
        pendulum_m = float(self._heights[1]) if self.caught and ahead else 0.0
        if pendulum_m != self._body.com.pendulum_m:
            self._body.com.pendulum_m = pendulum_m
        com, planned = self._body.moving_com(state), dcm.com_at(self.plan, t)
        off = com.value - planned.value + (com.velocity - planned.velocity) / omega
        if ahead and t >= ahead[0].land_s - capture.SOONER_S:
            return
        # until the planned landing, the plan leaves the zero-moment point under the other feet
        strayed, self._strayed = self._strayed and bool(ahead), False
        if math.hypot(*off) < LEAVES_M and not strayed:
            if not ahead and t > self.plan.begin[-1] and (closing := self._closing(state)):
                self._go_on(self._best([closing], state, com), t)
            return
        feet = self._body.centres(state.q)
        # a foot that is about to lift does not wait for another plan
        soon = bool(ahead) and ahead[0].lift_s < t + capture.STARTS_S
        if ahead and ((going := self._best([ahead], state, com)).missing == 0.0 or soon):
            self._go_on(going, t)
            return
        if not ahead:
            soles = self._body.corners(state.q, range(len(feet)))
            centre = soles.mean(axis=0)
            if (leant := capture.leant(feet, centre + SURE * (soles - centre), self.plan, t, com)) is not None:
                self.plan = leant
                return
        orders = [self._groups[k:] + self._groups[:k] for k in range(len(self._groups))]
        walks = [capture.on_the_spot(self.walk, feet, order, t + capture.STARTS_S) for order in orders]
        self._go_on(self._best([*walks, *([ahead] if ahead else [])], state, com), t)

    def _best(self, walks: Sequence[list[dcm.Footstep]], state: State, com: dcm.Motion) -> capture.Caught:
        """Replan the steps of each of `walks`; return the result with the least `missing`, then the least `effort`."""
        body, feet, options = self._body, self._body.centres(state.q), []
        for steps in walks:
            standing = [foot for foot in range(len(feet)) if foot not in steps[0].feet]
            soles = body.corners(state.q, standing)
            centre = soles.mean(axis=0)
            ground = capture.Ground(feet, centre + SURE * (soles - centre), self._feet, self._apart)
            options.append(capture.caught(steps, ground, self.walk, self.plan, state.t, com))
        return min(options, key=lambda option: (option.missing, option.effort))

    def _go_on(self, caught: capture.Caught, t: float) -> None:
        """Replace the motion, and all steps from the present one on; redirect feet in the air."""
        for foot in self._starts:
            step = self.steps[self._done]
            self._ways[foot] = t, self._way(foot, step.places[step.feet.index(foot)], step, t)
        self.steps[self._done :], self.plan = caught.steps, caught.plan
        self.caught += 1

    def _closing(self, state: State) -> list[dcm.Footstep]:
        """Return the step that brings the feet beside each other again; empty if they are beside each other."""
        feet, home = self._body.centres(state.q), self._feet
        group = self._groups[len(self.steps) % len(self._groups)]
        others = [foot for foot in range(len(feet)) if foot not in group]
        middle, beside = feet[others].mean(axis=0), home - home[others].mean(axis=0)
        places = np.array([dcm.compose(middle, beside[foot]) for foot in group])
        if np.abs(places - feet[list(group)])[:, :2].max() < BESIDE_M:
            return []
        lift = state.t + self._begin_s
        return [dcm.Footstep(group, lift, lift + self.walk.single_s, places)]

    def _step(self, state: State, step: dcm.Footstep) -> None:
        """Announce, begin or continue a step; it ends when all of its feet have landed."""
        body, t = self._body, state.t
        if t < step.lift_s:
            body.to_liftoff[list(step.feet)] = step.lift_s - t
            return
        here, load = body.places(state.q), body.pressed(state.forces)[:, 2]
        if not self._starts:
            if self._route is not None:
                step = self._lead(self._route, state)
            for foot in step.feet:
                start = self._starts[foot] = here[body.feet[foot].frame]
                still = np.zeros(2)
                self._ways[foot] = step.lift_s, dcm.Motion(start.act(body.centre[foot])[:2], still, still)
                body.lift(foot)
        enough = TOUCHING_N if t > step.land_s + LATE_S else TOUCH_SHARE * body.system.mass * dcm.GRAVITY
        for foot, place in zip(step.feet, step.places, strict=True):
            if foot not in self._starts:
                continue
            if t > step.lift_s + EARLIEST * (step.land_s - step.lift_s) and load[foot] > enough:
                off = float(np.linalg.norm(body.centres(state.q)[foot, :2] - place[:2]))
                self.landings.append(Landing(foot, t - step.land_s, off))
                strayed = off > LEAVES_M or t < step.land_s - EARLY_S
                self._strayed |= strayed and self.caught > 0  # a slightly sunk machine lands early in every step
                body.land(foot, here[body.feet[foot].frame])
                del self._starts[foot]
            else:
                self._swing(foot, place, step, t)
        if not self._starts:
            self._done += 1
            if self.walk.reach_m > 0.0 and t > step.land_s and self._done < len(self.steps):
                later = self.steps[self._done].land_s + t - step.land_s
                self.steps[self._done :] = capture.retimed(self.steps[self._done :], later, t)

    def _lead(self, way: route.Way, state: State) -> dcm.Footstep:
        """Place the present and all later steps along the route, from the measured feet; return the present step."""
        step, feet = self.steps[self._done], self._body.centres(state.q)
        k = self._groups.index(step.feet)
        ahead = route.footsteps(way, self.walk, feet, self._feet, self._groups[k:] + self._groups[:k], step.lift_s)
        led = self._best([ahead or [step]], state, dcm.com_at(self.plan, state.t))
        self.steps[self._done :], self.plan = led.steps, led.plan
        return led.steps[0]

    def _way(self, foot: int, place: Array, step: dcm.Footstep, t: float) -> dcm.Motion:
        """Return the horizontal motion of a foot in the air, from the last change of its path to rest at `place`."""
        since, begin = self._ways[foot]
        return dcm.toward(begin, place[:2], since, step.land_s, t)

    def _swing(self, foot: int, place: Array, step: dcm.Footstep, t: float) -> None:
        """Set the task of a foot in the air that moves to `place`."""
        body, start = self._body, self._starts[foot]
        centre = body.centre[foot]
        angle = pin.log3(start.rotation.T @ turned(place[2]) @ self._home[body.feet[foot].frame].rotation)
        turn = dcm.blend(np.zeros(3), angle, step.lift_s, step.land_s, t)
        rotation = start.rotation @ pin.exp3(turn.value)
        spin, spin_up = start.rotation @ turn.velocity, start.rotation @ turn.acceleration
        z = dcm.swing_height(self.walk, step, t)
        x, v, a = (np.array([*xy, up]) for xy, up in zip(self._way(foot, place, step, t), z, strict=True))
        x[2] += start.act(centre)[2]
        arm = -rotation @ centre  # converts the sole's centre to the frame's origin
        turns = pin.skew(spin)  # NumPy's cross product takes twenty times as long
        v = v + turns @ arm
        a = a + pin.skew(spin_up) @ arm + turns @ (turns @ arm)
        if body.feet[foot].kind == "position":
            body.follow(body.feet[foot], x + arm, v, a)
        else:
            pose = pin.SE3(rotation, x + arm)
            body.follow(body.feet[foot], pose, np.concatenate((v, spin)), np.concatenate((a, spin_up)))
