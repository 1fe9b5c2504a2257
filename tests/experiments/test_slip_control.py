"""The soft gripper of Castro et al. 2022: forces, patches and friction torque against closed forms; its claims."""

import msgspec
import numpy as np
import pytest

from idcontrol.experiments.slip_control import Config, Gripper, experiment, friction_torque, grip_force, patch_radius

FIRM = Config(offset_m=0.0, periods=1, tolerance=1e-9)


def held(config, force, steps=100, **load):
    gripper = Gripper(msgspec.structs.replace(config, firm_n=force, loose_n=force))
    for _ in range(steps):
        gripper.step(force, **load)
    return gripper


@pytest.mark.parametrize("force", [1.0, 4.0])
def test_pads_sink_in_as_the_foundation_law_says(force):
    gripper = held(FIRM, force)
    depth = patch_radius(FIRM, force) ** 2 / (2.0 * FIRM.pad_radius_m)
    left, right = gripper.q[7:9]
    height = 0.5 * FIRM.bar_m[1] - 0.5 * (left - right)
    assert gripper.grip == pytest.approx(force, rel=1e-5)  # 0.5 s after the grip, 25 times the pads' τ_d
    # a sum over cells differs from the integral at the rim, to second order in the size of cells
    assert height == pytest.approx(depth, rel=0.5 * (FIRM.cell_m / patch_radius(FIRM, force)) ** 2)


def test_a_bar_that_is_held_firmly_stays_where_it_is():
    gripper = held(Config(), 16.0, steps=200)
    assert gripper.solved
    assert abs(gripper.pitch) < 1e-3
    assert np.abs(gripper.q[:3] - [Config().offset_m, 0.0, 0.0]).max() < 1e-4


@pytest.mark.parametrize(("share", "turns"), [(0.9, False), (1.1, True)])
def test_the_bar_turns_beyond_the_torque_of_two_round_patches_and_not_before(share, turns):
    """This torque is (16/15) μ N a; cells of a third of the radius change it by less than a tenth."""
    gripper = held(FIRM, 1.0, steps=60, torque=share * friction_torque(FIRM, 1.0), gravity=0.0)
    assert (abs(gripper.v[4]) > 0.05) == turns


def test_the_command_is_firm_for_three_quarters_of_each_period():
    t = np.arange(0.0, 12.0, 0.01)
    forces = np.array([grip_force(Config(), x) for x in t])
    assert np.mean(forces == 16.0) == pytest.approx(0.75, abs=2e-3)


@pytest.mark.slow
def test_every_check_of_one_period_holds(tmp_path):
    metrics = experiment.run(experiment.presets["short"], tmp_path / "run", lambda share: None)
    assert metrics["completed"], metrics["checks"]
    assert metrics["pitch_first_slip_rad"] > 0.3
