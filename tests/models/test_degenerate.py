"""Degenerate cases (math.md 13.6): every model, forward and inverse, with the required result."""

import re
from dataclasses import replace

import numpy as np
import pytest

from idcontrol.bench.judge import unbalanced
from idcontrol.bench.problems.machines import forward_step, inverse_step
from idcontrol.contact.contacts import Contacts
from idcontrol.controllers.projection import project
from idcontrol.errors import InputError
from idcontrol.models import acceleration, constraint, coulomb, coulomb_cone, dissipation, no_slip, sap, viscous
from idcontrol.models.acceleration import AccelerationProblem
from idcontrol.models.step import PUSH_OUT_SPEED, Bilateral, Prescribed, StepProblem
from idcontrol.types import Status
from tests import scenes
from tests.models import oracles
from tests.models.test_no_slip import gripper
from tests.parameters import one_fast, solved
from tests.scenes import by_hand

RIGID = {
    "coulomb": coulomb.solve,
    "coulomb, cone": coulomb_cone.solve,
    "dissipation": dissipation.solve,
    "dissipation, one stage": dissipation.one_stage,
    "no slip": no_slip.solve,
    "no slip, dual": dissipation.no_slip_qp,
    "viscous": viscous.solve,
}
COMPLIANT = {"sap": sap.solve, "constraint": constraint.compliant(constraint.NEARLY_RIGID)}
MODELS = RIGID | COMPLIANT
WITHOUT_FRICTION_BOUND = ("no slip", "no slip, dual", "viscous")
"""Models that do not read friction coefficients."""
GIVES_WAY = {"dissipation, one stage": 1e-6, "sap": scenes.H * 9.81, "constraint": 1e-5}
"""Largest speed of a contact that should be at rest [m/s], by the compliance of the model; other models are exact.

SAP dissipates over one step: from rest a contact yields, but more slowly than in free fall.
"""

ROUNDING = 1e-12 * scenes.H * 4.8 * 9.81
"""An impulse below this is zero: a trillionth of the weight [N s]."""

every_model = pytest.mark.parametrize("name", MODELS)
every_rigid_model = pytest.mark.parametrize("name", RIGID)
both_directions = pytest.mark.parametrize("inverse", [False, True], ids=["forward", "inverse"])


def step(system, v, contacts, inverse):
    """A step in which joints keep their velocity (inverse) or get no torque (forward)."""
    if inverse:
        return inverse_step(system, v, v[6:].copy(), contacts)
    return forward_step(system, v, np.zeros(12), contacts)


def assert_balanced(problem, solution):
    """The momentum balance holds to 1e-9 of κ (math.md 13.3)."""
    rest = unbalanced(problem, solution)
    assert np.abs(rest).max() <= 1e-9 * max(np.abs(problem.kappa).max(), np.abs(problem.M @ solution.v_plus).max())


def contact_velocity(problem, solution):
    """Contact velocities (3, n), φ/h included."""
    rows = problem.contacts.jacobian
    return (rows @ solution.v_plus + oracles.constants(problem)).reshape(3, -1)


@every_model
@both_directions
def test_without_contacts_the_motion_is_free_dynamics(quadruped, name, inverse):
    v = scenes.moving(quadruped, np.random.default_rng(0))
    problem = step(quadruped, v, Contacts.none(18), inverse)
    solution = solved(MODELS[name](problem, None))
    assert solution.impulses.shape == (0, 3)
    expected = -np.linalg.solve(problem.M, problem.kappa)
    if inverse:
        b = problem.prescribed.velocity
        expected = np.r_[np.linalg.solve(problem.M[:6, :6], -problem.kappa[:6] - problem.M[:6, 6:] @ b), b]
        torque = problem.M[6:] @ expected + problem.kappa[6:]
        np.testing.assert_allclose(solution.multipliers, torque, atol=1e-12)
    np.testing.assert_allclose(solution.v_plus, expected, atol=1e-9)


@every_rigid_model
@both_directions
@pytest.mark.parametrize("depth", [1e-5, 5e-3])
def test_penetration_is_undone_at_a_bounded_speed(quadruped, standing, name, inverse, depth):
    """The push-out speed φ/h is limited: 5 mm in 1 ms would need 5 m/s."""
    problem = step(quadruped, standing, scenes.foot_contacts(quadruped, 0.7, gap=np.full(4, -depth)), inverse)
    solution = solved(RIGID[name](problem, None))
    out = min(depth / scenes.H, PUSH_OUT_SPEED)
    normal = problem.contacts.N @ solution.v_plus
    tolerance = max(1e-9, GIVES_WAY.get(name, 0.0))
    assert normal.min() >= out - tolerance
    if inverse:  # the body moves rigidly
        np.testing.assert_allclose(normal, out, atol=tolerance)
    assert_balanced(problem, solution)


@pytest.mark.parametrize("name", [name for name in MODELS if name not in WITHOUT_FRICTION_BOUND])
@both_directions
def test_without_friction_there_are_no_tangential_impulses(quadruped, name, inverse):
    rng = np.random.default_rng(2)
    for _ in range(5):
        v = scenes.moving(quadruped, rng, speed=0.2)
        problem = step(quadruped, v, scenes.foot_contacts(quadruped, 0.0), inverse)
        solution = solved(MODELS[name](problem, None))
        assert not solution.impulses[:, 1:].any()
        if name in COMPLIANT:
            continue
        contacts = problem.contacts
        gamma, free = oracles.response(problem, *oracles.tied(problem))
        Q, r = contacts.N @ gamma @ contacts.N.T, contacts.N @ free
        expected = free + gamma @ contacts.N.T @ oracles.psd_lcp(Q, r)
        # the ridge of one stage yields at 1e-2 ε m/s; legs of 15 cm multiply that by ten in rad/s
        np.testing.assert_allclose(solution.v_plus, expected, atol=1e-8 if name != "dissipation, one stage" else 1e-4)


@pytest.mark.parametrize("name", ["coulomb", "coulomb, cone", "dissipation"])
@both_directions
def test_infinite_friction_is_no_slip(quadruped, name, inverse):
    """No slip holds to rounding, not only as for a large coefficient."""
    rng = np.random.default_rng(3)
    pressed = 0
    for _ in range(10):
        v = scenes.moving(quadruped, rng, speed=0.1)
        v[2] -= 0.3
        contacts = scenes.foot_contacts(quadruped, np.inf, feet=(0, 3))
        problem = step(quadruped, v, contacts, inverse)
        if inverse:  # the joints move as the feet allow; otherwise the joints take priority
            b = project(quadruped.M, contacts.jacobian, np.zeros(6), v[6:])
            problem = inverse_step(quadruped, v, b, contacts)
        solution = MODELS[name](problem, None)
        if solution.status is not Status.SOLVED:
            assert solution.note
            continue
        velocity = contact_velocity(problem, solution)
        pressing = solution.impulses[:, 0] > 0.0
        pressed += pressing.sum()
        assert np.abs(velocity[1:, pressing]).max(initial=0.0) < 1e-9
        assert velocity[0].min() > -1e-9
        assert_balanced(problem, solution)
    assert pressed >= 8


@every_model
@both_directions
@pytest.mark.parametrize("copies", one_fast((12, 200), 12))
def test_duplicates_of_a_contact_are_one_contact(quadruped, name, inverse, copies):
    v = scenes.moving(quadruped, np.random.default_rng(4), speed=0.1)
    once = replace(scenes.foot_contacts(quadruped, 0.7, feet=(1,)), damping=np.full(1, 40.0))
    many = once.take(np.zeros(copies, dtype=np.int64))
    many = replace(many, identity=np.arange(copies), damping=np.full(copies, 40.0 / copies))
    one, several = (step(quadruped, v, contacts, inverse) for contacts in (once, many))
    single, shared = MODELS[name](one, None), MODELS[name](several, None)
    assert single.status is Status.SOLVED
    assert shared.status is Status.SOLVED
    assert single.impulses[0, 0] > 0.0
    if name in COMPLIANT:  # many springs yield less than a single spring
        gave, gives = (contact_velocity(p, s)[0].min() for p, s in ((one, single), (several, shared)))
        assert gives >= gave - 1e-12
        assert shared.impulses[:, 0].sum() >= single.impulses[0, 0]
        return
    # with legs of 15 cm, micrometres per second of one stage become nearly ten times as many microradians per second
    tolerance = 1e-8 if name != "dissipation, one stage" else 1e-4
    np.testing.assert_allclose(shared.v_plus, single.v_plus, atol=tolerance)
    np.testing.assert_allclose(shared.multipliers, single.multipliers, atol=tolerance)
    total = np.abs(single.impulses).max()
    np.testing.assert_allclose(shared.impulses.sum(axis=0), single.impulses[0], atol=1e-4 * total)


@every_model
@both_directions
def test_two_feet_in_line_are_enough(quadruped, standing, name, inverse):
    """J_b has rank 5: the machine begins to tip over the line between its feet."""
    problem = step(quadruped, standing, scenes.foot_contacts(quadruped, 0.7, feet=(0, 3)), inverse)
    assert np.linalg.matrix_rank(problem.contacts.jacobian[:, :6], tol=1e-8) == 5
    solution = solved(MODELS[name](problem, None))
    assert solution.impulses[:, 0].min() > 0.0
    assert_balanced(problem, solution)
    velocity = contact_velocity(problem, solution)
    assert np.abs(velocity[0]).max() < max(1e-9, GIVES_WAY.get(name, 0.0))


@every_model
@both_directions
def test_coplanar_feet_whose_normals_depend_on_each_other_are_solved(quadruped, standing, name, inverse):
    """Four normals have rank 3: at rest they carry the weight, and its shares are not determined."""
    problem = step(quadruped, standing, scenes.foot_contacts(quadruped, 0.7), inverse)
    solution = solved(MODELS[name](problem, None))
    assert_balanced(problem, solution)
    if inverse:
        weight = scenes.H * quadruped.mass * 9.81
        carried = solution.impulses[:, 0].sum()
        if name == "sap":  # its dissipation allows this motion in one step from rest
            assert 0.5 * weight < carried < weight
        else:
            assert carried == pytest.approx(weight, rel=1e-3 if name == "constraint" else 1e-5)


@every_model
@both_directions
def test_a_straight_leg_is_a_leg(quadruped, name, inverse):
    """A singular leg cannot lengthen; the contact is still solved, and no torque is infinite."""
    q = scenes.home(quadruped)
    joints = scenes.HOME.copy()
    joints[1], joints[2] = 0.0, 0.0
    q[7:] = quadruped.configuration(joints, q[:7])[7:]
    quadruped.update(q, np.zeros(18))
    leg = scenes.foot_contacts(quadruped, 0.7).jacobian[0::4][:, 6:9]
    sigma = np.linalg.svd(leg, compute_uv=False)
    assert sigma[-1] < 0.05 * sigma[0]
    problem = step(quadruped, np.zeros(18), scenes.foot_contacts(quadruped, 0.7), inverse)
    solution = solved(MODELS[name](problem, None))
    assert_balanced(problem, solution)
    assert np.abs(solution.multipliers).max(initial=0.0) < scenes.H * 50.0


@every_rigid_model
def test_conflicting_velocities_are_reported_without_impulses(name):
    solution = RIGID[name](gripper(0.1), None)
    assert solution.status is Status.FALLBACK
    assert solution.note == "squeeze"
    assert not solution.impulses.any()
    assert np.isfinite(solution.v_plus).all()
    assert RIGID[name](gripper(-0.1), None).status is Status.SOLVED


def touching_finger(closing):
    """Return a finger prescribed to move at `closing` into a wall, and a box that touches nothing.

    No free velocity moves the contact.
    """
    problem = gripper(0.0)
    jacobian = np.zeros((3, 3))
    jacobian[0, 1] = -1.0
    contacts = by_hand(jacobian, 0.5)
    prescribed = Prescribed(index=np.array([1, 2]), velocity=np.array([closing, 0.0]))
    return replace(problem, contacts=contacts, prescribed=prescribed)


@every_rigid_model
def test_a_contact_that_nothing_free_can_move_is_only_tested(name):
    """The contact gets no force.

    If it is prescribed to press into the wall, the demand is reported as a planning error.
    """
    apart = solved(RIGID[name](touching_finger(-0.1), None))
    assert not apart.impulses.any()
    pressing = RIGID[name](touching_finger(0.1), None)
    assert pressing.status is Status.FALLBACK
    assert not pressing.impulses.any()
    assert np.isfinite(pressing.v_plus).all()


@every_model
@both_directions
def test_a_contact_that_is_listed_but_open_gets_no_force(quadruped, standing, name, inverse):
    gap = np.array([0.0, 5e-3, 0.0, 0.0])
    contacts = replace(scenes.foot_contacts(quadruped, 0.7, gap=gap), damping=np.full(4, 40.0))
    problem = step(quadruped, standing, contacts, inverse)
    solution = solved(MODELS[name](problem, None))
    np.testing.assert_allclose(solution.impulses[1], 0.0, atol=ROUNDING)
    assert solution.impulses[[0, 2, 3], 0].max() > 0.0
    assert_balanced(problem, solution)


@every_model
@both_directions
@pytest.mark.parametrize("tilt", [0.02, 0.26])
def test_normals_that_are_not_parallel_are_solved(quadruped, standing, name, inverse, tilt):
    """Tangential rows of four feet then have rank 6."""
    rng = np.random.default_rng(5)
    for _ in range(3):
        contacts = scenes.foot_contacts(quadruped, 0.7, normals=scenes.tilted(rng, 4, tilt))
        problem = step(quadruped, standing, contacts, inverse)
        solution = solved(MODELS[name](problem, None))
        assert_balanced(problem, solution)
        assert contact_velocity(problem, solution)[0].min() > -max(1e-8, GIVES_WAY.get(name, 0.0))


@every_model
def test_contact_that_does_not_penetrate_adds_no_energy(quadruped, name):
    """Forward, also on springs and with drag."""
    rng = np.random.default_rng(11)
    for _ in range(20):
        v = scenes.moving(quadruped, rng, speed=0.3)
        v[2] -= 0.3
        feet = scenes.foot_contacts(quadruped, 0.5, normals=scenes.tilted(rng, 4, 0.2), gap=rng.choice([0.0, 1e-4], 4))
        springs = replace(feet, stiffness=10.0 ** rng.uniform(4, 12, 4), damping=rng.uniform(0.0, 100.0, 4))
        problem = step(quadruped, v, springs, False)
        v_free = -np.linalg.solve(problem.M, problem.kappa)
        v_plus = MODELS[name](problem, None).v_plus
        assert v_plus @ problem.M @ v_plus <= v_free @ problem.M @ v_free * (1.0 + 1e-10)


@every_model
@both_directions
@pytest.mark.parametrize("where", ["M", "kappa", "jacobian", "gap"])
def test_nan_never_comes_out_as_solved(quadruped, standing, name, inverse, where):
    problem = step(quadruped, standing, scenes.foot_contacts(quadruped, 0.7), inverse)
    if where in ("M", "kappa"):
        bad = getattr(problem, where).copy()
        bad.flat[0] = np.nan
        problem = replace(problem, **{where: bad})
    else:
        bad = getattr(problem.contacts, where).copy()
        bad.flat[0] = np.nan
        problem = replace(problem, contacts=replace(problem.contacts, **{where: bad}))
    assert MODELS[name](problem, None).status is Status.FALLBACK


@every_model
@both_directions
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_tangent_row_that_is_not_finite_never_comes_out_as_an_answer(quadruped, standing, name, inverse, value):
    """This also holds if the velocity is zero, the contact is open, or has no friction."""
    for mu in (0.0, 0.7, np.inf):
        for gap in (0.0, 0.05):
            for row in (4, 11):
                problem = step(quadruped, standing, scenes.foot_contacts(quadruped, mu, gap=np.full(4, gap)), inverse)
                problem.contacts.jacobian[row, 8] = value
                with np.errstate(invalid="ignore"):
                    assert MODELS[name](problem, None).status is Status.FALLBACK


@every_model
@both_directions
def test_an_inertia_that_is_not_positive_definite_never_comes_out_as_solved(quadruped, standing, name, inverse):
    problem = step(quadruped, standing, scenes.foot_contacts(quadruped, 0.7), inverse)
    bad = problem.M.copy()
    bad[:6, :6] -= 2.0 * np.diag(np.diag(bad)[:6])
    assert MODELS[name](replace(problem, M=bad), None).status is Status.FALLBACK


def instant(system, contacts, inverse):
    """An instant at rest under gravity, joints held (inverse) or slack (forward)."""
    prescribed = Prescribed(index=np.arange(6, 18), velocity=np.zeros(12)) if inverse else None
    return AccelerationProblem(
        M=system.M.copy(),
        force=-system.bias,
        v=np.zeros(18),
        contacts=contacts,
        drift=np.zeros(3 * len(contacts)),
        prescribed=prescribed,
    )


@both_directions
def test_the_acceleration_level_takes_duplicates_feet_in_line_and_open_contacts(quadruped, standing, inverse):
    """With and without friction."""
    for mu in (0.0, 0.3):
        for contacts in (
            scenes.foot_contacts(quadruped, mu, feet=(0, 3)),
            scenes.foot_contacts(quadruped, mu, gap=np.array([0.0, 5e-3, 0.0, 0.0])),
            scenes.foot_contacts(quadruped, mu).take(np.repeat(np.arange(4), 10)),
        ):
            problem = instant(quadruped, contacts, inverse)
            solution = solved(acceleration.solve(problem))
            open_ = contacts.gap > 0.0
            assert not solution.forces[open_].any()
            if mu == 0.0:
                assert not solution.forces[:, 1:].any()
            balance = problem.M @ solution.acceleration - problem.force
            balance -= contacts.jacobian.T @ solution.forces.T.ravel()
            if inverse:
                balance[6:] -= solution.torque
            # forces are about 50 N
            assert np.abs(balance).max() < 1e-7


@both_directions
@pytest.mark.parametrize("where", ["M", "force", "drift"])
def test_nan_at_the_acceleration_level_never_comes_out_as_solved(quadruped, standing, inverse, where):
    problem = instant(quadruped, scenes.foot_contacts(quadruped, 0.3), inverse)
    bad = getattr(problem, where).copy()
    bad.flat[0] = np.nan
    assert acceleration.solve(replace(problem, **{where: bad})).status is Status.FALLBACK


@pytest.mark.parametrize(
    ("misfit", "message"),
    [
        ({"kappa": np.zeros(1)}, "kappa"),
        ({"M": np.eye(4)}, "inertia"),
        ({"M": np.ones((3, 2))}, "inertia"),
        ({"M": np.diag([1e6, 1e-6, 1.0]) + 1e-5 * np.eye(3, k=1)}, "not symmetric"),
        ({"M": np.diag([1e6, 1e-6, 1.0]) + 1e-5 * np.eye(3, k=-1)}, "not symmetric"),
        ({"contacts": Contacts.none(2)}, "contact rows"),
        ({"h": 0.0}, "step h"),
        ({"h": -1e-3}, "step h"),
        ({"h": np.inf}, "step h"),
        ({"h": np.nan}, "step h"),
        ({"prescribed": Prescribed(index=np.array([1, 2]), velocity=np.zeros(1))}, "1 velocities"),
        ({"prescribed": Prescribed(index=np.array([1, 3]), velocity=np.zeros(2))}, "one of 0 to 2"),
        ({"prescribed": Prescribed(index=np.array([-1]), velocity=np.zeros(1))}, "one of 0 to 2"),
        ({"prescribed": Prescribed(index=np.array([1, 1]), velocity=np.array([1.0, 2.0]))}, "none twice"),
        ({"bilateral": Bilateral(rows=np.ones((1, 2)), target=np.zeros(1), compliance=np.zeros(1))}, "bilateral rows"),
        ({"bilateral": Bilateral(rows=np.ones((2, 3)), target=np.zeros(1), compliance=np.zeros(1))}, "bilateral rows"),
        ({"bilateral": Bilateral(rows=np.ones((1, 3)), target=np.zeros(1), compliance=-np.ones(1))}, "compliance"),
        ({"bilateral": Bilateral(rows=np.ones((1, 3)), target=np.zeros(1), compliance=np.zeros(2))}, "compliance"),
    ],
)
def test_a_step_whose_parts_do_not_fit_is_refused_before_a_kernel_sees_it(misfit, message):
    whole = {"h": 1e-3, "M": np.eye(3), "kappa": np.zeros(3), "contacts": Contacts.none(3)}
    with pytest.raises(InputError, match=message):
        StepProblem(**whole | misfit)


def test_an_inertia_symmetric_to_rounding_is_accepted_for_any_masses():
    rng = np.random.default_rng(0)
    mass = 10.0 ** np.array([6.0, -6.0, 0.0])
    for _ in range(100):
        turn = np.linalg.qr(np.eye(3) + 10.0 ** rng.uniform(-12.0, 0.0) * rng.normal(size=(3, 3)))[0]
        StepProblem(h=1e-3, M=(turn * mass) @ turn.T, kappa=np.zeros(3), contacts=Contacts.none(3))


@pytest.mark.parametrize("far", [np.inf, -np.inf])
def test_an_infinite_gap_is_refused(quadruped, standing, far):
    with pytest.raises(InputError, match="contact 2: the gap is"):
        step(quadruped, standing, scenes.foot_contacts(quadruped, 0.7, gap=np.array([0.0, 0.0, far, 0.0])), False)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "viscous"])
@pytest.mark.parametrize("mu", [-1.0, np.nan, 5e-324, 1e160])
def test_friction_that_double_precision_cannot_multiply_is_refused(quadruped, standing, name, mu):
    problem = step(quadruped, standing, scenes.foot_contacts(quadruped, np.array([0.7, mu, 0.7, 0.7])), False)
    with pytest.raises(InputError, match=re.escape(f"contact 1: friction is {mu}")):
        MODELS[name](problem, None)


@pytest.mark.parametrize("name", [name for name in MODELS if name not in WITHOUT_FRICTION_BOUND])
@pytest.mark.parametrize(("mu", "like"), [(1e-100, 0.0), (1e12, np.inf)])
def test_the_least_and_the_largest_friction_answer_like_none_and_no_slip(quadruped, name, mu, like):
    v = np.zeros(18)
    v[0] = 0.01
    steps = [step(quadruped, v, scenes.foot_contacts(quadruped, friction), False) for friction in (mu, like)]
    one, other = (MODELS[name](problem, None) for problem in steps)
    assert one.status is other.status is Status.SOLVED
    np.testing.assert_allclose(one.v_plus, other.v_plus, atol=1e-9)


@pytest.mark.parametrize("model", [sap.solve, coulomb.solve, dissipation.solve, no_slip.solve])
@pytest.mark.parametrize("rows", [[[0.0, 1.0, 0.0], [0.0, 1.0, 0.0]], [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]])
def test_rows_that_contradict_each_other_are_not_called_solved(model, rows):
    """One speed is prescribed as 0 and as 1 m/s; or an immovable row is prescribed to move at 1 m/s."""
    ties = Bilateral(rows=np.array(rows), target=np.array([0.0, 1.0]), compliance=np.zeros(2))
    solution = model(
        StepProblem(h=1e-3, M=np.eye(3), kappa=np.zeros(3), contacts=Contacts.none(3), bilateral=ties), None
    )
    assert solution.status is not Status.SOLVED
