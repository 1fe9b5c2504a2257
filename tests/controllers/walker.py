"""The paper's quadruped with a controller, and references for standing."""

import itertools
from typing import Any

import numpy as np
from msgspec import structs

from idcontrol import controllers
from idcontrol.contact.contacts import Detector
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.controllers import Gains, InverseSettings, Setup
from idcontrol.dynamics.system import ActuatorLimits, System
from idcontrol.types import Controller, Reference, State
from tests import scenes

WEIGHT = 4.8 * 9.81
NO_FEEDBACK = Gains(kp=0.0, kd=0.0)
TORQUE_GAINS = Gains(kp=np.linspace(20.0, 40.0, 12), kd=np.linspace(0.1, 0.5, 12))


def controller(
    name: str = "id-coulomb-qp",
    *,
    mu: float | np.ndarray = 0.7,
    limit: float | None = None,
    limits: dict[str, float] | None = None,
    gains: Gains | None = None,
    beside: bool = False,
    frames: tuple[str, ...] = scenes.FEET,
    system: System | None = None,
    contacts: Detector | None = None,
    **settings: Any,
) -> Controller:
    """A controller with its own multibody terms, on level ground; for this system or for the paper's quadruped."""
    effort = None if limit is None else np.full(12, limit)
    ranges = ActuatorLimits.none(12)._replace(**{name: np.full(12, bound) for name, bound in (limits or {}).items()})
    if system is None:
        system = System.from_urdf(scenes.LINKS, free_flyer=True, effort_limit=effort, limits=ranges)
    setup = Setup(
        system=system,
        contacts=contacts or SphereContacts(system, frames, scenes.RADIUS, plane(), mu),
        h=scenes.H,
        acceleration_gains=Gains(kp=400.0, kd=40.0) if gains is None else gains,
        torque_gains=TORQUE_GAINS,
        settings=InverseSettings(**settings),
        beside=beside,
    )
    return controllers.build(name, setup)


def stand(feet: int = 4, **changes: Any) -> Reference:
    """Hold the home pose on all feet, without touchdown or lift-off."""
    reference = Reference(
        q=scenes.HOME.copy(),
        v=np.zeros(12),
        a=np.zeros(12),
        stance=np.ones(feet, dtype=bool),
        since_touchdown=np.full(feet, np.inf),
        to_liftoff=np.full(feet, np.inf),
        base_position=np.array([0.0, 0.0, scenes.HEIGHT]),
        base_yaw=0.0,
        feet=np.zeros((feet, 3)),
    )
    return structs.replace(reference, **changes)


def at_home(system: System) -> State:
    """At rest on four feet with gaps of 0 to rounding, since the controller would close even a nanometre."""
    q = scenes.home(system)
    system.update(q, np.zeros(18))
    q[2] -= system.frame_position[system.frame(scenes.FEET[0]), 2] - scenes.RADIUS
    return State(t=0.0, q=q, v=np.zeros(18))


def swaying(system: System, steps: int) -> list[tuple[State, np.ndarray]]:
    """A base that sways smoothly at up to 0.1 m/s while its feet roll in place: states, and joint accelerations."""
    q = at_home(system).q
    frames = [system.frame(foot) for foot in scenes.FEET]
    path = []
    for k in range(steps + 1):
        t = k * scenes.H
        system.update(q, np.zeros(18))
        # heights drift by h² in a step: a Newton step on the joints brings them back
        J = scenes.foot_contacts(system, 0.7).jacobian
        error = np.concatenate((scenes.RADIUS - system.frame_position[frames, 2], np.zeros(8)))
        q = system.integrate(q, np.concatenate((np.zeros(6), np.linalg.solve(J[:, 6:], error))), 1.0)
        system.update(q, np.zeros(18))
        J = scenes.foot_contacts(system, 0.7).jacobian
        base = 0.1 * np.array([np.sin(9 * t), np.sin(13 * t), 0.3 * np.sin(17 * t), 0, 0, np.sin(11 * t)])
        v = np.concatenate((base, np.linalg.solve(J[:, 6:], -J[:, :6] @ base)))
        path.append((State(t=t, q=q, v=system.to_pinocchio(v)), v[6:]))
        q = system.integrate(q, v, scenes.H)
    return [(state, (after - now) / scenes.H) for (state, now), (_, after) in itertools.pairwise(path)]
