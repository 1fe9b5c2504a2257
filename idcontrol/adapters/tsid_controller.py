"""TSID as a controller, in a separate process under the Python interpreter ``TSID_PYTHON``.

TSID needs a different version of Pinocchio (`INSTALL`). TSID gets the same robot, feet, tasks, gains, weights, friction
and torque limits as our controllers. Unlike them, it bounds no torque rates and does not ramp forces at touchdown and
lift-off. TSID's friction pyramids are square, ``|f_s| ≤ μ f_n`` and ``|f_t| ≤ μ f_n``.
"""

import json
import os
import subprocess
import weakref
from pathlib import Path
from typing import Any, Final

import numpy as np

from idcontrol.controllers import Setup
from idcontrol.errors import InputError
from idcontrol.tasks import KINDS, CoM, Frame, Posture, gather, write_errors
from idcontrol.tasks.rows import LOCAL_WORLD_ALIGNED, Targets
from idcontrol.types import Array, Command, ContactForces, ContactLaw, Reference, State, Status

INSTALL: Final = "pip install tsid==1.7.0 'numpy<2' cmeel-boost==1.82.0"
FORCE_WEIGHT: Final = 1e-8
"""Weight of the squared contact forces in TSID's program."""
CONTACT_KP: Final = 10.0
"""Stiffness with which a standing foot is held in place [1/s²], as in TSID's exercises."""
END_S: Final = 60.0
"""Time within which the process must end [s]."""
MOST: Final = 1e6
"""Torque limit that TSID gets for joints without a limit [N m]."""


def interpreter() -> str:
    """Return the path of the Python interpreter with TSID.

    Raises:
        InputError: ``TSID_PYTHON`` is not set.
    """
    python = os.environ.get("TSID_PYTHON")
    if not python:
        raise InputError(f"set TSID_PYTHON to the Python of a separate environment with TSID: {INSTALL}")
    return python


class Tsid:
    """TSID's torques for a robot with a floating base.

    Attributes:
        version: TSID's version.
        acceleration: Acceleration of the last step's solution, in Pinocchio's layout, shape (nv,); None before the
            first step and if TSID found no solution.
    """

    contact_law = ContactLaw(cone="pyramid")
    takes_tasks = True

    def __init__(self, setup: Setup, python: str | None = None) -> None:
        """Start the process under the interpreter `python`; None means `interpreter`.

        Raises:
            InputError: The interpreter does not run TSID, there are no tasks, or TSID has no counterpart of a task.
        """
        robot: Any = setup.robot
        contacts: Any = setup.contacts
        self._system, self._state = setup.system, robot.standing_state()
        self._moves: list[Any] = [task for task in setup.tasks if not isinstance(task, Posture)]
        posture = next((task for task in setup.tasks if isinstance(task, Posture)), Posture())
        self._targets, weight = gather([*self._moves, posture], self._system, self._state.q)
        _require_counterparts(self._moves, self._targets)
        self._joints = self._system.order[6:] - 6
        self._corners = [np.flatnonzero(contacts.patch == i) for i in range(len(robot.patches))]
        self.acceleration: Array | None = None
        self._tau: Array = np.zeros(self._system.n_actuated)
        self._anew = True
        # the parameters of a height map have the vertical at the place of a plane's normal
        self._normal: Array = contacts.terrain.parameters[:3]
        feet = []
        for corners in self._corners:
            points = [np.subtract(robot.spheres[i].offset_m, (0.0, 0.0, contacts.radius[i])).tolist() for i in corners]
            feet.append({"frame": contacts.frames[corners[0]], "corners": points if len(points) > 1 else None})
        kp, kd = posture.gains or (setup.acceleration_gains.kp, setup.acceleration_gains.kd)
        posture_rows = {"kp": self._in_tree(kp), "kd": self._in_tree(kd), "weight": self._in_tree(weight)}
        problem = {
            "urdf": str(robot.urdf), "gravity": self._system.model.gravity.linear.tolist(), "mu": setup.mu,
            "normal": self._normal.tolist(), "feet": feet, "contact_kp": CONTACT_KP,
            "force_weight": FORCE_WEIGHT, "torque_limit": self._in_tree(np.minimum(self._system.effort_limit, MOST)),
            "tasks": self._described(), "posture": posture_rows,
        }  # fmt: skip
        python = python or interpreter()
        self._process = _started(python)
        self._end = weakref.finalize(self, _end, self._process)
        try:
            first = self._ask(problem | self._asked(self._state, robot.standing_reference()))
        except (OSError, ValueError):
            self.stop()
            raise InputError(f"{python} does not run TSID: {INSTALL}") from None
        self.version: str = first["version"]

    def __call__(self, state: State, reference: Reference) -> Command:
        """Return TSID's torques and contact forces; if TSID finds no solution, the last torques as a fallback.

        Raises:
            OSError, ValueError: TSID's process has ended.
        """
        write_errors(self._targets, self._moves, self._system, state.q)
        answer = self._ask(self._asked(state, reference))
        self._anew = False
        self.acceleration = None if answer is None else np.array(answer["a"])
        if answer is None:
            return Command(tau=self._tau, status=Status.FALLBACK, dropped=("prediction",), demand="infeasible")
        self._tau = np.array(answer["tau"])[self._joints]
        stands = np.flatnonzero(reference.stance)
        identity = np.concatenate([self._corners[i] for i in stands] or [np.zeros(0, dtype=np.int64)])
        force = np.concatenate([answer["force"][i] for i in stands] or [np.zeros((0, 3))])
        normal = np.tile(self._normal, (len(identity), 1))
        predicted = ContactForces(identity=identity, force=force, normal=normal)
        return Command(tau=self._tau, predicted=predicted, demand="qp")

    def reset(self) -> None:
        """Forget the last torques and the positions of standing feet."""
        self._tau, self._anew = np.zeros(self._system.n_actuated), True

    def times(self, count: int) -> Array:
        """Repeat the last step `count` times; return its computing times, measured in TSID's process [us]."""
        return np.array(self._ask(count))

    def stop(self) -> None:
        """End the process."""
        self._end()

    def _ask(self, question: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def _in_tree(self, joints: Array | float) -> list[float]:
        """Return values of the actuated joints, or one value for all, as a list in Pinocchio's order."""
        out = np.empty(self._system.n_actuated)
        out[self._joints] = joints
        return out.tolist()

    def _described(self) -> list[dict[str, Any]]:
        """Return the constant data of the motion tasks, as `idcontrol.adapters.tsid_process` expects them."""
        out = []
        for i, task in enumerate(self._moves):
            mask = np.zeros(6)
            mask[KINDS[task.kind] if isinstance(task, Frame) else KINDS["position"]] = 1.0
            frame = task.frame if isinstance(task, Frame) else None
            kp, kd = self._targets.kp[i].tolist(), self._targets.kd[i].tolist()
            out.append({"frame": frame, "mask": mask.tolist(), "kp": kp, "kd": kd})
        return out

    def _asked(self, state: State, reference: Reference) -> dict[str, Any]:
        """Return the state and all references, as `idcontrol.adapters.tsid_process` expects them."""
        targets, references = self._targets, []
        for i, task in enumerate(self._moves):
            rows = 6 if isinstance(task, Frame) else 3
            place = np.concatenate((targets.position[i], targets.rotation[i].T.ravel()))[: 12 if rows == 6 else 3]
            rates = targets.velocity[i, :rows].tolist(), targets.acceleration[i, :rows].tolist()
            references.append((place.tolist(), *rates))
        return {
            "anew": self._anew, "q": state.q.tolist(), "v": state.v.tolist(), "stand": reference.stance.tolist(),
            "weights": targets.weight.max(axis=1).tolist(), "references": references,
            "rest": [self._in_tree(values) for values in (reference.q, reference.v, reference.a)],
        }  # fmt: skip


def _require_counterparts(moves: list[Any], targets: Targets) -> None:
    """Raise `InputError` if there is no motion task, or if TSID has no counterpart of a task, its weights or axes."""
    if not moves:
        raise InputError("TSID needs whole-body tasks; choose an experiment that has them, e.g. sway")
    for task in moves:
        if not isinstance(task, CoM | Frame) or getattr(task, "relative_to", None) is not None:
            raise InputError(f"TSID has no counterpart of the task {type(task).__name__} here; take CoM and Frame")
    even = targets.weight.max(axis=1, keepdims=True)
    if ((targets.weight != even) & (targets.weight != 0.0)).any() or np.isinf(even).any():
        raise InputError("TSID takes one finite weight for all rows of a task here; change the tasks' weights")
    if (targets.axes[[isinstance(task, Frame) for task in moves]] != LOCAL_WORLD_ALIGNED).any():
        raise InputError("TSID takes tasks on frames in axes of the world here: axes='LOCAL_WORLD_ALIGNED'")


def _started(python: str) -> subprocess.Popen[str]:
    """Start the process of TSID.

    Raises:
        InputError: The program `python` cannot be started.
    """
    script = str(Path(__file__).with_name("tsid_process.py"))
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    try:
        return subprocess.Popen([python, script], **pipes)
    except OSError as error:
        raise InputError(f"{python} does not run TSID: {error}") from None


def _end(process: subprocess.Popen[str]) -> None:
    try:
        process.communicate(timeout=END_S)
    except (OSError, ValueError):  # the process has closed its end of the pipe
        process.wait(timeout=END_S)
