"""The recorder: reads the telemetry of a loop, and of a plant that the loop started, and writes a run folder for each.

As a separate process it reads a `RecordJob` (one line of JSON) from its standard input and drains the rings
(`idcontrol.loop.ring`). A second line describes the end of the loop (`Ending`); then the process prints the metrics. If
the loop is killed, the input ends without this line. The remaining rows of the rings are still written, and the record
is marked as cut off.
"""

from __future__ import annotations

import json
import math
import os
import select
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from idcontrol.config.configuration import jsonable
from idcontrol.loop import machine
from idcontrol.loop.clock import NS
from idcontrol.loop.culprit import culprit
from idcontrol.loop.jobs import RecordJob, decode, receive
from idcontrol.loop.life import Phase
from idcontrol.loop.memory import attach
from idcontrol.loop.ring import Ring
from idcontrol.loop.safety import MEANINGS, NAMES, NOT_BEGUN, PATIENCE, Fault, Mode
from idcontrol.loop.session import Session, resolve, wire_format
from idcontrol.loop.telemetry import COURSE, PARTS, channels
from idcontrol.loop.wire import Drop
from idcontrol.record.channels import views, width
from idcontrol.record.metrics import estimate, percentiles
from idcontrol.record.recording import Recorder
from idcontrol.types import Array, Booleans, Event, Status

EXTRA = (
    *COURSE, "t_machine", "tau_wanted", "sent", "torque_off", "torque_lost", "cut_ticks", "doubted", "tau_applied",
    "accelerometer", "dropped", "status", "step_us", "drive_error", "temperature", "voltage", "estop", "axes",
    "buttons",
)  # fmt: skip
"""Telemetry channels that every loop records in addition to `Session.channels`."""
TIMES = tuple(name for name in EXTRA if name.endswith("_us"))
UNITS = {
    **dict.fromkeys(TIMES, "us"), "utc_s": "s", "t_machine": "s", "tau_wanted": "N m", "torque_off": "N m",
    "tau_applied": "N m", "accelerometer": "m/s²", "temperature": "°C", "voltage": "V",
}  # fmt: skip
"""Units of the channels in `EXTRA`."""
WALL_TIME = (*TIMES, "utc_s", "sequence", "machine_sequence", "echo", "missed", "switches")
WORST = 5
"""Number of longest ticks that are reported individually."""
EVERY_S = 0.01
"""Time between two reads of the rings [s]. After each read, rows are handed to the operating system. A killed recorder
loses the rows that were not handed over."""
WRITTEN_AT_ONCE = 200
"""Number of rows of a ring after which writing pauses, so that the rings are read before they overflow; also the
largest number of rows in a block."""
FULL = 0.9
"""Median duration of ticks, as a fraction of the period, from which on a loop is `too_slow`: Linux may then pause it
(`idcontrol.loop.realtime`)."""
STALL = 5.0
"""Duration of a tick, in periods, from which on `stall` names it as a possible cause of a silence."""
SPENT_ON: Final = {
    "read": "reading the state", "estimate": "the estimator", "plan": "the planner", "control": "the controller",
    "gate": "the gate and sending", "record": "the record",
}  # fmt: skip
"""`PARTS` of a tick in words."""
STILL_S = 0.5
"""Time without a row after which the rings of a killed loop count as ended [s]."""
HELD_UP_S = 30.0
"""The same while the machine runs or brakes [s]: its rows continue until it has stopped, but a busy computer may delay
them."""

WORDS: Final = {Mode.READY: "arm", Mode.DAMPED: "recover"}
"""The word that the operator types to leave a mode."""
EFFECTS: Final = {Mode.READY: "let the machine move", Mode.DAMPED: "make it ready again, once it rests without a fault"}
"""The effect of the word in each mode, for the question to the operator."""

READY = "ready"
"""The line that the process prints when it starts to drain the rings."""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a loop, for its record.

    Attributes:
        ended: ``"duration"``, ``"signal"`` or ``"fault"``.
        faults: Faults that ended the loop or prevented its start (`idcontrol.loop.safety.Fault`); 0 without such a
            fault.
        overruns: Number of ticks that took longer than their period.
        missed: Number of ticks that were skipped.
        realtime: Privileges that the operating system granted (`idcontrol.loop.realtime.Granted`).
        signal: Number of the signal that ended the loop; null without a signal.
        error: `Counts.error`: one line about the error of planner or controller, or about the pose from which the
            machine cannot start; "" without an error.
        memory_mb: Memory of the loop's process before its first tick and after its last tick [MB]; null for an
            in-process loop.
        steal_s: CPU time that a hypervisor took from the computer during the loop [s]; null for an in-process loop.
    """

    ended: str
    faults: int = 0
    overruns: int
    missed: int
    realtime: dict[str, Any]
    signal: int | None = None
    error: str = ""
    memory_mb: tuple[float, float] | None = None
    steal_s: float | None = None


class Scribe:
    """Writes the record of a loop, and on demand the record of its machine into the subfolder ``machine``.

    Attributes:
        fault_events: Number of faults that were recorded as events of the loop, without overruns.
    """

    def __init__(
        self,
        session: Session,
        out: Path,
        config: Mapping[str, Any],
        h: float,
        *,
        machine_too: bool,
        estimated: bool = False,
        attended: bool = False,
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Open the record.

        Args:
            session: The session of the loop.
            out: Folder of the record, empty.
            config: Resolved configuration.
            h: Control period [s].
            machine_too: True to record the machine, too.
            estimated: True if the base in the loop's rows is an estimate.
            attended: True if an operator is asked for `WORDS`.
            report: Called with each line for the terminal: the loop's changes of mode, phase and faults, except
                overruns, and the questions to the operator.
        """
        self._session, self._h, self._report, self._estimated = session, h, report, estimated
        self._words = WORDS if attended else {}
        wire = wire_format(session)
        self._channels, self._machine_channels = channels(wire, session.notes), machine.channels(wire)
        shapes, units = session.channels()
        extra = self._channels | {"t_machine": ()}
        names = (*EXTRA, "q_machine", "v_machine") if estimated else EXTRA
        self._kept = _filled(shapes | {name: extra[name] for name in names})
        self._plain = [name for name in self._channels if name in self._kept and name != "t"]

        units = {name: unit for name, unit in (units | UNITS).items() if name in self._kept}
        self._recorder = Recorder(out, self._kept, units, session.meta(), config=config, wall_time=WALL_TIME)
        self._machine: Recorder | None = None
        if machine_too:
            kept = _filled(self._machine_channels)
            units = {name: unit for name, unit in machine.UNITS.items() if name in kept}
            self._machine = Recorder(out / "machine", kept, units, {}, config=config, wall_time=machine.WALL_TIME)
        self._pending: Array = np.empty((0, width(self._channels)))  # the last row, until the next row is known
        self._first: float | None = None
        self._mode, self._phase, self._faults = Mode.IDLE, float(Phase.WORKING), 0
        self._machine_mode, self._machine_faults, self._machine_ended_by = Mode.IDLE, 0, 0
        self.fault_events = 0

    def loop_rows(self, rows: Array) -> None:
        """Record rows of the loop, shape (n, width), and note changes of mode, phase and faults as events."""
        columns = views(rows, self._channels)
        begin = 0 if self._first is not None else len(rows)
        lies = self._session.lying is not None
        course = zip(*(columns[name].tolist() for name in ("tick", "mode", "phase", "faults")), strict=True)
        for i, (tick, mode, phase, faults) in enumerate(course):
            if self._first is None and mode not in NOT_BEGUN:
                self._first, begin = tick, i
            if mode != self._mode or faults != self._faults:
                row = {name: values[i] for name, values in columns.items()}
                self._note(int(tick), Mode(int(mode)), int(faults), row)
            if lies and mode == Mode.RUNNING and phase != self._phase:
                self._event(int(tick), f"the loop is {Phase(int(phase)).name.lower().replace('_', ' ')}")
                self._phase = phase
        waiting = np.concatenate((self._pending, rows[begin:]))
        # the next row contains the forces that result from the torques of this row, so a row is written once the next
        # has come
        self._write(waiting[:-1], views(waiting[1:], self._channels)["force_sensed"])
        self._pending = waiting[-1:].copy()

    def machine_rows(self, rows: Array) -> None:
        """Record rows of the machine, shape (n, width), and note changes of mode and faults as events."""
        if self._machine is None:
            return
        columns = views(rows, self._machine_channels)
        for i, (value, flags) in enumerate(zip(columns["mode"].tolist(), columns["faults"].tolist(), strict=True)):
            if value == self._machine_mode and flags == self._machine_faults:
                continue
            mode, faults, t = Mode(int(value)), int(flags), float(columns["t"][i])
            for fault in Fault(faults & ~self._machine_faults):
                self._machine.event(Event(t=t, what=f"fault: {NAMES[fault]}"))
            if mode is not self._machine_mode:
                if self._machine_mode is Mode.RUNNING:
                    self._machine_ended_by = faults
                self._machine.event(Event(t=t, what=f"the machine is {mode.name.lower()}"))
            self._machine_mode, self._machine_faults = mode, faults
        self._machine.extend(rows)

    def flush(self) -> None:
        """Hand all rows to the operating system, except the last row, whose forces are still unknown."""
        self._recorder.flush()
        if self._machine is not None:
            self._machine.flush()

    @property
    def patience_s(self) -> float:
        """Time for which the rings of a killed loop may stay empty before their record ends [s]."""
        return HELD_UP_S if self._machine_mode in (Mode.RUNNING, Mode.DAMPED) else STILL_S

    def close(self, ending: Ending | None) -> dict[str, Any] | None:
        """End the record; return the metrics if there is an `ending`."""
        self._write(self._pending, views(self._pending, self._channels)["force_sensed"])
        metrics = None if ending is None else self._metrics(ending)
        if self._machine is not None:
            ended_in_order = ending is not None and self._machine_mode is Mode.STOPPED
            self._machine.close({} if ended_in_order else None)
        self._recorder.close(metrics)
        return metrics

    def _note(self, tick: int, mode: Mode, faults: int, row: Mapping[str, Array]) -> None:
        """Record events if mode or faults differ from the previous tick; ignore faults while the loop does not run.

        `row` has all channels of the tick.
        """
        if Mode.RUNNING not in (mode, self._mode):
            faults = 0  # the machine is held, brakes or has stopped, so these faults do no harm
        if mode is self._mode and faults == self._faults:
            return
        for fault in Fault(faults & ~self._faults):
            self._event(tick, f"fault: {NAMES[fault]}", **self._value(fault, row))
            self.fault_events += fault is not Fault.OVERRUN
        if mode is not self._mode:
            self._event(tick, f"the loop is {mode.name.lower()}", before=self._mode.name.lower())
            if mode in self._words:
                self._report(f"Type {WORDS[mode]} and press Enter to {EFFECTS[mode]}.")
        self._mode, self._faults = mode, faults

    def _event(self, tick: int, what: str, **detail: Any) -> None:
        t = 0.0 if self._first is None else (tick - self._first) * self._h
        self._recorder.event(Event(t=t, what=what, detail={"tick": tick, **detail}))
        # overruns are counted separately, and on a busy computer there are many
        if what != f"fault: {NAMES[Fault.OVERRUN]}":
            self._report(f"{what} ({detail['of']})" if "of" in detail else what)

    def _write(self, rows: Array, force: Array) -> None:
        """Write rows of the loop, shape (n, width), with the contact forces that resulted, shape (n, feet, 3)."""
        if self._first is None or not len(rows):
            return
        columns = {name: values for name, values in views(rows, self._channels).items() if values.size}
        written = np.full((len(rows), width(self._kept)), np.nan)
        out = views(written, self._kept)
        for name in self._plain:
            out[name][:] = columns[name]
        for i in range(len(rows)):
            for name, value in self._session.derive(_Row(columns, i)).items():
                out[name][i] = value
        out["t"][:], out["t_machine"][:] = (columns["tick"] - self._first) * self._h, columns["t"]
        if "force" in out:
            out["force"][:] = force
        self._recorder.extend(written)

    def _metrics(self, ending: Ending) -> dict[str, Any]:
        recorded = self._recorder.arrays()
        running, phase, stretch = recorded["mode"] == Mode.RUNNING, recorded["phase"], working(recorded)
        arrays = {name: values[stretch] for name, values in recorded.items()}
        arrays["t"] = arrays["t"] - arrays["t"][:1]  # planner and controller start at their time zero
        metrics = self._session.metrics(arrays) | self._estimate(arrays)
        # the tick with the faults that ended the run is not in the mode running
        ended_it = np.concatenate([[False], running[:-1]]) if len(running) else running
        faults = recorded["faults"][running | ended_it].astype(np.int64)
        dropped = recorded["dropped"][-1] if len(recorded["dropped"]) else np.zeros(len(Drop))
        return metrics | {
            "completed": ending.ended == "duration" and metrics.get("fell_at_s") is None and bool(running.any()),
            "ended": ending.ended,
            "phases_s": {
                kind.name.lower(): float(self._h * np.count_nonzero(running & (phase == kind))) for kind in Phase
            },
            "end_speed_m_s": end_speed(recorded) if self._session.system.floats else None,
            "fault": ", ".join(NAMES[fault] for fault in Fault(ending.faults)) or None,
            "signal": ending.signal,
            "error": ending.error or self._error(ending, recorded, arrays["compute_us"], dropped),
            **_times(arrays),
            "steal_s": ending.steal_s,
            "overruns": ending.overruns,
            "missed": ending.missed,
            "fault_events": self.fault_events,
            "faults": {NAMES[fault]: int(np.count_nonzero(faults & fault)) for fault in NAMES},
            "gate_ticks": int(np.count_nonzero(arrays["cut"] > 0)),
            "dropped": {why.name.lower(): int(count) for why, count in zip(Drop, dropped, strict=True)},
            "memory_mb": ending.memory_mb and dict(zip(("start", "end"), ending.memory_mb, strict=True)),
            "realtime": ending.realtime,
        }

    def _estimate(self, arrays: Mapping[str, Array]) -> dict[str, float | None]:
        """Return the errors of the estimated base; {} if no base is estimated, or if the machine is not recorded."""
        if self._machine is None or not (self._estimated and self._session.system.floats):
            return {}
        truth = self._machine.arrays()
        row = np.minimum(np.searchsorted(truth["t"], arrays["t_machine"]), len(truth["t"]) - 1)
        seen = np.hstack((arrays["q"][:, :7], arrays["v"][:, :6]))
        return estimate(truth["q"][row], truth["v"][row], seen)

    def _error(self, ending: Ending, recorded: Mapping[str, Array], compute_us: Array, dropped: Array) -> str | None:
        """Return one line about the fault, or the missing start, that ended a loop; None after another end.

        Args:
            ending: The end.
            recorded: All channels of the record.
            compute_us: Computing times of the working ticks.
            dropped: Number of dropped datagrams for each `Drop`.
        """
        if ending.ended != "fault":
            return None
        if not ending.faults:
            return "the loop did not start: the machine was not ready within loop.policy.start_s"
        faults = Fault(ending.faults)
        causes = [MEANINGS[fault] + self._culprit(fault, recorded) for fault in faults]
        if not np.any(recorded["mode"] == Mode.RUNNING):
            causes[0] = f"the loop did not start: {causes[0]}"
        if Fault.SILENT in faults and dropped.max() >= PATIENCE // 2:  # a silence of `PATIENCE` periods
            causes.append(f"{dropped.max():g} of its datagrams were dropped: {DROPPED[Drop(int(dropped.argmax()))]}")
        if Fault.PEER in faults:
            causes += [f"at the machine, {MEANINGS[fault]}" for fault in Fault(self._machine_ended_by)]
        slow = too_slow(compute_us, self._h) if Fault.OVERRUN in faults else None
        slow = slow or (stall(recorded, self._h) if faults & (Fault.SILENT | Fault.PEER) else None)
        return "; ".join(causes if slow is None else [*causes, slow])

    def _culprit(self, fault: Fault, recorded: Mapping[str, Array]) -> str:
        """Return the joint and value that caused a fault, in parentheses; "" if the record does not show them."""
        rows = np.flatnonzero(recorded["faults"].astype(np.int64) & fault)
        # the torques of the tick that ended the run are already the brake's
        rows = rows[recorded["mode"][rows] == Mode.RUNNING] if np.any(recorded["mode"][rows] == Mode.RUNNING) else rows
        if not rows.size:
            return ""
        said = self._value(fault, {name: values[rows[-1]] for name, values in recorded.items()}).get("of")
        return f" ({said})" if said else ""

    def _value(self, fault: Fault, row: Mapping[str, Array]) -> dict[str, str]:
        """Return joint and value that caused a fault as ``of``, from all channels of a tick; {} if they are unknown."""
        system = self._session.system
        errors = system.position_errors(row["q_des"], system.joint_positions(row["q"]))
        said = culprit(fault, row, errors, system.actuated_names)
        return {"of": said} if said else {}


DROPPED: Final = {
    Drop.SIZE: "of a wrong length", Drop.DAMAGED: "damaged", Drop.FOREIGN: "of another robot or session",
    Drop.OLD: "older than the one before", Drop.RANGE: "a value is NaN or out of range",
    Drop.VERSION: "of another version of the format",
}  # fmt: skip
"""Reasons for dropping datagrams, in words."""


class _Row(Mapping[str, Array]):
    """One row of the columns of all channels; a view is created on access, because only few channels are used."""

    def __init__(self, columns: Mapping[str, Array], at: int) -> None:
        self._columns, self._at = columns, at

    def __getitem__(self, name: str) -> Array:
        row: Array = self._columns[name][self._at]
        return row

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def working(recorded: Mapping[str, Array]) -> slice:
    """Return the slice of the last uninterrupted sequence of working ticks; it is empty if there are none.

    A recovery by the operator begins a new sequence.
    """
    works: Booleans = (recorded["mode"] == Mode.RUNNING) & (recorded["phase"] == Phase.WORKING)
    # a slice: copies of the arrays would double the memory
    end = len(works) - int(works[::-1].argmax()) if works.any() else 0
    before = np.flatnonzero(~works[:end])
    return slice(int(before[-1]) + 1 if before.size else 0, end)


def _times(arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Return metrics of the times [µs] of working ticks."""
    periods = arrays["period_us"][np.isfinite(arrays["period_us"])]
    return {
        "period_us": percentiles(periods),
        "period_mean_us": float(periods.mean()) if periods.size else None,
        "late_us": percentiles(arrays["late_us"]),
        "compute_us": percentiles(arrays["compute_us"]),
        "compute_cpu_us": percentiles(arrays["cpu_us"]),
        "parts_us": {part: percentiles(arrays[f"{part}_us"]) for part in PARTS},
        "worst_ticks": worst(arrays),
        "switches": int(np.nansum(arrays["switches"])),
    }


def too_slow(compute_us: Array, h: float) -> str | None:
    """Return a sentence if half of the ticks took nearly all of their period `h` [s]; otherwise None."""
    median = percentiles(compute_us)["p50"]
    if median is None or median < FULL * 1e6 * h:
        return None
    return (
        f"half of the ticks took {median:.0f} us or more of a period of {1e6 * h:.0f} us: with this controller the "
        f"computer cannot keep {1.0 / h:.0f} Hz; ask for a lower rate (--rate)"
    )


def stall(recorded: Mapping[str, Array], h: float) -> str | None:
    """Return a sentence about the longest tick with torques if it took `STALL` periods `h` [s]; otherwise None."""
    times = np.where(recorded["mode"] == Mode.RUNNING, np.nan_to_num(recorded["compute_us"]), 0.0)
    if not times.size or times.max() < STALL * 1e6 * h:
        return None
    longest = int(times.argmax())
    spent = np.array([recorded[f"{part}_us"][longest] for part in PARTS])
    k = int(np.argmax(np.nan_to_num(spent)))  # NaN for a part that this loop lacks
    return (
        f"one tick took {1e-3 * times[longest]:.1f} ms, {1e-3 * spent[k]:.1f} ms of it for {SPENT_ON[PARTS[k]]}; "
        f"the period is {1e3 * h:g} ms"
    )


def worst(arrays: Mapping[str, Array]) -> list[dict[str, Any]]:
    """Return the `WORST` longest ticks, longest first, each with its times, its faults and the controller's status."""
    numbers = ("t", "compute_us", "cpu_us", *(f"{part}_us" for part in PARTS), "late_us", "missed", "switches")
    statuses = {float(status): status.name.lower() for status in Status}
    # on a simulated clock a tick takes no wall time: sort by CPU time
    longest = np.lexsort((-arrays["cpu_us"], -arrays["compute_us"]))[:WORST]
    return [
        {name: float(arrays[name][i]) for name in numbers}
        | {
            "status": statuses.get(float(arrays["status"][i])),
            "faults": [NAMES[fault] for fault in Fault(int(arrays["faults"][i]))],
        }
        for i in longest.tolist()
    ]


def _filled(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Return the channels that are not empty; a machine without feet has no forces."""
    return {name: shape for name, shape in shapes.items() if math.prod(shape)}


@dataclass(slots=True)
class _Drain:
    """A ring, and the rows that have been read from it but not yet written."""

    ring: Ring
    take: Callable[[Array], None]
    waiting: deque[Array] = field(default_factory=deque)

    def fetch(self) -> bool:
        """Empty the ring; return True if it contained a row."""
        rows = self.ring.take()
        self.waiting.extend(rows[at : at + WRITTEN_AT_ONCE] for at in range(0, len(rows), WRITTEN_AT_ONCE))
        return len(rows) > 0

    def write(self, most: int | None = None) -> None:
        """Write blocks of waiting rows until at least `most` rows are written, or all rows if `most` is None."""
        written = 0
        while self.waiting and (most is None or written < most):
            rows = self.waiting.popleft()
            self.take(rows)
            written += len(rows)


class Lines:
    """Lines for a file that may block, e.g. a terminal stopped by Ctrl-S; the process never waits for the file."""

    def __init__(self, file: int) -> None:
        """Write to this file descriptor."""
        self._file, self._waiting = file, deque[bytes]()

    def __call__(self, line: str) -> None:
        """Append a line."""
        self._waiting.append(line.encode(errors="replace") + b"\n")

    def write(self) -> None:
        """Write the waiting lines, as far as the file accepts them without blocking."""
        # a file that is ready accepts a whole line
        while self._waiting and select.select([], [self._file], [], 0.0)[1]:
            try:
                os.write(self._file, self._waiting.popleft())
            except OSError:  # the terminal has been closed
                self._waiting.clear()


@dataclass(slots=True)
class Batch:
    """Collects rows to pass them on together: dividing one row into channels takes as long as dividing hundreds."""

    take: Callable[[Array], None]
    rows: list[Array] = field(default_factory=list)

    def add(self, row: Array) -> None:
        """Add a copy of a row, shape (width,); pass the rows on if there are `WRITTEN_AT_ONCE`."""
        self.rows.append(row.copy())
        if len(self.rows) == WRITTEN_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Pass on the rows that wait."""
        rows, self.rows = self.rows, []  # cleared first: rows that cannot be written must not be tried again at the end
        if rows:
            self.take(np.array(rows))


def end_speed(recorded: Mapping[str, Array]) -> float | None:
    """Return the largest speed of the base in the last rows, in which the loop brakes or is stopped [m/s].

    Return None if the record ends in another mode.
    """
    active = np.flatnonzero(~np.isin(recorded["mode"], (Mode.DAMPED, Mode.STOPPED)))
    last = recorded["v"][active[-1] + 1 if active.size else 0 :, :3]
    return float(np.linalg.norm(last, axis=1).max()) if len(last) else None


def main() -> int:
    """Drain the rings into a record; return the exit status: 0, or the number of the disk's error."""
    job = receive(RecordJob)
    try:
        _record(job)
    except OSError as error:
        print(f"idcontrol: the recorder cannot write {job.out}: {error.strerror or error}", file=sys.stderr)
        return error.errno or 1
    return 0


def _record(job: RecordJob) -> None:
    """Drain the rings until a line on standard input describes the end of the loop, or standard input closes."""
    os.nice(5)  # below the priority of loop and plant, but high enough for the recorder to keep up
    session = resolve(job.target, job.config)
    wire, lines = wire_format(session), Lines(sys.stderr.fileno())
    scribe = Scribe(
        session, Path(job.out), job.config | {"loop": job.settings}, job.period / NS,
        machine_too=job.machine_ring is not None,
        estimated=job.settings["sensing"]["base"] == "estimated" or job.settings.get("estimator") is not None,
        attended=job.attended,
        report=lines if job.reports or job.attended else lambda line: None,
    )  # fmt: skip
    drains = [_Drain(Ring(attach(job.ring), width(channels(wire, session.notes))), scribe.loop_rows)]
    if job.machine_ring is not None:
        drains.append(_Drain(Ring(attach(job.machine_ring), width(machine.channels(wire))), scribe.machine_rows))
    print(READY, flush=True)

    ending: Ending | None = None
    ended, last = False, time.monotonic()
    while not ended or (ending is None and time.monotonic() - last < scribe.patience_s):
        if ended:
            time.sleep(EVERY_S)
        elif select.select([sys.stdin], [], [], EVERY_S)[0]:
            line = sys.stdin.readline()
            ending = decode(line, Ending) if line.strip() else None
            ended, last = True, time.monotonic()
        for drain in drains:
            if drain.fetch():
                last = time.monotonic()
        for drain in drains:
            drain.write(WRITTEN_AT_ONCE)
            drain.ring.acknowledge()
        scribe.flush()
        lines.write()
    for drain in drains:
        drain.write()
    metrics = scribe.close(ending)
    lines.write()
    if metrics is not None:
        metrics["rows_lost"] = sum(drain.ring.lost for drain in drains)
        print(json.dumps(jsonable(metrics), allow_nan=False), flush=True)


if __name__ == "__main__":
    sys.exit(main())
