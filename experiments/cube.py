r"""Properties of the tossed cube, estimated from the record alone: scale, mass centre, inertia, impacts.

The record comes from the DAIR Lab (github.com/DAIRLab/contact-nets, data/tosses_processed, BSD 3-clause). One file
``cube_tosses.npz`` has the arrays ``rows`` (x y z qw qx qy qz, then filtered velocities, which are not used),
``offsets`` (toss k is ``rows[offsets[k]:offsets[k+1]]``) and ``ids``.

No contact law is assumed. In flight the mass centre falls with g, which gives the scale of lengths and the mass centre.
The spin of an isotropic body is constant in flight, which gives its velocities before and after an impact. If a single
corner hits, the change of momentum gives the impulse and its friction, the change of angular momentum gives the
inertia, and the corner's vertical velocity before and after gives the restitution.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from scipy.spatial.transform import Rotation

from idcontrol.errors import InputError
from idcontrol.experiments.case import GRAVITY
from idcontrol.types import Array, Integers, State

PERIOD: Final = 1.0 / 148.0
"""Time between two rows [s], as the source states: the record cannot tell a scale of time from a scale of length."""

SIGNS: Final = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])
"""Corners of a cube of half width 1."""

CLEAR_M = 2e-3
"""Height of the lowest corner above which the cube flies, ten times the error of the record."""

FLIGHT_ROWS = 16
"""Largest number of rows of flight from which the state before contact is fitted."""

LEAST_ROWS = 6
"""Minimum number of rows in flight for an estimate of accelerations."""

AFTER_ROWS = 4
"""Number of rows after a first impact from which the velocity after the impact is fitted."""

NEWTON_STEPS = 5
"""Newton iterations for the instant of touch between two rows."""

ALONE_M = 12e-3
"""Height of the second lowest corner above which the lowest corner counts as hitting alone."""


class Cube(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cube, in true lengths.

    Attributes:
        scale: True lengths divided by recorded lengths.
        half_width_m: Half of the cube's width.
        mass_kg: Mass, as the source states it; the motion of a rigid toss does not depend on it.
        inertia_kg_m2: Moment of inertia about any axis through the mass centre.
        centre_m: Mass centre relative to the middle of the cube, body axes.
    """

    scale: float = 1.0
    half_width_m: float = 0.0524
    mass_kg: float = 0.37
    inertia_kg_m2: float = 0.00081
    centre_m: tuple[float, float, float] = (0.0, 0.0, 0.0)

    @property
    def corners(self) -> Array:
        """Return the corners relative to the middle, body axes, shape (8, 3) [m]."""
        return self.half_width_m * SIGNS


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """One toss in recorded lengths.

    Attributes:
        number: Index of the toss in the file.
        position: The middle of the cube, shape (rows, 3) [m].
        orientation: Quaternions (x, y, z, w), body to world, shape (rows, 4).
    """

    number: int
    position: Array
    orientation: Array

    def flight(self) -> int:
        """Return the number of rows before a corner reaches the board, measured or extrapolated from two rows.

        If no corner reaches the board, this is the number of all rows.
        The extrapolation finds a cube that hits and rebounds between two rows. The half width is taken from the source,
        as the scale is not known yet.
        """
        low = (_turned(self.orientation, STATED.corners) + self.position[:, None])[:, :, 2].min(axis=1)
        ahead = np.concatenate((low[:2], 2.0 * low[1:-1] - low[:-2]))
        close_rows = np.flatnonzero(np.minimum(low, ahead) < CLEAR_M)
        return int(close_rows[0]) if close_rows.size else len(low)


RESTING_ROWS: Final = 15
"""A cube rests if, for this many rows, no corner is faster than `RESTING_M_S`."""
RESTING_M_S: Final = 0.02
"""Largest speed of a corner of a resting cube [m/s]."""
TAKEN_M: Final = 0.01
"""Motion above which a resting cube has been picked up [m]."""

STATED: Final = Cube()
"""The cube as the source states it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toss:
    """One toss from the last row of its flight until the cube is picked up, in true lengths.

    Attributes:
        number: Index of the toss in the file.
        start: State in that row, fitted to the flight: configuration and velocity of a free-flyer at the cube's middle.
        pose: Measured poses from that row on, position and quaternion (x, y, z, w), shape (rows, 7).
        corners: Measured corners, shape (rows, 8, 3) [m].
    """

    number: int
    start: State
    pose: Array
    corners: Array


def read(path: Path) -> list[Track]:
    """Return the tosses of a file.

    Raises:
        InputError: The file cannot be read, or is not a record of tosses.
    """
    try:
        with np.load(path) as data:
            rows, offsets = np.asarray(data["rows"], dtype=np.float64), np.asarray(data["offsets"], dtype=np.int64)
    except (OSError, KeyError, ValueError) as error:
        raise InputError(f"{path} is no record of tosses ({error}); it needs the arrays rows and offsets") from None
    if (
        rows.ndim != 2
        or rows.shape[1] < 7
        or offsets.size < 2
        or offsets[-1] != len(rows)
        or (np.diff(offsets) < 1).any()
    ):
        raise InputError(f"{path} is no record of tosses: rows {rows.shape}, offsets {offsets.shape}")
    tosses = [rows[a:b] for a, b in pairwise(offsets)]
    return [
        Track(number=k, position=toss[:, :3].copy(), orientation=toss[:, [4, 5, 6, 3]].copy())
        for k, toss in enumerate(tosses)
    ]


def prepare(track: Track, cube: Cube) -> Toss | None:
    """Return the toss in true lengths with the state before contact.

    Return None if there is no contact, or fewer than two rows before it. A parabola with the known gravity is fitted to
    the mass centre, and a constant rate of turn to the orientation, over the last `FLIGHT_ROWS` rows of flight.
    """
    ends = track.flight()
    begins = max(0, ends - FLIGHT_ROWS)
    if ends - begins < 2 or ends == len(track.position):
        return None
    last, rows = ends - 1, slice(begins, ends)
    turn = Rotation.from_quat(track.orientation)
    centre, velocity, twist, spin = _motion(track, cube, rows, last)
    first = Rotation.from_rotvec(twist) * turn[last]
    arm = first.apply(cube.centre_m)
    back = first.inv()
    position = cube.scale * track.position
    corners = position[:, None] + _turned(track.orientation, cube.corners)
    end = last + undisturbed(corners[last:])
    return Toss(
        number=track.number,
        start=State(
            t=0.0,
            q=np.concatenate((centre - arm, first.as_quat())),
            v=np.concatenate((back.apply(velocity - np.cross(spin, arm)), back.apply(spin))),
        ),
        pose=np.column_stack((position, track.orientation))[last:end],
        corners=corners[last:end],
    )


def undisturbed(corners: Array) -> int:
    """Return the number of rows before the resting cube is picked up; all rows if it never is.

    Args:
        corners: Measured positions of the corners, shape (rows, 8, 3) [m].
    """
    still = np.linalg.norm(np.diff(corners, axis=0), axis=2).max(axis=1) < RESTING_M_S * PERIOD
    rests = np.convolve(still, np.ones(RESTING_ROWS), "valid") == RESTING_ROWS
    if len(still) < RESTING_ROWS or not rests.any():
        return len(corners)
    rest = int(np.argmax(rests))
    away = np.linalg.norm(corners[rest:] - corners[rest], axis=2).max(axis=1) > TAKEN_M
    return rest + int(np.argmax(away)) if away.any() else len(corners)


def corners_of(pose: Array, cube: Cube) -> Array:
    """Return corners of a cube in the world, shape (rows, 8, 3) [m], from its poses, shape (rows, 7)."""
    return pose[:, None, :3] + _turned(pose[:, 3:], cube.corners)


def calibrate(tracks: Sequence[Track]) -> Cube:
    """Return the scale, half width, mass centre and inertia of the cube from flights, poses at rest and single impacts.

    Scale and mass centre e minimize the residual of ``position + R e - parabola`` over all flights, whose acceleration
    is gravity divided by the scale. The half width is the scale times the median over tosses of the mean height in the
    last three rows. The inertia is the regression coefficient of the angular impulse of single corners on the change of
    the spin; without such an impact it stays as the source states it.

    Raises:
        InputError: There are too few rows of flight.
    """
    normal, right = np.zeros((4, 4)), np.zeros(4)
    for track in tracks:
        rows = track.flight()
        if rows < LEAST_ROWS:
            continue
        t = PERIOD * np.arange(rows)
        basis = np.linalg.qr(np.column_stack((np.ones(rows), t)))[0]
        turn = Rotation.from_quat(track.orientation[:rows]).as_matrix()
        for axis in range(3):
            known = np.column_stack((turn[:, axis], 0.5 * t * t * (axis == 2)))
            known = known - basis @ (basis.T @ known)
            normal += known.T @ known
            right += known.T @ track.position[:rows, axis]
    try:
        *offset, fall = np.linalg.solve(normal, right)
    except np.linalg.LinAlgError:
        raise InputError("the tosses have too few rows of flight to find scale and mass centre from") from None
    scale = -GRAVITY / fall
    height = np.median([track.position[-3:, 2].mean() for track in tracks])
    cube = Cube(
        scale=float(scale),
        half_width_m=float(scale * height),
        centre_m=(float(-scale * offset[0]), float(-scale * offset[1]), float(-scale * offset[2])),
    )
    hits = impacts(tracks, cube)
    if not hits.number.size:
        return cube
    return msgspec.structs.replace(cube, inertia_kg_m2=hits.inertia)


@dataclass(frozen=True, slots=True, kw_only=True)
class Impacts:
    """First impacts of n tosses; in each, one corner alone touches until `AFTER_ROWS` rows after the impact.

    Attributes:
        number: Numbers of the tosses, shape (n,).
        spin: Change of the angular velocity, world axes, shape (n, 3) [rad/s].
        moment: Angular impulse about the mass centre if the impulse acts at the instant of touch, shape (n, 3) [N m s].
        drift: Derivative of `moment` with respect to the instant of the impulse, shape (n, 3) [N m].
        restitution: Vertical speed of the corner after the impact over its speed before, shape (n,).
        friction: Horizontal over vertical impulse, shape (n,).
    """

    number: Integers
    spin: Array
    moment: Array
    drift: Array
    restitution: Array
    friction: Array

    @property
    def inertia(self) -> float:
        """Return the regression coefficient of `moment` on `spin`, which estimates the moment of inertia [kg m²]."""
        return float((self.moment * self.spin).sum() / (self.spin * self.spin).sum())

    @property
    def delay(self) -> float:
        """Return the mean delay from touch to impulse that best explains the change of the spin [s]."""
        known = np.column_stack((self.spin.ravel(), -self.drift.ravel()))
        return float(np.linalg.lstsq(known, self.moment.ravel())[0][1])


def impacts(tracks: Sequence[Track], cube: Cube) -> Impacts:
    """Return the first impact of each track, if only one corner hits.

    The impulse is the change of momentum less gravity's part; the motions before and after are extrapolated to the
    instant of touch.
    """
    collected: list[tuple[int, Array, Array, Array, float, float]] = []
    for track in tracks:
        hit = track.flight()
        after = slice(hit + 1, hit + 1 + AFTER_ROWS)
        if hit < 2 or after.stop > len(track.position):
            continue
        heights = _turned(track.orientation, cube.corners)[:, :, 2] + cube.scale * track.position[:, 2:]
        first, second = np.argsort(heights[hit])[:2]
        if heights[hit, second] < ALONE_M or np.sort(heights[after], axis=1)[:, 1].min() < 2.0 * CLEAR_M:
            continue
        last = hit - 1
        centre, came, twist, spin = _motion(track, cube, slice(max(0, hit - FLIGHT_ROWS), hit), last)
        _, leaves, _, spin_after = _motion(track, cube, after, last)
        turn = Rotation.from_rotvec(twist) * Rotation.from_quat(track.orientation[last])
        t, arm, speed = 0.0, np.zeros(3), -1.0
        for _ in range(NEWTON_STEPS):
            arm = (Rotation.from_rotvec(t * spin) * turn).apply(cube.corners[first] - cube.centre_m)
            speed = came[2] - GRAVITY * t + np.cross(spin, arm)[2]
            t -= (centre[2] + came[2] * t - 0.5 * GRAVITY * t * t + arm[2]) / speed
        impulse = cube.mass_kg * (leaves - came)
        collected.append(
            (
                track.number,
                spin_after - spin,
                np.cross(arm, impulse),
                np.cross(np.cross(0.5 * (spin + spin_after), arm), impulse),
                -(leaves[2] - GRAVITY * t + np.cross(spin_after, arm)[2]) / speed,
                float(np.hypot(*impulse[:2]) / impulse[2]),
            )
        )
    number, turned, moment, drift, restitution, friction = zip(*collected, strict=True) if collected else ((),) * 6
    return Impacts(
        number=np.array(number, dtype=np.int64),
        spin=np.array(turned).reshape(-1, 3),
        moment=np.array(moment).reshape(-1, 3),
        drift=np.array(drift).reshape(-1, 3),
        restitution=np.array(restitution, dtype=np.float64),
        friction=np.array(friction, dtype=np.float64),
    )


def _motion(track: Track, cube: Cube, rows: slice, at: int) -> tuple[Array, Array, Array, Array]:
    """Return the free motion fitted to `rows`, at the time of row `at`.

    Returns:
        Mass centre [m] and its velocity [m/s], rotation vector from the measured orientation at `at` [rad] and angular
        velocity [rad/s], world axes.
    """
    turn = Rotation.from_quat(track.orientation[rows])
    t = PERIOD * (np.arange(rows.start, rows.stop) - at)
    centre = cube.scale * track.position[rows] + turn.apply(cube.centre_m)
    centre[:, 2] += 0.5 * GRAVITY * t * t
    turned = (turn * Rotation.from_quat(track.orientation[at]).inv()).as_rotvec()
    line = np.column_stack((np.ones(t.size), t))
    (place, velocity), (twist, spin) = (np.linalg.lstsq(line, what)[0] for what in (centre, turned))
    return place, velocity, twist, spin


def _turned(orientation: Array, points: Array) -> Array:
    """Return points in body axes turned into world axes by each orientation, shape (rows, points, 3)."""
    return np.einsum("tij,kj->tki", Rotation.from_quat(orientation).as_matrix(), points)
