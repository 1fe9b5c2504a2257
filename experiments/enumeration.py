"""The contact forces whose torque is nearest to the last one: branch and bound with proof, beside brute force.

003 calls its chatter-minimizing enumeration (Algorithm 3, MINDIFF) impractical: it tries 2^(6n) bases for n contacts.
Branch and bound over contact modes (math.md 6.3) gives the same or a nearer answer, with the proof that there is none
nearer. Here both run on the same steps of a quadruped that stands and moves on one to four feet; on four, brute force
would take minutes a step and is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import numpy as np
import pinocchio as pin

from idcontrol import robots
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.controllers.projection import project
from idcontrol.errors import InputError
from idcontrol.experiments.findings import Finding, save
from idcontrol.models import coulomb
from idcontrol.models.distribution import torque_map
from idcontrol.models.step import Prescribed, StepProblem
from idcontrol.models.whitened import whiten
from idcontrol.solvers.enumerate import NearestProblem, nearest_solution
from idcontrol.solvers.mindiff import nearest_basis
from idcontrol.system import System
from idcontrol.trust.contact_lcps import coulomb_lcp
from idcontrol.types import Array, Status

Count = Annotated[int, msgspec.Meta(ge=1)]
Positive = Annotated[float, msgspec.Meta(gt=0)]

H: Final = 1e-3
BRUTE_FORCE_CASES: Final = {1: 200, 2: 200, 3: 3}
"""Cases on which brute force runs, by the number of contacts: half a second each at three."""
LIMITS: Final = (3, 30, 100)
"""Quadratic programs after which the search is cut off, to see what it has by then."""
GOAL_FLOORS: Final = 150.0
"""Bar for the median at four contacts, in times of the rigid-body terms."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that decides it.

    Attributes:
        robot: Name or path of a robot file with four feet.
        mu: Friction.
        cases: Steps for each number of contacts; every second one keeps its feet, the others may slide.
        seed: Of the steps.
    """

    robot: str = "links"
    mu: Positive = 0.7
    cases: Count = 200
    seed: int = 0


PRESETS = {"default": Config()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One step: times [us], quadratic programs, whether proved, and what brute force found.

    Attributes:
        contacts: Number of contacts.
        first_us: Time of the nearest solution with Lemke's contact modes.
        proof_us: Time of the whole search.
        nodes: Quadratic programs of the search.
        proved: Whether it was completed.
        improved: By how much, relatively, the search found a nearer torque than the first program.
        brute_us: Time of brute force over bases; NaN where it did not run.
        excess: By how much, relatively, the nearest basic solution is farther than the search's; NaN likewise.
        cut: For each of `LIMITS`: time [us], quadratic programs, whether proved, by how much, relatively, the answer is
            farther than the nearest, and by how much its lower bound is too high, shape (limits, 5).
    """

    contacts: int
    first_us: float
    proof_us: float
    nodes: int
    proved: bool
    improved: float
    brute_us: float
    excess: float
    cut: Array


class Enumeration:
    """The experiment, as the command line finds it."""

    name = "enumeration"
    summary = "the nearest contact solution with proof, beside brute force over bases (003 Algorithm 3): time and nodes"
    presets = PRESETS

    def run(self, config: Config, out: Path, progress: Callable[[float], None]) -> dict[str, Any]:
        """Time both on the same steps.

        Raises:
            InputError: The robot does not stand on feet, or friction has no bound.
        """
        began = time.perf_counter()
        robot = robots.load(config.robot)
        if not robot.description.feet or robot.description.base != "free-flyer":
            raise InputError(f"robot {robot.name!r} has no feet or no floating base: it cannot stand and move on them")
        if np.isinf(config.mu):
            raise InputError("mu=inf: modes of contacts are those of friction pyramids; give a finite mu")
        system = robot.system()
        feet = robot.description.feet
        spheres = SphereContacts(
            system,
            [foot.frame for foot in feet],
            [foot.radius_m for foot in feet],
            plane(),
            config.mu,
            offsets=[foot.offset_m for foot in feet],
        )
        home = robot.standing_state(system).q
        rng = np.random.default_rng(config.seed)
        cases: list[Case] = []
        floor: list[float] = []
        counts = range(1, len(feet) + 1)
        for contacts in counts:
            for number in range(config.cases):
                nearest, start, problem = nearest_problem(rng, system, spheres, home, contacts, still=number % 2 == 0)
                floor.append(microseconds(lambda: system.update(home, np.zeros(system.n_velocities))))
                brute = number < BRUTE_FORCE_CASES.get(contacts, 0)
                cases.append(measure(nearest, start, problem if brute else None))
                progress(len(cases) / (config.cases * len(counts)))
        table = [table_row([c for c in cases if c.contacts == n], float(np.median(floor))) for n in counts]
        return save(
            out,
            experiment=self.name,
            config=config,
            findings=findings(table, float(np.median(floor))),
            arrays=series(cases),
            wall_time=("first_us", "proof_us", "brute_us"),
            extra={"rows": table},
            began=began,
        )

    def warmup(self, out: Path) -> None:
        """Two steps for each number of contacts: every kernel is compiled and cached."""
        self.run(Config(cases=2), out, lambda share: None)


experiment = Enumeration()


def nearest_problem(
    rng: np.random.Generator, system: System, spheres: SphereContacts, home: Array, contacts: int, *, still: bool
) -> tuple[NearestProblem, Array, StepProblem]:
    """A step on some feet, a solution of it, and a torque to be near to: that of a solution with other shares.

    Args:
        rng: What is random: pose, velocity, demand, which feet.
        system: The machine.
        spheres: Its feet.
        home: Its home configuration.
        contacts: How many feet touch the ground, whose height follows them.
        still: Whether the demand keeps the feet where they are; else they are told to slide.
    """
    u = system.n_unactuated
    while True:
        q = pin.integrate(system.model, home, 0.1 * rng.normal(size=system.model.nv))
        v = 0.1 * rng.normal(size=system.n_velocities)
        system.update(q, system.to_pinocchio(v))
        detected = spheres.detect(np.inf)
        feet = detected.take(np.sort(rng.permutation(len(detected))[:contacts]))
        feet.gap[:] = 0.0
        b = v[u:] + H * rng.normal(scale=10.0, size=system.n_actuated)
        if still:
            b = project(system.M, feet.jacobian, np.zeros(3 * contacts), b)
        problem = StepProblem(
            h=H,
            M=system.M.copy(),
            kappa=H * system.bias - system.M @ v,
            contacts=feet,
            prescribed=Prescribed(index=np.arange(u, system.n_velocities), velocity=b),
        )
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
        mu=feet.mu,
        T=torque,
        t0=solution.multipliers - torque @ y,
        target=last,
        weights=np.ones_like(last),
    )
    return nearest, y, problem


def measure(nearest: NearestProblem, start: Array, problem: StepProblem | None) -> Case:
    """Time the first program, the whole search and, where a problem is given, brute force over its bases."""
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
        began = time.perf_counter()
        _, value = nearest_basis(*balanced)
        brute_us = 1e6 * (time.perf_counter() - began)
        excess = (value - full.value) / scale
    return Case(
        contacts=nearest.mu.size,
        first_us=microseconds(lambda: nearest_solution(nearest, start, max_nodes=1)),
        proof_us=microseconds(lambda: nearest_solution(nearest, start)),
        nodes=full.nodes,
        proved=full.proved,
        improved=(first.value - full.value) / scale,
        brute_us=brute_us,
        excess=excess,
        cut=np.array([cut_off(nearest, start, limit, full.value) for limit in LIMITS]),
    )


def cut_off(nearest: NearestProblem, start: Array, limit: int, value: float) -> tuple[float, ...]:
    """One row of `Case.cut`, where `value` is the objective of the nearest solution."""
    found = nearest_solution(nearest, start, max_nodes=limit)
    scale = 0.5 * float(np.sum((nearest.t0 - nearest.target) ** 2))
    return (
        microseconds(lambda: nearest_solution(nearest, start, max_nodes=limit)),
        found.nodes,
        found.proved,
        (found.value - value) / scale,
        (found.lower_bound - value) / scale,
    )


def microseconds(call: Callable[[], object]) -> float:
    """Shortest of three calls [us]."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return 1e6 * min(times)


def table_row(cases: Sequence[Case], floor_us: float) -> dict[str, Any]:
    """Percentiles for one number of contacts."""
    proof, first, nodes, brute, excess = (
        np.array([getattr(case, name) for case in cases], dtype=np.float64)
        for name in ("proof_us", "first_us", "nodes", "brute_us", "excess")
    )
    ran = np.isfinite(brute)
    cut = np.array([case.cut for case in cases])
    return {
        "contacts": cases[0].contacts,
        "cases": len(cases),
        "proved": sum(case.proved for case in cases),
        "improved_by_search": sum(case.improved > 1e-6 for case in cases),
        "us": percentiles(proof),
        "nodes": percentiles(nodes),
        "floor_ratio": float(np.median(proof)) / floor_us,
        "first_us": percentiles(first),
        "cut_off": [
            {
                "limit": limit,
                "us": percentiles(cut[:, at, 0]),
                "nodes_most": int(cut[:, at, 1].max()),
                "proved": int(cut[:, at, 2].sum()),
                "farther": int((cut[:, at, 3] > 1e-6).sum()),
                "bound_excess": float(cut[:, at, 4].max()),
            }
            for at, limit in enumerate(LIMITS)
        ],
        "brute_force": {
            "cases": int(ran.sum()),
            "us": float(np.median(brute[ran])) if ran.any() else None,
            "farther": int((excess[ran] > 1e-6).sum()),
            "nearer": int((excess[ran] < -1e-6).sum()),
        },
    }


def percentiles(values: Array) -> dict[str, float]:
    """Median, 90th and 99th percentile, and the largest."""
    p50, p90, p99, most = (float(np.percentile(values, p)) for p in (50, 90, 99, 100))
    return {"p50": p50, "p90": p90, "p99": p99, "max": most}


def findings(table: Sequence[dict[str, Any]], floor_us: float) -> list[Finding]:
    """Time and nodes of the search by contacts, and that brute force finds nothing nearer."""
    out = [Finding("floor_us", floor_us, "us", note="rigid-body terms from Python, in the same run")]
    for row in table:
        n, brute = row["contacts"], row["brute_force"]
        out += [
            Finding(
                f"proof_{n}_us",
                row["us"]["p50"],
                "us",
                holds=row["floor_ratio"] <= GOAL_FLOORS,
                note=f"median of {row['cases']}, {row['proved']} proved; p90 {row['us']['p90']:.0f}, p99 "
                f"{row['us']['p99']:.0f}, worst {row['us']['max']:.0f} us; {row['floor_ratio']:.0f} times the floor, "
                f"at most {GOAL_FLOORS:.0f}",
            ),
            Finding(
                f"nodes_{n}",
                row["nodes"]["p50"],
                paper=f"2^{6 * n} bases",
                note=f"quadratic programs, median; p99 {row['nodes']['p99']:.0f}, most {row['nodes']['max']:.0f}",
            ),
            Finding(f"first_{n}_us", row["first_us"]["p50"], "us", note="nearest with the modes of Lemke's solution"),
        ]
        out += [
            Finding(
                f"cut_{cut['limit']}_{n}_us",
                cut["us"]["max"],
                "us",
                # the search may exceed its limit by no program, and a bound above the optimum would be a false proof
                holds=cut["nodes_most"] <= cut["limit"] and cut["bound_excess"] <= 1e-6,
                note=f"worst time of the search cut off after {cut['limit']} quadratic programs, median "
                f"{cut['us']['p50']:.0f} us; of {row['cases']} {cut['proved']} were proved by then, and in "
                f"{cut['farther']} a nearer solution was still to be found",
            )
            for cut in row["cut_off"]
        ]
        if brute["cases"]:
            out += [
                Finding(f"brute_force_{n}_us", brute["us"], "us", note=f"all bases, median of {brute['cases']}"),
                Finding(
                    f"brute_force_{n}_nearer",
                    brute["nearer"],
                    holds=brute["nearer"] == 0,
                    note=f"cases in which a basis is nearer than the search's answer; in {brute['farther']} the "
                    "nearest basis is farther, as it can only be a vertex",
                ),
            ]
    return out


def series(cases: Sequence[Case]) -> dict[str, Array]:
    """Every case, for the record."""
    names = ("contacts", "first_us", "proof_us", "nodes", "proved", "improved", "brute_us", "excess")
    return {name: np.array([getattr(case, name) for case in cases], dtype=np.float64) for name in names}
