"""Fixtures that several tests share."""

import numpy as np
import pytest

from tests import scenes


@pytest.fixture(scope="session")
def quadruped():
    return scenes.links()


@pytest.fixture
def standing(quadruped):
    """The quadruped at rest on its four feet; returns its velocity."""
    quadruped.update(scenes.home(quadruped), np.zeros(quadruped.n_velocities))
    return np.zeros(quadruped.n_velocities)
