"""A user's own controller or plant by its place: ``package.module:Class`` or ``file.py:Class``.

Nothing needs to be registered: the place is the name, in every command, in Python and in worker processes. Packages may
also give theirs a name, as an entry point of the group ``idcontrol.controllers`` or ``idcontrol.plants``.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Protocol

from idcontrol.config.entries import entry_points
from idcontrol.errors import IdControlError, InputError, UnknownName

if TYPE_CHECKING:
    from idcontrol.types import ContactLaw


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of thing that users may bring along.

    Attributes:
        name: ``"controller"`` or ``"plant"``.
        group: Group of the entry points of other packages.
        calls: Methods that it must have.
        holds: Attributes that it must have once it is made.
        protocol: The protocol that describes them.
    """

    name: str
    group: str
    calls: tuple[str, ...]
    protocol: str
    holds: tuple[str, ...] = ()


class Setup(Protocol):
    """The part of a setup that a constructor with (robot, mu, rate) needs."""

    @property
    def robot(self) -> Any:
        """The robot; None where there is none."""
        ...

    @property
    def mu(self) -> float | None:
        """Friction coefficient."""
        ...

    @property
    def rate_hz(self) -> float:
        """Rate of its calls [Hz]."""
        ...


_OWN: Final[set[str]] = set()
"""Files of the modules that users have named."""


_READ: Final[dict[str, tuple[tuple[int, int, int], ModuleType]]] = {}
"""Modules of users' files by place, with inode, time and size of the file that was read."""


def own_line(error: BaseException) -> str | None:
    """Return the innermost line of a user's own file in the traceback of `error`; None if none of them raised it."""
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in _OWN]
    if lines:
        return f"{Path(lines[-1].filename).name}, line {lines[-1].lineno}"
    # a StopIteration becomes a RuntimeError on its way; an error of ours has told of its cause
    cause = None if isinstance(error, IdControlError) else error.__cause__
    return None if cause is None else own_line(cause)


def described(error: BaseException) -> str:
    """Return one line about an error: the user's file and line, or that the fault is inside, and what was raised."""
    where, said = own_line(error), " ".join(str(error).split())
    if isinstance(error, IdControlError):
        return said if where is None else f"{where}: {said}"
    kind = type(error).__name__
    return f"{where or 'a fault inside'}: {kind}: {said or kind}"


def definition(thing: object) -> str:
    """Return the file and line, ``"mine.py, line 7: "``, that define the class of a user's own object; "" of others."""
    file = getattr(sys.modules.get(type(thing).__module__), "__file__", None)
    return f"{Path(file).name}, line {inspect.getsourcelines(type(thing))[1]}: " if file in _OWN and file else ""


def factory(kind: Kind, name: str, registered: Iterable[str]) -> Callable[[Any], Any]:
    """The function from a `Setup` to the controller or plant called `name`.

    What is found is called with ``(robot, mu, rate)``, with the `Setup` or with nothing, as many arguments as it needs;
    an object that has all `calls` already is taken as it is. A file is read anew once it has changed, as in a
    notebook.

    Args:
        kind: What it must be.
        name: A place, or the name of an entry point. Modules are looked for among the installed ones first, then in the
            working directory.
        registered: The names of ours, for the message.

    Raises:
        UnknownName: Nothing has that name, or the file or module does not define it.
        InputError: There is no such file, it cannot be imported, or what it defines is of another kind.
    """
    found = _found(kind, name, registered)
    if not callable(found) and not _fits(kind, found):
        raise InputError(
            f"{kind.name} {name}: it is of type {type(found).__name__}; name a class or a function that makes one"
        )
    if isinstance(found, type):
        _require(kind, name, found.__name__, _missing(kind, found))
    return functools.partial(_make, kind, name, found)


def contact_law(kind: Kind, name: str, registered: Iterable[str]) -> ContactLaw:
    """The attribute ``contact_law`` of what `factory` would call; a `ContactLaw` of defaults where it has none.

    Raises:
        UnknownName: Nothing has that name.
        InputError: It cannot be imported, or its contact law is none.
    """
    from idcontrol.types import ContactLaw  # imports NumPy, which commands that only print help do without

    law = getattr(_found(kind, name, registered), "contact_law", ContactLaw())
    if not isinstance(law, ContactLaw):
        raise InputError(f"{kind.name} {name}: contact_law is no idcontrol.types.ContactLaw but {type(law).__name__}")
    return law


def _found(kind: Kind, name: str, registered: Iterable[str]) -> Any:
    """What has that name, or stands at that place."""
    others = entry_points(kind.group)
    if name in others:
        found = _imported(kind, name, name, others[name].load)
    elif isinstance(name, str) and ":" in name:
        found = at(kind, name)
    elif isinstance(name, str) and name.endswith(".py"):
        defined = ", ".join(_defined(kind, _module(kind, name, name))) or "nothing"
        raise InputError(f"{kind.name} {name}: name what to take of the file, as {name}:Class; it defines {defined}")
    else:
        raise UnknownName(kind.name, name, [*registered, *others])
    return found


def search_working_directory() -> None:
    """Let a user's own modules be found there: last, so that none of them stands in for an installed package."""
    _search(os.getcwd())


def _search(folder: str) -> None:
    if folder not in sys.path:
        sys.path.append(folder)


def at(kind: Kind, name: str) -> Any:
    """What stands at a place, ``package.module:NAME`` or ``file.py:NAME``.

    Raises:
        UnknownName: The file or module does not define it.
        InputError: There is no such file, or it cannot be imported.
    """
    place, _, attribute = name.rpartition(":")
    module = _module(kind, name, place)
    if not hasattr(module, attribute):
        raise UnknownName(f"{kind.name} in {place}", attribute, _defined(kind, module))
    return getattr(module, attribute)


def _module(kind: Kind, name: str, place: str) -> ModuleType:
    if not place.endswith(".py"):
        search_working_directory()
        module: ModuleType = _imported(kind, name, place, lambda: importlib.import_module(place))
        _OWN.add(module.__file__ or "")
        return module
    path = Path(place).expanduser()
    if not path.is_file():
        raise InputError(f"{kind.name} {name}: there is no file {place}; paths begin at {os.getcwd()}")
    file = path.stat()
    stamp = file.st_ino, file.st_mtime_ns, file.st_size
    if place in _READ and _READ[place][0] == stamp:
        return _READ[place][1]
    spec = importlib.util.spec_from_file_location(place, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    _OWN.add(module.__file__ or "")
    _search(str(path.parent.resolve()))  # for its neighbours
    sys.modules[place] = module  # dataclasses look up their module
    _imported(kind, name, place, functools.partial(spec.loader.exec_module, module))
    _READ[place] = stamp, module
    return module


def _imported(kind: Kind, name: str, place: str, load: Callable[[], Any]) -> Any:
    try:
        return load()
    except (Exception, SystemExit) as error:  # a script without a main guard may well exit when it is imported
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f" ({Path(last.filename).name}, line {last.lineno})" if Path(last.filename).name in place else ""
        raise InputError(
            f"{kind.name} {name}: {place} cannot be imported: {type(error).__name__}: {error}{where}"
        ) from error


def _defined(kind: Kind, module: ModuleType) -> list[str]:
    """Names of what a module defines itself and shows, and that can be of this kind."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__ and _can_be(kind, value)
    ]


def _can_be(kind: Kind, value: Any) -> bool:
    """Whether it is one, or may make one: a class of them, or a function of which nothing more is known."""
    if isinstance(value, type) and _missing(kind, value):
        return False
    return _fits(kind, value) or (callable(value) and len(_needed(value)) in (0, 1, 3))


def _missing(kind: Kind, found: type) -> list[str]:
    return [call for call in kind.calls if call not in dir(found)]


def _fits(kind: Kind, found: Any) -> bool:
    return not isinstance(found, type) and all(hasattr(found, call) for call in kind.calls)


def _make(kind: Kind, name: str, found: Any, setup: Setup) -> Any:
    made = found if _fits(kind, found) else found(*_arguments(kind, name, found, setup))
    _require(kind, name, type(made).__name__, [part for part in kind.calls + kind.holds if not hasattr(made, part)])
    return made


def _require(kind: Kind, name: str, what: str, missing: list[str]) -> None:
    if missing:
        raise InputError(
            f"{kind.name} {name}: {what} is no {kind.name}: it has no {' and no '.join(missing)}; see {kind.protocol}"
        )


def _needed(found: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters without which it cannot be called."""
    return [
        parameter
        for parameter in inspect.signature(found).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]


def _arguments(kind: Kind, name: str, found: Callable[..., Any], setup: Setup) -> tuple[Any, ...]:
    needed = _needed(found)
    given = ((), (setup,))[len(needed)] if len(needed) < 2 else (setup.robot, setup.mu, setup.rate_hz)
    try:
        inspect.signature(found).bind(*given)
    except TypeError:
        asked = ", ".join(parameter.name for parameter in needed)
        raise InputError(
            f"{kind.name} {name}: it is made from ({asked}); let it take (robot, mu, rate), one Setup, or nothing"
        ) from None
    if len(given) == 3 and setup.robot is None:
        raise InputError(f"{kind.name} {name}: there is no robot here for (robot, mu, rate); let it take one Setup")
    return given
