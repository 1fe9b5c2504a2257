r"""The velocity that a controller asks of its contacts (planner.md 7).

A contact row that asks for zero velocity at once asks the whole machine, whose joints are prescribed, to stop within one
step: hundreds of newtons, predicted and then delivered. So the ground is taken for a belt that moves with the foot and
stops within milliseconds, and that comes up to a foot which hovers:

    v̂_t = γ d(v_t),    v̂_n = γ d(v_n) + (1 - γ) clip(-φ/τ_g),    γ = 1 - h/τ_c

with d the dead band that takes speeds below it for zero: they are the drift of the constraint over a step, and handing
them back would let the feet creep.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from idcontrol.contact.contacts import Contacts
from idcontrol.errors import InputError
from idcontrol.types import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """How contacts take over from the velocity that a foot has.

    Attributes:
        decay_s: τ_c, time in which the velocity decays [s].
        closing_s: τ_g, time in which a gap closes [s].
        sink_m_s: Fastest approach of a hovering foot [m/s].
        rise_m_s: Fastest retreat of a penetrating one [m/s].
        dead_band_m_s: Speeds below this count as zero [m/s].

    Raises:
        InputError: A time is not positive or a speed is negative.
    """

    decay_s: float = 5e-3
    closing_s: float = 10e-3
    sink_m_s: float = 0.05
    rise_m_s: float = 0.02
    dead_band_m_s: float = 2e-3

    def __post_init__(self) -> None:
        for name in ("decay_s", "closing_s"):
            if not getattr(self, name) > 0.0:
                raise InputError(f"landing.{name} is {getattr(self, name)}; it must be positive")
        for name in ("sink_m_s", "rise_m_s", "dead_band_m_s"):
            if not getattr(self, name) >= 0.0:
                raise InputError(f"landing.{name} is {getattr(self, name)}; it must not be negative")


def landing_contacts(contacts: Contacts, v: Array, h: float, landing: Landing) -> Contacts:
    """The same contacts, measured against a velocity that decays; their gaps are inside it, hence zero.

    Args:
        contacts: Feet that are planned to stand.
        v: Velocity of the machine in our order, shape (m,).
        h: Control period [s].
        landing: See `Landing`.
    """
    n = len(contacts)
    if n == 0:
        return contacts
    gamma = max(1.0 - h / landing.decay_s, 0.0)
    velocity = contacts.jacobian @ v - contacts.surface_velocity
    band = landing.dead_band_m_s
    target = gamma * (velocity - np.clip(velocity, -band, band))
    target[:n] += (1.0 - gamma) * np.clip(-contacts.gap / landing.closing_s, -landing.sink_m_s, landing.rise_m_s)
    return replace(contacts, gap=np.zeros(n), surface_velocity=contacts.surface_velocity + target)
