"""Convert a row of a record to poses of moving objects, arrows for forces, and contact frames."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from idcontrol.contact.contacts import write_axes
from idcontrol.contact.terrain import Terrain, sphere_gap
from idcontrol.errors import InputError
from idcontrol.record.scenery import Scenery
from idcontrol.robots.robot import Robot
from idcontrol.show.view.machine import drawable_links, reach
from idcontrol.show.view.shapes import Mesh, solid
from idcontrol.types import Array, Booleans

GRAVITY = 9.81
LOADED = 1e-3
"""Force above which a foot counts as loaded, as a share of the robot's weight."""
APART = 0.02
"""Distance between the two arrows of a foot, as a share of the stage's size."""


@dataclass(frozen=True, slots=True)
class Node:
    """A rigid object that may move.

    Attributes:
        name: Name of the object.
        meshes: Meshes in its frame.
    """

    name: str
    meshes: tuple[Mesh, ...]


@dataclass(frozen=True, slots=True)
class Shot:
    """The scene at one instant, world frame.

    Attributes:
        poses: Pose of each node, position [m] and quaternion (x, y, z, w), shape (n, 7).
        contact: Pose of the contact frame of each foot, z along the normal, x along the first tangent, shape (k, 7). A
            sole's frame is at its centre of pressure, or below its middle if the centre of pressure is unknown.
        loaded: True for feet whose measured or predicted force exceeds `LOADED` of the weight, shape (k,).
        measured: Arrows of the plant's forces, tail and head for each foot, shape (k, 2, 3) [m]. Tail and head coincide
            without a force.
        predicted: Arrows of the forces that the controller predicts, as `measured`.
        reference: Reference pose of each link of the robot, shape (links, 7); (0, 7) if unknown.
    """

    poses: Array
    contact: Array
    loaded: Booleans
    measured: Array
    predicted: Array
    reference: Array


class Stage:
    """The objects of a scene, and their poses in each row.

    Attributes:
        scenery: Description of the scene.
        nodes: Objects that may move.
        ground: The ground; None without ground.
        size: Reference length for camera, arrows and cones [m].
        floating: True if the robot has a floating base.
        metres_per_newton: Scale of the arrows; initially, the arrow of the robot's weight has the length `size`.
    """

    def __init__(self, scenery: Scenery, find_robot: Callable[[str], Robot], q: Array | None = None) -> None:
        """Set up the objects of `scenery`.

        Args:
            scenery: Description of the scene.
            find_robot: Loads a robot by name or path.
            q: Configuration (nq,) in which the robot's size is measured; None means the neutral configuration.

        Raises:
            UnknownName: The robot does not exist.
            InputError: The robot cannot be loaded, `q` does not fit it, or the ground is not valid.
        """
        self.scenery = scenery
        self.ground: Terrain | None = None if scenery.ground is None else scenery.ground.terrain()
        self._feet: tuple[tuple[int, Array, float], ...] = ()
        self._joints: tuple[int, ...] = ()
        nodes: list[Node] = []
        self.size, self.floating, weight = 0.0, False, np.inf
        if scenery.robot is not None:
            robot = find_robot(scenery.robot)
            self._model = robot.system().model
            self._data = self._model.createData()
            seen = drawable_links(robot, self._model)
            self._joints = tuple(link.joint for link in seen)
            self._feet = (
                tuple(
                    (self._model.getFrameId(foot.frame), np.array(foot.offset_m), foot.radius_m)
                    for foot in robot.description.feet
                )
                + tuple(
                    (self._model.getFrameId(sole.frame), np.mean(sole.corners_m, axis=0), sole.radius_m)
                    for sole in robot.description.soles
                )
                + tuple(
                    (self._model.getFrameId(hand.frame), np.array(hand.offset_m), hand.radius_m)
                    for hand in robot.description.hands
                    if hand.name in scenery.hands
                )
            )
            nodes += [Node(link.name, link.meshes) for link in seen]
            self.floating = self._model.joints[1].nq == 7
            pose = pin.neutral(self._model) if q is None else self._fitting(q)
            self.size, weight = reach(self._model, pose), GRAVITY * pin.computeTotalMass(self._model)
        for body in scenery.bodies:
            nodes.append(Node(body.name, (solid(body.shape, body.size_m, body.colour, body.opacity),)))
            self.size = max(self.size, 2.0 * max(body.size_m))
        self.nodes = tuple(nodes)
        self.metres_per_newton, self._heavy = self.size / weight, LOADED * weight

    @property
    def feet(self) -> int:
        """Return the number of feet, soles and drawn hands together."""
        return len(self._feet)

    @property
    def links(self) -> int:
        """Return the number of the robot's links with meshes; they are the first nodes."""
        return len(self._joints)

    def at(self, row: Mapping[str, Array]) -> Shot:
        """Return the scene at one row of a record.

        Args:
            row: Channels of the row: ``q`` (nq,) of the robot; ``pose_NAME`` (7,) of moving bodies; ``force`` and
                ``force_pred`` (k, 3) at the feet [N], NaN or missing if unknown; ``cop`` and ``cop_pred`` (k, 3),
                centres of pressure of soles [m], likewise; ``q_ref`` (nq,), the reference configuration, missing if
                unknown.

        Raises:
            InputError: ``q``, ``q_ref``, or a channel with vectors at the feet does not fit the robot.
        """
        poses = np.empty((len(self.nodes), 7))
        contact, centre, reference = np.empty((self.feet, 7)), np.empty((self.feet, 3)), np.empty((0, 7))
        if self._joints:
            if "q_ref" in row:
                reference = self._links_at(row["q_ref"])
            poses[: self.links] = self._links_at(row["q"])
            for i, (frame, offset, radius) in enumerate(self._feet):
                centre[i] = pin.updateFramePlacement(self._model, self._data, frame).act(offset)
                contact[i] = self._contact_frame(centre[i], radius)
        for i, body in enumerate(self.scenery.bodies, start=len(self._joints)):
            poses[i] = row.get(f"pose_{body.name}", np.array(body.pose))
        below, none = contact[:, :3].copy(), np.zeros((self.feet, 3))
        measured, predicted = self._at_feet(row, "force", none), self._at_feet(row, "force_pred", none)
        contact[:, :3] = self._at_feet(row, "cop", below)
        return Shot(
            poses=poses,
            contact=contact,
            loaded=np.maximum(np.linalg.norm(measured, axis=1), np.linalg.norm(predicted, axis=1)) > self._heavy,
            measured=self._arrows(contact[:, :3], measured, 0.5 * APART * self.size),
            predicted=self._arrows(self._at_feet(row, "cop_pred", below), predicted, -0.5 * APART * self.size),
            reference=reference,
        )

    def _links_at(self, q: Array) -> Array:
        """Return poses of the links at configuration `q` (nq,), shape (links, 7)."""
        pin.forwardKinematics(self._model, self._data, self._fitting(q))
        return np.array([pin.SE3ToXYZQUAT(self._data.oMi[joint]) for joint in self._joints]).reshape(-1, 7)

    def _fitting(self, q: Array) -> Array:
        """Return `q`, or raise `InputError` if its length does not fit the robot."""
        if q.shape != (self._model.nq,):
            raise InputError(
                f"the robot {self.scenery.robot} has {self._model.nq} positions, the record {q.size}: "
                "it has changed since; record the run again"
            )
        return q

    def _at_feet(self, row: Mapping[str, Array], name: str, unknown: Array) -> Array:
        """Return a channel with a vector at each foot, shape (k, 3); `unknown` replaces a missing channel and NaN."""
        values = row.get(name, unknown)
        if values.shape != (self.feet, 3):
            raise InputError(
                f"the robot {self.scenery.robot} has {self.feet} feet, {name} of the record has shape {values.shape}: "
                "it has changed since; record the run again"
            )
        return np.where(np.isnan(values), unknown, values)

    def _arrows(self, at: Array, force: Array, aside: float) -> Array:
        """Return arrows of forces (k, 3) [N] that begin at points (k, 3), as `Shot.measured`.

        They are shifted sideways by `aside` [m], so that two arrows of equal forces are both visible.
        """
        # sideways as seen by the first camera
        tail = at + aside * np.array([1.0, 1.0, 0.0]) / np.sqrt(2.0)
        return np.stack([tail, tail + self.metres_per_newton * force], axis=1)

    def _contact_frame(self, centre: Array, radius: float) -> Array:
        """Return the pose of a foot sphere's contact frame on the ground or the nearest wall (math.md, section 2).

        Without ground, the frame is at the sphere's centre, with the world's axes.
        """
        if self.ground is None:
            return np.concatenate([centre, [0.0, 0.0, 0.0, 1.0]])
        gap, n, point = sphere_gap(self.ground.parameters, self.ground.coefficients, *centre, radius)
        for *normal, offset in self.scenery.walls:
            if (distance := np.dot(normal, centre) - offset - radius) < gap:
                gap, n, point = distance, tuple(normal), centre - radius * np.array(normal)
        rows = np.empty((3, 3))
        write_axes(*n, 0.0, rows)
        return np.array(pin.SE3ToXYZQUAT(pin.SE3(rows[[1, 2, 0]].T, np.array(point))))
