"""Contact laws: how far the scaled impulses and velocities of contacts violate them.

Coulomb's law has two conditions on a contact, ``0 ≤ f_N ⊥ u_N ≥ 0`` and f_T = P(f_T - u_T). P projects onto the
friction that f_N allows: |f_T| ≤ μ f_N for the cone, |f_S| + |f_T| ≤ μ f_N for the pyramid of the friction LCP
(math.md, section 5.1). So contacts do not pull or penetrate, pressing contacts do not open, friction stays within its
bound, and sliding friction fully opposes the motion. Maximal dissipation (math.md, section 7.3) has one condition per
edge of the pyramid.
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np

from idcontrol.models.no_slip import SLIP_SPEED
from idcontrol.types import Array, Booleans

Law: TypeAlias = Literal["coulomb-lcp", "coulomb-cone", "dissipation", "viscous", "noslip", "constraint", "sap"]


class Touching(NamedTuple):
    """Contacts after a step; rows are (normal, first tangent, second tangent).

    Attributes:
        f: Impulses, shape (n, 3) [N s].
        u: Velocities as in the law, shape (n, 3) [m/s]: relative to the moving surface, plus, along the normal, the
            share of the gap (for rigid contacts gap / h, at least -`PUSH_OUT_SPEED`), plus compliance times impulse.
        mu: Friction, shape (n,).
        impulse: Scales of normal and of tangential impulses, shape (n, 2) [N s].
        speed: Scales of velocities, shape (n, 3) [m/s].
        drag: h μ_v of the viscous law, shape (n,) [N s²/m].
        closed: True for closed contacts, shape (n,); in some laws a contact with a gap has no friction.
        movable: True if the contact can move along its tangents, shape (n,).
    """

    f: Array
    u: Array
    mu: Array
    impulse: Array
    speed: Array
    drag: Array
    closed: Booleans
    movable: Booleans

    def pressing(self) -> Array:
        """Return the scaled normal impulses, shape (n,)."""
        return relative(self.f[:, 0], self.impulse[:, 0])

    def opening(self) -> Array:
        """Return the scaled normal velocities, shape (n,)."""
        return relative(self.u[:, 0], self.speed[:, 0])

    def across(self) -> Array:
        """Return the larger scale of the two tangential velocities, shape (n,) [m/s]."""
        return np.asarray(self.speed[:, 1:].max(axis=1))

    def slip(self) -> Array:
        """Return the tangential velocities divided by `across`, shape (n, 2)."""
        return relative(self.u[:, 1:], self.across()[:, None])

    def fastest_slip(self) -> Array:
        """Return the larger magnitude of the two scaled tangential velocities (`slip`), shape (n,)."""
        return np.asarray(np.abs(self.slip()).max(axis=1))

    def friction(self) -> Array:
        """Return the sum of the magnitudes of both tangential impulses, shape (n,) [N s]."""
        return np.asarray(np.abs(self.f[:, 1:]).sum(axis=1))


def excess(law: Law, contacts: Touching) -> Array:
    """Return the violation of the law by each contact, in the contact's scale, shape (n,); 0 if the contact obeys.

    SAP's law is not included, since its contacts are regularized.
    """
    with np.errstate(invalid="ignore", divide="ignore"):  # infinite friction has a rule of its own
        return np.maximum(_LAWS[law](contacts), 0.0)


def relative(x: Array, unit: Array) -> Array:
    """Return x / unit; if the unit is zero, 0 for x = 0 and infinity with the sign of x for other x."""
    out: Array = np.where(x == 0.0, 0.0, np.copysign(np.inf, x))
    return np.divide(x, unit, out=out, where=unit > 0.0)


def onto_discs(x: Array, radius: Array) -> Array:
    """Project vectors x, shape (n, 2), onto discs of `radius`, shape (n,)."""
    length = np.linalg.norm(x, axis=1)
    return np.where((length > radius)[:, None], x * relative(radius, length)[:, None], x)


def onto_diamonds(x: Array, radius: Array) -> Array:
    """Project vectors x, shape (n, 2), onto the diamonds |x_0| + |x_1| ≤ `radius`, shape (n,)."""
    size = np.abs(x)
    over = np.maximum(size.sum(axis=1) - radius, 0.0)
    # reduce both components by half of the excess; if the smaller becomes zero, reduce the larger by the rest
    less = np.minimum(0.5 * over, size.min(axis=1))
    cut = np.where(size == size.min(axis=1, keepdims=True), less[:, None], (over - less)[:, None])
    cut[size[:, 0] == size[:, 1]] = 0.5 * over[size[:, 0] == size[:, 1], None]
    return np.copysign(np.maximum(size - cut, 0.0), x)


def _normal(c: Touching) -> Array:
    """Return the violation of 0 ≤ f_N ⊥ u_N ≥ 0."""
    return np.abs(np.minimum(c.pressing(), c.opening()))


def _frictional(project: Callable[[Array, Array], Array]) -> Callable[[Touching], Array]:
    """Return a function that computes the violation of Coulomb's law, with the projection `project`."""

    def law(c: Touching) -> Array:
        bound = np.maximum(c.mu * c.f[:, 0], 0.0)
        # without motion along the tangents friction has no effect, but stays within its bound
        unit = np.where(c.movable, np.maximum(c.impulse[:, 1], bound), c.mu * c.impulse[:, 0])
        unit = np.maximum(unit, np.abs(c.f[:, 1:]).max(axis=1))
        friction, radius = relative(c.f[:, 1:], unit[:, None]), relative(bound, unit)
        away = np.linalg.norm(friction - project(friction - c.slip() * c.movable[:, None], radius), axis=1)
        return np.where(np.isinf(c.mu), _stuck(c), np.maximum(_normal(c), away))

    return law


def _stuck(c: Touching) -> Array:
    """Return the violation of infinite friction: pressing contacts do not slip, opening contacts have no friction."""
    slides = np.minimum(c.pressing(), c.fastest_slip())
    parts = np.minimum(relative(c.friction(), c.impulse[:, 1]), np.maximum(c.opening(), 0.0))
    return np.maximum(_normal(c), np.maximum(np.abs(slides), parts))


def _stuck_if_closed(c: Touching) -> Array:
    """Return the violation of infinite friction at closed contacts, and of zero friction at a gap."""
    free = np.maximum(_normal(c), relative(c.friction(), c.impulse[:, 1]))
    return np.where(c.closed, _stuck(c), free)


def _dissipation(c: Touching) -> Array:
    """Return the violation of ``0 ≤ η_e ⊥ u_N ± μ u_T ≥ 0`` at the edges e of the pyramid (math.md, section 7.3).

    The impulses η_e along the edges add up to f, which leaves their split open. Two splits are tried; the smaller
    violation counts. Also, a contact with an impulse inside the pyramid must neither open nor slip. Contacts with zero
    or infinite friction are judged by the conditions of frictionless or sticking contacts.
    """
    slack = c.f[:, 0] - relative(c.friction(), c.mu)
    unit = c.speed[:, 0] + np.maximum(c.mu, 1.0) * c.across()
    options = []
    for loose in (1, 2):
        ways = []
        for axis in (1, 2):
            for sign in (1.0, -1.0):
                share = relative(np.maximum(sign * c.f[:, axis], 0.0), c.mu) + 0.5 * slack * (axis == loose)
                edge = relative(c.u[:, 0] + sign * c.mu * c.u[:, axis], unit)
                ways.append(np.abs(np.minimum(relative(share, c.impulse[:, 0]), edge)))
        options.append(np.max(ways, axis=0))
    # with an impulse inside the pyramid a contact neither opens nor slips, for any slope of the pyramid
    moves = np.maximum(np.abs(c.opening()), c.fastest_slip())
    inside = np.abs(np.minimum(relative(slack, c.impulse[:, 0]), moves))
    rough = np.maximum(np.minimum(*options), np.maximum(inside, -c.opening()))
    smooth = np.maximum(_normal(c), relative(c.friction(), c.impulse[:, 1]))
    return np.where(np.isinf(c.mu), _stuck_if_closed(c), np.where(c.mu > 0.0, rough, smooth))


def _viscous(c: Touching) -> Array:
    """Return the larger of the violations of f_T = -h μ_v u_T and of 0 ≤ f_N ⊥ u_N ≥ 0."""
    drag, friction = c.drag[:, None], c.f[:, 1:]
    unit = np.maximum(np.maximum(np.abs(friction), drag * c.speed[:, 1:]), c.impulse[:, 1:])
    return np.maximum(_normal(c), np.abs(relative(friction + drag * c.u[:, 1:], unit)).max(axis=1))


def _no_slip(c: Touching) -> Array:
    """Return the violation of infinite friction; slip and approach up to `SLIP_SPEED` count as 0 (math.md, 4.3)."""
    opening = np.where(np.abs(c.u[:, 0]) <= SLIP_SPEED, np.maximum(c.u[:, 0], 0.0), c.u[:, 0])
    slow = (np.abs(c.u[:, 1:]) <= SLIP_SPEED).all(axis=1, keepdims=True)
    c = c._replace(u=np.column_stack((opening, np.where(slow, 0.0, c.u[:, 1:]))))
    resting = c._replace(f=np.where((opening <= SLIP_SPEED)[:, None] & (np.arange(3) > 0), 0.0, c.f))
    held = np.maximum(_normal(c), _stuck(resting))  # friction may hold a contact that opens only slowly
    return np.where(c.closed, held, _stuck_if_closed(c))


_LAWS: Final[Mapping[Law, Callable[[Touching], Array]]] = {
    "coulomb-lcp": _frictional(onto_diamonds),
    "coulomb-cone": _frictional(onto_discs),
    "dissipation": _dissipation,
    "viscous": _viscous,
    "noslip": _no_slip,
    "constraint": _frictional(onto_diamonds),
}
"""Functions that compute the violation of each law. Velocities of nearly rigid contacts include compliance."""
