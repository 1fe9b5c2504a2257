"""Torque chatter: a base sways over fixed feet, with noise on the desired joint accelerations.

Zapolsky & Drumwright 2017, Figs. 6 and 15; math.md, section 6.4. Four feet stand, so many different contact forces
cause the same motion, and the noisy demand is never quite consistent with the footholds. If a controller's forces jump
between equally good answers, its torque jumps. A change of 0.2 N m in a control period counts as a jump. With a good
controller, quick changes of torque come from the noise alone, multiplied by the inertia.

The controller ``id-coulomb-qp`` solves two convex problems: stage I finds the motion, stage II the impulses with the
smallest torques. A second part compares stage I alone with both stages on the states of a trot, with increasing
friction and motors without limits: only friction then bounds the internal forces of stage I
(docs/theory/dissipation.md).
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec import structs

from idcontrol import controllers, robots
from idcontrol.bench.problems import walks
from idcontrol.bench.problems.machines import task_controllers
from idcontrol.config.configuration import Duration, NotNegative, Positive, Rate, Seed
from idcontrol.controllers import Gains, InverseSettings
from idcontrol.errors import InputError
from idcontrol.experiments.case import Case, Progress
from idcontrol.experiments.findings import Drawing, Finding, Results, Series, axes
from idcontrol.types import Array, Reference, State, Status

JUMP_NM: Final = 0.2
PERIODS: Final = 320
"""Number of control periods of the trot: a gait period of the slowest robot, at 1 kHz."""
PAPER_FACTOR: Final = 1e5
"""Factor by which smoothing lowers the largest derivative of torque (Zapolsky & Drumwright 2017, on Fig. 15)."""
MOST_JUMPS: Final = {"id-coulomb-qp": 0, "id-coulomb-smooth": 0, "id-noslip-lcp": 1}
RAW, SMOOTHED = "id-coulomb-qp-raw", "id-coulomb-qp"
LINES: Final[dict[str, Any]] = {
    RAW: {"color": "0.7", "linewidth": 0.8, "zorder": 1},
    SMOOTHED: {"color": "C1", "linewidth": 2.5, "zorder": 2},
    "id-coulomb-smooth": {"color": "k", "linewidth": 1.0, "linestyle": "--", "zorder": 3},
}
"""Line style of each controller that is drawn; the lines of the two smooth controllers coincide."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the experiment.

    Attributes:
        robot: Name or path of a robot file, with feet and a floating base.
        mu: Friction coefficient, which the controllers know.
        duration_s: Length of a run.
        rate_hz: Rate of the control loop.
        seed: Seed of the noise.
        trot_mu: Friction coefficients that controllers assume on the states of a trot; empty to leave this part out.
        noise_rad_s2: Standard deviations of the white noise on the desired joint accelerations, one run each.
        speed_m_s: Largest speed of the base.
    """

    robot: str = "links"
    mu: Positive = 0.7
    duration_s: Duration = 0.2
    rate_hz: Rate = 1000.0
    seed: Seed = 0
    trot_mu: tuple[Positive, ...] = (0.7, 1.5, 100.0, 1000.0)
    noise_rad_s2: Annotated[tuple[NotNegative, ...], msgspec.Meta(min_length=1)] = (0.01, 1.0)
    speed_m_s: NotNegative = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyRun:
    """One controller under one noise.

    Attributes:
        controller: Name of the controller.
        projected: True if the controller may project the demand onto motions that the contacts allow (math.md, section
            12.1). Stage I alone never does.
        noise: Standard deviation of the desired accelerations' noise [rad/s²].
        torque: Torques, shape (steps, a) [N m].
        normal: Predicted sum of the normal forces, shape (steps,) [N].
        unsolved: Number of steps that did not end as solved.
        h: Period [s].
    """

    controller: str
    projected: bool
    noise: float
    torque: Array
    normal: Array
    unsolved: int
    h: float

    @property
    def changes(self) -> Array:
        """Return the largest change of a joint's torque in each step [N m]."""
        return np.abs(np.diff(self.torque, axis=0)).max(axis=1)

    def row(self) -> dict[str, Any]:
        """Return the run as plain data for the record."""
        return {
            "controller": self.controller,
            "projected": self.projected,
            "noise_rad_s2": self.noise,
            "jumps": int((self.changes > JUMP_NM).sum()),
            "dtau_max_nm_s": float(self.changes.max() / self.h),
            "tau_mean_nm": float(np.abs(self.torque).mean()),
            "normal_n": {"least": float(self.normal.min()), "most": float(self.normal.max())},
            "unsolved_steps": self.unsolved,
        }


def run(config: Config, progress: Progress) -> Results:
    """Run every controller that predicts forces, with and without projection of the demanded accelerations.

    Then compare `RAW` and `SMOOTHED` on the states of a trot.

    Raises:
        InputError: The robot cannot sway on its feet, or the run is shorter than three periods.
    """
    robot = robots.load(config.robot)
    if not robot.description.feet or robot.description.base != "free-flyer":
        raise InputError(f"robot {robot.name!r} has no feet or no floating base: it cannot sway on them")
    h, steps = 1.0 / config.rate_hz, round(config.duration_s * config.rate_hz)
    if steps < 3:
        raise InputError(
            f"duration_s={config.duration_s} is shorter than 3 periods of {config.rate_hz} Hz; lengthen it"
        )
    path = swaying(robot, h, steps, config.speed_m_s)
    cases = list(itertools.product(task_controllers(), (True, False), config.noise_rad_s2))
    runs = []
    for name, projected, noise in cases:
        runs.append(follow(robot, path, config, name, projected=projected, noise=noise, h=h))
        progress(len(runs) / len(cases))
    trots = _on_a_trot(config)
    return Results(
        findings=[*findings(runs, config), *_trot_findings(trots)],
        series={"t": Series(h * np.arange(steps, dtype=np.float64), "s")}
        | {_key(one): Series(one.torque, "N m") for one in runs},
        drawings=[drawing(runs, config)],
        extra={"rows": [one.row() for one in runs], "trot": [trot._asdict() for trot in trots]},
    )


experiment = Case(
    name="chatter",
    summary="which controllers' torques jump if demands are noisy (Zapolsky & Drumwright 2017, Figs. 6, 15)",
    presets={"default": Config()},
    simulate=run,
    rehearsals=lambda: [Config(duration_s=0.003, trot_mu=())],
)


def swaying(robot: robots.Robot, h: float, steps: int, speed: float) -> list[tuple[State, Array]]:
    """Return states of a robot that sways while its feet roll in place, each with joint accelerations, shape (a,)."""
    system = robot.system()
    ground = robot.contacts(0.0, system=system)
    n, u = len(robot.description.feet), system.n_unactuated
    q, path = robot.standing_state(system).q, []
    for k in range(steps + 1):
        for _ in range(3):  # close the gaps: they grow by h² in a step, and are not exactly zero in the home pose
            system.update(q, np.zeros(system.n_velocities))
            contacts = ground.detect(np.inf)
            error = np.concatenate((-contacts.gap, np.zeros(2 * n)))
            joints = np.linalg.pinv(contacts.jacobian[:, u:]) @ error
            q = system.integrate(q, np.concatenate((np.zeros(u), joints)), 1.0)
        system.update(q, np.zeros(system.n_velocities))
        J, t = ground.detect(np.inf).jacobian, k * h
        base = speed * np.array([np.sin(9 * t), np.sin(13 * t), 0.3 * np.sin(17 * t), 0.0, 0.0, np.sin(11 * t)])
        v = np.concatenate((base, np.linalg.pinv(J[:, u:]) @ (-J[:, :u] @ base)))
        path.append((State(t=t, q=q, v=system.to_pinocchio(v)), v[u:]))
        q = system.integrate(q, v, h)
    return [(state, (after - now) / h) for (state, now), (_, after) in itertools.pairwise(path)]


def follow(
    robot: robots.Robot,
    path: Sequence[tuple[State, Array]],
    config: Config,
    name: str,
    *,
    projected: bool,
    noise: float,
    h: float,
) -> NoisyRun:
    """Return the run of one controller along the path, without feedback, so that only the noise disturbs the demand."""
    system = robot.system()
    nothing = Gains(kp=0.0, kd=0.0)
    control = controllers.build(
        name,
        controllers.Setup(
            system=system,
            contacts=robot.contacts(config.mu, system=system),
            h=h,
            acceleration_gains=nothing,
            settings=InverseSettings(project=projected, rate_limit_nm_s=None),
        ),
    )
    rng = np.random.default_rng(config.seed)
    torque, normal, unsolved = [], [], 0
    standing = Reference.standing(np.zeros(system.n_actuated), len(robot.description.feet))
    for state, a in path:
        demand = a + noise * rng.normal(size=a.size)
        command = control(state, structs.replace(standing, a=demand))
        torque.append(command.tau)
        normal.append(0.0 if command.predicted is None else float(command.predicted.force[:, 2].sum()))
        unsolved += command.status is not Status.SOLVED
    return NoisyRun(
        controller=name,
        projected=projected,
        noise=noise,
        torque=np.array(torque),
        normal=np.array(normal),
        unsolved=unsolved,
        h=h,
    )


def findings(runs: Sequence[NoisyRun], config: Config) -> list[Finding]:
    """Return each controller's jumps and largest |dτ/dt| under the largest noise, and the factors of smoothing."""
    out: list[Finding] = []
    rows = [(run, run.row()) for run in runs]
    for run, row in rows:
        if run.noise < max(config.noise_rad_s2):
            continue
        most = MOST_JUMPS.get(run.controller) if run.projected else None
        key = f"{run.controller.removeprefix('id-').replace('-', '_')}{'' if run.projected else '_unprojected'}"
        out += [
            Finding(f"{key}_jumps", row["jumps"], holds=None if most is None else row["jumps"] <= most),
            Finding(f"{key}_dtau_max_nm_s", row["dtau_max_nm_s"]),
        ]
    for noise in config.noise_rad_s2:
        # stage I alone never projects its demand: its two runs are the same
        raw = next(row for o, row in rows if o.controller == RAW and not o.projected and o.noise == noise)
        smooth = next(row for o, row in rows if o.controller == SMOOTHED and o.projected and o.noise == noise)
        out.append(
            Finding(
                f"factor_noise_{_number(noise)}",
                raw["dtau_max_nm_s"] / smooth["dtau_max_nm_s"],
                holds=raw["jumps"] > 0.5 * len(runs[0].changes),
            )
        )
    return out


class _Trot(NamedTuple):
    """Largest |dτ/dt| of `RAW` and of `SMOOTHED` on the states of a trot [N m/s], at one friction coefficient."""

    mu: float
    raw: float
    smoothed: float

    @property
    def factor(self) -> float:
        """Return the factor by which the second stage lowers the largest |dτ/dt|."""
        return self.raw / self.smoothed


def _on_a_trot(config: Config) -> list[_Trot]:
    """Run `RAW` and `SMOOTHED` on the recorded states of one walk; their torques move nothing and have no limit."""
    if not config.trot_mu:
        return []
    walk, robot = walks.walk(config.robot, "coulomb-lcp", PERIODS), robots.load(config.robot)

    def roughest(name: str, mu: float) -> float:
        system = robot.system()
        system.effort_limit = np.full(system.n_actuated, np.inf)
        setup = controllers.Setup(
            system=system,
            contacts=robot.contacts(mu, system=system),
            h=walk.h,
            acceleration_gains=walk.setup().acceleration_gains,
            settings=InverseSettings(rate_limit_nm_s=None),
        )
        control = controllers.build(name, setup)
        torque = np.array([control(moment.state, moment.reference).tau for moment in walk.moments])
        return float(np.abs(np.diff(torque, axis=0)).max() / walk.h)

    return [_Trot(mu, roughest(RAW, mu), roughest(SMOOTHED, mu)) for mu in config.trot_mu]


def _trot_findings(trots: Sequence[_Trot]) -> list[Finding]:
    """Return a finding on `_Trot.factor` for each friction coefficient; the paper's factor is for the largest one."""
    most = max((trot.mu for trot in trots), default=0.0)
    return [
        Finding(
            f"trot_factor_mu_{_number(trot.mu)}",
            trot.factor,
            agrees=round(np.log10(trot.factor)) == round(np.log10(PAPER_FACTOR)),
            beside=trot.mu == most,
        )
        for trot in trots
    ]


def drawing(runs: Sequence[NoisyRun], config: Config) -> Drawing:
    """Draw the torque of the joint that chatters most, under the largest noise."""
    noise = max(config.noise_rad_s2)
    shown = [o for o in runs if o.noise == noise and o.controller in LINES and o.projected == (o.controller != RAW)]
    raw = next(o for o in shown if o.controller == RAW)
    joint = int(np.abs(np.diff(raw.torque, axis=0)).max(axis=0).argmax())
    with axes(size=(7.0, 3.4)) as plot:
        for run in shown:
            t = 1e3 * run.h * np.arange(len(run.torque))
            plot.plot(t, run.torque[:, joint], label=run.controller, **LINES[run.controller])
        plot.set(xlabel="t [ms]", ylabel="torque [N m]")
        plot.legend()
    return Drawing("Torque of one joint, with and without mitigation of chatter", plot.figure)


def _key(run: NoisyRun) -> str:
    name = run.controller.removeprefix("id-").replace("-", "_")
    return f"{name}_{'projected' if run.projected else 'unprojected'}_noise_{_number(run.noise)}"


def _number(value: float) -> str:
    return f"{value:g}".replace(".", "").replace("-", "m")
