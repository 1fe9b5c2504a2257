"""The scene in a run's record: ``meta["scene"]`` is a `Scenery` in builtin types.

Positions are in the arrays: the channel ``q`` holds a robot's configuration, the channel ``pose_NAME`` the pose of the
body NAME. An experiment that records these channels can be replayed.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

import msgspec
import numpy as np

from idcontrol.contact.terrain import Terrain, height_map, plane
from idcontrol.errors import InputError
from idcontrol.record.recording import Run

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Samples = Annotated[int, msgspec.Meta(ge=0)]
NotNegative = Annotated[float, msgspec.Meta(ge=0)]
Pose = tuple[float, float, float, float, float, float, float]
"""Position [m] and unit quaternion (x, y, z, w), which rotates body axes to world axes."""

AT_ORIGIN: Pose = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)

SIZES = {"box": 3, "sphere": 1, "cylinder": 2, "capsule": 2}
"""Number of lengths in the size of each shape, see `DrawableBody`."""


class DrawableGround(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ground: a plane, or a height map if there are `heights`.

    Attributes:
        normal: Upward normal of the plane.
        offset_m: Offset of the plane ``n·p = offset``.
        heights: Samples of a height map [m] as little-endian float32, row by row; None for a plane.
        shape: Numbers of rows (along x) and columns (along y) of `heights`.
        spacing_m: Distance between samples.
        origin_m: Position of the first sample, x and y.
    """

    normal: tuple[float, float, float] = (0.0, 0.0, 1.0)
    offset_m: float = 0.0
    heights: bytes | None = None
    shape: tuple[Samples, Samples] = (0, 0)
    spacing_m: Positive = 1.0
    origin_m: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def of(cls, terrain: Terrain) -> Self:
        """Return the description of `terrain`."""
        n, (offset, x, y, dx, _) = terrain.parameters[:3].tolist(), terrain.parameters[3:].tolist()
        if not terrain.heights.size:
            return cls(normal=tuple(n), offset_m=offset)
        rows, columns = terrain.heights.shape
        samples = terrain.heights.astype("<f4").tobytes()
        return cls(heights=samples, shape=(rows, columns), spacing_m=dx, origin_m=(x, y))

    def terrain(self) -> Terrain:
        """Return the terrain; its heights are rounded to float32.

        Raises:
            InputError: The number of heights does not match their shape.
        """
        if self.heights is None:
            return plane(self.normal, self.offset_m)
        if len(self.heights) != 4 * self.shape[0] * self.shape[1]:
            raise InputError(f"scene.ground: {len(self.heights)} bytes are no heights of shape {self.shape}")
        return height_map(np.frombuffer(self.heights, "<f4").reshape(self.shape), self.spacing_m, self.origin_m)


class DrawableBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rigid body of a simple shape, centred at the origin of its frame.

    Attributes:
        name: Name; the channel ``pose_NAME``, shape (7,), holds its poses (`Pose`).
        shape: Kind of shape; cylinders and capsules lie along z.
        size_m: Edges of a box; radius of a sphere; radius and length of a cylinder, or of a capsule without its caps.
        colour: Red, green and blue, each 0 to 1.
        opacity: 1 is opaque.
        pose: Constant pose of a body without the channel ``pose_NAME``.
    """

    name: str
    shape: Literal["box", "sphere", "cylinder", "capsule"]
    size_m: tuple[Positive, ...]
    colour: tuple[Share, Share, Share] = (0.72, 0.74, 0.78)
    opacity: Share = 1.0
    pose: Pose = AT_ORIGIN


class Scenery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All visible objects; the poses of moving objects are recorded row by row.

    Attributes:
        robot: Name or path of the robot, whose configuration is in ``q``; None without a robot.
        bodies: Other bodies.
        ground: The ground; None without ground.
        mu: Friction along the tangents of the plant's pyramid; None if nothing slips or the friction varies.
        mu_controller: Friction along the tangents assumed by the controller, recorded as ``mu_told``; None if infinite.
        hands: Names of the robot's hands that may touch walls; they are numbered after its feet.
        walls: Unit normal and offset of each wall ``n·p = offset``, which feet and hands may touch; `bodies` contains
            the drawn walls.
    """

    robot: str | None = None
    bodies: tuple[DrawableBody, ...] = ()
    ground: DrawableGround | None = DrawableGround()
    mu: NotNegative | None = None
    mu_controller: NotNegative | None = msgspec.field(default=None, name="mu_told")
    hands: tuple[str, ...] = ()
    walls: tuple[tuple[float, float, float, float], ...] = ()


def of_meta(meta: Mapping[str, Any], where: str) -> Scenery:
    """Return the scene in the facts about a run.

    Args:
        meta: The facts, as in `Run.meta`.
        where: Name of the source of the facts, for error messages.

    Raises:
        InputError: There is no scene, or its description is wrong.
    """
    if "scene" not in meta:
        raise InputError(f"{where} has nothing that can be seen in 3-D; plots of a record: idcontrol report DIR")
    try:
        scenery = msgspec.convert(meta["scene"], Scenery)
    except msgspec.ValidationError as error:
        raise InputError(f"{where}: meta.scene: {error}; record the run again") from None
    for body in scenery.bodies:
        if len(body.size_m) != SIZES[body.shape]:
            many = SIZES[body.shape]
            raise InputError(f"{where}: meta.scene: {body.name}: the size of a {body.shape} has {many}")
    return scenery


def of_run(run: Run) -> Scenery:
    """Return the scene of `run`, after checking that the run has times and poses for it.

    Raises:
        InputError: There is no scene, its description is wrong, times or the robot's configurations are missing, or
            times or poses have the wrong shape.
    """
    scenery = of_meta(run.meta, str(run.folder))
    needed = ("t", "q") if scenery.robot else ("t",)
    for name in needed:
        if name not in run.arrays or not len(run.arrays[name]):
            raise InputError(f"{run.folder} has no row of {name}: there is nothing to play")
    shapes = {"t": (), **{f"pose_{body.name}": (7,) for body in scenery.bodies}}
    if any(run.arrays[name].shape[1:] != shape for name, shape in shapes.items() if name in run.arrays):
        raise InputError(f"{run.folder} is damaged: its times or poses have the wrong shape; record the run again")
    return scenery
