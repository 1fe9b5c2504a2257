"""Every error that this package raises on purpose, and a fault that a user mends without them.

Constructors may raise. A control step raises only for a problem that its contact model does not accept (hundreds of
contacts, infinite drag); it reports everything else in its `Status`.
"""

from __future__ import annotations

import difflib
import errno
import importlib.metadata
import json
import shlex
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
"""Numbers of an `OSError` where a disk, or a user's part of it, is full: nothing is wrong inside."""
MANY = 20
"""Where more names than this are known, the message leaves them out, but for `EXAMPLES`."""
EXAMPLES = 5


class IdControlError(Exception):
    """Base class: its text is one line that says what is wrong, where, and how to mend it."""


class InputError(IdControlError, ValueError):
    """A file, a configuration, a state or an argument that cannot be used."""


class Diverged(IdControlError, ArithmeticError):
    """The motion of a simulated machine has left all bounds, as an unstable controller makes it do."""


class UnknownName(IdControlError, LookupError):
    """A name that is not registered.

    Attributes:
        kind: Kind of thing that was looked for, e.g. ``"controller"``.
        name: The name that was asked for.
        known: The names that exist, sorted.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(sorted(known))
        last = {key.rpartition(".")[2]: key for key in self.known}  # of a dotted key, by which it is called, too
        likely = difflib.get_close_matches(str(name), [*self.known, *last], n=1)
        hints = [f"did you mean {last.get(likely[0], likely[0])!r}?"] if likely else []
        if len(self.known) <= MANY:
            hints.append(f"known: {', '.join(self.known) or 'none'}")
        elif not likely:
            hints.append(f"{len(self.known)} known: {', '.join(self.known[:EXAMPLES])}, ...")
        super().__init__(f"no {kind} {name!r}; {' '.join(hints)}")


class DuplicateName(IdControlError, ValueError):
    """A name that is registered already."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"a {kind} named {name!r} is registered already; choose another name")


def install_command(extra: str) -> str:
    """Return the command that installs an extra of idcontrol from the folder or file that it was installed from.

    Package indexes do not have idcontrol; PEP 610 says what is written in ``direct_url.json``.
    """
    try:
        written = importlib.metadata.distribution("idcontrol").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        written = None
    origin = json.loads(written or "{}")
    url = urlsplit(origin.get("url", ""))
    place = unquote(url.path) if url.scheme == "file" else "idcontrol"
    editable = "--editable " if origin.get("dir_info", {}).get("editable") else ""
    return f"pip install {editable}{shlex.quote(f'{place}[{extra}]')}"  # brackets are quoted, too
