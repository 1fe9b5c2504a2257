"""``idcontrol bench``: the time that a step takes, beside the times of peers."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from idcontrol.cli.console import DONE, TASK_FAILED, console
from idcontrol.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

MOST_CONTACTS = 100_000
"""Rows of so many take a tenth of a gigabyte; machines in contact have a hundred."""
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@click.command("bench", short_help="Time our code beside that of peers.")
@click.argument("section", default="all", metavar="[solvers|models|controllers|plants|batch|tick|memory|compiling|all]")
@click.option("--contacts", metavar="N,N,...", help="Numbers of contacts for solvers and models.")
@click.option(
    "--samples", type=click.IntRange(10, 10**6), default=2000, help="Times taken of each job, at most [2000]."
)
@click.option(
    "--budget", type=click.FloatRange(0.01, 3600.0), default=2.0, metavar="S", help="Time spent on a row [2 s]."
)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Append the result.")
@click.option(
    "--against",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Show ratios to the newest result in FILE, which --out or --json has written.",
)
@click.option("--steps", type=click.IntRange(1000, 10**9), default=100_000, help="Steps of `memory` [100000].")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    section: str,
    contacts: str | None,
    samples: int,
    budget: float,
    out: Path | None,
    against: Path | None,
    steps: int,
    as_json: bool,
) -> int:
    """Time our code, a peer's and the floor in turns over the states of a walk; answers are compared before times.

    The floor is the time that Pinocchio takes, called from Python, for the rigid-body terms. A bar is a multiple of
    the floor, of the peer's median, or of a microsecond; `of` says which.

    The sections memory and compiling are measured by their names alone: each takes minutes.
    """
    if math.isnan(budget):  # it is in every range
        raise InputError("--budget nan: give a time in seconds")
    for name in THREADS:  # before NumPy is imported: BLAS reads it once
        os.environ.setdefault(name, "1")
    from idcontrol.bench import history
    from idcontrol.config.configuration import jsonable

    earlier = None if against is None else history.last(against)
    counts = None if contacts is None else _counts(contacts)
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        if section == "memory":
            from idcontrol.bench import memory

            result: dict[str, Any] = {**memory.run(steps), "machine": history.machine()}
        elif section == "compiling":
            from idcontrol.bench import compiling

            result = {**compiling.run(), "machine": history.machine()}
        else:
            result = _times(section, counts, samples, budget, quiet=as_json)
    result = jsonable(result)
    if earlier is not None and "rows" in result:
        result["against"] = history.ratios(result, earlier)
    if out is not None:
        history.append(out, result)
    failed = result.get("failed", {})
    for line in failed.values():
        click.echo(f"idcontrol: {line}", err=True)
    if as_json:
        click.echo(json.dumps(result, allow_nan=False))
    else:
        screen = console()
        for table in _tables(result):
            screen.print(table)
    return TASK_FAILED if failed else DONE


def _times(section: str, contacts: list[int] | None, samples: int, budget: float, *, quiet: bool) -> dict[str, Any]:
    from idcontrol.bench import execute
    from idcontrol.bench.measurement import Effort, TimingRow

    def on_row(row: TimingRow) -> None:
        if not quiet and sys.stderr.isatty():
            done = row.benchmark
            click.echo(f"{done.section}: {done.what}, {done.contacts} contacts: {row.us['p50']:.1f} us", err=True)

    return execute.run(section, Effort(samples=samples, budget_s=budget), contacts=contacts, on_row=on_row)


def _counts(text: str) -> list[int]:
    try:
        found = sorted({int(part) for part in text.split(",")})
    except ValueError:
        found = [0]
    if found[0] < 1 or found[-1] > MOST_CONTACTS:
        raise InputError(
            f"--contacts {text}: give positive whole numbers up to {MOST_CONTACTS}, separated by commas, as in 4,40"
        )
    return found


def _tables(result: Mapping[str, Any]) -> Iterator[Table]:
    from rich.table import Table

    from idcontrol.record.quantities import label

    machine = result["machine"]
    where = f"{machine['processor']}, load {machine['load']}, commit {machine['commit']}"
    if "rows" not in result:
        section = "memory" if "memory" in result else "compiling"
        table = Table("", "found", "bar", "", title=f"{section}; {where}", title_justify="left", box=None)
        for key, entry in result[section].items():
            table.add_row(label(key), f"{entry['value']:.4g}", _number(entry["bar"]), _mark(entry["met"]))
        yield table
        return
    table = Table(title=f"floor {result['floor_us']:.1f} us; {where}", title_justify="left", box=None)
    for heading in ("section", "what", "contacts", "us p50", "p99", "p99.9", "floors", "peer", "us p50", "ratio"):
        table.add_column(heading, justify="left" if heading in ("section", "what", "peer") else "right")
    for heading in ("same answer", "bar", "", "goal", ""):
        table.add_column(heading, justify="right")
    for row in result["rows"]:
        us, theirs = row["us"], row["peer_us"]
        unsolved = f" ({row['unsolved']} unsolved)" if row["unsolved"] else ""
        their_unsolved = f" ({row['peer_unsolved']} unsolved)" if row["peer_unsolved"] else ""
        table.add_row(
            row["section"],
            row["what"] + unsolved,
            _number(row["contacts"]),
            *(_number(us[name]) for name in ("p50", "p99", "p999")),
            _number(row["floor_ratio"]),
            "" if row["peer"] is None else row["peer"] + their_unsolved,
            "" if theirs is None else _number(theirs["p50"]),
            _number(row["peer_ratio"]),
            {None: "", True: "yes", False: "no"}[row["agrees"]],
            "" if row["bar"] is None else f"{_number(row['bar'])} {row['of']}",
            _mark(row["met"]),
            _number(row["goal"]),
            _mark(row["goal_met"]),
        )
    yield table
    differing = [row for row in result["rows"] if row["agrees"] is False]
    if differing:
        table = Table("answers that differ", "peer", "difference", title_justify="left", box=None)
        for row in differing:
            table.add_row(row["what"], row["peer"], row["difference"])
        yield table
    if "against" in result:
        table = Table("what", "contacts", "peer", "floors now", "earlier", "now / earlier", box=None)
        for row in result["against"]:
            numbers = (_number(row[key]) for key in ("now", "earlier", "ratio"))
            table.add_row(row["what"], _number(row["contacts"]), row["peer"] or "", *numbers)
        yield table


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _mark(holds: bool | None) -> Any:
    from rich.text import Text

    if holds is None:
        return Text("")
    return Text("✓", style="green") if holds else Text("✗", style="red")
