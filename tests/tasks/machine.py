"""Machines in motion, with tasks, for the tests of this folder."""

from typing import NamedTuple

import numpy as np
import pinocchio as pin

from idcontrol import robots
from idcontrol.contact.spheres import SphereContacts
from idcontrol.dynamics.system import System
from idcontrol.kernels.placements import placement_views
from idcontrol.tasks.rows import Placement
from idcontrol.types import Array


class Moving(NamedTuple):
    """A robot at a random state, its terms updated.

    Attributes:
        system: The machine.
        contacts: Its feet.
        q: Configuration in Pinocchio's layout.
        v: Velocity, whose order is the system's for these robots, shape (m,).
        at: Positions of its joints.
    """

    system: System
    contacts: SphereContacts
    q: Array
    v: Array
    at: Placement


def moving(rng: np.random.Generator, robot: str = "go1", *, bend: float = 0.1, speed: float = 1.0) -> Moving:
    """Return a robot near its home pose, with a random base position and velocity."""
    description = robots.load(robot)
    contacts = description.contacts(0.6)
    system = contacts.system
    m = system.n_velocities
    q = pin.integrate(system.model, description.standing_state(system).q, bend * rng.standard_normal(m))
    q[:3] += rng.uniform(-3.0, 3.0, 3)
    v = speed * rng.standard_normal(m)
    system.update(q, v)
    contacts.detect(np.inf)
    assert (system.order == np.arange(m)).all()
    position, rotation = placement_views(system.data.oMi)
    gravity = np.array(system.model.gravity.linear)
    at = Placement(position, rotation, system.jacobian, system.support, system.motion, gravity)
    return Moving(system, contacts, q, v, at)
