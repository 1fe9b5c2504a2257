"""User controllers and plants by place: package.module:Class or file.py:Class."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import idcontrol as idc
from idcontrol import cli, controllers, plants
from idcontrol.config import entries
from idcontrol.controllers.pid import Pid
from idcontrol.errors import InputError, UnknownName
from idcontrol.types import Command
from tests.loop.rig import ArmSession


@functools.cache
def setup():
    return ArmSession().setup()


FILE = '''
from __future__ import annotations
from dataclasses import dataclass
import numpy as np
from idcontrol import plants
from idcontrol.types import Command

class FromRobot:
    """A PD law."""
    def __init__(self, robot, mu, rate):
        self.given = robot.name, mu, rate
        self.system = robot.system()
        self.kp, self.kd = robot.torque_gains(self.system.actuated_names)
    def reset(self): pass
    def __call__(self, state, reference):
        q, v = self.system.joint_positions(state.q), self.system.joint_velocities(state.v)
        tau = self.kp * (reference.q - q) + self.kd * (reference.v - v)
        return Command(tau=np.clip(tau, -self.system.effort_limit, self.system.effort_limit))

@dataclass
class FromSetup:
    setup: object
    def reset(self): pass
    def __call__(self, state, reference): pass

class Plant:
    def __init__(self, setup):
        self._plant = plants.build("coulomb-lcp", setup)
        self.last = None
        self.reset, self.contact_forces = self._plant.reset, self._plant.contact_forces
    def reset(self, state): return self._plant.reset(state)
    def step(self, tau, dt): return self._plant.step(tau, dt)
    def contact_forces(self): return self._plant.contact_forces()
    def push(self, velocity): self._plant.push(velocity)

class WithoutLast(Plant):
    def __init__(self, setup): pass

class Four:
    def __init__(self, a, b, c, d): pass
    def reset(self): pass
    def __call__(self, state, reference): pass
'''

FAULTY = '''
from idcontrol.errors import InputError
from idcontrol.types import Command
from mine import FromRobot

class Torn(FromRobot):
    """It fails after some periods, as its robot says."""
    def __call__(self, state, reference):
        if state.t > 0.005:
            self.fail(state, reference)
        return super().__call__(state, reference)

class Asking(Torn):
    def fail(self, state, reference): state.velocity

class Leaving(Torn):
    def fail(self, state, reference): raise SystemExit(0)

class WritingState(Torn):
    def fail(self, state, reference): state.q[0] = 0.0

class WritingReference(Torn):
    def fail(self, state, reference): reference.q[0] = 0.0

class Spent(Torn):
    def fail(self, state, reference): raise StopIteration

class Unsealing(Torn):
    def fail(self, state, reference): state.q.setflags(write=True)

class Ours(Torn):
    def fail(self, state, reference): raise InputError("the robot is tired")

class Short(FromRobot):
    def __call__(self, state, reference):
        return Command(tau=super().__call__(state, reference).tau[1:])

class Text(FromRobot):
    def __call__(self, state, reference):
        return Command(tau=["all"] * 12)

class Unmade(Torn):
    def __init__(self, robot, mu, rate): robot.gain
'''


class WithoutArguments:
    def reset(self):
        pass

    def __call__(self, state, reference):
        return Command(tau=np.zeros(2))


class WithSetup(WithoutArguments):
    def __init__(self, setup):
        self.setup = setup


def factory(setup):
    return WithSetup(setup)


number = 3


class NoReset:
    def __call__(self, state, reference):
        return Command(tau=np.zeros(2))


def own(name):
    return f"tests.config.test_places:{name}"


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """A folder with a user's file, and files that cannot be imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "mine.py").write_text(FILE)
    (tmp_path / "torn.py").write_text("x = 1\ndef law(:\n")
    (tmp_path / "zero.py").write_text("x = 0\ny = 1 / x\n")
    (tmp_path / "faulty.py").write_text(FAULTY)
    (tmp_path / "script.py").write_text("import sys\nsys.exit(0)\n")
    return tmp_path


@dataclass
class Entry:
    """Replaces an installed entry point."""

    name: str
    thing: Any

    def load(self) -> Any:
        if isinstance(self.thing, Exception):
            raise self.thing
        return self.thing


@pytest.fixture
def package(monkeypatch):
    """Another package with two controllers; one cannot be loaded."""
    entries = [Entry("theirs", WithSetup), Entry("broken", ImportError("no licence"))]
    points = {controllers.KIND.group: entries}
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points.get(group, []))


def test_classes_and_functions_with_any_supported_signature_make_controllers():
    assert isinstance(controllers.build(own("WithoutArguments"), setup()), WithoutArguments)
    for name in ("WithSetup", "factory"):
        assert controllers.build(own(name), setup()).setup is setup()


def test_a_class_in_a_file_takes_robot_friction_and_rate_or_a_setup():
    robot = idc.robots.load("links")
    built = controllers.make("mine.py:FromRobot", robot, mu=0.6, rate_hz=500.0)
    assert built.given == ("links", 0.6, pytest.approx(500.0))
    assert controllers.make("mine.py:FromSetup", robot, mu=0.6).setup.mu == 0.6
    assert controllers.make("mine.py:FromRobot", robot, contacts=robot.contacts(0.3)).given[1] == 0.3
    assert plants.make("mine.py:Plant", robot, mu=0.6).contact_forces().identity.size == 0


def test_a_file_that_was_changed_is_read_anew(files):
    assert controllers.build("mine.py:FromSetup", setup())(None, None) is None
    (files / "mine.py").write_text(FILE.replace("reference): pass", "reference): return 1"))
    assert controllers.build("mine.py:FromSetup", setup())(None, None) == 1


def test_a_broken_controller_of_another_package_does_not_hide_others(package, capsys):
    assert isinstance(controllers.build("theirs", setup()), WithSetup)
    assert cli.main(["list", "controllers", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["controllers"]
    assert listed["broken"] == "cannot be loaded: no licence"
    assert {"theirs", "pid"} <= set(listed)
    with pytest.raises(InputError, match=r"broken cannot be imported: ImportError: no licence"):
        controllers.build("broken", setup())


def test_sigterm_during_the_import_of_a_users_file_ends_the_command(capsys, files):
    (files / "long.py").write_text("import signal\nsignal.raise_signal(signal.SIGTERM)\n")
    assert cli.main(["run", "trot", "--controller", "long.py:Law", "--quiet", "--out", "run"]) == 143
    assert capsys.readouterr().err.splitlines()[-1].startswith("idcontrol: stopped")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("none.py:Law", "there is no file none.py"),
        ("mine.py:FromRobots", "no controller in mine.py 'FromRobots'; did you mean 'FromRobot'?"),
        ("mine.py", "as mine.py:Class; it defines FromRobot"),
        ("torn.py:law", r"SyntaxError: .*\(torn.py, line 2\)"),
        ("zero.py:law", r"ZeroDivisionError: division by zero \(zero.py, line 2\)"),
        ("script.py:law", r"SystemExit: 0 \(script.py, line 2\)"),
        ("mine.py:Plant", "Plant is no controller: it has no __call__; see idcontrol.types.Controller"),
        ("mine.py:Four", r"made from \(a, b, c, d\)"),
        ("no.such.module:Law", "No module named"),
        (own("Missing"), "Missing"),
        (own("number"), "of type int"),
        (own("NoReset"), "no reset"),
        ("id-coulomb-pq", "did you mean 'id-coulomb-qp'"),
    ],
)
@pytest.mark.parametrize("words", [["run", "trot", "--controller"], ["compare", "trot", "--controllers"]])
def test_places_without_a_controller_are_refused_in_one_line(words, name, line, capsys, files):
    if words[0] == "compare" and name == "mine.py:Four":
        pytest.skip("only a run makes it")
    with pytest.raises((InputError, UnknownName), match=line):
        controllers.build(name, setup())
    assert cli.main([*words, name, "--duration", "0.1"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("idcontrol: ")
    assert said.err.count("\n") == 1
    assert not (files / "runs").exists() or not list((files / "runs").iterdir())


def test_an_object_without_plant_methods_is_refused_in_one_line(capsys):
    for place, line in (("mine.py:FromSetup", "it has no step"), ("mine.py:WithoutLast", "it has no last")):
        assert cli.main(["run", "trot", "--plant", place, "--duration", "0.1"]) == 2
        assert line in capsys.readouterr().err


def test_only_possible_plants_are_suggested():
    with pytest.raises(UnknownName) as failure:
        plants.factory("mine.py:Late")
    assert failure.value.known == ("Plant", "WithoutLast")
    with pytest.raises(UnknownName) as failure:
        controllers.factory("mine.py:Law")
    assert failure.value.known == ("FromRobot", "FromSetup")


def test_a_missing_robot_is_reported():
    with pytest.raises(InputError, match="there is no robot here"):
        controllers.build("mine.py:FromRobot", setup())


@pytest.mark.slow
def test_a_users_controller_and_plant_trot_like_the_built_in_ones(files):
    ours = idc.run("trot", controller="pid", duration_s=0.05)
    mine = idc.run("trot", controller="mine.py:FromRobot", plant="mine.py:Plant", duration_s=0.05)
    np.testing.assert_allclose(mine.arrays["tau"], ours.arrays["tau"], atol=1e-12)
    assert isinstance(controllers.make("pid", idc.robots.load("links"), mu=0.6), Pid)


def complaints(error):
    """Return the lines on standard error, without a line that kernels are compiled."""
    return [line for line in error.splitlines() if not line.startswith("idcontrol: compiling kernels")]


SEEN = "; the traceback is in r/traceback.txt"


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("Asking", f"AttributeError: 'State' object has no attribute 'velocity'{SEEN}"),
        ("Leaving", f"SystemExit: 0{SEEN}"),
        ("WritingState", f"ValueError: assignment destination is read-only{SEEN}"),
        ("WritingReference", f"ValueError: assignment destination is read-only{SEEN}"),
        ("Spent", f"RuntimeError: generator raised StopIteration{SEEN}"),
        ("Unsealing", f"ValueError: cannot set WRITEABLE flag to True of this array{SEEN}"),
        ("Unmade", f"AttributeError: 'Robot' object has no attribute 'gain'{SEEN}"),
        ("Ours", "the robot is tired"),
        ("Short", "at 0.000 s the controller returned tau of shape (11,), not (12,)"),
        ("Text", "at 0.000 s the controller returned tau of type str96; return real numbers"),
    ],
)
def test_an_error_of_a_users_controller_is_status_2_and_names_its_file_and_line(name, error, capsys):
    within = 1 if name in ("Short", "Text") else 2  # the line of the class itself, or of its method
    at = within + next(i for i, line in enumerate(FAULTY.splitlines()) if line.startswith(f"class {name}("))
    words = ["run", "trot", "--controller", f"faulty.py:{name}", "--duration", "0.01", "--quiet", "--out", "r"]
    assert cli.main(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert complaints(said.err) == [f"idcontrol: faulty.py, line {at}: {error}"]


@pytest.mark.slow
def test_an_error_of_a_users_controller_is_no_refusal_in_a_comparison(files):
    """Only unusable settings refuse a run and leave no record."""
    compared = idc.compare("trot", controllers=["mine.py:FromRobot", "faulty.py:Asking"], duration=0.01, jobs=1)
    reasons = [outcome.reason for outcome in compared.outcomes]
    assert reasons[0] is None
    assert reasons[1].startswith("faulty.py, line ")


@pytest.mark.slow
def test_names_listed_without_import_match_the_imported_ones():
    code = (
        "import json, sys; from idcontrol.config import entries; "
        "told = {group: entries.summaries(group) for group in (entries.EXPERIMENTS, entries.STUDIES)}; "
        "print(json.dumps([told, 'numpy' in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    listed, imported = json.loads(done.stdout)
    assert not imported
    for group, lines in listed.items():
        assert lines == {name: entry.load().summary for name, entry in entries.entry_points(group).items()}
