"""One rigid body on the ground: a box on its corners, or a ball."""

import numpy as np

from idcontrol.bench.problems import machines
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.models import coulomb
from idcontrol.models.step import ContactModel
from idcontrol.plants.stepping import Stepping
from idcontrol.types import State

HALF = np.array([0.15, 0.1, 0.05])


def box(mu: float, *, slope: float = 0.0, dt: float = 1e-3, model: ContactModel = coulomb.solve) -> Stepping:
    """Return a box of half sizes `HALF` with a contact at each lower corner, on a plane that falls by `slope` rad."""
    x, y, z = HALF
    inertia = machines.SLED_MASS / 3.0 * np.diag([y * y + z * z, x * x + z * z, x * x + y * y])
    system = machines.free_body(inertia)
    corners = np.array([[i * x, j * y, -z] for i in (1, -1) for j in (1, -1)])
    ground = plane((np.sin(slope), 0.0, np.cos(slope)))
    contacts = SphereContacts(system, ("body",) * 4, 0.0, ground, mu, offsets=corners)
    return Stepping(system, contacts, model, dt)


def box_at_rest(slope: float = 0.0) -> State:
    """Return the state of the box with its lower face on a plane that falls by `slope` rad."""
    half = 0.5 * slope
    normal = np.array([np.sin(slope), 0.0, np.cos(slope)])
    q = np.concatenate((HALF[2] * normal, [0.0, np.sin(half), 0.0, np.cos(half)]))
    return State(t=0.0, q=q, v=np.zeros(6))


def ball(mu: float, *, dt: float = 1e-3) -> Stepping:
    """Return a solid ball on level ground."""
    setup = machines.ball(mu, dt=dt)
    return Stepping(setup.system, setup.contacts, coulomb.solve, dt)


def ball_at(height: float, v: np.ndarray | None = None) -> State:
    """Return the state of the ball with its lowest point at `height` [m]."""
    q = np.array([0.0, 0.0, machines.BALL + height, 0.0, 0.0, 0.0, 1.0])
    return State(t=0.0, q=q, v=np.zeros(6) if v is None else v)
