"""Metrics of synthetic signals with known values in closed form."""

import json

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idcontrol.record import metrics
from idcontrol.record.metrics import Layout
from idcontrol.record.quantities import QUANTITIES
from idcontrol.types import Status

H = 1e-3
LAYOUT = Layout(
    joints=("hip", "knee"),
    feet=("L", "R"),
    joint_q=(7, 8),
    joint_v=(6, 7),
    torque_limit=(2.0, None),
    period_s=H,
    gait_period_s=0.3,
    swing_s=0.08,
    base_height_m=0.2,
)


def standing(duration_s: float = 2.0) -> dict[str, np.ndarray]:
    """Return a machine that stands exactly at its reference on two feet of 5 N each, predicted exactly."""
    n = round(duration_s / H)
    arrays = {
        "t": H * np.arange(n),
        "q": np.tile([0, 0, 0.2, 0, 0, 0, 1, 0.5, -0.5], (n, 1)),
        "v": np.zeros((n, 8)),
        "q_des": np.tile([0.5, -0.5], (n, 1)),
        "base_ref": np.tile([0, 0, 0.2, 0], (n, 1)),
        "stance": np.ones((n, 2)),
        "force": np.tile([0, 0, 5.0], (n, 2, 1)),
        "force_pred": np.tile([0, 0, 5.0], (n, 2, 1)),
        "plant_residual": np.full(n, 1e-14),
    }
    for name, shape in {
        "v_des": (2,), "tau": (2,), "feet": (2, 3), "feet_des": (2, 3), "slip": (2,), "status": (), "clipped": (),
        "base_tilt": (), "com": (3,), "segment": (2,), "target": (2,), "turning": (), "waypoints": (),
        "commanded": (3,), "granted": (3,),
        "plant_status": (), "plant_regularization": (),
    }.items():  # fmt: skip
        arrays[name] = np.zeros((n, *shape))
    arrays["step_us"] = np.arange(1.0, n + 1)
    return arrays


def of(arrays: dict[str, np.ndarray], duration_s: float = 2.0) -> dict[str, object]:
    return metrics.locomotion(arrays, LAYOUT, duration_s)


def test_a_walk_exactly_as_planned_has_no_errors():
    got = of(standing())
    zero = [
        "q_err_rad", "qd_err_rad_s", "tau_mean_nm", "dtau_mean_nm_s", "dtau_max_nm_s", "torque_clipped_steps",
        "force_err_n", "force_err_rel", "force_err_same_feet_rel", "force_err_median_n", "base_pos_err_m",
        "base_height_err_m", "base_tilt_rad", "foot_err_m", "slip_m_s", "slip_max_m_s", "com_path_err_m",
        "com_path_max_m", "distance_m", "waypoints_reached",
    ]  # fmt: skip
    assert {key: got[key] for key in zero} == dict.fromkeys(zero, 0)
    assert got["completed"] is True
    assert got["fell_at_s"] is None
    assert got["touchdown_err_s"] is None  # no foot ever swings
    assert got["steps"] == 2000
    assert got["solver"] == {"solved": 2000, "repaired": 0, "fallback": 0, "failed": 0, "by": {}}
    assert got["plant_solver"] == {"steps": 2000, "repaired": 0, "regularized": 0, "unsolved": 0, "residual_max": 1e-14}


def test_the_torque_of_a_ramp_and_a_jump():
    t = H * np.arange(1001)
    tau = np.column_stack([3.0 * t, np.where(t < 0.4995, 0.0, 2.0)])
    got = metrics.torques(tau, H)
    assert got["tau_mean_nm"] == pytest.approx((1.5 + 2.0 * 501 / 1001) / 2)
    assert got["dtau_mean_nm_s"] == pytest.approx((3.0 + 2.0) / 2)  # mean |rate| of a jump of 2 N m within 1 s is 2
    assert got["dtau_max_nm_s"] == pytest.approx(2000.0)
    assert got["dtau_p50_nm_s"] == pytest.approx(3.0)  # 999 steps have no jump
    assert got["dtau_p99_nm_s"] == got["dtau_p999_nm_s"] == pytest.approx(3.0)
    assert got["dtau_rms_nm_s"] == pytest.approx(np.sqrt((1000 * 3.0**2 + 2000.0**2) / 2000))


@pytest.mark.parametrize("joints", [1, 3])
def test_the_power_of_the_torque_rate_lies_where_its_frequencies_are(joints):
    t = H * np.arange(2001)
    # rates in the ratio 1 to 2
    slow, quick = np.sin(2.0 * np.pi * 10.0 * t) / 10.0, 2.0 * np.sin(2.0 * np.pi * 60.0 * t) / 60.0
    got = metrics.torques(np.tile((slow + quick)[:, None], joints), H)["dtau_power_above"]
    assert got == pytest.approx({"20": 0.8, "50": 0.8, "100": 0.0}, abs=2e-3)
    assert metrics.torques(np.zeros((5, joints)), H)["dtau_power_above"] == dict.fromkeys(got)


def test_force_errors_refer_to_the_sum_over_feet():
    arrays = standing()
    arrays["force_pred"][:, :, 2] = [7.0, 3.0]  # wrong for each foot, right in sum
    assert of(arrays)["force_err_n"] == 0
    arrays["force_pred"][:500, 0, 2] += 1.0  # a quarter of the time 1 N too much
    got = of(arrays)
    assert got["force_err_n"] == pytest.approx(0.25)
    assert got["force_err_rel"] == pytest.approx(0.025)
    assert got["force_err_median_n"] == 0


def test_unpredicted_landings_are_separate_from_errors_while_feet_stand():
    arrays = standing()
    arrays["force_pred"][:, 0, 2] += 0.1  # 1 % of the load, all the time
    arrays["force_pred"][:200, 1] = 0.0  # for a tenth of the time a foot carries its 5 N without a prediction
    got = of(arrays)
    assert got["force_err_rel"] == pytest.approx(0.9 * 0.01 + 0.1 * 0.49)
    assert got["force_err_same_feet_rel"] == pytest.approx(0.01)
    assert got["force_same_feet_share"] == pytest.approx(0.9)


def test_ticks_without_a_prediction_do_not_count():
    arrays = standing()
    arrays["force_pred"][:1000] = np.nan
    arrays["force_pred"][1000:, 1] = np.nan  # this foot is missing in the prediction: it counts as 0
    got = of(arrays)
    assert got["force_err_n"] == pytest.approx(5.0)
    arrays["force_pred"][:] = np.nan
    got = of(arrays)
    assert got["force_err_n"] is None
    assert got["force_err_rel"] is None
    assert got["force_same_feet_share"] is None
    assert got["force_err_median_n"] is None


def test_a_base_that_wanders_off_its_feet_drifts_even_with_its_reference():
    arrays = standing(6.0)
    arrays["q"][:, 1] += 0.002 * arrays["t"]
    arrays["base_ref"][:, 1] += 0.002 * arrays["t"]
    # 3 s to come to rest, then 3 s less a tick at 2 mm/s
    assert of(arrays, 6.0)["base_pos_err_m"] == 0.0
    assert of(arrays, 6.0)["standing_drift_m"] == pytest.approx(0.002 * (3.0 - H))
    arrays["feet"][:, :, 1] += 0.002 * arrays["t"][:, None]
    assert of(arrays, 6.0)["standing_drift_m"] == pytest.approx(0.0, abs=1e-12)
    arrays["stance"][::2000, 1] = 0  # a foot steps every two seconds
    assert of(arrays, 6.0)["standing_drift_m"] is None


def test_bobbing_with_the_gait_is_no_height_error_but_rising_is():
    arrays = standing(4.0)
    t = arrays["t"]
    arrays["q"][:, 2] += 0.01 * np.sin(2 * np.pi * t / 0.3)
    # a mean of the sine over whole periods is 0 up to summation
    assert of(arrays, 4.0)["base_height_err_m"] == pytest.approx(0.0, abs=1e-12)
    arrays["q"][:, 2] -= 0.001 * t
    # the last window of 0.3 s is centred 0.1505 s before the end of the last row
    assert of(arrays, 4.0)["base_height_err_m"] == pytest.approx(0.001 * (t[-1] - 0.1495), rel=1e-9)


def test_the_first_second_does_not_count_in_the_height_error():
    arrays = standing()
    arrays["q"][:1000, 2] += 0.05
    assert of(arrays)["base_height_err_m"] == 0


def test_only_feet_that_are_planned_to_stand_slip():
    arrays = standing()
    arrays["slip"][:, 0] = 0.01
    arrays["slip"][:, 1] = 1.0
    arrays["stance"][:, 1] = 0
    got = of(arrays)
    assert got["slip_m_s"] == pytest.approx(0.01)
    assert got["slip_max_m_s"] == pytest.approx(0.01)
    arrays["stance"][:] = 0
    assert of(arrays)["slip_m_s"] is None


@given(st.lists(st.integers(-39, 39), min_size=1, max_size=6))
def test_touchdowns_off_by_some_ticks_are_seen_exactly(offsets):
    """Foot L lands `offset` ticks after its plan in each cycle; half a swing is 40 ticks."""
    n = 300 * (len(offsets) + 1)
    stance = np.ones((n, 2), dtype=bool)
    force = np.ones((n, 2, 3))
    for i, offset in enumerate(offsets):
        planned = 300 * (i + 1)
        stance[planned - 80 : planned, 0] = False
        force[planned - 80 : planned + offset, 0] = 0.0
    got = metrics.touchdown_error(stance, force, 0.08, H)
    assert got == pytest.approx(H * np.mean(np.abs(offsets)))


def test_a_touchdown_that_never_comes_counts_as_half_a_swing():
    stance = np.ones((600, 1), dtype=bool)
    stance[220:300] = False
    force = np.ones((600, 1, 3))
    force[220:500] = 0.0
    assert metrics.touchdown_error(stance, force, 0.08, H) == pytest.approx(0.04)


def test_touchdowns_at_the_ends_of_the_record_are_skipped():
    stance = np.zeros((100, 1), dtype=bool)
    stance[30:60] = stance[90:] = True
    assert metrics.touchdown_error(stance, np.zeros((100, 1, 3)), 0.08, H) is None


def test_the_path_error_is_the_distance_to_the_segment_not_to_the_line():
    com = np.array([[0.5, 0.3], [-0.3, 0.4], [1.0, 0.0], [9.0, 9.0], [9.0, 9.0]])
    start, end = np.zeros((5, 2)), np.tile([1.0, 0.0], (5, 1))
    start[4] = np.nan
    turning = np.array([False, False, False, True, False])
    got = metrics.com_path(com, start, end, turning)
    assert got["com_path_err_m"] == pytest.approx((0.3 + 0.5 + 0.0) / 3)
    assert got["com_path_max_m"] == pytest.approx(0.5)
    assert metrics.com_path(com, start, end, np.ones(5, dtype=bool)) == {"com_path_err_m": None, "com_path_max_m": None}


def test_sway_within_a_gait_period_is_no_distance():
    t = H * np.arange(3001)
    base = np.column_stack([0.2 * t, 0.02 * np.sin(2 * np.pi * t / 0.3)])
    assert metrics.distance(base, 300) == pytest.approx(0.6, rel=1e-9)


def test_a_fall_is_seen_by_height_and_by_tilt():
    arrays = standing()
    arrays["q"][1500:, 2] = 0.0999
    got = of(arrays)
    assert got["fell_at_s"] == pytest.approx(1.5)
    assert got["completed"] is False
    arrays = standing()
    arrays["base_tilt"][700] = 0.61
    assert of(arrays)["fell_at_s"] == pytest.approx(0.7)


def test_ground_that_rises_with_the_reference_is_no_fall():
    arrays = standing()
    arrays["q"][:, 2] -= 0.3
    arrays["base_ref"][:, 2] -= 0.3
    assert of(arrays)["fell_at_s"] is None


def commanded(command, moved, *, duration_s=2.0, turned=0.0, share=1.0):
    """Return a machine that is granted a share of a constant command, and the uniform motion and turn that it makes."""
    arrays = standing(duration_s)
    n = len(arrays["t"])
    part = np.linspace(0.0, 1.0, n)
    arrays["commanded"] = np.tile(command, (n, 1)).astype(float)
    arrays["granted"] = share * arrays["commanded"]
    arrays["q"][:, :2] = part[:, None] * moved
    arrays["q"][:, 5], arrays["q"][:, 6] = np.sin(0.5 * turned * part), np.cos(0.5 * turned * part)
    return arrays


QUICK = msgspec.structs.replace(LAYOUT, acceleration_m_s2=1e9, turn_acceleration_rad_s2=1e9)


def done(arrays, layout=QUICK):
    return metrics.locomotion(arrays, layout, 2.0)["completed"]


def test_a_walk_is_completed_if_it_goes_as_far_as_commanded_within_a_tenth():
    got = metrics.locomotion(commanded((0.3, 0.4, 0.0), (0.6, 0.8)), QUICK, 2.0)
    assert got["commanded_m_s"] == got["granted_m_s"] == pytest.approx(0.5)
    assert got["followed_m"] == pytest.approx(got["granted_m"]) == pytest.approx(got["commanded_m"])
    assert got["completed"]
    # a tenth of the distance and of the height of 0.2 m
    assert done(commanded((0.3, 0.4, 0.0), (0.9 * 0.6, 0.9 * 0.8)))
    for moved in ((0.0, 0.0), (0.8 * 0.6, 0.8 * 0.8), (-0.6, -0.8), (0.8, -0.6), (1.2 * 0.6, 1.2 * 0.8)):
        assert not done(commanded((0.3, 0.4, 0.0), moved))


@pytest.mark.parametrize("share", [0.5, 0.0])
def test_a_walk_granted_too_little_does_not_complete_its_command(share):
    got = metrics.locomotion(commanded((0.5, 0.0, 0.0), (share, 0.0), share=share), QUICK, 2.0)
    assert not got["completed"]
    assert got["missed"] == f"went {share:.2f} of 1.00 m commanded ({share:.2f} granted)"


def test_the_distance_that_accelerating_takes_is_not_missed():
    """From rest to 0.5 m/s at 0.5 m/s² takes 1 s and costs 0.25 m; of 5 m/s it reaches 1 m/s in 2 s."""
    slow = msgspec.structs.replace(LAYOUT, acceleration_m_s2=0.5)
    for command, moved in ((0.5, 0.75), (5.0, 1.0)):
        arrays = commanded((command, 0.0, 0.0), (moved, 0.0))
        assert not done(arrays)
        assert done(arrays, slow)
    assert not done(commanded((5.0, 0.0, 0.0), (0.8, 0.0)), slow)


def test_a_turn_is_completed_if_it_goes_round_as_far_as_commanded():
    assert done(commanded((0.0, 0.0, 4.0), (0.0, 0.0), turned=8.0))
    assert of(commanded((0.0, 0.0, 4.0), (0.0, 0.0), turned=8.0))["followed_rad"] == pytest.approx(8.0)
    for turned in (0.0, 6.5, -8.0):
        assert not done(commanded((0.0, 0.0, 4.0), (0.0, 0.0), turned=turned))


def test_a_walk_in_circles_about_a_waypoint_is_not_completed():
    layout = msgspec.structs.replace(LAYOUT, waypoints=((0.5, 0.0), (0.5, 0.5)))
    arrays = commanded((0.5, 0.0, 0.0), (1.0, 0.0))
    assert not done(arrays, layout)  # a metre, and beyond a waypoint at half a metre
    arrays = commanded((0.5, 0.0, 0.0), (0.5, 0.45))
    arrays["waypoints"][1000:] = 1.0
    assert done(arrays, layout)


@pytest.mark.parametrize(("command", "turned"), [((0.5, 0.0, 0.0), 0.0), ((0.0, 0.0, 4.0), 8.0)])
def test_a_walk_between_waypoints_that_goes_nowhere_is_not_completed(command, turned):
    layout = msgspec.structs.replace(LAYOUT, waypoints=((0.5, 0.0), (0.5, 0.5)))
    got = metrics.locomotion(commanded(command, (0.0, 0.0), turned=turned), layout, 2.0)
    assert not got["completed"]
    assert got["missed"].startswith("reached 0 waypoints: came 0.00 m")


def test_a_nan_in_the_state_is_null_in_json_and_not_completed():
    arrays = standing()
    arrays["q"][-1] = np.nan
    got = of(arrays)
    assert got["completed"] is False
    assert got["q_err_rad"] is None
    json.dumps(got, allow_nan=False)


def test_a_record_without_rows_has_no_numbers():
    got = of({name: values[:0] for name, values in standing().items()})
    assert got["steps"] == 0
    assert got["completed"] is False
    assert got["q_err_rad"] is None
    json.dumps(got, allow_nan=False)


def test_steps_are_counted_by_how_they_ended():
    arrays = standing()
    arrays["status"][:3] = [Status.REPAIRED, Status.FALLBACK, Status.FAILED]
    arrays["clipped"][:4] = 1
    assert of(arrays)["rate_bound_off_steps"] is None  # as in records of older versions
    arrays["rate_off"] = np.repeat([1.0, 0.0, np.nan], [3, 1995, 2])
    arrays["plant_status"][:2] = [Status.FALLBACK, np.nan]
    arrays["plant_regularization"][:5] = 1e-10
    arrays["plant_residual"][7] = 3e-9
    got = of(arrays)
    assert got["solver"] == {"solved": 1997, "repaired": 1, "fallback": 1, "failed": 1, "by": {}}
    assert got["torque_clipped_steps"] == 4
    assert got["rate_bound_off_steps"] == 3
    assert got["plant_solver"] == {"steps": 1999, "repaired": 0, "regularized": 5, "unsolved": 1, "residual_max": 3e-9}


def test_steps_at_a_position_or_speed_limit_are_counted():
    arrays = standing()
    q, v = arrays["q"][:, list(LAYOUT.joint_q)], arrays["v"][:, list(LAYOUT.joint_v)]
    limits = msgspec.structs.replace(
        LAYOUT, lower=(None, float(q[0, 1]) - 0.5), upper=(float(q[0, 0]) + 0.5, None), speed_limit=(3.0, None)
    )
    q[:7, 0] += 0.4995
    q[5:10, 1] -= 0.6
    v[:4, 0], v[:, 1] = -3.0, 99.0
    assert metrics.at_limits(q, v, limits) == {"position_limit_steps": 10, "speed_limit_steps": 4}
    # records of older versions do not contain the limits
    assert metrics.at_limits(q, v, LAYOUT) == {"position_limit_steps": None, "speed_limit_steps": None}


def test_every_number_of_a_run_is_in_the_table_that_people_see():
    got = of(standing())
    shown = {quantity.key.split(".")[0] for quantity in QUANTITIES}
    assert set(got) - shown == {"steps", "missed"}
    counted = {"wall_s", "cpu_s", "realtime_factor", "unreachable_steps"}  # counted by the run itself
    counted |= {quantity.key for quantity in QUANTITIES if quantity.topic == "Loop"}  # counted by a loop
    counted |= {"wrench_err_rel", "cop_err_m", "com_err_rms_m", "slip_mean_m_s"}  # only on soles, or of tasks
    counted |= {"tick_us.p50", "tick_us.p99"}  # of tasks
    assert {quantity.key.split(".")[0] for quantity in QUANTITIES if quantity.key not in counted} <= set(got)


def test_a_quantity_is_shown_in_the_unit_of_the_table():
    quantity = next(q for q in QUANTITIES if q.key == "q_err_rad")
    assert quantity.text(quantity.of({"q_err_rad": 0.0039})) == "3.9"
    assert quantity.text(quantity.of({})) == "–"
    assert next(q for q in QUANTITIES if q.key == "completed").text(True) == "yes"


def test_steps_are_counted_by_who_solved_them():
    names = ("sticking", "coulomb-lcp", "sticking", None, "mine")
    solved_by = np.array([metrics.solver_number(name) for name in names])
    counts = metrics.statuses(np.zeros(5), solved_by)
    assert counts["by"] == {"sticking": 2, "coulomb-lcp": 1}
    assert counts["solved"] == 5


def test_steps_with_a_proved_closest_torque_are_counted_after_a_search():
    counts = metrics.statuses(np.zeros(5), gap=np.array([0.0, 0.2, np.nan, 0.0, 0.3]))
    assert counts["nearest"] == {"proved": 2, "unproved": 2, "gap_max_nm": 0.3}
    assert "nearest" not in metrics.statuses(np.zeros(2), gap=np.full(2, np.nan))
