"""Search for the contacts with infinite friction that stick (math.md, section 4.1).

A contact with a normal impulse sticks, an opening contact does not, and any other contact keeps its role (sticking or
not). Roles are tried until they are consistent. If the roles cycle, sets of sticking contacts are searched; the search
covers all sets of up to six contacts. A consistent set may not exist, for example between two fingers: a contact
presses if it may slip, and would lift off if it stuck. The limit μ → ∞ then decides: for a fixed friction force, the
necessary normal force falls as 1/μ. Such a contact therefore holds along its tangents with a vanishing normal force.
(Without friction, a box would slide out of the hand.)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numba.extending import register_jitable

from idcontrol.kernels.jit import njit
from idcontrol.models.step import SQUEEZE
from idcontrol.solvers.rank import HELD_RANK_TOLERANCE
from idcontrol.types import Booleans

MOST: Final = 64
"""Largest number of sets of sticking contacts in a search: the number of all subsets of six contacts. Each set takes
about 5 µs without sliding contacts.
"""

MANY: Final = 12
"""Largest number of contacts for a search. With more contacts, `MOST` sets are only a small part of all sets, and each
set takes longer.
"""

SAME: Final = 1e-16
"""Rank tolerance for rows that are equal up to rounding, relative to the squared length."""

YIELD: Final = 1e-3
"""Speed above which a compliant contact does not stick, relative to the fastest velocity at zero impulse: its tangents
conflict, and yield. Other compliant contacts creep at 1e-4 or less in this unit.
"""

SLIGHT: Final = HELD_RANK_TOLERANCE**0.5
"""Speed, relative to the row's reference speed, up to which rows dropped as dependent may move; the note is then
`MOVING`. Rows that move faster count as independent. Holding nearly dependent rows exactly would take large, useless
forces (math.md, section 4.2).
"""

MOVING: Final = "rows that should hold move"
"""Note for consistent roles if rows that were dropped as nearly dependent are not at rest."""
UNSETTLED: Final = "the set of sticking contacts is undecided"
"""Note for a search that ended before every set was decided."""
CONTRADICTED: Final = "no set of sticking contacts is consistent"
"""Note for a search that tried all sets; none is consistent."""

NOTES: Final = ("", MOVING, SQUEEZE, CONTRADICTED, UNSETTLED)
"""Notes of a search, indexed by the result of `scan`."""
CONSISTENT: Final = 0
_NEARLY: Final = 1
_SQUEEZED: Final = 2
_ALL_WRONG: Final = 3
_OPEN_STILL: Final = 4

Answer = TypeVar("Answer", covariant=True)


class Attempt(NamedTuple, Generic[Answer]):
    """Solution of the step for assumed roles.

    Attributes:
        answer: The solution.
        solved: True if impulses were computed.
        presses: Contacts with a normal impulse, and excluded contacts (`scan`) that approach, shape (n,).
        parts: Contacts that open, shape (n,).
        moves: Largest speed of the held rows, relative to their reference speeds: 0 if all rows hold, and inf if a
            contact moves that must not move. Other values occur if nearly dependent rows were dropped.
        impossible: True if it is proved that no velocity holds these contacts without an approach of other contacts.
            Every superset of the held contacts is then also impossible.
    """

    answer: Answer
    solved: bool
    presses: Booleans
    parts: Booleans
    moves: float = 0.0
    impossible: bool = False


Try: TypeAlias = Callable[[Booleans, Booleans, float], Attempt[Answer]]
"""Solves the step for the contacts whose tangents hold, shape (n,), the excluded contacts, shape (n,), and the rank
tolerance of held rows. Other contacts with infinite friction are without friction.
"""


def settle(
    may: Booleans,
    stick: Booleans,
    attempt: Try[Answer],
    *,
    lets_slip: bool = False,
) -> tuple[Answer, str]:
    """Run `settled` over interpreted attempts; return the answer and its note, one of `NOTES`."""
    answer, number = settled(attempt, partial(scan, attempt, ()), (), may, stick, lets_slip)
    return answer, NOTES[number]


def settled(
    attempt: Any, find: Any, problem: tuple[Any, ...], may: Booleans, stick: Booleans, lets_slip: bool
) -> tuple[Any, int]:
    """Try which contacts stick until the answer is consistent; compiled and interpreted attempts share this function.

    Args:
        attempt: A `Try`; `problem` follows its three arguments.
        find: Function of `may`, a guess and `problem` that returns the result of `scan`.
        problem: Further arguments of the attempts.
        may: Contacts that may stick, shape (n,).
        stick: Initially sticking contacts, shape (n,).
        lets_slip: True if contacts may press without friction when no set is consistent and no impulses hold the
            contacts that should stick; a simulated robot must not fall through the ground.

    Returns:
        The answer of the accepted attempt, and the index of its note in `NOTES`. The note is empty if all roles are
        consistent; otherwise it is `MOVING`, or the reason why the search failed. With inconsistent roles, a contact
        opens but holds along its tangents, presses without friction because no impulses hold it, or slips although it
        is held.
    """
    nothing, again, count, n = np.zeros_like(may), False, 0, may.shape[0]
    seen = np.zeros((n + 2, n), dtype=np.bool_)
    while True:
        tried = attempt(stick, nothing, HELD_RANK_TOLERANCE, *problem)
        wanted = may & np.where(stick, tried.presses | ~tried.parts, tried.presses & (not again))
        if (wanted == stick).all():
            break
        if not again:
            seen[count] = stick
            count += 1
            # the roles cycle, or change for too long: from now on contacts are only released
            again = count > n + 1
            for before in range(count):
                again = again or (seen[before] == wanted).all()
        stick = wanted
    slips = may & ~stick & tried.presses
    if holds(tried) and not slips.any():
        return tried.answer, CONSISTENT if tried.moves == 0.0 else _NEARLY
    answer, number = find(may, stick, *problem)
    if number in (CONSISTENT, _NEARLY):
        return answer, number
    if tried.solved and not slips.any():
        return tried.answer, _NEARLY
    if lets_slip and not tried.solved and number != _SQUEEZED:
        stick, tried = nothing, attempt(nothing, nothing, HELD_RANK_TOLERANCE, *problem)
        slips = may & tried.presses
    while slips.any():
        stick = stick | slips
        other = attempt(stick, nothing, HELD_RANK_TOLERANCE, *problem)
        if not other.solved:
            break
        tried, slips = other, may & ~stick & other.presses
    return tried.answer, number


@register_jitable(inline="always")  # inlined in compiled code, a plain call in interpreted code
def holds(tried: Attempt[Answer]) -> bool:
    """True if the constraints hold exactly, or hold to `SLIGHT` and are not proved to be infeasible."""
    return tried.solved and (tried.moves == 0.0 or (tried.moves <= SLIGHT and not tried.impossible))


def scan(attempt: Any, problem: tuple[Any, ...], may: Booleans, guess: Booleans) -> tuple[Any, int]:
    """Search for a consistent set of sticking contacts among `may`, beginning with sets similar to `guess`.

    Contacts of `may` that do not stick are excluded: they have no impulse, and must not approach without it. If no
    velocity satisfies a set, its supersets are skipped. A set with rows that contradict each other by less than
    `SLIGHT` is the answer only if no other set is consistent. A failure of all sets proves that no set is consistent
    only if all other contacts are frictionless: v⁺ is then unique for each set.

    Args:
        attempt: A `Try`; `problem` follows its three arguments.
        problem: Further arguments of the attempts.
        may: Contacts that may stick, shape (n,).
        guess: Sticking contacts of the first set, shape (n,).

    Returns:
        `Attempt.answer` of the consistent set, or of any set if no set is consistent; index of the note in `NOTES`.
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
                return tried.answer, CONSISTENT if tried.moves == 0.0 else _NEARLY
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
    """Return up to `MOST` subsets of `may` (n,), shape (sets, n), in decreasing similarity to `guess`.

    For more than `MANY` contacts no subset is returned.
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
