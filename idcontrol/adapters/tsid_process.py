"""TSID's side of `idcontrol.adapters.tsid_controller`: a script for an interpreter with TSID and its Pinocchio.

Input and output are lines of JSON. The first line of input is the problem together with the first state; the answer has
only the ``version`` of TSID. Each later line is a state or a number n. A number repeats the last step n times; the
answer is a list of the n computing times [us].

The problem has ``urdf``, ``gravity`` [m/s²], ``mu``, the ground's ``normal``, ``torque_limit`` [N m],
``force_weight``, ``contact_kp`` and

- ``feet``: for each foot its ``frame``, and its ``corners`` in this frame [m] (null for a point foot);
- ``tasks``: for each task its ``frame`` (null for the centre of mass), ``mask``, ``kp`` and ``kd``;
- ``posture``: ``kp``, ``kd`` and ``weight`` of each joint.

A state has ``q``, ``v`` and

- ``stand``: true for each foot in stance;
- ``weights`` and ``references`` (place, velocity, acceleration) of all tasks;
- ``rest``: positions, velocities and accelerations of the posture's reference;
- ``anew``: true to hold standing feet at their positions in this state.

The answer to a state has ``tau``, the accelerations ``a``, and ``force``: for each foot the forces at its corners in
world axes, null in the air. The answer is null if TSID finds no solution.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import sys
import time
from typing import Any

import numpy as np
import pinocchio as pin

tsid: Any = importlib.import_module("tsid")
MOST_FORCE = 1e4
"""Bound on the normal force of a contact [N]."""
HEAVY = 1e4
"""Factor on the weights of all motion tasks. TSID's solver adds 1e-8 to the diagonal of its Hessian, and the weights
must be much larger."""


def sample(value: Any, velocity: Any, acceleration: Any) -> Any:
    """Return a reference as TSID's sample of a trajectory."""
    out = tsid.TrajectorySample(len(value), len(acceleration))
    out.value(np.array(value))
    out.derivative(np.array(velocity))
    out.second_derivative(np.array(acceleration))
    return out


class Program:
    """TSID's inverse dynamics of one robot."""

    def __init__(self, asked: dict[str, Any]) -> None:
        """Build the program, with all feet in the air; `asked` is the problem with the first state (see module)."""
        self.robot = robot = tsid.RobotWrapper(asked["urdf"], pin.StdVec_StdString(), pin.JointModelFreeFlyer(), False)
        robot.model().rotorInertia = np.zeros(robot.nv)
        robot.setGravity(pin.Motion(np.array(asked["gravity"]), np.zeros(3)))
        self.q, self.v, self.asked = np.array(asked["q"]), np.array(asked["v"]), asked
        self.program = tsid.InverseDynamicsFormulationAccForce("tasks", robot, False)
        self.program.computeProblemData(0.0, self.q, self.v)
        self.solver, self.stands = tsid.SolverHQuadProgFast("solver"), [False] * len(asked["feet"])
        self.contacts = [self._contact(foot) for foot in asked["feet"]]
        self.tasks = [self._task(f"task{i}", wanted) for i, wanted in enumerate(asked["tasks"])]
        self.weights = list(asked["weights"])
        for task, weight, reference in zip(self.tasks, self.weights, asked["references"], strict=True):
            task.setReference(sample(*reference))
            self.program.addMotionTask(task, HEAVY * weight, 1, 0.0)
        self.postures = [self._posture(weight) for weight in sorted(set(asked["posture"]["weight"]))]
        self.bounds, limit = tsid.TaskActuationBounds("torques", robot), np.array(asked["torque_limit"])
        self.bounds.setBounds(-limit, limit)
        self.program.addActuationTask(self.bounds, 1.0, 0, 0.0)

    def _contact(self, foot: dict[str, Any]) -> Any:
        up, arguments = np.array(self.asked["normal"]), (self.asked["mu"], 0.0, MOST_FORCE)
        if foot["corners"] is None:
            contact = tsid.ContactPoint(foot["frame"], self.robot, foot["frame"], up, *arguments)
            contact.useLocalFrame(False)
        else:
            corners = np.array(foot["corners"]).T
            contact = tsid.Contact6d(foot["frame"], self.robot, foot["frame"], corners, up, *arguments)
        rows, kp = 3 if foot["corners"] is None else 6, self.asked["contact_kp"]
        contact.setKp(np.full(rows, kp))
        contact.setKd(np.full(rows, 2.0 * np.sqrt(kp)))
        return contact

    def _task(self, name: str, wanted: dict[str, Any]) -> Any:
        if wanted["frame"] is None:
            task, rows = tsid.TaskComEquality(name, self.robot), 3
        else:
            task, rows = tsid.TaskSE3Equality(name, self.robot, wanted["frame"]), 6
            task.setMask(np.array(wanted["mask"], dtype=float))
            task.useLocalFrame(False)
        task.setKp(np.array(wanted["kp"][:rows]))
        task.setKd(np.array(wanted["kd"][:rows]))
        return task

    def _posture(self, weight: float) -> Any:
        """Add a posture task for the joints that have this weight; a task of TSID has a single weight."""
        wanted = self.asked["posture"]
        task = tsid.TaskJointPosture(f"posture{weight}", self.robot)
        task.setKp(np.array(wanted["kp"]))
        task.setKd(np.array(wanted["kd"]))
        task.setMask((np.array(wanted["weight"]) == weight).astype(float))
        task.setReference(sample(*self.asked["rest"]))
        self.program.addMotionTask(task, HEAVY * weight, 1, 0.0)
        return task

    def _place(self, foot: int) -> Any:
        frame = self.robot.model().getFrameId(self.asked["feet"][foot]["frame"])
        return self.robot.framePosition(self.program.data(), frame)

    def solve(self, state: dict[str, Any]) -> dict[str, Any] | None:
        """Solve the program at a state and return the answer; None if TSID finds no solution."""
        self.q, self.v = np.array(state["q"]), np.array(state["v"])
        if state["anew"] or state["stand"] != self.stands:
            self.program.computeProblemData(0.0, self.q, self.v)
            for i, (contact, stands) in enumerate(zip(self.contacts, state["stand"], strict=True)):
                if self.stands[i] and not stands:
                    self.program.removeRigidContact(self.asked["feet"][i]["frame"], 0.0)
                if stands and (state["anew"] or not self.stands[i]):
                    contact.setReference(self._place(i))
                if stands and not self.stands[i]:
                    self.program.addRigidContact(contact, self.asked["force_weight"])
            self.stands = state["stand"]
            self.solver.resize(self.program.nVar, self.program.nEq, self.program.nIn)
        for i, (task, reference) in enumerate(zip(self.tasks, state["references"], strict=True)):
            task.setReference(sample(*reference))
            if state["weights"][i] != self.weights[i]:
                self.program.updateTaskWeight(f"task{i}", HEAVY * state["weights"][i])
        self.weights = list(state["weights"])
        for posture in self.postures:
            posture.setReference(sample(*state["rest"]))
        solution = self.step()
        if solution.status:
            return None
        return {
            "tau": np.ravel(self.program.getActuatorForces(solution)).tolist(),
            "force": [self._force(i, solution) for i in range(len(self.stands))],
            "a": np.ravel(self.program.getAccelerations(solution)).tolist(),
        }

    def step(self) -> Any:
        """Solve the program at the last state, compute its torques, and return TSID's solution."""
        solution = self.solver.solve(self.program.computeProblemData(0.0, self.q, self.v))
        self.program.getActuatorForces(solution)
        return solution

    def _force(self, foot: int, solution: Any) -> list[list[float]] | None:
        """Return the forces at the corners of a foot, world axes [N]; None for a foot in the air."""
        if not self.stands[foot]:
            return None
        asked = self.asked["feet"][foot]
        force = np.array(self.program.getContactForce(asked["frame"], solution)).reshape(-1, 3)
        turn = np.eye(3) if asked["corners"] is None else self._place(foot).rotation
        return (force @ turn.T).tolist()

    def times(self, count: int) -> list[float]:
        """Solve the last state `count` times; return the duration of each solution [us]."""
        times = []
        for _ in range(count):
            began = time.perf_counter_ns()
            self.step()
            times.append(1e-3 * (time.perf_counter_ns() - began))
        return times


def serve() -> None:
    """Read the lines on standard input and print an answer to each."""
    asked = json.loads(sys.stdin.readline())
    program = Program(asked)
    print(json.dumps({"version": importlib.metadata.version("tsid")}), flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        print(json.dumps(program.times(question) if isinstance(question, int) else program.solve(question)), flush=True)


if __name__ == "__main__":
    serve()
