"""Experiments, robots, studies, controllers and plants of any installed package, by name.

All are entry points, in the groups ``idcontrol.experiments``, ``idcontrol.robots``, ``idcontrol.studies``,
``idcontrol.controllers`` and ``idcontrol.plants``. So other packages can add entries.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import inspect
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from idcontrol.errors import InputError, UnknownName

if TYPE_CHECKING:
    import msgspec


EXPERIMENTS = "idcontrol.experiments"
ROBOTS = "idcontrol.robots"
STUDIES = "idcontrol.studies"
CONTROLLERS = "idcontrol.controllers"
PLANTS = "idcontrol.plants"


class Experiment(Protocol):
    """An entry point of the group ``idcontrol.experiments``.

    Attributes:
        name: Name of the experiment.
        summary: One line that describes it.
        presets: Configurations to begin with, by name; one is called ``"default"``. Options such as ``--mu`` set the
            fields `controller, plant, robot, terrain, mu, duration_s, rate_hz, seed` if these exist.
    """

    name: str
    summary: str
    presets: Mapping[str, msgspec.Struct]

    def run(self, config: Any, out: Path, progress: Callable[[float], None]) -> dict[str, Any]:
        """Run the experiment and record it.

        Args:
            config: One of `presets`, with some values changed.
            out: An empty folder for the record.
            progress: Called with the completed share, 0 to 1.

        Returns:
            The metrics; ``completed`` is True if the task succeeded.
        """
        ...

    def rehearsals(self) -> Sequence[Any]:
        """Return configurations of short runs that compile all kernels; the first run compiles the shared kernels."""
        ...


class RobotLibrary(Protocol):
    """An entry point of the group ``idcontrol.robots``."""

    def names(self) -> Sequence[str]:
        """Return the names of the library's robots."""
        ...

    def summaries(self) -> Mapping[str, str]:
        """Return a description of each robot in one line, by name, without loading a robot."""
        ...

    def check(self, name_or_path: str) -> Any:
        """Return a report with `robot`, `problems`, `warnings` (lines) and `summary` (plain data).

        The report may have `needs`, the command that installs the robot's description.
        """
        ...


def entry_points(group: str) -> Mapping[str, Any]:
    """Return the installed entry points of a group, by name; each has `load()`."""
    return {entry.name: entry for entry in importlib.metadata.entry_points(group=group)}


def robot_libraries() -> list[RobotLibrary]:
    """Return the installed robot libraries."""
    return [entry.load() for entry in entry_points(ROBOTS).values()]


def library_of(robot: str) -> Any:
    """Return the library that has the robot with this name; for a path or an unknown name, the first library.

    Raises:
        InputError: No robot library is installed.
    """
    libraries = robot_libraries()
    if not libraries:
        raise InputError("no robot library is installed; install idcontrol with its robots")
    return next((library for library in libraries if robot in library.names()), libraries[0])


def summaries(group: str) -> dict[str, str]:
    """Return the description of each entry point of a group: its `summary`, or the first line of its docstring.

    For an entry point that cannot be loaded, the description is the reason.
    """
    descriptions = {}
    for name, entry in entry_points(group).items():
        try:
            descriptions[name] = _summary_in_source(entry) or _summary(entry.load())
        except Exception as error:  # a broken package must not hide the others
            descriptions[name] = f"cannot be loaded: {' '.join(str(error).split()) or type(error).__name__}"
    return descriptions


def _summary(thing: object) -> str:
    return str(getattr(thing, "summary", None) or (inspect.getdoc(thing) or "").partition("\n")[0])


def _summary_in_source(entry: Any) -> str | None:
    """Read the literal in ``name = Call(..., summary="...")`` from an entry point's source; None without a summary."""
    if not isinstance(entry, importlib.metadata.EntryPoint):
        return None
    for statement in _source(entry.module):
        match statement:
            case ast.Assign(targets=[ast.Name(id=entry.attr)], value=ast.Call(keywords=keywords)):
                for keyword in keywords:
                    if keyword.arg == "summary" and isinstance(keyword.value, ast.Constant):
                        return str(keyword.value.value)
    return None


def registered(group: str) -> dict[str, str]:
    """Return a one-line description of each controller or plant, by name.

    Descriptions of built-in objects are read from the calls ``register(name, line, ...)`` in the source.
    """
    items = {}
    for statement in _source(group):  # the group has the name of the module with these calls
        match statement:
            case ast.Expr(ast.Call(ast.Name("register"), [ast.Constant(str(name)), ast.Constant(str(line)), *_])):
                items[name] = line
    return items | summaries(group)


def _source(name: str) -> list[ast.stmt]:
    """Return a module's statements without importing it (an import may take a second); [] if it has no file."""
    module, *others = name.split(".")
    spec = importlib.util.find_spec(module)
    for other in others:
        if spec is None or spec.submodule_search_locations is None:
            return []
        module = f"{module}.{other}"
        spec = PathFinder.find_spec(module, spec.submodule_search_locations)
    if spec is None or spec.origin is None or not spec.has_location:
        return []
    return ast.parse(Path(spec.origin).read_bytes()).body


def load_experiment(name: str) -> Experiment:
    """Return the experiment called `name`.

    Raises:
        UnknownName: No experiment has that name.
        InputError: The experiment needs a missing package.
    """
    entries = entry_points(EXPERIMENTS)
    if name not in entries:
        raise UnknownName("experiment", name, entries)
    try:
        experiment: Experiment = entries[name].load()
    except ModuleNotFoundError as error:
        raise InputError(f"the experiment {name} needs the package {error.name}, which is not installed") from error
    return experiment
