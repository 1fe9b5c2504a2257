"""Record a walk: the channels that `idcontrol.record.metrics` and `idcontrol.show.report` read, one row per tick."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pinocchio as pin

from idcontrol.config.configuration import jsonable
from idcontrol.contact.soles import Soles
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import sphere_gap
from idcontrol.dynamics.system import System
from idcontrol.kernels import stopwatch
from idcontrol.kernels.bound import Bound, bind
from idcontrol.kernels.jit import njit
from idcontrol.kernels.placements import placement_views
from idcontrol.loop.simulated import Tick
from idcontrol.planners.paper import OriginalWaypoints
from idcontrol.planners.waypoints import Waypoints
from idcontrol.plants import SimulatedPlant
from idcontrol.record.channels import ChannelRow, span
from idcontrol.record.metrics import Layout, fallen, locomotion, solver_number
from idcontrol.record.recording import Recorder
from idcontrol.scenes.disturbances import drive_of
from idcontrol.scenes.settings import control_periods
from idcontrol.scenes.walk import SimulatedWalk, WalkGuide, WalkPlanner, WalkScene
from idcontrol.types import Array, Booleans, ContactForces, Event, Integers, Status

UNREACHABLE_M = 1e-6
"""A planned foot is out of reach if it is farther than this from its reachable position [m] (planner.md 5)."""
REPORT_EVERY = 100
"""Number of ticks between two reports of progress."""
MOTION = ("q", "v", "q_des", "v_des", "a_des", "tau", "stance")
"""Channels of state, reference and torques, adjacent in a row, so that they are copied together."""
OUTCOME = ("status", "residual", "clipped", "rate_off", "solved_by", "gap_nm")
"""Channels for the outcome of the controller's step, adjacent in a row."""
COURSE = ("waypoints", "turning", "step_us", "plant_status", "plant_residual", "plant_regularization")
"""Channels for the walk's progress, the controller's time and the outcome of the plant's step, adjacent in a row."""
POSTURE = ("feet", "gap", "slip", "base_tilt", "com")
"""Channels that depend on the state only."""


def channels(system: System, feet: int, *, soles: bool) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
    """Return two dictionaries by name of a recorded channel: the shape of one row, and the unit if it has one.

    Args:
        system: The robot.
        feet: Number of its feet.
        soles: True if there are soles among them.
    """
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
        **dict.fromkeys(("feet", "feet_des"), ((feet, 3), "m")),
        "gap": (per_foot, "m"),
        "slip": (per_foot, "m/s"),
        **dict.fromkeys(("force", "force_pred"), ((feet, 3), "N")),
        **dict.fromkeys(OUTCOME, ((), "")),
        "gap_nm": ((), "N m"),
        "base_ref": ((4,), ""),
        "base_tilt": ((), "rad"),
        "com": ((3,), "m"),
        **dict.fromkeys(("commanded", "granted"), ((3,), "")),
        **dict.fromkeys(("target", "segment"), ((2,), "m")),
        **dict.fromkeys(COURSE, ((), "")),
        "step_us": ((), "us"),
    }
    if soles:
        rows |= dict.fromkeys(("moment", "moment_pred"), ((feet, 3), "N m"))
        rows |= dict.fromkeys(("cop", "cop_pred"), ((feet, 3), "m"))
    return {name: shape for name, (shape, _) in rows.items()}, {name: unit for name, (_, unit) in rows.items() if unit}


def progress_of(guide: WalkGuide) -> Waypoints | OriginalWaypoints | None:
    """Return the guide if it leads between waypoints; otherwise None."""
    return guide if isinstance(guide, Waypoints | OriginalWaypoints) else None


def _finite(limits: Array) -> tuple[float | None, ...]:
    return tuple(float(limit) if np.isfinite(limit) else None for limit in limits)


def layout(scene: WalkScene, planner: WalkPlanner) -> Layout:
    """Return facts about a walk that are not in its recorded arrays."""
    system, limits, guide = scene.robot.system(), scene.robot.description.command, scene.guide()
    joints = [system.model.joints[system.model.getJointId(name)] for name in system.actuated_names]
    return Layout(
        joints=system.actuated_names,
        feet=scene.robot.patches,
        joint_q=tuple(joint.idx_q for joint in joints),
        joint_v=tuple(joint.idx_v for joint in joints),
        torque_limit=_finite(system.effort_limit),
        lower=_finite(system.limits.lower),
        upper=_finite(system.limits.upper),
        speed_limit=_finite(system.limits.speed),
        period_s=scene.period_s,
        gait_period_s=planner.gait.period_s,
        swing_s=planner.gait.swing_s,
        base_height_m=scene.robot.standing_height(system),
        waypoints=()
        if progress_of(guide) is None
        else tuple((float(x), float(y)) for x, y in scene.config.path.waypoints_m),
        acceleration_m_s2=limits.acceleration_m_s2,
        turn_acceleration_rad_s2=limits.turn_acceleration_rad_s2,
    )


def _sensed_and_wanted(
    walk: SimulatedWalk, base: str, shapes: dict[str, tuple[int, ...]], units: dict[str, str]
) -> dict[str, Callable[[Tick], Array]]:
    """Return the channels that differ from the plant's: sensed states and, with drives, the controller's torques.

    Args:
        walk: The loop that is recorded.
        base: Setting ``sensing.base``.
        shapes: Shape of each channel; new channels are added.
        units: Unit of each channel; new channels are added.
    """
    extra: dict[str, Callable[[Tick], Array]] = {}
    if base == "estimated":
        shapes["base_seen"] = (13,)
        extra["base_seen"] = lambda tick: np.concatenate((tick.sensed.q[:7], tick.sensed.v[:6]))
    if walk.sense is not None:
        shapes |= {"q_sensed": shapes["q"], "v_sensed": shapes["v"]}
        extra |= {"q_sensed": lambda tick: tick.sensed.q, "v_sensed": lambda tick: tick.sensed.v}
    if drive_of(walk.plant) is not None:
        shapes["tau_wanted"], units["tau_wanted"] = shapes["tau"], units["tau"]
        extra["tau_wanted"] = lambda tick: tick.command.tau
    return extra


def record_walk(
    scene: WalkScene,
    out: Path,
    *,
    meta: Mapping[str, Any] | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> dict[str, Any]:
    """Walk on the simulated clock until the end or a fall, record it, and compute its metrics.

    Args:
        scene: Robot, ground and configuration.
        out: Folder of the record.
        meta: More facts about the run.
        progress: Called with the completed share; with 1 at the end, also after a fall.

    Returns:
        The metrics of `idcontrol.record.metrics.locomotion`, the friction of plant and controller, the number of ticks
        with a foot out of reach, the reason of the controller's first failure (``failed_because``; None if it never
        failed), wall and processor time, and the real-time factor.

    Raises:
        UnknownName: The controller or plant does not exist.
        InputError: The configuration is unusable.
    """
    config = scene.config
    periods = control_periods(config.duration_s, config.rate_hz)
    walk, observer = scene.simulated(), scene.observer()
    facts = layout(scene, walk.planner)
    shapes, units = channels(observer.system, observer.n_feet, soles=observer.sole_patch is not None)
    known = {"layout": msgspec.to_builtins(facts), "scene": msgspec.to_builtins(scene.scenery()), **(meta or {})}
    if walk.sense is not None:
        known["planned_from"] = {"q": walk.seen.q.tolist(), "v": walk.seen.v.tolist()}
    extra = _sensed_and_wanted(walk, config.sensing.base, shapes, units)
    row = TickRow(observer, walk.plant, progress_of(walk.guide), walk.planner)
    began, busy = stopwatch.wall_s(), stopwatch.processor_s()
    settings = jsonable(msgspec.to_builtins(config))
    with Recorder(out, shapes, units, known, config=settings, wall_time=("step_us",)) as recorder:
        unreachable, reasons = 0, dict[str, None]()
        for count, tick in enumerate(walk.ticks(periods), start=1):
            values = np.concatenate((row(tick), *(of(tick) for of in extra.values())))
            recorder.extend(values[None])
            if tick.reference.residual > UNREACHABLE_M:
                if unreachable == 0:
                    recorder.event(Event(t=tick.state.t, what="a planned foot is out of reach of its leg"))
                unreachable += 1
            if tick.command.status is Status.FAILED and (reason := ", ".join(tick.command.dropped)) not in reasons:
                reasons[reason] = None
                recorder.event(Event(t=tick.state.t, what=f"the controller failed: {reason}"))
            if count % REPORT_EVERY == 0:
                progress(count / periods)
            if _lost(tick, row.tilt, facts.base_height_m):
                recorder.event(Event(t=tick.state.t, what="the robot fell"))
                break
        progress(1.0)
        wall, busy = stopwatch.wall_s() - began, stopwatch.processor_s() - busy
        arrays = recorder.arrays()
        metrics = locomotion(arrays, facts, config.duration_s) | scene.friction
        if metrics["missed"] is not None:
            what = f"the robot did not do what it was asked: {metrics['missed']}"
            recorder.event(Event(t=float(arrays["t"][-1]), what=what))
        metrics |= {
            "unreachable_steps": unreachable,
            "failed_because": next(iter(reasons), None),
            "wall_s": wall,
            "cpu_s": busy,
            "realtime_factor": len(arrays["t"]) * facts.period_s / wall,
        }
        recorder.close(metrics)
    return metrics


def _lost(tick: Tick, tilt: float, height_m: float) -> bool:
    """True if the robot has fallen at the beginning of a recorded tick, or if its state at the end is not finite."""
    level = float(tick.reference.base_position[2])
    return fallen(float(tick.state.q[2]), level, tilt, height_m) or not np.isfinite(tick.after.q).all()


class TickRow:
    """The record of a tick as one row of all `channels`."""

    def __init__(
        self,
        observer: SphereContacts,
        plant: SimulatedPlant,
        progress: Waypoints | OriginalWaypoints | None,
        planner: WalkPlanner,
    ) -> None:
        """Lay out the row.

        Args:
            observer: Foot spheres with their own system.
            plant: Provides the outcome of its last step, and its drives' torques if it has drives.
            progress: Provides the progress between waypoints; None without waypoints.
            planner: Provides the command, and the command after governor and limiter.
        """
        self._asked = planner.commanded, planner.command
        shapes, _ = channels(observer.system, observer.n_feet, soles=observer.sole_patch is not None)
        self._soles = None if observer.sole_patch is None else observer.soles
        self._plant, self._drive, self._progress = plant, drive_of(plant), progress
        self._row = ChannelRow(shapes)
        self._motion = self._row.values[span(shapes, MOTION)]
        self._write_outcome, self._write_course = self._row.writer(OUTCOME), self._row.writer(COURSE)
        self._posture = Posture(observer, self._row.of)

    def __call__(self, tick: Tick) -> Array:
        """Return the row of `tick`, shape (values,); the next call overwrites it."""
        of, last, progress = self._row.of, self._plant.last, self._progress
        state, reference, command = tick.state, tick.reference, tick.command
        tau = command.tau if self._drive is None else self._drive.torque
        of["t"][...] = state.t
        np.concatenate(
            (state.q, state.v, reference.q, reference.v, reference.a, tau, reference.stance), out=self._motion
        )
        of["feet_des"][:] = reference.feet
        of["base_ref"][:3], of["base_ref"][3] = reference.base_position, reference.base_yaw
        of["commanded"][:], of["granted"][:] = self._asked
        soles = None if self._soles is None else self._soles(state.q)
        self._write_forces("", tick.forces, soles)
        self._write_forces("_pred", command.predicted, soles)
        solver = solver_number(command.solved_by)
        rate_off = "rate" in command.dropped
        self._write_outcome(command.status, command.residual, command.clipped, rate_off, solver, command.gap)
        self._posture(state.q, state.v)
        if progress is not None:
            of["target"][:], of["segment"][:] = progress.target, progress.previous
        self._write_course(
            *((math.nan, math.nan) if progress is None else (progress.reached, progress.turning)),
            1e6 * tick.controller_s,
            *((math.nan,) * 3 if last is None else (last.status, last.residual, last.regularization)),
        )
        return self._row.values

    def _write_forces(self, ending: str, forces: ContactForces | None, soles: Soles | None) -> None:
        """Write the channel ``force`` + `ending`, and with soles ``moment`` and ``cop``, too; NaN without forces."""
        of = self._row.of
        force = of[f"force{ending}"]
        force[:] = np.nan if forces is None else 0.0
        if soles is None:
            if forces is not None:
                force[forces.identity] = forces.force
            return
        wrenches = np.full((len(force), 6), np.nan) if forces is None else soles.wrenches(forces)
        force[:], of[f"moment{ending}"][:] = wrenches[:, :3], wrenches[:, 3:]
        of[f"cop{ending}"][:] = np.nan if forces is None else soles.pressure_centres(wrenches)

    @property
    def tilt(self) -> float:
        """Return the tilt of the base in the last row [rad]."""
        return float(self._row.of["base_tilt"])


class Posture:
    """Writes the channels that depend on the state only: feet, their gap and slip, tilt of the base, centre of mass."""

    def __init__(self, observer: SphereContacts, out: Mapping[str, Array]) -> None:
        """Prepare to write the channels of `out` for the spheres of `observer`.

        Args:
            observer: Foot spheres; only their geometry is used, not the last update of their system.
            out: Arrays of the channels ``feet, gap, slip, base_tilt, com``, overwritten by each call.
        """
        system = observer.system
        self._model, self._data = system.model, system.model.createData()
        joint, offset = observer.mounting()
        foot_joint, foot_offset = observer.foot_mounting
        moves = np.empty((len(joint), system.n_velocities), dtype=np.bool_)
        moves[:, system.order] = system.support[joint]
        position, rotation = placement_views(self._data.oMi)
        moving = _MovingFeet(
            position=position,
            rotation=rotation,
            jacobian=self._data.J,
            joint=joint,
            moves=moves,
            offset=offset,
            patch=observer.patch,
            foot_joint=foot_joint,
            foot_offset=foot_offset,
            radius=observer.radius,
            parameters=observer.terrain.parameters,
            coefficients=observer.terrain.coefficients,
        )
        written = _WrittenPosture(feet=out["feet"], gap=out["gap"], slip=out["slip"], tilt=out["base_tilt"])
        self._com, self._bound = out["com"], bind((moving, written))
        self(pin.neutral(system.model), np.zeros(system.n_velocities))  # loads the code, so that recording never pauses

    def __call__(self, q: Array, v: Array) -> None:
        """Write the channels for configuration `q` (nq,) and velocity `v` (nv,), both in Pinocchio's layout."""
        pin.computeJointJacobians(self._model, self._data, q)
        self._com[:] = pin.centerOfMass(self._model, self._data, pin.KinematicLevel.POSITION, False)
        _write_posture(self._bound, q, v)


class _MovingFeet(NamedTuple):
    """k foot spheres on the n joints of a robot with nv velocities, and the ground under them.

    Attributes:
        position: Origins of the joints' frames in the world, shape (n, 3) [m].
        rotation: Rotations from the joints' axes to the world's axes, shape (n, 3, 3).
        jacobian: Pinocchio's joint Jacobians in the world frame, shape (6, nv): linear rows first.
        joint: The joint that carries each sphere, shape (k,).
        moves: True for velocities that move each sphere, in Pinocchio's order, shape (k, nv).
        offset: Centre of each sphere in its joint's frame, shape (k, 3) [m].
        patch: Foot that each sphere belongs to, shape (k,).
        foot_joint: The joint that carries each foot, shape (f,).
        foot_offset: Position of each foot in its joint's frame, shape (f, 3) [m].
        radius: Radii, shape (k,) [m].
        parameters: `idcontrol.contact.terrain.Terrain.parameters` of the ground.
        coefficients: `idcontrol.contact.terrain.Terrain.coefficients` of the ground.
    """

    position: Array
    rotation: Array
    jacobian: Array
    joint: Integers
    moves: Booleans
    offset: Array
    patch: Integers
    foot_joint: Integers
    foot_offset: Array
    radius: Array
    parameters: Array
    coefficients: Array


class _WrittenPosture(NamedTuple):
    """The channels of `_write_posture`: shapes (f, 3), (f,), (f,) and ()."""

    feet: Array
    gap: Array
    slip: Array
    tilt: Array


@njit(cache=True, inner=True, error_model="numpy")
def _carry(at: Array, turn: Array, offset: Array, out: Array) -> None:  # pragma: no cover - compiled
    """Write the world position of a point that moves with a joint."""
    for k in range(3):
        out[k] = at[k] + turn[k, 0] * offset[0] + turn[k, 1] * offset[1] + turn[k, 2] * offset[2]


@njit(cache=True, error_model="numpy")
def _write_posture(bound: Bound, q: Array, v: Array) -> None:  # pragma: no cover - compiled
    """Write the centre of each foot, the smallest gap and fastest slip of its corners, and the tilt of the base.

    Slip is the speed along the ground of the material point in contact.
    """
    on, out = bound.borrowed
    for foot in range(on.foot_joint.shape[0]):
        joint = on.foot_joint[foot]
        _carry(on.position[joint], on.rotation[joint], on.foot_offset[foot], out.feet[foot])
        out.gap[foot], out.slip[foot] = np.inf, 0.0
    centre = np.empty(3)
    for i in range(on.joint.shape[0]):
        foot = on.patch[i]
        _carry(on.position[on.joint[i]], on.rotation[on.joint[i]], on.offset[i], centre)
        gap, n, p = sphere_gap(on.parameters, on.coefficients, centre[0], centre[1], centre[2], on.radius[i])
        twist = np.zeros(6)
        for j in range(v.shape[0]):
            if on.moves[i, j]:
                for row in range(6):
                    twist[row] += on.jacobian[row, j] * v[j]
        wx, wy, wz = twist[3], twist[4], twist[5]
        x, y, z = twist[0] + wy * p[2] - wz * p[1], twist[1] + wz * p[0] - wx * p[2], twist[2] + wx * p[1] - wy * p[0]
        along = n[0] * x + n[1] * y + n[2] * z
        x, y, z = x - along * n[0], y - along * n[1], z - along * n[2]
        slip = np.sqrt(x * x + y * y + z * z)
        # the comparison is false for NaN, so that NaN is written
        out.gap[foot] = out.gap[foot] if out.gap[foot] <= gap else gap
        out.slip[foot] = out.slip[foot] if out.slip[foot] >= slip else slip
    # cosine of the angle between the z axes of base and world, from the base's quaternion (x, y, z, w)
    out.tilt[()] = math.acos(max(-1.0, min(1.0, 1.0 - 2.0 * (q[3] * q[3] + q[4] * q[4]))))
