"""The folder of a run, which stays readable wherever the run was cut off.

During a run, its rows go to the append-only ``record.log``. At the end they become files that other tools can open::

    run.json       format, schema, seed, start, versions, facts about the run (`meta`)  written when the recorder opens
    config.json    the resolved configuration                                        written when the recorder opens
    record.log     rows so far, in blocks with checksums                             only until the run has ended
    events.jsonl   one line for each event, as it happens                            if there was an event
    arrays.h5      one HDF5 dataset for each channel, with its unit                  when the run has ended
    timing.h5      the same for channels that are wall time                          when the run has ended
    metrics.json   numbers computed from the arrays                                 unless the run was cut off

Two simulations with equal seed, configuration and versions give equal bytes in ``arrays.h5``. Wall times always differ
and have a separate file.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import json
import os
import platform
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

import h5py
import msgspec
import numpy as np

from idcontrol.config.configuration import is_number, jsonable
from idcontrol.errors import InputError, install_command
from idcontrol.record.channels import views, width
from idcontrol.record.files import checked, parse_json, read_h5, read_json, within
from idcontrol.record.interrupts import sigterm_is_heard
from idcontrol.record.log import BLOCK_ROWS, SCHEMA, Log, block_bytes, header_bytes, read_log, refuse_newer
from idcontrol.types import Array, Event

if TYPE_CHECKING:
    from idcontrol.record.inline import Plots
    from idcontrol.record.metrics import Layout

FORMAT = "idcontrol-run"
_PACKAGES = ("idcontrol", "numpy", "scipy", "pin", "numba", "osqp", "daqp", "h5py")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Run:
    """A recorded run, read by `load`.

    Attributes:
        folder: Folder of the run.
        arrays: Arrays by channel, with rows along the first axis; ``t`` is the time of each row if the run has a clock.
        units: Unit of each channel, as text; "" without a unit.
        meta: Facts about the run that are not in the arrays.
        config: The resolved configuration.
        began: Start of the recording, UTC, ISO 8601; "" in older records.
        versions: Versions of Python, packages and platform at recording.
        metrics: Metrics computed from the arrays; None if the run was cut off.
        events: Recorded events, oldest first.
        complete: True if the run was not cut off.
        note: One line about missing data; "" if nothing is missing.
    """

    folder: Path
    arrays: dict[str, Array]
    units: dict[str, str]
    meta: dict[str, Any]
    config: dict[str, Any]
    began: str
    versions: dict[str, str]
    metrics: dict[str, Any] | None
    events: tuple[dict[str, Any], ...]
    complete: bool
    note: str

    @property
    def layout(self) -> Layout | None:
        """Return joints, feet and gait of a walk; None for other runs.

        Raises:
            InputError: The record is damaged.
        """
        from idcontrol.record.metrics import layout_of

        return layout_of(self.meta, self.arrays, str(self.folder))

    def frame(self, channel: str) -> Any:
        """Return a channel as a pandas table: a row for each time `t` [s], a column for each number.

        In a walk, most columns are named by joints (``frame("tau")["LF_X_1"]``), or by feet and axes
        (``frame("force")["LF", "z"]``); most others by channel and index (`idcontrol.record.columns`).
        ``attrs["units"]`` contains the unit of each column.

        Raises:
            InputError: The run has no such channel, or pandas is not installed.
        """
        if channel not in self.arrays:
            raise InputError(f"{channel!r} is not a channel of this run; it has {', '.join(self.arrays)}")
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise InputError(f"Run.frame needs pandas: {install_command('notebook')}") from error
        from idcontrol.record.columns import columns_of

        values = self.arrays[channel]
        names = columns_of(channel, values.shape[1:], self.units.get(channel, ""), self.layout)
        time = pandas.Index(self.arrays["t"], name="t") if "t" in self.arrays else None
        table = pandas.DataFrame(values.reshape(len(values), -1), index=time, columns=pandas.Index(list(names)))
        table.attrs["units"] = names
        return table

    @property
    def plot(self) -> Plots:
        """Return plots of a walk for notebooks: ``torques()``, ``forces()``, ``path()``, ``smoothness()``.

        Raises:
            InputError: The run is not a walk, or has fewer than three rows.
        """
        from idcontrol.record.inline import Plots  # imported on demand, because plotting is slow to load

        return Plots(self.arrays, self.layout, str(self.folder))

    @property
    def title(self) -> str:
        """Return experiment, controller, plant, robot, friction and length of the run, in one line."""
        said = self.config.get
        on = f"{said('controller')} on {said('plant')}" if said("controller") and said("plant") else said("controller")
        mu = None if said("mu") is None else f"μ = {said('mu')}"
        duration = f"{said('duration_s'):g} s" if is_number(said("duration_s")) else None
        name = str(self.meta.get("experiment", self.folder.name))
        return ", ".join(str(part) for part in (name, on, said("robot"), mu, duration) if part)

    def __repr__(self) -> str:
        done = (self.metrics or {}).get("completed")
        state = {True: "completed", False: "not completed", None: self.note or "done"}[done]
        return f"<Run: {self.title}: {state}; {self.folder}>"

    def _repr_html_(self) -> str:
        from idcontrol.record.inline import summary

        return summary(self.title, self.metrics or {}, self.note, str(self.folder))


class Recorder:
    """Writes the folder of one run; a context manager.

    Rows are appended to a block of memory, and full blocks are appended to ``record.log``, so SIGKILL loses at most
    `BLOCK_ROWS` rows, or those since the last `flush`. If the context is left without `close` (by an exception, Ctrl-C,
    SIGTERM), the record keeps every appended row and is marked as incomplete. Within the context SIGTERM raises
    `Terminated`, so it unwinds the stack like Ctrl-C.
    """

    def __init__(
        self,
        folder: str | Path,
        channels: Mapping[str, tuple[int, ...]],
        units: Mapping[str, str],
        meta: Mapping[str, Any],
        *,
        config: Mapping[str, Any] | None = None,
        wall_time: Collection[str] = (),
    ) -> None:
        """Open a record.

        Args:
            folder: Folder of the record, which must be empty; it is created if it does not exist.
            channels: Shape of one row of each channel, e.g. ``{"t": (), "feet": (4, 3)}``.
            units: Unit of each channel that has one.
            meta: Facts that are not in the arrays, as plain data; NaN becomes null, infinity becomes "inf".
            config: The resolved configuration; its ``seed`` is repeated in ``run.json``.
            wall_time: Channels of wall time, which differ from run to run and get a separate file.

        Raises:
            InputError: The folder is not empty or cannot be created, or a name in `units` or `wall_time` is not a
                channel.
        """
        self.folder = Path(folder)
        self._channels = {name: tuple(shape) for name, shape in channels.items()}
        for what, names in (("units", units), ("wall_time", wall_time)):
            for name in names:
                if name not in self._channels:
                    raise InputError(f"{what} names {name!r}, which is not a channel of this record")
        claim(self.folder)
        config = {} if config is None else config
        header = {
            "schema": SCHEMA,
            "channels": [[name, list(shape)] for name, shape in self._channels.items()],
            "units": {name: units.get(name, "") for name in self._channels},
            "wall_time": [name for name in self._channels if name in wall_time],
        }
        run = {
            "format": FORMAT,
            "schema": SCHEMA,
            "seed": config.get("seed"),
            "began": datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
            "versions": versions(),
            "meta": meta,
        }
        write_json(self.folder / "config.json", config)
        write_json(self.folder / "run.json", run)

        self._block: Array = np.full((BLOCK_ROWS, width(self._channels)), np.nan)
        self._views = views(self._block, self._channels)
        self._log: IO[bytes] = (self.folder / "record.log").open("wb", buffering=0)
        offset = self._log.write(header_bytes(header))
        # offset of the next block and number of its rows, as one attribute: an interrupted write leaves either the old
        # pair (the same block is then written again at the same place) or the new pair
        self._position: tuple[int, int] = (offset, 0)
        self._events: IO[str] | None = None
        self._closed = False
        self._context = contextlib.ExitStack()

    def append(self, **row: Any) -> None:
        """Append one row; missing channels are NaN.

        Raises:
            InputError: A name is not a channel, or a value does not have the shape of its channel.
        """
        offset, i = self._position
        self._block[i] = np.nan
        try:
            for name, value in row.items():
                self._views[name][i] = value
        except (KeyError, ValueError, TypeError) as error:
            if name not in self._views:
                raise InputError(f"{name!r} is not a channel of this record; it has {', '.join(self._views)}") from None
            wanted = self._channels[name]
            raise InputError(f"channel {name!r} takes numbers of shape {wanted}, not {np.shape(value)}") from error
        self._position = (offset, i + 1)
        if i + 1 == BLOCK_ROWS:
            self.flush()

    def extend(self, rows: Array) -> None:
        """Append rows that contain all channels.

        Args:
            rows: Channels side by side, in the order of `channels`, shape (n, values).

        Raises:
            InputError: The rows have the wrong width.
        """
        if rows.shape[1:] != self._block.shape[1:]:
            raise InputError(f"rows of this record have shape (n, {self._block.shape[1]}), not {rows.shape}")
        while len(rows):
            offset, i = self._position
            n = min(len(rows), BLOCK_ROWS - i)
            self._block[i : i + n] = rows[:n]
            self._position = (offset, i + n)
            if i + n == BLOCK_ROWS:
                self.flush()
            rows = rows[n:]

    def event(self, event: Event) -> None:
        """Append an event to ``events.jsonl``, and hand it to the operating system at once."""
        if self._events is None:
            self._events = (self.folder / "events.jsonl").open("a", encoding="utf-8")
        line = {"t": event.t, "what": event.what, "detail": dict(event.detail)}
        self._events.write(json.dumps(jsonable(line)) + "\n")
        self._events.flush()

    def close(self, metrics: Mapping[str, Any] | None = None) -> None:
        """End the record: write ``arrays.h5`` (and ``timing.h5``, ``metrics.json``), then remove ``record.log``.

        Args:
            metrics: Metrics computed from the arrays. None means that the run is incomplete.
        """
        if self._closed:
            return
        if not self._log.closed:  # the log is already closed if an earlier call was interrupted during the export
            self.flush()
            offset, _ = self._position
            self._log.truncate(offset)
            os.fsync(self._log.fileno())
            self._log.close()
        if self._events is not None:
            self._events.close()
        _export(self.folder, complete=metrics is not None)
        if metrics is not None:
            write_json(self.folder / "metrics.json", metrics)
        (self.folder / "record.log").unlink()
        self._closed = True

    def arrays(self) -> dict[str, Array]:
        """Return all rows so far, one array per channel; not after `close`."""
        self.flush()
        return read_log(self.folder / "record.log").arrays()

    def __enter__(self) -> Self:
        self._context.enter_context(sigterm_is_heard())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except OSError as failure:
            if error is None:
                raise
            error.add_note(f"the record could not be closed either: {failure}")
        finally:
            self._context.close()

    def flush(self) -> None:
        """Hand the appended rows to the operating system, so that they survive if the process is killed."""
        offset, rows = self._position
        if rows == 0:
            return
        data = block_bytes(self._block[:rows])
        self._log.seek(offset)
        rest = memoryview(data)
        while rest:  # an unbuffered write may be partial, e.g. when the disk is nearly full
            rest = rest[self._log.write(rest) :]
        self._position = (offset + len(data), 0)


def load(folder: str | Path) -> Run:
    """Return the run in `folder`: from ``arrays.h5`` or, if the recorder was killed, from ``record.log``.

    Rows from the first corrupt block of ``record.log`` on are left out.

    Raises:
        InputError: The folder does not exist, is empty, is not a run, was written by a newer version, or is damaged.
    """
    folder = Path(folder)
    run = _read_run_json(folder)
    if within(folder, "record.log"):
        # the log is removed last; while it exists, the HDF5 files may be missing or incomplete, so only the log is read
        log = read_log(folder / "record.log")
        arrays, units, complete, note = log.arrays(), log.units, False, log.note
    elif within(folder, "arrays.h5"):
        facts, arrays, units = read_h5(folder / "arrays.h5")
        complete, note = facts.complete, ""
        if within(folder, "timing.h5"):
            _, timing, timing_units = read_h5(folder / "timing.h5")
            if {len(values) for values in timing.values()} - {len(values) for values in arrays.values()}:
                raise InputError(f"{folder} is damaged: timing.h5 has other rows than arrays.h5")
            arrays, units = arrays | timing, units | timing_units
    else:
        raise InputError(f"{folder} holds a run without rows: neither arrays.h5 nor record.log is there; run it again")
    metrics = read_metrics(folder) if complete and within(folder, "metrics.json") else None
    if not complete:
        rows = len(next(iter(arrays.values()), ()))
        note = f"the run was stopped before its end; {rows} rows were kept" + (f"; {note}" if note else "")
    return Run(
        folder=folder,
        arrays=arrays,
        units=units,
        meta=run.meta or {},
        config=read_json(folder, "config.json") if within(folder, "config.json") else {},
        began=run.began or "",
        versions=run.versions or {},
        metrics=metrics,
        events=_read_events(folder),
        complete=complete,
        note=note,
    )


class _Metrics(msgspec.Struct, frozen=True):
    """Metrics whose types matter to pages and comparisons; other metrics are allowed."""

    completed: bool | None = None
    fell_at_s: float | None = None
    paper: dict[str, Any] | None = None
    checks: dict[str, bool] | None = None
    verdicts: dict[str, str] | None = None
    sources: dict[str, str] | None = None
    units: dict[str, str] | None = None
    notes: dict[str, str] | None = None


def read_metrics(folder: Path) -> dict[str, Any]:
    """Return the metrics of the run in `folder`.

    Raises:
        InputError: ``metrics.json`` is missing or damaged.
    """
    metrics = read_json(folder, "metrics.json")
    checked(metrics, _Metrics, str(folder / "metrics.json"))
    return metrics


def fresh_folder(parent: str | Path, stem: str) -> Path:
    """Make and return ``parent/stem``, or ``parent/stem-n`` with the smallest free n >= 2.

    Raises:
        InputError: The folder cannot be made.
    """
    parent = Path(parent)
    n = 1
    while True:
        folder = parent / (stem if n == 1 else f"{stem}-{n}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError as error:
            if not folder.exists():
                raise InputError(f"{parent} is not a folder; choose another folder for the run") from error
            n += 1
        except OSError as error:
            raise InputError(f"cannot make {folder}: {error.strerror}; choose another folder for the run") from error
        else:
            return folder


def versions() -> dict[str, str]:
    """Return the versions of the packages that affect the numbers, by name, and the version of ``python``.

    ``platform`` is the type of system and processor. The version of a missing package is ``"not installed"``.
    """
    numbers = {"python": platform.python_version(), "platform": f"{platform.system()} {platform.machine()}"}
    for package in _PACKAGES:
        try:
            numbers[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            numbers[package] = "not installed"
    return numbers


def write_json(path: Path, value: Any) -> None:
    """Write `value` as JSON, atomically."""
    partial = path.with_name(path.name + ".part")
    partial.unlink(missing_ok=True)  # in a folder of another user, the target could be a symbolic link to any file
    with partial.open("w", encoding="utf-8") as file:
        json.dump(jsonable(value), file, indent=2, allow_nan=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def _export(folder: Path, *, complete: bool) -> None:
    """Convert the log to HDF5 files, each written atomically, block by block to save memory."""
    log = read_log(folder / "record.log")
    files = {
        "arrays.h5": [name for name in log.channels if name not in log.wall_time],
        "timing.h5": list(log.wall_time),
    }
    for filename, names in files.items():
        if not names and filename != "arrays.h5":  # arrays.h5 is always written: it stores whether the run is complete
            continue
        partial = folder / (filename + ".part")
        with h5py.File(partial, "w") as file:
            file.attrs["format"], file.attrs["schema"], file.attrs["complete"] = FORMAT, SCHEMA, complete
            datasets = {name: _dataset(file, name, log) for name in names}
            first = 0
            for block in log.payloads():
                columns = views(block, log.channels)
                for name, dataset in datasets.items():
                    dataset[first : first + len(block)] = columns[name]
                first += len(block)
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        partial.replace(folder / filename)


def _dataset(file: h5py.File, name: str, log: Log) -> h5py.Dataset:
    """Create an empty dataset for all rows of a channel."""
    shape = log.channels[name]
    packed = {"chunks": (min(BLOCK_ROWS, log.rows), *shape), "compression": 1, "shuffle": True} if log.rows else {}
    # time stamps would make equal runs differ
    dataset = file.create_dataset(name, (log.rows, *shape), dtype="<f8", track_times=False, **packed)
    dataset.attrs["units"] = log.units[name]
    return dataset


class _RunFile(msgspec.Struct, frozen=True):
    """The fields of ``run.json`` that `load` uses."""

    meta: dict[str, Any] | None = None
    began: str | None = None
    versions: dict[str, str] | None = None


def _read_run_json(folder: Path) -> _RunFile:
    """Return the contents of ``run.json`` in `folder`.

    Raises:
        InputError: The folder does not contain a run that this version can read.
    """
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {what}; give the folder of a run")
    if not any(folder.iterdir()):
        raise InputError(f"{folder} is empty; give the folder of a run")
    if not (folder / "run.json").is_file():
        raise InputError(f"{folder} is not a run: it has no run.json; give the folder that `idcontrol run` printed")
    run = read_json(folder, "run.json")
    if run.get("format") != FORMAT or not isinstance(run.get("schema"), int):
        raise InputError(f"{folder / 'run.json'} was not written by idcontrol; give the folder of a run")
    refuse_newer(run, folder)
    return checked(run, _RunFile, str(folder / "run.json"))


class _EventLine(msgspec.Struct, frozen=True):
    """A line of ``events.jsonl``; `t` is None if the time was unknown."""

    t: float | None
    what: str
    detail: dict[str, Any]


def _read_events(folder: Path) -> tuple[dict[str, Any], ...]:
    """Return the events of the run in `folder`, up to the first line that is damaged."""
    path = within(folder, "events.jsonl")
    events = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path else ():
        try:
            events.append(msgspec.to_builtins(checked(parse_json(line), _EventLine, "")))
        except ValueError:
            break
    return tuple(events)


def claim(folder: Path) -> None:
    """Create `folder`, or accept it if it is empty.

    Raises:
        InputError: The folder is not empty, or cannot be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = any(folder.iterdir())
    except OSError as error:
        raise InputError(f"cannot use {folder} for a run: {error.strerror}; choose another folder") from error
    if taken:
        what = "holds a run already" if (folder / "run.json").exists() else "is not empty"
        raise InputError(f"{folder} {what}; choose a fresh folder, or omit --out to get one")
