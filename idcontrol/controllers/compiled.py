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
from idcontrol.controllers.projection import RANK_TOLERANCE, projection_kernel
from idcontrol.models.compiled import NO_SLIP, NO_SLIP_DUAL, contact_impulses
from idcontrol.models.distribution import smallest_torque_kernel
from idcontrol.models.reduction import recover_kernel, reduce_kernel
from idcontrol.system import System
from idcontrol.types import Array, Booleans, Command, ContactForces, Integers, Reference, State, Status

if TYPE_CHECKING:
    from idcontrol.controllers.feedback import Gains
    from idcontrol.controllers.inverse import Settings

RAMP_WEIGHT: Final = 30.0
"""Reluctance of a foot at lift-off and touchdown (planner.md 7), in units of the torque objective."""


class Plain(NamedTuple):
    """Which compiled step belongs to a scheme.

    Attributes:
        model: A number of `idcontrol.models.compiled`.
        shares: Whether stage II follows (math.md 7.4).
        ramps: Whether `Settings.ramp_s` counts; without stage II a step in which a foot ramps is not plain.
    """

    model: int
    shares: bool
    ramps: bool = True


@njit(cache=True, error_model="numpy")
def _wanted(
    h: float, q: Array, v: Array, joint_q: Integers, q_des: Array, v_des: Array, a_des: Array, joints: Array
) -> Array:
    """Desired joint velocities b = v + h (a_des + kp (q_des - q) + kd (v_des - v)); `joints` has kp and kd, (2, a)."""
    a, u = joint_q.shape[0], v.shape[0] - joint_q.shape[0]
    b = np.empty(a)
    for j in range(a):
        speed = v[u + j]
        feedback = joints[0, j] * (q_des[j] - q[joint_q[j]]) + joints[1, j] * (v_des[j] - speed)
        b[j] = speed + h * (a_des[j] + feedback)
    return b


@njit(cache=True, error_model="numpy")
def _standing(
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
) -> Integers:
    """Which of the feet found are contacts: planned to stand, and not still landing (`Settings.landing_s`)."""
    which = np.empty(found, dtype=np.int64)
    n = 0
    w = np.empty(3)
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
def _step(
    choice: tuple[int, bool, bool],
    h: float,
    M: Array,
    bias: Array,
    reads: tuple[Array, ...],
    writes: tuple[Array, ...],
    order: Integers,
    joint_q: Integers,
    q: Array,
    v_theirs: Array,
    q_des: Array,
    v_des: Array,
    a_des: Array,
    stance: Booleans,
    since_touchdown: Array,
    to_liftoff: Array,
    joints: Array,
    landing: tuple[float, ...],
    numbers: tuple[float, ...],
    warm: Integers,
) -> tuple[bool, float, Array, Integers, Array, Array]:
    """One step; see `idcontrol.controllers.inverse` for what it does.

    Returns:
        Whether it is plain, the model's residual, torques (a,), identity of the contacts (n,), their predicted forces
        and normals (n, 3), world frame.
    """
    model, shares, projects = choice
    margin, landing_s, approach, slide, edge_speed, ramp_s, ramp_weight = numbers
    m, a = M.shape[0], joint_q.shape[0]
    u = m - a
    v = np.empty(m)
    for i in range(m):
        v[i] = v_theirs[order[i]]
    b = _wanted(h, q, v, joint_q, q_des, v_des, a_des, joints)

    found = detect_kernel(*reads, margin, *writes)
    _, _, _, _, all_identity, _, all_axes, all_gap, all_mu, all_J = writes
    which = _standing(found, all_identity, all_gap, all_J, v, stance, since_touchdown, landing_s, approach, slide)
    n = which.shape[0]
    identity = np.empty(n, dtype=np.int64)
    gap, mu, reluctance, J, axes = np.empty(n), np.empty(n), np.zeros(n), np.empty((3 * n, m)), np.empty((n, 3, 3))
    bits = np.empty(n, dtype=np.int64)
    for i in range(n):
        foot = all_identity[which[i]]
        identity[i], gap[i], mu[i], bits[i] = foot, all_gap[which[i]], all_mu[which[i]], warm[foot]
        axes[i] = all_axes[which[i]]
        for axis in range(3):
            J[axis * n + i] = all_J[axis * found + which[i]]
        if ramp_s > 0.0:
            share = min(max(1.0 - min(to_liftoff[foot], since_touchdown[foot]) / ramp_s, 0.0), 1.0)
            reluctance[i] = ramp_weight * share * share * share
    surface, still = np.empty(3 * n), np.zeros((n, 3))
    landing_kernel(J, v, gap, still.ravel(), h, landing, reluctance, still, surface)
    if projects and n > 0:
        b = projection_kernel(M, J, surface, b, u, RANK_TOLERANCE)

    kappa = h * bias - np.dot(M, v)
    free, fixed = np.arange(u), np.arange(u, m)
    L, v_free, rho, c = reduce_kernel(M, kappa, free, fixed, b, J)
    c -= surface
    f = np.zeros(3 * n)
    closed = np.ones(n, dtype=np.bool_)  # as `landing_contacts` has it: the gap is part of the reference velocity
    plain, _, residual = contact_impulses(model, rho, c, mu, closed, bits, f)
    plain = plain and (shares or not reluctance.any())
    _, impulse = recover_kernel(M, kappa, free, fixed, L, v_free, J, rho, f)
    if plain and shares and n > 0:
        y, held = np.empty(3 * n), np.isinf(mu)
        plain = smallest_torque_kernel(M, free, fixed, L, J, rho, c, f, impulse, mu, held, edge_speed, reluctance, y)
        f = y
        _, impulse = recover_kernel(M, kappa, free, fixed, L, v_free, J, rho, f)
    tau = impulse / h
    for j in range(a):
        plain = plain and abs(tau[j]) <= joints[2, j]  # false for a NaN, too
    warm[:] = 0
    force = np.zeros((n, 3))
    for i in range(n):
        warm[identity[i]] = bits[i]
        for axis in range(3):
            force[i] += f[axis * n + i] / h * axes[i, axis]
    return plain, residual, tau, identity, force, axes[:, 0].copy()


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
        self._system = system
        self._h = h
        self._choice = (plain.model, plain.shares, projects)
        a = system.n_actuated
        self._joints = np.ascontiguousarray(
            [np.broadcast_to(gains.kp, a), np.broadcast_to(gains.kd, a), system.effort_limit], dtype=np.float64
        )
        self._reads, self._writes = contacts.detection
        landing = settings.landing
        self._landing = (
            max(0.0, 1.0 - h / landing.decay_s),
            landing.closing_s,
            landing.sink_m_s,
            landing.rise_m_s,
            landing.dead_band_m_s,
            landing.settle_s,
            landing.slip_m_s,
        )
        self._numbers = (
            settings.contact_margin_m,
            settings.landing_s,
            settings.approach_speed_m_s,
            settings.slide_speed_m_s,
            settings.edge_speed_m_s,
            settings.ramp_s if plain.ramps else 0.0,
            RAMP_WEIGHT,
        )
        self._warm: Integers = np.zeros(contacts.mu.shape[0], dtype=np.int64)
        rough = plain.model in (NO_SLIP, NO_SLIP_DUAL) or bool(np.isfinite(contacts.mu).all())
        self.fits = rough and not system.joint_circle.any()
        """Whether there is a compiled step: no joint is continuous, and the model's kernel takes the friction."""

    def reset(self) -> None:
        """Forget the last step."""
        self._warm[:] = 0

    def __call__(self, state: State, reference: Reference) -> Command | None:
        """The command of a plain step, or None; the system must have been updated to `state`."""
        plain, residual, tau, identity, force, normal = _step(
            self._choice,
            self._h,
            self._system.M,
            self._system.bias,
            self._reads,
            self._writes,
            self._system.order,
            self._system.joint_q,
            state.q,
            state.v,
            reference.q,
            reference.v,
            reference.a,
            reference.stance,
            reference.since_touchdown,
            reference.to_liftoff,
            self._joints,
            self._landing,
            self._numbers,
            self._warm,
        )
        if not plain:
            return None
        predicted = ContactForces(identity=identity, force=force, normal=normal)
        return Command(tau=tau, predicted=predicted, status=Status.SOLVED, residual=residual)
