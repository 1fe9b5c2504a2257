"""The format of a robot file: TOML parsed into frozen structs, with units in the names of its keys.

Per-joint tables map a joint's name, or a pattern with ``*``, to a number; the most specific key applies
(`idcontrol.robots.joints`).
"""

from __future__ import annotations

import difflib
import functools
import math
import stat
import tomllib
import typing
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal

import msgspec

from idcontrol.errors import InputError
from idcontrol.robots.wording import LONGEST_LINE, shown

MOST_BYTES = 1 << 20
"""Largest size of a robot file [bytes]."""
MOST_DOTS = 1000
"""Maximum number of dots in a line: the time to parse a dotted key grows with the square of its number of parts."""
LARGEST = 1e9
"""Largest number in a robot file: computations with larger numbers soon overflow."""

Positive = Annotated[float, msgspec.Meta(gt=0)]
NotNegative = Annotated[float, msgspec.Meta(ge=0)]
Phase = Annotated[float, msgspec.Meta(ge=0, lt=1)]
Name = Annotated[str, msgspec.Meta(min_length=1)]


class Home(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The standing pose of the robot; the height of the base follows from the feet.

    Attributes:
        joints_rad: Angle of each joint [rad], or length [m] of a sliding joint; joints without an entry are at zero.
    """

    joints_rad: dict[str, float] = {}


class Foot(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A contact sphere: a foot on the ground, or a fingertip on a held body.

    Attributes:
        name: Name of the foot, for example ``"LF"``; the gait refers to it.
        frame: Link or frame of the URDF that carries it.
        radius_m: Radius [m].
        offset_m: Centre of the sphere in that frame [m].
    """

    name: Name
    frame: Name
    radius_m: Positive
    offset_m: tuple[float, float, float] = (0.0, 0.0, 0.0)


class Sole(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A flat sole: its corners may touch the ground, so it tips over its edges and resists twisting.

    Attributes:
        name: Name of the foot.
        frame: Link or frame of the URDF that carries it.
        corners_m: Corners in that frame [m]; three or more that are not collinear.
        radius_m: Radius of the sphere at each corner [m]; 0 for sharp corners.
    """

    name: Name
    frame: Name
    corners_m: Annotated[tuple[tuple[float, float, float], ...], msgspec.Meta(min_length=3)]
    radius_m: NotNegative = 0.0


class Lying(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Lying pose of the robot: level, with its feet on the ground at its sides; the angles of its legs are computed.

    Attributes:
        supports: Spheres under its body that carry it.
        feet_out_m: Sideways distance of the feet from their standing position, outwards [m].
    """

    supports: Annotated[tuple[Foot, ...], msgspec.Meta(min_length=1)]
    feet_out_m: NotNegative = 0.0


class MotorLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of the motors; every actuated joint needs a torque and a speed.

    Attributes:
        torque_nm: Largest torque by joint [N m], or force [N] of a sliding joint.
        velocity_rad_s: Largest speed by joint [rad/s], or [m/s] of a sliding joint.
        torque_rate_nm_s: Largest rate of the torque by joint [N m/s], or of the force of a sliding joint [N/s]; no
            limit without an entry.
        no_load_rad_s: Speed by joint at which the motor no longer accelerates [rad/s], or [m/s] of a sliding joint:
            from `velocity_rad_s` on, the accelerating torque falls linearly to zero at this speed. Joints without an
            entry have full torque at all speeds.
        lower_rad: Lowest position by joint [rad], or [m] of a sliding joint, where it is above the URDF's: straight
            knees, for example, cannot lower the body.
        upper_rad: Highest position by joint [rad or m], where it is below the URDF's.
        temperature_c: Highest temperature of the drives [°C]; above it, `idcontrol loop` reports a fault.
        voltage_v: Lowest and highest supply voltage [V]; by default any.
    """

    torque_nm: dict[str, Positive]
    velocity_rad_s: dict[str, Positive]
    torque_rate_nm_s: dict[str, Positive] = {}
    no_load_rad_s: dict[str, Positive] = {}
    lower_rad: dict[str, float] = {}
    upper_rad: dict[str, float] = {}
    temperature_c: Positive = 80.0
    voltage_v: tuple[NotNegative, Positive] = (0.0, 1e6)


class ActuatorFigures(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Dynamics of actuators, for runs that request them.

    Attributes:
        armature_kg_m2: Rotor inertia reflected to the joint, i.e. times the square of the gear ratio, by joint [kg m²],
            or [kg] of a sliding joint; zero without an entry.
        damping_nm_s_rad: Viscous friction by joint [N m s/rad], or [N s/m]; zero without an entry.
        friction_nm: Dry friction by joint [N m], or [N]; zero without an entry.
        bandwidth_hz: Bandwidth of the torque by joint, a first-order lag [Hz]; no lag without an entry.
        delay_s: Delay of the torque by joint [s]; zero without an entry.
    """

    armature_kg_m2: dict[str, NotNegative] = {}
    damping_nm_s_rad: dict[str, NotNegative] = {}
    friction_nm: dict[str, NotNegative] = {}
    bandwidth_hz: dict[str, Positive] = {}
    delay_s: dict[str, NotNegative] = {}


class MachineOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Order, directions, zeros and torque scales of the joints in a machine's own interface, and its order of feet.

    Attributes:
        joints: Names of all actuated joints in the machine's order.
        turned: Joints whose positive direction is opposite in the machine's interface.
        offset_rad: Angle of each joint where the machine reports zero; zero without an entry.
        torque_scale: Torque of each joint where the machine commands or reports 1 N m; 1 without an entry. A negative
            scale describes logs: loops refuse it.
        feet: Names of all feet in the machine's order; empty for the order of the robot file.
    """

    joints: tuple[str, ...]
    turned: tuple[str, ...] = ()
    offset_rad: dict[str, float] = {}
    torque_scale: dict[str, float] = {}
    feet: tuple[str, ...] = ()


class AccelerationGains(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Error feedback of inverse dynamics, as accelerations; the same two gains apply to all joints (planner.md 6).

    Attributes:
        kp_1_s2: Stiffness [1/s²].
        kd_1_s: Damping [1/s].
    """

    kp_1_s2: NotNegative = 400.0
    kd_1_s: NotNegative = 40.0


class TorqueGains(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Error feedback of the plain PID; every actuated joint needs both gains.

    Attributes:
        kp_nm_rad: Stiffness by joint [N m/rad].
        kd_nm_s_rad: Damping by joint [N m s/rad]; at most half of the joint's inertia divided by the control period, as
            damping is explicit in time.
    """

    kp_nm_rad: dict[str, NotNegative]
    kd_nm_s_rad: dict[str, NotNegative]


class RobotGains(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Feedback gains of the two kinds of controllers, and damping of the brake.

    Attributes:
        torque: Gains of the plain PID, and of the drives while the robot stands up and lies down.
        acceleration: Gains of inverse dynamics.
        brake_nm_s_rad: Damping by joint of a machine that brakes after a fault [N m s/rad]; joints without an entry
            have the damping of `torque`.
    """

    torque: TorqueGains
    acceleration: AccelerationGains = AccelerationGains()
    brake_nm_s_rad: dict[str, Positive] = {}


class DefaultGait(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Default gait of the robot (planner.md, section 4).

    Attributes:
        period_s: Duration of one stride [s].
        duty: Share of the period that each foot spends in stance.
        touchdown: Fraction of the period at which each foot lands, by foot name.
        step_height_m: Height of a step above the ground [m].
        touchdown_speed_m_s: Planned downward speed of a foot at touchdown [m/s].
        speed_m_s: Walking speed [m/s].
        turn_rad_s: Turning rate [rad/s].
    """

    period_s: Positive
    duty: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    touchdown: dict[str, Phase]
    step_height_m: Positive
    touchdown_speed_m_s: NotNegative
    speed_m_s: Positive
    turn_rad_s: Positive


class CommandLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits on the change of the commanded base velocity (planner.md, section 3.1).

    Attributes:
        acceleration_m_s2: Largest acceleration along the ground [m/s²].
        turn_acceleration_rad_s2: Largest angular acceleration about the vertical [rad/s²].
    """

    acceleration_m_s2: Positive = 0.5
    turn_acceleration_rad_s2: Positive = 8.0


class Description(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One robot file.

    Attributes:
        schema: Version of this format.
        name: Name of the robot.
        summary: One line that describes it.
        urdf: Path relative to the robot file, or ``package:DISTRIBUTION/path`` inside an installed Python distribution.
        base: ``free-flyer`` if the root link floats, ``fixed`` if it is fixed to the world.
        home: The standing pose.
        lying: Lying pose before the robot stands up; None if it cannot lie.
        feet: Feet or fingertips: contact spheres, in the order of results.
        soles: Flat feet, numbered after `feet`.
        hands: Round ends of hands or tools that may press against a wall (`Robot.at_wall`).
        limits: Limits of the motors.
        actuators: Actuator dynamics; None if unknown.
        gains: Feedback gains.
        gait: Default gait; None for a robot that does not walk.
        command: Limits on the change of its commanded velocity.
        orders: Joint orders of interfaces to this robot, such as the maker's library, by name.
        remarks: Reasons why the URDF is right despite a warning of `check`, by name of the link or joint, or by pattern
            with ``*``.
    """

    schema: Literal[1]
    name: Name
    summary: str = ""
    urdf: Name
    base: Literal["free-flyer", "fixed"]
    limits: MotorLimits
    gains: RobotGains
    actuators: ActuatorFigures | None = None
    home: Home = Home()
    lying: Lying | None = None
    feet: tuple[Foot, ...] = ()
    soles: tuple[Sole, ...] = ()
    hands: tuple[Foot, ...] = ()
    gait: DefaultGait | None = None
    command: CommandLimits = CommandLimits()
    orders: dict[str, MachineOrder] = {}
    remarks: dict[str, str] = {}


def read(path: Path) -> dict[str, Any]:
    """Return the tables and values of a robot file.

    Raises:
        InputError: The file is unreadable or not TOML.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe or a device may have no end
            raise InputError(f"{path}: cannot be read: it is no ordinary file")
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise InputError(
                f"{path}: cannot be read: it is larger than {MOST_BYTES >> 20} MiB, which no robot file is"
            )
        text = data.decode("utf-8-sig")  # some editors write a byte-order mark
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"{path}: cannot be read: {reason}") from None
    for number, line in enumerate(text.split("\n"), start=1):
        if line.count(".") > MOST_DOTS:
            raise InputError(f"{path}: line {number}: more than {MOST_DOTS} dots; write a table over several lines")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a plain ValueError if a number has too many digits
        raise InputError(f"{path}: no valid TOML: {shown(str(error), LONGEST_LINE) or 'nested too deep'}") from None


def parse(raw: Mapping[str, Any]) -> tuple[Description | None, list[str]]:
    """Return the description in a robot file, and all problems in its text.

    Returns:
        The description, None if a value does not fit its key; and one line per problem, with its key.
    """
    misfits = _problems(raw, Description, "")
    problems = [shown(line, LONGEST_LINE) for line in (*misfits, *_inconsistencies(raw))]
    return None if misfits else msgspec.convert(raw, Description), problems


def _problems(raw: Any, struct: type[msgspec.Struct], where: str) -> list[str]:
    """Return the mistakes in a table for `struct`: unknown or missing keys, wrong types, values out of range."""
    if not isinstance(raw, Mapping):
        return [f"{where}: must be a table, as in [{where}]"]
    fields = _fields(struct)
    problems = []
    for key in raw:
        if key not in fields:
            suggestions = difflib.get_close_matches(key, fields, n=1)
            hint = f"did you mean {suggestions[0]}?" if suggestions else f"known here: {', '.join(fields)}"
            problems.append(f"{_dotted(where, key)}: unknown key; {hint}")
    for name, field in fields.items():
        at = _dotted(where, name)
        if name in raw:
            problems += _value_problems(raw[name], field.type, at)
        elif field.required:
            problems.append(f"{at}: is missing; add it")
    return problems


@functools.cache  # evaluating the annotations of all tables takes half of the time to read a robot file
def _fields(struct: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    return {field.name: field for field in msgspec.structs.fields(struct)}


def _value_problems(value: Any, kind: Any, at: str) -> list[str]:
    """Return the mistakes in one value; for tables and lists, each line names the exact entry."""
    if typing.get_origin(kind) in (UnionType, typing.Union):
        kind = next(option for option in typing.get_args(kind) if option is not type(None))
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _problems(value, kind, at)
    bare = typing.get_args(kind)[0] if typing.get_origin(kind) is Annotated else kind
    inner, within = typing.get_args(bare), list[str]()
    if typing.get_origin(bare) is dict and isinstance(value, Mapping):
        within = [line for key, entry in value.items() for line in _value_problems(entry, inner[1], _dotted(at, key))]
    elif typing.get_origin(bare) is tuple and inner[-1] is Ellipsis and isinstance(value, list):
        within = [line for i, entry in enumerate(value) for line in _value_problems(entry, inner[0], f"{at}[{i}]")]
    if within:
        return within
    if typing.get_origin(kind) is Literal and value not in inner:
        return [f"{at} = {_literal(value)}: must be {' or '.join(repr(choice) for choice in inner)}"]
    try:
        converted = msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        expected = str(error).split(" - at ")[0].replace("`", "")
        for ours, theirs in (("a number", "float"), ("text", "str"), ("a table", "object"), ("a list", "array")):
            expected = expected.replace(theirs, ours)
        return [f"{at} = {_literal(value)}: {expected[0].lower()}{expected[1:]}"]
    numbers = converted if isinstance(converted, tuple) else (converted,)
    if any(isinstance(number, float) and not math.isfinite(number) for number in numbers):
        return [f"{at} = {_literal(value)}: must be finite"]
    if any(isinstance(number, float) and abs(number) > LARGEST for number in numbers):
        return [f"{at} = {_literal(value)}: must not exceed {LARGEST:.0e}"]
    return []


def _inconsistencies(raw: Mapping[str, Any]) -> list[str]:
    """Return contradictions between keys whose values are valid by themselves."""
    feet, gait, limits = raw.get("feet", []), raw.get("gait"), raw.get("limits")
    named, problems = _names(feet), _repeated(raw)
    names = [name for name in named if isinstance(name, str)]
    volts = limits.get("voltage_v") if isinstance(limits, Mapping) else None
    match volts:
        case [int() | float() as low, int() | float() as high] if low >= high:
            problems.append(f"limits.voltage_v = {_literal(volts)}: the first must be below the second")
    if gait is not None and raw.get("base") == "fixed":
        problems.append(
            'gait: a robot with base = "fixed" cannot walk; let its base be "free-flyer", or leave [gait] out'
        )
    touchdown = gait.get("touchdown") if isinstance(gait, Mapping) else None
    if len(names) < len(named) or not isinstance(touchdown, Mapping):
        return problems
    if not names:
        problems.append("gait: a robot without feet cannot walk; add [[feet]] or leave [gait] out")
    problems += [f"gait.touchdown.{name}: no such foot; feet: {', '.join(names)}" for name in touchdown.keys() - names]
    problems += [
        f"gait.touchdown.{name}: is missing; every foot needs its phase" for name in names if name not in touchdown
    ]
    return problems


def _names(entries: Any) -> list[Any]:
    """Return the names in a list of tables; ``[None]`` if it is no list."""
    if not isinstance(entries, list):
        return [None]
    return [entry.get("name") for entry in entries if isinstance(entry, Mapping)]


def _repeated(raw: Mapping[str, Any]) -> list[str]:
    """Return a line for each name that feet, soles and hands share: each is a foot of `Reference.stance`."""
    seen, lines = set[str](), list[str]()
    for key in ("feet", "soles", "hands"):
        for name in _names(raw.get(key, [])):
            if isinstance(name, str) and name in seen:
                lines.append(f"{key}: the name {name} is given twice; rename one")
            elif isinstance(name, str):
                seen.add(name)
    return sorted(set(lines))


def _literal(value: Any) -> str:
    """Return a value as Python source, truncated."""
    try:
        return shown(repr(value))
    except ValueError:  # Python refuses to print numbers with thousands of digits
        return "a number of thousands of digits"


def _dotted(where: str, key: str) -> str:
    shown = key if key.replace("_", "").replace("-", "").isalnum() else f'"{key}"'
    return f"{where}.{shown}" if where else shown
