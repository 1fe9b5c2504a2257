"""Which contacts with infinite friction stick (math.md, section 4.1).

A contact that presses sticks, one that parts does not, and one that does neither keeps its role. Roles are tried until
they are consistent; if that cycles, a search over sets follows, which covers all sets of up to six contacts. There may
be no consistent set, between two fingers for example: a contact presses if it may slip and would part if it stuck. The
limit of growing friction decides: such a contact holds along its tangents with a vanishing normal force, since the
friction that it needs is ever smaller relative to μ. (Without friction, a box would slide out of the hand that holds
it.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numba.extending import register_jitable

from idcontrol.kernels.jit import njit
from idcontrol.models.step import SQUEEZE
from idcontrol.solvers.rank import HELD_RANK_TOLERANCE
from idcontrol.types import Booleans

MOST: Final = 64
"""Limit of sets of sticking contacts in a search: all sets of six contacts. A set takes some 5 µs without sliding
contacts."""

MANY: Final = 12
"""Limit of contacts for a search: of more contacts, `MOST` sets cover next to nothing, and each takes longer."""

SAME: Final = 1e-16
"""Rank tolerance, on squares, of rows that are equal up to rounding."""

YIELD: Final = 1e-3
"""A compliant contact does not stick if it creeps faster than this part of the fastest velocity at zero impulse: its
tangents conflict, and yield. Others creep by 1e-4 of it or less."""

SLIGHT: Final = HELD_RANK_TOLERANCE**0.5
"""Rows that were dropped as dependent may move by this part of their unit, noted as `MOVING`: holding rows that differ
by less takes large, useless forces (math.md, section 4.2). If they move more, they count as independent."""

MOVING: Final = "rows that should hold move"
"""Note: the roles are right, but rows that were dropped as nearly dependent move."""
UNSETTLED: Final = "which contacts stick did not settle"
"""Note: the search ended before every set was decided."""
CONTRADICTED: Final = "whichever contacts stick, one of them slips or parts, or another presses"
"""Note: no set of sticking contacts is right; all were tried."""

_NOTES: Final = ("", MOVING, SQUEEZE, CONTRADICTED, UNSETTLED)
"""Notes of a search, in the order of the numbers of `scan`."""
_RIGHT: Final = 0
_NEARLY: Final = 1
_SQUEEZED: Final = 2
_ALL_WRONG: Final = 3
_OPEN_STILL: Final = 4

Answer = TypeVar("Answer", covariant=True)


class Attempt(NamedTuple, Generic[Answer]):
    """The step, solved for assumed roles.

    Attributes:
        answer: The solution.
        solved: True if it has impulses.
        presses: Contacts with a normal impulse, or that were excluded and approach, shape (n,).
        parts: Contacts that open, shape (n,).
        moves: Speed of held rows, relative to their units, as some nearly dependent ones may have been dropped; inf if
            contacts move that should not; 0 if all hold.
        impossible: True if provably no velocity holds these contacts without others approaching. Supersets of held
            contacts are then impossible, too.
    """

    answer: Answer
    solved: bool
    presses: Booleans
    parts: Booleans
    moves: float = 0.0
    impossible: bool = False


Try: TypeAlias = Callable[[Booleans, Booleans, float], Attempt[Answer]]
"""Solves the step with the tangents of some contacts held, shape (n,), others excluded, shape (n,), and no friction at
the rest; held rows are independent to a rank tolerance."""

Look: TypeAlias = Callable[[Booleans], tuple[Answer | None, str]]
"""Searches for a consistent set, first those similar to a guess, shape (n,); returns what `search` does."""


def settle(
    may: Booleans,
    stick: Booleans,
    attempt: Try[Answer],
    *,
    lets_slip: bool = False,
    look: Look[Answer] | None = None,
) -> tuple[Answer, str]:
    """Try roles until all are right.

    Args:
        may: Contacts that may stick, shape (n,).
        stick: Initially sticking contacts, shape (n,).
        attempt: See `Try`.
        lets_slip: True if contacts may press without friction when no set is right and no impulses hold those that
            should stick: a simulated robot must not fall through the ground.
        look: A faster `search` than the default.

    Returns:
        The answer of the last attempt that counts, and what is wrong with it: `MOVING`, or why the search failed; empty
        if all is right. In wrong roles, a contact parts and holds along its tangents, presses without friction because
        no impulses hold it, or slips though it is held.
    """
    nothing, seen, again = np.zeros_like(may), set[bytes](), False
    while True:
        tried = attempt(stick, nothing, HELD_RANK_TOLERANCE)
        wanted = may & np.where(stick, tried.presses | ~tried.parts, tried.presses & (not again))
        if (wanted == stick).all():
            break
        seen.add(stick.tobytes())
        # cycling, or for too long: from now on contacts are only released
        again |= wanted.tobytes() in seen or len(seen) > may.size + 1
        stick = wanted
    slips = may & ~stick & tried.presses
    if holds(tried) and not slips.any():
        return tried.answer, MOVING if tried.moves else ""
    answer, why = search(may, stick, attempt) if look is None else look(stick)
    if answer is not None:
        return answer, why
    if tried.solved and not slips.any():
        return tried.answer, MOVING
    if lets_slip and not tried.solved and why != SQUEEZE:
        stick, tried = nothing, attempt(nothing, nothing, HELD_RANK_TOLERANCE)
        slips = may & tried.presses
    while slips.any():
        stick = stick | slips
        other = attempt(stick, nothing, HELD_RANK_TOLERANCE)
        if not other.solved:
            break
        tried, slips = other, may & ~stick & other.presses
    return tried.answer, why


@register_jitable(inline="always")  # interpreted code calls the function itself
def holds(tried: Attempt[Answer]) -> bool:
    """True if impulses hold the rows that should hold, or to `SLIGHT` where exact feasibility is not ruled out."""
    return tried.solved and (tried.moves == 0.0 or (tried.moves <= SLIGHT and not tried.impossible))


def search(may: Booleans, guess: Booleans, attempt: Try[Answer]) -> tuple[Answer | None, str]:
    """Search by interpreted attempts; arguments and results as for `scan` and `result_of`."""
    return result_of(scan(attempt, (), may, guess))


def result_of(scanned: tuple[Answer, int]) -> tuple[Answer | None, str]:
    """Return the answer of `scan`, and `MOVING` or nothing; or None, and `SQUEEZE`, `CONTRADICTED` or `UNSETTLED`.

    `SQUEEZE` and `CONTRADICTED` are proved.
    """
    answer, number = scanned
    return answer if number in (_RIGHT, _NEARLY) else None, _NOTES[number]


def scan(attempt: Any, problem: tuple[Any, ...], may: Booleans, guess: Booleans) -> tuple[Any, int]:
    """Search for a consistent set of sticking contacts among `may`, first those similar to `guess`.

    Contacts of `may` that do not stick are excluded: they have no impulse, and must not approach for lack of it. For a
    fixed set, v⁺ is unique if other contacts have no friction, and the roles it shows are a proof. If no velocity
    satisfies a set, no superset is possible, either. A set whose rows contradict each other by less than `SLIGHT` is
    the answer only if no other set is right. Compiled and interpreted attempts share this function.

    Args:
        attempt: A `Try`; `problem` follows its three arguments.
        problem: Further arguments of the attempts.
        may: Contacts that may stick, shape (n,).
        guess: Sticking contacts of the first set, shape (n,).

    Returns:
        `Attempt.answer` of the consistent set, or of any other; index of the note in `_NOTES`.
    """
    nothing = np.zeros_like(may)
    nearly = attempt(nothing, nothing, HELD_RANK_TOLERANCE, *problem)
    if nearly.impossible:
        return nearly.answer, _SQUEEZED
    tried_first = sets(may, guess)
    impossible = np.zeros(tried_first.shape[0], dtype=np.bool_)
    ending, proved = _OPEN_STILL, 2.0 ** may.sum() <= MOST
    for at in range(tried_first.shape[0]):
        stick = tried_first[at]
        out, known = may & ~stick, False
        for before in range(at):
            known = known or (impossible[before] and (stick >= tried_first[before]).all())
        if known:
            continue
        for rank_tolerance in (HELD_RANK_TOLERANCE, SAME):
            tried = attempt(stick, out, rank_tolerance, *problem)
            right = not ((out & tried.presses) | (stick & tried.parts & ~tried.presses)).any()
            if right and holds(tried):
                return tried.answer, _RIGHT if tried.moves == 0.0 else _NEARLY
            if right and tried.solved and tried.moves <= SLIGHT and ending != _NEARLY:
                nearly, ending = tried, _NEARLY
            if tried.impossible or tried.moves == 0.0:
                break
        impossible[at] = tried.impossible
        proved = proved and (tried.impossible or (tried.solved and tried.moves == 0.0))
    if ending != _NEARLY:
        ending = _ALL_WRONG if proved else _OPEN_STILL
    return nearly.answer, ending


@njit(cache=True)
def sets(may: Booleans, guess: Booleans) -> Booleans:  # pragma: no cover - compiled
    """Return up to `MOST` subsets of `may` (n,), shape (sets, n), those most similar to `guess` first.

    More than `MANY` contacts have none.
    """
    who = np.flatnonzero(may)
    count, row = who.shape[0], 0
    out = np.zeros((min(1 << count, MOST) if count <= MANY else 0, may.shape[0]), dtype=np.bool_)
    for changed in range(count + 1):
        picked = np.arange(changed)
        while row < out.shape[0]:
            for i in who:
                out[row, i] = guess[i]
            for a in picked:
                out[row, who[a]] = not guess[who[a]]
            row += 1
            last = changed - 1
            while last >= 0 and picked[last] == count - changed + last:
                last -= 1
            if last < 0:
                break
            picked[last] += 1
            for later in range(last + 1, changed):
                picked[later] = picked[later - 1] + 1
    return out
