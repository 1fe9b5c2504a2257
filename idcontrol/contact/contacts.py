"""Contacts as plain data, and the kernel that writes their rows (math.md, section 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from operator import is_
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from idcontrol.errors import InputError
from idcontrol.kernels.bound import Bound, bind
from idcontrol.kernels.jit import njit
from idcontrol.types import Array, Booleans, Integers


def _unset() -> Array:
    return np.zeros(0)


def _plain(values: npt.NDArray[Any], kind: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return the array itself if kernels accept it, otherwise a writable, contiguous copy of type `kind`."""
    # np.require is ten times as slow
    return values if values.dtype == kind and values.flags.carray else np.require(values, kind, ("C", "W"))


_DEFAULTS = (("surface_velocity", 3, 0.0), ("drift", 3, 0.0), ("stiffness", 1, np.inf), ("damping", 1, 0.0))
"""Name of each optional field, number of its entries per contact, and its default."""

_REAL, _INTEGER = np.dtype(np.float64), np.dtype(np.int64)

Packed: TypeAlias = tuple[Integers, Array, Array, Array, Array, Array, Array]
"""The fields of `ContactArrays` as a plain tuple, which Numba passes in a quarter of the time of a named tuple."""

AnyContacts: TypeAlias = Bound | Packed
"""Contacts for a compiled step: `Contacts.bound`, or a tuple from compiled code."""


class ContactArrays(NamedTuple):
    """The fields of `Contacts` that kernels use."""

    identity: Integers
    axes: Array
    gap: Array
    mu: Array
    surface_velocity: Array
    jacobian: Array
    drift: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Contacts:
    """The n contact points of one step. A contact pushes body A along the normal, and body B (or the world) against it.

    Rows are in block order: all normals, then all first tangents, then all second tangents. Fields with a default are
    optional. A detector may return views of its own arrays: they are valid until its next call; `take` copies.

    Attributes:
        identity: Number of each contact, the same from step to step, shape (n,).
        point: Contact points, world frame, shape (n, 3) [m].
        axes: Rows are normal (to body A), first and second tangent, world frame, right-handed, shape (n, 3, 3).
        gap: Signed distance φ, positive if the bodies are apart, shape (n,) [m].
        mu: Friction coefficients, shape (n,); inf means no slip.
        jacobian: Contact rows J = [N; S; T], shape (3n, m): ``J v`` is the velocity of A relative to B along the axes.
        surface_velocity: Velocity of the surface, shape (3n,) [m/s]; ``J v`` minus this velocity is the slip. It is 0
            on still ground (the default), the speed of a conveyor, or a decaying velocity for a landing foot
            (`idcontrol.contact.landing`).
        drift: ``J̇ v``, the contact acceleration at v̇ = 0, shape (3n,) [m/s²]; 0 (the default) if unknown.
        stiffness: Normal stiffness, shape (n,) [N/m]; inf (the default) is rigid.
        damping: Normal damping, shape (n,) [N s/m]; 0 by default.

    Raises:
        InputError: Shapes do not match, or identities are no whole numbers.
    """

    identity: Integers
    point: Array
    axes: Array
    gap: Array
    mu: Array
    jacobian: Array
    surface_velocity: Array = field(default_factory=_unset)
    drift: Array = field(default_factory=_unset)
    stiffness: Array = field(default_factory=_unset)
    damping: Array = field(default_factory=_unset)
    _packed: Packed | None = field(default=None, init=False, repr=False, compare=False)
    _bound: Bound | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        n = self.identity.shape[0]
        if n > 0:
            if self.identity.dtype.kind not in "iu":  # after truncation to whole numbers two contacts could be equal
                raise InputError(f"contacts: identity has type {self.identity.dtype}; it must be whole numbers")
            for name, size, value in _DEFAULTS:
                if getattr(self, name).shape[0] == 0:
                    object.__setattr__(self, name, np.full(size * n, value))
        if not (
            self.identity.shape == (n,)
            and self.point.shape == (n, 3)
            and self.axes.shape == (n, 3, 3)
            and self.gap.shape == self.mu.shape == self.stiffness.shape == self.damping.shape == (n,)
            and self.surface_velocity.shape == self.drift.shape == (3 * n,)
            and self.jacobian.ndim == 2
            and self.jacobian.shape[0] == 3 * n
        ):
            raise InputError(self._misfit(n))

    @property
    def packed(self) -> Packed:
        """Return the fields of `ContactArrays` as contiguous arrays; fields of another type or layout are copied."""
        if self._packed is not None:
            return self._packed
        arrays = (self.axes, self.gap, self.mu, self.surface_velocity, self.jacobian, self.drift)
        axes, gap, mu, surface_velocity, jacobian, drift = reals = tuple(_plain(values, _REAL) for values in arrays)
        packed = _plain(self.identity, _INTEGER), axes, gap, mu, surface_velocity, jacobian, drift
        # fields are converted at every use, since their owner may have written into the originals
        if packed[0] is self.identity and all(map(is_, arrays, reals)):
            object.__setattr__(self, "_packed", packed)
        return packed

    @property
    def bound(self) -> Bound:
        """Return `packed` as one argument of compiled calls."""
        if self._bound is not None:
            return self._bound
        bound = bind(self.packed)
        if self._packed is not None:
            object.__setattr__(self, "_bound", bound)
        return bound

    def __reduce__(self) -> tuple[Any, ...]:
        """Build copies and unpickled contacts from the fields, so that they bind their own arrays."""
        return _of_fields, ({each.name: getattr(self, each.name) for each in fields(self) if each.init},)

    def _misfit(self, n: int) -> str:
        wanted = {name: (n, *tail) for name, tail in zip(_EACH, ((), (3,), (3, 3), (), (), (), ()), strict=True)}
        wanted |= {"surface_velocity": (3 * n,), "drift": (3 * n,), "jacobian": (3 * n, *self.jacobian.shape[1:2])}
        for name, shape in wanted.items():
            if getattr(self, name).shape != shape:
                return f"contacts: {name} has shape {getattr(self, name).shape}; {n} identities need {shape}"
        return f"contacts: jacobian has {self.jacobian.ndim} axes; it needs 2, shape ({3 * n}, m)"

    def __len__(self) -> int:
        return len(self.identity)

    @property
    def arrays(self) -> ContactArrays:
        """Return `packed` as a named tuple for kernels."""
        return ContactArrays(*self.packed)

    @property
    def N(self) -> Array:
        """Return the normal rows, shape (n, m): a view."""
        return self.jacobian[: len(self)]

    @property
    def S(self) -> Array:
        """Return the rows of the first tangent, shape (n, m): a view."""
        return self.jacobian[len(self) : 2 * len(self)]

    @property
    def T(self) -> Array:
        """Return the rows of the second tangent, shape (n, m): a view."""
        return self.jacobian[2 * len(self) :]

    @staticmethod
    def none(m: int) -> Contacts:
        """Return no contacts, for a robot with `m` velocities."""
        return Contacts(
            identity=np.zeros(0, dtype=np.int64),
            point=np.zeros((0, 3)),
            axes=np.zeros((0, 3, 3)),
            gap=np.zeros(0),
            mu=np.zeros(0),
            jacobian=np.zeros((0, m)),
        )

    def take(self, index: Integers | Booleans | Sequence[int]) -> Contacts:
        """Return the contacts at `index` (positions, or a mask of shape (n,)), in that order, as copies."""
        which = np.asarray(index)
        if which.dtype != np.bool_:
            which = which.astype(np.int64)
        return Contacts(
            **{name: getattr(self, name)[which] for name in _EACH},
            **{name: _flat(_blocks(self, name)[:, which]) for name in _ROWS},
        )

    def force_world(self, impulses: Array, h: float) -> Array:
        """Return the mean force of each contact on body A over a step, world axes, shape (n, 3) [N].

        Args:
            impulses: Normal, first and second tangential impulse of each contact, shape (n, 3) [N s].
            h: Length of the step [s].
        """
        force: Array = (impulses[:, None, :] @ self.axes)[:, 0] / h
        return force


_EACH = ("identity", "point", "axes", "gap", "mu", "stiffness", "damping")
"""Fields with an entry per contact; the fields of `_ROWS` have an entry per row, in block order."""
_ROWS = ("jacobian", "surface_velocity", "drift")


def _blocks(contacts: Contacts, name: str) -> npt.NDArray[Any]:
    """Return the field `name`, one of `_ROWS`, in blocks: normals, first tangents, second tangents; (3, n, ...)."""
    rows: npt.NDArray[Any] = getattr(contacts, name)
    return rows.reshape(3, len(contacts), *rows.shape[1:])


def _flat(blocks: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return rows in block order, shape (3 n, ...)."""
    return blocks.reshape(-1, *blocks.shape[2:])


def _of_fields(values: dict[str, Any]) -> Contacts:
    return Contacts(**values)


class Detector(Protocol):
    """A detector of contacts in the pose for which a robot's multibody terms were last updated."""

    def detect(self, margin: float) -> Contacts:
        """Return the contacts whose gap is below `margin` [m]; valid until the next call."""
        ...


def concatenate(parts: Sequence[Contacts]) -> Contacts:
    """Concatenate the contacts of `parts` (at least one, of the same robot); rows are again in block order.

    The result is a copy; from a single part, it is the part itself.
    """
    if len(parts) == 1:
        return parts[0]
    return Contacts(
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in _EACH},
        **{name: _flat(np.concatenate([_blocks(part, name) for part in parts], axis=1)) for name in _ROWS},
    )


@njit(cache=True, error_model="numpy")
def write_axes(nx: float, ny: float, nz: float, angle: float, out: Array) -> None:
    """Write the axes of a contact: rows unit normal n, first tangent s, second tangent t = n × s.

    The tangent s is the world x axis projected onto the tangent plane, then turned by `angle` about n. For |n_x| ≥ 0.99
    the z axis replaces the x axis (the -z axis for n_x > 0), and s may jump at this border.

    Args:
        nx: First component of the unit normal n, world frame.
        ny: Second component of n.
        nz: Third component of n.
        angle: Orientation of the friction pyramid about the normal [rad].
        out: Overwritten, shape (3, 3).
    """
    if abs(nx) < 0.99:
        sx, sy, sz = 1.0 - nx * nx, -nx * ny, -nx * nz
    else:
        ez = -1.0 if nx > 0.0 else 1.0
        sx, sy, sz = -ez * nz * nx, -ez * nz * ny, ez * (1.0 - nz * nz)
    scale = 1.0 / np.sqrt(sx * sx + sy * sy + sz * sz)
    sx, sy, sz = scale * sx, scale * sy, scale * sz
    tx, ty, tz = ny * sz - nz * sy, nz * sx - nx * sz, nx * sy - ny * sx
    c, s = np.cos(angle), np.sin(angle)
    out[0, 0], out[0, 1], out[0, 2] = nx, ny, nz
    out[1, 0], out[1, 1], out[1, 2] = c * sx + s * tx, c * sy + s * ty, c * sz + s * tz
    out[2, 0], out[2, 1], out[2, 2] = c * tx - s * sx, c * ty - s * sy, c * tz - s * sz


@njit(cache=True, error_model="numpy")
def axes_of(normal: Array, angle: float) -> Array:
    """Return the axes of n contacts, shape (n, 3, 3), from their unit normals, shape (n, 3); see `write_axes`."""
    axes = np.empty((normal.shape[0], 3, 3))
    for i in range(normal.shape[0]):
        write_axes(normal[i, 0], normal[i, 1], normal[i, 2], angle, axes[i])
    return axes


@njit(cache=True, error_model="numpy")
def contact_rows(
    jacobian: Array, support: Booleans, joint_a: Integers, joint_b: Integers, point: Array, axes: Array, out: Array
) -> None:
    """Write the rows [N; S; T] of n contacts: velocity of A minus velocity of B at one point, along the axes.

    Column k of the Jacobian of a point p on the link of joint j is ``Jw_lin + Jw_ang × p`` if velocity k moves joint j,
    otherwise 0 (math.md, section 2). A velocity that moves both bodies has a column of exact zeros. The rows of both
    bodies are taken at the *same* point; otherwise a pair of impulses would produce a torque (math.md, section 12.5).

    Args:
        jacobian: `System.jacobian`: spatial Jacobian at the world origin, linear rows first, shape (6, m).
        support: `System.support`: True where a velocity moves a joint, shape (n_joints, m).
        joint_a: Joint that carries body A of each contact, shape (n,); 0 is the world.
        joint_b: Joint that carries body B, shape (n,); 0 is the world.
        point: Contact points, world frame, shape (n, 3) [m].
        axes: The rows are the normal, the first and the second tangent, shape (n, 3, 3).
        out: Overwritten with the rows in block order, shape (3n, m).
    """
    n, m = joint_a.shape[0], jacobian.shape[1]
    for i in range(n):
        x, y, z = point[i, 0], point[i, 1], point[i, 2]
        a, b = joint_a[i], joint_b[i]
        for k in range(m):
            if support[a, k] == support[b, k]:
                for axis in range(3):
                    out[axis * n + i, k] = 0.0
                continue
            sign = 1.0 if support[a, k] else -1.0
            vx = sign * (jacobian[0, k] + jacobian[4, k] * z - jacobian[5, k] * y)
            vy = sign * (jacobian[1, k] + jacobian[5, k] * x - jacobian[3, k] * z)
            vz = sign * (jacobian[2, k] + jacobian[3, k] * y - jacobian[4, k] * x)
            for axis in range(3):
                out[axis * n + i, k] = axes[i, axis, 0] * vx + axes[i, axis, 1] * vy + axes[i, axis, 2] * vz
