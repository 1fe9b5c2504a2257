"""The files of the package, and programs that run its kernels in a separate process."""

import glob
import os
import subprocess
import sys
from pathlib import Path

from idcontrol.kernels.sources import ROOT


def modules() -> list[Path]:
    """All of its modules, with modules of planners, experiments and robots, whose folders are links in a checkout."""
    return [Path(name) for name in glob.glob(f"{ROOT}/**/*.py", recursive=True)]


def run(*lines: str, **environment: object) -> tuple[list[str], str]:
    """Run a program, and return the words that it prints on its standard output, and its standard error."""
    names = os.environ | {name: str(value) for name, value in environment.items()}
    command = [sys.executable, "-c", "\n".join(("import numpy as np", *lines))]
    done = subprocess.run(command, env=names, capture_output=True, text=True, check=True)
    return done.stdout.split(), done.stderr
