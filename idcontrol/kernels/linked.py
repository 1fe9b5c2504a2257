"""Compiled functions that are called, not copied into their callers.

Numba copies a function's code into every caller, and optimizes it there again. So a kernel below six levels of calls is
compiled six times, and again for each further caller. A `linked` kernel is compiled once, and called. A call takes some
nanoseconds, so linking is for solvers and whole stages of a step, not for operations on a few numbers.

A caller may also choose a kernel at run time: `address` returns its address, and `calls` returns a function that calls
an address. So one compiled loop serves all schemes and models.

Each call site has a pointer, initially empty. The first call requests the kernel from Python, which loads it from the
cache or compiles it. A linked kernel rounds like a copied kernel.

A `late` kernel is compiled when first called, not with its callers, which only know its return type. Late kernels serve
steps that most runs never take. A loop on the wall clock cannot wait for a kernel. So before its first tick it calls
`compile_linked`, which reads the kernels' names from the machine code (`idcontrol.kernels.cache`).

With `idcontrol.kernels.hooks.PLAIN`, late kernels are compiled with their callers: Numba's own cache does not tell
which kernels its code calls.
"""

from __future__ import annotations

import functools
import pickle
from base64 import b64decode, b64encode
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from numba import config, typeof, types
from numba.core import cgutils
from numba.extending import lower_builtin, type_callable

from idcontrol.kernels.cache import MARK, entered
from idcontrol.kernels.hooks import PLAIN

F = TypeVar("F")


def linked(kernel: F) -> F:
    """Decorate a compiled function, above ``njit(cache=True)``: compiled callers then call it instead of copying it.

    Args:
        kernel: Compiled function at the top level of a module, called with positional arguments.
    """
    return _link(kernel, None)


def late(returned: Callable[..., Any]) -> Callable[[F], F]:
    """Return a decorator like `linked` for a kernel that is compiled when first called.

    Args:
        returned: Function from the Numba types of the kernel's arguments to the type of its result.
    """
    return lambda kernel: _link(kernel, returned)


def compile_linked() -> None:
    """Compile or load all linked kernels that compiled code in this process may call, including late ones."""
    done: set[bytes] = set()
    while new := entered - done:
        for name in sorted(new):
            find(name)
        done |= new


def _link(kernel: Any, returned: Callable[..., Any] | None) -> Any:
    if config.DISABLE_JIT:
        return kernel
    link = _Linked(kernel)
    declared = None if PLAIN else returned

    @type_callable(link)
    def typed(_: Any) -> Callable[..., Any]:
        @functools.wraps(kernel.py_func)  # Numba reads the names of arguments
        def signature(*arguments: Any) -> Any:
            kinds = tuple(types.unliteral(kind) for kind in arguments)
            result = declared(*kinds) if declared else _compiled(kernel, kinds).signature.return_type
            return result(*kinds)

        return signature

    lower_builtin(link, types.VarArg(types.Any))(functools.partial(_call, link))
    return link


def address(kernel: Any, returned: Any, *like: Any) -> Any:
    """Return the address of a compiled function for arguments of the types of `like`; compile it if necessary.

    While Numba's JIT is off, return the function itself.

    Args:
        kernel: A compiled function at the top level of a module, so that it persists.
        returned: The Numba type that the kernel must return.
        like: Examples of the arguments, or their Numba types.

    Raises:
        TypeError: The kernel returns another type.
    """
    if config.DISABLE_JIT:
        return kernel
    compiled = _compiled(kernel, _types_of(like))  # shared with `entry`: compiled once for both
    if compiled.signature.return_type != returned:
        raise TypeError(f"{kernel.__name__} returns {compiled.signature.return_type}, not {returned}")
    return _where(compiled)


def type_returned(kernel: Any, *like: Any) -> Any:
    """Return the Numba type that a compiled function returns for these arguments or types; None without the JIT."""
    return None if config.DISABLE_JIT else _compiled(kernel, _types_of(like)).signature.return_type


def _types_of(like: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(value if isinstance(value, types.Type) else typeof(value) for value in like)


def calls(returned: Any) -> Any:
    """Return a function ``call(address, arguments)`` that calls the code at an `address` with a tuple of arguments.

    Interpreted code passes a function instead of an address.

    Args:
        returned: The Numba type of the result.
    """

    def call(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        return function(*arguments)

    @type_callable(call)
    def typed(_: Any) -> Callable[..., Any]:
        def signature(where: Any, arguments: Any) -> Any:
            return returned(where, arguments)

        return signature

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kinds = tuple(signature.args[1])
        function = context.call_conv.get_function_type(returned, kinds)
        callee = builder.inttoptr(values[0], function.as_pointer())
        parts = cgutils.unpack_tuple(builder, values[1], len(kinds))
        return _call_address(context, builder, callee, returned, kinds, parts)

    lower_builtin(call, types.VarArg(types.Any))(generate)
    return call


class _Linked:
    """A linked kernel: it stands in for the compiled function."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        functools.update_wrapper(self, kernel.py_func)

    def __call__(self, *arguments: Any) -> Any:
        return self._kernel(*arguments)

    def __getattr__(self, name: str) -> Any:
        if name == "_numba_type_":  # with the kernel's type, Numba would copy the kernel into its callers
            raise AttributeError(name)
        return getattr(self._kernel, name)

    def __reduce__(self) -> str:
        return str(self.__name__)  # copied and pickled as the function itself


def name_of(kernel: Any, kinds: tuple[Any, ...], returned: Any) -> bytes:
    """Return the text by which `find` identifies a kernel: its name, and the types of its arguments and result."""
    return MARK % b64encode(pickle.dumps((kernel.__module__, kernel.__name__, kinds, returned)))


def _call(kernel: _Linked, context: Any, builder: Any, signature: Any, values: Any) -> Any:
    """Generate a call of a linked kernel."""
    returned, kinds = signature.return_type, signature.args
    name = name_of(kernel, kinds, returned)
    slot = cgutils.add_global_variable(builder.module, cgutils.voidptr_t, f"linked.{kernel.py_func.__name__}")
    slot.linkage, slot.initializer = "internal", cgutils.get_null_value(cgutils.voidptr_t)
    with cgutils.if_unlikely(builder, cgutils.is_null(builder, builder.load(slot))):
        _ask(context, builder, slot, name)
    function = context.call_conv.get_function_type(returned, kinds)
    callee = builder.bitcast(builder.load(slot), function.as_pointer())
    return _call_address(context, builder, callee, returned, kinds, values)


def _call_address(context: Any, builder: Any, callee: Any, returned: Any, kinds: Any, values: Any) -> Any:
    """Generate a call of a known address; errors in the call are passed on."""
    status, result = context.call_conv.call_function(builder, callee, returned, kinds, values)
    with cgutils.if_unlikely(builder, status.is_error):
        context.call_conv.return_status_propagate(builder, status)
    return result


def _ask(context: Any, builder: Any, slot: Any, name: bytes) -> None:
    """Emit code that asks Python for the address of a kernel, by its `name_of`, and stores the address in `slot`."""
    python = context.get_python_api(builder)
    held = python.gil_ensure()
    module = python.import_module(context.insert_const_string(builder.module, __name__))
    text = cgutils.global_constant(builder, "linked.name", cgutils.make_bytearray(name))
    size = context.get_constant(types.intp, len(name))
    argument = python.bytes_from_string_and_size(builder.bitcast(text, cgutils.voidptr_t), size)
    address = python.call_method(module, "find", (argument,))
    with builder.if_then(cgutils.is_not_null(builder, address)):
        builder.store(builder.inttoptr(python.long_as_longlong(address), cgutils.voidptr_t), slot)
        python.decref(address)
    python.decref(argument)
    python.decref(module)
    python.gil_release(held)
    with cgutils.if_unlikely(builder, cgutils.is_null(builder, builder.load(slot))):
        context.call_conv.return_exc(builder)


@functools.cache
def find(name: bytes) -> int:
    """Load or compile the kernel of a name (`name_of`), and return its address, which stays valid.

    Raises:
        RuntimeError: The kernel returns another type than its caller was compiled for, or than declared.
    """
    begin, end = MARK.split(b"%b")
    module, function, kinds, returned = pickle.loads(b64decode(name.removeprefix(begin).removesuffix(end)))
    compiled = _compiled(getattr(import_module(module), function), kinds)
    if compiled.signature.return_type != returned:
        differs = f"{module}.{function} returns {compiled.signature.return_type}, not {returned}"
        raise RuntimeError(f"{differs}: if it has changed, remove the caches of its callers (*.nbc)")
    return _where(compiled)


def _where(compiled: Any) -> int:
    where: int = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
    return where


def _compiled(kernel: Any, kinds: tuple[Any, ...]) -> Any:
    """Return the kernel's code for some argument types, compiling it if necessary."""
    kernel.compile(kinds)
    return kernel.overloads[kinds]
