"""The motion that tasks ask for, against its optimality conditions and a general solver."""

import numpy as np
import pytest
import scipy.linalg

from idcontrol import tasks
from idcontrol.kernels.arena import HEAP
from idcontrol.tasks import gather
from idcontrol.tasks.demand import balance_rows, free_demand
from idcontrol.tasks.program import FORCE_WEIGHT, INSIDE, Dynamics, Rows, bounded_demand
from idcontrol.tasks.rows import task_rows
from tests.tasks.machine import Moving, moving

STANCES = {"all feet": (0, 1, 2, 3), "two feet": (0, 3), "one foot": (0,), "in flight": ()}
REACH = 500.0
"""Accelerations of joints within which a program stays [rad/s²]."""


def contact_rows(of: Moving, stand):
    n = of.contacts.radius.size
    rows = np.array([axis * n + i for axis in range(3) for i in stand], dtype=int)
    return np.ascontiguousarray(of.contacts.detect(np.inf).jacobian[rows]).reshape(-1, of.v.size)


def problem(rng, of: Moving, stand, *, strict: bool = False):
    """Rows of tasks that contradict each other, joints' reference and contact rows with their accelerations."""
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
    """The joints' accelerations of the program without inequalities, by a null space and least squares."""
    m, a = strict.shape[1], rows.joints.size
    hard = np.isinf(rows.weight)
    strict, constants = np.vstack([strict, rows.A[hard]]), np.r_[constants, rows.y[hard]]
    scale = np.r_[np.sqrt(rows.joint_weight), np.sqrt(rows.weight[~hard])]
    soft = scale[:, None] * np.vstack([np.eye(m)[m - a :], rows.A[~hard]])
    start = np.linalg.lstsq(strict, constants, rcond=1e-10)[0]
    ways = scipy.linalg.null_space(strict, rcond=1e-10)
    best = np.linalg.lstsq(soft @ ways, scale * np.r_[rows.joints, rows.y[~hard]] - soft @ start, rcond=1e-12)[0]
    return (start + ways @ best)[m - a :]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("stand", STANCES.values(), ids=STANCES)
def test_the_demand_without_limits_is_the_constrained_least_squares_solution(stand, strict):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        of = moving(rng)
        rows, J, d = problem(rng, of, stand, strict=strict and bool(stand))
        balance, constants = balance_rows(of.system.M, of.system.bias, J, 6, HEAP)
        hard, e = np.vstack([J, balance]), np.r_[d, constants]
        found = free_demand(hard, e, rows.A, rows.y, rows.weight, rows.joints, rows.joint_weight, HEAP)
        wanted = oracle(rows, hard, e)
        np.testing.assert_allclose(found, wanted, atol=1e-9 * np.abs(wanted).max())


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
    joints = rows.joints, np.ones(12), HEAP
    wanted = free_demand(J, d, rows.A[kept], rows.y[kept], without[kept], *joints)
    found = free_demand(J, d, rows.A, rows.y, weight, *joints)
    np.testing.assert_allclose(found, wanted, atol=1e-9 * np.abs(wanted).max())


def limited(of: Moving, J, d, limit) -> Dynamics:
    a = of.system.n_actuated
    return Dynamics(
        of.system.M.copy(), of.system.bias.copy(), J, d, np.full(J.shape[0] // 3, 0.6), np.full(a, -limit),
        np.full(a, limit), np.full(a, -REACH), np.full(a, REACH),
    )  # fmt: skip


def by_clarabel(dynamics: Dynamics, rows: Rows, unit):
    cp = pytest.importorskip("cvxpy")
    m, n = dynamics.M.shape[0], dynamics.mu.size
    a, F = cp.Variable(m), cp.Variable(3 * n)
    J = dynamics.J
    tau = (dynamics.M @ a + dynamics.bias - unit * (J.T @ F)) / unit
    hard = np.isinf(rows.weight)
    constraints = [J @ a == dynamics.d, tau[:6] == 0, rows.A[hard] @ a == rows.y[hard]]
    inside = INSIDE * (dynamics.most - dynamics.least)
    constraints += [unit * tau[6:] >= dynamics.least + inside, unit * tau[6:] <= dynamics.most - inside]
    constraints += [a[6:] >= dynamics.slowest, a[6:] <= dynamics.fastest]
    constraints += [
        cp.multiply((1.0 - INSIDE) * dynamics.mu, F[:n]) + s * F[n : 2 * n] + t * F[2 * n :] >= 0
        for s in (1, -1)
        for t in (1, -1)
    ]
    cost = cp.sum(cp.multiply(rows.joint_weight, cp.square(a[6:] - rows.joints))) + FORCE_WEIGHT * cp.sum_squares(F)
    cost += cp.sum(cp.multiply(rows.weight[~hard], cp.square(rows.A[~hard] @ a - rows.y[~hard])))
    program = cp.Problem(cp.Minimize(cost / 2), constraints)
    program.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return None if a.value is None else a.value[6:]


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
def test_the_demand_within_limits_is_clarabels():
    bound = solved = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        of = moving(rng, speed=0.3)
        rows, J, d = problem(rng, of, ((0, 1, 2, 3), (0, 3), (1,))[seed % 3])
        dynamics, unit, found = limited(of, J, d, 23.0), of.system.mass * 9.81, np.empty(12)
        wanted = by_clarabel(dynamics, rows, unit)
        assert bounded_demand(dynamics, rows, unit, found) == (wanted is not None)
        if wanted is None:
            continue
        solved += 1
        bound += bool(np.abs(found - oracle(rows, *_free(of, J, d))).max() > 1e-3 * np.abs(found).max())
        np.testing.assert_allclose(found, wanted, atol=1e-6 * np.abs(wanted).max())  # Clarabel's own accuracy
    assert solved >= 8
    assert bound >= 4, "limits matter in too few of these programs"


def _free(of: Moving, J, d):
    balance, constants = balance_rows(of.system.M, of.system.bias, J, 6, HEAP)
    return np.vstack([J, balance]), np.r_[d, constants]


def test_there_is_no_motion_if_contacts_need_more_than_motors_can():
    rng = np.random.default_rng(0)
    of = moving(rng, speed=0.0)
    rows, J, d = problem(rng, of, (0, 1, 2, 3))
    d[:4] += 1e3  # the feet are to rise with 1 km/s²
    assert not bounded_demand(limited(of, J, d, 23.0), rows, of.system.mass * 9.81, np.empty(12))
