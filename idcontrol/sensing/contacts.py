"""Decide which feet stand: by plan, by geometry, by force, or by a majority of these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from msgspec import structs

from idcontrol.contact.spheres import SphereContacts
from idcontrol.types import Array, Booleans, Reference, State

ON_N, OFF_N = 5.0, 2.0
"""Normal forces above which contact begins, and below which it ends [N]; the hysteresis rejects noise of 1 N."""
MARGIN_M = 1e-3
"""Gap below which a foot counts as on the ground [m]."""


class StanceSource(Protocol):
    """A rule that decides which feet stand."""

    def __call__(self, state: State, reference: Reference) -> Booleans:
        """Return True for each standing foot, shape (n_feet,)."""
        ...


class Planned:
    """Stance by the plan."""

    def __call__(self, state: State, reference: Reference) -> Booleans:
        """Return the planned stance, shape (n_feet,)."""
        return reference.stance


class Geometry:
    """Stance by the gap to the ground."""

    def __init__(self, feet: SphereContacts) -> None:
        """Set the feet; each call updates their system and detects their contacts."""
        self._feet = feet

    def __call__(self, state: State, reference: Reference) -> Booleans:
        """Return True for each foot whose gap is below `MARGIN_M`, shape (n_feet,)."""
        self._feet.system.update(state.q, state.v)
        self._feet.detect(0.0)
        close: Booleans = self._feet.foot_gap < MARGIN_M
        return close


class Touch:
    """Stance by force, with hysteresis.

    For stance in a controller, use this rule only as one vote in `Fused`; with this rule alone, a trot is poor. A foot
    that does not count as standing gets no load. So after each touchdown the foot's sensor reads zero for another
    20 ms, until other feet lift and the robot sinks onto this foot.
    """

    def __init__(self, n_feet: int, on_n: float = ON_N, off_n: float = OFF_N) -> None:
        """Start with no touching foot.

        Args:
            n_feet: Number of feet.
            on_n: Normal force above which a foot begins to touch [N].
            off_n: Normal force below which a foot no longer touches [N].
        """
        self._on, self._off = on_n, off_n
        self._touching: Booleans = np.zeros(n_feet, dtype=np.bool_)
        self._normal = np.zeros(n_feet)

    def __call__(self, state: State, reference: Reference) -> Booleans:
        """Return True for each foot that touches according to ``state.forces``, shape (n_feet,), as `feel` does."""
        return self.feel(state)

    def feel(self, state: State) -> Booleans:
        """Return True for each foot that touches according to ``state.forces``, shape (n_feet,).

        If ``state.forces`` is None, the last result is returned.
        """
        if state.forces is not None:
            normal, forces = self._normal, state.forces
            normal[:] = 0.0
            normal[forces.identity] = np.einsum("ij,ij->i", forces.force, forces.normal)
            self._touching = normal > np.where(self._touching, self._off, self._on)
        return self._touching


class Fused:
    """Stance by the majority of several sources."""

    def __init__(self, sources: Sequence[StanceSource]) -> None:
        """Set the sources; if their number is even, a foot with half of the votes does not stand."""
        self._sources = sources

    def __call__(self, state: State, reference: Reference) -> Booleans:
        """Return True for each foot that stands according to more than half of the sources, shape (n_feet,)."""
        votes = np.sum([source(state, reference) for source in self._sources], axis=0)
        most: Booleans = 2 * votes > len(self._sources)
        return most


def sensed_stance(source: StanceSource) -> Callable[[State, Reference], Reference]:
    """Return a function that replaces the planned stance of a reference by the stance of `source`.

    A foot in planned swing does not count as standing if its planned height has grown since the last call. Without this
    rule, if a foot lifts late, a controller would hold it on the ground for the whole swing, and a trot by geometry
    alone would fall after two seconds. A descending foot counts as standing as soon as `source` says so.
    """
    last: Array | None = None

    def replace_stance(state: State, reference: Reference) -> Reference:
        nonlocal last
        height = reference.feet[:, 2]
        rising = np.zeros_like(reference.stance) if last is None else ~reference.stance & (height > last)
        last = height.copy()
        return structs.replace(reference, stance=source(state, reference) & ~rising).sealed()

    return replace_stance
