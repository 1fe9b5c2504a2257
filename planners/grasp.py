r"""Holding a body in a hand while the arm moves: the joints' motion, and the force that presses the fingers together.

What the original did. The goal of each finger lies 0.01 rad inside the box, and the closing of all eleven joints is
prescribed. Two rigid fingers cannot close on a rigid box: as a problem of inverse dynamics that has no solution, and
softened it has one whose forces grow with the stiffness of the softening (math.md 12.3). There the finger servo's
0.01 rad times 10 N m/rad made the grip in fact.

What is right. Motion and grip are apart. The fingers' goals are where their tips touch, so that all joints can be
prescribed, and the contact model finds the forces that carry the body along. The grip is an *internal* force
(`internal_force`): forces of the fingertips that balance each other on the body and so move nothing,

    G f₀ = 0,        τ₀ = -J_qᵀ f₀,        G = J_bᵀ the wrenches of contact forces on the body.

Since it moves nothing it may be added to any controller's answer (`Gripping`): with f the controller's forces inside
the friction cones, f + f₀ is there too, each contact pressed by at least the grip. Joints that carry the whole hand
have no part in τ₀. A controller that finds its own forces needs the grip only as a margin: to press harder when the
body is to be moved faster is the model's part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from msgspec import structs

from idcontrol.contact.contacts import Contacts, Detector
from idcontrol.system import System
from idcontrol.types import Array, Booleans, Command, ContactForces, Controller, Reference, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Swing:
    """All joints of an arm swing together, ``q = home + A (cos ωt - 1)``, from rest; its fingers stay.

    Attributes:
        home: Joint positions at the beginning, shape (a,) [rad or m].
        arm: Which joints swing; the others are fingers, shape (a,).
        amplitude: A [rad].
        rate: ω [rad/s].
        closing: How far the goals of the fingers lie beyond `home`, towards smaller values [rad or m].
        tips: How many fingertips there are.
    """

    home: Array
    arm: Booleans
    amplitude: float
    rate: float
    closing: float
    tips: int

    def __call__(self, state: State) -> Reference:
        """What is asked for at `state.t`."""
        return self.at(state.t)

    def at(self, t: float) -> Reference:
        """What is asked for at the time `t` [s]."""
        phase = self.rate * t
        moved = self.amplitude * self.arm
        return structs.replace(
            Reference.standing(self.home + moved * (np.cos(phase) - 1.0) - self.closing * ~self.arm, self.tips),
            v=-self.rate * np.sin(phase) * moved,
            a=-(self.rate**2) * np.cos(phase) * moved,
        )


def internal_force(contacts: Contacts, unactuated: int, grip: float) -> Array:
    """The internal force nearest to pressing every contact with `grip`: ``f₀ = (I - G⁺G) f``.

    Args:
        contacts: Of the fingertips with the body that they hold.
        unactuated: u: the first velocities are those of the body.
        grip: Wanted normal force of each contact [N].

    Returns:
        In block order: normal, first, second tangential forces, shape (3n,) [N].
    """
    wanted = np.zeros(3 * len(contacts))
    wanted[: len(contacts)] = grip
    G = contacts.jacobian[:, :unactuated].T
    found: Array = wanted - np.linalg.lstsq(G, G @ wanted, rcond=None)[0]
    return found


class Gripping:
    """A controller whose hand grips besides: its forces and torques, and those of an internal force."""

    def __init__(self, controller: Controller, system: System, contacts: Detector, grip: float) -> None:
        """Bind a grip to a controller.

        Args:
            controller: Moves the machine as if there were no grip; it is shown sensed forces without the grip's share.
            system: Hand and held body; another than the controller's own.
            contacts: Detector of the fingertips on `system`; it lists all of them within an infinite margin, in the
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
        command = self._controller(_with(state, -force), reference)
        limit = system.effort_limit
        wanted = command.tau - contacts.jacobian[:, u:].T @ internal
        tau = np.clip(wanted, -limit, limit)
        return structs.replace(
            command,
            tau=tau,
            predicted=None if command.predicted is None else _added(command.predicted, force),
            clipped=command.clipped or bool((tau != wanted).any()),
        )


def _with(state: State, force: Array) -> State:
    """`state` with `force`, shape (k, 3), added to what is sensed at each fingertip that touches."""
    return state if state.forces is None else structs.replace(state, forces=_added(state.forces, force))


def _added(forces: ContactForces, more: Array) -> ContactForces:
    return structs.replace(forces, force=forces.force + more[forces.identity])
