"""Arrays for one step, from one block of memory.

A control step uses about eighty small arrays. Numba takes each array from the heap, which costs 0.1 to 0.2 µs, and more
on a busy machine; arrays of an arena cost nothing. `begin` reclaims all arrays at once. So the arrays must not outlive
the step, and must never be returned to Python. A kernel that calls another kernel repeatedly takes a `mark` first, and
reclaims the memory with `release`. If an arena is full, further arrays come from the heap.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np
from numba import config, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from idcontrol.kernels.jit import njit
from idcontrol.types import Array, Booleans, Integers

STEP: Final = 1 << 14
"""Size of a control step's arena, in numbers of eight bytes: more than a step on a dozen feet takes."""


class Arena(NamedTuple):
    """A block of memory and its used part.

    Attributes:
        space: The block, shape (size,).
        used: Number of entries in use, shape (1,).
    """

    space: Array
    used: Integers


def reserve(size: int = STEP) -> Arena:
    """Return an arena of `size` numbers of eight bytes."""
    return Arena(space=np.empty(size), used=np.zeros(1, dtype=np.int64))


HEAP: Final = reserve(0)
"""An arena without room: its arrays come from the heap and may be kept."""


@njit(cache=True)
def begin(arena: Arena) -> None:  # pragma: no cover - compiled
    """Reclaim all arrays of the arena."""
    arena.used[0] = 0


@njit(cache=True, inner=True)
def mark(arena: Arena) -> int:  # pragma: no cover - compiled
    """Return the number of entries in use, for `release`."""
    return int(arena.used[0])


@njit(cache=True, inner=True)
def release(arena: Arena, at: int) -> None:  # pragma: no cover - compiled
    """Reclaim the arrays taken from the arena since `mark` returned `at`."""
    arena.used[0] = at


def _view(kind: Any, dimensions: int, itemsize: int = 8) -> Any:
    """Return an intrinsic ``view(space, at, shape)``: the entries of `space` from index `at` on as an array of `shape`.

    The array has no reference count.
    """
    if config.DISABLE_JIT:  # kernels run as Python, for tools that measure coverage or mutate the code
        return lambda space, at, shape: space[at:].view(str(kind))[: math.prod(shape)].reshape(shape)

    @intrinsic
    def view(_: Any, space: Any, at: Any, shape: Any) -> Any:
        array = types.Array(kind, dimensions, "C")

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            begin = builder.gep(make_array(space)(context, builder, value=arguments[0]).data, [arguments[1]])
            size = context.get_constant(types.intp, itemsize)
            lengths = [builder.extract_value(arguments[2], axis) for axis in range(dimensions)]
            strides = [size]
            for length in lengths[:0:-1]:
                strides.insert(0, builder.mul(length, strides[0]))
            view = make_array(array)(context, builder)
            data = builder.bitcast(begin, view.data.type)
            populate_array(view, data=data, shape=lengths, strides=strides, itemsize=size, meminfo=None)
            return view._getvalue()

        return array(space, at, types.UniTuple(types.int64, dimensions)), generate

    return view


_vector, _matrix, _stack = _view(types.float64, 1), _view(types.float64, 2), _view(types.float64, 3)
_indices, _flags = _view(types.int64, 1), _view(types.boolean, 1, 1)


@njit(cache=True, inner=True)
def _take(arena: Arena, count: int) -> int:  # pragma: no cover - compiled
    """Take `count` entries; return the index of the first, or -1 if fewer remain."""
    at = arena.used[0]
    if at + count > arena.space.shape[0]:
        return -1
    arena.used[0] = at + count
    return int(at)


@njit(cache=True)
def vector(arena: Arena, n: int) -> Array:  # pragma: no cover - compiled
    """Return an array of shape (n,), not initialized."""
    at = _take(arena, n)
    return np.empty(n) if at < 0 else _vector(arena.space, at, (n,))


@njit(cache=True)
def matrix(arena: Arena, rows: int, columns: int) -> Array:  # pragma: no cover - compiled
    """Return an array of shape (rows, columns), stored by rows, not initialized."""
    at = _take(arena, rows * columns)
    return np.empty((rows, columns)) if at < 0 else _matrix(arena.space, at, (rows, columns))


@njit(cache=True, inner=True)
def frames(arena: Arena, n: int) -> Array:  # pragma: no cover - compiled
    """Return an array of shape (n, 3, 3), not initialized."""
    return stack(arena, n, 3, 3)


@njit(cache=True, inner=True)
def stack(arena: Arena, n: int, rows: int, columns: int) -> Array:  # pragma: no cover - compiled
    """Return an array of shape (n, rows, columns), not initialized."""
    at = _take(arena, n * rows * columns)
    return np.empty((n, rows, columns)) if at < 0 else _stack(arena.space, at, (n, rows, columns))


@njit(cache=True, inner=True)
def indices(arena: Arena, n: int) -> Integers:  # pragma: no cover - compiled
    """Return an array of integers of shape (n,), not initialized."""
    at = _take(arena, n)
    return np.empty(n, dtype=np.int64) if at < 0 else _indices(arena.space, at, (n,))


@njit(cache=True, inner=True)
def flags(arena: Arena, n: int) -> Booleans:  # pragma: no cover - compiled
    """Return an array of booleans of shape (n,), not initialized."""
    at = _take(arena, (n + 7) // 8)
    return np.empty(n, dtype=np.bool_) if at < 0 else _flags(arena.space, at, (n,))


@njit(cache=True)
def zeros(arena: Arena, n: int) -> Array:  # pragma: no cover - compiled
    """Return an array of zeros of shape (n,)."""
    out: Array = vector(arena, n)
    out[:] = 0.0
    return out
