"""Velocity-level time stepping with any contact model as plant (math.md, sections 3 and 5)."""

from __future__ import annotations

import numpy as np

from idcontrol.contact.contacts import Contacts, Detector
from idcontrol.contact.stops import FIRST, Stops
from idcontrol.kernels.arena import reserve
from idcontrol.kernels.bound import bind, entry
from idcontrol.models.memory import as_warm_start, memory, store
from idcontrol.models.step import ContactModel, StepProblem, StepSolution
from idcontrol.plants.flight import fly, untouched
from idcontrol.plants.parts import (
    ROUNDING_N,
    averaged,
    brake,
    pushed,
    require_positive,
    require_state,
    require_torques,
    substeps,
)
from idcontrol.plants.step import PlantMachine, PlantResult, PlantStep, reach
from idcontrol.system import System
from idcontrol.types import Array, ContactForces, Integers, State, Status

NEAR = 5e-3
"""Contacts are listed below this gap [m], or where they could close within two steps: enough that none is missed."""


class Stepping:
    """A machine on the ground: ``M (v⁺ - v) = h (Pᵀτ - c) + Jᵀf``, then `System.advance`, or `flight.fly` in the air.

    Attributes:
        last: Solution of the last substep.
        solved, repaired, fallback: How many substeps ended so.
        residual_max: Largest relative complementarity residual of all substeps.
    """

    def __init__(
        self,
        system: System,
        contacts: Detector,
        model: ContactModel,
        dt: float,
        step: PlantStep | None = None,
    ) -> None:
        """Bind a contact model to a machine.

        Args:
            system: The plant's own multibody terms.
            contacts: Detector of contacts on `system`.
            model: Contact model, used forward.
            dt: Longest substep [s].
            step: The compiled step with the same model (`idcontrol.plants.step`); None where there is none.

        Raises:
            InputError: `dt` is not positive.
        """
        self._system, self._contacts, self._model = system, contacts, model
        self._stops = Stops(system)
        self._step: PlantStep | None = None
        self._dt = require_positive("longest substep", dt)
        self._state = State(t=0.0, q=np.zeros(0), v=np.zeros(0))
        self._forces = ContactForces.none()
        self._machine = PlantMachine(
            arena=reserve(),
            M=system.M,
            bias=system.bias,
            order=system.order,
            memory=memory(),
            result=_room(system.n_velocities, CONTACTS),
        )
        self._bound = bind(self._machine)
        if step is not None:
            none = Contacts.none(system.n_velocities).bound
            self._step = entry(step, self._bound, self._dt, none, system.bias, system.effort_limit)
        self.last: StepSolution | None = None
        self.solved = self.repaired = self.fallback = 0
        self.residual_max = 0.0

    def reset(self, state: State) -> State:
        """Start from `state`.

        Raises:
            InputError: It cannot be a state of this machine.
        """
        self._state, self._forces, self.last = require_state(self._system, state), ContactForces.none(), None
        store(self._machine.memory, {})
        self.solved = self.repaired = self.fallback = 0
        self.residual_max = 0.0
        return self._state

    def push(self, velocity: Array) -> None:
        """See `idcontrol.plants.parts.pushed`."""
        self._state = pushed(self._state, velocity)

    def step(self, tau: Array, dt: float) -> State:
        """Hold joint torques `tau`, shape (a,) [N m], for `dt` [s], in equal substeps not longer than its own.

        Raises:
            InputError: A torque is not finite, or `dt` is not positive.
        """
        count = substeps(dt, self._dt)
        tau = np.ascontiguousarray(tau, dtype=np.float64)
        self._forces = averaged([self._substep(tau, dt / count) for _ in range(count)], count)
        return self._state

    def warm(self, state: State) -> None:
        """Solve a substep at `state` as where the compiled one gives up: the first such solution loads much code.

        A plant on the wall clock would stand still for that, far longer than its loop waits for news.
        """
        self.reset(state)
        self._system.update(state.q, state.v)
        self._solve(self._contacts.detect(NEAR), np.zeros(self._system.n_actuated), self._dt)

    def contact_forces(self) -> ContactForces:
        """Forces of the last `step`, averaged over it; contacts without any are not listed."""
        return self._forces

    def _substep(self, tau: Array, h: float) -> ContactForces:
        system, state = self._system, self._state
        system.update(state.q, state.v)
        brake(system, state.v, h)
        feet = self._contacts.detect(NEAR + reach(state.v, h))
        contacts = self._stops.beside(feet, state.q, state.v, h)
        solution, forces = self._solve_at_once(contacts, tau, h) or self._solve(contacts, tau, h)
        if contacts is not feet:
            forces = _of_bodies(forces)
        self.last = solution
        self.residual_max = max(self.residual_max, solution.residual)
        self.solved += solution.status is Status.SOLVED
        self.repaired += solution.status is Status.REPAIRED
        self.fallback += solution.status is Status.FALLBACK
        q_next, v_next = self._advance(contacts, solution, h, stands=forces.identity.size > 0)
        self._state = State(t=state.t + h, q=q_next, v=v_next)
        return forces

    def _advance(self, contacts: Contacts, solution: StepSolution, h: float, *, stands: bool) -> tuple[Array, Array]:
        """Configuration and velocity at the end of the substep; `stands` tells whether a contact presses."""
        system, state = self._system, self._state
        flyers = len(system.flyer_q)
        if flyers > stands:  # of several, one may stand and the others fly
            flying = untouched(system, contacts, solution.impulses)
            if flying.size:
                return fly(system, state.q, state.v, solution.v_plus, h, flying)
        return system.advance(state.q, solution.v_plus, h)

    def _solve_at_once(self, contacts: Contacts, tau: Array, h: float) -> tuple[StepSolution, ContactForces] | None:
        """The compiled step; None where there is none, or where it has no solution."""
        if self._step is None or tau.shape != (self._system.n_actuated,):
            return None
        n = len(contacts)
        if n > self._machine.result.identity.size:
            self._machine = self._machine._replace(result=_room(self._system.n_velocities, 2 * n))
            self._bound = bind(self._machine)
        solved, iterations, residual, pressing, ordered = self._step(self._bound, h, contacts.bound, self._state.v, tau)
        if not solved:
            return None
        result = self._machine.result
        solution = StepSolution(
            v_plus=result.v_plus.copy(),
            impulses=result.impulses[:n].copy(),
            multipliers=_NO_MULTIPLIERS,
            status=Status.SOLVED,
            residual=residual,
            iterations=iterations,
        )
        forces = ContactForces(
            identity=result.identity[:pressing].copy(),
            force=result.force[:pressing].copy(),
            normal=result.normal[:pressing].copy(),
        )
        return solution, forces if ordered else _in_order(forces.identity, forces.force, forces.normal)

    def _solve(self, contacts: Contacts, tau: Array, h: float) -> tuple[StepSolution, ContactForces]:
        """The model in Python, with all that it can do."""
        system = self._system
        # not before: a compiled step that ends in finite velocities has had finite torques
        require_torques(tau, system.actuated_names)
        applied = -system.bias
        applied[system.n_unactuated :] += tau
        kappa = -h * applied - system.M @ system.from_pinocchio(self._state.v)
        problem = StepProblem(h=h, M=system.M, kappa=kappa, contacts=contacts)
        if self._step is None:  # the last solution is all the memory there is
            solution = self._model(problem, None if self.last is None else self.last.warm)
        else:
            solution = self._model(problem, as_warm_start(self._machine.memory))
            store(self._machine.memory, solution.warm)
        # not the normal impulse alone: drag, and what holds where nothing slips, need none
        pressing = np.flatnonzero(np.abs(solution.impulses).max(axis=1, initial=0.0) > ROUNDING_N * h)
        force = contacts.force_world(solution.impulses, h)
        return solution, _in_order(contacts.identity[pressing], force[pressing], contacts.axes[pressing, 0])


CONTACTS = 16
"""Contacts for whose forces there is room at first."""

_NO_MULTIPLIERS: Array = np.zeros(0)


def _room(m: int, contacts: int) -> PlantResult:
    """Room for the result of a step with that many contacts of a machine with m velocities."""
    return PlantResult(
        v_plus=np.zeros(m),
        impulses=np.zeros((contacts, 3)),
        identity=np.zeros(contacts, dtype=np.int64),
        force=np.zeros((contacts, 3)),
        normal=np.zeros((contacts, 3)),
    )


def _of_bodies(forces: ContactForces) -> ContactForces:
    """The forces of contacts, without those of joints on their stops."""
    own = forces.identity < FIRST
    return ContactForces(identity=forces.identity[own], force=forces.force[own], normal=forces.normal[own])


def _in_order(identity: Integers, force: Array, normal: Array) -> ContactForces:
    """Contact forces in the order of their identities."""
    if identity.size > 1 and (identity[1:] < identity[:-1]).any():
        order = np.argsort(identity)
        identity, force, normal = identity[order], force[order], normal[order]
    return ContactForces(identity=identity, force=force, normal=normal)
