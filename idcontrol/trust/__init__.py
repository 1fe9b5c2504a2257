"""Evidence for the torques: claims that physics decides, measured on this computer.

Every claim compares a result of idcontrol with an independent reference: the judge of contact laws, a weight, a
textbook formula, Pinocchio's forward dynamics, torque limits. The tests named by a claim go further, with real robots,
random input and longer runs.
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
