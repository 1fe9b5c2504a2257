"""Multibody terms agree with Pinocchio's own algorithms, in our order of velocities."""

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from idcontrol.dynamics.system import ActuatorLimits, FreeBody, System
from idcontrol.errors import InputError, UnknownName

CHAIN = """<robot name="chain">
  <link name="base"><inertial><mass value="2"/>
  <inertia ixx=".02" iyy=".03" izz=".04" ixy="0" ixz="0" iyz="0"/></inertial></link>
  {links}
</robot>"""
LINK = """<link name="l{i}"><inertial><origin xyz="0.05 0 0"/><mass value="{mass}"/>
  <inertia ixx=".001" iyy=".002" izz=".002" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="j{i}" type="{kind}"><parent link="{parent}"/><child link="l{i}"/><origin xyz="0.1 0 0"/>
  <axis xyz="{axis}"/><limit effort="{i}.5" velocity="3" lower="-1" upper="1"/></joint>"""


def chain(folder: Path, kinds=("revolute", "continuous", "prismatic"), mass=0.5) -> Path:
    axes = ("0 0 1", "0 1 0", "1 0 0")
    links = "".join(
        LINK.format(i=i + 1, kind=kind, axis=axes[i % 3], parent="base" if i == 0 else f"l{i}", mass=mass)
        for i, kind in enumerate(kinds)
    )
    path = folder / "chain.urdf"
    path.write_text(CHAIN.format(links=links))
    return path


def random_state(system: System, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    q = pin.integrate(system.model, pin.neutral(system.model), rng.normal(size=system.model.nv))
    return q, rng.normal(size=system.model.nv)


@pytest.fixture
def machine(tmp_path):
    """A floating chain with a passive joint in its middle, and a free box beside it: the order must be permuted."""
    box = FreeBody(name="box", mass=0.3, inertia=np.diag([1e-3, 2e-3, 2.5e-3]))
    return System.from_urdf(chain(tmp_path), free_flyer=True, actuated=["j3", "j1"], free_bodies=[box])


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"speed": np.full(2, 5.0)}, "must be 3 numbers each"),
        ({"lower": np.full(3, 2.0), "upper": np.full(3, 1.0)}, "must be below the upper one"),
        ({"speed": np.zeros(3)}, "must be positive"),
        ({"torque_rate": np.full(3, np.nan)}, "must be positive"),
        ({"speed": np.full(3, 3.0), "no_load": np.full(3, 3.0)}, "must be above the largest speed"),
    ],
)
def test_limits_that_leave_a_joint_no_room_are_refused(tmp_path, change, line):
    limits = ActuatorLimits.none(3)._replace(**change)
    with pytest.raises(InputError, match=line):
        System.from_urdf(chain(tmp_path), free_flyer=True, limits=limits)


def test_unactuated_velocities_come_first_and_actuated_ones_as_asked(machine):
    assert machine.n_unactuated == 6 + 1 + 6
    assert machine.actuated_names == ("j3", "j1")
    assert list(machine.effort_limit) == [3.5, 1.5]
    assert list(machine.order[-2:]) == [8, 6]


def test_terms_are_pinocchios_in_our_order(machine):
    q, v = random_state(machine, np.random.default_rng(0))
    machine.update(q, v)
    data = machine.model.createData()
    M = pin.crba(machine.model, data, q)
    M = np.triu(M) + np.triu(M, 1).T
    c = pin.nonLinearEffects(machine.model, data, q, v)
    J = pin.computeJointJacobians(machine.model, data, q)
    order = machine.order
    np.testing.assert_array_equal(machine.M, M[np.ix_(order, order)])
    # two free-flyers, whose linear acceleration is classical: a = v̇ + ω × v
    turning = np.zeros_like(v)
    for k in (0, 9):
        turning[k : k + 3] = np.cross(v[k + 3 : k + 6], v[k : k + 3])
    np.testing.assert_allclose(machine.bias, (c - M @ turning)[order], rtol=0, atol=1e-13 * np.abs(c).max())
    np.testing.assert_array_equal(machine.jacobian, J[:, order])
    np.testing.assert_array_equal(machine.to_pinocchio(machine.from_pinocchio(v)), v)


def test_torque_enters_the_equation_of_motion_with_a_plus(machine):
    """M v̇ = Pᵀτ - c agrees with the articulated-body algorithm (math.md 2), whose v̇ is spatial."""
    rng = np.random.default_rng(1)
    q, v = random_state(machine, rng)
    tau = rng.normal(size=2)
    machine.update(q, v)
    force = -machine.bias
    force[machine.n_unactuated :] += tau
    acceleration = np.linalg.solve(machine.M, force)
    full = machine.to_pinocchio(np.concatenate((np.zeros(machine.n_unactuated), tau)))
    expected = pin.aba(machine.model, machine.model.createData(), q, v, full)
    for k in (0, 9):
        expected[k : k + 3] += np.cross(v[k + 3 : k + 6], v[k : k + 3])
    # two different O(n) and O(n³) algorithms; condition number of M is below 1e4
    np.testing.assert_allclose(machine.to_pinocchio(acceleration), expected, rtol=0, atol=1e-10)


def test_frame_views_follow_every_update_without_copies(machine):
    position = machine.frame_position
    for seed in range(3):
        q, v = random_state(machine, np.random.default_rng(seed))
        machine.update(q, v)
        data = machine.model.createData()
        pin.framesForwardKinematics(machine.model, data, q)
        for i in range(machine.model.nframes):
            np.testing.assert_array_equal(position[i], data.oMf[i].translation)
            np.testing.assert_array_equal(machine.frame_rotation[i], data.oMf[i].rotation)


def test_support_marks_the_velocities_that_move_a_joint(machine):
    q, v = random_state(machine, np.random.default_rng(5))
    machine.update(q, v)
    data = machine.model.createData()
    pin.computeJointJacobians(machine.model, data, q)
    for j in range(1, machine.model.njoints):
        J = pin.getJointJacobian(machine.model, data, j, pin.ReferenceFrame.WORLD)[:, machine.order]
        np.testing.assert_array_equal(np.abs(J).max(axis=0) > 0, machine.support[j] & (np.abs(J).max(axis=0) > 0))
        assert not J[:, ~machine.support[j]].any()


def rotation(q: np.ndarray) -> np.ndarray:
    return pin.Quaternion(q[6], *q[3:6]).matrix()


def test_free_flyers_advance_straight_and_keep_their_velocity_in_the_world(machine):
    q, v = random_state(machine, np.random.default_rng(7))
    h = 0.1
    moved, carried = machine.advance(q, machine.from_pinocchio(v), h)
    at = {name: machine.model.joints[machine.model.getJointId(name)] for name in ("root_joint", "box", "j2")}
    for joint in (at["root_joint"], at["box"]):
        k, j = joint.idx_q, joint.idx_v
        before, after = rotation(q[k : k + 7]), rotation(moved[k : k + 7])
        world = before @ v[j : j + 3]
        np.testing.assert_allclose(moved[k : k + 3], q[k : k + 3] + h * world, rtol=0, atol=1e-14)
        # Pinocchio renormalizes quaternions by a series
        np.testing.assert_allclose(after, before @ pin.exp3(h * v[j + 3 : j + 6]), rtol=0, atol=1e-12)
        np.testing.assert_allclose(after @ carried[j : j + 3], world, rtol=0, atol=1e-14)
        np.testing.assert_array_equal(carried[j + 3 : j + 6], v[j + 3 : j + 6])
    joints = slice(at["root_joint"].idx_q + 7, at["box"].idx_q)
    np.testing.assert_array_equal(moved[joints], machine.integrate(q, machine.from_pinocchio(v), h)[joints])
    np.testing.assert_array_equal(carried[6:9], v[6:9])


def test_advancing_under_the_bias_follows_the_equations_of_motion(machine):
    """Half the step, a quarter of the error: the local error is of second order, also for rotations and joints."""
    rng = np.random.default_rng(8)
    q, v = random_state(machine, rng)
    v *= 3.0
    model, data = machine.model, machine.model.createData()

    def flow(h):
        x, w, n = q.copy(), v.copy(), 400
        for _ in range(n):  # the midpoint rule with steps far smaller than the tested ones
            middle = w + 0.5 * h / n * pin.aba(model, data, x, w, np.zeros(model.nv))
            halfway = pin.integrate(model, x, 0.5 * h / n * w)
            w = w + h / n * pin.aba(model, data, halfway, middle, np.zeros(model.nv))
            x = pin.integrate(model, x, h / n * middle)
        return x, w

    errors = []
    for h in (2e-3, 1e-3):
        machine.update(q, v)
        v_plus = machine.from_pinocchio(v) - h * np.linalg.solve(machine.M, machine.bias)
        moved, carried = machine.advance(q, v_plus, h)
        exact_q, exact_v = flow(h)
        errors.append([np.abs(pin.difference(model, exact_q, moved)).max(), np.abs(carried - exact_v).max()])
    assert errors[1] == pytest.approx(0.25 * np.array(errors[0]), rel=0.1)


def test_a_continuous_joint_is_an_angle_outside(tmp_path):
    system = System.from_urdf(chain(tmp_path), free_flyer=False)
    q = system.configuration(np.array([0.3, 2.5, -0.1]))
    assert q.shape == (4,)
    np.testing.assert_allclose(system.joint_positions(q), [0.3, 2.5, -0.1], atol=1e-15)


def test_describe_lists_each_joint_once_in_our_order(machine):
    rows = {row["joint"]: row for row in machine.describe()}
    assert rows["j3"]["role"] == "actuated"
    assert rows["j3"]["velocity"] == 13
    assert rows["j3"]["effort"] == 3.5
    assert rows["j2"]["role"] == "unactuated"
    assert rows["box"]["size"] == 6


@pytest.mark.parametrize(("mass", "moment"), [(np.nan, 1.0), (np.inf, 1.0), (1.0, np.nan)])
def test_masses_that_are_not_finite_are_refused_by_name(tmp_path, mass, moment):
    box = FreeBody(name="box", mass=mass, inertia=moment * np.diag([1e-3, 2e-3, 2.5e-3]))
    with pytest.raises(InputError, match="free body 'box' is not finite"):
        System.from_urdf(chain(tmp_path), free_flyer=True, actuated=["j3", "j1"], free_bodies=[box])
    model = pin.buildModelFromUrdf(str(chain(tmp_path)), pin.JointModelFreeFlyer())
    model.inertias[3].mass = mass * moment
    with pytest.raises(InputError, match=f"{model.names[3]!r} moves is not finite"):
        System(model, actuated=["j3", "j1"])


def test_a_link_without_inertia_is_refused_by_the_name_of_its_joint(tmp_path):
    text = chain(tmp_path).read_text()
    start = text.index('<link name="l3">')
    end = text.index("</link>", start)
    (tmp_path / "bad.urdf").write_text(text[:start] + '<link name="l3">' + text[end:])
    with pytest.raises(InputError, match=r"not positive definite: .*'j3'.*inertial"):
        System.from_urdf(tmp_path / "bad.urdf", free_flyer=True)


def test_joints_that_turn_a_light_link_against_each_other_are_refused_by_name():
    """A wrist whose middle link has almost no inertia: at zero, its first and last axis are parallel."""
    model = pin.Model()
    at = 0
    for name, joint, inertia in (
        ("turn", pin.JointModelRZ, 1e-20),
        ("bend", pin.JointModelRY, 1e-20),
        ("twist", pin.JointModelRZ, 1e-4),
    ):
        at = model.addJoint(at, joint(), pin.SE3.Identity(), name)
        model.appendBodyToJoint(at, pin.Inertia(0.0, np.zeros(3), inertia * np.eye(3)), pin.SE3.Identity())
    with pytest.raises(InputError, match="joints 'turn', 'twist' together move no inertia"):
        System(model)
    model.inertias[2] = pin.Inertia(0.0, np.zeros(3), 1e-6 * np.eye(3))
    System(model)


@pytest.mark.parametrize(("text", "line"), [("<robot", "cannot be read"), ("not xml", "cannot be read")])
def test_a_file_that_is_no_urdf_gets_one_line(tmp_path, text, line):
    path = tmp_path / "bad.urdf"
    path.write_text(text)
    with pytest.raises(InputError, match=line) as caught:
        System.from_urdf(path, free_flyer=True)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_an_unknown_joint_say_so(tmp_path):
    with pytest.raises(InputError, match=r"no URDF at .*nothing\.urdf"):
        System.from_urdf(tmp_path / "nothing.urdf", free_flyer=True)
    with pytest.raises(UnknownName, match="no joint 'jj1'; did you mean 'j1'"):
        System.from_urdf(chain(tmp_path), free_flyer=True, actuated=["jj1"])
    with pytest.raises(InputError, match="'root_joint' must have one velocity"):
        System.from_urdf(chain(tmp_path), free_flyer=True, actuated=["root_joint"])


def test_a_link_is_accessible_although_a_fixed_joint_has_its_name(tmp_path):
    fixed = """<link name="tool"/><joint name="tool" type="fixed"><parent link="l3"/><child link="tool"/>
      <origin xyz="0 0 0.2"/></joint></robot>"""
    path = chain(tmp_path)
    path.write_text(path.read_text().replace("</robot>", fixed))
    system = System.from_urdf(path, free_flyer=True)
    assert system.model.frames[system.frame("tool")].type == pin.FrameType.BODY
    with pytest.raises(UnknownName, match="no frame 'tol'; did you mean 'tool'"):
        system.frame("tol")


def test_a_model_whose_joints_are_not_in_depth_first_order_is_refused():
    """Pinocchio accepts such a model and silently fills a wrong inertia matrix, with negative eigenvalues."""
    model = pin.Model()
    first = model.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), "first")
    model.addJoint(first, pin.JointModelRY(), pin.SE3.Identity(), "left")
    model.addJoint(first, pin.JointModelRZ(), pin.SE3.Identity(), "right")
    model.addJoint(2, pin.JointModelRX(), pin.SE3.Identity(), "left tip")
    for joint in range(1, 5):
        model.appendBodyToJoint(joint, pin.Inertia.Random(), pin.SE3.Identity())
    with pytest.raises(InputError, match="joint 'left': its children do not follow it"):
        System(model)
