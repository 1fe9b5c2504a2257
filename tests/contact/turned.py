"""Contacts of a robot whose normals tests turn, at constant gaps and constant centres of the spheres."""

from dataclasses import replace
from typing import Any

import numpy as np

from idcontrol.contact.contacts import Contacts, axes_of, contact_rows
from idcontrol.contact.spheres import SphereContacts


class Turned:
    """Detector of the contacts of `place`, with normals turned by `turn` [rad], shape (spheres, 2)."""

    def __init__(self, place: SphereContacts) -> None:
        self.place, self.turn = place, np.zeros((place.gap.size, 2))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.place, name)

    def detect(self, margin: float) -> Contacts:
        """Return the contacts that `place` detects, with turned axes."""
        c, system = self.place.detect(margin), self.place.system
        normal = c.axes[:, 0] + np.einsum("ib,ibx->ix", self.turn[c.identity], c.axes[:, 1:])
        normal /= np.linalg.norm(normal, axis=1)[:, None]
        radius, joint = self.place.radius[c.identity, None], self.place.joint[c.identity]
        centre = c.point + radius * c.axes[:, 0]
        point, axes, rows = centre - radius * normal, axes_of(normal, self.place.orientation), np.zeros_like(c.jacobian)
        contact_rows(system.jacobian, system.support, joint, np.zeros(len(c), np.int64), point, axes, rows)
        drift = np.zeros(3 * len(c))
        for i in range(len(c)):  # the acceleration of the sphere's centre, as of a point of its link
            velocity, bias = system.motion.velocity[joint[i]], system.motion.drift[joint[i]]
            linear, angular = velocity[:3], velocity[3:]
            acceleration = bias[:3] + np.cross(bias[3:], point[i])
            drift[i :: len(c)] = axes[i] @ (acceleration + np.cross(angular, linear + np.cross(angular, centre[i])))
        return replace(c, point=point, axes=axes, jacobian=rows, drift=drift)
