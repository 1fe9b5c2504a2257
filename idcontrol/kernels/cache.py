"""Files of compiled functions, sealed with a digest: what is not as it was written is compiled anew.

Numba unpickles whatever its files hold, and runs the machine code in it. A flipped bit there (a worn SD card, a copied
home) ends in an abort at best, and in wrong torques at worst. Here each signature of a function has one file, which
begins with a digest of all that follows. Its name has digests of the version (Numba's, and
`idcontrol.kernels.sources.stamp` of the function's file) and of the signature.

Numba asks for it with `Cache._cache_file`, which has the two methods `save` and `load`.

The names of linked kernels (`idcontrol.kernels.linked`) stand in the machine code of all functions that may call them.
They are found there, so that a loop on the wall clock can have all of them before its first tick.

Code is written to NUMBA_CACHE_DIR if it is set, else to ``__pycache__`` beside the sources. A user who may not write
there reads it nevertheless, and writes what is missing to the user's own cache, or to a temporary folder.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pickle
import re
import stat
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import llvmlite
import numba
import numpy
from numba import config
from numba.core.serialize import dumps

from idcontrol.kernels.hooks import PLAIN
from idcontrol.kernels.sources import stamp

_SIZE: Final = 16
"""Bytes of a digest; names have as many of its hexadecimal digits."""

MARK: Final = b"<idcontrol:%b>"
"""How the name of a linked kernel stands in machine code, in base 64."""
entered: set[bytes] = set()
"""Names of the linked kernels that compiled code of this process may enter."""

_ENVIRONMENT: Final = f"{numba.__version__} {llvmlite.__version__} {numpy.__version__}"
"""Packages whose versions compiled code depends on: environments that share the sources have files of their own."""


def keep(compiled: Any, file: Path, suffix: str = "") -> None:
    """Keep a compiled function for later processes, until `file` or another of which it is made changes.

    Plain Numba (`idcontrol.kernels.hooks.PLAIN`) keeps it in files of its own, until `file` changes.

    Args:
        compiled: The function.
        file: Where it is defined.
        suffix: Tells functions of one name apart.
    """
    if not file.is_file():  # a notebook's cell
        compiled.enable_caching()
        return
    chosen = config.CACHE_DIR
    root = _writable_root(chosen, file.parent)
    if root is None:
        return
    config.CACHE_DIR = root
    try:
        compiled.enable_caching()
    finally:
        config.CACHE_DIR = chosen  # a user's functions are not ours
    if PLAIN:
        return
    cache = compiled._cache
    own = Path(cache.cache_path)
    shared = Path(chosen, own.name) if chosen else file.parent / "__pycache__"
    cache._cache_file = SealedFiles((shared, own), f"{cache._impl.filename_base}{suffix}", stamp(file))


@functools.cache
def _writable_root(chosen: str, sources: Path) -> str | None:
    """Return what Numba's CACHE_DIR must be for sources in a folder; "" means beside them, None means nowhere.

    Args:
        chosen: What the user has set it to.
        sources: The folder.
    """
    if _is_writable(Path(chosen) if chosen else sources / "__pycache__"):
        return chosen
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if os.path.isabs(home) and _is_writable(Path(home, "numba")):  # of an unknown user it is "~/.cache"
        return f"{home}/numba"
    return _temporary()


@functools.cache
def _temporary() -> str | None:
    """Return this user's temporary folder of compiled code, and say so; None if there is no room for it."""
    try:
        folder = Path(tempfile.gettempdir(), f"idcontrol-{os.getuid()}")
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
            folder = Path(tempfile.mkdtemp(prefix="idcontrol-"))  # another user's code must not be run
    except OSError as error:
        _say(f"idcontrol: no folder can be written to ({error.strerror}): kernels are compiled anew each time")
        return None
    _say(f"idcontrol: compiled kernels are kept in {folder}; to keep them elsewhere: export NUMBA_CACHE_DIR=DIR")
    return str(folder)


def _is_writable(folder: Path) -> bool:
    """True if files can be made in a folder, which is made if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


class SealedFiles:
    """The files of one function, one for each signature: a digest of its name and code, and its code."""

    def __init__(self, folders: Sequence[Path], name: str, version: str) -> None:
        """Name the files.

        Args:
            folders: Where they are read from, in this order; they are written to the last one.
            name: How their names begin; it tells functions and versions of Python apart.
            version: Of the code that the function is made of.
        """
        self._folders = tuple(dict.fromkeys(folders))
        self._name = f"{name}.{_digest(_ENVIRONMENT.encode())[:8]}"
        self._version = _digest(version.encode())

    def save(self, key: Any, data: Any) -> None:
        """Keep the compiled code of one signature, if there is room for it, and forget code of other versions."""
        folder, name, code = self._folders[-1], self._file(key), dumps((key, data))
        file, part = folder / name, folder / f"{name}.{uuid4().hex}"  # two processes may compile it at once
        _note(code)
        try:
            part.write_bytes(_seal(name, code) + code)
            part.replace(file)
            for old in set(folder.glob(f"{self._name}.*.nbc")) - set(folder.glob(f"{self._name}.{self._version}.*")):
                old.unlink(missing_ok=True)
        except OSError as error:  # this process has it all the same
            with contextlib.suppress(OSError):
                part.unlink()
            where = f" in {file}" if file.is_dir() else ""
            _say(f"idcontrol: what is compiled is not kept{where}, and compiled again next time: {error.strerror}")

    def load(self, key: Any) -> Any:
        """Read the compiled code of one signature; None if there is none that can be used."""
        read = (_read(folder / self._file(key), key) for folder in self._folders)
        return next((data for data in read if data is not None), None)

    def _file(self, key: Any) -> str:
        return f"{self._name}.{self._version}.{_digest(repr(key).encode())}.nbc"


def _read(file: Path, key: Any) -> Any:
    """Read a file of compiled code; None if it cannot be used."""
    try:
        content = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):  # `save` tells of a folder in its place
        return None
    except OSError as error:
        _say(f"idcontrol: {file} cannot be read ({error.strerror}): compiled anew")
        return None
    seal, code = content[:_SIZE], content[_SIZE:]
    if seal != _seal(file.name, code):
        _say(f"idcontrol: {file} is damaged: compiled anew")
        return None
    try:
        saved, data = pickle.loads(code)
    except (AttributeError, ImportError):  # a type of its arguments is elsewhere now
        return None
    if saved != key:  # types that print alike
        return None
    _note(code)
    return data


def _note(code: bytes) -> None:
    entered.update(re.findall(MARK % rb"[\w+/=]+", code))


def _seal(name: str, code: bytes) -> bytes:
    return hashlib.blake2b(name.encode() + code, digest_size=_SIZE).digest()


def _digest(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=_SIZE // 2).hexdigest()


@functools.cache
def _say(line: str) -> None:
    """Print a line on stderr, once."""
    print(line, file=sys.stderr, flush=True)
