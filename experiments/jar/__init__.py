"""Two arms with hands open a jar, pour its marbles into a bowl, close it and put it back.

Castro, Permenter & Han 2022, section X-E: 160 velocities, 5 ms steps, SAP. The task is judged by the positions of the
parts. The jar has eight walls; its lid has up to four contact points on each of them, and eight pegs that reach into
the mouth. The arms have no collision shapes, and parts of one machine do not collide. Joint limits of the arms are not
enforced: joints exceed them by at most 0.05 rad, and torques stay below 75 N m. Keyframes are fixed in advance, except
four that depend on the object held in a hand.

The arms are `machine`, the objects `things`, `hands` drives the arms, and `task` is the sequence of keyframes.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
import pinocchio as pin

from idcontrol.bench.league import conic
from idcontrol.config.configuration import Count, Positive
from idcontrol.errors import InputError
from idcontrol.experiments.case import Case, Progress
from idcontrol.experiments.findings import Drawing, Finding, Results, Series, axes
from idcontrol.experiments.jar import task, things
from idcontrol.experiments.jar.machine import Bone, bones
from idcontrol.experiments.jar.task import JAR, KEYFRAMES, Scene
from idcontrol.models import sap
from idcontrol.models.sap.regularization import BETA, SIGMA
from idcontrol.models.sparse import WORLD
from idcontrol.record.scenery import DrawableBody, Scenery
from idcontrol.types import Array, Status

PAPER_VELOCITIES, PAPER_MOMENTUM_ERROR, PAPER_CONTACTS = 160, 1e-3, 200
"""Number of velocities, largest momentum error, and minimum number of contacts ("hundreds") of Castro et al. 2022,
section X-E."""

LIFTED_M, AWAY_M = 0.05, 0.1
"""Height of the jar's foot above which the jar counts as lifted, and distance of the lid from its seat above which the
jar counts as open [m]."""

SEATED_M, BACK_M, UPRIGHT_RAD = 2e-3, 0.02, np.radians(2.0)
"""Largest distance of a closed lid from its seat [m], and of the jar from its first place [m]; largest tilt of the jar
[rad]."""

EVERY = 4
"""Number of steps per row of the record."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the case. Step, masses and tolerance come from the paper, which prints neither sizes nor friction.

    Attributes:
        step_s: Time step.
        mu: Friction coefficient of hands, jar, lid, bowl and table.
        mu_marble: Friction coefficient of marbles.
        sigma: SAP's slip parameter.
        beta: SAP's period of a near-rigid contact, in steps.
        tolerance: SAP's relative tolerance, ε_r in the paper.
        keyframes: Number of keyframes to play, from the first on; with fewer than all the task stays incomplete.
    """

    step_s: Positive = 5e-3
    mu: Positive = 0.8
    mu_marble: Positive = 0.3
    sigma: Positive = SIGMA
    beta: Positive = BETA
    tolerance: Positive = 1e-3
    keyframes: Count = len(KEYFRAMES)


@dataclass
class Watch:
    """Counts, errors and poses of a run, recorded step by step.

    Attributes:
        scene: The scene.
        bones: Segments of each arm that are drawn.
        steps: Values of each step: contacts, loaded contacts, Newton steps, momentum error, the solver's residual,
            complementarity error, processor time of step and controller together [s], and True if it was solved.
        times: Time of every `EVERY`-th step [s].
        poses: Positions and quaternions of parts and bones at these times.
        lifted: Largest height of the jar's foot while the right hand holds the jar in the air [m].
        opened: Largest distance of the lid from its seat while the left hand holds the lid clear of the jar [m].
    """

    scene: Scene
    bones: Sequence[Sequence[Bone]]
    steps: list[tuple[float, ...]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    poses: list[Array] = field(default_factory=list)
    lifted: float = 0.0
    opened: float = 0.0
    _began: float = field(default_factory=time.thread_time)

    def __call__(self) -> None:
        """Record one step."""
        spent = time.thread_time() - self._began
        plant, scene = self.scene.plant, self.scene
        problem, solution = plant.problem, plant.last
        assert problem is not None
        assert solution is not None
        asked = conic.program(problem, scene.parameters.sigma, scene.parameters.beta)
        answer = conic.by_sap(problem, solution, spent)
        self.steps.append(
            (
                len(problem.gap),
                int((solution.impulses[:, 0] > 0.0).sum()),
                solution.iterations,
                conic.momentum_error(problem, answer),
                solution.residual,
                conic.slackness(asked, answer),
                spent,
                solution.status is Status.SOLVED,
            )
        )
        foot = float(scene.pose(JAR).translation[2]) - things.JAR_CENTRE_M
        if not plant.force_between(JAR, WORLD).any() and plant.pressing_force(task.RIGHT, JAR) > 0.0:
            self.lifted = max(self.lifted, foot)
        if plant.pressing_force(task.LEFT, task.LID) > 0.0 and not plant.force_between(JAR, task.LID).any():
            self.opened = max(self.opened, max(task.lid_offset(scene)))
        if len(self.steps) % EVERY == 0:
            self.times.append(plant.state.t)
            self.poses.append(self._drawn())
        self._began = time.thread_time()

    def _drawn(self) -> Array:
        """Return poses of all parts, then of all bones, shape (k, 7)."""
        position, rotation = self.scene.plant.place
        poses = [pin.SE3ToXYZQUAT(pin.SE3(turn, np.array(at))) for at, turn in zip(position, rotation, strict=True)]
        for arm, drawn in zip(self.scene.arms, self.bones, strict=True):
            data = arm.system.data
            poses += [pin.SE3ToXYZQUAT(data.oMf[bone.frame] * bone.place) for bone in drawn]
        return np.array(poses)


def run(config: Config, progress: Progress) -> Results:
    """Play the keyframes and judge the task.

    Raises:
        InputError: There are fewer keyframes than the configuration asks for.
    """
    if config.keyframes > len(KEYFRAMES):
        raise InputError(f"keyframes={config.keyframes}: there are only {len(KEYFRAMES)}; give a smaller number")
    parameters = sap.Parameters(sigma=config.sigma, beta=config.beta, tolerance=config.tolerance)
    # loads the kernels, so that no timed step includes their loading
    _scene(config, parameters).step(1.0, (False, False))
    scene = _scene(config, parameters)
    watch = Watch(scene, [bones(arm.system) for arm in scene.arms])
    ends: dict[str, float] = {}
    failed = ""
    for number, keyframe in enumerate(KEYFRAMES[: config.keyframes]):
        if not task.play(scene, keyframe, watch):
            failed = keyframe.name
            break
        ends[keyframe.name] = scene.plant.state.t
        progress((number + 1) / config.keyframes)
    steps = np.array(watch.steps).T
    return Results(
        findings=[*_done(scene, watch, len(ends), failed), *_counts(config, scene, steps)],
        series=_series(scene, watch, steps),
        drawings=[_history(config, steps, ends)],
        extra={"keyframe_ends_s": ends},
        scene=_scenery(scene, watch),
    )


experiment = Case(
    name="jar",
    summary="two arms open a jar, pour marbles into a bowl and close the jar, with SAP",
    presets={"default": Config()},
    simulate=run,
    rehearsals=lambda: [Config(keyframes=1)],
)


def _scene(config: Config, parameters: sap.Parameters) -> Scene:
    return Scene(h=config.step_s, mu=config.mu, mu_marble=config.mu_marble, parameters=parameters)


def _done(scene: Scene, watch: Watch, played: int, failed: str) -> list[Finding]:
    """Judge the task by the positions of the parts, at the end and during the run."""
    plant, jar = scene.plant, scene.pose(JAR)
    count, (along, across) = task.marbles_in_bowl(scene), task.lid_offset(scene)
    standing = jar.translation - np.array([0.0, 0.0, things.JAR_CENTRE_M])
    tilt = float(np.arccos(np.clip(jar.rotation[2, 2], -1.0, 1.0)))
    lid_tilt = float(np.arccos(np.clip((jar.rotation.T @ scene.pose(task.LID).rotation)[2, 2], -1.0, 1.0)))
    closed = max(along, across) < SEATED_M and lid_tilt < UPRIGHT_RAD
    away = float(np.linalg.norm(standing - task.JAR_AT))
    stands = bool(plant.force_between(JAR, WORLD)[2] > 0.0)
    released = plant.pressing_force(task.RIGHT, JAR) == 0.0 and plant.pressing_force(task.LEFT, task.LID) == 0.0
    back = away < BACK_M and tilt < UPRIGHT_RAD and stands and released
    steps = [
        Finding("keyframes", played, holds=played == len(KEYFRAMES)),
        Finding("failed_keyframe", failed or None, holds=not failed),
        Finding("lid_off_m", watch.opened, holds=watch.opened > AWAY_M),
        Finding("jar_lifted_m", watch.lifted, holds=watch.lifted > LIFTED_M),
        Finding("marbles_in_bowl", count, holds=count == things.MARBLES),
        Finding("lid_from_seat_m", max(along, across), holds=closed),
        Finding("jar_from_start_m", away, holds=back),
    ]
    done = all(step.holds for step in steps)
    return [Finding("task_done", done, holds=done), *steps]


def _counts(config: Config, scene: Scene, steps: Array) -> list[Finding]:
    """Return findings about counts, errors and times."""
    contacts, _, iterations, momentum, residual, complementarity, spent, solved = steps
    velocities, simulated = scene.plant.velocities, config.step_s * len(spent)
    return [
        Finding("velocities", velocities, holds=velocities == PAPER_VELOCITIES),
        Finding("contacts_mean", contacts.mean()),
        Finding("contacts_max", int(contacts.max()), agrees=contacts.max() >= PAPER_CONTACTS),
        Finding("iterations_mean", iterations.mean()),
        Finding("iterations_max", int(iterations.max())),
        Finding("momentum_error", momentum.max(), agrees=momentum.max() <= PAPER_MOMENTUM_ERROR),
        Finding("residual", residual.max(), holds=residual.max() <= config.tolerance and solved.all()),
        Finding("complementarity_error", complementarity.max(), holds=complementarity.max() < 1e-9),
        Finding("step_ms", 1e3 * float(np.median(spent))),
        Finding("real_time_factor", simulated / spent.sum()),
    ]


COLOURS = {
    WORLD: (0.8, 0.74, 0.65),
    task.RIGHT: (0.25, 0.25, 0.28),
    task.LEFT: (0.4, 0.4, 0.45),
    JAR: (0.45, 0.7, 0.9),
    task.LID: (0.9, 0.55, 0.3),
    task.BOWL: (0.5, 0.78, 0.5),
}
MARBLE_COLOUR, ARM_COLOUR = (0.8, 0.15, 0.25), (0.95, 0.6, 0.2)


def _scenery(scene: Scene, watch: Watch) -> Scenery:
    """Return all parts, and the arms as capsules."""
    bodies = []
    for part in scene.plant.parts:
        shape = part.shape
        box = hasattr(shape, "halfSide")
        size = tuple(2.0 * np.asarray(shape.halfSide)) if box else (shape.radius,)
        bodies.append(
            DrawableBody(
                name=part.name,
                shape="box" if box else "sphere",
                size_m=tuple(float(length) for length in size),
                colour=COLOURS.get(part.tree, MARBLE_COLOUR),
                opacity=0.45 if part.tree == JAR else 1.0,
            )
        )
    for arm, drawn in enumerate(watch.bones):
        bodies += [
            DrawableBody(
                name=f"arm{arm}_{number}", shape="capsule", size_m=(bone.radius, bone.length), colour=ARM_COLOUR
            )
            for number, bone in enumerate(drawn)
        ]
    return Scenery(robot=None, bodies=tuple(bodies), ground=None)


def _series(scene: Scene, watch: Watch, steps: Array) -> dict[str, Series]:
    rows = len(watch.times)
    contacts, pressing, iterations, momentum, _, _, spent, _ = steps[:, EVERY - 1 :: EVERY][:, :rows]
    series = {
        "t": Series(np.array(watch.times), "s"),
        "contacts": Series(contacts),
        "pressing": Series(pressing),
        "iterations": Series(iterations),
        "momentum_error": Series(momentum),
        "step_us": Series(1e6 * spent, "us", wall_time=True),
    }
    poses = np.array(watch.poses)
    names = [body.name for body in _scenery(scene, watch).bodies]
    return series | {f"pose_{name}": Series(poses[:, i]) for i, name in enumerate(names)}


def _history(config: Config, steps: Array, ends: dict[str, float]) -> Drawing:
    t = config.step_s * np.arange(1.0, steps.shape[1] + 1.0)
    with axes(rows=2, size=(8.0, 5.5), sharex=True) as (above, below):
        above.plot(t, steps[0], label="listed", linewidth=0.8)
        above.plot(t, steps[1], label="pressing", linewidth=0.8)
        above.set_ylabel("contacts")
        above.set_ylim(0.0, 1.75 * steps[0].max())
        for name, end in ends.items():
            above.axvline(end, color="0.8", linewidth=0.6, zorder=0)
            above.annotate(
                name, (end, 1.0), xycoords=("data", "axes fraction"), rotation=90, fontsize=6, ha="right", va="top"
            )
        above.legend(loc="lower right", ncols=2)
        below.plot(t, steps[2], linewidth=0.8)
        below.set_ylabel("Newton steps")
        below.set_xlabel("time [s]")
    return Drawing("Contacts and iterations", above.figure)
