"""A hand touches a wall, presses with a target force, slides through points, and comes to rest.

1. *Approach*: smoothly to `CLEAR_M` before the wall, then slowly until a force is sensed.
2. *Press*: the target of the normal force grows to its full value.
3. *Slide*: along a spline through the points, smoothly and from rest to rest.
4. *Rest*.

Once the hand touches the wall, the controller assumes that the wall's surface moves as the hand should slide
(`SphereContacts.surface`). The hand sticks to this assumed surface, so its friction may be any force within the cone.
The force target contains the sensed friction, so the friction coefficient need not be known.
"""

from typing import Any, Final

import msgspec
import numpy as np
import pinocchio as pin
from scipy.interpolate import CubicSpline

from idcontrol.config.configuration import Positive
from idcontrol.contact.spheres import SphereContacts
from idcontrol.planners import dcm
from idcontrol.scenes.body import Body
from idcontrol.scenes.motions import Reach, Stand
from idcontrol.types import Array, Reference, State

CLEAR_M: Final = 2e-3
"""Gap at which the approach becomes slow [m]."""
TOUCH_SHARE: Final = 0.02
"""The hand has touched the wall when its force exceeds this share of the target."""
FIRST_SHARE: Final = 0.1
"""Share of the target at touchdown; it grows smoothly to 1."""
RAMP_S: Final = 0.5
"""Time in which the target of the normal force grows to its full value [s]."""
SENSED_S: Final = 0.004
"""Time constant of the filter of the sensed friction while the hand slides [s]."""
EASE_S: Final = 0.05
"""Time constant with which the friction target fades after the slide [s]. A resting hand must not follow the sensed
friction: the torques would grow with every unmodelled force, until the hand slips."""


class Wall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A vertical wall against which a hand presses.

    Attributes:
        distance_m: Distance of the wall from the hand in the home pose, along x; null for no wall.
        force_n: Target of the normal force.
        approach_s: Time of the approach, until `CLEAR_M` before the wall.
        touch_m_s: Speed at which the hand touches the wall.
        faces: True to turn the hand during the approach, until the axis of its tip is normal to the wall.
    """

    distance_m: Positive | None = None
    force_n: Positive = 20.0
    approach_s: Positive = 1.5
    touch_m_s: Positive = 0.002
    faces: bool = False


class Press:
    """A planner: a hand, the last of the robot's feet, presses against a wall; all other feet stand.

    Attributes:
        normal: Normal of the wall, shape (3,).
        target_n: Present target of the normal force; NaN before the hand touches the wall.
        error: Reference minus position of the hand along the wall, shape (3,) [m]; zero before the slide.
        touched_s: Time at which the hand touched the wall [s]; NaN before.
        slide_s: Duration of the slide [s].
        end_s: Expected end of the slide [s].
        middle: Mean of the points where the hand should touch the wall, shape (3,) [m].
    """

    def __init__(
        self, body: Body, stand: Stand, reach: Reach, wall: Wall, contacts: SphereContacts, decay_s: float
    ) -> None:
        """Plan the motion of the hand.

        Args:
            body: Body whose last foot is the hand.
            stand: Planner of the rest of the body.
            reach: Points through which the hand slides; it touches the wall at the first. Their distances from the wall
                are ignored.
            wall: The wall.
            contacts: The controller's contacts, in front of the assumed wall.
            decay_s: Time constant of contact velocities in the controller (`Landing.decay_s`).
        """
        self._body, self._stand, self._wall, self._contacts, self._decay = body, stand, wall, contacts, decay_s
        self._task, self._centre = body.feet[-1], body.centre[-1]
        self.normal: Array = contacts.walls[-1, :3].copy()
        home = body.places(body.home.q)[self._task.frame]
        self._home, self._start = home.rotation.copy(), home.act(self._centre)
        points = self._start + np.array(reach.through_m)
        touching = contacts.walls[-1, 3] + float(contacts.radius[-1])
        self._points = points + np.outer(touching - points @ self.normal, self.normal)
        self._way = CubicSpline(np.linspace(0.0, 1.0, len(points)), self._points - self._points[0])
        self._begin = self._points[0]
        self.slide_s = (len(points) - 1) * reach.each_s
        self.end_s = wall.approach_s + CLEAR_M / wall.touch_m_s + RAMP_S + self.slide_s
        self.middle: Array = self._points.mean(axis=0) - float(contacts.radius[-1]) * self.normal
        self._turn = np.zeros(3)
        if wall.faces:
            assert body.turn is not None
            between = pin.Quaternion.FromTwoVectors(self._home @ self._centre, -self.normal)
            self._turn, body.turn.weight = pin.log3(between.matrix()), 1.0
        self.target_n = self.touched_s = np.nan
        self.error, self._friction = np.zeros(3), np.zeros(3)
        body.lift(len(body.names) - 1)

    def __call__(self, state: State) -> Reference:
        """Set all tasks and the force target for this instant; return `Body.reference`."""
        hand, force = self._body.places(state.q)[self._task.frame], self._body.pressed(state.forces)[-1]
        if np.isnan(self.touched_s):
            if force @ self.normal > TOUCH_SHARE * self._wall.force_n:
                self._touch(state.t, hand)
            else:
                self._approach(state.t, hand)
        if not np.isnan(self.touched_s):
            slides = self._slide(state.t, hand)
            self._press(state.t, force, slides)
        return self._stand(state)

    def _approach(self, t: float, hand: Any) -> None:
        """Move the hand towards the wall."""
        body, wall = self._body, self._wall
        before = self._points[0] + CLEAR_M * self.normal
        x, v, a = dcm.blend(self._start, before, 0.0, wall.approach_s, t)
        if t > wall.approach_s:
            x, v = x - wall.touch_m_s * (t - wall.approach_s) * self.normal, -wall.touch_m_s * self.normal
        rotation, spin, spin_up = hand.rotation, np.zeros(3), np.zeros(3)
        if wall.faces:
            assert body.turn is not None
            turn, spin, spin_up = dcm.blend(np.zeros(3), self._turn, 0.0, wall.approach_s, t)
            rotation = pin.exp3(turn) @ self._home
            body.follow(body.turn, rotation, spin, spin_up)
        arm = -rotation @ self._centre  # converts the hand's centre to the frame's origin
        v = v + np.cross(spin, arm)
        a = a + np.cross(spin_up, arm) + np.cross(spin, np.cross(spin, arm))
        body.follow(self._task, x + arm, v, a)

    def _touch(self, t: float, hand: Any) -> None:
        """Let the hand stand on the wall from now on."""
        self.touched_s = t
        self._body.land(len(self._body.names) - 1, hand)

    def _slide(self, t: float, hand: Any) -> bool:
        """Set the velocity of the wall that the controller assumes; return True while the hand should slide."""
        s, ds, dds = dcm.smooth((t - self.touched_s - RAMP_S) / self.slide_s)
        if s == 0.0:  # the slide begins where the hand is, and rolling has moved it a little
            self._begin = hand.act(self._centre)
        ds, dds = ds / self.slide_s, dds / self.slide_s**2
        v, a = ds * self._way(s, 1), ds**2 * self._way(s, 2) + dds * self._way(s, 1)
        along = np.eye(3) - np.outer(self.normal, self.normal)
        self.error = along @ (self._way(s) + self._begin - hand.act(self._centre))
        # `decay` is the time constant with which contact velocities approach the surface's; with this gain errors decay
        # without overshoot
        gain, slides = 0.25 / self._decay, 0.0 < s < 1.0
        self._contacts.surface[-1] = along @ (v + self._decay * a + gain * self.error) if slides else 0.0
        return slides

    def _press(self, t: float, force: Array, slides: bool) -> None:
        """Set the target of the force: the wanted normal force and the sensed friction."""
        rise, _, _ = dcm.smooth((t - self.touched_s) / RAMP_S)
        self.target_n = (FIRST_SHARE + (1.0 - FIRST_SHARE) * rise) * self._wall.force_n
        friction = force - (force @ self.normal) * self.normal if slides else np.zeros(3)
        self._friction += self._body.h / (SENSED_S if slides else EASE_S) * (friction - self._friction)
        assert self._body.press is not None
        self._body.press.set(self.target_n * self.normal + self._friction)
