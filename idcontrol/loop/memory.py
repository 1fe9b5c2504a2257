"""Shared memory without a name.

A child process inherits the file descriptor. The memory is freed when the last process that uses it ends.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path

_RAM = Path("/dev/shm")


def anonymous(size: int) -> tuple[int, mmap.mmap]:
    """Return a file descriptor for child processes (``pass_fds``), and its memory: `size` bytes, all zero."""
    with tempfile.TemporaryFile(dir=_RAM if _RAM.is_dir() else None) as file:
        file.truncate(size)
        descriptor = os.dup(file.fileno())
        return descriptor, mmap.mmap(descriptor, size)


def attach(descriptor: int) -> mmap.mmap:
    """Return the memory of an inherited file descriptor, and close the descriptor."""
    memory = mmap.mmap(descriptor, 0)
    os.close(descriptor)
    return memory
