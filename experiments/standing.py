"""A standing quadruped in five situations: the torques and forces of four packages.

The robot is at rest on point feet; the demanded acceleration is zero, or lifts a foot. idcontrol and TSID choose
torques and forces together. MuJoCo's ``mj_inverse`` and Pinocchio's ``contactInverseDynamics`` compute the forces from
the deformation of a soft ground, so they start from a robot at rest in that ground. One judge then checks every answer
against rigid contact with Coulomb friction.
"""

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pinocchio as pin

from idcontrol import controllers, robots
from idcontrol.adapters.tsid_controller import Tsid
from idcontrol.bench.judge import miss
from idcontrol.bench.league.problems import FrictionProblem
from idcontrol.bench.peers import installed
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.controllers import InverseSettings, Setup
from idcontrol.dynamics.system import System
from idcontrol.errors import InputError
from idcontrol.experiments.case import GRAVITY, Case, Progress, timed
from idcontrol.experiments.findings import Drawing, Finding, Results, axes
from idcontrol.models.coulomb_cone import solve_delassus
from idcontrol.solvers.status import SOLVED
from idcontrol.tasks import Frame, Posture, Task
from idcontrol.types import Array, Booleans, Command, Reference, State

H: Final = 1e-3
"""Control period [s]."""
MU: Final = 0.6
"""Friction coefficient that all packages assume."""
PUSH: Final = 0.95
"""Push, as a share of the largest push that friction holds."""
SLIPPERY: Final = 0.2
"""True friction coefficient in the one situation with less friction than assumed."""
WEAK_PUSH: Final = 0.3
"""Horizontal push in the situation with `SLIPPERY` ground, as a share of the weight: it needs friction of 0.3."""
SLOPE: Final = np.deg2rad(10.0)
NEWTON: Final = 10
"""Newton steps that bring the feet onto the ground; four are enough."""
LIFT: Final = 2.0
"""Upward acceleration of the foot that lifts [m/s²]."""
LIFTED: Final = 0
UP: Final = np.array([0.0, 0.0, 1.0])
SETTLE_S: Final = 2.0
"""Time in which MuJoCo's robot comes to rest in its ground [s]."""
COMPLIANCE: Final = 1e-4
"""Compliance of Pinocchio's ground [m/N]; forces at rest do not depend on the compliance."""
REPEATS: Final = 300
"""Number of timed calls; the median counts."""
LAW: Final = 1e-8
"""Largest accepted violation of Coulomb's law by the judge's own forces (`idcontrol.bench.judge.miss`)."""

WEIGHT: Final = 0.01
"""Weight of trunk and posture in TSID's program. With weight 1, TSID's solver leaves a tangential force of 0.01 N on a
foot that carries nothing, and the foot slips."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a comparison.

    Attributes:
        robot: A robot with point-like feet.
        tsid_python: A Python interpreter with TSID, which needs a different version of Pinocchio (``pip install
            tsid==1.7.0 'numpy<2' cmeel-boost==1.82.0``); null leaves TSID out.
    """

    robot: str = "solo12"
    tsid_python: str | None = None


class Situation(NamedTuple):
    """A situation of a robot at rest in `q`; the packages compute torques that accelerate it by `a`.

    Attributes:
        name: Name.
        q: Configuration, shape (nq,); the trunk is level.
        a: Demanded accelerations, Pinocchio's layout, shape (nv,).
        normal: Normal of the ground, which passes through all feet, shape (3,).
        gravity: Gravity, including a push that acts on every body as gravity does, shape (3,) [m/s²].
        mu: Assumed and true friction coefficient.
        stance: Feet in planned stance, shape (4,).
    """

    name: str
    q: Array
    a: Array
    normal: Array
    gravity: Array
    mu: tuple[float, float]
    stance: Booleans


class Answer(NamedTuple):
    """A package's answer.

    Attributes:
        tau: Joint torques, shape (12,) [N m].
        forces: Forces of the ground on the feet, world axes, shape (4, 3) [N].
        a: Accelerations that the package expects from its torques and forces, shape (nv,).
        seconds: Median time of a call [s].
    """

    tau: Array
    forces: Array
    a: Array
    seconds: float


class Machine:
    """The judge's model of the robot, with point feet."""

    def __init__(self, name: str) -> None:
        """Load the robot `name`.

        Raises:
            UnknownName: The robot does not exist.
            InputError: The robot does not have four legs of three joints.
        """
        self.robot = robots.load(name)
        self.system = self.robot.system()
        self.model: Any = self.system.model
        self.data: Any = self.model.createData()
        self.feet = [foot.frame for foot in self.robot.description.feet]
        if len(self.feet) != 4 or self.model.nv != 18:
            raise InputError(f"robot: {name} needs four legs of three joints; take links, solo12, go1 or anymal")

    def at_rest(self, slope: float = 0.0) -> Array:
        """Return the home pose with legs bent so that the feet are on a plane of `slope` [rad], rising along x.

        Raises:
            InputError: The feet do not reach the plane.
        """
        q = self.robot.standing_state(self.system).q.copy()
        J, position = self.look(q)
        goal = position.copy()
        rise = np.tan(slope) * position[:, 0]
        goal[:, 2] += rise - rise.min()
        for _ in range(NEWTON):
            step = np.linalg.solve(J[:, 6:], (goal - position).ravel())
            q = pin.integrate(self.model, q, np.concatenate((np.zeros(6), step)))
            J, position = self.look(q)
        if np.abs(goal - position).max() > 1e-12:
            raise InputError(f"robot: the feet of {self.robot.name} do not reach a slope of {np.rad2deg(slope):.0f}°")
        return q

    def look(self, q: Array) -> tuple[Array, Array]:
        """Return the feet's Jacobian, world axes, shape (12, nv), and the feet's positions, shape (4, 3) [m]."""
        pin.computeJointJacobians(self.model, self.data, q)
        pin.updateFramePlacements(self.model, self.data)
        frames = [self.model.getFrameId(foot) for foot in self.feet]
        rows = [pin.getFrameJacobian(self.model, self.data, f, pin.LOCAL_WORLD_ALIGNED)[:3] for f in frames]
        return np.vstack(rows), np.array([self.data.oMf[f].translation for f in frames])

    def terms(self, situation: Situation) -> tuple[Array, Array, Array]:
        """Return inertia (nv, nv), generalized force that balances gravity (nv,), and the feet's Jacobian (12, nv)."""
        M = pin.crba(self.model, self.data, situation.q)
        M = np.triu(M) + np.triu(M, 1).T
        at_earth = self.model.gravity.linear.copy()
        self.model.gravity.linear = situation.gravity
        g = pin.computeGeneralizedGravity(self.model, self.data, situation.q).copy()
        self.model.gravity.linear = at_earth
        return M, g, self.look(situation.q)[0]


def situations(machine: Machine) -> list[Situation]:
    """Return the five situations of the experiment, in the order of its tables."""
    level, tilted = machine.at_rest(), machine.at_rest(SLOPE)
    none = np.zeros(machine.model.nv)
    down, all_feet = -GRAVITY * UP, np.ones(4, dtype=np.bool_)
    lift, swing = none.copy(), all_feet.copy()
    swing[LIFTED] = False
    up = np.zeros(12)
    up[3 * LIFTED + 2] = LIFT
    lift[6:] = np.linalg.solve(machine.look(level)[0][:, 6:], up)

    def pushed(share: float) -> Array:
        return down + np.array([share * GRAVITY, 0.0, 0.0])

    slope = np.array([-np.sin(SLOPE), 0.0, np.cos(SLOPE)])
    return [
        Situation("standing", level, none, UP, down, (MU, MU), all_feet),
        Situation("pushed", level, none, UP, pushed(PUSH * MU), (MU, MU), all_feet),
        Situation("foot lifting", level, lift, UP, down, (MU, MU), swing),
        Situation("tilted ground", tilted, none, slope, down, (MU, MU), all_feet),
        Situation("wrong friction", level, none, UP, pushed(WEAK_PUSH), (MU, SLIPPERY), all_feet),
    ]


def _on_points(machine: Machine, system: System, situation: Situation, radius: float) -> SphereContacts:
    """Return feet on the situation's ground; spheres of `radius` [m] have the same contact points."""
    _, feet = machine.look(situation.q)
    ground = plane(situation.normal, float(situation.normal @ feet[0]) - radius)
    return SphereContacts(system, machine.feet, radius, ground, situation.mu[0])


def _setup(machine: Machine, situation: Situation, *tasks: Task) -> tuple[Setup, State, Reference]:
    """Return the setup of a controller for the situation, the state at rest, and the reference."""
    system = machine.robot.system()
    system.model.gravity.linear = situation.gravity
    setup = Setup(
        system=system,
        contacts=_on_points(machine, system, situation, 0.0),
        h=H,
        settings=InverseSettings(rate_limit_nm_s=None, learn_friction=False),
        robot=machine.robot,
        tasks=tasks,
    )
    reference = msgspec.structs.replace(
        Reference.standing(system.joint_positions(situation.q), 4), a=situation.a[6:].copy(), stance=situation.stance
    )
    return setup, State(t=0.0, q=situation.q, v=np.zeros(machine.model.nv)), reference


def _on_feet(command: Command) -> Array:
    """Return the predicted force on each foot, shape (4, 3) [N]."""
    forces = np.zeros((4, 3))
    assert command.predicted is not None
    forces[command.predicted.identity] = command.predicted.force
    return forces


def ours(name: str, machine: Machine, situation: Situation) -> Answer:
    """Return the answer of one of our controllers: torques and predicted forces."""
    setup, state, reference = _setup(machine, situation)
    controller = controllers.build(name, setup)
    command, seconds = timed(lambda: controller(state, reference), REPEATS)
    forces = _on_feet(command)
    M, g, J = machine.terms(situation)
    a = np.linalg.solve(M, np.concatenate((np.zeros(6), command.tau)) - g + J.T @ forces.ravel())
    return Answer(command.tau.copy(), forces, np.asarray(a), float(np.median(seconds)))


def mujoco(machine: Machine, situation: Situation) -> Answer:
    """Return the answer of ``mj_inverse`` for a robot that id-coulomb-qp has brought to rest in MuJoCo's ground."""
    engine: Any = importlib.import_module("mujoco")
    plants: Any = importlib.import_module("idcontrol.plants.mujoco")
    system = machine.robot.system()
    system.model.gravity.linear = situation.gravity
    plant = plants.MuJoCo(system, _on_points(machine, system, situation, 1e-3), H)
    setup, state, reference = _setup(machine, situation)
    hold, state = controllers.build("id-coulomb-qp", setup), plant.reset(state)
    reference = msgspec.structs.replace(reference, a=np.zeros(12), stance=np.ones(4, dtype=np.bool_))
    for _ in range(round(SETTLE_S / H)):
        state = plant.step(hold(state, reference).tau, H)
    data = plant.data
    data.qacc[:] = situation.a

    def inverse() -> Array:
        engine.mj_inverse(plant.model, data)
        return np.array(data.qfrc_inverse)

    torque, seconds = timed(inverse, REPEATS)
    pressed = plant._pressed()
    forces = np.zeros((4, 3))
    forces[pressed.identity] = pressed.force
    return Answer(torque[6:], forces, situation.a, float(np.median(seconds)))


def pinocchio(machine: Machine, situation: Situation) -> Answer:
    """Return the answer of ``contactInverseDynamics`` on ground deformed by id-coulomb-cone's forces at rest.

    Pinocchio 4.1.0 returns torques that exclude the contact forces, so the contribution of these forces is subtracted.
    """
    model, data = machine.model, machine.model.createData()
    at_rest = situation._replace(a=np.zeros(model.nv), stance=np.ones(4, dtype=np.bool_))
    resting = ours("id-coulomb-cone", machine, at_rest).forces
    z = situation.normal
    axes = np.column_stack((np.cross([0.0, 1.0, 0.0], z), [0.0, 1.0, 0.0], z))
    joints, _ = SphereContacts(machine.system, machine.feet, 0.0, plane(), 1.0).mounting()
    _, feet = machine.look(situation.q)
    points, places = pin.StdVec_PointContactConstraintModel(), pin.StdVec_PointContactConstraintData()
    for joint, foot in zip(joints.tolist(), feet, strict=True):
        world = pin.SE3(axes, foot)
        point = pin.PointContactConstraintModel(model, 0, world, joint, machine.data.oMi[joint].actInv(world))
        point.setFriction(situation.mu[0])
        point.setCompliance(np.full(3, COMPLIANCE))
        points.append(point)
        places.append(point.createData())
    correction = -COMPLIANCE * H * (resting @ axes).ravel()
    settings = pin.ProximalSettings(1e-12, 1e-12, 1e-6, 1000)
    still = np.zeros(model.nv)

    def inverse() -> Any:
        return pin.contactInverseDynamics(
            model, data, situation.q, still, situation.a, H, points, places, correction, settings
        )

    at_earth = model.gravity.linear.copy()
    model.gravity.linear = situation.gravity
    (_, free, local), seconds = timed(inverse, REPEATS)
    model.gravity.linear = at_earth
    forces = local.reshape(4, 3) @ axes.T
    J, _ = machine.look(situation.q)
    return Answer((free - J.T @ forces.ravel())[6:], forces, situation.a, float(np.median(seconds)))


def tsid(python: str, machine: Machine, asked: list[Situation]) -> tuple[str, list[Answer | None]]:
    """Return TSID's version and answers, from the interpreter with TSID; an answer is None if its QP has no solution.

    The tasks are as in TSID's examples: the trunk's pose and the joints' posture, with equal weights.

    Raises:
        InputError: The interpreter cannot run TSID.
    """
    version, answers = "", list[Answer | None]()
    for situation in asked:
        machine.look(situation.q)
        trunk = Frame(machine.model.frames[2].name, weight=WEIGHT)
        trunk.set(machine.data.oMf[2])
        setup, state, reference = _setup(machine, situation, trunk, Posture(weight=WEIGHT))
        peer = Tsid(setup, python)
        command, a, version = peer(state, reference), peer.acceleration, peer.version
        seconds = 1e-6 * float(np.median(peer.times(REPEATS)))
        answers.append(None if a is None else Answer(command.tau, _on_feet(command), a, seconds))
        peer.stop()
    return version, answers


def judged(machine: Machine, situation: Situation, answer: Answer) -> dict[str, float | None]:
    """Judge an answer: the rigid robot's motion under the answered torques with true friction, and the answered forces.

    Returns:
        ``wrench``: missing wrench on the trunk, which the answer assumes and no force supplies, largest entry [N, N m];
        ``friction``: largest |f_T| / (μ f_N) of a foot, with the assumed μ (None if no foot presses); ``trunk``: error
        of the trunk's linear acceleration [m/s²]; ``slip``: fastest slip of a planned stance foot after a period,
        divided by the period [m/s²]; ``torque``: mean |τ| [N m]; ``us``: time of a call [us].

    Raises:
        ArithmeticError: The judge's solver finds no forces that obey Coulomb's law.
    """
    M, g, J = machine.terms(situation)
    torque = np.concatenate((np.zeros(6), answer.tau))
    imbalance = M @ answer.a + g - J.T @ answer.forces.ravel() - torque
    z = situation.normal
    axes = np.array([z, np.cross([0.0, 1.0, 0.0], z), [0.0, 1.0, 0.0]])
    rows = np.vstack([axes @ J[3 * foot : 3 * foot + 3] for foot in range(4)])
    free = np.linalg.solve(M, torque - g)
    problem = FrictionProblem(
        situation.name, rows @ np.linalg.solve(M, rows.T), rows @ free, np.full(4, situation.mu[1])
    )
    outcome, f = solve_delassus(*problem[1:])
    if outcome.status != SOLVED or not miss(*problem[1:], f) <= LAW:
        raise ArithmeticError(f"{situation.name}: the judge has no forces that obey the law")
    a = free + np.linalg.solve(M, rows.T @ f)
    slip = np.linalg.norm((rows @ a).reshape(4, 3)[situation.stance, 1:], axis=1)
    normal = answer.forces @ z
    friction = np.linalg.norm(answer.forces - np.outer(normal, z), axis=1)
    pressed = normal > 1e-6
    return {
        "wrench": float(np.abs(imbalance[:6]).max()),
        "friction": float((friction[pressed] / (situation.mu[0] * normal[pressed])).max()) if pressed.any() else None,
        "trunk": float(np.linalg.norm(a[:3] - situation.a[:3])),
        "slip": float(slip.max()),
        "torque": float(np.abs(answer.tau).mean()),
        "us": 1e6 * answer.seconds,
    }


def collected(
    config: Config, machine: Machine, asked: list[Situation], progress: Progress
) -> tuple[dict[str, str], dict[str, list[Answer | None]]]:
    """Return the versions of the installed packages, and their answers in the order of the situations."""
    versions = {"Pinocchio": pin.__version__}
    packages: dict[str, Callable[[Machine, Situation], Answer]] = {
        "id-coulomb-qp": partial(ours, "id-coulomb-qp"),
        "id-coulomb-cone": partial(ours, "id-coulomb-cone"),
        "Pinocchio": pinocchio,
    }
    if installed("mujoco"):
        packages["MuJoCo"] = mujoco
        versions["MuJoCo"] = importlib.import_module("mujoco").__version__
    answers: dict[str, list[Answer | None]] = {}
    for done, (name, answer) in enumerate(packages.items()):
        answers[name] = [answer(machine, situation) for situation in asked]
        progress((done + 1) / (len(packages) + 1))
    if config.tsid_python is not None:
        versions["TSID"], answers["TSID"] = tsid(config.tsid_python, machine, asked)
    return versions, answers


def run(config: Config, progress: Progress) -> Results:
    """Solve every situation by every package, and judge the answers.

    Raises:
        UnknownName: The robot does not exist.
        InputError: The robot does not have four legs of three joints, or TSID's interpreter returns no answers.
        ArithmeticError: The judge finds no forces that obey Coulomb's law.
    """
    machine = Machine(config.robot)
    asked = situations(machine)
    versions, answers = collected(config, machine, asked, progress)
    rows = [
        {"situation": situation.name, "package": package, **judged(machine, situation, answer)}
        for package, its in answers.items()
        for situation, answer in zip(asked, its, strict=True)
        if answer is not None
    ]
    return Results(findings=findings(rows), drawings=[drawing(asked, rows)], extra={"versions": versions, "rows": rows})


KEPT: Final = ("standing", "pushed", "tilted ground")
"""Situations in which the demanded motion is possible."""


def findings(rows: list[dict[str, Any]]) -> list[Finding]:
    """Return the trunk's error under each package; idcontrol must track the trunk whenever the demand is possible."""
    return [
        Finding(
            f"trunk off, {row['situation']}: {row['package']}",
            row["trunk"],
            holds=row["trunk"] <= 1e-6 and row["wrench"] <= 1e-6
            if row["package"].startswith("id-") and row["situation"] in KEPT
            else None,
        )
        for row in rows
    ]


def drawing(asked: list[Situation], rows: list[dict[str, Any]]) -> Drawing:
    """Draw bars: the error of the trunk, and the missing wrench."""
    packages = list(dict.fromkeys(row["package"] for row in rows))
    width = 0.8 / len(packages)
    with axes(rows=2, size=(8.0, 5.0)) as plots:
        for plot, key, label in zip(
            plots, ("trunk", "wrench"), ("trunk off [m/s²]", "missing wrench [N, N m]"), strict=True
        ):
            for p, package in enumerate(packages):
                values = [_of(rows, package, situation.name, key) for situation in asked]
                plot.bar(np.arange(len(asked)) + (p + 0.5) * width - 0.4, values, width, label=package)
            plot.set_xticks(range(len(asked)), [situation.name for situation in asked])
            plot.set(ylabel=label)
            plot.set_yscale("symlog", linthresh=1e-2)
        plots[0].legend(fontsize="small", ncols=2)
    return Drawing("Errors of the answers", plots[0].figure)


def _of(rows: list[dict[str, Any]], package: str, situation: str, key: str) -> float:
    return next((r[key] for r in rows if r["package"] == package and r["situation"] == situation), float("nan"))


experiment = Case(
    name="standing",
    summary="torques of idcontrol, TSID, Pinocchio and MuJoCo for a standing quadruped",
    presets={"default": Config()},
    simulate=run,
    rehearsals=lambda: [Config()],
)
