"""Check of friction coefficients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from idcontrol.errors import InputError
from idcontrol.kernels.jit import njit
from idcontrol.types import Array

LEAST_FRICTION, MOST_FRICTION = 1e-100, 1e12
"""Range of nonzero, finite friction coefficients: below it products underflow; above it, the rounding error of friction
exceeds the effect of a normal impulse."""


@njit(cache=True)
def _is_friction(mu: Array) -> bool:  # pragma: no cover - compiled
    """True if friction coefficients are usable numbers."""
    good = True
    for value in mu:
        good = good and (value == 0.0 or LEAST_FRICTION <= value <= MOST_FRICTION or value == np.inf)
    return good


def require_friction(mu: Array, names: Sequence[str] = ()) -> None:
    """Check friction coefficients, shape (n,).

    Args:
        mu: The coefficients.
        names: Owners of the coefficients, for the message; by default contacts.

    Raises:
        InputError: A coefficient is negative, not a number, or nonzero, finite and out of range.
    """
    if _is_friction(mu):
        return
    i = next(i for i in range(mu.size) if not _is_friction(mu[i : i + 1]))
    raise InputError(
        f"{names[i] if names else f'contact {i}'}: friction is {mu[i]}; it must be 0, from {LEAST_FRICTION:g} to "
        f"{MOST_FRICTION:g}, or inf for no slip"
    )
