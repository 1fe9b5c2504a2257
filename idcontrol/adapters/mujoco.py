"""An existing MuJoCo model as a plant for controllers of this package: it provides states and takes torques.

`Bridge` maps joints and feet by their names in model and robot file, and checks that both describe the same robot.
"""

from collections.abc import Mapping

import numpy as np

from idcontrol.adapters.mujoco_comparison import Mapped, require_no_springs, require_same
from idcontrol.adapters.mujoco_motors import Motors
from idcontrol.errors import InputError, UnknownName, install_command
from idcontrol.plants.exported import rotation
from idcontrol.robots import Robot
from idcontrol.types import Array, ContactForces, State

try:
    import mujoco
except ImportError:
    raise InputError(f"the bridge needs the package mujoco; {install_command('mujoco')}") from None

FREE, HINGE, SLIDE = (int(getattr(mujoco.mjtJoint, f"mjJNT_{kind}")) for kind in ("FREE", "HINGE", "SLIDE"))
FINITE = 1e6
"""Largest torque in the test of the motors [N m or N]."""
BENT_RAD, MOVING_RAD_S = 0.1, 0.5
"""Displacement of each coordinate from the home pose [rad or m], and velocity of each coordinate [rad/s or m/s], in the
test of springs and motors."""


class Bridge:
    """Reads the state of a robot from a MuJoCo model and applies torques to its joints.

    Attributes:
        differences: A line for each link whose mass, centre of mass or inertia differs from the robot file.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        robot: Robot,
        *,
        joints: Mapping[str, str] | None = None,
        feet: Mapping[str, str] | None = None,
        other_masses: bool = False,
    ) -> None:
        """Map the joints of `robot` to joints of `model`, and compare both.

        The actuators of these joints are overwritten in `model`. The first actuator directly on a joint becomes a plain
        motor. All other actuators that act on the joint, even through tendons or cranks, are switched off. Joints that
        have no direct actuator are driven by ``qfrc_applied``. Actuators at sites and bodies are not changed.

        Args:
            model: The compiled model; it may contain more than the robot.
            robot: As returned by `idcontrol.robots.load`.
            joints: Names in `model` by names in the robot, for joints whose names differ.
            feet: A site, geom or body of `model` for each foot of the robot file, by the foot's name; a foot
                without an entry uses the name of its frame. All contact forces on the body of a site or geom count as
                forces on the foot. None uses sites, geoms and bodies with the names of the feet or of their frames; if
                one is missing, no forces are sensed.
            other_masses: True to accept links with masses, centres of mass or inertias that differ from the robot file;
                the controller still assumes the values of the robot file.

        Raises:
            UnknownName: A joint is not in `model`, or `feet` is given and a foot is not in `model`.
            InputError: `model` differs from the robot (`idcontrol.adapters.mujoco_comparison`), or cannot apply the
                torques of the robot file.
        """
        self._model, self._system = model, robot.system()
        self._floating = robot.description.base == "free-flyer"
        named = {name: (joints or {}).get(name, name) for name in self._system.actuated_names}
        numbers = [_find(model, mujoco.mjtObj.mjOBJ_JOINT, "joint", name) for name in named.values()]
        for number, name in zip(numbers, named.values(), strict=True):
            if model.jnt_type[number] not in (HINGE, SLIDE):
                raise InputError(f"joint {name} of the MuJoCo model is neither a hinge nor a slide; map another joint")
        self._at_q, self._at_v = model.jnt_qposadr[numbers], model.jnt_dofadr[numbers]
        self._root = self._free_joint(numbers[0]) if self._floating else -1
        self._ours_v = self._system.order[self._system.n_unactuated :]
        self._feet: dict[int, int] = {}
        mapped = Mapped(model=model, robot=robot, system=self._system, joints=np.array(numbers), root=self._root)
        data, home = mujoco.MjData(model), robot.standing_state(self._system)
        self.place(data, home)
        self.differences = require_same(mapped, data, home, other_masses=other_masses)
        self._motors = Motors(mapped, data)
        bent = self._system.integrate(home.q, np.full(self._system.model.nv, BENT_RAD), 1.0)
        moving = np.full(self._system.model.nv, MOVING_RAD_S)
        self.place(data, State(t=0.0, q=bent, v=moving))
        require_no_springs(mapped, data)
        for share in (0.0, 1.0, -1.0):
            self._motors.require_torques(mapped, data, share * np.minimum(self._system.effort_limit, FINITE))
        self._feet = self._feet_bodies(robot, feet)

    def place(self, data: mujoco.MjData, state: State) -> State:
        """Put the robot into `state` and return the observed state."""
        qpos, qvel = data.qpos, data.qvel
        if self._floating:
            i, j = self._model.jnt_qposadr[self._root], self._model.jnt_dofadr[self._root]
            qpos[i : i + 3], qpos[i + 3], qpos[i + 4 : i + 7] = state.q[:3], state.q[6], state.q[3:6]
            qvel[j : j + 3], qvel[j + 3 : j + 6] = rotation(state.q[3:7]) @ state.v[:3], state.v[3:6]
        qpos[self._at_q], qvel[self._at_v] = self._system.joint_positions(state.q), state.v[self._ours_v]
        mujoco.mj_forward(self._model, data)
        return self.observe(data)

    def observe(self, data: mujoco.MjData) -> State:
        """Return the robot's state in Pinocchio's layout, with the forces on its feet if all feet are in the model."""
        qpos, qvel = data.qpos, data.qvel
        q, v = self._system.configuration(qpos[self._at_q]), np.empty(self._system.model.nv)
        if self._floating:
            i, j = self._model.jnt_qposadr[self._root], self._model.jnt_dofadr[self._root]
            q[:3], q[3:6], q[6] = qpos[i : i + 3], qpos[i + 4 : i + 7], qpos[i + 3]
            q[3:7] /= np.linalg.norm(q[3:7])
            v[:3], v[3:6] = rotation(q[3:7]).T @ qvel[j : j + 3], qvel[j + 3 : j + 6]
        v[self._ours_v] = qvel[self._at_v]
        return State(t=float(data.time), q=q, v=v, forces=self._forces(data) if self._feet else None)

    def actuate(self, data: mujoco.MjData, tau: Array) -> None:
        """Drive the joints with `tau`, in the order of `System.actuated_names`, shape (a,) [N m or N]."""
        self._motors.drive(data, tau)

    def _free_joint(self, joint: int) -> int:
        """Return the index of the free joint that moves the tree of `joint`."""
        body = self._model.body_rootid[self._model.jnt_bodyid[joint]]
        first = int(self._model.body_jntadr[body])
        if first < 0 or self._model.jnt_type[first] != FREE:
            raise InputError(
                f"body {self._model.body(body).name} of the MuJoCo model has no free joint, but the robot's base floats"
            )
        return first

    def _feet_bodies(self, robot: Robot, named: Mapping[str, str] | None) -> dict[int, int]:
        """Return the index of each foot, by the index of the body that carries the foot.

        If `named` is None and a foot is not in the model, the result is empty.

        Raises:
            UnknownName: A foot in `named` is not in the model.
        """
        feet_bodies = {}
        for number, foot in enumerate(robot.description.feet):
            names = (foot.name, foot.frame) if named is None else (named.get(foot.name, foot.frame),)
            bodies = [body for name in names if (body := self._carrier(name)) is not None]
            if not bodies and named is not None:
                raise UnknownName("site, geom or body", names[0], self._places())
            if not bodies:
                return {}
            feet_bodies[bodies[0]] = number
        return feet_bodies

    def _carrier(self, name: str) -> int | None:
        """Return the index of the body called `name`, or with a site or geom of this name; None if there is none.

        Bodies that are welded together count as one.
        """
        model = self._model
        for kind, bodies in (
            (mujoco.mjtObj.mjOBJ_SITE, model.site_bodyid),
            (mujoco.mjtObj.mjOBJ_GEOM, model.geom_bodyid),
            (mujoco.mjtObj.mjOBJ_BODY, np.arange(model.nbody)),
        ):
            number = mujoco.mj_name2id(model, kind, name)
            if number >= 0:
                return int(model.body_weldid[bodies[number]])
        return None

    def _places(self) -> list[str]:
        model = self._model
        named = [model.site(i).name for i in range(model.nsite)] + [model.geom(i).name for i in range(model.ngeom)]
        return [name for name in named + [model.body(i).name for i in range(model.nbody)] if name]

    def _forces(self, data: mujoco.MjData) -> ContactForces:
        """Return the contact forces on the feet in `data`, world axes.

        The normal of a foot is the mean over its contacts, weighted by their normal forces.
        """
        force, normal, wrench = np.zeros((len(self._feet), 3)), np.zeros((len(self._feet), 3)), np.zeros(6)
        bodies = self._model.body_weldid[self._model.geom_bodyid]
        for index, pair in enumerate(data.contact.geom.tolist()):
            mujoco.mj_contactForce(self._model, data, index, wrench)
            axes = data.contact.frame[index].reshape(3, 3)  # the first axis points from the first geom to the second
            for geom, sign in zip(pair, (-1.0, 1.0), strict=True):
                foot = self._feet.get(int(bodies[geom]))
                if foot is not None and wrench[0] > 0.0:
                    force[foot] += sign * (wrench[:3] @ axes)
                    normal[foot] += sign * wrench[0] * axes[0]
        pressed = np.flatnonzero(normal.any(axis=1))
        unit = normal[pressed] / np.linalg.norm(normal[pressed], axis=1, keepdims=True)
        return ContactForces(identity=pressed, force=force[pressed], normal=unit)


def _find(model: mujoco.MjModel, kind: mujoco.mjtObj, what: str, name: str) -> int:
    number = mujoco.mj_name2id(model, kind, name)
    if number < 0:
        known = [model.joint(i).name for i in range(model.njnt) if model.joint(i).name]
        raise UnknownName(f"{what} in the MuJoCo model", name, known)
    return int(number)
