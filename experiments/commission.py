"""The first day of a robot: a run of the loop for each step, at low power first, judged by its record.

The steps `STEPS` in their order: in the air, each joint moves alone, the emergency stop is pressed, and all joints
swing; on the ground, the robot stands, is pushed, and takes its first steps. A step with a number outside its accepted
range ends the day.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pinocchio as pin

from idcontrol import robots
from idcontrol.controllers import Setup
from idcontrol.dynamics.system import System
from idcontrol.loop.life import smooth
from idcontrol.loop.motion import UNKNOWN
from idcontrol.loop.record import working
from idcontrol.loop.safety import NAMES, Fault, Mode
from idcontrol.record.recording import Run
from idcontrol.robots import Robot
from idcontrol.types import Array, Reference, State

MOVE_RAD: Final = np.radians(2.0)
"""Motion of each joint in the step `signs` [rad or m]."""
REST_S: Final = 0.5
"""Time before the first motion [s]."""
RISE_S: Final = 0.3
"""Duration of each phase in the step `signs` [s]: a motion, a rest, the motion back, and another rest."""
SWING_RAD: Final = 0.1
"""Amplitude of the joints in the step `hoist` [rad or m]."""
SWING_HZ: Final = 0.5
"""Frequency of the joints in the step `hoist`."""
STOPS: Final = Fault.ESTOP | Fault.DRIVE | Fault.VOLTAGE
"""Faults by which a machine reports a pressed emergency stop: the switch, or motors without their supply. Silence is no
report, because a lost connection is silent, too."""
Course = Callable[[float, int], tuple[Array, Array]]
"""Returns offsets (a,) [rad or m] and velocities (a,) [rad/s or m/s] of `a` joints at a time [s]."""


def one_by_one(t: float, a: int) -> tuple[Array, Array]:
    """Move each joint by `MOVE_RAD` and back, while the others rest."""
    offset, velocity = np.zeros((2, a))
    joint, since = divmod(t - REST_S, 4.0 * RISE_S)
    if 0 <= joint < a:
        (up, up_rate), (down, down_rate) = (smooth(since / RISE_S - start) for start in (0.0, 2.0))
        offset[int(joint)], velocity[int(joint)] = MOVE_RAD * (up - down), MOVE_RAD * (up_rate - down_rate) / RISE_S
    return offset, velocity


def still(t: float, a: int) -> tuple[Array, Array]:
    """Hold all joints."""
    return np.zeros(a), np.zeros(a)


def together(t: float, a: int) -> tuple[Array, Array]:
    """Swing all joints, with an amplitude that grows within a second."""
    (size, rate), turn = smooth(t), 2.0 * np.pi * SWING_HZ
    velocity = SWING_RAD * (rate * np.sin(turn * t) + size * turn * np.cos(turn * t))
    return np.full(a, SWING_RAD * size * np.sin(turn * t)), np.full(a, velocity)


class InTheAir:
    """A planner of a hanging robot: its joints follow a course that begins at their positions at the reset."""

    def __init__(self, setup: Setup, course: Course) -> None:
        """Plan for the robot of `setup`."""
        self._system, self._course = setup.system, course
        assert isinstance(setup.robot, Robot)
        self._feet, self._begin, self._q = len(setup.robot.patches), 0.0, np.zeros(0)

    def reset(self, state: State) -> None:
        """Begin at the joints of `state`."""
        self._begin, self._q = state.t, self._system.joint_positions(state.q)

    def __call__(self, state: State) -> Reference:
        """Return the reference at ``state.t``."""
        offset, velocity = self._course(state.t - self._begin, len(self._q))
        return msgspec.structs.replace(Reference.standing(self._q + offset, self._feet), v=velocity)


def signs(setup: Setup) -> InTheAir:
    """Return the planner of the step `signs`."""
    return InTheAir(setup, one_by_one)


def hold(setup: Setup) -> InTheAir:
    """Return the planner of the step `estop`."""
    return InTheAir(setup, still)


def swing(setup: Setup) -> InTheAir:
    """Return the planner of the step `hoist`."""
    return InTheAir(setup, together)


class Check(msgspec.Struct, frozen=True):
    """A number of a step, and the range in which it is accepted.

    Attributes:
        what: What was measured, with its unit.
        value: The number; NaN, which is not accepted, if the record does not have it.
        least: Smallest accepted value.
        most: Largest accepted value.
        note: What a number outside the range means; "" without a note.
    """

    what: str
    value: float
    least: float
    most: float
    note: str = ""

    @property
    def passed(self) -> bool:
        """True if the number is accepted."""
        return self.least <= self.value <= self.most


Judge = Callable[[Run, System], list[Check]]


def judge_signs(run: Run, system: System) -> list[Check]:
    """Judge the step `signs`: each joint must move when it is commanded, while all other joints stay in place."""
    q, t, names = _joints(run, system), _times(run), system.actuated_names

    def mean(until_s: float) -> Array:
        end = REST_S + until_s
        rows = q[(t >= end - 0.1) & (t < end)]
        complete = len(rows) and t[-1] >= end - 1.5 * _period(run)
        return rows.mean(axis=0) if complete else np.full(len(names), np.nan)

    moved = np.array([mean((4 * j + 2) * RISE_S) - mean(4 * j * RISE_S) for j in range(len(names))]) / MOVE_RAD * 2.0
    reached = np.isfinite(moved).all(axis=1)
    own, others = np.diag(moved), np.abs(moved - np.diag(np.diag(moved))).max(axis=1)
    worst = int(np.argmax(np.where(reached, np.maximum(np.abs(own - 2.0), others), np.inf)))
    taken = int(np.argmax(np.abs(moved[worst]))) if reached[worst] else worst
    if reached[worst]:
        note = f"{names[worst]}: " + (
            "wrong torque constant, or too little torque"
            if taken == worst
            else f"{names[taken]} moved instead; check the order of joints"
        )
    elif NAMES[Fault.ASTRAY] in _fault(run):
        away = np.abs(q - run.arrays["q_des"][working(run.arrays)])[-1:]
        note = f"{names[int(away.sum(axis=0).argmax())]} ran away; check sign and order of its drive and encoder"
    else:
        metrics = run.metrics or {}
        late = f"the machine's time advanced by {_largest(t):.3g} s"
        note = f"the run ended early: {metrics.get('error') or late}"
    worst_own = np.nan if not reached[worst] else float(own[np.argmax(np.abs(own - 2.0))])
    return [
        Check("joints tested", int(reached.sum()), len(names), len(names), note),
        Check("commanded joint, farthest from 2°", worst_own, 1.0, 3.0, note),
        Check(
            "other joints, largest motion [°]", float(np.nan if not reached[worst] else others.max()), 0.0, 0.5, note
        ),
        *([_torque_off(run, system)] if reached[worst] else []),
        _no_fault(run),
    ]


def _torque_off(run: Run, system: System) -> Check:
    """Compare the mean torque sent to each joint while it moves with the torque that holds the leg by the model.

    They may differ by a third, or by the dry friction of the joint.
    """
    robot, names, rows = robots.load(run.config["robot"]), system.actuated_names, working(run.arrays)
    friction = UNKNOWN * system.effort_limit
    if robot.description.actuators is not None:
        friction = robot.actuators(names).friction
    weights = [pin.computeGeneralizedGravity(system.model, system.data, q) for q in run.arrays["q"][rows]]
    both = np.stack((run.arrays["tau"][rows], np.array(weights)[:, system.order[system.n_unactuated :]]))
    joint = (_times(run) - REST_S) // (4.0 * RISE_S)
    sent, model = np.stack([both[:, joint == j, j].mean(axis=1) for j in range(len(names))], axis=1)
    off = np.abs(sent - model) / np.maximum(np.abs(model) / 3.0, friction)
    j = int(off.argmax())
    note = f"{names[j]}: {sent[j]:.3g} N m instead of {model[j]:.3g} N m: weak drive, wrong torque constant or mass"
    return Check("torque beside the model's / tolerance", float(off[j]), 0.0, 1.0, note)


def judge_estop(run: Run, system: System) -> list[Check]:
    """Measure how soon after the emergency stop the machine no longer runs."""
    faults, mode, t = run.arrays["faults"].astype(np.int64), run.arrays["machine_mode"], run.arrays["t"]
    begun = np.flatnonzero(faults & int(STOPS))
    names = {NAMES[fault] for fault in STOPS}
    ended = set(_fault(run).split(", ")) & names
    # a run that ended in order also ends with a machine that no longer runs, which says nothing about the switch
    after = begun[0] + np.flatnonzero(mode[begun[0] :] != Mode.RUNNING) if begun.size and ended else np.zeros(0, int)
    return [
        Check("ended by the emergency stop", float(bool(ended)), 1.0, 1.0,
              f"the machine reported none of {', '.join(sorted(names))}; the run ended by {_fault(run) or 'no fault'}"),
        Check("machine runs on [ms]", 1e3 * float(t[after[0]] - t[begun[0]]) if after.size else np.nan, 0.0, 20.0,
              "the machine must brake, or be without power"),
    ]  # fmt: skip


def judge_hoist(run: Run, system: System) -> list[Check]:
    """Measure how well the joints follow their swing."""
    rows = working(run.arrays)
    error = np.abs(_joints(run, system) - run.arrays["q_des"][rows])
    j = int(error.max(axis=0).argmax()) if len(error) else 0
    return [
        Check("largest joint error [rad]", _largest(error), 0.0, 0.5 * SWING_RAD,
              f"{system.actuated_names[j]}: friction, a wrong torque constant, or too little torque"),
        _no_fault(run),
    ]  # fmt: skip


def judge_stand(run: Run, system: System) -> list[Check]:
    """Judge a robot that stands."""
    tilt, share = _tilt(run), _torque_share(run, system)
    return [
        Check("largest tilt [rad]", _largest(tilt), 0.0, 0.05, "a wrong encoder zero, or a wrong mass"),
        Check("largest torque / limit", share, 0.0, 0.9, "a wrong mass or torque constant"),
        _no_fault(run),
    ]


def judge_push(run: Run, system: System) -> list[Check]:
    """Judge a robot that is pushed: the push must move its base, and it must stand upright again at the end."""
    tilt, t = _tilt(run), _times(run)
    speed = np.linalg.norm(run.arrays["v"][working(run.arrays)][:, :3], axis=1)
    last = tilt[t > t[-1] - 1.0] if len(t) and t[-1] > 1.0 else tilt[:0]
    return [
        Check("largest speed of the base [m/s]", _largest(speed), 0.05, 1.0, "push harder, or less hard"),
        Check("largest tilt [rad]", _largest(tilt), 0.0, 0.3, "it cannot take this push"),
        Check("tilt in the last second [rad]", _largest(last), 0.0, 0.05, "it did not right itself"),
        _no_fault(run),
    ]


def judge_step(run: Run, system: System) -> list[Check]:
    """Judge the first steps."""
    tilt, metrics = _tilt(run), run.metrics or {}
    return [
        Check("walked to the end", float(bool(metrics.get("completed"))), 1.0, 1.0, str(metrics.get("error"))),
        Check("largest tilt [rad]", _largest(tilt), 0.0, 0.15, "it sways: lower gains, or slower"),
        Check("largest torque / limit", _torque_share(run, system), 0.0, 0.95, "feet land hard, or power is too low"),
        _no_fault(run),
    ]


def _joints(run: Run, system: System) -> Array:
    """Return the joint positions of the working ticks, shape (n, a)."""
    rows = run.arrays["q"][working(run.arrays)]
    return np.array([system.joint_positions(q) for q in rows]).reshape(-1, system.n_actuated)


def _times(run: Run) -> Array:
    """Return the machine's times of the working ticks since the first such tick [s]; missed ticks leave gaps."""
    t = run.arrays["t_machine"][working(run.arrays)]
    return t - t[:1]


def _period(run: Run) -> float:
    return 1.0 / float(run.config["rate_hz"])


def _tilt(run: Run) -> Array:
    return run.arrays["base_tilt"][working(run.arrays)]


def _torque_share(run: Run, system: System) -> float:
    """Return the largest torque, relative to the limits at the power of the run."""
    limit = float(run.config["power"]) * system.effort_limit
    return _largest(np.abs(run.arrays["tau"][working(run.arrays)]) / limit)


def _largest(values: Array) -> float:
    """Return the largest value; NaN without values."""
    return float(values.max()) if values.size else np.nan


def _fault(run: Run) -> str:
    """Return the names of the faults that ended a run, separated by commas; "" without a fault."""
    return str((run.metrics or {}).get("fault") or "")


def _no_fault(run: Run) -> Check:
    metrics = run.metrics or {}
    ended = metrics.get("fault") or ("" if metrics.get("ended") == "duration" else metrics.get("ended", "cut off"))
    return Check("ended without a fault", float(not ended), 1.0, 1.0, f"{ended}: {metrics.get('error')}")


class Step(NamedTuple):
    """A step of the first day.

    Attributes:
        name: Its name.
        task: What the operator does.
        settings: Settings of its loop, by dotted key.
        judge: Returns the checks of its record.
        planner: Its planner, as ``module:function``; None for the planner of the walk.
    """

    name: str
    task: str
    settings: Mapping[str, Any]
    judge: Judge
    planner: str | None = None


AIR: Final = {
    "hoist.hangs": True, "controller": "pid", "power": 0.1, "duration_s": 6.0,
    # a joint that runs away is braked within 0.1 rad and 6 ticks
    "loop.policy.tracking": 0.1, "loop.policy.astray.tolerate": 5,
}  # fmt: skip
GROUND: Final = {"gait.kind": "stand", "duration_s": 4.0, "power": 0.6}
STEPS: Final = (
    Step("signs", "Hang the robot with its feet in the air. Watch each joint: does it move as printed?", AIR,
         judge_signs, f"{__name__}:signs"),
    Step("estop", "The robot hangs. Press the emergency stop within 20 s.",
         AIR | {"duration_s": 20.0, "hoist.estop_s": 1.0}, judge_estop, f"{__name__}:hold"),
    Step("hoist", "The robot hangs. All joints swing; listen to the gears, and feel the drives afterwards.",
         AIR | {"power": 0.3}, judge_hoist, f"{__name__}:swing"),
    Step("stand", "Put the robot on level ground, with a slack rope. It stands up and lies down.", GROUND, judge_stand),
    Step("push", "As before; push its side by hand once it stands.",
         GROUND | {"duration_s": 8.0, "kick.at_s": 4.0}, judge_push),
    Step("step", "As before, with two metres of free ground ahead. It walks slowly.",
         {"path.kind": "command", "path.command": [[0.0, 0.1, 0.0, 0.0]], "duration_s": 6.0, "power": 0.8}, judge_step),
)  # fmt: skip


def expected(robot: Robot) -> list[str]:
    """Return a line for each joint, for the operator: which foot it moves in the step `signs`, how far, which way."""
    system = robot.system()
    q = robot.standing_state(system).q
    before, lines = _feet(robot, system, q), []
    for j, name in enumerate(system.actuated_names):
        step = np.zeros(system.n_velocities)
        step[system.order[system.n_unactuated + j]] = MOVE_RAD
        moved = _feet(robot, system, pin.integrate(system.model, q, step)) - before
        foot, axis = np.unravel_index(np.abs(moved).argmax(), moved.shape)
        way = (("forward", "left", "up"), ("back", "right", "down"))[int(moved[foot, axis] < 0.0)][axis]
        lines.append(f"{name}: {robot.patches[foot]} {1e3 * abs(moved[foot, axis]):.0f} mm {way}")
    return lines


def _feet(robot: Robot, system: System, q: Array) -> Array:
    """Return the positions of the frames of all feet, shape (k, 3) [m]."""
    data = system.model.createData()
    pin.framesForwardKinematics(system.model, data, q)
    frames = [foot.frame for foot in robot.description.feet] + [sole.frame for sole in robot.description.soles]
    return np.array([data.oMf[system.frame(frame)].translation for frame in frames])


def settings_of(step: Step, system: System) -> dict[str, Any]:
    """Return the settings of a step for the robot `system`."""
    own: dict[str, Any] = {} if step.planner is None else {"loop.planner": step.planner}
    if step.judge is judge_signs:
        own["duration_s"] = round(REST_S + 4.0 * RISE_S * system.n_actuated, 3)
    return {**step.settings, **own}
