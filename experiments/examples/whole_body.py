"""A custom whole-body controller: joint accelerations by feedback, contact forces by a small QP.

::

    idcontrol loop --controller experiments.examples.whole_body:WholeBody --duration 10

It assumes that standing feet do not move. The joint accelerations then determine the acceleration of the base (least
squares). Only contact forces can cause this acceleration, so they follow from the base's rows b of the equation of
motion. The joints' rows q give the torques::

    J_b v̇_b = -J_q v̇_q - J v / T
    min  ½ |J_bᵀ f - (M_b v̇ + c_b)|² + ½ ε |f|²     s.t.  friction pyramids
    τ = M_q v̇ + c_q - J_qᵀ f

`id-coulomb-qp` makes no such assumption: it solves for forces and motion together, so that feet may slide and lift.
"""

import numpy as np

from idcontrol.controllers import Setup
from idcontrol.controllers.feedback import proportional_derivative
from idcontrol.solvers.active_set_qp import solve_qp
from idcontrol.types import Array, Command, ContactForces, Integers, Reference, State, Status

SETTLE_S = 0.02
"""T: time in which the velocity of a standing foot decays [s]; a shorter time would fight every landing."""
EASE = 1e-4
"""ε: cost of a squared newton of contact force, relative to a squared newton of error on the base."""
CANDIDATE_M = 1e-3
"""A foot in planned stance counts as standing below this gap [m]."""


class WholeBody:
    """The controller; any class with this `__init__`, `reset` and `__call__` fits the loop."""

    def __init__(self, setup: Setup) -> None:
        """Store the machine, the detector of its contacts, and the acceleration gains."""
        self.system, self.contacts, self.gains = setup.system, setup.contacts, setup.acceleration_gains

    def reset(self) -> None:
        """Do nothing: the controller has no state."""

    def __call__(self, state: State, reference: Reference) -> Command:
        """Return torques for the period that begins at ``state.t``."""
        system, gains, u = self.system, self.gains, self.system.n_unactuated
        system.update(state.q, state.v)
        v = system.from_pinocchio(state.v)
        a = np.zeros_like(v)
        a[u:] = reference.a + proportional_derivative(
            gains, reference.q - system.joint_positions(state.q), reference.v - v[u:]
        )

        candidates = self.contacts.detect(CANDIDATE_M)
        standing = candidates.take(reference.stance[candidates.identity])
        n = len(standing)
        J = standing.jacobian  # all normals, then all first tangents, then all second tangents
        a[:u] = (
            np.linalg.lstsq(J[:, :u], -J[:, u:] @ a[u:] - J @ v / SETTLE_S, rcond=1e-2)[0] if n else -system.bias[:u]
        )
        need = system.M @ a + system.bias
        A = J[:, :u].T
        f = solve_qp(A.T @ A + EASE * np.eye(3 * n), -A.T @ need[:u], _pyramids(standing.mu), np.zeros(5 * n)).x
        return self._command(need[u:] - J[:, u:].T @ f, f.reshape(3, n).T, standing.identity, standing.axes)

    def _command(self, tau: Array, force: Array, identity: Integers, axes: Array) -> Command:
        limit = self.system.effort_limit
        clipped = np.clip(tau, -limit, limit)
        if not np.isfinite(clipped).all():
            return Command(tau=np.zeros_like(limit), status=Status.FAILED, dropped=("the state is not finite",))
        world = np.einsum("ik,ikj->ij", force, axes)
        predicted = ContactForces(identity=identity.copy(), force=world, normal=axes[:, 0].copy())
        return Command(tau=clipped, predicted=predicted, clipped=bool((clipped != tau).any()))


def _pyramids(mu: Array) -> Array:
    """Return the matrix A of ``A f ≥ 0``, i.e. ``f_n ≥ 0, μ f_n ± f_s ≥ 0, μ f_n ± f_t ≥ 0``, shape (5n, 3n)."""
    n = len(mu)
    none, one, mu_n = np.zeros((n, n)), np.eye(n), np.diag(mu)
    return np.vstack(
        [
            np.hstack([one, none, none]),
            np.hstack([mu_n, one, none]),
            np.hstack([mu_n, -one, none]),
            np.hstack([mu_n, none, one]),
            np.hstack([mu_n, none, -one]),
        ]
    )
