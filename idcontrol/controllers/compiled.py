"""A plain control step as one compiled call, from the multibody terms to the torques.

`idcontrol.controllers.inverse` says what a control step is, and takes it one Python call after the other. What happens
in almost every step needs none of its special cases: the model solves at once, and no joint meets its limit. That is
compiled here over the kernels that the general step calls, too, so that both give the same torques; wherever a step is
not plain, `CompiledStep` says so, and the general step is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numba import njit

from idcontrol.contact.landing import landing_kernel
from idcontrol.contact.spheres import SphereContacts, detect_kernel
from idcontrol.controllers.projection import DEMAND_RANK_TOLERANCE, projection_kernel
from idcontrol.kernels.arena import Arena, begin, indices, matrix, reserve, vector, zeros
from idcontrol.kernels.bound import Bound, bind
from idcontrol.models.compiled import COMPLIANT, NO_SLIP, NO_SLIP_DUAL, compliant_impulses, contact_impulses
from idcontrol.models.distribution import share_kernel, smallest_torque_kernel, torque_map_kernel
from idcontrol.models.reduction import recover_kernel, reduce_kernel
from idcontrol.solvers.basis import pivoted_basis
from idcontrol.solvers.enumerate import NearestProblem, nearest_kernel
from idcontrol.system import System
from idcontrol.types import Array, Booleans, Command, ContactForces, Integers, Reference, State, Status

if TYPE_CHECKING:
    from idcontrol.controllers.feedback import Gains
    from idcontrol.controllers.inverse import Settings

RAMP_WEIGHT: Final = 30.0
"""Reluctance of a foot at lift-off and touchdown (planner.md 7), in units of the torque objective."""

SHARES: Final = 0
"""Stage II follows the model (math.md 7.4), and minds the ramp of feet that land or lift."""
RAMPS: Final = 1
"""While a foot ramps, impulses are shared anew, with the torque nearest to the model's own."""
NEAREST_RAMPS: Final = 2
"""Of the model's solutions the one whose torque is nearest to the last is taken (math.md 6.3); then as `RAMPS`."""
ALONE: Final = 3
"""The model's impulses are what they are."""

SEARCH_NODES: Final = 1
"""Quadratic programs that the search for the nearest torque may solve in a step.

The first is the nearest point with the contact modes of Lemke's solution; more would look for another motion, which
exists for high friction only (math.md 6.3).
"""

RANK: Final = 1e-2
"""Directions of ρ shorter than this, relative to the longest, are not looked at by `_stuck`: as in the model without
slip, or feet that all but miss a plane are braced with kilonewtons (math.md 4.2)."""

CONSISTENT: Final = 1e-11
"""What contact rows may miss, relative to their constants, and still agree to rounding."""


class Plain(NamedTuple):
    """Which compiled step belongs to a scheme.

    Attributes:
        model: A number of `idcontrol.models.compiled`.
        after: What follows it: a number of this module.
        law: Of `compliant_impulses`, where the model is one of those.
    """

    model: int
    after: int
    law: tuple[float, float] = (0.0, 0.0)


@njit(cache=True)
def finite(q: Array, v: Array, a: Array) -> bool:
    """Whether all are numbers: configuration, velocity, acceleration that is asked for."""
    total = 0.0
    for x in q:
        total += x - x
    for x in v:
        total += x - x
    for x in a:
        total += x - x
    return total == 0.0


@njit(cache=True, error_model="numpy")
def _wanted(
    h: float, q: Array, v: Array, joint_q: Integers, q_des: Array, v_des: Array, a_des: Array, joints: Array, b: Array
) -> None:
    """Desired joint velocities b = v + h (a_des + kp (q_des - q) + kd (v_des - v)); `joints` has kp and kd, (2, a)."""
    a, u = joint_q.shape[0], v.shape[0] - joint_q.shape[0]
    for j in range(a):
        speed = v[u + j]
        feedback = joints[0, j] * (q_des[j] - q[joint_q[j]]) + joints[1, j] * (v_des[j] - speed)
        b[j] = speed + h * (a_des[j] + feedback)


@njit(cache=True, error_model="numpy")
def standing(
    found: int,
    identity: Integers,
    gap: Array,
    J: Array,
    v: Array,
    stance: Booleans,
    since_touchdown: Array,
    landing_s: float,
    approach: float,
    slide: float,
    arena: Arena,
) -> Integers:
    """Which of the feet found are contacts: planned to stand, and not still landing (`Settings.landing_s`).

    Args:
        found: How many feet are near the ground.
        identity: Their numbers, the first `found` entries.
        gap: Likewise [m].
        J: Their rows, in block order, shape (3 found, m) or more.
        v: Velocity, shape (m,).
        stance: Of every foot: whether it is planned to stand.
        since_touchdown: Of every foot [s].
        landing_s: See `Settings`.
        approach: `Settings.approach_speed_m_s`.
        slide: `Settings.slide_speed_m_s`.
        arena: Where arrays come from.

    Returns:
        Their places among those found.
    """
    which: Integers = indices(arena, found)
    w, n = vector(arena, 3), 0
    for i in range(found):
        foot = identity[i]
        if not stance[foot]:
            continue
        if since_touchdown[foot] < landing_s:
            for axis in range(3):
                w[axis] = 0.0
                for k in range(v.shape[0]):
                    w[axis] += J[axis * found + i, k] * v[k]
            if (gap[i] > 0.0 and w[0] < -approach) or w[1] * w[1] + w[2] * w[2] > slide * slide:
                continue
        which[n] = i
        n += 1
    return which[:n]


@njit(cache=True, error_model="numpy")
def ramp_weights(identity: Integers, to_liftoff: Array, since_touchdown: Array, ramp_s: float, arena: Arena) -> Array:
    """Weights on the forces of feet that are about to lift or have just landed, shape (n,) (planner.md 7).

    ``RAMP_WEIGHT (1 - t / ramp_s)³`` with t to lift-off or since touchdown; zeros where `ramp_s` is 0.
    """
    out: Array = zeros(arena, identity.shape[0])
    if ramp_s > 0.0:
        for i in range(identity.shape[0]):
            t = min(to_liftoff[identity[i]], since_touchdown[identity[i]])
            share = min(max(1.0 - t / ramp_s, 0.0), 1.0)
            out[i] = RAMP_WEIGHT * share * share * share
    return out


@njit(cache=True, error_model="numpy")
def _stuck(rho: Array, c: Array, x: Array, arena: Arena) -> float:
    """The shortest x with ρx + c = 0, whitened: no contact slips or parts. Returns what that misses, relative to c."""
    rows, k = rho.shape
    longest, largest = 0.0, 0.0
    for r in range(rows):
        square = 0.0
        for d in range(k):
            square += rho[r, d] * rho[r, d]
        longest, largest = max(longest, square), max(largest, abs(c[r]))
    left, carried = matrix(arena, rows, k), vector(arena, rows)
    left[:], carried[:] = rho, c
    basis, constants = pivoted_basis(left, carried, RANK * np.sqrt(longest), arena)
    x[:] = 0.0
    for j in range(constants.size):
        for d in range(k):
            x[d] -= constants[j] * basis[j, d]
    miss = 0.0
    for r in range(rows):
        velocity = c[r]
        for d in range(k):
            velocity += rho[r, d] * x[d]
        if not abs(velocity) <= miss:
            miss = abs(velocity)
    return miss / largest if largest > 0.0 else miss


@njit(cache=True, error_model="numpy")
def _nearest(
    torque: Array, rho: Array, c: Array, mu: Array, f: Array, impulse: Array, last: Array, arena: Arena
) -> Array:
    """Of all contact impulses that solve the problem as `f` does, those whose torque is nearest to `last`."""
    n, k = mu.shape[0], rho.shape[1]
    V = np.empty((3 * n, 3 * n))
    for i in range(3 * n):
        for j in range(i + 1):
            s = 0.0
            for d in range(k):
                s += rho[i, d] * rho[j, d]
            V[i, j] = V[j, i] = s
    constant = impulse.copy()
    for a in range(impulse.shape[0]):
        for j in range(3 * n):
            constant[a] -= torque[a, j] * f[j]
    problem = NearestProblem(V, c, mu, torque, constant, last, np.ones(last.shape[0]))
    nearest: Array = nearest_kernel(problem, f, True, SEARCH_NODES, arena).y
    return nearest


@njit(cache=True, error_model="numpy")
def _step(
    machine: Bound,
    q: Array,
    v_theirs: Array,
    q_des: Array,
    v_des: Array,
    a_des: Array,
    stance: Booleans,
    since_touchdown: Array,
    to_liftoff: Array,
    last: Array,
) -> tuple[bool, float, int]:
    """One step; see `idcontrol.controllers.inverse` for what it does, and `CompiledStep` for what is bound.

    Returns:
        Whether it is plain, the model's residual, how many contacts n there are. What is bound last gets torques (a,),
        identity of the contacts (n,), their predicted forces and normals (n, 3), world frame.
    """
    if not finite(q, v_theirs, a_des):
        return False, 0.0, 0
    arena, choice, law, h, terms, detection, joints, landing, numbers, warm, result = machine.values
    begin(arena)
    model, after, projects = choice
    M, bias, order, joint_q, free, fixed = terms
    reads, writes = detection
    margin, landing_s, approach, slide, edge_speed, ramp_s = numbers
    m, u, a = M.shape[0], free.shape[0], fixed.shape[0]
    v, b = vector(arena, m), vector(arena, a)
    for i in range(m):
        v[i] = v_theirs[order[i]]
    _wanted(h, q, v, joint_q, q_des, v_des, a_des, joints, b)

    found = detect_kernel(*reads, margin, *writes)
    _, _, _, _, all_identity, _, all_axes, all_gap, all_mu, all_J = writes
    which = standing(found, all_identity, all_gap, all_J, v, stance, since_touchdown, landing_s, approach, slide, arena)
    n = which.shape[0]
    identity, bits, J = indices(arena, n), indices(arena, n), matrix(arena, 3 * n, m)
    gap, mu, since, surface = vector(arena, n), vector(arena, n), vector(arena, n), vector(arena, 3 * n)
    for i in range(n):
        foot = all_identity[which[i]]
        identity[i], gap[i], mu[i] = foot, all_gap[which[i]], all_mu[which[i]]
        bits[i], since[i] = warm[foot], since_touchdown[foot]
        for axis in range(3):
            J[axis * n + i] = all_J[axis * found + which[i]]
    reluctance = ramp_weights(identity, to_liftoff, since_touchdown, ramp_s, arena)
    still, no_drift = zeros(arena, 3 * n), matrix(arena, n, 3)
    no_drift[:] = 0.0
    landing_kernel(J, v, gap, still, h, landing, since, no_drift, surface, arena)
    if projects and n > 0:
        b = projection_kernel(M, J, surface, b, u, DEMAND_RANK_TOLERANCE, arena)

    kappa = vector(arena, m)
    np.dot(M, v, kappa)
    for i in range(m):
        kappa[i] = h * bias[i] - kappa[i]
    L, v_free, rho, c = reduce_kernel(M, kappa, free, fixed, b, J, arena)
    c -= surface
    f, held = zeros(arena, 3 * n), np.isinf(mu)
    plain, residual, impulse = False, 0.0, zeros(arena, a)
    if projects and after == SHARES and n > 0:
        # b agrees with contacts that stick. If sticking takes no more friction than there is, all models say the same
        # and stage II answers; that it finds impulses within the pyramids is the proof
        x, y = vector(arena, u), vector(arena, 3 * n)
        residual = _stuck(rho, c, x, arena)
        if residual <= CONSISTENT:
            torque = torque_map_kernel(M, free, fixed, L, J, rho, 3 * n, arena)
            _, rest = recover_kernel(M, kappa, free, fixed, L, v_free, J, rho, f, arena)
            plain = share_kernel(rho, c, x, torque, rest, mu, held, edge_speed, reluctance, y, arena)
            if plain:
                f = y
                np.dot(torque, y, impulse)
                impulse += rest
    if not plain:
        # contacts are closed, as `landing_contacts` has it: the gap is part of the reference velocity
        away = zeros(arena, u)
        if model in COMPLIANT:
            plain, _, residual = compliant_impulses(
                model, law, h, M, free, L, v_free, J, rho, c, mu, bits, f, away, arena
            )
        else:
            closed = np.ones(n, dtype=np.bool_)
            plain, _, residual = contact_impulses(model, rho, c, mu, closed, bits, f, arena)
        _, impulse = recover_kernel(M, kappa, free, fixed, L, v_free, J, rho, f, arena)
        for j in range(a):
            for i in range(u):
                impulse[j] += M[u + j, i] * away[i]
        if plain and n > 0 and after == NEAREST_RAMPS:
            torque = torque_map_kernel(M, free, fixed, L, J, rho, 3 * n, arena)
            f = _nearest(torque, rho, c, mu, f, impulse, h * last, arena)
            _, impulse = recover_kernel(M, kappa, free, fixed, L, v_free, J, rho, f, arena)
            bits[:] = 0
        if plain and n > 0 and after != ALONE and (after == SHARES or reluctance.any()):
            y, constant = vector(arena, 3 * n), impulse if after == SHARES else zeros(arena, a)
            shared = smallest_torque_kernel(
                M, free, fixed, L, J, rho, c, f, constant, mu, held, edge_speed, reluctance, y, arena
            )
            if shared:
                f = y
                _, impulse = recover_kernel(M, kappa, free, fixed, L, v_free, J, rho, f, arena)
            elif after == SHARES:
                plain = False
    tau, listed, force, normal = result
    for j in range(a):
        tau[j] = impulse[j] / h
        plain = plain and abs(tau[j]) <= joints[2, j]  # false for a NaN, too
    warm[:] = 0
    for i in range(n):
        warm[identity[i]] = bits[i]
        listed[i] = identity[i]
        for d in range(3):
            normal[i, d] = all_axes[which[i], 0, d]
            force[i, d] = 0.0
            for axis in range(3):
                force[i, d] += f[axis * n + i] / h * all_axes[which[i], axis, d]
    return plain, residual, n


class CompiledStep:
    """The plain step of `idcontrol.controllers.inverse.InverseDynamics`."""

    def __init__(
        self,
        plain: Plain,
        projects: bool,
        system: System,
        contacts: SphereContacts,
        gains: Gains,
        h: float,
        settings: Settings,
    ) -> None:
        """Bind it to a machine; arguments as for `InverseDynamics`.

        Args:
            plain: Which step.
            projects: Whether the desired velocity is first projected onto what contact allows (math.md 12.1).
            system: The controller's own multibody terms.
            contacts: Detector of foot contacts on `system`.
            gains: In acceleration: kp [1/s²], kd [1/s].
            h: Control period [s].
            settings: Of the controller.
        """
        u, a, feet = system.n_unactuated, system.n_actuated, contacts.mu.shape[0]
        joints = np.ascontiguousarray(
            [np.broadcast_to(gains.kp, a), np.broadcast_to(gains.kd, a), system.effort_limit], dtype=np.float64
        )
        landing = settings.landing
        self._warm: Integers = np.zeros(feet, dtype=np.int64)
        self._tau: Array = np.zeros(a)
        self._identity: Integers = np.zeros(feet, dtype=np.int64)
        self._force, self._normal = np.zeros((feet, 3)), np.zeros((feet, 3))
        self._machine = bind(
            (
                reserve(),
                (plain.model, plain.after, projects),
                plain.law,
                h,
                (system.M, system.bias, system.order, system.joint_q, np.arange(u), np.arange(u, u + a)),
                contacts.detection,
                joints,
                (
                    max(0.0, 1.0 - h / landing.decay_s),
                    landing.closing_s,
                    landing.sink_m_s,
                    landing.rise_m_s,
                    landing.dead_band_m_s,
                    landing.settle_s,
                    landing.slip_m_s,
                ),
                (
                    settings.contact_margin_m,
                    settings.landing_s,
                    settings.approach_speed_m_s,
                    settings.slide_speed_m_s,
                    settings.edge_speed_m_s,
                    settings.ramp_s,
                ),
                self._warm,
                (self._tau, self._identity, self._force, self._normal),
            )
        )
        rough = plain.model in (NO_SLIP, NO_SLIP_DUAL) or bool(np.isfinite(contacts.mu).all())
        self.fits = rough and not system.joint_circle.any()
        """Whether there is a compiled step: no joint is continuous, and the model's kernel takes the friction."""

    def reset(self) -> None:
        """Forget the last step."""
        self._warm[:] = 0

    def __call__(self, state: State, reference: Reference, last: Array) -> Command | None:
        """The command of a plain step, or None; the system must have been updated to `state`.

        Args:
            state: Where the machine is.
            reference: What is asked for.
            last: Torques of the last step, shape (a,) [N m].
        """
        plain, residual, n = _step(
            self._machine,
            state.q,
            state.v,
            reference.q,
            reference.v,
            reference.a,
            reference.stance,
            reference.since_touchdown,
            reference.to_liftoff,
            last,
        )
        if not plain:
            return None
        predicted = ContactForces(
            identity=self._identity[:n].copy(), force=self._force[:n].copy(), normal=self._normal[:n].copy()
        )
        return Command(tau=self._tau.copy(), predicted=predicted, status=Status.SOLVED, residual=residual)
