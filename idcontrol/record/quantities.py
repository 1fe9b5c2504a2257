"""The displayed metrics: topic, label, unit and direction of each."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from idcontrol.config.configuration import at


@dataclass(frozen=True, slots=True)
class Quantity:
    """A displayed metric.

    Attributes:
        topic: Heading under which a page shows the metric.
        key: Key of the metric in a run's JSON; a dot separates nested objects.
        label: Name of the metric in a table.
        unit: Unit in the table; "" without a unit.
        scale: Factor from the unit in the JSON to the unit in the table.
        more_is_better: True if a goal for the metric is a lower bound.
    """

    topic: str
    key: str
    label: str
    unit: str = ""
    scale: float = 1.0
    more_is_better: bool = False

    def of(self, metrics: Mapping[str, Any]) -> Any:
        """Return this metric's value in `metrics`, in the unit of the JSON; None if it is absent."""
        return at(metrics, self.key)

    def text(self, value: Any) -> str:
        """Return `value`, in the unit of the JSON, as a table shows it, without the unit; "–" for None."""
        if value is None:
            return "–"
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, int) or not isinstance(value, float):
            return str(value)
        value *= self.scale
        return f"{value:.0f}" if 1e3 <= abs(value) < 1e6 else f"{value:.3g}"

    def meets(self, value: Any, goal: Any) -> bool:
        """True if a value meets a goal, both in the unit of the JSON; False if the value is not a number."""
        return isinstance(value, int | float) and bool(value >= goal if self.more_is_better else value <= goal)


UNITS = {
    "nm_s": "N m/s", "nm_rad": "N m/rad", "nm_s_rad": "N m s/rad", "rad_s": "rad/s", "m_s2": "m/s²", "m_s": "m/s",
    "nm": "N m", "rad": "rad", "deg": "°", "hz": "Hz", "us": "µs", "kg": "kg", "mm": "mm", "m": "m", "s": "s", "n": "N",
    "j": "J", "mb": "MB", "kg_m2": "kg m²",
}  # fmt: skip
"""Units by the last words of a key."""
SPELLED = {
    "com": "centre of mass", "err": "error", "rel": "relative", "rms": "root mean square", "max": ", largest",
    "end": ", at the end", "tau": "torque", "dtau": "torque rate", "diff": "difference",
}  # fmt: skip
"""Words in a label that replace abbreviations in a key."""


def words(key: str, unit: str | None = None) -> tuple[str, str]:
    """Return label and unit of a key that is not a `Quantity`.

    Args:
        key: The key, e.g. ``"slide_m"``.
        unit: Unit of the value; None to read it from the key.
    """
    ending = max((ending for ending in UNITS if key.endswith(f"_{ending}")), key=len, default=None)
    label = (key if ending is None else key.removesuffix(f"_{ending}")).replace("_", " ")
    label = re.sub(r"\.(?!\d)", ", ", label)  # split at dots between names, not at decimal points
    label = " ".join(SPELLED.get(word, word) for word in label.split(" ")).replace(" ,", ",")
    return label, UNITS.get(ending or "", "") if unit is None else unit


def label(key: str) -> str:
    """Return the label of any key with its unit, for the head of a column."""
    known = next((quantity for quantity in QUANTITIES if quantity.key == key), None)
    text, unit = words(key) if known is None else (known.label, known.unit)
    return f"{text} [{unit}]" if unit else text


def text(key: str, value: Any) -> str:
    """Return the value of any key as text, in the unit of its `label`; "–" for None."""
    known = next((quantity for quantity in QUANTITIES if quantity.key == key), Quantity("", key, key))
    return known.text(value)


QUANTITIES = tuple(
    Quantity(topic, key, **row)
    for topic, rows in tomllib.loads((Path(__file__).parent / "quantities.toml").read_text(encoding="utf-8")).items()
    for key, row in rows.items()
)
"""The metrics shown for a run, in order."""
