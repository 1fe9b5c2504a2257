"""``idcontrol trust``: measure on this computer how well physical claims hold."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from idcontrol.cli.console import DONE, TASK_FAILED, Grid, print_json, say, show
from idcontrol.cli.options import FOLDER, JSON
from idcontrol.errors import install_command
from idcontrol.sweeps.progress import progress_bar

if TYPE_CHECKING:
    from rich.text import Text

    from idcontrol.bench.claims import Verdict


@click.command("trust", short_help="Check the physics against independent references.")
@click.option("--data", type=FOLDER, help="Folder with measured motions and public problems (reality.md).")
@JSON
def command(data: Path | None, as_json: bool) -> int:
    """Measure physical claims, and print each with its tests, error and limit. Exit status 1 if a claim fails.

    A claim that needs a missing extra is listed as not measured and does not fail.
    """
    from idcontrol.bench.claims import CLAIMS, weigh

    claims = dict(CLAIMS)
    if data is not None:
        from idcontrol.experiments import reality

        claims["reality"] = reality.claims(data)
    rows: list[tuple[str, Verdict]] = []
    total, began = sum(map(len, claims.values())), time.perf_counter()
    with progress_bar("trust", as_json) as progress:
        for part, of_part in claims.items():
            for claim in of_part:
                rows.append((part, weigh(claim)))
                progress(len(rows) / total)
    failed = [verdict for _, verdict in rows if not verdict.holds]
    if as_json:
        print_json({"holds": not failed, "claims": [{"part": part, **verdict.as_json()} for part, verdict in rows]})
    else:
        _show(rows, time.perf_counter() - began)
    if not failed:
        return DONE
    return say("does not hold: " + "; ".join(verdict.claim.statement for verdict in failed), TASK_FAILED)


def _show(rows: list[tuple[str, Verdict]], took_s: float) -> None:
    from rich.text import Text

    headings, last = ("", "claim, with its tests", "error", "limit", "unit"), ""
    table = Grid(*headings, words=headings)
    for part, verdict in rows:
        claim = verdict.claim
        table.add(
            Text("" if part == last else part, style="bold"),
            Text.assemble(claim.statement, *((f"\n  {test}", "dim") for test in claim.tests)),
            _figure(verdict),
            f"{claim.limit:.0e}" if claim.limit else "0",
            claim.unit,
        )
        last = part
    measured = [verdict.holds for _, verdict in rows if not verdict.lacks]
    lacking = sorted({verdict.lacks for _, verdict in rows if verdict.lacks})
    show(table, f"{sum(measured)} of {len(measured)} claims hold, {took_s:.0f} s")
    show(*(f"more with: {install_command(extra)}" for extra in lacking))


def _figure(verdict: Verdict) -> Text:
    """Return the measured error, or the reason why there is none."""
    from rich.text import Text

    if verdict.lacks:
        return Text(f"not measured: needs {verdict.lacks}", style="yellow")
    return Text(verdict.fault or f"{verdict.figure:.1e}", style="green" if verdict.holds else "bold red")
