"""Plots of a locomotion run, section by section."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from idcontrol.record.metrics import Layout, distance_to_segment
from idcontrol.record.plots import COLORS, DARK, DRAWABLE, QUIET, Curve, Moment, Panel, Plots, Section, intervals
from idcontrol.types import TOUCHING_N, Array, Status

LIMIT_FACTOR = 1.3
"""Torque limits below this multiple of a joint's largest torque are drawn."""
IN_WINDOW = "; the chosen window is dark"
"""End of the sentence below the map of a path, for pages on which the reader can choose a window of time."""
JOINTS = 3
"""Number of joints shown at first: one leg of a quadruped."""


class Walk(NamedTuple):
    """A recorded walk.

    Attributes:
        arrays: Channels as listed in `idcontrol.record.metrics`, shape (rows, ...).
        layout: Facts about the run that are not in the arrays.
    """

    arrays: Mapping[str, Array]
    layout: Layout

    @property
    def q(self) -> Array:
        """Joint positions, shape (rows, joints) [rad]."""
        return self.arrays["q"][:, list(self.layout.joint_q)]

    @property
    def v(self) -> Array:
        """Joint velocities, shape (rows, joints) [rad/s]."""
        return self.arrays["v"][:, list(self.layout.joint_v)]

    @property
    def torque_rate(self) -> Array:
        """Torque change since the row before, per second, shape (rows, joints) [N m/s]; zero in the first row."""
        tau = self.arrays["tau"]
        return np.diff(tau, axis=0, prepend=tau[:1]) / self.layout.period_s

    @property
    def predicted(self) -> Array:
        """Sum of the predicted vertical forces, shape (rows,) [N]; NaN without a prediction."""
        forces = self.arrays["force_pred"][:, :, 2]
        return np.where(np.isnan(forces).all(axis=1), np.nan, np.nansum(forces, axis=1))


def drawable(arrays: Mapping[str, Array], layout: Layout) -> Walk:
    """Return the walk in `arrays`, with NaN for values whose size is `plots.DRAWABLE` or more."""
    return Walk({name: np.where(np.abs(values) < DRAWABLE, values, np.nan) for name, values in arrays.items()}, layout)


def locomotion(arrays: Mapping[str, Array], layout: Layout, events: Sequence[Mapping[str, Any]] = ()) -> Plots | None:
    """Return all plots of a locomotion run, in the order of the page; None if there are fewer than three rows.

    Args:
        arrays: Channels as listed in `idcontrol.record.metrics`, shape (rows, ...).
        layout: Facts about the run that are not in the arrays.
        events: Events of the run, as in `Run.events`.
    """
    if len(arrays["t"]) < 3:
        return None
    walk = drawable(arrays, layout)
    drawn = (glance, path, joints, torques, forces, *((pressure,) if "cop" in arrays else ()), feet)
    middle = float(arrays["t"][len(arrays["t"]) // 2])
    return Plots(
        t=arrays["t"],
        overview=Curve("largest torque rate", np.abs(walk.torque_rate).max(axis=1), COLORS[1], look="area"),
        sections=[draw(walk) for draw in drawn],
        choices={"Joints": layout.joints, "Feet": layout.feet},
        shown=(*layout.joints[:JOINTS], *layout.feet),
        moments=moments(walk, events),
        window=(middle - layout.gait_period_s, middle + layout.gait_period_s),
    )


def moments(walk: Walk, events: Sequence[Mapping[str, Any]] = ()) -> list[Moment]:
    """Return the instants at which to look first.

    These are the instants of the largest torque rate, torque, joint error and force error; the first step of the
    controller, and of the plant, whose status is not solved; and all events with a known time.
    """
    t, names = walk.arrays["t"], walk.layout.joints
    instants = []
    for what, unit, values in (
        ("largest torque rate", "N m/s", np.abs(walk.torque_rate)),
        ("largest torque", "N m", np.abs(walk.arrays["tau"])),
        ("largest joint error", "mrad", 1e3 * np.abs(walk.q - walk.arrays["q_des"])),
    ):
        if np.isfinite(values).any():
            row, joint = np.unravel_index(np.nanargmax(values), values.shape)
            instants.append(Moment(float(t[row]), f"{what}: {values[row, joint]:.3g} {unit}, {names[joint]}"))
    error = np.abs(walk.predicted - walk.arrays["force"][:, :, 2].sum(axis=1))
    if np.isfinite(error).any():
        worst = int(np.nanargmax(error))
        instants.append(Moment(float(t[worst]), f"largest force error: {error[worst]:.3g} N"))
    for solver, channel in (("controller", "status"), ("plant", "plant_status")):
        unsolved = np.flatnonzero(walk.arrays[channel] > Status.SOLVED)
        if len(unsolved):
            instants.append(Moment(float(t[unsolved[0]]), f"first step of the {solver} that was not solved"))
    return instants + [
        Moment(float(event["t"]), f"{event['what']}: {event['detail']}") for event in events if event["t"] is not None
    ]


def glance(walk: Walk) -> Section:
    """Return the section of errors, torque rate, height and tilt of the base, and outcomes of the steps."""
    arrays = walk.arrays
    error = np.abs(walk.predicted - arrays["force"][:, :, 2].sum(axis=1))
    predictive = np.isfinite(error).any()
    return Section(
        "The run at a glance",
        "Joint errors, torque rate, error of the predicted total vertical force, height and tilt of the base, and "
        "outcomes of controller and plant steps. Of the joints, the mean (line) and the largest (area) are shown.",
        [
            Panel("|q − q_des| [mrad]", _mean_and_largest(1e3 * np.abs(walk.q - arrays["q_des"]), COLORS[0])),
            Panel("|q̇ − q̇_des| [rad/s]", _mean_and_largest(np.abs(walk.v - arrays["v_des"]), COLORS[0])),
            Panel("|Δτ/Δt| [N m/s]", _mean_and_largest(np.abs(walk.torque_rate), COLORS[1]), log=True),
            *(
                [Panel("force error [N]", [Curve("sum over the feet", error, COLORS[2])], log=True)]
                if predictive
                else ()
            ),
            Panel(
                "base height [mm]",
                [
                    Curve("measured", 1e3 * arrays["q"][:, 2], COLORS[3]),
                    Curve("reference", 1e3 * arrays["base_ref"][:, 2], DARK, look="dashed"),
                ],
            ),
            Panel("base tilt [mrad]", [Curve("tilt", 1e3 * arrays["base_tilt"], COLORS[3])]),
            Panel(
                "steps",
                [Curve("plant", arrays["plant_status"], QUIET), Curve("controller", arrays["status"], COLORS[0])],
                ticks=tuple(status.name.lower() for status in Status),
            ),
        ],
    )


def path(walk: Walk) -> Section:
    """Return the section with the map and, between waypoints, the distance of the centre of mass from their line."""
    arrays = walk.arrays
    known = np.isfinite(arrays["target"]).all(axis=1) & np.isfinite(arrays["segment"]).all(axis=1)
    counted = known & ~(arrays["turning"] > 0.5)
    distance = np.full(len(arrays["t"]), np.nan)
    if counted.any():
        all_rows = 1e3 * distance_to_segment(arrays["com"], arrays["segment"], arrays["target"])
        distance = np.where(counted, all_rows, np.nan)
    marked = ", with numbered waypoints" if walk.layout.waypoints else ""
    sentence = f"Centre of mass and base from above{marked}{IN_WINDOW}."
    off = []
    if counted.any():
        sentence += (
            " Below, the distance of the centre of mass to the line between two waypoints; turning in place does not "
            "count."
        )
        off.append(Panel("off the path [mm]", [Curve("centre of mass", distance, COLORS[0])]))
    return Section(
        "Path",
        sentence,
        off,
        track={"base": arrays["q"][:, :2], "centre of mass": arrays["com"][:, :2]},
        marks=walk.layout.waypoints,
    )


def joints(walk: Walk) -> Section:
    """Return the section of positions and velocities of the joints, with their references."""
    return Section(
        "Joints",
        "Joint positions and velocities, measured (lines) and reference (dashed).",
        [
            Panel("position [rad]", _beside(walk.layout.joints, walk.q, walk.arrays["q_des"], "reference")),
            Panel("velocity [rad/s]", _beside(walk.layout.joints, walk.v, walk.arrays["v_des"], "reference")),
        ],
    )


def torques(walk: Walk) -> Section:
    """Return the section of joint torques and their rate of change."""
    tau, names = walk.arrays["tau"], walk.layout.joints
    bounds = LIMIT_FACTOR * np.nanmax(np.abs(tau), axis=0, initial=0.0)
    limits = [
        Curve(f"{name} limit", np.full(len(tau), sign * limit), color, (name,), "dashed")
        for name, limit, largest, color in zip(names, walk.layout.torque_limit, bounds, _colors(names), strict=True)
        if limit is not None and limit < largest
        for sign in (1.0, -1.0)
    ]
    return Section(
        "Torques",
        "Joint torques and their rate of change. Dashed: torque limits, if they are near.",
        [Panel("τ [N m]", [*_each(names, tau), *limits]), Panel("Δτ/Δt [N m/s]", _each(names, walk.torque_rate))],
    )


def forces(walk: Walk) -> Section:
    """Return the section of vertical contact forces at each foot, and of their sum."""
    real, predicted = walk.arrays["force"][:, :, 2], walk.arrays["force_pred"][:, :, 2]
    together = [
        Curve("sum in the plant", real.sum(axis=1), COLORS[5], look="area"),
        Curve("sum predicted", walk.predicted, DARK, look="dashed"),
    ]
    return Section(
        "Contact forces",
        "Vertical contact force of each foot and their sum: in the plant (lines) and as predicted (dashed).",
        [Panel("force [N]", _beside(walk.layout.feet, real, predicted, "predicted")), Panel("sum [N]", together)],
    )


def pressure(walk: Walk) -> Section:
    """Return the section of centres of pressure of soles, and of the moments about the vertical at these points."""
    names, feet = walk.layout.feet, walk.arrays["feet"]
    away, moment = list[Array](), list[Array]()
    for ending in ("", "_pred"):
        force, turn, cop = (walk.arrays[f"{name}{ending}"] for name in ("force", "moment", "cop"))
        arm = cop - feet
        away.append(np.where(np.linalg.norm(force, axis=2, keepdims=True) > TOUCHING_N, 1e3 * arm, np.nan))
        moment.append((turn - np.cross(arm, force))[:, :, 2])
    return Section(
        "Soles",
        "Centre of pressure of each sole from the origin of its frame, and moment about the vertical there: in the "
        "plant (lines) and as predicted (dashed).",
        [
            *(
                Panel(f"pressure, {axis} [mm]", _beside(names, away[0][:, :, k], away[1][:, :, k], "predicted"))
                for k, axis in enumerate("xy")
            ),
            Panel("yaw moment [N m]", _beside(names, moment[0], moment[1], "predicted")),
        ],
    )


def feet(walk: Walk) -> Section:
    """Return the section with the gait diagram and the heights of the feet."""
    arrays, names = walk.arrays, walk.layout.feet
    touching = np.linalg.norm(arrays["force"], axis=2) > TOUCHING_N
    bars = []
    for i, (name, color) in enumerate(zip(names, _colors(names), strict=True), start=1):
        bars.append(Curve(f"{name} planned", intervals(arrays["stance"][:, i - 1] > 0.5, i + 0.17), QUIET, look="bar"))
        bars.append(Curve(f"{name} contact", intervals(touching[:, i - 1], i - 0.17), color, look="bar"))
    turning = Curve("turning in place", intervals(arrays["turning"] > 0.5, 0.0), DARK, look="bar")
    heights = _beside(names, 1e3 * arrays["feet"][:, :, 2], 1e3 * arrays["feet_des"][:, :, 2], "planned")
    return Section(
        "Feet and gait",
        "Gait diagram: planned stance (grey) above real contact (coloured). Below, heights of the foot centres, "
        "measured (lines) and planned (dashed).",
        [Panel("gait", [turning, *bars], ticks=("turning", *names)), Panel("foot height [mm]", heights)],
    )


def _colors(names: Sequence[str]) -> list[str]:
    return [COLORS[i % len(COLORS)] for i in range(len(names))]


def _mean_and_largest(values: Array, color: str) -> list[Curve]:
    return [Curve("largest", values.max(axis=1), color, look="area"), Curve("mean", values.mean(axis=1), DARK)]


def _each(names: Sequence[str], values: Array) -> list[Curve]:
    return [
        Curve(name, column, color, (name,)) for name, column, color in zip(names, values.T, _colors(names), strict=True)
    ]


def _beside(names: Sequence[str], measured: Array, other: Array, what: str) -> list[Curve]:
    """Return each joint's or foot's curve, and its reference or prediction, dashed in the same colour."""
    return [
        curve
        for name, color, real, wanted in zip(names, _colors(names), measured.T, other.T, strict=True)
        for curve in (Curve(name, real, color, (name,)), Curve(f"{name} {what}", wanted, color, (name,), "dashed"))
    ]
