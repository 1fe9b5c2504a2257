"""Claims of the paper, and our own, against the measurements; where they differ, what the data say about the reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from idcontrol.experiments.tables.printed import CHATTER
from idcontrol.experiments.tables.results import (
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
from idcontrol.experiments.tables.torque_parts import JUMP, SWITCH_S, WORDS, jumped_at_a_switch, torques_of
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
"""Rates within this factor count as equal: where nothing slips, id-coulomb-qp solves the problem of the schemes without
slip."""

NOT_PRINTED = "–"
"""Stands in place of the paper's value in claims of our own."""

GOAL_MET, GOAL_MISSED = "our goal, met", "our goal, missed"

OFF_PATH_M = 0.02
"""The centre of mass should stay within this of the straight lines except at turns (Fig. 17)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperClaim:
    """One row of the table of claims.

    Attributes:
        what: The claim.
        source: The place in the paper where it is made; "" if it is a goal of our own.
        printed: Value in the paper.
        paper: Value in the preset paper.
        default: Value in the preset default.
        holds: Whether the claim holds, judged by the preset that it is about.
        why: The reason, as far as the data tell it.
        derivation: The page that derives why a claim of the paper does not hold; "" if none does.
    """

    what: str
    source: str = ""
    printed: str = NOT_PRINTED
    paper: str = "–"
    default: str = "–"
    holds: bool
    why: str = ""
    derivation: str = ""

    @property
    def verdict(self) -> str:
        """How the claim stands beside the paper's; `GOAL_MET` or `GOAL_MISSED` where it is our own."""
        if not self.source:
            return GOAL_MET if self.holds else GOAL_MISSED
        return verdict(self.holds, self.derivation)


def claims(results: Results) -> tuple[PaperClaim, ...]:
    """All claims of the study, against the measurements."""
    return (
        *_tracking(results),
        *_errors(results),
        *_forces(results),
        *_smoothness(results),
        *_mitigation(results),
        *_path(results),
    )


def claimed(found: Sequence[PaperClaim]) -> Iterator[Judged]:
    """The paper's among some claims."""
    for claim in found:
        if claim.source:
            ours = claim.default if claim.paper == NOT_PRINTED else claim.paper
            yield Judged(claim.source, claim.what, claim.printed, ours, claim.verdict)


def beside_each_other(found: Sequence[PaperClaim]) -> Table:
    """The table of some claims."""
    goals = [claim.holds for claim in found if not claim.source]
    missed = [claim.what for claim in found if not claim.holds]
    said = [
        f"Of {len(found) - len(goals)} claims of the paper {summed_up(c.verdict for c in found)}",
        *([f"Of {len(goals)} goals of ours {sum(goals)} are met."] if goals else []),
        *([f"Not so: {'; '.join(missed)}."] if missed else []),
    ]
    return Table(
        name="claims",
        title="Claims",
        sentence=" ".join(said) if found else "The runs that a claim needs did not walk to the end.",
        header=("claim", "paper", "preset paper", "preset default", "verdict", "why"),
        rows=tuple((c.what, c.printed, c.paper, c.default, c.verdict, c.why) for c in found),
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
                paper=run.reason or "went to its end",
                default=(others[0].reason or "went to its end") if others else "–",
                holds=run.done is (printed is not None),
                derivation=contradicted(controller, "rigid_low", run.reason),
                why="Table 6 of the paper says that both slip and fall there, its Table 3 has an error for "
                "id-noslip-qp. Ours ask for the same motion, S v⁺ = T v⁺ = 0; the original's had no such rows."
                if run.done is (printed is None)
                else "",
            )
    for terrain, goal in GOAL_RAD.items():
        errors, sensing = (
            {c: value for c in names if (value := results.value("default", c, terrain, "q_err_rad")) is not None}
            for names in (PREDICTING, SENSING)
        )
        if errors:
            worst = max(errors, key=lambda c: errors[c])
            yield PaperClaim(
                what=f"on {TERRAINS[terrain][0]} all that predict contacts and stand are within {SLACK * goal:.3g} rad",
                default=f"worst {worst} {errors[worst]:.3g} rad of {len(errors)}",
                holds=errors[worst] <= SLACK * goal,
                why="Those that sense forces and predict none have "
                + ", ".join(f"{c} {value:.3g} rad" for c, value in sensing.items())
                + "."
                if sensing
                else "",
            )


def _magnitudes(results: Results, table: str, key: str) -> Iterator[PaperClaim]:
    """The number of results of the preset paper that are within `WITHIN` of the printed ones."""
    paper = PAPER[table]["values"]
    ratios, fell, fallen = {}, [], []
    for terrain, (title, _) in TERRAINS.items():
        printed = paper[terrain] if table == "tracking" else paper if terrain == SMOOTHNESS_ON else {}
        for controller, numbers in printed.items():
            runs = results.at("paper", controller, terrain)
            if numbers is None or not runs or runs[0].metrics is None:
                continue
            value = results.value("paper", controller, terrain, key)
            if value is None:
                fell.append(f"{controller} on {title} {runs[0].reason}")
                if runs[0].metric("fell_at_s") is not None:
                    fallen.append(runs[0].folder)
            else:
                ratios[f"{controller} on {title}"] = value / numbers[0]
    if not ratios and not fell:
        return
    off = {name: ratio for name, ratio in ratios.items() if not 1.0 / WITHIN <= ratio <= WITHIN}
    reasons = [
        f"{what}: {'; '.join(which)}."
        for what, which in (
            ("Off", [f"{name} times {ratio:.3g}" for name, ratio in off.items()]),
            ("Not to the end", fell),
        )
        if which
    ]
    if fallen:
        reasons.append(_how_they_fell(fallen))
    if reasons:
        reasons.append("Which gains gave the paper's numbers is recorded nowhere; those of the preset are ours.")
    yield PaperClaim(
        what=f"the preset paper has the magnitudes of Table {PAPER[table]['table']} within a factor of {WITHIN:g}",
        paper=f"{len(ratios) - len(off)} of {len(ratios) + len(fell)}",
        holds=not off and not fell,
        why=" ".join(reasons),
    )


def _how_they_fell(folders: Sequence[Path]) -> str:
    """How torques behaved before runs fell, in words."""
    jumps = [near for folder in folders if (near := jumped_at_a_switch(folder)) is not None]
    return (
        f"Of the {len(folders)} that fell, {len(jumps)} had torques of more than {JUMP:g} times their median before "
        f"they were down, {sum(jumps)} of them first within {1e3 * SWITCH_S:g} ms of a foot being set down or lifted; "
        "the study corrections takes the preset's differences from the default one by one."
    )


def _order(results: Results, terrain: str, title: str) -> Iterator[PaperClaim]:
    """Whether pairs of controllers are in the paper's order of joint error, where both stand in both."""
    paper = PAPER["tracking"]["values"][terrain]
    ours = {c: x for c in CONTROLLERS if (x := results.value("paper", c, terrain, "q_err_rad")) is not None}
    pairs = [(a, b) for a, b in combinations(ours, 2) if paper[a] and paper[b] and paper[a][0] != paper[b][0]]
    if not any(results.at("paper", c, terrain) for c in CONTROLLERS):
        return
    wrong = [(a, b) for a, b in pairs if (paper[a][0] < paper[b][0]) is not (ours[a] < ours[b])]

    def ranking(errors: dict[str, float]) -> str:
        return " < ".join(sorted(errors, key=lambda c: errors[c]))

    yield PaperClaim(
        what=f"on {title} the preset paper has the paper's order of joint errors",
        source=SOURCE.format("Table 3, as a whole"),
        printed=ranking({c: paper[c][0] for c in (ours if pairs else CONTROLLERS) if paper[c]}),
        paper=ranking(ours) or "none walks its path",
        holds=bool(pairs) and not wrong,
        why=f"{len(wrong)} of {len(pairs)} pairs the other way round: {', '.join(f'{a} and {b}' for a, b in wrong)}"
        if wrong
        else "",
    )


def _forces(results: Results) -> Iterator[PaperClaim]:
    for controller in OWN_PLANTS:
        run = results.on_own_plant(controller)
        if run is not None:
            yield from on_own_plant(run)
    relative = {
        f"{c} on {TERRAINS[t][0]}": value
        for c in PREDICTING
        for t in TERRAINS
        if (value := results.value("default", c, t, "force_err_rel")) is not None
    }
    if relative:
        worst = max(relative, key=lambda name: relative[name])
        low, high = PAPER["claims"]["force_err_rel_qp"]
        yield PaperClaim(
            what=f"across models forces are predicted better than the paper's {low:.0%}",
            printed=f"{low:.0%} to {high:.0%}",
            default=f"{min(relative.values()):.2%} to {relative[worst]:.2%} ({worst})",
            holds=relative[worst] < low,
        )


def on_own_plant(run: RunOutcome) -> Iterator[PaperClaim]:
    """How well a run of the preset default on the plant with the controller's own contact model predicts forces."""
    found = prediction(run.folder) if run.done else None
    if found is None:
        return
    controller = run.setting("controller")
    what = f"{controller} on {run.setting('plant')} predicts forces to {OWN_MODEL:.1%}"
    printed = "about 1 %" if controller == "id-coulomb-qp" else "1.2 to 1.9 %"
    yield PaperClaim(
        what=f"{what} in the mean",
        printed=printed,
        default=f"{found.mean:.2%}",
        holds=found.mean <= OWN_MODEL,
        why=f"{found.landing:.0%} of the error is made in the {1.0 - found.same_feet_share:.1%} of time in which other "
        "feet carry load than were predicted to. An impact within the period is answered by no torque, but its force "
        f"is predicted. In the rest of the time the error is {found.same_feet:.3%}.",
    )
    yield PaperClaim(
        what=f"{what} in the median",
        printed=printed,
        default=f"{found.median:.3%}",
        holds=found.median <= OWN_MODEL,
        why="What remains between landings are the gaps under standing feet, tenths of a micrometre: the plant closes "
        "them within a period, the controller more slowly, so as not to chase noise. Closed within a period (study "
        "own-plant) they leave nothing to explain.",
    )


@dataclass(frozen=True, slots=True)
class Prediction:
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
    """The prediction of the run in `folder`; None without predicted forces, or if those feet never carried load."""
    arrays = load(folder).arrays
    found = contact_forces(arrays["force"][:, :, 2], arrays["force_pred"][:, :, 2])
    error, median, mean = found["force_err_n"], found["force_err_median_n"], found["force_err_rel"]
    same_feet, share = found["force_err_same_feet_rel"], found["force_same_feet_share"]
    if error is None or median is None or mean is None or same_feet is None or share is None:
        return None
    return Prediction(
        mean=mean, median=median * mean / error if error > 0.0 else 0.0, same_feet=same_feet, same_feet_share=share
    )


def _smoothness(results: Results) -> Iterator[PaperClaim]:
    printed = {c: numbers[0] for c, numbers in PAPER["smoothness"]["values"].items()}
    key = "dtau_mean_nm_s"
    rate = {
        preset: {
            c: value
            for c in (*CONTROLLERS, *MITIGATION)
            if (value := results.value(preset, c, SMOOTHNESS_ON, key, fallen=True)) is not None
        }
        for preset in PRESETS
    }

    def said(preset: str, *names: str) -> str:
        return ", ".join(f"{c} {plain(rate[preset][c])}" for c in names if c in rate[preset]) or "–"

    # the torques of a robot that does not walk to the end say nothing about walking: they are reported, not compared
    stands = {preset: [c for c in rate[preset] if results.done(preset, c, SMOOTHNESS_ON)] for preset in PRESETS}

    def fell(preset: str, *names: str) -> str:
        gone = said(preset, *(c for c in names if c not in stands[preset]))
        return "" if gone == "–" else f" Not compared, since they do not walk to the end: {gone} N m/s."

    for preset in PRESETS:
        known = [c for c in CONTROLLERS if c not in ("pid", "id-coulomb-qp")]
        aware = {c: rate[preset][c] for c in known if c in stands[preset]}
        if "id-coulomb-qp" not in rate[preset] or not any(c in rate[preset] for c in known):
            continue
        qp, next_one = rate[preset]["id-coulomb-qp"], min(aware, key=lambda c: aware[c], default="")
        walks = "id-coulomb-qp" in stands[preset]
        same = [c for c, value in aware.items() if qp / TIE <= value <= qp * TIE]
        next_printed = min(printed[c] for c in known)
        text = said(preset, "id-coulomb-qp", next_one)
        yield PaperClaim(
            what=f"id-coulomb-qp is smoothest of those that know contacts in the preset {preset}",
            source=SOURCE.format("Table 4, as a whole"),
            printed=f"{printed['id-coulomb-qp']:.3g}; next {next_printed:.3g} N m/s",
            holds=walks and next_one in aware and qp <= TIE * aware[next_one],
            why=_made_of(results, preset, "id-coulomb-qp")
            + (f" Where nothing slips the same problem is solved by {', '.join(same)}." if same else "")
            + fell(preset, "id-coulomb-qp", *known),
            **{preset: text},
        )
        if "pid" in rate[preset]:
            yield PaperClaim(
                what=f"id-coulomb-qp is smoother than pid in the preset {preset}",
                source=SOURCE.format("Table 4, as a whole"),
                printed=f"{printed['id-coulomb-qp']:.3g} against {printed['pid']:.3g} N m/s",
                holds=walks and "pid" in stands[preset] and qp < rate[preset]["pid"],
                why=" ".join(_made_of(results, preset, c) for c in ("id-coulomb-qp", "pid")),
                **{preset: said(preset, "id-coulomb-qp", "pid")},
            )
    lcp = rate["paper"].get("id-coulomb-lcp")
    if lcp is not None and "id-coulomb-smooth" in rate["default"]:
        yield PaperClaim(
            what="id-coulomb-smooth of the preset default has at most a tenth of id-coulomb-lcp's in the preset paper",
            printed=f"id-coulomb-lcp {printed['id-coulomb-lcp']:.3g}",
            paper=said("paper", "id-coulomb-lcp"),
            default=said("default", "id-coulomb-smooth"),
            holds=rate["default"]["id-coulomb-smooth"] <= 0.1 * lcp,
            why=_made_of(results, "paper", "id-coulomb-lcp"),
        )
    if lcp is not None and "id-coulomb-smooth" in rate["paper"]:
        yield PaperClaim(
            what="id-coulomb-smooth cannot mitigate chatter in the preset paper",
            source=SOURCE.format("Fig. 15"),
            printed="unable to mitigate chatter",
            paper=said("paper", "id-coulomb-smooth", "id-coulomb-lcp"),
            holds=rate["paper"]["id-coulomb-smooth"] > 0.5 * lcp,
            why=_made_of(results, "paper", "id-coulomb-smooth"),
        )
    for preset in PRESETS:
        rivals = [c for c in CONTROLLERS if c != "id-sensed-2"]
        others = {c: rate[preset][c] for c in rivals if c in stands[preset]}
        if "id-sensed-2" in rate[preset] and any(c in rate[preset] for c in rivals):
            second = max(others, key=lambda c: others[c], default="")
            yield PaperClaim(
                what=f"id-sensed-2 is roughest by far in the preset {preset}",
                source=SOURCE.format("Table 4, as a whole"),
                printed=f"{plain(printed['id-sensed-2'])}; next id-sensed-1 {printed['id-sensed-1']:.3g} N m/s",
                holds=second in others and rate[preset]["id-sensed-2"] > 2.0 * others[second],
                why=" ".join(_made_of(results, preset, c) for c in ("id-sensed-2", second)) + fell(preset, *rivals),
                **{preset: said(preset, "id-sensed-2", second)},
            )


def _made_of(results: Results, preset: str, controller: str) -> str:
    """The three largest parts of a controller's torque rate, and when it fell, in words."""
    for run in results.at(preset, controller, SMOOTHNESS_ON)[:1]:
        parts = torques_of(run.folder) if run.metrics is not None else None
        if parts is not None:
            shares = sorted(((parts.share(name), words) for name, words in WORDS.items()), reverse=True)
            ended = "" if run.done else f" ({run.reason})"
            return f"{controller}{ended}: " + ", ".join(f"{share:.0%} {words}" for share, words in shares[:3]) + "."
    return ""


def _mitigation(results: Results) -> Iterator[PaperClaim]:
    """What the second stage does to the torques of id-coulomb-qp: Figs. 6 and 15."""
    pair = ("id-coulomb-qp-raw", "id-coulomb-qp")
    for preset in PRESETS:
        ratios = []
        for key in ("dtau_mean_nm_s", "dtau_max_nm_s"):
            raw, smooth = (results.value(preset, c, SMOOTHNESS_ON, key, fallen=True) for c in pair)
            if raw and smooth:
                ratios.append(raw / smooth)
        if len(ratios) < 2:
            continue
        rougher, factor = ratios
        texts: tuple[dict[str, Any], ...] = ({preset: f"{rougher:.3g} times"}, {preset: f"by a factor of {factor:.3g}"})
        yield PaperClaim(
            what=f"in the preset {preset} torques chatter without the second stage: their mean rate is {CHATTER:g} "
            "times that with it",
            source=SOURCE.format("Fig. 6"),
            printed="drawn",
            holds=rougher >= CHATTER,
            **texts[0],
        )
        printed = PAPER["claims"]["smoothing_dtau_max_factor"]
        yield PaperClaim(
            what=f"in the preset {preset} the second stage lowers the largest torque rate",
            source=SOURCE.format("Fig. 15"),
            printed=f"by a factor of {plain(printed)}",
            holds=near(factor, printed),
            derivation=MOST_FACTOR if all(results.done(preset, c, SMOOTHNESS_ON) for c in pair) else "",
            **texts[1],
        )


def _errors(results: Results) -> Iterator[PaperClaim]:
    """Who follows joints best: Fig. 14 and section 8.0.1. A robot that falls follows them worse than any that walks."""
    source = SOURCE.format("Fig. 14")
    for preset in PRESETS:
        for terrain, (title, _) in TERRAINS.items():
            cells = {c: results.cell(preset, c, terrain, "q_err_rad") for c in CONTROLLERS}
            off = {c: rank for c, value in cells.items() if not np.isnan(rank := _ranked(value))}
            stopped = [f"{c} {value}" for c, value in cells.items() if isinstance(value, str)]
            why = f"Not to the end: {'; '.join(stopped)}." if stopped else ""

            def told(*names: str, off: dict[str, float] = off, preset: str = preset) -> dict[str, Any]:
                said = (f"{c} {off[c]:.3g} rad" if off[c] < np.inf else f"{c} fell" for c in names if c in off)
                return {preset: ", ".join(said) or "none walks its path"}

            sensed = min((c for c in SENSING if c in off), key=off.__getitem__, default="")
            best = off.get("id-coulomb-qp", np.inf)
            if cells["id-coulomb-qp"] is not None and any(cells[c] is not None for c in SENSING):
                yield PaperClaim(
                    what=f"in the preset {preset} id-coulomb-qp follows joints as well as inverse dynamics on sensed "
                    f"forces or better, {title}",
                    source=source,
                    printed="outperformed or matched",
                    holds=sensed in off and best <= off[sensed] and best < np.inf,
                    why=why,
                    **told("id-coulomb-qp", sensed),
                )
            others = [c for c in CONTROLLERS if c != "pid" and cells[c] is not None]
            if cells["pid"] is None or not others:
                continue
            if terrain == "rigid_low":
                worst = max((c for c in others if off.get(c, np.inf) < np.inf), key=off.__getitem__, default="")
                yield PaperClaim(
                    what=f"in the preset {preset} pid is worse than all inverse dynamics that walks, {title}",
                    source=source,
                    printed="substantially worse",
                    holds="pid" in off and worst in off and off["pid"] > off[worst],
                    why=why,
                    **told("pid", worst),
                )
            if terrain == "rigid_high" and any(cells[c] is not None for c in SENSING):
                yield PaperClaim(
                    what=f"in the preset {preset} inverse dynamics on sensed forces is worse than pid, {title}",
                    source=source,
                    printed="performed the worst",
                    holds="pid" in off and sensed in off and off["pid"] < off[sensed],
                    why=why,
                    **told("pid", sensed),
                )


def _ranked(found: float | str | None) -> float:
    """A number among others: inf for a robot that fell, nan for one that was not run or did not walk its path."""
    if isinstance(found, str):
        return np.inf if found.startswith("fell") else np.nan
    return np.nan if found is None else found


def _path(results: Results) -> Iterator[PaperClaim]:
    """A robot that falls strays farther than any that walks; one that stands still is on its path, and no witness."""
    source = SOURCE.format("Fig. 17")
    for preset in PRESETS:
        for terrain in ("rigid_high", "rigid_low"):
            title = TERRAINS[terrain][0]
            strayed = {
                c: value
                for c in ("id-coulomb-qp", "pid", *SENSING)
                if (value := results.cell(preset, c, terrain, "com_path_max_m")) is not None
            }
            said = {c: value if isinstance(value, str) else f"{1e3 * value:.3g} mm" for c, value in strayed.items()}
            off = {c: _ranked(value) for c, value in strayed.items()}
            for controller in ("id-coulomb-qp", "pid"):
                if controller in off:
                    texts: dict[str, Any] = {preset: said[controller]}
                    yield PaperClaim(
                        what=f"in the preset {preset} {controller} walks its path, with its centre of mass within "
                        f"{1e3 * OFF_PATH_M:g} mm of the lines except at turns, {title}",
                        source=source,
                        printed="drawn in Fig. 17",
                        holds=off[controller] <= OFF_PATH_M,
                        **texts,
                    )
            for better, worse in (("id-coulomb-qp", "id-sensed-1"), ("id-sensed-1", "id-sensed-2")):
                if better in off and worse in off:
                    texts = {preset: f"{said[better]}; {said[worse]}"}
                    yield PaperClaim(
                        what=f"in the preset {preset} {worse} strays farther from its path than {better}, {title}",
                        source=source,
                        printed="worse tracking",
                        holds=off[better] < off[worse],
                        **texts,
                    )
