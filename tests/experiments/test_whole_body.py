"""Sway, squat, lift, walk and push: machines under tasks follow their references, and the record has the errors."""

import math
import re

import msgspec
import numpy as np
import pinocchio as pin
import pytest

from idcontrol import robots
from idcontrol.dynamics.system import position_limits
from idcontrol.errors import InputError, UnknownName
from idcontrol.experiments import whole_body
from idcontrol.experiments.whole_body import LIFT, PUNCHED, PUSH, SQUAT, SWAY, TELEOP, TROT, WALK, by_feet, findings
from idcontrol.planners.dcm import Steps, com_at
from idcontrol.planners.route import Route
from idcontrol.record.recording import load
from idcontrol.scenes.body import Body, trunk_frames
from idcontrol.scenes.disturbances import scaled
from idcontrol.scenes.motions import Arms, Oscillation, Reach, Walk
from idcontrol.scenes.settings import AssumedFriction
from idcontrol.scenes.whole_body import Punches, Push, Unknown, WholeBodyScene
from idcontrol.sensing import Sensing
from idcontrol.sensing.disturbance import BiasLevel, NoiseLevel
from idcontrol.show.view.film import Film
from idcontrol.types import ContactForces, State
from tests.parameters import one_fast

ON_SPOT = Steps(count=1, length_m=0.0, single_s=0.4, double_s=0.2, height_m=0.03)


@pytest.fixture(autouse=True)
def _undrawn(monkeypatch):
    """Draw the figures of `swayed` only: they take a quarter of a short run."""
    monkeypatch.setattr(whole_body, "drawings", lambda scene, arrays: [])


def pressing(force_n):
    """Return a force on the first foot, upwards."""
    up = np.array([[0.0, 0.0, 1.0]])
    return ContactForces(identity=np.array([0]), force=force_n * up, normal=up)


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


@pytest.mark.slow
def test_the_record_can_be_replayed(swayed):
    shot = Film(swayed[1], robots.load).shot(100)
    assert len(shot.poses) > 27
    assert shot.measured.shape == (2, 2, 3)


@pytest.mark.parametrize("robot", one_fast(("talos", "g1", "go1"), "go1"))
def test_a_foot_is_lifted_and_set_down_where_it_stood(tmp_path, robot):
    metrics = run(tmp_path / "run", LIFT, robot=robot, walk=ON_SPOT, begin_s=0.5, duration_s=1.3)
    assert metrics["completed"]
    assert (metrics["touchdowns"], metrics["notes"]["touchdowns"]) == (1, "planned 1")
    assert metrics["landing_off_max_m"] < 1e-3
    assert metrics["landing_late_max_s"] < 0.01
    assert 0.025 < metrics["clearance_m"] < 0.035


def test_a_run_that_ends_before_its_steps_says_so(tmp_path):
    metrics = run(tmp_path / "run", LIFT, robot="go1", walk=ON_SPOT, begin_s=0.5, duration_s=0.1)
    note = metrics["notes"]["touchdowns"]
    assert not metrics["completed"]
    assert re.fullmatch(r"planned 1; the run ends at 0\.1 s, the walk at [0-9.]+ s", note)


@pytest.mark.parametrize(("robot", "links"), [("talos", 2), ("g1", 2), ("go1", 1), ("anymal", 1)])
def test_trunk_is_the_base_and_the_torso_that_carries_the_arms(robot, links):
    loaded = robots.load(robot)
    contacts = loaded.contacts(0.6)
    frames = trunk_frames(contacts.system, contacts)
    assert len(frames) == links
    assert {"talos": "torso_2_link", "g1": "torso_link"}.get(robot, frames[0]) == frames[-1]


@pytest.mark.parametrize("touch_s", one_fast((0.75, 0.9, 0.95), 0.95))
def test_foot_stands_from_the_tick_in_which_its_force_is_sensed(touch_s):
    """Early, on time and late; a force just after lift-off comes from a foot that grazes the ground."""
    robot = robots.load("talos")
    body = Body(robot, mu=0.6, rate_hz=1000.0)
    walk = Walk(body, ON_SPOT, begin_s=0.5)
    stands = []
    for tick in range(1000):
        t = 1e-3 * tick
        grazes = 0.5 <= t < 0.55
        forces = pressing(50.0) if grazes or t >= touch_s - 1e-9 else ContactForces.none()
        stands.append(walk(State(t=t, q=body.home.q, v=body.home.v, forces=forces)).stance[0])
    assert np.flatnonzero(~np.array(stands))[[0, -1]].tolist() == [500, round(1000 * touch_s) - 1]
    (landing,) = walk.landings
    assert landing.late_s == pytest.approx(touch_s - 0.9)
    assert walk(State(t=1.0, q=body.home.q, v=body.home.v)).since_touchdown[0] == pytest.approx(1.0 - touch_s)


def test_overdue_foot_stands_under_the_least_force():
    """A light leg that comes to rest on the ground may press on it with less than the share of a landing."""
    body = Body(robots.load("talos"), mu=0.6, rate_hz=1000.0)
    walk = Walk(body, ON_SPOT, begin_s=0.5)
    for tick in range(500, 1000):
        t = 1e-3 * tick
        walk(State(t=t, q=body.home.q, v=body.home.v, forces=pressing(0.5) if t >= 0.88 else ContactForces.none()))
    (landing,) = walk.landings
    assert landing.late_s == pytest.approx(0.021)


@pytest.mark.parametrize(("touch_s", "caught", "replans"), [(0.75, 1, 1), (0.89, 1, 0), (0.75, 0, 0)])
def test_walk_once_pushed_is_replanned_when_a_foot_lands_early(monkeypatch, touch_s, caught, replans):
    """The feet of a machine heavier than its model land early in every step, and its plan is still good."""
    body = Body(robots.load("talos"), mu=0.6, rate_hz=1000.0)
    walk = Walk(body, msgspec.structs.replace(ON_SPOT, count=2, reach_m=0.4), begin_s=0.5)
    monkeypatch.setattr(body, "moving_com", lambda state: com_at(walk.plan, state.t))
    walk.caught = caught
    for tick in range(500, 920):
        t = 1e-3 * tick
        walk(State(t=t, q=body.home.q, v=body.home.v, forces=pressing(50.0) if t >= touch_s else ContactForces.none()))
    assert len(walk.landings) == 1
    assert walk.caught == caught + replans
    if replans:
        assert walk.plan.begin[0] == pytest.approx(touch_s + body.h)


@pytest.mark.parametrize(("mu", "slower"), one_fast(((0.6, False), (0.1, True)), (0.1, True)))
def test_run_says_that_friction_slows_the_steps(tmp_path, mu, slower):
    config = msgspec.structs.replace(TROT, mu=mu, duration_s=0.05)
    metrics = whole_body.walk.run(config, tmp_path / "run", lambda share: None)
    assert ("double_max_s" in metrics) == slower
    if slower:
        assert 0.2 < metrics["double_max_s"] < 0.6
        assert metrics["notes"]["double_max_s"] == "walk.double_s is 0.05 s; assumed friction 0.08 is too low for it"


@pytest.mark.parametrize(
    ("changes", "error", "line"),
    [
        ({"robot": "panda"}, InputError, "'panda' has a fixed base and needs a hand; set reach.frame"),
        ({"controller": "pid"}, InputError, "takes no tasks"),
        ({"sway": Oscillation(), "walk": Steps(count=1, first="middle")}, UnknownName, "middle"),
        (
            {"sway": Oscillation(), "walk": Steps(count=1, together=(("left", "right"),))},
            InputError,
            "never all feet in one group",
        ),
        ({"sensing": Sensing(forces="estimated")}, InputError, "on a floating base"),
        ({"plant": "glue"}, UnknownName, "glue"),
        ({"reach": Reach(frame="paw")}, UnknownName, r"no frame for the hand \(setting reach.frame\) 'paw'"),
        ({"reach": Reach(frame="base_link", through_m=())}, InputError, "has no point"),
        ({"reach": Reach(frame="base_link"), "walk": Steps(count=1)}, InputError, "set walk.count=0"),
        ({"walk": Steps(count=1)}, InputError, "sway is for a machine that stands"),
        ({"lower_m": 0.02}, InputError, "lower_m is for a machine that steps"),
        ({"push": Push(at_s=6.0)}, InputError, "push.at_s takes until 6 s, but the run ends at 6 s"),
        ({"push": Push(at_s=1.0, force_n=9.0, impulse_n_s=(1.0, 0.0, 0.0))}, InputError, "leave one of them out"),
        ({"push": Push(force_n=9.0)}, InputError, "set push.at_s"),
        ({"push": Push(at_s=1.0, direction_deg=-90.0)}, InputError, "set push.force_n"),
        ({"push": Push(at_s=1.0, force_n=9.0, lasts_s=0.0005)}, InputError, "push.lasts_s is 0.0005"),
        ({"sway": Oscillation(), "route": Route(count=1), "walk": Steps(count=1)}, InputError, "set one of them to 0"),
        ({"punches": Punches(force_n=(9.0, 9.0))}, InputError, "set route.count"),
        (
            {"sway": Oscillation(), "route": Route(count=1), "punches": Punches(force_n=(9.0, 5.0))},
            InputError,
            "first must be at most",
        ),
        ({"reach": Reach(frame="base_link", each_s=2.5)}, InputError, "reach takes until 7.5 s"),
    ],
)
def test_settings_that_do_not_fit_are_refused_in_one_line(tmp_path, changes, error, line):
    with pytest.raises(error, match=line) as refused:
        run(tmp_path / "run", SWAY, **changes)
    assert "\n" not in str(refused.value)


def test_machine_on_four_feet_trots_unless_its_settings_say_otherwise():
    quadruped = msgspec.structs.replace(WALK, robot="go1")
    assert by_feet(quadruped) == TROT
    changed = msgspec.structs.replace(quadruped, plant="sap", walk=msgspec.structs.replace(WALK.walk, length_m=0.05))
    assert (by_feet(changed).plant, by_feet(changed).walk.length_m) == ("sap", 0.05)
    assert by_feet(changed).walk.together == TROT.walk.together
    assert by_feet(WALK) == WALK


@pytest.mark.slow
def test_record_of_a_walk_on_four_feet_has_the_settings_of_its_trot(tmp_path):
    config = msgspec.structs.replace(WALK, robot="go1", duration_s=0.05)
    metrics = whole_body.walk.run(config, tmp_path / "run", lambda share: None)
    ran = load(tmp_path / "run").config
    assert (ran["walk"]["count"], ran["walk"]["length_m"], ran["foot_kp_1_s2"]) == (20, 0.09, 600.0)
    assert metrics["replans"] == 0


def verdicts(record, **changes):
    arrays = {name: values.copy() for name, values in record.arrays.items()}
    for name, change in changes.items():
        change(arrays[name])
    scene = WholeBodyScene(msgspec.structs.replace(SWAY, duration_s=0.6))
    return {finding.key: finding for finding in findings(scene, arrays)}


def test_torque_that_jumps_by_half_its_limit_is_no_completed_run(swayed):
    limit = robots.load("talos").system().effort_limit

    def jump(tau):
        tau[300:, 3] += 0.5 * limit[3]

    assert verdicts(swayed[1])["torque_jump_share_max"].holds
    jumped = verdicts(swayed[1], tau=jump)["torque_jump_share_max"]
    assert jumped.value == pytest.approx(0.5, abs=0.01)
    assert not jumped.holds


OWN = """
import numpy as np
from idcontrol import Command

class Limp:
    takes_tasks = True

    def __init__(self, setup):
        self.torques = np.zeros(setup.system.n_actuated)

    def __call__(self, state, reference):
        return Command(tau=self.torques)

    def reset(self):
        pass
"""


def test_own_controller_on_tasks_is_measured_though_it_writes_no_errors_or_demand(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    wide = AssumedFriction(pyramid="circumscribed")
    metrics = run(tmp_path / "run", SWAY, controller=f"{tmp_path}/own.py:Limp", duration_s=0.1, friction=wide)
    assert "friction.pyramid does not reach" in metrics["notes"]["mu_controller"]
    assert metrics["demand_free_share"] == metrics["demand_infeasible_share"] == 0.0
    assert metrics["com_err_end_m"] > 5e-3  # without torques the knees fold


def test_errors_are_of_the_true_motion_not_of_the_sensed_one(tmp_path, swayed):
    sensing = Sensing(bias=BiasLevel(encoder_rad=0.01))
    run(tmp_path / "run", SWAY, sensing=sensing, duration_s=0.2)
    true, biased = swayed[1].arrays, load(tmp_path / "run").arrays
    assert np.abs(biased["com_err"]).max() > 1e-4
    reference = (true["com"] + true["com_err"])[: len(biased["com"])]
    np.testing.assert_allclose(biased["com"] + biased["com_err"], reference, atol=1e-9)


def test_joints_at_a_position_limit_are_named(swayed):
    system = robots.load("talos").system()
    knee = system.actuated_names.index("leg_left_4_joint")

    def straighten(q):
        q[300:, system.joint_q[knee]] = system.limits.lower[knee]

    assert verdicts(swayed[1])["position_limit_steps"].value == 0
    straight = verdicts(swayed[1], q=straighten)["position_limit_steps"]
    assert (straight.value, straight.note) == (len(swayed[1].arrays["t"]) - 300, "leg_left_4_joint")


@pytest.mark.parametrize(("after_s", "holds"), [(0.003, True), (0.02, False)])
def test_torque_of_a_pushed_machine_may_jump_only_while_the_push_is_absorbed(swayed, after_s, holds):
    arrays = {name: values.copy() for name, values in swayed[1].arrays.items()}
    arrays["tau"][round((0.3 + after_s) * SWAY.rate_hz), 0] += 50.0  # of 100 N m
    scene = WholeBodyScene(msgspec.structs.replace(SWAY, duration_s=0.6, push=Push(at_s=0.3)))
    jump = next(finding for finding in findings(scene, arrays) if finding.key == "torque_jump_share_max")
    assert jump.holds is holds


def test_arms_and_head_hold_the_posture_unless_a_task_moves_them():
    for hand, loose in ((None, "leg torso"), ("gripper_left_base_link", "leg torso arm_left")):
        body = Body(robots.load("talos"), mu=0.6, rate_hz=1000.0, hand=hand)
        weights = dict(zip(body.system.actuated_names, body.tasks[-1].joint_weight, strict=True))
        firm = {name for name, weight in weights.items() if weight > min(weights.values())}
        assert firm == {name for name in weights if not name.startswith(tuple(loose.split()))}


def test_sole_that_turns_about_its_centre_has_slipped_with_its_corners(swayed):
    def turn(slide):
        slide[100:400, :4] = 0.3 * np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, -1.0, 0.0], [-1.0, 0.0, 0.0]])

    twisted = verdicts(swayed[1], slide=turn)["slipped_m"]
    assert verdicts(swayed[1])["slipped_m"].value < 1e-5
    assert twisted.value == pytest.approx(0.09, rel=1e-3)  # 0.3 m/s for 0.3 s
    assert not twisted.holds


@pytest.mark.slow
def test_foot_that_rolls_does_not_slip(tmp_path):
    metrics = run(tmp_path / "run", SQUAT, robot="go1", duration_s=1.0, sway=Oscillation(centre_m=(0.0, 0.0, -0.16)))
    record = load(tmp_path / "run").arrays
    assert record["q"][-1, 2] < 0.6 * record["q"][0, 2]  # lower than the height that counts as a fall, as planned
    assert metrics["fell_at_s"] is None
    assert np.linalg.norm(record["feet"][-1] - record["feet"][0], axis=1).max() > 3e-3
    assert metrics["slipped_m"] < 5e-4


def test_landed_foot_is_held_by_its_task_until_all_corners_stand():
    body = Body(robots.load("talos"), mu=0.6, rate_hz=1000.0)
    place = body.places(body.home.q)[body.feet[0].frame]
    body.lift(0)
    body.land(0, place)
    weights = []
    for _ in range(30):
        body.reference()
        weights.append(body.feet[0].weight.max())
    assert weights == [1.0] * 20 + [0.0] * 10


def test_sole_that_tips_over_its_edge_turns_back_until_it_is_flat():
    body = Body(robots.load("talos"), mu=0.6, rate_hz=1000.0)

    def tilted(angle):
        q = body.home.q.copy()
        q[7 + 4] += angle  # the left ankle pitches
        return q

    for angle, weights in ((0.009, [0.0, 0.0]), (0.05, [1.0, 0.0]), (0.009, [1.0, 0.0]), (0.0, [0.0, 0.0])):
        body.flatten(tilted(angle))
        assert [foot.weight.max() for foot in body.feet] == weights
    body.flatten(tilted(0.05))
    body.lift(0)
    body.land(0, body.places(body.home.q)[body.feet[0].frame])
    body.flatten(body.home.q)
    assert body.feet[0].weight.max() == 1.0  # the task still holds the landed foot


def test_closing_step_waits_until_its_foot_is_unloaded():
    """A step that began at once would have to land far outside, because the machine would fall onto it."""
    body = Body(robots.load("g1"), mu=0.6, rate_hz=1000.0)
    walk = Walk(body, Steps(single_s=0.35, double_s=0.1, reach_m=0.6))
    q, joints = body.home.q.copy(), body.system.actuated_names
    for name, angle in (("left_hip_roll_joint", 0.08), ("left_ankle_roll_joint", -0.08)):
        q[7 + joints.index(name)] += angle
    state = State(t=10.0, q=q, v=body.home.v)
    (beside,) = walk._closing(state)
    walk(state)
    (closing,) = walk.steps
    assert np.abs(closing.places - beside.places).max() < 0.01
    assert closing.lift_s > 10.5


def test_force_pushes_for_its_duration_in_its_direction():
    push = Push(at_s=0.5, force_n=50.0, lasts_s=0.08, direction_deg=30.0)
    plant = WholeBodyScene(msgspec.structs.replace(PUSH, robot="g1", push=push)).plant
    impulse = plant.steps * plant.velocity * robots.load("g1").system().mass
    np.testing.assert_allclose(impulse, 4.0 * np.array([math.cos(math.pi / 6), 0.5, 0.0]))
    assert (plant.countdown, plant.steps) == (500, 80)


def test_random_arms_move_as_their_velocities_and_accelerations_say():
    body = Body(robots.load("g1"), mu=0.6, rate_hz=1000.0)
    arms, held, h = Arms(body, 0.3, np.random.default_rng(0)), body.reference(), 1e-4
    t = np.linspace(0.15, 4.95, 49)  # the jerk jumps where the ramp ends, at 2 s
    before, now, after = ([arms(held, float(t)) for t in t + shift] for shift in (-h, 0.0, h))
    for a, b, c in zip(before, now, after, strict=True):
        np.testing.assert_allclose(b.v + 0.5 * body.h * b.a, (c.q - a.q) / (2.0 * h), atol=1e-6)  # h² of a derivative
        np.testing.assert_allclose(b.a, (c.q - 2.0 * b.q + a.q) / h**2, atol=1e-5)  # rounding over h²
    q = np.array([reference.q for reference in now])
    low, high = position_limits(body.system.model, body.system.actuated_names)
    assert ((q >= low) & (q <= high)).all()
    moves = np.ptp(q, axis=0) > 0.0
    assert not moves[:15].any()  # legs and waist
    assert moves[15:].all()


def test_one_punch_comes_between_each_two_waypoints():
    scene = WholeBodyScene(msgspec.structs.replace(PUNCHED, seed=3))
    at_s, force = map(np.array, zip(*scene.punches(), strict=True))
    assert (np.searchsorted(scene.way.times, at_s) == np.arange(1, 19)).all()
    strength = np.linalg.norm(force, axis=1)
    assert ((strength > 50.0) & (strength < 500.0) & (force[:, 2] == 0.0)).all()


@pytest.mark.slow
def test_humanoid_with_random_arms_reaches_its_waypoints_although_it_is_punched(tmp_path):
    changes = {"plant": "coulomb-lcp", "route": Route(count=3), "punches": Punches(force_n=(50.0, 50.0))}
    metrics = run(tmp_path / "run", TELEOP, **changes)
    assert metrics["completed"]
    assert metrics["waypoints_reached"] == 3
    assert metrics["finished_share"] == 1.0
    assert metrics["tick_us"]["p50"] > metrics["step_us"]["p50"] > 0.0
    assert metrics["route_err_mean_m"] < 0.05


def test_planner_and_controller_get_sensed_states():
    bias, noise = BiasLevel(attitude_rad=0.01), NoiseLevel(joint_rad_s=1e-3)
    scene = WholeBodyScene(msgspec.structs.replace(SWAY, robot="go1", sensing=Sensing(bias=bias, noise=noise)))
    tick = next(scene.ticks())
    assert pin.log3(pin.Quaternion(tick.sensed.q[3:7]).matrix()) @ [0.0, 0.0, 1.0] == pytest.approx(0.0, abs=1e-9)
    assert np.linalg.norm(pin.log3(pin.Quaternion(tick.sensed.q[3:7]).matrix())) == pytest.approx(0.01)
    assert 0.0 < np.abs(tick.sensed.v[6:] - tick.state.v[6:]).max() < 1e-2


@pytest.mark.parametrize(
    "walk", [Steps(), pytest.param(msgspec.structs.replace(ON_SPOT, count=2), marks=pytest.mark.slow)]
)
def test_the_base_of_a_humanoid_is_estimated_from_the_corners_of_its_soles(walk):
    sensing = Sensing(base="estimated", bias=BiasLevel(gyro_rad_s=0.01, accelerometer_m_s2=0.1))
    config = msgspec.structs.replace(WALK, walk=walk, lower_m=0.0, sensing=sensing, begin_s=0.3)
    ticks = list(WholeBodyScene(msgspec.structs.replace(config, duration_s=1.8 if walk.count else 0.2)).ticks())
    errors = np.array([tick.sensed.q[:7] - tick.state.q[:7] for tick in ticks])
    assert 0.0 < np.abs(errors).max() < 5e-3
    assert all(tick.command.demand != "infeasible" for tick in ticks)


def test_wrong_masses_scale_all_dynamics_of_the_plant():
    system = robots.load("go1").system()
    heavier, q = scaled(system, 1.03), robots.load("go1").standing_state(system).q
    v = np.linspace(-0.5, 0.5, system.n_velocities)
    for each in (system, heavier):
        each.update(q, v)
    np.testing.assert_allclose(heavier.M, 1.03 * system.M, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(heavier.bias, 1.03 * system.bias, rtol=1e-12, atol=1e-12)
    assert heavier.mass == pytest.approx(1.03 * system.mass)


@pytest.mark.slow
def test_push_adds_the_same_speed_to_heavy_and_light_machines():
    talos = WholeBodyScene(PUSH)
    assert np.linalg.norm(np.array([0.0, 0.22, 0.0]) * talos.body.system.mass) == pytest.approx(20.0, abs=0.2)
    for robot in ("talos", "g1"):
        plant = WholeBodyScene(msgspec.structs.replace(PUSH, robot=robot)).plant
        np.testing.assert_allclose(plant.velocity, [0.0, 0.22, 0.0])


def test_swinging_leg_moves_the_sensed_pendulum_by_its_momentum():
    body = Body(robots.load("g1"), mu=0.6, rate_hz=1000.0)
    v = np.zeros_like(body.home.v)
    v[6 + body.system.actuated_names.index("right_hip_pitch_joint")] = -5.0
    state = msgspec.structs.replace(body.home, v=v)
    plain = body.moving_com(state)
    body.com.pendulum_m = 0.6
    pendulum, data = body.moving_com(state), body.system.model.createData()
    momentum = pin.computeCentroidalMomentum(body.system.model, data, state.q, v)
    assert momentum.angular[1] < -1.0
    np.testing.assert_allclose(plain.velocity, momentum.linear[:2] / body.system.mass)
    assert (pendulum.velocity - plain.velocity)[0] == pytest.approx(momentum.angular[1] / (0.6 * body.system.mass))
    np.testing.assert_array_equal(pendulum.value, plain.value)


def test_humanoid_plans_a_step_as_soon_as_it_is_pushed(tmp_path):
    metrics = run(tmp_path / "run", PUSH, push=Push(at_s=0.05, impulse_n_s=(40.0, 0.0, 0.0)), duration_s=0.3)
    assert metrics["replans"] > 0
    assert metrics["fell_at_s"] is None
    assert metrics["torque_jump_share_max"] < 0.25


@pytest.mark.slow
@pytest.mark.parametrize("angle", range(0, 360, 60))
def test_humanoid_survives_a_push_of_40_n_s_and_steps_where_it_must(tmp_path, angle):
    impulse = (40.0 * math.cos(math.radians(angle)), 40.0 * math.sin(math.radians(angle)), 0.0)
    metrics = run(tmp_path / "run", PUSH, push=Push(at_s=1.0, impulse_n_s=impulse))
    assert metrics["completed"]
    assert metrics["com_err_end_m"] < 0.02
    assert metrics["torque_jump_share_max"] < 0.25
    assert (metrics["replans"] > 0) == (angle in {0, 180})  # sideways it leans on a foot


@pytest.mark.slow
@pytest.mark.parametrize("angle", [0, 30, 180])
def test_humanoid_with_narrow_ankles_steps_under_a_push(tmp_path, angle):
    """The ankles of g1 roll by 15 degrees; without a step it survives at most 150 N forward and 100 N backward."""
    push = Push(at_s=1.0, force_n=300.0, direction_deg=angle)
    metrics = run(tmp_path / "run", PUSH, robot="g1", push=push, duration_s=6.0)
    assert metrics["completed"]
    assert metrics["replans"] > 0
    assert metrics["torque_jump_share_max"] < 0.1  # the robot file allows a sixteenth in a tick


@pytest.mark.slow
@pytest.mark.parametrize("force", [100.0, 150.0, 200.0])
def test_humanoid_whose_soles_tip_on_a_toe_corner_puts_them_flat(tmp_path, force):
    push, stands = Push(at_s=1.0, force_n=force, direction_deg=30.0), Steps(reach_m=0.0)
    metrics = run(tmp_path / "run", PUSH, robot="g1", push=push, walk=stands, lower_m=0.0, duration_s=4.0)
    assert metrics["completed"]


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
@pytest.mark.parametrize("error", [-0.03, 0.03])
@pytest.mark.parametrize("robot", ["talos", "g1"])
def test_wrong_masses_change_no_step_of_a_walk(tmp_path, robot, error):
    walk = msgspec.structs.replace(WALK.walk, count=4)
    metrics = run(tmp_path / "run", WALK, robot=robot, walk=walk, unknown=Unknown(mass_error=error), duration_s=6.0)
    assert metrics["completed"]
    assert metrics["replans"] == 0
    assert metrics["com_err_rms_m"] < 5e-3  # of which 4 mm are sag


@pytest.mark.slow
@pytest.mark.parametrize("robot", ["talos", "g1"])
def test_humanoid_walks_on_low_friction(tmp_path, robot):
    metrics = run(tmp_path / "run", WALK, robot=robot, mu=0.1)
    assert metrics["completed"]
    assert metrics["distance_m"] == pytest.approx(1.8, abs=0.02)
    assert metrics["com_err_rms_m"] < 2e-3
    assert metrics["replans"] == 0


@pytest.mark.slow
def test_run_says_that_friction_limits_the_turn(tmp_path):
    walk = msgspec.structs.replace(TROT.walk, length_m=0.0, turn_rad=0.15)
    config = msgspec.structs.replace(TROT, mu=0.1, walk=walk, duration_s=0.05)
    metrics = whole_body.walk.run(config, tmp_path / "run", lambda share: None)
    assert 0.03 < metrics["turn_rad"] < 0.1
    assert metrics["notes"]["turn_rad"] == "walk.turn_rad is 0.15 rad; assumed friction 0.08 is too low for it"


@pytest.mark.slow
@pytest.mark.parametrize("length", [0.0, 0.09])
def test_quadruped_turns_on_low_friction(tmp_path, length):
    walk = msgspec.structs.replace(TROT.walk, length_m=length, turn_rad=0.15)
    metrics = run(tmp_path / "run", TROT, mu=0.1, walk=walk)
    assert metrics["completed"]
    assert metrics["touchdowns"] == 40
    assert metrics["com_err_max_m"] < 5e-3
    assert metrics["trunk_err_max_rad"] < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("robot", ["talos", "g1"])
def test_humanoid_turns_on_low_friction(tmp_path, robot):
    walk = msgspec.structs.replace(WALK.walk, turn_rad=0.15)
    metrics = run(tmp_path / "run", WALK, robot=robot, mu=0.1, walk=walk)
    assert metrics["completed"]
    assert metrics["com_err_rms_m"] < 2e-3
    assert metrics["torque_jump_share_max"] < 0.1
    assert metrics["slipped_m"] < 5e-3
    assert metrics["replans"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mu", "steps"), [(0.1, {}), (0.15, {}), (0.6, {}), (0.1, {"sideways_m": 0.05}), (0.6, {"sideways_m": 0.05})]
)
def test_quadruped_trots_on_tasks_alone(tmp_path, mu, steps):
    walk = msgspec.structs.replace(TROT.walk, length_m=0.0 if steps else 0.09, **steps)
    metrics = run(tmp_path / "run", TROT, mu=mu, walk=walk)
    assert metrics["completed"]
    assert metrics["touchdowns"] == 40
    assert metrics["com_err_max_m"] < 5e-3
    assert metrics["trunk_err_max_rad"] < 1e-3
