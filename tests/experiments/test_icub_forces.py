"""Forces on feet from motion: statics, the split between soles, delays, and the measured walk if its file exists."""

import msgspec
import numpy as np
import pytest

from idcontrol.errors import InputError
from idcontrol.experiments import icub_forces
from idcontrol.experiments.icub_forces import Config
from tests import scenes
from tests.experiments.measured import measured

FEET = np.array([[[x, y + side, 0.0] for x in (-0.05, 0.1) for y in (-0.025, 0.025)] for side in (0.08, -0.08)])
ALL = np.ones((2, 4))


def pressed(at, weight=324.0):
    """The wrench of a vertical force at a point of the ground."""
    return np.array([0.0, 0.0, weight, at[1] * weight, -at[0] * weight, 0.0])


def test_one_foot_carries_all_when_the_pressure_is_at_its_outer_edge():
    np.testing.assert_allclose(icub_forces.share(pressed((0.025, 0.105)), FEET, ALL, 1e-4), [324.0, 0.0], atol=0.1)


def test_feet_share_the_weight_evenly_when_the_pressure_is_between_them():
    np.testing.assert_allclose(icub_forces.share(pressed((0.025, 0.0)), FEET, ALL, 0.1), [162.0, 162.0], rtol=1e-6)


def test_a_foot_above_the_floor_carries_nothing_wherever_the_pressure_seems_to_be():
    lifted = np.array([[1e-12] * 4, [1.0] * 4])
    np.testing.assert_allclose(icub_forces.share(pressed((0.025, 0.05)), FEET, lifted, 0.1), [0.0, 324.0], atol=1e-3)


def test_the_share_of_pressure_explained_by_the_split_is_one_for_soles_loaded_in_their_middles():
    rng = np.random.default_rng(0)
    split = rng.uniform(0.3, 0.7, 50)
    corners, measured_n = np.tile(FEET, (50, 1, 1, 1)), 324.0 * np.column_stack((split, 1.0 - split))
    middle = 0.08 * split - 0.08 * (1.0 - split)
    within = 0.01 * (2.0 * split - 1.0)  # the load of both soles acts equally far from their middles
    for off, share in ((0.0, 1.0), (within, 0.16 / 0.18)):
        wrench = np.array([pressed((0.025, y)) for y in middle + off])
        compared = icub_forces.lateral(wrench, corners, measured_n)
        assert compared["cop_r"] == pytest.approx(1.0)
        assert compared["cop_share"] == pytest.approx(share)
        assert compared["cop_off_max_m"] == pytest.approx(np.abs(off).max(), abs=1e-12)


def test_standing_still_the_ground_carries_the_weight_below_the_mass_centre():
    system = scenes.links()
    q = np.tile(scenes.home(system), (5, 1))
    wrench = icub_forces.ground_wrench(system, q, 0.01)
    weight = system.mass * 9.81
    np.testing.assert_allclose(wrench[:, :3], [[0.0, 0.0, weight]] * 5, atol=1e-9 * weight)
    com = system.com(q[0])
    np.testing.assert_allclose(wrench[2, 3:5], [com[1] * weight, -com[0] * weight], atol=1e-9 * weight)


def test_a_jump_of_the_motion_capture_is_filled_in_and_nothing_else_is():
    base = np.column_stack([0.1 * np.arange(200) * 0.01] * 6)
    jumped = base.copy()
    jumped[100:120, 0] += 0.05
    mended, filled = icub_forces._mended(jumped, 0.01)
    assert 20 < filled < 80
    np.testing.assert_allclose(mended, base, atol=1e-12)
    assert icub_forces._mended(base, 0.01)[1] == 0


def test_the_delay_follows_from_the_total_force_alone():
    rng = np.random.default_rng(0)
    total = icub_forces.smooth(rng.normal(size=600), 5.0, 0.01)
    assert icub_forces.delay(total, icub_forces.late(total, 3), 0.01) == 3


def test_smoothing_keeps_slow_signals_and_removes_fast_ones():
    t = 0.01 * np.arange(1000)
    slow, fast = np.sin(2 * np.pi * 0.2 * t), np.sin(2 * np.pi * 15.0 * t)
    np.testing.assert_allclose(icub_forces.smooth(slow + fast, 1.5, 0.01)[100:-100], slow[100:-100], atol=0.02)


def test_a_file_that_is_no_log_of_a_walk_is_refused(tmp_path):
    (tmp_path / "walk.npz").write_bytes(b"no archive")
    with pytest.raises(InputError, match="is no log of a walk"):
        icub_forces.experiment.run(Config(data=str(tmp_path / "walk.npz")), tmp_path / "out", lambda share: None)


def test_measured_forces_of_a_walking_humanoid_are_predicted(tmp_path):
    path = measured("icub_walk.npz")
    metrics = icub_forces.experiment.run(Config(data=str(path)), tmp_path, lambda share: None)
    ways = metrics["ways"]
    # while standing the split may err by 50 N, so the motion alone does not reach 30 N
    assert metrics["r"] > 0.95
    assert metrics["rms_n"] < 36.0
    assert ways["weighed"]["r"] > 0.97
    assert ways["weighed"]["rms_n"] < 24.0
    assert ways["naive"]["r"] < ways["alone"]["r"] < ways["aligned"]["r"] < ways["weighed"]["r"]


def test_lateral_pressure_of_a_swaying_humanoid_is_predicted_to_half_a_sole(tmp_path):
    path = measured("icub_sway.npz")
    config = msgspec.structs.replace(icub_forces.SWAY, data=str(path))
    metrics = icub_forces.experiment.run(config, tmp_path, lambda share: None)
    half_sole = 0.5 * (config.sole_m[3] - config.sole_m[2])
    assert metrics["cop_r"] > 0.95
    assert metrics["cop_off_max_m"] < half_sole  # the motion does not determine it
    assert 0.5 < metrics["cop_share"] < 0.65  # below 1: loads act away from the middles of the soles
    assert metrics["total_err_n"] == pytest.approx(10.1, abs=0.5)  # offsets of the sensors
