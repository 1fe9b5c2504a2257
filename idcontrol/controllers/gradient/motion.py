"""Derivative of the motion that a contact model predicts.

Derivatives have one column for each of the P parameters (`idcontrol.controllers.gradient.equations.Columns`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.controllers.gradient.equations import (
    RANK,
    Terms,
    column_length,
    errors,
    fit,
    least_squares,
    pseudo_inverse,
    rows_times,
    rows_transposed,
)
from idcontrol.kernels.jit import njit
from idcontrol.models.distribution import CIRCLE, DISSIPATION
from idcontrol.types import Array, Booleans, Integers

AT_REST: Final = 1e-7
"""Speed below which a contact counts as at rest, relative to its speed at zero impulse plus the speed that impulses
add. The models are accurate to 1e-8."""

ON_FACE: Final = 1e-7
"""Distance from a face of its cone up to which an impulse lies on it, relative to the largest impulse."""

NO_SLIP: Final = 3
"""Law of contacts that do not slip; other numbers are the laws of `idcontrol.models.distribution`."""
CONVEX: Final = 4
"""Law of SAP's contacts, which slide on a circle."""

PART: Final = 0
STICK: Final = 1
SLIDE: Final = 2
ROLES: Final = ("part", "stick", "slide")
"""Names of the roles of contacts in the motion."""

AXES: Final = (1, 1, 2, 2)
SIGNS: Final = (1.0, -1.0, 1.0, -1.0)
"""Axis and sign of the edges of a pyramid, in the order of their bits."""


class Roles(NamedTuple):
    """Roles of n contacts in the motion, k directions in all; see `idcontrol.controllers.gradient`, item 3.

    Attributes:
        kind: `PART`, `STICK` or `SLIDE` for each contact, shape (n,).
        owner: Contact of each direction, shape (k,).
        B: Directions of the impulses, shape (3 n, k).
        R: Rows that the contact laws hold at zero, shape (k, 3 n).
        B_mu: Derivative of B by the friction of each direction's contact.
        R_mu: Derivative of R by the friction of each row's contact.
        C: Minus the derivative of the impulses with respect to the contacts' velocities at constant ξ, shape
            (3 n, 3 n).
    """

    kind: Integers
    owner: Integers
    B: Array
    R: Array
    B_mu: Array
    R_mu: Array
    C: Array


@njit(cache=True, error_model="numpy")
def edges_along(used: Booleans, mu: float) -> tuple[Array, Array]:
    """Return edges (1, ±μ along an axis) of a pyramid as columns, and their derivative by μ, shapes (3, k).

    Args:
        used: True for the k edges to return, shape (4,).
        mu: Friction coefficient.
    """
    k = int(used.sum())
    edges, slope = np.zeros((3, k)), np.zeros((3, k))
    k = 0
    for edge in range(4):
        if used[edge]:
            edges[0, k], edges[AXES[edge], k], slope[AXES[edge], k] = 1.0, SIGNS[edge] * mu, SIGNS[edge]
            k += 1
    return edges, slope


@njit(cache=True, inner=True, error_model="numpy")
def _role(law: int, u: Array, y: Array, unit: float, mu: float, yields: bool, edges: Booleans) -> int:
    """Return the role of a contact, and mark the edges of the pyramid along which it slides.

    At compliant contacts the impulse decides, at other contacts the velocity. Arguments are as for `contact_roles`, of
    one contact; the last one is the result, shape (4,).
    """
    exact, slip, largest = AT_REST * unit, max(abs(u[1]), abs(u[2])), max(abs(y[0]), abs(y[1]), abs(y[2]))
    small = ON_FACE * largest
    if yields:
        rubs = np.hypot(y[1], y[2]) if law == CONVEX else abs(y[1]) + abs(y[2])
        if not y[0] > small:
            return PART
        if mu == np.inf or rubs < mu * y[0] - (1.0 + mu) * small:
            return STICK
        for k in range(4):
            edges[k] = SIGNS[k] * y[AXES[k]] > small
        return SLIDE
    if max(slip, abs(u[0])) <= exact:
        return STICK
    if law == DISSIPATION and 0.0 < mu < np.inf:
        for k in range(4):
            edges[k] = u[0] + SIGNS[k] * mu * u[AXES[k]] <= (1.0 + mu) * exact
        return SLIDE if edges.any() else PART
    if law == NO_SLIP or mu == np.inf or u[0] > exact:
        return PART
    for k in range(4):
        edges[k] = SIGNS[k] * u[AXES[k]] <= exact - slip
    return SLIDE


@njit(cache=True, inner=True, error_model="numpy")
def _slide_on_circle(roles: Roles, i: int, k: int, y: float, u: Array, mu: float, convex: bool) -> None:
    """Write direction k of contact i, which slides with velocity u (3,) and normal impulse y on a circular cone."""
    n, size = roles.kind.shape[0], np.hypot(u[1], u[2])
    roles.B[i, k], roles.R[k, i] = 1.0, 1.0
    for a in (1, 2):
        along = u[a] / size
        roles.B[a * n + i, k], roles.B_mu[a * n + i, k] = -mu * along, -along
        if convex:
            roles.R[k, a * n + i], roles.R_mu[k, a * n + i] = -mu * along, -along
        for b in (1, 2):
            roles.C[a * n + i, b * n + i] = mu * y / size * ((1.0 if a == b else 0.0) - along * u[b] / size)


@njit(cache=True, inner=True, error_model="numpy")
def _slide_on_pyramid(roles: Roles, i: int, k: int, edges: Booleans, mu: float, dissipation: bool) -> int:
    """Write directions k, k + 1, … of contact i, which slides along edges of a pyramid; return the next k."""
    n, first = roles.kind.shape[0], k
    for edge in range(4):
        if not edges[edge]:
            continue
        row, sign = AXES[edge] * n + i, SIGNS[edge]
        roles.B[i, k], roles.B[row, k], roles.B_mu[row, k], roles.owner[k] = 1.0, sign * mu, sign, i
        if dissipation:
            roles.R[k, i], roles.R[k, row], roles.R_mu[k, row] = 1.0, sign * mu, sign
        elif k == first:
            roles.R[k, i] = 1.0
            roles.R[k + 1, row] = sign  # kept if the contact slides equally fast along a second edge
        elif k == first + 1:
            roles.R[k, row] = -sign
        k += 1
    if not dissipation and k == first + 1:
        roles.R[k] = 0.0
    return k


@njit(cache=True, inner=True, error_model="numpy")
def contact_roles(law: int, u: Array, y: Array, units: Array, mu: Array, yields: bool) -> Roles:
    """Return the roles of contacts.

    Args:
        law: A law of `idcontrol.models.distribution`, `NO_SLIP` or `CONVEX`.
        u: Velocities relative to their targets, shape (3 n,) [m/s].
        y: Impulses, shape (3 n,) [N s].
        units: Speed that counts as one at each contact, shape (n,) [m/s].
        mu: Friction coefficients, shape (n,).
        yields: True if the impulses decide, as at compliant contacts.
    """
    n, k = mu.shape[0], 0
    rows, size = 3 * n, 4 * n + 1  # one more than the directions: see `_slide_on_pyramid`
    roles = Roles(
        np.zeros(n, np.int64),
        np.zeros(size, np.int64),
        np.zeros((rows, size)),
        np.zeros((size, rows)),
        np.zeros((rows, size)),
        np.zeros((size, rows)),
        np.zeros((rows, rows)),
    )
    for i in range(n):
        edges = np.zeros(4, np.bool_)
        kind = _role(law, u[i::n], y[i::n], units[i], mu[i], yields, edges)
        if kind == PART:
            continue
        roles.owner[k] = i
        if mu[i] == 0.0:
            roles.B[i, k], roles.R[k, i], kind, k = 1.0, 1.0, SLIDE, k + 1
        elif kind == STICK:
            for axis in range(3):
                roles.B[axis * n + i, k], roles.R[k, axis * n + i], roles.owner[k] = 1.0, 1.0, i
                k += 1
        elif law in (CIRCLE, CONVEX):
            _slide_on_circle(roles, i, k, y[i], u[i::n], mu[i], law == CONVEX)
            k += 1
        else:
            k = _slide_on_pyramid(roles, i, k, edges, mu[i], law == DISSIPATION)
        roles.kind[i] = kind
    return Roles(
        roles.kind,
        roles.owner[:k],
        roles.B[:, :k].copy(),
        roles.R[:k],
        roles.B_mu[:, :k].copy(),
        roles.R_mu[:k],
        roles.C,
    )


class Motion(NamedTuple):
    """The motion of a step with m velocities and n contacts.

    Attributes:
        free: Velocities that the step solves for.
        fixed: Velocities of the tracked joints.
        kappa: κ of the step (`idcontrol.models.step.StepProblem`), shape (m,) [N s].
        rest: Velocities of the contacts at zero impulse, relative to their targets, shape (3 n,) [m/s].
        target: Targets of the contacts, shape (3 n,) [m/s].
        mu: Friction, shape (n,).
        v_plus: Velocity at the end of the period, shape (m,).
        f: Impulses of the contact model, shape (3 n,) [N s]; used only at contacts that yield or slide on a circle, and
            for roles by impulses.
    """

    free: Integers
    fixed: Integers
    kappa: Array
    rest: Array
    target: Array
    mu: Array
    v_plus: Array
    f: Array


class Yielding(NamedTuple):
    """Compliance D of the contact rows, shape (3 n,) [m/s per N s], and the derivative of D, shape (3 n, P)."""

    D: Array
    slope: Array


class Sources(NamedTuple):
    """Derivatives that the motion starts from.

    Attributes:
        b: Derivative of the velocities of the tracked joints, shape (p, P).
        d: Derivative of the targets of the contacts, shape (3 n, P).
        p: Derivative of ``M v⁺ + κ`` at constant v⁺, shape (m, P); the impulses of released joints are part of κ.
        yielding: Compliance of the contacts.
    """

    b: Array
    d: Array
    p: Array
    yielding: Yielding


class Moved(NamedTuple):
    """The motion and its derivative.

    Attributes:
        v_plus: Velocity at the end of the period, shape (m,).
        slope: Derivative of `v_plus`, shape (m, P).
        p: Derivative of ``M v⁺ + κ``, shape (m, P).
        y: Impulses of the motion, shape (3 n,).
        y_slope: Derivative of `y`, shape (3 n, P); if ξ is not unique, of the shortest ξ.
        roles: Roles of the contacts.
        error: Relative error of conditions and linear equations, as `errors`.
    """

    v_plus: Array
    slope: Array
    p: Array
    y: Array
    y_slope: Array
    roles: Roles
    error: Array


class Linear(NamedTuple):
    """Coefficients of the motion's linear equations, for k whitened velocities and d directions of impulses.

    Attributes:
        X: Whitened velocities per impulse of the contacts, shape (k, 3 n).
        pushes: ``X B``, shape (k, d).
        gives: ``D B``, shape (3 n, d).
        roles: The roles of the contacts.
    """

    X: Array
    pushes: Array
    gives: Array
    roles: Roles


@njit(cache=True, inner=True, error_model="numpy")
def saddle(of: Linear, right: Array, bends: bool) -> tuple[Array, Array]:
    """Return the shortest least-squares solution of the motion's equations, and left minus right sides.

    The equations are ``x + X C Xᵀ x - X B ξ = right[:k]`` and ``R Xᵀ x + R D B ξ = right[k:]``; rows of the solution
    are x and ξ. If R = Bᵀ, and D and C are zero, x is known along the range of ``X B`` and equals the right side across
    it, so the pseudo-inverse of this small matrix solves the equations.

    Args:
        of: Coefficients.
        right: Right sides, shape (k + rows of R, P).
        bends: True if D or C is not zero.
    """
    X, pushes, gives, roles = of
    (k, count), R, X_T = pushes.shape, roles.R, np.ascontiguousarray(X.T)
    z = np.zeros((k + count, right.shape[1]))
    if bends or R.shape[0] != count or (R != roles.B.T).any():
        A = np.zeros((k + R.shape[0], k + count))
        A[:k, :k], A[:k, k:] = np.eye(k) + X @ roles.C @ X_T, -pushes
        A[k:, :k], A[k:, k:] = R @ X_T, R @ gives
        z[:] = least_squares(A, right)
        return z, A @ z - right
    inverse, _ = pseudo_inverse(pushes, RANK * column_length(pushes))
    lift = np.ascontiguousarray(inverse.T) @ right[k:]
    z[k:] = inverse @ (lift - right[:k])
    z[:k] = right[:k] + pushes @ z[k:]
    missed = np.zeros_like(right)
    missed[k:] = np.ascontiguousarray(pushes.T) @ z[:k] - right[k:]
    return z, missed


@njit(cache=True, error_model="numpy")
def motion(terms: Terms, law: int, at: Motion, sources: Sources, by_impulse: bool) -> Moved:
    """Return the motion and its derivative.

    Args:
        terms: The robot and its contacts.
        law: As for `contact_roles`.
        at: The motion.
        sources: The derivatives that the motion starts from.
        by_impulse: True if the impulses decide the roles of rigid contacts, too.
    """
    n, k, (J, M), D = at.mu.shape[0], at.free.shape[0], (terms.J, terms.M), sources.yielding.D
    u, units, yields = J @ at.v_plus - at.target, np.zeros(n), bool((D != 0.0).any())
    for i in range(3 * n):
        units[i % n] = max(units[i % n], abs(at.rest[i]) + abs(u[i] - at.rest[i]))
    roles = contact_roles(law, u, at.f, units, at.mu, yields or by_impulse)
    B, R, J_free, J_fixed = roles.B, roles.R, J[:, at.free].copy(), J[:, at.fixed].copy()
    # the unknown velocities in units in which their inertia is one
    L = np.linalg.cholesky(M[at.free][:, at.free].copy())
    whiten = np.linalg.solve(L, np.eye(k))
    X, need = whiten @ np.ascontiguousarray(J_free.T), whiten @ (M @ at.v_plus + at.kappa)[at.free]
    pushes = X @ B
    if yields:
        xi, wrong = fit(B, at.f)[0], 0.0
    else:
        xi, wrong = fit(pushes, need)
        wrong *= _largest(need) / max(_largest(whiten @ at.kappa[at.free]), 1e-300)
    y = B @ xi
    turned, held = np.zeros((3 * n, terms.ends[-1])), np.zeros((R.shape[0], terms.ends[-1]))
    for j in range(xi.shape[0]):
        column = terms.ends[-2] + roles.owner[j]
        for r in range(3 * n):
            turned[r, column] += roles.B_mu[r, j] * xi[j]
            held[j, column] += roles.R_mu[j, r] * (u[r] + D[r] * y[r])
    du = J_fixed @ sources.b + rows_times(terms, at.v_plus) - sources.d
    softer = sources.yielding.slope * y.reshape(-1, 1) + D.reshape(-1, 1) * turned
    first = (rows_transposed(terms, y) - sources.p)[at.free] - M[at.free][:, at.fixed].copy() @ sources.b
    bent, curved = turned, bool(roles.C.any())
    if curved:
        bent = turned - roles.C @ du
    first += np.ascontiguousarray(J_free.T) @ bent
    right = np.vstack((whiten @ first, -R @ (du + softer) - held))
    z, missed = saddle(Linear(X, pushes, D.reshape(-1, 1) * B, roles), right, yields or curved)
    slope = np.zeros((M.shape[0], terms.ends[-1]))
    slope[at.free], slope[at.fixed] = np.ascontiguousarray(whiten.T) @ z[:k], sources.b
    y_slope = B @ z[k:] + bent
    if curved:
        y_slope -= roles.C @ (J_free @ slope[at.free])
    error = np.maximum(errors(terms.ends, missed, right), wrong)
    return Moved(at.v_plus, slope, M @ slope + sources.p, y, y_slope, roles, error)


@njit(cache=True, inner=True, error_model="numpy")
def _largest(x: Array) -> float:
    """Return the largest magnitude in x (n,); zero without entries."""
    out = 0.0
    for one in x:
        out = max(out, abs(one))
    return out
