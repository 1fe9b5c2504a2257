"""Parameters of tests, divided between `make test` and `make slow`, and the outcome that most of them want."""

from collections.abc import Iterable
from typing import Any, TypeVar

import pytest

T = TypeVar("T", bound=Any)


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


def solved(answer: T) -> T:
    """Return the answer of a model, solver or controller; fail unless its status is SOLVED."""
    assert answer.status.name == "SOLVED", answer
    return answer
