"""The plan of a sweep: combinations, names, commands."""

import math
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idcontrol.config.changes import folder_name
from idcontrol.config.configuration import build, parse_setting
from idcontrol.errors import InputError, UnknownName
from idcontrol.sweeps.plan import plan, product
from tests.sweeps.drift import Config, experiment


class Friction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cap: float = 1.0


def test_a_product_has_every_combination_once_the_last_axis_fastest():
    runs = product({"controller": ["pid", "id"], "mu": [0.1, math.inf]})
    assert runs == [
        {"controller": "pid", "mu": 0.1},
        {"controller": "pid", "mu": math.inf},
        {"controller": "id", "mu": 0.1},
        {"controller": "id", "mu": math.inf},
    ]


def test_an_axis_without_values_is_refused():
    with pytest.raises(InputError, match="mu: there are no values to vary; give one or more"):
        product({"controller": ["pid", "id"], "mu": []})


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.fixed_dictionaries({"gain": finite, "seed": st.integers(0, 9), "mu": st.floats(0, allow_nan=False)}))
def test_the_command_of_a_row_gives_its_configuration(changes):
    """A child process reads the planned values from its command line, including infinities and the sign of zero."""
    (row,) = plan(experiment, [changes])
    words = row.command(Path("out"))
    read = dict(parse_setting(words[i + 1]) for i, word in enumerate(words) if word == "--set")
    assert repr(build(experiment.presets[row.preset], read)) == repr(msgspec.structs.replace(Config(), **changes))


def test_equal_configurations_have_one_name_and_others_have_others():
    same, again, other, paper = plan(
        experiment, [{"gain": 2.0}, {"gain": 2.0, "seed": 0}, {"gain": 2.5}, {"preset": "paper", "gain": 2.0}]
    )
    assert same.name == again.name
    assert len({same.name, other.name, paper.name}) == 3


def test_a_row_name_lists_the_differences_from_the_preset_like_a_run_folder():
    (row,) = plan(experiment, [{"controller": "../my controller", "mu": math.inf, "seed": 3}])
    changed = msgspec.structs.replace(Config(), controller="../my controller", mu=math.inf, seed=3)
    assert row.name[:-6] == "drift-muinf-.._my_controller-seed3-"
    assert row.name[:-7] == folder_name("drift", "default", Config(), changed)
    (paper,) = plan(experiment, [{"preset": "paper"}])
    assert paper.name[:-6] == "drift-paper-"


def test_a_row_begins_with_its_preset():
    (row,) = plan(experiment, [{"preset": "paper"}])
    assert row.config["gain"] == 2.0
    assert row.command(Path("out"))[2:4] == ["--preset", "paper"]


def test_unknown_or_wrong_settings_are_refused_before_anything_runs():
    with pytest.raises(UnknownName, match="no preset 'papers'; did you mean 'paper'"):
        plan(experiment, [{"preset": "papers"}])
    with pytest.raises(UnknownName, match="no setting 'gian'"):
        plan(experiment, [{"gian": 1.0}])
    with pytest.raises(InputError, match=r"--mu: expected a number"):
        plan(experiment, [{"mu": "much"}], {"mu": "--mu"})
