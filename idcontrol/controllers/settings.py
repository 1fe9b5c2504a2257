"""Settings of an inverse-dynamics controller."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from idcontrol.contact.landing import Landing, NotNegative, Positive
from idcontrol.errors import InputError

Objective: TypeAlias = Literal["consistent", "printed"]
NOT_NEGATIVE: Final = (
    "contact_margin_m", "landing_s", "approach_speed_m_s", "slide_speed_m_s", "edge_speed_m_s", "ramp_s",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class InverseSettings:
    """Settings of an inverse-dynamics controller.

    Attributes:
        contact_margin_m: A foot planned to stand counts as a contact below this gap; with a gap above a millimetre,
            only while it rests (`idcontrol.controllers.stance.HOVER_M`).
        landing_s: Time after its planned touchdown during which a foot may still be landing. While it is above the
            ground and approaches it faster than `approach_speed_m_s`, or slides faster than `slide_speed_m_s`, it is no
            contact. Its impact is allowed, since no torque can prevent it; a command to stop within one period would
            disturb the whole robot.
        approach_speed_m_s: Speed towards the ground above which a landing foot is no contact; see `landing_s`.
        slide_speed_m_s: Speed along the ground above which a landing foot is no contact; see `landing_s`.
        landing: Transition of a contact from its landing velocity to rest.
        project: True to project the desired velocity onto the velocities that the contacts allow (math.md, section
            12.1), in schemes with this projection.
        shortcut: True to try the sticking motion before the contact model, in schemes with a stage II, with `project`,
            and with finite friction. If stage II has impulses for it, no contact problem is solved
            (docs/theory/sticking.md).
        edge_speed_m_s: v_tol of stage II: a contact with at most this slip counts as at rest, and its friction may have
            any direction (math.md, section 7.4). It does not apply to id-coulomb-lcp, id-coulomb-smooth and
            id-coulomb-cone, which obey Coulomb's law to the tolerance of their solver.
        ramp_s: Time over which contact forces are ramped in after touchdown and out before lift-off; 0 for none
            (planner.md, section 7). The weight on the foot's impulse is proportional to ``(1 - t / ramp_s)³``, with t
            the time since touchdown or to lift-off; the motion is unchanged, so an indispensable foot keeps its force.
            In schemes with a stage II the weight is a part of its objective. Other schemes redistribute impulses while
            a foot ramps, and stay close to their own torque. id-coulomb-qp-raw has no ramp: it shows stage I alone.
        rate_limit_nm_s: Largest rate of a joint's torque [N m/s]: "robot" for the value of the robot file, null for no
            limit. If possible, contacts share the load so that motors stay within it (stage II). Otherwise the joints
            beyond the limit get the closest torque within it and are not tracked in that period. A landing needs only a
            few such periods (`controllers.step.MOST_RELEASES`). If a push or a load needs more, staying upright takes
            priority over the rate, and `Command.dropped` has "rate". The rate of the first torque after a reset is not
            limited, nor are the rates of id-coulomb-qp-raw, which shows stage I alone.
        learn_friction: True to assume the friction of sliding feet if it is below the nominal friction
            (`idcontrol.controllers.friction`).
        learn_load: True to compensate an unmodelled force on a floating base, estimated from the motion
            (`idcontrol.controllers.load`).
        impacts: True to include the impact in the predicted forces of a period with a touchdown: these forces then come
            from forward dynamics with the chosen torques. No torque depends on this setting (planner.md, section 7).
        repair: True if schemes without slip stay within friction cones and torque limits: tracking is then relaxed, or
            contacts slip (math.md, section 12.2). If False, they keep the motion without slip and ignore friction, as
            in Zapolsky & Drumwright 2017.
        objective: Objective of stage I in schemes of maximal dissipation: consistent with the model, or as printed in
            Zapolsky & Drumwright 2017 (eqs. 69 and 97; math.md, section 7.2).

    Raises:
        InputError: A time, distance or speed is negative, or `rate_limit_nm_s` is not positive.
    """

    contact_margin_m: NotNegative = 0.05
    landing_s: NotNegative = 0.01
    approach_speed_m_s: NotNegative = 0.002
    slide_speed_m_s: NotNegative = 0.01
    landing: Landing = field(default_factory=Landing)
    project: bool = True
    shortcut: bool = True
    edge_speed_m_s: NotNegative = 1e-3
    ramp_s: NotNegative = 0.025
    rate_limit_nm_s: Positive | Literal["robot"] | None = "robot"
    learn_friction: bool = True
    learn_load: bool = True
    impacts: bool = True
    repair: bool = True
    objective: Objective = "consistent"

    def __post_init__(self) -> None:
        for name in NOT_NEGATIVE:
            if not getattr(self, name) >= 0.0:
                raise InputError(f"inverse.{name} is {getattr(self, name)}; it must not be negative")
        rate = self.rate_limit_nm_s
        if rate is not None and rate != "robot" and not float(rate) > 0.0:
            raise InputError(f"inverse.rate_limit_nm_s is {rate}; it must be positive, null (no bound) or robot")
