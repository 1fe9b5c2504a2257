"""Grasp feasibility: decides if a hand can hold a body throughout a planned motion, within friction and torque limits.

At each instant of the plan the body moves with the hand, so the plan determines all accelerations, and hence

    J_bᵀ f = (M v̇ + c)_b,        τ = (M v̇ + c)_q - J_qᵀ f,        |f_S| + |f_T| ≤ μ f_N,        |τ| ≤ limit

with friction pyramids as in the rigid contact models; a cone would allow more. A linear program of 3n + 1 variables
decides whether such forces exist, and how much grip is needed. The program is solved before any motion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pinocchio as pin
from scipy.optimize import linprog

from idcontrol.contact.contacts import Detector
from idcontrol.dynamics.system import System
from idcontrol.types import Array, Booleans, Reference

MU_PRECISION = 1e-3
"""Relative precision of `least_friction`."""

MU_LARGEST = 100.0
"""Largest friction coefficient in `least_friction`; the original program used this value for "no slip"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraspLoad:
    """The forces that n contacts and the motors must provide at one instant of the plan, and the contact Jacobian.

    Attributes:
        N: Rows of the Jacobian along the normals, shape (n, m).
        S: Rows along the first tangents, shape (n, m).
        T: Rows along the second tangents, shape (n, m).
        effort: Generalized forces ``M v̇ + c``, shape (m,) [N, N m].
    """

    N: Array
    S: Array
    T: Array
    effort: Array


def grasp_loads(system: System, contacts: Detector, plan: Sequence[Reference], held: str, hand: str) -> list[GraspLoad]:
    """Return the load at each instant of `plan`; the body keeps its initial pose in the hand.

    Args:
        system: Hand and body, updated to the beginning of the plan; this function leaves it at the end of the plan.
        contacts: Detector of the fingertips on `system`.
        plan: References at instants of the motion, with the fingers at home.
        held: Name of the body's joint.
        hand: Name of the joint that carries the hand.
    """
    model, data = system.model, system.data
    i, j = model.getJointId(hand), model.getJointId(held)
    inside = data.oMi[i].actInv(data.oMi[j])
    at_q, at_v = model.joints[j].idx_q, model.joints[j].idx_v
    u, loads = system.n_unactuated, []
    ours = np.zeros(system.n_velocities)
    for wanted in plan:
        q = system.configuration(wanted.q)
        ours[u:] = wanted.v
        v = system.to_pinocchio(ours)
        ours[u:] = wanted.a
        a = system.to_pinocchio(ours)
        pin.forwardKinematics(model, data, q, v, a)
        velocity, acceleration = inside.actInv(data.v[i]), inside.actInv(data.a[i])
        q[at_q : at_q + 7] = pin.SE3ToXYZQUAT(data.oMi[i] * inside)
        v[at_v : at_v + 6] = velocity.vector
        a[at_v : at_v + 6] = acceleration.vector
        a[at_v : at_v + 3] += np.cross(velocity.angular, velocity.linear)  # classical acceleration, as in `System.bias`
        system.update(q, v)
        touching = contacts.detect(np.inf)
        effort = system.M @ system.from_pinocchio(a) + system.bias
        loads.append(GraspLoad(N=touching.N.copy(), S=touching.S.copy(), T=touching.T.copy(), effort=effort))
    return loads


def least_grip(load: GraspLoad, mu: float, fingers: Booleans, limit: Array) -> float:
    """Return the smallest common torque bound of the fingers that suffices for a load.

    Args:
        load: The load.
        mu: Friction coefficient; inf means no slip.
        fingers: True for actuated joints that belong to fingers, shape (a,).
        limit: Largest torques, shape (a,) [N m]; inf for no limit.

    Returns:
        The bound [N m, or N for fingers on prismatic joints]; inf if no bound suffices.
    """
    n, a = len(load.N), len(limit)
    u = load.effort.size - a
    J = np.vstack([load.N, load.S, load.T])
    effort = load.effort[u:]
    bounded = np.isfinite(limit)
    zero, one = np.zeros((a, 1)), np.ones((int(fingers.sum()), 1))
    # J_qᵀ f - effort = -τ
    pull = J[:, u:].T
    rows = [np.hstack([sign * pull, zero])[bounded] for sign in (1.0, -1.0)]
    most = [(limit + sign * effort)[bounded] for sign in (1.0, -1.0)]
    rows += [np.hstack([sign * pull[fingers], -one]) for sign in (1.0, -1.0)]
    most += [sign * effort[fingers] for sign in (1.0, -1.0)]
    if np.isfinite(mu):
        each, nothing = np.eye(n), np.zeros((n, 1))
        rows += [np.hstack([-mu * each, s * each, t * each, nothing]) for s in (1.0, -1.0) for t in (1.0, -1.0)]
        most += [np.zeros(n)] * 4
    solved = linprog(
        np.append(np.zeros(3 * n), 1.0),
        A_ub=np.vstack(rows),
        b_ub=np.concatenate(most),
        A_eq=np.hstack([J[:, :u].T, np.zeros((u, 1))]),
        b_eq=load.effort[:u],
        bounds=[(0.0, None)] * n + [(None, None)] * (2 * n) + [(0.0, None)],
        method="highs",
    )
    return float(solved.fun) if solved.status == 0 else np.inf


def grip_needed(plan: Sequence[GraspLoad], mu: float, fingers: Booleans, limit: Array) -> float:
    """Return the largest `least_grip` of a plan [N m or N]; inf if the body cannot be held at some instant."""
    return max(least_grip(load, mu, fingers, limit) for load in plan)


def least_friction(plan: Sequence[GraspLoad], grip: float, fingers: Booleans, limit: Array) -> float:
    """Return the smallest friction with which finger torques of at most `grip` hold the body throughout a plan.

    The necessary grip never grows with friction, so the friction is found by bisection. The arguments are as for
    `grip_needed`, and `grip` is in N m or N.

    Returns:
        The friction coefficient; inf if none up to `MU_LARGEST` suffices.
    """
    low, high = 0.0, MU_LARGEST
    if grip_needed(plan, high, fingers, limit) > grip:
        return np.inf
    while high - low > MU_PRECISION * high:
        middle = np.sqrt(low * high) if low > 0.0 else 0.5 * high
        if grip_needed(plan, middle, fingers, limit) > grip:
            low = middle
        else:
            high = middle
    return high
