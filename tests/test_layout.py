"""Imports point one way: neither modules nor folders of the package import each other in a circle."""

import ast
from collections.abc import Callable, Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOOSE = {"__init__", "__main__", "batch", "errors", "types"}


def modules() -> dict[str, Path]:
    """Return the file of each module, by dotted name; folders at the top of the repository belong to the package."""
    files = [file for folder in ("idcontrol", "experiments", "planners", "robots") for file in folder_files(folder)]
    names = [
        file.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__") for file in files
    ]
    return {
        name if name.startswith("idcontrol") else f"idcontrol.{name}": file
        for name, file in zip(names, files, strict=True)
    }


def folder_files(folder: str) -> Iterator[Path]:
    for file in sorted((ROOT / folder).rglob("*.py")):
        if not any(parent.is_symlink() for parent in file.parents):
            yield file


def imported(file: Path, known: dict[str, Path]) -> set[str]:
    """Return our modules that a file imports anywhere: at its top, within functions, or for types alone."""
    imports = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            full = {f"{node.module}.{alias.name}" for alias in node.names}
            imports |= (full & known.keys()) or {node.module}
        elif isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
    return imports & known.keys()


def itself(name: str) -> str:
    return name


def room(name: str) -> str:
    return ".".join(name.split(".")[:2])


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    """The modules that each module imports."""
    known = modules()
    return {name: imported(file, known) for name, file in known.items()}


@pytest.mark.parametrize("part", [itself, room])
def test_modules_and_rooms_have_no_circular_imports(imports: dict[str, set[str]], part: Callable[[str], str]) -> None:
    graph: dict[str, set[str]] = {}
    for name, others in imports.items():
        graph.setdefault(part(name), set()).update(map(part, others))
    TopologicalSorter({name: others - {name} for name, others in graph.items()}).prepare()  # raises CycleError


def test_no_module_lies_loose_beside_the_rooms() -> None:
    assert {file.stem for file in (ROOT / "idcontrol").glob("*.py")} == LOOSE
