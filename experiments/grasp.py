"""An arm with four fingers holds a box and swings it (Zapolsky & Drumwright 2017, section 8, Fig. 18)."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pinocchio as pin

from idcontrol import controllers, plants
from idcontrol.contact.fingertips import Fingertips
from idcontrol.dynamics.system import System
from idcontrol.errors import Diverged
from idcontrol.experiments.case import Case, Progress
from idcontrol.experiments.findings import Drawing, Finding, Results, axes, histories
from idcontrol.loop.simulated import Tick, ticks
from idcontrol.planners import grasp_feasibility
from idcontrol.planners.arm_swing import ArmSwing
from idcontrol.record import metrics
from idcontrol.scenes.grasp import BOX, HELD, GraspConfig, GraspScene
from idcontrol.scenes.settings import AssumedFriction, control_periods
from idcontrol.types import Array, State

POSE = 7
"""Number of coordinates of the box's pose, which is last in a configuration."""

DROPPED_SIDES = 0.5
"""Motion of the box in the hand above which it counts as dropped, as a fraction of its side: the fingertips no longer
touch it."""

INSTANTS = 16
"""Number of instants of a swing's period at which the loads on the hand are computed."""

PAPER_ERROR = {100.0: 0.10, 1.0: 0.074}
"""Mean error of the arm's joints under `pid` in the original recordings, by friction [rad]."""

PAPER_DROP_S = 1.5
"""Time at which the box drops in the paper at mu 1, read from Fig. 18 [s]."""

FIG_18 = "Zapolsky & Drumwright 2017, Fig. 18"

NO_SLIP_MU = 100.0
"""Friction coefficient from which contacts did not slip in the original simulator."""

PRESETS = {
    "default": GraspConfig(),
    # As in the original: fingers commanded to close, the original's gains, additional joint feedback, friction 100 for
    # no slip, and contacts taken from the plant. The original's inverse dynamics applied a thousandth of the contact
    # forces, by an oversight. The full forces of the demanded grip throw the box out of the hand (`planners.grip`).
    "paper": GraspConfig(
        preset="paper",
        plant="coulomb-lcp",
        mu=NO_SLIP_MU,
        grip_n=0.0,
        closing_rad=0.01,
        friction=AssumedFriction(share=1.0, cap=np.inf, pyramid="original"),
        acceleration_gains=(1000.0, 10.0),
        torque_feedback=True,
        inverse=controllers.InverseSettings(
            project=False, ramp_s=0.0, repair=False, rate_limit_nm_s=None, objective="printed", landing=HELD
        ),
    ),
}


def run(config: GraspConfig, progress: Progress) -> Results:
    """Swing the box, and measure whether it is held.

    Raises:
        InputError: The robot has no hand, or the plant cannot be made.
        UnknownName: The controller, plant or robot does not exist.
    """
    steps = control_periods(config.duration_s, config.rate_hz)
    scene = GraspScene.of(config)
    h, plant, controller, swing = scene.period_s, scene.plant(), scene.controller(), scene.swing()
    check = _check(scene, swing)
    run = ticks(plant, swing, controller, scene.start(), h=h, steps=steps)
    arrays = _recorded(run, scene, plant, steps, progress)
    arrays["q_err_arm"] = np.abs(arrays["q_err"][:, ~scene.fingers]).mean(axis=1)
    progress(1.0)
    numbers = _measured(arrays, scene, h, steps)
    return Results(
        findings=[*_results(scene, numbers), *check],
        series=histories(arrays, UNITS),
        drawings=_drawings(arrays, scene),
        extra=numbers,
        scene=scene.scenery(),
    )


experiment = Case(
    name="grasp",
    summary="an arm swings a box between its fingertips",
    presets=PRESETS,
    simulate=run,
    rehearsals=lambda: [GraspConfig(controller=name, mu=1.0, duration_s=0.005) for name in controllers.available()],
)


UNITS = {
    **dict.fromkeys(("q_err", "q_err_arm", "box_turn"), "rad"),
    **dict.fromkeys(("force", "force_pred"), "N"),
    **{"t": "s", "qd_err": "rad/s", "tau": "N m", "box_in_hand": "m", "step_us": "us"},
}
"""Units of the channels that have one."""
PLANT_OUTCOME = ("plant_status", "plant_residual", "plant_regularization")
"""Channels for the outcome of the plant's step."""


def _recorded(
    run: Iterable[Tick], scene: GraspScene, plant: plants.SimulatedPlant, steps: int, progress: Callable[[float], None]
) -> dict[str, Array]:
    """Return a run's record, one row per tick, until it ends or the motion diverges."""
    system = scene.system()
    model, data = system.model, system.data
    i, j = model.getJointId(scene.mount), model.getJointId(BOX)
    rows: list[dict[str, Any]] = []
    first: Any = None
    for count, tick in enumerate(_while_bounded(run), start=1):
        pin.forwardKinematics(model, data, tick.state.q)
        place = data.oMi[i].actInv(data.oMi[j])
        first = place.copy() if first is None else first
        last = plant.last
        outcome = (np.nan,) * 3 if last is None else (last.status, last.residual, last.regularization)
        rows.append(
            {
                **_row(tick, system, len(scene.robot.description.feet)),
                "box_in_hand": place.translation - first.translation,
                "box_turn": np.linalg.norm(pin.log3(first.rotation.T @ place.rotation)),
                **dict(zip(PLANT_OUTCOME, outcome, strict=True)),
            }
        )
        if count % 100 == 0:
            progress(count / steps)
    return {key: np.array([row[key] for row in rows], dtype=np.float64) for key in rows[0]}


def _while_bounded(run: Iterable[Tick]) -> Iterator[Tick]:
    """Yield the ticks of a run from the first until the motion diverges."""
    ticks = iter(run)
    yield next(ticks)
    with contextlib.suppress(Diverged):
        for tick in ticks:
            yield tick
            if not (np.isfinite(tick.after.q).all() and np.isfinite(tick.after.v).all()):
                return


def _row(tick: Tick, system: System, tips: int) -> dict[str, Any]:
    """Return the state, error, torque and forces of a tick; forces act from the box on the fingertips."""
    state, reference, command = tick.state, tick.reference, tick.command
    force, predicted = np.zeros((tips, 3)), np.full((tips, 3), np.nan)
    normal, normal_predicted = np.zeros(tips), np.full(tips, np.nan)
    force[tick.forces.identity] = tick.forces.force
    normal[tick.forces.identity] = np.einsum("ij,ij->i", tick.forces.force, tick.forces.normal)
    if command.predicted is not None:
        forces = command.predicted
        predicted[:], normal_predicted[:] = 0.0, 0.0
        predicted[forces.identity] = forces.force
        normal_predicted[forces.identity] = np.einsum("ij,ij->i", forces.force, forces.normal)
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
        "rate_off": "rate" in command.dropped,
        "solved_by": metrics.solver_number(command.solved_by),
        "gap_nm": command.gap,
        "step_us": 1e6 * tick.controller_s,
    }


def _measured(arrays: Mapping[str, Array], scene: GraspScene, h: float, steps: int) -> dict[str, Any]:
    """Return the numbers of a run, under the names that all experiments use."""
    away = np.linalg.norm(arrays["box_in_hand"], axis=1)
    gone = np.flatnonzero(~(away <= DROPPED_SIDES * scene.config.box_side_m))
    end = int(gone[0]) if gone.size else len(away)
    arm, held = ~scene.fingers, slice(0, max(end, 1))
    nothing = np.zeros_like(arrays["q_err"][:, arm])
    return {
        **scene.friction,
        "steps": len(away),
        "dropped_at_s": end * h if end < steps else None,
        **metrics.tracking(arrays["q_err"][:, arm], arrays["qd_err"][:, arm], nothing, nothing),
        **metrics.torques(arrays["tau"], h),
        "torque_clipped_steps": int(np.count_nonzero(arrays["clipped"])),
        "rate_bound_off_steps": metrics.marked(arrays, "rate_off"),
        **_force_errors(arrays, held),
        "box_pos_err_m": float(away[held].mean()),
        "box_pos_max_m": float(away[held].max()),
        "box_turn_max_rad": float(arrays["box_turn"][held].max()),
        **_grip_while(arrays, held),
        "q_err_held_rad": float(arrays["q_err_arm"][held].mean()),
        "step_us": metrics.percentiles(arrays["step_us"]),
        "solver": metrics.statuses(arrays["status"], arrays["solved_by"], arrays["gap_nm"]),
        "plant_solver": metrics.plant_solver(*(arrays[key] for key in PLANT_OUTCOME)),
    }


def _force_errors(arrays: Mapping[str, Array], held: slice) -> dict[str, Any]:
    """Return errors of the predicted sum of normal forces.

    Only the sum is judged, since the share of each fingertip is indeterminate. Errors of single contacts, which
    `metrics` reports for walking feet, would mean nothing here.
    """
    numbers = metrics.contact_forces(arrays["normal"][held], arrays["normal_pred"][held])
    return {key: value for key, value in numbers.items() if "same_feet" not in key}


def _grip_while(arrays: Mapping[str, Array], held: slice) -> dict[str, float]:
    """Return the largest ratio of summed friction to normal force, and the share of ticks with a tip off the box."""
    force, normal = arrays["force"][held][1:], arrays["normal"][held][1:]  # the first row has no forces yet
    if not len(normal):
        return {"friction_used": 0.0, "tips_off": 0.0}
    along = np.sqrt(np.maximum(np.einsum("tij,tij->ti", force, force) - normal**2, 0.0)).sum(axis=1)
    pressed = normal.sum(axis=1)
    used = np.divide(along, pressed, out=np.zeros_like(along), where=pressed > 0.0)
    return {"friction_used": float(used.max()), "tips_off": float((normal <= 0.0).any(axis=1).mean())}


def _check(scene: GraspScene, swing: ArmSwing) -> list[Finding]:
    """Return findings about the limits of friction and torques: can the hand hold the box, and with which grip?"""
    system = scene.system()
    start, tips = scene.start(), scene.tips(system, scene.mu_plant)
    system.update(start.q, start.v)
    planned = replace(swing, closing=0.0)
    period = 2.0 * np.pi / swing.rate
    plan = [planned.at(period * k / INSTANTS) for k in range(INSTANTS)]
    loads = grasp_feasibility.grasp_loads(system, tips, plan, BOX, scene.mount)
    limit, fingers = system.effort_limit, scene.fingers
    needed = grasp_feasibility.grip_needed(loads, scene.mu_plant, fingers, limit)
    grip = _grip_torque(scene, tips, start, system)
    mu = grasp_feasibility.least_friction(loads, grip, fingers, limit)
    return [
        Finding("can_hold", np.isfinite(needed)),
        Finding("grip_needed_nm", needed if np.isfinite(needed) else None),
        Finding("grip_given_nm", grip),
        Finding("mu_needed_by_given_grip", mu if np.isfinite(mu) else None),
    ]


def _grip_torque(scene: GraspScene, tips: Fingertips, start: State, system: System) -> float:
    """Return the largest torque of a finger joint by the planned grip and by servo goals inside the box [N m]."""
    system.update(start.q, start.v)
    contacts = tips.detect(np.inf)
    press = scene.config.grip_n * contacts.N[:, system.n_unactuated :].sum(axis=0)
    stiffness, _ = scene.robot.torque_gains(scene.names)
    return float(np.abs(-press - scene.config.closing_rad * stiffness)[scene.fingers].max())


def _results(scene: GraspScene, numbers: Mapping[str, Any]) -> list[Finding]:
    """Return the findings, compared with the paper's numbers."""
    config = scene.config
    usual = scene.robot.name == "arm" and config.duration_s == GraspConfig().duration_s
    friction = NO_SLIP_MU if config.mu >= NO_SLIP_MU else config.mu
    dropped = numbers["dropped_at_s"]
    return [
        Finding(
            "held_s",
            config.duration_s if dropped is None else dropped,
            holds=dropped is None,
            beside=usual and config.mu == 1.0 and (config.controller in ("pid", "id-coulomb-qp")),
        ),
        Finding(
            "q_err_arm_rad",
            numbers["q_err_rad"],
            paper=PAPER_ERROR.get(friction) if usual and config.controller == "pid" else None,
        ),
        *(
            Finding(key, numbers[key])
            for key in ("q_err_held_rad", "box_pos_max_m", "friction_used", "tips_off", "box_turn_max_rad")
        ),
    ]


def _drawings(arrays: Mapping[str, Array], scene: GraspScene) -> list[Drawing]:
    """Draw the error of the arm, the box in the hand, and the predicted and measured forces."""
    t = arrays["t"]
    with axes(size=(6.0, 3.0)) as error:
        error.plot(t, 1e3 * arrays["q_err_arm"])
        error.set(xlabel="time [s]", ylabel="error of the arm's joints [mrad]", ylim=(0.0, None))
    with axes(size=(6.0, 3.0)) as place:
        place.semilogy(t, 1e3 * np.maximum(np.linalg.norm(arrays["box_in_hand"], axis=1), 1e-7))
        place.axhline(1e3 * DROPPED_SIDES * scene.config.box_side_m, color="0.5", linestyle="--", label="dropped")
        place.set(xlabel="time [s]", ylabel="box off its place in the hand [mm]")
        place.legend()
    with axes(size=(6.0, 3.0)) as force:
        force.plot(t, arrays["normal"].sum(axis=1), label="plant")
        if np.isfinite(arrays["normal_pred"]).any():
            force.plot(t, arrays["normal_pred"].sum(axis=1), "--", label="predicted")
        force.set(xlabel="time [s]", ylabel="sum of normal forces [N]")
        force.legend()
    drawn = {"Tracking": error, "The box in the hand": place, "Contact forces": force}
    return [Drawing(title, plot.figure) for title, plot in drawn.items()]
