"""Files of compiled functions, sealed with a digest: if a file is damaged, its function is compiled anew.

Numba unpickles its cache files and runs their machine code without a check. A flipped bit (a worn SD card, a copied
home) causes an abort at best, and wrong torques at worst. Here each signature of a function has one file, which begins
with a digest of its name and its code. The file's name has three digests: of the versions of Numba, llvmlite and NumPy,
of the function's sources (`idcontrol.kernels.sources.stamp`), and of the signature.

Numba reads and writes these files through `Cache._cache_file`, which has the two methods `save` and `load`.

Machine code contains the names of the linked kernels (`idcontrol.kernels.linked`) that it may call. These names are
read from the code, so that a loop on the wall clock can load all these kernels before its first tick.

Processes that start together need the same code: one compiles it, and the others wait for its file (`claims`).

Code is written to NUMBA_CACHE_DIR if it is set, else to ``__pycache__`` beside the sources. A user without write
permission reads that cache, and writes to a cache of their own or to a temporary folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import pickle
import re
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
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
"""Bytes of the digest in a file, and hexadecimal digits of the digests of sources and signature in its name."""

MARK: Final = b"<idcontrol:%b>"
"""Form of the name of a linked kernel in machine code; the name itself is in base 64."""
entered: set[bytes] = set()
"""Names of the linked kernels that the compiled code in this process may call."""

WAIT_S: Final = 300.0
"""Longest wait for another process that compiles the same code [s]; that process may be suspended."""
_LOOK_S: Final = 0.02
"""Time between two attempts to lock a file that another process has locked [s]."""
_claimed: list[tuple[int, Path]] = []
"""Open lock files of the code that this process is compiling, and their paths."""

_ENVIRONMENT: Final = f"{numba.__version__} {llvmlite.__version__} {numpy.__version__}"
"""Versions of the packages on which compiled code depends: environments that share the sources have separate files."""


def keep(compiled: Any, file: Path, suffix: str = "") -> None:
    """Cache a compiled function for later processes, until `file` or another of its sources changes.

    With plain Numba (`idcontrol.kernels.hooks.PLAIN`), only a change of `file` makes the cached function stale. If no
    folder is writable, nothing is cached.

    Args:
        compiled: The function.
        file: Source file of the function.
        suffix: Distinguishes functions of the same name.
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
        config.CACHE_DIR = chosen  # other functions keep the user's setting
    if PLAIN:
        return
    cache = compiled._cache
    own = Path(cache.cache_path)
    shared = Path(chosen, own.name) if chosen else file.parent / "__pycache__"
    cache._cache_file = SealedFiles((shared, own), f"{cache._impl.filename_base}{suffix}", stamp(file))


@functools.cache
def _writable_root(chosen: str, sources: Path) -> str | None:
    """Return a writable CACHE_DIR for Numba; "" stands for the sources' own folder, None if no folder is writable.

    Args:
        chosen: The user's setting of CACHE_DIR.
        sources: The folder with the sources.
    """
    if _is_writable(Path(chosen) if chosen else sources / "__pycache__"):
        return chosen
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if os.path.isabs(home) and _is_writable(Path(home, "numba")):  # for an unknown user `home` is "~/.cache"
        return f"{home}/numba"
    return _temporary()


@functools.cache
def _temporary() -> str | None:
    """Create a temporary folder for this user's compiled code and print its path; return the path, None on failure."""
    try:
        folder = Path(tempfile.gettempdir(), f"idcontrol-{os.getuid()}")
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
            folder = Path(tempfile.mkdtemp(prefix="idcontrol-"))  # another user's code must not run
    except OSError as error:
        _say(f"idcontrol: no folder can be written to ({error.strerror}): kernels are compiled anew each time")
        return None
    _say(f"idcontrol: new kernels are kept in {folder}; to keep them elsewhere: export NUMBA_CACHE_DIR=WRITABLE_DIR")
    return str(folder)


def _is_writable(folder: Path) -> bool:
    """True if files can be created in a folder, which is created if missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


@contextlib.contextmanager
def claims() -> Iterator[None]:
    """On exit, delete and unlock the files claimed in this context; the caller must hold Numba's compiler lock."""
    before = len(_claimed)
    try:
        yield
    finally:
        while len(_claimed) > before:
            lock, path = _claimed.pop()
            path.unlink(missing_ok=True)
            os.close(lock)


def _claim(path: Path) -> None:
    """Lock a file until the end of `claims`; if another process holds the lock for `WAIT_S`, go on without it."""
    until = time.monotonic() + WAIT_S
    with contextlib.suppress(OSError):  # without locks, several processes may compile the same code
        lock = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
        _claimed.append((lock, path))
        while time.monotonic() < until:
            try:
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_LOOK_S)
            else:
                return


class SealedFiles:
    """The files of one function, one for each signature; each holds a digest of its name and code, then the code."""

    def __init__(self, folders: Sequence[Path], name: str, version: str) -> None:
        """Set the names of the files.

        Args:
            folders: Folders to read from, in this order; the last one is written to.
            name: Prefix of the files' names; it distinguishes functions and versions of Python.
            version: Version of the function's sources.
        """
        self._folders = tuple(dict.fromkeys(folders))
        self._name = f"{name}.{_digest(_ENVIRONMENT.encode())[:8]}"
        self._version = _digest(version.encode())

    def save(self, key: Any, data: Any) -> None:
        """Save the compiled code of one signature, if the folder accepts it, and delete code of other versions."""
        folder, name, code = self._folders[-1], self._file(key), dumps((key, data))
        file, part = folder / name, folder / f"{name}.{uuid4().hex}"  # two processes may compile the same code at once
        _note(code)
        try:
            part.write_bytes(_seal(name, code) + code)
            part.replace(file)
            for old in set(folder.glob(f"{self._name}.*.nbc")) - set(folder.glob(f"{self._name}.{self._version}.*")):
                old.unlink(missing_ok=True)
        except OSError as error:  # this process has the compiled code anyway
            with contextlib.suppress(OSError):
                part.unlink()
            where = f" in {file}" if file.is_dir() else ""
            _say(f"idcontrol: compiled code is not kept{where}; the next start compiles again: {error.strerror}")

    def load(self, key: Any) -> Any:
        """Read the compiled code of one signature; return None if there is none and the caller has to compile it."""
        data = self._load(key)
        if data is None:
            _claim(self._folders[-1] / f"{self._file(key)}.lock")
            data = self._load(key)  # another process may have compiled it meanwhile
        return data

    def _load(self, key: Any) -> Any:
        """Read the compiled code of one signature; None if there is no usable code."""
        read = (_read(folder / self._file(key), key) for folder in self._folders)
        return next((data for data in read if data is not None), None)

    def _file(self, key: Any) -> str:
        return f"{self._name}.{self._version}.{_digest(repr(key).encode())}.nbc"


def _read(file: Path, key: Any) -> Any:
    """Read a file of compiled code; None if it is unusable."""
    try:
        content = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):  # `save` reports a folder with this name
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
    except (AttributeError, ImportError):  # the module of an argument's type has changed
        return None
    if saved != key:  # different types may print alike
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
