"""Tables of the pages that are generated from defaults and from measurements (``make figures``)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reference import commands, markdown, settings
from sphinx.util.docutils import SphinxDirective

from idcontrol.loop.safety import MEANINGS, NAMES, Policy, Rule
from idcontrol.record.quantities import QUANTITIES

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx

DATA = Path(__file__).parent / "data"


def policy() -> str:
    """Return a table of the default reactions to faults (`idcontrol.loop.safety.Policy`)."""
    rows = []
    for fault, name in NAMES.items():
        rule: Rule = getattr(Policy(), name)
        rows.append([f"`{name}`", MEANINGS[fault], str(rule.tolerate), rule.then])
    return markdown(["fault", "meaning", "ticks in a row tolerated", "then"], rows)


def quantities() -> str:
    """Return the quantities shown for a run (`idcontrol.record.quantities`) that do not belong to a loop."""
    rows = [[quantity.label, f"`{quantity.key}`"] for quantity in QUANTITIES if quantity.topic != "Loop"]
    return markdown(["label", "key"], rows)


def trust() -> str:
    """Return the stored output of ``idcontrol trust --json``, as one table for each part of the library."""
    claims = json.loads((DATA / "trust.json").read_text(encoding="utf-8"))["claims"]
    parts = []
    for part in dict.fromkeys(claim["part"] for claim in claims):
        rows = [_claim_row(claim) for claim in claims if claim["part"] == part]
        parts += [f"## {part.capitalize()}", markdown(["claim", "missed by", "limit", "tests"], rows)]
    return "\n\n".join(parts)


def _claim_row(claim: dict[str, Any]) -> list[str]:
    figure, limit = (_power(value) + f" {claim['unit']}".rstrip() for value in (claim["figure"], claim["limit"]))
    files = dict.fromkeys(test.partition("::")[0] for test in claim["tests"])
    return [claim["claim"], figure, limit, "<br>".join(f"`{file}`" for file in files)]


def _power(value: float) -> str:
    """Return a small number as a formula, so that it stays on one line."""
    if value == 0.0:
        return "0"
    digits, _, exponent = f"{value:.1e}".partition("e")
    return f"${digits} \\cdot 10^{{{int(exponent)}}}$"


def bench() -> str:
    """Return the rows of the stored ``idcontrol bench all --json`` that have a goal, as a table for each section."""
    header = ["job", "contacts", "p50 [µs]", "measured", "limit, goal", "met"]
    sections: dict[str, list[list[str]]] = {}
    for row in _bench()["rows"]:
        if row["goal"] is not None:
            sections.setdefault(row["section"], []).append(_bench_row(row))
    return "\n\n".join(f"## {name.capitalize()}\n\n{markdown(header, rows)}" for name, rows in sections.items())


def _bench() -> dict[str, Any]:
    return json.loads((DATA / "bench.json").read_text(encoding="utf-8"))


def _bench_row(row: dict[str, Any]) -> list[str]:
    at = "p999" if row["what"].endswith("p99.9") else "p50"
    measured = {"floor": row["floor_ratio"], "peer": row["peer_ratio"]}.get(row["of"], row["us"][at])
    unit = {"floor": "floors", "peer": f"× {row['peer']}"}.get(row["of"], "µs")
    met = "goal" if row["goal_met"] else "limit" if row["met"] else "neither"
    contacts = "" if row["contacts"] is None else str(row["contacts"])
    figure, limit, goal = (f"{value:.3g}" for value in (measured, row["bar"], row["goal"]))
    return [row["what"], contacts, f"{row['us']['p50']:.1f}", f"{figure} {unit}", f"{limit}, {goal}", met]


def machine() -> str:
    """Return the computer and the commit on which `bench` measured its times."""
    bench = _bench()
    of = bench["machine"]
    return (
        f"Taken at commit `{of['commit']}`: {of['processor']}, {of['cores']} cores, "
        f"load {of['load']:.1f}, Python {of['python']}. "
        f"The median floor was {bench['floor_us']:.1f} µs in a walk of `{bench['robot']}`."
    )


def verdicts() -> str:
    """Return a table: how many values of each table and figure of the papers agree, differ, or were not compared.

    The data come from ``python -m idcontrol.experiments.papers``.
    """
    places = _papers()["places"]
    header = ["", "shows", "numbers", *KINDS.values(), "compared by"]
    sums = {kind: sum(place[kind] for place in places) for kind in ("printed", *KINDS)}
    rows = [["all papers", "", *(f"**{count}**" for count in sums.values()), ""]]
    for paper in dict.fromkeys(place["paper"] for place in places):
        of_it = [place for place in places if place["paper"] == paper]
        counts = [str(sum(place[kind] for place in of_it)) for kind in sums]
        rows.append([f"**{paper}**", "", *(f"**{count}**" for count in counts), ""])
        for place in of_it:
            how = [f"`{command}`" for command in place["command"].split("; ") if command]
            counts = ["" if place[kind] == 0 else str(place[kind]) for kind in sums]
            rows.append(
                [place["where"], place["what"], *counts, "; ".join(how + [place["lacks"]] * bool(place["lacks"]))]
            )
    return markdown(header, rows)


def differing() -> str:
    """Return the numbers that differ from a paper's: one table for each of its tables and figures.

    A row has the printed number, ours, and the reason.
    """
    said, parts = _papers()["judged"], []
    for source in (f"{place['paper']}, {place['where']}" for place in _papers()["places"]):
        rows = [
            [one["what"].replace("_", " "), _value(one["printed"]), _value(one["found"]), _linked(one["verdict"])]
            for one in said
            if one["source"] == source and not one["verdict"].startswith("agrees")
        ]
        if rows:
            parts += [f"### {source}", markdown(["", "printed", "here", "differs"], rows)]
    return "\n\n".join(parts)


KINDS = {
    "agree": "agree",
    "derived": "differ, as derived",
    "unexplained": "differ, unexplained",
    "not_compared": "not compared",
}


def _papers() -> dict[str, Any]:
    return json.loads((DATA / "verdicts.json").read_text(encoding="utf-8"))


def _value(value: Any) -> str:
    """Return the text of a cell; for a walk that missed its path, this is only the number of waypoints."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return "–" if value is None else re.sub(r": came [^;]*", "", str(value)).replace("|", "\\|")


def _linked(verdict: str) -> str:
    """Return the kind of a difference, such as "derived", with a link if the verdict names a page."""
    kind, bracket, page = verdict.removeprefix("differs, ").removeprefix("as ").partition(" (")
    return f"[{kind}]({page.removesuffix(')')})" if bracket else kind


TABLES = {
    "policy": policy,
    "quantities": quantities,
    "trust": trust,
    "bench": bench,
    "machine": machine,
    "verdicts": verdicts,
    "differing": differing,
    "settings": settings,
    "commands": commands,
}


class Table(SphinxDirective):
    """The directive ``{figures} NAME``: inserts the table NAME into a page."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the table as parsed nodes of the page."""
        self.env.note_reread()  # the table may change while the page does not
        return self.parse_text_to_nodes(TABLES[self.arguments[0]](), allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive; Sphinx calls this function when it loads this extension."""
    app.add_directive("figures", Table)
    return {"parallel_read_safe": True}
