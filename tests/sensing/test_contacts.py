"""Feet stand by plan, by geometry, by force, or by a majority of these."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from msgspec import structs

from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.loop import launch
from idcontrol.loop.launch import LoopSettings
from idcontrol.scenes.walk import WalkConfig
from idcontrol.sensing import Sensing
from idcontrol.sensing.contacts import Fused, Geometry, Planned, Touch, sensed_stance
from idcontrol.types import ContactForces, Reference, State
from tests import scenes
from tests.scenes import loops

UP = np.array([0.0, 0.0, 1.0])


def felt(loads):
    """Return a state in which foot i is loaded with ``loads[i]`` newtons; feet without load have no contact."""
    feet = np.flatnonzero(loads)
    forces = ContactForces(identity=feet, force=np.outer(np.array(loads)[feet], UP), normal=np.tile(UP, (len(feet), 1)))
    return State(t=0.0, q=np.zeros(0), v=np.zeros(0), forces=forces)


STAND = Reference.standing(np.zeros(12), 4)


def test_force_has_hysteresis():
    touch = Touch(1)
    touches = [bool(touch.feel(felt([load]))[0]) for load in (4.9, 5.1, 2.1, 1.9, 4.9)]  # on above 5 N, off below 2 N
    assert touches == [False, True, True, False, False]


def test_touch_needs_a_force_above_the_upper_threshold():
    touch = Touch(3, on_n=0.5, off_n=0.2)
    assert touch.feel(felt([0.5, 0.51, 0.0])).tolist() == [False, True, False]
    assert touch.feel(felt([0.0, 0.2, 0.51])).tolist() == [False, False, True]


def test_without_force_sensors_nothing_changes():
    touch = Touch(2)
    touch.feel(felt([5.1, 0.0]))
    assert touch.feel(State(t=0.0, q=np.zeros(0), v=np.zeros(0))).tolist() == [True, False]


def test_geometry_marks_feet_within_a_millimetre_of_the_ground(quadruped):
    system = scenes.links()
    source = Geometry(SphereContacts(system, scenes.FEET, scenes.RADIUS, plane(), 0.8))
    q = scenes.home(system)
    for height, stands in ((0.0, True), (0.9e-3, True), (1.1e-3, False)):
        raised = q.copy()
        raised[2] += height
        assert source(State(t=0.0, q=raised, v=np.zeros(18)), STAND).tolist() == [stands] * 4


@pytest.mark.parametrize("votes", list(itertools.product((False, True), repeat=3)))
def test_the_majority_decides(votes):
    sources = [lambda state, reference, vote=vote: np.array([vote]) for vote in votes]
    assert Fused(sources)(felt([0.0]), STAND)[0] == (sum(votes) >= 2)


def test_sensed_stance_replaces_only_the_planned_stance():
    reference = sensed_stance(Touch(4))(felt([9.0, 0.0, 9.0, 0.0]), STAND)
    assert reference.stance.tolist() == [True, False, True, False]
    np.testing.assert_array_equal(reference.q, STAND.q)
    assert Planned()(felt([0.0]), STAND).all()


def planned(heights, stance):
    feet = np.zeros((4, 3))
    feet[:, 2] = heights
    return structs.replace(STAND, feet=feet, stance=np.array(stance, dtype=np.bool_))


def test_a_foot_that_the_plan_lifts_does_not_stand():
    stance, touching = sensed_stance(Touch(4)), felt([9.0, 9.0, 9.0, 9.0])
    assert stance(touching, planned([0.0, 0.0, 0.0, 0.0], [1, 1, 1, 1])).stance.all()
    lifting = stance(touching, planned([1e-6, 0.0, 0.0, 1e-6], [0, 1, 1, 0]))
    assert lifting.stance.tolist() == [False, True, True, False]


def test_a_foot_that_meets_the_ground_early_stands():
    stance = sensed_stance(Touch(4))
    stance(felt([9.0, 9.0, 9.0, 0.0]), planned([0.0, 0.0, 0.0, 0.02], [1, 1, 1, 0]))
    met = stance(felt([9.0, 9.0, 9.0, 9.0]), planned([0.0, 0.0, 0.0, 0.01], [1, 1, 1, 0]))
    assert met.stance.all()


@pytest.mark.slow
@pytest.mark.parametrize("contacts", ["planned", "geometry", "sensed", "fused"])
def test_a_trot_completes_with_each_source_of_contacts(contacts, tmp_path):
    settings = LoopSettings(transport="inprocess", pacing="fast", sensing=Sensing(contacts=contacts))
    metrics = launch.run(loops.TARGET, WalkConfig(duration_s=3.0), settings, tmp_path / "run")
    assert metrics["completed"]
    # a foot's sensor reads a force only once the robot has sunk onto the foot (`Touch`); meanwhile the joints deviate
    assert metrics["q_err_rad"] < (0.05 if contacts == "sensed" else 0.005)
