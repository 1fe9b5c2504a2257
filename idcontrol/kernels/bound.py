"""Arguments that are the same in every call of a compiled function, handed over once and as one argument.

Numba looks at every argument in every call: 0.1 µs for an array, half as much again where it is in a tuple. A control
step reads and writes some forty arrays, of which a handful change between calls; `bind` makes one argument of the
others, which costs 1 µs whatever it holds. In compiled code they are the tuple ``bound.values``.

Arrays are bound, not copied: what is written into them later is seen. Scalars keep the value they had.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import config, njit, types
from numba.experimental import structref


@structref.register
class _BoundType(types.StructRef):  # type: ignore[misc] # numba has no types
    """Numba's type of `Bound`."""

    def preprocess_fields(self, fields: Any) -> Any:
        """Types that do not depend on the value of a literal."""
        return tuple((name, types.unliteral(kind)) for name, kind in fields)


class Bound(structref.StructRefProxy):  # type: ignore[misc] # numba has no types
    """The result of `bind`; only compiled code can look into it."""

    __slots__ = ()


structref.define_constructor(Bound, _BoundType, ["values"])
structref.define_attributes(_BoundType)
structref.define_boxing(_BoundType, Bound)

if config.DISABLE_JIT:  # kernels run as Python, for tools that measure coverage or mutate the code

    class Bound(NamedTuple):  # type: ignore[no-redef]
        """The result of `bind`."""

        values: Any


@njit(cache=True)
def bind(values: tuple[Any, ...]) -> Bound:
    """Make one argument of arrays, numbers, and tuples of them."""
    return Bound(values)
