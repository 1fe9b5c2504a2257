"""Which contacts with infinite friction stick (math.md, section 4.1).

What presses sticks, what parts does not, and what does neither keeps its role. A set of contacts in these roles is
found by trying, and where that goes in circles, by a search over sets, which up to six contacts sees them all. There
may be none, between two fingers for example: a contact presses while it may slip and would part if it stuck. The limit
of ever larger friction tells what to do: the smaller the normal force, the less friction is short, so such a contact
holds along its tangents at a normal force that vanishes. (Without friction, a box would slide out of the hand that
holds it.)
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
"""Sets of sticking contacts that a search looks at: all that up to six contacts have. A set takes some 5 µs where no
other contact slides."""

MANY: Final = 12
"""Contacts up to which there is a search: of more, `MOST` sets are next to nothing, and each takes longer."""

SAME: Final = 1e-16
"""Rank tolerance, on squares, of rows that are one but for rounding."""

YIELD: Final = 1e-3
"""A compliant contact does not stick that creeps faster than this part of the fastest velocity at zero impulse: what
tangents ask for contradicts itself, and they give way. Others creep by 1e-4 of it and less."""

SLIGHT: Final = HELD_RANK_TOLERANCE**0.5
"""Rows that were left out as dependent may move by this part of their unit, as `LEFT_OUT` says: forces that hold rows
which differ by less are large, and of no use (math.md, section 4.2). If they move by more they count as independent."""

LEFT_OUT: Final = "rows that should hold move"
"""Note where the roles are right, but rows that nearly depend on others were left out, and move."""
UNSETTLED: Final = "which contacts stick did not settle"
"""Note where the search ended before every set was decided."""
CONTRADICTED: Final = "whichever contacts stick, one of them slips or parts, or another presses"
"""Note where no set of sticking contacts is right: all were tried."""

_NOTES: Final = ("", LEFT_OUT, SQUEEZE, CONTRADICTED, UNSETTLED)
"""What a search says, in the order of the numbers that `scan` returns."""
_RIGHT: Final = 0
_NEARLY: Final = 1
_SQUEEZED: Final = 2
_ALL_WRONG: Final = 3
_OPEN_STILL: Final = 4

Found = TypeVar("Found", covariant=True)


class Attempt(NamedTuple, Generic[Found]):
    """The step, solved for assumed roles.

    Attributes:
        found: The solution that is handed back.
        solved: True if it has impulses.
        presses: Contacts with a normal impulse, or that were left out and approach, shape (n,).
        parts: Contacts that open, shape (n,).
        moves: How fast rows move that were held, relative to their units, as some that nearly depend on others may have
            been left out; inf where contacts move that should not; 0 where all hold.
        impossible: True if it is proved that no velocity holds these contacts and lets none of those that take part
            approach. With more contacts held there is none, either.
    """

    found: Found
    solved: bool
    presses: Booleans
    parts: Booleans
    moves: float = 0.0
    impossible: bool = False


Try: TypeAlias = Callable[[Booleans, Booleans, float], Attempt[Found]]
"""Solves the step with the tangents of given contacts held, shape (n,), others left out, shape (n,), and no friction at
the rest; held rows are independent to a rank tolerance."""

Look: TypeAlias = Callable[[Booleans], tuple[Found | None, str]]
"""Looks for a set that is right, first those like the given one, shape (n,); returns what `search` does."""


def settle(
    may: Booleans,
    stick: Booleans,
    attempt: Try[Found],
    *,
    lets_slip: bool = False,
    look: Look[Found] | None = None,
) -> tuple[Found, str]:
    """Try roles until all are right.

    Args:
        may: Contacts that may stick, shape (n,).
        stick: Those that stick at first, shape (n,).
        attempt: See `Try`.
        lets_slip: Whether contacts may press without friction where no set is right and no impulses hold those that
            should stick: a machine that is simulated must not fall through the ground for it.
        look: A faster `search` than that by attempts.

    Returns:
        What the last attempt that counts has found, and what is wrong with it: `LEFT_OUT`, or why the search found
        nothing; empty if all is right. Where roles are not, a contact parts and holds along its tangents, presses
        without friction because no impulses hold it, or slips though it is held.
    """
    nothing, seen, again = np.zeros_like(may), set[bytes](), False
    while True:
        tried = attempt(stick, nothing, HELD_RANK_TOLERANCE)
        wanted = may & np.where(stick, tried.presses | ~tried.parts, tried.presses & (not again))
        if (wanted == stick).all():
            break
        seen.add(stick.tobytes())
        # in circles, or for too long: from now on they are let go alone
        again |= wanted.tobytes() in seen or len(seen) > may.size + 1
        stick = wanted
    slips = may & ~stick & tried.presses
    if holds(tried) and not slips.any():
        return tried.found, LEFT_OUT if tried.moves else ""
    found, why = search(may, stick, attempt) if look is None else look(stick)
    if found is not None:
        return found, why
    if tried.solved and not slips.any():
        return tried.found, LEFT_OUT
    if lets_slip and not tried.solved and why != SQUEEZE:
        stick, tried = nothing, attempt(nothing, nothing, HELD_RANK_TOLERANCE)
        slips = may & tried.presses
    while slips.any():
        stick = stick | slips
        other = attempt(stick, nothing, HELD_RANK_TOLERANCE)
        if not other.solved:
            break
        tried, slips = other, may & ~stick & other.presses
    return tried.found, why


@register_jitable(inline="always")  # interpreted code calls the function itself
def holds(tried: Attempt[Found]) -> bool:
    """True if impulses hold the rows that should hold, or to `SLIGHT` where exact feasibility is not ruled out."""
    return tried.solved and (tried.moves == 0.0 or (tried.moves <= SLIGHT and not tried.impossible))


def search(may: Booleans, near: Booleans, attempt: Try[Found]) -> tuple[Found | None, str]:
    """Search by interpreted attempts; arguments and results are those of `scan` and `result_of`."""
    return result_of(scan(attempt, (), may, near))


def result_of(scanned: tuple[Found, int]) -> tuple[Found | None, str]:
    """Return what `scan` found, and `LEFT_OUT` or nothing; or None, and `SQUEEZE`, `CONTRADICTED` or `UNSETTLED`.

    `SQUEEZE` and `CONTRADICTED` are proved.
    """
    found, number = scanned
    return found if number in (_RIGHT, _NEARLY) else None, _NOTES[number]


def scan(attempt: Any, problem: tuple[Any, ...], may: Booleans, near: Booleans) -> tuple[Any, int]:
    """Look for a set of sticking contacts that is right, among those of `may`, first those like `near`.

    Contacts of `may` that do not stick are left out: they have no impulse, and must not approach for lack of it. Given
    the set, v⁺ is then unique where other contacts have no friction, and what it shows of the roles is a proof. A set
    that no velocity satisfies proves the same of every set that contains it. One whose rows contradict each other by
    less than `SLIGHT` is the answer only where no other set is right. Compiled and interpreted attempts share this
    text.

    Args:
        attempt: A `Try`; `problem` follows its three arguments.
        problem: Further arguments of the attempts.
        may: Contacts that may stick, shape (n,).
        near: Those that stick in the first set, shape (n,).

    Returns:
        `Attempt.found` of the set that is right, or of any other; the place of the note in `_NOTES`.
    """
    nothing = np.zeros_like(may)
    nearly = attempt(nothing, nothing, HELD_RANK_TOLERANCE, *problem)
    if nearly.impossible:
        return nearly.found, _SQUEEZED
    tried_first = sets(may, near)
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
                return tried.found, _RIGHT if tried.moves == 0.0 else _NEARLY
            if right and tried.solved and tried.moves <= SLIGHT and ending != _NEARLY:
                nearly, ending = tried, _NEARLY
            if tried.impossible or tried.moves == 0.0:
                break
        impossible[at] = tried.impossible
        proved = proved and (tried.impossible or (tried.solved and tried.moves == 0.0))
    if ending != _NEARLY:
        ending = _ALL_WRONG if proved else _OPEN_STILL
    return nearly.found, ending


@njit(cache=True)
def sets(may: Booleans, near: Booleans) -> Booleans:  # pragma: no cover - compiled
    """Subsets of `may` (n,), shape (sets, n): up to `MOST`, those that differ from `near` in fewer contacts first.

    There are none of more than `MANY` contacts.
    """
    who = np.flatnonzero(may)
    count, row = who.shape[0], 0
    out = np.zeros((min(1 << count, MOST) if count <= MANY else 0, may.shape[0]), dtype=np.bool_)
    for changed in range(count + 1):
        picked = np.arange(changed)
        while row < out.shape[0]:
            for i in who:
                out[row, i] = near[i]
            for a in picked:
                out[row, who[a]] = not near[who[a]]
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
