import numpy as np
import pinocchio as pin
import pytest
from scipy.optimize import least_squares

from idcontrol.dynamics.system import System
from idcontrol.errors import InputError
from idcontrol.planners.legs import Feet, LegPose, Legs, leg_bias, leg_jacobian, place_leg, reach
from tests.planners.walker import machine

# Feet whose sphere is off the frame (anymal), and trees whose order is LF, LH, RF, RH (anymal).
ROBOTS = ("links", "solo12", "anymal")


def leg_at(legs, i, q):
    pose, J = LegPose(np.empty((3, 3)), np.empty((3, 3)), np.empty(3)), np.empty((3, 3))
    place_leg(zero_pose(legs, i), q, pose)
    leg_jacobian(pose, J)
    return pose, J


def zero_pose(legs, i):
    return LegPose(legs.origin[i], legs.axis[i], legs.foot[i])


@pytest.fixture(params=ROBOTS)
def m(request):
    return machine(request.param)


@pytest.fixture
def legs(m):
    return Legs.of(m.system, m.feet)


def with_sphere_frames(m):
    """The robot's model with a frame at the centre of each foot sphere."""
    model = m.system.model.copy()
    frames = []
    for name, frame, offset in zip(m.feet.names, m.feet.frames, m.feet.offsets, strict=True):
        parent = model.frames[frame]
        placement = parent.placement * pin.SE3(np.eye(3), offset)
        frames.append(
            model.addFrame(pin.Frame(f"{name} sphere", parent.parentJoint, frame, placement, pin.FrameType.OP_FRAME))
        )
    return model, frames


def test_position_jacobian_and_bias_of_every_foot_agree_with_pinocchio(m, legs):
    rng = np.random.default_rng(0)
    model, frames = with_sphere_frames(m)
    data = model.createData()
    for _ in range(20):
        q = m.system.configuration(rng.uniform(-2, 2, m.system.n_actuated), np.array([0, 0, 0, 0, 0, 0, 1.0]))
        v = rng.uniform(-5, 5, model.nv)
        v[:6] = 0.0
        pin.forwardKinematics(model, data, q, v, np.zeros(model.nv))
        pin.computeJointJacobians(model, data, q)
        pin.updateFramePlacements(model, data)
        for i, frame in enumerate(frames):
            pose, J = leg_at(legs, i, q[legs.q_index[i]])
            bias = np.empty(3)
            leg_bias(pose, v[legs.v_index[i]], bias)
            reference = pin.LOCAL_WORLD_ALIGNED
            J_pin = pin.getFrameJacobian(model, data, frame, reference)[:3]
            a_pin = pin.getFrameClassicalAcceleration(model, data, frame, reference).linear
            # Lengths below 1 m and rates below 10 rad/s leave rounding of 1e-16 * 1e2.
            assert np.abs(pose.foot - data.oMf[frame].translation).max() < 1e-12
            assert np.abs(J - J_pin[:, legs.v_index[i]]).max() < 1e-12
            assert np.abs(bias - a_pin).max() < 1e-12 * 100


def test_joints_of_a_leg_follow_from_the_tree_not_from_an_order(m):
    names = list(m.system.actuated_names)
    shuffled = System(m.system.model, actuated=names[::-1])
    legs = Legs.of(shuffled, m.feet)
    for i, frame in enumerate(m.feet.frames):
        chain = [shuffled.actuated_names[k] for k in legs.actuated[i]]
        joint = m.system.model.frames[frame].parentJoint
        assert chain == [m.system.model.names[j] for j in m.system.model.supports[joint]][2:]


def test_reach_finds_the_joint_angles_again_from_a_nearby_guess(m, legs):
    rng = np.random.default_rng(1)
    home = m.home[legs.actuated]
    for _ in range(50):
        for i in range(4):
            wanted = home[i] + rng.uniform(-0.25, 0.25, 3)
            pose, J = leg_at(legs, i, wanted)
            target, q = pose.foot.copy(), home[i].copy()
            residual = reach(zero_pose(legs, i), target, 1e-10, q, pose, J)
            assert residual <= 1e-10
            # A foot error of 1e-10 m over levers of centimetres.
            assert np.abs(q - wanted).max() < 1e-7
            assert np.abs(pose.foot - target).max() <= 1e-10


def test_an_unreachable_target_leaves_the_leg_at_the_nearest_pose(m, legs):
    for i in range(4):
        home = m.home[legs.actuated[i]]
        pose, J = leg_at(legs, i, home)
        target = pose.foot + np.array([0.05, 0.0, -2.0])
        q = home.copy()
        for _ in range(50):
            residual = reach(zero_pose(legs, i), target, 1e-10, q, pose, J)
        best = least_squares(lambda x, i=i, target=target: leg_at(legs, i, x)[0].foot - target, home)
        assert residual == pytest.approx(np.linalg.norm(best.fun), abs=1e-4)
        assert residual > 1.0
        assert np.all(np.isfinite(q))


def foot_on(system, frame):
    return Feet(names=("X",), frames=(system.frame(frame),), radii=np.array([0.01]), offsets=np.zeros((1, 3)))


def test_machines_without_three_joint_legs_are_refused_with_the_reason():
    m = machine("links")
    body = m.system.model.frames[2].name
    with pytest.raises(InputError, match="hangs on 0 joints"):
        Legs.of(m.system, foot_on(m.system, body))
    knee = next(f.name for f in m.system.model.frames if f.name.startswith("LF_LEG_2"))
    with pytest.raises(InputError, match="hangs on 2 joints"):
        Legs.of(m.system, foot_on(m.system, knee))
    passive = System(m.system.model, actuated=m.system.actuated_names[1:])
    with pytest.raises(InputError, match="not actuated"):
        Legs.of(passive, m.feet)
    twice = Feet(names=("A", "B"), frames=m.feet.frames[:1] * 2, radii=np.ones(2), offsets=np.zeros((2, 3)))
    with pytest.raises(InputError, match="share a joint"):
        Legs.of(m.system, twice)
    fixed = System(pin.buildSampleModelManipulator())
    with pytest.raises(InputError, match="free-flyer"):
        Legs.of(fixed, m.feet)


def sliding_leg():
    model = pin.Model()
    base = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "base")
    inertia = pin.Inertia.FromSphere(1.0, 0.1)
    model.appendBodyToJoint(base, inertia, pin.SE3.Identity())
    joint = base
    for name, kind in (("hip", pin.JointModelRX()), ("knee", pin.JointModelRY()), ("slide", pin.JointModelPZ())):
        joint = model.addJoint(joint, kind, pin.SE3(np.eye(3), np.array([0.0, 0.0, -0.2])), name)
        model.appendBodyToJoint(joint, inertia, pin.SE3.Identity())
    model.addFrame(pin.Frame("toe", joint, 0, pin.SE3.Identity(), pin.FrameType.OP_FRAME))
    return System(model)


def test_a_leg_with_a_sliding_joint_is_refused_by_name():
    system = sliding_leg()
    with pytest.raises(InputError, match=r"'slide'.*not revolute"):
        Legs.of(system, foot_on(system, "toe"))
