"""Tables that pages take from the project itself: its defaults, and what its commands measured (``make figures``)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphinx.util.docutils import SphinxDirective

from idcontrol.loop.safety import NAMES, Policy

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx

DATA = Path(__file__).parent / "data"


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def policy() -> str:
    """What is done about each fault by default (`idcontrol.loop.safety.Policy`)."""
    meaning = {name: (fault.__doc__ or "") for fault, name in NAMES.items()}
    rules = Policy()
    rows = []
    for name in meaning:
        rule = getattr(rules, name)
        rows.append([f"`{name}`", str(rule.tolerate), rule.then])
    return markdown(["fault", "ticks survived", "then"], rows)


def trust() -> str:
    """What ``idcontrol trust --json`` said, a table a part of the library."""
    claims = json.loads((DATA / "trust.json").read_text(encoding="utf-8"))["claims"]
    parts = []
    for part in dict.fromkeys(claim["part"] for claim in claims):
        rows = [_claim_row(claim) for claim in claims if claim["part"] == part]
        parts += [f"## {part.capitalize()}", markdown(["claim", "missed by", "limit", "tests"], rows)]
    return "\n\n".join(parts)


def _claim_row(claim: dict[str, Any]) -> list[str]:
    unit = f" {claim['unit']}" if claim["unit"] else ""
    tests = "<br>".join(f"`{test.rpartition('/')[2].replace('::', ' ').replace('_', ' ')}`" for test in claim["tests"])
    return [claim["claim"], f"{claim['figure']:.1e}{unit}", f"{claim['limit']:.0e}{unit}", tests]


def bench() -> str:
    """What ``idcontrol bench all --json`` said, a table a section."""
    said = json.loads((DATA / "bench.json").read_text(encoding="utf-8"))
    sections = list(dict.fromkeys(row["section"] for row in said["rows"]))
    header = ["job", "contacts", "p50 [µs]", "p99 [µs]", "floors", "peer", "its p50 [µs]", "ours / its"]
    parts = []
    for section in sections:
        rows = [_bench_row(row) for row in said["rows"] if row["section"] == section]
        parts += [f"## {section.capitalize()}", markdown(header, rows)]
    return "\n\n".join(parts)


def _bench_row(row: dict[str, Any]) -> list[str]:
    def number(value: float | None, digits: int = 1) -> str:
        return "" if value is None else f"{value:.{digits}f}"

    peer = row["peer_us"] or {"p50": None}
    return [
        row["what"],
        "" if row["contacts"] is None else str(row["contacts"]),
        number(row["us"]["p50"]),
        number(row["us"]["p99"]),
        number(row["floor_ratio"]),
        row["peer"] or "",
        number(peer["p50"]),
        number(row["peer_ratio"], 2),
    ]


def machine() -> str:
    """Where and when the times of `bench` were taken."""
    said = json.loads((DATA / "bench.json").read_text(encoding="utf-8"))
    found = said["machine"]
    return (
        f"Taken on {found['when'][:10]} at commit `{found['commit']}`: {found['processor']}, {found['cores']} cores, load "
        f"{found['load']:.1f}, Python {found['python']}. The floor was {said['floor_us']:.1f} µs."
    )


TABLES = {"policy": policy, "trust": trust, "bench": bench, "machine": machine}


class Table(SphinxDirective):
    """``{figures} NAME`` in a page."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The table, parsed as a part of the page."""
        return self.parse_text_to_nodes(TABLES[self.arguments[0]](), allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls first."""
    app.add_directive("figures", Table)
    return {"parallel_read_safe": True}
