"""What plants share: refusals of unusable input, a push, and averages of contact forces over substeps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pinocchio as pin

from idcontrol.errors import InputError
from idcontrol.types import Array, Booleans, ContactForces, Integers, State


def require_positive(what: str, value: float) -> float:
    """`value`, if it is a positive finite number.

    Raises:
        InputError: It is not; `what` names it.
    """
    if not (math.isfinite(value) and value > 0.0):
        raise InputError(f"the {what} of a plant must be a positive number, not {value}")
    return value


def require_not_negative(what: str, value: float) -> float:
    """`value`, if it is a finite number that is not negative.

    Raises:
        InputError: It is not; `what` names it.
    """
    if not (math.isfinite(value) and value >= 0.0):
        raise InputError(f"the {what} of a plant must be a number that is not negative, not {value}")
    return value


def substeps(tau: Array, dt: float, names: Sequence[str], longest: float) -> int:
    """Into how many equal substeps, none longer than `longest` [s], a step of `dt` [s] under `tau` is cut.

    Raises:
        InputError: The time is not positive, or there is not one finite torque for each of the joints `names`.
    """
    require_positive("time step", dt)
    if tau.shape != (len(names),):
        raise InputError(f"a plant with {len(names)} actuated joints got torques of shape {tau.shape}")
    if not np.isfinite(tau).all():
        joint = names[int(np.argmin(np.isfinite(tau)))]
        raise InputError(f"the torque of joint {joint!r} is not finite; a controller must return numbers")
    return max(1, math.ceil(dt / longest - 1e-9))


def pushed(state: State, velocity: Array) -> State:
    """`state` with `velocity`, world frame, shape (3,) [m/s], added to that of its floating base.

    Every link that hangs on the base gets the same, so the whole machine receives the impulse mass times `velocity`.
    The floating base is the first joint.
    """
    v = state.v.copy()
    x, y, z, w = state.q[3:7]
    v[:3] += pin.Quaternion(w, x, y, z).matrix().T @ velocity
    return State(t=state.t, q=state.q, v=v)


@dataclass(slots=True)
class ForceSum:
    """Contact forces of some substeps, added up by contact."""

    force: dict[int, Array] = field(default_factory=dict)
    normal: dict[int, Array] = field(default_factory=dict)

    def add(self, identity: Integers, force: Array, normal: Array, pressed: Booleans | None = None) -> None:
        """Add world forces (n, 3) [N] at contacts with `identity` (n,), normals (n, 3); only where `pressed` (n,)."""
        chosen = range(len(identity)) if pressed is None else np.flatnonzero(pressed)
        for i in chosen:
            key = int(identity[i])
            self.force[key] = self.force.get(key, 0.0) + force[i]
            self.normal[key] = normal[i].copy()

    def mean(self, count: int) -> ContactForces:
        """Averages over `count` substeps, in the order of identities; normals are those of the last touch."""
        keys = sorted(self.force)
        return ContactForces(
            identity=np.array(keys, dtype=np.int64),
            force=np.array([self.force[k] / count for k in keys]).reshape(-1, 3),
            normal=np.array([self.normal[k] for k in keys]).reshape(-1, 3),
        )
