"""Time stepping with rigid contact: momentum, weight, impact, sliding, rolling, substeps, pushes (math.md)."""

import numpy as np
import pinocchio as pin
import pytest

from idcontrol import plants
from idcontrol.bench.problems import machines
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import height_map, plane
from idcontrol.models import coulomb
from idcontrol.plants.stepping import Stepping
from idcontrol.types import State
from tests import scenes
from tests.plants import bodies

G = 9.81


def quadruped_plant(dt=1e-3, mu=0.8):
    system = scenes.links()
    return Stepping(system, SphereContacts(system, scenes.FEET, scenes.RADIUS, plane(), mu), coulomb.solve, dt), system


def rotation(q):
    return pin.Quaternion(q[6], *q[3:6]).matrix()


@pytest.mark.parametrize("seed", range(5))
def test_momentum_changes_by_torque_gravity_and_the_forces_read_back(quadruped, seed):
    """M (v⁺ - v) = h (Pᵀτ - c) + Jᵀ (h F), with F from `contact_forces`."""
    rng = np.random.default_rng(seed)
    plant, _ = quadruped_plant()
    q = pin.integrate(quadruped.model, scenes.home(quadruped), 0.01 * rng.normal(size=18))
    q[2] -= 0.02  # some foot presses: what flies has its momenta in the pose at the end (`flight`)
    before = plant.reset(State(t=0.0, q=q, v=0.3 * rng.normal(size=18)))
    tau = rng.normal(size=12)
    after = plant.step(tau, 1e-3)
    forces = plant.contact_forces()
    assert forces.identity.size
    quadruped.update(before.q, before.v)
    v = quadruped.from_pinocchio(before.v)
    v_plus = quadruped.from_pinocchio(after.v)
    v_plus[:3] = rotation(before.q).T @ rotation(after.q) @ v_plus[:3]  # in the axes of the step's beginning
    applied = -quadruped.bias
    applied[6:] += tau
    all_feet = scenes.foot_contacts(quadruped, 0.8)
    for identity, force in zip(forces.identity, forces.force, strict=True):
        along_axes = all_feet.axes[identity] @ force
        applied += all_feet.jacobian[identity::4].T @ along_axes
    error = quadruped.M @ (v_plus - v) - 1e-3 * applied
    assert np.abs(error).max() < 1e-12 * max(1.0, np.abs(applied).max())
    np.testing.assert_allclose(after.q, quadruped.advance(before.q, v_plus, 1e-3)[0], rtol=0, atol=1e-15)
    assert after.t == pytest.approx(1e-3)


def test_a_dropped_ball_lands_when_it_must_and_does_not_bounce():
    plant = bodies.ball(0.5)
    state = plant.reset(bodies.ball_at(0.05))
    landed, lowest, speeds = None, np.inf, []
    for _ in range(300):
        state = plant.step(np.zeros(0), 1e-3)
        lowest = min(lowest, state.q[2] - machines.BALL)
        if landed is None and plant.contact_forces().identity.size:
            landed = state.t
        elif landed is not None:
            speeds.append(abs(state.v[2]))
    # velocities first, then positions: the fall is early by half a step, the contact by one more
    assert landed == pytest.approx(np.sqrt(2 * 0.05 / G), abs=2e-3)
    # in the step of the impact it moves to the ground at the speed φ/h, 1 m/s at most; then it rests
    assert max(speeds[1:]) < 1e-12
    assert lowest > -1e-12
    assert state.q[2] == pytest.approx(machines.BALL, abs=1e-12)


def flown(system, contacts, q, v, h, duration=1.0):
    """Return spin momentum and kinetic energy about the centre of mass, and the centre, before and after a flight."""
    plant = Stepping(system, contacts, coulomb.solve, h)
    state = plant.reset(State(t=0.0, q=q, v=v))
    data, seen = system.model.createData(), []
    for steps in (0, round(duration / h)):
        for _ in range(steps):
            state = plant.step(np.zeros(system.n_actuated), h)
        momentum = pin.computeCentroidalMomentum(system.model, data, state.q, state.v)
        energy = pin.computeKineticEnergy(system.model, data, state.q, state.v)
        energy -= 0.5 * momentum.linear @ momentum.linear / system.mass
        centre = pin.centerOfMass(system.model, data, state.q, state.v).copy()
        seen.append((momentum.linear.copy(), momentum.angular.copy(), energy, centre))
    return seen


def test_a_machine_whose_joints_move_keeps_its_momenta_in_flight(quadruped):
    """Energy drifts at first order in h; 0.4 % in 0.3 s at 1 ms, with joints at 3 rad/s."""
    contacts = SphereContacts(quadruped, scenes.FEET, scenes.RADIUS, plane(), 0.5)
    rng, q, drift = np.random.default_rng(0), scenes.home(quadruped).copy(), []
    q[2] = 20.0
    v = np.concatenate((rng.normal(size=3), 2.0 * rng.normal(size=3), 3.0 * rng.normal(size=12)))
    for h in (1e-3, 5e-4):
        before, after = flown(quadruped, contacts, q, v, h, duration=0.3)
        fall = 0.3 * np.array([0.0, 0.0, -G])
        np.testing.assert_allclose(after[0], before[0] + quadruped.mass * fall, rtol=0, atol=1e-10)
        np.testing.assert_allclose(after[1], before[1], rtol=0, atol=1e-10 * np.linalg.norm(before[1]))
        way = 0.3 * before[0] / quadruped.mass + 0.5 * 0.3 * fall * (1.0 + h / 0.3)
        np.testing.assert_allclose(after[3] - before[3], way, rtol=0, atol=1e-10)
        drift.append(abs(after[2] / before[2] - 1.0))
    assert drift[0] < 5e-3
    assert drift[1] == pytest.approx(0.5 * drift[0], rel=0.1)


def test_feet_that_cannot_all_hold_on_rough_ground_stay_above_it():
    """Each foot needs its own way out of the ground; any two that stick leave the others one axis to turn about."""
    ground = height_map(0.02 * np.random.default_rng(0).uniform(size=(21, 21)), 0.05)
    setup = machines.sled(ground, machines.HOLDING)
    plant = plants.build("noslip", setup)
    start = np.array([0.0, 0.0, 0.15, 0.0, 0.0, 0.0, 1.0])
    state = plant.reset(State(t=0.0, q=start, v=0.3 * np.random.default_rng(2).normal(size=6)))
    for _ in range(300):
        state = plant.step(np.zeros(0), machines.H)
    assert plant.repaired > 0
    assert plant.fallback == 0
    setup.system.update(state.q, state.v)
    assert setup.contacts.detect(machines.FOOT).gap.min() > -1e-6


def test_a_period_is_cut_into_equal_substeps_no_longer_than_the_plants_own():
    fine, coarse = bodies.ball(0.5, dt=1e-4), bodies.ball(0.5, dt=1e-3)
    for plant in (fine, coarse):
        plant.reset(bodies.ball_at(0.01))
    fine_state = fine.step(np.zeros(0), 1e-3)
    coarse_state = coarse.step(np.zeros(0), 1e-3)
    assert fine.solved == 10
    assert coarse.solved == 1
    assert fine_state.t == pytest.approx(coarse_state.t)
    # semi-implicit fall: h² g Σ k
    assert fine_state.q[2] == pytest.approx(0.01 + machines.BALL - G * 1e-8 * 55, abs=1e-14)
    assert coarse_state.q[2] == pytest.approx(0.01 + machines.BALL - G * 1e-6, abs=1e-14)
    uneven = bodies.ball(0.5, dt=3e-4)
    uneven.reset(bodies.ball_at(0.01))
    assert uneven.step(np.zeros(0), 1e-3).t == pytest.approx(1e-3)
    assert uneven.solved == 4


def test_forces_are_averages_over_the_period():
    """The impulse of an impact within the period stops the ball and carries its weight for the rest of the period."""
    plant = bodies.ball(0.5, dt=1e-4)
    before = plant.reset(bodies.ball_at(1.5e-4, np.array([0, 0, -0.5, 0, 0, 0])))
    after = plant.step(np.zeros(0), 1e-3)
    force = plant.contact_forces().force
    assert force.shape == (1, 3)
    momentum = machines.SLED_MASS * (after.v[2] - before.v[2])
    assert force[0, 2] * 1e-3 == pytest.approx(momentum + machines.SLED_MASS * G * 1e-3, rel=1e-9)
    assert abs(after.v[2]) < 1e-9


def test_a_plant_gets_warm_whose_model_refuses_numbers_that_are_not_finite(quadruped):
    """SciPy refuses such numbers, and a loop could not start."""

    def model(problem, warm):
        if not np.isfinite(problem.kappa).all():
            raise ValueError("array must not contain infs or NaNs")
        return coulomb.solve(problem, warm)

    system = scenes.links()
    plant = Stepping(system, SphereContacts(system, scenes.FEET, scenes.RADIUS, plane(), 0.8), model, 1e-3)
    start = State(t=0.0, q=scenes.home(quadruped), v=np.zeros(system.n_velocities))
    plant.warm(start)
    assert np.isfinite(plant.step(np.zeros(system.n_actuated), 1e-3).v).all()
