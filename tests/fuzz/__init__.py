"""Random input, machines and steps: fixed seeds in a plain run, many new ones in every run of -m slow."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

EFFORT = pytest.mark.parametrize("effort", [1, pytest.param(60, marks=pytest.mark.slow)], ids=["quick", "long"])


def explore(law: Callable[[Any], None], inputs: st.SearchStrategy[Any], examples: int, effort: int) -> None:
    """Check `law`, which raises where it fails, on this number of inputs times the effort."""
    settings(max_examples=examples * effort, deadline=None, derandomize=effort == 1)(given(inputs)(law))()
