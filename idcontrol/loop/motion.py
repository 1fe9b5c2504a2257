"""Compare a robot's motion with the torques of its drives: a dead or weak drive, or an encoder that lies.

The residual is the part of the equations of motion that the torques sent to the drives do not explain,

    r = M v̇ + c - Pᵀτ = Jᵀf + what is wrong.

Feet may touch the ground whenever they want, so the forces f on all feet are those that explain most of r, in the least
squares with weights W (`BASE`, `JOINT`). Six numbers remain, as many as the base has velocities:

    z = N W r,    N = 1 - (W Jᵀ) (W Jᵀ)⁺.

An error δ of the torque of joint j alone would leave ``z = δ N W e_j``. A joint is faulty if this explains more than
`ALONE` of ``‖z‖²`` and if δ is large. A push, a payload or a contact of another body leave a z in another direction:
one joint explains at most 0.7 of a force on the base (measured in walks of `links` and `go1`). In a symmetric stance,
opposite hips look alike: a joint that explains more than `ALIKE` of what the best joint does may be the faulty one.

Positions of joints, torques and IMU pass through the same filter, two lags of `SMOOTHING_S` in a row, which also
differentiates: ``q̇ = (q₁ - q₂)/T`` and ``q̈ = (q - 2 q₁ + q₂)/T²``. Velocities that the drives compute are used only for
the torques of their damping, which are uncertain by the damping times the difference from q̇. Readings may be late by
`LAG_S`, within which commanded torques and targets change: the effect of that change on δ is allowed. The
accelerometer's reading is the acceleration of the base, by the principle of equivalence, so the attitude does not
matter. The mean of z is subtracted; it has the offsets of encoders and accelerometer. A push is too short to become
usual: a z farther than `STEADY` from the mean moves it as if it were that far. The torque of a joint's stop is no error
of its drive.

**Weak drives.** Dry friction hides a weak drive from this, but a lost share of the torque is proportional to the torque
over a long time, and friction is bounded. z is therefore regressed on the trace ``τ N W e_j`` of each torque τ over
`USUAL_S`: the lost share is ``-Σ δ τ s / Σ τ² s`` with ``s = ‖N e_j‖²``. It counts if it is more than `LOST` beyond the
friction over the root mean square of τ, if it explains more than `WEAK` of ``‖z‖²``, and if no joint of another leg
lacks half as much, because joints of different legs look alike in a symmetric stance; all this for `LASTING_S`. In
walks of `go1` and `anymal` a drive at 75 % explains 0.38 to 0.91 of ``‖z‖²``, mostly more than 0.5; with a payload of a
quarter of the weight on the base of a sound robot, the torque of one joint explains at most 0.25 on level ground.

Source: residuals of De Luca, Albu-Schäffer, Haddadin and Hirzinger (2006), and their isolation in Haddadin, De Luca and
Albu-Schäffer (2017), "Robot collisions: a survey on detection, isolation, and identification", IEEE T-RO 33(6).
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from idcontrol.contact.spheres import SphereContacts
from idcontrol.dynamics.system import Terms
from idcontrol.kernels.bound import Bound, bind, entry
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import assign, cholesky, solve_lower, solve_lower_transposed
from idcontrol.kernels.placements import placement_views
from idcontrol.loop.safety import Fault
from idcontrol.loop.stance import nobody, slipping
from idcontrol.sensing.legs import GRAVITY
from idcontrol.types import Array, Booleans, Integers, Sensed

SMOOTHING_S: Final = 0.01
"""Time constant T of each of the two lags [s]: position steps of an encoder with 4096 counts then are torques below
1 % of the limits of `links` and `go1`."""
SETTLE_S: Final = 0.06
"""Time after a restart until the filters have settled [s]."""
LEARNT_S: Final = 0.05
"""Further time for which the mean of z is learnt, and nothing is judged [s]."""
USUAL_S: Final = 0.5
"""Time constant of the mean of z, as long as z is within `STEADY` of it, and of the lost shares of weak drives [s]."""
STEADY: Final = 3.0
"""Largest distance by which z moves its mean, as in steady walks: 2.7 for 99 % of the states of `anymal` with late
readings, 50 after a push of 0.6 m/s."""
STOP: Final = 0.03
"""Distance from its stop at which a joint may touch it, without the motion within the filter's delay [rad or m]."""
ALONE: Final = 0.9
"""Share of ``‖z‖²`` that a single joint must explain."""
ALIKE: Final = 0.9
"""Share of what the best joint explains, above which another joint may be the faulty one: the faulty hip explains at
least 0.93 of it where the opposite hip explains more (`go1`, `anymal`, 5 of 71 faults)."""
BASE: Final = 0.03
"""Standard deviation of the force on the base as a share of the weight; of the moment, times `ARM_M`."""
ARM_M: Final = 0.25
"""Lever arm [m]."""
JOINT: Final = 0.02
"""Standard deviation of a joint's torque, as a share of its limit."""
ROUNDING: Final = 1e-9
"""Relative regularization of the forces."""
FRICTION: Final = 7.0
"""Largest error that dry friction at all joints can look like, as a multiple of the friction of a joint: 6.3 in walks
of `go1` with 0.2 N m at every joint."""
UNKNOWN: Final = 0.01
"""Dry friction that is assumed of a real robot whose file has none, as a share of the torque limit."""
LOST: Final = 0.1
"""Smallest share of a drive's torque that is noticed as lost, without friction."""
WEAK: Final = 0.4
"""Share of ``‖z‖²`` that a weak drive must explain."""
LONG_S: Final = 1.0
"""Time after which lost shares are judged [s]: constant errors of sensors look like torques before they are usual."""
LASTING_S: Final = 0.08
"""Time for which a drive must seem weak [s]: sound drives of robots with a payload on slippery or sloping ground do for
up to 45 ms, a drive at 70 % for at least 95 ms."""
SEEN: Final = 0.01
"""Smallest ``‖N e_j‖²`` of a joint that is judged."""
LAG_S: Final = 0.004
"""Age of readings that is no fault [s], in loops at 1 kHz and more; in slower loops it is `LAG` periods. Torques do not
change at a constant rate: with 0.003, a `go1` with a payload whose readings were 3 ms late was braked."""
LAG: Final = 4.0
"""Age of readings that is no fault, in periods."""


class Signals(NamedTuple):
    """Signals before the filter, after one lag, and after two.

    They are positions of the joints (a), torques (a), gyroscope, accelerometer, and velocities of the joints (a).

    Attributes:
        now, once, twice: The signals, shape (3 a + 6,) each.
        q: Configuration with the base at the origin and unrotated, shape (nq,): positions after two lags.
        v: Velocity in Pinocchio's layout, shape (nv,).
        acceleration: Acceleration in the system's order, shape (m,).
        up: Vertical direction in the base's axes, shape (3,).
        doubt: Error of the drives' torques if they feed back another velocity; of the worst joint, also its error if
            readings are late; shape (1,) [N m].
        late: Changes of the commanded torques, and of the drives' targets times their gains, within `LAG_S`, shape (a,)
            [N m].
    """

    now: Array
    once: Array
    twice: Array
    q: Array
    v: Array
    acceleration: Array
    up: Array
    doubt: Array
    late: Array


class _Robot(NamedTuple):
    """Multibody terms and feet, with the base at the origin and unrotated.

    Attributes:
        terms: `System.terms`.
        at_q: `System.joint_q`.
        order: `System.order`.
        position, rotation: Origins and axes of the joints' frames, shapes (n_joints, 3) [m] and (n_joints, 3, 3).
        joint: Joint that carries each sphere of the feet, shape (k,).
        offset: Centre of each sphere in that joint's frame, shape (k, 3) [m].
        radius: Radii of the spheres, shape (k,) [m].
        moves: True for velocities that move each sphere, shape (k, m).
        weight: W, shape (m,) [1/N, 1/(N m)].
        limit: Torque limits, shape (a,) [N m].
    """

    terms: Terms
    at_q: Integers
    order: Integers
    position: Array
    rotation: Array
    joint: Integers
    offset: Array
    radius: Array
    moves: Booleans
    weight: Array
    limit: Array


class _Scratch(NamedTuple):
    """Memory of `isolate`, for m velocities and the 3 k rows of the feet.

    Attributes:
        z: The residual, shape (m,).
        point: Shape (3,).
        force, along: Shapes (3 k,).
        B: Rows ``J W``, shape (3 k, m).
        A, L: ``B Bᵀ`` and its Cholesky factor, shapes (3 k, 3 k).
        v: Velocity over W, in the system's order, shape (m,).
    """

    z: Array
    point: Array
    force: Array
    along: Array
    B: Array
    A: Array
    L: Array
    v: Array


class _Losses(NamedTuple):
    """Regression of errors of torques on the torques, arrays of shape (a,); ``s = ‖N e_j‖²``.

    Attributes:
        seen: s in the newest tick.
        weight: Mean of s.
        work: Mean of s times the error times the torque [N² m²].
        square: Mean of s times the square of the torque [N² m²].
        size: Mean of ``‖z‖²``, shape (1,).
        friction: Dry friction [N m].
        leg: Number of the leg to which the joint belongs.
        lost: Share of its torque that the weak drive lacks; 0 for all other drives.
    """

    seen: Array
    weight: Array
    work: Array
    square: Array
    size: Array
    friction: Array
    leg: Integers
    lost: Array


class MotionJudge:
    """Judges whether a single joint contradicts its torque, or the feet that stand.

    Attributes:
        slips: The joint whose encoder slips (`idcontrol.loop.stance`); -1 without one.
        off: The error of each joint's torque that explains most of the residual, if this joint alone is faulty, shape
            (a,) [N m]; zero before the first judgement. If the verdict is `Fault.MOTION`, it is zero for all joints but
            those that may be the faulty one.
        lost: Share of its torque that a weak drive lacks, shape (a,); 0 for all other drives.
    """

    def __init__(self, feet: SphereContacts, torque: Array, friction: Array | float, off: Array, lost: Array) -> None:
        """Judge a floating robot.

        Args:
            feet: Foot spheres with a `System` that nothing else uses. The system's actuated joints have one position
                each, and the base has its only unactuated velocities.
            torque: Torque limits, shape (a,) [N m].
            friction: Largest dry friction of each joint, shape (a,) or one for all [N m].
            off: The array that becomes the attribute `off`.
            lost: The array that becomes the attribute `lost`.
        """
        self._system = system = feet.system
        a, m = system.n_actuated, system.n_velocities
        joint, offset = feet.mounting()
        weight = np.empty(m)
        weight[:6] = np.repeat([1.0, 1.0 / ARM_M], 3) / (BASE * system.mass * -GRAVITY[2])
        weight[6:] = 1.0 / (JOINT * torque)
        now, once, twice = np.zeros((3, 3 * a + 6))
        self._signals = Signals(
            now, once, twice, np.zeros(system.model.nq), np.zeros(m), np.zeros(m), np.zeros(3), np.zeros(1), np.zeros(a)
        )
        self._signals.q[6] = 1.0
        position, rotation = placement_views(system.data.oMi)
        robot = _Robot(
            system.terms, system.joint_q, system.order, position, rotation, joint, offset, feet.radius,
            system.support[joint], weight, torque,
        )  # fmt: skip
        self.off, self.lost, self._mean, self._limit = off, lost, np.zeros(m), torque
        self._friction = FRICTION * friction * np.ones(a)
        moved = robot.moves[:, 6:]
        leg = np.where(moved.any(axis=0), moved.argmax(axis=0), len(moved) + np.arange(a))
        seen, shown, work, square = np.zeros((4, a))
        losses = _Losses(seen, shown, work, square, np.zeros(1), np.maximum(friction, UNKNOWN * torque), leg, lost)
        self._seen = seen
        rows = 3 * len(joint)
        force, along = np.zeros((2, rows))
        A, L = np.zeros((2, rows, rows))
        scratch = _Scratch(np.zeros(m), np.zeros(3), force, along, np.zeros((rows, m)), A, L, np.zeros(m))
        self._stance = nobody(len(joint), a)
        self._bound = bind((robot, self._signals, self._mean, off, scratch, losses, self._stance))
        like = np.zeros(system.model.nq), np.zeros(m), np.zeros(3), np.zeros((5, a))
        self._smooth = entry(smooth, self._bound, *like, 0.0)
        self._isolate = entry(isolate, self._bound, 0.0, 0.0)
        self.restart()

    def restart(self) -> None:
        """Forget all signals, and what is usual."""
        self._t, self._since, self._sound, self.slips = np.nan, np.nan, np.nan, -1
        self.off[:] = self.lost[:] = 0.0
        for sums in self._stance:
            sums[:] = 0.0

    def __call__(self, sensed: Sensed, sent: Array, share: float) -> Fault:
        """Return the faults that the motion shows.

        They are `Fault.MOTION` if a joint contradicts its torque, `Fault.WEAK` if a drive lacks a share of it, and
        `Fault.SLIP` if an encoder seems to slip.

        Args:
            sensed: The newest plausible readings.
            sent: Rows tau, q, v, kp, kd that the drives have applied since the last readings, shape (5, a).
            share: Smallest error of a torque that is a fault, as a share of the torque limit, without dry friction and
                `Signals.doubt`.
        """
        state = sensed.state
        h, self._t = state.t - self._t, state.t
        self.slips = -1
        if not self._smooth(self._bound, state.q, state.v, sensed.accelerometer, sent, h):
            self._since, self._mean[:] = state.t, 0.0
            return Fault.NONE
        age = state.t - self._since - SETTLE_S
        if age <= 0.0:
            return Fault.NONE
        self._system.update(self._signals.q, self._signals.v)
        worst, weak, self.slips = self._isolate(self._bound, h, age)
        fault = Fault.NONE
        if not weak:
            self._sound = state.t
        elif state.t - self._sound > LASTING_S:
            fault = Fault.WEAK
        else:
            self.lost[:] = 0.0
        if self.slips >= 0:
            fault |= Fault.SLIP
        if age <= LEARNT_S or worst < 0:
            return fault
        allowed = share * self._limit[worst] + self._friction[worst] + self._signals.doubt[0]
        if abs(self.off[worst]) <= allowed or self._stopped(worst):
            return fault
        explained = self._seen * (self.off / self._limit) ** 2
        self.off[explained < ALIKE * explained[worst]] = 0.0
        return fault | Fault.MOTION

    def _stopped(self, j: int) -> bool:
        """Return True if joint j may touch a stop that would cause its error."""
        system, signals = self._system, self._signals
        q, v = signals.q[system.joint_q[j]], signals.v[system.order[6 + j]]
        limits, margin = system.limits, STOP + 2.0 * SMOOTHING_S * abs(v)
        return bool(q < limits.lower[j] + margin if self.off[j] > 0.0 else q > limits.upper[j] - margin)


def judged(contacts: object) -> SphereContacts | None:
    """Return the feet of a robot whose motion can be judged; None for others.

    Such a robot has `SphereContacts` and a floating base; each other velocity belongs to an actuated joint that has
    one position.
    """
    if not isinstance(contacts, SphereContacts):
        return None
    system = contacts.system
    usual = system.floats and system.n_unactuated == 6 and not system.joint_circle.any()
    return contacts if usual else None


@njit(cache=True, error_model="numpy")
def smooth(
    bound: Bound, q: Array, v: Array, accelerometer: Array, sent: Array, h: float
) -> bool:  # pragma: no cover - compiled
    """Pass new signals through the filter, and write configuration, velocity and acceleration.

    The drives' torques are those at the middle of the old and the new state.

    Args:
        bound: Robot and `Signals`, as in `MotionJudge`.
        q: Configuration in Pinocchio's layout, shape (nq,).
        v: Velocity in Pinocchio's layout, shape (m,).
        accelerometer: Specific force of the base, shape (3,) [m/s²].
        sent: Rows tau, q, v, kp, kd, shape (5, a).
        h: Time since the last signals [s].

    Returns:
        False if the filter begins anew: `h` is not positive, or a signal is not finite.
    """
    robot, signals, _, off, _, _, _ = bound.borrowed
    now, once, twice, a = signals.now, signals.once, signals.twice, off.shape[0]
    speeds = 2 * a + 6
    continues = h > 0.0
    share = h / (h + SMOOTHING_S)
    for j in range(a):
        place, speed = q[robot.at_q[j]], v[robot.order[6 + j]]
        middle, slope = (0.5 * (place + now[j]), 0.5 * (speed + now[speeds + j])) if continues else (place, speed)
        torque = sent[0, j] + sent[3, j] * (sent[1, j] - middle) + sent[4, j] * (sent[2, j] - slope)
        now[j], now[speeds + j] = place, speed
        now[a + j] = min(max(torque, -robot.limit[j]), robot.limit[j])
    for k in range(3):
        now[2 * a + k], now[2 * a + 3 + k] = v[3 + k], accelerometer[k]
    for x in now:
        continues = continues and np.isfinite(x)
    if not continues:
        assign(once, now)
        assign(twice, now)
        return False
    for i in range(now.shape[0]):
        once[i] += share * (now[i] - once[i])
        twice[i] += share * (once[i] - twice[i])
    for k in range(3):
        gyro = 2 * a + k
        signals.acceleration[k] = twice[gyro + 3] + GRAVITY[k]
        signals.acceleration[3 + k] = (once[gyro] - twice[gyro]) / SMOOTHING_S
        signals.v[3 + k] = twice[gyro]
    signals.doubt[0], late = 0.0, max(LAG_S, LAG * h)
    for j in range(a):
        speed = (once[j] - twice[j]) / SMOOTHING_S
        acceleration = (now[j] - 2.0 * once[j] + twice[j]) / SMOOTHING_S**2
        signals.doubt[0] += sent[4, j] * abs(twice[speeds + j] - speed)
        slope = (once[a + j] - twice[a + j]) / SMOOTHING_S
        signals.late[j] = late * (slope + sent[3, j] * speed + sent[4, j] * acceleration)
        signals.q[robot.at_q[j]], signals.v[robot.order[6 + j]] = twice[j], speed
        signals.acceleration[6 + j] = acceleration
    signals.up[0] = 2.0 * (q[3] * q[5] - q[6] * q[4])
    signals.up[1] = 2.0 * (q[4] * q[5] + q[6] * q[3])
    signals.up[2] = 1.0 - 2.0 * (q[3] * q[3] + q[4] * q[4])
    return True


@njit(cache=True, inner=True, error_model="numpy")
def reach(robot: _Robot, up: Array, point: Array, out: Array) -> None:  # pragma: no cover - compiled
    """Write the rows ``J W`` of the lowest points of all spheres, shape (3 k, m); `up` is vertical, shape (3,).

    The last point is left in `point`, shape (3,).
    """
    J = robot.terms.jacobian
    for k in range(robot.joint.shape[0]):
        at, turn, offset = robot.position[robot.joint[k]], robot.rotation[robot.joint[k]], robot.offset[k]
        for x in range(3):
            point[x] = at[x] - robot.radius[k] * up[x]
            for y in range(3):
                point[x] += turn[x, y] * offset[y]
        for i in range(J.shape[1]):
            factor = robot.weight[i] if robot.moves[k, i] else 0.0
            for x in range(3):
                y, z = (x + 1) % 3, (x + 2) % 3
                out[3 * k + x, i] = factor * (J[x, i] + J[3 + y, i] * point[z] - J[3 + z, i] * point[y])


@njit(cache=True, error_model="numpy")
def isolate(bound: Bound, h: float, age: float) -> tuple[int, bool, int]:  # pragma: no cover - compiled
    """Write the errors of torques that would explain z into `MotionJudge.off`.

    Args:
        bound: Robot, `Signals`, mean of z, `MotionJudge.off`, scratch memory, losses, and `Stance`.
        h: Time since the last signals [s].
        age: Time for which means have been learnt [s].

    Returns:
        The faulty joint, -1 if none; True if a drive lacks a share of its torque (`MotionJudge.lost`); and the joint
        whose encoder slips, -1 if none.
    """
    robot, signals, mean, off, (z, point, force, along, B, A, L, v), losses, stance = bound.borrowed
    M, bias, _ = robot.terms
    m, rows, torque = z.shape[0], force.shape[0], signals.twice[off.shape[0] : 2 * off.shape[0]]
    for i in range(m):
        v[i] = signals.v[robot.order[i]] / robot.weight[i]
        z[i] = bias[i] - (torque[i - 6] if i >= 6 else 0.0)
        for j in range(m):
            z[i] += M[i, j] * signals.acceleration[j]
        z[i] *= robot.weight[i]
    reach(robot, signals.up, point, B)
    for r in range(rows):
        for c in range(r + 1):
            A[r, c] = 0.0
            for i in range(m):
                A[r, c] += B[r, i] * B[c, i]
        A[r, r] *= 1.0 + ROUNDING  # forces on the corners of a sole are not unique
    if not cholesky(A, L):
        return -1, False, -1
    project(B, L, force, z)
    slips = slipping(stance, B, robot.weight, force, signals.up, 1.0 / (BASE * robot.weight[0]), v, h)
    size, share = 0.0, h / min(age + h, USUAL_S)
    for i in range(m):
        size += (z[i] - mean[i]) ** 2
    step, size = share * STEADY / max(STEADY, math.sqrt(size)), 0.0
    for i in range(m):
        mean[i] += step * (z[i] - mean[i])
        z[i] -= mean[i]
        size += z[i] * z[i]
    project(B, L, force, z)
    worst, most, least = -1, ALONE * size, 1.0
    for j in range(off.shape[0]):
        for r in range(rows):
            along[r] = B[r, 6 + j]
        solve_lower(L, along)
        seen = 1.0
        for r in range(rows):
            seen -= along[r] * along[r]
        losses.seen[j] = seen
        off[j] = z[6 + j] / (seen * robot.weight[6 + j]) if seen > SEEN else 0.0
        explained = z[6 + j] ** 2 / seen if seen > SEEN else 0.0
        if explained > most:
            worst, most, least = j, explained, seen
    weak = lacks(losses, robot.weight, z, torque, share)
    if worst >= 0:
        for i in range(m):
            z[i] = robot.weight[i] * signals.late[i - 6] if i >= 6 else 0.0
        project(B, L, force, z)
        signals.doubt[0] += abs(z[6 + worst]) / (least * robot.weight[6 + worst])
    return worst, weak and age > LONG_S, slips


@njit(cache=True, inner=True, error_model="numpy")
def lacks(losses: _Losses, weight: Array, z: Array, torque: Array, share: float) -> bool:  # pragma: no cover - compiled
    """Update the regression; return True if one drive lacks a share of its torque, and write the share.

    Args:
        losses: The regression.
        weight: W, shape (m,) [1/N, 1/(N m)].
        z: The residual, shape (m,).
        torque: Torques, shape (a,) [N m].
        share: Share by which the means move towards the new values, 0 to 1.
    """
    square = 0.0
    for x in z:
        square += x * x
    losses.size[0] += share * (square - losses.size[0])
    weak, most, leg, alone = -1, WEAK * losses.size[0], -1, True
    losses.lost[:] = 0.0
    for j in range(torque.shape[0]):
        losses.weight[j] += share * (losses.seen[j] - losses.weight[j])
        losses.work[j] += share * (z[6 + j] / weight[6 + j] * torque[j] - losses.work[j])
        losses.square[j] += share * (losses.seen[j] * torque[j] ** 2 - losses.square[j])
        hidden = losses.friction[j] * math.sqrt(losses.weight[j] / losses.square[j])
        beyond = -losses.work[j] / losses.square[j] - hidden
        if beyond > 0.5 * LOST:
            alone = alone and (leg == -1 or leg == losses.leg[j])
            leg = losses.leg[j]
            explained = weight[6 + j] ** 2 * losses.work[j] ** 2 / losses.square[j]
            if beyond > LOST and explained > most:
                weak, most = j, explained
    if weak < 0 or not alone:
        return False
    losses.lost[weak] = -losses.work[weak] / losses.square[weak]
    return True


@njit(cache=True, inner=True, error_model="numpy")
def project(B: Array, L: Array, force: Array, z: Array) -> None:  # pragma: no cover - compiled
    """Subtract from z, shape (m,), what forces explain: ``z - Bᵀ (B Bᵀ)⁻¹ B z``; L is the factor of ``B Bᵀ``."""
    for r in range(B.shape[0]):
        force[r] = 0.0
        for i in range(z.shape[0]):
            force[r] += B[r, i] * z[i]
    solve_lower(L, force)
    solve_lower_transposed(L, force)
    for r in range(B.shape[0]):
        for i in range(z.shape[0]):
            z[i] -= B[r, i] * force[r]
