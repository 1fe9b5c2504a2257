r"""Derivatives of a control step: implicit differentiation of the problems that the step solved.

The step is a chain of small problems (`idcontrol.controllers.step`). Each is linearized at its solution, on the set of
constraints that are active there, and the results are multiplied. The parameters are the state, the reference, the
desired accelerations of tasks, gains, torque limits, friction, and on demand external forces, inertias and normals.
Reference, gains and inertias act through few variables, such as the desired velocity of each joint. Derivatives have
one column per variable (`equations.Columns`); `Linearization.jacobian` multiplies them by the derivatives of the
variables.

1. *demand* and *target*: differentiated directly.
2. *projection*: ``min ½ |v_q - b|²_W`` subject to ``J v = d``: its optimality conditions are linear equations. With
   tasks, the program of their demand replaces this program (`idcontrol.controllers.gradient.tasks`).
3. *motion*: ``M_b v⁺ + κ_b = J_bᵀ y`` with, at each contact, ``y = B ξ`` and ``R (u + D y) = 0``, where u = J v⁺ - d.
   The rows b are the unknown velocities: unactuated velocities and released joints. B are directions of the impulse, R
   the rows that the contact law holds, D the compliance of the model. At a sticking contact B and R are the identity;
   at a sliding contact B consists of edges of the pyramid, or turns with the slip on a circle.
4. *impulses*: stage II, a quadratic program over the impulses of this motion (`idcontrol.models.distribution`), on the
   face of the cones that its solution lies in. Without stage II, the contact model chooses the impulses.

The terms and their derivatives are exact (`idcontrol.dynamics.derivatives`, `idcontrol.contact.sensitivity`).

Source: Amos & Kolter 2017, OptNet, section 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from idcontrol.contact.contacts import Contacts
from idcontrol.contact.spheres import SphereContacts
from idcontrol.controllers.gradient.chain import Slopes, Solution, derive
from idcontrol.controllers.gradient.choice import choice_of, choose, is_direct, velocity_of, yielding_of
from idcontrol.controllers.gradient.equations import BLOCKS, EXPLAINED, Columns, least_squares
from idcontrol.controllers.gradient.inertia import Changes, changes
from idcontrol.controllers.gradient.margin import margin
from idcontrol.controllers.gradient.motion import PART, ROLES
from idcontrol.controllers.gradient.result import SINGULAR, Active, Linearization, Margin, Part
from idcontrol.controllers.gradient.site import NO_ERRORS, Loads, Solved, visit
from idcontrol.controllers.gradient.smooth import smoothed
from idcontrol.controllers.gradient.tasks import task_demand
from idcontrol.controllers.gradient.whole import derive_at_once
from idcontrol.controllers.schemes import Scheme
from idcontrol.controllers.step import COARSE, SLIPS, SOLVED, Machine
from idcontrol.dynamics.derivatives import bodies_of
from idcontrol.dynamics.system import System
from idcontrol.kernels.bound import Bound, bind, unbind
from idcontrol.types import Array, Integers

__all__ = ["Active", "Linearization", "Margin", "Place", "Solved", "Taken", "linearized", "place", "smoothed"]

JOINTS: Final = ("free", "bound", "released")
"""Names of the states of joints in `Slopes.joints`."""
BY: Final = {"q": "q", "v": "v", "reference": "demand held load", "task": "task", "gains": "demand held",
    "limits": "limits", "mu": "mu", "normal": "normal", "load": "load", "inertia": "load turn unit held"}  # fmt: skip
"""Names of the parameters, with the variables (`Columns`) through which each acts."""
THROUGH: Final = {by: [Columns._fields.index(name) for name in names.split()] for by, names in BY.items()}
"""Indices of these variables in `Columns`, and of their errors of equations."""
TOGETHER: Final = [k for k in range(BLOCKS) if k not in (*THROUGH["mu"], *THROUGH["normal"])]
"""Indices of the errors of equations that must be small. Forces may jump with the friction or the normal of a single
contact, so their errors are not among them (`Linearization.error`)."""
NONE: Final = np.zeros((0, 0))
NO_ROOM: Final = np.full(4, np.inf)
"""`tasks.Wanted.room` without tasks."""


class Place(NamedTuple):
    """The robot of a controller.

    Attributes:
        system: The robot.
        spheres: Detector of its contacts.
        bodies: Its constants (`Bodies`), bound.
        back: Index of each velocity of Pinocchio's layout in the system's order, shape (m,).
    """

    system: System
    spheres: SphereContacts
    bodies: Bound
    back: Integers


def place(system: System, spheres: SphereContacts) -> Place:
    """Return the robot of a controller."""
    return Place(system, spheres, bind(bodies_of(system)), np.argsort(system.order))


class Taken(NamedTuple):
    """A control step that was taken.

    Attributes:
        machine: The `Machine` at the inputs of the step, with the torques of the step.
        bound: The same, bound.
        candidates: All candidate contacts.
        solved: The problem and its solution.
        load: Estimated load on the base, shape (3,) [N].
        wide: True to differentiate by loads, inertias and normals, too.
    """

    machine: Machine
    bound: Bound
    candidates: Contacts
    solved: Solved
    load: Array
    wide: bool


def linearized(scheme: Scheme, at: Place, step: Taken) -> Linearization:
    """Return the derivative of a control step of a scheme for the robot `at`, updated at the inputs of the step.

    If the step has no derivative, `Linearization.reason` is not empty, and the slopes may be zeros.
    """
    if step.solved.ending not in (SOLVED, COARSE, SLIPS):
        return _unknown(at, step, "tracking, exactness or a strict task was relaxed")
    try:
        slopes, missed, room = _slopes(scheme, at, step)
    except np.linalg.LinAlgError:
        return _unknown(at, step, SINGULAR)
    if not slopes.finite:
        return _unknown(at, step, SINGULAR)
    # the ridge depends on inertias, too, but it changes forces by a millionth, and all forces alike
    stiff = scheme.ground in ("rigid", "ridge")
    sizes = _sizes(at.system, step, missed.size, slopes.kinds.size, stiff=stiff)
    inertia = changes(at.system, step.machine, step.solved, slopes) if "inertia" in sizes else None
    reason, errors, moved = "", slopes.error.tolist(), slopes.moved.tolist()
    if not all(moved[k] <= EXPLAINED for k in TOGETHER):
        reason = "the motion does not follow from its active set"
    elif not all(errors[k] <= EXPLAINED for k in TOGETHER):
        reason = "contact forces are not unique, and their choice has no derivative; v_next has one"
    return Linearization(
        identity=slopes.identity,
        tau=step.machine.result.tau.copy(),
        force=slopes.force,
        v_next=slopes.v_next,
        task=missed,
        active=Active(
            tuple([ROLES[k] for k in slopes.kinds.tolist()]), tuple([JOINTS[k] for k in slopes.joints.tolist()])
        ),
        room=partial(_margin, slopes, step.machine.h, room),
        reason=reason,
        error={by: max([errors[k] for k in through]) for by, through in THROUGH.items()},
        slopes={"tau": slopes.tau, "force": slopes.force_slope, "v_next": slopes.v_slope, "task": slopes.task},
        sizes=sizes,
        missing=_missing(sizes),
        parts=partial(_parts, slopes, at.back, inertia),
    )


def _margin(slopes: Slopes, h: float, room: Array) -> Margin:
    """Return the margin of a step of length h; `room` is as in `tasks.Wanted`."""
    step = margin(unbind(slopes.limits), h, slopes.lag, slopes.room)
    return Margin(*np.minimum(step, room).tolist())


def _slopes(scheme: Scheme, at: Place, step: Taken) -> tuple[Slopes, Array, Array]:
    """Return the derivatives of a step, the misses ``y - A a`` of its task rows, shape (p,), and `tasks.Wanted.room`.

    Raises:
        LinAlgError: The equations of the step are singular.
    """
    machine, solved, loads = step.machine, step.solved, _loads(at.system, step)
    place = step.bound, at.bodies, at.spheres.bound, step.candidates.bound, solved.joints
    if is_direct(scheme) and not machine.tasks.targets.kind.size:
        return derive_at_once(*place, solved.step, loads, choice_of(scheme, solved)), np.zeros(0), NO_ROOM
    site = visit(*place, loads)
    yielding = yielding_of(scheme, site, solved.step)
    v_plus = velocity_of(solved.step, solved.f, solved.impulse, not yielding.D.any())
    b, missed, task, error, room = NONE, np.zeros(0), NONE, NO_ERRORS, NO_ROOM
    if machine.tasks.targets.kind.size:
        b, missed, task, error, room = task_demand(step.bound, site, solved.joints)
    chosen = choose(scheme, solved, v_plus, yielding)
    solution = Solution(v_plus, solved.f, machine.result.tau.copy(), chosen, b, task, error)
    return derive(step.bound, site, solved.joints, solved.step, bind(solution)), missed, room


def _loads(system: System, step: Taken) -> Loads:
    """Return the loads of a robot at a step."""
    motors, none = system.actuators, np.zeros(0)
    damping, dry = (none, none) if motors is None else (motors.damping, motors.friction)
    return Loads(damping, dry, step.load, step.wide)


def _sizes(system: System, step: Taken, tasks: int, contacts: int, *, stiff: bool) -> dict[str, int]:
    """Return the number of entries of each parameter, with inertias if contacts are `stiff` and there are no tasks."""
    m, a = system.n_velocities, system.n_actuated
    sizes = {"q": m, "v": m, "reference": 3 * a, "task": tasks, "gains": 2 * a, "limits": a, "mu": contacts}
    if step.wide:
        sizes |= {"load": m, "normal": 2 * contacts}
    if step.wide and not tasks and stiff:
        sizes["inertia"] = 10 * (system.model.njoints - 1)
    return sizes


def _missing(sizes: Mapping[str, int]) -> dict[str, str]:
    """Return what to do instead for each parameter that is not in `sizes`."""
    heavier = (
        "tasks, id-sap and id-constraint depend on it themselves; compare controllers of robots with changed inertias"
    )
    todo = "call linearize with loads=True" if "load" not in sizes else heavier
    return {by: todo for by in BY if by not in sizes}


def _parts(slopes: Slopes, back: Integers, inertia: Changes | None, by: str) -> tuple[Part, ...]:
    """Return how the parameter `by` acts through the variables; `back` as in `Place`."""
    at, a = slopes.at, slopes.reference.shape[1]
    held: tuple[Part, ...] = ()
    if by in ("q", "v", "load"):
        return (Part(0, {"q": at.q, "v": at.v, "load": at.load}[by] + back),)
    if by == "inertia" and inertia is not None:
        force = Part(0, at.load + back, -inertia.force)  # the forces that the inertia needs are missing elsewhere
        turn = Part(0, slice(at.turn, at.unit if inertia.turn.size else at.turn), inertia.turn)
        held = (Part(0, slice(at.held, at.load), inertia.held),)
        return force, turn, Part(0, slice(at.unit, at.limits), inertia.unit), *held
    if by not in ("reference", "gains"):
        first, end = {
            "task": (at.task, at.mu),
            "limits": (at.limits, at.task),
            "mu": (at.mu, at.total),
            "normal": (at.normal, at.v),
        }[by]
        return (Part(0, slice(first, end)),)
    demand, (q, v, acceleration, kp, kd) = slice(at.demand, at.held), slopes.reference
    if at.load > at.held:
        held = (Part(0, slice(at.held, at.load), slopes.held[int(by == "gains")]),)
    if by == "gains":
        return Part(0, demand, kp), Part(a, demand, kd), *held
    reference = Part(0, demand, q), Part(a, demand, v), Part(2 * a, demand, acceleration), *held
    if slopes.friction.size:
        return *reference, Part(a, slice(at.turn - a, at.turn), -slopes.friction)
    return reference


def _unknown(at: Place, step: Taken, reason: str) -> Linearization:
    """Return a linearization without a derivative: zeros, and the reason."""
    solved, machine, system = step.solved, step.machine, at.system
    problem, f, h = unbind(solved.joints), solved.f if solved.ending >= 0 else np.zeros_like(solved.f), machine.h
    contacts = step.candidates.take(problem.which)
    tasks = int((machine.tasks.targets.weight > 0.0).sum())
    tau = np.nan_to_num(machine.result.tau)
    pushed = contacts.jacobian.T @ f - problem.w.kappa
    pushed[system.n_unactuated :] += h * tau
    v_plus = least_squares(system.M, pushed[:, None])[:, 0]
    sizes = {"tau": tau.size, "force": f.size, "v_next": v_plus.size, "task": tasks}
    entries = _sizes(system, step, tasks, len(contacts), stiff=True)
    joints = np.full(tau.size, JOINTS[2], dtype=object)
    joints[unbind(solved.step).w.fixed - system.n_unactuated] = JOINTS[0]
    return Linearization(
        identity=contacts.identity,
        tau=tau,
        force=contacts.force_world(f.reshape(3, -1).T, h),
        v_next=system.advance(machine.inputs.q, v_plus, h)[1],
        task=np.zeros(tasks),
        active=Active((ROLES[PART],) * len(contacts), tuple(joints.tolist())),
        room=partial(Margin, 0.0, 0.0, 0.0, 0.0),
        reason=reason,
        error=dict.fromkeys(BY, np.inf),
        slopes={name: np.zeros((size, 0)) for name, size in sizes.items()},
        sizes=entries,
        missing=_missing(entries),
        parts=dict.fromkeys(BY, ()).__getitem__,
    )
