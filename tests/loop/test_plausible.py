"""Plausibility of encoders and base orientation: values that stand still or jump are doubted, coarse ones are not."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pinocchio as pin
import pytest

from idcontrol import cli
from idcontrol.dynamics.system import rotate, shorter
from idcontrol.loop.clock import NS
from idcontrol.loop.encoders import (
    DRIFT_S,
    FORGOTTEN_S,
    LAG_S,
    SETTLE_S,
    SWIFTEST,
    Drives,
    Trust,
    contradiction,
    expect,
    nothing,
    sticks,
)
from idcontrol.loop.inertial import LURCH, TURN, Carried, accelerates, senses, unread
from idcontrol.loop.safety import Fault, Mode, Policy
from idcontrol.loop.session import resolve
from idcontrol.scenes.disturbances import Disturbance
from idcontrol.scenes.walk import CommandSettings, WalkConfig
from idcontrol.sensing import Sensing
from tests.loop import storms
from tests.loop.sensors import READINGS, spoil
from tests.loop.storms import Body, Storm, machine_repeats_itself, walking

H = 1e-3
REST = [0.0, 0.0, 0.0]
TRUST = Trust(Policy().jump, Policy().rest_speed, Policy().frozen_s, Policy().frozen)


def turning(angle, axis=2):
    """The orientation after a turn about an axis [rad]."""
    quaternion = np.zeros(4)
    quaternion[axis], quaternion[3] = np.sin(0.5 * angle), np.cos(0.5 * angle)
    return quaternion


def first_doubt(states, h=H):
    """Return the time at which a state is first doubted [s]; None if none is.

    States are q, v and an orientation, `h` apart [s].
    """
    heard = nothing(1, 1)
    for k, (q, v, orientation) in enumerate(states):
        angle, straight = np.array([q]), np.zeros(1, dtype=np.bool_)
        if contradiction(heard, TRUST, straight, k * h, angle, np.array(v), orientation) >= 0:
            return k * h
    return None


@pytest.mark.parametrize("speed", [0.06, 0.5, 5.0, 30.0])
@pytest.mark.parametrize("bits", [10, 12, 14])
def test_a_coarse_encoder_with_an_exact_velocity_is_believed(speed, bits):
    count = 2.0 * np.pi / 2**bits
    assert first_doubt((count * (speed * k * H // count), [speed, *REST], turning(0.0)) for k in range(2000)) is None


@pytest.mark.parametrize("speed", [0.2, 1.0, 2.0])
def test_an_encoder_that_stands_still_despite_its_velocity_is_doubted(speed):
    expected = min(max(TRUST.still, TRUST.way / speed), TRUST.jump / speed)
    assert first_doubt((0.3, [speed, *REST], turning(0.0)) for _ in range(2000)) == pytest.approx(expected, abs=2 * H)


@pytest.mark.parametrize("rate", [0.2, 3.0])  # of the base [rad/s]
def test_an_orientation_that_stands_still_while_the_gyroscope_turns_is_doubted(rate):
    states = [(0.0, [*REST, rate], turning(rate * k * H if k < 100 else 0.1 * rate)) for k in range(1000)]
    stands, strays = max(TRUST.still, TRUST.way / rate), TRUST.jump / rate
    assert first_doubt(states) == pytest.approx(0.1 + min(stands, strays), abs=3 * H)


ORIENTATION, GYROSCOPE, ACCELEROMETER = range(3)


def first_frozen(rate, period, moves, last=1.1, frozen=(0, 1, 2), accelerometer=None):
    """Return the time at which an inertial sensor first counts as frozen [s], and which of its two verdicts says so.

    The parts `frozen` stand still after 0.1 s; the last angular velocity is `rate` times `last`, and the last reading
    of the `accelerometer` is its last one, or this.
    """
    inertial = unread(1)
    for k in range(1000):
        at = [(min(k, 100) if part in frozen else k) // period * period * H for part in range(3)]
        spin = rate * (1.0 + at[1] if k < 100 or GYROSCOPE not in frozen else last)
        pull = 9.81 + at[2] if k < 100 or accelerometer is None else accelerometer
        readings = np.r_[turning(rate * at[0]), 0.0, 0.0, spin, 0.0, 0.0, pull]
        works = senses(inertial, TRUST, np.array([moves * k * H]), readings, H if k else np.nan)
        if not all(works):
            return k * H, works.index(False)
    return None


@pytest.mark.parametrize("rate", [1e-3, 0.2])  # of the base [rad/s]
@pytest.mark.parametrize("period", [1, 10])  # of the sensor, in states
def test_a_constant_inertial_sensor_is_doubted_while_a_joint_moves(rate, period):
    at_once, slowly = (pytest.approx(0.1 + s, abs=2 * H) for s in (TRUST.still, TRUST.way / 0.1))
    assert first_frozen(rate, period, 1.0) == (at_once, 0)
    assert first_frozen(rate, period, 0.1) == (slowly, 0)
    assert first_frozen(rate, period, 1.0, last=0.0) == (at_once, 0)
    assert first_frozen(rate, period, 0.0) is None
    assert first_frozen(0.0, period, 1.0) is None  # a simulated base on a stand


@pytest.mark.parametrize("part", [ORIENTATION, GYROSCOPE])
@pytest.mark.parametrize("period", [1, 10])
def test_an_orientation_or_gyroscope_alone_is_doubted_once_the_other_has_turned(part, period):
    assert first_frozen(0.2, period, 1.0, frozen=(part,)) == (pytest.approx(0.1 + TRUST.still, abs=10 * H), 0)
    assert first_frozen(0.02, period, 1.0, frozen=(part,)) == (pytest.approx(0.1 + TURN / 0.022, abs=20 * H), 0)
    assert first_frozen(0.2, period, 0.0, frozen=(part,)) is None


@pytest.mark.parametrize("reads", [None, 0.0, np.nan])
def test_a_dead_accelerometer_differs_from_a_missing_one(reads):
    dead = (pytest.approx(0.1 + TRUST.still, abs=2 * H), 1)
    assert first_frozen(0.2, 1, 1.0, frozen=(ACCELEROMETER,), accelerometer=reads) == dead
    assert first_frozen(0.2, 1, 0.0, frozen=(ACCELEROMETER,), accelerometer=reads) is None
    readings, inertial = np.r_[turning(0.0), np.zeros(3), np.full(3, np.nan)], unread(1)
    for k in range(200):
        readings[4] = 1e-6 * k
        assert senses(inertial, TRUST, np.array([k * H]), readings, H if k else np.nan) == (True, True)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_an_orientation_that_turns_about_one_axis_or_changes_its_sign_is_believed(axis):
    states = [
        (0.0, np.r_[0.0, 3.0 * np.eye(3)[axis]], (-1) ** (k // 7) * turning(3.0 * k * H, axis)) for k in range(3000)
    ]
    assert first_doubt(states) is None


def test_a_velocity_is_turned_into_the_world():
    rng = np.random.default_rng(0)
    for _ in range(10):
        turned, v, out = pin.Quaternion(pin.SE3.Random().rotation), rng.normal(size=6), np.zeros(3)
        rotate(turned.coeffs(), v, out)
        np.testing.assert_allclose(out, turned.matrix() @ v[:3], atol=1e-14)  # rounding


def doubts(
    drop_s=0.05, errors=(0.0, 0.0, 0.0), reads=lambda k, specific: specific + 1e-9 * k, step=0.0, after=lambda k: H
):
    """Return the states in which a base's velocity is doubted; state k is ``after(k)`` later than the last.

    A turned base falls for the first `drop_s` [s] and then rests; from state 100 on, its velocity is sent with a `step`
    [m/s] along x.
    """
    carried, turned, doubted = Carried(*np.zeros((3, 3)), np.full(1, np.inf)), turning(0.3, 1), []
    to_base = pin.Quaternion(turned.copy()).matrix().T
    for k in range(1000):
        v = np.array([step * (k >= 100), 0.0, -9.81 * min(k * H, drop_s)])
        specific = to_base @ (np.array([0.0, 0.0, 9.81 * (k * H > drop_s)]) + errors)
        if not accelerates(carried, turned, to_base @ v, reads(k, specific), after(k) if k else np.nan):
            doubted.append(k)
    return doubted


def lurched(**options):
    """Return the time at which a base's velocity is first doubted [s] (`doubts`)."""
    doubted = doubts(**options)
    return doubted[0] * H if doubted else None


def test_a_velocity_of_the_base_that_its_accelerometer_does_not_explain_is_doubted():
    assert lurched() is None
    assert lurched(errors=(0.3, 0.0, -0.3)) is None
    assert lurched(errors=(0.0, 1.0, 0.0)) == pytest.approx(-FORGOTTEN_S * np.log(1.0 - LURCH / FORGOTTEN_S), abs=0.01)
    assert lurched(step=0.5) == pytest.approx(0.1)
    assert lurched(step=0.5, after=lambda k: H * (1 + (k == 100))) is None  # the missing state may have read a push
    assert lurched(step=0.5, after=lambda k: H * (1 + 2 * (50 < k <= 100))) is None  # a slow loop misses states
    assert lurched(step=0.5, after=lambda k: H * (0.4 if k == 90 else 1.0)) == pytest.approx(0.1)
    assert lurched(step=0.5, after=lambda k: H * (1.0 + 0.3 * np.sin(9.0 * k))) == pytest.approx(0.1)
    lossy = doubts(step=0.2, after=lambda k: H * (1 + (k % 3 == 2)))  # every fourth state is lost
    assert lossy == list(range(100, 100 + len(lossy)))
    assert len(lossy) > 20
    assert lurched(step=0.5, reads=lambda k, f: np.full(3, np.nan)) is None  # without an accelerometer
    assert lurched(step=0.5, reads=lambda k, f: np.zeros(3)) is None


def test_an_orientation_that_jumps_is_doubted():
    states = [(0.0, np.zeros(4), turning(0.0 if k < 10 else 0.3)) for k in range(20)]
    assert first_doubt(states) == 10 * H


@pytest.mark.parametrize("offset", [0.09, -0.2])
def test_a_joint_angle_that_jumps_is_doubted_at_once(offset):
    states = [(0.3 * np.sin(k * H) + (k >= 50) * offset, [0.3 * np.cos(k * H), *REST], turning(0)) for k in range(99)]
    assert first_doubt(states) == 50 * H


@pytest.mark.parametrize("periods", [1, 2])
@pytest.mark.parametrize("rate", [0.5, -5.0, 0.09, 0.02])  # of the offset [rad/s]
def test_an_offset_that_drifts_fast_is_doubted(rate, periods):
    """In a slower loop differences are forgotten faster, and may be larger."""
    h, forgotten = periods * H, DRIFT_S / periods
    states = (
        (0.3 * np.sin(k * h) + rate * max(0.0, k * h - 0.1), [0.3 * np.cos(k * h), *REST], turning(0.0))
        for k in range(2000)
    )
    # the difference approaches rate * forgotten with this time constant
    share = (TRUST.jump * (periods + h / SETTLE_S) + 0.5 * SWIFTEST * h**2) / (abs(rate) * forgotten)
    expected = 0.1 - forgotten * np.log1p(-share) if share < 1.0 else None
    assert first_doubt(states, h) == (expected and pytest.approx(expected, abs=0.01))


@pytest.mark.parametrize("speed", [120.0, 500.0, -500.0])
def test_a_velocity_without_motion_is_doubted_at_once_and_hides_no_jump(speed):
    states = [(0.0, [speed * (k >= 50), *REST], turning(0.0)) for k in range(99)]
    assert first_doubt(states) == 50 * H
    assert first_doubt([(0.4 * (k >= 50), *rest) for k, (_, *rest) in enumerate(states)]) == 50 * H


@pytest.mark.parametrize(("filter_s", "speed"), [(3e-3, 8.0), (5e-3, 20.0), (0.9 * LAG_S, 20.0)])
def test_a_filtered_velocity_is_believed_after_an_impact(filter_s, speed):
    t = H * np.arange(200)
    q = np.where(t < 0.1, speed * t, 0.1 * speed)
    v = np.where(t < 0.1, speed * (1.0 - np.exp(-t / filter_s)), speed * np.exp(-(t - 0.1) / filter_s))
    assert first_doubt((*pair, turning(0.0)) for pair in zip(q, np.c_[v, np.zeros((200, 3))], strict=True)) is None


def test_a_drive_is_expected_to_feed_back_the_state_that_the_machine_sent():
    """Two joints, the second continuous and nearly half a turn from its target; a third is at its limit."""
    rows = np.array([[1.0, 1.0, 1.0], [0.3, 3.0, 9.0], [2.0, 0.0, 0.0], [10.0, 10.0, 10.0], [0.5, 0.0, 0.0]])
    drives = Drives(rows, np.full(3, 5.0), *np.zeros((10, 3)), *np.zeros((3, 3, 3)))
    circle, q, v = np.array([False, True, False]), np.array([0.1, -3.0, 0.0]), np.array([1.0, 0.0, 0.0])
    expect(drives, circle, q, v)
    np.testing.assert_allclose(drives.sent, [1.0 + 2.0 + 0.5, 1.0 - 10.0 * (2.0 * np.pi - 6.0), 5.0], rtol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("robot", ["links", "go1"])
def test_a_robot_with_wrong_encoders_stands_up_and_walks(robot, tmp_path, capsys):
    """The loop adds the errors to the state, but the drives, which are stiff at first, feed back the true state."""
    line = f"loop --robot {robot} --transport inprocess --pacing fast --duration 2 --json --out {tmp_path}/run --set "
    assert cli.main([*line.split(), "loop.sensing.bias.encoder_rad=0.03"]) == 0
    assert json.loads(capsys.readouterr().out)["completed"]


STRAIGHT = np.zeros(2, dtype=bool)
"""No joint turns without end."""


def stuck_until(torque, friction=0.0, step=np.inf, fades=lambda k: 1.0):
    """Return by how much the reference of a joint with a constant position has moved when it is doubted [rad].

    The reference moves at 0.2 rad/s; torques change by `torque` after 15 ms, with a limit of 1 N m. The encoder has
    once moved by `step`. The velocity is multiplied by ``fades(k)`` after state k.
    """
    heard, finest = nothing(1, 1), np.full(1, step)
    drives = Drives(
        np.zeros((5, 1)), *np.zeros((4, 1)), np.full(1, Policy().torque_share), np.full(1, friction), finest,
        *np.zeros((4, 1)), *np.zeros((3, 3, 1)),
    )  # fmt: skip
    q, heard.v[0] = np.zeros(1), 1.0
    for k in range(1000):
        v = fades(k) * heard.v[:1]
        if sticks(heard, drives, TRUST, STRAIGHT, q, v, H if k else np.nan) >= 0:
            return drives.reference[0]
        heard.v[0] = v[0]
        drives.sent[0], drives.reference[0] = torque * (k >= 15), 0.2 * k * H
    return None


@pytest.mark.parametrize(
    ("torque", "friction", "step", "doubted"),
    [
        (0.0, 0.0, np.inf, None),
        (0.02, 0.0, np.inf, 0.037),
        (0.2, 0.0, np.inf, 0.01),
        (0.02, 0.0, 1e-6, 0.004),  # it has stood still for 20 ms
        (0.02, 0.0, 5e-5, 0.009),  # 17 bits
        (0.02, 0.0, 1e-3, 0.037),
        (0.02, 0.01, 1e-6, None),
        (0.03, 0.01, 1e-6, 0.004),
    ],
)
def test_a_constant_reading_is_doubted_by_the_change_of_torque_and_reference(torque, friction, step, doubted):
    assert stuck_until(torque, friction, step) == (doubted and pytest.approx(doubted, abs=1e-3))


def test_a_constant_position_is_doubted_later_if_its_velocity_changes():
    """The longer time is seven times 20 ms."""
    assert stuck_until(0.2, fades=lambda k: 0.9, step=1e-4) == pytest.approx(0.028, abs=1e-3)
    assert stuck_until(0.2, fades=lambda k: 0.9, step=2e-3) == pytest.approx(0.04, abs=1e-3)  # 20 steps
    assert stuck_until(1.0, fades=lambda k: 0.9 if k < 60 else 1.0, step=1e-3) == pytest.approx(0.028, abs=1e-3)
    assert stuck_until(0.2, fades=lambda k: 1.01, step=1e-3) == pytest.approx(0.03, abs=1e-3)
    assert stuck_until(0.2, fades=lambda k: 0.9, step=1e-4, friction=0.1) is None
    assert stuck_until(0.2, fades=lambda k: float(k != 10)) == pytest.approx(0.012, abs=1e-3)  # zero from then on


@pytest.mark.parametrize(
    ("noise", "other", "behind", "doubted"),
    [(1e-4, 1e-3, 0.0, 0), (5e-4, 1e-3, 0.0, 0), (1e-4, 0.0, 0.0, -1), (1e-4, 1e-3, 0.04, -1)],
)
def test_a_reading_constant_but_for_noise_is_doubted_if_no_joint_else_is_held_nor_its_reference_returns(
    noise, other, behind, doubted
):
    """The reference begins at -`behind` [rad] and moves to 0.054 - `behind`."""
    heard, rng, seen = nothing(2, 2), np.random.default_rng(0), set()
    drives = Drives(
        np.zeros((5, 2)), *np.zeros((4, 2)), np.full(2, Policy().torque_share), np.zeros(2), np.full(2, np.inf),
        *np.zeros((4, 2)), *np.zeros((3, 3, 2)),
    )  # fmt: skip
    drives.reference[:] = -behind
    for k in range(270):
        q, v = noise * rng.standard_normal(2) + [0.0, other * k], 5e-3 * rng.standard_normal(2)
        seen.add(sticks(heard, drives, TRUST, STRAIGHT, q, v, H if k else np.nan))
        heard.q[:], heard.v[:2] = q, v
        drives.sent[:], drives.reference[:] = 2.0 * k * H, 0.2 * k * H - behind
    assert seen == {-1, doubted}


@pytest.mark.parametrize(("speed", "doubted"), [(0.0, -1), (0.2, 0)])
def test_a_reference_of_a_joint_that_turns_without_end_passes_half_a_turn_without_a_leap(speed, doubted):
    """The reference moves by 2 mrad to both sides of half a turn, and by `speed` [rad/s]."""
    heard, seen = nothing(2, 2), set()
    drives = Drives(
        np.zeros((5, 2)), *np.zeros((4, 2)), np.full(2, Policy().torque_share), np.zeros(2), np.full(2, np.inf),
        *np.zeros((4, 2)), *np.zeros((3, 3, 2)),
    )  # fmt: skip
    for k in range(270):
        q = np.array([np.pi - 1e-3, 1e-3 * k])
        drives.sent[:], drives.reference[:] = 2.0 * k * H, shorter(np.pi + speed * k * H + 2e-3 * (-1) ** k)
        seen.add(sticks(heard, drives, TRUST, ~STRAIGHT, q, np.zeros(2), H if k else np.nan))
        heard.q[:] = q
    assert seen == {-1, doubted}


def test_the_smallest_step_of_an_encoder_is_learnt():
    heard = nothing(1, 1)
    finest = np.full(1, np.inf)
    drives = Drives(np.zeros((5, 1)), *np.zeros((6, 1)), finest, *np.zeros((4, 1)), *np.zeros((3, 3, 1)))
    for k, q in enumerate((0.5, 0.5, 0.5 - 3e-3, 0.5 - 2e-3, 0.5)):
        sticks(heard, drives, TRUST, STRAIGHT, np.array([q]), np.ones(1), H if k else np.nan)
        heard.q[0] = q
    assert drives.finest[0] == pytest.approx(1e-3)


def test_a_knee_whose_readings_stand_still_on_a_standing_leg_brakes_the_machine():
    rig = walking("go1", "impedance", duration_s=0.8)
    storm, held, begun = Storm(rig, Body(rig), np.random.default_rng(0)), [], []

    def lie(of):
        held.append(of["q"][9])
        of["q"][9], of["v"][8] = held[0], 0.0

    storm.at(0.7, lambda: begun.append(len(rig.rows)))
    storm.lie(0.7, 9.0, lie)
    rig.run()
    assert rig.loop.safety.ended_by == Fault.ENCODER
    lied = rig.rows[begun[0] :]
    assert lied[0]["stance"].all()
    assert sum(int(row["mode"]) == Mode.RUNNING for row in lied) <= 50  # ms


def test_a_thigh_whose_coarse_encoder_freezes_brakes_the_machine_if_velocities_are_filtered():
    rig = walking("go1", "torque", duration_s=0.9)
    body, held, begun = Body(rig), [], []
    storm = Storm(rig, body, np.random.default_rng(0))
    spoil(body, READINGS["12 bit, differences"], rig.session.system.model, H, 1)

    def lie(of):
        held.append(of["q"][8])
        of["q"][8] = held[0]

    storm.at(0.7, lambda: begun.append(len(rig.rows)) or body.lies.insert(0, lie))
    rig.run()
    assert rig.loop.safety.ended_by == Fault.ENCODER
    assert {int(row["doubted"]) for row in rig.rows[begun[0] :] if int(row["faults"]) & Fault.ENCODER} == {1}
    assert sum(int(row["mode"]) == Mode.RUNNING for row in rig.rows[begun[0] :]) <= 170  # ms


def test_joints_that_the_ground_holds_while_a_loaded_robot_stands_up_are_not_blamed(monkeypatch):
    """The payload is 1.3 times the mass of the robot."""
    config = WalkConfig(
        robot="go1", command=CommandSettings(kind="impedance"), disturbance=Disturbance(payload_share=1.3)
    )  # fmt: skip
    session = resolve(storms.WALK, config)
    monkeypatch.setattr(storms, "session_of", lambda *options: session)
    rig = walking("go1", "impedance", start=session.lying)
    spoil(Body(rig), READINGS["12 bit, differences"], session.system.model, H, 1)
    rig.run(unrecorded_at=1.5)
    assert rig.loop.safety.ended_by == Fault.RECORDER
    assert not rig.faults() & Fault.ENCODER


def sparse(rig, every):
    """Let only one of `every` states of the machine arrive."""
    send, count = rig.to_loop.send, itertools.count()
    rig.to_loop.send = lambda data: None if next(count) % every else send(data)


@pytest.mark.parametrize("robot", ["links", "go1"])
def test_a_state_in_10_ms_is_no_fault_while_the_robot_walks(robot):
    rig = walking(robot, "torque", duration_s=0.9)
    rig.clock.at(NS // 5, lambda: sparse(rig, 10))
    assert rig.run().loop.counts.complete


@pytest.mark.parametrize(
    ("name", "axis", "by"), [("q", 0, -0.05), ("q", 1, 0.1), ("q", 2, 0.015), ("v", 0, 0.5), ("v", 2, -0.2)]
)
def test_a_sent_position_or_velocity_of_the_base_that_jumps_is_noticed_at_once(name, axis, by):
    rig = walking("links", "torque", duration_s=0.4)
    storm = Storm(rig, Body(rig), np.random.default_rng(0))
    before = []
    storm.at(0.3, lambda: before.append(len(rig.rows)))
    storm.lie(0.3, 9.0, lambda of: of[name].__setitem__(axis, of[name][axis] + by))
    rig.run()
    assert rig.loop.safety.ended_by == Fault.ENCODER
    assert next(k for k, row in enumerate(rig.rows) if int(row["faults"])) == before[0]


def test_an_unused_position_of_the_base_is_not_judged():
    rig = walking("links", "torque", Sensing(base="estimated"), duration_s=0.4)
    storm = Storm(rig, Body(rig), np.random.default_rng(0))
    storm.lie(0.3, 9.0, lambda of: of["q"].__setitem__(2, of["q"][2] + 0.1))
    assert rig.run().loop.counts.complete


@pytest.mark.parametrize(("base", "ended_by"), [("plant", Fault.NONE), ("estimated", Fault.ENCODER)])
def test_an_accelerometer_that_ends_is_an_event_and_a_fault_if_the_loop_needs_it(base, ended_by):
    rig = walking("links", "torque", Sensing(base=base), duration_s=0.25)
    storm = Storm(rig, Body(rig), np.random.default_rng(0))
    storm.lie(0.15, 9.0, lambda of: of["accelerometer"].__setitem__(slice(None), 0.0))
    rig.run()
    assert rig.loop.safety.ended_by == ended_by
    assert rig.faults() & Fault.ACCELEROMETER


def test_states_that_repeat_leave_the_estimated_base_in_the_record():
    rig = walking("links", "torque", Sensing(base="estimated"), duration_s=0.2)
    storm = Storm(rig, Body(rig), np.random.default_rng(0))
    storm.lie(0.45, 9.0, lambda of: of["q"].__setitem__(slice(3), 0.0))
    machine_repeats_itself(storm, 0.46, 9.0)
    assert rig.run().loop.safety.ended_by == Fault.STALE
    rows = [row for row in rig.rows if int(row["mode"]) == Mode.RUNNING]
    height = np.array([row["q"][2] for row in rows])
    np.testing.assert_allclose(height, height[0], atol=0.01)
    assert height[0] > 0.1
    assert rows[-1]["q_machine"][2] == 0.0


@pytest.mark.parametrize("fault", [Fault.ENCODER, Fault.MOTION])
def test_a_machine_that_sends_each_state_three_times_is_braked_by_its_faults(fault):
    """From 0.45 s on the encoder of a knee stands still, or its drive is dead and reports the torque that was sent."""
    rig = walking("links", "impedance", duration_s=0.8)
    storm, sent, frozen = Storm(rig, Body(rig), np.random.default_rng(0)), [], []

    def repeat(of):
        sent.append({name: value.copy() for name, value in of.items()})
        for name, value in sent[(len(sent) - 1) // 3 * 3].items():
            of[name][...] = value

    def freeze(of):
        frozen.append(of["q"][12])
        of["q"][12], of["v"][11] = frozen[0], 0.0

    if fault is Fault.ENCODER:
        storm.lie(0.45, 9.0, freeze)
    else:
        storm.at(0.45, lambda: storm.body.strength.__setitem__(5, 0.0))
        storm.lie(0.45, 9.0, lambda of: of["tau_applied"].__setitem__(5, rig.loop.row.of["tau"][5]))
    storm.lie(0.4, 9.0, repeat)
    rig.run()
    assert rig.loop.safety.ended_by & fault
    assert {int(row["doubted"]) for row in rig.rows if int(row["mode"]) == Mode.RUNNING} <= {-1, 5}


def test_states_that_move_while_the_time_stands_still_are_no_fault_of_an_encoder():
    """The time of the machine moves in every fourth state."""
    rig, times = walking("links", "torque", duration_s=0.5), []

    def stand(of):
        times.append(float(of["t"]))
        of["t"][...] = times[(len(times) - 1) // 4 * 4]

    Storm(rig, Body(rig), None).lie(0.4, 9.0, stand)
    rig.run()
    assert rig.loop.counts.complete
    assert not any(int(row["faults"]) & Fault.ENCODER for row in rig.rows if int(row["mode"]) == Mode.RUNNING)


def test_a_continuous_joint_may_pass_the_seam_of_its_angle():
    heard, circle = nothing(1, 1), np.ones(1, dtype=np.bool_)
    for k in range(3000):
        q = np.array([np.remainder(5.0 * k * H, 2.0 * np.pi) - np.pi])
        assert contradiction(heard, TRUST, circle, k * H, q, np.array([5.0, *REST]), turning(0.0)) < 0
