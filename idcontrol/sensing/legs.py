"""Positions, angular velocities and forces of the feet, from joints and IMU, in the base's axes.

The force on a foot follows from the residual r, the part of its leg's torques that the motion of the robot does not
explain (De Luca et al. 2006, "Collision detection and safe reaction with the DLR-III lightweight manipulator arm",
IROS). In each period h the residual moves towards its new value with the time constant T::

    r⁺ = r + (M v̇ + c - Pᵀτ - r) h / (h + T)

The paper's integral of the generalised momentum has the same value to first order in h. The accelerometer's reading is
used as the acceleration of the base: by the principle of equivalence it includes gravity, so M, v̇ and c do not depend
on the attitude. The force f on a foot is a least-squares fit over the joints of its leg, with the foot's Jacobian J:
``(J Jᵀ + ε) f = J r``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pinocchio as pin
from msgspec import structs

from idcontrol.contact.spheres import SphereContacts
from idcontrol.dynamics.system import Terms
from idcontrol.errors import InputError
from idcontrol.kernels.bound import Bound, bind, entry
from idcontrol.kernels.jit import njit
from idcontrol.kernels.linear import cholesky, solve_lower, solve_lower_transposed
from idcontrol.kernels.placements import placement_views
from idcontrol.types import Array, Booleans, ContactForces, Integers, Sensed

GRAVITY = np.array([0.0, 0.0, -9.81])
SMOOTHING_S = 3e-3
"""Time constant T of the residual [s]. It reduces noise of joint velocities to a fifth, and is short compared with a
step of the robot."""
STRETCHED_M2 = 1e-4
"""ε, the square of a lever arm [m²]; forces with shorter lever arms about the joints of a leg are not sensed."""
BARELY = 0.04
"""Share of the weight below which a vertical force on a foot counts as zero: the inertial forces of a swinging leg are
uncertain by this much."""


class _Machine(NamedTuple):
    """Multibody terms and feet of a robot, with its base at the origin and unrotated.

    Attributes:
        terms: `System.terms`.
        position: Origins of the joints' frames, shape (n_joints, 3) [m].
        rotation: Axes of the joints (columns), shape (n_joints, 3, 3).
        velocity: `System.motion.velocity`, shape (n_joints, 6).
        joint: Joint that carries each foot, shape (k,).
        offset: Centre of each foot in that joint's frame, shape (k, 3) [m].
        radius: Radii of the feet, shape (k,) [m].
        moves: True for joint velocities that move each foot, shape (k, m); False for the base's velocities.
    """

    terms: Terms
    position: Array
    rotation: Array
    velocity: Array
    joint: Integers
    offset: Array
    radius: Array
    moves: Booleans


class Feet(NamedTuple):
    """The feet, in the base's axes.

    Attributes:
        place: Centres relative to the base, shape (k, 3) [m].
        turning: Angular velocities, shape (k, 3) [rad/s].
        force: Forces of the ground on the feet, shape (k, 3) [N].
        residual: The residual r of all velocities, in the order of `System.order`, shape (m,) [N, N m].
    """

    place: Array
    turning: Array
    force: Array
    residual: Array


class Legs:
    """The feet at the last sensor values.

    Attributes:
        feet: Positions, angular velocities and forces of the feet.
        system: The robot, with its base at the origin and unrotated.
    """

    def __init__(self, spheres: SphereContacts) -> None:
        """Set the feet, or the corners of soles; nothing else may use the `System` of `spheres`."""
        self.system = system = spheres.system
        joint, offset = spheres.mounting()
        k, m = len(joint), system.n_velocities
        moves = system.support[joint]
        moves[:, : system.n_unactuated] = False
        self.feet = Feet(np.zeros((k, 3)), np.zeros((k, 3)), np.zeros((k, 3)), np.zeros(m))
        position, rotation = placement_views(system.data.oMi)
        machine = _Machine(
            system.terms, position, rotation, system.motion.velocity, joint, offset, spheres.radius, moves
        )
        self._acceleration, self._torque = np.zeros(m), np.zeros(m)
        self._up = np.zeros(3)
        self._bound = bind((machine, self.feet, self._acceleration, self._torque, self._up))
        self._q, self._v, self._last = np.zeros(system.model.nq), np.zeros(m), np.zeros(m)
        self._q[6] = 1.0
        self._look = entry(_look, self._bound, 0.0)
        self._least = BARELY * system.mass * -GRAVITY[2]
        self._t = np.nan

    def update(self, sensed: Sensed, R: Array) -> None:
        """Update `feet` from new sensor values; `R`, shape (3, 3), is the estimated orientation, base to world."""
        state, system, v = sensed.state, self.system, self._v
        h = state.t - self._t
        self._t = state.t
        self._q[7:] = state.q[7:]
        v[3:] = state.v[3:]
        system.update(self._q, v)
        share = 0.0
        if h > 0.0:
            self._acceleration[:] = system.from_pinocchio((v - self._last) / h)
            self._acceleration[:3] = sensed.accelerometer + GRAVITY
            self._torque[system.n_unactuated :] = sensed.tau
            share = h / (h + SMOOTHING_S)
        self._up[:] = R[2]
        self._last[:] = v
        self._look(self._bound, share)

    def forces(self, R: Array) -> ContactForces:
        """Return the forces of the ground on the feet, world axes, for a base with orientation `R`, shape (3, 3).

        Feet whose vertical force is below `BARELY` times the weight are omitted. All normals are vertical.
        """
        force = self.feet.force @ R.T
        identity = np.flatnonzero(force[:, 2] > self._least)
        normal = np.zeros((len(identity), 3))
        normal[:, 2] = 1.0
        return ContactForces(identity=identity, force=force[identity], normal=normal)


def require_points(feet: SphereContacts) -> None:
    """Raise `InputError` if a foot is a sole: a leg's torques do not tell how its corners share the force."""
    if feet.sole_patch is not None:
        raise InputError("sensing.forces: forces can only be estimated for point feet; leave it at plant")


class LegForces:
    """A stage of sensing that replaces the forces of the feet by estimates from the torques of the legs."""

    def __init__(self, feet: SphereContacts) -> None:
        """Set the feet; nothing else may use their `System`.

        Raises:
            InputError: A foot is a sole.
        """
        require_points(feet)
        self._legs = Legs(feet)

    def __call__(self, sensed: Sensed) -> Sensed:
        """Return a copy of `sensed` in which the forces are estimates."""
        R = orientation(sensed.state.q)
        self._legs.update(sensed, R)
        return structs.replace(sensed, state=structs.replace(sensed.state, forces=self._legs.forces(R)))


@njit(cache=True, error_model="numpy")
def _look(bound: Bound, share: float) -> None:  # pragma: no cover - compiled
    """Write new values into `Feet`; move the residual by `share`, 0 to 1, towards its new value."""
    machine, feet, acceleration, torque, up = bound.borrowed
    M, bias, J = machine.terms
    m = bias.shape[0]
    for i in range(m):
        new = bias[i] - torque[i]
        for j in range(m):
            new += M[i, j] * acceleration[j]
        feet.residual[i] += share * (new - feet.residual[i])
    A, L, column = np.empty((3, 3)), np.empty((3, 3)), np.empty(3)
    for k in range(machine.joint.shape[0]):
        at, turn = machine.position[machine.joint[k]], machine.rotation[machine.joint[k]]
        place, offset, radius = feet.place[k], machine.offset[k], machine.radius[k]
        f = feet.force[k]
        for x in range(3):
            place[x] = at[x] + turn[x, 0] * offset[0] + turn[x, 1] * offset[1] + turn[x, 2] * offset[2]
            feet.turning[k, x] = machine.velocity[machine.joint[k], 3 + x]
            f[x] = 0.0
            for y in range(3):
                A[x, y] = STRETCHED_M2 if x == y else 0.0
        px, py, pz = place[0] - radius * up[0], place[1] - radius * up[1], place[2] - radius * up[2]
        for j in range(m):
            if machine.moves[k, j]:
                column[0] = J[0, j] + J[4, j] * pz - J[5, j] * py
                column[1] = J[1, j] + J[5, j] * px - J[3, j] * pz
                column[2] = J[2, j] + J[3, j] * py - J[4, j] * px
                for x in range(3):
                    f[x] += column[x] * feet.residual[j]
                    for y in range(3):
                        A[x, y] += column[x] * column[y]
        cholesky(A, L)
        solve_lower(L, f)
        solve_lower_transposed(L, f)


def orientation(q: Array) -> Array:
    """Return the rotation matrix of the base, shape (3, 3), from a configuration `q` in Pinocchio's layout."""
    R: Array = pin.Quaternion(q[3:7]).matrix()
    return R
