"""A loop's sensing stages run in order, and its source of contacts decides which feet stand."""

import msgspec
import numpy as np
import pytest
from msgspec import structs

from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.sensing import Sensing, sense, stance
from idcontrol.sensing.disturbance import BiasLevel, NoiseLevel
from idcontrol.types import ContactForces, Reference, Sensed, State
from tests import scenes


def feet():
    return SphereContacts(scenes.links(), scenes.FEET, scenes.RADIUS, plane(), 0.8)


def sensed(t, height=0.0):
    system = scenes.links()
    q = scenes.home(system)
    q[2] += height
    return Sensed(
        state=State(t=t, q=q, v=np.zeros(18), forces=ContactForces.none()),
        tau=np.zeros(12),
        accelerometer=np.array([0.0, 0.0, 9.81]),
    )


def test_default_sensing_has_no_stage_and_keeps_the_planned_stance():
    assert sense(Sensing(), feet, sensed(0.0).state) is None
    assert stance(Sensing(), feet) is None


def test_sensor_values_have_the_set_delay_and_seeded_noise():
    def seen(**asked):
        through = sense(Sensing(**asked), feet, sensed(0.0).state)
        return [through(sensed(float(t))) for t in range(4)]

    assert [state.t for state in seen(delay_ticks=1)] == [0.0, 0.0, 1.0, 2.0]
    noise = NoiseLevel(joint_rad=0.1)
    drawn = [[state.q[7] for state in seen(noise=noise, seed=seed)] for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert [state.t for state in seen(noise=noise, delay_ticks=2)] == [0.0, 0.0, 0.0, 1.0]
    offsets = {float(state.q[7]) for state in seen(bias=BiasLevel(encoder_rad=0.1))}
    assert len(offsets) == 1
    assert abs(offsets.pop() - sensed(0.0).state.q[7]) == pytest.approx(0.1)


def test_estimated_base_ignores_the_plants_base():
    through = sense(Sensing(base="estimated"), feet, sensed(0.0).state)
    for t in (0.0, 1e-3):
        result = through(sensed(t, height=5.0))
    # the estimate stays at its start, far from the plant's 5 m
    assert abs(result.q[2] - scenes.HEIGHT) < 1e-3


@pytest.mark.parametrize(
    ("contacts", "expected"),
    [("geometry", [True] * 4), ("sensed", [False, True, True, True]), ("fused", [False, True, True, True])],
)
def test_stance_follows_the_chosen_source(contacts, expected):
    """All feet are at the ground, one sensor reads a force, two other feet are planned; two of three votes decide."""
    felt = ContactForces(identity=np.array([1]), force=np.array([[0, 0, 9.0]]), normal=np.array([[0, 0, 1.0]]))
    state = structs.replace(sensed(0.0).state, forces=felt)
    plan = structs.replace(Reference.standing(np.zeros(12), 4), stance=np.array([False, False, True, True]))
    assert stance(Sensing(contacts=contacts), feet)(state, plan).stance.tolist() == expected


@pytest.mark.parametrize(("field", "value"), [("delay_ticks", -1), ("noise", {"joint_rad": -1e-9}), ("speed", 1)])
def test_a_negative_delay_or_noise_and_unknown_settings_are_refused(field, value):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({field: value}, Sensing)
    assert msgspec.convert({"delay_ticks": 0, "noise": {"joint_rad": 0.0}}, Sensing) == Sensing()
