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
"""Gap below which a foot in planned swing counts as on the ground [m]."""
ERROR_M = 0.01
"""Growth of its gap up to which a foot in planned stance counts as on the ground [m]; errors of 0.01 rad of encoders
and attitude misplace a foot by that much."""


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
    """Stance by the gap to the ground.

    A measured gap has the errors of encoders, attitude and map. If a foot wrongly counts as lifted, it gets no load,
    and the robot sinks. So a foot in planned stance stands until its gap has grown by `ERROR_M`.
    """

    def __init__(self, feet: SphereContacts) -> None:
        """Set the feet; each call updates their system and detects their contacts."""
        self._feet = feet
        self._planned: Booleans = np.zeros(feet.n_feet, dtype=np.bool_)
        self._landed = np.zeros(feet.n_feet)

    def __call__(self, state: State, reference: Reference) -> Booleans:
        """Return True for each foot on the ground, shape (n_feet,).

        A foot in planned stance is on the ground if its gap exceeds the gap at which its stance began, or zero, by less
        than `ERROR_M`; another foot if its gap is below `MARGIN_M`.
        """
        self._feet.system.update(state.q, state.v)
        self._feet.detect(0.0)
        gap, planned = self._feet.foot_gap, reference.stance
        self._landed = np.where(planned & ~self._planned, np.maximum(gap, 0.0), self._landed)
        self._planned = planned.copy()  # a planner may write into its array
        return gap < np.where(planned, self._landed + ERROR_M, MARGIN_M)


class Touch:
    """Stance by force, with hysteresis.

    A foot carries the load that the controller gives it. A foot that does not stand gets no load, so a reading of zero
    is no evidence against the ground: if such a foot counted as lifted, it would never be loaded again. Force
    therefore only adds feet that touch in planned swing. A foot that is loaded in the air moves at once, and this
    motion shows that it is no contact (`idcontrol.controllers.stance.RESTING_M_S`).
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
        """Return True for each foot that touches (`feel`) or is in planned stance, shape (n_feet,)."""
        return self.feel(state) | reference.stance

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
        return 2 * votes > len(self._sources)


def sensed_stance(source: StanceSource) -> Callable[[State, Reference], Reference]:
    """Return a function that replaces the planned stance of a reference by the stance of `source`.

    A foot in planned swing does not count as standing if its planned height has grown since the last call. Without this
    rule, if a foot lifts late, a controller would hold it on the ground for the whole swing, and a trot by geometry
    alone would fall after two seconds. A descending foot counts as standing as soon as `source` says so.

    `Reference.since_touchdown` counts from the moment at which the foot began to stand, also outside of the plan. The
    controller then lets the foot land and ramps its load.
    """
    last: Array | None = None
    began: Array | None = None  # -inf for feet that stand from the start, inf for feet in the air

    def replace_stance(state: State, reference: Reference) -> Reference:
        nonlocal last, began
        height, planned = reference.feet[:, 2], reference.stance
        if last is None or began is None:
            last, began = height, np.where(planned, -np.inf, np.inf)
        stands = source(state, reference) & (planned | ~(height > last))
        last, began = height.copy(), np.where(stands, np.minimum(began, state.t), np.inf)
        since = np.where(stands, state.t - began, np.inf)
        return structs.replace(reference, stance=stands, since_touchdown=since).sealed()

    return replace_stance
