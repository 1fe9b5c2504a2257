"""Multibody terms of a robot from Pinocchio, converted from Pinocchio's conventions.

Conventions (math.md, sections 1 and 2). A robot has m velocities: first the u unactuated velocities ("b": floating
bases, free bodies, passive joints), then the a actuated velocities ("q"). This is the system's order. Pinocchio's order
may differ; `System.order` is the permutation. The velocity of a free-flyer is linear, then angular, in the body's own
axes, as in Pinocchio. `State.q` and `State.v`, and configurations and states that `System` returns, are in Pinocchio's
layout. All terms are in the system's order.

Within a step, a free-flyer's *linear* velocity is expressed in the body's initial axes. The equations are solved for v⁺
- v, and a difference needs one set of axes. So `System.bias` refers to the classical acceleration ``v̇ + ω × v``
(Pinocchio's bias refers to the spatial acceleration), and `System.advance` rotates v⁺ into the body's final axes. In
axes that rotate with the body, the linear velocity would be wrong by h ω × v in every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pinocchio as pin

from idcontrol.errors import InputError, UnknownName
from idcontrol.kernels.bound import Bound, bind, entry
from idcontrol.kernels.jit import njit
from idcontrol.kernels.placements import placement_views
from idcontrol.types import Array, Booleans, Integers

UNLIMITED = 1e300
"""Limits at or above this count as no limit (Pinocchio writes the largest double)."""
SINGULAR: Final = 1e-12
"""Smallest eigenvalue of a regular inertia matrix scaled to unit diagonal; rounding alone leaves up to 1e-14."""

LARGEST: Final = 1e15
"""A position, velocity or acceleration above this, in SI units, is invalid: results would overflow."""

UNIT: Final = 1e-3
"""Largest deviation from 1 of the length of a quaternion, or of the vector (cosine, sine) of a continuous joint.
Rounding to single precision changes the length by 1e-7.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeBody:
    """A free-flying rigid body: its six velocities are unactuated.

    Attributes:
        name: Name of the body's joint and frame.
        mass: Mass [kg].
        inertia: Inertia about the centre of mass, in body axes, shape (3, 3) [kg m²].
        com: Centre of mass in the body frame, shape (3,) [m].
    """

    name: str
    mass: float
    inertia: Array
    com: tuple[float, float, float] = (0.0, 0.0, 0.0)


class Terms(NamedTuple):
    """Multibody terms of ``M v̇ + c = Pᵀτ + Jᵀf``, for kernels.

    P selects the actuated velocities; J are the rows of contacts.

    Attributes:
        M: Joint-space inertia, shape (m, m).
        bias: Coriolis, centrifugal and gravity terms c, shape (m,) [N, N m].
        jacobian: Spatial Jacobian at the world origin of all joints, linear rows first, shape (6, m).
    """

    M: Array
    bias: Array
    jacobian: Array


class Motion(NamedTuple):
    """Motion of the bodies of all joints: spatial vectors at the world origin, linear part first.

    Attributes:
        velocity: Velocity, shape (n_joints, 6) [m/s, rad/s].
        drift: Acceleration at v̇ = 0, shape (n_joints, 6) [m/s², rad/s²]; v̇ of a free-flyer is classical, as in
            `System.bias`.
    """

    velocity: Array
    drift: Array


@njit(cache=True, inner=True, forceinline=True)
def move(J: Array, v: Array, tree: Integers, flyers: Integers, motion: Motion) -> None:  # pragma: no cover - compiled
    """Write the motion of all bodies, parents before children: ``Ṡ q̇ = V × S q̇`` with the parent's V.

    Source: Featherstone 2008, Rigid Body Dynamics Algorithms, spatial velocity and its derivative.

    Args:
        J: Pinocchio's Jacobian, shape (6, nv).
        v: Velocity in Pinocchio's layout, shape (nv,).
        tree: Parent, first velocity and number of velocities of each joint, shape (n_joints, 3).
        flyers: Index of each free-flyer's first velocity.
        motion: Overwritten; the world, joint 0, is at rest.
    """
    for j in range(1, tree.shape[0]):
        parent, begin, size = tree[j, 0], tree[j, 1], tree[j, 2]
        V, A, W, B = motion.velocity[parent], motion.drift[parent], motion.velocity[j], motion.drift[j]
        for x in range(6):
            W[x] = V[x]
        for k in range(begin, begin + size):
            for x in range(6):
                W[x] += J[x, k] * v[k]
        for x, y, z in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
            B[x] = A[x] + V[y + 3] * W[z] - V[z + 3] * W[y] + V[y] * W[z + 3] - V[z] * W[y + 3]
            B[x + 3] = A[x + 3] + V[y + 3] * W[z + 3] - V[z + 3] * W[y + 3]
        for k in flyers:
            if k == begin:
                for axis in range(3):
                    y, z = k + (axis + 1) % 3, k + (axis + 2) % 3
                    turn = v[y + 3] * v[z] - v[z + 3] * v[y]
                    for x in range(3):
                        B[x] -= J[x, k + axis] * turn


@njit(cache=True)
def _gather(bound: Bound) -> None:  # pragma: no cover - compiled
    """Convert Pinocchio's terms to the system's order: M from its upper triangle, and c minus ``M_lin (ω × v)``.

    Args:
        bound: Pinocchio's terms, the system's terms (overwritten), `System.order`, each free-flyer's first index in
            Pinocchio's velocities, and the velocity v in that layout, shape (nv,); then the arguments of `move`.
    """
    (M_pin, c_pin, J_pin), (M, c, J), order, flyers, v, tree, motion = bound.borrowed
    move(J_pin, v, tree, flyers, motion)
    m = order.shape[0]
    for i in range(m):
        oi = order[i]
        c[i] = c_pin[oi]
        for k in flyers:
            for x in range(3):
                y, z = k + (x + 1) % 3, k + (x + 2) % 3
                turn = v[y + 3] * v[z] - v[z + 3] * v[y]
                c[i] -= (M_pin[oi, k + x] if oi <= k + x else M_pin[k + x, oi]) * turn
        for j in range(i + 1):
            oj = order[j]
            value = M_pin[oi, oj] if oi <= oj else M_pin[oj, oi]
            M[i, j] = value
            M[j, i] = value
        for k in range(6):
            J[k, i] = J_pin[k, oi]


@njit(cache=True, forceinline=True)
def shorter(angle: float) -> float:
    """Return the equivalent angle from -π to π [rad]."""
    turn = 2.0 * np.pi
    return angle - turn * float(np.rint(angle / turn))


@njit(cache=True, inner=True)
def rotate(quaternion: Array, v: Array, out: Array) -> None:  # pragma: no cover - compiled
    """Write R v for the unit quaternion (x, y, z, w) of R."""
    x, y, z, w = quaternion
    ax, ay, az = 2.0 * (y * v[2] - z * v[1]), 2.0 * (z * v[0] - x * v[2]), 2.0 * (x * v[1] - y * v[0])
    out[0] = v[0] + w * ax + y * az - z * ay
    out[1] = v[1] + w * ay + z * ax - x * az
    out[2] = v[2] + w * az + x * ay - y * ax


@njit(cache=True)
def carry(
    flyers: Bound, q: Array, q_next: Array, v: Array, v_next: Array, h: float
) -> None:  # pragma: no cover - compiled
    """Move free-flyers straight along their linear velocity, ``p + h R v``; rotate v⁺ into their new axes, R⁺ᵀR v⁺.

    Positions are written into `q_next`, which has the new orientations; v⁺ is rotated in place in `v_next`. `flyers`
    has the first index of each free-flyer in q and in v, and scratch for a vector and a quaternion.
    """
    at_q, at_v, world, back = flyers.borrowed
    for i in range(at_q.shape[0]):
        k, j = at_q[i], at_v[i]
        turn, linear = q[k + 3 : k + 7], slice(j, j + 3)
        rotate(turn, v[linear], world)
        for x in range(3):
            q_next[k + x] = q[k + x] + h * world[x]
            back[x] = -q_next[k + 3 + x]
        back[3] = q_next[k + 6]
        rotate(turn, v_next[linear], world)
        rotate(back, world, v_next[linear])


class ActuatorLimits(NamedTuple):
    """Limits of actuated joints and motors other than the torque limit, shapes (a,); -inf or inf for no limit.

    Attributes:
        lower: Lowest position [rad or m].
        upper: Highest position [rad or m].
        speed: Largest speed [rad/s or m/s].
        torque_rate: Largest rate of the torque [N m/s or N/s].
        no_load: Speed at which a motor no longer accelerates, larger than `speed` [rad/s or m/s]. From `speed` to
            `no_load` the accelerating torque falls linearly to zero; the braking torque does not fall.
    """

    lower: Array
    upper: Array
    speed: Array
    torque_rate: Array
    no_load: Array

    @classmethod
    def none(cls, a: int) -> ActuatorLimits:
        """Return no limits for `a` joints."""
        return cls(np.full(a, -np.inf), *(np.full(a, np.inf) for _ in range(4)))


class Actuators(NamedTuple):
    """Dynamics of actuators, shapes (a,).

    Attributes:
        armature: Inertia of the rotors, reflected to the joints [kg m² or kg]; it is part of `System.M`.
        damping: Viscous friction [N m s/rad or N s/m].
        friction: Dry friction [N m or N].
        bandwidth: Frequency at which the first-order lag of the torque is 3 dB down [Hz]; inf for no lag.
        delay: Delay of the torque [s].
    """

    armature: Array
    damping: Array
    friction: Array
    bandwidth: Array
    delay: Array

    def wrong(self, error: float) -> Actuators:
        """Return actuators with ``1 + error`` times the inertia, friction, lag and delay."""
        factor = 1.0 + error
        return Actuators(
            armature=factor * self.armature,
            damping=factor * self.damping,
            friction=factor * self.friction,
            bandwidth=self.bandwidth / factor,
            delay=factor * self.delay,
        )


def _checked(limits: ActuatorLimits, a: int) -> ActuatorLimits:
    """Copy limits of `a` joints.

    Raises:
        InputError: The number of limits is wrong, a range is empty, a speed or torque rate is not positive, or a finite
            `no_load` is not above `speed`.
    """
    checked = ActuatorLimits(*(np.array(limit, dtype=np.float64) for limit in limits))
    if any(limit.shape != (a,) for limit in checked):
        raise InputError(f"limits of joints must be {a} numbers each, one for each actuated joint")
    if not (checked.lower < checked.upper).all():
        raise InputError("the lower position limit of each joint must be below the upper one")
    if not ((checked.speed > 0).all() and (checked.torque_rate > 0).all()):
        raise InputError("speeds and torque rates of joints must be positive")
    if not ((checked.no_load > checked.speed) | np.isinf(checked.no_load)).all():
        raise InputError("the speed at which a motor gives no torque must be above the largest speed of its joint")
    return checked


def _sound(actuators: Actuators, a: int) -> Actuators:
    """Copy actuators of `a` joints.

    Raises:
        InputError: The number of actuators is wrong, a bandwidth is not positive, or another value is negative or not
            finite.
    """
    checked = Actuators(*(np.array(entry, dtype=np.float64) for entry in actuators))
    if any(entry.shape != (a,) for entry in checked):
        raise InputError(f"actuators must be {a} numbers each, one for each actuated joint")
    lossy = (checked.armature, checked.damping, checked.friction, checked.delay)
    if not all(((entry >= 0.0) & np.isfinite(entry)).all() for entry in lossy) or not (checked.bandwidth > 0.0).all():
        raise InputError("inertia, friction and delay of actuators must be finite and not negative, bandwidth positive")
    return checked


def position_limits(model: Any, names: Sequence[str]) -> tuple[Array, Array]:
    """Return the lowest and highest position of the joints `names`, shapes (a,) [rad or m]; infinite without limits."""
    # Pinocchio reads missing limits as 0 and 0
    at = [model.joints[model.getJointId(name)] for name in names]
    lower = np.array([model.lowerPositionLimit[joint.idx_q] if joint.nq == 1 else -np.inf for joint in at])
    upper = np.array([model.upperPositionLimit[joint.idx_q] if joint.nq == 1 else np.inf for joint in at])
    bounded = lower < upper
    return np.where(bounded, lower, -np.inf), np.where(bounded, upper, np.inf)


def _require_depth_first(model: Any) -> None:
    """Raise InputError unless the joints are in depth-first order."""
    for joint, below in enumerate(list(model.subtrees)[1:], start=1):
        if list(below) != list(range(joint, joint + len(below))):
            raise InputError(
                f"joint {str(model.names[joint])!r}: its children do not follow it in the model, so Pinocchio's "
                "inertia matrix would be wrong; add joints depth first"
            )


def _actuated_names(model: Any, actuated: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of the actuated joints, by default all joints with one velocity.

    Raises:
        UnknownName: A joint does not exist.
        InputError: A joint does not have exactly one velocity.
    """
    names = list(model.names)
    single = [name for name, joint in list(zip(names, model.joints, strict=True))[1:] if joint.nv == 1]
    for name in actuated or ():
        if name not in names:
            raise UnknownName("joint", name, names[1:])
        if name not in single:
            raise InputError(f"joint {name!r} must have one velocity to be actuated; remove it from `actuated`")
    return tuple(single if actuated is None else actuated)


def _effort_limit(limits: npt.ArrayLike, names: Sequence[str]) -> Array:
    """Return the torque limits of the joints `names`, shape (a,); values of `UNLIMITED` or more become inf.

    Raises:
        InputError: The number of limits is wrong, or a limit is not positive.
    """
    values = np.asarray(limits, float)
    effort = np.full(len(names), values) if values.ndim == 0 else values
    if effort.shape != (len(names),):
        raise InputError(f"torque limits must be {len(names)} numbers, one for each actuated joint")
    for name, limit in zip(names, effort, strict=True):
        if not limit > 0.0:
            raise InputError(f"the torque limit of joint {name!r} is {limit:g}; it must be positive")
    return np.where(effort >= UNLIMITED, np.inf, effort)


def _unit_vectors(model: Any) -> Integers:
    """Return first index in q and number of entries of each quaternion and each pair (cosine, sine), shape (n, 2)."""
    turning = [
        (joint, 2 if joint.nq == 2 or joint.shortname() == "JointModelPlanar" else 4)
        for joint in model.joints
        if joint.nq > joint.nv
    ]
    begin = [(joint.idx_q + joint.nq - size, size) for joint, size in turning]
    return np.array(begin, dtype=np.int64).reshape(-1, 2)


def _support(model: Any, order: Integers) -> Booleans:
    """Return True at [j, k] if velocity k (system's order) moves the body of joint j, shape (n_joints, m)."""
    support = np.zeros((model.njoints, order.size), dtype=np.bool_)
    for j in range(1, model.njoints):
        joint = model.joints[j]
        support[j] = support[model.parents[j]]
        support[j, np.isin(order, np.arange(joint.idx_v, joint.idx_v + joint.nv))] = True
    return support


class System:
    """A robot and its multibody terms at the state of the last `update`.

    Attributes:
        model: The Pinocchio model; a copy with the rotors of `actuators` if these are set.
        data: Pinocchio's data of the last `update`.
        n_velocities: Number of velocities m.
        n_unactuated: Number of unactuated velocities u.
        n_actuated: Number of actuated velocities a.
        order: Velocity i of the system is velocity ``order[i]`` of Pinocchio, shape (m,).
        actuated_names: Names of the actuated joints, in the system's order.
        effort_limit: Largest torque of each actuated joint, shape (a,) [N m or N]; inf for no limit.
        limits: Other limits of the joints and their motors.
        actuators: Dynamics of the actuators; None for ideal actuators. The inertia of the rotors is part of M; plants
            and controllers model friction, lag and delay.
        joint_q: Index of each actuated joint in Pinocchio's q, shape (a,).
        joint_circle: True for joints represented by cosine and sine (continuous joints), shape (a,).
        flyer_q: First index of each free-flyer in Pinocchio's q, shape (number of free-flyers,).
        flyer_v: First index of each free-flyer in Pinocchio's v, shape (number of free-flyers,).
        flyers: The argument of `carry`.
        flyer_rows: Indices of each free-flyer's velocities in the system's order, shape (number of free-flyers, 6).
        floats: True if all joints hang on one free-flyer, the base, whose velocities come first.
        unit: First index in Pinocchio's q, and size, of each vector of unit length, shape (k, 2), such as quaternions
            of free-flyers, cosine and sine of continuous joints.
        M: Joint-space inertia, shape (m, m).
        bias: Coriolis, centrifugal and gravity terms c of ``M v̇ + c = Pᵀτ + Jᵀf``, shape (m,) [N, N m]; v̇ of a
            free-flyer is classical (see the module).
        jacobian: Spatial Jacobian of all joints, at the world origin, linear rows first, shape (6, m).
        terms: M, bias and jacobian, for kernels.
        motion: Motion of the bodies of all joints.
        support: True if velocity k moves joint j, ``support[j, k]``, shape (n_joints, m).
        frame_joint: Joint that carries each frame, shape (n_frames,).
        frame_position: Frame origins in the world, shape (n_frames, 3) [m]: a view into Pinocchio's data.
        frame_rotation: Frame axes in the world (columns), shape (n_frames, 3, 3): a view into Pinocchio's data.
        busy: Lock that a controller holds while it uses these terms: two threads must not use them at once.
    """

    def __init__(
        self,
        model: Any,
        *,
        actuated: Sequence[str] | None = None,
        effort_limit: npt.ArrayLike | None = None,
        limits: ActuatorLimits | None = None,
        actuators: Actuators | None = None,
    ) -> None:
        """Bind the terms of a Pinocchio model.

        Args:
            model: Pinocchio model; free-flyer joints and joints that are not `actuated` are unactuated.
            actuated: Names of the actuated joints in order; None for all joints with one velocity, in tree order.
            effort_limit: Torque limits in that order, shape (a,) or one for all [N m]; None for the model's limits.
            limits: Other limits of joints and motors, in that order; None for no limits: the model's limits are not
                used.
            actuators: Dynamics of the actuators, in that order; None for ideal actuators with the model's rotors.

        Raises:
            UnknownName: An actuated joint does not exist.
            InputError: An actuated joint does not have exactly one velocity, or lacks a positive torque limit;
                `effort_limit` has another shape; an inertia is not finite or the inertia matrix not positive definite;
                the joints are not in depth-first order; or `limits` or `actuators` are unusable.
        """
        _require_depth_first(model)
        self.busy = Lock()
        self.model = model
        self.data = model.createData()
        self.actuated_names = _actuated_names(model, actuated)
        joints = [model.joints[model.getJointId(name)] for name in self.actuated_names]
        driven = [joint.idx_v for joint in joints]
        free = [i for i in range(model.nv) if i not in set(driven)]
        self.order: Integers = np.array(free + driven, dtype=np.int64)
        self.n_velocities: int = model.nv
        self.n_unactuated = len(free)
        self.n_actuated = len(driven)
        of_model = np.asarray(model.upperEffortLimit)[driven]
        self.effort_limit = _effort_limit(of_model if effort_limit is None else effort_limit, self.actuated_names)
        self.limits = _checked(ActuatorLimits.none(self.n_actuated) if limits is None else limits, self.n_actuated)
        self.actuators = None if actuators is None else _sound(actuators, self.n_actuated)
        if self.actuators is not None:
            self.model = model.copy()
            self.model.armature[driven] = self.actuators.armature
        self.joint_q: Integers = np.array([joint.idx_q for joint in joints], dtype=np.int64)
        self.joint_circle: Booleans = np.array([joint.nq == 2 for joint in joints], dtype=np.bool_)
        self._circles = [(i, joint.idx_q) for i, joint in enumerate(joints) if joint.nq == 2]

        self._find_flyers()
        self.unit = _unit_vectors(model)
        m = self.n_velocities
        self.terms = Terms(M=np.zeros((m, m)), bias=np.zeros(m), jacobian=np.zeros((6, m)))
        self.M, self.bias, self.jacobian = self.terms
        self.support = _support(model, self.order)
        self.frame_joint: Integers = np.array([frame.parentJoint for frame in model.frames], dtype=np.int64)
        self.frame_position, self.frame_rotation = placement_views(self.data.oMf)
        self._bind()
        System.update(self, pin.neutral(model), np.zeros(m))
        self._refuse_singular_inertia()

    def _find_flyers(self) -> None:
        """Set the indices of free-flyers in q, in v and in the system's order."""
        model = self.model
        flyers = [joint for joint in model.joints if joint.shortname() == "JointModelFreeFlyer"]
        self.flyer_q: Integers = np.array([joint.idx_q for joint in flyers], dtype=np.int64)
        self.flyer_v: Integers = np.array([joint.idx_v for joint in flyers], dtype=np.int64)
        self.flyers = bind((self.flyer_q, self.flyer_v, np.zeros(3), np.zeros(4)))
        self.flyer_rows: Integers = np.argsort(self.order)[self.flyer_v[:, None] + np.arange(6)]
        self.floats = len(flyers) > 0 and flyers[0].idx_v == 0 and len(model.subtrees[1]) == model.njoints - 1

    def _bind(self) -> None:
        """Bind the terms of Pinocchio and of the system to `_gather`."""
        model, m = self.model, self.n_velocities
        # the Jacobian of a robot with a single velocity comes as a vector
        pinocchio = Terms(M=self.data.M, bias=self.data.nle, jacobian=self.data.J.reshape(6, m))
        self._v: Array = np.zeros(m)
        self.motion = Motion(velocity=np.zeros((model.njoints, 6)), drift=np.zeros((model.njoints, 6)))
        tree = np.array([(p, joint.idx_v, joint.nv) for p, joint in zip(model.parents, model.joints, strict=True)])
        tree[0] = 0  # the world
        self._bound = bind((pinocchio, self.terms, self.order, self.flyer_v, self._v, tree, self.motion))
        self._gather = entry(_gather, self._bound)

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild copies and unpickled systems with terms of their own, at the neutral configuration."""
        rebuilt = partial(
            System,
            actuated=self.actuated_names,
            effort_limit=self.effort_limit,
            limits=self.limits,
            actuators=self.actuators,
        )
        return rebuilt, (self.model,)

    @classmethod
    def from_urdf(
        cls,
        urdf: str | Path,
        *,
        free_flyer: bool,
        actuated: Sequence[str] | None = None,
        effort_limit: npt.ArrayLike | None = None,
        limits: ActuatorLimits | None = None,
        free_bodies: Sequence[FreeBody] = (),
    ) -> System:
        """Build a robot from a URDF (no geometry is read), alone or with free bodies.

        Args:
            urdf: Path of the file.
            free_flyer: True if the root link floats; otherwise it is fixed to the world.
            actuated: Names of the actuated joints, as for `System`.
            effort_limit: Torque limits, as for `System`.
            limits: Other limits of the joints and their motors, as for `System`.
            free_bodies: Bodies that the robot may touch, appended after its joints.

        Raises:
            UnknownName: As for `System`.
            InputError: As for `System`; or the file does not exist, is no URDF, or has a moving link without inertia;
                or the mass or inertia of a free body is not finite.
        """
        path = Path(urdf)
        if not path.is_file():
            raise InputError(f"no URDF at {path}; give the path of an existing file")
        try:
            model = (
                pin.buildModelFromUrdf(str(path), pin.JointModelFreeFlyer())
                if free_flyer
                else pin.buildModelFromUrdf(str(path))
            )
        except (ValueError, RuntimeError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InputError(f"{path.name} cannot be read as a URDF: {reason}") from None
        for body in free_bodies:
            if not (np.isfinite(body.mass) and np.isfinite(body.inertia).all()):
                raise InputError(f"the mass or inertia of the free body {body.name!r} is not finite")
            joint = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), body.name)
            inertia = pin.Inertia(body.mass, np.asarray(body.com, float), np.asarray(body.inertia, float))
            model.appendBodyToJoint(joint, inertia, pin.SE3.Identity())
            model.addJointFrame(joint)
        return cls(model, actuated=actuated, effort_limit=effort_limit, limits=limits)

    def update(self, q: Array, v: Array) -> None:
        """Compute all terms at configuration `q` (nq,) and velocity `v` (nv,), both in Pinocchio's layout."""
        model, data = self.model, self.data
        pin.crba(model, data, q)
        pin.nonLinearEffects(model, data, q, v)
        pin.updateGlobalPlacements(model, data)  # passing `q` to the next line would compute the placements again
        pin.computeJointJacobians(model, data)
        pin.updateFramePlacements(model, data)
        self._v[:] = v
        self._gather(self._bound)

    def misfit(self, q: Array, v: Array) -> str:
        """Return the reason why two vectors of float64 cannot be a state of this robot; "" for a valid state.

        Args:
            q: Configuration in Pinocchio's layout.
            v: Velocity in Pinocchio's layout.
        """
        for name, x, size in (("state.q", q, self.model.nq), ("state.v", v, self.model.nv)):
            if x.shape != (size,):
                return f"{name} has shape {x.shape}; it needs {size} entries"
            if not np.isfinite(x).all():
                return f"{name} is not finite"
            if not (np.abs(x) <= LARGEST).all():
                return f"{name} is beyond {LARGEST:g}"
        for at, size in self.unit.tolist():
            length = float(np.linalg.norm(q[at : at + size]))
            if not abs(length - 1.0) <= UNIT:
                what = "quaternion" if size == 4 else "cosine and sine"
                return f"state.q[{at}:{at + size}] is a {what} of length {length:.3g}; it must be 1"
        return ""

    def from_pinocchio(self, v: Array) -> Array:
        """Convert a velocity from Pinocchio's layout to the system's order, shape (m,)."""
        return np.ascontiguousarray(v[self.order])

    def to_pinocchio(self, v: Array) -> Array:
        """Convert a velocity from the system's order to Pinocchio's layout, shape (nv,)."""
        out = np.empty_like(v)
        out[self.order] = v
        return out

    def integrate(self, q: Array, v: Array, h: float) -> Array:
        """Return the configuration after moving for `h` [s] with velocity `v` (m,): ``q ⊕ h v`` on the manifold."""
        moved: Array = pin.integrate(self.model, q, h * self.to_pinocchio(v))
        return moved

    def advance(self, q: Array, v_plus: Array, h: float, *, mean: Array | None = None) -> tuple[Array, Array]:
        """Return configuration and velocity after a step with the final velocity `v_plus` (see the module).

        With the velocity (v, ω) of `mean`, joints move as in `integrate`, and free-flyers move in a straight line,
        ``p⁺ = p + h R v``, ``R⁺ = R exp(h ω)``. Their final v⁺ is then rotated into the new axes, ``R⁺ᵀ R v⁺``.

        Args:
            q: Configuration at the step's beginning, shape (nq,).
            v_plus: Velocity at the step's end, shape (m,).
            h: Length of the step [s].
            mean: Velocity during the step, shape (m,); None for `v_plus`.

        Returns:
            The new configuration, shape (nq,), and velocity, shape (nv,), both in Pinocchio's layout.
        """
        v_next: Array = self.to_pinocchio(v_plus)
        v = v_next if mean is None else self.to_pinocchio(mean)
        q_next: Array = pin.integrate(self.model, q, h * v)
        carry(self.flyers, q, q_next, v, v_next, h)
        return q_next, v_next

    def joint_positions(self, q: Array) -> Array:
        """Return positions of the actuated joints, shape (a,) [rad or m]; continuous joints within (-π, π]."""
        angles: Array = q[self.joint_q]
        for i, k in self._circles:
            angles[i] = np.arctan2(q[k + 1], q[k])
        return angles

    def position_errors(self, wanted: Array, joints: Array) -> Array:
        """Return wanted minus actual `joint_positions`, shape (a,) [rad or m]; on a circle, the shorter way round."""
        errors: Array = wanted - joints
        for i, _ in self._circles:
            errors[i] = shorter(errors[i])
        return errors

    def joint_velocities(self, v: Array) -> Array:
        """Return the velocities of the actuated joints, shape (a,) [rad/s or m/s], from Pinocchio's layout."""
        return v[self.order[self.n_unactuated :]]

    def configuration(self, joints: Array, base: Array | None = None) -> Array:
        """Return a configuration with these joint positions and this base; other joints are neutral.

        Args:
            joints: Positions of the actuated joints, shape (a,) [rad or m].
            base: Position [m] and quaternion (x, y, z, w) of the floating base, which must be the first joint, shape
                (7,); None for the neutral pose.
        """
        q: Array = pin.neutral(self.model)
        if base is not None:
            q[:7] = base
        for k, circle, angle in zip(self.joint_q, self.joint_circle, joints, strict=True):
            if circle:
                q[k : k + 2] = np.cos(angle), np.sin(angle)
            else:
                q[k] = angle
        return q

    def frame(self, name: str) -> int:
        """Return the index of a frame; a link takes precedence over a joint of the same name.

        Raises:
            UnknownName: The frame does not exist.
        """
        checked = [i for i, frame in enumerate(self.model.frames) if frame.name == name]
        if not checked:
            raise UnknownName("frame", name, {frame.name for frame in self.model.frames})
        return next((i for i in checked if self.model.frames[i].type == pin.FrameType.BODY), checked[0])

    def com(self, q: Array) -> Array:
        """Return the centre of mass in the world, shape (3,) [m]; the terms of `update` are not changed."""
        centre: Array = pin.centerOfMass(self.model, self.scratch, q).copy()
        return centre

    @cached_property
    def mass(self) -> float:
        """Mass of all moving bodies [kg]."""
        return float(sum(inertia.mass for inertia in self.model.inertias[1:]))

    def describe(self) -> list[dict[str, Any]]:
        """Return one row per joint: name, role, first velocity in the system's order, number of velocities, limits."""
        rows = []
        for name, joint in list(zip(self.model.names, self.model.joints, strict=True))[1:]:
            role = "actuated" if name in self.actuated_names else "unactuated"
            at = int(np.flatnonzero(self.order == joint.idx_v)[0])
            row: dict[str, Any] = {"joint": name, "role": role, "velocity": at, "size": joint.nv}
            if joint.nq == 1:
                row["lower"] = _limit(self.model.lowerPositionLimit[joint.idx_q])
                row["upper"] = _limit(self.model.upperPositionLimit[joint.idx_q])
            if role == "actuated":
                row["effort"] = _limit(self.effort_limit[self.actuated_names.index(name)])
            rows.append(row)
        return rows

    @property
    def scratch(self) -> Any:
        """Return separate Pinocchio data, for computations that must not overwrite the terms of `update`."""
        if not hasattr(self, "_scratch_data"):
            self._scratch_data = self.model.createData()
        return self._scratch_data

    def _refuse_singular_inertia(self) -> None:
        """Raise `InputError` if the inertia that a joint moves is zero or not finite; the text names the joint."""
        for name, inertia in zip(self.model.names, self.model.inertias, strict=True):
            if not np.isfinite(inertia.toDynamicParameters()).all():
                raise InputError(f"the mass or inertia of the link that joint {name!r} moves is not finite")
        diagonal = np.diag(self.M)
        scale = np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
        values, motions = np.linalg.eigh(self.M / np.outer(scale, scale))
        if values[0] > SINGULAR:
            return
        # the eigenvector of the least eigenvalue is a motion with almost no kinetic energy
        moved = self.order[np.abs(motions[:, 0]) > 0.1]
        joints = list(zip(self.model.names, self.model.joints, strict=True))
        names = [name for name, joint in joints if ((joint.idx_v <= moved) & (moved < joint.idx_v + joint.nv)).any()]
        who = f"joint {names[0]!r} moves" if len(names) == 1 else f"joints {', '.join(map(repr, names))} together move"
        raise InputError(
            f"the inertia matrix is not positive definite: {who} no inertia; give the <inertial> of their links "
            "in the URDF"
        )


def _limit(value: float) -> float | None:
    return None if abs(value) >= UNLIMITED or not np.isfinite(value) else float(value)
