"""Contact forces with the torque closest to the last torque: branch and bound with proof, against brute force.

Zapolsky & Drumwright 2017 call their chatter-minimizing enumeration (Algorithm 3, MINDIFF) impractical: it tries 2^(6n)
bases for n contacts. Branch and bound over contact modes (math.md, section 6.3) finds the same or a closer torque, and
proves that no torque is closer. Both run on the same steps of a quadruped that stands and moves on one to four feet. On
four feet brute force is left out: it would take minutes per step.

Then the search runs on trots with `id-coulomb-smooth` at low friction, where several motions may solve a step. It runs
on every solved step with all feet on the ground, with the target and the budget that it has in the control loop.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np
import pinocchio as pin

from idcontrol import robots
from idcontrol.bench.problems.lcps import coulomb_lcp
from idcontrol.bench.problems.machines import H, inverse_step
from idcontrol.config.configuration import Count, Positive, Seed
from idcontrol.contact.spheres import SphereContacts
from idcontrol.controllers import schemes
from idcontrol.controllers.inverse import InverseDynamics
from idcontrol.controllers.projection import project
from idcontrol.controllers.step import problem_of
from idcontrol.errors import InputError
from idcontrol.experiments.case import Case, Progress, timed
from idcontrol.experiments.findings import Drawing, Finding, Results, Series, axes, histories
from idcontrol.kernels.arena import HEAP
from idcontrol.models import coulomb
from idcontrol.models.distribution import torque_map
from idcontrol.models.step import StepProblem
from idcontrol.models.whitened import whiten
from idcontrol.scenes.walk import WalkConfig, WalkScene
from idcontrol.solvers.enumerate import NearestProblem, nearest_solution, tick_nodes
from idcontrol.solvers.mindiff import nearest_basis
from idcontrol.types import Array, Status

BRUTE_FORCE_CASES: Final = {1: 200, 2: 200, 3: 3}
"""Number of steps on which brute force runs, for each number of contacts; with three contacts, each step takes half a
second."""
GOAL_FLOORS: Final = 40.0
"""Goal for the median time of a proof, relative to the time of the rigid-body terms."""
TROT_MU: Final = (0.05, 0.1, 0.2)
"""Friction coefficients of the trots."""
GOAL_TROT_US: Final = {"p99": 200.0, "max": 400.0}
"""Goals for the time of a search on trots [us]."""
REPEATED: Final = 5
"""Number of searches of each step of a trot; the shortest time counts."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the experiment.

    Attributes:
        robot: Name or path of a robot file with four feet.
        mu: Friction coefficient.
        cases: Number of steps for each number of contacts; in every second step the feet keep still, in the others they
            may slide.
        seed: Seed of the steps.
        trot_s: Length of each trot [s].
    """

    robot: str = "links"
    mu: Positive = 0.7
    cases: Count = 200
    seed: Seed = 0
    trot_s: Positive = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedStep:
    """The search on one step, compared with brute force.

    Attributes:
        contacts: Number of contacts.
        first_us: Time of the first program: the closest solution with the contact modes of Lemke's solution.
        proof_us: Time of the whole search.
        nodes: Number of quadratic programs in the search.
        proved: True if the search ended with a proof.
        improved: Squared distance from the target after the first program less that of the search, relative to the
            squared distance without impulses.
        brute_us: Time of brute force over bases; NaN if it did not run.
        excess: Squared distance of the closest basic solution less that of the search, relative as in `improved`; NaN
            if brute force did not run.
    """

    contacts: int
    first_us: float
    proof_us: float
    nodes: int
    proved: bool
    improved: float
    brute_us: float
    excess: float


def run(config: Config, progress: Progress) -> Results:
    """Time the search and brute force on the same steps, then the search on trots.

    Raises:
        InputError: The robot does not stand on feet, or friction has no bound.
    """
    robot = robots.load(config.robot)
    if not robot.description.feet or robot.description.base != "free-flyer":
        raise InputError(f"robot {robot.name!r} has no feet or no floating base: it cannot stand and move on them")
    if np.isinf(config.mu):
        raise InputError("mu=inf: the search is over modes of friction pyramids; give a finite mu")
    feet = robot.contacts(config.mu)
    system = feet.system
    home = robot.standing_state(system).q
    rng = np.random.default_rng(config.seed)
    steps: list[SearchedStep] = []
    floor: list[float] = []
    counts = range(1, len(robot.description.feet) + 1)
    for contacts in counts:
        for number in range(config.cases):
            nearest, start, problem = nearest_problem(rng, feet, home, contacts, still=number % 2 == 0)
            floor.append(microseconds(lambda: system.update(home, np.zeros(system.n_velocities))))
            brute = number < BRUTE_FORCE_CASES.get(contacts, 0)
            steps.append(measure(nearest, start, problem if brute else None))
            progress(0.5 * len(steps) / (config.cases * len(counts)))
    table = [table_row([step for step in steps if step.contacts == n], float(np.median(floor))) for n in counts]
    trots = []
    for mu in TROT_MU:
        trots.append(trot_row(mu, list(searches_of(config.robot, mu, config.trot_s))))
        progress(0.5 + 0.5 * len(trots) / len(TROT_MU))
    return Results(
        findings=findings(table, float(np.median(floor))) + trot_findings(trots),
        series=series(steps),
        drawings=[drawing(steps)],
        extra={"rows": table, "trots": trots},
    )


experiment = Case(
    name="enumeration",
    summary="the contact solution nearest to a target, with a proof (Zapolsky & Drumwright 2017, Algorithm 3)",
    presets={"default": Config()},
    simulate=run,
    rehearsals=lambda: [Config(cases=2, trot_s=0.1)],
)


def drawing(steps: Sequence[SearchedStep]) -> Drawing:
    """Draw the time of the search and of brute force, step by step, against the number of contacts."""
    aside = np.random.default_rng(0).uniform(-0.12, 0.12, len(steps))
    contacts = np.array([step.contacts for step in steps])
    with axes(size=(7.0, 3.6)) as plot:
        for times, label, colour, place in (
            ([step.brute_us for step in steps], "brute force over bases", "C1", 0.2),
            ([step.proof_us for step in steps], "branch and bound, with proof", "C0", -0.2),
        ):
            plot.plot(contacts + place + aside, times, ".", color=colour, label=label, markersize=4, alpha=0.6)
        plot.set(xlabel="contacts", ylabel="time of a step [μs]", yscale="log", xticks=np.unique(contacts))
        plot.legend()
    return Drawing("Time of the nearest solution", plot.figure)


def nearest_problem(
    rng: np.random.Generator, feet: SphereContacts, home: Array, contacts: int, *, still: bool
) -> tuple[NearestProblem, Array, StepProblem]:
    """Return the `NearestProblem` of a control step, impulses that solve the step, and the problem of the step.

    The target is the torque that belongs to these impulses after a random change.

    Args:
        rng: Source of pose, velocity, demanded joint velocities and touching feet.
        feet: The feet of a machine.
        home: Home configuration of the machine.
        contacts: Number of feet that touch the ground; the ground is placed at their height.
        still: True if the demand keeps the feet in place; else they may slide.
    """
    system = feet.system
    u = system.n_unactuated
    while True:
        q = pin.integrate(system.model, home, 0.1 * rng.normal(size=system.model.nv))
        v = 0.1 * rng.normal(size=system.n_velocities)
        system.update(q, system.to_pinocchio(v))
        detected = feet.detect(np.inf)
        touching = detected.take(np.sort(rng.permutation(len(detected))[:contacts]))
        touching.gap[:] = 0.0
        b = v[u:] + H * rng.normal(scale=10.0, size=system.n_actuated)
        if still:
            b = project(system.M, touching.jacobian, np.zeros(3 * contacts), b)
        problem = inverse_step(system, v, b, touching)
        solution = coulomb.solve(problem)
        if solution.status is Status.SOLVED and solution.impulses[:, 0].any():
            break
    reduction = whiten(problem)
    y, torque = solution.impulses.T.ravel(), torque_map(reduction, contacts)
    rho = reduction.rho[: 3 * contacts]
    last = solution.multipliers + torque @ (0.3 * np.abs(y).max() * rng.normal(size=y.size))
    nearest = NearestProblem(
        V=rho @ rho.T,
        v0=reduction.c[: 3 * contacts],
        mu=touching.mu,
        T=torque,
        t0=solution.multipliers - torque @ y,
        target=last,
        weights=np.ones_like(last),
    )
    return nearest, y, problem


def measure(nearest: NearestProblem, start: Array, problem: StepProblem | None) -> SearchedStep:
    """Time the first program, the whole search and, if `problem` is given, brute force over its bases."""
    first = nearest_solution(nearest, start, max_nodes=1)
    full = nearest_solution(nearest, start)
    brute_us = excess = float("nan")
    scale = 0.5 * float(np.sum((nearest.t0 - nearest.target) ** 2))
    if problem is not None:
        n = nearest.mu.size
        reduction = whiten(problem)
        Q, r, factors = coulomb_lcp(reduction.rho, reduction.c, problem.contacts.mu)
        X = np.zeros((nearest.t0.size, r.size))
        for axis in range(3):
            block = nearest.T[:, axis * n : (axis + 1) * n]
            if axis == 0:
                X[:, :n] = block
            else:
                X[:, (2 * axis - 1) * n : 2 * axis * n] = block
                X[:, 2 * axis * n : (2 * axis + 1) * n] = -block
        balanced = (factors[:, None] * Q * factors, factors * r, X * factors, nearest.t0, nearest.target)
        (_, value), seconds = timed(lambda: nearest_basis(*balanced))
        brute_us = 1e6 * float(seconds[0])
        excess = (value - full.value) / scale
    return SearchedStep(
        contacts=nearest.mu.size,
        first_us=microseconds(lambda: nearest_solution(nearest, start, max_nodes=1)),
        proof_us=microseconds(lambda: nearest_solution(nearest, start)),
        nodes=full.nodes,
        proved=full.proved,
        improved=(first.value - full.value) / scale,
        brute_us=brute_us,
        excess=excess,
    )


def microseconds(call: Callable[[], object]) -> float:
    """Return the time of the shortest of three calls [us]."""
    return 1e6 * float(timed(call, 3)[1].min())


def searches_of(robot: str, mu: float, duration_s: float) -> Iterator[tuple[float, int, bool]]:
    """Search a trot's steps with all feet on the ground; yield processor time [us], programs solved, True if proved.

    Steps for which no first solution is found are left out.
    """
    scene = WalkScene.of(WalkConfig(robot=robot, mu=mu, controller="id-coulomb-smooth"))
    setup = scene.controller_setup()
    again = InverseDynamics(schemes.COULOMB_SMOOTH, setup.system, setup.contacts, setup.acceleration_gains, setup.h)
    feet = len(scene.robot.description.feet)
    for tick in scene.simulated().ticks(round(duration_s / scene.period_s)):
        step = again.problem(tick.state, tick.reference)
        again(tick.state, tick.reference)
        if step.which.size < feet:
            continue
        solution = coulomb.solve(problem_of(step))
        if solution.status is Status.SOLVED:
            f = solution.impulses.T.ravel()
            search = partial(
                nearest_solution,
                schemes.nearest_problem(step, f, solution.multipliers, HEAP),
                f,
                max_nodes=tick_nodes(feet),
            )
            # processor time: other processes do not count
            search_result, seconds = timed(search, REPEATED, time.thread_time)
            yield 1e6 * float(seconds.min()), search_result.nodes, search_result.proved


def trot_row(mu: float, searches: Sequence[tuple[float, int, bool]]) -> dict[str, Any]:
    """Return percentiles of the searches of a trot."""
    us, nodes, proved = np.array(searches, dtype=np.float64).reshape(-1, 3).T
    return {
        "mu": mu,
        "steps": len(searches),
        "proved": int(proved.sum()),
        "us": percentiles(us),
        "nodes": percentiles(nodes),
    }


def trot_findings(rows: Sequence[dict[str, Any]]) -> list[Finding]:
    """Return the times of searches on trots, and check that each search proves its answer within its goal."""
    return [
        Finding(
            f"trot_{row['mu']}_{name}_us",
            row["us"][name],
            holds=row["us"][name] <= goal and row["proved"] == row["steps"],
        )
        for row in rows
        for name, goal in GOAL_TROT_US.items()
    ]


def table_row(steps: Sequence[SearchedStep], floor_us: float) -> dict[str, Any]:
    """Return the percentiles for one number of contacts."""
    proof, first, nodes, brute, excess = (
        np.array([getattr(step, name) for step in steps], dtype=np.float64)
        for name in ("proof_us", "first_us", "nodes", "brute_us", "excess")
    )
    ran = np.isfinite(brute)
    return {
        "contacts": steps[0].contacts,
        "cases": len(steps),
        "proved": sum(step.proved for step in steps),
        "improved_by_search": sum(step.improved > 1e-6 for step in steps),
        "us": percentiles(proof),
        "nodes": percentiles(nodes),
        "floor_ratio": float(np.median(proof)) / floor_us,
        "first_us": percentiles(first),
        "brute_force": {
            "cases": int(ran.sum()),
            "us": float(np.median(brute[ran])) if ran.any() else None,
            "farther": int((excess[ran] > 1e-6).sum()),
            "nearer": int((excess[ran] < -1e-6).sum()),
        },
    }


def percentiles(values: Array) -> dict[str, float]:
    """Return the median, the 90th and 99th percentile, and the maximum of `values`."""
    p50, p90, p99, most = (float(np.percentile(values, p)) for p in (50, 90, 99, 100))
    return {"p50": p50, "p90": p90, "p99": p99, "max": most}


def findings(table: Sequence[dict[str, Any]], floor_us: float) -> list[Finding]:
    """Return time and nodes of the search by number of contacts, and check that brute force finds nothing closer."""
    out = [Finding("floor_us", floor_us)]
    for row in table:
        n, brute = row["contacts"], row["brute_force"]
        out += [
            Finding(
                f"proof_{n}_us",
                row["us"]["p50"],
                holds=row["floor_ratio"] <= GOAL_FLOORS and row["proved"] == row["cases"],
            ),
            Finding(f"nodes_{n}", row["nodes"]["p50"]),
            Finding(f"first_{n}_us", row["first_us"]["p50"]),
        ]
        if brute["cases"]:
            out += [
                Finding(f"brute_force_{n}_us", brute["us"]),
                Finding(f"brute_force_{n}_nearer", brute["nearer"], holds=brute["nearer"] == 0),
            ]
    return out


def series(steps: Sequence[SearchedStep]) -> dict[str, Series]:
    """Return the values of every step, for the record."""
    names = ("contacts", "first_us", "proof_us", "nodes", "proved", "improved", "brute_us", "excess")
    return histories({name: np.array([getattr(step, name) for step in steps], np.float64) for name in names}, {})
