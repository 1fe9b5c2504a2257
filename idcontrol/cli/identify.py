"""``idcontrol identify``: identify a robot's parameters from logs of its motion."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from idcontrol.cli.console import Grid, print_json, show
from idcontrol.cli.options import FOLDER, JSON, ROBOT, real
from idcontrol.errors import InputError

if TYPE_CHECKING:
    from idcontrol.identify.logs import Log
    from idcontrol.robots import Robot


@click.command("identify", short_help="Identify a robot's masses, motors and offsets from runs.")
@click.argument("logs", nargs=-1, required=True, type=FOLDER, metavar="RUN...")
@ROBOT
@click.option(
    "--fit",
    "parts",
    metavar="PART,...",
    help="Some of wiring, offsets, links, armature, damping, friction, scale; by default all but wiring.",
)
@click.option("--mass", type=real, metavar="KG", help="Weighed mass of all moving links.")
@click.option(
    "--forces",
    type=click.Choice(["measured", "unknown"]),
    help="Use the recorded forces on feet, or treat them as unknown; by default they are used if they are complete.",
)
@click.option("--out", type=FOLDER, metavar="FILE", help="Robot file to write, with its URDF beside it.")
@JSON
def command(
    logs: tuple[Path, ...],
    robot: str | None,
    parts: str | None,
    mass: float | None,
    forces: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Identify a robot from RUNs: folders of runs, or NPZ files with t, q, v, tau and, for feet, force, gap or stance.

    The fit does not use the last fifth of each run; the last fifths judge the result.
    """
    from idcontrol.cli.run import show_metrics
    from idcontrol.experiments import identified
    from idcontrol.identify.identification import PARTS, WIRING, Question, identify, weighed
    from idcontrol.record.recording import fresh_folder
    from idcontrol.robots import writing

    if out is not None and out.suffix != ".toml":
        raise InputError(f"--out {out}: the name of a robot file ends with .toml")
    if out is not None:
        writing.require_new(out)
    if mass is not None and not mass > 0.0:
        raise InputError(f"--mass {mass}: a mass is positive")
    nominal, order, read = _read(logs, robot)
    asked = None if parts is None else frozenset(parts.split(","))
    if asked is not None and not asked <= {WIRING, *PARTS}:
        raise InputError(f"--fit {parts}: the parts are {', '.join((WIRING, *PARTS))}")
    measured = weighed(read) if forces is None else forces == "measured"
    if asked is None:
        asked = frozenset(PARTS) if measured or mass is not None else frozenset(PARTS) - {"scale"}
    question = Question(asked, mass, measured)
    result = identify(read, nominal, question)
    folder = fresh_folder("runs", f"identify-{nominal.name}")
    config = identified.config_of([str(log) for log in logs], nominal, question)
    metrics = identified.record(folder, config, result)
    if out is not None:
        writing.save(nominal, out, *identified.description(result, nominal, order))
        metrics["robot_file"] = str(out)
    if as_json:
        print_json(metrics)
        return
    show_metrics(metrics, *_wires(metrics), *_tables(metrics))
    if out is not None:
        show(f"robot file: {out}; idcontrol check {out}")


def _read(logs: tuple[Path, ...], asked: str | None) -> tuple[Robot, str | None, list[Log]]:
    """Return the nominal robot, the name of the machine's joint order (None if the runs set none), and the logs.

    Raises:
        UnknownName: The robot does not exist.
        InputError: The runs name no robot or several while `asked` is None, differ in the joint order, or do not fit
            the robot.
    """
    from idcontrol import robots
    from idcontrol.identify.logs import log_from, log_of, read_arrays
    from idcontrol.record.recording import load

    runs = [None if path.suffix == ".npz" else load(path) for path in logs]
    names = {str(run.config.get("robot")) for run in runs if run is not None}
    orders = {(run.config.get("loop") or {}).get("joints") for run in runs if run is not None}
    if asked is None and (len(names) != 1 or "None" in names):
        raise InputError("the runs do not name one robot; give --robot R")
    if len(orders) > 1:
        raise InputError("the runs were made with different orders of joints; identify them apart")
    robot = robots.load(names.pop() if asked is None else asked)
    read = [
        log_from(str(path), read_arrays(path), robot) if run is None else log_of(run, robot)
        for path, run in zip(logs, runs, strict=True)
    ]
    return robot, next(iter(orders), None), read


def _wires(metrics: dict[str, Any]) -> list[Grid | str]:
    """Return a line for each error of order or sign, and a line for each that the runs do not rule out."""
    if metrics["wiring"] is None:
        return []
    lines = metrics["wiring"]["errors"] or ["order and signs of the joints: no error shows"]
    return [*lines, *(f"the runs do not tell {doubt}" for doubt in metrics["wiring"]["unsure"])]


def _tables(metrics: dict[str, Any]) -> list[Grid | str]:
    """Return the tables of drives and links, and a note that explains their cells."""
    heads = {
        "scale": "scale", "armature": "armature [kg m²]", "damping": "damping [N m s/rad]",
        "friction": "friction [N m]", "offset": "offset [rad]",
    }  # fmt: skip
    before, after = metrics["misfit_nm"]["before"], metrics["misfit_nm"]["after"]
    drives = Grid("joint", *heads.values(), "missed before [N m]", "missed after [N m]", words=("joint",))
    for row, *missed in zip(metrics["drives"], before, after, strict=True):
        drives.add(row["joint"], *(_cell(row[name]) for name in heads), *(f"{each:.3g}" for each in missed))
    places = {"mass": "mass [kg]", "com_x": "com x [m]", "com_y": "com y [m]", "com_z": "com z [m]"}
    links = Grid("link", *places.values(), words=("link",))
    for row in metrics["links"]:
        links.add(row["link"], *(_cell(row.get(name)) for name in places))
    note = "± standard deviation; (brackets): the runs do not determine it; without ±: not fitted"
    return [drives, links, note]


def _cell(value: dict[str, Any] | None) -> str:
    if value is None or value["sd"] is None:
        return "" if value is None else f"{value['value']:.4g}"
    text = f"{value['value']:.3g}±{value['sd']:.1g}"
    return text if value["known"] else f"({text})"
