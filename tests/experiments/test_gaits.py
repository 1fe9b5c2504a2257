"""Gaits end to end: each walks as far as commanded, on the feet that it plans, and one follows the other."""

import numpy as np
import pytest

from idcontrol.errors import InputError
from idcontrol.experiments.trot import experiment
from idcontrol.record.recording import load
from idcontrol.scenes.walk import WalkConfig, WalkGait, WalkPath, WalkScene
from tests.parameters import one_fast

AHEAD = WalkPath(kind="command")
ROBOTS = ("links", "solo12", "go1", "anymal")
KINDS = ("walk", "pace", "bound", "flying-trot")


def run(out, **settings):
    out.mkdir()
    metrics = experiment.run(WalkConfig(**settings), out, lambda share: None)
    return metrics, load(out)


def steps_beyond_motion(arrays, h=1e-3):
    """Return the error of each joint reference to the extrapolation of the last one [rad]."""
    q, v, a = arrays["q_des"], arrays["v_des"], arrays["a_des"]
    return np.abs(q[1:] - q[:-1] - h * (v[:-1] + h * a[:-1]))


def walks_well(metrics, arrays):
    """True if feet carry load and swing as planned without sinking or dragging, and the base keeps its height."""
    stance, loaded = arrays["stance"] > 0.5, arrays["force"][:, :, 2] > 1e-3
    assert metrics["completed"], metrics["missed"]
    assert metrics["unreachable_steps"] == 0
    assert np.mean(loaded[~stance]) < 0.07  # a foot lands some milliseconds early, of swings of 40 to 120
    assert arrays["gap"].min() > -1e-4
    assert metrics["base_height_err_m"] < 0.05 * arrays["base_ref"][0, 2]


@pytest.mark.parametrize("kind", one_fast(("pace", "flying-trot"), "flying-trot"))
def test_a_gait_walks_the_commanded_distance_on_the_planned_feet(tmp_path, kind):
    metrics, record = run(tmp_path / kind, path=AHEAD, gait=WalkGait(kind=kind), duration_s=2.5)
    walks_well(metrics, record.arrays)
    standing = (record.arrays["force"][500:, :, 2] > 1e-3).sum(axis=1)
    assert set(np.unique(standing)) >= ({0, 2} if kind == "flying-trot" else {2, 4})
    if kind == "pace":  # the two feet of a side
        two = record.arrays["stance"][500:][standing == 2] > 0.5
        assert np.mean(two[:, 0] == two[:, 2]) > 0.95


@pytest.mark.slow
def test_gaits_follow_each_other_and_the_reference_never_jumps(tmp_path):
    gaits = ((0.8, "walk"), (1.9, "flying-trot"), (3.0, "stand"), (3.8, "trot"))
    metrics, record = run(tmp_path / "many", path=WalkPath(kind="command", gaits=gaits), duration_s=5.0)
    arrays = record.arrays
    assert metrics["fell_at_s"] is None
    assert metrics["unreachable_steps"] == 0
    assert steps_beyond_motion(arrays).max() < 1e-3 + 1e-9  # a milliradian a tick, as at every touchdown
    t, stance = arrays["t"], arrays["stance"] > 0.5
    least = [int(stance[(begin < t) & (t < end)].sum(axis=1).min()) for begin, end in ((1.3, 1.9), (2.5, 3.0))]
    assert least == [3, 0]
    assert stance[(t > 3.6) & (t < 3.9)].all()
    assert stance[t > 4.2].sum(axis=1).min() == 2
    assert arrays["base_tilt"].max() < 0.05


def test_standing_is_a_gait(tmp_path):
    metrics, record = run(tmp_path / "still", path=AHEAD, gait=WalkGait(kind="stand"), duration_s=0.5)
    assert metrics["completed"]
    assert (record.arrays["stance"] > 0.5).all()


def test_gait_settings_change_only_the_gait_and_a_short_duty_gives_flight():
    expected = WalkGait(kind="trot", duty=0.45, period_s=0.25, phase=(0.0, 0.5, 0.5, 0.0))
    scene = WalkScene.of(WalkConfig(gait=expected))
    gait = scene.planner(scene.guide()).gait
    assert (gait.duty, gait.period_s, gait.touchdown, gait.sways) == (0.45, 0.25, (0.0, 0.5, 0.5, 0.0), True)


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"gait": WalkGait(duty=1.5)}, "duty is 1.5"),
        ({"gait": WalkGait(phase=(0.0, 0.5))}, "2 touchdowns for 4 feet"),
        ({"path": WalkPath(gaits=((2.0, "pace"), (1.0, "trot")))}, "times must increase"),
        ({"gait": WalkGait(kind="pace"), "planner": "paper"}, "planner=paper has only trots"),
    ],
)
def test_a_gait_that_cannot_be_is_refused(settings, what):
    with pytest.raises(InputError, match=what):
        WalkScene.of(WalkConfig(**settings)).simulated()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("robot", ROBOTS)
def test_every_robot_walks_with_every_gait(tmp_path, robot, kind):
    metrics, record = run(tmp_path / "run", robot=robot, path=AHEAD, gait=WalkGait(kind=kind), duration_s=10.0)
    walks_well(metrics, record.arrays)
    assert steps_beyond_motion(record.arrays).max() < 1e-3 + 1e-9
