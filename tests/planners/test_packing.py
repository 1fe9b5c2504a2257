from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from idcontrol.planners.packing import pack


@dataclass(frozen=True)
class Limits:
    largest: float


class Moving(NamedTuple):
    position: np.ndarray
    stands: np.ndarray
    count: np.ndarray


class Parts(NamedTuple):
    limits: Limits
    moving: Moving


def parts():
    moving = Moving(position=np.array([1.0, 2.0]), stands=np.array([True, False]), count=np.array([[4, 5]]))
    return Parts(limits=Limits(3.0), moving=moving)


@njit
def advance(limits, moving):
    for i in range(moving.position.shape[0]):
        moving.position[i] = min(moving.position[i] + 1.5, limits.largest)
        moving.stands[i] = not moving.stands[i]


@njit
def advance_record(record):
    advance(record[0].limits, record[0].moving)


def test_a_record_holds_copies_and_its_views_follow_the_kernels():
    source = parts()
    record, views = pack(source)
    advance_record(record)
    assert views.moving.position.tolist() == [2.5, 3.0]
    assert views.moving.stands.tolist() == [False, True]
    assert views.moving.stands.dtype == np.bool_
    assert views.moving.count.tolist() == [[4, 5]]
    assert views.moving.count.dtype == np.int64
    assert source.moving.position.tolist() == [1.0, 2.0]
    views.moving.position[0] = 7.0
    assert record["moving"]["position"][0].tolist() == [7.0, 3.0]
