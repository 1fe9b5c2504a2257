r"""One control step of inverse dynamics with contact, stage by stage (Zapolsky & Drumwright 2017, sections 4-6).

1. *demand*: desired joint velocities ``b = v + h (a_des + kp (q_des - q) + kd (v_des - v))``
2. *stance*: which feet are contacts, and the velocity that each may still have (`idcontrol.contact.landing`)
3. *project*: b becomes what these contacts allow (`idcontrol.controllers.projection`)
4. *whiten*: the unknown velocities, eliminated (`idcontrol.models.whitened`)
5. *solve* and *distribute*: contact impulses, by a scheme (`idcontrol.controllers.schemes`)
6. *torque*: motor impulses over h, within the limits; contact forces in world axes

Stages 1 to 4 are the same for all schemes: `pose` takes them and returns the problem that a scheme solves. `ladder` is
the rest: where a motor is beyond its bounds, the joints that lag (`idcontrol.controllers.lagging`) are released: they
get their bounds as known torques, and the step is solved again. A joint that is beyond its bounds even then is
released, too, until none is.

`control` is the whole step, compiled once for all compiled schemes. A step that its scheme does not solve is taken
again by `idcontrol.controllers.inverse`: the same `ladder`, run as Python, with a scheme that can do more
(`idcontrol.controllers.giving_way`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numba import typeof, types

from idcontrol.contact.contacts import ContactArrays, Contacts, Near, Packed
from idcontrol.contact.landing import LandingRates, landing_kernel
from idcontrol.controllers.feedback import nearing
from idcontrol.controllers.inputs import Inputs
from idcontrol.controllers.lagging import lagging
from idcontrol.controllers.projection import projection_kernel
from idcontrol.controllers.tasks import INFEASIBLE, TaskTerms, Wish, bounded_velocities, free_velocities
from idcontrol.dynamics.system import UNIT, ActuatorLimits, shorter
from idcontrol.kernels.arena import HEAP, Arena, begin, flags, frames, indices, matrix, vector, zeros
from idcontrol.kernels.bound import Bound, borrow
from idcontrol.kernels.jit import njit
from idcontrol.kernels.lanes import dot
from idcontrol.kernels.linear import assign, assign_rows
from idcontrol.kernels.linked import address, calls, late, linked, type_returned
from idcontrol.models.distribution import MET, Bounds, Cones, unbounded
from idcontrol.models.memory import Memory, recall, remember
from idcontrol.models.step import CLOSED_GAP, PUSH_OUT_SPEED, Prescribed, StepProblem
from idcontrol.models.whitened import Whitened, uncertain, whiten, whiten_rows_kernel
from idcontrol.solvers.basis import column_basis
from idcontrol.types import Array, Booleans, Integers

SOLVED: Final = 0
"""The scheme solved the step."""
INEXACT: Final = 4
"""A regularized contact problem was solved, where the exact one was not."""
COARSE: Final = 8
"""The contacts obey their law to fewer digits than is called solved, or stage II found no impulses."""
SLIPS: Final = 12
"""Contacts may slip, though the scheme is one without slip."""
MOVED: Final = 16
"""Tracking was relaxed, so that no contact slips and no motor is beyond its bounds (`idcontrol.controllers.repair`)."""
SERVO: Final = 20
"""All motors are stiff velocity servos."""
SERVO_SLIPS: Final = 24
"""The same in a scheme without slip, where contacts that may slip have no solution, either."""

LIMIT: Final = 1
"""Added to the ending of a step whose joints were let go: their torques are at their bounds."""
FASTER: Final = 2
"""Added to the ending of a step in which a torque changes faster than its rate allows."""

NO_SOLUTION: Final = -1
"""The scheme found no solution, or takes no contacts like these. Endings below zero have no torques."""
UNUSABLE: Final = -2
"""The contacts cannot be those of the reference's feet (`usable`), or the scheme is not compiled."""

_BY_SCHEME: Final[Mapping[int, tuple[str, ...]]] = {
    SOLVED: (),
    INEXACT: ("exactness",),
    COARSE: (),
    SLIPS: ("no-slip",),
    MOVED: ("tracking",),
    SERVO: ("tracking",),
    SERVO_SLIPS: ("tracking", "no-slip"),
}
GIVEN_UP: Final[Mapping[int, tuple[str, ...]]] = {
    ending + limit + faster: tuple(dict.fromkeys(("tracking",) * limit + words + ("rate",) * (faster // FASTER)))
    for (ending, words), limit, faster in product(_BY_SCHEME.items(), (0, LIMIT), (0, FASTER))
}
"""The endings of a step that has torques, and `Command.dropped` for each: what was given up."""

EASE_S: Final = 1.0
"""Time since the last touchdown over which the joints begin to hold feet that all stay [s]."""

RAMP_WEIGHT: Final = 30.0
"""Weight on a foot's impulse at lift-off and touchdown, in units of the torque objective (planner.md, section 7)."""


MOST_LET_GO: Final = 10
"""Periods in which joints may be let go for the rate of their torques: enough to spread a landing. If an unmodelled
push or load needs more, staying upright takes priority over the rate, and the step says so (`FASTER`)."""

SOLE_RANK: Final = 1e-7
"""Motions of a sole's corners shorter than this, relative to the longest, are none: two corners do not twist."""

END_SLACK: Final = 1e-6
"""Distance by which tasks may carry a joint too far towards its end in a period before a program forbids it
[rad or m]: a gripper that rests at its end is asked for less than that by rounding and by tasks elsewhere."""

NEAR_M: Final = 1e-3
"""A foot that is planned to stand and believed to be farther than this from the ground [m] is a contact ..."""

RESTING_M_S: Final = 0.2
"""... while it is slower than this [m/s]. Sensors with a constant error misplace feet by millimetres, but a foot that
stands rests by their account, too; one that the plan has standing too early or too late moves."""


class MachineTerms(NamedTuple):
    """Multibody terms at the last update; fields as in `idcontrol.dynamics.system.System`.

    Attributes:
        free: Unactuated velocities, shape (u,).
        fixed: Actuated velocities, shape (a,).
    """

    M: Array
    bias: Array
    order: Integers
    joint_q: Integers
    joint_circle: Booleans
    free: Integers
    fixed: Integers


class JointLaw(NamedTuple):
    """Feedback of each joint in acceleration, and its limits, shapes (a,).

    Attributes:
        kp: [1/s²].
        kd: [1/s].
        limit: Largest torque [N m]; inf where there is none.
        room: What else joints and motors allow.
    """

    kp: Array
    kd: Array
    limit: Array
    room: ActuatorLimits


class StanceRule(NamedTuple):
    """When a foot that is planned to stand is a contact; see `idcontrol.controllers.settings.InverseSettings`."""

    landing_s: float
    approach_speed_m_s: float
    slide_speed_m_s: float
    ramp_s: float


class Result(NamedTuple):
    """Arrays that a step writes its result into.

    Attributes:
        tau: Torques, shape (a,) [N m]; at the step's beginning those of the last step, NaN where there was none.
        identity: Contacts, the first n entries.
        force: Predicted forces in world axes, shape (most, 3) [N].
        normal: Contact normals in world axes, shape (most, 3).
    """

    tau: Array
    identity: Integers
    force: Array
    normal: Array


class Machine(NamedTuple):
    """All that stays the same from step to step.

    Attributes:
        arena: Where a step's arrays come from.
        scheme: Address of the compiled scheme (`scheme_at`); 0 if there is none.
        impact: Address of the compiled model that predicts impacts (`idcontrol.controllers.impacts`); 0 likewise.
        h: Control period [s].
        terms: Multibody terms.
        joints: Feedback and limits.
        rule: Which feet are contacts.
        landing: The velocity that a landing foot may still have.
        projects: Whether the demand is projected onto what contacts allow.
        shortcut: Whether the sticking motion is tried first.
        v_tol: A contact that slips no faster counts as at rest where impulses are shared [m/s].
        law: The friction law by which they are shared (`idcontrol.models.distribution`).
        memory: The contacts of the last step, and which of their rows were active.
        inputs: State and reference of this step.
        result: What the step writes.
        let_go: Periods in which joints were let go, shape (1,).
        tasks: Whole-body tasks beside the joints' reference.
        patch: Foot that each contact belongs to, by its identity; empty where each is a foot of its own.
    """

    arena: Arena
    scheme: int
    impact: int
    h: float
    terms: MachineTerms
    joints: JointLaw
    rule: StanceRule
    landing: LandingRates
    projects: bool
    shortcut: bool
    v_tol: float
    law: int
    memory: Memory
    inputs: Inputs
    result: Result
    let_go: Integers
    tasks: TaskTerms
    patch: Integers


class Ended(NamedTuple):
    """How a step ended.

    Attributes:
        ending: One of `GIVEN_UP`, `NO_SOLUTION` or `UNUSABLE`.
        sticking: True if contacts simply stick.
        clipped: True if a torque is at its limit.
        residual: Relative residual of the contact problem.
        stands: Number of contacts in stance.
        gap: As `Command.gap` [N m].
        lands: True if a foot lands (`Posed.lands`).
    """

    ending: int
    sticking: bool
    clipped: bool
    residual: float
    stands: int
    gap: float
    lands: bool


class Posed(NamedTuple):
    """One control step, ready to be solved: joints prescribed, contacts chosen, rows whitened.

    Attributes:
        w: The whitened problem of the n contacts in stance; `c` is measured against `target`, and `left` is written
            by whom it helps (`idcontrol.models.whitened.uncertain`): a step whose contacts stick does without.
        b: Desired joint velocities, projected, shape (a,) [rad/s].
        which: Places of these contacts among those detected, shape (n,).
        contacts: These contacts; their rows are measured against `target` in their surface's place.
        target: Velocities that their rows are measured against, shape (3 n,) [m/s].
        cones: Friction, contacts without slip, weights of feet that ramp, v_tol, friction law.
        active: Bit set of each contact's active rows, in and out, shape (n,).
        last: Motor impulses of the last step, shape (a,) [N m s]; zero where there was none.
        held: Motor impulses that joint errors ask for beside the motion, shape (a,) [N m s] (`holding`): stage II
            approaches them, schemes without one add them to their own.
        bounds: What the motors can give.
        h: Control period [s].
        sticks: Whether the sticking motion is to be tried first: b agrees with it.
        lands: Whether a foot meets the ground within the period (`meets_ground`).
    """

    w: Whitened
    b: Array
    which: Integers
    contacts: ContactArrays
    target: Array
    cones: Cones
    active: Integers
    last: Array
    held: Array
    bounds: Bounds
    h: float
    sticks: bool
    lands: bool


class Answer(NamedTuple):
    """A scheme's solution of a posed problem, beside the contact impulses that it writes.

    Attributes:
        ending: `SOLVED`, `NO_SOLUTION`, or what the scheme gave up: one of `GIVEN_UP` without `LIMIT` and `FASTER`.
        sticking: Whether the sticking motion was the solution, and no contact problem was solved.
        residual: Relative residual of the contact problem.
        impulse: Motor impulses hτ, shape (a,) [N m s].
        gap: As `Command.gap`, of motor impulses [N m s].
    """

    ending: int
    sticking: bool
    residual: float
    impulse: Array
    gap: float


Solve: TypeAlias = Callable[[Posed, Array, Arena], Answer]
"""A scheme. It writes the contact impulses (3 n,), which are zero before."""

ANSWER: Final = typeof(Answer(SOLVED, False, 0.0, np.empty(0), 0.0))
ask: Any = calls(ANSWER)
"""Call a scheme: a compiled one at its address, or in interpreted code a function."""


def assembled(problem: StepProblem, cones: Cones, *, last: Array, bounds: Bounds | None = None) -> Posed:
    """Return a control step from its problem alone, without a memory of the last one.

    Args:
        problem: The step, with prescribed velocities.
        cones: Where the impulses of its contacts may lie.
        last: Motor impulses of the last step, shape (p,) [N m s].
        bounds: Of the motor impulses; None is no bound.
    """
    assert problem.prescribed is not None
    contacts, w = problem.contacts.arrays, whiten(problem)
    n = contacts.identity.size
    target = contacts.surface_velocity.copy()
    target[:n] -= np.maximum(contacts.gap / problem.h, -PUSH_OUT_SPEED)
    return Posed(
        w=w,
        b=problem.prescribed.velocity,
        which=np.arange(n),
        contacts=contacts,
        target=target,
        cones=cones,
        active=np.zeros(n, dtype=np.int64),
        last=last,
        held=np.zeros_like(last),
        bounds=unbounded(last.size) if bounds is None else bounds,
        h=problem.h,
        sticks=False,
        lands=False,
    )


def problem_of(posed: Posed, near: Contacts | None = None) -> StepProblem:
    """Return the problem of a control step as the contact models in Python take it.

    Args:
        posed: The step.
        near: The contacts that `Posed.which` counts, with all that a detector says of them; None knows no more than
            compiled code does.
    """
    n = posed.which.size
    near = Contacts(point=np.zeros((n, 3)), **posed.contacts._asdict()) if near is None else near.take(posed.which)
    return StepProblem(
        h=posed.h,
        M=posed.w.M,
        kappa=posed.w.kappa,
        contacts=replace(near, gap=np.zeros(n), surface_velocity=posed.target),
        prescribed=Prescribed(index=posed.w.fixed, velocity=posed.b),
    )


@njit(cache=True)
def usable(contacts: ContactArrays, feet: int, m: int) -> bool:
    """Whether contacts are among that many feet of a machine with m velocities, with friction and axes that can be."""
    n = contacts.identity.shape[0]
    good = n == 0 or contacts.jacobian.shape[1] == m
    for i in range(n):
        good = good and 0 <= contacts.identity[i] < feet and contacts.mu[i] >= 0.0  # false for a NaN
        for axis in range(3):
            for d in range(3):
                good = good and abs(contacts.axes[i, axis, d]) <= 1.0 + UNIT
    return good


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def joint_error(terms: MachineTerms, inputs: Inputs, j: int) -> tuple[float, float]:
    """Angle of joint j and how far it is from its reference, a continuous joint the shorter way round [rad]."""
    q, at, goal = inputs.q, terms.joint_q[j], inputs.joint_q[j]
    if terms.joint_circle[j]:  # as cosine and sine
        angle = np.arctan2(q[at + 1], q[at])
        return angle, shorter(goal - angle)
    return q[at], goal - q[at]


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def demand(terms: MachineTerms, joints: JointLaw, h: float, inputs: Inputs, v: Array, b: Array) -> None:
    """Write b = v + h (a_des + kp (q_des - q) + kd (v_des - v)), shape (a,) [rad/s].

    A joint is asked to cover no more than a part of the way to its end in a period (`feedback.nearing`).

    Args:
        terms: Tells joints from other coordinates.
        joints: The feedback.
        h: Control period [s].
        inputs: Configuration, and what the joints are to do.
        v: Velocity in our order, shape (m,).
        b: Result.
    """
    v_des, a_des, u = inputs.joint_v, inputs.joint_a, terms.free.shape[0]
    for j in range(b.shape[0]):
        angle, error = joint_error(terms, inputs, j)
        speed = v[u + j]
        wanted = speed + h * (a_des[j] + (joints.kp[j] * error + joints.kd[j] * (v_des[j] - speed)))
        b[j] = min(max(wanted, nearing(angle, joints.room.lower[j], h)), nearing(angle, joints.room.upper[j], h))


@njit(cache=True, inner=True, error_model="numpy")
def meets_ground(contacts: ContactArrays, i: int, v: Array, h: float, approach_speed_m_s: float) -> bool:
    """Whether contact i nears the ground faster than a foot at rest does, and closes its gap within a period.

    One that is believed to be in the ground already has met it before, or the ground is not where it is believed to be.

    Args:
        contacts: All that are near the ground.
        i: Which of them.
        v: Velocity in our order, shape (m,).
        h: Control period [s].
        approach_speed_m_s: A slower foot rests.
    """
    opening = -contacts.surface_velocity[i]
    for k in range(v.shape[0]):
        opening += contacts.jacobian[i, k] * v[k]
    gap = contacts.gap[i]
    meets: bool = opening < -approach_speed_m_s and gap >= -CLOSED_GAP and gap + h * opening < 0.0
    return meets


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def stance(contacts: ContactArrays, v: Array, inputs: Inputs, rule: StanceRule, arena: Arena) -> Integers:
    """Places, among the contacts detected, of the feet that are planned to stand, not still landing, and at rest.

    Within `NEAR_M` of the ground a foot need not be at rest.

    Args:
        contacts: All that are near the ground; identities are numbers of feet.
        v: Velocity in our order, shape (m,).
        inputs: Whether each foot is planned to stand, and since when.
        rule: When a foot still lands.
        arena: Where arrays come from.
    """
    found = contacts.identity.shape[0]
    which: Integers = indices(arena, found)
    w, n = vector(arena, 3), 0
    for i in range(found):
        foot = contacts.identity[i]
        if not inputs.stance[foot]:
            continue
        lands, far = inputs.since_touchdown[foot] < rule.landing_s, contacts.gap[i] > NEAR_M
        if lands or far:
            for axis in range(3):
                w[axis] = -contacts.surface_velocity[axis * found + i]
                for k in range(v.shape[0]):
                    w[axis] += contacts.jacobian[axis * found + i, k] * v[k]
            slide = w[1] * w[1] + w[2] * w[2]
            if lands and contacts.gap[i] > 0.0 and w[0] < -rule.approach_speed_m_s:
                continue
            if lands and slide > rule.slide_speed_m_s * rule.slide_speed_m_s:
                continue
            if far and w[0] * w[0] + slide > RESTING_M_S * RESTING_M_S:
                continue
        which[n] = i
        n += 1
    return which[:n]


@late(lambda *_: types.none)
@njit(cache=True, inner=True, error_model="numpy")
def as_rigid(contacts: ContactArrays, patch: Integers, u: int, target: Array, arena: Arena) -> None:
    """Replace the target velocities of the corners of each sole by the nearest ones that a rigid body can have.

    The columns of the rows that belong to the base are the velocities of a machine that moves as one body.

    Args:
        contacts: The n contacts.
        patch: Foot that each belongs to, by its identity.
        u: Number of unactuated velocities; without six no sole moves freely, and nothing is done.
        target: In and out, shape (3 n,) [m/s].
        arena: Where arrays come from.
    """
    n = contacts.identity.shape[0]
    done, corners = flags(arena, n), indices(arena, n)
    done[:] = u < 6
    for first in range(n):
        if done[first]:
            continue
        count = 0
        for i in range(first, n):
            if patch[contacts.identity[i]] == patch[contacts.identity[first]]:
                corners[count], done[i] = i, True
                count += 1
        if count < 2:
            continue
        # velocities of the corners as rows: one for each motion of the base
        columns, unused, longest = matrix(arena, 3 * count, 6), zeros(arena, 6), 0.0
        old, squares = vector(arena, 3 * count), zeros(arena, 6)
        for c in range(count):
            for axis in range(3):
                r, row = axis * n + corners[c], 3 * c + axis
                old[row], target[r] = target[r], 0.0
                for k in range(6):
                    columns[row, k] = contacts.jacobian[r, k]
                    squares[k] += columns[row, k] * columns[row, k]
        for k in range(6):
            longest = max(longest, squares[k])
        basis, _ = column_basis(columns, unused, SOLE_RANK * np.sqrt(longest), arena)
        for k in range(basis.shape[0]):
            share = dot(basis[k], old)
            for c in range(count):
                for axis in range(3):
                    target[axis * n + corners[c]] += share * basis[k, 3 * c + axis]


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def take(contacts: ContactArrays, which: Integers, arena: Arena) -> ContactArrays:
    """The contacts at the places `which`, as copies."""
    found, n, m = contacts.identity.shape[0], which.shape[0], contacts.jacobian.shape[1]
    identity, axes = indices(arena, n), frames(arena, n)
    gap, mu, J = vector(arena, n), vector(arena, n), matrix(arena, 3 * n, m)
    surface, drift = vector(arena, 3 * n), vector(arena, 3 * n)
    for i in range(n):
        place = which[i]
        identity[i], gap[i], mu[i] = contacts.identity[place], contacts.gap[place], contacts.mu[place]
        assign_rows(axes[i], contacts.axes[place])
        for axis in range(3):
            surface[axis * n + i] = contacts.surface_velocity[axis * found + place]
            drift[axis * n + i] = contacts.drift[axis * found + place]
            assign(J[axis * n + i], contacts.jacobian[axis * found + place])
    return ContactArrays(identity, axes, gap, mu, surface, J, drift)


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def ramp_weights(identity: Integers, inputs: Inputs, ramp_s: float, arena: Arena) -> Array:
    """Weights on the impulses of feet that are about to lift or have just landed, shape (n,) (planner.md, section 7).

    ``RAMP_WEIGHT (1 - t / ramp_s)³`` with t to lift-off or since touchdown; zeros where `ramp_s` is 0.
    """
    out: Array = zeros(arena, identity.shape[0])
    if ramp_s > 0.0:
        for i in range(identity.shape[0]):
            t = min(inputs.to_liftoff[identity[i]], inputs.since_touchdown[identity[i]])
            share = min(max(1.0 - t / ramp_s, 0.0), 1.0)
            out[i] = RAMP_WEIGHT * share * share * share
    return out


@njit(cache=True, inner=True, error_model="numpy")
def holding(machine: Machine, contacts: ContactArrays, rho: Array, arena: Arena) -> Array:
    """Motor impulses ``h kp I (q_des - q)`` of a machine whose feet all stay, shape (a,) [N m s]; zero for others.

    The projection takes from the demand what contacts without slip forbid. Where feet creep, errors in these directions
    grow unless they ask for inner forces: the part of a torque that moves nothing. The stiffness is that of the other
    directions, in which a joint moves the machine's inertia at its foot, I = Σ J²/(n |ρ|²).

    With tasks the joints' reference is only a posture, from which they may differ: it asks for no inner forces.

    Velocities are left out: the noise of one that cannot be would become torque, divided by h.

    Args:
        machine: Gains, and what the joints are to do.
        contacts: The n feet that are contacts.
        rho: Their whitened rows, joints held, shape (3 n, u).
        arena: Where arrays come from.
    """
    inputs, kp, n = machine.inputs, machine.joints.kp, contacts.identity.shape[0]
    out: Array = zeros(arena, kp.shape[0])
    share, u = 1.0 if machine.projects and machine.tasks.targets.kind.shape[0] == 0 else 0.0, rho.shape[1]
    for foot in contacts.identity:
        stays = inputs.to_liftoff[foot] == np.inf
        share = min(share, inputs.since_touchdown[foot] / EASE_S) if stays else 0.0
    if share <= 0.0:
        return out
    for r in range(3 * n):
        square = dot(rho[r], rho[r])
        if square > 0.0:
            for j in range(out.shape[0]):
                out[j] += contacts.jacobian[r, u + j] * contacts.jacobian[r, u + j] / (n * square)
    for j in range(out.shape[0]):
        _, error = joint_error(machine.terms, inputs, j)
        out[j] *= machine.h * share**3 * kp[j] * error
    return out


@njit(cache=True, inner=True, error_model="numpy")
def torque_bounds(joints: JointLaw, speed: Array, least: Array, most: Array) -> None:
    """Write the torques [N m] that motors can give at speeds [rad/s or m/s] of their joints, shapes (a,)."""
    for j in range(speed.shape[0]):
        most[j] = joints.limit[j]
        least[j] = -most[j]
        top, no_load = joints.room.speed[j], joints.room.no_load[j]
        if top < abs(speed[j]) and no_load < np.inf:
            share = (no_load - abs(speed[j])) / (no_load - top)
            left = joints.limit[j] * share if share > 0.0 else 0.0  # of a motor without limit, too
            if speed[j] > 0.0:
                most[j] = left
            else:
                least[j] = -left


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def velocity(machine: Machine, arena: Arena) -> Array:
    """Return the velocity at the beginning of the step, in our order, shape (m,)."""
    v = vector(arena, machine.terms.order.shape[0])
    for i in range(v.shape[0]):
        v[i] = machine.inputs.v[machine.terms.order[i]]
    return v


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def motors(machine: Machine, v: Array, rated: bool, arena: Arena) -> tuple[Array, Bounds]:
    """Return the motor impulses of the last step, shape (a,) [N m s], and the bounds of this step's.

    Args:
        machine: Limits and the last torque.
        v: Velocity in our order, shape (m,).
        rated: True if a torque is no further from the last one than its rate allows, besides its limit at that speed.
        arena: Where arrays come from.
    """
    h, a, rate = machine.h, machine.joints.limit.shape[0], machine.joints.room.torque_rate
    last, least, most = vector(arena, a), vector(arena, a), vector(arena, a)
    torque_bounds(machine.joints, v[v.shape[0] - a :], least, most)
    for j in range(a):
        tau, change = machine.result.tau[j], h * (1.0 - MET) * rate[j] if rated else np.inf
        if np.isnan(tau):
            tau, change = 0.0, np.inf
        last[j] = h * tau
        below, above = least[j], most[j]
        most[j] = h * min(above, max(tau + change, below))
        least[j] = h * max(below, min(tau - change, above))
    return last, Bounds(least, most)


@njit(cache=True, inner=True, error_model="numpy")
def wished(machine: Machine, v: Array, b: Array, contacts: ContactArrays, target: Array, arena: Arena) -> Wish:
    """Gather what `TaskTerms` are to achieve beside: the joints' reference b, and contacts in stance."""
    a = b.shape[0]
    slowest, fastest = vector(arena, a), vector(arena, a)
    for j in range(a):
        angle, _ = joint_error(machine.terms, machine.inputs, j)
        slowest[j] = nearing(angle, machine.joints.room.lower[j], machine.h)
        fastest[j] = nearing(angle, machine.joints.room.upper[j], machine.h)
    return Wish(v, b, slowest, fastest, contacts.jacobian, target, machine.h)


@late(lambda bound, posed, arena: posed)
@njit(cache=True, inner=True, error_model="numpy")
def within_limits(bound: Bound, posed: Posed, arena: Arena) -> Posed:
    """Return the step with the motion that tasks ask for within the limits of friction and motors.

    That is `posed` itself where its contacts can stick within them and no joint is asked beyond its ends.
    """
    machine = bound.borrowed
    terms, tasks, h = machine.terms, machine.tasks, machine.h
    n, a = posed.which.shape[0], posed.b.shape[0]
    v, b, least, most = velocity(machine, arena), vector(arena, a), vector(arena, a), vector(arena, a)
    demand(terms, machine.joints, h, machine.inputs, v, b)
    for j in range(a):
        least[j], most[j] = posed.bounds.least[j] / h, posed.bounds.most[j] / h
    wish = wished(machine, v, b, posed.contacts, posed.target, arena)
    short = True
    for j in range(a):
        short = short and wish.slowest[j] - END_SLACK / h <= posed.b[j] <= wish.fastest[j] + END_SLACK / h
    if short and ask(tasks.certificate, (posed, zeros(arena, 3 * n), arena)).ending == SOLVED:
        return posed
    b = bounded_velocities(tasks, terms.M, terms.bias, wish, posed.cones.mu, least, most, arena)
    if tasks.outcome[0] == INFEASIBLE:
        return posed
    w, _ = whiten_rows_kernel(posed.w.M, posed.w.kappa, posed.w.free, posed.w.fixed, b, posed.contacts.jacobian, arena)
    for r in range(3 * n):
        w.c[r] -= posed.target[r]
    return Posed(
        w, b, posed.which, posed.contacts, posed.target, posed.cones, posed.active, posed.last, posed.held,
        posed.bounds, h, posed.sticks, posed.lands,
    )  # fmt: skip


@njit(inline="always")  # as it is, it would be compiled once more for itself
def pose(machine: Machine, detected: ContactArrays, arena: Arena) -> Posed:
    """Stages 1 to 4: the problem of one control step; `machine.terms` and `detected` are those of `machine.inputs`."""
    inputs = machine.inputs
    terms, h = machine.terms, machine.h
    m, v, b = terms.M.shape[0], velocity(machine, arena), vector(arena, terms.fixed.shape[0])
    demand(terms, machine.joints, h, inputs, v, b)

    which = stance(detected, v, inputs, machine.rule, arena)
    contacts = take(detected, which, arena)
    n = which.shape[0]
    since, target = vector(arena, n), vector(arena, 3 * n)
    held = flags(arena, n)
    for i in range(n):
        since[i] = inputs.since_touchdown[contacts.identity[i]]
        held[i] = np.isinf(contacts.mu[i])
    landing_kernel(contacts, v, machine.landing, since, target, arena)
    if machine.patch.shape[0] > 0:
        as_rigid(contacts, machine.patch, terms.free.shape[0], target, arena)
    weight = ramp_weights(contacts.identity, inputs, machine.rule.ramp_s, arena)

    if machine.tasks.targets.kind.shape[0] > 0:
        b = free_velocities(machine.tasks, terms.M, terms.bias, wished(machine, v, b, contacts, target, arena), arena)
    elif machine.projects and n > 0:
        b = projection_kernel(terms.M, contacts.jacobian, target, b, arena)

    kappa = vector(arena, m)
    np.dot(terms.M, v, kappa)
    for i in range(m):
        kappa[i] = h * terms.bias[i] - kappa[i]
    w, _ = whiten_rows_kernel(terms.M, kappa, terms.free, terms.fixed, b, contacts.jacobian, arena)
    for r in range(3 * n):
        w.c[r] -= target[r]
    last, bounds = motors(machine, v, True, arena)
    lands = False
    for i in range(detected.identity.shape[0]):
        lands = lands or meets_ground(detected, i, v, h, machine.rule.approach_speed_m_s)
    return Posed(
        w,
        b,
        which,
        contacts,
        target,
        Cones(contacts.mu, held, weight, machine.v_tol, machine.law),
        recall(machine.memory, contacts.identity, arena),
        last,
        holding(machine, contacts, w.rho, arena),
        bounds,
        h,
        machine.shortcut and machine.projects and n > 0,
        lands,
    )


@njit(cache=True, forceinline=True, error_model="numpy")
def beyond(bounds: Bounds, impulse: Array, known: Array) -> bool:
    """Whether motor impulses of tracked joints (p,) are beyond their bounds; those are let go, and are `known` then.

    Args:
        bounds: Of all motor impulses.
        impulse: Those of the joints that are tracked.
        known: In and out: bounds of the joints that are let go, NaN for those that are tracked, shape (a,) [N m s].
    """
    found, k = False, 0
    for j in range(known.shape[0]):
        if np.isnan(known[j]):
            room = bounds.most[j] - bounds.least[j]
            slack = MET * (room if room < np.inf else abs(impulse[k]))
            if impulse[k] < bounds.least[j] - slack:
                known[j], found = bounds.least[j], True
            elif impulse[k] > bounds.most[j] + slack:
                known[j], found = bounds.most[j], True
            k += 1
    return found


@njit(cache=True, inner=True, error_model="numpy")
def drive(posed: Posed, known: Array, active: Integers, arena: Arena) -> Posed:
    """The step with some joints let go: their motor impulses are known, and their velocities are not prescribed.

    Args:
        posed: The step with all joints prescribed.
        known: Motor impulses of the joints that are let go, NaN for the others, shape (a,) [N m s].
        active: Bit set of each contact's active rows, in and out, shape (n,).
        arena: Where arrays come from.
    """
    m, a, p = posed.w.kappa.shape[0], known.shape[0], 0
    kappa, free, fixed = vector(arena, m), indices(arena, m), indices(arena, a)
    b, last, least, most = vector(arena, a), vector(arena, a), vector(arena, a), vector(arena, a)
    held = vector(arena, a)
    assign(kappa, posed.w.kappa)
    u = m - a
    for i in range(u):
        free[i] = i
    for j in range(a):
        if np.isnan(known[j]):
            fixed[p], b[p], last[p], held[p] = u + j, posed.b[j], posed.last[j], posed.held[j]
            least[p], most[p] = posed.bounds.least[j], posed.bounds.most[j]
            p += 1
        else:
            free[u + j - p] = u + j
            kappa[u + j] -= known[j]
    w, _ = whiten_rows_kernel(posed.w.M, kappa, free[: m - p], fixed[:p], b[:p], posed.contacts.jacobian, arena)
    for r in range(posed.target.shape[0]):
        w.c[r] -= posed.target[r]
    return Posed(
        w,
        b[:p],
        posed.which,
        posed.contacts,
        posed.target,
        posed.cones,
        active,
        last[:p],
        held[:p],
        Bounds(least[:p], most[:p]),
        posed.h,
        posed.sticks,
        posed.lands,
    )


@late(lambda bound, posed, *_: posed)
@njit(cache=True, error_model="numpy")
def next_round(
    bound: Bound, posed: Posed, impulse: Array, known: Array, widens: bool, at_once: bool, arena: Arena
) -> Posed:
    """The step to solve next where motors are beyond their bounds.

    Args:
        bound: The machine.
        posed: The step with all joints prescribed; its bounds become those at any rate of torques if it `widens`.
        impulse: Motor impulses of the joints that were tracked, shape (p,) [N m s].
        known: In and out: as in `drive`; in, those that are beyond their bounds have these.
        widens: Whether all joints are tracked once more, within wider bounds.
        at_once: Whether all joints were tracked.
        arena: Where arrays come from.
    """
    machine = bound.borrowed
    if widens:
        known[:] = np.nan
        _, wide = motors(machine, velocity(machine, arena), False, arena)
        assign(posed.bounds.least, wide.least)
        assign(posed.bounds.most, wide.most)
    elif at_once:
        lagging(posed.w, posed.target, posed.cones.mu, posed.b, posed.bounds, impulse, known, arena)
    return drive(posed, known, recall(machine.memory, posed.contacts.identity, arena), arena)


@njit(cache=True, forceinline=True, error_model="numpy")
def torque(
    bound: Bound, contacts: ContactArrays, bounds: Bounds, f: Array, impulse: Array, known: Array
) -> tuple[bool, bool, bool]:
    """Stage 6: write torques and contact forces into `Machine.result`.

    Args:
        bound: The machine.
        contacts: The n contacts in stance.
        bounds: Of all motor impulses.
        f: Impulses of the n contacts in stance, shape (3 n,) [N s].
        impulse: Motor impulses of the tracked joints, shape (p,) [N m s].
        known: In: those of the others, NaN for the tracked; out: all, within their bounds, shape (a,).

    Returns:
        True if they are numbers, else the torques are left as they were; True if a torque is at its limit; True if one
        changes faster than its rate allows.
    """
    machine = bound.borrowed
    result, k = machine.result, 0
    n = contacts.identity.shape[0]
    for i in range(n):
        result.identity[i] = contacts.identity[i]
        for d in range(3):
            result.normal[i, d] = contacts.axes[i, 0, d]
            result.force[i, d] = 0.0
            for axis in range(3):
                result.force[i, d] += f[axis * n + i] / machine.h * contacts.axes[i, axis, d]
    for j in range(known.shape[0]):
        if np.isnan(known[j]):
            if not np.isfinite(impulse[k]):
                return False, False, False
            known[j] = min(max(impulse[k], bounds.least[j]), bounds.most[j])
            k += 1
    clipped = faster = False
    for j in range(known.shape[0]):
        limit, last = machine.joints.limit[j], result.tau[j]
        result.tau[j] = min(max(known[j] / machine.h, -limit), limit)
        clipped = clipped or abs(result.tau[j]) >= limit * (1.0 - MET)
        # a first torque, after NaN, is not
        faster = faster or abs(result.tau[j] - last) > machine.h * machine.joints.room.torque_rate[j]
    return True, clipped, faster


@njit(cache=True)
def count_released(let_go: Integers, tracked: bool, calm: bool) -> None:
    """Count a period in `let_go` (1,), from 0 to `MOST_LET_GO`: up if joints were released, down if it was calm.

    Args:
        let_go: In and out.
        tracked: True if no joint was released.
        calm: True if, besides, tracking and the rate were kept.
    """
    if not tracked:
        let_go[0] = min(let_go[0] + 1, MOST_LET_GO)
    elif calm:
        let_go[0] = max(let_go[0] - 1, 0)


@linked
@njit(cache=True, error_model="numpy")
def pose_borrowed(bound: Bound, detected: ContactArrays, arena: Arena) -> Posed:
    """`pose` of a bound machine within a step."""
    posed = pose(bound.borrowed, detected, arena)
    if bound.borrowed.tasks.targets.kind.shape[0] > 0:
        posed = within_limits(bound, posed, arena)
    return posed


def scheme_at(scheme: Solve, bound: Bound, near: Packed) -> int:
    """Return the address of a compiled scheme, for machines and contacts like these."""
    posed = type_returned(pose_borrowed, bound, ContactArrays(*near), HEAP)
    where: int = address(scheme, ANSWER, posed, near[2], HEAP)
    return where


def ladder(scheme: Any, bound: Bound, machine: Machine, posed: Posed, arena: Arena) -> Ended:
    """Solve an assembled problem by a scheme, and release joints until all motors are within their bounds.

    Forces are written into `Machine.result`, and torques, too, if the ending is one of `GIVEN_UP`. Compiled code and
    interpreted code run this text.

    Args:
        scheme: A `Solve`; in compiled code its address.
        bound: The machine.
        machine: What is bound.
        posed: The problem with all joints prescribed.
        arena: Where arrays come from.
    """
    n = posed.which.shape[0]
    f, known = zeros(arena, 3 * n), vector(arena, posed.b.shape[0])
    known[:] = np.nan
    driven, at_once, rated, clipped = posed, True, True, False
    # after the first round, and one more where bounds widen, each lets go joints that were tracked: so this ends
    while True:
        answer = ask(scheme, (driven, f, arena))
        ending = answer.ending
        if ending < 0:
            break
        tracked = at_once or np.isnan(known).all()
        if not beyond(posed.bounds, answer.impulse, known):
            done, clipped, faster = torque(bound, posed.contacts, posed.bounds, f, answer.impulse, known)
            if not done:
                ending = NO_SOLUTION
                break
            remember(machine.memory, posed.contacts.identity, driven.active)
            count_released(machine.let_go, tracked, ending < MOVED and rated)
            ending += (0 if tracked else LIMIT) + (FASTER if faster else 0)
            break
        widens = rated and machine.let_go[0] >= MOST_LET_GO
        driven = next_round(bound, posed, answer.impulse, known, widens, at_once, arena)
        rated, at_once = rated and not widens, widens
        f[:] = 0.0
    return Ended(ending, answer.sticking, clipped, answer.residual, n, answer.gap / machine.h, posed.lands)


_ladder: Any = njit(inline="always")(ladder)


@linked
@njit(cache=True, inner=True, error_model="numpy")
def control(bound: Bound, near: Near) -> Ended:
    """One control step with the scheme at `Machine.scheme`, on the contacts `near` the ground."""
    machine, detected = bound.borrowed, ContactArrays(*borrow(near))
    if machine.scheme == 0 or not usable(detected, machine.inputs.stance.shape[0], machine.terms.M.shape[0]):
        return Ended(UNUSABLE, False, False, 0.0, 0, np.nan, False)
    begin(machine.arena)
    posed = pose_borrowed(bound, detected, machine.arena)
    ended: Ended = _ladder(machine.scheme, bound, machine, posed, machine.arena)
    return ended


EndedFields: TypeAlias = tuple[int, bool, bool, float, int, float, bool]
"""`Ended` as compiled code returns it to Python: a plain tuple, for Numba makes a named one in microseconds."""


@njit(cache=True, inner=True, forceinline=True)
def fields_of(ended: Ended) -> EndedFields:
    """Return the fields of `Ended` as a plain tuple."""
    return ended.ending, ended.sticking, ended.clipped, ended.residual, ended.stands, ended.gap, ended.lands


@njit(cache=True, error_model="numpy")
def control_bound(bound: Bound, near: Near) -> EndedFields:
    """`control` for Python."""
    ended: EndedFields = fields_of(control(bound, near))
    return ended


@njit(cache=True, error_model="numpy")
def pose_bound(bound: Bound, near: Packed, arena: Arena) -> Posed:
    """`pose` of a bound machine: the problem that `control` solves, for interpreted code."""
    posed = pose(bound.values, ContactArrays(*near), arena)
    if bound.values.tasks.targets.kind.shape[0] > 0:
        posed = within_limits(bound, posed, arena)
    uncertain(posed.w, arena)  # of what follows in Python most asks for it
    return posed
