"""Files of compiled functions, sealed with a digest: what is not as it was written is compiled anew.

Numba unpickles whatever its files hold, and runs the machine code in it. A flipped bit there (a worn SD card, a copied
home) ends in an abort at best, and in wrong torques at worst. Here each signature of a function has one file: a seal,
which is the digest of all that follows; the digest of the version (Numba's, and `idcontrol.kernels.sources.stamp` of
the function's file); and what Numba keeps.

Numba asks for it with `Cache._cache_file`, which has the two methods `save` and `load`.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import pickle
import sys
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import numba
from numba.core.serialize import dumps

from idcontrol.kernels import later
from idcontrol.kernels.sources import stamp

_SIZE: Final = 16
"""Bytes of a digest."""


def keep(compiled: Any, file: Path) -> None:
    """Keep a compiled function for later processes, until `file` or another of which it is made changes."""
    compiled.enable_caching()
    if file.is_file():  # not a notebook's cell
        cache = compiled._cache
        cache._cache_file = SealedFiles(Path(cache.cache_path), cache._impl.filename_base, stamp(file))


class SealedFiles:
    """The files of one function, one for each signature."""

    def __init__(self, folder: Path, name: str, version: str) -> None:
        """Name the files.

        Args:
            folder: Where they are.
            name: How their names begin; it tells functions and versions of Python apart.
            version: Of the code that the function is made of.
        """
        self._folder, self._name = folder, name
        self._version = _digest(f"{numba.__version__} {version}".encode())

    def save(self, key: Any, data: Any) -> None:
        """Keep the compiled code of one signature, and which linked kernels it may enter, if there is room for it."""
        file = self._file(key)
        sealed = self._version + dumps((key, sorted(later.noted()), data))
        part = file.with_suffix(f".{uuid4().hex}")  # two processes may compile it at once
        try:
            part.write_bytes(_digest(sealed) + sealed)
            part.replace(file)
        except OSError as error:  # this process has it all the same
            with contextlib.suppress(OSError):
                part.unlink()
            _say(f"idcontrol: what is compiled is not kept, and compiled again next time: {error.strerror}")

    def load(self, key: Any) -> Any:
        """The compiled code of one signature; None if there is none that can be used."""
        file = self._file(key)
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            _say(f"idcontrol: {file} cannot be read ({error.strerror}): compiled anew")
            return None
        seal, sealed = content[:_SIZE], content[_SIZE:]
        if _digest(sealed) != seal:
            _say(f"idcontrol: {file} is damaged: compiled anew")
            return None
        if sealed[:_SIZE] != self._version:
            return None
        saved, enters, data = pickle.loads(memoryview(sealed)[_SIZE:])
        if saved != key:
            return None
        later.note(enters)
        return data

    def _file(self, key: Any) -> Path:
        return self._folder / f"{self._name}.{_digest(repr(key).encode()).hex()}.nbc"


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_SIZE).digest()


@functools.cache
def _say(line: str) -> None:
    """Print a line on stderr, once."""
    print(line, file=sys.stderr, flush=True)
