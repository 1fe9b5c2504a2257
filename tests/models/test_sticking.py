"""Roles of contacts with infinite friction are found by trying.

A contact without a consistent role holds along its tangents without a normal force.
"""

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from idcontrol.bench import judge
from idcontrol.bench.problems.machines import forward_step
from idcontrol.kernels.arena import HEAP
from idcontrol.models import coulomb, coulomb_cone, dissipation, no_slip, sap
from idcontrol.models.constraint import solver as constraint
from idcontrol.models.constraint.solver import YIELD
from idcontrol.models.step import CLOSED_GAP, SQUEEZE, Prescribed, StepProblem
from idcontrol.models.sticking import MANY, MOST, NOTES, UNSETTLED, Attempt, scan, settle
from idcontrol.models.whitened import INEXACT, outcomes, whiten
from idcontrol.solvers.rank import HELD_RANK_TOLERANCE
from idcontrol.types import Status
from tests import scenes
from tests.parameters import one_fast
from tests.scenes import by_hand

ALL = np.array([True, True])


def test_an_impossible_step_without_held_contacts_is_reported_as_squeeze():
    nothing = np.zeros(2, dtype=bool)
    squeezed = Attempt(answer=None, solved=False, presses=nothing, parts=nothing, impossible=True)
    _, note = scan(lambda *roles: squeezed, (), ALL, ALL)
    assert NOTES[note] == SQUEEZE


@pytest.mark.parametrize(("contacts", "sets"), [(9, MOST), (MANY, MOST), (MANY + 1, 0)])
def test_an_incomplete_search_is_reported(contacts, sets):
    may = np.ones(contacts, dtype=bool)
    tried = []

    def attempt(stick, out, _):
        tried.append(stick)
        return Attempt(answer=None, solved=True, presses=~stick, parts=stick)

    _, note = scan(attempt, (), may, may)
    assert NOTES[note] == UNSETTLED
    assert len(tried) == 1 + sets


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_the_search_ends_for_any_outcome_of_attempts(seed, n):
    rng = np.random.default_rng(seed)

    def attempt(stick, out, _):
        return Attempt(
            answer=stick, solved=rng.uniform() < 0.8, presses=rng.uniform(size=n) < 0.5, parts=rng.uniform(size=n) < 0.5
        )

    may = rng.uniform(size=n) < 0.8
    answer, _ = settle(may, may, attempt)
    assert not (answer & ~may).any()


CREEP = {
    dissipation.solve: 1e-6,
    no_slip.solve: 1e-6,
    coulomb.solve: 1e-6,
    # 1e-6 of the speed without friction, several metres per second if a knee hits its end
    constraint.solve: 1e-5,
    sap.solve: 1e-2,  # 1e-3 of that speed
}
"""Speeds of contacts that stick, by model [m/s]."""


@pytest.mark.parametrize("solve", CREEP)
def test_feet_that_land_together_never_press_without_friction(quadruped, solve):
    """Random quadrupeds fall on their feet; some steps jam, but no foot presses and slides."""
    rng = np.random.default_rng(0)
    jammed = 0
    for _ in range(25):
        v = scenes.moving(quadruped, rng, speed=0.2)
        problem: StepProblem = forward_step(quadruped, v, np.zeros(12), scenes.foot_contacts(quadruped, np.inf))
        solution = solve(problem, None)
        if solution.status is Status.FALLBACK:
            continue
        jammed += solution.status is Status.REPAIRED
        J, n = problem.contacts.jacobian, 4
        slip = np.abs((J @ solution.v_plus)[n:]).reshape(2, n).max(axis=0)
        presses = solution.impulses[:, 0] > 0.0
        assert slip[presses].max(initial=0.0) < CREEP[solve]
    assert jammed > 0


RIGID = (no_slip.solve, dissipation.solve, coulomb.solve, coulomb_cone.solve)
every_rigid_model = pytest.mark.parametrize("solve", RIGID, ids=["noslip", "dissipation", "coulomb", "coulomb-cone"])
every_model = pytest.mark.parametrize(
    "solve", [*RIGID, constraint.solve], ids=["noslip", "dissipation", "coulomb", "coulomb-cone", "constraint"]
)
STICKS_OPEN = (coulomb.solve, coulomb_cone.solve, constraint.solve)
"""Models in which an initially open contact sticks if it then presses."""


def contacts_with(J, gap=None):
    """Contacts with infinite friction and the given rows [N; S; T]."""
    n = J.shape[0] // 3
    return by_hand(J, np.inf, np.zeros(n) if gap is None else gap)


@every_model
def test_two_contacts_that_contradict_each_other_when_they_stick_both_part(solve):
    """Free x and z, prescribed p and q: without impulses both contacts open at 1 m/s, which is the solution."""
    J = np.array([[0, 1, 0, 0], [1, 0, 0, 1], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]], dtype=float)
    demand = Prescribed(index=np.array([2, 3]), velocity=np.array([2.0, 0.0]))
    kappa = np.array([-1.0, -1.0, 0.0, 0.0])
    solution = solve(StepProblem(h=1e-3, M=np.eye(4), kappa=kappa, contacts=contacts_with(J), prescribed=demand), None)
    assert solution.status is Status.SOLVED
    assert not solution.impulses.any()
    assert solution.v_plus == pytest.approx([1.0, 1.0, 2.0, 0.0], abs=1e-12)


@pytest.mark.parametrize(("speed", "waits"), [(-2e-8, False), (-5e-9, True)])
def test_contacts_that_approach_beyond_the_tolerance_are_included(speed, waits):
    """Nearly rigid contacts creep, and thereby bring other contacts closer."""
    J = np.array([[0, 1], [0, 1], [1, 0], [0, 0], [0, 0], [0, 0]], dtype=float)
    step = whiten(StepProblem(h=1e-3, M=np.eye(2), kappa=np.array([0.0, 1.0]), contacts=contacts_with(J)))
    f, first = np.array([1.0 + 2.0 * speed, 0.0, 0.0, 0.0, 0.0, 0.0]), np.array([True, False])
    _, presses, _ = outcomes(step, f, first, ~first, 1e-9)
    assert presses.tolist() == [True, not waits]


@every_rigid_model
def test_tangents_that_a_light_body_makes_nearly_parallel_in_momentum_both_hold(solve):
    """In momenta both tangents nearly equal the motion of a body of 10 mg; both tangents must hold."""
    J = np.array([[0, 0, 0, 1], [1, 1, 0, 0], [1, 0, 1, 0]], dtype=float)
    M = np.diag([1e-5, 1.0, 1.0, 1.0])
    solution = solve(StepProblem(h=1e-3, M=M, kappa=-M @ [0.0, 1.0, -1.0, -1.0], contacts=contacts_with(J)), None)
    assert solution.status is Status.SOLVED
    assert solution.impulses[0] == pytest.approx([1.0, -1.0, 1.0], rel=1e-4)
    assert np.abs(J @ solution.v_plus).max() < 1e-5


@every_model
def test_a_foot_with_prescribed_slip_under_load_is_not_solved(solve):
    """A free body falls on its one contact, which a prescribed joint drags along."""
    J = np.array([[1, 0], [0, 1], [0, 0]], dtype=float)
    demand = Prescribed(index=np.array([1]), velocity=np.array([1.0]))
    problem = StepProblem(h=1e-3, M=np.eye(2), kappa=np.array([1.0, 0.0]), contacts=contacts_with(J), prescribed=demand)
    assert solve(problem, None).status is not Status.SOLVED


def some_problem(rng, contacts):
    """Return a step with at most `contacts` contacts, forward or inverse.

    In half of the steps the rows are small integers, and often depend on each other.
    """
    n, m = int(rng.integers(1, contacts + 1)), int(rng.integers(1, 9))
    J = rng.integers(-1, 2, size=(3 * n, m)).astype(float) if rng.uniform() < 0.5 else rng.normal(size=(3 * n, m))
    if n > 1 and rng.uniform() < 0.3:
        a, b = rng.integers(n, size=2)
        J[a], J[n + a], J[2 * n + a] = rng.choice([-1.0, 1.0]) * J[b], J[n + b], J[2 * n + b]
    L = np.tril(rng.normal(scale=0.3, size=(m, m)), -1) + np.diag(rng.uniform(0.5, 2.0, size=m))
    M, v = L @ L.T, rng.integers(-2, 3, size=m).astype(float)
    contacts = contacts_with(J, np.where(rng.uniform(size=n) < 0.8, 0.0, rng.uniform(0.0, 1e-2, size=n)))
    moving = rng.integers(-1, 2, size=3 * n).astype(float) * (rng.uniform() < 0.3)
    moving[:n] = 0.0
    driven = int(rng.integers(0, m)) if rng.uniform() < 0.6 else 0
    demand = Prescribed(index=np.arange(m - driven, m), velocity=rng.integers(-2, 3, size=driven).astype(float))
    return StepProblem(
        h=0.01,
        M=M,
        kappa=-M @ v,
        contacts=replace(contacts, surface_velocity=moving),
        prescribed=demand if driven else None,
    )


def has_solution(problem, solve):
    """True if any assignment of roles (open or pressing) has a solution; each is tried by a linear program.

    Contacts that are nearly rigid creep along their tangents, and do not stick if the creep is too fast. They creep at
    1e-6 of their velocities, so a program with the usual tolerance of 1e-7 on rows would find wrong roles.
    """
    w, contacts = whiten(problem), problem.contacts
    n = len(contacts)
    creep = np.zeros(3 * n)
    if solve is constraint.solve:
        creep[n:] = np.tile(constraint.tangential_compliance(problem), 2)
    G, most = w.rho @ w.rho.T + np.diag(creep), YIELD * np.abs(w.c).max() / np.maximum(creep, 1e-300)
    for roles in product((False, True), repeat=n):
        press, apart = np.flatnonzero(roles), np.flatnonzero(np.logical_not(roles))
        stick = press[(solve in STICKS_OPEN) | (contacts.gap[press] <= CLOSED_GAP)]
        rows = np.concatenate((press, n + stick, 2 * n + stick))
        if rows.size == 0:
            if (w.c[apart] >= -1e-9).all():
                return True
            continue
        answer = linprog(
            np.zeros(rows.size),
            A_ub=-G[np.ix_(apart, rows)],
            b_ub=w.c[apart] + 1e-9,
            A_eq=G[np.ix_(rows, rows)],
            b_eq=-w.c[rows],
            bounds=[(0.0, None)] * press.size + [(-most[row], most[row]) for row in rows[press.size :]],
            options={"primal_feasibility_tolerance": 1e-10},
        )
        if answer.status == 0:
            return True
    return False


def breaks_the_law(problem, solve, solution):
    """True if a contact approaches, pulls, has a force while it opens, or slips under a force."""
    contacts, n = problem.contacts, len(problem.contacts)
    u = contacts.jacobian @ solution.v_plus - contacts.surface_velocity
    u[:n] += contacts.gap / problem.h
    normal, along = solution.impulses[:, 0], np.abs(solution.impulses[:, 1:]).max(axis=1)
    fast, strong = 1e-6 * (1.0 + np.abs(u).max()), 1e-8 * max(1.0, np.abs(solution.impulses).max())
    creeps = YIELD * np.abs(whiten(problem).c).max() if solve is constraint.solve else fast
    slips = (np.abs(u[n:]).reshape(2, n).max(axis=0) > 1.001 * creeps) & (contacts.gap <= CLOSED_GAP)
    loaded = (normal > strong) | (along > strong)
    return bool(((u[:n] < -fast) | (normal < 0.0) | (loaded & ((u[:n] > fast) | slips))).any())


@every_model
@pytest.mark.parametrize("problems", one_fast((60, 20_000), 60))
def test_the_search_over_all_roles_finds_a_right_one_or_proves_none(solve, problems):
    """Normals are tilted, rows dependent, surfaces moving; the oracle is a linear program for each of the 2ⁿ roles."""
    none = 0
    for seed in range(problems):
        problem = some_problem(np.random.default_rng(seed), 3 if problems == 60 else 6)
        solution = solve(problem, None)
        if solution.status is Status.SOLVED:
            assert not breaks_the_law(problem, solve, solution), seed
            continue
        none += 1
        assert solution.status is Status.REPAIRED or not solution.impulses.any(), seed
        assert not has_solution(problem, solve), (seed, solution.note)
    assert none > 0.1 * problems


@pytest.mark.parametrize("n", [7, 64, 70])
def test_sets_that_were_not_all_tried_prove_nothing(n):
    """The ground under n feet of a slider moves apart: none of the 2ⁿ sets is consistent. For large n, 2ⁿ overflows."""
    J, moving = np.zeros((3 * n, 2)), np.zeros(3 * n)
    J[:n, 1] = J[n : 2 * n, 0] = 1.0
    moving[n : 2 * n] = np.linspace(-1.0, 1.0, n)
    demand = Prescribed(index=np.array([0]), velocity=np.array([0.3]))
    contacts = replace(contacts_with(J), surface_velocity=moving)
    problem = StepProblem(h=0.01, M=np.eye(2), kappa=np.array([0.0, 1.0]), contacts=contacts, prescribed=demand)
    may = np.ones(n, dtype=np.bool_)
    w = whiten(problem)
    frame = no_slip._Frame(
        w.rho, w.c, w.roundoff, np.full(w.c.size, np.inf), w.v_free.size, 1e-9, False, HELD_RANK_TOLERANCE
    )
    _, note = no_slip._search_kernel(may, may, frame, HEAP)
    assert NOTES[note] == UNSETTLED


def test_nearly_conflicting_tangents_do_not_hide_a_consistent_contact():
    """A bead on a wire falls onto a stop; both tangents of a foot are along the wire, on ground that moves apart."""
    J = np.array([[1.0], [0.0], [0.0], [1.0], [0.0], [1.0]])
    contacts = contacts_with(J, np.array([0.01, 0.0]))
    moving = np.array([0.0, 0.0, 0.0, -0.5, 0.0, -0.502])
    problem = StepProblem(
        h=0.01, M=np.eye(1), kappa=np.array([2.0]), contacts=replace(contacts, surface_velocity=moving)
    )
    for solve in (no_slip.solve, dissipation.solve):
        solution = solve(problem, None)
        assert solution.status is Status.SOLVED
        assert solution.v_plus == pytest.approx([-1.0], abs=1e-12)
        assert solution.impulses[:, 0] == pytest.approx([1.0, 0.0], abs=1e-12)


def twins(seed):
    """Return a body on a contact that may not slip, and on a contact with friction 1e-12 to 1e-9 m away."""
    rng = np.random.default_rng(seed)
    first, apart = rng.normal(size=(3, 1, 6)), 10.0 ** rng.uniform(-12.0, -9.0)
    rows = np.concatenate((first, first + apart * rng.normal(size=(3, 1, 6))), axis=1)
    wanted = np.append(-rng.uniform(0.1, 1.0), 10.0 ** rng.uniform(-13.0, -5.0) * rng.normal(size=2))
    v = rng.normal(size=6)
    v += np.linalg.pinv(first[:, 0]) @ (wanted - first[:, 0] @ v)
    M = np.diag(10.0 ** rng.uniform(-1.0, 1.0, 6))
    contacts = by_hand(rows.reshape(6, 6), rng.permutation([rng.uniform(0.1, 1.0), np.inf]))
    return StepProblem(h=1e-3, M=M, kappa=-M @ v, contacts=contacts)


@pytest.mark.parametrize(
    ("solve", "law"),
    [(coulomb.solve, "coulomb-lcp"), (coulomb_cone.solve, "coulomb-cone")],
    ids=["diamond", "coulomb-cone"],
)
def test_friction_next_to_a_sticking_contact_must_oppose_its_slip(solve, law):
    """The other contact's tangents nearly depend on held ones: its slip of nanometres per second looks like rest."""
    endings = Counter()
    for seed in range(60):
        problem = twins(seed)
        solution = solve(problem)
        endings[solution.status] += 1
        if solution.status is Status.SOLVED:
            assert judge.violation(law, problem, solution) <= judge.TOLERANCE
        else:
            assert solution.note == INEXACT
    assert endings[Status.SOLVED] > 0
    assert endings[Status.FALLBACK] == 0
