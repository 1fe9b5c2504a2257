"""``idcontrol trust``: why one may believe a torque, measured anew."""

from __future__ import annotations

import json

import click

from idcontrol.cli.console import DONE, TASK_FAILED, console, progress_bar, say


@click.command("trust")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(as_json: bool) -> int:
    """Measure what physics decides and print it: claim, figure, limit, tests; exit status 1 if a claim fails."""
    from idcontrol import trust
    from idcontrol.recording import jsonable

    verdicts = []
    with progress_bar("trust", as_json) as progress:
        for claim in trust.CLAIMS:
            verdicts.append(trust.weigh(claim))
            progress(len(verdicts) / len(trust.CLAIMS))
    failed = [verdict for verdict in verdicts if not verdict.holds]
    if as_json:
        rows = [
            {
                "claim": verdict.claim.statement,
                "figure": verdict.figure,
                "limit": verdict.claim.limit,
                "unit": verdict.claim.unit,
                "holds": verdict.holds,
                "fault": verdict.fault,
                "tests": verdict.claim.test,
            }
            for verdict in verdicts
        ]
        click.echo(json.dumps(jsonable({"holds": not failed, "claims": rows}), allow_nan=False))
    else:
        from rich.table import Table
        from rich.text import Text

        table = Table("claim", "missed by", "limit", "unit", "more in", box=None, header_style="dim")
        for verdict in verdicts:
            claim = verdict.claim
            figure = Text(verdict.fault or f"{verdict.figure:.1e}", style="green" if verdict.holds else "bold red")
            table.add_row(Text(claim.statement), figure, f"{claim.limit:.0e}", claim.unit, claim.test)
        console().print(table)
    if not failed:
        return DONE
    return say("does not hold: " + "; ".join(verdict.claim.statement for verdict in failed), TASK_FAILED)
