"""The laws that every model obeys: its contact law, energy, the right inverse, moving ground, axes."""

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
from msgspec import structs

from idcontrol.bench import judge
from idcontrol.bench.judge.models import MODELS
from idcontrol.bench.problems.machines import forward_step, inverse_step
from idcontrol.bench.problems.steps import kind_of, numbered_step
from idcontrol.controllers.projection import project
from idcontrol.models import coulomb_cone, dissipation, sap
from idcontrol.models.step import CLOSED_GAP, StepProblem
from idcontrol.types import Status
from tests import scenes
from tests.parameters import one_fast, solved
from tests.scenes import by_hand

every_law = pytest.mark.parametrize("law", MODELS)
UNIQUE = ("dissipation", "viscous", "sap")
"""Laws with a unique motion if friction is finite."""
CONVEX = [(dissipation, "dissipation"), (sap, "sap")]


def random_inverse(system, rng):
    """Return a moving state with tilted normals (15°), friction that varies, one foot 5 mm up, large demands."""
    v = scenes.moving(system, rng)
    gap = np.array([0.0, 0.0, 0.0, 5e-3])[rng.permutation(4)] + rng.uniform(0, 2e-4, 4)
    contacts = scenes.foot_contacts(
        system, rng.uniform(0.05, 1.0, 4), normals=scenes.tilted(rng, 4, 0.26), gap=gap, angle=rng.uniform(0, np.pi)
    )
    b = v[6:] + scenes.H * rng.normal(scale=30.0, size=12)
    return v, b, contacts


def moving_quadruped(system, rng, law, *, inverse):
    """Return a step of `random_inverse`, or a forward step with random torques and extreme friction."""
    v, b, contacts = random_inverse(system, rng)
    mu = np.where(rng.random(4) < 0.2, rng.choice([0.0, np.inf]), contacts.mu)
    contacts = replace(contacts, mu=contacts.mu if inverse else mu, damping=np.full(4, 30.0 * (law == "viscous")))
    if inverse:
        return inverse_step(system, v, b, contacts)
    return forward_step(system, v, scenes.H * rng.normal(scale=2.0, size=12), contacts)


def driven(problem, solution):
    """Return the forward problem under the torques of an inverse solution, and the predicted motion as its answer."""
    kappa = problem.kappa.copy()
    kappa[problem.prescribed.index] -= solution.multipliers
    return replace(problem, kappa=kappa, prescribed=None), structs.replace(solution, multipliers=np.zeros(0))


@every_law
@pytest.mark.parametrize("count", one_fast((80, 10_000), 80))
def test_forward_steps_are_solved_obey_the_law_and_gain_no_energy(quadruped, law, count):
    rng, solved = np.random.default_rng(0), 0
    for _ in range(count):
        problem = moving_quadruped(quadruped, rng, law, inverse=False)
        solution = MODELS[law](problem, None)
        # a foot that never slips may lift off if it sticks and press if it slips
        if solution.status is not Status.SOLVED:
            assert law == "noslip" or np.isinf(problem.contacts.mu).any()
            continue
        solved += 1
        assert judge.violation(law, problem, solution) <= 1e-8
        before, after = (v @ problem.M @ v for v in (np.linalg.solve(problem.M, -problem.kappa), solution.v_plus))
        assert after <= before * (1.0 + 1e-10)
    assert solved > 0.8 * count


@every_law
def test_hostile_forward_steps_are_solved_and_obey_the_law(law):
    """Feet and boxes, masses over six decades (`idcontrol.bench.problems.steps`)."""
    for problem in (numbered_step(k, seed=3, most_contacts=8) for k in range(200) if not kind_of(k)[1]):
        solution = MODELS[law](problem, None)
        assert solution.status is Status.SOLVED or (law == "noslip" and solution.note)
        if solution.status is Status.SOLVED:
            assert judge.violation(law, problem, solution) <= judge.TOLERANCE


@every_law
def test_what_the_inverse_predicts_solves_the_forward_problem(quadruped, law):
    """Under the returned torques, a law with a unique motion gives this motion.

    Otherwise the prediction is one of several.
    """
    rng, compared = np.random.default_rng(1), 0
    quadrupeds = (moving_quadruped(quadruped, rng, law, inverse=True) for _ in range(80))
    feet = (numbered_step(k, most_contacts=8) for k in range(240) if kind_of(k) == (True, True))
    for problem in chain(quadrupeds, feet):
        inverse = MODELS[law](problem, None)
        if inverse.status is not Status.SOLVED:
            assert law == "noslip" or inverse.note
            continue
        compared += 1
        forward, predicted = driven(problem, inverse)
        assert judge.violation(law, forward, predicted) <= judge.TOLERANCE
        if law in UNIQUE:
            again = solved(MODELS[law](forward, None))
            # 1e-10 on robots; inertias of the numbered steps differ by up to 1e6
            accuracy = 1e-10 if problem.M.shape == (18, 18) and problem.h == scenes.H else 1e-5
            size = max(np.abs(inverse.v_plus).max(), 1e-3)
            assert np.abs(again.v_plus - inverse.v_plus).max() <= accuracy * size
    assert compared > 100


@every_law
def test_standing_feet_carry_the_weight_of_a_walking_base(quadruped, law):
    """At a constant velocity of 0.2 m/s only the weight acts; standing feet are not moved (math.md 7.2)."""
    v = np.zeros(18)
    v[0] = 0.2
    quadruped.update(scenes.home(quadruped), np.zeros(18))
    J = scenes.foot_contacts(quadruped, 0.6).jacobian
    v[6:] = np.linalg.solve(J[:, 6:], -J[:, :6] @ v[:6])
    quadruped.update(scenes.home(quadruped), quadruped.to_pinocchio(v))
    contacts = scenes.foot_contacts(quadruped, 0.6)
    b = project(quadruped.M, contacts.jacobian, np.zeros(12), v[6:])
    solution = MODELS[law](inverse_step(quadruped, v, b, contacts), None)
    force, weight = contacts.force_world(solution.impulses, scenes.H).sum(axis=0), quadruped.mass * 9.81
    assert solution.status is Status.SOLVED
    assert force[2] == pytest.approx(weight, rel=0.6 if law == "sap" else 0.01)  # SAP yields for a step
    assert np.abs(force[:2]).max() < (0.2 if law == "sap" else 0.01) * weight
    if law not in ("sap", "constraint"):
        np.testing.assert_allclose(contacts.jacobian @ solution.v_plus, 0.0, atol=1e-10)


@pytest.mark.parametrize("law", [law for law in MODELS if law != "viscous"])
def test_ground_that_moves_takes_a_sticking_foot_along(quadruped, standing, law):
    belt = np.repeat([0.0, 0.01, -0.004], 4)
    contacts = replace(scenes.foot_contacts(quadruped, 1.0), surface_velocity=belt)
    problem = forward_step(quadruped, standing, np.zeros(12), contacts)
    solution = solved(MODELS[law](problem, None))
    assert judge.violation(law, problem, solution) <= 1e-8
    pressing = solution.impulses[:, 0] > 0.0
    assert pressing.sum() >= 2
    assert np.all((contacts.S @ solution.v_plus)[pressing] > 0.0)
    assert np.all((contacts.T @ solution.v_plus)[pressing] < 0.0)


@pytest.mark.parametrize("model", [coulomb_cone, sap], ids=["coulomb-cone", "sap"])
def test_tangents_of_a_circular_cone_are_the_callers_choice(quadruped, model):
    rng = np.random.default_rng(7)
    for _ in range(10):
        problem = moving_quadruped(quadruped, rng, "sap", inverse=False)
        N, S, T = problem.contacts.jacobian.reshape(3, 4, 18)
        a = rng.uniform(0, 2 * np.pi)
        turned = np.concatenate((N, np.cos(a) * S + np.sin(a) * T, np.cos(a) * T - np.sin(a) * S))
        one, other = (
            model.solve(replace(problem, contacts=replace(problem.contacts, jacobian=J)))
            for J in (problem.contacts.jacobian, turned)
        )
        assert one.status is other.status
        np.testing.assert_allclose(other.v_plus, one.v_plus, rtol=0, atol=1e-9 * np.abs(one.v_plus).max())


@pytest.mark.parametrize(("model", "law"), CONVEX, ids=["dissipation", "sap"])
def test_a_contact_with_infinite_friction_may_stick_or_part_and_both_are_right(model, law):
    """The body leaves the contact at 0.1 m/s, but presses on it if the contact's tangent is held."""
    contacts = by_hand(np.array([[1.0, 0.0], [-1.0, 1.0], [0.0, 0.0]]), np.inf)
    problem = StepProblem(h=1e-3, M=np.eye(2), kappa=np.array([-0.1, 1.0]), contacts=contacts)
    sticks = model.solve(problem)
    parts = structs.replace(sticks, v_plus=-problem.kappa, impulses=np.zeros((1, 3)))
    assert sticks.status is Status.SOLVED
    assert sticks.impulses[0, 0] > 0.5
    assert np.abs(sticks.v_plus - parts.v_plus).max() > 0.5
    for solution in (sticks, parts):
        assert judge.violation(law, problem, solution) <= judge.TOLERANCE


@pytest.mark.parametrize(("model", "law"), CONVEX, ids=["dissipation", "sap"])
def test_with_infinite_friction_a_different_motion_obeys_the_law_too(model, law):
    others = 0
    for number in range(2, 700, 4):
        problem = numbered_step(number, most_contacts=8)
        held = np.random.default_rng(number).random(len(problem.contacts)) < 0.6
        problem = replace(problem, contacts=replace(problem.contacts, mu=np.where(held, np.inf, problem.contacts.mu)))
        inverse = model.solve(problem)
        kappa = problem.kappa.copy()
        kappa[problem.prescribed.index] -= inverse.multipliers
        driven = replace(problem, kappa=kappa, prescribed=None)
        forward = model.solve(driven)
        if not inverse.status is forward.status is Status.SOLVED:
            continue
        predicted = structs.replace(inverse, multipliers=np.zeros(0))
        for solution in (predicted, forward):
            assert judge.violation(law, driven, solution) <= judge.TOLERANCE
        if np.abs(forward.v_plus - inverse.v_plus).max() > 1e-5 * max(np.abs(inverse.v_plus).max(), 1e-3):
            others += 1
            assert (held & (problem.contacts.gap <= CLOSED_GAP)).any()
    assert others > 0
