"""Measures the claims on plants: simulated machines beside textbook formulas."""

from __future__ import annotations

from typing import Final

import coal
import numpy as np
import pinocchio as pin

from idcontrol import plants
from idcontrol.contact.terrain import plane
from idcontrol.dynamics.bodies import BodyState, Surface, solid
from idcontrol.models import coulomb
from idcontrol.plants.bodies import FreeBodies, dense
from idcontrol.trust import contact_laws, machines
from idcontrol.types import Array, State

NO_JOINTS: Final[Array] = np.zeros(0)
STIFF: Final = ("coulomb-lcp", "coulomb-cone", "dissipation", "noslip", "constraint")
"""Plants whose contacts are rigid, or yield by less than a millionth."""
CONES: Final = ("coulomb-lcp", "coulomb-cone", "dissipation")
"""Rigid plants with a friction cone."""
OURS: Final = ("coulomb-lcp", "coulomb-cone", "dissipation", "sap", "noslip", "viscous", "constraint", "penalty")
"""Plants of our own."""
SLOPE: Final = float(np.deg2rad(15.0))


def missed_weight(*names: str, steps: int = 100) -> float:
    """Largest difference between the ground's forces on a sled at rest and its weight, relative to the weight."""
    worst, weight = [], machines.SLED_MASS * machines.G
    for name in names:
        plant = plants.build(name, machines.sled(plane(), machines.HOLDING))
        plant.reset(machines.sled_state())
        for _ in range(steps):
            plant.step(NO_JOINTS, machines.H)
        worst.append(np.abs(plant.contact_forces().force.sum(axis=0) - [0.0, 0.0, weight]).max() / weight)
    return float(np.max(worst))


def missed_slide() -> float:
    """Relative difference of the way down a slope from ½ g (sin θ - μ cos θ) t²."""
    steps, mu = 300, machines.SLIDING
    downhill = np.array([np.cos(SLOPE), 0.0, -np.sin(SLOPE)])
    plant = plants.build("coulomb-lcp", machines.sled(plane((np.sin(SLOPE), 0.0, np.cos(SLOPE))), mu))
    start = state = plant.reset(machines.sled_state(SLOPE))
    for _ in range(steps):
        state = plant.step(NO_JOINTS, machines.H)
    # velocities are stepped before positions, so the sum is n (n + 1) h² / 2 where the textbook has t² / 2
    expected = 0.5 * machines.G * (np.sin(SLOPE) - mu * np.cos(SLOPE)) * machines.H**2 * steps * (steps + 1)
    return float(abs(downhill @ (state.q[:3] - start.q[:3]) / expected - 1.0))


def missed_stop(name: str) -> float:
    """Relative difference of a thrown sled's way from v² / 2 μ g."""
    mu, v = 0.4, 1.0
    plant = plants.build(name, machines.sled(plane(), mu))
    state = plant.reset(machines.sled_state(v=np.array([v, 0.0, 0.0, 0.0, 0.0, 0.0])))
    for _ in range(400):
        state = plant.step(NO_JOINTS, machines.H)
    return float(abs(state.q[0] / (v**2 / (2.0 * mu * machines.G)) - 1.0))


def _thrown(name: str) -> tuple[float, float]:
    """Largest friction beyond the cone, relative to the weight, and largest relative gain of energy in a step."""
    plant = plants.build(name, machines.sled(plane(), machines.SLIDING))
    state = plant.reset(machines.sled_state(v=np.array([0.5, 0.3, 0.0, 0.3, -0.4, 1.0])))
    weight = machines.SLED_MASS * machines.G
    excess, energies = [0.0], []
    for _ in range(300):
        state = plant.step(NO_JOINTS, machines.H)
        forces = plant.contact_forces()
        pressing, along = contact_laws.pressing_and_friction(forces.force, forces.normal)
        excess += list((along - machines.SLIDING * pressing) / weight)
        energies.append(machines.sled_energy(state))
    gain = np.diff(energies) / (energies[0] - energies[-1])
    return float(np.max(excess)), float(np.max([0.0, *gain]))


def missed_impulse() -> float:
    """Largest difference between the forces reported on a thrown sled and its change of momentum, over its weight."""
    worst, weight = [], machines.SLED_MASS * machines.G
    for name in OURS:
        plant = plants.build(name, machines.sled(plane(), machines.SLIDING))
        state = plant.reset(machines.sled_state(v=np.array([0.5, 0.3, 0.0, 0.3, -0.4, 1.0])))
        for _ in range(100):
            before, state = state, plant.step(NO_JOINTS, machines.H)
            speeds = [pin.Quaternion(*s.q[[6, 3, 4, 5]]).matrix() @ s.v[:3] for s in (before, state)]
            told = plant.contact_forces().force.sum(axis=0) - [0.0, 0.0, weight]
            worst.append(np.abs(machines.SLED_MASS * (speeds[1] - speeds[0]) / machines.H - told).max() / weight)
    return float(np.max(worst))


def cone_excess() -> float:
    """Largest friction beyond the cone of a thrown and tumbling sled, relative to its weight."""
    return float(np.max([_thrown(name)[0] for name in CONES]))


def gained_energy() -> float:
    """Largest gain of energy of that sled in a step, relative to all the energy that friction dissipates."""
    return float(np.max([_thrown(name)[1] for name in CONES]))


def missed_rolling() -> float:
    """Relative difference of a rolling ball's speed from 5/7 of the speed at which it was thrown without spin."""
    plant = plants.build("coulomb-lcp", machines.ball())
    start = np.array([0.0, 0.0, machines.BALL, 0.0, 0.0, 0.0, 1.0])
    state = plant.reset(State(t=0.0, q=start, v=np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0])))
    for _ in range(200):
        state = plant.step(NO_JOINTS, machines.H)
    turn = pin.Quaternion(state.q[6], *state.q[3:6]).matrix()
    speed, spin = (turn @ state.v[:3])[0], (turn @ state.v[3:])[1]
    return float(np.max(np.abs([speed * 7.0 / 5.0 - 1.0, spin * machines.BALL / speed - 1.0])))


def lost_spin() -> float:
    """Largest relative change of the angular momentum about the centre of mass of what flies for half a second.

    A sled of three different inertias tumbles at 20 rad/s, a walker moves its legs.
    """
    worst = []
    legs, feet = machines.walker()
    flights = [
        (machines.sled(plane(), machines.HOLDING), np.array([1.0, 2.0, 3.0, 5.0, 18.0, 7.0])),
        (plants.Setup(system=legs, contacts=feet, dt=machines.H), np.tile([0.3, -2.0, 1.0], 6)),
    ]
    for setup, v in flights:
        system, data = setup.system, setup.system.model.createData()
        plant = plants.build("coulomb-lcp", setup)
        q = system.configuration(np.zeros(system.n_actuated), np.array([0.0, 0.0, 10.0, 0.0, 0.0, 0.0, 1.0]))
        state, spins = plant.reset(State(t=0.0, q=q, v=v)), []
        for steps in (0, 500):
            for _ in range(steps):
                state = plant.step(np.zeros(system.n_actuated), machines.H)
            spins.append(pin.computeCentroidalMomentum(system.model, data, state.q, state.v).angular.copy())
        worst.append(np.abs(spins[1] - spins[0]).max() / np.linalg.norm(spins[0]))
    return float(np.max(worst))


def lost_momentum() -> float:
    """Largest relative change of linear and angular momentum as a ball hits two others off centre in free space."""
    balls = [solid(f"ball{i}", coal.Sphere(0.05), 1000.0, Surface(mu=0.5)) for i in range(3)]
    plant = FreeBodies(balls, dense(coulomb.solve), gravity=(0.0, 0.0, 0.0))
    rest = BodyState.at_rest(np.array([[0.0, 0.0, 0.0], [0.2, 0.03, 0.01], [0.35, -0.02, 0.0]]))
    rest.velocity[0] = [2.0, 0.0, 0.1, 0.0, 3.0, 1.0]
    state = plant.reset(rest)
    mass, inertia = balls[0].mass, balls[0].inertia[0, 0]

    def momenta(now: BodyState) -> Array:
        linear, angular = mass * now.velocity[:, :3], inertia * now.velocity[:, 3:]
        return np.concatenate((linear.sum(axis=0), (np.cross(now.position, linear) + angular).sum(axis=0)))

    before = momenta(state)
    for _ in range(300):
        state = plant.step(machines.H)
    touched = bool(state.velocity[1:].any(axis=1).all())
    return float(np.abs(momenta(state) - before).max() / np.abs(before).max()) if touched else float("inf")
