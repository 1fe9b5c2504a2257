"""A pendulum falls onto a joint limit of 10¹² N m/rad (Drumwright 2019, section 5.4, Fig. 6; math.md, section 11.2)."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np
from scipy.special import ellipk

from idcontrol.config.configuration import Duration, NotNegative, Positive
from idcontrol.errors import InputError
from idcontrol.experiments.case import GRAVITY, Case, Progress, order, step_ends
from idcontrol.experiments.findings import Drawing, Finding, Results, Series, axes
from idcontrol.kernels.jit import njit
from idcontrol.types import Array

SAMPLES = 1000
"""Rows of the record; runs have up to 10⁸ steps."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the case; the paper prints neither mass nor length of the pendulum.

    Attributes:
        stiffness_nm_rad: Stiffness K of the limit at θ = 0.
        damping_nm_s_rad: Damping B of the limit.
        steps_s: Step sizes, from coarse to fine.
        mass_kg: Mass of the bob, a point.
        length_m: Distance from the joint to the bob.
        duration_s: Length of each run, at least 1.01 times the fall; the default reaches the top of the first rebound.
    """

    stiffness_nm_rad: Positive = 1e12
    damping_nm_s_rad: NotNegative = 0.0
    steps_s: tuple[Positive, ...] = (1e-5, 1e-6, 1e-7, 1e-8)
    mass_kg: Positive = 1.0
    length_m: Positive = 1.0
    duration_s: Duration = 1.25


def run(config: Config, progress: Progress) -> Results:
    """Let the pendulum fall with each step size.

    Raises:
        InputError: A step is longer than the sampling interval of the record, or the run ends before the first rebound.
    """
    if max(config.steps_s) > config.duration_s / SAMPLES:
        raise InputError(f"steps_s: {max(config.steps_s):g} s is longer than duration_s / {SAMPLES}; shorten it")
    fall = quarter_swing(config)
    if config.duration_s < 1.01 * fall:
        raise InputError(f"duration_s={config.duration_s:g} is too short: the pendulum meets its limit at {fall:.2f} s")
    bounces: dict[float, Bounce] = {}
    for done, h in enumerate(config.steps_s):
        bounces[h] = bounce(config, h)
        progress((done + 1) / len(config.steps_s))
    findings = [finding for h, one in bounces.items() for finding in _of_one(config, h, one)]
    if len(bounces) > 1:
        # the paper: "accuracy increases linearly as h decreases"
        power = order({h: 1.0 - one.restitution for h, one in bounces.items()})
        findings.append(Finding("restitution_order", power, holds=abs(power - 1.0) < 0.15))
    t = step_ends(config.duration_s / SAMPLES, SAMPLES)
    return Results(
        findings=findings,
        series={"t": Series(t, "s")} | {f"angle_h_{h:g}": Series(one.angle, "rad") for h, one in bounces.items()},
        drawings=[_drawing(t, bounces)],
    )


experiment = Case(
    name="pendulum-limit",
    summary="a pendulum falls onto a joint limit of 1e12 N m/rad (Drumwright 2019)",
    presets={"default": Config(), "quick": Config(steps_s=(1e-5, 1e-6, 1e-7))},
    simulate=run,
    rehearsals=lambda: [Config(steps_s=(1e-4,))],
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounce:
    """The motion with one step size.

    Attributes:
        angle: Angle at equal intervals, shape (SAMPLES,) [rad].
        first_contact: Time at which the limit first pushes [s].
        restitution: Speed after the first contact over the speed before.
        deepest: Largest angle beyond the limit [rad].
    """

    angle: Array
    first_contact: float
    restitution: float
    deepest: float


def bounce(config: Config, h: float) -> Bounce:
    """Release the pendulum at rest, horizontal: θ = π/2."""
    inertia = config.mass_kg * config.length_m**2
    angle = np.empty(SAMPLES)
    every = max(1, round(config.duration_s / SAMPLES / h))
    first, before, after, deepest = _swing(
        0.5 * np.pi,
        h,
        every,
        config.mass_kg * GRAVITY * config.length_m,
        inertia,
        config.stiffness_nm_rad,
        config.damping_nm_s_rad,
        angle,
    )
    return Bounce(angle=angle, first_contact=first, restitution=max(0.0, -after / before), deepest=deepest)


@njit(cache=True, inner=True)
def limit_impulse(angle: float, speed: float, h: float, inertia: float, K: float, B: float) -> float:
    """Return the impulse Λ of the limit θ ≥ 0 (math.md, section 11.2); `speed` is the speed without Λ.

    `idcontrol.models.constraint.solve` computes the same for one row; this version is fast enough for 10⁸ steps.
    """
    if angle > 0.0:
        B = 0.0
    compliance = 1.0 / (h * (h * K + B))
    return max(0.0, -(speed + compliance * h * K * angle) / (1.0 / inertia + compliance))


@njit(cache=True)
def _swing(
    angle: float, h: float, every: int, weight: float, inertia: float, K: float, B: float, out: Array
) -> tuple[float, float, float, float]:  # pragma: no cover - compiled
    """Return time of the first contact, speeds before and after, and deepest angle beyond the limit; fill `out`."""
    speed, before, after, first, deepest = 0.0, 0.0, 0.0, -1.0, 0.0
    parted = False
    for sample in range(out.size):
        for step in range(every):
            free = speed - h * weight / inertia * np.sin(angle)
            impulse = limit_impulse(angle, free, h, inertia, K, B)
            if impulse > 0.0 and first < 0.0:
                first, before = (sample * every + step) * h, free
            if impulse == 0.0 and first >= 0.0 and not parted:
                parted, after = True, speed
            speed = free + impulse / inertia
            angle += h * speed
            deepest = max(deepest, -angle)
        out[sample] = angle
    return first, before, after if parted else speed, deepest


def quarter_swing(config: Config) -> float:
    """Return the time from horizontal to the limit: √(l/g) K(sin² 45°), K the complete elliptic integral [s]."""
    return float(np.sqrt(config.length_m / GRAVITY) * ellipk(0.5))


def elastic_limit(config: Config, h: float) -> float:
    """Return implicit Euler's restitution: each of π/arctan(hω) steps in contact scales the swing by 1/√(1 + h²ω²).

    Damping B makes the restitution smaller; the paper's case has no damping.
    """
    omega = np.sqrt(config.stiffness_nm_rad / (config.mass_kg * config.length_m**2))
    return float((1.0 + (h * omega) ** 2) ** (-0.5 * np.pi / np.arctan(h * omega)))


def _of_one(config: Config, h: float, one: Bounce) -> list[Finding]:
    omega = np.sqrt(config.stiffness_nm_rad / (config.mass_kg * config.length_m**2))
    expected = elastic_limit(config, h)
    undamped = config.damping_nm_s_rad == 0.0
    # contact may begin anywhere within a step, so it may last one step more or less than π/arctan(hω) steps
    factor = np.sqrt(1.0 + (h * omega) ** 2)
    holds = expected / factor**2 <= one.restitution <= min(1.0 + 1e-9, expected * factor**2)
    meets = quarter_swing(config)
    return [
        Finding(f"restitution_h_{h:g}", one.restitution, holds=bool(holds) if undamped else None, beside=h >= 1e-5),
        Finding(f"first_contact_h_{h:g}_s", one.first_contact, holds=abs(one.first_contact - meets) <= 2.0 * h + 1e-9),
        Finding(
            f"deepest_h_{h:g}_rad",
            one.deepest,
            # the pendulum goes beyond an elastic limit by speed / ω, or less far with a coarse step, but never farther
            holds=one.deepest <= 1.01 * np.sqrt(2.0 * GRAVITY / config.length_m) / omega,
        ),
    ]


def _drawing(t: Array, bounces: Mapping[float, Bounce]) -> Drawing:
    with axes() as plot:
        for h, one in bounces.items():
            plot.plot(t, one.angle, label=f"h = {h:g} s")
        plot.set(xlabel="time [s]", ylabel="angle [rad]")
        plot.legend(fontsize="x-small")
    return Drawing("The limit is dead at coarse steps and elastic at fine ones", plot.figure)
