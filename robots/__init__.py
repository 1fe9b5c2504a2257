"""Robots: one folder each with a robot file (TOML) and, if it is ours, the URDF.

To add one, write a folder with a ``robot.toml`` (its format is `idcontrol.robots.schema`) and run ``idcontrol check``.
A user's own robot needs no folder here: the path of its robot file is its name.
"""

from idcontrol.robots import library
from idcontrol.robots.inspection import Report, check
from idcontrol.robots.locate import names
from idcontrol.robots.robot import Robot, foot_centres, foot_gaps, legs, load

__all__ = ["Report", "Robot", "check", "foot_centres", "foot_gaps", "legs", "library", "load", "names"]


def __dir__() -> list[str]:
    return __all__
