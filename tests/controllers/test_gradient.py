"""Derivatives of a control step: physics, differences of the step itself, and places where no derivative exists."""

import numpy as np
import pinocchio as pin
import pytest
from msgspec import structs

from idcontrol import controllers, robots
from idcontrol.controllers.gradient import smoothed
from idcontrol.controllers.gradient.motion import Linear, Roles, saddle
from idcontrol.dynamics.system import System
from idcontrol.errors import InputError, UnknownName
from idcontrol.types import Command, Reference, State, Status
from tests import scenes
from tests.contact import bowl
from tests.controllers import walker
from tests.differences import extended
from tests.parameters import one_fast

pytestmark = pytest.mark.interpreted

STEPS = {"q": 3e-6, "v": 3e-6, "reference": 3e-5, "task": 3e-5, "gains": 1e-3, "limits": 1e-5, "mu": 1e-6}
"""Steps of the differences: changes of forces stay far below the margins of the states below."""


def moving(system, speed, seed=2, feet=4):
    """A quadruped on its feet that moves as a rigid body along the ground, a little away from its reference."""
    rng = np.random.default_rng(seed)
    state = walker.at_home(system)
    v = np.concatenate((speed * np.array([0.6, 0.8, 0.0]), [0.0, 0.0, 0.3 * speed], 0.01 * rng.normal(size=12)))
    stance = np.arange(4) < feet
    reference = walker.stand(
        q=scenes.HOME + 0.003 * rng.normal(size=12),
        v=0.01 * rng.normal(size=12),
        a=rng.normal(size=12),
        stance=stance,
        to_liftoff=np.where(stance, 0.02, np.inf) if feet == 4 else np.full(4, np.inf),
        since_touchdown=np.where(stance, 0.3, np.inf),
    )
    return structs.replace(state, v=system.to_pinocchio(v)), reference


def shifted(controller, state: State, reference: Reference, by: str, change: np.ndarray) -> Command:
    """The command of a fresh step at a changed parameter."""
    system = controller._system
    if by == "q":
        state = structs.replace(state, q=pin.integrate(system.model, state.q, change))
    elif by == "v":
        state = structs.replace(state, v=state.v + change)
    elif by == "reference":
        q, v, a = change.reshape(3, -1)
        reference = structs.replace(reference, q=reference.q + q, v=reference.v + v, a=reference.a + a)
    mu, targets = controller._contacts.mu.copy(), controller._machine.tasks.targets
    wanted = targets.acceleration.copy()
    if by == "mu":
        controller._contacts.mu = mu + change
    elif by == "task":
        targets.acceleration[targets.weight > 0.0] += change
    law = controller._machine.joints
    kept = [part.copy() for part in law[:3]]
    if by in ("gains", "limits"):
        for part, move in zip(law[:2] if by == "gains" else law[2:3], change.reshape(-1, 12), strict=True):
            part += move
    controller.reset()
    command = controller(state, reference)
    controller._contacts.mu, targets.acceleration[:] = mu, wanted
    for part, before in zip(law[:3], kept, strict=True):
        part[:] = before
    return command


def outputs(command: Command, corners: int = 1) -> np.ndarray:
    """Torques and forces; corners of a sole share a force that is nearly indeterminate, so only their sum counts."""
    return joined(command.tau, command.predicted.force, corners)


def joined(tau: np.ndarray, force: np.ndarray, corners: int) -> np.ndarray:
    return np.concatenate((tau, force.reshape(-1, corners, 3).sum(axis=1).ravel()))


def agrees_with_differences(controller, state, reference, by, accuracy, seed=0, step=None, corners=1):
    """Compare one direction of a Jacobian, random or the friction of all feet, with differences of the controller."""
    command, lin = controller.linearize(state, reference)
    assert lin.reason == ""
    columns = lin.jacobian(of="tau", by=by).shape[1]
    direction = np.ones(columns) if by == "mu" else np.random.default_rng(seed).normal(size=columns)

    def along(size: float) -> np.ndarray:
        return outputs(shifted(controller, state, reference, by, size * direction), corners)

    measured, changes = extended(along, step or STEPS[by]), lin.jvp(**{by: direction})
    derived = joined(changes["tau"], changes["force"], corners)
    scale = max(np.abs(measured).max(), 0.01 * np.abs(outputs(command)).max())
    assert np.abs(derived - measured).max() <= accuracy * scale
    return lin


STICKING, SLIDING = 0.005, 0.3
ALL_SCHEMES = sorted(
    name for name in controllers.available() if name.startswith("id-") and not name.startswith("id-sensed")
)


@pytest.mark.parametrize(
    ("name", "mu", "speed", "by"),
    one_fast(
        [
            (*case, by)
            for case in [
                ("id-coulomb-qp", 0.7, STICKING),
                ("id-coulomb-qp", 0.02, SLIDING),
                ("id-noslip-qp", np.inf, STICKING),
                ("id-coulomb-smooth", 0.7, STICKING),
                ("id-coulomb-smooth", 0.02, SLIDING),
            ]
            for by in ("q", "v", "reference", "mu")
        ],
        ("id-coulomb-qp", 0.7, STICKING, "v"),
        *(("id-coulomb-qp", 0.02, SLIDING, by) for by in ("q", "v", "reference", "mu")),
        ("id-noslip-qp", np.inf, STICKING, "reference"),
        ("id-coulomb-smooth", 0.7, STICKING, "q"),
        ("id-coulomb-smooth", 0.02, SLIDING, "mu"),
    ),
)
def test_derivatives_agree_with_differences_of_the_step(quadruped, name, mu, speed, by):
    if by == "mu" and mu == np.inf:
        pytest.skip("infinite friction does not change")
    control = walker.controller(name, mu=mu, impacts=False)
    state, reference = moving(quadruped, speed)
    # 1e-12 of rounding in forces, divided by the step
    lin = agrees_with_differences(control, state, reference, by, 1e-6)
    assert set(lin.active.contacts) == {"stick" if speed == STICKING else "slide"}


WAYS = [
    ("id-coulomb-qp", 0.7, STICKING, 4),
    ("id-coulomb-qp", 0.7, STICKING, 3),  # with internal forces
    ("id-coulomb-qp", 0.02, SLIDING, 4),
    ("id-noslip-qp", np.inf, STICKING, 4),
]


def by_model(quadruped, name, mu, speed, feet, change, step, **directions):
    """Compare with differences of controllers whose robots have the changed models ``change(size)``."""
    state, reference = moving(quadruped, speed, feet=feet)
    command, lin = walker.controller(name, mu=mu, impacts=False).linearize(state, reference, loads=True)
    assert lin.reason == ""

    def along(size: float) -> np.ndarray:
        other = System(change(size), actuated=list(quadruped.actuated_names), effort_limit=quadruped.effort_limit)
        return outputs(walker.controller(name, mu=mu, impacts=False, system=other)(state, reference))

    np.testing.assert_allclose(outputs(command), along(0.0), rtol=1e-8)  # the same robot, to rounding over a ridge
    measured, changes = extended(along, step), lin.jvp(**directions)
    derived = joined(changes["tau"], changes["force"], 1)
    assert np.abs(derived - measured).max() <= 1e-6 * np.abs(measured).max()


@pytest.mark.parametrize(("name", "mu", "speed", "feet"), WAYS)
def test_weaker_gravity_acts_as_a_load(quadruped, name, mu, speed, feet):
    pull, data = np.array([0.3, -0.2, 1.0]), quadruped.model.createData()
    state, _ = moving(quadruped, speed)

    def change(size: float) -> pin.Model:
        model = quadruped.model.copy()
        model.gravity.linear = model.gravity.linear + size * pull
        return model

    load = pin.computeGeneralizedGravity(quadruped.model, data, state.q)
    load = load - pin.computeGeneralizedGravity(change(1.0), data, state.q)
    by_model(quadruped, name, mu, speed, feet, change, 1e-3, load=load)


@pytest.mark.parametrize(("name", "mu", "speed", "feet"), [*WAYS, ("id-coulomb-qp-1", 0.7, STICKING, 4)])
def test_inertias_of_single_bodies_act_as_differences_do(quadruped, name, mu, speed, feet):
    """Each body has other changes of mass, mass centre and inertia."""
    rng = np.random.default_rng(4)
    bodies = [body.toDynamicParameters() for body in quadruped.model.inertias.tolist()]
    changes = [0.0 * bodies[0]] + [body * rng.uniform(-1.0, 1.0, 10) for body in bodies[1:]]

    def change(size: float) -> pin.Model:
        model = quadruped.model.copy()
        for j in range(1, model.njoints):
            model.inertias[j] = pin.Inertia.FromDynamicParameters(bodies[j] + size * changes[j])
        return model

    step = 1e-3 if name == "id-coulomb-qp-1" else 1e-4  # a ridge of 1e-6 amplifies rounding
    by_model(quadruped, name, mu, speed, feet, change, step, inertia=np.concatenate(changes[1:]))


@pytest.mark.parametrize(("name", "mu", "speed", "feet"), WAYS)
def test_turned_normals_act_as_differences_do(name, mu, speed, feet):
    """In a bowl each foot touches its own tangent plane; the differences turn these planes at constant gaps."""
    system = scenes.links()
    state, reference = moving(system, speed, feet=feet)
    place, q = bowl.feet(system, state.q, mu)
    v = bowl.along(place, q, system.from_pinocchio(state.v), feet)
    state = structs.replace(state, q=q, v=system.to_pinocchio(v))
    turn = np.random.default_rng(6).normal(size=(4, 2))

    def along(size: float) -> np.ndarray:
        own = scenes.links()
        control = walker.controller(name, impacts=False, system=own, contacts=bowl.turned(own, place, size * turn))
        return outputs(control(state, reference))

    command, lin = walker.controller(name, impacts=False, system=system, contacts=place).linearize(
        state, reference, loads=True
    )
    assert lin.reason == ""
    assert ("stick" if speed == STICKING else "slide") in lin.active.contacts
    np.testing.assert_allclose(outputs(command), along(0.0), rtol=1e-9, atol=1e-9)
    changes, measured = lin.jvp(normal=turn[:feet].ravel()), extended(along, 1e-5)
    derived = joined(changes["tau"], changes["force"], 1)
    assert np.abs(derived - measured).max() <= 1e-6 * np.abs(measured).max()


def test_a_torque_at_its_limit_has_a_derivative_on_each_side(quadruped):
    """The margin is zero. States a little to either side of the limit have the one-sided derivatives."""
    state, reference = moving(quadruped, STICKING)
    tau, limit = walker.controller(impacts=False)(state, reference).tau, np.full(12, 100.0)
    joint = int(np.abs(tau).argmax())
    limit[joint] = abs(tau[joint])
    control = walker.controller(impacts=False, limit=100.0)
    control._machine.joints[2][:] = limit
    command, lin = control.linearize(state, reference)
    assert lin.margin.multiplier < 1e-9
    direction, step, sides = np.random.default_rng(0).normal(size=36), 1e-5, []
    for sign in (1.0, -1.0):
        measured = sign * (shifted(control, state, reference, "reference", sign * step * direction).tau - command.tau)
        q, v, a = (sign * 1e-9 * direction).reshape(3, -1)
        beside = structs.replace(reference, q=reference.q + q, v=reference.v + v, a=reference.a + a)
        derived = control.linearize(state, beside)[1].jvp(reference=direction)["tau"]
        np.testing.assert_allclose(derived, measured / step, rtol=0, atol=1e-6 * np.abs(derived).max())
        sides.append(derived)
    derived = lin.jvp(reference=direction)["tau"]
    assert min(np.abs(derived - side).max() for side in sides) < 1e-6 < np.abs(sides[0] - sides[1]).max()


@pytest.mark.parametrize("feet", one_fast((1, 2, 4), 4))
def test_a_force_on_the_edge_of_its_cone_has_a_derivative_on_each_side(quadruped, feet):
    """Between sticking and sliding the margin is zero, and the derivative is that of the side that slides."""
    state, reference = moving(quadruped, STICKING, feet=feet)
    control = walker.controller(impacts=False)
    slides, sticks = 0.0, 3.0
    for _ in range(32):
        control._contacts.mu = middle = 0.5 * (slides + sticks)
        control.reset()
        _, lin = control.linearize(state, reference)
        slides, sticks = (slides, middle) if set(lin.active.contacts) == {"stick"} else (middle, sticks)
    control._contacts.mu = slides
    control.reset()
    _, lin = control.linearize(state, reference)
    assert "slide" in lin.active.contacts
    assert lin.reason == ""
    assert lin.margin.force == 0.0
    direction, sides = np.random.default_rng(0).normal(size=36), []
    for sign in (1.0, -1.0):
        q, v, a = (2e-5 * sign * direction).reshape(3, -1)
        beside = structs.replace(reference, q=reference.q + q, v=reference.v + v, a=reference.a + a)
        side = agrees_with_differences(control, state, beside, "reference", 1e-6, step=1e-5)
        sides.append((side.active.contacts, side.jvp(reference=direction)["tau"]))
    derived = lin.jvp(reference=direction)["tau"]
    assert {"stick"} in [set(contacts) for contacts, _ in sides]
    assert min(np.abs(derived - side).max() for _, side in sides) < 1e-4 * np.abs(derived).max()
    assert np.abs(sides[0][1] - sides[1][1]).max() > 0.1 * np.abs(derived).max()


def test_smoothed_derivatives_tend_to_the_exact_derivative(quadruped):
    state, reference = moving(quadruped, STICKING)
    control = walker.controller(impacts=False)
    _, exact = control.linearize(state, reference)
    slope, misses = exact.jacobian(of="tau", by="q"), []
    for sigma in (1e-4, 1e-6):  # the farther velocities still stick
        _, lin = smoothed(control, state, reference, sigma, pairs=2)
        misses.append(np.abs(lin.jacobian(of="tau", by="q") - slope).max())
    assert misses[1] < 1e-6 * np.abs(slope).max()
    assert 10.0 * misses[1] < misses[0]


@pytest.mark.parametrize(("wrong", "line"), [({"sigma": np.nan}, "sigma is nan"), ({"pairs": -3}, "pairs is -3")])
def test_unusable_smoothing_is_named(quadruped, wrong, line):
    state, reference = moving(quadruped, STICKING)
    with pytest.raises(InputError, match=line):
        smoothed(walker.controller(), state, reference, **{"sigma": 0.1} | wrong)


def test_at_a_kink_the_smoothed_derivative_lies_between_both_sides(quadruped):
    """A torque is at its limit."""
    state, reference = moving(quadruped, STICKING)
    limit = np.abs(walker.controller(impacts=False)(state, reference).tau).max()
    control = walker.controller(impacts=False, limit=limit)
    direction, sides = np.random.default_rng(1).normal(size=18), []
    for sign in (1.0, -1.0):
        beside = structs.replace(state, v=state.v + sign * 1e-7 * direction)
        sides.append(control.linearize(beside, reference)[1].jacobian(of="tau", by="reference"))
    _, lin = smoothed(control, state, reference, 1e-7, pairs=2)
    mean, apart = lin.jacobian(of="tau", by="reference"), np.abs(sides[0] - sides[1]).max()
    np.testing.assert_allclose(mean, 0.5 * (sides[0] + sides[1]), rtol=0, atol=1e-5 * apart)  # v and -v in pairs
    assert apart > 1e-3 * np.abs(mean).max()


@pytest.mark.slow
@pytest.mark.parametrize("by", ["q", "v", "reference", "mu"])
@pytest.mark.parametrize("speed", [STICKING, SLIDING])
@pytest.mark.parametrize("name", ["id-coulomb-cone", "id-coulomb-qp-raw", "id-sap", "id-constraint"])
def test_derivatives_of_other_contact_models_agree_with_differences(quadruped, name, speed, by):
    control = walker.controller(name, mu=0.7 if speed == STICKING else 0.02, impacts=False)
    state, reference = moving(quadruped, speed, feet=1)
    # contacts that yield have forces to 1e-9, not 1e-12
    agrees_with_differences(control, state, reference, by, 1e-6 if name != "id-constraint" else 1e-4)


def test_torques_do_not_depend_on_place_or_heading(quadruped):
    """On level ground the forces turn with the robot."""
    control = walker.controller()
    state, reference = moving(quadruped, STICKING)
    _, lin = control.linearize(state, reference)
    level = np.linalg.norm(lin.tau) * 1e-9
    for direction in np.eye(18)[[0, 1]]:
        changes = lin.jvp(q=direction)
        assert max(np.abs(changes["tau"]).max(), np.abs(changes["force"]).max()) < level
    turned = lin.jvp(q=np.eye(18)[5])  # home is level: the base turns about the vertical
    assert np.abs(turned["tau"]).max() < level
    np.testing.assert_allclose(turned["force"], np.cross([0.0, 0.0, 1.0], lin.force), rtol=0, atol=level)


def test_in_the_air_torques_move_the_inertia_of_the_joints_with_a_free_base(quadruped):
    """∂τ/∂a_ref is the Schur complement of the base in M, and v⁺ follows the reference."""
    control = walker.controller()
    state, reference = moving(quadruped, STICKING)
    q = state.q.copy()
    q[2] += 0.5
    _, lin = control.linearize(structs.replace(state, q=q), reference)
    quadruped.update(q, state.v)
    M = quadruped.M
    free = M[6:, 6:] - M[6:, :6] @ np.linalg.solve(M[:6, :6], M[:6, 6:])
    np.testing.assert_allclose(lin.jacobian(of="tau", by="reference")[:, 24:], free, rtol=0, atol=1e-12)
    moves = lin.jacobian(of="v_next", by="reference")[quadruped.order[6:], 24:]
    np.testing.assert_allclose(moves, scenes.H * np.eye(12), rtol=0, atol=1e-15)
    assert lin.reason == ""
    assert lin.active.contacts == ()
    assert lin.margin.force == np.inf


def test_the_velocity_after_the_step_has_its_derivative(quadruped):
    """v_next of two neighbouring states differs by the Jacobian."""
    control = walker.controller(mu=0.02)
    state, reference = moving(quadruped, SLIDING)
    direction = np.random.default_rng(4).normal(size=18)

    def after(size: float) -> np.ndarray:
        control.reset()
        return control.linearize(structs.replace(state, v=state.v + size * direction), reference)[1].v_next

    lin = control.linearize(state, reference)[1]
    measured = extended(after, 1e-5)
    np.testing.assert_allclose(lin.jvp(v=direction)["v_next"], measured, rtol=0, atol=1e-8 * np.abs(measured).max())


def test_products_from_both_sides_agree(quadruped):
    rng = np.random.default_rng(5)
    control = walker.controller()
    _, lin = control.linearize(*moving(quadruped, STICKING))
    changes = {"q": rng.normal(size=18), "v": rng.normal(size=18), "mu": rng.normal(size=4)}
    tau, force, v_next = rng.normal(size=12), rng.normal(size=(4, 3)), rng.normal(size=18)
    forward, backward = lin.jvp(**changes), lin.vjp(tau, force, v_next)
    ahead = tau @ forward["tau"] + (force * forward["force"]).sum() + v_next @ forward["v_next"]
    assert ahead == pytest.approx(sum(backward[name] @ change for name, change in changes.items()), rel=1e-12)


def test_linearize_returns_the_command_of_a_call(quadruped):
    state, reference = moving(quadruped, STICKING)
    control, other = walker.controller(), walker.controller()
    for _ in range(2):  # the second step begins from the torques of the first
        command, _ = control.linearize(state, reference)
        np.testing.assert_allclose(command.tau, other(state, reference).tau, rtol=0, atol=1e-12)


def test_feet_that_slide_in_parallel_have_a_derivative_by_their_common_friction_alone(quadruped):
    """Four parallel edges have rank 3: if the friction of one foot changes, one foot leaves, and the shared load jumps.

    So differences by the friction of one foot grow without limit.
    """
    control = walker.controller(mu=0.02, impacts=False)
    state, reference = moving(quadruped, SLIDING)
    lin = agrees_with_differences(control, state, reference, "mu", 1e-6)
    assert lin.error["mu"] > 1e-3
    assert max(lin.error[by] for by in ("q", "v", "reference")) < 1e-9
    before = outputs(shifted(control, state, reference, "mu", np.zeros(4)))
    for size in (1e-6, -1e-6):
        after = outputs(shifted(control, state, reference, "mu", size * np.eye(4)[0]))
        assert np.abs(after - before).max() > 1.0  # [N]


def test_soles_that_slide_have_a_derivative_by_their_common_friction_alone():
    """Friction of all corners moves torques smoothly; friction of one corner, or of one sole, moves the load away."""
    control = controllers.make("id-coulomb-qp", robots.load("g1"), mu=0.1, rate_hz=1000)
    system, rng = control._system, np.random.default_rng(2)
    state, reference = robots.load("g1").standing_state(system), robots.load("g1").standing_reference()
    v = np.concatenate(([0.2, 0.25, 0.0, 0.0, 0.0, 0.1], 0.01 * rng.normal(size=reference.q.size)))
    state = structs.replace(state, v=system.to_pinocchio(v))
    reference = structs.replace(reference, a=rng.normal(size=reference.q.size))
    _, lin = control.linearize(state, reference)
    assert set(lin.active.contacts) == {"slide"}
    assert lin.reason == ""
    assert lin.error["mu"] > 1e-3

    def shown(direction, size):
        return shifted(control, state, reference, "mu", size * direction).tau

    together, one_sole, one_corner = np.ones(8), np.arange(8) < 4, np.arange(8) < 1
    measured = extended(lambda size: shown(together, size), STEPS["mu"])
    np.testing.assert_allclose(lin.jvp(mu=together)["tau"], measured, rtol=0, atol=1e-6 * np.abs(measured).max())
    for direction in (one_sole, one_corner):
        assert np.abs(shown(direction, 1e-6) - lin.tau).max() > 1.0  # [N m]


def test_a_motor_at_its_limit_keeps_its_torque(quadruped):
    state, reference = moving(quadruped, STICKING)
    free = walker.controller()
    largest = np.abs(free(state, reference).tau).max()
    control = walker.controller(limit=0.9 * largest)
    command, lin = control.linearize(state, reference)
    limited = np.flatnonzero([joint != "free" for joint in lin.active.joints])
    assert limited.size > 0
    assert lin.reason == ""
    np.testing.assert_allclose(np.abs(command.tau[limited]), 0.9 * largest, rtol=1e-8)
    own = lin.jacobian(of="tau", by="limits")[limited][:, limited]
    np.testing.assert_allclose(own, np.diag(np.sign(command.tau[limited])), rtol=0, atol=1e-8)
    for by in ("q", "v", "reference", "gains", "limits"):
        if by != "limits":
            assert np.abs(lin.jacobian(of="tau", by=by)[limited]).max() < 1e-8
        agrees_with_differences(control, state, reference, by, 1e-6)


def test_the_margin_is_zero_if_the_vertex_below_a_ramp_does_not_load_a_foot(quadruped):
    """Before lift-off stage II starts from a vertex of the LCP, which loads three of four parallel edges."""
    control = walker.controller("id-coulomb-lcp", mu=0.02, impacts=False)
    _, lin = control.linearize(*moving(quadruped, SLIDING))
    assert lin.active.contacts == ("slide",) * 4
    assert lin.margin.force == 0.0


@pytest.mark.parametrize("name", ["id-coulomb-qp", "id-coulomb-lcp"])
def test_the_margin_of_a_sliding_foot_ends_where_a_second_edge_of_its_pyramid_rubs(quadruped, name):
    """Friction acts along the axis with the faster slip."""
    control = walker.controller(name, mu=0.02, impacts=False)
    state, reference = moving(quadruped, SLIDING)
    joints, margins = np.zeros(12), []
    still = structs.replace(reference, q=state.q[7:], v=joints, a=joints)
    for across in (0.1, 0.19):
        v = np.concatenate(([0.2, across, 0.0, 0.0, 0.0, 0.0], joints))
        control.reset()
        _, lin = control.linearize(structs.replace(state, v=quadruped.to_pinocchio(v)), still)
        assert set(lin.active.contacts) == {"slide"}
        margins.append(lin.margin.speed)
    assert 0.0 < margins[1] < 0.1 * margins[0]


def moves_force(control, state, reference, lin, towards, size):
    """Linearize where the force of the only foot has moved this far along `towards`, a unit vector [N]."""
    change = size * np.linalg.lstsq(lin.jacobian(of="force", by="reference"), towards, rcond=None)[0]
    q, v, a = change.reshape(3, -1)
    control.reset()
    return control.linearize(
        state, structs.replace(reference, q=reference.q + q, v=reference.v + v, a=reference.a + a)
    )[1]


@pytest.mark.parametrize("name", ["id-coulomb-qp", "id-coulomb-lcp"])
def test_the_margin_of_a_foot_between_two_edges_of_its_pyramid_is_in_newtons(quadruped, name):
    """A foot that slips equally fast along both axes loses its smaller friction, which is μ times a multiplier."""
    mu = 0.05
    control = walker.controller(name, mu=mu, impacts=False)
    state, reference = moving(quadruped, SLIDING, feet=1)
    v = quadruped.to_pinocchio(np.concatenate(([0.2, 0.2, 0.0, 0.0, 0.0, 0.0], np.zeros(12))))
    state, reference = structs.replace(state, v=v), structs.replace(reference, q=state.q[7:], v=v[6:], a=v[6:])
    _, lin = control.linearize(state, reference)
    (force,) = lin.force
    small = int(np.abs(force[:2]).argmin())
    assert 0.0 < abs(force[small]) < 0.9 * abs(force[1 - small])
    assert abs(force[small]) < lin.margin.force < 1.5 * abs(force[small])  # far below the multiplier, force / μ
    edges = np.array([[-mu, 0.0, 1.0], [0.0, -mu, 1.0]]).T
    towards = -np.linalg.pinv(edges)[small]
    towards /= np.linalg.norm(towards)
    frictions = [
        abs(moves_force(control, state, reference, lin, towards, share * lin.margin.force).force[0, small])
        for share in (0.0, 0.5, 0.99, 1.01)
    ]
    np.testing.assert_allclose(frictions[1:3] / frictions[0], (0.5, 0.01), rtol=0, atol=1e-3)  # linear to 1e-3
    assert frictions[3] < 1e-6 * frictions[0]


@pytest.mark.parametrize("name", ["id-coulomb-cone", "id-sap"])
def test_the_margin_of_a_foot_on_a_circular_cone_ends_where_it_slides(quadruped, name):
    """The force points between the edges of a pyramid, outside of which part of the circular cone lies."""
    control = walker.controller(name, mu=3.0, impacts=False)
    state, reference = moving(quadruped, STICKING, feet=1)
    _, lin = control.linearize(state, reference)
    x, y, z = lin.force[0]
    control._contacts.mu = mu = 1.1 * np.hypot(x, y) / z
    control.reset()
    _, lin = control.linearize(state, reference)
    x, y, z = lin.force[0]
    assert lin.active.contacts == ("stick",)
    assert abs(x) + abs(y) > mu * z
    tangent = np.array([x, y]) / np.hypot(x, y)
    towards = np.r_[tangent, -mu] / np.hypot(1.0, mu)
    assert lin.margin.force == pytest.approx((mu * z - np.hypot(x, y)) / np.hypot(1.0, mu), rel=1e-9)
    for share, kind in ((0.98, "stick"), (1.02, "slide")):
        there = moves_force(control, state, reference, lin, towards, share * lin.margin.force)
        assert there.active.contacts == (kind,)


@pytest.mark.parametrize("feet", one_fast((0, 1, 4), 0))
@pytest.mark.parametrize("name", one_fast(ALL_SCHEMES, "id-constraint", "id-coulomb-qp-1", "id-sap"))
def test_every_scheme_has_derivatives_with_any_number_of_contacts(quadruped, name, feet):
    """Without contacts all schemes track the demand, so they have the same derivative."""
    control = walker.controller(name, impacts=False)
    state, reference = moving(quadruped, STICKING, feet=feet)
    _, lin = control.linearize(state, reference, loads=True)
    assert all(np.isfinite(slope).all() for slope in lin.slopes.values())
    assert lin.force.shape == (feet, 3)
    assert not np.isnan(lin.margin).any()
    if not feet:
        assert lin.reason == ""
        _, other = walker.controller(impacts=False).linearize(state, reference, loads=True)
        for by in ("q", "v", "reference", "gains", "load"):
            expected = other.jacobian(of="tau", by=by)
            scale = np.abs(expected).max()
            np.testing.assert_allclose(lin.jacobian(of="tau", by=by), expected, rtol=0, atol=1e-9 * scale)
        for by in ("v", "reference"):
            agrees_with_differences(control, state, reference, by, 1e-6)
        assert lin.active.contacts == ()
        assert lin.margin.force == np.inf


def test_four_feet_that_stick_have_no_derivative_of_forces_on_the_circular_cone(quadruped):
    """Newton's method finds any of the many impulses."""
    control = walker.controller("id-coulomb-cone", mu=0.7)
    state, reference = moving(quadruped, STICKING)
    command, lin = control.linearize(state, structs.replace(reference, to_liftoff=np.full(4, np.inf)))
    assert command.status is Status.SOLVED
    assert "not unique" in lin.reason
    assert all(np.isfinite(lin.jacobian(of=of, by="q")).all() for of in ("tau", "force", "v_next"))


def test_gains_have_their_derivatives_with_internal_forces(quadruped):
    control = walker.controller(impacts=False)
    state, reference = moving(quadruped, STICKING)
    standing = structs.replace(reference, to_liftoff=np.full(4, np.inf), since_touchdown=np.full(4, 2.0))
    agrees_with_differences(control, state, standing, "gains", 1e-6)


@pytest.mark.parametrize("by", ["q", "v", "reference"])
def test_a_ridge_gives_the_forces_of_sticking_feet_a_derivative(quadruped, by):
    """A ridge of 1e-6 amplifies rounding to 1e-10 of the forces, so the differences take larger steps."""
    control = walker.controller("id-coulomb-qp-1", impacts=False)
    state, reference = moving(quadruped, STICKING, seed=5)
    agrees_with_differences(control, state, reference, by, 1e-6, step=100.0 * STEPS["q"])


@pytest.mark.parametrize("rank", [2, 5, 6])
def test_sticking_contacts_take_the_shortest_solution_of_their_equations(rank):
    rng, n, k = np.random.default_rng(rank), 4, 6
    X = rng.normal(size=(k, rank)) @ rng.normal(size=(rank, 3 * n))
    B = np.kron(np.eye(n), rng.normal(size=(3, 2)))[:, rng.permutation(2 * n)]
    none = np.zeros_like(B)
    roles = Roles(np.zeros(n, int), np.zeros(2 * n, int), B, B.T.copy(), none, none.T, np.zeros((3 * n, 3 * n)))
    right = np.vstack((rng.normal(size=(k, 9)), (X @ B).T @ rng.normal(size=(k, 9))))  # the contacts can hold
    z, missed = saddle(Linear(X, X @ B, none, roles), right, False)
    whole = np.block([[np.eye(k), -X @ B], [(X @ B).T, np.zeros((2 * n, 2 * n))]])
    np.testing.assert_allclose(z, np.linalg.lstsq(whole, right, rcond=1e-10)[0], rtol=0, atol=1e-11 * np.abs(z).max())
    np.testing.assert_allclose(missed, whole @ z - right, rtol=0, atol=1e-12 * np.abs(right).max())


def test_unusable_requests_say_what_is_wrong(quadruped):
    state, reference = moving(quadruped, STICKING)
    control = walker.controller()
    with pytest.raises(InputError, match="not finite"):
        control.linearize(structs.replace(state, v=np.full(18, np.nan)), reference)
    _, lin = control.linearize(state, reference)
    with pytest.raises(UnknownName, match="output"):
        lin.jacobian(of="torque", by="q")
    with pytest.raises(UnknownName, match="parameter"):
        lin.jacobian(of="tau", by="weight")
    for unusable, message in (
        (lambda: lin.jvp(q=np.ones(3)), r"change of q has shape \(3,\); it needs \(18,\)"),
        (lambda: lin.vjp(force=np.ones((3, 4))), r"gradient by force has shape \(3, 4\); it needs \(4, 3\)"),
        (lambda: lin.vjp(tau=np.ones(1)), r"gradient by tau has shape \(1,\); it needs \(12,\)"),
        (lambda: lin.vjp(tau="large"), r"gradient by tau is not an array of numbers; it needs shape \(12,\)"),
        (lambda: lin.jvp(q=np.full(18, np.nan)), "change of q is not finite at index 0"),
        (lambda: lin.jacobian(of="tau", by=["q"]), r"parameter \['q'\] is not a string; ask for one of gains, .* at a"),
        (lambda: lin.jacobian(of=None, by="q"), "output None is not a string"),
        (lambda: lin.jacobian(of="tau", by="load"), "no derivative by 'load': call linearize with loads=True"),
        (lambda: lin.jacobian(of="tau", by="inertia"), "no derivative by 'inertia': call linearize with loads=True"),
    ):
        with pytest.raises(InputError, match=message):
            unusable()
