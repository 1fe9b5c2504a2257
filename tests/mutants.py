"""Mutation testing: does a test fail when a line is changed?

    make mutants FOLDER=idcontrol/sensing PLACES=60 SEED=0

Cosmic Ray makes the changes (another operator, another number, no loop): one at each of PLACES places of the folder,
drawn with the seed, or at every place with PLACES=0; Ctrl-C ends early, with the count so far. pyproject.toml names the
fast tests of each folder under `[tool.mutants]`. For each change, all tests that execute the changed line or start a
process run in a copy of the checkout, with kernels as Python. A test ends after `LONG_S`, and a test that fails while
its lines are recorded is left out. Changes that no test notices are printed.

Each run is a fork of this process, which has already imported NumPy, Numba and Pinocchio: this saves two seconds per
change.
"""

import argparse
import ast
import contextlib
import ctypes
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
from typing import Any

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
from coverage import Coverage, CoverageData

ROOT = Path(__file__).resolve().parents[1]
LONG_S = 1.0
"""CPU time after which a test ends early [s]."""
FAST = "-q -p no:cacheprovider -p no:xdist -p no:unraisableexception -W ignore:Module"
"""Arguments of pytest. Hypothesis is imported before it, which is a warning and so an error here, as would be the end
of a long test in the middle of a callback."""
KILLED, SURVIVED, TIMED_OUT, NO_CHANGE = "killed", "survived", "timed out", "no change"
PR_SET_CHILD_SUBREAPER = 36
TOO_LONG = 99
"""Exit status of a run with a test that takes too long, e.g. because of an endless loop."""


class Meaning(ast.NodeTransformer):
    """Reduces a module to its behaviour in Python.

    Removed are decorators and intrinsics of Numba, types, f-strings (messages for people), and the options of data
    classes (frozen, keyword-only, slots).
    """

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST | None:
        """Return the function without ``@njit(...)`` and the type of its result; None for an intrinsic."""
        names = [ast.unparse(each) for each in node.decorator_list]
        if "intrinsic" in names:
            return None
        node.decorator_list, node.returns = [ast.Name(name) for name in names if "njit" not in name], None
        return self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> ast.AST | None:
        """Return the keyword argument; None for ``frozen``, ``kw_only`` and ``slots``."""
        return None if node.arg in {"frozen", "kw_only", "slots"} else self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """Return the argument without its type."""
        return ast.arg(node.arg)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Return the assignment without the variable's type."""
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """Return a constant instead of the f-string."""
        return ast.Constant("text")


def meaning(source: str) -> str | None:
    """Return a text that is equal for sources with the same behaviour without compilation; None if it is not Python."""
    try:
        return ast.dump(Meaning().visit(ast.parse(source)))
    except SyntaxError:
        return None


def places(paths: list[Path]) -> list[list[MutationSpec]]:
    """Return Cosmic Ray's changes, place by place."""
    with use_db("session.sqlite", WorkDB.Mode.create) as session:
        init(paths, session, {})
        candidates: dict[tuple[str, tuple[int, int]], list[MutationSpec]] = {}
        for item in session.work_items:
            for change in item.mutations:
                candidates.setdefault((str(change.module_path), change.start_pos), []).append(change)
    for changes in candidates.values():
        changes.sort(key=lambda change: (change.operator_name, change.occurrence))
    return [candidates[place] for place in sorted(candidates)]


class Lines:
    """A plugin of pytest that records, for each test, the executed lines of a folder and the start of processes."""

    def __init__(self, folder: str) -> None:
        """Write into the files ``lines`` and ``starts.txt``."""
        self._coverage = Coverage("lines", config_file=False, source=[folder])
        self._test = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self) -> None:
        """Begin before the first module is imported."""
        self._coverage.start()
        sys.addaudithook(self._audit)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Note a test."""
        with self._noting(item.nodeid):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, Any, Any]:
        """Attribute the lines of a shared fixture to all tests of its module, or to all tests."""
        shared = "" if fixturedef.scope == "session" else request.node.nodeid
        with self._noting(self._test if fixturedef.scope == "function" else shared):
            return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Leave out tests that fail under tracing: some are timed."""
        if report.failed:
            with Path("unused.txt").open("a") as out:
                print(report.nodeid, file=out)

    def pytest_sessionfinish(self) -> None:
        """Write the recorded lines."""
        self._coverage.stop()
        self._coverage.save()

    @contextlib.contextmanager
    def _noting(self, test: str) -> Generator[None]:
        before, self._test = self._test, test
        self._coverage.switch_context(test)
        yield
        self._test = before
        self._coverage.switch_context(before)

    def _audit(self, event: str, _: object) -> None:
        if event in {"subprocess.Popen", "os.fork", "os.posix_spawn"} and self._test:
            with Path("starts.txt").open("a") as out:
                print(self._test, file=out)


def lines_of(path: Path, at: int) -> set[int]:
    """Return the lines of the statement around a line; of a statement with a body, only the lines before the body."""
    around = [each for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.stmt)]
    around = [each for each in around if each.lineno <= at <= (each.end_lineno or at)]
    if not around:
        return {at}
    inner = max(around, key=lambda each: each.lineno)
    body = getattr(inner, "body", None)
    end = body[0].lineno - 1 if body else inner.end_lineno or at
    return {at, *range(inner.lineno, max(end, inner.lineno) + 1)}


def noticing(change: MutationSpec, noted: CoverageData, starts: list[str], tests: list[str]) -> list[str]:
    """Return the tests that run the changed line or start a process; all tests if the line runs at import."""
    path = change.module_path
    by_line = noted.contexts_by_lineno(str(path.absolute()))
    candidates = {name for line in lines_of(path, change.start_pos[0]) for name in by_line.get(line, [])}
    chosen = tests if "" in candidates else sorted({*candidates, *starts})
    siblings = (f"test_{path.stem}", f"test_{path.parent.name}")
    return sorted(
        chosen, key=lambda name: (not Path(name.partition("::")[0]).name.startswith(siblings), name in starts)
    )


class Hurry:
    """A plugin of pytest that ends a test after too much CPU time, independently of the machine's load."""

    def __init__(self, limit_s: Callable[[str], float], give_up: Callable[[str], object]) -> None:
        """Call `give_up` with the name of a test that has used ``limit_s(name)`` of CPU time [s]."""
        self._limit_s, self._give_up = limit_s, give_up

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        """Run a test under an alarm clock."""
        signal.signal(signal.SIGPROF, lambda *_: self._give_up(item.nodeid))
        signal.setitimer(signal.ITIMER_PROF, self._limit_s(item.nodeid))
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)


def cut_short(test: str) -> None:
    """Note that a test is long, and end it here: its result so far is sufficient."""
    with Path("long.txt").open("a") as out:
        print(test, file=out)
    pytest.skip("long")


def names_in(file: str) -> list[str]:
    """Return the names of tests in a file; empty if the file does not exist."""
    return Path(file).read_text().splitlines() if Path(file).exists() else []


def adopt_orphans() -> None:
    """Become the parent of all descendants whose parent has ended, in any session (Linux)."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_children() -> None:
    """End all processes below this one."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    while pids := children.read_text().split():
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(int(pid), signal.SIGKILL)
                os.waitpid(int(pid), 0)


def run_tests(arguments: list[str], plugins: list[object], limit_s: float) -> str:
    """Run pytest in a fork; end it with all processes that it started, at the latest after `limit_s` without output."""
    child = os.fork()
    if child == 0:
        os.setsid()
        os.dup2(os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        os.dup2(1, 2)
        status = 1
        try:
            status = int(pytest.main([*FAST.split(), "-m", "not slow and not wallclock", *arguments], plugins))
        finally:
            os._exit(status)
    output = Path("output.txt")
    heard, length, done, status = time.monotonic(), -1, 0, 0
    try:
        while not done and time.monotonic() - heard < limit_s:
            time.sleep(0.02)
            done, status = os.waitpid(child, os.WNOHANG)
            if output.exists() and (grown := output.stat().st_size) != length:
                heard, length = time.monotonic(), grown
    finally:
        end_children()
    if not done or os.waitstatus_to_exitcode(status) == TOO_LONG:
        return TIMED_OUT
    return KILLED if status else SURVIVED


def judge(change: MutationSpec, arguments: list[str], hurry: Hurry, limit_s: float) -> tuple[str, str]:
    """Return the tests' verdict on a change, and the change as a diff."""
    path = change.module_path
    original = path.read_text()
    mutant = mutate_code(original, get_operator(change.operator_name)(), change.occurrence)
    if meaning(mutant) in {None, meaning(original)}:
        return NO_CHANGE, ""
    path.write_text(mutant)
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)  # may be as old and as long as the mutant
    outcome = run_tests(["-x", *arguments], [hurry], limit_s) if arguments else SURVIVED
    path.write_text(original)
    lines = unified_diff(original.splitlines(), mutant.splitlines(), str(path), n=0, lineterm="")
    return outcome, "\n".join(line for line in lines if not line.startswith("+++"))


def enter_copy(folder: str) -> None:
    """Make a copy of the checkout, in which this process and its forks work from now on."""
    copy = ROOT / "build" / "mutants" / folder
    shutil.rmtree(copy, ignore_errors=True)
    omitted = shutil.ignore_patterns(".*", "build", "runs", "__pycache__")
    shutil.copytree(ROOT, copy, symlinks=True, ignore=omitted)
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
    adopt_orphans()
    run_tests(table["tests"], [Lines(asked.folder), Hurry(lambda _: LONG_S, cut_short)], math.inf)
    unused, long, starts = names_in("unused.txt"), set(names_in("long.txt")), names_in("starts.txt")
    omitted = [f"--deselect={name}" for name in unused]
    noted = CoverageData("lines")
    noted.read()
    hurry = Hurry(
        lambda test: LONG_S if test in long else 5.0 * LONG_S,
        lambda test: pytest.skip("long") if test in long else os._exit(TOO_LONG),
    )
    start = time.monotonic()
    # every change would count as noticed if no test were left, or if a test needed a test that is left out
    if run_tests([*table["tests"], *omitted], [hurry], math.inf) != SURVIVED:
        print(f"without a change the tests fail:\n{Path('output.txt').read_text()}")
        return 2
    took_s = time.monotonic() - start
    limit_s = 10.0 + took_s  # a test that waits longer than all tests together take would wait for ever
    print(f"{asked.folder}: {len(long)} tests cut short, {len(unused)} left out, all took {took_s:.0f} s", flush=True)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    draw = random.Random(asked.seed)
    every = places(
        [path for path in sorted(Path(asked.folder).rglob("*.py")) if path.name not in table.get("without", [])]
    )
    outcomes: Counter[str] = Counter()
    with contextlib.suppress(KeyboardInterrupt):
        for changes in draw.sample(every, len(every)):
            change = draw.choice(changes)
            tests = [name for name in noticing(change, noted, starts, table["tests"]) if name not in unused]
            outcome, diff = judge(change, [*tests, *omitted] if tests else [], hurry, limit_s)
            outcomes[outcome] += 1
            if outcome in (SURVIVED, TIMED_OUT):
                print(f"{outcome}: {diff}", flush=True)
            if outcome != NO_CHANGE and outcomes.total() - outcomes[NO_CHANGE] == asked.places:
                break
    run = outcomes.total() - outcomes[NO_CHANGE]
    candidates = 100.0 * (1.0 - outcomes[SURVIVED] / max(run, 1))
    print(
        f"{asked.folder}: {len(every)} places, {run} changed (seed {asked.seed}): {outcomes[KILLED]} killed, "
        f"{outcomes[TIMED_OUT]} timed out, {outcomes[SURVIVED]} survived: {candidates:.0f} % noticed"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
