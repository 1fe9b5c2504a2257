"""The contact velocity that a controller asks for: a landing foot may take some milliseconds to stop.

With the joints prescribed the whole machine is one rigid body. Rows that demand rest at once ask that body to stop
within one period: hundreds of newtons, predicted *and delivered*. So a controller measures its rows against a reference
velocity that decays: the ground is a belt that moves with the foot and stops (planner.md 7).

So friction is predicted relative to that belt. A foot that slides gets the friction that slows it as the belt does, at
most that of its cone, and not all of μ f_N against its slip; where it does slow so, a controller says that its contacts
stick. Against the ground itself maximal dissipation would ask a sliding foot to rise at μ times its slip in every
period.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from idcontrol.contact.contacts import ContactArrays, Contacts
from idcontrol.errors import InputError
from idcontrol.kernels.arena import HEAP, Arena, vector
from idcontrol.kernels.jit import njit
from idcontrol.types import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """How a contact takes over from the velocity that a foot lands with.

    Attributes:
        decay_s: τ_c: a contact velocity decays by the factor ``γ = 1 - h/τ_c`` in a period. It must be slow for ground
            that gives way (math.md, section 12.6). To stop n feet that rise at w, the base of a machine of mass m is to
            follow them, which takes m w/τ_c off their force; ground with a damper of b under each answers with n b w,
            and the two swing up unless τ_c > m/(n b), 5 ms on the soft ground of Zapolsky & Drumwright 2017.
        closing_s: τ_g: a gap is closed at the speed φ/τ_g. inf, the default, does not look at the gap, which is as
            wrong as the sensors; its force holds a standing foot down. Noise on the gap would be chased (a trot with
            0.5 mm of it: mean |Δτ/Δt| 310 N m/s with 0.01 s, 110 N m/s with 0.1 s) ...
        sink_m_s: ... of at most this towards the ground,
        rise_m_s: and of at most this out of it.
        settle_s: γ holds for this long after touchdown and is 0 later: the foot stands. inf: it never settles.
        slip_m_s: A foot that slips faster is not settled.
    """

    decay_s: float = 0.02
    closing_s: float = np.inf
    sink_m_s: float = 0.05
    rise_m_s: float = 0.02
    settle_s: float = np.inf
    slip_m_s: float = 0.01

    def __post_init__(self) -> None:
        for name in ("decay_s", "closing_s"):
            if not getattr(self, name) > 0.0:
                raise InputError(f"landing.{name} is {getattr(self, name)}; it must be positive")
        for name in ("sink_m_s", "rise_m_s", "settle_s", "slip_m_s"):
            if not getattr(self, name) >= 0.0:
                raise InputError(f"landing.{name} is {getattr(self, name)}; it must not be negative")


class LandingRates(NamedTuple):
    """A `Landing` for control periods of one length, as kernels take it.

    Attributes:
        h: Control period [s].
        decay: γ, the share of a contact velocity that is left after a period.
        closing_s: τ_g [s].
        sink_m_s: Largest speed towards the ground at which a gap is closed.
        rise_m_s: Largest speed out of the ground.
        settle_s: How long after touchdown γ holds.
        slip_m_s: A foot that slips faster is not settled.
    """

    h: float
    decay: float
    closing_s: float
    sink_m_s: float
    rise_m_s: float
    settle_s: float
    slip_m_s: float


def landing_rates(landing: Landing, h: float) -> LandingRates:
    """`landing` for control periods of `h` [s]."""
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
    """Measure the rows of contacts against the reference velocity v̂, which holds the gap, too.

    With w the velocity of the contact relative to its surface, ``w = J v - h J̇ v`` minus the surface's::

        v̂_t = γ w_t                                            + surface
        v̂_n = γ w_n + (1 - γ) clip(-φ/τ_g, -sink, rise)          + surface        (planner.md, section 7)

    ``h J̇ v`` is the drift of one period: a foot that has been held still along the rows of the last period moves by it
    along those of this one, and that must not be fed back.

    Args:
        contacts: The contacts that the controller counts on.
        v: Velocity in our order, shape (m,).
        h: Control period [s].
        landing: The parameters.
        since_touchdown: Time since the planned touchdown of each contact, shape (n,) [s]; None means none has settled.

    Returns:
        Contacts with gap 0 and `surface_velocity` v̂; all other fields are those of `contacts`, not copies.
    """
    n = len(contacts)
    velocity, since = np.empty(3 * n), np.zeros(n) if since_touchdown is None else since_touchdown
    landing_kernel(contacts.arrays, v, landing_rates(landing, h), since, velocity, HEAP)
    return replace(contacts, gap=np.zeros(n), surface_velocity=velocity)


@njit(cache=True, forceinline=True, error_model="numpy")
def landing_kernel(
    contacts: ContactArrays, v: Array, landing: LandingRates, since: Array, out: Array, arena: Arena
) -> None:
    """Write the velocity that each contact row is measured against, shape (3 n,), as `landing_contacts` says."""
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
