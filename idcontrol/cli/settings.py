"""Descriptions of settings (key, default, unit, allowed values, meaning), derived from their structs."""

import dataclasses
import inspect
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import msgspec

from idcontrol.config.configuration import jsonable
from idcontrol.record import quantities

UNITS = {
    **{"1_s2": "1/s²", "1_s": "1/s", "n_s_m": "N s/m", "n_s": "N s", "n_m": "N/m", "rad_s2": "rad/s²"},
    **{"kg_m3": "kg/m³", "pa_m": "Pa/m", "pa": "Pa", "v": "V", "c": "°C"},
    **quantities.UNITS,
}
"""Units by the ending of a setting's name; the longest matching ending applies."""

BOUNDS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}
UNBOUNDED: dict[type, str] = {
    msgspec.inspect.FloatType: "any number",
    msgspec.inspect.IntType: "any integer",
    msgspec.inspect.StrType: "any text",
    msgspec.inspect.TupleType: "a list",
    msgspec.inspect.VarTupleType: "a list",
}
"""Values of a type without bounds, in words."""


class Setting(NamedTuple):
    """A value of a configuration, in words.

    Attributes:
        key: Dotted key.
        default: Default value; text unquoted, other values as JSON.
        unit: Unit; "" for none.
        allowed: The values that the setting's type allows.
        meaning: The first sentence about the setting in the docstring of its struct, in Markdown.
    """

    key: str
    default: str
    unit: str
    allowed: str
    meaning: str


def settings(config: Any, prefix: str = "") -> Iterator[Setting]:
    """Describe each value of a struct or dataclass; values of nested structs have dotted keys."""
    meanings = _meanings(type(config))
    for field in cast(Any, msgspec.inspect.type_info(type(config))).fields:
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value) or isinstance(value, msgspec.Struct):
            yield from settings(value, f"{prefix}{field.name}.")
            continue
        unit = next((UNITS[end] for end in sorted(UNITS, key=len, reverse=True) if field.name.endswith(f"_{end}")), "")
        default = jsonable(msgspec.to_builtins(value))
        text = default if isinstance(default, str) else json.dumps(default)
        yield Setting(f"{prefix}{field.name}", text, unit, _allowed(field.type), meanings.get(field.name, ""))


def _allowed(kind: Any) -> str:
    """Return the values that a type allows, in words."""
    if isinstance(kind, msgspec.inspect.UnionType):
        return ", ".join(text for text in map(_allowed, kind.types) if text)
    if isinstance(kind, msgspec.inspect.LiteralType):
        return ", ".join(map(str, kind.values))
    if isinstance(kind, msgspec.inspect.BoolType):
        return "true, false"
    if isinstance(kind, msgspec.inspect.NoneType):
        return "null"
    limits = ((sign, getattr(kind, name, None)) for name, sign in BOUNDS.items())
    bounds = ", ".join(f"{sign}\N{NO-BREAK SPACE}{limit:g}" for sign, limit in limits if limit is not None)
    return bounds or UNBOUNDED[type(kind)]


def _meanings(kind: type) -> dict[str, str]:
    """Return the first sentence about each attribute in a class's docstring."""
    _, _, attributes = (inspect.getdoc(kind) or "").partition("Attributes:\n")
    attributes = re.split(r"^\S", attributes, maxsplit=1, flags=re.M)[0]
    entries = re.findall(r"^    (\w+): (.*(?:\n {5,}.*)*)", attributes, flags=re.M)
    return {
        name: re.split(r"(?<=\.) (?=[A-Z])", " ".join(text.split()).replace("``", "`"))[0] for name, text in entries
    }
