"""Estimate the state from sensor values: plants know their state, hardware does not.

`contacts` decides which feet stand, `disturbance` adds delay, bias and noise of real sensors, `estimator` estimates the
base from legs and IMU, and `legs` estimates the forces on feet that have no sensors. `ahead` predicts the state in
which a delayed command arrives. Delay, bias, noise and estimators are stages: functions that take sensor values and
return modified values. `chain` joins stages, and `sense` builds the chain for a `Sensing`.
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
        contacts: Rule that decides which feet stand: the plan, the gap to the ground, the measured force, or a majority
            of these three.
        base: State of the base: from the plant, or estimated from the legs and the IMU. The estimate uses no other
            sensor of the base.
        forces: Forces on the feet: from the plant, or estimated from the legs' torques (only point feet).
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
    """Return a function that passes sensor values through all `stages` in order and returns the resulting state."""

    def through(sensed: Sensed) -> State:
        for stage in stages:
            sensed = stage(sensed)
        return sensed.state

    return through


def sense(
    settings: Sensing, feet: Feet, start: State, seeds: Sequence[int] = (), last: Stage | None = None
) -> Callable[[Sensed], State] | None:
    """Return a function that estimates a robot's state from its sensor values; None if no stage changes these values.

    Args:
        settings: Sensing of the loop.
        feet: Returns new foot spheres at each call, with a `System` that nothing else uses.
        start: Initial state of the robot; the estimate of the base starts from it.
        seeds: Further seeds of bias and noise, in addition to `Sensing.seed`.
        last: A stage to run after all others, such as a user's estimator; None for no such stage.

    Raises:
        InputError: `settings` ask for an estimated base or estimated forces, but the robot stands on soles.
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
    """Return a function that replaces the planned stance of a reference by the sensed stance.

    Returns None if `Sensing.contacts` is ``planned``.

    Args:
        settings: Sensing of the loop.
        feet: Returns new foot spheres, with a `System` that nothing else uses.
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
