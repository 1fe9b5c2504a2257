"""The envelope: bisection finds every existing limit, and ends."""

import pytest

from idcontrol.experiments import trot
from idcontrol.experiments.envelope import HALVINGS, HARDSHIPS, further, limits, pictures, study, tables
from tests.experiments.outcomes import outcome, walked

SURVIVED = dict(zip([h.name for h in HARDSHIPS], (0.6, 0.03, 0.9, 0.5, 0.005, 0.01, 0.05, 0.3, 1.5), strict=True))


def tried(run, survived=SURVIVED):
    """The outcome of a run by a controller that survives up to `survived`."""
    row = outcome(trot.experiment, dict(run), walked())
    (hardship,) = [h for h in HARDSHIPS if h.value(row) is not None]
    value, limit = hardship.value(row), survived[hardship.name]
    holds = value <= limit if hardship.hard > hardship.easy else value >= limit
    return row if holds else outcome(trot.experiment, dict(run), walked(fell_at_s=1.0))


def swept(survived=SURVIVED, controller="pid"):
    """All rounds, and their number."""
    outcomes = [tried(run, survived) for run in study.runs if run["controller"] == controller]
    rounds = 0
    while runs := further(outcomes):
        outcomes += [tried(run, survived) for run in runs]
        rounds += 1
    return outcomes, rounds


def test_every_run_makes_one_thing_hard():
    for run in study.runs:
        tried(run)  # one hardship, and no other


def test_bisection_brackets_each_limit_and_ends():
    outcomes, rounds = swept()
    assert rounds == HALVINGS
    for hardship in HARDSHIPS:
        survived, lost = limits(outcomes, hardship, "pid")
        low, high = sorted((survived, lost))
        assert low <= SURVIVED[hardship.name] <= high
        width = 0.5**HALVINGS * abs(hardship.hard - hardship.easy)
        if hardship.geometric:
            assert high / low <= (max(hardship.hard, hardship.easy) / min(hardship.hard, hardship.easy)) ** (
                1.02 * 0.5**HALVINGS
            )
        else:
            assert high - low <= max(1.01 * width, 0.0011)  # delays are whole milliseconds


def test_a_bracket_without_a_limit_inside_is_not_halved():
    for survived in (dict.fromkeys(SURVIVED, 0.0), dict.fromkeys(SURVIVED, 1e9)):
        beyond = {h.name: survived[h.name] if h.hard > h.easy else 1e9 - survived[h.name] for h in HARDSHIPS}
        outcomes, rounds = swept(beyond)
        assert rounds == 0
        (table,) = tables(outcomes)
        assert len(table.rows) == len(HARDSHIPS)


@pytest.mark.slow
def test_table_and_bars_show_survived_and_failed_values():
    outcomes, _ = swept()
    (table,) = tables(outcomes)
    delay = next(row for row in table.rows if row[0].startswith("delay"))
    assert delay[1] == "0.005 (0.006)"
    (drawn,) = pictures(outcomes)
    assert drawn.source.startswith("data:image/svg")
