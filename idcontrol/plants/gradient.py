"""Derivative of a plant's step, by the equations of a control step's derivative (`idcontrol.controllers.gradient`).

In forward mode no velocity is prescribed, and motor impulses are part of κ. So the step consists of item 3 (*motion*)
in the list of that module.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import pinocchio as pin

from idcontrol.contact.contacts import Contacts
from idcontrol.contact.sensitivity import row_derivatives
from idcontrol.contact.spheres import SphereContacts
from idcontrol.controllers.gradient.chain import Limits, turned, world_forces
from idcontrol.controllers.gradient.choice import support
from idcontrol.controllers.gradient.demand import surface_slope
from idcontrol.controllers.gradient.equations import EXPLAINED, Terms, least_squares
from idcontrol.controllers.gradient.impulses import no_optimum, raw_impulses
from idcontrol.controllers.gradient.inertia import joint_forces
from idcontrol.controllers.gradient.margin import margin
from idcontrol.controllers.gradient.motion import NO_SLIP, ROLES, Motion, Moved, Sources, Yielding, motion
from idcontrol.controllers.gradient.result import SINGULAR, Active, Linearization, Part
from idcontrol.dynamics.derivatives import inverse_dynamics, motions, skew, turn_by
from idcontrol.dynamics.system import System
from idcontrol.kernels.placements import placement_views
from idcontrol.models import coulomb, coulomb_cone, no_slip
from idcontrol.models.distribution import CIRCLE, COULOMB
from idcontrol.models.step import PUSH_OUT_SPEED, ContactModel
from idcontrol.plants.parts import STICK_RAD_S
from idcontrol.types import Array, Integers, State

LAWS: Final[Mapping[ContactModel, int]] = {coulomb.solve: COULOMB, coulomb_cone.solve: CIRCLE, no_slip.solve: NO_SLIP}
"""Contact models whose steps have derivatives, with their law for `controllers.gradient.motion.contact_roles`."""
BY: Final = {"q": 0, "normal": 1, "v": 2, "load": 3, "tau": 3, "inertia": 3, "mu": 4}
"""Names of the parameters that a step is differentiated by, with their block of variables: configuration, normals of
the contacts, velocity, generalized forces, friction."""


class Stepped(NamedTuple):
    """A step of a plant and its solution.

    Attributes:
        h: Length of the step [s].
        state: The state at its beginning; the system is updated at it, with the friction of the joints.
        contacts: The n contacts.
        tau: Torques, shape (a,) [N m].
        v_plus: Velocity at its end, in the system's order, shape (m,).
        f: Impulses, shape (3 n,) [N s].
        law: Law of the contacts (`idcontrol.controllers.gradient.motion.contact_roles`).
    """

    h: float
    state: State
    contacts: Contacts
    tau: Array
    v_plus: Array
    f: Array
    law: int


def linearized(system: System, spheres: SphereContacts, step: Stepped) -> Linearization:
    """Return the derivative of a plant's step; `spheres` detected its contacts."""
    contacts, h, v = step.contacts, step.h, system.from_pinocchio(step.state.v)
    n, m, a = len(contacts), v.size, step.tau.size
    bodies = 10 * (system.model.njoints - 1)
    rows = row_derivatives(spheres, contacts, motions(system, placement_views(system.data.oMi), v))
    ends = np.cumsum([m, 2 * n, m, m, n])
    p, d, w = _momentum(system, step, v, ends), np.zeros((3 * n, ends[-1])), ends[1]
    d[:, :w] = surface_slope(contacts.axes, rows.axes, contacts.surface_velocity)
    closing = contacts.gap / h > -PUSH_OUT_SPEED
    d[:n, :w] += np.where(closing, -1.0 / h, 0.0)[:, None] * rows.gap
    target = _target(contacts, h)
    kappa = h * system.bias - system.M @ v
    kappa[m - a :] -= h * step.tau
    terms = Terms(system.M.copy(), contacts.jacobian.copy(), rows.jacobian, np.ones((n, m), dtype=np.bool_), ends)
    rest = terms.J @ least_squares(terms.M, -kappa[:, None])[:, 0] - target
    kept = support(step.law, contacts.mu, np.zeros(n, dtype=np.int64), step.f)
    rigid = Yielding(np.zeros(3 * n), np.zeros((3 * n, ends[-1])))
    at = Motion(np.arange(m), np.zeros(0, dtype=np.int64), kappa, rest, target, contacts.mu.copy(), step.v_plus, step.f)
    moved = motion(terms, step.law, at, Sources(np.zeros((0, ends[-1])), d, p, rigid), False)
    f_slope, unexplained = raw_impulses(terms, at.free, step.f, moved, kept)
    force, force_slope = world_forces(contacts.axes, rows.axes, step.f, f_slope)
    back = np.argsort(system.order)
    normals, mu = np.arange(m, w), np.arange(ends[3], ends[4])
    users = np.concatenate((back, normals, w + back, w + m + back, mu))  # Pinocchio's layout
    v_next, v_slope = turned(system.flyer_rows, h, step.v_plus, moved.slope)
    u = terms.J @ step.v_plus - target
    limits = Limits(
        step.law, False, True, True, 0.0, moved.roles, contacts.mu.copy(), np.zeros(n, dtype=np.int64), u,
        np.zeros(3 * n), step.f, kept, terms.J, no_optimum(), False, _jump(system, contacts.gap / h, v),
    )  # fmt: skip
    error = np.maximum(moved.error, unexplained)
    return Linearization(
        identity=contacts.identity.copy(),
        tau=step.tau.copy(),
        force=force / h,
        v_next=v_next[back],
        task=np.zeros(0),
        active=Active(tuple(ROLES[kind] for kind in moved.roles.kind), ("free",) * a),
        room=partial(margin, limits, h),
        reason=_reason(moved, unexplained, v_slope),
        error={by: float(error[block]) for by, block in BY.items()},
        slopes={
            "force": force_slope[:, users] / h,
            "v_next": v_slope[back][:, users],
            "q_next": _configuration(system, step, moved.slope[back][:, users]),
        },
        sizes=dict(zip(BY, (m, 2 * n, m, m, a, bodies, n), strict=True)),
        missing={},
        parts=partial(_parts, system, step, ends),
    )


def _target(contacts: Contacts, h: float) -> Array:
    """Return the velocity of the surface, plus the velocity that closes each gap in a step of `h` [s], shape (3 n,)."""
    target: Array = contacts.surface_velocity.copy()
    target[: len(contacts)] -= np.maximum(contacts.gap / h, -PUSH_OUT_SPEED)
    return target


def _jump(system: System, closing: Array, v: Array) -> float:
    """Return the smallest change of a velocity at which derivatives jump: of a gap's correction, or of dry friction.

    Args:
        system: The robot.
        closing: Gap of each contact, divided by the length of the step, shape (n,) [m/s].
        v: Velocity, shape (m,).
    """
    out = np.abs(closing + PUSH_OUT_SPEED).min(initial=np.inf)
    if system.actuators is not None:
        speed = np.abs(v[v.size - system.n_actuated :])[system.actuators.friction > 0.0]
        out = np.abs(speed - STICK_RAD_S).min(initial=out)
    return float(out)


def _parts(system: System, step: Stepped, ends: Integers, by: str) -> tuple[Part, ...]:
    """Return how the parameter `by` acts through the variables."""
    block = BY[by]
    first, m = ends[block - 1] if block else 0, step.v_plus.size
    if by == "tau":
        return (Part(0, first + system.order[m - step.tau.size :]),)
    columns = slice(first, ends[block])
    if by != "inertia":
        return (Part(0, columns),)
    regressor = joint_forces(system, step.state.q, step.state.v, step.v_plus, step.h)
    return (Part(0, columns, -regressor),)  # the forces that the inertia needs are missing elsewhere


def _configuration(system: System, step: Stepped, slope: Array) -> Array:
    """Return the derivative by P parameters of the configuration at the step's end, as tangents there, shape (m, P).

    Free-flyers move in a straight line (`System.advance`), unlike in Pinocchio.

    Args:
        system: The robot.
        step: The step.
        slope: Derivative of v⁺ in Pinocchio's layout, in the axes of the beginning of the step, shape (m, P).
    """
    h, m, v = step.h, slope.shape[0], system.to_pinocchio(step.v_plus)
    by_q, by_v = pin.dIntegrate(system.model, step.state.q, h * v)
    out = by_v @ (h * slope)
    out[:, :m] += by_q
    moves = h * slope
    moves[:, :m] += np.eye(m)
    for k in system.flyer_v.tolist():
        linear, angular = slice(k, k + 3), slice(k + 3, k + 6)
        R, J = turn_by(h * v[angular])
        out[linear] = moves[linear]
        out[linear, angular] -= h * skew(v[linear])
        out[linear], out[angular] = R.T @ out[linear], J @ (h * slope[angular])
        out[angular, angular] += R.T
    return out


def _reason(moved: Moved, unexplained: Array, v_slope: Array) -> str:
    """Return the reason why all or some slopes are not derivatives, as in `Linearization.reason`; "" if all are."""
    together = [BY["q"], BY["v"], BY["load"], -1]  # forces may jump with friction or normal of one contact
    if not np.isfinite(v_slope).all():
        return SINGULAR
    if not (moved.error[together] <= EXPLAINED).all():
        return "the motion does not follow from its active set"
    if not (unexplained[together] <= EXPLAINED).all():
        return "contact forces are not unique, and their choice has no derivative; v_next and q_next have one"
    return ""


def _momentum(system: System, step: Stepped, v: Array, ends: Integers) -> Array:
    """Return the derivative of ``M v⁺ + κ`` by P parameters at constant v⁺, shape (m, P)."""
    h, v_plus, a, m, M = step.h, step.v_plus, step.tau.size, v.size, system.M.copy()
    at_v, load = ends[1], ends[2]
    by_q, by_v = inverse_dynamics(system, step.state.q, v, (v_plus - v) / h)
    out, joints = np.zeros((m, ends[-1])), np.arange(m - a, m)
    if system.actuators is not None:  # `parts.brake` adds h D v⁺, and h D to M; explicit dry friction is constant
        friction, speed, armature = system.actuators.friction, np.abs(v[joints]), system.actuators.armature
        most = np.maximum(speed, STICK_RAD_S)
        implicit = np.where((speed > STICK_RAD_S) & (armature * speed > h * friction), 0.0, friction)
        M[joints, joints] -= h * (system.actuators.damping + implicit / most)
        falls = np.where(speed > STICK_RAD_S, -implicit / most**2 * np.sign(v[joints]), 0.0)
        out[joints, at_v + joints] = h * falls * v_plus[joints]
    out[:, :m] = h * by_q
    out[:, at_v:load] += h * by_v - M
    out[:, load : load + m] = -h * np.eye(m)
    return out
