"""Derivative of the motion that a contact model predicts.

Derivatives have one column for each of the P parameters (`idcontrol.controllers.gradient.site.Columns`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.controllers.gradient.site import Site, fit, least_squares
from idcontrol.controllers.step import AssembledStep
from idcontrol.types import Array

AT_REST: Final = 1e-7
"""Speed below which a contact counts as at rest, relative to its speed at zero impulse plus the speed that impulses
add. The models are accurate to 1e-8."""

ON_FACE: Final = 1e-7
"""Distance from a face of its cone up to which an impulse lies on it, relative to the largest impulse."""


class Role(NamedTuple):
    """The role of one contact in the motion; see `idcontrol.controllers.gradient`, item 3.

    Attributes:
        name: ``"stick"``, ``"slide"`` or ``"part"``.
        B: Directions of its impulse, shape (3, k).
        R: Rows that its law holds, shape (k, 3).
        B_mu: Derivative of B by friction.
        R_mu: Derivative of R by friction.
        C: Minus the derivative of the impulse with respect to the contact's velocity at constant ξ, shape (3, 3).
    """

    name: str
    B: Array
    R: Array
    B_mu: Array
    R_mu: Array
    C: Array


NOTHING: Final = np.zeros((3, 0))
SOLID: Final = np.zeros((3, 3))


def _parting() -> Role:
    return Role("part", NOTHING, NOTHING.T, NOTHING, NOTHING.T, SOLID)


def _sticking() -> Role:
    return Role("stick", np.eye(3), np.eye(3), SOLID, SOLID, SOLID)


def edges_along(signs: list[tuple[int, float]], mu: float) -> tuple[Array, Array]:
    """Return edges (1, ±μ along an axis) as columns, and their derivative by μ, shapes (3, k)."""
    edges, slope = np.zeros((3, len(signs))), np.zeros((3, len(signs)))
    for k, (axis, sign) in enumerate(signs):
        edges[0, k], edges[axis, k], slope[axis, k] = 1.0, sign * mu, sign
    return edges, slope


ALONG: Final = ((1, 1.0), (1, -1.0), (2, 1.0), (2, -1.0))
"""Axis and sign of the edges of a pyramid, in the order of their bits."""


def _frictionless() -> Role:
    e = np.array([[1.0], [0.0], [0.0]])
    return Role("slide", e, e.T, 0.0 * e, 0.0 * e.T, SOLID)


def _on_circle(u: Array, y: Array, mu: float, rows: str) -> Role:
    """Return the role of a contact that slides with velocity u and impulse y on a circular cone."""
    size = np.hypot(u[1], u[2])
    along = np.array([0.0, u[1] / size, u[2] / size])
    e = np.array([1.0, 0.0, 0.0])
    B, C = (e - mu * along)[:, None], np.diag([0.0, 1.0, 1.0]) - np.outer(along, along)
    R, R_mu = ((e - mu * along)[None], -along[None]) if rows == "convex" else (e[None], np.zeros((1, 3)))
    return Role("slide", B, R, -along[:, None], R_mu, mu * y[0] / size * C)


def _state(law: str, u: Array, y: Array, unit: float, mu: float, yields: bool) -> tuple[str, list[tuple[int, float]]]:
    """Return the name of a contact's role, and the edges of the pyramid along which it slides.

    At compliant contacts the impulse decides, at other contacts the velocity. Arguments are as for `role`.
    """
    exact, slip = AT_REST * unit, float(max(abs(u[1]), abs(u[2])))
    if yields:
        cone, small = y[0], ON_FACE * float(np.abs(y).max())
        rubs = np.hypot(y[1], y[2]) if law == "convex" else abs(y[1]) + abs(y[2])
        if not y[0] > small:
            return "part", []
        if mu == np.inf or rubs < mu * cone - (1.0 + mu) * small:
            return "stick", []
        return "slide", [edge for edge in ALONG if edge[1] * y[edge[0]] > small]
    if np.abs(u).max() <= exact:
        return "stick", []
    if law == "dissipation" and 0.0 < mu < np.inf:
        active = [edge for edge in ALONG if u[0] + edge[1] * mu * u[edge[0]] <= (1.0 + mu) * exact]
        return ("slide" if active else "part"), active
    if law == "no-slip" or mu == np.inf or u[0] > exact:
        return "part", []
    return "slide", [edge for edge in ALONG if edge[1] * u[edge[0]] <= exact - slip]


def role(law: str, u: Array, y: Array, unit: float, mu: float, *, yields: bool) -> Role:
    """Return the role of a contact.

    Args:
        law: ``"no-slip"``, ``"dissipation"``, ``"coulomb"``, ``"circle"`` or ``"convex"`` (the circle of SAP).
        u: Velocity relative to its target, shape (3,) [m/s].
        y: Impulse, shape (3,) [N s].
        unit: Speed that counts as one [m/s].
        mu: Friction coefficient.
        yields: True if the contact is compliant.
    """
    name, edges = _state(law, u, y, unit, mu, yields)
    if name == "part":
        return _parting()
    if mu == 0.0:
        return _frictionless()
    if name == "stick":
        return _sticking()
    if law in ("circle", "convex"):
        return _on_circle(u, y, mu, law)
    B, B_mu = edges_along(edges, mu)
    if law == "dissipation":
        return Role("slide", B, B.T, B_mu, B_mu.T, SOLID)
    R = np.zeros((len(edges), 3))
    R[0, 0] = 1.0
    if len(edges) > 1:  # the contact slides equally fast along both tangents
        for (axis, sign), one in zip(edges, (1.0, -1.0), strict=True):
            R[1, axis] = one * sign
    return Role("slide", B, R, B_mu, np.zeros_like(R), SOLID)


class Moved(NamedTuple):
    """The motion and its derivative.

    Attributes:
        v_plus: Velocity at the end of the period, shape (m,).
        slope: Its derivative, shape (m, P).
        p: Derivative of ``M v⁺ + κ``, shape (m, P).
        y: Impulses of the motion, shape (3 n,).
        y_slope: Their derivative, shape (3 n, P); of the shortest ξ where ξ is not unique.
        roles: Role of each contact.
        error: Relative error of conditions and linear equations, as `Site.errors`.
    """

    v_plus: Array
    slope: Array
    p: Array
    y: Array
    y_slope: Array
    roles: tuple[Role, ...]
    error: Array


class Yielding(NamedTuple):
    """Compliance D of the contact rows, shape (3 n,) [m/s per N s], and its derivative, shape (3 n, P)."""

    D: Array
    slope: Array


def blocks(parts: list[Array], n: int, *, columns: bool) -> Array:
    """Assemble the matrices of n contacts, for vectors in the order [N; S; T].

    With `columns`, each matrix has shape (3, e), and the result has shape (3 n, Σe); otherwise, all are transposed.
    """
    parts = parts if columns else [part.T for part in parts]
    out = np.zeros((3 * n, sum(part.shape[1] for part in parts)))
    at = 0
    for i, part in enumerate(parts):
        out[i::n, at : at + part.shape[1]] = part
        at += part.shape[1]
    return out if columns else out.T


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


def motion(site: Site, step: AssembledStep, law: str, v_plus: Array, f: Array, sources: Sources) -> Moved:
    """Return the motion and its derivative.

    Args:
        site: The robot and its contacts.
        step: The step that was solved.
        law: As for `role`.
        v_plus: The motion, shape (m,).
        f: Impulses of the contact model, shape (3 n,); used only at contacts that yield or slide on a circle.
        sources: The derivatives that the motion starts from.
    """
    n, (free, fixed) = len(site.contacts), (step.w.free, step.w.fixed)
    J, M, D = site.contacts.jacobian, site.system.M, sources.yielding.D
    u, rest = J @ v_plus - step.target, J @ step.w.v_free - step.target
    units, yields = (np.abs(rest) + np.abs(u - rest)).reshape(3, n).max(axis=0, initial=0.0), bool(D.any())
    roles = tuple(role(law, u[i::n], f[i::n], units[i], float(step.cones.mu[i]), yields=yields) for i in range(n))
    B, R = (blocks([getattr(one, name) for one in roles], n, columns=name == "B") for name in ("B", "R"))
    C = np.zeros((3 * n, 3 * n))
    for i, one in enumerate(roles):
        C[i::n, i::n] = one.C
    L = np.linalg.cholesky(M[np.ix_(free, free)])
    X = np.linalg.solve(L, J[:, free].T)
    pull = np.linalg.solve(L, (M @ v_plus + step.w.kappa)[free])
    if yields:
        xi = np.linalg.lstsq(B, f, rcond=None)[0]
        wrong = 0.0
    else:
        xi, wrong = fit(X @ B, pull)
        scale = np.abs(np.linalg.solve(L, step.w.kappa[free])).max(initial=1e-300)
        wrong *= np.abs(pull).max(initial=0.0) / scale
    y = B @ xi
    turned, held = site.zeros(3 * n), site.zeros(R.shape[0])
    k = 0
    for i, one in enumerate(roles):
        size, column = one.B.shape[1], site.columns.mu.start + i
        turned[i::n, column] = one.B_mu @ xi[k : k + size]
        held[k : k + size, column] = one.R_mu @ (u + D * y)[i::n]
        k += size
    du = J[:, fixed] @ sources.b + site.rows_times(v_plus) - sources.d
    softer = sources.yielding.slope * y[:, None] + D[:, None] * turned
    first = site.rows_transposed(y)[free] + J[:, free].T @ (turned - C @ du)
    first -= sources.p[free] + M[np.ix_(free, fixed)] @ sources.b
    k = free.size
    A = np.zeros((k + R.shape[0], k + B.shape[1]))
    A[:k, :k], A[:k, k:] = np.eye(k) + X @ C @ X.T, -X @ B
    A[k:, :k], A[k:, k:] = R @ X.T, R @ (D[:, None] * B)
    right = np.vstack((np.linalg.solve(L, first), -R @ (du + softer) - held))
    z = least_squares(A, right)
    slope = np.zeros((J.shape[1], site.columns.total))
    slope[free], slope[fixed] = np.linalg.solve(L.T, z[: free.size]), sources.b
    y_slope = B @ z[free.size :] + turned - C @ (J[:, free] @ slope[free] + du)
    error = np.maximum(site.errors(A @ z - right, right), wrong)
    return Moved(v_plus, slope, M @ slope + sources.p, y, y_slope, roles, error)
