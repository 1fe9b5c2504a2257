"""Findings and figure of a hand that presses against a wall (`idcontrol.scenes.press`)."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from idcontrol.experiments.findings import Drawing, Finding, axes
from idcontrol.scenes.press import RAMP_S, Press
from idcontrol.types import Array

BLOW_SHARE: Final = 1.0
"""Largest accepted force at touchdown, averaged over a control period, relative to the target."""
BLOW_S: Final = 0.05
"""Time before and after touchdown in which the force at touchdown is measured [s]."""
MEAN_SHARE, MAX_SHARE = 0.02, 0.2
"""Largest accepted mean and maximum of the force error, relative to the target, once the target has its full value. The
maximum occurs where friction reverses: the sensed friction then lags by up to twice μ times the force."""
RESTING_M: Final = 2e-3
"""Largest accepted motion of the hand after its slide [m]; with soft friction (`mujoco`) the hand still creeps."""


def findings(press: Press, arrays: Mapping[str, Array]) -> list[Finding]:
    """Measure force and motion of the hand; without contact the checked numbers are None, and their checks fail."""
    t, force = arrays["t"], arrays["force"][:, -1] @ press.normal
    after = t - press.touched_s  # NaN without contact, and all masks are empty
    target = float(np.nanmax(arrays["press_n"], initial=0.0))
    touching, pressed, rests = np.abs(after) < BLOW_S, after > RAMP_S, after > RAMP_S + press.slide_s
    error = np.abs(force - arrays["press_n"])[pressed]
    h = t[1] - t[0]  # a hand that rolls does not slip
    moved = np.linalg.norm(np.cumsum(h * arrays["slide"][rests, -1], axis=0), axis=1)

    def judged(key: str, values: Array, most: float, unit: str) -> Finding:
        value = float(values.max()) if values.size else None
        return Finding(key, value, holds=value is not None and value <= most, note=f"limit {most:g} {unit}")

    return [
        Finding("touched_s", None if np.isnan(press.touched_s) else press.touched_s),
        judged("touch_force_max_n", force[touching], BLOW_SHARE * target, "N"),
        judged("press_err_mean_n", error.mean(keepdims=True) if error.size else error, MEAN_SHARE * target, "N"),
        judged("press_err_max_n", error, MAX_SHARE * target, "N"),
        Finding("slid_m", h * arrays["slip"][pressed, -1].sum()),
        judged("rest_slip_m", moved, RESTING_M, "m"),
    ]


def drawing(press: Press, arrays: Mapping[str, Array]) -> Drawing:
    """Draw the normal force and its target, friction, and the speed along the wall."""
    t, force = arrays["t"], arrays["force"][:, -1]
    normal = force @ press.normal
    along = np.linalg.norm(force - np.outer(normal, press.normal), axis=1)
    with axes(2, size=(7.0, 4.5), sharex=True) as (pressed, speed):
        pressed.plot(t, normal, label="normal force")
        pressed.plot(t, along, label="friction")
        pressed.plot(t, arrays["press_n"], "k:", label="target")
        pressed.set(ylabel="force on the hand [N]")
        pressed.legend()
        speed.plot(t, 1e3 * arrays["slip"][:, -1])
        speed.set(xlabel="time [s]", ylabel="slip on the wall [mm/s]")
    return Drawing("Hand on the wall", pressed.figure)
