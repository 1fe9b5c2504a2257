"""Shared parts of plants: input checks, a push, and averages of contact forces over substeps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pinocchio as pin
from msgspec import structs

from idcontrol.config.configuration import is_number
from idcontrol.dynamics.system import Actuators, System, Terms
from idcontrol.errors import InputError
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linked import linked
from idcontrol.types import Array, ContactForces, Integers, State


def require_positive(what: str, value: float) -> float:
    """Return `value` if it is a positive finite number.

    Raises:
        InputError: The value is not a positive finite number; the message calls the value `what`.
    """
    if not (is_number(value) and 0.0 < value < math.inf):
        raise InputError(f"the {what} of a plant must be a positive number, not {value}")
    return value


def require_not_negative(what: str, value: float) -> float:
    """Return `value` if it is finite and not negative.

    Raises:
        InputError: The value is negative or not finite; the message calls the value `what`.
    """
    if not (is_number(value) and 0.0 <= value < math.inf):
        raise InputError(f"the {what} of a plant must be finite and not negative, not {value}")
    return value


STICK_RAD_S: Final = 1e-3
"""Speed below which a joint with dry friction creeps: friction is then proportional to velocity [rad/s or m/s]."""


def brake(system: System, v: Array, h: float) -> None:
    """Add the joints' friction to the multibody terms of a step.

    The viscous friction d v⁺ is implicit: v⁺ is the velocity at the step's end. The dry friction of a joint is F sgn v
    if |v| > `STICK_RAD_S` and F could not stop even the rotor alone in this step. Otherwise it is the implicit
    F v⁺ / max(|v|, `STICK_RAD_S`). Friction dissipates energy at any step size, and a joint that is about to stop does
    not reverse. Under a torque T < F a joint creeps at T/F times `STICK_RAD_S`. A term D v⁺ is implicit: ``M + h D``
    replaces M and ``c + D v`` replaces c.

    Args:
        system: The robot; M and c of the last update are changed.
        v: Velocity at the step's beginning, in Pinocchio's layout.
        h: Length of the step [s].
    """
    if system.actuators is not None:
        brake_kernel(system.terms, system.order, system.actuators, v, h)


@linked
@njit(cache=True, error_model="numpy")
def brake_kernel(terms: Terms, order: Integers, joints: Actuators, v: Array, h: float) -> None:
    """Run `brake` with the actuators of the joints, which are last in `System.order`."""
    u = order.shape[0] - joints.damping.shape[0]
    for j in range(joints.damping.shape[0]):
        speed, friction = v[order[u + j]], joints.friction[j]
        drag = joints.damping[j]
        # An impulse h F at a joint changes its velocity by at most h F / armature, whatever is linked to it.
        if abs(speed) > STICK_RAD_S and joints.armature[j] * abs(speed) > h * friction:
            terms.bias[u + j] += np.copysign(friction, speed)
        else:
            drag += friction / max(abs(speed), STICK_RAD_S)
        terms.M[u + j, u + j] += h * drag
        terms.bias[u + j] += drag * speed


def require_state(system: System, state: State) -> State:
    """Return a state with copies of q and v as arrays of float64.

    Args:
        system: The robot.
        state: The initial state of a plant.

    Raises:
        InputError: An array has the wrong length or type or is not finite, the time is not finite, or a quaternion (or
            a pair of cosine and sine) is not of unit length.
    """
    q, v = _vector("state.q", state.q), _vector("state.v", state.v)
    misfit = system.misfit(q, v)
    if not misfit and not (is_number(state.t) and math.isfinite(state.t)):
        misfit = f"state.t is {state.t!r}; it must be a finite number"
    if misfit:
        raise InputError(f"a plant cannot start: {misfit}")
    return structs.replace(state, q=q, v=v)


def copied(state: State) -> State:
    """Return a plant's state with copies of q and v, which callers may overwrite."""
    return State(t=state.t, q=state.q.copy(), v=state.v.copy(), forces=state.forces)


def _vector(name: str, values: npt.ArrayLike) -> Array:
    """Copy numbers into an array of float64.

    Raises:
        InputError: The values are not a vector of numbers; the message calls them `name`.
    """
    try:
        numbers = np.asarray(values)
    except ValueError:  # rows of different lengths
        raise InputError(f"{name} must be a vector of numbers; its rows differ in length") from None
    if numbers.dtype.kind not in "iuf":
        raise InputError(f"{name} must be a vector of numbers, not of {numbers.dtype}")
    return numbers.astype(np.float64)


def require_push(velocity: npt.ArrayLike) -> Array:
    """Return the velocity of a push if it is three finite numbers.

    Raises:
        InputError: The velocity is not three finite numbers.
    """
    push = _vector("the velocity of a push", velocity)
    if push.shape != (3,) or not np.isfinite(push).all():
        raise InputError(f"the velocity of a push must be three finite numbers, not {push.tolist()}")
    return push


def require_torques(tau: Array, names: Sequence[str]) -> None:
    """Check that there is one finite torque for each of the joints `names`.

    Raises:
        InputError: The shape of the torques is wrong, or a torque is not finite.
    """
    if tau.shape != (len(names),):
        raise InputError(
            f"torques have shape {tau.shape}; this plant needs ({len(names)},), one for each actuated joint"
        )
    if not np.isfinite(tau).all():
        joint = names[int(np.argmin(np.isfinite(tau)))]
        raise InputError(f"the torque of joint {joint!r} is not finite; a controller must return numbers")


def substeps(dt: float, longest: float) -> int:
    """Return the number of equal substeps in a step of `dt` [s], none longer than `longest` [s].

    Raises:
        InputError: `dt` is not positive, or needs more than `MOST_SUBSTEPS`.
    """
    if not 0.0 < dt <= MOST_SUBSTEPS * longest:
        require_positive("time step", dt)
        raise InputError(
            f"a step of {dt:g} s is too long for a plant with substeps of {longest:g} s; "
            f"a call can take at most {MOST_SUBSTEPS * longest:g} s"
        )
    return max(1, math.ceil(dt / longest - 1e-9))


def pushed(state: State, velocity: Array) -> State:
    """Return `state` with `velocity`, world frame, shape (3,) [m/s], added to its floating base.

    Every link of the base gets the same velocity, so the impulse is the robot's mass times `velocity`. The floating
    base is the first joint.

    Raises:
        InputError: `velocity` is not three finite numbers.
    """
    v = state.v.copy()
    x, y, z, w = state.q[3:7]
    v[:3] += pin.Quaternion(w, x, y, z).matrix().T @ require_push(velocity)
    return State(t=state.t, q=state.q, v=v)


MOST_SUBSTEPS: Final = 10**6
"""Limit of substeps in one step of a plant: minutes of computing. A larger number suggests a wrong time unit."""

ROUNDING_N: Final = 1e-9
"""Forces smaller than this are rounding errors of the solver [N]."""


def averaged(parts: Sequence[ContactForces], count: int) -> ContactForces:
    """Average contact forces over `count` equal substeps, contact by contact, in the order of identities.

    Args:
        parts: Forces of all substeps, one or several parts per substep; a single part must be ordered by identity.
        count: Number of substeps; the force of a contact is zero in substeps that do not list it.

    Returns:
        One entry per contact, with the normal of its last touch.
    """
    if len(parts) == count == 1:
        return parts[0]
    if not parts:
        return ContactForces.none()
    identity, force, normal = (np.concatenate(arrays) for arrays in zip(*map(_arrays, parts), strict=True))
    n = _merge(identity, force, normal)
    return ContactForces(identity=identity[:n], force=force[:n] / count, normal=normal[:n])


def _arrays(part: ContactForces) -> tuple[Integers, Array, Array]:
    return part.identity, part.force, part.normal


@njit(cache=True)
def _merge(identity: Integers, force: Array, normal: Array) -> int:  # pragma: no cover - compiled
    """Merge entries with the same identity, in the order of identities; return the number of entries that remain.

    Forces are added, and the last normal is used. The first entries of all three arrays are overwritten with the
    result.

    Args:
        identity: Identities of contacts, shape (n,).
        force: Forces, shape (n, 3) [N].
        normal: Normals, shape (n, 3).
    """
    size = at = 0
    for i in range(identity.shape[0]):
        who, (fx, fy, fz), (nx, ny, nz) = identity[i], force[i], normal[i]
        while at > 0 and identity[at - 1] >= who:
            at -= 1
        while at < size and identity[at] < who:
            at += 1
        if at == size or identity[at] != who:
            for k in range(size, at, -1):
                identity[k] = identity[k - 1]
                for x in range(3):
                    force[k, x], normal[k, x] = force[k - 1, x], normal[k - 1, x]
            identity[at], size = who, size + 1
            force[at, 0] = force[at, 1] = force[at, 2] = 0.0
        force[at, 0] += fx
        force[at, 1] += fy
        force[at, 2] += fz
        normal[at, 0], normal[at, 1], normal[at, 2] = nx, ny, nz
    return size


def touch(identity: int, force: Array, normal: Array) -> ContactForces:
    """Return a single contact as `ContactForces`; `force` [N] and `normal` are world vectors, shape (3,)."""
    return ContactForces(identity=np.array([identity]), force=force[None], normal=normal[None])
