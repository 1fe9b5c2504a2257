"""Smoothed derivatives of a control step, for optimizers that must see both sides of a kink."""

from __future__ import annotations

import copy
import dataclasses
from typing import Protocol

import numpy as np
from msgspec import structs

from idcontrol.controllers.gradient.result import Linearization, Part
from idcontrol.errors import InputError
from idcontrol.types import Command, Reference, State


class Differentiable(Protocol):
    """A controller whose steps have derivatives, such as `InverseDynamics`."""

    def linearize(self, state: State, reference: Reference) -> tuple[Command, Linearization]:
        """Take a step, and return its derivative, too."""
        ...


def smoothed(
    controller: Differentiable, state: State, reference: Reference, sigma: float, *, pairs: int = 16, seed: int = 0
) -> tuple[Command, Linearization]:
    r"""Take the step at `state` as `linearize` does, and return its derivative smoothed over velocities.

    With normal random vectors ξ this estimates the derivative of ``E f(q, v + σ ξ)`` as the mean of the derivatives at
    ``v ± σ ξ_i``. As σ tends to 0, the mean tends to the exact derivative, or at a kink to a value between the
    one-sided derivatives. Velocities at which the step has no derivative, or other contacts, are left out; if none
    remains, the result is that of `linearize`.

    Source: Suh, Pang & Tedrake 2022, Bundled gradients through contact via randomized smoothing (there without pairs).

    Args:
        controller: The controller; the steps at other velocities are taken by copies.
        state: The state.
        reference: The reference.
        sigma: Standard deviation σ of each velocity [m/s, rad/s].
        pairs: Number of random vectors ξ.
        seed: Seed of the random vectors.

    Raises:
        InputError: State, reference, sigma or pairs is unusable, or the steps have no derivative
            (`InverseDynamics.linearize`).
    """
    if not (np.isfinite(sigma) and sigma >= 0.0):
        raise InputError(f"sigma is {sigma!r}: it must be a number of at least 0")
    if pairs < 1:
        raise InputError(f"pairs is {pairs!r}: it must be at least 1")
    before, rng, count = copy.copy(controller), np.random.default_rng(seed), 0
    command, lin = controller.linearize(state, reference)
    columns = sum(lin.sizes.values())
    total = {of: np.zeros((slope.shape[0], columns)) for of, slope in lin.slopes.items()}
    for xi in rng.normal(size=(pairs, state.v.size)):
        for sign in (1.0, -1.0):
            beside = structs.replace(state, v=state.v + sign * sigma * xi)
            _, one = copy.copy(before).linearize(beside, reference)
            if one.reason or not np.array_equal(one.identity, lin.identity):
                continue
            count += 1
            for of, values in total.items():
                values += np.hstack([one.jacobian(of=of, by=by) for by in lin.sizes])
    if count == 0:
        return command, lin
    ends = dict(zip(lin.sizes, np.cumsum(list(lin.sizes.values())).tolist(), strict=True))

    def parts(by: str) -> tuple[Part, ...]:
        return (Part(0, slice(ends[by] - lin.sizes[by], ends[by])),)

    mean = {of: values / count for of, values in total.items()}
    return command, dataclasses.replace(lin, slopes=mean, parts=parts, reason="")
