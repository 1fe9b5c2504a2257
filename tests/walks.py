"""A synthetic record of a walk: plausible signals in closed form, for readers of records."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from idcontrol.record.metrics import Layout
from idcontrol.record.recording import Recorder
from idcontrol.record.scenery import Scenery
from idcontrol.types import Event

FEET = ("LF", "RF", "LH", "RH")
H, PERIOD, DUTY, HEIGHT, WEIGHT = 1e-3, 0.3, 0.75, 0.17, 47.1
LAYOUT = Layout(
    joints=tuple(f"{foot}_{joint}" for foot in FEET for joint in ("HAA", "HFE", "KFE")),
    feet=FEET,
    joint_q=tuple(range(7, 19)),
    joint_v=tuple(range(6, 18)),
    torque_limit=(2.0,) * 6 + (None,) * 6,
    period_s=H,
    gait_period_s=PERIOD,
    swing_s=(1 - DUTY) * PERIOD,
    base_height_m=HEIGHT,
    waypoints=((0.3, 0.0), (0.3, 0.3)),
)
CHANNELS: dict[str, tuple[int, ...]] = {
    "t": (), "q": (19,), "v": (18,), "q_des": (12,), "v_des": (12,), "a_des": (12,), "tau": (12,), "stance": (4,),
    "feet": (4, 3), "feet_des": (4, 3), "gap": (4,), "slip": (4,), "force": (4, 3), "force_pred": (4, 3), "status": (),
    "residual": (), "clipped": (), "base_ref": (4,), "base_tilt": (), "com": (3,), "target": (2,), "segment": (2,),
    "waypoints": (), "turning": (), "step_us": (), "plant_status": (), "plant_residual": (), "plant_regularization": (),
}  # fmt: skip


def arrays(duration_s: float, seed: int = 0, predicts: bool = True) -> dict[str, np.ndarray]:
    """Return the channels of a walk along x at 0.2 m/s, a turn in place, and a walk along y, shape (rows, ...) each."""
    rng = np.random.default_rng(seed)
    t = H * np.arange(round(duration_s / H))
    n = len(t)
    out = {name: np.zeros((n, *shape)) for name, shape in CHANNELS.items()}
    turn = (t > 1.5) & (t < 2.1)
    second = t >= 2.1
    x = np.where(second, 0.3, 0.2 * np.minimum(t, 1.5))
    y = np.where(second, 0.2 * (t - 2.1), 0.0)

    phase = np.mod(t[:, None] / PERIOD - np.array([0.25, 0.75, 0.75, 0.25]), 1.0)
    stance = phase < DUTY
    swing = np.clip((phase - DUTY) / (1 - DUTY), 0.0, 1.0)
    out["t"], out["stance"], out["turning"] = t, stance.astype(float), turn.astype(float)
    out["q"][:, 0] = x + 0.002 * np.sin(2 * np.pi * t / PERIOD)
    out["q"][:, 1] = y + 0.003 * np.cos(2 * np.pi * t / PERIOD)
    out["q"][:, 2] = HEIGHT + 3e-4 * np.sin(4 * np.pi * t / PERIOD)
    out["q"][:, 6] = 1.0
    out["base_ref"] = np.column_stack([x, y, np.full(n, HEIGHT), np.where(second, np.pi / 2, 0.0)])
    out["base_tilt"] = 2e-3 * np.abs(np.sin(2 * np.pi * t / PERIOD))
    out["com"] = out["q"][:, :3] - [0, 0, 0.01]
    out["target"] = np.where(second[:, None], [0.3, 0.3], [0.3, 0.0])
    out["segment"] = np.where(second[:, None], [0.3, 0.0], [0.0, 0.0])
    out["waypoints"] = second.astype(float)

    centre = np.array([[0.2, 0.1], [0.2, -0.1], [-0.2, 0.1], [-0.2, -0.1]])
    out["feet_des"][:, :, :2] = out["base_ref"][:, None, :2] + centre
    out["feet_des"][:, :, 2] = 0.01 + 0.015 * np.sin(np.pi * swing) ** 2
    out["feet"] = out["feet_des"] + rng.normal(scale=1e-4, size=(n, 4, 3))
    out["gap"] = out["feet"][:, :, 2] - 0.01
    out["slip"] = 1e-4 * np.abs(rng.normal(size=(n, 4)))

    load = WEIGHT * stance / stance.sum(axis=1, keepdims=True)
    out["force"][:, :, 2] = load
    out["force_pred"][:, :, 2] = load + rng.normal(scale=0.05, size=(n, 4)) * stance if predicts else np.nan

    k = np.arange(12)
    angle = 2 * np.pi * t[:, None] / PERIOD + k
    out["q_des"] = 0.3 * np.cos(k) + 0.2 * np.sin(angle)
    out["v_des"] = 0.2 * 2 * np.pi / PERIOD * np.cos(angle)
    out["q"][:, 7:] = out["q_des"] + 0.004 * np.sin(3 * angle)
    out["v"][:, 6:] = out["v_des"] + 0.05 * np.cos(3 * angle)
    out["tau"] = 0.4 * np.sin(angle) + 0.8 * np.repeat(stance, 3, axis=1) * np.cos(k)
    out["step_us"] = 120.0 + 10.0 * rng.standard_exponential(n)
    out["plant_residual"][:] = 1e-14
    return out


def record(
    folder: Path,
    duration_s: float = 3.0,
    *,
    data: dict[str, np.ndarray] | None = None,
    metrics: dict[str, Any] | None = None,
    goals: dict[str, Any] | None = None,
    scene: Scenery | None = None,
    gains: dict[str, Any] | None = None,
) -> Path:
    """Record the walk; without `metrics` as a run that was stopped before its end."""
    data = arrays(duration_s) if data is None else data
    meta = {"experiment": "trot", "layout": msgspec.to_builtins(LAYOUT), "goals": goals or {}}
    if scene is not None:
        meta["scene"] = msgspec.to_builtins(scene)
    config = {
        "controller": "id-coulomb-qp", "plant": "coulomb-lcp", "robot": "links", "mu": np.inf, "duration_s": duration_s,
        "seed": 0, "path": {"kind": "waypoints", "stand_from_s": None}, "start_spread_rad": 0.001,
        "gains": gains or {},
    }  # fmt: skip
    with Recorder(folder, CHANNELS, {"t": "s", "tau": "N m"}, meta, config=config, wall_time=["step_us"]) as recorder:
        for i in range(len(data["t"])):
            recorder.append(**{name: values[i] for name, values in data.items()})
        recorder.event(Event(t=1.5, what="turning in place", detail={"waypoint": 2}))
        if metrics is not None:
            recorder.close(metrics)
    return folder
