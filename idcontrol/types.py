"""The data that flows: state -> reference -> command -> state, and the words for how a step ended.

Arrays are float64, C-contiguous, SI units. Everything here is plain data; nothing here computes. What is made anew in
each step is a frozen `msgspec.Struct`, which takes a fifth of the time of a frozen dataclass; change a copy with
`msgspec.structs.replace`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]
Booleans: TypeAlias = npt.NDArray[np.bool_]


class Status(enum.IntEnum):
    """How one control or plant step ended, from best to worst."""

    SOLVED = 0
    """Everything that was asked for was met, and the residual was checked."""
    REPAIRED = 1
    """Limits and friction cones hold; some tracking gave way or a regularization was added."""
    FALLBACK = 2
    """No solution of this step could be used: the last admissible command, or a plain one, was."""
    FAILED = 3
    """The input could not be used at all (a NaN in the state): the command is zero torque."""


class ContactForces(msgspec.Struct, frozen=True, kw_only=True):
    """Forces at named contacts, from a plant (measured) or a controller (predicted).

    Attributes:
        identity: Which contact, shape (n,): the same number from step to step; a foot sphere has its index.
        force: Force of the ground on the machine, world axes, shape (n, 3) [N].
        normal: Contact normals, world axes, pointing to the machine, shape (n, 3).
    """

    identity: Integers
    force: Array
    normal: Array

    @staticmethod
    def none() -> ContactForces:
        """No contact at all."""
        return ContactForces(identity=np.zeros(0, dtype=np.int64), force=np.zeros((0, 3)), normal=np.zeros((0, 3)))


class State(msgspec.Struct, frozen=True, kw_only=True):
    """Where the machine is.

    Attributes:
        t: Time [s].
        q: Configuration as Pinocchio has it, shape (nq,): a free-flyer is position [m], quaternion (x, y, z, w).
        v: Velocity as Pinocchio has it, shape (nv,): a free-flyer is linear [m/s], angular [rad/s], in its own axes.
        forces: What force sensors said of the period before `t`; None where nothing is sensed.
    """

    t: float
    q: Array
    v: Array
    forces: ContactForces | None = None


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """What a planner asks for at one instant; joints in the order of `System.actuated_names`.

    Attributes:
        q: Joint positions, shape (a,) [rad].
        v: Joint velocities, shape (a,) [rad/s]: the mean over the period that ends at this instant, ``v(t) - h a / 2``
            for motion at constant acceleration, which is what the velocity of a machine that is stepped means.
        a: Joint accelerations, shape (a,) [rad/s²].
        stance: Which feet are planned to stand, shape (n_feet,).
        since_touchdown: Time since each foot's planned touchdown, shape (n_feet,) [s]; inf where it does not apply.
        to_liftoff: Time to the planned lift-off of each foot, shape (n_feet,) [s]; inf where it does not apply.
        base_position: Reference of the base, world frame, shape (3,) [m]; like the next two for records, not control.
        base_yaw: Reference heading [rad]; roll and pitch are meant to be zero.
        feet: Planned centres of the foot spheres, world frame, shape (n_feet, 3) [m].
        residual: Largest distance between a planned foot and where the joints can put it [m];
            above 1e-6 it is unreachable.
    """

    q: Array
    v: Array
    a: Array
    stance: Booleans
    since_touchdown: Array
    to_liftoff: Array
    base_position: Array
    base_yaw: float
    feet: Array
    residual: float = 0.0

    @staticmethod
    def standing(q: Array, feet: int) -> Reference:
        """Hold the joint positions `q`, shape (a,) [rad], with all of `feet` feet on the ground."""
        never = np.full(feet, np.inf)
        return Reference(
            q=q,
            v=np.zeros_like(q),
            a=np.zeros_like(q),
            stance=np.ones(feet, dtype=np.bool_),
            since_touchdown=never,
            to_liftoff=never,
            base_position=np.full(3, np.nan),
            base_yaw=np.nan,
            feet=np.full((feet, 3), np.nan),
        )


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What a controller returns for one period.

    Attributes:
        tau: Joint torques within the limits, shape (a,) [N m].
        predicted: Contact forces that the controller counts on; None where it predicts nothing.
        status: How the step ended.
        residual: Residual of the contact problem, relative (math.md 13.3); 0 where none was solved.
        clipped: Whether a torque limit was met.
        dropped: What was given up in this step, e.g. ``("tracking",)``; never a torque limit or a friction cone.
    """

    tau: Array
    predicted: ContactForces | None = None
    status: Status = Status.SOLVED
    residual: float = 0.0
    clipped: bool = False
    dropped: tuple[str, ...] = ()


class Controller(Protocol):
    """What fits the loop: any object with this call; no base class is needed."""

    def __call__(self, state: State, reference: Reference) -> Command:
        """The torques for the period that begins at `state.t`; never raises, never returns NaN."""
        ...

    def reset(self) -> None:
        """Forget all earlier steps."""
        ...


class Plant(Protocol):
    """What stands in for the hardware."""

    def reset(self, state: State) -> State:
        """Put the machine into `state`; returns the state that a controller may see."""
        ...

    def step(self, tau: Array, dt: float) -> State:
        """Hold the joint torques `tau` [N m] for `dt` [s]."""
        ...

    def contact_forces(self) -> ContactForces:
        """The forces of the last step, averaged over it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something worth a line in the record."""

    t: float
    what: str
    detail: Mapping[str, Any] = field(default_factory=dict)
