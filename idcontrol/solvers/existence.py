r"""Decide whether a linear complementarity problem w = Qz + r, 0 ≤ z ⊥ w ≥ 0 has a solution, with a proof.

Lemke's ray proves infeasibility only for a positive semidefinite Q. This module searches a tree of linear programs: at
a node some z_i and some w_i are zero, and the other entries are relaxed to z, w ≥ 0. A node is empty if there is a
certificate u (Farkas) with

    (Qᵀu)_j ≤ 0 where z_j is free,   u_i ≥ 0 where w_i is free,   r·u < 0

because then uᵀ(Qz + r) < 0 for all z of the node, whereas uᵀw ≥ 0 for all its w. A certificate depends only on the
decisions at indices where its sign is wrong; these decisions form its conflict. As in satisfiability solvers, the
search remembers conflicts and skips nodes that contain a known conflict. If the conflict of one child does not contain
that child's own decision, it also refutes the other child, which is skipped. The search branches first on the variables
that occur in most conflicts.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from scipy.optimize import linprog

from idcontrol.solvers.lcp import lcp_residual
from idcontrol.solvers.lemke import balancing_scale
from idcontrol.solvers.status import TOLERANCE
from idcontrol.types import Array, Booleans

_VIOLATED: Final = 1e-7
"""A node counts as empty only if its constraint violations sum to more than this, for r with the largest entry 1."""
_EXACT: Final = 1e-6
"""Acceptance threshold of certificates: a certificate must exclude every solution whose entries sum to less than the
reciprocal of this."""
_FADING: Final = 0.95
"""Factor on the weights of all decisions at each new certificate."""


class Existence(enum.IntEnum):
    """Answer to the question whether the problem has a solution."""

    SOLUTION = 0
    """A solution exists; its residual was checked."""
    NONE = 1
    """No solution exists."""
    UNDECIDED = 2
    """The search reached its limit, or a linear program failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Outcome of the search.

    Attributes:
        existence: Answer of the search.
        z: The solution if there is one, shape (n,).
        nodes: Number of linear programs solved. If the answer is NONE after one program, no z ≥ 0 has Qz + r ≥ 0.
        excluded: Bound of a proof of non-existence: the entries of any solution would sum to more than this, in scaled
            units. 0 if the answer is not NONE.
    """

    existence: Existence
    z: Array | None
    nodes: int
    excluded: float = 0.0


class _Undecided(Exception):
    """The search cannot continue."""


class _Solution(Exception):
    """A solution, passed as the exception's argument."""


def _program(cost: Array, **constraints: Any) -> Any:
    """Solve a linear program by the simplex method, or by an interior point method if rounding defeats simplex."""
    for method in ("highs-ds", "highs-ipm"):
        program = linprog(cost, method=method, **constraints)
        if program.status == 0:
            return program
    raise _Undecided


@dataclass(slots=True)
class _Search:
    """The state of a search.

    Sets of decisions are bit sets: bit i stands for z_i = 0, bit n + i for w_i = 0.
    """

    Q: Array
    r: Array
    max_nodes: int
    nodes: int = 0
    slack: float = 0.0
    conflicts: list[int] = field(default_factory=list)
    weight: Array = field(init=False)

    def __post_init__(self) -> None:
        self.weight = np.zeros(self.r.size)

    def refute(self, decided: int) -> int:
        """Return a subset of the decisions `decided` that suffices to make the node empty, as a bit set.

        Raises:
            _Solution: The node contains a solution.
            _Undecided: The limit of programs is reached, or rounding prevents a decision.
        """
        n, forced = self.r.size, -1
        for conflict in self.conflicts:
            missing = conflict & ~decided
            if missing == 0:
                return conflict
            last = missing.bit_length() - 1
            if missing == 1 << last and not decided >> (last + n) % (2 * n) & 1:
                forced = last
        if forced >= 0:
            # a known conflict excludes this decision, so only the opposite decision remains
            return self._branch(decided, forced % n, forced < n)
        if self.nodes == self.max_nodes:
            raise _Undecided
        self.nodes += 1
        z_zero, w_zero = self._unpack(decided), self._unpack(decided >> n)
        # The solution of this program is the certificate; the multipliers are the z that violates the node's
        # constraints least.
        program = _program(
            self.r,
            A_ub=self.Q.T[~z_zero],
            b_ub=np.zeros(n - int(z_zero.sum())),
            bounds=np.column_stack((np.where(w_zero, -1.0, 0.0), np.ones(n))),
        )
        if program.fun < -_VIOLATED:
            return self._conflict(z_zero, w_zero, program.x, -program.fun)
        z = np.zeros(n)
        z[~z_zero] = np.maximum(-program.ineqlin.marginals, 0.0)
        w = self.Q @ z + self.r
        if lcp_residual(z, w, self.r) <= TOLERANCE:
            raise _Solution(z)
        both = np.where(z_zero | w_zero, 0.0, np.minimum(z, w))
        if not both.max() > 0.0:
            # all pairs are decided, but the residual exceeds the tolerance
            raise _Undecided
        at = int(np.argmax(np.where(both > 0.0, self.weight + both / both.max(), -np.inf)))
        return self._branch(decided, at, bool(z[at] < w[at]))

    def _branch(self, decided: int, at: int, z_first: bool) -> int:
        """Refute both decisions about the pair `at`."""
        z_zero, w_zero = 1 << at, 1 << (at + self.r.size)
        needed = 0
        for choice in (z_zero, w_zero) if z_first else (w_zero, z_zero):
            conflict = self.refute(decided | choice)
            if conflict & choice == 0:
                return conflict
            needed |= conflict
        needed &= ~(z_zero | w_zero)
        self.conflicts.append(needed)
        return needed

    def _conflict(self, z_zero: Booleans, w_zero: Booleans, u: Array, violation: float) -> int:
        """Return the decisions at which the sign of the certificate u is wrong, beyond rounding."""
        push, rounding = self.Q.T @ u, 1e-9 * violation
        z_needed, w_needed = z_zero & (push > rounding), w_zero & (u < -rounding)
        excess = max(float(push[~z_needed].max(initial=0.0)), -float(u[~w_needed].min(initial=0.0)))
        self.slack = max(self.slack, excess / violation)
        # in badly scaled units an absolute bound fails: each sum is compared with its own terms
        own = bool((push <= _EXACT * (np.abs(self.Q).T @ np.abs(u)))[~z_needed].all())
        if self.slack > _EXACT or not own or violation <= _EXACT * float(np.abs(self.r) @ np.abs(u)):
            raise _Undecided
        needed = z_needed | w_needed
        self.weight *= _FADING
        self.weight[needed] += 1.0
        conflict = sum(1 << int(i) for i in np.flatnonzero(np.concatenate((z_needed, w_needed))))
        self.conflicts.append(conflict)
        return conflict

    def _unpack(self, bits: int) -> Booleans:
        return np.array([bits >> i & 1 == 1 for i in range(self.r.size)])


def decide(Q: Array, r: Array, scale: Array | None = None, *, max_nodes: int = 1000) -> Decision:
    """Decide whether w = Qz + r, 0 ≤ z ⊥ w ≥ 0 has a solution.

    Args:
        Q: Matrix, shape (n, n).
        r: Constant, shape (n,).
        scale: Positive factors that make entries of Q about 1 (math.md, section 13.2), shape (n,); by default the
            factors that make the diagonal 1.
        max_nodes: Limit of linear programs; in the worst case the necessary number grows exponentially with n.

    Returns:
        A solution with a checked residual, or a proof that no solution exists, or neither; and the number of programs.
    """
    if scale is None:
        scale = balancing_scale(Q)
    balanced, constant = scale[:, None] * Q * scale, scale * r
    largest = float(np.abs(constant).max(initial=0.0))
    if not np.isfinite(balanced.sum() + constant.sum()):
        return Decision(existence=Existence.UNDECIDED, z=None, nodes=0)
    if not constant.min(initial=0.0) < 0.0:
        return Decision(existence=Existence.SOLUTION, z=np.zeros(r.size), nodes=0)
    search = _Search(Q=balanced, r=constant / largest, max_nodes=max_nodes)
    try:
        search.refute(0)
    except _Undecided:
        return Decision(existence=Existence.UNDECIDED, z=None, nodes=search.nodes)
    except _Solution as solution:
        z = largest * scale * solution.args[0]
        return Decision(existence=Existence.SOLUTION, z=z, nodes=search.nodes)
    excluded = np.inf if search.slack == 0.0 else 1.0 / search.slack
    return Decision(existence=Existence.NONE, z=None, nodes=search.nodes, excluded=excluded)
