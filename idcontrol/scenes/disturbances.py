"""Disturbances: the plant, the schedule, the sensors or the robot differ from what the controller knows of them.

Each disturbance wraps the plant, the planner or the sensors, or changes the plant's robot. No controller has a switch
for any of them.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import msgspec
import numpy as np
import pinocchio as pin
from msgspec import structs

from idcontrol.config.configuration import NotNegative
from idcontrol.contact.contacts import Contacts
from idcontrol.contact.spheres import SphereContacts
from idcontrol.dynamics.system import System
from idcontrol.errors import InputError
from idcontrol.models.step import StepSolution
from idcontrol.plants import SimulatedPlant
from idcontrol.plants.drive import Driven
from idcontrol.types import Array, Booleans, ContactForces, Reference, State


class Disturbance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How plant and schedule differ from what the controller assumes.

    Attributes:
        delay_s: Torques reach the joints that much later; a whole number of control periods.
        normal_error_rad: True contact normals lean by this angle, in a direction of its own at each foot, while the
            controller has those of the smooth ground.
        touchdown_late_s: Feet meet the ground that much later than the controller expects; negative: earlier.
        unseen_ground: Whether planner and controller take the ground for the plane z = 0, whatever it is.
        payload_share: Mass on the base that the controller does not know of, as a share of the robot's mass.
    """

    delay_s: NotNegative = 0.0
    normal_error_rad: Annotated[float, msgspec.Meta(ge=0, lt=math.pi / 2)] = 0.0
    touchdown_late_s: float = 0.0
    unseen_ground: bool = False
    payload_share: NotNegative = 0.0


class Patch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A strip of the ground, across the x axis, with another friction.

    Attributes:
        mu: Its friction; null is that of the ground.
        x_m: Where it begins and ends.
    """

    mu: NotNegative | None = None
    x_m: tuple[float, float] = (0.3, 0.8)


class SensorNoise(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """White noise on the state that planner and controller see: standard deviations, drawn afresh in each tick.

    Attributes:
        position_m: Noise on the base's position.
        angle_rad: Noise on the base's orientation and on the joints.
    """

    position_m: NotNegative = 0.0
    angle_rad: NotNegative = 0.0


class Kick(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A push shorter than a tick: this velocity is added to that of the whole robot.

    Attributes:
        at_s: Time of the push; null never.
        velocity_m_s: Added velocity, world frame.
    """

    at_s: NotNegative | None = None
    velocity_m_s: tuple[float, float, float] = (0.0, 0.25, 0.0)


@dataclass(slots=True)
class DisturbedPlant:
    """A `SimulatedPlant` around another. This one changes nothing; each disturbance overrides what it changes."""

    plant: SimulatedPlant

    @property
    def last(self) -> StepSolution | None:
        """How the last substep was solved; None where nothing is known of it."""
        return self.plant.last

    def reset(self, state: State) -> State:
        """Start from `state`."""
        return self.plant.reset(state)

    def push(self, velocity: Array) -> None:
        """Add `velocity`, world frame, shape (3,) [m/s], to that of the robot."""
        self.plant.push(velocity)

    def step(self, tau: Array, dt: float) -> State:
        """Hold the torques `tau`, shape (a,), for `dt` [s]; return the state after them."""
        return self.plant.step(tau, dt)

    def contact_forces(self) -> ContactForces:
        """Contact forces of the last step."""
        return self.plant.contact_forces()


def drive_of(plant: SimulatedPlant) -> Driven | None:
    """The drives behind the disturbances of `plant`; None where it takes torques."""
    while isinstance(plant, DisturbedPlant):
        plant = plant.plant
    return plant if isinstance(plant, Driven) else None


@dataclass(slots=True)
class Delayed(DisturbedPlant):
    """A plant whose motors apply the torques that were commanded some control periods ago.

    Attributes:
        periods: Length of the delay.
    """

    periods: int
    _waiting: deque[Array] = field(default_factory=deque)

    def reset(self, state: State) -> State:
        """Start from `state` with no command waiting."""
        self._waiting.clear()
        return self.plant.reset(state)

    def step(self, tau: Array, dt: float) -> State:
        """Hold the torques that are due for `dt` [s]."""
        self._waiting.append(tau.copy())
        # Until a command is due, the first one is held: the robot is not dropped at the start.
        due = self._waiting.popleft() if len(self._waiting) > self.periods else self._waiting[0]
        return self.plant.step(due, dt)


def delay_periods(what: str, delay_s: float, h: float) -> int:
    """Number of control periods of `h` [s] in a delay, the setting `what`.

    Raises:
        InputError: It is no whole number.
    """
    periods = round(delay_s / h)
    if abs(periods * h - delay_s) > 1e-9:
        raise InputError(f"{what} is {delay_s}; it must be a whole number of control periods of {h} s")
    return periods


@dataclass(slots=True)
class DrawnFriction(DisturbedPlant):
    """A plant whose friction is drawn afresh for a foot each time that it touches down.

    Attributes:
        contacts: The plant's own contacts, whose `mu` is written.
        between: Bounds of the uniform distribution.
        rng: Source of the draws.
    """

    contacts: SphereContacts
    between: tuple[float, float]
    rng: np.random.Generator
    _touching: Booleans = field(init=False)

    def __post_init__(self) -> None:
        self._touching = np.zeros(self.contacts.mu.size, dtype=np.bool_)

    def reset(self, state: State) -> State:
        """Start from `state`, every foot on a friction of its own."""
        self._touching[:] = False
        self.contacts.mu[:] = self.rng.uniform(*self.between, self.contacts.mu.size)
        return self.plant.reset(state)

    def step(self, tau: Array, dt: float) -> State:
        """Step the plant; feet that have left the ground get the friction of where they will land."""
        after = self.plant.step(tau, dt)
        touching = np.zeros_like(self._touching)
        touching[self.plant.contact_forces().identity] = True
        # drawn when the foot leaves the ground: whatever it meets next is there when it meets it
        left = self._touching & ~touching
        self.contacts.mu[left] = self.rng.uniform(*self.between, int(left.sum()))
        self._touching = touching
        return after


@dataclass(slots=True)
class Patched(DisturbedPlant):
    """A plant whose ground has a strip with another friction.

    Attributes:
        contacts: The plant's own contacts, whose `mu` is written.
        strip: Where the strip begins and ends along the x axis [m].
        mu: Friction of the strip.
        around: Friction of the ground around it.
    """

    contacts: SphereContacts
    strip: tuple[float, float]
    mu: float
    around: float

    def step(self, tau: Array, dt: float) -> State:
        """Step the plant; each foot has the friction of where it was after the step before."""
        x, (begin, end) = self.contacts.centre[:, 0], self.strip
        self.contacts.mu = np.where((x >= begin) & (x < end), self.mu, self.around)
        return self.plant.step(tau, dt)


@dataclass(slots=True)
class Kicked(DisturbedPlant):
    """A plant that is pushed once.

    Attributes:
        countdown: Number of steps before the push.
        velocity: Velocity that the push adds, world frame, shape (3,) [m/s].
    """

    countdown: int
    velocity: Array

    def step(self, tau: Array, dt: float) -> State:
        """Step the plant, pushed first where the push is due."""
        if self.countdown == 0:
            self.plant.push(self.velocity)
        self.countdown -= 1
        return self.plant.step(tau, dt)


class LeaningSpheres(SphereContacts):
    """Foot spheres whose contact normals lean away from those of the smooth ground; gaps stay as they are.

    Attributes:
        lean: Rotation from the smooth ground's axes to the true ones at each sphere, world frame, shape (k, 3, 3).
    """

    def __init__(self, lean: Array, *arguments: Any, **more: Any) -> None:
        """Take `lean`, and then the arguments of `SphereContacts`."""
        super().__init__(*arguments, **more)
        self.lean = lean

    def detect(self, margin: float) -> Contacts:
        """The contacts of the smooth ground whose gap is below `margin` [m], their axes and rows turned."""
        contacts = super().detect(margin)
        n, m = len(contacts), contacts.jacobian.shape[1]
        axes = contacts.axes @ self.lean[contacts.identity].transpose(0, 2, 1)
        turn = axes @ contacts.axes.transpose(0, 2, 1)
        rows = contacts.jacobian.reshape(3, n, m)
        return replace(contacts, axes=axes, jacobian=np.einsum("nij,jnm->inm", turn, rows).reshape(3 * n, m))


def leaning(angle: float, feet: int, rng: np.random.Generator) -> Array:
    """Rotations by `angle` [rad], each about a horizontal axis of its own, shape (feet, 3, 3)."""
    heading = rng.uniform(0.0, 2.0 * np.pi, feet)
    axes = np.column_stack([np.cos(heading), np.sin(heading), np.zeros(feet)])
    return np.array([pin.exp3(angle * axis) for axis in axes])


@dataclass(slots=True)
class WrongSchedule:
    """A planner that gives the controller wrong touchdowns; the motion that it asks for is right.

    Attributes:
        planner: The planner.
        late_s: How much later than planned a foot meets the ground; negative: earlier [s].
        swing_s: Duration of a planned swing [s].
        stance_s: Duration of a planned stance [s].
    """

    planner: Callable[[State], Reference]
    late_s: float
    swing_s: float
    stance_s: float
    _lifted: Array = field(default_factory=lambda: np.zeros(0))
    _stood: Booleans = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))

    def __call__(self, state: State) -> Reference:
        """The plan for `state.t`, its touchdowns moved."""
        reference = self.planner(state)
        if self._lifted.size == 0:
            self._lifted, self._stood = np.full(reference.stance.size, np.inf), reference.stance.copy()
        self._lifted[self._stood & ~reference.stance] = state.t
        self._stood = reference.stance.copy()
        stance, since, until = reference.stance.copy(), reference.since_touchdown.copy(), reference.to_liftoff.copy()
        since[stance] += self.late_s
        if self.late_s < 0.0:
            unknown = stance & (since < 0.0)
            stance[unknown], since[unknown], until[unknown] = False, np.inf, np.inf
        else:
            to_touchdown = self._lifted + self.swing_s - state.t
            expected = ~stance & (to_touchdown < self.late_s)
            since[expected] = self.late_s - to_touchdown[expected]
            until[expected] = to_touchdown[expected] + self.stance_s
            stance |= expected
        return structs.replace(reference, stance=stance, since_touchdown=since, to_liftoff=until).sealed()


def noisy(model: pin.Model, noise: SensorNoise, rng: np.random.Generator) -> Callable[[State], State]:
    """A sensor that adds white noise to the configuration of a free-flyer `model`; velocities are seen as they are."""
    spread = np.full(model.nv, noise.angle_rad)
    spread[:3] = noise.position_m

    def sense(state: State) -> State:
        q = pin.integrate(model, state.q, spread * rng.standard_normal(model.nv))
        return State(t=state.t, q=q, v=state.v, forces=state.forces)

    return sense


def loaded(system: System, share: float) -> System:
    """Copy a robot, and add a point mass of `share` of the robot's mass at the base's centre of mass.

    Raises:
        InputError: The robot has no floating base.
    """
    model = system.model.copy()
    if model.njoints < 2 or model.joints[1].nq != 7:
        raise InputError("disturbance.payload_share needs a floating base to put the mass on")
    base = model.inertias[1]
    base += pin.Inertia(share * system.mass, base.lever, np.zeros((3, 3)))
    model.inertias[1] = base
    return System(
        model,
        actuated=list(system.actuated_names),
        effort_limit=system.effort_limit,
        limits=system.limits,
        actuators=system.actuators,
    )
