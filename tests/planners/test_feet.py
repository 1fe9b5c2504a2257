import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import config

from idcontrol.planners.commands import LimitedCommand
from idcontrol.planners.feet import (
    CAPTURE_GAIN,
    GRAVITY,
    HASTE,
    LATE,
    LATE_DEPTH,
    SETTLE_S,
    STANDING,
    SWINGING,
    FootPlan,
    GroundSamples,
    NominalStance,
    advance_quintic,
    choose_footholds,
    lifts_too_early,
    move_feet,
    notice_touchdowns,
)
from idcontrol.planners.gait import Gait, Timing
from idcontrol.planners.governor import Ability, Stride
from idcontrol.planners.measured import Measured
from idcontrol.planners.packing import pack

pytestmark = pytest.mark.interpreted

NUMBERS = st.floats(-1.0, 1.0)
SWING, STANCE = 0.075, 0.225


class Constants(NamedTuple):
    gait: Gait


# a record, as kernels have it in a planner; a swing of 75 ms, a stance of 225 ms, and a touchdown speed of 0.1 m/s
RECORD = pack(Constants(Gait(period_s=SWING + STANCE, duty=STANCE / (SWING + STANCE))))[0]
GAIT = RECORD[0].gait if config.DISABLE_JIT else RECORD["gait"][0]
STRIDE = Stride.of(Gait(period_s=SWING + STANCE, duty=STANCE / (SWING + STANCE)))
UP = np.array([[0.0, 0.0, 1.0]])


def quintic_by_solving(p, v, a, target, T):
    """Coefficients of the quintic with the six end conditions, by solving the six equations."""
    rows = []
    for t in (0.0, T):
        rows.append([t**k for k in range(6)])
        rows.append([k * t ** (k - 1) if k else 0.0 for k in range(6)])
        rows.append([k * (k - 1) * t ** (k - 2) if k > 1 else 0.0 for k in range(6)])
    return np.polynomial.Polynomial(np.linalg.solve(np.array(rows), [p, v, a, target, 0.0, 0.0]))


@settings(deadline=None)  # the first call compiles
@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.floats(0.0, 1.0))
def test_a_course_is_the_quintic_that_meets_its_end_conditions(p, v, a, target, part):
    T = 0.5
    state = np.tile(np.array([[p], [v], [a]]), (1, 3))
    advance_quintic(state, np.full(3, target), T, part * T)
    exact = quintic_by_solving(p, v, a, target, T)
    # The six equations at T = 0.5 have condition 1e4; accelerations reach 1e2.
    assert state[0, 0] == pytest.approx(exact(part * T), abs=1e-9)
    assert state[1, 1] == pytest.approx(exact.deriv()(part * T), abs=1e-9)
    assert state[2, 2] == pytest.approx(exact.deriv(2)(part * T), abs=1e-9)


NOMINAL = np.array([[0.18, 0.08, -0.16], [0.18, -0.08, -0.16], [-0.18, 0.08, -0.16], [-0.18, -0.08, -0.16]])


def footholds(*, position, yaw, velocity, command, since=0.0, until=SWING, phase=SWINGING, capture=0.0, reach=np.inf):
    n = 4
    plan, ground = FootPlan.of(n), GroundSamples.of(n)
    plan.phase[:], plan.landing[:] = phase, np.nan
    measured = Measured.of(n)._replace(position=position, velocity=velocity)
    measured.rotation[:2, :2] = rotation(yaw)
    timing = Timing.of(n)
    timing.stance[:], timing.since_liftoff[:], timing.to_touchdown[:] = False, since, until
    # the height whose capture point lies `capture` seconds ahead
    com_height = GRAVITY * (capture / CAPTURE_GAIN) ** 2
    nominal = NominalStance(
        height=math.nan, com_height=com_height, feet=NOMINAL, radius=np.zeros(n), lead=np.full(2, np.inf)
    )
    command = LimitedCommand(np.array(command, dtype=np.float64), np.zeros(3))
    every = np.zeros((n, 3, 3))
    ability = Ability(np.full((n, 4), reach), np.full(2, reach), every, every, every, np.full(1, 0.5))
    choose_footholds(STRIDE, ability, nominal, command, np.zeros((3, 5)), measured, timing, plan, ground)
    landing, where = plan.landing, ground.points
    assert np.array_equal(where.T, landing[:, :2], equal_nan=True)
    return landing


def rotation(angle):
    return np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])


@settings(deadline=None)
@given(
    yaw=st.floats(-3.0, 3.0),
    v_x=st.floats(-0.5, 0.5),
    v_y=st.floats(-0.3, 0.3),
    omega=st.floats(-1.0, 1.0),
    until=st.floats(0.02, SWING),
)
def test_a_foot_lands_where_its_nominal_place_will_be_in_the_middle_of_the_stance(yaw, v_x, v_y, omega, until):
    position = np.array([0.4, -0.7, 0.17])
    velocity = np.array([*rotation(yaw) @ [v_x, v_y], 0.0])
    landing = footholds(
        position=position, yaw=yaw, velocity=velocity, command=(v_x, v_y, omega), until=until, capture=0.1
    )
    # The base moves on a circle; the prediction takes the chord in the direction of its middle.
    ahead = until + STANCE / 2
    turn = np.array([rotation(yaw + omega * t) @ [v_x, v_y] for t in np.linspace(0.0, ahead, 1001)])
    base = position[:2] + np.trapezoid(turn, dx=ahead / 1000, axis=0)
    exact = base + (rotation(yaw + omega * ahead) @ NOMINAL[:, :2].T).T
    # Arc against chord: v t (ω t)²/24 ≤ 0.6 · 0.19 · 0.19²/24.
    assert np.abs(landing[:, :2] - exact).max() < 0.58 * ahead * (omega * ahead) ** 2 / 24 + 1e-9


def test_a_foothold_out_of_reach_is_moved_into_reach():
    position, yaw = np.array([0.4, -0.7, 0.17]), 0.3
    common = {"position": position, "yaw": yaw, "velocity": np.zeros(3), "command": (1.0, 0.0, 0.0), "capture": 0.1}
    free, held = footholds(**common), footholds(**common, reach=0.05)
    under = position[:2] + (NOMINAL[:, :2] + [SWING, 0.0]) @ rotation(yaw).T  # the nominal feet at touchdown
    assert np.linalg.norm(free[:, :2] - under, axis=1) == pytest.approx(np.full(4, 0.1125 - 0.1), abs=1e-9)
    further = footholds(**common | {"velocity": np.array([0.0, 2.0, 0.0])}, reach=0.05)
    assert np.linalg.norm(further[:, :2] - under, axis=1) == pytest.approx(np.full(4, 0.05))
    assert np.array_equal(free, held, equal_nan=True)


def test_a_foothold_is_frozen_after_three_quarters_of_the_swing():
    common = {"position": np.zeros(3), "yaw": 0.0, "velocity": np.zeros(3), "command": (0.1, 0.0, 0.0)}
    assert np.isfinite(footholds(**common, since=0.74 * SWING, until=0.26 * SWING)[:, 0]).all()
    assert np.isnan(footholds(**common, since=0.76 * SWING, until=0.24 * SWING)[:, 0]).all()
    # A foot that has just left the ground has no foothold to keep, even if its lift-off is noticed late.
    assert np.isfinite(footholds(**common, since=0.76 * SWING, until=0.24 * SWING, phase=STANDING)[:, 0]).all()


class OneFoot:
    """One foot whose swing is due over `ground`, driven tick by tick."""

    def __init__(self, *, ground=0.0, normal=UP, radius=0.01):
        self.plan, self.ground = FootPlan.of(1), GroundSamples.of(1)
        self.ground.height[0], self.ground.normal[:] = ground, normal
        self.radius, self.spin = np.array([radius]), np.zeros((1, 3))

    def tick(self, measured, *, stance, since=0.0, until=0.0, dt=1e-3, velocity=(0.0, 0.0, 0.0)):
        plan, timing = self.plan, Timing.of(1)
        timing.stance[0], timing.to_touchdown[0] = stance, until
        timing.since_touchdown[0], timing.since_liftoff[0] = (since, 0.0) if stance else (np.inf, since)
        here = Measured.of(1)._replace(
            feet=np.array([measured]), feet_velocity=np.array([velocity]), shank_rate=self.spin
        )
        move_feet(dt, GAIT, STRIDE, self.radius, self.ground, here, timing, plan)
        return plan


def swing(foot, start, landing, ticks=75):
    """The planned motion through one swing, at every tick."""
    foot.plan.landing[0, :2] = landing
    rows = []
    for k in range(ticks):
        plan = foot.tick(start, stance=False, since=k * 1e-3, until=(ticks - k) * 1e-3)
        rows.append((plan.position[0].copy(), plan.velocity[0].copy(), plan.acceleration[0].copy()))
    return (np.array(x) for x in zip(*rows, strict=True))


@pytest.mark.parametrize("ground", [-0.02, 0.0, 0.03])
def test_a_swing_leads_from_where_the_foot_is_to_the_ground_where_it_lands(ground):
    foot = OneFoot(ground=ground)
    start = np.array([0.1, 0.2, 0.0104])
    position, velocity, acceleration = swing(foot, start, [0.16, 0.19])
    assert position[0] == pytest.approx(start)
    assert not velocity[0].any()
    # One tick before the end; then v = -v_td and 8 v_td/T_sw of deceleration are left.
    remaining = 1e-3
    last = position[-1] + remaining * velocity[-1] + 0.5 * remaining**2 * acceleration[-1]
    # Third derivatives of the course and the arch reach 60 d/T³ and 384 H/T³, for one tick.
    jerk = (60 * 0.065 + 384 * 0.015) / SWING**3
    assert last == pytest.approx([0.16, 0.19, ground + 0.01], abs=jerk * remaining**3 / 6)
    assert velocity[-1] + remaining * acceleration[-1] == pytest.approx([0, 0, -0.1], abs=jerk * remaining**2 / 2)
    # Half-way it is a step height above the middle, and v_td T_sw/32 more.
    middle = 0.5 * (start[2] + ground + 0.01) + 0.015 + 0.1 * SWING / 32
    assert np.interp(SWING / 2, np.arange(75) * 1e-3, position[:, 2]) == pytest.approx(middle, abs=5e-5)


def test_a_swing_is_smooth_through_changes_of_its_foothold():
    foot, h, ticks = OneFoot(), 1e-4, 750
    start, rows = np.array([0.0, 0.0, 0.01]), []
    for k in range(ticks):
        if k < 560:
            # The foothold drifts and jumps once; the ground under it rises.
            foot.plan.landing[0, :2] = [0.05 + 2e-5 * k + (0.02 if k > 300 else 0.0), -1e-5 * k]
            foot.ground.height[0] = 0.01 if k > 400 else 0.0
        plan = foot.tick(start, stance=False, since=k * h, until=(ticks - k) * h, dt=h)
        rows.append(np.stack((plan.position[0], plan.velocity[0], plan.acceleration[0])))
    p, v, a = np.moveaxis(np.array(rows), 1, 0)
    # Jerk: 60 d/T³ of the course (6 cm), the jumps (2 cm with 45 ms left, 1 cm with 35 ms), and 384 H/T³ of the arch.
    jerk = 60 * 0.06 / SWING**3 + 60 * 0.02 / 0.045**3 + 60 * 0.01 / 0.035**3 + 384 * 0.015 / SWING**3
    assert np.abs(np.diff(p, axis=0) - 0.5 * h * (v[1:] + v[:-1])).max() < jerk * h**3 / 6
    assert np.abs(np.diff(v, axis=0) - 0.5 * h * (a[1:] + a[:-1])).max() < jerk * h**2 / 2
    # No jump: 5 m/s² from tick to tick, of accelerations of 100.
    assert np.abs(a).max() > 50.0
    assert np.abs(np.diff(a, axis=0)).max() < jerk * h


def test_a_foot_learns_the_height_of_the_ground_for_its_next_landing():
    foot = OneFoot(ground=0.02)
    foot.plan.phase[0] = SWINGING
    foot.tick(np.array([0.3, 0.1, 0.0304]), stance=True)
    for k in range(1, round(SETTLE_S * 1e3)):
        plan = foot.tick(np.array([0.3, 0.1, 0.034]), stance=True, since=k * 1e-3)
    # 4 mm higher than expected; e^-6 of the rest is left after six time constants
    assert plan.level[0] == pytest.approx(0.024, abs=2e-5)
    *_, last = zip(*swing(foot, np.array([0.3, 0.1, 0.034]), [0.36, 0.1]), strict=True)
    assert last[0][2] == pytest.approx(plan.level[0] + 0.01, abs=2e-4)  # a tick before the end, at 0.1 m/s


def test_a_standing_foot_rolls_with_its_shank():
    foot = OneFoot()
    foot.tick(np.array([0.0, 0.0, 0.01]), stance=True)
    foot.spin[0] = [0.0, 2.0, 5.0]
    plan = foot.tick(np.array([0.0, 0.0, 0.01]), stance=True, since=1e-3)
    # Pitching forward rolls the centre forward with ω r; spin about the normal does not move it.
    assert plan.velocity[0] == pytest.approx([0.02, 0.0, 0.0])
    assert plan.position[0] == pytest.approx([2e-5, 0.0, 0.01])


def test_a_late_foot_descends_ever_faster_until_it_touches_the_ground():
    foot = OneFoot()
    foot.plan.phase[0] = SWINGING
    foot.plan.landing[0] = [0.2, 0.0, 0.01]
    for since in (0.0, 0.02, 0.05):
        depth, velocity = 0.1 * since + 0.5 * HASTE * since**2, (0.0, 0.0, -0.1 - HASTE * since)
        plan = foot.tick(np.array([0.2, 0.001, 0.01 - depth]), stance=True, since=since, velocity=velocity)
        assert plan.phase[0] == LATE
        assert plan.position[0] == pytest.approx([0.2, 0.0, 0.01 - depth])
        assert plan.velocity[0] == pytest.approx(velocity)
        assert plan.acceleration[0] == pytest.approx([0.0, 0.0, -HASTE])
    deepest = np.array([0.2, 0.001, 0.01 - LATE_DEPTH])
    for since in (0.15, 0.151):  # it has come to rest where it was sent, in the air
        plan = foot.tick(deepest, stance=True, since=since)
        assert plan.phase[0] == LATE
        assert plan.position[0, 2] == pytest.approx(0.01 - LATE_DEPTH)
        assert not plan.velocity.any()
        assert not plan.acceleration.any()
    held = deepest + np.array([0.0, 0.0, 6e-4])
    plan = foot.tick(held, stance=True, since=0.152)
    assert plan.phase[0] == STANDING
    assert plan.position[0] == pytest.approx(held)


def test_a_late_foot_that_stops_early_stands_on_the_obstacle():
    foot = OneFoot()
    foot.plan.phase[0] = SWINGING
    foot.plan.landing[0] = [0.2, 0.0, 0.01]
    foot.tick(np.array([0.2, 0.0, 0.0150]), stance=True, velocity=(0, 0, -0.1))
    assert foot.plan.phase[0] == LATE
    plan = foot.tick(np.array([0.2, 0.0, 0.0149]), stance=True, since=1e-3)
    assert plan.phase[0] == STANDING
    assert plan.level[0] == pytest.approx(0.0049)


@pytest.mark.parametrize(
    ("stance", "phase", "since", "waits"),
    [
        ((False, True), (STANDING, LATE), 0.05, True),
        ((False, True), (STANDING, STANDING), 0.05, False),  # the other carries
        ((False, True), (SWINGING, LATE), 0.05, False),  # it is in the air
        ((True, True), (STANDING, LATE), 0.05, False),  # it is not due
        ((False, True), (STANDING, LATE), 0.11, False),  # the search has ended, 3 cm below
    ],
)
def test_a_foot_does_not_lift_while_its_replacement_searches_for_the_ground(stance, phase, since, waits):
    timing, plan = Timing.of(2), FootPlan.of(2)
    timing.stance[:], plan.phase[:], plan.touched[:] = stance, phase, 2.0 - since
    assert lifts_too_early(2.0, GAIT, timing, plan) == waits


def noticed(*, height, velocity, until, planned=0.011, phase=SWINGING):
    """Return True if a swinging foot now stands, and the times since touchdown and until liftoff [s]."""
    timing, plan, measured = Timing.of(1), FootPlan.of(1), Measured.of(1)
    timing.stance[0], timing.since_touchdown[0], timing.to_liftoff[0] = False, np.inf, np.inf
    timing.since_liftoff[0], timing.to_touchdown[0] = SWING - until, until
    measured.feet[0, 2], measured.feet_velocity[0, 2] = height, velocity
    plan.phase[0], plan.landing[0, 2], plan.position[0, 2] = phase, 0.01, planned
    notice_touchdowns(2.0, GAIT, STRIDE, measured, timing, plan)
    return bool(timing.stance[0]), float(timing.since_touchdown[0]), float(timing.to_liftoff[0])


def test_a_foot_that_meets_the_ground_early_stands_at_once():
    stands, since, to_liftoff = noticed(height=0.0101, velocity=0.0, until=0.1 * SWING)
    assert stands
    assert since == 0.0
    # it keeps its planned lift-off: the early part is added to the stance
    assert to_liftoff == pytest.approx(0.1 * SWING + STANCE)


@pytest.mark.parametrize(
    "swinging",
    [
        {"height": 0.0101, "velocity": -0.09, "until": 0.1 * SWING},  # still descending
        {"height": 0.0110, "velocity": 0.0, "until": 0.1 * SWING},  # above the ground
        {"height": 0.0101, "velocity": 0.0, "until": 0.5 * SWING},  # has only just left it
    ],
)
def test_a_foot_still_on_its_way_swings_on(swinging):
    assert not noticed(**swinging)[0]
