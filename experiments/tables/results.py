"""Settings of the study of the tables, the paper's numbers, and access to the outcomes."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from idcontrol.experiments.verdicts import CONTRADICTED, LEAST_TORQUE
from idcontrol.sweeps.record import RunOutcome

PAPER: Mapping[str, Any] = json.loads((Path(__file__).parents[1] / "paper" / "tables.json").read_text(encoding="utf-8"))

SOURCE = "Zapolsky & Drumwright 2017, {}"
"""A table, figure or section of the paper."""

TERRAINS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "rigid_low": ("rigid, µ 0.1", {"plant": "coulomb-lcp", "mu": 0.1}),
    "rigid_high": ("rigid, µ ∞", {"plant": "coulomb-lcp", "mu": float("inf")}),
    "compliant_low": ("compliant, µ 0.1", {"plant": "penalty", "mu": 0.1}),
    "compliant_high": ("compliant, µ ∞", {"plant": "penalty", "mu": float("inf")}),
}
"""Titles and settings of the paper's terrains."""

PREDICTING = ("id-coulomb-qp", "id-noslip-qp", "id-coulomb-lcp", "id-noslip-lcp")
SENSING = ("id-sensed-1", "id-sensed-2")
CONTROLLERS = (*PREDICTING, "pid", *SENSING)
"""The seven controllers of the paper's tables, in the paper's order."""

MITIGATION = ("id-coulomb-qp-raw", "id-coulomb-smooth")
"""Further controllers in the comparison of torques: without chatter mitigation, and with the paper's Algorithm 3."""

PRESETS = ("paper", "default")
SMOOTHNESS_ON = "rigid_high"
"""The terrain of our Table 4; the paper does not name its terrain."""


CHATTER = 5.0
"""A mean torque rate above this multiple of pid's is chatter. In Table 4 this bound separates controllers that pass in
Table 6 from controllers that fail there for chatter (351 and 678 N m/s, compared with 100)."""

CARRIES_NM = 0.206
"""Least mean |torque| with which the robot can stand in its home pose, for any contact forces [N m]."""


def contradicted(controller: str, terrain: str, result: float | str | None) -> str:
    """Return the page on contradictions between Table 6 and Tables 3 and 5 if a robot falls as in Table 6; else ""."""
    fell = isinstance(result, str) and result.startswith("fell")
    return CONTRADICTED if (controller, terrain) == ("id-noslip-qp", "rigid_low") and fell else ""


def derivation_of(controller: str, terrain: str, key: str, printed: float | None, result: float | str | None) -> str:
    """Return the page that derives why a number differs from the printed number; "" without such a page."""
    if key == "tau_mean_nm" and printed is not None and printed < CARRIES_NM:
        return LEAST_TORQUE
    return contradicted(controller, terrain, result)


class Results:
    """Outcomes by preset, controller and terrain; seeds are averaged."""

    def __init__(
        self, outcomes: Sequence[RunOutcome], terrains: Mapping[str, tuple[str, dict[str, Any]]] = TERRAINS
    ) -> None:
        self.terrains = terrains
        self._by_place: dict[tuple[str, str, str], list[RunOutcome]] = {}
        for o in outcomes:
            for terrain, (_, settings) in terrains.items():
                if all(o.setting(key) == value for key, value in settings.items()):
                    self._by_place.setdefault((o.row.preset, o.setting("controller"), terrain), []).append(o)

    def at(self, preset: str, controller: str, terrain: str) -> list[RunOutcome]:
        """Return the runs of a preset, controller and terrain; an empty list if there are none."""
        return self._by_place.get((preset, controller, terrain), [])

    def done(self, preset: str, controller: str, terrain: str) -> bool:
        """True if there are runs of this combination, and all completed their task."""
        runs = self.at(preset, controller, terrain)
        return bool(runs) and all(run.done for run in runs)

    def value(self, preset: str, controller: str, terrain: str, key: str, *, fallen: bool = False) -> float | None:
        """Return a metric's mean over the completed runs, or over all runs if `fallen`; None without such runs."""
        runs = [run for run in self.at(preset, controller, terrain) if run.done or fallen]
        values = [run.metric(key) for run in runs if run.metric(key) is not None]
        return float(np.mean(values)) if values else None

    def values(
        self, preset: str, controllers: Sequence[str], terrain: str, key: str, *, fallen: bool = False
    ) -> dict[str, float]:
        """Return the `value` of each controller for which there is one."""
        values = {c: self.value(preset, c, terrain, key, fallen=fallen) for c in controllers}
        return {c: value for c, value in values.items() if value is not None}

    def cell(self, preset: str, controller: str, terrain: str, key: str) -> float | str | None:
        """Return the value for a table, or the reason why a run failed; None without runs."""
        runs = self.at(preset, controller, terrain)
        failed = [run for run in runs if not run.done]
        return failed[0].reason if failed else self.value(preset, controller, terrain, key)
