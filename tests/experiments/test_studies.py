"""The studies beyond the paper: every run can be configured, and sentences follow the numbers."""

from functools import cache

import pytest

from idcontrol.controllers import available as controllers
from idcontrol.experiments import rough, studies, trot
from idcontrol.experiments.verdicts import AGREES, UNEXPLAINED
from idcontrol.plants import available as plants
from idcontrol.show.comparison import figures
from tests.experiments.outcomes import outcome, walked
from tests.parameters import one_fast

EXPERIMENTS = {"trot": trot.experiment, "rough": rough.experiment}
WRONG_KNOWLEDGE = ("friction", "normals", "touchdown", "delay", "noise", "payload")
STUDIES = {name: getattr(studies, name) for name in ("plants", "corrections", *WRONG_KNOWLEDGE, "monte_carlo", "bumps")}


@cache
def outcomes_of(name):
    """A run that went to its end for each of a study."""
    study = STUDIES[name]
    return [outcome(EXPERIMENTS[study.experiment], dict(run), walked()) for run in study.runs]


@pytest.mark.parametrize("name", one_fast(STUDIES, "friction"))
def test_every_run_of_a_study_can_be_configured_and_differs_from_the_others(name):
    rows = [o.row for o in outcomes_of(name)]
    assert len({row.name for row in rows}) == len(rows)
    for row in rows:
        assert row.config["controller"] in controllers()
        assert row.config["plant"] in plants()


@pytest.mark.parametrize("name", STUDIES)
def test_tables_of_a_study_have_a_sentence_and_rows_as_wide_as_their_header(name):
    study, outcomes = STUDIES[name], list(outcomes_of(name))
    # one that fell and one that never ran must not spoil the tables of the others
    outcomes[0] = outcome(EXPERIMENTS[study.experiment], dict(study.runs[0]), walked(fell_at_s=0.5))
    outcomes[1] = outcome(EXPERIMENTS[study.experiment], dict(study.runs[1]), None)
    tables = study.tables(outcomes)
    assert tables
    for table in tables:
        assert table.sentence.endswith(".")
        assert table.rows
        assert all(len(row) == len(table.header) for row in table.rows)


def test_the_matrix_has_controllers_in_rows_and_plants_in_columns():
    error = {("id-coulomb-qp", "dissipation"): 1e-4, ("id-sap", "sap"): 2e-4}
    outcomes = [
        outcome(trot.experiment, dict(run), walked(force_err_rel=error.get((run["controller"], run["plant"]), 0.05)))
        for run in studies.plants.runs
        if run["controller"] in ("id-coulomb-qp", "id-sap", "pid") and run["plant"] in ("dissipation", "sap")
    ]
    table = next(t for t in studies.plants.tables(outcomes) if t.name == "force")
    assert table.header == ("controller", "dissipation", "sap")
    assert ("id-sap", 0.05, 2e-4) in table.rows


def test_each_correction_that_is_taken_away_is_named_by_its_settings():
    named = [studies.named(o, studies.CORRECTIONS) for o in outcomes_of("corrections")]
    assert named == 3 * list(studies.CORRECTIONS)


@pytest.mark.parametrize("name", STUDIES)
def test_every_run_has_a_line_and_a_panel_in_the_general_figures(name):
    scene = figures._Scene.of(outcomes_of(name), STUDIES[name].grouping)
    assert all(line and isinstance(line, str) for line in scene.lines)
    assert sum(map(len, scene.panels.values())) == len(outcomes_of(name))


def test_robustness_has_a_row_for_each_value_and_the_reason_of_a_fall():
    outcomes = [
        outcome(
            trot.experiment,
            dict(run),
            walked(fell_at_s=0.4 if run["controller"] == "pid" and run["disturbance.delay_s"] > 0.003 else None),
        )
        for run in studies.delay.runs
    ]
    table = studies.delay.tables(outcomes)[0]
    column = table.header.index("pid")
    assert {row[0]: row[column] for row in table.rows} == {
        **dict.fromkeys((0.0, 0.001, 0.002, 0.003), 0.002),
        **dict.fromkeys((0.004, 0.005), "fell at 0.40 s"),
    }


def test_monte_carlo_draws_are_the_same_at_every_call_and_within_their_bounds():
    draws = studies._draws(40)
    assert draws == studies._draws(40)
    assert all(0.2 <= draw["mu"] <= 1.5 and 0 <= draw["disturbance.payload_share"] <= 0.2 for draw in draws)


@pytest.mark.parametrize(
    ("error", "words", "verdict"), [(0.008, "20% below", AGREES), (0.0085, "15% below", UNEXPLAINED)]
)
def test_bumps_compare_with_pid_of_the_same_preset(error, words, verdict):
    ours = {"id-coulomb-qp": {"default": error, "paper": 0.015}, "pid": {"default": 0.01, "paper": 0.01}}
    outcomes = [
        outcome(rough.experiment, dict(run), walked(q_err_rad=ours.get(run["controller"], {}).get(run["preset"], 0.02)))
        for run in studies.bumps.runs
    ]
    table, claims = studies.bumps.tables(outcomes)
    assert ("default", "id-coulomb-qp", error, words, "done") in table.rows
    assert ("paper", "id-coulomb-qp", 0.015, "50% above", "done") in table.rows
    rows = {row[0][14:25]: row[1:] for row in claims.rows if row[0].endswith("below pid's")}
    assert rows["paper id-co"] == ("19% below", "id-coulomb-qp 0.015, pid 0.01", UNEXPLAINED)
    assert rows["default id-"] == ("19% below", f"id-coulomb-qp {error:.3g}, pid 0.01", verdict)
    # sensed forces: 0.02 rad, where the paper has the smaller error
    assert [row[3] for row in claims.rows if "id-sensed-1's" in row[0]] == [UNEXPLAINED] * 2
