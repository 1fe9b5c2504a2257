"""A hand presses against a wall: force at rest, friction while it slides, touchdown, and settings that do not fit."""

import pickle

import msgspec
import numpy as np
import pinocchio as pin
import pytest

from idcontrol import robots
from idcontrol.errors import InputError, UnknownName
from idcontrol.experiments import whole_body
from idcontrol.experiments.whole_body import ARM_WALL, WALL
from idcontrol.scenes.motions import Reach
from idcontrol.scenes.press import Wall
from idcontrol.scenes.whole_body import Unknown, WholeBodyScene
from idcontrol.show.view.stage import Stage

FORCE, MU = 20.0, 0.6
PUSHES = np.array([-1.0, 0.0, 0.0])
"""Normal of the wall."""
BRIEF = msgspec.structs.replace(
    ARM_WALL,
    reach=Reach(frame="panda_hand", through_m=((0.0, 0.0, 0.0), (0.0, 0.02, 0.01), (0.0, 0.0, 0.02)), each_s=0.3),
    wall=Wall(distance_m=3e-3, approach_s=0.05, touch_m_s=0.005),
    duration_s=1.7,
)
"""A short run: the hand begins close to the wall, and presses with the side of its tip."""


def arrays_of(config):
    """Run a configuration without recording it; return its channels, and its findings by key."""
    results = whole_body.run(config, lambda share: None)
    arrays = {key: series.values for key, series in results.series.items()}
    return arrays, {finding.key: finding for finding in results.findings}


@pytest.fixture(scope="module")
def pressed():
    return arrays_of(BRIEF)


def test_force_at_rest_reaches_its_target_within_the_cone(pressed):
    arrays, _ = pressed
    force = arrays["force"][-1, -1]
    assert force @ PUSHES == pytest.approx(FORCE, rel=1e-4)
    assert np.linalg.norm(force[1:]) < MU * FORCE
    np.testing.assert_allclose(arrays["force_pred"][-1, -1], force, atol=1e-3)


def test_force_balances_torques_gravity_and_inertia(pressed):
    """In each period τ + Jᵀf equals M (v⁺ - v)/h + c; the right side and J are from Pinocchio."""
    arrays, _ = pressed
    robot = robots.load("panda")
    model, hand = robot.system().model, robot.description.hands[0]
    data, frame = model.createData(), model.getFrameId(hand.frame)
    for k in np.flatnonzero(arrays["force"][:-1, -1] @ PUSHES > 1.0)[::40]:
        q, v, after = arrays["q"][k], arrays["v"][k], arrays["v"][k + 1]
        J = pin.computeFrameJacobian(model, data, q, frame, pin.LOCAL_WORLD_ALIGNED)
        arm = data.oMf[frame].rotation @ np.array(hand.offset_m) - hand.radius_m * PUSHES
        pushed = arrays["tau"][k] + (J[:3] - pin.skew(arm) @ J[3:]).T @ arrays["force"][k, -1]
        np.testing.assert_allclose(pin.rnea(model, data, q, v, (after - v) * BRIEF.rate_hz), pushed, atol=1e-6)


def test_sliding_hand_feels_friction_against_its_slip_within_the_cone(pressed):
    arrays, _ = pressed
    slide, force = arrays["slide"][1:, -1], arrays["force"][:-1, -1]  # the force acts until the next row
    slides = np.linalg.norm(slide, axis=1) > 0.01
    assert slides.sum() > 300
    slide, force, predicted = slide[slides], force[slides], arrays["force_pred"][:-1, -1][slides]
    normal, friction = force @ PUSHES, np.linalg.norm(force[:, 1:], axis=1)
    assert (friction <= MU * normal * (1.0 + 1e-6)).all()
    assert (friction >= MU / np.sqrt(2.0) * normal * (1.0 - 1e-6)).all()  # the plant's pyramid is inside the cone
    assert ((slide * force).sum(axis=1) < 0.0).all()
    assert np.median(np.linalg.norm(predicted - force, axis=1)) < 1e-3 * FORCE


def test_hand_touches_without_a_blow_and_follows_its_way(pressed):
    _, findings = pressed
    assert all(finding.holds is not False for finding in findings.values())
    assert findings["touch_force_max_n"].value < FORCE
    assert findings["slid_m"].value == pytest.approx(0.045, rel=0.1)  # two straight pieces: 22.4 and 22.4 mm


def test_sphere_touches_the_nearer_of_ground_and_wall():
    robot = robots.load("panda").at_wall("panda_hand", (-2.0, 0.0, 0.0), -0.35)
    contacts = robot.contacts(MU)
    contacts.system.update(robot.standing_state().q, np.zeros(9))
    contacts.surface[-1] = 0.3, 0.1, -0.2
    contacts = pickle.loads(pickle.dumps(contacts))
    contacts.system.update(robot.standing_state().q, np.zeros(9))
    detected = contacts.detect(0.1)
    x, radius = contacts.centre[:, 0], contacts.radius
    np.testing.assert_allclose(detected.gap, 0.35 - x - radius)
    np.testing.assert_allclose(detected.axes[:, 0], np.tile(PUSHES, (5, 1)))
    np.testing.assert_allclose(detected.point, contacts.centre - radius[:, None] * PUSHES)
    velocity = detected.surface_velocity.reshape(3, 5)
    np.testing.assert_allclose(detected.axes[-1].T @ velocity[:, -1], [0.3, 0.1, -0.2], atol=1e-15)
    assert not velocity[:, :-1].any()
    far = robots.load("panda").at_wall("panda_hand", (-1.0, 0.0, 0.0), -2.0).contacts(MU)
    far.system.update(robot.standing_state().q, np.zeros(9))
    far.detect(np.inf)
    np.testing.assert_allclose(far.axes[:, 0], np.tile([0.0, 0.0, 1.0], (5, 1)))


@pytest.mark.slow
def test_replay_shows_the_hand_at_its_wall(pressed):
    arrays, _ = pressed
    stage = Stage(WholeBodyScene(BRIEF).scenery(), robots.load)
    row = {name: values[-1] for name, values in arrays.items()}
    shot = stage.at(row)
    assert stage.feet == 5
    np.testing.assert_allclose(shot.contact[-1, :3], arrays["cop"][-1, -1])
    np.testing.assert_allclose(pin.XYZQUATToSE3(shot.contact[-1]).rotation[:, 2], PUSHES, atol=1e-12)
    front = shot.poses[-1, 0] - 0.01  # half of the thickness that is drawn
    assert front == pytest.approx(shot.contact[-1, 0], abs=1e-5)


@pytest.mark.parametrize(
    ("start", "changes", "error", "line"),
    [
        (WALL, {"reach": Reach()}, InputError, "a wall needs a hand"),
        (WALL, {"reach": Reach(frame="base_link")}, UnknownName, "no hand 'base_link'; known: gripper_left_base_link"),
        (WALL, {"duration_s": 4.0}, InputError, "reach takes until 6 s"),
        (ARM_WALL, {"plant": "pybullet"}, InputError, "has no walls"),
    ],
)
def test_walls_that_do_not_fit_are_refused_in_one_line(start, changes, error, line):
    with pytest.raises(error, match=line) as refused:
        WholeBodyScene(msgspec.structs.replace(start, **changes))
    assert "\n" not in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize("plant", ["coulomb-lcp", "sap", "mujoco"])
@pytest.mark.parametrize("start", [WALL, ARM_WALL], ids=["talos", "panda"])
def test_hand_tracks_its_force_on_all_plants(start, plant):
    _, findings = arrays_of(msgspec.structs.replace(start, plant=plant))
    assert all(finding.holds is not False for finding in findings.values())
    assert findings["press_err_mean_n"].value < 0.01 * FORCE
    assert findings["demand_free_share"].value == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("wall_m", [-1e-3, 5e-3])
@pytest.mark.parametrize("start", [WALL, ARM_WALL], ids=["talos", "panda"])
def test_wall_that_is_nearer_or_farther_is_touched_without_a_blow(start, wall_m):
    config = msgspec.structs.replace(start, unknown=Unknown(wall_m=wall_m), duration_s=9.0)
    _, findings = arrays_of(config)
    assert all(finding.holds is not False for finding in findings.values())
    assert findings["touched_s"].value == pytest.approx(2.5 + wall_m / start.wall.touch_m_s, abs=0.05)
