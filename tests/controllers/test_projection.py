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
    """Distance of d from the velocities that the unactuated part can reach while the joints move with b [m/s]."""
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
    # apart from rank decisions, both are well-conditioned least squares: condition 1e3, so twelve digits agree
    np.testing.assert_allclose(projected, by_null_space(quadruped.M, J, d, b), rtol=0, atol=1e-9)
    assert allowed(J, d, projected) < 1e-11


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_rows_with_one_velocity_set_only_this_velocity(sign):
    """A base and three joints: reflections leave all rows unchanged."""
    J = sign * np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    projected = project(np.eye(4), J, sign * np.array([7.0, 0.5, -0.3]), np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(projected, [0.5, 2.0, -0.3], rtol=0, atol=1e-15)


def straight_legs(system):
    """Contact rows of a robot on four straight, parallel legs, which are singular."""
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


def test_singular_legs_lose_a_constraint_instead_of_demanding_infinite_speed(quadruped):
    """Straight parallel legs cannot lift one foot and lower its neighbours, so the projection drops this demand."""
    J = straight_legs(quadruped)
    singular = np.linalg.svd(J)[1]
    assert singular[-1] < 1e-12 < singular[-2]
    rng = np.random.default_rng(4)
    b = rng.normal(size=12)
    for target in (np.zeros(12), 0.05 * J @ rng.normal(size=18)):  # feasible velocities are not changed
        projected = project(quadruped.M, J, target, b)
        np.testing.assert_allclose(projected, by_null_space(quadruped.M, J, target, b), rtol=0, atol=1e-9)
    impossible = project(quadruped.M, J, 0.05 * rng.normal(size=12), b)
    # 5 cm/s at the feet of legs of 15 cm: some rad/s
    assert np.abs(impossible).max() < 20.0


def test_without_contacts_all_velocities_are_allowed(quadruped):
    b = np.arange(12.0)
    np.testing.assert_array_equal(project(quadruped.M, np.zeros((0, 18)), np.zeros(0), b), b)


@pytest.mark.parametrize("inertia", [-0.5, 0.0, np.nan])
def test_with_an_impossible_inertia_the_demand_is_unchanged(inertia):
    M, b = np.diag([1.0, inertia, 1.0]), np.array([0.1, 0.2, 0.3])
    np.testing.assert_array_equal(project(M, np.ones((1, 3)), np.zeros(1), b), b)
