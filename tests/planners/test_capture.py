"""Steps that catch a machine: their places, the zero-moment point, and the pendulum, which comes to rest."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from idcontrol.planners import capture, dcm
from idcontrol.planners.capture import Ground
from idcontrol.planners.dcm import Motion, Steps

FEET = np.array([[0.0, 0.085, 0.0], [0.0, -0.085, 0.0]])
SOLE = np.array([[0.1, 0.06], [0.1, -0.06], [-0.1, 0.06], [-0.1, -0.06]])
WALK = Steps(single_s=0.35, double_s=0.1, reach_m=0.6)
OMEGA = 3.4
START = dcm.dcm_plan(np.array([0.0, 1.0]), np.zeros((2, 2)), OMEGA, np.zeros(2), np.zeros(2))


def pushed(x, y):
    return Motion(np.zeros(2), np.array([x, y]), np.zeros(2))


def caught(com, first=0, t=1.0):
    steps = capture.on_the_spot(WALK, FEET, [(first,), (1 - first,)], t + capture.STARTS_S)
    return capture.caught(steps, Ground(FEET, FEET[1 - first, :2] + SOLE, FEET), WALK, START, t, com)


@settings(deadline=None, max_examples=100)
@given(
    seed=st.integers(0, 10**6), corners=st.integers(1, 8), point=st.tuples(st.floats(-2.0, 2.0), st.floats(-2.0, 2.0))
)
def test_closest_point_of_a_hull_is_in_it_and_nothing_of_it_is_closer(seed, corners, point):
    hull, point = np.random.default_rng(seed).normal(size=(corners, 2)), np.array(point)
    nearest = capture.closest(hull, point)
    _, residual = nnls(np.vstack([hull.T, np.ones(corners)]), np.append(nearest, 1.0))  # a mean of corners
    assert residual < 1e-9
    assert ((hull - nearest) @ (point - nearest) < 1e-9).all()  # the variational inequality of a projection


def test_weights_of_knots_add_up_to_one():
    weights = dcm.dcm_at_knots(np.array([0.0, 0.3, 0.4, 1.0]), np.eye(4), OMEGA)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-14)


@pytest.mark.parametrize(("x", "y"), [(0.7, 0.0), (-0.7, 0.0), (0.5, 0.3), (0.0, 0.45)])
def test_pushed_pendulum_comes_to_rest_amid_the_feet_after_two_steps(x, y):
    """The motion begins with the measured state, and its zero-moment point stays on the soles that stand."""
    catch = caught(pushed(x, y))
    assert catch.missing == 0.0
    begin, end = dcm.com_at(catch.plan, 1.0), dcm.com_at(catch.plan, 30.0)
    np.testing.assert_allclose(begin.value, 0.0, atol=1e-14)
    np.testing.assert_allclose(begin.velocity, [x, y], atol=1e-13)
    first, second = catch.steps
    np.testing.assert_allclose(end.value, 0.5 * (first.places[0] + second.places[0])[:2], atol=1e-12)
    for t in np.linspace(first.lift_s, first.land_s, 9):
        assert (np.abs(dcm.zmp_at(catch.plan, t) - FEET[1, :2]) <= [0.1 + 1e-3, 0.06 + 1e-3]).all()
    for t in np.linspace(second.lift_s, second.land_s, 9):
        np.testing.assert_allclose(dcm.zmp_at(catch.plan, t), first.places[0, :2], atol=1e-12)


def test_zero_moment_point_continues_while_all_feet_stand():
    """A jump would tear the load from one foot to the other."""
    catch = caught(pushed(0.7, 0.2), t=1.0)
    np.testing.assert_allclose(dcm.zmp_at(catch.plan, 1.0), dcm.zmp_at(START, 1.0), atol=1e-12)
    again = capture.caught(
        catch.steps,
        Ground(FEET, FEET[1, :2] + SOLE, FEET),
        WALK,
        catch.plan,
        1.02,
        Motion(np.array([0.03, 0.0]), np.array([1.0, 0.3]), np.zeros(2)),
    )
    np.testing.assert_allclose(dcm.zmp_at(again.plan, 1.02), dcm.zmp_at(catch.plan, 1.02), atol=1e-12)


def test_step_is_as_far_as_the_pendulum_needs():
    """While the foot swings, ξ grows with e^{ωt} from p at the toe; the foot lands where shifting p then catches ξ."""
    catch = caught(pushed(0.7, 0.0))
    (first, _), w, takes_s = catch.steps, OMEGA, capture.STARTS_S
    speed = 0.1 / takes_s  # p moves evenly from between the feet to the toe, in the time that also unloads the foot
    lifted = 0.1 + speed / w + (0.7 / w - speed / w) * np.exp(w * takes_s)
    xi = 0.1 + (lifted - 0.1) * np.exp(w * (first.land_s - 1.0 - takes_s))
    gain = (1.0 - np.exp(-takes_s * w)) / (takes_s * w)  # p moves evenly to the landed foot within this time
    assert first.places[0, 0] == pytest.approx((xi - 0.1 * (1.0 - gain)) / gain, abs=0.01)


def test_step_stays_in_place_if_leaning_suffices():
    catch = caught(pushed(0.1, 0.0))
    assert abs(catch.steps[0].places[0, 0]) < 1e-12
    assert catch.missing == 0.0


@pytest.mark.parametrize(("x", "y"), [(0.0, -0.6), (3.0, 0.0), (2.0, -2.0)])
def test_feet_neither_cross_nor_leave_their_reach(x, y):
    catch = caught(pushed(x, y))
    assert catch.missing > 0.0
    place = catch.steps[0].places[0]
    assert place[1] - FEET[1, 1] >= 0.8 * 0.17 - 1e-9
    assert np.linalg.norm(place[:2] - FEET[0, :2]) <= 0.6 + 0.17


def test_machine_pushed_across_its_stance_foot_sets_the_other_foot_down_and_steps_aside():
    """Legs do not cross: the first foot lands as near as it may, and the second one catches the pendulum."""
    catch = caught(pushed(0.0, -0.35))
    assert catch.missing == 0.0
    first, second = catch.steps
    assert first.places[0, 1] - FEET[1, 1] == pytest.approx(0.8 * 0.17)
    assert second.places[0, 1] < FEET[1, 1] - 0.3
    assert abs(second.places[0, 1] - FEET[1, 1]) <= 2.0 * (second.land_s - second.lift_s)
    np.testing.assert_allclose(dcm.com_at(catch.plan, 1.0).velocity, [0.0, -0.35], atol=1e-13)
    np.testing.assert_allclose(dcm.com_at(catch.plan, 30.0).value[1], 0.5 * (first.places + second.places)[0, 1])


def test_foot_about_to_land_flies_on_to_where_a_late_push_needs_it():
    steps, com = capture.on_the_spot(WALK, FEET, [(0,), (1,)], 1.0), Motion(*np.array([[0, -0.06], [0, 0.6], [0, 0]]))
    catch = capture.caught(steps, Ground(FEET, FEET[1, :2] + SOLE, FEET), WALK, START, 1.27, com)
    assert catch.missing == 0.0
    assert 0.0 < catch.steps[0].land_s - steps[0].land_s < 0.15
    way = catch.steps[0].places[0, 1] - FEET[0, 1]
    assert 0.1 < way <= 2.0 * (catch.steps[0].land_s - 1.27) + 1e-9
    phases = [(1.27 - step.lift_s) / (step.land_s - step.lift_s) for step in (steps[0], catch.steps[0])]
    assert phases[0] == pytest.approx(phases[1])


@pytest.mark.parametrize("speed", [1.0, 2.0])
def test_foot_lands_in_time_although_no_step_catches_the_machine(speed):
    """Otherwise each new plan delays the landing, and the machine falls on one foot."""
    steps = capture.on_the_spot(WALK, FEET, [(1,), (0,)], 0.9)
    for t in (1.0, 1.1):
        catch = capture.caught(steps, Ground(FEET, FEET[0, :2] + SOLE, FEET), WALK, START, t, pushed(0.0, speed))
        assert catch.missing > 0.0
        assert catch.steps[0].land_s <= steps[0].land_s
        steps = catch.steps


def test_machine_that_falls_onto_the_landed_foot_lifts_the_other_at_once():
    first, second = capture.on_the_spot(WALK, FEET, [(0,), (1,)], 1.0)
    assert second.lift_s - first.land_s == pytest.approx(capture.STARTS_S)
    assert second.land_s - second.lift_s == pytest.approx(WALK.single_s)


def test_foot_in_the_air_keeps_its_phase_when_it_lands_sooner():
    steps = capture.on_the_spot(WALK, FEET, [(0,), (1,)], 1.0)
    sooner = capture.retimed(steps, 1.3, 1.14)
    phases = [(1.14 - step.lift_s) / (step.land_s - step.lift_s) for step in (steps[0], sooner[0])]
    assert phases == pytest.approx([0.4, 0.4])
    assert sooner[1].lift_s - steps[1].lift_s == pytest.approx(-0.05)


def test_landing_that_is_delayed_just_before_it_is_due_goes_on_from_the_end_of_its_swing():
    steps = capture.on_the_spot(WALK, FEET, [(0,)], 1.0)
    t = steps[0].land_s - 1e-14
    (later,) = capture.retimed(steps, t + 0.1, t)
    assert (t - later.lift_s) / (later.land_s - later.lift_s) == pytest.approx(capture.LATEST)


def test_step_that_has_not_begun_moves_as_a_whole_but_unloads_its_foot_first():
    steps = capture.on_the_spot(WALK, FEET, [(0,)], 1.0)
    (sooner,) = capture.retimed(steps, 1.25, 0.9)
    assert sooner.lift_s == pytest.approx(0.95)
    assert sooner.land_s == 1.25


def test_machine_leans_as_far_as_its_soles_reach():
    corners = np.vstack([foot[:2] + SOLE for foot in FEET])
    plan = capture.leant(FEET, corners, START, 1.0, pushed(0.3, 0.0))
    assert plan is not None
    assert np.abs(plan.zmp[:, 0]).max() <= 0.1 + 2e-3
    np.testing.assert_allclose(dcm.com_at(plan, 20.0).value, 0.0, atol=1e-12)
    assert capture.leant(FEET, corners, START, 1.0, pushed(0.4, 0.0)) is None


@settings(deadline=None, max_examples=30)
@given(numbers=st.tuples(*[st.floats(-1.0, 1.0)] * 4), part=st.floats(0.01, 0.99))
def test_way_of_a_foot_goes_on_from_its_motion_to_rest(numbers, part):
    x, v, a, goal = (np.array([number]) for number in numbers)

    def way(t):
        return dcm.toward(Motion(x, v, a), goal, 1.0, 1.4, t)

    for value, wanted in zip(way(1.0), (x, v, a), strict=True):
        np.testing.assert_allclose(value, wanted, atol=1e-12)
    for value, wanted in zip(way(1.4), (goal, 0.0, 0.0), strict=True):
        np.testing.assert_allclose(value, wanted, atol=1e-11)
    t, e = 1.0 + 0.4 * part, 1e-6
    slopes = [(after - before) / (2.0 * e) for after, before in zip(way(t + e), way(t - e), strict=True)]
    np.testing.assert_allclose(slopes[:2], way(t)[1:], atol=1e-4)
