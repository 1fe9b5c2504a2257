"""The report of a run: one self-contained HTML page."""

import contextlib
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import msgspec

from idcontrol.config.changes import changes, spelled
from idcontrol.config.configuration import flat, jsonable
from idcontrol.errors import DISK_FULL, InputError
from idcontrol.record import figures, metrics
from idcontrol.record.drawing import Picture, recorded
from idcontrol.record.files import checked
from idcontrol.record.plots import Plots, code, data
from idcontrol.record.quantities import QUANTITIES, Quantity, words
from idcontrol.record.recording import Run, load

EVENTS = 200
"""Largest number of events listed on a page."""

_OPTIONS = {key: f"--{key}" for key in ("controller", "plant", "robot", "terrain", "mu", "seed")} | {
    "duration_s": "--duration",
    "rate_hz": "--rate",
}


class Facts(msgspec.Struct, frozen=True):
    """Optional fields of a run's `meta` that determine its page.

    Attributes:
        goals: Goals by key of a metric (`idcontrol.record.quantities`): upper bounds, or lower bounds if more is
            better.
        findings: Keys of the results to show beside the paper's values.
    """

    goals: dict[str, float | bool] | None = None
    findings: tuple[str, ...] | None = None


def report(folder: str | Path) -> Path:
    """Write ``report.html`` into the folder of a run, complete or not, and return the page's path.

    The page has plots if the run is a walk: its `meta` has a ``layout`` (`idcontrol.record.metrics.Layout`).

    Raises:
        InputError: The folder contains no readable run, or is not writable.
        OSError: The disk is full.
    """
    run = load(folder)
    layout = run.layout
    facts = checked(run.meta, Facts, f"{run.folder}: meta")
    own = recorded(run.folder, run.meta)
    values = run.metrics
    if values is None and layout is not None:
        duration = run.config.get("duration_s")
        values = metrics.locomotion(run.arrays, layout, duration if isinstance(duration, int | float) else 0.0)
    values = values or {}
    text = render(
        "report.html.j2",
        title=run.title,
        state=_state(run, values),
        note=run.note,
        topics=table(values, facts.goals or {}),
        limited=bool(facts.goals),
        findings=findings(values, facts.findings or ()),
        plots=None if layout is None else figures.locomotion(run.arrays, layout, run.events),
        pictures=own,
        events=run.events[:EVENTS],
        more_events=max(len(run.events) - EVENTS, 0),
        command=command(run),
        settings=as_texts(run.config).items(),
        versions=run.versions,
    )
    return write_page(run.folder / "report.html", text)


def render(template: str, *, plots: Plots | None, pictures: Sequence[Picture], **values: Any) -> str:
    """Return a page as HTML.

    Args:
        template: File name of a template in this package.
        plots: Interactive plots of the page; None for a page without plots.
        pictures: Pictures of the page.
        values: Further variables of the template.
    """
    beside = sum(len(picture.source) + len(picture.narrow) for picture in pictures)
    drawn = {"style": ""} if plots is None else {**code(), "data": data(plots, beside)}
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("idcontrol", "show"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template(template).render(plots=plots, pictures=pictures, **drawn, **values)


def write_page(path: Path, text: str) -> Path:
    """Write a page atomically and return `path`.

    Raises:
        InputError: The page cannot be written.
        OSError: The disk is full.
    """
    partial = path.with_name(path.name + ".part")
    try:
        partial.unlink(missing_ok=True)  # the old file may be a link to anywhere
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        if error.errno in DISK_FULL:
            raise
        mends = {FileNotFoundError: "give a folder that exists", PermissionError: "make the folder writable"}
        mend = mends.get(type(error), "choose another path")
        raise InputError(f"cannot write {path}: {error.strerror}; {mend}") from error
    return path


def table(values: Mapping[str, Any], goals: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of a table of metrics by topic, for metrics with a value in `values` or a goal in `goals`.

    Returns:
        Rows with `label`, `value`, `unit`, `goal` and `note` as text, and `met`: True if the goal is met, False if
        not, None without a goal or a value: some metrics need a longer run.
    """
    topics: dict[str, list[dict[str, Any]]] = {}
    notes = values.get("notes") or {}
    for quantity in QUANTITIES:
        value, goal = quantity.of(values), goals.get(quantity.key)
        if value is not None or goal is not None:
            row = {"label": quantity.label, "value": quantity.text(value), "unit": quantity.unit}
            row["note"] = notes.get(quantity.key, "")
            judged = {"goal": "", "met": None} if goal is None else _judged(quantity, value, goal)
            topics.setdefault(quantity.topic, []).append(row | judged)
    return topics


def findings(values: Mapping[str, Any], keys: Iterable[str]) -> list[dict[str, Any]]:
    """Return the rows of a table of results beside the paper's values (`idcontrol.experiments.findings`).

    A result that is already in `table` is repeated only if the paper has a value for it.

    Args:
        values: Metrics of the run.
        keys: Keys of the results.

    Returns:
        Rows with `label`, `value`, `unit`, `paper`, `verdict` and `note` as text, and `holds`: True if the result
        passed its check, False if not, None without a check.
    """
    paper, checks, verdicts, units, notes = (
        values.get(name) or {} for name in ("paper", "checks", "verdicts", "units", "notes")
    )
    return [
        {
            **dict(zip(("label", "unit"), words(key, units.get(key)), strict=True)),
            "value": number(values.get(key)),
            "paper": number(paper[key]) if key in paper else "",
            "holds": checks.get(key),
            "verdict": verdicts.get(key, ""),
            "note": notes.get(key, ""),
        }
        for key in keys
        if key in paper or not any(key == quantity.key for quantity in QUANTITIES)
    ]


def number(value: Any) -> str:
    """Return a result as a table shows it, floats with four significant digits; "–" for None."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return plain(value, 4) if isinstance(value, float) else str(value)


def plain(value: float, digits: int = 3) -> str:
    """Return `value` with `digits` significant digits; below 0.0001, and from a million on, with an exponent."""
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if "e+" in text and abs(value) < 1e6 else text


def command(run: Run) -> str:
    """Return the command line that repeats a run: its preset and the changed settings.

    If the experiment is not installed, its presets are unknown, and all settings are included.
    """
    name, preset = str(run.meta.get("experiment", "EXPERIMENT")), str(run.config.get("preset", "default"))
    words = ["idcontrol", "run", name] + (["--preset", preset] if "preset" in run.config else [])
    for key, value in changes(run.config, name, preset).items():
        option = key in _OPTIONS and value is not None
        words += [_OPTIONS[key], str(value)] if option else ["--set", f"{key}={spelled(value)}"]
    return shlex.join(words)


def _judged(quantity: Quantity, value: Any, goal: Any) -> dict[str, Any]:
    sign = "" if isinstance(goal, bool) else "≥ " if quantity.more_is_better else "≤ "
    return {"goal": sign + quantity.text(goal), "met": None if value is None else quantity.meets(value, goal)}


def _state(run: Run, values: Mapping[str, Any]) -> tuple[str, str]:
    """Return the outcome of the run in words, and its CSS class."""
    if values.get("fell_at_s") is not None:
        return f"fell at {values['fell_at_s']:.2f} s", "bad"
    if not run.complete:
        return "stopped before its end", "warn"
    return ("completed", "good") if values.get("completed", True) else ("not completed", "bad")


def as_texts(config: Mapping[str, Any]) -> dict[str, str]:
    """Return all settings by dotted key, values as JSON."""
    return {key: json.dumps(jsonable(value), ensure_ascii=False) for key, value in flat(config).items()}
