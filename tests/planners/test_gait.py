import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idcontrol.errors import InputError
from idcontrol.planners.gait import Gait, named_gait

GAITS = st.builds(
    Gait,
    period_s=st.floats(0.1, 2.0),
    duty=st.floats(0.1, 0.95),
    touchdown=st.lists(st.floats(0.0, 0.99), min_size=1, max_size=4).map(tuple),
)


def test_the_papers_trot_lifts_diagonal_pairs_at_zero_and_half_a_period():
    gait = Gait()
    # LF, RF, LH, RH; swing is a quarter of 0.3 s.
    for t, stance in [
        (0.001, [False, True, True, False]),
        (0.074, [False, True, True, False]),
        (0.076, [True, True, True, True]),
        (0.151, [True, False, False, True]),
        (0.224, [True, False, False, True]),
        (0.226, [True, True, True, True]),
        (0.301, [False, True, True, False]),
    ]:
        assert gait.timing(t).stance.tolist() == stance


def test_a_foot_has_no_touchdown_behind_it_until_it_has_landed_once():
    gait = Gait()
    assert np.isinf(gait.timing(0.01).since_touchdown[1])
    assert gait.timing(0.08).since_touchdown[0] == pytest.approx(0.005)


@settings(deadline=None)  # the first call compiles
@given(gait=GAITS, t=st.floats(0.0, 20.0))
def test_the_announced_events_are_where_the_stance_changes(gait, t):
    timing = gait.timing(t)
    # Events come early by 1e-9 of a period, times round at 1e-15 * 20 s: 1e-6 of a period is clear of both.
    tiny = 1e-6 * gait.period_s
    for i, stance in enumerate(timing.stance):
        if stance:
            assert timing.to_liftoff[i] >= 0.0
            assert not gait.timing(t + timing.to_liftoff[i] + tiny).stance[i]
            if timing.to_liftoff[i] > 2.0 * tiny:
                assert gait.timing(t + timing.to_liftoff[i] - tiny).stance[i]
            assert timing.to_touchdown[i] == pytest.approx(timing.to_liftoff[i] + gait.swing_s)
            assert timing.since_liftoff[i] == 0.0
        else:
            assert gait.timing(t + timing.to_touchdown[i] + tiny).stance[i]
            assert timing.since_liftoff[i] + timing.to_touchdown[i] == pytest.approx(gait.swing_s)
            assert np.isinf(timing.to_liftoff[i])
            assert np.isinf(timing.since_touchdown[i])


@settings(deadline=None)  # the first call compiles
@given(gait=GAITS)
def test_every_foot_stands_for_its_duty(gait):
    # From the second period on; 1000 samples resolve the duty to one of them.
    samples = np.array([gait.timing(gait.period_s * (1 + k / 1000)).stance for k in range(1000)])
    assert np.abs(samples.mean(axis=0) - gait.duty).max() <= 1e-3 + 1e-9


def test_a_tick_on_an_event_belongs_to_the_next_phase_despite_rounding():
    gait = Gait()
    stance = np.array([gait.timing(k * 1e-3).stance[0] for k in range(30000)])
    changes = np.flatnonzero(np.diff(stance.astype(int))) + 1
    # Lift-off at multiples of 300 ticks, touchdown 75 ticks later, for a hundred periods.
    assert changes.tolist() == sorted([*range(300, 30000, 300), *range(75, 30000, 300)])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"period_s": 0.0}, "period_s"),
        ({"period_s": math.nan}, "period_s"),
        ({"duty": 1.0}, "duty"),
        ({"touchdown": ()}, "touchdown"),
        ({"touchdown": (0.5, 1.0)}, "touchdown"),
        ({"step_height_m": -0.01}, "step_height_m"),
        ({"touchdown_speed_m_s": math.inf}, "touchdown_speed_m_s"),
        ({"start_s": -1.0}, "start_s"),
    ],
)
def test_an_impossible_gait_is_refused_by_name(wrong, said):
    with pytest.raises(InputError, match=said):
        Gait(**wrong)


FEET = np.array([(0.2, 0.1, 0.0), (0.2, -0.1, 0.0), (-0.2, 0.1, 0.0), (-0.2, -0.1, 0.0)])
"""Left and right fore foot, left and right hind foot [m]."""


def standing_together(kind, order=(0, 1, 2, 3)):
    """The sets of feet that ever stand at once, in the order LF, RF, LH, RH whatever the order of the machine."""
    gait = named_gait(kind, Gait(), FEET[list(order)])
    times = gait.period_s * (3.0 + np.arange(0.0005, 1.0, 0.001))
    stances = (gait.timing(t).stance[np.argsort(order)] for t in times)
    return {"".join(name for name, stands in zip("LRlr", stance, strict=True) if stands) for stance in stances}


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (3, 1, 0, 2)])
def test_named_gaits_lift_the_right_feet_for_any_order_of_the_feet(order):
    assert standing_together("trot") == {"LRlr", "Lr", "Rl"}
    assert standing_together("pace", order) == {"LRlr", "Ll", "Rr"}
    assert standing_together("bound", order) == {"LRlr", "LR", "lr"}
    assert standing_together("walk", order) == {"LRlr", "LRr", "Rlr", "LRl", "Llr"}
    assert standing_together("flying-trot", order) == {"Lr", "Rl", ""}


def test_a_gait_with_a_name_needs_two_fore_and_two_hind_feet():
    with pytest.raises(InputError, match="two fore and two hind feet"):
        named_gait("pace", Gait(), FEET[[0, 1, 1, 3]])
