r"""Derivatives of a control step: implicit differentiation of the problems that the step solved.

The step is a chain of small problems (`idcontrol.controllers.step`). Each is linearized at its solution, on the set of
constraints that are active there, and the results are multiplied. The P parameters are the state, the reference, the
desired accelerations of tasks, gains, torque limits, and friction. Derivatives have one column per parameter
(`equations.Columns`).

1. *demand* and *target*: differentiated directly.
2. *projection*: ``min ½ |v_q - b|²_W`` subject to ``J v = d``: its optimality conditions are linear equations. With
   tasks, the program of their demand replaces this program (`idcontrol.controllers.gradient.tasks`).
3. *motion*: ``M_b v⁺ + κ_b = J_bᵀ y`` with, at each contact, ``y = B ξ`` and ``R (u + D y) = 0``, where u = J v⁺ - d.
   The rows b are the unknown velocities: unactuated velocities and released joints. B are directions of the impulse, R
   the rows that the contact law holds, D the compliance of the model. At a sticking contact B and R are the identity;
   at a sliding contact B consists of edges of the pyramid, or turns with the slip on a circle.
4. *impulses*: stage II, a quadratic program over the impulses of this motion (`idcontrol.models.distribution`), on the
   face of the cones that its solution lies in. Without stage II, the contact model chooses the impulses.

The terms and their derivatives are exact (`idcontrol.dynamics.derivatives`, `idcontrol.contact.sensitivity`).

Source: Amos & Kolter 2017, OptNet, section 3.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pinocchio as pin

from idcontrol.controllers.gradient.choice import Chosen, Solved, choose, velocity_of, yielding_of
from idcontrol.controllers.gradient.demand import bound_slope, demand, held_slope, momentum, projection, target
from idcontrol.controllers.gradient.equations import BY, least_squares
from idcontrol.controllers.gradient.impulses import (
    Goal,
    Shared,
    faces,
    raw_impulses,
    share,
    smallest_multiplier,
    torque_unit,
)
from idcontrol.controllers.gradient.motion import (
    PART,
    ROLES,
    SLIDE,
    Motion,
    Moved,
    Sources,
    Yielding,
    contact_roles,
    motion,
)
from idcontrol.controllers.gradient.result import Active, Linearization, Margin
from idcontrol.controllers.gradient.site import NO_ERRORS, Site, visit
from idcontrol.controllers.gradient.tasks import task_demand
from idcontrol.controllers.schemes import Scheme
from idcontrol.controllers.step import COARSE, SLIPS, SOLVED
from idcontrol.dynamics.derivatives import skew
from idcontrol.models.reduced import ALL_EDGES
from idcontrol.types import Array

__all__ = ["Active", "Linearization", "Margin", "Solved", "linearized", "visit"]

EXPLAINED: Final = 1e-6
"""Largest relative error of the conditions that are differentiated; a larger error means that other conditions chose
the solution."""
SINGULAR: Final = "the equations of the step are singular"
"""Reason of a step whose equations have no finite solution."""


def linearized(scheme: Scheme, site: Site, solved: Solved, tau: Array, load: Array) -> Linearization:
    """Return the derivative of a solved step.

    Args:
        scheme: The scheme that solved it.
        site: The robot and its contacts in stance.
        solved: The step and its solution.
        tau: Torques, shape (a,) [N m].
        load: Estimated load on the base, shape (3,) [N].
    """
    if solved.answer.ending not in (SOLVED, COARSE, SLIPS):
        return _unknown(site, solved, tau, "tracking or exactness was relaxed")
    try:
        yielding = yielding_of(scheme, site, solved)
        v_plus = velocity_of(site, solved, compliant=bool(yielding.D.any()))
        chosen = choose(scheme, site, solved, v_plus, yielding)
        result = slopes(site, solved, chosen, v_plus, tau, load)
    except np.linalg.LinAlgError:
        return _unknown(site, solved, tau, SINGULAR)
    if not (np.isfinite(result.tau).all() and np.isfinite(result.f).all() and np.isfinite(result.moved.slope).all()):
        return _unknown(site, solved, tau, SINGULAR)
    reason, together = "", [k for k, name in enumerate((*BY, "friction of all contacts")) if name != "mu"]
    if not (result.moved.error[together] <= EXPLAINED).all():
        reason = "the motion does not follow from its active set"
    elif not (result.error[together] <= EXPLAINED).all():
        reason = "contact forces are not unique, and their choice has no derivative; v_next has one"
    return _packed(site, solved, tau, result, chosen, reason)


class Slopes(NamedTuple):
    """Derivatives of a step with respect to the P parameters (`equations.Columns`).

    Attributes:
        tau: Derivative of the torques, shape (a, P).
        f: Derivative of the impulses, shape (3 n, P).
        moved: The motion.
        shared: Impulses of stage II; None if the impulses are the contact model's.
        missed: Desired minus demanded acceleration of each task row, shape (p,).
        task: Derivative of `missed`, shape (p, P).
        error: Largest relative error of conditions and linear equations, as `Site.errors`.
    """

    tau: Array
    f: Array
    moved: Moved
    shared: Shared | None
    missed: Array
    task: Array
    error: Array


def slopes(site: Site, solved: Solved, chosen: Chosen, v_plus: Array, tau: Array, load: Array) -> Slopes:
    """Return the derivatives of a solved step.

    Args:
        site: The robot and its contacts in stance.
        solved: The step and its solution.
        chosen: The scheme's choice.
        v_plus: Velocity at the end of the period, shape (m,).
        tau: Torques, shape (a,) [N m].
        load: Estimated load on the base, shape (3,) [N].
    """
    joints, step, f = solved.joints, solved.step, solved.f
    m, h, a = site.v.size, site.machine.h, tau.size
    tracked = step.w.fixed - (m - a)
    d = target(site, joints)
    missed, by_task = np.zeros(0), site.zeros(0)
    if site.machine.tasks.targets.kind.size:
        b, missed, by_task, wrong = task_demand(site, joints, demand(site), d, load)
    else:
        b, wrong = projection(site, joints, demand(site), d)
    least, most = bound_slope(site, joints)
    released = np.setdiff1d(np.arange(a), tracked)
    upper = h * tau > 0.5 * (joints.bounds.least + joints.bounds.most)
    bound = np.where(upper[:, None], most, least)
    p = momentum(site, v_plus, load)
    p[m - a + released] -= bound[released]
    raw = f if chosen.raw is None else chosen.raw
    J, w, mu, terms = site.contacts.jacobian, step.w, step.cones.mu, site.terms
    fixed, rest = w.fixed, J @ w.v_free - step.target
    at = Motion(w.free, fixed, w.kappa, rest, step.target, mu, v_plus, raw)
    moved = motion(terms, chosen.law, at, Sources(b[tracked], d, p, chosen.yielding))
    shared, unexplained = None, NO_ERRORS
    if chosen.cone is None:
        f_slope, unexplained = raw_impulses(site, step, f, moved, chosen.kept)
    else:
        goal = held_slope(site, joints)[tracked]
        if chosen.raw is not None:
            own, unexplained = raw_impulses(site, step, chosen.raw, moved, chosen.kept)
            goal += moved.p[fixed] - site.rows_transposed(chosen.raw)[fixed] - J[:, fixed].T @ own
        bounds, (typical, unit) = step.bounds, torque_unit(site, step, slope=bool(step.cones.weight.any()))
        stage = Goal(
            free=w.free,
            fixed=fixed,
            kappa=w.kappa,
            mu=mu,
            weight=step.cones.weight,
            cone=chosen.cone,
            f=f,
            reference=chosen.reference,
            slope=goal,
            least=bounds.least,
            most=bounds.most,
            least_slope=least[tracked],
            most_slope=most[tracked],
            typical=typical,
            typical_slope=unit,
        )
        shared = share(terms, stage, v_plus, moved.p)
        f_slope, unexplained = shared.slope, np.maximum(unexplained, shared.error)
    out = bound.copy()
    out[tracked] = moved.p[fixed] - site.rows_transposed(f)[fixed] - J[:, fixed].T @ f_slope
    error = np.maximum(np.maximum(wrong, moved.error), unexplained)
    return Slopes(out / h, f_slope, moved, shared, missed, by_task, error)


def _packed(site: Site, solved: Solved, tau: Array, result: Slopes, chosen: Chosen, reason: str) -> Linearization:
    """Return the derivatives as a `Linearization`: forces in world axes, velocities in Pinocchio's layout."""
    n, h, f, order, at = len(site.contacts), site.machine.h, solved.f, site.system.order, site.columns
    force = np.einsum("ai,iax->ix", f.reshape(3, n), site.contacts.axes) / h
    force_slope = np.einsum("aip,iax->ixp", result.f.reshape(3, n, at.total), site.contacts.axes) / h
    force_slope[:, :, at.q] += np.einsum("ai,iaxl->ixl", f.reshape(3, n), site.rows.axes) / h
    v_next, v_slope = _turned(site, result.moved.v_plus, result.moved.slope)
    laid_out = np.arange(at.total)
    for block in (at.q, at.v):
        laid_out[block.start + order] = np.arange(block.start, block.stop)
    outputs = {"tau": result.tau, "force": force_slope.reshape(3 * n, at.total), "v_next": v_slope, "task": result.task}
    return Linearization(
        identity=site.contacts.identity.copy(),
        tau=tau.copy(),
        force=force,
        v_next=v_next,
        task=result.missed,
        active=_active(solved, result.moved, result.shared),
        margin=_margin(site, solved, result.moved, result.shared, chosen),
        reason=reason,
        error=dict(zip(BY, result.error[:-1].tolist(), strict=True)),
        slopes={name: slope[:, laid_out] for name, slope in outputs.items()},
        columns={name: getattr(at, name) for name in BY},
    )


def _turned(site: Site, v_plus: Array, slope: Array) -> tuple[Array, Array]:
    """Return v⁺ in Pinocchio's layout and in the body's final axes, as `System.advance` does, and its derivative."""
    system, h = site.system, site.machine.h
    v, out = v_plus.copy(), slope.copy()
    for rows in system.flyer_rows:
        linear, angular = rows[:3], rows[3:]
        R = pin.exp3(h * v_plus[angular])
        v[linear] = R.T @ v_plus[linear]
        out[linear] = R.T @ slope[linear] + skew(v[linear]) @ pin.Jexp3(h * v_plus[angular]) @ (h * slope[angular])
    back = np.argsort(system.order)
    return v[back], out[back]


def _active(solved: Solved, moved: Moved, shared: Shared | None) -> Active:
    """Return the active set of a step."""
    a, tracked = solved.joints.b.size, solved.step.w.fixed - (solved.step.w.M.shape[0] - solved.joints.b.size)
    joints = np.full(a, "released", dtype=object)
    joints[tracked] = "free"
    if shared is not None:
        joints[tracked[shared.at.bounded]] = "bound"
    return Active(tuple(ROLES[kind] for kind in moved.roles.kind), tuple(joints.tolist()))


def _margin(site: Site, solved: Solved, moved: Moved, shared: Shared | None, chosen: Chosen) -> Margin:
    """Return the distances to the next change of the active set."""
    step, f, h, n = solved.step, solved.f, site.machine.h, len(site.contacts)
    u = site.contacts.jacobian @ moved.v_plus - step.target
    vertex, kept = f if shared is None else chosen.raw, chosen.kept  # None: stage II alone chooses the forces
    scale = 0.0 if vertex is None else np.abs(vertex).max(initial=0.0)
    force = speed = np.inf
    if vertex is not None:
        force = faces(np.full(n, ALL_EDGES), vertex, np.minimum(step.cones.mu, 1e6), scale).distance
    for i, kind in enumerate(moved.roles.kind):
        slip = float(np.abs(u[i::n][1:]).max())
        if vertex is not None and kind != PART and not vertex[i::n].any():  # another vertex may load this contact
            force = 0.0
        if kind == PART:
            speed = min(speed, float(u[i]))
        elif kind == SLIDE:
            speed = min(speed, slip, abs(slip - step.cones.v_tol))
    s = (site.system.M @ moved.v_plus + step.w.kappa)[step.w.fixed] - site.contacts.jacobian[:, step.w.fixed].T @ f
    room = np.minimum(step.bounds.most - s, s - step.bounds.least)
    if shared is not None:
        force, room = min(force, shared.at.faces.distance), np.delete(room, shared.at.bounded)
    if vertex is not None and kept is not None and kept.size:
        force = min(force, float(np.abs(np.linalg.lstsq(kept, vertex, rcond=None)[0]).min()))
    multiplier = np.inf
    if shared is not None and chosen.cone is not None:
        multiplier = smallest_multiplier(site.contacts.jacobian, chosen.cone, step.cones.mu, shared.at)
    return Margin(force / h, speed, float(room.min(initial=np.inf)) / h, multiplier)


def _unknown(site: Site, solved: Solved, tau: Array, reason: str) -> Linearization:
    """Return a linearization without a derivative: zeros, and the reason."""
    f = solved.f if solved.answer.ending >= 0 else np.zeros_like(solved.f)
    pushed = site.contacts.jacobian.T @ f - solved.joints.w.kappa
    pushed[site.v.size - tau.size :] += site.machine.h * tau
    v_plus = least_squares(site.system.M, pushed[:, None])[:, 0]
    n = len(site.contacts)
    still, wrong = site.zeros(v_plus.size), np.full(NO_ERRORS.size, np.inf)
    solved, none = solved._replace(f=f), contact_roles(0, np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0), False)
    moved = Moved(v_plus, still, still, f, site.zeros(3 * n), none, wrong)
    rows = site.columns.task.stop - site.columns.task.start
    result = Slopes(site.zeros(tau.size), site.zeros(3 * n), moved, None, np.zeros(rows), site.zeros(rows), wrong)
    nothing = Yielding(np.zeros(3 * n), site.zeros(3 * n))
    chosen = Chosen(0, None, solved.step.held, None, nothing, None)
    return _packed(site, solved, tau, result, chosen, reason)
