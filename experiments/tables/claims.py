"""Claims of Zapolsky & Drumwright 2017 in words, and goals of this project, beside the runs of both presets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from idcontrol.experiments.tables.results import (
    CHATTER,
    CONTROLLERS,
    MITIGATION,
    OWN_PLANTS,
    PAPER,
    PREDICTING,
    PRESETS,
    SENSING,
    SMOOTHNESS_ON,
    SOURCE,
    TERRAINS,
    Results,
    contradicted,
)
from idcontrol.experiments.verdicts import MOST_FACTOR, Judged, near, summed_up, verdict
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

TIE = 1.001
"""Rates within this factor count as equal: without slip, the schemes without slip solve id-coulomb-qp's problem."""

BLANK = "–"
"""Stands in a cell of the table of claims where there is no value."""

GOAL_MET, GOAL_MISSED = "our goal, met", "our goal, missed"

OFF_PATH_M = 0.02
"""The centre of mass should stay within this of the straight lines except at turns (Fig. 17)."""

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
        *_errors(results),
        *_forces(results),
        *_smoothness(results),
        *_mitigation(results),
        *_path(results),
    )


def claimed(rows: Sequence[PaperClaim]) -> Iterator[Judged]:
    """Select the paper's claims."""
    for claim in rows:
        if claim.source:
            ours = claim.default if claim.paper == BLANK else claim.paper
            yield Judged(claim.source, claim.what, claim.printed, ours, claim.verdict)


def beside_each_other(rows: Sequence[PaperClaim]) -> Table:
    """Make the table of claims."""
    papers = [claim.verdict for claim in rows if claim.source]
    goals = [claim.holds for claim in rows if not claim.source]
    return Table(
        name="claims",
        title="Claims",
        sentence=f"Of {len(papers)} claims of the paper {summed_up(papers)} Goals met: {sum(goals)} of {len(goals)}.",
        header=("claim", "paper", "preset paper", "preset default", "verdict"),
        rows=tuple((c.what, c.printed, c.paper, c.default, c.verdict) for c in rows),
    )


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
    ratios, fell = [], 0
    for terrain, by_controller in by_terrain.items():
        for controller, numbers in by_controller.items():
            runs = results.at("paper", controller, terrain)
            if numbers is None or not runs or runs[0].metrics is None:
                continue
            value = results.value("paper", controller, terrain, key)
            if value is None:
                fell += 1
            else:
                ratios.append(value / numbers[0])
    within = sum(1.0 / WITHIN <= ratio <= WITHIN for ratio in ratios)
    if ratios or fell:
        yield PaperClaim(
            what=f"the preset paper has the magnitudes of Table {PAPER[table]['table']} within a factor of {WITHIN:g}",
            paper=f"{within} of {len(ratios) + fell}",
            holds=within == len(ratios) + fell,
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


def _smoothness(results: Results) -> Iterator[PaperClaim]:
    """Who is smoothest and who is roughest. The torques of a robot that does not walk to the end are not compared."""
    printed = {c: numbers[0] for c, numbers in PAPER["smoothness"]["values"].items()}
    source = SOURCE.format("Table 4, as a whole")
    rates = {
        preset: results.values(preset, (*CONTROLLERS, *MITIGATION), SMOOTHNESS_ON, "dtau_mean_nm_s", fallen=True)
        for preset in PRESETS
    }

    def said(preset: str, *names: str) -> str:
        return ", ".join(f"{c} {plain(rates[preset][c])}" for c in names if c in rates[preset]) or BLANK

    def walking(preset: str, names: Sequence[str]) -> dict[str, float]:
        return {c: rates[preset][c] for c in names if c in rates[preset] and results.done(preset, c, SMOOTHNESS_ON)}

    for preset in PRESETS:
        rate, others = rates[preset], [c for c in CONTROLLERS if c not in ("pid", "id-coulomb-qp")]
        if "id-coulomb-qp" not in rate or not any(c in rate for c in others):
            continue
        aware, rough = walking(preset, others), walking(preset, ("pid",))
        next_one = min(aware, key=aware.__getitem__, default="")
        qp, walks = rate["id-coulomb-qp"], bool(walking(preset, ("id-coulomb-qp",)))
        yield PaperClaim(
            what=f"id-coulomb-qp is smoothest of those that know contacts in the preset {preset}",
            source=source,
            printed=f"{printed['id-coulomb-qp']:.3g}; next {min(printed[c] for c in others):.3g} N m/s",
            holds=walks and next_one in aware and qp <= TIE * aware[next_one],
        ).found_in(preset, said(preset, "id-coulomb-qp", next_one))
        if "pid" in rate:
            yield PaperClaim(
                what=f"id-coulomb-qp is smoother than pid in the preset {preset}",
                source=source,
                printed=f"{printed['id-coulomb-qp']:.3g} against {printed['pid']:.3g} N m/s",
                holds=walks and "pid" in rough and qp < rough["pid"],
            ).found_in(preset, said(preset, "id-coulomb-qp", "pid"))
    lcp = rates["paper"].get("id-coulomb-lcp")
    if lcp is not None and "id-coulomb-smooth" in rates["default"]:
        yield PaperClaim(
            what="id-coulomb-smooth of the preset default has at most a tenth of id-coulomb-lcp's in the preset paper",
            printed=f"id-coulomb-lcp {printed['id-coulomb-lcp']:.3g}",
            paper=said("paper", "id-coulomb-lcp"),
            default=said("default", "id-coulomb-smooth"),
            holds=rates["default"]["id-coulomb-smooth"] <= 0.1 * lcp,
        )
    if lcp is not None and "id-coulomb-smooth" in rates["paper"]:
        yield PaperClaim(
            what="id-coulomb-smooth cannot mitigate chatter in the preset paper",
            source=SOURCE.format("Fig. 15"),
            printed="unable to mitigate chatter",
            paper=said("paper", "id-coulomb-smooth", "id-coulomb-lcp"),
            holds=rates["paper"]["id-coulomb-smooth"] > 0.5 * lcp,
        )
    for preset in PRESETS:
        rivals = [c for c in CONTROLLERS if c != "id-sensed-2"]
        if "id-sensed-2" in rates[preset] and any(c in rates[preset] for c in rivals):
            others_walking = walking(preset, rivals)
            second = max(others_walking, key=others_walking.__getitem__, default="")
            yield PaperClaim(
                what=f"id-sensed-2 is roughest by far in the preset {preset}",
                source=source,
                printed=f"{plain(printed['id-sensed-2'])}; next id-sensed-1 {printed['id-sensed-1']:.3g} N m/s",
                holds=second in others_walking and rates[preset]["id-sensed-2"] > 2.0 * others_walking[second],
            ).found_in(preset, said(preset, "id-sensed-2", second))


def _mitigation(results: Results) -> Iterator[PaperClaim]:
    """What the second stage does to the torques of id-coulomb-qp: Figs. 6 and 15."""
    pair = ("id-coulomb-qp-raw", "id-coulomb-qp")
    printed = PAPER["claims"]["smoothing_dtau_max_factor"]
    for preset in PRESETS:
        ratios = []
        for key in ("dtau_mean_nm_s", "dtau_max_nm_s"):
            raw, smooth = (results.value(preset, c, SMOOTHNESS_ON, key, fallen=True) for c in pair)
            if raw and smooth:
                ratios.append(raw / smooth)
        if len(ratios) < 2:
            continue
        rougher, factor = ratios
        yield PaperClaim(
            what=f"in the preset {preset} torques chatter without the second stage: their mean rate is {CHATTER:g} "
            "times that with it",
            source=SOURCE.format("Fig. 6"),
            printed="drawn",
            holds=rougher >= CHATTER,
        ).found_in(preset, f"{rougher:.3g} times")
        yield PaperClaim(
            what=f"in the preset {preset} the second stage lowers the largest torque rate",
            source=SOURCE.format("Fig. 15"),
            printed=f"by a factor of {plain(printed)}",
            holds=near(factor, printed),
            derivation=MOST_FACTOR if all(results.done(preset, c, SMOOTHNESS_ON) for c in pair) else "",
        ).found_in(preset, f"by a factor of {factor:.3g}")


def _errors(results: Results) -> Iterator[PaperClaim]:
    """Who follows joints best: Fig. 14 and section 8.0.1. A robot that falls follows them worse than any that walks."""
    for preset in PRESETS:
        for terrain, (title, _) in TERRAINS.items():
            cells = {
                c: cell for c in CONTROLLERS if (cell := results.cell(preset, c, terrain, "q_err_rad")) is not None
            }
            ranks = {c: rank for c, cell in cells.items() if not np.isnan(rank := _ranked(cell))}
            sensed = min((c for c in SENSING if c in ranks), key=ranks.__getitem__, default="")
            senses = any(c in cells for c in SENSING)
            if "id-coulomb-qp" in cells and senses:
                best = ranks.get("id-coulomb-qp", np.inf)
                yield _error_claim(
                    preset,
                    f"id-coulomb-qp follows joints as well as inverse dynamics on sensed forces or better, {title}",
                    "outperformed or matched",
                    sensed in ranks and best <= ranks[sensed] and best < np.inf,
                    {c: ranks[c] for c in ("id-coulomb-qp", sensed) if c in ranks},
                )
            others = [c for c in cells if c != "pid"]
            if "pid" in cells and others and terrain == "rigid_low":
                worst = max((c for c in others if ranks.get(c, np.inf) < np.inf), key=ranks.__getitem__, default="")
                yield _error_claim(
                    preset,
                    f"pid is worse than all inverse dynamics that walks, {title}",
                    "substantially worse",
                    "pid" in ranks and worst in ranks and ranks["pid"] > ranks[worst],
                    {c: ranks[c] for c in ("pid", worst) if c in ranks},
                )
            if "pid" in cells and others and terrain == "rigid_high" and senses:
                yield _error_claim(
                    preset,
                    f"inverse dynamics on sensed forces is worse than pid, {title}",
                    "performed the worst",
                    "pid" in ranks and sensed in ranks and ranks["pid"] < ranks[sensed],
                    {c: ranks[c] for c in ("pid", sensed) if c in ranks},
                )


def _error_claim(preset: str, what: str, printed: str, holds: bool, errors: dict[str, float]) -> PaperClaim:
    said = (f"{c} {error:.3g} rad" if error < np.inf else f"{c} fell" for c, error in errors.items())
    claim = PaperClaim(f"in the preset {preset} {what}", holds, SOURCE.format("Fig. 14"), printed)
    return claim.found_in(preset, ", ".join(said) or "none walks its path")


def _ranked(cell: float | str) -> float:
    """Return a number among others: inf for a robot that fell, nan for one that did not walk its path."""
    if isinstance(cell, str):
        return np.inf if cell.startswith("fell") else np.nan
    return cell


def _path(results: Results) -> Iterator[PaperClaim]:
    """A robot that falls strays farther than any that walks; one that stands still is on its path, and no witness."""
    source = SOURCE.format("Fig. 17")
    for preset in PRESETS:
        for terrain in ("rigid_high", "rigid_low"):
            title = TERRAINS[terrain][0]
            cells: dict[str, Any] = {
                c: cell
                for c in ("id-coulomb-qp", "pid", *SENSING)
                if (cell := results.cell(preset, c, terrain, "com_path_max_m")) is not None
            }
            said = {c: cell if isinstance(cell, str) else f"{1e3 * cell:.3g} mm" for c, cell in cells.items()}
            ranks = {c: _ranked(cell) for c, cell in cells.items()}
            for controller in ("id-coulomb-qp", "pid"):
                if controller in ranks:
                    yield PaperClaim(
                        what=f"in the preset {preset} {controller} walks its path, with its centre of mass within "
                        f"{1e3 * OFF_PATH_M:g} mm of the lines except at turns, {title}",
                        source=source,
                        printed="drawn in Fig. 17",
                        holds=ranks[controller] <= OFF_PATH_M,
                    ).found_in(preset, said[controller])
            for better, worse in (("id-coulomb-qp", "id-sensed-1"), ("id-sensed-1", "id-sensed-2")):
                if better in ranks and worse in ranks:
                    yield PaperClaim(
                        what=f"in the preset {preset} {worse} strays farther from its path than {better}, {title}",
                        source=source,
                        printed="worse tracking",
                        holds=ranks[better] < ranks[worse],
                    ).found_in(preset, f"{said[better]}; {said[worse]}")
