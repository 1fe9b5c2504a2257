"""Rows of comparisons that never ran: settings from real presets, metrics as wished, records of synthetic walks."""

from pathlib import Path
from typing import Any

from idcontrol.sweeps.plan import plan
from idcontrol.sweeps.record import RunOutcome, why_not


def outcome(
    experiment: Any, run: dict[str, Any], metrics: dict[str, Any] | None, folder: Path | None = None
) -> RunOutcome:
    """Return the row for `run`, which has not run if it has no metrics."""
    (row,) = plan(experiment, [run])
    reason = "a fault inside" if metrics is None else why_not(metrics)
    return RunOutcome(row=row, metrics=metrics, reason=reason, folder=folder or Path("nowhere") / row.name)


def walked(**metrics: Any) -> dict[str, Any]:
    """Return metrics of a completed run."""
    return {
        "completed": metrics.get("fell_at_s") is None,
        "fell_at_s": None,
        "q_err_rad": 0.002,
        "qd_err_rad_s": 0.05,
        "tau_mean_nm": 0.36,
        "dtau_mean_nm_s": 20.0,
        "dtau_max_nm_s": 900.0,
        "force_err_n": 0.1,
        "force_err_rel": 0.003,
        "com_path_err_m": 0.001,
        "step_us": {"p50": 60.0},
    } | metrics
