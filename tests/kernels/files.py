"""The files that the package is made of."""

from __future__ import annotations

import glob
from pathlib import Path

from idcontrol.kernels.sources import ROOT


def modules() -> list[Path]:
    """All of its modules, with those of planners, experiments and robots, whose folders are links in a checkout."""
    return [Path(name) for name in glob.glob(f"{ROOT}/**/*.py", recursive=True)]
