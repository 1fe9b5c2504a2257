"""Counts of operations agree with closed forms, and counted kernels compute the same results."""

import numpy as np
import pytest

from idcontrol.bench import operations
from idcontrol.kernels.arena import HEAP
from idcontrol.kernels.linear import cholesky, solve_lower, solve_lower_transposed
from idcontrol.models.whitened import recover_kernel, whiten_kernel


@pytest.mark.parametrize("n", [1, 2, 7, 12])
def test_a_cholesky_factor_takes_a_third_of_the_cube_and_a_triangle_the_square(n):
    """Hunger 2007: n³/3 + n²/2 + n/6 with the roots, and n²."""
    root = np.random.default_rng(0).normal(size=(n, n))
    A, L, x = root @ root.T + np.eye(n), np.zeros((n, n)), np.ones(n)
    assert operations.count(cholesky, A, L) == {"cholesky": round(n**3 / 3 + n**2 / 2 + n / 6)}
    assert np.allclose(L @ L.T, A, rtol=1e-13, atol=1e-13)
    assert operations.count(solve_lower, L, x).total() == n**2
    assert operations.count(solve_lower_transposed, L, x).total() == n**2
    assert np.allclose(A @ x, np.ones(n), rtol=1e-10)


def test_called_kernels_are_counted_under_their_names_and_write_their_results():
    rng = np.random.default_rng(1)
    m, k, n = 9, 6, 2
    root, J = rng.normal(size=(m, m)), rng.normal(size=(3 * n, m))
    problem = (root @ root.T + np.eye(m), rng.normal(size=m), np.arange(k), np.arange(k, m), rng.normal(size=m - k), J)
    counts = operations.count(whiten_kernel, *problem, HEAP)
    assert {"whiten_rows_kernel", "cholesky", "solve_lower", "solve_lower_transposed"} < set(counts)
    assert counts["solve_lower"] == counts["solve_lower_transposed"] == k**2
    # torques: h τ = [M v⁺ + κ - Jᵀ f]_q, and ρᵀ f, L⁻ᵀ of it, v° plus that
    whitened = whiten_kernel(*problem, HEAP)
    recovered = operations.count(recover_kernel, whitened, np.ones(3 * n), HEAP)
    assert recovered.total() == 2 * 3 * n * k + k**2 + k + (m - k) * 2 * (m + 3 * n)
