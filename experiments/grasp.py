"""An arm with four fingers holds a box and swings it (003 section 8, Fig. 18)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import coal
import matplotlib
import msgspec
import numpy as np
import pinocchio as pin
from matplotlib.figure import Figure
from msgspec import structs

from idcontrol import controllers, plants, robots
from idcontrol.contact.fingertips import Fingertips
from idcontrol.contact.landing import Landing
from idcontrol.controllers import Gains
from idcontrol.controllers.feedback import proportional_derivative
from idcontrol.errors import InputError
from idcontrol.experiments.findings import STYLE, Drawing, Finding, save
from idcontrol.experiments.trot import Friction
from idcontrol.loop.simulated import Tick, ticks
from idcontrol.planners import holding
from idcontrol.planners.grasp import Gripping, Swing
from idcontrol.record import metrics
from idcontrol.show.view.scenery import DrawableBody, Scenery
from idcontrol.system import FreeBody, System
from idcontrol.types import Array, Booleans, Command, Controller, Reference, State

Positive = Annotated[float, msgspec.Meta(gt=0)]
NotNegative = Annotated[float, msgspec.Meta(ge=0)]

BOX = "box"
POSE = 7
"""Numbers of the box's pose, which come last in a configuration."""

DROPPED_SIDES = 0.5
"""A box that has left its place in the hand by more than this share of its side is dropped: the tips are off it."""

TOUCHING_M = 1e-3
"""A fingertip farther than this from the box's surface at the start does not touch it [m]."""

INSTANTS = 16
"""Of a swing's period, at which it is checked beforehand whether the hand can hold."""

HELD = Landing(decay_s=1e-6, sink_m_s=0.0, rise_m_s=0.0)
"""Fingertips stay where they are on the box. Tips with one joint each cannot move on it independently, so any other
velocity, even a micrometre per second that would close a gap, asks for a motion that does not exist."""

PAPER_ERROR = {100.0: 0.10, 1.0: 0.074}
"""Mean error of the arm's joints under `pid` in the original recordings, by friction [rad]."""

PAPER_DROP_S = 1.5
"""When the box drops there at mu 1, read from Fig. 18 [s]."""

NO_SLIP_MU = 100.0
"""From this friction on a contact did not slip in the original simulator."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that decides a grasp.

    Attributes:
        controller: Name; see ``idcontrol list controllers``.
        plant: Name; see ``idcontrol list plants``.
        robot: Name or path of a robot file: a fixed base, and fingertips as its feet.
        mu: Friction between fingertips and box; inf means no slip. Between two fingers a micrometre of penetration at
            one and of gap at the other cannot be undone by a box that may not slip: rigid plants then let one fingertip
            slip and say `repaired`. 100, which the original took for infinite, has no such corner.
        duration_s: Length of the run.
        rate_hz: Of the control loop.
        preset: Name of the configuration that this one began with.
        plant_rate_hz: The plant steps at least this often; null is `rate_hz`.
        swing_rad: Amplitude of all joints of the arm.
        swing_rad_s: Angular frequency of the swing.
        box_side_m: Of the cube; the default is the gap between the tips of `arm` at home.
        box_density_kg_m3: Of the cube.
        box_position_m: Its centre at the start, world frame; its axes are those of the world.
        grip_n: Internal force that presses each fingertip on the box, on top of what the controller finds; the default
            is what 0.1 N m at the finger joints of `arm` give.
        closing_rad: How far the goals of the fingers lie beyond their home, inside the box.
        friction: What the controller is told.
        acceleration_gains: Of controllers that know the inertia [1/s², 1/s]; null is the robot file's.
        torque_feedback: Whether these have the robot file's joint feedback on top.
        inverse: Of inverse-dynamics controllers.
    """

    controller: str = "id-coulomb-qp"
    plant: str = "dissipation"
    robot: str = "arm"
    mu: NotNegative = np.inf
    duration_s: Positive = 3.0
    rate_hz: Positive = 1000.0
    preset: Literal["default", "paper"] = "default"
    plant_rate_hz: Positive | None = None
    swing_rad: float = 0.1
    swing_rad_s: Positive = 10.0
    box_side_m: Positive = 0.05071
    box_density_kg_m3: Positive = 6000.0
    box_position_m: tuple[float, float, float] = (0.3, 0.0, 0.2)
    grip_n: NotNegative = 2.83
    closing_rad: NotNegative = 0.0
    friction: Friction = Friction(share=0.8, cap=1.0)
    acceleration_gains: tuple[NotNegative, NotNegative] | None = None
    torque_feedback: bool = False
    inverse: controllers.Settings = msgspec.field(default_factory=lambda: controllers.Settings(landing=HELD))


PRESETS = {
    "default": Config(),
    # the original: fingers that are to close, its gains, joint feedback besides, a friction of 100 for none that slips,
    # contacts known as the plant has them. Its inverse dynamics delivered a thousandth of the contact forces, by an
    # oversight; delivered in full, the squeeze that it asks for throws the box out of the hand (`planners.grasp`).
    "paper": Config(
        preset="paper",
        plant="coulomb-lcp",
        mu=NO_SLIP_MU,
        grip_n=0.0,
        closing_rad=0.01,
        friction=Friction(share=1.0, cap=np.inf),
        acceleration_gains=(1000.0, 10.0),
        torque_feedback=True,
        inverse=controllers.Settings(project=False, ramp_s=0.0, repair=False, objective="printed", landing=HELD),
    ),
}


class Grasp:
    """The experiment, as the command line finds it."""

    name = "grasp"
    summary = "an arm swings a box between its fingertips; the box is free, hand and box are one system"
    presets: Mapping[str, Config] = PRESETS

    def run(self, config: Config, out: Path, progress: Callable[[float], None]) -> dict[str, Any]:
        """Run it, record it into `out`, and return its metrics.

        Raises:
            InputError: The robot has no hand, or the plant knows feet on the ground only.
            UnknownName: There is no such controller, plant or robot.
        """
        began = time.perf_counter()
        h, steps = 1.0 / config.rate_hz, round(config.duration_s * config.rate_hz)
        if steps < 1:
            raise InputError(f"duration_s={config.duration_s} is shorter than one period of {config.rate_hz} Hz")
        hand = _Hand.of(config)
        system, dt = hand.system(), h if config.plant_rate_hz is None else 1.0 / config.plant_rate_hz
        plant = plants.build(config.plant, plants.Setup(system=system, contacts=hand.tips(system, config.mu), dt=dt))
        controller, swing = hand.controller(h), hand.swing()
        check = _check(hand, swing)
        run = ticks(plant, swing, controller, hand.start(), h=h, steps=steps)
        arrays = _watched(run, hand, plant, steps, progress)
        arrays["q_err_arm"] = np.abs(arrays["q_err"][:, ~hand.fingers]).mean(axis=1)
        progress(1.0)
        found = _measured(arrays, hand, h)
        return save(
            out,
            experiment=self.name,
            config=config,
            findings=[*_results(config, hand, found, steps), *check],
            arrays=arrays,
            units=UNITS,
            wall_time=("step_us",),
            drawings=_drawings(arrays, hand),
            extra=found,
            began=began,
            scene=hand.scene(),
        )

    def warmup(self, out: Path) -> None:
        """A few steps with each controller: every kernel is compiled and cached."""
        for name in controllers.available():
            self.run(Config(controller=name, mu=1.0, duration_s=0.005), out / name, lambda share: None)


experiment = Grasp()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hand:
    """The robot, its hand, and the box.

    Attributes:
        config: What was asked for.
        robot: The robot.
        names: Its joints.
        fingers: Which of them move some of the fingertips, not all, shape (a,).
        mount: The joint that carries the hand.
    """

    config: Config
    robot: robots.Robot
    names: tuple[str, ...]
    fingers: Booleans
    mount: str

    @staticmethod
    def of(config: Config) -> _Hand:
        """The hand of a configuration.

        Raises:
            InputError: The robot has none.
        """
        robot = robots.load(config.robot)
        system = robot.system()
        chains = [set(chain.tolist()) for chain in robots.legs(robot, system)]
        shared = set.intersection(*chains) if chains else set()
        if robot.description.base != "fixed" or not shared or any(chain == shared for chain in chains):
            raise InputError(
                f"robot {robot.name!r} has no hand: a grasp needs a fixed base, and fingertips (its feet) that are "
                "moved by an arm and each by a finger; take arm"
            )
        fingers = np.array([i not in shared for i in range(system.n_actuated)])
        names = system.actuated_names
        return _Hand(config=config, robot=robot, names=names, fingers=fingers, mount=names[max(shared)])

    def system(self) -> System:
        """Multibody terms of robot and box, with the torque limits of the robot file."""
        side = self.config.box_side_m
        mass = self.config.box_density_kg_m3 * side**3
        box = FreeBody(name=BOX, mass=mass, inertia=mass * side**2 / 6.0 * np.eye(3))
        limit = self.robot.torque_limit(self.names)
        return System.from_urdf(
            self.robot.urdf, free_flyer=False, actuated=self.names, effort_limit=limit, free_bodies=[box]
        )

    def tips(self, system: System, mu: float) -> Fingertips:
        """The fingertips on `system`."""
        tips, side = self.robot.description.feet, self.config.box_side_m
        return Fingertips(
            system,
            [tip.frame for tip in tips],
            [tip.radius_m for tip in tips],
            BOX,
            coal.Box(side, side, side),
            mu,
            offsets=[tip.offset_m for tip in tips],
        )

    def scene(self) -> Scenery:
        """What there is to see."""
        side = self.config.box_side_m
        return Scenery(
            robot=self.config.robot, bodies=(DrawableBody(name=BOX, shape="box", size_m=(side,) * 3),), ground=None
        )

    def start(self) -> State:
        """At rest at home, the box in its place.

        Raises:
            InputError: The box is not between the fingertips there.
        """
        system = self.system()
        q = system.configuration(self.robot.home_joints(self.names))
        at = system.model.joints[system.model.getJointId(BOX)].idx_q
        q[at : at + 3] = self.config.box_position_m
        state = State(t=0.0, q=q, v=np.zeros(system.n_velocities))
        system.update(state.q, state.v)
        gap = self.tips(system, 0.0).detect(np.inf).gap
        worst = int(np.abs(gap).argmax())
        if not abs(gap[worst]) <= TOUCHING_M:
            middle = robots.foot_centres(self.robot, system, q).mean(axis=0).round(4) + 0.0  # no minus zero
            raise InputError(
                f"fingertip {self.robot.description.feet[worst].name} of {self.robot.name} is "
                f"{1e3 * gap[worst]:.1f} mm off the box at the start; set box_side_m and box_position_m so that all "
                f"tips touch it (their middle is at {middle.tolist()})"
            )
        return state

    def swing(self) -> Swing:
        """What the joints are to do."""
        return Swing(
            home=self.robot.home_joints(self.names),
            arm=~self.fingers,
            amplitude=self.config.swing_rad,
            rate=self.config.swing_rad_s,
            closing=self.config.closing_rad,
            tips=len(self.robot.description.feet),
        )

    def controller(self, h: float) -> Controller:
        """The controller, with joint feedback and grip as the configuration has them."""
        config, system = self.config, self.system()
        estimate = config.mu if config.friction.estimate is None else config.friction.estimate
        counted = min(config.friction.share * estimate, config.friction.cap)
        own, a = self.robot.description.gains.acceleration, system.n_actuated
        kp, kd = (own.kp_1_s2, own.kd_1_s) if config.acceleration_gains is None else config.acceleration_gains
        torque_kp, torque_kd = self.robot.torque_gains(self.names)
        torque = Gains(kp=torque_kp, kd=torque_kd)
        made = controllers.build(
            config.controller,
            controllers.Setup(
                system=system,
                contacts=self.tips(system, counted),
                h=h,
                acceleration_gains=Gains(kp=np.full(a, kp), kd=np.full(a, kd)),
                torque_gains=torque,
                settings=config.inverse,
            ),
        )
        if config.torque_feedback and config.controller != "pid":
            made = _WithFeedback(made, system, torque)
        if config.grip_n == 0.0:
            return made
        beside = self.system()
        return Gripping(made, beside, self.tips(beside, counted), config.grip_n)


@dataclass(frozen=True, slots=True)
class _WithFeedback:
    """A controller with joint feedback on top, as the original had it."""

    controller: Controller
    system: System
    gains: Gains

    def reset(self) -> None:
        self.controller.reset()

    def __call__(self, state: State, reference: Reference) -> Command:
        command = self.controller(state, reference)
        q, v = self.system.joint_positions(state.q), self.system.joint_velocities(state.v)
        more = proportional_derivative(self.gains, reference, q, v)
        if not np.isfinite(more).all():
            return command
        limit = self.system.effort_limit
        return structs.replace(command, tau=np.clip(command.tau + more, -limit, limit))


UNITS = {
    "t": "s",
    "q_err": "rad",
    "q_err_arm": "rad",
    "qd_err": "rad/s",
    "tau": "N m",
    "force": "N",
    "force_pred": "N",
    "box_in_hand": "m",
    "box_turn": "rad",
    "step_us": "us",
}
"""Of the channels that have one."""


def _watched(
    run: Iterable[Tick], hand: _Hand, plant: plants.SimulatedPlant, steps: int, progress: Callable[[float], None]
) -> dict[str, Array]:
    """What is recorded of a run, one row a tick, until its end or until the state is no number."""
    system = hand.system()
    model, data = system.model, system.data
    i, j = model.getJointId(hand.mount), model.getJointId(BOX)
    rows: list[dict[str, Any]] = []
    first: Any = None
    for count, tick in enumerate(run, start=1):
        pin.forwardKinematics(model, data, tick.state.q)
        place = data.oMi[i].actInv(data.oMi[j])
        first = place.copy() if first is None else first
        rows.append(
            {
                **_row(tick, system, len(hand.robot.description.feet)),
                "box_in_hand": place.translation - first.translation,
                "box_turn": np.linalg.norm(pin.log3(first.rotation.T @ place.rotation)),
                "plant_status": np.nan if plant.last is None else plant.last.status,
                "plant_residual": np.nan if plant.last is None else plant.last.residual,
                "plant_regularization": np.nan if plant.last is None else plant.last.regularization,
            }
        )
        if count % 100 == 0:
            progress(count / steps)
        if not (np.isfinite(tick.after.q).all() and np.isfinite(tick.after.v).all()):
            break
    return {key: np.array([row[key] for row in rows], dtype=np.float64) for key in rows[0]}


def _row(tick: Tick, system: System, tips: int) -> dict[str, Any]:
    """State, error, torque and forces of a tick; forces are those of the box on the fingertips."""
    state, reference, command = tick.state, tick.reference, tick.command
    force, predicted = np.zeros((tips, 3)), np.full((tips, 3), np.nan)
    normal, normal_predicted = np.zeros(tips), np.full(tips, np.nan)
    force[tick.forces.identity] = tick.forces.force
    normal[tick.forces.identity] = np.einsum("ij,ij->i", tick.forces.force, tick.forces.normal)
    if command.predicted is not None:
        told = command.predicted
        predicted[:], normal_predicted[:] = 0.0, 0.0
        predicted[told.identity] = told.force
        normal_predicted[told.identity] = np.einsum("ij,ij->i", told.force, told.normal)
    return {
        "t": state.t,
        "q": state.q[:-POSE],
        f"pose_{BOX}": state.q[-POSE:],
        "v": state.v,
        "q_err": system.joint_positions(state.q) - reference.q,
        "qd_err": system.joint_velocities(state.v) - reference.v,
        "tau": command.tau,
        "force": force,
        "force_pred": predicted,
        "normal": normal,
        "normal_pred": normal_predicted,
        "status": command.status,
        "residual": command.residual,
        "clipped": command.clipped,
        "step_us": 1e6 * tick.controller_s,
    }


def _measured(arrays: Mapping[str, Array], hand: _Hand, h: float) -> dict[str, Any]:
    """The numbers of a run, under the names that all experiments use."""
    away = np.linalg.norm(arrays["box_in_hand"], axis=1)
    gone = np.flatnonzero(~(away <= DROPPED_SIDES * hand.config.box_side_m))
    end = gone[0] if gone.size else len(away)
    arm, held = ~hand.fingers, slice(0, max(int(end), 1))
    nothing = np.zeros_like(arrays["q_err"][:, arm])
    return {
        "steps": len(away),
        "dropped_at_s": float(arrays["t"][gone[0]]) if gone.size else None,
        **metrics.tracking(arrays["q_err"][:, arm], arrays["qd_err"][:, arm], nothing, nothing),
        **metrics.torques(arrays["tau"], h),
        "torque_clipped_steps": int(np.count_nonzero(arrays["clipped"])),
        **_force_errors(arrays, held),
        "box_pos_err_m": float(away[held].mean()),
        "box_pos_max_m": float(away[held].max()),
        "box_turn_max_rad": float(arrays["box_turn"][held].max()),
        **_grip_while(arrays, held),
        "q_err_held_rad": float(arrays["q_err_arm"][held].mean()),
        "step_us": metrics.percentiles(arrays["step_us"]),
        "solver": metrics.statuses(arrays["status"]),
        "plant_solver": metrics.plant_solver(
            arrays["plant_status"], arrays["plant_residual"], arrays["plant_regularization"]
        ),
    }


def _force_errors(arrays: Mapping[str, Array], held: slice) -> dict[str, Any]:
    """Errors of the predicted sum of normal forces.

    Which fingertips share it is indeterminate, so that what `metrics` says of walking feet, the error while the very
    ones that were predicted to carry load do, says nothing here.
    """
    found = metrics.contact_forces(arrays["normal"][held], arrays["normal_pred"][held])
    return {key: value for key, value in found.items() if "same_feet" not in key}


def _grip_while(arrays: Mapping[str, Array], held: slice) -> dict[str, float]:
    """How much of the friction was used, and for how long a fingertip was off the box: why it is dropped."""
    force, normal = arrays["force"][held][1:], arrays["normal"][held][1:]  # no force has acted before the first tick
    if not len(normal):
        return {"friction_used": 0.0, "tips_off": 0.0}
    along = np.sqrt(np.maximum(np.einsum("tij,tij->ti", force, force) - normal**2, 0.0)).sum(axis=1)
    pressed = normal.sum(axis=1)
    used = np.divide(along, pressed, out=np.zeros_like(along), where=pressed > 0.0)
    return {"friction_used": float(used.max()), "tips_off": float((normal <= 0.0).any(axis=1).mean())}


def _check(hand: _Hand, swing: Swing) -> list[Finding]:
    """Before anything moves: whether friction and torque limits allow holding, and what grip that takes."""
    config, system = hand.config, hand.system()
    start, tips = hand.start(), hand.tips(system, config.mu)
    system.update(start.q, start.v)
    planned = replace(swing, closing=0.0)
    period = 2.0 * np.pi / swing.rate
    plan = [planned.at(period * k / INSTANTS) for k in range(INSTANTS)]
    loads = holding.loads(system, tips, plan, BOX, hand.mount)
    limit, fingers = system.effort_limit, hand.fingers
    needed = holding.grip_needed(loads, config.mu, fingers, limit)
    still = holding.grip_needed(loads[:1], config.mu, fingers, limit)
    given = _given_grip(hand, tips, start, system)
    mu = holding.least_friction(loads, given, fingers, limit)
    return [
        Finding(
            "can_hold",
            bool(np.isfinite(needed)),
            note="whether friction and torque limits allow to carry the box through the planned motion at all",
        ),
        Finding(
            "grip_needed_nm",
            needed if np.isfinite(needed) else None,
            "N m",
            note="the least that the strongest finger must give (N where it slides), at the worst instant of the plan; "
            f"{still:.3g} at its beginning",
        ),
        Finding(
            "grip_given_nm",
            given,
            "N m",
            note="what grip_n and closing_rad give; pid has no other, and its servos only what error adds, while "
            "controllers that predict forces press as hard as the motion needs",
        ),
        Finding(
            "mu_needed_by_given_grip",
            mu if np.isfinite(mu) else None,
            note="the least friction with which that grip alone would do; none: no friction would",
        ),
    ]


def _given_grip(hand: _Hand, tips: Fingertips, start: State, system: System) -> float:
    """Largest finger torque of the planned grip, and of the servos whose goals lie inside the box [N m]."""
    system.update(start.q, start.v)
    contacts = tips.detect(np.inf)
    press = hand.config.grip_n * contacts.N[:, system.n_unactuated :].sum(axis=0)
    stiffness, _ = hand.robot.torque_gains(hand.names)
    return float(np.abs(-press - hand.config.closing_rad * stiffness)[hand.fingers].max())


def _results(config: Config, hand: _Hand, found: Mapping[str, Any], steps: int) -> list[Finding]:
    """Whether the box was held, and the paper's numbers beside ours."""
    usual = hand.robot.name == "arm" and config.duration_s == Config().duration_s
    friction = NO_SLIP_MU if config.mu >= NO_SLIP_MU else config.mu
    dropped = found["dropped_at_s"]
    held = dropped is None and found["steps"] == steps
    return [
        Finding(
            "held_s",
            config.duration_s if dropped is None else dropped,
            "s",
            paper=PAPER_DROP_S
            if usual and config.mu == 1.0 and config.controller in ("pid", "id-coulomb-qp")
            else None,
            holds=held,
            note=f"until the box has left its place in the hand by {DROPPED_SIDES:g} of its side",
        ),
        Finding(
            "q_err_arm_rad",
            found["q_err_rad"],
            "rad",
            paper=PAPER_ERROR.get(friction) if usual and config.controller == "pid" else None,
            note="mean over the joints of the arm and the whole run, after a drop too; the paper's is that of its "
            "recorded runs. Its inverse dynamics had contact forces a thousand times too small, so that only its pid "
            "is a reference",
        ),
        Finding("q_err_held_rad", found["q_err_held_rad"], "rad", note="the same while the box was held"),
        Finding("box_pos_max_m", found["box_pos_max_m"], "m", note="largest way of the box in the hand while held"),
        Finding(
            "friction_used",
            found["friction_used"],
            note="largest ratio of tangential to normal force, of all fingertips together, while held: at mu the box "
            "slides out of the hand",
        ),
        Finding("tips_off", found["tips_off"], note="part of the time held in which a fingertip did not touch"),
        Finding("box_turn_max_rad", found["box_turn_max_rad"], "rad", note="largest turn of the box in the hand"),
    ]


def _drawings(arrays: Mapping[str, Array], hand: _Hand) -> list[Drawing]:
    """Error of the arm, box in the hand, forces predicted and measured."""
    t = arrays["t"]
    with matplotlib.rc_context(STYLE):
        error = Figure(figsize=(6.0, 3.0))
        axes = error.subplots()
        axes.plot(t, 1e3 * arrays["q_err_arm"])
        axes.set(xlabel="time [s]", ylabel="error of the arm's joints [mrad]", ylim=(0.0, None))

        place = Figure(figsize=(6.0, 3.0))
        axes = place.subplots()
        axes.semilogy(t, 1e3 * np.maximum(np.linalg.norm(arrays["box_in_hand"], axis=1), 1e-7))
        axes.axhline(1e3 * DROPPED_SIDES * hand.config.box_side_m, color="0.5", linestyle="--", label="dropped")
        axes.set(xlabel="time [s]", ylabel="box off its place in the hand [mm]")
        axes.legend()

        force = Figure(figsize=(6.0, 3.0))
        axes = force.subplots()
        axes.plot(t, arrays["normal"].sum(axis=1), label="plant")
        if np.isfinite(arrays["normal_pred"]).any():
            axes.plot(t, arrays["normal_pred"].sum(axis=1), "--", label="predicted")
        axes.set(xlabel="time [s]", ylabel="sum of normal forces [N]")
        axes.legend()
    off, away = 1e3 * arrays["q_err_arm"], 1e3 * np.linalg.norm(arrays["box_in_hand"], axis=1)
    side = 1e3 * hand.config.box_side_m
    normal, predicted = arrays["normal"].sum(axis=1), arrays["normal_pred"].sum(axis=1)
    said = f"What presses the fingertips on the box, in all: {normal.min():.3g} to {normal.max():.3g} N."
    if np.isfinite(predicted).any():
        said += (
            f" The controller's prediction is off by {np.nanmedian(np.abs(predicted - normal)):.2g} N in the median."
        )
    return [
        Drawing(
            "Tracking",
            "Mean over the joints of the arm of the distance from their goals: "
            f"{off.mean():.3g} mrad on average, {off.max():.3g} mrad at most.",
            error,
        ),
        Drawing(
            "The box in the hand",
            f"How far the box has moved from where it was in the hand: at most {away.max():.3g} mm. It counts as "
            f"dropped from {DROPPED_SIDES * side:.3g} mm on, {DROPPED_SIDES:g} of its side.",
            place,
        ),
        Drawing("Contact forces", said, force),
    ]
