"""Mutation testing: does a test fail when a line is changed?

    make mutants FOLDER=idcontrol/sensing PLACES=60 SEED=0

Cosmic Ray makes the changes (another operator, another number, no loop): one at each of PLACES places of the folder,
drawn with the seed, or at every place with PLACES=0; Ctrl-C ends early, with the count so far. The fast tests that
pyproject.toml names for the folder under `[tool.mutants]` are run against each change, in a copy of the checkout, with
kernels run as Python; those that take longer than `LONG_S` then are left out. What is not noticed is printed.

Each run is a fork of this process, which has imported NumPy, Numba and Pinocchio before: two seconds less a change.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.util
import math
import os
import random
import shutil
import signal
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Generator
from difflib import unified_diff
from pathlib import Path

import hypothesis.strategies  # noqa: F401 - here, so that not every run imports them
import numba.experimental
import pinocchio  # noqa: F401
import pytest
import scipy.optimize
import scipy.sparse.linalg  # noqa: F401
from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec

ROOT = Path(__file__).resolve().parents[1]
LONG_S = 1.0
"""CPU time of a test that is too long to be run again and again [s]."""
FAST = "-q -x -p no:cacheprovider -p no:xdist -W ignore:Module"
"""Arguments of pytest. Hypothesis is imported before it, which is a warning and so an error here."""
KILLED, SURVIVED, TIMED_OUT, NO_CHANGE = "killed", "survived", "timed out", "no change"
TOO_LONG = 99
"""Exit status of a run of which a test takes too long: a change that never ends."""


class Meaning(ast.NodeTransformer):
    """Leaves of a module what Python does and mypy does not check.

    That is without decorators and intrinsics of Numba, types of arguments, and what is said of classes of plain data:
    that they are frozen, and that their fields have no order.
    """

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST | None:
        """Without ``@njit(...)`` and the type of the result."""
        names = [ast.unparse(each) for each in node.decorator_list]
        if "intrinsic" in names:
            return None
        node.decorator_list, node.returns = [ast.Name(name) for name in names if "njit" not in name], None
        return self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> ast.AST | None:
        """Without ``frozen=True, kw_only=True, slots=True``."""
        return None if node.arg in {"frozen", "kw_only", "slots"} else self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """Without its type."""
        return ast.arg(node.arg)


def meaning(source: str) -> str | None:
    """A text that is the same for sources that do the same without compilation; None where it is no Python."""
    try:
        return ast.dump(Meaning().visit(ast.parse(source)))
    except SyntaxError:
        return None


def places(paths: list[Path]) -> list[list[MutationSpec]]:
    """The changes that Cosmic Ray knows, place by place."""
    with use_db("session.sqlite", WorkDB.Mode.create) as session:
        init(paths, session, {})
        found: dict[tuple[str, tuple[int, int]], list[MutationSpec]] = {}
        for item in session.work_items:
            for change in item.mutations:
                found.setdefault((str(change.module_path), change.start_pos), []).append(change)
    for changes in found.values():
        changes.sort(key=lambda change: (change.operator_name, change.occurrence))
    return [found[place] for place in sorted(found)]


def nearest_first(arguments: list[str], module: Path) -> list[str]:
    """The same arguments for pytest, tests with the name of the module or its folder before the others."""
    folders = [Path(word) for word in arguments if Path(word).is_dir()]
    names = [f"test_{name}*.py" for name in (module.stem, module.parent.name)]
    return [*(str(test) for name in names for folder in folders for test in sorted(folder.glob(name))), *arguments]


class Hurry:
    """A plugin of pytest that ends a test which takes too much CPU time, whatever else the machine does."""

    def __init__(self, limit_s: float, give_up: Callable[[str], object]) -> None:
        """Call `give_up` with the name of a test that has taken `limit_s`."""
        self._limit_s, self._give_up = limit_s, give_up

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        """Run a test under an alarm clock."""
        signal.signal(signal.SIGPROF, lambda *_: self._give_up(item.nodeid))
        signal.setitimer(signal.ITIMER_PROF, self._limit_s)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)


def leave_out(name: str) -> None:
    """Note that a test is long, and skip it: the changed code is judged by the others."""
    with Path("long.txt").open("a") as out:
        print(name, file=out)
    pytest.skip("long")


def run_tests(arguments: list[str], hurry: Hurry, limit_s: float) -> str:
    """Run pytest in a fork, which ends with all processes that it started."""
    child = os.fork()
    if child == 0:
        os.setsid()
        os.dup2(os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        os.dup2(1, 2)
        status = 1
        try:
            status = int(pytest.main([*FAST.split(), "-m", "not slow and not wallclock", *arguments], [hurry]))
        finally:
            os._exit(status)
    end, done, status = time.monotonic() + limit_s, 0, 0
    try:
        while not done and time.monotonic() < end:
            time.sleep(0.02)
            done, status = os.waitpid(child, os.WNOHANG)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
    if not done:
        os.waitpid(child, 0)
    if not done or os.waitstatus_to_exitcode(status) == TOO_LONG:
        return TIMED_OUT
    return KILLED if status else SURVIVED


def judge(change: MutationSpec, arguments: list[str], limit_s: float) -> tuple[str, str]:
    """What the tests say of a change, and the change as a diff."""
    path = change.module_path
    original = path.read_text()
    mutant = mutate_code(original, get_operator(change.operator_name)(), change.occurrence)
    if meaning(mutant) in {None, meaning(original)}:
        return NO_CHANGE, ""
    path.write_text(mutant)
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)  # may be as old and as long as the mutant
    outcome = run_tests(nearest_first(arguments, path), Hurry(5.0 * LONG_S, lambda _: os._exit(TOO_LONG)), limit_s)
    path.write_text(original)
    lines = unified_diff(original.splitlines(), mutant.splitlines(), str(path), n=0, lineterm="")
    return outcome, "\n".join(line for line in lines if not line.startswith("+++"))


def enter_copy(folder: str) -> None:
    """Make a copy of the checkout, in which this process and its forks work from now on."""
    copy = ROOT / "build" / "mutants" / folder
    shutil.rmtree(copy, ignore_errors=True)
    left_out = shutil.ignore_patterns(".*", "build", "runs", "__pycache__")
    shutil.copytree(ROOT, copy, symlinks=True, ignore=left_out)
    os.chdir(copy)
    sys.path[:] = [str(copy), *(path for path in sys.path if path not in {"", str(ROOT), str(ROOT / "tests")})]
    os.environ |= {"PYTHONPATH": str(copy), "NUMBA_DISABLE_JIT": "1"}
    numba.config.DISABLE_JIT = True


def main() -> int:
    """Run as the module's docstring says."""
    tables: dict[str, dict[str, list[str]]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutants"]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", choices=list(tables))
    parser.add_argument("--places", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    table = tables[asked.folder]
    enter_copy(asked.folder)
    if run_tests(table["tests"], Hurry(LONG_S, leave_out), math.inf) != SURVIVED:
        print(Path("output.txt").read_text())
        return 2
    long = Path("long.txt").read_text().splitlines() if Path("long.txt").exists() else []
    arguments = [*table["tests"], *(f"--deselect={name}" for name in long)]
    start = time.monotonic()
    # every change would count as noticed if nothing were left to run, or if a test needed one that is left out
    if run_tests(arguments, Hurry(5.0 * LONG_S, lambda _: os._exit(TOO_LONG)), math.inf) != SURVIVED:
        print(
            f"without the tests that take longer than {LONG_S:g} s the others fail:\n{Path('output.txt').read_text()}"
        )
        return 2
    took_s = time.monotonic() - start
    limit_s = 10.0 + 5.0 * took_s
    print(f"{asked.folder}: {len(long)} tests left out (long.txt), the others took {took_s:.0f} s", flush=True)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    draw = random.Random(asked.seed)
    every = places(
        [path for path in sorted(Path(asked.folder).rglob("*.py")) if path.name not in table.get("without", [])]
    )
    outcomes: Counter[str] = Counter()
    with contextlib.suppress(KeyboardInterrupt):
        for changes in draw.sample(every, len(every)):
            outcome, diff = judge(draw.choice(changes), arguments, limit_s)
            outcomes[outcome] += 1
            if outcome in (SURVIVED, TIMED_OUT):
                print(f"{outcome}: {diff}", flush=True)
            if outcome != NO_CHANGE and outcomes.total() - outcomes[NO_CHANGE] == asked.places:
                break
    run = outcomes.total() - outcomes[NO_CHANGE]
    found = 100.0 * (1.0 - outcomes[SURVIVED] / max(run, 1))
    print(
        f"{asked.folder}: {len(every)} places, {run} changed (seed {asked.seed}): {outcomes[KILLED]} killed, "
        f"{outcomes[TIMED_OUT]} timed out, {outcomes[SURVIVED]} survived: {found:.0f} % noticed"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
