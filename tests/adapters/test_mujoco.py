"""Controllers on a MuJoCo model from elsewhere."""

import mujoco
import numpy as np
import pytest

from idcontrol import robots
from idcontrol.adapters.mujoco import Bridge
from idcontrol.errors import InputError, UnknownName
from idcontrol.experiments.examples import mujoco_go1
from idcontrol.types import State
from tests.adapters import foreign


@pytest.fixture(scope="module")
def robot():
    return robots.load("go1")


@pytest.fixture
def model():
    return foreign.go1()


def moving(robot) -> State:
    """Return a state in which the base and all joints turn."""
    system, rng = robot.system(), np.random.default_rng(0)
    q = system.integrate(robot.standing_state().q, 0.3 * rng.standard_normal(18), 1.0)
    return State(t=0.0, q=q, v=rng.standard_normal(18))


@pytest.mark.parametrize("name", ["arm", "panda", "links", "solo12", "anymal"])
def test_every_robot_agrees_with_its_own_machine(name):
    robot, model = robots.load(name), foreign.same(robot=name)
    bridge, data, system = Bridge(model, robot), mujoco.MjData(model), robot.system()
    state = robot.standing_state()
    seen = bridge.place(data, State(t=0.0, q=state.q, v=np.linspace(-1.0, 1.0, system.model.nv)))
    np.testing.assert_allclose(seen.q, state.q, atol=1e-12)
    np.testing.assert_allclose(seen.v, np.linspace(-1.0, 1.0, system.model.nv), atol=1e-12)


def test_free_fall_in_mujoco_equals_free_fall_in_pinocchio(model, robot):
    """MuJoCo's accelerations in the air equal Pinocchio's, so conventions, signs and order are right."""
    model.dof_damping[:], model.dof_armature[:], model.dof_frictionloss[:] = 0.0, 0.0, 0.0
    bridge, system, data = Bridge(model, robot), robot.system(), mujoco.MjData(model)
    state = moving(robot)
    state.q[2] += 1.0
    bridge.place(data, state)
    tau = np.linspace(-5.0, 5.0, 12)
    bridge.actuate(data, tau)
    mujoco.mj_forward(model, data)
    system.update(state.q, state.v)
    wrench = np.concatenate([np.zeros(6), tau])
    a = np.linalg.solve(system.M, wrench - system.bias)
    joints = [model.joint(name).dofadr[0] for name in system.actuated_names]
    # MuJoCo's importer balances inertias that no body can have, and welds the tiny links
    np.testing.assert_allclose(data.qacc[joints], a[6:], rtol=2e-2, atol=0.5)


def test_servos_become_motors_and_a_control_is_a_torque(model, robot):
    bridge, data, tau = Bridge(model, robot), mujoco.MjData(model), np.linspace(-9.0, 9.0, 12)
    bridge.place(data, robot.standing_state())
    bridge.actuate(data, tau)
    mujoco.mj_forward(model, data)
    joints = [model.joint(name).dofadr[0] for name in robot.system().actuated_names]
    np.testing.assert_allclose(data.qfrc_actuator[joints], tau)


def test_joints_without_actuator_and_geared_motors_are_driven(model, robot):
    names = robot.system().actuated_names
    model.actuator_trnid[0, 0] = model.joint(names[5]).id  # the first joint has no actuator, and another joint has two
    model.actuator_gear[1, 0] = 9.0
    bridge, data, tau = Bridge(model, robot), mujoco.MjData(model), np.linspace(-9.0, 9.0, 12)
    bridge.place(data, robot.standing_state())
    bridge.actuate(data, tau)
    mujoco.mj_forward(model, data)
    joints = [model.joint(name).dofadr[0] for name in names]
    np.testing.assert_allclose((data.qfrc_actuator + data.qfrc_applied)[joints], tau, atol=1e-12)


def test_standing_feet_carry_the_weight(model, robot):
    bridge, data = Bridge(model, robot, feet={"LF": "FL", "RF": "FR", "LH": "RL", "RH": "RR"}), mujoco.MjData(model)
    state, home = bridge.place(data, robot.standing_state()), robot.standing_reference().q
    for _ in range(500):
        bridge.actuate(data, 200.0 * (home - state.q[7:]) - 5.0 * state.v[6:])
        mujoco.mj_step(model, data)
        state = bridge.observe(data)
    assert state.forces.identity.tolist() == [0, 1, 2, 3]
    assert state.forces.force[:, 2].sum() == pytest.approx(9.81 * model.body_mass.sum(), rel=0.02)
    np.testing.assert_allclose(state.forces.normal, np.tile([0.0, 0.0, 1.0], (4, 1)), atol=1e-9)


@pytest.mark.parametrize(
    ("spoil", "changes", "line"),
    [
        (lambda m: None, {"joints": {"FL_hip_joint": "FL_hop_joint"}}, "did you mean 'FL_hip_joint'"),
        (
            lambda m: m.jnt_axis.__setitem__(2, -m.jnt_axis[2]),
            {},
            "_thigh_joint of the MuJoCo model has a different axis",
        ),
        (
            lambda m: m.qpos0.__setitem__(9, 1.0),
            {},
            "the link that FR_calf_joint .* another zero",
        ),
        (lambda m: None, {"joints": {"FL_hip_joint": "FR_hip_joint"}}, "mm away from FL_hip_joint"),
        (lambda m: None, {"feet": {"LF": "toe"}}, "no site, geom or body 'toe'"),
    ],
)
def test_a_model_with_mismatched_names_is_refused(model, robot, spoil, changes, line):
    spoil(model)
    with pytest.raises((InputError, UnknownName), match=line) as refused:
        Bridge(model, robot, **changes)
    assert "\n" not in str(refused.value)


def merged(model: mujoco.MjModel, robot) -> mujoco.MjModel:
    """The same robot by another maker: calves twice as heavy, joints and actuators in reverse order, gears of 9."""
    for calf in ("FL_calf", "FR_calf", "RL_calf", "RR_calf"):
        model.body(calf).mass *= 2.0
    model.actuator_trnid[:, 0] = model.actuator_trnid[::-1, 0].copy()
    model.actuator_gear[:, 0] = -9.0
    mujoco.mj_setConst(model, mujoco.MjData(model))
    return model


def test_contacts_that_push_before_they_touch_are_refused(model, robot):
    model.geom_margin[:] = 0.006
    Bridge(model, robot)
    foot = int(np.flatnonzero(model.geom_contype)[-1])
    model.geom_margin[foot] = 0.05
    with pytest.raises(InputError, match=rf"margin of 50 mm.*set model.geom_margin\[{foot}\] = 0"):
        Bridge(model, robot)


def test_other_masses_are_named_and_accepted_on_demand(model, robot):
    with pytest.raises(InputError, match=r"FL_calf .* different masses: .* other_masses=True") as refused:
        Bridge(merged(model, robot), robot)
    assert "\n" not in str(refused.value)
    model = merged(foreign.go1(), robot)
    bridge, data, tau = Bridge(model, robot, other_masses=True), mujoco.MjData(model), np.linspace(-9.0, 9.0, 12)
    assert [line.split()[0] for line in bridge.differences] == ["FL_calf", "FR_calf", "RL_calf", "RR_calf"]
    assert all("different masses" in line for line in bridge.differences)
    bridge.place(data, robot.standing_state())
    bridge.actuate(data, tau)
    mujoco.mj_forward(model, data)
    joints = [model.joint(name).dofadr[0] for name in robot.system().actuated_names]
    np.testing.assert_allclose(data.qfrc_actuator[joints], tau)


def test_accepted_masses_do_not_hide_a_different_axis(model, robot):
    model.jnt_axis[2] *= -1.0
    with pytest.raises(InputError, match="a different axis"):
        Bridge(model, robot, other_masses=True)


def test_a_robot_whose_base_floats_needs_a_free_joint(robot):
    spec = mujoco.MjSpec()
    body = spec.worldbody.add_body(name="leg")
    for name in robot.system().actuated_names:
        body = body.add_body(pos=[0.0, 0.0, 0.1], mass=1.0, inertia=[1.0, 1.0, 1.0])
        body.add_joint(name=name, type=mujoco.mjtJoint.mjJNT_HINGE)
    with pytest.raises(InputError, match="leg of the MuJoCo model has no free joint"):
        Bridge(spec.compile(), robot)


def soft(model: mujoco.MjModel, rotors: float) -> mujoco.MjModel:
    """Soft feet of 23 mm as in public models (MuJoCo Menagerie, unitree_go1), joints with rotors, no damping."""
    feet = model.geom_type == int(mujoco.mjtGeom.mjGEOM_SPHERE)
    model.geom_size[feet, 0], model.geom_solimp[feet, :3], model.geom_priority[feet] = 0.023, (0.015, 1.0, 0.022), 1
    model.dof_damping[6:], model.dof_armature[6:], model.dof_frictionloss[6:] = 0.0, rotors, 0.2
    return model


@pytest.mark.slow
def test_a_third_party_go1_trots():
    result = mujoco_go1.trot(foreign.go1(), 2.0)
    assert result["fell_at_s"] is None
    assert result["q_err_rad"] < 0.02  # damping in its joints that the controller does not know
    assert result["distance_m"] > 0.02  # it begins with a turn towards the first waypoint


@pytest.mark.slow
@pytest.mark.parametrize("rotors", [pytest.param(0.01, id="known"), pytest.param(0.02, id="twice the known")])
def test_a_go1_on_soft_feet_with_rotors_stands_to_the_end(rotors):
    result = mujoco_go1.trot(soft(foreign.go1(), rotors), 4.0)
    assert result["fell_at_s"] is None
    assert result["q_err_rad"] < 0.015


@pytest.mark.slow
def test_the_example_says_when_the_robot_fell():
    model = foreign.go1()
    model.geom_friction[:] = 0.0
    result = mujoco_go1.trot(model, 3.0)
    assert 0.1 < result["fell_at_s"] < 3.0
