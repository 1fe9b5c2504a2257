"""Outcomes of schemes for the solutions of their models."""

from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from idcontrol import controllers, robots
from idcontrol.bench.problems.machines import inverse_step
from idcontrol.bench.problems.steps import random_step
from idcontrol.controllers import schemes
from idcontrol.controllers.gradient.choice import is_direct
from idcontrol.controllers.step import NO_SOLUTION, SOLVED, step_from_problem
from idcontrol.kernels.arena import HEAP
from idcontrol.kernels.bound import bind
from idcontrol.models import coulomb
from idcontrol.models.distribution import Cones
from idcontrol.models.step import StepSolution
from idcontrol.models.whitened import recover, whiten
from idcontrol.solvers.status import TOLERANCE
from idcontrol.types import State, Status
from tests import scenes
from tests.controllers import walker
from tests.controllers.answers import answered
from tests.parameters import solved

pytestmark = pytest.mark.interpreted


def asked(problem, last):
    mu = problem.contacts.mu
    return step_from_problem(problem, Cones(mu, np.isinf(mu), np.zeros(mu.size), 1e-3), last=last)


@pytest.mark.parametrize("scheme", [schemes.COULOMB_LCP, schemes.COULOMB_SMOOTH, schemes.COULOMB_QP])
@pytest.mark.parametrize(
    ("status", "note", "dropped"),
    [
        (Status.REPAIRED, "regularized", ("exactness",)),
        (Status.REPAIRED, "squeeze", ()),
        (Status.SOLVED, "regularized", ()),  # in a regularized model nothing was relaxed
        (Status.SOLVED, "", ()),
    ],
)
def test_exactness_is_relaxed_only_if_the_exact_problem_failed(scheme, status, note, dropped):
    problem = random_step(np.random.default_rng(0), feet=True, inverse=True, contacts=2)
    solution = structs.replace(solved(coulomb.solve(problem)), status=status, note=note)
    in_python = replace(scheme, solve=None, model=lambda *_: solution)
    assert answered(in_python, asked(problem, np.zeros(solution.multipliers.size))).dropped == dropped


def test_a_feasible_last_torque_is_its_own_nearest_torque(quadruped, standing):
    """Two solutions of one standing step: from either, the search ends at the torques of the other."""
    problem = inverse_step(quadruped, standing, np.zeros(12), scenes.foot_contacts(quadruped, 0.7, feet=(0, 3)))
    f = coulomb.solve(problem).impulses.T.ravel()
    squeezed = f.copy()
    w = whiten(problem)
    # internal forces between two feet change no motion, only the torques of the legs
    squeeze = np.linalg.svd(w.rho.T)[2][-1]
    squeezed += 0.1 * f[0] * squeeze / np.abs(squeeze).max()
    v_plus, one = recover(w, f)
    again, other = recover(w, squeezed)
    np.testing.assert_allclose(again, v_plus, atol=1e-12)
    assert np.linalg.norm(other - one) > 1e-2 * np.linalg.norm(one)
    for start, impulse, last in ((f, one, other), (squeezed, other, one)):
        y = start.copy()
        residual, gap = schemes.nearest(asked(problem, last), y, impulse, HEAP)
        assert residual < 1e-9
        assert gap == 0.0
        np.testing.assert_allclose(recover(w, y)[1], last, atol=1e-9 * np.abs(last).max())


@pytest.mark.parametrize("seed", range(5))
def test_feet_that_creep_by_rounding_share_close_to_the_last_torque(quadruped, seed):
    """The search leaves 1e-12 m/s, which is rounding, but violates the law in the scale of resting feet."""
    control = walker.controller("id-coulomb-smooth")
    last = control(walker.at_home(quadruped), walker.stand())
    assembled = control.problem(walker.at_home(quadruped), walker.stand())
    assembled.w.c[4:] = 0.0
    assembled.w.c[:] += assembled.w.rho @ (1e-12 * np.random.default_rng(seed).normal(size=6))
    f = np.zeros(12)
    answer = schemes.coulomb_smooth(bind(assembled), f, HEAP)
    assert answer.ending == SOLVED
    assert answer.residual <= TOLERANCE
    assert answer.gap == 0.0
    np.testing.assert_allclose(f[:4] / scenes.H, last.predicted.force[:, 2], rtol=0.2)


@pytest.mark.parametrize("foot", range(4))
def test_feet_that_cannot_all_stick_do_not_stick(quadruped, standing, foot):
    """One joint moves and the others hold: the shortcut leaves every dragged foot to the model."""
    contacts = scenes.foot_contacts(quadruped, 0.7)
    b = np.zeros(12)
    problem = asked(inverse_step(quadruped, standing, b, contacts), np.zeros(12))
    f = np.zeros(12)
    answer = schemes.stick(bind(problem), f, HEAP)
    assert answer.ending == SOLVED
    assert answer.residual < schemes.CONSISTENT
    b[3 * foot + 1] = 0.01
    dragged = asked(inverse_step(quadruped, standing, b, contacts), np.zeros(12))
    answer = schemes.stick(bind(dragged), f, HEAP)
    assert answer.ending == NO_SOLUTION
    assert answer.residual > 1e-3


def test_without_any_solution_the_last_torque_is_repeated(quadruped):
    control = walker.controller("id-coulomb-lcp")
    state = walker.at_home(quadruped)
    last = control(state, walker.stand()).tau

    def unsolved(problem, _):
        impulses = np.ones((len(problem.contacts), 3))
        return StepSolution(
            v_plus=np.zeros(18),
            impulses=impulses,
            multipliers=np.ones(12),
            status=Status.FALLBACK,
            residual=np.inf,
            iterations=0,
        )

    control._scheme = replace(control._scheme, solve=None, model=unsolved, forward=unsolved)
    control._machine = control._machine._replace(scheme=0)
    control._bind(control._machine.result.identity.size + 1)
    command = control(state, walker.stand(a=np.full(12, 5.0)))
    assert command.status is Status.FALLBACK
    assert command.dropped == ("tracking", "prediction")
    assert command.solved_by is None
    np.testing.assert_array_equal(command.tau, last)
    assert not command.predicted.force.any()
    control.reset()
    assert not control(state, walker.stand()).tau.any()


def test_sliding_feet_keep_circular_friction_while_they_ramp():
    """Unloading within the pyramids, as for sticking feet, would move the force into the diamond."""
    state = walker.at_home(scenes.links())
    state = structs.replace(state, v=np.concatenate(([0.3, 0.2], np.zeros(16))))
    control = walker.controller("id-coulomb-cone", mu=0.3, learn_friction=False)
    command = control(state, walker.stand(since_touchdown=np.full(4, 0.012)))
    force = command.predicted.force
    assert command.status is Status.SOLVED
    np.testing.assert_allclose(np.hypot(force[:, 0], force[:, 1]), 0.3 * force[:, 2], rtol=1e-6)


@pytest.mark.parametrize("row", range(12))
def test_a_contact_whose_velocity_is_not_finite_does_not_stick(quadruped, standing, row):
    cones = Cones(np.full(4, 0.6), np.zeros(4, dtype=np.bool_), np.zeros(4), 1e-6)
    step = inverse_step(quadruped, standing, np.zeros(12), scenes.foot_contacts(quadruped, 0.6))
    assembled = step_from_problem(step, cones, last=np.zeros(12))
    assembled.w.c[row] = np.nan
    assert schemes._sticking_motion(assembled, np.zeros(assembled.w.rho.shape[1]), HEAP) == np.inf


@pytest.mark.parametrize("name", ["id-coulomb-lcp", "id-coulomb-smooth", "id-coulomb-cone"])
def test_corners_that_barely_open_have_no_friction_force(name):
    """In these states of a random draw, a corner of a nearly resting sole opens at 2e-9 m/s, 1e-8 of its speed unit."""
    robot, rng, n = robots.load("g1"), np.random.default_rng(7), 512
    wild, standing, reference = np.geomspace(1e-3, 2.0, n)[:, None], robot.standing_state(), robot.standing_reference()
    q = np.tile(standing.q, (n, 1))
    q[:, 2] -= 0.004 * rng.random(n)
    q[:, 7:] += 0.05 * wild * rng.normal(size=(n, reference.q.size))
    target = reference.q + 0.1 * wild * rng.normal(size=(n, reference.q.size))
    rng.random((n, 2))
    v = wild * rng.normal(size=(n, standing.v.size))
    for row in (217, 247):
        controller = controllers.make(name, robot, mu=np.inf)
        command = solved(controller(State(t=0.0, q=q[row], v=v[row]), structs.replace(reference, q=target[row])))
        opens = command.predicted.force[:, 2] == 0.0
        assert opens.any()
        assert not command.predicted.force[opens].any()


@pytest.mark.parametrize("scheme", [schemes.SAP, schemes.SPRINGS, schemes.COULOMB_QP_1])
def test_derivatives_know_compliant_contacts_under_any_name(scheme):
    own = replace(scheme, name="own", after=None)
    assert not is_direct(own)
    assert is_direct(replace(own, ground="rigid"))
