"""The trot end to end: it walks, predicts, is repeatable, and reports faults."""

import math

import msgspec
import numpy as np
import pytest

from idcontrol.controllers import InverseSettings
from idcontrol.errors import InputError
from idcontrol.experiments.trot import PRESETS, experiment
from idcontrol.record.metrics import SHORTFALL
from idcontrol.record.recording import load
from idcontrol.scenes.disturbances import Disturbance, Kick
from idcontrol.scenes.settings import AssumedFriction, FeedbackGains, TunedGains
from idcontrol.scenes.walk import WalkConfig, WalkPath, WalkScene
from idcontrol.sensing import Sensing
from idcontrol.sensing.disturbance import BiasLevel
from idcontrol.types import ContactLaw


def run(folder, **changes):
    """Metrics and record of one trot."""
    metrics = experiment.run(WalkConfig(**changes), folder, lambda share: None)
    return metrics, load(folder)


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    """Two seconds: standing, walking, and the turn in place at the first waypoint."""
    return run(tmp_path_factory.mktemp("trot") / "walk", duration_s=2.0)


def test_the_trot_completes_and_every_step_of_both_sides_is_solved(walk):
    metrics, _ = walk
    assert metrics["completed"]
    assert metrics["fell_at_s"] is None
    by = {"by": {"sticking": 2000}}  # the paper's trot never slides
    assert metrics["solver"] == {"solved": 2000, "repaired": 0, "fallback": 0, "failed": 0} | by
    assert metrics["plant_solver"]["unsolved"] == metrics["plant_solver"]["regularized"] == 0
    # math.md 13.3
    assert metrics["plant_solver"]["residual_max"] < 1e-8


def test_it_meets_the_goals_of_the_planner_at_high_friction(walk):
    """The goals hold; the 30 s runs are in the slow test below."""
    metrics, _ = walk
    assert metrics["q_err_rad"] < 0.004
    assert metrics["qd_err_rad_s"] < 0.06
    assert metrics["force_err_rel"] < 0.006
    assert metrics["dtau_mean_nm_s"] < 22
    assert metrics["dtau_max_nm_s"] < 2000
    assert metrics["base_height_err_m"] < 1e-3
    assert metrics["slip_m_s"] < 1e-3
    assert metrics["touchdown_err_s"] < 2e-3


def test_feet_are_lifted_as_high_as_planned_and_stand_where_they_should(walk):
    """A foot that drags would show a gap of zero in mid-swing."""
    _, record = walk
    gap, stance = record.arrays["gap"], record.arrays["stance"] > 0.5
    for foot in range(4):
        swings = np.split(gap[:, foot], np.flatnonzero(np.diff(stance[:, foot].astype(int))) + 1)
        heights = [part.max() for part in swings if part.max() > 1e-3]
        assert len(heights) >= 5
        # planned 15 mm; the first swings start from another height by some tenths of a millimetre
        assert min(heights) > 0.013
        assert max(heights) < 0.017
        assert np.abs(gap[stance[:, foot], foot]).max() < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(("mu", "push"), [(0.8, 0.25), (0.1, 0.1)])
def test_a_kick_at_lift_off_is_absorbed(tmp_path, mu, push):
    kick = Kick(at_s=0.8, velocity_m_s=(0.0, push, 0.0))
    metrics, record = run(tmp_path / "kick", duration_s=1.8, mu=mu, kick=kick)
    assert metrics["completed"]
    # upright again in the last half second
    assert record.arrays["base_tilt"][-500:].max() < 0.02


BIAS = BiasLevel(attitude_rad=math.radians(2.0), encoder_rad=0.03)


@pytest.mark.slow
def test_a_robot_walks_level_by_its_estimate_despite_tilt_and_encoder_biases(tmp_path):
    """A foot stands on the actual ground: in a level world, feet would miss it by up to a centimetre."""
    metrics, record = run(tmp_path / "bias", duration_s=2.0, sensing=Sensing(bias=BIAS))
    assert metrics["completed"]
    assert metrics["base_height_err_m"] < 3e-3
    assert metrics["slip_m_s"] < 3e-3
    assert metrics["dtau_mean_nm_s"] < 35.0  # without a bias 18
    # an unknown tilt of two degrees; encoders add half a degree, and sway another half
    assert record.arrays["base_tilt"].max() < np.radians(4.5)
    assert np.degrees(record.arrays["base_tilt"][500:].mean()) == pytest.approx(2.0, abs=1.0)


@pytest.mark.slow
def test_feet_of_a_robot_with_unmodelled_load_land_on_the_ground(tmp_path):
    """They lag their plan by millimetres and descend more slowly, which must not count as an obstacle."""
    _, record = run(tmp_path, duration_s=2.1, disturbance=Disturbance(payload_share=0.25))
    stance = record.arrays["stance"] > 0.0
    lands = stance[1:] & ~stance[:-1]
    assert lands.sum() > 20
    assert record.arrays["gap"][1:][lands].max() < 5e-4  # a fifth of the gap without this rule


@pytest.mark.slow
@pytest.mark.parametrize("plant", ["coulomb-lcp", "mujoco"])
@pytest.mark.parametrize("robot", ["links", "solo12", "go1", "anymal"])
def test_every_robot_walks_with_biased_sensors(tmp_path, robot, plant):
    imu = msgspec.structs.replace(BIAS, gyro_rad_s=0.01, accelerometer_m_s2=0.2)
    for base, bias in (("plant", BIAS), ("estimated", imu)):
        sensing = Sensing(base=base, bias=bias)
        metrics, _ = run(tmp_path / base, robot=robot, plant=plant, sensing=sensing, duration_s=30.0)
        assert metrics["completed"]
        assert metrics["slip_m_s"] < 5e-3
        assert metrics["base_tilt_rad"] < np.radians(3.0)


def test_too_weak_motors_are_reported_and_never_exceeded(tmp_path):
    folder = tmp_path / "weak"
    folder.mkdir()
    source = experiment_robot_folder()
    (folder / "links.urdf").write_text((source / "links.urdf").read_text())
    text = (source / "robot.toml").read_text()
    assert '"*" = 4 }' in text
    (folder / "robot.toml").write_text(text.replace('"*" = 4 }', '"*" = 1.2 }'))
    metrics, record = run(tmp_path / "run", duration_s=1.0, robot=str(folder / "robot.toml"))
    assert np.abs(record.arrays["tau"]).max() <= 1.2
    assert metrics["torque_clipped_steps"] > 0
    # if contacts can share the load so that all motors stay within their limits, the demand is not relaxed
    assert 0 < metrics["solver"]["repaired"] < 500


def experiment_robot_folder():
    """Where the robot file of links is."""
    from idcontrol import robots

    return robots.load("links").path.parent


@pytest.mark.slow
def test_assuming_too_much_friction_without_learning_fails_without_absurd_torques(tmp_path, recwarn):
    friction = AssumedFriction(estimate=0.4)
    inverse = InverseSettings(learn_friction=False)
    metrics, record = run(tmp_path / "fooled", duration_s=4.0, mu=0.1, friction=friction, inverse=inverse)
    assert not metrics["completed"]
    assert metrics["qd_ref_max_rad_s"] <= 15.0
    assert np.abs(record.arrays["tau"]).max() <= 4.0
    assert all(np.isfinite(record.arrays[name]).all() for name in ("q", "v", "q_des", "v_des", "a_des", "tau"))
    assert not [warning for warning in recwarn if issubclass(warning.category, RuntimeWarning)]


@pytest.mark.slow
@pytest.mark.parametrize("command", [(3.0, 0.0, 0.0), (0.0, 3.0, 0.0), (0.0, 0.0, 10.0), (3.0, 0.0, 10.0)])
@pytest.mark.parametrize(("robot", "top"), [("links", 0.8), ("solo12", 0.8), ("go1", 1.5), ("anymal", 1.5)])
def test_whatever_is_commanded_a_robot_walks_for_thirty_seconds(tmp_path, robot, top, command):
    path = WalkPath(kind="command", command=((0.0, *command),))
    metrics, record = run(tmp_path / "run", robot=robot, path=path)
    assert metrics["fell_at_s"] is None
    assert metrics["followed_m"] == pytest.approx(metrics["granted_m"], rel=SHORTFALL, abs=0.05)
    assert metrics["followed_rad"] == pytest.approx(metrics["granted_rad"], rel=SHORTFALL, abs=0.3)
    if command == (3.0, 0.0, 0.0):
        assert record.arrays["granted"][-1, 0] >= top


def test_a_controller_assumes_a_part_of_the_friction_up_to_a_cap():
    assert AssumedFriction().of_controller(0.1, ContactLaw()) == pytest.approx(0.08)
    assert AssumedFriction().of_controller(np.inf, ContactLaw()) == 0.7
    assert AssumedFriction(estimate=0.3, share=1.0).of_controller(0.1, ContactLaw()) == 0.3


def test_unset_gains_come_from_the_robot_file():
    def gains(**options):
        scene = WalkScene.of(WalkConfig(gains=FeedbackGains(**options)))
        setup = scene.controller_setup()
        return setup.acceleration_gains, setup.torque_gains, scene.robot

    acceleration, torque, robot = gains(kp_1_s2=5e3, kd_nm_s_rad=0.1)
    known = robot.description.gains.acceleration
    assert set(acceleration.kp) == {5e3}
    assert set(acceleration.kd) == {known.kd_1_s}
    kp, _ = robot.torque_gains(robot.system().actuated_names)
    np.testing.assert_array_equal(torque.kp, kp)
    assert set(torque.kd) == {0.1}


def test_tuned_gains_apply_to_their_controllers_unless_gains_are_set():
    tuned = (
        TunedGains(controllers=("pid", "id-sap"), kp_nm_rad=7.0, kd_1_s=11.0),
        TunedGains(controllers=("id-sap",), kp_nm_rad=8.0),
    )
    gains = FeedbackGains(kd_1_s=5.0, beside=True, tuned=tuned)
    for controller in ("pid", "id-sap"):
        pair = gains.of(controller)
        assert (pair.kp_1_s2, pair.kd_1_s, pair.kp_nm_rad, pair.kd_nm_s_rad) == (None, 5.0, 7.0, None)
        assert pair.beside
    assert gains.of("id-coulomb-qp") == gains


@pytest.mark.slow
def test_the_original_planner_with_original_feedback_stays_upright_and_goes_backwards(tmp_path):
    config = msgspec.structs.replace(PRESETS["paper"], controller="pid", duration_s=2.0)
    metrics = experiment.run(config, tmp_path / "paper", lambda share: None)
    assert metrics["fell_at_s"] is None
    assert metrics["followed_m"] < 0.0 < metrics["granted_m"]
    assert not metrics["completed"]
    events = [event["what"] for event in load(tmp_path / "paper").events]
    assert any("did not do what it was asked" in what for what in events)
    with pytest.raises(InputError, match="planner=paper is the original of the robot links"):
        experiment.run(msgspec.structs.replace(config, robot="solo12"), tmp_path / "no", lambda share: None)


@pytest.mark.slow
@pytest.mark.parametrize("controller", ["id-coulomb-qp", "pid"])
@pytest.mark.parametrize("mu", [0.1, 0.8, np.inf])
def test_thirty_seconds_of_the_diamond(tmp_path, controller, mu):
    metrics, _ = run(tmp_path / "run", controller=controller, mu=mu)
    assert metrics["completed"]
    if controller == "id-coulomb-qp":
        assert metrics["waypoints_reached"] == 7
        assert metrics["q_err_rad"] < (0.007 if mu == 0.1 else 0.004)
        assert metrics["qd_err_rad_s"] < (0.10 if mu == 0.1 else 0.06)
        assert metrics["force_err_rel"] < 0.006
        assert metrics["dtau_mean_nm_s"] < 22
        assert metrics["dtau_max_nm_s"] < 2000
