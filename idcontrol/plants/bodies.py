"""Time stepping of many free bodies with any contact model: ``M (v⁺ - v*) = Jᵀf``, then ``q⁺ = q ⊕ h v⁺``.

Inertia and contact rows stay in blocks (`idcontrol.models.sparse`), so the cost of a step grows with the number of
contacts. `dense` adapts models that need dense matrices, for few bodies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from idcontrol.bodies import (
    Body,
    BodyState,
    Inertias,
    Obstacle,
    Surface,
    advance,
    first_beyond,
    free_velocities,
    inertia_blocks,
    reaches,
    rotations,
)
from idcontrol.contact.body_contacts import BodyContacts, BodyDetector
from idcontrol.contact.terrain import Terrain
from idcontrol.errors import InputError
from idcontrol.kernels.jit import njit
from idcontrol.models.sparse import SparseProblem, SparseSolution, dense_inertia
from idcontrol.models.step import ContactModel, StepProblem, WarmStart
from idcontrol.types import Array, Integers

NEAR = 1e-3
"""Gap below which contacts are listed [m], in addition to the distance that the bodies can move within the step."""

FASTEST = 3e8
"""Speed of light [m/s]. A faster body means a wrong force, mass or step size."""

BodyModel: TypeAlias = Callable[[SparseProblem, BodyContacts], SparseSolution]
"""A contact model for many bodies; its second argument has geometry and identities of the problem's contacts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyForces:
    """Contact forces of one step.

    Attributes:
        identity: Identity of the contact, shape (n,).
        body: Indices of bodies A and B, shape (n, 2); -1 where B does not move.
        point: Contact point, world frame, shape (n, 3) [m].
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
        contacts: Contacts of the last step; None before the first.
        problem: Problem of the last step; None before the first.
        last: Solution of that problem; None before the first step.
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
        """Bind a contact model to bodies.

        Args:
            bodies: The bodies.
            model: Contact model; `dense` makes one from a model of dense problems.
            obstacles: Shapes that do not move.
            terrain: Shape of the ground; None if there is no ground.
            ground: Surface of the ground; None is rigid, with the friction of whatever touches it.
            gravity: Gravity, world frame [m/s²].

        Raises:
            InputError: A body or an obstacle cannot be used, or gravity is not finite.
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
        self.reset(BodyState.at_rest(np.zeros((n, 3))))

    def reset(self, state: BodyState) -> BodyState:
        """Start from `state`.

        Raises:
            InputError: The state has the wrong number of bodies, or something in it is not finite.
        """
        n = len(self.inertias.mass)
        if state.position.shape != (n, 3) or state.orientation.shape != (n, 4) or state.velocity.shape != (n, 6):
            raise InputError(
                f"a state of {n} bodies needs positions ({n}, 3), quaternions ({n}, 4), velocities ({n}, 6)"
            )
        for what in ("position", "orientation", "velocity"):
            bad = np.flatnonzero(~np.isfinite(getattr(state, what)).all(axis=1))
            if bad.size:
                raise InputError(f"the {what} of body {bad[0]} is not finite; mend the state before the run")
        if n and not (np.linalg.norm(state.orientation, axis=1) > 0.0).all():
            raise InputError("a quaternion is zero; (0, 0, 0, 1) is no rotation")
        self.state = state
        self._detector.reset()
        self.contacts: BodyContacts | None = None
        self.problem: SparseProblem | None = None
        self.last: SparseSolution | None = None
        return state

    def step(self, h: float, wrench: Array | None = None) -> BodyState:
        """Take one step.

        Args:
            h: Length of the step [s].
            wrench: Force and torque on each body about its centre of mass, world axes, shape (n, 6) [N, N m].

        Raises:
            InputError: The step is not positive, or a force is not finite or makes a body faster than `FASTEST`.
        """
        if not 0.0 < h < np.inf:
            raise InputError(f"a step must be positive and finite, not {h} s")
        applied = self._still if wrench is None else np.ascontiguousarray(wrench, dtype=np.float64)
        if applied.shape != self._still.shape or not np.isfinite(applied).all():
            raise InputError(f"forces on bodies must be finite, shape {self._still.shape}")
        state, inertias = self.state, self.inertias
        rotation = rotations(state.orientation)
        v_star = free_velocities(inertias, state, rotation, applied, self._gravity, h)
        self._refuse_impossible(v_star, h)
        before = None if self.contacts is None or self.last is None else (self.contacts.identity, self.last.impulses)
        # A body moves the reach by its own velocity only: one that a faster body hits may be listed a step late.
        reach = reaches(v_star, self._detector.radius, h, 0.5 * NEAR)
        self.contacts = contacts = self._detector.detect(state.position, rotation, reach)
        self.problem = problem = SparseProblem(
            h=h,
            size=self._size,
            M=inertia_blocks(inertias, rotation),
            v=state.velocity,
            v_star=v_star,
            tree=contacts.body,
            rows=contacts.rows,
            gap=contacts.gap,
            mu=contacts.mu,
            stiffness=contacts.stiffness,
            damping=contacts.damping,
            surface_velocity=np.zeros((len(contacts), 3)),
            impulses=before if before is None else _carried(*before, contacts.identity),
        )
        self.last = solution = self._model(problem, contacts)
        self._refuse_impossible(solution.v_plus, h)
        self.state = advance(inertias, state, rotation, solution.v_plus, h)
        return self.state

    def _refuse_impossible(self, velocity: Array, h: float) -> None:
        """Raise `InputError` for the first body that moves faster than `FASTEST`."""
        i = first_beyond(velocity, FASTEST)
        if i >= 0:
            raise InputError(
                f"body {self._names[i]!r} would move at {np.abs(velocity[i]).max():.1e} m/s or rad/s in the step of "
                f"{h:g} s after t = {self.state.t:g} s; check forces, masses and the step"
            )

    def contact_forces(self) -> BodyForces:
        """Contact forces of the last step; empty before the first."""
        if self.contacts is None or self.problem is None or self.last is None:
            nothing = np.zeros((0, 3))
            none: Integers = np.zeros(0, dtype=np.int64)
            return BodyForces(identity=none, body=none.reshape(0, 2), point=nothing, normal=nothing, force=nothing)
        c = self.contacts
        force: Array = (self.last.impulses[:, None, :] @ c.axes)[:, 0] / self.problem.h
        return BodyForces(identity=c.identity, body=c.body, point=c.point, normal=c.axes[:, 0], force=force)


@njit(cache=True)
def _carried(before: Integers, impulses: Array, now: Integers) -> Array:
    """Impulses (k, 3) of contacts `before` (k,) for those that are there `now` (n,), zero for new ones; (n, 3)."""
    order, sorted_ = np.argsort(before), np.sort(before)
    out = np.zeros((now.shape[0], 3))
    for i in range(now.shape[0]):
        at = np.searchsorted(sorted_, now[i])
        if at < before.shape[0] and sorted_[at] == now[i]:
            out[i] = impulses[order[at]]
    return out


def dense(model: ContactModel) -> BodyModel:
    """Adapt a model of dense problems to bodies, warm-started from its own last solution.

    The cost grows at least with the cube of the number of bodies.
    """
    warm: WarmStart = {}

    def solve(problem: SparseProblem, contacts: BodyContacts) -> SparseSolution:
        nonlocal warm
        t, d = problem.v.shape
        M = dense_inertia(problem)
        listed = contacts.dense(t)
        found = model(StepProblem(h=problem.h, M=M, kappa=-M @ problem.v_star.ravel(), contacts=listed), warm)
        warm = found.warm
        velocity = (listed.jacobian @ found.v_plus).reshape(3, -1).T
        return SparseSolution(
            v_plus=found.v_plus.reshape(t, d),
            impulses=found.impulses,
            contact_velocity=np.ascontiguousarray(velocity),
            status=found.status,
            residual=found.residual,
            iterations=found.iterations,
            islands=1,
        )

    return solve
