"""Processor time of a first run, when no kernel has been compiled yet."""

import os
import subprocess
import sys
import tempfile
from typing import Any

GOAL_TROT_S, GOAL_ALL_S = 30.0, 60.0

_TROT = """
from idcontrol.cli import main
ended = main(["run", "trot", "--duration", "1", "--quiet", "--json", "--out", folder + "/run"])
assert ended == 0, ended
"""
_CONTROLLERS = """
from idcontrol import controllers, robots
solo12 = robots.load("solo12")
for name in controllers.available():
    controllers.warm(controllers.make(name, solo12, mu=0.6))
"""


def spent_s(code: str) -> float:
    """Run `code` in a new process with an empty Numba cache; return its processor time, with its children's [s].

    Args:
        code: Text of the program, in which the variable ``folder`` holds the path of an empty folder.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"NUMBA_CACHE_DIR": f"{folder}/numba", "XDG_CACHE_HOME": folder}
        program = f"import os\nfolder = {folder!r}\n{code}\nprint(sum(os.times()[:4]))"  # includes the helper processes
        said = subprocess.run([sys.executable, "-P", "-c", program], env=environment, check=True, capture_output=True)
    return float(said.stdout.split()[-1])


def run() -> dict[str, Any]:
    """Measure a trot, and the warm-up of every controller; return what ``idcontrol bench compiling --json`` prints."""
    goals = {"trot_s": (_TROT, GOAL_TROT_S), "controllers_s": (_CONTROLLERS, GOAL_ALL_S)}
    times = {key: (spent_s(code), goal) for key, (code, goal) in goals.items()}
    rows = {key: {"value": spent, "bar": goal, "met": spent <= goal} for key, (spent, goal) in times.items()}
    return {"compiling": rows}
