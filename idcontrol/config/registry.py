"""Controllers or plants by name: built-in, registered, from other packages, or from users' files by place."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from idcontrol.config import places
from idcontrol.config.entries import summaries
from idcontrol.errors import DuplicateName
from idcontrol.types import CONES, ContactLaw

NO_CONE, PYRAMID, CIRCLE = (ContactLaw(cone=cone) for cone in CONES)

Setup = TypeVar("Setup")
Instance = TypeVar("Instance")


@dataclass(slots=True)
class Registry(Generic[Setup, Instance]):
    """Objects of one kind by name.

    Attributes:
        kind: Kind of the registered objects.
        entries: For each name the line in ``idcontrol list``, the factory and the contact law.
    """

    kind: Final[places.Kind]
    entries: dict[str, tuple[str, Callable[[Setup], Instance], ContactLaw]] = field(default_factory=dict)

    def register(
        self, name: str, summary: str, factory: Callable[[Setup], Instance], law: ContactLaw = NO_CONE
    ) -> None:
        """Add a factory under `name`; `summary` is its line in ``idcontrol list``, `law` its contact law.

        Raises:
            DuplicateName: The name is taken.
        """
        if name in self.entries:
            raise DuplicateName(self.kind.name, name)
        self.entries[name] = (summary, factory, law)

    def available(self) -> Mapping[str, str]:
        """Return names and descriptions of all objects: built-in, registered, and from other packages."""
        return {name: summary for name, (summary, *_) in self.entries.items()} | summaries(self.kind.group)

    def factory(self, name: str) -> Callable[[Setup], Instance]:
        """Return the function that creates the object called `name` from a setup.

        Args:
            name: One of `available`, or the place of a user's class, ``package.module:Class`` or ``file.py:Class``
                (`idcontrol.config.places`).

        Raises:
            UnknownName: Nothing has that name, or the file or module does not define it.
            InputError: The file does not exist, cannot be imported, or defines another kind.
        """
        return self.entries[name][1] if name in self.entries else places.factory(self.kind, name, self.entries)

    def contact_law(self, name: str) -> ContactLaw:
        """Return the contact law of the object called `name`; raise errors like `places.contact_law`."""
        return self.entries[name][2] if name in self.entries else places.contact_law(self.kind, name, self.entries)
