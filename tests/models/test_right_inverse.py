"""Each model's inverse is a right inverse of its own forward mode (math.md 16, test 1)."""

from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from idcontrol import judge
from idcontrol.contact.contacts import Contacts
from idcontrol.models import coulomb, dissipation, sap
from idcontrol.models.step import CLOSED_GAP, StepProblem
from idcontrol.models.whitened import recover, whiten
from idcontrol.problems.machines import forward_step, inverse_step
from idcontrol.problems.steps import kind_of, numbered_step
from idcontrol.types import Status
from tests import scenes

STATES = 1000
CONVEX = [(dissipation, "dissipation"), (sap, "sap")]


def random_inverse(system, rng):
    """A moving state, normals tilted up to 15°, friction of each foot its own, one foot 5 mm up, violent demands."""
    v = scenes.moving(system, rng)
    gap = np.array([0.0, 0.0, 0.0, 5e-3])[rng.permutation(4)] + rng.uniform(0, 2e-4, 4)
    contacts = scenes.foot_contacts(
        system, rng.uniform(0.05, 1.0, 4), normals=scenes.tilted(rng, 4, 0.26), gap=gap, angle=rng.uniform(0, np.pi)
    )
    b = v[6:] + scenes.H * rng.normal(scale=30.0, size=12)
    return v, b, contacts


def test_maximal_dissipation_fed_with_its_own_torques_moves_as_it_predicted(quadruped):
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(STATES):
        v, b, contacts = random_inverse(quadruped, rng)
        inverse = dissipation.solve(inverse_step(quadruped, v, b, contacts))
        assert inverse.status is Status.SOLVED
        forward = dissipation.solve(forward_step(quadruped, v, inverse.multipliers, contacts))
        assert forward.status is Status.SOLVED
        worst = max(worst, float(np.abs(forward.v_plus - inverse.v_plus).max()))
    # v⁺ is unique in this model; 1e-10 is math.md 16's figure, six digits above rounding
    assert worst < 1e-10


def test_what_the_coulomb_inverse_predicts_solves_the_forward_problem(quadruped):
    """v⁺ need not be unique, so the impulses are put into the forward problem instead (math.md 5.1)."""
    rng = np.random.default_rng(1)
    for _ in range(STATES):
        v, b, contacts = random_inverse(quadruped, rng)
        inverse = coulomb.solve(inverse_step(quadruped, v, b, contacts))
        assert inverse.status is Status.SOLVED
        driven = forward_step(quadruped, v, inverse.multipliers, contacts)
        v_plus, _ = recover(whiten(driven), inverse.impulses.T.ravel())
        np.testing.assert_allclose(v_plus, inverse.v_plus, rtol=0, atol=1e-10)
        assert judge.missed("coulomb", driven, inverse.impulses) < 1e-8


@pytest.mark.parametrize(("model", "unique"), [(dissipation, True), (sap, True), (coulomb, False)])
def test_torques_lead_to_the_predicted_motion_where_the_model_has_but_one(model, unique):
    """Convex models have one at finite friction; of Coulomb's several, what was predicted and what comes solve it."""
    steps = (numbered_step(number, most_contacts=8) for number in range(1200) if kind_of(number) == (True, True))
    others = 0
    for problem in steps:
        inverse = model.solve(problem)
        kappa = problem.kappa.copy()
        kappa[problem.prescribed.index] -= inverse.multipliers
        driven = replace(problem, kappa=kappa, prescribed=None)
        forward = model.solve(driven)
        assert inverse.status is forward.status is Status.SOLVED
        # velocities over six decades of mass: 1e-5 is far above rounding and far below another motion
        if np.abs(forward.v_plus - inverse.v_plus).max() > 1e-5 * max(np.abs(inverse.v_plus).max(), 1e-3):
            others += 1
            assert judge.missed("coulomb", driven, inverse.impulses) < 1e-6
            assert judge.missed("coulomb", driven, forward.impulses) < 1e-6
    assert (others == 0) is unique  # 6 of 300 with Coulomb's


@pytest.mark.parametrize(("model", "law"), CONVEX, ids=["dissipation", "sap"])
def test_a_contact_with_infinite_friction_may_stick_or_part_and_both_are_right(model, law):
    """The body leaves the contact at 0.1 m/s, but presses on it once the contact's tangent is held."""
    contacts = Contacts(
        identity=np.zeros(1, dtype=np.int64),
        point=np.zeros((1, 3)),
        axes=np.eye(3)[None],
        gap=np.zeros(1),
        mu=np.full(1, np.inf),
        jacobian=np.array([[1.0, 0.0], [-1.0, 1.0], [0.0, 0.0]]),
    )
    problem = StepProblem(h=1e-3, M=np.eye(2), kappa=np.array([-0.1, 1.0]), contacts=contacts)
    sticks = model.solve(problem)
    parts = structs.replace(sticks, v_plus=-problem.kappa, impulses=np.zeros((1, 3)))
    assert sticks.status is Status.SOLVED
    assert sticks.impulses[0, 0] > 0.5
    assert np.abs(sticks.v_plus - parts.v_plus).max() > 0.5
    for solution in (sticks, parts):
        assert judge.violation(law, problem, solution) <= judge.TOLERANCE


@pytest.mark.parametrize(("model", "law"), CONVEX, ids=["dissipation", "sap"])
def test_with_infinite_friction_another_motion_that_comes_back_obeys_the_law_as_well(model, law):
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


def test_halving_the_step_halves_the_distance_to_the_limit_torque(quadruped, standing):
    """Torque converges at first order in h (math.md 16, test 4): checked where contacts do not switch."""
    rng = np.random.default_rng(2)
    quadruped.update(scenes.home(quadruped), np.zeros(18))
    a = rng.normal(scale=1.0, size=12)
    contacts = scenes.foot_contacts(quadruped, 0.8)
    torques = []
    for h in (4e-3, 2e-3, 1e-3):
        problem = inverse_step(quadruped, standing, h * a, contacts)
        problem = replace(problem, h=h, kappa=h * quadruped.bias)
        torques.append(dissipation.solve(problem).multipliers / h)
    # from rest the problem is homogeneous in h: the torque does not depend on it at all
    np.testing.assert_allclose(torques[0], torques[2], rtol=0, atol=1e-9)


@pytest.mark.parametrize("model", [coulomb, dissipation])
def test_standing_forces_carry_exactly_the_weight(quadruped, standing, model):
    contacts = scenes.foot_contacts(quadruped, 0.6)
    solution = model.solve(inverse_step(quadruped, standing, np.zeros(12), contacts))
    force = contacts.force_world(solution.impulses, scenes.H)
    assert solution.status is Status.SOLVED
    assert force[:, 2].sum() == pytest.approx(quadruped.mass * 9.81, abs=1e-9 * quadruped.mass * 9.81)
    assert np.abs(force[:, :2].sum(axis=0)).max() < 1e-9
