"""Calls of compiled functions from Python with little overhead.

In every call, Numba determines the type of each argument, which takes longer than passing the argument. A control step
reads and writes about forty arrays, of which only a few change between calls. `bind` combines the constant arrays in
one argument, which compiled code reads as the tuple ``bound.values``. `entry` returns a compiled function for arguments
of fixed types: a call with a bound argument takes 0.1 µs instead of 0.5 µs, a call with fifteen arrays 0.6 µs instead
of 1.5 µs.

Arrays are bound, not copied: later changes of their entries are visible. Scalars are copied.

Numba counts references to every array at each assignment and call. Counting takes some microseconds for the forty
arrays of a control step. ``bound.borrowed`` has the same values as ``bound.values`` without counts, and `borrow`
returns an argument without counts. Only the caller keeps the arrays alive, so compiled code must not return borrowed
arrays or store them beyond the call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeAlias

from numba import config, typeof, types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.experimental import structref
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic
from numba.np.arrayobj import make_array

from idcontrol.kernels.hooks import PLAIN
from idcontrol.kernels.jit import njit
from idcontrol.types import Array, Booleans, Integers

AnyArray: TypeAlias = Array | Integers | Booleans


@structref.register
class _BoundType(types.StructRef):  # type: ignore[misc] # numba has no types
    def preprocess_fields(self, fields: Any) -> Any:
        """Return the fields, with types that do not depend on the value of a literal."""
        return tuple((name, types.unliteral(kind)) for name, kind in fields)


class Bound(structref.StructRefProxy):  # type: ignore[misc] # numba has no types
    """The result of `bind`; only compiled code can read it."""

    __slots__ = ()


def _uncounted(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return `value` without reference counts of its arrays, including nested arrays; plain Numba keeps the counts."""
    if isinstance(kind, types.Array) and not PLAIN:
        array = make_array(kind)(context, builder, value=value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        array.parent = cgutils.get_null_value(array.parent.type)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple) and not PLAIN:
        parts = cgutils.unpack_tuple(builder, value, len(kind))
        return context.make_tuple(
            builder, kind, [_uncounted(context, builder, *of) for of in zip(kind, parts, strict=True)]
        )
    context.nrt.incref(builder, kind, value)  # the bound object keeps counts, as do all values in plain Numba
    return value


@infer_getattr
class _Attributes(AttributeTemplate):  # type: ignore[misc] # numba has no types
    key = _BoundType

    def generic_resolve(self, kind: Any, name: str) -> Any:
        return kind.field_dict["values"] if name in ("values", "borrowed") else None


@lower_getattr_generic(_BoundType)
def _lower_attribute(context: Any, builder: Any, kind: Any, bound: Any, name: str) -> Any:
    held = kind.field_dict["values"]
    values = structref._Utils(context, builder, kind).get_data_struct(bound).values
    if name == "borrowed":
        return _uncounted(context, builder, held, values)
    context.nrt.incref(builder, held, values)
    return values


@intrinsic
def borrow(_: Any, values: Any) -> Any:
    """Return `values` (arrays, numbers, tuples of them, bound or not) without reference counts.

    With plain Numba (`idcontrol.kernels.hooks.PLAIN`), the counts remain.
    """
    is_bound = isinstance(values, _BoundType)
    held = values.field_dict["values"] if is_bound else values

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        argument = arguments[0]
        if is_bound:
            argument = structref._Utils(context, builder, values).get_data_struct(argument).values
        return _uncounted(context, builder, held, argument)

    return held(values), generate


@intrinsic
def put(_: Any, bound: Any, values: Any) -> Any:
    """Replace the values of `bound` by others of the same types; the caller must keep the new arrays alive."""
    held = bound.field_dict["values"]

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = structref._Utils(context, builder, bound).get_data_struct(arguments[0])
        context.nrt.decref(builder, held, data.values)
        data.values = _uncounted(context, builder, held, arguments[1])
        return context.get_dummy_value()

    return types.none(bound, held), generate


@intrinsic
def store(_: Any, bound: Any, values: Any) -> Any:
    """Replace the values of `bound` by others of the same types; `bound` keeps the new arrays alive."""
    held = bound.field_dict["values"]

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = structref._Utils(context, builder, bound).get_data_struct(arguments[0])
        context.nrt.incref(builder, held, arguments[1])
        context.nrt.decref(builder, held, data.values)
        data.values = arguments[1]
        return context.get_dummy_value()

    return types.none(bound, held), generate


@intrinsic
def _build(typing: Any, values: Any) -> Any:
    """Build a `Bound` inline; Numba would compile a constructor as a separate function for each type of values."""
    kind = _BoundType((("values", values),))
    _, generate_empty = structref.new._defn(typing, types.TypeRef(kind))

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bound = generate_empty(context, builder, kind(types.TypeRef(kind)), ())
        structref._Utils(context, builder, kind).get_data_struct(bound).values = arguments[0]
        context.nrt.incref(builder, values, arguments[0])
        return bound

    return kind(values), generate


structref.define_boxing(_BoundType, Bound)

if config.DISABLE_JIT:  # kernels run as Python, for tools that measure coverage or mutate the code

    @dataclass
    class Bound:  # type: ignore[no-redef]
        """The result of `bind` while Numba's JIT is off; plain Python functions read the values."""

        values: Any
        borrowed = property(lambda bound: bound.values)  # interpreted code has no counts to save

    _build = Bound

    def borrow(values: Any) -> Any:
        """Return `values` as they are, or the values of a `Bound`."""
        return values.values if isinstance(values, Bound) else values

    def put(bound: Any, values: Any) -> None:
        """Bind other values."""
        bound.values = values

    store = put


@njit(cache=True)
def bind(values: tuple[Any, ...]) -> Bound:
    """Combine arrays, numbers, and tuples of them in one argument."""
    bound: Bound = _build(values)
    return bound


@njit(cache=True)
def unbind(bound: Bound) -> Any:
    """Return the values of `bound` to Python; they must not be borrowed."""
    return bound.values


def entry(function: Any, *like: Any) -> Callable[..., Any]:
    """Compile a function for arguments of the types of `like`, if necessary, and return a fast callable for Python.

    The callable does not check its arguments: it misreads an array of another type or number of axes. `Form` checks
    arrays. Arrays of any length fit.
    """
    called: Callable[..., Any] = function if config.DISABLE_JIT else function.compile(tuple(map(typeof, like)))
    return called


class Form:
    """Python types, number types and numbers of axes of contiguous arrays; checked before a call of an `entry`."""

    def __init__(self, *like: AnyArray) -> None:
        """Store the form of the arrays `like`; their lengths do not matter."""
        self._types = [type(array) for array in like]
        self._numbers = [array.dtype for array in like]
        self._axes = [array.ndim for array in like]

    def fits(self, values: Collection[Any]) -> bool:
        """True if the values are arrays of this form.

        An array of a subclass of NumPy's array does not fit, since the subclass can redefine the attributes.
        """
        # lists are compared in C; Pinocchio's number types are equal to NumPy's, but different objects
        return (
            [*map(type, values)] == self._types
            and [array.dtype for array in values] == self._numbers
            and [array.ndim for array in values] == self._axes
            and False not in [array.flags.c_contiguous for array in values]
        )
