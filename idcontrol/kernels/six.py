"""Blocks of rows of six numbers, a row in one vector register.

Numba unrolls loops over six before LLVM looks for what can be done at once, and then multiplies one number after the
other. Here the vectors are written down, five times as fast. Products and sums are rounded one by one, as in loops.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from idcontrol.types import Array

SIX: Final = 6
"""Numbers in a row: velocities of a rigid body."""

_NUMBER, _INDEX, _LANE = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
_ROW = ir.VectorType(_NUMBER, SIX)


class _Block:
    """Rows of a C-contiguous array of rows of six, while code is generated that reads and writes them."""

    def __init__(self, context: Any, builder: Any, kind: Any, value: Any) -> None:
        self._builder, self._data = builder, make_array(kind)(context, builder, value=value).data

    def _at(self, number: int) -> Any:
        return self._builder.gep(self._data, [ir.Constant(_INDEX, number)])

    def number(self, row: int, column: int) -> Any:
        return self._builder.load(self._at(SIX * row + column))

    def row(self, row: int) -> Any:
        return self._builder.load(self._builder.bitcast(self._at(SIX * row), _ROW.as_pointer()), align=8)

    def write(self, rows: list[Any]) -> None:
        for r, row in enumerate(rows):
            self._builder.store(row, self._builder.bitcast(self._at(SIX * r), _ROW.as_pointer()), align=8)


def _times(builder: Any, number: Any, row: Any) -> Any:
    """The product of a number and a row."""
    nothing = ir.Constant(_ROW, ir.Undefined)
    first = builder.insert_element(nothing, number, ir.Constant(_LANE, 0))
    everywhere = builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(_LANE, SIX), [0] * SIX))
    return builder.fmul(everywhere, row)


def _subtract_product(builder: Any, P: _Block, Q: _Block, A: _Block) -> None:
    rows, totals = [Q.row(k) for k in range(SIX)], [A.row(r) for r in range(SIX)]
    for r in range(SIX):
        for k in range(SIX):
            totals[r] = builder.fsub(totals[r], _times(builder, P.number(k, r), rows[k]))
    A.write(totals)


def _add_product(builder: Any, P: _Block, Q: _Block, A: _Block) -> None:
    rows, totals = [Q.row(k) for k in range(3)], [A.row(r) for r in range(SIX)]
    for r in range(SIX):
        for k in range(3):
            totals[r] = builder.fadd(totals[r], _times(builder, P.number(k, r), rows[k]))
    A.write(totals)


def _solve_transposed(builder: Any, U: _Block, A: _Block, X: _Block) -> None:
    rows = [A.row(r) for r in range(SIX)]
    for r in range(SIX):
        for k in range(r):
            rows[r] = builder.fsub(rows[r], _times(builder, U.number(k, r), rows[k]))
        inverse = builder.fdiv(ir.Constant(_NUMBER, 1.0), U.number(r, r))
        rows[r] = _times(builder, inverse, rows[r])
    X.write(rows)


def _vectors(write: Any) -> Any:
    """Decorates a function that overwrites the last of its blocks: kernels call the code that `write` generates."""

    def decorate(reference: Any) -> Any:
        if config.DISABLE_JIT:  # kernels run as Python, for tools that measure coverage or mutate the code
            return reference

        def typed(_: Any, P: Any, Q: Any, A: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
                write(builder, *(_Block(context, builder, *each) for each in zip(signature.args, values, strict=True)))
                return context.get_dummy_value()

            return types.void(P, Q, A), generate

        return intrinsic(typed)

    return decorate


@_vectors(_subtract_product)
def subtract_product(P: Array, Q: Array, A: Array) -> None:
    """``A -= Pᵀ Q``, all of shape (6, 6)."""
    A -= P.T @ Q


@_vectors(_add_product)
def add_product(P: Array, Q: Array, A: Array) -> None:
    """``A += Pᵀ Q``, P and Q of shape (3, 6), A (6, 6)."""
    A += P.T @ Q


@_vectors(_solve_transposed)
def solve_transposed(U: Array, A: Array, X: Array) -> None:
    """``X = U⁻ᵀ A``, all (6, 6); of U the upper triangle is read, and X may be A."""
    X[:] = np.linalg.solve(np.triu(U).T, A)
