"""Roles of contacts with infinite friction: found by trying; what has none holds at a normal force that vanishes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idcontrol.models import coulomb, dissipation, no_slip, sap
from idcontrol.models.constraint import solver as constraint
from idcontrol.models.step import StepProblem
from idcontrol.models.sticking import Attempt, settle
from idcontrol.trust.machines import forward_step
from idcontrol.types import Status
from tests import scenes

ALL = np.array([True, True])


def answers(table):
    """An attempt by table: which contacts stick -> (presses, parts), or None where there are no impulses."""

    def attempt(stick):
        answer = table[tuple(stick.tolist())]
        none = np.zeros(stick.size, dtype=bool)
        presses, parts = (none, none) if answer is None else map(np.array, answer)
        return Attempt(found=tuple(stick.tolist()), solved=answer is not None, presses=presses, parts=parts)

    return attempt


def test_what_presses_sticks_and_what_parts_is_let_go():
    table = {
        (True, True): ([True, False], [False, True]),
        (True, False): ([True, False], [False, True]),
    }
    assert settle(ALL, ALL, answers(table)) == ((True, False), True)


def test_what_was_let_go_and_presses_sticks_again():
    table = {
        (True, True): ([False, True], [False, False]),
        (False, True): ([True, True], [False, False]),
    }
    assert settle(ALL, np.array([False, True]), answers(table)) == ((True, True), True)


JAM = {
    (True, True): ([False, True], [True, False]),
    (False, True): ([True, True], [False, False]),
}


def test_what_parts_if_it_sticks_and_presses_if_it_slips_holds_and_is_reported():
    assert settle(ALL, ALL, answers(JAM)) == ((True, True), False)


def test_what_no_impulses_hold_slips_and_is_reported():
    tried = []

    def attempt(stick):
        tried.append(stick)
        # both in turn until trying ends, n + 2 times and some; then both shall hold
        return answers(JAM if len(tried) <= 6 else JAM | {(True, True): None})(stick)

    assert settle(ALL, ALL, attempt) == ((False, True), False)


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_it_ends_whatever_the_attempts_say(seed, n):
    rng = np.random.default_rng(seed)

    def attempt(stick):
        return Attempt(
            found=stick, solved=rng.uniform() < 0.8, presses=rng.uniform(size=n) < 0.5, parts=rng.uniform(size=n) < 0.5
        )

    may = rng.uniform(size=n) < 0.8
    found, _ = settle(may, may, attempt)
    assert not (found & ~may).any()


CREEP = {
    dissipation.solve: 1e-6,
    no_slip.solve: 1e-6,
    coulomb.solve: 1e-6,
    constraint.solve: 1e-5,  # 1e-6 of the speed without friction, which impacts at knees make some metres a second
    sap.solve: 1e-2,  # 1e-3 of it
}
"""Speeds of contacts that stick, by model [m/s]."""


@pytest.mark.parametrize("solve", CREEP)
def test_feet_that_land_together_never_press_without_friction(quadruped, solve):
    """Of quadrupeds that fall on their feet at random, some jam; no foot of any presses and slides."""
    rng = np.random.default_rng(0)
    jammed = 0
    for _ in range(25):
        v = scenes.moving(quadruped, rng, speed=0.2)
        problem: StepProblem = forward_step(quadruped, v, np.zeros(12), scenes.foot_contacts(quadruped, np.inf))
        solution = solve(problem, None)
        if solution.status is Status.FALLBACK:
            continue
        jammed += solution.status is Status.REPAIRED
        J, n = problem.contacts.jacobian, 4
        slip = np.abs((J @ solution.v_plus)[n:]).reshape(2, n).max(axis=0)
        presses = solution.impulses[:, 0] > 0.0
        assert slip[presses].max(initial=0.0) < CREEP[solve]
    # for sap, whose cone without limit is a half space, what jams is a solution like any other
    assert (jammed > 0) == (solve is not sap.solve)
