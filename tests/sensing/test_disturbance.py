"""Delay, bias and noise have the requested size."""

import numpy as np
import pinocchio as pin
import pytest

from idcontrol.sensing.disturbance import Bias, BiasLevel, Noise, NoiseLevel
from idcontrol.types import ContactForces, Sensed, State
from tests import scenes


def sensed(system, t=0.0):
    forces = ContactForces(identity=np.array([2]), force=np.array([[0, 0, 20.0]]), normal=np.array([[0, 0, 1.0]]))
    state = State(t=t, q=scenes.home(system), v=np.zeros(18), forces=forces)
    return Sensed(state=state, tau=np.zeros(12), accelerometer=np.array([0, 0, 9.81]))


def test_noise_has_the_requested_standard_deviation(quadruped):
    level = NoiseLevel(
        position_m=0.01, tilt_rad=0.02, joint_rad=0.03, velocity_m_s=0.1, rate_rad_s=0.2, joint_rad_s=0.3,
        acceleration_m_s2=0.4, force_n=0.5,
    )  # fmt: skip
    noise, truth = Noise(level, quadruped.model, np.random.default_rng(0)), sensed(quadruped)
    seen = [noise(truth) for _ in range(2000)]
    dq = np.array([pin.difference(quadruped.model, truth.state.q, one.state.q) for one in seen])
    dv = np.array([one.state.v for one in seen])
    df = np.array([one.state.forces.force[0] - [0, 0, 20.0] for one in seen])
    da = np.array([one.accelerometer - truth.accelerometer for one in seen])
    # 2000 draws give a standard deviation within 1/sqrt(4000) = 1.6 % (one sigma) on each axis; 8 % is five sigma
    for result, asked in (
        (dq[:, :3], 0.01), (dq[:, 3:6], 0.02), (dq[:, 6:], 0.03), (dv[:, :3], 0.1), (dv[:, 3:6], 0.2),
        (dv[:, 6:], 0.3), (da, 0.4), (df, 0.5),
    ):  # fmt: skip
        np.testing.assert_allclose(result.std(axis=0), asked, rtol=0.08)
    np.testing.assert_allclose([np.linalg.norm(one.state.q[3:7]) for one in seen], 1.0, atol=1e-12)


def test_the_same_seed_makes_the_same_noise_and_no_noise_changes_nothing(quadruped):
    truth = sensed(quadruped)
    a, b = (
        Noise(NoiseLevel(joint_rad=0.1), quadruped.model, np.random.default_rng(3))(truth).state.q for _ in range(2)
    )
    np.testing.assert_array_equal(a, b)
    still = Noise(NoiseLevel(), quadruped.model, np.random.default_rng(3))(truth)
    right = Bias(BiasLevel(), quadruped.model, np.random.default_rng(3))(truth)
    for same in (still, right):
        np.testing.assert_allclose(same.state.q, truth.state.q, atol=1e-15)
        np.testing.assert_array_equal(same.state.v, truth.state.v)
        np.testing.assert_array_equal(same.state.forces.force, truth.state.forces.force)
        np.testing.assert_array_equal(same.accelerometer, truth.accelerometer)


@pytest.mark.parametrize("seed", range(4))
def test_bias_has_the_requested_size_and_is_constant(quadruped, seed):
    level = BiasLevel(attitude_rad=0.02, encoder_rad=0.03, gyro_rad_s=0.04, accelerometer_m_s2=0.5)
    bias, truth = Bias(level, quadruped.model, np.random.default_rng(seed)), sensed(quadruped)
    seen, again = bias(truth), bias(truth)
    error = pin.difference(quadruped.model, truth.state.q, seen.state.q)
    np.testing.assert_allclose(error[[0, 1, 2, 5]], 0.0, atol=1e-15)  # a tilt changes neither position nor heading
    np.testing.assert_allclose(np.linalg.norm(error[3:5]), 0.02)
    np.testing.assert_allclose(np.abs(error[6:]), 0.03)
    assert len(set(np.sign(error[6:]))) == 2
    felt = seen.accelerometer - truth.accelerometer
    np.testing.assert_allclose([np.linalg.norm(seen.state.v[3:6]), np.linalg.norm(felt)], [0.04, 0.5])
    assert np.linalg.norm(np.cross(seen.state.v[3:6], felt)) > 0.04 * 0.5 * 0.1  # independent directions
    assert not np.delete(seen.state.v, [3, 4, 5]).any()
    np.testing.assert_array_equal(seen.state.q, again.state.q)
    np.testing.assert_array_equal(seen.accelerometer, again.accelerometer)
