"""The answers of planner and controller are recorded as they are, whatever arrays they come in, or not at all."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec import structs

from idcontrol.kernels.bound import bind
from idcontrol.loop.gate import FORM, NAMES, TYPES, Answers, keep
from idcontrol.loop.safety import Fault
from idcontrol.types import Command
from tests.loop.rig import ArmSession, Pd, Rig, Swing

JOINTS, FEET = 3, 4


def room() -> Answers:
    """Where answers are recorded; NaN as in a row that nobody has written into."""
    nothing = np.full((4, JOINTS), np.nan)
    return Answers(
        joints=(nothing[0], nothing[1], nothing[2]),
        stance=np.full(FEET, np.nan),
        base_position=np.full(3, np.nan),
        feet=np.full((FEET, 3), np.nan),
        force=np.full((FEET, 3), np.nan),
    )


def answer() -> dict[str, np.ndarray]:
    numbers = np.random.default_rng(0)
    joints = {name: numbers.normal(size=JOINTS) for name in NAMES[:3]}
    return {
        **joints,
        "reference.base_position": numbers.normal(size=3),
        "reference.stance": np.array([True, False, True, True]),
        "reference.feet": numbers.normal(size=(FEET, 3)),
        "command.predicted.identity": np.array([3, 0]),
        "command.predicted.force": numbers.normal(size=(2, 3)),
    }


def test_every_array_of_an_answer_is_recorded_at_its_place():
    to, told = room(), answer()
    assert tuple(told) == NAMES
    assert keep(bind(to), *told.values())
    q, v, a, position, stance, feet, (front, back), force = told.values()
    np.testing.assert_array_equal(to.joints, (q, v, a))
    np.testing.assert_array_equal(to.base_position, position)
    np.testing.assert_array_equal(to.stance, stance)
    np.testing.assert_array_equal(to.feet, feet)
    np.testing.assert_array_equal(to.force[[front, back]], force)
    np.testing.assert_array_equal(to.force[[1, 2]], 0.0)


@pytest.mark.parametrize("name", NAMES)
def test_of_an_answer_with_one_array_that_does_not_fit_nothing_is_recorded(name):
    misfits = (
        answer()[name][..., :-1],
        answer()[name].astype(np.float32),
        answer()[name][None],
        answer()[name][::-1],
        None,
        np.array([-1, 0]),
        np.array([FEET, 0]),
    )
    for misfit in misfits:
        to = room()
        arrays = (answer() | {name: misfit}).values()
        assert not FORM.fits(arrays) or not keep(bind(to), *arrays)
        for kept in (*to.joints, to.base_position, to.stance, to.feet, to.force):
            assert np.isnan(kept).all()


def test_the_types_are_those_of_a_planned_reference_and_its_forces():
    assert tuple(answer()[name].dtype.type for name in NAMES) == TYPES


class Deaf(Pd):
    """A controller that does not look at its reference."""

    def __call__(self, state, reference):
        return Command(tau=np.zeros(2))


class Odd(Swing):
    """A planner that gives its demand in other arrays."""

    def __init__(self, made):
        super().__init__()
        self.made = made

    def __call__(self, state):
        planned = super().__call__(state)
        return structs.replace(planned, q=self.made(planned.q), v=self.made(planned.v))


class OddSession(ArmSession):
    made = staticmethod(np.array)

    def planner(self):
        return Odd(self.made)


@pytest.mark.parametrize("made", [np.float32, list, lambda x: np.stack((x, x), axis=1)[:, 0], np.ma.array])
def test_a_users_planner_may_give_any_arrays_that_numbers_can_be_read_from(made):
    rows = {}
    for kind in (np.array, made):
        session = OddSession()
        session.made = kind
        rig = Rig(session=session, duration_s=0.1)
        rig.run()
        assert not rig.loop.counts.error
        rows[kind] = np.array([row["q_des"] for row in rig.rows])
    np.testing.assert_allclose(rows[made], rows[np.array], atol=1e-7, rtol=0.0)  # as exact as single precision is


def test_a_reference_that_does_not_fit_brakes_the_machine_and_the_error_says_which():
    session = OddSession()
    session.made = lambda x: np.full((1, 2), 0.1)  # which a controller may well take
    rig = Rig(session=session, controller=Deaf())
    rig.run()
    assert rig.loop.safety.ended_by & Fault.RAISED
    assert "reference.q (1, 2)" in rig.loop.counts.error
