"""Synthetic recorded runs."""

import numpy as np

from idcontrol import robots
from idcontrol.record.scenery import Scenery
from tests import walks

ROWS, STEP_S = 12, 0.01
FORCE = np.array([[1.0, 0.5, 12.0], [0.0, 0.0, 0.0], [-1.0, 0.3, 20.0], [0.5, 0.0, 15.0]])


def walk(folder, *, finish=True, lost=(), rows=ROWS):
    """The quadruped `links` drifts from its home pose, one foot unloaded; returns the folder."""
    rng, home, count = np.random.default_rng(3), robots.load("links").standing_state().q, np.arange(rows)
    data = {name: np.zeros((rows, *shape)) for name, shape in walks.CHANNELS.items()}
    data["t"] = STEP_S * count
    data["q"], data["q_des"] = np.tile(home, (rows, 1)), np.tile(home[7:], (rows, 1))
    data["q"][:, 0] += 0.02 * count
    data["base_ref"][:, :3] = data["q"][:, :3]
    data["q"][:, 7:] += 0.05 * rng.standard_normal((rows, 12))
    data["q"][list(lost)] = np.nan
    data["tau"] = rng.standard_normal((rows, 12))
    data["force"] = np.multiply.outer(1.0 + 0.01 * count, FORCE)
    data["force_pred"] = 1.02 * data["force"]
    scene = Scenery(robot="links", mu=0.8, mu_controller=0.64)
    return walks.record(folder, data=data, metrics={"completed": True} if finish else None, scene=scene)
