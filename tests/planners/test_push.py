"""How feet push a base that moves over them, against Pinocchio; sways build up in time."""

import numpy as np
import pinocchio as pin
import pytest

from idcontrol.planners.base import BaseReference, sway_base
from idcontrol.planners.commands import LimitedCommand, Schedule
from idcontrol.planners.gait import named_gait
from idcontrol.planners.push import LEAN, TURN, Pushing
from tests.parameters import one_fast
from tests.planners.walker import follow_exactly, machine

ROBOTS = ("links", "solo12", "go1", "anymal")


def pushing(m):
    """The pushes of a machine, its nominal feet and their soles' height."""
    planner = m.planner(Schedule.constant(0.0))
    return Pushing.of(m.system, planner._parts.legs, planner._parts.nominal, m.home), planner.nominal, planner.height


def momentum_over_still_feet(m):
    """Momentum for each twist of a base whose feet stay, by Pinocchio, shape (6, 6); centre of mass and mass."""
    model, data = m.system.model, m.system.model.createData()
    q = m.system.configuration(m.home, np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]))
    pin.computeJointJacobians(model, data, q)
    pin.updateFramePlacements(model, data)
    J = np.concatenate([pin.getFrameJacobian(model, data, f, pin.LOCAL_WORLD_ALIGNED)[:3] for f in m.feet.frames])
    v = np.concatenate((np.eye(6), -np.linalg.solve(J[:, 6:], J[:, :6])))
    momentum = np.stack([pin.computeCentroidalMomentum(model, data, q, column).vector for column in v.T], axis=1)
    return momentum, pin.centerOfMass(model, data, q), pin.computeTotalMass(model)


@pytest.mark.parametrize("name", ["links", "solo12"])  # their feet are where their frames are
def test_a_pushed_base_has_the_momentum_of_the_push_while_its_feet_stay(name):
    m = machine(name)
    pushes, feet, height = pushing(m)
    momentum, com, mass = momentum_over_still_feet(m)
    for foot, pushed in zip(feet, pushes.acceleration.T, strict=True):
        arm, load = np.array([*foot[:2], -height]) - com, 9.81 / 4
        force = load * np.array([*np.clip(arm[:2] / arm[2], -LEAN, LEAN), 1.0])
        turning = momentum @ [0.0, 0.0, *pushed[2:], 0.0] / mass
        assert pushed[:2] == pytest.approx(force[:2] - turning[:2], abs=1e-9)  # the planner moves a level base by it
        along = np.linalg.solve(momentum[:2, :2], mass * pushed[:2])
        whole = momentum @ [*along, *pushed[2:], 0.0] / mass
        assert whole[:5] == pytest.approx(np.concatenate((force, np.cross(arm, force)[:2])), abs=1e-9)


@pytest.mark.parametrize("name", one_fast(ROBOTS, "links"))
@pytest.mark.parametrize("kind", ["pace", "bound", "flying-trot"])
def test_no_gait_turns_the_base_beyond_the_limit_if_feet_can_lean(name, kind):
    m = machine(name)
    pushes, feet, _ = pushing(m)
    gait = named_gait(kind, m.gait, feet)
    push, base, command = pushes.push(gait), BaseReference.at_rest(), LimitedCommand.at_rest()
    base.extent[0] = 1.0
    turns = []
    for phase in np.linspace(0.0, 1.0, 201):
        sway_base(phase, 0.0, gait.period_s, gait.duty, np.array(gait.touchdown), push, command, True, base)
        turns.append(base.sway[0, 3:].copy())
    assert np.abs(turns).max() < 1.05 * TURN  # half sines have a little of twice the frequency and more
    leans = not np.array_equal(push.acceleration, pushes.acceleration)
    assert leans == (kind == "pace" or (name, kind) == ("links", "bound"))


@pytest.mark.parametrize("kind", ["pace", "bound", "flying-trot"])
def test_a_sway_has_built_up_before_a_foot_lifts(kind):
    m = machine("links")
    gait = named_gait(kind, m.gait, m.planner(Schedule.constant(0.0)).nominal)
    planner = m.planner(Schedule.constant(0.2), gait=gait)
    lifts = (planner.base.extent[0] for _, plan in follow_exactly(m, planner, 500) if not plan.stance.all())
    assert next(lifts) > 0.98  # critically damped for a cycle: 1 - (1 + 2π) exp(-2π)
