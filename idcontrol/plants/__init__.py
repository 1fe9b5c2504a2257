"""Plants: simulators in place of the hardware, by the names that the command line uses.

`make` returns a plant for a robot on flat ground; `build` takes a complete `Setup`. To add a contact model as a plant,
register the factory `stepping(model)`. To add an external engine, register a function that takes a `Setup` and returns
an object with the methods of `SimulatedPlant`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Final, Literal, Never, Protocol

import msgspec
import numpy as np

from idcontrol.config import places
from idcontrol.config.configuration import NotNegative, Positive, period
from idcontrol.config.entries import PLANTS
from idcontrol.config.registry import CIRCLE, PYRAMID, Registry
from idcontrol.contact.contacts import Detector
from idcontrol.contact.fingertips import Fingertips
from idcontrol.contact.spheres import FootedRobot, SphereContacts, on_flat_ground
from idcontrol.dynamics.system import System
from idcontrol.errors import InputError, UnknownName
from idcontrol.models import constraint, coulomb, coulomb_cone, dissipation, no_slip, sap, viscous
from idcontrol.models.constraint import printed
from idcontrol.models.restitution import rebounding
from idcontrol.models.step import ContactModel, StepProblem, StepSolution, WarmStart
from idcontrol.plants.parts import require_not_negative, require_positive
from idcontrol.plants.penalty import Penalty
from idcontrol.plants.step import PlantStep, cone_step, coulomb_step, dissipation_step
from idcontrol.plants.stepping import Stepping
from idcontrol.types import Array, ContactLaw, Plant

__all__ = [
    "GroundSettings",
    "Setup",
    "SimulatedPlant",
    "Stepping",
    "available",
    "build",
    "make",
    "register",
    "stepping",
]


def __dir__() -> list[str]:
    return __all__


class SimulatedPlant(Plant, Protocol):
    """A plant for experiments: the loop's `Plant` with further methods."""

    @property
    def last(self) -> StepSolution | None:
        """Outcome of the last substep's solver; None if unknown."""
        ...

    def push(self, velocity: Array) -> None:
        """Add `velocity`, world frame, shape (3,) [m/s], to the velocity of the floating base and all its links.

        Raises:
            InputError: `velocity` is not three finite numbers.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundSettings:
    """Settings of the ground; each plant reads the settings that concern it.

    Attributes:
        drag_n_s_m: Viscous friction of each contact, for `viscous` and for `penalty` with viscous friction.
        restitution: Share of the impulses that an impact returns, 0 (plastic) to 1 (`idcontrol.models.restitution`).
            `pybullet` returns this share of the approach speed instead. `penalty` and `mujoco` ignore it: their springs
            rebound. `constraint` and `sap` reject it together with a stiffness.
        stiffness_n_m: Stiffness of the ground under each contact, for `penalty`, `constraint` and `sap`. With null, the
            robot sinks by `idcontrol.plants.penalty.SINK_M` at rest in `penalty`, and the ground is nearly rigid in
            `constraint` (`idcontrol.models.constraint.STIFFNESS`) and `sap` (`idcontrol.models.sap.regularization`).
        damping_n_s_m: Damping of the ground under each contact, for `penalty`, `constraint` and `sap`. With null,
            `penalty` uses `idcontrol.plants.penalty.DAMPING_RATIO`, `constraint` uses
            `idcontrol.models.constraint.DAMPING`, and `sap` with a stiffness has no damping. Without a stiffness `sap`
            ignores this value, and its contacts are critically damped.
        penalty_friction: Friction of `penalty`: Coulomb friction, or viscous drag (docs/theory/penalty.md).
        constraint_form: The problem of `constraint`: the symmetric LCP, or the cone program as printed in Drumwright
            2019 (slow, needs the extra ``cvx``; a body that should slide lifts off).
    """

    drag_n_s_m: NotNegative = 1000.0
    restitution: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    stiffness_n_m: Positive | None = None
    damping_n_s_m: NotNegative | None = None
    penalty_friction: Literal["coulomb", "viscous"] = "coulomb"
    constraint_form: Literal["symmetric", "as-printed"] = "symmetric"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The parts of a plant.

    Attributes:
        system: The plant's own multibody terms.
        contacts: Detector of contacts on `system`, with the true friction.
        dt: Longest step [s].
        settings: Settings of the ground.
        robot: The robot, needed by plants whose constructor takes (robot, mu, rate); None for a machine without a robot
            file.
    """

    system: System
    contacts: Detector
    dt: float
    settings: GroundSettings = field(default_factory=GroundSettings)
    robot: FootedRobot | None = None

    @property
    def mu(self) -> float | None:
        """The true friction coefficient, the smallest of all contacts; None without contacts."""
        return places.smallest_mu(self.contacts)

    @property
    def rate_hz(self) -> float:
        """Smallest stepping rate of the plant [Hz]."""
        return 1.0 / self.dt


KIND = places.Kind(
    name="plant",
    group=PLANTS,
    calls=("reset", "step", "contact_forces", "push"),
    holds=("last",),
    protocol="idcontrol.plants.SimulatedPlant",
)
"""Methods and attributes that a user's plant must have."""

Factory = Callable[[Setup], SimulatedPlant]
REGISTRY: Final[Registry[Setup, SimulatedPlant]] = Registry(KIND)
register, available = REGISTRY.register, REGISTRY.available
factory, contact_law = REGISTRY.factory, REGISTRY.contact_law


def make(
    name: str, robot: FootedRobot, *, mu: float = math.nan, rate_hz: float = 1000.0, **unknown: Never
) -> SimulatedPlant:
    """Return the plant called `name` for a robot on flat ground, to be `reset` and stepped.

    Args:
        name: As for `factory`.
        robot: As returned by `idcontrol.robots.load`.
        mu: Friction coefficient of the ground; inf means no slip. It is required.
        rate_hz: Smallest stepping rate of the plant [Hz].
        **unknown: Must be empty; another argument raises an error that suggests the nearest name.

    Raises:
        UnknownName: The plant or the argument does not exist.
        InputError: The robot, `mu` or `rate_hz` is unusable, or the plant needs a package that is not installed.
    """
    for argument in unknown:  # `mu` has a default so that a misspelt name is reported before a missing one
        raise UnknownName("argument", argument, ("mu", "rate_hz"))
    contacts = on_flat_ground(robot, mu)
    return build(name, Setup(system=contacts.system, contacts=contacts, dt=period(rate_hz), robot=robot))


def build(name: str, setup: Setup) -> SimulatedPlant:
    """Build the plant called `name` from all its parts.

    Raises:
        UnknownName: The plant does not exist.
        InputError: `name` is a place (``module:Class`` or ``file.py:Class``) without such a class, the class is not a
            plant, or the plant cannot be built from `setup`.
    """
    return factory(name)(setup)


def stepping(model: ContactModel, step: PlantStep | None = None, impact: ContactModel | None = None) -> Factory:
    """Return a factory for time stepping with `model`.

    Args:
        model: The contact model.
        step: The compiled step with this model; None if there is none. Plants with restitution do not use it.
        impact: The model of impacts with restitution, as in `rebounding`.
    """

    def factory_(s: Setup) -> SimulatedPlant:
        if s.settings.restitution == 0.0:
            return Stepping(s.system, s.contacts, model, s.dt, step)
        return Stepping(s.system, s.contacts, rebounding(model, s.settings.restitution, impact), s.dt)

    return factory_


def _viscous(setup: Setup) -> SimulatedPlant:
    drag = require_not_negative("drag", setup.settings.drag_n_s_m)

    def solve(problem: StepProblem, warm: WarmStart | None) -> StepSolution:
        contacts = problem.contacts
        return viscous.solve(replace(problem, contacts=replace(contacts, damping=np.full(len(contacts), drag))), warm)

    return stepping(solve)(setup)


def _spheres(setup: Setup, plant: str) -> SphereContacts | Fingertips:
    """Return the contact spheres, for plants that build the touched shapes themselves.

    Raises:
        InputError: The contacts are not spheres.
    """
    if not isinstance(setup.contacts, SphereContacts | Fingertips):
        raise InputError(f"plant {plant!r} supports only feet and fingertips; for other contacts take coulomb-lcp")
    return setup.contacts


def _penalty(setup: Setup) -> SimulatedPlant:
    settings = setup.settings
    return Penalty(
        setup.system,
        _spheres(setup, "penalty"),
        setup.dt,
        stiffness=settings.stiffness_n_m,
        damping=settings.damping_n_s_m,
        drag=settings.drag_n_s_m if settings.penalty_friction == "viscous" else None,
    )


def _refuse_rebound_on_springs(plant: str, ground: GroundSettings) -> None:
    if ground.stiffness_n_m is not None and ground.restitution != 0.0:
        raise InputError(
            f"plant {plant!r}: ground.restitution is only for rigid ground, but ground.stiffness_n_m is set; "
            "remove one of them: springs rebound anyway, less with more ground.damping_n_s_m"
        )


def _sap(setup: Setup) -> SimulatedPlant:
    ground = setup.settings
    _refuse_rebound_on_springs("sap", ground)
    if ground.stiffness_n_m is None:
        return stepping(sap.solve, impact=partial(sap.solve, parameters=sap.IMPACT))(setup)
    stiffness = require_positive("stiffness", ground.stiffness_n_m)
    damping = require_not_negative("damping", ground.damping_n_s_m or 0.0)
    return stepping(constraint.compliant(constraint.springs(stiffness, damping), sap.solve))(setup)


def _constraint(setup: Setup) -> SimulatedPlant:
    ground = setup.settings
    _refuse_rebound_on_springs("constraint", ground)
    law = constraint.springs(
        constraint.STIFFNESS if ground.stiffness_n_m is None else ground.stiffness_n_m,
        constraint.DAMPING if ground.damping_n_s_m is None else ground.damping_n_s_m,
    )
    model = constraint.compliant(law, constraint.solve if ground.constraint_form == "symmetric" else printed.solve)
    if ground.stiffness_n_m is None:
        model = constraint.recovering_slowly(model)
    return stepping(model, impact=constraint.solve)(setup)


def _mujoco(setup: Setup) -> SimulatedPlant:
    from idcontrol.plants.mujoco import MuJoCo  # an optional package that is slow to import

    return MuJoCo(setup.system, _spheres(setup, "mujoco"), setup.dt)


def _pybullet(setup: Setup) -> SimulatedPlant:
    from idcontrol.plants.pybullet import PyBullet

    return PyBullet(setup.system, _spheres(setup, "pybullet"), setup.dt, restitution=setup.settings.restitution)


register(
    "coulomb-lcp",
    "rigid contact with Coulomb friction, stepped in time (the simulator of Zapolsky & Drumwright 2017)",
    stepping(coulomb.solve, coulomb_step),
    PYRAMID,
)
register(
    "coulomb-cone",
    "rigid contact with Coulomb friction in circular cones, stepped in time",
    stepping(coulomb_cone.solve, cone_step),
    CIRCLE,
)
register(
    "dissipation",
    "rigid contact, convex: maximal dissipation (the QP of Zapolsky & Drumwright 2017)",
    stepping(dissipation.solve, dissipation_step),
    PYRAMID,
)
register("sap", "compliant contact with a circular friction cone, convex (SAP, Castro et al. 2022)", _sap, CIRCLE)
register("noslip", "rigid contact that never slips, whatever the friction (Drumwright 2015)", stepping(no_slip.solve))
register("viscous", "rigid contact with drag in proportion to slip (Drumwright 2015)", _viscous)
register("penalty", "compliant ground: springs and dampers that let a standing robot sink 1 mm", _penalty, CIRCLE)
register(
    "constraint",
    "stiff springs and dampers, integrated implicitly, with Coulomb friction (Drumwright 2019)",
    _constraint,
    PYRAMID,
)
register(
    "mujoco",
    "MuJoCo, an external simulator with near-rigid contacts (extra: mujoco)",
    _mujoco,
    ContactLaw(cone="circle", detects=False),
)
register(
    "pybullet",
    "Bullet, an external simulator with rigid contacts (extra: bullet)",
    _pybullet,
    ContactLaw(cone="circle", detects=False),
)
