"""The loop of a standing robot with encoder errors: no mode grows, and slow errors decay."""

import numpy as np
import pinocchio as pin
import pytest

from idcontrol.scenes.walk import WalkConfig, WalkPath, WalkScene
from idcontrol.sensing import Sensing
from idcontrol.sensing.disturbance import BiasLevel
from idcontrol.types import State
from tests.parameters import one_fast

CONTROLLERS = ["id-coulomb-qp", "id-noslip-lcp", "id-coulomb-qp-1", "id-sap", "id-constraint", "id-coulomb-cone"]
FORGETS = {"id-coulomb-smooth": 60}
"""Calls at the same state until earlier torques have faded to a thousandth; one call for other controllers."""

ROUNDING = 1e-6
"""Error of an eigenvalue: differences over 1e-6 of values with errors of about 1e-13 (8e-8 was measured)."""


def scene(controller, plant, robot="links"):
    path, sensing = WalkPath(kind="command", stand_from_s=0.0), Sensing(bias=BiasLevel(encoder_rad=0.03))
    return WalkScene.of(WalkConfig(robot=robot, controller=controller, plant=plant, path=path, sensing=sensing))


class StandingLoop:
    """Planner, controller and plant of `links` at rest, as a map over one period.

    Attributes:
        memory: Arrays that the planner keeps from tick to tick and changes in place.
        size: Number of the map's variables: the memory, configuration and velocity.
    """

    def __init__(self, controller, plant):
        self.walk, rigid = (scene(controller, name).simulated() for name in (plant, "coulomb-lcp"))
        self.model = scene(controller, plant).robot.system().model
        self.planner, self.start = rigid.planner, [tick.after for tick in rigid.ticks(3000)][-1]
        self.t, self.calls, base = self.start.t, FORGETS.get(controller, 1), self.planner.base
        self.memory = [base.pose, base.twist, base.rate, base.goal]
        self.at = np.concatenate(self.memory)
        self.size = self.at.size + 2 * self.model.nv

    def plan(self, change):
        """The sensed state that differs by `change` (size,) from rest, and its reference."""
        joints, velocity = self.at.size, self.at.size + self.model.nv
        ends = np.cumsum([part.size for part in self.memory])[:-1]
        for part, value in zip(self.memory, np.split(self.at + change[:joints], ends), strict=True):
            part[:] = value
        self.t += self.walk.period_s
        q = pin.integrate(self.model, self.start.q, change[joints:velocity])
        state = State(t=self.t, q=q, v=self.start.v + change[velocity:])
        seen = self.walk.sense(state)
        return state, seen.sealed(), self.planner(seen)

    def after(self, change):
        """The variables a period later, with differences of configuration and velocity, shape (size,)."""
        self.plan(np.zeros(self.size))  # the plan of a leg begins at its last position
        state, seen, reference = self.plan(change)
        control = self.walk.controller
        control.reset()
        for _ in range(self.calls):
            command = control(seen, reference)
        self.walk.plant.reset(state)
        end = self.walk.plant.step(command.driven, self.walk.period_s)
        return np.concatenate([*self.memory, pin.difference(self.model, self.start.q, end.q), end.v])

    def eigenvalues(self, step=1e-6):
        """Return the eigenvalues of the map by central differences, shape (size,)."""
        slopes = [(self.after(way) - self.after(-way)) / (2.0 * step) for way in step * np.eye(self.size)]
        return np.linalg.eigvals(np.array(slopes))


@pytest.mark.parametrize("controller", one_fast((*CONTROLLERS, *FORGETS), "id-coulomb-qp"))
def test_no_mode_of_standing_grows_and_joint_errors_that_creep_decay(controller):
    growth = np.sort(np.abs(StandingLoop(controller, "viscous").eigenvalues()))[::-1]
    # Position and heading in the world are not controlled: the plan moves with the feet.
    np.testing.assert_allclose(growth[:3], 1.0, rtol=0, atol=ROUNDING)
    assert growth[3] < 1.0 - ROUNDING


# Lemke's solution is a vertex with feet at the edge of friction: it is differentiable only up to the next vertex, and
# not where feet creep.
@pytest.mark.slow
@pytest.mark.parametrize("controller", one_fast((*CONTROLLERS, *FORGETS, "id-coulomb-lcp"), "id-coulomb-lcp"))
def test_no_mode_of_standing_grows_where_feet_stick(controller):
    assert np.abs(StandingLoop(controller, "coulomb-lcp").eigenvalues()).max() < 1.0 + ROUNDING
