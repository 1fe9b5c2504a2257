"""Rows of solvers: stage I against general solvers of quadratic programs, Lemke's method against another's.

Ours gets whitened rows, of six columns, because that is what a step has (math.md 3); the others get the matrix they
want, made beforehand: their time is that of the solver alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from idcontrol.bench.peers import QP_PEERS, StageOne, installed, quantecon
from idcontrol.bench.rows import Bar, Effort, Peer, Row, measure
from idcontrol.bench.scenes import Posed, Walk, floor, problems
from idcontrol.bench.timing import Job
from idcontrol.kernels.arena import HEAP
from idcontrol.models.coulomb import _assemble, friction_lcp_kernel
from idcontrol.models.dissipation import edge_lcp_kernel
from idcontrol.models.reduction import Reduction, reduce
from idcontrol.solvers.status import SOLVED
from idcontrol.types import Array

CONTACTS = (4, 40, 120)
"""Numbers of contacts, unless others are asked for."""

LEMKE_MOST = 10
"""Contacts up to which Lemke's methods are compared."""

SAME_SPEED = 1e-5
"""Two answers are the same if contacts move alike to this [m/s]: general solvers' matrices are regularized."""

QP_BARS = {
    ("DAQP, warm", 4): Bar(of="peer", bar=1.0, goal=0.5),
    ("PIQP", 40): Bar(of="peer", bar=0.06, goal=0.02),
    ("PIQP", 120): Bar(of="peer", bar=0.01, goal=0.002),
}
LEMKE_BAR = Bar(of="peer", bar=1.2, goal=1.0)


def rows(walk: Walk, effort: Effort, contacts: Sequence[int] = CONTACTS) -> Iterator[Row]:
    """Stage I beside each solver installed, then Lemke's method, at each number of contacts."""
    for n in sorted(contacts):
        posed = problems(walk, n)
        whitened = [reduce(each.problem) for each in posed]
        below = floor(replace(walk, moments=[walk.moments[each.moment] for each in posed]))
        yield from _stage_one(posed, whitened, below, n, effort)
        if n <= LEMKE_MOST:
            yield _lemke(posed, whitened, below, n, effort)


def _stage_one(
    posed: Sequence[Posed], whitened: Sequence[Reduction], below: Job, n: int, effort: Effort
) -> Iterator[Row]:
    mu = posed[0].problem.contacts.mu
    states = len(posed) if n <= LEMKE_MOST else min(len(posed), 50)  # the peers' matrices fill the memory

    def speed(ours: tuple[int, Array, Array], theirs: Array) -> float:
        _, rho, f = ours
        return float(np.abs(rho @ (rho.T @ (f - theirs))).max())

    asked = [StageOne.of(each.rho, each.c, mu) for each in whitened[:states]]
    for warm in (True, False):
        job = _edges(whitened, mu, warm=warm)
        what = f"stage I, {'warm' if warm else 'cold'}"
        yield measure("solvers", what, n, job, below, states, effort, solved=lambda answer: answer[0] == SOLVED)
    for peer in QP_PEERS:
        if n > peer.most or not installed(*peer.packages):
            continue
        yield measure(
            "solvers",
            "stage I, warm",
            n,
            _edges(whitened, mu, warm=True),
            below,
            states,
            effort,
            peer=Peer(
                name=peer.name,
                job=peer.make(asked),
                difference=speed,
                tolerance=SAME_SPEED,
                unit="m/s",
            ),
            solved=lambda answer: answer[0] == SOLVED,
            peer_solved=lambda answer: answer is not None,
            bar=QP_BARS.get((peer.name, n)),
        )


def _edges(whitened: Sequence[Reduction], mu: Array, *, warm: bool) -> Job:
    n = mu.shape[0]
    bits, active = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)

    def forget() -> None:
        active[:] = 0

    def run(i: int) -> tuple[int, Array, Array]:
        bits[:] = active if warm else 0
        f = np.zeros(3 * n)
        status, _, _ = edge_lcp_kernel(whitened[i].rho, whitened[i].c, mu, bits, f, active)
        return int(status), whitened[i].rho, f

    return Job(run=run, reset=forget)


def _lemke(posed: Sequence[Posed], whitened: Sequence[Reduction], below: Job, n: int, effort: Effort) -> Row:
    """Ours assembles and balances; the other gets the balanced matrix, without which it fails on a fifth of states."""
    mu = posed[0].problem.contacts.mu
    rough = np.flatnonzero(mu)
    matrices, constants, scales = [], [], []
    for each in whitened:
        Q, r, _ = _assemble(each.rho, each.c, mu, n, rough, HEAP)
        scale = _balance(Q, n + 4 * rough.size)
        matrices.append(np.ascontiguousarray(scale[:, None] * Q * scale))
        size = float(np.abs(scale * r).max()) or 1.0
        constants.append(scale * r / size)
        scales.append(scale * size)
    f = np.zeros(3 * n)

    def run(i: int) -> tuple[int, Array, Array]:
        status, _, _ = friction_lcp_kernel(whitened[i].rho, whitened[i].c, mu, rough, 0.0, f, HEAP)
        return int(status), f.copy(), scales[i]

    def weight(ours: tuple[int, Array, Array], theirs: Array) -> float:
        _, mine, scale = ours
        carried = float((scale * theirs)[:n].sum())
        return abs(float(mine[:n].sum()) - carried) / max(carried, 1e-12)

    other = quantecon(matrices, constants)
    return measure(
        "solvers",
        "friction LCP, Lemke",
        n,
        Job(run=run),
        below,
        len(posed),
        replace(effort, compared=len(posed)),
        peer=None
        if other is None
        else Peer(
            name="quantecon, balanced",
            job=other,
            difference=weight,
            # the friction LCP may have several solutions; nearly all states have one
            tolerance=1e-6,
            unit="of the weight carried",
            share=90.0,
        ),
        solved=lambda answer: answer[0] == SOLVED,
        peer_solved=lambda answer: answer is not None,
        bar=LEMKE_BAR if n == 4 else None,
    )


def _balance(Q: Array, impulses: int) -> Array:
    """One factor for impulses and its inverse for the rest, as math.md 13.2 has it for a balanced LCP."""
    d = 1.0 / np.sqrt(float(np.median(np.diag(Q)[:impulses])))
    return np.concatenate((np.full(impulses, d), np.full(Q.shape[0] - impulses, 1.0 / d)))
