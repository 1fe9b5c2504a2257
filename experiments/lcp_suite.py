"""Table 1 of Trinkle et al. 1997 on generated problems of the same sizes: shares solved and shares without a solution.

The paper's 328 data sets are lost. The generated problems are bodies in contact (`idcontrol.bench.problems.piles`): the
paper's pyramid LCP (math.md, section 9; `idcontrol.models.acceleration`) with rolling and a few sliding contacts. Each
problem is solved at several μ, equal at all contacts. With sliding friction a problem may have no solution (Painlevé):
if no method solves it, `idcontrol.solvers.existence.decide` searches for a solution or a proof that there is none.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from scipy.optimize import linprog

from idcontrol.bench.problems.piles import random_pile
from idcontrol.config.configuration import Count, Seed
from idcontrol.errors import InputError
from idcontrol.experiments.case import Case, Progress
from idcontrol.experiments.findings import Drawing, Finding, Results, Series, axes
from idcontrol.models import acceleration
from idcontrol.models.acceleration import AccelerationProblem, PyramidLcp
from idcontrol.solvers.existence import Existence, decide
from idcontrol.solvers.interior_point import pyramid_start, solve_interior_point
from idcontrol.solvers.lcp import lcp_residual
from idcontrol.solvers.lemke import solve_lemke
from idcontrol.solvers.status import TOLERANCE, SolverStatus
from idcontrol.types import Array

OPEN_QUESTION: Final = "theory/acceleration.md#the-papers-table"
"""Section of the documentation that derives the shares of data sets that can be solved."""
METHODS: Final = ("lemke", "interior_point")
"""The methods that the table compares."""
PAPER_PIVOTS: Final = 100
"""Number of pivots after which the paper stopped Lemke's method (Trinkle et al. 1997, section 6)."""
PAPER_STEPS: Final = 300
"""Number of steps after which the paper stopped the interior-point method."""
MOST_SLIDING: Final = 10
MU: Final = (0.1, 1.0)
"""Minimum and maximum friction coefficient of a problem's data sets; the paper does not print its values."""
PER_PROBLEM: Final = 10


TABLE_1: Final[Sequence[dict[str, Any]]] = json.loads(
    (Path(__file__).parent / "paper" / "trinkle.json").read_text(encoding="utf-8")
)["rows"]


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a suite.

    Attributes:
        seed: Seed of the problems.
        sizes: Sizes of the LCPs, a selection of the sizes in the paper.
        repeat: Number of data sets, as a multiple of the number in the paper.
        starts: Number of covering vectors that Lemke's method may try.
        max_nodes: Largest number of linear programs to decide a data set that no method solves.
    """

    seed: Seed = 0
    sizes: tuple[int, ...] = tuple(row["size"] for row in TABLE_1)
    repeat: Count = 1
    starts: Count = 10
    max_nodes: Count = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """Result of one method on one data set: residual (inf if the method gave up), iterations and starts."""

    residual: float
    iterations: int
    starts: int = 1

    @property
    def solved(self) -> bool:
        """True if the residual is below the tolerance of a solution."""
        return self.residual <= TOLERANCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One data set.

    Attributes:
        size: Size of the LCP.
        mu: Friction coefficient.
        contacts: Number of contacts.
        sliding: Number of sliding contacts.
        lemke: Attempt by Lemke's method, balanced, lexicographic, restarted with other covering vectors.
        ppm: Attempt by principal pivoting.
        interior: Attempt by the interior-point method of the paper's appendix.
        inside: True if a point with z > 0 and Qz + r > 0 exists, from which the interior point can start.
        existence: Verdict on the existence of a solution.
        nodes: Number of linear programs that decided `existence`; 0 if a method found a solution.
    """

    size: int
    mu: float
    contacts: int
    sliding: int
    lemke: Attempt
    ppm: Attempt
    interior: Attempt
    inside: bool
    existence: Existence
    nodes: int


def run(config: Config, progress: Progress) -> Results:
    """Solve all data sets and compare with the paper's table.

    Raises:
        InputError: No size is given, or a size is not among the paper's sizes.
    """
    known = [row["size"] for row in TABLE_1]
    if not config.sizes or not set(config.sizes) <= set(known):
        raise InputError(f"sizes={list(config.sizes)}: give some of the paper's, {', '.join(map(str, known))}")
    rows = [row for row in TABLE_1 if row["size"] in config.sizes]
    total, trials = sum(row["sets"] for row in rows) * config.repeat, []
    for row in rows:
        rng = np.random.default_rng([config.seed, row["size"]])
        for lcp, mu, sliding in data_sets(rng, row["size"], row["sets"] * config.repeat):
            trials.append(attempt(lcp, mu, sliding, config, rng))
            progress(len(trials) / total)
    table = [table_row(row, [t for t in trials if t.size == row["size"]]) for row in rows]
    return Results(findings=findings(table), series=series(trials), drawings=[drawing(table)], extra={"rows": table})


experiment = Case(
    name="lcp-suite",
    summary="contact problems of sizes 2 to 170, solved by three methods (Trinkle et al. 1997)",
    presets={"default": Config()},
    simulate=run,
    rehearsals=lambda: [Config(sizes=(2, 16))],
)


def data_sets(rng: np.random.Generator, size: int, count: int) -> list[tuple[PyramidLcp, float, int]]:
    """Return problems of one size, each at several μ, as tuples of LCP, μ, and number of sliding contacts.

    A rolling contact has five variables, a sliding contact has one: size 2 means two sliding contacts.
    """
    sets: list[tuple[PyramidLcp, float, int]] = []
    while len(sets) < count:
        most = size // 5
        rolling = int(rng.integers(max(0, -(-(size - MOST_SLIDING) // 5)), most + 1))
        sliding = size - 5 * rolling
        contacts = rolling + sliding
        bodies = int(rng.integers(1, max(1, min(rolling + 1, contacts // 2)) + 1))
        pile = random_pile(rng, bodies, contacts, sliding)
        for mu in np.linspace(*MU, min(PER_PROBLEM, count - len(sets))):
            problem = AccelerationProblem(
                M=pile.M,
                force=pile.force,
                v=pile.v,
                contacts=replace(pile.contacts, mu=np.full(contacts, mu)),
                drift=pile.drift,
            )
            _, held = acceleration.whitened(problem)
            sets.append((acceleration.pyramid_lcp(problem, held), float(mu), sliding))
    return sets


def attempt(lcp: PyramidLcp, mu: float, sliding: int, config: Config, rng: np.random.Generator) -> Trial:
    """Solve one data set by each method; if all fail, decide whether it has a solution."""
    lemke = by_lemke(lcp, config.starts, rng)
    ppm = by_principal_pivoting(lcp)
    start = inner_point(lcp, mu)
    interior = Attempt(residual=np.inf, iterations=0)
    if start is not None:
        result = solve_interior_point(lcp.Q, lcp.r, start, max_iterations=PAPER_STEPS)
        interior = Attempt(residual=residual(lcp, result.z), iterations=result.iterations)
    existence, nodes = Existence.SOLUTION, 0
    if not (lemke.solved or ppm.solved or interior.solved):
        decision = decide(lcp.Q, lcp.r, lcp.scale, max_nodes=config.max_nodes)
        existence, nodes = decision.existence, decision.nodes
    return Trial(
        size=lcp.r.size,
        mu=mu,
        contacts=lcp.touching.size,
        sliding=sliding,
        lemke=lemke,
        ppm=ppm,
        interior=interior,
        inside=start is not None,
        existence=existence,
        nodes=nodes,
    )


def residual(lcp: PyramidLcp, z: Array) -> float:
    """Return the relative complementarity residual of z (math.md, section 13.3); inf if z is not finite.

    Negative entries of z and of Q z + r count as well. Variables are scaled so that forces and accelerations are
    comparable.
    """
    if not np.isfinite(z).all():
        return float(np.inf)
    w = lcp.scale * (lcp.Q @ z + lcp.r)
    return float(lcp_residual(z / lcp.scale, w, lcp.scale * lcp.r))


def by_lemke(lcp: PyramidLcp, starts: int, rng: np.random.Generator) -> Attempt:
    """Apply Lemke's method; after a ray termination, restart it with other scales, that is, other covering vectors."""
    pivots, scale = 0, lcp.scale
    for start in range(1, starts + 1):
        result = solve_lemke(lcp.Q, lcp.r, scale)
        pivots += result.iterations
        if result.status is SolverStatus.SOLVED:
            return Attempt(residual=residual(lcp, result.z), iterations=pivots, starts=start)
        scale = lcp.scale * np.exp(rng.uniform(-2.0, 2.0, lcp.r.size))
    return Attempt(residual=float(np.inf), iterations=pivots, starts=starts)


def by_principal_pivoting(lcp: PyramidLcp) -> Attempt:
    """Apply Principal Pivoting I (Zapolsky & Drumwright 2017, Algorithm 2) to any square matrix.

    The method is meant for P-matrices. It gives up at a singular block, or when a basis recurs.
    """
    n = lcp.r.size
    Q, r = lcp.scale[:, None] * lcp.Q * lcp.scale, lcp.scale * lcp.r
    active = np.zeros(n, dtype=np.bool_)
    seen: set[bytes] = set()
    passes = 0
    while active.tobytes() not in seen:
        seen.add(active.tobytes())
        passes += 1
        z = np.zeros(n)
        try:
            z[active] = np.linalg.solve(Q[np.ix_(active, active)], -r[active])
        except np.linalg.LinAlgError:
            break
        w = Q @ z + r
        w[active] = 0.0
        enters, leaves = int(np.argmin(w)), int(np.argmin(z))
        falls = w[enters] < -1e-9 * np.abs(r).max()
        pulls = z[leaves] < -1e-9 * np.abs(z).max()
        if not falls and not pulls:
            return Attempt(residual=residual(lcp, lcp.scale * np.maximum(z, 0.0)), iterations=passes)
        if falls:
            active[enters] = True
        if pulls:
            active[leaves] = False
    return Attempt(residual=float(np.inf), iterations=passes)


def inner_point(lcp: PyramidLcp, mu: float) -> Array | None:
    """Return a point with z > 0 and Qz + r > 0, where the interior-point method can start; None without such a point.

    The paper starts from normal forces that separate all contacts simultaneously. If bodies are held from all sides, no
    such forces exist. A linear program then looks for any point: max t with z ≥ t, Qz + r ≥ t in balanced variables.
    """
    start = pyramid_start(lcp.Q, lcp.r, np.full(lcp.touching.size, mu), lcp.rolling)
    if start is not None and start.min() > 0.0 and (lcp.Q @ start + lcp.r).min() > 0.0:
        return start
    n = lcp.r.size
    Q, r = lcp.scale[:, None] * lcp.Q * lcp.scale, lcp.scale * lcp.r
    unit = float(np.abs(r).max())
    program = linprog(
        np.r_[np.zeros(n), -1.0],
        A_ub=np.block([[-Q, np.ones((n, 1))], [-np.eye(n), np.ones((n, 1))]]),
        b_ub=np.r_[r / unit, np.zeros(n)],
        bounds=[(0.0, None)] * n + [(None, 1.0)],
        method="highs-ds",
    )
    if program.status != 0 or program.x[n] < 1e-7:
        return None
    return unit * lcp.scale * program.x[:n]


def table_row(paper: dict[str, Any], trials: Sequence[Trial]) -> dict[str, Any]:
    """Return a row of `idcontrol run lcp-suite --json`: shares of all data sets, means over the solved data sets."""
    solvable = [t for t in trials if t.existence is Existence.SOLUTION]
    without = [t for t in trials if t.existence is Existence.NONE]
    return {
        "size": paper["size"],
        "sets": len(trials),
        "solvable": len(solvable),
        "without_solution": len(without),
        "proved_by_certificate": sum(t.nodes == 1 for t in without),
        "proved_by_enumeration": sum(t.nodes > 1 for t in without),
        "undecided": sum(t.existence is Existence.UNDECIDED for t in trials),
        "lemke": {
            **shares([t.lemke for t in trials], len(solvable)),
            "starts": mean([t.lemke.starts for t in trials if t.lemke.solved]),
            "solved_within_100_pivots": share(
                [t.lemke.solved and t.lemke.iterations <= PAPER_PIVOTS for t in trials], len(trials)
            ),
        },
        "ppm": shares([t.ppm for t in trials], len(solvable)),
        "interior_point": {
            **shares([t.interior for t in trials], len(solvable)),
            "no_point_inside": sum(not t.inside for t in trials),
        },
        "paper": {key: value for key, value in paper.items() if key != "size"},
    }


def shares(attempts: Sequence[Attempt], solvable: int) -> dict[str, float | None]:
    """Return the shares solved (of all sets, of sets with a solution) and the mean iterations of the solved sets."""
    solved = [a for a in attempts if a.solved]
    return {
        "solved": share([a.solved for a in attempts], len(attempts)),
        "solved_of_solvable": share([True] * len(solved), solvable),
        "iterations": mean([a.iterations for a in solved]),
    }


def share(yes: Sequence[bool], of: int) -> float | None:
    """Return the number of true values divided by `of`; None if `of` is 0."""
    return sum(yes) / of if of else None


def mean(values: Sequence[float]) -> float | None:
    """Return the mean; None for an empty list."""
    return float(np.mean(values)) if values else None


def findings(table: Sequence[dict[str, Any]]) -> list[Finding]:
    """Return shares solved, iterations and starts by size, compared with the paper, then counts over all sizes.

    The counts are of data sets with a solution, without a solution (also by kind of proof), and undecided.
    """
    out: list[Finding] = []
    for row in table:
        for method in METHODS:
            ours, printed = row[method], row["paper"][method]
            took, said = ours["iterations"], printed["iterations"]
            most = float(said.removeprefix("<")) if isinstance(said, str) else None
            # if every unsolved set provably has no solution, the share is a property of the data, not of the method
            known = ours["solved_of_solvable"] == 1.0 and not row["undecided"]
            out += [
                Finding(
                    f"{method}_solved_{row['size']}",
                    ours["solved"],
                    holds=ours["solved_of_solvable"] in (1.0, None) if method == "lemke" else None,
                    paper=printed["solved"],
                    derivation=OPEN_QUESTION if known else "",
                ),
                Finding(
                    f"{method}_iterations_{row['size']}",
                    took,
                    paper=said,
                    agrees=None if most is None else took is not None and took < most,
                ),
            ]
        out += [
            Finding(f"lemke_starts_{row['size']}", row["lemke"]["starts"], paper=row["paper"]["lemke"]["starts"]),
            Finding(f"ppm_solved_{row['size']}", row["ppm"]["solved"]),
        ]
    for key in ("solvable", "without_solution", "proved_by_certificate", "proved_by_enumeration", "undecided"):
        out.append(Finding(key, sum(row[key] for row in table)))
    return out


def series(trials: Sequence[Trial]) -> dict[str, Series]:
    """Return the record of all trials: each series has one value per data set."""
    names = ("size", "mu", "contacts", "sliding", "existence", "nodes")
    columns = {name: [getattr(trial, name) for trial in trials] for name in names}
    for method in ("lemke", "ppm", "interior"):
        attempts: list[Attempt] = [getattr(trial, method) for trial in trials]
        columns[f"{method}_residual"] = [attempt.residual for attempt in attempts]
        columns[f"{method}_iterations"] = [attempt.iterations for attempt in attempts]
    return {name: Series(np.array(column, dtype=np.float64)) for name, column in columns.items()}


def drawing(table: Sequence[dict[str, Any]]) -> Drawing:
    """Draw the share of solved LCPs against their size."""
    with axes(size=(7.0, 3.6)) as plot:
        at = np.arange(len(table))
        lines = (
            ("has a solution", [row["solvable"] / row["sets"] for row in table], "_", "C7"),
            ("Lemke", [row["lemke"]["solved"] for row in table], "o", "C0"),
            ("Lemke, paper", [row["paper"]["lemke"]["solved"] for row in table], "x", "C0"),
            ("interior point", [row["interior_point"]["solved"] for row in table], "s", "C1"),
            ("interior point, paper", [row["paper"]["interior_point"]["solved"] for row in table], "+", "C1"),
        )
        for label, values, marker, colour in lines:
            plot.plot(at, values, marker, color=colour, label=label, markersize=14 if marker == "_" else 6)
        plot.set(
            xticks=at, xticklabels=[str(row["size"]) for row in table], xlabel="size of the LCP", ylabel="share solved"
        )
        plot.set_ylim(-0.05, 1.05)
        plot.legend()
    return Drawing("Share solved against size", plot.figure)
