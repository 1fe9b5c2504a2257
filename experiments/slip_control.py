"""A gripper with soft pads lets a bar pitch by loosening its grip (Castro et al. 2022, section X-D).

The pads are elastic foundations on a rigid back. Their surface recedes by ``r²/2R`` at the distance r from the middle,
R the radius of curvature. A cell of area A at the depth d presses with ``A g d``, g the pressure gradient: it is a
compliant point contact at its middle, of stiffness ``A g`` (reference 40 of that paper, a discrete pressure field).
Closed forms of a round patch under the force N, of radius a and depth d₀, with the friction torque M:

    N = π g R d₀²,   a = √(2 R d₀),   M = (8/15) μ N a   for each pad
"""

from functools import partial
from typing import Annotated, NamedTuple

import msgspec
import numpy as np
import pinocchio as pin

from idcontrol.bench.league import conic
from idcontrol.config.configuration import Count, NotNegative, Positive
from idcontrol.contact.contacts import Contacts, contact_rows
from idcontrol.dynamics.system import System
from idcontrol.experiments.case import GRAVITY, Case, Progress, timed
from idcontrol.experiments.findings import Drawing, Finding, Results, axes, histories
from idcontrol.experiments.general_solvers import as_rows, beside, in_a_grip
from idcontrol.models import sap
from idcontrol.models.sap.regularization import SIGMA
from idcontrol.models.sparse import SparseProblem
from idcontrol.models.step import StepProblem
from idcontrol.types import Array, Booleans, Integers, Status

SPEED_OF_SLIP = 1e-2
"""Speed above which the bar slips instead of creeping [rad/s]."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the case.

    Step, forces, period and duty come from the paper; it does not describe gripper and bar.

    Attributes:
        step_s: Time step.
        firm_n: Grip force in the first part of each period.
        loose_n: Grip force in the rest of each period.
        period_s: Period of the square wave.
        duty: Share of a period with the firm grip.
        periods: Number of periods.
        tolerance: SAP's relative tolerance, ε_r in the paper.
        friction: Friction coefficient between pads and bar.
        pad_radius_m: R, radius of curvature of a pad.
        gradient_pa_m: g, pressure over depth: modulus over thickness of the pad.
        cell_m: Side of the square cells of a pad.
        dissipation_s: Dissipation time τ_d of a pad, its damping over its stiffness.
        bar_kg: Mass of the bar.
        bar_m: Length, width (between the pads) and height of the bar.
        offset_m: Distance of the bar's centre from the pads' middle, along the bar.
        finger_kg: Mass of a finger.
        solver_steps: Number of steps for the comparison with general solvers; 0 means no comparison.
        solver_tolerance: Tolerance of the general solvers; the default is the paper's value for Gurobi.
    """

    step_s: Positive = 5e-3
    firm_n: Positive = 16.0
    loose_n: Positive = 1.0
    period_s: Positive = 6.0
    duty: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.75
    periods: Count = 3
    tolerance: Positive = 1e-3
    friction: Positive = 1.0
    pad_radius_m: Positive = 0.06
    gradient_pa_m: Positive = 3.2e6
    cell_m: Positive = 4.2e-3
    dissipation_s: NotNegative = 0.02
    bar_kg: Positive = 0.05
    bar_m: tuple[Positive, Positive, Positive] = (0.25, 0.01, 0.03)
    offset_m: NotNegative = 0.03
    finger_kg: Positive = 0.1
    solver_steps: Annotated[int, msgspec.Meta(ge=0)] = 60
    solver_tolerance: Positive = 1e-8


def grip_force(config: Config, t: float) -> float:
    """Return the commanded grip force at the time `t` [N]."""
    return config.firm_n if t % config.period_s < config.duty * config.period_s else config.loose_n


def patch_radius(config: Config, force: float) -> float:
    """Return the radius of a round patch [m], which may exceed half the bar's height."""
    depth = np.sqrt(force / (np.pi * config.gradient_pa_m * config.pad_radius_m))
    return float(np.sqrt(2.0 * config.pad_radius_m * depth))


def friction_torque(config: Config, force: float) -> float:
    """Return the largest friction torque of both pads about their axis if no other friction force acts [N m]."""
    return 2.0 * 8.0 / 15.0 * config.friction * force * patch_radius(config, force)


class Gripper:
    """A bar between two pads, each on a finger that slides along y: eight velocities, as in the paper.

    Attributes:
        system: The bar (a free body) and both fingers.
        q: Configuration, Pinocchio's layout.
        v: Velocity, Pinocchio's layout.
        momentum_error: Momentum error of the last step.
        iterations: Number of Newton steps in the last step, starting from the velocity before it.
        solved: True if all steps were solved.
        pressing: Number of contacts that pressed in the last step.
        creep: Largest tangential speed of contacts that pressed in the last step [m/s].
        grip: Normal force of the last step, mean of both pads [N].
        problem: The last step's problem, with the solved motor impulses; None before the first step.
    """

    def __init__(self, config: Config) -> None:
        """Grip the bar firmly, at rest, in the middle of both pads."""
        self.config = config
        self.system = _machine(config)
        reach = patch_radius(config, max(config.firm_n, config.loose_n))
        half = np.arange(0.5 * config.cell_m, 1.2 * reach, config.cell_m)
        line = np.concatenate((-half[::-1], half))
        x, z = (grid.ravel() for grid in np.meshgrid(line, line))
        inside = np.hypot(x, z) < 1.2 * reach
        self._cells: Array = np.column_stack((x[inside], z[inside]))
        self._bulge: Array = (self._cells**2).sum(axis=1) / (2.0 * config.pad_radius_m)
        depth = reach**2 / (2.0 * config.pad_radius_m)
        touch = 0.5 * config.bar_m[1] - depth
        fingers = np.array([touch, -touch])
        place = np.array([config.offset_m, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
        self.q: Array = self.system.configuration(fingers, place)
        self.v: Array = np.zeros(self.system.n_velocities)
        self.momentum_error, self.iterations, self.solved = 0.0, 0, True
        self.pressing, self.creep, self.grip = 0, 0.0, 0.0
        self.problem: SparseProblem | None = None

    @property
    def pitch(self) -> float:
        """Return the pitch of the bar about the pads' axis, downwards from level [rad]."""
        x, y, z, w = self.q[3:7]
        along = pin.Quaternion(w, x, y, z).matrix()[:, 0]
        return float(np.arctan2(-along[2], along[0]))

    def step(self, force: float, torque: float = 0.0, gravity: float = GRAVITY) -> None:
        """Take a step under the grip `force` [N], an outer `torque` on the bar, and `gravity` along -z [m/s²].

        The torque [N m] acts about the pads' axis, positive like `pitch`. Each finger is a motor with a goal far beyond
        the bar, so that it always presses with its effort limit.
        """
        system, h = self.system, self.config.step_s
        system.model.gravity.linear = np.array([0.0, 0.0, -gravity])
        system.update(self.q, self.v)
        v = system.from_pinocchio(self.v)
        applied = -system.bias
        # the bar's angular velocity is in its own axes; y is the pads' axis at every pitch
        applied[4] += torque
        contacts = self._contacts()
        kappa = -h * applied - system.M @ v
        drive = np.array([-1.0, 1.0])
        fingers = np.array([6, 7])
        rows = sap.motors(h, 8, fingers, drive, np.zeros(2), np.full(2, 1e3), np.full(2, 10.0), np.full(2, force))
        problem = StepProblem(h=h, M=system.M.copy(), kappa=kappa, contacts=contacts)
        solution, impulses = sap.solve_bounded(
            problem, rows, parameters=sap.Parameters(tolerance=self.config.tolerance), start=v
        )
        self.problem = conic.of_step(problem, v, impulses @ rows.rows)
        self.q, self.v = system.advance(self.q, solution.v_plus, h)
        self.momentum_error, self.iterations = solution.residual, solution.iterations
        self.solved = self.solved and solution.status is Status.SOLVED
        pressing = solution.impulses[:, 0] > 0.0
        slip = (contacts.jacobian @ solution.v_plus).reshape(3, -1)[1:, pressing]
        self.pressing = int(pressing.sum())
        self.creep = float(np.linalg.norm(slip, axis=0).max(initial=0.0))
        self.grip = float(solution.impulses[:, 0].sum() / (2.0 * h))

    def _contacts(self) -> Contacts:
        """Return contacts of the pads' cells that lie beside the bar, with a gap below a millimetre."""
        config, system = self.config, self.system
        bar, left, right = (system.frame(name) for name in ("bar", "left", "right"))
        centre, R = system.frame_position[bar], system.frame_rotation[bar]
        parts = []
        for side, finger in ((1.0, left), (-1.0, right)):
            cells = np.column_stack((self._cells[:, 0], side * self._bulge, self._cells[:, 1]))
            cells = cells + system.frame_position[finger]
            local = (cells - centre) @ R
            gap = side * local[:, 1] - 0.5 * config.bar_m[1]
            inside = (np.abs(local[:, [0, 2]]) <= 0.5 * np.array(config.bar_m)[[0, 2]]).all(axis=1) & (gap < 1e-3)
            # the normal points from the pad into the bar
            axes = np.array([-side * R[:, 1], R[:, 0], -side * np.cross(R[:, 1], R[:, 0])])
            parts.append((np.flatnonzero(inside), cells[inside], gap[inside], axes, system.frame_joint[finger]))
        count = [len(part[0]) for part in parts]
        n = sum(count)
        identity: Integers = np.concatenate([parts[0][0], parts[1][0] + len(self._cells)]).astype(np.int64)
        point = np.ascontiguousarray(np.concatenate([part[1] for part in parts]))
        axes = np.concatenate([np.tile(part[3], (k, 1, 1)) for part, k in zip(parts, count, strict=True)])
        rows = np.empty((3 * n, 8))
        fingers = np.repeat([part[4] for part in parts], count)
        bars = np.full(n, system.frame_joint[bar])
        contact_rows(system.jacobian, system.support, bars, fingers, point, axes, rows)
        stiffness = np.full(n, config.gradient_pa_m * config.cell_m**2)
        return Contacts(
            identity=identity,
            point=point,
            axes=axes,
            gap=np.concatenate([part[2] for part in parts]),
            mu=np.full(n, config.friction),
            jacobian=rows,
            stiffness=stiffness,
            damping=config.dissipation_s * stiffness,
        )


def _machine(config: Config) -> System:
    """Return the bar and two fingers that slide along y."""
    model = pin.Model()
    x, y, z = config.bar_m
    inertia = config.bar_kg / 12.0 * np.diag([y * y + z * z, x * x + z * z, x * x + y * y])
    bar = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "bar")
    model.appendBodyToJoint(bar, pin.Inertia(config.bar_kg, np.zeros(3), inertia), pin.SE3.Identity())
    model.addJointFrame(bar)
    for name in ("left", "right"):
        finger = model.addJoint(0, pin.JointModelPY(), pin.SE3.Identity(), name)
        body = pin.Inertia(config.finger_kg, np.zeros(3), 1e-4 * np.eye(3))
        model.appendBodyToJoint(finger, body, pin.SE3.Identity())
        model.addJointFrame(finger)
    return System(model, actuated=("left", "right"))


class GripHistory(NamedTuple):
    """The run under the square wave, step by step; arrays of shape (steps,), in the units of `UNITS`."""

    t: Array
    force: Array
    pitch: Array
    contacts: Array
    iterations: Array
    momentum_error: Array
    creep: Array
    step_us: Array
    grip: Array


UNITS = {"t": "s", "force": "N", "pitch": "rad", "creep": "m/s", "step_us": "us", "grip": "N"}


def simulate(config: Config, progress: Progress = lambda share: None) -> tuple[GripHistory, bool, list[SparseProblem]]:
    """Return the run under the square wave, True if every step was solved, and `Config.solver_steps` problems."""
    gripper = Gripper(config)
    steps = round(config.periods * config.period_s / config.step_s)
    rows = np.empty((len(GripHistory._fields), steps))
    kept, problems = set(np.linspace(0, steps - 1, config.solver_steps + 1).astype(int)[1:]), []
    for step in range(steps):
        force = grip_force(config, step * config.step_s)
        _, seconds = timed(partial(gripper.step, force))
        if step in kept and gripper.problem is not None:
            problems.append(gripper.problem)
        rows[:, step] = (
            (step + 1) * config.step_s,
            force,
            gripper.pitch,
            gripper.pressing,
            gripper.iterations,
            gripper.momentum_error,
            gripper.creep,
            1e6 * seconds[0],
            gripper.grip,
        )
        if step % 100 == 0:
            progress(step / steps)
    return GripHistory(*rows), gripper.solved, problems


def torque_that_slips(config: Config, force: float) -> float:
    """Return the torque about the pads' axis at which the bar begins to turn, without gravity, by bisection [N m]."""
    low, high = 0.0, 2.0 * friction_torque(config, force)
    for _ in range(9):
        torque = 0.5 * (low + high)
        gripper = Gripper(msgspec.structs.replace(config, offset_m=0.0, firm_n=force, loose_n=force, tolerance=1e-6))
        for _ in range(60):
            gripper.step(force, torque, gravity=0.0)
        if abs(gripper.v[4]) > SPEED_OF_SLIP:
            high = torque
        else:
            low = torque
    return 0.5 * (low + high)


def run(config: Config, progress: Progress) -> Results:
    """Run the square wave, then find the torque that turns the bar."""
    history, solved, problems = simulate(config, lambda share: progress(0.8 * share))
    findings = [*_sizes(config, history), *_motion(config, history), *_solver(config, history, solved)]
    progress(0.9)
    findings.append(_torque(config))
    results = beside(problems, sap.Parameters(tolerance=config.tolerance), config.solver_tolerance) if problems else {}
    findings += in_a_grip(results)
    return Results(
        findings=findings,
        series=histories(history._asdict(), UNITS),
        drawings=[_drawing(history)],
        extra={"solvers": as_rows(results)} if results else {},
    )


experiment = Case(
    name="slip-control",
    summary="a soft gripper lets a bar pitch: contact patches with SAP",
    presets={"default": Config(), "short": Config(periods=1), "fine": Config(periods=1, cell_m=2.1e-3, step_s=2.5e-3)},
    simulate=run,
    rehearsals=lambda: [Config(periods=1, period_s=0.1, cell_m=8e-3)],
)


def _late(config: Config, history: GripHistory, *, firm: bool) -> Booleans:
    """Return True for steps in the second half of a firm (or loose) phase, when the pads rest, shape (steps,)."""
    phase = (history.t - 0.5 * config.step_s) % config.period_s / config.period_s
    begin, end = (0.0, config.duty) if firm else (config.duty, 1.0)
    return (phase > 0.5 * (begin + end)) & (phase < end)


def _sizes(config: Config, history: GripHistory) -> list[Finding]:
    """Return findings on the number of contacts and the grip force, each under the firm and the loose grip."""
    findings = []
    for name, force, firm in (("firm", config.firm_n, True), ("loose", config.loose_n, False)):
        late = _late(config, history, firm=firm)
        radius, height = patch_radius(config, force), 0.5 * config.bar_m[2]
        covered = np.pi * radius**2
        if radius > height:
            covered = 2.0 * (height * np.sqrt(radius**2 - height**2) + radius**2 * np.arcsin(height / radius))
        expected = 2.0 * covered / config.cell_m**2
        count = float(history.contacts[late].mean())
        findings.append(
            Finding(
                f"contacts_{name}",
                count,
                # a cell counts fully or not at all, so the error is about the number of cells along the rim
                holds=abs(count - expected) <= 2.0 * 2.0 * np.pi * radius / config.cell_m * 0.5,
            )
        )
        grip = float(history.grip[late].mean())
        findings.append(Finding(f"grip_{name}_n", grip, paper=force, holds=abs(grip - force) < 1e-2 * force))
    return findings


def _motion(config: Config, history: GripHistory) -> list[Finding]:
    """Return findings on the bar: creep and pitch rate under the firm grip, pitch after a loose grip and at the end."""
    firm = _late(config, history, firm=True)
    rate = np.abs(np.gradient(history.pitch, history.t))
    bound = SIGMA * config.friction * GRAVITY * config.step_s
    creep = float(history.creep[firm].max())
    findings = [
        Finding("creep_firm_m_s", creep, holds=creep <= bound),
        Finding("pitch_rate_firm_rad_s", rate[firm].max(), holds=rate[firm].max() < SPEED_OF_SLIP),
    ]
    loose = history.force == config.loose_n
    moved = history.pitch[loose]
    load = config.bar_kg * GRAVITY * config.offset_m
    ratio = friction_torque(config, config.loose_n) / load
    findings.append(
        Finding(
            "pitch_first_slip_rad",
            moved[: round((1.0 - config.duty) * config.period_s / config.step_s)][-1],
            # it must slip if, and only if, friction cannot hold the torque of the weight
            holds=(moved[-1] - moved[0] > 0.1) == (ratio < 1.0),
        )
    )
    findings.append(Finding("pitch_end_rad", history.pitch[-1]))
    return findings


def _solver(config: Config, history: GripHistory, solved: bool) -> list[Finding]:
    """Return findings about the solver's iterations, errors and time."""
    iterations = float(history.iterations.mean())
    error = float(history.momentum_error.max())
    same = config.tolerance == Config().tolerance
    return [
        Finding("iterations", iterations, holds=iterations <= 1.0 if same else None, beside=same),
        Finding("momentum_error", error, holds=error <= config.tolerance and solved, beside=same),
        Finding("step_us", np.median(history.step_us)),
    ]


def _torque(config: Config) -> Finding:
    """Return the finding about the largest torque about the pads' axis under the loose grip."""
    torque, exact = torque_that_slips(config, config.loose_n), friction_torque(config, config.loose_n)
    radius = patch_radius(config, config.loose_n)
    return Finding(
        "torque_loose_n_m",
        torque,
        # each cell acts at its middle: an error of second order in its size
        holds=abs(torque - exact) < (config.cell_m / radius) ** 2 * exact,
    )


def _drawing(history: GripHistory) -> Drawing:
    shown = {"grip force [N]": history.force, "pitch [deg]": np.rad2deg(history.pitch), "contacts": history.contacts}
    with axes(columns=3, size=(8.0, 3.0)) as plots:
        for plot, (label, values) in zip(plots, shown.items(), strict=True):
            plot.plot(history.t, values)
            plot.set(xlabel="t [s]", ylabel=label)
        plots[0].figure.tight_layout()
    return Drawing("Slip control", plots[0].figure)
