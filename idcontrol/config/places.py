"""Users' controllers, plants, planners and estimators by place: ``package.module:Class`` or ``file.py:Class``.

No registration is needed: the place is the name, in every command, in Python and in worker processes. Packages may also
define names, as entry points of a group such as ``idcontrol.controllers``.
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
from typing import TYPE_CHECKING, Any, Final

from idcontrol.config.entries import entry_points
from idcontrol.errors import IdControlError, InputError, Terminated, UnknownName

if TYPE_CHECKING:
    from idcontrol.types import ContactLaw


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of object that users may provide.

    Attributes:
        name: Name of the kind, e.g. ``"controller"``.
        group: Group of the entry points of other packages.
        calls: Required methods.
        holds: Required attributes of an instance.
        protocol: Name of the protocol that such objects fulfil.
    """

    name: str
    group: str
    calls: tuple[str, ...]
    protocol: str
    holds: tuple[str, ...] = ()


_OWN: Final[set[str]] = set()
"""Files of users' modules."""


_READ: Final[dict[str, tuple[tuple[int, int, int], ModuleType]]] = {}
"""Modules of users' files by place, with inode, time and size of the file."""


def own_line(error: BaseException) -> str | None:
    """Return the innermost place in a user's file in the traceback of `error`, such as ``"mine.py, line 7"``.

    None if the traceback, and the traceback of the error's cause, contain no such place.
    """
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in _OWN]
    if lines:
        return f"{Path(lines[-1].filename).name}, line {lines[-1].lineno}"
    # a generator turns StopIteration into RuntimeError; our errors already name their cause
    cause = None if isinstance(error, IdControlError) else error.__cause__
    return None if cause is None else own_line(cause)


def described(error: BaseException) -> str:
    """Return one line about an error: its place in a user's file, its type and its text.

    The type is omitted for an `IdControlError`.
    """
    where, said = own_line(error), " ".join(str(error).split())
    if isinstance(error, IdControlError):
        return said if where is None else f"{where}: {said}"
    kind = type(error).__name__
    return f"{where or 'a fault inside'}: {kind}: {said or kind}"


def definition(thing: object) -> str:
    """Return the place that defines the class of a user's object, such as ``"mine.py, line 7: "``; "" for others."""
    file = getattr(sys.modules.get(type(thing).__module__), "__file__", None)
    return f"{Path(file).name}, line {inspect.getsourcelines(type(thing))[1]}: " if file in _OWN and file else ""


def factory(kind: Kind, name: str, registered: Iterable[str]) -> Callable[[Any], Any]:
    """Return the function that makes the object `name` from a setup of controllers or plants.

    The class or function of this name is called with the setup's ``(robot, mu, rate_hz)``, the setup or nothing,
    depending on its signature. If no call fits, or the result lacks a method, the returned function raises InputError.
    An object that already has all methods in `Kind.calls` is used directly. A file that has changed since the last call
    is read again, so edits take effect in a running notebook.

    Args:
        kind: Required kind.
        name: A place, or the name of an entry point. Modules are searched among installed modules first, then in the
            working directory.
        registered: Registered names, for error messages.

    Raises:
        UnknownName: Nothing has that name, or the file or module does not define it.
        InputError: The file does not exist, cannot be imported, or defines another kind.
    """
    target = _target(kind, name, registered)
    if not callable(target) and not _fits(kind, target):
        raise InputError(
            f"{kind.name} {name}: it is of type {type(target).__name__}; name a class or a function that makes one"
        )
    if isinstance(target, type):
        _require(kind, name, target.__name__, _missing(kind, target))
    return functools.partial(_make, kind, name, target)


def contact_law(kind: Kind, name: str, registered: Iterable[str]) -> ContactLaw:
    """Return the attribute ``contact_law`` of the object called `name`; a default `ContactLaw` if it has none.

    Raises:
        UnknownName: Nothing has that name.
        InputError: The target cannot be imported, or its contact law is not a `ContactLaw`.
    """
    from idcontrol.types import ContactLaw  # a late import: NumPy would slow down commands that only print help

    law = getattr(_target(kind, name, registered), "contact_law", ContactLaw())
    if not isinstance(law, ContactLaw):
        raise InputError(
            f"{kind.name} {name}: contact_law is a {type(law).__name__}, not an idcontrol.types.ContactLaw"
        )
    return law


def _target(kind: Kind, name: str, registered: Iterable[str]) -> Any:
    """Return the object at the entry point or place called `name`."""
    others = entry_points(kind.group)
    if name in others:
        target = _imported(kind, name, name, others[name].load)
    elif isinstance(name, str) and ":" in name:
        target = at(kind, name)
    elif isinstance(name, str) and name.endswith(".py"):
        defined = ", ".join(_defined(kind, _module(kind, name, name))) or "nothing"
        raise InputError(f"{kind.name} {name}: say what to take from the file, as {name}:Class; it defines {defined}")
    else:
        raise UnknownName(kind.name, name, [*registered, *others])
    return target


def search_working_directory() -> None:
    """Make users' modules in the working directory importable, after all installed packages."""
    _search(os.getcwd())


def _search(folder: str) -> None:
    if folder not in sys.path:
        sys.path.append(folder)


def at(kind: Kind, name: str) -> Any:
    """Return the object at a place, ``package.module:NAME`` or ``file.py:NAME``.

    `kind` is used only in messages; the object may be of another kind.

    Raises:
        UnknownName: The file or module does not define NAME.
        InputError: The file does not exist or cannot be imported.
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
    _search(str(path.parent.resolve()))  # lets the file import modules in its folder
    sys.modules[place] = module  # dataclasses look up their module by name
    _imported(kind, name, place, functools.partial(spec.loader.exec_module, module))
    _READ[place] = stamp, module
    return module


def _imported(kind: Kind, name: str, place: str, load: Callable[[], Any]) -> Any:
    try:
        return load()
    except Terminated:
        raise
    except (Exception, SystemExit) as error:  # a script without a main guard may exit on import
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f" ({Path(last.filename).name}, line {last.lineno})" if Path(last.filename).name in place else ""
        raise InputError(
            f"{kind.name} {name}: {place} cannot be imported: {type(error).__name__}: {error}{where}"
        ) from error


def _defined(kind: Kind, module: ModuleType) -> list[str]:
    """Return the public names defined in a module that can be of this kind."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__ and _can_be(kind, value)
    ]


def _can_be(kind: Kind, value: Any) -> bool:
    """True if `value` is an instance of this kind, or a class or function that may make an instance."""
    if isinstance(value, type) and _missing(kind, value):
        return False
    return _fits(kind, value) or (callable(value) and len(_needed(value)) in (0, 1, 3))


def _missing(kind: Kind, target: type) -> list[str]:
    return [call for call in kind.calls if call not in dir(target)]


def _fits(kind: Kind, target: Any) -> bool:
    return not isinstance(target, type) and all(hasattr(target, call) for call in kind.calls)


def _make(kind: Kind, name: str, target: Any, setup: Any) -> Any:
    instance = target if _fits(kind, target) else target(*_arguments(kind, name, target, setup))
    _require(
        kind, name, type(instance).__name__, [part for part in kind.calls + kind.holds if not hasattr(instance, part)]
    )
    return instance


def _require(kind: Kind, name: str, what: str, missing: list[str]) -> None:
    if missing:
        raise InputError(
            f"{kind.name} {name}: {what} is no {kind.name}: it has no {' and no '.join(missing)}; see {kind.protocol}"
        )


def smallest_mu(contacts: Any) -> float | None:
    """Return the smallest friction coefficient of a contact detector; None if it has no contacts or no `mu`."""
    return min(map(float, getattr(contacts, "mu", ())), default=None)


def _needed(target: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of `target` without default, except ``*args`` and ``**kwargs``."""
    return [
        parameter
        for parameter in inspect.signature(target).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]


def _arguments(kind: Kind, name: str, target: Callable[..., Any], setup: Any) -> tuple[Any, ...]:
    needed = _needed(target)
    arguments = ((), (setup,))[len(needed)] if len(needed) < 2 else (setup.robot, setup.mu, setup.rate_hz)
    try:
        inspect.signature(target).bind(*arguments)
    except TypeError:
        asked = ", ".join(parameter.name for parameter in needed)
        raise InputError(
            f"{kind.name} {name}: it is made from ({asked}); let it take (robot, mu, rate), one Setup, or nothing"
        ) from None
    if len(arguments) == 3 and setup.robot is None:
        raise InputError(f"{kind.name} {name}: there is no robot here for (robot, mu, rate); let it take one Setup")
    return arguments
