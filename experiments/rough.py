"""The trot over bumps whose friction changes at every footstep (Zapolsky & Drumwright 2017, Fig. 16).

Drumwright 2015, section VII-B, measures the computing times of such walks, on ground without slip and on ground with
viscous friction: ``idcontrol compare rough --study walk-times``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from idcontrol import plants
from idcontrol.experiments.headings import headed
from idcontrol.experiments.trot import PRESETS, WalkExperiment
from idcontrol.experiments.verdicts import DERIVED, TIMES, Judged, close, verdict
from idcontrol.models import dissipation, viscous
from idcontrol.models.step import Ending, StepProblem, StepSolution, WarmStart
from idcontrol.models.whitened import Whitened, finish
from idcontrol.scenes.settings import AssumedFriction
from idcontrol.scenes.walk import WalkPath
from idcontrol.solvers.lemke import solve_regularized
from idcontrol.solvers.status import SolverStatus
from idcontrol.sweeps.record import RunOutcome
from idcontrol.sweeps.study import Study, Table
from idcontrol.types import Status

STRAIGHT_ON = WalkPath(kind="command", command=((0.0, 0.2, 0.0, 0.0),))

BUMPS = {
    "terrain": "heightmap",
    "height_map": "bumps",
    "mu_range": (0.1, 1.5),
    "duration_s": 5.0,
    "path": STRAIGHT_ON,
}
"""Bumps up to 3 cm high, under feet that are lifted by 1.5 cm. The paper plots 5 s, one metre of walking."""

ROUGH = {
    # The friction under the next foothold is unknown, so controllers assume the smallest value.
    "default": msgspec.structs.replace(PRESETS["default"], friction=AssumedFriction(estimate=0.1), **BUMPS),
    # The original's controllers read the friction of each contact from the simulator, at most 1.5. This library's
    # controllers assume one value for all contacts: the mean.
    "paper": msgspec.structs.replace(
        PRESETS["paper"], friction=AssumedFriction(estimate=0.8, share=1.0, cap=1.5, pyramid="original"), **BUMPS
    ),
}

experiment = WalkExperiment(
    name="rough",
    summary="a quadruped trots over bumps; the friction changes at every footstep",
    presets=ROUGH,
)

TIMED_S = 10.0
"""Length of the walks that Drumwright 2015 times."""

SAVES = "theory/no_slip.md#what-a-simulation-gains"
"""Section of the documentation that derives why a walk saves less time here than in the paper."""

drumwright_shell: plants.Factory = plants.stepping(dissipation.solve)
"""Factory of the plant ``dissipation`` without its compiled step, as the models of Drumwright 2015 have none."""


def viscous_by_lemke(setup: plants.Setup) -> plants.SimulatedPlant:
    """Return the plant ``viscous`` with its normal impulses from Lemke's method instead of principal pivoting."""

    def step(problem: StepProblem, warm: WarmStart | None) -> StepSolution:
        drag = np.full(len(problem.contacts), setup.settings.drag_n_s_m)
        return viscous.solve(replace(problem, contacts=replace(problem.contacts, damping=drag)), warm, _by_lemke)

    return plants.stepping(step)(setup)


def _by_lemke(problem: StepProblem, whitened: Whitened, warm: WarmStart | None) -> StepSolution:
    n, f = len(problem.contacts), np.zeros(whitened.c.size)
    answer = solve_regularized(whitened.rho[:n] @ whitened.rho[:n].T, whitened.c[:n])
    solved = answer.status is SolverStatus.SOLVED
    f[:n] = answer.z if solved else 0.0
    status = Status.SOLVED if solved else Status.FALLBACK
    return finish(problem, whitened, f, Ending(status, answer.residual, answer.iterations, answer.regularization, ""))


WALKS: Mapping[str, tuple[str, float, dict[str, Any]]] = {
    "Drumwright-Shell": ("Table II", 416.284, {"plant": "idcontrol.experiments.rough:drumwright_shell", "mu": 100.0}),
    "no slip": ("Table II", 301.796, {"plant": "noslip", "mu": 100.0}),
    "viscous, Lemke": ("Table III", 2936.36, {"plant": "idcontrol.experiments.rough:viscous_by_lemke", "mu": 0.0}),
    "viscous, principal pivoting": ("Table III", 2139.73, {"plant": "viscous", "mu": 0.0}),
}
"""Each walk's table in Drumwright 2015, its printed time for ten seconds [s], and settings."""

SAVED: Mapping[str, tuple[str, str, float, str]] = {
    "Table II": ("Drumwright-Shell", "no slip", 0.275, SAVES),
    "Table III": ("viscous, Lemke", "viscous, principal pivoting", 0.271, ""),
}
"""Two walks of a table, the share of time that the second saves relative to the first in the paper, and the page that
derives why the share differs here. The text calls the first share "nearly 28%", and the second, computed as 2936.36 /
2139.73 - 1, "over 37%"."""


def _seconds(outcomes: Sequence[RunOutcome]) -> dict[str, float]:
    """Return the processor time of each recorded walk, scaled to a walk of `TIMED_S` [s]."""
    seconds = {}
    for o in outcomes:
        name = next(name for name, (_, _, settings) in WALKS.items() if o.setting("plant") == settings["plant"])
        if o.metric("cpu_s") is not None:
            seconds[name] = TIMED_S * o.metric("cpu_s") * o.setting("rate_hz") / o.metric("steps")
    return seconds


def judged_times(outcomes: Sequence[RunOutcome]) -> Iterator[Judged]:
    """Yield the numbers of Tables II and III of Drumwright 2015, compared with the runs."""
    seconds, place = _seconds(outcomes), "Drumwright 2015, Tables II and III"
    for name, (_, printed, _) in WALKS.items():
        if name in seconds:
            yield Judged(place, f"time of ten seconds, {name} [s]", printed, seconds[name], f"{DERIVED} ({TIMES})")
    for table, (slow, fast, printed, page) in SAVED.items():
        if {slow, fast} <= set(seconds):
            saved = 1.0 - seconds[fast] / seconds[slow]
            yield Judged(
                place, f"share of the time that is saved, {table}", printed, saved, verdict(close(saved, printed), page)
            )


def _times(outcomes: Sequence[RunOutcome]) -> tuple[Table, ...]:
    judged = tuple(judged_times(outcomes))
    return (headed("walk-times", tuple((one.what, one.printed, one.found, one.verdict) for one in judged)),)


walk_times = Study(
    experiment="rough",
    summary="Drumwright 2015, Tables II and III: time of a walk without slip and with viscous friction, by method",
    runs=tuple(
        {"duration_s": TIMED_S, "mu_range": None, "ground.drag_n_s_m": 0.1} | settings
        for _, _, settings in WALKS.values()
    ),
    tables=_times,
)
