"""The decorator of all compiled functions of this package.

Numba gives every function a wrapper that unpacks each array argument from its Python object. With the wrapper, Python
can call a function without further compilation once compiled code has called it. A loop on the wall clock needs this.
For the tuples of a control step, the wrapper can take longer to compile than the function. Functions that no Python
code of this package calls are ``inner`` and have no wrapper. If tests or users call an ``inner`` function from Python,
they get a copy compiled with a wrapper.

Compilation and loading do not count as run time (`idcontrol.kernels.stopwatch`). Caching is in
`idcontrol.kernels.cache`, hooks beyond Numba's interface in `idcontrol.kernels.hooks`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import numba
from numba import config, types
from numba.core.registry import CPUDispatcher

from idcontrol.kernels.cache import claims, keep
from idcontrol.kernels.hooks import PLAIN, CallType, compiling
from idcontrol.kernels.sources import stamp


def njit(*, cache: bool = False, inner: bool = False, **options: Any) -> Any:
    """Return a decorator that compiles a function as ``numba.njit`` does, with the differences described in the module.

    Args:
        cache: True to cache the code for later processes.
        inner: True if only compiled functions call the function, which must be at the top level of its module.
        **options: Other options of ``numba.njit``.
    """
    if config.DISABLE_JIT:
        return numba.njit(**options)
    wrappers = {"no_cfunc_wrapper": True, "no_cpython_wrapper": inner}  # no C code calls these functions

    def compiled(function: FunctionType) -> Any:
        if PLAIN:
            dispatcher = numba.njit(**options)(function)
            if cache:
                keep(dispatcher, Path(function.__code__.co_filename))
            return dispatcher
        kind = _Inner if inner else _Compiled
        dispatcher = kind(function, targetoptions={"nopython": True, "boundscheck": None, **wrappers, **options})
        if cache:
            dispatcher.keep_later()
        return dispatcher

    return compiled


class _Compiled(CPUDispatcher):  # type: ignore[misc]  # numba has no types
    """A compiled function."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        """Take the arguments of Numba's dispatcher."""
        super().__init__(*arguments, **named)
        self._keep: Callable[[], None] | None = None

    def keep_later(self, suffix: str = "") -> None:
        """Open the function's cache at its first compilation, but read the digest of its sources in this call.

        If every function opened its cache at import, this would take a quarter of the import. Most functions are only
        compiled as parts of others.

        Args:
            suffix: Distinguishes functions of the same name.
        """
        file = Path(self.py_func.__code__.co_filename)
        if file.is_file():
            stamp(file)
        self._keep = functools.partial(keep, self, file, suffix)

    def compile(self, sig: Any) -> Any:
        """Compile or load the function for these types of arguments."""
        with compiling(), claims():
            if self._keep:
                self._keep()
                self._keep = None
            return super().compile(sig)

    @property
    def _numba_type_(self) -> types.Dispatcher:
        return CallType(self)


class _Inner(_Compiled):
    """A compiled function without the wrapper for Python."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call a second compiled copy of the function, which has the wrapper for calls from Python."""
        return self._for_python(*arguments, **named)

    @functools.cached_property
    def _for_python(self) -> _Compiled:
        dispatcher = _Compiled(self.py_func, targetoptions=self.targetoptions | {"no_cpython_wrapper": False})
        dispatcher.keep_later(".python")
        return dispatcher
