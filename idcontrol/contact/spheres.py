"""Contacts of feet and hands: spheres on links against ground and walls, detected in one compiled call."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pinocchio as pin

from idcontrol.config.configuration import is_number
from idcontrol.contact.contacts import Contacts, contact_rows, write_axes
from idcontrol.contact.soles import Soles
from idcontrol.contact.terrain import Terrain, sphere_gap
from idcontrol.dynamics.friction import require_friction
from idcontrol.dynamics.system import Motion, System
from idcontrol.errors import InputError
from idcontrol.kernels.bound import Bound, bind, entry, put
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign, assign_rows
from idcontrol.kernels.linked import linked
from idcontrol.kernels.placements import placement_views
from idcontrol.types import Array, Booleans, Integers


class Mounted(NamedTuple):
    """The mounting of k spheres on a robot, and the ground, for kernels.

    Attributes:
        joint_position: Origins of the joints in the world, shape (n_joints, 3) [m].
        joint_rotation: Axes of the joints (columns), shape (n_joints, 3, 3).
        jacobian: `System.jacobian`, shape (6, m).
        support: `System.support`, shape (n_joints, m).
        motion: `System.motion`.
        joint: Joint that carries each sphere, shape (k,).
        offset: Centre of each sphere in that joint's frame, shape (k, 3) [m].
        radius: Radius of each sphere, shape (k,) [m].
        mu: Friction coefficient of each sphere, shape (k,).
        terrain: `Terrain.parameters`.
        coefficients: `Terrain.coefficients`.
        orientation: Angle of the first tangent about the normal [rad].
        walls: Unit normal and offset of each wall ``n·p = offset``, shape (w, 4).
        surface: Velocity of the surface under each sphere, world axes, shape (k, 3) [m/s].
    """

    joint_position: Array
    joint_rotation: Array
    jacobian: Array
    support: Booleans
    motion: Motion
    joint: Integers
    offset: Array
    radius: Array
    mu: Array
    terrain: Array
    coefficients: Array
    orientation: float
    walls: Array
    surface: Array


class Placed(NamedTuple):
    """Placement of the spheres; fields as in `SphereContacts`."""

    centre: Array
    gap: Array
    point: Array
    axes: Array


class Candidates(NamedTuple):
    """Candidate contacts: spheres close to the ground fill the first entries. Other fields are as in `Contacts`.

    Attributes:
        joint: Joint that carries each contact's sphere, shape (k,).
        ground: Zeros, the number of the world, which is body B of each contact, shape (k,).
        surface_velocity: `Mounted.surface` along the contact's axes, shape (3k,) [m/s].
    """

    identity: Integers
    joint: Integers
    ground: Integers
    point: Array
    axes: Array
    gap: Array
    mu: Array
    surface_velocity: Array
    jacobian: Array
    drift: Array


class Spheres(NamedTuple):
    """All data that `detect_kernel` reads and writes."""

    mounted: Mounted
    placed: Placed
    candidates: Candidates


class SphereContacts:
    """Contacts between spheres on the links of a robot and the ground, or a wall if it is nearer.

    Each `detect` overwrites `centre`, `gap`, `point` and `axes`, and the `Contacts` that an earlier `detect` returned.

    Attributes:
        system: The robot; its last `update` places the spheres.
        terrain: The ground.
        walls: Unit normal and offset of each wall ``n·p = offset``, shape (w, 4).
        surface: Velocity of the surface under each sphere, world axes, shape (k, 3) [m/s]. It may be changed at any
            time. To let a hand slide along a wall, set the velocity of the hand.
        frames: Frame that carries each of the k spheres.
        joint: Joint that carries each sphere, shape (k,).
        radius: Radii of the spheres, shape (k,) [m].
        patch: Foot of each sphere, shape (k,).
        centre: Centres, world frame, shape (k, 3) [m].
        gap: Distances from the ground or the nearest wall, shape (k,) [m].
        point: Contact points ``centre - radius n̂`` of all spheres, touching or not, world frame, shape (k, 3) [m].
        axes: The rows are the normal, the first and the second tangent at each sphere, world frame, shape (k, 3, 3).
        orientation: Angle of the first tangent from the projected world x axis, about the normal [rad].
        bound: The argument of `detect_kernel`.
    """

    def __init__(
        self,
        system: System,
        frames: Sequence[str],
        radii: npt.ArrayLike,
        terrain: Terrain,
        mu: npt.ArrayLike,
        *,
        offsets: npt.ArrayLike | None = None,
        orientation: float = 0.0,
        patches: Sequence[int] | Integers | None = None,
        walls: npt.ArrayLike = (),
    ) -> None:
        """Put spheres on frames.

        Args:
            system: The robot.
            frames: Names of the k frames that carry one sphere each; the index in this list is the contact's identity.
            radii: Radii of the spheres, shape (k,) or one for all [m]; 0 is a point.
            terrain: The ground.
            mu: Friction coefficients, shape (k,) or one for all; inf means no slip.
            offsets: Centres in their frames, shape (k, 3) [m]; None for the frames' origins.
            orientation: Angle of the first tangent from the projected world x axis, about the normal [rad].
            patches: Foot of each sphere, if spheres are corners of soles; None if each sphere is a foot.
            walls: Normal and offset of each wall ``n·p = offset``, shape (w, 4) or empty. The normal points away from
                the wall; it is normalized. A sphere touches the nearest surface, so it has one contact in a corner.

        Raises:
            UnknownName: A frame does not exist.
            InputError: A frame does not move, a radius is negative, friction or a wall is unusable, or shapes do not
                match.
        """
        k = len(frames)
        self.system, self.terrain, self.frames = system, terrain, tuple(frames)
        self.patch: Integers = np.arange(k) if patches is None else np.array(patches, dtype=np.int64)
        if self.patch.shape != (k,) or (k and sorted(set(self.patch)) != list(range(max(self.patch) + 1))):
            raise InputError(f"patches of {k} spheres must be numbers of feet from 0 on, not {self.patch.tolist()}")
        self.radius: Array = _one_each("radius", radii, frames)
        self._mu: Array = _friction(mu, frames)
        if not np.isfinite(self.radius).all():
            raise InputError(f"the radii of spheres must be finite, not {self.radius.tolist()}")
        self._offset: Array = np.zeros((k, 3)) if offsets is None else np.array(offsets, dtype=np.float64)
        if self._offset.shape != (k, 3) or not np.isfinite(self._offset).all():
            raise InputError(f"offsets of {k} spheres must be finite, of shape ({k}, 3)")
        self._frame: Integers = np.array([system.frame(name) for name in frames], dtype=np.int64)
        self.joint: Integers = system.frame_joint[self._frame].astype(np.int64)
        for name, joint in zip(frames, self.joint, strict=True):
            if joint == 0:
                raise InputError(f"frame {name!r} is fixed to the world and cannot carry a contact sphere")
        self.orientation = float(orientation)
        self.walls: Array = _walls(walls)
        self.surface: Array = np.zeros((k, 3))

        m = system.n_velocities
        self.centre: Array = np.zeros((k, 3))
        self.gap: Array = np.full(k, np.inf)
        self.point: Array = np.zeros((k, 3))
        self.axes: Array = np.zeros((k, 3, 3))
        self._slip: Array = np.zeros(k)
        self._candidates = _room(k, m)  # `detect` returns views of their first entries
        self._rigid = (np.full(k, np.inf), np.zeros(k))
        self._views: dict[int, Contacts] = {0: Contacts.none(m)}
        placed = Placed(self.centre, self.gap, self.point, self.axes)
        self.bound = bind(Spheres(self._mounted(), placed, self._candidates))
        self._detect = entry(detect_kernel, self.bound, 0.0)

    def _mounted(self) -> Mounted:
        """Return the data of the robot, the spheres and the ground for kernels."""
        joint_position, joint_rotation = placement_views(self.system.data.oMi)
        return Mounted(
            joint_position=joint_position,
            joint_rotation=joint_rotation,
            jacobian=self.system.jacobian,
            support=self.system.support,
            motion=self.system.motion,
            joint=self.joint,
            offset=self.mounting()[1],
            radius=self.radius,
            mu=self._mu,
            terrain=self.terrain.parameters,
            coefficients=self.terrain.coefficients,
            orientation=self.orientation,
            walls=self.walls,
            surface=self.surface,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild copies and unpickled objects with arrays of their own."""
        built = partial(
            type(self),
            offsets=self._offset,
            orientation=self.orientation,
            patches=self.patch,
            walls=self.walls,
        )
        return built, (self.system, self.frames, self.radius, self.terrain, self.mu), self.surface

    def __setstate__(self, surface: Array) -> None:
        self.surface[:] = surface

    @property
    def mu(self) -> Array:
        """Return the friction coefficient of each sphere, shape (k,); inf means no slip.

        It may be changed at any time, by entry or as a whole; one number applies to all spheres.
        """
        return self._mu

    @mu.setter
    def mu(self, values: npt.ArrayLike) -> None:
        self._mu[:] = _friction(values, self.frames)

    def detect(self, margin: float) -> Contacts:
        """Return the contacts whose gap is below `margin` [m] at the system's last update.

        Returns:
            Views of arrays that the next call overwrites (`Contacts.take` copies); identity is the index of the sphere.
        """
        return self.first(self._detect(self.bound, margin))

    def mounting(self) -> tuple[Integers, Array]:
        """Return the joint of each sphere, shape (k,), and its centre in that joint's frame, shape (k, 3) [m]."""
        places = [self.system.model.frames[int(frame)].placement for frame in self._frame]
        centres = [place.act(offset) for place, offset in zip(places, self._offset, strict=True)]
        return self.joint.copy(), np.array(centres).reshape(-1, 3)

    def slip(self, v: Array) -> Array:
        """Return the tangential speed of every contact point at the last `detect`, shape (k,) [m/s].

        The speed is relative to the world, also on a surface that moves. The robot's velocity `v`, shape (m,), is in
        the order of `System.order`. The next call overwrites the result.
        """
        _slip_speed(self.system.jacobian, self.system.support, self.joint, self.point, self.axes, v, self._slip)
        return self._slip

    @property
    def n_feet(self) -> int:
        """Number of feet."""
        return len(self._corners)

    @property
    def sole_patch(self) -> Integers | None:
        """`patch` if a foot has more than one corner; None if each sphere is a foot."""
        return self.patch if self.n_feet < self.patch.size else None

    @property
    def foot_gap(self) -> Array:
        """Smallest gap of the corners of each foot at the last `detect`, shape (n_feet,) [m]."""
        return np.array([self.gap[of].min() for of in self._corners])

    @cached_property
    def _corners(self) -> list[npt.NDArray[np.intp]]:
        """The spheres of each foot."""
        return [np.flatnonzero(self.patch == foot) for foot in range(max(self.patch, default=-1) + 1)]

    @cached_property
    def foot_mounting(self) -> tuple[Integers, Array]:
        """The joint that carries each foot, shape (f,), and the foot's position in that joint's frame, (f, 3) [m].

        The position of a sole is the origin of its frame, the position of a point foot is the centre of its sphere.
        """
        joint, centre = self.mounting()
        frames = [self.system.model.frames[int(frame)].placement.translation for frame in self._frame]
        places = [frames[of[0]] if of.size > 1 else centre[of[0]] for of in self._corners]
        return joint[[of[0] for of in self._corners]], np.array(places).reshape(-1, 3)

    def soles(self, q: Array) -> Soles:
        """Return the placement of all feet at configuration `q`, shape (nq,); the last `detect` is not affected."""
        bound, mounted, placed = self._elsewhere
        pin.forwardKinematics(self.system.model, self.system.scratch, q)
        self._detect(bound, -np.inf)
        joint, offset = self.foot_mounting
        origin = mounted.joint_position[joint] + np.einsum("ijk,ik->ij", mounted.joint_rotation[joint], offset)
        nearest = np.array([of[placed.gap[of].argmin()] for of in self._corners], dtype=np.int64)
        corner, alone = placed.point.copy(), [of.size == 1 for of in self._corners]
        origin[alone] = corner[nearest[alone]]
        return Soles(
            frames=tuple(self.frames[of[0]] for of in self._corners),
            patch=self.patch,
            corner=corner,
            origin=origin,
            ground=corner[nearest],
            normal=placed.axes[nearest, 0],
        )

    @cached_property
    def _elsewhere(self) -> tuple[Bound, Mounted, Placed]:
        """The spheres on the joints of the system's scratch data: argument of `detect_kernel`, mounting, placement."""
        position, rotation = placement_views(self.system.scratch.oMi)
        placed = Placed(*map(np.zeros_like, (self.centre, self.gap, self.point, self.axes)))
        mounted = self._mounted()._replace(joint_position=position, joint_rotation=rotation)
        return bind(Spheres(mounted, placed, _room(self.gap.size, self.system.n_velocities))), mounted, placed

    def first(self, n: int) -> Contacts:
        """Return views of the n contacts of the last `detect`, or of the last `find` in compiled code."""
        if n in self._views:
            return self._views[n]
        candidates, (stiffness, damping) = self._candidates, self._rigid
        contacts = self._views[n] = Contacts(
            identity=candidates.identity[:n],
            point=candidates.point[:n],
            axes=candidates.axes[:n],
            gap=candidates.gap[:n],
            mu=candidates.mu[:n],
            jacobian=candidates.jacobian[: 3 * n],
            drift=candidates.drift[: 3 * n],
            surface_velocity=candidates.surface_velocity[: 3 * n],
            stiffness=stiffness[:n],
            damping=damping[:n],
        )
        return contacts


class FootedRobot(Protocol):
    """A robot with known feet, such as `idcontrol.robots.Robot`."""

    def contacts(self, mu: float) -> SphereContacts:
        """Return the robot's feet on flat ground, with their own `System`."""
        ...


def on_flat_ground(robot: FootedRobot, mu: float) -> SphereContacts:
    """Return the feet of `robot` on flat ground with the friction coefficient `mu`; inf means no slip.

    Raises:
        InputError: `robot` is no robot or unusable, or `mu` is not a number from 0 to inf.
    """
    if not hasattr(robot, "contacts"):
        raise InputError(f"{robot!r} is no robot; pass the result of idcontrol.robots.load")
    if not (is_number(mu) and mu >= 0.0):
        raise InputError(f"mu must be a number from 0 to inf, not {mu!r}")
    return robot.contacts(mu)


def _room(k: int, m: int) -> Candidates:
    """Allocate arrays for k spheres on a robot with m velocities."""
    return Candidates(
        identity=np.zeros(k, dtype=np.int64),
        joint=np.zeros(k, dtype=np.int64),
        ground=np.zeros(k, dtype=np.int64),
        point=np.zeros((k, 3)),
        axes=np.zeros((k, 3, 3)),
        gap=np.zeros(k),
        mu=np.zeros(k),
        surface_velocity=np.zeros(3 * k),
        jacobian=np.zeros((3 * k, m)),
        drift=np.zeros(3 * k),
    )


def _one_each(what: str, values: npt.ArrayLike, frames: Sequence[str]) -> Array:
    entries = np.asarray(values)
    if entries.dtype.kind not in "iuf":
        raise InputError(f"the {what} of spheres must be numbers, not {values!r}")
    if entries.shape not in ((), (len(frames),)):
        raise InputError(f"give one {what}, or one for each of {len(frames)} spheres, not shape {entries.shape}")
    each = np.array(np.broadcast_to(entries, (len(frames),)), dtype=np.float64)
    for frame, value in zip(frames, each, strict=True):
        if not value >= 0.0:
            raise InputError(f"the {what} of the sphere on {frame!r} is {value}; it must not be negative")
    return each


def _walls(values: npt.ArrayLike) -> Array:
    walls = np.array(values, dtype=np.float64).reshape(-1, 4)
    length = np.linalg.norm(walls[:, :3], axis=1)
    if not (np.isfinite(walls).all() and (length > 0.0).all()):
        raise InputError(f"a wall needs a finite normal that is not zero, and a finite offset, not {walls.tolist()}")
    walls[:, :3] /= length[:, None]
    return walls


def _friction(values: npt.ArrayLike, frames: Sequence[str]) -> Array:
    mu = _one_each("friction coefficient", values, frames)
    require_friction(mu, [f"the sphere on {frame!r}" for frame in frames])
    return mu


@linked
@njit(cache=True, inner=True, error_model="numpy")
def find(spheres: Bound, contacts: Bound, margin: float) -> int:
    """Run `detect_kernel`, then bind `contacts` to the result like `Contacts.bound`; return the number of contacts."""
    n = detect_kernel(spheres, margin)
    candidates, rows = spheres.borrowed.candidates, 3 * n
    put(
        contacts,
        (
            candidates.identity[:n],
            candidates.axes[:n],
            candidates.gap[:n],
            candidates.mu[:n],
            candidates.surface_velocity[:rows],
            candidates.jacobian[:rows],
            candidates.drift[:rows],
        ),
    )
    return n


@linked
@njit(cache=True, error_model="numpy")
def detect_kernel(spheres: Bound, margin: float) -> int:
    """Measure all spheres and collect contacts, with rows, whose gap is below `margin` [m]; return their number."""
    mounted, placed, candidates = spheres.borrowed
    centre = placed.centre
    n = 0
    for i in range(mounted.joint.shape[0]):
        p, R, offset = (
            mounted.joint_position[mounted.joint[i]],
            mounted.joint_rotation[mounted.joint[i]],
            mounted.offset[i],
        )
        for k in range(3):
            centre[i, k] = p[k] + R[k, 0] * offset[0] + R[k, 1] * offset[1] + R[k, 2] * offset[2]
        placed.gap[i], normal, touch = sphere_gap(
            mounted.terrain, mounted.coefficients, centre[i, 0], centre[i, 1], centre[i, 2], mounted.radius[i]
        )
        for wall in mounted.walls:
            gap = wall[0] * centre[i, 0] + wall[1] * centre[i, 1] + wall[2] * centre[i, 2] - wall[3] - mounted.radius[i]
            if gap < placed.gap[i]:
                placed.gap[i], normal = gap, (wall[0], wall[1], wall[2])
                touch = (
                    centre[i, 0] - mounted.radius[i] * wall[0],
                    centre[i, 1] - mounted.radius[i] * wall[1],
                    centre[i, 2] - mounted.radius[i] * wall[2],
                )
        placed.point[i, 0], placed.point[i, 1], placed.point[i, 2] = touch
        write_axes(normal[0], normal[1], normal[2], mounted.orientation, placed.axes[i])
        if placed.gap[i] >= margin:  # false for a NaN, which must stay visible
            continue
        candidates.identity[n] = i
        candidates.joint[n] = mounted.joint[i]
        assign(candidates.point[n], placed.point[i])
        assign_rows(candidates.axes[n], placed.axes[i])
        candidates.gap[n] = placed.gap[i]
        candidates.mu[n] = mounted.mu[i]
        n += 1
    contact_rows(
        mounted.jacobian,
        mounted.support,
        candidates.joint[:n],
        candidates.ground[:n],
        candidates.point,
        candidates.axes,
        candidates.jacobian[: 3 * n],
    )
    _drift(mounted, placed.centre, candidates, n)
    for i in range(n):
        moving = mounted.surface[candidates.identity[i]]
        for axis in range(3):
            along = candidates.axes[i, axis]
            speed = along[0] * moving[0] + along[1] * moving[1] + along[2] * moving[2]
            candidates.surface_velocity[axis * n + i] = speed
    return n


@njit(cache=True, inner=True, error_model="numpy")
def _drift(mounted: Mounted, centre: Array, candidates: Candidates, n: int) -> None:
    """Write J̇v of the first n contacts: at v̇ = 0, the centre's acceleration minus R α × n̂ (math.md, section 9).

    R is the sphere's radius, α its link's angular acceleration, n̂ the contact's normal.
    """
    velocity, acceleration = mounted.motion
    for i in range(n):
        V, A, c, p = (
            velocity[candidates.joint[i]],
            acceleration[candidates.joint[i]],
            centre[candidates.identity[i]],
            candidates.point[i],
        )
        for axis in range(3):
            candidates.drift[axis * n + i] = 0.0
        for x in range(3):
            y, z = (x + 1) % 3, (x + 2) % 3
            vy, vz = V[y] + V[z + 3] * c[x] - V[x + 3] * c[z], V[z] + V[x + 3] * c[y] - V[y + 3] * c[x]
            a = A[x] + A[y + 3] * p[z] - A[z + 3] * p[y] + V[y + 3] * vz - V[z + 3] * vy
            for axis in range(3):
                candidates.drift[axis * n + i] += candidates.axes[i, axis, x] * a


@njit(cache=True, error_model="numpy")
def _slip_speed(
    jacobian: Array, support: Booleans, joint: Integers, point: Array, axes: Array, v: Array, out: Array
) -> None:
    """Write the tangential speed of the material points at `point`, shape (k,) [m/s]."""
    for i in range(joint.shape[0]):
        w = np.zeros(6)
        for k in range(v.shape[0]):
            if support[joint[i], k]:
                for row in range(6):
                    w[row] += jacobian[row, k] * v[k]
        x, y, z = point[i, 0], point[i, 1], point[i, 2]
        vx, vy, vz = w[0] + w[4] * z - w[5] * y, w[1] + w[5] * x - w[3] * z, w[2] + w[3] * y - w[4] * x
        s = axes[i, 1, 0] * vx + axes[i, 1, 1] * vy + axes[i, 1, 2] * vz
        t = axes[i, 2, 0] * vx + axes[i, 2, 1] * vy + axes[i, 2, 2] * vz
        out[i] = np.sqrt(s * s + t * t)
