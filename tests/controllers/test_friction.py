"""The estimated friction of the ground: learnt from sliding feet only."""

import copy

import numpy as np
import pytest
from msgspec import structs

from idcontrol import controllers
from idcontrol.controllers.friction import REGAINED_S
from idcontrol.scenes.disturbances import Disturbance, Kick, Patch, SensorNoise
from idcontrol.scenes.settings import AssumedFriction
from idcontrol.scenes.walk import WalkConfig, WalkPath, WalkScene
from tests import scenes
from tests.controllers import walker
from tests.parameters import one_fast

FORWARD = WalkPath(kind="command", command=((0.0, 0.2, 0.0, 0.0),))


def walked(duration_s, *, nominal=None, learns=True, **changes):
    """A walk tick by tick: estimated friction, joint errors [rad], torques, error of the base's height [m]."""
    settings = controllers.InverseSettings(learn_friction=learns)
    scene = WalkScene.of(WalkConfig(friction=AssumedFriction(estimate=nominal), inverse=settings, **changes))
    walk = scene.simulated()
    system, shown, error, torque, height = scene.robot.system(), [], [], [], []
    for tick in walk.ticks(round(1000 * duration_s)):
        shown.append(walk.controller.friction)
        error.append(np.abs(tick.reference.q - system.joint_positions(tick.state.q)).mean())
        torque.append(tick.command.tau)
        height.append(tick.state.q[2] - tick.reference.base_position[2])
    return np.array(shown), np.array(error), np.array(torque), np.array(height)


def is_close(shown, mu):
    """True if the estimate is within a fifth of the friction, half a second after it first changed."""
    first = int(np.argmax(np.isfinite(shown)))
    return bool(np.isfinite(shown[first:]).all() and abs(shown[first + 500] / mu - 1.0) < 0.2)


def upright(height):
    """True if the base stayed within a centimetre of its height."""
    return bool(np.abs(height).max() < 0.01)


@pytest.mark.parametrize("payload", one_fast((0.0, 0.2), 0.2))
def test_a_robot_that_assumes_eight_times_the_friction_learns_it_and_walks_on(payload):
    """Without the estimate the robot falls within two seconds; an unmodelled load changes nothing."""
    load = Disturbance(payload_share=payload)
    shown, error, _, height = walked(2.0, mu=0.1, nominal=0.8, disturbance=load)
    assert is_close(shown, 0.1)
    if payload == 0.0:
        assert upright(height)
        assert error.mean() < 1.5 * walked(2.0, mu=0.1)[1].mean()


def test_a_patch_of_ice_is_crossed():
    """Without the estimate the feet would slide apart."""
    patch = Patch(mu=0.1, x_m=(0.25, 0.6))
    shown, _, _, height = walked(3.0, path=FORWARD, patch=patch)
    assert is_close(shown, 0.1)
    assert upright(height)


@pytest.mark.slow
@pytest.mark.parametrize("mu", one_fast((0.1, 0.8), 0.8))
def test_correctly_assumed_friction_changes_no_torque(mu):
    learns, nominal = (walked(0.8, learns=which, mu=mu) for which in (True, False))
    np.testing.assert_array_equal(learns[2], nominal[2])
    assert np.isinf(learns[0]).all()


@pytest.mark.parametrize(
    "hardship",
    [
        pytest.param({"noise": SensorNoise(position_m=1e-3, angle_rad=0.01)}, marks=pytest.mark.slow),
        pytest.param({"kick": Kick(at_s=0.6, velocity_m_s=(0.0, 0.4, 0.0))}, marks=pytest.mark.slow),
        {"disturbance": Disturbance(delay_s=0.005)},
    ],
    ids=["noise", "kick", "delay"],
)
def test_noise_kicks_and_delays_do_not_change_the_friction_estimate(hardship):
    assert np.isinf(walked(1.0, **hardship)[0]).all()


def test_assumed_friction_recovers_slowly_and_never_exceeds_its_nominal_value(quadruped):
    controller, state = walker.controller(mu=0.7), walker.at_home(quadruped)
    controller(state, walker.stand())
    controller._friction.mu[0] = 0.84
    shown = []
    for k in range(1, 2000):
        controller(structs.replace(state, t=k * scenes.H), walker.stand())
        shown.append(controller.friction)
    growing = np.isfinite(shown)
    expected = 0.84 * (1.0 + scenes.H / REGAINED_S) ** np.arange(1, growing.sum() + 1)
    assert np.array(shown)[growing] == pytest.approx(expected, rel=1e-9)
    assert 0.8 * expected[-1] < 0.7 <= 0.8 * expected[-1] * np.exp(2 * scenes.H / REGAINED_S)


def test_forces_stay_within_the_friction_that_was_shown(quadruped):
    controller, state = walker.controller(mu=0.7), walker.at_home(quadruped)
    sideways = walker.stand(q=scenes.HOME + 0.05)
    for shown in (np.inf, 0.1):
        controller._friction.mu[0] = shown
        x, y, z = controller(state, sideways).predicted.force.T
        ratio = (np.abs(x) + np.abs(y)) / z
        assert ratio.max() <= min(0.7, 0.8 * shown) + 1e-9
    assert ratio.max() > 0.05


def test_a_copy_remembers_the_ground_and_reset_forgets_it(quadruped):
    controller = walker.controller()
    controller._friction.mu[0] = 0.3
    assert copy.deepcopy(controller).friction == 0.3
    controller.reset()
    assert controller.friction == np.inf


WHOLE = walker.WEIGHT


def slid(system, foot, *, speed=0.1, angle=0.0, mu=0.1, carries=0.5, ticks=40, missing=0.0, every=1, **plan):
    """Return the estimated friction of a robot at home with one foot that slides steadily.

    The torques balance all forces.

    Args:
        system: The robot.
        foot: The foot that slides.
        speed: Speed of the foot [m/s].
        angle: Direction of sliding from the first tangent [rad].
        mu: Friction of the foot.
        carries: Share of the weight on the foot.
        ticks: Duration [periods].
        missing: Unmodelled upward force on the base [N].
        every: The controller is called once in this number of ticks.
        **plan: Changes to the reference.
    """
    controller, state = walker.controller(mu=0.7), walker.at_home(system)
    system.update(state.q, np.zeros(18))
    J, rows = scenes.foot_contacts(system, 0.7).jacobian, np.array([0, 4, 8]) + foot
    slip = speed * np.array([0.0, np.cos(angle), np.sin(angle)])
    v = np.zeros(18)
    velocity = np.zeros(12)
    velocity[rows] = slip
    v[6:] = np.linalg.solve(J[:, 6:], velocity)
    system.update(state.q, system.to_pinocchio(v))
    f = np.zeros(12)
    f[rows] = carries * WHOLE * np.array([1.0, -mu * np.cos(angle), -mu * np.sin(angle)])
    others = np.delete(np.arange(12), rows)
    base = system.bias[:6] - J[:, :6].T @ f
    base[2] -= missing
    f[others] = np.linalg.lstsq(J[others, :6].T, base, rcond=None)[0]
    torque = system.bias[6:] - J[:, 6:].T @ f
    for k in range(0, ticks, every):
        now = structs.replace(state, t=k * scenes.H, v=system.to_pinocchio(v))
        assert not controller._intake.take(now, walker.stand(**plan))
        controller._look(now.t)
        controller._machine.result.tau[:] = torque
    return controller.friction


@pytest.mark.parametrize(
    ("changes", "shows"),
    [
        ({"speed": 0.032}, True),
        ({"speed": 0.028}, False),  # it creeps
        ({"carries": 0.45}, True),
        ({"carries": 0.3}, False),  # it scrapes
        ({"mu": 0.69}, True),
        ({"mu": 0.71}, False),  # the friction is nominal
        ({"missing": 0.1 * WHOLE}, True),
        ({"missing": -0.3 * WHOLE}, False),  # an unmodelled force holds the base
        ({"every": 2}, False),  # missed periods give no information
        ({"since_touchdown": np.full(4, 1e-3)}, False),  # it lands
        ({"stance": np.array([True, False, True, True])}, False),  # it swings
    ],
)
def test_friction_is_estimated_from_a_loaded_sliding_foot_without_other_forces(quadruped, changes, shows):
    assert np.isfinite(slid(quadruped, 1, ticks=60, **changes)) == shows
