"""A trot with a slow or late loop tracks as well as a fast one, with impedance commands and a known delay."""

import pytest

from idcontrol.config import configuration
from idcontrol.errors import InputError
from idcontrol.scenes.locomotion import record_walk
from idcontrol.scenes.session import WalkSession
from idcontrol.scenes.walk import CommandSettings, WalkConfig, WalkScene

LATE = {"disturbance.delay_s": 0.004}
SLOW = {"rate_hz": 250.0, "plant_rate_hz": 1000.0}
KNOWN = {"command.ahead_s": 0.004}
DRIVEN = {"command.kind": "impedance"}
HELPED = [LATE | KNOWN, LATE | KNOWN | DRIVEN, SLOW | DRIVEN, SLOW | LATE | KNOWN | DRIVEN]


def tracking(folder, robot, duration_s, settings):
    config = configuration.build(WalkConfig(), {"robot": robot, "duration_s": duration_s, **settings})
    metrics = record_walk(WalkScene.of(config), folder)
    assert metrics["completed"]
    return metrics["q_err_rad"]


@pytest.mark.slow
@pytest.mark.parametrize(("robot", "duration_s"), [("links", 10.0), ("go1", 10.0), ("solo12", 10.0)])
def test_with_prediction_or_drives_a_late_or_slow_trot_tracks_nearly_as_well(tmp_path, robot, duration_s):
    plain = tracking(tmp_path / "plain", robot, duration_s, {})
    # without help, a late or slow loop has at least 2.3 times the error
    for name, settings in (("late", LATE), ("slow", SLOW)):
        assert tracking(tmp_path / name, robot, duration_s, settings) > 2.0 * plain
    for k, settings in enumerate(HELPED):
        assert tracking(tmp_path / str(k), robot, duration_s, settings) <= 1.5 * plain


@pytest.mark.slow
def test_a_known_delay_costs_nothing_with_the_right_model(tmp_path):
    """The model needs the best estimate of friction: with the controllers' reduced one, landing feet would slide."""
    plain = tracking(tmp_path / "plain", "anymal", 2.0, {})
    # only the start differs: the torques before the first command arrives are unknown
    assert tracking(tmp_path / "late", "anymal", 2.0, LATE | KNOWN) == pytest.approx(plain, rel=0.02)


@pytest.mark.slow
def test_a_pd_law_that_a_slow_loop_makes_unstable_is_stable_in_drives(tmp_path):
    def run(folder, settings):
        config = configuration.build(WalkConfig(), {"controller": "pid", "duration_s": 3.0, **settings})
        return record_walk(WalkScene.of(config), tmp_path / folder)

    plain, slow, driven = run("plain", {}), run("slow", SLOW), run("driven", SLOW | DRIVEN)
    # it shakes with seven times the torque, and may fall
    assert slow["q_err_rad"] > 5.0 * plain["q_err_rad"]
    assert slow["tau_mean_nm"] > 3.0 * plain["tau_mean_nm"]
    assert driven["completed"]
    assert driven["q_err_rad"] < 1.5 * plain["q_err_rad"]
    # records contain the torques of the drives, although the feed-forward is zero
    assert driven["tau_mean_nm"] == pytest.approx(plain["tau_mean_nm"], rel=0.1)


def test_a_known_delay_is_a_whole_number_of_periods():
    config = configuration.build(WalkConfig(), {"command.ahead_s": 0.0005})
    with pytest.raises(InputError, match=r"command\.ahead_s is 0\.0005; it must be a whole number of control periods"):
        WalkScene.of(config).simulated()


def test_a_loop_on_the_wall_clock_refuses_to_look_ahead():
    with pytest.raises(InputError, match=r"command\.ahead_s is only for idcontrol run"):
        WalkSession("trot", WalkConfig(command=CommandSettings(ahead_s=0.004)))
