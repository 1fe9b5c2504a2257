"""A healthy robot walks without a fault, whatever its sensors are."""

from __future__ import annotations

import pytest
from msgspec import structs

from idcontrol.loop.safety import Fault, Mode
from idcontrol.loop.session import resolve
from idcontrol.scenes.walk import ActuatorSettings, CommandSettings, WalkConfig, WalkPath
from idcontrol.sensing import Sensing
from tests.loop import rig as rigs
from tests.loop import storms
from tests.loop.sensors import BIAS, NOISE, READINGS, Readings, spoil
from tests.loop.storms import AHEAD, WALK, Body, walking

SENSING = {
    "sent base": Sensing(),
    "estimated base": Sensing(base="estimated"),
    "geometry": Sensing(contacts="geometry"),
    "sensed": Sensing(contacts="sensed"),
    "fused": Sensing(base="estimated", contacts="fused"),
}
"""Ways to use readings."""


class Faults:
    """Rows of a loop: the number of running ticks, and the faults in them; rows are not stored."""

    def __init__(self):
        self.ticks, self.seen = 0, Fault.NONE

    def append(self, row):
        if int(row["mode"]) == Mode.RUNNING:
            self.ticks += 1
            self.seen |= Fault(int(row["faults"]))


def walk(robot, kind, readings, way, duration_s, seed=0, velocity=AHEAD):
    """Return loop and machine after a walk with these sensors; its `rows` are `Faults`."""
    rig = walking(robot, kind, SENSING[way], velocity, duration_s=duration_s)
    rig.rows, rig.machine_rows = Faults(), Faults()
    spoil(Body(rig), READINGS[readings], rig.session.system.model, 1e-3, seed)
    return rig.run()


def check(rig):
    # Drives of the plant feed back constant errors, but no noise, and the loop predicts their torques from all errors:
    # while drives have gains, a tick with a difference is an event and no fault.
    assert not rig.rows.seen & ~(Fault.TORQUE | Fault.MOTION)
    assert rig.loop.safety.ended_by == Fault.NONE
    assert rig.loop.counts.complete


@pytest.mark.slow
def test_a_walk_with_poor_sensors_has_no_fault():
    check(walk("links", "torque", "12 bit, differences", "sent base", 0.3))


@pytest.mark.slow
def test_a_walk_with_gains_and_late_readings_has_no_fault():
    check(walk("go1", "impedance", "late", "estimated base", 0.6))


@pytest.mark.slow
def test_constant_errors_of_encoders_that_drives_share_are_no_fault():
    check(walk("links", "impedance", "rough", "estimated base", 0.4, 342))


@pytest.mark.slow
def test_constant_errors_of_sensors_of_a_weak_robot_are_no_fault():
    check(walk("solo12", "torque", "typical", "sent base", 3.0, 493, (0.286, -0.043, 0.149)))


@pytest.mark.slow
def test_torques_that_change_quickly_and_late_readings_are_no_fault_of_a_robot_with_friction(monkeypatch):
    path, actuators = WalkPath(kind="command", command=((0.0, -0.13, 0.09, -0.11),)), ActuatorSettings(kind="robot")
    session = resolve(WALK, WalkConfig(robot="go1", duration_s=30.0, path=path, actuators=actuators))
    monkeypatch.setattr(storms, "session_of", lambda *args: session)
    friction = {"friction": session.setup().system.actuators.friction}
    usual = storms.sensed
    monkeypatch.setattr(storms, "sensed", lambda *args: usual(*args) | friction)
    check(walk("go1", "torque", "late", "geometry", 1.0, 817))


def test_coarse_encoders_of_hips_that_the_ground_holds_are_no_fault_while_a_robot_lies_down(monkeypatch):
    """Hips at zero read the same position, and a velocity of zero, although their references move by 0.02 rad."""
    still = WalkConfig(robot="solo12", duration_s=30.0, mu=0.8, path=WalkPath(kind="command", command=((0.0,) * 4,)))
    config = structs.replace(still, gait=structs.replace(still.gait, kind="stand"))
    session = resolve(WALK, structs.replace(config, command=CommandSettings(kind="impedance")))
    monkeypatch.setattr(storms, "session_of", lambda *args: session)
    check(walk("solo12", "impedance", "12 bit, differences", "sent base", 0.2, 1))


@pytest.mark.slow
@pytest.mark.parametrize("robot", ["go1", "solo12", "anymal"])
def test_a_robot_walks_at_500_hz_with_all_errors_of_sensors_at_once(monkeypatch, robot):
    """With torque commands and the estimated base, the base keeps its height to 5 %."""
    monkeypatch.setattr(rigs, "H", 2e-3)
    monkeypatch.setattr(rigs, "PERIOD", 2 * rigs.PERIOD)
    path = WalkPath(kind="command", command=((0.0, *AHEAD),))
    session = resolve(WALK, WalkConfig(robot=robot, duration_s=60.0, rate_hz=500.0, path=path))
    monkeypatch.setattr(storms, "session_of", lambda *args: session)
    rig = walking(robot, "torque", SENSING["estimated base"], duration_s=30.0, machine_period=rigs.PERIOD)
    rig.rows = Faults()
    errors = Readings(noise=NOISE, bias=BIAS, counts=4096, filter_s=0.003, imu_ticks=2, delay_ticks=1)
    spoil(Body(rig), errors, session.system.model, rigs.H, 0)
    check(rig.run())
    assert rig.rows.ticks * rigs.H >= 30.0
    heights = [row["q"][2] for row in rig.machine_rows if int(row["mode"]) == Mode.RUNNING][:15_000]
    assert max(heights) - min(heights) < 0.05 * heights[0]


@pytest.mark.slow
@pytest.mark.parametrize("way", SENSING)
@pytest.mark.parametrize("readings", READINGS)
@pytest.mark.parametrize(("robot", "kind"), [("links", "torque"), ("links", "impedance"), ("go1", "torque")])
def test_ten_seconds_of_walking_have_no_fault(robot, kind, readings, way):
    if (robot, kind, readings) == ("links", "torque", "12 bit, differences"):
        pytest.skip("with these encoders, links needs gains in its drives to walk")
    rig = walk(robot, kind, readings, way, 10.0)
    assert rig.rows.ticks >= 10_000
    check(rig)
