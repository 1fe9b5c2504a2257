"""One row of the bench: a job of ours, its peer, the floor, and the bar that was set for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from idcontrol.bench.timing import Job, answers, in_turns, percentiles
from idcontrol.types import Array, Booleans


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """What a row's median is meant to be, as a multiple.

    Attributes:
        of: The floor's median, the peer's, or one microsecond.
        bar: What it must not exceed.
        goal: What is aimed at.
    """

    of: Literal["floor", "peer", "us"]
    bar: float
    goal: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Somebody else's way to do the job.

    Attributes:
        name: Whose.
        job: It.
        difference: How far an answer of ours is from one of theirs.
        tolerance: Largest difference at which the two are the same.
        unit: Of both.
        share: Percentile of the differences that is held against the tolerance: 100 is the worst.
    """

    name: str
    job: Job
    difference: Callable[[Any, Any], float]
    tolerance: float
    unit: str
    share: float = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How long to measure.

    Attributes:
        samples: Times taken of each job at most.
        budget_s: Time at most for each of a row's parts: our answers, the peer's, and the times [s].
        compared: States whose answers are compared, at most.
    """

    samples: int = 2000
    budget_s: float = 2.0
    compared: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What was measured; times in microseconds.

    Attributes:
        section: Solvers, models, controllers or plants.
        what: The job.
        contacts: How many; None where it varies.
        us: Percentiles of our times.
        floor_ratio: Our median over the floor's, taken in turns with it.
        peer: Whose times are beside ours; None where nobody's are.
        peer_us: Percentiles of theirs.
        peer_ratio: Our median over theirs.
        difference: How far answers are from each other.
        agrees: Whether that is within the tolerance.
        bar: What it is meant to be.
        samples: How many times were taken.
        unsolved: States that we did not solve, of those compared.
        peer_unsolved: States that the peer did not solve.
        note: What a reader must know.
    """

    section: str
    what: str
    contacts: int | None
    us: dict[str, float]
    floor_ratio: float | None
    peer: str | None = None
    peer_us: dict[str, float] | None = None
    peer_ratio: float | None = None
    difference: str | None = None
    agrees: bool | None = None
    bar: Bar | None = None
    samples: int = 0
    unsolved: int | None = None
    peer_unsolved: int | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """What is held against the bar."""
        if self.bar is None:
            return None
        return {"floor": self.floor_ratio, "peer": self.peer_ratio, "us": self.us["p50"]}[self.bar.of]

    def as_json(self) -> dict[str, Any]:
        """As plain data, with whether bar and goal are met."""
        ratio, bar = self.ratio, self.bar
        judged = bar is not None and ratio is not None
        return {
            "section": self.section,
            "what": self.what,
            "contacts": self.contacts,
            "us": self.us,
            "floor_ratio": self.floor_ratio,
            "peer": self.peer,
            "peer_us": self.peer_us,
            "peer_ratio": self.peer_ratio,
            "difference": self.difference,
            "agrees": self.agrees,
            "of": None if bar is None else bar.of,
            "bar": None if bar is None else bar.bar,
            "goal": None if bar is None else bar.goal,
            "met": ratio <= bar.bar if judged and ratio is not None and bar is not None else None,
            "goal_met": ratio <= bar.goal if judged and ratio is not None and bar is not None else None,
            "samples": self.samples,
            "unsolved": self.unsolved,
            "peer_unsolved": self.peer_unsolved,
            "note": self.note,
        }


def measure(
    section: str,
    what: str,
    contacts: int | None,
    job: Job,
    floor: Job,
    states: int,
    effort: Effort,
    *,
    peer: Peer | None = None,
    solved: Callable[[Any], bool] | None = None,
    peer_solved: Callable[[Any], bool] | None = None,
    counted: Booleans | None = None,
    bar: Bar | None = None,
    note: str = "",
) -> Row:
    """Compare answers, then take times in turns.

    Args:
        section: Of the row.
        what: Name of the row.
        contacts: How many, where that is fixed.
        job: Ours.
        floor: The floor's, for the same states.
        states: Length of the sequence.
        effort: How long to measure.
        peer: Theirs.
        solved: Whether an answer of ours solves the problem.
        peer_solved: Whether one of theirs does.
        counted: Which states' times count, shape (states,); all by default.
        bar: What it is meant to be.
        note: For the reader.
    """
    compared = min(states, effort.compared)
    ours = answers(job, compared, effort.budget_s)
    difference, agrees, theirs = None, None, []
    if peer is not None:
        theirs = answers(peer.job, len(ours), effort.budget_s)
        pairs = [
            (a, b)
            for a, b in zip(ours, theirs, strict=False)
            if (solved is None or solved(a)) and (peer_solved is None or peer_solved(b))
        ]
        found = float(np.percentile([peer.difference(a, b) for a, b in pairs], peer.share)) if pairs else np.inf
        agrees = bool(found <= peer.tolerance)
        which = "worst" if peer.share == 100.0 else f"{peer.share:g} %"
        difference = f"{found:.1e} of {peer.tolerance:.0e} {peer.unit} ({which})"
    answers(floor, min(states, 3))
    jobs = [job, floor] if peer is None else [job, peer.job, floor]
    times, state_of = in_turns(jobs, states, effort.samples, effort.budget_s)
    if counted is not None and counted[state_of].any():
        times = times[counted[state_of]]
    return Row(
        section=section,
        what=what,
        contacts=contacts,
        us=percentiles(times[:, 0]),
        floor_ratio=_ratio(times[:, 0], times[:, -1]),
        peer=None if peer is None else peer.name,
        peer_us=None if peer is None else percentiles(times[:, 1]),
        peer_ratio=None if peer is None else _ratio(times[:, 0], times[:, 1]),
        difference=difference,
        agrees=agrees,
        bar=bar,
        samples=len(times),
        unsolved=None if solved is None else sum(not solved(answer) for answer in ours),
        peer_unsolved=None if peer_solved is None or peer is None else sum(not peer_solved(b) for b in theirs),
        note=note,
    )


def _ratio(ours: Array, theirs: Array) -> float:
    return float(np.median(ours) / np.median(theirs))
