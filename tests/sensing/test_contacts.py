"""Feet stand by plan, by geometry, by force, or by a majority of these; robots walk on these contacts."""

import itertools

import numpy as np
import pytest
from msgspec import structs

from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.scenes.walk import WalkConfig, WalkScene
from idcontrol.sensing import Sensing
from idcontrol.sensing.contacts import Fused, Geometry, Planned, Touch, sensed_stance
from idcontrol.sensing.disturbance import BiasLevel
from idcontrol.types import ContactForces, Reference, State
from tests import scenes
from tests.parameters import one_fast

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


def links_at(heights):
    """Return stance by geometry of `links`, and states at rest in its home pose, raised by `heights` [m]."""
    system = scenes.links()
    source = Geometry(SphereContacts(system, scenes.FEET, scenes.RADIUS, plane(), 0.8))
    q = scenes.home(system)
    states = [State(t=0.0, q=q + height * np.eye(q.size)[2], v=np.zeros(18)) for height in heights]
    return source, states


SWING = structs.replace(STAND, stance=np.zeros(4, dtype=np.bool_))


def test_geometry_marks_swinging_feet_within_a_millimetre_of_the_ground(quadruped):
    source, states = links_at((0.0, 0.9e-3, 1.1e-3))
    assert [source(state, SWING).tolist() for state in states] == [[True] * 4, [True] * 4, [False] * 4]


def test_geometry_keeps_a_standing_foot_until_its_gap_has_grown_by_a_centimetre(quadruped):
    source, (landed, *later) = links_at((4e-3, 13e-3, 15e-3))  # sensors misplace the ground by 4 mm
    stance = np.zeros(4, dtype=np.bool_)  # of a planner that writes into its array
    reference = structs.replace(STAND, stance=stance)
    assert not source(landed, reference).any()
    stance[:] = True
    assert source(landed, reference).all()
    assert [source(state, reference).tolist() for state in later] == [[True] * 4, [False] * 4]


@pytest.mark.parametrize("votes", list(itertools.product((False, True), repeat=3)))
def test_the_majority_decides(votes):
    sources = [lambda state, reference, vote=vote: np.array([vote]) for vote in votes]
    assert Fused(sources)(felt([0.0]), STAND)[0] == (sum(votes) >= 2)


def test_a_foot_in_planned_stance_stands_even_without_a_load():
    # it gets a load only while it stands
    reference = sensed_stance(Touch(4))(felt([9.0, 0.0, 9.0, 0.0]), STAND)
    assert reference.stance.all()


def test_sensed_stance_replaces_only_stance_and_times_since_touchdown():
    wanted = structs.replace(STAND, q=np.arange(12.0), stance=np.array([True, False, True, False]))
    reference = sensed_stance(Touch(4))(felt([9.0, 9.0, 9.0, 0.0]), wanted)
    assert reference.stance.tolist() == [True, True, True, False]
    for name in ("q", "v", "a", "to_liftoff", "feet", "base_position"):
        np.testing.assert_array_equal(getattr(reference, name), getattr(wanted, name))
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


def test_the_time_since_touchdown_counts_from_the_sensed_touchdown():
    stance, falling = sensed_stance(Touch(2)), structs.replace(STAND, feet=np.zeros((2, 3)))
    swings = structs.replace(falling, stance=np.array([True, False]), since_touchdown=np.full(2, np.inf))
    lands = structs.replace(falling, stance=np.ones(2, dtype=np.bool_), since_touchdown=np.array([np.inf, 0.0]))
    seen = [
        stance(structs.replace(felt([9.0, load]), t=t), reference).since_touchdown.tolist()
        for t, load, reference in ((0.0, 0.0, swings), (0.01, 9.0, swings), (0.02, 9.0, swings), (0.03, 9.0, lands))
    ]
    assert seen == [[np.inf, since] for since in (np.inf, 0.0, 0.01, pytest.approx(0.02))]


MEASURED = ("geometry", "sensed", "fused")
BIASED = Sensing(bias=BiasLevel(encoder_rad=0.01, attitude_rad=0.01))


def heights(config):
    """Return the height of the base above its reference in each tick of a walk [m]."""
    walk = WalkScene.of(config).simulated()
    ticks = walk.ticks(round(config.duration_s / walk.period_s))
    return np.array([tick.state.q[2] - tick.reference.base_position[2] for tick in ticks])


@pytest.mark.parametrize("contacts", one_fast(MEASURED, "fused"))
def test_the_base_does_not_sink_on_measured_contacts(contacts):
    # a foot that is not loaded because it feels no load lets the base sink by 20 mm and more within a second
    sensing = structs.replace(BIASED, contacts=contacts)
    assert np.abs(heights(WalkConfig(duration_s=1.5, sensing=sensing))).max() < 2e-3
