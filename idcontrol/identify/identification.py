"""Identify a robot from logs: order and signs of joints, encoder offsets, then parameters of bodies and drives.

The end of each log is held out: the fit does not use it, so it can judge the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pinocchio as pin

from idcontrol.dynamics.system import Actuators, System
from idcontrol.errors import InputError
from idcontrol.identify.equations import DRIVE, Blocks, blocks
from idcontrol.identify.fit import Fit, fit, misfits, rms_of
from idcontrol.identify.logs import Log
from idcontrol.identify.offsets import Offsets, offsets
from idcontrol.identify.prior import Prior, prior_of
from idcontrol.identify.wiring import Diagnosis, corrected, wiring
from idcontrol.robots import Robot
from idcontrol.types import Array

PARTS: Final = ("offsets", "links", *DRIVE)
"""What is identified by default: encoder offsets, inertial parameters of links, and parameters of drives."""
WIRING: Final = "wiring"
"""What can also be identified: order and signs of the joints, before all else."""
HELD_OUT: Final = 0.2
"""Share of each log that is held out."""
KNOWN: Final = 0.5
"""The logs determine a parameter if its standard deviation is below this share of its prior standard deviation."""

CONTRADICTED: Final = 0.01
"""Logs contradict a weighed mass if the residual is twice that of the nominal robot, and this share of the forces."""


class Question(NamedTuple):
    """What to identify.

    Attributes:
        parts: The elements of `PARTS` to identify, and `WIRING`.
        mass: Weighed mass of all moving bodies [kg]; None if unknown.
        measured: True to use the recorded wrenches on feet; False to treat them as unknown.
    """

    parts: frozenset[str]
    mass: float | None
    measured: bool


class Identified(NamedTuple):
    """The result of an identification.

    Attributes:
        system: The nominal robot.
        prior: The knowledge before the logs.
        fit: The fitted parameters.
        offsets: The encoder offsets; None if they were not asked for, the base is fixed, or no two contact points ever
            stand simultaneously.
        wiring: The order and signs of the joints; None if they were not asked for.
        before: Residual generalized forces of the nominal robot in each block of the held-out ends, shape (n, m)
            [N, N m], in the system's order.
        after: Residual generalized forces of the identified robot, as `before`.
    """

    system: System
    prior: Prior
    fit: Fit
    offsets: Offsets | None
    wiring: Diagnosis | None
    before: Array
    after: Array


def identify(logs: Sequence[Log], robot: Robot, question: Question) -> Identified:
    """Identify a robot from its logs.

    Raises:
        InputError: `question` needs recorded forces that the logs lack, or asks for masses and scales of drives without
            any measured force or mass; or the logs contradict its mass.
    """
    system = robot.system()
    _require_a_scale(logs, robot, question)
    if not question.measured:
        logs = [log._replace(wrench=np.full_like(log.wrench, np.nan)) for log in logs]
    seen, unseen = zip(*(_split(log) for log in logs), strict=True)
    wires, mended = None, unseen
    if WIRING in question.parts:
        wires = wiring(seen, robot, system, _nominal(robot, system))
        seen, mended = (tuple(corrected(log, system, wires.wiring) for log in part) for part in (seen, unseen))
    shift = offsets(seen, robot, system) if "offsets" in question.parts and system.floats else None
    angle = np.zeros(system.n_actuated) if shift is None else shift.angle
    prior = prior_of(system, _nominal(robot, system), question.parts, question.mass)
    equations = _equations([_shifted(log, system, angle) for log in seen], robot, system)
    result = fit(equations, prior, system)
    before, after = (
        (result.sigma * misfits(_equations(judged, robot, system), result.sigma, theta))[:, system.order]
        for judged, theta in (
            (unseen, prior.parameters(prior.start)[0]),
            ([_shifted(log, system, angle) for log in mended], result.theta),
        )
    )
    size = math.sqrt(len(after)) * np.linalg.norm(rms_of(equations, prior, system))
    least = max(2.0 * np.linalg.norm(before), CONTRADICTED * size)
    if question.mass is not None and np.linalg.norm(after) > least:
        also = "" if "scale" in question.parts else "add scale to --fit, "
        raise InputError(
            f"the runs contradict a mass of {question.mass:g} kg; weigh the robot again, {also}or leave --mass out"
        )
    return Identified(system, prior, result, shift, wires, before, after)


def _nominal(robot: Robot, system: System) -> Actuators:
    """Return the actuators of the robot file; if it has none, actuators without inertia and friction."""
    if robot.description.actuators is not None:
        return robot.actuators(system.actuated_names)
    none = np.zeros(system.n_actuated)
    return Actuators(none, none, none, np.full_like(none, np.inf), none)


def weighed(logs: Sequence[Log]) -> bool:
    """True if a foot touches the ground in some log, and all logs have the vertical forces of all touching feet."""
    return any(log.touching.any() for log in logs) and all(map(_measured, logs))


def _measured(log: Log) -> bool:
    """True if the vertical force is known for every foot and tick in which the foot may touch the ground."""
    return bool(np.isfinite(log.wrench[log.touching][:, 2]).all())


def _require_a_scale(logs: Sequence[Log], robot: Robot, question: Question) -> None:
    """Refuse a question for which the measured forces or a weighed mass are missing.

    Raises:
        InputError: The question is refused.
    """
    if question.measured and not all(map(_measured, logs)):
        raise InputError(f"the forces on {robot.name}'s feet were not recorded; use --forces unknown")
    known = question.mass is not None or (question.measured and weighed(logs))
    if {"links", "scale"} <= question.parts and not known:
        raise InputError(
            "masses and scales of drives cannot be distinguished without a measured force: weigh the robot and give "
            "--mass KG, or leave links or scale out of --fit"
        )


def _split(log: Log) -> tuple[Log, Log]:
    """Return the beginning of a log and its held-out end."""
    cut = round((1.0 - HELD_OUT) * len(log.t))
    return log.rows(slice(None, cut)), log.rows(slice(cut, None))


def _shifted(log: Log, system: System, angle: Array) -> Log:
    """Return the log with the offsets `angle` added to the recorded angles."""
    step = np.zeros(system.n_velocities)
    step[system.order[system.n_unactuated :]] = angle
    return log._replace(q=np.array([pin.integrate(system.model, q, step) for q in log.q]))


def _equations(logs: Sequence[Log], robot: Robot, system: System) -> Blocks:
    each = [blocks(log, robot, system) for log in logs]
    return Blocks(*(np.concatenate(arrays) for arrays in zip(*each, strict=True)))
