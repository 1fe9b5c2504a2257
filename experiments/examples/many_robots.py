"""A thousand robots sway, each on ground with a different friction; one call returns all their torques.

::

    python -m idcontrol.experiments.examples.many_robots 1024

To train a policy on top, let the policy write `References` in place of the sway, and reset the rows whose episodes end.
"""

import argparse
import time

import numpy as np

import idcontrol as idc
from idcontrol.loop.plausible import tilt
from idcontrol.record.metrics import fallen
from idcontrol.types import Array

ROBOT, NAME, H = "solo12", "id-coulomb-qp", 1e-3
HIPS = np.tile([1.0, 0.0, 0.0], 4)
"""The joints that swing legs sideways."""


def sway(mu: Array, duration_s: float) -> Array:
    """Sway twice a second on ground of friction `mu`, shape (n,); return the mean slide of the feet, shape (n,) [m]."""
    robot, n = idc.robots.load(ROBOT), len(mu)
    batch = idc.batch.Controllers(NAME, robot, n, mu=mu)
    plants = [idc.plants.make("coulomb-lcp", robot, mu=float(each)) for each in mu]
    start, home = robot.standing_state(), robot.standing_reference().q
    states = [plant.reset(start) for plant in plants]
    begun, spent = feet(robot, states), 0.0
    for step in range(round(duration_s / H)):
        joints = home + 0.05 * (1.0 - np.cos(4.0 * np.pi * step * H)) * HIPS
        references = idc.batch.References.standing(np.tile(joints, (n, 1)), feet=4)
        q, v = np.array([state.q for state in states]), np.array([state.v for state in states])
        begin = time.perf_counter()
        tau = batch(step * H, q, v, references).tau
        spent += time.perf_counter() - begin
        states = [plant.step(row, H) for plant, row in zip(plants, tau, strict=True)]
    height = robot.standing_height()
    fell = sum(bool(fallen(state.q[2], start.q[2], tilt(state.q[3:7]), height)) for state in states)
    print(f"{n * step / spent:.0f} control steps per second; {fell} of {n} robots fell, the others stood")
    return np.linalg.norm(feet(robot, states) - begun, axis=2).mean(axis=1)


def feet(robot: idc.robots.Robot, states: list[idc.State]) -> Array:
    """Return the horizontal positions of the feet of each robot, shape (n, 4, 2) [m]."""
    contacts, paths = robot.contacts(mu=1.0), []
    for state in states:
        contacts.system.update(state.q, state.v)
        contacts.detect(np.inf)
        paths.append(contacts.centre[:, :2].copy())
    return np.array(paths)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("robots", type=int, help="number of robots")
    friction = np.linspace(0.05, 1.0, parser.parse_args().robots)
    for mu, slid in list(zip(friction, sway(friction, 0.2), strict=True))[:: max(1, len(friction) // 8)]:
        print(f"friction {mu:.2f}: feet slid {1e3 * slid:.2f} mm")
