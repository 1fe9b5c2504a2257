"""Hostile folders: each is refused in one line, and nothing outside the folder is read or written."""

import json
import os
from pathlib import Path

import h5py
import msgspec
import numpy as np
import pytest

import idcontrol as idc
from idcontrol import cli
from idcontrol.cli.view import find_robot
from idcontrol.errors import InputError
from idcontrol.record import files
from idcontrol.record.recording import Recorder, load
from idcontrol.record.scenery import DrawableBody, Scenery
from idcontrol.show.view.film import Film
from tests import walks

SECRET = b"root:x:0:0:a secret of 24 B\n" * 8


@pytest.fixture
def secret(tmp_path):
    """Return a file outside the run, whose content must not be shown."""
    path = tmp_path / "passwd"
    path.write_bytes(SECRET)
    return path


@pytest.fixture
def run(tmp_path):
    """Return a short walk with one visible body, a figure and an event."""
    data = {name: values[:40] for name, values in walks.arrays(0.1).items()}
    folder = walks.record(tmp_path / "run", data=data, metrics={"completed": True, "fell_at_s": None})
    meta = json.loads((folder / "run.json").read_text())
    scene = Scenery(bodies=(DrawableBody(name="box", shape="box", size_m=(0.1, 0.1, 0.1)),))
    meta["meta"]["scene"] = msgspec.to_builtins(scene)
    meta["meta"]["figures"] = [{"file": "plot.svg", "title": "Plot", "sentence": "Drawn."}]
    (folder / "run.json").write_text(json.dumps(meta))
    (folder / "plot.svg").write_text("<svg/>")
    (folder / "events.jsonl").write_text('{"t": 0.1, "what": "push", "detail": {}}\n')
    return folder


def external(file, name, secret):
    del file[name]
    file.create_dataset(name, (len(SECRET) // 8,), "<f8", external=[(str(secret), 0, len(SECRET))])


def virtual(file, name, secret):
    other = secret.with_name("other.h5")
    with h5py.File(other, "w") as source:
        source["x"] = np.ones(4)
    layout = h5py.VirtualLayout((4,), "<f8")
    layout[:] = h5py.VirtualSource(str(other), "x", (4,))
    del file[name]
    file.create_virtual_dataset(name, layout)


def link(to):
    def put(file, name, secret):
        del file[name]
        file[name] = to(secret)

    return put


def replaced(**keywords):
    def put(file, name, secret):
        del file[name]
        file.create_dataset(name, **keywords)

    return put


def group(file, name, secret):
    del file[name]
    file.create_group(name)


def attribute(key, value):
    return lambda file, name, secret: file.attrs.__setitem__(key, value)


HOSTILE_H5 = {
    "an external dataset": (external, "'tau' is stored elsewhere"),
    "a virtual dataset": (virtual, "'tau' is stored elsewhere"),
    "an external link": (link(lambda secret: h5py.ExternalLink(str(secret), "/x")), "'tau' is a link"),
    "a soft link": (link(lambda secret: h5py.SoftLink("/q")), "'tau' is a link"),
    "a group": (group, "'tau' is no dataset"),
    "a named type": (link(lambda secret: np.dtype("<f8")), "'tau' is no dataset"),
    "text": (replaced(data=["a", "b"]), "'tau' is no array of float64"),
    "whole numbers": (replaced(data=np.arange(3)), "'tau' is no array of float64"),
    "a record": (replaced(data=np.zeros(2, dtype=[("a", "<f8")])), "'tau' is no array of float64"),
    "a single number": (replaced(data=1.0), "'tau' is no array of float64"),
    "nothing": (replaced(data=h5py.Empty("<f8")), "'tau' is no array of float64"),
    "a petabyte": (replaced(shape=(10**6, 10**8), dtype="<f8", chunks=(1000, 1000)), "less than its datasets claim"),
    "too few rows": (replaced(data=np.zeros((3, 12))), "different numbers of rows"),
    "a schema of words": (attribute("schema", "one"), "Expected `int`"),
    "many schemas": (attribute("schema", np.arange(3)), "damaged or not a record"),
    "a newer schema": (attribute("schema", 2), "newer idcontrol"),
    "complete in words": (attribute("complete", "yes"), "Expected `bool`"),
}


def refused(folder: Path, command: str, capsys) -> str:
    """Return the one line with which a command refuses a folder."""
    if command == "view":  # the command makes these before it serves the page
        with pytest.raises(InputError) as error:
            Film(load(folder), find_robot)
        assert "\n" not in str(error.value)
        return str(error.value)
    status, captured = cli.main([command, str(folder)]), capsys.readouterr()
    assert (status, captured.out, captured.err.count("\n")) == (2, "", 1), captured
    return captured.err


@pytest.mark.parametrize("kind", HOSTILE_H5)
def test_an_hdf5_file_with_anything_but_arrays_is_refused(run, secret, kind):
    spoil, line = HOSTILE_H5[kind]
    with h5py.File(run / "arrays.h5", "a") as file:
        spoil(file, "tau", secret)
    with pytest.raises(InputError, match=line) as error:
        idc.load(run)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("command", ["report", "view"])
def test_commands_refuse_it_in_one_line(run, secret, command, capsys):
    with h5py.File(run / "arrays.h5", "a") as file:
        external(file, "tau", secret)
    assert "'tau' is stored elsewhere" in refused(run, command, capsys)


@pytest.mark.parametrize("name", ["arrays.h5", "run.json", "config.json", "metrics.json", "events.jsonl", "plot.svg"])
def test_no_file_of_a_record_leads_out_of_its_folder(run, secret, name, capsys):
    (run / name).rename(secret.with_name(name))
    (run / name).symlink_to(secret.with_name(name))
    assert f"{name} leads out of the folder" in refused(run, "report", capsys)
    assert not (run / "report.html").exists()


@pytest.mark.parametrize("name", ["record.log", "arrays.h5", "config.json"])
def test_a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for(run, name, capsys):
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    assert f"{name} is neither a file nor a folder" in refused(run, "report", capsys)


def test_a_link_in_the_place_of_an_unfinished_page_is_not_written_through(tmp_path, secret):
    run = tmp_path / "bare"
    with Recorder(run, {"x": ()}, {}, {}) as recorder:
        recorder.close({})
    (run / "report.html.part").symlink_to(secret)
    assert cli.main(["report", str(run)]) == 0
    assert secret.read_bytes() == SECRET


def nested(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


@pytest.mark.covering
@pytest.mark.parametrize("name", ["run.json", "config.json", "metrics.json"])
@pytest.mark.parametrize(
    ("text", "line"),
    [
        (nested(5000), "nested too deeply"),
        (nested(files.DEPTH + 1), "nested too deeply"),
        ('{"duration_s": NaN}', "NaN is not JSON"),
        ('{"duration_s": 1e999}', "1e999 is too large"),
        ('{"duration_s": 1.0, "duration_s": 2.0}', "'duration_s' appears twice"),
        ('{"duration_s": ' + "9" * 5000 + "}", "is damaged"),
        ("\udc80", "is damaged"),
    ],
)
def test_values_outside_plain_json_are_refused(run, name, text, line, capsys):
    (run / name).write_bytes(text.encode(errors="surrogateescape"))
    error = refused(run, "report", capsys)
    assert line in error
    assert name in error


def changed(path: Path, *keys: str):
    """Return a function that sets one value of a JSON file."""

    def change(run, value):
        whole = json.loads((run / path).read_text())
        inner = whole
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = value
        (run / path).write_text(json.dumps(whole))

    return change


@pytest.mark.parametrize(
    ("file", "keys", "value"),
    [
        ("run.json", ("meta",), [1]),
        ("run.json", ("versions",), {"python": 3}),
        ("run.json", ("meta", "goals"), [1]),
        ("run.json", ("meta", "goals"), {"q_err_rad": "small"}),
        ("run.json", ("meta", "findings"), 7),
        ("run.json", ("meta", "figures"), [{"file": "plot.svg"}]),
        ("run.json", ("meta", "layout"), 1),
        ("run.json", ("meta", "layout", "joints"), []),
        ("run.json", ("meta", "layout", "feet"), ["LF"]),
        ("run.json", ("meta", "layout", "joint_q"), [*range(11), 99]),
        ("run.json", ("meta", "layout", "joint_q"), [*range(11), -1]),
        ("run.json", ("meta", "layout", "period_s"), 0.0),
        ("run.json", ("meta", "layout", "gait_period_s"), 1e300),
        ("metrics.json", ("fell_at_s",), "late"),
        ("metrics.json", ("checks",), ["all"]),
        ("metrics.json", ("verdicts",), ["all"]),
    ],
)
def test_facts_of_another_kind_are_refused(run, file, keys, value, capsys):
    changed(file, *keys)(run, value)
    assert "damaged" in refused(run, "report", capsys)


@pytest.mark.parametrize(
    ("keys", "value", "line"),
    [
        (("meta", "scene", "bodies"), [{"name": "box"}], "missing required field `shape`"),
        (("meta", "scene", "ground"), {"shape": [-1, -1]}, "Expected `int` >= 0"),
        (("meta", "scene", "ground"), {"shape": [1, 1], "heights": "AAAA"}, "3 bytes are no heights of shape (1, 1)"),
        (("meta", "scene", "ground"), {"normal": [0.0, 0.0, 0.0]}, "the normal of ground must have three finite"),
        (("meta", "scene", "robot"), "/etc/passwd", "/etc/passwd is no robot file"),
        (("meta", "layout"), {"waypoints": [[1.0], [2.0, 3.0]]}, "meta.layout is damaged"),
    ],
)
def test_a_malformed_scene_is_refused(run, keys, value, line, capsys):
    changed("run.json", *keys)(run, value)
    assert line in refused(run, "view", capsys)


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (lambda t: t.fill(np.nan), "there is nothing to play"),
        (lambda t: t.__setitem__(3, np.nan), None),  # the view leaves out rows without a time
        (lambda t: t.__setitem__(3, np.inf), None),
        (lambda t: t.__setitem__(slice(None), t[::-1].copy()), "its times are not in order"),
    ],
)
def test_times_that_are_no_times_are_refused(run, spoil, line, capsys):
    with h5py.File(run / "arrays.h5", "a") as file:
        times = file["t"][...]
        spoil(times)
        file["t"][...] = times
    assert "its times are not numbers in order" in refused(run, "report", capsys)
    if line is not None:
        assert line in refused(run, "view", capsys)


def test_a_page_is_written_whatever_the_numbers_are(run):
    with h5py.File(run / "arrays.h5", "a") as file:
        for row, channel in enumerate(sorted(set(walks.CHANNELS) - {"t", "step_us"})):
            for i, value in enumerate((np.inf, -np.inf, 1e300)):
                file[channel][row + i] = value
    assert cli.main(["report", str(run)]) == 0


@pytest.mark.parametrize("channel", ["q", "tau", "stance", "com", "turning"])
def test_a_walk_without_one_of_its_channels_is_refused(run, channel, capsys):
    with h5py.File(run / "arrays.h5", "a") as file:
        del file[channel]
    assert "its channels do not describe a walk" in refused(run, "report", capsys)


def test_a_log_with_a_malformed_header_is_refused(tmp_path):
    from idcontrol.record import log

    with Recorder(tmp_path / "run", {"x": ()}, {}, {}):
        pass
    for header in (
        {"schema": 1},
        {"schema": 1, "channels": [["x", [10**9, 10**9]]], "units": {}, "wall_time": []},
        {"schema": 1, "channels": [["x", [-1]]], "units": {}, "wall_time": []},
        {"schema": 1, "channels": "x", "units": {}, "wall_time": []},
    ):
        (tmp_path / "run" / "record.log").write_bytes(log.header_bytes(header))
        with pytest.raises(InputError, match="no readable header"):
            load(tmp_path / "run")


def test_a_comparison_reads_no_row_outside_of_its_folder(tmp_path, run, capsys):
    row = {"experiment": "trot", "preset": "default", "changes": {}, "config": {}, "name": "../../run"}
    whole = {"format": "idcontrol-comparison", "schema": 1, "experiment": "trot", "study": None}
    folder = tmp_path / "c"
    (folder / "runs").mkdir(parents=True)
    for name in ("../../run", str(run), ""):
        (folder / "comparison.json").write_text(
            json.dumps(whole | {"command": [], "versions": {}, "rows": [row | {"name": name}]})
        )
        assert "is no name of a run" in refused(folder, "report", capsys)
    (folder / "comparison.json").write_text(
        json.dumps(whole | {"command": [], "versions": {}, "rows": [row | {"name": "row"}]})
    )
    (folder / "runs" / "row").symlink_to(run)
    assert "leads out of the folder" in refused(folder, "report", capsys)
    (folder / "comparison.json").write_text(nested(5000))
    assert "nested too deeply" in refused(folder, "report", capsys)
