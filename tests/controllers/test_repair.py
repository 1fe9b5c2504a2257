"""Demands are relaxed in order: tracking, then the ban on slip, never limits or cones (math.md 12)."""

from dataclasses import replace

import cvxpy
import numpy as np
import pytest

from idcontrol.bench.problems.machines import inverse_step
from idcontrol.controllers.schemes import NO_SLIP_LCP, NO_SLIP_QP
from idcontrol.controllers.step import step_from_problem
from idcontrol.kernels.arena import reserve
from idcontrol.models import no_slip
from idcontrol.models.distribution import Bounds, Cones
from idcontrol.types import Status
from tests import scenes
from tests.controllers import walker
from tests.controllers.answers import answered, nearest


def standing(system, rng, *, mu, demand, speed=0.0):
    """Four closed feet, joints with a demand to accelerate at random by about `demand` [rad/s²]."""
    state = walker.at_home(system)
    v = speed * rng.normal(size=18)
    system.update(state.q, system.to_pinocchio(v))
    contacts = scenes.foot_contacts(system, mu)
    return inverse_step(system, v, v[6:] + scenes.H * demand * rng.normal(size=12), contacts)


def symmetric(limit):
    return Bounds(-limit, limit)


def asked(problem, limit=np.inf):
    """The assembled step without ramping feet; `limit` bounds the motor impulses."""
    mu = problem.contacts.mu
    cones = Cones(mu, np.isinf(mu), np.zeros(mu.size), 1e-3)
    return step_from_problem(problem, cones, last=np.zeros(12), bounds=symmetric(np.full(12, limit)))


def nearest_by_clarabel(problem, held, limit):
    """The smallest |P v⁺ - b|²_W of Zapolsky & Drumwright 2017 (46), with pyramids and limits, in forces."""
    n, p, h = len(problem.contacts), problem.prescribed.index.size, problem.h
    J, index = problem.contacts.jacobian, problem.prescribed.index
    f, tau, v = cvxpy.Variable((3, n)), cvxpy.Variable(p), cvxpy.Variable(problem.M.shape[0])
    P = np.eye(problem.M.shape[0])[index]
    size = 1.0 / np.sqrt(np.diag(problem.M))  # rows of the momentum balance of one size
    impulse = sum(J[axis * n : (axis + 1) * n].T @ f[axis] for axis in range(3)) + P.T @ tau
    W = np.linalg.cholesky(problem.M[np.ix_(index, index)]).T
    rows = [cvxpy.multiply(size, problem.M @ v + problem.kappa - h * impulse) / h == 0, cvxpy.abs(tau) <= limit]
    for i in range(n):
        rows.append(cvxpy.abs(f[1, i]) + cvxpy.abs(f[2, i]) <= problem.contacts.mu[i] * f[0, i])
        if held[i]:
            rows += [J[axis * n + i] @ v == 0 for axis in range(3)]
        else:
            rows += [f[0, i] == 0, J[i] @ v >= 0]
    program = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(W @ (v[index] - problem.prescribed.velocity) / h)), rows)
    program.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return program.value if program.status == cvxpy.OPTIMAL else None


@pytest.mark.interpreted
@pytest.mark.parametrize(("mu", "limit"), [(0.3, 20.0), (0.7, 1.0)])
def test_the_nearest_motion_is_that_of_clarabel(quadruped, mu, limit):
    rng = np.random.default_rng(0)
    held = np.ones(4, dtype=bool)
    for _ in range(5):
        problem = standing(quadruped, rng, mu=mu, demand=100.0)
        best = nearest_by_clarabel(problem, held, limit)
        solution = nearest(problem, held, symmetric(scenes.H * np.full(12, limit)))
        assert solution is not None
        W = problem.M[6:, 6:]
        miss = (solution.v_plus[6:] - problem.prescribed.velocity) / scenes.H
        # motor impulses have a small weight, too
        assert miss @ W @ miss == pytest.approx(best, rel=1e-4)
        J = problem.contacts.jacobian
        assert np.abs(J @ solution.v_plus).max() < 1e-9
        assert np.abs(solution.motor_impulse).max() <= scenes.H * limit
        f_N, f_S, f_T = solution.impulses.T
        assert (np.abs(f_S) + np.abs(f_T) <= mu * f_N * (1.0 + 1e-12)).all()
        # the momentum balance holds
        rest = problem.M @ solution.v_plus + problem.kappa - J.T @ solution.impulses.T.ravel()
        rest[6:] -= solution.motor_impulse
        assert np.abs(rest).max() < 1e-9 * np.abs(problem.kappa).max()


def starting_aside(quadruped, acceleration, lift=0.0):
    """At rest on friction 0.2: the joints are to move the base sideways at `acceleration` [m/s²].

    The first foot is to rise at `lift` [m/s²].
    """
    state = walker.at_home(quadruped)
    quadruped.update(state.q, np.zeros(18))
    contacts = scenes.foot_contacts(quadruped, 0.2)
    J = contacts.jacobian
    demand = np.linalg.solve(J[:, 6:], lift * np.eye(12)[0] - J[:, 0] * acceleration)
    return inverse_step(quadruped, np.zeros(18), scenes.H * demand, contacts)


@pytest.mark.parametrize("scheme", [NO_SLIP_LCP, NO_SLIP_QP])
def test_tracking_is_relaxed_before_feet_may_slip(quadruped, scheme):
    """The base is to accelerate sideways beyond its friction: it accelerates as fast as friction allows."""
    problem = starting_aside(quadruped, 4.0)  # friction gives 0.2 g
    outcome = answered(scheme, asked(problem))
    assert outcome.dropped == ("tracking",)
    assert outcome.status is Status.REPAIRED
    assert np.abs(problem.contacts.jacobian @ outcome.v_plus).max() < 1e-9
    assert 0.0 < outcome.v_plus[0] < 0.25 * 9.81 * scenes.H
    rough = replace(problem, contacts=replace(problem.contacts, mu=np.full(4, np.inf)))
    unbounded = answered(scheme, asked(rough)._replace(repairs=False))
    assert unbounded.dropped == ()
    np.testing.assert_allclose(unbounded.v_plus[6:], problem.prescribed.velocity, rtol=0, atol=1e-12)
    f_N, f_S, f_T = unbounded.impulses.T
    assert (np.abs(f_S) + np.abs(f_T) > 0.2 * f_N).any()
    assert np.linalg.norm(unbounded.motor_impulse) < 0.9 * np.linalg.norm(no_slip.solve(problem).multipliers)


@pytest.mark.parametrize("aside", [1.0, 4.0])
def test_results_in_an_arena_equal_results_on_the_heap_and_survive_its_reuse(quadruped, aside):
    """Tracking is relaxed if the base is to accelerate sideways at more than 0.2 g."""
    arena, step = reserve(), asked(starting_aside(quadruped, aside))
    here, there = answered(NO_SLIP_LCP, step, arena), answered(NO_SLIP_LCP, step)
    assert here.dropped == (("tracking",) if aside == 4.0 else ())
    assert arena.used[0] > 0
    arena.space[:] = np.nan
    np.testing.assert_array_equal(here.motor_impulse, there.motor_impulse)
    np.testing.assert_array_equal(here.impulses, there.impulses)
    np.testing.assert_array_equal(here.v_plus, there.v_plus)


@pytest.mark.parametrize("scheme", [NO_SLIP_LCP, NO_SLIP_QP])
def test_a_foot_planned_to_rise_rises_while_tracking_is_relaxed(quadruped, scheme):
    problem = starting_aside(quadruped, 4.0, lift=20.0)
    outcome = answered(scheme, asked(problem))
    assert outcome.dropped == ("tracking",)
    speeds = problem.contacts.jacobian @ outcome.v_plus
    assert speeds[0] > 10.0 * scenes.H
    assert np.abs(np.delete(speeds, [0, 4, 8])).max() < 1e-9


@pytest.mark.parametrize("name", ["id-noslip-lcp", "id-noslip-qp"])
def test_without_repair_friction_does_not_change_the_torque(quadruped, name):
    """The torque is the same for demands that need more and less than the friction."""
    rng = np.random.default_rng(0)
    for demand in (1.0, 300.0):
        reference = walker.stand(a=demand * rng.normal(size=12))
        taus = []
        for mu in (0.0, 0.05, 1.0, np.inf):
            command = walker.controller(name, mu=mu, repair=False)(walker.at_home(quadruped), reference)
            assert command.dropped == ()
            taus.append(command.tau)
        np.testing.assert_array_equal(taus[1:], [taus[0]] * 3)


@pytest.mark.parametrize("scheme", [NO_SLIP_LCP, NO_SLIP_QP])
def test_feet_that_nothing_can_stop_may_slip(quadruped, scheme):
    """The robot slides at 1 m/s: within a period weak motors cannot move the legs so that the feet rest."""
    state = walker.at_home(quadruped)
    v = np.zeros(18)
    v[0] = 1.0
    quadruped.update(state.q, quadruped.to_pinocchio(v))
    contacts = scenes.foot_contacts(quadruped, 0.2)
    problem = inverse_step(quadruped, v, v[6:], contacts)
    outcome = answered(scheme, asked(problem, limit=scenes.H * 0.5))
    assert outcome.dropped == ("no-slip",)
    assert outcome.status is Status.REPAIRED
    assert outcome.v_plus[0] > 0.9
    f_N, f_S, f_T = outcome.impulses.T
    assert (np.abs(f_S) + np.abs(f_T) <= 0.2 * f_N * (1.0 + 1e-9)).all()


@pytest.mark.parametrize("name", ["id-noslip-lcp", "id-coulomb-qp", "id-coulomb-lcp"])
def test_at_their_limits_no_torque_was_clipped_after_the_last_solve(quadruped, name):
    """The torque gives the machine the predicted momentum: passes end when no joint is beyond its limit."""
    rng = np.random.default_rng(3)
    control = walker.controller(name, limit=0.5, gains=walker.NO_FEEDBACK)
    clipped = 0
    for _ in range(40):
        state = walker.at_home(quadruped)
        command = control(state, walker.stand(a=100.0 * rng.normal(size=12)))
        assert np.abs(command.tau).max() <= 0.5
        if not command.clipped:
            continue
        clipped += 1
        assert "tracking" in command.dropped or command.dropped == ("no-slip",)
        quadruped.update(state.q, state.v)
        contacts = scenes.foot_contacts(quadruped, 0.7)
        force = command.predicted.force[:, [2, 0, 1]]  # along z, x, y: the axes of level ground
        change = contacts.jacobian.T @ force.T.ravel() - quadruped.bias
        change[6:] += command.tau
        a = np.linalg.solve(quadruped.M, change)
        # in the predicted motion no foot goes into the ground by more than v_tol allows
        assert (contacts.jacobian[:4] @ a * scenes.H).min() > -2e-3
    assert clipped > 20


@pytest.mark.interpreted
@pytest.mark.parametrize("gap", [0.0, 1e-3, 4e-3])
def test_a_foot_in_the_air_comes_down_no_further_than_its_gap(quadruped, gap):
    """A foot that is to descend by 5 mm within the step stops at the ground, without a force."""
    state = walker.at_home(quadruped)
    quadruped.update(state.q, np.zeros(18))
    contacts = scenes.foot_contacts(quadruped, 0.7, gap=np.array([0.0, 0.0, 0.0, gap]))
    down = np.linalg.lstsq(contacts.jacobian[[3, 7, 11], 6:], np.array([-5e-3 / scenes.H, 0.0, 0.0]), rcond=None)[0]
    problem = inverse_step(quadruped, np.zeros(18), down, contacts)
    held = np.array([True, True, True, False])
    solution = nearest(problem, held)
    approach = contacts.jacobian[:4] @ solution.v_plus
    # relative to the largest speed, 5 m/s: rounding of the program
    np.testing.assert_allclose(approach, [0.0, 0.0, 0.0, -gap / scenes.H], rtol=0, atol=1e-6)
    assert not solution.impulses[3].any()
