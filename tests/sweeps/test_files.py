"""The files of a comparison: its folder, its table, and the settings that distinguish its rows."""

import csv
import json
import math
import re
from pathlib import Path

import pytest

from idcontrol.errors import InputError
from idcontrol.record.recording import write_json
from idcontrol.sweeps import record
from idcontrol.sweeps.plan import PlannedRun
from idcontrol.sweeps.record import RunOutcome

HOW = {"experiment": "drift", "study": None, "command": ["idcontrol", "compare", "drift"]}


def planned(preset="default", name="row", **changes):
    config = {"controller": "pid", "mu": 0.8, "gain": {"kp": 1.0, "kd": 2.0}}
    for key, value in changes.items():
        config = config | ({"gain": config["gain"] | {key: value}} if key in config["gain"] else {key: value})
    return PlannedRun(
        experiment="drift", preset=preset, name=name, config=config,
        changes={f"gain.{key}" if key in config["gain"] else key: value for key, value in changes.items()},
    )  # fmt: skip


def ended(row, metrics, reason=None):
    return RunOutcome(row=row, metrics=metrics, reason=reason, folder=Path("c/runs") / row.name)


@pytest.mark.parametrize(
    ("rows", "varied"),
    [
        ([planned(mu=0.1, kp=3.0), planned(mu=0.8, kp=3.0)], ["mu"]),
        ([planned(mu=0.1, kp=3.0), planned(mu=0.8, kp=4.0)], ["mu", "gain.kp"]),
        ([planned(mu=0.1), planned(preset="paper", mu=0.1)], ["preset"]),
        ([planned(mu=0.8), planned()], ["mu"]),  # the second has the same by itself: nothing tells them apart
        ([planned(mu=0.1, controller="pid")], ["controller"]),
        ([planned()], ["preset"]),
    ],
)
def test_rows_are_distinguished_by_settings_with_different_values(rows, varied):
    assert record.varied_keys(rows) == varied


def test_settings_and_metrics_have_dotted_keys_and_are_none_if_absent():
    outcome = ended(planned(preset="paper", mu="inf", kp=3.0), {"solver": {"steps": 5}, "q_err_rad": 0.1})
    assert outcome.setting("preset") == "paper"
    assert outcome.setting("mu") == math.inf
    assert outcome.setting("gain.kp") == 3.0
    assert outcome.setting("mu.kp") is outcome.setting("gain.ki") is outcome.setting("robot") is None
    assert (outcome.metric("solver.steps"), outcome.metric("q_err_rad"), outcome.metric("q_err_rad.max")) == (
        5,
        0.1,
        None,
    )
    assert ended(planned(), None, "fell").metric("solver.steps") is None


def test_the_table_has_a_column_per_single_value_and_empty_cells_for_missing_values(tmp_path):
    done = ended(planned(name="a", kp=3.0, mu=math.inf), {"completed": True, "step_us": {"p50": 3.5}, "path": [1, 2]})
    failed = ended(planned(name="b", kp=4.0), None, "refused: too stiff")
    record.write_rows(tmp_path, [done, failed])
    with (tmp_path / "table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    common = {"experiment": "drift", "preset": "default", "controller": "pid"}
    assert rows == [
        common
        | {"mu": "inf", "gain.kp": "3.0", "completed": "True", "step_us.p50": "3.5", "reason": "", "out": "c/runs/a"}
        | {"verdict": "completed"},
        common
        | {"mu": "0.8", "gain.kp": "4.0", "completed": "False", "step_us.p50": "", "out": "c/runs/b"}
        | dict.fromkeys(("reason", "verdict"), "refused: too stiff"),
    ]
    paths = [row.get("path") for row in json.loads((tmp_path / "rows.json").read_text())["rows"]]
    assert paths == [[1, 2], None]


def test_files_of_killed_attempts_are_removed_and_done_runs_stay(tmp_path):
    runs = tmp_path / "c" / "runs"
    for name in (".row.1a2b", "row", "other.failed"):
        (runs / name).mkdir(parents=True)
        (runs / name / "arrays.h5").touch()
    (runs / ".row.1a2b.log").touch()
    with record.opened(tmp_path / "c", [planned()], **HOW) as loaded:
        assert loaded == runs
        assert sorted(path.name for path in runs.iterdir()) == ["other.failed", "row"]
        assert [o.row.name for o in record.load(tmp_path / "c").outcomes] == ["row"]
    assert (runs / "row" / "arrays.h5").exists()


def test_a_folder_takes_one_sweep_at_a_time(tmp_path):
    with (
        record.opened(tmp_path / "c", [planned()], **HOW),
        pytest.raises(InputError, match="another comparison is running in"),
        record.opened(tmp_path / "c", [planned()], **HOW),
    ):
        pass
    with record.opened(tmp_path / "c", [planned()], **HOW) as runs:
        assert runs.is_dir()


def test_a_new_empty_abandoned_or_comparison_folder_is_accepted(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "begun" / "runs").mkdir(parents=True)
    (tmp_path / "begun" / ".lock").touch()
    for name in ("new", "empty", "begun", "begun"):
        with record.opened(tmp_path / name, [planned()], **HOW):
            assert record.load(tmp_path / name).command == ("idcontrol", "compare", "drift")
    (tmp_path / "new" / "notes.txt").touch()  # beside a comparison anything may lie
    with record.opened(tmp_path / "new", [planned()], **HOW):
        pass
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch()
    with pytest.raises(InputError, match="is not a comparison"), record.opened(tmp_path / "mine", [], **HOW):
        pass
    with pytest.raises(InputError, match="cannot use"), record.opened(tmp_path / "mine" / "notes.txt", [], **HOW):
        pass


def test_a_comparison_of_a_newer_layout_is_refused_and_ours_names_its_versions(tmp_path):
    with record.opened(tmp_path, [planned(name="a"), planned(name="b")], **(HOW | {"study": "positions"})):
        pass
    loaded = record.load(str(tmp_path))
    assert (loaded.experiment, loaded.study, loaded.folder) == ("drift", "positions", tmp_path)
    assert loaded.versions["idcontrol"]
    assert [(o.row.name, o.reason, o.done) for o in loaded.outcomes] == [
        ("a", record.NOT_RUN, False), ("b", record.NOT_RUN, False),
    ]  # fmt: skip
    plain = json.loads((tmp_path / "comparison.json").read_text())
    write_json(tmp_path / "comparison.json", plain | {"schema": record.SCHEMA + 1})
    with pytest.raises(InputError, match="newer idcontrol"):
        record.load(tmp_path)
    for name in ("", "a/b", "/tmp"):
        write_json(tmp_path / "comparison.json", plain | {"rows": [plain["rows"][0] | {"name": name}]})
        with pytest.raises(InputError, match=re.escape(f"{name!r} is no name of a run")):
            record.load(tmp_path)
