"""The command ``idcontrol`` for one run that compiles kernels for the process that started it.

The record of the run is deleted. The command ends when the process that started it ends (`idcontrol.cli.child`).
"""

import shutil
import sys
import tempfile

from idcontrol.cli import main
from idcontrol.cli.child import end_with_the_pipe

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        end_with_the_pipe(lambda: shutil.rmtree(folder, ignore_errors=True))
        sys.exit(main([*sys.argv[1:], "--out", folder]))
