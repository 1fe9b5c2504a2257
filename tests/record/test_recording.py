"""The folder of a run can be read back, whole or cut off at any point."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idcontrol.config.configuration import jsonable
from idcontrol.errors import InputError
from idcontrol.record.log import BLOCK_ROWS, read_log
from idcontrol.record.recording import Recorder, fresh_folder, load
from idcontrol.types import Event
from tests import GUARD_S
from tests.parameters import one_fast

CHANNELS = {"t": (), "q": (3,), "feet": (2, 3), "step_us": ()}
UNITS = {"t": "s", "q": "rad", "feet": "m", "step_us": "us"}
WIDTH = 1 + 3 + 6 + 1


def rows(n: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=(n, *shape)) for name, shape in CHANNELS.items()}


def record(folder: Path, data: dict[str, np.ndarray], metrics: dict | None = None, finish: bool = True) -> Recorder:
    recorder = Recorder(
        folder, CHANNELS, UNITS, {"robot": "links", "mu": np.inf}, config={"seed": 7}, wall_time=["step_us"]
    )
    for i in range(len(data["t"])):
        recorder.append(**{name: values[i] for name, values in data.items()})
    if finish:
        recorder.close({} if metrics is None else metrics)
    return recorder


def same(arrays: dict[str, np.ndarray], data: dict[str, np.ndarray], n: int) -> bool:
    return set(arrays) == set(data) and all(np.array_equal(arrays[name], data[name][:n]) for name in data)


@pytest.mark.parametrize("n", [0, 1, BLOCK_ROWS - 1, BLOCK_ROWS, 2 * BLOCK_ROWS + 3])
def test_a_finished_run_reads_back_to_the_last_bit(tmp_path, n):
    data = rows(n)
    record(tmp_path / "run", data, {"q_err_rad": 0.25, "fell_at_s": float("nan"), "mu": float("inf")})
    run = load(tmp_path / "run")
    assert same(run.arrays, data, n)
    assert run.units == UNITS
    assert run.meta == {"robot": "links", "mu": "inf"}
    assert run.config == {"seed": 7}
    assert run.metrics == {"q_err_rad": 0.25, "fell_at_s": None, "mu": "inf"}
    assert run.complete
    assert run.note == ""
    assert not (tmp_path / "run" / "record.log").exists()


def test_other_tools_find_one_dataset_with_its_unit_for_each_channel(tmp_path):
    record(tmp_path / "run", rows(5))
    with h5py.File(tmp_path / "run" / "arrays.h5") as file:
        assert set(file) == {"t", "q", "feet"}  # wall time is in another file
        assert file["feet"].shape == (5, 2, 3)
        assert file["q"].attrs["units"] == "rad"
        assert file["q"].dtype == np.float64


def test_equal_runs_give_equal_bytes_whatever_the_wall_time_was(tmp_path):
    first, second = rows(BLOCK_ROWS + 7), rows(BLOCK_ROWS + 7)
    second["step_us"] = second["step_us"] + 1.0
    record(tmp_path / "a", first)
    record(tmp_path / "b", second)
    for name in ("arrays.h5", "config.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    one, other = (json.loads((tmp_path / name / "run.json").read_text()) for name in ("a", "b"))
    assert one | {"began": ""} == other | {"began": ""}
    assert (tmp_path / "a" / "timing.h5").read_bytes() != (tmp_path / "b" / "timing.h5").read_bytes()


@pytest.fixture(scope="module")
def cut_off(tmp_path_factory):
    """Return a folder whose log contains three small blocks, its bytes, and the end of each block."""
    folder = tmp_path_factory.mktemp("cut") / "run"
    data = rows(6)
    recorder = record(folder, {name: values[:0] for name, values in data.items()}, finish=False)
    log = folder / "record.log"
    ends = [log.stat().st_size]
    for i in range(6):
        recorder.append(**{name: values[i] for name, values in data.items()})
        if i % 2:
            recorder.arrays()  # flush the rows so far: a block of two rows
            ends.append(log.stat().st_size)
    whole = log.read_bytes()
    assert ends[-1] == len(whole)
    yield folder, whole, ends, data
    recorder.close()


@pytest.mark.slow
def test_a_log_cut_at_any_byte_gives_every_whole_block_before_the_cut(cut_off):
    folder, whole, ends, data = cut_off
    for cut in range(ends[0], len(whole) + 1):
        (folder / "record.log").write_bytes(whole[:cut])
        n = 2 * sum(end <= cut for end in ends[1:])
        run = load(folder)
        assert same(run.arrays, data, n)
        assert not run.complete
        assert run.metrics is None
        assert f"{n} rows were kept" in run.note
        assert ("dropped" in run.note) == (cut not in ends)
    (folder / "record.log").write_bytes(whole)


def test_a_log_cut_within_its_header_is_refused_with_one_line(cut_off):
    folder, whole, ends, _ = cut_off
    for cut in range(ends[0]):
        (folder / "record.log").write_bytes(whole[:cut])
        with pytest.raises(InputError, match="no readable header") as caught:
            load(folder)
        assert "\n" not in str(caught.value)
    (folder / "record.log").write_bytes(whole)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_flipped_bit_is_never_read_as_data(cut_off, data):
    folder, whole, ends, original = cut_off
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = bytearray(whole)
    damaged[at] ^= 1 << data.draw(st.integers(0, 7))
    (folder / "record.log").write_bytes(bytes(damaged))
    try:
        if at < ends[0]:
            with pytest.raises(InputError):
                load(folder)
        else:
            run = load(folder)
            assert same(run.arrays, original, 2 * sum(end <= at for end in ends[1:]))
            assert "dropped" in run.note
    finally:
        (folder / "record.log").write_bytes(whole)


def test_the_handler_of_sigterm_is_put_back(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    with Recorder(tmp_path / "run", CHANNELS, UNITS, {}) as recorder:
        with pytest.raises(SystemExit, match="143"):
            os.kill(os.getpid(), signal.SIGTERM)
        recorder.close({})
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("signum", one_fast((signal.SIGINT, signal.SIGTERM, signal.SIGKILL), signal.SIGKILL))
def test_a_killed_process_leaves_a_readable_folder(tmp_path, signum):
    script = textwrap.dedent(f"""
        import itertools
        from idcontrol.record.recording import Recorder
        with Recorder({str(tmp_path / "run")!r}, {{"t": ()}}, {{}}, {{}}) as recorder:
            for i in itertools.count():
                recorder.append(t=i)
                if i == 2600:
                    print("ready", flush=True)
    """)
    child = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    with child:
        assert child.stdout is not None
        child.stdout.readline()
        child.send_signal(signum)
        child.wait(GUARD_S)
    run = load(tmp_path / "run")
    n = len(run.arrays["t"])
    # after SIGKILL up to one block is lost, after other signals nothing
    assert n >= (2500 if signum == signal.SIGKILL else 2601)
    assert np.array_equal(run.arrays["t"], np.arange(n))
    assert not run.complete


def test_an_interrupted_close_keeps_the_rows(tmp_path, monkeypatch):
    data = rows(10)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    def run() -> None:
        with Recorder(tmp_path / "run", CHANNELS, UNITS, {}) as recorder:
            for i in range(10):
                recorder.append(**{name: values[i] for name, values in data.items()})
            with monkeypatch.context() as patch:
                patch.setattr("idcontrol.record.recording._export", interrupted)
                recorder.close({"q_err_rad": 1.0})

    with pytest.raises(KeyboardInterrupt):
        run()
    run = load(tmp_path / "run")
    assert same(run.arrays, data, 10)
    assert not run.complete


def test_channels_that_a_row_leaves_out_are_nan(tmp_path):
    with Recorder(tmp_path / "run", CHANNELS, UNITS, {}) as recorder:
        recorder.append(t=1.0)
        recorder.close({})
    run = load(tmp_path / "run")
    assert run.arrays["t"][0] == 1.0
    assert np.isnan(run.arrays["feet"]).all()


@pytest.mark.parametrize("cuts", [[], [1, 2], [BLOCK_ROWS], [3, BLOCK_ROWS + 3, 2 * BLOCK_ROWS]])
def test_whole_rows_give_the_same_record_as_single_channels(tmp_path, cuts):
    n = 3 * BLOCK_ROWS + 2
    data = rows(n)
    side_by_side = np.hstack([data[name].reshape(n, -1) for name in CHANNELS])
    record(tmp_path / "one", data)
    with Recorder(
        tmp_path / "other", CHANNELS, UNITS, {"robot": "links", "mu": np.inf}, config={"seed": 7}, wall_time=["step_us"]
    ) as recorder:
        for piece in np.split(side_by_side, cuts):
            recorder.extend(piece)
        recorder.close({})
    for name in ("arrays.h5", "timing.h5"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


def test_a_log_of_short_blocks_is_read_in_long_ones(tmp_path):
    side_by_side = np.random.default_rng(0).standard_normal((2 * BLOCK_ROWS + 3, WIDTH))
    with Recorder(tmp_path / "run", CHANNELS, UNITS, {}) as recorder:
        for piece in np.array_split(side_by_side, 100):
            recorder.extend(piece)
            recorder.flush()
        log = read_log(tmp_path / "run" / "record.log")
        pieces = [piece.copy() for piece in log.payloads()]
        recorder.close({})
    assert len(log.blocks) == 100
    assert [len(piece) for piece in pieces] == [BLOCK_ROWS, BLOCK_ROWS, 3]
    np.testing.assert_array_equal(np.vstack(pieces), side_by_side)


def test_rows_of_another_width_are_refused(tmp_path):
    with Recorder(tmp_path / "run", CHANNELS, UNITS, {}) as recorder:
        for wrong in (np.zeros(WIDTH), np.zeros((2, WIDTH + 1))):
            with pytest.raises(InputError, match=rf"shape \(n, {WIDTH}\)"):
                recorder.extend(wrong)
        recorder.close({})
    assert len(load(tmp_path / "run").arrays["t"]) == 0


def test_a_wrong_name_or_shape_is_named_and_leaves_no_row(tmp_path):
    with Recorder(tmp_path / "run", CHANNELS, UNITS, {}) as recorder:
        with pytest.raises(InputError, match=r"'feat' is not a channel.*feet"):
            recorder.append(feat=1.0)
        with pytest.raises(InputError, match=r"'feet' takes numbers of shape \(2, 3\), not \(4, 3\)"):
            recorder.append(feet=np.zeros((4, 3)))
        recorder.close({})
    assert len(load(tmp_path / "run").arrays["t"]) == 0


def test_a_unit_of_an_unknown_channel_is_refused(tmp_path):
    with pytest.raises(InputError, match="'torque', which is not a channel"):
        Recorder(tmp_path / "run", CHANNELS, {"torque": "N m"}, {})


def test_events_are_on_disk_as_they_happen(tmp_path):
    with Recorder(tmp_path / "run", CHANNELS, UNITS, {}) as recorder:
        recorder.event(Event(t=0.5, what="late touchdown", detail={"foot": "LF", "gap_m": np.float64(2e-3)}))
        with (tmp_path / "run" / "events.jsonl").open("a") as file:
            file.write('{"t": 0.6, "wh')  # as after a crash
        events = load(tmp_path / "run").events
    assert events == ({"t": 0.5, "what": "late touchdown", "detail": {"foot": "LF", "gap_m": 0.002}},)


def test_an_output_folder_that_holds_anything_is_refused(tmp_path):
    record(tmp_path / "run", rows(1))
    with pytest.raises(InputError, match="holds a run already"):
        record(tmp_path / "run", rows(1))
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="is not empty"):
        record(tmp_path, rows(1))
    with pytest.raises(InputError, match="cannot use"):
        record(tmp_path / "notes.txt", rows(1))
    assert same(load(tmp_path / "run").arrays, rows(1), 1)


def test_fresh_folders_are_numbered_upward(tmp_path):
    names = [fresh_folder(tmp_path / "runs", "trot-pid").name for _ in range(3)]
    assert names == ["trot-pid", "trot-pid-2", "trot-pid-3"]


def test_no_fresh_folder_below_a_file(tmp_path):
    (tmp_path / "runs").write_text("")
    with pytest.raises(InputError, match="runs"):
        fresh_folder(tmp_path / "runs", "trot")


@pytest.mark.parametrize(
    ("prepare", "line"),
    [
        (lambda folder: None, "does not exist"),
        (lambda folder: folder.write_text("x"), "is a file"),
        (lambda folder: folder.mkdir(), "is empty"),
        (lambda folder: (folder.mkdir(), (folder / "photo.jpg").write_text("x")), "is not a run"),
        (lambda folder: (folder.mkdir(), (folder / "run.json").write_text("{")), "damaged"),
        (lambda folder: (folder.mkdir(), (folder / "run.json").write_text("[1]")), "damaged"),
        (
            lambda folder: (folder.mkdir(), (folder / "run.json").write_text('{"name": "x"}')),
            "not written by idcontrol",
        ),
    ],
)
def test_a_folder_that_is_not_a_run_is_refused_in_one_line(tmp_path, prepare, line):
    prepare(tmp_path / "run")
    with pytest.raises(InputError, match=line) as caught:
        load(tmp_path / "run")
    assert "\n" not in str(caught.value)


def test_a_run_of_a_newer_version_is_refused(tmp_path):
    record(tmp_path / "run", rows(1))
    path = tmp_path / "run" / "run.json"
    path.write_text(path.read_text().replace('"schema": 1', '"schema": 2'))
    with pytest.raises(InputError, match="newer idcontrol"):
        load(tmp_path / "run")


def test_a_run_whose_arrays_are_gone_says_so(tmp_path):
    record(tmp_path / "run", rows(1))
    (tmp_path / "run" / "arrays.h5").unlink()
    with pytest.raises(InputError, match="without rows"):
        load(tmp_path / "run")


TEXT = st.text('aé"\\\n\0\u2028\U0001d6ff', max_size=5)  # the table of all characters takes a second
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=15)  # drawing nested data takes long
@given(JSON)
def test_jsonable_data_is_strict_json(value):
    assert json.loads(json.dumps(jsonable(value), allow_nan=False)) == jsonable(value)
