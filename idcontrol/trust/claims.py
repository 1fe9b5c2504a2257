"""Claims and their verdicts."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

MODULES: Final = {"mujoco": ("mujoco",)}
"""Modules that each extra installs, for the extras that claims need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A statement that physics or arithmetic decides, and its measurement.

    Attributes:
        statement: The claim in words.
        measure: Returns the largest violation; 0 or less if there is none.
        unit: Unit of the violation; "" for a relative violation.
        limit: Largest violation with which the claim holds.
        tests: Files of tests, or single tests, that examine the claim further.
        extra: Extra of idcontrol that the measurement needs; "" if it needs no extra.
        quick: True if `idcontrol doctor` also measures the claim.
    """

    statement: str
    measure: Callable[[], float]
    limit: float
    tests: tuple[str, ...]
    unit: str = ""
    extra: str = ""
    quick: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of measuring a claim.

    Attributes:
        claim: The claim.
        figure: The measured violation; NaN without a measurement.
        fault: The error raised by the measurement; "" without an error.
        lacks: The missing extra; "" if none is missing.
    """

    claim: Claim
    figure: float
    fault: str = ""
    lacks: str = ""

    @property
    def holds(self) -> bool:
        """True if the figure is within the limit, or if a missing extra prevented the measurement."""
        return bool(self.lacks) or self.figure <= self.claim.limit

    def as_json(self) -> dict[str, Any]:
        """Return the row of ``idcontrol trust --json``; figure and verdict are None if an extra is missing."""
        claim = self.claim
        return {
            "claim": claim.statement,
            "figure": None if self.lacks else self.figure,
            "holds": None if self.lacks else self.holds,
            "fault": self.fault,
            **{name: getattr(claim, name) for name in ("limit", "unit", "extra", "tests")},
        }


def claim(
    statement: str, limit: float, *tests: str, unit: str = "", extra: str = "", quick: bool = False
) -> Callable[[Callable[[], float]], Claim]:
    """Return a decorator that turns a function into the `Claim` that it measures."""
    return lambda measure: Claim(
        statement=statement, measure=measure, limit=limit, tests=tests, unit=unit, extra=extra, quick=quick
    )


def claims_of(module: ModuleType) -> tuple[Claim, ...]:
    """Return the claims of a module, in order of definition."""
    return tuple(value for value in vars(module).values() if isinstance(value, Claim))


def weigh(item: Claim) -> Verdict:
    """Measure one claim, unless its extra is missing; an error during the measurement counts against the claim."""
    if any(importlib.util.find_spec(name) is None for name in MODULES.get(item.extra, ())):
        return Verdict(claim=item, figure=float("nan"), lacks=item.extra)
    try:
        return Verdict(claim=item, figure=float(item.measure()))
    except Exception as error:
        return Verdict(claim=item, figure=float("nan"), fault=f"{type(error).__name__}: {error}")
