"""Our controllers in other people's simulators: `mujoco` (any MJCF) and `gymnasium` (an environment).

Each needs the package that it is called after, and is loaded when it is first used.
"""

import importlib
from typing import Any

__all__ = ["gymnasium", "mujoco"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return __all__
