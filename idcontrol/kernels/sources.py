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
    """Digest of times and sizes of a file and of all files of the package that it imports, directly or not.

    Raises:
        OSError: A file cannot be read.
    """
    found, new = {file}, [file]
    while new:
        imported = set(_imports(new.pop())) - found
        found |= imported
        new += imported
    told = sorted((str(each), status.st_mtime, status.st_size) for each in found if (status := each.stat()))
    return hashlib.sha256(repr(told).encode()).hexdigest()


@functools.cache
def _imports(file: Path) -> tuple[Path, ...]:
    """Files of the package that a file imports by itself."""
    return tuple(
        each
        for module, several, one in _IMPORT.findall(file.read_text(encoding="utf-8"))
        for each in _files(module, several or one)
    )


def _files(module: str, names: str) -> Iterator[Path]:
    """The file of a module, and where that is a folder, of those of the `names` that are modules in it."""
    place = ROOT.joinpath(*module.split(".")[1:])
    if not place.is_dir():
        yield place.with_suffix(".py")
        return
    yield place / "__init__.py"
    yield from (found for name in re.findall(r"\w+", names) if (found := place / f"{name}.py").is_file())
