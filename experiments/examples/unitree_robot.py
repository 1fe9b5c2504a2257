"""A simulated robot behind Unitree's low-level interface.

::

    python -m idcontrol.experiments.examples.unitree_robot
    idcontrol bus --robot go1
    idcontrol loop --robot go1 --rate 500 --peer 127.0.0.1:9002 ...

The robot lies on its belly until a command turns its motors on. Then its drives follow the newest command at 10 kHz.
It sends its state at 500 Hz, and brakes by itself after 20 periods without a command. It ends when its motors are off
again and 20 periods pass without a command. At the end it prints how many commands arrived; ``late`` counts periods
with the motors on and without a new command.
"""

import argparse
import json
import os

import numpy as np

from idcontrol.adapters.bus import ORDER, Bus
from idcontrol.adapters.unitree import LOW_STATE, OFF, SERVO, Message, checksum, read_command
from idcontrol.loop import realtime
from idcontrol.loop.brake import brake
from idcontrol.loop.clock import NS, Pacer, WallClock
from idcontrol.loop.machine import specific_force
from idcontrol.loop.plant_process import warm
from idcontrol.loop.session import begins, resolve
from idcontrol.plants.drive import drive_torque
from idcontrol.scenes.walk import WalkConfig
from idcontrol.types import Array, ContactForces, Integers, State

RATE_HZ = 500.0


def describe(message: Message, state: State, tau: Array, accelerometer: Array, joints: Integers) -> None:
    """Fill in the measurements of IMU and motors; `joints` has the joint index of each motor, shape (a,)."""
    imu, motors = message["imu_state"], message["motor_state"][: joints.size]
    imu["quaternion"], imu["gyroscope"] = np.roll(state.q[3:7], 1), state.v[3:6]
    imu["accelerometer"] = accelerometer
    motors["mode"], motors["q"], motors["dq"] = SERVO, state.q[7:][joints], state.v[6:][joints]
    motors["tau_est"] = tau[joints]


def upward(forces: ContactForces, feet: Integers) -> Array:
    """Return the upward force on each foot, shape (n,) [N], in the order of `feet`, which are indices of feet."""
    felt = np.zeros(feet.size)
    for foot, force in zip(forces.identity, forces.force, strict=True):
        if foot < feet.size:  # otherwise the belly touches
            felt[foot] = force[2]
    return felt[feet]


def main() -> None:
    """Run the robot until its motors are turned off and commands cease."""
    parser = argparse.ArgumentParser(description="A go1 that speaks Unitree's low-level interface on this computer.")
    parser.add_argument("--silence", type=float, default=20.0 / RATE_HZ, help="longest silence [s] (%(default)s)")
    parser.add_argument("--domain", type=int, default=0, help="number of the DDS domain (%(default)s)")
    options = parser.parse_args()
    silence_s: float = options.silence
    np.seterr(all="ignore")
    session, dt = resolve("idcontrol.experiments.live:loop", WalkConfig(robot="go1")), 1.0 / RATE_HZ
    system, limits, order = session.system, session.limits, session.orders[ORDER]
    joints = np.array([system.actuated_names.index(name) for name in order.joints])
    feet = np.array([session.feet.index(name) for name in order.feet])
    start, plant = begins(session, "lying"), session.plant(dt)
    warm(plant, session, start, dt)
    state, tau = plant.reset(start), np.zeros(joints.size)
    t, message = 0.0, np.zeros((), dtype=LOW_STATE)
    rows, now, heard, off, begun, braked = np.zeros((5, joints.size)), 0, 0, True, False, False
    taken = late = overtaken = 0
    pacer = Pacer(WallClock(), round(NS * dt))
    with realtime.undisturbed(cpus=sorted(os.sched_getaffinity(0))):
        bus = Bus(robot=True, domain=options.domain)
        while not (begun and off and now - heard > silence_s * NS):
            now = pacer.wait().woke
            commands = list(bus.take())
            if commands:
                off = not (commands[-1]["motor_cmd"]["mode"][: joints.size] != OFF).any()
                rows[:, joints] = read_command(commands[-1], joints.size)
                begun, heard = begun or not off, now
                taken, overtaken = taken + len(commands), overtaken + len(commands) - 1
            late += begun and not off and not commands
            before = state
            if begun:
                braked = not off and now - heard > silence_s * NS
                q, v = system.joint_positions(state.q), system.joint_velocities(state.v)
                errors = system.position_errors(rows[1], q)
                tau = brake(system, limits, state, dt) if braked else drive_torque(rows, errors, v, limits.torque)
                state = plant.step(tau if braked else rows, dt)
                message["foot_force"] = np.rint(upward(plant.contact_forces(), feet))
            describe(message, state, tau, specific_force(before, state, dt, True), joints)
            t += dt
            message["tick"] = round(1e3 * t)
            message["crc"] = checksum(message)
            bus.put(message)
        bus.close()
    print(json.dumps({"taken": taken, "damaged": bus.damaged, "overtaken": overtaken, "late": late, "t": t}))


if __name__ == "__main__":
    main()
