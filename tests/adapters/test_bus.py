"""The bridge between a loop and a robot on a bus loses no message and always sends the robot a command."""

import contextlib
import json
import random
import select
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from idcontrol import cli
from idcontrol.adapters.bus import Bridge
from idcontrol.adapters.unitree import LOW_STATE, OFF, SERVO, checksum, read_command
from idcontrol.errors import InputError, install_command
from idcontrol.loop.clock import NS
from idcontrol.loop.order import translation
from idcontrol.loop.safety import Mode
from idcontrol.loop.session import resolve, wire_format
from idcontrol.loop.transport import Endpoint, inprocess
from idcontrol.loop.transport.udp import UdpLink
from idcontrol.loop.wire import Inbox, Kind, Outbox, SessionNumbers
from idcontrol.scenes.walk import WalkConfig
from tests import GUARD_S

TICK = NS // 500
ROOT = Path(__file__).parents[2]


class FakeBus:
    """A bus whose other end is the test."""

    def __init__(self):
        self.sent, self.waiting, self.damaged = [], [], 0

    def put(self, message):
        assert message["crc"] == checksum(message)
        self.sent.append(message.copy())

    def take(self):
        taken, self.waiting = self.waiting, []
        return iter(taken)


class Rig:
    """A bridge between a loop and a robot; the test plays both."""

    def __init__(self):
        self.session = resolve("idcontrol.experiments.live:loop", WalkConfig(robot="go1"))
        wire = self.wire = wire_format(self.session)
        self.translate = translation(self.session.orders["unitree"], self.session.system, self.session.feet, wire)
        here, there = inprocess.pair()
        inbox = Inbox(Kind.STATE, wire.robot, *wire.state_range())
        self.loop = Endpoint(here, inbox, Outbox(Kind.COMMAND, wire.robot, wire.command_values, 1))
        self.bus, self.now = FakeBus(), NS
        self.bridge = Bridge(there, self.bus, self.session, silence_s=0.04, numbers=SessionNumbers(own=2))
        self.rows = np.zeros((5, 12))

    def tick(self, mode=None, *, speed=0.0, robot=True, stands=False):
        """Advance 2 ms: the loop sends a command unless `mode` is None, the robot its state unless it is silent.

        The robot's time is zero if it `stands`.
        """
        self.now += TICK
        if mode is not None:
            self.loop.post(mode, self.translate.command(self.rows.ravel()), self.now)
        if robot:
            message = np.zeros((), dtype=LOW_STATE)
            message["imu_state"]["quaternion"][0], message["motor_state"]["dq"] = 1.0, speed
            message["tick"] = 0 if stands else self.now // 1_000_000
            self.bus.waiting.append(message)
        self.bridge.tick(self.now)
        self.loop.poll(self.now)

    def begin(self):
        self.tick(Mode.IDLE)
        self.tick(Mode.READY)
        self.tick(Mode.RUNNING)

    @property
    def last(self):
        """Modes of the legs' motors, and rows in the loop's order, of the last message on the bus."""
        rows, order = np.empty((5, 12)), self.session.orders["unitree"]
        joints = [self.session.system.actuated_names.index(name) for name in order.joints]
        rows[:, joints] = read_command(self.bus.sent[-1], 12)
        return set(self.bus.sent[-1]["motor_cmd"]["mode"][:12].tolist()), rows


@pytest.fixture
def rig():
    return Rig()


@pytest.mark.slow
def test_the_bus_gets_no_message_until_the_loop_is_running(rig):
    for mode in (Mode.IDLE, Mode.READY, Mode.READY):
        rig.tick(mode)
    assert rig.bus.sent == []
    assert rig.loop.newest.mode == Mode.READY
    assert rig.loop.newest.values[0] == pytest.approx(rig.now // 1_000_000 * 1e-3)


def test_each_command_is_forwarded_once_in_the_order_of_the_robot(rig):
    rig.begin()
    for k in range(20):
        rig.rows = np.random.default_rng(k).uniform(0.0, 20.0, (5, 12))
        rig.tick(Mode.RUNNING)
        modes, rows = rig.last
        assert modes == {SERVO}
        np.testing.assert_array_equal(rows, rig.rows.astype(np.float32))
    assert len(rig.bus.sent) == rig.bridge.count.put == rig.bridge.count.commands == 21
    assert rig.bridge.count.lost == rig.bridge.count.overtaken == 0
    rig.tick()  # the loop is silent, the drives go on
    assert len(rig.bus.sent) == 21


def test_lost_and_overtaken_commands_are_counted(rig):
    rig.begin()
    rig.loop.post(Mode.RUNNING, np.zeros(60), rig.now)
    rig.tick(Mode.RUNNING)  # two at once: the newer command is forwarded
    assert rig.bridge.count.overtaken == 1
    rig.loop.outbox.sequence += 3
    rig.tick(Mode.RUNNING)
    assert rig.bridge.count.lost == 3
    assert rig.bridge.count.put == rig.bridge.count.commands - 1 == 3


def test_a_torque_beyond_the_limit_never_reaches_the_bus(rig):
    rig.begin()
    rig.rows[0] = 1.01 * rig.session.limits.torque
    rig.tick(Mode.RUNNING)
    assert len(rig.bus.sent) == 1
    rig.rows[0] = rig.session.limits.torque
    rig.tick(Mode.RUNNING)
    np.testing.assert_array_equal(rig.last[1][0], rig.session.limits.torque.astype(np.float32))


@pytest.mark.parametrize("mode", [None, Mode.DAMPED, Mode.STOPPED])
def test_the_drives_brake_while_joints_move_and_are_turned_off_at_rest(rig, mode):
    """The robot brakes if the loop is killed, brakes or ends; silence is tolerated for 20 periods."""
    rig.begin()
    for _ in range(22):
        rig.tick(mode, speed=1.0)
    modes, rows = rig.last
    assert modes == {SERVO}
    np.testing.assert_array_equal(rows[:4], 0.0)
    np.testing.assert_array_equal(rows[4], rig.session.limits.damping.astype(np.float32))
    for _ in range(500):
        rig.tick(mode, speed=1.0)
    assert rig.last[0] == {SERVO}
    for _ in range(200):
        rig.tick(mode if mode is not Mode.DAMPED else Mode.STOPPED)
    assert rig.last[0] == {OFF}
    assert rig.bridge.finished
    assert rig.loop.newest.mode == Mode.STOPPED


def test_the_loop_gets_no_states_of_a_silent_robot(rig):
    rig.begin()
    heard = rig.loop.inbox.accepted
    for _ in range(10):
        rig.tick(Mode.RUNNING, robot=False)
    assert rig.loop.inbox.accepted == heard
    assert rig.last[0] == {SERVO}  # commands are still sent, in case the robot receives them


def test_a_tick_that_stands_still_on_the_bus_stands_still_in_the_loop(rig):
    rig.begin()
    heard, times = rig.loop.inbox.accepted, set()
    for _ in range(10):
        rig.tick(Mode.RUNNING, stands=True)
        times.add(float(rig.loop.newest.values[0]))
    assert rig.loop.inbox.accepted == heard + 10
    assert len(times) == 1  # such a loop brakes its robot as stale (tests/loop/test_faults.py)


def test_a_robot_without_the_order_is_refused():
    session = resolve("idcontrol.experiments.live:loop", WalkConfig(robot="links"))
    with pytest.raises(InputError, match=r"links has no order of joints named unitree; add \[orders.unitree\]"):
        Bridge(inprocess.pair()[0], FakeBus(), session, silence_s=0.04, numbers=SessionNumbers(own=2))


def test_without_the_package_one_line_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert cli.main(["bus", "--bind", "127.0.0.1:0"]) == 2
    assert capsys.readouterr().err.strip().endswith(install_command("bus"))


# --- between processes ---


@contextlib.contextmanager
def beside(*arguments):
    """A process that is killed if it does not end by itself."""
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


ECHO = """
import sys, time
from idcontrol.adapters.bus import Bus
from idcontrol.adapters.unitree import LOW_STATE, checksum, read_command
import numpy as np
bus, taken, state = Bus(robot=True, domain=int(sys.argv[1])), [], np.zeros((), dtype=LOW_STATE)
last, end = int(sys.argv[2]), time.monotonic() + float(sys.argv[3])
while time.monotonic() < end and last not in taken:
    state["crc"] = checksum(state)
    bus.put(state)
    time.sleep(0.001)
    for message in bus.take():
        taken.append(int(read_command(message, 12)[1, 3]))
        state["tick"] = taken[-1] + 2
bus.close()
print(taken == sorted(taken), set(taken) == set(range(last + 1)), bus.damaged)
"""
LAST = 299
"""Number of the last command."""


@pytest.mark.wallclock
def test_commands_cross_between_two_processes_in_order():
    """Each message is sent until the robot acknowledges it; the bus may lose messages for a delayed receiver."""
    pytest.importorskip("cyclonedds")
    from idcontrol.adapters.bus import Bus
    from idcontrol.adapters.unitree import blank_command, write_command

    domain = random.randrange(1, 200)
    bus, message, rows = Bus(robot=False, domain=domain), blank_command(), np.zeros((5, 12))
    # threads of an open bus may crash at the end of the process
    arguments = map(str, (domain, LAST, GUARD_S))
    with contextlib.closing(bus), beside(sys.executable, "-c", ECHO, *arguments) as robot:
        seen = None  # the robot reports the number of the last command, plus 2
        for k in range(LAST + 1):
            rows[1, 3], again = k, 0.0
            write_command(message, rows, SERVO)
            while seen != k and robot.poll() is None:  # after the last command the robot leaves
                if time.monotonic() > again:
                    bus.put(message)
                    again = time.monotonic() + 0.2
                select.select([bus], [], [], 0.1)  # a new message ends the wait
                for state in bus.take():
                    seen = int(state["tick"]) - 2
        assert robot.communicate(timeout=GUARD_S)[0] == "True True 0\n"
        time.sleep(0.2)
        assert all(int(state["tick"]) > 1 for state in bus.take())  # the robot's departure is not a message
        assert bus.damaged == 0


@pytest.mark.slow
@pytest.mark.wallclock
def test_go1_trots_over_the_bus_and_no_command_is_lost(tmp_path, capsys):
    """Run the commands of the page, with time limits for a shared computer."""
    pytest.importorskip("cyclonedds")
    from tests.test_docs import commands

    (robot,), (bridge,), (loop,) = (
        [line.split() for page, line in commands() if page == "howto/bus.md" and part in line]
        for part in ("unitree_robot", "idcontrol bus", "loop.joints=unitree")
    )
    with contextlib.closing(UdpLink()) as free:
        address = "{}:{}".format(*free.local)
    elsewhere = ["--domain", str(random.randrange(1, 200)), "--silence", "0.5"]
    loop[loop.index("--peer") + 1] = address
    patience = [f"loop.policy.{name}" for name in ("late_s=0.5", "overrun.then=hold", "clock.then=hold")]
    with (
        beside(sys.executable, *robot[1:], *elsewhere) as there,
        beside(sys.executable, "-m", "idcontrol", *bridge[1:], *elsewhere, "--bind", address, "--json") as between,
    ):
        words = [*loop[1:], "--arm", "--json", "--out", str(tmp_path / "run"), "--set", "duration_s=10"]
        status = cli.main([*words, *(word for setting in patience for word in ("--set", setting))])
        metrics = json.loads(capsys.readouterr().out)
        said, count = (
            json.loads(there.communicate(timeout=GUARD_S)[0]),
            json.loads(between.communicate(timeout=GUARD_S)[0]),
        )
    assert status == 0
    assert metrics["completed"]
    assert metrics["ended"] == "duration"
    assert count["lost"] == count["damaged"] == said["damaged"] == 0
    assert said["taken"] == count["put"] + count["brakes"]
    assert count["commands"] > 500 * 12  # it also stands up and lies down
