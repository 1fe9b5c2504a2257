"""The tables and figures of the papers, and how many of their numbers recorded runs agree with.

``python -m idcontrol.experiments.papers [VERDICTS.json] RUN_DIR...`` reads runs and comparisons and prints the verdicts
as one JSON object, of which the page `verdicts.md` is made. Verdicts of before that no run judges anew are kept, if
their file is given. Without folders it makes the runs first, in ``runs/papers``; what is there is kept.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from idcontrol.config.configuration import jsonable
from idcontrol.errors import InputError
from idcontrol.experiments import grasping, rough, studies, tables
from idcontrol.experiments.tables import two_feet
from idcontrol.experiments.verdicts import Judged, by_source
from idcontrol.record.recording import read_metrics
from idcontrol.sweeps import record
from idcontrol.sweeps.record import RunOutcome


class Place(NamedTuple):
    """A table, a figure, or a section whose numbers belong to none.

    Attributes:
        paper: Author and year.
        where: Its name in the paper.
        what: What it shows.
        printed: How many numbers it prints, its text included; statements in words count as one. Where a statement is
            looked for in both presets it counts twice.
        command: The command that compares them; "" if none does.
        lacks: Why some or all of them are not compared.
    """

    paper: str
    where: str
    what: str
    printed: int
    command: str = ""
    lacks: str = ""


TABLES, GRASPING, BUMPS, TWO_FEET, WALK_TIMES = (
    "idcontrol compare trot --study tables",
    "idcontrol compare grasp --study grasping",
    "idcontrol compare rough --study bumps",
    "idcontrol compare trot --study two-feet",
    "idcontrol compare rough --study walk-times",
)
ZAPOLSKY, VISCOUS, TRINKLE, SOLVER, CASTRO = (
    "Zapolsky & Drumwright 2017",
    "Drumwright 2015",
    "Trinkle et al. 1997",
    "Drumwright 2019",
    "Castro et al. 2022",
)
JAR = "Numbers of Gurobi and of a geodesic interior point on this task: it is not given to general solvers here."

PLACES: Final = (
    Place(ZAPOLSKY, "Tables 1 and 2", "operations of stage I", 6, "idcontrol run scaling --preset paper"),
    Place(ZAPOLSKY, "Table 3", "joint errors of seven controllers on four terrains", 56, TABLES),
    Place(ZAPOLSKY, "Table 3, as a whole", "order of the errors, and whether schemes without slip fall", 6, TABLES),
    Place(ZAPOLSKY, "Table 4", "torques and their rates", 14, TABLES),
    Place(ZAPOLSKY, "Table 4, as a whole", "who is smoothest, who roughest", 6, TABLES),
    Place(ZAPOLSKY, "Table 5", "errors of predicted forces", 32, TABLES),
    Place(
        ZAPOLSKY,
        "Table 6",
        "who passes which task",
        24,
        f"{TABLES}; {GRASPING}; {TWO_FEET}",
    ),
    Place(ZAPOLSKY, "Fig. 6", "torques with and without the second stage", 2, TABLES),
    Place(ZAPOLSKY, "Fig. 14", "joint errors against time", 12, TABLES),
    Place(ZAPOLSKY, "Fig. 15", "largest torque rate", 6, f"{TABLES}; idcontrol run chatter"),
    Place(ZAPOLSKY, "Fig. 16", "joint errors on bumps", 4, BUMPS),
    Place(ZAPOLSKY, "Fig. 17", "path of the centre of mass", 16, TABLES),
    Place(ZAPOLSKY, "Fig. 18", "error of the arm that swings a box", 5, GRASPING),
    Place(ZAPOLSKY, "Fig. 19", "time against the number of contacts", 6, "idcontrol run scaling --preset paper"),
    Place(VISCOUS, "Table I", "time of ten steps of a grip", 5, "idcontrol run box-grip"),
    Place(VISCOUS, "section VII-A", "contacts, variables and pivots of the grip", 8, "idcontrol run box-grip"),
    Place(VISCOUS, "Tables II and III", "time of a walk", 6, WALK_TIMES),
    Place(
        TRINKLE,
        "Table 1",
        "contact problems solved, by size",
        38,
        "idcontrol run lcp-suite",
    ),
    Place(SOLVER, "Fig. 4", "pendulum on a stiff joint", 5, "idcontrol run pendulum"),
    Place(SOLVER, "Fig. 6", "pendulum on a stiff limit", 2, "idcontrol run pendulum-limit"),
    Place(SOLVER, "Table 1", "time of a cube on springs", 24, "idcontrol run foundation"),
    Place(SOLVER, "Table 2", "error of a cube on springs", 16, "idcontrol run foundation"),
    Place(SOLVER, "Fig. 9", "way of a box on a ramp", 3, "idcontrol run incline"),
    Place(SOLVER, "section 6.4", "force and depth of a box on a ramp", 2, "idcontrol run incline"),
    Place(SOLVER, "Fig. 10", "stacks of spheres", 6, "idcontrol run sphere-stack --preset paper"),
    Place(CASTRO, "Fig. 5", "energy of a cylinder on a spring", 4, "idcontrol run spring-cylinder"),
    Place(CASTRO, "Fig. 6", "energy of the rolling cylinder", 5, "idcontrol run spring-cylinder"),
    Place(CASTRO, "Fig. 7", "orders of accuracy", 4, "idcontrol run spring-cylinder"),
    Place(CASTRO, "Fig. 9", "iterations of a heap", 2, "idcontrol run clutter"),
    Place(CASTRO, "Fig. 10", "iterations of two of its steps", 2, "idcontrol run clutter"),
    Place(CASTRO, "Fig. 11", "contacts with and without walls", 1, "idcontrol run clutter"),
    Place(CASTRO, "Fig. 12", "speed beside other solvers", 6, "idcontrol run clutter"),
    Place(CASTRO, "Fig. 13", "errors of momentum and slackness", 5, "idcontrol run clutter"),
    Place(CASTRO, "Fig. 14", "slip against the slip parameter", 10, "idcontrol run clutter"),
    Place(CASTRO, "Fig. 15", "iterations and condition against the slip parameter", 2, "idcontrol run clutter"),
    Place(CASTRO, "Fig. 17", "command of the soft gripper", 2, "idcontrol run slip-control"),
    Place(
        CASTRO,
        "section X-D",
        "contacts, iterations, errors and times of the gripper",
        10,
        "idcontrol run slip-control",
    ),
    Place(CASTRO, "Figs. 18 to 21", "two arms with a jar", 10, "idcontrol run jar", JAR),
)
"""Places of the papers that print results, in their order, without drawings of machines and curves that no sentence
speaks of."""

STUDIES: Final[Mapping[str, Callable[[Sequence[RunOutcome]], Iterable[Judged]]]] = {
    "tables": tables.judged,
    "grasping": grasping.judged,
    "bumps": studies.judged_bumps,
    "two-feet": two_feet.judged,
    "walk-times": rough.judged_times,
}
"""The studies that put runs beside a paper, and what they say."""


def judged(folder: Path) -> Iterator[Judged]:
    """The verdicts of a recorded run or comparison, of whose runs those count that have been tried; or those of a file.

    Raises:
        InputError: The folder holds neither, or a comparison of a study that no paper has.
    """
    if folder.suffix == ".json":
        yield from (Judged(**one) for one in json.loads(folder.read_text(encoding="utf-8"))["judged"])
        return
    if (folder / "comparison.json").is_file():
        comparison = record.load(folder)
        if comparison.study is None or comparison.study not in STUDIES:
            raise InputError(f"{folder} is no comparison with a paper; those are the studies {', '.join(STUDIES)}")
        yield from STUDIES[comparison.study]([o for o in comparison.outcomes if o.reason != record.NOT_RUN])
        return
    metrics = read_metrics(folder)
    for key, verdict in (metrics.get("verdicts") or {}).items():
        yield Judged(metrics["sources"][key], key, metrics["paper"][key], metrics[key], verdict)


def summed(everything: Sequence[Judged]) -> dict[str, Any]:
    """Every place with the number of verdicts of each kind, and every verdict, as plain data.

    Raises:
        InputError: A verdict is on something that no paper prints, or a place has more of them than numbers.
    """
    counts = by_source(everything)
    places = []
    for place in PLACES:
        agree, derived, unexplained = counts.pop(f"{place.paper}, {place.where}", (0, 0, 0))
        left = place.printed - agree - derived - unexplained
        if left < 0:
            raise InputError(f"{place.paper}, {place.where} has {-left} more verdicts than numbers; one folder each")
        places.append(
            {**place._asdict(), "agree": agree, "derived": derived, "unexplained": unexplained, "not_compared": left}
        )
    if counts:
        raise InputError(f"no such table or figure: {', '.join(counts)}")
    return {"places": places, "judged": [one._asdict() for one in everything]}


def newest(everything: Iterable[Judged]) -> list[Judged]:
    """The last verdict on each printed number."""
    return list({(one.source, one.what): one for one in everything}.values())


def conduct(out: Path) -> Iterator[Path]:
    """Run the command of every place that has not been run, each in a folder of its own; yields the folders."""
    commands = dict.fromkeys(command for place in PLACES for command in place.command.split("; ") if command)
    for command in commands:
        _, action, experiment, *options = shlex.split(command)
        name = options[options.index("--study") + 1] if "--study" in options else experiment
        if not (out / name / "metrics.json").is_file():
            words = [action, experiment, *options, "--quiet", "--json", "--out", str(out / name)]
            subprocess.run([sys.executable, "-m", "idcontrol", *words], stdout=sys.stderr, check=False)
        yield out / name


if __name__ == "__main__":
    try:
        with contextlib.redirect_stdout(sys.stderr):
            folders = [Path(name) for name in sys.argv[1:]] or list(conduct(Path("runs/papers")))
        found = summed(newest(one for folder in folders for one in judged(folder)))
    except InputError as error:
        sys.exit(str(error))
    print(json.dumps(jsonable(found), ensure_ascii=False, indent=1, allow_nan=False))
