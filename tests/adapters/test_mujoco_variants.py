"""On models with other actuators or bodies the bridge applies the right joint torques or refuses the model."""

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idcontrol import robots
from idcontrol.adapters.mujoco import Bridge
from idcontrol.errors import InputError
from idcontrol.types import State
from tests.adapters import foreign
from tests.parameters import one_fast

JOINTS = tuple(f"{leg}_{part}_joint" for leg in ("FL", "FR", "RL", "RR") for part in ("hip", "thigh", "calf"))
CALF, THIGH = "FL_calf_joint", "FL_thigh_joint"
JOINT, INPARENT = mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtTrn.mjTRN_JOINTINPARENT


@pytest.fixture(scope="module")
def robot():
    return robots.load("go1")


def add(spec, target, trntype=JOINT, *, make=None, **fields):
    """Add an actuator; `make` is a shortcut of MjSpec and its arguments."""
    actuator = spec.add_actuator(name=f"drive {len(spec.actuators)}", target=target, trntype=trntype)
    if make:
        getattr(actuator, f"set_to_{make[0]}")(**make[1])
    for name, value in fields.items():
        setattr(actuator, name, value)
    return actuator


def each(trntype=JOINT, *, names=JOINTS, make=("motor", {}), **fields):
    """Add an actuator of this kind to each joint."""

    def change(spec):
        for name in names:
            add(spec, name, trntype, make=make, **fields)

    return change


def gears(*values):
    def change(spec):
        for i, name in enumerate(JOINTS):
            add(spec, name, make=("motor", {}), gear=[values[i % len(values)], 0, 0, 0, 0, 0])

    return change


def tendon(*names, **fields):
    """Add a fixed tendon over some joints."""

    def change(spec):
        rope = spec.add_tendon(name="rope", **fields)
        for i, name in enumerate(names):
            rope.wrap_joint(name, 1.0 + i)

    return change


def string(spec):
    """Add a spatial tendon from the trunk to a calf."""
    spec.body("root_joint").add_site(name="high", pos=[0.2, 0.1, 0.1])
    spec.body(CALF).add_site(name="low", pos=[0.0, 0.0, -0.1])
    rope = spec.add_tendon(name="rope")
    rope.wrap_site("high")
    rope.wrap_site("low")


def bungee(spec):
    """Add a spring from the world to the trunk."""
    spec.worldbody.add_site(name="ceiling", pos=[0.0, 0.0, 2.0])
    spec.body("root_joint").add_site(name="hook")
    rope = spec.add_tendon(name="rope", stiffness=[50.0, 0.0, 0.0], springlength=[1.0, 1.0])
    rope.wrap_site("ceiling")
    rope.wrap_site("hook")


def crank(spec):
    """Add a slider on the thigh that pushes the calf."""
    spec.body(CALF).add_site(name="pin", pos=[0.02, 0.0, -0.02])
    spec.body(THIGH).add_site(name="slider", pos=[0.03, 0.0, -0.1], quat=[1.0, 0.0, 0.0, 0.0])
    drive = add(spec, "pin", mujoco.mjtTrn.mjTRN_SLIDERCRANK, make=("position", {"kp": 50.0}))
    drive.slidersite, drive.cranklength = "slider", 0.2


def tree(spec):
    """Add a machine with a servo before the robot, and a machine after it."""
    for side, name in ((-1.0, "door"), (1.0, "gate")):
        body = spec.worldbody.add_body(name=name, pos=[3.0 * side, 0.0, 0.0], mass=1.0, inertia=[0.1, 0.1, 0.1])
        body.add_joint(name=name, type=mujoco.mjtJoint.mjJNT_HINGE)
    add(spec, "door", make=("position", {"kp": 7.0}))


def dynamics(kind, **fields):
    kinds = {"dyntype": getattr(mujoco.mjtDyn, f"mjDYN_{kind}"), "dynprm": [0.05] + [0.0] * 9, **fields}
    return each(make=None, gainprm=[1.0] + [0.0] * 9, **kinds)


def general(**fields):
    return each(make=None, **fields)


def option(**fields):
    def change(spec):
        for name, value in fields.items():
            setattr(spec.option, name, value)

    return change


def joints(**fields):
    def change(spec):
        for name in JOINTS:
            for field, value in fields.items():
                setattr(spec.joint(name), field, value)

    return change


def equality(kind, first, second, *, active, where=mujoco.mjtObj.mjOBJ_BODY):
    def change(spec):
        link = spec.add_equality(name="bond", type=getattr(mujoco.mjtEq, f"mjEQ_{kind}"), objtype=where)
        link.name1, link.name2, link.active = first, second, active

    return change


def adhesion(spec):
    add(spec, CALF, mujoco.mjtTrn.mjTRN_BODY, gainprm=[10.0] + [0.0] * 9, ctrlrange=[0.0, 1.0], ctrllimited=True)


def thruster(spec, **fields):
    spec.body(CALF).add_site(name="nozzle")
    add(spec, "nozzle", mujoco.mjtTrn.mjTRN_SITE, gear=[0, 0, 1, 0, 0, 0], **fields)


AFFINE = {"gaintype": mujoco.mjtGain.mjGAIN_AFFINE, "biastype": mujoco.mjtBias.mjBIAS_AFFINE}
SPRINGY = {"gainprm": [3.0, 0.2, 0.1] + [0.0] * 7, "biasprm": [1.0, -50.0, -2.0] + [0.0] * 7}
SERVO = {"make": ("position", {"kp": 100.0})}

DRIVEN = {
    "no actuators": (),
    "motors": (each(),),
    "motors in reverse order": (each(names=JOINTS[::-1]),),
    "gears": (gears(9.0, -6.0, 0.5),),
    "gain": (general(gainprm=[4.0] + [0.0] * 9),),
    "servos": (each(**SERVO),),
    "servos with a time constant": (each(make=("position", {"kp": 100.0, "timeconst": 0.05})),),
    "servos with narrow controls": (each(ctrllimited=True, ctrlrange=[-0.1, 0.1], **SERVO),),
    "speed servos": (each(make=("velocity", {"kv": 3.0})),),
    "integrated speed servos": (each(make=("intvelocity", {"kp": 50.0}), actlimited=True, actrange=[-0.2, 0.2]),),
    "dampers": (each(make=("damper", {"kv": 2.0}), ctrllimited=True, ctrlrange=[0.0, 1.0]),),
    "cylinders": (each(make=("cylinder", {"timeconst": 0.1, "bias": 1.0, "area": 2.0})),),
    "muscles": (each(make=("muscle", {"tausmooth": 0.0}), lengthrange=[-1.0, 1.0]),),
    "direct-current motors": (each(make=("dcmotor", {"motorconst": [0.05, 0.05], "resistance": 1.0})),),
    "direct-current motors with inductance": (
        each(make=("dcmotor", {"motorconst": [0.05, 0.05], "resistance": 1.0, "inductance": [1e-3, 0.0]})),
    ),
    "PID servos": (each(make=("pid", {"kp": 50.0, "kv": 1.0, "ki": 3.0})),),
    "affine gains": (general(**AFFINE, **SPRINGY),),
    "affine gains without bias": (general(gaintype=AFFINE["gaintype"], gainprm=[0.0, 0.0, -2.0] + [0.0] * 7),),
    "zero gain": (general(gainprm=[0.0] * 10),),
    "zero gear": (each(gear=[0.0] * 6),),
    "filter": (dynamics("FILTER"),),
    "early filter": (dynamics("FILTEREXACT", actearly=True),),
    "integrator": (dynamics("INTEGRATOR", actlimited=True, actrange=[-1.0, 1.0]),),
    "delay": (each(delay=0.01, nsample=10),),
    "motors in the parent's axes": (each(INPARENT),),
    "two on each joint": (each(), each(make=("damper", {"kv": 2.0}), ctrllimited=True, ctrlrange=[0.0, 1.0])),
    "servo through a fixed tendon": (
        tendon(CALF),
        each(mujoco.mjtTrn.mjTRN_TENDON, names=("rope",), **SERVO),
        each(names=JOINTS[:2]),
    ),
    "servo through a tendon over two joints": (
        tendon(THIGH, CALF),
        each(mujoco.mjtTrn.mjTRN_TENDON, names=("rope",), **SERVO),
        each(),
    ),
    "motor through a spatial tendon": (string, each(mujoco.mjtTrn.mjTRN_TENDON, names=("rope",)), each()),
    "servo through a spatial tendon": (string, each(mujoco.mjtTrn.mjTRN_TENDON, names=("rope",), **SERVO), each()),
    "crank": (crank, each()),
    "other trees": (tree, each()),
    "wide ranges": (
        each(forcelimited=True, forcerange=[-36.0, 40.0], ctrllimited=True, ctrlrange=[-36.0, 36.0]),
        joints(actfrclimited=True, actfrcrange=[-35.55, 35.55]),
    ),
    "gear that makes up for a small range": (
        each(ctrllimited=True, ctrlrange=[-1.0, 1.0], gear=[-36.0, 0, 0, 0, 0, 0]),
    ),
    "two motors that together are strong enough": (
        each(forcelimited=True, forcerange=[-20.0, 20.0]),
        each(forcelimited=True, forcerange=[-20.0, 20.0]),
    ),
    "controls that are not clamped": (each(**SERVO), option(disableflags=mujoco.mjtDisableBit.mjDSBL_CLAMPCTRL)),
    "other integrator": (each(**SERVO), option(integrator=mujoco.mjtIntegrator.mjINT_IMPLICITFAST)),
    "other time step": (each(), option(timestep=0.004)),
    "inactive weld": (each(), equality("WELD", CALF, "world", active=False)),
    "disabled weld": (
        each(),
        equality("WELD", CALF, "world", active=True),
        option(disableflags=mujoco.mjtDisableBit.mjDSBL_EQUALITY),
    ),
    "adhesion": (each(), adhesion),
    "thruster": (each(), thruster),
    "anchors elsewhere on their axes": (lambda s: setattr(s.joint(CALF), "pos", [0.0, 0.05, 0.0]),),
    "damping": (each(), joints(damping=[0.6, 0.0, 0.0])),
    "rotors": (each(), joints(armature=0.01)),
    "dry friction": (each(), joints(frictionloss=0.2)),
    "gravity of another place": (each(), option(gravity=[0.0, 0.0, -9.7803])),
}
QUICK = (
    "motors",
    "servos with a time constant",
    "affine gains",
    "delay",
    "servo through a tendon over two joints",
    "crank",
    "other trees",
)
OTHER_DYNAMICS = ("damping", "rotors", "dry friction", "gravity of another place")


@pytest.mark.parametrize("variant", one_fast(DRIVEN, *QUICK))
def test_joints_get_exact_torques_and_accelerate_like_our_model(robot, variant):
    model = foreign.same(*DRIVEN[variant])
    bridge, data, system, rng = Bridge(model, robot), mujoco.MjData(model), robot.system(), np.random.default_rng(1)
    names = system.actuated_names
    at = [model.joint(name).dofadr[0] for name in names]
    for _ in range(3):
        q = system.integrate(robot.standing_state().q, 0.2 * rng.standard_normal(18), 1.0)
        state = bridge.place(data, State(t=0.0, q=q, v=rng.standard_normal(18)))
        tau = system.effort_limit * rng.uniform(-1.0, 1.0, 12)
        for _ in range(3):  # dynamics and delays show from the second step on
            bridge.actuate(data, tau)
            mujoco.mj_step(model, data)
            got = (data.qfrc_actuator + data.qfrc_applied)[at]
            np.testing.assert_allclose(got, tau, rtol=1e-12, atol=1e-12)
        state = bridge.observe(data)
        mujoco.mj_forward(model, data)
        system.update(state.q, state.v)
        a = np.linalg.solve(system.M, np.concatenate((np.zeros(6), tau)) - system.bias)
        if variant not in OTHER_DYNAMICS:
            np.testing.assert_allclose(data.qacc[at], a[6:], rtol=0, atol=1e-11 * np.abs(a).max())


MIXED = (
    {},
    {"gear": [-7.0, 0, 0, 0, 0, 0]},
    SERVO,
    {"make": ("position", {"kp": 100.0, "timeconst": 0.05})},
    {"make": ("intvelocity", {"kp": 50.0}), "actlimited": True, "actrange": [-0.2, 0.2]},
    {"make": ("damper", {"kv": 2.0}), "ctrllimited": True, "ctrlrange": [0.0, 1.0]},
    {"make": None, **AFFINE, **SPRINGY},
    {"delay": 0.01, "nsample": 10},
)


@pytest.mark.slow
@settings(deadline=None, max_examples=10)
@given(
    drives=st.lists(
        st.tuples(st.sampled_from(JOINTS), st.sampled_from(MIXED), st.sampled_from((JOINT, INPARENT))), max_size=20
    )
)
def test_joints_get_the_torques_from_any_mixture_of_actuators(robot, drives):
    model = foreign.same(*(each(kind, names=(name,), **fields) for name, fields, kind in drives))
    bridge, data, system = Bridge(model, robot), mujoco.MjData(model), robot.system()
    bridge.place(data, robot.standing_state())
    tau = system.effort_limit * np.linspace(-1.0, 1.0, 12)
    for _ in range(3):
        bridge.actuate(data, tau)
        mujoco.mj_step(model, data)
    at = [model.joint(name).dofadr[0] for name in system.actuated_names]
    np.testing.assert_allclose((data.qfrc_actuator + data.qfrc_applied)[at], tau, rtol=1e-12, atol=1e-12)


def scaled(joint, **factors):
    def change(spec):
        body = spec.body(joint)
        for name, factor in factors.items():
            setattr(body, name, factor * np.array(getattr(body, name)))

    return change


def moved(joint, field, by):
    def change(spec):
        thing = spec.body(joint)
        setattr(thing, field, np.array(getattr(thing, field)) + by)

    return change


def heavier(spec):
    for body in spec.bodies[1:]:
        body.mass, body.inertia = 2.0 * body.mass, 2.0 * body.inertia


def between(spec):
    """Add a joint on the shoulder that the URDF does not have."""
    spec.body(THIGH).add_joint(name="extra", type=mujoco.mjtJoint.mjJNT_HINGE, axis=[1.0, 0.0, 0.0])


def holding(spec):
    """Add a servo that pulls a foot without a control."""
    thruster(spec, biastype=AFFINE["biastype"], biasprm=[5.0] + [0.0] * 9)


def hoist(spec):
    add(spec, "root_joint", gear=[0, 0, 1, 0, 0, 0], biastype=AFFINE["biastype"], biasprm=[90.0] + [0.0] * 9)


WEAK = r"at most {} N m by .* limits.torque_nm of go1 is {} N m; lower"
REFUSED = {
    "force range": (
        (each(forcelimited=True, forcerange=[-20.0, 20.0], **SERVO),),
        r"FL_hip_joint .*\(actuator drive 0\) gets " + WEAK.format(20, 23.7),
    ),
    "one-sided force range": ((each(forcelimited=True, forcerange=[0.0, 90.0]),), WEAK.format(0, 23.7)),
    "control range": ((each(ctrllimited=True, ctrlrange=[-23.7, 23.7]),), "FL_calf.*" + WEAK.format(23.7, 35.55)),
    "control range of a lagging motor": (
        (dynamics("FILTER", ctrllimited=True, ctrlrange=[-1.0, 1.0], gear=[10.0, 0, 0, 0, 0, 0]),),
        WEAK.format(10, 23.7),
    ),
    "range of a joint": (
        (joints(actfrclimited=True, actfrcrange=[-5.0, 5.0]),),
        "no actuator.*" + WEAK.format(5, 23.7),
    ),
    "force range behind a tendon": (
        (tendon(CALF), each(mujoco.mjtTrn.mjTRN_TENDON, names=("rope",), forcelimited=True, forcerange=[-9.0, 9.0])),
        "FL_calf.*" + WEAK.format(9, 35.55),
    ),
    "range of a tendon": (
        (
            tendon(CALF, actfrclimited=True, actfrcrange=[-8.0, 8.0]),
            each(mujoco.mjtTrn.mjTRN_TENDON, names=("rope",), gear=[2.0, 0, 0, 0, 0, 0]),
        ),
        "FL_calf.*" + WEAK.format(8, 35.55),
    ),
    "tendon to another machine": (
        (tree, tendon(CALF, "door"), each(mujoco.mjtTrn.mjTRN_TENDON, names=("rope",))),
        "actuator drive 1 .* drives joint door together with joints of go1; give each",
    ),
    "disabled actuators": (
        (each(), option(disableflags=mujoco.mjtDisableBit.mjDSBL_ACTUATION)),
        r"apply 0 N m to FL_hip_joint for a command of 23.7 N m; .* clear model.opt.disableflags",
    ),
    "disabled group": (
        (each(group=3), option(disableactuator=8)),
        "apply 0 N m to FL_hip_joint for a command of 23.7 N m.*disableactuator",
    ),
    "site that pulls": ((each(), holding), "N m to .* for a command of 0 N m; remove actuators"),
    "hoist": ((each(), hoist), "apply 90 N m to the base for a command of 0 N m"),
    "gravity of the moon": ((option(gravity=[0.0, 0.0, -1.6]),), r"\(0, 0, -1.6\) m/s² in .* \(0, 0, -9.81\) m/s² for"),
    "no gravity": ((option(disableflags=mujoco.mjtDisableBit.mjDSBL_GRAVITY),), r"gravity is \(0, 0, 0\)"),
    "gravity compensation": (
        (scaled(THIGH), lambda s: setattr(s.body(THIGH), "gravcomp", 0.5)),
        "compensates 0.5 times",
    ),
    "twice the masses": (
        (heavier,),
        r"root_joint of the .*different masses: 11.12 kg in the model, 5.561 kg in the URDF; make",
    ),
    "twice one mass": (
        (scaled(CALF, mass=2.0),),
        r"FL_calf_joint .*different masses: 0.3917 kg in the model, 0.1959 kg in the URDF; make",
    ),
    "lighter link": (
        (scaled(THIGH, mass=0.85),),
        "FL_thigh_joint .*different masses: 0.8577 kg in the model, 1.009 kg in",
    ),
    "centre of mass": (
        (moved(CALF, "ipos", [0.0, 0.0, 0.039]),),
        r"FL_calf.*39 mm .*: \(0.0043, 0.000977, -0.107\) m in the model, \(0.0043, 0.000977, -0.146\) m in .*",
    ),
    "twice the inertia": ((scaled(CALF, inertia=2.0),), r"different inertias: .*\(3.58e-05, 0.00148, 0.0015\) kg m²"),
    "longer thigh": ((moved(CALF, "pos", [0.0, 0.0, -0.02]),), "FL_calf_joint .* is 20 mm away from .*other lengths"),
    "turned axis": ((lambda s: setattr(s.joint(CALF), "axis", [0.0, 1.0, 0.1]),), "different axis from FL_calf"),
    "reversed axis": ((lambda s: setattr(s.joint(CALF), "axis", [0.0, -1.0, 0.0]),), "different axis from FL_calf"),
    "other zero": ((lambda s: setattr(s.joint(CALF), "ref", 0.2),), "FL_calf_joint .*, or another zero of the joint"),
    "slide": (
        (lambda s: setattr(s.joint(CALF), "type", mujoco.mjtJoint.mjJNT_SLIDE),),
        "FL_calf_joint of go1 are not of the same type",
    ),
    "joint between": ((between,), "FL_calf_joint .* is carried by joint extra, and .* by joint FL_thigh_joint: map"),
    "weld": ((equality("WELD", CALF, "world", active=True),), r"equality bond .*model.eq_active0\[0\] = 0"),
    "point on the world": ((equality("CONNECT", "root_joint", "world", active=True),), "equality bond"),
    "coupled joints": (
        (equality("JOINT", THIGH, CALF, active=True, where=mujoco.mjtObj.mjOBJ_JOINT),),
        "equality bond .* constrains the robot",
    ),
    "springs": ((joints(stiffness=[20.0, 0.0, 0.0]),), "springs .* load joint FL_.* N m close to the home pose"),
    "bungee": ((bungee,), "springs .* load the base with"),
    "spring of a tendon": (
        (tendon(CALF, stiffness=[50.0, 0.0, 0.0], springlength=[0.0, 0.0]),),
        "springs .* load joint FL_calf_joint with",
    ),
}


@pytest.mark.parametrize("variant", REFUSED)
def test_unsuitable_models_are_refused_in_one_line_with_numbers(robot, variant):
    changes, line = REFUSED[variant]
    model = foreign.same(*changes)
    with pytest.raises(InputError, match=line) as refused:
        Bridge(model, robot)
    assert "\n" not in str(refused.value)
