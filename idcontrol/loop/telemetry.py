"""Telemetry of a loop: one row of numbers per tick, with the times of the tick's parts."""

from __future__ import annotations

import math
import resource
import time
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from idcontrol.contact.soles import by_foot
from idcontrol.kernels.bound import Bound, Form, bind, entry
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign, assign_rows
from idcontrol.loop.clock import Cycle
from idcontrol.loop.wire import Datagram, Drop, Format
from idcontrol.record.channels import ChannelRow, span
from idcontrol.record.metrics import solver_number
from idcontrol.types import Array, Booleans, Command, ContactForces, Integers, Reference

PARTS = ("read", "estimate", "plan", "control", "gate", "record")
"""Timed parts of a tick. ``read`` includes judging the machine's state; ``estimate`` is the estimator's call. ``gate``
begins when the controller returns, and ends after sending. ``record`` is passing on the row of the previous tick.
"""
UNSPENT = dict.fromkeys(PARTS, math.nan)
COURSE = (
    "tick", "utc_s", "mode", "phase", "faults", "cut", "power", "machine_mode", "sequence", "machine_sequence", "echo",
    "missed", "period_us", "late_us", "age_us", "compute_us", "cpu_us", *(f"{part}_us" for part in PARTS), "switches",
)  # fmt: skip
"""Scalar channels about the whole tick, adjacent in a row.

`utc_s` is the Unix time at which the tick began, NaN on a simulated clock; `phase` is `idcontrol.loop.life.Phase`.
`power` is the share of the limits of torques and torque rates that the gate admitted. `sequence` is the number of the
tick's command, and `machine_sequence` the number of the newest state. `echo` is the number of the newest command that
the machine had accepted when it sent this state. `switches` is the number of times that the system has taken the CPU
away since the previous tick.
"""
VERDICT = ("unreachable", "status", "residual", "clipped", "rate_off", "solved_by", "gap_nm", "step_us")
"""Scalar channels about the results of planner and controller, adjacent in a row."""


SENT = ("tau", "q", "v", "kp", "kd")
"""Rows of a command: feed-forward torques, targets and gains of the drives (`idcontrol.loop.wire`)."""

LIKE: Final[tuple[Any, ...]] = (
    *np.zeros((4, 1)), np.zeros(1, dtype=np.bool_), np.zeros((1, 3)), np.zeros(1, dtype=np.int64), np.zeros((1, 3)),
)  # fmt: skip
"""An array of the type and number of dimensions of each argument of `keep`."""
FORM: Final = Form(*LIKE)
NO_FORCES: Final = ContactForces.none()


def channels(wire: Format, notes: int) -> dict[str, tuple[int, ...]]:
    """Return names and shapes of the channels that record a tick of the loop.

    `sent` has the rows of the command (`SENT`). `torque_off` has the errors of torques that the motion shows, each as
    if the other joints were healthy (`idcontrol.loop.motion.MotionJudge.off`); with the fault *motion*, only joints
    that may be the faulty one have an error. `torque_lost` has the share that a weak drive lacks. `cut_ticks` counts in
    how many ticks in a row the gate has cut a drive's torque, torque rate, gain or target. `doubted` is the number of
    the joint that is doubted (`idcontrol.loop.plausible.Judge`, `idcontrol.loop.culprit.DOUBTS`). If the base is
    estimated, `q` and `v` are the estimate, and `q_machine` and `v_machine` are the machine's values. Channels from
    ``q_des`` on are set only in ticks that call planner and controller; ``q_des`` and ``v_des`` are also set on the
    path between lying and standing.
    """
    joints, feet = (len(wire.torque_limit),), (wire.n_feet, 3)
    return {
        **dict.fromkeys(COURSE, ()),
        "dropped": (len(Drop),),
        **dict.fromkeys(("tau_wanted", "tau"), joints),
        "sent": (len(SENT), *joints),
        **dict.fromkeys(("torque_off", "torque_lost", "cut_ticks"), joints),
        "doubted": (),
        "q_machine": wire.state["q"],
        "v_machine": wire.state["v"],
        **wire.state,
        **dict.fromkeys(("q_des", "v_des", "a_des"), joints),
        "base_ref": (4,),
        "feet_des": feet,
        "stance": (wire.n_feet,),
        **dict.fromkeys(VERDICT, ()),
        "notes": (notes,),
        "force_pred": feet,
    }


@dataclass(slots=True)
class Counts:
    """Counters of the ticks in the mode running, and the first error.

    Attributes:
        ticks: Number of ticks.
        overruns: Number of ticks that took longer than their period.
        missed: Number of ticks that were skipped.
        complete: True if planner and controller were called for the whole duration.
        error: One line about the first error or hang of planner or controller, or the reason why the machine could not
            start from its pose; "" without such an error.
        traceback: Traceback of that error; "" without an error.
    """

    ticks: int = 0
    overruns: int = 0
    missed: int = 0
    complete: bool = False
    error: str = ""
    traceback: str = ""


class Telemetry:
    """The row of a tick, and the stopwatch of its parts.

    Attributes:
        row: Row of the last tick (`channels`).
        state: View of the machine's state in that row, shape (state_values,).
        answer: View of the channels from ``q_des`` on, which planner and controller determine.
        spent: Time of each part of the tick [µs]; NaN if the part did not run.
    """

    def __init__(self, wire: Format, notes: int, utc_ns: int | None = None) -> None:
        """Allocate the row.

        Args:
            wire: Format of the machine's datagrams.
            notes: Number of values that the planner notes.
            utc_ns: As `idcontrol.loop.clock.Clock.utc_ns`.
        """
        self._utc_ns = utc_ns
        layout, self._patch = channels(wire, notes), wire.patch
        self.row = ChannelRow(layout)
        for name in ("dropped", "tau_wanted", "tau", "sent", "torque_off", "torque_lost", "cut_ticks"):
            self.row.of[name][:] = 0.0
        self.state = self.row.values[span(layout, tuple(wire.state))]
        self.answer = self.row.values[span(layout, ("q_des",)).start :]
        self._write_course, self._write_verdict = self.row.writer(COURSE), self.row.writer(VERDICT)
        of = self.row.of
        base, self._force = of["base_ref"], of["force_pred"]
        planned = of["q_des"], of["v_des"], of["a_des"], base[:3], of["stance"], of["feet_des"]
        self._yaw, self._answers = base[3:], bind((*planned, self._force))
        self._keep = entry(keep, self._answers, *LIKE)
        self.spent = UNSPENT.copy()
        self._cpu = self._mark = self._woke = 0
        self._switches = _switches()

    def begin(self) -> None:
        """Start the stopwatch of a tick."""
        self._cpu, self._mark = time.thread_time_ns(), time.perf_counter_ns()

    def lap(self, part: str) -> None:
        """Add the wall time since `begin` or the last lap to a part of the tick."""
        now, before = time.perf_counter_ns(), self.spent[part]
        self.spent[part] = 1e-3 * (now - self._mark) + (0.0 if math.isnan(before) else before)
        self._mark = now

    def record(self, reference: Reference, command: Command) -> None:
        """Write the results of planner and controller; forces are NaN if the controller predicts none.

        Raises:
            ValueError: An array of the reference has a different shape than its channel.
        """
        r, predicted = reference, command.predicted
        forces = NO_FORCES if predicted is None else by_foot(predicted, self._patch)
        answer: Any = (r.q, r.v, r.a, r.base_position, r.stance, r.feet, forces.identity, forces.force)
        fits = FORM.fits(answer)
        if not fits:  # a user's planner may return arrays of any type
            answer = [np.ascontiguousarray(x, dtype=like.dtype) for x, like in zip(answer, LIKE, strict=True)]
            fits = FORM.fits(answer)
        if not fits or not self._keep(self._answers, *answer):
            names = ("q", "v", "a", "base_position", "stance", "feet")
            shapes = ", ".join(f"reference.{name} {x.shape}" for name, x in zip(names, answer, strict=False))
            raise ValueError(f"{shapes}: one does not fit {len(self.row.of['tau'])} joints and {len(self._force)} feet")
        self._yaw[0] = r.base_yaw
        if predicted is None:
            self._force.fill(np.nan)
        self._write_verdict(
            r.residual, command.status, command.residual, command.clipped, "rate" in command.dropped,
            solver_number(command.solved_by), command.gap, self.spent["control"],
        )  # fmt: skip

    def describe(
        self, cycle: Cycle, now: int, age: int, *, mode: int, phase: float, faults: int, cut: int, power: float,
        sequence: int, newest: Datagram | None,
    ) -> None:  # fmt: skip
        """Write the summary of the tick at its end.

        Args:
            cycle: The tick.
            now: Time [ns].
            age: Age of the newest datagram of the machine [ns].
            mode: Mode of the loop.
            phase: Phase of a running loop (`idcontrol.loop.life.Phase`); otherwise NaN.
            faults: Faults of the tick.
            cut: Limits at which the gate has cut a setpoint.
            power: Share of the limits that the gate admitted.
            sequence: Sequence number of the command that was sent last.
            newest: The newest datagram of the machine; None before the first.
        """
        switches = _switches()
        self._write_course(
            cycle.index,
            np.nan if self._utc_ns is None else 1e-9 * (cycle.woke + self._utc_ns),
            mode, phase, faults, cut, power,
            np.nan if newest is None else newest.mode,
            sequence,
            *((np.nan, np.nan) if newest is None else (newest.sequence, newest.echo)),
            cycle.missed,
            1e-3 * (cycle.woke - self._woke) if self._woke else np.nan,
            1e-3 * (cycle.woke - cycle.due),
            1e-3 * age,
            1e-3 * (now - cycle.woke),
            1e-3 * (time.thread_time_ns() - self._cpu),
            *self.spent.values(),
            switches - self._switches,
        )  # fmt: skip
        self._woke, self._switches = cycle.woke, switches
        self.spent = UNSPENT.copy()


@njit(cache=True)
def keep(
    bound: Bound,
    q: Array,
    v: Array,
    a: Array,
    base: Array,
    stance: Booleans,
    feet: Array,
    identity: Integers,
    force: Array,
) -> bool:  # pragma: no cover - compiled
    """Write the arrays of a reference, and the predicted forces on the feet `identity`, into the bound channels.

    Returns:
        False if an array of the reference has a different shape than its channel; then nothing is written.
    """
    to = bound.borrowed
    if q.shape != to[0].shape or v.shape != to[1].shape or a.shape != to[2].shape or base.shape != to[3].shape:
        return False
    if stance.shape != to[4].shape or feet.shape != to[5].shape:
        return False
    assign(to[0], q)
    assign(to[1], v)
    assign(to[2], a)
    assign(to[3], base)
    for i in range(stance.shape[0]):
        to[4][i] = 1.0 if stance[i] else 0.0
    assign_rows(to[5], feet)
    to[6][:] = 0.0
    for i in range(identity.shape[0]):
        assign(to[6][identity[i]], force[i])
    return True


def _switches() -> int:
    """Return how often the system has taken the CPU away from this thread."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
