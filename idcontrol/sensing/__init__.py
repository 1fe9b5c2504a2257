"""What a loop can know of its machine: the boundary between a plant, which knows all, and hardware, which does not.

`contacts` says where it believes to stand, `disturbance` adds what real sensors add (delay, noise), `estimator` finds
the base from legs and IMU. Each is a stage that turns what was sensed into what is believed; `chain` puts stages
together, and `Settings` builds the chain that the command line asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Literal

import msgspec
import numpy as np

from idcontrol.contact.spheres import SphereContacts
from idcontrol.loop.wire import Sensed
from idcontrol.sensing.contacts import ContactSource, Fused, Geometry, Planned, Touch, believe
from idcontrol.sensing.disturbance import Delay, Noise, NoiseLevel
from idcontrol.sensing.estimator import BaseEstimator
from idcontrol.types import Reference, State

__all__ = ["Settings", "chain", "sense", "stance"]

Stage = Callable[[Sensed], Sensed]
Feet = Callable[[], SphereContacts]


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a loop is shown of its machine.

    Attributes:
        contacts: Where it believes to stand: as planned, where the geometry has a foot at the ground, where a force is
            felt, or where two of these three agree.
        base: Position and linear velocity of the base: those of the plant, or estimated from legs and IMU.
        delay_ticks: Age of all that is sensed, in ticks of the loop.
        noise: On all that is sensed.
        seed: Of the noise.
    """

    contacts: Literal["planned", "geometry", "sensed", "fused"] = "planned"
    base: Literal["plant", "estimated"] = "plant"
    delay_ticks: Annotated[int, msgspec.Meta(ge=0)] = 0
    noise: NoiseLevel = NoiseLevel()
    seed: int = 0


def chain(stages: Sequence[Stage]) -> Callable[[Sensed], State]:
    """One stage after the other; gives the state that is believed."""

    def through(sensed: Sensed) -> State:
        for stage in stages:
            sensed = stage(sensed)
        return sensed.state

    return through


def sense(settings: Settings, feet: Feet, start: State) -> Callable[[Sensed], State] | None:
    """What is believed of a machine's state; None where that is all of it.

    Args:
        settings: What is asked for.
        feet: Gives foot spheres on a system of their own.
        start: Where the machine begins, for the estimator.
    """
    stages: list[Stage] = []
    if settings.delay_ticks:
        stages.append(Delay(settings.delay_ticks))
    if settings.noise != NoiseLevel():
        stages.append(Noise(settings.noise, feet().system.model, np.random.default_rng(settings.seed)))
    if settings.base == "estimated":
        stages.append(BaseEstimator(feet(), start))
    return chain(stages) if stages else None


def stance(settings: Settings, feet: Feet) -> Callable[[State, Reference], Reference] | None:
    """The reference with the contacts that are believed in; None where those are the planned ones.

    Args:
        settings: What is asked for.
        feet: Gives foot spheres on a system of their own.
    """
    if settings.contacts == "planned":
        return None
    spheres = feet()
    geometry, touch = Geometry(spheres), Touch(spheres.radius.size)
    sources: dict[str, ContactSource] = {
        "geometry": geometry,
        "sensed": touch,
        "fused": Fused([Planned(), geometry, touch]),
    }
    return believe(sources[settings.contacts])
