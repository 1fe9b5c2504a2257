"""The Gymnasium environment."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from idcontrol.adapters.gymnasium import NAME, JointTargets
from idcontrol.errors import InputError
from idcontrol.types import State


@pytest.fixture(scope="module")
def environment():
    return JointTargets()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*WARN.*")  # the checker recommends bounds, but velocities have none
def test_the_checker_of_gymnasium_passes():
    check_env(gymnasium.make(NAME).unwrapped, skip_render_check=True)


@pytest.mark.slow
def test_targets_are_reached_and_standing_at_home_lasts():
    environment = JointTargets(spread_rad=0.0)
    environment.reset(seed=1)
    for _ in range(50):
        seen, _, fallen, _, info = environment.step(np.zeros(12))
    assert not fallen
    assert info["status"] == "SOLVED"
    assert np.abs(seen[10:22]).max() < 2e-3
    crouch = np.array([0.0, 0.3, 0.3] * 2 + [0.0, -0.3, -0.3] * 2)
    for share in np.minimum(np.arange(1, 36) / 25, 1.0):  # feet would slip at a leap
        seen, _, fallen, _, _ = environment.step(share * crouch)
    assert not fallen
    np.testing.assert_allclose(seen[10:22], 0.5 * crouch, atol=0.03)  # standing feet prevent exact targets


def test_an_episode_ends_with_the_tilt_that_counts_as_a_fall(environment):
    environment.reset(seed=0)
    leaning = environment._state.q.copy()
    for angle, fell in ((0.5, False), (0.7, True)):
        leaning[2:7] = [1.0, 0.0, np.sin(angle / 2), 0.0, np.cos(angle / 2)]  # in the air, where it stays so
        environment._state = environment._plant.reset(State(t=0.0, q=leaning, v=np.zeros(18)))
        assert environment.step(np.zeros(12))[2] is fell


def test_gravity_is_seen_in_the_axes_of_the_base(environment):
    """If the base leans forward, gravity along its x axis is the sine of the angle."""
    environment.reset(seed=0)
    angle = 0.3
    environment._state.q[3:7] = [0.0, np.sin(angle / 2), 0.0, np.cos(angle / 2)]
    np.testing.assert_allclose(environment._gravity(), [np.sin(angle), 0.0, -np.cos(angle)], atol=1e-12)


def test_equal_seeds_give_equal_episodes(environment):
    def episode(seed):
        seen = [environment.reset(seed=seed)[0]]
        environment.action_space.seed(seed)
        return np.array(seen + [environment.step(environment.action_space.sample())[0] for _ in range(3)])

    np.testing.assert_array_equal(episode(3), episode(3))
    assert not np.array_equal(episode(3), episode(4))


def test_an_action_that_is_no_list_of_targets_is_refused(environment):
    environment.reset(seed=0)
    for action in (np.zeros(3), np.full(environment.action_space.shape, np.nan)):
        with pytest.raises(InputError, match="finite numbers, one for each joint"):
            environment.step(action)


def test_an_unusable_environment_is_refused():
    with pytest.raises(InputError, match="no floating base"):
        JointTargets("arm")
    with pytest.raises(InputError, match="above rate_hz"):
        JointTargets(action_hz=2000.0)
