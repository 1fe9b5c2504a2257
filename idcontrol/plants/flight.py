r"""Free flight in which only weight changes the momenta, to rounding.

A step in contact uses the gyroscopic terms at its beginning. In the air, such steps of 1 ms would let a box at 20 rad/s
gain 2 % of its energy and lose 1 % of its angular momentum within a second. But in the air the momenta of a robot are
known in advance: weight changes the linear momentum, and the angular momentum about the centre of mass is constant.
Joints move as in the ordinary step. The floating base then gets the velocity at which the whole robot has these momenta
in the final pose, and the position that keeps the centre of mass on its parabola. The base rotates by the mean of its
initial and final angular velocities,

    R⁺ = R exp(h (ω + ω⁺)/2),     M_bb(q⁺) v_b⁺ = momenta - M_bj(q⁺) v_j⁺

M_bb are the base's rows and columns of the inertia M, and M_bj its rows for the joints. Angular velocities ω are in
body axes. These equations are implicit in ω⁺ and solved by fixed-point iteration. For one rigid body the method is
symmetric and of second order: the energy oscillates and does not drift. With moving joints the energy drifts at first
order in h.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pinocchio as pin

from idcontrol.contact.contacts import Contacts
from idcontrol.dynamics.system import System, rotate
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign, cholesky, solve_lower, solve_lower_transposed
from idcontrol.types import Array, Integers

SETTLED: Final = 1e-12
"""Relative change of the base's angular velocity at which the iteration ends."""
MOST_REPETITIONS: Final = 20
"""Limit of iterations. Each iteration multiplies the error by about h ω, so three or four are usual. The momenta are
exact after each iteration."""


class Flight(NamedTuple):
    """The n flying bases: their motion at the step's beginning, and their momenta, including all links, at its end.

    Attributes:
        at_q: First index of each base in Pinocchio's configuration, shape (n,).
        at_v: First index of each base in Pinocchio's velocity, shape (n,).
        spin: Angular velocity at the step's beginning, body axes, shape (n, 3) [rad/s].
        centre: Centre of mass at the step's end, world frame, shape (n, 3) [m].
        linear: Linear momentum at the step's end, world axes, shape (n, 3) [kg m/s].
        angular: Angular momentum about the centre of mass at the step's end, world axes, shape (n, 3) [kg m²/s].
    """

    at_q: Integers
    at_v: Integers
    spin: Array
    centre: Array
    linear: Array
    angular: Array


def untouched(system: System, contacts: Contacts, impulses: Array) -> Integers:
    """Return the indices in `System.flyer_q` of free-flyers without an impulse on themselves or on any of their links.

    Args:
        system: The robot.
        contacts: The n contacts of the robot.
        impulses: Impulses of the contacts, shape (n, 3) [N s].
    """
    pushed = np.abs(contacts.jacobian.T) @ np.abs(impulses.T.ravel())
    return np.flatnonzero(~pushed[system.flyer_rows].any(axis=1))


def fly(system: System, q: Array, v: Array, v_plus: Array, h: float, flying: Integers) -> tuple[Array, Array]:
    """Run `System.advance` for a robot, except for the free-flyers in `flying`: only weight changes their momenta.

    Args:
        system: The robot, updated at q and v.
        q: Configuration at the step's beginning, shape (nq,).
        v: Velocity at the step's beginning, shape (nv,), in Pinocchio's layout.
        v_plus: Velocity at the step's end by the explicit step, shape (m,).
        h: Length of the step [s].
        flying: Indices of the flying free-flyers in `System.flyer_q`.

    Returns:
        The new configuration, shape (nq,), and velocity, shape (nv,), both in Pinocchio's layout.
    """
    at_q, at_v = system.flyer_q[flying], system.flyer_v[flying]
    gravity = np.asarray(system.model.gravity.linear)
    flight = _begin(system.M, system.order, q, v, at_q, at_v, gravity, h)
    mean = v_plus.copy()
    turning = system.flyer_rows[flying, 3:]
    mean[turning] = 0.5 * (flight.spin + v_plus[turning])
    for _ in range(MOST_REPETITIONS):
        q_next, v_next = system.advance(q, v_plus, h, mean=mean)
        M = pin.crba(system.model, system.scratch, q_next)
        if _settle(flight, M, q_next, v_next, turning, mean) <= SETTLED:
            break
    return q_next, v_next


@njit(cache=True, error_model="numpy")
def _begin(
    M: Array, order: Integers, q: Array, v: Array, at_q: Integers, at_v: Integers, gravity: Array, h: float
) -> Flight:  # pragma: no cover - compiled
    """Compute the momenta at the end of a step; M in the system's order, q and v in Pinocchio's layout."""
    n, m = at_q.size, v.size
    spin, centre, linear, angular = np.empty((n, 3)), np.empty((n, 3)), np.empty((n, 3)), np.empty((n, 3))
    momentum, arm, along = np.empty(6), np.empty(3), np.empty(3)
    for i in range(n):
        first = 0  # the flyer's six velocities are consecutive in both orders
        while order[first] != at_v[i]:
            first += 1
        for a in range(6):
            momentum[a] = 0.0
            for j in range(m):
                momentum[a] += M[first + a, j] * v[order[j]]
        mass = _centre(M[first : first + 6, first : first + 6], arm)
        turn = q[at_q[i] + 3 : at_q[i] + 7]
        _cross(arm, momentum, along)
        for d in range(3):
            spin[i, d] = v[at_v[i] + 3 + d]
            along[d] = momentum[3 + d] - along[d]
        rotate(turn, along, angular[i])
        rotate(turn, momentum[:3], linear[i])
        rotate(turn, arm, centre[i])
        for d in range(3):
            linear[i, d] += h * mass * gravity[d]
            centre[i, d] += q[at_q[i] + d] + h / mass * linear[i, d]
    return Flight(at_q, at_v, spin, centre, linear, angular)


@njit(cache=True, error_model="numpy")
def _settle(
    flight: Flight, M: Array, q: Array, v: Array, turning: Integers, mean: Array
) -> float:  # pragma: no cover - compiled
    """Write positions and velocities of the bases into q and v, and their mean angular velocities into `mean`.

    `turning` has the places of these angular velocities in `mean`. M is the inertia at q; q, v and M are in Pinocchio's
    layout. Return the largest change of an angular velocity in `mean`, relative to the largest angular velocity.
    """
    inertia, L, x = np.empty((6, 6)), np.zeros((6, 6)), np.empty(6)
    back, linear, arm, along = np.empty(4), np.empty(3), np.empty(3), np.empty(3)
    change, largest = 0.0, 0.0
    for i in range(flight.at_q.size):
        at_q, at_v = flight.at_q[i], flight.at_v[i]
        _centre(M[at_v : at_v + 6, at_v : at_v + 6], arm)
        turn = q[at_q + 3 : at_q + 7]
        rotate(turn, arm, along)
        for d in range(3):
            q[at_q + d] = flight.centre[i, d] - along[d]
            back[d] = -turn[d]
            v[at_v + d] = v[at_v + 3 + d] = 0.0
        back[3] = turn[3]
        rotate(back, flight.linear[i], linear)
        rotate(back, flight.angular[i], along)
        for d in range(3):
            x[d], x[3 + d] = linear[d], along[d]
        _cross(arm, linear, along)
        for a in range(6):
            if a >= 3:
                x[a] += along[a - 3]
            for j in range(v.size):
                x[a] -= M[at_v + a, j] * v[j]
            for b in range(6):
                inertia[a, b] = M[at_v + a, at_v + b]
        cholesky(inertia, L)
        solve_lower(L, x)
        solve_lower_transposed(L, x)
        assign(v[at_v : at_v + 6], x)
        for d in range(3):
            value = 0.5 * (flight.spin[i, d] + v[at_v + 3 + d])
            change = max(change, abs(value - mean[turning[i, d]]))
            largest = max(largest, abs(value))
            mean[turning[i, d]] = value
    return change / largest if largest > 0.0 else 0.0


@njit(cache=True, inner=True, error_model="numpy")
def _centre(inertia: Array, centre: Array) -> float:  # pragma: no cover - compiled
    """Return the mass [kg] of a spatial inertia (6, 6), linear rows first; write its centre of mass, shape (3,) [m]."""
    mass: float = inertia[0, 0]
    centre[0], centre[1], centre[2] = inertia[5, 1] / mass, inertia[3, 2] / mass, inertia[4, 0] / mass
    return mass


@njit(cache=True, inner=True, error_model="numpy")
def _cross(a: Array, b: Array, out: Array) -> None:  # pragma: no cover - compiled
    out[0], out[1], out[2] = a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]
