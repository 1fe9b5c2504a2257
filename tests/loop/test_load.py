"""A force on the base that no contact explains is an event."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec import structs

from idcontrol import robots
from idcontrol.loop.clock import NS
from idcontrol.loop.load import USUAL_S, BaseLoad
from idcontrol.loop.safety import Fault, Policy, Rule
from tests.loop.rig import Pd, arm
from tests.loop.storms import walking

PUSHED_S, G = 0.35, 9.81


def pushed(policy, **options):
    """Return a rig after a push to the left by half the weight for 0.1 s, during a walk."""
    rig = walking("links", "torque", policy=policy, duration_s=0.5, **options)
    for k in range(100):
        at = round((PUSHED_S + 1e-3 * k) * NS)
        rig.clock.at(at, lambda: rig.machine._plant.push(np.array([0.0, 0.5 * G * 1e-3, 0.0])))
    return rig.run()


def test_a_push_of_half_the_weight_is_an_event_within_50_ms():
    rig = pushed(Policy())
    # the loop begins at time zero of the clock
    events = [k for k, row in enumerate(rig.rows) if Fault.LOAD in Fault(int(row["faults"]))]
    assert PUSHED_S * 1e3 <= events[0] <= PUSHED_S * 1e3 + 50
    assert rig.loop.safety.ended_by == Fault.NONE
    assert rig.loop.counts.complete


@pytest.mark.slow
def test_a_push_brakes_a_robot_if_the_policy_demands_it():
    rig = pushed(structs.replace(Policy(), load=Rule(tolerate=10)))
    assert rig.loop.safety.ended_by == Fault.LOAD


class Scale(Pd):
    """A controller that estimates a force upwards [N]."""

    force = 0.0

    @property
    def load(self):
        return np.array([0.0, 0.0, self.force])


def test_a_payload_that_stays_becomes_usual():
    system, controller = robots.load("links").system(), Scale()
    controller.force = -40.0  # its weight at the start, and an offset of the sensors
    judge = BaseLoad(controller, system, 0.1)
    faults = [judge.judge(1e-3 * k) for k in range(100)]
    assert set(faults) == {Fault.NONE}
    controller.force -= 0.5 * G * sum(inertia.mass for inertia in system.model.inertias)
    faults = [judge.judge(0.1 + 1e-3 * k) for k in range(3000)]
    # the difference shrinks by 1e-3 / USUAL_S in each tick, from 0.5 of the weight to 0.1
    n = int(np.ceil(np.log(5.0) / -np.log1p(-1e-3 / USUAL_S)))
    assert faults == [Fault.LOAD] * n + [Fault.NONE] * (3000 - n)


@pytest.mark.parametrize(
    ("controller", "system"),
    [(Pd(), robots.load("links").system()), (Scale(), arm())],
    ids=["no estimate", "fixed base"],
)
def test_without_an_estimate_or_a_floating_base_nothing_is_judged(controller, system):
    assert BaseLoad(controller, system, 0.1).judge(0.0) == Fault.NONE
