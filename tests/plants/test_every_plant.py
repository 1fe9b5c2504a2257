"""Properties of every registered plant: equations of motion, momentum, weight, friction, energy, refusals."""

import functools
import re
import sys

import numpy as np
import pinocchio as pin
import pytest
from msgspec import structs

from idcontrol import plants
from idcontrol.bench.problems import machines
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import height_map, plane
from idcontrol.dynamics.system import System
from idcontrol.errors import InputError, install_command
from idcontrol.plants.drive import Driven
from idcontrol.types import State
from tests import scenes

G = 9.81
H = 1e-3
NO_JOINTS = np.zeros(0)
OUTSIDE = ("mujoco", "pybullet")
EVERY = tuple(plants.available())
COULOMB = tuple(name for name in EVERY if name not in ("noslip", "viscous"))
SOFT = ("penalty", "mujoco")


def make(name: str, setup: plants.Setup) -> plants.SimulatedPlant:
    if name in OUTSIDE:
        pytest.importorskip(name)
    return plants.build(name, setup)


def quadruped_setup(mu: float = 0.8, dt: float = H) -> plants.Setup:
    system = scenes.links()
    return plants.Setup(system=system, contacts=SphereContacts(system, scenes.FEET, scenes.RADIUS, plane(), mu), dt=dt)


def sled_energy(state: State) -> float:
    """Return the kinetic and potential energy of the sled [J]."""
    mass, v = machines.SLED_MASS, state.v
    return float(0.5 * (mass * v[:3] @ v[:3] + v[3:] @ (machines.SLED_INERTIA * v[3:])) + mass * G * state.q[2])


def rotation(q: np.ndarray) -> np.ndarray:
    return pin.Quaternion(q[6], *q[3:6]).matrix()


def flying(system: System, seed: int) -> State:
    """Return a random configuration in the air with a random velocity."""
    rng = np.random.default_rng(seed)
    q = pin.integrate(system.model, scenes.home(system), 0.5 * rng.normal(size=18))
    q[2] = 1.0
    return State(t=0.0, q=q, v=rng.normal(size=18))


@pytest.mark.parametrize("name", EVERY)
def test_in_the_air_joint_torques_move_links_by_the_multibody_terms(name, quadruped):
    """v⁺ = v + h M⁻¹ (Pᵀτ - c). For external simulators this tests that they load the same machine.

    Plants that keep the momenta in the pose at the end differ from it by h² in the base, and in the base alone.
    """
    keeps = name not in ("penalty", "mujoco", "pybullet")
    plant = make(name, quadruped_setup())
    for seed in range(5):
        before = plant.reset(flying(quadruped, seed))
        tau = np.random.default_rng(seed).normal(size=12)
        after = plant.step(tau, H)
        quadruped.update(before.q, before.v)
        applied = -quadruped.bias
        applied[6:] += tau
        v_plus = quadruped.from_pinocchio(before.v) + H * np.linalg.solve(quadruped.M, applied)
        q, v = quadruped.advance(before.q, v_plus, H)
        # accelerations of up to 1e4 from another O(n) algorithm, exact to 1e-11, over one step
        np.testing.assert_allclose(after.v[6:], v[6:], rtol=0, atol=1e-10)
        second = H * np.abs(after.v - before.v).max() if keeps else 1e-10
        np.testing.assert_allclose(after.v[3:6], v[3:6], rtol=0, atol=second)
        np.testing.assert_allclose(rotation(after.q) @ after.v[:3], rotation(q) @ v[:3], rtol=0, atol=second)
        if keeps:
            np.testing.assert_allclose(after.q[7:], q[7:], rtol=0, atol=1e-12)
            assert np.abs(after.q[:7] - q[:7]).max() < H * np.abs(after.v - before.v).max()
        elif name == "penalty":  # moves with the mean velocity of its fine steps
            assert np.abs(after.q - q).max() < H * np.abs(after.v - before.v).max()
        else:
            np.testing.assert_allclose(after.q, q, rtol=0, atol=1e-12)
        assert after.t == pytest.approx(H)
        assert plant.contact_forces().identity.size == 0


@pytest.mark.parametrize("name", EVERY)
def test_momentum_changes_by_gravity_and_the_forces_that_are_read_back(name):
    plant = make(name, machines.sled(plane(), 0.5))
    start = machines.sled_state(0.0, gap=2e-3)
    before = plant.reset(State(t=0.0, q=start.q, v=np.array([0.4, -0.2, -0.3, 0.5, 1.0, -2.0])))
    weight, touched = np.array([0.0, 0.0, -machines.SLED_MASS * G]), 0
    for _ in range(60):
        after = plant.step(NO_JOINTS, H)
        forces = plant.contact_forces()
        change = machines.SLED_MASS * (rotation(after.q) @ after.v[:3] - rotation(before.q) @ before.v[:3])
        expected = H * (weight + forces.force.sum(axis=0))
        np.testing.assert_allclose(change, expected, rtol=0, atol=1e-9 * max(1.0, np.abs(expected).max()))
        touched += forces.identity.size > 0
        before = after
    assert touched >= 10


@pytest.mark.parametrize("name", EVERY)
def test_a_resting_sled_presses_with_its_weight(name):
    plant = make(name, machines.sled(plane(), 0.5))
    plant.reset(machines.sled_state(0.0))
    for _ in range(400):
        state = plant.step(NO_JOINTS, H)
    forces = plant.contact_forces()
    np.testing.assert_allclose(forces.normal[:, 2], 1.0, atol=1e-9)
    total = forces.force.sum(axis=0)
    np.testing.assert_allclose(total, [0, 0, machines.SLED_MASS * G], rtol=0, atol=1e-6 * machines.SLED_MASS * G)
    assert np.abs(state.v).max() < 1e-6


@pytest.mark.parametrize("name", COULOMB)
def test_friction_stays_in_its_cone(name):
    mu = 0.3
    plant = make(name, machines.sled(plane(), mu))
    start = machines.sled_state(0.0, gap=1e-3)
    plant.reset(State(t=0.0, q=start.q, v=np.array([0.6, 0.2, -0.2, 0.3, -0.4, 1.5])))
    slid = 0
    for _ in range(200):
        plant.step(NO_JOINTS, H)
        forces = plant.contact_forces()
        pressure = np.einsum("ij,ij->i", forces.force, forces.normal)
        tangential = np.linalg.norm(forces.force - pressure[:, None] * forces.normal, axis=1)
        assert (pressure > 0.0).all()
        # sequential impulses stop short of the cone's edge by their residual
        assert (tangential <= mu * pressure + 1e-5 * machines.SLED_MASS * G).all()
        slid += bool((tangential > 0.5 * mu * pressure).any())
    assert slid > 20


@pytest.mark.parametrize("name", COULOMB)
def test_feet_at_the_end_of_legs_have_their_set_friction(name):
    """Feet on links slide while the joints have no torque; some simulators treat the base unlike other links."""
    mu = 0.05
    setup = quadruped_setup(mu)
    plant = make(name, setup)
    q = scenes.home(setup.system)
    plant.reset(State(t=0.0, q=q, v=np.concatenate(([0.8, 0.3, -0.1], np.zeros(15)))))
    edges = 0
    for _ in range(40):
        plant.step(np.zeros(12), H)
        force = plant.contact_forces().force
        tangential = np.linalg.norm(force[:, :2], axis=1)
        assert (tangential <= mu * force[:, 2] + 1e-5 * setup.system.mass * G).all()
        edges += int((tangential > 0.7 * mu * force[:, 2]).sum())
    assert edges >= 10


@pytest.mark.parametrize("name", EVERY)
def test_without_friction_nothing_holds_along_the_ground(name):
    if name == "noslip":
        pytest.skip("it has no friction coefficient")
    setup = machines.sled(plane(), 0.0, settings=plants.GroundSettings(drag_n_s_m=0.0))
    plant = make(name, setup)
    start = machines.sled_state(0.0)
    plant.reset(State(t=0.0, q=start.q, v=np.array([0.5, 0.1, 0, 0, 0, 0])))
    for _ in range(50):
        state = plant.step(NO_JOINTS, H)
        force = plant.contact_forces().force
        assert np.abs(force[:, :2]).max(initial=0.0) < 1e-9
    np.testing.assert_allclose(state.v[:2], [0.5, 0.1], rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", [name for name in EVERY if name not in OUTSIDE])
def test_a_sled_that_begins_in_the_ground_is_pushed_out_slowly(name):
    """The energy grows at most by the weight times the depth and the kinetic energy at 0.1 m/s."""
    depth, speed = 1e-2, 0.1
    plant = make(name, machines.sled(plane(), 0.5))
    start = plant.reset(machines.sled_state(0.0, gap=-depth))
    highest = max(sled_energy(plant.step(NO_JOINTS, H)) for _ in range(150))
    most = machines.SLED_MASS * (G * depth + 0.5 * speed**2)
    assert highest - sled_energy(start) < most * (1.0 + 1e-6)


@pytest.mark.parametrize("name", EVERY)
def test_a_thrown_sled_only_loses_energy_and_comes_to_rest(name):
    """Springs return at most the energy that they store; the total never exceeds its value with slack springs."""
    plant = make(name, machines.sled(plane(), 0.5))
    start = machines.sled_state(0.0, gap=5e-3)
    state = plant.reset(State(t=0.0, q=start.q, v=np.array([0.5, 0.3, -0.5, 1.0, -1.0, 1.0])))
    energies = [sled_energy(state)]
    for _ in range(600):
        state = plant.step(NO_JOINTS, H)
        energies.append(sled_energy(state))
    fall = energies[0] - energies[-1]
    rise = np.maximum.accumulate(np.diff(energies)).max()
    if name in (*SOFT, "sap", "constraint"):
        assert max(energies) <= energies[0]
    elif name == "pybullet":
        # corrects a share of the penetration in each step, which lifts the robot and adds energy
        assert rise < 2e-3 * fall
    else:
        # a millionth of a penetration undone is the solvers' own error
        assert rise < 1e-6 * fall
    assert np.abs(state.v).max() < 1e-4
    assert state.q[2] == pytest.approx(machines.SLED_HEIGHT, abs=1.1e-3)


@pytest.mark.parametrize("name", COULOMB)
def test_a_sled_on_a_slope_sticks_or_slides_as_coulombs_formula(name):
    slope = np.deg2rad(15.0)
    ground = plane((np.sin(slope), 0.0, np.cos(slope)))
    downhill = np.array([np.cos(slope), 0.0, -np.sin(slope)])
    moved = []
    for mu in (0.2, 0.35):  # tan 15° = 0.268
        plant = make(name, machines.sled(ground, mu))
        start = plant.reset(machines.sled_state(slope))
        for _ in range(300):
            state = plant.step(NO_JOINTS, H)
        moved.append(downhill @ (state.q[:3] - start.q[:3]))
    expected = 0.5 * G * (np.sin(slope) - 0.2 * np.cos(slope)) * 0.3**2
    # on soft ground the sled first sinks in and stretches the tangential springs, up to 1 mm
    assert moved[0] == pytest.approx(expected, rel=0.02, abs=5e-4 if name in SOFT else 0.0)
    assert abs(moved[1]) < (1e-3 if name in SOFT else 1e-4)


@pytest.mark.parametrize("name", EVERY)
def test_the_sled_stands_on_a_height_map_where_our_terrain_is(name):
    x = np.linspace(-1.0, 1.0, 101)
    ground = height_map(0.02 * np.sin(3.0 * x)[:, None] * np.cos(2.0 * x)[None, :] + 0.1, spacing=0.02)
    setup = machines.sled(ground, 0.8)
    plant = make(name, setup)
    start = machines.sled_state(0.0)
    q = start.q.copy()
    q[:3] += [0.2, 0.1, float(ground.height(0.2, 0.1)) + 0.01]
    plant.reset(State(t=0.0, q=q, v=start.v))
    for _ in range(500):
        state = plant.step(NO_JOINTS, H)
    setup.system.update(state.q, state.v)
    setup.contacts.detect(np.inf)
    forces = plant.contact_forces()
    gap = setup.contacts.gap[forces.identity]
    sink = 2e-3 if name == "penalty" else 1e-3 if name == "mujoco" else 1e-4
    # on its edge there are two feet, which is all that it needs where nothing slips
    assert gap.size >= (2 if name == "noslip" else 3)
    assert (gap > -sink).all()
    assert (gap < 1e-4).all()
    normals = ground.normal(*setup.contacts.point[forces.identity, :2].T)
    # facets of 5 mm turn by at most 5 mm over the radius of curvature, 1/0.18 m
    np.testing.assert_allclose(forces.normal, normals, rtol=0, atol=2e-3)
    total = forces.force.sum(axis=0)
    if name != "viscous":  # which never stops sliding
        np.testing.assert_allclose(total, [0, 0, machines.SLED_MASS * G], rtol=0, atol=1e-3 * machines.SLED_MASS * G)


POINTS = np.array([[x, y, -0.05] for x in (0.15, -0.15) for y in (0.1, -0.1)])


def pointed(ground) -> plants.Setup:
    """Return the sled on four points."""
    system = machines.free_body(np.diag(machines.SLED_INERTIA))
    return plants.Setup(
        system=system, contacts=SphereContacts(system, ("body",) * 4, 0.0, ground, 0.5, offsets=POINTS), dt=H
    )


@pytest.mark.parametrize("name", EVERY)
def test_feet_of_radius_zero_stand_where_they_are(name):
    plant = make(name, pointed(plane()))
    plant.reset(State(t=0.0, q=np.array([0.0, 0.0, 0.052, 0.0, 0.0, 0.0, 1.0]), v=np.zeros(6)))
    for _ in range(300):
        state = plant.step(NO_JOINTS, H)
    # Bullet lets everything stand 10 um deep
    sink = 1e-3 if name == "penalty" else 1e-5
    assert state.q[2] == pytest.approx(0.05, abs=sink + 1e-6)
    assert plant.contact_forces().force[:, 2].sum() == pytest.approx(machines.SLED_MASS * G, rel=1e-5)


@pytest.mark.parametrize("name", OUTSIDE)
def test_engines_outside_refuse_feet_that_their_height_maps_would_lose(name):
    with pytest.raises(InputError, match=r"sphere of radius 0 m is too small for a height map .* at least 0.001 m"):
        make(name, pointed(height_map(np.zeros((4, 4)), spacing=0.5)))


@pytest.mark.parametrize("name", EVERY)
def test_a_push_moves_the_whole_machine_along_the_worlds_axes(name, quadruped):
    plant = make(name, quadruped_setup())
    before = flying(quadruped, 5)
    plant.reset(before)
    plant.push(np.array([0.1, -0.2, 0.3]))
    after = plant.step(np.zeros(12), 1e-9)
    data = quadruped.model.createData()
    momenta = [pin.computeCentroidalMomentum(quadruped.model, data, s.q, s.v).linear.copy() for s in (before, after)]
    np.testing.assert_allclose(momenta[1] - momenta[0], quadruped.mass * np.array([0.1, -0.2, 0.3]), rtol=0, atol=1e-6)
    np.testing.assert_allclose(after.v[6:], before.v[6:], rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", EVERY)
def test_reset_starts_afresh_to_the_last_bit(name):
    def run(plant: plants.SimulatedPlant) -> np.ndarray:
        start = machines.sled_state(0.0, gap=1e-3)
        plant.reset(State(t=0.0, q=start.q, v=np.array([0.5, 0.1, -0.5, 1.0, 0.0, 2.0])))
        return np.array([plant.step(NO_JOINTS, H).q for _ in range(40)])

    plant = make(name, machines.sled(plane(), 0.4))
    first = run(plant)
    np.testing.assert_array_equal(first, run(plant))
    np.testing.assert_array_equal(first, run(make(name, machines.sled(plane(), 0.4))))


@pytest.mark.covering
@pytest.mark.parametrize("driven", [False, True])
@pytest.mark.parametrize("name", EVERY)
def test_writing_into_a_returned_state_does_not_change_the_plant(name, driven, quadruped):
    command = np.stack((np.zeros(12), np.zeros(12), np.zeros(12), np.full(12, 5.0), np.full(12, 0.1)))
    ends = []
    for writes in (False, True):
        plant = make(name, quadruped_setup())
        plant = Driven(plant, quadruped) if driven else plant
        state = plant.reset(flying(quadruped, 1))
        for _ in range(3):
            if writes:
                state.q[7:], state.v[:] = 0.0, 0.0
            state = plant.step(command if driven else np.ones(12), H)
            last = structs.replace(state, q=state.q.copy(), v=state.v.copy())
        ends.append(last)
    np.testing.assert_array_equal(ends[1].q, ends[0].q)
    np.testing.assert_array_equal(ends[1].v, ends[0].v)


@pytest.mark.parametrize("name", EVERY)
def test_unusable_torques_and_times_are_refused_in_one_line(name):
    setup = quadruped_setup()
    plant = make(name, setup)
    plant.reset(State(t=0.0, q=scenes.home(setup.system), v=np.zeros(18)))
    bad = np.zeros(12)
    bad[4] = np.nan
    with pytest.raises(InputError, match=r"torque of joint '\w+' is not finite") as caught:
        plant.step(bad, H)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=r"this plant needs \(12,\), one for each actuated joint"):
        plant.step(np.zeros(11), H)
    for dt in (0.0, -H, np.nan, np.inf):
        with pytest.raises(InputError, match="time step of a plant must be a positive number"):
            plant.step(np.zeros(12), dt)
    with pytest.raises(InputError, match=r"a step of 1e\+300 s is too long .* a call can take at most 1000 s"):
        plant.step(np.zeros(12), 1e300)
    for push in ([np.nan, 0.0, 0.0], [1.0, 0.0], "hard"):
        with pytest.raises(InputError, match="the velocity of a push"):
            plant.push(push)
    # the plant still works afterwards
    assert np.isfinite(plant.step(np.zeros(12), H).q).all()
    for dt in (0.0, -H, np.nan):
        with pytest.raises(InputError, match="longest substep of a plant must be a positive number"):
            make(name, quadruped_setup(dt=dt))


def spoiled(field, at, value):
    """Return a state at home with some entries of one of its arrays replaced."""
    state = State(t=0.0, q=scenes.home(scenes.links()), v=np.zeros(18))
    getattr(state, field)[at] = value
    return state


@functools.cache
def refused():
    """States that are refused, each with a part of the reason."""
    home = scenes.home(scenes.links())
    return [
        (spoiled("q", 2, np.nan), "state.q is not finite"),
        (spoiled("v", 3, np.inf), "state.v is not finite"),
        (spoiled("v", 3, 1e300), "state.v is beyond 1e+15"),
        (spoiled("q", slice(3, 7), 0.0), "state.q[3:7] is a quaternion of length 0; it must be 1"),
        (spoiled("q", 6, 2.0), "state.q[3:7] is a quaternion of length 2; it must be 1"),
        (State(t=0.0, q=np.zeros(18), v=np.zeros(18)), "state.q has shape (18,); it needs 19 entries"),
        (State(t=0.0, q=home, v=np.zeros(1)), "state.v has shape (1,); it needs 18"),
        (State(t=0.0, q="home", v=np.zeros(18)), "state.q must be a vector of numbers, not of"),
        (State(t=0.0, q=[[1.0], [1.0, 2.0]], v=np.zeros(18)), "state.q must be a vector of numbers; its rows"),
        (State(t=np.nan, q=home, v=np.zeros(18)), "state.t is nan"),
    ]


@pytest.mark.parametrize("name", EVERY)
def test_a_state_that_no_machine_can_be_in_is_refused_by_name(name):
    setup = quadruped_setup()
    plant = make(name, setup)
    for state, line in refused():
        with pytest.raises(InputError) as caught:
            plant.reset(state)
        assert line in str(caught.value)
        assert "\n" not in str(caught.value)
    # readable arrays of other types are accepted and copied, so the caller may change them afterwards
    passed = State(t=0.0, q=scenes.home(setup.system).tolist(), v=np.zeros(18, dtype=np.float32))
    returned = plant.reset(passed)
    assert returned.q.dtype == returned.v.dtype == np.float64
    passed.v[:] = 1e3
    assert np.abs(plant.step(np.zeros(12), H).v).max() < 10.0


@pytest.mark.parametrize(
    ("name", "settings", "line"),
    [
        ("viscous", plants.GroundSettings(drag_n_s_m=-1.0), "drag"),
        ("penalty", plants.GroundSettings(stiffness_n_m=-1.0), "stiffness"),
        ("penalty", plants.GroundSettings(stiffness_n_m=0.0), "stiffness"),
        ("sap", plants.GroundSettings(stiffness_n_m=-1.0), "stiffness"),
        ("penalty", plants.GroundSettings(damping_n_s_m=-1.0), "damping"),
        ("penalty", plants.GroundSettings(damping_n_s_m=float("nan")), "damping"),
        ("penalty", plants.GroundSettings(penalty_friction="viscous", drag_n_s_m=-1.0), "drag"),
    ],
)
def test_grounds_that_cannot_be_are_refused(name, settings, line):
    with pytest.raises(InputError, match=f"the {line} of a plant must be"):
        make(name, machines.sled(plane(), 0.5, settings=settings))


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_missing_engine_is_reported_with_its_extra(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"idcontrol.plants.{name}", raising=False)
    extra = {"mujoco": "mujoco", "pybullet": "bullet"}[name]
    with pytest.raises(InputError, match=re.escape(install_command(extra))):
        plants.build(name, machines.sled(plane(), 0.5))


@pytest.mark.parametrize("name", OUTSIDE)
def test_engines_outside_refuse_a_link_without_mass(name):
    model = pin.Model()
    first = model.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), "first")
    second = model.addJoint(first, pin.JointModelRY(), pin.SE3.Identity(), "second")
    model.appendBodyToJoint(second, pin.Inertia(1.0, np.zeros(3), 0.01 * np.eye(3)), pin.SE3.Identity())
    model.addJointFrame(second)
    system = System(model)
    contacts = SphereContacts(system, ("second",), 0.1, plane(), 0.5)
    with pytest.raises(InputError, match="link that joint 'first' moves has no mass"):
        make(name, plants.Setup(system=system, contacts=contacts, dt=H))
