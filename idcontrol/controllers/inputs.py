"""Checks and copies of a controller's states and references.

Arrays of a robot's driver may be read-only, strided, of single precision, too short or not finite. `Intake.take` copies
state and reference into arrays of fixed types and addresses, or returns the reason why they are unusable.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from traceback import format_exception_only
from typing import Any, Final, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

from idcontrol.dynamics.system import LARGEST, UNIT, System
from idcontrol.kernels.bound import Bound, bind, borrow, entry
from idcontrol.kernels.jit import njit
from idcontrol.types import Array, Booleans, Command, Integers, Reference, State, Status


class Inputs(NamedTuple):
    """State and reference of one step; all fields but q and v come from the reference.

    With soles, the last three fields have an entry for each corner of a sole instead of one for each foot.

    Attributes:
        q: Configuration, Pinocchio's layout, shape (nq,).
        v: Velocity, Pinocchio's layout, shape (nv,).
        joint_q: Desired positions of the joints, shape (a,) [rad].
        joint_v: Desired velocities, shape (a,) [rad/s].
        joint_a: Desired accelerations, shape (a,) [rad/s²].
        stance: True for feet that are planned to stand, shape (n_feet,).
        since_touchdown: Time since each foot's planned touchdown, shape (n_feet,) [s].
        to_liftoff: Time to each foot's planned lift-off, shape (n_feet,) [s].
    """

    q: Array
    v: Array
    joint_q: Array
    joint_v: Array
    joint_a: Array
    stance: Booleans
    since_touchdown: Array
    to_liftoff: Array


NAMES: Final = (
    "state.q",
    "state.v",
    "reference.q",
    "reference.v",
    "reference.a",
    "reference.stance",
    "reference.since_touchdown",
    "reference.to_liftoff",
)
"""Names of the fields of `Inputs` in messages to the user."""
TIMES: Final = NAMES[6:]
"""The fields that may be infinite."""
STANCE: Final = 5
"""Index of the only field of logical values."""
REAL: Final = np.dtype(np.float64)
LOGICAL: Final = np.dtype(np.bool_)
PACKED, PACKED_LOGICAL = (8,), (1,)
"""Strides of contiguous vectors of numbers and of logical values [bytes]."""


class Intake:
    """Checks states and references, and copies them into the arrays that kernels read.

    Attributes:
        inputs: State and reference of the last `take`; after a rejection, possibly a part of them. New arrays are
            allocated if the number of feet changes.
        room: The same arrays and the layout of configuration and feet, as the bound argument of `copy_inputs`.
    """

    def __init__(self, system: System, *, accelerations: bool = True, patch: Integers | None = None) -> None:
        """Allocate arrays for the states of a robot, and for references without feet.

        Args:
            system: The robot.
            patch: Index of each contact's foot in the reference; None if each contact is a foot.
            accelerations: True to use `Reference.a`; otherwise zeros replace it.
        """
        self._system = system
        self._patch = None if patch is None or (patch == np.arange(patch.size)).all() else patch
        self._no_acceleration = None if accelerations else np.zeros(system.n_actuated)
        self._make_room(0 if self._patch is None else int(self._patch.max()) + 1)
        self._copy = entry(copy_room, self.room, *self.inputs)

    def take(self, state: State, reference: Reference) -> str:
        """Copy state and reference into `inputs`. Return the reason why they are unusable, or "". Never raise."""
        try:
            values = (
                state.q,
                state.v,
                reference.q,
                reference.v,
                reference.a if self._no_acceleration is None else self._no_acceleration,
                reference.stance,
                reference.since_touchdown,
                reference.to_liftoff,
            )
            if are_plain(*values) and self._copy(self.room, *values):
                return ""
            values = _converted(values)
            if self._patch is None and values[STANCE].size != self.inputs.stance.size:
                self._make_room(values[STANCE].size)
            return "" if self._copy(self.room, *values) else self._fault(Inputs(*values))
        except Exception as error:  # reading a user's object may raise anything; a controller raises nothing
            return f"state or reference cannot be read: {''.join(format_exception_only(error)).strip()}"

    def _make_room(self, feet: int) -> None:
        """Allocate arrays for references with this number of feet."""
        system = self._system
        a, patch = system.n_actuated, np.arange(feet) if self._patch is None else self._patch
        self.inputs = Inputs(
            q=np.zeros(system.model.nq),
            v=np.zeros(system.model.nv),
            joint_q=np.zeros(a),
            joint_v=np.zeros(a),
            joint_a=np.zeros(a),
            stance=np.zeros(patch.size, dtype=np.bool_),
            since_touchdown=np.zeros(patch.size),
            to_liftoff=np.zeros(patch.size),
        )
        self.room = bind((self.inputs, system.unit, patch, feet))

    def _fault(self, arrays: Inputs) -> str:
        """Return the first mistake in plain arrays that `copy_inputs` has rejected."""
        misfit = self._system.misfit(arrays.q, arrays.v)
        if misfit:
            return misfit
        for k, (name, array, room) in enumerate(zip(NAMES, arrays, self.inputs, strict=True)):
            size = room.size if k < STANCE or self._patch is None else int(self._patch.max()) + 1
            if array.size != size:
                return f"{name} has {array.size} entries; it needs {size}"
            if name in TIMES:
                if np.isnan(array).any():
                    return f"{name} is not a number"
            elif not np.isfinite(array).all():
                return f"{name} is not finite"
            elif not (np.abs(array) <= LARGEST).all():
                return f"{name} is beyond {LARGEST:g}"
        return "state or reference cannot be used"


Call = TypeVar("Call", bound=Callable[..., Command])


def alone(call: Call) -> Call:
    """Wrap the call of a controller: while another thread uses the same system, the status is `Status.FAILED`.

    Controllers write into the arrays of their system, so each thread needs its own controller (`copy.deepcopy`).
    """

    @wraps(call)
    def called(self: Any, state: State, reference: Reference) -> Command:
        if not self._system.busy.acquire(False):
            return failed(self._system, "called by two threads at once: give each a controller of its own")
        try:
            return call(self, state, reference)
        finally:
            self._system.busy.release()

    return cast(Call, called)


def failed(system: System, reason: str) -> Command:
    """Return the command for a failure: no torque, and the reason.

    The caller decides what happens next (`idcontrol.loop.safety`).
    """
    return Command(tau=np.zeros(system.n_actuated), status=Status.FAILED, dropped=(reason,))


def are_plain(
    q: Any, v: Any, joint_q: Any, joint_v: Any, joint_a: Any, stance: Any, since_touchdown: Any, to_liftoff: Any
) -> bool:
    """True if all values are contiguous vectors of the types in `Inputs`. Compiled code does not check them.

    False for subclasses of arrays, since they can redefine their attributes.
    """
    # a loop would take three times as long; Pinocchio's number types equal NumPy's, but are different objects
    return bool(
        type(q) is type(v) is type(joint_q) is type(joint_v) is type(joint_a) is np.ndarray
        and type(stance) is type(since_touchdown) is type(to_liftoff) is np.ndarray
        and q.dtype == v.dtype == joint_q.dtype == joint_v.dtype == joint_a.dtype == REAL
        and since_touchdown.dtype == to_liftoff.dtype == REAL
        and stance.dtype == LOGICAL
        and q.strides == v.strides == joint_q.strides == joint_v.strides == joint_a.strides == PACKED
        # strides of empty arrays may be zero
        and (since_touchdown.strides == to_liftoff.strides == PACKED or not since_touchdown.size + to_liftoff.size)
        and (stance.strides == PACKED_LOGICAL or not stance.size)
    )


def _converted(arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """Convert each value to a new contiguous array of the type in `Inputs`.

    Raises:
        ValueError: A value is not a vector of real numbers, has masked entries, or is a stance with NaN; the text names
            it.
    """
    plain: list[Any] = []
    for name, value in zip(NAMES, arrays, strict=True):
        array = unmasked(name, value)
        if array.ndim != 1 or array.dtype.kind not in "buif":
            raise ValueError(f"{name} has {array.ndim} axes and type {array.dtype}; it must be a vector of numbers")
        if name == "reference.stance" and np.isnan(array).any():
            raise ValueError(f"{name} has a NaN, which is neither true nor false")
        plain.append(np.array(array, dtype=np.bool_ if name == "reference.stance" else np.float64))
    return tuple(plain)


def unmasked(name: str, value: Any) -> npt.NDArray[Any]:
    """Return the value as an array without a mask.

    Raises:
        ValueError: The value has masked entries; the text names it.
    """
    if np.ma.is_masked(value):
        raise ValueError(f"{name} has masked entries; fill them in")
    return np.asarray(value)


@njit(cache=True, inner=True)
def _within(x: Array, out: Array) -> bool:
    """Copy x into `out`; return True if x has the length of `out`, no entry beyond `LARGEST` and no NaN."""
    if x.shape[0] != out.shape[0]:
        return False
    good = True
    for i in range(x.shape[0]):
        good = good and abs(x[i]) <= LARGEST  # false for a NaN
        out[i] = x[i]
    return good


@njit(cache=True, inner=True)
def copy_inputs(bound: Bound, arrays: tuple[Any, ...]) -> bool:
    """Copy the fields of `Inputs` into the bound arrays; return True if they are usable."""
    new = Inputs(*borrow(arrays))
    inputs, unit, patch, feet = bound.borrowed
    good = _within(new.q, inputs.q) and _within(new.v, inputs.v)
    good = good and _within(new.joint_q, inputs.joint_q) and _within(new.joint_v, inputs.joint_v)
    good = good and _within(new.joint_a, inputs.joint_a)
    if new.stance.shape[0] != feet or new.since_touchdown.shape[0] != feet or new.to_liftoff.shape[0] != feet:
        return False
    for i in range(patch.shape[0]):
        foot = patch[i]
        since, until = new.since_touchdown[foot], new.to_liftoff[foot]
        inputs.stance[i], inputs.since_touchdown[i], inputs.to_liftoff[i] = new.stance[foot], since, until
        good = good and not np.isnan(since) and not np.isnan(until)
    for k in range(unit.shape[0]):
        square = 0.0
        for i in range(unit[k, 0], unit[k, 0] + unit[k, 1]):
            square += inputs.q[i] * inputs.q[i]
        good = good and abs(np.sqrt(square) - 1.0) <= UNIT
    return bool(good)


@njit(cache=True)
def copy_room(
    bound: Bound,
    q: Array,
    v: Array,
    joint_q: Array,
    joint_v: Array,
    joint_a: Array,
    stance: Booleans,
    since_touchdown: Array,
    to_liftoff: Array,
) -> bool:
    """Run `copy_inputs` on arrays that `are_plain`."""
    return bool(copy_inputs(bound, (q, v, joint_q, joint_v, joint_a, stance, since_touchdown, to_liftoff)))
