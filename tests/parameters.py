"""Parameters of tests, divided between `make test` and `make slow`."""

from collections.abc import Iterable
from typing import Any

import pytest


def one_fast(values: Iterable[Any], *fast: Any) -> list[Any]:
    """Return the values as parameters of a test: `fast` values run in `make test`, all others in `make slow`.

    A tuple has the values of several parameters.
    """
    return [
        value
        if value in fast
        else pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.slow)
        for value in values
    ]
