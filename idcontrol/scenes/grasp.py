"""An arm whose fingertips hold a box and swing it, built from one `GraspConfig`.

The box is free; hand and box are one system, whose contacts are between fingertips and box.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import coal
import msgspec
import numpy as np

from idcontrol import controllers, plants, robots
from idcontrol.config.configuration import Duration, NotNegative, Positive, Rate
from idcontrol.contact.fingertips import Fingertips
from idcontrol.contact.landing import Landing
from idcontrol.controllers import Gains
from idcontrol.dynamics.system import FreeBody, System
from idcontrol.errors import InputError
from idcontrol.planners.arm_swing import ArmSwing
from idcontrol.planners.grip import GrippingController
from idcontrol.record.scenery import DrawableBody, Scenery
from idcontrol.scenes.settings import AssumedFriction
from idcontrol.types import Booleans, Controller, State

BOX = "box"
"""Name of the box in the system; its pose is last in a configuration."""

TOUCHING_M = 1e-3
"""A fingertip farther than this from the box's surface at the start does not touch it [m]."""

HELD = Landing(decay_s=1e-6, sink_m_s=0.0, rise_m_s=0.0)
"""Fingertips keep their place on the box. Each finger has only one joint, so fingertips cannot move over the box
independently. Any demanded velocity other than zero would be infeasible, even a micrometre per second to close a
gap."""


class GraspConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Configuration of a grasp.

    Attributes:
        controller: Name; see ``idcontrol list controllers``.
        plant: Name; see ``idcontrol list plants``.
        robot: Name or path of a robot file with a fixed base and fingertips as feet.
        mu: Friction between fingertips and box; inf means no slip. Without slip, rigid plants cannot correct a
            micrometre of penetration at one finger and of gap at the other: they let one fingertip slip and report
            `repaired`. The original experiment avoids this with the value 100.
        duration_s: Length of the run.
        rate_hz: Rate of the control loop.
        preset: Name of the preset.
        plant_rate_hz: Minimum stepping rate of the plant; null uses `rate_hz`.
        swing_rad: Amplitude of all joints of the arm.
        swing_rad_s: Angular frequency of the swing.
        box_side_m: Side of the cube; the default is the gap between the tips of `arm` at home.
        box_density_kg_m3: Density of the cube.
        box_position_m: Centre of the box at the start, world frame; the axes of the box are parallel to the world's
            axes.
        grip_n: Internal force of each fingertip on the box, in addition to the forces of the controller; the default
            results from 0.1 N m at the finger joints of `arm`.
        closing_rad: Angle by which the targets of the finger joints lie beyond their home positions, so that the
            targets of the fingertips are inside the box.
        ground: Settings of plants with springs between fingertips and box (`plants.GroundSettings`).
        friction: The assumed friction of the controller, and the friction pyramids.
        acceleration_gains: Gains of controllers with an inertia model [1/s², 1/s]; null uses the gains of the robot
            file.
        torque_feedback: True adds joint feedback with the torque gains of the robot file to every controller but `pid`.
        inverse: Settings of inverse-dynamics controllers.
    """

    controller: str = "id-coulomb-qp"
    plant: str = "dissipation"
    robot: str = "arm"
    mu: NotNegative = np.inf
    duration_s: Duration = 3.0
    rate_hz: Rate = 1000.0
    preset: Literal["default", "paper"] = "default"
    plant_rate_hz: Rate | None = None
    swing_rad: float = 0.1
    swing_rad_s: Positive = 10.0
    box_side_m: Positive = 0.05071
    box_density_kg_m3: Positive = 6000.0
    box_position_m: tuple[float, float, float] = (0.3, 0.0, 0.2)
    grip_n: NotNegative = 2.83
    closing_rad: NotNegative = 0.0
    ground: plants.GroundSettings = plants.GroundSettings()
    friction: AssumedFriction = AssumedFriction(share=0.8, cap=1.0)
    acceleration_gains: tuple[NotNegative, NotNegative] | None = None
    torque_feedback: bool = False
    inverse: controllers.InverseSettings = msgspec.field(
        default_factory=lambda: controllers.InverseSettings(landing=HELD)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GraspScene:
    """A robot with a hand, and the box in it.

    Attributes:
        config: The configuration.
        robot: Robot of the grasp.
        names: Names of the robot's joints.
        fingers: True for joints that do not move all fingertips, shape (a,).
        mount: Name of the joint that carries the hand.
    """

    config: GraspConfig
    robot: robots.Robot
    names: tuple[str, ...]
    fingers: Booleans
    mount: str

    @staticmethod
    def of(config: GraspConfig) -> GraspScene:
        """Load the robot of `config`.

        Raises:
            UnknownName: The robot does not exist.
            InputError: The robot has no hand.
        """
        robot = robots.load(config.robot)
        system = robot.system()
        chains = [set(chain.tolist()) for chain in robots.legs(robot, system)]
        shared = set.intersection(*chains) if chains else set()
        if robot.description.base != "fixed" or not shared or any(chain == shared for chain in chains):
            raise InputError(
                f"robot {robot.name!r} has no hand: a grasp needs a fixed base, and an arm with fingers that each "
                "carry one fingertip (a foot of the robot file); take arm"
            )
        fingers = np.array([i not in shared for i in range(system.n_actuated)])
        names = system.actuated_names
        return GraspScene(config=config, robot=robot, names=names, fingers=fingers, mount=names[max(shared)])

    @property
    def period_s(self) -> float:
        """Control period [s]."""
        return 1.0 / self.config.rate_hz

    def system(self) -> System:
        """Return the multibody terms of robot and box, with the motor limits of the robot file."""
        side = self.config.box_side_m
        mass = self.config.box_density_kg_m3 * side**3
        box = FreeBody(name=BOX, mass=mass, inertia=mass * side**2 / 6.0 * np.eye(3))
        return System.from_urdf(
            self.robot.urdf,
            free_flyer=False,
            actuated=self.names,
            effort_limit=self.robot.torque_limit(self.names),
            limits=self.robot.joint_limits(self.robot.system(), self.names),
            free_bodies=[box],
        )

    @property
    def friction(self) -> dict[str, Any]:
        """Metrics of the friction (`AssumedFriction.report`)."""
        return self.config.friction.report(self.config.mu, self.config.plant, self.config.controller)

    @property
    def mu_plant(self) -> float:
        """Friction along the tangents within the plant's friction pyramid."""
        return float(self.friction["mu_plant"])

    @property
    def mu_controller(self) -> float:
        """Friction along the tangents that the controller assumes."""
        return float(self.friction["mu_controller"])

    def tips(self, system: System, mu: float, *, orientation: float = 0.0) -> Fingertips:
        """Return the detector of contacts between fingertips and box on `system`, with friction `mu`.

        `orientation` [rad] turns the tangents of the contacts about their normals.
        """
        tips, side = self.robot.description.feet, self.config.box_side_m
        return Fingertips(
            system,
            [tip.frame for tip in tips],
            [tip.radius_m for tip in tips],
            BOX,
            coal.Box(side, side, side),
            mu,
            offsets=[tip.offset_m for tip in tips],
            orientation=orientation,
        )

    def start(self) -> State:
        """Return the robot at rest at home, with the box in place.

        Raises:
            InputError: A fingertip does not touch the box.
        """
        system = self.system()
        q = system.configuration(self.robot.home_joints(self.names))
        at = system.model.joints[system.model.getJointId(BOX)].idx_q
        q[at : at + 3] = self.config.box_position_m
        state = State(t=0.0, q=q, v=np.zeros(system.n_velocities))
        system.update(state.q, state.v)
        gap = self.tips(system, 0.0).detect(np.inf).gap
        worst = int(np.abs(gap).argmax())
        if not abs(gap[worst]) <= TOUCHING_M:
            middle = robots.foot_centres(self.robot, system, q).mean(axis=0).round(4) + 0.0  # avoids minus zero
            raise InputError(
                f"fingertip {self.robot.description.feet[worst].name} of {self.robot.name} is "
                f"{1e3 * gap[worst]:.1f} mm off the box at the start; set box_side_m and box_position_m so that all "
                f"tips touch it (their middle is at {middle.tolist()})"
            )
        return state

    def swing(self) -> ArmSwing:
        """Return the planner of the joint motion."""
        return ArmSwing(
            home=self.robot.home_joints(self.names),
            arm=~self.fingers,
            amplitude=self.config.swing_rad,
            rate=self.config.swing_rad_s,
            closing=self.config.closing_rad,
            tips=len(self.robot.description.feet),
        )

    def controller(self) -> Controller:
        """Return the controller, with the joint feedback and the grip of the configuration.

        Raises:
            UnknownName: The controller does not exist.
        """
        config, system = self.config, self.system()
        own, a = self.robot.description.gains.acceleration, system.n_actuated
        kp, kd = (own.kp_1_s2, own.kd_1_s) if config.acceleration_gains is None else config.acceleration_gains
        torque_kp, torque_kd = self.robot.torque_gains(self.names)
        setup = controllers.Setup(
            system=system,
            contacts=self.tips(system, self.mu_controller, orientation=config.friction.turn_rad),
            h=self.period_s,
            acceleration_gains=Gains(kp=np.full(a, kp), kd=np.full(a, kd)),
            torque_gains=Gains(kp=torque_kp, kd=torque_kd),
            settings=config.inverse,
            robot=self.robot,
            beside=config.torque_feedback,
        )
        controller = controllers.build(config.controller, setup)
        if config.grip_n == 0.0:
            return controller
        beside = self.system()
        return GrippingController(controller, beside, self.tips(beside, self.mu_controller), config.grip_n)

    def plant(self) -> plants.SimulatedPlant:
        """Return the plant.

        Raises:
            UnknownName: The plant does not exist.
            InputError: The plant cannot be built.
        """
        config, system = self.config, self.system()
        dt = self.period_s if config.plant_rate_hz is None else 1.0 / config.plant_rate_hz
        tips = self.tips(system, self.mu_plant)
        setup = plants.Setup(system=system, contacts=tips, dt=dt, settings=config.ground, robot=self.robot)
        return plants.build(config.plant, setup)

    def scenery(self) -> Scenery:
        """Return the robot and the box for display (`idcontrol view`)."""
        side = self.config.box_side_m
        return Scenery(
            robot=self.config.robot, bodies=(DrawableBody(name=BOX, shape="box", size_m=(side,) * 3),), ground=None
        )
