"""A control step in one call of compiled code: terms, contacts, estimators, and the scheme's step.

The call serves robots with terms and contacts in compiled code, and does not hold the interpreter lock. The scheme's
step is `idcontrol.controllers.step`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from idcontrol.contact.spheres import find
from idcontrol.controllers.feedback import TURNS_RAD_S
from idcontrol.controllers.friction import watch
from idcontrol.controllers.load import weigh
from idcontrol.controllers.step import Outcome, OutcomeFields, control, fields_of
from idcontrol.dynamics.multibody import terms_kernel
from idcontrol.kernels.bound import Bound
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linked import linked
from idcontrol.types import Array


class Whole(NamedTuple):
    """Data of a step in one call; state and reference are in `Machine.inputs`.

    Attributes:
        machine: `idcontrol.controllers.step.Machine`.
        friction: `idcontrol.controllers.friction.Friction`.
        load: `idcontrol.controllers.load.Load`.
        terms: Argument of `terms_kernel`.
        spheres: Argument of `find`.
        detected: Argument of `find`: the candidate contacts.
        damping: Viscous friction of the actuators, shape (a,) or empty [N m s/rad or N s/m].
        dry: Dry friction of the actuators, shape (a,) or empty [N m or N].
        margin_m: A foot counts as a contact below this gap [m].
        rough: True if contacts never slip.
        weighs: True to learn a load.
        learns: True to learn friction.
    """

    machine: Bound
    friction: Bound
    load: Bound
    terms: Bound
    spheres: Bound
    detected: Bound
    damping: Array
    dry: Array
    margin_m: float
    rough: bool
    weighs: bool
    learns: bool


@linked
@njit(cache=True, inner=True, error_model="numpy")
def whole_step(bound: Bound, t: float) -> tuple[Outcome, int]:
    """Take a control step of the `Whole` in `bound`, with the state and reference in `Machine.inputs`.

    Args:
        bound: The `Whole`.
        t: Time [s].

    Returns:
        The outcome, and the number of candidate contacts.
    """
    whole = bound.borrowed
    machine, spheres, load = whole.machine.borrowed, whole.spheres.borrowed, whole.load.borrowed
    inputs, bias, a = machine.inputs, machine.terms.bias, whole.damping.shape[0]
    terms_kernel(whole.terms, inputs.q, inputs.v)
    for j in range(a):  # as in `feedback.overcoming`
        speed = inputs.joint_v[j]
        bias[bias.shape[0] - a + j] += whole.damping[j] * speed + whole.dry[j] * np.tanh(speed / TURNS_RAD_S)
    n = find(whole.spheres, whole.detected, whole.margin_m)
    mu = spheres.candidates.mu[:n]
    if whole.rough:
        for c in range(n):
            mu[c] = np.inf
    if whole.weighs:
        weigh(whole.machine, whole.load, whole.detected, t)
    if whole.learns:
        counted = watch(whole.machine, whole.friction, whole.detected, t)
        for c in range(n):
            mu[c] = min(mu[c], counted)
    outcome: Outcome = control(whole.machine, whole.detected)
    load.contacts[0] = outcome.stands if outcome.ending >= 0 else 0
    return outcome, n


@njit(cache=True, nogil=True)
def step_of(bound: Bound, t: float) -> tuple[OutcomeFields, int]:
    """Run `whole_step` for a caller in Python, and return the outcome as a plain tuple."""
    outcome, n = whole_step(bound, t)
    return fields_of(outcome), n
