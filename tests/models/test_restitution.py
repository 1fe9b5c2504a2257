"""Impacts that rebound: exact for a body with one contact, and never with more energy than before the impact."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from idcontrol import plants
from idcontrol.bench.problems import machines
from idcontrol.contact.terrain import plane
from idcontrol.errors import InputError
from idcontrol.models import constraint, coulomb, coulomb_cone, dissipation, no_slip, sap
from idcontrol.models.restitution import SLOWEST, rebounding
from idcontrol.models.step import PUSH_OUT_SPEED, StepProblem
from idcontrol.types import State

H = 1e-3
IMPACT = partial(sap.solve, parameters=sap.IMPACT)
MODELS = {"coulomb": coulomb.solve, "dissipation": dissipation.solve, "no_slip": no_slip.solve, "sap": IMPACT}


def falling_sled(seed, mu):
    """Return a step in which some feet of a sled hit the ground, and its velocity without contact."""
    rng = np.random.default_rng(seed)
    setup = machines.sled(plane(), mu)
    system = setup.system
    state = machines.sled_state(
        v=np.concatenate((rng.normal(size=2), [-rng.uniform(0.2, 2.0)], 3.0 * rng.normal(size=3)))
    )
    state.q[2] += rng.uniform(0.0, 1e-4)
    system.update(state.q, state.v)
    free = system.from_pinocchio(state.v) - H * np.linalg.solve(system.M, system.bias)
    return StepProblem(h=H, M=system.M.copy(), kappa=-system.M @ free, contacts=setup.contacts.detect(0.01)), free


@pytest.mark.parametrize("name", MODELS)
def test_no_impact_gains_energy_and_none_ends_in_an_approach(name):
    mu = np.inf if name == "no_slip" else 0.4
    for seed in range(20):
        problem, free = falling_sled(seed, mu)
        restitution = np.random.default_rng(seed).uniform()
        impact = rebounding(MODELS[name], restitution)(problem)
        before, after = (v @ problem.M @ v for v in (free, impact.v_plus))
        assert after <= before * (1.0 + 1e-9)  # ten digits of the solvers
        hits = problem.contacts.N @ free < -SLOWEST
        touching = hits & (H * (problem.contacts.N @ free) + problem.contacts.gap < 0.0)
        # SAP lets a contact sink by 1e-5 of an approach of up to 2 m/s
        assert (problem.contacts.N @ impact.v_plus)[touching].min(initial=0.0) > (-5e-5 if name == "sap" else -1e-9)
        balance = problem.M @ (impact.v_plus - free) - problem.contacts.jacobian.T @ impact.impulses.T.ravel()
        np.testing.assert_allclose(balance, 0.0, atol=1e-9)


@pytest.mark.covering
@pytest.mark.parametrize("name", ["coulomb-lcp", "dissipation", "pybullet"])
@pytest.mark.parametrize("restitution", [0.0, 0.25, 0.8])
def test_a_ball_that_falls_leaves_with_its_restitution(name, restitution):
    if name == "pybullet":
        pytest.importorskip(name)
    setup = machines.ball()
    assembly = plants.Setup(
        system=setup.system, contacts=setup.contacts, dt=H, settings=plants.GroundSettings(restitution=restitution)
    )
    plant = plants.build(name, assembly)
    state = plant.reset(machines.State(t=0.0, q=np.array([0, 0, machines.BALL + 0.05, 0, 0, 0, 1.0]), v=np.zeros(6)))
    speeds = [state.v[2]]
    while state.t < 0.15:
        state = plant.step(np.zeros(0), H)
        speeds.append(state.v[2])
    hit = int(np.argmin(speeds))
    # a step of gravity before and after the impact; Bullet pushes a fifth of the overlap out in a step
    tolerance = 0.2 * -speeds[hit] if name == "pybullet" else 2.5 * H * machines.G
    assert max(speeds[hit : hit + 3]) == pytest.approx(restitution * -speeds[hit], abs=tolerance)


@pytest.mark.parametrize("restitution", [0.3, 0.6, 1.0])
def test_impacts_on_nearly_rigid_ground_rebound_as_on_rigid_ground(restitution):
    def fastest(name, dt):
        setup = replace(machines.ball(dt=dt), settings=plants.GroundSettings(restitution=restitution))
        plant = plants.build(name, setup)
        fall = State(t=0.0, q=np.array([0, 0, machines.BALL + 0.005, 0, 0, 0, 1.0]), v=np.array([0, 0, -0.5, 0, 0, 0]))
        plant.reset(fall)
        return max(plant.step(np.zeros(0), dt).v[2] for _ in range(int(0.02 / dt)))

    for dt in (1e-3, 2e-4):
        expected = fastest("coulomb-lcp", dt)
        assert expected == pytest.approx(
            restitution * np.sqrt(0.25 + 2 * machines.G * 0.005), abs=2.5 * dt * machines.G
        )
        for name in ("sap", "constraint"):
            assert fastest(name, dt) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("name", ["sap", "constraint"])
def test_restitution_on_springs_is_refused(name):
    """A touching contact has no overlap in a rebound, so springs that should stop the fall never press."""
    settings = plants.GroundSettings(restitution=0.5, stiffness_n_m=1e5)
    with pytest.raises(InputError, match="springs rebound anyway"):
        plants.build(name, machines.sled(plane(), 0.5, settings=settings))


PUSHING_OUT = MODELS | {"sap": sap.solve, "coulomb_cone": coulomb_cone.solve, "rigid constraint": constraint.solve}


@pytest.mark.parametrize("name", PUSHING_OUT)
def test_correcting_penetration_adds_limited_energy(name):
    """E(v⁺) - E(v*) = fᵀu⁺ - ½ fᵀWf, and u_N⁺ is at most the push-out speed."""
    grew = 0
    for seed in range(20):
        problem, free = falling_sled(seed, np.inf if name == "no_slip" else 0.4)
        free = 0.1 * free
        overlap = np.random.default_rng(seed).uniform(0.0, 1e-2, 4)
        contacts = replace(problem.contacts, gap=-overlap[: len(problem.contacts)])
        impact = PUSHING_OUT[name](replace(problem, contacts=contacts, kappa=-problem.M @ free), None)
        gained = 0.5 * (impact.v_plus @ problem.M @ impact.v_plus - free @ problem.M @ free)
        bound = impact.impulses[:, 0] @ np.minimum(-contacts.gap / H, PUSH_OUT_SPEED)
        assert gained <= bound + 1e-9
        grew += gained > 0.0
    assert grew > 0


def test_on_known_springs_a_sled_sinks_by_its_weight_over_their_stiffness():
    settings = plants.GroundSettings(stiffness_n_m=2e3, damping_n_s_m=100.0)
    plant = plants.build("sap", machines.sled(plane(), 0.5, settings=settings))
    state = plant.reset(machines.sled_state())
    for _ in range(400):
        state = plant.step(np.zeros(0), H)
    depth = machines.SLED_MASS * machines.G / 4 / 2e3
    assert machines.SLED_HEIGHT - state.q[2] == pytest.approx(depth, rel=1e-3)


@pytest.mark.parametrize("restitution", [-0.1, 1.5, float("nan")])
def test_a_restitution_that_is_no_share_is_refused(restitution):
    with pytest.raises(InputError, match="between 0"):
        rebounding(coulomb.solve, restitution)
