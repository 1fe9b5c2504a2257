"""The data of a control loop: state, reference, command, and the status of a step.

Arrays are float64, C-contiguous, in SI units. Objects that each step creates are frozen `msgspec.Struct`s, which are
created faster than dataclasses; `msgspec.structs.replace` copies them with changes.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from idcontrol.errors import InputError

Array: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]
Booleans: TypeAlias = npt.NDArray[np.bool_]
Number = TypeVar("Number", bound=np.generic)


def read_only(array: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """Return a copy of `array` that cannot be written: even ``setflags`` cannot make its memory writable.

    Controllers get such copies, because a controller may write into its arguments, and the record needs the original
    values later.
    """
    return np.ndarray(array.shape, array.dtype, array.tobytes())


class Status(enum.IntEnum):
    """The outcome of a control or plant step, from best to worst."""

    SOLVED = 0
    """All demands were met, and the residual was checked."""
    REPAIRED = 1
    """The step has a usable solution, but a demand or a limit was relaxed, or the contact problem was regularized or
    solved less accurately than its tolerance. Torque limits hold; `Command.dropped` says what was relaxed."""
    FALLBACK = 2
    """The step has no usable solution. A controller repeats its last torques; a plant applies no contact impulses
    (`viscous`: only drag)."""
    FAILED = 3
    """The input is unusable, for example a NaN in the state; the command is zero torque."""

    def __str__(self) -> str:
        """Return the name instead of the number."""
        return self.name


SOLVED_BY: Final = (
    "sticking", "noslip", "dissipation", "one-stage", "coulomb-lcp", "sap", "constraint", "coulomb-cone",
)  # fmt: skip
"""Values of `Command.solved_by`; records store their indices."""


CONES: Final = ("none", "pyramid", "circle")
"""Known values of `ContactLaw.cone`."""


class ContactLaw(NamedTuple):
    """Properties of a contact model that an experiment needs before it builds the controller or plant.

    A user's controller or plant may define it as the attribute ``contact_law``.

    Attributes:
        cone: Shape of the friction cones: ``pyramid`` (a diamond along the tangents), ``circle``, or ``none`` if
            friction is not used; None if unknown.
        detects: True if contacts and their friction coefficients come from the setup's contact detector.
    """

    cone: Literal["pyramid", "circle", "none"] | None = None
    detects: bool = True


TOUCHING_N: Final = 1e-3
"""Smallest force that counts as contact [N], far above rounding errors and far below the load of any foot."""


class SoleWrenches(Protocol):
    """Converts contact forces to wrenches on a machine's feet, as `idcontrol.contact.soles.Soles` does."""

    def number(self, sole: str) -> int:
        """Return the index of the foot on the frame `sole` of the robot file."""
        ...

    def wrenches(self, forces: ContactForces) -> Array:
        """Return the wrench of the ground on each foot, as `ContactForces.wrench`, shape (n, 6) [N, N m]."""
        ...


class ContactForces(msgspec.Struct, frozen=True, kw_only=True):
    """Forces at contacts, from a plant (measured) or a controller (predicted).

    Attributes:
        identity: Identity of each contact, shape (n,): a number that stays the same from step to step, e.g. the index
            of a foot sphere.
        force: Force of the ground on the machine, world axes, shape (n, 3) [N].
        normal: Contact normals, world axes, towards the machine, shape (n, 3).
        soles: Function that returns the placement of the machine's feet, for `wrench`; None if unknown.
    """

    identity: Integers
    force: Array
    normal: Array
    soles: Callable[[], SoleWrenches] | None = None

    def wrench(self, sole: str) -> Array:
        """Return the wrench of the ground on one foot: force, then moment, shape (6,) [N, N m]; zeros in flight.

        The moment is about the origin of the sole's frame, in world axes (``LOCAL_WORLD_ALIGNED``). A point foot has no
        moment about its contact point.

        Args:
            sole: Frame of the sole or foot in the robot file.

        Raises:
            UnknownName: No foot is on that frame.
            InputError: The positions of the feet are unknown, as in forces of a plant; see `SphereContacts.soles`.
        """
        if self.soles is None:
            raise InputError("these forces have no poses of soles; take contacts.soles(q).wrenches(forces)")
        soles = self.soles()
        return soles.wrenches(self)[soles.number(sole)]

    @staticmethod
    def none() -> ContactForces:
        """Return forces without any contact."""
        return ContactForces(identity=np.zeros(0, dtype=np.int64), force=np.zeros((0, 3)), normal=np.zeros((0, 3)))


class State(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration and velocity of the machine at one instant.

    Attributes:
        t: Time [s].
        q: Configuration in Pinocchio's layout, shape (nq,): a free-flyer has position [m] and quaternion (x, y, z, w).
        v: Velocity in Pinocchio's layout, shape (nv,): a free-flyer has linear [m/s] and angular velocity [rad/s], base
            axes.
        forces: Contact forces sensed over the period before `t`; None without sensors.
    """

    t: float
    q: Array
    v: Array
    forces: ContactForces | None = None

    def sealed(self) -> State:
        """Return this state with read-only copies of its arrays, to protect the plant and the record.

        The copied `forces` have no `soles`.
        """
        felt = self.forces
        if felt is not None:
            identity, force, normal = read_only(felt.identity), read_only(felt.force), read_only(felt.normal)
            felt = ContactForces(identity=identity, force=force, normal=normal)
        return State(t=self.t, q=read_only(self.q), v=read_only(self.v), forces=felt)


class Sensed(msgspec.Struct, frozen=True):
    """The readings of a machine's sensors at one instant.

    Attributes:
        state: The state, with the contact forces of the last period.
        tau: Applied torques, shape (a,) [N m].
        accelerometer: Specific force of the base, base axes, shape (3,) [m/s²].
    """

    state: State
    tau: Array
    accelerometer: Array


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """The demand of a planner at one instant; joints in the order of `System.actuated_names`.

    Attributes:
        q: Joint positions, shape (a,) [rad].
        v: Joint velocities, shape (a,) [rad/s]: the mean over the period h that ends at this instant; at constant
            acceleration, the planned velocity minus ``h a / 2``. The velocities of time-stepping plants are such means,
            too.
        a: Joint accelerations, shape (a,) [rad/s²].
        stance: True for feet in planned stance, shape (n_feet,).
        since_touchdown: Time since each foot's planned touchdown, shape (n_feet,) [s]; inf for feet in swing, and for
            feet that stand from the start.
        to_liftoff: Time to the planned lift-off of each foot, shape (n_feet,) [s]; inf without a planned lift-off.
        base_position: Reference position of the base, world frame, shape (3,) [m]. Controllers do not use it, nor
            `base_yaw` and `feet`. Its height is the reference for detecting a fall.
        base_yaw: Reference heading [rad]; the reference roll and pitch are zero.
        feet: Planned centres of the foot spheres, world frame, shape (n_feet, 3) [m].
        residual: Largest distance between a planned foot and its nearest reachable position [m]; above 1e-6 the plan is
            out of reach.
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

    def sealed(self) -> Reference:
        """Return this reference with read-only copies of its arrays."""
        return Reference(
            q=read_only(self.q),
            v=read_only(self.v),
            a=read_only(self.a),
            stance=read_only(self.stance),
            since_touchdown=read_only(self.since_touchdown),
            to_liftoff=read_only(self.to_liftoff),
            base_position=read_only(self.base_position),
            base_yaw=self.base_yaw,
            feet=read_only(self.feet),
            residual=self.residual,
        )

    @staticmethod
    def standing(q: Array, feet: int) -> Reference:
        """Return a reference that holds the joints at `q`, shape (a,) [rad], with all of `feet` feet on the ground.

        The base and the positions of the feet are NaN.
        """
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
    """The torques of one period, with predicted contact forces and the outcome of the step.

    An impedance command also has `q`, `v`, `kp` and `kd` for drives that close the loop within the period
    (`idcontrol.plants.drive`). In a torque command these fields are None.

    Attributes:
        tau: Joint torques within the limits, shape (a,) [N m]; the feed-forward torques in an impedance command.
        predicted: Predicted contact forces; zeros if the status is FALLBACK, None if it is FAILED or the controller
            does not predict forces. Controllers that solve for forces and motion together predict the friction that
            slows a sliding foot down (`idcontrol.contact.landing`).
        status: Outcome of the step.
        residual: Relative residual of the contact problem (math.md, section 13.3), or of the contact rows if all
            contacts stick; 0 without either.
        clipped: True if a torque is at its limit.
        dropped: Demands relaxed in this step: ``"tracking"``, ``"rate"`` (a torque changes faster than its rate limit),
            ``"no-slip"`` (a loaded contact moves although slip is forbidden, or in a torque filter slips without
            slowing down), ``"exactness"`` (the problem was regularized), ``"tasks"`` (strict tasks, see `relaxed`),
            ``"prediction"`` (the last torque is repeated); or the reason of the status FAILED. Torque limits are never
            relaxed. Friction cones are relaxed only in schemes without slip, if `InverseSettings.repair` is False.
        solved_by: ``"sticking"`` if all contacts stick and no contact problem was solved; otherwise the name of
            the contact model, for models of this package one of `SOLVED_BY`; None without a contact model or solution.
        gap: Optimality gap of the search among several solutions [N m]. If a contact problem has several solutions, the
            controller searches for the solution closest to the last torques, in a norm of torques. No other solution is
            closer by more than `gap`. 0 if the search proved that no solution is closer; NaN if the controller does not
            search. `tau` causes the motion of the chosen solution. For this motion, a second problem selects the
            contact impulses, and thus `tau`: close to the last torques, which slowly decay (math.md, section 6.1).
        demand: How the motion for whole-body tasks was computed: ``"free"`` if limits of friction and motors are
            inactive; ``"qp"`` if a quadratic program respects these limits; ``"infeasible"`` if they allow no motion
            without slip, or if strict tasks are relaxed; empty without tasks.
        relaxed: One line for each strict task that contradicts standing contacts, the balance of momentum, or other
            strict tasks. The line states by how much the task misses its acceleration. Contacts hold, and the sum of
            the squares of what strict tasks miss is as small as possible.
        q: Joint positions that the drives track, shape (a,) [rad].
        v: Joint velocities that the drives track, shape (a,) [rad/s].
        kp: Stiffness of the drives, shape (a,) [N m/rad].
        kd: Damping of the drives, shape (a,) [N m s/rad].
    """

    tau: Array
    predicted: ContactForces | None = None
    status: Status = Status.SOLVED
    residual: float = 0.0
    clipped: bool = False
    dropped: tuple[str, ...] = ()
    solved_by: str | None = None
    gap: float = math.nan
    demand: str = ""
    relaxed: tuple[str, ...] = ()
    q: Array | None = None
    v: Array | None = None
    kp: Array | None = None
    kd: Array | None = None

    def __repr__(self) -> str:
        """Include the reason if a command has no torques: zeros alone would look like a result."""
        if self.status is Status.FAILED:
            return f"<Command: FAILED, no torque: {'; '.join(self.dropped)}>"
        return super().__repr__()

    @property
    def driven(self) -> Array:
        """Return the motors' setpoints: `tau`; for an impedance command, the rows tau, q, v, kp, kd, shape (5, a)."""
        if self.q is None or self.v is None or self.kp is None or self.kd is None:
            return self.tau
        return np.stack((self.tau, self.q, self.v, self.kp, self.kd))

    @property
    def proved(self) -> bool:
        """True if the search proved that no other solution is closer to the last torques (`gap` is 0)."""
        return self.gap == 0.0


class Controller(Protocol):
    """Any object with these methods; no base class is needed."""

    def __call__(self, state: State, reference: Reference) -> Command:
        """Return the command for the period that begins at `state.t`, with finite torques; never raises."""
        ...

    def reset(self) -> None:
        """Forget all earlier steps."""
        ...


class Plant(Protocol):
    """Replaces the hardware in simulation."""

    def reset(self, state: State) -> State:
        """Put the machine into `state`; return the first state that a controller gets.

        Raises:
            InputError: `state` cannot be a state of this machine.
        """
        ...

    def step(self, tau: Array, dt: float) -> State:
        """Hold the joint torques `tau`, shape (a,) [N m], for `dt` [s]; return the state at the end."""
        ...

    def contact_forces(self) -> ContactForces:
        """Return the contact forces, averaged over the last step."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event in the record.

    Attributes:
        t: Time [s].
        what: Kind of event.
        detail: Further facts about the event.
    """

    t: float
    what: str
    detail: Mapping[str, Any] = field(default_factory=dict)
