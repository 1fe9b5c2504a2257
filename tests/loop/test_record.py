"""From telemetry to the record: the record does not depend on how the rows arrived."""

from __future__ import annotations

import json
import mmap
import os
import select
import time

import numpy as np
import pytest

from idcontrol.loop import machine
from idcontrol.loop import telemetry as loop_telemetry
from idcontrol.loop.clock import NS
from idcontrol.loop.jobs import RecordJob, encode, start
from idcontrol.loop.life import Phase
from idcontrol.loop.memory import anonymous
from idcontrol.loop.record import (
    READY,
    WRITTEN_AT_ONCE,
    Batch,
    Ending,
    Lines,
    Scribe,
    _Drain,
    end_speed,
    stall,
    too_slow,
)
from idcontrol.loop.ring import Ring, ring_bytes
from idcontrol.loop.safety import MEANINGS, NAMES, Fault, Mode, Policy, Rule
from idcontrol.loop.session import wire_format
from idcontrol.loop.telemetry import PARTS
from idcontrol.loop.wire import Drop
from idcontrol.record.channels import views, width
from idcontrol.record.recording import load
from idcontrol.types import Status
from tests import GUARD_S
from tests.loop.rig import ArmSession

H = 1e-3
OUTCOME = Ending(ended="duration", overruns=0, missed=0, realtime={})


class TouchingArm(ArmSession):
    """An arm whose tip senses forces, with a derived channel."""

    def __init__(self):
        super().__init__()
        self.feet = ("tip",)

    def channels(self):
        shapes, units = super().channels()
        return shapes | {"force_pred": (1, 3), "force": (1, 3), "reach": ()}, units

    def derive(self, row):
        return {"reach": row["q"].sum()}


def loop_channels(session):
    return loop_telemetry.channels(wire_format(session), session.notes)


def telemetry(channels, seed):
    """Return 30 rows: 4 before the start, 20 of running with an overrun in two of them, 6 of braking."""
    rows = np.random.default_rng(seed).standard_normal((30, width(channels)))
    of = views(rows, channels)
    of["mode"][:] = np.repeat([Mode.IDLE, Mode.READY, Mode.RUNNING, Mode.DAMPED], [2, 2, 20, 6])
    of["faults"][:] = Fault.NONE
    of["faults"][9:11] = Fault.OVERRUN
    if "status" in of:
        of["status"][:] = Status.SOLVED
    if "tick" in of:
        of["tick"][:] = np.arange(30) + 100
    if "phase" in of:
        of["phase"][:] = np.where(of["mode"] == Mode.RUNNING, Phase.WORKING, np.nan)
    return rows


def scribe_of_a_run(out):
    """Return a scribe that has the rows of a loop, and no rows of its machine."""
    session = TouchingArm()
    scribe = Scribe(session, out, {}, H, machine_too=True)
    scribe.loop_rows(telemetry(loop_channels(session), 0))
    return scribe


def machine_rows(modes, faults=Fault.NONE):
    """Return one row of the machine for each mode; the faults belong to the last row."""
    channels = machine.channels(wire_format(TouchingArm()))
    rows = np.zeros((len(modes), width(channels)))
    of = views(rows, channels)
    of["mode"][:] = modes
    of["faults"][-1] = faults
    return rows


@pytest.mark.parametrize(("last", "complete"), [(Mode.STOPPED, True), (Mode.DAMPED, False), (Mode.RUNNING, False)])
def test_the_record_of_a_machine_that_did_not_stop_in_order_is_not_complete(tmp_path, last, complete):
    scribe = scribe_of_a_run(tmp_path / "run")
    scribe.machine_rows(machine_rows([Mode.IDLE, Mode.READY, Mode.RUNNING, last]))
    scribe.close(OUTCOME)
    assert load(tmp_path / "run" / "machine").complete == complete


def test_the_record_of_a_machine_tells_every_change_of_its_mode(tmp_path):
    modes = [Mode.READY, Mode.IDLE, Mode.READY, Mode.RUNNING, Mode.DAMPED, Mode.STOPPED]
    scribe = scribe_of_a_run(tmp_path / "run")
    scribe.machine_rows(machine_rows(modes, Fault.SILENT))
    scribe.close(OUTCOME)
    log = [event["what"] for event in load(tmp_path / "run" / "machine").events]
    assert log == [
        *(f"the machine is {mode.name.lower()}" for mode in modes[:-1]),
        "fault: silent",
        "the machine is stopped",
    ]


@pytest.mark.parametrize(
    ("faults", "at_machine", "fault", "words"),
    [
        (Fault.SILENT, Fault.NONE, "silent", "no usable datagram came"),
        (Fault.OVERRUN | Fault.FAILED, Fault.NONE, "overrun, failed", "could not use its input"),
        (Fault.PEER, Fault.NOT_FINITE, "peer", "at the machine, torques or states were not finite"),
        (Fault.NONE, Fault.NONE, None, "was not ready within loop.policy.start_s"),
    ],
)
def test_the_fault_that_ended_a_loop_is_named(tmp_path, faults, at_machine, fault, words):
    scribe = scribe_of_a_run(tmp_path / "run")
    scribe.machine_rows(machine_rows([Mode.RUNNING, Mode.STOPPED], at_machine))
    metrics = scribe.close(Ending(ended="fault", faults=faults, overruns=0, missed=0, realtime={}))
    assert metrics["fault"] == fault
    assert words in metrics["error"]
    assert "\n" not in metrics["error"]


@pytest.mark.parametrize(("mode", "started"), [(Mode.RUNNING, True), (Mode.READY, False)])
def test_a_loop_that_ends_while_the_robot_stands_up_is_not_said_to_have_not_started(tmp_path, mode, started):
    scribe = scribe_of_a_run(tmp_path / "run")
    channels = loop_channels(TouchingArm())
    recorded = views(telemetry(channels, 0), channels)
    recorded["mode"][4:24] = mode
    ending = Ending(ended="fault", faults=Fault.HOT, overruns=0, missed=0, realtime={})
    said = scribe._error(ending, recorded, np.zeros(0), np.zeros(len(Drop)))
    scribe.close(OUTCOME)
    assert said.startswith("the loop did not start") is not started


def test_the_end_of_a_loop_whose_machine_sent_nan_says_why_nothing_was_heard(tmp_path):
    session = TouchingArm()
    channels = loop_channels(session)
    rows = telemetry(channels, 0)
    views(rows, channels)["dropped"][:] = 25.0 * (np.arange(len(Drop)) == Drop.RANGE)
    scribe = Scribe(session, tmp_path / "run", {}, H, machine_too=False)
    scribe.loop_rows(rows)
    metrics = scribe.close(Ending(ended="fault", faults=Fault.SILENT, overruns=0, missed=0, realtime={}))
    assert "25 of its datagrams were dropped: a value is NaN or out of range" in metrics["error"]


def test_metrics_of_a_recovered_loop_cover_its_last_stretch_of_work(tmp_path):
    session = TouchingArm()
    channels = loop_channels(session)
    rows = telemetry(channels, 0)
    of = views(rows, channels)
    of["mode"][10:14] = Mode.DAMPED
    of["compute_us"][:] = np.where(np.arange(30) < 12, 900.0, 100.0)
    scribe = Scribe(session, tmp_path / "run", {}, H, machine_too=False)
    scribe.loop_rows(rows)
    assert scribe.close(OUTCOME)["compute_us"]["max"] == 100.0


def test_the_speed_at_the_end_leaves_out_braking_before_a_recovery():
    mode = np.array([Mode.RUNNING, Mode.DAMPED, Mode.RUNNING, Mode.DAMPED, Mode.STOPPED])
    v = np.array([[5.0, 0.0, 0.0], [4.0, 0.0, 0.0], [3.0, 0.0, 0.0], [0.0, -0.3, 0.0], [0.1, 0.0, 0.0]])
    assert end_speed({"mode": mode, "v": v}) == 0.3
    assert end_speed({"mode": mode[:3], "v": v[:3]}) is None


def test_a_record_that_ends_armed_has_no_speed_at_the_end():
    mode = np.array([Mode.RUNNING, Mode.DAMPED, Mode.READY, Mode.ARMED])
    assert end_speed({"mode": mode, "v": np.ones((4, 6))}) is None
    assert end_speed({"mode": np.append(mode, Mode.STOPPED), "v": np.zeros((5, 6))}) == 0.0


def test_every_fault_has_a_rule_and_a_sentence():
    assert set(NAMES) == set(MEANINGS) == set(Fault)
    assert all(isinstance(getattr(Policy(), name), Rule) for name in NAMES.values())


def test_a_batch_passes_on_each_row_once_and_in_order():
    taken: list[list[list[float]]] = []
    batch, row = Batch(lambda rows: taken.append(rows.tolist())), np.zeros(2)
    for i in range(2 * WRITTEN_AT_ONCE + 3):
        row[:] = i, -i  # the loop writes each row into the same memory
        batch.add(row)
    batch.flush()
    batch.flush()
    assert [len(rows) for rows in taken] == [WRITTEN_AT_ONCE, WRITTEN_AT_ONCE, 3]
    assert [row for rows in taken for row in rows] == [[i, -i] for i in range(2 * WRITTEN_AT_ONCE + 3)]


def test_a_batch_that_cannot_be_written_is_not_written_again():
    def full(rows):
        raise OSError(28, "No space left on device")

    batch = Batch(full)
    batch.add(np.zeros(2))
    with pytest.raises(OSError, match="No space"):
        batch.flush()
    batch.flush()


def written(out, size):
    session = TouchingArm()
    wire = wire_format(session)
    scribe = Scribe(session, out, {}, H, machine_too=True)
    loop = telemetry(loop_channels(session), 0)
    body = telemetry(machine.channels(wire), 1)
    for at in range(0, 30, size):
        scribe.loop_rows(loop[at : at + size])
        scribe.machine_rows(body[at : at + size])
    scribe.close(OUTCOME)
    return views(loop, loop_channels(session))


def test_the_record_begins_with_the_first_torque_and_its_forces(tmp_path):
    sent = written(tmp_path / "run", 7)
    run = load(tmp_path / "run")
    arrays = run.arrays
    np.testing.assert_array_equal(arrays["tick"], np.arange(104, 130))
    np.testing.assert_array_equal(arrays["t"], np.arange(26) * H)
    np.testing.assert_array_equal(arrays["t_machine"], sent["t"][4:])
    np.testing.assert_array_equal(arrays["q"], sent["q"][4:])
    np.testing.assert_array_equal(arrays["reach"], sent["q"][4:].sum(axis=1))
    # a state contains the forces of the previous period; after the last state there is none
    np.testing.assert_array_equal(arrays["force"], sent["force_sensed"][[*range(5, 30), 29]])
    assert run.metrics is not None
    assert run.metrics["steps"] == 20  # only running ticks
    log = [(event["what"], event["t"]) for event in run.events]
    assert log == [
        ("the loop is ready", 0.0),
        ("the loop is running", 0.0),
        ("fault: overrun", pytest.approx(5 * H)),
        ("the loop is damped", pytest.approx(20 * H)),
    ]


def test_metrics_cover_running_ticks_and_faults_up_to_the_end(tmp_path):
    session = TouchingArm()
    channels = loop_channels(session)
    rows = telemetry(channels, 0)
    of = views(rows, channels)
    running = of["mode"] == Mode.RUNNING
    of["period_us"][:] = np.where(running, 1000.0, 9999.0)
    of["period_us"][5] = np.nan  # like a first tick, which has no predecessor
    of["compute_us"][:], of["cut"][:] = np.where(running, 200.0, 9999.0), np.where(running, 0.0, 8.0)
    of["compute_us"][7], of["cut"][7] = 800.0, 1.0
    of["plan_us"][:], of["switches"][:] = 30.0, 0.0
    of["plan_us"][7], of["switches"][7], of["status"][8] = 300.0, 2.0, np.nan
    of["compute_us"][[8, 9]] = 700.0, 600.0  # the second tick is an overrun
    of["cpu_us"][:] = 100.0
    of["cpu_us"][11] = 150.0  # decides between ticks that took equally long
    of["faults"][24] = Fault.PEER  # the first row of braking contains the fault that ended the run
    of["faults"][[2, 28]] = Fault.SILENT  # faults before and after the run do no harm
    of["dropped"][:] = np.arange(30)[:, None] * np.arange(6)
    scribe = Scribe(session, tmp_path / "run", {}, H, machine_too=False)
    scribe.machine_rows(machine_rows([Mode.RUNNING]))  # rows that were not requested
    scribe.loop_rows(rows)
    ending = Ending(
        ended="signal", overruns=2, missed=3, realtime={"cpu": 1}, signal=15, memory_mb=(10.0, 11.0), steal_s=0.5
    )
    metrics = scribe.close(ending)
    assert metrics["steps"] == 20
    assert metrics["period_us"]["max"] == metrics["period_mean_us"] == 1000.0
    assert (metrics["compute_us"]["p50"], metrics["compute_us"]["max"]) == (200.0, 800.0)
    assert {name: count for name, count in metrics["faults"].items() if count} == {"overrun": 2, "peer": 1}
    assert metrics["fault_events"] == 1  # overruns are counted separately
    assert metrics["gate_ticks"] == 1
    assert metrics["dropped"] == {"size": 0, "damaged": 29, "foreign": 58, "old": 87, "range": 116, "version": 145}
    assert metrics["memory_mb"] == {"start": 10.0, "end": 11.0}
    assert (metrics["parts_us"]["plan"]["p50"], metrics["parts_us"]["plan"]["max"]) == (30.0, 300.0)
    assert (metrics["switches"], metrics["steal_s"]) == (2, 0.5)
    ticks = [(tick["compute_us"], tick["plan_us"], tick["switches"], tick["status"], tick["faults"])
             for tick in metrics["worst_ticks"][:4]]  # fmt: skip
    assert ticks == [
        (800.0, 300.0, 2.0, "solved", []), (700.0, 30.0, 0.0, None, []), (600.0, 30.0, 0.0, "solved", ["overrun"]),
        (200.0, 30.0, 0.0, "solved", []),
    ]  # fmt: skip
    assert metrics["worst_ticks"][3]["cpu_us"] == 150.0
    keys = ("ended", "signal", "overruns", "missed", "realtime", "error", "completed")
    assert [metrics[name] for name in keys] == ["signal", 15, 2, 3, {"cpu": 1}, None, False]
    run = load(tmp_path / "run")
    assert not (tmp_path / "run" / "machine").exists()
    assert [event["what"] for event in run.events if "fault" in event["what"]] == ["fault: overrun", "fault: peer"]
    assert [event["detail"]["tick"] for event in run.events][-2:] == [124, 124]


class Counted(TouchingArm):
    """A session whose metrics accept any number of rows."""

    def metrics(self, arrays):
        return {"steps": len(arrays["t"])}


def test_a_loop_that_never_ran_has_empty_metrics(tmp_path):
    scribe = Scribe(Counted(), tmp_path / "run", {}, H, machine_too=False)
    scribe.loop_rows(telemetry(loop_channels(Counted()), 0)[:4])
    metrics = scribe.close(OUTCOME)
    assert (metrics["steps"], metrics["completed"], metrics["period_mean_us"]) == (0, False, None)
    assert set(metrics["dropped"].values()) == {0}
    assert not load(tmp_path / "run").arrays["t"].size


@pytest.mark.parametrize("most", [None, 200, 250])
def test_waiting_rows_are_written_in_order_and_not_too_many_at_once(most):
    memory = mmap.mmap(-1, ring_bytes(1, 1000))
    ring, taken = Ring(memory, 1), []
    drain = _Drain(Ring(memory, 1), lambda rows: taken.append(rows[:, 0].copy()))
    assert not drain.fetch()
    for k in range(850):
        ring.push(np.full(1, float(k)))
    assert drain.fetch()
    calls = 0
    while drain.waiting:
        before = sum(map(len, taken))
        drain.write(most)
        calls += 1
        assert most is None or sum(map(len, taken)) - before < most + WRITTEN_AT_ONCE
    np.testing.assert_array_equal(np.concatenate(taken), np.arange(850))
    assert max(map(len, taken)) <= WRITTEN_AT_ONCE
    assert calls == {None: 1, 200: 5, 250: 3}[most]


def test_a_period_that_is_too_short_for_its_ticks_is_named():
    slow = np.array([np.nan, 260.0, 254.0, 240.0])
    said = too_slow(slow, 1.0 / 4000.0)
    assert said is not None
    assert "254 us" in said
    assert "4000 Hz" in said
    assert too_slow(slow, 1e-3) is None
    assert too_slow(np.full(3, np.nan), 1e-3) is None


def test_the_part_of_a_stalled_tick_is_named():
    spent = {f"{part}_us": np.full(3, 10.0) for part in PARTS}
    recorded = spent | {
        "mode": np.array([Mode.ARMED, Mode.RUNNING, Mode.RUNNING], dtype=np.float64),
        "compute_us": np.array([9e4, 12000.0, np.nan]),
        "plan_us": np.array([8e4, 11400.0, np.nan]),
    }
    said = stall(recorded, 1e-3)
    assert said == "one tick took 12.0 ms, 11.4 ms of it for the planner; the period is 1 ms"
    assert stall(recorded | {"compute_us": np.array([9e4, 400.0, np.nan])}, 1e-3) is None


@pytest.mark.parametrize("attended", [True, False])
def test_only_an_attended_loop_asks_for_words_to_arm_and_recover(tmp_path, attended):
    channels, lines = loop_channels(ArmSession()), []
    scribe = Scribe(ArmSession(), tmp_path / "run", {}, H, machine_too=False, attended=attended, report=lines.append)
    scribe.loop_rows(telemetry(channels, 0))
    scribe.close(None)
    asked = [line.split()[1] for line in lines if line.startswith("Type ")]
    assert asked == (["arm", "recover"] if attended else [])


def test_lines_for_an_unread_pipe_wait_without_blocking():
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    while select.select([], [writer], [], 0.0)[1]:
        os.write(writer, b"x" * 4096)
    os.set_blocking(writer, True)  # a write would now wait for ever
    lines = Lines(writer)
    lines("Type arm")
    lines.write()
    while not (text := os.read(reader, 1 << 20)).endswith(b"Type arm\n"):
        assert set(text) == {ord("x")}
        lines.write()
    os.close(reader)
    lines("to nobody")
    lines.write()
    os.close(writer)


def recording(out):
    """Start the process of a recorder, and push a run; return the process, its job, and the rows by channel."""
    channels = loop_channels(ArmSession())
    descriptor, memory = anonymous(ring_bytes(width(channels), 100))
    ring, rows = Ring(memory, width(channels)), telemetry(channels, 0)
    job = RecordJob(
        target="tests.loop.rig:offer", config={}, settings={"sensing": {"base": "plant"}}, out=str(out),
        period=NS // 1000, ring=descriptor, machine_ring=None,
    )  # fmt: skip
    recorder = start("idcontrol.loop.record", job, [descriptor])
    assert recorder.stdout.readline().strip() == READY.encode()
    for row in rows:
        ring.push(row)
    return recorder, job, views(rows, channels)


@pytest.mark.slow
def test_a_recorder_that_is_killed_has_handed_its_rows_to_the_system(tmp_path):
    recorder, _, sent = recording(tmp_path / "run")
    patience = time.monotonic() + GUARD_S
    # 26 rows since the first torque; the resulting forces of the last row are not known
    while len(load(tmp_path / "run").arrays["t"]) < 25 and time.monotonic() < patience:
        time.sleep(0.01)
    recorder.kill()
    recorder.communicate()
    np.testing.assert_array_equal(load(tmp_path / "run").arrays["q"], sent["q"][4:-1])


@pytest.mark.slow  # `test_a_loop_on_the_wall_clock_runs_records_and_ends` has this process, too
def test_the_process_of_the_recorder_keeps_every_row_and_prints_the_metrics(tmp_path):
    recorder, job, sent = recording(tmp_path / "run")
    out, _ = recorder.communicate(encode(OUTCOME))
    metrics = json.loads(out)
    assert (recorder.returncode, metrics["steps"], metrics["rows_lost"]) == (0, 20, 0)  # running ticks
    run = load(tmp_path / "run")
    np.testing.assert_array_equal(run.arrays["q"], sent["q"][4:])
    assert run.config["loop"] == job.settings
