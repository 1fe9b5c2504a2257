"""The entry point of the included robots, in the group ``idcontrol.robots``: summaries, check and loader.

Other packages with robots provide the same functions in the same group.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from idcontrol.robots import schema
from idcontrol.robots.locate import NotInstalled, names, robot_file, urdf_file

if TYPE_CHECKING:
    from idcontrol.robots.inspection import Report
    from idcontrol.robots.robot import Robot

__all__ = ["check", "load", "names", "summaries"]


def summaries() -> dict[str, str]:
    """Return a line about each robot, by name: its summary, and the command that installs a missing URDF."""
    lines = {}
    for name in names():
        path = robot_file(name)
        raw = schema.read(path)
        try:
            urdf_file(raw["urdf"], path)
            lines[name] = raw["summary"]
        except NotInstalled as error:
            lines[name] = f"{raw['summary']}; needs {error.remedy}"
    return lines


def check(name_or_path: str | Path) -> Report:
    """Check a robot as `idcontrol.robots.inspection.check` does."""
    from idcontrol.robots import inspection  # Pinocchio, SciPy and Numba take a second to import

    return inspection.check(name_or_path)


def load(name_or_path: str | Path) -> Robot:
    """Load a robot as `idcontrol.robots.robot.load` does."""
    from idcontrol.robots import robot

    return robot.load(name_or_path)
