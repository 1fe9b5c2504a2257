"""Arrays that Python code hands to one call, read where they are.

Whether an array is what compiled code takes it for costs Python three attributes of each, and Numba a handle from the
heap: for the eight arrays of state and reference of a control step, more than a microsecond. Compiled code can see for
itself. It is given a tuple of objects as it stands (`Given`), and reads the header of each, as extensions in C do with
the macros of NumPy (``ndarraytypes.h``): its type, number type, flags, length and data.

The tuple keeps the arrays alive during the call, so views of them must not be kept.
"""

from __future__ import annotations

import ctypes
from functools import reduce
from itertools import accumulate
from typing import Any, Final, TypeVar

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import NativeValue, intrinsic, models, register_model, typeof_impl, unbox
from numba.np.arrayobj import make_array, populate_array

from idcontrol.kernels.jit import njit
from idcontrol.types import Array, Booleans, Integers

Numbers = TypeVar("Numbers", Array, Booleans, Integers)

_TYPE, _ITEMS = 8, tuple.__basicsize__
"""Where in a Python object its type is, and in a tuple its items [bytes]: after what tuples of any length have."""
_DATA, _AXES, _SHAPE, _KIND, _FLAGS = 16, 24, 32, 56, 64
"""Where in an array its data, number of axes, shape, number type and flags are [bytes]."""
_ORDER, _NUMBER = 26, 28
"""Where in a number type its byte order and its number are [bytes]."""
_PLAIN: Final = 0x0001 | 0x0100
"""Flags of an array without gaps whose numbers begin at multiples of their size."""
_SWAPPED: Final = ord(">")
"""The order of bytes that is not this processor's."""

ARRAY: Final = id(np.ndarray)
"""Where in this process the type of arrays is; kept code holds no addresses, so it is an argument."""
REAL: Final = np.dtype(np.float64).num
LOGICAL: Final = np.dtype(np.bool_).num
"""Number types by NumPy's numbers: many arrays of numbers of Pinocchio's, or out of a pickle, have a type of their own
that is equal to ours."""


class Given(tuple[Any, ...]):
    """A tuple of any objects as `idcontrol.kernels.bound.entry` knows it; a plain tuple is as good in the call."""

    __slots__ = ()


class _GivenType(types.Type):  # type: ignore[misc]  # numba has no types
    """Numba's type of `Given`: the address of the tuple."""


register_model(_GivenType)(models.OpaqueModel)
_GIVEN: Final = _GivenType(name="Given")


@typeof_impl.register(Given)
def _typeof(*_: Any) -> Any:
    return _GIVEN


@unbox(_GivenType)
def _unbox(_: Any, given: Any, context: Any) -> Any:
    return NativeValue(given)


def _word(builder: Any, address: Any, at: Any, bits: int = 64) -> Any:
    """The number of so many bits that is `at` bytes behind an address."""
    place = builder.gep(address, [ir.Constant(ir.IntType(64), at) if isinstance(at, int) else at])
    return builder.load(builder.bitcast(place, ir.IntType(bits).as_pointer()))


def _follow(builder: Any, address: Any, at: Any) -> Any:
    """The address that is `at` bytes behind another."""
    return builder.inttoptr(_word(builder, address, at), ir.IntType(8).as_pointer())


def _item(builder: Any, given: Any, place: Any) -> Any:
    eight, items = ir.Constant(ir.IntType(64), 8), ir.Constant(ir.IntType(64), _ITEMS)
    return _follow(builder, given, builder.add(items, builder.mul(eight, place)))


@intrinsic
def _is_plain(_: Any, given: Any, place: Any, array: Any, kind: Any, axes: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        def same(one: Any, other: Any, how: str = "==") -> Any:
            return builder.icmp_unsigned(how, one, ir.Constant(one.type, other) if isinstance(other, int) else other)

        item = _item(builder, values[0], values[1])
        found = cgutils.alloca_once_value(builder, cgutils.false_bit)
        with builder.if_then(same(_word(builder, item, _TYPE), values[2])):
            numbers = _follow(builder, item, _KIND)
            number = builder.sext(_word(builder, numbers, _NUMBER, 32), ir.IntType(64))
            facts = (
                same(number, values[3]),
                same(_word(builder, numbers, _ORDER, 8), _SWAPPED, "!="),
                same(builder.sext(_word(builder, item, _AXES, 32), ir.IntType(64)), values[4]),
                same(builder.and_(_word(builder, item, _FLAGS, 32), ir.Constant(ir.IntType(32), _PLAIN)), _PLAIN),
            )
            builder.store(reduce(builder.and_, facts), found)
        return builder.load(found)

    return types.boolean(given, *(types.int64,) * 4), generate


@intrinsic
def _read(_: Any, given: Any, place: Any, like: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        item = _item(builder, values[0], values[1])
        made = make_array(like)(context, builder)
        size = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(like.dtype)))
        data = builder.bitcast(_follow(builder, item, _DATA), made.data.type)
        lengths = _follow(builder, item, _SHAPE)
        shape = [_word(builder, lengths, 8 * axis) for axis in range(like.ndim)]
        strides = list(accumulate(reversed(shape[1:]), builder.mul, initial=size))[::-1]
        populate_array(made, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None)
        return made._getvalue()

    return like(given, types.int64, like), generate


@njit(cache=True, inner=True)
def is_plain(given: Given, place: int, array: int, kind: int, axes: int) -> bool:
    """Whether the object at a place is an array without gaps, of so many axes and a number type such as `REAL`.

    It may not be of a subclass, whose author decides what it says of itself: `array` is `ARRAY`.
    """
    return bool(_is_plain(given, place, array, kind, axes))


@njit(cache=True, inner=True)
def read(given: Given, place: int, like: Numbers) -> Numbers:
    """The array at a place, of the type and number of axes of `like`, once `is_plain` has said that it is one."""
    found: Numbers = _read(given, place, like)
    return found


if config.DISABLE_JIT:  # kernels run as Python, for tools that measure coverage or mutate the code

    def is_plain(given: Any, place: int, array: int, kind: int, axes: int) -> bool:
        """Whether the object at a place is an array without gaps, of so many axes and the number type `kind`."""
        item = given[place]
        if id(type(item)) != array:
            return False
        flags = item.flags
        whole = flags.c_contiguous and flags.aligned
        return bool(item.dtype.num == kind and item.dtype.isnative and item.ndim == axes and whole)

    def read(given: Any, place: int, like: Any) -> Any:
        """The array at a place."""
        return given[place]


def _check() -> None:
    """Raise an error where objects lie in memory otherwise than said above."""
    numbers = np.arange(3.0)
    given = (numbers,)

    def word(address: int, at: int, kind: Any = ctypes.c_int64) -> Any:
        return kind.from_address(address + at).value

    item = word(id(given), _ITEMS)
    kind = word(item, _KIND)
    found = (
        (item, word(item, _TYPE), word(item, _DATA), word(word(item, _SHAPE), 0)),
        (word(item, _AXES, ctypes.c_int32), word(item, _FLAGS, ctypes.c_int32)),
        (word(kind, _NUMBER, ctypes.c_int32), word(kind, _ORDER, ctypes.c_char)),
    )
    expected = (id(numbers), ARRAY, numbers.ctypes.data, 3), (1, numbers.flags.num), (REAL, b"=")
    if found != expected:
        raise RuntimeError("this Python or NumPy lays out objects in an unknown way; please report their versions")


_check()
