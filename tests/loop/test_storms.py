"""Storms of faults: a running machine always ends in order."""

from __future__ import annotations

import gc
from dataclasses import dataclass

import numpy as np
import pytest
from msgspec import structs

from idcontrol import controllers
from idcontrol.loop.clock import NS
from idcontrol.loop.machine import WATCHDOG
from idcontrol.loop.plausible import tilt
from idcontrol.loop.safety import Fault, Mode, Policy, Rule
from idcontrol.loop.session import begins, resolve
from idcontrol.scenes.walk import CommandSettings, WalkConfig
from idcontrol.types import Command
from tests.loop import storms
from tests.loop.rig import Pd, Rig
from tests.loop.storms import WALK, problems


class Moody:
    """A controller that randomly does one of these actions."""

    def __init__(self, controller, rng, joints):
        self.whim = 0
        self._controller, self._rng, self._joints = controller, rng, joints

    def reset(self):
        self._controller.reset()

    def __call__(self, state, reference):
        whim, self.whim = self.whim, 0
        if whim == 1:
            raise ZeroDivisionError("a gain is zero")
        if whim == 2:
            return Command(tau=np.full(self._joints, np.nan))
        if whim == 3:
            return Command(tau=1e3 * self._rng.standard_normal(self._joints))
        return self._controller(state, reference)


@dataclass
class Weather:
    """Time at which a storm ends, and time at which the end is requested [s]."""

    calm_s: float
    end_s: float


def brew(rig, rng, weather, push):
    """Return faults at random times, and acts of an operator who tries to recover and arm the machine."""
    a = rig.session.limits.torque.size
    health = rig.machine.health
    calm = health.copy()

    def at(t, call):
        rig.clock.at(round(t * NS), call)

    def cut(cable, t):
        at(t, lambda: setattr(cable, "cut", True))
        at(t + 0.2 * rng.random(), lambda: setattr(cable, "cut", False))

    def ail(t, place, value):
        at(t, lambda: health.__setitem__(place, value))
        at(t + 0.3 * rng.random(), lambda: health.__setitem__(place, calm[place]))

    ailments = [(2 * a + 1, 1.0), (a - 1, 3.0), (2 * a - 1, 95.0), (2 * a, 10.0)]  # estop, drive, hot, voltage
    for t in np.sort(rng.uniform(0.05, weather.calm_s, rng.integers(1, 9))).tolist():
        kind = rng.integers(9)
        if kind < 2:
            cut((rig.to_loop, rig.to_machine)[kind], t)
        elif kind < 6:
            ail(t, *ailments[kind - 2])
        elif kind == 6:
            at(t, lambda: push(rig.machine._plant))
        elif kind == 7:
            at(t, lambda: setattr(rig.controller, "whim", int(rng.integers(1, 4))))
        else:
            cut(rig.to_loop, t)
            cut(rig.to_machine, t)
    rig.run(acts=np.sort(rng.uniform(0.0, weather.end_s, 40)).tolist(), damp_at=weather.end_s)
    return rig


def policy(rng, **settings):
    """Return a policy with `settings` that tolerates a random number of silent ticks."""
    silent = Rule(tolerate=int(rng.integers(0, 20)))
    return Policy(start_s=10.0, voltage_v=(20.0, 30.0), silent=silent, **settings)


def check_torques(rig):
    """Check that no torque exceeds its limit, and that a loop that does not run commands no torque."""
    limit = rig.session.limits.torque
    for row in rig.rows:
        assert (np.abs(row["tau"]) <= limit).all()
        assert int(row["mode"]) in (Mode.RUNNING, Mode.DAMPED) or not row["tau"].any()
    for row in rig.machine_rows:
        assert (np.abs(row["tau"]) <= limit).all()


def check_end(rig):
    """Check that both sides end after any faults."""
    storms.brake(rig)
    assert rig.machine.finished
    assert rig.loop.finished


def lives(rig):
    """Return how often torques began."""
    return rig.modes().count(Mode.RUNNING)


# --- an arm ---


def storm(seed):
    """An arm in a storm of two seconds."""
    rng = np.random.default_rng(seed)
    rig = Rig(
        attended=True, controller=Moody(Pd(), rng, 2), duration_s=30.0, policy=policy(rng, damp_s=0.2), seed=seed
    )  # fmt: skip

    def push(plant):
        plant.state = structs.replace(plant.state, q=plant.state.q + rng.uniform(-1.0, 1.0, 2))

    return brew(rig, rng, Weather(calm_s=2.0, end_s=3.0), push)


def check_storm(rig):
    """Check that no torque exceeds its limit or ends while a joint moves, and that both sides end."""
    check_torques(rig)
    check_end(rig)
    body = rig.machine_rows
    modes = np.array([int(row["mode"]) for row in body])
    begun = np.flatnonzero(modes == Mode.RUNNING)
    if begun.size:  # it was braked before torques ended, until it rested or for the maximum time
        ends = int(np.argmax(modes == Mode.STOPPED))
        braked = ends - 1 - int(np.flatnonzero(modes[:ends] == Mode.RUNNING)[-1])
        speed = np.array([np.abs(row["v"]).max() for row in body[max(ends - 300, 0) : ends]])
        assert braked >= 100 or speed.max() < 0.05  # the machine of these tests brakes for 0.1 s at most


def test_storms_of_faults_end_in_order_whatever_happened():
    rig = storm(0)
    check_storm(rig)
    assert lives(rig) > 1  # the operator has recovered it


@pytest.mark.slow
def test_a_thousand_storms_of_faults_end_in_order():
    for seed in range(1000, 2000):
        check_storm(storm(seed))
        gc.collect()


# --- robots on their legs ---


def storm_on_legs(robot, seed):
    """Return a robot that walks, or is about to stand up, in a storm of 1.5 s; pushes are up to 0.5 m/s."""
    rng = np.random.default_rng(seed)
    kind, place = ("torque", "impedance")[seed % 2], ("standing", "lying")[seed // 2 % 2]
    config = WalkConfig(robot=robot, duration_s=30.0, command=CommandSettings(kind=kind), seed=seed)
    session = resolve(WALK, config)
    controller = controllers.build(config.controller, session.setup())
    rig = Rig(
        attended=True, session=session, system=resolve(WALK, config).system, duration_s=30.0, seed=seed,
        controller=Moody(controller, rng, session.limits.torque.size), policy=policy(rng),
        machine_policy=WATCHDOG, start=begins(session, place),
    )  # fmt: skip
    begun = 3.0 if place == "lying" else 0.0

    def push(plant):
        plant.push(rng.uniform(-0.5, 0.5, 3))

    return brew(rig, rng, Weather(calm_s=begun + 1.5, end_s=begun + 6.0), push)


def check_storm_on_legs(rig):
    """Check as for an arm.

    In addition, the body carries the robot when torques end, so that it does not fall in 20 ticks.
    """
    check_torques(rig)
    check_end(rig)
    modes = np.array([int(row["mode"]) for row in rig.machine_rows])
    if (modes == Mode.RUNNING).any():
        after = np.array(
            [row["v"][:3] for row, mode in zip(rig.machine_rows, modes, strict=True) if mode == Mode.STOPPED]
        )
        assert np.abs(after).max() < 0.05  # m/s; 20 ms of free fall are 0.2


@pytest.mark.slow
@pytest.mark.parametrize("robot", ["links", "go1"])
def test_a_robot_is_never_limp_while_its_legs_carry_it_whatever_happened(robot):
    rig = storm_on_legs(robot, 1)
    check_storm_on_legs(rig)
    assert lives(rig) == 2  # it was recovered, stood up from its lying position, and lay down again


@pytest.mark.slow
@pytest.mark.parametrize("robot", ["links", "go1"])
def test_in_ten_storms_a_robot_is_recovered_and_never_limp_while_its_legs_carry_it(robot):
    recovered = 0
    for seed in range(1000, 1010):
        rig = storm_on_legs(robot, seed)
        check_storm_on_legs(rig)
        recovered += lives(rig) > 1
        gc.collect()
    assert recovered >= 5


# --- short storms of all kinds of faults ---


def test_a_walk_with_random_faults_ends_within_limits_on_the_ground_and_with_a_true_reason():
    assert problems(storms.storm(1)) == []


def test_a_machine_is_not_said_to_repeat_old_states_because_its_loop_was_held_up():
    """After 0.2 s in which both were held up, all states of the machine are NaN."""
    held_up = storms.storm(930900, "sensed")
    assert problems(held_up) == []
    assert held_up.rig.loop.safety.ended_by is Fault.NOT_FINITE


def test_a_robot_whose_torques_end_while_it_stands_is_limp():
    rig = storms.walking("links", "torque", machine_policy=structs.replace(WATCHDOG, damp_s=0.001), duration_s=0.1)
    rig.clock.at(NS // 5, lambda: setattr(rig.to_machine, "cut", True))
    rig.run()
    assert "limp" in problems(storms.Storm(rig, None, None, [(0.2, 9.0, "commands_lost")]))[0]


def test_a_robot_that_lies_still_is_not_braked_until_its_legs_have_sunk():
    """The legs of `anymal` sink for 10 s."""
    rig = storms.walking("anymal", "torque", machine_policy=WATCHDOG, duration_s=0.1)
    rig.clock.at(NS // 5, lambda: setattr(rig.to_machine, "cut", True))
    rig.run()
    storms.brake(rig)
    assert problems(storms.Storm(rig, None, None, [(0.2, 9.0, "commands_lost")])) == []
    assert [int(row["mode"]) for row in rig.machine_rows].count(Mode.DAMPED) * 1e-3 < 2.0


def test_a_robot_that_is_braked_in_its_stride_leans_on_its_hips_and_does_not_roll_over():
    """The belly of `anymal` is as narrow as a keel."""
    rig = storms.walking("anymal", "torque", machine_policy=WATCHDOG, velocity=(0.2, 0.0, 0.0), duration_s=0.7)
    rig.clock.at(round(0.8 * NS), lambda: setattr(rig.to_machine, "cut", True))
    rig.run()
    storms.brake(rig)
    assert rig.machine_rows[-1]["q"][2] > 0.1
    assert tilt(rig.machine_rows[-1]["q"][3:7]) < 0.6


@pytest.mark.slow
def test_a_reason_that_no_fault_explains_is_not_true():
    rig = storms.walking("links", "torque")
    rig.clock.at(NS // 5, lambda: setattr(rig.to_machine, "cut", True))
    rig.run()
    storms.brake(rig)
    assert "explained" in problems(storms.Storm(rig, None, None, [(0.2, 9.0, "estop")]))[0]


@pytest.mark.slow
def test_a_robot_that_is_thrown_onto_its_side_is_braked_until_it_rests():
    """After 3 s of braking, this `anymal` still rolls."""
    rig = storms.walking("anymal", "torque", machine_policy=WATCHDOG, duration_s=0.1)

    def throw():
        rig.to_machine.cut = True
        rig.machine._plant.push(np.array([0.0, 2.0, 0.5]))

    rig.clock.at(NS // 5, throw)
    rig.run()
    storms.brake(rig)
    assert problems(storms.Storm(rig, None, None, [(0.2, 9.0, "commands_lost")])) == []
    assert [int(row["mode"]) for row in rig.machine_rows].count(Mode.DAMPED) > 3.0 / 1e-3


@pytest.mark.slow
def test_a_thousand_walks_with_random_faults_end_within_limits_on_the_ground_and_with_a_true_reason():
    for seed in range(1000, 2000):
        assert problems(storms.storm(seed)) == [], seed


@pytest.mark.slow
@pytest.mark.parametrize("contacts", ["sensed", "geometry"])
def test_thirty_walks_on_sensed_contacts_with_random_faults_end_as_others_do(contacts):
    for seed in (*range(1000, 1020), *range(1600, 1680, 8)):  # every eighth is go1
        assert problems(storms.storm(seed, contacts)) == [], seed
