"""Makes the runs of a sweep, each in its own process, on this machine's cores or on a Dask cluster.

A run is written into a hidden folder, which is renamed at the end. So even after a kill, a row is finished if and only
if its folder exists, and two attempts at a row cannot mix.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
import uuid
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from idcontrol.config import processes
from idcontrol.errors import InputError, install_command
from idcontrol.kernels.compiling import SAYS
from idcontrol.record.recording import load
from idcontrol.sweeps.plan import PlannedRun

POLL_S = 0.05
"""Period of checks of the running processes [s]: much shorter than the one or two seconds that a process takes to
start."""

REFUSED = "refused: "
"""First word of a row's reason if its settings are incompatible; other reasons are faults."""

UNUSABLE = 2
"""Exit status of ``idcontrol run`` for an unusable configuration."""

_ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL", "NUMBA")}


def done(row: PlannedRun, runs: Path) -> bool:
    """True if the row is finished: its folder exists. `damage` checks its record."""
    return (runs / row.name).is_dir()


def damage(row: PlannedRun, runs: Path) -> str | None:
    """Return the reason why the record of a finished row is incomplete; None if it is complete."""
    try:
        run = load(runs / row.name)
    except InputError as error:
        return str(error)
    return None if run.complete and run.metrics is not None else run.note or "it has no metrics"


def set_aside(row: PlannedRun, runs: Path, reason: str) -> None:
    """Mark a finished row as failed, so that it is run again."""
    shutil.rmtree(failed_folder(row, runs), ignore_errors=True)
    (runs / row.name).rename(failed_folder(row, runs))
    _note_failure(row, runs, reason)


def failed_folder(row: PlannedRun, runs: Path) -> Path:
    """Return the folder for the remains of a failed run and its ``reason.txt``."""
    return runs / f"{row.name}.failed"


def on_this_machine(
    rows: Sequence[PlannedRun], runs: Path, jobs: int, say: Callable[[str], None] = lambda line: None
) -> Generator[PlannedRun, None, None]:
    """Run `rows`, at most `jobs` at a time, each into its own folder in `runs`.

    Yield each row when its run has ended, successfully or not. Closing the iterator stops the runs that have not ended.
    `say` is called with each line that announces a compilation, once per distinct line.
    """
    waiting, live, said = deque(rows), list[_Attempt](), set[str]()
    try:
        while waiting or live:
            while waiting and len(live) < jobs:
                live.append(_start(waiting.popleft(), runs))
            time.sleep(POLL_S)
            for line in {line for attempt in live if (line := attempt.compiling())} - said:
                said.add(line)
                say(line)
            for attempt in [a for a in live if a.process.poll() is not None]:
                live.remove(attempt)
                _finish(attempt)
                yield attempt.row
    finally:
        for attempt in live:
            attempt.stop()


def on_a_cluster(rows: Sequence[PlannedRun], runs: Path, address: str) -> Generator[PlannedRun, None, None]:
    """Run `rows` on the workers of a Dask scheduler, each into its own folder in `runs`.

    Yield each row when its run has ended, successfully or not. If a worker dies, another worker runs its row. The
    workers need this installation and access to the folder `runs` under the same path.

    Raises:
        InputError: Dask is not installed, or there is no scheduler at `address`.
    """
    try:
        import distributed
    except ModuleNotFoundError as error:
        raise InputError(f"--scheduler needs Dask: {install_command('sweep')}") from error
    try:
        client = distributed.Client(address, timeout="5s", set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(f"no Dask scheduler answers at {address}; start one with `dask scheduler`") from error
    with client:
        futures = {
            client.submit(_in_a_worker, row, runs.absolute(), pure=False, key=f"{row.name}-{uuid.uuid4().hex[:8]}"): row
            for row in rows
        }
        try:
            # without the argument, Dask would search for a default client
            for future in distributed.as_completed(futures, loop=client.loop):
                row = futures[future]
                if future.status != "finished":
                    _note_failure(row, runs, f"the cluster gave up the run: {future.exception()}")
                yield row
        finally:
            client.cancel([future for future in futures if not future.done()])


@dataclass(slots=True)
class _Attempt:
    """A row with a running process."""

    row: PlannedRun
    runs: Path
    folder: Path
    process: subprocess.Popen[bytes]
    log: IO[bytes]

    def compiling(self) -> str | None:
        """Return the line that announces compilation; None without compilation."""
        lines = os.pread(self.log.fileno(), 1 << 16, 0).decode(errors="replace").splitlines()
        return next((line for line in lines if line.startswith(SAYS)), None)

    def stop(self) -> None:
        """End the process and delete its folder."""
        self.process.terminate()
        try:
            self.process.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def close(self) -> None:
        """Close the pipe and the log, and remove the log."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.log.close()
        Path(self.log.name).unlink(missing_ok=True)


def _start(row: PlannedRun, runs: Path) -> _Attempt:
    folder = runs / f".{row.name}.{uuid.uuid4().hex[:8]}"
    log = folder.with_name(folder.name + ".log").open("w+b")
    process = subprocess.Popen(
        processes.command("idcontrol.cli.child", *row.command(folder)),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=log,
        env=os.environ | _ONE_THREAD,
    )
    return _Attempt(row=row, runs=runs, folder=folder, process=process, log=log)


def _finish(attempt: _Attempt) -> None:
    """Rename the folder of an ended run to the name of its row or, if there is no record, to `failed_folder`."""
    folder, runs, row = attempt.folder, attempt.runs, attempt.row
    attempt.log.seek(0)
    lines = attempt.log.read().decode(errors="replace").strip().splitlines()
    lines = [line for line in lines if not line.startswith(SAYS)]
    attempt.close()
    if (folder / "metrics.json").is_file() and not (folder / "record.log").exists():
        try:
            folder.rename(runs / row.name)
        except OSError:  # another attempt at this row was faster
            shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(failed_folder(row, runs), ignore_errors=True)
        return
    code = attempt.process.returncode
    if code < 0:
        with contextlib.suppress(ValueError):
            lines.append(f"the process was ended by {signal.Signals(-code).name}")
    reason = lines[-1].removeprefix("idcontrol: ") if lines else f"the process ended with status {code} and no record"
    if code == UNUSABLE and not (folder / "traceback.txt").exists():  # an error in a user's file leaves a traceback
        reason = REFUSED + reason
    shutil.rmtree(failed_folder(row, runs), ignore_errors=True)
    if folder.exists():
        folder.rename(failed_folder(row, runs))
    _note_failure(row, runs, reason.replace(str(folder), str(failed_folder(row, runs))))


def _note_failure(row: PlannedRun, runs: Path, reason: str) -> None:
    folder = failed_folder(row, runs)
    folder.mkdir(exist_ok=True)
    (folder / "reason.txt").write_text(reason + "\n", encoding="utf-8")


def _in_a_worker(row: PlannedRun, runs: Path) -> None:
    """Make one run on a Dask worker, in a child process: the worker survives a crash of the run."""
    if done(row, runs):
        return
    attempt = _start(row, runs)
    attempt.process.wait()
    _finish(attempt)
