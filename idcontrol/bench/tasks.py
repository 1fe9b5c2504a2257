"""Times of control steps with whole-body tasks, and times of TSID if ``TSID_PYTHON`` names an interpreter with TSID.

TSID runs and measures its times in a process of its own (`idcontrol.adapters.tsid_controller`), on the same robot at
rest with the same tasks, weights, friction and torque limits. Our controller and TSID alternate every `TURN` steps.
"""

import os
import time
from collections.abc import Iterator
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pinocchio as pin
from msgspec import structs

from idcontrol import controllers, robots, tasks
from idcontrol.adapters.tsid_controller import Tsid
from idcontrol.bench.measurement import Bar, Benchmark, Effort, TimingRow, terms
from idcontrol.bench.problems.walks import RecordedWalk
from idcontrol.bench.timing import in_turns, percentiles
from idcontrol.controllers import Gains
from idcontrol.dynamics.system import System
from idcontrol.types import Array, Reference, State

CONTROLLER, MU, H, TURN = "id-coulomb-qp", 0.6, 1e-3, 25
KP, POSTURE = 100.0, {"kp": 30.0, "weight": 1e-2}
PUSH: Final = np.array([0.1, 0.2, 0.1, 0.0, 0.0, 0.0])
"""Demanded acceleration of the first task, linear then angular [m/s², rad/s²]; a task uses the part that it controls.
"""
LIFT_M, NEWTON = 0.05, 20
SAME: Final = 1e-5
"""Largest difference of joint accelerations between equal answers, relative to the largest acceleration."""


class Case(NamedTuple):
    """A robot's tasks, by frame (None for the centre of mass) and kind, and its feet in stance."""

    what: str
    robot: str
    tasks: tuple[tuple[str | None, Literal["pose", "position", "orientation"]], ...]
    stands: tuple[bool, ...]
    bar: Bar | None = None


CASES: Final = (
    Case("talos, two soles", "talos", ((None, "position"), ("torso_2_link", "orientation")), (True, True),
         Bar(of="peer", bar=0.6, goal=0.30)),
    Case("talos, one sole", "talos", ((None, "position"), ("torso_2_link", "orientation"), ("left_sole_link", "pose")),
         (False, True), Bar(of="peer", bar=0.66, goal=0.33)),
    Case("go1, base and two swing feet", "go1", (("trunk", "pose"), ("FL_foot", "position"), ("RR_foot", "position")),
         (False, True, True, False), Bar(of="peer", bar=1.0, goal=0.55)),
    Case("go1, joint reference", "go1", (), (False, True, True, False)),
)  # fmt: skip


def leaning(system: System, q: Array, stand: str, lift: str) -> Array:
    """Return a configuration near q with the centre of mass above the frame `stand`, and `lift` raised by `LIFT_M`."""
    model, data = system.model, system.scratch
    pin.framesForwardKinematics(model, data, q)
    frames = [model.getFrameId(name) for name in (stand, lift)]
    goals = [data.oMf[frame].copy() for frame in frames]
    goals[1].translation[2] += LIFT_M
    for _ in range(NEWTON):
        rows, errors = [pin.jacobianCenterOfMass(model, data, q)[:2]], [(goals[0].translation - data.com[0])[:2]]
        pin.framesForwardKinematics(model, data, q)
        for frame, goal in zip(frames, goals, strict=True):
            errors.append(pin.log6(data.oMf[frame].actInv(goal)).vector)
            rows.append(pin.computeFrameJacobian(model, data, q, frame, pin.LOCAL))
        q = pin.integrate(model, q, np.linalg.lstsq(np.vstack(rows), np.concatenate(errors))[0])
    return q


class Step:
    """The control step of a case at one state."""

    def __init__(self, case: Case) -> None:
        """Make the controller of a case, its state and its reference; feet are points, as in TSID."""
        robot = robots.load(case.robot)
        contacts = robot.contacts(MU)
        self.system, soles = contacts.system, robot.description.soles
        q = robot.standing_state(self.system).q
        q[2] -= contacts.radius.max()
        contacts.radius[:] = 0.0
        self.feet = list(dict.fromkeys(contacts.frames))
        standing = [foot for foot, stands in zip(self.feet, case.stands, strict=True) if stands]
        if soles and len(standing) == 1:
            q = leaning(self.system, q, standing[0], next(foot for foot in self.feet if foot not in standing))
        stiffness, damping = robot.acceleration_gains()
        self.setup = controllers.Setup(
            system=self.system,
            contacts=contacts,
            h=H,
            acceleration_gains=Gains(kp=stiffness, kd=damping),
            robot=robot,
            tasks=self._tasks(case, q),
        )
        self.controller: Any = controllers.build(CONTROLLER, self.setup)
        self.state = State(t=0.0, q=q, v=np.zeros(self.system.n_velocities))
        standing_still = Reference.standing(self.system.joint_positions(q), feet=len(self.feet))
        self.reference = structs.replace(standing_still, stance=np.array(case.stands))

    def _tasks(self, case: Case, q: Array) -> list[tasks.Task]:
        """Return tasks whose references are the present poses; the first task also demands the acceleration `PUSH`."""
        model, data = self.system.model, self.system.scratch
        pin.framesForwardKinematics(model, data, q)
        listed: list[tasks.Task] = []
        for i, (name, kind) in enumerate(case.tasks):
            acceleration, part = PUSH if i == 0 else np.zeros(6), tasks.KINDS[kind]
            if name is None:
                com = tasks.CoM(kp=KP)
                com.set(self.system.com(q), acceleration=acceleration[part])
                listed.append(com)
            else:
                frame = tasks.Frame(name, kind, kp=KP)
                frame.set(data.oMf[model.getFrameId(name)], acceleration=acceleration[part])
                listed.append(frame)
        return [*listed, tasks.Posture(**POSTURE)] if listed else []

    def times(self, count: int) -> Array:
        """Take `count` steps and return their times [us]."""
        times = np.empty(count)
        for i in range(count):
            began = time.perf_counter_ns()
            self.controller(self.state, self.reference)
            times[i] = time.perf_counter_ns() - began
        return 1e-3 * times


def rows(walk: RecordedWalk, effort: Effort) -> Iterator[TimingRow]:
    """Return rows of all `CASES`; the floor is timed on the robot of each case.

    Raises:
        InputError: ``TSID_PYTHON`` is set, but does not name an interpreter with TSID.
    """
    for case in CASES:
        yield _row(case, effort)


def _row(case: Case, effort: Effort) -> TimingRow:
    """Return the row of a case; with ``TSID_PYTHON``, a case with tasks is compared and timed in turns with TSID."""
    step = Step(case)
    peer = Tsid(step.setup) if os.environ.get("TSID_PYTHON") and case.tasks else None
    floor, _ = in_turns([terms(step.system, step.feet, [step.state])], 1, effort.samples, effort.budget_s)
    command = step.controller(step.state, step.reference)
    a = step.controller.problem(step.state, step.reference).b / H
    note = f"demand {command.demand}, {command.solved_by}" if command.demand else command.solved_by
    if peer is not None:
        peer(step.state, step.reference)
    ours, theirs, end = [step.times(TURN)], [], time.perf_counter() + effort.budget_s
    while len(ours) * TURN < effort.samples and time.perf_counter() < end:
        ours.append(step.times(TURN))
        if peer is not None:
            theirs.append(peer.times(TURN))
    us = percentiles(np.concatenate(ours))
    beside: dict[str, Any] = {}
    if peer is not None:
        theirs_a, peer_us = peer.acceleration, percentiles(np.concatenate(theirs))
        miss = np.inf if theirs_a is None else float(np.abs(a - theirs_a[6:]).max() / np.abs(a).max())
        beside = {
            "peer": f"TSID {peer.version}", "peer_us": peer_us, "peer_ratio": us["p50"] / peer_us["p50"],
            "difference": f"{miss:.1e} of {SAME:.0e} of the largest joint acceleration", "agrees": miss <= SAME,
            "peer_unsolved": int(theirs_a is None),
        }  # fmt: skip
        peer.stop()
    benchmark = Benchmark(what=case.what, bar=case.bar, note=note)
    ratio = us["p50"] / float(np.median(floor))
    return TimingRow(benchmark=benchmark, us=us, floor_ratio=ratio, samples=len(ours) * TURN, **beside)
