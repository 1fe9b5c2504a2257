"""Logs for identification: states, torques and forces on feet, from a recorded run or from arrays."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pinocchio as pin

from idcontrol.errors import InputError
from idcontrol.loop.record import working
from idcontrol.record.recording import Run
from idcontrol.robots import Robot
from idcontrol.types import TOUCHING_N, Array, Booleans

CLEAR_M = 0.01
"""Gap below which a foot may touch the ground [m]; used if forces are not recorded."""
SHORTEST_S = 0.5
"""Shortest log [s]."""
UNIT = 1e-2
"""Largest allowed deviation of a quaternion's length from 1; logs may be rounded to two decimals."""


class Log(NamedTuple):
    """A log of n ticks. The robot has k feet, and the number of its actuated joints is a.

    In each tick, the state precedes the torque.

    Attributes:
        name: Name of the log in messages.
        t: Times, shape (n,) [s].
        q: Configurations, Pinocchio's layout, shape (n, nq).
        v: Velocities, Pinocchio's layout, shape (n, nv).
        tau: Torques of the drives until the next state, shape (n, a) [N m]; NaN where unknown.
        wrench: Force and moment of the ground on each foot until the next state, world axes, shape (n, k, 6) [N, N m];
            NaN where unknown. Moments are about the contact point of a point foot or the origin of a sole's frame.
        touching: True for feet that may touch the ground, shape (n, k).
    """

    name: str
    t: Array
    q: Array
    v: Array
    tau: Array
    wrench: Array
    touching: Booleans

    def rows(self, chosen: slice) -> Log:
        """Return a log of the ticks `chosen`."""
        name, t, q, v, tau, wrench, touching = self
        return Log(name, t[chosen], q[chosen], v[chosen], tau[chosen], wrench[chosen], touching[chosen])


def log_of(run: Run, robot: Robot) -> Log:
    """Return the log of a run of `robot`; for a run of a loop, the last uninterrupted sequence of working ticks.

    Raises:
        InputError: The run lacks channels, does not fit the robot, or is too short.
    """
    layout, joints = run.layout, robot.system().actuated_names
    if layout is not None and layout.joints != joints:
        raise InputError(
            f"{run.folder}: the run has joints {layout.joints[0]}, …, and {robot.name} has {joints[0]}, …; give the "
            "file of the robot that was recorded"
        )
    arrays = dict(run.arrays)
    if "mode" in arrays and "phase" in arrays:
        rows = working(arrays)
        arrays = {name: values[rows] for name, values in arrays.items()}
    for name in ("q", "v"):
        arrays[name] = arrays.get(f"{name}_sensed", arrays.get(name, np.zeros(0)))
    applied = arrays.get("tau_applied")
    if applied is not None and np.isfinite(applied).all():
        # a state reports the torques of the period before it
        arrays["tau"] = np.concatenate((applied[1:], arrays["tau"][-1:]))
    return log_from(str(run.folder), arrays, robot)


def log_from(name: str, arrays: Mapping[str, Array], robot: Robot) -> Log:
    """Return the log in `arrays`.

    The names are ``t, q, v, tau``, with shapes as in `Log`. For a robot with feet, the arrays ``force`` and ``moment``,
    shapes (n, k, 3), ``gap`` and ``stance``, shapes (n, k), are also used if they are present. A robot with feet and a
    floating base needs force, gap or stance.

    Raises:
        InputError: An array is missing, does not fit the robot or has unusable values; or the log is too short.
    """
    model, a, k = robot.system().model, robot.system().n_actuated, len(robot.patches)
    t = arrays.get("t", np.zeros(0))
    n = t.size
    for channel, shape in {"t": (n,), "q": (n, model.nq), "v": (n, model.nv), "tau": (n, a)}.items():
        values = arrays.get(channel)
        if values is None or values.shape != shape:
            have = "no such channel" if values is None else f"shape {values.shape}"
            raise InputError(f"{name}: {channel} of {robot.name} has shape {shape}, the log has {have}; log it")
        if not np.isfinite(values).all():
            raise InputError(f"{name}: {channel} is not finite everywhere; cut the log")
    if n < 2 or t[-1] - t[0] < SHORTEST_S or not (np.diff(t) > 0.0).all():
        raise InputError(f"{name}: times must rise over {SHORTEST_S} s or more; record a longer run")
    if not all(pin.isNormalized(model, each, UNIT) for each in arrays["q"]):
        raise InputError(f"{name}: q has quaternions whose length is not 1; log them as x, y, z, w")
    wrench, touching = np.full((n, k, 6), np.nan), np.zeros((n, k), dtype=np.bool_)
    if k:
        for channel, shape in {"force": (n, k, 3), "moment": (n, k, 3), "gap": (n, k), "stance": (n, k)}.items():
            _require_each_foot(name, arrays, channel, shape)
        force = arrays.get("force", wrench[:, :, :3])
        points = len(robot.description.feet)
        wrench[:, :, :3] = force
        wrench[:, :points, 3:] = 0.0
        wrench[:, points:, 3:] = arrays.get("moment", wrench[:, :, 3:])[:, points:]
        if np.isfinite(force).all():
            touching = np.linalg.norm(force, axis=2) > TOUCHING_N
        elif "gap" in arrays or "stance" in arrays:
            touching = (arrays.get("gap", np.inf * np.ones((n, k))) < CLEAR_M) | (arrays.get("stance", touching) > 0.0)
        elif robot.description.base == "free-flyer":
            raise InputError(f"{name}: nothing says which feet touch the ground; log force, gap or stance")
    return Log(name, t, arrays["q"], arrays["v"], arrays["tau"], wrench, touching)


def _require_each_foot(name: str, arrays: Mapping[str, Array], channel: str, shape: tuple[int, ...]) -> None:
    """Raise `InputError` if a channel of the feet does not have `shape`, or has an infinite force or moment."""
    values = arrays.get(channel, np.zeros(shape))
    if values.shape != shape:
        raise InputError(f"{name}: {channel} has shape {values.shape}, not {shape}; log it for each foot")
    if channel in ("force", "moment") and np.isinf(values).any():
        raise InputError(f"{name}: {channel} is infinite in places; log NaN where it is not measured")


def read_arrays(path: Path) -> dict[str, Array]:
    """Return the arrays of an NPZ file.

    Raises:
        InputError: The file cannot be read, or contains anything but numbers.
    """
    try:
        # NumPy leaves a file open that it cannot read
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: np.asarray(arrays[name], dtype=np.float64) for name in arrays.files}
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: no arrays of numbers ({error}); give an NPZ file with t, q, v and tau") from None
