"""The problem that every contact model solves once per step, and its solution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import msgspec
import numpy as np

from idcontrol.contact.contacts import Contacts
from idcontrol.errors import InputError
from idcontrol.kernels.jit import njit
from idcontrol.types import Array, Integers, Status

PUSH_OUT_SPEED = 0.1
"""Largest speed at which penetration is corrected [m/s]; removing 5 mm in a step of 1 ms would need 5 m/s (math.md,
section 13.6)."""

CLOSED_GAP = 1e-5
"""Gap up to which a contact is closed [m]. Only closed contacts may be held against slip or have drag."""

SQUEEZE: Final = "squeeze"
"""Note: it is proved that no choice of the free velocities keeps the contacts apart."""

WarmStart: TypeAlias = dict[int, int]
"""Memory of the last step: for each contact identity, a bit set of its active rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prescribed:
    """Velocities that the motors must realize at the end of the step: ``v⁺[index] = velocity``.

    Attributes:
        index: Indices of the prescribed velocities, shape (p,).
        velocity: Prescribed values b, shape (p,) [rad/s or m/s].
    """

    index: Integers
    velocity: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Bilateral:
    """Rows that hold with equality, ``rows v⁺ = target - compliance * impulse``: closed loops, welds, springs.

    Attributes:
        rows: Rows over the velocities, shape (k, m).
        target: Target velocities, shape (k,) [m/s or rad/s]; ``-φ/h`` corrects drift.
        compliance: Velocity per impulse, shape (k,); 0 is rigid.
    """

    rows: Array
    target: Array
    compliance: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProblem:
    """One step: find v⁺ and impulses with ``M v⁺ + κ = Jᵀf + Pᵀ(hτ) + Λᵀg`` (math.md, sections 1-3).

    Attributes:
        h: Length of the step [s].
        M: Joint-space inertia, shape (m, m).
        kappa: ``κ = -h f_ext - M v``, shape (m,) [N s, N m s]; in forward mode, the motor torques are part of f_ext.
        contacts: Contact rows and parameters.
        prescribed: None (forward), or the velocities that the motors must realize (inverse).
        bilateral: Rows held with equality; None for no rows.

    Raises:
        InputError: Shapes do not match, an index does not exist or is repeated, the length of the step is not positive
            and finite, M is not symmetric (kernels read half of it), a gap is infinite, or a compliance is negative.
    """

    h: float
    M: Array
    kappa: Array
    contacts: Contacts
    prescribed: Prescribed | None = None
    bilateral: Bilateral | None = None

    def __post_init__(self) -> None:
        m = self.M.shape[0]
        if not 0.0 < self.h < np.inf:
            raise InputError(f"the step h must be positive and finite, not {self.h}")
        columns = self.contacts.jacobian.shape[1]
        if self.M.shape != (m, m) or self.kappa.shape != (m,) or columns != m:
            raise InputError(
                f"inertia, kappa and contact rows have shapes {self.M.shape}, {self.kappa.shape} and (3n, {columns}); "
                f"they must be ({m}, {m}), ({m},) and (3n, {m})"
            )
        if not _symmetric(self.M):
            raise InputError("the inertia M is not symmetric; one half of it must mirror the other")
        far = _first_infinite(self.contacts.gap)
        if far >= 0:
            raise InputError(f"contact {far}: the gap is {self.contacts.gap[far]} m; it must be finite")
        if self.prescribed is not None:
            _refuse_misfit(self.prescribed, m)
        ties = self.bilateral
        if ties is None:
            return
        if not (ties.rows.ndim == 2 and ties.rows.shape[1] == m and len(ties.rows) == ties.target.size):
            raise InputError(f"bilateral rows have shape {ties.rows.shape}; it must be ({ties.target.size}, {m})")
        if ties.compliance.shape != ties.target.shape or not (ties.compliance >= 0.0).all():
            raise InputError("bilateral rows must each have a compliance of 0 or more")


SYMMETRIC: Final = 1e-9
"""Largest allowed difference of M_ij and M_ji, relative to √(M_ii M_jj). Rounding causes about 1e-15 for any masses."""


@njit(cache=True, error_model="numpy")
def _symmetric(M: Array) -> bool:  # pragma: no cover - compiled
    """True if the inertia is symmetric; a NaN passes, since the models detect it."""
    equal = True
    for i in range(M.shape[0]):
        for j in range(i):
            equal = equal and not abs(M[i, j] - M[j, i]) > SYMMETRIC * np.sqrt(abs(M[i, i] * M[j, j]))
    return equal


@njit(cache=True)
def _first_infinite(x: Array) -> int:  # pragma: no cover - compiled
    """Return the index of the first infinite entry, or -1 if all entries are finite."""
    for i in range(x.shape[0]):
        if abs(x[i]) == np.inf:
            return i
    return -1


def _refuse_misfit(prescribed: Prescribed, m: int) -> None:
    """Raise InputError if shapes differ, or a prescribed velocity is repeated or does not exist."""
    index = prescribed.index.tolist()
    if prescribed.index.shape != prescribed.velocity.shape:
        raise InputError(f"{prescribed.velocity.size} velocities are prescribed for {prescribed.index.size} indices")
    if index and not (min(index) >= 0 and max(index) < m and len(set(index)) == len(index)):
        raise InputError(f"prescribed.index is {index}; each must be one of 0 to {m - 1}, and none twice")


class StepSolution(msgspec.Struct, frozen=True, kw_only=True):
    """A contact model's solution of a step.

    Attributes:
        v_plus: Velocity at the end of the step, shape (m,), unactuated velocities first.
        impulses: Contact impulses (normal, first tangent, second tangent), shape (n, 3) [N s].
        multipliers: Motor impulses hτ of the prescribed velocities, shape (p,) [N m s]; empty in forward mode.
        status: SOLVED only if the residual was checked; REPAIRED if the solution is inexact or relaxed, or had to be
            regularized; FALLBACK with zero impulses if no solution was found.
        residual: Relative complementarity residual (math.md, section 13.3).
        iterations: Pivots or passes of the solver.
        regularization: Ridge on the diagonal, relative to the diagonal; 0 unless the exact problem failed or the model
            always regularizes.
        note: Reason for the status, e.g. ``"squeeze"``; empty if the first attempt succeeded. A FALLBACK for numerical
            reasons has the note ``"not finite"``, ``"inaccurate"``, or the name of the solver's status.
        warm: Warm start of the next step.
    """

    v_plus: Array
    impulses: Array
    multipliers: Array
    status: Status
    residual: float
    iterations: int
    regularization: float = 0.0
    note: str = ""
    warm: WarmStart = {}


class Ending(NamedTuple):
    """Outcome of a contact model's solver; fields as in `StepSolution`."""

    status: Status
    residual: float
    iterations: int
    regularization: float = 0.0
    note: str = ""


def warm_bits(warm: WarmStart | None, contacts: Contacts) -> Integers:
    """Return the bit set of each contact's active rows in the last step, shape (n,); 0 for new contacts."""
    active: Integers = np.zeros(len(contacts), dtype=np.int64)
    if warm:
        for i, key in enumerate(contacts.identity.tolist()):
            active[i] = warm.get(key, 0)
    return active


ContactModel: TypeAlias = Callable[[StepProblem, WarmStart | None], StepSolution]


@njit(cache=True)
def _complement(m: int, index: Integers) -> Integers:  # pragma: no cover - compiled
    known = np.zeros(m, dtype=np.bool_)
    known[index] = True
    out = np.empty(m - index.shape[0], dtype=np.int64)
    count = 0
    for i in range(m):
        if not known[i]:
            out[count] = i
            count += 1
    return out


_NO_INDEX: Integers = np.zeros(0, dtype=np.int64)
_NO_VELOCITY: Array = np.zeros(0)


def free_indices(problem: StepProblem) -> tuple[Integers, Integers, Array]:
    """Return the indices of the unknown and of the prescribed velocities, and the prescribed values."""
    m = problem.M.shape[0]
    if problem.prescribed is None:
        return np.arange(m), _NO_INDEX, _NO_VELOCITY
    return _complement(m, problem.prescribed.index), problem.prescribed.index, problem.prescribed.velocity
