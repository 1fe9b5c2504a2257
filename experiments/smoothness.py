"""Smoothness of the torques of each controller on each plant, and the parts of their changes."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np

from idcontrol.experiments.headings import headed
from idcontrol.experiments.studies import DURATION_S, MODELS
from idcontrol.experiments.tables.torque_parts import PARTS, torques_of
from idcontrol.record.drawing import STYLE, Picture, panels, picture
from idcontrol.record.recording import load
from idcontrol.sweeps.plan import product
from idcontrol.sweeps.record import RunOutcome
from idcontrol.sweeps.study import Study, Table
from idcontrol.types import Array

PLANTS = ("coulomb-lcp", "sap", "mujoco")
"""Rigid ground, and two kinds of compliant ground."""

BEFORE_FALL_S = 0.5
"""Time before a fall that is left out of the largest values [s]."""

SHOWN_S = 2.0
"""Time at which the stride of the figure begins [s]; a shorter run shows its last stride but one."""


class Torques(NamedTuple):
    """The torques of a run by joint of the robot.

    Attributes:
        t: Time, shape (rows,) [s].
        tau: Torques, shape (rows, a) [N m].
        rate: Changes until the next row, shape (rows - 1, a) [N m/s].
        largest: Largest |rate| of each joint, without the time `BEFORE_FALL_S` before a fall, shape (a,) [N m/s].
        limit: Torque limits, NaN for no limit, shape (a,) [N m].
        bend: Root mean square of the second difference [N m/s²].
        joints: Names of the joints.
        stride_s: Period of the gait [s].
    """

    t: Array
    tau: Array
    rate: Array
    largest: Array
    limit: Array
    bend: float
    joints: tuple[str, ...]
    stride_s: float


@lru_cache(maxsize=64)
def torques_in(folder: Path, fell_at: float | None) -> Torques:
    """Read the torques recorded in `folder`; `fell_at` is the time of a fall [s], None for no fall."""
    run = load(folder)
    layout = run.layout
    assert layout is not None  # every walk has one
    t, tau = run.arrays["t"], run.arrays["tau"]
    rate = np.diff(tau, axis=0) / layout.period_s
    counted = np.ones(len(rate), dtype=bool) if fell_at is None else t[:-1] < fell_at - BEFORE_FALL_S
    return Torques(
        t=t,
        tau=tau,
        rate=rate,
        largest=np.abs(rate[counted]).max(axis=0, initial=0.0),
        limit=np.array([np.nan if limit is None else limit for limit in layout.torque_limit]),
        bend=float(np.sqrt(np.mean(np.square(np.diff(rate, axis=0) / layout.period_s)))),
        joints=layout.joints,
        stride_s=layout.gait_period_s,
    )


def _torques(o: RunOutcome) -> Torques:
    return torques_in(o.folder, o.metric("fell_at_s"))


def _ended(outcomes: Sequence[RunOutcome]) -> list[RunOutcome]:
    return [o for o in outcomes if o.metrics is not None and (o.metric("steps") or 0) > 2]


def tables(outcomes: Sequence[RunOutcome]) -> tuple[Table, ...]:
    """Tabulate the rates and the spectrum of each run's torques, and the parts of the mean rate."""
    rates: list[tuple[Any, ...]] = []
    parts: list[tuple[Any, ...]] = []
    for o in outcomes:
        who = (o.setting("controller"), o.setting("plant"))
        if o not in _ended(outcomes):
            rates.append((*who, *([None] * 11), o.reason))
            continue
        torques = _torques(o)
        keys = ("mean", "rms", "p50", "p99", "p999")
        above = [o.metric(f"dtau_power_above.{f}") for f in ("20", "50", "100")]
        relative = torques.largest / torques.limit
        rates.append(
            (
                *who,
                *(o.metric(f"dtau_{key}_nm_s") for key in keys),
                float(torques.largest.max()),
                float(np.nanmax(relative)) if np.isfinite(relative).any() else None,
                *above,
                torques.bend,
                o.reason or "done",
            )
        )
        taken = torques_of(o.folder)
        if taken is not None:
            parts.append((*who, taken.total, *(taken.share(name) for name in PARTS), taken.turning_back))
    return (
        headed("smoothness", rates),
        headed("smoothness-parts", parts),
    )


def pictures(outcomes: Sequence[RunOutcome]) -> tuple[Picture, ...]:
    """Draw the torques of all controllers over one stride, for the joint with the largest rate, one panel per plant."""
    shown = [
        (plant, [o for o in _ended(outcomes) if o.setting("plant") == plant])
        for plant in dict.fromkeys(o.setting("plant") for o in outcomes)
    ]
    shown = [(plant, runs) for plant, runs in shown if runs]
    if not shown:
        return ()
    with matplotlib.rc_context(STYLE):
        figure, axes = panels([2.2] * len(shown), gap=0.6)
        for axis, (plant, runs) in zip(axes[:, 0], shown, strict=True):
            worst = int(np.argmax(np.max([_torques(o).largest for o in runs], axis=0)))
            for o in runs:
                torques = _torques(o)
                begin = max(min(SHOWN_S, torques.t[-1] - 2.0 * torques.stride_s), 0.0)
                rows = (torques.t >= begin) & (torques.t < begin + torques.stride_s)
                axis.step(
                    (torques.t[rows] - begin) / torques.stride_s,
                    torques.tau[rows, worst],
                    where="post",
                    linewidth=0.9,
                    label=o.setting("controller"),
                )
            axis.set_title(f"{plant}: joint {_torques(runs[0]).joints[worst]}")
            axis.set_ylabel("τ [N m]")
            axis.legend(ncols=5, loc="lower left", bbox_to_anchor=(0.25, 1.0), borderaxespad=0.0)
            axis.margins(x=0)
        axes[-1, 0].set_xlabel("part of the stride")
        sentence = "The joint with the largest torque rate of all controllers on that plant."
        return (picture("Torques of all controllers over one stride", sentence, figure),)


study = Study(
    experiment="trot",
    summary="smoothness of each controller's torques on each plant, and the causes of their changes",
    runs=tuple(product({"duration_s": (DURATION_S,), "plant": PLANTS, "controller": MODELS})),
    tables=tables,
    pictures=pictures,
)
