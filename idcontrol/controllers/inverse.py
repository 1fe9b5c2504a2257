"""Inverse dynamics with predicted contact forces, ID(t_i) of Zapolsky & Drumwright 2017, with any contact model.

`idcontrol.controllers.step` is one control step in compiled code. A step that compiled code does not solve is repeated
in interpreted code, with the schemes of `idcontrol.controllers.relax`.

Demands that may be relaxed, usually in this order:

1. Tracking: joints whose motors are at their torque limits are released, joints deviate as contacts require, or all
   motors become stiff velocity servos.
2. Contacts without slip, in schemes that forbid slip.
3. Prediction: the last torque is repeated, which may exceed the torque limit at the present speed.

Other torque limits are never relaxed, nor are friction cones, except in schemes without slip if
`InverseSettings.repair` is False. The torque-rate limit takes priority over tracking until joints have been released in
about `step.MOST_RELEASES` periods. The torque limit of a joint, which falls with its speed, takes priority over the
rate. Strict tasks that contradict standing contacts or each other are relaxed first (`Command.relaxed`).
`Command.dropped` lists the relaxed demands, including rate and tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from traceback import extract_tb
from types import SimpleNamespace
from typing import Any

import numpy as np
import pinocchio as pin
from msgspec import structs

from idcontrol.contact.contacts import Contacts, Detector
from idcontrol.contact.landing import landing_rates
from idcontrol.contact.soles import Soles
from idcontrol.contact.spheres import SphereContacts
from idcontrol.controllers.feedback import Gains, overcoming
from idcontrol.controllers.friction import COUNTED, Friction, watch
from idcontrol.controllers.gradient import Linearization, Place, Taken, linearized, place
from idcontrol.controllers.gradient.choice import is_direct
from idcontrol.controllers.gradient.site import Solved, impulses_of
from idcontrol.controllers.impacts import impact, model_at, predict
from idcontrol.controllers.inputs import Intake, alone, failed
from idcontrol.controllers.load import Load, weigh
from idcontrol.controllers.relax import solve
from idcontrol.controllers.schemes import Scheme, as_printed, certify
from idcontrol.controllers.settings import InverseSettings
from idcontrol.controllers.stance import StanceRule, land_corners
from idcontrol.controllers.step import (
    CONTRADICTORY,
    DROPPED,
    FASTER,
    LIMIT,
    MOST_RELEASES,
    NO_FILTER,
    NO_STEP,
    SOLVED,
    Answer,
    AssembledStep,
    Filter,
    JointLaw,
    Machine,
    MachineTerms,
    Outcome,
    OutcomeFields,
    Result,
    assemble_bound,
    control_bound,
    ladder,
    released,
    scheme_at,
    usable,
)
from idcontrol.controllers.tasks import DEMANDS, INFEASIBLE, TaskTerms
from idcontrol.controllers.whole import Whole, step_of
from idcontrol.dynamics.multibody import CompiledSystem
from idcontrol.dynamics.system import ActuatorLimits, System
from idcontrol.errors import IdControlError, InputError
from idcontrol.kernels.arena import HEAP, Arena, reserve
from idcontrol.kernels.bound import Bound, bind, entry, unbind
from idcontrol.kernels.placements import placement_views
from idcontrol.models.memory import memory
from idcontrol.models.step import StepProblem
from idcontrol.tasks import Force, Task, gather, gather_forces, relaxed
from idcontrol.tasks.rows import Placement
from idcontrol.types import Array, Command, ContactForces, Integers, Reference, State, Status

FEET = 16
"""The result initially has room for at least this number of contact forces."""


class InverseDynamics:
    """ID(t_i): inverse dynamics that solves for torques and contact forces together.

    Attributes:
        takes_tasks: True: `idcontrol.controllers.build` may pass tasks to this controller.
    """

    takes_tasks = True

    def __init__(
        self,
        scheme: Scheme,
        system: System,
        contacts: Detector,
        gains: Gains,
        h: float,
        settings: InverseSettings | None = None,
        tasks: Sequence[Task] = (),
        start: Array | None = None,
        limits: Filter = NO_FILTER,
    ) -> None:
        """Set up the controller of a robot.

        Args:
            scheme: Contact model, and the computation of motor impulses from its solution.
            system: Multibody terms for this controller alone.
            contacts: Detector of foot contacts on `system`, with the assumed friction.
            gains: Gains in acceleration, kp [1/s²] and kd [1/s].
            h: Control period [s].
            settings: Settings of the step; None for the defaults.
            tasks: Whole-body tasks in addition to the reference of the joints.
            start: Configuration in which the poses of task frames are their initial references; None for the neutral
                configuration.
            limits: Limits of a torque filter; gains and `Reference.a` are then in units of torque.

        Raises:
            InputError: A task is unusable, or the gains do not fit the joints.
            UnknownName: The frame of a task does not exist.
        """
        if scheme.after is None and any(isinstance(task, Force) for task in tasks):
            raise InputError(
                f"{scheme.name} does not redistribute forces, so it takes no Force task; take id-coulomb-qp"
            )
        self._arguments = (scheme, system, contacts, gains, h, settings, tasks, start, limits)
        self._settings = s = settings or InverseSettings()
        self._scheme, v_tol = _scheme_for(scheme, s)
        self._system, self._contacts, self._h = system, contacts, h
        self._rough = self._scheme.sticks and not s.repair
        patch, sole_patch, self._soles = (getattr(contacts, name, None) for name in ("patch", "sole_patch", "soles"))
        self._intake = Intake(system, patch=patch)
        most = max(FEET, contacts.radius.size) if type(contacts) is SphereContacts else FEET
        result = _result(np.full(system.n_actuated, np.nan), most)
        machine = _machine(self._scheme, system, gains, h, s)(
            inputs=self._intake.inputs,
            result=result,
            v_tol=v_tol,
            tasks=_task_terms(tasks, system, contacts, start),
            patch=np.zeros(0, dtype=np.int64) if sole_patch is None else sole_patch,
            lifted=np.zeros(0 if sole_patch is None else sole_patch.size, dtype=np.int64),
            filter=limits,
        )
        none, unbound = Contacts.none(system.n_velocities), bind(machine)
        predicts = self._scheme.impact if s.impacts else None
        terms = machine.tasks
        self._machine = machine._replace(
            tasks=terms._replace(certificate=scheme_at(certify, machine.step[0])) if tasks else terms,
            scheme=0 if self._scheme.solve is None else scheme_at(self._scheme.solve, machine.step[0]),
            impact=0 if predicts is None else model_at(predicts, unbound, none.packed),
        )
        self._placed_at: Place | None = None  # for `linearize`
        self._friction, self._load = Friction.unknown(system.n_velocities), Load.unknown(system.n_velocities)
        self._bound_friction, self._bound_load = bind(self._friction), bind(self._load)
        self._weighs = s.learn_load and system.floats
        self._bound, self._views = bind(self._machine), _views(self._machine.result)
        self._step = entry(control_bound, self._bound, none.bound)
        self._impact = None if predicts is None else entry(predict, self._bound, none.bound)
        self._parts = self._in_one_call()
        self._whole = None if self._parts is None else bind(self._parts)
        self._run: Any = None if self._whole is None else entry(step_of, self._whole, 0.0)
        self._first: Any = getattr(contacts, "first", None)  # the contacts of a step in one call

    def __reduce__(self) -> tuple[Any, ...]:
        """Preserve the memory of the last step in copies and pickles; a shallow copy shares the system."""
        last = self._views[self._load.contacts[0]]
        return type(self), self._arguments, (self._remembered, last.identity, last.force)

    def __setstate__(self, remembered: tuple[tuple[Array | Integers, ...], Integers, Array]) -> None:
        memories, identity, force = remembered
        for room, values in zip(self._remembered, memories, strict=True):
            room[:] = values
        self._bind(identity.size)
        last = self._views[identity.size]
        last.identity[:], last.force[:] = identity, force

    @property
    def _remembered(self) -> tuple[Array | Integers, ...]:
        machine = self._machine
        state = *machine.memory, machine.result.tau, machine.releases, machine.lifted
        return *state, *self._friction, *self._load

    def reset(self) -> None:
        """Forget all earlier steps, and the estimates of friction and load."""
        self._machine.memory.used[0] = 0
        self._machine.result.tau[:] = np.nan
        self._machine.releases[:] = 0
        self._machine.lifted[:] = 0
        self._friction.forget()
        self._load.forget()

    @property
    def load(self) -> Array:
        """Estimated unmodelled force on the base, axes of the base, shape (3,) [N]."""
        return self._load.force.copy()

    @property
    def friction(self) -> float:
        """Friction measured by sliding feet, which grows between measurements (`Friction.mu`); inf if unknown."""
        return float(self._friction.mu[0])

    @alone
    def __call__(self, state: State, reference: Reference) -> Command:
        """Return torques for the period that begins at `state.t`.

        The status is `Status.FAILED` if state, reference or contacts are unusable, the detector or the step raises an
        error, or two threads use the system.
        """
        fault = self._intake.take(state, reference)
        if fault:
            return failed(self._system, fault)
        try:
            candidates, outcome = self._outcome(state.t)
            return self._command(candidates, outcome) if outcome[0] >= 0 else self._fall_back(candidates)
        except IdControlError as error:  # the model may not support hundreds of contacts
            return failed(self._system, str(error))
        except Exception as error:  # a user's detector may raise anything; a controller raises nothing
            where = extract_tb(error.__traceback__)[-1]
            what = f"{type(error).__name__} in {where.name} ({Path(where.filename).name}:{where.lineno})"
            return failed(self._system, f"contacts or step raised {what}: {error}")

    def _command(self, candidates: Contacts, outcome: OutcomeFields) -> Command:
        """Return the command of a step that has torques, from `Machine.result`."""
        ending, sticking, clipped, residual, stands, gap, lands = outcome
        view, terms, relaxes = self._views[stands], self._machine.tasks, ending >= CONTRADICTORY
        predicted = ContactForces(
            identity=view.identity.copy(), force=view.force.copy(), normal=view.normal.copy(), soles=self._placed()
        )
        return Command(
            tau=self._machine.result.tau.copy(),
            predicted=self._with_impacts(candidates, predicted) if lands and self._settings.impacts else predicted,
            status=Status.SOLVED if ending == SOLVED else Status.REPAIRED,
            residual=residual,
            clipped=clipped,
            dropped=DROPPED[ending],
            solved_by="sticking" if sticking else self._scheme.name,
            gap=gap,
            demand=DEMANDS[INFEASIBLE if relaxes else terms.outcome[0]] if self._arguments[6] else "",
            relaxed=relaxed(self._arguments[6], terms.targets, terms.missed) if relaxes else (),
        )

    def _outcome(self, t: float) -> tuple[Contacts, OutcomeFields]:
        """Take the compiled step at time `t` [s]; return the candidate contacts and the outcome."""
        if self._run is not None:
            if self._intake.inputs is not self._machine.inputs:
                self._bind(0)
            outcome, n = self._run(self._whole, t)
            return self._first(n), outcome
        candidates = self._look(t)
        outcome = self._step(self._bound, candidates.bound)
        self._load.contacts[0] = outcome[4] if outcome[0] >= 0 else 0
        return candidates, outcome

    def _in_one_call(self) -> Whole | None:
        """Return the argument of `whole_step`; None if terms or contacts are not computed in compiled code."""
        system, contacts = self._system, self._contacts
        if not isinstance(system, CompiledSystem) or type(contacts) is not SphereContacts:
            return None
        if contacts.system is not system:
            return None
        actuators = system.actuators
        return Whole(
            machine=self._bound,
            friction=self._bound_friction,
            load=self._bound_load,
            terms=system.work,
            spheres=contacts.bound,
            detected=bind(Contacts.none(system.n_velocities).packed),
            damping=np.zeros(0) if actuators is None else actuators.damping,
            dry=np.zeros(0) if actuators is None else actuators.friction,
            margin_m=float(self._settings.contact_margin_m),
            rough=self._rough,
            weighs=self._weighs,
            learns=self._settings.learn_friction,
        )

    def problem(self, state: State, reference: Reference) -> AssembledStep:
        """Return the problem of the step at `state`, without affecting the next step.

        Raises:
            InputError: State or reference is unusable.
        """
        fault = self._intake.take(state, reference)
        if fault:
            raise InputError(fault)
        return self._assemble(self._look())

    def _look(self, t: float | None = None) -> Contacts:
        """Compute multibody terms and contacts at the accepted state.

        `t` is the time of a new step [s]. With None, the estimates of friction and load are used but not updated.
        """
        inputs = self._intake.inputs
        self._system.update(inputs.q, inputs.v)
        if self._system.actuators is not None:
            self._system.bias[self._system.n_unactuated :] += overcoming(self._system.actuators, inputs.joint_v)
        candidates = self._contacts.detect(self._settings.contact_margin_m)
        if self._rough:
            candidates = replace(candidates, mu=np.full(len(candidates), np.inf))
        self._bind(len(candidates))
        if self._weighs:
            weigh(self._bound, self._bound_load, candidates.bound, np.nan if t is None else t)
        if not self._settings.learn_friction:
            return candidates
        counted = (
            COUNTED * self.friction if t is None else watch(self._bound, self._bound_friction, candidates.bound, t)
        )
        return candidates if counted == np.inf else replace(candidates, mu=np.minimum(candidates.mu, counted))

    def _bind(self, contacts: int) -> None:
        """Bind the step to the accepted inputs, with room for the forces of this number of contacts."""
        inputs, result = self._intake.inputs, self._machine.result
        fits = contacts <= result.identity.size
        if fits and inputs is self._machine.inputs:
            return
        self._machine = self._machine._replace(inputs=inputs, result=result if fits else _result(result.tau, contacts))
        self._bound, self._views = bind(self._machine), _views(self._machine.result)
        if self._parts is not None:
            self._parts = self._parts._replace(machine=self._bound)
            self._whole = bind(self._parts)

    def linearize(self, state: State, reference: Reference, *, loads: bool = False) -> tuple[Command, Linearization]:
        """Take the step at `state` as a call does, and return its derivative, too.

        Args:
            state: The state.
            reference: The reference.
            loads: True for the derivatives by `load`, `inertia` and `normal`, too, which take longer.

        Raises:
            InputError: State, reference or contacts are unusable; the controller has a `Force` task, a task relative to
                another frame, or a torque filter; its contacts include walls or come from another detector than
                `SphereContacts`; or two threads call it at once.
        """
        tasks = self._machine.tasks
        other = self._machine.filter.cut.size or tasks.forces.task.size or (tasks.targets.base >= 0).any()
        if other or not isinstance(self._contacts, SphereContacts) or self._contacts.walls.size:
            raise InputError("linearize supports no Force tasks, relative frames, walls or torque filters")
        if not self._system.busy.acquire(False):
            raise InputError("called by two threads at once: give each a controller of its own")
        try:
            return self._linearize(state, reference, self._contacts, loads=loads)
        finally:
            self._system.busy.release()

    def _linearize(
        self, state: State, reference: Reference, spheres: SphereContacts, *, loads: bool
    ) -> tuple[Command, Linearization]:
        """Run `linearize` while no other thread uses the system.

        Raises:
            InputError: State, reference or contacts are unusable.
        """
        fault = self._intake.take(state, reference)
        if fault:
            raise InputError(fault)
        outcome: OutcomeFields | None = None
        if is_direct(self._scheme) and self._machine.releases[0] < MOST_RELEASES:
            candidates, outcome = self._outcome(state.t)
        else:
            candidates = self._look(state.t)
        if outcome is not None and outcome[0] >= 0:
            solved = self._solved(outcome)
        else:
            outcome, solved = self._solve_again(state, candidates, lands=outcome is None)
        taken = Taken(self._machine, self._bound, candidates, solved, self._load.force, bool(loads))
        derivative = linearized(self._scheme, self._place(spheres), taken)
        return self._command(candidates, outcome) if outcome[0] >= 0 else self._repeated(outcome, solved), derivative

    def _solve_again(self, state: State, candidates: Contacts, *, lands: bool) -> tuple[OutcomeFields, Solved]:
        """Solve the step in interpreted code; `lands` is False if a compiled step has marked landed corners.

        Raises:
            InputError: The contacts are unusable.
        """
        machine = self._machine
        if not usable(candidates.arrays, machine.inputs.stance.size, self._system.n_velocities):
            raise InputError(f"contacts {candidates.identity.tolist()} do not fit the feet of the reference")
        if lands and machine.lifted.size:
            v = state.v[self._system.order]
            land_corners(machine.lifted, machine.patch, machine.inputs.stance, candidates.arrays, v, machine.h)
        return self._solve(candidates)

    def _solved(self, outcome: OutcomeFields) -> Solved:
        """Return the problem and the solution of the last compiled step (`is_direct`)."""
        (joints, rest), ending, none = self._machine.step, outcome[0], np.zeros(0)
        last = rest if ending & LIMIT else joints
        f = impulses_of(self._bound, joints)
        return Solved(joints, last, none.astype(np.int64), f, ending & ~(LIMIT | FASTER), outcome[1], none)

    def _place(self, spheres: SphereContacts) -> Place:
        """Return the robot as `linearized` needs it."""
        if self._placed_at is None:
            self._placed_at = place(self._system, spheres)
        return self._placed_at

    def fall_back(self, state: State, reference: Reference) -> Command:
        """Take the step in interpreted code, as if the compiled step had failed (`idcontrol.controllers.warming`)."""
        fault = self._intake.take(state, reference)
        return failed(self._system, fault) if fault else self._fall_back(self._look(state.t))

    def _fall_back(self, candidates: Contacts) -> Command:
        """Take a step in interpreted code, after the compiled step has failed."""
        feet = self._intake.inputs.stance.size
        if not usable(candidates.arrays, feet, self._system.n_velocities):
            return failed(
                self._system,
                f"contacts {candidates.identity.tolist()} with friction {candidates.mu.tolist()} and "
                f"{candidates.jacobian.shape[1]} columns do not fit {feet} feet and "
                f"{self._system.n_velocities} velocities, or their axes are not unit vectors",
            )
        outcome, solved = self._solve(candidates)
        if outcome.ending >= 0:
            return self._command(candidates, outcome)
        return self._repeated(outcome, solved)

    def _repeated(self, outcome: OutcomeFields, solved: Solved) -> Command:
        """Return the command of a step without a solution: it repeats the last torques."""
        _, _, _, residual, stands, _, _ = outcome
        contacts = unbind(solved.joints).contacts
        return Command(
            tau=np.nan_to_num(self._machine.result.tau),
            predicted=ContactForces(
                identity=contacts.identity,
                force=np.zeros((stands, 3)),
                normal=contacts.axes[:, 0].copy(),
                soles=self._placed(),
            ),
            status=Status.FALLBACK,
            residual=residual,
            dropped=("tracking", "prediction"),
        )

    def _solve(self, candidates: Contacts) -> tuple[Outcome, Solved]:
        """Solve a step in interpreted code; write torques and forces into `Machine.result`."""
        step = self._assemble(candidates)
        joints, rest, solutions = SimpleNamespace(borrowed=step), SimpleNamespace(), []

        def scheme(held: Any, f: Array, arena: Arena) -> Answer:
            step, before = held.borrowed, held.borrowed.active.copy()
            answer = solve(self._scheme, step, f, arena, candidates=candidates)
            solutions.append((step, before, f, answer))
            return answer

        def retry(bound: Bound, *arguments: Any) -> None:
            rest.borrowed = released(bound, step, *arguments)

        outcome = ladder(scheme, retry, self._bound, self._machine, (joints, rest), HEAP)
        if outcome.ending >= 0:
            self._load.contacts[0] = outcome.stands
        else:
            self._machine.memory.used[0] = 0
        step, before, f, answer = solutions[-1]
        held = bind(joints.borrowed)
        last = held if step is joints.borrowed else bind(step)
        ending = answer.ending + (CONTRADICTORY if outcome.ending >= CONTRADICTORY else 0)
        return outcome, Solved(held, last, before, f, ending, answer.sticking, answer.impulse)

    def _placed(self) -> Callable[[], Soles] | None:
        """Return a function that places the feet at the accepted state; None without soles."""
        return None if self._soles is None else partial(self._soles, self._intake.inputs.q.copy())

    def _assemble(self, candidates: Contacts) -> AssembledStep:
        """Return the assembled problem with all joints tracked."""
        step: AssembledStep = assemble_bound(self._bound, candidates.packed, HEAP)
        return step._replace(w=step.w._replace(M=step.w.M.copy()))

    def _with_impacts(self, candidates: Contacts, predicted: ContactForces) -> ContactForces:
        """Return the forces of a period with a touchdown; `predicted` if the model fails."""
        if self._impact is not None:
            solved, identity, force, normal = self._impact(self._bound, candidates.bound)
            if solved:
                return structs.replace(predicted, identity=identity, force=force, normal=normal)
        step, which, moving = impact(self._bound, candidates.arrays, HEAP)
        contacts = replace(candidates.take(which), gap=moving.gap, surface_velocity=moving.surface_velocity)
        try:
            problem = StepProblem(h=self._h, M=step.w.M, kappa=step.w.kappa, contacts=contacts)
            solution = self._scheme.forward(problem, None)
        except IdControlError:  # the model does not support such contacts
            return predicted
        if solution.status is Status.FALLBACK:
            return predicted
        force = contacts.force_world(solution.impulses, self._h)
        return structs.replace(predicted, identity=contacts.identity, force=force, normal=contacts.axes[:, 0])


def _scheme_for(scheme: Scheme, settings: InverseSettings) -> tuple[Scheme, float]:
    """Return the scheme for the settings, and the speed below which a contact counts as at rest [m/s]."""
    v_tol = settings.edge_speed_m_s
    if settings.objective == "printed" and scheme.printed is not None:
        # the printed optimum does not depend on contact velocities, so neither can the edge rule
        scheme, v_tol = as_printed(scheme), np.inf
    return scheme, 0.0 if scheme.rigid else float(v_tol)


def _per_joint(name: str, gain: Array | float, a: int) -> Array:
    """Return a gain for each of `a` joints, shape (a,).

    Raises:
        InputError: `gain` is neither a number nor of shape (a,).
    """
    try:
        return np.full(a, gain, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"gains: {name} must be one number, or {a} numbers, one for each joint") from None


def _machine(
    scheme: Scheme, system: System, gains: Gains, h: float, settings: InverseSettings
) -> Callable[..., Machine]:
    """Return a function that builds a `Machine` from its remaining fields; the addresses of kernels are 0."""
    u, a = system.n_unactuated, system.n_actuated
    terms = MachineTerms(
        M=system.M,
        bias=system.bias,
        order=system.order,
        joint_q=system.joint_q,
        joint_circle=system.joint_circle,
        free=np.arange(u),
        fixed=np.arange(u, u + a),
    )
    joints = JointLaw(
        kp=_per_joint("kp", gains.kp, a),
        kd=_per_joint("kd", gains.kd, a),
        limit=system.effort_limit,
        room=_room(scheme, settings, system),
    )
    speeds = float(settings.approach_speed_m_s), float(settings.slide_speed_m_s)
    return partial(
        Machine,
        arena=reserve(),
        step=(bind(NO_STEP), bind(NO_STEP)),
        scheme=0,
        impact=0,
        h=float(h),
        terms=terms,
        joints=joints,
        rule=StanceRule(float(settings.landing_s), *speeds, float(settings.ramp_s)),
        landing=landing_rates(settings.landing, h),
        projects=scheme.calms and settings.project,
        shortcut=settings.shortcut,
        repairs=settings.repair,
        law=scheme.law,
        memory=memory(),
        releases=np.zeros(1, dtype=np.int64),
    )


def _room(scheme: Scheme, settings: InverseSettings, system: System) -> ActuatorLimits:
    """Return the robot's limits, with the torque-rate limit of scheme and settings."""
    rate = settings.rate_limit_nm_s if scheme.calms else None
    if rate == "robot":
        return system.limits
    rate = np.inf if rate is None else rate
    return system.limits._replace(torque_rate=np.full(system.n_actuated, float(rate)))


def _task_terms(tasks: Sequence[Task], system: System, contacts: Detector, start: Array | None) -> TaskTerms:
    """Gather tasks for kernels; the caller sets `TaskTerms.certificate`."""
    q = pin.neutral(system.model) if start is None else start
    targets, joint_weight = gather(tasks, system, q)
    position, rotation = placement_views(system.data.oMi)
    return TaskTerms(
        targets=targets,
        placement=Placement(
            position, rotation, system.jacobian, system.support, system.motion, system.model.gravity.linear
        ),
        joint_weight=joint_weight,
        certificate=0,
        outcome=np.zeros(2, dtype=np.int64),
        missed=np.zeros(targets.weight.size),
        forces=gather_forces(tasks, contacts),
    )


def _result(tau: Array, contacts: int) -> Result:
    """Allocate the result of a step with this number of contacts."""
    return Result(
        tau=tau,
        identity=np.zeros(contacts, dtype=np.int64),
        force=np.zeros((contacts, 3)),
        normal=np.zeros((contacts, 3)),
    )


def _views(result: Result) -> list[ContactForces]:
    """Return views of the first n contacts of a result, for every n."""  # slicing takes longer than copying
    return [
        ContactForces(identity=result.identity[:n], force=result.force[:n], normal=result.normal[:n])
        for n in range(result.identity.size + 1)
    ]
