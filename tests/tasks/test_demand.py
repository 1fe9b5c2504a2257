"""The accelerations that tasks demand, against optimality conditions and a general solver."""

from typing import NamedTuple

import numpy as np
import pytest
import scipy.linalg

from idcontrol import tasks
from idcontrol.kernels.arena import HEAP
from idcontrol.tasks import gather
from idcontrol.tasks.demand import balance_rows, free_demand
from idcontrol.tasks.program import FORCE_WEIGHT, INSIDE, LOADED, Dynamics, Rows, bounded_demand
from idcontrol.tasks.rows import task_rows
from idcontrol.types import Array
from tests.tasks.machine import Moving, moving

pytestmark = pytest.mark.interpreted

STANCES = {"all feet": (0, 1, 2, 3), "two feet": (0, 3), "one foot": (0,), "in flight": ()}
STATES = 3334
"""Random programs for each robot: ten thousand in all."""
REACH = 500.0
"""Accelerations of joints within which a program stays [rad/s²]."""


def contact_rows(of: Moving, stand):
    n = of.contacts.radius.size
    rows = np.array([axis * n + i for axis in range(3) for i in stand], dtype=int)
    return np.ascontiguousarray(of.contacts.detect(np.inf).jacobian[rows]).reshape(-1, of.v.size)


def problem(rng, of: Moving, stand, *, strict: bool = False):
    """Return contradicting task rows, the joints' reference, and contact rows with their accelerations."""
    base, foot = tasks.Frame("trunk", strict=strict), tasks.Frame("FR_foot", "position", weight=[3.0, 0.0, 0.5])
    targets, joint_weight = gather([base, foot, tasks.CoM(weight=0.3), tasks.Posture(weight=0.02)], of.system, of.q)
    targets.position[:] += 0.1 * rng.standard_normal(targets.position.shape)
    A, y, weight = task_rows(of.system.M, of.system.bias, of.v, of.at, targets, HEAP)
    J = contact_rows(of, stand)
    return (
        Rows(A, y, weight, 30.0 * rng.standard_normal(joint_weight.size), joint_weight),
        J,
        J @ rng.standard_normal(of.v.size),
    )


def oracle(rows: Rows, strict, constants):
    """Return joint accelerations of the program without inequalities, by a null space and least squares."""
    m, a = strict.shape[1], rows.joints.size
    hard = np.isinf(rows.weight)
    strict, constants = np.vstack([strict, rows.A[hard]]), np.r_[constants, rows.y[hard]]
    scale = np.r_[np.sqrt(rows.joint_weight), np.sqrt(rows.weight[~hard])]
    soft = scale[:, None] * np.vstack([np.eye(m)[m - a :], rows.A[~hard]])
    start = np.linalg.lstsq(strict, constants, rcond=1e-10)[0]
    ways = scipy.linalg.null_space(strict, rcond=1e-10)
    best = np.linalg.lstsq(soft @ ways, scale * np.r_[rows.joints, rows.y[~hard]] - soft @ start, rcond=1e-12)[0]
    return (start + ways @ best)[m - a :]


def demanded(rows: Rows, strict, constants):
    """Return joint accelerations, and what contradictory strict tasks miss; zeros unless they are relaxed."""
    missed = np.full(rows.y.size, np.nan)
    answer, relaxes = free_demand(
        strict, constants, rows.A, rows.y, rows.weight, rows.joints, rows.joint_weight, missed, HEAP
    )
    assert relaxes == missed.any()
    return answer, missed


def least_miss(rows: Rows, strict, constants):
    """Return what strict tasks miss at least, in the sum of squares, if the strict rows of contacts hold."""
    hard, out = np.isinf(rows.weight), np.zeros(rows.y.size)
    start = np.linalg.lstsq(strict, constants, rcond=1e-10)[0]
    moved = rows.A[hard] @ scipy.linalg.null_space(strict, rcond=1e-10)
    rest = rows.y[hard] - rows.A[hard] @ start
    out[hard] = rest - moved @ np.linalg.lstsq(moved, rest, rcond=1e-8)[0]
    return out


@pytest.mark.covering
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("stand", STANCES.values(), ids=STANCES)
def test_the_demand_without_limits_is_the_constrained_least_squares_solution(stand, strict):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        of = moving(rng)
        rows, J, d = problem(rng, of, stand, strict=strict and bool(stand))
        balance, constants = balance_rows(of.system.M, of.system.bias, J, 6, HEAP)
        hard, e = np.vstack([J, balance]), np.r_[d, constants]
        answer, missed = demanded(rows, hard, e)
        wanted = oracle(rows, hard, e)
        assert not missed.any()
        np.testing.assert_allclose(answer, wanted, atol=1e-9 * np.abs(wanted).max())


def contradicting(rng, of: Moving, stand, *, feet: bool):
    """Return rows with strict tasks of which some contradict each other or, with `feet`, standing feet."""
    base, other = (tasks.Frame("trunk", kp=kp, strict=True) for kp in (100.0, 30.0))
    foot = tasks.Frame("FR_foot", "position", strict=feet)
    targets, joint_weight = gather([base, foot, tasks.CoM(weight=0.3), *([] if feet else [other])], of.system, of.q)
    targets.position[:] += 0.1 * rng.standard_normal(targets.position.shape)
    A, y, weight = task_rows(of.system.M, of.system.bias, of.v, of.at, targets, HEAP)
    J = contact_rows(of, stand)
    balance, constants = _free(of, J, J @ rng.standard_normal(of.v.size))
    return Rows(A, y, weight, 30.0 * rng.standard_normal(joint_weight.size), joint_weight), balance, constants


@pytest.mark.covering
@pytest.mark.parametrize("feet", [False, True])
@pytest.mark.parametrize("stand", STANCES.values(), ids=STANCES)
def test_contradictory_strict_tasks_miss_as_little_as_possible_and_contacts_hold(stand, feet):
    relaxed = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        of = moving(rng)
        rows, hard, e = contradicting(rng, of, stand, feet=feet)
        answer, missed = demanded(rows, hard, e)
        wanted = least_miss(rows, hard, e)
        np.testing.assert_allclose(missed, wanted, atol=1e-8 * np.abs(rows.y).max())
        best = oracle(rows._replace(y=rows.y - wanted), hard, e)
        np.testing.assert_allclose(answer, best, atol=1e-8 * np.abs(best).max())
        relaxed += bool(missed.any())
    assert relaxed == (3 if not feet or 1 in stand else 0)  # foot 1 is FR_foot


@pytest.mark.parametrize(("stand", "rank"), [((0, 1, 2, 3), 0), ((0, 3), 1), ((0,), 3), ((), 6)])
def test_balance_rows_are_what_contact_forces_cannot_change(stand, rank):
    rng = np.random.default_rng(1)
    of = moving(rng)
    M, bias, J = of.system.M, of.system.bias, contact_rows(of, stand)
    balance, constants = balance_rows(M, bias, J, 6, HEAP)
    assert balance.shape == (rank, 18)
    for _ in range(5):  # any forces and torques
        push = rng.standard_normal(18)
        push[:6] = J[:, :6].T @ (100.0 * rng.standard_normal(J.shape[0]))
        a = np.linalg.solve(M, push - bias)
        np.testing.assert_allclose(balance @ a, constants, atol=1e-10)


@pytest.mark.parametrize("faded", [1e-16, 1e-24])
def test_a_task_that_fades_out_leaves_the_others_as_they_are(faded):
    rng = np.random.default_rng(3)
    of = moving(rng)
    rows, J, d = problem(rng, of, (0, 1, 2, 3))
    momentum = slice(len(rows.y) - 6, len(rows.y))
    without, weight = rows.weight.copy(), rows.weight.copy()
    without[momentum], weight[momentum] = 0.0, faded
    kept = without > 0.0
    rows = rows._replace(weight=weight, joint_weight=np.ones(12))
    wanted, _ = demanded(rows._replace(A=rows.A[kept], y=rows.y[kept], weight=without[kept]), J, d)
    answer, _ = demanded(rows, J, d)
    np.testing.assert_allclose(answer, wanted, atol=1e-9 * np.abs(wanted).max())


def limited(of: Moving, J, d, limit) -> Dynamics:
    a = of.system.n_actuated
    return Dynamics(
        of.system.M.copy(), of.system.bias.copy(), J, d, np.full(J.shape[0] // 3, 0.6), np.full(a, -limit),
        np.full(a, limit), np.full(a, -REACH), np.full(a, REACH),
    )  # fmt: skip


class Program(NamedTuple):
    """Return the program over x = (a, F / unit): ½ xᵀP x + qᵀx + constant with E x = e and C x ≥ c."""

    P: Array
    q: Array
    constant: float
    E: Array
    e: Array
    C: Array
    c: Array

    def objective(self, x) -> float:
        return float(0.5 * x @ self.P @ x + self.q @ x + self.constant)


def stated(dynamics: Dynamics, rows: Rows, unit) -> Program:
    """Return the program that `idcontrol.tasks.program` states, written independently."""
    M, J, mu = dynamics.M, dynamics.J, (1.0 - INSIDE) * dynamics.mu
    (r, m), n, a = J.shape, mu.size, rows.joints.size
    hard, joint = np.isinf(rows.weight), np.eye(m, m + r)[m - a :]
    soft = np.vstack([rows.A[~hard], np.eye(m)[m - a :]])
    weight, wanted = np.r_[rows.weight[~hard], rows.joint_weight], np.r_[rows.y[~hard], rows.joints]
    P, q = np.zeros((m + r, m + r)), np.zeros(m + r)
    P[:m, :m], q[:m] = soft.T @ (weight[:, None] * soft), -soft.T @ (weight * wanted)
    P[m:, m:] = FORCE_WEIGHT * np.eye(r)
    motors = np.hstack([M / unit, -J.T])  # M a + c - Jᵀ F, relative to the weight
    aside = np.zeros((rows.A[hard].shape[0] + r, r))
    E = np.vstack([np.hstack([np.vstack([J, rows.A[hard]]), aside]), motors[: m - a]])
    e = np.r_[dynamics.d, rows.y[hard], -dynamics.bias[: m - a] / unit]
    cones = [np.hstack([np.zeros((n, m)), np.diag(mu), s * np.eye(n), t * np.eye(n)]) for s in (1, -1) for t in (1, -1)]
    tau, inside = motors[m - a :], INSIDE * (dynamics.most - dynamics.least)
    rest = dynamics.bias[m - a :]
    C = np.vstack([*cones, tau, -tau, joint, -joint])
    c = np.r_[
        np.tile(mu * LOADED * M[0, 0] / unit, 4),
        (dynamics.least + inside - rest) / unit, -(dynamics.most - inside - rest) / unit,
        dynamics.slowest, -dynamics.fastest,
    ]  # fmt: skip
    return Program(P, q, 0.5 * weight @ wanted**2, E, e, C, c)


def by_clarabel(program: Program):
    """Return the solution, None where there is none, and whether Clarabel reports full accuracy."""
    clarabel, sparse = pytest.importorskip("clarabel"), pytest.importorskip("scipy.sparse")
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    rows, constants = np.vstack([program.E, -program.C]), np.r_[program.e, -program.c]
    cones = [clarabel.ZeroConeT(program.e.size), clarabel.NonnegativeConeT(program.c.size)]
    answer = clarabel.DefaultSolver(
        sparse.csc_matrix(np.triu(program.P)), program.q, sparse.csc_matrix(rows), constants, cones, settings
    ).solve()
    kind = str(answer.status)
    return np.array(answer.x) if "Solved" in kind else None, "Almost" not in kind and "Insufficient" not in kind


class Machine(NamedTuple):
    """A robot with the frames of its tasks and the feet that may stand."""

    robot: str
    trunk: str
    foot: str
    stances: tuple[tuple[int, ...], ...]


MACHINES = (
    Machine("talos", "torso_2_link", "right_sole_link", ((0, 1), (0,), (1,))),
    Machine("g1", "torso_link", "right_ankle_roll_link", ((0, 1), (0,), (1,))),
    Machine("go1", "trunk", "FR_foot", ((0, 1, 2, 3), (0, 3), (1, 2, 3), (1,))),
)


def drawn(machine: Machine, seed, *, strict: bool):
    """Return dynamics, rows and unit of a random program, and the program."""
    rng = np.random.default_rng(seed)
    of = moving(rng, machine.robot, speed=0.3)
    listed = [
        tasks.Frame(machine.trunk, "orientation", strict=strict), tasks.CoM(weight=0.3),
        tasks.Frame(machine.foot, "position", weight=[3.0, 0.0, 0.5]), tasks.Posture(weight=0.02),
    ]  # fmt: skip
    targets, joint_weight = gather(listed, of.system, of.q)
    targets.position[:] += 0.05 * rng.standard_normal(targets.position.shape)
    A, y, weight = task_rows(of.system.M, of.system.bias, of.v, of.at, targets, HEAP)
    stand = machine.stances[seed % len(machine.stances)]
    J = contact_rows(of, np.flatnonzero(np.isin(of.contacts.patch, stand)))
    rows = Rows(A, y, weight, 30.0 * rng.standard_normal(joint_weight.size), joint_weight)
    dynamics = limited(of, J, J @ rng.standard_normal(of.v.size), of.system.effort_limit)
    unit = of.system.mass * 9.81
    return dynamics, rows, unit, stated(dynamics, rows, unit)


def compared(machine: Machine, seed):
    """Solve a random program and compare with Clarabel.

    Returns:
        The largest violation of the program's rows, and the relative excess of the objective over Clarabel's. None if
        there is no solution.
    """
    *demand, program = drawn(machine, seed, strict=seed % 4 == 0)
    wanted, sure = by_clarabel(program)
    solves, x = bounded_demand(*demand)
    if wanted is None or not solves:
        assert solves == (wanted is not None) or not sure
        return None
    missed = max(np.abs(program.E @ x - program.e).max(), (program.c - program.C @ x).max())
    best = program.objective(wanted)
    return missed, (program.objective(x) - best) / max(1.0, abs(best))


def by_dual_method(program: Program):
    """Return Goldfarb and Idnani's solution, with the equations of its active rows solved once more; None if none."""
    quadprog = pytest.importorskip("quadprog")
    start = np.linalg.lstsq(program.E, program.e, rcond=1e-10)[0]
    ways = scipy.linalg.null_space(program.E, rcond=1e-10)
    H, g = ways.T @ program.P @ ways, ways.T @ (program.q + program.P @ start)
    C, c = program.C @ ways, program.c - program.C @ start
    try:
        z = quadprog.solve_qp(0.5 * (H + H.T), -g, C.T.copy(), c)[0]
    except ValueError:
        return None
    active = C @ z - c < 1e-9
    none = np.zeros((active.sum(), active.sum()))
    polished = np.linalg.lstsq(np.block([[H, C[active].T], [C[active], none]]), np.r_[-g, c[active]], rcond=1e-14)[0][
        : z.size
    ]
    return start + ways @ (polished if (C @ polished - c).min() > -1e-9 else z)


@pytest.mark.parametrize(
    ("machine", "states"),
    [
        (MACHINES[0], 12),
        (MACHINES[2], 12),
        *(pytest.param(machine, STATES, marks=pytest.mark.slow) for machine in MACHINES),
    ],
)
def test_no_solution_of_thousands_of_demands_is_worse_than_clarabels(machine, states):
    results = [compared(machine, seed) for seed in range(states)]
    solved = np.array([result for result in results if result is not None])
    assert len(solved) > states // 3
    assert solved[:, 0].max() < 1e-10
    assert solved[:, 1].max() < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES, ids=[machine.robot for machine in MACHINES])
def test_accelerations_under_a_strict_task_and_limits_are_those_of_a_dual_method(machine):
    solved = limits = 0
    for seed in range(STATES // 10):
        *demand, program = drawn(machine, seed, strict=True)
        solves, x = bounded_demand(*demand)
        wanted = by_dual_method(program)
        if wanted is None:
            continue
        assert solves
        m = demand[0].M.shape[0]
        solved, limits = solved + 1, limits + bool((program.C @ wanted - program.c < 1e-7).any())
        np.testing.assert_allclose(x[:m], wanted[:m], rtol=0.0, atol=1e-8 * np.abs(wanted[:m]).max())
    assert solved > STATES // 30
    assert limits > solved // 3


def _free(of: Moving, J, d):
    balance, constants = balance_rows(of.system.M, of.system.bias, J, 6, HEAP)
    return np.vstack([J, balance]), np.r_[d, constants]


def test_there_is_no_motion_if_contacts_need_more_than_motors_can():
    rng = np.random.default_rng(0)
    of = moving(rng, speed=0.0)
    rows, J, d = problem(rng, of, (0, 1, 2, 3))
    d[:4] += 1e3  # the feet are to rise with 1 km/s²
    assert not bounded_demand(limited(of, J, d, 23.0), rows, of.system.mass * 9.81)[0]
