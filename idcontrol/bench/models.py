"""Times of contact models on inverse-dynamics problems along a walk, by number of contacts.

Most rows time the Python call that runs a controller's scheme, from the assembled problem to impulses. A *scheme* is
the part of a controller that computes contact impulses and torques. Rows of the no-slip kernel time only this kernel,
which gets whitened contact rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from idcontrol.bench.measurement import Bar, Benchmark, Effort, TimingRow, floor, measure
from idcontrol.bench.problems.walks import RecordedWalk, WalkStep, problems
from idcontrol.bench.timing import Job
from idcontrol.controllers import schemes
from idcontrol.controllers.relax import solve
from idcontrol.controllers.step import Answer, step_from_problem
from idcontrol.kernels.arena import HEAP, reserve
from idcontrol.models import coulomb, no_slip
from idcontrol.models.no_slip import no_slip_kernel
from idcontrol.models.step import CLOSED_GAP
from idcontrol.models.whitened import whiten
from idcontrol.solvers.enumerate import NearestResult, nearest_solution
from idcontrol.solvers.status import SOLVED

CONTACTS = (1, 2, 4, 10, 40, 100, 400, 1000)
"""Default numbers of contacts."""


SCHEMES: Mapping[str, schemes.Scheme] = {
    "no-slip LCP alone": schemes.Scheme(name="noslip", model=no_slip.solve, forward=no_slip.solve),
    "id-noslip-lcp": schemes.NO_SLIP_LCP,
    "id-noslip-qp": schemes.NO_SLIP_QP,
    "id-coulomb-qp": schemes.COULOMB_QP,
    "id-coulomb-qp-raw": schemes.COULOMB_QP_RAW,
    "id-coulomb-qp-1": schemes.COULOMB_QP_1,
    "id-coulomb-lcp": schemes.COULOMB_LCP,
    "id-coulomb-cone": schemes.COULOMB_CONE,
    "id-sap": schemes.SAP,
}
"""Schemes by name. A scheme that defines a controller has the controller's name."""

SLOWEST_US = 2e5
"""Median above which a scheme is not run with more contacts [us]."""

KERNEL_BARS = {
    40: Bar(of="floor", bar=1.5, goal=0.75),
    1000: Bar(of="floor", bar=25.0, goal=11.0),
}
"""Bounds on the median time of the no-slip kernel with a warm start, by number of contacts. With 40 contacts, Zapolsky
and Drumwright (2017, Fig. 19) took 900 us on a laptop of 2011."""

SCHEME_BARS: Mapping[tuple[str, int], Bar] = {
    **{(f"id-noslip-{kind}", n): Bar(of="floor", bar=12.0, goal=5.0) for kind in ("lcp", "qp") for n in (1, 2)},
    **{
        (name, n): Bar(of="floor", bar=1.5 * goal, goal=goal)
        for name in ("id-coulomb-qp", "id-noslip-lcp", "id-noslip-qp")
        for n, goal in ((40, 8.0), (100, 14.0), (400, 40.0))
    },
    ("id-coulomb-lcp", 40): Bar(of="floor", bar=10.0, goal=8.0),
    ("id-coulomb-lcp", 100): Bar(of="floor", bar=40.0, goal=10.0),
}
"""Bounds on cold steps by scheme and number of contacts."""

SLIPPERY, SLIPPERY_MU = (10, 40, 100, 400), 0.1
"""Numbers of contacts, and friction coefficient, of the rows in which forces reach the friction cones."""

PROOF_BAR = Bar(of="floor", bar=40.0, goal=10.0)
PROOF_NODES = 100_000


def rows(walk: RecordedWalk, effort: Effort, contacts: Sequence[int] = CONTACTS) -> Iterator[TimingRow]:
    """Return rows of each scheme and of the no-slip kernel by number of contacts.

    `id-coulomb-qp` has further rows on slippery ground, where its forces reach the friction cones. If 4 is in
    `contacts`, the last row is a search that proves its solution to be the closest to the last torque.
    """
    sets = {n: problems(walk, n) for n in sorted(contacts)}
    for name, scheme in SCHEMES.items():
        yield from growing(name, scheme, walk, sets, effort)
    slippery = {n: [_rougher(each, SLIPPERY_MU) for each in steps] for n, steps in sets.items() if n in SLIPPERY}
    yield from growing(f"id-coulomb-qp, friction {SLIPPERY_MU}", schemes.COULOMB_QP, walk, slippery, effort)
    for n, steps in sets.items():
        for warm in (True, False):
            yield _no_slip_kernel(walk, steps, n, effort, warm=warm)
    if 4 in sets:
        yield _proof(walk, sets[4], effort)


def growing(
    name: str, scheme: schemes.Scheme, walk: RecordedWalk, sets: Mapping[int, Sequence[WalkStep]], effort: Effort
) -> Iterator[TimingRow]:
    """Return rows of one scheme for each number of contacts in `sets`: warm, then cold.

    The rows end after a median time above `SLOWEST_US`, or at the largest number of contacts that the scheme accepts.
    """
    for n, steps in sets.items():
        if scheme in (schemes.COULOMB_CONE, schemes.COULOMB_LCP) and n > coulomb.MOST_CONTACTS:
            return
        for warm in (True, False):
            benchmark = Benchmark(
                what=f"{name}, {'warm' if warm else 'cold'}",
                contacts=n,
                job=scheme_job(scheme, steps, warm=warm),
                floor=floor(walk, steps),
                states=len(steps),
                solved=lambda answer: answer.ending >= 0,
                bar=None if warm else SCHEME_BARS.get((name, n)),
            )
            row = measure(benchmark, effort)
            yield row
        if row.us["p50"] > SLOWEST_US:
            return


def _rougher(step: WalkStep, mu: float) -> WalkStep:
    problem, friction = step.problem, np.full(len(step.problem.contacts), mu)
    problem = replace(problem, contacts=replace(problem.contacts, mu=friction))
    cones = step.step.cones._replace(mu=friction, held=np.zeros(friction.size, dtype=np.bool_))
    return replace(step, step=step_from_problem(problem, cones, last=step.step.last))


def scheme_job(scheme: schemes.Scheme, steps: Sequence[WalkStep], *, warm: bool) -> Job:
    """Return the job of solving the steps in order; with `warm`, each step starts from the last step's active set."""
    arena, memory = reserve(), steps[0].step.active.copy()
    asked, f = steps[0].step, np.zeros(steps[0].step.target.size)

    def forget() -> None:
        memory[:] = 0

    def prepare(i: int) -> None:
        nonlocal asked
        asked, f[:] = steps[i].step._replace(active=memory), 0.0
        if not warm:
            forget()

    def run(i: int) -> Answer:
        return solve(scheme, asked, f, arena)

    forget()
    return Job(run=run, prepare=prepare, reset=forget)


def _no_slip_kernel(walk: RecordedWalk, steps: Sequence[WalkStep], n: int, effort: Effort, *, warm: bool) -> TimingRow:
    whitened = [whiten(each.problem) for each in steps]
    closed = [each.problem.contacts.gap <= CLOSED_GAP for each in steps]
    bits, f = np.zeros(n, dtype=np.int64), np.zeros(3 * n)

    def forget() -> None:
        bits[:] = 0

    def run(i: int) -> int:
        if not warm:
            bits[:] = 0
        status, _, _, _ = no_slip_kernel(
            whitened[i].rho, whitened[i].c, whitened[i].roundoff, closed[i], bits, False, f, HEAP
        )
        return int(status)

    benchmark = Benchmark(
        what=f"no-slip kernel, {'warm' if warm else 'cold'}",
        contacts=n,
        job=Job(run=run, reset=forget),
        floor=floor(walk, steps),
        states=len(steps),
        solved=lambda status: status == SOLVED,
        bar=KERNEL_BARS.get(n) if warm else None,
    )
    return measure(benchmark, effort)


def _proof(walk: RecordedWalk, steps: Sequence[WalkStep], effort: Effort) -> TimingRow:
    """Return the row of a complete search for the solution of the friction LCP that is closest to the last torque."""
    asked, starts = [], []
    last = steps[0].step.last
    for each in steps:
        solution = coulomb.solve(each.problem)
        y = solution.impulses.T.ravel()
        asked.append(schemes.nearest_problem(each.step._replace(last=last), y, solution.multipliers, HEAP))
        starts.append(y)
        last = solution.multipliers

    def run(i: int) -> NearestResult:
        return nearest_solution(asked[i], starts[i], max_nodes=PROOF_NODES)

    benchmark = Benchmark(
        what="nearest torque with proof",
        contacts=4,
        job=Job(run=run),
        floor=floor(walk, steps),
        states=len(steps),
        solved=lambda result: result.proved,
        bar=PROOF_BAR,
    )
    return measure(benchmark, effort)
