"""The derivative of a step in one compiled call, for schemes that leave all that it needs (`choice.is_direct`)."""

from __future__ import annotations

import numpy as np

from idcontrol.contact.contacts import AnyContacts
from idcontrol.controllers.gradient.chain import Slopes, Solution, derive
from idcontrol.controllers.gradient.choice import Choice, Chosen, allowed, support, velocity_of
from idcontrol.controllers.gradient.motion import Yielding
from idcontrol.controllers.gradient.site import NO_ERRORS, Loads, visit
from idcontrol.kernels.bound import Bound, bind
from idcontrol.kernels.jit import njit


@njit(cache=True, error_model="numpy")
def derive_at_once(
    bound: Bound, bodies: Bound, spheres: Bound, candidates: AnyContacts, joints: Bound, solved: Bound, loads: Loads,
    choice: Choice,
) -> Slopes:  # fmt: skip
    """Return the derivative of a step without tasks.

    Args:
        bound: The `Machine` at the inputs of the step.
        bodies: Constants of the robot (`Bodies`).
        spheres: `SphereContacts.bound` at the last detection.
        candidates: All candidate contacts.
        joints: The step with all joints tracked (`AssembledStep`).
        solved: The step that was solved last, maybe with released joints.
        loads: Loads of the robot.
        choice: How the scheme chose its solution.
    """
    law, slides, shares, f = choice
    visited = visit(bound, bodies, spheres, candidates, joints, loads)
    v_plus = velocity_of(solved, f, np.zeros(0), True)
    cone, reference = allowed(solved, v_plus)
    kept = np.zeros((f.shape[0], 0))
    if not shares:
        step = solved.borrowed
        kept = support(law, step.cones.mu, step.active, f)
    rigid = Yielding(np.zeros(0), np.zeros((0, 0)))
    chosen = Chosen(law, slides, shares, False, cone, reference, f, rigid, kept, True)
    tau, none = bound.borrowed.result.tau.copy(), np.zeros((0, 0))
    solution = bind(Solution(v_plus, f, tau, chosen, none, none, NO_ERRORS.copy()))
    return derive(bound, visited, joints, solved, solution)
