"""Run a legged robot through the loop and record what `idcontrol.metrics` and `idcontrol.report` read."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np

from idcontrol.contact.spheres import SphereContacts
from idcontrol.loop.simulated import Tick
from idcontrol.metrics import Layout, fallen, locomotion
from idcontrol.plants import SimulatedPlant
from idcontrol.recording import Recorder
from idcontrol.system import System
from idcontrol.types import Array, Event
from idcontrol.view.scenery import Scenery
from planners.gait import Gait

UNREACHABLE_M = 1e-6
"""A planned foot farther than this from where the joints can put it is out of reach [m] (planner.md 5)."""


def channels(system: System, feet: int) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
    """Names, shapes and units of what is recorded of each tick."""
    a, per_foot = (system.n_actuated,), (feet,)
    rows: dict[str, tuple[tuple[int, ...], str]] = {
        "t": ((), "s"),
        "q": ((system.model.nq,), ""),
        "v": ((system.model.nv,), ""),
        "q_des": (a, "rad"),
        "v_des": (a, "rad/s"),
        "a_des": (a, "rad/s^2"),
        "tau": (a, "N m"),
        "stance": (per_foot, ""),
        "feet": ((feet, 3), "m"),
        "feet_des": ((feet, 3), "m"),
        "gap": (per_foot, "m"),
        "slip": (per_foot, "m/s"),
        "force": ((feet, 3), "N"),
        "force_pred": ((feet, 3), "N"),
        "status": ((), ""),
        "residual": ((), ""),
        "clipped": ((), ""),
        "base_ref": ((4,), ""),
        "base_tilt": ((), "rad"),
        "com": ((3,), "m"),
        "target": ((2,), "m"),
        "segment": ((2,), "m"),
        "waypoints": ((), ""),
        "turning": ((), ""),
        "step_us": ((), "us"),
        "plant_status": ((), ""),
        "plant_residual": ((), ""),
        "plant_regularization": ((), ""),
    }
    return {name: shape for name, (shape, _) in rows.items()}, {name: unit for name, (_, unit) in rows.items() if unit}


class Walk(Protocol):
    """How far a walk between waypoints has come."""

    points: Array
    """All waypoints, shape (n, 2) [m]."""
    target: Array
    """The waypoint ahead, shape (2,) [m]."""
    previous: Array
    """The one behind, or the start, shape (2,) [m]."""
    reached: int
    """How many have been reached."""
    turning: bool
    """Whether the machine turns on the spot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a recorder looks at while a robot walks.

    Attributes:
        observer: Foot spheres on a system of its own, which looks at the true state.
        plant: Tells how its last step was solved; None where it is out of sight.
        gait: Timing of the steps.
        base_height_m: Nominal height of the base over the ground [m].
        walk: Tells how far the walk between waypoints has come; None where there are none.
        feet: Names of the feet.
        period_s: Control period [s].
        scenery: What there is to see for people (`idcontrol view`).
    """

    observer: SphereContacts
    plant: SimulatedPlant | None
    gait: Gait
    base_height_m: float
    walk: Walk | None
    feet: tuple[str, ...]
    period_s: float
    scenery: Scenery

    def layout(self) -> Layout:
        """What the recorded arrays do not say."""
        system = self.observer.system
        joints = [system.model.joints[system.model.getJointId(name)] for name in system.actuated_names]
        return Layout(
            joints=system.actuated_names,
            feet=self.feet,
            joint_q=tuple(joint.idx_q for joint in joints),
            joint_v=tuple(joint.idx_v for joint in joints),
            torque_limit=tuple(float(limit) if np.isfinite(limit) else None for limit in system.effort_limit),
            period_s=self.period_s,
            gait_period_s=self.gait.period_s,
            swing_s=self.gait.swing_s,
            base_height_m=self.base_height_m,
            waypoints=() if self.walk is None else tuple((float(x), float(y)) for x, y in self.walk.points),
        )


def record(
    run: Iterable[Tick],
    scene: Scene,
    *,
    steps: int,
    duration_s: float,
    config: dict[str, Any],
    meta: dict[str, Any],
    out: Path,
    progress: Callable[[float], None],
) -> dict[str, Any]:
    """Record a run until its end or a fall, and compute its metrics.

    Args:
        run: Ticks of the loop.
        scene: What there is to look at.
        steps: How many ticks there will be at most.
        duration_s: Length that was asked for [s].
        config: Resolved configuration.
        meta: More facts about the run.
        out: Folder of the record.
        progress: Is told the share that is done.

    Returns:
        The metrics of `idcontrol.metrics.locomotion`, wall time, and how many ticks had a foot out of reach.
    """
    layout = scene.layout()
    shapes, units = channels(scene.observer.system, len(layout.feet))
    began, unreachable = time.perf_counter(), 0
    meta = {"layout": msgspec.to_builtins(layout), "scene": msgspec.to_builtins(scene.scenery), **meta}
    with Recorder(out, shapes, units, meta, config=config, wall_time=("step_us",)) as recorder:
        for count, tick in enumerate(run, start=1):
            recorder.append(**row(tick, scene))
            if tick.reference.residual > UNREACHABLE_M:
                if unreachable == 0:
                    recorder.event(Event(t=tick.state.t, what="a planned foot is out of reach of its leg"))
                unreachable += 1
            if count % 100 == 0:
                progress(count / steps)
            # the state at the beginning of the tick: the row that shows the fall is in the record
            q, level = tick.state.q, float(tick.reference.base_position[2])
            lost = fallen(float(q[2]), level, _tilt(q), layout.base_height_m)
            if lost or not np.isfinite(tick.after.q).all():
                recorder.event(Event(t=tick.state.t, what="the robot fell"))
                break
        progress(1.0)
        wall = time.perf_counter() - began
        arrays = recorder.arrays()
        metrics = locomotion(arrays, layout, duration_s)
        metrics["unreachable_steps"] = unreachable
        metrics["wall_s"] = wall
        metrics["realtime_factor"] = len(arrays["t"]) * layout.period_s / wall
        recorder.close(metrics)
    return metrics


def row(tick: Tick, scene: Scene) -> dict[str, Any]:
    """What is recorded of a tick (`channels`)."""
    observer, plant, walk = scene.observer, scene.plant, scene.walk
    n = len(scene.feet)
    state, reference, command = tick.state, tick.reference, tick.command
    force, predicted = np.zeros((n, 3)), np.full((n, 3), np.nan)
    force[tick.forces.identity] = tick.forces.force
    if command.predicted is not None:
        predicted[:] = 0.0
        predicted[command.predicted.identity] = command.predicted.force
    found: dict[str, Any] = {
        "t": state.t,
        "q": state.q,
        "v": state.v,
        "q_des": reference.q,
        "v_des": reference.v,
        "a_des": reference.a,
        "tau": command.tau,
        "stance": reference.stance,
        "feet_des": reference.feet,
        "force": force,
        "force_pred": predicted,
        "status": command.status,
        "residual": command.residual,
        "clipped": command.clipped,
        "base_ref": (*reference.base_position, reference.base_yaw),
        "step_us": 1e6 * tick.controller_s,
        **posture(observer, state.q, state.v),
    }
    if plant is not None and plant.last is not None:
        found["plant_status"] = plant.last.status
        found["plant_residual"] = plant.last.residual
        found["plant_regularization"] = plant.last.regularization
    if walk is not None:
        found["target"], found["segment"] = walk.target, walk.previous
        found["waypoints"], found["turning"] = walk.reached, walk.turning
    return found


def posture(observer: SphereContacts, q: Array, v: Array) -> dict[str, Any]:
    """What follows from a state alone: feet, their gaps and slip, tilt of the base, centre of mass (`channels`)."""
    system = observer.system
    system.update(q, v)
    observer.detect(0.0)
    return {
        "feet": observer.centre,
        "gap": observer.gap,
        "slip": observer.slip(system.ours(v)),
        "base_tilt": _tilt(q),
        "com": system.com(q),
    }


def _tilt(q: Array) -> float:
    """Angle between the base's z axis and the world's [rad]."""
    x, y = float(q[3]), float(q[4])
    return math.acos(max(-1.0, min(1.0, 1.0 - 2.0 * (x * x + y * y))))
