"""One row of the bench: a job, timed alternately with a peer's job and the floor (terms as in `idcontrol.bench`)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pinocchio as pin

from idcontrol.bench.problems.walks import RecordedWalk, WalkStep
from idcontrol.bench.timing import Job, answers, in_turns, percentiles
from idcontrol.dynamics.system import System
from idcontrol.types import Array, Booleans, State

Solved = Callable[[Any], bool]
"""Returns True if an answer solves its problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """An upper bound on a percentile of our times, as a multiple of a reference time.

    Attributes:
        of: The reference time: the floor's median, the peer's median, or one microsecond.
        bar: The multiple that must not be exceeded.
        goal: The multiple that is the goal.
        at: The bounded percentile if the reference time is a microsecond; otherwise the median is bounded.
    """

    of: Literal["floor", "peer", "us"]
    bar: float
    goal: float
    at: Literal["p50", "p99", "p999"] = "p50"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Another implementation of the same job.

    Attributes:
        name: Name of the implementation.
        job: The job as this implementation does it.
        difference: Distance between our answer and the peer's answer.
        tolerance: Largest distance at which both answers count as equal.
        unit: Unit of the distance and of the tolerance.
        share: Percentile of the distances that is compared with the tolerance; 100 means the largest distance.
        solved: Returns True if the peer's answer solves the problem; None if it always does.
    """

    name: str
    job: Job
    difference: Callable[[Any, Any], float]
    tolerance: float
    unit: str
    share: float = 100.0
    solved: Solved | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """The time that is spent on measuring.

    Attributes:
        samples: Largest number of measurements of each job.
        budget_s: Longest time spent on each part of a row: our answers, the peer's answers, the timing [s].
        compared: Largest number of states whose answers are compared.
    """

    samples: int = 2000
    budget_s: float = 2.0
    compared: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A timed job and the meaning of its times.

    Attributes:
        what: Name of the job.
        contacts: Number of contacts; None if it varies.
        job: The job; None if it is not timed by `measure`.
        floor: The job of rigid-body terms alone (`floor`), for the same states; None if `job` is None.
        states: Length of the sequence of states.
        solved: Returns True if an answer solves the problem; None skips the check.
        counted: True for states whose times count, shape (states,). If it is None, or no such state was timed, all
            times count.
        bar: The bound on its times, if any.
        note: A remark for the reader.
        robots: Number of robots that the job steps in one call; None if it is not a batch of robots.
    """

    what: str
    contacts: int | None = None
    job: Job | None = None
    floor: Job | None = None
    states: int = 0
    solved: Solved | None = None
    counted: Booleans | None = None
    bar: Bar | None = None
    note: str = ""
    robots: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingRow:
    """The result of a benchmark; times in microseconds. All fields about the peer are None without a peer.

    Attributes:
        benchmark: The benchmark that was run.
        us: Percentiles of our times: p50, p99 and p999.
        floor_ratio: Our median time divided by the median time of the floor.
        samples: Number of measurements.
        unsolved: Number of compared states that we did not solve; None without a check.
        peer: Name of the peer.
        peer_us: The same percentiles of the peer's times.
        peer_ratio: Our median time divided by the median time of the peer.
        difference: Difference between our answers and the peer's, in words.
        agrees: True if the difference is within the tolerance.
        peer_unsolved: Number of compared states that the peer did not solve; None without a check.
    """

    benchmark: Benchmark
    us: dict[str, float]
    floor_ratio: float
    samples: int
    unsolved: int | None = None
    peer: str | None = None
    peer_us: dict[str, float] | None = None
    peer_ratio: float | None = None
    difference: str | None = None
    agrees: bool | None = None
    peer_unsolved: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Return plain data with verdicts on bar and goal, which are None without a bar or its reference time."""
        asked, bar = self.benchmark, self.benchmark.bar
        judged: dict[str, Any] = dict.fromkeys(("of", "bar", "goal", "met", "goal_met"))
        if bar is not None:
            judged |= {"of": bar.of, "bar": bar.bar, "goal": bar.goal}
            ratio = {"floor": self.floor_ratio, "peer": self.peer_ratio, "us": self.us[bar.at]}[bar.of]
            if ratio is not None:
                judged |= {"met": ratio <= bar.bar, "goal_met": ratio <= bar.goal}
        return {
            **{name: getattr(asked, name) for name in ("what", "contacts", "note", "robots")},
            **{name: getattr(self, name) for name in self.__dataclass_fields__ if name != "benchmark"},
            **judged,
            "steps_per_s": None if asked.robots is None else 1e6 * asked.robots / self.us["p50"],
        }


def measure(benchmark: Benchmark, effort: Effort, peer: Peer | None = None) -> TimingRow:
    """Time the jobs alternately, and compare their answers with the peer's.

    Args:
        benchmark: The benchmark to run.
        effort: How long to measure.
        peer: Another implementation to compare with.
    """
    job, floor, states = benchmark.job, benchmark.floor, benchmark.states
    assert job is not None
    assert floor is not None
    ours = answers(job, min(states, effort.compared), effort.budget_s)
    theirs = [] if peer is None else answers(peer.job, len(ours), effort.budget_s)
    answers(floor, min(states, 3))
    jobs = [job, floor] if peer is None else [job, peer.job, floor]
    times, state_of = in_turns(jobs, states, effort.samples, effort.budget_s)
    counted = benchmark.counted
    if counted is not None and counted[state_of].any():
        times = times[counted[state_of]]
    row = TimingRow(
        benchmark=benchmark,
        us=percentiles(times[:, 0]),
        floor_ratio=_ratio(times[:, 0], times[:, -1]),
        samples=len(times),
        unsolved=_unsolved(benchmark.solved, ours),
    )
    if peer is None:
        return row
    off = _distance(benchmark, peer, ours, theirs)
    which = "worst" if peer.share == 100.0 else f"{peer.share:g} %"
    return replace(
        row,
        peer=peer.name,
        peer_us=percentiles(times[:, 1]),
        peer_ratio=_ratio(times[:, 0], times[:, 1]),
        difference=f"{off:.1e} of {peer.tolerance:.0e} {peer.unit} ({which})",
        agrees=bool(off <= peer.tolerance),
        peer_unsolved=_unsolved(peer.solved, theirs),
    )


def _distance(benchmark: Benchmark, peer: Peer, ours: list[Any], theirs: list[Any]) -> float:
    """Return how far our answers and the peer's differ: the percentile `Peer.share` over the states that both solve.

    The result is inf if there is no such state.
    """
    distances = [
        peer.difference(a, b)
        for a, b in zip(ours, theirs, strict=False)
        if (benchmark.solved is None or benchmark.solved(a)) and (peer.solved is None or peer.solved(b))
    ]
    return float(np.percentile(distances, peer.share)) if distances else np.inf


def _unsolved(solved: Solved | None, outcomes: list[Any]) -> int | None:
    return None if solved is None else sum(not solved(answer) for answer in outcomes)


def _ratio(ours: Array, theirs: Array) -> float:
    return float(np.median(ours) / np.median(theirs))


def floor(walk: RecordedWalk, steps: Sequence[WalkStep] | None = None) -> Job:
    """Return the job of the floor (`idcontrol.bench`) at all instants of a walk, or at the instants of some steps.

    Pinocchio, called from Python, computes M, the bias and the Jacobians of the feet.
    """
    moments = walk.moments if steps is None else [walk.moments[each.moment] for each in steps]
    return terms(walk.setup().system, walk.feet, [moment.state for moment in moments])


def terms(system: System, feet: Sequence[str], states: Sequence[State]) -> Job:
    """Return the same job as `floor` for any machine, at `states`."""
    model, frames = system.model, [system.frame(name) for name in feet]
    data = model.createData()

    def run(i: int) -> None:
        q, v = states[i].q, states[i].v
        pin.crba(model, data, q)
        pin.nonLinearEffects(model, data, q, v)
        pin.computeJointJacobians(model, data, q)
        pin.updateFramePlacements(model, data)
        for frame in frames:
            pin.getFrameJacobian(model, data, frame, pin.LOCAL_WORLD_ALIGNED)

    return Job(run=run)
