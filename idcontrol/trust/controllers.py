"""Measure the claims on controllers: weight, acceleration, torque limits."""

from __future__ import annotations

from typing import Final

import numpy as np
import pinocchio as pin
from msgspec import structs

from idcontrol import controllers
from idcontrol.contact.spheres import SphereContacts
from idcontrol.dynamics.system import System
from idcontrol.problems import machines
from idcontrol.trust.claims import claim
from idcontrol.types import Array, Command, State

EXACT: Final = (
    "id-noslip-lcp", "id-coulomb-lcp", "id-coulomb-smooth", "id-coulomb-cone", "id-coulomb-qp", "id-coulomb-qp-raw",
    "id-noslip-qp",
)  # fmt: skip
"""Controllers with rigid contacts."""
PREDICTING: Final = (*EXACT, "id-coulomb-qp-1", "id-sap", "id-constraint")
PLAIN: Final = ("pid", "id-sensed-1")
"""Controllers that predict no forces."""
# np.max of several figures, because Python's `max` may ignore a NaN


# the compliant contacts of id-coulomb-qp-1, id-sap and id-constraint let the machine sink a little
@claim(
    "the forces that controllers predict at rest carry the weight",
    1e-3,
    "tests/controllers/test_inverse.py",
    quick=True,
)
def missed_weight() -> float:
    """Return the largest difference between the predicted forces at rest and the weight, relative to the weight."""
    worst, weight = [], machines.WALKER_MASS * machines.G
    for name in PREDICTING:
        predicted = machines.first_command(name).predicted
        total = np.zeros(3) if predicted is None else predicted.force.sum(axis=0)
        worst.append(np.abs(total - [0.0, 0.0, weight]).max() / weight)
    return float(np.max(worst))


@claim(
    "joints accelerate as demanded in Pinocchio's forward dynamics with the predicted forces",
    1e-6,
    "tests/controllers/test_inverse.py",
    "tests/peers/test_quadruped.py",
    unit="m/s²",
    quick=True,
)
def missed_acceleration() -> float:
    """Return the largest error of joint accelerations [m/s²] in Pinocchio's forward dynamics with the predicted forces.

    At first the trunk moves and the feet are at rest. With no-slip controllers the trunk starts at rest, because these
    ignore the part of the demand that fixed feet cannot follow.
    """
    wanted, speed = np.tile([-0.5, 0.3, -0.8], 4), np.array([0.2, -0.3, 0.1, 0.8, -0.5, 1.0])
    system, contacts = machines.walker()
    at_rest = machines.walker_state(system)
    system.update(at_rest.q, at_rest.v)
    trunk, legs = np.split(contacts.detect(np.inf).jacobian, [6], axis=1)
    moving = np.concatenate((speed, np.linalg.solve(legs, -trunk @ speed)))
    worst = []
    for name in EXACT:
        v = np.zeros(18) if "noslip" in name else moving
        control, _ = machines.controller(name, settings=controllers.InverseSettings(project=False))
        state = structs.replace(at_rest, v=system.to_pinocchio(v))
        reference = structs.replace(machines.standing(wanted), v=v[6:])
        got = _under_predicted_forces(control(state, reference), system, contacts, state)
        worst.append(np.abs(got[6:] - wanted).max())
    return float(np.max(worst))


def _under_predicted_forces(command: Command, system: System, contacts: SphereContacts, state: State) -> Array:
    """Return Pinocchio's acceleration (m,) under a command's torques and forces, in the order of `System.order`."""
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


@claim(
    "torque limits hold whatever is demanded",
    0.0,
    "tests/controllers/test_inverse.py",
    "tests/test_long_runs.py",
    unit="N m",
)
def torque_excess() -> float:
    """Return the largest torque under absurd demands minus its limit [N m]; zero or negative if all limits hold."""
    limit, rng = 12.0, np.random.default_rng(1)
    torques = [
        machines.first_command(name, acceleration=size * rng.normal(size=12), limit=limit).tau
        for name in PREDICTING
        for size in (1e2, 1e4, 1e6)
    ]
    for name in PLAIN:
        control, state = machines.controller(name, limit=limit)
        far = structs.replace(machines.standing(1e4 * rng.normal(size=12)), q=1e4 * rng.normal(size=12))
        torques.append(control(state, far).tau)
    return float(np.max([np.abs(tau).max() - limit for tau in torques]))
