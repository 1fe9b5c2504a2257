"""Functions compiled by Numba, with what it takes to call them from Python only where Python calls them.

For each function Numba compiles a wrapper that takes every array of the arguments out of its Python object, and another
one for C: 10 ms and some 4 ms for each array, which for the tuples of a control step is more than the function itself.
Most of our functions are called by compiled functions alone, which need neither. So each is two: the one that Python
calls, and ``inner``, which compiled functions call; either is compiled when it is first needed.

What is kept for later processes counts as old once a file changes that it is made of (`idcontrol.kernels.sources`).

Numba also compiles a function anew for each argument that is a literal number; for an inner one it is a number.
"""

from __future__ import annotations

import functools
from pathlib import Path
from types import FunctionType
from typing import Any

import numba
from numba import config, types
from numba.core.caching import IndexDataCacheFile, NullCache
from numba.core.registry import CPUDispatcher
from numba.extending import models, register_model

from idcontrol.kernels.sources import ROOT, stamp

BARE = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Numba's options for a function that only compiled functions call."""


def njit(*, cache: bool = False, **options: Any) -> Any:
    """The decorator of all our compiled functions: ``numba.njit``, but see the module's text.

    Args:
        cache: Whether what is compiled is kept for later processes.
        **options: Others of Numba's.
    """
    if config.DISABLE_JIT:
        return numba.njit(**options)

    def compiled(function: FunctionType) -> _Compiled:
        made = _Compiled(function, targetoptions={"nopython": True, "boundscheck": None, **options})
        if cache:
            _keep(made)
        return made

    return compiled


class _Compiled(CPUDispatcher):  # type: ignore[misc]  # numba has no types
    """A compiled function that Python calls; compiled functions know it as ``inner``."""

    @functools.cached_property
    def inner(self) -> CPUDispatcher:
        """The same function without wrappers, cached under another name."""
        whole = self.py_func
        copied = FunctionType(whole.__code__, whole.__globals__, whole.__name__, whole.__defaults__, whole.__closure__)
        functools.update_wrapper(copied, whole)
        del copied.__wrapped__  # type: ignore[attr-defined]
        copied.__qualname__ = f"{whole.__qualname__}.inner"
        made = CPUDispatcher(copied, targetoptions=self.targetoptions | BARE)
        if not isinstance(self._cache, NullCache):
            _keep(made)
        return made

    @property
    def _numba_type_(self) -> types.Dispatcher:
        return _Type(self.inner)


def _keep(made: CPUDispatcher) -> None:
    """Keep what is compiled for later processes, as long as no file that it is made of changes."""
    made.enable_caching()
    kept, file = made._cache, Path(made.py_func.__code__.co_filename)
    if ROOT in file.parents:
        kept._cache_file = _Index(kept.cache_path, kept._impl.filename_base, stamp(file))


class _Index(IndexDataCacheFile):  # type: ignore[misc]
    """What has been kept of one function; types of an older version of the code that are gone make it empty."""

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except (AttributeError, ImportError):
            return {}


class _Type(types.Dispatcher):  # type: ignore[misc]  # numba has no types
    """The type that compiled functions see."""

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        """The signature of a call, in which numbers are no literals."""
        given = tuple(types.unliteral(kind) for kind in args)
        return super().get_call_type(context, given, {name: types.unliteral(kind) for name, kind in kws.items()})


register_model(_Type)(models.OpaqueModel)  # its callers know it: there is nothing to hold
