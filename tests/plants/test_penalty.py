"""Compliant ground: depth at rest, damping, friction that holds, stability."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idcontrol import plants
from idcontrol.bench.problems import machines
from idcontrol.contact.terrain import plane
from idcontrol.plants.penalty import (
    SINK_M,
    ContactPoints,
    FrictionSprings,
    Penalty,
    SpringGround,
    ground_forces,
    longest_stable,
)
from idcontrol.types import State

H = 1e-3
G = 9.81
NO_JOINTS = np.zeros(0)


def drop(**ground: float) -> Penalty:
    setup = machines.sled(plane(), 0.5)
    return Penalty(setup.system, setup.contacts, setup.dt, **ground)


def depth(state: State) -> float:
    """Return the depth of level feet in the ground [m]."""
    return float(machines.SLED_HEIGHT - state.q[2])


def test_a_machine_sinks_by_a_millimetre_into_its_default_ground_without_overshoot():
    """Depth with critical damping is 1 mm times 1 - (1 + ω t) exp(-ω t) with ω² = g / 1 mm."""
    setup = machines.sled(plane(), 0.5, dt=1e-4)
    plant = plants.build("penalty", setup)
    plant.reset(machines.sled_state(0.0))
    omega, deepest = np.sqrt(G / SINK_M), 0.0
    for k in range(200):
        state = plant.step(NO_JOINTS, H)
        t = (k + 1) * H
        expected = SINK_M * (1.0 - (1.0 + omega * t) * np.exp(-omega * t))
        # early by a fine step of 0.1 ms at most, at ω / e of the depth per second
        assert depth(state) == pytest.approx(expected, abs=1e-4 * omega / np.e * SINK_M)
        deepest = max(deepest, depth(state))
    assert depth(state) == pytest.approx(SINK_M, rel=1e-6)
    assert deepest < 1.001 * SINK_M


@pytest.mark.parametrize("stiffness", [1e3, 1e5, 1e7])
def test_depth_at_rest_is_weight_over_stiffness(stiffness):
    plant = drop(stiffness=stiffness)
    start = machines.sled_state(0.0, gap=-0.25 * machines.SLED_MASS * G / stiffness)
    plant.reset(start)
    for _ in range(20):
        state = plant.step(NO_JOINTS, H)
    assert depth(state) == pytest.approx(0.25 * machines.SLED_MASS * G / stiffness, rel=1e-9)
    assert np.abs(state.v).max() < 1e-9


def test_infinite_friction_holds_where_the_sled_would_slide():
    slope = np.deg2rad(40.0)
    plant = plants.build("penalty", machines.sled(plane((np.sin(slope), 0.0, np.cos(slope))), np.inf))
    plant.reset(machines.sled_state(slope))
    for _ in range(400):
        state = plant.step(NO_JOINTS, H)
    assert np.abs(state.v).max() < 1e-9


def test_with_drag_the_sled_slides_at_the_terminal_speed():
    """Speed follows n D v = m g sin α, independent of friction coefficients, as in the original simulator."""
    slope = np.deg2rad(15.0)
    settings = plants.GroundSettings(penalty_friction="viscous", drag_n_s_m=50.0)
    speeds = []
    for mu in (0.0, 10.0):
        plant = plants.build(
            "penalty", machines.sled(plane((np.sin(slope), 0.0, np.cos(slope))), mu, settings=settings)
        )
        plant.reset(machines.sled_state(slope))
        for _ in range(300):
            state = plant.step(NO_JOINTS, H)
        speeds.append(np.linalg.norm(state.v[:3]))
    expected = machines.SLED_MASS * G * np.sin(slope) / (4 * 50.0)
    np.testing.assert_allclose(speeds, expected, rtol=1e-6)


@given(st.floats(1e2, 1e6), st.floats(0.0, 1e4), st.floats(0.1, 100.0))
def test_the_longest_stable_step_is_where_the_spectral_radius_passes_one(k, b, w):
    def radius(h: float) -> float:
        """Return the spectral radius of (gap, velocity) -> v⁺ = v - h w (k gap + b v), gap⁺ = gap + h v⁺."""
        row = [-h * w * k, 1.0 - h * w * b]
        return float(np.abs(np.linalg.eigvals([[1.0 + h * row[0], h * row[1]], row])).max())

    h = longest_stable(SpringGround(k, b, -1.0), w)
    assert radius(0.999 * h) <= 1.0 + 1e-9
    assert radius(1.001 * h) > 1.0
    # drag counts where it is the larger damper
    assert longest_stable(SpringGround(k, 0.0, b), w) == h


def test_a_spring_forgets_its_stretch_in_the_air_and_yields_where_it_slides():
    def after(stretch: float, *, touching: bool) -> tuple[float, float]:
        """Return friction and stretch of a point at rest, 1 mm deep, with a friction coefficient of 0.5."""
        rest = np.zeros(3)
        point = ContactPoints(rest, rest, np.zeros((3, 3)), gap=np.full(1, -1e-3), mu=np.full(1, 0.5))
        springs = FrictionSprings(stretch=np.array([[0.0], [stretch], [0.0]]), touching=np.array([touching]))
        force, _, _ = ground_forces(point, SpringGround(1e4, 50.0, -1.0), springs, H, 1)
        return float(force[1]), float(springs.stretch[1, 0])

    assert after(4e-4, touching=False) == (0.0, 0.0)
    assert after(4e-4, touching=True) == pytest.approx((-4.0, 4e-4))
    assert after(6e-4, touching=True) == pytest.approx((-5.0, 5e-4))
