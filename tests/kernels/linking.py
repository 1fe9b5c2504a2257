"""Compiled functions for the tests of `linked`, in a separate module since Numba caches them by file."""

from typing import NamedTuple

import numpy as np
from numba import types

from idcontrol.kernels.jit import njit
from idcontrol.kernels.linked import calls, late, linked
from idcontrol.types import Array


class Scaled(NamedTuple):
    """Result of `scale`."""

    values: Array
    times: int


@linked
@njit(cache=True)
def scale(values: Array, times: int) -> Scaled:
    """Multiply by a number of times that is not negative."""
    if times < 0:
        raise ValueError("a negative number of times")
    return Scaled(np.tanh(values) * times, times + 1)


_scale_at = calls(types.float64)


@njit(cache=True)
def twice(where: int, values: Array, times: int) -> float:
    """Call the function at an address twice."""
    called: float = _scale_at(where, (values, times)) + _scale_at(where, (values, times))
    return called


@njit(cache=True)
def total(values: Array, times: int) -> float:
    """The sum of the values of `scale`."""
    product = scale(values, times)
    return float(product.values.sum() + product.times)


@njit(cache=True)
def raised(value: float, power: int) -> float:
    """Return a power of a value."""
    return value**power


@njit(cache=True)
def cubes(value: float, power: int) -> float:
    """Return a sum of three powers; the first two exponents are literals."""
    return float(raised(value, 2) + raised(value, 3) + raised(value, power))


@njit(cache=True, inner=True)
def scaled(values: Array, times: float = 2.0) -> Array:
    """Values times a number."""
    return values * times


@njit(cache=True)
def scaled_twice(values: Array) -> Array:
    """Values times four."""
    called: Array = scaled(scaled(values, 2.0), 2.0)
    return called


@linked
@njit(cache=True)
def square(values: Array) -> float:
    """The square of a vector's length."""
    return float(np.sum(values * values))


@late(lambda *_: types.float64)
@njit(cache=True)
def distance(values: Array) -> float:
    """The length of a vector."""
    return float(np.sqrt(square(values)))


@njit(cache=True)
def far(values: Array, limit: float) -> bool:
    """True if a vector is longer than the limit, if there is one."""
    return bool(np.isfinite(limit) and distance(values) > limit)


@njit(cache=True)
def below(values: Array, limit: float) -> bool:
    """True if a vector is not longer than the limit."""
    return not far(values, limit)
