"""A centroidal MPC that trots links and go1 through `idcontrol.mpc.Socket`.

::

    idcontrol loop --robot go1 --planner experiments/examples/centroidal_mpc.py:CentroidalMpc \
        --transport inprocess --pacing fast --duration 30 --set loop.start=standing

Fifty times a second a quadratic program plans the momentum of the next steps, with forces at the contact points within
friction pyramids (Orin, Goswami & Lee 2013; Di Carlo et al. 2018). Footholds and their timetable follow a path.
Inverse kinematics turns the plan into whole-body targets.
"""

from __future__ import annotations

import numpy as np
import osqp
import pinocchio as pin
import scipy.sparse as sp

import idcontrol as idc
from idcontrol.mpc import Target
from idcontrol.types import Array

EVERY_S, TARGETS, STAND_S, RAMP_S = 0.02, 6, 1.0, 0.5
"""Time between plans and targets [s], targets in a plan, time before the first step, time constant of the speed [s]."""
TRUST = 0.1
"""Share of the measured error that enters the next plan."""
GAITS = {  # period [s], duty, lift [m], speed [m/s], lowered by [m], knot [s], knots; touchdowns [share of the period]
    "links": (0.4, 0.75, 0.015, 0.15, 0.0, 0.02, 20, (0.25, 0.75, 0.75, 0.25)),
    "go1": (0.4, 0.75, 0.05, 0.3, 0.0, 0.02, 20, (0.25, 0.75, 0.75, 0.25)),
}
COST, FORCE_COST = np.array([100.0, 100.0, 2e3, 10.0, 10.0, 40.0, 1e3, 1e3, 1e3]), 1.0
"""Costs of errors of the centre of mass, its velocity, and the angular momentum per mass; cost of unequal forces."""


class CentroidalMpc:
    """Timetable of the feet, program for the momentum, and inverse kinematics."""

    rate_hz = 1.0 / EVERY_S

    def __init__(self, robot: idc.robots.Robot, mu: float, rate: float) -> None:
        """Prepare the gait of the robot."""
        self.period, self.duty, self.lift, self.speed, lower, self.dt, self.knots, self.touchdown = GAITS[robot.name]
        contacts, home = robot.contacts(mu), robot.standing_state()
        self.model, self.mass, self.patch = contacts.system.model, contacts.system.mass, contacts.patch
        self.data, self.home, self.n = self.model.createData(), home.q, contacts.n_feet
        contacts.system.update(home.q, home.v)
        contacts.detect(np.inf)
        pin.framesForwardKinematics(self.model, self.data, self.home)
        names = [contacts.frames[int(np.argmax(self.patch == foot))] for foot in range(self.n)]
        self.frames = [contacts.system.frame(name) for name in names]
        self.places = [self.data.oMf[frame].copy() for frame in self.frames]
        self.arm = contacts.point - np.array([self.places[foot].translation for foot in self.patch])
        self.com = contacts.system.com(home.q) - [0.0, 0.0, lower]
        self.rows = slice(0, 3 if contacts.sole_patch is None else 6)  # of a foot, in kinematics
        side = mu / np.sqrt(2.0)
        self.cone = sp.csc_matrix([[1, 0, -side], [-1, 0, -side], [0, 1, -side], [0, -1, -side], [0, 0, -1]])

    def reset(self, state: idc.State) -> None:
        """Restart at `state`, above its feet."""
        self.begin, self.q, self.plan = state.t, state.q.copy(), self.measured(state)
        self.guess = np.tile(self.plan[:3], (self.knots, 1))

    def measured(self, state: idc.State) -> Array:
        """Return centre of mass, its velocity and the angular momentum about it, shape (9,)."""
        hg = pin.computeCentroidalMomentum(self.model, self.data, state.q, state.v)
        return np.r_[self.data.com[0], hg.vector / self.mass]

    def path(self, t: float) -> Array:
        """Return position and velocity along the path, shape (2,)."""
        tau = max(t - STAND_S, 0.0)
        return self.speed * np.array([tau + RAMP_S * np.expm1(-tau / RAMP_S), -np.expm1(-tau / RAMP_S)])

    def foot(self, foot: int, t: float) -> tuple[bool, Array]:
        """Return whether a foot stands; and its position, velocity and acceleration, shape (3, 3)."""
        cycle, phase = divmod((t - STAND_S) / self.period - self.touchdown[foot] + 1e-9, 1.0)
        # each foot stands under the path at the middle of its stance
        middle = STAND_S + (cycle + self.touchdown[foot] + 0.5 * self.duty) * self.period
        way = [self.path(middle)[0] if cycle >= 0 else 0.0, self.path(middle + self.period)[0] if cycle >= -1 else 0.0]
        out, swings = np.zeros((3, 3)), phase >= self.duty and t >= STAND_S
        out[0] = self.places[foot].translation + np.array([way[0], 0.0, 0.0])
        u, swing = (phase - self.duty) / (1.0 - self.duty), (1.0 - self.duty) * self.period
        for k in range(3 if swings else 0):
            along, up = np.polyder([6.0, -15, 10, 0, 0, 0], k), np.polyder([-64.0, 192, -192, 64, 0, 0, 0], k)
            out[k, 0] += np.polyval(along, u) * (way[1] - way[0]) / swing**k
            out[k, 2] += np.polyval(up, u) * self.lift / swing**k
        return not swings, out

    def accelerations(self, t: float, x: Array) -> Array:
        """Plan from x (9,) on; return the acceleration of the centre of mass in each knot, shape (knots, 3)."""
        N, h, points, g = self.knots, self.dt, len(self.patch), 9.81
        fall, unit = np.array([0.0, 0.0, -g]), np.eye(3)  # per unit of mass; forces in units of the weight
        A, B = np.eye(9), np.zeros((N, 9, 3 * points))
        A[:3, 3:6], A[6:, :3] = h * unit, -h * pin.skew(fall)  # L' = Σ (r - ĉ) x f - (c - ĉ) x (-m g)
        stands, wanted, constant = np.zeros((N, points), dtype=bool), np.zeros((N, 9)), np.zeros((N, 9))
        for k in range(N):
            feet = [self.foot(i, t + (k + 0.5) * h) for i in range(self.n)]
            s, v = self.path(t + (k + 1) * h)
            stands[k] = [feet[i][0] for i in self.patch]
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
        """Return q, v and a for this motion of the centre of mass, the feet of time t, and an upright base."""
        model, data, rows, world = self.model, self.data, self.rows, pin.LOCAL_WORLD_ALIGNED
        feet, still = [self.foot(i, t)[1] for i in range(self.n)], np.zeros(self.model.nv)
        for _ in range(2):
            pin.computeJointJacobians(model, data, self.q)
            pin.updateFramePlacements(model, data)
            J = [pin.jacobianCenterOfMass(model, data, self.q), pin.getJointJacobian(model, data, 1, world)[3:]]
            errors = [com - pin.centerOfMass(model, data, self.q), -pin.log3(data.oMi[1].rotation)]
            for frame, place, foot in zip(self.frames, self.places, feet, strict=True):
                now = data.oMf[frame]
                J.append(pin.getFrameJacobian(model, data, frame, world)[rows])
                errors.append(np.r_[foot[0] - now.translation, pin.log3(place.rotation @ now.rotation.T)][rows])
            # joints that nothing else moves return to their home
            inverse = np.linalg.pinv(np.vstack((*J, 1e-3 * np.eye(model.nv)[6:])))
            home = 1e-3 * pin.difference(model, self.q, self.home)[6:]
            self.q = pin.integrate(model, self.q, inverse @ np.r_[*errors, home])
        rate = inverse @ np.r_[v, np.zeros(3), *(np.r_[foot[1], np.zeros(3)][rows] for foot in feet), still[6:]]
        pin.centerOfMass(model, data, self.q, rate, still)
        drift = [data.acom[0], pin.getClassicalAcceleration(model, data, 1, world).angular]
        drift += [pin.getFrameClassicalAcceleration(model, data, frame, world).vector[rows] for frame in self.frames]
        push = np.r_[a, np.zeros(3), *(np.r_[foot[2], np.zeros(3)][rows] for foot in feet)]
        return self.q.copy(), rate, inverse @ np.r_[push - np.r_[*drift], still[6:]]

    def __call__(self, state: idc.State) -> list[Target]:
        """Return the targets of the next plan."""
        t, x = state.t - self.begin, self.plan + TRUST * (self.measured(state) - self.plan)
        a, targets = self.accelerations(t, x), []
        com, v = x[:3], x[3:6]
        for j in range(1, TARGETS + 1):
            here, ahead = (a[int(k * EVERY_S / self.dt + 1e-6)] for k in (j - 1, j))
            com, v = com + EVERY_S * v + 0.5 * EVERY_S**2 * here, v + EVERY_S * here
            if j == 1:
                self.plan = np.r_[com, v, x[6:] + EVERY_S / self.dt * (self.spin - x[6:])]
            at = t + j * EVERY_S
            q, rate, change = self.kinematics(at, com, v, 0.5 * (here + ahead))
            stands = np.array([self.foot(i, at)[0] for i in range(self.n)])
            targets.append(Target(t=self.begin + at, q=q, v=rate, a=change, contacts=stands))
        return targets
