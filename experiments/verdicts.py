"""The three verdicts on a number compared with a paper.

A number *agrees with the paper* within `WITHIN` of the printed value. Otherwise it differs *as derived*, if a page
derives that the printed number is wrong or is another quantity; else it differs *unexplained*.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

WITHIN: Final = 0.25
"""Largest relative difference of numbers that agree."""

AGREES: Final = "agrees with the paper"
DERIVED: Final = "differs, as derived"
UNEXPLAINED: Final = "differs, unexplained"
VERDICTS: Final = (AGREES, DERIVED, UNEXPLAINED)

TIMES: Final = "verdicts.md#times-on-different-machines"
"""Section of the documentation that derives how times differ."""

CONTRADICTED: Final = "verdicts.md#contradictions-within-a-paper"
"""Section of the documentation on contradictions between the paper's tables."""

LEAST_TORQUE: Final = "verdicts.md#a-torque-too-small-to-carry-the-robot"
"""Section of the documentation that derives the smallest torque with which the robot can stand."""

MOST_FACTOR: Final = "theory/dissipation.md#how-much-smoothing-can-gain"
"""Section of the documentation that derives the largest factor by which smoothing can lower the torque rate."""


def close(value: float, printed: float) -> bool:
    """True if a number is within `WITHIN` of the printed number."""
    return bool(abs(value - printed) <= WITHIN * abs(printed))


def verdict(agrees: bool, derivation: str = "") -> str:
    """Return the verdict on a result; `derivation` is the page that derives the difference, "" without such a page."""
    if agrees:
        return AGREES
    return f"{DERIVED} ({derivation})" if derivation else UNEXPLAINED


def compared(value: float | str | None, printed: float | None, derivation: str = "") -> str | None:
    """Compare a run's number, or the reason why there is none, with the printed number.

    Args:
        value: The number, or why the run failed; None without a run.
        printed: The paper's number; None if the paper's robot fell.
        derivation: The page that derives the difference; "" without such a page.

    Returns:
        The verdict; None without a run.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return verdict(printed is None and value.startswith("fell"), derivation)
    return verdict(printed is not None and close(value, printed), derivation)


class Judged(NamedTuple):
    """A printed number or statement of a paper, with the number from a run.

    Attributes:
        source: Place in the paper, such as "Drumwright 2019, Table 1".
        what: Name of the quantity.
        printed: The paper's value or statement.
        found: The run's value; None if it is missing.
        verdict: One of `VERDICTS`; a derived difference is followed by the page that derives it.
    """

    source: str
    what: str
    printed: float | str
    found: float | str | bool | None
    verdict: str


def by_source(judged: Iterable[Judged]) -> dict[str, tuple[int, ...]]:
    """Count the verdicts of each kind (`VERDICTS`) for each place in the paper."""
    kinds: dict[str, list[str]] = {}
    for one in judged:
        kinds.setdefault(one.source, []).append(one.verdict)
    return {
        source: tuple(sum(each.startswith(kind) for each in verdicts) for kind in VERDICTS)
        for source, verdicts in kinds.items()
    }
