"""The record of an identification: parameters with standard deviations, and forces that the models do not explain."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pinocchio as pin
from msgspec import structs

from idcontrol.experiments.findings import Drawing, Finding, Results, Series, axes, save
from idcontrol.identify.equations import BLOCK_S, DRIVE
from idcontrol.identify.identification import KNOWN, Identified, Question
from idcontrol.identify.inertia import SIZE
from idcontrol.identify.offsets import OFFSET_SPREAD
from idcontrol.identify.wiring import words
from idcontrol.robots import Robot
from idcontrol.robots.schema import ActuatorFigures, Description, MachineOrder
from idcontrol.robots.writing import moved_links
from idcontrol.types import Array

ORDER = "identified"
"""Name of the joint order that gets offsets and scales, if the runs were made without a joint order."""


class IdentifyConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of an identification.

    Attributes:
        logs: Folders of runs, or NPZ files.
        robot: The nominal robot.
        parts: The identified parts of the robot, elements of `idcontrol.identify.identification.PARTS`, or ``wiring``.
        mass_kg: Weighed mass of all moving bodies; null if unknown.
        forces: ``measured`` if the recorded wrenches on feet were used, ``unknown`` if they were treated as unknown.
    """

    logs: tuple[str, ...]
    robot: str
    parts: tuple[str, ...]
    mass_kg: float | None
    forces: str


def config_of(logs: Sequence[str], robot: Robot, question: Question) -> IdentifyConfig:
    """Return the settings of an identification."""
    return IdentifyConfig(
        logs=tuple(logs),
        robot=str(robot.path),
        parts=tuple(sorted(question.parts)),
        mass_kg=question.mass,
        forces="measured" if question.measured else "unknown",
    )


class Value(msgspec.Struct, frozen=True):
    """A parameter.

    Attributes:
        value: The estimate; the nominal value if it was not fitted.
        sd: Its standard deviation; null if it was not fitted.
        nominal: The value before the fit.
        known: True if the logs reduce the standard deviation to less than half.
    """

    value: float
    sd: float | None
    nominal: float
    known: bool


def drives(result: Identified) -> list[dict[str, Any]]:
    """Return the parameters of each joint's drive, and the offset of its encoder."""
    k, a = SIZE * len(result.prior.root), result.system.n_actuated
    rows: list[dict[str, Any]] = []
    for i, joint in enumerate(result.system.actuated_names):
        row = {name: _value(result, k + n * a + i) for n, name in enumerate(DRIVE)}
        offset = Value(0.0, None, 0.0, False)
        if result.offsets is not None:
            angle, sd = float(result.offsets.angle[i]), float(result.offsets.spread[i])
            offset = Value(angle, sd, 0.0, sd < KNOWN * OFFSET_SPREAD)
        rows.append({"joint": joint, **row, "offset": offset})
    return rows


def links(result: Identified) -> list[dict[str, Any]]:
    """Return mass and, unless it is zero, mass centre of each moving link with all links fixed to it."""
    rows: list[dict[str, Any]] = []
    fit, nominal = result.fit, result.prior.parameters(result.prior.start)[0]
    for link, joint in moved_links(result.system.model).items():
        first = SIZE * (joint - 1)
        row: dict[str, Any] = {"link": link, "mass": _value(result, first)}
        if fit.theta[first] > 0.0:
            for i, axis in enumerate("xyz"):
                centre, before = (theta[first + 1 + i] / theta[first] for theta in (fit.theta, nominal))
                slope = np.zeros(len(fit.theta))
                slope[first], slope[first + 1 + i] = -centre / fit.theta[first], 1.0 / fit.theta[first]
                row[f"com_{axis}"] = _judged(centre, before, slope @ fit.covariance @ slope, slope @ fit.before @ slope)
        rows.append(row)
    return rows


def _value(result: Identified, at: int) -> Value:
    fit, nominal = result.fit, result.prior.parameters(result.prior.start)[0]
    return _judged(fit.theta[at], nominal[at], fit.covariance[at, at], fit.before[at, at])


def _judged(value: float, nominal: float, variance: Any, before: Any) -> Value:
    """Return a parameter from its variances after and before the fit; `before` is 0 if it was not fitted."""
    sd = float(np.sqrt(variance)) if before > 0.0 else None
    return Value(float(value), sd, float(nominal), bool(variance < KNOWN**2 * before))


def total_mass(result: Identified) -> Value:
    """Return the mass of all moving bodies [kg]."""
    fit, masses = result.fit, result.prior.masses
    nominal = float(masses @ result.prior.parameters(result.prior.start)[0])
    return _judged(float(masses @ fit.theta), nominal, masses @ fit.covariance @ masses, masses @ fit.before @ masses)


def description(result: Identified, robot: Robot, order: str | None) -> tuple[Description, dict[str, Any]]:
    """Return the robot file of an identified robot, and the inertias of its URDF by link.

    Args:
        result: The identification.
        robot: The nominal robot.
        order: Name of the machine's joint order in the runs; None for the model's order.
    """
    old, rows = robot.description, drives(result)
    figures = old.actuators or ActuatorFigures()
    tables = dict(zip(("armature_kg_m2", "damping_nm_s_rad", "friction_nm"), DRIVE, strict=False))
    figures = structs.replace(
        figures, **{table: {row["joint"]: row[name].value for row in rows} for table, name in tables.items()}
    )
    nominal = MachineOrder(joints=result.system.actuated_names)
    machine = start = old.orders.get(order or "", nominal)
    if wiring_errors(result):
        machine = _rewired(machine, result)
    offset = {row["joint"]: row["offset"].value + machine.offset_rad.get(row["joint"], 0.0) for row in rows}
    scale = {row["joint"]: row["scale"].value * machine.torque_scale.get(row["joint"], 1.0) for row in rows}
    orders = old.orders
    if any(offset.values()) or set(scale.values()) != {1.0} or machine != start:
        orders = {**orders, order or ORDER: structs.replace(machine, offset_rad=offset, torque_scale=scale)}
    bodies = result.fit.theta[: SIZE * len(result.prior.root)].reshape(-1, SIZE)
    inertias = {
        link: pin.Inertia.FromDynamicParameters(bodies[joint - 1])
        for link, joint in moved_links(result.system.model).items()
        if bodies[joint - 1, 0] > 0.0
    }
    return structs.replace(old, actuators=figures, orders=orders), inertias


def wiring_errors(result: Identified) -> list[str]:
    """Return the errors of order and signs of the joints, in words."""
    return [] if result.wiring is None else list(words(result.wiring.wiring, result.system.actuated_names))


def _rewired(machine: MachineOrder, result: Identified) -> MachineOrder:
    """Return a machine's order with the identified order and signs of its joints."""
    assert result.wiring is not None
    names, wiring = result.system.actuated_names, result.wiring.wiring
    # the machine's joint that was recorded as `old` is `new`
    pairs = [(names[at], new) for new, at in zip(names, wiring.source, strict=True)]
    of, sign = dict(pairs), dict(zip(names, wiring.turn, strict=True))
    turned = {new for old, new in pairs if (old in machine.turned) != (sign[new] < 0.0)}
    torque = dict(zip(names, wiring.torque, strict=True))
    return structs.replace(
        machine,
        joints=tuple(of[name] for name in machine.joints),
        turned=tuple(name for name in names if name in turned),
        offset_rad={new: float(sign[new]) * machine.offset_rad.get(old, 0.0) for old, new in pairs},
        torque_scale={new: float(torque[new]) * machine.torque_scale.get(old, 1.0) for old, new in pairs},
    )


def record(out: Path, config: IdentifyConfig, result: Identified) -> dict[str, Any]:
    """Write the record of an identification into the empty folder `out`; return its metrics."""
    u, mass = result.system.n_unactuated, total_mass(result)
    rows = drives(result)
    findings = [
        Finding("blocks", len(result.before), note=f"judged blocks of {1e3 * BLOCK_S:.0f} ms, not used by the fit"),
        Finding("mass_kg", mass.value),
        Finding("mass_nominal_kg", mass.nominal),
    ]
    if mass.sd is not None:
        findings.append(Finding("mass_sd_kg", mass.sd))
    if result.offsets is not None:
        findings += [Finding(f"feet_{when}_m", getattr(result.offsets, f"{when}_m")) for when in ("before", "after")]
    for when, missing in (("before", result.before), ("after", result.after)):
        if u:
            findings.append(Finding(f"force_{when}_n", _rms(missing[:, :3]), note="missing force on the base"))
        findings.append(Finding(f"torque_{when}_nm", _rms(missing[:, u:]), note="missing torque of a joint"))
    unknown = [f"{row['joint']} {name}" for row in rows for name, value in row.items() if _unknown(value)]
    unknown += [f"{row['link']} {name}" for row in links(result) for name, value in row.items() if _unknown(value)]
    wires = result.wiring
    misfit = {"before": _rms_each(result.before[:, u:]), "after": _rms_each(result.after[:, u:])}
    extra = {
        "experiment": "identify",
        "drives": msgspec.to_builtins(rows),
        "links": msgspec.to_builtins(links(result)),
        "unknown": unknown,
        "wiring": None if wires is None else {"errors": wiring_errors(result), "unsure": wires.unsure},
        "misfit_nm": {when: each.tolist() for when, each in misfit.items()},
    }
    series = {"before": Series(result.before, ""), "after": Series(result.after, "")}
    results = Results(findings=findings, series=series, drawings=[_drawing(result, misfit)], extra=extra)
    return save(out, "identify", config, results) | {"out": str(out)}


def _unknown(value: Any) -> bool:
    """True for a fitted parameter that the logs do not determine."""
    return isinstance(value, Value) and value.sd is not None and not value.known


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def _rms_each(values: Array) -> Array:
    return np.sqrt(np.mean(np.square(values), axis=0))


def _drawing(result: Identified, misfit: dict[str, Array]) -> Drawing:
    """Draw the rms of the missing torques of each joint."""
    places = np.arange(result.system.n_actuated)
    with axes(size=(7.0, 3.5)) as plot:
        for shift, (when, each) in zip((-0.2, 0.2), misfit.items(), strict=True):
            plot.bar(places + shift, each, width=0.4, label=when)
        plot.set_xticks(places, result.system.actuated_names, rotation=60, ha="right")
        plot.set_ylabel("missing torque, rms [N m]")
        plot.legend()
    return Drawing("Missing torques in the held-out seconds", plot.figure)
