"""A centroidal MPC, with which links and go1 trot and g1 walks, through `idcontrol.mpc.Socket`.

::

    idcontrol loop --robot go1 --planner experiments/examples/centroidal_mpc.py:CentroidalMpc \
        --transport inprocess --pacing fast --duration 30 --set loop.start=standing

Fifty times a second a quadratic program plans the momentum of the next steps, with forces at the contact points within
friction pyramids (Orin, Goswami & Lee 2013; Di Carlo et al. 2018). Footholds and their timetable follow a path.
Inverse kinematics turns the plan into whole-body targets.
"""

from typing import NamedTuple

import numpy as np
import osqp
import pinocchio as pin
import scipy.sparse as sp

import idcontrol as idc
from idcontrol.mpc import Target
from idcontrol.types import Array

EVERY_S, TARGETS, STAND_S, RAMP_S = 0.02, 6, 1.0, 0.5
"""Time between plans and targets [s], targets in a plan, time before the first step, time constant of the speed [s]."""
TRUST, SURE = 0.1, 0.6
"""Share of the measured error that enters the next plan; share of a sole's length and width that the plan uses."""


class Gait(NamedTuple):
    """A walking gait, and the knots of the plan.

    Attributes:
        period: Duration of a cycle [s].
        duty: Share of the cycle in which a foot stands.
        touchdown: Touchdown of each foot as a share of the cycle.
        lift: Height of a swing [m].
        land: Downward speed of a foot at touchdown [m/s].
        speed: Walking speed [m/s].
        lower: Height of the centre of mass at home minus its height in the walk [m].
        knot: Time between two knots [s].
        knots: Number of knots.
    """

    period: float
    duty: float
    touchdown: tuple[float, ...]
    lift: float
    land: float
    speed: float
    lower: float
    knot: float
    knots: int


TROT = (0.25, 0.75, 0.75, 0.25)
GAITS = {
    "links": Gait(0.4, 0.75, TROT, 0.015, 0.07, 0.15, 0.0, 0.02, 20),
    "go1": Gait(0.4, 0.75, TROT, 0.05, 0.15, 0.3, 0.0, 0.02, 20),
    "g1": Gait(1.6, 0.6875, (0.3125, 0.8125), 0.05, 0.03, 0.15, 0.03, 0.04, 25),
}
SWING = [6.0, -15, 10, 0, 0, 0], [-64.0, 192, -192, 64, 0, 0, 0], [3.0, -7, 4, 0, 0, 0]
"""Polynomials of a swing, highest power first: along the ground, lift, and descent that ends with slope -1."""
COST, FORCE_COST = np.array([100.0, 100.0, 2e3, 10.0, 10.0, 40.0, 1e3, 1e3, 1e3]), 1.0
"""Costs of errors of the centre of mass, its velocity, and the angular momentum per mass; cost of unequal forces."""


class CentroidalMpc:
    """Timetable of the feet, program for the momentum, and inverse kinematics."""

    rate_hz = 1.0 / EVERY_S

    def __init__(self, robot: idc.robots.Robot, mu: float, rate: float) -> None:
        """Prepare the gait of the robot."""
        self.gait = GAITS[robot.name]
        contacts, home = robot.contacts(mu), robot.standing_state()
        self.model, self.mass, self.patch = contacts.system.model, contacts.system.mass, contacts.patch
        self.data, self.n = self.model.createData(), contacts.n_feet
        contacts.system.update(home.q, home.v)
        contacts.detect(np.inf)
        pin.framesForwardKinematics(self.model, self.data, home.q)
        names = [contacts.frames[int(np.argmax(self.patch == foot))] for foot in range(self.n)]
        self.frames = [contacts.system.frame(name) for name in names]
        supports = {j for frame in self.frames for j in self.model.supports[self.model.frames[frame].parentJoint]}
        chain = [self.model.joints[j] for j in sorted(supports - {0})]
        self.legs = np.concatenate([np.arange(joint.idx_v, joint.idx_v + joint.nv) for joint in chain])  # and the base
        self.places = [self.data.oMf[frame].copy() for frame in self.frames]
        arm = contacts.point - np.array([self.places[foot].translation for foot in self.patch])
        centre = np.array([arm[self.patch == foot].mean(axis=0) for foot in range(self.n)])
        self.arm = centre[self.patch] + SURE * (arm - centre[self.patch])
        self.com = contacts.system.com(home.q) - [0.0, 0.0, self.gait.lower]
        # a point foot rolls: its path is that of its centre less the way that it has rolled
        rolls = [np.hstack((np.eye(3), -pin.skew(at))) for at in centre]
        self.rows = rolls if contacts.sole_patch is None else [np.eye(6)] * self.n  # of a foot, in kinematics
        side = mu / np.sqrt(2.0)
        self.cone = sp.csc_matrix([[1, 0, -side], [-1, 0, -side], [0, 1, -side], [0, -1, -side], [0, 0, -1]])

    def reset(self, state: idc.State) -> None:
        """Restart at `state`."""
        self.begin, self.q, self.plan = state.t, state.q.copy(), self.measured(state)
        self.guess, self.push = np.tile(self.plan[:3], (self.gait.knots, 1)), np.zeros(3)

    def measured(self, state: idc.State) -> Array:
        """Return the centre of mass, its velocity, and the angular momentum about it per mass, shape (9,)."""
        hg = pin.computeCentroidalMomentum(self.model, self.data, state.q, state.v)
        return np.r_[self.data.com[0], hg.vector / self.mass]

    def path(self, t: float) -> Array:
        """Return position [m] and velocity [m/s] along the path, shape (2,)."""
        tau = max(t - STAND_S, 0.0)
        return self.gait.speed * np.array([tau + RAMP_S * np.expm1(-tau / RAMP_S), -np.expm1(-tau / RAMP_S)])

    def foot(self, foot: int, t: float) -> tuple[bool, Array]:
        """Return whether a foot stands at time `t` [s], and its position, velocity and acceleration as rows, (3, 3)."""
        gait, tiny = self.gait, 1e-9
        turns = (t - STAND_S) / gait.period - gait.touchdown[foot]
        cycle, phase = divmod(turns - tiny, 1.0)  # at touchdown and lift-off the motion is that of the period before
        stands = t < STAND_S - tiny or (turns + tiny) % 1.0 < gait.duty
        # each foot stands under the path at the middle of its stance
        middle = STAND_S + (cycle + gait.touchdown[foot] + 0.5 * gait.duty) * gait.period
        goals = zip((0, 1), (middle, middle + gait.period), strict=True)
        begin, end = (self.path(at)[0] if cycle >= -k else 0.0 for k, at in goals)
        out = np.zeros((3, 3))
        out[0] = self.places[foot].translation + np.array([begin, 0.0, 0.0])
        u, swing = (phase - gait.duty) / (1.0 - gait.duty), (1.0 - gait.duty) * gait.period
        for k in range(3 if u > 0.0 and t > STAND_S else 0):
            along, up, down = (np.polyval(np.polyder(p, k), u) / swing**k for p in SWING)
            out[k, 0] += along * (end - begin)
            out[k, 2] += up * gait.lift + down * swing * gait.land
        return stands, out

    def accelerations(self, t: float, x: Array) -> Array:
        """Plan from x (9,) on; return the acceleration of the centre of mass in each knot, shape (knots, 3)."""
        N, h, points, g = self.gait.knots, self.gait.knot, len(self.patch), 9.81
        fall, unit = np.array([0.0, 0.0, -g]), np.eye(3)  # per unit of mass; forces in units of the weight
        A, B = np.eye(9), np.zeros((N, 9, 3 * points))
        A[:3, 3:6], A[6:, :3] = h * unit, -h * pin.skew(fall)  # L' = Σ (r - ĉ) x f - (c - ĉ) x (-m g)
        stands, wanted, constant = np.zeros((N, points), dtype=bool), np.zeros((N, 9)), np.zeros((N, 9))
        for k in range(N):
            feet = [self.foot(i, t + (k + 0.5) * h) for i in range(self.n)]
            s, v = self.path(t + (k + 1) * h)
            # a foot bears no load within a knot of touchdown and lift-off, since accelerations change linearly
            ends = [[self.foot(i, t + (k + 0.5 + side) * h)[0] for side in (-1.0, 1.0)] for i in range(self.n)]
            stands[k] = [all(ends[i]) for i in self.patch]
            wanted[k] = [*(self.com + np.array([s, 0.0, 0.0])), v, 0.0, 0.0, 0.0, 0.0, 0.0]
            constant[k] = np.r_[0.5 * h * h * fall, h * fall, h * np.cross(fall, self.guess[k])]
            for j, i in enumerate(self.patch):
                arm = pin.skew(feet[i][1][0] + self.arm[j] - self.guess[k])
                B[k, :, 3 * j : 3 * j + 3] = g * np.vstack((0.5 * h * h * unit, h * unit, h * arm))
        constant[0] += A @ x
        share = np.zeros((N, points, 3))
        share[:, :, 2] = stands / stands.sum(axis=1, keepdims=True)
        P = sp.diags(np.r_[np.tile(COST, N), np.full(share.size, FORCE_COST)], format="csc")
        motion = sp.eye(9 * N) - sp.kron(sp.eye(N, k=-1), A)
        G = sp.bmat([[motion, -sp.block_diag(B)], [None, sp.kron(sp.eye(N * points), self.cone)]], format="csc")
        upper = np.r_[constant.ravel(), np.zeros(5 * N * points)]
        lower = np.r_[constant.ravel(), np.where(np.repeat(stands.ravel(), 5), -np.inf, 0.0)]
        solver = osqp.OSQP()
        linear = -P @ np.r_[wanted.ravel(), share.ravel()]
        solver.setup(P, linear, G, lower, upper, verbose=False, eps_abs=1e-4, eps_rel=1e-4)
        z = solver.solve(raise_error=False).x
        self.guess, self.spin = z[: 9 * N].reshape(N, 9)[:, :3].copy(), z[6:9]
        return z[9 * N :].reshape(N, points, 3).sum(axis=1) * g + fall

    def kinematics(self, t: float, com: Array, v: Array, a: Array) -> tuple[Array, Array, Array]:
        """Return q, v and a for this motion of the centre of mass, the feet at time t, and an upright base."""
        model, data, world = self.model, self.data, pin.LOCAL_WORLD_ALIGNED
        feet, still = [self.foot(i, t)[1] for i in range(self.n)], np.zeros(self.model.nv)
        moves = [np.hstack((foot, np.zeros((3, len(rows) - 3)))) for rows, foot in zip(self.rows, feet, strict=True)]
        for _ in range(2):
            pin.computeJointJacobians(model, data, self.q)
            pin.updateFramePlacements(model, data)
            J = [pin.jacobianCenterOfMass(model, data, self.q), pin.getJointJacobian(model, data, 1, world)[3:]]
            errors = [com - pin.centerOfMass(model, data, self.q), -pin.log3(data.oMi[1].rotation)]
            for rows, frame, place, foot in zip(self.rows, self.frames, self.places, feet, strict=True):
                now = data.oMf[frame]
                J.append(rows @ pin.getFrameJacobian(model, data, frame, world))
                errors.append(rows @ np.r_[foot[0] - now.translation, pin.log3(place.rotation @ now.rotation.T)])
            # as many unknowns as rows: another rule for q than for v and a would make them inconsistent
            inverse = np.zeros((model.nv, sum(map(len, J))))
            inverse[self.legs] = np.linalg.pinv(np.vstack(J)[:, self.legs])
            self.q = pin.integrate(model, self.q, inverse @ np.r_[*errors])
        rate = inverse @ np.r_[v, np.zeros(3), *(foot[1] for foot in moves)]
        pin.centerOfMass(model, data, self.q, rate, still)
        drift = [data.acom[0], pin.getClassicalAcceleration(model, data, 1, world).angular]
        for rows, frame in zip(self.rows, self.frames, strict=True):
            drift.append(rows @ pin.getFrameClassicalAcceleration(model, data, frame, world).vector)
        push = np.r_[a, np.zeros(3), *(foot[2] for foot in moves)]
        return self.q.copy(), rate, inverse @ (push - np.r_[*drift])

    def __call__(self, state: idc.State) -> list[Target]:
        """Return the targets of the next plan."""
        t, x = state.t - self.begin, self.plan + TRUST * (self.measured(state) - self.plan)
        a, targets = self.accelerations(t, x), []
        # the measured error acts through the planned acceleration only: targets that began at x would shake the base
        com, v = self.plan[:3], self.plan[3:6]
        here, middles = self.push, self.gait.knot * (0.5 + np.arange(self.gait.knots))
        for j in range(1, TARGETS + 1):
            # linear between targets, which the polynomials of the socket reproduce
            ahead = np.array([np.interp(j * EVERY_S, middles, axis) for axis in a.T])
            com = com + EVERY_S * v + EVERY_S**2 * (here / 3.0 + ahead / 6.0)
            v, here = v + 0.5 * EVERY_S * (here + ahead), ahead
            if j == 1:
                self.plan, self.push = np.r_[com, v, x[6:] + EVERY_S / self.gait.knot * (self.spin - x[6:])], ahead
            at = t + j * EVERY_S
            q, rate, change = self.kinematics(at, com, v, ahead)
            stands = np.array([self.foot(i, at)[0] for i in range(self.n)])
            targets.append(Target(t=self.begin + at, q=q, v=rate, a=change, contacts=stands))
        self.q = targets[0].q.copy()  # from the last target, two Newton steps would not reach the next plan
        return targets
