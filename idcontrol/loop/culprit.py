"""The joint and the value behind a fault, from the record of the tick in which it occurred."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from idcontrol.loop.safety import Fault
from idcontrol.types import Array

PARTS: Final = ("the base's position or velocity", "the base's orientation or gyroscope", "the accelerometer")
"""What `Judge.doubted` means after the joints."""
DOUBTS: Final = (Fault.ENCODER, Fault.TORQUE, Fault.SLIP)
"""Faults of the joint in the channel `doubted`, which belongs to the first one of a row."""


def culprit(fault: Fault, row: Mapping[str, Array], errors: Array, names: Sequence[str]) -> str:
    """Return the value that caused a fault, after the name of its joint if it has one, e.g. ``knee: 81.5 °C``.

    For `Fault.MOTION`, these are all joints that may be the faulty one. The text is "" if no value belongs to this kind
    of fault, or if the values of all joints are infinite or NaN.

    Args:
        fault: One fault.
        row: Channels of a tick with this fault (`idcontrol.loop.telemetry.channels`).
        errors: Joints' reference positions minus their positions in `row` (`System.position_errors`), shape (a,)
            [rad or m].
        names: Names of the a joints.
    """
    if fault is Fault.VOLTAGE:
        return f"{float(row['voltage']):.3g} V"
    if fault is Fault.TIPPED and "base_tilt" in row:
        return f"{np.degrees(float(row['base_tilt'])):.0f}°"
    if fault in DOUBTS:
        faults, j = int(row["faults"]), int(row["doubted"])
        if j < 0 or fault is not next(doubt for doubt in DOUBTS if doubt & faults):
            return ""
        applied = f": {float(row['tau_applied'][j]):.3g} N m applied" if fault is Fault.TORQUE else ""
        return (*names, *PARTS)[j] + applied
    if fault is Fault.MOTION:
        off = np.abs(row["torque_off"])
        return ", or ".join(f"{names[j]}: {off[j]:.3g} N m off" for j in np.flatnonzero(off).tolist())
    if fault is Fault.HOT:
        size, said = row["temperature"], "{0:.1f} °C".format
    elif fault is Fault.DRIVE:
        size, said = np.abs(row["drive_error"]), "error {0:.0f}".format
    elif fault is Fault.WEAK:
        size, said = row["torque_lost"], "{0:.0%} of the torque missing".format
    elif fault is Fault.CUT:
        size, said = row["cut_ticks"], "{0:.0f} ticks in a row".format
    elif fault is Fault.ASTRAY:
        size, said = np.abs(errors), "{0:.3g} rad off".format
    else:
        return ""
    if not np.isfinite(size).any():
        return ""
    j = int(np.nanargmax(size))
    return f"{names[j]}: {said(float(size[j]))}"
