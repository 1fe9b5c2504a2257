"""Robots: one folder each with a robot file (TOML) and, unless a package provides it, the URDF.

To add one, write a folder with a ``robot.toml`` (its format is `idcontrol.robots.schema`) and run ``idcontrol check``.
A user's robot needs no folder here: the path of its robot file is its name.
"""

import importlib
from typing import TYPE_CHECKING, Any

from idcontrol.robots import library
from idcontrol.robots.locate import names

if TYPE_CHECKING:
    from idcontrol.robots.inspection import Report, check
    from idcontrol.robots.robot import Robot, foot_centres, foot_gaps, legs, load

__all__ = ["Report", "Robot", "check", "foot_centres", "foot_gaps", "legs", "library", "load", "names"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # imported on demand: Pinocchio, SciPy and Numba take a second, and robot names do not need them
    home = "inspection" if name in ("Report", "check") else "robot"
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return __all__
