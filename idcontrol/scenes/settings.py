"""Settings that several scenes share."""

from __future__ import annotations

import math
from typing import Any, Final, Literal

import msgspec

from idcontrol import controllers, plants
from idcontrol.config.configuration import NotNegative, Positive
from idcontrol.errors import InputError
from idcontrol.types import ContactLaw


class AssumedFriction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The assumed friction of the controller (planner.md 7), and the friction pyramids that replace cones.

    If the assumed friction is too high, robots may slip and fall.

    Attributes:
        estimate: Best estimate of the friction coefficient; null for the true value.
        share: Share of the estimate that the controller assumes.
        cap: Upper bound on the assumed friction.
        pyramid: Friction pyramid of plants and controllers with ``ContactLaw.cone == "pyramid"``. ``inscribed`` is the
            diamond inside the cone, with μ along the tangents and μ/√2 along their diagonals. ``circumscribed`` is the
            diamond around the cone, with √2 μ along the tangents and μ along their diagonals. ``original`` follows
            Zapolsky & Drumwright 2017, with tangents s and t turned by 45°: plants have |f_s| ≤ μ f_n and |f_t| ≤ μ f_n
            (circumscribed), controllers have |f_s| + |f_t| ≤ μ f_n (inscribed).
    """

    estimate: NotNegative | None = None
    share: Positive = 0.8
    cap: Positive = 0.7
    pyramid: Literal["inscribed", "circumscribed", "original"] = "inscribed"

    def best(self, mu: float) -> float:
        """Return the best estimate of the friction coefficient for the true value `mu`."""
        return mu if self.estimate is None else self.estimate

    def of_plant(self, mu: float, law: ContactLaw) -> float:
        """Return the friction along the tangents of a plant with this contact law; `mu` is the friction of its cone."""
        return math.sqrt(2.0) * mu if law.cone == "pyramid" and self.pyramid != "inscribed" else mu

    def of_controller(self, mu: float, law: ContactLaw) -> float:
        """Return the assumed friction along the tangents, for a controller with this law and the true value `mu`."""
        assumed = min(self.share * self.best(mu), self.cap)
        return math.sqrt(2.0) * assumed if law.cone == "pyramid" and self.pyramid == "circumscribed" else assumed

    def report(self, mu: float, plant: str, controller: str) -> dict[str, Any]:
        """Return the friction along the tangents of plant and controller as metrics, for the true value `mu`.

        A note is added for a plant or controller that `pyramid` should affect, but whose contact law names no cone.

        Raises:
            UnknownName: The plant or the controller does not exist.
        """
        of_plant, of_controller = plants.contact_law(plant), controllers.contact_law(controller)
        frictions = {"mu_plant": self.of_plant(mu, of_plant), "mu_controller": self.of_controller(mu, of_controller)}
        notes = {
            f"mu_{what}": f"friction.pyramid does not reach this {what}: its contact_law names no cone"
            for what, law, meant in (
                ("plant", of_plant, self.pyramid != "inscribed"),
                ("controller", of_controller, self.pyramid == "circumscribed"),
            )
            if meant and law.cone is None
        }
        return {**frictions, "notes": notes} if notes else frictions

    @property
    def turn_rad(self) -> float:
        """Angle by which the tangents of the controller's contacts are turned [rad]."""
        # The sources of Moby, Ravelin and Pacer have the tangents n × (1, 1, 0). In the recording of the grasp at
        # friction 1, |f_x| + |f_z| of a sliding fingertip is 1.41 times its normal force: the pyramid is a square,
        # turned by 45°.
        return math.pi / 4.0 if self.pyramid == "original" else 0.0


class TunedGains(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Gains of some controllers.

    Attributes:
        controllers: Names of the controllers.
        kp_1_s2: See `FeedbackGains`.
        kd_1_s: See `FeedbackGains`.
        kp_nm_rad: See `FeedbackGains`.
        kd_nm_s_rad: See `FeedbackGains`.
    """

    controllers: tuple[str, ...]
    kp_1_s2: NotNegative | None = None
    kd_1_s: NotNegative | None = None
    kp_nm_rad: NotNegative | None = None
    kd_nm_s_rad: NotNegative | None = None


class FeedbackGains(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Gains of the error feedback, one number for all joints; null uses `tuned`, or else the robot file.

    Attributes:
        kp_1_s2: Stiffness of controllers with an inertia model [1/s²].
        kd_1_s: Damping of controllers with an inertia model [1/s].
        kp_nm_rad: Stiffness of `pid` [N m/rad].
        kd_nm_s_rad: Damping of `pid` [N m s/rad]; it should be at most half of the joint's effective inertia divided by
            the control period.
        beside: True adds the torques of `pid` to the torques of every other controller, as in the authors' program
            (Pacer) of July 2015.
        tuned: Gains of some controllers; the first entry that names a controller counts.
    """

    kp_1_s2: NotNegative | None = None
    kd_1_s: NotNegative | None = None
    kp_nm_rad: NotNegative | None = None
    kd_nm_s_rad: NotNegative | None = None
    beside: bool = False
    tuned: tuple[TunedGains, ...] = ()

    def of(self, controller: str) -> FeedbackGains:
        """Return the gains for a controller, by its name; nulls are replaced from `tuned` if possible."""
        for tuned in self.tuned:
            if controller in tuned.controllers:
                nulls = [key for key in GAINS if getattr(self, key) is None]
                return msgspec.structs.replace(self, **{key: getattr(tuned, key) for key in nulls})
        return self


GAINS: Final = ("kp_1_s2", "kd_1_s", "kp_nm_rad", "kd_nm_s_rad")
"""Names of the gains in `FeedbackGains`."""


def control_periods(duration_s: float, rate_hz: float) -> int:
    """Return the number of control periods in `duration_s` [s] at `rate_hz` [Hz].

    Raises:
        InputError: The run is half a period or shorter.
    """
    periods = round(duration_s * rate_hz)
    if periods < 1:
        raise InputError(f"duration_s={duration_s} is shorter than one period of {rate_hz} Hz; lengthen it")
    return periods
