"""``idcontrol doctor``: whether this machine can run idcontrol, and how well."""

from __future__ import annotations

import dataclasses
import json

import click

from idcontrol.cli.console import DONE, TASK_FAILED, console, say

_STYLE = {"fine": "green", "advice": "yellow", "broken": "bold red"}


@click.command("doctor", short_help="Say what this machine lacks, and what mends it.")
@click.option("--full", is_flag=True, help="Measure physics, too; the first time this compiles kernels for minutes.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(full: bool, as_json: bool) -> int:
    """Say what this machine has, what it lacks and the command that mends it; exit status 1 if something is broken."""
    from idcontrol.trust.doctor import examine

    findings = list(examine((lambda line: None) if as_json else (lambda line: click.echo(line, err=True)), full=full))
    broken = [finding for finding in findings if finding.verdict == "broken"]
    if as_json:
        rows = [dataclasses.asdict(finding) for finding in findings]
        click.echo(json.dumps({"fit": not broken, "findings": rows}, allow_nan=False))
    else:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, show_header=False)
        topic = ""
        for finding in findings:
            table.add_row(
                Text("" if finding.topic == topic else finding.topic, style="bold"),
                Text(finding.name, style=_STYLE[finding.verdict]),
                Text(finding.found),
            )
            topic = finding.topic
        screen = console()
        screen.print(table)
        for finding in findings:
            if finding.remedy:
                screen.print(
                    Text(f"{finding.topic}, {finding.name}:"), Text(finding.remedy, style="bold"), soft_wrap=True
                )
    if not broken:
        return DONE
    return say("; ".join(f"{finding.name}: {finding.found}" for finding in broken), TASK_FAILED)
