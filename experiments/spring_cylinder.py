"""A cylinder on a spring rolls on the ground: energy and accuracy of three schemes.

Castro et al. 2022, section X-B; math.md, section 10.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np

from idcontrol.config.configuration import Count, Duration, NotNegative, Positive
from idcontrol.contact.contacts import Contacts
from idcontrol.experiments.case import GRAVITY, Case, Progress, step_ends
from idcontrol.experiments.findings import Drawing, Finding, Results, Series, axes
from idcontrol.models import sap
from idcontrol.models.sap.regularization import SIGMA
from idcontrol.models.sap.theta import IMPLICIT_EULER, MIDPOINT, SYMPLECTIC_EULER, Springs, Theta, step_problem
from idcontrol.models.step import WarmStart
from idcontrol.types import Array, Status

SCHEMES: Mapping[str, Theta] = {"symplectic": SYMPLECTIC_EULER, "midpoint": MIDPOINT, "implicit": IMPLICIT_EULER}


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the case; all values except `contacts` come from the paper.

    Attributes:
        mass_kg: Mass of the solid, homogeneous cylinder.
        radius_m: Radius of the cylinder.
        spring_n_m: Stiffness of the spring to the wall.
        start_m: Stretch of the spring at the beginning.
        stiffness_n_m: Stiffness of the contact, summed over all points.
        dissipation_s: Dissipation time τ_d of the contact, its damping over its stiffness.
        friction: Friction coefficient of the ground, in the cases with friction.
        contacts: Number of points on the line of contact. The friction of each point is regularized separately, so with
            n points the slip is 1/n of the slip of one.
        step_s: Time step of the runs that measure energy.
        duration_s: Length of the runs that measure energy or the order.
        long_s: Length of the run that measures the loss of energy; 0 leaves this run out.
        refinements: How often the step is halved to measure the order.
    """

    mass_kg: Positive = 0.5
    radius_m: Positive = 0.05
    spring_n_m: Positive = 100.0
    start_m: Positive = 0.1
    stiffness_n_m: Positive = 1e4
    dissipation_s: NotNegative = 0.02
    friction: Positive = 1.0
    contacts: Count = 2
    step_s: Positive = 0.02
    duration_s: Duration = 5.0
    long_s: NotNegative = 600.0
    refinements: Annotated[int, msgspec.Meta(ge=2)] = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Oscillation:
    """The cylinder's motion, after each step.

    Attributes:
        x: Stretch of the spring, shape (steps,) [m].
        energy: Energy of spring and motion, relative to the initial energy, shape (steps,).
        solved: True if every step was solved.
    """

    x: Array
    energy: Array
    solved: bool


def simulate(config: Config, theta: Theta, h: float, duration: float, mu: float) -> Oscillation:
    """Release the stretched spring; the cylinder starts at rest, at its static depth in the ground.

    Velocities: x along the ground, z upwards, and the rotation with which it rolls along x.
    """
    m, r, n = config.mass_kg, config.radius_m, config.contacts
    M = np.diag([m, m, 0.5 * m * r * r])
    K, no_damping = np.diag([config.spring_n_m, 0.0, 0.0]), np.zeros((3, 3))
    weight = np.array([0.0, -m * GRAVITY, 0.0])
    stiffness = np.full(n, config.stiffness_n_m / n)
    fixed: dict[str, Array] = {
        "point": np.zeros((n, 3)),
        "axes": np.tile(np.eye(3), (n, 1, 1)),
        "mu": np.full(n, mu),
        "jacobian": np.repeat(np.array([[0.0, 1.0, 0.0], [1.0, 0.0, -r], [0.0, 0.0, 0.0]]), n, axis=0),
        "surface_velocity": np.zeros(3 * n),
        "stiffness": stiffness,
        "damping": config.dissipation_s * stiffness,
    }
    q, v = np.array([config.start_m, -m * GRAVITY / config.stiffness_n_m, 0.0]), np.zeros(3)
    steps = round(duration / h)
    x, energy, solved = np.empty(steps), np.empty(steps), True
    warm: WarmStart = {}
    for step in range(steps):
        contacts = Contacts(identity=np.arange(n), gap=np.full(n, q[1]), **fixed)
        springs = Springs(stiffness=K, damping=no_damping, deflection=np.array([q[0], 0.0, 0.0]))
        solution = sap.solve(step_problem(theta, h, M, v, weight, springs, contacts), warm)
        q = q + h * theta.mean_velocity(v, solution.v_plus)
        v, warm = solution.v_plus, solution.warm
        solved = solved and solution.status is Status.SOLVED
        x[step], energy[step] = q[0], 0.5 * float(v @ M @ v) + 0.5 * config.spring_n_m * q[0] ** 2
    return Oscillation(x=x, energy=energy / (0.5 * config.spring_n_m * config.start_m**2), solved=solved)


def frequency(config: Config, *, rolling: bool) -> float:
    """Return the angular frequency of the oscillation [rad/s]; rolling raises the effective mass by a half."""
    return float(np.sqrt(config.spring_n_m / (config.mass_kg * (1.5 if rolling else 1.0))))


def loss_rate(config: Config) -> float:
    """Return the relative rate of energy loss by the regularized friction [1/s], to first order in small losses.

    The amplitude of the friction force f is a third of the spring force. Each of n points carries f/n and slips at
    ``R_t h f/n``, R_t the regularization of friction. The total power is ``h R_t f²/n``, and the mean of f² is half of
    its peak.
    """
    m, n = config.mass_kg, config.contacts
    w = float(np.sqrt(10.0)) / (3.0 * m)  # 1/m along the normal, 3/m along the ground
    f = config.spring_n_m * config.start_m / 3.0
    power = config.step_s * SIGMA * w * 0.5 * f * f / n
    return power / (0.5 * config.spring_n_m * config.start_m**2)


def run(config: Config, progress: Progress) -> Results:
    """Simulate sliding and rolling under each scheme, rolling with halved steps, and a long roll with two schemes."""
    h, duration = config.step_s, config.duration_s
    sliding = {name: simulate(config, theta, h, duration, 0.0) for name, theta in SCHEMES.items()}
    rolling = {name: simulate(config, theta, h, duration, config.friction) for name, theta in SCHEMES.items()}
    progress(0.1)
    steps = np.array([h * 0.5**halving for halving in range(config.refinements + 1)])
    errors = {}
    for done, (name, theta) in enumerate(SCHEMES.items()):
        errors[name] = np.array(
            [_distance(config, simulate(config, theta, h, duration, config.friction).x, h) for h in steps]
        )
        progress(0.1 + 0.4 * (done + 1) / len(SCHEMES))
    findings = [*_energy(config, sliding, rolling), *_orders(config, steps, errors)]
    if config.long_s > 0.0:
        for done, name in enumerate(("symplectic", "midpoint")):
            findings.append(_loss(config, name))
            progress(0.5 + 0.25 * (done + 1))
    solved = all(motion.solved for motion in (*sliding.values(), *rolling.values()))
    findings.append(Finding("all_steps_solved", solved, holds=solved))
    t = step_ends(h, len(rolling["midpoint"].x))
    return Results(
        findings=findings,
        series={
            "t": Series(t, "s"),
            **{f"energy_sliding_{name}": Series(motion.energy) for name, motion in sliding.items()},
            **{f"energy_rolling_{name}": Series(motion.energy) for name, motion in rolling.items()},
            **{f"x_rolling_{name}": Series(motion.x, "m") for name, motion in rolling.items()},
        },
        drawings=[_energy_drawing(t, sliding, rolling), _order_drawing(steps, errors)],
        extra={"steps_s": steps.tolist(), "errors_m": {name: e.tolist() for name, e in errors.items()}},
    )


experiment = Case(
    name="spring-cylinder",
    summary="a cylinder on a spring: energy and accuracy of the θ-method with SAP",
    presets={"default": Config(), "short": Config(long_s=0.0), "one": Config(contacts=1)},
    simulate=run,
    rehearsals=lambda: [Config(duration_s=0.1, long_s=0.0, refinements=2)],
)


def _distance(config: Config, x: Array, h: float) -> float:
    """Return the position error of the rolling cylinder, root mean square [m]; e_q of Castro et al. 2022."""
    t = step_ends(h, len(x))
    exact = config.start_m * np.cos(frequency(config, rolling=True) * t)
    return float(np.sqrt(np.mean((x - exact) ** 2)))


def _ideal_error(config: Config, theta: Theta, h: float) -> float:
    """Return the error of the scheme for ideal rolling: an oscillator with 3/2 of the mass."""
    m, k = 1.5 * config.mass_kg, config.spring_n_m
    x, v = config.start_m, 0.0
    path = np.empty(round(config.duration_s / h))
    for step in range(len(path)):
        seen = x + h * theta.q * (1.0 - theta.vq) * v
        v_plus = (m * v - h * k * seen) / (m + h * h * theta.q * theta.vq * k)
        x, v = x + h * (theta.vq * v_plus + (1.0 - theta.vq) * v), v_plus
        path[step] = x
    return _distance(config, path, h)


def _energy(config: Config, sliding: Mapping[str, Oscillation], rolling: Mapping[str, Oscillation]) -> list[Finding]:
    band = float(np.ptp(sliding["symplectic"].energy))
    phase = frequency(config, rolling=False) * config.step_s
    exact_band = phase / (1.0 - 0.25 * phase**2)
    kept = float(np.abs(sliding["midpoint"].energy - 1.0).max())
    rolling_band = float(np.ptp(rolling["midpoint"].energy))
    lost = 1.0 - float(np.exp(-loss_rate(config) * config.duration_s))
    findings = [
        Finding("steps_per_period_sliding", 2.0 * np.pi / phase),
        Finding("steps_per_period_rolling", 2.0 * np.pi / (frequency(config, rolling=True) * config.step_s)),
        Finding(
            "energy_band_symplectic_sliding",
            band,
            # the samples of a few periods miss the extremes of the ellipse by a little
            holds=0.95 * exact_band <= band <= exact_band * (1.0 + 1e-9),
        ),
        Finding(
            "energy_error_midpoint_sliding",
            kept,
            holds=kept < 1e-10,  # rounding errors of about a hundred steps
        ),
        Finding("energy_band_midpoint_rolling", rolling_band, holds=rolling_band < 1.5 * lost + 2e-4),
    ]
    for name, motions in (("sliding", sliding), ("rolling", rolling)):
        rest = float(motions["implicit"].energy[-1])
        findings.append(Finding(f"energy_left_implicit_{name}", rest, holds=rest < 1e-3))
    return findings


def _orders(config: Config, steps: Array, errors: Mapping[str, Array]) -> list[Finding]:
    """Return findings about the order of convergence between the two finest steps."""
    findings = []
    coarse, fine = float(steps[-2]), float(steps[-1])
    for name in ("symplectic", "implicit", "midpoint"):
        order = float(np.log2(errors[name][-2] / errors[name][-1]))
        ideal = float(np.log2(_ideal_error(config, SCHEMES[name], coarse) / _ideal_error(config, SCHEMES[name], fine)))
        findings.append(
            Finding(
                f"order_{name}_rolling",
                order,
                # only the slip of the regularized friction differs from ideal rolling
                holds=abs(order - ideal) < 0.02,
            )
        )
    ratio = float(errors["implicit"][-1] / errors["symplectic"][-1])
    findings.append(Finding("error_implicit_over_symplectic", ratio, holds=ratio > 3.0))
    return findings


def _loss(config: Config, name: str) -> Finding:
    """Return the relative energy loss of the long run, between the means of its first and last ten periods."""
    energy = simulate(config, SCHEMES[name], config.step_s, config.long_s, config.friction).energy
    window = round(20.0 * np.pi / (frequency(config, rolling=True) * config.step_s))
    lost = 1.0 - float(np.mean(energy[-window:]) / np.mean(energy[:window]))
    exact = 1.0 - float(np.exp(-loss_rate(config) * (config.long_s - window * config.step_s)))
    return Finding(
        f"energy_lost_{name}_rolling", lost, holds=abs(lost - exact) < 0.1 * exact, beside=config.long_s == 600.0
    )


def _energy_drawing(t: Array, sliding: Mapping[str, Oscillation], rolling: Mapping[str, Oscillation]) -> Drawing:
    with axes(columns=2, size=(8.0, 3.0)) as plots:
        for plot, title, motions in zip(plots, ("without friction", "rolling"), (sliding, rolling), strict=True):
            for name, motion in motions.items():
                plot.plot(t, motion.energy, label=name)
            plot.set(title=title, xlabel="t [s]", ylabel="energy over that at the start", ylim=(0.0, 1.3))
        plots[-1].legend(loc="lower left")
    return Drawing("Energy", plots[-1].figure)


def _order_drawing(steps: Array, errors: Mapping[str, Array]) -> Drawing:
    with axes(size=(4.5, 3.0)) as plot:
        for name, error in errors.items():
            plot.loglog(steps, error, "o-", label=name)
        for order in (1, 2):
            reference = errors["symplectic" if order == 1 else "midpoint"][0] * (steps / steps[0]) ** order
            plot.loglog(steps, 0.7 * reference, "--", color="0.6")
        plot.set(xlabel="step [s]", ylabel="position error [m]")
        plot.legend()
    return Drawing("Accuracy", plot.figure)
