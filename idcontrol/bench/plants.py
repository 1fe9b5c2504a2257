"""Times of plant steps: a walking quadruped and bodies in a container, compared with other simulators."""

import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from idcontrol import controllers, plants
from idcontrol.bench.measurement import Bar, Benchmark, Effort, Peer, TimingRow, floor, measure
from idcontrol.bench.peers import installed
from idcontrol.bench.problems import walks
from idcontrol.bench.problems.walks import FILM, Heap, RecordedWalk
from idcontrol.bench.timing import Job
from idcontrol.contact.spheres import SphereContacts
from idcontrol.dynamics.bodies import BodyState
from idcontrol.dynamics.system import System
from idcontrol.types import Array

PLANTS = ("coulomb-lcp", "dissipation", "sap")
"""Plants with a separate row."""

HEAPS = {8: 0.3, 40: 0.25, 80: 0.3, 160: 0.4}
"""Numbers of bodies in a container, and the goal as a share of Drake's time."""

HEAP_STEPS = 150
"""Steps of the heap; the bodies fall during the first third."""

HEAP_BUDGET_S = 60.0

QUADRUPED_BARS = {"Drake SAP": Bar(of="peer", bar=0.3, goal=0.1), "MuJoCo": Bar(of="peer", bar=2.5, goal=1.2)}
TICK_BAR = Bar(of="us", bar=1000.0 / 3.0, goal=1000.0 / 8.0)
"""Bar on controller and plant together, for a period of 1 ms: at least three times real time. The goal is eight
times."""

SAME_JOINTS, SAME_BODIES = 0.2, 0.05
"""Tolerances of the median difference in velocity after a step [rad/s, m/s]. Our contacts are rigid, and contacts of
other simulators are slightly soft. For comparison: without ground, the joint velocities of solo12 would differ by 3
rad/s after 1 ms."""


def rows(walk: RecordedWalk, effort: Effort) -> Iterator[TimingRow]:
    """Yield rows of each plant, of other simulators and our plant, of controller and plant together, and of heaps."""
    for name in PLANTS:
        own = walk if name == "coulomb-lcp" else walks.walk(walk.robot, name, len(walk.moments))
        yield measure(_step_benchmark(own, name), effort)
    for engine, make in ENGINES.items():
        peer = make(walk)
        if peer is None:
            continue
        beside = Peer(
            name=engine,
            job=peer,
            difference=lambda ours, theirs: float(np.abs(ours - theirs).max()),
            tolerance=SAME_JOINTS,
            unit="rad/s",
            share=50.0,
        )
        yield measure(_step_benchmark(walk, "coulomb-lcp", QUADRUPED_BARS.get(engine)), effort, beside)
    tick = Benchmark(
        what="id-coulomb-qp and coulomb-lcp, 1 ms",
        job=_tick(walk),
        floor=floor(walk),
        states=len(walk.moments),
        bar=TICK_BAR,
    )
    yield measure(tick, effort)
    for bodies in HEAPS:
        yield _heap(walks.heap(bodies), floor(walk), bodies)


def _step_benchmark(walk: RecordedWalk, name: str, bar: Bar | None = None) -> Benchmark:
    """Return the benchmark of the plant `name` along the walk; only times with all feet loaded count."""
    return Benchmark(
        what=f"{name}, 1 ms",
        contacts=len(walk.feet),
        job=step(walk, name),
        floor=floor(walk),
        states=len(walk.moments),
        counted=np.array([moment.pressing == len(walk.feet) for moment in walk.moments]),
        bar=bar,
    )


def step(walk: RecordedWalk, name: str) -> Job:
    """Return the job that steps one of our plants through the walk; its answer is the joint velocities."""
    system, _ = machine = walk.machine()
    plant = _plant(name, machine, walk.h)

    def reset() -> None:
        plant.reset(walk.moments[0].state)

    def run(i: int) -> Array:
        return system.joint_velocities(plant.step(walk.moments[i].tau, walk.h).v)

    return Job(run=run, reset=reset)


def _plant(name: str, machine: tuple[System, SphereContacts], h: float) -> plants.SimulatedPlant:
    system, contacts = machine
    return plants.build(name, plants.Setup(system=system, contacts=contacts, dt=h))


def _tick(walk: RecordedWalk) -> Job:
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


def _mujoco(walk: RecordedWalk) -> Job | None:
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


def _bullet(walk: RecordedWalk) -> Job | None:
    if not installed("pybullet"):
        return None
    system, _ = machine = walk.machine()
    plant = _plant("pybullet", machine, walk.h)

    def prepare(i: int) -> None:
        plant.reset(walk.moments[i].state)

    def run(i: int) -> Array:
        return system.joint_velocities(plant.step(walk.moments[i].tau, walk.h).v)

    return Job(run=run, prepare=prepare)


def _drake(walk: RecordedWalk) -> Job | None:
    if not installed("pydrake"):
        return None
    from idcontrol.bench import drake

    return drake.machine(walk)


ENGINES: dict[str, Callable[[RecordedWalk], Job | None]] = {
    "Drake SAP": _drake,
    "MuJoCo": _mujoco,
    "Bullet, read from Python": _bullet,
}
"""Functions by simulator that return the simulator's job, or None if it is not installed."""


def _heap(heap: Heap, below: Job, bodies: int) -> TimingRow:
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
    benchmark = Benchmark(
        what=f"clutter with walls, {bodies} bodies",
        job=Job(run=run, reset=reset),
        floor=Job(run=lambda i: below.run(0)),
        states=len(states),
        bar=Bar(of="peer", bar=1.0, goal=HEAPS[bodies]),
        note="from the fall to rest; ours counts each box on a face with up to four contacts, Drake with one",
    )
    # time the whole fall, because the cost of a step varies tenfold during a fall
    effort = Effort(samples=len(states), compared=len(states), budget_s=HEAP_BUDGET_S)
    return measure(benchmark, effort, peer)


def _fall(heap: Heap) -> Sequence[BodyState]:
    """Return the states at which the steps of the heap begin."""
    state, states = heap.plant.reset(heap.start), []
    for _ in range(HEAP_STEPS):
        states.append(state)
        state = heap.plant.step(heap.period_s)
    return states
