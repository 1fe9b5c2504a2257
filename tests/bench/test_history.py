"""Histories of bench results."""

import json

import pytest

from idcontrol.bench import history
from idcontrol.errors import InputError


def result(floors, **more):
    row = {"section": "models", "what": "job", "contacts": 4, "peer": None, "us": {"p50": 1.0}, "floor_ratio": floors}
    return {"rows": [{**row, **more}]}


def test_ratios_are_between_rows_that_both_have():
    (found,) = history.ratios(result(3.0), result(2.0))
    assert found["ratio"] == pytest.approx(1.5)
    assert history.ratios(result(3.0), result(2.0, contacts=5)) == []


def test_the_newest_result_of_a_history_counts(tmp_path):
    path = tmp_path / "history.jsonl"
    history.append(path, result(1.0))
    history.append(path, result(2.0))
    assert history.last(path)["rows"][0]["floor_ratio"] == 2.0
    assert len(path.read_text().splitlines()) == 2


@pytest.mark.parametrize("text", ["", "no json", "{}", "[1]", json.dumps({"rows": []})])
def test_a_file_without_a_result_is_refused_in_a_line(tmp_path, text):
    path = tmp_path / "history.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match="no result of idcontrol bench"):
        history.last(path)


def test_a_history_that_cannot_be_opened_is_refused(tmp_path):
    with pytest.raises(InputError, match="--against"):
        history.last(tmp_path / "missing")
    with pytest.raises(InputError, match="--out"):
        history.append(tmp_path / "missing" / "file", result(1.0))


def test_the_machine_is_described():
    found = history.machine()
    assert found["cores"] >= 1
    assert found["processor"]
