"""The examples of planners for `idcontrol.mpc.Socket`: a centroidal MPC, and a stream from a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

import idcontrol as idc
from idcontrol import controllers
from idcontrol.experiments.examples.centroidal_mpc import EVERY_S, STAND_S, CentroidalMpc
from idcontrol.experiments.examples.stream import Stream, write
from idcontrol.loop.own import SocketPlanner
from idcontrol.types import Array

H = 1e-3


@pytest.fixture(scope="module")
def robot() -> idc.robots.Robot:
    return idc.robots.load("go1")


def test_a_standing_robot_is_planned_to_stand(robot: idc.robots.Robot) -> None:
    mpc, state = CentroidalMpc(robot, 0.6, 1000.0), robot.standing_state()
    mpc.reset(state)
    for target in mpc(state):
        assert target.contacts.all()
        assert np.abs(target.a).max() < 0.02
        np.testing.assert_allclose(target.q, state.q, atol=1e-4)


def test_velocities_and_accelerations_are_derivatives_of_the_kinematics(robot: idc.robots.Robot) -> None:
    mpc, state = CentroidalMpc(robot, 0.6, 1000.0), robot.standing_state()
    mpc.reset(state)
    t, dt, speed, push = STAND_S + 0.23, 1e-5, np.array([0.2, 0.05, 0.0]), np.array([0.5, -0.5, 0.2])
    path = [(mpc.com + s * speed + 0.5 * s * s * push, speed + s * push, push) for s in (-dt, 0.0, dt)]
    mpc.kinematics(t, *path[1])  # the next calls begin at the solution
    (q0, v0, _), (_, v, a), (q2, v2, _) = (
        mpc.kinematics(t + s, *row) for s, row in zip((-dt, 0.0, dt), path, strict=True)
    )
    np.testing.assert_allclose(pin.difference(mpc.model, q0, q2) / (2.0 * dt), v, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose((v2 - v0) / (2.0 * dt), a, atol=1e-2 * np.abs(a).max())


def base_error(robot: idc.robots.Robot, planner: object, duration_s: float) -> tuple[Array, float]:
    """Walk on the targets of a planner; return the last position and the largest base error [m]."""
    contacts, worst = robot.contacts(0.6), 0.0
    setup = controllers.Setup(system=contacts.system, contacts=contacts, h=H, robot=robot)
    plan = SocketPlanner("example", planner, setup, notes=12)
    controller = idc.controllers.make("id-coulomb-qp", robot, mu=0.6, tasks=plan.tasks)
    plant = idc.plants.make("coulomb-lcp", robot, mu=0.8, rate_hz=1000.0)
    state = plant.reset(robot.standing_state())
    plan.reset(state)
    for k in range(round(duration_s / H)):
        reference = plan(state)
        worst = max(worst, float(np.linalg.norm(state.q[:3] - reference.base_position)))
        after = plant.step(controller(state.sealed(), reference).tau, H)
        state = idc.State(t=(k + 1) * H, q=after.q, v=after.v, forces=after.forces)
    return state.q[:3], worst


@pytest.mark.slow
def test_the_mpc_trots(robot: idc.robots.Robot) -> None:
    place, worst = base_error(robot, CentroidalMpc(robot, 0.6, 1000.0), 2.2)
    assert place[0] > 0.05
    assert worst < 5e-3


@pytest.mark.slow
def test_a_stream_from_a_file_walks_like_its_mpc(
    robot: idc.robots.Robot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAM", str(tmp_path / "targets.npz"))
    write("go1", str(tmp_path / "targets.npz"), duration_s=2.0)
    place, worst = base_error(robot, Stream(), 2.0)
    assert place[0] > 0.1
    assert worst < 5e-3
    assert Stream().targets[0].t == pytest.approx(EVERY_S)
