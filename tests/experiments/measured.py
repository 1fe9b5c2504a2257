"""Measured motions, in the folder named by the environment variable IDCONTROL_MEASURED."""

import os
from pathlib import Path

import pytest

VARIABLE = "IDCONTROL_MEASURED"


def measured(name: str) -> Path:
    """Return the path of a file, or skip the test if it is missing."""
    folder = os.environ.get(VARIABLE)
    if folder is None:
        pytest.skip(f"{VARIABLE} does not name the folder of {name}")
    if not (Path(folder) / name).is_file():
        pytest.skip(f"there is no {name} in {folder}")
    return Path(folder) / name
