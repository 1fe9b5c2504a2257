"""Play whole-body targets from a file through `idcontrol.mpc.Socket`, in place of an MPC.

::

    python -m idcontrol.experiments.examples.stream go1 targets.npz
    STREAM=targets.npz idcontrol loop --robot go1 --planner experiments/examples/stream.py:Stream

The file holds the fields of `idcontrol.mpc.Target` as arrays with one row for each target. The first command writes
such a file from the plans of `centroidal_mpc.py`, without a plant.
"""

import argparse
import os
from typing import Any

import numpy as np

import idcontrol as idc
from idcontrol.experiments.examples.centroidal_mpc import CentroidalMpc
from idcontrol.mpc import Target

AHEAD_S = 0.12
"""Time for which targets are sent ahead [s]."""
FIELDS = ("t", "q", "v", "a", "contacts")


class Stream:
    """Sends the targets of a file, from its beginning."""

    rate_hz = 50.0

    def __init__(self) -> None:
        """Read the file that the environment variable STREAM names."""
        with np.load(os.environ["STREAM"]) as file:
            self.targets = [
                Target(t=float(t), q=q, v=v, a=a, contacts=stands)
                for t, q, v, a, stands in zip(*(file[name] for name in FIELDS), strict=True)
            ]

    def reset(self, state: idc.State) -> None:
        """Do nothing: the times of the file begin with the loop."""

    def __call__(self, state: idc.State) -> list[Target]:
        """Return the targets of the next `AHEAD_S`; none at the end of the file: the socket holds the last target."""
        return [target for target in self.targets if 1e-9 < target.t - state.t <= AHEAD_S]


def write(name: str, path: str, duration_s: float = 10.0) -> None:
    """Write the targets of an MPC for a robot that follows them exactly."""
    robot = idc.robots.load(name)
    mpc, state, sent = CentroidalMpc(robot, 0.6, 1000.0), robot.standing_state(), list[Target]()
    mpc.reset(state)
    while state.t < duration_s:
        sent.append(mpc(state)[0])
        state = idc.State(t=sent[-1].t, q=sent[-1].q, v=sent[-1].v)
    rows: dict[str, Any] = {field: np.array([getattr(target, field) for target in sent]) for field in FIELDS}
    np.savez(path, **rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("robot", help="robot file, or name of a robot of the library")
    parser.add_argument("file", help="file to write")
    args = parser.parse_args()
    write(args.robot, args.file)
