"""A motion that contradicts the torque of one joint shows which drive is faulty."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pinocchio as pin
import pytest

from idcontrol import robots
from idcontrol.loop.launch import LoopSettings, _Work
from idcontrol.loop.motion import LAG_S, LEARNT_S, SETTLE_S, SMOOTHING_S, USUAL_S, MotionJudge, judged
from idcontrol.loop.safety import Fault, Policy
from idcontrol.scenes.session import WalkSession
from idcontrol.scenes.walk import ActuatorSettings, WalkConfig
from idcontrol.types import Sensed, State
from tests.loop.storms import Body, Storm, walking

H, SHARE, DEAD_S = 1e-3, 0.02, 0.6
JOINT = 4
"""The joint of these tests."""
BENT = 0.2 * np.cos(np.arange(12.0))
"""Angles that make a stance asymmetric [rad]."""


def standing(robot, friction, bent=0.0):
    """Return a judge, the state at rest, the torques that hold it, and the limits; all feet carry the robot.

    The joints are `bent` away from the usual posture [rad].
    """
    model_of = robots.load(robot)
    feet, system = model_of.contacts(0.8), model_of.system()
    state = model_of.standing_state()
    q, v, limit = state.q.copy(), np.zeros(system.n_velocities), system.effort_limit
    q[7:] += bent
    hold = pin.rnea(system.model, system.data, q, v, v)
    pin.computeJointJacobians(system.model, system.data, q)
    pin.updateFramePlacements(system.model, system.data)
    rows = []
    for at, centre in zip(*feet.mounting(), strict=True):
        J = pin.getJointJacobian(system.model, system.data, int(at), pin.LOCAL_WORLD_ALIGNED)
        point = system.data.oMi[int(at)].rotation @ centre - np.array([0.0, 0.0, feet.radius[0]])
        rows.append(J[:3] - pin.skew(point) @ J[3:])
    J = np.vstack(rows)
    force = np.linalg.lstsq(J[:, :6].T, hold[:6], rcond=None)[0]
    torque = (hold - J.T @ force)[6:]
    return MotionJudge(feet, limit, friction, *np.zeros((2, len(limit)))), State(t=0.0, q=q, v=v), torque, limit


def judge(robot, change, duration_s=0.3, friction=0.0, bent=0.0, lifted=lambda t: 0.0):
    """Return a judge and its verdicts of a robot at rest whose torques are sent with ``change(t)`` of their limits.

    The accelerometer reads ``lifted(t)`` too much [m/s²].
    """
    by, state, torque, limit = standing(robot, friction, bent)
    sent, verdicts = np.zeros((5, len(torque))), []
    for k in range(round(duration_s / H)):
        sent[0] = torque + change(k * H) * limit
        at = State(t=k * H, q=state.q, v=state.v)
        sensed = Sensed(state=at, tau=sent[0], accelerometer=np.array([0.0, 0.0, 9.81 + lifted(k * H)]))
        verdicts.append(by(sensed, sent, SHARE))
    return by, verdicts, limit


def test_opposite_hips_of_a_symmetric_stance_are_both_named():
    by, verdicts, _ = judge("go1", lambda t: 0.1 * (t >= 0.2) * np.eye(12)[0], 0.3)
    assert verdicts[-1] == Fault.MOTION
    assert np.flatnonzero(by.off).tolist() == [0, 3]


@pytest.mark.parametrize("robot", ["links", "go1", "solo12"])
@pytest.mark.parametrize("joint", [0, 4, 6, 7, 8])
def test_the_error_of_a_torque_is_recovered_and_none_but_of_hips_that_look_alike(robot, joint):
    """The torque that is sent changes by a twentieth of the limit, and the robot does not move.

    The joints are bent, because opposite hips look most alike in a symmetric stance.
    """
    begin, passed = 1.0, 6
    by, verdicts, limit = judge(
        robot, lambda t: 0.05 * (t >= begin) * np.eye(12)[joint], begin + passed * SMOOTHING_S, bent=BENT
    )
    off = by.off / limit
    named = np.flatnonzero(off).tolist()
    assert joint in named
    assert named == [joint] or not any(j % 3 for j in named)
    shown = 1.0 - (1.0 + passed) * np.exp(-passed)  # by two lags
    learnt = (passed - 2.0) * SMOOTHING_S / USUAL_S  # their mean delay is two time constants
    assert off[joint] == pytest.approx(-0.05 * (shown - learnt), abs=1e-3)
    assert not any(verdicts[: round(begin / H)])
    assert all(verdicts[round((begin + 3 * SMOOTHING_S) / H) :])


@pytest.mark.parametrize("joint", [4, 10])  # joints of different legs look alike at rest
def test_a_torque_that_varies_without_any_effect_is_the_share_that_a_drive_lacks(joint):
    varies, size = np.eye(12)[joint], 0.1

    def change(t):
        return size * np.sin(20.0 * t) * varies

    by, verdicts, limit = judge("go1", change, 2.0, friction=0.2)
    torque = standing("go1", 0.0)[2]
    assert verdicts[-1] & Fault.WEAK
    square = 0.5 * (size * limit[joint]) ** 2
    assert by.lost[joint] == pytest.approx(square / (torque[joint] ** 2 + square), rel=0.1)  # means over half a second
    assert np.count_nonzero(by.lost) == 1


def test_a_drive_that_explains_little_of_the_residual_is_not_weak():
    """The residual of a payload, which comes and goes with the feet that stand, is like this."""

    def change(t):
        return 0.1 * np.sin(20.0 * t) * np.eye(12)[JOINT]

    def lifted(t):
        return 3.0 * np.sin(20.0 * t)

    assert judge("go1", change, 1.6)[1][-1] & Fault.WEAK
    assert not judge("go1", change, 1.6, lifted=lifted)[1][-1] & Fault.WEAK


def test_torques_of_two_legs_that_lack_a_share_are_no_weak_drive():
    for joints in ((1, 10), (2, 5)):
        both = np.eye(12)[list(joints)].sum(axis=0)
        _, verdicts, _ = judge("go1", lambda t, both=both: 0.1 * np.sin(20.0 * t) * both, 2.0, friction=0.2)
        assert not any(verdict & Fault.WEAK for verdict in verdicts)


def test_a_robot_at_rest_and_offsets_that_last_are_no_fault():
    for change in (0.0, 0.05):
        _, verdicts, _ = judge("go1", lambda t, change=change: change * np.eye(12)[JOINT])
        assert not any(verdicts)


def test_a_short_error_becomes_usual_less_than_its_mean():
    """Otherwise the motion after a push would contradict a torque."""
    size, lasts = 0.8, 0.04

    def change(t):
        return size * (0.3 <= t < 0.3 + lasts) * np.eye(12)[JOINT]

    by, _, limit = judge("go1", change, 0.5)
    assert 0.0 < by.off[JOINT] / limit[JOINT] < 0.6 * size * lasts / USUAL_S


@pytest.mark.parametrize(("stop", "sign"), [("lower", -1.0), ("upper", 1.0)])
def test_the_torque_of_a_stop_is_no_error_of_a_drive(stop, sign):
    model_of = robots.load("go1")
    to_stop = getattr(model_of.system().limits, stop)[JOINT] - model_of.standing_state().q[7 + JOINT]
    bent = BENT.copy()
    bent[JOINT] = to_stop

    def errs(by):
        return any(judge("go1", lambda t: by * (t >= 0.2) * np.eye(12)[JOINT], bent=bent)[1])

    assert not errs(0.05 * sign)  # the stop holds what the drive presses against it
    assert errs(-0.05 * sign)


def test_an_error_that_dry_friction_explains_is_no_fault():
    def change(t):
        return 0.05 * (t >= 0.3) * np.eye(12)[JOINT]

    assert any(judge("go1", change, 0.4)[1])
    assert not any(judge("go1", change, 0.4, friction=0.2)[1])  # seven times 0.2 N m are 6 % of the limit


@pytest.mark.parametrize(
    ("h", "late_s", "fault"), [(H, LAG_S, False), (H, 3.0 * LAG_S, True), (2.0 * H, 6.0 * H, False)]
)
def test_a_position_that_is_read_a_little_late_is_no_fault(h, late_s, fault):
    """A joint follows its target at 0.1 rad/s, and its drive seems to add 5 % of the limit because of the lag."""
    by, state, torque, limit = standing("go1", 0.0)
    sent, verdicts, rate = np.zeros((5, len(torque))), [], 0.1
    sent[0, :], sent[3, JOINT] = torque, 0.05 * limit[JOINT] / (rate * late_s)
    for k in range(round(0.4 / h)):
        q, moved = state.q.copy(), rate * max(k * h - 0.3, 0.0)
        sent[1, JOINT] = state.q[7 + JOINT] + moved
        q[7 + JOINT] += max(moved - rate * late_s, 0.0)
        at = State(t=k * h, q=q, v=state.v)
        verdicts.append(by(Sensed(state=at, tau=sent[0], accelerometer=np.array([0.0, 0.0, 9.81])), sent, SHARE))
    assert abs(by.off[JOINT]) > 1.5 * SHARE * limit[JOINT]
    assert any(verdicts) is fault


def test_a_torque_that_changes_may_be_wrong_by_its_change_within_the_age_of_readings():
    """At rest, a torque grows by a third of its limit per second."""
    by, state, torque, limit = standing("go1", 0.0)
    sent, rate, k, fault = np.zeros((5, len(torque))), 1.0 / 3.0, 0, Fault.NONE
    while not fault:
        sent[0] = torque + rate * max(k * H - 0.3, 0.0) * limit * np.eye(12)[JOINT]
        at = State(t=k * H, q=state.q, v=state.v)
        fault = by(Sensed(state=at, tau=sent[0], accelerometer=np.array([0.0, 0.0, 9.81])), sent, SHARE)
        k += 1
    assert -by.off[JOINT] / limit[JOINT] == pytest.approx(SHARE + LAG_S * rate, abs=1.2 * rate * H)


def test_a_velocity_that_the_drives_need_not_feed_back_is_no_fault():
    """At rest, a joint's velocity is read as 1 rad/s, so that damping seems to add a torque of 5 % of the limit."""
    for damping, wrong in ((0.05, 0.0), (0.0, 0.05)):  # shares of the limit: seemingly added, or really wrong
        by, state, torque, limit = standing("go1", 0.0)
        sent, verdicts = np.zeros((5, len(torque))), []
        for k in range(400):
            v = np.zeros(18)
            v[6 + JOINT] = k >= 300
            sent[0, :], sent[4, JOINT] = torque, damping * limit[JOINT]
            sent[0, JOINT] -= wrong * limit[JOINT] * (k >= 300)
            at = State(t=k * H, q=state.q, v=v)
            verdicts.append(by(Sensed(state=at, tau=sent[0], accelerometer=np.array([0.0, 0.0, 9.81])), sent, SHARE))
        assert abs(by.off[JOINT]) > 1.5 * SHARE * limit[JOINT]
        assert any(verdicts) is (damping == 0.0)


def test_a_machine_in_place_of_the_simulated_one_has_the_friction_of_its_robot_file():
    def friction(robot, peer):
        session = WalkSession("trot", WalkConfig(robot=robot))
        return _Work._friction(SimpleNamespace(session=session, settings=SimpleNamespace(peer=peer)), None)

    assert friction("go1", None) == friction("links", None) == 0.0
    assert friction("go1", "10.0.0.1:5000").tolist() == [0.2] * 12
    np.testing.assert_allclose(friction("links", "10.0.0.1:5000"), 0.01 * robots.load("links").system().effort_limit)


def test_a_loop_allows_for_the_friction_of_simulated_drives():
    config = WalkConfig(robot="go1", actuators=ActuatorSettings(kind="robot"))
    work = _Work("idcontrol.experiments.live:loop", config, LoopSettings(), None, Path(), None)
    assert work.parts.friction.tolist() == [0.2] * 12


def test_nothing_is_judged_before_the_filters_settle():
    _, verdicts, _ = judge("go1", lambda t: 0.5 * np.eye(12)[JOINT] * np.sin(50.0 * t))
    assert not any(verdicts[: round((SETTLE_S + LEARNT_S) / H)])


def test_only_floating_robots_with_foot_spheres_are_judged():
    assert judged(robots.load("links").contacts(0.8)) is not None
    assert judged(None) is None


def test_commands_that_come_late_are_no_fault_of_a_drive():
    rig = walking("links", "impedance", duration_s=0.3, seed=1)
    rig.commands.delay_s = 0.0, 0.033
    rig.run()
    assert rig.loop.counts.complete
    assert not any(int(row["faults"]) & (Fault.TORQUE | Fault.MOTION) for row in rig.rows)


class Slips:
    """A judge of the motion to which the encoder of joint 2 always slips."""

    slips = 2

    def restart(self):
        pass

    def __call__(self, *args):
        return Fault.SLIP


def test_a_drive_that_disobeys_is_named_and_not_an_encoder_that_slips():
    rig = walking("links", "torque", duration_s=0.1)
    rig.loop._observer._motion = Slips()
    Storm(rig, Body(rig), None).lie(0.4, 0.41, lambda of: of["tau_applied"].__setitem__(5, 9.0))
    rig.run()
    named = {int(row["faults"]) & (Fault.TORQUE | Fault.SLIP): int(row["doubted"]) for row in rig.rows}
    assert (named[Fault.SLIP], named[Fault.SLIP | Fault.TORQUE]) == (2, 5)


@pytest.mark.parametrize("wrong", [-1, 100])
def test_a_machine_that_echoes_no_command_or_a_later_one_is_judged_by_the_last_command(wrong):
    rig = walking("links", "impedance", duration_s=0.1)
    outbox = rig.machine.endpoint.outbox
    seal = outbox.seal
    outbox.seal = lambda mode, stamp, echo: seal(mode, stamp, echo + wrong * echo)
    rig.run()
    assert rig.loop.counts.complete
    assert not any(int(row["faults"]) & (Fault.TORQUE | Fault.MOTION) for row in rig.rows)


@pytest.mark.covering
@pytest.mark.parametrize("kind", ["torque", "impedance"])
@pytest.mark.parametrize(("share", "least"), [(0.0, Policy().motion_share), (0.6, SHARE)])
def test_a_weak_drive_is_noticed_before_its_torque_is_wrong_by_a_fifth(kind, share, least):
    """The drive reports the torque that was sent."""
    rig = walking("links", kind, duration_s=0.8, policy=Policy(motion_share=least))
    storm = Storm(rig, Body(rig), np.random.default_rng(0))
    storm.at(DEAD_S, lambda: storm.body.strength.__setitem__(JOINT, share))
    storm.lie(DEAD_S, 9.0, lambda of: of["tau_applied"].__setitem__(JOINT, rig.loop.row.of["tau"][JOINT]))
    rig.run()
    assert rig.loop.safety.ended_by == Fault.MOTION
    last = next(k for k, row in enumerate(rig.rows) if int(row["faults"]) & Fault.MOTION)
    assert last >= DEAD_S / H
    tau = np.array([row["tau"][JOINT] for row in rig.rows[round(DEAD_S / H) : last]])
    assert (1.0 - share) * np.abs(tau).max() < 0.2 * rig.session.limits.torque[JOINT]
    assert np.abs(rig.rows[last]["torque_off"]).argmax() == JOINT


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["torque", "impedance"])
def test_friction_that_hides_a_weak_drive_does_not_hide_that_it_lacks_a_share(kind):
    """All joints of the plant have the dry friction that the judge knows; the drive applies 60 %."""
    friction = 0.2
    rig = walking("go1", kind, duration_s=2.4, parts=walking("go1", kind).parts | {"friction": friction})
    storm = Storm(rig, Body(rig), np.random.default_rng(0))
    machine, step = rig.machine, rig.machine._plant.step

    def rubbed(command, dt):
        v = machine._system.joint_velocities(machine._motion.state.v)
        rows = np.array(command, copy=True)
        rows.reshape(-1, 12)[0] -= friction * np.tanh(v / 0.05)
        return step(rows, dt)

    machine._plant.step = rubbed
    begins = []
    storm.at(1.5, lambda: begins.append(len(rig.rows)))
    storm.at(1.5, lambda: storm.body.strength.__setitem__(JOINT, 0.6))
    storm.lie(0.0, 9.0, lambda of: of["tau_applied"].__setitem__(slice(None), rig.loop.row.of["tau"]))
    rig.run()
    weak = [k for k, row in enumerate(rig.rows) if int(row["faults"]) & Fault.WEAK]
    assert begins[0] < weak[0] < begins[0] + 0.6 / H
    assert all(np.flatnonzero(rig.rows[k]["torque_lost"]) == JOINT for k in weak)
    assert not rig.loop.safety.ended_by & ~Fault.MOTION  # later its torque may be wrong by more than friction
