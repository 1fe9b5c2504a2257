"""Schemes: compute contact and motor impulses of an assembled control step, by a contact model and a second stage.

A compiled scheme is a function of a bound `AssembledStep` (`idcontrol.controllers.step`). It writes the contact
impulses and returns an `Answer`; `control` calls it at its address. Each scheme combines some of these stages, which
can be called separately: `stick`, a contact model, `share`, `unload`, `smooth`.

A step that a compiled scheme does not solve is solved in Python with the same stages (`idcontrol.controllers.relax`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any, Final, Literal, SupportsIndex

import numpy as np
from numba import types

from idcontrol.controllers.repair import ACCURATE, nearest_motion_kernel
from idcontrol.controllers.step import ANSWER, COARSE, MOVED, NO_SOLUTION, SLIPS, SOLVED, Answer, AssembledStep, Solve
from idcontrol.kernels.arena import Arena, flags, matrix, vector, zeros
from idcontrol.kernels.bound import Bound
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign
from idcontrol.kernels.linked import late, linked
from idcontrol.models import constraint, coulomb, coulomb_cone, dissipation, forward, no_slip, sap
from idcontrol.models.constraint import solver as springs
from idcontrol.models.coulomb import continued_lcp_kernel
from idcontrol.models.coulomb_cone import cone_kernel
from idcontrol.models.dissipation import edge_lcp_kernel, one_stage_kernel
from idcontrol.models.distribution import (
    CIRCLE,
    COULOMB,
    DISSIPATION,
    TorqueMap,
    drags,
    missed_law,
    share_kernel,
    shifted,
    smallest_torque_kernel,
    torque_map_kernel,
    within,
)
from idcontrol.models.forward import Attempt
from idcontrol.models.no_slip import DUAL, PIVOTING, SLIP_SPEED, no_slip_kernel, settled_kernel
from idcontrol.models.sap.newton import CONVERGED, UNSETTLED
from idcontrol.models.step import CLOSED_GAP, ContactModel
from idcontrol.models.sticking import CONSISTENT as CONSISTENT_ROLES
from idcontrol.models.whitened import recover_kernel, uncertain
from idcontrol.solvers import status
from idcontrol.solvers.basis import column_basis
from idcontrol.solvers.enumerate import NearestProblem, gap, nearest_kernel, tick_nodes
from idcontrol.types import Array, Booleans

STICKING_RANK: Final = 1e-2
"""Relative length below which `stick` ignores a direction of the whitened contact rows. Without this threshold, forces
of kilonewtons could brace feet that are almost in one plane (math.md, section 4.2)."""

CONSISTENT: Final = 1e-11
"""Largest violation of the contact rows, relative to their constants, that counts as rounding."""

FADES_S: Final = 0.01
"""Time constant with which the last torque, the target of `smooth`, decays [s]: the duration of a landing.

Internal forces do not move the base. Without the decay they would persist into the next stance and would have to be
removed there within a few periods (math.md, section 6.1)."""

STIFF = sap.Parameters(beta=0.1, sigma=1e-4)
"""Ground of `id-sap`, nearly rigid for the whole robot.

SAP's default stiffness is nearly rigid for the mass at a *foot*, whose leg is light. Under the whole robot, such ground
is predicted to sink in every period, and the joints follow this error. While the robot `links` trots, its joints
deviate by 5e-2 rad with the defaults, and by 2e-3 rad with these parameters."""

# --- stages


@njit(cache=True, inner=True, error_model="numpy")
def _sticking_motion(p: AssembledStep, x: Array, arena: Arena) -> float:
    """Write the shortest x with ρx + c = 0; return the residual relative to c, inf if it is not finite.

    If the residual is within rounding, no contact slips or opens with this x.
    """
    rho, c = p.w.rho, p.w.c
    rows, k = rho.shape
    longest, largest = 0.0, 0.0
    for r in range(rows):
        square = 0.0
        for d in range(k):
            square += rho[r, d] * rho[r, d]
        longest, largest = max(longest, square), max(largest, abs(c[r]))
        if k == 0:  # a fixed base: the joints alone satisfy the contacts, so c consists of rounding errors
            terms = 0.0
            for i in range(p.w.v_free.shape[0]):
                terms += abs(p.w.rows[r, i] * p.w.v_free[i])
            largest = max(largest, terms)
    columns, carried = matrix(arena, k, rows), vector(arena, rows)
    for r in range(rows):
        for d in range(k):
            columns[d, r] = rho[r, d]
    assign(carried, c)
    basis, constants = column_basis(columns, carried, STICKING_RANK * np.sqrt(longest), arena)
    x[:] = 0.0
    for j in range(basis.shape[0]):
        for d in range(k):
            x[d] -= constants[j] * basis[j, d]
    miss = 0.0
    for r in range(rows):
        velocity = c[r]
        for d in range(k):
            velocity += rho[r, d] * x[d]
        if not np.isfinite(velocity):
            return np.inf
        miss = max(miss, abs(velocity))
    return miss / largest if largest > 0.0 else miss


@linked
@njit(cache=True, inner=True, error_model="numpy")
def stick(held: Bound, f: Array, arena: Arena) -> Answer:
    """Try the shortcut: if all contacts can stick, stage II alone computes the impulses (docs/theory/sticking.md).

    The projected demand is consistent with contacts that neither slip nor open. If impulses within the friction
    pyramids cause this motion, they solve every model of rigid contact, so no contact problem needs solving.
    """
    p = held.borrowed
    k, p_joints = p.w.rho.shape[1], p.w.fixed.shape[0]
    if p.known.shape[0] > 0 and not np.isnan(p.known[0]):
        assign(f, p.known[: f.shape[0]])
        return Answer(SOLVED, True, p.known[-1], p.known[f.shape[0] : -1], np.nan)
    x = vector(arena, k)
    residual = _sticking_motion(p, x, arena)
    if residual <= CONSISTENT:
        f[:] = 0.0
        torque = torque_map_kernel(p.w, f.shape[0], arena)
        _, at_rest = recover_kernel(p.w, f, arena)
        away = vector(arena, p_joints)
        for a in range(p_joints):
            away[a] = at_rest[a] - p.held[a]
        if share_kernel(p.w, p.cones, shifted(p.bounds, p.held, arena), x, TorqueMap(torque, away), f, arena):
            impulse = vector(arena, p_joints)
            np.dot(torque, f, impulse)
            impulse += at_rest
            return Answer(SOLVED, True, residual, impulse, np.nan)
    return Answer(NO_SOLUTION, False, residual, vector(arena, p_joints), np.nan)


@njit(cache=True, error_model="numpy")
def certify(held: Bound, f: Array, arena: Arena) -> Answer:
    """Run `stick`, but accept only motors within their bounds; write the result into `AssembledStep.known`."""
    p, answer = held.borrowed, stick(held, f, arena)
    good = answer.ending == SOLVED and within(p.bounds, answer.impulse)
    if good:
        assign(p.known[: f.shape[0]], f)
        assign(p.known[f.shape[0] : -1], answer.impulse)
        p.known[-1] = answer.residual
    return Answer(SOLVED if good else NO_SOLUTION, True, answer.residual, answer.impulse, np.nan)


@late(lambda *_: ANSWER)
@njit(cache=True, error_model="numpy")
def share(p: AssembledStep, f: Array, answer: Answer, arena: Arena) -> Answer:
    """Run stage II (`models.distribution`): take impulses with the motion of f and the torque closest to `p.held`.

    If no such impulses are found, the answer's outcome is `NO_SOLUTION`, and f is unchanged.
    """
    if f.shape[0] == 0:
        return answer
    y, away = vector(arena, f.shape[0]), vector(arena, answer.impulse.shape[0])
    for a in range(away.shape[0]):
        away[a] = answer.impulse[a] - p.held[a]
    missed = smallest_torque_kernel(p.w, p.cones, shifted(p.bounds, p.held, arena), f, away, y, arena)
    if missed > status.TOLERANCE:
        return Answer(NO_SOLUTION, False, answer.residual, answer.impulse, np.nan)
    assign(f, y)
    _, impulse = recover_kernel(p.w, f, arena)
    return Answer(answer.ending, False, answer.residual, impulse, np.nan)


@linked
@njit(cache=True, error_model="numpy")
def unload(p: AssembledStep, f: Array, answer: Answer, arena: Arena) -> Answer:
    """Add internal forces (`p.held`), approach force targets, and unload feet close to lift-off or touchdown.

    The motion is unchanged. Motors are kept within their bounds if possible, and the torque stays close to the torque
    of `answer` plus `p.held`.
    """
    shares = p.held.any() or p.cones.weight.any() or p.cones.targets.constant.shape[0] > 0
    if f.shape[0] == 0 or not (shares or not within(p.bounds, answer.impulse)):
        return answer
    reference = vector(arena, answer.impulse.shape[0])
    for a in range(reference.shape[0]):
        reference[a] = answer.impulse[a] + p.held[a]
    return approach(p, f, answer, reference, arena)


@linked
@njit(cache=True, inner=True, error_model="numpy")
def approach(p: AssembledStep, f: Array, answer: Answer, reference: Array, arena: Arena) -> Answer:
    """Unload feet close to lift-off or touchdown, and keep motors within bounds if possible, with the same motion.

    The torque stays close to `reference`. If such impulses would violate the law of the scheme, the answer is
    unchanged.
    """
    y, difference = vector(arena, f.shape[0]), vector(arena, reference.shape[0])
    for a in range(reference.shape[0]):
        difference[a] = answer.impulse[a] - reference[a]
    missed = smallest_torque_kernel(p.w, p.cones, shifted(p.bounds, reference, arena), f, difference, y, arena)
    if missed > status.TOLERANCE:
        return answer
    assign(f, y)
    _, impulse = recover_kernel(p.w, f, arena)
    residual = answer.residual if p.cones.v_tol > 0.0 else missed
    return Answer(answer.ending, answer.sticking, residual, impulse, answer.gap)


@njit(cache=True, error_model="numpy")
def nearest_problem(p: AssembledStep, f: Array, impulse: Array, arena: Arena) -> NearestProblem:
    """Build the search problem of `nearest` from a solution f and its motor impulses; the target is ``p.last``."""
    rows, k = p.w.rho.shape
    V = matrix(arena, rows, rows)
    for i in range(rows):
        for j in range(i + 1):
            s = 0.0
            for d in range(k):
                s += p.w.rho[i, d] * p.w.rho[j, d]
            V[i, j] = V[j, i] = s
    torque = torque_map_kernel(p.w, rows, arena)
    joints = impulse.shape[0]
    at_rest, weights = vector(arena, joints), vector(arena, joints)
    assign(at_rest, impulse)
    weights[:] = 1.0
    for a in range(joints):
        for j in range(rows):
            at_rest[a] -= torque[a, j] * f[j]
    return NearestProblem(V, p.w.c, p.cones.mu, torque, at_rest, p.last, weights)


@linked
@njit(cache=True, inner=True, error_model="numpy")
def nearest(p: AssembledStep, f: Array, impulse: Array, arena: Arena) -> tuple[float, float]:
    """Overwrite f, a solution of the friction LCP, with the solution whose torque is closest to the last torque.

    If this solution violates the law by rounding, f is unchanged.

    Returns:
        The residual of f, and the gap [N m s]: a bound on how much closer the torque of a solution with another motion
        may be. The gap is zero if the search was completed.
    """
    rows = f.shape[0]
    problem = nearest_problem(p, f, impulse, arena)
    closest = nearest_kernel(problem, f, tick_nodes(p.cones.mu.shape[0]), arena)
    missed, excess = missed_law(p.w, p.cones.mu, closest.y, arena), gap(closest)
    if missed <= status.TOLERANCE:
        assign(f, closest.y)
        return missed, excess
    change = vector(arena, rows)
    np.dot(problem.V, closest.y - f, change)
    if not np.abs(change).max() <= status.TOLERANCE * np.abs(p.w.c).max():
        excess = np.inf
    return missed_law(p.w, p.cones.mu, f, arena), excess


@linked
@njit(cache=True, error_model="numpy")
def smooth(p: AssembledStep, f: Array, answer: Answer, arena: Arena) -> Answer:
    """Take the solution of the friction LCP whose torque is closest to the last torque.

    The search covers the modes of friction pyramids; it is omitted if a contact has infinite friction. The impulses are
    then redistributed without changing the motion, towards the decaying last torque (`FADES_S`).
    """
    p.active[:] = 0  # the active rows belong to another vertex
    if f.shape[0] == 0:
        return Answer(answer.ending, False, answer.residual, answer.impulse, 0.0)
    residual, excess, impulse = answer.residual, np.nan, answer.impulse
    if not p.cones.held.any():
        residual, excess = nearest(p, f, impulse, arena)
        _, impulse = recover_kernel(p.w, f, arena)
    fading = vector(arena, p.last.shape[0])
    for a in range(p.last.shape[0]):
        fading[a] = p.held[a] + (p.last[a] - p.held[a]) * (FADES_S / (FADES_S + p.h))
    smoothed = approach(p, f, Answer(answer.ending, False, residual, impulse, excess), fading, arena)
    return Answer(smoothed.ending, False, smoothed.residual, smoothed.impulse, excess)


# --- contact models: each writes the impulses f, and returns `SOLVED`, `COARSE` or `NO_SOLUTION`, and the residual


@late(lambda *_: types.Tuple((types.int64, types.float64)))
@njit(cache=True, inner=True, error_model="numpy")
def _held_fast(held: Bound, f: Array, arena: Arena) -> tuple[int, float]:
    """Solve a step whose contacts all have infinite friction: a contact that presses does not slip.

    Closed contacts stick in the first attempt; if its outcome is not `SOLVED`, all contacts do in a second search. The
    outcome is `COARSE` if no set of sticking contacts is consistent; `models.sticking` decides which contacts hold.
    """
    p = held.borrowed
    # corners of a nearly resting sole open at 1e-8 of their reference speed; `no_slip`'s tolerance would hold them
    opening = no_slip.OPENING if p.cones.law == DISSIPATION else coulomb.OPENING
    uncertain(p.w, arena)
    stick = flags(arena, p.which.shape[0])
    for i in range(stick.shape[0]):
        stick[i] = p.contacts.gap[i] <= CLOSED_GAP
    p.active[:] = 0  # the active rows belong to another problem
    while True:
        answer, note = settled_kernel(p.w, opening, p.cones.held, stick, arena)
        assign(f, answer.f)
        if answer.number == status.SOLVED and note == CONSISTENT_ROLES:
            residual = missed_law(p.w, p.cones.mu, f, arena)
            if residual <= status.TOLERANCE or stick.all():
                return SOLVED if residual <= status.TOLERANCE else COARSE, residual
        elif stick.all():
            return COARSE if answer.number == status.SOLVED else NO_SOLUTION, answer.residual
        stick[:] = True


@njit(inline="always")
def _slipping(kernel: Any, held: Bound, p: AssembledStep, f: Array, arena: Arena) -> tuple[int, float]:
    n = p.cones.held.shape[0]
    if n > 0 and p.cones.held.all():
        ending, residual = _held_fast(held, f, arena)
        return ending, residual
    if p.cones.held.any():  # some contacts slip, others stick or open: these cases are tried in Python
        return NO_SOLUTION, np.inf
    number, _, residual = kernel(p.w.rho, p.w.c, uncertain(p.w, arena), p.cones.mu, p.active, f, arena)
    return SOLVED if number == status.SOLVED else NO_SOLUTION, residual


@njit(inline="always")
def _without_slip(dual: bool, held: Bound, p: AssembledStep, f: Array, arena: Arena) -> tuple[int, float]:
    closed = np.ones(p.cones.mu.shape[0], dtype=np.bool_)
    number, _, residual, slip = no_slip_kernel(p.w.rho, p.w.c, uncertain(p.w, arena), closed, p.active, dual, f, arena)
    if number == status.SOLVED and slip <= SLIP_SPEED:
        return SOLVED, residual
    if p.repairs:
        return NO_SOLUTION, residual
    ending, residual = _held_fast(held, f, arena)
    return ending, residual


# --- schemes


@njit(cache=True, inner=True, error_model="numpy")
def _answer(p: AssembledStep, f: Array, ending: int, residual: float, arena: Arena) -> Answer:
    """Return the answer with the motor impulses that belong to contact impulses f."""
    _, impulse = recover_kernel(p.w, f, arena)
    return Answer(ending, False, residual, impulse, np.nan)


@njit(cache=True, inner=True, error_model="numpy")
def _judged(p: AssembledStep, f: Array, answer: Answer, arena: Arena) -> Answer:
    """Return the answer, with the outcome `SLIPS` if a contact with infinite friction slips or opens under a force."""
    if answer.ending < 0 or not p.cones.held.any() or not drags(p.w, p.cones, f, arena):
        return answer
    return Answer(SLIPS, answer.sticking, answer.residual, answer.impulse, answer.gap)


@njit(cache=True, inner=True, error_model="numpy")
def _staying(p: AssembledStep, f: Array, arena: Arena) -> Booleans:
    """Return True for each contact that stays closed under impulses f (3 n,), shape (n,)."""
    n, k = p.cones.mu.shape[0], p.w.rho.shape[1]
    x, stay = zeros(arena, k), flags(arena, n)
    for r in range(f.shape[0]):
        for d in range(k):
            x[d] += p.w.rho[r, d] * f[r]
    for i in range(n):
        opening = p.w.c[i]
        for d in range(k):
            opening += p.w.rho[i, d] * x[d]
        stay[i] = opening <= p.cones.v_tol
    return stay


@late(lambda *_: ANSWER)
@njit(cache=True, error_model="numpy")
def without_slip(held: Bound, f: Array, solved: bool, arena: Arena) -> Answer:
    """Relax tracking: take the motion without slip closest to the demand; let contacts slip if there is no such motion.

    Args:
        held: The bound step, with rounding bounds.
        f: Impulses, shape (3 n,). In: solution of the model without slip if `solved`. The contacts that stay closed in
            this solution neither slip nor open. Out: impulses of the answer.
        solved: False if the model without slip failed; its search for the sticking contacts is then continued.
        arena: Arena for all arrays.
    """
    p = held.borrowed
    impulse, stay = vector(arena, p.w.fixed.shape[0]), np.ones(p.cones.mu.shape[0], dtype=np.bool_)
    if not solved:
        settled, _ = settled_kernel(p.w, no_slip.OPENING, stay, stay, arena)
        assign(f, settled.f)
        solved = settled.number == status.SOLVED
    if solved:
        stay = _staying(p, f, arena)
    p.active[:] = 0  # the active rows belong to another motion
    if impulse.shape[0] > 0:
        residual = nearest_motion_kernel(p.w, p.cones, stay, p.bounds, f, impulse, arena)
        if residual <= ACCURATE:
            return Answer(MOVED, False, residual, impulse, np.nan)
    ending, residual = _slipping(edge_lcp_kernel, held, p, f, arena)
    p.active[:] = 0
    answer = _answer(p, f, ending, residual, arena)
    if ending < 0:
        return answer
    shared = share(p, f, answer, arena)
    return Answer(SLIPS, False, residual, shared.impulse if shared.ending == SOLVED else answer.impulse, np.nan)


@njit(inline="always")
def _two_stages(model: Any, kind: Any, relaxes: bool, held: Bound, f: Array, arena: Arena) -> Answer:
    """Take the sticking motion if it solves the step; otherwise run a contact model and stage II.

    `relaxes` is True for models without slip: if they fail, or their motion exceeds the limits of friction or motors,
    `without_slip` relaxes a demand, unless `AssembledStep.repairs` is False.
    """
    p = held.borrowed
    answer = Answer(NO_SOLUTION, False, np.inf, vector(arena, p.w.fixed.shape[0]), np.nan)
    bounded = not p.cones.held.any()  # unbounded friction would brace feet that are about to slip
    if p.sticks and bounded:
        answer = stick(held, f, arena)
    if answer.ending != SOLVED:
        ending, residual = model(kind, held, p, f, arena)
        if ending >= 0:
            answer = share(p, f, _answer(p, f, ending, residual, arena), arena)
            if answer.ending < 0 and not (relaxes and p.repairs):
                answer = Answer(COARSE, False, residual, answer.impulse, np.nan)
        if not relaxes:
            answer = _judged(p, f, answer, arena)
        elif p.repairs and answer.ending != SOLVED:
            answer = without_slip(held, f, ending == SOLVED, arena)
    return answer


@njit(inline="always")
def _one_stage(kernel: Any, after: Any, held: Bound, f: Array, arena: Arena) -> Answer:
    """Solve a contact model and, if that succeeds, pass the answer through `after`."""
    p = held.borrowed
    ending, residual = _slipping(kernel, held, p, f, arena)
    answer = _answer(p, f, ending, residual, arena)
    return _judged(p, f, after(p, f, answer, arena), arena) if ending >= 0 else answer


@njit(cache=True, error_model="numpy")
def coulomb_qp(held: Bound, f: Array, arena: Arena) -> Answer:
    """Solve maximal dissipation, then minimize torque among its optima (Zapolsky & Drumwright 2017, section 6)."""
    return _two_stages(_slipping, edge_lcp_kernel, False, held, f, arena)


@njit(cache=True, error_model="numpy")
def no_slip_lcp(held: Bound, f: Array, arena: Arena) -> Answer:
    """Solve without slip by principal pivoting (Zapolsky & Drumwright 2017, Algs. 1, 2), then minimize torque."""
    return _two_stages(_without_slip, PIVOTING, True, held, f, arena)


@njit(cache=True, error_model="numpy")
def no_slip_qp(held: Bound, f: Array, arena: Arena) -> Answer:
    """Solve maximal dissipation without slip as a projection, then minimize torque."""
    return _two_stages(_without_slip, DUAL, True, held, f, arena)


@njit(cache=True, error_model="numpy")
def coulomb_qp_raw(held: Bound, f: Array, arena: Arena) -> Answer:
    """Solve maximal dissipation without a second stage: among its optima, the solver's is taken."""
    p = held.borrowed
    ending, residual = _slipping(edge_lcp_kernel, held, p, f, arena)
    return _judged(p, f, _answer(p, f, ending, residual, arena), arena)


@njit(cache=True, error_model="numpy")
def coulomb_qp_1(held: Bound, f: Array, arena: Arena) -> Answer:
    """Solve maximal dissipation in one stage: a ridge term distributes the impulses among contacts."""
    p = held.borrowed
    if p.cones.held.any():  # only the model in Python has a ridge for contacts without slip
        return Answer(NO_SOLUTION, False, np.inf, vector(arena, p.w.fixed.shape[0]), np.nan)
    return _one_stage(one_stage_kernel, unload, held, f, arena)


@njit(cache=True, error_model="numpy")
def coulomb_lcp(held: Bound, f: Array, arena: Arena) -> Answer:
    """Solve Coulomb friction by Lemke's method (Zapolsky & Drumwright 2017, section 5)."""
    return _one_stage(continued_lcp_kernel, unload, held, f, arena)


@njit(cache=True, error_model="numpy")
def cone(held: Bound, f: Array, arena: Arena) -> Answer:
    """Solve Coulomb friction with its circular cone by Newton's method (`idcontrol.models.coulomb_cone`).

    A foot is unloaded only while no contact slides: sliding friction lies on the circle, outside the pyramids.
    """
    return _one_stage(cone_kernel, unload, held, f, arena)


@njit(cache=True, error_model="numpy")
def coulomb_smooth(held: Bound, f: Array, arena: Arena) -> Answer:
    """Solve the friction LCP; take the solution nearest to the last torque (Zapolsky & Drumwright 2017, Alg. 3)."""
    return _one_stage(continued_lcp_kernel, smooth, held, f, arena)


@njit(cache=True, inner=True, error_model="numpy")
def _compliant(p: AssembledStep, f: Array, away: Array, ending: int, residual: float, arena: Arena) -> Answer:
    """Return impulses f of compliant ground as the answer; `away` (u,) is v⁺ minus the velocity under f."""
    _, impulse = recover_kernel(p.w, f, arena)
    for j in range(p.w.fixed.shape[0]):
        for i in range(p.w.free.shape[0]):
            impulse[j] += p.w.M[p.w.fixed[j], p.w.free[i]] * away[i]
    return unload(p, f, Answer(ending, False, residual, impulse, np.nan), arena)


@njit(cache=True, error_model="numpy")
def stiff_sap(held: Bound, f: Array, arena: Arena) -> Answer:
    """Solve SAP on stiff ground; the answer is unique and continuous in the demand (Castro et al. 2022)."""
    p = held.borrowed
    away = zeros(arena, p.w.free.shape[0])
    number, _, residual = sap.closed_kernel(p.h, p.w, p.cones.mu, STIFF, p.active, f, away, arena)
    if number not in (CONVERGED, UNSETTLED):
        return Answer(NO_SOLUTION, False, residual, vector(arena, p.w.fixed.shape[0]), np.nan)
    ending = SOLVED if number == CONVERGED else COARSE
    return _judged(p, f, _compliant(p, f, away, ending, residual, arena), arena)


@njit(cache=True, error_model="numpy")
def stiff_springs(held: Bound, f: Array, arena: Arena) -> Answer:
    """Solve contacts as nearly rigid springs: compliance makes the forces unique, so one solve suffices."""
    p = held.borrowed
    p.active[:] = 0
    if p.cones.held.any():
        return Answer(NO_SOLUTION, False, np.inf, vector(arena, p.w.fixed.shape[0]), np.nan)
    law = (constraint.STIFFNESS, constraint.DAMPING)
    uncertain(p.w, arena)
    ending, _, residual = springs.closed_kernel(p.h, law, p.w, p.cones.mu, f, arena)
    if ending != status.SOLVED:
        return Answer(NO_SOLUTION, False, residual, vector(arena, p.w.fixed.shape[0]), np.nan)
    return _compliant(p, f, zeros(arena, p.w.free.shape[0]), SOLVED, residual, arena)


# --- the table


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """The stages of a controller: contact model, the stage after it, and their options.

    Attributes:
        name: Name of its contact model, as in `Command.solved_by`.
        model: The contact model in Python.
        forward: The contact model for servos (math.md, section 12.3) and for predicting impacts.
        solve: The compiled scheme; None if the model runs in Python only.
        impact: `forward`, compiled; None if it runs in Python only.
        after: Stage after the model, which redistributes its impulses among the contacts: `share` (stage II), `unload`
            or `smooth`; None to keep the impulses.
        sticks: True if contacts may slip only when there is no other solution (`without_slip`).
        calms: True if measures against chatter apply: the demand is projected onto the motions that contacts allow
            (math.md, section 12.1), and torques obey the torque-rate limit.
        law: The friction law that redistributed impulses obey (`idcontrol.models.distribution`).
        rigid: True if redistributed impulses obey the law to the contact model's tolerance, not to
            `InverseSettings.edge_speed_m_s`.
        ground: Compliance of the contacts, which derivatives need: none, the ridge of the objective, springs and
            dampers, or the regularization of SAP.
        printed: The contact model with the objective printed in Zapolsky & Drumwright 2017; None if it does not differ
            from `model`.
    """

    name: str
    model: ContactModel
    forward: ContactModel
    solve: Solve | None = None
    impact: Attempt | None = None
    after: Callable[[AssembledStep, Array, Answer, Arena], Answer] | None = None
    sticks: bool = False
    calms: bool = True
    law: int = DISSIPATION
    rigid: bool = False
    ground: Literal["rigid", "ridge", "springs", "convex"] = "rigid"
    printed: ContactModel | None = None

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """Pickle a scheme by name, if it is a constant of this module or of the module that defines `solve`."""
        for module in (__name__, getattr(self.solve, "__module__", __name__)):
            for name, value in vars(import_module(module)).items():
                if value is self:
                    return _constant, (module, name)
        return object.__reduce_ex__(self, protocol)  # `slots=True` makes a new class, which super() does not know


def _constant(module: str, name: str) -> object:
    return getattr(import_module(module), name)


def as_printed(scheme: Scheme) -> Scheme:
    """Return the scheme with the objective of stage I that Zapolsky & Drumwright 2017 print.

    If this objective does not differ, return the scheme itself.
    """
    if scheme.printed is None:
        return scheme
    return replace(scheme, solve=None, model=scheme.printed)


COULOMB_QP = Scheme(
    name="dissipation",
    solve=coulomb_qp,
    model=dissipation.solve,
    forward=dissipation.solve,
    impact=forward.dissipation,
    after=share,
    printed=dissipation.solve_printed,
)
COULOMB_QP_RAW = replace(COULOMB_QP, solve=coulomb_qp_raw, after=None, calms=False)
COULOMB_QP_1 = Scheme(
    name="one-stage",
    solve=coulomb_qp_1,
    model=dissipation.one_stage,
    forward=dissipation.one_stage,
    after=unload,
    ground="ridge",
)
NO_SLIP_LCP = Scheme(
    name="noslip",
    solve=no_slip_lcp,
    model=no_slip.solve,
    forward=dissipation.solve,
    impact=forward.dissipation,
    after=share,
    sticks=True,
)
NO_SLIP_QP = replace(
    NO_SLIP_LCP,
    solve=no_slip_qp,
    model=dissipation.no_slip_qp,
)
COULOMB_LCP = Scheme(
    name="coulomb-lcp",
    solve=coulomb_lcp,
    model=coulomb.solve,
    forward=coulomb.solve,
    impact=forward.coulomb,
    after=unload,
    law=COULOMB,
    rigid=True,
)
COULOMB_SMOOTH = replace(COULOMB_LCP, solve=coulomb_smooth, after=smooth)
COULOMB_CONE = Scheme(
    name="coulomb-cone",
    solve=cone,
    model=coulomb_cone.solve,
    forward=coulomb_cone.solve,
    impact=forward.cone,
    after=unload,
    law=CIRCLE,
    rigid=True,
)
SAP = Scheme(
    name="sap",
    solve=stiff_sap,
    model=partial(sap.solve, parameters=STIFF),
    forward=partial(sap.solve, parameters=STIFF),
    after=unload,
    law=CIRCLE,
    ground="convex",
)
SPRINGS = Scheme(
    name="constraint",
    solve=stiff_springs,
    model=constraint.solve_nearly_rigid,
    forward=constraint.solve_nearly_rigid,
    after=unload,
    law=COULOMB,
    ground="springs",
)
