import math

import numpy as np
import pytest

from idcontrol.dynamics.system import System
from idcontrol.errors import InputError
from idcontrol.loop.life import HALT_S
from idcontrol.planners.commands import Schedule, VelocityCommand
from idcontrol.planners.feet import STANDING, SWINGING
from idcontrol.planners.gait import Gait
from idcontrol.types import State
from tests.parameters import one_fast
from tests.planners.walker import TICK, Smooth, follow_exactly, machine, within_limits

ROBOTS = ("links", "solo12", "go1", "anymal")
MIXED = [(0.0, 0.2, 0.0, 0.0), (0.6, 0.1, 0.05, 0.5)]


def record(m, planner, steps, h=TICK):
    """Columns of a run of the machine that follows perfectly."""
    plans = [plan for _, plan in follow_exactly(m, planner, steps, h)]
    names = ("q", "v", "a", "stance", "feet", "residual", "base_position", "base_yaw")
    return {name: np.array([getattr(plan, name) for plan in plans]) for name in names}


@pytest.mark.parametrize("name", one_fast(ROBOTS, "links"))
def test_joint_targets_are_derivatives_of_each_other_and_reach_the_feet(name):
    m = machine(name, points=True)
    h = 1e-4
    run = record(m, m.planner(Smooth()), 5000, h)
    same = np.all(run["stance"][2:] == run["stance"][:-2], axis=1)
    # Velocities are means over the last tick: angles and velocities step like a machine with v⁺ = v + h a, q⁺ = q + h
    # v⁺. The plan misses h²/6 of the third derivative of q and h²/12 of the third derivative of v: with 1000 rad/s²
    # that vary at up to 300 1/s, 5e-4 rad/s and 0.1 rad/s². Joint angles are solved to 1e-10 m, which over h is 1e-5
    # rad/s.
    v = (run["q"][1:] - run["q"][:-1]) / h
    a = (run["v"][1:] - run["v"][:-1]) / h
    assert np.abs(run["a"]).max() > 100.0
    assert np.abs(v - run["v"][1:])[:-1][same].max() < 1e-3
    assert np.abs(a[1:] - run["a"][1:-1])[same].max() < 0.2
    assert run["residual"].max() <= 1e-10


def test_a_foot_with_a_sole_rolls_by_millimetres_in_each_stance():
    m = machine("links")
    run = record(m, m.planner(Schedule.constant(0.2)), 2000)
    stance = run["stance"][:, 0]
    edges = np.flatnonzero(np.diff(stance.astype(int))) + 1
    begin, end = edges[-3], edges[-2]
    if not stance[begin]:
        begin, end = edges[-2], edges[-1]
    # planner.md 4.2: 3 mm with soles of 1 cm.
    assert 1e-3 < run["feet"][end - 1, 0, 0] - run["feet"][begin, 0, 0] < 5e-3


def test_a_stop_command_slows_it_to_stand_from_the_first_four_foot_phase():
    m = machine("links")
    planner = m.planner(Schedule([(0.0, 0.2, 0.0, 0.0)], stand_from_s=1.2))
    rows = [
        (state.t, plan.stance.all(), np.linalg.norm(planner.command), planner.standing, plan.to_liftoff, plan)
        for state, plan in follow_exactly(m, planner, 6000)
    ]
    stopped = next(k for k, row in enumerate(rows) if row[3])
    still = next(k for k, row in enumerate(rows) if row[0] > 1.2 and row[2] == 0.0)
    # 0.2 m/s at 0.5 m/s² is 0.4 s; then at most one swing of 75 ms is finished.
    assert rows[still][0] == pytest.approx(1.6, abs=2e-3)
    assert 0 <= stopped - still <= 76
    # the last feet to land stand from the tick on in which they are found to have stopped
    assert all(row[1] for row in rows[stopped + 2 :])
    for row in rows[stopped:]:
        assert np.all(np.isinf(row[4]))
    # The last landings are still counted, although the gait has ended.
    assert 0.0 <= rows[stopped][5].since_touchdown.min() < 0.3
    assert rows[-1][5].since_touchdown.max() < np.inf
    # It comes to rest over its feet, with a time constant of half a second.
    assert np.abs(rows[-1][5].v).max() < 2e-4


class WalkFrom:
    """Stand until a time [s], then trot on the spot."""

    def __init__(self, begin):
        self.begin = begin

    def reset(self, position):
        pass

    def __call__(self, t, position, yaw):
        return VelocityCommand(walk=t > self.begin)


def planned_joints(m, planner, poses):
    """Planned joint angles, shape (ticks, a), of a machine in its home pose whose base is believed to be at `poses`."""
    planner.reset(m.standing(planner.height))
    rest = np.zeros_like(m.home)
    states = (m.state(k * TICK, pose, np.zeros(4), m.home, rest) for k, pose in enumerate(poses))
    return np.array([planner(state).q for state in states])


def test_a_standing_plan_holds_its_joints_wherever_the_base_is_believed_to_be():
    m = machine("go1", points=True)
    planner = m.planner(WalkFrom(math.inf))
    rests = np.tile([0.0, 0.0, planner.height, 0.0], (2000, 1))
    drifts = rests + np.linspace(0.0, 1.0, 2000)[:, None] * [0.2, -0.1, 0.0, 0.3]
    # The first tick still walks, but has no drift yet.
    assert planned_joints(m, planner, drifts) == pytest.approx(planned_joints(m, planner, rests), abs=1e-9)


def test_a_carried_machine_moves_no_joint_before_its_first_liftoff():
    m = machine("go1", points=True)
    planner, begin = m.planner(WalkFrom(8.0)), round((8.0 + m.gait.start_s) / TICK)
    poses = np.tile([0.0, 0.0, planner.height, 0.0], (begin, 1))
    poses[1000:] = 3.0, -2.0, planner.height, 2.0
    joints = planned_joints(m, planner, poses)
    assert np.abs(joints - m.home).max() < 0.1
    # The base is as good as over its feet after 7 s: (1 + 14) e⁻¹⁴ of 1 cm at 0.3 m.
    assert np.abs(joints[7000:] - joints[7000]).max() < 1e-6
    assert np.abs(planner.plan.position[:, :2].mean(axis=0) - poses[-1, :2]).max() < 0.05


def test_equal_states_give_bitwise_equal_plans():
    m = machine("links")
    planner = m.planner(Schedule(MIXED), constant_momentum=True)
    first, again = record(m, planner, 700), record(m, planner, 700)
    other = record(m, m.planner(Schedule(MIXED), constant_momentum=True), 700)
    for key in first:
        assert first[key].tobytes() == again[key].tobytes() == other[key].tobytes()


def test_skipped_ticks_do_not_change_where_the_plan_leads():
    m = machine("links", points=True)
    whole = m.planner(Schedule.constant(0.2))
    states = [state for state, _ in follow_exactly(m, whole, 1001)]
    end = whole.plan.position.copy()
    gappy = m.planner(Schedule.constant(0.2))
    gappy.reset(states[0])
    rng = np.random.default_rng(3)
    for k, state in enumerate(states):
        if k in (0, 1000) or rng.random() > 0.2:
            gappy(state)
    # One tick of another lift-off instant and foothold: 0.2 m/s for a millisecond.
    assert np.abs(gappy.plan.position - end).max() < 1e-3


def test_a_state_with_a_nan_is_passed_over():
    m = machine("links")
    clean, planner = m.planner(Schedule.constant(0.2)), m.planner(Schedule.constant(0.2))
    states = [state for state, _ in follow_exactly(m, clean, 400)]
    planner.reset(states[0])
    for k, state in enumerate(states):
        q = np.full_like(state.q, np.nan) if k == 300 else state.q
        plan = planner(State(t=state.t, q=q, v=state.v))
        assert np.all(np.isfinite(np.concatenate((plan.q, plan.v, plan.a))))
    # It missed the motion of one tick: 0.2 m/s for a millisecond, on footholds 0.2 s ahead.
    assert np.abs(planner.plan.position - clean.plan.position).max() < 1e-3


def test_a_planner_cannot_begin_at_a_nan():
    m = machine("links")
    state = m.standing(0.17)
    with pytest.raises(InputError, match="a NaN or an infinity"):
        m.planner(Schedule.constant(0.2)).reset(State(t=0.0, q=state.q * np.nan, v=state.v))


def test_a_foot_out_of_reach_shows_in_the_residual_and_joints_stay_within_limits():
    m = machine("links")
    planner = m.planner(Schedule.constant(0.2))
    states = [state for state, _ in follow_exactly(m, planner, 500)]
    limits, last, residual = planner._parts.joint_limits, None, 0.0
    planner.reset(states[0])
    for k, state in enumerate(states):
        q = state.q.copy()
        q[:2] += [0.1, 0.3] if k >= 250 else 0.0  # carried away while its joints stay
        q[2] += 0.1 if k >= 350 else 0.0  # and lifted
        plan = planner(State(t=state.t, q=q, v=state.v))
        residual = max(residual, plan.residual)
        within_limits(planner, plan, last)
        last = plan
    assert residual > 1e-2
    assert np.isfinite(limits.speed).all()


class Waves:
    """Level ground and, from 0.2 m on, ground z = b sin(kx), with its exact normals."""

    def __init__(self, b=0.01, k=15.0):
        self.b, self.k = b, k

    def height(self, x, y):
        return self.b * np.sin(self.k * np.maximum(x - 0.2, 0.0))

    def normal(self, x, y):
        slope = self.b * self.k * np.cos(self.k * (x - 0.2)) * (x > 0.2)
        return np.stack((-slope, np.zeros_like(x), np.ones_like(x)), axis=-1) / np.sqrt(1 + slope**2)[..., None]


@pytest.mark.slow
def test_feet_land_and_the_base_keeps_its_height_on_uneven_ground():
    m, ground = machine("links"), Waves()
    planner = m.planner(Schedule.constant(0.2), ground=ground)
    heights, levels = [], []
    for _, plan in follow_exactly(m, planner, 2500):
        standing = planner.plan.phase == STANDING
        x, y, z = plan.feet[standing].T
        clearance = (z - ground.height(x, y)) * ground.normal(x, y)[:, 2] - 0.01
        # The centre rolls one tick ahead of where the ground was asked for: slope 0.15 · 0.02 m/s · 1 ms · curvature.
        # Within the period of its touchdown a foot goes on by v_td h = 0.07 mm.
        assert np.abs(clearance).max() < 1e-4
        heights.append(plan.base_position[2])
        levels.append(planner.plan.level.mean())
        assert plan.residual < 1e-9
    heights, levels = np.array(heights), np.array(levels)
    assert np.ptp(levels) > 0.005
    assert abs(np.mean(heights[500:]) - planner.height - np.mean(levels[500:])) < 1e-3
    # Smooth: the base accelerates vertically by no more than bandwidth² times a step of the mean level.
    assert np.abs(np.diff(heights, 2)).max() / TICK**2 < (2.0 / planner.gait.period_s) ** 2 * np.ptp(levels)


def test_the_nominal_feet_lie_around_the_centre_of_mass():
    m = machine("solo12")
    # All knees bent the same way put the centre of mass behind the origin of the base.
    home = np.tile([0.0, 0.8, -1.6], 4)
    planner = type(m)(m.system, m.feet, home, m.gait, m.speed_limit).planner(Schedule.constant(0.0))
    com = m.system.com(m.system.configuration(home, np.array([0, 0, 0, 0, 0, 0, 1.0])))
    assert com[0] < -0.01
    assert planner.nominal[:, :2].mean(axis=0) == pytest.approx(com[:2])


def test_swing_feet_follow_the_measured_base_and_standing_feet_the_reference():
    m = machine("links")
    planner = m.planner(Schedule.constant(0.0))
    states = [state for state, _ in follow_exactly(m, planner, 231)]
    planner(states[-1])
    planned = planner._parts.leg_plan.motion[0]  # before limits, which let a jump through at 1 mrad a tick only
    level = planned.copy()
    swinging = planner.plan.phase == SWINGING
    assert swinging.tolist() == [True, False, False, True]
    q = states[-1].q.copy()
    q[2] += 1e-3
    planner(State(t=states[-1].t, q=q, v=states[-1].v))
    moved = np.abs(planned - level).max(axis=1)
    # A base that is 1 mm higher than planned: swinging legs reach 1 mm deeper, standing legs push it down again.
    assert np.all(moved[swinging] > 1e-3)
    assert np.all(moved[~swinging] < 1e-6)


def test_joints_that_belong_to_no_leg_hold_the_home_pose():
    m = machine("links")
    order = (*m.system.actuated_names[6:], *m.system.actuated_names[:6])
    rearranged = System(m.system.model, actuated=order)
    other = type(m)(rearranged, m.feet, np.roll(m.home, 6), m.gait, np.roll(m.speed_limit, 6))
    here = record(m, m.planner(Schedule.constant(0.2)), 300)["q"]
    there = record(other, other.planner(Schedule.constant(0.2)), 300)["q"]
    assert np.array_equal(np.roll(here, 6, axis=1), there)


def test_a_gait_or_pose_that_does_not_fit_the_machine_is_refused():
    m = machine("links")
    with pytest.raises(InputError, match="2 touchdowns for 4 feet"):
        m.planner(Schedule.constant(0.0), gait=Gait(touchdown=(0.0, 0.5)))
    with pytest.raises(InputError, match="12 finite joint angles"):
        type(m)(m.system, m.feet, m.home[:3], m.gait, m.speed_limit).planner(Schedule.constant(0.0))
    with pytest.raises(InputError, match="foot 1 of 4 is stretched"):
        type(m)(m.system, m.feet, 0.0 * m.home, m.gait, m.speed_limit).planner(Schedule.constant(0.0))
    assert math.isfinite(m.planner(Schedule.constant(0.0)).height)


def test_a_standing_robot_is_halted_only_after_the_steps_that_halting_takes():
    m = machine("go1")
    planner = m.planner(Schedule([], stand_from_s=0.0))
    stepped = np.zeros(4, dtype=bool)
    for state, plan in follow_exactly(m, planner, 4000):
        stepped |= ~plan.stance
        if state.t == 0.5:
            assert planner.standing
            assert not planner.halted
            assert not stepped.any()
            planner.halt(0.03)
            assert not planner.halted
        if planner.halted:
            break
    assert 0.5 < state.t < 0.5 + HALT_S
    assert stepped.all()
