"""Random input, machines and steps: the same ones in every plain run, others and many more in every run of -m slow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

EFFORT = pytest.mark.parametrize("effort", [1, pytest.param(30, marks=pytest.mark.slow)], ids=["quick", "long"])


def explore(law: Callable[[Any], None], inputs: st.SearchStrategy[Any], examples: int, effort: int) -> None:
    """Ask `law`, which raises where it does not hold, about as many inputs, times the effort."""
    settings(max_examples=examples * effort, deadline=None, derandomize=effort == 1)(given(inputs)(law))()
