r"""Contact forces at acceleration level, with rolling and sliding contacts (math.md, section 9).

    M v̇ = f + Nᵀc_n + Sᵀc_t + Tᵀc_o,     0 ≤ c_n ⊥ a_n = N v̇ + Ṅ v ≥ 0

At a sliding contact Coulomb's law determines the friction force, ``(c_t, c_o) = -μ c_n (v_t, v_o)/|v_t|``. At a rolling
contact friction prevents sliding within the square ``|c_t|, |c_o| ≤ μ c_n``: with s = c + μ c_n and a = a⁺ - a⁻,

    z = (c_n, s_t, s_o, a_t⁻, a_o⁻) ≥ 0,    w = (a_n, a_t⁺, a_o⁺, 2 μ c_n - s_t, 2 μ c_n - s_o) ≥ 0,    z ⊥ w

Solutions are guaranteed only for small friction at sliding contacts (Painlevé), and Lemke's method may end on a ray
although a solution exists; `idcontrol.solvers.existence` then decides. This model is therefore for studies. At velocity
level, `coulomb` and `coulomb_cone` always have a solution in forward mode, unless contacts prescribe conflicting
velocities.

The elimination reuses `idcontrol.models.whitened`, with a step of 1 s, accelerations for velocities, and forces for
impulses.

Source: Trinkle, Pang, Sudarsky & Lo 1997, "On dynamic multi-rigid-body contact problems with Coulomb friction".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from idcontrol.contact.contacts import Contacts
from idcontrol.errors import InputError
from idcontrol.models.coulomb import JAM, UNSOLVED
from idcontrol.models.step import CLOSED_GAP, SQUEEZE, Bilateral, Prescribed, StepProblem
from idcontrol.models.whitened import Held, Whitened, hold, recover, whiten
from idcontrol.solvers.active_set import project
from idcontrol.solvers.existence import Existence, decide
from idcontrol.solvers.lcp import lcp_residual
from idcontrol.solvers.lemke import solve_regularized
from idcontrol.solvers.status import TOLERANCE, SolverStatus
from idcontrol.types import Array, Integers, Status

ROLLING_SPEED: Final = 1e-4
"""A contact rolls if its surfaces slip more slowly than this [m/s]."""

PARTING_SPEED: Final = 1e-6
"""A contact that opens faster than this has no force, whatever its acceleration [m/s]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccelerationProblem:
    """One instant: find v̇, contact forces c and bilateral forces g with ``M v̇ = f + Jᵀc + Λᵀg``.

    In inverse mode the torques τ are also unknown, and ``Pᵀτ`` is added to the right-hand side.

    Attributes:
        M: Joint-space inertia, shape (m, m).
        force: Known forces f, which include the bias and, in forward mode, the motor torques: ``Pᵀτ - nle``, shape (m,)
            [N, N m].
        v: Velocity, shape (m,).
        contacts: Contact rows; open and separating contacts get no force. μ is finite.
        drift: J̇ v, the contact accelerations at v̇ = 0, block order, shape (3 n,) [m/s²].
        prescribed: None (forward), or the *accelerations* that the motors must realize (inverse).
        bilateral: Rows with ``rows v̇ = target - compliance * force``; None for no rows.

    Raises:
        InputError: A friction coefficient is not finite (for contact without slip use `idcontrol.models.no_slip`), or
            the shapes do not fit.
    """

    M: Array
    force: Array
    v: Array
    contacts: Contacts
    drift: Array
    prescribed: Prescribed | None = None
    bilateral: Bilateral | None = None

    def __post_init__(self) -> None:
        if not np.isfinite(self.contacts.mu).all():
            raise InputError("acceleration model: friction must be finite; use the model no_slip for infinite friction")
        if self.drift.shape != (3 * len(self.contacts),) or self.v.shape != self.force.shape:
            raise InputError(
                f"acceleration model: drift {self.drift.shape}, v {self.v.shape}, force {self.force.shape}: "
                f"give ({3 * len(self.contacts)},) and twice ({self.M.shape[0]},)"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class PyramidLcp:
    """The LCP of the module over the contacts that can have a force: w = Qz + r, 0 ≤ z ⊥ w ≥ 0.

    Attributes:
        Q: Matrix over (c_n, s_t, s_o, a_t⁻, a_o⁻), shape (n + 4 p, n + 4 p) with n touching and p rolling contacts.
        r: Constant, shape (n + 4 p,).
        scale: Balancing factors (math.md, section 13.2), shape (n + 4 p,).
        touching: Indices of the n contacts that can have a force.
        rolling: Indices in `touching` of the p contacts that roll with friction.
        friction: c_t and c_o of the touching contacts at c_n = 1 and s = 0, shape (2, n): -μ v_t/|v_t| for a sliding
            contact, -μ for a rolling contact.
    """

    Q: Array
    r: Array
    scale: Array
    touching: Integers
    rolling: Integers
    friction: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class AccelerationSolution:
    """An instant's solution.

    Attributes:
        acceleration: v̇, shape (m,).
        forces: Contact forces (normal, first tangent, second tangent), shape (n, 3) [N].
        torque: Motor torques τ of the prescribed accelerations, shape (p,) [N m]; empty in forward mode.
        status: SOLVED only if the residual was checked; REPAIRED if regularization was needed; FALLBACK with zero
            forces if no solution was found.
        residual: Relative complementarity residual (math.md, section 13.3).
        iterations: Pivots.
        regularization: Ridge on the diagonal, relative to the diagonal.
        note: Method of the solution, ``"searched"`` or ``"regularized"``, or the reason for the failure (see `solve`);
            empty if the first attempt succeeded.
        ray: Direction z of the ray on which Lemke's method first ended, shape (n + 4 p,); None if it did not end on a
            ray.
    """

    acceleration: Array
    forces: Array
    torque: Array
    status: Status
    residual: float
    iterations: int
    regularization: float = 0.0
    note: str = ""
    ray: Array | None = None


def whitened(problem: AccelerationProblem) -> tuple[Whitened, Held]:
    """Return the problem in whitened form, ``J v̇ + J̇ v = c + ρ ρᵀ f``, and its rows without rigid bilateral rows.

    The rigid bilateral rows are eliminated (`whitened.hold`). Here c are the constants, and f the contact forces, as in
    `idcontrol.models.whitened`.
    """
    contacts = replace(problem.contacts, gap=np.zeros(len(problem.contacts)), surface_velocity=-problem.drift)
    w = whiten(
        StepProblem(
            h=1.0,
            M=problem.M,
            kappa=-problem.force,
            contacts=contacts,
            prescribed=problem.prescribed,
            bilateral=problem.bilateral,
        )
    )
    return w, hold(w, np.arange(3 * len(contacts), w.rho.shape[0]))


def pyramid_lcp(problem: AccelerationProblem, held: Held) -> PyramidLcp:
    """Assemble the LCP from whitened rows (Trinkle et al. 1997, eq. 35, with a⁻ complementary to 2 μ c_n - s)."""
    contacts = problem.contacts
    count = len(contacts)
    v_n, *v_tangential = (contacts.jacobian @ problem.v - contacts.surface_velocity).reshape(3, count)
    touching = np.flatnonzero((contacts.gap <= CLOSED_GAP) & (v_n <= PARTING_SPEED))
    mu, slip = contacts.mu[touching], np.array(v_tangential)[:, touching]
    speed = np.hypot(*slip)
    slides = speed > ROLLING_SPEED
    friction = np.where(slides, -mu * slip / np.where(slides, speed, 1.0), -mu)
    rolling = np.flatnonzero(~slides & (mu > 0.0))
    n, p = touching.size, rolling.size

    normal, *tangent = (held.rho[axis * count + touching] for axis in range(3))
    rows = np.vstack((normal, tangent[0][rolling], tangent[1][rolling]))
    push = normal + friction[0][:, None] * tangent[0] + friction[1][:, None] * tangent[1]
    columns = np.vstack((push, tangent[0][rolling], tangent[1][rolling]))
    forces = n + 2 * p
    Q = np.zeros((forces + 2 * p, forces + 2 * p))
    Q[:forces, :forces] = rows @ columns.T
    Q[n:forces, forces:] = np.eye(2 * p)
    Q[forces:, n:forces] = -np.eye(2 * p)
    for axis in range(2):
        Q[forces + axis * p + np.arange(p), rolling] = 2.0 * mu[rolling]
    r = np.zeros(forces + 2 * p)
    r[:n] = held.c[touching]
    for axis in range(2):
        r[n + axis * p : n + (axis + 1) * p] = held.c[(1 + axis) * count + touching[rolling]]
    typical = float(np.median(np.einsum("ij,ij->i", rows, rows))) if forces else 0.0
    d = 1.0 / np.sqrt(typical) if typical > 0.0 else 1.0
    scale = np.full(r.size, d)
    scale[forces:] = 1.0 / d
    return PyramidLcp(Q=Q, r=r, scale=scale, touching=touching, rolling=rolling, friction=friction)


def contact_forces(lcp: PyramidLcp, z: Array, count: int) -> Array:
    """Return the forces of all `count` contacts, normal and two tangents, shape (count, 3) [N], from a solution z."""
    n, p = lcp.touching.size, lcp.rolling.size
    forces = np.zeros((count, 3))
    forces[lcp.touching, 0] = z[:n]
    for axis in range(2):
        tangential = lcp.friction[axis] * z[:n]
        tangential[lcp.rolling] += z[n + axis * p : n + (axis + 1) * p]
        forces[lcp.touching, 1 + axis] = tangential
    return forces


def solve(problem: AccelerationProblem) -> AccelerationSolution:
    """Solve one instant by Lemke's method.

    Args:
        problem: The instant, forward or inverse.

    Returns:
        The solution; FALLBACK with zero forces if no solution was found. The note is then `SQUEEZE` if no acceleration
        keeps the contacts apart, `JAM` if a search has proved that sliding friction is too large for this pose
        (Painlevé), and `UNSOLVED` if the search reached its limit.
    """
    w, held = whitened(problem)
    lcp = pyramid_lcp(problem, held)
    result, note = solve_regularized(lcp.Q, lcp.r, lcp.scale), ""
    solved, z = result.status is SolverStatus.SOLVED, result.z
    residual = result.residual
    if not solved:
        decision = decide(lcp.Q, lcp.r, lcp.scale)
        z, note = np.zeros_like(lcp.r), "searched"
        if decision.z is not None:
            z = decision.z
            residual = float(lcp_residual(z / lcp.scale, lcp.scale * (lcp.Q @ z + lcp.r), lcp.scale * lcp.r))
        solved = residual <= TOLERANCE
    count = len(problem.contacts)
    forces = contact_forces(lcp, z, count)
    f = np.zeros(w.rho.shape[0])
    f[: 3 * count] = forces.T.ravel()
    acceleration, torque = recover(w, held.impulses(w, f))
    status = Status.SOLVED
    if not solved:
        apart = project(held.rho[lcp.touching], held.c[lcp.touching]).status is not SolverStatus.INFEASIBLE
        proved = decision.existence is Existence.NONE
        status, note = Status.FALLBACK, SQUEEZE if not apart else JAM if proved else UNSOLVED
    elif result.regularization > 0.0:
        status, note = Status.REPAIRED, "regularized"
    return AccelerationSolution(
        acceleration=acceleration,
        forces=forces,
        torque=torque,
        status=status,
        residual=residual,
        iterations=result.iterations,
        regularization=result.regularization,
        note=note,
        ray=result.ray,
    )
