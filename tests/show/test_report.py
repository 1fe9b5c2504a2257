"""The report of a run is self-contained and describes the run, whole or cut off."""

import contextlib
import errno
import json
import os
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import numpy as np
import pytest

from idcontrol import cli
from idcontrol.config.configuration import build, jsonable, keys
from idcontrol.config.entries import entry_points, load_experiment
from idcontrol.errors import InputError, UnknownName
from idcontrol.record import metrics
from idcontrol.record.quantities import QUANTITIES
from idcontrol.record.recording import Recorder, load
from idcontrol.show.report import command, plain, report, table, write_page
from idcontrol.sweeps import running
from tests import walks
from tests.record.test_plots import unpacked

TITLES = ["The run at a glance", "Path", "Joints", "Torques", "Contact forces", "Feet and gait"]


class Page(HTMLParser):
    """Collects the text, the plots, the images and whatever else a browser would fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.images: list[str] = []
        self.fetched: list[str] = []
        self.words: list[str] = []
        self.choices: list[str] = []
        self.moments: dict[str, str] = {}
        self.scripts: dict[str, str] = {}
        self._section = self._within = self._value = None
        self.plots: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        arguments = dict(attrs)
        self._within, self._value = arguments.get("id") if tag == "script" else tag, arguments.get("value")
        self._section = arguments["id"] if tag == "section" else self._section
        self.images += [arguments["alt"]] if tag == "img" else []
        self.choices += [arguments["data-of"]] if "data-of" in arguments else []
        self.fetched += [arguments[name] for name in ("src", "href") if arguments.get(name)]

    def handle_data(self, data):
        if self._within == "option" and self._value:
            self.moments[self._value] = data
        elif self._within == "h2" and self._section:
            self.plots.append(data)
            self._section = None
        elif self._within in ("plots", "plots-time", "plots-numbers"):
            self.scripts[self._within] = data
        self.words.append(data)

    def handle_endtag(self, tag):
        self._within = None

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    @property
    def data(self):
        """The description of the plots, the times, and the columns of numbers, as the page's script finds them."""
        spec = json.loads(self.scripts["plots"])
        t = unpacked(self.scripts["plots-time"], "<f8")
        return spec, t, unpacked(self.scripts["plots-numbers"], "<f4").reshape(-1, len(t))


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    """A recorded walk, its report and the metrics that it should show."""
    data = walks.arrays(3.0)
    data["status"][100] = 2
    got = metrics.locomotion(data, walks.LAYOUT, 3.0)
    goals = {"q_err_rad": 0.004, "dtau_max_nm_s": 10.0, "waypoints_reached": 1, "completed": True}
    folder = walks.record(tmp_path_factory.mktemp("walk") / "run", data=data, metrics=got, goals=goals)
    return folder, Page(report(folder).read_text(encoding="utf-8")), got


def test_the_page_needs_nothing_from_outside_and_is_small(walk):
    folder, page, _ = walk
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert page.fetched == []
    # the author of the plots in a comment, and the name of SVG, which browsers do not fetch
    assert set(re.findall(r"https?://[\w./-]+", text)) == {
        "https://github.com/leeoniya/uPlot",
        "http://www.w3.org/2000/svg",
    }
    assert not re.search(r"@import|\bfetch\(|XMLHttpRequest|\bimport\(|WebSocket", text)
    assert len(text) < 5e6


def test_every_plot_is_there_and_holds_every_row_of_the_record(walk):
    folder, page, _ = walk
    assert page.plots == TITLES
    run, (spec, t, columns) = load(folder), page.data
    np.testing.assert_array_equal(t, run.arrays["t"])
    curves = {
        (panel["label"], curve["name"]): columns[curve["column"]]
        for section in spec["sections"]
        for panel in section["panels"]
        for curve in panel["curves"]
    }
    # 13 bits of the mantissa travel
    np.testing.assert_allclose(curves["τ [N m]", "LF_HAA"], run.arrays["tau"][:, 0], rtol=1e-4)
    np.testing.assert_allclose(curves["position [rad]", "LH_KFE"], run.arrays["q"][:, 15], rtol=1e-4)
    np.testing.assert_allclose(curves["position [rad]", "LH_KFE reference"], run.arrays["q_des"][:, 8], rtol=1e-4)
    np.testing.assert_allclose(curves["force [N]", "RF predicted"], run.arrays["force_pred"][:, 1, 2], rtol=1e-4)
    assert np.nanmax(curves["steps", "controller"]) == 2
    joints_and_feet = {*walks.LAYOUT.joints, *walks.LAYOUT.feet}
    tags = {name for s in spec["sections"] for p in s["panels"] for curve in p["curves"] for name in curve["of"]}
    assert tags == joints_and_feet
    assert set(page.choices) == joints_and_feet


def test_a_reader_can_jump_to_the_largest_torque_rate_and_to_faults(walk):
    folder, page, _ = walk
    arrays = load(folder).arrays
    row = 1 + np.abs(np.diff(arrays["tau"], axis=0)).max(axis=1).argmax()
    (t,) = (float(t) for t, words in page.moments.items() if "largest torque rate" in words)
    assert t == arrays["t"][row]
    assert "first step of the controller that was" in page.moments["0.1"]


def test_the_page_tells_how_the_run_ended_and_its_numbers(walk):
    _, page, got = walk
    assert "trot, id-coulomb-qp on coulomb-lcp, links, μ = inf" in page.text
    assert "completed" in page.text
    for quantity in QUANTITIES:
        if quantity.of(got) is not None:
            assert f"{quantity.label} {quantity.text(quantity.of(got))} {quantity.unit}".strip() in page.text


def test_goals_stand_beside_the_numbers_with_the_right_verdict(walk):
    _, page, _ = walk
    for words in ("≤ 4 ✓", "≤ 10 ✗", "≥ 1 ✓", "yes yes ✓", "✓ it holds, ✗ it does not"):
        assert words in page.text


def test_the_plots_open_on_two_strides_in_the_middle_of_the_run(walk):
    folder, page, _ = walk
    spec, t, _ = page.data
    begin, end = spec["window"]
    assert end - begin == pytest.approx(2.0 * load(folder).layout.gait_period_s)
    assert 0.5 * (begin + end) == t[len(t) // 2]


def test_a_goal_is_met_at_its_bound_and_not_judged_without_a_number():
    rows = {
        row["label"]: row
        for rows in table({"q_err_rad": 0.004}, {"q_err_rad": 0.004, "slip_m_s": 1}).values()
        for row in rows
    }
    assert rows["joint position error, mean"]["met"] is True
    assert rows["slip of stance feet, mean"]["met"] is None
    assert rows["slip of stance feet, mean"]["value"] == "–"


def test_a_note_stands_with_its_number():
    values = {"position_limit_steps": 3, "notes": {"position_limit_steps": "left_knee"}}
    rows = [row for rows in table(values, {}).values() for row in rows]
    assert [(row["value"], row["note"]) for row in rows] == [("3", "left_knee")]


def test_the_command_of_the_page_has_the_changed_settings(walk):
    folder, page, _ = walk
    assert command(load(folder)) in " ".join(page.words)
    words = shlex.split(command(load(folder)))
    assert words[:3] == ["idcontrol", "run", "trot"]
    options = dict(zip(words[3::2], words[4::2], strict=True))
    assert options == {"--mu": "inf", "--duration": "3.0", "--set": "start_spread_rad=0.001"}


def test_the_command_of_an_experiment_that_is_not_installed_says_every_setting(tmp_path):
    config = {"mu": np.inf, "law": {"limit": np.inf, "kind": None}, "seed": 3}
    with Recorder(tmp_path / "run", {"x": ()}, {}, {"experiment": "of somebody"}, config=config):
        pass
    words = shlex.split(command(load(tmp_path / "run")))
    assert words[:5] == ["idcontrol", "run", "of somebody", "--mu", "inf"]
    assert words[5:] == ["--set", "law.limit=inf", "--set", "law.kind=null", "--seed", "3"]


EXPERIMENTS = {name: load_experiment(name).presets for name in entry_points("idcontrol.experiments")}


@pytest.mark.parametrize(("name", "preset"), [(name, preset) for name in EXPERIMENTS for preset in EXPERIMENTS[name]])
def test_the_command_of_every_preset_is_understood_and_means_the_same(name, preset, tmp_path, monkeypatch):
    """All numbers are halved, texts and switches stay; presets contain nested tables and infinities."""
    start = EXPERIMENTS[name][preset]
    plain = jsonable(msgspec.to_builtins(start))
    numbers = [key for key in keys(start) if isinstance(value := at(plain, key), float) and 0.0 < value < np.inf]
    changed = start
    for key in numbers:
        with contextlib.suppress(InputError):  # some are bounded
            changed = build(changed, {key: at(plain, key) / 2.0})
    with contextlib.suppress(InputError, UnknownName):
        changed = build(changed, {"mu": np.inf})
    with Recorder(tmp_path / "run", {"x": ()}, {}, {"experiment": name}, config=msgspec.to_builtins(changed)):
        pass
    ran = []
    monkeypatch.setattr(running, "conduct", lambda experiment, config, out, progress: ran.append(config) or {})
    words = shlex.split(command(load(tmp_path / "run")))
    assert cli.main([*words[1:], "--out", str(tmp_path / "again"), "--json"]) == 0
    assert ran == [changed]


def at(values, key):
    for part in key.split("."):
        values = values.get(part) if isinstance(values, dict) else None
    return values


@pytest.mark.parametrize("rows", [0, 1, 2, 3])
def test_however_few_rows_there_are_there_is_a_page(tmp_path, rows):
    data = {name: values[:rows] for name, values in walks.arrays(0.5).items()}
    page = Page(report(walks.record(tmp_path / "run", data=data)).read_text(encoding="utf-8"))
    assert page.plots == (TITLES if rows >= 3 else [])


def test_a_run_without_predictions_or_waypoints_that_ends_in_nan_gets_its_page(tmp_path):
    data = walks.arrays(1.0, predicts=False)
    data["target"][:] = data["segment"][:] = np.nan
    for name, values in data.items():
        if name != "t":
            values[-20:] = np.nan
    page = Page(report(walks.record(tmp_path / "run", data=data)).read_text(encoding="utf-8"))
    assert page.plots == TITLES
    assert "predicted total normal force, mean" not in page.text
    assert "the line between two waypoints" not in page.text


def test_a_record_of_something_else_gets_a_page_without_figures(tmp_path):
    with Recorder(tmp_path / "run", {"x": ()}, {}, {"experiment": "pendulum"}, config={"seed": 1}) as recorder:
        recorder.append(x=1.0)
        recorder.close({"completed": True, "wall_s": 0.5})
    page = Page(report(tmp_path / "run").read_text(encoding="utf-8"))
    assert page.plots == page.images == []
    assert "pendulum" in page.text
    assert "wall time 0.5 s" in page.text


def test_words_of_a_record_cannot_become_markup(tmp_path):
    meta = {"experiment": "<script>alert(1)</script>"}
    with Recorder(tmp_path / "run", {"x": ()}, {}, meta, config={"robot": "<b>"}) as recorder:
        recorder.close({})
    text = report(tmp_path / "run").read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert "<b>" not in text


def test_a_folder_that_is_no_run_gets_no_page(tmp_path):
    with pytest.raises(InputError, match="is empty"):
        report(tmp_path)


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(88289.0, 3, "88300"), (88289.0, 4, "88290"), (1.43e6, 3, "1.43e+06"), (-1650.0, 3, "-1650"), (3e-7, 3, "3e-07"),
     (float("inf"), 3, "inf"), (0.0, 3, "0"), (999999.0, 3, "1000000")],
)  # fmt: skip
def test_numbers_below_a_million_have_no_exponent(value, digits, text):
    assert plain(value, digits) == text


@pytest.mark.parametrize(
    ("number", "kind", "line"),
    [
        (errno.ENOSPC, OSError, "No space left"),  # which commands answer with: free some space
        (errno.ENOENT, InputError, "give a folder that exists"),
        (errno.EACCES, InputError, "make the folder writable"),
    ],
)
def test_an_unwritable_page_is_reported_with_its_remedy(number, kind, line, tmp_path, monkeypatch):
    def refuse(*arguments, **options):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(OSError if kind is OSError else kind, match=line):
        write_page(tmp_path / "page.html", "a page")


def test_a_folder_in_place_of_a_page_is_reported_and_no_file_remains_beside_it(tmp_path):
    (tmp_path / "page.html").mkdir()
    with pytest.raises(InputError, match=r"page\.html: Is a directory; choose another path$"):
        write_page(tmp_path / "page.html", "a page")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
