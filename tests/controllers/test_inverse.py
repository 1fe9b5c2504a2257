"""Inverse dynamics with predicted forces: properties that hold for every scheme (math.md 7.4, 12, 13.6)."""

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
import scipy.optimize
from msgspec import structs

from idcontrol import controllers
from idcontrol.bench.problems.machines import forward_step, inverse_step
from idcontrol.contact.landing import Landing, landing_contacts
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.controllers import Gains, InverseSettings, Setup
from idcontrol.controllers.projection import project
from idcontrol.controllers.stance import meets_ground
from idcontrol.controllers.step import MOST_RELEASES
from idcontrol.dynamics.multibody import machine
from idcontrol.errors import InputError
from idcontrol.models import coulomb, dissipation
from idcontrol.models.distribution import Cones
from idcontrol.types import Reference, State, Status
from tests import scenes
from tests.controllers import walker
from tests.models import stage_two
from tests.parameters import solved

INVERSE = (
    "id-noslip-lcp",
    "id-coulomb-lcp",
    "id-coulomb-smooth",
    "id-coulomb-cone",
    "id-coulomb-qp",
    "id-noslip-qp",
    "id-coulomb-qp-1",
    "id-coulomb-qp-raw",
)


def foot_heights(system, state):
    """Gaps of the four feet above level ground [m]."""
    system.update(state.q, state.v)
    return system.frame_position[[system.frame(foot) for foot in scenes.FEET], 2] - scenes.RADIUS


def moving_state(system, rng, speed=0.3):
    """A moving state close to home with at least one foot on or in the ground, others some millimetres above it."""
    home = scenes.home(system)
    home[2] -= 0.001
    while True:
        q = pin.integrate(system.model, home, 0.002 * rng.normal(size=18))
        state = State(t=0.0, q=q, v=speed * rng.normal(size=18))
        if foot_heights(system, state).min() < 0.0:
            return state


def contacts_of(system, state):
    """The contacts that the controller must assume: feet below 1 mm with their landing velocity (planner.md 7)."""
    system.update(state.q, state.v)
    candidates = SphereContacts(system, scenes.FEET, scenes.RADIUS, plane(), 0.7).detect(1e-3)
    return landing_contacts(candidates, system.from_pinocchio(state.v), scenes.H, Landing())


def in_cones(predicted, mu, name):
    """True if every predicted force presses and lies in the controller's friction cone, on level ground."""
    x, y, z = predicted.force.T
    friction = np.hypot(x, y) if name == "id-coulomb-cone" else np.abs(x) + np.abs(y)
    return bool((z >= -1e-9).all() and (friction <= mu * z + 1e-9 * walker.WEIGHT).all())


@pytest.mark.parametrize("name", INVERSE)
def test_standing_the_predicted_forces_carry_the_weight(quadruped, name):
    command = solved(walker.controller(name)(walker.at_home(quadruped), walker.stand()))
    force = command.predicted.force
    # one stage: contacts yield at 1e-6 of the free speed
    accuracy = 1e-5 if name == "id-coulomb-qp-1" else 1e-9
    assert force[:, 2].sum() == pytest.approx(walker.WEIGHT, rel=accuracy)
    assert np.abs(force[:, :2].sum(axis=0)).max() < accuracy * walker.WEIGHT
    assert in_cones(command.predicted, 0.7, name)


@pytest.mark.parametrize("name", [*INVERSE, "id-sensed-1"])
def test_in_the_air_joints_accelerate_as_feedback_asks(quadruped, name):
    """Without contacts this is computed torque: q̈ = a_des + kp (q_des - q) + kd (v_des - v), exactly."""
    rng = np.random.default_rng(1)
    q = scenes.home(quadruped)
    q[2] += 0.5
    state = State(t=0.0, q=q, v=0.3 * rng.normal(size=18))
    reference = walker.stand(
        q=scenes.HOME + 0.05 * rng.normal(size=12), v=rng.normal(size=12), a=10.0 * rng.normal(size=12)
    )
    command = solved(walker.controller(name)(state, reference))
    wanted = reference.a + 400.0 * (reference.q - scenes.HOME)
    wanted += 40.0 * (reference.v - quadruped.joint_velocities(state.v))
    torque = np.zeros(18)
    torque[quadruped.order[6:]] = command.tau
    got = pin.aba(quadruped.model, quadruped.data, state.q, state.v, torque)[quadruped.order[6:]]
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-7 * np.abs(wanted).max())


@pytest.mark.parametrize("unloading", [False, True])
def test_torque_and_forces_agree_with_clarabels_smallest_torque(quadruped, unloading):
    """The whole step written out: desired velocity, landing rows, projection, stage I, and stage II by Clarabel."""
    rng = np.random.default_rng(int(unloading))
    control = walker.controller(gains=walker.NO_FEEDBACK, landing=Landing(), impacts=False)
    for _ in range(10):
        state = moving_state(quadruped, rng, speed=rng.choice([0.01, 0.3]))
        to_liftoff = rng.uniform(0.0, 0.05, 4) if unloading else np.full(4, np.inf)
        reference = walker.stand(a=10.0 * rng.normal(size=12), to_liftoff=to_liftoff)
        command = control(state, reference)
        contacts = contacts_of(quadruped, state)
        feet = contacts.identity
        assert command.predicted.identity.tolist() == feet.tolist()
        v = quadruped.from_pinocchio(state.v)
        b = v[6:] + scenes.H * reference.a
        b = project(quadruped.M, contacts.jacobian, contacts.surface_velocity, b)
        problem = inverse_step(quadruped, v, b, contacts)
        weights = 30.0 * np.clip(1.0 - to_liftoff[feet] / 0.025, 0.0, 1.0) ** 3
        torque_impulse, y = stage_two.smallest_torque(
            problem, dissipation.solve(problem), Cones(contacts.mu, np.zeros(len(contacts), dtype=bool), weights, 1e-3)
        )
        assert command.status is Status.SOLVED
        tau, force = torque_impulse / scenes.H, contacts.force_world(y, scenes.H)
        # Clarabel's tolerance is 1e-12 of a sum of squares; its answer is within 1e-10 of the corner with the solution
        np.testing.assert_allclose(command.tau, tau, rtol=0, atol=1e-8 * max(1.0, np.abs(tau).max()))
        np.testing.assert_allclose(command.predicted.force, force, rtol=0, atol=1e-8 * max(walker.WEIGHT, force.max()))


def swaying_torques(name, system):
    """Torques and predicted weights of 100 steps of a swaying base with white noise of 1 rad/s² on the demand."""
    rng = np.random.default_rng(0)
    control = walker.controller(name, gains=walker.NO_FEEDBACK)
    torques, weights = [], []
    for state, a in walker.swaying(system, 100):
        reference = walker.stand(
            q=system.joint_positions(state.q), v=system.joint_velocities(state.v), a=a + rng.normal(size=12)
        )
        command = solved(control(state, reference))
        torques.append(command.tau)
        weights.append(command.predicted.force[:, 2].sum())
    return np.array(torques), np.array(weights)


@pytest.mark.parametrize("name", sorted({*INVERSE} - {"id-coulomb-lcp", "id-coulomb-qp-raw"}))
def test_torque_is_smooth_though_the_demand_is_noisy(quadruped, name):
    """Schemes that choose among the impulses never jump by 0.2 N m (math.md 6.4, 7.4)."""
    torques, weights = swaying_torques(name, quadruped)
    # the remaining change is the noise of the demand times the inertia: 0.1 N m
    assert np.abs(np.diff(torques, axis=0)).max() < 0.2
    # the base accelerates up and down by 0.5 m/s²
    np.testing.assert_allclose(weights, walker.WEIGHT, rtol=0.08)


def test_the_printed_objective_brakes_a_walking_base(quadruped):
    """A base at 0.2 m/s over feet at rest: as printed, contacts are predicted to stop it.

    Zapolsky & Drumwright 2017, eqs. 69 and 97; math.md 7.2.
    """
    state = walker.at_home(quadruped)
    quadruped.update(state.q, np.zeros(18))
    J = scenes.foot_contacts(quadruped, 0.7).jacobian
    base = np.array([0.2, 0.0, 0.0, 0.0, 0.0, 0.0])
    v = np.concatenate((base, np.linalg.solve(J[:, 6:], -J[:, :6] @ base)))
    state = structs.replace(state, v=quadruped.to_pinocchio(v))
    reference = walker.stand(v=v[6:])
    consistent = walker.controller()(state, reference).predicted.force.sum(axis=0)
    printed = walker.controller(objective="printed")(state, reference).predicted.force.sum(axis=0)
    # joints at constant speed turn feet that are at rest, and the base by a little
    assert consistent[2] == pytest.approx(walker.WEIGHT, rel=0.1)
    assert abs(consistent[0]) < 0.1 * walker.WEIGHT
    assert printed[2] > 2.0 * walker.WEIGHT
    assert printed[0] < -walker.WEIGHT


@pytest.mark.covering
@pytest.mark.parametrize("name", INVERSE)
@pytest.mark.parametrize(("limit", "demand", "speed"), [(0.05, 300.0, 0.3), (0.4, 300.0, 0.3), (0.8, 20.0, 0.01)])
def test_torque_limits_and_friction_cones_hold_for_any_demand(quadruped, name, limit, demand, speed):
    """In the third case, fixing joints at their limits repeatedly brings other joints to theirs."""
    rng = np.random.default_rng(0)
    control = walker.controller(name, limit=limit)
    met = 0
    for _ in range(40):
        state = moving_state(quadruped, rng, speed)
        command = control(state, walker.stand(a=demand * rng.normal(size=12)))
        assert np.abs(command.tau).max() <= limit
        assert in_cones(command.predicted, 0.7, name)
        met += command.clipped
        # contacts may share the load so that a motor at its limit follows the demand
        assert ("tracking" in command.dropped) == (command.status is not Status.SOLVED)
    assert met > 15


def test_the_rate_limit_is_relaxed_after_too_many_releases_and_returns_in_calm_steps(quadruped, monkeypatch):
    control, rng = walker.controller("id-coulomb-qp", limit=4.0, limits={"torque_rate": 20.0}), np.random.default_rng(4)
    monkeypatch.setattr(control, "_fall_back", None)  # all within the compiled step, which takes a tenth of the time

    def driven_wildly():
        demands = [walker.stand(a=300.0 * rng.normal(size=12)) for _ in range(40)]
        commands = [control(moving_state(quadruped, rng, 0.05), demand) for demand in demands]
        torques = [command.tau for command in commands]
        assert np.abs(torques).max() <= 4.0
        change = np.abs(np.diff(torques, axis=0)).max(axis=1) / scenes.H
        for command, fast in zip(commands[1:], change > 20.0, strict=True):
            assert ("rate" in command.dropped) == fast  # and such a step is not solved
            assert (command.status is Status.SOLVED) == (not command.dropped)
        return change

    change = driven_wildly()
    assert change[: MOST_RELEASES - 1].max() <= 20.0 * (1.0 + 1e-9)
    assert change[MOST_RELEASES:].max() > 100.0
    calm = [control(walker.at_home(quadruped), walker.stand()).tau for _ in range(200)]
    assert np.abs(np.diff(calm[-20:], axis=0)).max() < 1e-9
    command = control(walker.at_home(quadruped), walker.stand(a=np.full(12, 300.0)))
    assert np.abs(command.tau - calm[-1]).max() <= scenes.H * 20.0 * (1.0 + 1e-9)
    assert driven_wildly()[MOST_RELEASES - 2] > 100.0  # joints were released before, and calm periods are not saved up


def test_the_torque_of_a_motor_falls_with_its_speed_to_nothing_at_no_load(quadruped):
    """Only accelerating torque is reduced; braking torque is available in full."""
    control = walker.controller(limit=2.0, limits={"speed": 5.0, "no_load": 10.0})
    state = walker.at_home(quadruped)
    v = np.zeros(18)
    v[6:10] = [4.0, 7.5, -7.5, 12.0]
    bounds = control.problem(State(t=0.0, q=state.q, v=quadruped.to_pinocchio(v)), walker.stand()).bounds
    np.testing.assert_allclose(bounds.most[:5] / scenes.H, [2.0, 1.0, 2.0, 0.0, 2.0], rtol=1e-12)
    np.testing.assert_allclose(bounds.least[:5] / scenes.H, [-2.0, -2.0, -1.0, -2.0, -2.0], rtol=1e-12)


def test_a_torque_limit_that_falls_faster_than_the_rate_is_reported(quadruped):
    """From 7.5 to 9 rad/s in the air the largest torque falls from 1 to 0.4 N m, and its rate allows 0.1 N m."""
    control = walker.controller(limit=2.0, limits={"speed": 5.0, "no_load": 10.0, "torque_rate": 100.0})
    state, air = walker.at_home(quadruped), np.zeros(4, dtype=bool)

    def command_at(speed):
        v = np.r_[np.zeros(6), np.full(12, speed)]
        return control(
            structs.replace(state, v=quadruped.to_pinocchio(v)), walker.stand(a=np.full(12, 1e5), stance=air)
        )

    np.testing.assert_allclose(command_at(7.5).tau, 1.0)  # the first torque of all
    command = command_at(9.0)
    np.testing.assert_allclose(command.tau, 0.4, rtol=1e-9)
    assert command.dropped == ("tracking", "rate")
    assert command.status is Status.REPAIRED


class Sticky(SphereContacts):
    """A detector with contacts of negative stiffness, which every model refuses."""

    def detect(self, margin):
        candidates = super().detect(margin)
        return replace(candidates, stiffness=np.full(len(candidates), -1.0))


@pytest.mark.slow
def test_a_landing_that_the_model_cannot_solve_is_predicted_without_impact(quadruped):
    system = scenes.links()
    setup = Setup(system=system, contacts=Sticky(system, scenes.FEET, scenes.RADIUS, plane(), 0.7), h=scenes.H)
    falling = structs.replace(walker.at_home(quadruped), v=-np.eye(18)[2])
    command = solved(controllers.build("id-sap", setup)(falling, walker.stand(stance=np.zeros(4, dtype=bool))))
    assert command.predicted.force.size == 0


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("name", ["id-coulomb-qp", "id-sensed-1", "pid"])
def test_a_wheel_is_turned_the_shorter_way_round(name, beside):
    """The angle of a continuous joint jumps at half a turn; whole turns more in the demand change nothing."""
    model = pin.Model()
    wheel = model.addJoint(0, pin.JointModelRUBY(), pin.SE3.Identity(), "wheel")
    model.appendBodyToJoint(wheel, pin.Inertia(1.0, np.zeros(3), 0.1 * np.eye(3)), pin.SE3.Identity())
    model.addFrame(pin.Frame("rim", wheel, pin.SE3.Identity(), pin.FrameType.OP_FRAME))
    system = machine(model, effort_limit=np.full(1, 1e3))
    contacts = SphereContacts(system, ["rim"], 0.1, plane(offset=-1.0), 0.7)
    gains = Gains(kp=np.ones(1), kd=np.ones(1))
    setup = Setup(system=system, contacts=contacts, h=scenes.H, torque_gains=gains, beside=beside)
    controller = controllers.build(name, setup)

    def torque(at, wanted):
        state = State(t=0.0, q=system.configuration(np.array([at])), v=np.zeros(1))
        controller.reset()
        return controller(state, Reference.standing(np.array([wanted]), 1)).tau

    straight = torque(0.0, 0.02)
    assert straight[0] > 0.0
    for at, wanted in ((np.pi - 0.01, -np.pi + 0.01), (np.pi - 0.01, np.pi + 0.01), (0.0, 0.02 + 6.0 * np.pi)):
        assert torque(at, wanted) == pytest.approx(straight, rel=1e-9)


@pytest.mark.parametrize("rate", [-1.0, 0.0, np.nan])
def test_a_rate_that_is_not_positive_is_refused(rate):
    with pytest.raises(InputError, match=rf"inverse\.rate_limit_nm_s is {rate}; it must be positive, null"):
        InverseSettings(rate_limit_nm_s=rate)


@pytest.mark.parametrize(("limit", "demand"), [(0.4, 10.0), (0.8, 30.0), (1.5, 100.0)])
def test_predicted_forces_match_torques_at_motor_limits(quadruped, limit, demand):
    """A joint at its limit is solved again as a known torque, not only clipped (math.md 12.4)."""
    rng = np.random.default_rng(0)
    control = walker.controller(limit=limit, gains=walker.NO_FEEDBACK, edge_speed_m_s=1e-6, impacts=False)
    misses = []
    for _ in range(60):
        state = moving_state(quadruped, rng, speed=0.01)
        command = control(state, walker.stand(a=demand * rng.normal(size=12)))
        assert command.clipped == bool((np.abs(command.tau) >= limit * (1.0 - 1e-9)).any())
        if not command.clipped:
            continue
        contacts = contacts_of(quadruped, state)
        forward = forward_step(quadruped, quadruped.from_pinocchio(state.v), scenes.H * command.tau, contacts)
        delivered = contacts.force_world(dissipation.solve(forward).impulses, scenes.H).sum(axis=0)
        misses.append(np.abs(delivered - command.predicted.force.sum(axis=0)).max() / walker.WEIGHT)
    assert len(misses) > 40
    # edges within v_tol of rest move at 1e-6 m/s; in one of twenty states joints reach their limits only after the last
    # pass, and are clipped
    assert np.quantile(misses, 0.9) < 1e-3


@pytest.mark.parametrize("name", INVERSE)
def test_a_state_that_is_not_finite_gives_zero_torque_and_is_forgotten(quadruped, name):
    control, fresh = walker.controller(name), walker.controller(name)
    good, reference = walker.at_home(quadruped), walker.stand()
    for bad in (structs.replace(good, q=np.full(19, np.nan)), structs.replace(good, v=np.full(18, np.inf))):
        command = control(bad, reference)
        assert command.status is Status.FAILED
        np.testing.assert_array_equal(command.tau, 0.0)
    np.testing.assert_array_equal(control(good, reference).tau, fresh(good, reference).tau)


class Walls:
    """A detector for a robot between two walls, with its left feet at one and its right feet at the other."""

    def __init__(self, system):
        self.system = system

    def detect(self, margin):
        side = np.array([-1.0, 1.0, -1.0, 1.0])  # LF, RF, LH, RH: normals point to the machine
        normals = np.column_stack((np.zeros(4), side, np.zeros(4)))
        return scenes.foot_contacts(self.system, 0.7, normals=normals)


def spread(name, outward, **settings):
    """A command of a machine between walls; its feet should move outward at `outward` [m/s]."""
    system = scenes.links()
    setup = Setup(
        system=system,
        contacts=Walls(system),
        h=scenes.H,
        acceleration_gains=walker.NO_FEEDBACK,
        settings=InverseSettings(**settings),
    )
    state = walker.at_home(system)
    system.update(state.q, state.v)
    J = scenes.foot_contacts(system, 0.7).jacobian  # blocks along z, x, y
    feet = np.zeros(12)
    feet[8:] = outward * np.array([1.0, -1.0, 1.0, -1.0])
    b = np.linalg.solve(J[:, 6:], feet)
    return controllers.build(name, setup)(state, walker.stand(a=b / scenes.H))


@pytest.mark.parametrize("name", ["id-coulomb-qp", "id-coulomb-lcp"])
def test_tracking_of_conflicting_velocities_is_relaxed_as_by_servos(name):
    """No velocity satisfies the demand and both walls; its projection is zero (math.md 5.1, 12.3)."""
    command = spread(name, 1e-3, project=False)
    assert command.status is Status.REPAIRED
    assert "tracking" in command.dropped
    assert np.isfinite(command.tau).all()
    inward = np.array([-1.0, 1.0, -1.0, 1.0])
    pressing = command.predicted.force[:, 1] * inward
    assert np.all(pressing > 0.0)
    # the torques cause these forces: the model in forward mode gives the same
    system = scenes.links()
    state = walker.at_home(system)
    system.update(state.q, state.v)
    walls = Walls(system).detect(0.0)
    model = dissipation if name == "id-coulomb-qp" else coulomb
    forward = model.solve(forward_step(system, np.zeros(18), scenes.H * command.tau, walls))
    delivered = walls.force_world(forward.impulses, scenes.H)[:, 1] * inward
    assert delivered[inward > 0].sum() == pytest.approx(pressing[inward > 0].sum(), rel=1e-6)
    # forces on the walls are proportional to the demand if friction has no effect
    twice = spread(name, 2e-3, project=False)
    assert np.abs(twice.tau).max() > 1.5 * np.abs(command.tau).max()
    projected = solved(spread(name, 1e-3))
    assert np.abs(projected.tau).max() < 0.1 * np.abs(command.tau).max()


def raise_foot(system, state, foot):
    """The velocity, in our order, of a leg that lifts its foot at 1 m/s while the base rests."""
    system.update(state.q, np.zeros(18))
    J = scenes.foot_contacts(system, 0.7).jacobian
    up = np.zeros(12)
    up[foot] = 1.0
    return np.concatenate((np.zeros(6), np.linalg.solve(J[:, 6:], up)))


def lifted(system, foot, gap):
    """At home with one foot `gap` above the ground [m]: its leg alone has moved."""
    state = walker.at_home(system)
    direction = raise_foot(system, state, foot)

    def excess(length):
        return foot_heights(system, structs.replace(state, q=system.integrate(state.q, direction, length)))[foot] - gap

    length = scipy.optimize.brentq(excess, 0.0, 3.0 * gap, xtol=1e-15)
    return structs.replace(state, q=system.integrate(state.q, direction, length))


@pytest.mark.parametrize(("rising", "contacts"), [(0.0, [0, 1, 2, 3]), (0.3, [0, 2, 3])])  # [m/s]
def test_a_foot_planned_to_stand_but_5_mm_up_is_a_contact_only_while_it_rests(quadruped, rising, contacts):
    state = lifted(quadruped, 1, 5e-3)
    state = structs.replace(state, v=quadruped.to_pinocchio(rising * raise_foot(quadruped, state, 1)))
    reference = walker.stand(q=quadruped.joint_positions(state.q))
    command = solved(walker.controller()(state, reference))
    assert command.predicted.identity.tolist() == contacts


@pytest.mark.parametrize("planned", [True, False])
def test_a_predicted_impact_changes_no_torque(quadruped, planned):
    """The oracle is a plant's step: the same contact model forward from the torques."""
    state = lifted(quadruped, 1, 5e-5)
    state = structs.replace(state, v=quadruped.to_pinocchio(-0.1 * raise_foot(quadruped, state, 1)))
    since, stance = np.full(4, np.inf), np.ones(4, dtype=bool)
    since[1], stance[1] = 1e-3, planned
    reference = walker.stand(q=quadruped.joint_positions(state.q), since_touchdown=since, stance=stance)
    command = walker.controller()(state, reference)
    without = walker.controller(impacts=False)(state, reference)
    np.testing.assert_array_equal(command.tau, without.tau)
    assert without.predicted.identity.tolist() == [0, 2, 3]
    assert command.predicted.identity.tolist() == [0, 1, 2, 3]

    quadruped.update(state.q, state.v)
    candidates = SphereContacts(quadruped, scenes.FEET, scenes.RADIUS, plane(), 0.7).detect(1e-3)
    candidates = replace(candidates, gap=np.array([0.0, 5e-5, 0.0, 0.0]))
    plant = dissipation.solve(
        forward_step(quadruped, quadruped.from_pinocchio(state.v), scenes.H * command.tau, candidates)
    )
    oracle = candidates.force_world(plant.impulses, scenes.H)
    assert oracle[1, 2] > 1.0  # newtons
    np.testing.assert_allclose(command.predicted.force, oracle, rtol=0, atol=1e-6 * walker.WEIGHT)


@pytest.mark.parametrize(
    ("gap", "speed", "meets"),
    [(5e-5, 0.1, True), (2e-4, 0.1, False), (1e-7, 1e-3, False), (-1e-7, 0.1, True), (-1e-4, 0.1, False)],
)
def test_a_contact_meets_the_ground_if_it_is_fast_and_closes_its_gap(quadruped, gap, speed, meets):
    state = walker.at_home(quadruped)
    v = -speed * raise_foot(quadruped, state, 1)
    candidates = contacts_of(quadruped, state)
    foot = candidates.identity.tolist().index(1)
    gaps = np.where(candidates.identity == 1, gap, 0.0)
    contacts = replace(candidates, gap=gaps, surface_velocity=np.zeros(3 * len(candidates)))
    assert meets_ground(contacts.arrays, foot, v, scenes.H, 2e-3) == meets


@pytest.mark.covering
@pytest.mark.parametrize("name", sorted({*INVERSE} - {"id-coulomb-qp-raw"}))
@pytest.mark.parametrize("when", ["to_liftoff", "since_touchdown"])
def test_the_ramp_unloads_feet_before_they_lift_and_after_they_land(quadruped, name, when):
    state = walker.at_home(quadruped)
    for t in (0.012, 0.001):
        times = {when: np.array([t, np.inf, np.inf, t])}
        command = walker.controller(name)(state, walker.stand(**times))
        off = walker.controller(name, ramp_s=0.0)(state, walker.stand(**times))
        accuracy = 1e-5 if name == "id-coulomb-qp-1" else 1e-9
        assert command.predicted.force[:, 2].sum() == pytest.approx(walker.WEIGHT, rel=accuracy)
        # the ridge of stage II gives an unloaded foot 1e-8 of the weight
        spared = command.predicted.force[[0, 3], 2].sum() - off.predicted.force[[0, 3], 2].sum()
        assert spared <= 1e-6 * walker.WEIGHT
        assert in_cones(command.predicted, 0.7, name)
    assert command.predicted.force[[0, 3], 2].sum() < 0.1 * walker.WEIGHT


def test_the_order_of_feet_changes_no_torque(quadruped):
    rng = np.random.default_rng(6)
    for _ in range(5):
        order = rng.permutation(4)
        state = moving_state(quadruped, rng, speed=0.1)
        a = 3.0 * rng.normal(size=12)
        first = walker.controller()(state, walker.stand(a=a))
        permuted = walker.controller(frames=tuple(scenes.FEET[i] for i in order))
        second = permuted(state, walker.stand(a=a))
        np.testing.assert_allclose(second.tau, first.tau, rtol=0, atol=1e-8 * max(1.0, np.abs(first.tau).max()))


@pytest.mark.parametrize("seed", range(10))
def test_the_machine_moves_as_predicted_when_fed_with_the_torque(quadruped, seed):
    """Right inverse with stage II, to ten times the speed at which edges count as at rest."""
    rng = np.random.default_rng(seed)
    state = moving_state(quadruped, rng)
    reference = walker.stand(a=10.0 * rng.normal(size=12))
    edge_speed = 1e-6
    command = solved(walker.controller(gains=walker.NO_FEEDBACK, edge_speed_m_s=edge_speed)(state, reference))
    contacts = contacts_of(quadruped, state)
    v = quadruped.from_pinocchio(state.v)
    b = project(quadruped.M, contacts.jacobian, contacts.surface_velocity, v[6:] + scenes.H * reference.a)
    forward = dissipation.solve(forward_step(quadruped, v, scenes.H * command.tau, contacts))
    # joints answer to foot speeds through legs of 15 cm and light links: another factor ten
    np.testing.assert_allclose(forward.v_plus[6:], b, rtol=0, atol=100 * edge_speed)
