"""Claims of Zapolsky & Drumwright 2017 in words, and goals of this project, beside the runs of both presets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from idcontrol.experiments.headings import headed
from idcontrol.experiments.tables.results import (
    CHATTER,
    CONTROLLERS,
    OWN_PLANTS,
    PAPER,
    PREDICTING,
    PRESETS,
    SMOOTHNESS_ON,
    SOURCE,
    TERRAINS,
    Results,
    contradicted,
)
from idcontrol.experiments.verdicts import MOST_FACTOR, Judged, near, verdict
from idcontrol.record.metrics import contact_forces
from idcontrol.record.recording import load
from idcontrol.show.report import plain
from idcontrol.sweeps.record import RunOutcome
from idcontrol.sweeps.study import Table

WITHIN = 2.0
"""The preset paper should have the paper's magnitudes within this factor."""

GOAL_RAD, SLACK = {"rigid_low": 0.007, "rigid_high": 0.004}, 1.5
"""Goals of planner.md 10 for id-coulomb-qp's joint error [rad]; others that predict contacts get a factor of slack."""

OWN_MODEL = 1e-3
"""Force prediction on a plant with the same contact model should be better than this, relative."""

MEAN_RATE = "dtau_mean_nm_s"

BLANK = "–"
"""Stands in a cell of the table of claims where there is no value."""

GOAL_MET, GOAL_MISSED = "our goal, met", "our goal, missed"

ENDED = "went to its end"


class PaperClaim(NamedTuple):
    """One row of the table of claims.

    Attributes:
        what: The claim.
        holds: True if the claim holds, judged by the preset that it is about.
        source: The place in the paper where it is made; "" for a goal of this project.
        printed: Value in the paper.
        paper: Value in the preset paper.
        default: Value in the preset default.
        derivation: The page that derives why a claim of the paper does not hold; "" if none does.
    """

    what: str
    holds: bool
    source: str = ""
    printed: str = BLANK
    paper: str = BLANK
    default: str = BLANK
    derivation: str = ""

    @property
    def verdict(self) -> str:
        """How the claim compares with the paper's; `GOAL_MET` or `GOAL_MISSED` for a goal of this project."""
        if not self.source:
            return GOAL_MET if self.holds else GOAL_MISSED
        return verdict(self.holds, self.derivation)

    def found_in(self, preset: str, value: str) -> PaperClaim:
        """Return the claim with the value of one preset."""
        return self._replace(paper=value) if preset == "paper" else self._replace(default=value)


def claims(results: Results) -> tuple[PaperClaim, ...]:
    """Compare all claims of the study with the runs."""
    return (
        *_tracking(results),
        *_forces(results),
        *_mitigation(results),
        *_comparisons(results),
    )


def claimed(rows: Sequence[PaperClaim]) -> Iterator[Judged]:
    """Select the paper's claims."""
    for claim in rows:
        if claim.source:
            ours = claim.default if claim.paper == BLANK else claim.paper
            yield Judged(claim.source, claim.what, claim.printed, ours, claim.verdict)


def beside_each_other(rows: Sequence[PaperClaim]) -> Table:
    """Make the table of claims."""
    return headed("claims", tuple((c.what, c.printed, c.paper, c.default, c.verdict) for c in rows))


def _tracking(results: Results) -> Iterator[PaperClaim]:
    for table, key in (("tracking", "q_err_rad"), ("smoothness", "dtau_mean_nm_s")):
        yield from _magnitudes(results, table, key)
    for terrain, (title, _) in TERRAINS.items():
        yield from _order(results, terrain, title)
    for controller in ("id-noslip-lcp", "id-noslip-qp"):
        for run in results.at("paper", controller, "rigid_low")[:1]:
            printed = PAPER["tracking"]["values"]["rigid_low"][controller]
            others = results.at("default", controller, "rigid_low")
            yield PaperClaim(
                what=f"{controller} {'stands' if printed else 'falls'} on rigid ground of µ 0.1",
                source=SOURCE.format("Table 3, as a whole"),
                printed=f"{printed[0]:.3g} rad" if printed else "fell",
                paper=run.reason or ENDED,
                default=(others[0].reason or ENDED) if others else BLANK,
                holds=run.done is (printed is not None),
                derivation=contradicted(controller, "rigid_low", run.reason),
            )
    for terrain, goal in GOAL_RAD.items():
        errors = results.values("default", PREDICTING, terrain, "q_err_rad")
        if errors:
            worst = max(errors, key=errors.__getitem__)
            yield PaperClaim(
                what=f"on {TERRAINS[terrain][0]} all that predict contacts and stand are within {SLACK * goal:.3g} rad",
                default=f"worst {worst} {errors[worst]:.3g} rad of {len(errors)}",
                holds=errors[worst] <= SLACK * goal,
            )


def _magnitudes(results: Results, table: str, key: str) -> Iterator[PaperClaim]:
    """Count the results of the preset paper that are within `WITHIN` of the printed ones."""
    values = PAPER[table]["values"]
    by_terrain = {SMOOTHNESS_ON: values} if table == "smoothness" else values
    ratios = [
        (results.value("paper", controller, terrain, key) or 0.0) / numbers[0]  # none of a robot that fell is within
        for terrain, by_controller in by_terrain.items()
        for controller, numbers in by_controller.items()
        if numbers and any(run.metrics is not None for run in results.at("paper", controller, terrain)[:1])
    ]
    if ratios:
        within = sum(1.0 / WITHIN <= ratio <= WITHIN for ratio in ratios)
        yield PaperClaim(
            what=f"the preset paper has the magnitudes of Table {PAPER[table]['table']} within a factor of {WITHIN:g}",
            paper=f"{within} of {len(ratios)}",
            holds=within == len(ratios),
        )


def _order(results: Results, terrain: str, title: str) -> Iterator[PaperClaim]:
    """Compare the order of the joint errors of each pair of controllers that stand in the paper and here."""
    if not any(results.at("paper", c, terrain) for c in CONTROLLERS):
        return
    paper = {c: values[0] for c, values in PAPER["tracking"]["values"][terrain].items() if values}
    ours = results.values("paper", CONTROLLERS, terrain, "q_err_rad")
    pairs = [(a, b) for a, b in combinations(ours, 2) if a in paper and b in paper and paper[a] != paper[b]]

    def ranking(errors: dict[str, float]) -> str:
        return " < ".join(sorted(errors, key=errors.__getitem__))

    yield PaperClaim(
        what=f"on {title} the preset paper has the paper's order of joint errors",
        source=SOURCE.format("Table 3, as a whole"),
        printed=ranking({c: paper[c] for c in (ours if pairs else CONTROLLERS) if c in paper}),
        paper=ranking(ours) or "none walks its path",
        holds=bool(pairs) and all((paper[a] < paper[b]) is (ours[a] < ours[b]) for a, b in pairs),
    )


def _forces(results: Results) -> Iterator[PaperClaim]:
    for controller in OWN_PLANTS:
        run = results.on_own_plant(controller)
        if run is not None:
            yield from on_own_plant(run)
    relative = {
        f"{c} on {TERRAINS[terrain][0]}": value
        for terrain in TERRAINS
        for c, value in results.values("default", PREDICTING, terrain, "force_err_rel").items()
    }
    if relative:
        worst = max(relative, key=relative.__getitem__)
        low, high = PAPER["claims"]["force_err_rel_qp"]
        yield PaperClaim(
            what=f"across models forces are predicted better than the paper's {low:.0%}",
            printed=f"{low:.0%} to {high:.0%}",
            default=f"{min(relative.values()):.2%} to {relative[worst]:.2%} ({worst})",
            holds=relative[worst] < low,
        )


def on_own_plant(run: RunOutcome) -> Iterator[PaperClaim]:
    """Judge the predicted forces of a run of the preset default on the plant with the controller's contact model."""
    forces = prediction(run.folder) if run.done else None
    if forces is None:
        return
    controller = run.setting("controller")
    printed = "about 1 %" if controller == "id-coulomb-qp" else "1.2 to 1.9 %"
    for word, error, digits in (("mean", forces.mean, 2), ("median", forces.median, 3)):
        yield PaperClaim(
            what=f"{controller} on {run.setting('plant')} predicts forces to {OWN_MODEL:.1%} in the {word}",
            printed=printed,
            default=f"{error:.{digits}%}",
            holds=error <= OWN_MODEL,
        )


class Prediction(NamedTuple):
    """How well a run predicted the sum of its normal forces; errors as shares of the load.

    Attributes:
        mean: Mean error.
        median: Median error.
        same_feet: Mean error while exactly the feet carry load that were predicted to.
        same_feet_share: Share of the time in which they do.
    """

    mean: float
    median: float
    same_feet: float
    same_feet_share: float

    @property
    def landing(self) -> float:
        """Part of the error that is made while other feet carry load than were predicted to."""
        return max(0.0, 1.0 - self.same_feet_share * self.same_feet / self.mean) if self.mean > 0.0 else 0.0


@lru_cache(maxsize=64)
def prediction(folder: Path) -> Prediction | None:
    """Return the prediction of the run in `folder`; None without predicted forces, or if its feet never carry load."""
    arrays = load(folder).arrays
    errors = contact_forces(arrays["force"][:, :, 2], arrays["force_pred"][:, :, 2])
    error, median, mean = errors["force_err_n"], errors["force_err_median_n"], errors["force_err_rel"]
    same_feet, share = errors["force_err_same_feet_rel"], errors["force_same_feet_share"]
    if error is None or median is None or mean is None or same_feet is None or share is None:
        return None
    return Prediction(mean, median * mean / error if error > 0.0 else 0.0, same_feet, share)


def _mitigation(results: Results) -> Iterator[PaperClaim]:
    """What the second stage does to the torques of id-coulomb-qp, and Algorithm 3 to those of id-coulomb-lcp."""
    lcp, third = "id-coulomb-lcp", "id-coulomb-smooth"
    rates = {(p, c): results.value(p, c, SMOOTHNESS_ON, MEAN_RATE, fallen=True) for p in PRESETS for c in (lcp, third)}
    if (plain_lcp := rates["paper", lcp]) is not None:
        if (ours := rates["default", third]) is not None:
            yield PaperClaim(
                what="id-coulomb-smooth of the preset default has at most a tenth of id-coulomb-lcp's "
                "in the preset paper",
                printed="id-coulomb-lcp 678",
                paper=plain(plain_lcp),
                default=plain(ours),
                holds=ours <= 0.1 * plain_lcp,
            )
        if (theirs := rates["paper", third]) is not None:
            yield PaperClaim(
                what="id-coulomb-smooth cannot mitigate chatter in the preset paper",
                source=SOURCE.format("Fig. 15"),
                printed="unable to mitigate chatter",
                paper=_beside({third: theirs, lcp: plain_lcp}),
                holds=theirs > 0.5 * plain_lcp,
            )
    raw, smoothed = "id-coulomb-qp-raw", "id-coulomb-qp"
    printed = PAPER["claims"]["smoothing_dtau_max_factor"]
    for preset in PRESETS:
        ratios = [
            rough / smooth
            for key in (MEAN_RATE, "dtau_max_nm_s")
            if (rough := results.value(preset, raw, SMOOTHNESS_ON, key, fallen=True))
            and (smooth := results.value(preset, smoothed, SMOOTHNESS_ON, key, fallen=True))
        ]
        if len(ratios) < 2:
            continue
        rougher, factor = ratios
        yield PaperClaim(
            what=f"in the preset {preset} torques chatter without the second stage: their mean rate is {CHATTER:g} "
            "times that with it",
            source=SOURCE.format("Fig. 6"),
            printed="drawn",
            holds=rougher >= CHATTER,
        ).found_in(preset, plain(rougher))
        yield PaperClaim(
            what=f"in the preset {preset} the second stage lowers the largest torque rate",
            source=SOURCE.format("Fig. 15"),
            printed=f"by a factor of {plain(printed)}",
            holds=near(factor, printed),
            derivation=MOST_FACTOR if all(results.done(preset, c, SMOOTHNESS_ON) for c in (raw, smoothed)) else "",
        ).found_in(preset, plain(factor))


class Comparison(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row of ``paper/claims.toml``, whose head explains the fields."""

    what: str
    source: str
    printed: str
    key: str
    terrains: tuple[str, ...]
    less: tuple[str, ...]
    more: tuple[str, ...] = ()
    bound: float = np.inf
    factor: float = 1.0
    equal: bool = False
    walking: bool = False
    fallen: bool = False

    def claim(self, results: Results, preset: str, terrain: str) -> PaperClaim | None:
        """Compare the two groups on a terrain; None where one of them has no runs."""
        less = _known(self.less, lambda c: results.cell(preset, c, terrain, self.key))
        more = _known(
            self.more,
            lambda c: (
                results.value(preset, c, terrain, self.key, fallen=True)
                if self.fallen
                else results.cell(preset, c, terrain, self.key)
            ),
        )
        if not less or bool(more) is not bool(self.more):
            return None
        below = {c: rank for c, x in less.items() if (rank := self._rank(x)) < np.inf}
        above = {c: rank for c, x in more.items() if not np.isnan(rank := self._rank(x))}
        most = max(below, key=below.__getitem__, default=next(iter(less)))
        least = min(above, key=above.__getitem__, default=next(iter(more), ""))
        limit = self.factor * above.get(least, -np.inf) if self.more else self.bound
        best = below.get(most, np.inf)
        return PaperClaim(
            what=self.what.format(preset=preset, terrain=TERRAINS[terrain][0]),
            source=SOURCE.format(self.source),
            printed=self.printed,
            holds=best < limit or (self.equal and best == limit < np.inf),
        ).found_in(preset, _beside({c: x for c, x in (less | more).items() if c in (most, least)}))

    def _rank(self, cell: float | str) -> float:
        """Return a number among others: inf for a robot that fell, nan for one that is left out."""
        if isinstance(cell, str):
            return np.inf if cell.startswith("fell") and not self.walking else np.nan
        return cell


def _known(controllers: Sequence[str], cell: Callable[[str], float | str | None]) -> dict[str, float | str]:
    """Return the cells of the controllers that have one."""
    return {c: x for c in controllers if (x := cell(c)) is not None}


COMPARISONS = msgspec.toml.decode(
    (Path(__file__).parents[1] / "paper" / "claims.toml").read_bytes(), type=dict[str, tuple[Comparison, ...]]
)["comparison"]


def _comparisons(results: Results) -> Iterator[PaperClaim]:
    """Compare controllers in both presets; one that stands still is on its path, and no witness."""
    for preset, row in product(PRESETS, COMPARISONS):
        for terrain in row.terrains:
            claim = row.claim(results, preset, terrain)
            if claim is not None:
                yield claim


def _beside(values: Mapping[str, float | str]) -> str:
    """Return numbers, or reasons for which there are none, by controller."""
    return ", ".join(f"{c} {x if isinstance(x, str) else plain(x)}" for c, x in values.items()) or "none walks its path"
