"""Synthetic recorded runs."""

import msgspec
import numpy as np

from idcontrol import robots
from idcontrol.record.recording import Recorder
from idcontrol.record.scenery import Scenery

ROWS, STEP_S = 12, 0.01


def walk(folder, *, finish=True, lost=(), rows=ROWS):
    """The quadruped `links` drifts from its home pose, one foot unloaded; returns the folder."""
    rng = np.random.default_rng(3)
    robot = robots.load("links")
    home = robot.standing_state().q
    meta = {
        "experiment": "trot",
        "layout": {
            "waypoints": [[0.25, 0.0], [0.0, 0.25]],
            "joints": [f"{foot}_{k}" for foot in ("LF", "RF", "LH", "RH") for k in (1, 2, 3)],
            "feet": ["LF", "RF", "LH", "RH"],
            "joint_q": list(range(7, 19)),
        },
        "scene": msgspec.to_builtins(Scenery(robot="links", mu=0.8, mu_controller=0.64)),
    }
    channels = {"t": (), "q": (19,), "q_des": (12,), "tau": (12,), "force": (4, 3), "force_pred": (4, 3)}
    force = np.array([[1.0, 0.5, 12.0], [0.0, 0.0, 0.0], [-1.0, 0.3, 20.0], [0.5, 0.0, 15.0]])
    config = {"controller": "id-coulomb-qp", "robot": "links", "mu": 0.8}
    recorder = Recorder(folder, channels, {}, meta, config=config)
    for i in range(rows):
        q = home.copy()
        q[0] += 0.02 * i
        q[7:] += 0.05 * rng.standard_normal(12)
        if i in lost:
            q[:] = np.nan
        scale = 1.0 + 0.01 * i
        recorder.append(
            t=STEP_S * i,
            q=q,
            q_des=home[7:],
            tau=rng.standard_normal(12),
            force=scale * force,
            force_pred=1.02 * scale * force,
        )
    recorder.close({"completed": True} if finish else None)
    return folder
