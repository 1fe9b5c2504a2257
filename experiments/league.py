"""Contact problems solved by every installed solver; one judge checks all answers (``idcontrol league``).

The problems come from recorded trots and grasps, random steps of machines and boxes, hostile steps
(`idcontrol.bench.problems.steps`), and the user's sets (``--set 'data=["FOLDER"]'``). All have Coulomb friction with a
circular cone; `idcontrol.bench.judge.miss` measures, in the units of the problem, how far an answer violates this law.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
import numpy as np

from idcontrol.bench.judge import miss
from idcontrol.bench.league.problems import RECORDED, FrictionProblem, of_step, read
from idcontrol.bench.league.solvers import OURS, Solver, entered, plain
from idcontrol.bench.problems.steps import hostile_step, numbered_step
from idcontrol.config.configuration import Seed
from idcontrol.config.places import Kind, at
from idcontrol.experiments.case import Case, Progress
from idcontrol.experiments.findings import Drawing, Finding, Results, axes
from idcontrol.types import Array

SOLVED: Final = 1e-8
"""Largest violation of an answer that solves a problem, in the judge's unit."""
FALSE: Final = 1e-6
"""Violation above which an answer reported as solved is a false success; from `SOLVED` to this value it is loose."""
MOST_CONTACTS: Final = 16
"""Largest number of contacts of the random steps."""
TAUS: Final = np.geomspace(1.0, 1e4, 200)
"""Time ratios τ to the fastest solver, at which the performance profile (Dolan & Moré 2002) is drawn."""


KIND: Final = Kind(
    name="solver", group="idcontrol.league", calls=("__call__",), protocol="idcontrol.bench.league.solvers"
)
"""Kind of entry in `Config.solvers`, for error messages."""

Some = Annotated[int, msgspec.Meta(ge=0)]


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a league.

    Attributes:
        data: Files or folders with further problems (`idcontrol.bench.league.problems`).
        solvers: Further solvers, ``file.py:function`` or ``module:function``, called with (W, q, mu); they return
            impulses, or None without a solution.
        random: Number of random steps of machines and boxes.
        hostile: Number of hostile steps.
        seed: Seed of the random and the hostile steps.
    """

    data: tuple[str, ...] = ()
    solvers: tuple[str, ...] = ()
    random: Some = 50
    hostile: Some = 50
    seed: Seed = 0


def problems(config: Config) -> list[FrictionProblem]:
    """Return all problems of a league.

    Raises:
        InputError: `data` contains no problems.
    """
    collection = read([RECORDED, *config.data])
    random = (numbered_step(number, seed=config.seed, most_contacts=MOST_CONTACTS) for number in itertools.count())
    hostile = (hostile_step(number, seed=config.seed) for number in itertools.count())
    for name, steps, wanted in (("random", random, config.random), ("hostile", hostile, config.hostile)):
        finite = (
            of_step(f"{name}-{number}", step)
            for number, step in enumerate(steps)
            if len(step.contacts) and np.isfinite(step.contacts.mu).all()
        )
        collection += itertools.islice(finite, wanted)
    return collection


def solvers(config: Config) -> list[Solver]:
    """Return the installed solvers and the user's solvers.

    Raises:
        UnknownName: A file or module does not define a solver.
        InputError: A solver cannot be imported.
    """
    return [*entered(), *(Solver(place, plain(at(KIND, place))) for place in config.solvers)]


def run(config: Config, progress: Progress) -> Results:
    """Solve every problem by every solver, and judge the answers.

    Raises:
        UnknownName: A user's solver does not exist.
        InputError: A user's set or solver cannot be read.
    """
    field, field_problems = solvers(config), problems(config)
    missed = np.full((len(field), len(field_problems)), np.nan)  # NaN if the solver claims no solution
    seconds = np.full((len(field), len(field_problems)), np.inf)
    for s, solver in enumerate(field):
        solver.answer(field_problems[0])  # an untimed first call keeps compilation out of the times
        for p, problem in enumerate(field_problems):
            if problem.mu.size > solver.most:
                continue
            answer = solver.answer(problem)
            seconds[s, p] = answer.seconds
            if answer.r is not None:
                missed[s, p] = miss(problem.W, problem.q, problem.mu, answer.r)
            progress((s * len(field_problems) + p + 1) / (len(field) * len(field_problems)))
    times = np.where(missed <= SOLVED, seconds, np.inf)
    rows = [standing(solver, field_problems, missed[s], seconds[s], times) for s, solver in enumerate(field)]
    detail = [
        {
            "problem": problem.name,
            "contacts": problem.mu.size,
            **{
                solver.name: {"miss": _number(missed[s, p]), "us": _number(1e6 * seconds[s, p])}
                for s, solver in enumerate(field)
            },
        }
        for p, problem in enumerate(field_problems)
    ]
    return Results(
        findings=findings(rows, field_problems, missed),
        drawings=[profile(field, times)],
        extra={"problems": len(field_problems), "solvers": rows, "answers": detail},
    )


def standing(
    solver: Solver, field_problems: Sequence[FrictionProblem], missed: Array, seconds: Array, times: Array
) -> dict[str, Any]:
    """Count a solver's outcomes.

    Args:
        solver: The solver.
        field_problems: The problems.
        missed: Violations of the solver's answers, shape (problems,); NaN without an answer.
        seconds: Time of each answer, shape (problems,) [s]; inf if the problem was not tried, NaN after a crash.
        times: Times of all solvers, shape (solvers, problems) [s]; inf if the problem was not solved.
    """
    fits = np.array([problem.mu.size <= solver.most for problem in field_problems])
    solved, solvable, best = missed <= SOLVED, np.isfinite(times).any(axis=0), times.min(axis=0)
    return {
        "name": solver.name,
        "tried": int(fits.sum()),
        "solved": int(solved.sum()),
        "loose": int(((missed > SOLVED) & (missed <= FALSE)).sum()),
        "false_success": int((missed > FALSE).sum()),
        "unsolved_though_solvable": int((fits & solvable & np.isnan(missed)).sum()),
        "crashed": int(np.isnan(seconds).sum()),
        "median_us": float(np.median(1e6 * seconds[solved])) if solved.any() else None,
        "fastest": int((solved & (seconds == best)).sum()),
    }


def findings(
    rows: Sequence[Mapping[str, Any]], field_problems: Sequence[FrictionProblem], missed: Array
) -> list[Finding]:
    """Return findings about this library's solver, and the number of false successes of each other solver."""
    ours, solved = rows[0], missed <= SOLVED
    assert ours["name"] == OURS
    return [
        Finding("problems_solved_by_some", int(solved.any(axis=0).sum())),
        Finding("ours_solved", ours["solved"], holds=ours["unsolved_though_solvable"] == 0),
        Finding("ours_false_success", ours["false_success"], holds=ours["false_success"] == 0),
        Finding("ours_worst_miss", _number(np.nanmax(missed[0], initial=0.0))),
        *(Finding(f"{row['name']}: false successes", row["false_success"]) for row in rows[1:]),
    ]


def _number(value: float) -> float | None:
    """Return `value`; None for NaN and infinity, which JSON cannot represent."""
    return float(value) if np.isfinite(value) else None


def profile(field: Sequence[Solver], times: Array) -> Drawing:
    """Draw the performance profile: share of problems solved within τ times the best solver's time."""
    best = times.min(axis=0)
    known = np.isfinite(best)
    with axes(size=(7.0, 4.0)) as plot:
        for s, solver in enumerate(field):
            ratio = times[s, known] / best[known]
            plot.step(TAUS, [(ratio <= tau).mean() for tau in TAUS], where="post", label=solver.name)
        plot.set(xscale="log", xlabel="τ, times the best solver's time", ylabel="share solved", ylim=(-0.02, 1.02))
        plot.legend(loc="lower right", fontsize="small")
    return Drawing("Share of the problems that are solved within τ times the best", plot.figure)


experiment = Case(
    name="league",
    summary="all installed solvers on the same contact problems, checked by one judge",
    presets={"default": Config()},
    simulate=run,
    rehearsals=lambda: [Config(random=2, hostile=2)],
)
