"""Time stepping of many free bodies with any contact model: ``M (v⁺ - v*) = Jᵀf``, then ``q⁺ = q ⊕ h v⁺``.

Here v* is the velocity after a step without contact, and f are the contact impulses. Inertia and contact rows are
stored in blocks (`idcontrol.models.sparse`), so the cost of a step is proportional to the number of contacts. For a few
bodies, `dense` adapts models that need dense matrices. With `sap.Sparse`, and shapes whose distances have closed forms,
a step is one compiled call (`idcontrol.plants.body_step`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from idcontrol.contact.body_contacts import BodyContacts, BodyDetector
from idcontrol.contact.terrain import Terrain
from idcontrol.dynamics.bodies import (
    Body,
    BodyState,
    Inertias,
    Obstacle,
    Surface,
    advance,
    first_beyond,
    free_velocities,
    inertia_blocks,
    rotations,
)
from idcontrol.errors import InputError
from idcontrol.kernels.bound import Bound, bind, entry
from idcontrol.models import sap
from idcontrol.models.sap.many import SCRATCH, as_solution
from idcontrol.models.sparse import SparseProblem, SparseSolution, dense_inertia
from idcontrol.models.step import ContactModel, StepProblem, WarmStart
from idcontrol.plants.body_step import (
    FASTEST,
    Ended,
    StepResult,
    World,
    carried,
    nothing,
    reaches_in,
    step_with_sap,
    values,
)
from idcontrol.types import Array, Integers

_Seen: TypeAlias = tuple[BodyContacts, SparseProblem, SparseSolution]

BodyModel: TypeAlias = Callable[[SparseProblem, BodyContacts], SparseSolution]
"""A contact model for many bodies; the second argument has geometry and identities of the problem's contacts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyForces:
    """Contact forces of one step.

    Attributes:
        identity: Identities of the contacts, shape (n,).
        body: Indices of bodies A and B, shape (n, 2); -1 if B does not move.
        point: Contact points, world frame, shape (n, 3) [m].
        normal: Unit normal, pointing to body A, world axes, shape (n, 3).
        force: Force on body A, world axes, shape (n, 3) [N].
    """

    identity: Integers
    body: Integers
    point: Array
    normal: Array
    force: Array


class FreeBodies:
    """Rigid bodies among obstacles, under gravity.

    Attributes:
        inertias: Masses and inertias of the bodies.
        state: State of the bodies.
    """

    def __init__(
        self,
        bodies: Sequence[Body],
        model: BodyModel,
        *,
        obstacles: Sequence[Obstacle] = (),
        terrain: Terrain | None = None,
        ground: Surface | None = None,
        gravity: tuple[float, float, float] = (0.0, 0.0, -9.81),
    ) -> None:
        """Set up bodies with a contact model.

        Args:
            bodies: The bodies.
            model: Contact model; `dense` adapts a model of dense problems.
            obstacles: Shapes that do not move.
            terrain: Shape of the ground; None for no ground.
            ground: Surface of the ground; None for a rigid surface with the friction of the body that touches it.
            gravity: Gravity, world frame [m/s²].

        Raises:
            InputError: A body or an obstacle is unusable, or gravity is not finite.
        """
        self.inertias = Inertias.of(bodies)
        self._names = tuple(body.name for body in bodies)
        self._detector = BodyDetector(bodies, obstacles, terrain=terrain, ground=ground)
        self._model = model
        self._gravity: Array = np.array(gravity, dtype=np.float64)
        if not np.isfinite(self._gravity).all():
            raise InputError(f"gravity must be finite, not {gravity}")
        n = len(bodies)
        self._size: Integers = np.full(n, 6, dtype=np.int64)
        self._still: Array = np.zeros((n, 6))
        state = self.reset(BodyState.at_rest(np.zeros((n, 3))))
        self._whole: Callable[..., Any] | None = None
        if isinstance(model, sap.Sparse) and not self._detector.detection.needs_coal:
            world = World(
                inertias=self.inertias,
                gravity=self._gravity,
                radius=self._detector.radius,
                scene=self._detector.scene,
                size=self._size,
                parameters=model.parameters,
                arena=SCRATCH,
            )
            self._world = bind(world)
            self._whole = entry(step_with_sap, self._world, self._result, state, self._still, 1.0)

    def reset(self, state: BodyState) -> BodyState:
        """Start from `state`.

        Raises:
            InputError: The number of bodies is wrong, a value is not finite, or a quaternion is zero.
        """
        n = len(self.inertias.mass)
        if state.position.shape != (n, 3) or state.orientation.shape != (n, 4) or state.velocity.shape != (n, 6):
            raise InputError(
                f"a state of {n} bodies needs positions ({n}, 3), quaternions ({n}, 4), velocities ({n}, 6)"
            )
        for what in ("position", "orientation", "velocity"):
            bad = np.flatnonzero(~np.isfinite(getattr(state, what)).all(axis=1))
            if bad.size:
                raise InputError(f"the {what} of body {bad[0]} is not finite; give finite numbers")
        if n and not (np.linalg.norm(state.orientation, axis=1) > 0.0).all():
            raise InputError("a quaternion is zero; for the world's axes give (0, 0, 0, 1)")
        position, orientation, velocity = (
            np.require(each, np.float64, ("C", "W")) for each in (state.position, state.orientation, state.velocity)
        )
        self.state = BodyState(float(state.t), position, orientation, velocity)
        self._detector.reset()
        self._result: Bound = nothing()
        self._seen: _Seen | None = None
        self._ended: tuple[float, Ended] | None = None
        return self.state

    def step(self, h: float, wrench: Array | None = None) -> BodyState:
        """Take one step; return the state at its end.

        Args:
            h: Length of the step [s].
            wrench: Force and torque on each body about its centre of mass, world axes, shape (n, 6) [N, N m]; None for
                zeros.

        Raises:
            InputError: `h` is not positive and finite, `wrench` has a wrong shape or is not finite, or a body would be
                faster than `FASTEST`.
        """
        if not 0.0 < h < np.inf:
            raise InputError(f"a step must be positive and finite, not {h} s")
        applied = self._still
        if wrench is not None:
            applied = np.ascontiguousarray(wrench, dtype=np.float64)
            if applied.shape != self._still.shape or not np.isfinite(applied).all():
                raise InputError(f"forces on bodies must be finite, shape {self._still.shape}")
        if self._whole is not None:
            state, result, good, ended = self._whole(self._world, self._result, self.state, applied, h)
            if good:
                self._result, self._ended, self._seen = result, (h, ended), None
                self.state = state
                return self.state
        return self._step_by_parts(h, applied)

    def _step_by_parts(self, h: float, applied: Array) -> BodyState:
        """Take one step with any model and shapes; raise `InputError` if a body gets too fast."""
        state, inertias = self.state, self.inertias
        rotation = rotations(state.orientation)
        v_star = free_velocities(inertias, state, rotation, applied, self._gravity, h)
        self._refuse_impossible(v_star, h)
        before = self._look()
        contacts = self._detector.detect(state.position, rotation, reaches_in(h, v_star, self._detector.radius))
        impulses = None if before is None else carried(before[0].identity, before[2].impulses, contacts.identity)
        problem = self._assemble(h, inertia_blocks(inertias, rotation), state.velocity, v_star, contacts, impulses)
        solution = self._model(problem, contacts)
        self._seen = contacts, problem, solution
        self._refuse_impossible(solution.v_plus, h)
        self.state = advance(inertias, state, rotation, solution.v_plus, h)
        return self.state

    def _refuse_impossible(self, velocity: Array, h: float) -> None:
        """Raise `InputError` for the first body beyond `FASTEST`."""
        i = first_beyond(velocity, FASTEST)
        if i >= 0:
            raise InputError(
                f"body {self._names[i]!r} would move at {np.abs(velocity[i]).max():.1e} m/s or rad/s in the step of "
                f"{h:g} s after t = {self.state.t:g} s; check forces, masses and the step"
            )

    @property
    def contacts(self) -> BodyContacts | None:
        """Contacts of the last step; None before the first."""
        seen = self._look()
        return None if seen is None else seen[0]

    @property
    def problem(self) -> SparseProblem | None:
        """Problem of the last step; None before the first."""
        seen = self._look()
        return None if seen is None else seen[1]

    @property
    def last(self) -> SparseSolution | None:
        """Solution of the last step; None before the first."""
        seen = self._look()
        return None if seen is None else seen[2]

    def _look(self) -> _Seen | None:
        """Return contacts, problem and solution of the last step, created on demand; None before the first."""
        if self._seen is None and self._ended is not None:
            h, ended = self._ended
            result: StepResult = values(self._result)
            contacts = BodyContacts(**result.contacts._asdict())
            problem = self._assemble(h, result.M, result.v, result.v_star, contacts, result.carried)
            self._seen = contacts, problem, as_solution(result.result, ended)
        return self._seen

    def _assemble(
        self, h: float, M: Array, v: Array, v_star: Array, contacts: BodyContacts, impulses: Array | None
    ) -> SparseProblem:
        """Return the problem of a step, with the impulses of the last step; see `SparseProblem`."""
        return SparseProblem(
            h=h,
            size=self._size,
            M=M,
            v=v,
            v_star=v_star,
            tree=contacts.body,
            rows=contacts.rows,
            gap=contacts.gap,
            mu=contacts.mu,
            stiffness=contacts.stiffness,
            damping=contacts.damping,
            surface_velocity=np.zeros((len(contacts), 3)),
            impulses=impulses,
        )

    def contact_forces(self) -> BodyForces:
        """Return the contact forces of the last step; empty before the first."""
        seen = self._look()
        if seen is None:
            nothing = np.zeros((0, 3))
            none: Integers = np.zeros(0, dtype=np.int64)
            return BodyForces(identity=none, body=none.reshape(0, 2), point=nothing, normal=nothing, force=nothing)
        c, problem, solution = seen
        force: Array = (solution.impulses[:, None, :] @ c.axes)[:, 0] / problem.h
        return BodyForces(identity=c.identity, body=c.body, point=c.point, normal=c.axes[:, 0], force=force)


def dense(model: ContactModel) -> BodyModel:
    """Adapt a model of dense problems to bodies, with a warm start from the last solution.

    The cost grows at least with the cube of the number of bodies.
    """
    warm: WarmStart = {}

    def solve(problem: SparseProblem, contacts: BodyContacts) -> SparseSolution:
        nonlocal warm
        t, d = problem.v.shape
        M = dense_inertia(problem)
        listed = contacts.dense(t)
        solution = model(StepProblem(h=problem.h, M=M, kappa=-M @ problem.v_star.ravel(), contacts=listed), warm)
        warm = solution.warm
        velocity = (listed.jacobian @ solution.v_plus).reshape(3, -1).T
        return SparseSolution(
            v_plus=solution.v_plus.reshape(t, d),
            impulses=solution.impulses,
            contact_velocity=np.ascontiguousarray(velocity),
            status=solution.status,
            residual=solution.residual,
            iterations=solution.iterations,
            islands=1,
        )

    return solve
