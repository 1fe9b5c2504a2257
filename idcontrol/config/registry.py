"""Controllers or plants by name: ours, registered ones, those of other packages, and a user's own by their places."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from idcontrol.config import places
from idcontrol.config.entries import summaries
from idcontrol.errors import DuplicateName
from idcontrol.types import CONES, ContactLaw

NO_CONE, PYRAMID, CIRCLE = (ContactLaw(cone=cone) for cone in CONES)

Setup = TypeVar("Setup")
Made = TypeVar("Made")


@dataclass(slots=True)
class Registry(Generic[Setup, Made]):
    """The things of one kind by name.

    Attributes:
        kind: What they must be.
        entries: Line in ``idcontrol list``, factory and contact law of each that is registered, by name.
    """

    kind: Final[places.Kind]
    entries: dict[str, tuple[str, Callable[[Setup], Made], ContactLaw]] = field(default_factory=dict)

    def register(self, name: str, summary: str, factory: Callable[[Setup], Made], law: ContactLaw = NO_CONE) -> None:
        """Add a factory under `name`; `summary` is its line in ``idcontrol list``, `law` what its contact model is.

        Raises:
            DuplicateName: The name is taken.
        """
        if name in self.entries:
            raise DuplicateName(self.kind.name, name)
        self.entries[name] = (summary, factory, law)

    def available(self) -> Mapping[str, str]:
        """Return name and one line for each: ours, registered ones, and those of other packages."""
        return {name: summary for name, (summary, *_) in self.entries.items()} | summaries(self.kind.group)

    def factory(self, name: str) -> Callable[[Setup], Made]:
        """Return the function that makes the thing called `name` from a setup.

        Args:
            name: One of `available`, or the place of a user's own, ``package.module:Class`` or ``file.py:Class``
                (`idcontrol.config.places`).

        Raises:
            UnknownName: Nothing has that name.
            InputError: There is no such thing at that place.
        """
        return self.entries[name][1] if name in self.entries else places.factory(self.kind, name, self.entries)

    def contact_law(self, name: str) -> ContactLaw:
        """Return what is known of the contact model of the thing called `name`; raise as `factory`."""
        return self.entries[name][2] if name in self.entries else places.contact_law(self.kind, name, self.entries)
