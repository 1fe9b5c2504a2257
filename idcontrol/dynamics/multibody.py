"""Compiled multibody terms: `CompiledSystem` computes the same terms as `System`, without Pinocchio.

Calls of Pinocchio from Python hold the interpreter's lock, so robots in several threads would wait for each other.
Compiled terms need no lock. `terms_kernel` consists of `inertia_kernel`, which depends on the configuration, and
`bias_kernel`, which also depends on the velocity. Its terms differ from Pinocchio's terms by rounding
(tests/dynamics/test_multibody.py).

All vectors are spatial, in world axes at the origin of the first joint: this point moves with the robot, so rounding
does not grow with the distance from the world's origin. The resulting `Terms.jacobian` and `Motion` are moved to the
world's origin. J_k is the column of velocity k; V_j, A_j and I_j are velocity, drift and inertia of the body that joint
j carries. Velocity k belongs to joint j(k). With sums over all bodies that velocity k moves,

    c_k = J_kᵀ Σ (I (A - g) + V ×* I V),    M_kl = J_lᵀ (Σ I) J_k  for the velocities l that move j(k).

Source: Featherstone 2008, Rigid Body Dynamics Algorithms, chapters 5 and 6 (composite bodies, recursive Newton-Euler).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pinocchio as pin

from idcontrol.dynamics.system import ActuatorLimits, Actuators, Motion, System, Terms, move
from idcontrol.errors import InputError
from idcontrol.kernels.bound import Bound, bind, entry
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linked import linked
from idcontrol.kernels.placements import placement_views
from idcontrol.types import Array, Integers

FLYER: Final = 0
"""A joint with all six degrees of freedom: position and quaternion."""
HINGE: Final = 1
"""A revolute joint, represented by its angle."""
CIRCLE: Final = 2
"""A revolute joint, represented by cosine and sine."""
SLIDER: Final = 3
"""A prismatic joint."""


class Tree(NamedTuple):
    """Joints and the bodies that they carry, in the joints' axes; joint 0 is the world.

    Attributes:
        kind: `FLYER`, `HINGE`, `CIRCLE` or `SLIDER`, shape (n,).
        at_q: Index of each joint's first entry in Pinocchio's q, shape (n,).
        links: Parent, first velocity and number of velocities of each joint, shape (n, 3).
        axis: Unit vector that a joint turns about or slides along, shape (n, 3).
        position: Position of each joint in its parent, shape (n, 3) [m].
        rotation: Axes of each joint in its parent (columns), shape (n, 3, 3).
        mass: Mass of each body, shape (n,) [kg].
        centre: Centre of mass of each body, shape (n, 3) [m].
        inertia: Inertia about that centre, shape (n, 3, 3) [kg m²].
        armature: Reflected inertia of the motors' rotors, for velocities in Pinocchio's layout, shape (m,).
        gravity: Acceleration of gravity, shape (3,) [m/s²].
        flyers: Index of each free-flyer's first velocity.
        place: Velocity k of Pinocchio's layout is velocity ``place[k]`` in the system's order, shape (m,).
        frame_joint: Joint that carries each frame, shape (n_frames,).
        frame_position: Position of each frame in that joint, shape (n_frames, 3) [m].
        frame_rotation: Axes of each frame in that joint (columns), shape (n_frames, 3, 3).
    """

    kind: Integers
    at_q: Integers
    links: Integers
    axis: Array
    position: Array
    rotation: Array
    mass: Array
    centre: Array
    inertia: Array
    armature: Array
    gravity: Array
    flyers: Integers
    place: Integers
    frame_joint: Integers
    frame_position: Array
    frame_rotation: Array


class Hanging(NamedTuple):
    """Sums over all bodies beyond each joint: mass, shape (n,) [kg], and first moment and inertia as in `Bodies`."""

    mass: Array
    moment: Array
    inertia: Array


class Bodies(NamedTuple):
    """Memory for one state of a tree.

    Attributes:
        R: Axes of each joint in the world (columns), shape (n, 3, 3): a view into Pinocchio's data.
        p: Origin of each joint in the world, shape (n, 3) [m]: a view into Pinocchio's data.
        J: Columns of all velocities in Pinocchio's layout, shape (6, m).
        moment: First moment of each body about the point of reference, shape (n, 3) [kg m].
        inertia: Inertia of each body about that point, shape (n, 3, 3) [kg m²].
        hanging: Sums over the bodies beyond each joint.
        force: Force on each body at v̇ = 0, in the end summed over all bodies beyond its joint, shape (n, 6) [N, N m].
        column: Scratch for a momentum, or for the force on all bodies beyond a joint at unit acceleration, shape (6,).
    """

    R: Array
    p: Array
    J: Array
    moment: Array
    inertia: Array
    hanging: Hanging
    force: Array
    column: Array


class Work(NamedTuple):
    """Data that `terms_kernel` reads and writes in addition to the state.

    Attributes:
        tree: The robot.
        bodies: Scratch.
        terms: Result: the multibody terms.
        motion: Result: motion of the bodies.
        frame_position: Result: origins of the frames in the world, shape (n_frames, 3) [m].
        frame_rotation: Result: axes of the frames in the world (columns), shape (n_frames, 3, 3).
    """

    tree: Tree
    bodies: Bodies
    terms: Terms
    motion: Motion
    frame_position: Array
    frame_rotation: Array


class CompiledSystem(System):
    """A `System` whose terms `terms_kernel` computes instead of Pinocchio.

    `update` also updates the poses of joints and frames in Pinocchio's data, ``data.oMi`` and ``data.oMf``; a control
    step in one compiled call (`idcontrol.controllers.whole`) updates only the joints. Masses, placements and rotors are
    copied from the model at construction; only gravity may be changed later.

    Attributes:
        tree: The joints.
        work: The argument of `terms_kernel`.
    """

    def __init__(self, model: Any, **keywords: Any) -> None:
        """Bind the terms of a Pinocchio model; arguments as for `System`.

        Raises:
            InputError: As for `System`, or a kind of joint is not compiled.
        """
        super().__init__(model, **keywords)
        n, m = model.njoints, model.nv
        self.tree = _tree(self)
        position, rotation = placement_views(self.data.oMi)
        bodies = Bodies(
            R=rotation,
            p=position,
            J=np.zeros((6, m)),
            moment=np.zeros((n, 3)),
            inertia=np.zeros((n, 3, 3)),
            hanging=Hanging(np.zeros(n), np.zeros((n, 3)), np.zeros((n, 3, 3))),
            force=np.zeros((n, 6)),
            column=np.zeros(6),
        )
        self._shapes = (model.nq,), (m,)
        self.M[:] = 0.0  # the kernel writes only entries that the tree makes nonzero
        work = Work(self.tree, bodies, self.terms, self.motion, self.frame_position, self.frame_rotation)
        self.work = bind(work)
        self._compute = entry(_update, self.work, np.zeros(model.nq), np.zeros(m))
        self.update(pin.neutral(model), np.zeros(m))

    @staticmethod
    def of(system: System) -> CompiledSystem:
        """Return the same robot with compiled terms of its own, at the neutral configuration.

        Raises:
            InputError: A kind of joint is not compiled.
        """
        return _again(system.model, system.actuated_names, system.effort_limit, system.limits, system.actuators)

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild copies and unpickled systems with terms of their own, at the neutral configuration."""
        return _again, (self.model, self.actuated_names, self.effort_limit, self.limits, self.actuators)

    def update(self, q: Array, v: Array) -> None:
        """Compute all terms at configuration `q` (nq,) and velocity `v` (nv,), both in Pinocchio's layout.

        Raises:
            InputError: The shape of q or v is wrong.
        """
        q, v = np.ascontiguousarray(q, np.float64), np.ascontiguousarray(v, np.float64)
        if (q.shape, v.shape) != self._shapes:  # compiled code would read out of bounds
            raise InputError(
                f"q and v have the shapes {q.shape} and {v.shape}, not {self._shapes[0]} and {self._shapes[1]}"
            )
        self._compute(self.work, q, v)


def machine(model: Any, **keywords: Any) -> System:
    """Return a robot with compiled terms if all its kinds of joint are compiled, otherwise with Pinocchio's terms.

    Args:
        model: Pinocchio model.
        keywords: As for `System`.

    Raises:
        UnknownName, InputError: As for `System`.
    """
    try:
        _kinds(model)
    except InputError:
        return System(model, **keywords)
    return CompiledSystem(model, **keywords)


def _again(
    model: Any, actuated: tuple[str, ...], effort: Array, limits: ActuatorLimits, actuators: Actuators | None
) -> CompiledSystem:
    return CompiledSystem(model, actuated=actuated, effort_limit=effort, limits=limits, actuators=actuators)


def _kinds(model: Any) -> tuple[Integers, Array]:
    """Return kind and axis of each joint of a Pinocchio model.

    Raises:
        InputError: A kind of joint is not compiled, or there are no joints.
    """
    data, n, neutral = model.createData(), model.njoints, pin.neutral(model)
    if n == 1:
        raise InputError("a machine without joints has no terms to compile")
    kind, axis = np.zeros(n, dtype=np.int64), np.zeros((n, 3))
    for j in range(1, n):
        joint = model.joints[j]
        if joint.shortname() == "JointModelFreeFlyer":
            kind[j] = FLYER
            continue
        # the Jacobian of a robot with a single velocity comes as a vector
        jacobian = pin.computeJointJacobian(model, data, neutral, j).reshape(6, model.nv)
        along = jacobian[:, joint.idx_v : joint.idx_v + joint.nv]
        turns, slides = along[3:].any(), along[:3].any()
        # joints within a composite joint have placements of their own
        if joint.nv != 1 or turns == slides or joint.shortname() == "JointModelComposite":
            raise InputError(
                f"joint {str(model.names[j])!r} is a {joint.shortname()}; compiled terms take free-flyers and joints "
                "that turn about or slide along one axis"
            )
        kind[j] = SLIDER if slides else CIRCLE if joint.nq == 2 else HINGE
        axis[j] = along[:3, 0] if slides else along[3:, 0]
    return kind, axis


def _tree(system: System) -> Tree:
    """Return the joints of a robot.

    Raises:
        InputError: A kind of joint is not compiled.
    """
    model = system.model
    kind, axis = _kinds(model)
    links = np.array([(p, joint.idx_v, joint.nv) for p, joint in zip(model.parents, model.joints, strict=True)])
    links[0] = 0  # the world
    places, bodies, frames = list(model.jointPlacements), list(model.inertias), list(model.frames)
    return Tree(
        kind=kind,
        at_q=np.array([joint.idx_q for joint in model.joints], dtype=np.int64),
        links=links,
        axis=axis,
        position=np.array([place.translation for place in places]),
        rotation=np.array([place.rotation for place in places]),
        mass=np.array([body.mass for body in bodies]),
        centre=np.array([body.lever for body in bodies]),
        inertia=np.array([body.inertia for body in bodies]),
        armature=np.array(model.armature),
        gravity=model.gravity.linear,  # a view: gravity may be changed, as in Pinocchio
        flyers=system.flyer_v,
        place=np.argsort(system.order),
        frame_joint=system.frame_joint,
        frame_position=np.array([frame.placement.translation for frame in frames]),
        frame_rotation=np.array([frame.placement.rotation for frame in frames]),
    )


@njit(cache=True, inner=True)
def terms_kernel(bound: Bound, q: Array, v: Array) -> None:
    """Write terms, motion and joint poses of `Work` at configuration `q` and velocity `v`, in Pinocchio's layout."""
    inertia_kernel(bound, q)
    bias_kernel(bound, v)


@linked
@njit(cache=True, inner=True, error_model="numpy")
def inertia_kernel(bound: Bound, q: Array) -> None:
    """Write joint poses, inertia matrix and Jacobian of `Work` at configuration `q`."""
    work = bound.borrowed
    tree, bodies, terms = work.tree, work.bodies, work.terms
    J = bodies.J
    _place(tree, q, bodies)
    _weigh(tree, bodies)
    for j in range(tree.kind.shape[0] - 1, 0, -1):
        begin = tree.links[j, 1]
        for k in range(begin + tree.links[j, 2] - 1, begin - 1, -1):
            _row(tree, bodies, j, k, terms.M)
        _add(bodies.hanging, j, tree.links[j, 0])
    origin = bodies.p[1]
    for k in range(J.shape[1]):
        at = tree.place[k]
        for x, y, z in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
            terms.jacobian[x, at] = J[x, k] + (origin[y] * J[z + 3, k] - origin[z] * J[y + 3, k])
            terms.jacobian[x + 3, at] = J[x + 3, k]


@linked
@njit(cache=True, inner=True, error_model="numpy")
def bias_kernel(bound: Bound, v: Array) -> None:
    """Write motion and bias of `Work` at velocity `v` and the configuration of the last `inertia_kernel`."""
    work = bound.borrowed
    tree, bodies, motion = work.tree, work.bodies, work.motion
    J, f, n = bodies.J, bodies.force, tree.kind.shape[0]
    move(J, v, tree.links, tree.flyers, motion)
    _load(tree, motion, bodies)
    for j in range(n - 1, 0, -1):
        parent, begin, size = tree.links[j, 0], tree.links[j, 1], tree.links[j, 2]
        for k in range(begin, begin + size):
            bias = 0.0
            for x in range(6):
                bias += J[x, k] * f[j, x]
            work.terms.bias[tree.place[k]] = bias
        for x in range(6):
            f[parent, x] += f[j, x]
    for j in range(1, n):
        _shift(motion.velocity[j], bodies.p[1])
        _shift(motion.drift[j], bodies.p[1])


@njit(cache=True, error_model="numpy")
def _update(bound: Bound, q: Array, v: Array) -> None:
    """Run `terms_kernel`, and write the poses of all frames."""
    terms_kernel(bound, q, v)
    work = bound.borrowed
    for f in range(work.tree.frame_joint.shape[0]):
        _frame(work.tree, work.bodies, f, work.frame_position[f], work.frame_rotation[f])


@njit(cache=True, inner=True, error_model="numpy")
def integrate_kernel(tree: Tree, q: Array, v: Array, h: float, q_next: Array) -> None:
    """Write the result of `System.integrate`, except the positions of free-flyers (`idcontrol.dynamics.system.carry`).

    Args:
        tree: The robot.
        q: Configuration in Pinocchio's layout.
        v: Velocity in Pinocchio's layout.
        h: Time [s].
        q_next: The resulting configuration.
    """
    for j in range(1, tree.kind.shape[0]):
        at, k, kind = tree.at_q[j], tree.links[j, 1], tree.kind[j]
        if kind == FLYER:
            x, y, z = h * v[k + 3], h * v[k + 4], h * v[k + 5]
            square = x * x + y * y + z * z
            angle = np.sqrt(square)
            part, w = (np.sin(0.5 * angle) / angle if angle > 1e-4 else 0.5 - square / 48.0), np.cos(0.5 * angle)
            x, y, z = part * x, part * y, part * z
            if w < 0.0:  # q and -q are the same rotation: take the quaternion closer to the last
                x, y, z, w = -x, -y, -z, -w
            a, b, c, d = q[at + 3], q[at + 4], q[at + 5], q[at + 6]
            q_next[at + 3] = d * x + a * w + b * z - c * y
            q_next[at + 4] = d * y + b * w + c * x - a * z
            q_next[at + 5] = d * z + c * w + a * y - b * x
            q_next[at + 6] = d * w - a * x - b * y - c * z
            _unit(q_next[at + 3 : at + 7])
        elif kind == CIRCLE:
            cosine, sine = np.cos(h * v[k]), np.sin(h * v[k])
            q_next[at], q_next[at + 1] = cosine * q[at] - sine * q[at + 1], sine * q[at] + cosine * q[at + 1]
            _unit(q_next[at : at + 2])
        else:
            q_next[at] = q[at] + h * v[k]


@njit(cache=True, inner=True, forceinline=True)
def _unit(vector: Array) -> None:
    """Normalize a vector of almost unit length, to first order."""
    square = 0.0
    for value in vector:
        square += value * value
    for i in range(vector.shape[0]):
        vector[i] *= 0.5 * (3.0 - square)


@njit(cache=True, inner=True, forceinline=True)
def _shift(vector: Array, origin: Array) -> None:
    """Change the point of reference of a motion from `origin` to the world's origin."""
    for x, y, z in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        vector[x] += origin[y] * vector[z + 3] - origin[z] * vector[y + 3]


@njit(cache=True, inner=True, forceinline=True)
def _frame(tree: Tree, bodies: Bodies, f: int, position: Array, rotation: Array) -> None:
    """Write the pose of frame f."""
    j = tree.frame_joint[f]
    R, p, at, turned = bodies.R[j], bodies.p[j], tree.frame_position[f], tree.frame_rotation[f]
    for x in range(3):
        position[x] = p[x] + (R[x, 0] * at[0] + R[x, 1] * at[1] + R[x, 2] * at[2])
        for y in range(3):
            rotation[x, y] = R[x, 0] * turned[0, y] + R[x, 1] * turned[1, y] + R[x, 2] * turned[2, y]


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def _turn(R: Array, axis: Array, cosine: float, sine: float) -> None:
    """Rotate axes R (columns) about a unit vector with coordinates in R."""
    a, b, c = axis
    versine = 1.0 - cosine
    for x in range(3):
        r0, r1, r2 = R[x, 0], R[x, 1], R[x, 2]
        along = versine * (r0 * a + r1 * b + r2 * c)
        R[x, 0] = cosine * r0 + sine * (r1 * c - r2 * b) + along * a
        R[x, 1] = cosine * r1 + sine * (r2 * a - r0 * c) + along * b
        R[x, 2] = cosine * r2 + sine * (r0 * b - r1 * a) + along * c


@njit(cache=True, inner=True, error_model="numpy")
def _place(tree: Tree, q: Array, bodies: Bodies) -> None:
    """Write the poses of all joints, parents before children, and the columns of their velocities."""
    J = bodies.J
    for j in range(1, tree.kind.shape[0]):
        parent, k = tree.links[j, 0], tree.links[j, 1]
        at, kind, axis, R, p = tree.at_q[j], tree.kind[j], tree.axis[j], bodies.R[j], bodies.p[j]
        up, placed, fixed = bodies.R[parent], tree.rotation[j], tree.position[j]
        for x in range(3):
            p[x] = bodies.p[parent, x] + (up[x, 0] * fixed[0] + up[x, 1] * fixed[1] + up[x, 2] * fixed[2])
            for y in range(3):
                R[x, y] = up[x, 0] * placed[0, y] + up[x, 1] * placed[1, y] + up[x, 2] * placed[2, y]
        if kind == FLYER:
            for x in range(3):
                p[x] += R[x, 0] * q[at] + R[x, 1] * q[at + 1] + R[x, 2] * q[at + 2]
            a, b, c, w = q[at + 3], q[at + 4], q[at + 5], q[at + 6]
            for x in range(3):
                r0, r1, r2 = R[x, 0], R[x, 1], R[x, 2]
                R[x, 0] = r0 * (1 - 2 * (b * b + c * c)) + r1 * (2 * (a * b + c * w)) + r2 * (2 * (a * c - b * w))
                R[x, 1] = r0 * (2 * (a * b - c * w)) + r1 * (1 - 2 * (a * a + c * c)) + r2 * (2 * (b * c + a * w))
                R[x, 2] = r0 * (2 * (a * c + b * w)) + r1 * (2 * (b * c - a * w)) + r2 * (1 - 2 * (a * a + b * b))
        elif kind == HINGE:
            _turn(R, axis, np.cos(q[at]), np.sin(q[at]))
        elif kind == CIRCLE:
            _turn(R, axis, q[at], q[at + 1])
        else:
            for x in range(3):
                p[x] += q[at] * (R[x, 0] * axis[0] + R[x, 1] * axis[1] + R[x, 2] * axis[2])
        r0, r1, r2 = p[0] - bodies.p[1, 0], p[1] - bodies.p[1, 1], p[2] - bodies.p[1, 2]
        if kind == FLYER:
            for y in range(3):
                for x in range(3):
                    J[x, k + y], J[x + 3, k + y], J[x + 3, k + 3 + y] = R[x, y], 0.0, R[x, y]
                J[0, k + 3 + y] = r1 * R[2, y] - r2 * R[1, y]
                J[1, k + 3 + y] = r2 * R[0, y] - r0 * R[2, y]
                J[2, k + 3 + y] = r0 * R[1, y] - r1 * R[0, y]
            continue
        d0 = R[0, 0] * axis[0] + R[0, 1] * axis[1] + R[0, 2] * axis[2]
        d1 = R[1, 0] * axis[0] + R[1, 1] * axis[1] + R[1, 2] * axis[2]
        d2 = R[2, 0] * axis[0] + R[2, 1] * axis[1] + R[2, 2] * axis[2]
        if kind == SLIDER:
            J[0, k], J[1, k], J[2, k] = d0, d1, d2
            J[3, k] = J[4, k] = J[5, k] = 0.0
        else:
            J[0, k], J[1, k], J[2, k] = r1 * d2 - r2 * d1, r2 * d0 - r0 * d2, r0 * d1 - r1 * d0
            J[3, k], J[4, k], J[5, k] = d0, d1, d2


@njit(cache=True, inner=True, error_model="numpy")
def _weigh(tree: Tree, bodies: Bodies) -> None:
    """Write each body's inertia in world axes about the origin of the first joint."""
    hanging = bodies.hanging
    for j in range(tree.kind.shape[0]):
        mass, R, own, S = tree.mass[j], bodies.R[j], tree.inertia[j], bodies.inertia[j]
        centre, h = tree.centre[j], bodies.moment[j]
        c0 = bodies.p[j, 0] - bodies.p[1, 0] + (R[0, 0] * centre[0] + R[0, 1] * centre[1] + R[0, 2] * centre[2])
        c1 = bodies.p[j, 1] - bodies.p[1, 1] + (R[1, 0] * centre[0] + R[1, 1] * centre[1] + R[1, 2] * centre[2])
        c2 = bodies.p[j, 2] - bodies.p[1, 2] + (R[2, 0] * centre[0] + R[2, 1] * centre[1] + R[2, 2] * centre[2])
        h[0], h[1], h[2] = mass * c0, mass * c1, mass * c2
        for x in range(3):
            t0 = R[x, 0] * own[0, 0] + R[x, 1] * own[1, 0] + R[x, 2] * own[2, 0]
            t1 = R[x, 0] * own[0, 1] + R[x, 1] * own[1, 1] + R[x, 2] * own[2, 1]
            t2 = R[x, 0] * own[0, 2] + R[x, 1] * own[1, 2] + R[x, 2] * own[2, 2]
            for y in range(x + 1):
                S[x, y] = t0 * R[y, 0] + t1 * R[y, 1] + t2 * R[y, 2]
        S[0, 0] += h[1] * c1 + h[2] * c2
        S[1, 1] += h[0] * c0 + h[2] * c2
        S[2, 2] += h[0] * c0 + h[1] * c1
        S[1, 0] -= h[1] * c0
        S[2, 0] -= h[2] * c0
        S[2, 1] -= h[2] * c1
        S[0, 1], S[0, 2], S[1, 2] = S[1, 0], S[2, 0], S[2, 1]
        hanging.mass[j] = mass
        for x in range(3):
            hanging.moment[j, x] = h[x]
            for y in range(3):
                hanging.inertia[j, x, y] = S[x, y]


@njit(cache=True, inner=True, error_model="numpy")
def _load(tree: Tree, motion: Motion, bodies: Bodies) -> None:
    """Write the force on each body at v̇ = 0."""
    g, e = tree.gravity, bodies.column
    for j in range(tree.kind.shape[0]):
        mass, h, S, f = tree.mass[j], bodies.moment[j], bodies.inertia[j], bodies.force[j]
        V, A = motion.velocity[j], motion.drift[j]
        for x, y, z in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
            e[x] = mass * V[x] + V[y + 3] * h[z] - V[z + 3] * h[y]
            e[x + 3] = h[y] * V[z] - h[z] * V[y] + (S[x, 0] * V[3] + S[x, 1] * V[4] + S[x, 2] * V[5])
        for x, y, z in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
            f[x] = mass * (A[x] - g[x]) + A[y + 3] * h[z] - A[z + 3] * h[y] + (V[y + 3] * e[z] - V[z + 3] * e[y])
            turned = h[y] * (A[z] - g[z]) - h[z] * (A[y] - g[y])
            turned += S[x, 0] * A[3] + S[x, 1] * A[4] + S[x, 2] * A[5]
            f[x + 3] = turned + (V[y] * e[z] - V[z] * e[y]) + (V[y + 3] * e[z + 3] - V[z + 3] * e[y + 3])


@njit(cache=True, inner=True, forceinline=True, error_model="numpy")
def _row(tree: Tree, bodies: Bodies, j: int, k: int, M: Array) -> None:
    """Write row and column of M for velocity k, which belongs to joint j, up to the diagonal."""
    J, e = bodies.J, bodies.column
    mass, h, S = bodies.hanging.mass[j], bodies.hanging.moment[j], bodies.hanging.inertia[j]
    for x, y, z in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        e[x] = mass * J[x, k] + J[y + 3, k] * h[z] - J[z + 3, k] * h[y]
        e[x + 3] = h[y] * J[z, k] - h[z] * J[y, k] + (S[x, 0] * J[3, k] + S[x, 1] * J[4, k] + S[x, 2] * J[5, k])
    at, i = tree.place[k], j
    while i > 0:
        begin = tree.links[i, 1]
        for l in range(begin, min(begin + tree.links[i, 2], k + 1)):  # noqa: E741 - M_kl
            value, other = 0.0, tree.place[l]
            for x in range(6):
                value += J[x, l] * e[x]
            if l == k:
                value += tree.armature[k]
            M[at, other] = M[other, at] = value
        i = tree.links[i, 0]


@njit(cache=True, inner=True, forceinline=True)
def _add(hanging: Hanging, j: int, parent: int) -> None:
    """Add the sums of joint j to the sums of its parent."""
    hanging.mass[parent] += hanging.mass[j]
    for x in range(3):
        hanging.moment[parent, x] += hanging.moment[j, x]
        for y in range(3):
            hanging.inertia[parent, x, y] += hanging.inertia[j, x, y]
