"""Straight motions of a hand: they begin and end at rest, and their joints put the hand where it should be."""

import functools

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idcontrol.experiments.jar.machine import ARM_JOINTS, PALM, arm_with_hand
from idcontrol.planners.cartesian import InverseKinematics, between, smooth


@given(st.floats(0.0, 1.0))
def test_the_motion_is_monotonic_and_the_same_backwards(share):
    assert smooth(1.0 - share) == pytest.approx(1.0 - smooth(share), abs=1e-12)
    assert smooth(share) <= smooth(min(1.0, share + 1e-3))


@functools.cache
def hand():
    return arm_with_hand(np.zeros(3), mirrored=False)[0]


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**6))
def test_a_pose_nearby_is_reached_by_joints_within_their_limits(seed):
    rng = np.random.default_rng(seed)
    system = hand()
    low, high = system.model.lowerPositionLimit, system.model.upperPositionLimit
    q = np.zeros(system.model.nq)
    q[:ARM_JOINTS] = np.array([0.2, 0.9, 0.3, -1.3, 0.2, -1.2, 0.4]) + rng.uniform(-0.2, 0.2, ARM_JOINTS)
    ik = InverseKinematics(system.model, system.frame(PALM), ARM_JOINTS, q[:ARM_JOINTS].copy(), q)
    start = ik.pose()
    goal = start * pin.SE3(pin.exp3(rng.uniform(-0.2, 0.2, 3)), rng.uniform(-0.05, 0.05, 3))
    for way in np.linspace(0.0, 1.0, 50):
        joints = ik(between(start, goal, way))
        assert (joints >= low[:ARM_JOINTS]).all()
        assert (joints <= high[:ARM_JOINTS]).all()
    assert ik.error(goal) < 1e-4  # the hand lags its path by a damped step
