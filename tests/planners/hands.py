"""The paper's arm with its box, at home."""

import coal
import numpy as np

from idcontrol import robots
from idcontrol.contact.fingertips import Fingertips
from idcontrol.system import FreeBody, System

ARM = robots.load("arm")
SIDE = 0.05071
MASS = 6000.0 * SIDE**3
FINGERS = np.array([False] * 7 + [True] * 4)
UNLIMITED = np.full(11, np.inf)


def machine(mu=1.0):
    """Hand and box as one system at rest at home, and the detector of its fingertips."""
    box = FreeBody(name="box", mass=MASS, inertia=MASS * SIDE**2 / 6.0 * np.eye(3))
    system = System.from_urdf(ARM.urdf, free_flyer=False, free_bodies=[box])
    feet = ARM.description.feet
    tips = Fingertips(system, [foot.frame for foot in feet], 0.01, "box", coal.Box(SIDE, SIDE, SIDE), mu)
    q = system.configuration(ARM.home_joints(system.actuated_names))
    at = system.model.joints[system.model.getJointId("box")].idx_q
    q[at : at + 3] = 0.3, 0.0, 0.2
    system.update(q, np.zeros(system.n_velocities))
    return system, tips, q
