"""TSID's answers for `idcontrol run standing`: a script for an interpreter that has TSID and its Pinocchio.

A JSON object on stdin: ``urdf``, ``feet`` (frames), ``torque_limit`` [N m], ``repeats``, and ``situations``, each with
``q``, ``a``, ``normal``, ``gravity``, ``mu`` and ``stance``. A JSON object on stdout has the ``version`` of TSID and
``answers``, each with ``tau``, ``forces`` (world axes), ``a`` and ``seconds`` (median of a call); null if TSID finds no
solution.

The tasks are as in TSID's examples: contacts, the trunk's pose and the joints' posture, each with weight 1. Feedback is
off, as the robot has no error. Forces are regularized with weight 1e-5.
"""

from __future__ import annotations

import importlib.metadata
import json
import statistics
import sys
import time
from typing import Any

import numpy as np
import pinocchio as pin

tsid: Any = importlib.import_module("tsid")

FORCE_WEIGHT = 1e-5
MOST_FORCE = 1e3
"""Bound on the normal force of a foot [N]."""


def answer(request: dict[str, Any], situation: dict[str, Any]) -> dict[str, Any] | None:
    """Return TSID's answer to one situation; None if TSID finds no solution."""
    q, a = np.array(situation["q"]), np.array(situation["a"])
    robot = tsid.RobotWrapper(request["urdf"], pin.StdVec_StdString(), pin.JointModelFreeFlyer(), False)
    robot.setGravity(pin.Motion(np.array(situation["gravity"]), np.zeros(3)))
    still = np.zeros(robot.nv)
    program = tsid.InverseDynamicsFormulationAccForce("standing", robot, False)
    program.computeProblemData(0.0, q, still)
    data = program.data()
    contacts = {}
    for foot, stands in zip(request["feet"], situation["stance"], strict=True):
        if not stands:
            continue
        contact = tsid.ContactPoint(foot, robot, foot, np.array(situation["normal"]), situation["mu"], 0.0, MOST_FORCE)
        contact.setKp(np.zeros(3))
        contact.setKd(np.zeros(3))
        contact.setReference(robot.framePosition(data, robot.model().getFrameId(foot)))
        contact.useLocalFrame(False)
        program.addRigidContact(contact, FORCE_WEIGHT, 1.0, 1)
        contacts[foot] = contact
    tasks = _tasks(robot, data, q, a)  # TSID does not keep its tasks alive
    for task in tasks:
        program.addMotionTask(task, 1.0, 1, 0.0)
    bounds = tsid.TaskActuationBounds("torques", robot)
    limit = np.array(request["torque_limit"])
    bounds.setBounds(-limit, limit)
    program.addActuationTask(bounds, 1.0, 0, 0.0)
    return _solved(request, program, contacts, q)


def _tasks(robot: Any, data: Any, q: Any, a: Any) -> tuple[Any, Any]:
    """Return the tasks of posture and trunk, without feedback."""
    posture = tsid.TaskJointPosture("posture", robot)
    posture.setKp(np.zeros(robot.na))
    posture.setKd(np.zeros(robot.na))
    sample = tsid.TrajectorySample(robot.na)
    sample.value(q[7:])
    sample.second_derivative(a[6:])
    posture.setReference(sample)
    trunk = tsid.TaskSE3Equality("trunk", robot, robot.model().frames[2].name)
    trunk.setKp(np.zeros(6))
    trunk.setKd(np.zeros(6))
    goal = tsid.TrajectorySample(12, 6)
    tsid.SE3ToVector(robot.framePosition(data, 2), goal.value())
    trunk.setReference(goal)
    return posture, trunk


def _solved(request: dict[str, Any], program: Any, contacts: dict[str, Any], q: Any) -> dict[str, Any] | None:
    """Solve the program repeatedly, at rest at positions `q`; return the answer, or None if there is no solution."""
    still = np.zeros(len(q) - 1)
    solver = tsid.SolverHQuadProgFast("solver")
    problem = program.computeProblemData(0.0, q, still)
    solver.resize(program.nVar, program.nEq, program.nIn)
    seconds = []
    for _ in range(request["repeats"]):
        began = time.perf_counter()
        problem = program.computeProblemData(0.0, q, still)
        result = solver.solve(problem)
        tau = program.getActuatorForces(result)
        seconds.append(time.perf_counter() - began)
    if result.status != 0:
        return None
    forces = np.zeros((len(request["feet"]), 3))
    for foot, contact in contacts.items():
        forces[request["feet"].index(foot)] = contact.getForceGeneratorMatrix @ program.getContactForce(foot, result)
    return {
        "tau": np.asarray(tau).ravel().tolist(),
        "forces": forces.tolist(),
        "a": np.asarray(program.getAccelerations(result)).ravel().tolist(),
        "seconds": statistics.median(seconds),
    }


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    answers = [answer(asked, situation) for situation in asked["situations"]]
    print(json.dumps({"version": importlib.metadata.version("tsid"), "answers": answers}))
