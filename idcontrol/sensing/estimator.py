"""Position, orientation and velocity of a floating base from its legs and its IMU: an error-state Kalman filter.

The filter and its notation follow Bloesch et al. 2012 ("State estimation for legged robots: consistent fusion of
leg kinematics and IMU", RSS). The state is the base's position r, velocity v, orientation C (base to world), the feet
p_i, all in the world, and the biases of accelerometer b_f and gyroscope b_w. With the IMU's readings f and w, and the
angular velocity ω_i of each foot::

    r⁺ = r + h v + ½ h² a,   v⁺ = v + h a,   a = C (f - b_f) + g
    C⁺ = C exp(h (w - b_w)),  b_f⁺ = b_f,   b_w⁺ = b_w
    p_i⁺ = p_i + h ω_i × r_i e_z                     beyond the paper: a foot of radius r_i rolls
    measured, standing feet    s_i = Cᵀ (p_i - r)    by the joints

The error state has the errors of r and v, a small rotation φ in the world's axes (``C = exp(φ) Ĉ``), and the errors of
b_f, b_w and p_i, in this order. At touchdown a foot's position is computed from the joints and the estimate. Then the
modelled height of the ground is used as one measurement of the foot's height, with a variance for uneven ground. This
measurement is rejected if it is far from the estimated height (`FAR`). If standing feet move while at least as many
rest, the moving feet slip or their sensors are wrong. The positions of the moving feet are computed again as at
touchdown, but without the height of the ground. Measurements are independent and processed one by one, without a matrix
inverse. Horizontal position and heading cannot be observed, so they drift.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from msgspec import structs

from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import sphere_gap
from idcontrol.kernels.bound import Bound, bind, entry
from idcontrol.kernels.jit import njit
from idcontrol.sensing.contacts import Touch
from idcontrol.sensing.legs import GRAVITY, Legs, orientation, require_points
from idcontrol.types import Array, Booleans, Sensed, State

ACCELERATION_STD = 0.5
"""Standard deviation of the accelerometer, including impacts between two samples [m/s²]."""
RATE_STD = 0.01
"""Standard deviation of the gyroscope [rad/s]."""
DRIFT_F, DRIFT_W = 1e-3, 1e-4
"""Random walk of the biases: standard deviations after a second [m/s², rad/s]."""
CREEP_STD = 0.02
"""Standard deviation of the creep velocity of a standing foot [m/s]."""
KINEMATICS_STD = 1e-3
"""Standard deviation of a foot's position relative to the base [m]."""
GROUND_STD = 0.02
"""Standard deviation of the height of the ground [m]."""
FAR = 3.0
"""Number of standard deviations beyond which the height of the ground is rejected, and a standing foot counts as
moving."""
START_STD = (1e-3, 1e-2, 5e-3, 0.3, 0.02)
"""Initial standard deviations: position, velocity, rotation, biases of accelerometer and gyroscope [m, m/s, rad, m/s²,
rad/s]."""


class Estimate(NamedTuple):
    """The state of the filter, with n feet.

    Attributes:
        r: Position of the base, world frame, shape (3,) [m].
        v: Velocity of the base, world axes, shape (3,) [m/s].
        C: Orientation of the base, base to world, shape (3, 3).
        b_f: Bias of the accelerometer, base axes, shape (3,) [m/s²].
        b_w: Bias of the gyroscope, base axes, shape (3,) [rad/s].
        p: Centres of the feet, world frame, shape (n, 3) [m].
        P: Covariance of the errors of r, v, C (a rotation φ), b_f, b_w and all p_i, in this order, shape
            (15 + 3 n, 15 + 3 n).
        stood: True for feet that stood at the last sensor values, shape (n,).
    """

    r: Array
    v: Array
    C: Array
    b_f: Array
    b_w: Array
    p: Array
    P: Array
    stood: Booleans


class Readings(NamedTuple):
    """Sensor values in the base's axes, and known quantities.

    Attributes:
        f: Specific force of the base, the accelerometer's reading, shape (3,) [m/s²].
        w: Angular velocity of the base, the gyroscope's reading, shape (3,) [rad/s].
        s: Centres of the feet relative to the base, shape (n, 3) [m].
        turning: Angular velocities of the feet, computed from the joints and `w`, shape (n, 3) [rad/s].
        standing: True for standing feet, shape (n,).
        radius: Radii of the feet, shape (n,) [m].
        terrain: `Terrain.parameters` of the known ground.
        coefficients: `Terrain.coefficients`.
        gravity: Acceleration of gravity, world axes, shape (3,) [m/s²].
    """

    f: Array
    w: Array
    s: Array
    turning: Array
    standing: Booleans
    radius: Array
    terrain: Array
    coefficients: Array
    gravity: Array


class BaseEstimator:
    """A stage of sensing: the filter replaces the state of the base by its estimate.

    The filter uses joints, IMU and forces of the feet. Its feet are the spheres: the corners of a sole stand while the
    sole is loaded. Of the sensed state of the base it uses only the angular
    velocity, which is the reading of the gyroscope.

    Attributes:
        estimate: The state of the filter.
    """

    def __init__(self, feet: SphereContacts, start: State, *, by_torque: bool = False) -> None:
        """Begin at the known state `start`.

        Args:
            feet: Foot spheres with a `System` that nothing else uses.
            start: Initial state of the robot.
            by_torque: True if the forces of the feet come from the torques of the legs, not from sensors.

        Raises:
            InputError: A foot is a sole, and `by_torque` is True.
        """
        if by_torque:
            require_points(feet)
        self._by_torque, self._t, self._patch = by_torque, start.t, feet.patch
        self._legs = Legs(feet)
        n, R = feet.radius.size, orientation(start.q)
        self._touch = Touch(feet.n_feet)
        self._legs.update(Sensed(start, np.zeros(self._legs.system.n_actuated), np.zeros(3)), R)
        place = self._legs.feet.place
        deviations = np.repeat((*START_STD, 0.0), [3, 3, 3, 3, 3, 3 * n])
        self.estimate = Estimate(
            r=start.q[:3].copy(),
            v=R @ start.v[:3],
            C=R,
            b_f=np.zeros(3),
            b_w=np.zeros(3),
            p=start.q[:3] + place @ R.T,
            P=np.diag(deviations**2),
            stood=np.zeros(n, dtype=np.bool_),
        )
        self._readings = Readings(
            f=np.zeros(3),
            w=np.zeros(3),
            s=place,
            turning=self._legs.feet.turning,
            standing=np.zeros(n, dtype=np.bool_),
            radius=feet.radius,
            terrain=feet.terrain.parameters,
            coefficients=feet.terrain.coefficients,
            gravity=GRAVITY,
        )
        self._bound = bind((self.estimate, self._readings))
        self._step = entry(filter_step, self._bound, 0.0, start.q, start.v)

    def __call__(self, sensed: Sensed) -> Sensed:
        """Return a copy of `sensed` in which the state of the base and, with `by_torque`, the forces are estimates."""
        state, x, z = sensed.state, self.estimate, self._readings
        h, self._t = max(state.t - self._t, 0.0), state.t
        self._legs.update(sensed, x.C)
        forces = self._legs.forces(x.C) if self._by_torque else state.forces
        state = structs.replace(state, q=state.q.copy(), v=state.v.copy(), forces=forces)
        z.f[:], z.w[:], z.standing[:] = sensed.accelerometer, state.v[3:6], self._touch.feel(state)[self._patch]
        self._step(self._bound, h, state.q, state.v)
        return structs.replace(sensed, state=state)


@njit(cache=True, error_model="numpy")
def filter_step(bound: Bound, h: float, q: Array, v: Array) -> None:  # pragma: no cover - compiled
    """Predict over `h` [s], correct, and write the base's state into `q` (nq,) and `v` (nv,), in Pinocchio's layout."""
    x, z = bound.borrowed
    if h > 0.0:
        predict(x, z, h)
    correct(x, z)
    for i in range(3):
        q[i], v[i], v[3 + i] = x.r[i], 0.0, z.w[i] - x.b_w[i]
        for j in range(3):
            v[i] += x.C[j, i] * x.v[j]
    _write_quaternion(x.C, q[3:7])


@njit(cache=True, inner=True, error_model="numpy")
def predict(x: Estimate, z: Readings, h: float) -> None:  # pragma: no cover - compiled
    """Predict the estimate over `h` [s], in place: ``P⁺ = F P Fᵀ + Q``, with error transition F and process noise Q."""
    C, P, n = x.C, x.P, x.P.shape[0]
    felt, turned = np.zeros(3), np.zeros(3)
    for i in range(3):
        for j in range(3):
            felt[i] += C[i, j] * (z.f[j] - x.b_f[j])
            turned[i] += h * C[i, j] * (z.w[j] - x.b_w[j])
    _ahead(P, C, felt, h, n)
    _ahead(P.T, C, felt, h, n)
    for i in range(3):
        P[3 + i, 3 + i] += (ACCELERATION_STD * h) ** 2
        P[6 + i, 6 + i] += (RATE_STD * h) ** 2
        P[9 + i, 9 + i] += DRIFT_F**2 * h
        P[12 + i, 12 + i] += DRIFT_W**2 * h
    for i in range(15, n):
        P[i, i] += (CREEP_STD * h) ** 2
    for k in range(z.standing.shape[0]):
        if x.stood[k]:
            for i in range(3):
                spin = z.turning[k]
                x.p[k, 0] += h * z.radius[k] * C[1, i] * (spin[i] - x.b_w[i])
                x.p[k, 1] -= h * z.radius[k] * C[0, i] * (spin[i] - x.b_w[i])
    for i in range(3):
        a = felt[i] + z.gravity[i]
        x.r[i] += h * x.v[i] + 0.5 * h * h * a
        x.v[i] += h * a
    _turn(C, turned)


@njit(cache=True, inner=True, error_model="numpy")
def _ahead(P: Array, C: Array, felt: Array, h: float, n: int) -> None:  # pragma: no cover - compiled
    """Replace P by F P in place, with F as in `predict`; to replace P by P Fᵀ, pass Pᵀ as `P`."""
    for k in range(n):
        for i in range(3):
            a, b = (i + 1) % 3, (i + 2) % 3
            P[i, k] += h * P[3 + i, k]
            P[3 + i, k] -= h * (felt[a] * P[6 + b, k] - felt[b] * P[6 + a, k])
            for j in range(3):
                P[3 + i, k] -= h * C[i, j] * P[9 + j, k]
        for i in range(3):
            for j in range(3):
                P[6 + i, k] -= h * C[i, j] * P[12 + j, k]


@njit(cache=True, inner=True, error_model="numpy")
def correct(x: Estimate, z: Readings) -> None:  # pragma: no cover - compiled
    """Correct the estimate by the standing feet, in place, one scalar measurement at a time."""
    P, n = x.P, x.P.shape[0]
    H, error, work, s = np.zeros(n), np.zeros(n), np.empty(n), np.zeros(3)
    slips = contradicting(x, z)
    for k in range(z.standing.shape[0]):
        first, lands = 15 + 3 * k, z.standing[k] and not x.stood[k]
        x.stood[k] = z.standing[k]
        if not z.standing[k]:
            continue
        _relative(x.C, z.s[k], s)
        if lands or slips[k]:
            _land(x, error, s, k)
        if lands:
            gap, normal, _ = sphere_gap(z.terrain, z.coefficients, x.p[k, 0], x.p[k, 1], x.p[k, 2], z.radius[k])
            for i in range(3):
                H[first + i] = normal[i]
            _take(P, error, H, work, -gap, GROUND_STD**2, FAR)
            for i in range(3):
                H[first + i] = 0.0
        if lands or slips[k]:
            continue
        for i in range(3):
            a, b = (i + 1) % 3, (i + 2) % 3
            H[first + i], H[i], H[6 + a], H[6 + b] = 1.0, -1.0, -s[b], s[a]
            _take(P, error, H, work, s[i] + x.r[i] - x.p[k, i], KINEMATICS_STD**2, np.inf)
            H[first + i], H[i], H[6 + a], H[6 + b] = 0.0, 0.0, 0.0, 0.0
    for i in range(3):
        x.r[i] += error[i]
        x.v[i] += error[3 + i]
        x.b_f[i] += error[9 + i]
        x.b_w[i] += error[12 + i]
        for k in range(z.standing.shape[0]):
            x.p[k, i] += error[15 + 3 * k + i]
    _turn(x.C, error[6:9])


@njit(cache=True, inner=True)
def _relative(C: Array, s: Array, out: Array) -> None:  # pragma: no cover - compiled
    """Write ``C s`` into `out`, shape (3,)."""
    for i in range(3):
        out[i] = C[i, 0] * s[0] + C[i, 1] * s[1] + C[i, 2] * s[2]


@njit(cache=True, inner=True)
def contradicting(x: Estimate, z: Readings) -> Booleans:  # pragma: no cover - compiled
    """Return True for each standing foot that moves, shape (n,); all False if more standing feet move than rest.

    A moving foot slips, or its sensor is wrong. A foot moves if a component of its measured position is farther than
    `FAR` standard deviations from the prediction. If most feet move, the prediction of the base is wrong instead.
    """
    P, n, s = x.P, z.standing.shape[0], np.zeros(3)
    moves, moving, resting = np.zeros(n, dtype=np.bool_), 0, 0
    for k in range(n):
        if not (z.standing[k] and x.stood[k]):
            continue
        _relative(x.C, z.s[k], s)
        for i in range(3):
            a, b = (i + 1) % 3, (i + 2) % 3
            index, factor = (15 + 3 * k + i, i, 6 + a, 6 + b), (1.0, -1.0, -s[b], s[a])
            total = KINEMATICS_STD**2
            for p in range(4):
                for q in range(4):
                    total += factor[p] * factor[q] * P[index[p], index[q]]
            moves[k] |= (s[i] + x.r[i] - x.p[k, i]) ** 2 > FAR * FAR * total
        moving += moves[k]
        resting += not moves[k]
    if moving > resting:
        moves[:] = False
    return moves


@njit(cache=True, inner=True, error_model="numpy")
def _land(x: Estimate, error: Array, s: Array, k: int) -> None:  # pragma: no cover - compiled
    """Place foot `k` at ``p = r + s``; the error of p is the error of r, plus ``φ × s``, plus the error of s.

    `s`, shape (3,) [m], is the measured centre of the foot relative to the base, world axes.
    """
    P, first = x.P, 15 + 3 * k
    n = P.shape[0]
    for i in range(3):
        a, b = (i + 1) % 3, (i + 2) % 3
        x.p[k, i] = x.r[i] + s[i]
        error[first + i] = error[i] - s[a] * error[6 + b] + s[b] * error[6 + a]
        for j in range(n):
            P[first + i, j] = P[i, j] - s[a] * P[6 + b, j] + s[b] * P[6 + a, j]
    for i in range(3):
        a, b = (i + 1) % 3, (i + 2) % 3
        for j in range(n):
            P[j, first + i] = P[j, i] - s[a] * P[j, 6 + b] + s[b] * P[j, 6 + a]
        P[first + i, first + i] += KINEMATICS_STD**2


@njit(cache=True, inner=True, error_model="numpy")
def _take(
    P: Array, error: Array, H: Array, work: Array, measured: float, variance: float, far: float
) -> None:  # pragma: no cover - compiled
    """Update `error` and its covariance `P` by one scalar measurement of ``H error``.

    A measurement that differs from ``H error`` by more than `far` standard deviations is ignored.
    """
    n = P.shape[0]
    total = variance
    for i in range(n):
        work[i] = 0.0
    for j in range(n):
        if H[j] != 0.0:
            measured -= H[j] * error[j]
            for i in range(n):
                work[i] += H[j] * P[j, i]
    for j in range(n):
        total += H[j] * work[j]
    if measured * measured > far * far * total:
        return
    share = 1.0 / total
    for i in range(n):
        error[i] += share * work[i] * measured
        for j in range(n):
            P[i, j] -= work[i] * work[j] * share


@njit(cache=True, inner=True, error_model="numpy")
def _turn(C: Array, phi: Array) -> None:  # pragma: no cover - compiled
    """Update ``C ← exp(φ) C`` by Rodrigues' formula, then move C towards the nearest rotation matrix."""
    x, y, z = phi[0], phi[1], phi[2]
    square = x * x + y * y + z * z
    angle = np.sqrt(square)
    one = np.sin(angle) / angle if angle > 1e-4 else 1.0 - square / 6.0
    two = (1.0 - np.cos(angle)) / square if angle > 1e-4 else 0.5 - square / 24.0
    E, old, product = np.empty((3, 3)), C.copy(), np.empty((3, 3))
    E[0, 0], E[0, 1], E[0, 2] = 1.0 - two * (y * y + z * z), two * x * y - one * z, two * x * z + one * y
    E[1, 0], E[1, 1], E[1, 2] = two * x * y + one * z, 1.0 - two * (x * x + z * z), two * y * z - one * x
    E[2, 0], E[2, 1], E[2, 2] = two * x * z - one * y, two * y * z + one * x, 1.0 - two * (x * x + y * y)
    for i in range(3):
        for j in range(3):
            product[i, j] = E[i, 0] * old[0, j] + E[i, 1] * old[1, j] + E[i, 2] * old[2, j]
    # C (3 - Cᵀ C) / 2
    for i in range(3):
        for j in range(3):
            C[i, j] = 1.5 * product[i, j]
            for k in range(3):
                inner = product[0, k] * product[0, j] + product[1, k] * product[1, j] + product[2, k] * product[2, j]
                C[i, j] -= 0.5 * product[i, k] * inner


@njit(cache=True, inner=True, error_model="numpy")
def _write_quaternion(C: Array, out: Array) -> None:  # pragma: no cover - compiled
    """Write the unit quaternion (x, y, z, w) of `C` into `out`, by the method of Shepperd 1978."""
    trace = C[0, 0] + C[1, 1] + C[2, 2]
    best = 3
    most = trace
    for i in range(3):
        if C[i, i] > most:
            best, most = i, C[i, i]
    if best == 3:
        out[3] = 1.0 + trace
        for i in range(3):
            a, b = (i + 1) % 3, (i + 2) % 3
            out[i] = C[b, a] - C[a, b]
    else:
        a, b = (best + 1) % 3, (best + 2) % 3
        out[best] = 1.0 + 2.0 * C[best, best] - trace
        out[3] = C[b, a] - C[a, b]
        out[a], out[b] = C[best, a] + C[a, best], C[best, b] + C[b, best]
    length = np.sqrt(out[0] ** 2 + out[1] ** 2 + out[2] ** 2 + out[3] ** 2)
    for i in range(4):
        out[i] /= length
