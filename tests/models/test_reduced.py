"""Stage II with many contacts: a program with as many unknowns as motors replaces the one over all impulses."""

import numpy as np
import pytest
from scipy.optimize import nnls

from idcontrol.kernels.arena import HEAP
from idcontrol.models.reduced import ALL_EDGES, HOLDS, PRESSES, _nearest, impulses, reduce_kernel

pytestmark = pytest.mark.interpreted

MU = 0.5
EDGES = np.array([[1.0, MU, 0.0], [1.0, -MU, 0.0], [1.0, 0.0, MU], [1.0, 0.0, -MU]])
K, P = 6, 4


def spanned(cone, mu):
    """Return directions (3, d) that span a cone; not orthonormal."""
    if cone == PRESSES:
        return np.eye(3)
    if cone == HOLDS:
        return np.eye(3)[:, 1:]
    edges = np.array([edge * (1.0, mu / MU, mu / MU) for bit, edge in enumerate(EDGES) if cone >> bit & 1])
    return edges.reshape(-1, 3).T


def smallest(rho, x, T, t, B, weight):
    """Return y = B ξ with ρᵀy = x and minimal ½ |T y + t|² + ½ Σ w |y|², by least squares in a null space."""
    M, root = rho.T @ B, np.sqrt(weight)[:, None] * B
    first, *_ = np.linalg.lstsq(M, x, rcond=1e-10)
    _, lengths, V = np.linalg.svd(M)
    null = V[(lengths > 1e-10 * lengths[0]).sum() :].T
    A = np.vstack((T @ B, root))
    free, *_ = np.linalg.lstsq(A @ null, -A @ first - np.concatenate((t, np.zeros(root.shape[0]))), rcond=None)
    return B @ (first + null @ free)


def solved(reduced):
    """The impulses of the reduced program, without bounds."""
    f = reduced.torque.shape[1]
    A = np.vstack((reduced.torque, np.eye(f)))
    free, *_ = np.linalg.lstsq(A, -np.concatenate((reduced.rest, np.zeros(f))), rcond=None)
    y = np.empty(reduced.moving.size)
    impulses(reduced, free, y)
    return y


@pytest.mark.parametrize("torques", [P, 2, 0], ids=["all", "two", "none"])
def test_the_reduced_program_has_the_answer_of_the_whole_one(torques):
    """For any edges of the contacts and any dependence of the torques, with weights that differ by 1e3."""
    rng = np.random.default_rng(torques)
    for n in (3, 8, 40):
        for _ in range(20):
            cone = rng.choice([0, 1, 2, 4, 8, 3, 12, 5, 6, 9, 10, 7, 13, ALL_EDGES, ALL_EDGES, PRESSES, HOLDS], n)
            cone[:2] = ALL_EDGES  # at least six directions: any motion is possible
            mu = np.where(cone >= PRESSES, np.inf, rng.choice([0.1, 1.0], n))
            smooth = rng.random(n) < 0.2
            cone[2:][smooth[2:]], mu[2:][smooth[2:]] = 1, 0.0
            B = np.zeros((3 * n, 0))
            for i in range(n):
                directions = np.zeros((3 * n, 3))
                directions[[i, n + i, 2 * n + i]] = np.eye(3)
                B = np.hstack((B, directions @ spanned(cone[i], mu[i])))
            rho, x = rng.normal(size=(3 * n, K)), rng.normal(size=K)
            T = rng.normal(size=(P, torques)) @ rng.normal(size=(torques, 3 * n))
            t, weight = rng.normal(size=P), 10.0 ** rng.uniform(-3, 0, n)
            # a basis of the span, since edges may depend on each other
            U, lengths, _ = np.linalg.svd(B, full_matrices=False)
            expected = smallest(rho, x, T, t, U[:, lengths > 1e-8], np.tile(weight, 3))
            y = solved(reduce_kernel(rho, x, T, t, cone, mu, weight, HEAP))
            largest = np.abs(expected).max()
            np.testing.assert_allclose(y, expected, rtol=0, atol=1e-9 * largest)
            np.testing.assert_allclose(rho.T @ y, x, rtol=0, atol=1e-11 * largest * n)


@pytest.mark.parametrize("cone", [0, 1, 2, 4, 8, 3, 12, 5, 6, 9, 10, 7, 11, 13, 14, ALL_EDGES])
def test_the_nearest_point_of_a_cone_lies_in_the_reported_face(cone):
    """Oracle: nonnegative least squares in the edges (Lawson & Hanson 1974)."""
    rng = np.random.default_rng(cone)
    edges = spanned(cone, MU)
    for _ in range(200):
        point = rng.normal(size=3)
        share, _ = nnls(edges, point) if cone else (np.zeros(0), 0.0)
        nearest = point.copy()
        face = _nearest(nearest, MU, cone, np.empty(4))
        np.testing.assert_allclose(nearest, edges @ share if cone else 0.0, rtol=0, atol=1e-14)
        assert face & ~cone == 0
        # the point is in the span of that face, and it is the nearest point in the span
        span = spanned(face, MU)
        rank = np.linalg.matrix_rank(span) if face else 0  # NumPy 2.0 takes no empty matrix
        assert np.linalg.matrix_rank(np.column_stack((span, nearest)), tol=1e-12) == rank
        assert face == cone or not np.allclose(nearest, point, rtol=0, atol=1e-14) or cone in (3, 12, 5, 6, 9, 10)
