"""The projection of desired joint velocities (math.md 12.1) against a dense null-space least squares."""

import numpy as np
import pytest
import scipy.optimize

from idcontrol.controllers.projection import project
from tests import scenes


def by_null_space(M, J, d, b):
    """Argmin |P v - b|²_W with J v = d: all solutions of J v = d, then the nearest of them."""
    m, u = M.shape[0], M.shape[0] - b.size
    _, s, vt = np.linalg.svd(J)
    Z = vt[int((s > 1e-8 * s[0]).sum()) :].T
    particular = np.linalg.pinv(J, rcond=1e-8) @ d
    C = np.linalg.cholesky(M[u:, u:]).T
    P = np.eye(m)[u:]
    y = np.linalg.lstsq(C @ P @ Z, C @ (b - P @ particular), rcond=1e-10)[0]
    return P @ (particular + Z @ y)


def allowed(J, d, b):
    """How far d is from what some velocity of the unactuated part can reach, the joints moving with b [m/s]."""
    u = J.shape[1] - b.size
    rest = d - J[:, u:] @ b
    return np.abs(rest - J[:, :u] @ np.linalg.lstsq(J[:, :u], rest, rcond=1e-10)[0]).max()


@pytest.mark.parametrize("feet", [(0, 1, 2, 3), (0, 3), (1, 2, 3), (0, 1)])
@pytest.mark.parametrize("seed", range(5))
def test_the_result_is_the_nearest_velocity_that_the_contacts_allow(quadruped, feet, seed):
    rng = np.random.default_rng(seed)
    v = scenes.moving(quadruped, rng)
    J = scenes.foot_contacts(quadruped, 0.6, feet=feet, normals=scenes.tilted(rng, len(feet), 0.3)).jacobian
    d = 0.05 * rng.normal(size=J.shape[0])
    b = v[6:] + rng.normal(size=12)
    projected = project(quadruped.M, J, d, b)
    # rank decisions apart, both are well-conditioned least squares: condition 1e3, so twelve digits
    np.testing.assert_allclose(projected, by_null_space(quadruped.M, J, d, b), rtol=0, atol=1e-9)
    assert allowed(J, d, projected) < 1e-11


@pytest.mark.parametrize("seed", range(5))
def test_one_foot_alone_asks_nothing_of_the_joints(quadruped, seed):
    """A floating base can make up for any velocity of one foot."""
    rng = np.random.default_rng(seed)
    scenes.moving(quadruped, rng)
    J = scenes.foot_contacts(quadruped, 0.6, feet=(seed % 4,)).jacobian
    b = rng.normal(size=12)
    np.testing.assert_allclose(project(quadruped.M, J, 0.1 * rng.normal(size=3), b), b, rtol=0, atol=1e-12)


def test_a_velocity_that_is_allowed_already_stays(quadruped):
    rng = np.random.default_rng(1)
    scenes.moving(quadruped, rng)
    J = scenes.foot_contacts(quadruped, 0.6).jacobian
    base = rng.normal(size=6)
    b = np.linalg.solve(J[:, 6:], -J[:, :6] @ base)
    np.testing.assert_allclose(project(quadruped.M, J, np.zeros(12), b), b, rtol=0, atol=1e-11 * np.abs(b).max())


def test_projecting_twice_is_projecting_once(quadruped):
    rng = np.random.default_rng(2)
    scenes.moving(quadruped, rng)
    J, d = scenes.foot_contacts(quadruped, 0.6).jacobian, 0.1 * rng.normal(size=12)
    once = project(quadruped.M, J, d, rng.normal(size=12))
    np.testing.assert_allclose(project(quadruped.M, J, d, once), once, rtol=0, atol=1e-11 * np.abs(once).max())


def test_repeated_rows_change_nothing(quadruped):
    rng = np.random.default_rng(3)
    scenes.moving(quadruped, rng)
    J, d, b = scenes.foot_contacts(quadruped, 0.6).jacobian, 0.1 * rng.normal(size=12), rng.normal(size=12)
    expected = project(quadruped.M, J, d, b)
    repeated = project(quadruped.M, np.vstack((J, J)), np.concatenate((d, d)), b)
    np.testing.assert_allclose(repeated, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_rows_that_each_hold_one_velocity_set_it_and_leave_the_others(sign):
    """Of a base and three joints: reflections have nothing to turn."""
    J = sign * np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    projected = project(np.eye(4), J, sign * np.array([7.0, 0.5, -0.3]), np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(projected, [0.5, 2.0, -0.3], rtol=0, atol=1e-15)


def straight_legs(system):
    """Contact rows of a machine on four straight, parallel legs; the knee angles are those where a leg is singular."""
    joints = np.zeros(12)
    rows_of = {foot[:2]: np.array([i, 4 + i, 8 + i]) for i, foot in enumerate(scenes.FEET)}

    def rows():
        system.update(system.configuration(joints, np.array([0, 0, 0.3, 0, 0, 0, 1.0])), np.zeros(18))
        return scenes.foot_contacts(system, 0.6).jacobian

    for leg, feet_rows in rows_of.items():
        columns = np.array([i for i, name in enumerate(system.actuated_names) if name.startswith(leg)])
        joints[columns[1]] = 0.5

        def volume(knee, at=columns, which=feet_rows):
            joints[at[2]] = knee
            return np.linalg.det(rows()[np.ix_(which, 6 + at)])

        joints[columns[2]] = scipy.optimize.brentq(volume, -0.2, 0.2, xtol=1e-15)
    return rows()


def test_singular_legs_lose_a_constraint_instead_of_asking_for_infinite_speed(quadruped):
    """Straight parallel legs cannot lift one foot and lower its neighbours: nobody can, so it is not asked for."""
    J = straight_legs(quadruped)
    singular = np.linalg.svd(J)[1]
    assert singular[-1] < 1e-12 < singular[-2]
    rng = np.random.default_rng(4)
    b = rng.normal(size=12)
    for target in (np.zeros(12), 0.05 * J @ rng.normal(size=18)):  # what they can do, they do
        projected = project(quadruped.M, J, target, b)
        np.testing.assert_allclose(projected, by_null_space(quadruped.M, J, target, b), rtol=0, atol=1e-9)
    impossible = project(quadruped.M, J, 0.05 * rng.normal(size=12), b)
    # 5 cm/s at the feet of legs of 15 cm: some rad/s
    assert np.abs(impossible).max() < 20.0


def test_without_contacts_all_velocities_are_allowed(quadruped):
    b = np.arange(12.0)
    np.testing.assert_array_equal(project(quadruped.M, np.zeros((0, 18)), np.zeros(0), b), b)


def test_inputs_are_not_written_to(quadruped):
    rng = np.random.default_rng(5)
    scenes.moving(quadruped, rng)
    J, d, b = scenes.foot_contacts(quadruped, 0.6).jacobian, rng.normal(size=12), rng.normal(size=12)
    before = [array.copy() for array in (quadruped.M, J, d, b)]
    project(quadruped.M, J, d, b)
    for array, old in zip((quadruped.M, J, d, b), before, strict=True):
        np.testing.assert_array_equal(array, old)


@pytest.mark.parametrize("seed", range(5))
def test_joints_that_slide_along_the_axes_are_projected_as_all_others(seed):
    """Their contact rows are made of 1, 0 and -1."""
    rng = np.random.default_rng(seed)
    a = 6
    root = rng.normal(size=(a, a))
    M = root @ root.T + np.eye(a)
    while True:
        J = rng.integers(-1, 2, size=(3, a)).astype(float)
        if np.linalg.matrix_rank(J) == 3:
            break
    b, d = rng.normal(size=a), rng.normal(size=3)
    # the stationary point of the program: M (v - b) = Jᵀ λ, J v = d
    lagrange = np.linalg.solve(J @ np.linalg.solve(M, J.T), d - J @ b)
    np.testing.assert_allclose(project(M, J, d, b), b + np.linalg.solve(M, J.T @ lagrange), rtol=0, atol=1e-9)


@pytest.mark.parametrize("inertia", [-0.5, 0.0, np.nan])
def test_a_demand_on_a_machine_whose_inertia_cannot_be_stays_as_it_is(inertia):
    M, b = np.diag([1.0, inertia, 1.0]), np.array([0.1, 0.2, 0.3])
    np.testing.assert_array_equal(project(M, np.ones((1, 3)), np.zeros(1), b), b)
