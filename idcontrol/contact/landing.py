"""The contact velocity that a controller demands of a landing foot: it decays exponentially.

With prescribed joints the whole robot moves as one rigid body, so stopping a foot within one period would take a force
of hundreds of newtons. The controller therefore demands a decaying contact velocity, as if the ground were a belt that
moves with the foot and slows down to rest (planner.md, section 7).

Friction is predicted relative to this belt. A sliding foot gets just the friction that slows it down with the belt, at
most μ f_N, instead of the full μ f_N against its slip. If the cone suffices, the controller reports sticking contacts.
If friction were predicted relative to still ground, maximal dissipation would lift a sliding foot in every period, with
a speed of μ times its slip.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

import msgspec
import numpy as np

from idcontrol.contact.contacts import ContactArrays, Contacts
from idcontrol.errors import InputError
from idcontrol.kernels.arena import HEAP, Arena, vector
from idcontrol.kernels.jit import njit
from idcontrol.types import Array

Positive = Annotated[float, msgspec.Meta(gt=0)]
NotNegative = Annotated[float, msgspec.Meta(ge=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """Transition from a foot's landing velocity to rest.

    Attributes:
        decay_s: τ_c: a contact velocity decays by the factor ``γ = 1 - h/τ_c`` in a period. On compliant ground the
            decay must be slow, or contact velocities and forces excite each other: τ_c > m/(n b) for a robot of mass m
            on n feet with dampers b [N s/m] under them (math.md, section 12.6).
        closing_s: τ_g: a gap is closed at the speed φ/τ_g. inf, the default, ignores the gap: a measured gap has the
            errors of the sensors, and feet would follow its noise.
        sink_m_s: Largest speed at which a gap is closed towards the ground.
        rise_m_s: Largest speed at which a foot rises out of the ground.
        settle_s: Time after touchdown during which γ holds. Later γ is 0 as long as the slip is at most `slip_m_s`.
            With inf γ always holds.
        slip_m_s: Slip above which γ holds even after `settle_s`.

    Raises:
        InputError: A value is out of range.
    """

    decay_s: Positive = 0.02
    closing_s: Positive = np.inf
    sink_m_s: NotNegative = 0.05
    rise_m_s: NotNegative = 0.02
    settle_s: NotNegative = np.inf
    slip_m_s: NotNegative = 0.01

    def __post_init__(self) -> None:
        for name in ("decay_s", "closing_s"):
            if not getattr(self, name) > 0.0:
                raise InputError(f"landing.{name} is {getattr(self, name)}; it must be positive")
        for name in ("sink_m_s", "rise_m_s", "settle_s", "slip_m_s"):
            if not getattr(self, name) >= 0.0:
                raise InputError(f"landing.{name} is {getattr(self, name)}; it must not be negative")


class LandingRates(NamedTuple):
    """A `Landing` for control periods of one length, for kernels.

    Attributes:
        h: Control period [s].
        decay: γ, the remaining share of a contact velocity after a period.
        closing_s: τ_g [s].
        sink_m_s: Largest speed towards the ground at which a gap is closed.
        rise_m_s: Largest speed at which a foot rises out of the ground.
        settle_s: Time after touchdown during which γ holds.
        slip_m_s: Slip above which γ holds even after `settle_s`.
    """

    h: float
    decay: float
    closing_s: float
    sink_m_s: float
    rise_m_s: float
    settle_s: float
    slip_m_s: float


def landing_rates(landing: Landing, h: float) -> LandingRates:
    """Return the parameters `landing`, with γ for control periods of `h` [s] instead of `decay_s`."""
    return LandingRates(
        h=float(h),
        decay=max(0.0, 1.0 - h / landing.decay_s),
        closing_s=float(landing.closing_s),
        sink_m_s=float(landing.sink_m_s),
        rise_m_s=float(landing.rise_m_s),
        settle_s=float(landing.settle_s),
        slip_m_s=float(landing.slip_m_s),
    )


def landing_contacts(
    contacts: Contacts, v: Array, h: float, landing: Landing, *, since_touchdown: Array | None = None
) -> Contacts:
    """Replace the surface velocity of contacts by the reference velocity v̂, which includes the gap.

    With w the velocity of the contact relative to its surface, ``w = J v - h J̇ v - surface``::

        v̂_t = γ w_t                                            + surface
        v̂_n = γ w_n + (1 - γ) clip(-φ/τ_g, -sink, rise)          + surface        (planner.md, section 7)

    ``h J̇ v`` is the drift of one period, which arises because the rows turn: a foot at rest along the rows of the last
    period moves along the rows of this period. The drift must not be fed back.

    Args:
        contacts: The controller's contacts.
        v: Velocity in the order of `System.order`, shape (m,).
        h: Control period [s].
        landing: The parameters.
        since_touchdown: Time since the planned touchdown of each contact, shape (n,) [s]; None stands for zeros.

    Returns:
        Contacts with gap 0 and `surface_velocity` v̂; all other fields are shared with `contacts`.
    """
    n = len(contacts)
    velocity, since = np.empty(3 * n), np.zeros(n) if since_touchdown is None else since_touchdown
    landing_kernel(contacts.arrays, v, landing_rates(landing, h), since, velocity, HEAP)
    return replace(contacts, gap=np.zeros(n), surface_velocity=velocity)


@njit(cache=True, forceinline=True, error_model="numpy")
def landing_kernel(
    contacts: ContactArrays, v: Array, landing: LandingRates, since: Array, out: Array, arena: Arena
) -> None:
    """Write the reference velocity of each contact row, shape (3 n,), as in `landing_contacts`."""
    gap, surface, drift, J = contacts.gap, contacts.surface_velocity, contacts.drift, contacts.jacobian
    n = gap.shape[0]
    w = vector(arena, 3)
    for i in range(n):
        for axis in range(3):
            w[axis] = -surface[axis * n + i] - landing.h * drift[axis * n + i]
            for k in range(v.shape[0]):
                w[axis] += J[axis * n + i, k] * v[k]
        speed = np.sqrt(w[1] * w[1] + w[2] * w[2])
        gamma = landing.decay if since[i] <= landing.settle_s or speed > landing.slip_m_s else 0.0
        close = min(max(-gap[i] / landing.closing_s, -landing.sink_m_s), landing.rise_m_s)
        out[i] = surface[i] + gamma * w[0] + (1.0 - gamma) * close
        for axis in range(1, 3):
            out[axis * n + i] = surface[axis * n + i] + gamma * w[axis]
