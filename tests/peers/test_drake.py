"""The standing and trotting quadruped in Drake's SAP; `tests/bench/test_peers.py` compares single steps."""

import numpy as np
import pinocchio as pin
import pytest

from idcontrol import plants
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.plants.exported import rigid_links
from idcontrol.record.recording import load
from idcontrol.scenes.locomotion import record_walk
from idcontrol.scenes.walk import WalkConfig, WalkScene
from idcontrol.types import ContactForces, State
from tests import scenes
from tests.controllers import walker
from tests.peers.test_bodies import G, H

pytest.importorskip("pydrake")

from pydrake.geometry import Box

from idcontrol.bench import drake


class Quadruped:
    """A machine on level ground, as a plant of the experiments that cannot be pushed."""

    def __init__(self, setup: plants.Setup) -> None:
        self.last = None
        self._system, spheres = setup.system, setup.contacts
        self._world = world = drake._DrakeWorld(setup.dt, np.array([0.0, 0.0, -G]))
        surface = world.surface(float(spheres.mu[0]))
        world.plant.RegisterCollisionGeometry(
            world.plant.world_body(), drake.GROUND_POSE, Box(*drake.GROUND), "ground", surface
        )
        self._links = rigid_links(self._system, spheres)
        self._bodies, self._joints = drake._add(self._links, world)
        self._foot = {
            body.index(): sphere.identity
            for body, link in zip(self._bodies, self._links, strict=True)
            for sphere in link.spheres
        }
        self._driven = [self._joints[name] for name in self._system.actuated_names]
        for joint in self._driven:
            world.plant.AddJointActuator(joint.name(), joint)
        world.finish()
        self._motors = world.plant.get_actuation_input_port().FixValue(world.context, np.zeros(len(self._driven)))
        self._t = 0.0

    def reset(self, state: State) -> State:
        for link, body in zip(self._links, self._bodies, strict=True):
            drake._place(self._world, link, body, self._joints, state)
        return state

    def step(self, tau: np.ndarray, dt: float) -> State:
        self._motors.GetMutableData().set_value(tau)
        self._t += dt
        self._world.step()
        return self._state()

    def _state(self) -> State:
        world, system = self._world, self._system
        pose = world.plant.EvalBodyPoseInWorld(world.context, self._bodies[0])
        moving = world.plant.EvalBodySpatialVelocityInWorld(world.context, self._bodies[0])
        turn = pose.rotation().matrix()
        angles = np.array([joint.get_angle(world.context) for joint in self._driven])
        rates = [joint.get_angular_rate(world.context) for joint in self._driven]
        base = np.concatenate((pose.translation(), pin.Quaternion(turn).coeffs()))
        v = np.concatenate((turn.T @ moving.translational(), turn.T @ moving.rotational(), rates))
        return State(t=self._t, q=system.configuration(angles, base=base), v=system.to_pinocchio(v))

    def contact_forces(self) -> ContactForces:
        touching = self._world.plant.get_contact_results_output_port().Eval(self._world.context)
        force = np.zeros((len(self._foot), 3))
        for i in range(touching.num_point_pair_contacts()):
            touch = touching.point_pair_contact_info(i)
            if touch.bodyB_index() in self._foot:
                force[self._foot[touch.bodyB_index()]] += touch.contact_force()
            else:
                force[self._foot[touch.bodyA_index()]] -= touch.contact_force()
        identity = np.flatnonzero(force.any(axis=1))
        return ContactForces(
            identity=identity, force=force[identity], normal=np.tile([0.0, 0.0, 1.0], (identity.size, 1))
        )


@pytest.mark.parametrize("name", ["id-coulomb-qp", "id-sap"])
def test_a_standing_quadruped_is_carried_by_the_forces_that_were_predicted(name):
    system = scenes.links()
    spheres = SphereContacts(system, scenes.FEET, scenes.RADIUS, plane(), 0.7)
    plant = Quadruped(plants.Setup(system=system, contacts=spheres, dt=H))
    state = plant.reset(walker.at_home(scenes.links()))
    control, carried = walker.controller(name), []
    for _ in range(300):
        command = control(state, walker.stand())
        state = plant.step(command.tau, H)
        carried.append((plant.contact_forces().force[:, 2].sum(), command.predicted.force[:, 2].sum()))
    # SAP's feet creep, and the trunk sways by hundredths of a millimetre: the mean of 200 steps is the weight
    measured, predicted = np.array(carried[100:]).T
    assert measured.mean() == pytest.approx(walker.WEIGHT, rel=2e-3)
    assert predicted.mean() == pytest.approx(walker.WEIGHT, rel=2e-3)
    assert np.abs(measured - predicted).mean() < 5e-3 * walker.WEIGHT
    # the soft first touch lifts the trunk by a quarter of a millimetre, which is 4 mrad at knees of 0.1 m
    assert np.abs(system.joint_positions(state.q) - scenes.HOME).max() < 1e-2


@pytest.mark.slow
def test_a_trotting_quadruped_is_carried_by_its_weight_and_walks_as_far(tmp_path, monkeypatch):
    """The bounds are the same as in `test_quadruped` for the other simulators."""
    monkeypatch.setattr(
        WalkScene,
        "plant",
        lambda scene, h: Quadruped(plants.Setup(system=scene.robot.system(), contacts=scene.observer(), dt=h)),
    )
    record_walk(WalkScene.of(WalkConfig(duration_s=3.0)), tmp_path / "run")
    run = load(tmp_path / "run")
    walking = run.arrays["t"] > 1.0
    # over whole strides the mean force is the weight, except for the incomplete last stride
    assert run.arrays["force"][walking].sum(axis=1)[:, 2].mean() == pytest.approx(walker.WEIGHT, rel=0.01)
    assert np.abs(run.arrays["com"][-1, :2] - run.arrays["base_ref"][-1, :2]).max() < 0.03
    assert run.metrics["completed"]
