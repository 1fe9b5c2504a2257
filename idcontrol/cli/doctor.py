"""``idcontrol doctor``: check how well this computer can run idcontrol."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from idcontrol.cli.console import DONE, TASK_FAILED, Grid, print_json, say, show
from idcontrol.cli.options import JSON

if TYPE_CHECKING:
    from idcontrol.bench.doctor import Diagnosis

_STYLE = {"fine": "green", "advice": "yellow", "broken": "bold red"}


@click.command("doctor", short_help="Check this computer and list fixes.")
@click.option("--full", is_flag=True, help="Also check the physics; the first time this compiles kernels for minutes.")
@JSON
def command(full: bool, as_json: bool) -> int:
    """Check this computer; print a command that fixes or explains each problem.

    Exit status 1 if something is broken.
    """
    try:
        return _examine(full, as_json)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("packaging", "rich"):  # the doctor itself needs these two
            raise
        return say(f"{error}; try: pip install --force-reinstall {package}", TASK_FAILED)


def _examine(full: bool, as_json: bool) -> int:
    from idcontrol.bench.doctor import examine

    findings = list(examine((lambda line: None) if as_json else (lambda line: click.echo(line, err=True)), full=full))
    broken = [finding for finding in findings if finding.verdict == "broken"]
    if as_json:
        print_json({"fit": not broken, "findings": [dataclasses.asdict(finding) for finding in findings]})
    else:
        _show(findings)
    if not broken:
        return DONE
    return say("; ".join(f"{finding.name}: {finding.found}" for finding in broken), TASK_FAILED)


def _show(findings: list[Diagnosis]) -> None:
    from rich.text import Text

    headings, topic = ("topic", "name", "value"), ""
    table = Grid(*headings, words=headings, header=False)
    for finding in findings:
        name = Text(finding.name, style=_STYLE[finding.verdict])
        table.add(Text("" if finding.topic == topic else finding.topic, style="bold"), name, finding.found)
        topic = finding.topic
    show(table)
    for finding in findings:
        if finding.remedy:
            show(f"{finding.topic}, {finding.name}:", Text(finding.remedy, style="bold"))
