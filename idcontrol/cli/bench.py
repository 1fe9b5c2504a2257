"""``idcontrol bench``: times of steps, compared with other packages."""

import contextlib
import math
import os
import sys
from collections.abc import Mapping
from typing import Any

import click

from idcontrol.cli.console import DONE, TASK_FAILED, Grid, mark, print_json, say, show
from idcontrol.cli.options import JSON
from idcontrol.errors import InputError

MOST_CONTACTS = 100_000
"""Largest number of contacts that ``--contacts`` accepts. Their Jacobian takes 0.1 GB; real machines have up to a
hundred contacts."""
SECTIONS = "solvers|models|controllers|tasks|plants|batch|tick|memory|compiling|all"
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@click.command("bench", short_help="Time this library and other packages.")
@click.argument("section", default="all", metavar="[SECTION]")
@click.option("--contacts", metavar="N,N,...", help="Numbers of contacts for solvers and models.")
@click.option(
    "--samples",
    type=click.IntRange(10, 10**6),
    default=2000,
    metavar="N",
    help="Largest number of timed calls per row [2000].",
)
@click.option("--budget", type=click.FloatRange(0.01, 3600.0), default=2.0, metavar="S", help="Time per row [2 s].")
@click.option(
    "--steps", type=click.IntRange(1000, 10**9), default=100_000, metavar="N", help="Steps of `memory` [100000]."
)
@JSON
def command(section: str, contacts: str | None, samples: int, budget: float, steps: int, as_json: bool) -> int:
    """Compare answers with other packages (peers), then time this library, the peers and the floor alternately.

    The floor is Pinocchio's time for the rigid-body terms, called from Python. A limit is a multiple of the floor or
    of the peer's median, or a time in µs. For `tasks`, the environment variable TSID_PYTHON names a Python with TSID.

    SECTION is solvers, models, controllers, tasks, plants, batch, tick, memory, compiling or all. The sections memory
    and compiling take minutes each and run only if they are named.
    """
    if math.isnan(budget):  # NaN passes click's range check
        raise InputError("--budget nan: give a time in seconds")
    for name in THREADS:  # before NumPy is imported, because BLAS reads it only once
        os.environ.setdefault(name, "1")
    counts = None if contacts is None else _counts(contacts)
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        result = _result(section, counts, samples, budget, steps, quiet=as_json)
    if as_json:
        print_json(result)
    elif "rows" in result:
        _show(result)
    else:
        _show_bars(result)
    failed = result.get("failed", {})
    for line in failed.values():
        say(line, TASK_FAILED)
    return TASK_FAILED if failed else DONE


def _result(
    section: str, contacts: list[int] | None, samples: int, budget: float, steps: int, *, quiet: bool
) -> dict[str, Any]:
    from idcontrol.bench import compiling, execute, machine, measurement, memory

    if section in ("memory", "compiling"):
        measured = memory.run(steps) if section == "memory" else compiling.run()
        return {**measured, "machine": machine.machine()}

    def on_row(row: dict[str, Any]) -> None:
        if not quiet and sys.stderr.isatty():
            contacts = "" if row["contacts"] is None else f", {row['contacts']} contacts"
            click.echo(f"{row['section']}: {row['what']}{contacts}: {row['us']['p50']:.1f} µs", err=True)

    effort = measurement.Effort(samples=samples, budget_s=budget)
    return execute.run(section, effort, contacts=contacts, on_row=on_row)


def _counts(text: str) -> list[int]:
    try:
        numbers = sorted({int(part) for part in text.split(",")})
    except ValueError:
        numbers = [0]
    if numbers[0] < 1 or numbers[-1] > MOST_CONTACTS:
        raise InputError(
            f"--contacts {text}: give positive whole numbers up to {MOST_CONTACTS}, separated by commas, as in 4,40"
        )
    return numbers


def _where(machine: Mapping[str, Any]) -> str:
    return f"{machine['processor']}, load {machine['load']:.1f}, commit {machine['commit']}"


def _show_bars(result: Mapping[str, Any]) -> None:
    """Print the result of the section ``memory`` or ``compiling``."""
    from idcontrol.record.quantities import label

    section = "memory" if "memory" in result else "compiling"
    table = Grid("", "value", "limit", " ", words=("", " "), title=f"{section}; {_where(result['machine'])}")
    for key, entry in result[section].items():
        table.add(label(key), _number(entry["value"]), _number(entry["bar"]), mark(entry["met"]))
    show(table)


WORDS = ("section", "what", "peer", " ", "")
SPARE = ("p99.9", "p99", "same answer", "goal", "", "floors", "its p50 [µs]", "contacts")


def _show(result: Mapping[str, Any]) -> None:
    """Print the rows of any section except ``memory`` and ``compiling``, and the answers that differ from a peer's."""
    headings = ("section", "what", "contacts", "p50 [µs]", "p99", "p99.9", "floors", "peer", "its p50 [µs]", "ratio")
    title = f"floor {result['floor_us']:.1f} µs; {_where(result['machine'])}"
    table = Grid(*headings, "same answer", "limit", " ", "goal", "", words=WORDS, spare=SPARE, title=title)
    for row in result["rows"]:
        table.add(
            row["section"],
            row["what"] + _unsolved(row["unsolved"]),
            _number(row["contacts"]),
            *(_number(row["us"][name]) for name in ("p50", "p99", "p999")),
            _number(row["floor_ratio"]),
            "" if row["peer"] is None else row["peer"] + _unsolved(row["peer_unsolved"]),
            "" if row["peer_us"] is None else _number(row["peer_us"]["p50"]),
            _number(row["peer_ratio"]),
            {None: "", True: "yes", False: "no"}[row["agrees"]],
            "" if row["bar"] is None else f"{_number(row['bar'])} {row['of']}",
            mark(row["met"]),
            _number(row["goal"]),
            mark(row["goal_met"]),
        )
    show(table)
    show("floors: median / floor; ratio: median / peer's median; limit, goal: largest allowed value", style="dim")
    differing = [row for row in result["rows"] if row["agrees"] is False]
    if differing:
        differences = ("answers that differ", "peer", "difference")
        table = Grid(*differences, words=differences)
        for row in differing:
            table.add(row["what"], row["peer"], row["difference"])
        show(table)


def _unsolved(count: int | None) -> str:
    return f" ({count} unsolved)" if count else ""


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
