"""Hooks beyond Numba's public interface, and their benefit.

| hook | effect | benefit |
| --- | --- | --- |
| `jit`: wrappers | functions that Python or C never calls have no wrapper | 10 % |
| `linked` | kernels are called, not copied into each caller | without it, a trot was still compiling after 24 minutes |
| `linked.late` | kernels that most runs never enter are compiled on first use | 44 % |
| `compiling`: garbage | the garbage collector is off: most of Numba's objects persist | 15 % |
| `_Library`: loops | loops of unknown length are not unrolled: most are short | 16 %, and 13 % of a control step |
| `_Library`: once | LLVM optimizes a module once, not function by function, too | 11 % |
| `bound.borrowed` | references to bound arrays are not counted | 37 % of a control step |
| `CallType` | literals in calls count as numbers | 6 %; Python calls what compiled code called without compiling |
| `cache.claims` | kernels that another process compiles are awaited | two first trots at once: 101 s; one alone: 89 s |
| `cache` | files have a digest, and are invalid once any source of the function changes | no wrong torques |

The benefits were measured with Numba 0.68 on two cores, by switching off one hook at a time. Percentages without a
quantity are the additional processor time of a first trot, i.e. a trot with an empty cache. The time of a control step
is the median over a trot.

All hooks act on functions of this package only, within `compiling`, while the compiling thread holds Numba's compiler
lock. Only garbage collection is off in the whole process, while a function compiles. With ``IDCONTROL_PLAIN_NUMBA=1``
everything runs on plain ``numba.njit(cache=True)``, with the same results to the bit. Only `linked` remains, which uses
Numba's interface for extensions. A version of Numba that is not in `TESTED` disables the other hooks, too. Then Numba's
own cache checks only the file of a function: after an edit of another file, remove the cache (`idcontrol doctor` prints
its place).
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Iterator
from typing import Any, Final

import numba
from llvmlite import ir
from numba import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.extending import models, register_model

from idcontrol.kernels import stopwatch

TESTED: Final = ("0.62", "0.63", "0.64", "0.65", "0.66", "0.67", "0.68")
"""Versions of Numba with which the hooks are tested."""


def _is_plain() -> bool:
    """True if the user disables the hooks, or if the version of Numba is not tested.

    A version that is not tested is reported on stderr.
    """
    if os.environ.get("IDCONTROL_PLAIN_NUMBA") == "1":
        return True
    if numba.__version__.rpartition(".")[0] in TESTED:
        return False
    what = f"Numba {numba.__version__} is not tested; kernels compile and run slower, as with IDCONTROL_PLAIN_NUMBA=1"
    print(f"idcontrol: {what}", file=sys.stderr, flush=True)
    return True


PLAIN: Final = _is_plain()


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """Within the context, compile or load functions with `_Library` and without garbage collection.

    The clocks of `idcontrol.kernels.stopwatch` pause, and this thread holds Numba's compiler lock.
    """
    with stopwatch.stopped(), global_compiler_lock:  # Numba takes the same lock for other functions
        generator, threshold = cpu_target.target_context.codegen(), gc.get_threshold()
        library, generator._library_class = generator._library_class, _Library
        gc.set_threshold(0)
        try:
            yield
        finally:
            gc.set_threshold(*threshold)
            generator._library_class = library


class _Library(JITCodeLibrary):  # type: ignore[misc]  # numba has no types
    """Code of a function and its inlined functions: optimized once; loops of unknown length are not unrolled."""

    def add_ir_module(self, module: Any) -> None:
        """Add a module, and forbid LLVM to unroll its loops of unknown length."""
        pragma = module.add_metadata([ir.MetaDataString(module, "llvm.loop.unroll.runtime.disable")])
        for function in module.functions:
            done = set()
            for block in function.blocks:
                done.add(block.name)
                end = block.terminator
                if isinstance(end, ir.Branch) and any(getattr(to, "name", None) in done for to in end.operands):
                    loop = ir.MDValue(module, [], name=str(len(module.metadata)))
                    loop.operands = loop, pragma  # LLVM identifies a loop by its first operand
                    end.set_metadata("llvm.loop", loop)
        super().add_ir_module(module)

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)


class CallType(types.Dispatcher):  # type: ignore[misc]  # numba has no types
    """The type of a function whose literal arguments count as numbers: Numba would compile it anew for each literal."""

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        """Return the signature of a call."""
        plain = tuple(types.unliteral(kind) for kind in args)
        return super().get_call_type(context, plain, {name: types.unliteral(kind) for name, kind in kws.items()})


register_model(CallType)(models.OpaqueModel)  # callers know the function, so there is nothing to store
