"""The loop and its machine under faults: each fault ends in the documented state.

Both sides run on a virtual clock; the machine is an arm that swings. In every row of every run: torques within limits,
changes of torque within the rate.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pinocchio as pin
import pytest
from msgspec import structs

from idcontrol.dynamics.system import System
from idcontrol.loop import machine, telemetry
from idcontrol.loop.clock import NS, Cycle, VirtualClock
from idcontrol.loop.observer import Observer
from idcontrol.loop.safety import PATIENCE, Fault, Mode, Policy, Rule
from idcontrol.loop.session import Parts, wire_format
from idcontrol.loop.stop import Stop
from idcontrol.loop.telemetry import Telemetry
from idcontrol.loop.transport import FAREWELL
from idcontrol.loop.wire import HEAD_BYTES, Datagram, Drop, Format
from idcontrol.record.channels import views
from idcontrol.types import Command, ContactForces, State, Status
from tests.loop.rig import (
    PERIOD,
    QUICK,
    RATE,
    TORQUE,
    Arm,
    ArmSession,
    H,
    Pd,
    Rig,
    Swing,
    Weather,
    arm,
    limits,
    missed_brake,
)
from tests.parameters import one_fast

WHOLE = [Mode.READY, Mode.ARMED, Mode.RUNNING, Mode.DAMPED, Mode.STOPPED]


def check_torques(rig):
    """Check torques within limits and rates on both sides, and no torque in modes without torque."""
    last = np.zeros(2)
    for row in rig.rows:
        assert (np.abs(row["tau"]) <= TORQUE).all()
        if int(row["mode"]) in (Mode.RUNNING, Mode.DAMPED):
            # 1e-9: rounding of the product of rate and period
            assert (np.abs(row["tau"] - last) <= RATE * H * (1 + row["missed"]) + 1e-9).all()
        else:
            assert not row["tau"].any()
        last = row["tau"]
    for row in rig.machine_rows:
        assert (np.abs(row["tau"]) <= TORQUE).all()
        assert np.isfinite(row["q"]).all()


def running(rig):
    return [row for row in rig.rows if int(row["mode"]) == Mode.RUNNING]


@pytest.fixture
def runs():
    """Makes a rig, runs it, checks its torques."""

    def make(damp_at=np.inf, before=None, **options):
        rig = Rig(**options)
        if before is not None:
            before(rig)
        rig.run(damp_at)
        check_torques(rig)
        return rig

    return make


def test_without_faults_the_reference_is_tracked_until_the_end(runs):
    rig = runs()
    assert rig.modes() == WHOLE
    assert rig.ticks(Mode.RUNNING) == 400
    assert rig.loop.counts.complete
    assert rig.faults() == Fault.NONE
    error = [np.abs(row["q"] - row["q_des"]).max() for row in rig.rows[250:400]]
    assert max(error) < 0.05  # gravity, which the PD law does not compensate, over its stiffness


def brake_missed_by(rig) -> float:
    """Return the largest error of the machine's torques in the mode damped, compared with the brake's [N m]."""
    rows, modes = rig.machine_rows, [int(row["mode"]) for row in rig.machine_rows]
    first, end = modes.index(Mode.DAMPED), modes.index(Mode.STOPPED)
    q, v = (np.array([row[name] for row in rows[first - 1 : end - 1]]) for name in ("q", "v"))
    return missed_brake(q, v, np.array([row["tau"] for row in rows[first:end]]), rows[first - 1]["tau"])


def brake_missed_by_loop(rig) -> float:
    """Return the same for the torques that the loop wants to send, for machines that apply them."""
    damped = [row for row in rig.rows if int(row["mode"]) == Mode.DAMPED]
    return missed_brake(*(np.array([row[name] for row in damped]) for name in ("q", "v", "tau_wanted")))


def test_at_a_requested_end_both_sides_damp_the_machine(runs):
    rig = runs(damp_at=0.2)
    assert rig.modes() == WHOLE
    assert rig.modes(rig.machine_rows)[-3:] == WHOLE[-3:]
    assert rig.machine.finished
    assert not rig.loop.counts.complete
    assert brake_missed_by(rig) < 1e-9  # rounding of torques of several N m
    assert brake_missed_by_loop(rig) < 1e-9
    at_rest = rig.machine_rows[-1]["v"]
    assert np.abs(at_rest).max() < 3.0  # braked: a free double pendulum of half a metre exceeds this


@pytest.mark.parametrize("share", [0.1, 0.5])
@pytest.mark.parametrize("side", ["states", "commands"])
def test_lost_datagrams_do_not_end_the_run(runs, side, share):
    rig = runs(**{side: Weather(drop=share)})
    assert rig.loop.counts.complete
    assert rig.modes() == WHOLE


@pytest.mark.parametrize("period", one_fast((1.001, 0.999), 1.001))
def test_a_loop_that_follows_its_machine_has_a_new_state_in_each_tick(runs, period):
    """The machine's clock is off by a thousandth, ten times as much as quartz, and datagrams take 0.2 to 0.4 ms."""
    machine_period, late = round(period * PERIOD), Weather(delay_s=(2e-4, 4e-4))

    def steps(follows):
        rig = runs(duration_s=2.5, machine_period=machine_period, follows=follows, states=late, commands=late)
        of = running(rig)[150:]  # then it follows
        assert not any(int(row["missed"]) for row in of)
        return rig, np.diff([float(row["t"]) for row in of]) / H

    rig, ratios = steps(follows=True)
    np.testing.assert_allclose(ratios, 1.0, rtol=1e-6)
    ages = [float(row["age_us"]) for row in rig.rows if int(row["mode"]) == Mode.RUNNING][150:]
    # age of a round trip: the machine received the last command at the start of a period
    assert max(ages) <= 1.1e3 * period + 2e2
    assert not np.allclose(steps(follows=False)[1], 1.0)  # a loop with its own clock


def test_a_loop_that_follows_its_machine_notices_its_silence_like_any_loop(runs):
    def cut(rig):
        rig.clock.at(NS // 5, lambda: setattr(rig.to_loop, "cut", True))

    followed, free = (runs(before=cut, follows=follows) for follows in (True, False))
    assert followed.modes() == free.modes() == WHOLE
    assert followed.faults() == free.faults() == Fault.SILENT
    assert abs(followed.ticks(Mode.RUNNING) - free.ticks(Mode.RUNNING)) <= 1


def test_states_that_come_in_any_order_within_20_ms_keep_it_running(runs):
    rig = runs(states=Weather(delay_s=(0.0, 0.02)))
    assert rig.loop.counts.complete
    assert rig.loop.endpoint.inbox.dropped[Drop.OLD] > 50


def test_a_steady_delay_of_20_ms_is_measured_by_the_echo_and_braked(runs):
    """No clock is shared, and datagrams arrive regularly: only the echo shows the delay."""

    def before(rig):
        rig.clock.at(NS // 5, lambda: setattr(rig.states, "delay_s", (0.02, 0.02)))

    rig = runs(before=before)
    assert rig.modes() == WHOLE
    assert rig.faults() == Fault.SILENT
    assert not rig.loop.counts.complete


def test_torques_never_begin_with_a_machine_that_is_always_late(runs):
    rig = runs(states=Weather(delay_s=(0.02, 0.02)), policy=Policy(start_s=0.1))
    assert rig.modes() == [Mode.IDLE, Mode.STOPPED]
    assert rig.modes(rig.machine_rows)[-1] is Mode.STOPPED


@pytest.mark.parametrize(("bad", "why"), [({"twice": 0.3}, Drop.OLD), ({"damage": 0.3}, Drop.DAMAGED)])
def test_repeated_and_damaged_datagrams_are_dropped_and_counted(runs, bad, why):
    rig = runs(states=Weather(**bad), commands=Weather(**bad))
    assert rig.loop.counts.complete
    for side in (rig.loop, rig.machine):
        assert side.endpoint.inbox.dropped[why] > 80


class Timed(Pd):
    """A controller whose calls change the rig's clock."""

    def __init__(self, happens):
        super().__init__()
        self.happens = happens

    def __call__(self, state, reference):
        command = super().__call__(state, reference)
        self.happens(self.calls, self.clock)
        return command


def give_clock(rig):
    rig.controller.clock = rig.clock


def slow(by_ns):
    """Return a controller that is slow from the 101st call on."""
    return Timed(lambda call, clock: clock.spend(by_ns * (call > 100)))


def test_a_slow_controller_is_tolerated_for_a_while_then_braked(runs):
    rig = runs(controller=slow(PERIOD * 3 // 2), before=give_clock)
    assert rig.modes() == WHOLE
    assert rig.faults() == Fault.OVERRUN
    # each takes one and a half periods: two thirds of the cycles are kept
    assert rig.loop.counts.overruns == Policy().overrun.tolerate + 1
    assert rig.loop.counts.missed >= Policy().overrun.tolerate // 2


def test_while_a_controller_hangs_the_machine_brakes_itself(runs):
    rig = runs(controller=Timed(lambda call, clock: clock.spend(NS // 5 * (call == 150))), before=give_clock)
    assert rig.modes() == WHOLE
    assert rig.faults() & (Fault.OVERRUN | Fault.PEER) == Fault.OVERRUN | Fault.PEER
    braked = next(i for i, row in enumerate(rig.machine_rows) if int(row["mode"]) == Mode.DAMPED)
    running = [int(row["mode"]) for row in rig.machine_rows].index(Mode.RUNNING)
    # commands stopped with the 150th tick; 20 ms of silence, and the ticks in which either side notices
    assert 165 <= braked - running <= 175


def fail(error):
    raise error


WRONGS = {
    # behaviour of a controller from its 200th call on; fault, words of the error, tolerated ticks
    "raises": (lambda c: fail(ZeroDivisionError("gain is zero")), Fault.RAISED, "gain is zero", 0),
    "exits": (lambda c: fail(SystemExit(0)), Fault.RAISED, "SystemExit", 0),
    "closes": (lambda c: fail(GeneratorExit()), Fault.RAISED, "GeneratorExit", 0),
    "other shape": (
        lambda c: Command(tau=np.zeros(3)), Fault.RAISED, "the controller returned tau of shape (3,), not (2,)", 0
    ),
    "NaN": (lambda c: Command(tau=np.array([np.nan, 1.0])), Fault.NOT_FINITE, "", 5),
    "infinity": (lambda c: Command(tau=np.array([np.inf, 1.0])), Fault.NOT_FINITE, "", 5),
    "far beyond the limits": (lambda c: Command(tau=np.array([5.01 * TORQUE[0], 0.0])), Fault.EXCESS, "", 5),
    "falls back": (lambda c: Command(tau=c.tau, status=Status.FALLBACK), Fault.FALLBACK, "", 20),
    "fails": (lambda c: Command(tau=np.zeros(2), status=Status.FAILED), Fault.FAILED, "", 5),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONGS)
def test_a_controller_that_goes_wrong_is_tolerated_for_a_while_then_braked(runs, wrong):
    does, fault, words, tolerated = WRONGS[wrong]
    rig = runs(controller=Pd(wrong=lambda call, command: does(command) if call >= 200 else command))
    assert rig.modes() == WHOLE
    assert rig.faults() == fault
    assert rig.ticks(Mode.RUNNING) == 199 + tolerated
    assert words in rig.loop.counts.error
    if fault in (Fault.NOT_FINITE, Fault.FAILED, Fault.EXCESS):  # meanwhile the last torque holds
        held = [row["tau"] for row in running(rig) if int(row["faults"])]
        assert len(held) == tolerated
        assert len({tuple(tau) for tau in held}) == 1
        assert np.abs(held[0]).max() > 0.1


class Lying(ArmSession):
    """An arm whose sensors report `lie(state)` instead of the state from `LIE_AT` [s] on."""

    LIE_AT = 0.25

    def __init__(self, lie=None):
        super().__init__()
        self.lie = lie

    def plant(self, dt):
        arm, lie = Arm(dt), self.lie
        true_step = arm.step

        def step(tau, dt):
            true = true_step(tau, dt)
            return lie(true) if true.t > self.LIE_AT else true

        arm.step = step
        return arm


class Limp:
    """A controller without torque."""

    def reset(self):
        pass

    def __call__(self, state, reference):
        return Command(tau=np.zeros(2))


def largest_change(rig) -> float:
    """Return the largest change of torque between running ticks [N m]."""
    return np.abs(np.diff([row["tau"] for row in running(rig)][30:], axis=0)).max()


@pytest.mark.parametrize("jump", one_fast((0.09, 0.2, 1.0, -1.0), 0.09, -1.0))
def test_an_encoder_that_jumps_is_ignored_and_brakes_the_machine(runs, jump):
    rig = runs(session=Lying(lambda state: structs.replace(state, q=state.q + np.array([0.0, jump]))))
    assert rig.modes() == WHOLE
    assert rig.faults() == Fault.ENCODER
    assert largest_change(rig) <= largest_change(runs())


def test_a_single_implausible_message_does_not_end_the_run(runs):
    def lie(state):
        return structs.replace(state, q=state.q + np.array([1.0, 0.0])) if round(state.t / H) % 20 == 0 else state

    rig = runs(session=Lying(lie))
    assert rig.loop.counts.complete
    assert rig.faults() == Fault.ENCODER
    assert largest_change(rig) <= 2.0 * largest_change(runs())  # as after a lost message


@pytest.mark.parametrize("speed", [120.0, -500.0])
def test_a_velocity_that_contradicts_the_positions_is_ignored(runs, speed):
    def lie(state):  # for two ticks
        return structs.replace(state, v=state.v + np.array([0.0, speed])) if state.t < Lying.LIE_AT + 2.5 * H else state

    rig = runs(session=Lying(lie))
    assert rig.loop.counts.complete
    assert rig.faults() == Fault.ENCODER
    assert largest_change(rig) <= 2.0 * largest_change(runs())


def test_an_encoder_that_stands_still_despite_a_reported_velocity_brakes_the_machine(runs):
    seen = []

    def lie(state):
        seen.append(state.q[0])
        return structs.replace(state, q=np.array([seen[0], state.q[1]]), v=np.array([1.0, state.v[1]]))

    rig = runs(session=Lying(lie))
    assert rig.modes() == WHOLE
    assert rig.faults() == Fault.ENCODER
    expected = round((Lying.LIE_AT + Policy().frozen_s) / H) + Policy().encoder.tolerate
    assert rig.ticks(Mode.RUNNING) == pytest.approx(expected, abs=10)  # it starts several ticks late


@pytest.mark.parametrize("joint", [0, 1])
def test_an_encoder_that_stands_still_while_its_joint_is_driven_brakes_the_machine(runs, joint):
    held = []

    def lie(state):
        held.append(state.q[joint])
        q, v = state.q.copy(), state.v.copy()
        q[joint], v[joint] = held[0], 0.0
        return structs.replace(state, q=q, v=v)

    rig = runs(session=Lying(lie), duration_s=1.0)
    assert rig.modes() == WHOLE
    assert rig.faults() == Fault.ENCODER
    assert running(rig)[-1]["doubted"] == joint
    # the reference turns around when the encoder stops, so that nothing moves at first
    assert rig.ticks(Mode.RUNNING) < (Lying.LIE_AT + 0.06) / H


def reports(change):
    """Let the drives of a rig report other torques than they were sent, from a quarter of a second on."""

    def before(rig):
        motion = rig.machine._write

        def write(moved):
            motion(replace(moved, tau=change * moved.tau) if moved.state.t > Lying.LIE_AT else moved)

        rig.machine._write = write

    return before


@pytest.mark.parametrize("change", [(1.0, 0.0), (0.4, 1.0), (1.0, 1.7)], ids=["dead", "derated", "wrong constant"])
def test_a_drive_that_applies_another_torque_brakes_the_machine(runs, change):
    rig = runs(before=reports(np.array(change)), duration_s=1.0)
    assert rig.modes() == WHOLE
    assert rig.faults() == Fault.TORQUE
    assert rig.ticks(Mode.RUNNING) < (Lying.LIE_AT + 0.06) / H


def sends(change, after_s=0.25):
    """Let the machine of a rig change what it sends after a time [s]."""

    def before(rig):
        post = rig.machine.endpoint.post

        def changed(mode, values, now):
            post(mode, change(values.copy()) if now > after_s * NS else values, now)

        rig.machine.endpoint.post = changed

    return before


@pytest.mark.parametrize("values_at", [slice(None), slice(1)], ids=["state", "time"])
def test_a_machine_that_repeats_its_last_state_or_time_counts_as_silent(runs, values_at):
    last = []

    def repeat(values):
        last.append(values.copy())
        values[values_at] = last[0][values_at]
        return values

    rig = runs(before=sends(repeat))
    assert rig.modes() == WHOLE
    assert rig.faults() == Fault.STALE
    assert rig.ticks(Mode.RUNNING) == pytest.approx(250 + PATIENCE, abs=15)  # it starts some ticks late


def test_a_repeated_state_is_old_also_if_loop_and_machine_are_held_up_again_and_again(runs):
    """Every tenth call takes 25 ms, in which the machine stands still, too."""

    def before(rig):
        give_clock(rig)
        sends(lambda values: last.append(values.copy()) or last[0])(rig)

    last, held_up = [], Timed(lambda call, clock: clock.jump(NS // 40 * (call % 10 == 0 and len(last) > 0)))
    rig = runs(controller=held_up, before=before)
    assert rig.faults() & Fault.STALE
    assert rig.ticks(Mode.RUNNING) == pytest.approx(250 + PATIENCE, abs=15)


def test_a_repeated_state_whose_time_creeps_counts_as_silent(runs):
    last = []

    def repeat(values):
        last.append(values.copy())
        values[:] = last[0]
        values[0] += 0.01 * (last[-1][0] - last[0][0])
        return values

    rig = runs(before=sends(repeat))
    assert rig.modes() == WHOLE
    assert rig.faults() == Fault.STALE
    assert rig.ticks(Mode.RUNNING) == pytest.approx(250 + PATIENCE, abs=15)


@pytest.mark.parametrize("slower", [1, 2])
def test_a_hot_drive_ends_the_run_of_a_machine_slower_than_its_loop(runs, slower):
    at = views(np.arange(wire_format(ArmSession()).state_values), wire_format(ArmSession()).state)["temperature"]

    def heat(values):
        values[at] = 200.0
        return values

    rig = runs(before=sends(heat), machine_period=slower * PERIOD, duration_s=1.0)
    assert rig.modes() == WHOLE
    assert rig.faults() == Fault.HOT
    assert rig.ticks(Mode.RUNNING) == pytest.approx(250 + slower * Policy().hot.tolerate, abs=15)


@pytest.mark.parametrize(
    ("every", "begin_s", "seen", "starts"),
    [(3, 0.0, Fault.NONE, True), (4, 0.4, Fault.RARE, True), (10, 0.4, Fault.RARE, True), (10, 0.0, Fault.RARE, False)],
)
def test_a_machine_that_repeats_most_states_is_an_event_and_cannot_be_armed(every, begin_s, seen, starts):
    held, ticks = [], 0

    def repeat(values):
        nonlocal ticks
        ticks += 1
        values[0] = ticks * H  # the time of this simulated machine would stand still before the start
        if ticks * H < begin_s or ticks % every == 1 or not held:
            held[:] = [values.copy()]
        return held[0]

    rig = Rig(attended=True, policy=structs.replace(QUICK, start_s=0.1))
    sends(repeat, after_s=0.0)(rig)
    rig.run(damp_at=0.9, acts=(0.2,))
    assert bool(running(rig)) is starts
    assert (rig.faults() if starts else rig.loop.safety.ended_by) == seen
    assert rig.loop.counts.complete is starts


@pytest.mark.parametrize("by_s", [0.05, 10.0, -0.1])
def test_a_machine_whose_time_jumps_is_braked(runs, by_s):
    at = views(np.arange(wire_format(ArmSession()).state_values), wire_format(ArmSession()).state)["t"]

    def jump(values):
        values[at] += by_s
        return values

    rig = runs(before=sends(jump))
    assert rig.modes() == WHOLE
    assert rig.faults() == Fault.CLOCK


def test_torques_cut_for_long_brake_the_machine(runs):
    greedy = Pd(wrong=lambda call, command: Command(tau=2.0 * TORQUE) if call > 100 else command)
    rig = runs(controller=greedy, policy=structs.replace(QUICK, tracking=1e3))
    assert rig.modes() == WHOLE
    assert rig.faults() == Fault.CUT
    assert rig.ticks(Mode.RUNNING) == pytest.approx(100 + QUICK.cut_s / H, abs=10)


def test_a_joint_that_stays_away_from_its_reference_brakes_the_machine(runs):
    rig = runs(controller=Limp(), policy=structs.replace(QUICK, tracking=0.2))
    assert rig.modes() == WHOLE
    assert rig.faults() == Fault.ASTRAY


class Toppling(ArmSession):
    """An arm on a floating base that leans about x by `begin` + 3 rad/s."""

    def __init__(self, begin=0.0):
        super().__init__()
        model = pin.Model()
        parent = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "base")
        for name in ("shoulder", "elbow"):
            model.appendBodyToJoint(parent, pin.Inertia.FromSphere(1.0, 0.1), pin.SE3.Identity())
            parent = model.addJoint(parent, pin.JointModelRY(), pin.SE3.Identity(), name)
        model.appendBodyToJoint(parent, pin.Inertia.FromSphere(1.0, 0.1), pin.SE3.Identity())
        self.system, self.begin = System(model, effort_limit=TORQUE), begin
        self.start = self.leaning(0.0)

    def leaning(self, t):
        half = 0.5 * (self.begin + 3.0 * t)
        q = np.array([0.0, 0.0, 1.0, np.sin(half), 0.0, 0.0, np.cos(half), 0.0, 0.0])
        return State(t=t, q=q, v=np.r_[0.0, 0.0, 0.0, 3.0, np.zeros(4)])

    def plant(self, dt):
        arm = Arm(dt)
        arm.step = lambda tau, dt: self.reached(arm, arm.state.t + dt)
        return arm

    def reached(self, arm, t):
        arm.state = self.leaning(t)
        return arm.state


def test_a_base_that_tips_over_is_braked(runs):
    rig = runs(controller=Limp(), session=Toppling())
    assert rig.modes() == WHOLE
    assert rig.faults() == Fault.TIPPED
    assert rig.loop.safety.ended_by == Fault.TIPPED
    # 1 rad at 3 rad/s, from the first message on
    assert rig.ticks(Mode.RUNNING) == pytest.approx(333 + Policy().tipped.tolerate, abs=5)


def test_torques_never_begin_with_a_machine_that_lies_on_its_side(runs):
    rig = runs(controller=Limp(), session=Toppling(1.5), policy=structs.replace(QUICK, start_s=0.1))
    assert rig.modes() == [*WHOLE[:2], Mode.STOPPED]
    assert rig.loop.safety.ended_by == Fault.TIPPED


def test_an_occasional_nan_does_not_end_the_run(runs):
    rig = runs(controller=Pd(wrong=lambda call, c: Command(tau=c.tau * np.nan) if call % 50 == 0 else c))
    assert rig.loop.counts.complete
    assert rig.faults() == Fault.NOT_FINITE


@pytest.mark.parametrize(("parts", "ended"), [({}, Fault.NONE), ({"sense": lambda: Observed()}, Fault.SILENT)])
@pytest.mark.parametrize("channel", ["accelerometer", "tau_applied", "force_sensed", "normal_sensed"])
def test_a_reading_that_is_no_number_brakes_only_a_loop_that_reads_it(runs, channel, parts, ended):
    session = ArmSession()
    session.feet = ("hand",)

    def before(rig):
        post = rig.machine.endpoint.post

        def posted(mode, values, now):
            views(values, wire_format(rig.session).state)[channel][:] = np.nan
            return post(mode, values, now)

        if not parts:
            rig.machine.endpoint.post = posted
        else:
            rig.clock.at(NS // 5, lambda: setattr(rig.machine.endpoint, "post", posted))

    assert runs(before=before, parts=parts, session=session).loop.safety.ended_by is ended


class Observed:
    """An estimator that believes the machine."""

    def __call__(self, sensed):
        return sensed.state


def test_a_controller_that_writes_into_the_state_does_not_change_the_brake(runs):
    """The loop brakes from the state that the machine has sent."""

    class Writing(Pd):
        def __call__(self, state, reference):
            if self.calls >= 200:
                state.v[:] = 0.0
            return super().__call__(state, reference)

    rig = runs(controller=Writing())
    assert rig.faults() == Fault.RAISED
    assert "read-only" in rig.loop.counts.error
    assert brake_missed_by_loop(rig) < 1e-9  # rounding of torques of several N m


def test_the_torque_of_a_fallback_is_sent(runs):
    """The gate passes a slow wave within its limits unchanged."""
    sent = []

    def wrong(call, command):
        sent.append(np.array([3.0, -2.0]) * np.sin(call / 50))
        return Command(tau=sent[-1], status=Status.FALLBACK)

    policy = structs.replace(QUICK, fallback=Rule(then="hold"), soft_start_s=0.0, tracking=np.inf)
    rig = runs(controller=Pd(wrong=wrong), policy=policy)
    tau = [row["tau"] for row in running(rig)]
    np.testing.assert_array_equal(tau, sent[-len(tau) - 1 : -1])  # the last torque ends it
    assert rig.faults() == Fault.FALLBACK


def test_occasional_failures_of_a_controller_do_not_stop_the_loop(runs):
    """Each time the controller returns no torque; the machine is held in the meantime."""
    calls = []

    def wrong(call, command):
        calls.append(command.tau)
        return Command(tau=np.zeros(2), status=Status.FAILED) if call % 2 == 0 else command

    rig = runs(controller=Pd(wrong=wrong), policy=Policy(soft_start_s=0.0, damp_s=0.1))
    assert rig.loop.counts.complete
    rows = running(rig)
    failed = [k for k, row in enumerate(rows) if int(row["faults"])]
    assert len(failed) > 150
    for k in failed:
        np.testing.assert_array_equal(rows[k]["tau_wanted"], rows[k - 1]["tau_wanted"])


def test_without_a_recorder_the_loop_brakes(runs):
    rig = Rig().run(unrecorded_at=0.2)
    check_torques(rig)
    assert rig.modes() == WHOLE
    assert rig.loop.safety.ended_by == Fault.RECORDER
    assert 180 < rig.ticks(Mode.RUNNING) < 200  # a fifth of a second less the time to connect
    assert brake_missed_by(rig) < 1e-9


def killed_after(ticks):
    """Return a rig whose loop was killed after `ticks` ticks, and the number of the machine's rows at that time."""
    rig = Rig()
    assert rig.loop.connect(1.0)
    for k in range(1, 1 + ticks):
        rig.clock.sleep_until(rig.clock.now() + PERIOD)
        rig.loop.tick(Cycle(index=k, due=rig.clock.now(), woke=rig.clock.now()))
    return rig, len(rig.machine_rows)


def test_a_machine_whose_loop_was_killed_brakes_and_stops():
    rig, killed = killed_after(100)
    assert rig.machine.safety.mode is Mode.RUNNING
    rig.clock.sleep_until(rig.clock.now() + NS // 2)
    assert rig.machine.finished
    after = [Mode(int(row["mode"])) for row in rig.machine_rows[killed:]]
    assert after.index(Mode.DAMPED) <= 21
    assert after[-1] is Mode.STOPPED
    assert (np.abs([row["tau"] for row in rig.machine_rows]) <= TORQUE).all()
    assert brake_missed_by(rig) < 1e-9  # rounding of torques of several N m


def test_a_machine_that_braked_by_itself_ends_the_loop(runs):
    """Commands are lost for 50 ms while states arrive; the machine has less patience than the loop."""

    def before(rig):
        rig.clock.at(NS // 5, lambda: setattr(rig.to_machine, "cut", True))
        rig.clock.at(NS // 5 + NS // 20, lambda: setattr(rig.to_machine, "cut", False))

    rig = runs(before=before, machine_policy=structs.replace(QUICK, late_s=0.01))
    assert rig.modes() == WHOLE
    assert rig.faults() & Fault.PEER
    assert not rig.loop.counts.complete


@pytest.mark.parametrize("by_s", [-1.0, 5.0])
def test_a_clock_that_jumps_brakes(runs, by_s):
    controller = Timed(lambda call, clock: clock.jump(round(by_s * NS * (call == 150))))
    rig = runs(controller=controller, before=give_clock)
    assert rig.modes() == WHOLE
    assert rig.faults() & Fault.CLOCK
    assert rig.ticks(Mode.RUNNING) == 150


def test_a_loop_that_was_suspended_does_not_blame_its_machine_for_old_states(runs):
    """The machine ends 30 ms after the loop was suspended, so that its newest state is old."""
    machines = []

    def suspend(call, clock):
        if call == 150:
            clock.at(clock.now() + 3 * NS // 100, lambda: setattr(machines[0], "machine_alive", False))
            clock.jump(5 * NS)

    def before(rig):
        give_clock(rig)
        machines.append(rig)

    assert runs(controller=Timed(suspend), before=before).loop.safety.ended_by == Fault.CLOCK


def test_the_same_faults_give_the_same_run():
    bad = Weather(drop=0.2, twice=0.1, damage=0.1, delay_s=(0.0, 0.004))
    a, b = (Rig(states=bad, commands=bad, seed=5, duration_s=0.3).run() for _ in range(2))
    for one, other in zip(a.rows, b.rows, strict=True):
        np.testing.assert_array_equal(one["tau"], other["tau"])


def test_torques_grow_from_zero_over_the_soft_start(runs):
    rig = runs(policy=Policy(soft_start_s=0.1), duration_s=0.3)
    for k, row in enumerate(running(rig)[:100]):
        share = (k + 1) / 100
        assert (np.abs(row["tau"]) <= share * np.abs(row["tau_wanted"]) + 1e-9).all() or row["cut"] > 0


def test_limits_grow_from_a_tenth_over_the_ramp_and_the_brake_has_full_limits(runs):
    """The controller wants alternately the full torque and its opposite."""
    policy = structs.replace(QUICK, power_ramp_s=1.0, cut_s=0.05, soft_start_s=0.0, tracking=np.inf, tilt_rad=9.0)

    def wrong(call, command):
        return structs.replace(command, tau=TORQUE * (-1.0) ** (call // 100))

    rig = runs(controller=Pd(wrong=wrong), policy=policy, session=session_with(least_share=0.1), damp_at=0.5)
    rows = running(rig)
    share = 0.1 + 0.9 * H * np.arange(len(rows))
    np.testing.assert_allclose([float(row["power"]) for row in rows], share, rtol=1e-9)
    tau = np.array([row["tau"] for row in rows])
    assert (np.abs(tau) <= share[:, None] * TORQUE * (1.0 + 1e-12)).all()
    assert (np.abs(np.diff(tau, axis=0)) <= share[1:, None] * RATE * H * (1.0 + 1e-12)).all()
    assert (np.abs(tau) == share[:, None] * TORQUE).any(axis=0).all()
    assert rig.faults() == Fault.NONE  # the cuts are intended
    assert {float(row["power"]) for row in rig.rows if int(row["mode"]) == Mode.DAMPED} == {1.0}


def test_a_plant_that_diverges_stops_and_tells_the_loop():
    """An unstable controller has this effect; the torque of the brake would be NaN."""
    rig = Rig()
    explodes = rig.machine._plant.step

    def step(tau, dt):
        state = explodes(tau, dt)
        return structs.replace(state, v=state.v * (np.nan if state.t > 0.1 else 1.0))

    rig.machine._plant.step = step
    rig.run()
    check_torques(rig)
    assert rig.modes() == WHOLE
    assert rig.faults() == Fault.PEER
    assert not rig.loop.counts.complete
    assert rig.modes(rig.machine_rows)[-2:] == [Mode.RUNNING, Mode.STOPPED]
    assert int(rig.machine_rows[-1]["faults"]) & Fault.NOT_FINITE


def test_a_plant_whose_numbers_overflow_stops_like_a_diverging_one():
    rig = Rig()
    step, steps = rig.machine._plant.step, itertools.count()

    def overflow(tau, dt):
        if next(steps) == 100:
            raise OverflowError("int too big to convert")
        return step(tau, dt)

    rig.machine._plant.step = overflow
    rig.run()
    assert rig.loop.safety.ended_by == Fault.PEER
    assert int(rig.machine_rows[-1]["faults"]) & Fault.NOT_FINITE


def test_a_loop_without_datagrams_commands_no_torque():
    rig, sent = Rig(), []
    rig.machine_alive = False
    rig.to_machine.send = lambda data: sent.append(bytes(data))
    assert not rig.loop.connect(0.05)
    assert len(sent) >= 5  # one every 10 ms
    for data in sent:
        np.testing.assert_array_equal(np.frombuffer(data, offset=HEAD_BYTES), np.zeros(10))


def test_a_stop_is_announced_often_enough_for_lost_datagrams():
    rig = Rig(duration_s=0.05).run()
    assert rig.ticks(Mode.STOPPED) == FAREWELL
    assert sum(int(row["mode"]) == Mode.STOPPED for row in rig.machine_rows) == FAREWELL


def test_durations_of_ticks_are_recorded_in_microseconds(runs):
    """Ticks take 1.4 periods: every second tick starts 0.4 periods late, and a cycle is skipped after it."""
    rig = runs(controller=slow(PERIOD * 7 // 5), before=give_clock, duration_s=0.13)
    assert np.isnan(rig.rows[0]["period_us"])  # there was no tick before
    rows = running(rig)
    for row in rows[:90]:
        assert (row["period_us"], row["late_us"], row["compute_us"], row["missed"]) == pytest.approx((1000, 0, 0, 0))
    late = rows[102:120]
    assert len(late) == 18
    np.testing.assert_allclose([row["compute_us"] for row in late], 1400.0)
    np.testing.assert_allclose([row["late_us"] for row in late], np.where([row["missed"] for row in late], 0.0, 400.0))
    assert sum(int(row["missed"]) for row in late) == 9
    assert {round(float(row["period_us"])) for row in late} == {1400, 1600}


def test_feet_without_a_sensed_force_are_recorded_without_a_force():
    wire = Format(robot="four feet", nq=19, nv=18, floating=True, torque_limit=np.full(2, 20.0), n_feet=4)
    sent_values = np.arange(1.0, 1.0 + wire.state_values)  # the machine senses all of its feet

    def sense(sensed):
        forces = sensed.state.forces
        touching = ContactForces(identity=np.array([2]), force=forces.force[2:3], normal=forces.normal[2:3])
        return structs.replace(sensed.state, q=-sensed.state.q, forces=touching)

    parts = Parts(
        planner=None, controller=None, system=arm(), wire=wire, limits=limits(), sense=lambda: sense
    )  # fmt: skip
    observer = Observer(parts, QUICK, row := Telemetry(wire, 0), PERIOD)
    newest = Datagram(sequence=1, mode=Mode.READY, stamp=0, echo=0, values=sent_values)
    observer.read(newest, 0, running=False, working=False)
    observer.warm()
    of, felt = row.row.of, sent_values[43:67].reshape(2, 4, 3)  # after time, q, v, two torques and the accelerometer
    for _ in range(2):
        observer.read(newest, 0, running=False, working=True)
        np.testing.assert_array_equal(of["q"], -sent_values[1:20])
        for channel, values in zip(("force_sensed", "normal_sensed"), felt, strict=True):
            np.testing.assert_array_equal(of[channel], np.where(np.arange(4)[:, None] == 2, values, 0.0))


@pytest.fixture
def stopwatch(monkeypatch):
    """Return the clock with which both sides measure their work; it moves when time is spent."""
    clock = VirtualClock()
    for side in (machine, telemetry):
        monkeypatch.setattr(side, "time", SimpleNamespace(perf_counter_ns=clock.now, thread_time_ns=clock.now))
    return clock


def test_the_work_of_a_tick_is_recorded_in_microseconds_on_any_clock(runs, stopwatch):
    def wrong(call, command):
        stopwatch.spend(3 * PERIOD * (call % 10 == 0))
        return command

    rows = running(runs(controller=Pd(wrong=wrong), duration_s=0.05))
    tenth = np.arange(1, 1 + len(rows)) % 10 == 0
    for name, spent in (("cpu_us", 3000.0), ("step_us", 3000.0), ("compute_us", 0.0)):
        np.testing.assert_array_equal([row[name] for row in rows], np.where(tenth, spent, 0.0))


def test_reading_and_estimating_are_timed_separately(monkeypatch, stopwatch):
    read = Format.read_state

    def slow(wire, values, since=0.0):
        stopwatch.spend(2 * PERIOD)
        return read(wire, values, since)

    def sense(sensed):
        stopwatch.spend(PERIOD)
        return sensed.state

    monkeypatch.setattr(Format, "read_state", slow)
    rows = running(Rig(duration_s=0.02, parts={"sense": lambda: sense}).run())
    assert {float(row["read_us"]) for row in rows} == {2000.0}
    assert {float(row["estimate_us"]) for row in rows} == {1000.0}


def test_the_duration_of_a_plant_step_is_recorded_in_microseconds(stopwatch):
    rig = Rig(duration_s=0.02)
    step, steps = rig.machine._plant.step, itertools.count()

    def slow_at_first(tau, dt):
        stopwatch.spend(2 * PERIOD * (next(steps) < 10))
        return step(tau, dt)

    rig.machine._plant.step = slow_at_first
    rig.run()
    step_us = [float(row["step_us"]) for row in rig.machine_rows if int(row["mode"]) == Mode.RUNNING]
    assert step_us == [2000.0] * 10 + [0.0] * (len(step_us) - 10)


@pytest.mark.parametrize("delay", [2, 5, 8])
def test_the_age_of_the_newest_state_is_at_least_its_delay(runs, delay):
    rows = running(runs(states=Weather(delay_s=(1e-3 * delay, 1e-3 * delay)), duration_s=0.1))
    ages = [float(row["age_us"]) for row in rows[20:]]
    # the loop's datagram waits for a tick of the machine, whose answer waits for a tick of the loop
    assert min(ages) >= 1e3 * delay
    assert max(ages) <= 1e3 * (delay + 2)


def test_the_silence_of_a_killed_loop_is_recorded_in_microseconds():
    rig, killed = killed_after(50)
    rig.clock.sleep_until(rig.clock.now() + 30 * PERIOD)
    silence = [float(row["silence_us"]) for row in rig.machine_rows[killed + 1 :]]
    np.testing.assert_allclose(np.diff(silence), 1e6 * H)
    assert silence[0] <= 2e6 * H
    assert all(row["late_us"] == 0.0 for row in rig.machine_rows)


def test_a_controller_that_is_interrupted_brakes_and_its_traceback_tells_where(runs):
    def wrong(call, command):
        while call == 150:
            rig.loop.on_alarm()
        return command

    rig = Rig(controller=Pd(wrong=wrong))
    rig.loop.on_alarm()  # no call is active: nothing is disturbed
    rig.run()
    check_torques(rig)
    assert rig.modes() == WHOLE
    assert rig.faults() == Fault.HUNG
    assert rig.ticks(Mode.RUNNING) == 149
    assert "Hung: planner or controller did not return in time" in rig.loop.counts.error
    assert "in wrong" in rig.loop.counts.traceback


def interruptible(wrong, hang_s):
    """Return a rig that has run, in which SIGALRM interrupts a faulty controller."""
    rig = Rig(controller=Pd(wrong=wrong), policy=structs.replace(QUICK, hang_s=hang_s), interrupt=True, duration_s=1.0)
    with Stop() as stop:
        stop.on_alarm = rig.loop.on_alarm
        rig.run()
    return rig


def test_a_hanging_controller_is_interrupted_after_hang_s():
    def wrong(call, command):
        while call == 100:
            pass
        return command

    began = time.monotonic()
    rig = interruptible(wrong, hang_s=0.25)
    assert time.monotonic() - began >= 0.25
    assert rig.modes() == WHOLE
    assert rig.faults() == Fault.HUNG


AILMENTS = [
    # index in health, value, fault, tolerated ticks in a row
    (1, 4.0, Fault.DRIVE, 0),
    (3, 80.5, Fault.HOT, 100),
    (4, 20.9, Fault.VOLTAGE, 100),
    (4, 30.1, Fault.VOLTAGE, 100),
    (5, 1.0, Fault.ESTOP, 0),
]


def session_with(**changes):
    """Return a session whose limits have these changes."""
    session = ArmSession()
    session.limits = replace(session.limits, **changes)
    return session


@pytest.mark.parametrize(("place", "value", "fault", "survived"), AILMENTS)
def test_a_lasting_fault_of_drives_or_supply_brakes(runs, place, value, fault, survived):
    def wrong(call, command):
        if call == 150:
            rig.machine.health[place] = value
        return command

    rig = Rig(controller=Pd(wrong=wrong), session=session_with(voltage_v=(21.0, 30.0)))
    rig.run()
    check_torques(rig)
    assert rig.modes() == WHOLE
    assert rig.loop.safety.ended_by == fault
    # a state is sent at least one tick later, and read one tick after that
    assert 150 + survived <= rig.ticks(Mode.RUNNING) <= 153 + survived


@pytest.mark.parametrize(("place", "value"), [(1, 0.0), (3, 79.5), (4, 21.1), (5, 0.0)])
def test_healthy_drives_and_supply_are_no_fault(runs, place, value):
    """The limits of the policy replace the robot's."""
    policy = structs.replace(QUICK, voltage_v=(21.0, 30.0), hot_c=80.0)
    rig = Rig(policy=policy, session=session_with(voltage_v=(40.0, 50.0), hot_c=20.0))
    rig.machine.health[place] = value
    rig.run()
    assert rig.faults() == Fault.NONE


@pytest.mark.parametrize(("place", "value", "fault"), [(0, 1.0, Fault.DRIVE), (5, 1.0, Fault.ESTOP)])
def test_a_drive_error_or_emergency_stop_prevents_the_start(place, value, fault):
    rig = Rig(policy=structs.replace(QUICK, start_s=0.05))
    rig.machine.health[place] = value
    rig.run()
    assert Mode.RUNNING not in rig.modes()
    assert rig.loop.safety.ended_by == fault


class OffUnit(Toppling):
    """A base at rest whose quaternion has the norm `norm` from 0.1 s on, without other faults."""

    def __init__(self, norm=1.0):
        self.norm = norm
        super().__init__()

    def leaning(self, t):
        q = np.zeros(9)
        q[2], q[6] = 1.0, self.norm if t > 0.1 else 1.0
        return State(t=t, q=q, v=np.zeros(8))


@pytest.mark.parametrize(("norm", "fault"), [(1.0 - 0.9e-3, Fault.NONE), (1.0 - 1.1e-3, Fault.QUATERNION)])
def test_a_message_whose_quaternion_is_not_of_unit_norm_is_not_used(runs, norm, fault):
    rig = runs(controller=Limp(), session=OffUnit(norm))
    assert rig.faults() == rig.loop.safety.ended_by == fault
    assert rig.modes() == WHOLE
    assert rig.loop._observer.state.q[6] == (1.0 if fault else norm)


def test_a_joystick_of_the_machine_steers_the_planner():
    class Steered(Swing):
        axes = None

        def steer(self, axes):
            self.axes = axes.copy()

    class Session(ArmSession):
        def planner(self):
            return Steered()

    rig = Rig(session=Session())
    rig.machine.health[6:10] = [0.5, -1.0, 0.25, 0.0]
    rig.run()
    np.testing.assert_array_equal(rig.planner.axes, [0.5, -1.0, 0.25, 0.0])
    assert rig.faults() == Fault.NONE


@pytest.mark.parametrize(("buttons", "ends"), [(0b1, True), (0b101, True), (0b100, False), (np.nan, False)])
def test_the_stop_button_of_the_joystick_ends_the_work(buttons, ends):
    rig = Rig(duration_s=0.3)
    rig.clock.at(NS // 5, lambda: rig.machine.health.__setitem__(10, buttons))
    rig.run()
    assert rig.loop.counts.complete is not ends
    assert rig.modes() == WHOLE
    assert rig.faults() == Fault.NONE
