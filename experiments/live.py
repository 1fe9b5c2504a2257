"""The trot for the loop on the wall clock: the same robot, planner, controller and plant, in processes of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from idcontrol import controllers
from idcontrol.experiments import trot
from idcontrol.experiments.locomotion import POSTURE, Posture, Scene, channels
from idcontrol.loop.safety import Limits
from idcontrol.planners.commands import Schedule
from idcontrol.planners.paper import PaperPlanner
from idcontrol.planners.trot import TrotPlanner
from idcontrol.record.metrics import locomotion
from idcontrol.types import Array, Plant, Reference, State

TORQUE_RATE = 400.0
"""How fast a torque may change: its whole range in so many parts of a second [1/s], where the robot has a limit."""

FREE_TORQUE_RATE_NM_S = 5000.0
"""And where it has none in effect (`links`): more than twice the fastest change of a clean trot [N m/s]."""

NO_LIMIT_NM = 1e3
"""Limits from here on are no limits of a motor that moves a walking robot."""

NOTES = 6
"""Target (2), segment (2), waypoints reached, turning."""


class Loop:
    """What the command line finds under ``idcontrol.loops``."""

    name = "trot"
    summary = trot.experiment.summary
    presets = trot.PRESETS

    def session(self, config: trot.Config) -> TrotSession:
        """All that a loop needs for the trot of `config`."""
        return TrotSession(config)


loop = Loop()


class TrotSession:
    """A `idcontrol.loop.session.Session`.

    Attributes:
        robot: Name of the robot.
        system: Its multibody terms.
        start: All feet on the ground.
        limits: Of the robot file and of the URDF.
        feet: Names.
        notes: `NOTES`.
    """

    notes = NOTES

    def __init__(self, config: trot.Config) -> None:
        """Look at the robot.

        Raises:
            UnknownName: There is no such robot.
            InputError: It cannot trot.
        """
        self._config, self._robot, self._h = config, trot.load_walker(config), 1.0 / config.rate_hz
        self._ground = trot.make_ground(config)
        self.robot = self._robot.name
        self.system = self._robot.system()
        self._observer = trot.foot_spheres(self._robot, self.system, self._ground, config.mu)
        rng = np.random.default_rng(config.seed)
        self.start = trot.start_state(self._robot, self._observer, config.start_spread_rad, rng)
        self.limits = self._limits()
        self.feet = tuple(foot.name for foot in self._robot.description.feet)
        shapes, _ = self.channels()
        self._found = {name: np.empty(shapes[name]) for name in POSTURE}
        self._posture = Posture(self._observer, self._found)

    def planner(self) -> NotedPlanner:
        """The planner of the trot."""
        guide = trot.make_guide(self._config, self._robot)
        planner = trot.make_planner(self._config, self._robot, self._robot.system(), guide, self._ground)
        return NotedPlanner(planner, None if isinstance(guide, Schedule) else guide)

    def setup(self) -> controllers.Setup:
        """What its controller is built from."""
        return trot.controller_setup(self._config, self._robot, self._ground, self._h)

    def plant(self, dt: float) -> Plant:
        """The plant, stepped every `dt` [s]."""
        return trot.make_plant(self._config, self._robot, self._ground, dt)

    def channels(self) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        """Those of every walk."""
        return channels(self.system, len(self.feet))

    def derive(self, row: Mapping[str, Array]) -> dict[str, Any]:
        """What follows from the state, and how far the walk has come."""
        self._posture(row["q"], row["v"])
        found: dict[str, Any] = dict(self._found)
        if self._config.path.kind == "waypoints":
            notes = row["notes"]
            found["target"], found["segment"] = notes[:2], notes[2:4]
            found["waypoints"], found["turning"] = notes[4], notes[5]
        return found

    def meta(self) -> dict[str, Any]:
        """Facts that the arrays do not say."""
        scene = self._scene()
        layout = msgspec.structs.replace(scene.layout(), waypoints=self._waypoints())
        facts = {"layout": layout, "scene": scene.scenery}
        return {"experiment": "trot", **msgspec.to_builtins(facts)}

    def metrics(self, arrays: dict[str, Array]) -> dict[str, Any]:
        """Those of every walk."""
        return locomotion(arrays, self._scene().layout(), self._config.duration_s)

    def _waypoints(self) -> tuple[tuple[float, float], ...]:
        return self._config.path.waypoints_m if self._config.path.kind == "waypoints" else ()

    def _scene(self) -> Scene:
        if not hasattr(self, "_made"):
            planner = self.planner()
            self._made = Scene(
                observer=self._observer,
                plant=None,
                gait=planner.planner.gait,
                base_height_m=planner.planner.height,
                walk=None,
                feet=self.feet,
                period_s=self._h,
                scenery=trot.scenery(self._config, self._robot, self._ground),
            )
        return self._made

    def _limits(self) -> Limits:
        names, model = self.system.actuated_names, self.system.model
        torque = self.system.effort_limit
        at = [model.joints[model.getJointId(name)] for name in names]
        low = np.array([model.lowerPositionLimit[joint.idx_q] if joint.nq == 1 else -np.inf for joint in at])
        high = np.array([model.upperPositionLimit[joint.idx_q] if joint.nq == 1 else np.inf for joint in at])
        _, damping = self._robot.torque_gains(names)
        return Limits(
            torque=torque,
            torque_rate=np.where(torque < NO_LIMIT_NM, TORQUE_RATE * torque, FREE_TORQUE_RATE_NM_S),
            # a URDF without limits says 0 and 0
            low=np.where(low < high, low, -np.inf),
            high=np.where(low < high, high, np.inf),
            speed=self._robot.velocity_limit(names),
            damping=damping,
        )


class NotedPlanner:
    """The planner of a trot, which also tells how far the walk has come.

    Attributes:
        planner: The planner.
    """

    def __init__(self, planner: TrotPlanner | PaperPlanner, walk: Any) -> None:
        """Note the progress of `walk` (`idcontrol.experiments.locomotion.Walk`); None where there is none."""
        self.planner, self._walk = planner, walk
        self._notes = np.full(NOTES, np.nan)

    def reset(self, state: State) -> None:
        """Begin anew at `state`."""
        self.planner.reset(state)

    def __call__(self, state: State) -> Reference:
        """What the joints should do at ``state.t``."""
        return self.planner(state)

    def notes(self) -> Array:
        """Target, segment, waypoints reached, whether it turns; shape (6,)."""
        if self._walk is not None:
            self._notes[:2], self._notes[2:4] = self._walk.target, self._walk.previous
            self._notes[4], self._notes[5] = self._walk.reached, self._walk.turning
        return self._notes
