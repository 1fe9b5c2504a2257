"""Settings of an inverse-dynamics controller."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from idcontrol.contact.landing import Landing
from idcontrol.errors import InputError

Objective: TypeAlias = Literal["consistent", "printed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InverseSettings:
    """Settings of an inverse-dynamics controller.

    Attributes:
        contact_margin_m: A foot planned to stand counts as a contact below this gap; beyond a millimetre, only while it
            rests (`idcontrol.controllers.step.NEAR_M`).
        landing_s: How long after its planned touchdown a foot may still be landing. While it lands, and nears the
            ground faster than `approach_speed_m_s` or slides faster than `slide_speed_m_s`, it is no contact: its
            impact, which no torque can or should prevent, is left to happen, and the foot counts from the next period
            on. Asked to stop within one period it would take the whole machine with it.
        approach_speed_m_s: See `landing_s`.
        slide_speed_m_s: See `landing_s`.
        landing: How contacts take over from the velocity that a foot has left.
        project: Whether the desired velocity is projected onto what the contacts allow, where the scheme does
            (math.md, section 12.1).
        shortcut: Whether the sticking motion is tried before the contact model, in schemes with a second stage and
            where friction is finite: if stage II finds impulses for it, no contact problem is solved
            (docs/theory/sticking.md).
        edge_speed_m_s: v_tol of stage II: a contact that slips no faster counts as at rest, and its friction may point
            anywhere (math.md, section 7.4). id-coulomb-lcp, id-coulomb-smooth and id-coulomb-cone have none: they keep
            Coulomb's law to the tolerance of their solver.
        ramp_s: Over which time contact forces are ramped in after touchdown and out before lift-off; 0 turns it off
            (planner.md, section 7). The foot's impulse gets a weight that rises with the cube of the time into the
            ramp; the motion stays what it is, so a foot that cannot be spared keeps its force. Schemes with a second
            stage weigh it against the torque there; after the others impulses are shared anew while a foot ramps, with
            the torque nearest to the scheme's own. id-coulomb-qp-raw has no ramp: it shows what stage I does alone. In
            a trot of links 0.025 s takes a third off the largest jump of a foot's force and a quarter off the root mean
            square of Δτ/Δt; the mean of |Δτ/Δt| rises by a tenth, since a ramp is a change, too.
        rate_limit_nm_s: How fast the torque of a joint may change [N m/s]: "robot" is what the robot file says, null
            is no bound. Contacts share the load so that motors stay within it, as within their torque limits, where
            they can (stage II); where they cannot, the joints beyond it get the nearest torque within it and are not
            tracked in that period, for as many periods as a landing takes (`controllers.inverse.MOST_LET_GO`).
            Where a push or a load asks for more, the bound is given up before the robot falls, and `Command.dropped`
            has "rate". The first torque after a reset has no bound, and those of id-coulomb-qp-raw have none: it shows
            what stage I does alone.
        learn_friction: True to assume less than the nominal friction where feet slide with less
            (`idcontrol.controllers.friction`).
        learn_load: True to compensate an unmodelled force on a floating base, estimated from the motion
            (`idcontrol.controllers.load`).
        impacts: True to predict the forces of a period in which a foot lands with its impact: by the contact
            model, forward from the torques. No torque depends on it (planner.md, section 7).
        repair: Whether schemes without slip stay within friction cones and torque limits: joints give way then, or
            contacts slip (math.md, section 12.2). Off, they keep the motion without slip and do not look at
            friction, as the original.
        objective: Objective of stage I of maximal dissipation: consistent with the contact model, or as Zapolsky &
            Drumwright 2017 print it (eqs. 69 and 97; math.md, section 7.2).

    Raises:
        InputError: The settings contradict each other, or a time is negative.
    """

    contact_margin_m: float = 0.05
    landing_s: float = 0.01
    approach_speed_m_s: float = 0.002
    slide_speed_m_s: float = 0.01
    landing: Landing = field(default_factory=Landing)
    project: bool = True
    shortcut: bool = True
    edge_speed_m_s: float = 1e-3
    ramp_s: float = 0.025
    rate_limit_nm_s: float | Literal["robot"] | None = "robot"
    learn_friction: bool = True
    learn_load: bool = True
    impacts: bool = True
    repair: bool = True
    objective: Objective = "consistent"

    def __post_init__(self) -> None:
        if not self.ramp_s >= 0.0:
            raise InputError(f"inverse.ramp_s is {self.ramp_s}; it must not be negative")
        rate = self.rate_limit_nm_s
        if rate is not None and rate != "robot" and not float(rate) > 0.0:
            raise InputError(f"inverse.rate_limit_nm_s is {rate}; it must be positive, null (no bound) or robot")
