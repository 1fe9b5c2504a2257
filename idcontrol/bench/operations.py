"""Floating-point operations of a kernel, counted while the kernel runs as Python code.

The source of a kernel, and of every kernel that it calls, except `idcontrol.kernels.arena`, is rewritten to count each
arithmetic operation: once for numbers, once per entry for arrays. Integer arithmetic, comparisons, negations and
absolute values do not count, and a square root counts once (Hunger 2007, "Floating point operations in matrix-vector
calculus").
"""

import ast
import inspect
import textwrap
from collections import Counter
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

COUNTED = "counted_operation"
"""Name of the counting function in rewritten code."""


def count(kernel: Callable[..., Any], *arguments: Any) -> Counter[str]:
    """Return the number of operations of ``kernel(*arguments)`` by the name of the function that contains them.

    Args:
        kernel: A compiled or plain function. A product of matrices (``@``) counts once per entry of its result, and
            functions of numpy other than ``sqrt`` do not count, so the number is exact only without them.
        arguments: Arguments of the kernel, which writes into them as usual.
    """
    counts: Counter[str] = Counter()
    with np.errstate(over="ignore"):  # 64-bit hashes overflow by design
        _rewritten(kernel, counts, {})(*arguments)
    return counts


class _Numpy:
    """numpy with a counted square root."""

    def __init__(self, counted: Callable[[Any], Any]) -> None:
        self._counted = counted

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def sqrt(self, x: Any) -> Any:
        """Return the square root."""
        return self._counted(np.sqrt(x))


class _Looking(ast.NodeTransformer):
    """Passes results of arithmetic through `COUNTED`."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return ast.Call(ast.Name(COUNTED, ast.Load()), [node], [])

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        self.generic_visit(node)
        changed = ast.parse(ast.unparse(node.target), mode="eval").body
        return [node, ast.Expr(ast.Call(ast.Name(COUNTED, ast.Load()), [changed], []))]


def _rewritten(kernel: Any, counts: Counter[str], rewritten: dict[Any, Callable[..., Any]]) -> Callable[..., Any]:
    """Return a kernel rewritten to count floating-point results; rewrite the kernels it calls, except the arena's."""
    function: FunctionType = getattr(kernel, "py_func", kernel)
    if function in rewritten:
        return rewritten[function]

    def counted(result: Any) -> Any:
        if isinstance(result, float):
            counts[function.__name__] += 1
        elif isinstance(result, np.ndarray) and result.dtype.kind == "f":
            counts[function.__name__] += result.size
        return result

    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    (definition,) = tree.body
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list, definition.returns = [], None
    names = {COUNTED: counted, **function.__globals__, "np": _Numpy(counted)}
    exec(compile(ast.fix_missing_locations(_Looking().visit(tree)), function.__name__, "exec"), names)
    rewritten[function] = names[function.__name__]
    for name in function.__code__.co_names:
        called = function.__globals__.get(name)
        if hasattr(called, "py_func") and called.__module__ != "idcontrol.kernels.arena":
            names[name] = _rewritten(called, counts, rewritten)
    return rewritten[function]
