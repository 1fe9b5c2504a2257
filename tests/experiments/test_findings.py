"""Named numbers with the paper's numbers: recorded, printed, and on the page."""

import json
from dataclasses import fields
from importlib.metadata import entry_points

import msgspec
import numpy as np
import pytest

from idcontrol.cli.run import show_metrics
from idcontrol.errors import InputError
from idcontrol.experiments import findings
from idcontrol.experiments.findings import Drawing, Finding, Results, Series, axes, save
from idcontrol.experiments.verdicts import AGREES, DERIVED, UNEXPLAINED
from idcontrol.record.recording import load
from idcontrol.show.report import report


class Config(msgspec.Struct, frozen=True):
    mu: float = 0.125


FINDINGS = (
    Finding("slide_m", 0.6779, paper=0.6773, holds=True, note="closed form"),
    Finding("creep_m_s", None),
    Finding("steps", 1000),
)


def drawing(title):
    with axes() as plot:
        plot.plot([0.0, 1.0])
    return Drawing(title, plot.figure)


def _save(out, findings=FINDINGS, **more):
    return save(out, "incline", Config(), Results(findings=findings, **more))


def test_results_are_in_the_record_with_the_papers_number_and_the_check(tmp_path):
    _save(tmp_path, series={"t": Series(np.arange(3.0), "s")}, drawings=[drawing("Slide")])
    run = load(tmp_path)
    assert run.complete
    assert run.metrics["slide_m"] == 0.6779
    assert run.metrics["paper"] == {"slide_m": 0.6773}
    assert run.metrics["checks"] == {"slide_m": True}
    assert run.metrics["verdicts"] == {"slide_m": AGREES}
    assert run.metrics["completed"] is True
    np.testing.assert_array_equal(run.arrays["t"], [0.0, 1.0, 2.0])


@pytest.mark.parametrize(
    ("finding", "verdict"),
    [
        (Finding("a", 1.2, paper=1.0), AGREES),
        (Finding("a", 1.26, paper=1.0, holds=True), UNEXPLAINED),
        (
            Finding("a", 1.5, paper=0.0, holds=True, derivation="theory/constraint.md"),
            f"{DERIVED} (theory/constraint.md)",
        ),
        (Finding("a", None, paper=1.0), UNEXPLAINED),
        (Finding("a", 1e-12, paper="exact", holds=True), AGREES),
        (Finding("a", 1e-3, paper="exact", holds=False), UNEXPLAINED),
        (Finding("a", 0.9, paper="dead", holds=True, derivation="errata.md"), AGREES),
        (Finding("a", 0.1, paper="dead", holds=False, derivation="errata.md"), f"{DERIVED} (errata.md)"),
        (Finding("a", 17, paper="2^6 bases"), None),
        (Finding("a", 1.0, holds=True), None),
    ],
)
def test_a_number_beside_the_papers_has_one_of_three_verdicts(finding, verdict):
    assert finding.verdict == verdict


ROWS = {
    "slide_*": {"note": "any"},
    "slide_b*_m": {"paper": 2.0, "source": "Fig. 9", "note": "of b"},
    "slide_box_m": {"note": "own"},
}


@pytest.mark.parametrize(
    ("finding", "described"),
    [
        (Finding("slide_box_m", 1.0), Finding("slide_box_m", 1.0, unit="m", note="own")),
        (Finding("slide_a", 1.0), Finding("slide_a", 1.0, note="any")),
        (Finding("slide_b1_m", 1.0), Finding("slide_b1_m", 1.0, paper=2.0, source="Fig. 9", unit="m", note="of b")),
        (
            Finding("slide_b1_m", 1.0, paper=3.0),
            Finding("slide_b1_m", 1.0, None, None, True, 3.0, "Fig. 9", "", "m", "of b"),
        ),
        (Finding("lift", 1.0), Finding("lift", 1.0)),
    ],
)
def test_a_finding_is_completed_from_the_best_matching_row(finding, described):
    assert finding.described(ROWS) == described


def test_a_number_for_other_settings_is_not_put_beside_the_papers():
    assert Finding("slide_b_m", 1.0, beside=False).described(ROWS).verdict is None


@pytest.mark.parametrize("name", sorted(entry_points(group="idcontrol.experiments").names))
def test_each_number_in_the_table_of_an_experiment_has_its_place(name):
    rows = dict(findings.table(name))
    assert all(isinstance(sentence, str) for sentence in rows.pop("figures", {}).values())
    names = {field.name for field in fields(Finding)}
    assert all(set(row) <= names and ("paper" not in row or "source" in row) for row in rows.values())


def test_one_check_that_fails_fails_the_run(tmp_path):
    assert not _save(tmp_path, [*FINDINGS, Finding("sticks", False, holds=False)])["completed"]


def test_the_page_shows_each_number_its_note_and_the_figures(tmp_path):
    _save(tmp_path, drawings=[drawing("Distance of the box"), drawing("It slides <down>")])
    page = report(tmp_path).read_text()
    for words in (
        "0.6779",
        "0.6773",
        "closed form",
        "It slides &lt;down&gt;",
        "Lines of one friction",
        "data:image/svg+xml",
    ):
        assert words in page


def test_a_page_without_printed_numbers_has_no_column_for_them_and_repeats_no_quantity(tmp_path):
    saved = _save(tmp_path, [Finding("com_err_max_m", 0.25, holds=True), Finding("distance_m", 3.0)])
    assert saved["checks"] == {"com_err_max_m": True}
    page = report(tmp_path).read_text()
    assert '<td>centre of mass error, largest</td><td class="value">0.25</td><td class="unit">m</td>' in page
    assert '<th class="value">paper</th>' not in page
    assert page.count("<td>distance") == 1


def test_the_command_prints_both_numbers(tmp_path, capsys):
    show_metrics({**_save(tmp_path), "out": str(tmp_path)})
    out = capsys.readouterr().out
    for words in ("slide  ", "0.6779", "0.6773", "✓", "closed form"):
        assert words in out
    json.dumps(_save(tmp_path / "again"))  # plain data


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"findings": [FINDINGS[0], FINDINGS[0]]}, "slide_m"),
        ({"series": {"a": Series(np.zeros(2)), "b": Series(np.zeros(3))}}, "different lengths"),
    ],
)
def test_findings_that_cannot_be_recorded_are_refused(tmp_path, more, line):
    with pytest.raises(InputError, match=line):
        _save(tmp_path, **more)
