"""Results of earlier benches, one JSON object per line, and ratios between two of them."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from idcontrol.errors import InputError

Key = tuple[str, str, Any, Any]


def machine() -> dict[str, Any]:
    """When and on which machine times were taken, as plain data."""
    return {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": _commit(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "threads": {name: os.environ.get(name) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")},
    }


def append(path: Path, result: Mapping[str, Any]) -> None:
    """Add a result to a history.

    Raises:
        InputError: The file cannot be written.
    """
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result, allow_nan=False) + "\n")
    except OSError as error:
        raise InputError(f"--out {path}: {error.strerror or error}") from None


def last(path: Path) -> dict[str, Any]:
    """The newest result in a history, or the result in a file written with ``--json``.

    Raises:
        InputError: The file cannot be read, or its last line is no result.
    """
    try:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        found: dict[str, Any] = json.loads(lines[-1])
        found["rows"][0]["us"]["p50"]  # every result has this
    except OSError as error:
        raise InputError(f"--against {path}: {error.strerror or error}") from None
    except (ValueError, LookupError, TypeError):
        raise InputError(f"--against {path}: no result of idcontrol bench is in its last line") from None
    return found


def ratios(result: Mapping[str, Any], earlier: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Medians of the rows that both results have, in floors: now, earlier, and now over earlier.

    Floors are used because the machine may have been slower then.
    """
    before = {_key(row): row for row in earlier["rows"]}
    found = []
    for row in result["rows"]:
        old = before.get(_key(row))
        if old is None or not row["floor_ratio"] or not old["floor_ratio"]:
            continue
        found.append(
            {
                "section": row["section"],
                "what": row["what"],
                "contacts": row["contacts"],
                "peer": row["peer"],
                "now": row["floor_ratio"],
                "earlier": old["floor_ratio"],
                "ratio": row["floor_ratio"] / old["floor_ratio"],
            }
        )
    return found


def _key(row: Mapping[str, Any]) -> Key:
    return row["section"], row["what"], row["contacts"], row["peer"]


def _commit() -> str | None:
    try:
        said = subprocess.run(
            ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"],
            capture_output=True,
            text=True,
            check=True,
            timeout=5.0,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return said.stdout.strip()


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        return next(line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()
