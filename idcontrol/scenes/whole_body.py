"""A machine under whole-body tasks: it sways, squats, reaches, lifts a foot or walks.

The centre of mass, the orientations of base and torso, a hand and a foot in the air have tasks (`idcontrol.tasks`). The
joints follow the home pose as far as these tasks leave them free. In each tick a `Stand`, a `Walk`
(`idcontrol.scenes.motions`) or a `Press` (`idcontrol.scenes.press`) sets the references and the stance feet.
"""

import itertools
from collections.abc import Iterator
from typing import Annotated, Final

import msgspec
import numpy as np
import pinocchio as pin

from idcontrol import controllers, plants, robots
from idcontrol.config.configuration import Duration, NotNegative, Positive, Rate, Seed
from idcontrol.contact.spheres import SphereContacts
from idcontrol.errors import InputError
from idcontrol.loop.machine import specific_force
from idcontrol.loop.simulated import Sensor, Tick, ticks
from idcontrol.planners import route
from idcontrol.planners.dcm import Steps
from idcontrol.planners.route import Route
from idcontrol.plants import SimulatedPlant
from idcontrol.record.scenery import DrawableBody, Scenery
from idcontrol.scenes.body import Body
from idcontrol.scenes.disturbances import Delayed, Kicked, delay_periods, loaded, scaled
from idcontrol.scenes.motions import Arms, Oscillation, Reach, Stand, Walk
from idcontrol.scenes.press import Press, Wall
from idcontrol.scenes.settings import AssumedFriction, control_periods
from idcontrol.sensing import Sensing, sense
from idcontrol.types import Array, Sensed, State

STANDS_S: Final = 6.0
"""Length of a run without steps [s]."""
PUSHED_M_S: Final = (0.0, 0.22, 0.0)
"""Velocity that a push adds if neither its impulse nor its force is set [m/s]."""


ROUTE_STREAM, PUNCH_STREAM, ARMS_STREAM = 1, 2, 3
"""Numbers that extend the seed for the route, the punches and the motion of the arms."""
PANEL_M: Final = (0.02, 0.6, 0.6)
"""Size of the part of a wall that is drawn [m]."""


class Push(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A push on all links in proportion to their masses: an impulse within a tick, or a horizontal force.

    Attributes:
        at_s: Time of the push; null for none.
        impulse_n_s: Impulse, world frame; null for the mass times 0.22 m/s, to the left (20 N s for talos).
        force_n: Horizontal force, instead of an impulse; null for none.
        lasts_s: Duration of the force; a whole number of control periods.
        direction_deg: Direction of the force: 0 is forward, 90 to the left.
    """

    at_s: NotNegative | None = None
    impulse_n_s: tuple[float, float, float] | None = None
    force_n: NotNegative | None = None
    lasts_s: Positive = 0.08
    direction_deg: float = 0.0


class Punches(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pushes on all links: one between consecutive waypoints, at a random time and in a random horizontal direction.

    Attributes:
        force_n: Smallest and largest force, drawn for each punch; null for no punches.
        lasts_s: Duration of each force; a whole number of control periods.
    """

    force_n: tuple[NotNegative, NotNegative] | None = None
    lasts_s: Positive = 0.08


class Unknown(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Effects unknown to the controller.

    Attributes:
        delay_s: Delay of the torques; a whole number of control periods.
        payload_share: Mass on the base, as a share of the robot's mass.
        mass_error: Relative error: the masses and inertias of the plant's links are (1 + error) times the controller's.
        wall_m: Distance by which the true wall is farther than the assumed wall; negative if it is nearer.
    """

    delay_s: NotNegative = 0.0
    payload_share: NotNegative = 0.0
    mass_error: Annotated[float, msgspec.Meta(gt=-1, le=10)] = 0.0
    wall_m: float = 0.0


class WholeBodyConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a run.

    Attributes:
        controller: Name of a controller that takes tasks; see ``idcontrol list controllers``.
        plant: Name; see ``idcontrol list plants``.
        robot: Name or path of the file of a robot on feet or soles.
        mu: Friction of the ground.
        duration_s: Length of the run; null for the length of the walk, or 6 s without steps.
        rate_hz: Rate of the control loop.
        sway: Motion of the centre of mass while all feet stand.
        reach: Motion of a hand while all feet stand.
        wall: A wall in front of the hand of `reach`, and the force of the hand on it.
        walk: Steps; with a count of 0, feet step only along `route`, or to catch a pushed machine (`walk.reach_m`).
        begin_s: Time before the first step, in which the load is transferred to the stance feet; also before the
            step that brings the feet together after a push.
        lower_m: Lowering of the centre of mass during `begin_s`, so that legs reach far enough.
        com_kp_1_s2: Stiffness of the task on the centre of mass.
        foot_kp_1_s2: Stiffness of the task on a foot in the air.
        trunk_kp_1_s2: Stiffness of the tasks on the orientations of base and torso.
        route: Waypoints, in place of equal steps; `walk` gives the times of steps.
        seed: Seed of route, punches and arms.
        arms_rad: Amplitude of random motions of joints that move neither trunk nor feet.
        push: A push.
        punches: Pushes along the route.
        unknown: Effects unknown to the controller.
        sensing: Delay, bias, noise and estimated base of the state that planner and controller get.
        friction: Friction assumed by the controller.
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
    wall: Wall = Wall()
    walk: Steps = Steps()
    begin_s: Positive = 1.0
    lower_m: float = 0.0
    com_kp_1_s2: NotNegative = 100.0
    foot_kp_1_s2: NotNegative = 300.0
    trunk_kp_1_s2: NotNegative = 100.0
    route: Route = Route()
    seed: Seed = 0
    arms_rad: NotNegative = 0.0
    push: Push = Push()
    punches: Punches = Punches()
    unknown: Unknown = Unknown()
    sensing: Sensing = Sensing()
    friction: AssumedFriction = AssumedFriction()
    ground: plants.GroundSettings = plants.GroundSettings()
    inverse: controllers.InverseSettings = msgspec.field(default_factory=controllers.InverseSettings)


class WholeBodyScene:
    """The parts of a run.

    Attributes:
        config: The configuration.
        robot: The robot, in front of the assumed wall if there is one.
        friction: Metrics of the friction (`AssumedFriction.report`).
        mu_plant: Friction coefficient along each tangent of the plant's friction pyramid.
        mu_controller: Friction coefficient along each tangent, as assumed by the controller.
        way: The route of a walk; None without waypoints.
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
        _require_fit(config)
        self.config, self.robot = config, _at_wall(config)
        self.body = Body(
            self.robot,
            mu=config.mu,
            rate_hz=config.rate_hz,
            com_kp_1_s2=config.com_kp_1_s2,
            foot_kp_1_s2=config.foot_kp_1_s2,
            trunk_kp_1_s2=config.trunk_kp_1_s2,
            hand=None if self.robot.walls else config.reach.frame,
        )
        self.friction = config.friction.report(config.mu, config.plant, config.controller)
        self.mu_plant, self.mu_controller = self.friction["mu_plant"], self.friction["mu_controller"]
        contacts = self.robot.contacts(self.mu_controller, orientation=config.friction.turn_rad)
        self.way = self._drawn_way()
        self.motion = self._motion(contacts)
        needs = {"push.at_s": config.push.at_s, "reach": self._reached_s()}
        for what, until_s in needs.items():
            if until_s is not None and until_s >= self.duration_s:
                raise InputError(
                    f"{what} takes until {until_s:g} s, but the run ends at {self.duration_s:g} s; set duration_s"
                )
        self._controller = controllers.make(
            config.controller,
            self.robot,
            mu=self.mu_controller,
            rate_hz=config.rate_hz,
            settings=config.inverse,
            tasks=self.body.tasks,
            contacts=contacts,
        )
        swings, drawn = config.arms_rad > 0.0, np.random.default_rng([config.seed, ARMS_STREAM])
        self._arms = Arms(self.body, config.arms_rad, drawn) if swings else None
        self.plant, self._sense = self._plant(), self._sensor()

    @property
    def duration_s(self) -> float:
        """Length of the run [s]."""
        if self.config.duration_s is not None:
            return self.config.duration_s
        return self.motion.end_s if isinstance(self.motion, Walk) else STANDS_S

    def ticks(self) -> Iterator[Tick]:
        """Yield the ticks of the run, on the simulated clock."""
        steps, h = control_periods(self.duration_s, self.config.rate_hz), 1.0 / self.config.rate_hz
        patch = self.body.contacts.patch
        motion, arms = self.motion, self._arms
        return ticks(
            self.plant,
            motion if arms is None else lambda state: arms(motion(state), state.t),
            self._controller,
            self.body.home,
            h=h,
            steps=steps,
            sense=self._sensor(),
            patch=patch,
        )

    def _motion(self, contacts: SphereContacts) -> Walk | Stand | Press:
        """Return the planner; a `Press` moves the wall that the controller's `contacts` assume."""
        config, body = self.config, self.body
        if _steps(config):
            pyramid = controllers.contact_law(config.controller).cone == "pyramid"
            return Walk(
                body,
                config.walk,
                begin_s=config.begin_s,
                lower_m=config.lower_m,
                way=self.way,
                mu=self.mu_controller,
                norm=1 if pyramid else 2,
            )
        stand = Stand(body, config.sway, config.reach)
        if not self.robot.walls:
            return stand
        # the hand slides on purpose, and its sensed friction is the target: the cone only has to contain it
        contacts.mu[-1] = np.sqrt(2.0) * config.friction.best(config.mu)
        return Press(body, stand, config.reach, config.wall, contacts, config.inverse.landing.decay_s)

    def _drawn_way(self) -> route.Way | None:
        """Return the route from the home pose; None without waypoints."""
        config = self.config
        if config.route.count == 0:
            return None
        rng = np.random.default_rng([config.seed, ROUTE_STREAM])
        return route.drawn(config.route, np.zeros(3), config.begin_s, rng)

    def _reached_s(self) -> float | None:
        """Return the expected end of the motion of a hand [s]; None if no hand moves."""
        if isinstance(self.motion, Press):
            return self.motion.end_s
        reach = self.config.reach
        return None if reach.frame is None else len(reach.through_m) * reach.each_s

    def scenery(self) -> Scenery:
        """Return the robot, the ground and, if there is one, the wall for display (`idcontrol view`)."""
        name = self.config.robot if self.config.robot == self.robot.name else str(self.robot.path.resolve())
        panels: tuple[DrawableBody, ...] = ()
        if isinstance(self.motion, Press):
            x, y, z = self.motion.middle.tolist()
            pose = (x + self.config.unknown.wall_m + 0.5 * PANEL_M[0], y, z, 0.0, 0.0, 0.0, 1.0)
            panels = (DrawableBody(name="wall", shape="box", size_m=PANEL_M, opacity=0.5, pose=pose),)
        return Scenery(
            robot=name,
            bodies=panels,
            mu=self.mu_plant if np.isfinite(self.mu_plant) else None,
            mu_controller=self.mu_controller if np.isfinite(self.mu_controller) else None,
            hands=tuple(hand.name for hand in self.robot.hands),
            walls=self.true.walls,
        )

    def _sensor(self) -> Sensor | None:
        """Return the conversion from the true state to the sensed state; None if they are equal."""
        sensing, h, floats = self.config.sensing, 1.0 / self.config.rate_hz, self.body.floats
        if (sensing.forces, sensing.contacts) != ("plant", "planned") or (sensing.base != "plant" and not floats):
            raise InputError("whole-body tasks take sensing.delay_ticks, bias and noise, and base on a floating base")
        through = sense(sensing, lambda: self.robot.contacts(self.config.mu), self.body.home)
        if through is None:
            return None
        tau, before = np.zeros(self.body.system.n_actuated), self.body.home

        def seen(state: State) -> State:
            nonlocal before
            force = specific_force(before, state, h, floats)
            before = state
            return through(Sensed(state=state, tau=tau, accelerometer=force))

        return seen

    @property
    def true(self) -> robots.Robot:
        """Return the robot in front of the true wall."""
        return _at_wall(self.config, self.config.unknown.wall_m) if self.robot.walls else self.robot

    def _plant(self) -> SimulatedPlant:
        config, system, h = self.config, self.robot.system(), 1.0 / self.config.rate_hz
        if config.unknown.payload_share != 0.0:
            system = loaded(system, config.unknown.payload_share)
        if config.unknown.mass_error != 0.0:
            system = scaled(system, 1.0 + config.unknown.mass_error)
        contacts = self.true.contacts(self.mu_plant, system=system)
        setup = plants.Setup(system=system, contacts=contacts, dt=h, settings=config.ground, robot=self.robot)
        plant = plants.build(config.plant, setup)
        if config.push.at_s is not None:
            plant = Kicked(plant, round(config.push.at_s * config.rate_hz), *self._kick(system.mass))
        for at_s, force in self.punches():
            steps = delay_periods("punches.lasts_s", config.punches.lasts_s, h)
            plant = Kicked(plant, round(at_s * config.rate_hz), force * h / system.mass, steps)
        if config.unknown.delay_s > 0.0:
            plant = Delayed(plant, delay_periods("unknown.delay_s", config.unknown.delay_s, h))
        return plant

    def punches(self) -> list[tuple[float, Array]]:
        """Return time [s] and force [N], shape (3,), of each punch between two waypoints; empty without punches."""
        config = self.config
        if self.way is None or config.punches.force_n is None:
            return []
        rng = np.random.default_rng([config.seed, PUNCH_STREAM])
        out = []
        for begin, end in itertools.pairwise(self.way.times):
            angle = rng.uniform(0.0, 2.0 * np.pi)
            force = rng.uniform(*config.punches.force_n) * np.array([np.cos(angle), np.sin(angle), 0.0])
            out.append((float(rng.uniform(begin, end - config.punches.lasts_s)), force))
        return out

    def _kick(self, mass: float) -> tuple[Array, int]:
        """Return the velocity that the push adds in each of its control periods, shape (3,) [m/s], and their number."""
        push, h = self.config.push, 1.0 / self.config.rate_hz
        if push.force_n is None:
            impulse = push.impulse_n_s
            return np.array(PUSHED_M_S) if impulse is None else np.array(impulse) / mass, 1
        if push.impulse_n_s is not None:
            raise InputError("push.force_n and push.impulse_n_s are both set; leave one of them out")
        angle = np.radians(push.direction_deg)
        force = push.force_n * np.array([np.cos(angle), np.sin(angle), 0.0])
        return force * h / mass, delay_periods("push.lasts_s", push.lasts_s, h)


def _steps(config: WholeBodyConfig) -> bool:
    """True if the machine may step."""
    return config.walk.count > 0 or config.walk.reach_m > 0.0 or config.route.count > 0


def _require_fit(config: WholeBodyConfig) -> None:
    """Raise `InputError` if settings contradict each other."""
    if config.reach.frame is not None and not config.reach.through_m:
        raise InputError("reach.through_m has no point; give at least one")
    walks = _steps(config)
    for what, used in (("reach.frame", config.reach.frame is not None), ("sway", config.sway != Oscillation())):
        if walks and used:
            raise InputError(
                f"{what} is for a machine that stands; set walk.count=0 and walk.reach_m=0, or leave it out"
            )
    if config.lower_m != 0.0 and not walks:
        raise InputError("lower_m is for a machine that steps; to lower a standing machine, set sway.centre_m")
    if config.route.count > 0 and config.walk.count > 0:
        raise InputError("walk.count is for equal steps and route.count for waypoints; set one of them to 0")
    if config.push.at_s is None and config.push != Push():
        raise InputError("a push needs its time; set push.at_s")
    if config.push.force_n is None and config.push.direction_deg != 0.0:
        raise InputError("push.direction_deg is the direction of a force; set push.force_n")
    if config.punches.force_n is not None and config.route.count == 0:
        raise InputError("punches come between waypoints; set route.count, or use push")
    if config.punches.force_n is not None and config.punches.force_n[0] > config.punches.force_n[1]:
        low, high = config.punches.force_n
        raise InputError(f"punches.force_n is [{low:g}, {high:g}]; the first must be at most the second")
    if config.punches.force_n is not None and config.punches.lasts_s >= config.route.each_s:
        raise InputError("punches.lasts_s must be shorter than route.each_s")


def _at_wall(config: WholeBodyConfig, farther_m: float = 0.0) -> robots.Robot:
    """Return the robot in front of its wall, which is `farther_m` [m] behind the configured wall.

    Without a configured wall, the robot is returned alone.

    Raises:
        UnknownName: The robot does not exist, or has no hand on the frame of `reach`.
        InputError: No hand moves, or it has no point to slide to.
    """
    robot, reach, distance = robots.load(config.robot), config.reach, config.wall.distance_m
    if distance is None:
        return robot
    if reach.frame is None or len(reach.through_m) < 2:
        raise InputError("a wall needs a hand: set reach.frame, and two or more points in reach.through_m")
    (hand,) = robot.at_wall(reach.frame, (-1.0, 0.0, 0.0), 0.0).hands
    system = robot.system()
    q = robot.standing_state(system).q
    data = system.model.createData()
    pin.framesForwardKinematics(system.model, data, q)
    tip = data.oMf[system.frame(hand.frame)].act(np.array(hand.offset_m))[0] + hand.radius_m
    return robot.at_wall(reach.frame, (-1.0, 0.0, 0.0), float(-(tip + distance + farther_m)))
