"""Tune the gains of a sway of talos by their gradient, beside a search without derivatives.

::

    python -m idcontrol.experiments.examples.tuned_sway

The frame is `tuned_gains`: the cost is the logarithm of an error, here of the centre of mass, times the torque rate.
Its variables are the logarithms of stiffness and damping of the tasks on the centre of mass and on the trunk. The
sensed state is noisy, and all links are heavier than the controller assumes; without such errors, the lowest gains
would be the best.
"""

import argparse
from typing import Final

import numpy as np
import pinocchio as pin

from idcontrol import controllers, plants, robots
from idcontrol.controllers.inverse import InverseDynamics
from idcontrol.experiments.examples.tuned_gains import Row, Run, compare, judged, moved
from idcontrol.plants.stepping import Stepping
from idcontrol.scenes.body import BALANCE, Body
from idcontrol.scenes.disturbances import scaled
from idcontrol.sensing import Sensing, sense
from idcontrol.sensing.disturbance import NoiseLevel
from idcontrol.tasks import CoM, Frame
from idcontrol.types import Array, Sensed, State

ROBOT, MU, H, HEAVIER = "talos", 0.6, 1e-3, 0.03
START: Final = np.log((100.0, 20.0, 100.0, 20.0))
"""Logarithms of the gains: stiffness [1/s²] and damping [1/s] of the centre of mass, then of the trunk."""
WIDTH_M, TURNS_RAD_S = 0.02, np.pi
"""Amplitude and angular frequency of the sway."""
NOISE: Final = NoiseLevel(position_m=1e-4, tilt_rad=1e-4, joint_rad=1e-5, velocity_m_s=1e-3, rate_rad_s=1e-3,
    joint_rad_s=1e-3)  # fmt: skip


def swaying(gains: Array) -> tuple[Body, InverseDynamics]:
    """Return talos with tasks of these gains, and its controller."""
    robot, (kp, kd, turn_kp, turn_kd) = robots.load(ROBOT), gains.tolist()
    body = Body(robot, mu=MU, rate_hz=1.0 / H)
    body.com = CoM(kp=kp, kd=kd, weight=BALANCE)
    body.trunk = tuple(Frame(task.frame, "orientation", kp=turn_kp, kd=turn_kd) for task in body.trunk)
    settings = controllers.InverseSettings(learn_load=False)
    controller = controllers.make(
        "id-coulomb-qp", robot, mu=MU, rate_hz=1.0 / H, tasks=body.tasks, settings=settings, contacts=robot.contacts(MU)
    )
    assert isinstance(controller, InverseDynamics)
    return body, controller


def by_gains(body: Body, state: State, dx: Array, gains: Array) -> Array:
    """Return the derivative of the desired accelerations of the tasks by the logarithms of the gains, shape (p, 4).

    `dx` is the desired velocity of the centre of mass, shape (3,).
    """
    model, data = body.system.model, body.system.model.createData()
    rows = np.zeros((1 + len(body.trunk), 3, len(gains)))
    pin.centerOfMass(model, data, state.q, state.v)
    rows[0, :, 0], rows[0, :, 1] = gains[0] * body.com.error, gains[1] * (dx - data.vcom[0])
    for row, task in zip(rows[1:], body.trunk, strict=True):
        frame = body.system.frame(task.frame)
        velocity = pin.getFrameVelocity(model, data, frame, pin.LOCAL_WORLD_ALIGNED)
        row[:, 2], row[:, 3] = gains[2] * task.error, -gains[3] * velocity.angular
    return rows.reshape(-1, len(gains))


def sway(logarithms: Array, *, derive: bool, duration_s: float = 1.0) -> Run:
    """Sway with the gains whose logarithms are given, shape (4,)."""
    gains, robot = np.exp(logarithms), robots.load(ROBOT)
    body, controller = swaying(gains)
    heavy = scaled(robot.system(), 1.0 + HEAVIER)
    plant = plants.build(
        "coulomb-lcp", plants.Setup(system=heavy, contacts=robot.contacts(MU, system=heavy), dt=H, robot=robot)
    )
    assert isinstance(plant, Stepping)
    sensor = sense(Sensing(noise=NOISE), lambda: robot.contacts(MU), body.home)
    assert sensor is not None
    system, state, still = body.system, plant.reset(body.home), np.zeros(3)
    m, a = system.n_velocities, system.n_actuated
    slope, turned, rows, start = np.zeros((2 * m, gains.size)), np.zeros((a, gains.size)), [], system.com(state.q)
    for tick in range(round(duration_s / H)):
        sin, cos, w = np.sin(TURNS_RAD_S * tick * H), np.cos(TURNS_RAD_S * tick * H), TURNS_RAD_S
        along = np.array([0.0, WIDTH_M, 0.0])
        x, dx, ddx = sin**3 * along, 3.0 * w * sin**2 * cos * along, 3.0 * w**2 * sin * (2.0 * cos**2 - sin**2) * along
        body.follow(body.com, start + x, dx, ddx)
        away = system.com(state.q) - start - x
        seen = sensor(Sensed(state=state, tau=np.zeros(a), accelerometer=still))
        if derive:
            command, lin = controller.linearize(seen, body.reference())
            turned = np.hstack([lin.jacobian(of="tau", by=by) for by in ("q", "v")]) @ slope
            turned += lin.jacobian(of="tau", by="task") @ by_gains(body, seen, dx - 0.5 * H * ddx, gains)
            moves = pin.jacobianCenterOfMass(system.model, system.scratch, state.q) @ slope[:m]
        else:
            command, moves = controller(seen, body.reference()), np.zeros((3, gains.size))
        rows.append(Row(away, command.tau.copy(), moves, turned))
        if derive:
            state, slope = moved(plant, command.tau, H, slope, tau=turned)
        else:
            state = plant.step(command.tau, H)
    return judged(rows, H)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    compare(sway, START)
