"""The tables and figures of the papers, and how many of their numbers agree with recorded runs.

``python -m idcontrol.experiments.papers [VERDICTS.json] RUN_DIR...`` reads runs and comparisons and prints the verdicts
as one JSON object, the source of the page `verdicts.md`. If a file of earlier verdicts is given, verdicts that no run
judges again are kept. Without run folders it first makes the runs, in ``runs/papers``; runs that exist there are not
repeated.
"""

import contextlib
import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from idcontrol.config.configuration import jsonable
from idcontrol.errors import InputError
from idcontrol.experiments import grasping, rough, studies, tables
from idcontrol.experiments.tables import two_feet
from idcontrol.experiments.verdicts import Judged, by_source
from idcontrol.record.recording import read_metrics
from idcontrol.sweeps import record
from idcontrol.sweeps.record import RunOutcome


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table, a figure, or a section that states numbers in its text.

    Attributes:
        paper: Author and year.
        where: Name of the place in the paper.
        what: Content of the table, figure or section.
        printed: How many numbers and statements are printed there.
        command: The command that compares them; "" if there is no such command.
        lacks: Why some or all of its numbers are not compared.
    """

    paper: str
    where: str
    what: str
    printed: int
    command: str = ""
    lacks: str = ""


PLACES: Final = msgspec.toml.decode(
    (Path(__file__).parent / "paper" / "places.toml").read_bytes(), type=dict[str, tuple[Place, ...]]
)["place"]

STUDIES: Final[Mapping[str, Callable[[Sequence[RunOutcome]], Iterable[Judged]]]] = {
    "tables": tables.judged,
    "grasping": grasping.judged,
    "bumps": studies.judged_bumps,
    "two-feet": two_feet.judged,
    "walk-times": rough.judged_times,
}
"""The studies that compare runs with a paper, by name."""


def judged(folder: Path) -> Iterator[Judged]:
    """Yield verdicts of a recorded run, of the runs of a comparison that have run, or of a JSON file of verdicts.

    Raises:
        InputError: The folder holds neither a run nor a comparison, or its study belongs to no paper.
    """
    if folder.suffix == ".json":
        yield from (Judged(**one) for one in json.loads(folder.read_text(encoding="utf-8"))["judged"])
        return
    if (folder / "comparison.json").is_file():
        comparison = record.load(folder)
        if comparison.study is None or comparison.study not in STUDIES:
            raise InputError(f"{folder} is no comparison with a paper; only these studies are: {', '.join(STUDIES)}")
        yield from STUDIES[comparison.study]([o for o in comparison.outcomes if o.reason != record.NOT_RUN])
        return
    metrics = read_metrics(folder)
    for key, verdict in (metrics.get("verdicts") or {}).items():
        yield Judged(metrics["sources"][key], key, metrics["paper"][key], metrics[key], verdict)


def summed(everything: Sequence[Judged]) -> dict[str, Any]:
    """Return every place with its number of verdicts of each kind, and every verdict, as plain data.

    Raises:
        InputError: A verdict belongs to no place, or a place has more verdicts than printed numbers.
    """
    counts = by_source(everything)
    places = []
    for place in PLACES:
        agree, derived, unexplained = counts.pop(f"{place.paper}, {place.where}", (0, 0, 0))
        rest = place.printed - agree - derived - unexplained
        if rest < 0:
            raise InputError(f"{place.paper}, {place.where} has {-rest} more verdicts than numbers; one folder each")
        places.append(
            {
                **msgspec.structs.asdict(place),
                "agree": agree,
                "derived": derived,
                "unexplained": unexplained,
                "not_compared": rest,
            }
        )
    if counts:
        raise InputError(f"no such table or figure: {', '.join(counts)}")
    return {"places": places, "judged": [one._asdict() for one in everything]}


def newest(everything: Iterable[Judged]) -> list[Judged]:
    """Return the last verdict on each printed number."""
    return list({(one.source, one.what): one for one in everything}.values())


def conduct(out: Path) -> Iterator[Path]:
    """Run each command in its own folder below `out`, unless the folder has a finished run; yield all folders."""
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
        summary = summed(newest(one for folder in folders for one in judged(folder)))
    except InputError as error:
        sys.exit(str(error))
    print(json.dumps(jsonable(summary), ensure_ascii=False, indent=1, allow_nan=False))
