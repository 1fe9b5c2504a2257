"""Positions, angular velocities and forces of feet, from joints and IMU."""

import numpy as np
import pinocchio as pin
import pytest
from msgspec import structs

from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.sensing import Sensing, sense
from idcontrol.sensing.legs import GRAVITY, SMOOTHING_S, STRETCHED_M2, Legs, orientation
from idcontrol.types import ContactForces, Sensed, State
from tests import scenes


def feet():
    return SphereContacts(scenes.links(), scenes.FEET, scenes.RADIUS, plane(), 0.8)


def drawn(system, seed):
    """Return configuration, velocity, acceleration and orientation of a tumbling robot."""
    rng = np.random.default_rng(seed)
    q = pin.integrate(system.model, scenes.home(system), 0.3 * rng.normal(size=18))
    return q, rng.normal(size=18), 5.0 * rng.normal(size=18), orientation(q)


@pytest.mark.parametrize("seed", range(3))
def test_positions_and_turning_of_feet_match_forward_kinematics(quadruped, seed):
    q, v, _, R = drawn(quadruped, seed)
    legs, spheres = Legs(feet()), feet()
    legs.update(Sensed(State(t=0.0, q=q, v=v), np.zeros(12), np.zeros(3)), R)
    data = quadruped.model.createData()
    pin.forwardKinematics(quadruped.model, data, q, v)
    for i, (joint, centre) in enumerate(zip(*spheres.mounting(), strict=True)):
        placed = data.oMi[int(joint)]
        np.testing.assert_allclose(legs.feet.place[i], R.T @ (placed.act(centre) - q[:3]), atol=1e-12)
        np.testing.assert_allclose(legs.feet.turning[i], R.T @ placed.rotation @ data.v[int(joint)].angular, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_forces_follow_from_torques_and_imu_for_any_base_motion(quadruped, seed):
    """The oracle is inverse dynamics of a tumbling robot with known forces on its feet."""
    h, a = 1e-3, quadruped.n_actuated
    q, v, acceleration, R = drawn(quadruped, seed)
    force = 20.0 * np.random.default_rng(seed).normal(size=(4, 3))
    spheres = feet()
    system = spheres.system
    system.update(q, v)
    contacts = spheres.detect(np.inf)
    points = spheres.centre - scenes.RADIUS * np.array([0.0, 0.0, 1.0])
    np.testing.assert_allclose(contacts.point, points, atol=1e-12)
    J = np.zeros((12, 18))
    for i, joint in enumerate(spheres.mounting()[0]):
        lever = pin.SE3(np.eye(3), points[i]).toActionMatrixInverse()[:3]
        J[3 * i : 3 * i + 3] = lever @ np.where(system.support[joint], system.jacobian, 0.0)
    tau = (system.M @ acceleration + system.bias - J.T @ force.ravel())[6:]
    # v̇ of the base is classical: the derivative of its velocity in the world, expressed in the base's axes
    felt = acceleration[:3] - R.T @ GRAVITY
    legs = Legs(feet())
    before = v - h * system.to_pinocchio(acceleration)
    legs.update(Sensed(State(t=0.0, q=q, v=before), np.zeros(a), felt), R)
    legs.update(Sensed(State(t=h, q=q, v=v), tau, felt), R)
    share = h / (h + SMOOTHING_S)
    np.testing.assert_allclose(legs.feet.residual[6:], share * (J.T @ force.ravel())[6:], atol=1e-9)
    for i in range(4):
        # regularization reduces the forces of legs with short levers
        bent = J[3 * i : 3 * i + 3, 6:]
        expected = np.linalg.solve(bent @ bent.T + STRETCHED_M2 * np.eye(3), bent @ bent.T @ force[i])
        np.testing.assert_allclose(R @ legs.feet.force[i], share * expected, atol=1e-8)


def test_small_forces_on_feet_count_as_zero(quadruped):
    q = scenes.home(quadruped)
    lie = ContactForces(identity=np.arange(4), force=np.full((4, 3), 50.0), normal=np.tile([0.0, 0.0, 1.0], (4, 1)))
    through = sense(Sensing(forces="estimated"), feet, State(t=0.0, q=q, v=np.zeros(18)))
    quadruped.update(q, np.zeros(18))
    hanging = Sensed(State(t=0.0, q=q, v=np.zeros(18), forces=lie), quadruped.bias[6:].copy(), -GRAVITY)
    for k in range(100):
        result = through(structs.replace(hanging, state=structs.replace(hanging.state, t=1e-3 * k)))
    assert result.forces.identity.size == 0
    assert result.forces.force.shape == (0, 3)
