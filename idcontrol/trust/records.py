"""Measures the claims on records: logs that were cut off, damaged, or closed in order."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from idcontrol.errors import InputError
from idcontrol.record.recording import BLOCK_ROWS, Recorder, load
from idcontrol.trust.claims import claim
from idcontrol.types import Array

ROWS: Final = 2 * BLOCK_ROWS + 200
PLACES: Final = 200
"""Number of places at which logs are cut or damaged."""
LOG: Final = "record.log"


@dataclass(frozen=True, slots=True)
class _Stopped:
    """The folder of a stopped run, its log, and the number of whole rows after some sizes of the log [bytes]."""

    folder: Path
    log: bytes
    whole: dict[int, int]


def _row(i: int) -> Array:
    return np.array([i, -i, 0.5 * i])


def _stopped(parent: Path) -> _Stopped:
    """A run as a power cut leaves it, with a log that was not turned into other files."""
    folder, copy = parent / "running", parent / "stopped"
    with Recorder(folder, {"t": (), "tau": (3,)}, {}, {}) as recorder:
        whole = {(folder / LOG).stat().st_size: 0}
        for i in range(ROWS):
            recorder.append(t=float(i), tau=_row(i))
            whole.setdefault((folder / LOG).stat().st_size, i + 1)
        recorder.arrays()  # flushes the rows that wait in memory
        whole.setdefault((folder / LOG).stat().st_size, ROWS)
        shutil.copytree(folder, copy)
    return _Stopped(copy, (copy / LOG).read_bytes(), whole)


def _rows(folder: Path) -> int:
    """Number of rows that can be read; -1 if one of them was never written.

    Raises:
        InputError: The folder cannot be read.
    """
    arrays = load(folder).arrays
    count = arrays["t"].size
    expected = np.array([_row(i) for i in range(count)]).reshape(-1, 3)
    sound = np.array_equal(arrays["t"], np.arange(count)) and np.array_equal(arrays["tau"], expected)
    return count if sound else -1


@claim(
    "a log cut at any byte keeps every whole block before the cut",
    0.0,
    "tests/record/test_recording.py",
    "tests/fuzz/test_records.py",
    unit="cuts that lose more",
)
def lost_to_a_cut() -> float:
    """Number of cuts of a log after which rows are wrong or whole rows are missing."""
    wrong = 0
    with TemporaryDirectory() as parent:
        run = _stopped(Path(parent))
        header = min(run.whole)
        for at in np.linspace(0, len(run.log), PLACES, dtype=np.int64).tolist():
            (run.folder / LOG).write_bytes(run.log[:at])
            expected = max((rows for size, rows in run.whole.items() if size <= at), default=0)
            try:
                wrong += _rows(run.folder) != expected
            except InputError:
                wrong += at >= header
    return float(wrong)


@claim("a flipped bit in a log is never read as data", 0.0, "tests/record/test_recording.py", unit="bits read as data")
def believed_damage() -> float:
    """Number of flipped bits in a log after which something is read that was never written."""
    wrong = 0
    rng = np.random.default_rng(0)
    with TemporaryDirectory() as parent:
        run = _stopped(Path(parent))
        for at in np.linspace(0, len(run.log) - 1, PLACES, dtype=np.int64).tolist():
            damaged = bytearray(run.log)
            damaged[at] ^= 1 << int(rng.integers(8))
            (run.folder / LOG).write_bytes(damaged)
            with contextlib.suppress(InputError):
                wrong += _rows(run.folder) < 0
    return float(wrong)


@claim(
    "a record that was closed has every row, up to the last", 0.0, "tests/record/test_recording.py", unit="rows lost"
)
def lost_at_the_end() -> float:
    """Number of rows that runs of any length have lost, or have wrong, after they ended in order."""
    lost = 0
    for count in (1, BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 1, ROWS):
        with TemporaryDirectory() as parent:
            folder = Path(parent) / "run"
            with Recorder(folder, {"t": (), "tau": (3,)}, {}, {}) as recorder:
                for i in range(count):
                    recorder.append(t=float(i), tau=_row(i))
                recorder.close({})
            lost += count - max(_rows(folder), 0)
    return float(lost)
