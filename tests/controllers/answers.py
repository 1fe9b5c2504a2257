"""A scheme's answer to an assembled problem, in a form for tests."""

from dataclasses import dataclass

import numpy as np

from idcontrol.controllers.relax import solve
from idcontrol.controllers.repair import ACCURATE, nearest_motion_kernel
from idcontrol.controllers.schemes import Scheme
from idcontrol.controllers.step import DROPPED, SOLVED, AssembledStep
from idcontrol.kernels.arena import HEAP, Arena
from idcontrol.models.distribution import Bounds, Cones, unbounded
from idcontrol.models.step import StepProblem
from idcontrol.models.whitened import Whitened, whiten
from idcontrol.types import Array, Booleans, Status


@dataclass(frozen=True)
class Answered:
    """An answer, its contact impulses (n, 3) [N s], and the velocity that they cause, shape (m,)."""

    status: Status
    dropped: tuple[str, ...]
    motor_impulse: Array
    impulses: Array
    v_plus: Array


def answered(scheme: Scheme, assembled: AssembledStep, arena: Arena = HEAP) -> Answered:
    """Solve an assembled problem."""
    f = np.zeros(3 * assembled.which.size)
    answer = solve(scheme, assembled._replace(active=assembled.active.copy()), f, arena)
    return Answered(
        status=Status.SOLVED if answer.ending == SOLVED else Status.REPAIRED,
        dropped=DROPPED[answer.ending],
        motor_impulse=answer.impulse,
        impulses=f.reshape(3, -1).T,
        v_plus=velocity(assembled.w, f, answer.impulse),
    )


def velocity(w: Whitened, f: Array, impulse: Array) -> Array:
    """The velocity M⁻¹(Jᵀf + Pᵀ(hτ) - κ), shape (m,), that impulses of the first rows and of motors cause."""
    momentum = w.rows[: f.size].T @ f - w.kappa
    momentum[w.fixed] += impulse
    return np.asarray(np.linalg.solve(w.M, momentum))


def nearest(
    problem: StepProblem, held: Booleans | None = None, bounds: Bounds | None = None, weight: Array | None = None
) -> Answered | None:
    """Find the nearest motion; by default all contacts are held, none ramps, and motors have no bounds."""
    w, mu = whiten(problem), problem.contacts.mu
    f, impulse = np.empty(3 * mu.size), np.empty(w.fixed.size)
    cones = Cones(mu, np.isinf(mu), np.zeros(mu.size) if weight is None else weight, 1e-3)
    residual = nearest_motion_kernel(
        w,
        cones,
        np.ones(mu.size, dtype=np.bool_) if held is None else held,
        unbounded(impulse.size) if bounds is None else bounds,
        f,
        impulse,
        HEAP,
    )
    if not residual <= ACCURATE:
        return None
    return Answered(Status.REPAIRED, ("tracking",), impulse, f.reshape(3, -1).T, velocity(w, f, impulse))
