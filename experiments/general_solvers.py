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

STANDS_FOR: Final = "verdicts.md#solvers-that-stand-for-others"
"""The section that derives how numbers of other solvers differ."""


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


def in_heaps(found: Heaps, bodies: int, tolerance: float) -> list[Finding]:
    """Findings beside what Castro et al. 2022, section X-C, say of solvers in heaps: Figs. 9, 12 and 13.

    Args:
        found: Every heap.
        bodies: Number of bodies of Fig. 9.
        tolerance: Tolerance of the general solvers.
    """
    solvers = [name for name in next(iter(found.values()), {}) if name != SAP]
    findings = []
    for name in solvers:
        median = max(float(np.median(each[name].distance)) for each in found.values() if len(each[name].us))
        findings.append(
            Finding(
                f"distance_{name}",
                median,
                holds=median <= SAME,
                note="from SAP's velocities at rounding, relative, in the norm of momentum: median of the heap in "
                f"which it is largest; its tolerance is {tolerance:g}",
            )
        )
    findings.append(_slackness_of_sap(found))
    if GUROBI in solvers:
        findings += _beside_gurobi(found, bodies)
    if GEODESIC in solvers:
        findings += _beside_geodesic(found, tolerance)
    return findings


def _slackness_of_sap(found: Heaps) -> Finding:
    worst = max((float(each[SAP].slackness.max(initial=0.0)) for each in found.values()), default=0.0)
    return Finding(
        "slackness_sap",
        worst,
        paper="within machine precision",
        source="Castro et al. 2022, Fig. 13",
        holds=worst < 1e-12,
        note="Castro et al. 2022, eq. 25, largest of all steps and heaps",
    )


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
    findings, note = [], "time of Clarabel, which stands for Gurobi, over SAP's; "
    for walls, printed in ((True, 25), (False, 50)):
        times = _times(found, GUROBI, walls=walls, among=few)
        if times:
            findings.append(
                Finding(
                    f"speedup_{_where(walls)}_few_bodies",
                    max(times),
                    paper=printed,
                    source="Castro et al. 2022, Fig. 12",
                    note=note + f"largest of heaps of {', '.join(map(str, few))}",
                    derivation=STANDS_FOR,
                )
            )
    walled, open_ = (_times(found, GUROBI, walls=walls, among=many) for walls in (True, False))
    if walled:
        ahead = min(walled) < 1.0
        findings.append(
            Finding(
                "speedup_walls_many_bodies",
                min(walled),
                paper="below 1",
                source="Castro et al. 2022, Fig. 12",
                agrees=ahead,
                note=note + f"least of heaps of {', '.join(map(str, many))}; there Gurobi is ahead of SAP in the paper",
                derivation="" if ahead else STANDS_FOR,
            )
        )
    if open_:
        findings.append(
            Finding(
                "speedup_open_many_bodies",
                float(np.mean(open_)),
                paper=10,
                source="Castro et al. 2022, Fig. 12",
                note=note + f"mean of heaps of {', '.join(map(str, many))}",
                derivation=STANDS_FOR,
            )
        )
    if (True, bodies) in found:
        findings.append(
            Finding(
                "iterations_walls_clarabel",
                float(found[True, bodies][GUROBI].iterations.mean()),
                paper=9,
                source="Castro et al. 2022, Fig. 9",
                note="Clarabel, which stands for Gurobi, in the mean over the whole run",
                derivation=STANDS_FOR,
            )
        )
    means = {name: _mean_of(found, name) for name in next(iter(found.values()))}
    worst = means[GUROBI] == max(means.values())
    findings.append(
        Finding(
            "momentum_error_of_general_solver_largest",
            worst,
            paper="the largest",
            source="Castro et al. 2022, Fig. 13",
            agrees=worst,
            note="means over all heaps: " + ", ".join(f"{name} {mean:.1e}" for name, mean in means.items()),
            derivation="" if worst else STANDS_FOR,
        )
    )
    return findings


def _beside_geodesic(found: Heaps, tolerance: float) -> list[Finding]:
    sizes = sorted({size for _, size in found})
    findings = []
    for key, printed, among in (("most", 2, sizes), ("few", 5, [size for size in sizes if size <= 8])):
        times = [time for walls in (True, False) for time in _times(found, GEODESIC, walls=walls, among=among)]
        if times:
            findings.append(
                Finding(
                    f"speedup_over_ecos_{key}_bodies",
                    float(np.median(times)),
                    paper=printed,
                    source="Castro et al. 2022, Fig. 12",
                    note="time of ECOS, which stands for the geodesic interior point, over SAP's, median of the heaps",
                    derivation=STANDS_FOR,
                )
            )
    worst = max(float(each[GEODESIC].slackness.mean()) for each in found.values() if len(each[GEODESIC].us))
    findings.append(
        Finding(
            "slackness_ecos",
            worst,
            paper="below 1e-05",
            source="Castro et al. 2022, Fig. 13",
            agrees=worst < 1e-5,
            note=f"Castro et al. 2022, eq. 25, mean of the heap in which it is largest; tolerance {tolerance:g}, "
            "theirs 1e-5",
        )
    )
    return findings


def in_a_grip(found: Mapping[str, Beside], source: str) -> list[Finding]:
    """Findings beside what Castro et al. 2022, section X-D, say of other solvers that hold the bar."""
    printed: tuple[tuple[str, float, float, float | str], ...] = (
        (GUROBI, 92, 10.1, 2.6e-2),
        (GEODESIC, 20, 5.6, "below 2e-06"),
    )
    findings = []
    for name, times, iterations, error in printed:
        if name not in found:
            continue
        stands = f"{name}, which stands for {'Gurobi' if name == GUROBI else 'the geodesic interior point'}"
        one = found[name]
        worst = float(one.momentum_error.max())
        median = float(np.median(one.distance))
        findings += [
            Finding(
                f"distance_{name}",
                median,
                holds=median <= SAME,
                note="from SAP's velocities at rounding, relative, in the norm of momentum, median",
            ),
            Finding(
                f"speedup_over_{name}",
                speedup(found, SAP, name),
                paper=times,
                source=source,
                note=f"time of {stands}, over SAP's, which both solve the same {len(one.us)} steps",
                derivation=STANDS_FOR,
            ),
            Finding(
                f"iterations_{name}",
                float(one.iterations.mean()),
                paper=iterations,
                source=source,
                note=f"of {stands}, in the mean",
                derivation=STANDS_FOR,
            ),
            Finding(
                f"momentum_error_{name}",
                worst,
                paper=error,
                source=source,
                agrees=worst < 2e-6 if name == GEODESIC else None,
                note=f"of {stands}, largest",
                derivation=STANDS_FOR if name == GUROBI or worst >= 2e-6 else "",
            ),
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
    speeds = Drawing(
        "SAP beside general solvers: time (Castro et al. 2022, Fig. 12)",
        "All solve the same steps of the heap; general solvers are timed without their setup.",
        plots[0].figure,
    )
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
    errors = Drawing(
        "SAP beside general solvers: errors (Castro et al. 2022, Fig. 13)",
        "SAP bounds the error of momentum and has no slackness; interior points bound the slackness.",
        grid[0, 0].figure,
    )
    return [speeds, errors]
