"""Order and signs of joints from a log: the smallest wiring error that explains the equations of motion.

A log may assign recorded angles and torques to the wrong joints (an exchange), have the positive direction of a joint
reversed in angle, velocity and torque (a turn), or in its torque alone (a reversal). Each combination of these errors,
undone, gives another log. Its cost is ::

    mean over blocks of |P (M v̇ + h - Sᵀ τ - Jᵀ w - D d) / σ|² + |d|² + |excess of joint limits / OFFSET_SPREAD|²
        + LEAST changes,

where P eliminates forces that were not measured, and the errors d of the drives minimize the cost. The search begins at
the log as it is and repeatedly takes the change with the lowest cost: exchange two joints, with or without turns, or
turn one joint. For each of them, the torque signs minimize a quadratic function of ±1. As σ stands for errors of the
nominal model, which do not average out, the cost is that of one mean block, and more blocks do not make it certain. If
large errors remain, the search begins again with other changes. An error is claimed only if all wirings that explain
the log nearly as well as the best one have it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pinocchio as pin

from idcontrol.dynamics.system import Actuators, System
from idcontrol.identify.equations import REST_RAD_S, acceleration, block_ticks, jacobian, mountings
from idcontrol.identify.fit import COARSE, remaining
from idcontrol.identify.logs import Log
from idcontrol.identify.offsets import OFFSET_SPREAD
from idcontrol.robots import Robot
from idcontrol.types import Array, Booleans, Integers

LEAST: Final = 9.0
"""Decrease of the squared error of a mean block, in σ², below which a change is not made: three standard deviations."""
FINE: Final = 0.02
"""Smallest σ relative to rms forces; the largest is `COARSE`."""
CONSTANT: Final = 0.2
"""Standard deviation of a drive's torque constant, relative; armature and friction have a standard deviation of 1."""
SLIP_M_S: Final = 0.02
"""Standard deviation of the velocity of a standing foot relative to the mean of all standing feet [m/s]."""
STARTS: Final = 3
"""Number of searches from different first changes."""
EXPLAINED: Final = 2.0
"""Largest squared error of a wiring per equation, in σ²."""
UNEXPLAINED: Final = "any order or sign: no wiring that was tried explains the torques"
"""What a log does not tell if the errors of the best wiring are larger than `EXPLAINED`."""
MOST_SAMPLES: Final = 20
"""Largest number of blocks; from longer logs, evenly spaced blocks are used."""


class Wiring(NamedTuple):
    """The assignment of a log's joints to the robot's joints.

    Attributes:
        source: Index of the log's joint that each joint of the robot has, shape (a,).
        turn: -1 for joints whose angle, velocity and torque have the wrong sign in the log, otherwise 1, shape (a,).
        torque: -1 for joints whose torque has the wrong sign relative to the angle, otherwise 1, shape (a,).
    """

    source: Integers
    turn: Array
    torque: Array


class Diagnosis(NamedTuple):
    """The result of `wiring`.

    Attributes:
        wiring: The assignment, with the errors that the log shows without doubt.
        unsure: Orders and signs of joints that the log does not tell, in words.
    """

    wiring: Wiring
    unsure: tuple[str, ...]


class Samples(NamedTuple):
    """Averages of n blocks of logs, Pinocchio's layout; a robot with k feet.

    Attributes:
        q: Configurations, shape (n, nq).
        v: Velocities, shape (n, nv).
        acceleration: Spatial accelerations, shape (n, nv).
        tau: Torques of the drives, shape (n, a); NaN where unknown.
        wrench: Wrenches of the ground on feet, shape (n, k, 6); NaN where unknown, zero for feet in the air.
        standing: True for feet that touch the ground during the whole block, shape (n, k).
    """

    q: Array
    v: Array
    acceleration: Array
    tau: Array
    wrench: Array
    standing: Booleans


class Equations(NamedTuple):
    """The equations of motion of a wiring, divided by σ and without unknowns.

    The errors are ``X (1, -torque) - D d``, with torque signs ±1, and errors d of the drives in standard deviations.

    Attributes:
        X: Errors without the torques of the drives, and coefficients of the torque signs, shape (n m, 1 + a).
        D: Coefficients of d, shape (n m, 4 a).
        motion: Mean squared violation of joint limits and mean squared velocity of standing feet, in σ².
        share: Number of equations of each row that the elimination of unknowns leaves, shape (m,).
        n: Number of blocks.
    """

    X: Array
    D: Array
    motion: float
    share: Array
    n: int

    def judged(self, source: Integers, turn: Array) -> Judged:
        """Return the wiring with these joints and turns, and the torque signs with the lowest cost."""
        own = self.D.T @ self.X / self.n
        drives = np.linalg.solve(self.D.T @ self.D / self.n + np.eye(self.D.shape[1]), own)
        Q = self.X.T @ self.X / self.n - own.T @ drives
        torque = _signs(Q)
        x = np.concatenate(([1.0], -torque))
        misfit = self.motion + float(x @ Q @ x)
        changed = np.sum(source != np.arange(len(source))) / 2.0 + np.sum(turn < 0.0) + np.sum(torque < 0.0)
        errors = (self.X - self.D @ drives) @ x
        squares = np.square(errors.reshape(self.n, -1)).sum(axis=0)
        rms = np.sqrt(squares / np.maximum(self.share, 1.0))
        cost = misfit + LEAST * float(changed)
        return Judged(Wiring(source, turn, torque), misfit, cost, _rises(Q, torque), rms)


def _rises(Q: Array, torque: Array) -> Array:
    """Return the increase of the squared error ``x Q x``, x = (1, -torque), if one torque sign changes, shape (a,)."""
    return 4.0 * (np.diag(Q)[1:] + torque * (Q[1:, 0] - Q[1:, 1:] @ torque))


def _signs(Q: Array) -> Array:
    """Return torque signs with the lowest cost among those that differ by one sign, shape (a,)."""
    n, trials = len(Q) - 1, []
    for torque in (np.ones(n), np.where(np.linalg.lstsq(Q[1:, 1:], Q[1:, 0], rcond=1e-9)[0] < 0.0, -1.0, 1.0)):
        for _ in range(4 * n):
            rise = _rises(Q, torque) + LEAST * torque
            if rise.min() >= 0.0:
                break
            torque[rise.argmin()] *= -1.0
        x = np.concatenate(([1.0], -torque))
        trials.append((float(x @ Q @ x) + LEAST * float(np.sum(torque < 0.0)), torque))
    return min(trials, key=lambda trial: trial[0])[1]


class Bench:
    """The equations of motion of all logs, for any wiring."""

    def __init__(self, logs: Sequence[Log], robot: Robot, system: System, actuators: Actuators) -> None:
        """Average the logs of `robot`."""
        self._system, self._places, self._drives = system, mountings(robot, system), actuators
        self._dof = system.order[system.n_unactuated :]
        parts = [_averages(log, system) for log in logs]
        whole: Any = [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]
        self._all = Samples(*(values[:: -(-len(whole[0]) // MOST_SAMPLES) or 1] for values in whole))
        moment = float(np.sqrt(np.nanmean(np.square(self._all.tau))))
        self._sigma = np.full(system.n_velocities, moment)
        weight = pin.computeTotalMass(system.model) * float(np.linalg.norm(system.model.gravity.linear))
        for first in system.flyer_v:
            self._sigma[first : first + 3] = weight
        self._sigma = self._most = COARSE * np.maximum(self._sigma, np.finfo(np.float64).tiny)

    def sharpen(self, rms: Array) -> None:
        """Set σ of each row to its error `rms`, shape (m,) [σ], within `FINE` and `COARSE` of the rms force.

        A row with a much larger error than most is likely to be wrong, so its σ is at most twice the median.
        """
        rms = np.minimum(rms, 2.0 * np.median(rms))
        self._sigma = np.clip(self._sigma * rms, FINE / COARSE * self._most, self._most)

    def __call__(self, source: Integers, turn: Array) -> Equations:
        """Return the equations if joint i has the recorded joint ``source[i]``, times ``turn[i]``."""
        system, dof, model = self._system, self._dof, self._system.model
        samples = rewired(self._all, system, source, turn)
        n, m, a = len(samples.q), model.nv, len(dof)
        known = np.isfinite(samples.tau)
        e, T, U = np.zeros((n, m)), np.zeros((n, m, a)), np.zeros((n, m, a + 6 * len(self._places)))
        D, joints = np.zeros((n, m, 4 * a)), np.arange(a)
        T[:, dof, joints] = np.where(known, samples.tau, 0.0)
        U[:, dof, joints] = ~known
        data, of, motion = model.createData(), self._drives, 0.0
        for k in range(n):
            q, v, acceleration = samples.q[k], samples.v[k], samples.acceleration[k]
            e[k] = pin.rnea(model, data, q, v, acceleration)
            sign = v[dof] / np.maximum(np.abs(v[dof]), REST_RAD_S)
            parts = (
                of.armature * acceleration[dof],
                of.damping * v[dof],
                of.friction * sign,
                CONSTANT * T[k, dof, joints],
            )
            for i, part in enumerate(parts):
                D[k, dof, i * a + joints] = part
            e[k, dof] += parts[0] + parts[1] + parts[2]
            pin.computeJointJacobians(model, data, q)
            speeds = []
            for foot, place in enumerate(self._places):
                wrench, stands = samples.wrench[k, foot, : place.size], samples.standing[k, foot]
                if not (stands or wrench.any()):  # NaN counts as true
                    continue
                J, unknown = jacobian(model, data, place), np.isnan(wrench)
                e[k] -= J.T @ np.where(unknown, 0.0, wrench)
                U[k, :, a + 6 * foot : a + 6 * foot + place.size] = np.where(unknown, J.T, 0.0)
                if stands:
                    speeds.append(J[:3] @ v)
            if speeds:
                motion += float(np.square(np.array(speeds) - sum(speeds) / len(speeds)).sum())
        right = np.concatenate((e[..., None], T, D), axis=2) / self._sigma[:, None]
        unknown = U / self._sigma[:, None]
        used = unknown.any(axis=(1, 2))
        P = np.tile(np.eye(m), (n, 1, 1))
        P[used] = remaining(unknown[used])
        right = P @ right
        angle = np.array([system.joint_positions(q) for q in samples.q])
        low, high = system.limits.lower, system.limits.upper
        beyond = np.maximum(0.0, np.maximum(low - angle, angle - high)) / OFFSET_SPREAD
        motion = (motion / SLIP_M_S**2 + float(np.square(beyond).sum())) / n
        X, D = (part.reshape(n * m, -1) for part in np.split(right, [1 + a], axis=2))
        return Equations(X, D, motion, np.einsum("nii->i", P), n)


def wiring(logs: Sequence[Log], robot: Robot, system: System, actuators: Actuators) -> Diagnosis:
    """Return the order and signs of the joints in `logs`, and what the logs do not tell.

    The wiring of the robot file and `actuators`, its nominal drives, are assumed to be right where the logs do not
    contradict.
    """
    bench, a = Bench(logs, robot, system, actuators), system.n_actuated
    ends = [_searched(bench, _judged(bench, np.arange(a), np.ones(a)))[0]]
    if ends[0].misfit > EXPLAINED * len(ends[0].rms):
        ends += [_searched(bench, start)[0] for start in _other_starts(bench, a)]
    at = min(ends, key=lambda end: end.cost)
    if at.misfit > EXPLAINED * len(at.rms):
        return Diagnosis(Wiring(np.arange(a), np.ones(a), np.ones(a)), (UNEXPLAINED,))
    bench.sharpen(at.rms)
    ends = [_judged(bench, *end.wiring[:2]) for end in ends]
    at, trials = _searched(bench, min(ends, key=lambda end: end.cost))
    return certain(at, [*trials, *ends], system.actuated_names)


def _other_starts(bench: Bench, a: int) -> list[Judged]:
    """Return the first changes of `a` joints with the lowest costs, without the lowest."""
    starts = [_judged(bench, *change) for change in _changes(np.arange(a), np.ones(a))]
    return sorted(starts, key=lambda start: start.cost)[1:STARTS]


def _searched(bench: Bench, at: Judged) -> tuple[Judged, list[Judged]]:
    """Return the wiring that no change improves, from the wiring `at`; and all its changes."""
    while True:
        trials = [_judged(bench, *change) for change in _changes(*at.wiring[:2])]
        best = min(trials, key=lambda trial: trial.cost, default=at)
        if best.cost >= at.cost:
            return at, trials
        at = best


class Judged(NamedTuple):
    """A wiring with its torque signs.

    Attributes:
        wiring: The wiring.
        misfit: Squared error of a mean block [σ²].
        cost: The same, plus `LEAST` for each change of a joint or torque.
        flips: Increase of `misfit` if one torque sign changes, shape (a,).
        rms: Rms error of each row of the equations [σ], shape (m,).
    """

    wiring: Wiring
    misfit: float
    cost: float
    flips: Array
    rms: Array


def _judged(bench: Bench, source: Integers, turn: Array) -> Judged:
    return bench(source, turn).judged(source, turn)


def _changes(source: Integers, turn: Array) -> Iterator[tuple[Integers, Array]]:
    """Yield all wirings with one joint turned, then for each pair one with both turned and four with both exchanged."""
    a = len(source)
    for i in range(a):
        yield source, np.where(np.arange(a) == i, -turn, turn)
    for i, j in itertools.combinations(range(a), 2):
        moved = source.copy()
        moved[[i, j]] = source[[j, i]]
        yield source, np.where(moved != source, -turn, turn)
        for signs in itertools.product((1.0, -1.0), repeat=2):
            turned = turn.copy()
            turned[[i, j]] = signs
            yield moved, turned


def certain(best: Judged, others: Sequence[Judged], names: Sequence[str]) -> Diagnosis:
    """Return the errors that `best` and all likely wirings among `others` share, and where these wirings differ."""
    # errors of the best wiring larger than expected make others likelier
    most = LEAST * max(1.0, best.misfit / len(best.rms))
    likely = [best.wiring, *(other.wiring for other in others if other.misfit - best.misfit < most)]
    source, joints = best.wiring.source, np.arange(len(names))
    place = np.argsort(source)
    group = joints.copy()  # one number for all joints that are indistinguishable
    for other in likely:
        _unite(group, joints, place[other.source])
    doubtful = np.bincount(group, minlength=len(names))[group] > 1
    for _ in names:  # joints that a doubtful exchange involves are doubtful
        _unite(group, joints[doubtful], source[doubtful])
        doubtful = np.bincount(group, minlength=len(names))[group] > 1
    source = np.where(doubtful, joints, source)
    # signs belong to the log's joints, whatever joints of the robot they are
    turn, torque = (
        np.array([getattr(other, kind)[np.argsort(other.source)] for other in likely])[:, source]
        for kind in ("turn", "torque")
    )
    flips = best.flips[place][source]
    sure, firm = (turn == turn[0]).all(axis=0), (torque == torque[0]).all(axis=0) & (flips >= most)
    unsure = [
        f"which of {', '.join(n for n, each in zip(names, group, strict=True) if each == k)} is which"
        for k in np.unique(group[doubtful])
    ]
    unsure += [f"the sign of {name}" for name, known in zip(names, sure, strict=True) if not known]
    unsure += [f"the sign of {name}'s torque" for name, known in zip(names, firm, strict=True) if not known]
    claim = Wiring(source, np.where(sure, turn[0], 1.0), np.where(firm, torque[0], 1.0))
    return Diagnosis(claim, tuple(unsure))


def _unite(group: Integers, some: Integers, others: Integers) -> None:
    """Give the joints ``some[i]`` and ``others[i]`` the same number in `group`, for each i."""
    for one, other in zip(some.tolist(), others.tolist(), strict=True):
        group[group == group[other]] = group[one]


def words(assignment: Wiring, names: Sequence[str]) -> Iterator[str]:
    """Yield each wiring error in words; `names` are the names of the joints."""
    for i, (name, at, turn, torque) in enumerate(zip(names, *assignment, strict=True)):
        if at != i and assignment.source[at] == i and i < at:
            yield f"{name} and {names[at]} are exchanged"
        elif at != i and assignment.source[at] != i:
            yield f"the joint recorded as {names[at]} is {name}"
        if turn < 0.0:
            yield f"{name} has the wrong sign in angle, velocity and torque"
        if torque < 0.0:
            yield f"{name} has the wrong sign in its torque alone"


def corrected(log: Log, system: System, assignment: Wiring) -> Log:
    """Return the log with its joints in order and all signs right."""
    moved = rewired(
        Samples(log.q, log.v, np.zeros_like(log.v), log.tau, log.wrench, log.touching), system, *assignment[:2]
    )
    return log._replace(q=moved.q, v=moved.v, tau=assignment.torque * moved.tau)


def rewired(samples: Samples, system: System, source: Integers, turn: Array) -> Samples:
    """Return samples in which joint i has the recorded joint ``source[i]``, times ``turn[i]``."""
    dof = system.order[system.n_unactuated :]
    angle = np.array([system.joint_positions(q) for q in samples.q])
    step = np.zeros_like(samples.v)
    step[:, dof] = turn * angle[:, source] - angle
    v, acceleration = samples.v.copy(), samples.acceleration.copy()
    v[:, dof], acceleration[:, dof] = turn * v[:, dof[source]], turn * acceleration[:, dof[source]]
    q = np.array([pin.integrate(system.model, *each) for each in zip(samples.q, step, strict=True)])
    return samples._replace(q=q, v=v, acceleration=acceleration, tau=turn * samples.tau[:, source])


def _averages(log: Log, system: System) -> Samples:
    """Return the averages of a log's blocks, weighted by Hann windows; each base is that of a block's middle."""
    dof, rows = system.order[system.n_unactuated :], []
    angle = np.array([system.joint_positions(q) for q in log.q])
    chosen = block_ticks(log)
    for first, last in chosen[:: -(-len(chosen) // MOST_SAMPLES)]:
        span, share = slice(first, last), np.hanning(last - first + 2)[1:-1]
        share /= share.sum()
        middle = (first + last) // 2
        step = np.zeros(system.n_velocities)
        # the window's centre is half a tick later than the mean of its states
        half = 0.5 * (log.t[first + 1] - log.t[first])
        v = share @ (0.5 * (log.v[first:last] + log.v[first + 1 : last + 1]))
        step[dof] = share @ angle[span] + half * v[dof] - angle[middle]
        rate = share @ np.array([acceleration(system, log, k) for k in range(first, last)])
        wrench = np.einsum("k,kij->ij", share, log.wrench[span])
        wrench[~log.touching[span].any(axis=0)] = 0.0
        standing = log.touching[span].all(axis=0)
        rows.append(
            (pin.integrate(system.model, log.q[middle], step), v, rate, share @ log.tau[span], wrench, standing)
        )
    return Samples(*(np.array(arrays) for arrays in zip(*rows, strict=True)))
