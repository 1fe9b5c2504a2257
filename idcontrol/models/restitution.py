r"""Impacts that rebound: Poisson's restitution on all impulses of any contact model.

Contact models end a step without approach, so impacts are plastic. A step in which a contact closes faster than
`SLOWEST` is solved in two phases. Compression: from the velocity v* without contact, the model computes impulses f and
v⁺. Restitution returns the share e of them, friction included,

    v_e = v* + (1 + e) M⁻¹Jᵀf = v⁺ + e (v⁺ - v*)

and the model is solved once more from v_e, for contacts that the rebound closes. Friction stays within its cone, which
is scaled with the normal impulse. The rebound adds no kinetic energy: with the contact velocities u⁺ = J v⁺ and the
Delassus operator W = J M⁻¹Jᵀ, it changes it by

    E(v_e) - E(v*) = (1 + e) fᵀu⁺ - ½ (1 - e²) fᵀW f ≤ 0     for 0 ≤ e ≤ 1

as fᵀu⁺ ≤ 0 for every model here: nothing presses where a contact opens, and friction opposes slip. Newton's hypothesis,
``u_N⁺ ≥ -e u_N``, has no such bound with friction. The price of the simple proof: a sticking contact rebounds along its
tangents, too.

The time step moves bodies with the velocity at its end, so with e = 1 a ball gains height by the order of h: dropped
from 0.3 m, it comes back 0.8 % higher at 1 ms, and 0.2 % at 0.2 ms.

Source: Poisson's hypothesis as in Anitescu & Potra 1997, for all impulses instead of the normal ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import msgspec
import numpy as np

from idcontrol.errors import InputError
from idcontrol.models.step import ContactModel, StepProblem, StepSolution, WarmStart

SLOWEST: Final = 0.05
"""Slower impacts are plastic [m/s], so that resting bodies do not hop. Gravity gives 0.01 m/s in a step of 1 ms."""


def rebounding(model: ContactModel, restitution: float, impact: ContactModel | None = None) -> ContactModel:
    """Return the contact model whose impacts return a share of their impulses; for forward steps.

    A contact that hits is assumed to touch from the beginning of the step, and penetration is not corrected in that
    step, since this would add energy.

    Args:
        model: Any contact model.
        restitution: e, the share of the impulses that comes back, 0 (plastic) to 1.
        impact: The model that solves impacts, which must end without approach; `model` by default. On compliant ground
            the end of a step is not the end of compression.

    Raises:
        InputError: `restitution` is not between 0 and 1.
    """
    if not 0.0 <= restitution <= 1.0:
        raise InputError(f"restitution must be between 0 (plastic) and 1, not {restitution}")

    rigid = model if impact is None else impact

    def solve(problem: StepProblem, warm: WarmStart | None = None) -> StepSolution:
        contacts = problem.contacts
        free = np.linalg.solve(problem.M, -problem.kappa)
        speed = contacts.N @ free - contacts.surface_velocity[: len(contacts)]
        fast = speed < -SLOWEST
        hits = fast & (problem.h * speed + contacts.gap < 0.0)
        if not hits.any():  # compliant ground may brake a foot that will hit in the next step
            return (rigid if fast.any() else model)(problem, warm)
        touching = replace(contacts, gap=np.where(hits, 0.0, np.maximum(contacts.gap, 0.0)))
        compressed = rigid(replace(problem, contacts=touching), warm)
        rebound = compressed.v_plus + restitution * (compressed.v_plus - free)
        ended = rigid(replace(problem, contacts=touching, kappa=-problem.M @ rebound), compressed.warm)
        return msgspec.structs.replace(
            ended,
            impulses=ended.impulses + (1.0 + restitution) * compressed.impulses,
            status=max(compressed.status, ended.status),
            residual=max(compressed.residual, ended.residual),
            iterations=compressed.iterations + ended.iterations,
        )

    return solve
