"""Straight motions of an arm's hand between keyframes, and their joint positions.

Between two keyframes the position moves along a line and the orientation about one axis, at rest at both ends, with
minimum jerk (Flash & Hogan 1985). Joint positions follow by damped least squares, starting from the previous positions,
with redundant joints drawn to a posture (Nakamura & Hanafusa 1986).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pinocchio as pin

from idcontrol.types import Array

DAMPING = 1e-4
"""Square of the damping in the least squares [m², rad²]: close to a singularity the hand lags, so that joints stay
slow."""

POSTURE = 0.02
"""Share of the distance to the posture that redundant joints move in each iteration."""


def smooth(share: float) -> float:
    """Return the fraction of a minimum-jerk motion done after the fraction `share` of its time, clipped to 0 to 1."""
    s = min(max(share, 0.0), 1.0)
    return s * s * s * (10.0 - 15.0 * s + 6.0 * s * s)


def between(start: pin.SE3, end: pin.SE3, way: float) -> pin.SE3:
    """Return the pose after the share `way` of the motion from `start` to `end`."""
    turn = pin.log3(start.rotation.T @ end.rotation)
    return pin.SE3(start.rotation @ pin.exp3(way * turn), (1.0 - way) * start.translation + way * end.translation)


@dataclass
class InverseKinematics:
    """Computes joint positions that bring a frame to a pose, starting from the previous call's positions.

    Attributes:
        model: The machine.
        frame: Index of the frame.
        joints: Number of joints that move the frame: the first joints of the model.
        posture: Preferred positions of redundant joints, shape (joints,) [rad].
        q: Positions of all joints, shape (nq,) [rad]; the result of the last call.
    """

    model: pin.Model
    frame: int
    joints: int
    posture: Array
    q: Array
    _data: Any = field(init=False)

    def __post_init__(self) -> None:
        self._data = self.model.createData()

    def __call__(self, pose: pin.SE3, iterations: int = 3) -> Array:
        """Return positions of the frame's joints that bring it close to `pose`, within their limits.

        Each of the `iterations` is a step of damped least squares. The result has shape (joints,) [rad].
        """
        n, low, high = self.joints, self.model.lowerPositionLimit, self.model.upperPositionLimit
        for _ in range(iterations):
            J = pin.computeFrameJacobian(self.model, self._data, self.q, self.frame, pin.ReferenceFrame.LOCAL)[:, :n]
            error = pin.log6(self.pose().actInv(pose)).vector
            inverse = J.T @ np.linalg.inv(J @ J.T + DAMPING * np.eye(6))
            rest = POSTURE * (self.posture - self.q[:n])
            self.q[:n] += inverse @ error + rest - inverse @ (J @ rest)
            self.q[:n] = np.clip(self.q[:n], low[:n], high[:n])
        return self.q[:n].copy()

    def pose(self) -> pin.SE3:
        """Return the pose of the frame with the positions `q`."""
        pin.framesForwardKinematics(self.model, self._data, self.q)
        return self._data.oMf[self.frame].copy()

    def error(self, pose: pin.SE3) -> float:
        """Return the norm of the frame's six errors from `pose`: three in metres, three in radians."""
        return float(np.linalg.norm(pin.log6(self.pose().actInv(pose)).vector))
