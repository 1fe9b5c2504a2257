"""What a plant does before its first tick on the wall clock."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from msgspec import structs
from numba import config
from numba.core.caching import Cache

from idcontrol.loop.plant_process import warm
from idcontrol.scenes.walk import WalkConfig
from tests.scenes import loops

H = 1e-3


def loaded_late(**keywords: str) -> list[str]:
    """Kernels that are compiled or loaded as a warm plant flies, falls, and bends its joints to their ends."""
    session = loops.walk.session(WalkConfig(**keywords))
    plant, start, limit = session.plant(H), session.start, session.system.effort_limit
    warm(plant, session, start, H)
    late, load = [], Cache.load_overload
    Cache.load_overload = lambda cache, *given: late.append(str(cache._py_func)) or load(cache, *given)
    rng = np.random.default_rng(0)
    above = start.q + np.eye(start.q.size)[2]
    for q, torques in ((start.q, np.zeros((300, limit.size))), (above, limit * rng.uniform(-1, 1, (700, limit.size)))):
        plant.reset(structs.replace(start, q=q))
        for tau in torques:
            plant.step(tau, H)
    return late


@pytest.mark.skipif(config.DISABLE_JIT, reason="kernels run as Python")
@pytest.mark.parametrize("keywords", [{"plant": "penalty"}, {"terrain": "heightmap", "height_map": "bumps"}])
def test_a_warm_plant_loads_nothing_later_whatever_happens_to_its_robot(keywords):
    """A process of its own, since other tests have loaded much."""
    code = f"from {__name__} import loaded_late; print(*loaded_late(**{keywords}), sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
