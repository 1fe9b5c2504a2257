"""Random input, machines and steps. A property is explored for seconds in the plain run, at length by -m slow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

EFFORT = pytest.mark.parametrize("effort", [1, pytest.param(30, marks=pytest.mark.slow)], ids=["quick", "long"])


def explore(law: Callable[[Any], None], inputs: st.SearchStrategy[Any], examples: int) -> None:
    """Ask `law`, which raises where it does not hold, about as many inputs."""
    settings(max_examples=examples, deadline=None)(given(inputs)(law))()
