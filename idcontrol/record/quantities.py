"""The displayed metrics: topic, label, unit and direction of each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
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


QUANTITIES = (
    Quantity("Task", "completed", "completed", more_is_better=True),
    Quantity("Task", "fell_at_s", "fell at", "s"),
    Quantity("Task", "waypoints_reached", "waypoints reached", more_is_better=True),
    Quantity("Task", "commanded_m_s", "commanded speed, mean", "m/s"),
    Quantity("Task", "granted_m_s", "granted speed, mean", "m/s"),
    Quantity("Task", "commanded_rad_s", "commanded turning rate, mean", "rad/s"),
    Quantity("Task", "granted_rad_s", "granted turning rate, mean", "rad/s"),
    Quantity("Task", "commanded_m", "commanded distance", "m"),
    Quantity("Task", "granted_m", "granted distance", "m"),
    Quantity("Task", "followed_m", "distance along the granted direction", "m"),
    Quantity("Task", "commanded_rad", "commanded turn", "rad"),
    Quantity("Task", "granted_rad", "granted turn", "rad"),
    Quantity("Task", "followed_rad", "change of heading", "rad"),
    Quantity("Task", "distance_m", "distance walked", "m", more_is_better=True),
    Quantity("Joints", "q_err_rad", "joint position error, mean", "mrad", 1e3),
    Quantity("Joints", "qd_err_rad_s", "joint velocity error, mean", "rad/s"),
    Quantity("Joints", "qd_ref_max_rad_s", "joint velocity reference, largest", "rad/s"),
    Quantity("Joints", "unreachable_steps", "steps with a foot out of reach"),
    Quantity("Joints", "position_limit_steps", "steps with a joint at a position limit"),
    Quantity("Joints", "speed_limit_steps", "steps with a joint at its speed limit"),
    Quantity("Torques", "tau_mean_nm", "torque, mean", "N m"),
    Quantity("Torques", "dtau_mean_nm_s", "torque rate, mean", "N m/s"),
    Quantity("Torques", "dtau_rms_nm_s", "torque rate, root mean square", "N m/s"),
    Quantity("Torques", "dtau_p50_nm_s", "torque rate, median", "N m/s"),
    Quantity("Torques", "dtau_p99_nm_s", "torque rate, 99 %", "N m/s"),
    Quantity("Torques", "dtau_p999_nm_s", "torque rate, 99.9 %", "N m/s"),
    Quantity("Torques", "dtau_max_nm_s", "torque rate, largest", "N m/s"),
    Quantity("Torques", "dtau_power_above.20", "power of the torque rate above 20 Hz", "%", 1e2),
    Quantity("Torques", "dtau_power_above.50", "power of the torque rate above 50 Hz", "%", 1e2),
    Quantity("Torques", "dtau_power_above.100", "power of the torque rate above 100 Hz", "%", 1e2),
    Quantity("Torques", "torque_clipped_steps", "steps at a torque limit"),
    Quantity("Torques", "rate_bound_off_steps", "steps with a torque above its rate limit"),
    Quantity("Contact forces", "force_err_n", "predicted contact force, mean error", "N"),
    Quantity("Contact forces", "force_err_median_n", "predicted contact force, median error", "N"),
    Quantity("Contact forces", "force_err_rel", "predicted contact force, relative error", "%", 1e2),
    Quantity("Contact forces", "force_err_same_feet_rel", "relative error while predicted feet carry load", "%", 1e2),
    Quantity(
        "Contact forces",
        "force_same_feet_share",
        "time in which predicted feet carry load",
        "%",
        1e2,
        more_is_better=True,
    ),
    Quantity("Contact forces", "wrench_err_rel", "predicted wrench of a sole, median relative error", "%", 1e2),
    Quantity("Contact forces", "cop_err_m", "predicted centre of pressure, mean error", "mm", 1e3),
    Quantity("Body and feet", "base_pos_err_m", "base position error, mean", "mm", 1e3),
    Quantity("Body and feet", "base_height_err_m", "base height over a gait period, largest error", "mm", 1e3),
    Quantity("Body and feet", "base_tilt_rad", "base tilt, mean", "mrad", 1e3),
    Quantity("Body and feet", "estimate_drift_m", "estimated horizontal position, error at the end", "mm", 1e3),
    Quantity("Body and feet", "estimate_height_m", "estimated height, largest error", "mm", 1e3),
    Quantity("Body and feet", "estimate_velocity_m_s", "estimated velocity, root mean square error", "mm/s", 1e3),
    Quantity("Body and feet", "estimate_yaw_rad", "estimated heading, error at the end", "mrad", 1e3),
    Quantity("Body and feet", "com_err_rms_m", "centre of mass, root mean square error", "µm", 1e6),
    Quantity("Body and feet", "slip_mean_m_s", "slip of standing feet, mean", "mm/s", 1e3),
    Quantity("Body and feet", "foot_err_m", "foot position error, mean", "mm", 1e3),
    Quantity("Body and feet", "standing_drift_m", "drift of the base while all feet stand, largest", "mm", 1e3),
    Quantity("Body and feet", "slip_m_s", "slip of stance feet, mean", "mm/s", 1e3),
    Quantity("Body and feet", "slip_max_m_s", "slip of stance feet, largest", "mm/s", 1e3),
    Quantity("Body and feet", "touchdown_err_s", "touchdown against plan, mean error", "ms", 1e3),
    Quantity("Body and feet", "com_path_err_m", "distance of the centre of mass from its path, mean", "mm", 1e3),
    Quantity("Body and feet", "com_path_max_m", "distance of the centre of mass from its path, largest", "mm", 1e3),
    Quantity("Solvers", "solver.solved", "controller steps solved"),
    Quantity("Solvers", "solver.by.sticking", "controller steps in which contacts stick"),
    Quantity("Solvers", "solver.nearest.proved", "steps with a torque proved closest", more_is_better=True),
    Quantity("Solvers", "solver.nearest.unproved", "steps with a closest torque not proved"),
    Quantity("Solvers", "solver.nearest.gap_max_nm", "gap to the closest torque, largest", "N m"),
    Quantity("Solvers", "solver.repaired", "controller steps repaired"),
    Quantity("Solvers", "solver.fallback", "controller steps on fallback"),
    Quantity("Solvers", "solver.failed", "controller steps failed"),
    Quantity("Solvers", "plant_solver.repaired", "plant steps repaired"),
    Quantity("Solvers", "plant_solver.regularized", "plant steps regularized"),
    Quantity("Solvers", "plant_solver.unsolved", "plant steps unsolved"),
    Quantity("Solvers", "plant_solver.residual_max", "plant residual, largest"),
    Quantity("Loop", "ended", "reason of the end"),
    Quantity("Loop", "fault", "fault at the end"),
    Quantity("Loop", "signal", "signal at the end"),
    Quantity("Loop", "period_mean_us", "period, mean", "µs"),
    Quantity("Loop", "overruns", "ticks that took longer than their period"),
    Quantity("Loop", "fault_events", "faults noticed"),
    Quantity("Loop", "switches", "preemptions"),
    Quantity("Loop", "steal_s", "time lost to a hypervisor", "s"),
    Quantity("Loop", "end_speed_m_s", "speed of the base after the last torque", "m/s"),
    Quantity("Loop", "gate_ticks", "ticks with a torque cut by the gate"),
    Quantity("Time", "step_us.p50", "controller step, median", "µs"),
    Quantity("Time", "step_us.p99", "controller step, 99 %", "µs"),
    Quantity("Time", "step_us.p999", "controller step, 99.9 %", "µs"),
    Quantity("Time", "step_us.max", "controller step, longest", "µs"),
    Quantity("Time", "wall_s", "wall time", "s"),
    Quantity("Time", "cpu_s", "processor time", "s"),
    Quantity("Time", "realtime_factor", "simulated time / wall time", more_is_better=True),
)
"""The metrics shown for a run, in order."""
