"""Verdicts on numbers that stand beside a paper's: one of three, wherever they are shown.

A number *agrees with the paper* within `WITHIN` of what is printed. Where it differs, it does so *as derived*, with the
page that says why the print is wrong or ours is another quantity, or *unexplained*.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

WITHIN: Final = 0.25
"""Largest relative difference from a printed number that agrees with it."""

AGREES: Final = "agrees with the paper"
DERIVED: Final = "differs, as derived"
UNEXPLAINED: Final = "differs, unexplained"
VERDICTS: Final = (AGREES, DERIVED, UNEXPLAINED)

TIMES: Final = "verdicts.md#times-of-other-machines"
"""The section that derives how times differ."""

CONTRADICTED: Final = "verdicts.md#numbers-that-a-paper-contradicts-itself"
"""The section that names them."""

LEAST_TORQUE: Final = "verdicts.md#less-torque-than-carries-the-robot"
"""The section that derives with how little torque the robot can stand."""

MOST_FACTOR: Final = "theory/dissipation.md#how-much-smoothing-can-gain"
"""The section that derives by what factor smoothing can lower the largest torque rate."""


def close(value: float, printed: float) -> bool:
    """True if a number is within `WITHIN` of the printed one."""
    return bool(abs(value - printed) <= WITHIN * abs(printed))


def verdict(agrees: bool, derivation: str = "") -> str:
    """Return the verdict on a result; `derivation` is the page that derives how it differs, "" if none does."""
    if agrees:
        return AGREES
    return f"{DERIVED} ({derivation})" if derivation else UNEXPLAINED


def compared(value: float | str | None, printed: float | None, derivation: str = "") -> str | None:
    """Return the verdict on a run's number, or the reason why it has none, beside what is printed for it.

    Args:
        value: The number, or why the run did not do its task; None where nothing was run.
        printed: The paper's number; None where its robot fell.
        derivation: The page that derives how they differ, "" if none does.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return verdict(printed is None and value.startswith("fell"), derivation)
    return verdict(printed is not None and close(value, printed), derivation)


class Judged(NamedTuple):
    """A number, or a statement in words, that a paper prints, beside ours.

    Attributes:
        source: The place where it is printed: "Drumwright 2019, Table 1".
        what: What it is a number of.
        printed: As it is printed.
        found: Ours; None where there is none.
        verdict: One of `VERDICTS`, with the page that derives how they differ.
    """

    source: str
    what: str
    printed: float | str
    found: float | str | bool | None
    verdict: str


def by_source(judged: Iterable[Judged]) -> dict[str, tuple[int, ...]]:
    """Return how many there are of each of `VERDICTS`, by the place where they are printed."""
    kinds: dict[str, list[str]] = {}
    for one in judged:
        kinds.setdefault(one.source, []).append(one.verdict)
    return {
        source: tuple(sum(each.startswith(kind) for each in verdicts) for kind in VERDICTS)
        for source, verdicts in kinds.items()
    }
