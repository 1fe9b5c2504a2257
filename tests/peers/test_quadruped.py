"""The quadruped under its controller in other simulators, and Pinocchio's own dynamics as a second opinion."""

import numpy as np
import pinocchio as pin
import pytest

from idcontrol import plants
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.record.recording import load
from idcontrol.scenes.locomotion import record_walk
from idcontrol.scenes.walk import WalkConfig, WalkScene
from idcontrol.types import Status
from tests import scenes
from tests.controllers import walker

PEERS = ("coulomb-lcp", "mujoco", "pybullet")
CONTROLLERS = ("id-coulomb-qp", "id-coulomb-smooth", "id-noslip-qp", "id-sap", "id-constraint")


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("controller", ["id-coulomb-qp", "id-sap"])
def test_a_standing_quadruped_is_carried_by_the_forces_that_were_predicted(name, controller):
    if name != "coulomb-lcp":
        pytest.importorskip(name)
    system = scenes.links()
    contacts = SphereContacts(system, scenes.FEET, scenes.RADIUS, plane(), 0.7)
    plant = plants.build(name, plants.Setup(system=system, contacts=contacts, dt=scenes.H))
    state = plant.reset(walker.at_home(scenes.links()))
    control = walker.controller(controller)
    for _ in range(300):
        command = control(state, walker.stand())
        state = plant.step(command.tau, scenes.H)
    forces, predicted = plant.contact_forces().force, command.predicted.force
    up = np.array([0.0, 0.0, walker.WEIGHT])
    np.testing.assert_allclose(forces.sum(axis=0), up, rtol=0, atol=2e-3 * walker.WEIGHT)
    np.testing.assert_allclose(predicted.sum(axis=0), up, rtol=0, atol=2e-3 * walker.WEIGHT)
    # forces of single feet are unique: the weight does not determine them, but the joint torques do
    np.testing.assert_allclose(forces[:, 2], predicted[:, 2], rtol=0, atol=2e-2 * walker.WEIGHT)
    assert np.abs(system.joint_positions(state.q) - scenes.HOME).max() < 2e-3


@pytest.mark.parametrize("name", CONTROLLERS)
def test_pinocchio_forward_dynamics_with_predicted_forces_gives_the_demanded_acceleration(name):
    """Pinocchio's articulated-body algorithm gets nothing but the torques and predicted forces of one command."""
    rng = np.random.default_rng(2)
    system = scenes.links()
    model, state = system.model, walker.at_home(system)
    # a demand that all feet allow: the base accelerates, and the joints keep the feet in place
    system.update(state.q, state.v)
    J = scenes.foot_contacts(system, 0.7).jacobian
    base = rng.normal(size=6) * [0.5, 0.5, 0.5, 2.0, 2.0, 2.0]
    wanted = np.linalg.solve(J[:, 6:], -J[:, :6] @ base)
    control = walker.controller(name)
    command = control(state, walker.stand(a=wanted))
    assert command.status is Status.SOLVED
    outside = pin.StdVec_Force()
    for _ in range(model.njoints):
        outside.append(pin.Force.Zero())
    data = model.createData()
    pin.framesForwardKinematics(model, data, state.q)
    for foot, force in zip(command.predicted.identity, command.predicted.force, strict=True):
        frame = model.frames[system.frame(scenes.FEET[foot])]
        point = data.oMf[system.frame(scenes.FEET[foot])].translation - [0.0, 0.0, scenes.RADIUS]
        at_world = pin.Force(force, np.cross(point, force))
        outside[frame.parentJoint] += data.oMi[frame.parentJoint].actInv(at_world)
    torque = np.zeros(18)
    torque[system.order[6:]] = command.tau
    got = pin.aba(model, model.createData(), state.q, state.v, torque, outside)[system.order]
    # the compliant contacts of id-sap and id-constraint take a part of the acceleration
    atol = {"id-sap": 0.05, "id-constraint": 0.05}.get(name, 1e-6) * np.abs(wanted).max()
    np.testing.assert_allclose(got[6:], wanted, rtol=0, atol=atol)
    np.testing.assert_allclose(got[:6], base, rtol=0, atol=atol)


@pytest.mark.slow
@pytest.mark.parametrize("name", PEERS)
def test_a_trotting_quadruped_is_supported_and_walks_as_far_in_every_engine(name, tmp_path):
    if name != "coulomb-lcp":
        pytest.importorskip(name)
    record_walk(WalkScene.of(WalkConfig(plant=name, duration_s=3.0)), tmp_path / "run")
    run = load(tmp_path / "run")
    walking = run.arrays["t"] > 1.0
    up = run.arrays["force"][walking].sum(axis=1)[:, 2].mean()
    # over whole strides the mean force is the weight, except for the incomplete last stride
    assert up == pytest.approx(walker.WEIGHT, rel=0.01)
    miss = np.abs(run.arrays["com"][-1, :2] - run.arrays["base_ref"][-1, :2]).max()
    assert miss < 0.03
