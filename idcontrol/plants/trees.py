"""Time stepping of machines (trees of joints) and free bodies (trees of six velocities) together, with SAP.

Bodies and links consist of several convex parts. Parts of one tree do not touch each other. Joints are driven by
torques, and by springs and dampers that act like drives with fast inner loops. The springs and dampers are implicit in
the step, with ``A = M + h D + h² K`` (Castro, Permenter & Han 2022, eq. 11), so they are stable at any stiffness.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from idcontrol.contact.contacts import axes_of
from idcontrol.contact.detection import Detection
from idcontrol.contact.distance import candidate_pairs
from idcontrol.contact.manifold import Points
from idcontrol.dynamics.bodies import (
    BodyState,
    Inertias,
    advance,
    free_velocities,
    inertia_blocks,
    reaches,
    rotations,
)
from idcontrol.dynamics.system import System
from idcontrol.errors import InputError
from idcontrol.kernels.jit import njit
from idcontrol.models import sap
from idcontrol.models.sparse import WORLD, SparseProblem, SparseSolution
from idcontrol.types import Array, Booleans, Integers

MARGIN = 1e-3
"""Contacts are listed if their gap is below this plus the motion of the parts within the step [m].

Half of this applies to contacts with the world.
"""

HAND_SPEED = 0.5
"""Contacts of a link are listed in time if the link is not faster than this [m/s]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A convex part of a link, of a body, or of the world.

    Attributes:
        name: Name for messages and pictures.
        shape: coal geometry.
        tree: Index of the tree that carries the part: machines, then bodies, in the order of `Trees`; or `WORLD`.
        frame: Index of the frame that carries the part, if the tree is a machine.
        position: Origin of the part in the carrier's frame, shape (3,) [m].
        rotation: Axes of the part in the carrier's frame (columns), shape (3, 3).
        mu: Friction coefficient; a contact has the smaller coefficient of its two parts.
    """

    name: str
    shape: Any
    tree: int
    position: Array
    rotation: Array
    frame: int = 0
    mu: float = 0.5


class Mass(NamedTuple):
    """A rigid body whose frame is at its centre of mass.

    Attributes:
        name: Name.
        mass: Mass [kg].
        inertia: Inertia about the centre of mass, body axes, shape (3, 3) [kg m²].
    """

    name: str
    mass: float
    inertia: Array


class Drive(NamedTuple):
    """Drive of a machine's joints for one step, shapes (m,).

    Attributes:
        torque: Torques [N m].
        target: Rest positions of the springs [rad].
        speed: Target speeds of the dampers [rad/s].
        stiffness: Stiffness K of the springs [N m/rad].
        damping: Damping D of the dampers [N m s/rad].
    """

    torque: Array
    target: Array
    speed: Array
    stiffness: Array
    damping: Array


class TreesState(NamedTuple):
    """Positions and velocities of all machines and bodies.

    Attributes:
        t: Time [s].
        q: Joint positions of each machine, shape (m,) [rad].
        v: Joint velocities of each machine, shape (m,) [rad/s].
        bodies: State of the bodies.
    """

    t: float
    q: tuple[Array, ...]
    v: tuple[Array, ...]
    bodies: BodyState


def _carriers(machines: Sequence[System], parts: Sequence[Part]) -> tuple[Integers, Integers]:
    """Return the number of each part's carrier (0 is the world, then all machines' frames, then bodies), and its joint.

    The joint is 0 for parts of the world and of bodies.
    """
    k, first = len(machines), np.cumsum([1, *(len(machine.model.frames) for machine in machines)])
    carrier, joint = [], []
    for part in parts:
        t = part.tree
        carrier.append(0 if t < 0 else first[t] + part.frame if t < k else first[k] + t - k)
        joint.append(machines[t].frame_joint[part.frame] if 0 <= t < k else 0)
    return np.array(carrier, dtype=np.int64), np.array(joint, dtype=np.int64)


class Trees:
    """Machines and bodies under gravity, stepped in time with SAP.

    `reset` must be called first: it creates all attributes from `state` on.

    Attributes:
        machines: Machines fixed to the world.
        parts: Shapes of all machines, bodies and of the world.
        inertias: Inertias of the bodies.
        state: State of all machines and bodies.
        problem: Problem of the last step; None before the first.
        last: Solution of the last step; None before the first.
        force: Contact force on the first part of each contact in the last step, world axes, shape (n, 3) [N].
        touching: Indices in `parts` of the two parts of each contact in the last step, shape (n, 2).
        place: World origins [m] and axes (columns) of the g parts at the last `update`, shapes (g, 3) and (g, 3, 3).
    """

    def __init__(
        self,
        machines: Sequence[System],
        bodies: Sequence[Mass],
        parts: Sequence[Part],
        *,
        parameters: sap.Parameters,
        gravity: float = 9.81,
    ) -> None:
        """Prepare the scene.

        Args:
            machines: Machines fixed to the world, whose joints have one position and one velocity each.
            bodies: Free bodies.
            parts: Shapes of all machines, bodies and of the world.
            parameters: Parameters of SAP.
            gravity: Acceleration of gravity, along -z [m/s²].

        Raises:
            InputError: A machine floats, a joint has more than one position or velocity, or a part's tree does not
                exist.
        """
        if any(machine.n_unactuated or machine.model.nq != machine.model.nv for machine in machines):
            raise InputError(
                "machines among bodies must be fixed to the world, and each joint needs one position and one velocity; "
                "make continuous joints revolute"
            )
        self.machines, self.parts = tuple(machines), tuple(parts)
        k, n = len(machines), len(bodies)
        tree: Integers = np.array([part.tree for part in parts], dtype=np.int64)
        if tree.min() < WORLD or tree.max() >= k + n:
            raise InputError(f"the tree of a part must be from {WORLD} (the world) to {k + n - 1}")
        self.inertias = Inertias(
            mass=np.array([body.mass for body in bodies]),
            inertia=np.array([body.inertia for body in bodies]),
            inverse=np.linalg.inv(np.array([body.inertia for body in bodies])),
        )
        self._tree = tree
        self._mu: Array = np.array([part.mu for part in parts])
        self._gravity: Array = np.array([0.0, 0.0, -gravity])
        self._parameters = parameters
        self._detection = Detection(
            [part.shape for part in parts], [part.name for part in parts], np.zeros(0, dtype=np.int64), None
        )
        size = [machine.n_velocities for machine in machines] + [6] * n
        self._size: Integers = np.array(size, dtype=np.int64)
        d, joints = max(size), max([machine.model.njoints for machine in machines], default=1)
        self._jacobian: Array = np.zeros((k, 6, d))
        self._support: Booleans = np.zeros((k, joints, d), dtype=np.bool_)
        for i, machine in enumerate(machines):
            self._support[i, : machine.model.njoints, : machine.n_velocities] = machine.support
        self._carrier, self._joint = _carriers(machines, parts)
        self._local_position: Array = np.array([part.position for part in parts])
        self._local_rotation: Array = np.array([part.rotation for part in parts])
        self._extent: Array = np.zeros(n)  # distance from each body's origin within which all its parts are
        for part, radius in zip(parts, self._detection.shapes.radius, strict=True):
            if part.tree >= k:
                b = part.tree - k
                self._extent[b] = max(self._extent[b], radius + float(np.linalg.norm(part.position)))

    def reset(self, q: Sequence[Array], bodies: BodyState) -> TreesState:
        """Start with the machines at rest at the joint positions `q`, and with `bodies`."""
        self._detection.reset()
        self.state = TreesState(0.0, tuple(q), tuple(np.zeros_like(each) for each in q), bodies)
        self.problem: SparseProblem | None = None
        self.last: SparseSolution | None = None
        self.force: Array = np.zeros((0, 3))
        self.touching: Integers = np.zeros((0, 2), dtype=np.int64)
        self.update()
        return self.state

    def update(self) -> None:
        """Compute the machines' terms at the current state, and place all parts."""
        for machine, q, v in zip(self.machines, self.state.q, self.state.v, strict=True):
            machine.update(q, v)
        self._rotation_bodies: Array = rotations(self.state.bodies.orientation)
        position = np.concatenate(
            [np.zeros((1, 3)), *(machine.frame_position for machine in self.machines), self.state.bodies.position]
        )[self._carrier]
        rotation = np.concatenate(
            [np.eye(3)[None], *(machine.frame_rotation for machine in self.machines), self._rotation_bodies]
        )[self._carrier]
        self.place = (
            position + (rotation @ self._local_position[:, :, None])[:, :, 0],
            np.ascontiguousarray(rotation @ self._local_rotation),
        )

    def step(self, h: float, drives: Sequence[Drive]) -> TreesState:
        """Take one step of length `h` [s] with one drive per machine, after `update` at the current state."""
        state, k = self.state, len(self.machines)
        M, v, v_star = self._without_contact(h, drives)
        points = self._candidates(h, v_star[k:, :6])
        axes = axes_of(points.normal, 0.0)
        tree = self._tree[points.shape]
        contacts = len(points.gap)
        rows = np.zeros((contacts, 2, 3, M.shape[2]))
        joint, at = self._joint[points.shape], state.bodies.position
        _rows(tree, joint, at, self._jacobian, self._support, points.point, axes, rows)
        self.problem = SparseProblem(
            h=h,
            size=self._size,
            M=M,
            v=v,
            v_star=v_star,
            tree=tree,
            rows=rows,
            gap=points.gap,
            mu=self._mu[points.shape].min(axis=1, initial=np.inf),
            stiffness=np.full(contacts, np.inf),
            damping=np.zeros(contacts),
            surface_velocity=np.zeros((contacts, 3)),
        )
        p = self._parameters
        self.last = solution = sap.solve_sparse(self.problem, sigma=p.sigma, beta=p.beta, tolerance=p.tolerance)
        self.touching = points.shape
        self.force = (solution.impulses[:, None, :] @ axes)[:, 0] / h
        speeds = tuple(solution.v_plus[i, : self._size[i]].copy() for i in range(k))
        velocities = np.ascontiguousarray(solution.v_plus[k:, :6])
        self.state = TreesState(
            state.t + h,
            tuple(q + h * each for q, each in zip(state.q, speeds, strict=True)),
            speeds,
            advance(self.inertias, state.bodies, self._rotation_bodies, velocities, h),
        )
        self.update()
        return self.state

    def _without_contact(self, h: float, drives: Sequence[Drive]) -> tuple[Array, Array, Array]:
        """Return inertias, velocities and velocities after a step without contact, by tree.

        The inertia of a machine is A of the module's docstring. Inertias are padded with ones on the diagonal,
        everything else with zeros. The machines' Jacobians are stored for `_rows`.

        Returns:
            Shapes (t, d, d), (t, d), (t, d) for t trees, the largest of which has d velocities.
        """
        k = len(self.machines)
        t, d = len(self._size), int(self._size.max())
        M, v, v_star = np.zeros((t, d, d)), np.zeros((t, d)), np.zeros((t, d))
        M[:, np.arange(d), np.arange(d)] = 1.0
        states = zip(self.machines, self.state.q, self.state.v, drives, strict=True)
        for i, (machine, q, joint_v, drive) in enumerate(states):
            m = machine.n_velocities
            A = machine.M + np.diag(h * drive.damping + h * h * drive.stiffness)
            pull = drive.torque + drive.stiffness * (drive.target - q) + drive.damping * drive.speed - machine.bias
            M[i, :m, :m], v[i, :m] = A, joint_v
            v_star[i, :m] = np.linalg.solve(A, machine.M @ joint_v + h * pull)
            self._jacobian[i, :, :m] = machine.jacobian
        bodies, rotation = self.state.bodies, self._rotation_bodies
        M[k:, :6, :6] = inertia_blocks(self.inertias, rotation)
        v[k:, :6] = bodies.velocity
        no_wrench = np.zeros_like(bodies.velocity)
        v_star[k:, :6] = free_velocities(self.inertias, bodies, rotation, no_wrench, self._gravity, h)
        return M, v, v_star

    def _candidates(self, h: float, free: Array) -> Points:
        """Return the points at which parts may touch in a step, from the bodies' free velocities (n, 6)."""
        machines = np.full(len(self.machines), 0.5 * MARGIN + h * HAND_SPEED)
        reach_of_tree = np.concatenate([machines, reaches(free, self._extent, h, 0.5 * MARGIN), [0.0]])
        reach = reach_of_tree[self._tree]
        detection = self._detection
        detection.put(*self.place)
        pair = candidate_pairs(detection.placed.low, detection.placed.high, reach, self._tree)
        return detection.find(pair, reach[pair[:, 0]] + reach[pair[:, 1]], reach)

    @property
    def velocities(self) -> int:
        """Number of velocities of all trees."""
        return int(self._size.sum())

    def force_between(self, first: int, second: int) -> Array:
        """Return the total force of tree `second` (or `WORLD`) on tree `first` in the last step, shape (3,) [N]."""
        tree = self._tree[self.touching]
        on = ((tree[:, 0] == first) & (tree[:, 1] == second)).astype(float)
        on -= (tree[:, 0] == second) & (tree[:, 1] == first)
        total: Array = on @ self.force
        return total

    def pressing_force(self, first: int, second: int) -> float:
        """Return the sum of the magnitudes of the contact forces between two trees in the last step [N]."""
        tree = self._tree[self.touching]
        between = (tree == (first, second)).all(axis=1) | (tree == (second, first)).all(axis=1)
        return float(np.linalg.norm(self.force[between], axis=1).sum())


@njit(cache=True, error_model="numpy")
def _rows(
    tree: Integers,
    joint: Integers,
    position: Array,
    jacobian: Array,
    support: Booleans,
    point: Array,
    axes: Array,
    out: Array,
) -> None:
    """Write the contact rows of both sides A and B of each contact; B's rows include the minus sign.

    Args:
        tree: Trees of both sides, shape (n, 2).
        joint: Joints of both sides, shape (n, 2); not used for free bodies.
        position: Centres of the bodies, shape (bodies, 3) [m].
        jacobian: Jacobian of each machine at the world's origin, shape (k, 6, d).
        support: True if a velocity moves a joint, for each machine, shape (k, joints, d).
        point: Contact points, shape (n, 3) [m].
        axes: Axes of the contacts (rows), shape (n, 3, 3).
        out: Result, initially zeros, shape (n, 2, 3, d).
    """
    k, d = jacobian.shape[0], jacobian.shape[2]
    for i in range(tree.shape[0]):
        for side in range(2):
            t, sign = tree[i, side], 1.0 - 2.0 * side
            if t < 0:
                continue
            if t < k:
                J, moves = jacobian[t], support[t, joint[i, side]]
                x, y, z = point[i, 0], point[i, 1], point[i, 2]
                for c in range(d):
                    if not moves[c]:
                        continue
                    vx = sign * (J[0, c] + J[4, c] * z - J[5, c] * y)
                    vy = sign * (J[1, c] + J[5, c] * x - J[3, c] * z)
                    vz = sign * (J[2, c] + J[3, c] * y - J[4, c] * x)
                    for axis in range(3):
                        out[i, side, axis, c] = axes[i, axis, 0] * vx + axes[i, axis, 1] * vy + axes[i, axis, 2] * vz
                continue
            b = t - k
            rx, ry, rz = point[i, 0] - position[b, 0], point[i, 1] - position[b, 1], point[i, 2] - position[b, 2]
            for axis in range(3):
                ax, ay, az = sign * axes[i, axis, 0], sign * axes[i, axis, 1], sign * axes[i, axis, 2]
                out[i, side, axis, 0], out[i, side, axis, 1], out[i, side, axis, 2] = ax, ay, az
                out[i, side, axis, 3] = ry * az - rz * ay
                out[i, side, axis, 4] = rz * ax - rx * az
                out[i, side, axis, 5] = rx * ay - ry * ax
