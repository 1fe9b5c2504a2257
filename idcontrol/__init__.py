"""Motor torques for robots in contact: inverse dynamics that predicts its own contact forces.

Most programs need only the names of this module. For example::

    import idcontrol as idc

    robot = idc.robots.load("go1")
    controller = idc.controllers.make("id-coulomb-qp", robot, mu=0.6, rate_hz=1000)
    command = controller(robot.standing_state(), robot.standing_reference())

Each name is loaded at its first use, so the import itself is fast.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from idcontrol import adapters, batch, controllers, filter, mpc, planners, plants, robots, tasks
    from idcontrol.contact.spheres import SphereContacts
    from idcontrol.contact.terrain import Terrain, load_height_map, plane
    from idcontrol.dynamics.system import System
    from idcontrol.errors import IdControlError
    from idcontrol.record.recording import Run, load
    from idcontrol.sweeps.comparison import compare
    from idcontrol.sweeps.record import Comparison
    from idcontrol.sweeps.running import run
    from idcontrol.types import Command, ContactForces, Controller, Plant, Reference, State, Status

__all__ = [
    "Command", "Comparison", "ContactForces", "Controller", "IdControlError", "Plant", "Reference", "Run",
    "SphereContacts", "State", "Status", "System", "Terrain", "adapters", "batch", "compare", "controllers", "filter",
    "load", "load_height_map", "mpc", "plane", "planners", "plants", "robots", "run", "tasks",
]  # fmt: skip

_HOME = {
    "contact.spheres": ("SphereContacts",),
    "contact.terrain": ("Terrain", "load_height_map", "plane"),
    "dynamics.system": ("System",),
    "errors": ("IdControlError",),
    "record.recording": ("Run", "load"),
    "sweeps.comparison": ("compare",),
    "sweeps.record": ("Comparison",),
    "sweeps.running": ("run",),
    "types": ("Command", "ContactForces", "Controller", "Plant", "Reference", "State", "Status"),
}
"""Names by the module that defines them; all other names are modules or subpackages."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = next((module for module, names in _HOME.items() if name in names), None)
    if home is None:
        return importlib.import_module(f"{__name__}.{name}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
