"""Measure the claims on plants: simulated machines compared with textbook formulas."""

from __future__ import annotations

from typing import Final

import numpy as np

from idcontrol import plants
from idcontrol.contact.terrain import plane
from idcontrol.problems import machines
from idcontrol.trust.claims import claim
from idcontrol.types import Array

NO_JOINTS: Final[Array] = np.zeros(0)
STIFF: Final = ("coulomb-lcp", "coulomb-cone", "dissipation", "noslip", "constraint")
"""Plants with rigid or nearly rigid contacts."""
SLOPE: Final = float(np.deg2rad(15.0))


def _missed_weight(*names: str, steps: int = 100) -> float:
    """Return the largest error of the ground's forces on a resting sled, relative to its weight."""
    worst, weight = [], machines.SLED_MASS * machines.G
    for name in names:
        plant = plants.build(name, machines.sled(plane(), machines.HOLDING))
        plant.reset(machines.sled_state())
        for _ in range(steps):
            plant.step(NO_JOINTS, machines.H)
        worst.append(np.abs(plant.contact_forces().force.sum(axis=0) - [0.0, 0.0, weight]).max() / weight)
    return float(np.max(worst))


@claim("a body at rest presses with its weight", 1e-6, "tests/plants/test_every_plant.py", quick=True)
def missed_weight() -> float:
    """Return the largest error of the forces under a resting sled on the stiff plants, relative to its weight."""
    return _missed_weight(*STIFF)


# MuJoCo's soft contact reaches the weight within a thousandth
@claim("in MuJoCo the same body presses with its weight", 1e-3, "tests/peers/test_bodies.py", extra="mujoco")
def missed_weight_in_mujoco() -> float:
    """Return the largest error of the forces under a resting sled in MuJoCo, relative to its weight."""
    return _missed_weight("mujoco", steps=500)


@claim(
    "a body slides down a slope with the acceleration g (sin θ - μ cos θ)",
    1e-6,
    "tests/plants/test_every_plant.py",
    quick=True,
)
def missed_slide() -> float:
    """Return the relative error of the distance slid down a slope, compared with ½ g (sin θ - μ cos θ) n (n + 1) h²."""
    steps, mu = 300, machines.SLIDING
    downhill = np.array([np.cos(SLOPE), 0.0, -np.sin(SLOPE)])
    plant = plants.build("coulomb-lcp", machines.sled(plane((np.sin(SLOPE), 0.0, np.cos(SLOPE))), mu))
    start = state = plant.reset(machines.sled_state(SLOPE))
    for _ in range(steps):
        state = plant.step(NO_JOINTS, machines.H)
    # velocities are stepped before positions, so the sum n (n + 1) h² / 2 replaces the textbook's t² / 2
    expected = 0.5 * machines.G * (np.sin(SLOPE) - mu * np.cos(SLOPE)) * machines.H**2 * steps * (steps + 1)
    return float(abs(downhill @ (state.q[:3] - start.q[:3]) / expected - 1.0))
