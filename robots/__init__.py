"""Robots: one folder each with a robot file (TOML) and, where it is ours, the URDF.

To add one, write a folder with a ``robot.toml`` (`idcontrol.robots.schema` says what it may contain) and let
``idcontrol check`` read it. A user's own robot needs no place here: the path of its robot file serves as its name.
"""

from idcontrol.robots import library
from idcontrol.robots.inspection import Report, check
from idcontrol.robots.locate import names
from idcontrol.robots.robot import Robot, foot_centres, foot_gaps, legs, load

__all__ = ["Report", "Robot", "check", "foot_centres", "foot_gaps", "legs", "library", "load", "names"]


def __dir__() -> list[str]:
    return __all__
