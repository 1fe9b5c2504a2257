"""Wrenches of soles and their centres of pressure."""

import pickle

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idcontrol import controllers, plants, robots
from idcontrol.contact.soles import by_foot, centre_of_pressure, yaw_moment
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.errors import InputError, UnknownName
from idcontrol.types import ContactForces

UP = np.array([0.0, 0.0, 1.0])


@pytest.fixture(scope="module")
def standing() -> dict[str, tuple[robots.Robot, SphereContacts]]:
    return {name: (robot, robot.contacts(0.6)) for name in ("talos", "g1", "go1") for robot in [robots.load(name)]}


def forces(identity, force, soles=None):
    return ContactForces(identity=np.array(identity), force=force, normal=np.tile(UP, (len(force), 1)), soles=soles)


@pytest.mark.parametrize("name", ["talos", "g1"])
def test_a_wrench_does_the_work_of_its_corner_forces(standing, name):
    """Virtual work with Pinocchio's Jacobians: the oracle knows neither corners nor arms."""
    robot, contacts = standing[name]
    system, model = contacts.system, contacts.system.model
    rng = np.random.default_rng(0)
    q = pin.integrate(model, robot.standing_state(system).q, 0.1 * rng.standard_normal(model.nv))
    system.update(q, np.zeros(model.nv))
    corners = contacts.detect(np.inf)
    force = rng.standard_normal((8, 3))
    work = corners.jacobian.T @ np.concatenate([np.einsum("ij,ij->i", corners.axes[:, k], force) for k in range(3)])
    data, wanted = model.createData(), np.zeros(model.nv)
    soles = contacts.soles(q)
    for sole, wrench in zip(robot.description.soles, soles.wrenches(forces(range(8), force)), strict=True):
        J = pin.computeFrameJacobian(model, data, q, model.getFrameId(sole.frame), pin.LOCAL_WORLD_ALIGNED)
        wanted += J.T @ wrench
    np.testing.assert_allclose(system.to_pinocchio(work), wanted, atol=1e-12)


def test_a_point_foot_is_a_sole_with_one_corner(standing):
    robot, contacts = standing["go1"]
    q, force = robot.standing_state(contacts.system).q, np.random.default_rng(0).standard_normal((4, 3)) + 5.0 * UP
    soles = contacts.soles(q)
    wrenches = soles.wrenches(forces(range(4), force))
    np.testing.assert_array_equal(wrenches, np.hstack((force, np.zeros((4, 3)))))
    np.testing.assert_allclose(soles.pressure_centres(wrenches), soles.corner, atol=1e-15)


def test_soles_are_where_detection_finds_their_corners(standing):
    robot, contacts = standing["g1"]
    system = contacts.system
    q = pin.integrate(system.model, robot.standing_state(system).q, np.full(system.model.nv, 0.05))
    system.update(q, np.zeros(system.model.nv))
    contacts.detect(np.inf)
    measured, soles = contacts.point.copy(), contacts.soles(q)
    np.testing.assert_allclose(soles.corner, measured, atol=1e-14)
    contacts.soles(robot.standing_state(system).q)
    np.testing.assert_array_equal(contacts.point, measured)  # detected contacts do not change


@given(
    loads=st.lists(st.floats(0.0, 500.0), min_size=4, max_size=4).filter(lambda loads: sum(loads) > 1.0),
    slope=st.floats(-0.4, 0.4),
    height=st.floats(-0.1, 0.1),
)
@settings(deadline=None, max_examples=50)
def test_the_centre_of_pressure_is_the_mean_of_the_corners_by_load(loads, slope, height):
    """On any plane, about any origin, whatever the friction."""
    R = pin.rpy.rpyToMatrix(slope, 0.5 * slope, 0.3)
    corner = np.array([[0.1, 0.06, 0.0], [0.1, -0.06, 0.0], [-0.1, 0.06, 0.0], [-0.1, -0.06, 0.0]]) + height * UP
    along = np.random.default_rng(0).standard_normal((4, 2))
    force = np.column_stack((along, loads))
    wrench = np.r_[force.sum(axis=0), np.cross(corner, force).sum(axis=0)]
    turned, normal = np.r_[R @ wrench[:3], R @ wrench[3:]][None], (R @ UP)[None]
    at = centre_of_pressure(turned, normal, (R @ corner[0])[None])
    middle = np.average(corner, axis=0, weights=loads)
    np.testing.assert_allclose(at[0], R @ middle, atol=1e-12)
    twist = np.cross(corner - middle, force).sum(axis=0)[2]
    np.testing.assert_allclose(yaw_moment(turned, normal, at), twist, atol=1e-10)


def test_a_sole_in_flight_has_no_wrench_and_no_nan(standing):
    robot, contacts = standing["talos"]
    q = robot.standing_state(contacts.system).q.copy()
    q[2] += 0.3
    soles = contacts.soles(q)
    wrenches = soles.wrenches(ContactForces.none())
    np.testing.assert_array_equal(wrenches, 0.0)
    np.testing.assert_allclose(soles.pressure_centres(wrenches)[:, 2], 0.3, atol=1e-3)


def test_contacts_that_belong_to_no_foot_are_ignored(standing):
    robot, contacts = standing["talos"]
    soles = contacts.soles(robot.standing_state(contacts.system).q)
    assert soles.wrenches(forces([8, 0], np.array([9.0 * UP, UP])))[:, 2].tolist() == [1.0, 0.0]


def test_a_command_keeps_the_wrench_of_its_own_state(standing):
    robot, contacts = standing["talos"]
    controller = controllers.make("id-coulomb-qp", robot, mu=0.6)
    plant = plants.make("coulomb-lcp", robot, mu=0.6)
    state, reference = plant.reset(robot.standing_state()), robot.standing_reference()
    for _ in range(3):
        command = controller(state, reference)
        before, state = state, plant.step(command.tau, 1e-3)
    soles, actual = contacts.soles(before.q), plant.contact_forces()
    wanted = soles.wrenches(actual)[1]
    np.testing.assert_allclose(command.predicted.wrench("right_sole_link"), wanted, atol=1e-5 * np.abs(wanted).max())
    kept, written = command.predicted.wrench("right_sole_link"), pickle.loads(pickle.dumps(command.predicted))
    controller(robot.standing_state(), reference)
    np.testing.assert_array_equal(command.predicted.wrench("right_sole_link"), kept)
    np.testing.assert_array_equal(written.wrench("right_sole_link"), kept)


def test_unknown_soles_get_one_line(standing):
    robot, contacts = standing["talos"]
    home = robot.standing_state(contacts.system).q
    with pytest.raises(UnknownName, match="no sole 'left_sole'; did you mean 'left_sole_link'"):
        forces([0], UP[None], lambda: contacts.soles(home)).wrench("left_sole")
    with pytest.raises(InputError, match="have no poses of soles"):
        forces([0], UP[None]).wrench("left_sole_link")
    arm = SphereContacts(robots.load("arm").system(), (), (), plane(), 0.5)
    assert arm.soles(pin.neutral(arm.system.model)).frames == ()


def test_sensors_in_feet_feel_the_sum_over_their_corners():
    patch = np.array([0, 0, 1, 1, 2])
    felt = by_foot(forces([0, 4, 1, 7], np.arange(12.0).reshape(4, 3)), patch)
    assert felt.identity.tolist() == [0, 2]
    np.testing.assert_array_equal(felt.force, [[6.0, 8.0, 10.0], [3.0, 4.0, 5.0]])
    np.testing.assert_array_equal(felt.normal, [UP, UP])
    assert by_foot(ContactForces.none(), patch).identity.size == 0
    assert by_foot(felt, None) is felt
