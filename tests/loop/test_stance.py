"""Feet that stand show which encoder slips on its joint."""

from __future__ import annotations

import numpy as np
import pytest

from idcontrol.loop.clock import NS
from idcontrol.loop.motion import SETTLE_S
from idcontrol.loop.safety import Fault
from idcontrol.loop.stance import RATE, SPAN_S, nobody, slipping
from tests.loop.storms import Body, Storm, walking
from tests.loop.test_motion import H

UP, WEIGHT = np.array([0.0, 0.0, 1.0]), 100.0


def named(joint, rate, stand=4, duration_s=0.3):
    """Return the verdicts on a base that turns on four legs, the first of which `stand`, and on a joint that slips.

    Each leg has three joints. The joints move so that the feet rest, except for the velocity `rate` of one joint.
    """
    rng, scale = np.random.default_rng(0), np.linspace(0.5, 2.0, 18)
    J, force = np.zeros((12, 18)), np.zeros(12)
    for k in range(4):
        J[3 * k : 3 * k + 3, 3:6] = rng.uniform(-0.4, 0.4, (3, 3))
        J[3 * k : 3 * k + 3, 6 + 3 * k : 9 + 3 * k] = rng.uniform(-0.3, 0.3, (3, 3))
        force[3 * k : 3 * k + 3] = UP * WEIGHT / stand * (k < stand)
    v = np.r_[np.zeros(3), rng.uniform(-0.3, 0.3, 3), np.zeros(12)]
    v[6:] = np.linalg.solve(J[:, 6:], -J[:, 3:6] @ v[3:6])
    v[6 + joint] += rate
    stance = nobody(4, 12)
    return [slipping(stance, J * scale, scale, force, UP, WEIGHT, v / scale, H) for _ in range(round(duration_s / H))]


@pytest.mark.parametrize("stand", [2, 4])
@pytest.mark.parametrize(("joint", "rate"), [(0, 0.2), (4, -0.2), (5, 0.12)])
def test_an_encoder_that_slips_with_a_matching_velocity_is_named(joint, rate, stand):
    seen = named(joint, rate, stand)
    assert set(seen) == {-1, joint}
    assert seen[round(2.0 * SPAN_S / H)] == joint


def test_a_slow_slip_and_a_slip_of_a_leg_in_the_air_are_no_faults():
    assert set(named(4, 0.8 * RATE)) == {-1}
    assert set(named(8, 0.3, stand=2)) == {-1}


@pytest.mark.parametrize(("friction", "slips"), [(0.1, False), (-0.1, True), (0.0, True)])
def test_feet_that_slide_against_their_friction_are_no_fault(friction, slips):
    """Two feet turn with the base about the vertical, almost as if the hip of one of them turned."""
    feet = np.array([[0.3, 0.05, -0.3], [-0.3, -0.05, -0.3]])
    J, v = np.zeros((6, 8)), np.zeros(8)
    v[5] = 0.3
    for k, foot in enumerate(feet):
        J[3 * k : 3 * k + 3, 5] = np.cross(UP, foot)
        J[3 * k : 3 * k + 3, 6 + k] = 0.0, 0.3, foot[1]
    slide = (J[:, 5] / np.linalg.norm(J[:3, 5])).reshape(2, 3)
    force = (0.5 * WEIGHT * (UP - friction * slide)).ravel()
    stance, seen = nobody(2, 2), []
    for _ in range(round(3.0 * SPAN_S / H)):
        seen.append(slipping(stance, J, np.ones(8), force, UP, WEIGHT, v, H))
    assert (seen[-1] >= 0) is slips
    assert set(seen[: round(SETTLE_S / H)]) == {-1}


def test_a_single_foot_that_stands_shows_nothing():
    J, force = np.ones((6, 8)), np.array([0.0, 0.0, WEIGHT, 0.0, 0.0, 0.0])
    assert {slipping(nobody(2, 2), J, np.ones(8), force, UP, WEIGHT, np.ones(8), H) for _ in range(200)} == {-1}


def test_a_walk_notes_an_encoder_that_slips_and_its_joint():
    joint, begin_s, rate = 4, 0.5, 0.3
    rig = walking("links", "torque", duration_s=0.5)
    storm = Storm(rig, Body(rig), np.random.default_rng(0))

    def lie(of):
        of["q"][7 + joint] += rate * (rig.clock.now() / NS - begin_s)
        of["v"][6 + joint] += rate

    storm.lie(begin_s, 9.0, lie)
    rig.run()
    noted = [int(row["doubted"]) for row in rig.rows if int(row["faults"]) & Fault.SLIP]
    assert noted[0] == joint
    assert not rig.loop.safety.ended_by & Fault.ENCODER
