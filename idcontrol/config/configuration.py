"""Builds an experiment's configuration from user input: typed, validated, with one-line errors.

A configuration is a frozen `msgspec.Struct` with a default for every field, nested by topic. Users change single values
by dotted key (``friction.cap=0.5``). The last part of a key suffices if it is unique (``cap=0.5``), and the unit at its
end is optional (``duration=3``). An error names the key, or the command-line option that set it.
"""

import dataclasses
import datetime
import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import Annotated, Any, TypeVar

import msgspec

from idcontrol.errors import InputError, UnknownName

Config = TypeVar("Config", bound=msgspec.Struct)

Positive = Annotated[float, msgspec.Meta(gt=0)]
NotNegative = Annotated[float, msgspec.Meta(ge=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Duration = Annotated[float, msgspec.Meta(gt=0, le=1e6)]
"""A positive time of at most a million seconds [s]."""
SLOWEST_HZ, FASTEST_HZ = 1e-3, 1e6
Rate = Annotated[float, msgspec.Meta(ge=SLOWEST_HZ, le=FASTEST_HZ)]
"""A rate from `SLOWEST_HZ` to `FASTEST_HZ` [Hz]."""
Seed = Annotated[int, msgspec.Meta(ge=0)]
"""A random seed, as NumPy takes it."""

_UNIT = re.compile(r"(_(1|s2?|us|hz|m[23]?|rad|deg|kg|nm?|pa))+$")
"""Matches the unit at the end of a key, e.g. ``_nm_s_rad`` in ``gains.kd_nm_s_rad``."""

_NUMBERS = re.compile(r"[-+\d.eE_,\s\[\]]+")
"""Matches numbers and lists of numbers."""

_WORDS = {
    "float": "a number",
    "int": "a whole number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "null",
}


def build(start: Config, changes: Mapping[str, Any], spelling: Mapping[str, str] | None = None) -> Config:
    """Return a configuration with some values changed.

    Args:
        start: The configuration to begin with.
        changes: New values by key: the dotted key or its last part, with or without the unit
            (``duration`` for ``duration_s``).
        spelling: Option by which the user set a key, e.g. ``{"mu": "--mu"}``; errors name it instead of the key.

    Raises:
        UnknownName: A key does not exist; the message suggests the nearest key.
        InputError: A value is invalid, or a name fits several keys.
    """
    spelling = {} if spelling is None else spelling
    config = type(start)
    known = tuple(keys(start))
    values = msgspec.to_builtins(start)
    for name, value in changes.items():
        key = full_key(name, known)
        if _has_nan(value):
            raise InputError(f"{spelling.get(key, key)}: NaN is no value; give a number")
        *path, last = key.split(".")
        table = values
        for part in path:
            table = table[part]
        table[last] = value
    try:
        return msgspec.convert(values, config)
    except msgspec.ValidationError as error:
        raise InputError(_explain(str(error), config, values, spelling)) from None


def full_key(key: str, known: Sequence[str]) -> str:
    """Return `key` if it is known, otherwise the only known key that ends in `key`, which may omit the unit.

    Raises:
        UnknownName: No known key matches.
        InputError: Several known keys end in it.
    """
    if key in known:
        return key
    ending = [name for name in known if name.endswith(f".{key}")]
    ending = ending or [name for name in known if f".{without_unit(name)}".endswith(f".{key}")]
    if len(ending) > 1:
        raise InputError(f"setting {key!r} may be any of {', '.join(ending)}: write it in full")
    if not ending:
        raise UnknownName("setting", key, known)
    return ending[0]


def without_unit(key: str) -> str:
    """Return a key without the unit at its end: ``path.speed`` for ``path.speed_m_s``."""
    return _UNIT.sub("", key)


def keys(config: Any, prefix: str = "") -> Iterator[str]:
    """Return all dotted keys of a configuration, including keys of whole tables (structs or dataclasses)."""
    if isinstance(config, msgspec.Struct):
        names = list(config.__struct_fields__)
    else:
        names = [field.name for field in dataclasses.fields(config)]
    for name in names:
        yield prefix + name
        value = getattr(config, name)
        if isinstance(value, msgspec.Struct) or dataclasses.is_dataclass(value):
            yield from keys(value, f"{prefix}{name}.")


def parse_setting(text: str) -> tuple[str, Any]:
    """Return key and value of ``KEY=VALUE``; the value is read as TOML, else as JSON, else taken as text.

    Raises:
        InputError: The ``=`` or the key before it is missing; a number is too large, or a table has a key twice.
    """
    key, equals, value = text.partition("=")
    key, value = key.strip(), value.strip()
    if not equals or not key:
        raise InputError(f"--set {text}: write it as KEY=VALUE, e.g. --set mu=0.5")
    try:
        return key, _value(value)
    except ValueError as error:
        raise InputError(f"--set {key}: {error}") from None


def number(text: str) -> float:
    """Parse a number in a TOML or JSON value, or in an option of the command line.

    Raises:
        ValueError: The text is not a number, or the number is so large that it would become infinite.
    """
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is no number") from None
    if math.isinf(value) and "inf" not in text.lower():
        raise ValueError(f"{text} is too large for double precision")
    return value


def table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the dictionary of a JSON object from its pairs of key and value.

    Raises:
        ValueError: A key is repeated.
    """
    entries: dict[str, Any] = {}
    for key, value in pairs:
        if key in entries:
            raise ValueError(f"the key {key!r} appears twice")
        entries[key] = value
    return entries


def _value(text: str) -> Any:
    """Return the meaning of a text as TOML, else as JSON, else the text; ``.6`` and ``5.`` are numbers, too."""
    whole = text
    if _NUMBERS.fullmatch(text):  # TOML and JSON need a digit on both sides of the point
        whole = re.sub(r"(?<![\d_])\.(?=\d)", "0.", re.sub(r"(?<=\d)\.(?!\d)", ".0", text))
    try:
        parsed = tomllib.loads(f"value = {whole}", parse_float=number)
        # A text with line breaks could contain further keys, and no configuration holds a date.
        if set(parsed) == {"value"} and not isinstance(parsed["value"], datetime.date | datetime.time):
            return parsed["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        pass
    try:
        return json.loads(text, parse_float=number, object_pairs_hook=table)
    except (json.JSONDecodeError, RecursionError):
        return text


def is_number(value: object) -> bool:
    """True if `value` is a real number, possibly infinite or NaN; True and False do not count as numbers."""
    return isinstance(value, Real) and not isinstance(value, bool)


def period(rate_hz: float) -> float:
    """Return the time between two calls [s] at a rate [Hz].

    Raises:
        InputError: The rate is not a number that `Rate` allows.
    """
    if not (is_number(rate_hz) and SLOWEST_HZ <= rate_hz <= FASTEST_HZ):
        raise InputError(f"rate_hz must be a number from {SLOWEST_HZ:g} to {FASTEST_HZ:g}, not {rate_hz!r}")
    return 1.0 / rate_hz


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested values as one mapping with dotted keys, each of which begins with `prefix`."""
    entries: dict[str, Any] = {}
    for key, value in values.items():
        entries |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return entries


def at(values: Any, key: str) -> Any:
    """Return the value of a dotted key, or None without such a key."""
    for part in key.split("."):
        values = values.get(part) if isinstance(values, Mapping) else None
    return values


def _has_nan(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_has_nan(item) for item in value.values())
    if isinstance(value, list | tuple):
        return any(_has_nan(item) for item in value)
    return isinstance(value, float) and math.isnan(value)


def _explain(message: str, config: type[msgspec.Struct], values: Any, spelling: Mapping[str, str]) -> str:
    """Turn msgspec's "Expected `float` >= 0.0 - at `$.friction.cap`" into one line for users."""
    what, _, where = message.partition(" - at `$.")
    path = where.rstrip("`")
    if not path:  # a check of the whole configuration has a message of its own
        return what
    key = path.partition("[")[0]
    what = re.sub(
        r"`([\w| ]+)`", lambda kinds: " or ".join(_WORDS.get(each, repr(each)) for each in kinds[1].split(" | ")), what
    )
    what = what[0].lower() + what[1:]
    if what.startswith("invalid enum value"):
        what = f"expected one of {', '.join(_choices(config, key))}"
    place = f"{spelling.get(key, key)}{path[len(key) :]}"
    if message[0].islower():  # not msgspec's words, but a check of a table, which names the value itself
        return f"{place}: {what}"
    return f"{place}: {what}; it is {_shown(at(values, key))}"


def _choices(config: type[msgspec.Struct], key: str) -> list[str]:
    """Return the allowed values of a key with a fixed set of values."""
    kind: Any = msgspec.inspect.type_info(config)
    for part in key.split("."):
        kind = next(field.type for field in kind.fields if field.name == part)
    options = getattr(kind, "types", (kind,))
    return [str(value) for option in options for value in getattr(option, "values", ())]


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def jsonable(value: Any) -> Any:
    """Convert a value to JSON types: arrays to lists, paths to text, NaN to null, infinities to "inf" and "-inf"."""
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if hasattr(value, "tolist"):  # NumPy's arrays and numbers, without importing it for commands that only print help
        return jsonable(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [jsonable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return str(value)
