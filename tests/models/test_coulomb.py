"""The friction LCP: physics, its answer against enumeration of contact modes, degenerate cases (math.md 5, 13.6)."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from idcontrol.bench import judge
from idcontrol.bench.problems.lcps import coulomb_lcp, excluded, normal_rows
from idcontrol.bench.problems.machines import forward_step, inverse_step
from idcontrol.bench.problems.steps import numbered_step, random_step
from idcontrol.bench.problems.walks import copied, patch
from idcontrol.contact.contacts import axes_of
from idcontrol.errors import InputError
from idcontrol.kernels.arena import HEAP
from idcontrol.models import coulomb, friction_lcp
from idcontrol.models.step import StepProblem
from idcontrol.models.sticking import CONTRADICTED, UNSETTLED
from idcontrol.models.whitened import whiten
from idcontrol.solvers.existence import Existence, decide
from idcontrol.solvers.status import TOLERANCE, SolverStatus
from idcontrol.types import Status
from tests import scenes
from tests.models.test_degenerate import step
from tests.parameters import solved


def unbalanced(problem):
    """Return the rows of a step of rigid contacts, not balanced, and their LCP."""
    whitened, mu = whiten(problem), problem.contacts.mu
    compliance, frictional = np.zeros(3 * mu.size), friction_lcp.frictional_contacts(mu, HEAP)
    original = friction_lcp.Unbalanced(whitened.rho, whitened.c, whitened.roundoff, compliance, mu, frictional)
    return original, friction_lcp.assemble(original.rho, original.c, compliance, mu, frictional, HEAP)


def violation(problem, solution):
    """Return the relative errors of momentum balance and of the law (math.md, section 13.3)."""
    momentum = np.abs(judge.unbalanced(problem, solution)).max() / np.abs(problem.kappa).max()
    return max(momentum, judge.missed("coulomb-lcp", problem, solution.impulses))


SIGNS = ((1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0))


def mode_equations(mode, mu):
    """Conditions of one contact as rows on (f_N, f_S, f_T) and on its velocities (w_N, s, t): ``A f + B w = 0``."""
    kind, sign = mode
    if kind == "apart":
        return np.eye(3), np.zeros((3, 3))
    if kind == "stick":
        return np.zeros((3, 3)), np.eye(3)
    if kind == "slide":  # all of μ f_N against the faster of the two tangential velocities
        axis, direction = sign
        A, B = np.zeros((3, 3)), np.zeros((3, 3))
        B[0, 0] = 1.0
        A[1, 0], A[1, axis] = mu, direction
        A[2, 3 - axis] = 1.0
        return A, B
    # both equally fast: friction is shared
    A, B = np.zeros((3, 3)), np.zeros((3, 3))
    B[0, 0] = 1.0
    B[1] = (0.0, sign[0], -sign[1])
    A[2] = (mu, sign[0], sign[1])
    return A, B


MODES = (
    [("apart", None), ("stick", None)]
    + [("slide", (axis, direction)) for axis in (1, 2) for direction in (1.0, -1.0)]
    + [("corner", sign) for sign in SIGNS]
)


def by_enumeration(problem):
    """The v⁺ of every solution found by trying all modes of all contacts (math.md 6.2), from dense matrices."""
    contacts = problem.contacts
    n, m = len(contacts), problem.M.shape[0]
    free = np.arange(m)
    v_free = np.zeros(m)
    if problem.prescribed is not None:
        free = np.setdiff1d(free, problem.prescribed.index)
        v_free[problem.prescribed.index] = problem.prescribed.velocity
    inner = problem.M[np.ix_(free, free)]
    v_free[free] = np.linalg.solve(inner, -(problem.kappa + problem.M @ v_free)[free])
    # contact by contact: (N, S, T) of the first, then of the second
    J = contacts.jacobian.reshape(3, n, m).transpose(1, 0, 2).reshape(3 * n, m)
    response = np.linalg.solve(inner, J[:, free].T)
    G, c = J[:, free] @ response, J @ v_free
    c[::3] += contacts.gap / problem.h
    scale = np.abs(c).max()
    velocities = []
    for modes in itertools.product(MODES, repeat=n):
        A, B = np.zeros((3 * n, 3 * n)), np.zeros((3 * n, 3 * n))
        for i, mode in enumerate(modes):
            block = slice(3 * i, 3 * i + 3)
            A[block, block], B[block, block] = mode_equations(mode, contacts.mu[i])
        typical = np.trace(G) / (3 * n)
        A *= typical
        system = A + B @ G
        if np.linalg.cond(system) > 1e10:
            continue
        f = np.linalg.solve(system, -B @ c)
        w_n, s, t = (G @ f + c).reshape(n, 3).T
        f_n, f_s, f_t = f.reshape(n, 3).T
        impulse = max(f_n.max(), scale / typical)
        inside = contacts.mu * f_n - np.abs(f_s) - np.abs(f_t) >= -1e-9 * impulse
        work = f_s * s + f_t * t + contacts.mu * f_n * np.maximum(np.abs(s), np.abs(t))
        if (
            f_n.min() >= -1e-9 * impulse
            and w_n.min() >= -1e-9 * scale
            and inside.all()
            and np.abs(work).max() <= 1e-9 * impulse * scale
        ):
            v = v_free.copy()
            v[free] += response @ f
            velocities.append(v)
    return velocities


@pytest.mark.parametrize(("n", "inverse", "count"), [(1, False, 30), (1, True, 30), (2, False, 10)])
def test_the_velocity_is_one_that_enumeration_of_all_contact_modes_finds(quadruped, n, inverse, count):
    rng = np.random.default_rng(n)
    for _ in range(count):
        v = scenes.moving(quadruped, rng)
        v[:3] -= [0.0, 0.0, 0.3]
        contacts = scenes.foot_contacts(
            quadruped,
            rng.uniform(0.1, 1.0, n),
            normals=scenes.tilted(rng, n, 0.3),
            gap=rng.uniform(0.0, 2e-4, n),
            feet=tuple(rng.permutation(4)[:n]),
        )
        problem = step(quadruped, v, contacts, inverse)
        solution = coulomb.solve(problem)
        candidates = by_enumeration(problem)
        assert candidates
        # both solve the same linear equations of their mode, which leave ten digits
        nearest = min(np.abs(solution.v_plus - v_plus).max() for v_plus in candidates)
        assert nearest < 1e-8 * np.abs(solution.v_plus).max()


def tumbling_box(rng, side):
    """Return a moving box with side² contacts on its bottom, some beyond the edge of a step in the ground."""
    system, ground, start = patch(side)
    v = rng.normal(size=6) * rng.choice([1e-3, 0.1, 1.0])
    system.update(start.q, v)
    touching = ground.detect(1.0)
    gap = np.where(touching.point[:, 0] > rng.uniform(-0.05, 0.15), rng.uniform(0.0, 5e-4), 0.0)
    mu = rng.choice([0.0, 0.2, 0.8]) * rng.uniform(0.5, 1.0, gap.size)
    axes = axes_of(scenes.tilted(rng, gap.size, rng.choice([0.0, 0.1])), rng.uniform(0.0, np.pi))
    rows = np.concatenate([np.einsum("nd,ndm->nm", axes[:, k], columns(touching)) for k in range(3)])
    return forward_step(system, v, np.zeros(0), replace(touching, gap=gap, mu=mu, axes=axes, jacobian=rows))


def columns(touching):
    """Return the velocities of contact points along the world's axes, shape (n, 3, m)."""
    by_axis = touching.jacobian.reshape(3, len(touching), -1).transpose(1, 0, 2)
    return np.einsum("nad,nam->ndm", touching.axes, by_axis)


def test_many_contacts_of_which_few_are_solved_for_all_obey_the_law():
    """A box has six velocities, so a few contacts carry it; v⁺ need not be unique, so answers are judged by the law."""
    rng, pressed, kept = np.random.default_rng(8), 0, 0
    for _ in range(40):
        problem = tumbling_box(rng, 6)
        solution = solved(coulomb.solve(problem))
        assert violation(problem, solution) <= 1e-11
        assert (solution.impulses[:, 0] > 0.0).sum() <= coulomb.MANY_CONTACTS * 6
        pressed += (solution.impulses[:, 0] > 0.0).any()
        again = solved(coulomb.solve(problem, solution.warm))
        assert violation(problem, again) <= 1e-11
        kept += again.iterations == 0
    assert kept > 30  # dependent contacts with impulses are solved again by Lemke's method
    assert pressed > 20


def test_conflicting_fingers_with_many_contacts_are_reported_infeasible():
    """A subset of the contacts without a solution proves nothing; the proof comes from all contacts."""
    solution = coulomb.solve(copied(scenes.squeeze(0.5), 14))
    assert solution.status is Status.FALLBACK
    assert solution.note == "squeeze"


def hand_of_boxes(seed, contacts):
    return random_step(np.random.default_rng(seed), feet=False, inverse=True, contacts=contacts)


@pytest.mark.parametrize(
    "problem", [hand_of_boxes(2160, 4), hand_of_boxes(558, 8), *(numbered_step(k) for k in (3843, 5559))]
)
def test_a_second_path_solves_after_the_first_ends_on_a_ray(problem):
    """Rays of this matrix prove nothing: subsets of contacts, other paths or the search over modes find solutions."""
    w, mu = whiten(problem), problem.contacts.mu
    n = mu.size
    status, _, _ = coulomb.friction_lcp_kernel(w.rho, w.c, w.roundoff, mu, 0.0, np.zeros(3 * n), HEAP)
    assert status == SolverStatus.RAY
    solution = solved(coulomb.solve(problem))
    assert solution.note in (("",) if n > coulomb.MANY_CONTACTS * w.rho.shape[1] else ("restarted", "searched"))
    # inertias of these boxes differ by up to 1e6
    assert judge.missed("coulomb-lcp", problem, solution.impulses) <= 1e-10


def test_solved_means_that_unbalanced_velocities_obey_the_law():
    """38 contacts of boxes whose mobilities differ 750-fold."""
    problem = numbered_step(82881)
    solution = solved(coulomb.solve(problem))
    assert judge.missed("coulomb-lcp", problem, solution.impulses) <= TOLERANCE


@pytest.mark.parametrize("seed", [1874, 1938, 2671])
def test_a_jam_has_no_solution_though_velocities_that_part_the_contacts_exist(seed):
    problem = hand_of_boxes(seed, 4)
    assert not excluded(*normal_rows(problem))
    reduction = whiten(problem)
    lcp = coulomb_lcp(reduction.rho, reduction.c, problem.contacts.mu)
    assert decide(*lcp).existence is Existence.NONE
    solution = coulomb.solve(problem)
    assert solution.status is Status.FALLBACK
    assert solution.note == "jam"
    np.testing.assert_array_equal(solution.impulses, 0.0)


def test_a_step_that_a_short_search_leaves_undecided_is_not_called_a_squeeze():
    problem = hand_of_boxes(171, 4)
    assert not excluded(*normal_rows(problem))
    solution = coulomb.solve(problem)
    assert solution.status is Status.FALLBACK
    assert solution.note == "no solution found"


def test_more_contacts_than_lemke_can_hold_are_refused(quadruped):
    contacts = scenes.foot_contacts(quadruped, 0.7)
    many = contacts.take(np.zeros(coulomb.MOST_CONTACTS + 1, dtype=np.int64))
    with pytest.raises(InputError, match="too many for Coulomb"):
        coulomb.solve(StepProblem(h=scenes.H, M=quadruped.M, kappa=np.zeros(18), contacts=many))


def swaying_demand(system, k):
    """Return demands of a base that moves slightly differently at each of the steps k, over standing feet."""
    system.update(scenes.home(system), np.zeros(18))
    contacts = scenes.foot_contacts(system, 0.7)
    base = 0.01 * np.array([np.sin(0.9 * k), np.sin(1.3 * k), 0.3 * np.sin(1.7 * k), 0.0, 0.0, np.sin(1.1 * k)])
    J = contacts.jacobian
    # the feet allow this motion to rounding: they stick, and many impulses give it
    b = np.linalg.lstsq(J[:, 6:], -J[:, :6] @ base, rcond=None)[0]
    return inverse_step(system, np.r_[base, b], b, contacts)


def test_the_best_of_failed_restarts_is_kept(monkeypatch):
    residuals = itertools.cycle([3e-3, 1e-3, 2e-3])

    def fails(lcp, problem, tikhonov, z, f, arena):
        f[:] = next(residuals)
        return int(SolverStatus.INACCURATE), 1, f[0]

    monkeypatch.setattr(friction_lcp, "solve_lcp", fails)
    original, lcp = unbalanced(numbered_step(3))
    f = np.empty(original.c.size)
    status, _, least = friction_lcp.restarted(lcp, original, f)
    assert (status, least) == (SolverStatus.INACCURATE, 1e-3)
    np.testing.assert_array_equal(f, 1e-3)


def falls_back(monkeypatch, first, *, restarted=SolverStatus.INACCURATE, regularized=(), searched=None, settled=True):
    """Run `_after_failure` for one contact that presses, with the given outcomes of its methods.

    Returns the outcome and the impulses.
    """
    rho, c, mu, f = np.eye(3), np.array([-1.0, 0.3, 0.0]), np.array([0.5]), np.full(3, 7.0)
    ends = iter(regularized)

    def restart(lcp, problem, out):
        out[:] = 8.0
        return int(restarted), 5, 2e-3 if restarted == SolverStatus.INACCURATE else np.inf

    def regularize(rho, c, roundoff, mu, tikhonov, out, arena):
        out[:] = 9.0
        return int(next(ends, SolverStatus.RAY)), 3, 1e-9

    monkeypatch.setattr(coulomb, "restarted", restart)
    monkeypatch.setattr(coulomb, "friction_lcp_kernel", regularize)
    monkeypatch.setattr(coulomb, "find_solution", lambda *_, **__: (searched, settled, 11))
    return coulomb._after_failure(rho, c, np.zeros(3), mu, f, first), f


FAILED_FIRST = coulomb.Outcome(status=int(SolverStatus.RAY), iterations=2, residual=np.inf)
INACCURATE_FIRST = coulomb.Outcome(status=int(SolverStatus.INACCURATE), iterations=2, residual=1e-3)
ONE_CONTACT = np.array([1.0, -0.3, 0.0])


def test_after_a_failure_the_methods_are_tried_in_order(monkeypatch):
    solved, ray = SolverStatus.SOLVED, SolverStatus.RAY
    outcome, f = falls_back(monkeypatch, FAILED_FIRST, restarted=solved)
    assert (outcome.status, outcome.note, outcome.iterations, f[0]) == (solved, "restarted", 7, 8.0)
    outcome, f = falls_back(monkeypatch, FAILED_FIRST, regularized=[ray, solved])
    assert (outcome.status, outcome.note, outcome.iterations, f[0]) == (solved, "regularized", 2 + 5 + 2 * 3, 9.0)
    assert outcome.regularization == coulomb.TIKHONOV[1]
    assert coulomb._ending(outcome).status is Status.REPAIRED
    tried = 2 + 5 + 3 * len(coulomb.TIKHONOV) + 11
    outcome, f = falls_back(monkeypatch, FAILED_FIRST, searched=ONE_CONTACT)
    assert (outcome.status, outcome.note, outcome.iterations) == (solved, "searched", tried)
    assert outcome.residual <= TOLERANCE
    np.testing.assert_array_equal(f, ONE_CONTACT)


def test_after_every_failure_the_best_answer_or_the_reason_is_returned(monkeypatch):
    infeasible = SolverStatus.INFEASIBLE
    outcome, f = falls_back(monkeypatch, INACCURATE_FIRST)
    assert (outcome.note, outcome.residual, f[0]) == (coulomb.INEXACT, 1e-3, 7.0)
    assert coulomb._ending(outcome).status is Status.REPAIRED
    outcome, f = falls_back(monkeypatch, FAILED_FIRST)
    assert (outcome.note, outcome.residual, f[0]) == (coulomb.INEXACT, 2e-3, 8.0)
    outcome, f = falls_back(monkeypatch, INACCURATE_FIRST, searched=ONE_CONTACT * (1.0 + 1e-6))
    assert outcome.note == coulomb.INEXACT
    assert 1e-8 < outcome.residual < 1e-5
    np.testing.assert_allclose(f, ONE_CONTACT, rtol=1e-5)
    ray = SolverStatus.RAY
    outcome, _ = falls_back(monkeypatch, FAILED_FIRST, restarted=ray)
    assert (outcome.status, outcome.note) == (infeasible, coulomb.JAM)
    outcome, _ = falls_back(monkeypatch, FAILED_FIRST, restarted=ray, settled=False)
    assert (outcome.status, outcome.note) == (ray, coulomb.UNSOLVED)
    assert coulomb._ending(outcome).status is Status.FALLBACK


def test_the_vertex_of_the_last_step_is_kept_while_it_is_a_solution(quadruped):
    first = coulomb.solve(swaying_demand(quadruped, 0))
    kept, solution = 0, first
    for k in range(1, 6):
        problem = swaying_demand(quadruped, 1e-2 * k)
        before, solution = solution, coulomb.solve(problem, solution.warm)
        assert solution.status is Status.SOLVED
        kept += solution.iterations == 0
        assert solution.warm == before.warm
        cold = coulomb.solve(problem)
        np.testing.assert_allclose(solution.v_plus, cold.v_plus, atol=1e-9)
    assert kept == 5


@pytest.mark.parametrize("seed", [0, 1])
def test_failure_of_all_roles_is_a_proof_only_if_no_contact_may_slide(quadruped, seed):
    """Three sticking feet on tilted ground conflict with the joints; the fourth foot has no friction, or some."""

    def note(fourth):
        rng = np.random.default_rng(seed)
        v = scenes.moving(quadruped, rng, 0.3)
        v[2] -= 0.3
        mu = np.array([np.inf, np.inf, np.inf, fourth])
        contacts = scenes.foot_contacts(quadruped, mu, normals=scenes.tilted(rng, 4, 0.2))
        return coulomb.solve(inverse_step(quadruped, v, v[6:].copy(), contacts)).note

    proved = {coulomb.JAM, CONTRADICTED}
    assert note(0.0) in proved
    assert note(0.5) == UNSETTLED
    assert note(np.inf) in proved


def test_code_for_failures_is_loaded_with_the_first_step(monkeypatch):
    """In a loop on the wall clock, the machine would get no command during the loading, and brake."""
    called = set()

    def noted(name):
        means = getattr(coulomb, name)

        def call(*arguments, **named):
            called.add(name)
            return means(*arguments, **named)

        return call

    means = ("may_part", "restarted", "friction_lcp_kernel", "find_solution", "judged")
    for name in means:
        monkeypatch.setattr(coulomb, name, noted(name))
    coulomb._load.cache_clear()
    coulomb._load()
    assert called == set(means)
