"""The record of a replay: a controller's torques in the states of a walk, beside the recorded torques."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from idcontrol.experiments.findings import Drawing, Finding, Results, Series, axes, save
from idcontrol.record import metrics
from idcontrol.record.recording import Run
from idcontrol.scenes.replay import Replayed


class ReplayConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a replay.

    Attributes:
        run: Folder of the walk.
        controller: The controller whose torques were computed.
    """

    run: str
    controller: str


def record(out: Path, run: Run, controller: str, replayed: Replayed) -> dict[str, Any]:
    """Write the record of a replay into the empty folder `out`; return its metrics."""
    t, tau, recorded, plan_diff = replayed
    diff = np.abs(tau - recorded)
    h = float(np.diff(t[:2]).sum())
    rates = [metrics.torques(each, h)["dtau_mean_nm_s"] for each in (tau, recorded)]
    results = Results(
        findings=[
            Finding("ticks", len(t)),
            Finding("equal_share", (diff == 0.0).all(axis=1).mean(), note="share of ticks with equal torques"),
            Finding("tau_diff_max_nm", diff.max()),
            Finding("tau_diff_mean_nm", diff.mean()),
            Finding("dtau_mean_nm_s", rates[0]),
            Finding("dtau_recorded_nm_s", rates[1]),
            Finding(
                "plan_diff_rad",
                plan_diff,
                holds=plan_diff == 0.0,
                note="largest difference between planned and recorded joint positions; zero if the plan is repeated",
            ),
        ],
        series={"t": Series(t, "s"), "tau": Series(tau, "N m"), "tau_recorded": Series(recorded, "N m")},
        drawings=[_drawing(run, controller, replayed)],
        extra={"experiment": "replay", "controller": controller},
    )
    return save(out, "replay", ReplayConfig(run=str(run.folder), controller=controller), results) | {"out": str(out)}


def _drawing(run: Run, controller: str, replayed: Replayed) -> Drawing:
    """Draw both torques of the joint with the largest difference, and the largest difference of all joints."""
    t, diff = replayed.t, np.abs(replayed.tau - replayed.recorded)
    joint = int(diff.max(axis=0).argmax())
    assert run.layout is not None
    with axes(2, size=(7.0, 5.0), sharex=True) as (above, below):
        above.plot(t, replayed.recorded[:, joint], label=f"recorded: {run.config.get('controller')}")
        above.plot(t, replayed.tau[:, joint], "--", label=f"asked: {controller}")
        above.set_ylabel(f"torque of {run.layout.joints[joint]} [N m]")
        above.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2)
        below.plot(t, diff.max(axis=1), color="0.3")
        below.set(xlabel="time [s]", ylabel="largest difference [N m]")
    return Drawing("Torques in the recorded states", above.figure)
