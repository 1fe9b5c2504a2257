"""Block-sparse Cholesky against dense algebra, on graphs of every kind."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idcontrol.solvers.block_cholesky import BLOCK, analyze, factorize, slot, solve

pytestmark = pytest.mark.interpreted


def laid_out(structure, A):
    """Return the blocks of a dense matrix in the layout of `factorize`, and the order of elimination."""
    order = np.argsort(structure.place)
    n = len(order)
    blocks = A.reshape(n, BLOCK, n, BLOCK).transpose(0, 2, 1, 3)
    diagonal = blocks[order, order].copy()
    upper = np.zeros((len(structure.column), BLOCK, BLOCK))
    for k in range(n):
        for at in range(structure.start[k], structure.start[k + 1]):
            upper[at] = blocks[order[k], order[structure.column[at]]]
    return diagonal, upper, order


def contact_matrix(rng, n, edges):
    """I plus a random positive semidefinite matrix of rank three for each edge."""
    A = np.eye(n * BLOCK)
    for i, j in edges:
        rows = np.zeros((3, n, BLOCK))
        rows[:, i] += rng.normal(size=(3, BLOCK))
        rows[:, j] += rng.normal(size=(3, BLOCK))
        A += rows.reshape(3, -1).T @ rows.reshape(3, -1)
    return A


graphs = st.integers(1, 80).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=2 * n),
        st.integers(0, 99),
    )
)


@settings(max_examples=30, deadline=None)
@given(graphs)
def test_solutions_equal_dense_algebra(graph):
    n, edges, seed = graph
    rng = np.random.default_rng(seed)
    A = contact_matrix(rng, n, edges)
    structure = analyze(n, np.array(edges, dtype=np.int64).reshape(-1, 2))
    diagonal, upper, order = laid_out(structure, A)
    assert factorize(structure, diagonal, upper)
    right = rng.normal(size=(n, BLOCK))
    x = right[order]
    solve(structure, diagonal, upper, x)
    ordered = x[structure.place]
    # backward stable: the residual is rounding of |A||x|, whatever the order of elimination
    assert (
        np.abs(A @ ordered.ravel() - right.ravel()).max() <= 1e-13 * n * BLOCK * np.abs(A).max() * np.abs(ordered).max()
    )


@settings(max_examples=60, deadline=None)
@given(graphs)
def test_the_structure_holds_every_block_of_the_factor_and_no_other(graph):
    """Oracle: elimination of the graph in the same order, with sets."""
    n, edges, _ = graph
    structure = analyze(n, np.array(edges, dtype=np.int64).reshape(-1, 2))
    assert sorted(structure.place) == list(range(n))
    neighbours = [set() for _ in range(n)]
    for i, j in edges:
        if i != j:
            neighbours[structure.place[i]].add(int(structure.place[j]))
            neighbours[structure.place[j]].add(int(structure.place[i]))
    for k in range(n):
        later = sorted(j for j in neighbours[k] if j > k)
        np.testing.assert_array_equal(structure.column[structure.start[k] : structure.start[k + 1]], later)
        for at, j in enumerate(later):
            assert slot(structure, k, j) == structure.start[k] + at
            neighbours[j].update(i for i in later if i != j)
        # no remaining node has fewer remaining neighbours
        assert all(len(later) <= len({j for j in neighbours[i] if j >= k} - {i}) for i in range(k + 1, n))


def test_a_tree_is_factorized_without_fill():
    rng = np.random.default_rng(0)
    n = 200
    edges = np.array([(i, rng.integers(0, i)) for i in range(1, n)])
    assert len(analyze(n, edges).column) == n - 1


@pytest.mark.parametrize("where", ["first", "last"])
def test_a_matrix_that_is_not_positive_definite_is_reported(where):
    rng = np.random.default_rng(1)
    edges = np.array([(0, 1), (1, 2)])
    A = contact_matrix(rng, 3, edges)
    structure = analyze(3, edges)
    diagonal, upper, _ = laid_out(structure, A)
    diagonal[0 if where == "first" else 2, -1, -1] = -1.0
    assert not factorize(structure, diagonal, upper)


def test_nan_is_reported():
    structure = analyze(1, np.zeros((0, 2), dtype=np.int64))
    assert not factorize(structure, np.full((1, BLOCK, BLOCK), np.nan), np.zeros((0, BLOCK, BLOCK)))
