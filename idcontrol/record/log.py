"""The log of a run in progress: an append-only file that stays readable wherever it is cut off.

The file begins with a magic number (8 bytes), the length and the CRC-32 of the header (uint32 each), and the header in
JSON. Blocks follow. A block has a magic number (4 bytes), its number of rows (uint32), the bytes of its payload
(uint64), the CRC-32 of these numbers and the payload (uint32), and the payload: rows of float64, the channels side by
side in the order of the header. Numbers are little endian.
"""

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any

import msgspec
import numpy as np

from idcontrol.errors import InputError
from idcontrol.record.channels import views, width
from idcontrol.types import Array

SCHEMA = 1
"""Version of all files of a record; a reader refuses newer versions."""
BLOCK_ROWS = 500
"""Number of rows that are written and read together."""

_FILE_MAGIC = b"IDCTLLOG"
_BLOCK_MAGIC = b"ROWS"
_FILE_HEAD = struct.Struct("<8sII")
_BLOCK_HEAD = struct.Struct("<4sIQI")
_LARGEST_HEADER = 1 << 24
_LARGEST_ROW = 1 << 20


class Header(msgspec.Struct, frozen=True):
    """The header of a log: schema, shape of one row of each channel, units by channel, wall-time channels."""

    schema: int
    channels: tuple[tuple[str, tuple[Annotated[int, msgspec.Meta(ge=0)], ...]], ...]
    units: dict[str, str]
    wall_time: tuple[str, ...]


def header_bytes(header: Mapping[str, Any]) -> bytes:
    """Return the start of a log with the keys ``schema``, ``channels``, ``units`` and ``wall_time`` in `header`."""
    text = json.dumps(header).encode()
    return _FILE_HEAD.pack(_FILE_MAGIC, len(text), zlib.crc32(text)) + text


def block_bytes(rows: Array) -> bytes:
    """Return `rows`, shape (n, values), as a block of the log."""
    payload = rows.astype("<f8", copy=False).tobytes()
    counts = struct.pack("<IQ", len(rows), len(payload))
    return _BLOCK_HEAD.pack(_BLOCK_MAGIC, len(rows), len(payload), zlib.crc32(payload, zlib.crc32(counts))) + payload


@dataclass(frozen=True, slots=True)
class Log:
    """The readable part of a log.

    Attributes:
        path: Path of the file.
        channels: Shape of one row of each channel, in order.
        units: Unit of each channel; "" without a unit.
        wall_time: Channels that are wall time.
        blocks: Offset of each payload, and its number of rows.
        note: One line about a dropped end of the file; "" if nothing was dropped.
    """

    path: Path
    channels: dict[str, tuple[int, ...]]
    units: dict[str, str]
    wall_time: tuple[str, ...]
    blocks: tuple[tuple[int, int], ...]
    note: str

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return sum(rows for _, rows in self.blocks)

    def payloads(self) -> Iterator[Array]:
        """Yield all rows, `BLOCK_ROWS` at a time, the last time fewer; shape (rows, values), overwritten by the next.

        A recorder that often empties its ring writes blocks of a few rows; HDF5 takes as long for these as for many.
        """
        values, filled = width(self.channels), 0
        out = np.empty((BLOCK_ROWS, values))
        with self.path.open("rb") as file:
            for offset, rows in self.blocks:
                file.seek(offset)
                block = np.frombuffer(file.read(8 * values * rows), dtype="<f8").reshape(rows, values)
                while len(block):
                    n = min(len(block), BLOCK_ROWS - filled)
                    out[filled : filled + n] = block[:n]
                    block, filled = block[n:], filled + n
                    if filled == BLOCK_ROWS:
                        yield out
                        filled = 0
        if filled:
            yield out[:filled]

    def arrays(self) -> dict[str, Array]:
        """Return all rows, channel by channel, each of shape (rows, ...)."""
        out = {name: np.empty((self.rows, *shape)) for name, shape in self.channels.items()}
        first = 0
        for block in self.payloads():
            for name, view in views(block, self.channels).items():
                out[name][first : first + len(block)] = view
            first += len(block)
        return out


def read_log(path: Path) -> Log:
    """Read the header and find the valid blocks; drop everything from the first invalid block on.

    Raises:
        InputError: The header is damaged or of a newer version.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        header = _read_header(file, path)
        channels = dict(header.channels)
        values = width(channels)
        blocks: list[tuple[int, int]] = []
        sound = file.tell()
        while len(head := file.read(_BLOCK_HEAD.size)) == _BLOCK_HEAD.size:
            magic, rows, length, crc = _BLOCK_HEAD.unpack(head)
            if magic != _BLOCK_MAGIC or length != 8 * values * rows or length > size - file.tell():
                break
            if zlib.crc32(file.read(length), zlib.crc32(struct.pack("<IQ", rows, length))) != crc:
                break
            blocks.append((sound + _BLOCK_HEAD.size, rows))
            sound = file.tell()
    lost = size - sound
    note = f"the last {lost} bytes of record.log are torn or corrupt and were dropped" if lost else ""
    return Log(path, channels, header.units, header.wall_time, tuple(blocks), note)


def _read_header(file: IO[bytes], path: Path) -> Header:
    damaged = InputError(f"{path} has no readable header, so no row of it can be read: the run was cut off as it began")
    head = file.read(_FILE_HEAD.size)
    if len(head) < _FILE_HEAD.size:
        raise damaged
    magic, length, crc = _FILE_HEAD.unpack(head)
    if magic != _FILE_MAGIC or length > _LARGEST_HEADER:
        raise damaged
    text = file.read(length)
    if len(text) < length or zlib.crc32(text) != crc:
        raise damaged
    try:
        header = msgspec.json.decode(text, type=Header)
    except (msgspec.MsgspecError, ValueError, RecursionError):  # before msgspec 0.21, its errors are no ValueErrors
        raise damaged from None
    refuse_newer({"schema": header.schema}, path)
    if width(dict(header.channels)) > _LARGEST_ROW:
        raise damaged
    return header


def refuse_newer(header: Mapping[str, Any], where: Path) -> None:
    """Raise `InputError` if the schema in `header` is newer than `SCHEMA`; the message names the file `where`."""
    if header["schema"] > SCHEMA:
        raise InputError(
            f"{where} was written by a newer idcontrol (schema {header['schema']}, this one reads {SCHEMA}); "
            "upgrade idcontrol"
        )
