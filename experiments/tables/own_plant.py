"""Force prediction where the plant has the controller's own contact model: what is still off, and where it comes from.

``idcontrol compare trot --study own-plant``. Two things stand between the two, although both solve the same problem:
feet that land within a period, whose impact no torque answers, and gaps under standing feet, which the plant closes
within a period and the controller slowly. By default an impact is predicted from the torques that leave it to happen.
The study leaves that out, closes gaps at once instead, and adds noise to what is sensed, which is why the controller
does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from idcontrol.experiments.headings import headed
from idcontrol.experiments.studies import named
from idcontrol.experiments.tables.claims import OWN_MODEL, PaperClaim, beside_each_other, on_own_plant, prediction
from idcontrol.experiments.tables.results import OWN_PLANTS
from idcontrol.sweeps.record import RunOutcome
from idcontrol.sweeps.study import Study, Table

DURATION_S = 5.0
"""Length of a run: sixteen gait periods. More change nothing."""

BY_DEFAULT, UNPREDICTED, AT_ONCE = "by default", "impacts not predicted", "gaps closed at once"

TREATMENTS: Mapping[str, dict[str, Any]] = {
    BY_DEFAULT: {},
    UNPREDICTED: {"inverse.impacts": False},
    AT_ONCE: {"inverse.impacts": False, "inverse.landing.closing_s": 1e-3, "inverse.landing.decay_s": 1e-3},
}
"""Settings for feet that land: the default, which predicts their impact; no such prediction; and gaps closed within a
period of 1 ms, as the plant closes them."""

NOISE_M = (0.0, 1e-4)
"""Standard deviation of the sensed position of the base."""


def tables(outcomes: Sequence[RunOutcome]) -> tuple[Table, ...]:
    """Where the error is made, and whether it is as small as it should be."""
    rows = []
    for o in outcomes:
        found = prediction(o.folder) if o.metrics is not None else None
        rows.append(
            (
                o.setting("controller"),
                o.setting("plant"),
                _treatment(o),
                1e3 * o.setting("noise.position_m"),
                *((None,) * 5 if found is None else (*found, found.landing)),
                o.metric("dtau_mean_nm_s"),
                o.reason or "done",
            )
        )
    return (
        headed("own-plant", rows),
        beside_each_other([claim for o in outcomes for claim in _claims(o)]),
    )


def _claims(outcome: RunOutcome) -> Iterator[PaperClaim]:
    """Judge a run without noise: the preset default as it is, or with the gaps closed at once."""
    if outcome.setting("noise.position_m") != 0.0:
        return
    if _treatment(outcome) == BY_DEFAULT:
        yield from on_own_plant(outcome)
    forces = prediction(outcome.folder) if outcome.done and _treatment(outcome) == AT_ONCE else None
    if forces is not None:
        yield PaperClaim(
            what=f"{outcome.setting('controller')} that closes gaps at once predicts forces to {OWN_MODEL:.1%} while "
            "the predicted feet carry load",
            default=f"{forces.same_feet:.2g} of the load",
            holds=forces.same_feet <= OWN_MODEL,
        )


def _treatment(outcome: RunOutcome) -> str:
    return named(outcome, TREATMENTS)


study = Study(
    experiment="trot",
    summary="force prediction where the plant has the controller's own contact model: what is off, and why",
    runs=tuple(
        {"controller": controller, "duration_s": DURATION_S, "noise.position_m": noise} | own | treatment
        for noise in NOISE_M
        for controller, own in OWN_PLANTS.items()
        for treatment in TREATMENTS.values()
    ),
    tables=tables,
    grouping=lambda outcome: (
        outcome.setting("controller"),
        f"{_treatment(outcome)}, noise {1e3 * outcome.setting('noise.position_m'):g} mm",
    ),
)
