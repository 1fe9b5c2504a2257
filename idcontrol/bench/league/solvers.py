"""The solvers of the league: this library's, other packages' and the user's solvers.

Other packages' solvers run in separate processes (`idcontrol.bench.league.peers`), one per interpreter, as some crash.
"""

import contextlib
import json
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from idcontrol.bench.league.peers import shortest
from idcontrol.bench.league.problems import FrictionProblem
from idcontrol.bench.peers import installed
from idcontrol.models.coulomb_cone import solve_delassus
from idcontrol.solvers.status import SOLVED
from idcontrol.types import Array

TOLERANCE: Final = 1e-10
"""Tolerance of other packages' solvers, relative to the fastest contact at zero impulse."""
ROUNDS: Final = 10_000
"""Largest number of iterations of other packages' solvers."""
PATIENCE_S: Final = 0.02
"""A problem is solved repeatedly for this time; the shortest time counts [s]."""
DEBIANS: Final = "/usr/bin/python3"
"""Debian's Python interpreter: Debian's package python3-siconos works only with it."""
LIMIT_S: Final = 10.0
"""Time limit of other packages' solvers [s]. A slower solver is stopped and counts as failed."""
SCRIPT: Final = Path(__file__).with_name("peers.py")
OURS: Final = "idcontrol coulomb-cone"


class Answer(NamedTuple):
    """A solver's answer to a problem.

    Attributes:
        r: Impulses, shape (3 n,); None if the solver reports no solution.
        seconds: Time of the solver, without the conversion of the problem to its format [s]; NaN if it crashed, inf if
            it was stopped after `LIMIT_S`.
    """

    r: Array | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Solver:
    """An entry of the league.

    Attributes:
        name: Name.
        answer: Solves a problem.
        most: Largest number of contacts of its problems. Larger problems would take many minutes.
    """

    name: str
    answer: Callable[[FrictionProblem], Answer]
    most: int = 10_000


def entered() -> list[Solver]:
    """Return our solver and the solvers of other installed packages."""
    here, solvers = sys.executable, [Solver(OURS, _ours)]
    if installed("pinocchio"):
        solvers += [Solver(f"Pinocchio {name}", partial(_peer, here, "pinocchio", name)) for name in ("ADMM", "PGS")]
    if installed("cvxpy", "clarabel"):
        solvers.append(Solver("CVXPY, Clarabel, fixed point", partial(_peer, here, "cvxpy", "CLARABEL"), most=30))
    if siconos_installed():
        methods = ("NSGS", "ADMM", "NSN_AC")
        solvers += [Solver(f"siconos {name}", partial(_peer, DEBIANS, "siconos", name)) for name in methods]
    return solvers


@cache
def siconos_installed() -> bool:
    """True if Debian's interpreter has siconos."""
    try:
        asked = subprocess.run([DEBIANS, "-I", "-c", "import siconos.numerics"], capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0


def plain(solve: Callable[[Array, Array, Array], Any]) -> Callable[[FrictionProblem], Answer]:
    """Return a function for `Solver.answer`: it calls ``solve(W, q, mu)``, which returns impulses or None."""

    def answer(problem: FrictionProblem) -> Answer:
        r, least = shortest(lambda: solve(problem.W, problem.q, problem.mu), PATIENCE_S)
        return Answer(None if r is None else np.asarray(r, dtype=np.float64).ravel(), least)

    return answer


def _solve(W: Array, q: Array, mu: Array) -> Array | None:
    outcome, r = solve_delassus(W, q, mu)
    return r if outcome.status == SOLVED else None


_ours = plain(_solve)


_processes: dict[tuple[str, Path], subprocess.Popen[str]] = {}
"""Running processes by interpreter and script. They end when this process ends and closes their input."""


def _process(key: tuple[str, Path]) -> subprocess.Popen[str]:
    if key not in _processes:
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        command = [key[0], "-I", str(key[1])]
        _processes[key] = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nothing, text=True)
    return _processes[key]


def _peer(interpreter: str, package: str, method: str, problem: FrictionProblem) -> Answer:
    key = (interpreter, SCRIPT)
    process = _process(key)
    assert process.stdin is not None
    assert process.stdout is not None
    with tempfile.NamedTemporaryFile(suffix=".npz") as file:
        np.savez(file, W=problem.W, q=problem.q, mu=problem.mu)
        file.flush()
        asked = [file.name, package, method, TOLERANCE, ROUNDS, PATIENCE_S]
        with contextlib.suppress(BrokenPipeError):  # the process has crashed already
            print(json.dumps(asked), file=process.stdin, flush=True)
        in_time = bool(select.select([process.stdout], [], [], LIMIT_S)[0])
        line = process.stdout.readline() if in_time else ""
    if not line:
        del _processes[key]
        process.kill()
        process.communicate()
        return Answer(None, np.nan if in_time else np.inf)
    reply = json.loads(line)
    return Answer(None if reply["r"] is None else np.array(reply["r"]), reply["seconds"])
