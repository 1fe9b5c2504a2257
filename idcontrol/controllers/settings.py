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
            rests (`idcontrol.controllers.step.HOVER_M`).
        landing_s: Time after its planned touchdown during which a foot may still be landing. While it approaches the
            ground faster than `approach_speed_m_s` or slides faster than `slide_speed_m_s`, it is no contact: its
            impact, which no torque can or should prevent, is allowed, and the foot counts from the next period on.
            Commanded to stop within one period it would affect the whole robot.
        approach_speed_m_s: See `landing_s`.
        slide_speed_m_s: See `landing_s`.
        landing: Transition of contacts from a foot's landing velocity to rest.
        project: True to project the desired velocity onto what the contacts allow, if the scheme does (math.md, section
            12.1).
        shortcut: True to try the sticking motion before the contact model, in schemes with a second stage and finite
            friction: if stage II has impulses for it, no contact problem is solved (docs/theory/sticking.md).
        edge_speed_m_s: v_tol of stage II: a contact with at most this slip counts as at rest, and its friction may have
            any direction (math.md, section 7.4). id-coulomb-lcp, id-coulomb-smooth and id-coulomb-cone have none: they
            obey Coulomb's law to the tolerance of their solver.
        ramp_s: Time over which contact forces are ramped in after touchdown and out before lift-off; 0 for none
            (planner.md, section 7). The foot's impulse gets a weight that rises with the cube of the time into the
            ramp; the motion is unchanged, so an indispensable foot keeps its force. Schemes with a second stage weigh
            it against the torque there; in other schemes impulses are redistributed while a foot ramps, with the torque
            closest to the scheme's own. id-coulomb-qp-raw has no ramp: it shows what stage I does alone. In a trot of
            links 0.025 s reduces the largest jump of a foot's force by a third and the root mean square of Δτ/Δt by a
            quarter; the mean of |Δτ/Δt| rises by a tenth, since a ramp is a change, too.
        rate_limit_nm_s: Largest rate of a joint's torque [N m/s]: "robot" for the robot file's, null for none. Contacts
            share the load so that motors stay within it, as within their torque limits, if possible (stage II);
            otherwise the joints beyond it get the closest torque within it and are not tracked in that period, for as
            many periods as a landing takes (`controllers.step.MOST_RELEASES`). If a push or a load needs more, staying
            upright takes priority over the rate, and `Command.dropped` has "rate". The first torque after a reset is
            not limited, nor are torques of id-coulomb-qp-raw: it shows what stage I does alone.
        learn_friction: True to assume less than the nominal friction once feet slide with less
            (`idcontrol.controllers.friction`).
        learn_load: True to compensate an unmodelled force on a floating base, estimated from the motion
            (`idcontrol.controllers.load`).
        impacts: True to predict the forces of a period with a touchdown including the impact: by the contact model,
            forward from the torques. No torque depends on it (planner.md, section 7).
        repair: True if schemes without slip stay within friction cones and torque limits: tracking is then relaxed, or
            contacts slip (math.md, section 12.2). Otherwise they keep the motion without slip and ignore friction, as
            in the original.
        objective: Objective of stage I of maximal dissipation: consistent with the contact model, or as printed in
            Zapolsky & Drumwright 2017 (eqs. 69 and 97; math.md, section 7.2).

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
