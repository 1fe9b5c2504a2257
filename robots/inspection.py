"""Lists everything that is wrong with a robot's description, or states that it is fit to run."""

from __future__ import annotations

import difflib
import fnmatch
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from idcontrol.errors import InputError, UnknownName
from idcontrol.robots import locate, schema, urdf
from idcontrol.robots.robot import Robot, foot_centres, foot_gaps, legs, urdf_of
from idcontrol.robots.wording import LONGEST_LINE, shown
from idcontrol.system import System, position_limits

STANDING_GAP = 1e-3
"""Feet further above the ground than this do not count as standing [m] (planner.md, section 7)."""

LEG_JOINTS = 3
"""Number of actuated joints with which a leg can put its foot anywhere, as the gait needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of a check.

    Attributes:
        robot: Name of the robot, or what was asked for.
        problems: One line for each thing that must be mended: what, where, how.
        warnings: One line for each thing that somebody should look at; the robot runs.
        summary: Mass, height, joints with their limits, feet; plain numbers and text. Empty where problems forbid it.
    """

    robot: str
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    summary: dict[str, Any] = field(default_factory=dict)

    @property
    def fit(self) -> bool:
        """Whether the robot can run."""
        return not self.problems


def check(name_or_path: str | Path) -> Report:
    """Everything that is wrong with a robot's file and URDF; what cannot be read is a problem too, never an exception.

    Args:
        name_or_path: Name of a robot, or path of a robot file, of its folder or of a URDF, as `idcontrol.robots.load`
            takes it.
    """
    report = _check(name_or_path)
    problems, warnings = (
        tuple(shown(line, LONGEST_LINE) for line in lines) for lines in (report.problems, report.warnings)
    )
    return replace(report, robot=shown(report.robot), problems=problems, warnings=warnings)


def _check(name_or_path: str | Path) -> Report:
    try:
        path = locate.robot_file(name_or_path)
        description, problems = schema.parse(path)
    except (InputError, UnknownName) as error:
        return Report(robot=str(name_or_path), problems=(str(error),))
    problems = [f"{path.name}: {line}" for line in problems]
    if description is None:
        return Report(robot=str(name_or_path), problems=(*problems, *_urdf_problems(path)))
    try:
        robot = Robot(
            name=description.name, path=path, description=description, urdf=urdf_of(description, path, name_or_path)
        )
    except InputError as error:
        return Report(robot=description.name, problems=(*problems, str(error)))

    floating = description.base == "free-flyer"
    found = urdf.inspect(robot.urdf, free_flyer=floating)
    problems += [f"{robot.urdf.name}: {line}" for line in (*found.problems, *found.geometry)]
    warnings = tuple(f"{robot.urdf.name}: {_answered(line, description.remarks)}" for line in found.warnings)
    if found.problems:
        feet = ((foot.name, foot.frame) for foot in description.feet)
        problems += [f"{path.name}: {line}" for line in _unknown_frames(feet, found.frames)]
        return Report(robot=robot.name, problems=tuple(problems), warnings=warnings)
    try:
        system = System.from_urdf(robot.urdf, free_flyer=floating)
    except InputError as error:
        return Report(robot=robot.name, problems=(*problems, str(error)), warnings=warnings)

    misfits = [*robot.table_problems(system.actuated_names), *_foot_problems(robot, system)]
    if not misfits:
        misfits += _home_problems(robot, system)
    problems += [f"{path.name}: {line}" for line in misfits]
    summary = {} if problems else _summary(robot, system)
    return Report(robot=robot.name, problems=tuple(problems), warnings=warnings, summary=summary)


def _answered(warning: str, remarks: Mapping[str, str]) -> str:
    """A warning with the robot file's remark about what it names, if there is one."""
    words = [word.rstrip(":;,") for word in warning.split()]
    said = next((text for pattern, text in remarks.items() if fnmatch.filter(words, pattern)), None)
    return warning if said is None else f"{warning}; {said}"


def _urdf_problems(path: Path) -> list[str]:
    """Problems of the URDF that a robot file names, where the rest of that file cannot be used."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        named = locate.urdf_file(str(raw["urdf"]), path) if "urdf" in raw else None
    except (InputError, OSError, ValueError) as error:
        return [str(error)] if isinstance(error, InputError) else []
    if named is None:
        return []
    found = urdf.inspect(named, free_flyer=raw.get("base") == "free-flyer")
    feet = raw.get("feet")
    tables = [foot for foot in feet if isinstance(foot, Mapping)] if isinstance(feet, list) else []
    pairs = ((foot.get("name"), foot.get("frame")) for foot in tables)
    told = [(name, frame) for name, frame in pairs if isinstance(name, str) and isinstance(frame, str)]
    unknown = _unknown_frames(told, found.frames)
    return [
        *(f"{path.name}: {line}" for line in unknown),
        *(f"{named.name}: {line}" for line in (*found.problems, *found.geometry)),
    ]


def _unknown_frames(feet: Iterable[tuple[str, str]], frames: Sequence[str]) -> list[str]:
    """One line for each foot (name, frame) whose frame is none of `frames`; nothing where these are not known."""
    return [
        f"feet.{name}.frame: no frame {frame!r} in the URDF; the nearest is "
        f"{difflib.get_close_matches(frame, frames, n=1, cutoff=0.0)[0]}"
        for name, frame in feet
        if frames and frame not in frames
    ]


def _foot_problems(robot: Robot, system: System) -> list[str]:
    frames = [str(frame.name) for frame in system.model.frames][1:]
    feet = [(foot.name, foot.frame) for foot in robot.description.feet]
    found = _unknown_frames(feet, frames)
    for name, frame in feet:
        if frames.count(frame) > 1:
            found.append(f"feet.{name}.frame: {frame!r} names a joint and a link; rename one in the URDF")
    if found:
        return found
    walks = robot.description.gait is not None
    owner: dict[int, str] = {}
    for foot, leg in zip(robot.description.feet, legs(robot, system), strict=True):
        shared = next((i for i in leg.tolist() if i in owner), None)
        endless = next((name for name in (system.actuated_names[i] for i in leg) if _coordinates(system, name) > 1), "")
        if not leg.size:
            found.append(f"feet.{foot.name}.frame: no joint moves {foot.frame}; name a frame at the end of a leg")
        elif walks and shared is not None:
            found.append(
                f"feet.{foot.name}.frame: joint {system.actuated_names[shared]} moves foot {owner[shared]}, too; "
                "the gait needs a leg for each foot: name another frame, or leave [gait] out"
            )
        elif walks and endless:
            found.append(
                f"feet.{foot.name}.frame: joint {endless} of its leg is continuous; make it revolute with limits in "
                "the URDF, or leave [gait] out"
            )
        elif walks and leg.size != LEG_JOINTS:
            found.append(
                f"feet.{foot.name}.frame: {leg.size} actuated joints lead to {foot.frame}, the gait needs "
                f"{LEG_JOINTS}; name another frame, or leave [gait] out"
            )
        owner |= dict.fromkeys(leg.tolist(), foot.name)
    return found


def _coordinates(system: System, name: str) -> int:
    """Number of coordinates of a joint: two (cosine and sine) for a continuous one, else one."""
    return int(system.model.nqs[system.model.getJointId(name)])


def _home_problems(robot: Robot, system: System) -> list[str]:
    found = []
    home = robot.home_joints(system.actuated_names)
    lower, upper = position_limits(system.model, system.actuated_names)
    for name, angle, low, high in zip(system.actuated_names, home, lower, upper, strict=True):
        if not low <= angle <= high:
            found.append(f"home.joints_rad: {name} is {angle:g}, beyond its limits [{low:g}, {high:g}]; move it inside")
    q = robot.standing_state(system).q
    for foot, gap in zip(robot.description.feet, foot_gaps(robot, system, q), strict=True):
        if robot.description.base == "free-flyer" and gap > STANDING_GAP:
            found.append(
                f"home.joints_rad: foot {foot.name} is {1e3 * gap:.1f} mm above the ground when the lowest foot "
                "touches; change the angles of its leg"
            )
    system.update(q, np.zeros(system.n_velocities))
    u = system.n_unactuated
    if u and not np.linalg.eigvalsh(system.M[:u, :u])[0] > 0.0:
        found.append("home.joints_rad: the inertia of the unactuated part is not positive there; correct the inertias")
    return found


def _summary(robot: Robot, system: System) -> dict[str, Any]:
    """Mass, height, joints and feet of a robot that is fit to run, as plain data for JSON."""
    names = system.actuated_names
    lower, upper = position_limits(system.model, system.actuated_names)
    kp, kd = robot.torque_gains(names)
    columns = {
        "torque_nm": robot.torque_limit(names),
        "velocity_rad_s": robot.velocity_limit(names),
        "lower_rad": lower,
        "upper_rad": upper,
        "home_rad": robot.home_joints(names),
        "kp_nm_rad": kp,
        "kd_nm_s_rad": kd,
    }
    q = robot.standing_state(system).q
    floating = robot.description.base == "free-flyer"
    feet = zip(robot.description.feet, foot_centres(robot, system, q), legs(robot, system), strict=True)
    return {
        "file": str(robot.path),
        "urdf": str(robot.urdf),
        "base": robot.description.base,
        "mass_kg": system.mass,
        "height_m": float(q[2]) if floating else 0.0,
        "com_m": system.com(q).tolist(),
        "joints": [
            {"joint": name} | {key: _finite(column[i]) for key, column in columns.items()}
            for i, name in enumerate(names)
        ],
        "feet": [
            {
                "foot": foot.name,
                "frame": foot.frame,
                "radius_m": foot.radius_m,
                "centre_m": centre.tolist(),
                "joints": [names[i] for i in leg],
            }
            for foot, centre, leg in feet
        ],
    }


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
