"""``idcontrol trust``: why one may believe a torque, measured anew."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from idcontrol.cli.console import DONE, TASK_FAILED, console, say
from idcontrol.errors import install_command
from idcontrol.program.progress import progress_bar

if TYPE_CHECKING:
    from rich.text import Text

    from idcontrol.trust import Verdict


@click.command("trust", short_help="Measure why one may believe a torque.")
@click.option(
    "--data", type=click.Path(path_type=Path), help="Folder with measured motions and public problems (reality.md)."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(data: Path | None, as_json: bool) -> int:
    """Measure what physics decides and print it: claim, figure, limit, test; exit status 1 if a claim fails.

    A claim that needs an extra which is not installed is listed as not measured and does not fail.
    """
    from idcontrol import trust
    from idcontrol.config.configuration import jsonable

    asked = dict(trust.CLAIMS)
    if data is not None:
        from idcontrol.experiments import reality

        asked["reality"] = reality.claims(data)
    rows: list[tuple[str, trust.Verdict]] = []
    total, began = sum(map(len, asked.values())), time.perf_counter()
    with progress_bar("trust", as_json) as progress:
        for part, claims in asked.items():
            for claim in claims:
                rows.append((part, trust.weigh(claim)))
                progress(len(rows) / total)
    verdicts = [verdict for _, verdict in rows]
    failed = [verdict for verdict in verdicts if not verdict.holds]
    if as_json:
        claims_told = [
            {
                "part": part,
                "claim": verdict.claim.statement,
                "figure": None if verdict.lacks else verdict.figure,
                "limit": verdict.claim.limit,
                "unit": verdict.claim.unit,
                "holds": None if verdict.lacks else verdict.holds,
                "fault": verdict.fault,
                "extra": verdict.claim.extra,
                "tests": verdict.claim.tests,
            }
            for part, verdict in rows
        ]
        click.echo(json.dumps(jsonable({"holds": not failed, "claims": claims_told}), allow_nan=False))
    else:
        from rich.table import Table
        from rich.text import Text

        table = Table(
            "", "claim, and the tests that hold it", "missed by", "limit", "unit", box=None, header_style="dim"
        )
        last = ""
        for part, verdict in rows:
            claim = verdict.claim
            table.add_row(
                Text("" if part == last else part, style="bold"),
                Text.assemble(claim.statement, *((f"\n  {test}", "dim") for test in claim.tests), overflow="fold"),
                _figure(verdict),
                f"{claim.limit:.0e}" if claim.limit else "0",
                claim.unit,
            )
            last = part
        screen = console()
        screen.print(table)
        weighed = [verdict for verdict in verdicts if not verdict.lacks]
        screen.print(f"{len(weighed) - len(failed)} of {len(weighed)} claims hold, {time.perf_counter() - began:.0f} s")
        for extra in sorted({verdict.lacks for verdict in verdicts if verdict.lacks}):
            screen.print(f"more with: {install_command(extra)}", markup=False)
    if not failed:
        return DONE
    return say("does not hold: " + "; ".join(verdict.claim.statement for verdict in failed), TASK_FAILED)


def _figure(verdict: Verdict) -> Text:
    """The measured figure, or the reason why there is none."""
    from rich.text import Text

    if verdict.lacks:
        return Text(f"not measured: needs {verdict.lacks}", style="yellow")
    return Text(verdict.fault or f"{verdict.figure:.1e}", style="green" if verdict.holds else "bold red")
