"""The estimated unmodelled load on the base; impacts and landings must not change it."""

import numpy as np
import pytest
from msgspec import structs

from idcontrol import controllers
from idcontrol.controllers.load import LEARNT_S, UNMODELLED
from idcontrol.scenes.disturbances import Disturbance, Kick
from idcontrol.scenes.walk import WalkConfig, WalkScene
from tests import scenes
from tests.controllers import walker

WEIGHT = walker.WEIGHT


def walked(duration_s, *, learns=True, **changes):
    """A trot tick by tick: the estimated load, axes of the base [N], and the error of the base's height [m]."""
    settings = controllers.InverseSettings(learn_load=learns)
    walk = WalkScene.of(WalkConfig(inverse=settings, **changes)).simulated()
    load, height = [], []
    for tick in walk.ticks(round(1000 * duration_s)):
        load.append(walk.controller.load)
        height.append(tick.state.q[2] - tick.reference.base_position[2])
    return np.array(load), np.array(height)


def test_a_trot_with_its_own_weight_on_its_back_does_not_sag():
    """After five time constants; the mean over a whole cycle of the gait, 300 ms."""
    payload = Disturbance(payload_share=1.0)
    load, height = walked(2.0, disturbance=payload)
    assert load[-300:].mean(axis=0) == pytest.approx([0.0, 0.0, -WEIGHT], abs=0.05 * WEIGHT)
    assert np.abs(height[-300:]).max() < 3e-3
    sagging = walked(0.6, learns=False, disturbance=payload)[1]
    assert sagging.min() < -8e-3


@pytest.mark.slow
@pytest.mark.parametrize("mu", [0.1, 0.8])
def test_without_a_load_torques_are_the_same_to_the_bit(mu):
    load, height = walked(1.5, mu=mu)
    assert 0.0 < np.linalg.norm(load, axis=1).max() < UNMODELLED * WEIGHT
    np.testing.assert_array_equal(height, walked(1.5, mu=mu, learns=False)[1])


def test_an_impact_is_not_learnt_as_load():
    """A blow is a force of thirty times the weight for one period."""
    load, _ = walked(1.5, kick=Kick(at_s=0.6, velocity_m_s=(0.0, 0.3, 0.0)))
    assert np.abs(load[:600]).max() < 0.01 * WEIGHT
    assert 0.0 < np.abs(load[601:]).max() < 0.1 * WEIGHT


def second_step(system, *, dt=scenes.H, dv=0.0, **plan):
    """A controller, its prediction at rest, and the multibody terms after a step with the velocity `dv`."""
    controller, state = walker.controller(), walker.at_home(system)
    first = controller(state, walker.stand())
    v = dv * np.arange(1.0, 19.0)
    state = structs.replace(state, t=dt, v=v)
    system.update(state.q, v)
    contacts = scenes.foot_contacts(system, 0.7)
    balance = system.M @ system.from_pinocchio(v) / dt + system.bias
    for i, force in zip(first.predicted.identity, first.predicted.force, strict=True):
        balance -= contacts.jacobian[[i, 4 + i, 8 + i]].T @ contacts.axes[i] @ force
    controller(state, walker.stand(**plan))
    return controller, balance[:3]


@pytest.mark.parametrize("dv", [0.0, 1e-5, -3e-5])
def test_a_share_of_what_forces_leave_unexplained_becomes_load(quadruped, dv):
    controller, missing = second_step(quadruped, dv=dv)
    assert np.abs(missing).max() < WEIGHT
    assert controller.load == pytest.approx(scenes.H / LEARNT_S * missing, rel=1e-9, abs=1e-12)
    assert (np.abs(controller.load).max() > 1e-6) == (dv != 0.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"dt": 2.0 * scenes.H},  # missed periods give no information
        {"since_touchdown": np.array([np.inf, 1e-3, np.inf, np.inf])},  # a landing is not a load
    ],
    ids=["missed", "landing"],
)
def test_touchdown_and_flight_periods_do_not_change_the_load(quadruped, changes):
    assert not second_step(quadruped, dv=1e-5, **changes)[0].load.any()


def test_a_hoist_is_not_learnt_as_load(quadruped):
    """The robot hangs from a hoist at rest; its feet must carry it when it is lowered."""
    controller, state = walker.controller(), walker.at_home(quadruped)
    height = 0.5 * (np.arange(state.q.size) == 2)
    for tick in range(3):
        hanging = structs.replace(state, t=tick * scenes.H, q=state.q + height)
        assert controller(hanging, walker.stand()).predicted.force.size == 0
    assert not controller.load.any()


def test_the_load_is_among_the_forces_that_the_feet_carry(quadruped):
    controller, state = walker.controller(), walker.at_home(quadruped)
    for shown, carried in ((0.0, 0.0), (-0.02, 0.0), (-0.2, -0.18), (0.1, 0.08)):  # in weights; 0.02 does not count
        controller._load.force[2] = shown * WEIGHT
        force = controller(state, walker.stand()).predicted.force
        assert force[:, 2].sum() == pytest.approx((1.0 - carried) * WEIGHT, rel=1e-6)
        assembled = controller.problem(state, walker.stand())
        assert assembled.w.kappa[2] == pytest.approx(scenes.H * (1.0 - carried) * WEIGHT, rel=1e-6)
