"""The format's own library reads an exported run: the same numbers at the same times, by name."""

import dataclasses
import datetime
import json

import numpy as np
import pytest
from mcap.reader import make_reader

import idcontrol as idc
from idcontrol import cli
from idcontrol.record.columns import Column, columns_of
from idcontrol.record.mcap import export
from idcontrol.record.recording import Recorder, Run, load
from idcontrol.types import Event


def messages(path, topic):
    """Return times [ns] and values of the messages of a topic."""
    with path.open("rb") as file:
        pairs = [(m.log_time, json.loads(m.data)) for _, _, m in make_reader(file).iter_messages(topics=[topic])]
    return [time for time, _ in pairs], [value for _, value in pairs]


def since(run: Run) -> int:
    """Return the start of a run as Unix time [ns]; it is in the last minutes."""
    began = datetime.datetime.fromisoformat(run.began)
    assert abs(datetime.datetime.now(datetime.UTC) - began) < datetime.timedelta(minutes=30)
    return round(1e9 * began.timestamp())


def at(value, name):
    """Return the number with a name of one or two words."""
    for word in (name,) if isinstance(name, str) else name:
        value = value[word]
    return np.nan if value is None else value


def names(walk: Run, channel: str) -> list[Column]:
    return list(columns_of(channel, walk.arrays[channel].shape[1:], "", walk.layout))


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    return idc.run("trot", duration=0.05, out=tmp_path_factory.mktemp("walk") / "run")


def test_every_number_of_a_walk_is_accessible_by_its_name(walk, tmp_path):
    assert export(walk, tmp_path / "walk.mcap") == 50
    times, rows = messages(tmp_path / "walk.mcap", "/run")
    assert times == [since(walk) + 10**6 * k for k in range(50)]
    assert rows[0].keys() == walk.arrays.keys() - {"t"}
    assert {"LF_X_1", "RH_Y_3"} <= rows[0]["tau"].keys()
    assert rows[0]["force"]["LF"].keys() == {"x", "y", "z"}
    for channel, values in walk.arrays.items():
        if channel == "t":
            continue
        if values.ndim == 1:
            read = [[np.nan if row[channel] is None else row[channel]] for row in rows]
        else:
            read = [[at(row[channel], name) for name in names(walk, channel)] for row in rows]
        expected = values.reshape(50, -1).astype(float)
        np.testing.assert_array_equal(read, np.where(np.isfinite(expected), expected, np.nan))


def test_the_schema_tells_the_unit_of_each_number(walk, tmp_path):
    export(walk, tmp_path / "walk.mcap")
    with (tmp_path / "walk.mcap").open("rb") as file:
        ((schema, _, _), *_) = make_reader(file).iter_messages(topics=["/run"])
    channels = json.loads(schema.data)["properties"]
    assert channels["tau"]["properties"]["LF_X_1"]["description"] == "N m"
    assert channels["force"]["properties"]["LF"]["properties"]["z"]["description"] == "N"
    assert channels["residual"]["type"] == ["number", "null"]


def test_settings_and_metrics_of_a_run_are_attached(walk, tmp_path):
    export(walk, tmp_path / "walk.mcap")
    with (tmp_path / "walk.mcap").open("rb") as file:
        attached = {file.name: json.loads(file.data) for file in make_reader(file).iter_attachments()}
    assert attached["config.json"]["robot"] == "links"
    assert attached["metrics.json"]["completed"] == walk.metrics["completed"]


@pytest.fixture
def recorded(tmp_path):
    """Return a run of three rows with two events, one of them at an unknown time."""
    with Recorder(tmp_path / "run", {"t": (), "x": (2, 2)}, {"t": "s", "x": "m"}, {}) as record:
        for k in range(3):
            record.append(t=0.5 * k, x=[[k, np.inf], [np.nan, -k]])
        record.event(Event(t=0.75, what="a gust", detail={"m/s": 9}))
        record.event(Event(t=np.nan, what="a noise"))
        record.close({})
    return load(tmp_path / "run")


def test_events_are_log_messages_and_numbers_without_name_have_an_index(recorded, tmp_path):
    export(recorded, tmp_path / "run.mcap")
    times, rows = messages(tmp_path / "run.mcap", "/run")
    start = since(recorded)
    assert times == [start, start + 5 * 10**8, start + 10**9]
    assert rows[1]["x"] == {"x[0][0]": 1.0, "x[0][1]": None, "x[1][0]": None, "x[1][1]": -1.0}
    times, events = messages(tmp_path / "run.mcap", "/events")
    assert sorted(zip(times, (event["message"] for event in events), strict=True)) == [
        (start, "a noise"),
        (start + 75 * 10**7, 'a gust {"m/s": 9}'),
    ]
    for time, event in zip(times, events, strict=True):
        assert event["timestamp"] == {"sec": time // 10**9, "nsec": time % 10**9}


def test_rows_of_a_loop_are_dated_by_its_clock(recorded, tmp_path):
    began = 1.8e9 + 0.25
    dated = dataclasses.replace(recorded, arrays=recorded.arrays | {"utc_s": began + recorded.arrays["t"]})
    export(dated, tmp_path / "run.mcap")
    times, _ = messages(tmp_path / "run.mcap", "/run")
    np.testing.assert_allclose(times, 1e9 * (began + recorded.arrays["t"]), rtol=0.0, atol=500.0)  # rounding: 240 ns


def test_the_base_of_a_walk_is_a_pose(walk, tmp_path):
    export(walk, tmp_path / "walk.mcap")
    _, poses = messages(tmp_path / "walk.mcap", "/base")
    pose = poses[-1]["pose"]
    assert [*pose["position"].values(), *pose["orientation"].values()] == walk.arrays["q"][-1, :7].tolist()


def test_no_file_is_overwritten_and_none_stays_half_written(recorded, tmp_path, monkeypatch):
    path = tmp_path / "run.mcap"
    path.write_text("precious")
    with pytest.raises(idc.errors.InputError, match="exists already"):
        export(recorded, path)
    assert path.read_text() == "precious"
    path.unlink()
    recorded.events[0]["detail"]["when"] = object()
    with pytest.raises(TypeError):
        export(recorded, path)
    assert not path.exists()


def test_a_run_without_a_clock_is_refused_in_one_line(tmp_path, capsys):
    with Recorder(tmp_path / "run", {"x": ()}, {}, {}) as record:
        record.append(x=1.0)
        record.close({})
    assert cli.main(["export", str(tmp_path / "run"), "--mcap", str(tmp_path / "a.mcap")]) == 2
    error = capsys.readouterr().err
    assert "has no channel t" in error
    assert error.count("\n") == 1


def test_the_command_reports_file_rows_and_bytes(walk, tmp_path, capsys):
    path = tmp_path / "a.mcap"
    assert cli.main(["export", str(walk.folder), "--mcap", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"file": str(path), "rows": 50, "bytes": path.stat().st_size}
    assert cli.main(["export", str(walk.folder), "--mcap", str(tmp_path / "nowhere" / "a.mcap")]) == 2
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("changes", [{"began": "9999-01-01T00:00:00+00:00"}, {"began": "soon"}])
def test_a_run_without_a_usable_date_is_refused(recorded, tmp_path, changes):
    with pytest.raises(idc.errors.InputError, match="no usable date"):
        export(dataclasses.replace(recorded, **changes), tmp_path / "run.mcap")
    assert not (tmp_path / "run.mcap").exists()
