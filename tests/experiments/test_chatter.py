"""Torque chatter: which controllers' torques jump under a noisy demand (math.md, sections 6.4 and 7.4)."""

import numpy as np
import pytest

from idcontrol import robots
from idcontrol.experiments.chatter import Config, experiment, swaying
from idcontrol.experiments.verdicts import AGREES
from idcontrol.robots.robot import foot_centres
from tests.parameters import one_fast


@pytest.fixture(scope="module")
def metrics(tmp_path_factory):
    return experiment.run(Config(duration_s=0.08), tmp_path_factory.mktemp("chatter") / "run", lambda share: None)


def row(metrics, controller, *, projected=True, noise=1.0):
    (findings,) = [
        r
        for r in metrics["rows"]
        if (r["controller"], r["projected"], r["noise_rad_s2"]) == (controller, projected, noise)
    ]
    return findings


@pytest.mark.parametrize("robot", ["links", "solo12"])
def test_feet_stay_where_they_are_while_the_base_sways(robot):
    robot = robots.load(robot)
    system = robot.system()
    path = swaying(robot, 1e-3, 200, 0.1)
    feet = np.array([foot_centres(robot, system, state.q) for state, _ in path])
    # spheres of 1 to 2 cm roll in place: their centres move by millimetres while legs turn by some 0.05 rad
    assert np.abs(feet - feet[0]).max() < 2e-3
    base = np.array([state.q[:3] for state, _ in path])
    assert np.ptp(base, axis=0).min() > 1e-3
    v = np.array([system.from_pinocchio(state.v) for state, _ in path])
    accelerations = np.array([a for _, a in path])
    np.testing.assert_allclose(np.diff(v[:, 6:], axis=0), 1e-3 * accelerations[:-1], atol=1e-12)


@pytest.mark.parametrize(("controller", "most"), [("id-coulomb-qp", 0), ("id-coulomb-smooth", 0), ("id-noslip-lcp", 1)])
@pytest.mark.parametrize("noise", one_fast((0.01, 1.0), 1.0))
def test_mitigated_controllers_do_not_jump(metrics, controller, most, noise):
    assert row(metrics, controller, noise=noise)["jumps"] <= most
    assert row(metrics, controller, noise=noise)["unsolved_steps"] == 0


def test_stage_one_alone_jumps_in_most_steps_and_by_much_more(metrics):
    raw = row(metrics, "id-coulomb-qp-raw", projected=False)
    assert raw["jumps"] > 40  # of 79 steps
    assert raw["dtau_max_nm_s"] > 20 * row(metrics, "id-coulomb-qp")["dtau_max_nm_s"]
    assert metrics["factor_noise_1"] == pytest.approx(
        raw["dtau_max_nm_s"] / row(metrics, "id-coulomb-qp")["dtau_max_nm_s"]
    )


def test_on_a_trot_stage_one_alone_is_bounded_by_friction_alone(metrics):
    """With both stages the largest torque rate does not depend on friction."""
    friction = [one["mu"] for one in metrics["trot"]]
    raw, smoothed = ([one[name] for one in metrics["trot"]] for name in ("raw", "smoothed"))
    assert friction == [0.7, 1.5, 100.0, 1000.0]
    assert np.ptp(smoothed) < 0.05 * max(smoothed)
    assert raw[1] < 100.0 * smoothed[1]
    assert raw[3] > 10.0 * raw[2] > 100.0 * raw[1]  # at least in proportion to friction
    assert metrics["verdicts"]["trot_factor_mu_1000"] == AGREES


def test_the_run_passes_its_checks_and_agrees_with_the_paper(metrics):
    assert metrics["completed"]
    assert metrics["paper"]["factor_noise_1"] == 1e5
