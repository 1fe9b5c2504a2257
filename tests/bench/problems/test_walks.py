"""The states on which the bench runs."""

import itertools

import numpy as np
import pytest

from idcontrol import plants
from idcontrol.bench.problems.walks import PATCH_M_S, PATCH_MU, copied, patch, problems
from idcontrol.models import dissipation
from idcontrol.models.whitened import whiten
from idcontrol.types import Status
from tests.bench.problems.short_walks import solo12


def test_the_walk_is_coherent_and_stays_on_its_feet():
    moments = solo12().moments
    for one, two in itertools.pairwise(moments):
        assert two.state.t - one.state.t == pytest.approx(1e-3)
        assert np.array_equal(one.after.q, two.state.q)
        assert one.pressing >= 2


def test_copies_of_contacts_do_not_change_the_motion():
    steps = problems(solo12(), 4)
    assert steps
    for each in steps[::7]:
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


def test_the_next_moment_does_not_overwrite_a_step_of_a_walk():
    first, second = problems(solo12())[:2]
    assert not np.array_equal(first.problem.M, second.problem.M)
    assert whiten(first.problem).rho.shape[1] == 6


def test_the_sliding_distance_of_a_box_does_not_depend_on_its_contact_count():
    ends = []
    for side in (2, 5, 9):
        system, ground, start = patch(side)
        plant = plants.build("dissipation", plants.Setup(system=system, contacts=ground, dt=1e-3))
        state = plant.reset(start)
        for _ in range(100):
            state = plant.step(np.zeros(0), 1e-3)
        system.update(state.q, state.v)
        assert len(ground.detect(1e-6)) == side * side
        assert np.abs(state.v).max() < 1e-9
        ends.append(state.q)
    # a box that also turns slows down less along its path than v²/2μg, and pyramids are narrower than cones
    way, straight = np.linalg.norm(ends[0][:2]), PATCH_M_S**2 / (2.0 * PATCH_MU * 9.81)
    assert straight < way < 1.5 * straight
    for end in ends[1:]:
        assert end == pytest.approx(ends[0], abs=0.05 * way)
