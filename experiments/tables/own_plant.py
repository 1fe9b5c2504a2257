"""Force prediction if plant and controller have the same contact model: remaining errors and their causes.

``idcontrol compare trot --study own-plant``. The problems of plant and controller have two differences. Feet that land
within a period cause an impact in the plant. The plant closes gaps under standing feet within a period, the controller
closes them slowly. By default an impact is predicted under the torques of the last step. The study leaves this
prediction out, once with slow and once with immediate closing of gaps. It also adds noise to the sensed state: with
noise, immediate closing makes torques jump, so it is not the default.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from idcontrol.experiments.headings import headed
from idcontrol.experiments.studies import named
from idcontrol.sweeps.record import RunOutcome
from idcontrol.sweeps.study import Study, Table

OWN_PLANTS: Mapping[str, dict[str, Any]] = {
    "id-coulomb-lcp": {"plant": "coulomb-lcp", "mu": 0.8},
    "id-noslip-lcp": {"plant": "noslip", "mu": float("inf")},
    "id-coulomb-qp": {"plant": "dissipation", "mu": 0.8},
}
"""Plants with the controller's contact model: predicted and real forces differ only by discretization and contact
changes."""

DURATION_S = 5.0
"""Length of a run [s]: sixteen gait periods; more give the same result."""

TREATMENTS: Mapping[str, dict[str, Any]] = {
    "by default": {},
    "impacts not predicted": {"inverse.impacts": False},
    "gaps closed at once": {
        "inverse.impacts": False,
        "inverse.landing.closing_s": 1e-3,
        "inverse.landing.decay_s": 1e-3,
    },
}
"""Settings for landing feet: the default, which predicts their impact; no prediction; and gaps closed within a period
of 1 ms, like the plant."""

NOISE_M = (0.0, 1e-4)
"""Standard deviation of the sensed position of the base."""


def errors(outcome: RunOutcome) -> tuple[float | None, ...]:
    """Return five statistics of the error of the predicted sum of normal forces; errors are relative to the load.

    The numbers are the mean, the median, the mean over times in which exactly the predicted feet carry load, the share
    of such times, and the share of the error that arises at all other times; None without predicted forces.
    """
    keys = ("n", "rel", "median_n", "same_feet_rel")
    error, mean, median, same_feet = (outcome.metric(f"force_err_{key}") for key in keys)
    share = outcome.metric("force_same_feet_share")
    if not error or None in (mean, median, same_feet, share):
        return (None,) * 5
    return mean, median * mean / error, same_feet, share, max(0.0, 1.0 - share * same_feet / mean)


def tables(outcomes: Sequence[RunOutcome]) -> tuple[Table, ...]:
    """Tabulate the error of predicted forces, and its part while other feet than predicted carry load."""
    rows = []
    for o in outcomes:
        noise_mm = 1e3 * o.setting("noise.position_m")
        where = (o.setting("controller"), o.setting("plant"), named(o, TREATMENTS), noise_mm)
        rows.append((*where, *errors(o), o.metric("dtau_mean_nm_s"), o.reason or "done"))
    return (headed("own-plant", rows),)


study = Study(
    experiment="trot",
    summary="force prediction if plant and controller have the same contact model: errors and their causes",
    runs=tuple(
        {"controller": controller, "duration_s": DURATION_S, "noise.position_m": noise} | own | treatment
        for noise in NOISE_M
        for controller, own in OWN_PLANTS.items()
        for treatment in TREATMENTS.values()
    ),
    tables=tables,
    grouping=lambda outcome: (
        outcome.setting("controller"),
        f"{named(outcome, TREATMENTS)}, noise {1e3 * outcome.setting('noise.position_m'):g} mm",
    ),
)
