"""Balls and boxes dropped into a container, or on open ground, simulated with SAP (Castro et al. 2022, section X-C)."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np

from idcontrol.bench.league import conic
from idcontrol.config.configuration import Count, Duration, Positive, Seed
from idcontrol.dynamics.bodies import BodyState
from idcontrol.experiments.case import Case, Progress, exponent, step_ends, timed
from idcontrol.experiments.findings import Drawing, Finding, Results, Series, axes
from idcontrol.experiments.general_solvers import as_rows, beside, ground, heap_drawings, in_heaps
from idcontrol.models import sap
from idcontrol.models.sap.regularization import BETA, SIGMA
from idcontrol.models.sparse import SparseProblem, SparseSolution
from idcontrol.plants.bodies import FreeBodies
from idcontrol.scenes.clutter import CONTAINER_M, GRAVITY, RADIUS_M, drop
from idcontrol.types import Array, Booleans, Status

AT_REST = 10.0
"""Speed, including spin, below which a body rests, as a multiple of the slip that Castro et al. estimate. The estimate
holds for resting bodies only. Balls roll on for minutes, since nothing brakes them."""

PAPER_ITERATIONS = 3
SHOWN_STEPS = (60, 520)
"""Steps whose iterations Castro et al. 2022, Fig. 10, print for the heap with walls."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the case.

    Attributes:
        bodies: Number of bodies in the run that is shown in full.
        sizes: Numbers of bodies for which the time of a step is measured; empty to leave this out.
        sigmas: Slip parameters to try with `bodies` bodies; empty to leave this out.
        duration_s: Length of each run.
        step_s: Time step.
        seed: Seed of the shapes (ball or box) and orientations.
        mu: Friction coefficient of all surfaces.
        stiffness_n_m: Stiffness of every surface; the default is near-rigid.
        sigma: SAP's slip parameter.
        beta: SAP's period of a near-rigid contact, in steps.
        tolerance: Tolerance of SAP's momentum error.
        solver_steps: Number of steps of each heap of `sizes` for the comparison with general solvers; 0 means no
            comparison.
        solver_tolerance: Tolerance of the general solvers.
    """

    bodies: Count = 40
    sizes: tuple[Count, ...] = (8, 16, 40, 80, 160)
    sigmas: tuple[Positive, ...] = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
    duration_s: Duration = 10.0
    step_s: Positive = 0.01
    seed: Seed = 0
    mu: Positive = 1.0
    stiffness_n_m: Positive = 1e12
    sigma: Positive = SIGMA
    beta: Positive = BETA
    tolerance: Positive = 1e-5
    solver_steps: Annotated[int, msgspec.Meta(ge=0)] = 10
    solver_tolerance: Positive = 1e-8

    def parameters(self, sigma: float | None = None) -> sap.Parameters:
        """Return SAP's parameters; `sigma` replaces the slip parameter of these settings."""
        return sap.Parameters(sigma=self.sigma if sigma is None else sigma, beta=self.beta, tolerance=self.tolerance)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fall:
    """One heap; arrays have one value for each step, shape (steps,).

    Attributes:
        iterations: Newton steps of the slowest island, i.e. group of touching bodies.
        contacts: Number of listed contacts.
        momentum_error: Momentum error over all bodies (Castro et al. 2022, eq. 24), from velocities and impulses.
        step_us: Processor time of the whole step, collision detection included, which is its wall time on an idle
            machine [us].
        slip: Mean tangential speed of pressing contacts [m/s].
        solved: True if the solver met its tolerance.
        state: State at the end.
        problems: Contact problems of `Config.solver_steps` equally spaced steps, including the last.
        condition: Condition number of the Hessian at the end.
        resting_slip: Mean tangential speed of pressing contacts between resting bodies, at the end [m/s].
        rolling: Number of bodies that do not rest at the end.
    """

    iterations: Array
    contacts: Array
    momentum_error: Array
    step_us: Array
    slip: Array
    solved: Array
    state: BodyState
    problems: Sequence[SparseProblem]
    condition: float
    resting_slip: float
    rolling: int

    @property
    def steady(self) -> slice:
        """Return the second half of the steps."""
        return slice(len(self.iterations) // 2, None)


def scene(config: Config, bodies: int, *, walls: bool, sigma: float | None = None) -> tuple[FreeBodies, BodyState]:
    """Return the plant and its start (`idcontrol.scenes.clutter`).

    Args:
        config: Physical constants, seed and settings of the solver.
        bodies: Number of bodies.
        walls: True for a container, False for open ground.
        sigma: Slip parameter; None means `config.sigma`.
    """
    return drop(
        bodies,
        walls=walls,
        seed=config.seed,
        step_s=config.step_s,
        mu=config.mu,
        stiffness_n_m=config.stiffness_n_m,
        parameters=config.parameters(sigma),
    )


def simulate(config: Config, bodies: int, *, walls: bool, sigma: float | None = None) -> Fall:
    """Drop the bodies and record every step."""
    plant, start = scene(config, bodies, walls=walls, sigma=sigma)
    state = plant.reset(start)
    steps = max(2, round(config.duration_s / config.step_s))
    iterations, contacts, error, step_us, slip, solved = np.zeros((6, steps))
    kept, problems = set(np.linspace(0, steps - 1, config.solver_steps + 1).astype(int)[1:]), []
    for step in range(steps):
        state, seconds = timed(lambda: plant.step(config.step_s), clock=time.thread_time)
        step_us[step] = 1e6 * seconds[0]
        problem, solution = plant.problem, plant.last
        assert problem is not None
        assert solution is not None
        iterations[step], contacts[step] = solution.iterations, len(problem.gap)
        if step in kept:
            problems.append(problem)
        error[step] = conic.momentum_error(problem, conic.by_sap(problem, solution, seconds[0]))
        slip[step] = _mean_slip(solution, solution.impulses[:, 0] > 0.0)
        solved[step] = solution.status is Status.SOLVED
    assert problem is not None
    assert solution is not None
    speed = np.linalg.norm(state.velocity[:, :3], axis=1) + RADIUS_M * np.linalg.norm(state.velocity[:, 3:], axis=1)
    moves = speed > AT_REST * _estimate(config, sigma)
    # the world has index -1, the last, and rests
    rests = ~np.append(moves, False)[problem.tree].any(axis=1) & (solution.impulses[:, 0] > 0.0)
    return Fall(
        iterations=iterations,
        contacts=contacts,
        momentum_error=error,
        step_us=step_us,
        slip=slip,
        solved=solved,
        state=state,
        problems=problems,
        condition=conic.condition(
            conic.program(problem, config.parameters(sigma).sigma, config.beta), solution.v_plus.ravel()
        ),
        resting_slip=_mean_slip(solution, rests),
        rolling=int(moves.sum()),
    )


def _estimate(config: Config, sigma: float | None = None) -> float:
    """Return the slip of a sticking contact, σ μ h g (Castro et al. 2022, eq. 23) [m/s]."""
    return config.parameters(sigma).sigma * config.mu * config.step_s * GRAVITY


def _mean_slip(solution: SparseSolution, which: Booleans) -> float:
    """Return the mean tangential speed of some contacts [m/s]; 0 without contacts."""
    if not which.any():
        return 0.0
    return float(np.linalg.norm(solution.contact_velocity[which, 1:], axis=1).mean())


def run(config: Config, progress: Progress) -> Results:
    """Drop heaps with and without walls: of the main size, of growing sizes, and with other slip parameters.

    Steps of the growing heaps are also solved by general solvers, for comparison.
    """
    # loads the kernels, so that no timed step includes their loading
    simulate(msgspec.structs.replace(config, duration_s=2.0 * config.step_s), config.bodies, walls=True)
    falls = 2 + 2 * len(config.sizes) + 2 * len(config.sigmas)
    done = 0

    def timed(bodies: int, walls: bool, sigma: float | None = None) -> Fall:
        nonlocal done
        fall = simulate(config, bodies, walls=walls, sigma=sigma)
        done += 1
        progress(done / falls)
        return fall

    main = {walls: timed(config.bodies, walls) for walls in (True, False)}
    grown = {walls: [timed(size, walls) for size in config.sizes] for walls in (True, False)}
    slipped = {walls: [timed(config.bodies, walls, sigma) for sigma in config.sigmas] for walls in (True, False)}
    findings = [finding for walls in (True, False) for finding in _main(config, walls, main[walls])]
    findings += _of_figures(config, main, slipped[True])
    solvers_by_heap = {
        (walls, size): beside(fall.problems, config.parameters(), config.solver_tolerance)
        for walls, falls in grown.items()
        for size, fall in zip(config.sizes, falls, strict=True)
        if fall.problems
    }
    if solvers_by_heap:
        findings += in_heaps(solvers_by_heap, config.bodies)
    for walls in (True, False):
        findings.extend(_growth(config, walls, grown[walls]))
        findings.extend(_slips(config, walls, slipped[walls]))
    drawings = [_history(config, main)]
    if config.sizes:
        drawings.append(_growth_drawing(config.sizes, grown))
    if config.sigmas:
        drawings.append(_slip_drawing(config, slipped))
    solvers = [
        row for (walls, size), each in solvers_by_heap.items() for row in as_rows(each, heap=ground(walls), bodies=size)
    ]
    return Results(
        findings=findings,
        series=_series(config, main),
        drawings=[*drawings, *heap_drawings(solvers_by_heap)],
        extra={"solvers": solvers} if solvers else {},
    )


experiment = Case(
    name="clutter",
    summary="falling balls and boxes with SAP: iterations, computing time, slip, momentum error",
    presets={"default": Config(), "quick": Config(sizes=(8, 40), sigmas=(), duration_s=2.0)},
    simulate=run,
    rehearsals=lambda: [Config(bodies=8, sizes=(), sigmas=(), duration_s=0.4)],
)


def _main(config: Config, walls: bool, fall: Fall) -> list[Finding]:
    """Return findings about the heap that is shown in full."""
    where, steady = ground(walls), fall.steady
    bound = _estimate(config)
    inside = np.abs(fall.state.position[:, :2]).max() < 0.5 * CONTAINER_M or not walls
    through = bool(fall.state.position[:, 2].min() > 0.9 * RADIUS_M)
    iterations = float(fall.iterations[steady].mean())
    return [
        Finding(
            f"iterations_{where}",
            iterations,
            # the paper says "only about 3", which may stand for anything below 3.5
            holds=iterations <= 1.5 * PAPER_ITERATIONS if walls else None,
            beside=walls,
        ),
        Finding(f"step_{where}_us", np.median(fall.step_us[steady])),
        Finding(
            f"momentum_error_{where}",
            fall.momentum_error.max(),
            holds=fall.momentum_error.max() <= config.tolerance and fall.solved.all(),
        ),
        Finding(f"contacts_{where}", fall.contacts[-1]),
        Finding(f"slip_{where}_m_s", fall.slip[steady].mean(), holds=fall.resting_slip <= bound),
        Finding(f"kept_{where}", inside and through, holds=inside and through),
    ]


def _of_figures(config: Config, main: Mapping[bool, Fall], slipped: Sequence[Fall]) -> list[Finding]:
    """Return findings of Figs. 10, 11, 15: contacts with and without walls; iterations, also by slip parameter."""
    walled, bare = (float(main[where].contacts[-1]) for where in (True, False))
    findings = [Finding("contacts_open_over_walls", bare / walled if walled else None, agrees=bare > walled)]
    findings += [
        Finding(f"iterations_step_{step}", int(main[True].iterations[step - 1]))
        for step in SHOWN_STEPS
        if step <= len(main[True].iterations)
    ]
    if len(slipped) > 1:
        means = [float(fall.iterations.mean()) for fall in slipped]
        correlation = float(np.corrcoef(np.log(config.sigmas), means)[0, 1])
        findings.append(Finding("iterations_correlation_with_ln_sigma", correlation, agrees=correlation < -0.9))
        conditions = [fall.condition for fall in slipped]
        findings.append(Finding("condition_exponent_of_sigma", exponent(config.sigmas, conditions)))
    return findings


def _growth(config: Config, walls: bool, falls: Sequence[Fall]) -> list[Finding]:
    """Return findings about the time of a step by number of bodies, and the exponent of its growth."""
    where = ground(walls)
    medians = [float(np.median(fall.step_us)) for fall in falls]
    findings = [
        Finding(f"step_{where}_{size}_bodies_us", median, holds=fall.solved.all())
        for size, median, fall in zip(config.sizes, medians, falls, strict=True)
    ]
    if len(set(config.sizes)) > 1:
        growth = exponent(config.sizes, medians)
        findings.append(Finding(f"growth_{where}", growth))
    return findings


def _slips(config: Config, walls: bool, falls: Sequence[Fall]) -> list[Finding]:
    """Return a finding about the resting slip at the end for each slip parameter."""
    return [
        Finding(
            f"slip_{ground(walls)}_sigma_{sigma:.0e}_m_s".replace("-", "m"),
            fall.resting_slip,
            holds=fall.resting_slip <= _estimate(config, sigma),
            paper=f"below {_estimate(config, sigma):.1e}",
        )
        for sigma, fall in zip(config.sigmas, falls, strict=True)
    ]


def _series(config: Config, main: Mapping[bool, Fall]) -> dict[str, Series]:
    """Return histories of the heaps that are shown in full."""
    series = {"t": Series(step_ends(config.step_s, len(main[True].iterations)), "s")}
    for walls, fall in main.items():
        where = ground(walls)
        series |= {
            f"iterations_{where}": Series(fall.iterations),
            f"contacts_{where}": Series(fall.contacts),
            f"momentum_error_{where}": Series(fall.momentum_error),
            f"slip_{where}_m_s": Series(fall.slip, "m/s"),
            f"step_us_{where}": Series(fall.step_us, "us", wall_time=True),
        }
    return series


def _history(config: Config, main: Mapping[bool, Fall]) -> Drawing:
    with axes(rows=2, size=(7.0, 5.0), sharex=True) as (above, below):
        for walls, fall in main.items():
            t = step_ends(config.step_s, len(fall.iterations))
            above.plot(t, fall.iterations, linewidth=0.8, label=ground(walls))
            below.semilogy(t, fall.step_us, linewidth=0.8, label=ground(walls))
        above.set_ylabel("iterations")
        below.set(xlabel="time [s]", ylabel="time of a step [us]")
        above.legend()
    return Drawing("Iterations and time of each step (Castro et al. 2022, Fig. 9)", below.figure)


def _growth_drawing(sizes: Sequence[int], grown: Mapping[bool, Sequence[Fall]]) -> Drawing:
    with axes(size=(6.0, 4.0)) as plot:
        for walls, falls in grown.items():
            plot.loglog(sizes, [np.median(fall.step_us) for fall in falls], "o-", label=ground(walls))
        plot.set_xticks(sizes, [str(size) for size in sizes])
        plot.minorticks_off()
        plot.set(xlabel="bodies", ylabel="median time of a step [us]")
        plot.legend()
    return Drawing("Time of a step against the number of bodies (Castro et al. 2022, section X-C1)", plot.figure)


def _slip_drawing(config: Config, slipped: Mapping[bool, Sequence[Fall]]) -> Drawing:
    sigmas = np.array(config.sigmas)
    with axes(columns=3, size=(9.0, 3.5)) as (left, right, condition):
        for walls, falls in slipped.items():
            left.loglog(sigmas, [fall.resting_slip for fall in falls], "o-", label=ground(walls))
            right.semilogx(sigmas, [fall.iterations.mean() for fall in falls], "o-", label=ground(walls))
            condition.loglog(sigmas, [fall.condition for fall in falls], "o-", label=ground(walls))
        left.loglog(sigmas, sigmas * config.mu * config.step_s * GRAVITY, "--", label="σ μ h g")
        left.set(xlabel="σ", ylabel="mean slip at rest [m/s]")
        right.set(xlabel="σ", ylabel="iterations, mean")
        condition.set(xlabel="σ", ylabel="condition of the Hessian")
        left.legend()
        left.figure.tight_layout()
    return Drawing(
        "Slip, iterations and condition against the slip parameter (Castro et al. 2022, Figs. 14 and 15)", left.figure
    )
