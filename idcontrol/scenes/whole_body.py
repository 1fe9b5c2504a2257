"""A machine under whole-body tasks: it sways, squats, reaches, lifts a foot or walks.

The centre of mass, the orientations of base and torso and the pose of a foot in the air are tasks (`idcontrol.tasks`);
the joints follow the home pose in the remaining directions. The planner for `idcontrol.loop.simulated.ticks`, a `Stand`
or a `Walk`, sets the references and the stance feet tick by tick.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import pinocchio as pin
from scipy.interpolate import CubicSpline

from idcontrol import controllers, plants, robots
from idcontrol.config.configuration import Duration, NotNegative, Positive, Rate
from idcontrol.contact.spheres import SphereContacts
from idcontrol.dynamics.system import System
from idcontrol.errors import InputError, UnknownName
from idcontrol.loop.simulated import Tick, ticks
from idcontrol.planners import dcm
from idcontrol.planners.dcm import Steps
from idcontrol.plants import SimulatedPlant
from idcontrol.record.scenery import Scenery
from idcontrol.scenes.disturbances import Delayed, Kicked, delay_periods, loaded
from idcontrol.scenes.settings import AssumedFriction, control_periods
from idcontrol.tasks import CoM, Frame, Posture, Task
from idcontrol.types import Array, ContactForces, Reference, State

TOUCH_SHARE: Final = 0.02
"""A foot has landed when the force on it exceeds this share of the weight."""
STANDS_S: Final = 6.0
"""Length of a run without steps [s]."""
EARLIEST: Final = 0.5
"""Share of a swing before which no force counts as touchdown, as the foot may still graze the ground at liftoff."""


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
    through_m: tuple[tuple[float, float, float], ...] = ((0.15, 0.0, 0.15), (0.2, -0.15, 0.25), (0.0, 0.0, 0.0))
    each_s: Positive = 1.2


class Push(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A push shorter than a tick, on all links in proportion to their masses.

    Attributes:
        at_s: Time of the push; null for none.
        impulse_n_s: Impulse, world frame.
    """

    at_s: NotNegative | None = None
    impulse_n_s: tuple[float, float, float] = (0.0, 20.0, 0.0)


class Unknown(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Effects unknown to the controller.

    Attributes:
        delay_s: Delay of the torques; a whole number of control periods.
        payload_share: Mass on the base, as a share of the robot's mass.
    """

    delay_s: NotNegative = 0.0
    payload_share: NotNegative = 0.0


class WholeBodyConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a run.

    Attributes:
        controller: Name of a controller that takes tasks; see ``idcontrol list controllers``.
        plant: Name; see ``idcontrol list plants``.
        robot: Name or path of the file of a robot on feet or soles.
        mu: Friction of the ground.
        duration_s: Length of the run; null ends it with the walk.
        rate_hz: Rate of the control loop.
        sway: Motion of the centre of mass while all feet stand.
        reach: Motion of a hand at the same time.
        walk: Steps; with a count of 0 all feet stay in place.
        begin_s: Time before the first step, in which the load shifts.
        lower_m: Lowering of the centre of mass in the same time, so that legs reach far enough.
        com_kp_1_s2: Stiffness of the task on the centre of mass.
        foot_kp_1_s2: Stiffness of the task on a foot in the air.
        push: A push.
        unknown: Effects unknown to the controller.
        friction: The assumed friction of the controller.
        ground: Settings of plants with soft or viscous ground.
        inverse: Settings of inverse-dynamics controllers.
    """

    controller: str = "id-coulomb-qp"
    plant: str = "coulomb-lcp"
    robot: str = "talos"
    mu: NotNegative = 0.6
    duration_s: Duration | None = None
    rate_hz: Rate = 1000.0
    sway: Oscillation = Oscillation()
    reach: Reach = Reach()
    walk: Steps = Steps()
    begin_s: Positive = 1.0
    lower_m: float = 0.0
    com_kp_1_s2: NotNegative = 100.0
    foot_kp_1_s2: NotNegative = 300.0
    push: Push = Push()
    unknown: Unknown = Unknown()
    friction: AssumedFriction = AssumedFriction()
    ground: plants.GroundSettings = plants.GroundSettings()
    inverse: controllers.InverseSettings = msgspec.field(default_factory=controllers.InverseSettings)


def turned(yaw: float) -> Array:
    """Return the rotation about the vertical by an angle [rad], shape (3, 3)."""
    return np.asarray(pin.exp3(np.array([0.0, 0.0, yaw])))


def trunk_frames(system: System, contacts: SphereContacts) -> tuple[str, ...]:
    """Return the links to keep upright: the base, and the torso if joints separate it from the base.

    The torso is the link, going outwards from the base, at which the heaviest limb without a foot branches off.
    """
    model = system.model
    walking = {int(j) for joint in contacts.mounting()[0] for j in model.supports[int(joint)]}
    data = model.createData()
    pin.computeSubtreeMasses(model, data)

    def limbs(joint: int) -> list[int]:
        return [int(child) for child in model.children[joint] if int(child) not in walking]

    torso = max(limbs(1), key=lambda child: data.mass[child], default=1)
    while len(limbs(torso)) == 1:
        (torso,) = limbs(torso)
    joints = (1, torso) if limbs(torso) and torso != 1 else (1,)
    bodies = [frame for frame in model.frames if frame.type == pin.BODY]
    return tuple(next(str(frame.name) for frame in bodies if frame.parentJoint == joint) for joint in joints)


class Body:
    """The tasks of a machine, and the stance of its n feet.

    Attributes:
        names: Names of the feet.
        home: State in the home pose.
        contacts: Corners of its feet, on a separate system.
        com: Task on the centre of mass.
        trunk: Tasks on the orientations of base and torso.
        feet: Tasks on the feet; without weight while a foot stands.
        hand: Task on the position of a hand; None if no hand moves.
        centre: Centre of each foot's corners in its frame, shape (n, 3) [m].
        stance: True for feet in stance, shape (n,).
        to_liftoff: Time until each foot leaves the ground, shape (n,) [s]; inf without a planned liftoff.
    """

    def __init__(self, robot: robots.Robot, config: WholeBodyConfig) -> None:
        """Make the tasks of `robot`.

        Raises:
            InputError: The robot has no floating base or fewer than two feet.
        """
        self.names = robot.patches
        if robot.description.base != "free-flyer" or len(self.names) < 2:
            raise InputError(f"robot {robot.name!r} needs a floating base and two feet or more; take talos, g1 or go1")
        self.contacts = robot.contacts(config.mu)
        self.system, self.home = self.contacts.system, robot.standing_state(self.contacts.system)
        patch, n = self.contacts.patch, len(self.names)
        frames = [robot.spheres[int(np.flatnonzero(patch == i)[0])].frame for i in range(n)]
        offsets = np.array([sphere.offset_m for sphere in robot.spheres])
        self.centre = np.array([offsets[patch == i].mean(axis=0) for i in range(n)])
        self.com = CoM(kp=config.com_kp_1_s2)
        self.trunk = tuple(Frame(name, "orientation") for name in trunk_frames(self.system, self.contacts))
        self.feet = tuple(
            Frame(
                frame,
                "pose" if np.count_nonzero(patch == i) > 1 else "position",
                kp=config.foot_kp_1_s2,
                weight=0.0,
            )
            for i, frame in enumerate(frames)
        )
        self.hand = None if config.reach.frame is None else Frame(config.reach.frame, "position")
        self._h, self._held = 1.0 / config.rate_hz, robot.standing_reference()
        self.stance = np.ones(n, dtype=np.bool_)
        self._since, self.to_liftoff = np.full(n, np.inf), np.full(n, np.inf)

    def groups(self, walk: Steps) -> list[tuple[int, ...]]:
        """Return the groups of feet that step together, in order.

        Raises:
            UnknownName: The foot does not exist.
            InputError: A foot is in two groups, or a group includes all feet.
        """
        groups = [(name,) for name in self.names] if walk.together is None else list(walk.together)
        # by default the foot on the side of the motion begins, so that feet do not approach each other
        right = (walk.sideways_m, walk.turn_rad) < (0.0, 0.0)
        first = self.names[1 if right else 0] if walk.first is None else walk.first
        stepping = [name for group in groups for name in group]
        for name in (*stepping, first):
            if name not in self.names:
                raise UnknownName("foot", name, self.names)
        if len(set(stepping)) < len(stepping) or any(len(group) >= len(self.names) for group in groups):
            raise InputError(f"walk.together: name each foot once and never all feet in one group; it is {groups}")
        begin = next((i for i, group in enumerate(groups) if first in group), 0)
        return [tuple(map(self.names.index, group)) for group in (*groups[begin:], *groups[:begin])]

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Return all tasks for the controller."""
        hand = () if self.hand is None else (self.hand,)
        return (self.com, *self.trunk, *self.feet, *hand, Posture(kp=30.0, weight=1e-6))

    def places(self, q: Array) -> dict[str, Any]:
        """Return the placements of trunk and feet by frame, ``pinocchio.SE3``, in configuration `q`."""
        model, data = self.system.model, self.system.scratch
        pin.framesForwardKinematics(model, data, q)
        return {task.frame: data.oMf[self.system.frame(task.frame)].copy() for task in (*self.trunk, *self.feet)}

    def follow(self, task: CoM | Frame, place: Any, velocity: Array, acceleration: Array) -> None:
        """Set a task to a motion; controllers use the mean velocity over the period that ends at an instant."""
        task.set(place, velocity - 0.5 * self._h * acceleration, acceleration)

    def lift(self, foot: int) -> None:
        """Let a foot leave the ground."""
        self.stance[foot], self._since[foot], self.to_liftoff[foot] = False, np.inf, np.inf
        self.feet[foot].weight = 1.0

    def land(self, foot: int) -> None:
        """Let a foot stand from now on."""
        self.stance[foot], self._since[foot] = True, -self._h
        self.feet[foot].weight = 0.0

    def pressed(self, forces: ContactForces | None) -> Array:
        """Return the sensed vertical force on each foot, shape (n,) [N]; zero without contact."""
        load = np.zeros(len(self.names))
        if forces is not None:
            load[forces.identity] = forces.force[:, 2]
        return load

    def reference(self) -> Reference:
        """Return the home pose and the stance feet, one period after the last call."""
        self._since += self._h
        stands = {
            "stance": self.stance.copy(),
            "since_touchdown": self._since.copy(),
            "to_liftoff": self.to_liftoff.copy(),
        }
        return msgspec.structs.replace(self._held, **stands)


class Stand:
    """A planner: all feet stand, the centre of mass oscillates, and a hand may move through points."""

    def __init__(self, body: Body, config: WholeBodyConfig) -> None:
        """Take sway and reach of `config`.

        Raises:
            UnknownName: The hand is no frame of the robot.
        """
        self._body, self._sway, self._start = body, config.sway, body.system.com(body.home.q)
        for task in body.trunk:
            task.set(body.places(body.home.q)[task.frame])
        if body.hand is not None:
            body.system.frame(body.hand.frame)
            hand = body.system.scratch.oMf[body.system.frame(body.hand.frame)].translation
            points = hand + np.array([(0.0, 0.0, 0.0), *config.reach.through_m])
            self._way, self._reach_s = (
                CubicSpline(np.linspace(0.0, 1.0, len(points)), points),
                len(config.reach.through_m) * config.reach.each_s,
            )

    def __call__(self, state: State) -> Reference:
        """Set centre of mass and hand for this instant."""
        own, body = self._sway, self._body
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
        off_m: Distance of the foot's centre from its planned position [m].
    """

    foot: int
    late_s: float
    off_m: float


class Walk:
    """A planner: steps, with a motion of the centre of mass that stance feet can support (`idcontrol.planners.dcm`).

    A foot in the air follows its path and continues downwards until it senses a force; then it stands.

    Attributes:
        steps: The steps.
        plan: The horizontal motion of the centre of mass.
        landings: The touchdowns so far.
        end_s: Time at which the walk comes to rest [s].
    """

    def __init__(self, body: Body, config: WholeBodyConfig) -> None:
        """Plan the walk from the home pose, which faces along the x axis.

        Raises:
            UnknownName: `walk.first` is not a foot of the robot.
        """
        self._body, self._walk, self._home = body, config.walk, body.places(body.home.q)
        centres = [self._centre(foot, self._home) for foot in range(len(body.names))]
        self._feet = np.array([[x, y, 0.0] for x, y, _ in centres])
        self.steps = dcm.footsteps(config.walk, self._feet, body.groups(config.walk), config.begin_s)
        shift = min(config.walk.double_s, 0.5 * config.begin_s)
        times, zmp = dcm.zmp_knots(self.steps, self._feet, shift, 0.0)
        *zmp[0], height = start = body.system.com(body.home.q)
        self._heights, self._lowered_s = (np.array(height), np.array(height - config.lower_m)), times[1]
        omega = float(np.sqrt(dcm.GRAVITY / self._heights[1]))
        self.plan = dcm.dcm_plan(times, zmp, omega, start[:2], start[:2])
        self.end_s = float(times[-1]) + dcm.SETTLE_S
        self.landings: list[Landing] = []
        self._done, self._starts = 0, dict[int, Any]()

    def __call__(self, state: State) -> Reference:
        """Set all tasks for this instant."""
        body, t = self._body, state.t
        ahead, up = dcm.com_at(self.plan, t), dcm.blend(*self._heights, 0.0, self._lowered_s, t)
        body.follow(body.com, *(np.append(xy, z) for xy, z in zip(ahead, up, strict=True)))
        yaw, rate, turning = dcm.heading_at(self.steps, self._feet, t)
        spin = np.array([0.0, 0.0, 1.0])
        for task in body.trunk:
            body.follow(task, turned(yaw) @ self._home[task.frame].rotation, rate * spin, turning * spin)
        if self._done < len(self.steps):
            self._step(state, self.steps[self._done])
        return body.reference()

    def _step(self, state: State, step: dcm.Footstep) -> None:
        """Announce, begin or continue a step, which ends when all of its feet have landed."""
        body, t = self._body, state.t
        if t < step.lift_s:
            body.to_liftoff[list(step.feet)] = step.lift_s - t
            return
        here, load = body.places(state.q), body.pressed(state.forces)
        if not self._starts:
            for foot in step.feet:
                self._starts[foot] = here[body.feet[foot].frame]
                body.lift(foot)
        enough = TOUCH_SHARE * body.system.mass * dcm.GRAVITY
        for foot, place in zip(step.feet, step.places, strict=True):
            if foot not in self._starts:
                continue
            if t > step.lift_s + EARLIEST * (step.land_s - step.lift_s) and load[foot] > enough:
                off = float(np.linalg.norm(self._centre(foot, here)[:2] - place[:2]))
                self.landings.append(Landing(foot, t - step.land_s, off))
                body.land(foot)
                del self._starts[foot]
            else:
                self._swing(foot, place, step, t)
        self._done += not self._starts

    def _swing(self, foot: int, place: Array, step: dcm.Footstep, t: float) -> None:
        """Set the task of a foot in the air that moves to `place`."""
        body, start = self._body, self._starts[foot]
        centre = body.centre[foot]
        angle = pin.log3(start.rotation.T @ turned(place[2]) @ self._home[body.feet[foot].frame].rotation)
        turn = dcm.blend(np.zeros(3), angle, step.lift_s, step.land_s, t)
        rotation = start.rotation @ pin.exp3(turn.value)
        spin, spin_up = start.rotation @ turn.velocity, start.rotation @ turn.acceleration
        begin = start.act(centre)
        ahead = dcm.blend(begin[:2], place[:2], step.lift_s, step.land_s, t)
        z = dcm.swing_height(self._walk, step, t)
        x, v, a = (np.append(xy, up) for xy, up in zip(ahead, z, strict=True))
        x[2] += begin[2]
        arm = -rotation @ centre  # converts the sole's centre to the frame's origin
        v = v + np.cross(spin, arm)
        a = a + np.cross(spin_up, arm) + np.cross(spin, np.cross(spin, arm))
        if body.feet[foot].kind == "position":
            body.follow(body.feet[foot], x + arm, v, a)
        else:
            body.follow(body.feet[foot], pin.SE3(rotation, x + arm), np.append(v, spin), np.append(a, spin_up))

    def _centre(self, foot: int, frames: dict[str, Any]) -> Array:
        return np.asarray(frames[self._body.feet[foot].frame].act(self._body.centre[foot]))


class WholeBodyScene:
    """The parts of a run.

    Attributes:
        config: The configuration.
        body: Tasks and feet.
        motion: The planner of the body.
        plant: The plant with its disturbances.
    """

    def __init__(self, config: WholeBodyConfig) -> None:
        """Load the robot and build all parts.

        Raises:
            UnknownName: The robot, controller, plant or foot does not exist.
            InputError: The settings do not fit together.
        """
        if config.reach.frame is not None and not config.reach.through_m:
            raise InputError("reach.through_m has no point; give at least one")
        if config.reach.frame is not None and config.walk.count:
            raise InputError("reach.frame is for a machine that stands; set walk.count=0 or leave it out")
        self.config, self.robot = config, robots.load(config.robot)
        self.body = Body(self.robot, config)
        self.motion = Walk(self.body, config) if config.walk.count else Stand(self.body, config)
        law, assumed = controllers.contact_law(config.controller), config.friction
        self.mu_controller = assumed.of_controller(config.mu, law)
        self._controller = controllers.make(
            config.controller,
            self.robot,
            mu=self.mu_controller,
            rate_hz=config.rate_hz,
            settings=config.inverse,
            tasks=self.body.tasks,
        )
        self.plant = self._plant()

    @property
    def duration_s(self) -> float:
        """Length of the run [s]."""
        if self.config.duration_s is not None:
            return self.config.duration_s
        return self.motion.end_s if isinstance(self.motion, Walk) else STANDS_S

    def ticks(self) -> Iterator[Tick]:
        """Run on the simulated clock."""
        steps, h = control_periods(self.duration_s, self.config.rate_hz), 1.0 / self.config.rate_hz
        patch = self.body.contacts.patch
        return ticks(self.plant, self.motion, self._controller, self.body.home, h=h, steps=steps, patch=patch)

    def scenery(self) -> Scenery:
        """Return the robot and the ground for display (`idcontrol view`)."""
        name = self.config.robot if self.config.robot == self.robot.name else str(self.robot.path.resolve())
        nominal = self.mu_controller if np.isfinite(self.mu_controller) else None
        return Scenery(robot=name, mu=self.config.mu if np.isfinite(self.config.mu) else None, mu_told=nominal)

    def _plant(self) -> SimulatedPlant:
        config, system, h = self.config, self.robot.system(), 1.0 / self.config.rate_hz
        if config.unknown.payload_share != 0.0:
            system = loaded(system, config.unknown.payload_share)
        mu = config.friction.of_plant(config.mu, plants.contact_law(config.plant))
        contacts = self.robot.contacts(mu, system=system)
        setup = plants.Setup(system=system, contacts=contacts, dt=h, settings=config.ground, robot=self.robot, mu=mu)
        plant = plants.build(config.plant, setup)
        if config.push.at_s is not None:
            velocity = np.array(config.push.impulse_n_s) / system.mass
            plant = Kicked(plant, round(config.push.at_s * config.rate_hz), velocity)
        if config.unknown.delay_s > 0.0:
            plant = Delayed(plant, delay_periods("unknown.delay_s", config.unknown.delay_s, h))
        return plant
