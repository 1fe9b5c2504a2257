"""``import idcontrol as idc``: its names, its cost, and that it works in any folder."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

import idcontrol as idc
from idcontrol.errors import InputError, UnknownName

ROOT = Path(__file__).parents[1]


def python(code: str, folder: Path) -> str:
    """Run `code` in a new Python, in an empty folder, with only idcontrol on its path; return what it prints."""
    site = folder / "site"
    site.mkdir()
    (site / "idcontrol").symlink_to(ROOT / "idcontrol")
    here = folder / "here"
    here.mkdir()
    words = [sys.executable, "-P", "-c", code]
    done = subprocess.run(words, cwd=here, env={"PYTHONPATH": str(site)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_import_loads_nothing_else(tmp_path):
    loaded = python("import sys, idcontrol; print(*sys.modules)", tmp_path).split()
    assert not {"numpy", "pinocchio", "numba", "scipy", "msgspec", "h5py"} & set(loaded)
    assert [name for name in loaded if name.startswith("idcontrol")] == ["idcontrol"]


def test_every_name_is_there_and_no_other_is_shown():
    assert dir(idc) == sorted(idc.__all__)
    assert all(getattr(idc, name) is not None for name in idc.__all__)
    with pytest.raises(AttributeError, match="no attribute 'teleport'"):
        idc.teleport  # noqa: B018


@pytest.mark.parametrize("name", ["links", "go1", "solo12", "anymal"])
def test_a_robot_stands_in_its_standing_state(name):
    robot = idc.robots.load(name)
    contacts = robot.contacts(mu=0.8)
    state, reference = robot.standing_state(), robot.standing_reference()
    contacts.system.update(state.q, state.v)
    assert contacts.detect(1e-9).gap == pytest.approx(np.zeros(4), abs=1e-9)
    assert (contacts.system.joint_positions(state.q) == reference.q).all()
    assert reference.stance.tolist() == [True] * 4


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"rate_hz": 0}, r"rate_hz must be a number from 0.001 to 1e\+06, not 0"),
        ({"rate_hz": -1000.0}, r"rate_hz must be a number from 0.001 to 1e\+06, not -1000.0"),
        ({"rate_hz": 1e-300}, r"rate_hz must be a number from 0.001 to 1e\+06, not 1e-300"),
        ({"rate_hz": 1e300}, r"rate_hz must be a number from 0.001 to 1e\+06, not 1e\+300"),
        ({"rate_hz": np.nan}, r"rate_hz must be a number from 0.001 to 1e\+06, not nan"),
        ({"rate_hz": np.inf}, r"rate_hz must be a number from 0.001 to 1e\+06, not inf"),
        ({"rate_hz": True}, r"rate_hz must be a number from 0.001 to 1e\+06, not True"),
        ({"rate_hz": "1000"}, r"rate_hz must be a number from 0.001 to 1e\+06, not '1000'"),
        ({"rate": 500.0}, "no argument 'rate'; did you mean 'rate_hz'?"),
        ({"mu": True}, "mu must be a number from 0 to inf, not True"),
        ({"mu": -1}, "mu must be a number from 0 to inf, not -1"),
        ({"mu": np.nan}, "mu must be a number from 0 to inf, not nan"),
        ({"mu": None}, "mu must be a number from 0 to inf, not None"),
        ({"robot": None}, "None is no robot; pass the result of idcontrol.robots.load"),
        ({"robot": "links"}, "'links' is no robot; pass the result of idcontrol.robots.load"),
        ({"name": "pdi"}, "no .* 'pdi'"),
        ({"name": None}, "no .* None"),
    ],
)
@pytest.mark.parametrize(("registry", "name"), [(idc.controllers, "pid"), (idc.plants, "coulomb-lcp")])
def test_unusable_arguments_are_refused_in_one_line(registry, name, wrong, line):
    arguments = {"name": name, "robot": idc.robots.load("links"), "mu": 0.8, "rate_hz": 1000.0} | wrong
    with pytest.raises(idc.IdControlError, match=line) as refused:
        registry.make(arguments.pop("name"), arguments.pop("robot"), **arguments)
    assert "\n" not in str(refused.value)


def test_a_command_that_failed_says_so_when_it_is_printed():
    robot = idc.robots.load("links")
    controller, state = idc.controllers.make("pid", robot, mu=0.8), robot.standing_state()
    command = controller(state, robot.standing_reference())
    assert str(command.status) == f"{command.status}" == "SOLVED"
    assert repr(command).startswith("Command(tau=array([")
    failed = controller(structs.replace(state, q=np.nan * state.q), robot.standing_reference())
    assert str(failed) == "<Command: FAILED, no torque: state.q is not finite>"


def test_a_run_is_recorded_and_read_back(monkeypatch, tmp_path):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    run = idc.run("trot", controller="pid", duration=0.05, mu=0.3, **{"path.speed": 0.1})
    assert run.metrics["completed"]
    assert (run.folder, run.config["mu"], run.config["path"]["speed_m_s"]) == (
        Path("runs/trot-mu0.3-pid-duration0.05-speed0.1"),
        0.3,
        0.1,
    )
    again = idc.load(run.folder)
    assert (again.arrays["tau"] == run.arrays["tau"]).all()
    table = again.frame("tau")
    assert table.shape == (50, 12)
    assert (table["RH_Y_3"] == again.arrays["tau"][:, 11]).all()
    assert (table.attrs["units"]["RH_Y_3"], again.frame("v").attrs["units"]["base_wz"]) == ("N m", "rad/s")
    assert (again.frame("q")["LH_X_1"] == again.arrays["q"][:, 10]).all()
    assert (again.frame("force")["LH", "z"] == again.arrays["force"][:, 2, 2]).all()
    assert (table.index == again.arrays["t"]).all()
    with pytest.raises(InputError, match="torque"):
        again.frame("torque")


def test_a_run_describes_itself_and_draws_requested_plots(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    run = idc.run("trot", controller="pid", duration_s=0.3)
    assert repr(run) == f"<Run: trot, pid on coulomb-lcp, links, μ = 0.8, 0.3 s: completed; {run.folder}>"
    summary = run._repr_html_()
    assert "joint position error, mean" in summary
    assert "mrad" in summary
    both = run.plot.torques(joints=["LF_X_1", "LF_Y_2"], window=(0.1, 0.2)).figure.axes
    assert [len(axes.lines) for axes in both] == [2, 2]
    np.testing.assert_array_equal(both[0].lines[1].get_ydata(), run.arrays["tau"][100:201, 1])
    assert both[1].get_xlim() == pytest.approx((0.1, 0.2))
    for draw in (run.plot.forces, run.plot.path, run.plot.smoothness):
        assert draw()._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(InputError, match="'knee' is none of LF_X_1"):
        run.plot.torques(joints=["knee"])
    with pytest.raises(InputError, match="has no row; the run lasts"):
        run.plot.torques(window=(5.0, 6.0))
    with pytest.raises(InputError, match="is not a walk"):
        idc.run("pendulum", duration_s=0.01).plot  # noqa: B018


@pytest.mark.parametrize(("settings", "line"), [({"friction.cup": 1}, "friction.cap"), ({"preset": "papier"}, "paper")])
def test_a_setting_that_does_not_exist_is_refused_and_leaves_no_folder(settings, line, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownName, match=line):
        idc.run("trot", **settings)
    assert not list(tmp_path.iterdir())
