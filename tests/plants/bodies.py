"""A ball on the ground."""

import numpy as np

from idcontrol.bench.problems import machines
from idcontrol.models import coulomb
from idcontrol.plants.stepping import Stepping
from idcontrol.types import State


def ball(mu: float, *, dt: float = 1e-3) -> Stepping:
    """Return a solid ball on level ground."""
    setup = machines.ball(mu, dt=dt)
    return Stepping(setup.system, setup.contacts, coulomb.solve, dt)


def ball_at(height: float, v: np.ndarray | None = None) -> State:
    """Return the state of the ball with its lowest point at `height` [m]."""
    q = np.array([0.0, 0.0, machines.BALL + height, 0.0, 0.0, 0.0, 1.0])
    return State(t=0.0, q=q, v=np.zeros(6) if v is None else v)
