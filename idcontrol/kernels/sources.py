"""The source files behind the compiled functions of a module, for Numba's cache.

Numba compiles called functions and constants of other modules into a function, but checks only the function's own file
when it loads the cache. The stamp of a file also covers all files of the package that it imports, directly or not.
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
    """Return the digest of a file and of all files of the package that it imports, directly or not.

    Raises:
        OSError: A file cannot be read.
    """
    sources, new = {file}, [file]
    while new:
        imported = set(_read(new.pop())[1]) - sources
        sources |= imported
        new += imported
    digests = sorted((each.name, _read(each)[0]) for each in sources)
    return hashlib.sha256(repr(digests).encode()).hexdigest()


@functools.cache
def _read(file: Path) -> tuple[str, tuple[Path, ...]]:
    """Return a file's digest, and the files of the package that it imports directly.

    Files are read once: later edits do not change what this program has imported.
    """
    text = file.read_text(encoding="utf-8")
    imported = (each for module, several, one in _IMPORT.findall(text) for each in _files(module, several or one))
    return hashlib.sha256(text.encode()).hexdigest(), tuple(imported)


def _files(module: str, names: str) -> Iterator[Path]:
    """Yield the file of a module; if the module is a folder, also the files of the `names` that are modules in it."""
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
