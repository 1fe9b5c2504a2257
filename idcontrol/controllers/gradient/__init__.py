r"""Derivatives of a control step: implicit differentiation of the problems that the step solved.

The step is a chain of small problems (`idcontrol.controllers.step`). Each is linearized at its solution, on the set of
constraints that are active there, and the results are multiplied. The P parameters are the state, the reference, the
desired accelerations of tasks, gains, torque limits, and friction. Derivatives have one column per parameter
(`equations.Columns`).

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

from functools import partial
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np

from idcontrol.contact.contacts import Contacts
from idcontrol.contact.spheres import SphereContacts
from idcontrol.controllers.gradient.chain import Slopes, Solution, derive
from idcontrol.controllers.gradient.choice import choose, velocity_of, yielding_of
from idcontrol.controllers.gradient.demand import Force
from idcontrol.controllers.gradient.equations import BY, least_squares
from idcontrol.controllers.gradient.impulses import smallest_multiplier
from idcontrol.controllers.gradient.motion import PART, ROLES
from idcontrol.controllers.gradient.result import EXPLAINED, SINGULAR, Active, Linearization, Margin
from idcontrol.controllers.gradient.site import NO_ERRORS, Solved, visit
from idcontrol.controllers.gradient.tasks import task_demand
from idcontrol.controllers.schemes import Scheme
from idcontrol.controllers.step import COARSE, SLIPS, SOLVED, Machine
from idcontrol.dynamics.derivatives import bodies_of, inverse_dynamics
from idcontrol.dynamics.system import System
from idcontrol.kernels.bound import Bound, bind, unbind
from idcontrol.types import Array

__all__ = ["Active", "Linearization", "Margin", "Place", "Solved", "Taken", "linearized", "place"]

JOINTS: Final = ("free", "bound", "released")
"""Names of the states of joints in `Slopes.joints`."""
TOGETHER: Final = [k for k, name in enumerate((*BY, "friction of all contacts")) if name != "mu"]
"""Indices of the errors of equations that must be small. Forces may jump with the friction of a single contact, so its
error is not among them (`Linearization.error`)."""
NONE: Final = np.zeros((0, 0))


class Place(NamedTuple):
    """The robot of a controller.

    Attributes:
        system: The robot.
        spheres: Detector of its contacts.
        bodies: Its constants (`Bodies`), bound.
    """

    system: System
    spheres: SphereContacts
    bodies: Bound


def place(system: System, spheres: SphereContacts) -> Place:
    """Return the robot of a controller."""
    return Place(system, spheres, bind(bodies_of(system)))


class Taken(NamedTuple):
    """A control step that was taken.

    Attributes:
        machine: The `Machine` at the inputs of the step, with the torques of the step.
        bound: The same, bound.
        candidates: All candidate contacts.
        solved: The problem and its solution.
        load: Estimated load on the base, shape (3,) [N].
    """

    machine: Machine
    bound: Bound
    candidates: Contacts
    solved: Solved
    load: Array


def linearized(scheme: Scheme, at: Place, step: Taken) -> Linearization:
    """Return the derivative of a control step of a scheme for the robot `at`, updated at the inputs of the step.

    If the step has no derivative, `Linearization.reason` is not empty, and the slopes may be zeros.
    """
    if step.solved.ending not in (SOLVED, COARSE, SLIPS):
        return _unknown(at, step, "tracking or exactness was relaxed")
    try:
        solution, slopes, missed = _slopes(scheme, at, step)
    except np.linalg.LinAlgError:
        return _unknown(at, step, SINGULAR)
    if not slopes.finite:
        return _unknown(at, step, SINGULAR)
    reason = ""
    if not (slopes.moved[TOGETHER] <= EXPLAINED).all():
        reason = "the motion does not follow from its active set"
    elif not (slopes.error[TOGETHER] <= EXPLAINED).all():
        reason = "contact forces are not unique, and their choice has no derivative; v_next has one"
    h, (force, speed, torque), multiplier = step.machine.h, slopes.distances.tolist(), np.inf
    if slopes.limited:
        last = unbind(step.solved.step)
        optimum = unbind(slopes.optimum)
        multiplier = smallest_multiplier(last.contacts.jacobian, solution.chosen.cone, last.cones.mu, optimum)
    return Linearization(
        identity=slopes.identity,
        tau=solution.tau,
        force=slopes.force,
        v_next=slopes.v_next,
        task=missed,
        active=Active(
            tuple([ROLES[k] for k in slopes.kinds.tolist()]), tuple([JOINTS[k] for k in slopes.joints.tolist()])
        ),
        margin=Margin(force / h, speed, torque / h, multiplier),
        reason=reason,
        error=dict(zip(BY, slopes.error[:-1].tolist(), strict=True)),
        slopes={"tau": slopes.tau, "force": slopes.force_slope, "v_next": slopes.v_slope, "task": slopes.task},
        columns=_columns(at.system, missed.size, slopes.kinds.size),
    )


def _slopes(scheme: Scheme, at: Place, step: Taken) -> tuple[Solution, Slopes, Array]:
    """Return the solution of a step, its derivatives, and the misses ``y - A a`` of its task rows, shape (p,).

    Raises:
        LinAlgError: The equations of the step are singular.
    """
    machine, solved, system = step.machine, step.solved, at.system
    site = visit(step.bound, at.bodies, at.spheres.bound, step.candidates.bound, solved.joints)
    yielding = yielding_of(scheme, site, solved.step)
    v_plus = velocity_of(solved.step, solved.f, solved.impulse, not yielding.D.any())
    v = machine.inputs.v[system.order]
    force = _force(system, machine, step.load, (v_plus - v) / machine.h)
    b, missed, task, error = NONE, np.zeros(0), NONE, NO_ERRORS
    if machine.tasks.targets.kind.size:
        slopes_at = partial(_force, system, machine, step.load)
        b, missed, task, error = task_demand(step.bound, site, solved.joints, slopes_at)
    chosen = choose(scheme, solved, v_plus, yielding)
    solution = Solution(v_plus, solved.f, machine.result.tau.copy(), chosen, force, b, task, error)
    return solution, derive(step.bound, site, solved.joints, solved.step, bind(solution)), missed


def _force(system: System, machine: Machine, load: Array, acceleration: Array) -> Force:
    """Return the derivatives of the inverse dynamics at this acceleration, shape (m,)."""
    q, v, motors = machine.inputs.q, machine.inputs.v[system.order], system.actuators
    by_q, by_v = inverse_dynamics(system, q, v, acceleration)
    bias = inverse_dynamics(system, q, v, np.zeros_like(v)) if load.any() else (NONE, NONE)
    friction = (np.zeros(0), np.zeros(0)) if motors is None else (motors.damping, motors.friction)
    return Force(by_q, by_v, *bias, *friction, load.copy())


def _columns(system: System, tasks: int, contacts: int) -> dict[str, slice]:
    """Return the columns of each parameter."""
    m, a = system.n_velocities, system.n_actuated
    ends = list(accumulate((m, m, 3 * a, tasks, 2 * a, a, contacts)))
    return {name: slice(start, end) for name, start, end in zip(BY, [0, *ends], ends, strict=False)}


def _unknown(at: Place, step: Taken, reason: str) -> Linearization:
    """Return a linearization without a derivative: zeros, and the reason."""
    solved, machine, system = step.solved, step.machine, at.system
    problem, f, h = unbind(solved.joints), solved.f if solved.ending >= 0 else np.zeros_like(solved.f), machine.h
    contacts = step.candidates.take(problem.which)
    tasks = int((machine.tasks.targets.weight > 0.0).sum())
    tau, columns = np.nan_to_num(machine.result.tau), _columns(system, tasks, len(contacts))
    pushed = contacts.jacobian.T @ f - problem.w.kappa
    pushed[system.n_unactuated :] += h * tau
    v_plus = least_squares(system.M, pushed[:, None])[:, 0]
    sizes = {"tau": tau.size, "force": f.size, "v_next": v_plus.size, "task": tasks}
    joints = np.full(tau.size, JOINTS[2], dtype=object)
    joints[unbind(solved.step).w.fixed - system.n_unactuated] = JOINTS[0]
    return Linearization(
        identity=contacts.identity,
        tau=tau,
        force=contacts.force_world(f.reshape(3, -1).T, h),
        v_next=system.advance(machine.inputs.q, v_plus, h)[1],
        task=np.zeros(tasks),
        active=Active((ROLES[PART],) * len(contacts), tuple(joints.tolist())),
        margin=Margin(0.0, 0.0, 0.0, 0.0),
        reason=reason,
        error=dict.fromkeys(BY, np.inf),
        slopes={name: np.zeros((size, columns[BY[-1]].stop)) for name, size in sizes.items()},
        columns=columns,
    )
