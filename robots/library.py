"""The entry point of our robots in the group ``idcontrol.robots``: their names, their loader, their check.

A package with its own robots offers the same three functions under the same group.
"""

from __future__ import annotations

from idcontrol.robots.inspection import check
from idcontrol.robots.locate import names
from idcontrol.robots.robot import load

__all__ = ["check", "load", "names"]
