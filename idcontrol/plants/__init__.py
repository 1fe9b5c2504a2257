"""Plants: what stands in for the hardware, by the names of the command line.

`make` gives one for a robot on flat ground; `build` takes a `Setup`, which says everything. To add a contact model as a
plant, register `stepping` over it; an outside engine is any object with the calls of `SimulatedPlant`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal, Never, Protocol

import numpy as np

from idcontrol.config import places
from idcontrol.config.configuration import period
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
    """A plant as experiments need it: the loop's `Plant`, and these calls."""

    @property
    def last(self) -> StepSolution | None:
        """How the last substep was solved; None where nothing is known of it."""
        ...

    def push(self, velocity: Array) -> None:
        """Add `velocity`, world frame, shape (3,) [m/s], to that of the floating base and all that hangs on it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundSettings:
    """Settings of the ground; each plant reads those that concern it.

    Attributes:
        drag_n_s_m: Viscous friction of each contact, for `viscous` and for `penalty` with viscous friction.
        restitution: Share of the impulses that an impact gives back, 0 (plastic) to 1 (`idcontrol.models.restitution`),
            for all plants but `penalty` and `mujoco`, whose springs do so; that of a pair for `pybullet`. `constraint`
            and `sap` refuse it together with a stiffness.
        stiffness_n_m: Stiffness of the ground under each contact, for `penalty`, `constraint` and `sap`. With null,
            `penalty` lets a robot at rest sink by `idcontrol.plants.penalty.SINK_M`, and the others are nearly rigid
            (`idcontrol.models.constraint.STIFFNESS`, `idcontrol.models.sap.regularization`).
        damping_n_s_m: Damping of the ground under each contact, for the same plants. With null, `penalty` takes
            `idcontrol.plants.penalty.DAMPING_RATIO`, and the others have next to none; `sap` has none without a
            stiffness.
        penalty_friction: Friction of `penalty`: Coulomb's, or drag in its place, as the original simulator had it.
        constraint_form: The problem that `constraint` solves: the symmetric one, or the cone program as Drumwright 2019
            prints it (slow, needs the extra ``cvx``; a body that should slide takes off).
    """

    drag_n_s_m: float = 1000.0
    restitution: float = 0.0
    stiffness_n_m: float | None = None
    damping_n_s_m: float | None = None
    penalty_friction: Literal["coulomb", "viscous"] = "coulomb"
    constraint_form: Literal["symmetric", "as-printed"] = "symmetric"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The parts that a plant is built from.

    Attributes:
        system: Multibody terms of its own.
        contacts: Detector of contacts on `system`, with the true friction.
        dt: Longest step [s].
        settings: Settings of the ground.
        robot: The robot, for a plant that is made from (robot, mu, rate); None if it has no file.
        mu: The true friction coefficient; None if it is not one number.
    """

    system: System
    contacts: Detector
    dt: float
    settings: GroundSettings = field(default_factory=GroundSettings)
    robot: FootedRobot | None = None
    mu: float | None = None

    @property
    def rate_hz(self) -> float:
        """Rate at which the plant steps at least [Hz]."""
        return 1.0 / self.dt


KIND = places.Kind(
    name="plant",
    group=PLANTS,
    calls=("reset", "step", "contact_forces", "push"),
    holds=("last",),
    protocol="idcontrol.plants.SimulatedPlant",
)
"""A plant of a user's own must have these methods and attributes to stand in place of ours."""

Factory = Callable[[Setup], SimulatedPlant]
REGISTRY: Final[Registry[Setup, SimulatedPlant]] = Registry(KIND)
register, available = REGISTRY.register, REGISTRY.available
factory, contact_law = REGISTRY.factory, REGISTRY.contact_law


def make(
    name: str, robot: FootedRobot, *, mu: float = math.nan, rate_hz: float = 1000.0, **unknown: Never
) -> SimulatedPlant:
    """The plant called `name` for a robot on flat ground, to be `reset` and stepped.

    Args:
        name: As `factory` takes it.
        robot: As `idcontrol.robots.load` gives it.
        mu: Friction coefficient of the ground; inf means no slip. It must be given.
        rate_hz: The plant steps at least this often [Hz].
        **unknown: None; another argument is refused with the name of the nearest.

    Raises:
        UnknownName: No plant has that name, or there is no such argument.
        InputError: The robot cannot be used, `mu` or `rate_hz` is no such number, or the plant needs a package that is
            not installed.
    """
    for argument in unknown:  # `mu` has a default so that a misspelt name is named before a missing one
        raise UnknownName("argument", argument, ("mu", "rate_hz"))
    contacts = on_flat_ground(robot, mu)
    return build(name, Setup(system=contacts.system, contacts=contacts, dt=period(rate_hz), robot=robot, mu=mu))


def build(name: str, setup: Setup) -> SimulatedPlant:
    """Build the plant called `name` from all its parts.

    Raises:
        UnknownName: No plant has that name.
        InputError: There is no plant at that place, or it cannot be made.
    """
    return factory(name)(setup)


def stepping(model: ContactModel, step: PlantStep | None = None, impact: ContactModel | None = None) -> Factory:
    """A factory for time stepping with `model`.

    Args:
        model: The contact model.
        step: The compiled step with it, if there is one.
        impact: The model of impacts that rebound, as `rebounding` takes it.
    """

    def made(s: Setup) -> SimulatedPlant:
        if s.settings.restitution == 0.0:
            return Stepping(s.system, s.contacts, model, s.dt, step)
        return Stepping(s.system, s.contacts, rebounding(model, s.settings.restitution, impact), s.dt)

    return made


def _viscous(setup: Setup) -> SimulatedPlant:
    drag = require_not_negative("drag", setup.settings.drag_n_s_m)

    def solve(problem: StepProblem, warm: WarmStart | None) -> StepSolution:
        contacts = problem.contacts
        return viscous.solve(replace(problem, contacts=replace(contacts, damping=np.full(len(contacts), drag))), warm)

    return stepping(solve)(setup)


def _spheres(setup: Setup, plant: str) -> SphereContacts | Fingertips:
    """The contact spheres of plants that build what these touch themselves.

    Raises:
        InputError: The contacts are others.
    """
    if not isinstance(setup.contacts, SphereContacts | Fingertips):
        raise InputError(f"plant {plant!r} knows feet and fingertips only; for other contacts take coulomb-lcp")
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
            f"plant {plant!r}: ground.restitution is for rigid ground, and ground.stiffness_n_m is set; "
            "springs rebound by themselves, as much as ground.damping_n_s_m leaves of it"
        )


def _sap(setup: Setup) -> SimulatedPlant:
    given = setup.settings
    _refuse_rebound_on_springs("sap", given)
    if given.stiffness_n_m is None:
        return stepping(sap.solve, impact=partial(sap.solve, parameters=sap.IMPACT))(setup)
    stiffness = require_positive("stiffness", given.stiffness_n_m)
    damping = require_not_negative("damping", given.damping_n_s_m or 0.0)
    return stepping(constraint.compliant(constraint.springs(stiffness, damping), sap.solve))(setup)


def _constraint(setup: Setup) -> SimulatedPlant:
    given = setup.settings
    _refuse_rebound_on_springs("constraint", given)
    law = constraint.springs(
        constraint.STIFFNESS if given.stiffness_n_m is None else given.stiffness_n_m,
        constraint.DAMPING if given.damping_n_s_m is None else given.damping_n_s_m,
    )
    model = constraint.compliant(law, constraint.solve if given.constraint_form == "symmetric" else printed.solve)
    if given.stiffness_n_m is None:
        model = constraint.recovering_slowly(model)
    return stepping(model, impact=constraint.solve)(setup)


def _mujoco(setup: Setup) -> SimulatedPlant:
    from idcontrol.plants.mujoco import MuJoCo  # an extra, and slow to import

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
    "MuJoCo, an outside engine with near-rigid contacts (extra: mujoco)",
    _mujoco,
    ContactLaw(cone="circle", detects=False),
)
register(
    "pybullet",
    "Bullet, an outside engine with rigid contacts (extra: bullet)",
    _pybullet,
    ContactLaw(cone="circle", detects=False),
)
