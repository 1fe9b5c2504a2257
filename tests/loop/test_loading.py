"""All kernels that the processes of a loop need are loaded before the first tick on the wall clock."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import numpy as np
import pytest
from msgspec import structs
from numba import config
from numba.core.caching import Cache

from idcontrol.errors import Diverged
from idcontrol.loop.plant_process import warm
from idcontrol.scenes.walk import WalkConfig
from tests.scenes import loops

H = 1e-3
BUMPS = {"terrain": "heightmap", "height_map": "bumps"}


def loaded() -> list[str]:
    """Return a list of all kernels that are compiled or loaded from now on."""
    names: list[str] = []
    load = Cache.load_overload
    Cache.load_overload = lambda cache, *arguments: names.append(str(cache._py_func)) or load(cache, *arguments)
    return names


def by_a_plant(**keywords: str) -> list[str]:
    """Return the kernels that a warm plant loads when it flies, falls, bends joints to their limits, and diverges."""
    session = loops.walk.session(WalkConfig(**keywords))
    plant, start, limit = session.plant(H), session.start, session.system.effort_limit
    warm(plant, session, start, H)
    late, rng = loaded(), np.random.default_rng(0)
    above = start.q + np.eye(start.q.size)[2]
    for q, torques in ((start.q, np.zeros((300, limit.size))), (above, limit * rng.uniform(-1, 1, (700, limit.size)))):
        plant.reset(structs.replace(start, q=q))
        for tau in torques:
            plant.step(tau, H)
    plant.reset(start)
    with contextlib.suppress(Diverged):
        for draw in range(30):
            state = plant.step(np.full(limit.size, 1e200 * (-1.0) ** draw), H)
        assert not np.isfinite(state.q).all()
    return late


def by_a_recorder() -> list[str]:
    """Return the kernels that the recorder loads with the first row."""
    session = loops.walk.session(WalkConfig())
    shapes, _ = session.channels()
    row = {name: np.zeros(shape) for name, shape in shapes.items()} | {"notes": np.zeros(session.notes)}
    late = loaded()
    session.derive(row | {"q": session.start.q, "v": session.start.v})
    return late


def in_a_process(call: str) -> list[str]:
    """Return the kernels that a call loads in a separate process, because other tests have loaded many kernels."""
    code = f"from {__name__} import *\nfor name in {call}: print(name)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.skipif(config.DISABLE_JIT, reason="kernels run as Python")
@pytest.mark.parametrize(
    "keywords",
    [
        pytest.param({"plant": "penalty"}, marks=pytest.mark.slow),
        pytest.param({"plant": "dissipation"}, marks=pytest.mark.slow),
        pytest.param(BUMPS, marks=pytest.mark.slow),
        # a search that no other test compiles: half a minute
        pytest.param({"plant": "noslip", "robot": "solo12", **BUMPS}, marks=pytest.mark.slow),
    ],
)
def test_a_warm_plant_loads_nothing_later_whatever_happens_to_its_robot(keywords):
    assert in_a_process(f"by_a_plant(**{keywords})") == []


@pytest.mark.slow
@pytest.mark.skipif(config.DISABLE_JIT, reason="kernels run as Python")
def test_a_recorder_loads_nothing_with_its_rows():
    assert in_a_process("by_a_recorder()") == []
