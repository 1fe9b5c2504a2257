"""A walk for `idcontrol.loop`: the robot, planner, controller and plant of an experiment, in separate processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from idcontrol import controllers
from idcontrol.errors import InputError
from idcontrol.loop.life import Between
from idcontrol.loop.safety import Limits
from idcontrol.planners.commands import Joystick
from idcontrol.planners.paper import OriginalWaypoints
from idcontrol.planners.rise import Lair, Rise
from idcontrol.planners.trot import TrotPlanner
from idcontrol.planners.waypoints import Waypoints
from idcontrol.record.metrics import Layout, locomotion
from idcontrol.scenes.disturbances import Kicked
from idcontrol.scenes.locomotion import POSTURE, Posture, channels, layout, progress_of
from idcontrol.scenes.walk import LEAST_POWER, WalkConfig, WalkPlanner, WalkScene
from idcontrol.sensing import Sensing
from idcontrol.types import Array, Plant, Reference, State

TORQUE_RATE = 400.0
"""Largest torque rate as a multiple of the torque limit [1/s], for joints without a rate limit in the robot file."""

FREE_TORQUE_RATE_NM_S = 5000.0
"""Largest torque rate of joints without effective limits [N m/s]: more than twice the fastest change in an undisturbed
trot of `links`."""

NO_LIMIT_NM = 1e3
"""Torque limits of this size or larger never limit a walking robot."""

NOTES = 12
"""Number of values that the planner records in a tick: commanded (3), granted (3), target (2), segment (2), reached,
turning."""


@dataclass(frozen=True, slots=True)
class WalkLoop:
    """A walk as an entry point of the group ``idcontrol.loops``.

    Attributes:
        name: Name of the experiment in the record.
        summary: One line about it.
        presets: Configurations from which a user can start.
    """

    name: str
    summary: str
    presets: Mapping[str, WalkConfig]

    def session(self, config: WalkConfig) -> WalkSession:
        """Return the loop's session for the walk of `config`."""
        return WalkSession(self.name, config)


class WalkSession:
    """An `idcontrol.loop.session.Session` of a walk.

    Attributes:
        robot: Name of the robot.
        system: Multibody terms of the robot.
        start: State at the start, all feet on the ground.
        limits: Limits of the robot file and of the URDF.
        feet: Names of the feet.
        patch: Foot of each contact; None if each contact is a foot.
        notes: Number of values that `NotedPlanner.notes` returns.
        orders: Orders of joints of the robot file.
        lying: State of a robot that lies at the start; None without a lying pose, if it hangs on a hoist, or if the
            ground is not a plane or its normals have errors.
        friction: Dry friction by the robot file, shape (a,) [N m]; None if the file has no actuators.
    """

    notes = NOTES

    def __init__(self, experiment: str, config: WalkConfig) -> None:
        """Load the scene of `config`; `experiment` is the experiment's name in the record.

        Raises:
            UnknownName: The robot does not exist.
            InputError: The robot cannot walk; settings do not fit together; the height map does not exist; `sensing` is
                set, which a loop replaces by ``loop.sensing``; or `command.ahead_s` is set, although a loop does not
                look ahead.
        """
        if config.sensing != Sensing():
            raise InputError("sensing is for idcontrol run; in a loop use --set loop.sensing.KEY=VALUE")
        if config.command.ahead_s != 0.0:
            raise InputError("command.ahead_s is only for idcontrol run: a loop does not look ahead; leave it out")
        self._experiment, self._scene = experiment, WalkScene.of(config)
        observer = self._scene.observer()
        self.orders = self._scene.robot.description.orders
        self.robot, self.feet = self._scene.robot.name, self._scene.robot.patches
        self.system, self.patch = observer.system, observer.sole_patch
        self.start = self._scene.start(np.random.default_rng(config.seed))
        self.limits = self._limits()
        robot, names = self._scene.robot, self.system.actuated_names
        self.friction = None if robot.description.actuators is None else robot.actuators(names).friction
        shapes, _ = self.channels()
        self._rise = self._make_rise()
        self.lying = None if self._rise is None else self._on_the_ground(self._rise.lying)
        self._derived = {name: np.empty(shapes[name]) for name in POSTURE}
        self._posture = Posture(observer, self._derived)

    def planner(self) -> NotedPlanner:
        """Return the planner of the walk."""
        guide = self._scene.guide()
        planner = self._scene.planner(guide)
        lying = self._scene.robot.description.lying
        return NotedPlanner(
            planner,
            progress_of(guide),
            self._scene.plan(planner),
            guide if isinstance(guide, Joystick) else None,
            out_m=0.0 if lying is None else lying.feet_out_m,
        )

    def setup(self) -> controllers.Setup:
        """Return the setup of the walk's controller."""
        return self._scene.controller_setup()

    def plant(self, dt: float) -> Plant:
        """Return the plant, stepped every `dt` [s]."""
        plant, kick = self._scene.plant(dt, lies=self._rise is not None, ready=True), self._scene.config.kick
        return plant if kick.at_s is None else Kicked(plant, round(kick.at_s / dt), np.array(kick.velocity_m_s))

    def between(self) -> Between | None:
        """Return the motion between lying and standing with its joint gains; None if the robot does not lie."""
        if self._rise is None:
            return None
        kp, kd = self._scene.robot.torque_gains(self.system.actuated_names)
        return Between(self._rise, kp, kd)

    def channels(self) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        """Return shapes and units of the channels of every walk, without moments: datagrams do not contain moments."""
        return channels(self.system, len(self.feet), soles=False)

    def derive(self, row: Mapping[str, Array]) -> dict[str, Any]:
        """Return the channels that depend on the state, the commands, and the progress of the walk, by name."""
        self._posture(row["q"], row["v"])
        derived: dict[str, Any] = dict(self._derived)
        notes = row["notes"]
        derived["commanded"], derived["granted"] = notes[:3], notes[3:6]
        if self._scene.config.path.kind == "waypoints":
            derived["target"], derived["segment"] = notes[6:8], notes[8:10]
            derived["waypoints"], derived["turning"] = notes[10], notes[11]
        return derived

    def meta(self) -> dict[str, Any]:
        """Return facts about the walk that are not in its recorded arrays."""
        facts = {"layout": self._layout, "scene": self._scene.scenery()}
        return {"experiment": self._experiment, **msgspec.to_builtins(facts)}

    def metrics(self, arrays: dict[str, Array]) -> dict[str, Any]:
        """Return the metrics of a walk, without metrics of the command if its planner grants no command."""
        if np.isnan(arrays["granted"]).all():
            arrays = {name: values for name, values in arrays.items() if name not in ("commanded", "granted")}
        return locomotion(arrays, self._layout, self._scene.config.duration_s) | self._scene.friction

    @cached_property
    def _layout(self) -> Layout:
        return layout(self._scene, self.planner().planner)

    def _make_rise(self) -> Rise | None:
        """Return the motion between lying and standing; None if the robot does not lie (`WalkSession.lying`)."""
        config, robot = self._scene.config, self._scene.robot
        lying = robot.description.lying
        if (
            lying is None
            or config.hoist.hangs
            or config.terrain != "plane"
            or config.disturbance.normal_error_rad > 0.0
        ):
            return None
        whole = robot.contacts(config.mu, supports=True)
        home = robot.standing_state(whole.system)
        whole.system.update(home.q, home.v)
        whole.detect(np.inf)
        below = float(home.q[2] - whole.gap[len(self.feet) :].min())
        feet = self._scene.observer()
        joints = robot.home_joints(feet.system.actuated_names)
        return Rise(feet, self._scene.planned_feet(feet.system), joints, Lair(below, lying.feet_out_m))

    def _on_the_ground(self, joints: Array) -> State:
        """Return a state at rest: these joints, an upright base, as low as the ground allows."""
        whole = self._scene.robot.contacts(self._scene.config.mu, supports=True)
        q = whole.system.configuration(joints, self.start.q[:7])
        v = np.zeros(whole.system.n_velocities)
        whole.system.update(q, v)
        whole.detect(np.inf)
        q[2] -= whole.gap.min()
        return State(t=0.0, q=q, v=v)

    def _limits(self) -> Limits:
        torque, limits = self.system.effort_limit, self.system.limits
        robot, power = self._scene.robot, self._scene.config.power
        drives = robot.description.limits
        by_torque = np.where(torque < NO_LIMIT_NM, TORQUE_RATE * torque, FREE_TORQUE_RATE_NM_S)
        return Limits(
            torque=torque,
            torque_rate=np.where(np.isfinite(limits.torque_rate), limits.torque_rate, by_torque),
            low=limits.lower,
            high=limits.upper,
            speed=limits.speed,
            damping=robot.brake_damping(self.system.actuated_names),
            least_share=1.0 if power == 1.0 else LEAST_POWER / power,
            power=power,
            hot_c=drives.temperature_c,
            voltage_v=drives.voltage_v,
        )


class NotedPlanner:
    """A planner that also records its command, the granted command, and the progress of the walk.

    Attributes:
        planner: The planner.
    """

    def __init__(
        self,
        planner: WalkPlanner,
        progress: Waypoints | OriginalWaypoints | None,
        plan: Callable[[State], Reference],
        joystick: Joystick | None = None,
        *,
        out_m: float = 0.0,
    ) -> None:
        """Wrap `planner`.

        Args:
            planner: The planner.
            progress: Progress between waypoints; None without waypoints.
            plan: Returns the controller's reference.
            joystick: The joystick that the planner follows; None for another guide.
            out_m: Distance by which the feet stand farther out after `halt` [m].
        """
        self._joystick, self._out, self._stance = joystick, out_m, np.zeros(1, dtype=np.bool_)
        self.planner, self._progress, self._plan = planner, progress, plan
        self._notes = np.full(NOTES, np.nan)

    def reset(self, state: State) -> None:
        """Start again at `state`."""
        self.planner.reset(state)

    def __call__(self, state: State) -> Reference:
        """Return the reference of the joints at ``state.t``."""
        reference = self._plan(state)
        self._stance = reference.stance
        return reference

    @property
    def halted(self) -> bool:
        """True if the robot has come to rest after `halt`; for planners that cannot halt, True if all feet stand."""
        return self.planner.halted if isinstance(self.planner, TrotPlanner) else bool(self._stance.all())

    def halt(self) -> None:
        """Come to rest, with the feet in positions from which the robot can lie down; only a `TrotPlanner` does so."""
        if isinstance(self.planner, TrotPlanner):
            self.planner.halt(self._out)

    def steer(self, axes: Array) -> None:
        """Pass on the axes of the robot's joystick, shape (4,); without a joystick, do nothing."""
        if self._joystick is not None:
            self._joystick.steer(axes)

    def notes(self) -> Array:
        """Return the values listed at `NOTES`, shape (12,); the next call overwrites them.

        Without waypoints, the values from the seventh on are NaN.
        """
        self._notes[:3], self._notes[3:6] = self.planner.commanded, self.planner.command
        if self._progress is not None:
            self._notes[6:8], self._notes[8:10] = self._progress.target, self._progress.previous
            self._notes[10], self._notes[11] = self._progress.reached, self._progress.turning
        return self._notes
