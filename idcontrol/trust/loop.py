"""Measures the claims on the loop: datagrams, the safety gate for torques, the brake."""

from __future__ import annotations

import numpy as np
from msgspec import structs

from idcontrol.loop.brake import brake
from idcontrol.loop.safety import Limits, admit
from idcontrol.loop.wire import Inbox, Kind, Outbox
from idcontrol.trust import machines


def accepted_damage() -> float:
    """Number of accepted datagrams among those with a flipped bit or a missing end."""
    sender = Outbox(Kind.COMMAND, "walker", 12, 7)
    sender.values[:] = np.random.default_rng(0).normal(size=12)
    data = bytes(sender.seal(0, 1, 2))
    low = np.full(12, -1e300)
    taken = 0
    for at in range(len(data)):
        turned = [data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :] for bit in range(8)]
        for damaged in (*turned, data[:at]):
            taken += Inbox(Kind.COMMAND, "walker", low, -low).accept(damaged) is not None
    if Inbox(Kind.COMMAND, "walker", low, -low).accept(data) is None:
        raise ArithmeticError("a sound datagram is refused")
    return float(taken)


def _limits(rng: np.random.Generator) -> Limits:
    return Limits(
        torque=rng.uniform(1.0, 50.0, 12),
        torque_rate=rng.uniform(1.0, 5e3, 12),
        low=rng.uniform(-1.0, -0.5, 12),
        high=rng.uniform(0.5, 1.0, 12),
        speed=rng.uniform(1.0, 10.0, 12),
        damping=10.0 ** rng.uniform(-2.0, 6.0, 12),
    )


def passed_excess() -> float:
    """Largest excess of torques behind the gate over their limit or largest rate, relative to the limit."""
    rng, worst = np.random.default_rng(0), []
    for _ in range(2000):
        limits = _limits(rng)
        last = rng.uniform(-1.0, 1.0, 12) * limits.torque
        wanted = 10.0 ** rng.uniform(0.0, 6.0) * rng.normal(size=12)
        out = np.empty(12)
        q, v = rng.uniform(-2.0, 2.0, 12), 10.0 * rng.normal(size=12)
        admit(limits, wanted, last, q, v, rng.uniform(), machines.H, out)
        worst += [
            np.max(np.abs(out) / limits.torque) - 1.0,
            np.max((np.abs(out - last) - limits.torque_rate * machines.H) / limits.torque),
        ]
    return float(np.max(worst))


def energy_of_the_brake() -> float:
    """Largest relative growth of kinetic energy in a period of the brake, with any damping, if nothing else acts."""
    rng, worst = np.random.default_rng(0), []
    system, _ = machines.walker()
    at_home = machines.walker_state(system)
    for _ in range(200):
        limits = _limits(rng)._replace(torque=np.full(12, np.inf))
        v = rng.normal(size=18)
        tau = brake(system, limits, structs.replace(at_home, v=v), machines.H)
        system.update(at_home.q, v)
        now = system.from_pinocchio(v)
        push = np.concatenate((np.zeros(6), tau))
        after = now + machines.H * np.linalg.solve(system.M, push)
        worst.append(after @ system.M @ after / (now @ system.M @ now) - 1.0)
    return float(np.max(worst))
