"""Which kernels compiled code may enter where they are, although they are not loaded or compiled with it.

A function that is compiled, or read from the cache, tells of the linked kernels (`idcontrol.kernels.linked`) that it
and all that it calls may enter; what is known of it is kept beside it in the cache. So a loop on the wall clock can
have all of them before its first tick, whoever compiled their callers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

_COLLECTED: list[set[bytes]] = [set()]
"""Names of the linked kernels that code may enter: the first set is that of the whole process, each further one that of
a function that is being compiled, callers before callees."""


def note(names: Iterable[bytes]) -> None:
    """The function that is being compiled or loaded may enter the kernels of these names."""
    _COLLECTED[-1].update(names)


def noted() -> set[bytes]:
    """Names of the linked kernels that the function being compiled or loaded may enter."""
    return set(_COLLECTED[-1])


def all_noted() -> set[bytes]:
    """Those that any function of this process may enter, whatever another thread is compiling."""
    return set(_COLLECTED[0])


@contextlib.contextmanager
def collected(names: set[bytes]) -> Iterator[None]:
    """Add to `names` what is noted meanwhile; who compiles the function may enter all of them, too."""
    _COLLECTED.append(names)
    try:
        yield
    finally:
        _COLLECTED.pop()
        note(names)
