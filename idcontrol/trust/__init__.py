"""Why one may trust a torque: claims that physics decides, each measured anew on this computer.

Every claim compares a result of idcontrol with something independent of it: the judge of contact laws, a weight, a
textbook formula, Pinocchio's forward dynamics. The list is short: what another compiler, processor or package would
break first. The machines are built in `idcontrol.problems`, so that nothing but the library is needed. The tests that a
claim names go further: on real robots, with random input and for longer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from idcontrol.trust import controllers, models, plants
from idcontrol.trust.claims import Claim, Verdict, claims_of, weigh

__all__ = ["CLAIMS", "Claim", "Verdict", "weigh"]

CLAIMS: Final[Mapping[str, tuple[Claim, ...]]] = {
    "models": claims_of(models),
    "controllers": claims_of(controllers),
    "plants": claims_of(plants),
}
"""All claims by part of the library."""
