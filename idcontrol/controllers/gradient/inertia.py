"""How inertial parameters of bodies act on a step: as forces, and through the metric of the projection."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pinocchio as pin

from idcontrol.controllers.gradient.chain import Slopes
from idcontrol.controllers.gradient.site import Solved
from idcontrol.controllers.step import AssembledStep, Machine
from idcontrol.dynamics.system import System
from idcontrol.kernels.bound import unbind
from idcontrol.types import Array


class Changes(NamedTuple):
    """Derivatives by the k inertial parameters: ten per body, as in `pinocchio.computeJointTorqueRegressor`.

    Attributes:
        force: Of ``M a + c`` at the acceleration of the step, in Pinocchio's layout, shape (m, k).
        turn: Of ``M_qq x`` for the change x of the joint velocities by the projection, shape (a, k); empty if the
            velocities are not projected.
        unit: Of the unit of the weights of impulses in stage II, shape (1, k).
        held: Of the impulses of internal forces, shape (a, k); empty if there are none.
    """

    force: Array
    turn: Array
    unit: Array
    held: Array


def joint_forces(system: System, q: Array, v: Array, v_plus: Array, h: float) -> Array:
    """Return the derivative of ``M (v⁺ - v) / h + c`` by inertial parameters, in Pinocchio's layout, shape (m, k).

    Args:
        system: The robot.
        q: Configuration, shape (nq,).
        v: Velocity in Pinocchio's layout, shape (m,).
        v_plus: Velocity at the end of the step, in the system's order and in the axes at its beginning, shape (m,).
        h: Length of the step [s].
    """
    acceleration = (system.to_pinocchio(v_plus) - v) / h
    for k in system.flyer_v.tolist():  # Pinocchio's is in axes that turn
        acceleration[k : k + 3] -= np.cross(v[k + 3 : k + 6], v[k : k + 3])
    return pin.computeJointTorqueRegressor(system.model, system.model.createData(), q, v, acceleration)


def changes(system: System, machine: Machine, solved: Solved, slopes: Slopes) -> Changes:
    """Return how inertial parameters act on a step with the derivatives `slopes`."""
    q, v, h = machine.inputs.q, machine.inputs.v, machine.h
    m, a, rest = system.n_velocities, system.n_actuated, np.zeros(system.n_velocities)
    weight = joint_forces(system, q, rest, rest, h)

    def of_inertia(x: Array) -> Array:
        """Return the derivative of M x in the system's order, shape (m, k)."""
        return (joint_forces(system, q, rest, h * x, h) - weight)[system.order]

    turn, held = np.zeros((0, weight.shape[1])), np.zeros((0, weight.shape[1]))
    if slopes.away.size:
        turn = of_inertia(np.concatenate((np.zeros(m - a), slopes.away)))[m - a :]
    if slopes.at.load > slopes.at.held:
        step, held = unbind(solved.joints), np.zeros((a, weight.shape[1]))
        w, J = step.w, step.contacts.jacobian
        responses = np.linalg.solve(system.M[np.ix_(w.free, w.free)], J[:, w.free].T).T
        square, n, x = np.einsum("rf,rf->r", J[:, w.free], responses), J.shape[0] // 3, np.zeros(m)
        own = np.zeros_like(slopes.held[0])
        for r in np.flatnonzero(square > 0.0):
            through = J[r, m - a :] ** 2 / (n * square[r])
            x[w.free] = responses[r]
            own += through
            held += np.outer(through / square[r], x @ of_inertia(x))
        # slopes.held[1] is the impulse per kp, which is proportional to the inertia `own` that a joint moves
        held *= np.divide(machine.joints.kp * slopes.held[1], own, out=np.zeros(a), where=own > 0.0)[:, None]
    unit = np.zeros(weight.shape[1])
    for free, sway in _sways(system.M, unbind(solved.step)):
        unit += of_inertia(sway)[free]
    return Changes(joint_forces(system, q, v, slopes.v_plus, h), turn, np.reshape(unit, (1, -1)), held)


def _sways(M: Array, step: AssembledStep) -> list[tuple[int, Array]]:
    """Return pairs (f, x) such that the unit of the weights of impulses changes by ``Σ (dM x)_f`` (`torque_unit`)."""
    free, fixed, J = step.w.free, step.w.fixed, step.contacts.jacobian
    if not len(J):
        return []
    M_free, directions = M[np.ix_(free, free)], np.zeros((len(M), fixed.size))
    directions[free] = np.linalg.solve(M_free, M[np.ix_(free, fixed)])
    directions[fixed, np.arange(fixed.size)] = -1.0
    sways = np.linalg.solve(M_free, J[:, free].T @ (J @ directions)) @ directions.T
    return list(zip(free.tolist(), -2.0 / len(J) * sways, strict=True))
