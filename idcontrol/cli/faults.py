"""Report a fault of a run by one line on stderr that names the file of the traceback.

An error in a user's file and a full disk are not faults of idcontrol: the status is 2.
"""

import contextlib
import tempfile
import traceback
from pathlib import Path

from idcontrol.cli.console import FAULT, UNUSABLE, say
from idcontrol.config.places import described, own_line
from idcontrol.errors import DISK_FULL


class RunFault(Exception):
    """A fault inside a run; ``__cause__`` is the error.

    Attributes:
        folder: The folder of the run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder


class Stopped(Exception):
    """The user ended the command, by a signal or by not arming the machine. The text is one line.

    Attributes:
        status: Exit status of the command.
    """

    def __init__(self, line: str, status: int) -> None:
        super().__init__(line)
        self.status = status


def report_fault(error: BaseException, folder: Path | None) -> int:
    """Write the traceback and print its path in one line; return the exit status.

    The file is in the run's `folder`, or in the temporary folder if `folder` is None or cannot be written. A full disk
    is reported without a traceback.
    """
    if isinstance(error, OSError) and error.errno in DISK_FULL:
        kept = "" if folder is None else f"; what was recorded until then is in {folder}"
        return say(f"{error.strerror}: free some space and run the command again{kept}", UNUSABLE)
    # a path outside the locale's encoding contains surrogates, which UTF-8 cannot encode
    text = "".join(traceback.format_exception(error)).encode(errors="backslashreplace")
    where = ""
    if folder is not None:
        with contextlib.suppress(OSError):
            path = folder / "traceback.txt"
            path.write_bytes(text)
            where = f"is in {path}"
    if not where:
        with (
            contextlib.suppress(OSError),
            tempfile.NamedTemporaryFile(prefix="idcontrol-", suffix=".txt", delete=False) as file,
        ):
            file.write(text)
            file.flush()
            where = f"is in {file.name}"
    where = where or "could not be written"
    return say(f"{described(error)}; the traceback {where}", FAULT if own_line(error) is None else UNUSABLE)
