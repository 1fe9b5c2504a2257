"""Two arms with hands that follow keyframes: palm poses, open or closed hands, and conditions.

The drives of the arms are the controller. They apply the torques of the planned motion by inverse dynamics, and add
springs and dampers about this motion (impedance control, Hogan 1985). To open or close a hand, the rest positions of
its finger springs move between two configurations. The torque of these springs is limited to `GRIP_NM`, so a hand
closes around any object.
"""

from dataclasses import dataclass, field

import numpy as np
import pinocchio as pin

from idcontrol.dynamics.system import System
from idcontrol.experiments.jar.machine import ARM_JOINTS, FINGER_JOINTS, PALM
from idcontrol.planners.cartesian import InverseKinematics, between, smooth
from idcontrol.plants.trees import Drive
from idcontrol.types import Array

ARM_STIFFNESS_NM = np.array([3000.0, 3000.0, 2000.0, 2000.0, 1500.0, 1500.0, 1000.0])
ARM_DAMPING_NM_S = np.array([300.0, 300.0, 150.0, 150.0, 60.0, 60.0, 30.0])
"""Springs and dampers of the arm's joints [N m/rad, N m s/rad]; the damping is nearly critical."""

FINGER_STIFFNESS_NM, FINGER_DAMPING_NM_S = 3.0, 0.05

OPEN = np.array([0.0, -0.1, -0.1, -0.1] * 3 + [1.396, 0.5, -0.1, -0.1])
CLOSED = np.array([0.0, 1.6, 1.7, 1.6] * 3 + [1.396, 0.5, 1.6, 1.7])
"""Finger joints of an open and a closed hand, thumb last [rad]."""

GRIP_NM = np.array([0.4, 0.7, 0.45, 0.25] * 3 + [0.7, 0.7, 0.5, 0.3])
"""Largest torque of the spring of each finger joint [N m]."""

CLOSING_S = 0.8
"""Duration of opening or closing [s]."""

SETTLING = 300
"""Number of inverse-kinematics iterations from an arm's posture to its first pose."""


@dataclass
class Arm:
    """One arm with its hand: its commanded pose and its drive.

    Attributes:
        system: The arm's multibody system at the current state.
        posture: Preferred positions of the arm's joints, shape (7,) [rad].
        ik: Computes joint positions for palm poses.
        closing: Position of the hand's motion, from 0 (open) to 1 (closed).
        start: Initial pose of the current motion.
        goal: Final pose of the current motion.
    """

    system: System
    posture: Array
    ik: InverseKinematics = field(init=False)
    closing: float = 0.0

    def __post_init__(self) -> None:
        q = np.concatenate([self.posture, OPEN])
        self.ik = InverseKinematics(self.system.model, self.system.frame(PALM), ARM_JOINTS, self.posture.copy(), q)
        self._data = self.system.model.createData()
        self.put(self.ik.pose())

    def put(self, pose: pin.SE3) -> None:
        """Set the commanded pose of the palm to `pose`, at rest."""
        self.ik(pose, SETTLING)
        self.start = self.goal = self.pose
        self._before = (self.ik.q[:ARM_JOINTS].copy(), np.zeros(ARM_JOINTS))

    def begin(self, goal: pin.SE3 | None) -> None:
        """Begin a motion from the commanded pose to `goal`; None keeps the previous goal."""
        self.start, self.goal = self.pose, self.goal if goal is None else goal

    @property
    def pose(self) -> pin.SE3:
        """Return the commanded pose of the palm."""
        return self.ik.pose()

    def stop(self) -> None:
        """Make the commanded pose the goal; call `begin` before the next `drive`."""
        self.goal = self.pose

    def drive(self, share: float, close: bool, q: Array, h: float) -> Drive:
        """Return the drive for a period of `h` [s] that ends at the fraction `share` of the motion's duration.

        Args:
            share: 0 at the motion's beginning, 1 at its end.
            close: True to close the hand.
            q: Measured joint positions, shape (23,) [rad].
            h: Length of the period [s].
        """
        before, speed_before = self._before
        arm = self.ik(between(self.start, self.goal, smooth(share)))
        speed = (arm - before) / h
        self._before = (arm, speed)
        self.closing = float(np.clip(self.closing + (h if close else -h) / CLOSING_S, 0.0, 1.0))
        fingers = OPEN + smooth(self.closing) * (CLOSED - OPEN)
        reach = GRIP_NM / FINGER_STIFFNESS_NM
        fingers = q[ARM_JOINTS:] + np.clip(fingers - q[ARM_JOINTS:], -reach, reach)
        still = np.zeros(FINGER_JOINTS)
        acceleration = np.concatenate([(speed - speed_before) / h, still])
        target, velocity = np.concatenate([arm, fingers]), np.concatenate([speed, still])
        torque = pin.rnea(self.system.model, self._data, np.concatenate([arm, q[ARM_JOINTS:]]), velocity, acceleration)
        return Drive(
            torque=np.array(torque),
            target=target,
            speed=velocity,
            stiffness=np.concatenate([ARM_STIFFNESS_NM, np.full(FINGER_JOINTS, FINGER_STIFFNESS_NM)]),
            damping=np.concatenate([ARM_DAMPING_NM_S, np.full(FINGER_JOINTS, FINGER_DAMPING_NM_S)]),
        )
