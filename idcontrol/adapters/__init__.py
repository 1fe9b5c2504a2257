"""Our controllers in other people's simulators and on other people's robots.

`mujoco` takes any MJCF, `gymnasium` makes an environment. `bus` lets a loop drive a robot that speaks the messages of
`unitree` over DDS. Each is loaded when it is first used, and needs a package then.
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
