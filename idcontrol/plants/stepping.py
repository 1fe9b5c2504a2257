"""Plants by velocity-level time stepping with any contact model (math.md, sections 3 and 5)."""

from __future__ import annotations

import contextlib
from typing import Final, TypeAlias

import numpy as np
from msgspec import structs

from idcontrol.contact.contacts import Contacts, Detector
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.stops import FIRST, Stops, reachable_stops
from idcontrol.controllers.gradient.result import Linearization
from idcontrol.dynamics.multibody import CompiledSystem
from idcontrol.dynamics.system import Actuators, System
from idcontrol.errors import InputError
from idcontrol.kernels.arena import reserve
from idcontrol.kernels.bound import Bound, bind, entry
from idcontrol.models.memory import as_warm_start, memory, store
from idcontrol.models.step import ContactModel, StepProblem, StepSolution
from idcontrol.plants.flight import fly, untouched
from idcontrol.plants.gradient import LAWS, Stepped, linearized
from idcontrol.plants.parts import (
    ROUNDING_N,
    averaged,
    brake,
    copied,
    pushed,
    require_positive,
    require_state,
    require_torques,
    substeps,
)
from idcontrol.plants.step import (
    FLIES,
    MARGIN,
    MOVED,
    STOPPED,
    Moving,
    PlantMachine,
    PlantResult,
    PlantStep,
    place_of,
    reach,
    substep,
)
from idcontrol.types import Array, ContactForces, Integers, State, Status

_Ended: TypeAlias = tuple[int, int, float, int, bool]
"""Number of contacts of a solved compiled step, then `idcontrol.plants.step.Stepped` without its first value."""


class Stepping:
    """A robot with contacts: ``M (v⁺ - v) = h (Pᵀτ - c) + Jᵀf``, then `System.advance`, or `flight.fly` in flight.

    With a compiled step, a substep of a robot on its feet is usually one call (`idcontrol.plants.step.substep`).

    Attributes:
        solved, repaired, fallback: Number of substeps with this outcome since the last `reset`.
        residual_max: Largest relative complementarity residual of these substeps.
    """

    def __init__(
        self,
        system: System,
        contacts: Detector,
        model: ContactModel,
        dt: float,
        step: PlantStep | None = None,
    ) -> None:
        """Set up a robot with a contact model.

        Args:
            system: The plant's own multibody terms.
            contacts: Detector of contacts on `system`.
            model: Contact model, used in forward mode.
            dt: Longest substep [s].
            step: The compiled step with the same model (`idcontrol.plants.step`); None if there is none.

        Raises:
            InputError: `dt` is not positive.
        """
        self._system, self._contacts, self._model = system, contacts, model
        self._stops = Stops(system)
        self._step: PlantStep | None = None
        self._moving: Moving | None = None
        self._dt, self._shape = require_positive("longest substep", dt), (system.n_actuated,)
        most = contacts.gap.size if isinstance(contacts, SphereContacts) else CONTACTS
        self._machine = PlantMachine(
            arena=reserve(),
            M=system.M,
            bias=system.bias,
            order=system.order,
            memory=memory(),
            result=_room(system.n_velocities, most),
        )
        self._bound = bind(self._machine)
        if step is not None:
            like = self._bound, self._dt, Contacts.none(system.n_velocities).bound, system.bias, system.effort_limit
            self._step = entry(step, *like)
            if isinstance(system, CompiledSystem) and type(contacts) is SphereContacts and contacts.system is system:
                self._moving = _moving(place_of(step, *like), self._bound, system, contacts, self._stops)
                self._whole = bind(self._moving)
                self._move = entry(substep, self._whole, self._dt)
        self._stand(State(t=0.0, q=np.zeros(system.model.nq), v=np.zeros(system.n_velocities)))
        self._forces: ContactForces | None = ContactForces.none()
        self._last: StepSolution | None = None
        self._ended: _Ended | None = None
        self.solved = self.repaired = self.fallback = 0
        self.residual_max = 0.0

    def reset(self, state: State) -> State:
        """Start from `state`.

        Raises:
            InputError: `state` cannot be a state of this robot.
        """
        self._stand(require_state(self._system, state))
        self._forces, self._last, self._ended = ContactForces.none(), None, None
        store(self._machine.memory, {})
        self.solved = self.repaired = self.fallback = 0
        self.residual_max = 0.0
        return copied(self._state)

    def push(self, velocity: Array) -> None:
        """Add `velocity`, world frame, shape (3,) [m/s], to the velocity of the floating base and all its links.

        Raises:
            InputError: `velocity` is not three finite numbers.
        """
        self._stand(pushed(self._state, velocity))

    def step(self, tau: Array, dt: float) -> State:
        """Hold joint torques `tau`, shape (a,) [N m], for `dt` [s], in equal substeps.

        Raises:
            InputError: `tau` has a wrong shape or is not finite, or `dt` is not positive or too long.
        """
        tau = np.ascontiguousarray(tau, dtype=np.float64)
        if 0.0 < dt <= self._dt:
            self._substep(tau, dt)
            return copied(self._state)
        count, parts = substeps(dt, self._dt), []
        for _ in range(count):
            self._substep(tau, dt / count)
            parts.append(self.contact_forces())
        self._forces = averaged(parts, count)
        return copied(self._state)

    def linearize(self, tau: Array, dt: float) -> tuple[State, Linearization]:
        """Take one step as `step` does, and return its derivative by state, torques and friction, too.

        Raises:
            InputError: As for `step`; or the step needs substeps, a joint is close to its stop, a base flies, or this
                contact model or detector has no derivatives. The state is then unchanged.
        """
        law, spheres = LAWS.get(self._model), self._contacts
        if law is None or not isinstance(spheres, SphereContacts) or spheres.walls.size:
            raise InputError("only coulomb-lcp, coulomb-cone and noslip, with spheres on the ground, have derivatives")
        if require_positive("time step", dt) > self._dt:
            raise InputError(f"a step of {dt} s needs substeps; take steps of at most {self._dt} s")
        system, before, tau = self._system, copied(self._state), np.array(tau, dtype=np.float64)
        require_torques(tau, system.actuated_names)
        if reachable_stops(self._stops.bound, before.q, before.v, dt):
            raise InputError("with a joint close to its stop a step has no derivative; take it with step")
        after, solution = self.step(tau, dt), self.last
        assert solution is not None
        contacts = spheres.first(len(solution.impulses))
        if len(system.flyer_q) and untouched(system, contacts, solution.impulses).size:
            self._stand(before)
            raise InputError("in flight a step has no derivative; take it with step")
        step = Stepped(dt, before, contacts, tau, solution.v_plus, solution.impulses.T.ravel(), law)
        return after, linearized(system, spheres, step)

    @property
    def last(self) -> StepSolution | None:
        """Solution of the last substep; None before the first."""
        if self._last is None and self._ended is not None:
            self._last = self._solution(self._ended)
        return self._last

    def warm(self, state: State) -> None:
        """Take substeps from `state` at several velocities to load all code, even the code for unsolved compiled steps.

        The last substeps diverge on purpose; all exceptions in them are ignored, as a user's model may raise any.
        """
        # without this, a plant on the wall clock would later pause to load code for longer than its loop waits
        rng = np.random.default_rng(0)
        for draw in range(DRAWS):
            v = state.v + FASTEST_M_S * draw / DRAWS * rng.standard_normal(state.v.size)
            moving = self.reset(structs.replace(state, v=v))
            self._system.update(moving.q, moving.v)
            self._solve(self._contacts.detect(MARGIN), np.zeros(self._system.n_actuated), self._dt)
        self.reset(state)
        with np.errstate(all="ignore"), contextlib.suppress(Exception):
            for draw in range(DRAWS):
                self.step(np.full(self._system.n_actuated, ENDLESS_NM * (-1.0) ** draw), self._dt)
        self.reset(state)

    def contact_forces(self) -> ContactForces:
        """Return forces of the last `step`, averaged over it; contacts without force are not listed."""
        if self._forces is None:
            self._forces = ContactForces.none() if self._ended is None else self._pressing(self._ended)
        return self._forces

    def _stand(self, state: State) -> None:
        """Set the initial state of the next substep."""
        self._state = state
        if self._moving is not None:
            self._moving.q[:], self._moving.v[:] = state.q, state.v

    def _substep(self, tau: Array, h: float) -> None:
        moving = self._moving
        if moving is None or tau.shape != self._shape:
            self._in_parts(tau, h, STOPPED, None)
            return
        moving.tau[:] = tau  # written in place, as passing an array allocates memory
        ending, n, iterations, residual, pressing, ordered = self._move(self._whole, h)
        ended = n, iterations, residual, pressing, ordered
        self._forces = self._last = None
        if ending == MOVED:
            self._ended = ended
            self._state = State(t=self._state.t + h, q=moving.q, v=moving.v)
            self.solved += 1
            if residual > self.residual_max:  # faster than `max`
                self.residual_max = residual
        else:
            self._ended = None
            self._in_parts(tau, h, ending, ended)

    def _in_parts(self, tau: Array, h: float, ending: int, ended: _Ended | None) -> None:
        """Take a substep, or the part of it that `substep` did not complete."""
        system, state = self._system, self._state
        if ended is None or ending == STOPPED:
            system.update(state.q, state.v)
            brake(system, state.v, h)
            feet = self._contacts.detect(MARGIN + reach(state.v, h))
            contacts = self._stops.beside(feet, state.q, state.v, h)
            solution, forces = self._solve_at_once(contacts, tau, h) or self._solve(contacts, tau, h)
            if contacts is not feet:
                forces = _of_bodies(forces)
        else:
            assert isinstance(self._contacts, SphereContacts)
            contacts = self._contacts.first(ended[0])
            if ending == FLIES:
                solution, forces = self._solution(ended), self._pressing(ended)
            else:
                solution, forces = self._solve(contacts, tau, h)
        self._last, self._forces = solution, forces
        self.residual_max = max(self.residual_max, solution.residual)
        self.solved += solution.status is Status.SOLVED
        self.repaired += solution.status is Status.REPAIRED
        self.fallback += solution.status is Status.FALLBACK
        q_next, v_next = self._advance(contacts, solution, h, stands=forces.identity.size > 0)
        self._stand(State(t=state.t + h, q=q_next, v=v_next))

    def _advance(self, contacts: Contacts, solution: StepSolution, h: float, *, stands: bool) -> tuple[Array, Array]:
        """Return configuration and velocity at the end of the substep; `stands` is True if a contact presses."""
        system, state = self._system, self._state
        flyers = len(system.flyer_q)
        if flyers > stands:  # one base may stand while other bases fly
            flying = untouched(system, contacts, solution.impulses)
            if flying.size:
                return fly(system, state.q, state.v, solution.v_plus, h, flying)
        return system.advance(state.q, solution.v_plus, h)

    def _solve_at_once(self, contacts: Contacts, tau: Array, h: float) -> tuple[StepSolution, ContactForces] | None:
        """Solve by the compiled step; return None if there is no compiled step or if it fails."""
        if self._step is None or tau.shape != self._shape:
            return None
        n = len(contacts)
        if n > self._machine.result.identity.size:
            self._machine = self._machine._replace(result=_room(self._system.n_velocities, 2 * n))
            self._bound = bind(self._machine)
            if self._moving is not None:
                self._moving = self._moving._replace(machine=self._bound)
                self._whole = bind(self._moving)
        solved, iterations, residual, pressing, ordered = self._step(self._bound, h, contacts.bound, self._state.v, tau)
        if not solved:
            return None
        ended = n, iterations, residual, pressing, ordered
        return self._solution(ended), self._pressing(ended)

    def _solution(self, ended: _Ended) -> StepSolution:
        """Return the solution of the last compiled step."""
        result, (n, iterations, residual, _, _) = self._machine.result, ended
        return StepSolution(
            v_plus=result.v_plus.copy(),
            impulses=result.impulses[:n].copy(),
            multipliers=_NO_MULTIPLIERS,
            status=Status.SOLVED,
            residual=residual,
            iterations=iterations,
        )

    def _pressing(self, ended: _Ended) -> ContactForces:
        """Return the forces of the last compiled step."""
        result, (_, _, _, pressing, ordered) = self._machine.result, ended
        forces = ContactForces(
            identity=result.identity[:pressing].copy(),
            force=result.force[:pressing].copy(),
            normal=result.normal[:pressing].copy(),
        )
        return forces if ordered else _in_order(forces.identity, forces.force, forces.normal)

    def _solve(self, contacts: Contacts, tau: Array, h: float) -> tuple[StepSolution, ContactForces]:
        """Solve by the model in Python, with restarts and regularization."""
        system = self._system
        # torques are checked only here: if a compiled step ends in finite velocities, they were finite
        require_torques(tau, system.actuated_names)
        applied = -system.bias
        applied[system.n_unactuated :] += tau
        kappa = -h * applied - system.M @ system.from_pinocchio(self._state.v)
        problem = StepProblem(h=h, M=system.M, kappa=kappa, contacts=contacts)
        if self._step is None:  # without a compiled step the last solution is the only memory
            solution = self._model(problem, None if self._last is None else self._last.warm)
        else:
            solution = self._model(problem, as_warm_start(self._machine.memory))
            store(self._machine.memory, solution.warm)
        # not only the normal impulse: drag, and friction without slip, may act at zero normal impulse
        pressing = np.flatnonzero(np.abs(solution.impulses).max(axis=1, initial=0.0) > ROUNDING_N * h)
        force = contacts.force_world(solution.impulses, h)
        return solution, _in_order(contacts.identity[pressing], force[pressing], contacts.axes[pressing, 0])


CONTACTS = 16
"""Initial number of contacts that the result has room for."""

ENDLESS_NM: Final = 1e200
"""Torque [N m] with which every robot diverges."""

DRAWS: Final = 20
"""Number of substeps in each of the two loops of `Stepping.warm`."""
FASTEST_M_S: Final = 3.0
"""Bound on the standard deviation of the velocities in `Stepping.warm` [m/s, rad/s].

Contacts close, slip and open at these velocities.
"""

_NO_MULTIPLIERS: Array = np.zeros(0)


def _moving(step: int, machine: Bound, system: CompiledSystem, contacts: SphereContacts, stops: Stops) -> Moving:
    """Return the argument of `substep`, with zeros as configuration."""
    none = np.zeros(0)
    return Moving(
        step=step,
        machine=machine,
        terms=system.work,
        spheres=contacts.bound,
        contacts=bind(Contacts.none(system.n_velocities).packed),
        stops=stops.bound,
        flyers=system.flyers,
        actuators=Actuators(none, none, none, none, none) if system.actuators is None else system.actuators,
        q=np.zeros(system.model.nq),
        v=np.zeros(system.n_velocities),
        q_next=np.zeros(system.model.nq),
        tau=np.zeros(system.n_actuated),
    )


def _room(m: int, contacts: int) -> PlantResult:
    """Allocate the result of a step for this number of contacts, and a robot with m velocities."""
    return PlantResult(
        v_plus=np.zeros(m),
        impulses=np.zeros((contacts, 3)),
        identity=np.zeros(contacts, dtype=np.int64),
        force=np.zeros((contacts, 3)),
        normal=np.zeros((contacts, 3)),
    )


def _of_bodies(forces: ContactForces) -> ContactForces:
    """Return the contact forces without the forces of joint stops."""
    own = forces.identity < FIRST
    return ContactForces(identity=forces.identity[own], force=forces.force[own], normal=forces.normal[own])


def _in_order(identity: Integers, force: Array, normal: Array) -> ContactForces:
    """Sort contact forces by identity."""
    if identity.size > 1 and (identity[1:] < identity[:-1]).any():
        order = np.argsort(identity)
        identity, force, normal = identity[order], force[order], normal[order]
    return ContactForces(identity=identity, force=force, normal=normal)
