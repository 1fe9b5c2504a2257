"""SAP beside general solvers on the same steps: answers, times, iterations and errors (Castro et al. 2022, X-A)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from idcontrol.bench.league import conic
from idcontrol.experiments.findings import Drawing, Finding, axes
from idcontrol.models import sap
from idcontrol.models.sparse import SparseProblem, SparseSolution
from idcontrol.types import Array

SAP: Final = "sap"
GUROBI, GEODESIC = "clarabel", "ecos"
"""Solvers that stand where Castro et al. 2022 have Gurobi and a geodesic interior point."""


class Beside(NamedTuple):
    """One solver on the steps of a run; all but the name in arrays of shape (steps,).

    Attributes:
        solver: Its name.
        us: Time, without the setup of general solvers [us].
        iterations: Iterations.
        momentum_error: Castro et al. 2022, eq. 24.
        slackness: Their eq. 25.
        distance: |Lᵀ(v - v')| over the larger of the momenta |Lᵀv'| and |Lᵀ(v' - v*)|, v' being SAP's velocities to
            rounding.
        solved: Whether it says that it met its tolerance.
    """

    solver: str
    us: Array
    iterations: Array
    momentum_error: Array
    slackness: Array
    distance: Array
    solved: Array


def beside(problems: Sequence[SparseProblem], parameters: sap.Parameters, tolerance: float) -> dict[str, Beside]:
    """Solve steps by SAP and by every general solver that is installed.

    Args:
        problems: The steps; those without contacts are left out.
        parameters: SAP's β, σ and tolerance; the others get the same regularization.
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
                    conic.momentum_error(asked, answer),
                    conic.slackness(asked, answer),
                    float(np.linalg.norm(away)) / momentum,
                    answer.solved,
                )
            )
    return {name: Beside(name, *np.array(told).reshape(-1, 6).T) for name, told in rows.items()}


def _sap(problem: SparseProblem, parameters: sap.Parameters) -> SparseSolution:
    return sap.solve_sparse(problem, sigma=parameters.sigma, beta=parameters.beta, tolerance=parameters.tolerance)


def speedup(found: Mapping[str, Beside], solver: str, over: str) -> float:
    """How many times as long `over` takes as `solver`, all steps together."""
    return float(found[over].us.sum() / found[solver].us.sum())


def as_rows(found: Mapping[str, Beside], **where: object) -> list[dict[str, object]]:
    """Means and extremes as plain data, one row a solver, with `where` in front of each."""
    return [
        {
            **where,
            "solver": name,
            "steps": len(one.us),
            "solved": int(one.solved.sum()),
            "us_median": float(np.median(one.us)),
            "sap_speedup": speedup(found, SAP, name),
            "iterations": float(one.iterations.mean()),
            **{
                f"{what}_{kind}": float(take(getattr(one, what)))
                for what in ("momentum_error", "slackness", "distance")
                for kind, take in (("mean", np.mean), ("median", np.median), ("max", np.max))
            },
        }
        for name, one in found.items()
    ]


Heaps = Mapping[tuple[bool, int], dict[str, Beside]]
"""Solvers beside each other in heaps, by whether there are walls, and by the number of bodies."""

FEW, MANY = 40, 80
"""Castro et al. 2022, section X-C1, say what holds for problems "with less than about 40 bodies" and "beyond 80"."""

SAME = 1e-2
"""Answers are compared before times: largest median distance of one from SAP's. Castro et al. 2022 print none."""


def in_heaps(found: Heaps, bodies: int) -> list[Finding]:
    """Findings beside what Castro et al. 2022, section X-C, say of solvers in heaps: Figs. 9, 12 and 13.

    Args:
        found: Every heap.
        bodies: Number of bodies of Fig. 9.
    """
    solvers = [name for name in next(iter(found.values()), {}) if name != SAP]
    findings = []
    for name in solvers:
        median = max(float(np.median(each[name].distance)) for each in found.values() if len(each[name].us))
        findings.append(Finding(f"distance_{name}", median, holds=median <= SAME))
    worst = max((float(each[SAP].slackness.max(initial=0.0)) for each in found.values()), default=0.0)
    findings.append(Finding("slackness_sap", worst, holds=worst < 1e-12))
    if GUROBI in solvers:
        findings += _beside_gurobi(found, bodies)
    if GEODESIC in solvers:
        findings += _beside_geodesic(found)
    return findings


def _times(found: Heaps, over: str, *, walls: bool, among: Sequence[int]) -> list[float]:
    """How many times as long as SAP `over` takes in heaps with or without walls."""
    return [
        speedup(found[walls, size], SAP, over)
        for size in among
        if (walls, size) in found and len(found[walls, size][SAP].us)
    ]


def _beside_gurobi(found: Heaps, bodies: int) -> list[Finding]:
    sizes = sorted({size for _, size in found})
    few, many = [size for size in sizes if size <= FEW], [size for size in sizes if size > MANY]
    findings = []
    for walls in (True, False):
        times = _times(found, GUROBI, walls=walls, among=few)
        if times:
            findings.append(Finding(f"speedup_{_where(walls)}_few_bodies", max(times)))
    walled, open_ = (_times(found, GUROBI, walls=walls, among=many) for walls in (True, False))
    if walled:
        findings.append(Finding("speedup_walls_many_bodies", min(walled), agrees=min(walled) < 1.0))
    if open_:
        findings.append(Finding("speedup_open_many_bodies", float(np.mean(open_))))
    if (True, bodies) in found:
        findings.append(Finding("iterations_walls_clarabel", float(found[True, bodies][GUROBI].iterations.mean())))
    means = {name: _mean_of(found, name) for name in next(iter(found.values()))}
    worst = means[GUROBI] == max(means.values())
    findings.append(Finding("momentum_error_of_general_solver_largest", worst, agrees=worst))
    return findings


def _beside_geodesic(found: Heaps) -> list[Finding]:
    sizes = sorted({size for _, size in found})
    findings = []
    for key, among in (("most", sizes), ("few", [size for size in sizes if size <= 8])):
        times = [time for walls in (True, False) for time in _times(found, GEODESIC, walls=walls, among=among)]
        if times:
            findings.append(Finding(f"speedup_over_ecos_{key}_bodies", float(np.median(times))))
    worst = max(float(each[GEODESIC].slackness.mean()) for each in found.values() if len(each[GEODESIC].us))
    findings.append(Finding("slackness_ecos", worst, agrees=worst < 1e-5))
    return findings


def in_a_grip(found: Mapping[str, Beside]) -> list[Finding]:
    """Findings beside what Castro et al. 2022, section X-D, say of other solvers that hold the bar."""
    findings = []
    for name in (GUROBI, GEODESIC):
        if name not in found:
            continue
        one = found[name]
        worst, median = float(one.momentum_error.max()), float(np.median(one.distance))
        findings += [
            Finding(f"distance_{name}", median, holds=median <= SAME),
            Finding(f"speedup_over_{name}", speedup(found, SAP, name)),
            Finding(f"iterations_{name}", float(one.iterations.mean())),
            Finding(f"momentum_error_{name}", worst, agrees=worst < 2e-6 if name == GEODESIC else None),
        ]
    return findings


def _mean_of(found: Heaps, solver: str) -> float:
    return float(np.concatenate([each[solver].momentum_error for each in found.values()]).mean())


def _where(walls: bool) -> str:
    return "walls" if walls else "open"


_BESIDE_THE_AXES: Final[dict[str, Any]] = {"loc": "center left", "bbox_to_anchor": (1.02, 0.5)}


def heap_drawings(found: Heaps) -> list[Drawing]:
    """Speed and errors of the solvers in heaps of growing size."""
    kept = {key: each for key, each in found.items() if len(each[SAP].us)}
    if not kept or GUROBI not in next(iter(kept.values())):
        return []
    with axes(columns=2, size=(8.0, 3.5), sharey=True) as plots:
        for plot, walls in zip(plots, (True, False), strict=True):
            sizes = sorted(size for where, size in kept if where == walls)
            for name in next(iter(kept.values())):
                plot.loglog(sizes, [speedup(kept[walls, size], name, GUROBI) for size in sizes], "o-", label=name)
            plot.set_xticks(sizes, [str(size) for size in sizes])
            plot.minorticks_off()
            plot.set(xlabel=f"bodies, {_where(walls)}")
        plots[0].set_ylabel("speed-up over Clarabel")
        plots[1].legend(**_BESIDE_THE_AXES)
    speeds = Drawing("SAP beside general solvers: time (Castro et al. 2022, Fig. 12)", plots[0].figure)
    with axes(rows=2, columns=2, size=(8.0, 5.5), sharex=True, sharey="row") as grid:
        for column, walls in enumerate((True, False)):
            sizes = sorted(size for where, size in kept if where == walls)
            for row, what in enumerate(("momentum_error", "slackness")):
                plot = grid[row, column]
                for number, name in enumerate(next(iter(kept.values()))):
                    if row and name == SAP:
                        continue  # zero but for rounding
                    means = [float(getattr(kept[walls, size][name], what).mean()) for size in sizes]
                    plot.loglog(sizes, means, "o-", color=f"C{number}", label=name)
                plot.set_xticks(sizes, [str(size) for size in sizes])
                plot.minorticks_off()
            grid[1, column].set_xlabel(f"bodies, {_where(walls)}")
        grid[0, 0].set_ylabel("momentum error, mean")
        grid[1, 0].set_ylabel("slackness, mean")
        grid[0, 1].legend(**_BESIDE_THE_AXES)
    errors = Drawing("SAP beside general solvers: errors (Castro et al. 2022, Fig. 13)", grid[0, 0].figure)
    return [speeds, errors]
