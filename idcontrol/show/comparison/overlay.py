"""Several walks over one time axis: torques, their rates, forces and errors of all runs."""

from collections.abc import Iterator, Sequence

import numpy as np

from idcontrol.record.figures import Walk, drawable
from idcontrol.record.plots import COLORS, Curve, Moment, Panel, Plots, Section
from idcontrol.record.recording import load
from idcontrol.sweeps.record import RunOutcome
from idcontrol.types import Array

SAME_S = 1e-9
"""Times closer than this count as equal [s]."""


def overlay(named: Sequence[tuple[str, RunOutcome]]) -> Plots | None:
    """Return the plots of walks with three rows or more, over a common time axis; None without such a walk.

    Args:
        named: Runs with their names in the legend; runs beyond the number of `COLORS` are left out.
    """
    walks = list(_colored(named))
    if not walks:
        return None
    t = np.unique(np.concatenate([np.round(walk.arrays["t"] / SAME_S) for _, walk, _ in walks])) * SAME_S
    joints = tuple(dict.fromkeys(joint for _, walk, _ in walks for joint in walk.layout.joints))
    feet = tuple(dict.fromkeys(foot for _, walk, _ in walks for foot in walk.layout.feet))
    torques, rates, forces, errors, worst = [], [], [], [], []
    for name, walk, color in walks:
        times = walk.arrays["t"]
        for i, joint in enumerate(walk.layout.joints):
            tau, rate = (held(times, values[:, i], t) for values in (walk.arrays["tau"], walk.torque_rate))
            torques.append(Curve(f"{joint} {name}", tau, color, (joint, name)))
            rates.append(Curve(f"{joint} {name}", rate, color, (joint, name)))
        for i, foot in enumerate(walk.layout.feet):
            force = held(times, walk.arrays["force"][:, i, 2], t)
            forces.append(Curve(f"{foot} {name}", force, color, (foot, name)))
        largest = np.abs(walk.torque_rate).max(axis=1)
        row = int(np.nanargmax(largest)) if np.isfinite(largest).any() else 0
        worst.append(Moment(float(times[row]), f"largest torque rate of {name}: {largest[row]:.3g} N m/s"))
        error = 1e3 * np.abs(walk.q - walk.arrays["q_des"]).mean(axis=1)
        errors.append(Curve(name, held(times, error, t), color, (name,)))
    of_all = np.fmax.reduce([np.abs(curve.values) for curve in rates])
    # the middle of the shortest run: a run that fell early is in the window, too
    middle = min(float(walk.arrays["t"][len(walk.arrays["t"]) // 2]) for _, walk, _ in walks)
    period = max(walk.layout.gait_period_s for _, walk, _ in walks)
    return Plots(
        t=t,
        overview=Curve("largest torque rate of all runs", of_all, COLORS[1], look="area"),
        sections=[
            Section(
                "Torques of all runs",
                "Torque of the chosen joint and its rate of change, vertical force of the chosen foot, and mean joint "
                "position error, in the colour of each run.",
                [
                    Panel("τ [N m]", torques),
                    Panel("Δτ/Δt [N m/s]", rates),
                    Panel("force [N]", forces),
                    Panel("|q − q_des| [mrad]", errors),
                ],
            )
        ],
        choices={"Runs": [name for name, _, _ in walks], "Joints": joints, "Feet": feet},
        shown=(*(name for name, _, _ in walks), *joints[:1], *feet[:1]),
        moments=worst,
        window=(middle - period, middle + period),
    )


def _colored(named: Sequence[tuple[str, RunOutcome]]) -> Iterator[tuple[str, Walk, str]]:
    """Yield name, walk and color of each run that is a walk with three rows or more."""
    for (name, outcome), color in zip(named, COLORS, strict=False):
        run = load(outcome.folder)
        layout = run.layout
        if layout is not None and len(run.arrays["t"]) > 2:
            yield name, drawable(run.arrays, layout), color


def held(times: Array, values: Array, t: Array) -> Array:
    """Sample a piecewise constant function that holds each value until the next time.

    Args:
        times: Times of the values, in order, shape (rows,) [s].
        values: The values, shape (rows,).
        t: Sample times, shape (n,) [s].

    Returns:
        Shape (n,); NaN outside the times of the values.
    """
    row = np.searchsorted(times, t + SAME_S, side="right") - 1
    within = (row >= 0) & (t <= times[-1] + SAME_S)
    return np.where(within, values[np.maximum(row, 0)], np.nan)
