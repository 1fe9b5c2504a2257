"""The base of all experiments: refusals before a run, and shared functions."""

from importlib.metadata import entry_points

import msgspec
import numpy as np
import pytest

from idcontrol.errors import InputError, UnknownName
from idcontrol.experiments.case import exponent, order

EXPERIMENTS = entry_points(group="idcontrol.experiments")


@pytest.mark.parametrize(
    ("name", "changes", "line"),
    [
        ("box-grip", {"plant": "glue"}, "noslip"),
        ("chatter", {"duration_s": 0.001}, "shorter than 3 periods"),
        ("enumeration", {"robot": "arm"}, "no feet or no floating base"),
        ("enumeration", {"mu": np.inf}, "mu=inf: the search is over modes"),
        ("icub-forces", {}, "--set data=PATH"),
        ("incline", {"plant": "nosllip"}, "did you mean 'noslip'"),
        ("lcp-suite", {"sizes": ()}, "give some of the paper's, 2, 10, 16"),
        ("lcp-suite", {"sizes": (2, 11)}, "give some of the paper's, 2, 10, 16"),
        ("pendulum-limit", {"steps_s": (0.1,)}, "steps_s: 0.1 s is longer"),
        ("pendulum-limit", {"duration_s": 0.2}, "duration_s=0.2 is too short"),
        ("scaling", {"schemes": ("lemke",)}, "schemes: 'lemke' is not one of"),
        ("scaling", {"contacts": ()}, "contacts is empty"),
        ("sphere-stack", {"plant": "spring"}, "constraint"),
        ("tosses", {}, "--set data=PATH"),
    ],
)
def test_settings_that_cannot_be_run_are_refused_in_one_line(name, changes, line, tmp_path):
    experiment = EXPERIMENTS[name].load()
    config = msgspec.structs.replace(experiment.presets["default"], **changes)
    with pytest.raises((InputError, UnknownName), match=line) as refused:
        experiment.run(config, tmp_path, lambda share: None)
    assert "\n" not in str(refused.value)


def test_exponents_are_slopes_of_logarithms():
    assert exponent([1.0, 10.0, 100.0], [3.0, 300.0, 30000.0]) == pytest.approx(2.0)
    assert order({1e-1: 7.0, 1e-2: 5e-3, 1e-3: 5e-6}) == pytest.approx(3.0)  # by the two finest steps
