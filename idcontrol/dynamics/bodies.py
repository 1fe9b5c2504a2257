"""Many free rigid bodies: inertia in blocks, momentum conserved, no multibody library.

A body's velocity is the linear velocity of its centre of mass, then its angular velocity, both in world axes. In these
coordinates there is no gyroscopic term, and only impulses change the linear momentum and the angular momentum about the
centre of mass. `advance` turns the body by ``exp(h ω)`` and computes the angular velocity with the same angular
momentum in the new pose. Without external forces both momenta are conserved to rounding for any step. Energy is
conserved to first order in h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from idcontrol.dynamics.friction import require_friction
from idcontrol.errors import InputError
from idcontrol.kernels.jit import njit
from idcontrol.types import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """The material of a surface.

    A contact has the smaller friction coefficient of its two surfaces. Springs of both surfaces act in series, and so
    do dampers; a rigid surface contributes neither.

    Attributes:
        mu: Friction coefficient; inf means no slip.
        stiffness: Normal stiffness of this surface in a contact [N/m]; inf is rigid.
        damping: Normal damping of this surface in a contact [N s/m].

    Raises:
        InputError: mu is not a usable friction coefficient (`require_friction`), the stiffness is not positive, the
            damping is negative or not finite, or a rigid surface has damping.
    """

    mu: float = 0.5
    stiffness: float = np.inf
    damping: float = 0.0

    def __post_init__(self) -> None:
        require_friction(np.array([self.mu], dtype=np.float64), ["a surface"])
        if not self.stiffness > 0.0:
            raise InputError(f"stiffness of a surface must be positive (inf is rigid), not {self.stiffness}")
        if not 0.0 <= self.damping < np.inf:
            raise InputError(f"damping of a surface must be finite and not negative, not {self.damping}")
        if self.damping > 0.0 and np.isinf(self.stiffness):
            raise InputError("a rigid surface has no damping of its own; give it a stiffness, or damping 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A rigid body whose frame lies at its centre of mass.

    Attributes:
        name: Name for messages.
        shape: coal geometry in the body's frame: sphere, box, capsule, cylinder, convex hull.
        mass: Mass [kg].
        inertia: Inertia about the centre of mass, body axes, shape (3, 3) [kg m²].
        surface: Material.
    """

    name: str
    shape: Any
    mass: float
    inertia: Array
    surface: Surface = field(default_factory=Surface)


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """A shape that does not move.

    Attributes:
        name: Name for messages.
        shape: coal geometry.
        position: Origin of the shape, world frame, shape (3,) [m].
        orientation: Quaternion (x, y, z, w).
        surface: Material.
    """

    name: str
    shape: Any
    position: Array
    orientation: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0)
    surface: Surface = field(default_factory=Surface)


def solid(name: str, shape: Any, density: float, surface: Surface | None = None) -> Body:
    """Return a body of uniform density [kg/m³].

    Raises:
        InputError: The density is not positive and finite, or the shape's centre of mass is not at its origin.
    """
    if not 0.0 < density < np.inf:
        raise InputError(f"body {name!r}: density must be positive and finite, not {density}")
    centre = np.asarray(shape.computeCOM())
    if not np.abs(centre).max() <= 1e-9 * max(1.0, float(shape.aabb_radius)):
        raise InputError(f"body {name!r}: its centre of mass is at {centre.round(6).tolist()}; move it to the origin")
    return Body(
        name=name,
        shape=shape,
        mass=density * shape.computeVolume(),
        inertia=density * np.array(shape.computeMomentofInertia()),
        surface=surface if surface is not None else Surface(),
    )


class BodyState(NamedTuple):
    """Poses and velocities of n bodies.

    Attributes:
        t: Time [s].
        position: Centres of mass, world frame, shape (n, 3) [m].
        orientation: Quaternions (x, y, z, w), shape (n, 4).
        velocity: Velocity of the centre of mass [m/s], then angular velocity [rad/s], world axes, shape (n, 6).
    """

    t: float
    position: Array
    orientation: Array
    velocity: Array

    @staticmethod
    def at_rest(position: Array, orientation: Array | None = None) -> BodyState:
        """Return the state of bodies that do not move.

        Args:
            position: Centres of mass, world frame, shape (n, 3) [m].
            orientation: Quaternions (x, y, z, w), shape (n, 4); None for the world's axes.
        """
        n = len(position)
        upright = np.tile([0.0, 0.0, 0.0, 1.0], (n, 1))
        return BodyState(
            t=0.0,
            position=np.array(position, dtype=np.float64),
            orientation=upright if orientation is None else np.array(orientation, dtype=np.float64),
            velocity=np.zeros((n, 6)),
        )


class Inertias(NamedTuple):
    """Masses and inertias of n bodies.

    Attributes:
        mass: Masses, shape (n,) [kg].
        inertia: Inertias about the centres of mass, body axes, shape (n, 3, 3) [kg m²].
        inverse: Inverses of the inertias, shape (n, 3, 3).
    """

    mass: Array
    inertia: Array
    inverse: Array

    @staticmethod
    def of(bodies: Sequence[Body]) -> Inertias:
        """Return masses and inertias of `bodies`.

        Raises:
            InputError: A mass is not positive and finite, or an inertia is not symmetric and positive definite.
        """
        for body in bodies:
            if not 0.0 < body.mass < np.inf:
                raise InputError(f"body {body.name!r}: mass must be positive and finite, not {body.mass}")
            own = np.asarray(body.inertia, dtype=np.float64)
            if (
                own.shape != (3, 3)
                or not np.isfinite(own).all()
                or np.abs(own - own.T).max() > 1e-9 * np.abs(own).max()
            ):
                raise InputError(f"body {body.name!r}: inertia must be a symmetric 3 x 3 matrix of numbers")
            if not np.linalg.eigvalsh(own)[0] > 0.0:
                raise InputError(f"body {body.name!r}: inertia must be positive definite; give its moments [kg m²]")
        inertia = np.array([body.inertia for body in bodies], dtype=np.float64).reshape(-1, 3, 3)
        inverse = np.asarray(np.linalg.inv(inertia), dtype=np.float64)
        return Inertias(
            mass=np.array([body.mass for body in bodies], dtype=np.float64),
            inertia=inertia,
            inverse=inverse,
        )


@njit(cache=True, error_model="numpy")
def rotations(orientation: Array) -> Array:
    """Return the axes (columns) of n quaternions (x, y, z, w) of any length, shape (n, 3, 3)."""
    out = np.empty((orientation.shape[0], 3, 3))
    for i in range(orientation.shape[0]):
        x, y, z, w = orientation[i, 0], orientation[i, 1], orientation[i, 2], orientation[i, 3]
        s = 2.0 / (x * x + y * y + z * z + w * w)
        out[i, 0, 0], out[i, 0, 1], out[i, 0, 2] = 1.0 - s * (y * y + z * z), s * (x * y - z * w), s * (x * z + y * w)
        out[i, 1, 0], out[i, 1, 1], out[i, 1, 2] = s * (x * y + z * w), 1.0 - s * (x * x + z * z), s * (y * z - x * w)
        out[i, 2, 0], out[i, 2, 1], out[i, 2, 2] = s * (x * z - y * w), s * (y * z + x * w), 1.0 - s * (x * x + y * y)
    return out


@njit(cache=True, inner=True, error_model="numpy")
def _turned(A: Array, R: Array, out: Array) -> None:
    """Write ``R A Rᵀ`` for symmetric A, all (3, 3)."""
    for i in range(3):
        for j in range(i + 1):
            s = 0.0
            for k in range(3):
                s += R[i, k] * (A[k, 0] * R[j, 0] + A[k, 1] * R[j, 1] + A[k, 2] * R[j, 2])
            out[i, j] = s
            out[j, i] = s


@njit(cache=True, error_model="numpy")
def inertia_blocks(inertias: Inertias, rotation: Array) -> Array:
    """Return the inertia of each body in world axes, ``diag(m I₃, R I Rᵀ)``, shape (n, 6, 6); R has shape (n, 3, 3)."""
    mass, M = inertias.mass, np.zeros((rotation.shape[0], 6, 6))
    for i in range(mass.shape[0]):
        for k in range(3):
            M[i, k, k] = mass[i]
        _turned(inertias.inertia[i], rotation[i], M[i, 3:, 3:])
    return M


@njit(cache=True, error_model="numpy")
def free_velocities(
    inertias: Inertias, state: BodyState, rotation: Array, wrench: Array, gravity: Array, h: float
) -> Array:
    """Return the velocities at the end of a step without contact, shape (n, 6).

    Args:
        inertias: Masses and inertias.
        state: The bodies at the beginning of the step.
        rotation: Axes of the bodies (columns), shape (n, 3, 3).
        wrench: Force and torque about the centre of mass, world axes, shape (n, 6) [N, N m].
        gravity: Acceleration of gravity, world axes, shape (3,) [m/s²].
        h: Length of the step [s].
    """
    mass, velocity, v_star = inertias.mass, state.velocity, np.empty((rotation.shape[0], 6))
    world = np.empty((3, 3))
    for i in range(mass.shape[0]):
        _turned(inertias.inverse[i], rotation[i], world)
        for k in range(3):
            v_star[i, k] = velocity[i, k] + h * (gravity[k] + wrench[i, k] / mass[i])
            v_star[i, 3 + k] = velocity[i, 3 + k] + h * (
                world[k, 0] * wrench[i, 3] + world[k, 1] * wrench[i, 4] + world[k, 2] * wrench[i, 5]
            )
    return v_star


@njit(cache=True, error_model="numpy")
def advance(inertias: Inertias, state: BodyState, rotation: Array, v_plus: Array, h: float) -> BodyState:
    """Move bodies for `h` [s] with the velocities `v_plus`, shape (n, 6); keep linear and angular momentum.

    Args:
        inertias: Masses and inertias.
        state: The bodies at the beginning of the step.
        rotation: Axes of the bodies (columns), shape (n, 3, 3).
        v_plus: Velocities during the step, linear, then angular, shape (n, 6) [m/s, rad/s].
        h: Length of the step [s].

    Returns:
        Positions ``x + h v``, orientations ``exp(h ω) q`` of unit length, the linear velocities of `v_plus`, and
        angular velocities that keep the angular momentum of `v_plus` in the new pose.
    """
    n, orientation, inertia, inverse = rotation.shape[0], state.orientation, inertias.inertia, inertias.inverse
    position_next, orientation_next, velocity_next = np.empty((n, 3)), np.empty((n, 4)), np.empty((n, 6))
    L, body = np.empty(3), np.empty(3)
    for i in range(n):
        wx, wy, wz = v_plus[i, 3], v_plus[i, 4], v_plus[i, 5]
        angle = h * np.sqrt(wx * wx + wy * wy + wz * wz)
        # sin(angle / 2) / angle; its series for small angles, where the quotient would lose digits
        s = h * (np.sin(0.5 * angle) / angle if angle > 1e-4 else 0.5 - angle * angle / 48.0)
        ax, ay, az, aw = s * wx, s * wy, s * wz, np.cos(0.5 * angle)
        x, y, z, w = orientation[i, 0], orientation[i, 1], orientation[i, 2], orientation[i, 3]
        nx = aw * x + ax * w + ay * z - az * y
        ny = aw * y + ay * w + az * x - ax * z
        nz = aw * z + az * w + ax * y - ay * x
        nw = aw * w - ax * x - ay * y - az * z
        size = np.sqrt(nx * nx + ny * ny + nz * nz + nw * nw)
        orientation_next[i, 0], orientation_next[i, 1] = nx / size, ny / size
        orientation_next[i, 2], orientation_next[i, 3] = nz / size, nw / size
    rotation_next = rotations(orientation_next)
    for i in range(n):
        wx, wy, wz = v_plus[i, 3], v_plus[i, 4], v_plus[i, 5]
        R, S = rotation[i], rotation_next[i]
        for k in range(3):
            body[k] = R[0, k] * wx + R[1, k] * wy + R[2, k] * wz
        for k in range(3):
            L[k] = 0.0
            for j in range(3):
                L[k] += R[k, j] * (inertia[i, j, 0] * body[0] + inertia[i, j, 1] * body[1] + inertia[i, j, 2] * body[2])
        for k in range(3):
            body[k] = S[0, k] * L[0] + S[1, k] * L[1] + S[2, k] * L[2]
        for k in range(3):
            position_next[i, k] = state.position[i, k] + h * v_plus[i, k]
            velocity_next[i, k] = v_plus[i, k]
            velocity_next[i, 3 + k] = 0.0
            for j in range(3):
                velocity_next[i, 3 + k] += S[k, j] * (
                    inverse[i, j, 0] * body[0] + inverse[i, j, 1] * body[1] + inverse[i, j, 2] * body[2]
                )
    return BodyState(state.t + h, position_next, orientation_next, velocity_next)


@njit(cache=True, error_model="numpy")
def reaches(velocity: Array, radius: Array, h: float, margin: float) -> Array:
    """Return a bound on each body's motion in a step, ``margin + h (|v| + |ω| r)``, shape (n,) [m].

    Args:
        velocity: Linear, then angular velocities, shape (n, 6).
        radius: Radius of a sphere around each body, shape (n,) [m].
        h: Length of the step [s].
        margin: Additional distance [m].
    """
    out = np.empty(velocity.shape[0])
    for i in range(velocity.shape[0]):
        linear = angular = 0.0
        for k in range(3):
            linear += velocity[i, k] ** 2
            angular += velocity[i, 3 + k] ** 2
        out[i] = margin + h * (np.sqrt(linear) + np.sqrt(angular) * radius[i])
    return out


@njit(cache=True, error_model="numpy")
def first_beyond(velocity: Array, limit: float) -> int:
    """Return the first row of `velocity` (n, 6) with an entry that is NaN or at least `limit` in magnitude, or -1."""
    for i in range(velocity.shape[0]):
        for k in range(6):
            if not abs(velocity[i, k]) < limit:
                return i
    return -1


def momentum(inertias: Inertias, state: BodyState) -> tuple[Array, Array]:
    """Return the total linear [N s] and angular [N m s] momentum about the world's origin, shapes (3,)."""
    M = world_inertia(inertias, state)
    each = np.einsum("nij,nj->ni", M, state.velocity)
    angular: Array = (each[:, 3:] + np.cross(state.position, each[:, :3])).sum(axis=0)
    return each[:, :3].sum(axis=0), angular


def kinetic_energy(inertias: Inertias, state: BodyState) -> float:
    """Return the kinetic energy of all bodies [J]."""
    M = world_inertia(inertias, state)
    return float(0.5 * np.einsum("ni,nij,nj->", state.velocity, M, state.velocity))


def world_inertia(inertias: Inertias, state: BodyState) -> Array:
    """Return the inertia of each body in world axes, shape (n, 6, 6)."""
    M: Array = inertia_blocks(inertias, rotations(state.orientation))
    return M
