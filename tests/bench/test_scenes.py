"""The states that the bench runs on."""

import itertools

import numpy as np
import pytest

from idcontrol.bench.plants import step
from idcontrol.bench.scenes import copied, floor, problems
from idcontrol.bench.timing import answers
from idcontrol.models import dissipation
from idcontrol.models.whitened import whiten
from idcontrol.types import Status
from tests.bench.walks import solo12


def test_the_walk_is_coherent_and_stays_on_its_feet():
    moments = solo12().moments
    for one, two in itertools.pairwise(moments):
        assert two.state.t - one.state.t == pytest.approx(1e-3)
        assert np.array_equal(one.after.q, two.state.q)
        assert one.pressing >= 2


def test_stepping_through_the_walk_again_gives_the_same_velocities():
    walk = solo12()
    system, _ = walk.machine()
    again = answers(step(walk, "coulomb-lcp"), len(walk.moments))
    for found, moment in zip(again, walk.moments, strict=True):
        # the first step has no warm start here; the solution is the same to rounding
        assert found == pytest.approx(system.joint_velocities(moment.after.v), abs=1e-9)


def test_copies_of_contacts_leave_the_motion_what_it_is():
    posed = problems(solo12(), 4)
    assert posed
    for each in posed[::7]:
        few, many = dissipation.solve(each.problem), dissipation.solve(copied(each.problem, 30))
        assert many.status is Status.SOLVED
        assert many.v_plus == pytest.approx(few.v_plus, abs=1e-9)
        # the total normal impulse stays the same
        assert many.impulses[:, 0].sum() == pytest.approx(few.impulses[:, 0].sum(), rel=1e-6)


@pytest.mark.parametrize("contacts", [1, 3, 4, 7, 40])
def test_copied_contacts_have_identities_of_their_own_that_last(contacts):
    one, two = (copied(each.problem, contacts).contacts.identity for each in problems(solo12(), 4)[:2])
    assert len(np.unique(one)) == contacts
    assert np.array_equal(one, two)


def test_posed_problems_are_copies_that_the_next_moment_does_not_overwrite():
    first, second = problems(solo12())[:2]
    assert not np.array_equal(first.problem.M, second.problem.M)
    assert whiten(first.problem).rho.shape[1] == 6


def test_the_floor_runs_on_every_state():
    assert answers(floor(solo12()), 5) == [None] * 5
