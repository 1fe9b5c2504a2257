"""A walking legged robot, built from one `WalkConfig`.

`WalkScene.of` loads the robot and the ground; the methods of the scene build the parts. Each part has its own `System`,
because a `System` holds the terms of its last update::

    scene = WalkScene.of(WalkConfig(robot="go1", mu=0.6))
    walk = scene.simulated()
    for tick in walk.ticks(1000):
        print(tick.state.t, tick.command.tau)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np

from idcontrol import controllers, plants, robots
from idcontrol.config.configuration import Duration, NotNegative, Positive, Rate, Seed
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import Terrain, load_height_map, plane
from idcontrol.controllers import Gains
from idcontrol.controllers.impedance import centred, drive_gains
from idcontrol.dynamics.system import Actuators, System
from idcontrol.errors import InputError
from idcontrol.loop.machine import specific_force
from idcontrol.loop.simulated import Sensor, Tick, ticks
from idcontrol.planners.balance import Balance
from idcontrol.planners.commands import CommandLimits, Joystick, Schedule
from idcontrol.planners.gait import Gait, named_gait
from idcontrol.planners.governor import least_standing
from idcontrol.planners.legs import Feet
from idcontrol.planners.paper import LINKS_NOMINAL, OriginalWaypoints, PaperPlanner
from idcontrol.planners.stand import StandPlanner
from idcontrol.planners.trot import TrotPlanner, TrotSettings
from idcontrol.planners.waypoints import Waypoints
from idcontrol.plants import SimulatedPlant, Stepping
from idcontrol.plants.drive import Driven
from idcontrol.record.scenery import DrawableGround, Scenery
from idcontrol.scenes import disturbances
from idcontrol.scenes.disturbances import Disturbance, Kick, Patch, SensorNoise
from idcontrol.scenes.hoist import Hoist, Hoisted
from idcontrol.scenes.settings import AssumedFriction, FeedbackGains
from idcontrol.sensing import Sensing, sense, stance
from idcontrol.sensing.ahead import Ahead
from idcontrol.types import Controller, Integers, Reference, Sensed, State

DIAMOND = ((0.25, 0.0), (0.0, 0.25), (0.0, -0.25), (-0.25, 0.0))
"""The waypoints of Zapolsky & Drumwright 2017, Fig. 17 [m]; the robot starts at the origin."""


Kind = Literal["trot", "walk", "pace", "bound", "flying-trot", "stand"]


class WalkPath(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Path or command of a walk.

    Attributes:
        kind: ``waypoints`` visits the waypoints in turn, again and again; ``command`` follows `command`; ``joystick``
            follows the joystick of a loop's machine, up to `speed_m_s` and the turning rate of the robot file.
        waypoints_m: Waypoints in the plane.
        command: Pieces (from time [s], v_x [m/s], v_y [m/s], turn [rad/s]); each piece holds until the next begins.
        stand_from_s: Time at which to stop and stand; null for never. A joystick and the planner ``paper`` with
            waypoints ignore it.
        speed_m_s: Walking speed between waypoints, or at full deflection of a joystick; null uses the speed in the
            robot file.
        gaits: Changes of the gait, (from time [s], kind); each gait holds until the next change.
    """

    kind: Literal["waypoints", "command", "joystick"] = "waypoints"
    waypoints_m: tuple[tuple[float, float], ...] = DIAMOND
    command: tuple[tuple[float, float, float, float], ...] = ((0.0, 0.2, 0.0, 0.0),)
    stand_from_s: NotNegative | None = None
    speed_m_s: Positive | None = None
    gaits: tuple[tuple[NotNegative, Kind], ...] = ()


class WalkGait(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Initial stance and swing of each foot; `WalkPath.gaits` changes them.

    Attributes:
        kind: ``trot`` is the robot file's gait; ``stand`` keeps all feet on the ground.
        duty: Share of the cycle in stance; null uses the duty of the kind.
        period_s: Time of one cycle; null uses the period of the kind.
        phase: Touchdown of each foot, in the order of the robot file, as a share of the cycle; null uses the phases of
            the kind.
    """

    kind: Kind = "trot"
    duty: Positive | None = None
    period_s: Positive | None = None
    phase: tuple[NotNegative, ...] | None = None


class BaseRighting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Angular acceleration of the base against its roll and pitch (planner.md 6).

    Off by default: the joint feedback of the stance legs holds the base level.

    Attributes:
        stiffness_1_s2: Acceleration per angle [1/s²].
        damping_1_s: Acceleration per angular velocity [1/s].
    """

    stiffness_1_s2: NotNegative = 0.0
    damping_1_s: NotNegative = 0.0


class CommandSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Commands to the motors.

    Attributes:
        kind: ``torque``, or ``impedance`` for drives that track the reference within a control period
            (`idcontrol.plants.drive`).
        ahead_s: Known delay of commands, a whole number of control periods. Planner and controller get the predicted
            state at the time at which the command takes effect.
    """

    kind: Literal["torque", "impedance"] = "torque"
    ahead_s: NotNegative = 0.0


class ActuatorSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Dynamics of the plant's actuators.

    Attributes:
        kind: ``ideal`` for no actuator model; ``robot`` for the model of the robot file, also used by the controller.
        error: Relative modelling error: the plant's rotor inertia, friction, lag and delay are ``1 + error`` times the
            controller's.
        bandwidth_hz: Bandwidth of all torques, a first-order lag; null uses the values of the robot file.
        delay_s: Delay of all torques; null uses the values of the robot file.
    """

    kind: Literal["ideal", "robot"] = "ideal"
    error: Annotated[float, msgspec.Meta(gt=-1, le=10)] = 0.0
    bandwidth_hz: Positive | None = None
    delay_s: NotNegative | None = None


LEAST_POWER: Final = 0.1
"""Smallest value of `WalkConfig.power`, and the power at which a loop below full power begins."""


class WalkConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Configuration of a walk.

    Attributes:
        controller: Name; see ``idcontrol list controllers``.
        plant: Name; see ``idcontrol list plants``.
        robot: Name or path of a robot file.
        terrain: Kind of ground; see ``idcontrol list terrains``.
        height_map: Heights for the terrain ``heightmap``, centred under the robot: a CSV or NPZ file, or the name of
            a map that comes with idcontrol.
        height_map_spacing_m: Spacing of the height map; null uses the spacing in the file.
        mu: Friction of the ground; inf means no slip.
        mu_range: Bounds between which the friction is drawn at each touchdown, instead of `mu`; null uses `mu`.
        patch: A strip of different friction.
        duration_s: Length of the run.
        rate_hz: Rate of the control loop.
        power: Share of the robot's torque limits and torque rates that planner, controller and gate use. A loop at a
            power below 1 begins at 0.1, and raises its limits within `loop.policy.power_ramp_s`.
        seed: Seed of all random numbers: start, noise, sensing, ground.
        preset: Name of the preset.
        planner: ``trot``, or ``paper`` for the paper's original planner with its quirks (only for the robot `links`).
        plant_rate_hz: Minimum stepping rate of the plant; null uses `rate_hz`.
        start_spread_rad: Standard deviation of the joint positions about the home pose at the start.
        path: Path or command of the walk.
        gait: Initial gait.
        gains: Gains of the error feedback.
        friction: The assumed friction of the controller, and the friction pyramids.
        noise: Noise of the sensed state.
        sensing: Settings of state estimation for planner and controller.
        kick: A push.
        hoist: A hoist that carries the robot of a loop.
        balance: Additional righting of the base by the stance legs.
        disturbance: Differences of the plant and of the schedule from the controller's assumptions.
        command: Commands to the motors.
        actuators: Dynamics of the motors.
        ground: Settings of plants with soft or viscous ground.
        inverse: Settings of inverse-dynamics controllers.
    """

    controller: str = "id-coulomb-qp"
    plant: str = "coulomb-lcp"
    robot: str = "links"
    terrain: Literal["plane", "heightmap"] = "plane"
    height_map: str | None = None
    height_map_spacing_m: Positive | None = None
    mu: NotNegative = 0.8
    mu_range: tuple[NotNegative, NotNegative] | None = None
    patch: Patch = Patch()
    duration_s: Duration = 30.0
    rate_hz: Rate = 1000.0
    power: Annotated[float, msgspec.Meta(ge=LEAST_POWER, le=1.0)] = 1.0
    seed: Seed = 0
    preset: Literal["default", "paper"] = "default"
    planner: Literal["trot", "paper"] = "trot"
    plant_rate_hz: Rate | None = None
    start_spread_rad: NotNegative = 2e-4
    path: WalkPath = WalkPath()
    gait: WalkGait = WalkGait()
    gains: FeedbackGains = FeedbackGains()
    friction: AssumedFriction = AssumedFriction()
    noise: SensorNoise = SensorNoise()
    sensing: Sensing = Sensing()
    kick: Kick = Kick()
    hoist: Hoist = Hoist()
    balance: BaseRighting = BaseRighting()
    disturbance: Disturbance = Disturbance()
    command: CommandSettings = CommandSettings()
    actuators: ActuatorSettings = ActuatorSettings()
    ground: plants.GroundSettings = plants.GroundSettings()
    inverse: controllers.InverseSettings = msgspec.field(default_factory=controllers.InverseSettings)


TERRAINS = Path(__file__).parent / "terrains"
"""Folder of named height maps; its README lists them."""

ORIGINAL_RADIUS = 0.025
"""Radius within which the authors' program (Pacer) counts a waypoint as reached [m]; the paper does not state it."""

START_PASSES = 5
"""Newton iterations that put the feet on the ground at the start; after three only rounding errors remain."""

GROUND_STREAM, SENSING_STREAM = 1, 2
"""Numbers that extend the seed for ground and sensing; the random start and `WalkConfig.noise` use the seed alone."""

MODEL, MODEL_STEP_S = "coulomb-lcp", 1e-3
"""The plant that predicts the state after a known delay, and its longest step [s]."""

WalkGuide = Schedule | Joystick | Waypoints | OriginalWaypoints
WalkPlanner = TrotPlanner | PaperPlanner | StandPlanner


@dataclass(frozen=True, slots=True)
class WalkScene:
    """A robot that can walk, and the ground under it.

    Attributes:
        config: The configuration.
        robot: Robot of the walk.
        ground: Ground under the robot.
    """

    config: WalkConfig
    robot: robots.Robot
    ground: Terrain

    @staticmethod
    def of(config: WalkConfig) -> WalkScene:
        """Load the robot and the ground of `config`.

        Raises:
            UnknownName: The robot does not exist.
            InputError: The robot cannot walk, the settings do not fit together, or the height map does not exist.
        """
        robot = robots.load(config.robot).at_power(config.power)
        if config.planner == "paper" and robot.name != "links":
            raise InputError(f"planner=paper is the original of the robot links; {robot.name} needs planner=trot")
        if config.planner == "paper" and (config.gait.kind != "trot" or config.path.gaits):
            raise InputError("planner=paper has only trots; other gaits need planner=trot")
        times = [t for t, _ in config.path.gaits]
        if times != sorted(set(times)):
            raise InputError(f"path.gaits: the times must increase; they are {times}")
        if config.actuators.kind == "ideal" and config.actuators != ActuatorSettings():
            raise InputError("actuators.error, bandwidth_hz and delay_s are for actuators.kind=robot")
        if robot.description.base != "free-flyer":
            raise InputError(f"robot {robot.name!r} has no floating base: it cannot walk")
        if robot.description.gait is None and (config.gait != WalkGait(kind="stand") or config.path.gaits):
            raise InputError(f"robot {robot.name!r} has no gait: it can only stand; --set gait.kind=stand")
        return WalkScene(config, robot, _ground(config))

    @property
    def period_s(self) -> float:
        """Control period [s]."""
        return 1.0 / self.config.rate_hz

    def actuators(self) -> Actuators | None:
        """Return the actuators assumed by the controller; None for ideal actuators.

        Raises:
            InputError: The robot file has no actuators.
        """
        changes, names = self.config.actuators, self.robot.system().actuated_names
        if changes.kind == "ideal":
            return None
        assumed = self.robot.actuators(names)
        if changes.bandwidth_hz is not None:
            assumed = assumed._replace(bandwidth=np.full(len(names), changes.bandwidth_hz))
        if changes.delay_s is not None:
            assumed = assumed._replace(delay=np.full(len(names), changes.delay_s))
        return assumed

    @property
    def mu_controller(self) -> float:
        """Friction along the tangents assumed by the controller."""
        law = controllers.contact_law(self.config.controller)
        return self.config.friction.of_controller(self.config.mu, law)

    @property
    def friction(self) -> dict[str, Any]:
        """Metrics of the friction (`AssumedFriction.report`); the plant's is None if it is drawn at each touchdown."""
        config = self.config
        report = config.friction.report(config.mu, config.plant, config.controller)
        return report if config.mu_range is None else {**report, "mu_plant": None}

    def observer(self) -> SphereContacts:
        """Return the feet on the true ground with true friction, for observers of true states."""
        return self.robot.contacts(self.config.mu, self.ground)

    def start(self, rng: np.random.Generator) -> State:
        """Return the home pose with randomized joints and every foot on the ground.

        Feet are exactly on the ground: even a drop from a tenth of a millimetre would be the largest impact of the
        walk.
        """
        spheres = self.observer()
        system = spheres.system
        home = self.robot.standing_state(system)
        joints = system.joint_positions(home.q)
        joints = joints + self.config.start_spread_rad * rng.standard_normal(system.n_actuated)
        q = system.configuration(joints, home.q[:7])
        u, step = system.n_unactuated, np.zeros(system.n_velocities)
        for _ in range(START_PASSES):
            system.update(q, home.v)
            contacts = spheres.detect(np.inf)
            height = contacts.gap.mean()
            step[u:] = np.linalg.pinv(contacts.N[:, u:]) @ (height - contacts.gap)
            q = system.integrate(q, system.to_pinocchio(step), 1.0)
            q[2] -= height
        return State(t=0.0, q=q, v=home.v)

    def guide(self) -> WalkGuide:
        """Return the source of the walking commands."""
        path, gait = self.config.path, self.robot.description.gait
        if gait is None:
            return Schedule(((0.0, 0.0, 0.0, 0.0),))
        stand_from = np.inf if path.stand_from_s is None else path.stand_from_s
        if path.kind == "command":
            return Schedule(path.command, stand_from_s=stand_from)
        speed = gait.speed_m_s if path.speed_m_s is None else path.speed_m_s
        if path.kind == "joystick":
            return Joystick(speed=speed, turn=gait.turn_rad_s)
        if self.config.planner == "paper":
            return OriginalWaypoints(path.waypoints_m, speed=speed, turn=gait.turn_rad_s, radius=ORIGINAL_RADIUS)
        return Waypoints(path.waypoints_m, speed=speed, turn=gait.turn_rad_s, stand_from_s=stand_from)

    def planner(self, guide: WalkGuide) -> WalkPlanner:
        """Return the planner that follows `guide`, or stands if the robot has no gait; reset it before it is called."""
        config, description, system = self.config, self.robot.description, self.robot.system()
        gait, feet = description.gait, self.planned_feet(system)
        if gait is None:
            return StandPlanner(self.robot.standing_reference())
        home = self.robot.home_joints(system.actuated_names)
        own = Gait(
            period_s=gait.period_s,
            duty=gait.duty,
            touchdown=tuple(gait.touchdown[name] for name in self.robot.patches),
            step_height_m=gait.step_height_m,
            touchdown_speed_m_s=gait.touchdown_speed_m_s,
        )
        first, changes = self._gaits(own)
        if config.planner == "paper":
            return PaperPlanner(system, feet, home, gait=first, commands=guide, nominal=LINKS_NOMINAL)
        settings = TrotSettings(
            gait=first,
            changes=changes,
            limits=CommandLimits(
                linear_m_s2=description.command.acceleration_m_s2,
                angular_rad_s2=description.command.turn_acceleration_rad_s2,
            ),
            speed_limit=self.robot.velocity_limit(system.actuated_names),
            balance=Balance(stiffness_1_s2=config.balance.stiffness_1_s2, damping_1_s=config.balance.damping_1_s),
            # at any friction: if the speed of the base were constant, the ground would have to balance the swinging
            # legs
            constant_momentum=True,
        )
        flat = config.terrain == "plane" or config.disturbance.unseen_ground
        ground = None if flat else self.ground
        return TrotPlanner(system, feet, home, settings, commands=guide, ground=ground)

    def planned_feet(self, system: System) -> Feet:
        """Return the feet for planners, on `system`."""
        feet = self.robot.description.feet
        return Feet(
            names=self.robot.patches,
            frames=tuple(system.frame(foot.frame) for foot in feet),
            radii=np.array([foot.radius_m for foot in feet]),
            offsets=np.array([foot.offset_m for foot in feet]),
        )

    def controller_setup(self) -> controllers.Setup:
        """Return the setup of the walk's controller."""
        config, own = self.config, self.robot.description.gains.acceleration
        gains = config.gains.of(config.controller)
        contacts = self.robot.contacts(
            self.mu_controller,
            self._assumed_ground,
            self.robot.system(self.actuators()),
            orientation=config.friction.turn_rad,
        )
        system = contacts.system
        torque_kp, torque_kd = self.robot.torque_gains(system.actuated_names)
        acceleration = (
            own.kp_1_s2 if gains.kp_1_s2 is None else gains.kp_1_s2,
            own.kd_1_s if gains.kd_1_s is None else gains.kd_1_s,
        )
        kp, kd = (np.full(system.n_actuated, gain) for gain in acceleration)
        if gains.kp_nm_rad is not None:
            torque_kp = np.full_like(torque_kp, gains.kp_nm_rad)
        if gains.kd_nm_s_rad is not None:
            torque_kd = np.full_like(torque_kd, gains.kd_nm_s_rad)
        return controllers.Setup(
            system=system,
            contacts=contacts,
            h=self.period_s,
            acceleration_gains=Gains(kp=kp, kd=kd),
            torque_gains=Gains(kp=torque_kp, kd=torque_kd),
            settings=config.inverse,
            robot=self.robot,
            beside=gains.beside,
            drive_gains=self._drive_gains(Gains(kp=kp, kd=kd)) if config.command.kind == "impedance" else None,
        )

    def _drive_gains(self, gains: Gains) -> Gains:
        """Return drive gains for the given acceleration gains, with the inertia of the standing robot."""
        system = self.robot.system(self.actuators())
        home = self.robot.standing_state(system)
        system.update(home.q, home.v)
        return drive_gains(system, gains)

    def plant(self, period_s: float, *, lies: bool = False, ready: bool = False) -> SimulatedPlant:
        """Return the plant with its disturbances, stepped every `period_s` [s].

        With `lies`, the robot can lie down: the spheres under its body can touch the ground, and it has drives. With
        `ready`, a `Stepping` plant loads all code of its steps in advance, so that they do not pause on the wall clock.

        Raises:
            UnknownName: The plant does not exist.
            InputError: The plant cannot be built or does not support the disturbance, the robot file has no actuators,
                or the disturbance's delay is not a whole number of periods.
        """
        config, rng = self.config, np.random.default_rng([self.config.seed, GROUND_STREAM])
        disturbance, angle = config.disturbance, config.disturbance.normal_error_rad
        assumed = self.actuators()
        system = self.robot.system(None if assumed is None else assumed.wrong(config.actuators.error))
        if disturbance.payload_share != 0.0:
            system = disturbances.loaded(system, disturbance.payload_share)
        mu = self._of_plant(config.mu)
        if angle > 0.0:
            feet: SphereContacts = self._leaning_feet(system, rng)
        else:
            feet = self.robot.contacts(mu, self.ground, system, supports=lies)
        dt = period_s if config.plant_rate_hz is None else 1.0 / config.plant_rate_hz
        setup = plants.Setup(system=system, contacts=feet, dt=dt, settings=config.ground, robot=self.robot)
        hangs, estop_s = config.hoist.hangs, config.hoist.estop_s
        plant = Hoisted(system, estop_s) if hangs else plants.build(config.plant, setup)
        if ready and isinstance(plant, Stepping):
            plant.warm(self.robot.standing_state(system))
        patched = config.patch.mu is not None
        if (config.mu_range is not None or patched or angle > 0.0) and not plants.contact_law(config.plant).detects:
            what = "mu_range, patch.mu and disturbance.normal_error_rad"
            raise InputError(f"{what} need the contacts of idcontrol; {config.plant} finds its own")
        if config.mu_range is not None:
            least, most = config.mu_range
            plant = disturbances.DrawnFriction(plant, feet, (self._of_plant(least), self._of_plant(most)), rng)
        if config.patch.mu is not None:
            plant = disturbances.Patched(plant, feet, config.patch.x_m, self._of_plant(config.patch.mu), mu)
        driven = lies or config.command.kind == "impedance" or config.sensing.forces == "estimated"
        if driven or assumed is not None:
            plant = Driven(plant, system)  # drives measure their applied torques
        if disturbance.delay_s > 0.0:
            plant = disturbances.Delayed(
                plant, disturbances.delay_periods("disturbance.delay_s", disturbance.delay_s, period_s)
            )
        return plant

    def simulated(self) -> SimulatedWalk:
        """Return the whole scene on the simulated clock, with the planner reset to the start.

        Raises:
            UnknownName: The controller or plant does not exist.
            InputError: Controller, plant or sensing cannot be built for this robot, the plant does not support the
                disturbance, or a delay is not a whole number of control periods.
        """
        config, rng = self.config, np.random.default_rng(self.config.seed)
        controller = controllers.build(config.controller, self.controller_setup())
        plant = self.plant(self.period_s)
        if config.kick.at_s is not None:
            plant = disturbances.Kicked(
                plant, round(config.kick.at_s * config.rate_hz), np.array(config.kick.velocity_m_s)
            )
        start, guide = self.start(rng), self.guide()
        planner, sensor = self.planner(guide), self._sensor(start, rng, disturbances.drive_of(plant))
        seen = start if sensor is None else sensor(start)
        planner.reset(seen)
        return SimulatedWalk(
            period_s=self.period_s,
            start=start,
            seen=seen,
            guide=guide,
            planner=planner,
            plan=self.plan(planner),
            sense=sensor,
            ahead=self._ahead(),
            controller=controller,
            plant=plant,
            patch=self.observer().sole_patch,
        )

    def _ahead(self) -> Ahead | None:
        """Return the predictor of the state at which a command arrives; None without a known delay."""
        command, h = self.config.command, self.period_s
        if command.ahead_s == 0.0:
            return None
        # the best estimate of the friction, without the margin that a controller keeps
        friction, law = self.config.friction, plants.contact_law(MODEL)
        system = self.robot.system(self.actuators())
        mu = friction.of_plant(friction.best(self.config.mu), law)
        feet = self.robot.contacts(mu, self._assumed_ground, system)
        model = plants.build(MODEL, plants.Setup(system=feet.system, contacts=feet, dt=MODEL_STEP_S))
        if command.kind == "impedance":
            model = Driven(model, feet.system, MODEL_STEP_S)
        return Ahead(model, disturbances.delay_periods("command.ahead_s", command.ahead_s, h), h, feet.sole_patch)

    def plan(self, planner: WalkPlanner) -> Callable[[State], Reference]:
        """Return the controller's source of references: `planner`, changed by the run's settings."""
        plan: Callable[[State], Reference] = planner
        late = self.config.disturbance.touchdown_late_s
        if late != 0.0:
            plan = disturbances.WrongSchedule(planner, late, planner.gait.swing_s, planner.gait.stance_s)
        if self.config.command.kind == "impedance":
            plan = centred(plan, self.period_s)
        stand = stance(self.config.sensing, self._assumed_feet)
        return plan if stand is None else lambda state: stand(state, plan(state))

    def _sensor(self, start: State, rng: np.random.Generator, drive: Driven | None) -> Sensor | None:
        """Return the conversion from the true to the sensed state; None if they are equal."""
        config, h = self.config, self.period_s
        spread = (
            None if config.noise == SensorNoise() else disturbances.noisy(self.robot.system().model, config.noise, rng)
        )
        through = sense(config.sensing, self._assumed_feet, start, (config.seed, SENSING_STREAM))
        if through is None:
            return spread
        before, idle = start, np.zeros(self.robot.system().n_actuated)

        def seen(state: State) -> State:
            nonlocal before
            force = specific_force(before, state, h, floating=True)
            before = state
            torque = idle if drive is None else drive.torque
            return through(Sensed(state=state if spread is None else spread(state), tau=torque, accelerometer=force))

        return seen

    def scenery(self) -> Scenery:
        """Return the robot and the ground for display (`idcontrol view`)."""
        config = self.config
        one_friction = np.isfinite(config.mu) and config.mu_range is None and config.patch.mu is None
        return Scenery(
            robot=config.robot if config.robot == self.robot.name else str(self.robot.path.resolve()),
            ground=DrawableGround.of(self.ground),
            mu=self._of_plant(config.mu) if one_friction else None,
            mu_controller=self.mu_controller if np.isfinite(self.mu_controller) else None,
        )

    def _gaits(self, own: Gait) -> tuple[Gait, tuple[tuple[float, Gait | None], ...]]:
        """Return the initial gait and the later gaits with their times [s]; None means standing."""
        gait, changes = self.config.gait, self.config.path.gaits
        spheres = self.observer()
        home = self.robot.standing_state(spheres.system)
        spheres.system.update(home.q, home.v)
        feet = spheres.detect(np.inf).point
        feet = feet - feet.mean(axis=0)
        first = own if gait.kind == "stand" else named_gait(gait.kind, own, feet)
        first = replace(
            first,
            duty=first.duty if gait.duty is None else gait.duty,
            period_s=first.period_s if gait.period_s is None else gait.period_s,
            touchdown=first.touchdown if gait.phase is None else gait.phase,
        )
        if least_standing(first, first.duty) == 0:
            first = replace(first, sways=True)
        named = {kind: None if kind == "stand" else named_gait(kind, own, feet) for _, kind in changes}
        at_first = ((0.0, None),) if gait.kind == "stand" else ()
        return first, (*at_first, *((t, named[kind]) for t, kind in changes))

    @property
    def _assumed_ground(self) -> Terrain:
        """Return the ground assumed by the controller."""
        return plane() if self.config.disturbance.unseen_ground else self.ground

    def _assumed_feet(self) -> SphereContacts:
        """Return the feet on the ground that sensing assumes."""
        return self.robot.contacts(self.config.mu, self._assumed_ground, self.robot.system(self.actuators()))

    def _of_plant(self, mu: float) -> float:
        """Return the friction along the tangents of the plant's friction pyramid; `mu` is the friction of the cone."""
        return self.config.friction.of_plant(mu, plants.contact_law(self.config.plant))

    def _leaning_feet(self, system: System, rng: np.random.Generator) -> disturbances.LeaningSpheres:
        feet, angle = self.robot.description.feet, self.config.disturbance.normal_error_rad
        return disturbances.LeaningSpheres(
            disturbances.leaning(angle, len(feet), rng),
            system,
            [foot.frame for foot in feet],
            [foot.radius_m for foot in feet],
            self.ground,
            self._of_plant(self.config.mu),
            offsets=[foot.offset_m for foot in feet],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedWalk:
    """The parts of a walk on the simulated clock.

    Attributes:
        period_s: Control period [s].
        start: State at time zero, all feet on the ground.
        seen: Sensed state from which the planner begins.
        guide: Source of the walking commands.
        planner: The planner; it follows `guide`.
        plan: Returns the controller's reference; see `WalkScene.plan`.
        sense: Converts the true to the sensed state; None if they are equal.
        ahead: Predicts the state at which a command arrives; None without a known delay.
        controller: The controller.
        plant: The plant with its disturbances.
        patch: Foot of each contact; None if each contact is a foot.
    """

    period_s: float
    start: State
    seen: State
    guide: WalkGuide
    planner: WalkPlanner
    plan: Callable[[State], Reference]
    sense: Sensor | None
    ahead: Ahead | None
    controller: Controller
    plant: SimulatedPlant
    patch: Integers | None

    def ticks(self, periods: int) -> Iterator[Tick]:
        """Walk for this many control periods; see `idcontrol.loop.simulated.ticks`."""
        return ticks(
            self.plant,
            self.plan,
            self.controller,
            self.start,
            h=self.period_s,
            steps=periods,
            sense=self.sense,
            ahead=self.ahead,
            patch=self.patch,
        )


def _ground(config: WalkConfig) -> Terrain:
    if config.terrain == "plane":
        return plane()
    shipped = sorted(path.stem for path in TERRAINS.glob("*.npz"))
    if config.height_map is None:
        raise InputError(
            "terrain=heightmap needs its heights: --set height_map=FILE (CSV or NPZ), "
            f"or the name of one that comes with idcontrol: {', '.join(shipped)}"
        )
    if config.height_map in shipped:
        return load_height_map(TERRAINS / f"{config.height_map}.npz", config.height_map_spacing_m)
    return load_height_map(config.height_map, config.height_map_spacing_m)
