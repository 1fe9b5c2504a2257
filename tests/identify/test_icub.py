"""The mass of a real humanoid is identified from its recorded motion and the vertical forces on its feet alone."""

import itertools
import shutil
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from idcontrol import robots
from idcontrol.experiments import icub_forces
from idcontrol.identify.identification import Question, identify
from idcontrol.identify.logs import Log
from tests.experiments.measured import measured

ROBOT = """
schema = 1
name = "icub"
urdf = "icub.urdf"
base = "free-flyer"
[limits]
torque_nm = {"*" = 100}
velocity_rad_s = {"*" = 10}
[gains.torque]
kp_nm_rad = {"*" = 100}
kd_nm_s_rad = {"*" = 1}
[[soles]]
name = "left"
frame = "l_sole"
corners_m = [[0.1, 0.025, 0], [0.1, -0.025, 0], [-0.05, 0]]
[[soles]]
name = "right"
frame = "r_sole"
corners_m = [[0.1, 0.025, 0], [0.1, -0.025, 0], [-0.05, 0]]
""".replace("[-0.05, 0]", "[-0.05, 0, 0]")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "period"), [("icub_sway.npz", 0.01005), ("icub_walk.npz", 0.0101)])
def test_the_mass_is_what_the_soles_carry_on_average(name: str, period: float, tmp_path: Path) -> None:
    path = measured(name)
    shutil.copy(path.with_name("icub.urdf"), tmp_path)
    (tmp_path / "icub.toml").write_text(ROBOT)
    robot, raw = robots.load(tmp_path / "icub.toml"), icub_forces.read(path, period)
    model, n = robot.system().model, len(raw.q)
    q = icub_forces.smooth(raw.q, 1.5, period)
    q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
    v = np.array([pin.difference(model, *pair) for pair in itertools.pairwise(q)]) / period
    wrench = np.full((n - 1, 2, 6), np.nan)
    wrench[:, :, 2] = raw.measured[:-1]
    touching = np.ones((n - 1, 2), dtype=np.bool_)
    log = Log(name, period * np.arange(n - 1), q[:-1], v, np.full((n - 1, model.nv - 6), np.nan), wrench, touching)
    result = identify([log], robot, Question(frozenset({"links"}), None, True))
    mass = float(result.prior.masses @ result.fit.theta)
    used = raw.measured[: round(0.8 * n)].sum(axis=1).mean() / 9.81
    assert mass == pytest.approx(used, rel=0.01)
    sd = np.sqrt(result.prior.masses @ result.fit.covariance @ result.prior.masses)
    assert sd < 0.01 * mass
