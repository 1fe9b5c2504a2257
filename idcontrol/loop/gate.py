"""Keep what planner and controller answer, and let through what may be sent: one compiled call each.

`idcontrol.loop.safety.admit` is the gate of torques; here drives that hold joints are beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from idcontrol.kernels.bound import Bound, Form, bind, entry
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign, assign_rows
from idcontrol.loop.plausible import farthest
from idcontrol.loop.safety import admit_kernel
from idcontrol.types import Array, Booleans, ContactForces, Integers, Reference


class Asked(NamedTuple):
    """Where what a controller asks for is kept, and what its reference is compared with.

    Attributes:
        wanted: Torques, shape (a,) [N m].
        held: Rows q, v, kp, kd for drives, shape (4, a); zero where it gives torques alone.
        q_des: Positions of the joints that the reference has, shape (a,) [rad].
        q: Their positions, shape (a,) [rad].
    """

    wanted: Array
    held: Array
    q_des: Array
    q: Array


@njit(cache=True)
def take(bound: Bound, told: Array) -> tuple[bool, float]:  # pragma: no cover - compiled
    """Keep what a controller asks for, shape (a,) or (5 a,), if it is finite.

    Returns:
        Whether it is; the largest distance of a joint from its reference.
    """
    asked: Asked = bound.borrowed
    for x in told:
        if not np.isfinite(x):
            return False, 0.0
    a = asked.wanted.shape[0]
    for j in range(a):
        asked.wanted[j] = told[j]
        for row in range(4):
            asked.held[row, j] = told[(1 + row) * a + j] if told.shape[0] > a else 0.0
    return True, farthest(asked.q_des, asked.q)


class Answers(NamedTuple):
    """Where the answers of planner and controller are recorded.

    Attributes:
        joints: q, v and a of a `Reference`, shape (a,) each.
        stance: In numbers, shape (n_feet,).
        base_position: Shape (3,) [m].
        feet: Shape (n_feet, 3) [m].
        force: Predicted force on each foot, world axes, shape (n_feet, 3) [N].
    """

    joints: tuple[Array, Array, Array]
    stance: Array
    base_position: Array
    feet: Array
    force: Array


NAMES: Final = (
    "reference.q",
    "reference.v",
    "reference.a",
    "reference.base_position",
    "reference.stance",
    "reference.feet",
    "command.predicted.identity",
    "command.predicted.force",
)
"""The arrays that `keep` records, in this order."""
TYPES: Final = (np.float64, np.float64, np.float64, np.float64, np.bool_, np.float64, np.int64, np.float64)
"""The number type of each."""
LIKE: Final[tuple[Any, ...]] = tuple(
    np.zeros((1, 3) if name in ("reference.feet", "command.predicted.force") else 1, dtype=kind)
    for name, kind in zip(NAMES, TYPES, strict=True)
)
"""Arrays like each."""
FORM: Final = Form(*LIKE)
"""That of arrays which are recorded as they are."""


def recorder(of: Mapping[str, Array]) -> Callable[[Reference, ContactForces | None], None]:
    """A function that writes the arrays of an answer into the channels `of` a loop's row (`idcontrol.loop.real`).

    It takes arrays of any type that can be converted, and raises a ValueError where one does not fit. Forces that
    nobody predicted are NaN.
    """
    base, force, nothing = of["base_ref"], of["force_pred"], ContactForces.none()
    bound = bind(
        Answers(
            joints=(of["q_des"], of["v_des"], of["a_des"]),
            stance=of["stance"],
            base_position=base[:3],
            feet=of["feet_des"],
            force=force,
        )
    )
    kept = entry(keep, bound, *LIKE)

    def record(reference: Reference, predicted: ContactForces | None) -> None:
        forces = nothing if predicted is None else predicted
        given: tuple[Any, ...] = (
            reference.q, reference.v, reference.a, reference.base_position, reference.stance, reference.feet,
            forces.identity, forces.force,
        )  # fmt: skip
        if not FORM.fits(given) or not kept(bound, *given):
            given = tuple(np.ascontiguousarray(x, dtype=kind) for x, kind in zip(given, TYPES, strict=True))
            if not FORM.fits(given) or not kept(bound, *given):
                shapes = ", ".join(f"{name} {x.shape}" for name, x in zip(NAMES, given, strict=True))
                raise ValueError(f"{shapes}: one does not fit {len(of['q_des'])} joints and {len(force)} feet")
        base[3] = reference.base_yaw
        if predicted is None:
            force.fill(np.nan)

    return record


@njit(cache=True)
def keep(
    bound: Bound,
    q: Array,
    v: Array,
    a: Array,
    position: Array,
    stance: Booleans,
    feet: Array,
    identity: Integers,
    force: Array,
) -> bool:  # pragma: no cover - compiled
    """Record the arrays of an answer (`NAMES`).

    Returns:
        False if one does not fit; then nothing is recorded.
    """
    to: Answers = bound.borrowed
    fits = position.shape == to.base_position.shape and stance.shape == to.stance.shape and feet.shape == to.feet.shape
    fits = fits and force.shape[0] == identity.shape[0] and force.shape[1] == 3
    for i in identity:
        fits = fits and 0 <= i < to.force.shape[0]
    if not fits or q.shape != to.joints[0].shape or v.shape != to.joints[1].shape or a.shape != to.joints[2].shape:
        return False
    assign(to.joints[0], q)
    assign(to.joints[1], v)
    assign(to.joints[2], a)
    assign(to.base_position, position)
    assign_rows(to.feet, feet)
    to.force[:] = 0.0
    for i in range(stance.shape[0]):
        to.stance[i] = 1.0 if stance[i] else 0.0
    for i in range(identity.shape[0]):
        assign(to.force[identity[i]], force[i])
    return True


class Gate(NamedTuple):
    """The arrays that the gate reads and writes.

    Attributes:
        limits: `Limits.gate`.
        wanted: Torques that are asked for, shape (a,) [N m].
        held: Rows q, v, kp, kd that drives are asked to hold, shape (4, a).
        q: Joint positions, shape (a,) [rad].
        v: Joint velocities, shape (a,) [rad/s].
        tau: In: torques that were sent last; out: those that may be sent, shape (a,) [N m].
        sent: Out: rows tau, q, v, kp, kd that may be sent, shape (5, a).
    """

    limits: Array
    wanted: Array
    held: Array
    q: Array
    v: Array
    tau: Array
    sent: Array


@njit(cache=True)
def let_through(bound: Bound, drives: bool, share: float, dt: float) -> int:  # pragma: no cover - compiled
    """`admit` for what a `Gate` is bound to; where `drives` hold joints, within the joints' limits.

    Gains are softened by the `share`, too.
    """
    gate: Gate = bound.borrowed
    cut = admit_kernel(gate.limits, gate.wanted, gate.tau, gate.q, gate.v, share, dt, gate.tau)
    _, _, low, high, speed = gate.limits
    for j in range(gate.tau.shape[0]):
        gate.sent[0, j] = gate.tau[j]
        if drives:
            gate.sent[1, j] = min(max(gate.held[0, j], low[j]), high[j])
            gate.sent[2, j] = min(max(gate.held[1, j], -speed[j]), speed[j])
            gate.sent[3, j], gate.sent[4, j] = share * gate.held[2, j], share * gate.held[3, j]
        else:
            gate.sent[1:, j] = 0.0
    return cut
