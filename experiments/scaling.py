"""Time of inverse dynamics against the number of contacts, 1 to 1000 (003 section 8.4.2, Fig. 19)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import matplotlib
import msgspec
import numpy as np
from matplotlib.figure import Figure

from idcontrol.bench import scenes
from idcontrol.bench.models import SCHEMES, scheme_job
from idcontrol.bench.scenes import RecordedWalk, floor, problems
from idcontrol.bench.timing import in_turns
from idcontrol.errors import InputError
from idcontrol.experiments.findings import STYLE, Drawing, Finding, save
from idcontrol.models.coulomb import MOST_CONTACTS
from idcontrol.sweeps.figures import COLORS
from idcontrol.types import Array

Positive = Annotated[float, msgspec.Meta(gt=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]

PERIODS = 320
"""Length of the walk whose problems are solved: a gait period of solo12 [ms]."""

PERIOD_US = 1000.0
"""Of a controller at 1 kHz, which is what Fig. 19 holds against times."""

PAPER_CONTACTS: Mapping[str, tuple[int, str]] = {
    "no-slip LCP alone": (40, "in excess of 40 contacts below 1 ms; linear"),
    "id-noslip-qp": (30, "1000 Hz up to about 30 contacts"),
    "id-coulomb-qp": (30, "1000 Hz up to about 30 contacts"),
    "id-coulomb-qp-1": (30, "1000 Hz up to about 30 contacts"),
    "id-coulomb-lcp": (4, "about 1 ms only for fewer than 4 contacts"),
}
"""How many contacts the paper's controllers took within 1 ms on a Core i7 of 2011, in its words; its curves are in a
figure without numbers. Its LCP without slip leaves impulses as pivoting does; id-noslip-lcp has a second stage."""

PAPER_EXPONENTS: Mapping[str, float] = {"no-slip LCP alone": 1.0}
"""Growth that the paper states."""

MANY = 10
"""Exponents are fitted to so many contacts and more: with fewer, what a call from Python costs hides them."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that decides the case.

    Attributes:
        robot: Whose walk.
        contacts: How many, in turn; a robot's feet are copied, as in the paper.
        schemes: Inverse dynamics by controller's name; empty is all.
        samples: Times taken for each; the paper took 50.
        budget_s: Time for each at most.
        slowest_us: A scheme slower than this is not asked for more contacts.
    """

    robot: str = "solo12"
    contacts: tuple[Count, ...] = (1, 2, 4, 8, 16, 32, 64, 125, 250, 500, 1000)
    schemes: tuple[str, ...] = ()
    samples: Count = 500
    budget_s: Positive = 2.0
    slowest_us: Positive = 2e5


class Scaling:
    """The experiment, as the command line finds it."""

    name = "scaling"
    summary = "time of inverse dynamics against the number of contacts, 1 to 1000 (003 Fig. 19)"
    presets: Mapping[str, Config] = {
        "default": Config(),
        "paper": Config(robot="links", contacts=(1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40), samples=50),
    }

    def run(self, config: Config, out: Path, progress: Callable[[float], None]) -> dict[str, Any]:
        """Run it, record it into `out`, and return its metrics.

        Raises:
            InputError: There is no scheme of a name, or no number of contacts.
        """
        began = time.perf_counter()
        names = config.schemes or tuple(SCHEMES)
        for name in names:
            if name not in SCHEMES:
                raise InputError(f"schemes: {name!r} is not one of {', '.join(SCHEMES)}")
        if not config.contacts:
            raise InputError("contacts is empty; give at least one number of contacts")
        counts = sorted(set(config.contacts))
        walk = scenes.walk(config.robot, "coulomb-lcp", PERIODS)
        sizes = len(counts)
        medians, floors = np.full((2, len(names), sizes), np.nan)
        for k, name in enumerate(names):
            for j, n in enumerate(counts):
                if name == "id-coulomb-lcp" and n > MOST_CONTACTS:
                    break
                medians[k, j], floors[k, j] = _medians(config, walk, name, n)
                progress((k * sizes + j + 1) / (len(names) * sizes))
                if medians[k, j] > config.slowest_us:
                    break
        findings = [
            finding for k, name in enumerate(names) for finding in _findings(name, counts, medians[k], floors[k])
        ]
        series: dict[str, Array] = {"contacts": np.array(counts, dtype=np.float64)}
        series |= {f"{name}_us": medians[k] for k, name in enumerate(names)}
        series |= {f"{name}_floors": medians[k] / floors[k] for k, name in enumerate(names)}
        return save(
            out,
            experiment=self.name,
            config=config,
            findings=findings,
            arrays=series,
            units={name: "us" for name in series if name.endswith("_us")},
            wall_time=[name for name in series if name != "contacts"],
            drawings=[_drawing(names, counts, medians, [growth(counts, row) for row in medians / floors])],
            began=began,
        )

    def warmup(self, out: Path) -> None:
        """Each scheme at a few contacts: every kernel is compiled and cached."""
        self.run(Config(contacts=(1, 4), samples=3), out, lambda share: None)


experiment = Scaling()


def _medians(config: Config, walk: RecordedWalk, name: str, contacts: int) -> tuple[float, float]:
    """Median time of a scheme, warm, and of the floor in turns with it [us]."""
    posed = problems(walk, contacts)
    if not posed:
        raise InputError(f"the trot of {config.robot} never has all feet on the ground; take a robot whose does")
    below = floor(replace(walk, moments=[walk.moments[each.moment] for each in posed]))
    job = scheme_job(SCHEMES[name], posed, warm=True)
    job.run(0)  # loads what is compiled
    times, _ = in_turns([job, below], len(posed), config.samples, config.budget_s)
    found = np.median(times, axis=0)
    return float(found[0]), float(found[1])


def growth(contacts: Sequence[int], medians: Array) -> float | None:
    """Exponent of the median in the number of contacts, from `MANY` on; None for fewer than two numbers."""
    n = np.asarray(contacts, dtype=np.float64)
    used = (n >= MANY) & np.isfinite(medians)
    if used.sum() < 2:
        return None
    return float(np.polyfit(np.log(n[used]), np.log(medians[used]), 1)[0])


def _findings(name: str, contacts: Sequence[int], medians: Array, floors: Array) -> list[Finding]:
    key = name.lower().replace("-", "_").replace(" ", "_")
    within = [n for n, median in zip(contacts, medians, strict=True) if median <= PERIOD_US]
    paper, words = PAPER_CONTACTS.get(name, (None, ""))
    most = max(within, default=0)
    findings = [
        Finding(
            f"{key}_contacts_within_1_ms",
            most,
            paper=paper,
            holds=None if paper is None else _as_many(paper, contacts, medians),
            note=(f"paper: {words}; " if words else "") + "the largest of the numbers tried",
        )
    ]
    # in floors, so that a load on the machine that comes and goes within a run cancels
    exponent = growth(contacts, medians / floors)
    if exponent is not None:
        findings.append(
            Finding(f"{key}_exponent", exponent, paper=PAPER_EXPONENTS.get(name), note=f"from {MANY} contacts on")
        )
    return findings


def _as_many(paper: int, contacts: Sequence[int], medians: Array) -> bool | None:
    """Whether `paper` contacts take no longer than a period; None where the numbers tried do not decide it."""
    tried = [(n, bool(median <= PERIOD_US)) for n, median in zip(contacts, medians, strict=True) if np.isfinite(median)]
    if any(within and n >= paper for n, within in tried):
        return True
    return False if any(not within and n <= paper for n, within in tried) else None


def _within_a_period(names: Sequence[str], contacts: Sequence[int], medians: Array) -> str:
    """How many contacts each scheme took within a period, for a sentence."""
    most = {
        name: max((n for n, median in zip(contacts, row, strict=True) if median <= PERIOD_US), default=0)
        for name, row in zip(names, medians, strict=True)
    }
    return ", ".join(f"{name} {most[name]}" for name in sorted(most, key=lambda name: -most[name]))


def _drawing(
    names: Sequence[str], contacts: Sequence[int], medians: Array, exponents: Sequence[float | None]
) -> Drawing:
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7.0, 4.5))
        axes = figure.subplots()
        axes.set_prop_cycle(color=COLORS)
        for name, row, exponent in zip(names, medians, exponents, strict=True):
            label = name if exponent is None else f"{name}, $n^{{{exponent:.1f}}}$"
            (line,) = axes.loglog(contacts, row, "o-", markersize=3, label=label)
            if name in PAPER_CONTACTS:
                axes.plot(PAPER_CONTACTS[name][0], PERIOD_US, "x", color=line.get_color(), markersize=8)
        axes.axhline(PERIOD_US, color="0.6", linewidth=0.8)
        axes.set_xlabel("contacts")
        axes.set_ylabel("median time [µs]")
        axes.legend()
    return Drawing(
        "Time of inverse dynamics against the number of contacts (003 Fig. 19)",
        f"Of the numbers tried ({', '.join(map(str, contacts))}), the largest within 1 ms: "
        f"{_within_a_period(names, contacts, medians)}. Crosses are where the paper's text has its controllers reach "
        "1 ms, on a laptop of 2011; its curves have no numbers. Beside the names is how the time grows from "
        f"{MANY} contacts on, as multiples of the floor: the rigid-body terms, timed in turns with it.",
        figure,
    )
