"""A record as an MCAP file, which Foxglove and PlotJuggler open.

MCAP (https://mcap.dev) is a container of messages with times. The topic ``/run`` has one JSON message per row of the
record. A message contains all channels except ``t`` by name, and their numbers by the names of joints, feet and axes
(`idcontrol.record.columns`). For example, a curve is ``/run.tau.LF_X_1`` in Foxglove and ``/run/tau/LF_X_1`` in
PlotJuggler. The topic ``/base`` has the pose of a walking robot's floating base, in Foxglove's schema PoseInFrame. The
topic ``/events`` has the events, in the schema Log. Configuration, metrics and facts about the run are attachments.
Times are UTC, so that a run aligns with video and other logs.
"""

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from idcontrol.config.configuration import jsonable
from idcontrol.errors import InputError, install_command
from idcontrol.record.columns import Column, columns_of
from idcontrol.record.recording import Run

LATEST_S: Final = 8e9
"""Latest Unix time at which an exported run may begin [s]; times in MCAP files are 64-bit nanoseconds."""
ROWS: Final = 1000
"""Number of rows that are converted to Python numbers together."""
INFO: Final = 2
"""The level of a Log message that is neither a warning nor an error."""
STAMP: Final = {"type": "object", "properties": {"sec": {"type": "integer"}, "nsec": {"type": "integer"}}}
LOG: Final = {
    "type": "object",
    "properties": {
        "timestamp": STAMP,
        "level": {"type": "integer"},
        "message": {"type": "string"},
        "name": {"type": "string"},
    },
}
"""Foxglove's schema of a log message, without the file and line of a program."""
POSE: Final = {
    "type": "object",
    "properties": {
        "timestamp": STAMP,
        "frame_id": {"type": "string"},
        "pose": {
            "type": "object",
            "properties": {
                part: {"type": "object", "properties": {axis: {"type": "number"} for axis in axes}}
                for part, axes in (("position", "xyz"), ("orientation", "xyzw"))
            },
        },
    },
}
"""Foxglove's schema of a pose in a frame."""


def export(run: Run, path: Path) -> int:
    """Write a run as an MCAP file and return its number of rows.

    Infinite and NaN values become null.

    Args:
        run: A run with the channel ``t``.
        path: The file, which must not exist.

    Raises:
        InputError: The run has no channel ``t`` or an unusable date, the file exists or cannot be made, or the package
            mcap is missing.
    """
    try:
        from mcap.writer import Writer
    except ModuleNotFoundError as error:
        raise InputError(f"exporting needs the package mcap: {install_command('export')}") from error
    if "t" not in run.arrays:
        raise InputError(f"{run.folder} has no channel t, so it has no curves to export")
    layout = run.layout
    shown = {
        channel: columns_of(channel, values.shape[1:], run.units.get(channel, ""), layout)
        for channel, values in run.arrays.items()
        if channel != "t"
    }
    try:
        file = path.open("xb")
    except FileExistsError:
        raise InputError(f"{path} exists already; choose another name") from None
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error
    try:
        with file:
            writer = Writer(file)
            writer.start(profile="", library="idcontrol")
            topic = _topic(writer, "/run", "idcontrol.run", _schema(run, shown))
            since = _began(run)
            for nanoseconds, row in _rows(run, shown):
                nanoseconds += since
                writer.add_message(topic, nanoseconds, msgspec.json.encode(row), nanoseconds)
            if layout is not None and min(layout.joint_q) == 7:  # the base floats
                topic = _topic(writer, "/base", "foxglove.PoseInFrame", POSE)
                for seconds, q in zip(run.arrays["t"].tolist(), run.arrays["q"].tolist(), strict=True):
                    nanoseconds = since + _nanoseconds(seconds)
                    writer.add_message(topic, nanoseconds, msgspec.json.encode(_pose(nanoseconds, q)), nanoseconds)
            if run.events:
                topic = _topic(writer, "/events", "foxglove.Log", LOG)
            for event in run.events:
                nanoseconds = since + _nanoseconds(event["t"] or 0.0)
                writer.add_message(topic, nanoseconds, msgspec.json.encode(_log(event, nanoseconds)), nanoseconds)
            for name, facts in (("config.json", run.config), ("metrics.json", run.metrics), ("meta.json", run.meta)):
                text = json.dumps(jsonable(facts), indent=1).encode()
                writer.add_attachment(0, 0, name, "application/json", text)
            writer.finish()
    except BaseException:  # a partial file would look complete
        path.unlink()
        raise
    return len(run.arrays["t"])


def _topic(writer: Any, name: str, schema: str, what: dict[str, Any]) -> int:
    """Register a topic of JSON messages and return its number.

    Args:
        writer: The MCAP file.
        name: Name of the topic.
        schema: Name of its schema.
        what: JSON Schema of its messages.
    """
    number: int = writer.register_schema(schema, "jsonschema", json.dumps(what).encode())
    return writer.register_channel(name, "json", number)


def _schema(run: Run, shown: dict[str, dict[Column, str]]) -> dict[str, Any]:
    """Return the JSON Schema of a row's message; the description of each number is its unit."""
    channels: dict[str, Any] = {}
    for channel, columns in shown.items():
        unit = {column: {"type": ["number", "null"], "description": of} for column, of in columns.items()}
        if run.arrays[channel].ndim == 1:
            (channels[channel],) = unit.values()
        else:
            channels[channel] = {"type": "object", "properties": _nested(unit, "properties")}
    return {"type": "object", "properties": channels}


def _nested(values: dict[Column, Any], inner: str | None = None) -> dict[str, Any]:
    """Return `values` as an object; a value whose name is a pair is in an inner object.

    Args:
        values: Values by name.
        inner: For a JSON Schema, the key under which an inner object lists its members; None for values.
    """
    out: dict[str, Any] = {}
    for column, value in values.items():
        if isinstance(column, str):
            out[column] = value
            continue
        first, last = column
        within = out.setdefault(first, {} if inner is None else {"type": "object", inner: {}})
        (within if inner is None else within[inner])[last] = value
    return out


def _rows(run: Run, shown: dict[str, dict[Column, str]]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the time [ns] and the channels of each row."""
    t = run.arrays["t"]
    for begin in range(0, len(t), ROWS):
        part = slice(begin, begin + ROWS)
        columns = []
        for channel in shown:
            values = run.arrays[channel][part]
            columns.append(values.reshape(len(values), len(shown[channel])).tolist())
        for seconds, *all_numbers in zip(t[part].tolist(), *columns, strict=True):
            row = {}
            for (channel, names), numbers in zip(shown.items(), all_numbers, strict=True):
                alone = run.arrays[channel].ndim == 1
                row[channel] = numbers[0] if alone else _nested(dict(zip(names, numbers, strict=True)))
            yield _nanoseconds(seconds), row


def _nanoseconds(seconds: float) -> int:
    return round(float(np.clip(seconds, 0.0, 1e9)) * 1e9)


def _began(run: Run) -> int:
    """Return the Unix time at ``t`` = 0 [ns]; 0 if the record has no date.

    Raises:
        InputError: The date is unreadable or out of range.
    """
    utc = np.ravel(run.arrays.get("utc_s", np.nan))
    try:
        if len(utc) and np.isfinite(utc[0]):  # a loop on the wall clock
            seconds = float(utc[0] - run.arrays["t"][0])
        else:
            seconds = datetime.datetime.fromisoformat(run.began).timestamp() if run.began else 0.0
    except (ValueError, OverflowError):
        seconds = -1.0
    if not 0.0 <= seconds < LATEST_S:
        raise InputError(f"{run.folder} has no usable date: began={run.began!r}, utc_s; run it again, or mend run.json")
    return round(1e9 * seconds)


def _pose(nanoseconds: int, q: list[float]) -> dict[str, Any]:
    """Return the base's pose in configuration `q` as a message of Foxglove's schema PoseInFrame."""
    return {
        "timestamp": _stamp(nanoseconds),
        "frame_id": "world",
        "pose": {
            "position": dict(zip("xyz", q[:3], strict=True)),
            "orientation": dict(zip("xyzw", q[3:7], strict=True)),
        },
    }


def _stamp(nanoseconds: int) -> dict[str, int]:
    return {"sec": nanoseconds // 10**9, "nsec": nanoseconds % 10**9}


def _log(event: dict[str, Any], nanoseconds: int) -> dict[str, Any]:
    """Return an event at the Unix time `nanoseconds` as a message of Foxglove's schema Log."""
    return {
        "timestamp": _stamp(nanoseconds),
        "level": INFO,
        "message": event["what"] + (f" {json.dumps(event['detail'])}" if event.get("detail") else ""),
        "name": "idcontrol",
    }
