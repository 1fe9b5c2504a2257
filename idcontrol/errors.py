"""The exceptions of this package, and the error numbers of a full disk.

Controllers do not raise in a step: they report faults in the command's `Status`. Constructors, plants and contact
models may raise.
"""

from __future__ import annotations

import difflib
import errno
import importlib.metadata
import json
import shlex
import signal
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers of an `OSError` for a full disk or an exhausted quota; neither is an internal error."""
MANY = 20
"""If more names than this are known, a message lists at most `EXAMPLES` of them."""
EXAMPLES = 5


class IdControlError(Exception):
    """Base class. The message is one line: the fault, its location and how to fix it."""


class InputError(IdControlError, ValueError):
    """A file, a configuration, a state or an argument is unusable."""


class Terminated(SystemExit):
    """SIGTERM ended the program.

    Attributes:
        status: Exit status by the shells' convention; `code` has the same value.
    """

    status = 128 + signal.SIGTERM

    def __init__(self) -> None:
        super().__init__(self.status)


class Diverged(IdControlError, ArithmeticError):
    """The simulated motion diverged, typically because the controller is unstable."""


class UnknownName(IdControlError, LookupError):
    """A name is not registered.

    Attributes:
        kind: Kind of the requested object, e.g. ``"controller"``.
        name: The requested name.
        known: The existing names, sorted.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(sorted(known))
        last = {key.rpartition(".")[2]: key for key in self.known}  # the last part of a dotted key is also a name
        likely = difflib.get_close_matches(str(name), [*self.known, *last], n=1)
        hints = [f"did you mean {last.get(likely[0], likely[0])!r}?"] if likely else []
        if len(self.known) <= MANY:
            hints.append(f"known: {', '.join(self.known) or 'none'}")
        elif not likely:
            hints.append(f"{len(self.known)} known: {', '.join(self.known[:EXAMPLES])}, ...")
        super().__init__(f"no {kind} {name!r}; {' '.join(hints)}")


class DuplicateName(IdControlError, ValueError):
    """A name is already registered."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"a {kind} named {name!r} is registered already; choose another name")


def install_command(extra: str) -> str:
    """Return the pip command that installs an extra of idcontrol.

    idcontrol is not on a package index, so the command names the folder or file from which idcontrol was installed, if
    ``direct_url.json`` (PEP 610) has one.
    """
    try:
        written = importlib.metadata.distribution("idcontrol").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        written = None
    origin = json.loads(written or "{}")
    url = urlsplit(origin.get("url", ""))
    place = unquote(url.path) if url.scheme == "file" else "idcontrol"
    editable = "--editable " if origin.get("dir_info", {}).get("editable") else ""
    return f"pip install {editable}{shlex.quote(f'{place}[{extra}]')}"  # quoted, because it contains brackets
