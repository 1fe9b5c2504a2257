"""Plants: what stands in for the hardware, by the names of the command line.

`make` builds one from a `Setup`. To add a contact model as a plant, register a `Stepping` over it; an outside engine is
any object with the calls of `idcontrol.types.Plant`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from idcontrol.contact.spheres import SphereContacts
from idcontrol.errors import DuplicateName, UnknownName
from idcontrol.models import coulomb
from idcontrol.plants.stepping import Stepping
from idcontrol.system import System

__all__ = ["Setup", "Stepping", "available", "make", "register"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a plant is built from.

    Attributes:
        system: Multibody terms of its own.
        contacts: Detector of contacts on `system`, with the true friction.
        dt: Longest step [s].
    """

    system: System
    contacts: SphereContacts
    dt: float


Factory = Callable[[Setup], Stepping]
_FACTORIES: dict[str, tuple[str, Factory]] = {}


def register(name: str, summary: str, factory: Factory) -> None:
    """Add a plant under `name`; `summary` is its line in ``idcontrol list``.

    Raises:
        DuplicateName: The name is taken.
    """
    if name in _FACTORIES:
        raise DuplicateName("plant", name)
    _FACTORIES[name] = (summary, factory)


def available() -> Mapping[str, str]:
    """Name and one line for each plant."""
    return {name: summary for name, (summary, _) in _FACTORIES.items()}


def make(name: str, setup: Setup) -> Stepping:
    """The plant called `name`.

    Raises:
        UnknownName: There is none.
    """
    if name not in _FACTORIES:
        raise UnknownName("plant", name, _FACTORIES)
    return _FACTORIES[name][1](setup)


register(
    "coulomb-lcp",
    "rigid contact with Coulomb friction, Stewart-Trinkle time stepping (the papers' simulator model)",
    lambda s: Stepping(s.system, s.contacts, coulomb.solve, s.dt),
)
