"""The examples of planners for `idcontrol.mpc.Socket`: a centroidal MPC, and a stream from a file."""

from pathlib import Path
from typing import NamedTuple

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


@pytest.mark.parametrize("name", ["go1", "g1"])
def test_velocities_and_accelerations_are_derivatives_of_the_kinematics(name: str) -> None:
    robot = idc.robots.load(name)
    mpc, state = CentroidalMpc(robot, 0.6, 1000.0), robot.standing_state()
    mpc.reset(state)
    t, dt, speed, push = STAND_S + 0.23, 1e-5, np.array([0.2, 0.05, 0.0]), np.array([0.5, -0.5, 0.2])
    path = [(mpc.com + s * speed + 0.5 * s * s * push, speed + s * push, push) for s in (-dt, 0.0, dt)]
    for _ in range(2):
        mpc.kinematics(t, *path[1])  # the next calls begin at the solution
    (q0, v0, _), (_, v, a), (q2, v2, _) = (
        mpc.kinematics(t + s, *row) for s, row in zip((-dt, 0.0, dt), path, strict=True)
    )
    np.testing.assert_allclose(pin.difference(mpc.model, q0, q2) / (2.0 * dt), v, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose((v2 - v0) / (2.0 * dt), a, atol=1e-5 * np.abs(a).max())


class Walk(NamedTuple):
    """Last position of the base [m], its largest error [m], and the mean slip of standing feet [m/s]."""

    place: Array
    worst: float
    slip: float


def walk(robot: idc.robots.Robot, planner: object, duration_s: float, plant_name: str = "coulomb-lcp") -> Walk:
    """Walk on the targets of a planner."""
    contacts, worst, slips = robot.contacts(0.6), 0.0, list[float]()
    setup = controllers.Setup(system=contacts.system, contacts=contacts, h=H, robot=robot)
    plan, observer = SocketPlanner("example", planner, setup, notes=12), robot.contacts(0.6)
    controller = idc.controllers.make("id-coulomb-qp", robot, mu=0.6, tasks=plan.tasks)
    plant = idc.plants.make(plant_name, robot, mu=0.8, rate_hz=1000.0)
    state = plant.reset(robot.standing_state())
    plan.reset(state)
    for k in range(round(duration_s / H)):
        reference = plan(state)
        worst = max(worst, float(np.linalg.norm(state.q[:3] - reference.base_position)))
        observer.system.update(state.q, state.v)
        observer.detect(np.inf)
        slips += observer.slip(state.v)[reference.stance[observer.patch]].tolist()
        after = plant.step(controller(state.sealed(), reference).tau, H)
        state = idc.State(t=(k + 1) * H, q=after.q, v=after.v, forces=after.forces)
    return Walk(state.q[:3], worst, float(np.mean(slips)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "plant", "duration_s"), [("go1", "coulomb-lcp", 2.2), ("g1", "coulomb-lcp", 2.6), ("g1", "mujoco", 4.2)]
)
def test_the_mpc_walks_without_slip(name: str, plant: str, duration_s: float) -> None:
    robot = idc.robots.load(name)
    walked = walk(robot, CentroidalMpc(robot, 0.6, 1000.0), duration_s, plant)
    assert walked.place[0] > 0.05
    assert walked.worst < 2e-3
    assert walked.slip < (1e-3 if plant == "mujoco" else 1e-4)  # the ground of MuJoCo yields


@pytest.mark.slow
def test_a_stream_from_a_file_walks_like_its_mpc(
    robot: idc.robots.Robot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAM", str(tmp_path / "targets.npz"))
    write("go1", str(tmp_path / "targets.npz"), duration_s=2.0)
    walked = walk(robot, Stream(), 2.0)
    assert walked.place[0] > 0.1
    assert walked.worst < 5e-3
    assert Stream().targets[0].t == pytest.approx(EVERY_S)
