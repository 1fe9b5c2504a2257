"""The report of a run is self-contained and describes the run, whole or cut off."""

from __future__ import annotations

import base64
import contextlib
import re
import shlex
from html.parser import HTMLParser
from xml.etree import ElementTree

import msgspec
import numpy as np
import pytest

from idcontrol import cli, running
from idcontrol.configuration import build, keys
from idcontrol.entries import entry_points, load_experiment
from idcontrol.errors import InputError, UnknownName
from idcontrol.record import metrics
from idcontrol.record.quantities import QUANTITIES
from idcontrol.record.recording import Recorder, jsonable, load
from idcontrol.show import figures
from idcontrol.show.report import command, plain, report, table
from tests import walks

TITLES = ["The run at a glance", "Path", "Joints", "Torques", "Contact forces", "Feet and gait"]


class Page(HTMLParser):
    """Collects the text, the images and whatever else a browser would fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.images: dict[str, str] = {}
        self.fetched: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "img":
            self.images[given["alt"]] = given["src"]
        self.fetched += [given[name] for name in ("src", "href") if given.get(name)]

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    """A recorded walk, its report and the metrics that it should show."""
    data = walks.arrays(3.0)
    data["status"][100] = 2
    got = metrics.locomotion(data, walks.LAYOUT, 3.0)
    goals = {"q_err_rad": 0.004, "dtau_max_nm_s": 10.0, "waypoints_reached": 1, "completed": True}
    folder = walks.record(tmp_path_factory.mktemp("walk") / "run", data=data, metrics=got, goals=goals)
    return folder, Page(report(folder).read_text(encoding="utf-8")), got


def test_the_page_needs_nothing_from_outside(walk):
    _, page, _ = walk
    assert page.fetched
    assert all(source.startswith("data:image/svg+xml;base64,") for source in page.fetched)
    for source in page.images.values():
        image = base64.b64decode(source.partition(",")[2]).decode()
        links = re.findall(r'href="([^"]*)"|url\(([^)]*)\)', image)
        assert all(link.startswith("#") for pair in links for link in pair if link)


def test_every_figure_is_there_and_is_a_drawing(walk):
    _, page, _ = walk
    assert list(page.images) == TITLES
    for source in page.images.values():
        root = ElementTree.fromstring(base64.b64decode(source.partition(",")[2]))
        assert len(root.findall(".//{http://www.w3.org/2000/svg}path")) > 20


def test_the_page_tells_how_the_run_ended_and_its_numbers(walk):
    _, page, got = walk
    assert "trot · id-coulomb-qp on coulomb-lcp · links · µ = inf" in page.text
    assert "completed" in page.text
    for quantity in QUANTITIES:
        if quantity.of(got) is not None:
            assert f"{quantity.label} {quantity.text(quantity.of(got))} {quantity.unit}".strip() in page.text


def test_goals_stand_beside_the_numbers_with_the_right_verdict(walk):
    _, page, _ = walk
    for words in ("≤ 4 ✓", "≤ 10 ✗", "≥ 1 ✓", "yes yes ✓"):
        assert words in page.text


def test_a_goal_is_met_at_its_bound_and_missed_without_a_number():
    rows = {
        row.label: row
        for rows in table({"q_err_rad": 0.004}, {"q_err_rad": 0.004, "slip_m_s": 1}).values()
        for row in rows
    }
    assert rows["joint position error, mean"].met is True
    assert rows["slip of stance feet, mean"].met is False
    assert rows["slip of stance feet, mean"].value == "–"


def test_the_command_of_the_page_says_what_differs_from_the_preset(walk):
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
    """Numbers halved, texts and switches as they were: tables within tables and infinities among them."""
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


def test_the_command_of_a_page_repeats_the_run(tmp_path, capsys):
    changes = {"friction.cap": np.inf, "inverse.landing.settle_s": 0.1, "start_spread_rad": 1e-3}
    first = running.run("trot", controller="pid", duration_s=0.01, mu=np.inf, out=tmp_path / "first", **changes)
    words = shlex.split(command(first))
    assert cli.main([*words[1:], "--out", str(tmp_path / "again"), "--json"]) == 0
    for name in ("config.json", "arrays.h5"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "first" / name).read_bytes()


def test_equal_runs_give_equal_pages(walk, tmp_path):
    folder, _, got = walk
    data = load(folder).arrays
    goals = load(folder).meta["goals"]
    twin = walks.record(tmp_path / "run", data=data, metrics=got, goals=goals)
    assert (folder / "report.html").read_bytes() == report(twin).read_bytes()


def test_a_run_that_was_stopped_gets_its_page_too(tmp_path):
    page = Page(report(walks.record(tmp_path / "run", 1.2)).read_text(encoding="utf-8"))
    assert "stopped before its end" in page.text
    assert "1200 rows were kept" in page.text
    assert list(page.images) == TITLES
    assert "joint position error, mean" in page.text


@pytest.mark.parametrize("rows", [0, 1, 2, 3])
def test_however_few_rows_there_are_there_is_a_page(tmp_path, rows):
    data = {name: values[:rows] for name, values in walks.arrays(0.5).items()}
    page = Page(report(walks.record(tmp_path / "run", data=data)).read_text(encoding="utf-8"))
    assert list(page.images) == (TITLES if rows >= 3 else [])


def test_a_run_without_predictions_or_waypoints_that_ends_in_nan_gets_its_page(tmp_path):
    data = walks.arrays(1.0, predicts=False)
    data["target"][:] = data["segment"][:] = np.nan
    for name, values in data.items():
        if name != "t":
            values[-20:] = np.nan
    page = Page(report(walks.record(tmp_path / "run", data=data)).read_text(encoding="utf-8"))
    assert list(page.images) == TITLES
    assert "predicted contact force, mean" not in page.text


def test_a_fall_is_the_first_thing_that_the_page_says(tmp_path):
    with Recorder(tmp_path / "run", {"x": ()}, {}, {}) as recorder:
        recorder.close({"completed": False, "fell_at_s": 0.8})
    page = Page(report(tmp_path / "run").read_text(encoding="utf-8"))
    assert re.search(r"run fell at 0.80 s Task completed no", page.text)


def test_a_record_of_something_else_gets_a_page_without_figures(tmp_path):
    with Recorder(tmp_path / "run", {"x": ()}, {}, {"experiment": "pendulum"}, config={"seed": 1}) as recorder:
        recorder.append(x=1.0)
        recorder.close({"completed": True, "wall_s": 0.5})
    page = Page(report(tmp_path / "run").read_text(encoding="utf-8"))
    assert page.images == {}
    assert "pendulum" in page.text
    assert "wall time 0.5 s" in page.text


def test_words_of_a_record_cannot_become_markup(tmp_path):
    meta = {"experiment": "<script>alert(1)</script>"}
    with Recorder(tmp_path / "run", {"x": ()}, {}, meta, config={"robot": "<b>"}) as recorder:
        recorder.close({})
    text = report(tmp_path / "run").read_text(encoding="utf-8")
    assert "<script>" not in text
    assert "<b>" not in text


def test_a_folder_that_is_no_run_gets_no_page(tmp_path):
    with pytest.raises(InputError, match="is empty"):
        report(tmp_path)


@pytest.mark.slow
def test_the_page_of_a_long_run_is_not_much_larger():
    """Figures show gait periods or a fixed number of points: 20 times the duration, less than 1.5 times the size."""
    short, long = (figures.locomotion(walks.arrays(s), walks.LAYOUT) for s in (3.0, 60.0))
    assert sum(len(p.source) for p in long) < 1.5 * sum(len(p.source) for p in short)


def test_the_close_up_walks_straight_if_the_run_ever_does():
    data = walks.arrays(5.0)
    rows = figures._close_up_rows(data, walks.LAYOUT)
    assert rows.stop - rows.start == 1200  # four periods of 0.3 s
    assert data["t"][rows.start] >= 1.0
    assert not data["turning"][rows].any()
    data["turning"][:] = 1.0
    assert figures._close_up_rows(data, walks.LAYOUT) == slice(3800, 5000)


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(88289.0, 3, "88300"), (88289.0, 4, "88290"), (1.43e6, 3, "1.43e+06"), (-1650.0, 3, "-1650"), (3e-7, 3, "3e-07"),
     (float("inf"), 3, "inf"), (0.0, 3, "0"), (999999.0, 3, "1000000")],
)  # fmt: skip
def test_numbers_below_a_million_have_no_exponent(value, digits, text):
    assert plain(value, digits) == text
