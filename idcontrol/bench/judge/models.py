"""The contact models that the judge supports."""

from collections.abc import Mapping
from typing import Final

from idcontrol.bench.judge.laws import Law
from idcontrol.models import constraint, coulomb, coulomb_cone, dissipation, no_slip, sap, viscous
from idcontrol.models.step import ContactModel

MODELS: Final[Mapping[Law, ContactModel]] = {
    "coulomb-lcp": coulomb.solve,
    "coulomb-cone": coulomb_cone.solve,
    "dissipation": dissipation.solve,
    "viscous": viscous.solve,
    "noslip": no_slip.solve,
    "constraint": constraint.solve_nearly_rigid,
    "sap": sap.solve,
}
"""Contact models by the name of their law."""
