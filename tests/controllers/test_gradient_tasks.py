"""Derivatives of steps with whole-body tasks, on point feet and on soles, against differences of the step itself."""

import numpy as np
import pinocchio as pin
import pytest
from msgspec import structs

from idcontrol import controllers, robots, tasks
from idcontrol.controllers import InverseSettings
from idcontrol.dynamics.system import System
from idcontrol.errors import InputError
from tests.controllers.test_gradient import ALL_SCHEMES, agrees_with_differences, outputs
from tests.differences import extended
from tests.parameters import one_fast

pytestmark = pytest.mark.interpreted


def stepping(name, listed, mu=0.6, speed=0.01, seed=0):
    """A controller with tasks, and a state close to standing whose feet hardly slip."""
    robot, rng = robots.load(name), np.random.default_rng(seed)
    controller = controllers.make(
        "id-coulomb-qp", robot, mu=mu, rate_hz=1000, tasks=listed, settings=InverseSettings(impacts=False)
    )
    system, m = controller._system, controller._system.n_velocities
    state, reference = robot.standing_state(system), robot.standing_reference()
    bent = np.r_[np.zeros(6), 2e-3 * rng.normal(size=m - 6)]
    q = pin.integrate(system.model, state.q, system.to_pinocchio(bent))
    system.update(q, np.zeros(m))
    J, v = controller._contacts.detect(np.inf).jacobian, speed * rng.normal(size=m)
    v -= 0.9 * np.linalg.pinv(J, rcond=1e-9) @ (J @ v)
    change = [0.003, 0.01, 1.0] * rng.normal(size=(m - 6, 3))
    reference = structs.replace(
        reference, q=reference.q + change[:, 0], v=reference.v + change[:, 1], a=reference.a + change[:, 2]
    )
    return controller, structs.replace(state, q=q, v=system.to_pinocchio(v)), reference


def trunk(acceleration):
    """Tasks on the trunk of go1 that accelerates."""
    position = tasks.Frame("trunk", "position", kp=100.0)
    position.set(robots.load("go1").standing_state().q[:3], None, acceleration)
    return [position, tasks.Frame("trunk", "orientation", kp=50.0)]


@pytest.mark.parametrize("by", one_fast(("q", "v", "reference", "task", "mu"), "v", "task", "mu"))
@pytest.mark.parametrize(
    ("listed", "mu", "demand"),
    [
        ([tasks.Frame("trunk", strict=True, kp=50.0, axes="LOCAL"), tasks.Posture(kp=30.0)], 0.6, "free"),
        (trunk([1.5, 0.3, 0.0]), 0.1, "qp"),  # friction limits the acceleration
    ],
    ids=["free", "qp"],
)
def test_derivatives_with_tasks_agree_with_differences(listed, mu, demand, by):
    controller, state, reference = stepping("go1", listed, mu)
    agrees_with_differences(controller, state, reference, by, 1e-6)
    command, lin = controller.linearize(state, reference)
    assert command.demand == demand
    assert lin.jacobian(of="task", by="task").shape == (6, 6)


@pytest.mark.slow
@pytest.mark.parametrize("by", ["q", "v", "reference", "task"])
@pytest.mark.parametrize(("name", "torso"), [("talos", "torso_2_link"), ("g1", "torso_link")])
def test_derivatives_on_soles_agree_with_differences(name, torso, by):
    listed = [tasks.CoM(), tasks.Frame(torso, "orientation"), tasks.Posture(kp=30.0)]
    controller, state, reference = stepping(name, listed)
    agrees_with_differences(controller, state, reference, by, 1e-6, step=3e-5, corners=4)


def test_a_strict_task_does_not_depend_on_the_posture():
    """The reference of the joints moves neither the strict task nor what contacts forbid."""
    controller, state, reference = stepping("go1", [tasks.Frame("trunk", strict=True)])
    _, lin = controller.linearize(state, reference)
    assert np.abs(lin.task).max() < 1e-9
    assert np.abs(lin.jacobian(of="task", by="reference")).max() < 1e-9
    np.testing.assert_allclose(lin.jacobian(of="task", by="task"), 0.0, atol=1e-9)
    moves = lin.jacobian(of="v_next", by="task")[:6]  # the trunk accelerates as desired, h is 1 ms
    # v_next is in the axes at the end of the period, which turn by 1e-5
    np.testing.assert_allclose(np.linalg.svd(moves, compute_uv=False), 1e-3, rtol=1e-5)


@pytest.mark.parametrize(
    ("listed", "mu"), [([tasks.CoM(), tasks.Momentum()], 0.6), (trunk([1.5, 0.3, 0.0]), 0.1)], ids=["free", "qp"]
)
def test_with_tasks_weaker_gravity_acts_as_a_load(listed, mu):
    _, state, reference = stepping("go1", listed, mu)
    robot, pull = robots.load("go1"), np.array([0.3, -0.2, 1.0])
    like = robot.system()

    def pulled(size):
        model = like.model.copy()
        model.gravity.linear = model.gravity.linear + size * pull
        system = System(model, actuated=list(like.actuated_names), effort_limit=like.effort_limit, limits=like.limits)
        feet, settings = robot.contacts(mu, system=system), InverseSettings(impacts=False)
        setup = controllers.Setup(system=system, contacts=feet, h=1e-3, robot=robot, settings=settings, tasks=listed)
        return controllers.build("id-coulomb-qp", setup), model

    models = like.model, pulled(1.0)[1]
    weights = [pin.computeGeneralizedGravity(model, like.model.createData(), state.q) for model in models]
    _, lin = pulled(0.0)[0].linearize(state, reference, loads=True)
    changes = lin.jvp(load=weights[0] - weights[1])
    measured = extended(lambda size: outputs(pulled(size)[0](state, reference)), 1e-4)
    derived = np.concatenate((changes["tau"], changes["force"].ravel()))
    np.testing.assert_allclose(derived, measured, rtol=0, atol=1e-6 * np.abs(measured).max())
    with pytest.raises(InputError, match="no derivative by 'inertia': tasks, id-sap and id-constraint depend on it"):
        lin.jvp(inertia=np.zeros(130))


@pytest.mark.parametrize(
    "listed", [[tasks.CoM()], [tasks.Frame("trunk"), tasks.Posture(kp=30.0)]], ids=["com", "trunk"]
)
def test_a_standing_pose_has_derivatives(listed):
    """All demands are zero, so only rounding pulls at the tasks."""
    robot = robots.load("go1")
    control = controllers.make("id-coulomb-qp", robot, mu=0.6, rate_hz=1000, tasks=listed)
    state, reference = robot.standing_state(), robot.standing_reference()
    _, lin = control.linearize(state, reference)
    assert lin.reason == ""
    bent = structs.replace(state, v=1e-4 * np.random.default_rng(0).normal(size=18))
    _, beside = control.linearize(bent, reference)
    for by in ("q", "v", "reference", "task"):
        slope = beside.jacobian(of="tau", by=by)
        np.testing.assert_allclose(lin.jacobian(of="tau", by=by), slope, rtol=0, atol=1e-2 * np.abs(slope).max())


@pytest.mark.parametrize("feet", one_fast((0, 1, 4), 0))
@pytest.mark.parametrize("name", one_fast(ALL_SCHEMES, "id-coulomb-lcp", "id-coulomb-qp-1", "id-sap"))
def test_every_scheme_has_derivatives_with_tasks_and_any_number_of_contacts(name, feet):
    robot = robots.load("go1")
    listed, settings = [tasks.Frame("trunk", "orientation", kp=50.0)], InverseSettings(impacts=False)
    control = controllers.make(name, robot, mu=0.6, rate_hz=1000, tasks=listed, settings=settings)
    state = robot.standing_state()
    state = structs.replace(state, v=1e-3 * np.random.default_rng(0).normal(size=18))
    reference = structs.replace(robot.standing_reference(), stance=np.arange(4) < feet)
    _, lin = control.linearize(state, reference, loads=True)
    assert all(np.isfinite(slope).all() for slope in lin.slopes.values())
    assert lin.jacobian(of="task", by="v").shape == (3, 18)
    assert not np.isnan(lin.margin).any()
    if not feet:
        assert lin.reason == ""
        agrees_with_differences(control, state, reference, "task", 1e-6)


def test_multipliers_of_a_foot_without_load_are_positive():
    """A foot carries no load; few impulses balance six momenta, so the multipliers are not unique."""
    controller, state, reference = stepping("go1", trunk([0.0, 0.0, -9.0]), 0.8, speed=1.0, seed=5)
    _, lin = controller.linearize(state, reference)
    assert lin.reason == ""
    assert (np.abs(lin.force).max(axis=1) < 1e-9).sum() == 1
    assert lin.margin.multiplier > 0.0


def test_tasks_without_derivatives_are_refused():
    for task in (tasks.Force("FL_foot"), tasks.Frame("FL_foot", relative_to="trunk")):
        controller, state, reference = stepping("go1", [task])
        with pytest.raises(InputError, match="no Force tasks, relative frames"):
            controller.linearize(state, reference)


def test_motors_at_their_limits_keep_their_torques():
    """Tasks keep a millionth of the torque range free."""
    controller, state, reference = stepping("go1", trunk([0.0, 0.0, 140.0]), 0.8)
    command, lin = controller.linearize(state, reference)
    saturated = np.abs(command.tau) > (1.0 - 1e-5) * controller._system.effort_limit
    assert lin.reason == ""
    assert saturated.sum() == 5
    np.testing.assert_allclose(lin.jacobian(of="tau", by="task")[saturated], 0.0, atol=1e-9)
