"""Impedance commands through a loop: the machine's drives hold them within limits, and during a silence."""

from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from idcontrol.loop.safety import Fault, Mode
from idcontrol.loop.wire import HEAD_BYTES
from idcontrol.plants.drive import Driven
from idcontrol.types import Command
from tests.loop.rig import KD, KP, TORQUE, Arm, ArmSession, Pd, Rig, missed_brake


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
    assert missed_brake(*(np.array(part) for part in zip(*states, strict=True))) < 1e-9


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


@pytest.mark.parametrize("field", ["q", "v", "kp", "kd"])
def test_an_impedance_that_is_no_number_is_not_sent(field):
    def sick(call, command):
        return structs.replace(command, **{field: np.full(2, np.nan)}) if call > 100 else command

    rig = driven(sick)
    rows = sent_in(rig)
    assert rig.loop.safety.ended_by is Fault.NOT_FINITE
    assert np.isfinite(rows).all()
