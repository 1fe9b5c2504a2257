"""Studies beyond the papers: the cost of a wrong contact model, of wrong parameters, and of each missing correction.

Each study is a named comparison, ``idcontrol compare trot --study NAME``, and has the figures that every comparison
has. The study `bumps` repeats a figure of a paper with the experiment `rough`: ``idcontrol compare rough --study
bumps``.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from idcontrol.experiments.headings import headed
from idcontrol.experiments.tables.claims import comparisons, statement_table
from idcontrol.experiments.tables.results import Results
from idcontrol.experiments.trot import SOUGHT_GAINS
from idcontrol.experiments.verdicts import Judged
from idcontrol.scenes.settings import GAINS
from idcontrol.sweeps.plan import product
from idcontrol.sweeps.record import RunOutcome
from idcontrol.sweeps.study import Study, Table

DURATION_S = 10.0
"""Length of a run [s]: it includes two turns in place, during which most falls happen. A study has dozens of runs."""

ROBUST = ("id-coulomb-qp", "id-coulomb-lcp", "id-noslip-lcp", "id-sap", "pid")
"""Controllers in the comparison of robustness: one for each kind of contact model, and `pid`, which has none."""

MODELS = (
    "id-coulomb-lcp", "id-coulomb-cone", "id-coulomb-qp", "id-noslip-lcp", "id-noslip-qp", "id-sap", "id-constraint",
    "id-sensed-1", "pid",
)  # fmt: skip
PLANTS = (
    "coulomb-lcp", "coulomb-cone", "dissipation", "noslip", "viscous", "sap", "constraint", "penalty", "mujoco",
    "pybullet",
)  # fmt: skip

QUANTITIES = {"tracking": "q_err_rad", "rate": "dtau_mean_nm_s", "force": "force_err_rel"}
"""Quantities in the tables of a study: name of the table, key of the metric."""

CORRECTIONS: dict[str, dict[str, Any]] = {
    "everything right": {},
    "stage I as printed": {"inverse.objective": "printed"},
    "desired velocities not projected": {"inverse.project": False},
    "no second stage": {"controller": "id-coulomb-qp-raw"},
    "feet not unloaded before they lift": {"inverse.ramp_s": 0.0},
    "true friction assumed, at most 1.5": {"friction.share": 1.0, "friction.cap": 1.5},
    "the original's friction pyramids": {"friction.pyramid": "original"},
    "feet are contacts from the first touch and stop immediately": {
        "inverse.landing_s": 0.0,
        "inverse.landing.decay_s": 1e-3,
    },
    "the preset's gains": {
        f"gains.{key}": getattr(SOUGHT_GAINS.of("id-coulomb-qp"), key) for key in (*GAINS, "beside")
    },
    "the original planner": {"planner": "paper"},
    "everything as in the paper": {"preset": "paper"},
}
"""Corrections of the paper that the study removes one at a time, and the settings that remove them.

The tolerance of dependent rows is not varied: it is a constant of compiled kernels, and our value, 1e-4 (math.md,
section 14), is close to the value in the original program of 2015, 1.2e-4 (the fourth root of the rounding unit).
"""


def _corrections_tables(outcomes: Sequence[RunOutcome]) -> tuple[Table, ...]:
    rows = []
    for o in outcomes:
        name = named(o, CORRECTIONS)
        keys = ("q_err_rad", "dtau_mean_nm_s", "dtau_max_nm_s", "force_err_rel")
        rows.append((name, o.setting("mu"), *(o.metric(key) for key in keys), o.reason or "done"))
    return (headed("corrections", rows),)


def named(outcome: RunOutcome, settings: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the name of the last of `settings` that applies to a run."""
    return [name for name, own in settings.items() if all(outcome.setting(k) == v for k, v in own.items())][-1]


def against(rows: str, what: str, columns: str = "controller") -> Callable[[Sequence[RunOutcome]], tuple[Table, ...]]:
    """Return a function that tabulates `QUANTITIES` by two settings; `what` describes the setting of the rows."""

    def tables(outcomes: Sequence[RunOutcome]) -> tuple[Table, ...]:
        down, across = (tuple(dict.fromkeys(o.setting(key) for o in outcomes)) for key in (rows, columns))
        return tuple(
            headed(
                name,
                ((v, *(_cell(outcomes, {rows: v, columns: c}, metric) for c in across)) for v in down),
                (what, *across),
            )
            for name, metric in QUANTITIES.items()
        )

    return tables


def _cell(outcomes: Sequence[RunOutcome], place: Mapping[str, Any], metric: str) -> float | str | None:
    """Return the mean over the seeds if all runs completed their task; otherwise the number of failures.

    A cell with a single run has the reason of its failure instead of the number.
    """
    chosen = [o for o in outcomes if all(o.setting(key) == value for key, value in place.items())]
    failed = [o for o in chosen if not o.done]
    if failed:
        return failed[0].reason if len(chosen) == 1 else f"{len(failed)} of {len(chosen)} failed"
    numbers = [o.metric(metric) for o in chosen if o.metric(metric) is not None]
    return float(np.mean(numbers)) if numbers else None


def _robustness(key: str, what: str, values: Sequence[float], mu: float = 0.8, *, summary: str) -> Study:
    return Study(
        experiment="trot",
        summary=summary,
        runs=tuple(product({"duration_s": (DURATION_S,), "mu": (mu,), key: values, "controller": ROBUST})),
        tables=against(key, what),
    )


def _draws(count: int) -> tuple[dict[str, Any], ...]:
    """Return settings for `count` random but plausible conditions in the field, the same at every call."""
    rng = np.random.default_rng(2015)
    return tuple(
        {
            "seed": seed,
            "mu": round(float(np.exp(rng.uniform(np.log(0.2), np.log(1.5)))), 4),
            "disturbance.payload_share": round(float(rng.uniform(0.0, 0.2)), 4),
            "disturbance.normal_error_rad": round(float(rng.uniform(0.0, 0.1)), 4),
            "disturbance.delay_s": float(rng.choice([0.0, 0.001, 0.002])),
            "noise.angle_rad": round(float(rng.uniform(0.0, 5e-4)), 7),
        }
        for seed in range(count)
    )


def _monte_carlo_tables(outcomes: Sequence[RunOutcome]) -> tuple[Table, ...]:
    rows = []
    for controller in dict.fromkeys(o.setting("controller") for o in outcomes):
        of_it = [o for o in outcomes if o.setting("controller") == controller]
        done = [o for o in of_it if o.done]
        row: list[Any] = [controller, len(of_it), len(done) / len(of_it)]
        for key in ("q_err_rad", "dtau_mean_nm_s"):
            values = [o.metric(key) for o in done]
            row += [float(q) for q in np.quantile(values, (0.5, 0.9))] if values else [None, None]
        rows.append(tuple(row))
    return (headed("monte-carlo", rows),)


def _bias_tables(outcomes: Sequence[RunOutcome]) -> tuple[Table, ...]:
    keys = ("base_tilt_rad", "base_height_err_m", "slip_m_s", "q_err_rad", "dtau_mean_nm_s", "dtau_max_nm_s")
    groups: dict[tuple[Any, ...], list[RunOutcome]] = {}
    for o in outcomes:
        groups.setdefault((o.setting("robot"), named(o, BIAS), o.setting("plant")), []).append(o)
    rows = []
    for group, of_it in groups.items():
        worst = (max((o.metric(key) for o in of_it if o.metric(key) is not None), default=None) for key in keys)
        rows.append((*group, f"{sum(o.done for o in of_it)} of {len(of_it)}", *worst))
    return (headed("bias", rows),)


def _bumps_tables(outcomes: Sequence[RunOutcome]) -> tuple[Table, ...]:
    presets = {p: [o for o in outcomes if o.row.preset == p] for p in dict.fromkeys(o.row.preset for o in outcomes)}
    rows: list[tuple[Any, ...]] = []
    for preset, of_it in presets.items():
        baseline = _mean_error(of_it, "pid")
        for controller in dict.fromkeys(o.setting("controller") for o in of_it):
            error = _mean_error(of_it, controller)
            beside = None if error is None or baseline is None or controller == "pid" else _below(error, baseline)
            failed = [str(o.reason) for o in of_it if o.setting("controller") == controller and not o.done]
            rows.append((preset, controller, error, beside, "; ".join(failed) or "done"))
    return headed("fig16-bumps", rows), statement_table(judged_bumps(outcomes))


def judged_bumps(outcomes: Sequence[RunOutcome]) -> tuple[Judged, ...]:
    """Return the paper's statements on Fig. 16, compared with the runs."""
    return tuple(comparisons(Results(outcomes, {"bumps": ("bumps", {})})))


def _below(error: float, baseline: float) -> str:
    """Return the relative distance of `error` from `baseline`, in words."""
    return f"{abs(1.0 - error / baseline):.0%} {'below' if error <= baseline else 'above'}"


def _mean_error(outcomes: Sequence[RunOutcome], controller: str) -> float | None:
    """Return the mean joint error over the seeds; None without runs, or if a run failed."""
    of_it = [o for o in outcomes if o.setting("controller") == controller]
    return float(np.mean([o.metric("q_err_rad") for o in of_it])) if of_it and all(o.done for o in of_it) else None


plants = Study(
    experiment="trot",
    summary="every kind of controller on every plant: the cost of a mismatch of contact models",
    runs=tuple(product({"duration_s": (DURATION_S,), "controller": MODELS, "plant": PLANTS})),
    tables=against("controller", "controller", "plant"),
)

corrections = Study(
    experiment="trot",
    summary="the value of each correction of the paper: each is removed alone, then all",
    runs=tuple(
        {"controller": "id-coulomb-qp", "duration_s": DURATION_S, "mu": mu} | changes
        for mu in (0.1, 0.8, math.inf)
        for changes in CORRECTIONS.values()
    ),
    tables=_corrections_tables,
    grouping=lambda outcome: (named(outcome, CORRECTIONS), f"µ {outcome.setting('mu'):g}"),
)

TRUE_MU = 0.3
friction = _robustness(
    "friction.estimate",
    f"estimated friction (true: {TRUE_MU:g})",
    tuple(TRUE_MU * factor for factor in (0.25, 0.5, 0.8, 1.0, 1.25, 1.6, 2.0, 4.0)),
    TRUE_MU,
    summary="the controller assumes a wrong friction coefficient, by a factor of 0.25 to 4",
)
normals = _robustness(
    "disturbance.normal_error_rad",
    "error of the normals [rad]",
    tuple(round(math.radians(degrees), 6) for degrees in (0.0, 2.0, 5.0, 10.0, 20.0)),
    summary="contact normals are tilted by up to 20 degrees, unknown to the controller",
)
touchdown = _robustness(
    "disturbance.touchdown_late_s",
    "touchdown late by [s]",
    (-0.05, -0.03, -0.02, -0.01, 0.0, 0.01, 0.02, 0.03, 0.05),
    summary="feet touch the ground up to 50 ms earlier or later than the controller expects",
)
delay = _robustness(
    "disturbance.delay_s",
    "delay [s]",
    (0.0, 0.001, 0.002, 0.003, 0.004, 0.005),
    summary="torques reach the joints up to 5 ms late",
)
payload = _robustness(
    "disturbance.payload_share",
    "payload, share of the mass",
    (0.0, 0.1, 0.2, 0.3, 0.5),
    summary="up to 50 % more mass on the base than the controller knows",
)
noise = _robustness(
    "noise.angle_rad",
    "noise [rad]",
    (0.0, 1e-4, 3e-4, 1e-3, 3e-3),
    summary="white noise on the angles that planner and controller see",
)

BIAS: dict[str, dict[str, Any]] = {
    "none": {},
    "2 degrees and encoders 0.03 rad": {
        "sensing.bias.attitude_rad": math.radians(2.0),
        "sensing.bias.encoder_rad": 0.03,
    },
    "IMU, base estimated": {
        "sensing.base": "estimated",
        "sensing.bias.gyro_rad_s": 0.01,
        "sensing.bias.accelerometer_m_s2": 0.2,
    },
}
"""Constant errors of the sensors, by name."""

SIGNS = range(8)
"""Seeds of the signs of the errors."""

bias = Study(
    experiment="trot",
    summary="constant errors of attitude, encoders, gyroscope and accelerometer, in eight drawn directions",
    runs=tuple(
        {"plant": plant, **errors, "seed": seed}
        for errors in BIAS.values()
        for plant in ("coulomb-lcp", "mujoco")
        for seed in (SIGNS if errors else SIGNS[:1])
    ),
    tables=_bias_tables,
    grouping=lambda outcome: (named(outcome, BIAS), outcome.setting("plant")),
)

monte_carlo = Study(
    experiment="trot",
    summary="forty days in the field: friction, payload, normals, delay and noise drawn at random",
    runs=tuple(
        draw | {"controller": controller, "duration_s": DURATION_S}
        for draw in _draws(40)
        for controller in ("id-coulomb-qp", "id-sap", "pid")
    ),
    tables=_monte_carlo_tables,
    grouping=lambda outcome: (outcome.setting("controller"), ""),
)

bumps = Study(
    experiment="rough",
    summary="Zapolsky & Drumwright 2017, Fig. 16: tracking over bumps; the friction changes at every footstep",
    runs=tuple(
        product(
            {
                "preset": ("paper", "default"),
                "controller": ("id-coulomb-qp", "pid", "id-sensed-1", "id-sensed-2"),
                "seed": (0, 1, 2),
            }
        )
    ),
    tables=_bumps_tables,
)
