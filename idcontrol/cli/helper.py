"""The command ``idcontrol`` for one run without a record, which compiles kernels for the process that started it.

It ends when that process ends, as `idcontrol.cli.child` does, and leaves only compiled kernels.
"""

from __future__ import annotations

import shutil
import sys
import tempfile

from idcontrol.cli import main
from idcontrol.cli.child import end_with_the_pipe

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        end_with_the_pipe(lambda: shutil.rmtree(folder, ignore_errors=True))
        sys.exit(main([*sys.argv[1:], "--out", folder]))
