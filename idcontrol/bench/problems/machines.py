"""Small machines that need no robot file: sled, ball, walker, chain."""

import numpy as np
import pinocchio as pin
from msgspec import structs

from idcontrol import controllers, plants
from idcontrol.contact.contacts import Contacts
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import Terrain, plane
from idcontrol.dynamics.system import System
from idcontrol.models.step import Prescribed, StepProblem
from idcontrol.types import Array, Command, Controller, Reference, State

H = 1e-3
"""Period of all control and plant steps in this module [s]."""
G = 9.81
SLIDING = 0.2
"""Friction coefficient of machines that slide; standing machines have `HOLDING`."""
HOLDING = 0.7

SLED_MASS = 2.0
SLED_INERTIA = np.array([0.01, 0.02, 0.025])
"""Principal moments of inertia of the sled, body axes [kg m²]."""
FOOT = 0.02
"""Radius of a foot [m]."""
SLED_HEIGHT = 0.05 + FOOT
"""Height of the sled's centre above level ground when its feet just touch the ground [m]."""
_SLED_FEET = np.array([[x, y, -0.05] for x in (0.15, -0.15) for y in (0.1, -0.1)])
BALL = 0.1
"""Radius of the rolling ball [m]."""


def free_body(inertia: Array) -> System:
    """Return one free body of `SLED_MASS`, with rotational inertia (3, 3) [kg m²] and a frame "body"."""
    model = pin.Model()
    joint = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "body")
    model.appendBodyToJoint(joint, pin.Inertia(SLED_MASS, np.zeros(3), inertia), pin.SE3.Identity())
    model.addJointFrame(joint)
    return System(model, actuated=())


def sled(ground: Terrain, mu: float, *, dt: float = H, settings: plants.GroundSettings | None = None) -> plants.Setup:
    """Return the setup of a body on four ball feet, for `plants.build`.

    The three moments of inertia differ, so the body tumbles in the air.
    """
    system = free_body(np.diag(SLED_INERTIA))
    contacts = SphereContacts(system, ("body",) * 4, FOOT, ground, mu, offsets=_SLED_FEET)
    return plants.Setup(system=system, contacts=contacts, dt=dt, settings=settings or plants.GroundSettings())


def sled_state(slope: float = 0.0, *, gap: float = 0.0, v: Array | None = None) -> State:
    """Return a state of the sled, its feet `gap` [m] above a plane that descends along x by `slope` [rad]."""
    height = SLED_HEIGHT + gap
    q = np.array([height * np.sin(slope), 0.0, height * np.cos(slope), 0.0, np.sin(slope / 2), 0.0, np.cos(slope / 2)])
    return State(t=0.0, q=q, v=np.zeros(6) if v is None else v)


def ball(mu: float = HOLDING, *, dt: float = H) -> plants.Setup:
    """Return the setup of a solid ball of radius `BALL` on level ground, for `plants.build`."""
    system = free_body(0.4 * SLED_MASS * BALL**2 * np.eye(3))
    return plants.Setup(system=system, contacts=SphereContacts(system, ("body",), BALL, plane(), mu), dt=dt)


LEG = 0.3
"""Height of the walker's trunk above the centres of its feet [m]."""
WALKER_MASS = 4.0 + 4 * 0.6


def walker(limit: float = 1e3) -> tuple[System, SphereContacts]:
    """Return the walker, a trunk on four legs of three sliding joints, and the contacts of its feet with level ground.

    Joint forces are limited to `limit` [N].
    """
    model = pin.Model()
    trunk = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "trunk")
    model.appendBodyToJoint(trunk, pin.Inertia(4.0, np.zeros(3), np.diag([0.03, 0.06, 0.07])), pin.SE3.Identity())
    slides = {"x": pin.JointModelPX, "y": pin.JointModelPY, "z": pin.JointModelPZ}
    tips: list[str] = []
    for x, y in ((0.2, 0.12), (0.2, -0.12), (-0.2, 0.12), (-0.2, -0.12)):
        parent, placement = trunk, pin.SE3(np.eye(3), np.array([x, y, -LEG]))
        for axis, kind in slides.items():
            tip = f"leg{len(tips)}_{axis}"
            parent = model.addJoint(parent, kind(), placement, tip)
            model.appendBodyToJoint(parent, pin.Inertia(0.2, np.zeros(3), 1e-4 * np.eye(3)), pin.SE3.Identity())
            placement = pin.SE3.Identity()
        model.addJointFrame(parent)
        tips.append(tip)
    system = System(model, effort_limit=np.full(12, limit))
    return system, SphereContacts(system, tips, FOOT, plane(), HOLDING)


def walker_state(system: System) -> State:
    """Return the state of the walker at rest on its four feet."""
    q = system.configuration(np.zeros(12), np.array([0.0, 0.0, LEG + FOOT, 0.0, 0.0, 0.0, 1.0]))
    return State(t=0.0, q=q, v=np.zeros(18))


def standing(acceleration: Array | None = None) -> Reference:
    """Return a reference for the walker: joint accelerations, shape (12,) [m/s²]; by default, stand still."""
    reference = Reference.standing(np.zeros(12), 4)
    return reference if acceleration is None else structs.replace(reference, a=acceleration)


def controller(
    name: str, *, limit: float = 1e3, settings: controllers.InverseSettings | None = None
) -> tuple[Controller, State]:
    """Return the controller `name` of the walker with joint forces up to `limit` [N], and the walker's state at rest.

    If `settings` is None, the controller has the default settings.

    Raises:
        UnknownName: The controller does not exist.
    """
    system, contacts = walker(limit)
    chosen = controllers.InverseSettings() if settings is None else settings
    stiff = controllers.Gains(kp=np.full(12, 1e3), kd=np.full(12, 10.0))
    setup = controllers.Setup(system=system, contacts=contacts, h=H, settings=chosen, torque_gains=stiff)
    return controllers.build(name, setup), walker_state(system)


def task_controllers() -> list[str]:
    """Return the names of all controllers that take whole-body tasks; they also predict contact forces."""
    return [name for name in controllers.available() if getattr(controller(name)[0], "takes_tasks", False)]


def first_command(name: str, *, acceleration: Array | None = None, limit: float = 1e3) -> Command:
    """Return the first command of the walker at rest, with joint forces up to `limit` [N].

    `acceleration`, shape (12,) [m/s²], is the demand on the joints; by default zero.
    """
    control, state = controller(name, limit=limit)
    return control(state, standing(acceleration))


def chain(links: int) -> System:
    """Return a chain whose first hinge is fixed to the world at (0, 0, 1) m; at zero angles it extends along x.

    Its links of 0.2 m and 0.3 kg have hinges about y and x alternately.
    """
    model = pin.Model()
    parent, place = 0, pin.SE3(np.eye(3), np.array([0.0, 0.0, 1.0]))
    for i in range(links):
        hinge = pin.JointModelRY() if i % 2 == 0 else pin.JointModelRX()
        parent = model.addJoint(parent, hinge, place, f"hinge{i}")
        rod = pin.Inertia(0.3, np.array([0.1, 0.0, 0.0]), np.diag([1e-4, 1e-3, 1e-3]))
        model.appendBodyToJoint(parent, rod, pin.SE3.Identity())
        model.addJointFrame(parent)
        place = pin.SE3(np.eye(3), np.array([0.2, 0.0, 0.0]))
    return System(model)


def inverse_step(system: System, v: Array, wanted: Array, contacts: Contacts) -> StepProblem:
    """Return the step of length `H` from velocity `v` (m,) to joint velocities `wanted` (a,)."""
    return StepProblem(
        h=H,
        M=system.M.copy(),
        kappa=H * system.bias - system.M @ v,
        contacts=contacts,
        prescribed=Prescribed(index=np.arange(system.n_unactuated, system.n_velocities), velocity=wanted),
    )


def forward_step(system: System, v: Array, motor_impulse: Array, contacts: Contacts) -> StepProblem:
    """Return the step of length `H` from the velocity `v` (m,) under the motor impulses hτ (a,) [N m s or N s]."""
    kappa = H * system.bias - system.M @ v
    kappa[system.n_unactuated :] -= motor_impulse
    return StepProblem(h=H, M=system.M.copy(), kappa=kappa, contacts=contacts)
