"""Files of compiled functions, sealed with a digest: what is not as it was written is compiled anew.

Numba unpickles whatever its files hold, and runs the machine code in it. A flipped bit there (a worn SD card, a copied
home) ends in an abort at best, and in wrong torques at worst. Here each signature of a function has one file, which
begins with a digest of all that follows. Its name has digests of the version (Numba's, and
`idcontrol.kernels.sources.stamp` of the function's file) and of the signature.

Numba asks for it with `Cache._cache_file`, which has the two methods `save` and `load`.

The names of linked kernels (`idcontrol.kernels.linked`) stand in the machine code of all functions that may call them.
They are found there, so that a loop on the wall clock can have all of them before its first tick.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import pickle
import re
import sys
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import numba
from numba.core.serialize import dumps

from idcontrol.kernels.sources import stamp

_SIZE: Final = 16
"""Bytes of a digest; names have as many of its hexadecimal digits."""

MARK: Final = b"<idcontrol:%b>"
"""How the name of a linked kernel stands in machine code, in base 64."""
entered: set[bytes] = set()
"""Names of the linked kernels that compiled code of this process may enter."""


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
        self._version = _digest(f"{numba.__version__} {version}".encode()).hex()[:_SIZE]

    def save(self, key: Any, data: Any) -> None:
        """Keep the compiled code of one signature, if there is room for it."""
        file = self._file(key)
        content = dumps((self._version, key, data))
        _note(content)
        part = file.with_suffix(f".{uuid4().hex[:_SIZE]}")  # two processes may compile it at once
        try:
            part.write_bytes(_digest(content) + content)
            part.replace(file)
            for old in set(self._folder.glob(f"{self._name}.*.nbc")) - set(self._folder.glob(self._file_of("*"))):
                old.unlink(missing_ok=True)
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
        seal, content = content[:_SIZE], content[_SIZE:]
        if _digest(content) != seal:
            _say(f"idcontrol: {file} is damaged: compiled anew")
            return None
        try:
            version, saved, data = pickle.loads(content)
        except (AttributeError, ImportError):  # a type of its arguments is elsewhere now
            return None
        if (version, saved) != (self._version, key):  # a file of another name
            return None
        _note(content)
        return data

    def _file(self, key: Any) -> Path:
        return self._folder / self._file_of(_digest(repr(key).encode()).hex()[:_SIZE])

    def _file_of(self, signature: str) -> str:
        return f"{self._name}.{self._version}.{signature}.nbc"


def _note(code: bytes) -> None:
    entered.update(re.findall(MARK % rb"[\w+/=]+", code))


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_SIZE).digest()


@functools.cache
def _say(line: str) -> None:
    """Print a line on stderr, once."""
    print(line, file=sys.stderr, flush=True)
