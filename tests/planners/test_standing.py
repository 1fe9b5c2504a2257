"""The slow loop of a standing machine: its plan holds the base, and may follow the base."""

import numpy as np
import pinocchio as pin
import pytest

from idcontrol.planners.commands import VelocityCommand
from idcontrol.scenes.walk import WalkConfig, WalkPath, WalkScene
from idcontrol.sensing import Sensing
from idcontrol.sensing.disturbance import BiasLevel
from tests.parameters import one_fast
from tests.planners.walker import machine

PERIOD = 0.05
"""Time between two ticks [s]: joints follow at once, so it only has to be short against half a second."""


class Stand:
    def reset(self, position):
        pass

    def __call__(self, t, position, yaw):
        return VelocityCommand(walk=False)


class StandingLoop:
    """A machine on point feet, whose joints have the planned angles minus the constant errors of their encoders."""

    def __init__(self, name, bias):
        self.m = machine(name, points=True)
        self.planner, self.bias, self.t = self.m.planner(Stand(), constant_momentum=True), bias, 0.0
        self.data = self.m.system.model.createData()
        state = self.m.standing(self.planner.height)
        self.anchors = self.feet(state.q)
        self.planner.reset(state)
        self.base = state.q[:7]
        self.period()

    def feet(self, q):
        pin.framesForwardKinematics(self.m.system.model, self.data, q)
        frames, offsets = self.m.feet.frames, self.m.feet.offsets
        return np.array([self.data.oMf[f].act(o) for f, o in zip(frames, offsets, strict=True)])

    def period(self):
        """Plan a tick, and move the base: the feet stay in place, and the joints have the planned angles."""
        m, self.t = self.m, self.t + PERIOD
        seen = m.standing(self.planner.height)
        seen.q[:7] = self.base
        plan = self.planner(type(seen)(t=self.t, q=seen.q, v=seen.v))
        feet = self.feet(m.system.configuration(plan.q - self.bias, np.array([0.0, 0, 0, 0, 0, 0, 1])))
        U, _, V = np.linalg.svd((self.anchors - self.anchors.mean(0)).T @ (feet - feet.mean(0)))
        R = U @ np.diag([1.0, 1.0, np.linalg.det(U @ V)]) @ V  # the nearest rigid motion (Kabsch 1976)
        self.base = pin.SE3ToXYZQUAT(pin.SE3(R, self.anchors.mean(0) - R @ feet.mean(0)))

    def memory(self):
        """Return the arrays that the planner keeps from tick to tick, and the pose of the base."""
        base = self.planner.base
        return [base.pose, base.twist, base.rate, base.goal, self.base]

    def eigenvalues(self, step=1e-5):
        """Return the eigenvalues of the map from the memory to the memory a period later, by central differences."""
        kept = [part.copy() for part in self.memory()]
        slopes = []
        for part, values in enumerate(kept):
            for k in range(values.size):
                after = []
                for sign in (1.0, -1.0):
                    for place, value in zip(self.memory(), kept, strict=True):
                        place[:] = value
                    self.memory()[part][k] += sign * step
                    self.period()
                    after.append(np.concatenate(self.memory()))
                slopes.append((after[0] - after[1]) / (2.0 * step))
        return np.linalg.eigvals(np.array(slopes))


@pytest.mark.slow
@pytest.mark.parametrize("name", one_fast(("links", "solo12", "go1", "anymal"), "go1"))
def test_no_mode_of_standing_grows_with_encoders_that_err(name):
    rng = np.random.default_rng(1)
    for _ in range(3):
        loop = StandingLoop(name, 0.03 * rng.choice((-1.0, 1.0), machine(name).home.size))
        for _ in range(200):
            loop.period()
        there = loop.base.copy()
        largest = np.abs(loop.eigenvalues()).max()
        # Reference and goal approach the feet with a time constant of half a second.
        assert largest < 1.0 - PERIOD
        assert np.abs(loop.base[:3] - there[:3]).max() < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("robot", "controller", "base"),
    [("go1", "id-coulomb-qp", "estimated"), ("go1", "pid", "plant"), ("solo12", "id-coulomb-qp", "plant")],
)
def test_ten_minutes_of_standing_with_encoders_that_err_move_no_base(robot, controller, base):
    path = WalkPath(kind="command", stand_from_s=0.0)
    sensing = Sensing(base=base, bias=BiasLevel(encoder_rad=0.03))
    config = WalkConfig(robot=robot, controller=controller, path=path, sensing=sensing)
    ticks = WalkScene.of(config).simulated().ticks(600_000)
    poses = np.array([tick.state.q[:7] for k, tick in enumerate(ticks) if k % 1000 == 0])
    # It moves over its feet within 5 s; then it rests, up to the tolerance of the plant.
    assert np.abs(poses[5:] - poses[5]).max() < 1e-4
