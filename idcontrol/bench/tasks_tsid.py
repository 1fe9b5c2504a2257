"""TSID's side of ``idcontrol bench tasks``: a script for an interpreter that has TSID and its Pinocchio.

The protocol is lines of JSON. The first line on stdin is the problem: ``urdf``, ``q`` (at rest), ``mu``,
``torque_limit`` [N m], ``corners`` [m] (null for point feet), ``feet`` (frames in stance), ``force_weight`` and
``tasks``, each with ``frame`` (null is the centre of mass), ``mask``, ``place`` ([[position], [rotation]]),
``acceleration``, ``kp`` and ``weight``; and ``posture`` with ``kp`` and ``weight``. The answer has the ``version`` and
the accelerations ``a``. Each further line is a number of steps; the answer is their times [us].
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
"""Factor on the weights of all motion tasks: TSID's solver adds 1e-8 to its Hessian's diagonal, also for forces."""


def sample(value: Any, acceleration: Any) -> Any:
    """Return a reference at rest with an acceleration."""
    out = tsid.TrajectorySample(len(value), len(acceleration))
    out.value(np.array(value))
    out.derivative(np.zeros(len(acceleration)))
    out.second_derivative(np.array(acceleration))
    return out


def add_contacts(program: Any, robot: Any, asked: dict[str, Any], kept: list[Any]) -> None:
    """Add feet in stance as fixed contacts."""
    data, up = program.data(), np.array([0.0, 0.0, 1.0])
    for foot in asked["feet"]:
        if asked["corners"] is None:
            contact = tsid.ContactPoint(foot, robot, foot, up, asked["mu"], 0.0, MOST_FORCE)
            contact.useLocalFrame(False)
        else:
            corners = np.array(asked["corners"]).T
            contact = tsid.Contact6d(foot, robot, foot, corners, up, asked["mu"], 0.0, MOST_FORCE)
        rows = 3 if asked["corners"] is None else 6
        contact.setKp(np.zeros(rows))
        contact.setKd(np.zeros(rows))
        contact.setReference(robot.framePosition(data, robot.model().getFrameId(foot)))
        program.addRigidContact(contact, asked["force_weight"])
        kept.append(contact)


def add_tasks(program: Any, robot: Any, asked: dict[str, Any], kept: list[Any]) -> None:
    """Add tasks on motion and posture, and torque limits."""
    q = np.array(asked["q"])
    for i, wanted in enumerate(asked["tasks"]):
        (position, rotation), kp = wanted["place"], wanted["kp"]
        if wanted["frame"] is None:
            task, rows = tsid.TaskComEquality(f"task{i}", robot), 3
            task.setReference(sample(position, wanted["acceleration"][:3]))
        else:
            task, rows = tsid.TaskSE3Equality(f"task{i}", robot, wanted["frame"]), 6
            task.setMask(np.array(wanted["mask"], dtype=float))
            task.useLocalFrame(False)
            place = np.concatenate((position, np.array(rotation).T.ravel()))
            task.setReference(sample(place, wanted["acceleration"]))
        task.setKp(np.full(rows, kp))
        task.setKd(np.full(rows, 2.0 * np.sqrt(kp)))
        program.addMotionTask(task, HEAVY * wanted["weight"], 1, 0.0)
        kept.append(task)
    posture, kp = tsid.TaskJointPosture("posture", robot), asked["posture"]["kp"]
    posture.setKp(np.full(robot.na, kp))
    posture.setKd(np.full(robot.na, 2.0 * np.sqrt(kp)))
    posture.setReference(sample(q[7:], np.zeros(robot.na)))
    program.addMotionTask(posture, HEAVY * asked["posture"]["weight"], 1, 0.0)
    bounds, limit = tsid.TaskActuationBounds("torques", robot), np.array(asked["torque_limit"])
    bounds.setBounds(-limit, limit)
    program.addActuationTask(bounds, 1.0, 0, 0.0)
    kept += [posture, bounds]


def serve() -> None:
    """Answer the lines on stdin."""
    asked = json.loads(sys.stdin.readline())
    robot = tsid.RobotWrapper(asked["urdf"], pin.StdVec_StdString(), pin.JointModelFreeFlyer(), False)
    robot.model().rotorInertia = np.zeros(robot.nv)
    q, v = np.array(asked["q"]), np.zeros(robot.nv)
    kept: list[Any] = []
    program = tsid.InverseDynamicsFormulationAccForce("tasks", robot, False)
    program.computeProblemData(0.0, q, v)
    add_contacts(program, robot, asked, kept)
    add_tasks(program, robot, asked, kept)
    solver = tsid.SolverHQuadProgFast("solver")
    solver.resize(program.nVar, program.nEq, program.nIn)

    def step() -> Any:
        solution = solver.solve(program.computeProblemData(0.0, q, v))
        program.getActuatorForces(solution)
        return solution

    solution = step()
    a = None if solution.status else np.ravel(program.getAccelerations(solution)).tolist()
    print(json.dumps({"version": importlib.metadata.version("tsid"), "a": a}), flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            began = time.perf_counter_ns()
            step()
            times.append(1e-3 * (time.perf_counter_ns() - began))
        print(json.dumps(times), flush=True)


if __name__ == "__main__":
    serve()
