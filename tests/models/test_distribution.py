"""Stage II: the same motion with the smallest torque, and no force where the edge rule forbids it (math.md 7.4)."""

from dataclasses import replace

import numpy as np
import pytest

from idcontrol.bench.problems.machines import inverse_step
from idcontrol.contact.contacts import Contacts
from idcontrol.controllers.projection import project
from idcontrol.kernels.arena import HEAP
from idcontrol.models import dissipation, distribution, no_slip
from idcontrol.models.distribution import Bounds, Cones, TorqueMap, share_kernel, smallest_torque, unbounded, within
from idcontrol.models.whitened import recover, whiten
from idcontrol.types import Status
from tests import scenes
from tests.models import stage_two
from tests.parameters import one_fast

WEIGHT_IMPULSE = 4.8 * 9.81 * scenes.H


def cones(problem, v_tol=1e-3, weight=None):
    """Cones of the contacts of a step."""
    contacts = problem.contacts
    weight = np.zeros(len(contacts)) if weight is None else weight
    return Cones(contacts.mu, dissipation.held_contacts(problem), weight, v_tol)


def redistribute(problem, first, reference=None, **options):
    """Stage II after `first`: impulses (n, 3), v⁺ and motor impulses."""
    reduction = whiten(problem)
    y, better = smallest_torque(
        reduction, cones(problem, **options), first.impulses.T.ravel(), first.multipliers, reference
    )
    assert better
    v_plus, motor_impulse = recover(reduction, y)
    return y.reshape(3, -1).T, v_plus, motor_impulse


def random_problem(system, rng, *, projected, speed=0.3, mu=None, lifted=True):
    """Return a moving quadruped on uneven ground, with one foot 5 mm up or none; demands projected or not."""
    v = scenes.moving(system, rng, speed)
    gap = np.zeros(4)
    gap[rng.integers(4)] = 5e-3 if lifted else 0.0
    mu = rng.uniform(0.1, 1.0, 4) if mu is None else mu
    contacts = scenes.foot_contacts(
        system, mu, normals=scenes.tilted(rng, 4, 0.26), gap=gap, angle=rng.uniform(0, np.pi)
    )
    b = v[6:] + scenes.H * rng.normal(scale=10.0, size=12)
    if projected:
        closed = contacts.take(gap == 0.0)
        b = project(system.M, closed.jacobian, np.zeros(3 * len(closed)), b)
    return inverse_step(system, v, b, contacts)


def standing_problem(system, rng, **contacts):
    """Return a standing robot on four feet, with demanded accelerations of a few rad/s² that the feet allow."""
    system.update(scenes.home(system), np.zeros(18))
    feet = scenes.foot_contacts(system, **{"mu": 0.7, **contacts})
    rows = feet.jacobian
    b = project(system.M, rows, np.zeros(rows.shape[0]), scenes.H * rng.normal(scale=3.0, size=12))
    return inverse_step(system, np.zeros(18), b, feet)


@pytest.mark.parametrize("projected", [True, False])
def test_impulses_and_torque_equal_clarabel(quadruped, projected):
    rng = np.random.default_rng(int(projected))
    moved = 0
    for _ in range(25):
        problem = random_problem(
            quadruped, rng, projected=projected, speed=rng.choice([0.0, 0.01]), lifted=rng.random() < 0.3
        )
        first = dissipation.solve(problem)
        weights, reference = rng.uniform(0.0, 1.0, 4), 0.1 * scenes.H * rng.normal(size=12)
        f, _, motor_impulse = redistribute(problem, first, v_tol=1e-3, weight=weights, reference=reference)
        expected, y = stage_two.smallest_torque(problem, first, cones(problem, weight=weights), reference)
        largest = np.abs(expected).max()
        # the solution is at a corner, to which Clarabel comes within 1e-10
        np.testing.assert_allclose(motor_impulse, expected, rtol=0, atol=1e-8 * largest)
        np.testing.assert_allclose(f, y, rtol=0, atol=1e-7 * max(np.abs(y).max(), WEIGHT_IMPULSE))
        moved += np.abs(motor_impulse - first.multipliers).max() > 1e-3 * largest
    assert moved > 3  # there was something to redistribute


def test_motors_stay_within_their_bounds_if_the_motion_allows_it(quadruped):
    """Compared with Clarabel, and with the program without bounds if no such impulses exist."""
    rng = np.random.default_rng(5)
    met = dropped = 0
    for _ in range(40):
        problem = standing_problem(quadruped, rng)
        first = dissipation.solve(problem)
        free = redistribute(problem, first, weight=rng.uniform(0.0, 1.0, 4))
        weights = rng.uniform(0.0, 1.0, 4)
        y_1, reduction = first.impulses.T.ravel(), whiten(problem)
        # the four joints with the largest torques may give slightly less, or much less
        room = np.full(12, np.inf)
        most = np.argsort(np.abs(free[2]))[-4:]
        room[most] = rng.choice([0.1, 0.95]) * np.abs(free[2][most])
        bounds = Bounds(-room, room)
        y, better = smallest_torque(reduction, cones(problem, weight=weights), y_1, first.multipliers, None, bounds)
        assert better
        v_plus, motor_impulse = recover(reduction, y)
        expected, _ = stage_two.smallest_torque(problem, first, cones(problem, weight=weights), bounds=bounds)
        largest = np.abs(expected).max()
        np.testing.assert_allclose(motor_impulse, expected, rtol=0, atol=1e-7 * largest)
        np.testing.assert_allclose(v_plus, first.v_plus, rtol=0, atol=1e-9 * WEIGHT_IMPULSE)
        if within(bounds, motor_impulse):
            met += 1
        else:
            dropped += 1
            y, _ = smallest_torque(reduction, cones(problem, weight=weights), y_1, first.multipliers)
            np.testing.assert_array_equal(motor_impulse, recover(reduction, y)[1])
    assert met > 10
    assert dropped > 2


PLUS_S, MINUS_S, PLUS_T, MINUS_T = 1, 2, 4, 8


@pytest.mark.parametrize(
    ("law", "u", "edges"),
    [
        (distribution.DISSIPATION, (0.01, -0.02, 0.01), PLUS_S),  # u_N = μ max|u_T|: the contact opens as it slides
        (distribution.DISSIPATION, (0.01, -0.02, 0.02), PLUS_S + MINUS_T),
        (distribution.DISSIPATION, (0.01, -0.02, 0.0199), PLUS_S),  # slower along T by less than v_tol
        (distribution.DISSIPATION, (4e-4, -8e-4, 8e-4), PLUS_S + MINUS_S + PLUS_T + MINUS_T),  # at rest
        (distribution.COULOMB, (0.0, -0.02, 0.01), PLUS_S),
        (distribution.COULOMB, (0.0, -0.02, 0.02), PLUS_S + MINUS_T),
        (distribution.COULOMB, (0.01, -0.02, 0.0), 0),  # open, though maximal dissipation would let it slide
        (distribution.COULOMB, (0.0, 0.0, 5e-4), PLUS_S + MINUS_S + PLUS_T + MINUS_T),
        (distribution.CIRCLE, (0.0, -0.02, 0.0), 0),
        (distribution.CIRCLE, (0.0, 0.0, 5e-4), PLUS_S + MINUS_S + PLUS_T + MINUS_T),
    ],
)
@pytest.mark.parametrize("exact", [False, True])
def test_a_contact_keeps_the_pressing_edges_of_its_law_and_all_close_to_rest(law, u, edges, exact):
    """With v_tol = 0 the exact velocity decides: a slip of 0.5 mm/s counts as slip, and friction opposes it."""
    cone = np.zeros(1, dtype=np.int64)
    cones = Cones(np.array([0.5]), np.array([False]), np.zeros(1), 0.0 if exact else 1e-3, law)
    distribution.allowed_edges(np.array([0.1, 0.1, 0.1]), np.array(u), cones, cone)
    if exact and edges == 15:
        edges = {distribution.CIRCLE: 0, distribution.COULOMB: MINUS_T, distribution.DISSIPATION: PLUS_S + MINUS_T}[law]
    assert cone[0] == edges


def test_impulses_that_rounding_puts_outside_come_back_into_their_cones():
    y = np.array([2.0, -1e-9, 1.0, 3.0, 1.2, 0.1, 50.0, 0.1, -0.6, 0.0, -60.0, 0.0])
    distribution.into_cones(np.array([0.6, 0.6, 0.6, 0.6]), np.array([False, False, True, False]), y)
    # the first keeps its direction, the second has no force left, the third is held, the last is inside
    np.testing.assert_allclose(y, [2.0, 0.0, 1.0, 3.0, 0.8, 0.0, 50.0, 0.1, -0.4, 0.0, -60.0, 0.0], rtol=1e-15)


@pytest.mark.parametrize(("miss", "fastest", "keeps"), [(0.9, 0.0, True), (1.1, 0.0, False), (1.1, 40.0, True)])
def test_impulses_keep_a_motion_relative_to_its_length_or_to_what_is_typical(quadruped, miss, fastest, keeps):
    rho, x = np.array([[1.0, 0.0], [0.5, 2.0]]), np.array([4.0, -10.0])
    y = np.linalg.solve(rho.T, x + distribution.KEPT * np.array([0.0, 10.0 * miss]))
    step = whiten(standing_problem(quadruped, np.random.default_rng(0)))
    w = step._replace(rho=rho, c=np.array([0.0, fastest]))
    # the longest column has length 2: 40 m/s correspond to a typical 20
    assert distribution._keeps(w, y, x, 4.0, HEAP) == keeps


@pytest.mark.parametrize(("y", "x"), [((np.nan, 0.0), (4.0, -10.0)), ((0.0, 0.0), (np.nan, np.nan))])
def test_impulses_and_motions_that_are_not_finite_do_not_keep_a_motion(quadruped, y, x):
    step = whiten(standing_problem(quadruped, np.random.default_rng(0)))
    w = step._replace(rho=np.array([[1.0, 0.0], [0.5, 2.0]]), c=np.zeros(2))
    assert not distribution._keeps(w, np.array(y), np.array(x), 4.0, HEAP)


def test_two_bounds_of_a_motor_are_two_rows_without_compilation():
    """In Python, without compilation, True + True of NumPy's type is True: counting bounds this way loses a row."""
    bounds = Bounds(np.array([-1.0, -np.inf, -2.0, -np.inf]), np.array([3.0, 4.0, np.inf, np.inf]))
    A, TB, rest = np.ones((2, 3)), np.arange(12.0).reshape(4, 3), np.array([0.1, 0.2, 0.3, 0.4])
    for kernel in (distribution._with_bounds, getattr(distribution._with_bounds, "py_func", distribution._with_bounds)):
        rows, least = kernel(A, np.array([5.0, 6.0]), TB, rest, bounds, HEAP)
        np.testing.assert_array_equal(rows, np.vstack((A, TB[0], -TB[0], -TB[1], TB[2])))
        np.testing.assert_allclose(least, [5.0, 6.0, -1.1, 0.1 - 3.0, 0.2 - 4.0, -2.3], rtol=1e-15)


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("mu", "weighted"),
    one_fast(((None, True), (0.9, False), (0.3, False), (0.2, False)), (None, True), (0.3, False)),
    ids=["mixed", "sticky", "dry", "slick"],
)
def test_many_contacts_get_the_torque_that_clarabel_finds(quadruped, mu, weighted):
    """The reduced programs have as many unknowns as motors."""
    rng, n = np.random.default_rng(12), 40 if mu == 0.3 else 20
    reduced = 0
    for _ in range(3):
        if mu is None:
            problem = random_problem(quadruped, rng, projected=True, speed=0.01, lifted=rng.random() < 0.3)
        else:
            problem = standing_problem(quadruped, rng, mu=mu)
        problem = replace(problem, contacts=problem.contacts.take(np.sort(np.resize(np.arange(4), n))))
        weights, bounds = rng.uniform(0.0, 1.0, n) * weighted, unbounded(12)
        first, w = dissipation.solve(problem), whiten(problem)
        y_1 = first.impulses.T.ravel()
        free, _ = smallest_torque(w, cones(problem, weight=weights), y_1, first.multipliers)
        largest = np.abs(recover(w, free)[1])
        for room in (np.inf, 0.95):  # fractions of the largest torque
            motor = np.argmax(largest)
            bounds.most[motor] = room * largest[motor]
            bounds.least[motor] = -bounds.most[motor]
            y, better = smallest_torque(w, cones(problem, weight=weights), y_1, first.multipliers, None, bounds)
            expected, _ = stage_two.smallest_torque(problem, first, cones(problem, weight=weights), bounds=bounds)
            assert better
            v_plus, motor_impulse = recover(w, y)
            np.testing.assert_allclose(motor_impulse, expected, rtol=0, atol=1e-6 * largest.max())
            np.testing.assert_allclose(v_plus, first.v_plus, rtol=0, atol=1e-9 * np.abs(first.v_plus).max() + 1e-12)
            inside = problem.contacts.mu * y[:n] - np.abs(y[n : 2 * n]) - np.abs(y[2 * n :])
            assert inside.min() > -1e-15 * np.abs(y).max()
            reduced += inside.min() > 1e-6 * np.abs(y).max() or mu is None
    assert reduced > 3 or mu in (0.3, 0.2)


def test_friction_of_held_feet_has_no_bound_but_they_only_press(quadruped):
    problem = standing_problem(quadruped, np.random.default_rng(8), mu=np.inf)
    first = dissipation.solve(problem)
    f, v_plus, free = redistribute(problem, first)
    assert f[:, 0].min() >= 0.0
    np.testing.assert_allclose(v_plus, first.v_plus, rtol=0, atol=1e-9)
    bounded = standing_problem(quadruped, np.random.default_rng(8), mu=0.3)
    _, v_bounded, within = redistribute(bounded, dissipation.solve(bounded))
    np.testing.assert_allclose(v_bounded, v_plus, rtol=0, atol=1e-9)  # nothing slips here
    # a smaller set of forces cannot contain a smaller best torque
    assert np.linalg.norm(free) <= np.linalg.norm(within) * (1.0 + 1e-6)


def test_on_straight_legs_the_answer_is_finite_and_the_same_from_everywhere(quadruped):
    """Straight legs carry load without torque: only the regularization determines their impulses (math.md 13.6)."""
    joints = np.zeros(12)
    quadruped.update(quadruped.configuration(joints, np.array([0, 0, 0.3, 0, 0, 0, 1.0])), np.zeros(18))
    problem = inverse_step(quadruped, np.zeros(18), np.zeros(12), scenes.foot_contacts(quadruped, 0.7))
    order = np.array([2, 0, 3, 1])
    other = replace(problem, contacts=problem.contacts.take(order))
    f, _, motor_impulse = redistribute(problem, dissipation.solve(problem))
    g, _, again = redistribute(other, dissipation.solve(other))
    assert np.isfinite(f).all()
    np.testing.assert_allclose(f[order], g, rtol=0, atol=1e-6 * np.abs(f).max())
    np.testing.assert_allclose(motor_impulse, again, rtol=0, atol=1e-9 * scenes.H)
    assert f[:, 0].sum() == pytest.approx(quadruped.mass * 9.81 * scenes.H, rel=1e-9)


def test_without_contacts_there_is_nothing_to_distribute(quadruped):
    v = scenes.moving(quadruped, np.random.default_rng(11))
    problem = inverse_step(quadruped, v, v[6:], Contacts.none(18))
    first = dissipation.solve(problem)
    assert first.status is Status.SOLVED
    f, _, motor_impulse = redistribute(problem, first)
    assert f.shape == (0, 3)
    np.testing.assert_allclose(motor_impulse, first.multipliers, rtol=0, atol=1e-12)


def test_impulses_that_would_change_the_motion_are_refused(quadruped):
    """Feet stick without normal force: cones allow them no friction, so the motion would change."""
    rng = np.random.default_rng(11)
    kept = refused = 0
    for _ in range(400):
        projected, speed = bool(rng.integers(2)), rng.choice([0.0, 0.3])
        problem = random_problem(quadruped, rng, projected=projected, mu=np.full(4, np.inf), lifted=False, speed=speed)
        first = no_slip.solve(problem)
        if first.status is Status.FALLBACK:
            continue
        reduction = whiten(problem)
        y, better = smallest_torque(reduction, cones(problem), first.impulses.T.ravel(), first.multipliers)
        v_plus, _ = recover(reduction, y)
        # some of the refused answers would lose a tenth of the velocities and more
        np.testing.assert_allclose(v_plus, first.v_plus, rtol=0, atol=1e-6 * np.abs(first.v_plus).max())
        kept, refused = kept + better, refused + (not better)
    assert kept > 200
    assert refused > 10


@pytest.mark.interpreted
def test_contacts_that_transmit_no_torque_share_their_impulses(quadruped):
    """The whole weight rests on an unactuated body: no torque depends on the impulses, but they are still equalized."""
    reduction = whiten(standing_problem(quadruped, np.random.default_rng(0)))
    k, n = reduction.rho.shape[1], 4
    weightless = TorqueMap(np.zeros((12, 3 * n)), np.zeros(12))
    pressed = np.concatenate(([1.0, 0.0, 0.0, 1.0], np.zeros(8)))
    out = np.empty(3 * n)
    held = Cones(np.full(n, 0.7), np.zeros(n, dtype=bool), np.zeros(n), np.inf)
    assert share_kernel(reduction, held, unbounded(12), reduction.rho.T @ pressed, weightless, out, HEAP)
    np.testing.assert_allclose(reduction.rho.T @ out, reduction.rho.T @ pressed, rtol=0, atol=1e-9 * k)
    assert np.linalg.norm(out) < np.linalg.norm(pressed)
