"""The first-order constraint solver: every constraint is a stiff spring with a damper, integrated implicitly.

`solver` holds the contact model, `sparse` the model of many bodies, `unilateral` the problem without friction. `laws`
holds the stiffness of springs, spheres and elastic foundations, and rows for joint limits and bilateral springs
(math.md, section 11). `printed` holds the programs as printed in the source. This package does not import `sparse`,
whose parts of SciPy would delay every start by a tenth.

Source: Drumwright 2019, "An unconditionally stable first-order constraint solver for multibody systems".
"""

from idcontrol.models.constraint.laws import (
    DAMPING,
    NEARLY_RIGID,
    STIFFNESS,
    ContactLaw,
    compliant,
    elastic_foundation,
    hertz,
    joint_limits,
    recovering_slowly,
    solve_nearly_rigid,
    spring_rows,
    springs,
)
from idcontrol.models.constraint.solver import solve

__all__ = [
    "DAMPING",
    "NEARLY_RIGID",
    "STIFFNESS",
    "ContactLaw",
    "compliant",
    "elastic_foundation",
    "hertz",
    "joint_limits",
    "recovering_slowly",
    "solve",
    "solve_nearly_rigid",
    "spring_rows",
    "springs",
]
