"""The state machine against an independent statement of its transitions, and the gate against a reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from msgspec import structs

from idcontrol import loop
from idcontrol.loop.clock import NS
from idcontrol.loop.safety import (
    NAMES,
    Cut,
    Fault,
    Inputs,
    Limits,
    Mode,
    Policy,
    Rule,
    Safety,
    admit,
    advance,
    patience,
)

ALLOWED = {
    Mode.IDLE: {Mode.READY, Mode.STOPPED},
    Mode.READY: {Mode.IDLE, Mode.ARMED, Mode.RUNNING, Mode.STOPPED},
    Mode.ARMED: {Mode.IDLE, Mode.RUNNING, Mode.STOPPED},
    Mode.RUNNING: {Mode.DAMPED, Mode.STOPPED},
    Mode.DAMPED: {Mode.READY, Mode.STOPPED},
    Mode.STOPPED: set(),
}
MS = NS // 1000
EVERY = int(~Fault.NONE)
"""All faults at once."""


def test_random_sequences_of_faults_make_only_allowed_transitions():
    rng = np.random.default_rng(1)
    rules = [Rule(tolerate=tolerate, then=then) for tolerate in range(4) for then in ("hold", "damp", "stop")]
    policies = [
        Policy(**dict(zip(NAMES.values(), rng.choice(rules, len(NAMES)), strict=True)), damp_s=0.005, rest_s=0.002)
        for _ in range(100)
    ]
    entered = set()
    for run in range(10_000):
        policy = policies[run % len(policies)]
        safety, now, since_calm = Safety(), 0, 0
        draws = rng.random((12, 10)) < rng.random(10) * rng.random()
        some = rng.integers(EVERY + 1, size=12) & rng.integers(EVERY + 1, size=12)
        for draw, chosen in zip(draws.tolist(), some.tolist(), strict=True):
            now += MS
            faults = Fault(chosen) if draw[0] else Fault.NONE
            before = safety
            _, lost, damp, stop, slow, held, disarmed, done, recover, wait = draw
            since_calm = 0 if not slow else since_calm or now
            inputs = Inputs(
                faults, heard=not lost, damp=damp, stop=stop, slow=slow, start=not held, arm=not disarmed, done=done,
                recover=recover, wait=wait,
            )  # fmt: skip
            safety = advance(before, policy, now, inputs)
            assert safety.mode is before.mode or safety.mode in ALLOWED[before.mode]
            if stop:
                assert safety.mode is Mode.STOPPED
            if before.mode is Mode.IDLE and not (lost or damp or stop or Fault.SILENT in faults):
                assert safety.mode is Mode.READY
            if damp and before.mode is Mode.RUNNING:
                assert safety.mode in (Mode.DAMPED, Mode.STOPPED)
            if before.mode is Mode.RUNNING and not (faults or damp or stop or done):
                assert safety.mode is Mode.RUNNING
            if before.mode is Mode.DAMPED and safety.mode is not Mode.DAMPED and not stop:
                # braked until it rests, or for the maximum time
                assert now - before.since >= 5 * MS or now - max(since_calm, before.since + MS) >= 2 * MS
                assert not (safety.mode is Mode.STOPPED and wait)
                assert not (safety.mode is Mode.READY and (faults or not recover))
            entered.add((before.mode, safety.mode))
    # and the sequences visited every allowed transition
    assert entered >= {(a, b) for a, reached in ALLOWED.items() for b in reached}


@pytest.mark.parametrize(("fault", "name"), list(NAMES.items()))
@pytest.mark.parametrize("then", ["damp", "stop", "hold"])
def test_a_fault_is_tolerated_as_often_in_a_row_as_its_rule_says(fault, name, then):
    policy = Policy(**{name: Rule(tolerate=3, then=then)})
    safety = Safety(mode=Mode.RUNNING)
    for k in range(3):
        safety = advance(safety, policy, k * MS, Inputs(fault, heard=True))
    assert safety.mode is Mode.RUNNING
    calmed = advance(safety, policy, 4 * MS, Inputs(heard=True))
    assert advance(calmed, policy, 5 * MS, Inputs(fault, heard=True)).mode is Mode.RUNNING
    expected = {"damp": Mode.DAMPED, "stop": Mode.STOPPED, "hold": Mode.RUNNING}[then]
    assert advance(safety, policy, 4 * MS, Inputs(fault, heard=True)).mode is expected


@pytest.mark.parametrize(
    ("fault", "also", "since", "ended"),
    [
        (Fault.MOTION, Fault.ASTRAY, 0, Fault.ASTRAY),
        (Fault.MOTION, Fault.ASTRAY, 1, Fault.MOTION),
        (Fault.MOTION, Fault.LOAD, 0, Fault.MOTION),
        (Fault.ENCODER, Fault.ASTRAY, 0, Fault.ASTRAY | Fault.ENCODER),
        (Fault.ENCODER, Fault.ASTRAY, 1, Fault.ENCODER),
    ],
)
def test_a_joint_that_already_strays_may_explain_readings_that_accuse_a_drive_or_an_encoder(fault, also, since, ended):
    safety = Safety(mode=Mode.RUNNING)
    for k in range(6):
        assert safety.mode is Mode.RUNNING
        faults = fault | also if k >= since else fault
        safety = advance(safety, Policy(), k * MS, Inputs(faults, heard=True))
    assert safety.mode is Mode.DAMPED
    assert safety.ended_by is ended


@pytest.mark.parametrize("ticks", [1, 2, 3])
def test_a_fault_of_states_counts_once_per_state_if_the_machine_is_slower_than_its_loop(ticks):
    policy, safety = Policy(hot=Rule(tolerate=3)), Safety(mode=Mode.RUNNING)
    for k in range(3 * ticks + 1):
        assert safety.mode is Mode.RUNNING
        inputs = Inputs(Fault.NONE, Fault.HOT, heard=True) if k % ticks else Inputs(Fault.HOT, heard=True)
        safety = advance(safety, policy, k * MS, inputs)
    assert safety.mode is Mode.DAMPED


def test_the_graver_of_two_faults_decides():
    policy = Policy(overrun=Rule(then="damp"), raised=Rule(then="stop"))
    safety = advance(Safety(mode=Mode.RUNNING), policy, 0, Inputs(Fault.OVERRUN | Fault.RAISED, heard=True))
    assert safety.mode is Mode.STOPPED


def test_braking_lasts_until_rest_but_not_for_ever():
    policy, safety = Policy(damp_s=0.5), Safety(mode=Mode.DAMPED, since=7 * NS)
    assert advance(safety, policy, 7 * NS + 499 * MS, Inputs(heard=True)) is safety
    assert advance(safety, policy, 7 * NS + 500 * MS, Inputs(heard=True)).mode is Mode.STOPPED
    policy, slow = Policy(damp_s=0.5, rest_s=0.1), Inputs(heard=True, slow=True)
    slowed = advance(safety, policy, 7 * NS + 50 * MS, slow)
    assert advance(slowed, policy, 7 * NS + 149 * MS, slow) is slowed
    assert advance(slowed, policy, 7 * NS + 150 * MS, slow).mode is Mode.STOPPED
    moved = advance(slowed, policy, 7 * NS + 100 * MS, Inputs(heard=True))
    assert advance(moved, policy, 7 * NS + 150 * MS, slow).mode is Mode.DAMPED


def test_a_braked_machine_is_recovered_only_by_an_act_without_faults():
    policy, safety = Policy(damp_s=0.5), Safety(mode=Mode.DAMPED, since=0, ended_by=Fault.ESTOP)
    late = 600 * MS
    waits = Inputs(heard=True, wait=True)
    assert advance(safety, policy, late, waits) is safety
    assert advance(safety, policy, late, structs.replace(waits, recover=True, faults=Fault.ESTOP)) is safety
    ready = advance(safety, policy, late, structs.replace(waits, recover=True))
    assert (ready.mode, ready.ended_by) == (Mode.READY, Fault.NONE)
    assert advance(ready, policy, late, Inputs(heard=True)).mode is Mode.READY
    assert advance(ready, policy, late, Inputs(heard=True, arm=True)).mode is Mode.ARMED


def test_an_end_that_was_planned_is_not_braked():
    ended = advance(Safety(mode=Mode.RUNNING), Policy(), 0, Inputs(heard=True, done=True))
    assert (ended.mode, ended.ended_by) == (Mode.STOPPED, Fault.NONE)
    # but a fault in the same tick takes priority
    failed = advance(Safety(mode=Mode.RUNNING), Policy(), 0, Inputs(Fault.ESTOP, heard=True, done=True))
    assert failed.mode is Mode.DAMPED


def test_the_package_says_what_its_default_policy_does():
    """People read the table of `idcontrol.loop` to know when a machine brakes."""
    policy, text = Policy(), " ".join(loop.__doc__.split())
    periods, ms = f"{patience(1.0):g} periods", f"{1e3 * patience(0.0):g} ms"
    for words in (
        f"braked if the newest datagram is older than both {periods} and {ms}",
        f"ticks the last torque holds at the machine; braked after {policy.overrun.tolerate} ticks in a row",
        f"interrupts the controller after {policy.hang_s:g} s",
        f"a NaN the last torque holds; braked after {policy.not_finite.tolerate} ticks in a row",
        f"the last torque holds; braked after {policy.failed.tolerate} ticks in a row",
        f"its torque is sent; braked after {policy.fallback.tolerate} ticks in a row",
        f"a joint is {policy.jump:g} rad from its the message is not used; braked after {policy.encoder.tolerate}",
        f"is constant the same for {1e3 * policy.frozen_s:g} ms although its velocity adds up to {policy.frozen:g} rad",
        f"the torque is sent; braked after {policy.torque.tolerate} ticks in a row torque that was sent",
        f"the torque is sent; braked after {policy.motion.tolerate} ticks in a row torque of one joint",
        f"the gate cuts torques to limits braked after {policy.cut_s:g} s",
        f"the gate cuts gains or targets braked after {policy.wrong_s:g} s",
        f"leans by more than {policy.tilt_rad:g} rad the torque is sent; braked after {policy.tipped.tolerate} ticks",
        f"joint {policy.tracking:g} rad off its reference the torque is sent; braked after {policy.astray.tolerate}",
        f"brakes itself after {periods}, at least {ms}, without a command",
    ):
        assert words in text
    assert policy.damp_s == 1.0
    assert "ends in *stopped* when the joints rest, or after a second" in text
    immediate = ("raised", "hung", "clock", "peer", "recorder", "silent", "stale", "cut")
    for rule in (getattr(policy, name) for name in immediate):
        assert rule == Rule(tolerate=0, then="damp")


# --- the gate ---

N = 3


def gate_reference(limits, wanted, last, q, v, share, dt):
    """The gate in NumPy, rule by rule."""
    tau = share * wanted
    outwards = ((q < limits.low) & (tau < 0)) | ((q > limits.high) & (tau > 0))
    tau = np.where(outwards, 0.0, tau)
    faster = (np.abs(v) > limits.speed) & (tau * v > 0)
    tau = np.where(faster, 0.0, tau)
    tau = np.clip(tau, last - limits.torque_rate * dt, last + limits.torque_rate * dt)
    return np.clip(tau, -limits.torque, limits.torque)


vectors = hnp.arrays(np.float64, N, elements=st.floats(-50.0, 50.0))
positive = hnp.arrays(np.float64, N, elements=st.floats(0.1, 40.0))


@settings(max_examples=200, deadline=None)
@given(vectors, vectors, vectors, vectors, positive, positive, st.floats(0.0, 1.0), st.floats(0.0, 2.0))
def test_the_gate_keeps_every_limit_for_any_command(wanted, last, q, v, torque, rate, share, dt):
    limits = Limits(
        torque=torque, torque_rate=rate, low=np.full(N, -1.0), high=np.full(N, 1.0), speed=np.full(N, 10.0),
        damping=np.ones(N),
    )  # fmt: skip
    last = np.clip(last, -torque, torque)
    out = np.empty(N)
    cut = admit(limits, wanted, last, q, v, share, dt, out)
    assert (np.abs(out) <= torque).all()
    assert (np.abs(out - last) <= rate * dt * (1 + 1e-12) + 1e-12).all()  # rounding of last ± step
    np.testing.assert_allclose(out, gate_reference(limits, wanted, last, q, v, share, dt), rtol=0, atol=1e-12)
    if cut is Cut.NONE:
        np.testing.assert_array_equal(out, share * wanted)


def test_the_gate_may_write_over_the_last_torques():
    limits = Limits(
        torque=np.full(2, 5.0), torque_rate=np.full(2, 1000.0), low=np.full(2, -1.0), high=np.full(2, 1.0),
        speed=np.full(2, 10.0), damping=np.ones(2),
    )  # fmt: skip
    tau = np.array([1.0, -1.0])
    cut = admit(limits, np.array([9.0, -1.5]), tau, np.zeros(2), np.zeros(2), 1.0, 1e-3, tau)
    np.testing.assert_allclose(tau, [2.0, -1.5])
    assert cut is Cut.RATE


def one(**changes):
    """Return limits of one joint that limit only the changes."""
    free = {"torque": np.inf, "torque_rate": np.inf, "low": -np.inf, "high": np.inf, "speed": np.inf, "damping": 1.0}
    return Limits(**{name: np.array([value]) for name, value in (free | changes).items()})


HAIR = 1e-9
"""Far below a hundredth, the scale of a wrong limit, and far above the rounding of these numbers."""


@pytest.mark.parametrize(
    ("limit", "wanted", "cut"),
    [
        ({"torque": 5.0}, 5.0, Cut.TORQUE),
        ({"torque": 5.0}, -5.0, Cut.TORQUE),
        ({"torque_rate": 5000.0}, 5.0, Cut.RATE),
        ({"torque_rate": 5000.0}, -5.0, Cut.RATE),
    ],
)
def test_torques_and_their_rates_are_cut_from_a_hair_beyond_the_limit_on(limit, wanted, cut):
    out, zero = np.empty(1), np.zeros(1)
    assert admit(one(**limit), np.array([wanted * (1 - HAIR)]), zero, zero, zero, 1.0, 1e-3, out) is Cut.NONE
    assert out[0] == wanted * (1 - HAIR)
    assert admit(one(**limit), np.array([wanted * (1 + HAIR)]), zero, zero, zero, 1.0, 1e-3, out) is cut
    assert out[0] == pytest.approx(wanted, rel=1e-15)  # rounding of rate and period


@pytest.mark.parametrize(
    ("limit", "q", "v", "cut"),
    [
        ({"high": 0.5}, 0.5, 0.0, Cut.POSITION),
        ({"low": 0.5}, 0.5, 0.0, Cut.POSITION),
        ({"speed": 2.0}, 0.0, 2.0, Cut.SPEED),
        ({"speed": 2.0}, 0.0, -2.0, Cut.SPEED),
    ],
)
def test_positions_and_speeds_are_held_from_a_hair_beyond_the_limit_on(limit, q, v, cut):
    outwards = np.array([-1.0 if "low" in limit or v < 0 else 1.0])
    out, zero = np.empty(1), np.zeros(1)
    inside, beyond = (1 + HAIR, 1 - HAIR) if "low" in limit else (1 - HAIR, 1 + HAIR)
    at = np.array([q * inside]), np.array([v * inside])
    assert admit(one(**limit), outwards, zero, *at, 1.0, 1e-3, out) is Cut.NONE
    at = np.array([q * beyond]), np.array([v * beyond])
    assert admit(one(**limit), outwards, zero, *at, 1.0, 1e-3, out) is cut
    assert out[0] == 0.0


def test_only_faults_beyond_tolerance_are_reported_as_the_end():
    policy = Policy(overrun=Rule(tolerate=3), silent=Rule(tolerate=0), recorder=Rule(then="hold"))
    both = Fault.OVERRUN | Fault.SILENT | Fault.RECORDER
    safety = advance(Safety(mode=Mode.RUNNING), policy, 0, Inputs(both, heard=True))
    assert safety.mode is Mode.DAMPED
    assert safety.ended_by == Fault.SILENT
    stopped = advance(safety, policy, NS, Inputs(Fault.OVERRUN, heard=True))
    assert (stopped.mode, stopped.ended_by) == (Mode.STOPPED, Fault.SILENT)
    asked = advance(Safety(mode=Mode.RUNNING), policy, 0, Inputs(heard=True, damp=True))
    assert (asked.mode, asked.ended_by) == (Mode.DAMPED, Fault.NONE)
