"""Many walks under random commands, pushes and friction: no unreported failure, no broken limit, no memory leak."""

import gc
import tempfile
from collections import Counter
from pathlib import Path
from typing import Annotated, Final

import msgspec
import numpy as np

from idcontrol import robots
from idcontrol.config.configuration import Count, Seed
from idcontrol.experiments.case import Case, Progress
from idcontrol.experiments.findings import Drawing, Finding, Results, Series, axes
from idcontrol.loop.realtime import resident_mb
from idcontrol.record.recording import load
from idcontrol.scenes.disturbances import Kick
from idcontrol.scenes.locomotion import record_walk
from idcontrol.scenes.settings import AssumedFriction
from idcontrol.scenes.walk import WalkConfig, WalkPath, WalkScene
from idcontrol.types import Array, Booleans, Status

ROBOT: Final = "go1"
CONVEX: Final = ("id-coulomb-qp", "id-noslip-qp", "id-coulomb-qp-1", "id-coulomb-qp-raw", "id-sap", "id-constraint")
"""Controllers whose contact problems are convex."""
GROWTH_MB: Final = 20.0
"""Largest allowed growth of the process's memory after the first two walks; a leak of 1 kB per step would be 100 MB in
1e5 steps."""


class EnduranceConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the run.

    Attributes:
        controller: Name of the controller.
        steps: Minimum number of control steps; the last walk is finished.
        walk_s: Length of a walk [s]; each has separate commands, push, friction and start.
        seed: Seed of the first walk; each further walk takes the next number.
    """

    controller: str = "id-coulomb-qp"
    steps: Count = 100_000
    walk_s: Annotated[float, msgspec.Meta(ge=3.0, le=1e6)] = 10.0
    seed: Seed = 0


FORBIDDEN: Final = ("failed", "unreported", "beyond_limit", "not_finite")
"""Steps that fail the run: with unusable input, since all input is usable; with status solved in spite of a torque at
its limit; with a torque beyond its limit; with a torque that is not finite."""


def count(tau: Array, status: Array, clipped: Array, limit: Array) -> Counter[str]:
    """Count all steps of a record, the steps with each `Status`, and the `FORBIDDEN` steps.

    Args:
        tau: Torques, shape (steps, a) [N m].
        status: `Status` as numbers, shape (steps,).
        clipped: True if a torque is at its limit, shape (steps,).
        limit: Largest torques, shape (a,) [N m].
    """
    kinds = {each.name.lower(): status == each for each in Status} | {
        "unreported": (status == Status.SOLVED) & (clipped != 0.0),
        "beyond_limit": (np.abs(tau) > limit).any(axis=1),
        "not_finite": (~np.isfinite(tau)).any(axis=1),
    }
    return Counter(steps=len(tau), **{kind: int(rows.sum()) for kind, rows in kinds.items()})


def random_walk(controller: str, seed: int, walk_s: float) -> WalkConfig:
    """Return a run with a push, a new command each second, and unknown friction that changes at each footstep."""
    rng = np.random.default_rng(seed)
    pieces = []
    for t in range(int(np.ceil(walk_s))):
        forward, lateral, turn = rng.uniform([-0.3, -0.2, -1.0], [0.3, 0.2, 1.0]).tolist()
        pieces.append((float(t), forward, lateral, turn))
    push = rng.uniform(-0.4, 0.4, 3) * [1.0, 1.0, 0.25]
    return WalkConfig(
        robot=ROBOT,
        controller=controller,
        seed=seed,
        duration_s=walk_s,
        mu_range=(0.3, 1.0),
        friction=AssumedFriction(estimate=float(rng.uniform(0.3, 1.0))),
        path=WalkPath(kind="command", command=tuple(pieces)),
        kick=Kick(
            at_s=float(rng.uniform(1.0, walk_s - 1.0)), velocity_m_s=(float(push[0]), float(push[1]), float(push[2]))
        ),
    )


def run(config: EnduranceConfig, progress: Progress) -> Results:
    """Walk until there are enough steps, and count their outcomes.

    Raises:
        UnknownName: The controller does not exist.
    """
    robot = robots.load(ROBOT)
    limit = robot.torque_limit(robot.system().actuated_names)
    total: Counter[str] = Counter()
    memory: list[float] = []
    fell: list[bool] = []
    unsolved: list[float] = []
    while total["steps"] < config.steps:
        walk = random_walk(config.controller, config.seed + len(memory), config.walk_s)
        with tempfile.TemporaryDirectory() as folder:
            metrics = record_walk(WalkScene.of(walk), Path(folder) / "walk")
            arrays = load(Path(folder) / "walk").arrays
        ended = count(arrays["tau"], arrays["status"], arrays["clipped"], limit)
        total += ended
        unsolved.append(1.0 - ended["solved"] / ended["steps"])
        fell.append(metrics["fell_at_s"] is not None)
        gc.collect()
        memory.append(resident_mb())
        progress(min(1.0, total["steps"] / config.steps))
    return Results(
        findings=findings(total, fell, np.array(memory)),
        series={
            "fell": Series(np.array(fell, dtype=np.float64)),
            "unsolved": Series(np.array(unsolved)),
            "memory": Series(np.array(memory), "MB", wall_time=True),
        },
        drawings=[drawing(np.array(unsolved), np.array(fell), np.array(memory))],
    )


experiment = Case(
    name="endurance",
    summary="many steps under random commands, pushes and friction",
    presets={
        "default": EnduranceConfig(),
        "quick": EnduranceConfig(steps=20_000),
        "million": EnduranceConfig(steps=1_000_000),
    },
    simulate=run,
    rehearsals=lambda: [EnduranceConfig(controller=name, steps=1, walk_s=3.0) for name in CONVEX],
)


def drawing(unsolved: Array, fell: Booleans, memory: Array) -> Drawing:
    """Draw for each walk the share of unsolved steps, falls, and the memory after it [MB]."""
    walk = 1 + np.arange(len(fell))
    with axes(2, size=(7.0, 4.4), sharex=True) as (steps, resident):
        steps.bar(walk, 100.0 * unsolved, color=np.where(fell, "C1", "C0"))
        steps.set(ylabel="steps repaired or\nwithout a solution [%]")
        resident.plot(walk, memory, "o-", markersize=3)
        resident.set(xlabel="walk", ylabel="memory [MB]")
    return Drawing("Walk by walk", steps.figure)


def findings(total: Counter[str], fell: list[bool], memory: Array) -> list[Finding]:
    """Return the counts and the memory of a run, with checks of failures, torque limits and growth."""
    growth = float(memory[2:].max(initial=memory[min(1, len(memory) - 1)]) - memory[min(1, len(memory) - 1)])
    return [
        Finding("control_steps", total["steps"]),
        Finding("walks", len(fell)),
        Finding("falls", sum(fell)),
        *(Finding(kind, total[kind]) for kind in ("solved", "repaired", "fallback")),
        *(Finding(kind, total[kind], holds=total[kind] == 0) for kind in FORBIDDEN),
        Finding("memory_mb", memory[-1]),
        Finding("memory_growth_mb", growth, holds=growth < GROWTH_MB),
    ]
