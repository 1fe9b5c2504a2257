"""Write and read the files of a sweep."""

import contextlib
import csv
import fcntl
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from idcontrol.config.configuration import at, flat, jsonable
from idcontrol.errors import InputError, install_command
from idcontrol.record.files import checked, read_json, within
from idcontrol.record.recording import Run, read_metrics, versions, write_json
from idcontrol.record.recording import load as load_run
from idcontrol.sweeps.execute import done, failed_folder
from idcontrol.sweeps.plan import PlannedRun

FORMAT = "idcontrol-comparison"
SCHEMA = 1
"""Version of the layout; a reader refuses newer versions."""

NOT_RUN = "not run yet"
"""Reason of a row without a finished attempt."""

SETTINGS = ("preset", "controller", "plant", "robot", "terrain", "mu", "seed", "duration_s", "rate_hz")
"""Settings in every row, if the experiment has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The outcome of a planned run.

    Attributes:
        row: The planned run.
        metrics: Metrics of a finished run, successful or not; None otherwise.
        reason: Reason why the task failed, or why there is no record; None if the task succeeded.
        folder: Folder of the run.
    """

    row: PlannedRun
    metrics: Mapping[str, Any] | None
    reason: str | None
    folder: Path

    @property
    def done(self) -> bool:
        """True if the run finished and succeeded."""
        return self.reason is None

    def metric(self, key: str) -> Any:
        """Return a metric by dotted key; None if missing."""
        return at(self.metrics or {}, key)

    def setting(self, key: str) -> Any:
        """Return a setting by its dotted key, or the preset's name by the key ``preset``; None if missing."""
        value = self.row.preset if key == "preset" else at(self.row.config, key)
        return float(value) if value in ("inf", "-inf") else value  # JSON has no infinity; records contain these words


COINCIDE = ("tau_mean_nm", "dtau_mean_nm_s", "dtau_max_nm_s", "q_err_rad", "qd_err_rad_s")
"""Controllers coincide in a run if these metrics agree to six digits."""


def coinciding(outcomes: Sequence[RunOutcome]) -> str:
    """Say which controllers coincide (`COINCIDE`) in runs that differ only in the controller.

    Returns:
        One sentence for each group of equal controllers; empty without such a group. If all contacts stick in some of
        their steps, the sentence gives this as the reason.
    """
    keys = [key for key in varied_keys([o.row for o in outcomes]) if key != "controller"]
    alike: dict[str, list[RunOutcome]] = {}
    for o in outcomes:
        metrics = [o.metric(key) for key in COINCIDE]
        if o.metrics is not None and all(isinstance(value, float) for value in metrics):
            same = [f"{o.setting(key)}" for key in keys] + [f"{value:.5e}" for value in metrics]
            alike.setdefault(json.dumps(same), []).append(o)
    sentences = []
    for group in alike.values():
        names = sorted({str(o.setting("controller")) for o in group})
        if len(names) < 2:
            continue
        where = ", ".join(f"{key} {group[0].setting(key)}" for key in keys)
        steps = [(o.metric("solver.by.sticking") or 0, o.metric("steps") or 0) for o in group]
        stuck = min(n / of for n, of in steps if of) if any(of for _, of in steps) else 0.0
        reason = (
            f": in {100.0 * stuck:.1f} % of their steps all contacts stick, and the same stage II computes the torques"
            " (with --set inverse.shortcut=false, each solves its own problem)"
            if stuck > 0.0
            else ""
        )
        sentences.append(f"{', '.join(names[:-1])} and {names[-1]} coincide{f' at {where}' if where else ''}{reason}.")
    return " ".join(sentences)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comparison:
    """A sweep, read from its folder.

    Attributes:
        folder: Folder of the comparison.
        experiment: Name of the experiment.
        study: Name of the study; None without a study.
        outcomes: Outcomes of all planned runs, in planned order.
        command: The command that makes or continues the comparison.
        versions: Versions of Python and packages.
    """

    folder: Path
    experiment: str
    study: str | None
    outcomes: tuple[RunOutcome, ...]
    command: tuple[str, ...]
    versions: Mapping[str, str]

    def frame(self) -> Any:
        """Return settings and metrics as a pandas table with one row per run.

        Raises:
            InputError: pandas is not installed.
        """
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise InputError(f"Comparison.frame needs pandas: {install_command('notebook')}") from error
        return pandas.DataFrame([_cells(row) for row in flat_rows(self.outcomes)])

    def runs(self) -> list[Run]:
        """Return the records of the finished runs, in planned order.

        Raises:
            InputError: A record is damaged.
        """
        return [load_run(o.folder) for o in self.outcomes if o.metrics is not None]

    def __repr__(self) -> str:
        done = sum(o.done for o in self.outcomes)
        return (
            f"<Comparison: {self.experiment}: {done} of {len(self.outcomes)} runs completed their task; {self.folder}>"
        )

    def _repr_html_(self) -> str:
        from idcontrol.record.inline import comparison  # imported on demand, because views are slow to load

        keys = varied_keys([o.row for o in self.outcomes])
        return comparison(
            keys, (([str(o.setting(key)) for key in keys], o.metrics or {}, o.reason or "") for o in self.outcomes)
        )


@contextlib.contextmanager
def opened(
    folder: Path, rows: Sequence[PlannedRun], *, experiment: str, study: str | None, command: Sequence[str]
) -> Iterator[Path]:
    """Lock `folder` for a sweep, and write its ``comparison.json``.

    Yield its folder of runs, cleared of the remains of killed attempts.

    Raises:
        InputError: The folder is unusable, is not a comparison, or is in use by another sweep.
    """
    runs = folder / "runs"
    try:
        names = {path.name for path in folder.iterdir()} if folder.exists() else set()
        if "comparison.json" not in names and names - {".lock", "runs"}:
            raise InputError(f"{folder} is not a comparison; choose a new folder")
        runs.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        raise InputError(f"cannot use {folder} for a comparison: {error.strerror}; choose another folder") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(f"another comparison is running in {folder}; wait or choose another folder") from error
        for path in runs.glob(".*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        write_json(
            folder / "comparison.json",
            {
                "format": FORMAT,
                "schema": SCHEMA,
                "experiment": experiment,
                "study": study,
                "command": list(command),
                "versions": versions(),
                "rows": [msgspec.to_builtins(row) for row in rows],
            },
        )
        yield runs


def load(folder: str | Path) -> Comparison:
    """Read a comparison, finished or not.

    Raises:
        InputError: The folder has no readable comparison.
    """
    folder = Path(folder)
    path = folder / "comparison.json"
    plain = read_json(folder, "comparison.json")
    if plain.get("format") != FORMAT or plain.get("schema") not in range(SCHEMA + 1):
        raise InputError(f"{path} was written by another program or a newer idcontrol; upgrade idcontrol")
    said = checked(plain, _ComparisonFile, str(path))
    within(folder, "runs")
    for row in said.rows:
        if not row.name or Path(row.name).name != row.name:
            raise InputError(f"{path} is damaged: {row.name!r} is no name of a run")
        within(folder / "runs", row.name)
    return Comparison(
        folder=folder,
        experiment=said.experiment,
        study=said.study,
        outcomes=tuple(outcome(row, folder / "runs") for row in said.rows),
        command=said.command,
        versions=said.versions,
    )


class _ComparisonFile(msgspec.Struct, frozen=True):
    """The fields of ``comparison.json`` in use."""

    experiment: str
    study: str | None
    command: tuple[str, ...]
    versions: dict[str, str]
    rows: tuple[PlannedRun, ...]


def outcome(row: PlannedRun, runs: Path) -> RunOutcome:
    """Return the outcome of `row`, read from its folders."""
    if done(row, runs):
        folder = runs / row.name
        try:
            metrics = read_metrics(folder)
        except InputError as error:
            return RunOutcome(row=row, metrics=None, reason=str(error), folder=folder)
        return RunOutcome(row=row, metrics=metrics, reason=why_not(metrics), folder=folder)
    folder = failed_folder(row, runs)
    note = within(folder, "reason.txt")
    reason = note.read_text(encoding="utf-8", errors="replace").strip() if note is not None else NOT_RUN
    return RunOutcome(row=row, metrics=None, reason=reason, folder=folder)


def why_not(metrics: Mapping[str, Any]) -> str | None:
    """Return the reason why a finished run failed, from its metrics; None if it succeeded."""
    if metrics.get("completed", True):
        return None
    if metrics.get("fell_at_s") is not None:
        because = metrics.get("failed_because")
        return f"fell at {metrics['fell_at_s']:.2f} s" + (f"; the controller failed: {because}" if because else "")
    if metrics.get("missed") is not None:
        return str(metrics["missed"])
    missed = [key for key, holds in (metrics.get("checks") or {}).items() if not holds]
    return f"missed: {', '.join(missed)}" if missed else "did not complete its task"


def flat_rows(outcomes: Sequence[RunOutcome]) -> list[dict[str, Any]]:
    """Return settings and metrics of every row, as ``compare --json`` prints them."""
    more = [key for key in dict.fromkeys(key for o in outcomes for key in o.row.changes) if key not in SETTINGS]
    return [
        {
            "experiment": o.row.experiment,
            "preset": o.row.preset,
            **{key: o.row.config[key] for key in SETTINGS if key in o.row.config},
            **{key: o.setting(key) for key in more},
            "completed": False,
            **(o.metrics or {}),
            "reason": o.reason,
            "verdict": o.reason or "completed",
            "out": str(o.folder),
        }
        for o in outcomes
    ]


def varied_keys(rows: Sequence[PlannedRun]) -> list[str]:
    """Return the settings that differ between `rows`.

    If none differs, return the last changed setting; if none was changed, ``preset``.
    """
    keys = ["preset", *dict.fromkeys(key for row in rows for key in row.changes)]
    values = {key: {json.dumps(row.preset if key == "preset" else at(row.config, key)) for row in rows} for key in keys}
    varied = [key for key in keys if len(values[key]) > 1]
    return varied or keys[-1:]


def write_rows(folder: Path, outcomes: Sequence[RunOutcome]) -> None:
    """Write ``rows.json`` and ``table.csv``."""
    rows = flat_rows(outcomes)
    write_json(folder / "rows.json", {"rows": rows})
    cells = [_cells(jsonable(row)) for row in rows]
    header = list(dict.fromkeys(key for row in cells for key in row))
    write_csv(folder / "table.csv", header, [[row.get(key) for key in header] for row in cells])


def write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Write a table, with empty cells for None."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def _cells(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return single values by dotted key; lists are skipped."""
    return {key: value for key, value in flat(row).items() if not isinstance(value, list)}
