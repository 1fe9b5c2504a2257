"""Times of solvers: our solver of stage I against general QP solvers, and Lemke's method against quantecon's.

Stage I is the convex problem of the controller ``id-coulomb-qp`` (math.md, section 7).

Our solvers get whitened rows with six columns, as in a control step (math.md, section 3). Other solvers get the matrix
that they need, assembled beforehand: only the solver itself is timed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from idcontrol.bench.measurement import Bar, Benchmark, Effort, Peer, TimingRow, floor, measure
from idcontrol.bench.peers import QP_PEERS, StageOne, installed, quantecon
from idcontrol.bench.problems.walks import RecordedWalk, WalkStep, problems
from idcontrol.bench.timing import Job
from idcontrol.kernels.arena import HEAP
from idcontrol.models.coulomb import friction_lcp_kernel
from idcontrol.models.dissipation import edge_lcp_kernel
from idcontrol.models.friction_lcp import assemble
from idcontrol.models.whitened import Whitened, whiten
from idcontrol.solvers.status import SOLVED
from idcontrol.types import Array

CONTACTS = (4, 40, 120)
"""Default numbers of contacts."""

LEMKE_MOST = 10
"""Largest number of contacts at which Lemke's method is compared."""

SAME_SPEED = 1e-5
"""Largest difference of contact velocities between equal answers [m/s]. General solvers get regularized matrices, so
answers differ slightly."""

QP_BARS = {
    ("DAQP, warm", 4): Bar(of="peer", bar=1.0, goal=0.5),
    ("PIQP", 40): Bar(of="peer", bar=0.06, goal=0.02),
    ("PIQP", 120): Bar(of="peer", bar=0.01, goal=0.002),
}
LEMKE_BAR = Bar(of="peer", bar=1.2, goal=1.0)


def rows(walk: RecordedWalk, effort: Effort, contacts: Sequence[int] = CONTACTS) -> Iterator[TimingRow]:
    """Yield rows for each number of contacts: stage I alone, stage I compared with each solver, and Lemke's method.

    A solver has a row if it is installed, up to its `most` contacts; Lemke's method has a row up to `LEMKE_MOST`.
    """
    for n in sorted(contacts):
        steps = problems(walk, n)
        whitened = [whiten(each.problem) for each in steps]
        below = floor(walk, steps)
        yield from _stage_one(steps, whitened, below, n, effort)
        if n <= LEMKE_MOST:
            yield _lemke(steps, whitened, below, n, effort)


def _stage_one(
    steps: Sequence[WalkStep], whitened: Sequence[Whitened], below: Job, n: int, effort: Effort
) -> Iterator[TimingRow]:
    mu = steps[0].problem.contacts.mu
    states = len(steps) if n <= LEMKE_MOST else min(len(steps), 50)  # the peers' matrices would fill the memory

    def speed(ours: tuple[int, Array, Array], theirs: Array) -> float:
        _, rho, f = ours
        return float(np.abs(rho @ (rho.T @ (f - theirs))).max())

    def stage_one(*, warm: bool, bar: Bar | None = None) -> Benchmark:
        return Benchmark(
            what=f"stage I, {'warm' if warm else 'cold'}",
            contacts=n,
            job=_edges(whitened, mu, warm=warm),
            floor=below,
            states=states,
            solved=lambda answer: answer[0] == SOLVED,
            bar=bar,
        )

    asked = [StageOne.of(each.rho, each.c, mu) for each in whitened[:states]]
    for warm in (True, False):
        yield measure(stage_one(warm=warm), effort)
    for peer in QP_PEERS:
        if n > peer.most or not installed(*peer.packages):
            continue
        beside = Peer(
            name=peer.name,
            job=peer.make(asked),
            difference=speed,
            tolerance=SAME_SPEED,
            unit="m/s",
            solved=lambda answer: answer is not None,
        )
        yield measure(stage_one(warm=True, bar=QP_BARS.get((peer.name, n))), effort, beside)


def _edges(whitened: Sequence[Whitened], mu: Array, *, warm: bool) -> Job:
    n = mu.shape[0]
    active = np.zeros(n, dtype=np.int64)

    def forget() -> None:
        active[:] = 0

    def run(i: int) -> tuple[int, Array, Array]:
        if not warm:
            forget()
        f = np.zeros(3 * n)
        status, _, _ = edge_lcp_kernel(whitened[i].rho, whitened[i].c, whitened[i].roundoff, mu, active, f, HEAP)
        return int(status), whitened[i].rho, f

    return Job(run=run, reset=forget)


def _lemke(steps: Sequence[WalkStep], whitened: Sequence[Whitened], below: Job, n: int, effort: Effort) -> TimingRow:
    """Return the row of Lemke's method on the friction LCP.

    Our time includes assembling and balancing. The peer gets the balanced matrix, as it fails on a fifth of the
    unbalanced matrices.
    """
    mu = steps[0].problem.contacts.mu
    frictional = np.flatnonzero(mu)
    matrices, constants, scales = [], [], []
    for each in whitened:
        Q, r, _, _ = assemble(each.rho, each.c, np.zeros(3 * n), mu, frictional, HEAP)
        scale = _balance(Q, n + 4 * frictional.size)
        matrices.append(np.ascontiguousarray(scale[:, None] * Q * scale))
        size = float(np.abs(scale * r).max()) or 1.0
        constants.append(scale * r / size)
        scales.append(scale * size)
    f = np.zeros(3 * n)

    def run(i: int) -> tuple[int, Array, Array]:
        status, _, _ = friction_lcp_kernel(whitened[i].rho, whitened[i].c, whitened[i].roundoff, mu, 0.0, f, HEAP)
        return int(status), f.copy(), scales[i]

    def weight(ours: tuple[int, Array, Array], theirs: Array) -> float:
        _, mine, scale = ours
        carried = float((scale * theirs)[:n].sum())
        return abs(float(mine[:n].sum()) - carried) / max(carried, 1e-12)

    other = quantecon(matrices, constants)
    peer = None
    if other is not None:
        peer = Peer(
            name="quantecon, balanced",
            job=other,
            difference=weight,
            # the friction LCP may have several solutions, but has a single one in nearly all states
            tolerance=1e-6,
            unit="of the weight carried",
            share=90.0,
            solved=lambda answer: answer is not None,
        )
    benchmark = Benchmark(
        what="friction LCP, Lemke",
        contacts=n,
        job=Job(run=run),
        floor=below,
        states=len(steps),
        solved=lambda answer: answer[0] == SOLVED,
        bar=LEMKE_BAR if n == 4 else None,
    )
    return measure(benchmark, replace(effort, compared=len(steps)), peer)


def _balance(Q: Array, impulses: int) -> Array:
    """Return the scale of each LCP variable: a factor for impulses, its inverse for others (math.md, section 13.2)."""
    d = 1.0 / np.sqrt(float(np.median(np.diag(Q)[:impulses])))
    return np.concatenate((np.full(impulses, d), np.full(Q.shape[0] - impulses, 1.0 / d)))
