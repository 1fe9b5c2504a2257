"""The commands in README and pages work, in the order of the page, in one folder.

| command | `FAST` pages in `make test`, other pages in `make slow` | all pages in `make slow` |
| --- | --- | --- |
| `idcontrol run` | as long as its experiment's rehearsal, a walk for `WALK_S`; whole with a push or a reach | whole |
| `idcontrol compare` | its runs are as short and made in this process | |
| one with `--study` or all controllers | is parsed (`test_docs.py`) | its runs are as short |
| `idcontrol loop`, `./machine`, `./controller` | | `WALK_S` on the wall clock |
| `idcontrol view` | until the first picture | |
| `idcontrol bench` | few samples, the section of controllers | |
| `idcontrol trust` | the first claim of each part | |
| `idcontrol list`, `check`, `runs`, `report`, `export`, `doctor`, `completion` | whole | whole |
| `mkdir`, `cp`, `sed`, `cc`, `c++` | whole | whole |

Commands that download or read third-party files are only parsed, and so is `make`, which itself runs these tests.
"""

import contextlib
import shlex
import shutil
import subprocess
import webbrowser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from idcontrol.bench import claims
from idcontrol.bench import execute as bench
from idcontrol.bench.measurement import Effort
from idcontrol.bench.problems import walks
from idcontrol.cli import main
from idcontrol.experiments import league, scaling
from idcontrol.loop import launch
from idcontrol.scenes.whole_body import WholeBodyConfig
from idcontrol.sweeps import comparison, running
from tests import GUARD_S
from tests.parameters import one_fast
from tests.test_docs import ROOT, blocks, commands

WALK_S = 0.1
FEW = Effort(samples=10, budget_s=0.01)
ELSEWHERE = ("make", "pip", "python", "tsid/bin/pip", "source", "export", "idcontrol warmup", "idcontrol bus")
"""Commands that do not run here. `.ci/run` runs `make`; `tests/adapters/test_bus.py` runs the robot on a bus, the
bridge to it, and their loop. The other commands set up an environment or compile all kernels."""
OF_OTHERS = ("tsid/bin/python", "--peers tsid", ".npz", "FOLDER", "loop.joints=unitree", "commission my_robot.toml")
"""Third-party files, and a robot on a bus: a command with these words cannot run here."""
HEAVY = ("--study", "runs/tables", "--controllers all", "coulomb-cone")
"""Commands whose short form also takes many seconds, or compiles for minutes."""
MAY_MISS = ("run", "compare", "loop", "commission", "doctor")
"""Commands that may exit with status 1: a shortened run may miss its task, and a computer may lack something."""

Script = list[tuple[str, list[str]]]


def scripts() -> dict[str, Script]:
    """Return the commands that run here, by page: the line, and its words."""
    by_page: dict[str, Script] = {}
    for page, line in commands():
        line = line.replace("make trot", "idcontrol run trot")
        if not line.startswith(ELSEWHERE) and not any(file in line for file in OF_OTHERS):
            by_page.setdefault(page, []).append((line, shlex.split(line, comments=True)))
    return by_page


SCRIPTS = scripts()
FAST = ("README.md", "tutorials/robot.md")


def is_heavy(line: str) -> bool:
    """True if a command takes long even in its short form."""
    return any(part in line for part in HEAVY)


def keeps_time(words: Sequence[str]) -> bool:
    """True if a command runs on the wall clock."""
    loops = words[:2] == ["idcontrol", "loop"] and not {"inprocess", "--header"} & {*words}
    return loops or words[0] in ("./machine", "./controller")


def is_amount(value: Any) -> bool:
    """True if the value is a number other than a Boolean, or a tuple."""
    return isinstance(value, (int, float, tuple)) and not isinstance(value, bool)


def waits(config: Any) -> bool:
    """True if a push or a reach needs the whole duration of a run."""
    return isinstance(config, WholeBodyConfig) and (config.push.at_s is not None or config.reach.frame is not None)


def do(words: Sequence[str]) -> None:
    """Run a command of idcontrol or of the shell; ``> FILE`` at its end redirects its output."""
    if ">" in words:
        with open(words[-1], "w", encoding="utf-8") as file, contextlib.redirect_stdout(file):
            do(words[:-2])
        return
    if words[0] == "idcontrol":
        assert main(words[1:]) in ((0, 1) if words[1] in MAY_MISS else (0,)), words
        return
    subprocess.run(words, check=True)
    if words[0] == "mkdir":  # the page continues with the content of this file
        (robot,) = (text for page, text in blocks("toml") if page == "tutorials/robot.md")
        Path(words[1], "robot.toml").write_text(robot, encoding="utf-8")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Make a reader's folder with the examples of the checkout, and the files that a page asks the reader to write."""
    monkeypatch.chdir(tmp_path)
    Path("robots").symlink_to(ROOT / "robots")
    # a copy, because a page writes the C header of the loop's datagrams among the examples
    shutil.copytree(
        ROOT / "experiments" / "examples", "experiments/examples", ignore=shutil.ignore_patterns("__pycache__")
    )
    law = (ROOT / "experiments" / "examples" / "pd.py").read_text(encoding="utf-8")
    Path("mine.py").write_text(law.replace("JointPd", "Mine"), encoding="utf-8")
    (late,) = (text for page, text in blocks("python") if page == "howto/plant.md" and "class Late" in text)
    Path("late.py").write_text(late.partition("plants.register")[0], encoding="utf-8")
    monkeypatch.setattr(webbrowser, "open", lambda address: True)
    monkeypatch.setattr("idcontrol.show.view.page.play", lambda player, alive: player.advance(0.1))
    return tmp_path


@pytest.fixture
def short(monkeypatch):
    """Make runs, loops, benches and claims as short as possible."""
    conduct, loop, measure = running.conduct, launch.run, bench.run

    def changed(config: msgspec.Struct, changes: dict[str, Any]) -> Any:
        return msgspec.structs.replace(config, **changes)

    def rehearsed(experiment: Any, config: msgspec.Struct, *rest: Any) -> Any:
        start = experiment.presets["default"]
        rehearsal = next(iter(experiment.rehearsals()), None) or changed(start, {"duration_s": WALK_S})
        amounts = {name: getattr(rehearsal, name) for name in start.__struct_fields__ if not name.startswith("mu")}
        fewer = {name: less for name, less in amounts.items() if is_amount(less) and less != getattr(start, name)}
        if waits(config):
            fewer.pop("duration_s", None)
        elif "duration_s" in fewer:
            fewer["duration_s"] = min(WALK_S, fewer["duration_s"])
        return conduct(experiment, changed(config, fewer), *rest)

    def make_runs(rows: Sequence[Any], runs: Path) -> Iterator[Any]:
        for row in rows:
            do(["idcontrol", *row.command(runs / row.name)])
            yield row

    monkeypatch.setattr(running, "conduct", rehearsed)
    monkeypatch.setattr(
        launch, "run", lambda at, config, *rest: loop(at, changed(config, {"duration_s": WALK_S}), *rest)
    )
    monkeypatch.setattr(comparison, "on_this_machine", lambda jobs: make_runs)
    for walking in (bench, scaling):
        monkeypatch.setattr(walking, "PERIODS", 60)
    monkeypatch.setattr(walks, "SETTLING", 60)
    monkeypatch.setattr(league, "RECORDED", league.RECORDED / "grasp-1.0-300.npz")
    monkeypatch.setattr(bench, "SECTIONS", ("controllers",))
    monkeypatch.setattr(bench, "run", lambda section, *_, **__: measure(section, FEW))
    monkeypatch.setattr(claims, "CLAIMS", {part: some[:1] for part, some in claims.CLAIMS.items()})


@pytest.mark.parametrize("page", one_fast(sorted(SCRIPTS), *FAST))
def test_the_commands_of_a_page_run_one_after_the_other(page, short):
    for line, words in SCRIPTS[page]:
        if not is_heavy(line) and not keeps_time(words):
            do(words)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", sorted(page for page, script in SCRIPTS.items() if any(is_heavy(line) for line, _ in script))
)
def test_the_long_comparisons_of_a_page_make_all_their_runs(page, short):
    for line, words in SCRIPTS[page]:
        if is_heavy(line):
            do(words)


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted(SCRIPTS))
def test_the_runs_of_a_page_run_as_written(page):
    for _, words in SCRIPTS[page]:
        if words[:2] == ["idcontrol", "run"] or words[0] in ("mkdir", "cp", "sed"):  # which write files to run
            do(words)


@pytest.mark.slow
@pytest.mark.wallclock
@pytest.mark.parametrize(
    "page", sorted(page for page, script in SCRIPTS.items() if any(keeps_time(words) for _, words in script))
)
def test_the_loops_of_a_page_keep_their_time(page, short):
    machines = []
    for _, words in SCRIPTS[page]:
        if words[0] == "./machine":
            machines.append(subprocess.Popen(words))
        elif words[0] in ("cc", "c++") or "--header" in words or keeps_time(words):
            do([*words, "--arm"] if "--peer" in words else words)  # there is no Enter key in a test
    assert all(machine.wait(timeout=GUARD_S) == 0 for machine in machines)
