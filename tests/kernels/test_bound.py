"""Arguments that are bound once."""

from __future__ import annotations

import gc
import weakref

import numpy as np
from numba import njit

from idcontrol.kernels.bound import Bound, bind
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


def test_arrays_live_as_long_as_what_binds_them_and_no_longer():
    whole = np.arange(6.0)
    alive = weakref.ref(whole)
    bound = bind((whole, (whole[::2], 2.0)))
    del whole
    gc.collect()
    assert _scale(bound, np.ones(1)) == 2.0 + 2.0 + 4.0
    del bound
    gc.collect()
    assert alive() is None
