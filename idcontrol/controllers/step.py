r"""One control step of inverse dynamics with contact, stage by stage (Zapolsky & Drumwright 2017, sections 4-6).

1. *demand*: desired joint velocities ``b = v + h (a_des + kp (q_des - q) + kd (v_des - v))``
2. *stance*: which feet are contacts, and the velocity that a landing foot may still have (`idcontrol.contact.landing`)
3. *project*: b is projected onto the motions that these contacts allow (`idcontrol.controllers.projection`); with
   whole-body tasks, the velocities that they demand replace b instead (`idcontrol.controllers.tasks`)
4. *whiten*: the unknown velocities are eliminated (`idcontrol.models.whitened`)
5. *solve* and *distribute*: contact impulses, by a scheme (`idcontrol.controllers.schemes`)
6. *torque*: motor impulses over h, within the limits; contact forces in world axes

Stages 1 to 4 are the same for all schemes, except that some skip stage 3. `assemble` runs them and returns the problem
that a scheme solves. `ladder` runs the rest. If a motor is beyond its bounds, `ladder` releases the lagging joints
(`idcontrol.controllers.lagging`): it fixes their torques at the bounds and solves the step again. Further rounds
release the joints whose motors are still beyond their bounds, until no motor is.

`control` is the whole step, compiled once for all compiled schemes. If the scheme does not solve it,
`idcontrol.controllers.inverse` repeats the step: the same `ladder`, run as Python, with a more capable scheme
(`idcontrol.controllers.relax`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numba import typeof, types

from idcontrol.contact.contacts import AnyContacts, ContactArrays, Contacts, Packed
from idcontrol.contact.landing import LandingRates, landing_kernel
from idcontrol.controllers.feedback import nearing
from idcontrol.controllers.inputs import Inputs
from idcontrol.controllers.lagging import lagging
from idcontrol.controllers.projection import projection_kernel
from idcontrol.controllers.stance import (
    StanceRule,
    as_rigid,
    land_corners,
    mark_lifted,
    meets_ground,
    ramp_weights,
    stance,
    take,
)
from idcontrol.controllers.tasks import (
    INFEASIBLE,
    Limits,
    TaskTerms,
    Wish,
    bounded_velocities,
    force_targets,
    free_velocities,
    miss_targets,
)
from idcontrol.dynamics.system import UNIT, ActuatorLimits, shorter
from idcontrol.kernels.arena import HEAP, Arena, begin, flags, indices, matrix, vector, zeros
from idcontrol.kernels.bound import Bound, bind, borrow, store
from idcontrol.kernels.jit import njit
from idcontrol.kernels.lanes import dot
from idcontrol.kernels.linear import assign
from idcontrol.kernels.linked import address, calls, late, linked
from idcontrol.models.distribution import MET, Bounds, Cones, TorqueMap, unbounded
from idcontrol.models.memory import Memory, recall, remember
from idcontrol.models.step import PUSH_OUT_SPEED, Prescribed, StepProblem
from idcontrol.models.whitened import Whitened, uncertain, whiten, whiten_rows_kernel
from idcontrol.types import Array, Booleans, Integers

SOLVED: Final = 0
"""The scheme solved the step."""
INEXACT: Final = 4
"""A regularized contact problem was solved; the exact problem was not."""
COARSE: Final = 8
"""A contact violates its law by more than the tolerance, or stage II has no solution."""
SLIPS: Final = 12
"""Contacts may slip, although the scheme is without slip."""
MOVED: Final = 16
"""Tracking was relaxed, so that no contact slips and no motor is beyond its bounds (`idcontrol.controllers.repair`)."""
SERVO: Final = 20
"""All motors are stiff velocity servos."""
SERVO_SLIPS: Final = 24
"""All motors are servos in a scheme without slip, since allowing slip gave no solution, either."""

LIMIT: Final = 1
"""Added to the outcome of a step with released joints, whose torques are at their bounds."""
FASTER: Final = 2
"""Added to the outcome of a step in which a torque changes faster than its rate allows."""
CONTRADICTORY: Final = 32
"""Added to the outcome of a step that relaxes strict tasks, because they contradict contacts or each other."""

NO_SOLUTION: Final = -1
"""The scheme has no solution, or does not support the contacts. Outcomes below zero have no torques."""
UNUSABLE: Final = -2
"""The contacts do not match the reference's feet (`usable`), or the scheme is not compiled."""

_BY_SCHEME: Final[Mapping[int, tuple[str, ...]]] = {
    SOLVED: (),
    INEXACT: ("exactness",),
    COARSE: (),
    SLIPS: ("no-slip",),
    MOVED: ("tracking",),
    SERVO: ("tracking",),
    SERVO_SLIPS: ("tracking", "no-slip"),
}
DROPPED: Final[Mapping[int, tuple[str, ...]]] = {
    ending + limit + faster + tasks: tuple(
        dict.fromkeys(
            ("tasks",) * (tasks // CONTRADICTORY) + ("tracking",) * limit + words + ("rate",) * (faster // FASTER)
        )
    )
    for (ending, words), limit, faster, tasks in product(
        _BY_SCHEME.items(), (0, LIMIT), (0, FASTER), (0, CONTRADICTORY)
    )
}
"""The relaxed demands (`Command.dropped`) for each outcome of a step that has torques."""

EASE_S: Final = 1.0
"""Time after the last touchdown over which internal forces grow while no lift-off is planned [s]; see `holding`."""

MOST_RELEASES: Final = 10
"""Count of periods with released joints (`count_released`) up to which joints may be released for the torque-rate
limit; a landing needs no more. If an unmodelled push or load needs more, staying upright takes priority over the rate,
and the outcome includes `FASTER`."""

BRAKING_1_S: Final = 50.0
"""Rate ω of joint limits in the program of tasks [1/s]: the acceleration of a joint with speed v at distance d from its
stop is at most 2 ω (min(ω d / 2, v_max) - v)."""
END_SLACK: Final = 1e-6
"""Tolerance of a joint's allowed approach to its stop in a period [rad or m]. Joint limits cause the quadratic program
of tasks to be solved only if tasks exceed the allowed approach by more. Rounding and other tasks move a joint at its
stop by less.
"""


class MachineTerms(NamedTuple):
    """Multibody terms at the last update; fields as in `idcontrol.dynamics.system.System`.

    Attributes:
        free: Indices of the unactuated velocities, shape (u,).
        fixed: Indices of the actuated velocities, shape (a,).
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
        kp: Stiffness [1/s²].
        kd: Damping [1/s].
        limit: Largest torque [N m]; inf for no limit.
        room: Other limits of joints and motors.
    """

    kp: Array
    kd: Array
    limit: Array
    room: ActuatorLimits


class Result(NamedTuple):
    """Arrays that a step writes its result into.

    Attributes:
        tau: Torques, shape (a,) [N m]. At the start of a step: the torques of the last step, NaN before the first.
        identity: Identities of contacts, shape (most,). Here and below, the first n entries belong to the n contacts.
        force: Predicted forces in world axes, shape (most, 3) [N].
        normal: Contact normals in world axes, shape (most, 3).
    """

    tau: Array
    identity: Integers
    force: Array
    normal: Array


class Filter(NamedTuple):
    """Limits of a torque filter (`idcontrol.filter.nearest`).

    Attributes:
        force: Largest normal force of a contact [N]; inf for no limit.
        power: Largest mechanical power of all motors together [W]; inf for no limit.
        cut: Result, shape (2,): bit set of the limits that the wanted torques break, then bit set of the limits that
            the filtered torques break. Empty without a filter.
        wanted: Result: torques that the policy wants, shape (a,) [N m].
    """

    force: float
    power: float
    cut: Integers
    wanted: Array


class Wanted(NamedTuple):
    """Torques that a policy wants, and the data by which a torque filter judges them; empty without a filter.

    Attributes:
        impulse: Wanted torques times h, shape (a,) [N m s].
        weight: Inverse squares of (torque limit times h), shape (a,) [1/(N m s)²]; 1 N m replaces a missing limit.
        v: Velocity at the beginning of the step, shape (m,).
        slowest: Smallest velocities of the joints at the end of the step, shape (a,) [rad/s].
        fastest: Largest velocities of the joints at the end of the step, shape (a,) [rad/s].
        filter: Further limits.
    """

    impulse: Array
    weight: Array
    v: Array
    slowest: Array
    fastest: Array
    filter: Filter


class Machine(NamedTuple):
    """Data that the steps of a controller read and write.

    Attributes:
        arena: Arena of a step.
        step: The assembled step, and the step with released joints (`AssembledStep`). They are passed by reference,
            because a copy of all their fields takes as long as a small solver.
        scheme: Address of the compiled scheme (`scheme_at`); 0 if there is none.
        impact: Address of the compiled model that predicts impacts (`idcontrol.controllers.impacts`); 0 if there is
            none.
        h: Control period [s].
        terms: Multibody terms.
        joints: Feedback and limits.
        rule: Rule for contacts.
        landing: Allowed velocity of a landing foot.
        projects: True to project the demand onto the motions that contacts allow.
        shortcut: True to try the sticking motion first.
        repairs: As in `AssembledStep`.
        v_tol: Largest slip of a contact that counts as at rest when impulses are redistributed [m/s].
        law: The friction law that redistributed impulses obey (`idcontrol.models.distribution`).
        memory: The contacts of the last step, and their active rows.
        inputs: State and reference of this step.
        result: The step's result.
        releases: Count of periods with released joints minus calm periods (`count_released`), shape (1,).
        tasks: Whole-body tasks in addition to the joints' reference.
        patch: Foot of each contact, indexed by the identity of the contact; empty if each contact is a foot.
        lifted: Mark of each corner of a sole: 0 while it stands, otherwise 1 plus its number of periods at rest in the
            air. Empty without soles.
        filter: Limits of a torque filter; gains and desired accelerations are then in units of torque.
    """

    arena: Arena
    step: tuple[Bound, Bound]
    scheme: int
    impact: int
    h: float
    terms: MachineTerms
    joints: JointLaw
    rule: StanceRule
    landing: LandingRates
    projects: bool
    shortcut: bool
    repairs: bool
    v_tol: float
    law: int
    memory: Memory
    inputs: Inputs
    result: Result
    releases: Integers
    tasks: TaskTerms
    patch: Integers
    lifted: Integers
    filter: Filter


NO_FILTER: Final = Filter(np.inf, np.inf, np.zeros(0, dtype=np.int64), np.zeros(0))
"""The `Machine.filter` of a controller that is no filter."""
_EMPTY: Final = np.zeros(0)
NOTHING_WANTED: Final = Wanted(_EMPTY, _EMPTY, _EMPTY, _EMPTY, _EMPTY, NO_FILTER)
WANTED: Final = typeof(NOTHING_WANTED)


class Outcome(NamedTuple):
    """Outcome of a step.

    Attributes:
        ending: A key of `DROPPED` if the step has torques, otherwise `NO_SOLUTION` or `UNUSABLE`.
        sticking: True if the sticking motion was the solution.
        clipped: True if a torque is at its limit.
        residual: Relative residual of the contact problem.
        stands: Number of contacts in stance.
        gap: As `Command.gap` [N m].
        lands: True if a foot lands (`AssembledStep.lands`).
    """

    ending: int
    sticking: bool
    clipped: bool
    residual: float
    stands: int
    gap: float
    lands: bool


class AssembledStep(NamedTuple):
    """One assembled control step: joints prescribed, contacts chosen, rows whitened.

    In a step with released joints (`drive`), arrays of shape (a,) have entries for the p tracked joints only.

    Attributes:
        w: The whitened problem of the n contacts in stance; `c` is relative to `target`, and `roundoff` is computed on
            demand (`idcontrol.models.whitened.uncertain`): steps in which all contacts stick never need it.
        b: Desired joint velocities, projected or demanded by tasks, shape (a,) [rad/s].
        which: Indices of the contacts in stance among all candidates, shape (n,).
        contacts: The contacts in stance; velocities are relative to `target` instead of their surface.
        target: Target velocities of the contacts' rows, shape (3 n,) [m/s].
        cones: Friction, contacts without slip, weights of feet that ramp, v_tol, friction law, force targets.
        active: Bit set of each contact's active rows, in and out, shape (n,).
        last: Motor impulses of the last step, shape (a,) [N m s]; zero if there was none.
        held: Motor impulses that joint errors demand in addition to the motion, shape (a,) [N m s] (`holding`). Stage
            II approaches these impulses; schemes without a stage II, except id-coulomb-qp-raw, add them to their
            solution (`schemes.unload`).
        bounds: Bounds of the motor impulses.
        h: Control period [s].
        sticks: True if b is consistent with sticking contacts, so the sticking motion is tried first.
        repairs: True if a scheme without slip may relax tracking, or let contacts slip. If False, all contacts have
            infinite friction in these schemes.
        known: Result of `schemes.certify`: impulses of contacts (3 n,) and motors (a,) of the sticking motion, then its
            residual. NaN unless `certify` succeeds; empty if it is not called for this step, as without tasks.
        lands: True if a foot meets the ground within the period (`meets_ground`).
        wanted: Torques that a policy wants; empty without a torque filter.
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
    repairs: bool
    known: Array
    lands: bool
    wanted: Wanted


_NONE, _ROWS = np.zeros(0, dtype=np.int64), np.zeros((0, 0))
NO_STEP: Final = AssembledStep(
    w=Whitened(_ROWS, _EMPTY, _NONE, _NONE, _ROWS, _EMPTY, _ROWS, _ROWS, _EMPTY, _EMPTY),
    b=_EMPTY,
    which=_NONE,
    contacts=Contacts.none(0).arrays,
    target=_EMPTY,
    cones=Cones(_EMPTY, np.zeros(0, dtype=np.bool_), _EMPTY, 0.0),
    active=_NONE,
    last=_EMPTY,
    held=_EMPTY,
    bounds=Bounds(_EMPTY, _EMPTY),
    h=0.0,
    sticks=False,
    repairs=True,
    known=_EMPTY,
    lands=False,
    wanted=NOTHING_WANTED,
)
"""A step without joints and contacts."""


class Answer(NamedTuple):
    """A scheme's solution of an assembled problem, in addition to the contact impulses.

    Attributes:
        ending: `NO_SOLUTION` or a key of `DROPPED`, without the bits `LIMIT`, `FASTER` and `CONTRADICTORY`.
        sticking: True if the sticking motion was the solution, and no contact problem was solved.
        residual: Relative residual of the contact problem.
        impulse: Motor impulses hτ of the p tracked joints, shape (p,) [N m s].
        gap: As `Command.gap`, of motor impulses [N m s].
    """

    ending: int
    sticking: bool
    residual: float
    impulse: Array
    gap: float


Solve: TypeAlias = Callable[[Bound, Array, Arena], Answer]
"""Type of a scheme. It takes a bound `AssembledStep`, and writes the contact impulses (3 n,), which are initially
zero."""

ANSWER: Final = typeof(Answer(SOLVED, False, 0.0, np.empty(0), 0.0))
ask: Any = calls(ANSWER)
"""Calls a scheme: in compiled code at its address, in interpreted code as a function."""


def step_from_problem(
    problem: StepProblem, cones: Cones, *, last: Array, bounds: Bounds | None = None
) -> AssembledStep:
    """Assemble a control step from its problem alone, without a memory of the last step.

    Args:
        problem: The step, with prescribed velocities.
        cones: Cones of its contacts' impulses.
        last: Motor impulses of the last step, shape (p,) [N m s].
        bounds: Bounds of the motor impulses; None for no bound.
    """
    assert problem.prescribed is not None
    contacts, w = problem.contacts.arrays, whiten(problem)
    n = contacts.identity.size
    target = contacts.surface_velocity.copy()
    target[:n] -= np.maximum(contacts.gap / problem.h, -PUSH_OUT_SPEED)
    return AssembledStep(
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
        repairs=True,
        known=np.zeros(0),
        lands=False,
        wanted=NOTHING_WANTED,
    )


def problem_of(step: AssembledStep, candidates: Contacts | None = None) -> StepProblem:
    """Return the problem of a control step for the contact models in Python.

    Args:
        step: The step.
        candidates: Contacts indexed by `AssembledStep.which`, as from a detector. None for the contacts of the step;
            their points are zeros.
    """
    n = step.which.size
    candidates = (
        Contacts(point=np.zeros((n, 3)), **step.contacts._asdict())
        if candidates is None
        else candidates.take(step.which)
    )
    return StepProblem(
        h=step.h,
        M=step.w.M,
        kappa=step.w.kappa,
        contacts=replace(candidates, gap=np.zeros(n), surface_velocity=step.target),
        prescribed=Prescribed(index=step.w.fixed, velocity=step.b),
    )


@njit(cache=True)
def usable(contacts: ContactArrays, feet: int, m: int) -> bool:
    """True if contacts belong to this number of feet of a robot with m velocities, with valid friction and axes."""
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
    """Return the position of joint j and its error, reference minus position [rad or m].

    For continuous joints the error is the shorter way.
    """
    q, at, goal = inputs.q, terms.joint_q[j], inputs.joint_q[j]
    if terms.joint_circle[j]:  # stored as cosine and sine
        angle = np.arctan2(q[at + 1], q[at])
        return angle, shorter(goal - angle)
    return q[at], goal - q[at]


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def demand(terms: MachineTerms, joints: JointLaw, h: float, inputs: Inputs, v: Array, b: Array) -> None:
    """Write b = v + h (a_des + kp (q_des - q) + kd (v_des - v)), shape (a,) [rad/s].

    b is limited to speeds at which a joint comes to rest at its stop (`feedback.nearing`).

    Args:
        terms: Provides the kinds of joints.
        joints: The feedback.
        h: Control period [s].
        inputs: Configuration, and the reference of the joints.
        v: Velocity in the order of `System.order`, shape (m,).
        b: Result.
    """
    v_des, a_des, u = inputs.joint_v, inputs.joint_a, terms.free.shape[0]
    for j in range(b.shape[0]):
        angle, error = joint_error(terms, inputs, j)
        speed = v[u + j]
        wanted = speed + h * (a_des[j] + (joints.kp[j] * error + joints.kd[j] * (v_des[j] - speed)))
        b[j] = min(max(wanted, nearing(angle, joints.room.lower[j], h)), nearing(angle, joints.room.upper[j], h))


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def braking(speed: float, way: float, top: float, h: float) -> tuple[float, float]:
    """Return the largest speed that needs no braking, and the speed after one period of smooth approach to that speed.

    Arguments as for `braked`.
    """
    free = min(0.5 * BRAKING_1_S * way, top)
    return free, speed + min(2.0 * BRAKING_1_S * h, 1.0) * (free - speed)


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def braked(speed: float, way: float, top: float, h: float) -> float:
    """Return the largest speed at the end of a period from which a joint can still brake.

    A joint brakes once its speed exceeds `top` or ω way/2 (`BRAKING_1_S`). A joint beyond its stop returns equally
    smoothly: a sensor with an offset may show a joint as beyond the stop that it rests on.

    Args:
        speed: Speed towards the stop [rad/s or m/s].
        way: Distance to the stop, negative beyond it [rad or m]; inf without a stop.
        top: Largest speed of the joint.
        h: Control period [s].
    """
    free, smooth = braking(speed, way, top, h)
    most = max(free, smooth)
    return min(most, nearing(0.0, way, h)) if way > 0.0 else most


@late(lambda *_: WANTED)
@njit(cache=True, inner=True, error_model="numpy")
def policy_torques(bound: Bound, v: Array, arena: Arena) -> Wanted:
    """Return the torques ``tau + kp (q_des - q) + kd (v_des - v)`` of a policy times h, and the joints' speed limits.

    The torques are also written into `Filter.wanted`.
    """
    machine = bound.borrowed
    joints, inputs, h = machine.joints, machine.inputs, machine.h
    a = joints.kp.shape[0]
    impulse, weight, slowest, fastest = vector(arena, a), vector(arena, a), vector(arena, a), vector(arena, a)
    for j in range(a):
        angle, error = joint_error(machine.terms, inputs, j)
        speed = v[v.shape[0] - a + j]
        tau = inputs.joint_a[j] + joints.kp[j] * error + joints.kd[j] * (inputs.joint_v[j] - speed)
        impulse[j], machine.filter.wanted[j] = h * tau, tau
        unit = h * joints.limit[j] if np.isfinite(joints.limit[j]) else h
        weight[j] = 1.0 / (unit * unit)
        slowest[j] = -braked(-speed, angle - joints.room.lower[j], joints.room.speed[j], h)
        fastest[j] = braked(speed, joints.room.upper[j] - angle, joints.room.speed[j], h)
    return Wanted(impulse, weight, v, slowest, fastest, machine.filter)


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def internal_share(machine: Machine, feet: Integers) -> float:
    """Return the cube root of the share of internal forces (`holding`) of a step with the contacts `feet`."""
    share = 1.0 if machine.projects and feet.shape[0] > 0 and machine.tasks.targets.kind.shape[0] == 0 else 0.0
    for foot in feet:
        stays = machine.inputs.to_liftoff[foot] == np.inf
        share = min(share, machine.inputs.since_touchdown[foot] / EASE_S) if stays else 0.0
    return share


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def holding(machine: Machine, contacts: ContactArrays, rho: Array, arena: Arena) -> Array:
    """Return motor impulses ``h kp I (q_des - q)``, shape (a,) [N m s]; zero if a lift-off is planned.

    The demand of the joints is projected onto the motions that sticking contacts allow. If feet creep, joint errors in
    the forbidden directions would grow. These errors therefore demand internal forces: torques that cause no motion. A
    joint is equally stiff in forbidden and allowed directions. In allowed directions its stiffness is kp times the
    inertia that it moves. This inertia is estimated at the feet, I = Σ J²/(n |ρ|²) over the contact rows.

    After a touchdown the impulses grow from zero within `EASE_S`. With tasks the joints' reference is only a posture,
    and demands no internal forces. A demand that is not projected needs none.

    Args:
        machine: Gains, and the reference of the joints.
        contacts: The n contacts in stance.
        rho: Whitened rows of these contacts if all joints are prescribed, shape (3 n, u).
        arena: Arena for all arrays.
    """
    # velocity errors are omitted: their noise, divided by h, would become torque
    inputs, kp, n, u = machine.inputs, machine.joints.kp, contacts.identity.shape[0], rho.shape[1]
    out: Array = zeros(arena, kp.shape[0])
    share = internal_share(machine, contacts.identity)
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
    """Write the smallest and largest torques [N m] of motors at the joints' speeds [rad/s or m/s], shapes (a,)."""
    for j in range(speed.shape[0]):
        most[j] = joints.limit[j]
        least[j] = -most[j]
        top, no_load = joints.room.speed[j], joints.room.no_load[j]
        if top < abs(speed[j]) and no_load < np.inf:
            share = (no_load - abs(speed[j])) / (no_load - top)
            rest = joints.limit[j] * share if share > 0.0 else 0.0  # zero also for a motor without limit
            if speed[j] > 0.0:
                most[j] = rest
            else:
                least[j] = -rest


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def velocity(machine: Machine, arena: Arena) -> Array:
    """Return the velocity at the beginning of the step, in the order of `System.order`, shape (m,)."""
    v = vector(arena, machine.terms.order.shape[0])
    for i in range(v.shape[0]):
        v[i] = machine.inputs.v[machine.terms.order[i]]
    return v


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def motors(machine: Machine, v: Array, rated: bool, arena: Arena) -> tuple[Array, Bounds]:
    """Return the motor impulses of the last step, shape (a,) [N m s], and bounds of the motor impulses of this step.

    Args:
        machine: Limits and the last torque.
        v: Velocity in the order of `System.order`, shape (m,).
        rated: True to apply the torque-rate limit in addition to the torque limits.
        arena: Arena for all arrays.
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


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def task_speeds(machine: Machine, v: Array, arena: Arena) -> tuple[Array, Array]:
    """Return the smallest and largest velocities that tasks may demand of joints, shapes (a,).

    A joint brakes before it reaches its stop or its largest speed; the stop has priority over smooth braking.
    """
    h, room = machine.h, machine.joints.room
    a = room.lower.shape[0]
    slowest, fastest = vector(arena, a), vector(arena, a)
    for j in range(a):
        angle, _ = joint_error(machine.terms, machine.inputs, j)
        speed, top = v[v.shape[0] - a + j], room.speed[j]
        # without smooth braking, a joint that reaches its stop or its largest speed would make all tasks jump
        _, down = braking(-speed, angle - room.lower[j], top, h)
        _, up = braking(speed, room.upper[j] - angle, top, h)
        lowest, highest = nearing(angle, room.lower[j], h), nearing(angle, room.upper[j], h)
        slowest[j] = min(max(-down, lowest), highest)
        fastest[j] = max(min(up, highest), lowest)
    return slowest, fastest


@njit(cache=True, inner=True, error_model="numpy")
def meets_limits(machine: Machine, held: Bound, arena: Arena) -> bool:
    """True if contacts can stick with the motion of tasks within all limits, and joints keep to `task_speeds`."""
    step = held.borrowed
    slack, b, f = END_SLACK / machine.h, step.b, zeros(arena, 3 * step.which.shape[0])
    slowest, fastest = task_speeds(machine, velocity(machine, arena), arena)
    for j in range(b.shape[0]):
        if not slowest[j] - slack <= b[j] <= fastest[j] + slack:
            return False
    certified: bool = ask(machine.tasks.certificate, (held, f, arena)).ending == SOLVED
    return certified


@late(lambda bound, held, arena: held.field_dict["values"])
@njit(cache=True, inner=True, error_model="numpy")
def within_limits(bound: Bound, held: Bound, arena: Arena) -> AssembledStep:
    """Return the step with a motion of tasks within friction, motor and joint limits; unchanged if none is found."""
    machine, step = bound.borrowed, held.values
    terms, tasks, h, a = machine.terms, machine.tasks, machine.h, step.b.shape[0]
    v, b, least, most = velocity(machine, arena), vector(arena, a), vector(arena, a), vector(arena, a)
    for j in range(a):
        least[j], most[j] = step.bounds.least[j] / h, step.bounds.most[j] / h
    slowest, fastest = task_speeds(machine, v, arena)
    demand(terms, machine.joints, h, machine.inputs, v, b)
    wish = Wish(v, b, step.contacts.jacobian, step.target, h)
    b = bounded_velocities(bound, wish, Limits(step.cones.mu, least, most, slowest, fastest), arena)
    if tasks.outcome[0] == INFEASIBLE:
        return step
    w, _ = whiten_rows_kernel(step.w.M, step.w.kappa, step.w.free, step.w.fixed, b, step.contacts.jacobian, arena)
    for r in range(step.target.shape[0]):
        w.c[r] -= step.target[r]
    return AssembledStep(
        w, b, step.which, step.contacts, step.target, step.cones, step.active, step.last, step.held,
        step.bounds, h, step.sticks, step.repairs, vector(arena, 0), step.lands, step.wanted,
    )  # fmt: skip


@late(lambda *_: types.none)
@njit(cache=True, inner=True, error_model="numpy")
def limit_tasks(bound: Bound, held: Bound, arena: Arena) -> None:
    """Give the step in `held` a motion of tasks within all limits, unless its motion is within them already."""
    if not meets_limits(bound.borrowed, held, arena):
        store(held, within_limits(bound, held, arena))


@njit(inline="always")  # inlined into its callers; a separate function would be compiled in addition
def assemble(bound: Bound, machine: Machine, detected: ContactArrays, arena: Arena) -> AssembledStep:
    """Run stages 1 to 4 for a bound `machine`; terms and candidates `detected` must be computed at its inputs."""
    inputs = machine.inputs
    terms, h = machine.terms, machine.h
    m, v, b = terms.M.shape[0], velocity(machine, arena), vector(arena, terms.fixed.shape[0])
    nothing = vector(arena, 0)
    wanted = Wanted(nothing, nothing, nothing, nothing, nothing, machine.filter)
    if machine.filter.cut.shape[0] > 0:
        wanted = policy_torques(bound, v, arena)
        assign(b, v[m - b.shape[0] :])
    else:
        demand(terms, machine.joints, h, inputs, v, b)

    which = _contacts(machine, detected, v, arena)
    contacts = take(detected, which, arena)
    n = which.shape[0]
    since, target = vector(arena, n), vector(arena, 3 * n)
    held = flags(arena, n)
    for i in range(n):
        since[i] = inputs.since_touchdown[contacts.identity[i]]
        held[i] = np.isinf(contacts.mu[i])
    landing_kernel(contacts, v, machine.landing, since, target, arena)
    J, goal, known = contacts.jacobian, target, vector(arena, 0)
    if machine.patch.shape[0] > 0:
        J, goal = as_rigid(contacts, machine.patch, terms.free.shape[0], target, arena)
    weight = ramp_weights(contacts.identity, machine.patch, inputs, machine.rule.ramp_s, arena)

    if machine.tasks.targets.kind.shape[0] > 0:
        b = free_velocities(bound, Wish(v, b, J, goal, h), arena)
        known = vector(arena, 3 * n + b.shape[0] + 1)
        known[:] = np.nan
    elif machine.projects and n > 0:
        b = projection_kernel(terms.M, J, goal, b, arena)

    kappa = _kappa(terms, v, h, arena)
    w, _ = whiten_rows_kernel(terms.M, kappa, terms.free, terms.fixed, b, contacts.jacobian, arena)
    for r in range(3 * n):
        w.c[r] -= target[r]
    targets = TorqueMap(matrix(arena, 0, 3 * n), vector(arena, 0))
    if machine.tasks.forces.task.shape[0] > 0:
        targets = force_targets(bound, contacts, arena)
    last, bounds = motors(machine, v, True, arena)
    return AssembledStep(
        w,
        b,
        which,
        contacts,
        target,
        Cones(contacts.mu, held, weight, machine.v_tol, machine.law, targets),
        recall(machine.memory, contacts.identity, arena),
        last,
        holding(machine, contacts, w.rho, arena),
        bounds,
        h,
        machine.shortcut and machine.projects and n > 0,
        machine.repairs,
        known,
        _lands(machine, detected, v),
        wanted,
    )


@njit(inline="always")
def _contacts(machine: Machine, detected: ContactArrays, v: Array, arena: Arena) -> Integers:
    """Return the indices of the contacts that the step uses, shape (n,)."""
    if machine.filter.cut.shape[0] > 0:  # no plan defines the feet in stance: the contact law decides
        which = indices(arena, detected.identity.shape[0])
        for i in range(which.shape[0]):
            which[i] = i
    else:
        which = stance(detected, v, machine.inputs, machine.rule, machine.lifted, arena)
    return which


@njit(inline="always")
def _kappa(terms: MachineTerms, v: Array, h: float, arena: Arena) -> Array:
    """Return ``h bias - M v``, shape (m,) [N s, N m s]."""
    kappa = vector(arena, v.shape[0])
    np.dot(terms.M, v, kappa)
    for i in range(kappa.shape[0]):
        kappa[i] = h * terms.bias[i] - kappa[i]
    return kappa


@njit(inline="always")
def _lands(machine: Machine, detected: ContactArrays, v: Array) -> bool:
    """True if any candidate contact meets the ground within the period."""
    lands = False
    for i in range(detected.identity.shape[0]):
        lands = lands or meets_ground(detected, i, v, machine.h, machine.rule.approach_speed_m_s)
    return lands


@njit(cache=True, forceinline=True, error_model="numpy")
def beyond(bounds: Bounds, impulse: Array, known: Array) -> bool:
    """Release joints whose motor impulses are beyond their bounds; return True if any joint is released.

    Args:
        bounds: Bounds of all motor impulses.
        impulse: Impulses of the tracked joints, shape (p,) [N m s].
        known: Updated: bounds of the released joints, NaN for tracked joints, shape (a,) [N m s].
    """
    exceeds, k = False, 0
    for j in range(known.shape[0]):
        if np.isnan(known[j]):
            room = bounds.most[j] - bounds.least[j]
            slack = MET * (room if room < np.inf else abs(impulse[k]))
            if impulse[k] < bounds.least[j] - slack:
                known[j], exceeds = bounds.least[j], True
            elif impulse[k] > bounds.most[j] + slack:
                known[j], exceeds = bounds.most[j], True
            k += 1
    return exceeds


@njit(cache=True, inner=True, error_model="numpy")
def drive(step: AssembledStep, known: Array, active: Integers, arena: Arena) -> AssembledStep:
    """Return the step with released joints, which have known motor impulses and no prescribed velocities.

    Args:
        step: The step with all joints prescribed.
        known: Motor impulses of the released joints, NaN for tracked joints, shape (a,) [N m s].
        active: Bit set of each contact's active rows, in and out, shape (n,).
        arena: Arena for all arrays.
    """
    m, a, p = step.w.kappa.shape[0], known.shape[0], 0
    kappa, free, fixed = vector(arena, m), indices(arena, m), indices(arena, a)
    b, last, least, most = vector(arena, a), vector(arena, a), vector(arena, a), vector(arena, a)
    held = vector(arena, a)
    assign(kappa, step.w.kappa)
    u = m - a
    for i in range(u):
        free[i] = i
    for j in range(a):
        if np.isnan(known[j]):
            fixed[p], b[p], last[p], held[p] = u + j, step.b[j], step.last[j], step.held[j]
            least[p], most[p] = step.bounds.least[j], step.bounds.most[j]
            p += 1
        else:
            free[u + j - p] = u + j
            kappa[u + j] -= known[j]
    w, _ = whiten_rows_kernel(step.w.M, kappa, free[: m - p], fixed[:p], b[:p], step.contacts.jacobian, arena)
    for r in range(step.target.shape[0]):
        w.c[r] -= step.target[r]
    return AssembledStep(
        w,
        b[:p],
        step.which,
        step.contacts,
        step.target,
        step.cones,
        active,
        last[:p],
        held[:p],
        Bounds(least[:p], most[:p]),
        step.h,
        step.sticks,
        step.repairs,
        vector(arena, 0),
        step.lands,
        step.wanted,
    )


@njit(cache=True, error_model="numpy")
def released(
    bound: Bound, step: AssembledStep, impulse: Array, known: Array, widens: bool, at_once: bool, arena: Arena
) -> AssembledStep:
    """Return the step to solve next if motors are beyond their bounds.

    Args:
        bound: The machine.
        step: The step with all joints prescribed. If `widens`, bounds without a rate limit replace its bounds.
        impulse: Motor impulses of the joints that were tracked, shape (p,) [N m s].
        known: Updated: impulses of the motors at their bounds as in `drive`, NaN for all other motors. `beyond` writes
            the first values.
        widens: True to track all joints once more, without the torque-rate limit.
        at_once: True if all joints were tracked.
        arena: Arena for all arrays.
    """
    machine = bound.borrowed
    if widens:
        known[:] = np.nan
        _, wide = motors(machine, velocity(machine, arena), False, arena)
        assign(step.bounds.least, wide.least)
        assign(step.bounds.most, wide.most)
    elif at_once:
        lagging(step.w, step.target, step.cones.mu, step.b, step.bounds, impulse, known, arena)
    return drive(step, known, recall(machine.memory, step.contacts.identity, arena), arena)


@late(lambda *_: types.none)
@njit(cache=True, inner=True, error_model="numpy")
def release(bound: Bound, impulse: Array, known: Array, widens: bool, at_once: bool, arena: Arena) -> None:
    """Write the step that `released` returns into ``Machine.step[1]``."""
    joints, rest = bound.borrowed.step
    store(rest, released(bound, joints.borrowed, impulse, known, widens, at_once, arena))


@njit(cache=True, forceinline=True, error_model="numpy")
def torque(
    bound: Bound, contacts: ContactArrays, bounds: Bounds, f: Array, impulse: Array, known: Array
) -> tuple[bool, bool, bool]:
    """Run stage 6: write torques and contact forces into `Machine.result`.

    Args:
        bound: The machine.
        contacts: The n contacts in stance.
        bounds: Bounds of all motor impulses.
        f: Impulses of the n contacts in stance, shape (3 n,) [N s].
        impulse: Motor impulses of the tracked joints, shape (p,) [N m s].
        known: Shape (a,) [N m s]. Before the call: impulses of the released joints, NaN for tracked joints. After the
            call: impulses of all joints, within their bounds.

    Returns:
        Three flags: the impulses are finite (otherwise the torques are unchanged); a torque is at its limit; a torque
        changes faster than its rate limit.
    """
    machine = bound.borrowed
    result, k = machine.result, 0
    n = contacts.identity.shape[0]
    if machine.tasks.forces.task.shape[0] > 0:
        miss_targets(bound, contacts, f, machine.arena)
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
        if machine.filter.cut.shape[0] > 0 and known[j] == machine.h * machine.filter.wanted[j]:
            result.tau[j] = machine.filter.wanted[j]  # bitwise equal
        clipped = clipped or abs(result.tau[j]) >= limit * (1.0 - MET)
        # False for the first torque: `last` is NaN
        faster = faster or abs(result.tau[j] - last) > machine.h * machine.joints.room.torque_rate[j]
    return True, clipped, faster


@njit(cache=True)
def count_released(releases: Integers, tracked: bool, calm: bool) -> None:
    """Count periods with released joints up and calm periods down, between 0 and `MOST_RELEASES`.

    Args:
        releases: The count, updated, shape (1,).
        tracked: True if no joint was released.
        calm: True if the scheme did not relax tracking, and the torque-rate limit was applied.
    """
    if not tracked:
        releases[0] = min(releases[0] + 1, MOST_RELEASES)
    elif calm:
        releases[0] = max(releases[0] - 1, 0)


@linked
@njit(cache=True, inner=True, error_model="numpy")
def assemble_borrowed(bound: Bound, detected: ContactArrays, arena: Arena) -> None:
    """Run stages 1 to 4 for a bound machine; write the step into ``Machine.step[0]``."""
    machine = bound.borrowed
    held = machine.step[0]
    store(held, assemble(bound, machine, detected, arena))
    if machine.tasks.targets.kind.shape[0] > 0:
        limit_tasks(bound, held, arena)


def scheme_at(scheme: Solve, held: Bound) -> int:
    """Return the address of a compiled scheme, for bound steps of this type."""
    where: int = address(scheme, ANSWER, held, np.zeros(0), HEAP)
    return where


def ladder(scheme: Any, retry: Any, bound: Bound, machine: Machine, held: tuple[Any, Any], arena: Arena) -> Outcome:
    """Solve an assembled problem by a scheme, and release joints until all motors are within their bounds.

    Contact forces and torques are written into `Machine.result` if the outcome is one of `DROPPED`. Compiled and
    interpreted code share this function.

    Args:
        scheme: A `Solve`; in compiled code its address.
        retry: As `release`.
        bound: The machine.
        machine: The machine in `bound`.
        held: The bound step with all joints prescribed, and the bound step that `retry` writes.
        arena: Arena for all arrays.
    """
    joints, rest = held
    f, known = zeros(arena, 3 * joints.borrowed.which.shape[0]), vector(arena, joints.borrowed.b.shape[0])
    known[:] = np.nan
    driven, at_once, rated, clipped = joints, True, True, False
    # the loop terminates: each round releases tracked joints, except the first round and the round after widening
    while True:
        answer = ask(scheme, (driven, f, arena))
        ending, step = answer.ending, joints.borrowed
        if ending < 0:
            break
        tracked = at_once or np.isnan(known).all()
        if not beyond(step.bounds, answer.impulse, known):
            done, clipped, faster = torque(bound, step.contacts, step.bounds, f, answer.impulse, known)
            if not done:
                ending = NO_SOLUTION
                break
            identity, solved = step.contacts.identity, driven.borrowed
            remember(machine.memory, identity, solved.active)
            if machine.lifted.shape[0] > 0 and not answer.sticking:
                mark_lifted(machine.lifted, identity, solved.w, solved.target, f, arena)
            count_released(machine.releases, tracked, ending < MOVED and rated)
            ending += (0 if tracked else LIMIT) + (FASTER if faster else 0)
            ending += CONTRADICTORY * machine.tasks.outcome[1]
            break
        widens = rated and machine.releases[0] >= MOST_RELEASES
        retry(bound, answer.impulse, known, widens, at_once, arena)
        driven, rated, at_once = rest, rated and not widens, widens
        f[:] = 0.0
    n, lands = step.which.shape[0], step.lands
    return Outcome(ending, answer.sticking, clipped, answer.residual, n, answer.gap / machine.h, lands)


_ladder: Any = njit(inline="always")(ladder)


@linked
@njit(cache=True, inner=True, error_model="numpy")
def control(bound: Bound, candidates: AnyContacts) -> Outcome:
    """Take one control step with the scheme at `Machine.scheme`.

    The ending is `UNUSABLE` if the candidates are unusable, or if there is no compiled scheme.
    """
    machine, detected = bound.borrowed, ContactArrays(*borrow(candidates))
    if not usable(detected, machine.inputs.stance.shape[0], machine.terms.M.shape[0]):
        return Outcome(UNUSABLE, False, False, 0.0, 0, np.nan, False)
    begin(machine.arena)
    if machine.lifted.shape[0] > 0:
        v = velocity(machine, machine.arena)
        land_corners(machine.lifted, machine.patch, machine.inputs.stance, detected, v, machine.h)
    if machine.scheme == 0:
        return Outcome(UNUSABLE, False, False, 0.0, 0, np.nan, False)
    assemble_borrowed(bound, detected, machine.arena)
    outcome: Outcome = _ladder(machine.scheme, release, bound, machine, machine.step, machine.arena)
    return outcome


OutcomeFields: TypeAlias = tuple[int, bool, bool, float, int, float, bool]
"""Fields of `Outcome` as a plain tuple: Numba takes microseconds to return a named tuple to Python."""


@njit(cache=True, inner=True, forceinline=True)
def fields_of(outcome: Outcome) -> OutcomeFields:
    """Return the fields of `Outcome` as a plain tuple."""
    return (
        outcome.ending,
        outcome.sticking,
        outcome.clipped,
        outcome.residual,
        outcome.stands,
        outcome.gap,
        outcome.lands,
    )


@njit(cache=True, error_model="numpy")
def control_bound(bound: Bound, candidates: AnyContacts) -> OutcomeFields:
    """Run `control` for a caller in Python, and return the outcome as a plain tuple."""
    outcome: OutcomeFields = fields_of(control(bound, candidates))
    return outcome


@njit(cache=True, error_model="numpy")
def assemble_bound(bound: Bound, candidates: Packed, arena: Arena) -> AssembledStep:
    """Assemble the problem that `control` solves, for interpreted code."""
    machine = bound.values  # not borrowed: the step refers to its arrays, and Python keeps the step
    step = assemble(bound, machine, ContactArrays(*candidates), arena)
    if machine.tasks.targets.kind.shape[0] > 0:
        held = bind(step)
        limit_tasks(bound, held, arena)
        step = held.values
    uncertain(step.w, arena)  # most of the interpreted code that follows needs the rounding bounds
    return step
