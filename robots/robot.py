"""A robot: its description, its URDF, and the quantities that follow from them."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pinocchio as pin
from msgspec import structs

from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import Terrain, plane
from idcontrol.dynamics.multibody import machine
from idcontrol.dynamics.system import ActuatorLimits, Actuators, System, position_limits
from idcontrol.errors import InputError, UnknownName
from idcontrol.robots import joints, locate, schema, urdf
from idcontrol.types import Array, Integers, Reference, State

TABLES = {
    "home.joints_rad": 0.0,
    "limits.torque_nm": None,
    "limits.velocity_rad_s": None,
    "limits.torque_rate_nm_s": np.inf,
    "limits.no_load_rad_s": np.inf,
    "limits.lower_rad": -np.inf,
    "limits.upper_rad": np.inf,
    "gains.torque.kp_nm_rad": None,
    "gains.torque.kd_nm_s_rad": None,
    "gains.brake_nm_s_rad": np.nan,
    "actuators.armature_kg_m2": 0.0,
    "actuators.damping_nm_s_rad": 0.0,
    "actuators.friction_nm": 0.0,
    "actuators.bandwidth_hz": np.inf,
    "actuators.delay_s": 0.0,
}
"""The per-joint tables of a robot file, and the value of joints without an entry. None means that every joint needs an
entry, and NaN that the value comes from another table."""

ACTUATORS = tuple(where for where in TABLES if where.startswith("actuators."))
"""The tables of actuators, in the order of `Actuators`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Robot:
    """A robot file and its URDF.

    Attributes:
        name: Name of the robot.
        path: The robot file.
        description: Content of the robot file.
        urdf: The URDF.
        hands: Hands that may touch walls; they count as feet, numbered after the soles.
        walls: Normal n and offset [m] of each wall ``n·p = offset``, four numbers each.
    """

    name: str
    path: Path
    description: schema.Description
    urdf: Path
    hands: tuple[schema.Foot, ...] = ()
    walls: tuple[tuple[float, float, float, float], ...] = ()

    def system(self, actuators: Actuators | None = None) -> System:
        """Return the multibody system, with the limits of `torque_limit` and `joint_limits`.

        Args:
            actuators: Dynamics of actuators, e.g. from `actuators`; None means ideal actuators.

        Raises:
            InputError: The URDF is unusable, or a per-joint table of the robot file does not match its joints.
        """
        try:
            content = urdf.content(self.urdf)
        except InputError as error:
            raise InputError(f"{self.urdf}: {error}") from None
        bare = _bare_system(self.urdf, content, self.description.base == "free-flyer")
        if misfits := self.table_problems(bare.actuated_names):
            raise InputError(f"{self.path}: {misfits[0]}")
        names = bare.actuated_names
        return machine(
            bare.model.copy(),
            effort_limit=self.torque_limit(names),
            limits=self.joint_limits(bare, names),
            actuators=actuators,
        )

    def at_power(self, share: float) -> Robot:
        """Return the robot with its torque limits and torque rates times `share`, for first runs on hardware."""
        limits = self.description.limits
        scaled = {
            table: {joints: share * most for joints, most in getattr(limits, table).items()}
            for table in ("torque_nm", "torque_rate_nm_s")
        }
        description = structs.replace(self.description, limits=structs.replace(limits, **scaled))
        return replace(self, description=description)

    def at_wall(self, frame: str, normal: tuple[float, float, float], offset_m: float) -> Robot:
        """Return the robot in front of a wall ``n·p = offset``, which the hand on `frame` may touch.

        The hand becomes the last foot.

        Args:
            frame: Frame of a hand of the robot file.
            normal: Normal of the wall, which points away from it.
            offset_m: Offset of the wall along the normal.

        Raises:
            UnknownName: The robot file has no hand on this frame.
        """
        hand = next((hand for hand in self.description.hands if hand.frame == frame), None)
        if hand is None:
            raise UnknownName("hand", frame, [hand.frame for hand in self.description.hands])
        return replace(self, hands=(*self.hands, hand), walls=(*self.walls, (*normal, offset_m)))

    def table_problems(self, names: Sequence[str]) -> list[str]:
        """Return the mistakes in the per-joint tables for the actuated joints `names`, one line each."""
        return table_problems(msgspec.to_builtins(self.description), names)

    def torque_limit(self, names: Sequence[str]) -> Array:
        """Return the largest torque of the actuated joints `names`, shape (a,) [N m or N].

        Raises:
            InputError: The table in the robot file does not fit these joints.
        """
        return self._per_joint("limits.torque_nm", names)

    def velocity_limit(self, names: Sequence[str]) -> Array:
        """Return the largest speed of the actuated joints `names`, shape (a,) [rad/s or m/s].

        Raises:
            InputError: The table in the robot file does not fit these joints.
        """
        return self._per_joint("limits.velocity_rad_s", names)

    def joint_limits(self, system: System, names: Sequence[str]) -> ActuatorLimits:
        """Return the limits of the actuated joints `names` other than torque.

        Position limits are from the URDF, unless the robot file narrows them; speeds and the torque rate are from the
        robot file.

        Raises:
            InputError: A table in the robot file does not fit these joints, or leaves one no range.
        """
        lower, upper = position_limits(system.model, names)
        lower = np.maximum(lower, self._per_joint("limits.lower_rad", names))
        upper = np.minimum(upper, self._per_joint("limits.upper_rad", names))
        for name, low, high in zip(names, lower, upper, strict=True):
            if not low < high:
                raise InputError(f"{self.path}: limits leave {name} no range: from {low:g} to {high:g} rad; widen it")
        return ActuatorLimits(
            lower=lower,
            upper=upper,
            speed=self.velocity_limit(names),
            torque_rate=self._per_joint("limits.torque_rate_nm_s", names),
            no_load=self._per_joint("limits.no_load_rad_s", names),
        )

    def actuators(self, names: Sequence[str]) -> Actuators:
        """Return the robot file's actuator dynamics of the joints `names`.

        Raises:
            InputError: The robot file has no actuators, or a table does not fit these joints.
        """
        if self.description.actuators is None:
            raise InputError(f"{self.path}: it has no actuators; add the table [actuators]")
        return Actuators(*(self._per_joint(where, names) for where in ACTUATORS))

    def acceleration_gains(self) -> tuple[float, float]:
        """Return stiffness [1/s²] and damping [1/s] of all joints, for controllers with an inertia model."""
        gains = self.description.gains.acceleration
        return gains.kp_1_s2, gains.kd_1_s

    def torque_gains(self, names: Sequence[str]) -> tuple[Array, Array]:
        """Return stiffness [N m/rad] and damping [N m s/rad] of the actuated joints `names`, shape (a,) each.

        Raises:
            InputError: A table in the robot file does not fit these joints.
        """
        return self._per_joint("gains.torque.kp_nm_rad", names), self._per_joint("gains.torque.kd_nm_s_rad", names)

    def brake_damping(self, names: Sequence[str]) -> Array:
        """Return the damping of the joints `names` while the robot brakes, shape (a,) [N m s/rad].

        Raises:
            InputError: A table in the robot file does not fit these joints.
        """
        own = self._per_joint("gains.brake_nm_s_rad", names)
        return np.where(np.isnan(own), self.torque_gains(names)[1], own)

    def home_joints(self, names: Sequence[str]) -> Array:
        """Return home positions of the actuated joints `names`, shape (a,) [rad or m].

        Raises:
            InputError: The table in the robot file does not fit these joints.
        """
        return self._per_joint("home.joints_rad", names)

    def contacts(
        self,
        mu: float,
        terrain: Terrain | None = None,
        system: System | None = None,
        *,
        orientation: float = 0.0,
        supports: bool = False,
    ) -> SphereContacts:
        """Return the robot's feet (or fingertips) on the ground, numbered as in the robot file, and hands at `walls`.

        Args:
            mu: Friction coefficient of the ground; inf means no slip.
            terrain: The ground; None means the plane z = 0.
            system: The robot that carries the feet; None creates a system, available as ``contacts.system``.
            orientation: Angle of the first tangent from the projected world x axis, about the normal [rad].
            supports: True to append the spheres that carry the lying robot, if the robot file has any.

        Raises:
            InputError: The robot is unusable, or `mu` is negative.
        """
        spheres, lying = self.spheres, self.description.lying
        if supports and lying is not None:
            spheres += lying.supports
        patches = [i for i, foot in enumerate(self.patches) for sphere in spheres if sphere.name == foot]
        return SphereContacts(
            self.system() if system is None else system,
            [sphere.frame for sphere in spheres],
            [sphere.radius_m for sphere in spheres],
            plane() if terrain is None else terrain,
            mu,
            offsets=np.array([sphere.offset_m for sphere in spheres]).reshape(-1, 3),
            orientation=orientation,
            patches=[*patches, *range(len(self.patches), len(self.patches) + len(spheres) - len(patches))],
            walls=self.walls,
        )

    @property
    def patches(self) -> tuple[str, ...]:
        """Return the names of the feet, of the soles, then of `hands`, numbered as in `Reference.stance`."""
        feet, soles = self.description.feet, self.description.soles
        return (*(foot.name for foot in feet), *(sole.name for sole in soles), *(hand.name for hand in self.hands))

    @property
    def spheres(self) -> tuple[schema.Foot, ...]:
        """Return the spheres of possible contacts: feet, corners of all soles, with the soles' names, and `hands`."""
        corners = [
            schema.Foot(name=sole.name, frame=sole.frame, radius_m=sole.radius_m, offset_m=corner)
            for sole in self.description.soles
            for corner in sole.corners_m
        ]
        return (*self.description.feet, *corners, *self.hands)

    def standing_state(self, system: System | None = None) -> State:
        """Return the robot at rest in its home pose.

        A floating base is level above the origin of the world, and the lowest foot is exactly on the plane z = 0;
        without feet the height of the base is zero.

        Args:
            system: The robot's system, if available; None creates a system.
        """
        system = self.system() if system is None else system
        q = system.configuration(self.home_joints(system.actuated_names))
        if self.description.base == "free-flyer" and self.spheres:
            q[2] -= foot_gaps(self, system, q).min()
        return State(t=0.0, q=q, v=np.zeros(system.n_velocities))

    def standing_height(self, system: System | None = None) -> float:
        """Return the height of the centre of mass above the ground in `standing_state` [m].

        Args:
            system: The robot's system, if available; None creates a system.
        """
        system = self.system() if system is None else system
        return float(system.com(self.standing_state(system).q)[2])

    def standing_reference(self) -> Reference:
        """Return the reference that holds the home pose with all feet on the ground."""
        home = self.home_joints(self.system().actuated_names)
        return Reference.standing(home, feet=len(self.patches))

    def _per_joint(self, where: str, names: Sequence[str]) -> Array:
        """Return the values of one of `TABLES` for the joints `names`, shape (a,).

        Raises:
            InputError: The table does not fit these joints.
        """
        try:
            return joints.resolve(attrgetter(where)(self.description), names, where, default=TABLES[where])
        except InputError as error:
            raise InputError(f"{self.path}: {error}") from None


@functools.lru_cache(maxsize=16)
def _bare_system(path: Path, content: bytes, free_flyer: bool) -> System:
    """Return the system of a URDF, without limits; the file is parsed and checked only if its `content` is new.

    Raises:
        InputError: The URDF is unusable.
    """
    mistakes = urdf.inspect(path, free_flyer=free_flyer).problems
    if mistakes:
        raise InputError(f"{path}: {mistakes[0]}")
    # the limits of the robot file replace those in the URDF
    return System.from_urdf(path, free_flyer=free_flyer, effort_limit=np.inf)


def load(name_or_path: str | Path) -> Robot:
    """Return a robot by name, or by path of a robot file, its folder, or a URDF next to a robot file.

    Raises:
        UnknownName: The robot does not exist; the message lists existing robots.
        InputError: The file or the URDF is unusable; `idcontrol.robots.check` lists all problems.
    """
    path = locate.robot_file(name_or_path)
    description, problems = schema.parse(schema.read(path))
    if description is None or problems:
        more = f" (and {len(problems) - 1} more: idcontrol check {name_or_path})" if len(problems) > 1 else ""
        raise InputError(f"{path}: {problems[0]}{more}")
    return Robot(
        name=description.name, path=path, description=description, urdf=urdf_of(description.urdf, path, name_or_path)
    )


def urdf_of(named: str, path: Path, asked: str | Path) -> Path:
    """Return the URDF that the robot file `path` names as `named`; if `asked` is a URDF, it must be the same file.

    Raises:
        InputError: The URDF does not exist, or `asked` is another URDF.
    """
    urdf_path = locate.urdf_file(named, path)
    if Path(asked).suffix.lower() == ".urdf" and not Path(asked).samefile(urdf_path):
        raise InputError(
            f"{path}: urdf: it names {urdf_path.name}, not {Path(asked).name}; give that file a folder of its own"
        )
    return urdf_path


def table_problems(raw: Mapping[str, Any], names: Collection[str]) -> list[str]:
    """Return the mistakes in the per-joint tables of a robot file for the actuated joints `names`, one line each.

    Args:
        raw: The parsed file; missing or malformed tables are reported elsewhere.
        names: Names of the actuated joints.
    """
    tables = {where: entry(raw, where) for where in TABLES}
    return [
        line
        for where, table in tables.items()
        if isinstance(table, Mapping)
        for line in joints.problems(table, tuple(names), where, complete=TABLES[where] is None)
    ]


def entry(raw: Mapping[str, Any], key: str) -> Any:
    """Return the entry of a file at a dotted key; None if there is none."""
    value: Any = raw
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def foot_centres(robot: Robot, system: System, q: Array) -> Array:
    """Return the centres of `Robot.spheres` in the world, shape (k, 3) [m], at configuration `q` (nq,)."""
    data = system.model.createData()
    pin.framesForwardKinematics(system.model, data, q)
    placed = [data.oMf[system.frame(foot.frame)].act(np.array(foot.offset_m)) for foot in robot.spheres]
    return np.array(placed).reshape(-1, 3)


def foot_gaps(robot: Robot, system: System, q: Array) -> Array:
    """Return the distance of each of `Robot.spheres` from the plane z = 0, shape (k,) [m]; negative below the plane."""
    radius = np.array([foot.radius_m for foot in robot.spheres])
    return foot_centres(robot, system, q)[:, 2] - radius


def legs(robot: Robot, system: System) -> tuple[Integers, ...]:
    """Return the actuated joints that move each of `Robot.spheres`, from the base outwards.

    Joints are indices into `System.actuated_names`. The legs are read from the kinematic tree, independently of the
    order of joints and feet.
    """
    chains = []
    for foot in robot.spheres:
        joint = system.model.frames[system.frame(foot.frame)].parentJoint
        chain = [str(system.model.names[j]) for j in system.model.supports[joint]]
        chains.append(
            np.array([system.actuated_names.index(name) for name in chain if name in system.actuated_names], np.int64)
        )
    return tuple(chains)
