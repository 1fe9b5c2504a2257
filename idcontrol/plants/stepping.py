"""Velocity-level time stepping with any contact model as plant (math.md 3 forward, 5; 003 section 3)."""

from __future__ import annotations

import numpy as np

from idcontrol.contact.contacts import Detector
from idcontrol.contact.spheres import SphereContacts
from idcontrol.models.problem import ContactModel, StepProblem, StepSolution, WarmStart
from idcontrol.plants.compiled import CompiledSubstep
from idcontrol.plants.parts import ROUNDING_N, averaged, pushed, require_positive, require_torques, substeps
from idcontrol.system import System
from idcontrol.types import Array, ContactForces, State, Status

NEAR = 5e-3
"""Contacts are listed below this gap [m], or where they could close within two steps: enough that none is missed."""


class Stepping:
    """A machine on the ground: ``M (v⁺ - v) = h (Pᵀτ - c) + Jᵀf``, then `System.advance`.

    Attributes:
        last: Solution of the last substep.
        solved, repaired, fallback: How many substeps ended so.
        residual_max: Largest relative complementarity residual of all substeps.
    """

    def __init__(
        self, system: System, contacts: Detector, model: ContactModel, dt: float, compiled: int | None = None
    ) -> None:
        """Bind a contact model to a machine.

        Args:
            system: The plant's own multibody terms.
            contacts: Detector of contacts on `system`.
            model: Contact model, used forward.
            dt: Longest substep [s].
            compiled: Number of the same model in `idcontrol.models.compiled`; None where it has none.

        Raises:
            InputError: `dt` is not positive.
        """
        self._system, self._contacts, self._model = system, contacts, model
        self._dt = require_positive("longest substep", dt)
        self._plain = None
        if compiled is not None and type(contacts) is SphereContacts:
            self._plain = CompiledSubstep(compiled, system, contacts, NEAR)
        self._state = State(t=0.0, q=np.zeros(0), v=np.zeros(0))
        self._forces = ContactForces.none()
        self._warm: WarmStart = {}
        self.last: StepSolution | None = None
        self.solved = self.repaired = self.fallback = 0
        self.residual_max = 0.0

    def reset(self, state: State) -> State:
        """Start from `state`."""
        if self._plain is not None:
            self._plain.reset()
        self._state, self._warm, self._forces, self.last = state, {}, ContactForces.none(), None
        self.solved = self.repaired = self.fallback = 0
        self.residual_max = 0.0
        return state

    def push(self, velocity: Array) -> None:
        """See `idcontrol.plants.parts.pushed`."""
        self._state = pushed(self._state, velocity)

    def step(self, tau: Array, dt: float) -> State:
        """Hold joint torques `tau`, shape (a,) [N m], for `dt` [s], in equal substeps not longer than its own.

        Raises:
            InputError: A torque is not finite, or `dt` is not positive.
        """
        count = substeps(dt, self._dt)
        self._forces = averaged([self._substep(tau, dt / count) for _ in range(count)], count)
        return self._state

    def contact_forces(self) -> ContactForces:
        """Forces of the last `step`, averaged over it; contacts without any are not listed."""
        return self._forces

    def _substep(self, tau: Array, h: float) -> ContactForces:
        system, state = self._system, self._state
        system.update(state.q, state.v)
        plain = None
        if self._plain is not None and tau.shape == (system.n_actuated,):
            plain = self._plain(state.v, tau, h)
        solution, forces = self._solve(tau, h) if plain is None else plain
        self._warm, self.last = solution.warm, solution
        self.residual_max = max(self.residual_max, solution.residual)
        self.solved += solution.status is Status.SOLVED
        self.repaired += solution.status is Status.REPAIRED
        self.fallback += solution.status is Status.FALLBACK
        q_next, v_next = system.advance(state.q, solution.v_plus, h)
        self._state = State(t=state.t + h, q=q_next, v=v_next)
        return forces

    def _solve(self, tau: Array, h: float) -> tuple[StepSolution, ContactForces]:
        """The model's solution, and what it means for the contacts that press."""
        system = self._system
        # not before: a plain substep that ends in finite velocities has had finite torques
        require_torques(tau, system.actuated_names)
        v = system.from_pinocchio(self._state.v)
        applied = -system.bias
        applied[system.n_unactuated :] += tau
        reach = 2.0 * h * float(np.abs(v).sum())
        contacts = self._contacts.detect(NEAR + min(reach, 0.1))
        problem = StepProblem(h=h, M=system.M, kappa=-h * applied - system.M @ v, contacts=contacts)
        solution = self._model(problem, self._warm)
        # not the normal impulse alone: drag, and what holds where nothing slips, need none
        pressing = np.flatnonzero(np.abs(solution.impulses).max(axis=1, initial=0.0) > ROUNDING_N * h)
        pressing = pressing[np.argsort(contacts.identity[pressing])]
        return solution, ContactForces(
            identity=contacts.identity[pressing],
            force=contacts.force_world(solution.impulses, h)[pressing],
            normal=contacts.axes[pressing, 0],
        )
