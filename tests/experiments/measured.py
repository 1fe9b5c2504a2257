"""Where measured motions are: in the folder that the environment variable IDCONTROL_MEASURED names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

VARIABLE = "IDCONTROL_MEASURED"


def measured(name: str) -> Path:
    """The file of that name; the test is skipped where there is none."""
    folder = os.environ.get(VARIABLE)
    if folder is None:
        pytest.skip(f"{VARIABLE} does not name the folder of {name}")
    if not (Path(folder) / name).is_file():
        pytest.skip(f"there is no {name} in {folder}")
    return Path(folder) / name
