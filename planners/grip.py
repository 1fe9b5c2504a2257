r"""A grip: internal forces by which fingertips press on the body that they hold.

Motion and grip are kept apart. The goals of the fingers are where their tips touch the body, so that the motion of all
joints can be prescribed, and the contact model finds the forces that carry the body along. The grip is an *internal*
force (`internal_force`): forces of the fingertips that balance each other on the body and therefore move nothing,

    G f₀ = 0,        τ₀ = -J_qᵀ f₀,        G = J_bᵀ maps contact forces to their wrench on the body.

Hence it may be added to the answer of any controller (`GrippingController`). Where the controller's forces f lie inside
the friction cones, f + f₀ does, too, and each contact is pressed by at least the grip. Joints that carry the whole hand
have no part in τ₀. A controller that finds contact forces itself needs the grip only as a margin: pressing harder when
the body is to move faster is the part of its contact model.

The original program (Zapolsky & Drumwright 2017) put the goal of each finger 0.01 rad inside the box and prescribed the
closing of all eleven joints. Two rigid fingers cannot close on a rigid box: as a problem of inverse dynamics that has
no solution, and softened it has one whose forces grow with the stiffness of the softening (math.md 12.3). What gripped
the box there was the finger servo, with 0.01 rad times 10 N m/rad.
"""

from __future__ import annotations

import numpy as np
from msgspec import structs

from idcontrol.contact.contacts import Contacts, Detector
from idcontrol.dynamics.system import System
from idcontrol.types import Array, Command, ContactForces, Controller, Reference, State


def internal_force(contacts: Contacts, unactuated: int, grip: float) -> Array:
    """The internal force nearest to pressing every contact with `grip`: ``f₀ = (I - G⁺G) f``.

    Args:
        contacts: Contacts of the fingertips with the body that they hold.
        unactuated: Number u of unactuated velocities; they come first and are those of the body.
        grip: Wanted normal force of each contact [N].

    Returns:
        Forces in block order: normal, first tangential, second tangential, shape (3n,) [N].
    """
    wanted = np.zeros(3 * len(contacts))
    wanted[: len(contacts)] = grip
    G = contacts.jacobian[:, :unactuated].T
    found: Array = wanted - np.linalg.lstsq(G, G @ wanted, rcond=None)[0]
    return found


class GrippingController:
    """A controller with a grip: it adds an internal force and its torques to the answers of another controller."""

    def __init__(self, controller: Controller, system: System, contacts: Detector, grip: float) -> None:
        """Add a grip to a controller.

        Args:
            controller: Moves the machine as if there were no grip; the forces that it senses lack the grip's share.
            system: Hand and held body; not the instance that the controller uses.
            contacts: Detector of the fingertips on `system`; within an infinite margin it lists all of them, in the
                order of their numbers.
            grip: Normal force of each fingertip [N].
        """
        self._controller, self._system, self._contacts, self._grip = controller, system, contacts, grip

    def reset(self) -> None:
        """Forget all earlier steps."""
        self._controller.reset()

    def __call__(self, state: State, reference: Reference) -> Command:
        """Torques for the period that begins at `state.t`."""
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
    """`state` with `force`, shape (k, 3) [N], added to what is sensed at each fingertip that touches."""
    return state if state.forces is None else structs.replace(state, forces=_added(state.forces, force))


def _added(forces: ContactForces, more: Array) -> ContactForces:
    """`forces` plus the rows of `more`, shape (k, 3) [N], that belong to their contacts."""
    return structs.replace(forces, force=forces.force + more[forces.identity])
