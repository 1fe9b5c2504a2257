"""Velocity-level time stepping with any contact model as plant (math.md 3 forward, 5; 003 section 3)."""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from idcontrol.contact.spheres import SphereContacts
from idcontrol.models.problem import ContactModel, StepProblem, StepSolution, WarmStart
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

    def __init__(self, system: System, contacts: SphereContacts, model: ContactModel, dt: float) -> None:
        """Bind a contact model to a machine.

        Args:
            system: The plant's own multibody terms.
            contacts: Detector of contacts on `system`.
            model: Contact model, used forward.
            dt: Longest substep [s].
        """
        self._system, self._contacts, self._model, self._dt = system, contacts, model, dt
        self._state = State(t=0.0, q=np.zeros(0), v=np.zeros(0))
        self._forces = ContactForces.none()
        self._warm: WarmStart = {}
        self.last: StepSolution | None = None
        self.solved = self.repaired = self.fallback = 0
        self.residual_max = 0.0

    def reset(self, state: State) -> State:
        """Start from `state`."""
        self._state, self._warm, self._forces, self.last = state, {}, ContactForces.none(), None
        self.solved = self.repaired = self.fallback = 0
        self.residual_max = 0.0
        return state

    def push(self, velocity: Array) -> None:
        """Give the floating base (the first six velocities) `velocity` more, world frame, shape (3,) [m/s].

        Every link that hangs on it gets the same, so the whole machine receives the impulse mass times `velocity`.
        """
        state = self._state
        v = state.v.copy()
        x, y, z, w = state.q[3:7]
        to_world = pin.Quaternion(w, x, y, z).matrix()
        v[:3] += to_world.T @ velocity
        self._state = State(t=state.t, q=state.q, v=v)

    def step(self, tau: Array, dt: float) -> State:
        """Hold joint torques `tau`, shape (a,) [N m], for `dt` [s], in equal substeps not longer than its own."""
        substeps = max(1, int(np.ceil(dt / self._dt - 1e-9)))
        h = dt / substeps
        forces: dict[int, Array] = {}
        normals: dict[int, Array] = {}
        for _ in range(substeps):
            self._substep(tau, h, forces, normals)
        keys = sorted(forces)
        self._forces = ContactForces(
            identity=np.array(keys, dtype=np.int64),
            force=np.array([forces[k] / substeps for k in keys]).reshape(-1, 3),
            normal=np.array([normals[k] for k in keys]).reshape(-1, 3),
        )
        return self._state

    def contact_forces(self) -> ContactForces:
        """Forces of the last `step`, averaged over it; only contacts that pressed are listed."""
        return self._forces

    def _substep(self, tau: Array, h: float, forces: dict[int, Array], normals: dict[int, Array]) -> None:
        system, state = self._system, self._state
        system.update(state.q, state.v)
        v = system.ours(state.v)
        applied = -system.bias
        applied[system.n_unactuated :] += tau
        reach = 2.0 * h * float(np.abs(v).sum())
        contacts = self._contacts.detect(NEAR + min(reach, 0.1))
        problem = StepProblem(h=h, M=system.M, kappa=-h * applied - system.M @ v, contacts=contacts)
        solution = self._model(problem, self._warm)
        self._warm, self.last = solution.warm, solution
        self.residual_max = max(self.residual_max, solution.residual)
        self.solved += solution.status is Status.SOLVED
        self.repaired += solution.status is Status.REPAIRED
        self.fallback += solution.status is Status.FALLBACK
        world = contacts.force_world(solution.impulses, h)
        for identity, normal, force, impulse in zip(
            contacts.identity.tolist(), contacts.axes[:, 0], world, solution.impulses[:, 0], strict=True
        ):
            if impulse > 0.0:
                forces[identity] = forces.get(identity, 0.0) + force
                normals[identity] = normal.copy()
        q_next, v_next = system.advance(state.q, solution.v_plus, h)
        self._state = State(t=state.t + h, q=q_next, v=v_next)
