"""A claim, and what became of it when it was measured."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

MODULES: Final = {"mujoco": ("mujoco",), "bullet": ("pybullet",), "cvx": ("cvxpy", "clarabel", "ecos")}
"""What the extras that claims need bring."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Something that physics or plain arithmetic decides, and how to see it.

    Attributes:
        statement: What is claimed.
        measure: By how much it is missed, at worst; 0 is not at all.
        unit: Of that figure; "" for a relative one.
        limit: The largest figure with which the claim holds.
        tests: The tests that ask for more of the same, as pytest names them.
        extra: The extra of idcontrol without which it cannot be measured; "" for none.
        quick: Whether `idcontrol doctor` asks for it, too.
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
    """What became of a claim.

    Attributes:
        claim: The claim.
        figure: What was measured; NaN where nothing was.
        fault: Why it failed; "" where it did not.
        lacks: The extra that is not installed, so that nothing was measured; "" where something was.
    """

    claim: Claim
    figure: float
    fault: str = ""
    lacks: str = ""

    @property
    def holds(self) -> bool:
        """Whether the figure is within the limit, or could not be asked for."""
        return bool(self.lacks) or self.figure <= self.claim.limit


def weigh(claim: Claim) -> Verdict:
    """Measure one claim; whatever goes wrong meanwhile counts against it."""
    if any(importlib.util.find_spec(name) is None for name in MODULES.get(claim.extra, ())):
        return Verdict(claim=claim, figure=float("nan"), lacks=claim.extra)
    try:
        return Verdict(claim=claim, figure=float(claim.measure()))
    except Exception as error:
        return Verdict(claim=claim, figure=float("nan"), fault=f"{type(error).__name__}: {error}")
