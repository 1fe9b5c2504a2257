"""Arrays and numbers of a planner in one NumPy record, which compiled functions take as a single argument.

A call from Python costs Numba 0.2 µs per array, and the trot has fifty; one record costs 0.3 µs. A part of the record
is passed to an inner kernel as one pointer. Kernels read the fields of a part by name, so they also accept a
`NamedTuple` of arrays. Tests and single calls thus need no record.
"""

from __future__ import annotations

import dataclasses
import functools
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt
from numba import config

Record = npt.NDArray[np.void]
"""The type of a record, shape (1,); compiled code accesses the parts in ``record[0]``."""

Parts = TypeVar("Parts", bound=NamedTuple)


def pack(parts: Parts) -> tuple[Record, Parts]:
    """Copy `parts` into a record.

    Args:
        parts: A NamedTuple whose fields are NamedTuples or dataclasses of arrays and numbers.

    Returns:
        The record, and `parts` with the arrays of its NamedTuples replaced by views of the record. Dataclasses hold
        constants and are unchanged.
    """
    fields = {name: _fields(part) for name, part in parts._asdict().items()}
    layout = ((name, tuple((key, x.dtype, x.shape) for key, x in part.items())) for name, part in fields.items())
    record = np.zeros(1, dtype=_dtype(tuple(layout)))
    for name, part in fields.items():
        for key, value in part.items():
            record[name][key] = value
    views = {
        name: {key: record[name][key][0].view(value.dtype) for key, value in part.items()}
        for name, part in fields.items()
    }
    return cast(Record, _Interpreted(record)) if config.DISABLE_JIT else record, parts._replace(
        **{
            name: part._make(views[name].values())
            for name, part in parts._asdict().items()
            if not dataclasses.is_dataclass(part)
        }
    )


class _Interpreted:
    """A record whose fields are attributes, for kernels that run as Python."""

    def __init__(self, record: Record) -> None:
        self._record = record

    def __getitem__(self, at: Any) -> Any:
        if at != 0:
            return self._record[at]
        parts = {name: self._record[name][0] for name in self._record.dtype.names or ()}
        return SimpleNamespace(
            **{name: SimpleNamespace(**{key: part[key] for key in part.dtype.names}) for name, part in parts.items()}
        )


def put(record: Record, name: str, part: Any) -> None:
    """Overwrite the part `name` of a record by a part with the same fields and shapes."""
    for key, value in _fields(part).items():
        record[name][key] = value


def dtype_of(part: NamedTuple) -> np.dtype[np.void]:
    """Return the dtype of a part, in which booleans stay booleans, whereas a record stores them as bytes."""
    return np.dtype([(key, x.dtype, x.shape) for key, x in _fields(part).items()], align=True)


@functools.cache
def _dtype(layout: tuple[tuple[str, tuple[tuple[str, np.dtype[Any], tuple[int, ...]], ...]], ...]) -> np.dtype[np.void]:
    """Return the dtype of a record; equal records share one object.

    Numba recognizes the type of a record immediately if its dtype is a known object. For an equal but separate dtype
    object, it compares all fields in every call, which takes 5 µs. Booleans are stored as bytes, because Numba has no
    nested arrays of booleans.
    """
    return np.dtype(
        [
            (name, [(key, np.uint8 if dtype == np.bool_ else dtype, shape) for key, dtype, shape in part])
            for name, part in layout
        ],
        align=True,
    )


def _fields(part: Any) -> dict[str, npt.NDArray[Any]]:
    """Return the fields of a NamedTuple or dataclass as arrays, by name."""
    names = [field.name for field in dataclasses.fields(part)] if dataclasses.is_dataclass(part) else part._fields
    return {name: np.asarray(getattr(part, name)) for name in names}
