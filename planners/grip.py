r"""A grip: internal forces of fingertips on the body that they hold.

Motion and grip are separate. The finger targets are where their tips touch the body, so that the motion of all joints
can be prescribed, and the contact model computes the forces that carry the body along. The grip is an *internal* force
(`internal_force`): forces of the fingertips that balance each other on the body and therefore cause no motion,

    G f₀ = 0,        τ₀ = -J_qᵀ f₀,        G = J_bᵀ maps contact forces to their wrench on the body.

Hence it may be added to the answer of any controller (`GrippingController`). If the controller's forces f lie inside
the friction cones, so does f + f₀, and each contact is pressed by at least the grip. Joints that carry the whole hand
have no part in τ₀. A controller that computes contact forces needs the grip only as a margin: its contact model presses
harder when the body is to move faster.

The original program (Zapolsky & Drumwright 2017) put each finger target 0.01 rad inside the box and prescribed the
closing of all eleven joints. Two rigid fingers cannot close on a rigid box: as inverse dynamics this has no solution,
and softened it has one whose forces grow with the stiffness of the softening (math.md 12.3). There the finger servo
gripped the box, with 0.01 rad times 10 N m/rad.
"""

from __future__ import annotations

import numpy as np
from msgspec import structs

from idcontrol.contact.contacts import Contacts, Detector
from idcontrol.dynamics.system import System
from idcontrol.types import Array, Command, ContactForces, Controller, Reference, State


def internal_force(contacts: Contacts, unactuated: int, grip: float) -> Array:
    """Return the internal force closest to pressing every contact with `grip`: ``f₀ = (I - G⁺G) f``.

    Args:
        contacts: Contacts of the fingertips with the held body.
        unactuated: Number u of unactuated velocities, the body's, which come first.
        grip: Wanted normal force of each contact [N].

    Returns:
        Forces in block order: normal, first tangential, second tangential, shape (3n,) [N].
    """
    wanted = np.zeros(3 * len(contacts))
    wanted[: len(contacts)] = grip
    G = contacts.jacobian[:, :unactuated].T
    internal: Array = wanted - np.linalg.lstsq(G, G @ wanted, rcond=None)[0]
    return internal


class GrippingController:
    """A controller with a grip: it adds an internal force and its torques to another controller's answers."""

    def __init__(self, controller: Controller, system: System, contacts: Detector, grip: float) -> None:
        """Add a grip to a controller.

        Args:
            controller: Moves the robot as if there were no grip; its sensed forces exclude the grip's share.
            system: Hand and held body, separate from the controller's.
            contacts: Detector of the fingertips on `system`; within an infinite margin it lists all of them, in the
                order of their numbers.
            grip: Normal force of each fingertip [N].
        """
        self._controller, self._system, self._contacts, self._grip = controller, system, contacts, grip

    def reset(self) -> None:
        """Forget all earlier steps."""
        self._controller.reset()

    def __call__(self, state: State, reference: Reference) -> Command:
        """Return torques for the period that begins at `state.t`."""
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
    """Return `forces` plus the rows of `more`, shape (k, 3) [N], of their contacts."""
    return structs.replace(forces, force=forces.force + more[forces.identity])
