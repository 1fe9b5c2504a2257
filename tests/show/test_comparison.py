"""Contents of the page and the figures of a comparison."""

import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from idcontrol.errors import InputError, install_command
from idcontrol.experiments.trot import experiment
from idcontrol.record.metrics import locomotion
from idcontrol.record.recording import load, write_json
from idcontrol.show import comparison as page
from idcontrol.show.comparison.overlay import overlay
from idcontrol.sweeps import record
from idcontrol.sweeps.plan import plan, product
from idcontrol.sweeps.study import Study, Table
from tests import walks


def walk(folder, seed, fell=None, predicts=True):
    """A finished run of a synthetic walk."""
    data = walks.arrays(1.2, seed=seed, predicts=predicts)
    metrics = locomotion(data, walks.LAYOUT, 1.2)
    if fell is not None:
        metrics |= {"completed": False, "fell_at_s": fell}
    walks.record(folder, data=data, metrics=metrics)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two controllers on two frictions; one of them fell once, one run failed, and one has not been run."""
    out = tmp_path_factory.mktemp("page") / "c"
    rows = plan(experiment, product({"mu": (0.1, 0.8), "controller": ("pid", "id-coulomb-qp", "id-sap")}))
    command = ["idcontrol", "compare", "trot", "--out", "with <space>"]
    with record.opened(out, rows, experiment="trot", study=None, command=command) as runs:
        for seed, row in enumerate(rows[:4]):
            walk(runs / row.name, seed, fell=0.7 if seed == 3 else None, predicts=row.config["controller"] != "pid")
        (runs / f"{rows[4].name}.failed").mkdir()
        (runs / f"{rows[4].name}.failed" / "reason.txt").write_text("a fault inside: <b>ouch</b>\n")
    return out


def test_a_comparison_is_read_back_as_it_was_planned(folder):
    comparison = record.load(folder)
    assert [o.reason for o in comparison.outcomes] == [
        None, None, None, "fell at 0.70 s", "a fault inside: <b>ouch</b>", "not run yet",
    ]  # fmt: skip
    assert [o.setting("mu") for o in comparison.outcomes] == [0.1, 0.1, 0.1, 0.8, 0.8, 0.8]
    assert comparison.outcomes[0].metric("step_us.p50") > 0


def test_a_frame_without_pandas_names_the_package_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match=re.escape(install_command("notebook"))):
        record.load(folder).frame()


class Page(HTMLParser):
    """Checks that tags are closed in order, and collects sources and links."""

    def __init__(self, text):
        super().__init__()
        self.open, self.sources = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "img", "source", "br", "input"):
            self.open.append(tag)
        self.sources += [value for key, value in attrs if key in ("src", "srcset", "href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def tables(outcomes):
    rows = ((1.23456,), (None,), (True,))
    return (Table(name="a", title="Shown", sentence="It says so.", header=("x",), rows=rows),)


def test_the_page_of_a_study_is_complete_links_only_pages_of_its_runs_and_escapes_text(folder):
    study = Study(experiment="trot", summary="what it is for", runs=(), tables=tables)
    text = page.report(record.load(folder), study).read_text()
    for word in ("what it is for", "Shown", "It says so.", "1.235", "–", "yes"):
        assert word in text
    parsed = Page(text)
    assert parsed.open == []
    assert parsed.sources
    links = {source for source in parsed.sources if not source.startswith("data:image/svg+xml;base64,")}
    assert links == {f"runs/{o.row.name}/report.html" for o in record.load(folder).outcomes if o.metrics is not None}
    assert all((folder / link).is_file() for link in links)
    assert len(text) < 5e6
    # narrow screens show each run as a list, whose labels stand in place of the heads of the columns
    assert set(re.findall('data-label="([^"]+)"', text)) == set(re.findall('<th class="cell">([^<]+)</th>', text))
    assert "3 of 6 runs completed their task, 1 not run yet" in text
    assert "6 runs, of which 2 did not do their task, 1 not run yet." in text
    assert "&lt;b&gt;ouch" in text
    assert "idcontrol compare trot --out &#39;with &lt;space&gt;&#39;" in text


def test_a_folder_that_is_no_comparison_is_refused_in_one_line(tmp_path):
    with pytest.raises(InputError, match="give the folder of a run or a comparison"):
        record.load(tmp_path)
    (tmp_path / "comparison.json").write_text('{"format": "other", "schema": 1}')
    with pytest.raises(InputError, match="another program or a newer idcontrol"):
        record.load(tmp_path)


@pytest.mark.parametrize(
    ("metrics", "reason"),
    [
        ({}, None),
        ({"completed": True, "checks": {"weight": False}}, None),
        ({"completed": False, "fell_at_s": 0.7, "checks": {"weight": False}}, "fell at 0.70 s"),
        ({"completed": False, "fell_at_s": None, "checks": {"weight": False, "rest": True}}, "missed: weight"),
        ({"completed": False, "checks": None}, "did not complete its task"),
    ],
)
def test_a_failed_run_reports_its_reason(tmp_path, metrics, reason):
    (run,) = plan(experiment, [{"controller": "pid"}])
    (tmp_path / run.name).mkdir()
    write_json(tmp_path / run.name / "metrics.json", metrics)
    outcome = record.outcome(run, tmp_path)
    assert (outcome.reason, outcome.done, outcome.metrics) == (reason, reason is None, metrics)


def test_overlaid_curves_open_on_two_strides_of_the_shortest_run(folder, tmp_path):
    first = record.load(folder).outcomes[0]
    walks.record(tmp_path / "short", data=walks.arrays(0.6))
    short = replace(first, folder=tmp_path / "short")
    begin, end = overlay([("one", first), ("short", short)]).window
    assert end - begin == pytest.approx(2.0 * walks.LAYOUT.gait_period_s)
    assert 0.5 * (begin + end) == pytest.approx(0.3)


def test_overlaid_curves_match_each_record(folder):
    outcomes = record.load(folder).outcomes[:2]
    plots = overlay([("one", outcomes[0]), ("other", outcomes[1])])
    torques, rates, forces, errors = plots.sections[0].panels
    largest = []
    for name, outcome, moment in zip(("one", "other"), outcomes, plots.moments, strict=True):
        arrays = load(outcome.folder).arrays
        assert {len(arrays["t"]), len(arrays["q"])} == {len(plots.t)}
        period_s = arrays["t"][1] - arrays["t"][0]
        joint, foot = walks.LAYOUT.joints[5], walks.LAYOUT.feet[2]

        def curve(panel, of):
            (comparison,) = [curve.values for curve in panel.curves if curve.of == of]
            return comparison

        rate = np.diff(arrays["tau"], axis=0) / period_s
        assert curve(rates, (joint, name))[0] == 0.0  # the previous torque is unknown
        np.testing.assert_allclose(curve(rates, (joint, name))[1:], rate[:, 5], rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(curve(forces, (foot, name)), arrays["force"][:, 2, 2])
        missed = np.abs(arrays["q"][:, list(walks.LAYOUT.joint_q)] - arrays["q_des"]).mean(axis=1)
        np.testing.assert_allclose(curve(errors, (name,)), 1e3 * missed, rtol=1e-12)
        each = np.abs(rate).max(axis=1)
        assert moment.t == arrays["t"][1 + each.argmax()]
        assert moment.what == f"largest torque rate of {name}: {each.max():.3g} N m/s"
        largest.append(each)
    np.testing.assert_allclose(plots.overview.values[1:], np.maximum(*largest), rtol=1e-6)
    assert plots.shown == ("one", "other", walks.LAYOUT.joints[0], walks.LAYOUT.feet[0])
    assert [len(panel.curves) for panel in (torques, rates, forces, errors)] == [24, 24, 8, 2]
