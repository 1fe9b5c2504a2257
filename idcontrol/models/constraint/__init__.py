"""The constraint solver of 002: every constraint is a stiff spring with a damper, integrated implicitly (math.md 11).

`solver` holds the contact model, `unilateral` its problem without friction, `laws` the stiffness of springs, spheres
and elastic foundations, and the rows of joint limits and of bilateral springs.
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
    "solve",
    "solve_nearly_rigid",
    "spring_rows",
    "springs",
]
