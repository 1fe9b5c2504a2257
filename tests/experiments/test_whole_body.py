"""Sway, squat, lift, walk and push: machines under tasks follow their references, and the record has the errors."""

import msgspec
import numpy as np
import pytest

from idcontrol import robots
from idcontrol.errors import InputError, UnknownName
from idcontrol.experiments import whole_body
from idcontrol.experiments.whole_body import LIFT, SWAY, TROT, WALK
from idcontrol.planners.dcm import Steps
from idcontrol.record.recording import load
from idcontrol.scenes.whole_body import Body, Reach, Walk, WholeBodyConfig, trunk_frames
from idcontrol.show.view.film import Film
from idcontrol.types import ContactForces, State
from tests.parameters import one_fast

ON_SPOT = Steps(count=1, length_m=0.0, single_s=0.4, double_s=0.2, height_m=0.03)


def run(out, config, **changes):
    return whole_body.sway.run(msgspec.structs.replace(config, **changes), out, lambda share: None)


@pytest.fixture(scope="module")
def swayed(tmp_path_factory):
    out = tmp_path_factory.mktemp("sway") / "run"
    return run(out, SWAY, duration_s=0.6), load(out)


def test_swaying_humanoid_keeps_its_centre_of_mass_on_its_path(swayed):
    metrics, record = swayed
    assert metrics["completed"]
    assert metrics["com_err_rms_m"] < 1e-6
    assert metrics["demand_free_share"] == 1.0
    assert record.arrays["com"][-1, 1] - record.arrays["com"][0, 1] > 0.01


def test_predicted_wrenches_of_soles_match_a_plant_with_the_same_law(swayed):
    metrics, record = swayed
    assert metrics["wrench_err_rel"] < 1e-4
    weight = 9.81 * robots.load("talos").system().mass
    assert record.arrays["force"][:, :, 2].sum(axis=1).mean() == pytest.approx(weight, rel=1e-3)


def test_the_record_can_be_replayed(swayed):
    shot = Film(swayed[1], robots.load).shot(100)
    assert len(shot.poses) > 27
    assert shot.measured.shape == (2, 2, 3)


@pytest.mark.parametrize("robot", one_fast(("talos", "g1", "go1"), "go1"))
def test_a_foot_is_lifted_and_set_down_where_it_stood(tmp_path, robot):
    metrics = run(tmp_path / "run", LIFT, robot=robot, walk=ON_SPOT, begin_s=0.5, duration_s=1.3)
    assert metrics["completed"]
    assert metrics["touchdowns"] == 1
    assert metrics["landing_off_max_m"] < 1e-3
    assert metrics["landing_late_max_s"] < 0.01
    assert 0.025 < metrics["clearance_m"] < 0.035


@pytest.mark.parametrize(("robot", "links"), [("talos", 2), ("g1", 2), ("go1", 1), ("anymal", 1)])
def test_trunk_is_the_base_and_the_torso_that_carries_the_arms(robot, links):
    loaded = robots.load(robot)
    contacts = loaded.contacts(0.6)
    frames = trunk_frames(contacts.system, contacts)
    assert len(frames) == links
    assert {"talos": "torso_2_link", "g1": "torso_link"}.get(robot, frames[0]) == frames[-1]


@pytest.mark.parametrize("touch_s", [0.75, 0.9, 0.95])
def test_foot_stands_from_the_tick_in_which_its_force_is_sensed(touch_s):
    """Early, on time and late; a force just after lift-off comes from a foot that grazes the ground."""
    robot = robots.load("talos")
    config = WholeBodyConfig(walk=ON_SPOT, begin_s=0.5)
    body = Body(robot, config)
    walk = Walk(body, config)
    pressed = ContactForces(
        identity=np.array([0]), force=np.array([[0.0, 0.0, 50.0]]), normal=np.array([[0.0, 0.0, 1.0]])
    )
    stands = []
    for tick in range(1000):
        t = 1e-3 * tick
        grazes = 0.5 <= t < 0.55
        forces = pressed if grazes or t >= touch_s - 1e-9 else ContactForces.none()
        stands.append(walk(State(t=t, q=body.home.q, v=body.home.v, forces=forces)).stance[0])
    assert np.flatnonzero(~np.array(stands))[[0, -1]].tolist() == [500, round(1000 * touch_s) - 1]
    (landing,) = walk.landings
    assert landing.late_s == pytest.approx(touch_s - 0.9)
    assert walk(State(t=1.0, q=body.home.q, v=body.home.v)).since_touchdown[0] == pytest.approx(1.0 - touch_s)


@pytest.mark.parametrize(
    ("changes", "error", "line"),
    [
        ({"robot": "panda"}, InputError, "needs a floating base and two feet or more"),
        ({"controller": "pid"}, InputError, "takes no tasks"),
        ({"walk": Steps(count=1, first="middle")}, UnknownName, "middle"),
        ({"walk": Steps(count=1, together=(("left", "right"),))}, InputError, "another one stands"),
        ({"plant": "glue"}, UnknownName, "glue"),
        ({"reach": Reach(frame="base_link", through_m=())}, InputError, "has no point"),
        ({"reach": Reach(frame="base_link"), "walk": Steps(count=1)}, InputError, "set walk.count=0"),
    ],
)
def test_settings_that_do_not_fit_are_refused_in_one_line(tmp_path, changes, error, line):
    with pytest.raises(error, match=line) as refused:
        run(tmp_path / "run", SWAY, **changes)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize("plant", ["coulomb-lcp", "mujoco", "sap"])
@pytest.mark.parametrize("robot", ["talos", "g1"])
def test_humanoid_walks_ten_steps(tmp_path, robot, plant):
    metrics = run(tmp_path / "run", WALK, robot=robot, plant=plant)
    assert metrics["completed"]
    assert metrics["touchdowns"] == 10
    assert metrics["distance_m"] == pytest.approx(1.8, abs=0.02)
    assert metrics["com_err_rms_m"] < 2e-3
    assert metrics["torque_share_max"] < {"talos": 0.7, "g1": 0.8}[robot]
    assert metrics["dtau_mean_nm_s"] < 100.0
    assert metrics["demand_free_share"] > 0.9


@pytest.mark.slow
def test_quadruped_trots_on_tasks_alone(tmp_path):
    metrics = run(tmp_path / "run", TROT)
    assert metrics["completed"]
    assert metrics["touchdowns"] == 40
    assert metrics["com_err_max_m"] < 5e-3
    assert metrics["trunk_err_max_rad"] < 1e-3
