"""Shortest solutions and triangles of rows that may depend on each other."""

import numpy as np
import pytest

from idcontrol.kernels.arena import HEAP
from idcontrol.solvers.basis import eliminate, reflect, shortest

pytestmark = pytest.mark.interpreted


@pytest.mark.parametrize("apart", [1.0, 1e-2, 1e-5, 0.0])
@pytest.mark.parametrize("rows", [0, 1, 6, 9])
def test_the_shortest_solution_is_that_of_the_pseudoinverse_though_rows_nearly_depend(rows, apart):
    rng = np.random.default_rng(rows)
    A, x = rng.standard_normal((rows, 9)), rng.standard_normal(9)
    if rows > 1:
        A[-1] = A[0] + apart * A[-1]
    wanted = np.linalg.pinv(A, rcond=1e-9) @ (A @ x)
    np.testing.assert_allclose(shortest(A.copy(), np.zeros(rows), A @ x, 1e-8, HEAP), wanted, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("apart", [1.0, 0.0])
@pytest.mark.parametrize("size", [1.0, 1e-2, 1e-6])
def test_slacks_of_the_shortest_solution_are_columns_of_the_equations(size, apart):
    rng = np.random.default_rng(0)
    A, e = rng.standard_normal((6, 9)), rng.standard_normal(6)
    A[5], e[5] = A[0] + apart * A[5], e[0] + apart
    slack = size * np.array([0.0, 1.0, 2.0, 1.0, 0.5, 0.0])
    wanted = np.linalg.pinv(np.hstack([A, np.diag(slack)]), rcond=1e-9) @ e
    np.testing.assert_allclose(shortest(A, slack, e, 1e-8, HEAP), wanted[:9], rtol=0.0, atol=1e-9)


def test_a_triangle_has_the_rank_and_the_null_space_of_its_columns():
    rng = np.random.default_rng(1)
    equations = rng.standard_normal((8, 12))
    equations[:, 2] = equations[:, 0] - equations[:, 1]
    columns = np.ascontiguousarray(equations.T)
    assert reflect(columns, 3, 1e-8, HEAP) == 2
    np.testing.assert_allclose(columns[:3, 2:], 0.0, atol=1e-13)
    np.testing.assert_allclose(columns @ columns.T, equations.T @ equations, atol=1e-12)


def test_rows_that_are_only_reduced_keep_their_solutions_and_are_not_mixed():
    rng = np.random.default_rng(0)
    equations = rng.standard_normal((8, 12))
    equations[4] = equations[0] - equations[1]
    reduced = equations.copy()
    assert eliminate(reduced, 3, 5, 1e-8) == 3
    np.testing.assert_array_equal(reduced[3:, :3], 0.0)
    solutions = np.linalg.svd(equations)[2][7:].T
    np.testing.assert_allclose(reduced @ solutions, 0.0, atol=1e-12)
    change = (reduced[5:] - equations[5:]).T  # sums of strict rows
    first = np.linalg.lstsq(equations[:5].T, change)
    np.testing.assert_allclose(equations[:5].T @ first[0], change, atol=1e-12)
