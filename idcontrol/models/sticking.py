"""Which contacts with infinite friction stick (math.md, section 4.1).

What presses sticks, what parts does not, and what does neither keeps its role. A set of contacts in these roles is
found by trying. There may be none, between two fingers for example: a contact presses while it may slip and would part
if it stuck. The limit of ever larger friction tells what to do: the smaller the normal force, the less friction is
short, so such a contact holds along its tangents at a normal force that vanishes. (Without friction, a box would slide
out of the hand that holds it.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from idcontrol.types import Booleans

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt(Generic[Found]):
    """The step, solved for given roles.

    Attributes:
        found: What is to be handed back.
        solved: Whether impulses were found.
        presses: Contacts with a normal impulse, shape (n,).
        parts: Contacts that open, shape (n,).
        holds: Whether all rows that were held do hold: some that nearly depend on others may have been left out.
    """

    found: Found
    solved: bool
    presses: Booleans
    parts: Booleans
    holds: bool = True


def settle(may: Booleans, stick: Booleans, attempt: Callable[[Booleans], Attempt[Found]]) -> tuple[Found, bool]:
    """Try roles until all are right.

    Args:
        may: Contacts that may stick, shape (n,).
        stick: Those that stick at first, shape (n,).
        attempt: Solves the step with the tangents of given contacts held and no friction at the others of `may`.

    Returns:
        What the last attempt that counts has found, and whether its roles are right: False where a contact parts and
        holds along its tangents, presses without friction because no impulses hold it, or slips though it is held.
    """
    n, passes = may.size, 0
    while True:
        tried, passes = attempt(stick), passes + 1
        wanted = may & np.where(stick, tried.presses | ~tried.parts, tried.presses & (passes <= n + 2))
        if (wanted == stick).all():
            break
        stick = wanted
    slips = may & ~stick & tried.presses
    settled = not slips.any()
    while slips.any():
        stick = stick | slips
        other = attempt(stick)
        if not other.solved:
            break
        tried, slips = other, may & ~stick & other.presses
    return tried.found, settled and tried.holds
