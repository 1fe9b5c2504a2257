"""A recording with a file cut at any byte is read, or refused in one line that names the fault."""

import contextlib
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

from idcontrol.errors import InputError
from idcontrol.record.recording import Recorder, Run, load
from idcontrol.types import Event
from tests.fuzz import EFFORT, explore

CHANNELS = {"t": (), "tau": (3,)}


@pytest.fixture(scope="module", params=["finished", "interrupted"])
def folder(request, tmp_path_factory):
    """Record a run of 700 rows with an event, finished or interrupted."""
    path = tmp_path_factory.mktemp(request.param) / "run"
    meta = {"experiment": "none"}
    with (
        contextlib.suppress(KeyboardInterrupt),
        Recorder(path, CHANNELS, {"t": "s"}, meta, config={"seed": 1}) as recorder,
    ):
        for i in range(700):
            recorder.append(t=1e-3 * i, tau=np.full(3, float(i)))
            if i == 300:
                recorder.event(Event(t=0.3, what="pushed", detail={"by": "hand"}))
        if request.param == "interrupted":
            raise KeyboardInterrupt
        recorder.close({"q_err_rad": 0.1})
    return path


def read(path: Path) -> tuple[Run | None, str]:
    """Return the run, or the reason why it cannot be read."""
    try:
        return load(path), ""
    except InputError as error:
        return None, str(error)


@EFFORT
def test_any_file_cut_at_any_byte_leaves_what_can_be_read_or_one_line(folder, tmp_path, effort):
    files = sorted(path.name for path in folder.iterdir())
    copy = tmp_path / "run"

    def law(cut):
        name, share, junk = cut
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        data = (copy / name).read_bytes()
        (copy / name).write_bytes(data[: int(share * len(data))] + junk)
        run, refusal = read(copy)
        if run is None:
            assert "\n" not in refusal
            assert str(copy) in refusal
            return
        rows = run.arrays["t"].size if "t" in run.arrays else 0
        np.testing.assert_array_equal(run.arrays.get("t", np.zeros(0)), 1e-3 * np.arange(rows))
        if rows < 700:
            assert run.note

    cuts = st.tuples(
        st.sampled_from(files), st.floats(0.0, 1.0, exclude_max=True), st.sampled_from([b"", b"\x00" * 64])
    )
    explore(law, cuts, 25, effort)
