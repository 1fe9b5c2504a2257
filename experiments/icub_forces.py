"""A humanoid walks or sways: vertical forces on its feet, predicted from the motion alone, against measured forces.

Inverse dynamics of the motion gives the wrench of the ground (six numbers), which the two soles share. A single foot on
the ground carries the whole wrench. With two feet the split is indeterminate. Each sole is a patch of four corners; of
all corner forces that produce the wrench, the smallest are chosen. Corners above the floor get less force.

The log was published by Ramadoss et al. 2021
(github.com/ami-iit/paper_ramadoss_2021_icra_proprioceptive-base-estimator, matlab/resources, BSD 3-clause). It is in a
file ``icub_walk.npz``, with the robot's ``icub.urdf`` in the same folder.
The log of the sway is from Ramadoss et al. 2022 (github.com/ami-iit/paper_ramadoss-2022-iros-humanoid-base-estimation,
BSD 3-clause), in ``icub_sway.npz``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pinocchio as pin
from scipy.optimize import nnls
from scipy.spatial.transform import Rotation

from idcontrol.config.configuration import Positive
from idcontrol.dynamics.system import System
from idcontrol.errors import InputError
from idcontrol.experiments.case import Case, Progress
from idcontrol.experiments.findings import Drawing, Finding, Results, Series, axes
from idcontrol.types import Array

SOLES: Final = ("l_sole", "r_sole")

FASTEST_M_S = 2.0
"""Largest speed of the base between two rows [m/s]. A faster base is a fault of the motion capture, followed by a
freeze."""
BEFORE_ROWS, AFTER_ROWS = 8, 32
"""Rows before and after a jump of the motion capture that are interpolated linearly."""

ALIGN_HZ = 8.0
"""Cut-off frequency at which both signals are smoothed to find the delay of the measured total force [Hz]."""
LONGEST_DELAY = 10
"""Longest delay in the search [rows]."""

WEIGHED_ROWS = 50
"""Number of rows at the beginning, while the robot stands, that locate the mass centre."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the prediction.

    Attributes:
        data: Path of ``icub_walk.npz`` or ``icub_sway.npz``, with ``icub.urdf`` in the same folder; required.
        period_s: Time between two rows. The time stamps of the log are not used: they jitter by more than a period.
        motion_hz: Cut-off of the smoothing of positions, before two differentiations: Butterworth, second order,
            forward and backward.
        sole_hz: Cut-off of the smoothing of the poses of the soles.
        sole_m: Extent of the sole behind, in front, right and left of its frame.
        floor_m: Height of the floor at x = 0, where the log begins.
        floor_slope: Slope of the floor, or of the motion capture's frame, along x.
        sole_noise_m: Corners up to this height stand on the floor.
        lift_m: Height above `sole_noise_m` at which the weight of a corner falls to 1/e.
        ridge: Weight of the squared forces relative to the wrench error.
    """

    data: str = ""
    period_s: Positive = 0.0101
    motion_hz: Positive = 1.5
    sole_hz: Positive = 10.0
    sole_m: tuple[float, float, float, float] = (-0.05, 0.10, -0.025, 0.025)
    floor_m: float = -0.0105
    floor_slope: float = -0.006
    sole_noise_m: Positive = 1e-3
    lift_m: Positive = 1e-3
    ridge: Positive = 0.1


SWAY = Config(period_s=0.01005, floor_m=-0.0117, floor_slope=0.0, sole_noise_m=2e-3)
"""Both soles stay on the floor; the motion capture measures a difference of 2 mm in height."""
MISSING = (
    "icub-forces needs icub_walk.npz with icub.urdf beside it, the walk of github.com/ami-iit/"
    "paper_ramadoss_2021_icra_proprioceptive-base-estimator (matlab/resources) in one file: joint_names, q, "
    "base_position, base_rpy, left_fz, right_fz; give its path with --set data=PATH"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The log; rows are samples.

    Attributes:
        system: The robot.
        q: Configurations in Pinocchio's layout, as measured, shape (rows, nq).
        measured: Upward forces on the left and the right foot, shape (rows, 2) [N].
        filled: Number of interpolated rows of the base's pose.
    """

    system: System
    q: Array
    measured: Array
    filled: int


def read(path: Path, period: float) -> Log:
    """Read the log and the robot in the same folder; jumps of the motion capture are interpolated.

    Raises:
        InputError: A file cannot be read, or is not an iCub log.
    """
    try:
        with np.load(path) as data:
            names = [str(name) for name in data["joint_names"]]
            joints, position, rpy = (np.asarray(data[key], np.float64) for key in ("q", "base_position", "base_rpy"))
            measured = np.column_stack((data["left_fz"], data["right_fz"])).astype(np.float64)
    except (OSError, KeyError, ValueError) as error:
        raise InputError(f"{path} is no log of a walk ({error}); {MISSING}") from None
    system = System.from_urdf(path.with_name("icub.urdf"), free_flyer=True)
    base, filled = _mended(np.column_stack((position, np.unwrap(rpy, axis=0))), period)
    q = np.tile(pin.neutral(system.model), (len(base), 1))
    q[:, :3], q[:, 3:7] = base[:, :3], _continuous(Rotation.from_euler("ZYX", base[:, :2:-1]).as_quat())
    for column, name in enumerate(names):
        q[:, system.model.joints[system.model.getJointId(name)].idx_q] = joints[:, column]
    return Log(system=system, q=q, measured=measured, filled=filled)


def _mended(base: Array, period: float) -> tuple[Array, int]:
    """Return the base's coordinates without jumps, and the number of interpolated rows."""
    speed = np.linalg.norm(np.diff(base[:, :3], axis=0), axis=1) / period
    bad = np.zeros(len(base), dtype=bool)
    for row in np.flatnonzero(speed > FASTEST_M_S):
        bad[max(0, row - BEFORE_ROWS) : row + AFTER_ROWS + 1] = True
    rows, good = np.arange(len(base)), np.flatnonzero(~bad)
    return np.column_stack([np.interp(rows, good, column[good]) for column in base.T]), int(bad.sum())


def _continuous(quaternion: Array) -> Array:
    """Return quaternions without changes of sign from row to row."""
    turns = np.where((quaternion[1:] * quaternion[:-1]).sum(axis=1) < 0.0, -1.0, 1.0)
    return quaternion * np.concatenate(([1.0], np.cumprod(turns)))[:, None]


def smooth(values: Array, cutoff_hz: float, period: float) -> Array:
    """Low-pass values along the rows: Butterworth, second order, forward and backward.

    Both ends are padded point-symmetrically by a period of the cut-off.
    """
    from scipy.signal import butter, filtfilt  # slow to import, and `idcontrol list` loads this module

    b, a = butter(2, 2.0 * cutoff_hz * period)
    return np.asarray(filtfilt(b, a, values, axis=0, padlen=round(1.0 / (cutoff_hz * period))))


def smooth_motion(q: Array, cutoff_hz: float, period: float) -> Array:
    """Return configurations with every coordinate smoothed, the quaternion included: the base turns little."""
    out = smooth(q, cutoff_hz, period)
    out[:, 3:7] /= np.linalg.norm(out[:, 3:7], axis=1)[:, None]
    return out


def ground_wrench(system: System, q: Array, period: float) -> Array:
    """Return the ground's force and moment about the world origin for the motion, shape (rows, 6) [N, N m]."""
    model, data = system.model, system.model.createData()
    v, a = np.zeros((len(q), model.nv)), np.zeros((len(q), model.nv))
    for row in range(1, len(q) - 1):
        v[row] = pin.difference(model, q[row - 1], q[row + 1]) / (2.0 * period)
    v[0], v[-1] = v[1], v[-2]
    a[1:-1] = (v[2:] - v[:-2]) / (2.0 * period)
    a[0], a[-1] = a[1], a[-2]
    wrench = np.empty((len(q), 6))
    for row in range(len(q)):
        base = pin.XYZQUATToSE3(q[row, :7])
        wrench[row] = base.act(pin.Force(pin.rnea(model, data, q[row], v[row], a[row])[:6])).vector
    return wrench


def sole_corners(system: System, q: Array, sole: tuple[float, float, float, float]) -> Array:
    """Return corners of the left and the right sole, world frame, shape (rows, 2, 4, 3) [m]."""
    model, data = system.model, system.model.createData()
    frames = [system.frame(name) for name in SOLES]
    flat = np.array([[x, y, 0.0] for x in sole[:2] for y in sole[2:]])
    out = np.empty((len(q), 2, 4, 3))
    for row in range(len(q)):
        pin.framesForwardKinematics(model, data, q[row])
        for foot, frame in enumerate(frames):
            out[row, foot] = [data.oMf[frame].act(corner) for corner in flat]
    return out


def share(wrench: Array, corners: Array, weight: Array, ridge: float) -> Array:
    """Return the vertical force on each foot, summed over the smallest corner forces that produce a wrench.

    The corners push, and corners with a small weight push less. If the centre of pressure leaves the soles, the total
    force is kept and the moment deviates.

    Args:
        wrench: Force and moment about the world origin, shape (6,).
        corners: Corners of both feet, world frame, shape (2, 4, 3) [m].
        weight: Weight of each corner, above 0, shape (2, 4).
        ridge: Weight of the squared forces relative to the wrench error.

    Returns:
        Shape (2,) [N].
    """
    place = corners.reshape(-1, 3)
    middle, lever = place[:, :2].mean(axis=0), 0.1  # [m]: moments are divided by the lever, which makes them forces
    rows = np.vstack((np.ones(8), ((place[:, :2] - middle) / lever).T, np.diag(ridge / np.sqrt(weight.ravel()))))
    moments = (np.array([-wrench[4], wrench[3]]) - middle * wrench[2]) / lever
    force = nnls(rows, np.concatenate(([wrench[2]], moments, np.zeros(8))))[0]
    total = force.sum()
    return np.asarray(force.reshape(2, 4).sum(axis=1) * (max(wrench[2], 0.0) / total if total > 0.0 else 0.0))


def predict(config: Config, wrench: Array, corners: Array) -> Array:
    """Return the vertical forces of both feet in every row, shape (rows, 2) [N]."""
    height = corners[..., 2] - config.floor_m - config.floor_slope * corners[..., 0]
    above = np.maximum(height - config.sole_noise_m, 0.0)
    weight = np.maximum(np.exp(-above / config.lift_m), 1e-12)
    return np.array([share(w, c, g, config.ridge) for w, c, g in zip(wrench, corners, weight, strict=True)])


def across(wrench: Array, corners: Array) -> tuple[Array, Array]:
    """Return the place of the centre of pressure on the line between the middles of the soles.

    Returns:
        The place as a share of the distance from the right sole to the left sole, and this distance [m], shape (rows,)
        each.
    """
    left, right = (corners[:, foot, :, :2].mean(axis=1) for foot in (0, 1))
    pressure = np.column_stack((-wrench[:, 4], wrench[:, 3])) / wrench[:, 2:3]
    way = left - right
    apart = np.linalg.norm(way, axis=1)
    return ((pressure - right) * way).sum(axis=1) / apart**2, apart


def naive(wrench: Array, corners: Array) -> Array:
    """Split the force by the position of the centre of pressure between the soles' middles, shape (rows, 2) [N]."""
    part = np.clip(across(wrench, corners)[0], 0.0, 1.0)
    return wrench[:, 2:3] * np.column_stack((part, 1.0 - part))


def lateral(wrench: Array, corners: Array, measured: Array) -> dict[str, float]:
    """Compare two lateral centres of pressure: of the wrench, and of the measured forces at the middles of the soles.

    The true load of a sole may act up to half its width away from its middle; the motion does not determine where.

    Returns:
        `cop_r`, their correlation; `cop_share`, the slope of the second over the first; and `cop_off_max_m`, their
        largest difference.
    """
    part, apart = across(wrench, corners)
    split = measured[:, 0] / measured.sum(axis=1)
    slope = float(np.polyfit(apart * part, apart * split, 1)[0])
    off = float(np.abs(apart * (part - split)).max())
    return {"cop_r": float(np.corrcoef(apart * part, apart * split)[0, 1]), "cop_share": slope, "cop_off_max_m": off}


def delay(total: Array, measured: Array, period: float) -> int:
    """Return the delay of the measured total force relative to the predicted total force [rows]."""
    seen = smooth(measured, ALIGN_HZ, period)
    end = len(total) - LONGEST_DELAY
    agrees = [np.corrcoef(total[:end], seen[k : k + end])[0, 1] for k in range(LONGEST_DELAY + 1)]
    return int(np.argmax(agrees))


def late(forces: Array, rows: int) -> Array:
    """Delay forces by `rows` rows; the first row is repeated at the beginning."""
    return forces[np.maximum(np.arange(len(forces)) - rows, 0)]


def weighed(wrench: Array, corners: Array, measured: Array) -> Array:
    """Shift the mass centre of `wrench` sideways so that the feet share the weight as in the first rows of `measured`.

    In these rows the robot stands.
    """
    left, right = (corners[:, foot, :, :2].mean(axis=1) for foot in (0, 1))
    across = (left - right) / np.linalg.norm(left - right, axis=1)[:, None]
    first = slice(0, WEIGHED_ROWS)
    share_now = naive(wrench, corners)[first, 0].mean() / wrench[first, 2].mean()
    share_true = measured[first, 0].mean() / measured[first].sum(axis=1).mean()
    apart = np.linalg.norm(left[first] - right[first], axis=1).mean()
    shift = (share_true - share_now) * apart * across * wrench[:, 2:3]
    out = wrench.copy()
    out[:, 3] += shift[:, 1]
    out[:, 4] -= shift[:, 0]
    return out


def agreement(predicted: Array, measured: Array) -> dict[str, Any]:
    """Return correlation and rms error [N] of each foot, the smaller correlation `r` and the larger error `rms_n`."""
    r = [float(np.corrcoef(predicted[:, foot], measured[:, foot])[0, 1]) for foot in (0, 1)]
    rms = np.sqrt(np.mean((predicted - measured) ** 2, axis=0)).tolist()
    return {"r": min(r), "rms_n": max(rms), "r_feet": r, "rms_feet_n": rms}


def run(config: Config, progress: Progress) -> Results:
    """Predict the forces in four ways, and compare them with the measured forces.

    ``naive`` splits the force by the centre of pressure (`naive`), ``alone`` uses `predict`, ``aligned`` delays it, and
    ``weighed`` also shifts the mass centre.

    Raises:
        InputError: `data` is missing or not an iCub log.
    """
    if not config.data:
        raise InputError(MISSING)
    log = read(Path(config.data), config.period_s)
    system, h, measured = log.system, config.period_s, log.measured
    wrench = ground_wrench(system, smooth_motion(log.q, config.motion_hz, h), h)
    corners = sole_corners(system, smooth_motion(log.q, config.sole_hz, h), config.sole_m)
    progress(0.5)
    lag = delay(ground_wrench(system, smooth_motion(log.q, ALIGN_HZ, h), h)[:, 2], measured.sum(axis=1), h)
    alone = predict(config, wrench, corners)
    progress(0.8)
    scaled = late(predict(config, weighed(wrench, corners, measured), corners), lag)
    ways = {
        "naive": agreement(naive(wrench, corners), measured),
        "alone": agreement(alone, measured),
        "aligned": agreement(late(alone, lag), measured),
        "weighed": agreement(scaled[WEIGHED_ROWS:], measured[WEIGHED_ROWS:]),
    }
    t = np.asarray(h * np.arange(len(measured)))
    reach = config.sole_m[3] - config.sole_m[2]
    apart = float(np.linalg.norm(corners[0, 0].mean(axis=0) - corners[0, 1].mean(axis=0)))
    return Results(
        findings=[
            *_findings(ways, log, lag * h, 0.5 * reach / apart * float(wrench[0, 2])),
            Finding("total_err_n", (measured.sum(axis=1) - wrench[:, 2]).mean()),
            *(Finding(key, value) for key, value in lateral(wrench, corners, measured).items()),
        ],
        series={
            "t": Series(t, "s"),
            "measured": Series(measured, "N"),
            "predicted": Series(alone, "N"),
            "weighed": Series(scaled, "N"),
        },
        drawings=[_drawing(t, measured, alone, scaled)],
        extra={"r": ways["alone"]["r"], "rms_n": ways["alone"]["rms_n"], "ways": ways},
    )


experiment = Case(
    name="icub-forces",
    summary="a humanoid's foot forces, computed from its motion and compared with measured forces (--set data=PATH)",
    presets={"default": Config(), "sway": SWAY},
    simulate=run,
)


def _findings(ways: Mapping[str, Mapping[str, Any]], log: Log, lag_s: float, undetermined: float) -> list[Finding]:
    findings = [Finding("filled_rows", log.filled), Finding("delay_s", lag_s), Finding("undetermined_n", undetermined)]
    for way in ways:
        r, rms = ways[way]["r"], ways[way]["rms_n"]
        asked = way == "weighed"
        findings += [
            Finding(f"r_{way}", r, holds=r >= 0.95 if asked else None),
            Finding(f"rms_{way}_n", rms, holds=rms <= 30.0 if asked else None),
        ]
    return findings


def _drawing(t: Array, measured: Array, alone: Array, scaled: Array) -> Drawing:
    with axes(rows=2, size=(9.0, 5.0), sharex=True) as plots:
        for foot, (plot, name) in enumerate(zip(plots, ("left foot [N]", "right foot [N]"), strict=True)):
            plot.plot(t, measured[:, foot], "k", linewidth=1.0, label="measured")
            plot.plot(t, alone[:, foot], label="from the motion alone")
            plot.plot(t, scaled[:, foot], "--", label="aligned and weighed")
            plot.set_ylabel(name)
        plots[0].legend(fontsize="x-small")
        plots[1].set_xlabel("time [s]")
        plots[1].figure.tight_layout()
    return Drawing("Forces on the feet", plots[1].figure)
