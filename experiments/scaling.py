"""Time of inverse dynamics against the number of contacts, 1 to 1000, and operations of stage I.

Zapolsky & Drumwright 2017, section 8.4.2, Fig. 19; section 6.2.3, Tables 1 and 2.
"""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from idcontrol.bench import operations
from idcontrol.bench.measurement import floor
from idcontrol.bench.models import SCHEMES, scheme_job
from idcontrol.bench.problems import walks
from idcontrol.bench.problems.walks import RecordedWalk, WalkStep, problems
from idcontrol.bench.timing import Job, in_turns
from idcontrol.config.configuration import Count, Positive
from idcontrol.errors import InputError
from idcontrol.experiments.case import Case, Progress, exponent
from idcontrol.experiments.findings import Drawing, Finding, Results, Series, axes
from idcontrol.kernels.arena import HEAP
from idcontrol.models.coulomb import MOST_CONTACTS
from idcontrol.models.dissipation import edge_lcp_kernel
from idcontrol.models.whitened import recover_kernel, whiten_kernel
from idcontrol.show.comparison.figures import COLORS
from idcontrol.types import Array

PERIODS = 320
"""Number of control periods whose problems are solved: a gait period of solo12 at 1 kHz."""

PERIOD_US = 1000.0
"""Period of a controller at 1 kHz, to which Fig. 19 compares times."""

PAPER_CONTACTS: Mapping[str, int] = {
    "no-slip LCP alone": 40,
    "id-noslip-qp": 30,
    "id-coulomb-qp": 30,
    "id-coulomb-qp-1": 30,
    "id-coulomb-lcp": 4,
}
"""Number of contacts that the paper's controllers solved within 1 ms on a Core i7 of 2011, from its text, as its figure
shows no numbers. The paper's no-slip LCP has no second stage; id-noslip-lcp has one."""

MANY = 10
"""Exponents are fitted from this many contacts on: with fewer, the cost of a call from Python hides them."""


VELOCITIES, FEET, EDGES = 18, 4, 4
JOINTS = (16, 12)
"""Numbers of actuated joints for which the paper prints the sums of Tables 1 and 2; of Table 2 it prints only sums."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the case.

    Attributes:
        robot: Robot of the walk that provides the problems.
        contacts: Numbers of contacts, tried in turn; more contacts than feet are copies of the feet, as in the paper.
        schemes: Controllers whose inverse dynamics is timed; empty means all.
        samples: Number of timed calls for each scheme and number of contacts; the paper timed 50.
        budget_s: Maximum time for each scheme and number of contacts.
        slowest_us: A scheme slower than this is not tried with more contacts.
    """

    robot: str = "solo12"
    contacts: tuple[Count, ...] = (1, 2, 4, 8, 16, 32, 64, 125, 250, 500, 1000)
    schemes: tuple[str, ...] = ()
    samples: Count = 500
    budget_s: Positive = 2.0
    slowest_us: Positive = 2e5


def run(config: Config, progress: Progress) -> Results:
    """Time each scheme at each number of contacts, alternating with the rigid-body terms (the floor); count operations.

    Raises:
        InputError: A scheme is unknown, there is no number of contacts, or the robot's trot never has all feet on the
            ground.
    """
    names = config.schemes or tuple(SCHEMES)
    for name in names:
        if name not in SCHEMES:
            raise InputError(f"schemes: {name!r} is not one of {', '.join(SCHEMES)}")
    if not config.contacts:
        raise InputError("contacts is empty; give at least one number of contacts")
    counts = sorted(set(config.contacts))
    walk = walks.walk(config.robot, "coulomb-lcp", PERIODS)
    sizes = len(counts)
    medians, floors = np.full((2, len(names), sizes), np.nan)
    sets: dict[int, tuple[Sequence[WalkStep], Job]] = {}
    for k, name in enumerate(names):
        for j, n in enumerate(counts):
            if name == "id-coulomb-lcp" and n > MOST_CONTACTS:
                break
            sets[n] = sets.get(n) or _steps(walk, n)
            medians[k, j], floors[k, j] = _medians(config, name, *sets[n])
            progress((k * sizes + j + 1) / (len(names) * sizes))
            if medians[k, j] > config.slowest_us:
                break
    return Results(
        findings=[
            *(finding for k, name in enumerate(names) for finding in _findings(name, counts, medians[k], floors[k])),
            *_operations(),
        ],
        series={
            "contacts": Series(np.array(counts, dtype=np.float64)),
            **{f"{name}_us": Series(medians[k], "us", wall_time=True) for k, name in enumerate(names)},
            **{f"{name}_floors": Series(medians[k] / floors[k], wall_time=True) for k, name in enumerate(names)},
        },
        drawings=[_drawing(names, counts, medians, [growth(counts, row) for row in medians / floors])],
    )


experiment = Case(
    name="scaling",
    summary="computing time of inverse dynamics against the number of contacts (Zapolsky & Drumwright 2017)",
    presets={
        "default": Config(),
        "paper": Config(robot="links", contacts=(1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40), samples=50),
    },
    simulate=run,
    rehearsals=lambda: [Config(contacts=(1, 4), samples=3, schemes=("id-coulomb-qp",))],
)


def _steps(walk: RecordedWalk, contacts: int) -> tuple[Sequence[WalkStep], Job]:
    """Return the problems of a walk with copied feet, and the rigid-body terms (the floor) at the same instants."""
    steps = problems(walk, contacts)
    if not steps:
        raise InputError(f"the trot of {walk.robot} never has all feet on the ground; take a robot whose trot does")
    return steps, floor(walk, steps)


def _medians(config: Config, name: str, steps: Sequence[WalkStep], below: Job) -> tuple[float, float]:
    """Return the median times of a warm-started scheme and of the floor, timed alternately [us]."""
    job = scheme_job(SCHEMES[name], steps, warm=True)
    job.run(0)  # loads the kernels
    times, _ = in_turns([job, below], len(steps), config.samples, config.budget_s)
    medians_us = np.median(times, axis=0)
    return float(medians_us[0]), float(medians_us[1])


def growth(contacts: Sequence[int], medians: Array) -> float | None:
    """Return the exponent p of medians that grow as ``contacts ** p``, from `MANY` contacts on.

    None with fewer than two finite medians.
    """
    n = np.asarray(contacts, dtype=np.float64)
    used = (n >= MANY) & np.isfinite(medians)
    return exponent(n[used], medians[used]) if used.sum() > 1 else None


def _findings(name: str, contacts: Sequence[int], medians: Array, floors: Array) -> list[Finding]:
    key = name.lower().replace("-", "_").replace(" ", "_")
    within = [n for n, median in zip(contacts, medians, strict=True) if median <= PERIOD_US]
    paper = PAPER_CONTACTS.get(name)
    most = max(within, default=0)
    findings = [
        Finding(
            f"{key}_contacts_within_1_ms", most, holds=None if paper is None else _as_many(paper, contacts, medians)
        )
    ]
    # relative to the floor, so that a changing load on the machine cancels
    power = growth(contacts, medians / floors)
    if power is not None:
        findings.append(Finding(f"{key}_exponent", power))
    return findings


def table_1(m: int, joints: int, n: int, k: int) -> int:
    """Return the sum of operations of all rows of Table 1 of Zapolsky & Drumwright 2017.

    Its row for F X⁻¹Fᵀ, ``2 m n k² - m n k``, counts the k edges of one contact. Like the printed sums, this function
    counts all ``n k`` edges, ``2 m (n k)² - m n k``.

    Args:
        m: Number of velocities.
        joints: Number of actuated joints.
        n: Number of contacts.
        k: Number of edges of a friction pyramid.
    """
    q = joints
    factored = (m**3 + q**3 - 7 * (m + q)) / 3 + m * q * (m + q) + m * m + q * q + 2 * m * q + 1
    solved = (1 + k) * (2 * m * m * n + 4 * m * n * q + 2 * n * q * q) + 2 * (m + q)
    products = 2 * m * n * n - m * n + 2 * m * n * n * k - m * n + 2 * m * (n * k) ** 2 - m * n * k
    vectors = 2 * m * m - m + 4 * (m + q) ** 2 + m * n - m + m * n * k - m
    return round(factored + solved + products + vectors)


def stage_one(m: int, joints: int, n: int) -> int:
    """Count the operations of our kernels that set up stage I and compute the torques from its impulses.

    The problem is random: the count depends on the sizes only, up to some comparisons of rounding errors. The solver's
    work is left out, as in the paper.
    """
    rng = np.random.default_rng(0)
    root, J = rng.normal(size=(m, m)), rng.normal(size=(3 * n, m))
    free, fixed = np.split(np.arange(m), [m - joints])
    arrays = (root @ root.T + np.eye(m), rng.normal(size=m), free, fixed, rng.normal(size=joints), J, HEAP)
    whitened, f = whiten_kernel(*arrays), np.ones(3 * n)
    edges = (
        whitened.rho,
        whitened.c,
        whitened.roundoff,
        np.ones(n),
        np.zeros(n, dtype=np.int64),
        np.empty(3 * n),
        HEAP,
    )
    return (
        operations.count(whiten_kernel, *arrays).total()
        + operations.count(edge_lcp_kernel, *edges)[edge_lcp_kernel.__name__]
        + operations.count(recover_kernel, whitened, f, HEAP).total()
    )


def _operations() -> list[Finding]:
    """Return the operations of Tables 1 and 2, compared with the counted operations."""
    theirs = {joints: table_1(VELOCITIES, joints, FEET, EDGES) for joints in JOINTS}
    ours = {joints: stage_one(VELOCITIES, joints, FEET) for joints in JOINTS}
    most = max(JOINTS)
    return [
        *(Finding(f"table_1_flops_{joints}_joints", theirs[joints]) for joints in JOINTS),
        *(Finding(f"stage_1_flops_{joints}_joints", ours[joints]) for joints in JOINTS),
        Finding("stage_1_saves_percent", 100.0 * (1.0 - ours[most] / theirs[most])),
        Finding("stage_1_costs_more_for_12_joints", ours[12] > theirs[12], agrees=ours[12] > theirs[12]),
    ]


def _as_many(paper: int, contacts: Sequence[int], medians: Array) -> bool | None:
    """True if a step with `paper` contacts takes at most a period; None if the measured steps do not decide this."""
    tried = [(n, bool(median <= PERIOD_US)) for n, median in zip(contacts, medians, strict=True) if np.isfinite(median)]
    if any(within and n >= paper for n, within in tried):
        return True
    return False if any(not within and n <= paper for n, within in tried) else None


def _drawing(
    names: Sequence[str], contacts: Sequence[int], medians: Array, exponents: Sequence[float | None]
) -> Drawing:
    with axes(size=(7.0, 4.5)) as plot:
        plot.set_prop_cycle(color=COLORS)
        for name, row, power in zip(names, medians, exponents, strict=True):
            label = name if power is None else f"{name}, $n^{{{power:.1f}}}$"
            (line,) = plot.loglog(contacts, row, "o-", markersize=3, label=label)
            if name in PAPER_CONTACTS:
                plot.plot(PAPER_CONTACTS[name], PERIOD_US, "x", color=line.get_color(), markersize=8)
        plot.axhline(PERIOD_US, color="0.6", linewidth=0.8)
        plot.set(xlabel="contacts", ylabel="median time [µs]")
        plot.legend()
    return Drawing(
        "Time of inverse dynamics against the number of contacts (Zapolsky & Drumwright 2017, Fig. 19)", plot.figure
    )
