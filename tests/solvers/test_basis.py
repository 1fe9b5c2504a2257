"""Shortest solutions and triangles of rows that may depend on each other."""

import numpy as np
import pytest

from idcontrol.kernels.arena import HEAP
from idcontrol.solvers.basis import reflect, shortest

pytestmark = pytest.mark.interpreted


@pytest.mark.parametrize("apart", [1.0, 1e-2, 1e-5, 0.0])
@pytest.mark.parametrize("rows", [0, 1, 6, 9])
def test_the_shortest_solution_is_that_of_the_pseudoinverse_though_rows_nearly_depend(rows, apart):
    rng = np.random.default_rng(rows)
    A, x = rng.standard_normal((rows, 9)), rng.standard_normal(9)
    if rows > 1:
        A[-1] = A[0] + apart * A[-1]
    wanted = np.linalg.pinv(A, rcond=1e-9) @ (A @ x)
    np.testing.assert_allclose(shortest(A.copy(), A @ x, 1e-8, HEAP), wanted, rtol=0.0, atol=1e-9)


def test_rows_that_are_only_reduced_keep_their_solutions_and_are_not_mixed():
    rng = np.random.default_rng(0)
    equations = rng.standard_normal((8, 12))
    equations[4] = equations[0] - equations[1]
    columns = np.ascontiguousarray(equations.T)
    assert reflect(columns, 3, 0, 5, 1e-8, HEAP) == 3
    np.testing.assert_allclose(columns[:3, 3:], 0.0, atol=1e-13)
    solutions = np.linalg.svd(equations)[2][7:].T
    np.testing.assert_allclose(columns.T @ solutions, 0.0, atol=1e-12)
    first = np.linalg.lstsq(equations[:5].T, (columns.T[5:] - equations[5:]).T)  # differences are sums of strict rows
    np.testing.assert_allclose(equations[:5].T @ first[0], (columns.T[5:] - equations[5:]).T, atol=1e-12)
