"""The constraint solver of 002: every constraint is a stiff spring with a damper, integrated implicitly (math.md 11).

`solver` holds the contact model, `unilateral` its problem without friction, `laws` the stiffness of springs, spheres
and elastic foundations, and the rows of joint limits and of bilateral springs.
"""

from idcontrol.models.constraint.laws import (
    NEARLY_RIGID,
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
    "NEARLY_RIGID",
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
