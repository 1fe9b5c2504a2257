"""Free rigid bodies: momenta kept to rounding, motion right to first order, bad bodies refused."""

import coal
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from idcontrol.dynamics.bodies import (
    Body,
    BodyState,
    Inertias,
    Surface,
    advance,
    free_velocities,
    momentum,
    rotations,
    solid,
    world_inertia,
)
from idcontrol.errors import InputError
from idcontrol.types import Array

pytestmark = pytest.mark.interpreted


def bricks(n: int, rng: np.random.Generator) -> Inertias:
    """Inertias of boxes with very different sides."""
    return Inertias.of([solid(f"brick{i}", coal.Box(*rng.uniform(0.05, 0.5, 3)), 1000.0) for i in range(n)])


def random_state(n: int, rng: np.random.Generator) -> BodyState:
    return BodyState(
        t=0.0,
        position=rng.normal(size=(n, 3)),
        orientation=Rotation.random(n, rng=rng).as_quat(),
        velocity=rng.normal(size=(n, 6)) * [1, 1, 1, 10, 10, 10],
    )


def coast(inertias: Inertias, state: BodyState, h: float, gravity: Array | None = None) -> BodyState:
    """One step without contact."""
    n = len(inertias.mass)
    rotation = rotations(state.orientation)
    g = np.zeros(3) if gravity is None else gravity
    v = free_velocities(inertias, state, rotation, np.zeros((n, 6)), g, h)
    return advance(inertias, state, rotation, v, h)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**31), st.sampled_from([1e-4, 1e-2, 0.3]))
def test_both_momenta_are_kept_to_rounding_at_any_step(seed: int, h: float) -> None:
    rng = np.random.default_rng(seed)
    inertias, state = bricks(3, rng), random_state(3, rng)
    before, size = momentum(inertias, state), 0.0
    for _ in range(100):
        state = coast(inertias, state, h)
        size = max(
            size, float(np.abs(state.position).max()) * float(np.abs(state.velocity * inertias.mass[:, None]).max())
        )
    after = momentum(inertias, state)
    assert np.abs(after[0] - before[0]).max() < 1e-12 * inertias.mass.max() * 10
    # the moment of linear momentum about the origin: x × p, x as far as the bodies have flown
    assert np.abs(after[1] - before[1]).max() < 1e-12 * size
    assert np.linalg.norm(state.orientation, axis=1) == pytest.approx(np.ones(3), abs=1e-14)


def test_a_tumbling_body_follows_eulers_equations_to_first_order() -> None:
    rng = np.random.default_rng(2)
    inertias, start = bricks(1, rng), random_state(1, rng)
    own, inverse = inertias.inertia[0], inertias.inverse[0]
    R0 = Rotation.from_quat(start.orientation[0])

    def rate(t: float, y: Array) -> Array:
        x, yq, z, w = y[:4]
        wx, wy, wz = y[4:]
        spin = 0.5 * np.array(
            [w * wx + yq * wz - z * wy, w * wy + z * wx - x * wz, w * wz + x * wy - yq * wx, -x * wx - yq * wy - z * wz]
        )
        return np.concatenate([spin, inverse @ np.cross(own @ y[4:], y[4:])])

    y0 = np.concatenate([start.orientation[0], R0.inv().apply(start.velocity[0, 3:])])
    exact = solve_ivp(rate, (0.0, 0.2), y0, rtol=1e-11, atol=1e-12).y[:, -1]
    errors = []
    for steps in (100, 200, 400):
        state = start
        for _ in range(steps):
            state = coast(inertias, state, 0.2 / steps)
        errors.append((Rotation.from_quat(state.orientation[0]).inv() * Rotation.from_quat(exact[:4])).magnitude())
    assert errors[0] < 0.2
    # halving the step halves the error, to the next order
    assert errors[0] / errors[1] == pytest.approx(2.0, rel=0.1)
    assert errors[1] / errors[2] == pytest.approx(2.0, rel=0.1)


def test_axes_and_inertia_equal_scipy() -> None:
    rng = np.random.default_rng(3)
    inertias, state = bricks(20, rng), random_state(20, rng)
    out = rotations(3.0 * state.orientation)  # of any length
    R = Rotation.from_quat(state.orientation).as_matrix()
    assert out == pytest.approx(R, abs=1e-14)
    M = world_inertia(inertias, state)
    for i in range(20):
        assert M[i, :3, :3] == pytest.approx(inertias.mass[i] * np.eye(3))
        assert M[i, 3:, 3:] == pytest.approx(R[i] @ inertias.inertia[i] @ R[i].T, abs=1e-15)
        assert not M[i, :3, 3:].any()


def test_solid_shapes_have_their_textbook_inertia() -> None:
    ball, box = solid("ball", coal.Sphere(0.1), 1000.0), solid("box", coal.Box(0.1, 0.2, 0.3), 500.0)
    assert ball.mass == pytest.approx(1000.0 * 4.0 / 3.0 * np.pi * 1e-3)
    assert ball.inertia == pytest.approx(0.4 * ball.mass * 0.01 * np.eye(3))
    assert box.mass == pytest.approx(3.0)
    assert box.inertia == pytest.approx(np.diag([0.13, 0.10, 0.05]) / 4.0, abs=1e-15)


@pytest.mark.parametrize("mass", [0.0, -1.0, np.nan, np.inf])
def test_a_mass_that_cannot_be_is_refused_by_name(mass: float) -> None:
    body = Body(name="ghost", shape=coal.Sphere(0.1), mass=mass, inertia=np.eye(3))
    with pytest.raises(InputError, match="'ghost': mass must be positive"):
        Inertias.of([body])
    with pytest.raises(InputError, match="'ghost': density"):
        solid("ghost", coal.Sphere(0.1), mass)


@pytest.mark.parametrize(
    ("inertia", "message"),
    [
        (np.zeros((3, 3)), "positive definite"),
        (np.diag([1.0, 1.0, -1.0]), "positive definite"),
        (np.full((3, 3), np.nan), "symmetric"),
        (np.eye(3) + np.triu(np.full((3, 3), 0.1), 1), "symmetric"),
        (np.eye(2), "symmetric"),
    ],
)
def test_an_inertia_that_cannot_be_is_refused(inertia: Array, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Inertias.of([Body(name="odd", shape=coal.Sphere(0.1), mass=1.0, inertia=inertia)])


def test_a_shape_beside_its_centre_of_mass_is_refused() -> None:
    vertices = coal.StdVec_Vec3s()
    for corner in ([0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]):
        vertices.append(np.array(corner, float))
    with pytest.raises(InputError, match=r"centre of mass is at \[0.25, 0.25, 0.25\]"):
        solid("wedge", coal.Convex.convexHull(vertices, True, "Qt"), 1000.0)


@pytest.mark.parametrize(
    "values",
    [{"mu": -0.1}, {"mu": np.nan}, {"stiffness": 0.0}, {"stiffness": -1e6}, {"stiffness": np.nan}]
    + [{"stiffness": 1e6, "damping": d} for d in (-1.0, np.nan, np.inf)]
    + [{"damping": 1.0}],
)
def test_a_surface_that_cannot_be_is_refused(values: dict[str, float]) -> None:
    with pytest.raises(InputError, match="surface"):
        Surface(**values)
