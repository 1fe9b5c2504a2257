"""Controllers of this package in other simulators and on other robots.

`mujoco` takes any MJCF, and `gymnasium` is an environment. `bus` lets a loop drive a robot that uses the messages of
`unitree` over DDS. Each module is loaded at its first use, and only then needs its package.
"""

import importlib
from typing import Any

__all__ = ["bus", "gymnasium", "mujoco", "unitree"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return __all__
