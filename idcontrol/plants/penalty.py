r"""Compliant ground: a spring and a damper under every foot (Zapolsky & Drumwright 2017, section 7.5) or fingertip.

The forces of a contact with depth d = -φ > 0 and velocity (v_n, v_t) are

    f_n = max(0, k d - b v_n),      f_t = -k ξ - b v_t  within |f_t| ≤ μ f_n

where ξ is the displacement of the contact point since touchdown. It stretches a second spring, whose end slides if the
friction limit is exceeded (Cundall & Strack 1979). So a foot at rest stays at rest on a slope; with purely
velocity-dependent friction it would creep. Viscous drag ``f_t = -D v_t`` can replace Coulomb friction, as in the
simulator of that paper.

Feet are light and the ground is stiff, so contact has a time scale of 0.1 ms. A step uses constant multibody terms,
like the steps of other plants, but integrates the velocities c of the contact points in fine steps of symplectic Euler:
``c' = J a + A f`` with the acceleration a without contact and the Delassus operator ``A = J M⁻¹Jᵀ``. For one contact of
inverse mass w, fine steps of length h are stable up to ``h² k w + 2 h b w = 4``. Joint stops are rigid.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from idcontrol.contact.contacts import Contacts
from idcontrol.contact.fingertips import Fingertips
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.stops import Stops
from idcontrol.dynamics.system import System
from idcontrol.errors import Diverged
from idcontrol.kernels.jit import njit
from idcontrol.models import coulomb
from idcontrol.models.step import StepProblem, StepSolution
from idcontrol.plants.parts import (
    averaged,
    brake,
    copied,
    pushed,
    require_not_negative,
    require_positive,
    require_state,
    require_torques,
    substeps,
)
from idcontrol.types import Array, Booleans, ContactForces, State

SINK_M = 1e-3
"""Depth to which a robot sinks at rest on all its spheres [m] (Zapolsky & Drumwright 2017, section 7.5). For the robot
`links` this gives 1.177e4 N/m per foot."""

DAMPING_RATIO = 1.0
"""Damping relative to critical damping of a contact's share of the mass; 238 N s/m per foot of `links`."""

MOST_FINE_STEPS = 100_000
"""Limit of fine steps in a step of the plant. A robot on its feet needs ten to a thousand; more are needed only if the
motion diverges."""

STABLE_SHARE = 0.5
"""Largest fine step, as a share of the longest stable step: with a step that is just stable, damping would vanish."""


class SpringGround(NamedTuple):
    """Material of compliant ground."""

    stiffness: float
    """k [N/m]"""
    damping: float
    """b [N s/m]"""
    drag: float
    """D [N s/m]; negative for Coulomb friction instead of drag."""


class ContactPoints(NamedTuple):
    """Motion of n contact points along their axes at the beginning of a step; vectors in block order (N, S, T)."""

    velocity: Array
    """c = J v, shape (3 n,) [m/s]"""
    acceleration: Array
    """J a, the acceleration without contact, shape (3 n,) [m/s²]"""
    delassus: Array
    """A = J M⁻¹Jᵀ, shape (3 n, 3 n) [1/kg]"""
    gap: Array
    """φ, shape (n,) [m]"""
    mu: Array
    """Friction coefficients, shape (n,); inf for no slip."""


class FrictionSprings(NamedTuple):
    """Memory of the friction springs, updated by fine steps."""

    stretch: Array
    """ξ along the axes, shape (3, n) [m]; the first row is not used."""
    touching: Booleans
    """True for points that touched the ground in the last fine step, shape (n,)."""


class Penalty:
    """A robot on compliant ground, or a hand with a body between compliant fingertips."""

    last: StepSolution | None = None
    """Always None: forces of springs and dampers need no contact problem."""

    def __init__(
        self,
        system: System,
        contacts: SphereContacts | Fingertips,
        dt: float,
        *,
        stiffness: float | None = None,
        damping: float | None = None,
        drag: float | None = None,
    ) -> None:
        """Put a robot on compliant ground.

        Args:
            system: The plant's own multibody terms.
            contacts: Detector of contacts on `system`.
            dt: Longest time with constant multibody terms [s].
            stiffness: k of each contact [N/m]; None for a depth of `SINK_M` at rest.
            damping: b of each contact [N s/m]; None for `DAMPING_RATIO` times critical damping.
            drag: D of each contact [N s/m] instead of Coulomb friction; None for Coulomb friction.

        Raises:
            InputError: A number is negative or not finite, or the stiffness or `dt` is zero.
        """
        spheres = contacts.radius.size
        share = system.mass / spheres
        gravity = float(np.linalg.norm(system.model.gravity.linear))
        self._system, self._contacts = system, contacts
        self._stops = Stops(system)
        self._dt = require_positive("longest substep", dt)
        k = require_positive("stiffness", share * gravity / SINK_M if stiffness is None else stiffness)
        critical = 2.0 * math.sqrt(k * share)
        b = require_not_negative("damping", DAMPING_RATIO * critical if damping is None else damping)
        self._ground = SpringGround(k, b, -1.0 if drag is None else require_not_negative("drag", drag))
        self._state = State(t=0.0, q=np.zeros(0), v=np.zeros(0))
        self._forces = ContactForces.none()
        self._stretch = np.zeros((spheres, 3))
        self._touching = np.zeros(spheres, dtype=np.bool_)

    def reset(self, state: State) -> State:
        """Start from `state`, with relaxed friction springs.

        Raises:
            InputError: `state` cannot be a state of this robot.
        """
        self._state, self._forces = require_state(self._system, state), ContactForces.none()
        self._stretch[:], self._touching[:] = 0.0, False
        return copied(self._state)

    def push(self, velocity: Array) -> None:
        """Add `velocity`, world frame, shape (3,) [m/s], to the velocity of the floating base and all its links.

        Raises:
            InputError: `velocity` is not three finite numbers.
        """
        self._state = pushed(self._state, velocity)

    def step(self, tau: Array, dt: float) -> State:
        """Hold joint torques `tau`, shape (a,) [N m], for `dt` [s].

        Raises:
            InputError: `tau` has a wrong shape or is not finite, or `dt` is not positive or too long.
            Diverged: The motion is out of bounds.
        """
        require_torques(tau, self._system.actuated_names)
        count = substeps(dt, self._dt)
        self._forces = averaged([self._substep(tau, dt / count) for _ in range(count)], count)
        return copied(self._state)

    def contact_forces(self) -> ContactForces:
        """Return forces of the last `step`, averaged over it; only pressing contacts are listed."""
        return self._forces

    def _substep(self, tau: Array, h: float) -> ContactForces:
        system, state = self._system, self._state
        system.update(state.q, state.v)
        brake(system, state.v, h)
        v = system.from_pinocchio(state.v)
        feet = self._contacts.detect(np.inf)
        J = feet.jacobian
        applied = -system.bias
        applied[system.n_unactuated :] += tau
        responses = np.linalg.solve(system.M, np.column_stack((applied, J.T)))
        acceleration, A = responses[:, 0], J @ responses[:, 1:]
        # the stretch is stored in the axes of the touched body and used in the axes of the contacts; if the normal has
        # turned, the normal part is dropped
        axes = feet.axes @ self._contacts.body_axes() if isinstance(self._contacts, Fingertips) else feet.axes
        springs = FrictionSprings(np.einsum("nax,nx->an", axes, self._stretch), self._touching)
        # the largest absolute row sum bounds the largest eigenvalue
        stable = longest_stable(self._ground, float(np.abs(A).sum(axis=1).max()))
        wanted = h / (STABLE_SHARE * stable)
        if not wanted <= MOST_FINE_STEPS:
            raise Diverged(
                f"the robot on compliant ground diverged at {state.t:.3f} s: the ground would need {wanted:.0e} fine "
                f"steps in {h:g} s; take a higher rate, or a controller that is stable on compliant ground"
            )
        fine = math.ceil(wanted)
        points = ContactPoints(J @ v, J @ acceleration, A, feet.gap, feet.mu)
        force, moved, pressed = ground_forces(points, self._ground, springs, h, fine)
        self._stretch = np.einsum("nax,an->nx", axes, springs.stretch)
        v_plus = v + h * (acceleration + responses[:, 1:] @ force)
        mean = v + h * (0.5 * (1.0 + 1.0 / fine) * acceleration + responses[:, 1:] @ moved)
        stops = self._stops.beside(Contacts.none(v.size), state.q, state.v, h)
        if len(stops):
            problem = StepProblem(h=h, M=system.M, kappa=-system.M @ v_plus, contacts=stops)
            stopped = coulomb.solve(problem)
            if stopped.impulses.any():  # the stop holds throughout the step
                v_plus = mean = stopped.v_plus
        world = feet.force_world(force.reshape(3, -1).T, 1.0)
        q_next, v_next = system.advance(state.q, v_plus, h, mean=mean)
        self._state = State(t=state.t + h, q=q_next, v=v_next)
        return ContactForces(identity=feet.identity[pressed], force=world[pressed], normal=feet.axes[pressed, 0])


def longest_stable(ground: SpringGround, w: float) -> float:
    """Return the longest stable step [s] of symplectic Euler on `ground` for the inverse mass `w` [1/kg]."""
    k, b, drag = ground
    b = max(b, drag)
    return 4.0 / (w * (b + math.sqrt(b * b + 4.0 * k / w)))


@njit(cache=True, error_model="numpy")
def ground_forces(
    points: ContactPoints, ground: SpringGround, springs: FrictionSprings, h: float, count: int
) -> tuple[Array, Array, Booleans]:  # pragma: no cover - compiled
    """Move contact points through `count` fine steps, under the forces in the module's docstring.

    Args:
        points: The n contact points at the beginning.
        ground: Material of the ground.
        springs: Friction springs, updated.
        h: Total duration of the fine steps [s].
        count: Number of fine steps.

    Returns:
        Mean forces, block order, shape (3 n,) [N]; mean forces weighted by the remaining share of the time, same shape
        [N]: ``h² A`` times these forces is the displacement that contact causes; True for points with a normal force in
        any fine step, shape (n,).
    """
    k, b, drag = ground
    acceleration, A, mu = points.acceleration, points.delassus, points.mu
    stretch, touching = springs
    n, step = points.gap.shape[0], h / count
    c, phi, f = points.velocity.copy(), points.gap.copy(), np.zeros(3 * n)
    force, moved = np.zeros(3 * n), np.zeros(3 * n)
    pressed = np.zeros(n, dtype=np.bool_)
    for index in range(count):
        for i in range(n):
            s, t = n + i, 2 * n + i
            if not phi[i] < 0.0:
                f[i] = f[s] = f[t] = 0.0
                touching[i] = False
                continue
            if not touching[i]:
                touching[i] = True
                stretch[1, i] = stretch[2, i] = 0.0
            f[i] = max(0.0, -k * phi[i] - b * c[i])
            pressed[i] |= f[i] > 0.0
            if drag >= 0.0:
                f[s], f[t] = -drag * c[s], -drag * c[t]
                continue
            f[s], f[t] = -k * stretch[1, i] - b * c[s], -k * stretch[2, i] - b * c[t]
            size = np.sqrt(f[s] * f[s] + f[t] * f[t])
            most = mu[i] * f[i] if f[i] > 0.0 else 0.0
            if size > most:
                f[s], f[t] = f[s] * most / size, f[t] * most / size
                stretch[1, i], stretch[2, i] = -(f[s] + b * c[s]) / k, -(f[t] + b * c[t]) / k
        remaining = (count - index) / count
        for row in range(3 * n):
            force[row] += f[row] / count
            moved[row] += f[row] * remaining / count
            change = acceleration[row]
            for other in range(3 * n):
                change += A[row, other] * f[other]
            c[row] += step * change
        for i in range(n):
            phi[i] += step * c[i]
            stretch[1, i] += step * c[n + i]
            stretch[2, i] += step * c[2 * n + i]
    return force, moved, pressed
