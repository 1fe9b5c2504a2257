"""Steel spheres fall onto each other and stand as a column: time against the number of spheres.

Drumwright 2019, section 6.5.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import coal
import msgspec
import numpy as np

from idcontrol.config.configuration import Count, Positive
from idcontrol.contact.body_contacts import BodyContacts
from idcontrol.contact.terrain import plane
from idcontrol.dynamics.bodies import BodyState, Surface, solid
from idcontrol.experiments.case import GRAVITY, Case, Progress, chosen, exponent, step_ends
from idcontrol.experiments.findings import Drawing, Finding, Results, Series, axes
from idcontrol.models import constraint, sap
from idcontrol.models.constraint.sparse import solve_sparse
from idcontrol.models.sparse import SparseProblem, SparseSolution
from idcontrol.plants.bodies import BodyModel, FreeBodies, dense
from idcontrol.types import Array, Status


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the case. The paper prints neither size nor distance of the spheres.

    Attributes:
        plant: ``constraint`` (the paper's model), ``sap``, or ``all``; both solvers exploit sparsity.
        sizes: Numbers of spheres for ``constraint``.
        sparse_sizes: Numbers of spheres for ``sap``.
        steps: Number of steps of a run.
        step_s: Time step.
        radius_m: Radius of the spheres.
        density_kg_m3: Density of steel.
        modulus_pa: Young's modulus E; a contact of two equal spheres has the stiffness E r / 2 here.
        damping_n_s_m: Damping of each surface.
        mu: Friction coefficient.
        gap_m: Gap between neighbouring spheres at the start.
        beta: SAP's period of a near-rigid contact, in steps. SAP scales the softness of a contact by the two touching
            masses, not by the weight above: with β = 1, a hundred spheres sink by 0.3 m and bounce.
    """

    plant: str = "all"
    sizes: tuple[Count, ...] = (5, 10, 20, 40, 100)
    sparse_sizes: tuple[Count, ...] = (5, 10, 20, 40, 100)
    steps: Count = 500
    step_s: Positive = 0.01
    radius_m: Positive = 0.05
    density_kg_m3: Positive = 7850.0
    modulus_pa: Positive = 1e11
    damping_n_s_m: Positive = 1.0
    mu: Positive = 0.5
    gap_m: Positive = 0.01
    beta: Positive = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """The run of one column.

    Attributes:
        spent_s: Processor time of the run, which is its wall time on an idle machine.
        drift: Largest horizontal distance of a sphere from the axis at the end [m].
        speed: Largest speed at the end [m/s].
        ground_force: Upward force of the ground at the end, as a multiple of the column's weight.
        sunk: Distance by which the top is lower than the top of a column of rigid spheres [m].
        height: Height of the topmost centre after each step, shape (steps,) [m].
        solved: True if every step was solved.
    """

    spent_s: float
    drift: float
    speed: float
    ground_force: float
    sunk: float
    height: Array
    solved: bool


def _constraint(config: Config) -> BodyModel:
    whole = dense(constraint.solve)

    def solve(problem: SparseProblem, contacts: BodyContacts) -> SparseSolution:
        solution = solve_sparse(problem)
        return whole(problem, contacts) if solution is None else solution

    return solve


def _sap(config: Config) -> BodyModel:
    return lambda problem, contacts: sap.solve_sparse(problem, beta=config.beta)


MODELS: Mapping[str, Callable[[Config], BodyModel]] = {"constraint": _constraint, "sap": _sap}


def simulate(config: Config, name: str, spheres: int) -> Stack:
    """Let the column fall."""
    r = config.radius_m
    surface = Surface(mu=config.mu, stiffness=config.modulus_pa * r, damping=config.damping_n_s_m)
    bodies = [solid(f"sphere{i}", coal.Sphere(r), config.density_kg_m3, surface) for i in range(spheres)]
    plant = FreeBodies(bodies, MODELS[name](config), terrain=plane(), ground=surface, gravity=(0.0, 0.0, -GRAVITY))
    z = r + config.gap_m + (2.0 * r + config.gap_m) * np.arange(spheres)
    state = plant.reset(BodyState.at_rest(np.column_stack([np.zeros((spheres, 2)), z])))
    height, solved = np.empty(config.steps), True
    began = time.thread_time()
    for step in range(config.steps):
        state = plant.step(config.step_s)
        height[step] = state.position[-1, 2]
        solved &= plant.last is not None and plant.last.status is Status.SOLVED
    spent = time.thread_time() - began
    forces = plant.contact_forces()
    return Stack(
        spent_s=spent,
        drift=float(np.linalg.norm(state.position[:, :2], axis=1).max()),
        speed=float(np.linalg.norm(state.velocity[:, :3], axis=1).max()),
        ground_force=float(forces.force[forces.body[:, 1] < 0, 2].sum() / (plant.inertias.mass.sum() * GRAVITY)),
        sunk=float((2 * spheres - 1) * r - state.position[-1, 2]),
        height=height,
        solved=bool(solved),
    )


def depth(config: Config, name: str, spheres: int) -> float:
    """Return the sum of the contact depths of a column at rest, by the law of the model [m].

    Springs ``K = E r / 2`` compress by load / K. SAP makes stiff contacts near-rigid (Castro et al. 2022, eq. 21): at
    rest ``φ = -load h (h + τ_d) R_n`` with ``R_n = max(β² w / 4π², 1/(h K (h + τ_d)))``, τ_d the damping over the
    stiffness and w an inverse effective mass of the contact.
    """
    r, h = config.radius_m, config.step_s
    mass = 4.0 / 3.0 * np.pi * r**3 * config.density_kg_m3
    load = mass * GRAVITY * np.arange(spheres, 0, -1)
    stiffness = 0.5 * config.modulus_pa * r
    softness = np.full(spheres, 1.0 / stiffness)
    if name == "sap":
        # |J M⁻¹ Jᵀ|_F / 3 of a solid sphere on the ground; between two spheres it is twice as large
        w = np.sqrt(1.0 + 2.0 * 3.5**2) / 3.0 / mass * np.where(np.arange(spheres) == 0, 1.0, 2.0)
        relaxed = h * (h + config.damping_n_s_m / (config.modulus_pa * r))
        softness = np.maximum(softness, relaxed * config.beta**2 * w / (4.0 * np.pi**2))
    return float(softness @ load)


def run(config: Config, progress: Progress) -> Results:
    """Simulate columns of growing height under each model.

    Raises:
        UnknownName: The model does not exist.
    """
    sizes = chosen({"constraint": config.sizes, "sap": config.sparse_sizes}, config.plant)
    total, done = sum(sum(each) for each in sizes.values()), 0
    stacks: dict[str, list[Stack]] = {}
    for name, each in sizes.items():
        # loads the kernels, so that no timed step includes their loading
        simulate(msgspec.structs.replace(config, steps=5), name, 2)
        stacks[name] = []
        for spheres in each:
            stacks[name].append(simulate(config, name, spheres))
            done += spheres
            progress(done / total)
    findings, series = [], {"t": Series(step_ends(config.step_s, config.steps), "s")}
    for name, each in sizes.items():
        for spheres, stack in zip(each, stacks[name], strict=True):
            series[f"height_{name}_{spheres}_m"] = Series(stack.height, "m")
            findings.extend(_findings(config, name, spheres, stack))
        if len(set(each)) > 1:
            findings.append(Finding(f"growth_{name}", exponent(each, [stack.spent_s for stack in stacks[name]])))
    return Results(findings=findings, series=series, drawings=[_drawing(config, sizes, stacks)])


experiment = Case(
    name="sphere-stack",
    summary="stacks of steel spheres: stability, penetration, computing time",
    presets={
        "default": Config(),
        "paper": Config(sizes=(5, 10, 20, 40, 70, 100)),
        "quick": Config(sizes=(5, 10), sparse_sizes=(5, 20), steps=200),
    },
    simulate=run,
    rehearsals=lambda: [Config(sizes=(2,), sparse_sizes=(2,), steps=10)],
)


def _findings(config: Config, name: str, spheres: int, stack: Stack) -> list[Finding]:
    """Return findings about one column."""
    key, exact = f"{name}_{spheres}", depth(config, name, spheres)
    virtual = config.steps * config.step_s
    stands = stack.drift < 1e-3 * config.radius_m and stack.solved
    return [
        Finding(f"time_{key}_s", stack.spent_s / virtual),
        Finding(f"stands_{key}", stands, holds=stands, beside=name == "constraint"),
        Finding(f"ground_force_{key}", stack.ground_force, holds=abs(stack.ground_force - 1.0) < 1e-3),
        Finding(f"sunk_{key}_m", stack.sunk, holds=abs(stack.sunk - exact) <= 0.01 * exact),
    ]


def _drawing(config: Config, sizes: Mapping[str, Sequence[int]], stacks: Mapping[str, Sequence[Stack]]) -> Drawing:
    with axes(size=(6.0, 4.0)) as plot:
        for name, each in sizes.items():
            virtual = config.steps * config.step_s
            plot.loglog(each, [stack.spent_s / virtual for stack in stacks[name]], "o-", label=name)
        ticks = sorted({size for each in sizes.values() for size in each})
        plot.set_xticks(ticks, [str(size) for size in ticks])
        plot.minorticks_off()
        plot.set(xlabel="spheres", ylabel="time for one second [s]")
        plot.legend()
    return Drawing("Time for one second of virtual time (Drumwright 2019, Fig. 10)", plot.figure)
