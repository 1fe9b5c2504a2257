"""Statements of Zapolsky & Drumwright 2017 in words, compared with the runs of both presets."""

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from idcontrol.experiments.headings import headed
from idcontrol.experiments.tables.results import (
    CONTROLLERS,
    PAPER,
    PRESETS,
    SMOOTHNESS_ON,
    SOURCE,
    TERRAINS,
    Results,
    contradicted,
)
from idcontrol.experiments.verdicts import MOST_FACTOR, Judged, close, verdict
from idcontrol.show.report import plain
from idcontrol.sweeps.study import Table


def statements(results: Results) -> Iterator[Judged]:
    """Judge all statements by the runs, each for the controllers that have run."""
    for terrain, (title, _) in TERRAINS.items():
        yield from _order(results, terrain, title)
    yield from _falls(results)
    yield from _smoothing(results)
    yield from comparisons(results)


def statement_table(judged: Sequence[Judged]) -> Table:
    """Make the table of statements."""
    return headed("claims", [(one.what, one.printed, one.found, one.verdict) for one in judged])


def _order(results: Results, terrain: str, title: str) -> Iterator[Judged]:
    """Compare the order of the joint errors of each pair of controllers with the paper's order."""
    if not any(results.at("paper", c, terrain) for c in CONTROLLERS):
        return
    paper = {c: values[0] for c, values in PAPER["tracking"]["values"][terrain].items() if values}
    ours = results.values("paper", CONTROLLERS, terrain, "q_err_rad")
    pairs = [(a, b) for a, b in combinations(ours, 2) if a in paper and b in paper and paper[a] != paper[b]]

    def ranking(errors: dict[str, float]) -> str:
        return " < ".join(sorted(errors, key=errors.__getitem__))

    yield Judged(
        source=SOURCE.format("Table 3, as a whole"),
        what=f"on {title} joint errors in the preset `paper` have the order of the paper",
        printed=ranking({c: paper[c] for c in (ours if pairs else CONTROLLERS) if c in paper}),
        found=ranking(ours) or "none walks its path",
        verdict=verdict(bool(pairs) and all((paper[a] < paper[b]) is (ours[a] < ours[b]) for a, b in pairs)),
    )


def _falls(results: Results) -> Iterator[Judged]:
    """Compare which no-slip controllers fall on slippery ground."""
    for controller in ("id-noslip-lcp", "id-noslip-qp"):
        for run in results.at("paper", controller, "rigid_low")[:1]:
            printed = PAPER["tracking"]["values"]["rigid_low"][controller]
            yield Judged(
                source=SOURCE.format("Table 3, as a whole"),
                what=f"{controller} {'stands' if printed else 'falls'} on rigid ground of µ 0.1",
                printed=f"{printed[0]:.3g} rad" if printed else "fell",
                found=run.reason or "went to its end",
                verdict=verdict(run.done is (printed is not None), contradicted(controller, "rigid_low", run.reason)),
            )


def _smoothing(results: Results) -> Iterator[Judged]:
    """Compare the factor by which the second stage lowers the largest torque rate."""
    pair, printed = ("id-coulomb-qp-raw", "id-coulomb-qp"), PAPER["claims"]["smoothing_dtau_max_factor"]
    for preset in PRESETS:
        rates = results.values(preset, pair, SMOOTHNESS_ON, "dtau_max_nm_s", fallen=True)
        if all(rates.get(c) for c in pair):
            factor = rates[pair[0]] / rates[pair[1]]
            walked = all(results.done(preset, c, SMOOTHNESS_ON) for c in pair)
            yield Judged(
                source=SOURCE.format("Fig. 15"),
                what=f"in the preset {preset} the second stage lowers the largest torque rate",
                printed=f"by a factor of {plain(printed)}",
                found=plain(factor),
                verdict=verdict(close(factor, printed), MOST_FACTOR if walked else ""),
            )


class Comparison(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row of ``paper/claims.toml``; the head of that file explains the fields."""

    what: str
    source: str
    printed: str
    key: str
    terrains: tuple[str, ...]
    less: tuple[str, ...]
    presets: tuple[str, ...] = PRESETS
    more: tuple[str, ...] = ()
    bound: float = np.inf
    factor: float = 1.0
    equal: bool = False
    walking: bool = False
    fallen: Literal["", "more", "both"] = ""

    def judged(self, results: Results, preset: str, terrain: str) -> Judged | None:
        """Compare the two groups of controllers on a terrain; None if one of the groups has no runs."""
        less = self._cells(results, preset, terrain, self.less, fallen=self.fallen == "both")
        more = self._cells(results, preset, terrain, self.more, fallen=self.fallen != "")
        if not less or bool(more) is not bool(self.more):
            return None
        below = {c: rank for c, x in less.items() if (rank := self._rank(x)) < np.inf}
        above = {c: rank for c, x in more.items() if not np.isnan(rank := self._rank(x))}
        most = max(below, key=below.__getitem__, default=next(iter(less)))
        least = min(above, key=above.__getitem__, default=next(iter(more), ""))
        limit = self.factor * above.get(least, -np.inf) if self.more else self.bound
        best = below.get(most, np.inf)
        beside = {c: x for c, x in (less | more).items() if c in (most, least)}
        return Judged(
            source=SOURCE.format(self.source),
            what=self.what.format(preset=preset, terrain=results.terrains[terrain][0]),
            printed=self.printed,
            found=", ".join(f"{c} {x if isinstance(x, str) else plain(x)}" for c, x in beside.items()),
            verdict=verdict(best < limit or (self.equal and best == limit < np.inf)),
        )

    def _cells(
        self, results: Results, preset: str, terrain: str, controllers: Sequence[str], *, fallen: bool
    ) -> dict[str, float | str]:
        """Return the numbers of the controllers, or the reasons for their absence."""
        if fallen:
            return dict(results.values(preset, controllers, terrain, self.key, fallen=True))
        return {c: x for c in controllers if (x := results.cell(preset, c, terrain, self.key)) is not None}

    def _rank(self, cell: float | str) -> float:
        """Return the sort key of a cell: its number, inf for a fall, or NaN to leave the robot out.

        Robots with other failures are left out, and with `walking` also robots that fell.
        """
        if isinstance(cell, str):
            return np.inf if cell.startswith("fell") and not self.walking else np.nan
        return cell


COMPARISONS = msgspec.toml.decode(
    (Path(__file__).parents[1] / "paper" / "claims.toml").read_bytes(), type=dict[str, tuple[Comparison, ...]]
)["comparison"]


def comparisons(results: Results) -> Iterator[Judged]:
    """Yield the results of all comparisons in their presets and terrains; those without runs are left out."""
    for preset, row in product(PRESETS, COMPARISONS):
        for terrain in row.terrains:
            if terrain in results.terrains and preset in row.presets:
                judged = row.judged(results, preset, terrain)
                if judged is not None:
                    yield judged
