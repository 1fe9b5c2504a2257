"""How a scheme chose the solution of a control step: law, compliance, second stage."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.controllers import schemes
from idcontrol.controllers.gradient.motion import AXES, CONVEX, NO_SLIP, ON_FACE, SIGNS, Yielding
from idcontrol.controllers.gradient.site import Solved, square_slopes
from idcontrol.controllers.schemes import Scheme
from idcontrol.controllers.step import COARSE, SLIPS
from idcontrol.dynamics.derivatives import inertia_times
from idcontrol.kernels.arena import HEAP
from idcontrol.kernels.bound import Bound, bind, unbind
from idcontrol.kernels.jit import njit
from idcontrol.models import dissipation
from idcontrol.models.constraint import DAMPING, STIFFNESS
from idcontrol.models.constraint.solver import CREEP
from idcontrol.models.distribution import DISSIPATION, allowed_edges, unbounded
from idcontrol.models.whitened import recover_kernel
from idcontrol.types import Array, Integers


class Choice(NamedTuple):
    """How a scheme chose among the solutions of a step, as far as direct schemes need it (`is_direct`).

    Attributes:
        law: Law of its contacts, as for `motion.contact_roles`.
        slides: The law once a contact slides; `NO_SLIP` if none can.
        shares: True if a stage II may have chosen the impulses.
        f: Impulses of the contacts, shape (3 n,) [N s].
    """

    law: int
    slides: int
    shares: bool
    f: Array


class Chosen(NamedTuple):
    """How a scheme chose among the solutions of a step.

    Attributes:
        law: Law of its contacts, as for `motion.contact_roles`.
        slides: As in `Choice`.
        shares: True if stage II chose the impulses; otherwise they are the contact model's.
        adds: True if the contact model's motor impulses are a part of `reference`.
        cone: Edges of the cones of stage II, shape (n,).
        reference: hτ_ref of stage II, shape (p,).
        raw: Impulses of the contact model alone, shape (3 n,).
        yielding: Compliance of the contacts.
        kept: Directions of the nonzero impulses in the solution of a rigid contact model, shape (3 n, k).
        rigid: True if the contacts are rigid.
    """

    law: int
    slides: int
    shares: bool
    adds: bool
    cone: Integers
    reference: Array
    raw: Array
    yielding: Yielding
    kept: Array
    rigid: bool


RIGID: Final = Yielding(np.zeros(0), np.zeros((0, 0)))
"""No compliance, for any number of contacts."""


def is_direct(scheme: Scheme) -> bool:
    """True if the derivative of a scheme's step follows from the data that a compiled step leaves behind."""
    return scheme.solve is not None and scheme.after in (None, schemes.share) and scheme.ground == "rigid"


@njit(cache=True, error_model="numpy")
def velocity_of(solved: Bound, f: Array, impulse: Array, recovers: bool) -> Array:
    """Return the velocity at the end of the period, shape (m,).

    Args:
        solved: The step that was solved (`AssembledStep`).
        f: Impulses of the contacts.
        impulse: Motor impulses of the tracked joints.
        recovers: True if the velocities of the tracked joints are exact.
    """
    w = solved.borrowed.w
    if recovers:
        return recover_kernel(w, f, HEAP)[0]
    pushed = np.ascontiguousarray(w.rows.T) @ f - w.kappa
    for k in range(w.fixed.shape[0]):
        pushed[w.fixed[k]] += impulse[k]
    v_plus: Array = np.linalg.solve(w.M, pushed)
    return v_plus


def choice_of(scheme: Scheme, solved: Solved) -> Choice:
    """Return how the scheme chose the solution of a step."""
    slides = CONVEX if scheme.ground == "convex" else scheme.law
    if scheme.sticks and solved.ending != SLIPS:
        slides = NO_SLIP
    return Choice(
        NO_SLIP if solved.sticking else slides,
        slides,
        solved.f.size > 0 and solved.ending != COARSE and scheme.after is not None,
        solved.f,
    )


def choose(scheme: Scheme, solved: Solved, v_plus: Array, yielding: Yielding) -> Chosen:
    """Return how the scheme chose the solution of a step, for any scheme."""
    law, slides, shares, f = choice_of(scheme, solved)
    rigid, none = scheme.ground == "rigid", np.zeros((f.size, 0))
    cone, held = allowed(solved.step, v_plus)
    alone = Chosen(law, slides, False, False, cone, held, f, yielding, none, rigid)
    if not shares:
        return alone._replace(kept=_support(law, solved.step, f)) if rigid else alone
    if scheme.after is schemes.share or solved.sticking:
        return alone._replace(shares=True)
    step, raw = unbind(solved.step), np.zeros_like(f)
    bare = bind(
        step._replace(
            active=solved.before.copy(),
            held=np.zeros_like(held),
            bounds=unbounded(held.size),
            cones=step.cones._replace(weight=np.zeros_like(step.cones.weight)),
        )
    )
    assert scheme.solve is not None
    answer = scheme.solve(bare, raw, HEAP)
    if scheme.after is schemes.smooth:
        fading = held + (step.last - held) * (schemes.FADES_S / (schemes.FADES_S + step.h))
        return alone._replace(shares=True, reference=fading)
    if np.array_equal(raw, f):  # nothing to share, or stage II would violate the law
        return alone._replace(kept=_support(law, solved.step, f)) if rigid else alone
    kept = _support(law, bare, raw) if rigid else none
    return alone._replace(shares=True, adds=True, reference=answer.impulse + held, raw=raw, kept=kept)


@njit(cache=True, error_model="numpy")
def allowed(solved: Bound, v_plus: Array) -> tuple[Integers, Array]:
    """Return the edges that stage II allows each contact, and a copy of `AssembledStep.held`.

    The edges are bits (`allowed_edges`), shape (n,); the copy has the shape (a,) [N m s].

    Args:
        solved: The step that was solved (`AssembledStep`).
        v_plus: Velocity at the end of the period, shape (m,).
    """
    step = solved.borrowed
    cone = np.zeros(step.cones.mu.shape[0], np.int64)
    allowed_edges(step.w.c, step.contacts.jacobian @ v_plus - step.target, step.cones, cone)
    return cone, step.held.copy()


@njit(cache=True, error_model="numpy")
def _support(law: int, solved: Bound, f: Array) -> Array:
    """Return `support` for a step (`AssembledStep`)."""
    step = solved.borrowed
    return support(law, step.cones.mu, step.active, f)


@njit(cache=True, error_model="numpy")
def support(law: int, mu: Array, active: Integers, f: Array) -> Array:
    """Return the directions of the nonzero parts of impulses f (3 n,): edges or axes, shape (3 n, k).

    Args:
        law: As for `motion.contact_roles`.
        mu: Friction, shape (n,).
        active: Active rows of the contacts (`AssembledStep.active`), shape (n,); used only with `DISSIPATION`.
        f: The impulses.
    """
    n, k, small = mu.shape[0], 0, ON_FACE * np.abs(f).max() if f.shape[0] > 0 else 0.0
    out, edges = np.zeros((3 * n, 5 * n)), np.zeros(4, np.bool_)
    for i in range(n):
        rubs = abs(f[n + i]) + abs(f[2 * n + i])
        for edge in range(4):
            edges[edge] = SIGNS[edge] * f[AXES[edge] * n + i] > small
        if law == DISSIPATION and 0.0 < mu[i] < np.inf:
            for edge in range(4):
                edges[edge] = active[i] >> edge & 1 == 1
            if active[i] >> 4 & 1:
                out[i, k], k = 1.0, k + 1
        elif mu[i] == np.inf or not (edges.any() and abs(rubs - mu[i] * f[i]) <= small * (1.0 + mu[i])):
            for axis in range(3):
                if abs(f[axis * n + i]) > small:
                    out[axis * n + i, k], k = 1.0, k + 1
            continue
        for edge in range(4):
            if edges[edge]:
                out[i, k], out[AXES[edge] * n + i, k], k = 1.0, SIGNS[edge] * mu[i], k + 1
    return out[:, :k].copy()


def yielding_of(scheme: Scheme, visited: Bound, solved: Bound) -> Yielding:
    """Return the compliance of the contacts in a scheme, at a `Site` and an `AssembledStep` that was solved."""
    if scheme.ground == "rigid":
        return RIGID
    site, step = unbind(visited), unbind(solved)
    w, h = step.w, step.h
    J, M, dJ, q = site.terms.J, site.terms.M, site.terms.slopes, slice(site.at.q, site.at.v)
    n, m, tree, width = site.contacts.gap.size, len(M), site.motion.tree, site.at.v
    D, slope = np.zeros(3 * n), np.zeros((3 * n, site.at.total))
    if n == 0:
        return Yielding(D, slope)
    if scheme.ground == "ridge":
        D[:] = dissipation.EPSILON * (w.rho**2).sum() / (3 * n)
        slope[:, q] = dissipation.EPSILON * square_slopes(visited, solved).sum(axis=0) / (3 * n)
    elif scheme.ground == "springs":
        D[:n] = 1.0 / (h * (h * STIFFNESS + DAMPING))
        diagonal, changes = np.diag(M), np.zeros((m, width))
        for j, unit in enumerate(np.eye(m)):
            changes[j, :m] = inertia_times(tree, unit)[j]
        creep = 0.5 * CREEP * J**2 / diagonal
        change = CREEP * np.einsum("rk,rkl->rl", J / diagonal, dJ) - (creep / diagonal) @ changes
        for axis in (1, 2):
            D[axis * n : (axis + 1) * n] = creep.sum(axis=1)[n : 2 * n] + creep.sum(axis=1)[2 * n :]
            slope[axis * n : (axis + 1) * n, q] = change[n : 2 * n] + change[2 * n :]
    else:
        Y = np.linalg.solve(M, J.T).T
        moved = np.zeros((3 * n, m, width))
        moved[:, :, :m] = [inertia_times(tree, row) for row in Y]
        for i in range(n):
            A, y, dj = J[i::n] @ Y[i::n].T, Y[i::n], dJ[i::n]
            dA = np.einsum("akl,bk->abl", dj, y) + np.einsum("bkl,ak->abl", dj, y)
            dA -= np.einsum("ak,bkl->abl", y, moved[i::n])
            size = float(np.linalg.norm(A)) / 3.0
            scale = np.array([schemes.STIFF.beta**2 / (4.0 * np.pi**2), schemes.STIFF.sigma, schemes.STIFF.sigma])
            D[i::n] = scale * size
            slope[i::n, q] = np.outer(scale, np.einsum("ab,abl->l", A, dA) / (9.0 * size))
    return Yielding(D, slope)
