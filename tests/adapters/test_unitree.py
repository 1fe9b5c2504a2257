"""Unitree's messages: layout, checksum, and conversion for a loop."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idcontrol.adapters.unitree import (
    LOW_CMD,
    LOW_STATE,
    NAMES,
    OFF,
    REMOTE,
    SERVO,
    blank_command,
    checksum,
    read_command,
    read_state,
    write_command,
)
from idcontrol.loop.order import translation
from idcontrol.loop.session import resolve, wire_format
from idcontrol.scenes.walk import WalkConfig

LEGS = ("FR", "FL", "RR", "RL")


@pytest.fixture(scope="module")
def session():
    return resolve("idcontrol.experiments.live:loop", WalkConfig(robot="go1"))


def drawn(layout, seed=0):
    """Return a message with a different number in every field."""
    rng, message = np.random.default_rng(seed), np.zeros((), dtype=layout)

    def fill(part):
        for name in part.dtype.names:
            field = part[name]
            if field.dtype.names:
                fill(field)
            else:
                part[name] = rng.integers(0, 100, field.shape)

    fill(message)
    return message


def mpeg(data):
    """Compute CRC-32/MPEG-2 by its definition, bit by bit."""
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte << 24
        for _ in range(8):
            register = (register << 1) ^ (0x104C11DB7 if register >> 31 else 0)
    return register


def test_the_structures_have_the_sizes_that_the_sdk_packs():
    """Messages have 812 and 1180 bytes, as in unitree_sdk2_python, utils/crc.py."""
    assert LOW_CMD.itemsize == 812
    assert LOW_STATE.itemsize == 1180


@settings(max_examples=10)
@given(st.sampled_from([LOW_CMD, LOW_STATE]), st.integers(0, 2**32 - 1))
def test_the_checksum_is_crc32_mpeg2_over_words(layout, seed):
    message = drawn(layout, seed)
    words = np.frombuffer(message.tobytes(), "<u4")[:-1]
    assert checksum(message) == mpeg(b"".join(int(word).to_bytes(4, "big") for word in words))


@pytest.mark.parametrize("layout", NAMES, ids=NAMES.values())
def test_the_bytes_equal_cyclone_dds(layout):
    pytest.importorskip("cyclonedds")
    from idcontrol.adapters.bus import idl_type, places

    def parse(part):
        if part.dtype.names is None:
            return part.tolist()
        if part.shape:
            return [parse(one) for one in part]
        return idl_type(part.dtype)(**{name: parse(part[name]) for name in part.dtype.names})

    message, place = drawn(layout), places(layout)
    ours = np.where(place < 0, 0, np.frombuffer(message.tobytes(), np.uint8)[place]).astype(np.uint8).tobytes()
    assert parse(message).serialize()[4:] == ours


@given(st.integers(0, 2**32 - 1))
def test_a_command_is_read_back_in_single_precision(seed):
    rows, message = np.random.default_rng(seed).uniform(-30.0, 30.0, (5, 12)), blank_command()
    write_command(message, rows, SERVO)
    np.testing.assert_array_equal(read_command(message, 12), rows.astype(np.float32))
    assert message["crc"] == checksum(message)
    assert not message["motor_cmd"]["mode"][12:].any()
    motor = message["motor_cmd"][4]
    np.testing.assert_array_equal(
        [motor[name] for name in ("tau", "q", "dq", "kp", "kd")], rows[:, 4].astype(np.float32)
    )


def test_motors_that_are_off_have_no_gains_and_torque():
    message = blank_command()
    write_command(message, np.ones((5, 12)), OFF)
    assert not read_command(message, 12).any()


def test_a_loop_finds_each_joint_by_its_name(session):
    message = np.zeros((), dtype=LOW_STATE)
    imu, motors = message["imu_state"], message["motor_state"]
    imu["quaternion"], imu["gyroscope"], imu["accelerometer"] = [0.8, 0.0, 0.6, 0.0], [1, 2, 3], [4, 5, 6]
    of = {}  # by name: angle, velocity, torque, temperature
    for i, name in enumerate(f"{leg}_{joint}_joint" for leg in LEGS for joint in ("hip", "thigh", "calf")):
        of[name] = (0.1 * i, 1.0 + i, 2.0 + i, 30 + i)
        motors["q"][i], motors["dq"][i], motors["tau_est"][i], motors["temperature"][i] = of[name]
    message["tick"], message["power_v"] = 1234, 25.5
    remote = message["wireless_remote"].view(REMOTE)
    remote["ly"], remote["lx"], remote["rx"], remote["ry"], remote["buttons"] = 0.5, 0.25, -0.75, 1.0, 1 << 8
    system, wire = session.system, wire_format(session)
    translate = translation(session.orders["unitree"], system, session.feet, wire)

    values = np.full(wire.state_values, 7.0)
    read_state(message, values, wire, system)
    low, high = wire.state_range()
    assert (np.isnan(values) | ((values <= high) & ~(values < low))).all()
    ours = translate.state(values)
    sensed, health = wire.read_state(ours), wire.health(ours)
    assert sensed.state.t == pytest.approx(1.234)
    np.testing.assert_allclose(sensed.state.q[:7], [0, 0, 0, 0, 0.6, 0, 0.8], rtol=1e-6)
    np.testing.assert_array_equal(sensed.state.v[:6], [0, 0, 0, 1, 2, 3])
    np.testing.assert_array_equal(sensed.accelerometer, [4, 5, 6])
    readings = [system.joint_positions(sensed.state.q), system.joint_velocities(sensed.state.v), sensed.tau]
    readings.append(health.temperature)
    np.testing.assert_allclose(np.transpose(readings), [of[name] for name in system.actuated_names], rtol=1e-6)
    assert health.supply[0] == 25.5
    np.testing.assert_array_equal(health.operator, [0.5, -0.25, 0.75, 1.0, 256])
    assert np.isnan([*health.drive_error, health.supply[1], ours[-1]]).all()
    assert sensed.state.forces.identity.size == 0
