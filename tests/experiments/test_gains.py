"""The search for the gains of the paper finds those that its numbers were made with."""

import math
from dataclasses import replace

import pytest

from idcontrol.experiments import trot
from idcontrol.experiments.gains import DURATION_S, ENTRIES, FAMILIES, TERRAINS, Tried, best, further, study, tables
from idcontrol.sweeps.record import NOT_RUN
from tests.experiments.outcomes import outcome, walked

pytest.importorskip("cma")

SECRET = {"gains.kp_1_s2": 900.0, "gains.kd_1_s": 60.0, "gains.kp_nm_rad": 40.0, "gains.kd_nm_s_rad": 0.1}
"""Gains that a made-up paper used, and with which all of its numbers come out."""


def made(run):
    """The outcome of a run whose numbers are off by the ratios of its gains to the secret ones."""
    row = outcome(trot.experiment, dict(run), walked())
    apart = [abs(math.log(row.setting(key) / value)) for key, value in SECRET.items() if key in run]
    off = sum(apart) / max(1, len(apart))
    terrain = next(
        name for name, (_, at) in TERRAINS.items() if all(row.setting(key) == value for key, value in at.items())
    )
    own = [e for e in ENTRIES if (e.controller, e.terrain) == (row.setting("controller"), terrain)]
    numbers = {e.key: e.printed * math.exp(off) for e in own if e.printed is not None}
    fell_at_s = None if own[0].printed is not None and off < 3.0 else 1.0
    metrics = walked(fell_at_s=fell_at_s, followed_m=1.0, granted_m=1.0, **numbers)
    return outcome(trot.experiment, dict(run), metrics)


@pytest.fixture(scope="module")
def searched():
    """All runs that a search makes."""
    outcomes = []
    while runs := further(outcomes):
        outcomes += [made(run) for run in runs]
    return outcomes


@pytest.mark.slow
def test_the_search_finds_the_gains_that_the_numbers_were_made_with(searched):
    tried = Tried(searched)
    for family in FAMILIES:
        found = dict(best(family, tried))
        for key in SECRET.keys() & found.keys():
            assert found[key] == pytest.approx(SECRET[key], rel=0.5)  # the bounds are a factor of 100 apart and more


@pytest.mark.slow
def test_the_table_counts_the_entries_that_the_gains_give(searched):
    _, entries = tables(searched)
    assert len(entries.rows) == len(ENTRIES)


def test_a_candidate_that_falls_where_all_walked_goes_nowhere_else():
    first = further([])
    lost = [outcome(trot.experiment, dict(run), walked(fell_at_s=0.3, followed_m=0.0, granted_m=1.0)) for run in first]
    following = further(lost)
    assert {run["mu"] for run in following} == {math.inf}
    assert {run["plant"] for run in following} == {"coulomb-lcp"}


@pytest.mark.slow
def test_a_search_that_was_stopped_goes_on_as_it_would_have(searched):
    half = searched[: len(searched) // 2]
    runs = further(half)
    assert runs
    assert all(dict(run) in [dict(o.row.changes) | {"preset": o.row.preset} for o in searched] for run in runs)
    assert further([replace(half[0], metrics=None, reason=NOT_RUN), *half[1:]]) == []


def test_the_gains_that_the_preset_has_are_tried_on_every_terrain():
    assert len(study.runs) == 28
    assert all(run["duration_s"] == DURATION_S and "gains.kp_1_s2" not in run for run in study.runs)
