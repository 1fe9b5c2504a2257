"""Results of planner and controller are recorded unchanged, for any type of array, or refused."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec import structs

from idcontrol.loop.telemetry import Telemetry
from idcontrol.loop.wire import Format
from idcontrol.types import Command, ContactForces, Reference
from tests.loop.rig import ArmSession, Rig, Swing

FORCES = ContactForces(identity=np.array([3, 0]), force=np.arange(6.0).reshape(2, 3), normal=np.ones((2, 3)))


def record(reference, predicted=None):
    """Return the row into which a reference and command for three joints and four feet were written."""
    wire = Format(robot="dog", nq=10, nv=9, floating=True, torque_limit=np.ones(3), n_feet=4)
    telemetry = Telemetry(wire, 0)
    telemetry.record(reference, Command(tau=np.zeros(3), predicted=predicted))
    return telemetry.row.of


def reference(**changes):
    q, v, a, base = np.random.default_rng(0).normal(size=(4, 3))
    feet, stance = np.arange(12.0).reshape(4, 3), np.array([True, False, True, True])
    standing = structs.replace(Reference.standing(q, 4), v=v, a=a, base_position=base, base_yaw=0.5)
    return structs.replace(structs.replace(standing, feet=feet, stance=stance), **changes)


def test_every_array_of_an_answer_is_recorded_at_its_place():
    planned = reference()
    of = record(planned, FORCES)
    for channel, array in (
        ("q_des", planned.q),
        ("v_des", planned.v),
        ("a_des", planned.a),
        ("feet_des", planned.feet),
    ):
        np.testing.assert_array_equal(of[channel], array)
    np.testing.assert_array_equal(of["base_ref"], [*planned.base_position, 0.5])
    np.testing.assert_array_equal(of["stance"], [1.0, 0.0, 1.0, 1.0])
    np.testing.assert_array_equal(of["force_pred"][[3, 0]], FORCES.force)
    np.testing.assert_array_equal(of["force_pred"][[1, 2]], 0.0)
    assert np.isnan(record(planned)["force_pred"]).all()


def test_predicted_forces_at_corners_are_recorded_by_sole():
    patch = np.array([0, 0, 1, 1])
    wire = Format(robot="biped", nq=10, nv=9, floating=True, torque_limit=np.ones(3), n_feet=2, patch=patch)
    telemetry = Telemetry(wire, 0)
    force = np.arange(12.0).reshape(4, 3)
    predicted = ContactForces(identity=np.arange(4), force=force, normal=np.ones((4, 3)))
    telemetry.record(Reference.standing(np.zeros(3), 2), Command(tau=np.zeros(3), predicted=predicted))
    np.testing.assert_array_equal(telemetry.row.of["force_pred"], [force[:2].sum(axis=0), force[2:].sum(axis=0)])


@pytest.mark.parametrize("name", ["q", "v", "a", "base_position", "stance", "feet"])
def test_a_reference_with_an_array_of_another_shape_is_refused(name):
    array = getattr(reference(), name)
    for misfit in (array[:-1], array[None], array[:1], 0.0):  # NumPy would broadcast the last two
        with pytest.raises(ValueError, match=f"reference.{name} "):
            record(reference(**{name: misfit}))


class Odd(Swing):
    """A planner that returns its demand in other types of arrays."""

    def __init__(self, convert):
        super().__init__()
        self.convert = convert

    def __call__(self, state):
        planned = super().__call__(state)
        return structs.replace(planned, q=self.convert(planned.q), v=self.convert(planned.v))


class OddSession(ArmSession):
    convert = staticmethod(np.array)

    def planner(self):
        return Odd(self.convert)


@pytest.mark.parametrize("convert", [np.float32, list, lambda x: np.stack((x, x), axis=1)[:, 0], np.ma.array])
def test_a_users_planner_may_give_any_arrays_that_numbers_can_be_read_from(convert):
    rows = {}
    for kind in (np.array, convert):
        session = OddSession()
        session.convert = kind
        rig = Rig(session=session, duration_s=0.1)
        rig.run()
        assert not rig.loop.counts.error
        rows[kind] = np.array([row["q_des"] for row in rig.rows])
    np.testing.assert_allclose(rows[convert], rows[np.array], atol=1e-7, rtol=0.0)  # as exact as single precision is
