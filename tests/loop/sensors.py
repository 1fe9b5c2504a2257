"""Readings of real sensors: noise, constant errors, coarse or filtered encoders, a slow IMU, in a machine's messages.

`idcontrol.sensing` adds such errors behind the checks of a loop. Here they pass through the checks.
"""

from __future__ import annotations

from collections import deque

import msgspec
import numpy as np
import pinocchio as pin

from idcontrol.sensing.disturbance import Bias, BiasLevel, NoiseLevel
from tests.loop.storms import Body


class Readings(msgspec.Struct, frozen=True, kw_only=True):
    """Errors of the sensors of a machine.

    Attributes:
        noise, bias: Noise and constant errors.
        counts: Positions of an encoder in a turn; 0 for exact positions.
        filter_s: Time constant of the filter of joint velocities.
        differences: True if joint velocities are differences of the encoder's positions, before the filter.
        imu_ticks: Ticks between two readings of the IMU.
        delay_ticks: Age of all readings.
    """

    noise: NoiseLevel = NoiseLevel()
    bias: BiasLevel = BiasLevel()
    counts: int = 0
    filter_s: float = 0.0
    differences: bool = False
    imu_ticks: int = 1
    delay_ticks: int = 0


# Bosch BMI088 (data sheet BST-BMI088-DS001): 0.014 °/s/√Hz and 160 to 190 µg/√Hz, over the 500 Hz of a 1 kHz loop
NOISE = NoiseLevel(
    rate_rad_s=5.5e-3, acceleration_m_s2=0.042, tilt_rad=1e-3, joint_rad=1e-4, joint_rad_s=5e-3, force_n=1.0
)
BIAS = BiasLevel(gyro_rad_s=0.01, accelerometer_m_s2=0.2, encoder_rad=0.01, attitude_rad=0.01)
ROUGH = NoiseLevel(rate_rad_s=0.02, acceleration_m_s2=0.2, tilt_rad=3e-3, joint_rad=5e-4, joint_rad_s=0.05, force_n=5.0)
READINGS = {
    "exact": Readings(),
    "typical": Readings(noise=NOISE, bias=BIAS),
    "rough": Readings(noise=ROUGH, bias=BIAS),
    "12 bit": Readings(counts=4096),
    "12 bit, differences": Readings(counts=4096, differences=True, filter_s=0.005),
    "slow IMU": Readings(noise=NOISE, imu_ticks=5),
    "late": Readings(noise=NOISE, delay_ticks=3),
    "filtered": Readings(noise=NOISE, filter_s=0.003),
}
"""Sensors of robots."""


def spoil(body: Body, readings: Readings, model, dt: float, seed: int) -> None:
    """Let the machine of `body` send `readings` every `dt` [s]."""
    rng = np.random.default_rng(seed)
    bias, noise = Bias(readings.bias, model, rng), readings.noise
    body.offset[:] = bias.q[6:]  # drives and messages have the same encoders
    joints, held = model.nv - 6, deque(maxlen=readings.delay_ticks + 1)
    step = 2.0 * np.pi / readings.counts if readings.counts else 0.0
    share = dt / (dt + readings.filter_s)
    last, imu, ticks = {}, {}, 0

    def lie(of):
        nonlocal ticks
        q, v = of["q"], of["v"]
        turn = bias.q[3:6] + noise.tilt_rad * rng.standard_normal(3)
        q[3:7] = pin.Quaternion(pin.Quaternion(q[3:7].copy()).matrix() @ pin.exp3(turn)).normalized().coeffs()
        q[7:] += bias.q[6:] + noise.joint_rad * rng.standard_normal(joints)
        v[3:6] += bias.gyro + noise.rate_rad_s * rng.standard_normal(3)
        v[6:] += noise.joint_rad_s * rng.standard_normal(joints)
        of["accelerometer"][:] += bias.accelerometer + noise.acceleration_m_s2 * rng.standard_normal(3)
        felt = np.any(of["normal_sensed"] != 0.0, axis=1)
        of["force_sensed"][felt] += noise.force_n * rng.standard_normal((felt.sum(), 3))
        if step:
            q[7:] = step * np.round(q[7:] / step)
        if readings.differences:
            v[6:] = (q[7:] - last["q"]) / dt if last else 0.0
        if readings.filter_s:
            v[6:] = last["v"] + share * (v[6:] - last["v"]) if last else v[6:]
        last["q"], last["v"] = q[7:].copy(), v[6:].copy()
        if ticks % readings.imu_ticks == 0:
            imu.update(q=q[3:7].copy(), v=v[3:6].copy(), a=of["accelerometer"].copy())
        q[3:7], v[3:6], of["accelerometer"][:] = imu["q"], imu["v"], imu["a"]
        ticks += 1
        held.append({name: np.copy(value) for name, value in of.items() if name != "t"})
        for name, value in held[0].items():
            of[name][...] = value

    body.lies.append(lie)
