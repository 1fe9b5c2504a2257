"""Errors of 20 to 25 % in bodies and drives are recovered from synthetic logs, parameters of drives within 3 %."""

from pathlib import Path

import numpy as np
import pytest

from idcontrol import robots
from idcontrol.errors import InputError
from idcontrol.identify.equations import DRIVE
from idcontrol.identify.identification import PARTS, Identified, Question, identify
from idcontrol.identify.logs import Log, log_from, read_arrays
from tests.identify import synthetic
from tests.identify.synthetic import Truth

ALL = frozenset(PARTS) - {"offsets"}


def of_drives(result: Identified) -> dict[str, np.ndarray]:
    a = result.system.n_actuated
    return dict(zip(DRIVE, result.fit.theta[-4 * a :].reshape(4, a), strict=True))


def assert_drives(result: Identified, truth: Truth, *names: str) -> None:
    true = truth.actuators._asdict() | {"scale": truth.scale}
    for name in names:
        np.testing.assert_allclose(of_drives(result)[name], true[name], rtol=0.03, err_msg=name)


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


@pytest.fixture(scope="module")
def arm() -> tuple[Truth, dict[str, np.ndarray]]:
    robot = robots.load("arm")
    truth = synthetic.planted(robot, np.random.default_rng(0), bodies=0.25, armature=0.02)
    return truth, synthetic.arm_log(robot, truth, 4.0)


def test_links_and_losses_of_an_arm_are_recovered(arm: tuple[Truth, dict[str, np.ndarray]]) -> None:
    truth, arrays = arm
    robot = robots.load("arm")
    log = log_from("arm", arrays | {"tau": truth.scale * arrays["tau"]}, robot)
    result = identify([log], robot, Question(ALL - {"scale"}, None, False))
    assert_drives(result, truth, "armature", "damping", "friction")
    assert rms(result.after) < 0.01 * rms(result.before)
    # the first link turns about the vertical, so gravity does not weigh it
    sd, before = (np.sqrt(np.diag(C))[0] for C in (result.fit.covariance, result.fit.before))
    assert sd > 0.9 * before


def test_torque_constants_of_an_arm_are_recovered_if_its_links_are_known(
    arm: tuple[Truth, dict[str, np.ndarray]],
) -> None:
    truth, _ = arm
    robot = robots.load("arm")
    known = truth._replace(model=robot.system().model)
    log = log_from("arm", synthetic.arm_log(robot, known, 4.0), robot)
    result = identify([log], robot, Question(ALL - {"links"}, None, False))
    assert_drives(result, truth, "scale")


@pytest.fixture(scope="module")
def legged() -> tuple[Truth, Log]:
    robot = robots.load("go1")
    truth = synthetic.planted(robot, np.random.default_rng(1), bodies=0.25, armature=0.01)
    return truth, log_from("go1", synthetic.legged_log(robot, truth, 1.5), robot)


@pytest.mark.parametrize("measured", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["measured", "weighed"])
def test_a_robot_on_feet_is_recovered_from_forces_or_from_its_weight(measured: bool, legged: tuple[Truth, Log]) -> None:
    truth, log = legged
    mass = sum(inertia.mass for inertia in truth.model.inertias)
    result = identify([log], robots.load("go1"), Question(ALL, None if measured else mass, measured))
    assert_drives(result, truth, *(DRIVE if measured else ("scale",)))
    assert float(result.prior.masses @ result.fit.theta) == pytest.approx(mass, rel=0.003)
    assert rms(result.after[:, 6:]) < 0.02 * rms(result.before[:, 6:])


def test_masses_and_torque_constants_together_need_a_weight(legged: tuple[Truth, Log]) -> None:
    _, log = legged
    with pytest.raises(InputError, match="--mass KG"):
        identify([log], robots.load("go1"), Question(ALL, None, False))
    blind = log._replace(wrench=np.full_like(log.wrench, np.nan))
    with pytest.raises(InputError, match="--forces unknown"):
        identify([blind], robots.load("go1"), Question(ALL, None, True))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"gap": np.zeros((300, 2))}, "gap has shape"),
        ({"stance": np.zeros(4)}, "stance has shape"),
        ({"force": np.full((300, 4, 3), np.inf)}, "force is infinite"),
        ({"q": np.zeros((300, 19))}, "quaternions whose length is not 1"),
    ],
)
def test_logs_that_do_not_fit_a_robot_on_feet_are_refused(changes: dict[str, np.ndarray], line: str) -> None:
    robot = robots.load("go1")
    whole = {"t": 2e-3 * np.arange(300), "q": np.tile(robot.standing_state(robot.system()).q, (300, 1))}
    whole |= {"v": np.zeros((300, 18)), "tau": np.zeros((300, 12)), "gap": np.zeros((300, 4))}
    log_from("log", whole, robot)
    with pytest.raises(InputError, match=line):
        log_from("log", whole | changes, robot)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "whole.npz", t=np.arange(600.0))
    whole = (tmp_path / "whole.npz").read_bytes()
    assert read_arrays(tmp_path / "whole.npz")["t"].shape == (600,)
    np.save(tmp_path / "array.npy", np.arange(9.0))
    array = (tmp_path / "array.npy").read_bytes()
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 255
    for content in (b"", b"junk", array, whole[: len(whole) // 2], bytes(damaged)):
        (tmp_path / "log.npz").write_bytes(content)
        with pytest.raises(InputError, match=r"no arrays of numbers"):
            read_arrays(tmp_path / "log.npz")


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"tau": None}, "tau of arm has shape"),
        ({"t": np.array(1.0)}, "t of arm has shape"),
        ({"q": np.zeros((600, 3))}, "q of arm has shape"),
        ({"t": np.zeros(600)}, "times must rise"),
        ({"v": np.full((600, 11), np.nan)}, "v is not finite"),
    ],
)
def test_logs_that_do_not_fit_are_refused(changes: dict[str, np.ndarray | None], line: str) -> None:
    whole = {"t": 1e-3 * np.arange(600), **{name: np.zeros((600, 11)) for name in ("q", "v", "tau")}}
    arrays = {name: values for name, values in (whole | changes).items() if values is not None}
    with pytest.raises(InputError, match=line):
        log_from("log", arrays, robots.load("arm"))
