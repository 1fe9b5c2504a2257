"""Forces at acceleration level: Coulomb's law at rolling and sliding contacts, Painlevé's rod, and the limit h → 0."""

from dataclasses import replace
from itertools import product

import numpy as np
import pinocchio as pin
import pytest

from idcontrol.errors import InputError
from idcontrol.models import acceleration, coulomb, no_slip
from idcontrol.models.acceleration import AccelerationProblem
from idcontrol.models.step import Prescribed, StepProblem
from idcontrol.solvers.lemke import proves_infeasible
from idcontrol.types import Status
from tests import scenes
from tests.parameters import solved
from tests.scenes import by_hand

GRAVITY = 9.81


def drift(system, q, v, feet):
    """J̇ v, the rate of J v at v̇ = 0, by central differences, level ground; leaves `system` at (q, v)."""
    moved = [system.advance(q, v, time) for time in (1e-5, -1e-5)]
    ahead, behind = (rows(system, q, system.from_pinocchio(v), feet) @ system.from_pinocchio(v) for q, v in moved)
    system.update(q, system.to_pinocchio(v))
    return (ahead - behind) / 2e-5


def rows(system, q, v, feet):
    system.update(q, system.to_pinocchio(v))
    return scenes.foot_contacts(system, 0.0, feet=feet).jacobian


def random_instant(system, rng, mu, *, feet=(0, 1, 2, 3), rolling=0.5):
    """Return a moving machine whose feet on the ground roll with the given probability and otherwise slide."""
    q = pin.integrate(system.model, scenes.home(system), 0.15 * rng.normal(size=system.model.nv))
    v = 0.5 * rng.normal(size=18)
    n = len(feet)
    J = rows(system, q, v, feet)
    still = np.flatnonzero(rng.random(n) < rolling)
    held = J[np.concatenate((np.arange(n), n + still, 2 * n + still))]
    v = v - np.linalg.pinv(held, rcond=1e-6) @ (held @ v)
    offset = drift(system, q, v, feet)
    contacts = scenes.foot_contacts(system, mu, feet=feet)
    return q, v, contacts, offset


def forward(system, v, contacts, offset, tau):
    force = -system.bias.copy()
    force[6:] += tau
    return AccelerationProblem(M=system.M.copy(), force=force, v=v, contacts=contacts, drift=offset)


def inverse(system, v, contacts, offset, joint_acceleration):
    prescribed = Prescribed(index=np.arange(6, 18), velocity=joint_acceleration)
    problem = forward(system, v, contacts, offset, np.zeros(12))
    return replace(problem, prescribed=prescribed)


def assert_lawful(problem, forces, a_contact):
    """Check Coulomb's law in the form of Trinkle et al. 1997 for contact forces (n, 3) and accelerations (3, n)."""
    contacts = problem.contacts
    v_n, v_t, v_o = (contacts.jacobian @ problem.v).reshape(3, -1)
    # accelerations reach 1e3 m/s², forces 1e3 N: 1e-8 is eleven digits
    tolerance = 1e-8 * max(1.0, np.abs(forces).max(initial=0.0), np.abs(a_contact).max(initial=0.0))
    for i, mu in enumerate(contacts.mu):
        c_n, c_t, c_o = forces[i]
        a_n, a_t, a_o = a_contact[:, i]
        if v_n[i] > 1e-6 or contacts.gap[i] > 1e-5:
            assert not forces[i].any()
            continue
        assert min(c_n, a_n) > -tolerance
        assert min(c_n, abs(a_n)) < tolerance
        speed = np.hypot(v_t[i], v_o[i])
        if speed > 1e-4:
            np.testing.assert_allclose([c_t, c_o], -mu * c_n * np.array([v_t[i], v_o[i]]) / speed, atol=tolerance)
            continue
        for c, a in ((c_t, a_t), (c_o, a_o)):
            assert abs(c) < mu * c_n + tolerance
            # friction yields only at its bound, and against the acceleration
            assert abs(a) < tolerance or abs(c + np.sign(a) * mu * c_n) < tolerance


def contact_acceleration(problem, v_dot):
    return (problem.contacts.jacobian @ v_dot + problem.drift).reshape(3, -1)


@pytest.mark.parametrize("mu", [0.0, 0.1, 0.3])
def test_forces_obey_coulombs_law_forward_and_inverse(quadruped, mu):
    rng = np.random.default_rng(40)
    count, slides = 0, []
    for k in range(60):
        feet = tuple(rng.permutation(4)[: rng.integers(1, 5)])
        _, v, contacts, offset = random_instant(quadruped, rng, mu, feet=feet)
        if k % 2:
            problem = forward(quadruped, v, contacts, offset, rng.normal(scale=3.0, size=12))
        else:
            problem = inverse(quadruped, v, contacts, offset, rng.normal(scale=30.0, size=12))
        solution = acceleration.solve(problem)
        if solution.status is Status.FALLBACK:
            continue
        count += 1
        slides.extend(np.hypot(*(contacts.jacobian @ v).reshape(3, -1)[1:]) > 1e-4)
        assert solution.status is Status.SOLVED
        balance = problem.M @ solution.acceleration - problem.force - contacts.jacobian.T @ solution.forces.T.ravel()
        if problem.prescribed is not None:
            balance[6:] -= solution.torque
            np.testing.assert_allclose(solution.acceleration[6:], problem.prescribed.velocity, atol=1e-12)
        assert np.abs(balance).max() < 1e-9 * max(1.0, np.abs(solution.forces).max())
        assert_lawful(problem, solution.forces, contact_acceleration(problem, solution.acceleration))
    # a problem without a solution has conflicting velocities, or friction too large for the pose
    assert count >= 55
    assert 0.2 < np.mean(slides) < 0.8


def test_the_inverse_solves_the_forward_problem(quadruped):
    rng = np.random.default_rng(41)
    for _ in range(40):
        _, v, contacts, offset = random_instant(quadruped, rng, 0.2)
        wanted = inverse(quadruped, v, contacts, offset, rng.normal(scale=10.0, size=12))
        inverse_solution = acceleration.solve(wanted)
        if inverse_solution.status is Status.FALLBACK:
            continue
        problem = forward(quadruped, v, contacts, offset, inverse_solution.torque)
        v_dot = np.linalg.solve(problem.M, problem.force + contacts.jacobian.T @ inverse_solution.forces.T.ravel())
        scale = max(1.0, np.abs(inverse_solution.forces).max())
        np.testing.assert_allclose(v_dot, inverse_solution.acceleration, rtol=0, atol=1e-7 * scale)
        again = solved(acceleration.solve(problem))
        # with small friction the forward solution is unique
        np.testing.assert_allclose(again.acceleration, inverse_solution.acceleration, rtol=0, atol=1e-6 * scale)


@pytest.mark.parametrize("model", [no_slip.solve, coulomb.solve])
def test_step_models_converge_to_its_torque_at_first_order(quadruped, model):
    """Like the result of a step, v obeys the rows at q₀; the problem has the rows of the next pose.

    Only one foot touches, so that the torque is unique.
    """
    rng = np.random.default_rng(44)
    q0, foot = scenes.home(quadruped), (0,)
    v = 0.3 * rng.normal(size=18)
    J = rows(quadruped, q0, v, foot)
    v = v - np.linalg.pinv(J) @ (J @ v)
    offset = drift(quadruped, q0, v, foot)
    a = rng.normal(scale=10.0, size=12)
    contacts = scenes.foot_contacts(quadruped, 5.0, feet=foot)
    limit = solved(acceleration.solve(inverse(quadruped, v, contacts, offset, a)))
    assert limit.forces[0, 0] > 1.0
    assert np.abs(contact_acceleration(inverse(quadruped, v, contacts, offset, a), limit.acceleration)).max() < 1e-9
    errors = []
    for h in (4e-4, 2e-4, 1e-4):
        q, moved = quadruped.advance(q0, v, h)
        quadruped.update(q, moved)
        problem = StepProblem(
            h=h,
            M=quadruped.M.copy(),
            kappa=h * quadruped.bias - quadruped.M @ quadruped.from_pinocchio(moved),
            contacts=scenes.foot_contacts(quadruped, 5.0, feet=foot),
            prescribed=Prescribed(index=np.arange(6, 18), velocity=v[6:] + h * a),
        )
        solution = solved(model(problem))
        errors.append(np.abs(solution.multipliers / h - limit.torque).max())
    assert errors[1] == pytest.approx(0.5 * errors[0], rel=0.05)
    assert errors[2] == pytest.approx(0.5 * errors[1], rel=0.05)


def block(mu, *, v=0.0, degrees=15.0, mass=2.0):
    """Return a block on an incline, order: along the slope (down), across, normal to it."""
    slope = np.radians(degrees)
    contacts = by_hand(np.eye(3)[[2, 0, 1]], mu)
    return AccelerationProblem(
        M=mass * np.eye(3),
        force=mass * GRAVITY * np.array([np.sin(slope), 0.0, -np.cos(slope)]),
        v=np.array([v, 0.0, 0.0]),
        contacts=contacts,
        drift=np.zeros(3),
    )


@pytest.mark.parametrize(("mu", "v"), [(0.1, 0.0), (0.2, 0.5), (0.2679, 0.0), (0.4, 0.5), (0.4, -0.5)])
def test_a_block_on_an_incline_slides_as_the_textbook_says(mu, v):
    """The acceleration is g (sin - μ cos) down the slope; friction opposes the motion if there is one."""
    direction = np.sign(v) if v else 1.0
    expected = GRAVITY * (np.sin(np.radians(15.0)) - direction * mu * np.cos(np.radians(15.0)))
    np.testing.assert_allclose(acceleration.solve(block(mu, v=v)).acceleration, [expected, 0.0, 0.0], atol=1e-12)


def rod(mu, theta, v):
    """Return Painlevé's rod: 1 m, 1 kg, its lower end slides at v; order: x, z, angle."""
    x, z = -0.5 * np.cos(theta), -0.5 * np.sin(theta)
    contacts = by_hand(np.array([[0.0, 1.0, x], [1.0, 0.0, -z], [0.0, 0.0, 0.0]]), mu)
    return AccelerationProblem(
        M=np.diag([1.0, 1.0, 1.0 / 12.0]),
        force=np.array([0.0, -GRAVITY, 0.0]),
        v=np.array([v, 0.0, 0.0]),
        contacts=contacts,
        drift=np.zeros(3),
    )


def test_painleves_rod_has_no_force_when_friction_is_large_and_the_ray_proves_it():
    """The rod digs in if 1 + 3 cos θ (cos θ - μ sin θ) < 0: every normal force accelerates its end downwards."""
    theta = np.radians(60.0)
    assert 1.0 + 3.0 * np.cos(theta) * (np.cos(theta) - 2.0 * np.sin(theta)) < 0.0
    problem = rod(2.0, theta, -1.0)
    solution = acceleration.solve(problem)
    assert solution.status is Status.FALLBACK
    assert solution.note == coulomb.JAM
    assert not solution.forces.any()
    _, held = acceleration.whitened(problem)
    lcp = acceleration.pyramid_lcp(problem, held)
    assert lcp.Q[0, 0] < 0.0 > lcp.r[0]
    assert proves_infeasible(lcp.Q, lcp.r, solution.ray)
    # in the opposite direction, or with less friction, a force exists
    for other in (rod(2.0, theta, 1.0), rod(0.5, theta, -1.0)):
        assert acceleration.solve(other).status is Status.SOLVED


def test_infinite_friction_and_shapes_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="no_slip"):
        rod(np.inf, 1.0, 0.0)
    with pytest.raises(InputError, match="drift"):
        replace(rod(0.1, 1.0, 0.0), drift=np.zeros(2))


def test_steps_on_which_lemkes_method_ends_on_a_ray_are_solved_if_possible():
    """Up to three contacts slide, with friction coefficients up to 2; all bases are tried after a failure."""
    unsolved, searched = 0, 0
    for seed in range(600, 1100):
        problem = sliding(np.random.default_rng(seed))
        solution = acceleration.solve(problem)
        searched += solution.note == "searched"
        if solution.status is Status.SOLVED:
            assert solution.residual < 1e-8
            assert_lawful(problem, solution.forces, contact_acceleration(problem, solution.acceleration))
            continue
        unsolved += 1
        assert solution.note == coulomb.JAM
        lcp = acceleration.pyramid_lcp(problem, acceleration.whitened(problem)[1])
        for basis in map(list, product((False, True), repeat=lcp.r.size)):
            z = np.zeros(lcp.r.size)
            z[basis] = np.linalg.solve(lcp.Q[basis][:, basis], -lcp.r[basis])
            assert min(z.min(), (lcp.Q @ z + lcp.r).min()) < -1e-10
    assert unsolved > 50
    assert searched > 2


def sliding(rng):
    """Return contacts that touch and slide, on a random machine."""
    n, m = int(rng.integers(1, 4)), int(rng.integers(3, 7))
    L = np.tril(rng.normal(size=(m, m)), -1) + np.diag(rng.uniform(0.5, 2.0, m))
    J, v = rng.normal(size=(3 * n, m)), rng.normal(size=m)
    contacts = by_hand(J, rng.uniform(0.3, 2.0, n))
    along = v - np.linalg.pinv(J[:n]) @ (J[:n] @ v)
    return AccelerationProblem(
        M=L @ L.T, force=3 * rng.normal(size=m), v=along, contacts=contacts, drift=np.zeros(3 * n)
    )
