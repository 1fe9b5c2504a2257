"""Compiled multibody terms equal Pinocchio's to rounding, anywhere in the world."""

import numpy as np
import pinocchio as pin
import pytest

from idcontrol import robots
from idcontrol.dynamics.multibody import CompiledSystem, integrate_kernel, machine
from idcontrol.dynamics.system import FreeBody, System
from idcontrol.errors import InputError
from tests.dynamics.test_system import chain, random_state

ROUNDING = 1e-12
"""Rounding relative to the largest entry: some hundred operations of 1e-16 each."""


def terms(system: System) -> list[np.ndarray]:
    return [*system.terms, *system.motion, system.frame_position, system.frame_rotation]


def require_same(compiled: CompiledSystem, system: System) -> None:
    for ours, theirs in zip(terms(compiled), terms(system), strict=True):
        assert ours == pytest.approx(theirs, rel=0, abs=ROUNDING * np.abs(theirs).max())


def reference(system: System) -> System:
    """The same machine with terms of Pinocchio."""
    return System(system.model, actuated=system.actuated_names, effort_limit=system.effort_limit)


def with_passive_joint_and_box(folder) -> System:
    box = FreeBody(name="box", mass=0.3, inertia=np.diag([1e-3, 2e-3, 2.5e-3]), com=(0.01, 0.02, 0.03))
    return System.from_urdf(chain(folder), free_flyer=True, actuated=["j3", "j1"], free_bodies=[box])


@pytest.mark.parametrize("name", ["links", "go1", "anymal", "panda", "arm", "passive"])
def test_terms_equal_pinocchio(name, tmp_path):
    system = with_passive_joint_and_box(tmp_path) if name == "passive" else reference(robots.load(name).system())
    compiled, rng = CompiledSystem.of(system), np.random.default_rng(7)
    for _ in range(20):
        q, v = random_state(system, rng)
        system.update(q, v)
        compiled.update(q, v)
        require_same(compiled, system)


@pytest.mark.parametrize("h", [1e-9, 1e-3, 0.3])
@pytest.mark.parametrize("name", ["links", "turning", "passive"])
def test_joints_move_as_in_pinocchio(name, h, tmp_path):
    system = with_passive_joint_and_box(tmp_path) if name == "passive" else turning_and_sliding()
    system = robots.load(name).system() if name == "links" else system
    compiled, rng = CompiledSystem.of(system), np.random.default_rng(7)
    q_next = np.zeros(system.model.nq)
    turned = np.ones(system.model.nq, dtype=np.bool_)
    for at in system.flyer_q:
        turned[at : at + 3] = False  # `carry` moves them
    for _ in range(20):
        q, v = random_state(system, rng)
        integrate_kernel(compiled.tree, q, 10.0 * v, h, q_next)
        expected = pin.integrate(system.model, q, 10.0 * h * v)
        assert q_next[turned] == pytest.approx(expected[turned], rel=1e-15, abs=1e-14)


def turning_and_sliding() -> System:
    model = pin.Model()
    arm = model.addJoint(0, pin.JointModelRUBZ(), pin.SE3.Random(), "turns")
    model.appendBodyToJoint(arm, pin.Inertia.Random(), pin.SE3.Identity())
    slide = model.addJoint(arm, pin.JointModelPY(), pin.SE3.Random(), "slides")
    model.appendBodyToJoint(slide, pin.Inertia.Random(), pin.SE3.Identity())
    model.addJointFrame(arm)  # with several frames, terms have the layout of other machines, and no other code
    return System(model)


def test_poses_of_joints_are_written_into_the_data_of_pinocchio():
    system = robots.load("go1").system()
    assert type(system) is CompiledSystem
    q, v = random_state(system, np.random.default_rng(7))
    system.update(q, v)
    data = system.model.createData()
    pin.framesForwardKinematics(system.model, data, q)
    for ours, theirs in ((system.data.oMi, data.oMi), (system.data.oMf, data.oMf)):
        assert all(a.isApprox(b, ROUNDING) for a, b in zip(ours, theirs, strict=True))


def test_inertia_and_bias_are_equal_a_kilometre_from_the_origin():
    compiled, rng = robots.load("go1").system(), np.random.default_rng(7)
    q, v = random_state(compiled, rng)
    compiled.update(q, v)
    M, bias = compiled.M.copy(), compiled.bias.copy()
    q[:2] += 1000.0
    compiled.update(q, v)
    # positions are exact to 1e-13 m at a kilometre, for legs of 0.2 m
    assert pytest.approx(M, rel=0, abs=1e-11 * M.max()) == compiled.M
    assert compiled.bias == pytest.approx(bias, rel=0, abs=1e-11 * np.abs(bias).max())


def test_gravity_may_be_changed():
    compiled = CompiledSystem.of(robots.load("links").system())
    system = reference(compiled)
    compiled.model.gravity.linear = np.array([1.0, 2.0, -3.0])
    q, v = random_state(system, np.random.default_rng(3))
    system.update(q, v)
    compiled.update(q, v)
    require_same(compiled, system)


def test_a_joint_about_three_axes_is_refused_by_name():
    model = pin.Model()
    ball = model.addJoint(0, pin.JointModelSpherical(), pin.SE3.Identity(), "shoulder")
    model.appendBodyToJoint(ball, pin.Inertia.Random(), pin.SE3.Identity())
    with pytest.raises(InputError, match="joint 'shoulder' is a JointModelSpherical"):
        CompiledSystem(model, actuated=[])
    assert type(machine(model, actuated=[])) is System


def test_a_composite_joint_has_terms_of_pinocchio():
    """Placements of the joints within a composite joint are not part of the tree."""
    joint, model = pin.JointModelComposite(1), pin.Model()
    joint.addJoint(pin.JointModelRX(), pin.SE3(np.eye(3), np.array([0.0, 0.3, 0.2])))
    for parent, kind, name in ((0, pin.JointModelRZ(), "shoulder"), (1, joint, "elbow")):
        at = model.addJoint(parent, kind, pin.SE3.Identity(), name)
        model.appendBodyToJoint(at, pin.Inertia.Random(), pin.SE3.Identity())
    assert type(machine(model)) is System


def test_a_machine_with_one_velocity_has_compiled_terms():
    model = pin.Model()
    hinge = model.addJoint(0, pin.JointModelRX(), pin.SE3.Random(), "hinge")
    model.appendBodyToJoint(hinge, pin.Inertia.Random(), pin.SE3.Random())
    model.addJointFrame(hinge)
    compiled, system = machine(model), System(model)
    assert isinstance(compiled, CompiledSystem)
    for one in (compiled, system):
        one.update(np.array([0.3]), np.array([-2.0]))
    require_same(compiled, system)


@pytest.mark.parametrize(("nq", "nv"), [(18, 18), (19, 17), (20, 18), (19, 40)])
def test_vectors_of_another_machine_are_refused(nq, nv):
    compiled = CompiledSystem.of(robots.load("links").system())
    with pytest.raises(InputError, match=rf"\({nq},\) and \({nv},\), not \(19,\) and \(18,\)"):
        compiled.update(np.zeros(nq), np.zeros(nv))
