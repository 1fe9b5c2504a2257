"""A plant in a separate process, instead of the hardware.

The process reads a job (one line of JSON) from its standard input and then ticks at its rate until it has stopped. It
stops when its loop stops, after braking because commands stopped, or when the plant diverges
(`idcontrol.loop.machine`). While the plant is still held, it also stops when the process that started it ends.
"""

from __future__ import annotations

import os
import sys

import msgspec
import numpy as np

from idcontrol.kernels.linked import compile_linked
from idcontrol.loop import machine, realtime
from idcontrol.loop.clock import NS, Pacer, WallClock
from idcontrol.loop.jobs import PlantJob, receive
from idcontrol.loop.life import ON_THE_WAY, Life
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
"""Speed at which a plant is moved up and down to warm its code, as a multiple of the speed in a loop."""
WARM_STEPS = 20
"""Number of steps from the initial state before the first tick, to compile and load all code and to fill the CPU's
caches."""


def warm(plant: Plant, session: Session, start: State, dt: float) -> None:
    """Step `plant` to compile all code; afterwards the plant must be reset.

    The plant takes a step with its joints at their upper limits, and `WARM_STEPS` steps from `start`. A machine that
    can lie also stands up and lies down.
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
        for phase in ON_THE_WAY:
            life.enter(phase, 0.0, system.joint_positions(state.q), np.zeros((5, system.n_actuated)))
            t = 0.0
            while not life.over(t):
                state, t = plant.step(life.on_the_way(t), dt), t + HASTE * dt
    compile_linked()


def main() -> int:
    """Run the plant of the job on standard input; return the exit status, 0."""
    job = receive(PlantJob)
    np.seterr(all="ignore")  # a value that is not finite is a fault of its tick, not an error of NumPy
    session, dt = resolve(job.target, job.config), job.period / NS
    wire = wire_format(session)
    shared = None if job.shared is None else attach(job.shared)
    link: Link = UdpLink(peer=(job.host, job.port)) if shared is None else SharedLink(shared, side=1)
    ring = Ring(attach(job.ring), width(machine.channels(wire)))
    plant = session.plant(dt)
    start = begins(session, job.begins)
    warm(plant, session, start, dt)
    body = Machine(
        link, plant, session, period_s=dt, numbers=SessionNumbers(own=job.session, other=job.loop_session),
        policy=msgspec.structs.replace(machine.WATCHDOG, late_s=job.silence_s), start=start,
    )  # fmt: skip
    clock = WallClock()
    clock.meanwhile = lambda: body.endpoint.poll(clock.now())
    pacer = Pacer(clock, job.period)
    with realtime.undisturbed(cpus=sorted(os.sched_getaffinity(0))):
        while not body.finished:
            orphaned = os.getppid() != job.parent and body.safety.mode in NOT_BEGUN
            body.tick(pacer.wait(), stop=orphaned)
            ring.push(body.row.values)
    link.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
