"""The contact velocity that a controller asks for: a landing foot may take some milliseconds to stop.

With the joints prescribed the whole machine is one rigid body. Rows that demand rest at once ask that body to stop
within one period: hundreds of newtons, predicted *and delivered*. So a controller measures its rows against a reference
velocity that decays: the ground is a belt that moves with the foot and stops (planner.md 7).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from idcontrol.contact.contacts import Contacts
from idcontrol.errors import InputError
from idcontrol.kernels.arena import HEAP, Arena, vector
from idcontrol.types import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """How a contact takes over from the velocity that a foot lands with.

    Attributes:
        decay_s: τ_c: a contact velocity decays by the factor ``γ = 1 - h/τ_c`` in a period. It must be slow for ground
            that gives way. To stop n feet that rise at w, the base of a machine of mass m is to follow them, which
            takes m w/τ_c off their force; ground with a damper of b under each answers with n b w, and the two swing up
            unless τ_c > m/(n b), 5 ms on the soft ground of 003.
        closing_s: τ_g: a gap is closed at the speed φ/τ_g, slow enough that noise on the measured gap is not chased (a
            trot with 0.5 mm of it: mean |Δτ/Δt| 310 N m/s with 0.01 s, 110 N m/s with 0.1 s) ...
        sink_m_s: ... of at most this towards the ground,
        rise_m_s: and of at most this out of it.
        dead_band_m_s: Slower velocities count as rest, faster ones by their excess: what is left of a standing foot's
            velocity is the drift J̇v of one period, which must not be fed back. Inside it a gap closes with the time
            ``τ_g / (1 - γ)``, outside it with τ_g.
        settle_s: γ holds for this long after touchdown and is 0 later: the foot stands. inf: it never settles.
        slip_m_s: A foot that slips faster is not settled.
    """

    decay_s: float = 0.02
    closing_s: float = 0.1
    sink_m_s: float = 0.05
    rise_m_s: float = 0.02
    dead_band_m_s: float = 0.002
    settle_s: float = np.inf
    slip_m_s: float = 0.01

    def __post_init__(self) -> None:
        for name in ("decay_s", "closing_s"):
            if not getattr(self, name) > 0.0:
                raise InputError(f"landing.{name} is {getattr(self, name)}; it must be positive")
        for name in ("sink_m_s", "rise_m_s", "dead_band_m_s", "settle_s", "slip_m_s"):
            if not getattr(self, name) >= 0.0:
                raise InputError(f"landing.{name} is {getattr(self, name)}; it must not be negative")


def landing_contacts(
    contacts: Contacts,
    v: Array,
    h: float,
    landing: Landing,
    *,
    since_touchdown: Array | None = None,
    drift: Array | None = None,
) -> Contacts:
    """The same contacts with their rows measured against the reference velocity v̂, which holds the gap, too.

    With w the velocity of the contact relative to its surface, ``w = J v`` minus the surface's::

        v̂_t = γ w_t                                             - h (J̇v)_t + surface
        v̂_n = γ w_n + (1 - γ) clip(-φ/τ_g, -sink, rise)           - h (J̇v)_n + surface        (planner.md 7)

    (w_t and w_n after the dead band; along the tangents it shortens the vector, so that it prefers no direction).

    Args:
        contacts: What the controller counts on.
        v: Velocity in our order, shape (m,).
        h: Control period [s].
        landing: The parameters.
        since_touchdown: Time since the planned touchdown of each contact, shape (n,) [s]; None means none has settled.
        drift: J̇v along the axes, shape (n, 3) [m/s²]: with it the contact moves with v̂ at the *end* of the period; None
            means 0.

    Returns:
        Contacts with gap 0 and `surface_velocity` v̂; all other fields are those of `contacts`, not copies.
    """
    n = len(contacts)
    velocity, gap = np.empty(3 * n), np.zeros(n)
    landing_kernel(
        contacts.jacobian,
        v,
        contacts.gap,
        contacts.surface_velocity,
        h,
        (
            max(0.0, 1.0 - h / landing.decay_s),
            landing.closing_s,
            landing.sink_m_s,
            landing.rise_m_s,
            landing.dead_band_m_s,
            landing.settle_s,
            landing.slip_m_s,
        ),
        gap if since_touchdown is None else since_touchdown,
        np.zeros((n, 3)) if drift is None else drift,
        velocity,
        HEAP,
    )
    return Contacts(
        identity=contacts.identity,
        point=contacts.point,
        axes=contacts.axes,
        gap=gap,
        mu=contacts.mu,
        jacobian=contacts.jacobian,
        surface_velocity=velocity,
        stiffness=contacts.stiffness,
        damping=contacts.damping,
    )


@njit(cache=True, error_model="numpy")
def landing_kernel(
    J: Array,
    v: Array,
    gap: Array,
    surface: Array,
    h: float,
    landing: tuple[float, float, float, float, float, float, float],
    since: Array,
    drift: Array,
    out: Array,
    arena: Arena,
) -> None:
    """Velocity that each contact row is measured against, as `landing_contacts` says, into `out`, shape (3 n,)."""
    decay, closing_s, sink, rise, dead, settle_s, slip = landing
    n = gap.shape[0]
    w = vector(arena, 3)
    for i in range(n):
        for axis in range(3):
            w[axis] = -surface[axis * n + i]
            for k in range(v.shape[0]):
                w[axis] += J[axis * n + i, k] * v[k]
        speed = np.sqrt(w[1] * w[1] + w[2] * w[2])
        gamma = decay if since[i] <= settle_s or speed > slip else 0.0
        w[0] -= min(max(w[0], -dead), dead)
        shorten = max(0.0, speed - dead) / speed if speed > 0.0 else 0.0
        close = min(max(-gap[i] / closing_s, -sink), rise)
        out[i] = surface[i] + gamma * w[0] + (1.0 - gamma) * close - h * drift[i, 0]
        for axis in range(1, 3):
            out[axis * n + i] = surface[axis * n + i] + gamma * shorten * w[axis] - h * drift[i, axis]
