"""What a scheme answers to an assembled problem, in the terms of tests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from idcontrol.controllers.giving_way import solve
from idcontrol.controllers.repair import velocity_kernel
from idcontrol.controllers.schemes import Scheme
from idcontrol.controllers.step import GIVEN_UP, SOLVED, Posed
from idcontrol.kernels.arena import HEAP, Arena
from idcontrol.types import Array, Status


@dataclass(frozen=True)
class Answered:
    """An answer, its contact impulses (n, 3) [N s], and the velocity that they cause, shape (m,)."""

    status: Status
    dropped: tuple[str, ...]
    motor_impulse: Array
    impulses: Array
    v_plus: Array


def answered(scheme: Scheme, posed: Posed, arena: Arena = HEAP, *, repair: bool = True) -> Answered:
    """Solve an assembled problem."""
    f = np.zeros(3 * posed.which.size)
    answer = solve(scheme, posed._replace(active=posed.active.copy()), f, arena, repair=repair)
    return Answered(
        status=Status.SOLVED if answer.ending == SOLVED else Status.REPAIRED,
        dropped=GIVEN_UP[answer.ending],
        motor_impulse=answer.impulse,
        impulses=f.reshape(3, -1).T,
        v_plus=velocity_kernel(posed.w, f, answer.impulse, HEAP),
    )
