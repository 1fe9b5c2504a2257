"""How a scheme chose the solution of a control step: law, compliance, second stage."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from idcontrol.controllers import schemes
from idcontrol.controllers.gradient.motion import AXES, CONVEX, NO_SLIP, ON_FACE, SIGNS, Yielding
from idcontrol.controllers.gradient.site import Site, square_slopes
from idcontrol.controllers.schemes import Scheme
from idcontrol.controllers.step import COARSE, INEXACT, SLIPS, SOLVED, Answer, AssembledStep
from idcontrol.dynamics.derivatives import inertia_times
from idcontrol.kernels.arena import HEAP
from idcontrol.kernels.bound import bind
from idcontrol.models import dissipation
from idcontrol.models.constraint import DAMPING, STIFFNESS
from idcontrol.models.constraint.solver import CREEP
from idcontrol.models.distribution import DISSIPATION, allowed_edges, unbounded
from idcontrol.models.whitened import recover_kernel
from idcontrol.types import Array, Integers

EDGES: Final = tuple(zip(AXES, SIGNS, strict=True))


class Solved(NamedTuple):
    """A step and its solution.

    Attributes:
        joints: The step with all joints tracked.
        step: The step that was solved last, maybe with released joints.
        before: `AssembledStep.active` before this step was solved, shape (n,).
        f: Impulses of the contacts, shape (3 n,) [N s].
        answer: The scheme's answer.
    """

    joints: AssembledStep
    step: AssembledStep
    before: Integers
    f: Array
    answer: Answer


class Chosen(NamedTuple):
    """How a scheme chose among the solutions of a step.

    Attributes:
        law: Law of its contacts, as for `motion.contact_roles`.
        cone: Edges of the cones of stage II, shape (n,); None if the impulses are the contact model's.
        reference: hτ_ref of stage II, shape (p,).
        raw: Impulses of the contact model alone, (3 n,), if their motor impulses are a part of `reference`; else None.
        yielding: Compliance of the contacts.
        kept: Directions of the nonzero impulses in the solution of a rigid contact model, shape (3 n, k); None for
            compliant contacts.
    """

    law: int
    cone: Integers | None
    reference: Array
    raw: Array | None
    yielding: Yielding
    kept: Array | None


def velocity_of(site: Site, solved: Solved, *, compliant: bool) -> Array:
    """Return the velocity at the end of the period, shape (m,)."""
    w, f = solved.step.w, solved.f
    if not compliant and solved.answer.ending in (SOLVED, COARSE, SLIPS, INEXACT):
        return np.asarray(recover_kernel(w, f, HEAP)[0])
    pushed = site.contacts.jacobian.T @ f - w.kappa
    pushed[w.fixed] += solved.answer.impulse
    return np.asarray(np.linalg.solve(w.M, pushed), dtype=np.float64)


def choose(scheme: Scheme, site: Site, solved: Solved, v_plus: Array, yielding: Yielding) -> Chosen:
    """Return how the scheme chose the solution of a step."""
    step, answer, f = solved.step, solved.answer, solved.f
    law = CONVEX if scheme.name == "sap" else scheme.law
    if (scheme.sticks and answer.ending != SLIPS) or answer.sticking:
        law = NO_SLIP
    yields = bool(yielding.D.any())
    chosen = Chosen(law, None, step.held, None, yielding, None if yields else _support(law, step, f))
    if f.size == 0 or answer.ending == COARSE or scheme.after is None:
        return chosen
    cone = np.zeros(f.size // 3, dtype=np.int64)
    u = site.contacts.jacobian @ v_plus - step.target
    allowed_edges(step.w.c, u, step.cones, cone)
    if scheme.after is schemes.share or answer.sticking:
        return chosen._replace(cone=cone)
    raw = np.zeros_like(f)
    alone = step._replace(
        active=solved.before.copy(),
        held=np.zeros_like(step.held),
        bounds=unbounded(step.held.size),
        cones=step.cones._replace(weight=np.zeros_like(step.cones.weight)),
    )
    assert scheme.solve is not None
    bare = scheme.solve(bind(alone), raw, HEAP)
    if scheme.after is schemes.smooth:
        fading = step.held + (step.last - step.held) * (schemes.FADES_S / (schemes.FADES_S + step.h))
        return chosen._replace(cone=cone, reference=fading)
    if np.array_equal(raw, f):  # nothing to share, or stage II would violate the law
        return chosen
    return chosen._replace(
        cone=cone, reference=bare.impulse + step.held, raw=raw, kept=None if yields else _support(law, alone, raw)
    )


def _support(law: int, step: AssembledStep, f: Array) -> Array:
    """Return the directions of the nonzero parts of impulses f (3 n,): edges or axes, shape (3 n, k)."""
    n, small, columns = f.size // 3, ON_FACE * np.abs(f).max(initial=0.0), []
    for i in range(n):
        y, mu = f[i::n], float(step.cones.mu[i])
        used = [edge for edge in EDGES if edge[1] * y[edge[0]] > small]
        if law == DISSIPATION and 0.0 < mu < np.inf:
            used = [edge for bit, edge in enumerate(EDGES) if step.active[i] >> bit & 1]
            if step.active[i] >> 4 & 1:
                columns.append((i, np.array([1.0, 0.0, 0.0])))
        elif mu == np.inf or not (used and abs(abs(y[1]) + abs(y[2]) - mu * y[0]) <= small * (1.0 + mu)):
            columns += [(i, np.eye(3)[axis]) for axis in range(3) if abs(y[axis]) > small]
            continue
        for axis, sign in used:
            columns.append((i, np.array([1.0, 0.0, 0.0]) + sign * mu * np.eye(3)[axis]))
    out = np.zeros((f.size, len(columns)))
    for k, (i, direction) in enumerate(columns):
        out[i::n, k] = direction
    return out


def yielding_of(scheme: Scheme, site: Site, solved: Solved) -> Yielding:
    """Return the compliance of the contacts in a scheme."""
    n, h = len(site.contacts), site.machine.h
    J, M, dJ = site.contacts.jacobian, site.system.M, site.rows.jacobian
    D, slope = np.zeros(3 * n), site.zeros(3 * n)
    if n == 0:
        return Yielding(D, slope)
    if scheme.name == "one-stage":
        D[:] = dissipation.EPSILON * (solved.step.w.rho**2).sum() / (3 * n)
        slope[:, site.columns.q] = dissipation.EPSILON * square_slopes(site, solved.step).sum(axis=0) / (3 * n)
    elif scheme.name == "constraint":
        D[:n] = 1.0 / (h * (h * STIFFNESS + DAMPING))
        diagonal, changes = np.diag(M), np.zeros_like(M)
        for j, unit in enumerate(np.eye(M.shape[0])):
            changes[j] = inertia_times(site.motion.tree, unit)[j]
        creep = 0.5 * CREEP * J**2 / diagonal
        change = CREEP * np.einsum("rk,rkl->rl", J / diagonal, dJ) - (creep / diagonal) @ changes
        for axis in (1, 2):
            D[axis * n : (axis + 1) * n] = creep.sum(axis=1)[n : 2 * n] + creep.sum(axis=1)[2 * n :]
            slope[axis * n : (axis + 1) * n, site.columns.q] = change[n : 2 * n] + change[2 * n :]
    elif scheme.name == "sap":
        Y = np.linalg.solve(M, J.T).T
        moved = np.stack([inertia_times(site.motion.tree, row) for row in Y])
        for i in range(n):
            A, y, dj = J[i::n] @ Y[i::n].T, Y[i::n], dJ[i::n]
            dA = np.einsum("akl,bk->abl", dj, y) + np.einsum("bkl,ak->abl", dj, y)
            dA -= np.einsum("ak,bkl->abl", y, moved[i::n])
            w = float(np.linalg.norm(A)) / 3.0
            scale = np.array([schemes.STIFF.beta**2 / (4.0 * np.pi**2), schemes.STIFF.sigma, schemes.STIFF.sigma])
            D[i::n] = scale * w
            slope[i::n, site.columns.q] = np.outer(scale, np.einsum("ab,abl->l", A, dA) / (9.0 * w))
    return Yielding(D, slope)
