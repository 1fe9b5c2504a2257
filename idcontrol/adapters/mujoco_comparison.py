"""Comparison of a MuJoCo model with the URDF of a robot.

`require_same` compares gravity, joints and masses. It refuses gravity compensation and equality constraints of the
robot, which a URDF cannot describe, and contacts that push long before they touch. `require_no_springs` refuses loaded
springs. Both raise at the first difference; the caller may accept other masses. Damping, dry friction, rotors, joint
limits and the ground are not compared.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from idcontrol.dynamics.system import System
from idcontrol.errors import InputError, install_command
from idcontrol.robots import Robot
from idcontrol.types import Array, Integers, State

try:
    import mujoco
except ImportError:
    raise InputError(f"the bridge needs the package mujoco; {install_command('mujoco')}") from None

TURNED_RAD = 0.05
"""Largest angle between two axes that count as equal [rad]."""
MOVED_M = 0.01
"""Largest distance between two hinge axes that count as equal [m]."""
CENTRE_M = 0.02
"""Largest distance between two centres of mass that count as equal [m]; small enough to detect a knee whose zero is off
by 0.15 rad."""
MASS_SHARE = 0.1
"""Largest relative difference of masses that count as equal; in addition, they may differ by `LIGHT_SHARE`."""
LOAD_SHARE = 0.01
"""Largest relative difference of gravity that counts as equal; also the largest spring load that counts as zero,
relative to a joint's torque limit or to the weight."""
INERTIA_SHARE = 0.3
"""Largest relative difference of rotational inertias about the centre of mass that count as equal."""
LIGHT_SHARE = 1e-3
"""Mass, as a share of the robot's, by which links may differ in addition to `MASS_SHARE`. Centre and inertia of lighter
links are not compared."""
AHEAD_M = 0.006
"""Largest distance at which contacts of the robot may push [m]; a go1 walks with 6 mm and falls with 50 mm."""
ACCEPT = "or accept it with Bridge(..., other_masses=True)"
WAY_ON = "make both files agree; to simulate a different robot, change the model after making the bridge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """A robot in a MuJoCo model.

    Attributes:
        model: The compiled model.
        robot: The robot.
        system: Multibody system of the robot.
        joints: Index in `model` of each actuated joint, shape (a,).
        root: Index in `model` of the floating base's free joint; -1 for a fixed base.
    """

    model: mujoco.MjModel
    robot: Robot
    system: System
    joints: Integers
    root: int

    def label(self, joint: int) -> str:
        """Return the words that name a joint of `model` in a message; "the world" for a negative index."""
        model = self.model
        if joint < 0:
            return "the world"
        return f"joint {model.joint(joint).name or 'of body ' + model.body(model.jnt_bodyid[joint]).name}"

    def pairs(self) -> list[tuple[str, int]]:
        """Return the name of each actuated joint, and its index in `model`."""
        return list(zip(self.system.actuated_names, self.joints.tolist(), strict=True))

    def ours(self, name: str) -> pin.JointModel:
        """Return the joint `name` of the Pinocchio model."""
        return self.system.model.joints[self.system.model.getJointId(name)]

    def owners(self) -> Integers:
        """Return the Pinocchio joint that moves each body of `model`, shape (nbody,); 0 for immovable bodies.

        Joints of `model` that the robot does not have count as rigid.
        """
        model = self.model
        carried = {} if self.root < 0 else {int(model.jnt_bodyid[self.root]): 1}
        for number, name in sorted((number, name) for name, number in self.pairs()):
            carried[int(model.jnt_bodyid[number])] = self.ours(name).id
        owner = np.zeros(model.nbody, dtype=np.int64)
        for body in range(1, model.nbody):
            owner[body] = carried.get(body, owner[model.body_parentid[body]])
        return owner


def require_same(mapped: Mapped, data: mujoco.MjData, state: State, *, other_masses: bool) -> tuple[str, ...]:
    """Compare the model with the robot, both in `state`; return a line for each link with different mass properties.

    Args:
        mapped: The robot in the model.
        data: Data of the model after ``mj_forward`` in `state`.
        state: Home pose of the robot, at rest.
        other_masses: True to accept links whose mass, centre of mass or inertia differs.

    Raises:
        InputError: The model and the robot differ, the model compensates gravity or constrains the robot, or contacts
            of the robot push before they touch.
    """
    ours = mapped.system.model.createData()
    pin.forwardKinematics(mapped.system.model, ours, state.q)
    _require_gravity(mapped)
    _require_joints(mapped, data, ours, state.q)
    _require_tree(mapped)
    different = tuple(_different_bodies(mapped, data, ours))
    if different and not other_masses:
        raise InputError(f"{different[0]}; {WAY_ON}, {ACCEPT}")
    _require_no_equalities(mapped, data)
    _require_touch(mapped)
    return different


def _require_gravity(mapped: Mapped) -> None:
    model, here = mapped.model, np.array(mapped.system.model.gravity.linear)
    off = model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_GRAVITY
    there = np.zeros(3) if off else model.opt.gravity
    if np.linalg.norm(there - here) > LOAD_SHARE * np.linalg.norm(here):
        raise InputError(
            f"gravity is {_vector(there)} m/s² in the MuJoCo model and {_vector(here)} m/s² for {mapped.robot.name}; "
            "set model.opt.gravity, and leave gravity on in model.opt.disableflags"
        )
    for body in np.flatnonzero(model.body_gravcomp * (mapped.owners() > 0)):
        raise InputError(
            f"gravcomp of body {model.body(body).name} of the MuJoCo model compensates {model.body_gravcomp[body]:.3g} "
            "times its weight, which a URDF cannot describe; set model.body_gravcomp to 0"
        )


def _require_joints(mapped: Mapped, data: mujoco.MjData, ours: pin.Data, q: Array) -> None:
    """Raise `InputError` if a joint's type or the direction of its axis differs, or if a hinge's axis is displaced."""
    model, robot = mapped.model, mapped.robot.name
    for name, number in mapped.pairs():
        joint, there = mapped.ours(name), data.xaxis[number]
        motion = joint.createData()
        joint.calc(motion, q[joint.idx_q : joint.idx_q + joint.nq])
        subspace = np.array(motion.S).reshape(6, -1)[:, 0]
        slides = bool(subspace[:3].any())
        if slides != (model.jnt_type[number] == mujoco.mjtJoint.mjJNT_SLIDE):
            raise InputError(
                f"{mapped.label(number)} of the MuJoCo model and {name} of {robot} are not of the same type, hinge or "
                "slide; map names by joints="
            )
        here = ours.oMi[joint.id].rotation @ (subspace[:3] if slides else subspace[3:])
        if np.arccos(np.clip(here @ there, -1.0, 1.0)) > TURNED_RAD:
            raise InputError(
                f"{mapped.label(number)} of the MuJoCo model has a different axis from {name} of {robot}: "
                f"{_vector(there)} in the model, {_vector(here)} in the URDF, in the home pose; {WAY_ON}"
            )
    for name, number in mapped.pairs():
        here, there, axis = ours.oMi[mapped.ours(name).id].translation, data.xanchor[number], data.xaxis[number]
        # the anchor of a hinge may be anywhere on its axis, the anchor of a slide anywhere in space
        apart = np.linalg.norm(np.cross(here - there, axis))
        if model.jnt_type[number] == mujoco.mjtJoint.mjJNT_HINGE and apart > MOVED_M:
            raise InputError(
                f"{mapped.label(number)} of the MuJoCo model is {1e3 * apart:.0f} mm away from "
                f"{name} of {robot} in the home pose, at {_vector(there)} m in the model and {_vector(here)} m in "
                f"the URDF: other lengths, or other zeros of the joints before it; {WAY_ON}"
            )


def _require_tree(mapped: Mapped) -> None:
    """Raise `InputError` if a joint has a different parent joint in the MuJoCo model than in the robot."""
    ids = {mapped.ours(name).id: number for name, number in mapped.pairs()} | {0: -1}
    if mapped.root >= 0:
        ids[1] = mapped.root
    for name, number in mapped.pairs():
        here, there = ids[int(mapped.system.model.parents[mapped.ours(name).id])], _carrier(mapped.model, number)
        if here != there:
            raise InputError(
                f"{mapped.label(number)} of the MuJoCo model is carried by {mapped.label(there)}, and {name} of "
                f"{mapped.robot.name} by {mapped.label(here)}: map names by joints=, or remove joints that the URDF "
                "does not have"
            )


def _carrier(model: mujoco.MjModel, joint: int) -> int:
    """Return the next joint of `model` from `joint` towards the world; -1 if there is none."""
    body = int(model.jnt_bodyid[joint])
    if joint > model.body_jntadr[body]:
        return joint - 1
    while body := int(model.body_parentid[body]):
        if model.body_jntnum[body]:
            return int(model.body_jntadr[body] + model.body_jntnum[body] - 1)
    return -1


def _different_bodies(mapped: Mapped, data: mujoco.MjData, ours: pin.Data) -> Iterator[str]:
    """Yield a line for each link with another mass, centre of mass or inertia, compared in the URDF joint's axes."""
    model, owner, light = mapped.model, mapped.owners(), LIGHT_SHARE * mapped.system.mass
    for joint in range(1, mapped.system.model.njoints):
        here, place = mapped.system.model.inertias[joint], ours.oMi[joint]
        bodies = np.flatnonzero(owner == joint)
        mass, centre, inertia = _combined(model, data, bodies)
        centre, inertia = place.actInv(centre), place.rotation.T @ inertia @ place.rotation
        names = " + ".join(model.body(body).name for body in bodies[model.body_mass[bodies] > 0.0]) or "nothing"
        moved = f"the link that {mapped.system.model.names[joint]} of {mapped.robot.name} moves"
        who = f"{names} of the MuJoCo model and {moved} have"
        largest = max(mass, here.mass)
        if abs(mass - here.mass) > MASS_SHARE * largest + light:
            yield f"{who} different masses: {mass:.4g} kg in the model, {here.mass:.4g} kg in the URDF"
            continue
        if largest < light:
            continue
        apart = 1e3 * float(np.linalg.norm(centre - here.lever))
        if apart > 1e3 * CENTRE_M:
            yield (
                f"{who} their centres of mass {apart:.0f} mm apart: {_vector(centre)} m in the model, "
                f"{_vector(here.lever)} m in the URDF, in the joint's axes: other masses, or another zero of the joint"
            )
            continue
        sizes = [float(np.linalg.norm(each, 2)) for each in (inertia - here.inertia, inertia, here.inertia)]
        if sizes[0] > INERTIA_SHARE * max(sizes[1:]) + light * MOVED_M**2:
            yield (
                f"{who} different inertias: {_vector(np.linalg.eigvalsh(inertia))} kg m² in the model, "
                f"{_vector(np.linalg.eigvalsh(here.inertia))} kg m² in the URDF about their principal axes, and "
                f"{sizes[0]:.2g} kg m² between them"
            )


def _combined(model: mujoco.MjModel, data: mujoco.MjData, bodies: Integers) -> tuple[float, Array, Array]:
    """Return mass, centre of mass, and inertia about it, of all `bodies` together, world frame [kg, m, kg m²]."""
    mass = model.body_mass[bodies]
    total = float(mass.sum())
    if total == 0.0:
        return 0.0, np.zeros(3), np.zeros((3, 3))
    centre = mass @ data.xipos[bodies] / total
    inertia = np.zeros((3, 3))
    for body in bodies:
        axes, arm = data.ximat[body].reshape(3, 3), data.xipos[body] - centre
        inertia += axes @ np.diag(model.body_inertia[body]) @ axes.T
        inertia += model.body_mass[body] * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    return total, centre, inertia


def _require_no_equalities(mapped: Mapped, data: mujoco.MjData) -> None:
    """Raise `InputError` if an active equality constraint of the model acts on the robot."""
    rows = np.flatnonzero(data.efc_type[: data.nefc] == mujoco.mjtConstraint.mjCNSTR_EQUALITY)
    jacobian = np.zeros((data.nefc, mapped.model.nv))
    if mujoco.mj_isSparse(mapped.model):
        mujoco.mju_sparse2dense(jacobian, data.efc_J, data.efc_J_rownnz, data.efc_J_rowadr, data.efc_J_colind)
    else:
        jacobian = data.efc_J.reshape(jacobian.shape)
    for row in rows[jacobian[np.ix_(rows, dofs(mapped))].any(axis=1)]:
        number = int(data.efc_id[row])
        raise InputError(
            f"equality {mapped.model.eq(number).name or number} of the MuJoCo model constrains the robot, which a URDF "
            f"cannot describe; remove it, or set model.eq_active0[{number}] = 0"
        )


def _require_touch(mapped: Mapped) -> None:
    """Raise `InputError` if contacts of a colliding geom of the robot push from farther than `AHEAD_M`."""
    model = mapped.model
    collides = (model.geom_contype != 0) | (model.geom_conaffinity != 0)
    ahead = model.geom_margin - model.geom_gap
    for geom in np.flatnonzero((mapped.owners()[model.geom_bodyid] > 0) & collides & (ahead > AHEAD_M)):
        raise InputError(
            f"geom {model.geom(geom).name or geom} of the MuJoCo model has a margin of {1e3 * ahead[geom]:.3g} mm, so "
            f"its contacts push before they touch; set model.geom_margin[{geom}] = 0"
        )


def dofs(mapped: Mapped) -> Integers:
    """Return the indices of the robot's velocities in ``qvel``: six of a floating base, then one per joint."""
    model = mapped.model
    base = model.jnt_dofadr[mapped.root] + np.arange(6) if mapped.root >= 0 else np.zeros(0, dtype=np.int64)
    return np.concatenate((base, model.jnt_dofadr[mapped.joints])).astype(np.int64)


def require_no_springs(mapped: Mapped, data: mujoco.MjData) -> None:
    """Raise `InputError` if springs load a joint or the base in the state of `data`, after ``mj_forward``.

    Loads of up to `LOAD_SHARE` of a joint's torque limit, or of the weight, count as zero. Joints without a torque
    limit pass.
    """
    system, at = mapped.system, dofs(mapped)
    base = at.size - system.n_actuated
    weight = system.mass * float(np.linalg.norm(system.model.gravity.linear))
    largest = LOAD_SHARE * np.concatenate((np.full(base, weight), system.effort_limit))
    names = ("the base",) * base + tuple(f"joint {name}" for name in system.actuated_names)
    for i in np.flatnonzero(np.abs(data.qfrc_spring[at]) > largest):
        raise InputError(
            f"springs of the MuJoCo model load {names[i]} with {data.qfrc_spring[at[i]]:.3g} N m close to the home "
            "pose, which a URDF cannot describe; set model.jnt_stiffness and model.tendon_stiffness to 0"
        )


def _vector(values: Array | Sequence[float]) -> str:
    return "(" + ", ".join(f"{value:.3g}" for value in values) + ")"
