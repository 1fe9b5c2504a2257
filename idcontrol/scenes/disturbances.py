"""Disturbances: differences between the plant, schedule, sensors or robot and the controller's assumptions.

Each disturbance wraps the plant, the planner or the sensors, changes the plant's robot or contacts, or gives planner
and controller another ground. Controllers have no switches for disturbances.
"""

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
    """Differences of the plant and of the schedule from the controller's assumptions.

    Attributes:
        delay_s: Delay of the torques; a whole number of control periods.
        normal_error_rad: True contact normals are tilted by this angle, in a random direction at each foot; the
            controller uses the normals of the smooth ground.
        touchdown_late_s: Delay of touchdowns against the controller's schedule; negative if they are early.
        unseen_ground: True if planner and controller assume the plane z = 0 instead of the actual ground.
        payload_share: Unmodelled mass on the base, as a share of the robot's mass.
    """

    delay_s: NotNegative = 0.0
    normal_error_rad: Annotated[float, msgspec.Meta(ge=0, lt=math.pi / 2)] = 0.0
    touchdown_late_s: float = 0.0
    unseen_ground: bool = False
    payload_share: NotNegative = 0.0


class Patch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A strip of the ground, across the x axis, with different friction.

    Attributes:
        mu: Friction coefficient of the strip; null uses the friction of the ground.
        x_m: Start and end of the strip along x.
    """

    mu: NotNegative | None = None
    x_m: tuple[float, float] = (0.3, 0.8)


class SensorNoise(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Standard deviations of white noise on the state that planner and controller see.

    Attributes:
        position_m: Noise on the base's position.
        angle_rad: Noise on the orientation of the base and on the joints.
    """

    position_m: NotNegative = 0.0
    angle_rad: NotNegative = 0.0


class Kick(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A push shorter than a tick: a velocity added to the whole robot.

    Attributes:
        at_s: Time of the push; null for none.
        velocity_m_s: Added velocity, world frame.
    """

    at_s: NotNegative | None = None
    velocity_m_s: tuple[float, float, float] = (0.0, 0.25, 0.0)


@dataclass(slots=True)
class DisturbedPlant:
    """A `SimulatedPlant` that wraps another plant.

    This base class changes nothing; each disturbance overrides some methods.
    """

    plant: SimulatedPlant

    @property
    def last(self) -> StepSolution | None:
        """Outcome of the last substep's solver; None if unknown."""
        return self.plant.last

    def reset(self, state: State) -> State:
        """Start from `state`."""
        return self.plant.reset(state)

    def push(self, velocity: Array) -> None:
        """Add `velocity`, world frame, shape (3,) [m/s], to the velocity of the whole robot."""
        self.plant.push(velocity)

    def step(self, tau: Array, dt: float) -> State:
        """Hold the torques `tau`, shape (a,), for `dt` [s]; return the state at the end."""
        return self.plant.step(tau, dt)

    def contact_forces(self) -> ContactForces:
        """Return contact forces of the last step."""
        return self.plant.contact_forces()


def drive_of(plant: SimulatedPlant) -> Driven | None:
    """Return the drives behind the disturbances of `plant`; None if it has no drives."""
    while isinstance(plant, DisturbedPlant):
        plant = plant.plant
    return plant if isinstance(plant, Driven) else None


@dataclass(slots=True)
class Delayed(DisturbedPlant):
    """A plant whose motors apply delayed torques.

    Attributes:
        periods: Delay in control periods.
    """

    periods: int
    _waiting: deque[Array] = field(default_factory=deque)

    def reset(self, state: State) -> State:
        """Start from `state`; forget all commands that are not due yet."""
        self._waiting.clear()
        return self.plant.reset(state)

    def step(self, tau: Array, dt: float) -> State:
        """Apply for `dt` [s] the torques commanded `periods` calls earlier; before that, the first torques."""
        self._waiting.append(tau.copy())
        # Until a command is due, the first command is applied, so that the robot does not fall at the start.
        due = self._waiting.popleft() if len(self._waiting) > self.periods else self._waiting[0]
        return self.plant.step(due, dt)


def delay_periods(what: str, delay_s: float, h: float) -> int:
    """Return `delay_s`, the value of the setting `what`, as a number of control periods of `h` [s].

    Raises:
        InputError: The time is not a whole number of control periods.
    """
    periods = round(delay_s / h)
    if abs(periods * h - delay_s) > 1e-9:
        raise InputError(f"{what} is {delay_s}; it must be a whole number of control periods of {h} s")
    return periods


@dataclass(slots=True)
class DrawnFriction(DisturbedPlant):
    """A plant that draws a new friction coefficient for each touchdown of a foot, or of a corner of a sole.

    Attributes:
        contacts: The plant's own contacts, whose `mu` is written.
        between: Bounds of the uniform distribution.
        rng: Random generator.
    """

    contacts: SphereContacts
    between: tuple[float, float]
    rng: np.random.Generator
    _touching: Booleans = field(init=False)

    def __post_init__(self) -> None:
        self._touching = np.zeros(self.contacts.mu.size, dtype=np.bool_)

    def reset(self, state: State) -> State:
        """Start from `state`, with friction drawn for every contact."""
        self._touching[:] = False
        self.contacts.mu[:] = self.rng.uniform(*self.between, self.contacts.mu.size)
        return self.plant.reset(state)

    def step(self, tau: Array, dt: float) -> State:
        """Step the plant; draw the friction for contacts that have opened."""
        after = self.plant.step(tau, dt)
        touching = np.zeros_like(self._touching)
        touching[self.plant.contact_forces().identity] = True
        # drawn at liftoff, so that it is known at the next touchdown
        lifted = self._touching & ~touching
        self.contacts.mu[lifted] = self.rng.uniform(*self.between, int(lifted.sum()))
        self._touching = touching
        return after


@dataclass(slots=True)
class Patched(DisturbedPlant):
    """A plant whose ground has a strip with different friction.

    Attributes:
        contacts: The plant's own contacts, whose `mu` is written.
        strip: Beginning and end of the strip along the x axis [m].
        mu: Friction of the strip.
        around: Friction of the ground around the strip.
    """

    contacts: SphereContacts
    strip: tuple[float, float]
    mu: float
    around: float

    def step(self, tau: Array, dt: float) -> State:
        """Step the plant; each foot has the friction of the ground where its contact was last detected."""
        x, (begin, end) = self.contacts.centre[:, 0], self.strip
        self.contacts.mu = np.where((x >= begin) & (x < end), self.mu, self.around)
        return self.plant.step(tau, dt)


@dataclass(slots=True)
class Kicked(DisturbedPlant):
    """A plant that is pushed once, in one step or in several consecutive steps.

    Attributes:
        countdown: Number of steps between a reset and the push.
        velocity: Velocity that the push adds in each step, world frame, shape (3,) [m/s].
        steps: Number of steps that the push lasts.
    """

    countdown: int
    velocity: Array
    steps: int = 1
    _step: int = 0

    def reset(self, state: State) -> State:
        """Start from `state`, with the push still to come."""
        self._step = 0
        return self.plant.reset(state)

    def step(self, tau: Array, dt: float) -> State:
        """Step the plant; if the push is due, push first."""
        if self.countdown <= self._step < self.countdown + self.steps:
            self.plant.push(self.velocity)
        self._step += 1
        return self.plant.step(tau, dt)


class LeaningSpheres(SphereContacts):
    """Foot spheres whose contact normals are tilted against the normals of the smooth ground; gaps are unchanged.

    Attributes:
        lean: Rotation from the smooth ground's axes to the true axes at each sphere, world frame, shape (k, 3, 3).
    """

    def __init__(self, lean: Array, *arguments: Any, **more: Any) -> None:
        """Store `lean`; the other arguments are as in `SphereContacts`."""
        super().__init__(*arguments, **more)
        self.lean = lean

    def detect(self, margin: float) -> Contacts:
        """Return the contacts of the smooth ground whose gap is below `margin` [m], in rotated axes."""
        contacts = super().detect(margin)
        n, m = len(contacts), contacts.jacobian.shape[1]
        axes = contacts.axes @ self.lean[contacts.identity].transpose(0, 2, 1)
        turn = axes @ contacts.axes.transpose(0, 2, 1)
        # surface velocities stay as they are: still ground has none
        rows = np.column_stack([contacts.jacobian, contacts.drift]).reshape(3, n, m + 1)
        rows = np.einsum("nij,jnm->inm", turn, rows).reshape(3 * n, m + 1)
        return replace(contacts, axes=axes, jacobian=rows[:, :m], drift=rows[:, m])


def leaning(angle: float, feet: int, rng: np.random.Generator) -> Array:
    """Return rotations by `angle` [rad], each about a random horizontal axis, shape (feet, 3, 3)."""
    heading = rng.uniform(0.0, 2.0 * np.pi, feet)
    axes = np.column_stack([np.cos(heading), np.sin(heading), np.zeros(feet)])
    return np.array([pin.exp3(angle * axis) for axis in axes])


@dataclass(slots=True)
class WrongSchedule:
    """A planner that gives the controller wrong touchdown times; its motion is unchanged.

    Attributes:
        planner: The planner.
        late_s: Delay of the planned touchdowns against the schedule that the controller gets; negative if they are
            early [s].
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
        """Return the plan for `state.t` with shifted touchdowns."""
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
    """Return a sensor that adds white noise to the configuration of a free-flyer `model`; velocities are exact."""
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
    return _of_model(system, model)


def scaled(system: System, factor: float) -> System:
    """Copy a robot with masses and inertias of all links multiplied by `factor`."""
    model = system.model.copy()
    for joint, inertia in enumerate(model.inertias.tolist()):
        model.inertias[joint] = pin.Inertia(factor * inertia.mass, inertia.lever, factor * inertia.inertia)
    return _of_model(system, model)


def _of_model(system: System, model: pin.Model) -> System:
    return System(
        model,
        actuated=list(system.actuated_names),
        effort_limit=system.effort_limit,
        limits=system.limits,
        actuators=system.actuators,
    )
