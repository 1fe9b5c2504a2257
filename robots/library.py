"""What the entry point group ``idcontrol.robots`` finds here: the names of the robots, their loader, their check.

A package with robots of its own offers the same three functions under the same group.
"""

from __future__ import annotations

from idcontrol.robots.inspection import check
from idcontrol.robots.locate import names
from idcontrol.robots.robot import load

__all__ = ["check", "load", "names"]
