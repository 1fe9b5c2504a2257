"""Arrays of an arena do not overlap, are reclaimed together, and never run out."""

import numpy as np
import pytest
from numba import njit

from idcontrol.kernels.arena import HEAP, begin, flags, frames, indices, mark, matrix, release, reserve, vector, zeros


@njit
def filled(arena, n):
    """Take arrays of every kind, write all, then return sums of all, which an overlap would change."""
    a, b, c, d = vector(arena, n), matrix(arena, n, n + 1), indices(arena, n), zeros(arena, n)
    before = d.sum()
    a[:], b[:], c[:], d[:] = 1.0, 2.0, 3, 4.0
    return before, a.sum(), b.sum(), c.sum(), d.sum(), b.shape, b.flags.c_contiguous


@pytest.mark.parametrize("size", [0, 3, 40, 1000])
def test_arrays_do_not_overlap_whether_or_not_the_arena_holds_them(size):
    n = 5
    assert filled(reserve(size), n) == (0.0, n, 2 * n * (n + 1), 3 * n, 4 * n, (n, n + 1), True)


def test_zeros_are_zeros_in_memory_that_was_used_before():
    arena = reserve(100)
    for _ in range(3):
        begin(arena)
        assert filled(arena, 5)[0] == 0.0
    assert arena.used[0] == 5 + 5 * 6 + 5 + 5


@njit
def fill_each(arena, n):
    """Take arrays of every kind, and write the number of the kind into each."""
    vector(arena, n)[:] = 1.0
    matrix(arena, n, n + 1)[:] = 2.0
    frames(arena, n)[:] = 3.0
    zeros(arena, n)[:] = 4.0
    indices(arena, n)[:] = 5
    return frames(HEAP, n).shape


@pytest.mark.parametrize("n", [1, 4])
def test_arrays_lie_one_after_the_other_in_an_arena_that_just_holds_them(n):
    lengths = [n, n * (n + 1), 9 * n, n, n]
    arena = reserve(sum(lengths))
    assert fill_each(arena, n) == (n, 3, 3)
    written = np.r_[arena.space[:-n], arena.space[-n:].view(np.int64)]
    np.testing.assert_array_equal(written, np.repeat([1.0, 2.0, 3.0, 4.0, 5.0], lengths))
    assert arena.used.tolist() == [sum(lengths)]


@njit
def raised(arena, n):
    """Set n flags, then write a vector behind them; return the number of set flags before and after the write."""
    up = flags(arena, n)
    up[:] = True
    before = up.sum()
    vector(arena, 2)[:] = 0.0
    return before, up.sum()


@pytest.mark.parametrize("n", [0, 1, 8, 9])
@pytest.mark.parametrize("size", [0, 4, 100])
def test_eight_flags_take_the_room_of_a_number(n, size):
    arena = reserve(size)
    before, after = raised(arena, n)
    assert before == after == n
    assert size < 4 or arena.used[0] == -(-n // 8) + 2


def test_frames_that_an_arena_cannot_hold_come_from_the_heap():
    arena = reserve(9 * 2 - 1)
    assert frames_or_heap(arena, 2) == (2.0 * 9 * 2, 0)


@njit
def frames_or_heap(arena, n):
    taken = frames(arena, n)
    taken[:] = 2.0
    return taken.sum(), arena.used[0]


@njit
def exhausting(arena, n):
    """Some arrays fit and some do not; all must hold what was written."""
    arrays = [vector(arena, n) for _ in range(8)]
    for i in range(8):
        arrays[i][:] = i
    return [array[0] + array[-1] for array in arrays]


def test_an_arena_that_is_used_up_goes_on_with_the_heap():
    arena = reserve(3 * 10 + 5)
    assert exhausting(arena, 10) == [2 * i for i in range(8)]
    assert arena.used[0] == 30


@pytest.mark.parametrize("arena", [reserve(25), HEAP])
def test_memory_taken_since_a_mark_is_released_and_earlier_memory_kept(arena):
    begin(arena)
    assert repeating(arena, 10) == (20.0, 3)
    assert arena.used[0] == (20 if arena.space.size else 0)


@njit
def repeating(arena, n):
    """Hold one array while others are taken and given back three times."""
    held, calls = vector(arena, n), 0
    held[:] = 2.0
    at = mark(arena)
    for _ in range(3):
        release(arena, at)
        vector(arena, n)[:] = 5.0
        calls += 1
    return held.sum(), calls
