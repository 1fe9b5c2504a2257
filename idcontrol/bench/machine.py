"""Date and computer of the measurements."""

import os
import platform
import re
import subprocess
import time
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    """Return date, commit, computer, load, Python's version and BLAS threads as plain data."""
    return {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": _commit(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "threads": {name: os.environ.get(name) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")},
    }


def processor() -> str:
    """Return the name of the processor's model."""
    try:
        info = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        info = ""
    model = re.search(r"^model name\s*:\s*(.+)$", info, re.MULTILINE)
    return model[1] if model else platform.processor() or platform.machine()


def _commit() -> str | None:
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=5.0).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
