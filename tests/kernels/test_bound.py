"""Arguments that are bound once."""

import weakref

import numpy as np
import pytest
from numba import config, njit
from numba.core import event

from idcontrol.kernels.bound import Bound, Form, bind, put
from idcontrol.kernels.jit import njit as compile_anew
from idcontrol.types import Array


@njit
def _scale(bound: Bound, x: Array) -> float:
    whole, (every_other, factor) = bound.values
    whole[0] += factor * x[0]
    return float(every_other.sum())


def test_compiled_code_reads_and_writes_the_arrays_themselves():
    whole = np.arange(6.0)
    bound = bind((whole, (whole[::2], 2.0)))
    assert _scale(bound, np.array([3.0])) == 6.0 + 0.0 + 2.0 + 4.0
    assert whole[0] == 6.0
    whole[2] = 10.0
    assert _scale(bound, np.zeros(1)) == 6.0 + 10.0 + 4.0


@pytest.mark.skipif(config.DISABLE_JIT, reason="kernels run as Python")
def test_one_function_is_compiled_for_each_type_of_values():
    with event.install_recorder("numba:compile") as compiled:
        compile_anew()(bind.py_func)((np.arange(6.0), (1, (2.0, 3))))
    assert sum(happened.is_start for _, happened in compiled.buffer) == 1


@njit
def _first(bound: Bound) -> float:
    inner, _ = bound.borrowed
    (values,) = inner.borrowed
    return float(values[0])


def test_nested_bound_values_stay_alive_after_repeated_reads():
    values = np.arange(6.0)
    alive = weakref.ref(values)
    bound = bind((bind((values,)), 1.0))
    del values
    assert [_first(bound) for _ in range(20)] == [0.0] * 20
    assert alive() is not None
    del bound
    assert alive() is None


@njit
def _rebind(bound: Bound, values: Array, n: int) -> None:
    put(bound, (values[:n],))


@njit
def _sum(bound: Bound) -> float:
    (values,) = bound.borrowed
    return float(values.sum())


def test_put_replaces_bound_values_and_releases_the_old_ones():
    before, after = np.ones(3), np.arange(6.0)
    alive = weakref.ref(before)
    bound = bind((before,))
    del before
    for n in (6, 2, 0, 4):
        _rebind(bound, after, n)
        assert _sum(bound) == after[:n].sum()
    assert alive() is None
    del bound
    assert after.sum() == 15.0


def test_arrays_live_exactly_as_long_as_their_binding():
    whole = np.arange(6.0)
    alive = weakref.ref(whole)
    bound = bind((whole, (whole[::2], 2.0)))
    del whole
    assert _scale(bound, np.ones(1)) == 2.0 + 2.0 + 4.0
    del bound
    assert alive() is None


FORM = Form(np.zeros(1), np.zeros((1, 3)), np.zeros(1, dtype=np.bool_))
FITTING = (np.ones(3), np.ones((2, 3)), np.ones(0, dtype=np.bool_))


@pytest.mark.parametrize("values", [np.ones(3), np.ones(0), np.ones(4)[1:3], np.frombuffer(bytes(24)), np.ones(2)])
def test_arrays_of_any_length_without_gaps_have_the_form(values):
    assert FORM.fits((values, *FITTING[1:]))
    assert FORM.fits((values.astype(np.dtype(values.dtype, copy=True)), *FITTING[1:]))


class Own(np.ndarray):
    """An array of a user's own type."""


ODD = {
    "a list": [1.0, 2.0],
    "nothing": None,
    "a number": np.float64(1.0),
    "single precision": np.ones(3, dtype=np.float32),
    "integers": np.ones(3, dtype=np.int64),
    "other order of bytes": np.ones(3).astype(">f8"),
    "with gaps": np.ones(6)[::2],
    "backward": np.ones(3)[::-1],
    "two axes": np.ones((3, 1)),
    "no axis": np.array(1.0),
    "masked": np.ma.masked_array([1.0, 2.0], [True, False]),
    "of a subclass": np.ones(3).view(Own),
    "objects": np.array([1.0, None]),
}


@pytest.mark.parametrize("what", ODD)
def test_values_that_compiled_code_would_misread_have_another_form(what):
    assert not FORM.fits((ODD[what], *FITTING[1:]))
