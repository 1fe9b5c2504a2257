"""The same run gives the same bits: twice, after a reset, in another process, with any number of BLAS threads."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

from idcontrol import controllers, plants
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from tests import GUARD_S, scenes
from tests.controllers import walker

STEPS = 40

RUN = """
import sys
from tests.test_determinism import fingerprint
print(fingerprint(sys.argv[1]))
"""


def states() -> list:
    """Return the states of a quadruped that sways; its contacts stick, slide and open."""
    return [state for state, _ in walker.swaying(scenes.links(), STEPS)]


def torques(control, path) -> np.ndarray:
    """Return torques, residual and status of each step along `path`, under noisy demanded accelerations."""
    rng = np.random.default_rng(0)
    rows = []
    for state in path:
        command = control(state, walker.stand(a=20.0 * rng.normal(size=12)))
        rows.append(np.concatenate((command.tau, [command.residual, float(command.status)])))
    return np.array(rows)


def closed_loop(name: str) -> np.ndarray:
    """Return torques and states of 40 steps of a controller on the plant `coulomb-lcp`."""
    system = scenes.links()
    contacts = SphereContacts(system, scenes.FEET, scenes.RADIUS, plane(), 0.7)
    plant = plants.build("coulomb-lcp", plants.Setup(system=system, contacts=contacts, dt=scenes.H))
    control, rng = walker.controller(name), np.random.default_rng(0)
    state, rows = plant.reset(walker.at_home(scenes.links())), []
    for _ in range(STEPS):
        command = control(state, walker.stand(q=scenes.HOME + 0.01 * rng.normal(size=12)))
        state = plant.step(command.tau, scenes.H)
        rows.append(np.concatenate((command.tau, state.q, state.v)))
    return np.array(rows)


def fingerprint(name: str) -> str:
    """Return a checksum of all bits of `closed_loop`."""
    return hashlib.sha256(closed_loop(name).tobytes()).hexdigest()


def predicting() -> list[str]:
    """Return the names of all controllers that need no measured forces."""
    return [name for name in controllers.available() if not name.startswith("id-sensed")]


@pytest.mark.parametrize("name", predicting())
def test_a_controller_that_was_reset_is_a_new_one_to_the_last_bit(name):
    path, control = states(), walker.controller(name)
    first = torques(control, path)
    warm = torques(control, path)
    control.reset()
    np.testing.assert_array_equal(torques(control, path), first)
    np.testing.assert_array_equal(torques(walker.controller(name), path), first)
    assert np.isfinite(warm).all()


@pytest.mark.parametrize("name", predicting())
def test_two_runs_in_closed_loop_are_equal_to_the_last_bit(name):
    np.testing.assert_array_equal(closed_loop(name), closed_loop(name))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "threads"),
    [
        ("id-coulomb-qp", "1"),
        *((name, "2") for name in ("id-coulomb-qp", "id-coulomb-smooth", "id-coulomb-cone", "id-sap", "id-constraint")),
    ],
)
def test_another_process_with_other_threads_and_hashes_computes_the_same_bits(name, threads):
    environment = os.environ | {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, "PYTHONHASHSEED": "12345"}
    process = subprocess.run(
        [sys.executable, "-c", RUN, name], env=environment, capture_output=True, text=True, check=True, timeout=GUARD_S
    )
    assert process.stdout.strip() == fingerprint(name)
