"""Joint errors that contacts without slip forbid cause internal forces, which stop the creep of feet."""

import numpy as np
import pytest
from msgspec import structs
from scipy.linalg import null_space

from idcontrol import controllers, robots
from idcontrol.scenes.walk import WalkConfig, WalkPath, WalkScene
from idcontrol.types import State
from tests import scenes
from tests.controllers import walker

KP = 400.0
CALLS = 200
"""Calls at the same state until the last torque of `id-coulomb-smooth` has faded."""


@pytest.fixture(scope="module")
def standing():
    """The quadruped at home: a joint error that contacts forbid, and the torque of the feedback for it."""
    quadruped = scenes.links()
    state, control = walker.at_home(quadruped), walker.controller(mu=10.0)
    quadruped.update(state.q, state.v)
    M, J = quadruped.M, scenes.foot_contacts(quadruped, 10.0).jacobian
    free, fixed = slice(0, 6), slice(6, 18)
    inner = null_space(J[:, free].T)
    error = np.linalg.solve(M[fixed, fixed], J[:, fixed].T @ inner @ np.linspace(1.0, 2.0, inner.shape[1]))
    error *= 1e-3 / np.abs(error).max()
    felt = 1.0 / np.einsum("ri,ri->r", J[:, free], np.linalg.solve(M[free, free], J[:, free].T).T)
    stiffness = KP * (J[:, fixed] ** 2).T @ felt / 4
    ways = J[:, fixed].T @ inner
    return control, state, error, ways @ np.linalg.lstsq(ways, stiffness * error, rcond=None)[0]


def command(standing, share=1.0, control=None, **changes):
    ours, state, error, _ = standing
    control = ours if control is None else control
    control.reset()
    for _ in range(CALLS):
        command = control(state, structs.replace(walker.stand(**changes), q=scenes.HOME + share * error))
    return command


@pytest.mark.parametrize("name", ["id-coulomb-qp", "id-coulomb-qp-1", "id-sap", "id-constraint", "id-coulomb-smooth"])
def test_a_joint_error_that_contacts_forbid_causes_internal_forces(standing, name):
    control = walker.controller(name, mu=10.0)
    rest, held = command(standing, 0.0, control), command(standing, 1.0, control)
    assert held.tau - rest.tau == pytest.approx(standing[-1], rel=1e-4, abs=1e-4 * np.abs(standing[-1]).max())
    np.testing.assert_allclose(held.predicted.force.sum(axis=0), rest.predicted.force.sum(axis=0), atol=1e-6)


@pytest.mark.slow
def test_feet_creep_ever_slower_on_viscous_ground():
    config = WalkConfig(robot="links", plant="viscous", path=WalkPath(kind="command", stand_from_s=0.0))
    walk = WalkScene.of(config).simulated()
    crept = [np.ptp(tick.state.q[7:] - walk.start.q[7:]) for k, tick in enumerate(walk.ticks(6001)) if k % 3000 == 0]
    assert crept[2] - crept[1] < 0.9 * (crept[1] - crept[0])


@pytest.mark.parametrize(("name", "mu"), [("id-coulomb-qp", np.inf), ("id-noslip-lcp", 0.2)])
def test_steps_that_release_joints_of_a_robot_that_stands_raise_nothing(name, mu):
    """Demands that motors cannot meet; at times one foot is in the air."""
    robot = robots.load("links")
    controller, state, rest = controllers.make(name, robot, mu=mu), robot.standing_state(), robot.standing_reference()
    released = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        controller.reset()
        v, stance = rng.normal(size=18) * rng.choice([0.0, 0.05, 0.3]), rest.stance.copy()
        stance[rng.integers(4)] = rng.random() < 0.5
        for k in range(6):
            reference = structs.replace(rest, a=60.0 * rng.uniform(-1.0, 1.0, 12), stance=stance)
            command = controller(State(t=1e-3 * k, q=state.q, v=v), reference)
            assert np.isfinite(command.tau).all()
            released += "tracking" in command.dropped
    assert released > 10
