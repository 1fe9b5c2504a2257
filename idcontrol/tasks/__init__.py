"""Whole-body tasks: targets for frames, the centre of mass, the angular momentum and contact forces of a robot.

Tasks on motion have gains, weights, and a reference that `set` changes at any time::

    com, torso = idc.tasks.CoM(kp=100), idc.tasks.Frame("torso_2_link", "orientation", kp=100)
    controller = idc.controllers.make("id-coulomb-qp", robot, mu=0.6, tasks=[com, torso, idc.tasks.Posture(kp=30)])
    com.set(position, velocity, acceleration)

Weights balance tasks against each other; a strict task is met exactly if contacts, limits and the other strict tasks
allow it. If strict tasks contradict standing feet or each other, the feet stay, the sum of squares of what strict tasks
miss is as small as possible, and `Command.relaxed` names the tasks (`idcontrol.tasks.demand`). The joints also
follow the reference of the controller's call, with the gains and the weight of `Posture` (its defaults if the list
has no `Posture`). `Force` never changes the motion: it selects among the forces that cause the same motion.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pinocchio as pin

from idcontrol.contact.contacts import Detector
from idcontrol.contact.spheres import SphereContacts
from idcontrol.dynamics.system import System
from idcontrol.errors import InputError, UnknownName
from idcontrol.tasks import rows
from idcontrol.tasks.demand import CONTRADICTION
from idcontrol.tasks.forces import ForceTerms
from idcontrol.tasks.rows import Targets
from idcontrol.types import Array

__all__ = ["CoM", "Force", "Frame", "Momentum", "Posture", "gather", "gather_forces"]

Axes: TypeAlias = Literal["WORLD", "LOCAL_WORLD_ALIGNED", "LOCAL"]
AXES: Final = {"WORLD": rows.WORLD, "LOCAL_WORLD_ALIGNED": rows.LOCAL_WORLD_ALIGNED, "LOCAL": rows.LOCAL}
KINDS: Final = {"pose": slice(0, 6), "position": slice(0, 3), "orientation": slice(3, 6)}


def __dir__() -> list[str]:
    return __all__


def no_targets(k: int) -> Targets:
    """Allocate the targets of k tasks, all with zero weight."""
    return Targets(
        kind=np.zeros(k, dtype=np.int64),
        axes=np.zeros(k, dtype=np.int64),
        joint=np.zeros(k, dtype=np.int64),
        offset=np.zeros((k, 3)),
        turn=np.tile(np.eye(3), (k, 1, 1)),
        base=np.full(k, -1),
        base_offset=np.zeros((k, 3)),
        base_turn=np.tile(np.eye(3), (k, 1, 1)),
        position=np.zeros((k, 3)),
        rotation=np.tile(np.eye(3), (k, 1, 1)),
        velocity=np.zeros((k, 6)),
        acceleration=np.zeros((k, 6)),
        kp=np.zeros((k, 6)),
        kd=np.zeros((k, 6)),
        weight=np.zeros((k, 6)),
        error=np.zeros((k, 6)),
    )


def _shown(values: object) -> str:
    """Return the representation of a value in one line."""
    return " ".join(repr(values).split())


def _numbers(what: str, values: npt.ArrayLike, shape: tuple[int, ...], *, repeat: bool = False) -> Array:
    """Return finite numbers of a shape.

    Args:
        what: Name of the values in messages.
        values: The numbers.
        shape: Their shape.
        repeat: True to accept also a single number, which is repeated.

    Raises:
        InputError: The values are not numbers, are not finite, or have another shape.
    """
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{what} must be numbers of shape {shape}, not {_shown(values)}") from None
    if array.shape != shape and not (repeat and array.shape == ()):
        raise InputError(f"{what} must be numbers of shape {shape}, not of shape {array.shape}: {_shown(values)}")
    # a sum of squares that overflows may have finite terms; it takes a fifth of the time of np.isfinite
    if not math.isfinite(np.vdot(array, array)) and not np.isfinite(array).all():
        raise InputError(f"{what} must be finite, not {_shown(values)}")
    return array if array.shape == shape else np.full(shape, array)


def _is_rotation(R: Array) -> bool:
    """True if the matrix R, shape (3, 3), is a rotation, up to 1e-3 in each scalar product of its rows."""
    (a, b, c), (d, e, f), (g, h, i) = R.tolist()  # NumPy takes four times as long
    det = a * (e * i - f * h) + b * (f * g - d * i) + c * (d * h - e * g)
    squares = a * a + b * b + c * c, d * d + e * e + f * f, g * g + h * h + i * i
    products = a * d + b * e + c * f, a * g + b * h + c * i, d * g + e * h + f * i
    return det > 0.0 and all(abs(x - 1.0) <= 1e-3 for x in squares) and all(abs(x) <= 1e-3 for x in products)


class _Rows:
    """Gains, weights and references of up to six rows, which controllers copy into their own arrays.

    Attributes:
        is_set: True if `set` has been called.
    """

    __slots__ = ("_name", "_own", "_part", "_rooms", "_strict", "is_set")  # a misspelt attribute is an error

    def __init__(
        self, name: str, part: slice, kp: npt.ArrayLike, kd: npt.ArrayLike | None, weight: npt.ArrayLike, strict: bool
    ) -> None:
        self._name, self._part, self.is_set = name, part, False
        self._own, self._rooms, size = no_targets(1), list[tuple[Targets, int]](), (part.stop - part.start,)
        stiffness = _numbers(f"kp of {name}", kp, size, repeat=True)
        critical = 2.0 * np.sqrt(np.maximum(stiffness, 0.0))
        damping = critical if kd is None else _numbers(f"kd of {name}", kd, size, repeat=True)
        if (stiffness < 0.0).any() or (damping < 0.0).any():
            raise InputError(f"gains of {name} must not be negative: kp {stiffness.tolist()}, kd {damping.tolist()}")
        self._write("kp", stiffness, part)
        self._write("kd", damping, part)
        self._strict = bool(strict)
        self.weight = weight

    @property
    def weight(self) -> Array:
        """Weight of each row; 0 omits the row. In a strict task, a row that is not omitted has the weight inf."""
        return self._own.weight[0, self._part].copy()

    @weight.setter
    def weight(self, values: npt.ArrayLike) -> None:
        weight = _numbers(f"weight of {self._name}", values, (self._part.stop - self._part.start,), repeat=True)
        if (weight < 0.0).any():
            raise InputError(f"weights of {self._name} must not be negative, not {weight.tolist()}")
        self._write("weight", np.where(weight > 0.0, np.inf, 0.0) if self._strict else weight, self._part)

    @property
    def error(self) -> Array:
        """Reference minus actual value at the last step [m, rad, N m s; N, N m]; zero before the first step.

        If all controllers with this task have the same list of motion tasks, the last step of any of them counts.
        Otherwise, and always for a `Force`, only steps of the controller that was created last count.
        """
        targets, at = self._rooms[-1] if self._rooms else (self._own, 0)
        return targets.error[at, self._part].copy()

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        """Return the state without the arrays of controllers; a copied controller connects its arrays again."""
        state: Any = super().__getstate__()  # with slots: (None, values of the slots)
        return None, state[1] | {"_rooms": []}

    def _write(self, field: str, values: Array | float, part: Any = Ellipsis) -> None:
        """Write gains, weights or a reference into the arrays of the task and of all controllers with this task."""
        for targets, at in ((self._own, 0), *self._rooms):
            getattr(targets, field)[at, part] = values

    def _set(self, velocity: npt.ArrayLike | None, acceleration: npt.ArrayLike | None, **place: Array) -> None:
        """Write a reference. The caller has checked `place`.

        Raises:
            InputError: `velocity` or `acceleration` is invalid; nothing is written.
        """
        size = (self._part.stop - self._part.start,)
        v = 0.0 if velocity is None else _numbers(f"velocity of {self._name}", velocity, size)
        a = 0.0 if acceleration is None else _numbers(f"acceleration of {self._name}", acceleration, size)
        for targets, at in ((self._own, 0), *self._rooms):
            targets.velocity[at, self._part], targets.acceleration[at, self._part] = v, a
            for field, values in place.items():
                getattr(targets, field)[at] = values
        self.is_set = True

    def join(self, targets: Targets, at: int) -> None:
        """Copy gains, weights and references to index `at` of a controller's arrays, and keep them up to date."""
        for field, own in zip(targets, self._own, strict=True):
            field[at] = own[0]
        self._rooms.append((targets, at))


class Frame(_Rows):
    """A task on position, orientation or both of a URDF frame, in the world or relative to another frame."""

    __slots__ = ("frame", "kind", "relative_to")

    def __init__(
        self,
        name: str,
        kind: Literal["pose", "position", "orientation"] = "pose",
        *,
        kp: npt.ArrayLike = 100.0,
        kd: npt.ArrayLike | None = None,
        weight: npt.ArrayLike = 1.0,
        strict: bool = False,
        axes: Axes = "LOCAL_WORLD_ALIGNED",
        relative_to: str | None = None,
    ) -> None:
        """Choose a frame. Until `set` is called, the target is the frame's pose in the robot's standing state.

        Args:
            name: Name of the link or frame.
            kind: Controlled part of the pose: ``"position"``, ``"orientation"``, or ``"pose"`` for both.
            kp: Stiffness, one number or one for each row [1/s²].
            kd: Damping [1/s]; None for critical damping, ``2 √kp``.
            weight: Weight, one number or one for each row.
            strict: True if the task takes priority over all weighted tasks.
            axes: Axes of velocities, accelerations, gains and weights, by Pinocchio's names.
            relative_to: Frame of reference for poses and axes; None for the world.

        Raises:
            UnknownName: `kind` or `axes` does not exist.
            InputError: Gains or weights are unusable.
        """
        if kind not in KINDS:
            raise UnknownName("kind of frame task", kind, tuple(KINDS))
        if axes not in AXES:
            raise UnknownName("axes", axes, tuple(AXES))
        self.frame, self.kind, self.relative_to = name, kind, relative_to
        super().__init__(f"task {name!r}", KINDS[kind], kp, kd, weight, strict)
        self._own.kind[0], self._own.axes[0] = rows.FRAME, AXES[axes]

    def set(self, place: Any, velocity: npt.ArrayLike | None = None, acceleration: npt.ArrayLike | None = None) -> None:
        """Change the reference.

        Args:
            place: Pose as a ``pinocchio.SE3``, position, shape (3,) [m], or rotation matrix, shape (3, 3), depending on
                the kind of the task; in the world, or in the frame `relative_to`.
            velocity: Velocity of the controlled rows, linear part first [m/s, rad/s]; None for rest.
            acceleration: Acceleration of the controlled rows [m/s², rad/s²]; None for zero.

        Raises:
            InputError: A number is invalid, a shape is wrong, or a matrix is no rotation.
        """
        position, rotation = (place.translation, place.rotation) if isinstance(place, pin.SE3) else (place, place)
        new: dict[str, Array] = {}
        if self.kind != "orientation":
            new["position"] = _numbers(f"position of {self._name}", position, (3,))
        if self.kind != "position":
            new["rotation"] = R = _numbers(f"rotation of {self._name}", rotation, (3, 3))
            if not _is_rotation(R):
                raise InputError(f"rotation of {self._name} must be a rotation matrix, not {R.tolist()}")
        self._set(velocity, acceleration, **new)


class CoM(_Rows):
    """A task on the centre of mass."""

    __slots__ = ()

    def __init__(
        self,
        *,
        kp: npt.ArrayLike = 100.0,
        kd: npt.ArrayLike | None = None,
        weight: npt.ArrayLike = 1.0,
        strict: bool = False,
    ) -> None:
        """Choose gains and weight as for `Frame`. The initial target is the position in the standing state."""
        super().__init__("the centre of mass", KINDS["position"], kp, kd, weight, strict)
        self._own.kind[0] = rows.CENTROID

    @property
    def pendulum_m(self) -> float:
        """Height of a pendulum [m]; 0, the default, for none.

        With a height z, the task controls ``ẋ + k_y / (m z)`` and ``ẏ - k_x / (m z)`` instead of the horizontal speeds
        ẋ and ẏ of the centre of mass, and likewise for its acceleration; k is the angular momentum. Swinging limbs then
        move the centre of mass, not the zero-moment point.
        """
        return float(self._own.offset[0, 2])

    @pendulum_m.setter
    def pendulum_m(self, height: float) -> None:
        self._write("offset", _numbers("pendulum_m", height, ()), 2)

    def set(
        self,
        position: npt.ArrayLike,
        velocity: npt.ArrayLike | None = None,
        acceleration: npt.ArrayLike | None = None,
    ) -> None:
        """Change the reference: position [m], velocity [m/s] and acceleration [m/s²], shape (3,), world frame.

        None stands for zero.

        Raises:
            InputError: A number is invalid, or a shape is wrong.
        """
        position = _numbers("position of the centre of mass", position, (3,))
        self._set(velocity, acceleration, position=position)


class Momentum(_Rows):
    """A task on the angular momentum about the centre of mass."""

    __slots__ = ()

    def __init__(self, *, kd: npt.ArrayLike = 10.0, weight: npt.ArrayLike = 1.0, strict: bool = False) -> None:
        """Choose gain [1/s] and weight [(N m)⁻²] as for `Frame`. Until `set` is called, the target is zero."""
        super().__init__("the angular momentum", KINDS["orientation"], 0.0, kd, weight, strict)
        self._own.kind[0] = rows.CENTROID

    def set(self, momentum: npt.ArrayLike, rate: npt.ArrayLike | None = None) -> None:
        """Change the reference: momentum [N m s] and its rate [N m] (None for zero), shape (3,), world axes.

        Raises:
            InputError: A number is invalid, or a shape is wrong.
        """
        self._set(momentum, rate)


class Force(_Rows):
    """A target for the force or wrench of the ground on a foot, sole or hand; it does not change the motion."""

    __slots__ = ("frame",)

    def __init__(self, frame: str, kind: Literal["force", "wrench"] = "force", *, weight: npt.ArrayLike = 1.0) -> None:
        """Choose a foot. The task has no effect until `set` is called.

        Args:
            frame: Frame of the foot, sole or hand in the robot file.
            kind: Quantity with a target: ``"force"`` or ``"wrench"``.
            weight: Weight, one number or one for each row [N⁻², (N m)⁻²]; motor torques have the weight 1e-6 (N m)⁻².

        Raises:
            UnknownName: `kind` does not exist.
            InputError: Weights are unusable.
        """
        if kind not in ("force", "wrench"):
            raise UnknownName("kind of force task", kind, ("force", "wrench"))
        self.frame = frame
        super().__init__(f"{kind} on {frame!r}", slice(0, 3 if kind == "force" else 6), 0.0, 0.0, weight, False)
        self._own.acceleration[:] = np.nan

    def set(self, target: npt.ArrayLike) -> None:
        """Change the target: a force, shape (3,) [N], or force and moment about the frame's origin, (6,) [N, N m].

        Both are expressed in world axes.

        Raises:
            InputError: A number is invalid, or the shape is wrong.
        """
        self._write("acceleration", _numbers(self._name, target, (self._part.stop,)), self._part)
        self.is_set = True


class Posture:
    """Weight and gains with which a controller follows the reference of the joints."""

    __slots__ = ("gains", "joint_weight")

    def __init__(self, *, kp: float | None = None, kd: float | None = None, weight: npt.ArrayLike = 1e-2) -> None:
        """Choose gains and weight.

        Args:
            kp: Stiffness [1/s²]; None for the value of the robot file.
            kd: Damping [1/s]; None for critical damping, ``2 √kp``, or for the value of the robot file if kp is None.
            weight: Positive weight, one number or one for each actuated joint.

        Raises:
            InputError: kd is set without kp, or gains or weights are unusable.
        """
        if kp is None and kd is not None:
            raise InputError("the posture has kd without kp; give both, or neither for the gains of the robot file")
        self.gains: tuple[float, float] | None = None
        if kp is not None:
            stiffness = float(_numbers("kp of the posture", kp, ()))
            damping = 2.0 * np.sqrt(max(stiffness, 0.0)) if kd is None else float(_numbers("kd of the posture", kd, ()))
            if stiffness < 0.0 or damping < 0.0:
                raise InputError(f"gains of the posture must not be negative: kp {stiffness}, kd {damping}")
            self.gains = stiffness, damping
        self.joint_weight = _numbers("weights of the posture", weight, np.shape(weight))
        if not (self.joint_weight > 0.0).all():
            raise InputError(f"weights of the posture must be positive, not {_shown(weight)}")


Task: TypeAlias = Frame | CoM | Momentum | Posture | Force


def gather(tasks: Sequence[Task], system: System, q: Array) -> tuple[Targets, Array]:
    """Collect motion tasks in one set of arrays; `set` of the tasks then writes into these arrays.

    Args:
        tasks: The tasks; `Force` tasks are ignored, see `gather_forces`.
        system: The robot.
        q: Configuration that defines the initial references of frames and of the centre of mass, shape (nq,).

    Returns:
        The targets of all motion tasks, and the weights of the joints' reference, shape (a,).

    Raises:
        UnknownName: A frame does not exist.
        InputError: A task is on a frame fixed to the world, is relative to a frame of the same link, is on the centre
            of mass or the angular momentum of a robot without a floating base, is repeated, or is not a task; there are
            two `Posture` tasks; or the posture has a wrong number of weights.
    """
    six = [task for task in tasks if isinstance(task, _Rows) and not isinstance(task, Force)]
    posture = [task for task in tasks if isinstance(task, Posture)]
    if not all(isinstance(task, _Rows | Posture) for task in tasks):
        raise InputError(f"tasks must be of idcontrol.tasks, not {[type(task).__name__ for task in tasks]}")
    if len(set(map(id, tasks))) < len(tasks) or len(posture) > 1:
        raise InputError("a task is given twice; give each task once, and at most one Posture")
    weight = posture[0].joint_weight if posture else Posture().joint_weight
    if weight.shape not in ((), (system.n_actuated,)):
        raise InputError(
            f"the posture has {weight.size} weights; give one, or one for each of {system.n_actuated} joints"
        )
    joint_weight = weight * np.ones(system.n_actuated)
    targets, data = no_targets(len(six)), system.scratch
    # controllers with the same tasks, such as a shallow copy, share the errors: each step overwrites them
    rooms = [task._rooms[-1] if task._rooms else (targets, -1) for task in six]
    first = rooms[0][0] if rooms else targets
    if [(id(room), at) for room, at in rooms] == [(id(first), i) for i in range(len(first.kind))]:
        targets = targets._replace(error=first.error)
    pin.framesForwardKinematics(system.model, data, q)
    for i, task in enumerate(six):
        task.join(targets, i)
        if isinstance(task, Frame):
            frame = system.frame(task.frame)
            targets.joint[i], targets.offset[i], targets.turn[i] = _mounting(system, frame)
            if targets.joint[i] == 0:
                raise InputError(f"frame {task.frame!r} is fixed to the world; give a task a frame that moves")
            place = data.oMf[frame]
            if task.relative_to is not None:
                base = system.frame(task.relative_to)
                targets.base[i], targets.base_offset[i], targets.base_turn[i] = _mounting(system, base)
                if targets.base[i] == targets.joint[i]:
                    raise InputError(f"frames {task.frame!r} and {task.relative_to!r} are on one link; give two links")
                place = data.oMf[base].actInv(place)
            if not task.is_set:
                targets.position[i], targets.rotation[i] = place.translation, place.rotation
        elif not system.floats:
            raise InputError("tasks on centre of mass and momentum need a machine whose joints hang on a floating base")
        elif isinstance(task, CoM) and not task.is_set:
            targets.position[i] = system.com(q)
    return targets, joint_weight


def _mounting(system: System, frame: int) -> tuple[int, Array, Array]:
    """Return the joint that carries a frame, and the frame's origin (3,) and axes (3, 3) in this joint."""
    place = system.model.frames[frame].placement
    return int(system.frame_joint[frame]), place.translation, place.rotation


def relaxed(tasks: Sequence[Task], targets: Targets, missed: Array) -> tuple[str, ...]:
    """Describe the strict tasks that a step has relaxed, one line for each.

    Args:
        tasks: The tasks, as for `gather`.
        targets: Their targets, from `gather`.
        missed: ``y - A a`` of relaxed strict rows, in the order of the rows with a positive weight, shape (6 k,).
    """
    six = [task for task in tasks if isinstance(task, _Rows) and not isinstance(task, Force)]
    used, by = np.flatnonzero(targets.weight > 0.0), np.zeros(targets.weight.shape)
    by.flat[used] = missed[: used.size]
    lines = []
    for task, miss, kind in zip(six, by, targets.kind, strict=True):
        turning = "rad/s²" if kind == rows.FRAME else "N m"
        parts = ((np.linalg.norm(miss[:3]), "m/s²"), (np.linalg.norm(miss[3:]), turning))
        sizes = [f"{size:.3g} {unit}" for size, unit in parts if size > CONTRADICTION]
        if sizes:
            lines.append(
                f"{task._name} misses {' and '.join(sizes)}: it contradicts contacts, momentum or other strict tasks"
            )
    return tuple(lines)


def gather_forces(tasks: Sequence[Task], contacts: Detector) -> ForceTerms:
    """Collect `Force` tasks in one set of arrays, like `gather`.

    Raises:
        UnknownName: A task's frame has no contact sphere.
        InputError: The detector does not detect spheres, or two tasks are on one frame.
    """
    wanted = [task for task in tasks if isinstance(task, Force)]
    targets, nothing = no_targets(len(wanted)), np.zeros(0, dtype=np.int64)
    if not wanted:
        return ForceTerms(targets, nothing, nothing, np.zeros((0, 3)), np.zeros(0))
    if not isinstance(contacts, SphereContacts):
        raise InputError("Force tasks need a detector of contact spheres (idcontrol.contact.spheres)")
    frames = [task.frame for task in wanted]
    for at, task in enumerate(wanted):
        if task.frame not in contacts.frames:
            raise UnknownName("foot or sole", task.frame, tuple(dict.fromkeys(contacts.frames)))
        if frames.count(task.frame) > 1:
            raise InputError(f"two Force tasks are on {task.frame!r}; give one")
        task.join(targets, at)
    system, (joint, centre) = contacts.system, contacts.mounting()
    origin = [_mounting(system, system.frame(frame))[1] for frame in contacts.frames]
    return ForceTerms(
        targets=targets,
        task=np.array([frames.index(frame) if frame in frames else -1 for frame in contacts.frames], dtype=np.int64),
        joint=joint,
        arm=centre - np.array(origin),
        radius=contacts.radius,
    )


def write_errors(targets: Targets, tasks: Sequence[CoM | Frame], system: System, q: Array) -> None:
    """Write the errors of tasks at configuration q, shape (nq,), into the first rows of `Targets.error`.

    Controllers of this package write them in each step. Frames must be relative to the world.
    """
    model, data = system.model, system.scratch
    pin.framesForwardKinematics(model, data, q)
    centre = pin.centerOfMass(model, data, q)
    for i, task in enumerate(tasks):
        if isinstance(task, Frame):
            place = data.oMf[system.frame(task.frame)]
            targets.error[i, :3] = targets.position[i] - place.translation
            targets.error[i, 3:] = pin.log3(targets.rotation[i] @ place.rotation.T)
        else:
            targets.error[i, :3] = targets.position[i] - centre
