"""Where the torque rate of a run comes from: contact switching, chatter, or motion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from experiments.tables.results import CONTROLLERS, MITIGATION, PRESETS, SMOOTHNESS_ON, Results
from idcontrol.metrics import TOUCHING_N, Layout
from idcontrol.recording import load
from idcontrol.sweeps.study import Table
from idcontrol.types import Booleans

SWITCH_S = 0.005
"""So long before and after a foot is set down or lifted, torque changes count as contact switching."""


@dataclass(frozen=True, slots=True)
class TorqueParts:
    """Where a run's torque changes come from, and how its load is shared.

    Attributes:
        switching: Mean |Δτ/Δt| near contact changes, averaged over all ticks [N m/s].
        reversing: Of other changes that turn back from one tick to the next: chatter and noise [N m/s].
        flowing: Of what is left: motion and feedback [N m/s].
        largest_share: Mean of the largest part of the load on one foot while all planned to stand do [-].
    """

    switching: float
    reversing: float
    flowing: float
    largest_share: float


@lru_cache(maxsize=256)
def torques_of(folder: Path) -> TorqueParts | None:
    """Of the run in `folder`; None if it is too short."""
    run = load(folder)
    if len(run.arrays["t"]) < 10:
        return None
    h = msgspec.convert(run.meta["layout"], Layout).period_s
    change = np.diff(run.arrays["tau"], axis=0)
    stance, force = run.arrays["stance"] > 0.5, run.arrays["force"]
    near = near_switches(stance, np.linalg.norm(force, axis=2) > TOUCHING_N, round(SWITCH_S / h))[1:]
    reverses = np.zeros(change.shape, dtype=bool)
    reverses[1:] = change[1:] * change[:-1] < 0.0
    rate = np.abs(change) / h
    everywhere = rate.size
    load_on = force[:, :, 2]
    all_stand = stance.all(axis=1) & (load_on.sum(axis=1) > 1.0)
    share = (load_on[all_stand].max(axis=1) / load_on[all_stand].sum(axis=1)).mean() if all_stand.any() else np.nan
    return TorqueParts(
        switching=float(rate[near].sum() / everywhere),
        reversing=float((rate * reverses)[~near].sum() / everywhere),
        flowing=float((rate * ~reverses)[~near].sum() / everywhere),
        largest_share=float(share),
    )


def near_switches(stance: Booleans, touching: Booleans, reach: int) -> Booleans:
    """Rows within `reach` rows of one where a foot's planned stance or real contact differs from the row before.

    Args:
        stance: Shape (rows, n_feet).
        touching: The same.
        reach: Rows.
    """
    switched = np.zeros(len(stance), dtype=bool)
    for state in (stance, touching):
        switched[1:] |= (state[1:] != state[:-1]).any(axis=1)
    near: Booleans = np.convolve(switched, np.ones(2 * reach + 1), mode="same") > 0.5
    return near


def torque_parts(results: Results) -> Table:
    """What Table 4's numbers are made of."""
    rows = []
    for preset in PRESETS:
        for controller in (*CONTROLLERS, *MITIGATION):
            for run in results.at(preset, controller, SMOOTHNESS_ON)[:1]:
                parts = torques_of(run.folder) if run.metrics is not None else None
                if parts is not None:
                    total = parts.switching + parts.reversing + parts.flowing
                    shares = (part / total for part in (parts.switching, parts.reversing, parts.flowing))
                    rows.append((preset, controller, total, *shares))
    return Table(
        name="torque-rate-parts",
        title="Where the torque rate comes from",
        sentence=_parts_say(rows),
        header=("preset", "controller", "mean |dτ/dt| [N m/s]", "contact switching", "turning back", "flowing"),
        rows=tuple(rows),
    )


def _parts_say(rows: Sequence[tuple[Any, ...]]) -> str:
    said = [
        f"Changes within {1e3 * SWITCH_S:g} ms of a foot being set down or lifted are contact switching; of others, "
        "those that turn back at the next tick are chatter (indeterminacy and noise); the rest is motion and feedback."
    ]
    default = [row for row in rows if row[0] == "default"]
    if default:
        switching, turning = max(default, key=lambda row: row[3]), max(default, key=lambda row: row[2] * row[4])
        said.append(
            f"In the preset default contact switching is the largest part for {switching[1]} ({switching[3]:.0%}), and "
            f"{turning[1]} turns back most ({turning[2] * turning[4]:.3g} N m/s)."
        )
    return " ".join(said)
