"""Walks by the divergent component of motion: its differential equations, soles, closed forms and footsteps."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idcontrol.errors import InputError
from idcontrol.planners import dcm
from idcontrol.planners.dcm import Steps

FEET = np.array([[0.0, 0.085, 0.0], [0.0, -0.085, 0.0]])
PAIR = [(0,), (1,)]
COM = np.array([-0.003, 0.001])
OMEGA = 3.3


SIX = Steps(count=6)


def planned(steps=SIX, dcm_at_begin=COM):
    walk = dcm.footsteps(steps, FEET, PAIR, 1.0)
    times, zmp = dcm.zmp_knots(walk, FEET, steps.double_s, 0.0)
    zmp[0] = COM
    return walk, dcm.dcm_plan(times, zmp, OMEGA, COM, dcm_at_begin)


def derivative(function, t, e=1e-6):
    return (function(t + e) - function(t - e)) / (2.0 * e)


@settings(deadline=None, max_examples=50)
@given(
    t=st.floats(1e-3, 9.0),
    length=st.floats(-0.3, 0.3),
    sideways=st.floats(-0.1, 0.1),
    turn=st.floats(-0.4, 0.4),
    speed=st.floats(-0.2, 0.2),
)
def test_centre_of_mass_and_its_divergent_component_obey_their_differential_equations(t, length, sideways, turn, speed):
    steps = Steps(count=6, length_m=length, sideways_m=sideways, turn_rad=turn)
    _, plan = planned(steps, dcm_at_begin=COM + speed / OMEGA)
    if np.abs(plan.begin - t).min() < 1e-5:  # the zero-moment point turns at knots
        return
    now, xi = dcm.com_at(plan, t), lambda t: dcm.com_at(plan, t).value + dcm.com_at(plan, t).velocity / OMEGA
    np.testing.assert_allclose(derivative(lambda t: dcm.com_at(plan, t).value, t), now.velocity, atol=1e-8)
    np.testing.assert_allclose(derivative(lambda t: dcm.com_at(plan, t).velocity, t), now.acceleration, atol=1e-7)
    np.testing.assert_allclose(derivative(xi, t), OMEGA * (xi(t) - dcm.zmp_at(plan, t)), atol=1e-7)
    np.testing.assert_allclose(now.acceleration, OMEGA**2 * (now.value - dcm.zmp_at(plan, t)), atol=1e-12)


def test_motion_begins_as_it_is_asked_and_ends_at_rest_amid_the_feet():
    walk, plan = planned(dcm_at_begin=COM + np.array([0.02, -0.01]))
    begin, end = dcm.com_at(plan, 0.0), dcm.com_at(plan, 20.0)
    np.testing.assert_allclose(begin.value, COM, atol=1e-15)
    np.testing.assert_allclose(begin.velocity, OMEGA * np.array([0.02, -0.01]), atol=1e-14)
    np.testing.assert_allclose(end.value, [walk[-1].places[0, 0], 0.0], atol=1e-14)
    np.testing.assert_allclose(end.velocity, 0.0, atol=1e-14)


def test_position_velocity_and_acceleration_are_continuous_across_knots():
    _, plan = planned()
    for t in plan.begin[1:]:
        for before, after in zip(dcm.com_at(plan, t - 1e-9), dcm.com_at(plan, t), strict=True):
            np.testing.assert_allclose(before, after, atol=1e-7)


def test_one_shift_has_the_closed_form_of_its_exponentials():
    """At rest at p0, then evenly to p1 within T: ξ runs ahead of p by (p1 - p0)/(ωT) (1 - e^{-ωT}) when that begins."""
    times, zmp = np.array([0.0, 1.0, 3.0, 3.4]), np.zeros((4, 2))
    zmp[3] = [0.2, 0.1]
    plan = dcm.dcm_plan(times, zmp, OMEGA, np.zeros(2), np.zeros(2))
    now = dcm.com_at(plan, 3.0)
    ahead = zmp[3] / (OMEGA * 0.4) * (1.0 - np.exp(-OMEGA * 0.4))
    np.testing.assert_allclose(now.value + now.velocity / OMEGA, ahead, atol=1e-14)


@pytest.mark.parametrize("steps", [Steps(count=8), Steps(count=8, sideways_m=0.06), Steps(count=8, turn_rad=0.2)])
def test_zero_moment_point_stays_on_the_standing_soles(steps):
    walk, plan = planned(steps)
    feet = FEET.copy()
    for step in walk:
        for t in np.linspace(step.lift_s, step.land_s, 20):
            np.testing.assert_allclose(dcm.zmp_at(plan, t), feet[1 - step.feet[0], :2], atol=1e-12)
        feet[step.feet[0]] = step.places[0]
    for t in np.linspace(0.0, 1.0, 50):  # to walk off it goes to the other side first, but not off the feet
        assert abs(dcm.zmp_at(plan, t)[1]) <= 0.085 + 1e-12
        assert abs(dcm.zmp_at(plan, t)[0]) < 0.05


@pytest.mark.parametrize("first", [0, 1])
def test_footsteps_go_on_an_arc_and_close_beside_each_other(first):
    steps = Steps(count=9, length_m=0.2, turn_rad=0.1)
    walk = dcm.footsteps(steps, FEET, [(first,), (1 - first,)], 0.0)
    last, beside = walk[-1].places[0], walk[-2].places[0]
    assert last[2] == beside[2] == pytest.approx(0.8)
    assert np.linalg.norm((last - beside)[:2]) == pytest.approx(0.17)
    corners = np.cumsum([0.2 * np.array([np.cos(0.1 * k), np.sin(0.1 * k)]) for k in range(8)], axis=0)
    np.testing.assert_allclose(0.5 * (last + beside)[:2], corners[-1], atol=1e-12)
    assert [step.feet for step in walk] == [((first + k) % 2,) for k in range(9)]


def test_quadruped_shifts_over_the_feet_that_stand():
    feet = np.array([[0.2, 0.1, 0.0], [0.2, -0.1, 0.0], [-0.2, 0.1, 0.0], [-0.2, -0.1, 0.0]])
    walk = dcm.footsteps(Steps(count=2, length_m=0.05), feet, [(3,), (0, 3), (1, 2)], 1.0)
    _, zmp = dcm.zmp_knots(walk, feet, 0.3, 0.0)
    np.testing.assert_allclose(zmp[2], feet[:3, :2].mean(axis=0))
    np.testing.assert_allclose(zmp[4], 0.0, atol=1e-12)  # amid the diagonal
    np.testing.assert_allclose(walk[1].places, feet[[0, 3]] + [0.05, 0.0, 0.0])


TROT = np.array([[0.19, 0.13, 0.0], [0.19, -0.13, 0.0], [-0.19, 0.13, 0.0], [-0.19, -0.13, 0.0]])


@settings(deadline=None, max_examples=25)
@given(
    machine=st.sampled_from([(FEET, PAIR, OMEGA), (TROT, [(0, 3), (1, 2)], 5.8)]),
    mu=st.floats(0.05, 1.0),
    length=st.floats(-0.3, 0.3),
    turn=st.floats(-0.3, 0.3),
    single=st.floats(0.15, 0.8),
    double=st.floats(0.02, 0.4),
    begin=st.floats(0.05, 2.0),
    norm=st.sampled_from([1, 2]),
)
def test_slowed_motion_needs_no_more_than_its_share_of_the_friction(
    machine, mu, length, turn, single, double, begin, norm
):
    feet, groups, omega = machine
    steps = Steps(count=5, length_m=length, turn_rad=turn, single_s=single, double_s=double)
    walk = dcm.footsteps(steps, feet, groups, begin)
    knots, zmp = dcm.zmp_knots(walk, feet, min(double, 0.5 * begin), 0.0)
    zmp[0] = COM
    times = dcm.slowed(knots, zmp, omega, COM, mu, norm)
    plan, slower = dcm.dcm_plan(times, zmp, omega, COM, COM), dcm.retimed(walk, times)
    accelerations = [dcm.com_at(plan, t).acceleration for t in np.linspace(0.0, times[-1] + 1.0, 500)]
    assert np.linalg.norm(accelerations, norm, axis=1).max() <= 0.8 * mu * 9.81 + 1e-9
    for step, asked in zip(slower, walk, strict=True):
        assert step.land_s - step.lift_s == pytest.approx(single)
        np.testing.assert_array_equal(step.places, asked.places)
        np.testing.assert_allclose(dcm.zmp_at(plan, step.lift_s), dcm.zmp_at(plan, step.land_s), atol=1e-12)
    assert (np.diff(times) > np.diff(knots) - 1e-9).all()


def test_motion_within_friction_keeps_its_times():
    walk = dcm.footsteps(SIX, FEET, PAIR, 1.0)
    knots, zmp = dcm.zmp_knots(walk, FEET, SIX.double_s, 0.0)
    assert dcm.slowed(knots, zmp, OMEGA, COM, 0.6) is knots


def test_only_hard_shifts_of_load_last_longer():
    """A trot at constant speed needs the most friction where it stops, so there it slows down first."""
    walk = dcm.footsteps(Steps(count=12, length_m=0.09, single_s=0.25, double_s=0.05), TROT, [(0, 3), (1, 2)], 1.0)
    knots, zmp = dcm.zmp_knots(walk, TROT, 0.05, 0.0)
    longer = np.diff(dcm.slowed(knots, zmp, 5.8, np.zeros(2), 0.18))[1::2] / np.diff(knots)[1::2]
    assert longer[-2] > 1.5
    np.testing.assert_allclose(longer[[0, 4, 5, 6, 7, 8, -1]], 1.0)


def test_walk_without_friction_is_refused_in_one_line():
    walk = dcm.footsteps(SIX, FEET, PAIR, 1.0)
    knots, zmp = dcm.zmp_knots(walk, FEET, SIX.double_s, 0.0)
    for mu in (0.0, 0.003):
        with pytest.raises(InputError, match="too low to walk") as refused:
            dcm.slowed(knots, zmp, OMEGA, COM, mu)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("part", [0.0, 0.3, 0.7, 0.999])
def test_rates_of_a_swing_and_of_the_heading_are_derivatives(part):
    steps = Steps(count=4, turn_rad=0.3)
    walk = dcm.footsteps(steps, FEET, PAIR, 1.0)
    t = walk[1].lift_s + part * steps.single_s + 1e-5
    for rates in (partial(dcm.swing_height, steps, walk[1]), partial(dcm.heading_at, walk, FEET)):
        slopes = derivative(lambda t, rates=rates: np.array(rates(t)), t)
        np.testing.assert_allclose(rates(t)[1:], slopes[:2], atol=1e-5)


def test_swing_lifts_as_high_as_it_should_and_comes_down_at_the_touchdown_speed():
    steps = Steps(count=1, height_m=0.05, touchdown_m_s=0.03)
    (step,) = dcm.footsteps(steps, FEET, PAIR, 0.0)
    heights = np.array([dcm.swing_height(steps, step, t)[0] for t in np.linspace(0.0, step.land_s, 200)])
    assert heights.min() >= 0.0
    assert 0.05 < heights.max() < 0.055
    assert dcm.swing_height(steps, step, step.land_s)[:2] == pytest.approx((0.0, -0.03))
    assert dcm.swing_height(steps, step, step.land_s + 0.1)[:2] == pytest.approx((-0.003, -0.03))


def test_heading_turns_with_the_feet_and_rests_between():
    walk = dcm.footsteps(Steps(count=4, turn_rad=0.3), FEET, PAIR, 1.0)
    assert dcm.heading_at(walk, FEET, 0.5) == (0.0, 0.0, 0.0)
    assert dcm.heading_at(walk, FEET, walk[0].land_s + 0.01)[:2] == pytest.approx((0.15, 0.0))
    assert dcm.heading_at(walk, FEET, 99.0)[:2] == pytest.approx((0.9, 0.0))
