"""The gains that the tables of Zapolsky & Drumwright 2017 were made with, which no record has: a search for them.

Gains of the preset `paper` are sought for each family of controllers by CMA-ES (Hansen & Ostermeier 2001) against what
Tables 3 and 4 print, and nothing else: stiffness and damping in acceleration, those in torque beside them, and how
fast a landing foot is told to stop. A candidate walks on rigid ground of high friction first, where everybody walked
in the paper, and on the next terrain only if it went to its end on the one before. The search is computed from the
outcomes alone, so that one which was stopped is continued::

    idcontrol compare trot --study gains --out gains
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from idcontrol.errors import InputError, install_command
from idcontrol.experiments.headings import headed
from idcontrol.experiments.tables.results import PAPER, SMOOTHNESS_ON, TERRAINS
from idcontrol.experiments.verdicts import near
from idcontrol.sweeps.record import NOT_RUN, RunOutcome
from idcontrol.sweeps.study import Study, Table
from idcontrol.types import Array

DURATION_S = 6.0
"""Length of a walk, in which the second waypoint comes within reach [s]."""

GENERATIONS = 12
"""How many generations each family is given."""

CANDIDATES = 8
"""Candidates of a generation."""

SEED = 1
"""Seed of the search."""

SPREAD = 0.25
"""Standard deviation of the first generation, as a part of the bounds' distance."""

LOST = 3.0
"""The discrepancy of a number that a run does not have, and the largest of one that it has: a factor of twenty."""

TERRAIN_ORDER = ("rigid_high", "rigid_low", "compliant_high", "compliant_low")
"""The terrains in the order in which a candidate walks on them."""


Candidate = tuple[tuple[str, Any], ...]
"""The settings of a candidate by dotted key."""


class Sought(NamedTuple):
    """A setting that is sought on a logarithmic scale.

    Attributes:
        key: Its dotted key.
        least: Lower bound.
        most: Upper bound.
    """

    key: str
    least: float
    most: float

    def value(self, share: float) -> float:
        """The setting at a place between the bounds, 0 to 1, to four digits."""
        return float(f"{self.least * (self.most / self.least) ** min(max(share, 0.0), 1.0):.4g}")


TORQUE = (Sought("gains.kp_nm_rad", 0.5, 200.0), Sought("gains.kd_nm_s_rad", 0.005, 2.0))
INVERSE = (
    Sought("gains.kp_1_s2", 50.0, 1e5),
    Sought("gains.kd_1_s", 5.0, 500.0),
    *TORQUE,
    Sought("inverse.landing.decay_s", 1e-3, 0.05),
)


class Family(NamedTuple):
    """Controllers that have their gains in common.

    Attributes:
        name: What they are.
        controllers: Their names.
        sought: The settings that are sought.
        beside: True if torques of error feedback act beside their own.
    """

    name: str
    controllers: tuple[str, ...]
    sought: tuple[Sought, ...]
    beside: bool

    def settings(self, place: Sequence[float]) -> dict[str, Any]:
        """The settings of a candidate at a place between the bounds, each 0 to 1."""
        values = {s.key: s.value(share) for s, share in zip(self.sought, place, strict=True)}
        return {"gains.beside": self.beside, **values}

    def candidate(self, setting: Callable[[str], Any]) -> Candidate:
        """The candidate that a run was made with, by its settings."""
        return tuple((key, setting(key)) for key in ("gains.beside", *(s.key for s in self.sought)))


FAMILIES = (
    Family("QP", ("id-coulomb-qp", "id-noslip-qp"), INVERSE, True),
    Family("LCP", ("id-coulomb-lcp", "id-noslip-lcp"), INVERSE, True),
    Family("sensed forces", ("id-sensed-1", "id-sensed-2"), INVERSE[:4], True),
    Family("PID", ("pid",), TORQUE, False),
)


class Entry(NamedTuple):
    """A number that the paper prints.

    Attributes:
        controller: Whose it is.
        terrain: Where.
        key: The metric.
        printed: The number; None where the robot fell.
    """

    controller: str
    terrain: str
    key: str
    printed: float | None


def entries() -> Iterator[Entry]:
    """The numbers of Tables 3 and 4; a dash is one entry of Table 3, that the robot falls."""
    for terrain in TERRAIN_ORDER:
        for controller, printed in PAPER["tracking"]["values"][terrain].items():
            for number, key in enumerate(PAPER["tracking"]["columns"] if printed else ("q_err_rad",)):
                yield Entry(controller, terrain, key, printed[number] if printed else None)
    for controller, printed in PAPER["smoothness"]["values"].items():
        for number, key in enumerate(PAPER["smoothness"]["columns"]):
            yield Entry(controller, SMOOTHNESS_ON, key, printed[number])


ENTRIES = tuple(entries())


class Tried:
    """The outcomes of a search by candidate, controller and terrain."""

    def __init__(self, outcomes: Sequence[RunOutcome]) -> None:
        self._runs: dict[tuple[Candidate, str, str], RunOutcome] = {}
        for o in outcomes:
            family = next(f for f in FAMILIES if o.setting("controller") in f.controllers)
            candidate = family.candidate(o.setting)
            for terrain, (_, settings) in TERRAINS.items():
                if all(o.setting(key) == value for key, value in settings.items()):
                    self._runs[candidate, o.setting("controller"), terrain] = o

    def at(self, candidate: Candidate, controller: str, terrain: str) -> RunOutcome | None:
        """The run at this place; None if there is none."""
        return self._runs.get((candidate, controller, terrain))

    def candidates(self, family: Family) -> list[Candidate]:
        """All candidates of a family, in the order in which they were tried."""
        return list(dict.fromkeys(c for c, controller, _ in self._runs if controller in family.controllers))

    def found(self, candidate: Candidate, entry: Entry) -> float | None:
        """The number of an entry; None where the run fell, failed or is not made."""
        o = self.at(candidate, entry.controller, entry.terrain)
        value = None if o is None or o.metric("fell_at_s") is not None else o.metric(entry.key)
        return None if value is None else float(value)

    def walked(self, candidate: Candidate, controller: str, terrain: str) -> bool:
        """True if a run did its task."""
        o = self.at(candidate, controller, terrain)
        return o is not None and o.done

    def agrees(self, candidate: Candidate, entry: Entry) -> bool:
        """True if a number is within `WITHIN` of the printed one, or a robot fell that fell there."""
        found = self.found(candidate, entry)
        if entry.printed is None:
            o = self.at(candidate, entry.controller, entry.terrain)
            return o is not None and o.metric("fell_at_s") is not None
        return found is not None and near(found, entry.printed)

    def discrepancy(self, candidate: Candidate, controller: str, terrain: str) -> float:
        """Mean |ln(found / printed)| of a run's numbers, and the part of its way that is missing; more if it fell."""
        own = [e for e in ENTRIES if (e.controller, e.terrain) == (controller, terrain)]
        if own[0].printed is None:
            return 0.0 if self.agrees(candidate, own[0]) else LOST
        o = self.at(candidate, controller, terrain)
        if o is None or o.metrics is None:
            return LOST + 2.0
        if (fell_at := o.metric("fell_at_s")) is not None:
            return LOST + 2.0 - float(fell_at) / DURATION_S
        pairs = [(self.found(candidate, e), e.printed) for e in own]
        apart = [min(LOST, abs(math.log(found / printed))) for found, printed in pairs if found and printed]
        way = float(o.metric("followed_m")) / float(o.metric("granted_m"))
        return float(np.mean(apart)) + 1.0 - min(max(way, 0.0), 1.0)


def next_runs(family: Family, candidate: Candidate, tried: Tried) -> list[dict[str, Any]]:
    """The runs on the next terrain of a candidate; none if it has been on all, or was lost on the one before."""
    for terrain in TERRAIN_ORDER:
        missing = [c for c in family.controllers if tried.at(candidate, c, terrain) is None]
        if missing:
            shared = {"preset": "paper", "duration_s": DURATION_S, **TERRAINS[terrain][1], **dict(candidate)}
            return [{**shared, "controller": controller} for controller in missing]
        if all(tried.discrepancy(candidate, controller, terrain) > LOST + 1.0 for controller in family.controllers):
            return []  # all of them fell
    return []


def cost(family: Family, candidate: Candidate, tried: Tried) -> float:
    """What the search makes small: the mean discrepancy over all controllers of a family and all terrains."""
    return float(np.mean([tried.discrepancy(candidate, c, t) for c in family.controllers for t in TERRAIN_ORDER]))


def further(outcomes: Sequence[RunOutcome]) -> list[dict[str, Any]]:
    """The runs that the search wants next, from all outcomes so far; none when every family has had its generations.

    Raises:
        InputError: The package `cma` is not installed.
    """
    if any(o.reason == NOT_RUN for o in outcomes):
        return []
    tried = Tried(outcomes)
    return [run for number, family in enumerate(FAMILIES) for run in _generation(family, SEED + number, tried)]


def _generation(family: Family, seed: int, tried: Tried) -> list[dict[str, Any]]:
    """The next runs of the first generation that is not complete, after telling the search all before it."""
    search = _search(len(family.sought), seed)
    for _ in range(GENERATIONS):
        places = search.ask()
        candidates: list[Candidate] = [tuple(family.settings(place).items()) for place in places]
        if runs := [run for candidate in dict.fromkeys(candidates) for run in next_runs(family, candidate, tried)]:
            return runs
        search.tell(places, [cost(family, candidate, tried) for candidate in candidates])
    return []


def _search(n: int, seed: int) -> Any:
    """CMA-ES in the unit cube, with random numbers of its own."""
    try:
        import cma
    except ModuleNotFoundError as error:
        raise InputError(f"the study gains needs cma: {install_command('sweep')}") from error
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> Array:
        return rng.standard_normal(shape)

    options = {"bounds": [0.0, 1.0], "popsize": CANDIDATES, "randn": normal, "seed": math.nan, "verbose": -9}
    return cma.CMAEvolutionStrategy(n * [0.5], SPREAD, options)


def best(family: Family, tried: Tried) -> Candidate | None:
    """The candidate of the least cost; None where none was tried."""
    return min(tried.candidates(family), key=lambda candidate: cost(family, candidate, tried), default=None)


def tables(outcomes: Sequence[RunOutcome]) -> tuple[Table, ...]:
    """The gains that were found, and which printed numbers and orders they give."""
    tried = Tried(outcomes)
    found = {family: candidate for family in FAMILIES if (candidate := best(family, tried)) is not None}
    return _of_families(found, tried), _of_entries(found, tried)


def _of_families(found: Mapping[Family, Candidate], tried: Tried) -> Table:
    rows = []
    for family, candidate in found.items():
        own = [e for e in ENTRIES if e.controller in family.controllers]
        places = {(e.controller, e.terrain) for e in own if e.printed is not None}
        settings = dict(candidate)
        rows.append(
            (
                family.name,
                len(tried.candidates(family)),
                *(settings.get(s.key) for s in INVERSE),
                cost(family, candidate, tried),
                f"{sum(tried.walked(candidate, *place) for place in places)} of {len(places)}",
                f"{sum(tried.agrees(candidate, e) for e in own)} of {len(own)}",
            )
        )
    return headed("gains", rows)


def _of_entries(found: Mapping[Family, Candidate], tried: Tried) -> Table:
    rows = []
    for family, candidate in found.items():
        for e in (e for e in ENTRIES if e.controller in family.controllers):
            value = tried.found(candidate, e)
            nearest = _nearest(family, e, tried)
            rows.append(
                (
                    TERRAINS[e.terrain][0],
                    e.controller,
                    e.key,
                    "fell" if e.printed is None else e.printed,
                    "fell" if value is None else value,
                    nearest,
                    tried.agrees(candidate, e),
                    any(tried.agrees(other, e) for other in tried.candidates(family)),
                )
            )
    return headed("entries", rows)


def _nearest(family: Family, entry: Entry, tried: Tried) -> float | None:
    """The number nearest to the printed one, by ratio, that any gains gave; None where the paper prints none."""
    if entry.printed is None:
        return None
    printed = entry.printed
    values = [value for c in tried.candidates(family) if (value := tried.found(c, entry))]
    return min(values, key=lambda value: abs(math.log(value / printed)), default=None)


study = Study(
    experiment="trot",
    summary="gains of the preset paper, sought against Tables 3 and 4 of Zapolsky & Drumwright 2017",
    runs=tuple(
        {"preset": "paper", "duration_s": DURATION_S, **TERRAINS[terrain][1], "controller": controller}
        for terrain in TERRAIN_ORDER
        for family in FAMILIES
        for controller in family.controllers
    ),
    tables=tables,
    further=further,
)
