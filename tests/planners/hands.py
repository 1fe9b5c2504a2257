"""The paper's arm with its box, at home."""

import coal
import numpy as np

from idcontrol import robots
from idcontrol.contact.fingertips import Fingertips
from idcontrol.dynamics.system import FreeBody, System
from idcontrol.planners.arm_swing import ArmSwing

ARM = robots.load("arm")
SIDE = 0.05071
MASS = 6000.0 * SIDE**3
FINGERS = np.array([False] * 7 + [True] * 4)
UNLIMITED = np.full(11, np.inf)
SWING = ArmSwing(
    home=np.array([np.pi / 2] * 7 + [np.pi / 4] * 4), arm=~FINGERS, amplitude=0.1, rate=10.0, closing=0.01, tips=4
)


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
