"""Controllers, by the names of the command line.

`make` returns a controller for a robot, by default on flat ground; `build` takes a complete `Setup`. Any object with
the methods of `idcontrol.types.Controller` is a controller. A user's controller is named by the place of its
definition, such as ``file.py:Class`` (`idcontrol.config.places`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Never, Protocol

from idcontrol.config import places
from idcontrol.config.configuration import period
from idcontrol.config.entries import CONTROLLERS
from idcontrol.config.registry import CIRCLE, PYRAMID, Registry
from idcontrol.contact.contacts import Detector
from idcontrol.contact.spheres import FootedRobot, SphereContacts, on_flat_ground
from idcontrol.controllers.feedback import Gains
from idcontrol.controllers.impedance import Impedance
from idcontrol.controllers.inverse import InverseDynamics
from idcontrol.controllers.pid import Beside, Pid
from idcontrol.controllers.schemes import (
    COULOMB_CONE,
    COULOMB_LCP,
    COULOMB_QP,
    COULOMB_QP_1,
    COULOMB_QP_RAW,
    COULOMB_SMOOTH,
    NO_SLIP_LCP,
    NO_SLIP_QP,
    SAP,
    SPRINGS,
    Scheme,
)
from idcontrol.controllers.sensed import SensedForces
from idcontrol.controllers.settings import InverseSettings
from idcontrol.controllers.warming import StandingRobot, remember, warm
from idcontrol.dynamics.system import System
from idcontrol.errors import InputError, UnknownName
from idcontrol.tasks import Posture, Task
from idcontrol.types import Array, ContactLaw, Controller

__all__ = ["Gains", "InverseSettings", "Setup", "available", "build", "make", "register", "warm"]


def __dir__() -> list[str]:
    return __all__


class TunedRobot(FootedRobot, StandingRobot, Protocol):
    """The part of `idcontrol.robots.Robot` that `make` needs: feet, gains and standing pose."""

    def acceleration_gains(self) -> tuple[float, float]:
        """Return stiffness [1/s²] and damping [1/s] for controllers with an inertia model."""
        ...

    def torque_gains(self, names: Sequence[str]) -> tuple[Array, Array]:
        """Return stiffness [N m/rad] and damping [N m s/rad] of the actuated joints `names`, shape (a,) each."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The parts from which a controller is built.

    Attributes:
        system: Multibody terms for this controller alone.
        contacts: Detector of foot contacts on `system`, with the assumed friction. The identity of a contact is the
            index of its foot (or fingertip) in `Reference.stance`.
        h: Control period [s].
        acceleration_gains: Gains of controllers with an inertia model [1/s², 1/s]; a `Posture` task with gains of its
            own replaces them.
        torque_gains: Gains of controllers without an inertia model [N m/rad, N m s/rad].
        settings: Settings of inverse-dynamics controllers.
        robot: The robot, for its standing pose and for controllers constructed from (robot, mu, rate); None if it has
            no robot file.
        drive_gains: Gains that the drives apply to impedance commands [N m/rad, N m s/rad]; None to send torques only.
            The drives of `pid` get `torque_gains` instead.
        beside: True to add feedback with `torque_gains`, if there are any, to the torques of any controller but `pid`.
        tasks: Whole-body tasks (`idcontrol.tasks`) of controllers whose attribute `takes_tasks` is True.
    """

    system: System
    contacts: Detector
    h: float
    acceleration_gains: Gains = field(default_factory=lambda: Gains(kp=400.0, kd=40.0))
    torque_gains: Gains | None = None
    settings: InverseSettings = field(default_factory=InverseSettings)
    robot: TunedRobot | None = None
    drive_gains: Gains | None = None
    beside: bool = False
    tasks: Sequence[Task] = ()

    @property
    def mu(self) -> float | None:
        """The assumed friction coefficient, the smallest of all contacts; None without contacts."""
        return places.smallest_mu(self.contacts)

    @property
    def rate_hz(self) -> float:
        """Rate of the controller's calls [Hz]."""
        return 1.0 / self.h


KIND = places.Kind(
    name="controller", group=CONTROLLERS, calls=("__call__", "reset"), protocol="idcontrol.types.Controller"
)
"""What `idcontrol.config.places` needs to know about users' controllers, such as the required methods."""

Factory = Callable[[Setup], Controller]
REGISTRY: Final[Registry[Setup, Controller]] = Registry(KIND)
register, available = REGISTRY.register, REGISTRY.available

PEERS: Final = {"tsid": "idcontrol.adapters.tsid_controller:Tsid"}
"""Places of controllers from other packages, by name, for comparisons; the packages must be installed separately."""


def factory(name: str) -> Factory:
    """Return the function that makes a controller from a setup.

    `name` is a key of `PEERS` or a name for `Registry.factory`, which also defines the errors.
    """
    return REGISTRY.factory(PEERS.get(name, name))


def contact_law(name: str) -> ContactLaw:
    """Return the contact law of a controller; `name` and errors are as for `factory`."""
    return REGISTRY.contact_law(PEERS.get(name, name))


def make(
    name: str,
    robot: TunedRobot,
    *,
    mu: float = math.nan,
    rate_hz: float = 1000.0,
    settings: InverseSettings | None = None,
    tasks: Sequence[Task] | None = (),
    contacts: SphereContacts | None = None,
    **unknown: Never,
) -> Controller:
    """Return the controller called `name` for a robot, with the gains of its robot file.

    Args:
        name: As for `factory`.
        robot: As returned by `idcontrol.robots.load`.
        mu: The assumed friction coefficient; inf means no slip. It is required unless `contacts` is passed, which has
            its own friction.
        rate_hz: Rate of the controller's calls [Hz].
        settings: Settings of inverse dynamics; None for the defaults.
        tasks: Whole-body tasks of inverse dynamics (`idcontrol.tasks`), in addition to the joints' reference; None for
            no tasks.
        contacts: Detector of the robot's feet, as from `Robot.contacts`, on a system that nothing else uses; its
            `SphereContacts.surface` may be changed at any time. None for feet on flat ground with friction `mu`.
        **unknown: Must be empty: any other argument raises an error that suggests the nearest name.

    Raises:
        UnknownName: The controller, the argument, or the frame of a task does not exist.
        InputError: The robot, `mu`, `rate_hz` or `tasks` is unusable.
    """
    for argument in unknown:  # `mu` has a default so that a misspelt name is reported before a missing one
        raise UnknownName("argument", argument, ("mu", "rate_hz", "settings", "tasks", "contacts"))
    if not isinstance(tasks, Sequence | None):
        raise InputError(f"tasks must be a list, not {type(tasks).__name__}; put it in brackets: tasks=[...]")
    contacts = on_flat_ground(robot, mu) if contacts is None else contacts
    kp, kd = robot.torque_gains(contacts.system.actuated_names)
    stiffness, damping = robot.acceleration_gains()
    setup = Setup(
        system=contacts.system,
        contacts=contacts,
        h=period(rate_hz),
        acceleration_gains=Gains(kp=stiffness, kd=damping),
        torque_gains=Gains(kp=kp, kd=kd),
        settings=InverseSettings() if settings is None else settings,
        robot=robot,
        tasks=tuple(tasks or ()),
    )
    return build(name, setup)


def build(name: str, setup: Setup) -> Controller:
    """Build the controller called `name` from all its parts.

    Raises:
        UnknownName: The controller, or the frame of a task, does not exist.
        InputError: The place `name` has no controller, the controller cannot be built, tasks are passed to a controller
            that takes none, or `drive_gains` are combined with tasks.
    """
    controller = factory(name)(setup)
    if setup.tasks and not getattr(controller, "takes_tasks", False):
        raise InputError(f"controller {name!r} takes no tasks; take one of inverse dynamics with predicted forces")
    if setup.tasks and setup.drive_gains is not None:
        raise InputError("drives that hold joint positions take no tasks; send torques, without drive_gains")
    if setup.beside and setup.torque_gains is not None and not isinstance(controller, Pid):
        controller = Beside(controller, setup.system, setup.torque_gains)
    if setup.drive_gains is not None and not isinstance(controller, Impedance):
        controller = Impedance(controller, setup.drive_gains, setup.h)
    if setup.robot is not None:
        remember(controller, setup.robot)
    return controller


def inverse_dynamics(scheme: Scheme) -> Factory:
    """Return a factory for inverse dynamics with `scheme`."""

    def build(setup: Setup) -> InverseDynamics:
        system, tasks = setup.system, setup.tasks
        gains = setup.acceleration_gains
        for task in tasks:
            if isinstance(task, Posture) and task.gains is not None:
                gains = Gains(kp=task.gains[0], kd=task.gains[1])
        start = setup.robot.standing_state().q if tasks and setup.robot is not None else None
        return InverseDynamics(scheme, system, setup.contacts, gains, setup.h, setup.settings, tasks, start)

    return build


def _sensed(delay: int) -> Factory:
    return lambda s: SensedForces(s.system, s.contacts, s.acceleration_gains, s.h, delay)


def _pid(setup: Setup) -> Controller:
    if setup.torque_gains is None:
        raise InputError("pid needs torque_gains: kp [N m/rad] and kd [N m s/rad] for the robot's joints")
    if setup.drive_gains is None:
        return Pid(setup.system, setup.torque_gains, setup.h)
    # the drives do the error feedback
    still = Pid(setup.system, Gains(kp=0.0, kd=0.0), setup.h, accelerations=True)
    return Impedance(still, setup.torque_gains, setup.h)


register("pid", "joint-space error feedback alone (baseline)", _pid)
register("id-sensed-1", "ID(t_i-1): inverse dynamics with the contact forces sensed over the last period", _sensed(1))
register("id-sensed-2", "ID(t_i-2): the same with the forces of the period before", _sensed(2))
register(
    "id-noslip-lcp",
    "ID(t_i) LCP,∞: no slip, by principal pivoting (Zapolsky & Drumwright 2017, Algorithms 1, 2)",
    inverse_dynamics(NO_SLIP_LCP),
    PYRAMID,
)
register(
    "id-coulomb-lcp",
    "ID(t_i) LCP,μ: Coulomb friction by Lemke's method (Zapolsky & Drumwright 2017)",
    inverse_dynamics(COULOMB_LCP),
    PYRAMID,
)
register(
    "id-coulomb-smooth",
    "ID(t_i) LCP,μ with the torque nearest to the last one, which fades (Zapolsky & Drumwright 2017, Algorithm 3)",
    inverse_dynamics(COULOMB_SMOOTH),
    PYRAMID,
)
register(
    "id-coulomb-cone",
    "ID(t_i) NCP,μ: Coulomb friction with its circular cone, by Newton's method",
    inverse_dynamics(COULOMB_CONE),
    CIRCLE,
)
register(
    "id-coulomb-qp",
    "ID(t_i) QP,μ: maximal dissipation in two stages (Zapolsky & Drumwright 2017)",
    inverse_dynamics(COULOMB_QP),
    PYRAMID,
)
register(
    "id-noslip-qp", "ID(t_i) QP,∞: maximal dissipation without slip, two stages", inverse_dynamics(NO_SLIP_QP), PYRAMID
)
register("id-coulomb-qp-1", "ID(t_i) QP,μ in one stage, regularized", inverse_dynamics(COULOMB_QP_1), PYRAMID)
register(
    "id-coulomb-qp-raw",
    "stage I of id-coulomb-qp alone, without chatter mitigation",
    inverse_dynamics(COULOMB_QP_RAW),
    PYRAMID,
)
register(
    "id-sap",
    "inverse dynamics through compliant contact, convex, one stage (SAP, Castro et al. 2022)",
    inverse_dynamics(SAP),
    CIRCLE,
)
register(
    "id-constraint",
    "ID(t_i) with contacts as stiff springs and dampers (after Drumwright 2019)",
    inverse_dynamics(SPRINGS),
    PYRAMID,
)
