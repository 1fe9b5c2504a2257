"""Report all problems of a robot's description."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median_low
from typing import Any

import numpy as np

from idcontrol.dynamics.system import System
from idcontrol.errors import InputError, UnknownName
from idcontrol.planners.legs import stretched
from idcontrol.robots import joints, locate, schema, standing, urdf
from idcontrol.robots.robot import ACTUATORS, Robot, entry, foot_centres, foot_gaps, legs, table_problems, urdf_of
from idcontrol.robots.wording import LONGEST_LINE, shown
from idcontrol.types import Array

STANDING_GAP = 1e-3
"""Largest deviation of a standing foot's height from most of the feet, and largest depth below the ground [m]."""

ABOUT = re.compile(r"(?:line (?P<at>\d+): (?P<what>link|joint) (?P<name>.*?): )?(?P<said>.*)")
"""Splits a line about a URDF into its statement and its link or joint."""

MOST_NAMES = 12
"""Maximum number of names in a line about several links or joints."""
MOST_GUESSES = 3
"""Maximum number of suggestions for a frame that does not exist."""

LEG_JOINTS = 3
"""Number of actuated joints of a leg that the gait requires: with three, a leg can place its foot anywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of a check.

    Attributes:
        robot: Name of the robot; the argument of the check if the robot file is unusable.
        problems: One line per problem: what, where, how to fix it.
        warnings: One line per warning; the robot can run despite it.
        summary: Mass, height, joints with their limits, feet; plain numbers and text. Empty if there are problems.
        needs: The command that installs the URDF, if it is missing.
    """

    robot: str
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    summary: dict[str, Any] = field(default_factory=dict)
    needs: str = ""

    @property
    def fit(self) -> bool:
        """True if the check found no problem, so simulations can use the robot."""
        return not self.problems


def check(name_or_path: str | Path) -> Report:
    """Check a robot's file and URDF; unreadable files are reported as problems, never as exceptions.

    Args:
        name_or_path: Name of a robot, or path of a robot file, of its folder or of a URDF, as for
            `idcontrol.robots.load`.
    """
    report = _check(name_or_path)
    problems, warnings = (
        tuple(shown(line, LONGEST_LINE) for line in lines) for lines in (report.problems, report.warnings)
    )
    return replace(report, robot=shown(report.robot), problems=problems, warnings=warnings)


def _check(name_or_path: str | Path) -> Report:
    try:
        path = locate.robot_file(name_or_path)
        raw = schema.read(path)
    except (InputError, UnknownName) as error:
        return Report(robot=str(name_or_path), problems=(str(error),))
    description, misfits = schema.parse(raw)
    name = str(name_or_path) if description is None else description.name
    problems = [f"{path.name}: {line}" for line in misfits]
    named = raw.get("urdf")
    if not isinstance(named, str) or not named:  # the schema has already reported it
        return Report(robot=name, problems=tuple(problems))
    try:
        file = urdf_of(named, path, name_or_path)
    except InputError as error:
        needs = error.remedy if isinstance(error, locate.NotInstalled) else ""
        return Report(robot=name, problems=(*problems, str(error)), needs=needs)

    findings = urdf.inspect(file, free_flyer=raw.get("base") == "free-flyer")
    problems += [f"{file.name}: {line}" for line in _folded((*findings.problems, *findings.geometry))]
    remarks = {} if description is None else description.remarks
    answered = [_answered(line, remarks) for line in findings.warnings]
    warnings = tuple(f"{file.name}: {line}" for line in _folded(answered))
    tables = table_problems(raw, findings.joints) if findings.frames else []
    frames, limits = _frame_problems(raw, findings), _limit_problems(raw, findings)
    if description is None or findings.problems:
        problems += [f"{path.name}: {line}" for line in (*tables, *frames, *limits)]
        return Report(robot=name, problems=tuple(problems), warnings=warnings)
    try:
        system = System.from_urdf(file, free_flyer=description.base == "free-flyer", effort_limit=np.inf)
    except InputError as error:
        return Report(robot=name, problems=(*problems, str(error)), warnings=warnings)

    robot = Robot(name=name, path=path, description=description, urdf=file)
    contradicts = bool(misfits)
    misfits = [*tables, *(frames or _foot_problems(robot, system))]
    poses = [] if misfits else _standing_problems(robot, system)
    if description.base == "free-flyer" and robot.spheres and not (contradicts or misfits or poses or limits):
        poses += standing.problems(robot, system)
    problems += [f"{path.name}: {line}" for line in (*misfits, *limits, *poses)]
    if not misfits:
        warnings += tuple(f"{file.name}: {line}" for line in standing.implausible_inertias(robot, system))
        warnings += tuple(f"{path.name}: {line}" for line in _sunk_feet(robot, system))
    summary = {} if problems else _summary(robot, system)
    return Report(robot=name, problems=tuple(problems), warnings=warnings, summary=summary)


def _answered(warning: str, remarks: Mapping[str, str]) -> str:
    """Return a warning, followed by the robot file's remark about it, if any."""
    words = [word.rstrip(":;,") for word in warning.split()]
    said = next((text for pattern, text in remarks.items() if fnmatch.filter(words, pattern)), None)
    return warning if said is None else f"{warning}; {said}"


def _folded(lines: Sequence[str]) -> list[str]:
    """Merge lines with the same statement about several links or joints into one line that names all of them."""
    alike: dict[tuple[str | None, str], list[re.Match[str]]] = {}
    for about in filter(None, map(ABOUT.fullmatch, lines)):
        alike.setdefault((about["what"], about["said"]), []).append(about)
    return [
        same[0].string if len(same) == 1 else f"lines {_joined(same, 'at')}: {what}s {_joined(same, 'name')}: {said}"
        for (what, said), same in alike.items()
    ]


def _joined(findings: Sequence[re.Match[str]], part: str) -> str:
    more = f" and {len(findings) - MOST_NAMES} more" if len(findings) > MOST_NAMES else ""
    return ", ".join(str(about[part]) for about in findings[:MOST_NAMES]) + more


def _frame_problems(raw: Mapping[str, Any], findings: urdf.Findings) -> list[str]:
    """Return one line for each foot, sole, hand or support whose frame is missing in the URDF, or ambiguous."""
    spheres = [
        (where, sphere.get("name"), sphere.get("frame"))
        for where in ("feet", "soles", "hands", "lying.supports")
        for listed in (entry(raw, where),)
        for sphere in (listed if isinstance(listed, list) else ())
        if isinstance(sphere, Mapping)
    ]
    frames = [frame for _, _, frame in spheres]
    lines = []
    for where, name, frame in spheres:
        if not isinstance(name, str) or not isinstance(frame, str) or not findings.frames:
            continue
        if frame not in findings.frames:
            # every foot needs its own frame, so do not suggest frames of other feet; supports may share a frame
            taken = frames if where == "feet" else ()
            known = [known for known in findings.frames if known not in taken] or findings.frames
            suggestions = difflib.get_close_matches(frame, known, n=MOST_GUESSES, cutoff=0.0)
            lines.append(f"{where}.{name}.frame: no frame {frame!r} in the URDF; the nearest: {', '.join(suggestions)}")
        elif findings.frames.count(frame) > 1 and not findings.problems:
            lines.append(f"{where}.{name}.frame: {frame!r} names a joint and a link; rename one in the URDF")
    return lines


def _limit_problems(raw: Mapping[str, Any], findings: urdf.Findings) -> list[str]:
    """Return one line for each joint whose home is beyond its limits."""

    def value(where: str, name: str, default: float) -> float:
        table = entry(raw, where)
        values = [table[key] for key in joints.keys(table, name)] if isinstance(table, Mapping) else []
        number = len(values) == 1 and isinstance(values[0], int | float)
        return values[0] if number else np.nan if values else default

    lines = []
    for name, (low, high) in ({} if findings.problems else findings.joints).items():
        angle = value("home.joints_rad", name, 0.0)
        low, high = max(low, value("limits.lower_rad", name, low)), min(high, value("limits.upper_rad", name, high))
        if abs(angle) <= schema.LARGEST and not low <= angle <= high:
            lines.append(f"home.joints_rad: {name} is {angle:g}, beyond its limits [{low:g}, {high:g}]; move it inside")
    return lines


def _foot_problems(robot: Robot, system: System) -> list[str]:
    findings = []
    walks = robot.description.gait is not None
    owner: dict[int, str] = {}
    for foot, leg in zip(robot.spheres, legs(robot, system), strict=True):
        shared = next((i for i in leg.tolist() if i in owner), None)
        slides = next(
            (system.actuated_names[i] for i in leg if not system.jacobian[3:, system.n_unactuated + i].any()), ""
        )
        endless = next((name for name in (system.actuated_names[i] for i in leg) if _coordinates(system, name) > 1), "")
        if not leg.size:
            findings.append(f"feet.{foot.name}.frame: no joint moves {foot.frame}; name a frame at the end of a leg")
        elif walks and shared is not None:
            findings.append(
                f"feet.{foot.name}.frame: joint {system.actuated_names[shared]} moves foot {owner[shared]}, too; "
                "the gait needs a leg for each foot: name another frame, or leave [gait] out"
            )
        elif walks and endless:
            findings.append(
                f"feet.{foot.name}.frame: joint {endless} of its leg is continuous; make it revolute with limits in "
                "the URDF, or leave [gait] out"
            )
        elif walks and slides:
            findings.append(
                f"feet.{foot.name}.frame: joint {slides} of its leg slides, the gait needs legs that turn; name "
                "another frame, or leave [gait] out"
            )
        elif walks and leg.size != LEG_JOINTS:
            findings.append(
                f"feet.{foot.name}.frame: {leg.size} actuated joints lead to {foot.frame}, the gait needs "
                f"{LEG_JOINTS}; name another frame, or leave [gait] out"
            )
        owner |= dict.fromkeys(leg.tolist(), foot.name)
    return findings


def _coordinates(system: System, name: str) -> int:
    """Return the number of coordinates of a joint: two (cosine and sine) for a continuous joint, else one."""
    return int(system.model.nqs[system.model.getJointId(name)])


def _standing_problems(robot: Robot, system: System) -> list[str]:
    findings = []
    q = robot.standing_state(system).q
    gaps = foot_gaps(robot, system, q).tolist()
    most = median_low(gaps) if gaps and robot.description.base == "free-flyer" else None
    if most is not None:
        findings += _uneven(robot, np.array(gaps) - most)
    system.update(q, np.zeros(system.n_velocities))
    u = system.n_unactuated
    if u and not np.linalg.eigvalsh(system.M[:u, :u])[0] > 0.0:
        findings.append(
            "home.joints_rad: the inertia of the unactuated part is not positive there; correct the inertias"
        )
    if robot.description.gait is not None:
        # columns are twists about the origin of the world
        feet = zip(robot.spheres, foot_centres(robot, system, q), legs(robot, system), strict=True)
        for foot, centre, leg in feet:
            along, about = np.split(system.jacobian[:, u + leg], 2)
            if fault := stretched(along + np.cross(about, centre, axis=0), foot.name):
                findings.append(f"home.joints_rad: {fault}")
    return findings


def _uneven(robot: Robot, off: Array) -> list[str]:
    """Return one line for each foot or sole that is not as high as most of the feet.

    Args:
        robot: The robot.
        off: Height of each of `Robot.spheres` above most of them, shape (n,) [m].
    """
    soles = {sole.name for sole in robot.description.soles}
    lines = []
    for name in robot.patches:
        corners = [(gap, foot) for gap, foot in zip(off.tolist(), robot.spheres, strict=True) if foot.name == name]
        gap, foot = max(corners, key=lambda corner: abs(corner[0]))
        what, keys = f"foot {name}", f"radius_m = {foot.radius_m:g} or its offset_m"
        if name in soles:
            what, keys = f"a corner of sole {name}", "corners_m"
        if abs(gap) > STANDING_GAP:
            lines.append(
                f"home.joints_rad: {what} is {1e3 * abs(gap):.1f} mm {'above' if gap > 0.0 else 'below'} most of the "
                f"feet; change the angles of its leg, or correct its {keys}"
            )
    return lines


def _sunk_feet(robot: Robot, system: System) -> list[str]:
    """Return one warning for all feet below the ground at home; only a robot with a fixed base can have such feet."""
    gaps = foot_gaps(robot, system, robot.standing_state(system).q)
    low = [foot.name for foot, gap in zip(robot.spheres, gaps, strict=True) if gap < -STANDING_GAP]
    if not low:
        return []
    return [
        f"home.joints_rad: feet below the ground z = 0 by up to {-1e3 * gaps.min():.0f} mm: {', '.join(low)}; put a "
        'root link below the base in the URDF, or let its base be "free-flyer"'
    ]


def _summary(robot: Robot, system: System) -> dict[str, Any]:
    """Return mass, height, joints and feet of a valid robot, as plain data for JSON."""
    names = system.actuated_names
    limits, (kp, kd) = robot.joint_limits(system, names), robot.torque_gains(names)
    columns = {
        "torque_nm": robot.torque_limit(names),
        "velocity_rad_s": robot.velocity_limit(names),
        "lower_rad": limits.lower,
        "upper_rad": limits.upper,
        "home_rad": robot.home_joints(names),
        "kp_nm_rad": kp,
        "kd_nm_s_rad": kd,
    }
    q = robot.standing_state(system).q
    floating = robot.description.base == "free-flyer"
    feet = list(zip(robot.spheres, foot_centres(robot, system, q), legs(robot, system), strict=True))
    by_foot = {name: [corner for corner in feet if corner[0].name == name] for name in robot.patches}
    system.update(q, np.zeros(system.n_velocities))
    return {
        "file": str(robot.path),
        "urdf": str(robot.urdf),
        "base": robot.description.base,
        "gait": robot.description.gait is not None,
        "mass_kg": system.mass,
        "height_m": float(q[2]) if floating else 0.0,
        "com_m": system.com(q).tolist(),
        **({"standing_torque_share": _finite(standing.torque_share(robot, system))} if floating and feet else {}),
        "joints": _rows(names, columns),
        **_actuators(robot, names),
        "feet": [
            {
                "foot": name,
                "frame": corners[0][0].frame,
                **({"corners": len(corners)} if len(corners) > 1 else {}),
                "radius_m": corners[0][0].radius_m,
                "centre_m": np.mean([centre for _, centre, _ in corners], axis=0).tolist(),
                "joints": [names[i] for i in corners[0][2]],
            }
            for name, corners in by_foot.items()
        ],
    }


def _actuators(robot: Robot, names: Sequence[str]) -> dict[str, Any]:
    """Return a table of the actuators in the robot file; empty without any."""
    if robot.description.actuators is None:
        return {}
    columns = zip(ACTUATORS, robot.actuators(names), strict=True)
    return {"actuators": _rows(names, {where.removeprefix("actuators."): values for where, values in columns})}


def _rows(names: Sequence[str], columns: Mapping[str, Array]) -> list[dict[str, Any]]:
    """Return a table with one row per joint."""
    return [
        {"joint": name} | {key: _finite(column[i]) for key, column in columns.items()} for i, name in enumerate(names)
    ]


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
