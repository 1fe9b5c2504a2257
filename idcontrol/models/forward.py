"""The forward problem of one step, compiled: torques are known, no velocity is prescribed.

Plants use this module for models that provide an `Attempt`, controllers to predict impacts. If the attempt does not
solve a step, the model's Python function in `idcontrol.models` solves it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from idcontrol.contact.contacts import ContactArrays
from idcontrol.kernels.arena import Arena, indices, vector
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linked import linked
from idcontrol.models.coulomb import MOST_CONTACTS, continued_lcp_kernel
from idcontrol.models.coulomb_cone import cone_kernel
from idcontrol.models.dissipation import edge_lcp_kernel
from idcontrol.models.step import PUSH_OUT_SPEED
from idcontrol.models.whitened import Whitened, whiten_kernel
from idcontrol.solvers.status import SOLVED
from idcontrol.types import Array, Integers


class ForwardProblem(NamedTuple):
    """A step that a contact model solves forward.

    Attributes:
        w: The whitened problem; its constants c are relative to the surfaces, with φ/h (at least -`PUSH_OUT_SPEED`)
            added on normals.
        mu: Friction coefficients, shape (n,).
        active: Bit set of each contact's active rows, in and out, shape (n,).
    """

    w: Whitened
    mu: Array
    active: Integers


Attempt: TypeAlias = Callable[[ForwardProblem, Array, Arena], tuple[bool, int, float]]
"""The first attempt of a compiled contact model. It writes the impulses (3 n,) [N s] of contacts with finite friction,
initially zero, and returns True if they solve the problem, the iterations, and the residual.
"""


@linked
@njit(cache=True, inner=True, error_model="numpy")
def whiten_forward(
    M: Array, kappa: Array, h: float, contacts: ContactArrays, active: Integers, arena: Arena
) -> ForwardProblem:
    """Whiten the forward problem of a step of `h` [s] with inertia M (m, m) and κ (m,), which includes the torques."""
    m, n = M.shape[0], contacts.gap.shape[0]
    free = indices(arena, m)
    for i in range(m):
        free[i] = i
    w = whiten_kernel(M, kappa, free, indices(arena, 0), vector(arena, 0), contacts.jacobian, arena)
    for r in range(3 * n):
        w.c[r] -= contacts.surface_velocity[r]
    for i in range(n):
        w.c[i] += max(contacts.gap[i] / h, -PUSH_OUT_SPEED)
    return ForwardProblem(w, contacts.mu, active)


@njit(cache=True, inner=True, error_model="numpy")
def _finite_friction(mu: Array) -> bool:
    finite = True
    for value in mu:
        finite = finite and np.isfinite(value)
    return finite


@linked
@njit(cache=True, error_model="numpy")
def coulomb(problem: ForwardProblem, f: Array, arena: Arena) -> tuple[bool, int, float]:
    """Attempt the step by `idcontrol.models.coulomb`; return True if it is solved, pivots, and residual.

    More than `MOST_CONTACTS` contacts, or infinite friction, are not attempted: the result is then False, 0, inf.
    """
    mu = problem.mu
    if mu.shape[0] > MOST_CONTACTS or not _finite_friction(mu):
        return False, 0, np.inf
    ending, pivots, residual = continued_lcp_kernel(
        problem.w.rho, problem.w.c, problem.w.roundoff, mu, problem.active, f, arena
    )
    return ending == SOLVED, pivots, residual


@njit(cache=True, error_model="numpy")
def cone(problem: ForwardProblem, f: Array, arena: Arena) -> tuple[bool, int, float]:
    """Attempt the step by `idcontrol.models.coulomb_cone`; return True if it is solved, Newton steps, and residual.

    More than `MOST_CONTACTS` contacts, or infinite friction, are not attempted: the result is then False, 0, inf.
    """
    mu = problem.mu
    if mu.shape[0] > MOST_CONTACTS or not _finite_friction(mu):
        return False, 0, np.inf
    ending, steps, residual = cone_kernel(problem.w.rho, problem.w.c, problem.w.roundoff, mu, problem.active, f, arena)
    return ending == SOLVED, steps, residual


@njit(cache=True, error_model="numpy")
def dissipation(problem: ForwardProblem, f: Array, arena: Arena) -> tuple[bool, int, float]:
    """Attempt the step by `idcontrol.models.dissipation`; return True if it is solved, pivots, and residual.

    Infinite friction is not attempted: the result is then False, 0, inf.
    """
    if not _finite_friction(problem.mu):
        return False, 0, np.inf
    ending, pivots, residual = edge_lcp_kernel(
        problem.w.rho, problem.w.c, problem.w.roundoff, problem.mu, problem.active, f, arena
    )
    return ending == SOLVED, pivots, residual
