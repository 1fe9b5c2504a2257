"""Which source files the compiled functions of a module are made of, for Numba's cache.

Numba compiles what a function calls into it, and the numbers that it reads from other modules, but looks at the
function's own file alone when it asks whether what it keeps is still true. Here the files that this one imports count
as well, however far away.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
"""The package's folder."""

_IMPORT = re.compile(rf"^from ({ROOT.name}[\w.]*) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)


@functools.cache
def stamp(file: Path) -> str:
    """Digest of what a file holds, and all files of the package that it imports, directly or not.

    Raises:
        OSError: A file cannot be read.
    """
    found, new = {file}, [file]
    while new:
        imported = set(_read(new.pop())[1]) - found
        found |= imported
        new += imported
    told = sorted((each.name, _read(each)[0]) for each in found)
    return hashlib.sha256(repr(told).encode()).hexdigest()


@functools.cache
def _read(file: Path) -> tuple[str, tuple[Path, ...]]:
    """A file's digest, and the files of the package that it imports by itself.

    It is read once: what this program has imported of it does not change when it is edited later.
    """
    text = file.read_text(encoding="utf-8")
    imported = (each for module, several, one in _IMPORT.findall(text) for each in _files(module, several or one))
    return hashlib.sha256(text.encode()).hexdigest(), tuple(imported)


def _files(module: str, names: str) -> Iterator[Path]:
    """The file of a module, and where that is a folder, of those of the `names` that are modules in it."""
    parts = module.split(".")[1:]
    # in a clone without symbolic links, planners/ and robots/ are beside the package, not in it
    root = ROOT if not parts or (ROOT / parts[0]).is_dir() or (ROOT / f"{parts[0]}.py").is_file() else ROOT.parent
    place = root.joinpath(*parts)
    if not place.is_dir():
        yield place.with_suffix(".py")
        return
    yield place / "__init__.py"
    for name in re.findall(r"\w+", names):
        yield from (file for file in (place / f"{name}.py", place / name / "__init__.py") if file.is_file())
