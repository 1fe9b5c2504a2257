"""Every value of a body's inertial coordinates is a possible mass distribution, and zero is the nominal body."""

import numpy as np
import pinocchio as pin
import pytest

from idcontrol import robots
from idcontrol.identify.inertia import neighbours, parameters_of, physical, pseudo


@pytest.fixture(scope="module")
def bodies() -> np.ndarray:
    model = robots.load("go1").system().model
    return np.array([inertia.toDynamicParameters() for inertia in list(model.inertias)[1:]])


def test_pseudo_inertias_equal_pinocchio(bodies: np.ndarray) -> None:
    for body, J in zip(bodies, pseudo(bodies), strict=True):
        np.testing.assert_allclose(J, pin.PseudoInertia.FromDynamicParameters(body).toMatrix(), atol=1e-15)
    np.testing.assert_allclose(parameters_of(pseudo(bodies)), bodies, atol=1e-15)


def test_each_neighbour_is_physical_and_zero_is_the_nominal_body(bodies: np.ndarray) -> None:
    root = np.linalg.cholesky(physical(pseudo(bodies)))
    np.testing.assert_allclose(neighbours(root, np.zeros(bodies.shape))[0], bodies, rtol=1e-9, atol=1e-12)
    far, _ = neighbours(root, np.random.default_rng(0).normal(size=bodies.shape))
    assert (np.linalg.eigvalsh(pseudo(far)) > 0.0).all()
    assert np.abs(far / bodies - 1.0)[:, 0].max() > 0.3


def test_derivatives_of_parameters_are_difference_quotients(bodies: np.ndarray) -> None:
    root = np.linalg.cholesky(physical(pseudo(bodies)))
    x, step = np.random.default_rng(1).normal(scale=0.3, size=bodies.shape), 1e-6
    _, slopes = neighbours(root, x)
    for k in range(10):
        ahead, behind = (neighbours(root, x + sign * step * np.eye(10)[k])[0] for sign in (1.0, -1.0))
        np.testing.assert_allclose(slopes[:, :, k], (ahead - behind) / (2.0 * step), atol=1e-8)


def test_impossible_inertias_become_physical() -> None:
    rod = pin.Inertia(2.0, np.array([0.1, 0.0, 0.0]), np.diag([0.0, 0.02, 0.02]))  # as thin as a line
    broken = pin.Inertia(2.0, np.zeros(3), np.diag([0.1, 0.1, 0.5]))  # 0.5 > 0.1 + 0.1
    point = pin.Inertia(1.0, np.array([0.0, 0.2, 0.0]), np.zeros((3, 3)))
    J = pseudo(np.array([each.toDynamicParameters() for each in (rod, broken, point)]))
    sound = physical(J)
    assert (np.linalg.eigvalsh(sound) > 0.0).all()
    np.testing.assert_array_equal(sound[:, 3], J[:, 3])  # mass and mass centre stay
