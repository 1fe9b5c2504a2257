"""Exchanged joints and wrong signs are found in logs, and mended in the robot file."""

import functools

import numpy as np
import pytest

import idcontrol as idc
from idcontrol import robots
from idcontrol.experiments.identified import description
from idcontrol.identify.identification import Question, identify
from idcontrol.identify.logs import Log, log_from, log_of
from idcontrol.identify.wiring import UNEXPLAINED, Judged, Wiring, certain, corrected, words
from tests.identify import synthetic

ONLY = frozenset({"wiring"})


@pytest.fixture(scope="module")
def trot(tmp_path_factory: pytest.TempPathFactory):
    @functools.cache
    def log(name: str) -> Log:
        run = idc.run("trot", robot=name, duration=0.6, out=tmp_path_factory.mktemp(name))
        return log_of(run, robots.load(name))

    return log


@pytest.mark.parametrize(
    ("name", "exchanged", "turned", "reverse"),
    [
        ("links", (0, 5), (4,), (10,)),
        pytest.param("links", (), (), (), marks=pytest.mark.slow),
        pytest.param("links", (1, 2), (1,), (7,), marks=pytest.mark.slow),
        pytest.param("go1", (3, 4), (3, 8), (5,), marks=pytest.mark.slow),
    ],
)
def test_exchanged_and_turned_joints_of_a_walk_are_named_or_in_doubt(name, exchanged, turned, reverse, trot) -> None:
    """The torques of all drives are wrong by up to 20 %."""
    robot = robots.load(name)
    system, order, joints = robot.system(), np.arange(12), np.arange(12)
    log = trot(name)
    log = log._replace(tau=log.tau * np.random.default_rng(0).uniform(0.8, 1.2, 12))
    order[list(exchanged)] = exchanged[::-1]
    turn, torque = (np.where(np.isin(joints, of), -1.0, 1.0) for of in (turned, reverse))
    # an exchange is its own inverse: the joint that was recorded as i is order[i]
    wrong = corrected(log, system, Wiring(order, turn[order], torque[order]))
    result = identify([wrong], robot, Question(ONLY, None, True))
    assert result.wiring is not None
    wiring = result.wiring.wiring
    names, doubts = system.actuated_names, ("", "the sign of {}", "the sign of {}'s torque")
    for mine, true, doubt in zip(wiring, (order, turn, torque), doubts, strict=True):
        for i in np.flatnonzero(mine != true):  # at worst, a sign is in doubt
            assert mine[i] == 1.0
            assert doubt.format(names[i]) in result.wiring.unsure
    if name == "go1":  # its hips hardly turn
        assert len(list(words(wiring, names))) >= 3
        return
    assert len(list(words(wiring, names))) == len(exchanged) // 2 + len(turned) + len(reverse)
    machine = description(result, robot, None)[0].orders.get("identified")
    if not exchanged:
        assert machine is None
        return
    place = [machine.joints.index(joint) for joint in names]
    sign = np.array([-1.0 if joint in machine.turned else 1.0 for joint in names])
    scale = np.array([machine.torque_scale.get(joint, 1.0) for joint in names])
    np.testing.assert_allclose(sign * wrong.q[:, system.joint_q][:, place], log.q[:, system.joint_q], atol=1e-12)
    np.testing.assert_allclose(sign * scale * wrong.tau[:, place], log.tau, atol=1e-12)


def standing(torque: float) -> Log:
    """Return a log of go1 that stands still, with `torque` times the torques that carry it."""
    robot = robots.load("go1")
    system, t = robot.system(), synthetic.H * np.arange(400)
    start = robot.standing_state(system).q
    system.update(start, np.zeros(18))
    J = synthetic.contact_jacobian(robot, system.model, system.model.createData(), start)
    force = np.linalg.lstsq(J[:, :6].T, system.bias[:6], rcond=None)[0]
    tau = torque * (system.bias - J.T @ force)[6:]
    one = {"q": start, "v": np.zeros(18), "tau": tau, "force": force.reshape(4, 3)}
    return log_from(
        "still", {"t": t} | {name: np.tile(each, (len(t), *(1,) * each.ndim)) for name, each in one.items()}, robot
    )


@pytest.mark.slow
def test_a_robot_that_stands_still_does_not_tell_its_two_sides_apart() -> None:
    robot = robots.load("go1")
    result = identify([standing(1.0)], robot, Question(ONLY, None, True))
    assert result.wiring is not None
    assert not list(words(result.wiring.wiring, robot.system().actuated_names))
    groups = [line for line in result.wiring.unsure if line.startswith("which of")]
    assert any("FL_hip_joint" in line and "FR_hip_joint" in line for line in groups)
    assert not any("FL_thigh_joint" in line and "FL_calf_joint" in line for line in groups)
    assert "the sign of FL_calf_joint" not in result.wiring.unsure


@pytest.mark.slow
def test_torques_that_nothing_explains_tell_nothing() -> None:
    robot = robots.load("go1")
    result = identify([standing(5.0)], robot, Question(ONLY, None, True))
    assert result.wiring is not None
    assert result.wiring.unsure == (UNEXPLAINED,)
    assert not list(words(result.wiring.wiring, robot.system().actuated_names))


def judged(misfit: float, source=(0, 1, 2), turn=(1.0, 1.0, 1.0), torque=(1.0, 1.0, 1.0)) -> Judged:
    wiring = Wiring(np.array(source), np.array(turn), np.array(torque))
    return Judged(wiring, misfit, misfit, np.full(3, 1e3), np.ones(3))


@pytest.mark.parametrize(
    ("others", "source", "turn", "unsure"),
    [
        ([judged(50.0)], (1, 0, 2), (1.0, 1.0, -1.0), ()),
        ([judged(3.0)], (0, 1, 2), (1.0, 1.0, 1.0), ("which of a, b is which", "the sign of c")),
        ([judged(3.0, turn=(1.0, 1.0, -1.0))], (0, 1, 2), (1.0, 1.0, -1.0), ("which of a, b is which",)),
        (
            [judged(3.0, source=(1, 2, 0), turn=(1.0, -1.0, 1.0))],
            (0, 1, 2),
            (1.0, 1.0, -1.0),
            ("which of a, b, c is which",),
        ),
    ],
)
def test_an_error_is_claimed_if_all_likely_wirings_share_it(others, source, turn, unsure) -> None:
    """The best wiring exchanges a and b, and turns the joint recorded as c."""
    diagnosis = certain(judged(2.0, source=(1, 0, 2), turn=(1.0, 1.0, -1.0)), others, ["a", "b", "c"])
    assert diagnosis.wiring.source.tolist() == list(source)
    assert diagnosis.wiring.turn.tolist() == list(turn)
    assert diagnosis.unsure == unsure
