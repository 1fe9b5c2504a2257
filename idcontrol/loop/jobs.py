"""Jobs of the processes that a loop starts. A process reads its job as one line of JSON from its standard input."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Literal, TypeVar

import msgspec

from idcontrol.config import processes
from idcontrol.loop.stop import SIGNALS

Job = TypeVar("Job", bound=msgspec.Struct)


class PlantJob(msgspec.Struct, frozen=True, kw_only=True):
    """Job of `idcontrol.loop.plant_process`.

    Attributes:
        target: The loop's experiment, ``package.module:name``.
        config: Configuration of the experiment.
        period: Time between two ticks of the plant [ns].
        session: Session number in the plant's datagrams.
        loop_session: Session number in the loop's datagrams.
        parent: Process id of the loop.
        silence_s: Silence of the loop after which the plant brakes [s].
        ring: File descriptor of the shared memory for the plant's telemetry (`idcontrol.loop.ring`).
        shared: File descriptor of the shared memory for datagrams; None means UDP.
        begins: Initial pose of the plant.
        host: Host of the loop, over UDP.
        port: Port of the loop, over UDP.
    """

    target: str
    config: dict[str, Any]
    period: int
    session: int
    loop_session: int
    parent: int
    silence_s: float
    ring: int
    begins: Literal["lying", "standing"]
    shared: int | None = None
    host: str = ""
    port: int = 0


class RecordJob(msgspec.Struct, frozen=True, kw_only=True):
    """Job of `idcontrol.loop.record`.

    Attributes:
        target: The loop's experiment, ``package.module:name``.
        config: Configuration of the experiment.
        settings: Settings of the loop (`idcontrol.loop.launch.LoopSettings`), for the record.
        out: Folder of the record.
        period: Period of the loop [ns].
        ring: File descriptor of the shared memory for the loop's telemetry (`idcontrol.loop.ring`).
        machine_ring: The same for the plant's telemetry; None if the loop has not started a plant.
        reports: True to print changes of mode, phase and faults on standard error.
        attended: True to ask an operator, on standard error, for the words that arm and recover the loop.
    """

    target: str
    config: dict[str, Any]
    settings: dict[str, Any]
    out: str
    period: int
    ring: int
    machine_ring: int | None
    reports: bool = False
    attended: bool = False


class ViewJob(msgspec.Struct, frozen=True, kw_only=True):
    """Job of a process that shows the loop while it runs.

    Attributes:
        target: The loop's experiment, ``package.module:name``.
        config: Configuration of the experiment.
        period: Period of the loop [ns].
        ring: File descriptor of the shared memory for the loop's telemetry (`idcontrol.loop.ring`).
        port: Port of the page; None means any free port.
    """

    target: str
    config: dict[str, Any]
    period: int
    ring: int
    port: int | None


def encode(job: msgspec.Struct) -> bytes:
    """Return a job as one line of JSON.

    Infinite values are allowed, because friction may be infinite; msgspec's encoder would write null instead.
    """
    return json.dumps(msgspec.to_builtins(job)).encode() + b"\n"


def decode(line: str, kind: type[Job]) -> Job:
    """Return the job of type `kind` that `encode` wrote as `line`."""
    return msgspec.convert(json.loads(line), kind)


def receive(kind: type[Job]) -> Job:
    """Return the job on standard input, of type `kind`; ignore `SIGNALS` from then on."""
    # a service manager sends them to all processes at once; without recorder or plant, the loop could only brake
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    return decode(sys.stdin.readline(), kind)


def start(module: str, job: msgspec.Struct, descriptors: Sequence[int]) -> subprocess.Popen[bytes]:
    """Run `module` in a separate process and write a job to its standard input, which stays open; return the process.

    The process runs in a separate session of the operating system. Ctrl-C on the terminal therefore reaches only the
    loop, which ends the process cleanly.
    """
    process = subprocess.Popen(
        processes.command(module),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=descriptors,
        start_new_session=True,
    )
    assert process.stdin is not None
    process.stdin.write(encode(job))
    process.stdin.flush()
    return process
