r"""A grip: internal forces of fingertips on a held body.

Motion and grip are separate. The finger targets place the tips exactly on the body. The motion of all joints can
therefore be prescribed, and the contact model computes the forces that move the body with the hand. The grip is an
*internal* force (`internal_force`): forces of the fingertips that balance each other on the body and therefore cause no
motion,

    G f₀ = 0,        τ₀ = -J_qᵀ f₀,        G = J_bᵀ maps contact forces to their wrench on the body.

Hence a grip can be added to the command of any controller (`GrippingController`). If the controller's forces f and the
internal forces f₀ lie inside the friction cones, so do their sums f + f₀. τ₀ is zero at joints that carry the whole
hand. A controller that computes contact forces needs the grip only as a margin, since its contact model
already increases the forces with the acceleration of the body.

The original program (Zapolsky & Drumwright 2017) put each finger target 0.01 rad inside the box and prescribed the
closing of all eleven joints. Two rigid fingers cannot close on a rigid box: this inverse dynamics has no solution, and
with compliant contacts its forces grow with the stiffness (math.md 12.3). In that program the finger servo gripped the
box, with a torque of 0.01 rad times 10 N m/rad.
"""

from __future__ import annotations

import numpy as np
from msgspec import structs

from idcontrol.contact.contacts import Contacts, Detector
from idcontrol.dynamics.system import System
from idcontrol.types import Array, Command, ContactForces, Controller, Reference, State


def internal_force(contacts: Contacts, unactuated: int, grip: float) -> Array:
    """Return ``(I - G⁺G) f``, the internal force closest to f; f presses each contact with `grip`, G is the grasp map.

    Args:
        contacts: Contacts of the fingertips with the held body.
        unactuated: Number u of unactuated velocities: the velocities of the body, which come first.
        grip: Demanded normal force of each contact [N].

    Returns:
        Forces in block order: normal, first tangential, second tangential, shape (3n,) [N].
    """
    wanted = np.zeros(3 * len(contacts))
    wanted[: len(contacts)] = grip
    G = contacts.jacobian[:, :unactuated].T
    return wanted - np.linalg.lstsq(G, G @ wanted, rcond=None)[0]


class GrippingController:
    """A controller with a grip: it adds an internal force and its torques to another controller's commands."""

    def __init__(self, controller: Controller, system: System, contacts: Detector, grip: float) -> None:
        """Add a grip to a controller.

        Args:
            controller: Controller that moves the robot; its sensed forces exclude the grip.
            system: Hand and held body; the controller must use a separate object.
            contacts: Detector of the fingertips on `system`; at an infinite margin it lists all fingertips in order.
            grip: Normal force of each fingertip [N].
        """
        self._controller, self._system, self._contacts, self._grip = controller, system, contacts, grip

    def reset(self) -> None:
        """Forget all earlier steps."""
        self._controller.reset()

    def __call__(self, state: State, reference: Reference) -> Command:
        """Return the controller's command with the grip added, its torques clipped to the effort limits.

        A state with a NaN or an infinity gets the controller's command alone.
        """
        system, u = self._system, self._system.n_unactuated
        if not (np.isfinite(state.q).all() and np.isfinite(state.v).all()):
            return self._controller(state, reference)
        system.update(state.q, state.v)
        contacts = self._contacts.detect(np.inf)
        internal = internal_force(contacts, u, self._grip)
        force = contacts.force_world(internal.reshape(3, -1).T, 1.0)
        command = self._controller(_sensing_more(state, -force), reference)
        limit = system.effort_limit
        wanted = command.tau - contacts.jacobian[:, u:].T @ internal
        tau = np.clip(wanted, -limit, limit)
        return structs.replace(
            command,
            tau=tau,
            predicted=None if command.predicted is None else _added(command.predicted, force),
            clipped=command.clipped or bool((tau != wanted).any()),
        )


def _sensing_more(state: State, force: Array) -> State:
    """Return `state` with `force`, shape (k, 3) [N], added to the sensed force of each touching fingertip."""
    return state if state.forces is None else structs.replace(state, forces=_added(state.forces, force))


def _added(forces: ContactForces, more: Array) -> ContactForces:
    """Return `forces`, with row i of `more`, shape (k, 3) [N], added to the force of the contact with identity i."""
    return structs.replace(forces, force=forces.force + more[forces.identity])
