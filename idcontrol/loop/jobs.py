"""What a loop tells the processes that it starts: one line of JSON on their standard input."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from idcontrol import processes

Job = TypeVar("Job", bound=msgspec.Struct)


class PlantJob(msgspec.Struct, frozen=True, kw_only=True):
    """For `idcontrol.loop.plant_process`.

    Attributes:
        target: Where the loop's experiment is, ``package.module:name``.
        config: Its configuration.
        period: Between two ticks of the plant [ns].
        session: Number of its side of the conversation.
        parent: Number of the loop's process.
        silence_s: After which silence it brakes.
        ring: File descriptor of the memory for its telemetry.
        shared: File descriptor of the memory of its link; None is UDP.
        host: Of the loop, over UDP.
        port: Of the loop, over UDP.
    """

    target: str
    config: dict[str, Any]
    period: int
    session: int
    parent: int
    silence_s: float
    ring: int
    shared: int | None = None
    host: str = ""
    port: int = 0


class RecordJob(msgspec.Struct, frozen=True, kw_only=True):
    """For `idcontrol.loop.record`.

    Attributes:
        target: Where the loop's experiment is.
        config: Its configuration.
        settings: How the loop runs (`idcontrol.loop.launch.Settings`), for the record.
        out: Folder of the record.
        period: Of the loop [ns].
        ring: File descriptor of the loop's telemetry.
        machine_ring: That of its machine; None where there is none to be had.
    """

    target: str
    config: dict[str, Any]
    settings: dict[str, Any]
    out: str
    period: int
    ring: int
    machine_ring: int | None


class ViewJob(msgspec.Struct, frozen=True, kw_only=True):
    """For a process that shows the loop while it runs.

    Attributes:
        target: Where the loop's experiment is.
        config: Its configuration.
        period: Of the loop [ns].
        ring: File descriptor of the loop's telemetry.
        port: Where to serve the page; None is any that is free.
    """

    target: str
    config: dict[str, Any]
    period: int
    ring: int
    port: int | None


def encode(job: msgspec.Struct) -> bytes:
    """One line; unlike msgspec's own, with infinities (friction may be one)."""
    return json.dumps(msgspec.to_builtins(job)).encode() + b"\n"


def decode(line: str, kind: type[Job]) -> Job:
    """What `encode` wrote."""
    return msgspec.convert(json.loads(line), kind)


def start(module: str, job: msgspec.Struct, descriptors: Sequence[int]) -> subprocess.Popen[bytes]:
    """Run `module` in a process of its own and hand it a job; its standard input stays open.

    The process gets a session of its own, so that Ctrl-C on the terminal reaches the loop alone, which then ends the
    process in order.
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
