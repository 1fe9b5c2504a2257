"""Inverse dynamics with predicted contact forces: ID(t_i) of the paper (003 sections 4-6), over any contact model.

One control step (math.md 7, 12; planner.md 6, 7):

1. desired joint velocity ``b = v + h (a_des + kp (q_des - q) + kd (v_des - v))``
2. contacts: feet that are planned to stand and are close to the ground, their rows measured against a velocity that
   decays within milliseconds, so that landing asks for no impulse
3. b projected onto the velocities that these contacts allow
4. the contact model with the joints prescribed: the multipliers of the prescribed velocities are the motor impulses
5. among the contact impulses that give this motion, those with the smallest torque
6. torque limits: a joint beyond its limit gets its limit as a known torque, and 4-5 are solved again, until none is

What is given up when a step cannot be solved, in this order: tracking (joints at their limits are let go, the joints
give way to what contacts allow, or all motors become stiff velocity servos, which always has a solution), then, in
schemes without slip, that nothing slips, then prediction (the last torque is repeated). Torque limits and friction
cones never are. `Command.dropped` says which.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from msgspec import structs

from idcontrol.contact.contacts import Contacts, Detector
from idcontrol.contact.landing import Landing, landing_contacts
from idcontrol.contact.spheres import SphereContacts
from idcontrol.controllers.compiled import CompiledStep, finite, ramp_weights, standing
from idcontrol.controllers.feedback import Gains, proportional_derivative
from idcontrol.controllers.projection import project
from idcontrol.controllers.schemes import Objective, Outcome, Scheme, Step, as_specified, ramp
from idcontrol.errors import InputError
from idcontrol.kernels.arena import HEAP
from idcontrol.models.problem import Bilateral, Prescribed, StepProblem, WarmStart
from idcontrol.system import System
from idcontrol.types import Array, Command, ContactForces, Reference, State, Status

SERVO_COMPLIANCE = 1e-4
"""ε of soft tracking (math.md 12.3): joints follow to 1e-4 of the demand where the demand can be met."""

ROUNDING = 1e-9
"""A torque that exceeds its limit by less than this part of it meets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What may be set of an inverse-dynamics controller.

    Attributes:
        contact_margin_m: A foot planned to stand counts as a contact below this gap.
        landing_s: How long after its planned touchdown a foot may still be landing. While it lands, and nears the
            ground or slides faster than the next two, it is no contact: its impact, which no torque can or should
            prevent, is left to happen, and the foot counts from the next period on. Asked to stop within one period
            it would take the whole machine with it.
        approach_speed_m_s: See `landing_s`.
        slide_speed_m_s: See `landing_s`.
        landing: How contacts take over from the velocity that a foot has left.
        project: Whether the desired velocity is projected onto what the contacts allow, where the scheme does (math.md
            12.1).
        edge_speed_m_s: v_tol of stage II: friction edges that move faster carry no force (math.md 7.4).
        ramp_s: Over which time contact forces are ramped in after touchdown and out before lift-off; 0 turns it off
            (planner.md 7). The foot's impulse gets a weight that rises with the cube of the time into the ramp; the
            motion stays what it is, so a foot that cannot be spared keeps its force. Schemes with a second stage weigh
            it against the torque there; after the others impulses are shared anew while a foot ramps, with the torque
            nearest to the scheme's own. id-coulomb-qp-raw has no ramp: it shows what stage I does alone. In a trot of
            links 0.025 s takes a third off the largest jump of a foot's force and a quarter off the root mean square of
            Δτ/Δt; the mean of |Δτ/Δt| rises by a tenth, since a ramp is a change, too.
        repair: Whether schemes without slip stay within friction cones and torque limits: joints give way then, or
            contacts slip (math.md 12.2). Off, they believe in unbounded friction, as the original did.
        objective: Of stage I of maximal dissipation: consistent with the contact model, or as 003 prints it
            (math.md 7.2).
        solver: Who solves the contact problem: the fast solvers, or a general library as the executable specification
            (`idcontrol.models.specification`): tens of milliseconds a step, for the convex schemes, with the consistent
            objective.
    """

    contact_margin_m: float = 1e-3
    landing_s: float = 0.01
    approach_speed_m_s: float = 0.002
    slide_speed_m_s: float = 0.01
    landing: Landing = field(default_factory=Landing)
    project: bool = True
    edge_speed_m_s: float = 1e-3
    ramp_s: float = 0.025
    repair: bool = True
    objective: Objective = "consistent"
    solver: Literal["fast", "reference"] = "fast"

    def __post_init__(self) -> None:
        if self.solver == "reference" and self.objective != "consistent":
            raise InputError("inverse.solver=reference states the consistent objective only; drop inverse.objective")
        if not self.ramp_s >= 0.0:
            raise InputError(f"inverse.ramp_s is {self.ramp_s}; it must not be negative")


class InverseDynamics:
    """ID(t_i): inverse dynamics whose contact forces come from a contact model in the same solve."""

    def __init__(
        self,
        scheme: Scheme,
        system: System,
        contacts: Detector,
        gains: Gains,
        h: float,
        settings: Settings | None = None,
    ) -> None:
        """Bind the controller to a machine.

        Args:
            scheme: Contact model, and how motor impulses follow from it.
            system: The controller's own multibody terms.
            contacts: Detector of foot contacts on `system`; its friction is what the controller may count on.
            gains: In acceleration: kp [1/s²], kd [1/s].
            h: Control period [s].
            settings: See `Settings`.

        Raises:
            InputError: The reference solver is asked for where there is none (`as_specified`).
        """
        self._settings = settings or Settings()
        if self._settings.solver == "reference":
            scheme = as_specified(scheme)
        self._scheme = scheme
        self._system, self._contacts, self._gains, self._h = system, contacts, gains, h
        self._warm: WarmStart = {}
        self._last_tau = np.zeros(system.n_actuated)
        self._compiled: CompiledStep | None = None
        as_compiled = self._settings.objective == "consistent"
        if scheme.plain is not None and as_compiled and isinstance(contacts, SphereContacts):
            projects = scheme.projects and self._settings.project
            compiled = CompiledStep(scheme.plain, projects, system, contacts, gains, h, self._settings)
            self._compiled = compiled if compiled.fits else None

    def reset(self) -> None:
        """Forget the last step."""
        if self._compiled is not None:
            self._compiled.reset()
        self._warm = {}
        self._last_tau = np.zeros(self._system.n_actuated)

    def __call__(self, state: State, reference: Reference) -> Command:
        """Torques for the period that begins at `state.t`; see the module for the steps."""
        system, h = self._system, self._h
        system.update(state.q, state.v)
        if self._compiled is not None:
            command = self._compiled(state, reference, self._last_tau)
            if command is not None:
                self._last_tau, self._warm = command.tau, {}
                return command
        if not finite(state.q, state.v, reference.a):
            return Command(
                tau=np.zeros(system.n_actuated), status=Status.FAILED, dropped=("state or reference is not finite",)
            )
        v = system.from_pinocchio(state.v)
        q_joint, v_joint = system.joint_positions(state.q), v[system.n_unactuated :]
        b = v_joint + h * (reference.a + proportional_derivative(self._gains, reference, q_joint, v_joint))
        contacts = self._stance_contacts(v, reference)
        if self._scheme.projects and self._settings.project:
            b = project(system.M, contacts.jacobian, contacts.surface_velocity, b)
        tau, outcome, clipped = self._solve(v, b, contacts, self._reluctance(contacts, reference))
        solution, status, dropped = outcome.solution, outcome.solution.status, outcome.dropped
        impulses = solution.impulses
        if not np.isfinite(tau).all() or status is Status.FALLBACK:
            tau, status, dropped = self._last_tau, Status.FALLBACK, ("tracking", "prediction")
            impulses = np.zeros_like(impulses)
            self._warm = {}
        else:
            self._last_tau, self._warm = tau, solution.warm
        return Command(
            tau=tau,
            predicted=ContactForces(
                identity=contacts.identity.copy(),
                force=contacts.force_world(impulses, h),
                normal=contacts.axes[:, 0].copy(),
            ),
            status=Status.REPAIRED if clipped and status is Status.SOLVED else status,
            residual=solution.residual,
            clipped=clipped,
            dropped=dropped,
        )

    def _stance_contacts(self, v: Array, reference: Reference) -> Contacts:
        """Feet that are planned to stand and near the ground, with the velocity that they may still have."""
        s = self._settings
        near = self._contacts.detect(s.contact_margin_m)
        which = standing(
            len(near),
            near.identity,
            near.gap,
            near.jacobian,
            v,
            reference.stance,
            reference.since_touchdown,
            s.landing_s,
            s.approach_speed_m_s,
            s.slide_speed_m_s,
            HEAP,
        )
        planned = near if which.size == len(near) else near.take(which)
        since = reference.since_touchdown[planned.identity]
        return landing_contacts(planned, v, self._h, s.landing, since_touchdown=since)

    def _reluctance(self, contacts: Contacts, reference: Reference) -> Array | None:
        """Weight on the forces of feet that are about to lift or have just landed (planner.md 7)."""
        if self._settings.ramp_s == 0.0:
            return None
        weight: Array = ramp_weights(
            contacts.identity, reference.to_liftoff, reference.since_touchdown, self._settings.ramp_s, HEAP
        )
        return weight

    def _solve(self, v: Array, b: Array, contacts: Contacts, reluctance: Array | None) -> tuple[Array, Outcome, bool]:
        """The scheme within torque limits: torques, what was found, whether a limit was met."""
        system, h, u = self._system, self._h, self._system.n_unactuated
        limit, known = system.effort_limit, np.full(system.n_actuated, np.nan)
        kappa = h * system.bias - system.M @ v
        tracked = np.ones(system.n_actuated, dtype=np.bool_)
        while True:
            driven = kappa
            if not tracked.all():
                driven = kappa.copy()
                driven[u:][~tracked] -= h * known[~tracked]
            problem = StepProblem(
                h=h,
                M=system.M,
                kappa=driven,
                contacts=contacts,
                prescribed=Prescribed(index=u + np.flatnonzero(tracked), velocity=b[tracked]),
            )
            step = Step(
                warm=self._warm,
                reluctance=reluctance,
                edge_speed_m_s=self._settings.edge_speed_m_s,
                last=h * self._last_tau[tracked],
                limit=h * limit[tracked],
                repair=self._settings.repair,
                objective=self._settings.objective,
            )
            outcome = self._scheme.solve(problem, step)
            if outcome.solution.status is Status.FALLBACK:
                outcome = self._servo(problem, outcome.dropped)
            if self._scheme.ramp_follows:
                outcome = ramp(problem, step, outcome)
            tau = known.copy()
            tau[tracked] = outcome.motor_impulse / h
            # a joint that has its limit stays there, so this ends when the last one has
            beyond = np.abs(tau) > limit * (1.0 + ROUNDING)
            if not beyond.any():
                break
            known[beyond] = np.copysign(limit[beyond], tau[beyond])
            tracked = np.isnan(known)
        tau = np.clip(tau, -limit, limit)
        clipped = bool((np.abs(tau) == limit).any())
        if not tracked.all() and "tracking" not in outcome.dropped:
            outcome = replace(outcome, dropped=("tracking", *outcome.dropped))
        return tau, outcome, clipped

    def _servo(self, problem: StepProblem, dropped: tuple[str, ...]) -> Outcome:
        """Soft tracking (math.md 12.3): ``hτ = Σ⁻¹ (b - P v⁺)``, Σ = ε diag(M_qq)⁻¹; always solvable."""
        assert problem.prescribed is not None
        index = problem.prescribed.index
        rows = np.zeros((index.size, problem.M.shape[0]))
        rows[np.arange(index.size), index] = 1.0
        compliance = SERVO_COMPLIANCE / np.diag(problem.M)[index]
        servos = Bilateral(rows=rows, target=problem.prescribed.velocity, compliance=compliance)
        solution = self._scheme.model(replace(problem, prescribed=None, bilateral=servos), None)
        motor_impulse = (problem.prescribed.velocity - solution.v_plus[index]) / compliance
        if solution.status is Status.SOLVED:
            solution = structs.replace(solution, status=Status.REPAIRED, note="squeeze")
        return Outcome(solution=solution, motor_impulse=motor_impulse, dropped=("tracking", *dropped))
