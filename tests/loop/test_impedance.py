"""Impedance commands through a loop: the machine's drives hold them within limits, and during a silence."""

import itertools
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from msgspec import structs

from idcontrol.loop.culprit import culprit
from idcontrol.loop.gate import ASIDE, Setpoints
from idcontrol.loop.plausible import Joints
from idcontrol.loop.safety import Cut, Fault, Mode
from idcontrol.loop.session import wire_format
from idcontrol.loop.wire import FARTHEST, FASTEST, HEAD_BYTES
from idcontrol.plants.drive import Driven
from idcontrol.record.channels import views
from idcontrol.types import Command, ContactForces
from tests.loop.rig import KD, KP, QUICK, RATE, TORQUE, Arm, ArmSession, H, Pd, Rig, limits, missed_brake


class DrivenSession(ArmSession):
    """The arm, with drives."""

    def plant(self, dt):
        return Driven(Arm(dt), self.system)


class Stiff(Pd):
    """The law of `Pd`, computed by the drives."""

    def __call__(self, state, reference):
        self.calls += 1
        command = Command(tau=np.zeros(2), q=reference.q, v=reference.v, kp=KP, kd=KD)
        return command if self.wrong is None else self.wrong(self.calls, command)


def driven(change=None, **changes):
    """Return a loop with drives; `change` is applied to the commands, and also gets the number of the call."""
    return Rig(controller=Stiff(wrong=change), **({"session": DrivenSession()} | changes))


def sent_in(rig, mode=Mode.RUNNING):
    """Run, and return the rows of all commands that were sent in `mode`, shape (n, 5, 2)."""
    sent, send = [], rig.to_machine.send

    def keep(data):
        sent.append(bytes(data))
        send(data)

    rig.to_machine.send = keep
    rig.run()
    return np.array([np.frombuffer(data, offset=HEAD_BYTES).reshape(5, 2) for data in sent if data[6] == mode])


def machine_command(rig):
    """Return the last command that the machine has received."""
    return rig.machine.endpoint.newest.values.reshape(5, 2)


def test_drives_follow_a_reference_as_the_controller_would():
    rigs = [driven(duration_s=0.6).run(), Rig(duration_s=0.6).run()]
    errors = []
    for rig in rigs:
        assert rig.loop.counts.complete
        late = [row for row in rig.rows if int(row["mode"]) == Mode.RUNNING][300:]
        errors.append(np.mean([np.abs(row["q"] - row["q_des"]) for row in late]))
    # the drives apply the same law without the loop's delay of a tick
    assert errors[0] < 1.1 * errors[1]


def test_the_record_has_the_commands_as_sent_with_their_numbers():
    rig = driven(duration_s=0.1)
    sent = sent_in(rig)
    rows = [row for row in rig.rows if int(row["mode"]) == Mode.RUNNING]
    np.testing.assert_array_equal([row["sent"] for row in rows], sent)
    numbers = np.array([[row["sequence"], row["echo"], row["machine_sequence"]] for row in rows])
    np.testing.assert_array_equal(np.diff(numbers, axis=0), 1.0)
    assert (numbers[:, 1] < numbers[:, 0]).all()  # the machine has not yet accepted the command of the tick


def test_in_a_silence_drives_hold_the_last_command_then_brake():
    rig = driven(duration_s=0.4)
    rig.clock.at(round(0.25e9), lambda: setattr(rig.to_machine, "cut", True))
    rig.run()
    rows = rig.machine_rows
    silent = [k for k, row in enumerate(rows) if row["silence_us"] > 0.0 and int(row["mode"]) == Mode.RUNNING]
    assert len(silent) == 20
    tau, q_des, v_des, kp, kd = machine_command(rig)
    assert (kp == KP).all()
    for k in silent:  # the state before a row is the state of the previous row
        before = rows[k - 1]
        wanted = tau + kp * (q_des - before["q"]) + kd * (v_des - before["v"])
        np.testing.assert_allclose(rows[k]["tau"], np.clip(wanted, -TORQUE, TORQUE), rtol=0, atol=1e-12)
    braking = [k for k, row in enumerate(rows) if int(row["mode"]) == Mode.DAMPED]
    assert braking[0] == silent[-1] + 1
    states = [(rows[k - 1]["q"], rows[k - 1]["v"], rows[k]["tau"]) for k in braking]
    assert missed_brake(*(np.array(part) for part in zip(*states, strict=True)), rows[silent[-1]]["tau"]) < 1e-9


@pytest.mark.parametrize("mode", [Mode.IDLE, Mode.READY, Mode.DAMPED, Mode.STOPPED])
def test_a_loop_that_does_not_run_sends_no_gains(mode):
    rows = sent_in(driven(), mode)
    assert len(rows)
    np.testing.assert_array_equal(rows[:, 1:], 0.0)


def test_gains_grow_with_the_torque_in_a_soft_start():
    shares = sent_in(driven())[:, 3] / KP
    np.testing.assert_allclose(shares[:20, 0], np.arange(1, 21) / 20, rtol=1e-12)  # 20 ms at 1 kHz
    assert (shares[20:] == 1.0).all()


def test_drives_are_not_sent_beyond_the_range_of_a_joint():
    session = DrivenSession()
    session.limits = replace(session.limits, low=np.full(2, -0.05), high=np.full(2, 0.05))
    positions = sent_in(driven(session=session, duration_s=0.9))[:, 1]
    assert positions.max() == 0.05
    assert positions.min() == -0.05


WRONG = {
    "stiff": lambda command: structs.replace(command, kp=np.full(2, 9e5)),
    "damped": lambda command: structs.replace(command, kd=np.full(2, 9e5)),
    "far": lambda command: structs.replace(command, q=command.q + 0.45),
    "fast": lambda command: structs.replace(command, v=command.v + 40.0),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_gains_and_targets_change_the_torque_of_drives_no_faster_than_their_rate(wrong):
    """Commands are wrong for 25 ms; torques of successive commands are compared at the same state."""
    rig = driven(lambda call, command: WRONG[wrong](command) if 100 < call <= 125 else command)
    commands, states, accept = [], [], rig.machine.endpoint.inbox.accept

    def keep(data):
        datagram = accept(data)
        if datagram is not None and datagram.mode == Mode.RUNNING:
            motion = rig.machine._motion.state
            commands.append(datagram.values.reshape(5, 2))
            states.append((motion.q, motion.v))
        return datagram

    rig.machine.endpoint.inbox.accept = keep
    rig.run()
    assert rig.machine.endpoint.inbox.dropped.max() == 0
    torques = [
        [np.clip(c[0] + c[3] * (c[1] - q) + c[4] * (c[2] - v), -TORQUE, TORQUE) for c in (before, command)]
        for (before, command), (q, v) in zip(pairwise(commands), states[1:], strict=True)
    ]
    changes = np.abs(np.diff(torques, axis=1)[:, 0])
    assert len(changes) > 200
    # the loop knows the state of a tick ago, in which the largest gains of the drives turn into a little more
    assert (changes.max(axis=0) <= 2.0 * RATE * H).all()


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_gains_and_targets_of_a_controller_with_a_model_brake_the_machine(wrong):
    def change(call, command):
        return structs.replace(WRONG[wrong](command) if call > 100 else command, predicted=ContactForces.none())

    rig = driven(change, policy=structs.replace(QUICK, tracking=1e3))
    rig.run()
    assert rig.loop.safety.ended_by is Fault.CUT
    assert rig.ticks(Mode.RUNNING) == pytest.approx(100 + QUICK.wrong_s / H, abs=5)


@pytest.mark.parametrize(("every", "ended"), [(2, Fault.CUT), (20, Fault.NONE)])
def test_gains_that_are_wrong_now_and_then_brake_the_machine_if_they_often_are(every, ended):
    rig = driven(lambda call, command: WRONG["damped"](command) if call % every == 0 else command)
    rig.run()
    assert rig.loop.safety.ended_by is ended


def test_gains_softened_in_every_tick_for_velocities_that_jump_are_no_fault():
    rig = driven(policy=structs.replace(QUICK, soft_start_s=0.0))
    wire, post, signs = wire_format(rig.session), rig.machine.endpoint.post, itertools.cycle([0.5, -0.5])

    def spoilt(mode, values, now):
        views(values, wire.state)["v"][0] += next(signs) * 1.5 * RATE[0] * H / KD[0]
        return post(mode, values, now)

    rig.machine.endpoint.post = spoilt
    rig.run()
    cuts = [Cut(int(row["cut"])) for row in rig.rows if int(row["mode"]) == Mode.RUNNING]
    assert all(Cut.MOTION in cut for cut in cuts[1:-1])
    assert len(cuts) > 1.5 * QUICK.cut_s / H
    assert rig.faults() == Fault.NONE


def test_the_joint_whose_command_was_cut_is_named_once_the_machine_brakes():
    def change(call, command):
        return structs.replace(command, kp=np.array([KP[0], 9e5])) if call > 100 else command

    rig = driven(change)
    rig.run()
    assert rig.loop.safety.ended_by is Fault.CUT
    assert culprit(Fault.CUT, rig.rows[-1], np.zeros(2), ["shoulder", "elbow"]).startswith("elbow: 3")


@pytest.mark.parametrize("field", ["kp", "kd"])
def test_negative_gains_are_not_sent_and_brake_the_machine(field):
    def wrong(call, command):
        return structs.replace(command, **{field: -getattr(command, field)}) if call > 100 else command

    rig = driven(wrong)
    rows = sent_in(rig)
    assert rig.loop.safety.ended_by is Fault.CUT
    assert (rows[:, 3:] >= 0.0).all()
    assert rig.machine.endpoint.inbox.dropped.max() == 0


def channels(q_des=(0.0, 0.0), v_des=(0.0, 0.0)):
    """Return the channels of telemetry that the gate reads and writes."""
    of = {name: np.zeros(2) for name in ("tau_wanted", "tau", "a_des", "cut_ticks")}
    return of | {"q_des": np.array(q_des), "v_des": np.array(v_des), "sent": np.zeros((5, 2))}


finite = st.floats(-1e3, 1e3)


@given(last=arrays(float, (5, 2), elements=finite), command=arrays(float, (5, 2), elements=finite),
       q=arrays(float, 2, elements=finite), v=arrays(float, 2, elements=finite), share=st.floats(0.0, 1.0),
       turns=st.booleans())  # fmt: skip
@settings(deadline=None)
def test_the_gate_bounds_what_drives_do_at_the_measured_state(last, command, q, v, share, turns):
    joints = Joints(at_q=np.arange(2), circle=np.full(2, turns), at_v=np.arange(2), q=q, v=v)
    of = channels()
    setpoints = Setpoints(of, joints, limits())

    def torque(rows):
        off = rows[1] - q
        if turns:
            off = off - 2.0 * np.pi * np.round(off / (2.0 * np.pi))
        return np.clip(rows[0] + rows[3] * off + rows[4] * (rows[2] - v), -TORQUE, TORQUE)

    for rows in (last, command):
        rows[3:] = np.abs(rows[3:])
    setpoints.sent[:] = last
    before = torque(last)
    setpoints.take(command, np.inf)
    setpoints.admit(share, H, drives=True)
    sent, rounding = setpoints.sent, 1e-9 * (1.0 + np.abs(setpoints.sent).max() ** 2)
    assert (np.abs(sent[0]) <= TORQUE).all()
    assert (sent[3] <= TORQUE / 0.01).all()
    assert (sent[4] <= TORQUE / 0.5).all()
    assert (np.abs(torque(sent) - before) <= RATE * H + rounding).all()
    np.testing.assert_allclose(setpoints.tau, torque(sent), rtol=0.0, atol=rounding)


def test_of_two_joints_that_are_cut_the_one_with_wrong_gains_is_blamed():
    joints = Joints(at_q=np.arange(2), circle=np.zeros(2, bool), at_v=np.arange(2), q=np.zeros(2), v=np.zeros(2))
    of = channels()
    setpoints, greedy = Setpoints(of, joints, limits()), np.zeros((5, 2))
    greedy[0] = 2.0 * TORQUE[0], 0.0
    wrong = greedy.copy()
    wrong[3] = 0.0, 9e5
    for command, ticks in ((greedy, 150), (wrong, 31)):
        for _ in range(ticks):
            setpoints.take(command, np.inf)
            setpoints.admit(1.0, H, drives=True)
    np.testing.assert_array_equal(of["cut_ticks"], [0.0, 31.0])


def test_tracking_error_of_a_continuous_joint_is_the_shorter_way():
    joints = Joints(
        at_q=np.arange(2), circle=np.array([True, False]), at_v=np.arange(2), q=np.array([-3.1, 0.2]), v=np.zeros(2)
    )
    of = channels(np.array([3.1, 0.1]))
    setpoints = Setpoints(of, joints, limits())
    assert setpoints.take(np.zeros(2), 0.11) is Fault.NONE  # 2 pi - 6.2 and 0.1
    assert setpoints.take(np.zeros(2), 0.09) is Fault.ASTRAY


def test_a_command_within_all_limits_passes_the_gate_to_the_bit():
    joints = Joints(
        at_q=np.arange(2), circle=np.zeros(2, bool), at_v=np.arange(2), q=np.full(2, 0.1), v=np.full(2, 0.3)
    )
    of = channels()
    setpoints = Setpoints(of, joints, limits())
    command = np.array([[0.1, 0.2], [0.11, 0.104], [0.3, 0.31], KP, KD])
    setpoints.take(command, np.inf)
    assert setpoints.admit(1.0, H, drives=True) is Cut.NONE
    np.testing.assert_array_equal(setpoints.sent, command)


def test_the_torque_of_a_stiff_drive_changes_within_its_rate_until_the_next_command():
    joints = Joints(at_q=np.arange(2), circle=np.zeros(2, bool), at_v=np.arange(2), q=np.zeros(2), v=np.zeros(2))
    of = channels()
    setpoints, dv = Setpoints(of, joints, limits()), np.array([0.4, -0.7])
    for _ in range(50):  # the joints accelerate uniformly
        setpoints.take(np.array([np.zeros(2), joints.q, joints.v, np.full(2, 1e4), KD]), np.inf)
        setpoints.admit(1.0, H, drives=True)
        tau, _, _, kp, kd = setpoints.sent
        joints.q[:] += H * (joints.v + 0.5 * dv)
        joints.v[:] += dv
        after = tau + kp * (setpoints.sent[1] - joints.q) + kd * (setpoints.sent[2] - joints.v)
        if joints.v[0] > 0.6:  # the first command knows of no acceleration
            assert (np.abs(after - setpoints.tau) <= RATE * H * (1.0 + 1e-9)).all()
            assert (kp > 0.0).all()
    assert (kp < 0.5 * TORQUE / 0.01).all()  # the largest gain without motion


@pytest.mark.parametrize(("row", "far"), [(1, 0.12), (1, -0.12), (2, 1.2), (2, -1.2)])
def test_targets_far_from_the_reference_of_a_model_add_at_most_a_fifth_of_the_limit(row, far):
    joints = Joints(
        at_q=np.arange(2), circle=np.zeros(2, bool), at_v=np.arange(2), q=np.full(2, 0.1), v=np.full(2, 0.3)
    )
    of = channels(np.full(2, 0.1), np.full(2, 0.3))
    setpoints, torque = Setpoints(of, joints, limits()), np.array([0.1, 0.2])
    command = np.array([torque, of["q_des"], of["v_des"], KP, KD])
    command[row] += far
    for tied in (False, True):
        for _ in range(50):  # beyond the limit of the rate
            setpoints.take(command, np.inf, tied=tied)
            cut = setpoints.admit(1.0, H, drives=True)
        assert (Cut.TARGET in cut) is tied
        ahead = np.abs(KP * of["v_des"] * H) if row == 1 else 0.0
        added = np.sign(far) * (ahead + 0.2 * TORQUE) if tied else (KP, KD)[row - 1] * far
        np.testing.assert_allclose(setpoints.tau, np.clip(torque + added, -TORQUE, TORQUE), rtol=1e-9)


@pytest.mark.parametrize(("row", "off", "cut"), [(1, 0.06, True), (1, 0.04, False), (2, 0.6, True), (2, 0.4, False)])
def test_soft_drives_may_not_pull_a_joint_far_from_the_reference_of_a_model(row, off, cut):
    joints = Joints(at_q=np.arange(2), circle=np.zeros(2, bool), at_v=np.arange(2), q=np.zeros(2), v=np.zeros(2))
    of = channels()
    setpoints, command = Setpoints(of, joints, limits()), np.zeros((5, 2))
    command[3:] = 0.02 * KP, 0.02 * KD
    command[row, 1] = off
    setpoints.take(command, np.inf, tied=True)
    assert (Cut.TARGET in setpoints.admit(1.0, H, drives=True)) is cut
    assert setpoints.sent[row, 1] == pytest.approx(min(off, ASIDE[row - 1]))
    of["v_des"][1], of["a_des"][1] = 20.0, 200.0  # targets are ahead of the reference by the motion in a period
    command[2, 1] += 20.0
    setpoints.take(command, np.inf, tied=True)
    assert Cut.TARGET not in setpoints.admit(1.0, H, drives=True)


def test_targets_of_drives_without_gains_need_no_reference():
    joints = Joints(at_q=np.arange(2), circle=np.zeros(2, bool), at_v=np.arange(2), q=np.zeros(2), v=np.zeros(2))
    setpoints = Setpoints(channels((2.0, 2.0)), joints, limits())
    setpoints.take(np.zeros((5, 2)), np.inf, tied=True)
    assert setpoints.admit(1.0, H, drives=True) is Cut.NONE


@pytest.mark.parametrize(("field", "most"), [("q", FARTHEST), ("v", FASTEST)])
@pytest.mark.parametrize("target", [1e5, -1e308])
def test_targets_beyond_all_reason_at_joints_without_limits_brake_the_machine(field, most, target):
    def wrong(call, command):
        return structs.replace(command, **{field: np.full(2, target)}) if call > 100 else command

    session = DrivenSession()
    session.limits = replace(session.limits, speed=np.full(2, np.inf))
    rig = driven(wrong, session=session, policy=structs.replace(QUICK, tracking=1e3))
    rows = sent_in(rig)
    assert rig.loop.safety.ended_by is Fault.CUT
    assert np.isfinite(rows).all()
    assert np.abs(rows[:, 1 if field == "q" else 2]).max() == most
    assert rig.machine.endpoint.inbox.dropped.max() == 0


@pytest.mark.parametrize("field", ["q", "v", "kp", "kd"])
def test_an_impedance_with_a_nan_is_not_sent(field):
    def sick(call, command):
        return structs.replace(command, **{field: np.full(2, np.nan)}) if call > 100 else command

    rig = driven(sick)
    rows = sent_in(rig)
    assert rig.loop.safety.ended_by is Fault.NOT_FINITE
    assert np.isfinite(rows).all()
