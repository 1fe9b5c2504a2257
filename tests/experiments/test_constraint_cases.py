"""The test cases of Drumwright 2019: pendulum, joint limit, elastic foundation."""

import itertools
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from idcontrol.experiments import foundation, pendulum, pendulum_limit
from idcontrol.models import constraint
from idcontrol.models.step import StepProblem


def silent(share):
    """No progress."""


@pytest.mark.slow
def test_the_joint_of_the_pendulum_opens_by_the_square_of_the_step(tmp_path):
    config = pendulum.Config(steps_s=(1e-2, 2e-3), duration_s=0.3)
    metrics = pendulum.experiment.run(config, tmp_path, silent)
    assert metrics["completed"]
    assert metrics["joint_order"] == pytest.approx(2.0, abs=0.1)
    assert metrics["energy_order"] == pytest.approx(1.0, abs=0.2)
    assert metrics["paper"]["energy_error_h_0.01_j"] == 0.0
    assert metrics["energy_error_h_0.01_j"] > 1e-3


def test_both_forms_converge_and_the_printed_form_gains_energy_at_large_steps():
    ours, printed = (pendulum.Config(form=form) for form in ("compliance", "as-printed"))
    fine = [pendulum.swing(msgspec.structs.replace(config, duration_s=0.3), 1e-3) for config in (ours, printed)]
    assert fine[0].joint_error.max() == pytest.approx(fine[1].joint_error.max(), rel=2e-2)
    coarse = [np.abs(pendulum.swing(config, 0.1).energy).max() for config in (ours, printed)]
    # of 9.8 J; math.md, section 11.1, has 7 J for the printed form
    assert coarse[0] < 2.0
    assert 6.0 < coarse[1] < 8.0


def test_the_limit_of_the_kernel_is_the_constraint_model_with_one_row():
    rng = np.random.default_rng(0)
    pushed = 0
    for _ in range(100):
        angle, speed, h = 1e-5 * rng.normal(), rng.normal(), 10.0 ** rng.uniform(-8, -4)
        K, B, inertia = 10.0 ** rng.uniform(6, 12), rng.choice([0.0, 1e3]), rng.uniform(0.5, 2.0)
        limit = constraint.joint_limits(
            np.array([0]), np.array([angle]), np.zeros(1), np.full(1, np.inf), 1, stiffness=K, damping=B
        )
        problem = StepProblem(h=h, M=np.array([[inertia]]), kappa=np.array([-inertia * speed]), contacts=limit)
        expected = constraint.solve(problem).impulses[0, 0]
        result = pendulum_limit.limit_impulse(angle, speed, h, inertia, K, B)
        assert result == pytest.approx(expected, rel=1e-9, abs=1e-15)
        pushed += result > 0.0
    assert pushed > 20


@pytest.mark.slow
def test_the_limit_is_dead_at_coarse_steps_and_elastic_at_fine_ones(tmp_path):
    """A softer limit than the paper's shows it at steps that a test can afford: hω = 10, 1, 0.1, 0.01."""
    config = pendulum_limit.Config(stiffness_nm_rad=1e8, steps_s=(1e-3, 1e-4, 1e-5, 1e-6))
    metrics = pendulum_limit.experiment.run(config, tmp_path, silent)
    assert metrics["completed"], metrics["checks"]
    assert metrics["restitution_h_0.001"] < 0.01
    assert metrics["restitution_h_1e-06"] > 0.95


def soft_bed(load, n=100, modulus=1e5):
    return foundation.Bed(points=foundation._grid(n), stiffness=modulus / n, damping=1.0, load=load)


def test_the_reference_of_the_bed_agrees_with_scipy():
    bed = soft_bed(50.0)
    result = foundation.reference(bed, 0.2, 10)
    out = np.empty(13)

    def rate(t, y):
        foundation._rate(t, y, bed.points, bed.stiffness, bed.damping, bed.load, out)
        return out.copy()

    exact = solve_ivp(
        rate, (0.0, 0.2), foundation._start(), "DOP853", rtol=1e-10, atol=1e-13, t_eval=np.linspace(0.02, 0.2, 10)
    )
    # a vibration of 1.3 mm, whose phase errs by 0.2⁵/120 in each of 112 steps: 4e-7 m
    np.testing.assert_allclose(result, exact.y[:7].T, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("load", "lifts"), [(5.0, False), (50.0, True)])
def test_only_the_larger_load_lifts_one_side_of_the_cube(load, lifts):
    """The paper describes both loads. Only a density of 8 kg/m³ agrees with it: at 888 kg/m³ nothing lifts."""
    bed = soft_bed(load, modulus=1e7)
    path = foundation.settle(bed, foundation.Config(duration_s=0.5))[10:]
    tilt = 2.0 * np.hypot(path[:, 3], path[:, 4])
    highest_corner = path[:, 2] - 0.5 + 0.5 * tilt
    assert (highest_corner.max() > 0.0) == lifts


def test_a_small_case_is_recorded_beside_the_papers_numbers(tmp_path):
    config = foundation.Config(elements=(100,), moduli_pa=(1e7,), integrators=("LSODA",), time_limit_s=30.0)
    metrics = foundation.experiment.run(config, tmp_path, silent)
    assert metrics["completed"], metrics["checks"]
    assert metrics["paper"]["error_n100_e1e07_f50"] == 0.813
    assert metrics["error_n100_e1e07_f50"] < 1e-5
    assert metrics["time_lsoda_n100_e1e07_f5_s"] > 0.0


def test_a_slow_integrator_is_stopped_and_its_time_extrapolated(monkeypatch):
    """The springs limit all Runge-Kutta steps alike, so that a part of the motion takes the same part of the time."""
    now = itertools.count()  # each look at the clock takes a second
    monkeypatch.setattr(foundation, "time", SimpleNamespace(perf_counter=lambda: float(next(now))))
    bed = soft_bed(50.0, modulus=1e7)
    whole = foundation.integrate(bed, 4.0, "RK45", np.inf)
    assert whole.done == 1.0
    stopped = foundation.integrate(bed, 4.0, "RK45", 0.3 * whole.wall_s)
    assert stopped.done == pytest.approx(0.3, abs=0.05)
    assert stopped.wall_s == pytest.approx(whole.wall_s, rel=0.15)


def test_the_printed_program_settles_the_cube_too():
    """Its error is as small as that of the symmetric form; the program does not explain the error of 0.8 in Table 2."""
    bed = soft_bed(50.0, modulus=1e7)
    short = foundation.Config(duration_s=0.2)
    exact = foundation.reference(bed, 0.2, 1)[-1]
    printed = foundation.settle(bed, msgspec.structs.replace(short, form="as-printed"))[-1]
    assert np.linalg.norm(printed - exact) < 1e-5
