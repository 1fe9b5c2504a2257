"""Inverse dynamics with predicted contact forces, ID(t_i) of Zapolsky & Drumwright 2017, over any contact model.

`idcontrol.controllers.step` is one control step; almost all end there. Here is what follows where a step does not: one
without a solution gives way (`idcontrol.controllers.giving_way`), its joints within their limits.

What is given up when a step cannot be solved, in this order: tracking (joints at their limits are let go, the joints
give way to what contacts allow, or all motors become stiff velocity servos, which always has a solution), then, in
schemes without slip, that nothing slips, then prediction (the last torque is repeated). Torque limits and friction
cones never are. The rate of torques takes priority over tracking, but not for longer than `MOST_LET_GO` periods, and
not over the torque limit of a joint whose speed rises. `Command.dropped` says what was given up, also a rate.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from traceback import extract_tb
from typing import Any

import numpy as np
from msgspec import structs

from idcontrol.contact.contacts import Contacts, Detector
from idcontrol.contact.landing import landing_rates
from idcontrol.contact.spheres import SphereContacts
from idcontrol.controllers.behind import behind
from idcontrol.controllers.feedback import Gains, overcoming
from idcontrol.controllers.friction import COUNTED, Friction, watch
from idcontrol.controllers.giving_way import Outcome, Request, keep, moved, servo, without_slip
from idcontrol.controllers.inputs import KEPT_FEET, Inputs, Intake, alone, are_plain, failed
from idcontrol.controllers.load import Load, weigh
from idcontrol.controllers.schemes import Scheme, as_printed, as_specified
from idcontrol.controllers.settings import InverseSettings
from idcontrol.controllers.step import (
    GIVEN_UP,
    MOST_LET_GO,
    MOVED,
    NO_SOLUTION,
    SOLVED,
    Answer,
    Ended,
    JointLaw,
    Machine,
    MachineTerms,
    Posed,
    Result,
    StanceRule,
    count_released,
    meets_ground,
    pose_bound,
    torque_bounds,
    usable,
)
from idcontrol.controllers.whole import REFUSED, Whole, place_of, step_of
from idcontrol.dynamics.multibody import CompiledSystem
from idcontrol.dynamics.system import ActuatorLimits, System
from idcontrol.errors import IdControlError, InputError
from idcontrol.kernels.arena import HEAP, Arena, reserve
from idcontrol.kernels.bound import Bound, bind, entry
from idcontrol.models.distribution import MET, Bounds, drags
from idcontrol.models.memory import as_warm_start, memory, store
from idcontrol.models.step import Ending, Prescribed, StepProblem, warm_bits
from idcontrol.models.whitened import finish, whiten
from idcontrol.types import Array, Booleans, Command, ContactForces, Integers, Reference, State, Status

FEET = 16
"""Contacts for whose forces there is room at first."""


class InverseDynamics:
    """ID(t_i): inverse dynamics whose contact forces come from a contact model in the same solve."""

    def __init__(
        self,
        scheme: Scheme,
        system: System,
        contacts: Detector,
        gains: Gains,
        h: float,
        settings: InverseSettings | None = None,
    ) -> None:
        """Bind the controller to a machine.

        Args:
            scheme: Contact model, and how motor impulses follow from it.
            system: The controller's own multibody terms.
            contacts: Detector of foot contacts on `system`; its friction is what the controller may count on.
            gains: Gains in acceleration, kp [1/s²] and kd [1/s].
            h: Control period [s].
            settings: Settings of the step; None takes the defaults.

        Raises:
            InputError: The reference solver is asked for where there is none (`as_specified`).
        """
        self._made = (scheme, system, contacts, gains, h, settings)
        self._settings = s = settings or InverseSettings()
        v_tol = s.edge_speed_m_s
        if s.solver == "reference":
            scheme = as_specified(scheme)
        elif s.objective == "printed" and scheme.printed is not None:
            # the printed optimum knows nothing of contact velocities, so neither can the edge rule
            scheme, v_tol = as_printed(scheme), np.inf
        if scheme.rigid:
            v_tol = 0.0
        self._scheme, self._system, self._contacts, self._h = scheme, system, contacts, h
        self._rough = scheme.instead is without_slip and not s.repair
        u, a = system.n_unactuated, system.n_actuated
        self._memory = memory()
        self._intake = Intake(system)
        self._tau: Array = np.full(a, np.nan)
        self._let_go = np.zeros(1, dtype=np.int64)
        self._machine = Machine(
            arena=reserve(),
            h=float(h),
            terms=MachineTerms(
                M=system.M,
                bias=system.bias,
                order=system.order,
                joint_q=system.joint_q,
                joint_circle=system.joint_circle,
                free=np.arange(u),
                fixed=np.arange(u, u + a),
            ),
            joints=JointLaw(
                kp=np.full(a, gains.kp, dtype=np.float64),
                kd=np.full(a, gains.kd, dtype=np.float64),
                limit=system.effort_limit,
                room=_room(scheme, s, system),
            ),
            rule=StanceRule(
                landing_s=float(s.landing_s),
                approach_speed_m_s=float(s.approach_speed_m_s),
                slide_speed_m_s=float(s.slide_speed_m_s),
                ramp_s=float(s.ramp_s),
            ),
            landing=landing_rates(s.landing, h),
            projects=scheme.calms and s.project,
            shortcut=s.shortcut,
            v_tol=float(v_tol),
            law=scheme.law,
            memory=self._memory,
            inputs=self._intake.inputs,
            result=_result(self._tau, max(FEET, contacts.radius.size) if type(contacts) is SphereContacts else FEET),
            let_go=self._let_go,
        )
        self._bound, self._found = bind(self._machine), _first(self._machine.result)
        self._kept: dict[int, tuple[Machine, Bound, Bound | None]] = {}
        none = Contacts.none(system.n_velocities).bound
        self._step = None if scheme.step is None else entry(scheme.step, self._bound, none)
        predicts = scheme.impact if s.impacts else None
        self._impact = None if predicts is None else entry(predicts, self._bound, none)
        self._friction = Friction.unknown(system.n_velocities)
        self._seen = bind(self._friction)
        self._load = Load.unknown(system.n_velocities)
        self._carried = bind(self._load)
        self._weighs = s.learn_load and system.floats
        self._parts = self._in_one_call(none)
        self._whole = None if self._parts is None else bind(self._parts)
        self._run: Any = None if self._whole is None else entry(step_of, self._whole, *self._intake.inputs, 0.0)
        self._first: Any = getattr(contacts, "first", None)  # a step in one call has no other contacts
        self._weigh: Any = weigh if self._run else entry(weigh, self._bound, self._carried, none, 0.0)
        self._watch: Any = watch if self._run else entry(watch, self._bound, self._seen, none, 0.0)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, or what comes out of a pickle, remembers the same last step; a shallow one shares the system."""
        kept = self._found[self._load.contacts[0]]
        return type(self), self._made, (self._remembered, kept.identity, kept.force)

    def __setstate__(self, remembered: tuple[tuple[Array | Integers, ...], Integers, Array]) -> None:
        memories, identity, force = remembered
        for room, values in zip(self._remembered, memories, strict=True):
            room[:] = values
        if identity.size > self._machine.result.identity.size:
            self._rebind(self._machine.inputs, identity.size)
        kept = self._found[identity.size]
        kept.identity[:], kept.force[:] = identity, force

    @property
    def _remembered(self) -> tuple[Array | Integers, ...]:
        return *self._memory, self._tau, self._let_go, *self._friction, *self._load

    def reset(self) -> None:
        """Forget the last step."""
        store(self._memory, {})
        self._tau[:] = np.nan
        self._let_go[:] = 0
        self._friction.forget()
        self._load.forget()

    @property
    def load(self) -> Array:
        """Force on the base that nobody told of, as it has shown, axes of the base, shape (3,) [N]."""
        return self._load.force.copy()

    @property
    def friction(self) -> float:
        """Friction that feet have shown as they slid; inf while there is no reason to doubt what was told."""
        return float(self._friction.mu[0])

    @alone
    def __call__(self, state: State, reference: Reference) -> Command:
        """Torques for the period that begins at `state.t`; `Status.FAILED` where state or reference cannot be used."""
        step = self._at_once(state, reference)
        if step is None:
            fault = self._intake.take(state, reference)
            if fault:
                return failed(self._system, fault)
            try:
                step = self._ended(state.t)
            except Exception as error:  # a detector may be a user's and raise anything; a controller raises nothing
                where = extract_tb(error.__traceback__)[-1]
                what = f"{type(error).__name__} in {where.name} ({Path(where.filename).name}:{where.lineno})"
                return failed(self._system, f"contacts or step raised {what}: {error}")
        near, (ending, sticking, clipped, residual, n, gap, lands) = step
        impact = lands and self._settings.impacts
        dropped = GIVEN_UP.get(ending)
        if dropped is not None:
            found = self._found[n]
            predicted = ContactForces(
                identity=found.identity.copy(), force=found.force.copy(), normal=found.normal.copy()
            )
            return Command(
                tau=self._tau.copy(),
                predicted=self._with_impacts(near, predicted) if impact else predicted,
                status=Status.REPAIRED if dropped else Status.SOLVED,
                residual=residual,
                clipped=clipped,
                dropped=dropped,
                solved_by="sticking" if sticking else self._scheme.name,
                gap=gap,
            )
        try:
            return self._give_way(near)
        except IdControlError as error:  # a model that does not take hundreds of contacts
            return failed(self._system, str(error))

    def _at_once(self, state: State, reference: Reference) -> tuple[Contacts, Ended] | None:
        """`_ended` in one call, state and reference taken in as they are; None where that cannot be."""
        if self._run is None or self._intake.inputs is not self._machine.inputs:
            return None
        try:
            given = self._intake.given(state, reference)
            if not are_plain(*given):
                return None
            ended, n = self._run(self._whole, *given, state.t)
        except Exception:  # a user's object may raise anything when it is read: `Intake.take` says what
            return None
        return None if ended[0] == REFUSED else (self._first(n), ended)

    def _ended(self, t: float) -> tuple[Contacts, Ended]:
        """How the step ended at the state that was taken in, and the contacts that it found."""
        ended: Ended = (NO_SOLUTION, False, False, 0.0, 0, np.nan, False)
        if self._run is not None:
            if self._intake.inputs is not self._machine.inputs:
                self._rebind(self._intake.inputs, 0)
            ended, n = self._run(self._whole, *self._intake.inputs, t)
            return self._first(n), ended
        near = self._look(t)
        if self._step is not None:
            ended = self._step(self._bound, near.bound)
        self._load.contacts[0] = ended[4] if ended[0] in GIVEN_UP else 0
        return near, ended

    def _in_one_call(self, none: Bound) -> Whole | None:
        """The argument of `whole_step`; None where terms or contacts are not found in compiled code."""
        system, contacts, step = self._system, self._contacts, self._scheme.step
        if not isinstance(system, CompiledSystem) or type(contacts) is not SphereContacts or step is None:
            return None
        if contacts.system is not system:
            return None
        actuators = system.actuators
        return Whole(
            step=place_of(step, self._bound, none),
            machine=self._bound,
            friction=self._seen,
            load=self._carried,
            intake=self._intake.room,
            terms=system.work,
            spheres=contacts.bound,
            found=bind(Contacts.none(system.n_velocities).packed),
            damping=np.zeros(0) if actuators is None else actuators.damping,
            dry=np.zeros(0) if actuators is None else actuators.friction,
            margin_m=float(self._settings.contact_margin_m),
            rough=self._rough,
            weighs=self._weighs,
            learns=self._settings.learn_friction,
        )

    def problem(self, state: State, reference: Reference) -> Request:
        """The problem that the step at `state` solves, as it stands and whitened; the next step is not changed by it.

        Raises:
            InputError: State or reference cannot be used.
        """
        fault = self._intake.take(state, reference)
        if fault:
            raise InputError(fault)
        return self._begin(self._look())

    def _look(self, t: float | None = None) -> Contacts:
        """Multibody terms and contacts at the state that was taken in, at time `t` [s] if it begins a step."""
        inputs = self._intake.inputs
        self._system.update(inputs.q, inputs.v)
        if self._system.actuators is not None:
            self._system.bias[self._system.n_unactuated :] += overcoming(self._system.actuators, inputs.joint_v)
        near = self._contacts.detect(self._settings.contact_margin_m)
        if self._rough:
            near = replace(near, mu=np.full(len(near), np.inf))
        if inputs is not self._machine.inputs or len(near) > self._machine.result.identity.size:
            self._rebind(inputs, len(near))
        if self._weighs:
            self._weigh(self._bound, self._carried, near.bound, np.nan if t is None else t)
        if not self._settings.learn_friction:
            return near
        counted = COUNTED * self.friction if t is None else self._watch(self._bound, self._seen, near.bound, t)
        return near if counted == np.inf else replace(near, mu=np.minimum(near.mu, counted))

    def _rebind(self, inputs: Inputs, contacts: int) -> None:
        """Let the step read from `inputs`, and write the forces of at least that many contacts."""
        if contacts > self._machine.result.identity.size:
            result = _result(self._tau, contacts)
            self._machine, self._found = self._machine._replace(result=result), _first(result)
            self._kept.clear()
        feet = inputs.stance.size
        kept = self._kept.get(feet)
        if kept is None or kept[0].inputs is not inputs:
            machine = self._machine._replace(inputs=inputs)
            bound = bind(machine)
            whole = None if self._parts is None else bind(self._parts._replace(machine=bound, intake=self._intake.room))
            kept = machine, bound, whole
            if feet <= KEPT_FEET:
                self._kept[feet] = kept
        self._machine, self._bound, self._whole = kept

    def give_way(self, state: State, reference: Reference) -> Command:
        """The step as it is computed where the compiled one has no answer; see `idcontrol.controllers.warming`."""
        fault = self._intake.take(state, reference)
        return failed(self._system, fault) if fault else self._give_way(self._look(state.t))

    def _give_way(self, near: Contacts) -> Command:
        """A step that was not solved at once, or not within the torque limits."""
        feet = self._intake.inputs.stance.size
        if not usable(near.arrays, feet, self._system.n_velocities):
            return failed(
                self._system,
                f"contacts {near.identity.tolist()} with friction {near.mu.tolist()} and "
                f"{near.jacobian.shape[1]} columns cannot be those of {feet} feet and "
                f"{self._system.n_velocities} velocities, or have no unit axes",
            )
        request = self._begin(near)
        contacts = request.problem.contacts
        tau, outcome, clipped = self._within_limits(request)
        solution, status, dropped = outcome.solution, outcome.solution.status, outcome.dropped
        impulses = solution.impulses
        if not np.isfinite(tau).all() or status is Status.FALLBACK:
            tau, status, dropped = np.nan_to_num(self._tau), Status.FALLBACK, ("tracking", "prediction")
            impulses = np.zeros_like(impulses)
            store(self._memory, {})
        else:
            self._tau[:] = tau
            store(self._memory, solution.warm)
        solved_by, gap = None, np.nan
        if status is not Status.FALLBACK:
            gap = outcome.gap / self._h
            solved_by = "sticking" if outcome.sticking else self._scheme.name
        predicted = ContactForces(
            identity=contacts.identity.copy(),
            force=contacts.force_world(impulses, self._h),
            normal=contacts.axes[:, 0].copy(),
        )
        if status is not Status.FALLBACK:
            kept = self._found[len(contacts)]
            kept.identity[:], kept.force[:] = predicted.identity, predicted.force
            self._load.contacts[0] = len(contacts)
            if self._settings.impacts and request.posed.lands:
                predicted = self._with_impacts(near, predicted)
        return Command(
            tau=tau,
            predicted=predicted,
            status=Status.REPAIRED if (clipped or dropped) and status is Status.SOLVED else status,
            residual=solution.residual,
            clipped=clipped,
            dropped=dropped,
            solved_by=solved_by,
            gap=gap,
        )

    def _with_impacts(self, near: Contacts, predicted: ContactForces) -> ContactForces:
        """Forces of a period in which a foot lands; `predicted` ones are kept where the model has no answer."""
        if self._impact is not None:
            solved, identity, force, normal = self._impact(self._bound, near.bound)
            if solved:
                return ContactForces(identity=identity, force=force, normal=normal)
        try:
            return self._impact_in_python(near, predicted)
        except IdControlError:  # a model that does not take contacts like these
            return predicted

    def _impact_in_python(self, near: Contacts, predicted: ContactForces) -> ContactForces:
        """`idcontrol.controllers.impacts` with the model in Python, with all that it can do."""
        request = self._begin(near)
        problem, u = request.problem, self._system.n_unactuated
        v, rule = self._intake.inputs.v[self._system.order], self._machine.rule
        meet = [meets_ground(near.arrays, i, v, self._h, rule.approach_speed_m_s) for i in range(len(near))]
        meets = np.array(meet, dtype=np.bool_)
        which, gap, surface = request.posed.which, near.gap.copy(), near.surface_velocity.reshape(3, -1).copy()
        stays = ~meets[which]
        stands = which[stays]
        gap[stands], surface[:, stands] = 0.0, request.posed.target.reshape(3, -1)[:, stays]
        contacts = replace(near, gap=gap, surface_velocity=surface.ravel())
        contacts = contacts.take(np.union1d(which, np.flatnonzero(meets)))
        kappa = problem.kappa.copy()
        kappa[u:] -= self._h * self._tau
        solution = self._scheme.forward(replace(problem, kappa=kappa, contacts=contacts, prescribed=None), None)
        if solution.status is Status.FALLBACK:
            return predicted
        return ContactForces(
            identity=contacts.identity,
            force=contacts.force_world(solution.impulses, self._h),
            normal=contacts.axes[:, 0],
        )

    def _begin(self, near: Contacts) -> Request:
        """The posed problem with all joints tracked."""
        posed: Posed = pose_bound(self._bound, near.packed, HEAP)
        contacts = replace(near.take(posed.which), gap=np.zeros(posed.which.size), surface_velocity=posed.target)
        u, a = self._system.n_unactuated, self._system.n_actuated
        problem = StepProblem(
            h=self._h,
            M=posed.w.M.copy(),
            kappa=posed.w.kappa,
            contacts=contacts,
            prescribed=Prescribed(index=np.arange(u, u + a), velocity=posed.b),
        )
        return Request(
            problem=problem,
            posed=posed,
            warm=as_warm_start(self._memory),
            repair=self._settings.repair,
        )

    def _within_limits(self, request: Request) -> tuple[Array, Outcome, bool]:
        """Solve the scheme within its motors' bounds: torques, outcome, whether a torque limit was met."""
        limit, posed = self._system.effort_limit, request.posed
        known = np.full(limit.size, np.nan)
        tracked, driven, bounds, at_once = np.isnan(known), request, posed.bounds, True
        # as in `idcontrol.controllers.step.control`
        while True:
            outcome = solve(self._scheme, driven, self._machine.arena)
            impulse = known.copy()
            impulse[tracked] = outcome.motor_impulse
            room = bounds.most - bounds.least
            slack = MET * np.where(room < np.inf, room, np.abs(impulse))
            beyond = (impulse < bounds.least - slack) | (impulse > bounds.most + slack)
            if not beyond.any():
                break
            if bounds is posed.bounds and self._let_go[0] >= MOST_LET_GO:
                bounds = self._unrated()
            else:
                known[beyond] = np.clip(impulse, *bounds)[beyond]
                if at_once:
                    behind(posed.w, posed.target, posed.cones.mu, posed.b, bounds, impulse, known, HEAP)
                at_once = False
            tracked = np.isnan(known)
            driven = _driven(request, tracked, known, bounds)
        if not tracked.all() and "tracking" not in outcome.dropped:
            outcome = replace(outcome, dropped=("tracking", *outcome.dropped))
        count_released(self._let_go, tracked.all(), bounds is posed.bounds and "tracking" not in outcome.dropped)
        tau = np.clip(np.clip(impulse, *bounds) / self._h, -limit, limit)
        clipped = bool((np.abs(tau) >= limit * (1.0 - MET)).any())
        if (np.abs(tau - self._tau) > self._h * self._machine.joints.room.torque_rate).any():
            outcome = replace(outcome, dropped=(*outcome.dropped, "rate"))
        return tau, outcome, clipped

    def _unrated(self) -> Bounds:
        """Bounds of the motor impulses without the limit on the rate of torques; each has shape (a,) [N m s]."""
        speed = self._system.joint_velocities(self._intake.inputs.v)
        least, most = np.empty(speed.size), np.empty(speed.size)
        torque_bounds(self._machine.joints, speed, least, most)
        return Bounds(self._h * least, self._h * most)


def _driven(request: Request, tracked: Booleans, impulse: Array, bounds: Bounds) -> Request:
    """The step with the joints `tracked` prescribed, and the motor impulses of the others known, shapes (a,)."""
    problem = request.problem
    assert problem.prescribed is not None
    index, b = problem.prescribed.index, problem.prescribed.velocity
    kappa = problem.kappa.copy()
    kappa[index[~tracked]] -= impulse[~tracked]
    problem = replace(problem, kappa=kappa, prescribed=Prescribed(index=index[tracked], velocity=b[tracked]))
    last, held, (least, most) = request.posed.last[tracked], request.posed.held[tracked], bounds
    within = Bounds(least[tracked], most[tracked])
    posed = request.posed._replace(w=whiten(problem), last=last, held=held, bounds=within)
    return replace(request, problem=problem, posed=posed)


def solve(scheme: Scheme, request: Request, arena: Arena = HEAP) -> Outcome:
    """A control step by its scheme; where that has no solution, by its model with all it can do; last, by servos.

    Arrays that nobody sees come from an arena, of which all is taken back.
    """
    if scheme.solve is not None:
        posed = request.posed._replace(active=warm_bits(request.warm, request.problem.contacts))
        f = np.zeros(posed.w.rho.shape[0])
        arena.used[0] = 0
        answer: Answer = scheme.solve(posed, f, arena)
        impulse = answer.impulse.copy()  # the arena has it
        if answer.ending == SOLVED:
            ending = Ending(Status.SOLVED, answer.residual, 0)
            solution = finish(request.problem, posed.w, f, ending, posed.active)
            solution = structs.replace(solution, multipliers=impulse)
            return Outcome(solution=solution, motor_impulse=impulse, sticking=answer.sticking, gap=answer.gap)
        if answer.ending == MOVED:
            return moved(request, f, impulse, answer.residual)
        if scheme.instead is not None:
            return _or_servo(scheme, request, scheme.instead(request))
    solution = scheme.model(request.problem, request.warm)
    outcome = (keep if solution.status is Status.FALLBACK else scheme.after)(request, solution)
    if drags(request.posed.w, request.posed.cones, outcome.solution.impulses.T.ravel(), HEAP):
        outcome = replace(outcome, dropped=(*outcome.dropped, "no-slip"))
    if scheme.instead is not None and outcome.solution.status is not Status.SOLVED:
        outcome = scheme.instead(request)
    return _or_servo(scheme, request, outcome)


def _or_servo(scheme: Scheme, request: Request, outcome: Outcome) -> Outcome:
    if outcome.solution.status is Status.FALLBACK:
        return servo(request, scheme.forward, outcome.dropped)
    return outcome


def _room(scheme: Scheme, settings: InverseSettings, system: System) -> ActuatorLimits:
    """The machine's limits with the torque rate that scheme and settings ask for."""
    rate = settings.rate_limit_nm_s if scheme.calms else None
    if rate == "robot":
        return system.limits
    rate = np.inf if rate is None else rate
    return system.limits._replace(torque_rate=np.full(system.n_actuated, float(rate)))


def _result(tau: Array, contacts: int) -> Result:
    """Room for the result of a step with that many contacts."""
    return Result(
        tau=tau,
        identity=np.zeros(contacts, dtype=np.int64),
        force=np.zeros((contacts, 3)),
        normal=np.zeros((contacts, 3)),
    )


def _first(result: Result) -> list[ContactForces]:
    """Views of the first n contacts of a result, for every n: to cut them out anew takes longer than to copy them."""
    return [
        ContactForces(identity=result.identity[:n], force=result.force[:n], normal=result.normal[:n])
        for n in range(result.identity.size + 1)
    ]
