r"""Whether a linear complementarity problem w = Qz + r, 0 ≤ z ⊥ w ≥ 0 has a solution at all, with the proof.

Lemke's ray proves that there is none only where Q is positive semidefinite (for Q copositive on a sufficient condition).
Here a tree of linear programs decides: at a node some z_i and some w_i are zero, the rest is relaxed to z, w ≥ 0. A node
is empty if there is a certificate u (Farkas) with

    (Qᵀu)_j ≤ 0 where z_j is free,   u_i ≥ 0 where w_i is free,   r·u < 0

since then uᵀ(Qz + r) < 0 for all its z, though it should not be negative. A certificate needs only the decisions at
which it has the wrong sign: a decision that neither child's certificate needs is undone with both its children, as
solvers of satisfiability problems do, and what certificates need most is decided first.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from scipy.optimize import linprog

from idcontrol.solvers.lcp import lcp_residual
from idcontrol.solvers.status import TOLERANCE
from idcontrol.types import Array, Integers

_FREE: Final = 0
_Z_ZERO: Final = 1
_W_ZERO: Final = 2

_VIOLATED: Final = 1e-7
"""A node whose constraints miss each other by this much, summed, may be empty; r has largest entry 1."""
_EXACT: Final = 1e-6
"""A certificate counts where it excludes every solution whose entries sum to less than 1 over this."""
_FADING: Final = 0.95
"""How much less a decision counts that a certificate needed one certificate ago."""


class Existence(enum.IntEnum):
    """What is known."""

    SOLUTION = 0
    """There is one; its residual was checked."""
    NONE = 1
    """There is none."""
    UNDECIDED = 2
    """The search met its limit, or a linear program failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Outcome of the search.

    Attributes:
        existence: What is known.
        z: The solution where one was found, shape (n,).
        nodes: Linear programs solved; 1 means that there is no z ≥ 0 with Qz + r ≥ 0 at all.
        excluded: Where there is none: any solution would have entries that sum to more than this, in scaled units.
    """

    existence: Existence
    z: Array | None
    nodes: int
    excluded: float = 0.0


class _Undecided(Exception):
    """The search cannot go on."""


class _Found(Exception):
    """A solution, as its argument."""


@dataclass(slots=True)
class _Search:
    Q: Array
    r: Array
    max_nodes: int
    nodes: int = 0
    slack: float = 0.0
    weight: Array = field(init=False)

    def __post_init__(self) -> None:
        self.weight = np.zeros(self.r.size)

    def refute(self, decided: Integers) -> set[int]:
        """Decisions that suffice for the node to be empty; raises `_Found` where it is not."""
        if self.nodes == self.max_nodes:
            raise _Undecided
        self.nodes += 1
        Q, r = self.Q, self.r
        columns = decided != _Z_ZERO
        lower = np.where(decided == _W_ZERO, -1.0, 0.0)
        # The certificate is the solution; its multipliers are the z that violates the node's constraints least.
        program = linprog(
            r,
            A_ub=Q.T[columns],
            b_ub=np.zeros(int(columns.sum())),
            bounds=np.column_stack((lower, np.ones(r.size))),
            method="highs-ds",
        )
        if program.status != 0:
            raise _Undecided
        if program.fun < -_VIOLATED:
            return self._conflict(decided, program.x, -program.fun)
        z = np.zeros(r.size)
        z[columns] = np.maximum(-program.ineqlin.marginals, 0.0)
        w = Q @ z + r
        if lcp_residual(z, w, r) <= TOLERANCE:
            raise _Found(z)
        both = np.where(decided == _FREE, np.minimum(z, w), -np.inf)
        if not both.max() > 0.0:
            # complementary where decided, but not to the tolerance: there is nothing left to decide by
            raise _Undecided
        at = int(np.argmax(np.where(both > 0.0, self.weight + both / both.max(), -np.inf)))
        needed: set[int] = set()
        for choice in (_Z_ZERO, _W_ZERO) if z[at] < w[at] else (_W_ZERO, _Z_ZERO):
            child = decided.copy()
            child[at] = choice
            conflict = self.refute(child)
            if at not in conflict:
                return conflict
            needed |= conflict
        return needed - {at}

    def _conflict(self, decided: Integers, u: Array, violation: float) -> set[int]:
        push = self.Q.T @ u
        rounding = 1e-9 * violation
        needed = np.flatnonzero(
            ((decided == _W_ZERO) & (u < -rounding)) | ((decided == _Z_ZERO) & (push > rounding))
        )
        # what is left of the wrong sign, though the certificate does not count on a decision there
        mask = np.ones(u.size, dtype=np.bool_)
        mask[needed] = False
        left = max(float(push[mask].max(initial=0.0)), -float(u[mask].min(initial=0.0)))
        self.slack = max(self.slack, left / violation)
        if self.slack > _EXACT:
            raise _Undecided
        self.weight *= _FADING
        self.weight[needed] += 1.0
        return set(needed.tolist())


def decide(Q: Array, r: Array, scale: Array, *, max_nodes: int = 1000) -> Decision:
    """Decide whether w = Qz + r, 0 ≤ z ⊥ w ≥ 0 has a solution.

    Args:
        Q: Matrix, shape (n, n).
        r: Constant, shape (n,).
        scale: Positive factors that make entries of Q about 1 (math.md 13.2), shape (n,).
        max_nodes: Linear programs allowed; the time of each grows as n², their number exponentially at worst.

    Returns:
        A solution with a checked residual, or that there is none and how many programs it took to prove, or neither.
    """
    balanced, constant = scale[:, None] * Q * scale, scale * r
    largest = float(np.abs(constant).max(initial=0.0))
    if not constant.min(initial=0.0) < 0.0:
        return Decision(existence=Existence.SOLUTION, z=np.zeros(r.size), nodes=0)
    search = _Search(Q=balanced, r=constant / largest, max_nodes=max_nodes)
    try:
        search.refute(np.zeros(r.size, dtype=np.int64))
    except _Undecided:
        return Decision(existence=Existence.UNDECIDED, z=None, nodes=search.nodes)
    except _Found as found:
        z = largest * scale * found.args[0]
        return Decision(existence=Existence.SOLUTION, z=z, nodes=search.nodes)
    excluded = np.inf if search.slack == 0.0 else 1.0 / search.slack
    return Decision(existence=Existence.NONE, z=None, nodes=search.nodes, excluded=excluded)
