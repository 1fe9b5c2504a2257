"""Estimate the state from sensor values: plants know their state, hardware does not.

`contacts` determines the standing feet, `disturbance` adds delay, bias and noise of real sensors, `estimator` estimates
the base from legs and IMU, and `legs` estimates the forces of feet without sensors. Delay, bias, noise and estimators
are stages, which take sensor values and return modified values. `chain` joins stages, and `sense` builds the chain of a
`Sensing`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Literal

import msgspec
import numpy as np

from idcontrol.config.configuration import Seed
from idcontrol.contact.spheres import SphereContacts
from idcontrol.sensing.contacts import Fused, Geometry, Planned, StanceSource, Touch, sensed_stance
from idcontrol.sensing.disturbance import Bias, BiasLevel, Delay, Noise, NoiseLevel
from idcontrol.sensing.estimator import BaseEstimator
from idcontrol.sensing.legs import LegForces
from idcontrol.types import Reference, Sensed, State

__all__ = ["Sensing", "chain", "sense", "stance"]

Stage = Callable[[Sensed], Sensed]
Feet = Callable[[], SphereContacts]


class Sensing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sensing of a loop.

    Attributes:
        contacts: Rule for standing feet: by plan, by the gap to the ground, by force, or by a majority of these three.
        base: State of the base: exact, from the plant; or estimated, from the legs and the IMU. The estimate uses no
            other sensor of the base.
        forces: Forces of the feet: from their sensors, or estimated from the legs' torques.
        delay_ticks: Age of all sensor values, in ticks of the loop.
        bias: Constant errors of the sensors.
        noise: Noise on all sensor values except the torques.
        seed: Seed of bias and noise.
    """

    contacts: Literal["planned", "geometry", "sensed", "fused"] = "planned"
    base: Literal["plant", "estimated"] = "plant"
    forces: Literal["plant", "estimated"] = "plant"
    delay_ticks: Annotated[int, msgspec.Meta(ge=0)] = 0
    bias: BiasLevel = BiasLevel()
    noise: NoiseLevel = NoiseLevel()
    seed: Seed = 0


def chain(stages: Sequence[Stage]) -> Callable[[Sensed], State]:
    """Return a function that runs one stage after the other and returns the estimated state."""

    def through(sensed: Sensed) -> State:
        for stage in stages:
            sensed = stage(sensed)
        return sensed.state

    return through


def sense(
    settings: Sensing, feet: Feet, start: State, seeds: Sequence[int] = (), last: Stage | None = None
) -> Callable[[Sensed], State] | None:
    """Return a function that estimates a robot's state from its sensor values; None if the state itself is sensed.

    Args:
        settings: Sensing of the loop.
        feet: Creates foot spheres with their own system.
        start: Initial state of the robot, for the estimator.
        seeds: Further seeds of bias and noise, in addition to `Sensing.seed`.
        last: The last stage, such as a user's estimator; None for none.

    Raises:
        InputError: The robot stands on soles, and its base or forces must be estimated.
    """
    stages: list[Stage] = []
    rng = np.random.default_rng([settings.seed, *seeds])
    if settings.delay_ticks:
        stages.append(Delay(settings.delay_ticks))
    if settings.bias != BiasLevel():
        stages.append(Bias(settings.bias, feet().system.model, rng))
    if settings.noise != NoiseLevel():
        stages.append(Noise(settings.noise, feet().system.model, rng))
    if settings.base == "estimated":
        stages.append(BaseEstimator(feet(), start, by_torque=settings.forces == "estimated"))
    elif settings.forces == "estimated":
        stages.append(LegForces(feet()))
    if last is not None:
        stages.append(last)
    return chain(stages) if stages else None


def stance(settings: Sensing, feet: Feet) -> Callable[[State, Reference], Reference] | None:
    """Return a function that puts the sensed stance into a reference; None to keep the planned stance.

    Args:
        settings: Sensing of the loop.
        feet: Creates foot spheres with their own system.
    """
    if settings.contacts == "planned":
        return None
    spheres = feet()
    geometry, touch = Geometry(spheres), Touch(spheres.n_feet)
    sources: dict[str, StanceSource] = {
        "geometry": geometry,
        "sensed": touch,
        "fused": Fused([Planned(), geometry, touch]),
    }
    return sensed_stance(sources[settings.contacts])
