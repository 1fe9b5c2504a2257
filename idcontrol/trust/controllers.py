"""Measures the claims on controllers: weight, acceleration, torque limits, friction cones, reset and determinism."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import structs

from idcontrol import controllers, plants
from idcontrol.trust import contact_laws, machines
from idcontrol.types import Array, Command, Controller, Status

EXACT: Final = (
    "id-noslip-lcp",
    "id-coulomb-lcp",
    "id-coulomb-smooth",
    "id-coulomb-cone",
    "id-coulomb-qp",
    "id-coulomb-qp-raw",
    "id-noslip-qp",
)
"""Controllers with rigid contacts."""
PREDICTING: Final = (*EXACT, "id-coulomb-qp-1", "id-sap", "id-constraint")
PLAIN: Final = ("pid", "id-sensed-1")
"""Controllers that predict no forces."""
STATED: Final = ("id-coulomb-qp", "id-coulomb-qp-1", "id-noslip-qp")
"""Controllers whose convex programs a general solver can solve as they are stated."""

# NumPy takes the worst of several figures, because Python's `max` may ignore a NaN.


def missed_weight() -> float:
    """Largest difference between the predicted forces at rest and the weight, relative to the weight."""
    worst, weight = [], machines.WALKER_MASS * machines.G
    for name in PREDICTING:
        predicted = machines.first_command(name).predicted
        total = np.zeros(3) if predicted is None else predicted.force.sum(axis=0)
        worst.append(np.abs(total - [0.0, 0.0, weight]).max() / weight)
    return float(np.max(worst))


def missed_acceleration() -> float:
    """Largest difference between measured and demanded joint accelerations [m/s²] as all legs push the trunk alike."""
    wanted = np.tile([-0.5, 0.3, -0.8], 4)
    worst = []
    for name in EXACT:
        system, contacts = machines.walker()
        plant = plants.build("coulomb-lcp", plants.Setup(system=system, contacts=contacts, dt=machines.H))
        plant.reset(machines.walker_state(system))
        after = plant.step(machines.first_command(name, acceleration=wanted).tau, machines.H)
        worst.append(np.abs(system.joint_velocities(after.v) / machines.H - wanted).max())
    return float(np.max(worst))


def _absurd(limit: float) -> list[tuple[Command, float]]:
    """Commands of every controller under absurd demands, each with the friction coefficient that it may assume."""
    rng = np.random.default_rng(0)
    return [
        (
            machines.first_command(name, acceleration=size * rng.normal(size=12), limit=limit),
            np.inf if "noslip" in name else machines.HOLDING,
        )
        for name in PREDICTING
        for size in (1e2, 1e4, 1e6)
    ]


def torque_excess() -> float:
    """Largest excess of a torque over its limit [N] under absurd demands; negative if all are below."""
    limit, rng = 12.0, np.random.default_rng(1)
    torques = [command.tau for command, _ in _absurd(limit)]
    for name in PLAIN:
        control, state = machines.controller(name, limit=limit)
        far = structs.replace(machines.standing(1e4 * rng.normal(size=12)), q=1e4 * rng.normal(size=12))
        torques.append(control(state, far).tau)
    return float(np.max([np.abs(tau).max() - limit for tau in torques]))


def cone_excess() -> float:
    """Largest predicted friction beyond its cone under absurd demands, relative to the largest force or the weight."""
    worst = [0.0]
    for command, mu in _absurd(12.0):
        if command.predicted is None or np.isinf(mu):
            continue
        force = command.predicted.force
        pressing, along = contact_laws.pressing_and_friction(force, command.predicted.normal)
        size = max(np.abs(force).max(initial=0.0), machines.WALKER_MASS * machines.G)
        worst.append(np.max(along - mu * pressing, initial=0.0) / size)
    return float(np.max(worst))


def trouble_with_nan() -> float:
    """Number of controllers that answer a NaN with anything but zero torque and FAILED, or remember it."""
    count = 0
    for name in PREDICTING:
        control, state = machines.controller(name)
        sound = control(state, machines.standing())
        control.reset()
        broken = control(structs.replace(state, v=np.full_like(state.v, np.nan)), machines.standing())
        silent = broken.status is Status.FAILED and not broken.tau.any()
        control.reset()
        after = control(state, machines.standing())
        count += not (silent and np.array_equal(after.tau, sound.tau))
    return float(count)


def differing_bits() -> float:
    """Number of values that differ between closed-loop runs of a controller: new, reset, and new again."""

    def run(control: Controller) -> Array:
        own, ground = machines.walker()
        plant = plants.build("coulomb-lcp", plants.Setup(system=own, contacts=ground, dt=machines.H))
        state = plant.reset(machines.walker_state(own))
        reference = structs.replace(machines.standing(), q=0.005 * np.random.default_rng(0).normal(size=12))
        rows = []
        for _ in range(50):
            tau = control(state, reference).tau
            state = plant.step(tau, machines.H)
            rows.append(np.concatenate((tau, state.q, state.v)))
        return np.array(rows)

    count = 0
    for name in PREDICTING:
        control, _ = machines.controller(name)
        first = run(control)
        control.reset()
        count += int(np.count_nonzero(run(control) != first))
        count += int(np.count_nonzero(run(machines.controller(name)[0]) != first))
    return float(count)


def off_the_statement() -> float:
    """Largest difference in torque, relative to the largest torque, from a general solver on the stated programs."""
    rng, worst = np.random.default_rng(0), []
    for name in STATED:
        fast, state = machines.controller(name)
        stated, _ = machines.controller(name, settings=controllers.InverseSettings(solver="reference"))
        for _ in range(5):
            asked = machines.standing(rng.normal(size=12))
            expected = stated(state, asked).tau
            worst.append(np.abs(fast(state, asked).tau - expected).max() / np.abs(expected).max())
    return float(np.max(worst))
