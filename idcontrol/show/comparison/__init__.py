"""The page of a comparison: one HTML file, with links to the pages of its runs."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from idcontrol.record.drawing import Picture, recorded
from idcontrol.record.quantities import QUANTITIES
from idcontrol.record.recording import load as load_run
from idcontrol.show.comparison import figures
from idcontrol.show.comparison.overlay import overlay
from idcontrol.show.report import as_texts, number, render, write_page
from idcontrol.show.report import report as report_run
from idcontrol.sweeps.record import NOT_RUN, Comparison, RunOutcome, coinciding, varied_keys
from idcontrol.sweeps.study import Study, Table

DRAWN = 12
"""Maximum number of runs with curves on the page. If more runs have ended, only the first of them have curves, and no
run gets figures or a page of its own."""

MATTER = (
    "q_err_rad", "qd_err_rad_s", "dtau_mean_nm_s", "dtau_max_nm_s", "force_err_rel", "com_path_err_m", "slip_m_s",
    "step_us.p50",
)  # fmt: skip
"""Quantities in the table of all runs, if they differ between runs; a folded table has all differing quantities."""


def report(comparison: Comparison, study: Study | None) -> Path:
    """Write ``report.html`` into the comparison's folder, and a page for each run if there are few; return its path.

    Args:
        comparison: The comparison.
        study: Study of the comparison; None without a study.

    Raises:
        InputError: A record is unreadable, or the folder is not writable.
    """
    outcomes = comparison.outcomes
    done = sum(o.done for o in outcomes)
    general = figures.pictures(outcomes, study.grouping if study else None)
    text = render(
        "comparison.html.j2",
        note="",
        title=" · ".join(word for word in (comparison.experiment, comparison.study, "comparison") if word),
        summary=study.summary if study else None,
        state=(
            f"{done} of {len(outcomes)} runs completed their task" + _and_waiting(outcomes),
            "good" if done == len(outcomes) else "warn",
        ),
        tables=[_as_text(table) for table in (study.tables(outcomes) if study else ())],
        rows=_as_text(all_rows(outcomes, MATTER)) | {"links": _links(comparison)},
        more=_as_text(all_rows(outcomes)),
        plots=overlay([(_which(o, outcomes), o) for o in _ended(outcomes)[:DRAWN]]),
        pictures=[*(study.pictures(outcomes) if study else ()), *general, *_of_the_runs(outcomes)],
        command=shlex.join(comparison.command),
        settings=_shared_settings(outcomes),
        versions=comparison.versions,
    )
    return write_page(comparison.folder / "report.html", text)


def all_rows(outcomes: Sequence[RunOutcome], of: Sequence[str] | None = None) -> Table:
    """Tabulate all runs: the varied settings, the metrics that differ between runs, and the reasons of failures.

    Metrics of solvers, step times other than the median, and metrics that the column ``outcome`` repeats are left out.
    If only one run has ended, all its other metrics count as different.

    Args:
        outcomes: The runs.
        of: Keys of the metrics to show. If it is None, or none of these metrics differs, all metrics that differ are
            shown.
    """
    keys = varied_keys([o.row for o in outcomes])
    ended = [o.metrics for o in outcomes if o.metrics is not None]
    shown = [
        q
        for q in QUANTITIES
        if q.topic != "Solvers"
        and q.key not in ("completed", "fell_at_s", "step_us.p99", "step_us.p999", "step_us.max")
        and (len({q.of(metrics) for metrics in ended}) > 1 or (len(ended) == 1 and q.of(ended[0]) is not None))
    ]
    shown = [q for q in shown if q.key in (of or ())] or shown
    failed = [o for o in outcomes if not o.done and o.reason != NOT_RUN]
    waiting = _and_waiting(outcomes)
    if failed or waiting:
        counts = f"{len(outcomes)} runs, of which {len(failed)} did not do their task{waiting}."
    else:
        counts = f"All {len(outcomes)} runs completed their task."
        counts += " Columns in which they agree are only in table.csv." if len(ended) > 1 else ""
    return Table(
        name="rows",
        title="All runs",
        sentence=f"{counts} {coinciding(outcomes)}".strip(),
        header=(*keys, "outcome", *(f"{q.label} [{q.unit}]" if q.unit else q.label for q in shown)),
        rows=tuple(
            (
                *(o.setting(key) for key in keys),
                o.reason or "done",
                *(None if q.of(o.metrics or {}) is None else q.text(q.of(o.metrics or {})) for q in shown),
            )
            for o in outcomes
        ),
    )


def _and_waiting(outcomes: Sequence[RunOutcome]) -> str:
    """Return words about the number of missing runs, for the end of a sentence; empty if none is missing."""
    waiting = sum(o.reason == NOT_RUN for o in outcomes)
    return f", {waiting} not run yet" if waiting else ""


def _as_text(table: Table) -> dict[str, Any]:
    return {
        "title": table.title,
        "sentence": table.sentence,
        "header": table.header,
        "rows": [[value if isinstance(value, str) else number(value) for value in row] for row in table.rows],
    }


def _of_the_runs(outcomes: Sequence[RunOutcome]) -> list[Picture]:
    """Return the figures that the runs have drawn, if there are few runs."""
    ended = _ended(outcomes)
    if len(ended) > DRAWN:
        return []
    drawn = []
    for o in ended:
        for picture in recorded(o.folder, load_run(o.folder).meta):
            drawn.append(Picture(f"{picture.title} ({_which(o, outcomes)})", picture.sentence, picture.source))
    return drawn


def _ended(outcomes: Sequence[RunOutcome]) -> list[RunOutcome]:
    return [o for o in outcomes if o.metrics is not None]


def _which(outcome: RunOutcome, outcomes: Sequence[RunOutcome]) -> str:
    """Return the varied settings that tell a run from others: its controller, and values that few runs share.

    At most half of the runs share such a value. A run without such settings is called by its name.
    """
    settings = {
        key: outcome.setting(key)
        for key in varied_keys([o.row for o in outcomes])
        if key == "controller" or 2 * sum(o.setting(key) == outcome.setting(key) for o in outcomes) <= len(outcomes)
    }
    words = [str(value) if key == "controller" else f"{key} {value}" for key, value in settings.items()]
    return ", ".join(words) or outcome.row.name


def _links(comparison: Comparison) -> list[str | None]:
    """Return the address of each run's page, relative to the comparison's page; None for a run without a page.

    If at most `DRAWN` runs have ended, their pages are written first.
    """
    few = len(_ended(comparison.outcomes)) <= DRAWN
    links: list[str | None] = []
    for o in comparison.outcomes:
        if few and o.metrics is not None:
            report_run(o.folder)
        page = o.folder / "report.html"
        links.append(page.relative_to(comparison.folder).as_posix() if page.is_file() else None)
    return links


def _shared_settings(outcomes: Sequence[RunOutcome]) -> list[tuple[str, str]]:
    first, *others = (as_texts(o.row.config) for o in outcomes)
    return [(key, value) for key, value in first.items() if all(other.get(key) == value for other in others)]
