"""Times of control steps with whole-body tasks, and times of TSID if ``TSID_PYTHON`` names an interpreter with TSID.

TSID needs a different version of Pinocchio (`INSTALL`), so it runs and measures its times in a separate process, on the
same robot at rest with the same tasks, weights, friction and torque limits. Both take turns of `TURN` steps.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pinocchio as pin
from msgspec import structs

from idcontrol import controllers, robots, tasks
from idcontrol.bench.measurement import Bar, Benchmark, Effort, TimingRow, terms
from idcontrol.bench.timing import in_turns, percentiles
from idcontrol.contact.spheres import SphereContacts
from idcontrol.controllers import Gains
from idcontrol.dynamics.system import System
from idcontrol.errors import InputError
from idcontrol.problems.walks import RecordedWalk
from idcontrol.types import Array, Reference, State

INSTALL: Final = "pip install tsid==1.7.0 'numpy<2' cmeel-boost==1.82.0"
CONTROLLER, MU, H, TURN = "id-coulomb-qp", 0.6, 1e-3, 25
KP, POSTURE, FORCE_WEIGHT = 100.0, {"kp": 30.0, "weight": 1e-2}, 1e-8
PUSH: Final = np.array([0.1, 0.2, 0.1, 0.0, 0.0, 0.0])
"""Demanded acceleration of the first task [m/s²]."""
LIFT_M, NEWTON = 0.05, 20
SAME: Final = 1e-5
"""Largest difference of joint accelerations between equal answers, relative to the largest acceleration."""
START_S: Final = 60.0
"""Time limit for the first answer of TSID's process [s]."""


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
    """Return a configuration near q whose centre of mass is above one frame while another is lifted by `LIFT_M`."""
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
    """A case at one state."""

    def __init__(self, case: Case) -> None:
        """Make the controller of a case and its arguments; feet are points, as in TSID."""
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
        listed, asked = self._tasks(case, q)
        self.controller: Any = self._controller(robot, contacts, listed)
        self.state = State(t=0.0, q=q, v=np.zeros(self.system.n_velocities))
        standing_still = Reference.standing(self.system.joint_positions(q), feet=len(self.feet))
        self.reference = structs.replace(standing_still, stance=np.array(case.stands))
        self.problem = {
            "urdf": str(robot.urdf), "q": q.tolist(), "mu": MU, "torque_limit": self.system.effort_limit.tolist(),
            "corners": [list(corner) for corner in soles[0].corners_m] if soles else None, "feet": standing,
            "force_weight": FORCE_WEIGHT, "tasks": asked, "posture": POSTURE,
        }  # fmt: skip

    def _tasks(self, case: Case, q: Array) -> tuple[list[tasks.Task], list[dict[str, Any]]]:
        """Return tasks that hold their place with an added acceleration, for us and for TSID."""
        model, data = self.system.model, self.system.scratch
        pin.framesForwardKinematics(model, data, q)
        listed: list[tasks.Task] = []
        asked: list[dict[str, Any]] = []
        for i, (name, kind) in enumerate(case.tasks):
            acceleration, mask, part = PUSH if i == 0 else np.zeros(6), np.zeros(6), tasks.KINDS[kind]
            mask[part] = 1.0
            if name is None:
                place, task = pin.SE3(np.eye(3), self.system.com(q)), tasks.CoM(kp=KP)
                task.set(place.translation, acceleration=acceleration[:3])
                listed.append(task)
            else:
                place, frame = data.oMf[model.getFrameId(name)], tasks.Frame(name, kind, kp=KP)
                frame.set(place, acceleration=acceleration[part])
                listed.append(frame)
            asked.append({
                "frame": name, "mask": mask.tolist(), "place": [place.translation.tolist(), place.rotation.tolist()],
                "acceleration": acceleration.tolist(), "kp": KP, "weight": 1.0,
            })  # fmt: skip
        return [*listed, tasks.Posture(**POSTURE)] if listed else [], asked

    def _controller(self, robot: robots.Robot, contacts: SphereContacts, listed: list[tasks.Task]) -> Any:
        stiffness, damping = robot.acceleration_gains()
        gains = Gains(kp=stiffness, kd=damping)
        setup = controllers.Setup(system=self.system, contacts=contacts, h=H, acceleration_gains=gains, tasks=listed)
        return controllers.build(CONTROLLER, setup)

    def times(self, count: int) -> Array:
        """Take `count` steps and return their times [us]."""
        times = np.empty(count)
        for i in range(count):
            began = time.perf_counter_ns()
            self.controller(self.state, self.reference)
            times[i] = time.perf_counter_ns() - began
        return 1e-3 * times


class Tsid:
    """TSID on the same problem, in its own process."""

    def __init__(self, python: str, problem: dict[str, Any]) -> None:
        """Start TSID's process; `answer` has its version and accelerations.

        Raises:
            InputError: The process does not answer.
        """
        script = Path(__file__).with_name("tasks_tsid.py")
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        try:
            self._process = subprocess.Popen([python, str(script)], **pipes)
        except OSError as error:
            raise InputError(f"TSID_PYTHON={python} does not run TSID: {error}") from None
        try:
            self.answer = self._ask(problem)
        except (OSError, ValueError):
            with contextlib.suppress(OSError):  # the process has ended
                self.stop()
            raise InputError(f"TSID_PYTHON={python} does not run TSID: {INSTALL}") from None

    def _ask(self, question: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def times(self, count: int) -> Array:
        """Take `count` steps and return their times [us]."""
        return np.array(self._ask(count))

    def stop(self) -> None:
        """End the process."""
        self._process.communicate(timeout=START_S)


def rows(walk: RecordedWalk, effort: Effort) -> Iterator[TimingRow]:
    """Return rows of all `CASES`; the floor is for the case's robot.

    Raises:
        InputError: ``TSID_PYTHON`` is not an interpreter with TSID.
    """
    python = os.environ.get("TSID_PYTHON")
    for case in CASES:
        yield _row(case, effort, python)


def _row(case: Case, effort: Effort, python: str | None) -> TimingRow:
    """Compare answers, then time both alternately."""
    step = Step(case)
    floor, _ = in_turns([terms(step.system, step.feet, [step.state])], 1, effort.samples, effort.budget_s)
    command = step.controller(step.state, step.reference)
    a = step.controller.problem(step.state, step.reference).b / H
    note = f"demand {command.demand}, {command.solved_by}" if command.demand else command.solved_by
    peer = Tsid(python, step.problem) if python and case.tasks else None
    ours, theirs, end = [step.times(TURN)], [], time.perf_counter() + effort.budget_s
    while len(ours) * TURN < effort.samples and time.perf_counter() < end:
        ours.append(step.times(TURN))
        if peer is not None:
            theirs.append(peer.times(TURN))
    us = percentiles(np.concatenate(ours))
    beside: dict[str, Any] = {}
    if peer is not None:
        theirs_a, peer_us = peer.answer["a"], percentiles(np.concatenate(theirs))
        miss = np.inf if theirs_a is None else float(np.abs(a - theirs_a[6:]).max() / np.abs(a).max())
        beside = {
            "peer": f"TSID {peer.answer['version']}", "peer_us": peer_us, "peer_ratio": us["p50"] / peer_us["p50"],
            "difference": f"{miss:.1e} of {SAME:.0e} of the largest joint acceleration", "agrees": miss <= SAME,
            "peer_unsolved": int(theirs_a is None),
        }  # fmt: skip
        peer.stop()
    benchmark = Benchmark(what=case.what, bar=case.bar, note=note)
    ratio = us["p50"] / float(np.median(floor))
    return TimingRow(benchmark=benchmark, us=us, floor_ratio=ratio, samples=len(ours) * TURN, **beside)
