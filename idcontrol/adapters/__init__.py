"""Connections of controllers to other simulators and to robots.

`mujoco` uses a MuJoCo model as the plant, and `gymnasium` is an environment for learning. `bus` connects a loop over
DDS to a robot that uses Unitree's messages (`unitree`). `torch` and `jax` offer the control step as a function with
gradients. Each module imports its package when it is first used.
"""

import importlib
from typing import Any

__all__ = ["bus", "gymnasium", "jax", "mujoco", "torch", "unitree"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return __all__
