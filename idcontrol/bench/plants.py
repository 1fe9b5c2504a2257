"""Rows of plant steps: the walking quadruped, and bodies heaped in a container, beside other people's engines."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from idcontrol import controllers, plants
from idcontrol.bench.peers import installed
from idcontrol.bench.rows import Bar, Effort, Peer, Row, measure
from idcontrol.bench.scenes import FILM, Heap, Scenes, Walk, floor
from idcontrol.bench.timing import Job
from idcontrol.bodies import BodyState
from idcontrol.contact.spheres import SphereContacts
from idcontrol.system import System
from idcontrol.types import Array, State

PLANTS = ("coulomb-lcp", "dissipation", "sap")
"""Plants of which there is a row."""

BODIES = (8, 40, 80)
HEAP_STEPS = 150
"""Of which the bodies fall in the first third."""

HEAP_BUDGET_S = 60.0

DRAKE_BARS = {"quadruped": Bar(of="peer", bar=0.3, goal=0.1), "heap": Bar(of="peer", bar=1.0, goal=0.5)}
TICK_BAR = Bar(of="us", bar=1000.0 / 3.0, goal=1000.0 / 8.0)
"""Controller and plant in a period of 1 ms: three times faster than the clock, and eight times."""

SAME_JOINTS, SAME_BODIES = 0.2, 0.05
"""Median difference of velocities after a step between our rigid contact and an engine's, which is a little soft
[rad/s, m/s]; without the ground the joints of solo12 would be 3 rad/s away after 1 ms."""


def rows(scenes: Scenes, walk: Walk, effort: Effort) -> Iterator[Row]:
    """A step of each plant alone, of one beside each engine, of plant and controller, and of the heaps."""
    for name in PLANTS:
        own = walk if name == "coulomb-lcp" else scenes.walk(walk.robot, name, len(walk.moments))
        job, counted = step(own, name), _all_press(own)
        yield measure(
            "plants", f"{name}, 1 ms", len(own.feet), job, floor(own), len(own.moments), effort, counted=counted
        )
    for engine, make in ENGINES.items():
        peer = make(walk)
        if peer is None:
            continue
        yield measure(
            "plants",
            "coulomb-lcp, 1 ms",
            len(walk.feet),
            step(walk, "coulomb-lcp"),
            floor(walk),
            len(walk.moments),
            effort,
            counted=_all_press(walk),
            peer=Peer(
                name=engine,
                job=peer,
                difference=lambda ours, theirs: float(np.abs(ours - theirs).max()),
                tolerance=SAME_JOINTS,
                unit="rad/s",
                share=50.0,
            ),
            bar=DRAKE_BARS["quadruped"] if engine == "Drake SAP" else None,
        )
    yield measure(
        "plants",
        "id-coulomb-qp and coulomb-lcp, 1 ms",
        None,
        _tick(walk),
        floor(walk),
        len(walk.moments),
        effort,
        bar=TICK_BAR,
    )
    for bodies in BODIES:
        yield _heap(scenes.heap(bodies), floor(walk), bodies, effort)


def step(walk: Walk, name: str) -> Job:
    """Steps of a plant of ours through the walk again; the answer is the joints' velocities."""
    system, _ = machine = walk.machine()
    plant = _plant(name, machine, walk.h)

    def run(i: int) -> State:
        return plant.step(walk.moments[i].tau, walk.h)

    return Job(
        run=lambda i: system.joint_velocities(run(i).v), reset=lambda: _ignore(plant.reset(walk.moments[0].state))
    )


def _plant(name: str, machine: tuple[System, SphereContacts], h: float) -> plants.SimulatedPlant:
    system, contacts = machine
    return plants.build(name, plants.Setup(system=system, contacts=contacts, dt=h))


def _ignore(state: State) -> None:
    return None


def _all_press(walk: Walk) -> Any:
    return np.array([moment.pressing == len(walk.feet) for moment in walk.moments])


def _tick(walk: Walk) -> Job:
    plant, controller = _plant("coulomb-lcp", walk.machine(), walk.h), controllers.build("id-coulomb-qp", walk.setup())
    state = walk.moments[0].state

    def reset() -> None:
        nonlocal state
        state = plant.reset(walk.moments[0].state)
        controller.reset()

    def run(i: int) -> None:
        nonlocal state
        state = plant.step(controller(state, walk.moments[i].reference).tau, walk.h)

    return Job(run=run, reset=reset)


def _mujoco(walk: Walk) -> Job | None:
    if not installed("mujoco"):
        return None
    from idcontrol.plants.mujoco import MuJoCo

    mujoco: Any = importlib.import_module("mujoco")
    system, contacts = walk.machine()
    plant = MuJoCo(system, contacts, walk.h)
    feet = plant.model.geom_type == mujoco.mjtGeom.mjGEOM_SPHERE
    plant.model.geom_size[feet, 0] += FILM
    plant.model.geom_rbound[feet] += FILM
    at = [int(plant.model.joint(name).dofadr[0]) for name in system.actuated_names]

    def prepare(i: int) -> None:
        warm = plant.data.qacc_warmstart.copy()
        plant.reset(walk.moments[i].state)
        plant.data.qacc_warmstart[:] = warm
        plant.data.qfrc_applied[at] = walk.moments[i].tau

    def run(i: int) -> Array:
        mujoco.mj_step(plant.model, plant.data)
        return np.asarray(plant.data.qvel[at])

    return Job(run=run, prepare=prepare)


def _bullet(walk: Walk) -> Job | None:
    if not installed("pybullet"):
        return None
    system, _ = machine = walk.machine()
    plant = _plant("pybullet", machine, walk.h)

    def prepare(i: int) -> None:
        plant.reset(walk.moments[i].state)

    def run(i: int) -> Array:
        return system.joint_velocities(plant.step(walk.moments[i].tau, walk.h).v)

    return Job(run=run, prepare=prepare)


def _drake(walk: Walk) -> Job | None:
    if not installed("pydrake"):
        return None
    from idcontrol.bench import drake

    return drake.machine(walk)


ENGINES: dict[str, Callable[[Walk], Job | None]] = {
    "Drake SAP": _drake,
    "MuJoCo": _mujoco,
    "Bullet, read from Python": _bullet,
}
"""Engines by name; their jobs are None where they are not installed."""


def _heap(heap: Heap, below: Job, bodies: int, effort: Effort) -> Row:
    states = _fall(heap)
    last = heap.start

    def reset() -> None:
        nonlocal last
        last = heap.plant.reset(heap.start)

    def run(i: int) -> Array:
        nonlocal last
        last = heap.plant.step(heap.period_s)
        return last.velocity

    peer = None
    if installed("pydrake"):
        from idcontrol.bench import drake

        peer = Peer(
            name="Drake SAP",
            job=drake.heap(heap, states),
            difference=lambda ours, theirs: float(np.median(np.abs(ours - theirs))),
            tolerance=SAME_BODIES,
            unit="m/s",
            share=50.0,
        )
    return measure(
        "plants",
        f"clutter with walls, {bodies} bodies",
        None,
        Job(run=run, reset=reset),
        Job(run=lambda i: below.run(0)),
        len(states),
        # the whole fall, whatever it takes: what a step costs changes by a factor of ten within it
        Effort(samples=len(states), compared=len(states), budget_s=HEAP_BUDGET_S),
        peer=peer,
        bar=DRAKE_BARS["heap"],
        note="from the fall to rest; ours counts each box on a face with up to four contacts, Drake with one",
    )


def _fall(heap: Heap) -> Sequence[BodyState]:
    """The states that steps begin from."""
    state, states = heap.plant.reset(heap.start), []
    for _ in range(HEAP_STEPS):
        states.append(state)
        state = heap.plant.step(heap.period_s)
    return states
