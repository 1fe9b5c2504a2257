"""Run a legged robot through the loop and record what `idcontrol.record.metrics` and `idcontrol.show.report` read."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np
import pinocchio as pin
from numba import njit

from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import sphere_gap
from idcontrol.kernels.placements import placement_views
from idcontrol.loop.simulated import Tick
from idcontrol.planners.gait import Gait
from idcontrol.plants import SimulatedPlant
from idcontrol.record.channels import ChannelRow, span
from idcontrol.record.metrics import Layout, fallen, locomotion
from idcontrol.record.recording import Recorder
from idcontrol.show.view.scenery import Scenery
from idcontrol.system import System
from idcontrol.types import Array, Booleans, Event, Integers

UNREACHABLE_M = 1e-6
"""A planned foot farther than this from where the joints can put it is out of reach [m] (planner.md 5)."""
MOTION = ("q", "v", "q_des", "v_des", "a_des", "tau", "stance")
"""Channels that are copied together: side by side in a row."""
OUTCOME = ("status", "residual", "clipped")
"""Channels of what the controller says of its step: side by side in a row."""
COURSE = ("waypoints", "turning", "step_us", "plant_status", "plant_residual", "plant_regularization")
"""Channels of how the walk and the plant fare: side by side in a row."""
POSTURE = ("feet", "gap", "slip", "base_tilt", "com")
"""Channels that follow from a state alone."""


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
        The metrics of `idcontrol.record.metrics.locomotion`, wall time, and how many ticks had a foot out of reach.
    """
    layout = scene.layout()
    shapes, units = channels(scene.observer.system, len(layout.feet))
    row = TickRow(scene)
    began, unreachable = time.perf_counter(), 0
    meta = {"layout": msgspec.to_builtins(layout), "scene": msgspec.to_builtins(scene.scenery), **meta}
    with Recorder(out, shapes, units, meta, config=config, wall_time=("step_us",)) as recorder:
        for count, tick in enumerate(run, start=1):
            recorder.extend(row(tick)[None])
            if tick.reference.residual > UNREACHABLE_M:
                if unreachable == 0:
                    recorder.event(Event(t=tick.state.t, what="a planned foot is out of reach of its leg"))
                unreachable += 1
            if count % 100 == 0:
                progress(count / steps)
            # the state at the beginning of the tick: the row that shows the fall is in the record
            level = float(tick.reference.base_position[2])
            lost = fallen(float(tick.state.q[2]), level, row.tilt, layout.base_height_m)
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


class TickRow:
    """What is recorded of a tick, as one row (`channels`)."""

    def __init__(self, scene: Scene) -> None:
        """Lay out the row; nothing is known yet."""
        shapes, _ = channels(scene.observer.system, len(scene.feet))
        self._plant, self._walk = scene.plant, scene.walk
        self._row = ChannelRow(shapes)
        self._motion = self._row.values[span(shapes, MOTION)]
        self._write_outcome, self._write_course = self._row.writer(OUTCOME), self._row.writer(COURSE)
        self._posture = Posture(scene.observer, self._row.of)

    def __call__(self, tick: Tick) -> Array:
        """The row of `tick`, shape (values,): overwritten by the next call."""
        of, plant, walk = self._row.of, self._plant, self._walk
        state, reference, command = tick.state, tick.reference, tick.command
        of["t"][...] = state.t
        np.concatenate(
            (state.q, state.v, reference.q, reference.v, reference.a, command.tau, reference.stance), out=self._motion
        )
        of["feet_des"][:] = reference.feet
        of["base_ref"][:3], of["base_ref"][3] = reference.base_position, reference.base_yaw
        of["force"][:] = 0.0
        of["force"][tick.forces.identity] = tick.forces.force
        if command.predicted is None:
            of["force_pred"][:] = np.nan
        else:
            of["force_pred"][:] = 0.0
            of["force_pred"][command.predicted.identity] = command.predicted.force
        self._write_outcome(command.status, command.residual, command.clipped)
        self._posture(state.q, state.v)
        last = None if plant is None else plant.last
        if walk is not None:
            of["target"][:], of["segment"][:] = walk.target, walk.previous
        self._write_course(
            *((math.nan, math.nan) if walk is None else (walk.reached, walk.turning)),
            1e6 * tick.controller_s,
            *((math.nan,) * 3 if last is None else (last.status, last.residual, last.regularization)),
        )
        return self._row.values

    @property
    def tilt(self) -> float:
        """Of the base in the last row [rad]."""
        return float(self._row.of["base_tilt"])


class Posture:
    """What follows from a state alone: feet, their gaps and slip, tilt of the base, centre of mass (`channels`).

    Kinematics only: no inertia, no forces, no contact rows.
    """

    def __init__(self, observer: SphereContacts, out: Mapping[str, Array]) -> None:
        """Look at the spheres of `observer`.

        Args:
            observer: Foot spheres; only their geometry matters, not the last update of their system.
            out: Arrays of the channels ``feet, gap, slip, base_tilt, com``, overwritten by each call.
        """
        system = observer.system
        self._model, self._data = system.model, system.model.createData()
        self._joint, self._offset = observer.mounting()
        moves = np.empty((len(self._joint), system.n_velocities), dtype=np.bool_)
        moves[:, system.order] = system.support[self._joint]
        self._feet = (
            *placement_views(self._data.oMi),
            self._data.J,
            self._joint,
            moves,
            self._offset,
            observer.radius,
            observer.terrain.parameters,
            observer.terrain.coefficients,
        )
        self._com = out["com"]
        self._found = out["feet"], out["gap"], out["slip"], out["base_tilt"]

    def __call__(self, q: Array, v: Array) -> None:
        """Write what follows from configuration `q` (nq,) and velocity `v` (nv,), both in Pinocchio's layout."""
        pin.computeJointJacobians(self._model, self._data, q)
        self._com[:] = pin.centerOfMass(self._model, self._data, pin.KinematicLevel.POSITION, False)
        _look(*self._feet, q, v, *self._found)


@njit(cache=True, error_model="numpy")
def _look(
    position: Array,
    rotation: Array,
    jacobian: Array,
    joint: Integers,
    moves: Booleans,
    offset: Array,
    radius: Array,
    parameters: Array,
    coefficients: Array,
    q: Array,
    v: Array,
    feet: Array,
    gap: Array,
    slip: Array,
    tilt: Array,
) -> None:  # pragma: no cover - compiled
    """Centres of the spheres, gaps, speeds of the material contact points across the normals; how the base leans."""
    for i in range(joint.shape[0]):
        at, turn = position[joint[i]], rotation[joint[i]]
        for k in range(3):
            feet[i, k] = at[k] + turn[k, 0] * offset[i, 0] + turn[k, 1] * offset[i, 1] + turn[k, 2] * offset[i, 2]
        gap[i], n, p = sphere_gap(parameters, coefficients, feet[i, 0], feet[i, 1], feet[i, 2], radius[i])
        twist = np.zeros(6)
        for j in range(v.shape[0]):
            if moves[i, j]:
                for row in range(6):
                    twist[row] += jacobian[row, j] * v[j]
        wx, wy, wz = twist[3], twist[4], twist[5]
        x, y, z = twist[0] + wy * p[2] - wz * p[1], twist[1] + wz * p[0] - wx * p[2], twist[2] + wx * p[1] - wy * p[0]
        along = n[0] * x + n[1] * y + n[2] * z
        x, y, z = x - along * n[0], y - along * n[1], z - along * n[2]
        slip[i] = np.sqrt(x * x + y * y + z * z)
    # the cosine of the angle between the base's z axis and the world's, from the base's quaternion (x, y, z, w)
    tilt[()] = math.acos(max(-1.0, min(1.0, 1.0 - 2.0 * (q[3] * q[3] + q[4] * q[4]))))
