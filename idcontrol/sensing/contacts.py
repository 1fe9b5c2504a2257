"""Which feet stand: four answers to the same question, to choose from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from msgspec import structs

from idcontrol.contact.spheres import SphereContacts
from idcontrol.types import Array, Booleans, Reference, State

ON_N, OFF_N = 5.0, 2.0
"""A foot touches from the larger force on, and until the smaller: noise of a newton makes no chatter between [N]."""
NEAR_M = 1e-3
"""A foot below this gap is at the ground [m]; like `idcontrol.controllers.Settings.contact_margin_m`."""


class ContactSource(Protocol):
    """Says which feet stand."""

    def __call__(self, state: State, reference: Reference) -> Booleans:
        """Of each foot, shape (n_feet,)."""
        ...


class Planned:
    """Those that are planned to."""

    def __call__(self, state: State, reference: Reference) -> Booleans:
        """The plan."""
        return reference.stance


class Geometry:
    """Those that are at the ground, as far as the state tells."""

    def __init__(self, feet: SphereContacts) -> None:
        """Measure the gaps of `feet`."""
        self._feet = feet

    def __call__(self, state: State, reference: Reference) -> Booleans:
        """Gap below `NEAR_M`."""
        self._feet.system.update(state.q, state.v)
        self._feet.detect(0.0)
        near: Booleans = self._feet.gap < NEAR_M
        return near


class Touch:
    """Those that feel a force, with hysteresis.

    Alone it makes a poor trot: a foot that is not believed to stand is given no load, so that none is felt until those
    before it have lifted and the machine sinks onto it, 20 ms in each step. Its use is the vote in `Fused`.
    """

    def __init__(self, n_feet: int, on_n: float = ON_N, off_n: float = OFF_N) -> None:
        """All feet are in the air until a force is felt.

        Args:
            n_feet: How many.
            on_n: Normal force from which a foot touches [N].
            off_n: And below which it no longer does [N].
        """
        self._on, self._off = on_n, off_n
        self._touching: Booleans = np.zeros(n_feet, dtype=np.bool_)
        self._normal = np.zeros(n_feet)

    def __call__(self, state: State, reference: Reference) -> Booleans:
        """By ``state.forces``; the same as before where nothing is sensed."""
        return self.feel(state)

    def feel(self, state: State) -> Booleans:
        """The same without a plan."""
        if state.forces is not None:
            normal, forces = self._normal, state.forces
            normal[:] = 0.0
            normal[forces.identity] = np.einsum("ij,ij->i", forces.force, forces.normal)
            self._touching = normal > np.where(self._touching, self._off, self._on)
        return self._touching


class Fused:
    """Those that more than half of several sources say."""

    def __init__(self, sources: Sequence[ContactSource]) -> None:
        """Ask `sources`; an odd number, so that there is a majority."""
        self._sources = sources

    def __call__(self, state: State, reference: Reference) -> Booleans:
        """The majority."""
        votes = np.sum([source(state, reference) for source in self._sources], axis=0)
        most: Booleans = 2 * votes > len(self._sources)
        return most


def believe(source: ContactSource) -> Callable[[State, Reference], Reference]:
    """A function that replaces the planned stance of a reference by what `source` says.

    But a foot that the plan is lifting does not stand: a controller keeps the feet that it believes to stand where they
    are, so one that is still at the ground as it should rise would be held there for the whole of its swing (a trot by
    geometry alone falls after two seconds). A foot that meets the ground early, on its way down, stands.
    """
    last: Array | None = None

    def believed(state: State, reference: Reference) -> Reference:
        nonlocal last
        height = reference.feet[:, 2]
        rising = np.zeros_like(reference.stance) if last is None else ~reference.stance & (height > last)
        last = height.copy()
        return structs.replace(reference, stance=source(state, reference) & ~rising)

    return believed
