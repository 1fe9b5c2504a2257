"""Messages of Unitree's low-level interface: motor commands, and measurements of motors and IMU.

`LOW_CMD` and `LOW_STATE` are ``unitree_go::msg::dds_::LowCmd_`` and ``LowState_`` of Unitree's SDK2 (unitree_sdk2,
``idl/go2``), declared in ``unitree.idl``. Go2 and B2 use them over DDS (`idcontrol.adapters.bus`). A message is a NumPy
record with the layout of the SDK's C structures; the checksum is defined for this layout. The first 12 of the 20 motors
are hip, thigh and calf of the legs FR, FL, RR, RL, in this order (`unitree` in the robot file). Their angles are as in
the URDF.

The robot reports neither position nor linear velocity of its base, no checksum of its model, and no emergency stop. The
foot sensors are not used, since their values are not in newtons.
"""

import re
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np

from idcontrol.dynamics.system import System
from idcontrol.loop.wire import Format
from idcontrol.record.channels import views
from idcontrol.types import Array

Message = np.ndarray[Any, np.dtype[np.void]]
"""A record of `LOW_CMD` or `LOW_STATE`, shape ()."""

_NUMBERS = {"uint8": "u1", "uint16": "<u2", "int16": "<i2", "uint32": "<u4", "int32": "<i4", "float": "<f4"}


def _structures(idl: str) -> dict[str, np.dtype[np.void]]:
    """Return layouts of the structures in a text of OMG IDL by name, with the padding of C."""
    layouts: dict[str, np.dtype[np.void]] = {}
    for name, members in re.findall(r"struct (\w+) \{(.*?)\};", idl, re.DOTALL):
        fields = [
            (field, layouts.get(kind) or _NUMBERS[kind], (int(length),) if length else ())
            for kind, declared in re.findall(r"(\w+) (.*);", members)
            for field, length in re.findall(r"(\w+)(?:\[(\d+)\])?", declared)
        ]
        layouts[name] = np.dtype(fields, align=True)
    return layouts


STRUCTURES: Final = _structures((Path(__file__).parent / "unitree.idl").read_text(encoding="utf-8"))
"""Layouts of the structures of ``unitree.idl`` by their name in the SDK."""
LOW_CMD: Final = STRUCTURES["LowCmd_"]
LOW_STATE: Final = STRUCTURES["LowState_"]
NAMES: Final = {layout: name for name, layout in STRUCTURES.items()}
"""Names of the structures in the SDK."""
MODULE: Final = "unitree_go.msg.dds_"
"""Module of the structures in the SDK."""
LOW_CMD_TOPIC: Final = "rt/lowcmd"
LOW_STATE_TOPIC: Final = "rt/lowstate"
"""Topics of commands and of states in the SDK."""

OFF: Final = 0
"""Mode of a motor without torque."""
SERVO: Final = 1
"""Mode of a motor that follows its command."""
REMOTE: Final = np.dtype(
    {
        "names": ["buttons", "lx", "rx", "ry", "ly"],
        "formats": ["<u2", "<f4", "<f4", "<f4", "<f4"],
        "offsets": [2, 4, 8, 12, 20],
        "itemsize": 40,
    }
)
"""The joystick in `wireless_remote`: x to the right, y forward, -1 to 1; buttons are numbered as in the SDK."""

_REVERSED: Final = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def checksum(message: Message) -> int:
    """Compute the CRC-32 of a message for its field `crc`.

    It is CRC-32/MPEG-2 (polynomial 0x04C11DB7, all bits of the initial value set, no reflection) of all 32-bit words
    except the last; each word enters with its most significant byte first.
    """
    # zlib's CRC reflects the bits of each byte and of the result, and inverts the result
    words = np.frombuffer(message.tobytes()[:-4], dtype="<u4").astype(">u4")
    turned = zlib.crc32(words.tobytes().translate(_REVERSED)) ^ 0xFFFFFFFF
    return int(f"{turned:032b}"[::-1], 2)


def blank_command() -> Message:
    """Return a neutral command: a valid header, and all motors off."""
    message = np.zeros((), dtype=LOW_CMD)
    message["head"], message["level_flag"] = (0xFE, 0xEF), 0xFF
    return message


def write_command(message: Message, rows: Array, mode: int) -> None:
    """Write commands for the first a motors into `message`, and its checksum.

    Args:
        message: A record of `LOW_CMD`.
        rows: Rows tau, q, v, kp, kd, with joints in the robot's order, shape (5, a).
        mode: Mode of these motors: `SERVO` or `OFF`.
    """
    motors = message["motor_cmd"][: rows.shape[1]]
    motors["mode"] = mode
    for name, row in zip(("tau", "q", "dq", "kp", "kd"), rows, strict=True):
        motors[name] = row
    message["crc"] = checksum(message)


def read_command(message: Message, joints: int) -> Array:
    """Return the rows tau, q, v, kp, kd of a command, with joints in the robot's order, shape (5, joints).

    All values of a motor that is off are zero.
    """
    motors = message["motor_cmd"][:joints]
    rows = np.array([motors[name] for name in ("tau", "q", "dq", "kp", "kd")], dtype=np.float64)
    rows[:, motors["mode"] == OFF] = 0.0
    return rows


def read_state(message: Message, out: Array, wire: Format, system: System) -> None:
    """Convert a state message to the values of a state datagram (`idcontrol.loop.wire`), joints in the robot's order.

    Position and linear velocity of the base are zero, since the robot does not measure them. So are forces on feet.

    Args:
        message: A record of `LOW_STATE`.
        out: Result, shape (state_values,).
        wire: Sizes of the datagram.
        system: Provides the indices of joints in configuration and velocity.
    """
    imu, motors = message["imu_state"], message["motor_state"][: system.n_actuated]
    out[:] = 0.0
    of = views(out, wire.state)
    of["t"][...] = 1e-3 * message["tick"]
    of["q"][3:7], of["q"][system.joint_q] = np.roll(imu["quaternion"], -1), motors["q"]
    of["v"][3:6], of["v"][system.order[system.n_unactuated :]] = imu["gyroscope"], motors["dq"]
    of["tau_applied"][:], of["accelerometer"][:] = motors["tau_est"], imu["accelerometer"]
    health, remote = wire.health(out), message["wireless_remote"].view(REMOTE)[0]
    health.drive_error[:], health.temperature[:] = np.nan, motors["temperature"]
    health.supply[:] = message["power_v"], np.nan
    health.operator[:] = remote["ly"], -remote["lx"], -remote["rx"], remote["ry"], remote["buttons"]
    out[-2:] = wire.joints, np.nan
