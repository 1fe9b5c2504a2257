"""Functions compiled by Numba: one compilation for compiled callers and for Python, and kept as long as it is true.

What Python calls is ready for it once compiled code has called it: a step that gives way in Python must not wait for a
compiler, within a loop on the wall clock. Numba does so with a wrapper that takes every array of the arguments out of
its Python object, which for the tuples of a control step can take longer to compile than the function. Those that no
Python code of this package names are ``inner`` and have none. Tests and users may call them nevertheless: then a
function is compiled that calls them where they are.

What of a run's time goes to compiling and loading does not belong to it (`idcontrol.kernels.stopwatch`).

What is kept for later processes is in `idcontrol.kernels.cache`.

Numba also compiles a function anew for each argument that is a literal number; here it is a number.

Loops whose length is not known are not unrolled: ours mostly have 6 to 18 turns, fewer than unrolled ones need, and
took longer to compile and to run. LLVM keeps this for the whole process; no result depends on it.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any, Final

import llvmlite.binding as llvm
import numba
from numba import config, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Flags
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.runtime.context import NRTContext
from numba.core.sigutils import normalize_signature
from numba.extending import models, register_model

from idcontrol.kernels import later, stopwatch
from idcontrol.kernels.cache import keep
from idcontrol.kernels.linked import linked

llvm.set_option("", "-unroll-runtime=0")


def njit(*, cache: bool = False, inner: bool = False, **options: Any) -> Any:
    """The decorator of all our compiled functions: ``numba.njit``, but see the module's text.

    Args:
        cache: Whether what is compiled is kept for later processes.
        inner: Whether compiled functions alone call it; it is at the top level of its module.
        **options: Others of Numba's.
    """
    if config.DISABLE_JIT:
        return numba.njit(**options)
    kind = _Inner if inner else _Compiled
    wrappers = {"no_cfunc_wrapper": True, "no_cpython_wrapper": inner}  # nobody calls ours from C

    def compiled(function: FunctionType) -> _Compiled:
        made = kind(function, targetoptions={"nopython": True, "boundscheck": None, **wrappers, **options})
        made._compiler._customize_flags = _Options
        if cache:
            keep(made, Path(function.__code__.co_filename))
        return made

    return compiled


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Do not look for garbage: Numba makes many objects that last, and to look at them takes a seventh of its time."""
    threshold = gc.get_threshold()
    gc.set_threshold(0)
    try:
        yield
    finally:
        gc.set_threshold(*threshold)


class _Options(Flags):  # type: ignore[misc]  # numba has no types
    """How a function is compiled; of equal options there is one copy, which Numba keeps what it knows of functions by.

    Numba looks there for each function that a call may mean, 150 000 times in a first trot, and compares thirty options
    each time with those of others, since its own hash is the same for all.
    """

    __slots__ = ()
    __eq__, __hash__ = object.__eq__, object.__hash__

    def copy(self) -> _Options:
        """The one copy of these options; of that, one of its own: Numba alters it to compile sums of arrays."""
        if self in _COPIES:
            return _Options(self)
        for made in _COPIES:
            if made.values() == self.values():
                return made
        _COPIES.append(_Options(self))
        return _COPIES[-1]


_COPIES: Final[list[_Options]] = []


class _Library(JITCodeLibrary):  # type: ignore[misc]  # numba has no types
    """The code of one function and of those that it takes in, as LLVM optimizes and keeps it."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        passes = self._codegen._module_pass_manager()
        passes, *builder = passes if isinstance(passes, tuple) else (passes,)  # Numba has no builder before 0.62
        passes.run(self._final_module, *builder)


@contextlib.contextmanager
def _optimized_once() -> Iterator[None]:
    """Let LLVM optimize a module once: Numba does so three times, functions, cheaply, and fully, with as fast code."""
    generator = cpu_target.target_context.codegen()
    before = generator._library_class
    generator._library_class = _Library
    try:
        yield
    finally:
        generator._library_class = before


def _counts(self: Any, builder: Any, kind: Any, value: Any) -> list[tuple[Any, Any]]:
    """Types and counts of users of what is counted in a value.

    Numba's own takes every number out of a tuple, and out of each array its lengths and strides, to see that these are
    not counted: a quarter of all that it writes for LLVM, which leaves it out again.
    """
    models = self._context.data_model_manager
    model = models[kind]
    found = [(kind, model.get_nrt_meminfo(builder, value))] if model.has_nrt_meminfo() else []
    for part, get in model.traverse(builder):
        if _is_counted(models[part]):
            found += _counts(self, builder, part, get(value))
    return found


@functools.cache
def _is_counted(model: Any) -> bool:
    return bool(model.contains_nrt_meminfo())


NRTContext.get_meminfos = _counts


class _Compiled(CPUDispatcher):  # type: ignore[misc]  # numba has no types
    """A compiled function."""

    def compile(self, sig: Any) -> Any:
        """Compile or load it for types of arguments, and know which linked kernels it may enter."""
        enters = self._enters[tuple(normalize_signature(sig)[0])]
        with stopwatch.stopped(), global_compiler_lock, _uncollected(), _optimized_once(), later.collected(enters):
            return super().compile(sig)

    @functools.cached_property
    def _enters(self) -> dict[tuple[Any, ...], set[bytes]]:
        return defaultdict(set)

    @property
    def _numba_type_(self) -> types.Dispatcher:
        return _Type(self)


class _Inner(_Compiled):
    """A compiled function without what Python needs to call it."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call it as Python calls functions, through one that is compiled for that."""
        bound = inspect.signature(self.py_func).bind(*arguments, **named)
        bound.apply_defaults()
        return self._for_python(*bound.args)

    def compile(self, sig: Any) -> Any:
        """Compile it for types of arguments; what Numba has for Python is empty, so that Python gets this."""
        super().compile(sig)
        return self

    @functools.cached_property
    def _for_python(self) -> _Compiled:
        kernel = linked(self)

        def call(*arguments: Any) -> Any:
            return kernel(*arguments)

        call.__qualname__ = f"{self.py_func.__module__}.{self.py_func.__qualname__}"  # as its cache is named
        made: _Compiled = njit()(call)
        keep(made, Path(self.py_func.__code__.co_filename))
        return made


class _Type(types.Dispatcher):  # type: ignore[misc]  # numba has no types
    """The type that compiled functions see."""

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        """The signature of a call, in which numbers are no literals."""
        given = tuple(types.unliteral(kind) for kind in args)
        return super().get_call_type(context, given, {name: types.unliteral(kind) for name, kind in kws.items()})


register_model(_Type)(models.OpaqueModel)  # its callers know it: there is nothing to hold
