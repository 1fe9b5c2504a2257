"""The trot: a quadruped walks on predicted contact forces, between waypoints or on command (003 section 7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import pinocchio as pin

from idcontrol import controllers, plants, robots
from idcontrol.contact.landing import Landing
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import Terrain, load_height_map, plane
from idcontrol.controllers import Gains
from idcontrol.errors import InputError
from idcontrol.experiments.disturbances import (
    Delayed,
    Disturbance,
    DrawnFriction,
    LeaningSpheres,
    WrongSchedule,
    delay_periods,
    leaning,
    loaded,
)
from idcontrol.experiments.locomotion import Scene, record
from idcontrol.loop.simulated import Planner, Sensor, ticks
from idcontrol.planners.balance import Balance
from idcontrol.planners.commands import CommandLimits, Guide, Schedule
from idcontrol.planners.gait import Gait
from idcontrol.planners.legs import Feet
from idcontrol.planners.paper import LINKS_NOMINAL, OriginalWaypoints, PaperPlanner
from idcontrol.planners.trot import TrotPlanner
from idcontrol.planners.waypoints import Waypoints
from idcontrol.record.recording import jsonable
from idcontrol.show.view.scenery import DrawableGround, Scenery
from idcontrol.system import System
from idcontrol.types import Array, ContactForces, State

Positive = Annotated[float, msgspec.Meta(gt=0)]
NotNegative = Annotated[float, msgspec.Meta(ge=0)]

DIAMOND = ((0.25, 0.0), (0.0, 0.25), (0.0, -0.25), (-0.25, 0.0))
"""The paper's waypoints (003 Fig. 17) [m]; the robot starts at the origin."""


class Path2D(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to walk.

    Attributes:
        kind: ``waypoints`` in turn and again; ``command`` follows `command`.
        waypoints_m: Goals in the plane.
        command: Pieces (from time [s], v_x [m/s], v_y [m/s], turn [rad/s]); each holds until the next.
        stand_from_s: From when on to stop and stand; null never.
        speed_m_s: Walking speed between waypoints; null is the robot file's.
    """

    kind: Literal["waypoints", "command"] = "waypoints"
    waypoints_m: tuple[tuple[float, float], ...] = DIAMOND
    command: tuple[tuple[float, float, float, float], ...] = ((0.0, 0.2, 0.0, 0.0),)
    stand_from_s: NotNegative | None = None
    speed_m_s: Positive | None = None


class Friction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the controller is told of the ground's friction (planner.md 7): an over-estimate is what makes robots fall.

    Attributes:
        estimate: The best estimate; null is the true value.
        share: Part of it that is counted on.
        cap: At most this, however rough the ground.
    """

    estimate: NotNegative | None = None
    share: Positive = 0.8
    cap: Positive = 0.7


class Noise(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """White noise on what planner and controller see, standard deviations, fresh at each tick.

    Attributes:
        position_m: On the base's position.
        angle_rad: On the base's orientation and the joints.
    """

    position_m: NotNegative = 0.0
    angle_rad: NotNegative = 0.0


class Kick(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A push shorter than a tick: the whole robot gets this velocity on top of its own.

    Attributes:
        at_s: When; null never.
        velocity_m_s: World frame.
    """

    at_s: NotNegative | None = None
    velocity_m_s: tuple[float, float, float] = (0.0, 0.25, 0.0)


class Righting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Angular acceleration of the base against its roll and pitch (planner.md 6).

    Off by default: the joint feedback of the stance legs holds the base level.

    Attributes:
        stiffness_1_s2: Per angle [1/s²].
        damping_1_s: Per angular velocity [1/s].
    """

    stiffness_1_s2: NotNegative = 0.0
    damping_1_s: NotNegative = 0.0


class Feedback(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Gains of the error feedback, one number for all joints; null is what the robot file says.

    Attributes:
        kp_1_s2: Stiffness of controllers that know the inertia [1/s²].
        kd_1_s: Their damping [1/s].
        kp_nm_rad: Stiffness of `pid` [N m/rad].
        kd_nm_s_rad: Its damping [N m s/rad]; at most half of what a joint moves over the control period.
    """

    kp_1_s2: NotNegative | None = None
    kd_1_s: NotNegative | None = None
    kp_nm_rad: NotNegative | None = None
    kd_nm_s_rad: NotNegative | None = None


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that decides a trot.

    Attributes:
        controller: Name; see ``idcontrol list controllers``.
        plant: Name; see ``idcontrol list plants``.
        robot: Name or path of a robot file.
        terrain: Kind of ground; see ``idcontrol list terrains``.
        height_map: Heights where the terrain is ``heightmap``, their middle under the robot: a CSV or NPZ file, or the
            name of one of `TERRAINS`.
        height_map_spacing_m: Distance of its samples; null is what the file says.
        mu: Friction of the ground; inf means no slip.
        mu_range: Draws the friction from here each time that a foot touches down, instead of `mu`; null does not.
        duration_s: Length of the run.
        rate_hz: Of the control loop.
        seed: Of everything that is random: start, noise.
        preset: Name of the configuration that this one began with; see `PRESETS`.
        planner: ``trot`` is ours, ``paper`` the original one with its quirks (only for `links`).
        plant_rate_hz: The plant steps at least this often; null is `rate_hz`.
        start_spread_rad: Standard deviation of the joints around the home pose at the start.
        path: Where to walk.
        gains: Of the error feedback.
        friction: What the controller is told.
        noise: On the sensed state.
        kick: A push.
        balance: An extra righting of the base through the stance legs.
        disturbance: What the controller is not told of plant and schedule.
        ground: Of plants whose ground is soft or viscous.
        inverse: Of inverse-dynamics controllers.
    """

    controller: str = "id-coulomb-qp"
    plant: str = "coulomb-lcp"
    robot: str = "links"
    terrain: Literal["plane", "heightmap"] = "plane"
    height_map: str | None = None
    height_map_spacing_m: Positive | None = None
    mu: NotNegative = 0.8
    mu_range: tuple[NotNegative, NotNegative] | None = None
    duration_s: Positive = 30.0
    rate_hz: Positive = 1000.0
    seed: int = 0
    preset: Literal["default", "paper"] = "default"
    planner: Literal["trot", "paper"] = "trot"
    plant_rate_hz: Positive | None = None
    start_spread_rad: NotNegative = 2e-4
    path: Path2D = Path2D()
    gains: Feedback = Feedback()
    friction: Friction = Friction()
    noise: Noise = Noise()
    kick: Kick = Kick()
    balance: Righting = Righting()
    disturbance: Disturbance = Disturbance()
    ground: plants.Settings = plants.Settings()
    inverse: controllers.Settings = msgspec.field(default_factory=controllers.Settings)


TERRAINS = Path(__file__).parent / "terrains"
"""Where height maps are found by name; see the table there."""

ORIGINAL_RADIUS = 0.025
"""Radius in which the authors' program (Pacer) counts a waypoint of the diamond as reached [m]; 003 prints none."""

START_PASSES = 5
"""Newton's passes that put the feet on the ground at the start; three reach rounding."""

GROUND_STREAM = 1
"""Sets the random numbers of the ground apart from those of start and sensors, which have the seed alone."""

OUTSIDE = ("mujoco", "pybullet")
"""Plants that find their contacts themselves."""

SLIPPERY_MU = 0.3
"""Below this friction the goals of planner.md 10 are those for low friction."""


ORIGINAL_GAINS = Feedback(kp_1_s2=5e3, kd_1_s=150.0, kp_nm_rad=15.0, kd_nm_s_rad=0.1)
"""Gains of the preset `paper`, ours: which ones gave the tables of 003 is recorded nowhere.

The authors' program (Pacer) of 2015 has (5e4, 100) for accelerations. With them most controllers fall within 1.5 s
here, at joint errors of a fifth of the printed ones; a tenth of the stiffness gives the printed errors, and with half
as much damping again id-coulomb-lcp does not hop itself over in the first 5 s. For pid it has 10 (2014) and
20 N m/rad (2015): with 10 it falls at 3.7 s where friction has no bound, with 20 its error is 0.4 of the printed one.
"""

PRESETS = {
    "default": Config(),
    # the quirks of the authors' program (Pacer, May 2015): its planner, friction as the plant has it but at most
    # 1.5, feet that are contacts from the first touch and stop at once, no gap that is closed, desired velocities not
    # projected onto the contacts, nothing unloaded before it lifts, drag where the ground is soft
    "paper": Config(
        preset="paper",
        planner="paper",
        gains=ORIGINAL_GAINS,
        friction=Friction(share=1.0, cap=1.5),
        ground=plants.Settings(penalty_friction="viscous"),
        inverse=controllers.Settings(
            contact_margin_m=1e-4,
            landing_s=0.0,
            landing=Landing(decay_s=1e-3, dead_band_m_s=0.0, sink_m_s=0.0, rise_m_s=0.0),
            project=False,
            ramp_s=0.0,
            repair=False,
            objective="printed",
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Walk:
    """An experiment in which a quadruped walks, as the command line finds it.

    Attributes:
        name: Its name.
        summary: One line.
        presets: Configurations to begin with.
    """

    name: str
    summary: str
    presets: Mapping[str, Config]

    def run(self, config: Config, out: Path, progress: Callable[[float], None]) -> dict[str, Any]:
        """Run it, record it into `out`, and return its metrics.

        Raises:
            InputError: The configuration cannot be used: an unknown name, a robot that does not walk.
        """
        robot = load_walker(config)
        rng = np.random.default_rng(config.seed)
        ground = make_ground(config)
        h = 1.0 / config.rate_hz
        steps = round(config.duration_s * config.rate_hz)
        if steps < 1:
            raise InputError(f"duration_s={config.duration_s} is shorter than one period of {config.rate_hz} Hz")

        controller = controllers.build(config.controller, controller_setup(config, robot, ground, h))
        plant = make_plant(config, robot, ground, h)
        observer = foot_spheres(robot, robot.system(), ground, config.mu)
        start = start_state(robot, observer, config.start_spread_rad, rng)
        guide = make_guide(config, robot)
        planner = make_planner(config, robot, observer.system, guide, ground)
        planner.reset(start)
        world: plants.SimulatedPlant | _Kicked = plant
        if config.kick.at_s is not None:
            world = _Kicked(plant, round(config.kick.at_s * config.rate_hz), np.array(config.kick.velocity_m_s))
        shift = config.disturbance.touchdown_late_s
        told: Planner = planner
        if shift != 0.0:
            told = WrongSchedule(planner, shift, planner.gait.swing_s, planner.gait.stance_s)
        run = ticks(world, told, controller, start, h=h, steps=steps, sense=_sensor(config.noise, robot, rng))
        scene = Scene(
            observer=observer,
            plant=plant,
            gait=planner.gait,
            base_height_m=planner.height,
            walk=None if isinstance(guide, Schedule) else guide,
            feet=tuple(foot.name for foot in robot.description.feet),
            period_s=h,
            scenery=scenery(config, robot, ground),
        )
        return record(
            run,
            scene,
            steps=steps,
            duration_s=config.duration_s,
            config=jsonable(msgspec.to_builtins(config)),
            meta={"experiment": self.name, **_goals(config, robot)},
            out=out,
            progress=progress,
        )

    def warmup(self, out: Path) -> None:
        """Step and turn once on ground of each kind with each controller: every kernel is compiled and cached."""
        for mu in (0.1, np.inf):
            for name in controllers.available():
                config = Config(controller=name, mu=mu, duration_s=0.6)
                self.run(config, out / f"{name}-{mu}", lambda share: None)


experiment = Walk("trot", "a quadruped trots between waypoints, or on command", PRESETS)


def load_walker(config: Config) -> robots.Robot:
    """The robot of `config`.

    Raises:
        UnknownName: There is none of that name.
        InputError: It cannot trot.
    """
    robot = robots.load(config.robot)
    if config.planner == "paper" and robot.name != "links":
        raise InputError(f"planner=paper is the original of the robot links; {robot.name} needs planner=trot")
    if robot.description.gait is None or robot.description.base != "free-flyer":
        raise InputError(f"robot {robot.name!r} has no gait or no floating base: it cannot trot")
    return robot


def make_ground(config: Config) -> Terrain:
    """The ground of `config`."""
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


def foot_spheres(
    robot: robots.Robot, system: System, ground: Terrain, mu: float, lean: Array | None = None
) -> SphereContacts:
    """The feet of `robot` on `ground`, their contact normals leaning as `LeaningSpheres` says."""
    feet = robot.description.feet
    make = SphereContacts if lean is None else partial(LeaningSpheres, lean)
    return make(
        system,
        [foot.frame for foot in feet],
        [foot.radius_m for foot in feet],
        ground,
        mu,
        offsets=[foot.offset_m for foot in feet],
    )


def counted_friction(config: Config) -> float:
    """The friction that the controller may count on."""
    estimate = config.mu if config.friction.estimate is None else config.friction.estimate
    return min(config.friction.share * estimate, config.friction.cap)


def scenery(config: Config, robot: robots.Robot, ground: Terrain) -> Scenery:
    """What there is to see of the trot of `config`."""
    told = counted_friction(config)
    one_friction = np.isfinite(config.mu) and config.mu_range is None
    return Scenery(
        robot=config.robot if config.robot == robot.name else str(robot.path.resolve()),
        ground=DrawableGround.of(ground),
        mu=config.mu if one_friction else None,
        mu_told=told if np.isfinite(told) else None,
    )


def controller_setup(config: Config, robot: robots.Robot, ground: Terrain, h: float) -> controllers.Setup:
    """What the controller of `config` is built from."""
    system = robot.system()
    known, told = robot.description.gains.acceleration, config.gains
    torque_kp, torque_kd = robot.torque_gains(system.actuated_names)
    acceleration = (
        known.kp_1_s2 if told.kp_1_s2 is None else told.kp_1_s2,
        known.kd_1_s if told.kd_1_s is None else told.kd_1_s,
    )
    kp, kd = (np.full(system.n_actuated, gain) for gain in acceleration)
    if told.kp_nm_rad is not None:
        torque_kp = np.full_like(torque_kp, told.kp_nm_rad)
    if told.kd_nm_s_rad is not None:
        torque_kd = np.full_like(torque_kd, told.kd_nm_s_rad)
    return controllers.Setup(
        system=system,
        contacts=foot_spheres(robot, system, ground, counted_friction(config)),
        h=h,
        acceleration_gains=Gains(kp=kp, kd=kd),
        torque_gains=Gains(kp=torque_kp, kd=torque_kd),
        settings=config.inverse,
    )


def make_plant(config: Config, robot: robots.Robot, ground: Terrain, h: float) -> plants.SimulatedPlant:
    """The plant of `config`, disturbed as it says; `h` is the control period [s].

    Raises:
        UnknownName: There is no such plant.
        InputError: The plant cannot be disturbed so.
    """
    disturbance, rng = config.disturbance, np.random.default_rng([config.seed, GROUND_STREAM])
    system = robot.system() if disturbance.payload_share == 0.0 else loaded(robot.system(), disturbance.payload_share)
    dt = h if config.plant_rate_hz is None else 1.0 / config.plant_rate_hz
    angle, feet = disturbance.normal_error_rad, len(robot.description.feet)
    contacts = foot_spheres(robot, system, ground, config.mu, leaning(angle, feet, rng) if angle > 0.0 else None)
    plant = plants.build(config.plant, plants.Setup(system=system, contacts=contacts, dt=dt, settings=config.ground))
    if (config.mu_range is not None or angle > 0.0) and config.plant in OUTSIDE:
        raise InputError(f"mu_range and disturbance.normal_error_rad are for plants of ours, {config.plant} is none")
    if config.mu_range is not None:
        plant = DrawnFriction(plant, contacts, config.mu_range, rng)
    if disturbance.delay_s > 0.0:
        plant = Delayed(plant, delay_periods(disturbance.delay_s, h))
    return plant


def make_guide(config: Config, robot: robots.Robot) -> Schedule | Waypoints | OriginalWaypoints:
    """Where to walk."""
    path, gait = config.path, robot.description.gait
    assert gait is not None  # `run` has checked it
    stand_from = np.inf if path.stand_from_s is None else path.stand_from_s
    if path.kind == "command":
        return Schedule(path.command, stand_from_s=stand_from)
    speed = gait.speed_m_s if path.speed_m_s is None else path.speed_m_s
    if config.planner == "paper":
        return OriginalWaypoints(path.waypoints_m, speed=speed, turn=gait.turn_rad_s, radius=ORIGINAL_RADIUS)
    return Waypoints(path.waypoints_m, speed=speed, turn=gait.turn_rad_s, stand_from_s=stand_from)


def make_planner(
    config: Config, robot: robots.Robot, system: System, guide: Guide, ground: Terrain
) -> TrotPlanner | PaperPlanner:
    """The planner of `config`, to be reset."""
    description = robot.description
    gait, feet = description.gait, description.feet
    assert gait is not None
    spheres = Feet(
        names=tuple(foot.name for foot in feet),
        frames=tuple(system.frame(foot.frame) for foot in feet),
        radii=np.array([foot.radius_m for foot in feet]),
        offsets=np.array([foot.offset_m for foot in feet]),
    )
    home = robot.home_joints(system.actuated_names)
    timing = Gait(
        period_s=gait.period_s,
        duty=gait.duty,
        touchdown=tuple(gait.touchdown[foot.name] for foot in feet),
        step_height_m=gait.step_height_m,
        touchdown_speed_m_s=gait.touchdown_speed_m_s,
    )
    if config.planner == "paper":
        return PaperPlanner(system, spheres, home, gait=timing, guide=guide, nominal=LINKS_NOMINAL)
    return TrotPlanner(
        system,
        spheres,
        home,
        gait=timing,
        guide=guide,
        limits=CommandLimits(
            linear_m_s2=description.command.acceleration_m_s2,
            angular_rad_s2=description.command.turn_acceleration_rad_s2,
        ),
        ground=None if config.terrain == "plane" else ground,
        balance=Balance(stiffness_1_s2=config.balance.stiffness_1_s2, damping_1_s=config.balance.damping_1_s)
        if config.balance != Righting()
        else None,
        # At every friction: told to keep its speed, the base would have to push the legs' reaction into the ground.
        constant_momentum=True,
    )


def start_state(robot: robots.Robot, spheres: SphereContacts, spread: float, rng: np.random.Generator) -> State:
    """The home pose with its joints spread a little, then moved as little as puts every foot on the ground.

    A robot that stands has its feet on the ground: dropped by a tenth of a millimetre, it would begin with the largest
    impact of its whole walk.
    """
    system = spheres.system
    home = robot.standing_state(system)
    joints = system.joint_positions(home.q) + spread * rng.standard_normal(system.n_actuated)
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


def _sensor(noise: Noise, robot: robots.Robot, rng: np.random.Generator) -> Sensor | None:
    """White noise on positions and angles; none where both are zero."""
    if noise.position_m == 0.0 and noise.angle_rad == 0.0:
        return None
    model = robot.system().model
    spread = np.full(model.nv, noise.angle_rad)
    spread[:3] = noise.position_m

    def sense(state: State) -> State:
        q = pin.integrate(model, state.q, spread * rng.standard_normal(model.nv))
        return State(t=state.t, q=q, v=state.v, forces=state.forces)

    return sense


@dataclass(slots=True)
class _Kicked:
    """A plant that is pushed in one of its steps."""

    plant: plants.SimulatedPlant
    countdown: int
    velocity: Array

    def reset(self, state: State) -> State:
        return self.plant.reset(state)

    def step(self, tau: Array, dt: float) -> State:
        if self.countdown == 0:
            self.plant.push(self.velocity)
        self.countdown -= 1
        return self.plant.step(tau, dt)

    def contact_forces(self) -> ContactForces:
        return self.plant.contact_forces()


def _goals(config: Config, robot: robots.Robot) -> dict[str, Any]:
    """Goals of planner.md 10 for the paper's robot on its path, shown beside the figures; nothing for other runs."""
    if robot.name != "links" or config.path != Path2D() or config.controller not in ("id-coulomb-qp", "pid"):
        return {}
    low = config.mu < SLIPPERY_MU
    if config.controller == "pid":
        return {"goals": {"q_err_rad": 0.010}}
    return {
        "goals": {
            "q_err_rad": 0.007 if low else 0.004,
            "qd_err_rad_s": 0.10 if low else 0.06,
            "force_err_rel": 0.006,
            "dtau_mean_nm_s": 22.0,
            "dtau_max_nm_s": 2000.0,
            "com_path_err_m": 0.003,
            "com_path_max_m": 0.010,
            "base_height_err_m": 0.001,
        }
    }
