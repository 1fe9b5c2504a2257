"""Fixtures that several tests share."""

import contextlib
import gc
import importlib
import os
import re
import signal
from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parents[1]

# rare garbage collections: they took 6 % of the tests' time, and 30 % of collecting tests without cached files
gc.set_threshold(50_000, 20, 20)

# Background jobs of a shell ignore Ctrl-C, jobs under nohup ignore a closing terminal, and child processes inherit
# this.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)

PYTHON_RUNS_KERNELS = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"
if PYTHON_RUNS_KERNELS:
    import numpy as np

    # compiled arithmetic does not warn of an overflow or a NaN, so the same lines in Python must not warn
    np.seterr(all="ignore")

# checks before every change must be repeatable; for other examples: --hypothesis-profile=default
hypothesis.settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,  # may compile
    max_examples=50,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],  # drawing takes seconds on a busy computer
)
hypothesis.settings.load_profile("repeatable")


WALKING = {
    "adapters", "bench", "controllers", "experiments", "filter", "fuzz", "identify", "loop", "mpc", "peers", "planners",
    "plants", "scenes", "sensing", "tasks", "contact/test_soles.py", "kernels/test_without_compilation.py",
    "record/test_mcap.py",
}  # fmt: skip
"""Folders and files whose tests share the kernels of a walk: controllers, planners, plants."""
LIGHT = {"config", "fuzz/test_records.py", "fuzz/test_robot_file.py", "kernels", "record", "robots", "show", "sweeps"}
"""Folders and files whose tests need few kernels."""
DEAR = re.compile(
    "coulomb(-|, )cone|test_chatter|test_this_machine_is_fit|id-sap|id-constraint|test_clutter|test_jar"
    "|test_sphere_stack|stack_of_ours"
)
"""Tests of kernels that few tests need and that take 3 to 30 s to compile: circular cone, boxes, many contacts."""
CONE = re.compile(r"/(judge|models)/.*\[.*coulomb[-_]cone")
"""Tests of the model with circular cones, which Python runs faster than its kernels are compiled."""


def pytest_collection(session):
    """Import the test files from the last to the first in every second worker.

    Importing without cached files compiles the package and rewrites assertions, 10 s of CPU time. Workers that begin
    at both ends do half of it each.
    """
    if int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 2:
        candidates = {file for each in session.config.args for file in Path(each).resolve().rglob("test_*.py")}
        for file in sorted(candidates, reverse=True):
            module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
            with contextlib.suppress(Exception, pytest.skip.Exception):  # collecting the file reports it
                importlib.import_module(module)


def pytest_ignore_collect(collection_path, config):
    """Skip files without an interpreted test if only such tests are selected; importing all files takes seconds."""
    if config.option.markexpr.startswith("interpreted") and collection_path.suffix == ".py":
        models = {"judge", "models"} & set(collection_path.parts)  # with tests of `CONE`
        return None if models or "mark.interpreted" in collection_path.read_text("utf-8") else True
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark tests with expensive kernels as interpreted, or as slow if kernels are compiled; sort tests by kernels."""
    for item in items:
        if CONE.search(item.nodeid):
            item.add_marker(pytest.mark.interpreted)
        if not PYTHON_RUNS_KERNELS and DEAR.search(item.nodeid):
            item.add_marker(pytest.mark.slow)
    _cover(item for item in items if item.get_closest_marker("covering") and not item.get_closest_marker("slow"))
    # two workers get a half each: one of them compiles what the other reads from the cache later, not at the same time
    items.sort(key=lambda item: _rank(item.nodeid.removeprefix("tests/").partition("::")[0]))


def _cover(items):
    """Mark as slow all but the fewest combinations of a test's parameters that have each value of each of them."""
    tests = {}
    for item in items:
        axes = [mark.args[0] for mark in item.iter_markers("parametrize")]
        values = tuple(
            str([item.callspec.params[name] for name in ([names] if isinstance(names, str) else names)])
            for names in axes
        )
        tests.setdefault(item.function, []).append((item, values))
    for combinations in tests.values():
        axes = [list(dict.fromkeys(axis)) for axis in zip(*(values for _, values in combinations), strict=True)]
        kept = {tuple(axis[i % len(axis)] for axis in axes) for i in range(max(map(len, axes)))}
        for item, values in combinations:
            if values not in kept:
                item.add_marker(pytest.mark.slow)


def _rank(file):
    """Order files by kernels; tests with few kernels are in the middle, where the second worker begins."""
    places = {file, file.partition("/")[0]}
    return 0 if file in WALKING else 1 if places & LIGHT else 0 if places & WALKING else 2


def pytest_collection_finish():
    """Exclude the modules of all tests from garbage collections."""
    gc.freeze()


# The process that distributes the tests runs none of them, so fixtures import what they need.


@pytest.fixture(scope="session")
def quadruped():
    from tests import scenes

    return scenes.links()


@pytest.fixture
def standing(quadruped):
    """The quadruped at rest on its four feet; returns its velocity."""
    import numpy as np

    from tests import scenes

    quadruped.update(scenes.home(quadruped), np.zeros(quadruped.n_velocities))
    return np.zeros(quadruped.n_velocities)
