"""A plant as a process of its own: the stand-in for the hardware.

It reads a job (one line of JSON) from its standard input and then beats at its own rate until it has stopped: because
it was told to, because commands stopped and it has braked (`idcontrol.loop.machine`), or, while it is still held,
because whoever started it is gone.
"""

from __future__ import annotations

import os
import signal
import sys

import msgspec
import numpy as np

from idcontrol.kernels.linked import compile_linked
from idcontrol.loop import machine, realtime
from idcontrol.loop.clock import NS, Pacer, WallClock
from idcontrol.loop.jobs import PlantJob, decode
from idcontrol.loop.life import Life
from idcontrol.loop.machine import Machine
from idcontrol.loop.memory import attach
from idcontrol.loop.ring import Ring
from idcontrol.loop.safety import NOT_BEGUN
from idcontrol.loop.session import Session, begins, resolve, wire_format
from idcontrol.loop.transport import Link
from idcontrol.loop.transport.shared import SharedLink
from idcontrol.loop.transport.udp import UdpLink
from idcontrol.loop.wire import SessionNumbers
from idcontrol.record.channels import width
from idcontrol.types import Plant, State

HASTE = 10.0
"""How much faster than in a loop it is moved up and down then."""
WARM_STEPS = 20
"""Steps before the first tick, so that all is compiled, loaded and in caches."""


def warm(plant: Plant, session: Session, start: State, dt: float) -> None:
    """Move `plant` from `start`, with joints at their ends, then up and down once, faster than it ever will.

    So nothing is compiled or loaded later. It must be reset afterwards.
    """
    system, q = session.system, start.q.copy()
    ends = np.isfinite(system.limits.upper) & ~system.joint_circle
    q[system.joint_q[ends]] = system.limits.upper[ends]
    plant.reset(msgspec.structs.replace(start, q=q))
    plant.step(np.zeros(system.n_actuated), dt)
    plant.reset(start)
    for _ in range(WARM_STEPS):
        plant.step(np.zeros(system.n_actuated), dt)
    if (between := session.between()) is not None and session.lying is not None:
        state, life = plant.reset(session.lying), Life(between)
        for begin, since in ((life.stand_up, 0.0), (lambda t, q: life.lie_down(t, q, np.zeros((5, q.size))), 1e3)):
            begin(since, system.joint_positions(state.q))
            t = since
            while not life.over(t):
                state, t = plant.step(life.on_the_way(t), dt), t + HASTE * dt
    compile_linked()


def main() -> int:
    """Stand in for the hardware."""
    job = decode(sys.stdin.readline(), PlantJob)
    np.seterr(all="ignore")  # whether numbers are finite is checked in every tick, and told as a fault
    session, dt = resolve(job.target, job.config), job.period / NS
    wire = wire_format(session)
    link: Link
    link = SharedLink(attach(job.shared), side=1) if job.shared is not None else UdpLink(peer=(job.host, job.port))
    ring = Ring(attach(job.ring), width(machine.channels(wire)))
    plant = session.plant(dt)
    start = begins(session, job.begins)
    warm(plant, session, start, dt)
    body = Machine(
        link,
        plant,
        session,
        period_s=dt,
        numbers=SessionNumbers(own=job.session, other=job.loop_session),
        policy=msgspec.structs.replace(machine.WATCHDOG, late_s=job.silence_s),
        start=start,
    )
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    clock = WallClock()
    clock.meanwhile = lambda: body.endpoint.poll(clock.now())
    pacer = Pacer(clock, job.period)
    with realtime.undisturbed(cpus=sorted(os.sched_getaffinity(0))):
        while not body.finished:
            orphaned = os.getppid() != job.parent and body.safety.mode in NOT_BEGUN
            body.tick(pacer.wait(), stop=bool(asked) or orphaned)
            ring.push(body.row.values)
    link.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
