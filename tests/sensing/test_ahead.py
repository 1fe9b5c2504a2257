"""With a known delay, the predicted state equals the later state of the robot, and the plan stays synchronous."""

import numpy as np
import pytest

from idcontrol.loop.simulated import ticks
from idcontrol.scenes.disturbances import Delayed
from idcontrol.sensing.ahead import Ahead
from idcontrol.types import Command, ContactForces, Reference, State

H = 1e-3


class Mass:
    """A unit mass that falls on a vertical line."""

    last = None

    def reset(self, state):
        self.state = state
        return state

    def step(self, tau, dt):
        v = self.state.v + dt * (tau - 9.81)
        self.state = State(t=self.state.t + dt, q=self.state.q + dt * v, v=v)
        return self.state

    def contact_forces(self):
        return ContactForces.none()


def planned(state):
    return Reference.standing(np.array([np.sin(9.0 * state.t)]), 0)


@pytest.mark.parametrize("periods", [1, 4])
def test_a_controller_gets_the_state_in_which_its_command_arrives(periods):
    asked = []

    def controller(state, reference):
        asked.append(state)
        return Command(tau=400.0 * (reference.q - state.q) - 40.0 * state.v)

    start = State(t=0.0, q=np.zeros(1), v=np.zeros(1))
    ahead = Ahead(Mass(), periods, H)
    run = list(ticks(Delayed(Mass(), periods), planned, controller, start, h=H, steps=200, ahead=ahead))
    for k in range(1, 200 - periods):  # before the first command arrives, the torques are unknown
        arrives = run[k + periods].state
        assert asked[k].t == pytest.approx(arrives.t)
        np.testing.assert_allclose(asked[k].q, arrives.q, rtol=0, atol=1e-15)
        np.testing.assert_allclose(asked[k].v, arrives.v, rtol=0, atol=1e-13)
        # each tick has the reference of its own time, although it was planned earlier
        assert run[k + periods].reference.q[0] == pytest.approx(np.sin(9.0 * arrives.t))
