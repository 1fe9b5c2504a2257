"""Printed numbers beside recorded runs: every number has a place in its paper, and every place its count."""

import json
from pathlib import Path

import msgspec
import pytest

from idcontrol.errors import InputError
from idcontrol.experiments import papers
from idcontrol.experiments.findings import Finding, Results, save
from idcontrol.experiments.papers import PLACES, STUDIES, judged, newest, summed
from idcontrol.experiments.tables.results import PAPER
from idcontrol.experiments.verdicts import AGREES, DERIVED, UNEXPLAINED, Judged

FOLDER = Path(__file__).parents[2] / "experiments"


class Config(msgspec.Struct, frozen=True):
    pass


def place(total, where):
    return next(one for one in total["places"] if f"{one['paper']}, {one['where']}" == where)


def test_a_number_of_a_recorded_run_is_counted_where_its_paper_prints_it(tmp_path):
    findings = (
        Finding("energy_j", 1.5, paper=0.0, source="Drumwright 2019, Fig. 4", derivation="theory/constraint.md"),
        Finding("order", 1.9, paper=2.0, source="Drumwright 2019, Fig. 4"),
        Finding("slide_m", 3.0, paper=2.0, source="Drumwright 2019, Fig. 9"),
        Finding("steps", 7),
    )
    save(tmp_path, "pendulum", Config(), Results(findings=findings))
    total = summed(list(judged(tmp_path)))
    fig_4, fig_9 = (place(total, f"Drumwright 2019, Fig. {number}") for number in (4, 9))
    assert (fig_4["agree"], fig_4["derived"], fig_4["unexplained"]) == (1, 1, 0)
    assert fig_4["not_compared"] == fig_4["printed"] - 2
    assert (fig_9["agree"], fig_9["derived"], fig_9["unexplained"]) == (0, 0, 1)
    assert [one["verdict"] for one in total["judged"]] == [f"{DERIVED} (theory/constraint.md)", AGREES, UNEXPLAINED]
    json.dumps(total)


def test_a_verdict_without_a_printed_number_is_refused():
    with pytest.raises(InputError, match=r"no such table or figure: Drumwright 2019, Fig\. 99"):
        summed([Judged("Drumwright 2019, Fig. 99", "depth", 1.0, 1.0, AGREES)])


def test_one_run_listed_twice_is_refused():
    once = [Judged("Castro et al. 2022, Fig. 11", "contacts", "more than 1", 1.2, AGREES)]
    assert place(summed(once), "Castro et al. 2022, Fig. 11")["not_compared"] == 0
    with pytest.raises(InputError, match="has 1 more verdicts than numbers"):
        summed(once * 2)


def test_earlier_verdicts_are_kept_unless_judged_again(tmp_path):
    before = [
        Judged("Drumwright 2019, Fig. 9", "slide_m", 2.0, 9.0, UNEXPLAINED),
        Judged("Drumwright 2019, Fig. 4", "order", 2.0, 1.9, AGREES),
    ]
    file = tmp_path / "before.json"
    file.write_text(json.dumps(summed(before)))
    findings = (Finding("slide_m", 2.1, paper=2.0, source="Drumwright 2019, Fig. 9"),)
    save(tmp_path / "run", "incline", Config(), Results(findings=findings))
    total = newest(one for each in (file, tmp_path / "run") for one in judged(each))
    assert total == [before[0]._replace(found=2.1, verdict=AGREES), before[1]]


def test_a_comparison_with_no_paper_is_refused(tmp_path):
    plain = {"format": "idcontrol-comparison", "schema": 1, "experiment": "trot", "study": None}
    (tmp_path / "comparison.json").write_text(json.dumps(plain | {"command": [], "versions": {}, "rows": []}))
    with pytest.raises(InputError, match="is no comparison with a paper"):
        list(judged(tmp_path))


def test_places_have_as_many_numbers_as_the_tables_have_entries():
    printed = {(one.paper, one.where): one.printed for one in PLACES}
    assert len(printed) == len(PLACES)
    paper = "Zapolsky & Drumwright 2017"
    tracking, forces = (PAPER[name]["values"] for name in ("tracking", "force_prediction"))
    assert printed[paper, "Table 3"] == 2 * sum(len(row) for row in tracking.values())
    assert printed[paper, "Table 4"] == 2 * len(PAPER["smoothness"]["values"])
    assert printed[paper, "Table 5"] == 2 * sum(len(row) for row in forces.values())
    assert printed[paper, "Table 6"] == sum(len(row["result"]) for row in PAPER["scores"]["rows"])


def test_every_place_names_its_command_or_the_reason_for_no_comparison():
    assert all(one.command or one.lacks for one in PLACES)
    commands = " ".join(one.command for one in PLACES)
    assert all(f"--study {name}" in commands for name in STUDIES)


def test_existing_runs_are_kept_and_missing_ones_run_by_the_command_of_a_place(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(papers.subprocess, "run", lambda words, **_: ran.append(words[3:]))
    (tmp_path / "incline").mkdir()
    (tmp_path / "incline" / "metrics.json").write_text("{}")
    folders = list(papers.conduct(tmp_path))
    assert len(set(folders)) == len(folders) == len(ran) + 1
    assert tmp_path / "incline" in folders
    assert all(Path(words[-1]) in folders and words[1] != "incline" for words in ran)
    assert ["compare", "grasp", "--study", "grasping"] in [words[:4] for words in ran]


def test_the_page_has_the_verdicts_of_every_place():
    recorded = json.loads((FOLDER.parent / "idcontrol" / "docs" / "data" / "verdicts.json").read_text(encoding="utf-8"))
    again = summed([Judged(**one) for one in recorded["judged"]])
    assert [dict(one) for one in recorded["places"]] == again["places"]
