"""The planner's compiled tick against the same text run by Python, statement by statement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from idcontrol.planners import compiled, trot
from idcontrol.planners.balance import Balance
from idcontrol.planners.commands import Schedule
from tests.planners.walker import follow, machine

CALLS = ("observe", "aim", "swing", "yield_velocity", "yield_acceleration", "follow")


@dataclass(frozen=True)
class Pair:
    numbers: np.ndarray
    size: float
    count: np.ndarray


class Fields:
    """A record as compiled code has it: ``record[0]``, then fields by attribute."""

    def __init__(self, part):
        self._part = part

    def __getitem__(self, index):
        assert index == 0
        return self

    def __getattr__(self, name):
        part = self._part[name]
        return part[0] if part.dtype.names is None else Fields(part)


def interpreted(name):
    python = getattr(compiled, name).py_func
    return lambda record, *args: python(Fields(record), *args)


@pytest.mark.parametrize("options", [{}, {"constant_momentum": True, "balance": Balance(stiffness_1_s2=50.0)}])
def test_compiled_calls_plan_what_their_text_says(monkeypatch, options):
    m = machine("links")
    # starts, walks, turns, and stops again
    guide = Schedule([(0.0, 0.2, 0.0, 0.0), (0.3, 0.1, 0.05, 0.5)], stand_from_s=0.45)

    def plans(planner):
        return [plan for _, plan in follow(m, planner, 200, 5e-3)], planner.standing

    fast, stood = plans(m.planner(guide, **options))
    for name in CALLS:
        monkeypatch.setattr(trot, name, interpreted(name))
    slow, stood_too = plans(m.planner(guide, **options))
    assert stood
    assert stood_too
    for one, other in zip(fast, slow, strict=True):
        np.testing.assert_array_equal(one.stance, other.stance)
        for name in ("q", "v", "a", "since_touchdown", "to_liftoff", "base_position", "feet"):
            # compilers may contract and reorder: rounding, on accelerations of hundreds
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9, atol=1e-9)


def test_a_record_holds_copies_and_its_views_write_into_it():
    pair = Pair(numbers=np.array([1.0, 2.0]), size=3.0, count=np.array([[4, 5]]))
    record = compiled.joined(pair=pair)
    view = compiled.viewed(pair, record, "pair")
    view.numbers[0] = 7.0
    assert pair.numbers[0] == 1.0
    assert record["pair"]["numbers"][0].tolist() == [7.0, 2.0]
    assert record["pair"]["size"][0] == view.size == 3.0
    assert view.count.tolist() == [[4, 5]]
    assert view.count.dtype == np.int64
