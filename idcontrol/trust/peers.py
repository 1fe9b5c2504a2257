"""Measures claims against other software: Pinocchio's forward dynamics and SciPy's integrators."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
from msgspec import structs
from scipy.integrate import solve_ivp

from idcontrol import plants
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.controllers import InverseSettings
from idcontrol.dynamics.system import System
from idcontrol.trust import machines
from idcontrol.types import Array, Command, State


def _under_predicted_forces(command: Command, system: System, contacts: SphereContacts, state: State) -> Array:
    """Acceleration (m,), our order, by Pinocchio's articulated-body algorithm under a command's torques and forces."""
    model, data = system.model, system.model.createData()
    system.update(state.q, state.v)
    contacts.detect(np.inf)
    pin.forwardKinematics(model, data, state.q)
    outside = pin.StdVec_Force()
    for _ in range(model.njoints):
        outside.append(pin.Force.Zero())
    if command.predicted is not None:
        for foot, force in zip(command.predicted.identity, command.predicted.force, strict=True):
            joint = model.getJointId(f"leg{foot}_z")
            at_world = pin.Force(force, np.cross(contacts.point[foot], force))
            outside[joint] += data.oMi[joint].actInv(at_world)
    torque = np.zeros(18)
    torque[system.order[6:]] = command.tau
    acceleration: Array = pin.aba(model, data, state.q, state.v, torque, outside)[system.order]
    return acceleration


def off_articulated_bodies() -> float:
    """Largest error of joint accelerations [m/s²] in Pinocchio's forward dynamics with the predicted forces.

    The walker's trunk moves above its feet; of a scheme without slip, which takes from the demand what they cannot
    follow, it is at rest.
    """
    wanted, speed = np.tile([-0.5, 0.3, -0.8], 4), np.array([0.2, -0.3, 0.1, 0.8, -0.5, 1.0])
    system, contacts = machines.walker()
    at_rest = machines.walker_state(system)
    system.update(at_rest.q, at_rest.v)
    trunk, legs = np.split(contacts.detect(np.inf).jacobian, [6], axis=1)
    moving = np.concatenate((speed, np.linalg.solve(legs, -trunk @ speed)))
    worst = []
    for name, v in (("id-coulomb-qp", moving), ("id-coulomb-smooth", moving), ("id-noslip-qp", at_rest.v)):
        control, _ = machines.controller(name, settings=InverseSettings(project=False))
        state = structs.replace(at_rest, v=system.to_pinocchio(v))
        reference = structs.replace(machines.standing(wanted), v=v[6:])
        got = _under_predicted_forces(control(state, reference), system, contacts, state)
        worst.append(np.abs(got[6:] - wanted).max())
    return float(np.max(worst))


def chain(links: int) -> System:
    """A chain of links of 0.2 m and 0.3 kg, hung from the world on passive hinges about y and x in turn."""
    model = pin.Model()
    parent, place = 0, pin.SE3(np.eye(3), np.array([0.0, 0.0, 1.0]))
    for i in range(links):
        hinge = pin.JointModelRY() if i % 2 == 0 else pin.JointModelRX()
        parent = model.addJoint(parent, hinge, place, f"hinge{i}")
        rod = pin.Inertia(0.3, np.array([0.1, 0.0, 0.0]), np.diag([1e-4, 1e-3, 1e-3]))
        model.appendBodyToJoint(parent, rod, pin.SE3.Identity())
        model.addJointFrame(parent)
        place = pin.SE3(np.eye(3), np.array([0.2, 0.0, 0.0]))
    return System(model)


_CHAIN_START = np.array([0.0, 0.3, 0.1, -0.4])
_CHAIN_TIME = 0.2


def _fallen(h: float) -> Array:
    system = chain(4)
    contacts = SphereContacts(system, ("hinge3",), 0.01, plane(), 0.5)
    plant = plants.build("coulomb-lcp", plants.Setup(system=system, contacts=contacts, dt=h))
    state = plant.reset(State(t=0.0, q=_CHAIN_START, v=np.zeros(4)))
    for _ in range(round(_CHAIN_TIME / h)):
        state = plant.step(np.zeros(4), h)
    return state.q


def off_the_flow() -> float:
    """Largest error of a falling chain's joint angles [rad] against Pinocchio's dynamics in SciPy's DOP853.

    Our first-order error is removed by extrapolation from two step lengths.
    """
    model = chain(4).model
    data = model.createData()

    def flow(_: float, y: Array) -> Array:
        return np.concatenate((y[4:], pin.aba(model, data, y[:4], y[4:], np.zeros(4))))

    start = np.concatenate((_CHAIN_START, np.zeros(4)))
    exact = solve_ivp(flow, (0.0, _CHAIN_TIME), start, method="DOP853", rtol=1e-10, atol=1e-12).y[:4, -1]
    return float(np.abs(2.0 * _fallen(2.5e-4) - _fallen(5e-4) - exact).max())
