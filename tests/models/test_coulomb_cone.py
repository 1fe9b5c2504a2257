"""The circular friction cone: closed forms, the pyramid where both agree, and the law itself on hostile problems."""

import numpy as np
import pytest

from idcontrol.bench import judge
from idcontrol.models import coulomb, coulomb_cone, dissipation
from idcontrol.models.coulomb_cone import refinement
from idcontrol.models.step import StepProblem
from idcontrol.types import Status
from tests.parameters import one_fast
from tests.scenes import by_hand

pytestmark = pytest.mark.interpreted

G, H, MASS, MU = 9.81, 1e-3, 2.0, 0.4
FEET = np.array([[x, y, -0.05] for x in (0.15, -0.15) for y in (0.1, -0.1)])


def block(v, mu=MU, turn=0.0, push=(0.0, 0.0)):
    """A block of `MASS` on four corners, its tangents turned by `turn` [rad], pushed by a force `push` [N]."""
    axes = np.array([[0.0, 0.0, 1.0], [np.cos(turn), np.sin(turn), 0.0], [-np.sin(turn), np.cos(turn), 0.0]])
    rows = np.array([[[*axis, *np.cross(foot, axis)] for foot in FEET] for axis in axes])
    contacts = by_hand(rows.reshape(12, 6), mu, point=FEET)
    M = np.diag([MASS] * 3 + [0.02] * 3)
    force = np.array([*push, -MASS * G, 0.0, 0.0, 0.0])
    return StepProblem(h=H, M=M, kappa=-H * force - M @ np.array([*v, 0.0, 0.0, 0.0, 0.0]), contacts=contacts)


def pinched(seed, miss=1e-5, mu=1.0):
    """Return a free box between two closing fingers, whose distance differs from the box's width by `miss` [m]."""
    rng = np.random.default_rng(seed)
    rows = np.zeros((3, 4, 18))
    for i, (side, y) in enumerate([(1.0, 0.02), (1.0, -0.02), (-1.0, 0.02), (-1.0, -0.02)]):
        axes = np.array([[-side, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -side]])
        on_box, on_finger = np.array([0.03 * side, y, 0.0]), np.array([0.0, y, 0.0]) + miss * rng.normal(size=3)
        finger = 6 if side > 0.0 else 12
        rows[:, i, :6] = np.hstack((axes, np.cross(on_box, axes)))
        rows[:, i, finger : finger + 6] = -np.hstack((axes, np.cross(on_finger, axes)))
    M = np.diag([1.0] * 3 + [1e-3] * 3 + 2 * ([2.0] * 3 + [5e-3] * 3))
    spin = 0.1 * rng.normal(size=(3, 3))
    v = np.array([0.0, 0.0, -0.02, *spin[0], -0.05, 0.0, 0.0, *spin[1], 0.05, 0.0, 0.0, *spin[2]])
    contacts = by_hand(rows.reshape(12, 18), mu)
    return StepProblem(h=H, M=M, kappa=-M @ v, contacts=contacts)


def carried(seed, mu):
    """Return a box between four fingertips that move as one body, on which it nearly rests."""
    rng = np.random.default_rng(seed)
    rows = np.zeros((3, 4, 6))
    for i, (side, y) in enumerate([(1.0, 0.015), (1.0, -0.015), (-1.0, 0.015), (-1.0, -0.015)]):
        axes = np.array([[-side, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -side]])
        tip = np.array([0.025 * side, y, 0.0]) + rng.normal(size=3) * [0.0, 2e-3, 2e-3]
        rows[:, i] = np.hstack((axes, np.cross(tip, axes)))
    J, hand = rows.reshape(12, 6), 0.05 * rng.normal(size=6)
    contacts = by_hand(J, mu, surface_velocity=J @ hand)
    M = np.diag([0.2] * 3 + [1e-4] * 3)
    v = hand + rng.normal(size=6) * np.repeat([1e-3, 1e-2], 3) - [0.0, 0.0, G * H, 0.0, 0.0, 0.0]
    return StepProblem(h=H, M=M, kappa=-M @ v, contacts=contacts), hand


@pytest.mark.parametrize("degrees", one_fast(np.arange(0.0, 360.0, 7.5), *np.arange(0.0, 360.0, 37.5)))
def test_a_block_pushed_at_any_angle_keeps_its_direction_and_is_slowed_by_mu_g(degrees):
    angle = np.deg2rad(degrees)
    direction = np.array([np.cos(angle), np.sin(angle)])
    v, warm = direction.copy(), None
    for step in range(1, 21):
        solution = coulomb_cone.solve(block(v), warm)
        assert (solution.status, solution.note) == (Status.SOLVED, "")
        v, warm = solution.v_plus[:2], solution.warm
        # a millionth of a micrometre per second: seven digits above rounding
        assert abs(direction[0] * v[1] - direction[1] * v[0]) < 1e-9
        np.testing.assert_allclose(v @ direction, 1.0 - MU * G * H * step, rtol=0, atol=1e-9)
        assert np.abs(solution.v_plus[2:]).max() < 1e-9


def test_the_diamond_brakes_less_along_its_diagonal_and_the_cone_does_not():
    v = np.full(2, np.sqrt(0.5))
    lost = [1.0 - np.linalg.norm(model.solve(block(v)).v_plus[:2]) for model in (coulomb, coulomb_cone)]
    np.testing.assert_allclose(lost, [MU * G * H / np.sqrt(2.0), MU * G * H], rtol=1e-7)


@pytest.mark.parametrize(
    ("v", "mu", "push"),
    [
        ((0.0, 0.0), MU, (2.0, 1.0)),
        ((1.0, 0.0), MU, (0.0, 0.0)),
        ((0.0, -1.0), MU, (0.0, 0.0)),
        ((0.6, 0.8), 0.0, (3.0, 0.0)),
    ],
    ids=["sticks", "slides along the first tangent", "slides against the second", "without friction"],
)
def test_cone_and_pyramid_agree_where_their_laws_do(v, mu, push):
    problem = block(v, mu, push=push)
    ours, theirs = coulomb_cone.solve(problem), coulomb.solve(problem)
    assert ours.status is theirs.status is Status.SOLVED
    np.testing.assert_allclose(ours.v_plus, theirs.v_plus, rtol=0, atol=1e-9)


def test_a_block_at_rest_loads_its_corners_alike():
    """Of the many distributions the smallest is selected; it does not jump from corner to corner."""
    solution = coulomb_cone.solve(block((0.0, 0.0)))
    expected = np.tile([MASS * G * H / 4.0, 0.0, 0.0], (4, 1))
    np.testing.assert_allclose(solution.impulses, expected, rtol=0, atol=1e-6 * MASS * G * H)


@pytest.mark.slow
@pytest.mark.parametrize(("miss", "mu"), [(1e-5, 1.0), (1e-3, 1.5)])
def test_fingers_that_do_not_fit_a_box_exactly_hold_it(miss, mu):
    """The fingers creep on the box by micrometres per second, with the full friction force."""
    for seed in range(60):
        problem = pinched(seed, miss, mu)
        solution = coulomb_cone.solve(problem)
        assert solution.status is Status.SOLVED, seed
        assert judge.missed("coulomb-cone", problem, solution.impulses) < 2e-8, seed


@pytest.mark.parametrize("mu", one_fast((0.5, 1.0), 1.0))
def test_fingers_press_a_box_by_little_more_than_holding_it_takes(mu):
    """The fingers may press with any force; other methods answered 14 of 60 such steps with 10 to 50 times as much."""
    held = 0
    for seed in range(40):
        problem, hand = carried(seed, mu)
        solution = coulomb_cone.solve(problem)
        assert solution.status is Status.SOLVED, seed
        assert judge.missed("coulomb-cone", problem, solution.impulses) < 2e-8, seed
        if np.allclose(solution.v_plus, hand, rtol=0.0, atol=1e-9):
            held += 1
            # about the smallest impulses within pyramids
            enough = np.abs(dissipation.one_stage(problem).impulses).max()
            assert np.abs(solution.impulses).max() < refinement.PRESSED * enough, seed
    assert held > 4


def test_a_box_on_which_fingers_creep_is_held_from_more_friction():
    """From any other start, Newton's method does not find the fingers that slide, by micrometres per second."""
    problem = pinched(31, 1e-5, 1.2)
    solution = coulomb_cone.solve(problem)
    assert solution.status is Status.SOLVED
    assert judge.missed("coulomb-cone", problem, solution.impulses) < 2e-8


def test_the_last_steps_modes_solve_the_next_step_at_once():
    v = np.array([0.6, -0.8])
    first = coulomb_cone.solve(block(v))
    second = coulomb_cone.solve(block(first.v_plus[:2]), first.warm)
    assert second.iterations <= 2  # a wrong guess takes three
    np.testing.assert_allclose(second.impulses, first.impulses, rtol=0, atol=1e-6 * MASS * G * H)
