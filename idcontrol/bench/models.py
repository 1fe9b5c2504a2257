"""Rows of contact models: one inverse-dynamics problem, against the number of contacts.

What is timed is what a controller calls for its scheme, from the posed problem to motor impulses, in Python; and, for
the bars that are about kernels, the kernel on whitened rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from idcontrol.bench.rows import Bar, Effort, Row, measure
from idcontrol.bench.scenes import Posed, Walk, copied, floor, problems
from idcontrol.bench.timing import Job, in_turns
from idcontrol.controllers.sap import SAP
from idcontrol.controllers.schemes import (
    COULOMB_LCP,
    COULOMB_QP,
    COULOMB_QP_1,
    COULOMB_QP_RAW,
    NO_SLIP_LCP,
    NO_SLIP_QP,
    Outcome,
    Scheme,
    Step,
)
from idcontrol.models import coulomb, no_slip
from idcontrol.models.distribution import torque_map
from idcontrol.models.no_slip import no_slip_kernel
from idcontrol.models.problem import CLOSED_GAP, StepProblem, WarmStart
from idcontrol.models.reduction import reduce
from idcontrol.solvers.enumerate import NearestProblem, NearestResult, nearest_solution
from idcontrol.solvers.status import SOLVED
from idcontrol.types import Status

CONTACTS = (1, 2, 4, 10, 40, 100, 400, 1000)
"""Numbers of contacts, unless others are asked for."""


def _no_slip(problem: StepProblem, step: Step) -> Outcome:
    """003's Algorithms 1 and 2 as they stand: impulses as pivoting leaves them."""
    solution = no_slip.solve(problem, step.warm)
    return Outcome(solution=solution, motor_impulse=solution.multipliers)


SCHEMES: Mapping[str, Scheme] = {
    "no-slip LCP alone": Scheme(solve=_no_slip, model=no_slip.solve),
    "id-noslip-lcp": NO_SLIP_LCP,
    "id-noslip-qp": NO_SLIP_QP,
    "id-coulomb-qp": COULOMB_QP,
    "id-coulomb-qp-raw": COULOMB_QP_RAW,
    "id-coulomb-qp-1": COULOMB_QP_1,
    "id-coulomb-lcp": COULOMB_LCP,
    "id-sap": SAP,
}
"""By the names of their controllers, where they are all of one."""

SLOWEST_US = 2e5
"""A scheme that takes longer than this is not asked for more contacts."""

KERNEL_BARS = {
    40: Bar(of="floor", bar=1.5, goal=0.75),
    1000: Bar(of="floor", bar=25.0, goal=11.0),
}
"""Of the no-slip kernel. The paper's took 900 us for 40 contacts on a laptop of 2011."""

PROOF_BAR = Bar(of="floor", bar=150.0, goal=75.0)
PROOF_NODES = 100_000


def rows(walk: Walk, effort: Effort, contacts: Sequence[int] = CONTACTS) -> Iterator[Row]:
    """Schemes and the no-slip kernel at each number of contacts, then the proof of the nearest torque at four."""
    sets = {n: problems(walk, n) for n in sorted(contacts)}
    for name, scheme in SCHEMES.items():
        yield from growing(name, scheme, walk, sets, effort)
    for n, posed in sets.items():
        for warm in (True, False):
            yield _no_slip_kernel(walk, posed, n, effort, warm=warm)
    if 4 in sets:
        yield _proof(walk, sets[4], effort)


def growing(
    name: str, scheme: Scheme, walk: Walk, sets: Mapping[int, Sequence[Posed]], effort: Effort
) -> Iterator[Row]:
    """A scheme's rows, warm and cold, up to where it takes longer than `SLOWEST_US`."""
    there = 1
    for n, posed in sets.items():
        if (scheme is COULOMB_LCP and n > coulomb.MOST_CONTACTS) or not _affordable(scheme, walk, there, n):
            return
        there = n
        for warm in (True, False):
            row = measure(
                "models",
                f"{name}, {'warm' if warm else 'cold'}",
                n,
                scheme_job(scheme, posed, warm=warm),
                _floor(walk, posed),
                len(posed),
                effort,
                solved=lambda outcome: outcome.solution.status is not Status.FALLBACK,
            )
            yield row
        if row.us["p50"] > SLOWEST_US:
            return


def _affordable(scheme: Scheme, walk: Walk, there: int, n: int) -> bool:
    """Whether one problem of each of some numbers of contacts on the way from `there` to `n` is solved in time."""
    posed = next(each for each in problems(walk) if len(each.problem.contacts) == len(walk.feet))
    while (there := 3 * there) < n:
        step = replace(posed, problem=copied(posed.problem, there), step=replace(posed.step, warm={}, reluctance=None))
        job = scheme_job(scheme, [step], warm=False)
        job.run(0)
        times, _ = in_turns([job], 1, 1, 1.0)
        if times[0, 0] > SLOWEST_US:
            return False
    return True


def scheme_job(scheme: Scheme, posed: Sequence[Posed], *, warm: bool) -> Job:
    """Solve each posed problem; warm starts from the last one's solution."""
    kept: WarmStart = {}

    def forget() -> None:
        nonlocal kept
        kept = {}

    def run(i: int) -> Outcome:
        nonlocal kept
        step = replace(posed[i].step, warm=kept if warm else {})
        outcome = scheme.solve(posed[i].problem, step)
        kept = outcome.solution.warm
        return outcome

    return Job(run=run, reset=forget)


def _floor(walk: Walk, posed: Sequence[Posed]) -> Job:
    """The floor, at the moments of the posed problems."""
    return floor(replace(walk, moments=[walk.moments[each.moment] for each in posed]))


def _no_slip_kernel(walk: Walk, posed: Sequence[Posed], n: int, effort: Effort, *, warm: bool) -> Row:
    whitened = [reduce(each.problem) for each in posed]
    closed = [each.problem.contacts.gap <= CLOSED_GAP for each in posed]
    bits, f = np.zeros(n, dtype=np.int64), np.zeros(3 * n)

    def forget() -> None:
        bits[:] = 0

    def run(i: int) -> int:
        if not warm:
            bits[:] = 0
        status, _, _, _ = no_slip_kernel(whitened[i].rho, whitened[i].c, closed[i], bits, False, f)
        return int(status)

    return measure(
        "models",
        f"no-slip kernel, {'warm' if warm else 'cold'}",
        n,
        Job(run=run, reset=forget),
        _floor(walk, posed),
        len(posed),
        effort,
        solved=lambda status: status == SOLVED,
        bar=KERNEL_BARS.get(n) if warm else None,
    )


def _proof(walk: Walk, posed: Sequence[Posed], effort: Effort) -> Row:
    """The friction LCP's solution whose torque is nearest to the last one's, proved to be so."""
    asked, starts = [], []
    last = posed[0].step.last
    for each in posed:
        solution, reduction = coulomb.solve(each.problem), reduce(each.problem)
        y, rho = solution.impulses.T.ravel(), reduction.rho
        torque = torque_map(reduction, len(each.problem.contacts))
        asked.append(
            NearestProblem(
                V=rho @ rho.T,
                v0=reduction.c,
                mu=each.problem.contacts.mu,
                T=torque,
                t0=solution.multipliers - torque @ y,
                target=last,
                weights=np.ones_like(last),
            )
        )
        starts.append(y)
        last = solution.multipliers

    def run(i: int) -> NearestResult:
        return nearest_solution(asked[i], starts[i], max_nodes=PROOF_NODES)

    return measure(
        "models",
        "nearest torque with proof",
        4,
        Job(run=run),
        _floor(walk, posed),
        len(posed),
        effort,
        solved=lambda result: result.proved,
        bar=PROOF_BAR,
    )
