"""Parent and children run the same idcontrol in any working directory, and find the user's modules."""

import json
import subprocess
import sys
import time
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import pytest

from idcontrol import cli
from idcontrol.config import processes
from idcontrol.config.entries import EXPERIMENTS, PLANTS
from idcontrol.errors import InputError
from idcontrol.scenes.walk import WalkConfig
from idcontrol.sweeps import running
from tests import GUARD_S
from tests.loop.rig import PATIENCE
from tests.parameters import one_fast

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-P", "-c", "import sys; from idcontrol.cli import main; sys.exit(main())"]
"""What the installed script ``idcontrol`` does."""

LAW = """
import numpy as np
from idcontrol.types import Command

class Limp:
    def reset(self): pass
    def __call__(self, state, reference): return Command(tau=np.zeros(2))
"""


@pytest.fixture(params=one_fast(("a clone", "packages", "plain folders"), "a clone"))
def folder(request, tmp_path, monkeypatch):
    """A folder with a controller and packages named like ours; idcontrol and an experiment are elsewhere."""
    here = tmp_path / "here"
    names = ("robots", "planners", "experiments", "idcontrol", "idcontrol/loop", "idcontrol/cli")
    for name in names:
        (here / name).mkdir(parents=True, exist_ok=True)
    if request.param == "packages":
        for name in names:
            (here / name / "__init__.py").write_text("")
    if request.param == "a clone":
        for name in ("__init__", "loop/__init__", "cli/__init__"):
            (here / "idcontrol" / f"{name}.py").write_text("raise SystemExit('the clone is run')")
    for name in ("loop/plant_process", "loop/record", "cli/child"):
        (here / "idcontrol" / f"{name}.py").write_text("raise SystemExit('the working directory is run')")
    (here / "robots" / "law.py").write_text(LAW)

    site = tmp_path / "site"
    information = site / "of_tests-1.0.dist-info"
    information.mkdir(parents=True)
    for name in ("idcontrol", "tests"):  # not their parent, which has packages robots, planners and experiments, too
        (site / name).symlink_to(ROOT / name)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: of-tests\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(
        "[idcontrol.experiments]\ndrift = tests.sweeps.drift:experiment\n"
        "[idcontrol.loops]\narm = tests.loop.rig:offer\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.chdir(here)
    return here


def output(words: list[str]) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=GUARD_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_comparison_runs_the_installed_package(folder):
    result = json.loads(output([*COMMAND, "compare", "drift", "--controllers", "pid", "--seeds", "1", "--json"]))
    assert [row["reason"] for row in result["rows"]] == [None]


@pytest.mark.slow
@pytest.mark.wallclock
def test_a_loop_runs_the_installed_package_with_a_local_controller(folder):
    words = ["loop", "--experiment", "arm", "--controller", "robots.law:Limp", "--duration", "0.2", "--json"]
    result = json.loads(output([*COMMAND, *words, *PATIENCE]))
    assert result["ended"] == "duration"


@pytest.mark.slow
def test_a_child_imports_the_package_of_its_parent_without_a_path_to_it(folder, monkeypatch):
    monkeypatch.delenv("PYTHONPATH")
    result = output([*processes.command("idcontrol", "list", "controllers", "--json")])
    assert "id-coulomb-qp" in json.loads(result)["controllers"]


@pytest.mark.slow
def test_the_helper_process_makes_a_short_run_of_the_same_kind(monkeypatch, tmp_path):
    helpers = []

    def announced(what, helper):
        helpers.append(helper)
        raise InputError("enough")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "announced", announced)
    assert cli.main(["run", "trot", "--plant", "sap", "--mu", "inf", "--set", "kick.at_s=0.5"]) == 2
    words = ["idcontrol.cli.child" if word == "idcontrol.cli.helper" else word for word in helpers[0]]
    with subprocess.Popen([*words, "--out", "run"], stdin=subprocess.PIPE) as process:
        assert process.wait(timeout=GUARD_S) == 0
    recorded = json.loads(Path("run/config.json").read_text(encoding="utf-8"))
    assert (recorded["controller"], recorded["plant"], recorded["mu"], recorded["kick"]["at_s"]) == (
        "pid",
        "sap",
        "inf",
        0.5,
    )
    assert recorded["duration_s"] == 1.0 / recorded["rate_hz"]


def test_no_helper_process_starts_for_plain_runs_or_machines(monkeypatch):
    """There is only one machine, and a second process would also move it."""
    entries = {
        EXPERIMENTS: {"trot": EntryPoint("trot", "idcontrol.experiments.trot:experiment", EXPERIMENTS)}
        | {"theirs": EntryPoint("theirs", "their.experiment:experiment", EXPERIMENTS)},
        PLANTS: {"their-machine": EntryPoint("their-machine", "their.machine:Machine", PLANTS)},
    }
    monkeypatch.setattr(running, "entry_points", entries.get)

    def helps(experiment="trot", **settings):
        return running._helper(SimpleNamespace(name=experiment), WalkConfig(**settings)) != []

    assert helps()
    assert not helps(controller="pid")
    assert not helps(plant="machine.py:Machine")
    assert not helps(plant="their-machine")
    assert not helps("theirs")


@pytest.mark.slow
def test_a_helper_process_ends_with_its_parent_and_leaves_no_record(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    words = processes.command("idcontrol.cli.helper", "run", "trot", "--controller", "pid", "--duration", "1000")
    with subprocess.Popen([*words, "--quiet"], stdin=subprocess.PIPE) as process:
        while process.poll() is None and not list(tmp_path.glob("*/record.log")):
            time.sleep(0.05)
        process.communicate(timeout=GUARD_S)
    assert process.returncode == 1
    assert not list(tmp_path.iterdir())
