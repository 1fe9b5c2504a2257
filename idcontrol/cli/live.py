"""The live page of a running loop: a separate process that reads the loop's telemetry.

It reads a `ViewJob` (one line of JSON) from its standard input and ends when this input closes. The loop always writes
its ring buffer of telemetry, so a tick takes the same time with and without a page.
"""

import contextlib
import os
import select
import sys

import click
import numpy as np

from idcontrol.cli.view import find_robot
from idcontrol.loop.clock import NS
from idcontrol.loop.jobs import ViewJob, receive
from idcontrol.loop.life import Phase
from idcontrol.loop.memory import attach
from idcontrol.loop.ring import Ring
from idcontrol.loop.safety import Mode
from idcontrol.loop.session import resolve, wire_format
from idcontrol.loop.telemetry import channels as loop_channels
from idcontrol.record.channels import views, width
from idcontrol.record.scenery import of_meta
from idcontrol.show.view.page import Page, serve, stop
from idcontrol.show.view.stage import Stage
from idcontrol.types import Array

EVERY_S = 0.05
"""Time between two updates of the page [s]."""
READY = "ready"
"""The line that the process prints when it begins to serve the page."""


def main() -> int:
    """Show a running loop until standard input closes; return the exit status."""
    job = receive(ViewJob)
    with contextlib.suppress(OSError):
        os.nice(19)
    session = resolve(job.target, job.config)
    channels = loop_channels(wire_format(session), session.notes)
    ring = Ring(attach(job.ring), width(channels))
    meta = session.meta()
    stage = Stage(of_meta(meta, job.target), find_robot, session.start.q)
    server = serve(job.port, "idcontrol loop")
    page = Page(server, stage, f"{session.robot} · {job.config.get('controller', '')}", follow=True)
    waypoints = np.array((meta.get("layout") or {}).get("waypoints") or (), dtype=float).reshape(-1, 2)
    page.draw_way(np.zeros((0, 3)), waypoints)
    page.show(stage.at({"q": session.start.q}), {"mode": "ready"})
    click.echo(f"the loop is shown at http://{server.get_host()}:{server.get_port()}", err=True)
    print(READY, flush=True)
    while not select.select([sys.stdin], [], [], EVERY_S)[0]:
        rows = ring.take()
        if len(rows) and np.isfinite(rows).any():
            show(page, stage, views(rows, channels), job.period / NS)
    stop(server)
    return 0


def show(page: Page, stage: Stage, rows: dict[str, Array], h: float) -> None:
    """Show the last of n ticks, unless its configuration is not finite.

    Args:
        page: The page.
        stage: Places the robot and the arrows of the forces.
        rows: Channels of the ticks by name, shape (n, ...).
        h: Period of the loop [s].
    """
    last = {name: values[-1] for name, values in rows.items()}
    if not np.isfinite(last["q"]).all():
        return
    shot = stage.at({"q": last["q"], "force": last["force_sensed"], "force_pred": last["force_pred"]})
    mode = Mode(int(last["mode"]))
    words = {"mode": mode.name.lower(), "tick": f"{int(last['tick'])}"}
    if mode is Mode.RUNNING:
        words["mode"] += ", " + Phase(int(last["phase"])).name.lower().replace("_", " ")
    if len(rows["tau"]) > 1 and np.isfinite(rows["tau"]).all():
        words["torque rate"] = f"{np.abs(np.diff(rows['tau'], axis=0)).mean() / h:.1f} N m/s"
    words["computing"] = f"{np.nanmedian(rows['compute_us']):.0f} µs"
    page.show(shot, words)


if __name__ == "__main__":
    sys.exit(main())
