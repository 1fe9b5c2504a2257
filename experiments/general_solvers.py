"""SAP and general solvers on the same steps: answers, times, iterations and errors (Castro et al. 2022, X-A)."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from idcontrol.bench.league import conic
from idcontrol.experiments.findings import Drawing, Finding, axes
from idcontrol.models import sap
from idcontrol.models.sparse import SparseProblem, SparseSolution
from idcontrol.types import Array

SAP: Final = "sap"
GUROBI, GEODESIC = "clarabel", "ecos"
"""Solvers compared with the numbers that Castro et al. 2022 print for Gurobi and for a geodesic interior point."""


class Beside(NamedTuple):
    """One solver on the steps of a run; all attributes but `solver` are arrays of shape (steps,).

    Attributes:
        solver: Name of the solver.
        us: Time, without the setup of general solvers [us].
        iterations: Number of iterations.
        momentum_error: Momentum error of Castro et al. 2022, eq. 24.
        slackness: Complementarity error of Castro et al. 2022, eq. 25.
        distance: |Lᵀ(v - v')| / max(|Lᵀv'|, |Lᵀ(v' - v*)|), where v' are SAP's velocities, converged to rounding, v*
            the velocities without contact, and L Lᵀ is the mass matrix.
        solved: True if the solver reports that it met its tolerance.
    """

    solver: str
    us: Array
    iterations: Array
    momentum_error: Array
    slackness: Array
    distance: Array
    solved: Array


def beside(problems: Sequence[SparseProblem], parameters: sap.Parameters, tolerance: float) -> dict[str, Beside]:
    """Solve steps by SAP and by every installed general solver.

    Args:
        problems: The steps; steps without contacts are left out.
        parameters: SAP's β, σ and tolerance; the general solvers get the same regularization.
        tolerance: Tolerance of the general solvers.
    """
    rows: dict[str, list[tuple[float, ...]]] = {name: [] for name in (SAP, *conic.present())}
    for problem in problems:
        if not len(problem.gap):
            continue
        asked = conic.program(problem, parameters.sigma, parameters.beta)
        exact = conic.by_sap(problem, _sap(problem, parameters._replace(tolerance=1e-12)), 0.0)
        momentum = max(float(np.linalg.norm(asked.L.T @ v)) for v in (exact.v, exact.v - asked.v_star)) or 1.0
        began = time.thread_time()
        solution = _sap(problem, parameters)
        answers = {SAP: conic.by_sap(problem, solution, time.thread_time() - began)}
        answers |= {name: solve(asked, tolerance) for name, solve in conic.present().items()}
        for name, answer in answers.items():
            away = asked.L.T @ (answer.v - exact.v)
            rows[name].append(
                (
                    1e6 * answer.seconds,
                    answer.iterations,
                    conic.momentum_error(problem, answer),
                    conic.slackness(asked, answer),
                    float(np.linalg.norm(away)) / momentum,
                    answer.solved,
                )
            )
    return {name: Beside(name, *np.array(numbers).reshape(-1, 6).T) for name, numbers in rows.items()}


def _sap(problem: SparseProblem, parameters: sap.Parameters) -> SparseSolution:
    return sap.solve_sparse(problem, sigma=parameters.sigma, beta=parameters.beta, tolerance=parameters.tolerance)


def speedup(results: Mapping[str, Beside], solver: str, over: str) -> float:
    """Return the total time of `over` divided by the total time of `solver`."""
    return float(results[over].us.sum() / results[solver].us.sum())


def as_rows(results: Mapping[str, Beside], **where: object) -> list[dict[str, object]]:
    """Return counts, means, medians and maxima as plain data, one row per solver; each row begins with `where`."""
    return [
        {
            **where,
            "solver": name,
            "steps": len(one.us),
            "solved": int(one.solved.sum()),
            "us_median": float(np.median(one.us)),
            "sap_speedup": speedup(results, SAP, name),
            "iterations": float(one.iterations.mean()),
            **{
                f"{what}_{kind}": float(take(getattr(one, what)))
                for what in ("momentum_error", "slackness", "distance")
                for kind, take in (("mean", np.mean), ("median", np.median), ("max", np.max))
            },
        }
        for name, one in results.items()
    ]


Heaps = Mapping[tuple[bool, int], dict[str, Beside]]
"""Results of the solvers in heaps, by (with walls, number of bodies)."""

FEWEST, FEW, MANY = 8, 40, 80
"""Numbers of bodies for the statements of Castro et al. 2022, section X-C1: few bodies for the geodesic interior point,
"with less than about 40 bodies", and "beyond 80"."""

SAME = 1e-2
"""Largest accepted median distance from SAP's answer: a comparison of times means little between different answers.
Castro et al. 2022 print no such number."""


def in_heaps(results: Heaps, bodies: int) -> list[Finding]:
    """Return findings about solvers in heaps, compared with Castro et al. 2022, section X-C, Figs. 9, 12 and 13.

    Args:
        results: Every heap.
        bodies: Number of bodies of Fig. 9.
    """
    solvers = [name for name in next(iter(results.values()), {}) if name != SAP]
    findings = []
    for name in solvers:
        median = max(float(np.median(each[name].distance)) for each in results.values() if len(each[name].us))
        findings.append(Finding(f"distance_{name}", median, holds=median <= SAME))
    worst = max((float(each[SAP].slackness.max(initial=0.0)) for each in results.values()), default=0.0)
    findings.append(Finding("slackness_sap", worst, holds=worst < 1e-12))
    sizes = sorted({size for _, size in results})
    few, many = [n for n in sizes if n <= FEW], [n for n in sizes if n > MANY]
    for key, over, grounds, among, take in (
        ("walls_few", GUROBI, (True,), few, max),
        ("open_few", GUROBI, (False,), few, max),
        ("walls_many", GUROBI, (True,), many, min),
        ("open_many", GUROBI, (False,), many, np.mean),
        ("over_ecos_most", GEODESIC, (True, False), sizes, np.median),
        ("over_ecos_few", GEODESIC, (True, False), [n for n in sizes if n <= FEWEST], np.median),
    ):
        heaps = [results[walls, n] for walls in grounds for n in among if (walls, n) in results]
        times = [speedup(heap, SAP, over) for heap in heaps if over in solvers and len(heap[SAP].us)]
        if times:
            factor = float(take(times))
            findings.append(Finding(f"speedup_{key}_bodies", factor, agrees=factor < 1.0))
    if GUROBI in solvers:
        if (True, bodies) in results:
            findings.append(Finding("iterations_walls_clarabel", results[True, bodies][GUROBI].iterations.mean()))
        means = {
            name: np.concatenate([each[name].momentum_error for each in results.values()]).mean()
            for name in (SAP, *solvers)
        }
        largest = bool(means[GUROBI] == max(means.values()))
        findings.append(Finding("momentum_error_of_general_solver_largest", largest, agrees=largest))
    if GEODESIC in solvers:
        worst = max(float(each[GEODESIC].slackness.mean()) for each in results.values() if len(each[GEODESIC].us))
        findings.append(Finding("slackness_ecos", worst, agrees=worst < 1e-5))
    return findings


def in_a_grip(results: Mapping[str, Beside]) -> list[Finding]:
    """Return findings about solvers on steps of the gripper, compared with Castro et al. 2022, section X-D."""
    findings = []
    for name in (GUROBI, GEODESIC):
        if name not in results:
            continue
        one = results[name]
        worst, median = float(one.momentum_error.max()), float(np.median(one.distance))
        findings += [
            Finding(f"distance_{name}", median, holds=median <= SAME),
            Finding(f"speedup_over_{name}", speedup(results, SAP, name)),
            Finding(f"iterations_{name}", one.iterations.mean()),
            Finding(f"momentum_error_{name}", worst, agrees=worst < 2e-6 if name == GEODESIC else None),
        ]
    return findings


def ground(walls: bool) -> str:
    """Name the ground of a heap."""
    return "walls" if walls else "open"


def heap_drawings(results: Heaps) -> list[Drawing]:
    """Draw the speed and errors of the solvers in heaps of growing size; return no drawing if Clarabel did not run."""
    kept = {key: each for key, each in results.items() if len(each[SAP].us)}
    if not kept or GUROBI not in next(iter(kept.values())):
        return []
    speed: Row = ("speed-up over Clarabel", lambda heap, name: speedup(heap, name, GUROBI))
    errors: list[Row] = [
        ("momentum error, mean", lambda heap, name: float(heap[name].momentum_error.mean())),
        # SAP's distance is zero up to rounding
        ("slackness, mean", lambda heap, name: np.nan if name == SAP else float(heap[name].slackness.mean())),
    ]
    return [
        _by_size("SAP and general solvers: time (Castro et al. 2022, Fig. 12)", kept, [speed]),
        _by_size("SAP and general solvers: errors (Castro et al. 2022, Fig. 13)", kept, errors),
    ]


Row = tuple[str, Callable[[dict[str, Beside], str], float]]
"""A row of axes: its label, and its value for a solver in a heap."""


def _by_size(title: str, heaps: Heaps, rows: Sequence[Row]) -> Drawing:
    """Draw values of each solver against the number of bodies.

    The left column has heaps between walls, the right column heaps on open ground.
    """
    size = (8.0, 1.0 + 2.3 * len(rows))
    with axes(rows=len(rows), columns=2, size=size, sharex="col", sharey="row", squeeze=False) as grid:
        for line, (label, value) in zip(grid, rows, strict=True):
            for plot, walls in zip(line, (True, False), strict=True):
                sizes = sorted(n for where, n in heaps if where == walls)
                for name in next(iter(heaps.values())):
                    plot.loglog(sizes, [value(heaps[walls, n], name) for n in sizes], "o-", label=name)
                plot.set_xticks(sizes, [str(n) for n in sizes])
                plot.minorticks_off()
                plot.set(xlabel=f"bodies, {ground(walls)}")
            line[0].set_ylabel(label)
        grid[0, 1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
    return Drawing(title, grid[0, 0].figure)
