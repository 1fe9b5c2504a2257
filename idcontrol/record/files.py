"""Read files of a record that may come from anywhere, even from an attacker.

These are refused with a one-line error: links out of the folder, virtual and external data, deep nesting, and arrays
larger than their compressed files allow.
"""

import json
import os
from pathlib import Path
from typing import Any, TypeVar

import h5py
import msgspec
import numpy as np

from idcontrol.config.configuration import number, table
from idcontrol.errors import InputError
from idcontrol.record.log import refuse_newer
from idcontrol.types import Array

DEPTH = 50
"""Deepest nesting of objects and lists in a JSON file; records of this package have 6 levels."""
DEFLATION = 1032
"""Largest ratio by which DEFLATE, the compression of the HDF5 files, can make data smaller."""

T = TypeVar("T")


def within(folder: Path, name: str) -> Path | None:
    """Return the path of the file or folder `name` in the folder of a record; None if it does not exist.

    Raises:
        InputError: `name` leads out of `folder`, or is a pipe, device or socket.
    """
    path = folder / name
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        raise InputError(f"{path} leads out of the folder of the record; copy the file there")
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InputError(f"{path} is neither a file nor a folder; give the folder of a run")
    return path if path.exists() else None


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """Return the JSON object in the file `name` in the folder of a record.

    Raises:
        InputError: The file is missing or damaged, or leads out of `folder`.
    """
    path = within(folder, name)
    if path is None:
        raise InputError(f"{folder / name} is missing; give the folder of a run or a comparison")
    try:
        value = parse_json(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise InputError(f"{path} is damaged: {error}") from error
    if not isinstance(value, dict):
        raise InputError(f"{path} is damaged: it should hold a JSON object")
    return value


def parse_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: The text is not strict JSON, repeats a key, has too large a number, or is nested deeper than
            `DEPTH`.
    """
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=number, object_pairs_hook=table)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if _deeper(value, DEPTH):
        raise ValueError("it is nested too deeply")
    return value


def checked(value: Any, kind: type[T], what: str) -> T:
    """Return `value` converted to `kind`; errors name it `what`.

    Raises:
        InputError: The value does not fit `kind`.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InputError(f"{what} is damaged: {error}") from None


class Facts(msgspec.Struct, frozen=True):
    """Attributes of an HDF5 file of a record; see `idcontrol.record.recording`."""

    schema: int
    complete: bool


def read_h5(path: Path) -> tuple[Facts, dict[str, Array], dict[str, str]]:
    """Read attributes, arrays and units of an HDF5 file: float64 datasets in its root, of equal length.

    Raises:
        InputError: The file is damaged, contains other objects, or was written by a newer version.
    """
    try:
        with h5py.File(path, "r") as file:
            facts = checked(
                {key: np.asarray(file.attrs[key]).item() for key in Facts.__struct_fields__}, Facts, str(path)
            )
            refuse_newer({"schema": facts.schema}, path)
            datasets = {name: _dataset(file, name) for name in file}
            if sum(dataset.nbytes for dataset in datasets.values()) > DEFLATION * path.stat().st_size:
                raise InputError(f"{path} is damaged or not a record: it holds less than its datasets claim")
            arrays = {name: np.ascontiguousarray(dataset[...]) for name, dataset in datasets.items()}
            units = {name: str(dataset.attrs.get("units", "")) for name, dataset in datasets.items()}
    except (OSError, KeyError, ValueError, TypeError, RuntimeError, MemoryError) as error:  # all types that h5py raises
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is damaged or not a record: {str(error).partition(chr(10))[0]}") from error
    if len({len(array) for array in arrays.values()}) > 1:
        raise InputError(f"{path} is damaged or not a record: its channels have different numbers of rows")
    return facts, arrays, units


def _dataset(file: h5py.File, name: str) -> h5py.Dataset:
    """Return the dataset of channel `name`; links are not followed, because they may lead anywhere.

    Raises:
        InputError: The object is not a dataset of float64 with rows, stored in this file.
    """
    what = None
    if not isinstance(file.get(name, getlink=True), h5py.HardLink):
        what = "a link"
    elif file.get(name, getclass=True) is not h5py.Dataset:
        what = "no dataset"
    elif file[name].is_virtual or file[name].external:
        what = "stored elsewhere"
    elif file[name].dtype != np.float64 or not file[name].shape:
        what = "no array of float64"
    if what is not None:
        raise InputError(f"{file.filename} is damaged or not a record: {name!r} is {what}")
    return file[name]


def _deeper(value: Any, levels: int) -> bool:
    """True if objects and lists are nested deeper than `levels`."""
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_deeper(item, levels - 1) for item in inner)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
