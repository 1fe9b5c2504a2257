"""Stages of a control step one by one: contacts in stance, ramp weights, and relaxed demands."""

from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from idcontrol.bench.problems.machines import inverse_step
from idcontrol.controllers import InverseSettings, relax
from idcontrol.controllers.schemes import COULOMB_QP
from idcontrol.controllers.settings import NOT_NEGATIVE
from idcontrol.controllers.step import MOVED, problem_of, step_from_problem
from idcontrol.errors import InputError
from idcontrol.models import dissipation, no_slip
from idcontrol.models.distribution import Bounds, Cones
from idcontrol.models.step import Prescribed, StepProblem
from idcontrol.models.whitened import whiten
from idcontrol.types import ContactForces, Status
from tests import scenes
from tests.controllers import walker
from tests.controllers.answers import answered, nearest, velocity
from tests.controllers.test_step import SCHEMES, controller
from tests.scenes import by_hand


def assembled(state, reference, **settings):
    return controller(COULOMB_QP, **settings).problem(state, reference)


@pytest.mark.parametrize("name", NOT_NEGATIVE)
def test_times_distances_and_speeds_must_not_be_negative(name):
    assert getattr(InverseSettings(**{name: 0.0}), name) == 0.0
    for value in (-1e-9, np.nan):
        with pytest.raises(InputError, match=rf"inverse.{name} is .*; it must not be negative"):
            InverseSettings(**{name: value})


def moving_foot(system, velocity, gap=0.0):
    """At home, the base at rest, foot 1 moving with a velocity (along the normal and the tangents) above the ground."""
    state = walker.at_home(system)
    J = scenes.foot_contacts(system, 0.7).jacobian
    leg = np.zeros(12)
    leg[[1, 5, 9]] = velocity
    v = np.concatenate((np.zeros(6), np.linalg.solve(J[:, 6:], leg)))
    q = state.q
    if gap:
        up = np.zeros(12)
        up[1] = gap
        q = system.integrate(q, np.concatenate((np.zeros(6), np.linalg.solve(J[:, 6:], up))), 1.0)
    return structs.replace(state, q=q, v=system.to_pinocchio(v))


@pytest.mark.parametrize(
    ("velocity", "gap", "since", "counts"),
    [
        ((-0.0021, 0.0, 0.0), 1e-4, 0.0099, False),  # approaches faster than `approach_speed_m_s`
        ((-0.0019, 0.0, 0.0), 1e-4, 0.0099, True),
        ((0.05, 0.0, 0.0), 1e-4, 0.0099, True),  # lifts off
        ((-0.05, 0.0, 0.0), -1e-4, 0.0099, True),  # is in the ground
        ((-0.05, 0.0, 0.0), 1e-4, 0.0101, True),  # has landed longer than `landing_s` ago
        ((0.0, 0.0, 0.0101), 0.0, 0.0, False),  # slides faster than `slide_speed_m_s`
        ((0.0, -0.0101, 0.0), 0.0, 0.0, False),
        ((0.0, 0.0099, 0.0), 0.0, 0.0, True),
        ((0.0, 0.0072, 0.0072), 0.0, 0.0, False),  # together
        ((0.0, 0.0069, 0.0069), 0.0, 0.0, True),
        ((0.0, 1.0, 0.0), 0.0, 0.0101, True),
    ],
)
def test_a_foot_lands_until_it_neither_nears_the_ground_nor_slides(quadruped, velocity, gap, since, counts):
    state = moving_foot(quadruped, velocity, gap)
    landed = np.full(4, np.inf)
    landed[1] = since
    result = assembled(state, walker.stand(since_touchdown=landed)).contacts.identity
    assert result.tolist() == ([0, 1, 2, 3] if counts else [0, 2, 3])


def test_an_assembled_step_is_relative_to_landing_velocities_and_the_last_torques(quadruped):
    control = controller(COULOMB_QP, mu=np.array([0.7, np.inf, 0.3, np.inf]))
    state = walker.at_home(quadruped)
    command = control(state, walker.stand())
    p = control.problem(state, walker.stand())
    problem = problem_of(p)
    np.testing.assert_array_equal(p.last, scenes.H * command.tau)
    np.testing.assert_array_equal(p.cones.held, [False, True, False, True])
    np.testing.assert_allclose(p.target, 0.0, rtol=0, atol=1e-15)  # gaps of rounding
    # velocities of the contacts without impulses: the base falls, the joints do as demanded
    u, v_free = 6, whiten(problem)
    np.testing.assert_allclose(p.w.c, v_free.c, rtol=0, atol=1e-12)
    assert problem.kappa[2] == pytest.approx(scenes.H * walker.WEIGHT, rel=1e-9)
    assert problem.prescribed.index.tolist() == list(range(u, 18))


@pytest.mark.parametrize(("name", "delay"), [("id-sensed-1", 0), ("id-sensed-2", 1)])
def test_sensed_forces_count_after_their_delay(quadruped, name, delay):
    control = walker.controller(name)
    state, loads = walker.at_home(quadruped), [10.0, 20.0, 30.0, 40.0]
    normal = np.tile([0.0, 0.0, 1.0], (4, 1))
    torques, alone = [], []
    for load in loads:
        forces = ContactForces(identity=np.arange(4), force=load * normal, normal=normal)
        torques.append(control(structs.replace(state, forces=forces), walker.stand()).tau)
        alone.append(walker.controller("id-sensed-1")(structs.replace(state, forces=forces), walker.stand()).tau)
    for k in range(delay, len(loads)):
        np.testing.assert_array_equal(torques[k], alone[k - delay])
    assert np.abs(np.diff(alone, axis=0)).max() > 0.1
    control.reset()
    first = ContactForces(identity=np.arange(4), force=10.0 * normal, normal=normal)
    np.testing.assert_array_equal(control(structs.replace(state, forces=first), walker.stand()).tau, torques[0])


def stood(system, demand, mu=0.7, scale=1.0):
    """The step of a machine at rest on four feet, joints with a demand to accelerate [rad/s²]."""
    state = walker.at_home(system)
    system.update(state.q, np.zeros(18))
    return inverse_step(system, np.zeros(18), scale * scenes.H * demand, scenes.foot_contacts(system, mu))


def asked(problem, **changes):
    mu = problem.contacts.mu
    return step_from_problem(problem, Cones(mu, np.isinf(mu), np.zeros(mu.size), 1e-3), last=np.zeros(12), **changes)


def test_all_contacts_hold_if_fingers_prescribe_conflicting_velocities():
    """Velocities of a body and two fingers that close on it; the first, faster finger would leave a wall."""
    x, left, right = np.eye(3)
    normals = np.array([x - left, right - x, left])
    contacts = by_hand(np.vstack((normals, np.zeros((6, 3)))), np.full(3, 0.5))
    fingers = Prescribed(index=np.array([1, 2]), velocity=np.array([0.3, -0.1]))
    problem = StepProblem(h=scenes.H, M=np.eye(3), kappa=np.zeros(3), contacts=contacts, prescribed=fingers)
    assert no_slip.solve(problem).status is Status.FALLBACK
    assembled = step_from_problem(
        problem, Cones(contacts.mu, np.zeros(3, dtype=bool), np.zeros(3), 1e-3), last=np.zeros(2)
    )
    f = np.zeros(9)
    answer = relax.without_slip(problem, assembled, f)
    assert answer.ending == MOVED
    np.testing.assert_allclose(velocity(assembled.w, f, answer.impulse), 0.0, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", sorted(SCHEMES))
def test_a_scheme_gives_the_same_torque_in_python_as_compiled(quadruped, name):
    """With a ramping foot, and a last torque that differs from the best torque."""
    control = controller(SCHEMES[name], shortcut=False)
    control(walker.at_home(quadruped), walker.stand(a=np.full(12, 3.0)))
    until = np.array([0.01, np.inf, np.inf, np.inf])
    problem = control.problem(walker.at_home(quadruped), walker.stand(to_liftoff=until))
    compiled = answered(SCHEMES[name], problem)
    python = answered(replace(SCHEMES[name], solve=None), problem)
    assert python.status is compiled.status is Status.SOLVED
    np.testing.assert_allclose(python.motor_impulse, compiled.motor_impulse, rtol=0, atol=1e-8)
    np.testing.assert_allclose(python.impulses, compiled.impulses, rtol=0, atol=1e-6)


def test_a_contact_with_unbounded_friction_may_push_without_bound(quadruped):
    problem = stood(quadruped, 30.0 * np.random.default_rng(0).normal(size=12), mu=np.inf)
    free = nearest(problem)
    f_N, f_S, f_T = free.impulses.T
    assert (np.abs(f_S) + np.abs(f_T) > f_N).any()
    limit = np.full(12, np.inf)
    limit[::3] = 0.5 * np.abs(free.motor_impulse[::3]).min()  # only hips have a limit
    bounded = nearest(problem, bounds=Bounds(-limit, limit))
    np.testing.assert_array_less(np.abs(bounded.motor_impulse), limit * (1.0 + 1e-12))
    assert np.abs(bounded.motor_impulse[::3]).max() == pytest.approx(limit[0], rel=1e-6)
    assert np.isclose(np.abs(free.motor_impulse[1::3]), np.abs(bounded.motor_impulse[1::3]), rtol=1e-3).sum() < 8


def test_an_infeasible_motion_has_no_repair(quadruped):
    """A foot that is to stay on the ground without torque while the robot falls on its other feet."""
    problem = stood(quadruped, np.zeros(12), mu=0.0)
    quadruped.update(walker.at_home(quadruped).q, np.zeros(18))
    sliding = inverse_step(quadruped, np.r_[1.0, np.zeros(17)], np.zeros(12), problem.contacts)
    assert nearest(sliding, bounds=Bounds(np.full(12, -1e-6), np.full(12, 1e-6))) is None


def test_a_failure_of_stage_two_keeps_the_impulses_of_the_model(quadruped):
    problem = stood(quadruped, np.zeros(12))
    result = dissipation.solve(problem)
    pulling = structs.replace(result, impulses=-result.impulses)  # outside all cones
    kept = answered(replace(COULOMB_QP, solve=None, model=lambda *_: pulling), asked(problem))
    assert kept.status is Status.REPAIRED
    assert kept.dropped == ()
    np.testing.assert_array_equal(kept.impulses, pulling.impulses)
    shared = answered(replace(COULOMB_QP, solve=None, model=lambda *_: result), asked(problem))
    assert shared.status is Status.SOLVED
    assert np.linalg.norm(shared.motor_impulse) <= np.linalg.norm(result.multipliers) * (1.0 + 1e-9)
