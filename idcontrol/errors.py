"""Every error that this package raises on purpose.

Building may raise. Running does so only for a problem that its model does not take (hundreds of contacts, infinite
drag): what else happens in a control step is in its `Status`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class IdControlError(Exception):
    """Base class: its text is one line that says what is wrong, where, and how to mend it."""


class InputError(IdControlError, ValueError):
    """A file, a configuration, a state or an argument that cannot be used."""


class UnknownName(IdControlError, LookupError):
    """A name that is not registered.

    Attributes:
        kind: What was looked for, e.g. ``"controller"``.
        name: The name that was asked for.
        known: The names that exist, sorted.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(sorted(known))
        near = difflib.get_close_matches(name, self.known, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        super().__init__(f"no {kind} {name!r}; {hint}known: {', '.join(self.known) or 'none'}")


class DuplicateName(IdControlError, ValueError):
    """A name that is registered already."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"a {kind} named {name!r} is registered already; choose another name")
