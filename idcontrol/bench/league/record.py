"""Records contact problems of our own trots and grasps: ``python -m idcontrol.bench.league.record FOLDER``.

They are the steps of a plant that knows the torques: forward problems, all of which have a solution.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from idcontrol.bench.league.problems import FrictionProblem, of_step, write
from idcontrol.contact.contacts import Contacts
from idcontrol.dynamics.system import System
from idcontrol.loop.simulated import Tick, ticks
from idcontrol.models.step import StepProblem
from idcontrol.scenes.grasp import GraspConfig, GraspScene
from idcontrol.scenes.settings import AssumedFriction
from idcontrol.scenes.walk import WalkConfig, WalkPath, WalkScene

TROTS: Final = (("links", 0.1), ("links", 0.8), ("go1", 0.1), ("anymal", 0.8))
GRASPS: Final = (0.3, 1.0)
"""Frictions between fingertips and box."""
FIRST: Final = 300
"""Steps before the first problem."""
EVERY: Final = 97
"""Steps from one problem to the next, which meets all phases of a gait."""
PERIODS: Final = 1000
"""Steps of a run."""


class _Detector(Protocol):
    def detect(self, h: float) -> Contacts: ...


def problems() -> Iterator[FrictionProblem]:
    """All of them."""
    for robot, mu in TROTS:
        walk = WalkScene.of(WalkConfig(robot=robot, mu=mu, path=WalkPath(kind="command")))
        simulated, feet = walk.simulated(), walk.observer()
        yield from _along(f"trot-{robot}-{mu}", simulated.ticks(PERIODS), feet.system, feet, walk.period_s)
    for mu in GRASPS:
        grasp = GraspScene.of(GraspConfig(mu=mu, friction=AssumedFriction()))
        h, system = grasp.period_s, grasp.system()
        run = ticks(grasp.plant(), grasp.swing(), grasp.controller(), grasp.start(), h=h, steps=PERIODS)
        yield from _along(f"grasp-{mu}", run, system, grasp.tips(system, mu), h)


def _along(name: str, run: Iterator[Tick], system: System, detector: _Detector, h: float) -> Iterator[FrictionProblem]:
    for step, tick in enumerate(run):
        if step < FIRST or (step - FIRST) % EVERY:
            continue
        state = tick.state
        system.update(state.q, state.v)
        contacts = detector.detect(h)
        kappa = h * system.bias - system.M @ state.v
        kappa[system.n_velocities - system.n_actuated :] -= h * tick.command.tau
        yield of_step(f"{name}-{step}", StepProblem(h=h, M=system.M, kappa=kappa, contacts=contacts))


if __name__ == "__main__":
    for problem in problems():
        write(Path(sys.argv[1]), problem)
        print(problem.name, problem.mu.size, np.linalg.matrix_rank(problem.W, hermitian=True))
