"""The contact models that the judge supports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from idcontrol.bench.judge.laws import Law
from idcontrol.models import constraint, coulomb, coulomb_cone, dissipation, no_slip, sap, viscous
from idcontrol.models.step import ContactModel

MODELS: Final[Mapping[Law, ContactModel]] = {
    "coulomb": coulomb.solve,
    "coulomb_cone": coulomb_cone.solve,
    "dissipation": dissipation.solve,
    "viscous": viscous.solve,
    "no_slip": no_slip.solve,
    "nearly_rigid": constraint.solve_nearly_rigid,
    "sap": sap.solve,
}
"""Contact models by the name of their law."""
