"""A fast experiment of another package, whose settings choose its fault."""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from idcontrol.errors import InputError
from idcontrol.record.recording import Recorder
from idcontrol.sweeps.study import Study, Table


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    controller: str = "pid"
    plant: str = "coulomb-lcp"
    mu: float = 0.8
    seed: int = 0
    preset: Literal["default", "paper"] = "default"
    gain: float = 1.0
    trouble: Literal["", "fall", "raise", "abort", "refuse", "wait", "cut"] = ""
    count_in: str = ""


class Drift:
    name = "drift"
    summary = "a number drifts"
    presets = {"default": Config(), "paper": Config(preset="paper", gain=2.0)}  # noqa: RUF012

    def run(self, config: Config, out: Path, progress: Any) -> dict[str, Any]:
        if config.trouble == "refuse":
            raise InputError("this gain does not fit")
        if config.count_in:
            (Path(config.count_in) / f"{time.time_ns()}-{config.seed}").touch()
        with Recorder(out, {"x": ()}, {}, {"experiment": "drift"}, config=msgspec.to_builtins(config)) as recorder:
            recorder.append(x=config.gain * config.seed)
            if config.trouble == "raise":
                raise ZeroDivisionError("gain is zero")
            if config.trouble == "abort":
                os.kill(os.getpid(), signal.SIGABRT)
            while config.trouble == "wait" and not (Path(config.count_in) / "go").exists():
                time.sleep(0.02)
            fell = 0.25 if config.trouble == "fall" else None
            metrics = {
                "completed": fell is None,
                "fell_at_s": fell,
                "x": config.gain * config.seed,
                "step_us": {"p50": 3},
            }
            recorder.close(metrics)
        if config.trouble == "cut":  # as if the process had died before the last line of `close`
            (out / "record.log").touch()
        return metrics

    def rehearsals(self) -> Sequence[Any]:
        return ()


def _table(outcomes: Any) -> tuple[Table, ...]:
    rows = tuple((o.setting("seed"), o.metric("x")) for o in outcomes)
    return (Table(name="positions", title="Positions [m]", sentence="They grow.", header=("seed", "x [m]"), rows=rows),)


experiment = Drift()
study = Study(
    experiment="drift",
    summary="positions",
    runs=({"seed": 1, "controller": "pid"}, {"seed": 2, "controller": "pid", "preset": "paper"}),
    tables=_table,
)
