"""One rigid body on the ground: a box on its corners, or a ball."""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from idcontrol import plants
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import Terrain, plane
from idcontrol.models import coulomb
from idcontrol.models.problem import ContactModel
from idcontrol.plants.stepping import Stepping
from idcontrol.system import System
from idcontrol.types import State

MASS = 2.0
HALF = np.array([0.15, 0.1, 0.05])
RADIUS = 0.1


def body(inertia: np.ndarray) -> System:
    """A free body; its six velocities are all there are."""
    model = pin.Model()
    joint = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "body")
    model.appendBodyToJoint(joint, pin.Inertia(MASS, np.zeros(3), inertia), pin.SE3.Identity())
    model.addJointFrame(joint)
    return System(model, actuated=())


def box(mu: float, *, slope: float = 0.0, dt: float = 1e-3, model: ContactModel = coulomb.solve) -> Stepping:
    """A box of half sizes `HALF` with a contact at each lower corner, on a plane that falls along x by `slope` rad."""
    x, y, z = HALF
    inertia = MASS / 3.0 * np.diag([y * y + z * z, x * x + z * z, x * x + y * y])
    system = body(inertia)
    corners = np.array([[i * x, j * y, -z] for i in (1, -1) for j in (1, -1)])
    ground = plane((np.sin(slope), 0.0, np.cos(slope)))
    contacts = SphereContacts(system, ("body",) * 4, 0.0, ground, mu, offsets=corners)
    return Stepping(system, contacts, model, dt)


def box_at_rest(slope: float = 0.0) -> State:
    """The box with its lower face on that plane."""
    half = 0.5 * slope
    normal = np.array([np.sin(slope), 0.0, np.cos(slope)])
    q = np.concatenate((HALF[2] * normal, [0.0, np.sin(half), 0.0, np.cos(half)]))
    return State(t=0.0, q=q, v=np.zeros(6))


def ball(mu: float, *, dt: float = 1e-3, model: ContactModel = coulomb.solve) -> Stepping:
    """A solid ball on level ground."""
    system = body(0.4 * MASS * RADIUS**2 * np.eye(3))
    return Stepping(system, SphereContacts(system, ("body",), RADIUS, plane(), mu), model, dt)


def ball_at(height: float, v: np.ndarray | None = None) -> State:
    """The ball with its lowest point at `height` [m]."""
    q = np.array([0.0, 0.0, RADIUS + height, 0.0, 0.0, 0.0, 1.0])
    return State(t=0.0, q=q, v=np.zeros(6) if v is None else v)


SLED = np.array([0.15, 0.1, 0.05])
"""Where the ball feet of the sled are centred, but for signs; it is as heavy as the box."""
BALL = 0.02
"""Their radius."""


def sled(ground: Terrain, mu: float, *, dt: float = 1e-3, settings: plants.Settings | None = None) -> plants.Setup:
    """A body on four ball feet, for plants by name; its inertia is a sphere's, so that its spin is no force on it."""
    system = body(0.02 * np.eye(3))
    feet = SLED * np.array([[i, j, -1] for i in (1, -1) for j in (1, -1)])
    contacts = SphereContacts(system, ("body",) * 4, BALL, ground, mu, offsets=feet)
    return plants.Setup(system=system, contacts=contacts, dt=dt, settings=settings or plants.Settings())


def sled_on(slope: float, gap: float = 0.0) -> State:
    """The sled with its feet `gap` [m] over a plane that falls along x by `slope` rad."""
    state = box_at_rest(slope)
    normal = np.array([np.sin(slope), 0.0, np.cos(slope)])
    q = state.q.copy()
    q[:3] = (SLED[2] + BALL + gap) * normal
    return State(t=0.0, q=q, v=state.v)


def sled_energy(state: State) -> float:
    """Kinetic and potential energy of the sled [J]."""
    v = state.v
    return 0.5 * (MASS * v[:3] @ v[:3] + 0.02 * v[3:] @ v[3:]) + MASS * 9.81 * state.q[2]
