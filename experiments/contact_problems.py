"""Random contact problems solved by every model and solver: counts of solved, unsolved and wrong answers.

`idcontrol.bench.judge.missed` checks every answer that a solver reports as solved, from the problem alone. A forward
problem whose gaps are not negative always has a solution (math.md, sections 5.1 and 7.3), so reporting it unsolved is
an error. In an inverse problem prescribed velocities may press bodies into each other. For an unsolved inverse problem
a linear program, independent of the solvers, looks for a certificate that no velocity of the free bodies keeps all
contacts apart. Without a certificate, models with a convex problem have missed a solution; for the Coulomb LCP, all
contact modes are searched instead (`idcontrol.solvers.modes`). The search grows exponentially with the number of
coupled contacts; if it reaches its limit, the problem counts as undecided. Unsolved problems of the no-slip models are
not examined.

The preset ``hostile`` runs every model on badly scaled problems (`idcontrol.bench.problems.steps.hostile_step`) and
judges each contact relative to its own quantities (`idcontrol.bench.judge.violation`).
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from idcontrol.bench import judge
from idcontrol.bench.judge import Law
from idcontrol.bench.judge import models as judged
from idcontrol.bench.problems.lcps import edge_rows, excluded, normal_rows
from idcontrol.bench.problems.steps import hostile_step, kind_of, numbered_step
from idcontrol.config.configuration import Count, Seed, jsonable
from idcontrol.experiments.case import Progress, timed
from idcontrol.experiments.findings import Drawing, Finding, Results, Series, axes, save
from idcontrol.models import coulomb, dissipation, no_slip, viscous
from idcontrol.models.step import ContactModel, StepProblem
from idcontrol.models.whitened import whiten
from idcontrol.solvers.active_set import project
from idcontrol.solvers.lcp import RowLcpResult
from idcontrol.solvers.lemke import solve_regularized
from idcontrol.solvers.modes import find_solution, islands
from idcontrol.solvers.ppm import solve_ppm
from idcontrol.solvers.psd import solve_psd_lcp
from idcontrol.solvers.status import TOLERANCE, SolverStatus
from idcontrol.types import Array, Status

MODE_NODES: Final = 100_000
"""Quadratic programs that the search over contact modes may spend on up to `MODE_CONTACTS` contacts."""
MODE_CONTACTS: Final = 14
"""Number of coupled contacts up to which the search decides nearly all problems. With more contacts it decides few, and
the limit falls with the cube of their number: the time of a quadratic program grows as fast."""
SO_FAR_EVERY: Final = 500
"""Number of problems after which ``so-far.json`` is written again, so that an interrupted run leaves its counts."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a run.

    Attributes:
        seed: Seed of the problems.
        problems: Number of problems, a quarter of each kind: feet or boxes, forward or inverse.
        most_contacts: Largest number of contacts; numbers of contacts are log-uniform from 1 to this. Hostile problems
            have at most six.
        hostile: True for badly scaled problems, solved by the models only.
    """

    seed: Seed = 0
    problems: Count = 10_000
    most_contacts: Count = 64
    hostile: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedModel:
    """A contact model and how its answers are judged.

    Attributes:
        solve: The contact model.
        law: The contact law of the model.
        velocities: Returns G and r of the condition ``G v + r ≥ 0`` on velocities, for a certificate that no velocity
            is feasible; None if the model has another condition.
        lcp: True if the modes of the Coulomb LCP are searched for problems without a certificate.
        convex: True if a solution exists exactly when a feasible velocity exists.
    """

    solve: ContactModel
    law: Law
    velocities: Callable[[StepProblem], tuple[Array, Array]] | None
    lcp: bool = False
    convex: bool = True


@dataclass(slots=True)
class Tally:
    """Counts of the outcomes of one model or solver on problems of one kind.

    Attributes:
        problems: Number of problems.
        solved: Answers that obey the law.
        of_these_later: Solved problems that needed a second attempt but were solved exactly (`StepSolution.note`).
        of_these_regularized: Solved problems whose diagonal was regularized.
        wrong: Answers that were called solved and violate the law.
        no_solution_proved: Not solved, and shown to have no solution.
        missed: Not solved, and shown to have a solution.
        beyond_double: Not solved: rounding to double precision alone exceeds the tolerance (function `beyond_double`).
        undecided: Not solved, and unknown whether a solution exists.
        undecided_contacts_min: Number of contacts in the largest coupled group of an undecided problem of the Coulomb
            model, smallest over these problems; 0 without one.
        worst_residual: Largest violation of an answer reported as solved.
        seconds: Time of each call [s].
        failures: Numbers (`numbered_step`) of the problems counted as wrong or missed.
    """

    problems: int = 0
    solved: int = 0
    of_these_later: int = 0
    of_these_regularized: int = 0
    wrong: int = 0
    no_solution_proved: int = 0
    missed: int = 0
    beyond_double: int = 0
    undecided: int = 0
    undecided_contacts_min: int = 0
    worst_residual: float = 0.0
    seconds: list[float] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)

    @property
    def failed(self) -> int:
        """Return the number of problems that were answered wrongly or missed."""
        return self.wrong + self.missed

    def row(self) -> dict[str, Any]:
        """Return the counts as plain data for the record; times in microseconds."""
        row = asdict(self)
        times = 1e6 * np.array(row.pop("seconds"))
        return row | {
            "unsolved": self.problems - self.solved - self.wrong,
            "us": {"p50": float(np.median(times)), "p99": float(np.quantile(times, 0.99))} if times.size else None,
        }


def rows_of(tallies: Mapping[tuple[str, str], Tally]) -> list[dict[str, Any]]:
    """Return one row for each model or solver and kind of problem."""
    return [{"what": what, "kind": kind, **tally.row()} for (what, kind), tally in tallies.items()]


@dataclass(frozen=True, slots=True)
class ContactProblems:
    """The test case as the command line finds it; unlike a `Case`, it also writes while it runs."""

    name: str
    summary: str
    presets: Mapping[str, Config]

    def run(self, config: Config, out: Path, progress: Progress) -> dict[str, Any]:
        """Solve all problems by every model, and unless they are hostile by every solver; count the outcomes.

        During the run, ``so-far.json`` has the counts.
        """
        began = time.perf_counter()

        def numbers(rows: Callable[[], Any]) -> Iterator[int]:
            so_far = out / "so-far.json"
            for number in range(config.problems):
                yield number
                if number % 50 == 0:
                    progress(number / config.problems)
                if number % SO_FAR_EVERY == SO_FAR_EVERY - 1:
                    so_far.write_text(json.dumps(jsonable({"problems": number + 1, "rows": rows()})))
            so_far.unlink(missing_ok=True)

        results = attack(config, numbers) if config.hostile else counted(config, numbers)
        return save(out, self.name, config, results, began=began)

    def rehearsals(self) -> Sequence[Config]:
        """Return a configuration with a few problems."""
        return [Config(problems=40, most_contacts=8)]


experiment = ContactProblems(
    name="contact-problems",
    summary="random contact problems, forward and inverse, with every solution checked",
    presets={"default": Config(), "hostile": Config(problems=1_000_000, hostile=True)},
)

Numbers = Callable[[Callable[[], Any]], Iterator[int]]
"""Yields the numbers of the problems; called with a function that returns the rows of the problems so far."""


def counted(config: Config, numbers: Numbers) -> Results:
    """Solve random problems by every model and solver (Lemke's method up to 128 rows), and count the outcomes."""
    tallies: dict[tuple[str, str], Tally] = {}
    condition, contacts = np.empty(config.problems), np.empty(config.problems)
    for number in numbers(lambda: rows_of(tallies)):
        feet, inverse = kind_of(number)
        problem = numbered_step(number, seed=config.seed, most_contacts=config.most_contacts)
        condition[number], contacts[number] = np.linalg.cond(problem.M), len(problem.contacts)
        kind = f"{'feet' if feet else 'boxes'}, {'inverse' if inverse else 'forward'}"
        for name, model in MODELS.items():
            tally = tallies.setdefault((name, kind), Tally())
            before = tally.failed
            judge_model(model, problem, tally)
            tally.failures += [number] * (tally.failed - before)
        rows, r = edge_rows(problem)
        solvable = True if not inverse else None
        for name, solver in SOLVERS.items():
            if name == "lemke" and r.size > 4 * 32:
                continue
            tally = tallies.setdefault((f"edge rows: {name}", kind), Tally())
            before = tally.failed
            solvable = judge_solver(solver, rows, r, solvable, tally)
            tally.failures += [number] * (tally.failed - before)
    table = rows_of(tallies)
    return Results(
        findings=findings(table, condition),
        series={"condition": Series(condition), "contacts": Series(contacts)},
        drawings=[drawing(table, ENDS)],
        extra={"rows": table},
    )


def attack(config: Config, numbers: Numbers) -> Results:
    """Solve hostile problems by every model and count the `OUTCOMES`."""
    counts: dict[Law, dict[str, int]] = {model: dict.fromkeys((*OUTCOMES, "first_wrong"), 0) for model in judged.MODELS}
    for number in numbers(lambda: counts):
        problem = hostile_step(number, seed=config.seed)
        for model, solve in judged.MODELS.items():
            outcome = judge_hostile(solve, model, problem)
            if outcome in ("wrong", "not_finite") and not counts[model]["wrong"] + counts[model]["not_finite"]:
                counts[model]["first_wrong"] = number
            counts[model][outcome] += 1
    table = [{"what": model, **row} for model, row in counts.items()]
    return Results(
        findings=[
            Finding(f"{model}_{what}", row[what], holds=row[what] == 0)
            for model, row in counts.items()
            for what in ("wrong", "not_finite")
        ],
        drawings=[drawing(table, OUTCOMES)],
        extra={"rows": table},
    )


def judge_hostile(solve: ContactModel, law: Law, problem: StepProblem) -> str:
    """Solve a problem by a model, and return its outcome, one of `OUTCOMES`."""
    solution = solve(problem, None)
    if solution.status is not Status.SOLVED:
        return "repaired" if solution.status is Status.REPAIRED else "refused"
    missed = judge.violation(law, problem, solution)
    if missed <= judge.TOLERANCE:
        return "solved"
    return "wrong" if np.isfinite(missed) else "not_finite"


def judge_model(model: JudgedModel, problem: StepProblem, tally: Tally) -> None:
    """Solve a problem by a model and count the outcome."""
    tally.problems += 1
    solution, seconds = timed(lambda: model.solve(problem, None))
    tally.seconds.extend(seconds)
    answered = solution.status is Status.SOLVED or solution.regularization > 0.0
    if answered and solution.status is not Status.FALLBACK:
        violation = judge.missed(model.law, problem, solution.impulses)
        tally.worst_residual = max(tally.worst_residual, violation if solution.status is Status.SOLVED else 0.0)
        if violation <= TOLERANCE:
            tally.solved += 1
            tally.of_these_regularized += solution.status is not Status.SOLVED
            tally.of_these_later += solution.status is Status.SOLVED and solution.note != ""
            return
        if solution.status is Status.SOLVED:
            tally.wrong += 1
            return
    if model.velocities is None:
        return
    known = excluded(*model.velocities(problem)) if problem.prescribed is not None else False
    if known:
        tally.no_solution_proved += 1
    elif known is False and (model.convex or problem.prescribed is None):
        beyond = model.convex and beyond_double(*model.velocities(problem))
        tally.beyond_double += beyond
        tally.missed += not beyond
    elif model.lcp:
        count_decision(problem, tally)
    else:
        tally.undecided += 1


def count_decision(problem: StepProblem, tally: Tally) -> None:
    """Search for a solution of an unsolved Coulomb problem with feasible velocities, and count the result."""
    reduction = whiten(problem)
    V = reduction.rho @ reduction.rho.T
    largest = max(members.size for members in islands(V))
    nodes = int(MODE_NODES * min(1.0, MODE_CONTACTS / largest) ** 3)
    y, settled, _ = find_solution(V, reduction.c, problem.contacts.mu, max_nodes=nodes)
    if y is not None and judge.missed("coulomb-lcp", problem, y.reshape(3, -1).T) <= TOLERANCE:
        tally.missed += 1
    elif settled and y is None:
        tally.no_solution_proved += 1
    else:
        tally.undecided += 1
        tally.undecided_contacts_min = min(tally.undecided_contacts_min or largest, largest)


def judge_solver(
    solve: Callable[[Array, Array], tuple[SolverStatus, Array]],
    rows: Array,
    r: Array,
    solvable: bool | None,
    tally: Tally,
) -> bool | None:
    """Solve LCP(r, ρρᵀ), with ρ = `rows`, and count the outcome.

    Return True if the LCP has a solution, False if not, None if unknown; `solvable` is what is known before.
    """
    tally.problems += 1
    (status, z), seconds = timed(lambda: solve(rows, r))
    tally.seconds.extend(seconds)
    if status is SolverStatus.SOLVED:
        violation = rows_violation(rows, r, z)
        tally.worst_residual = max(tally.worst_residual, violation)
        tally.solved += violation <= TOLERANCE
        tally.wrong += violation > TOLERANCE
        return True if violation <= TOLERANCE else solvable
    if solvable is None:
        known = excluded(rows, r)
        solvable = None if known is None else not known
    beyond = solvable is True and beyond_double(rows, r)
    tally.beyond_double += beyond
    tally.no_solution_proved += solvable is False
    tally.missed += solvable is True and not beyond
    tally.undecided += solvable is None
    return solvable


def rows_violation(rows: Array, r: Array, z: Array) -> float:
    """Return the relative residual of LCP(r, ρρᵀ), ρ = `rows`, in extended precision, measured as in `judge.missed`."""
    rho = rows.astype(np.longdouble)
    w = (rho @ (rho.T @ z) + r).astype(np.float64)
    unit = float(np.abs(r).max())
    lightest = float(np.einsum("ij,ij->i", rows, rows).max())
    impulse = max(float(np.abs(z).max()), unit / lightest if lightest > 0.0 else 1.0)
    missed = np.abs(np.minimum(z / impulse, w / unit) if unit > 0.0 else z).max(initial=0.0)
    return float(missed) if np.isfinite(missed) else float(np.inf)


def beyond_double(rows: Array, r: Array) -> bool:
    """True if rounding LCP(r, ρρᵀ) to double precision changes one of its velocities by more than the tolerance.

    The vectors ρ_i are `rows`. Rounding the impulse z_i of largest effect changes the velocity of the lightest row j by
    up to 2⁻⁵³ z_i |ρ_i| |ρ_j|. Rounding an entry ρ_i·ρ_j of the matrix changes it by as much. The change is compared
    with max |r|, the speed of the fastest row at zero impulse.
    """
    z = project(rows, r).z
    lengths = np.linalg.norm(rows, axis=1)
    return bool(2.0**-53 * (z * lengths).max() * lengths.max() > TOLERANCE * np.abs(r).max())


def _lemke_rows(rows: Array, r: Array) -> tuple[SolverStatus, Array]:
    result = solve_regularized(rows @ rows.T, r)
    return result.status, result.z


def _by_rows(solve: Callable[[Array, Array], RowLcpResult]) -> Callable[[Array, Array], tuple[SolverStatus, Array]]:
    def answer(rows: Array, r: Array) -> tuple[SolverStatus, Array]:
        result = solve(rows, r)
        return result.status, result.z

    return answer


MODELS: Final = {
    "coulomb": JudgedModel(solve=coulomb.solve, law="coulomb-lcp", velocities=normal_rows, lcp=True, convex=False),
    "dissipation": JudgedModel(solve=dissipation.solve, law="dissipation", velocities=edge_rows),
    "viscous": JudgedModel(solve=viscous.solve, law="viscous", velocities=normal_rows),
    "noslip": JudgedModel(solve=no_slip.solve, law="noslip", velocities=None),
    "noslip, dual": JudgedModel(solve=dissipation.no_slip_qp, law="noslip", velocities=None),
}
"""Models by name. The no-slip models judge the rank of rows by a physical tolerance, and so may report a solvable step
as unsolved."""

OUTCOMES: Final = ("solved", "wrong", "not_finite", "repaired", "refused")

SOLVERS: Final = {
    "ppm": _by_rows(solve_ppm),
    "active set": _by_rows(project),
    "ppm, then active set": _by_rows(solve_psd_lcp),
    "lemke": _lemke_rows,
}


SURE: Final = {
    "coulomb": ("forward",),
    "dissipation": ("forward", "inverse"),
    "viscous": ("forward", "inverse"),
    "edge rows: active set": ("forward", "inverse"),
    "edge rows: ppm, then active set": ("forward", "inverse"),
    "edge rows: lemke": ("forward", "inverse"),
}
"""Models and solvers that must solve every problem with a solution, and the kinds of problems for which they must.
Problems beyond double precision do not count (`beyond_double`). Lemke's method may fail on inverse Coulomb problems
(math.md, section 5.1)."""


ENDS: Final = ("solved", "no_solution_proved", "beyond_double", "undecided", "missed", "wrong")
"""Outcomes of a problem. Their counts in a row add up to `problems`, except for unsolved problems of no-slip models."""


def drawing(table: Sequence[Mapping[str, Any]], ends: Sequence[str]) -> Drawing:
    """Draw, for each model and solver, the share of problems with each outcome in `ends`, from `table`."""
    names = list(dict.fromkeys(row["what"] for row in table))
    counts = np.array([[sum(row[end] for row in table if row["what"] == name) for end in ends] for name in names])
    shares = counts / counts.sum(axis=1, keepdims=True)
    begins = np.cumsum(shares, axis=1) - shares
    with axes(size=(7.0, 0.9 + 0.26 * len(names))) as plot:
        for end, share, begin in zip(ends, shares.T, begins.T, strict=True):
            plot.barh(names, share, left=begin, height=0.7, label=end.replace("_", " "))
        plot.set(xlabel="share of the problems", xlim=(0.0, 1.0))
        plot.invert_yaxis()
        plot.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=len(ends), columnspacing=1.0, handlelength=1.0)
    return Drawing("Outcomes of the problems", plot.figure)


def findings(table: Sequence[dict[str, Any]], condition: Array) -> list[Finding]:
    """Return condition numbers, and by solver and direction: share solved, wrong answers, and worst residual."""
    out = [Finding("condition_max", condition.max()), Finding("condition_median", np.median(condition))]
    for what in dict.fromkeys(row["what"] for row in table):
        name = what.replace("edge rows: ", "rows_").replace(", ", "_").replace(" ", "_")
        for direction in ("forward", "inverse"):
            rows = [row for row in table if row["what"] == what and row["kind"].endswith(direction)]
            if not rows:
                continue
            total = {key: sum(row[key] for row in rows) for key, value in rows[0].items() if isinstance(value, int)}
            sure = direction in SURE.get(what, ())
            out += [
                Finding(
                    f"{name}_{direction}_solved",
                    total["solved"] / total["problems"],
                    holds=total["missed"] + total["undecided"] == 0 if sure else None,
                ),
                Finding(f"{name}_{direction}_wrong", total["wrong"], holds=total["wrong"] == 0),
                Finding(f"{name}_{direction}_worst_residual", max(row["worst_residual"] for row in rows)),
            ]
    return out
