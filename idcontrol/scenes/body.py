"""The body of a machine under whole-body tasks: the tasks, and the stance or swing of each foot."""

import math
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pinocchio as pin

from idcontrol import robots
from idcontrol.contact.spheres import SphereContacts
from idcontrol.dynamics.system import System
from idcontrol.errors import InputError, UnknownName
from idcontrol.planners import dcm
from idcontrol.planners.dcm import Steps
from idcontrol.planners.turning import YawInertia
from idcontrol.tasks import CoM, Force, Frame, Posture, Task
from idcontrol.types import Array, Booleans, ContactForces, Reference, State

FIRM, LOOSE = 1e-3, 1e-6
"""Weights of joints in the posture task: `FIRM` if a joint moves no other task's frame, else `LOOSE`, so that the
posture does not pull on the other tasks."""
BALANCE: Final = 10.0
"""Weight of the task on the centre of mass; tasks on frames have the weight 1 while they are in use. A foot in the air
arrives later if its swing would push the centre of mass off its path."""
LANDED_S: Final = 0.02
"""Time after touchdown in which the task of a foot holds it at its landing position [s]."""
TIPS_RAD: Final = 0.01
"""A standing sole counts as tipping over an edge if it is tilted by more than this [rad]."""
FLAT_RAD: Final = 0.001
"""A tipped sole counts as flat again below this tilt [rad]."""
FLAT_COS: Final = math.cos(FLAT_RAD)
"""A sole whose normal has at least this vertical part, relative to the home pose, neither tips nor tilts."""
FLATTENS_RAD_S: Final = 0.6
"""Rate at which a tipped sole turns back; at this rate its raised corners touch the ground softly [rad/s]."""


def turned(yaw: float) -> Array:
    """Return the rotation about the vertical by `yaw` [rad], shape (3, 3)."""
    return np.asarray(pin.exp3(np.array([0.0, 0.0, yaw])))


def trunk_frames(system: System, contacts: SphereContacts) -> tuple[str, ...]:
    """Return the frames of the links to keep upright: base, and torso if joints separate it from the base.

    To find the torso, follow the heaviest limb without a foot outwards from the base, up to the first branching. A limb
    without a branching has no torso.
    """
    model = system.model
    walking = {int(j) for joint in contacts.mounting()[0] for j in model.supports[int(joint)]}
    data = model.createData()
    pin.computeSubtreeMasses(model, data)

    def limbs(joint: int) -> list[int]:
        return [int(child) for child in model.children[joint] if int(child) not in walking]

    torso = max(limbs(1), key=lambda child: data.mass[child], default=1)
    while len(limbs(torso)) == 1:
        (torso,) = limbs(torso)
    joints = (1, torso) if limbs(torso) and torso != 1 else (1,)
    bodies = [frame for frame in model.frames if frame.type == pin.BODY]
    return tuple(next(str(frame.name) for frame in bodies if frame.parentJoint == joint) for joint in joints)


class Body:
    """The tasks of a machine, and the stance of its n feet.

    Attributes:
        names: Names of the feet.
        floats: True if the base floats.
        home: State in the home pose.
        contacts: Contact spheres of the machine's feet, on a separate system.
        system: That system.
        com: Task on the centre of mass; not among `tasks` on a fixed base.
        trunk: Tasks on the orientations of base and torso; none on a fixed base.
        feet: Tasks on the feet; the task of a standing foot has no weight, except shortly after landing and while its
            tipped sole turns back.
        hand: Task on the position of a hand that touches nothing; None without such a hand.
        press: Task on the force of a hand that may touch a wall; this hand counts as the last foot. None without such a
            hand.
        turn: Task on the orientation of the hand of `press`, without weight at first; None without such a hand.
        centre: Centre of each foot's corners in its frame, shape (n, 3) [m].
        h: Control period [s].
        stance: True for feet that stand, shape (n,).
        to_liftoff: Time until each foot leaves the ground, shape (n,) [s]; inf without a planned liftoff.
    """

    def __init__(
        self,
        robot: robots.Robot,
        *,
        mu: float,
        rate_hz: float,
        com_kp_1_s2: float = 100.0,
        foot_kp_1_s2: float = 300.0,
        trunk_kp_1_s2: float = 100.0,
        hand: str | None = None,
    ) -> None:
        """Make the tasks of `robot`.

        Args:
            robot: The machine.
            mu: Friction of the ground.
            rate_hz: Rate of the control loop.
            com_kp_1_s2: Stiffness of the task on the centre of mass.
            foot_kp_1_s2: Stiffness of the task on a foot in the air.
            trunk_kp_1_s2: Stiffness of the tasks on base and torso.
            hand: Frame of a hand to be moved.

        Raises:
            UnknownName: The robot has no frame `hand`.
            InputError: The robot has a floating base and fewer than two feet, or a fixed base and no hand.
        """
        self.names = robot.patches
        floats = robot.description.base == "free-flyer"
        if floats and len(self.names) < 2:
            raise InputError(f"robot {robot.name!r} needs two feet or more; take talos, g1 or go1")
        if not floats and hand is None and not robot.hands:
            raise InputError(
                f"robot {robot.name!r} has a fixed base and needs a hand; set reach.frame, or take talos, g1 or go1"
            )
        self.contacts = robot.contacts(mu)
        self.system, self.home = self.contacts.system, robot.standing_state(self.contacts.system)
        known = {frame.name for frame in self.system.model.frames}
        if hand is not None and hand not in known:
            raise UnknownName("frame for the hand (setting reach.frame)", hand, known)
        patch, n = self.contacts.patch, len(self.names)
        frames = [robot.spheres[int(np.flatnonzero(patch == i)[0])].frame for i in range(n)]
        offsets = np.array([sphere.offset_m for sphere in robot.spheres])
        self._corners = [offsets[patch == i] for i in range(n)]
        self.centre = np.array([corners.mean(axis=0) for corners in self._corners])
        self.com, self.floats = CoM(kp=com_kp_1_s2, weight=BALANCE), floats
        trunk = trunk_frames(self.system, self.contacts) if floats else ()
        self.trunk = tuple(Frame(name, "orientation", kp=trunk_kp_1_s2) for name in trunk)
        self.feet = tuple(
            Frame(frame, "pose" if np.count_nonzero(patch == i) > 1 else "position", kp=foot_kp_1_s2, weight=0.0)
            for i, frame in enumerate(frames)
        )
        self.hand = None if hand is None else Frame(hand, "position")
        self.press = Force(robot.hands[-1].frame) if robot.hands else None
        self.turn = Frame(robot.hands[-1].frame, "orientation", weight=0.0) if robot.hands else None
        self._index = {task.frame: self.system.frame(task.frame) for task in self._frames}
        self.h, self._held = 1.0 / rate_hz, robot.standing_reference()
        self.stance = np.full(n, floats)  # fingertips of an arm do not stand
        self._since, self.to_liftoff = np.full(n, np.inf), np.full(n, np.inf)
        self._placed_at, self._placed = b"", dict[str, Any]()
        self._soles, self._tipped = self.places(self.home.q), np.zeros(n, dtype=np.bool_)

    def groups(self, walk: Steps) -> list[tuple[int, ...]]:
        """Return the groups of feet that step together, in order.

        Raises:
            UnknownName: A foot in `walk.first` or `walk.together` does not exist.
            InputError: A foot is in two groups, or a group includes all feet.
        """
        groups = [(name,) for name in self.names] if walk.together is None else list(walk.together)
        # by default the foot on the side of the motion begins, so that feet do not approach each other
        right = (walk.sideways_m, walk.turn_rad) < (0.0, 0.0)
        first = self.names[1 if right else 0] if walk.first is None else walk.first
        stepping = [name for group in groups for name in group]
        for name in (*stepping, first):
            if name not in self.names:
                raise UnknownName("foot", name, self.names)
        if len(set(stepping)) < len(stepping) or any(len(group) >= len(self.names) for group in groups):
            raise InputError(f"walk.together: name each foot once and never all feet in one group; it is {groups}")
        begin = next((i for i, group in enumerate(groups) if first in group), 0)
        return [tuple(map(self.names.index, group)) for group in (*groups[begin:], *groups[:begin])]

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Return all tasks for the controller."""
        com, press = (self.com,) if self.floats else (), () if self.press is None else (self.press,)
        # if a machine tips on the edge of a sole, small weights would let its free arms swing against their stops
        posture = Posture(kp=30.0, weight=np.where(self.idle, FIRM, LOOSE))
        return (*com, *self._frames, *press, posture)

    @property
    def _frames(self) -> tuple[Frame, ...]:
        """Return the tasks on frames."""
        hands = (task for task in (self.hand, self.turn) if task is not None)
        return (*self.trunk, *self.feet, *hands)

    @property
    def idle(self) -> Booleans:
        """True for joints that move no task's frame, shape (a,)."""
        model, frames = self.system.model, [self.system.frame(task.frame) for task in self._frames]
        moving = {int(j) for frame in frames for j in model.supports[model.frames[frame].parentJoint]}
        return np.array([model.getJointId(name) not in moving for name in self.system.actuated_names])

    def corners(self, q: Array, feet: Sequence[int]) -> Array:
        """Return the horizontal positions of the corners of some feet in configuration `q`, shape (k, 2) [m]."""
        places = self.places(q)
        return np.vstack([[places[self.feet[i].frame].act(at)[:2] for at in self._corners[i]] for i in feet])

    def yaw_inertia(self) -> YawInertia:
        """Return the yaw inertia of base and feet in the home pose."""
        model, data, q = self.system.model, self.system.scratch, self.home.q
        spin = pin.computeCentroidalMap(model, data, q)[5].copy()
        pin.computeJointJacobians(model, data, q)
        places, com = self.places(q), data.com[0][:2].copy()
        swing, base, corners = [], float(spin[5]), []
        for i, task in enumerate(self.feet):
            place, centre = places[task.frame], self.centre[i]
            frame, joint = self._index[task.frame], model.frames[self._index[task.frame]].parentJoint
            columns = [model.joints[int(j)].idx_v for j in model.supports[joint] if j > 1]
            jacobian = pin.getFrameJacobian(model, data, frame, pin.LOCAL_WORLD_ALIGNED)[:, columns]
            jacobian[:3] -= pin.skew(place.rotation @ centre) @ jacobian[3:]
            rows = jacobian if task.kind == "pose" else jacobian[:3]
            moved = spin[columns] @ np.linalg.pinv(rows)
            swing.append([*moved[:3], moved[5] if task.kind == "pose" else 0.0])
            at = place.act(centre)[:2]
            base -= float(np.array(swing[-1]) @ np.array([com[1] - at[1], at[0] - com[0], 0.0, 1.0]))
            corners.append(self.corners(q, [i]) - at)
        return YawInertia(self.system.mass, base, np.array(swing), corners)

    def moving_com(self, state: State) -> dcm.Motion:
        """Return the horizontal position and velocity of the centre of mass; the acceleration is set to zero.

        With a pendulum (`CoM.pendulum_m`), the velocity includes the share of the angular momentum.
        """
        data, mass, height = self.system.scratch, self.system.mass, self.com.pendulum_m
        pin.computeCentroidalMomentum(self.system.model, data, state.q, state.v)
        velocity, turning = data.hg.linear / mass, data.hg.angular / mass
        if height > 0.0:
            velocity += np.array([turning[1], -turning[0], 0.0]) / height
        return dcm.Motion(data.com[0][:2].copy(), velocity[:2], np.zeros(2))

    def places(self, q: Array) -> dict[str, Any]:
        """Return the placements of trunk, feet and hand by frame, ``pinocchio.SE3``, in configuration `q`."""
        model, data, key = self.system.model, self.system.scratch, q.tobytes()
        if key != self._placed_at:  # planners ask several times in a tick
            pin.forwardKinematics(model, data, q)
            self._placed = {
                frame: pin.updateFramePlacement(model, data, index).copy() for frame, index in self._index.items()
            }
            self._placed_at = key
        return self._placed

    def follow(self, task: CoM | Frame, place: Any, velocity: Array, acceleration: Array) -> None:
        """Set a task to a motion; its velocity is set to the mean over the past period, as controllers expect."""
        task.set(place, velocity - 0.5 * self.h * acceleration, acceleration)

    def centres(self, q: Array) -> Array:
        """Return x and y of all feet's centres, and their yaw from the home pose, shape (n, 3) [m, m, rad]."""
        places = self.places(q)
        centres = [places[task.frame].act(at)[:2] for task, at in zip(self.feet, self.centre, strict=True)]
        turns = [places[task.frame].rotation @ self._soles[task.frame].rotation.T for task in self.feet]
        yaws = [math.atan2(turn[1, 0], turn[0, 0]) for turn in turns]
        return np.array([(*at, yaw) for at, yaw in zip(centres, yaws, strict=True)])

    def flatten(self, q: Array) -> None:
        """Turn standing soles that tip over an edge in configuration `q` back to the ground, at `FLATTENS_RAD_S`."""
        places, still = self.places(q), np.zeros(6)
        for foot, task in enumerate(self.feet):
            if task.kind != "pose" or not self.stance[foot]:
                continue
            home, place, centre = self._soles[task.frame], places[task.frame], self.centre[foot]
            yawed = place.rotation @ home.rotation.T
            if not self._tipped[foot] and yawed[2, 2] > FLAT_COS:
                continue
            flat = turned(float(np.arctan2(yawed[1, 0], yawed[0, 0]))) @ home.rotation
            turn = place.rotation @ pin.log3(place.rotation.T @ flat)
            angle = float(np.linalg.norm(turn))
            tips = angle > (FLAT_RAD if self._tipped[foot] else TIPS_RAD)
            if tips:
                at = np.append(place.act(centre)[:2], home.act(centre)[2]) - flat @ centre
                way = np.append(at - place.translation, turn)
                self.follow(task, place, FLATTENS_RAD_S / angle * way, still)
            if tips or self._tipped[foot]:
                task.weight = float(tips)
            self._tipped[foot] = tips

    def lift(self, foot: int) -> None:
        """Let a foot leave the ground."""
        self.stance[foot], self._since[foot], self.to_liftoff[foot] = False, np.inf, np.inf
        self._tipped[foot] = False
        self.feet[foot].weight = 1.0

    def land(self, foot: int, place: Any) -> None:
        """Let a foot stand from now on, at its present pose `place` (``pinocchio.SE3``).

        Its task holds the foot for `LANDED_S`, until all corners carry load; without this task, the posture task would
        pull the leg.
        """
        self.stance[foot], self._since[foot] = True, -self.h
        still = np.zeros(3 if self.feet[foot].kind == "position" else 6)
        self.follow(self.feet[foot], place.translation if self.feet[foot].kind == "position" else place, still, still)

    def pressed(self, forces: ContactForces | None) -> Array:
        """Return the sensed force on each foot, world axes, shape (n, 3) [N]; zero without contact."""
        force = np.zeros((len(self.names), 3))
        if forces is not None:
            force[forces.identity] = forces.force
        return force

    def reference(self) -> Reference:
        """Count one more period of stance; return the home pose with the present stance of the feet."""
        self._since += self.h
        for task, stands, since in zip(self.feet, self.stance.tolist(), self._since.tolist(), strict=True):
            if stands and abs(since - LANDED_S) < 0.5 * self.h:
                task.weight = 0.0
        stance = {
            "stance": self.stance.copy(),
            "since_touchdown": self._since.copy(),
            "to_liftoff": self.to_liftoff.copy(),
        }
        return msgspec.structs.replace(self._held, **stance)
