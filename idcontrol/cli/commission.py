"""``idcontrol commission``: lead an operator through a robot's first day."""

from __future__ import annotations

import json
import sys
import termios
from pathlib import Path
from typing import TYPE_CHECKING

import click

from idcontrol.cli import completion
from idcontrol.cli.console import DONE, TASK_FAILED, Grid, mark, print_json, say, show
from idcontrol.cli.faults import Stopped
from idcontrol.cli.loop import CONNECTION, drive
from idcontrol.cli.options import JSON, OUT
from idcontrol.errors import InputError, UnknownName

if TYPE_CHECKING:
    from idcontrol.experiments.commission import Check, Step
    from idcontrol.robots import Robot


@click.command("commission", short_help="Lead through a robot's first day, step by step.")
@click.argument("name", metavar="ROBOT", shell_complete=completion.robots)
@click.option("--peer", metavar="HOST:PORT|FILE", help="The machine; by default a simulated one.")
@click.option("--step", "only", multiple=True, metavar="NAME", help="Only this step; may be repeated.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of all loops, as in `loop`.")
@OUT
@JSON
def command(
    name: str, peer: str | None, only: tuple[str, ...], settings: tuple[str, ...], out: Path | None, as_json: bool
) -> int:
    """Commission ROBOT: signs of the joints, emergency stop, hoist, stand, push, first steps.

    Each step is a run of the loop. The next step begins only if the measured numbers are in their accepted ranges.
    """
    from idcontrol import robots
    from idcontrol.config.configuration import parse_setting
    from idcontrol.experiments.commission import STEPS
    from idcontrol.loop.realtime import one_blas_thread
    from idcontrol.record.recording import claim, fresh_folder

    one_blas_thread()
    names = [step.name for step in STEPS]
    if unknown := sorted(set(only) - set(names)):
        raise UnknownName("step", unknown[0], names)
    if peer is not None and not sys.stdin.isatty():
        raise InputError(f"the machine at {peer} moves only after you type 'arm': run at a terminal")
    robot, done = robots.load(name), []
    chosen = [step for step in STEPS if not only or step.name in only]
    for step in chosen:
        _require_free(step, robot, settings)
    if out is None:
        out = fresh_folder("runs", f"commission-{robot.name}")
    else:
        claim(out)
    hanging = [step.name for step in chosen if step.settings.get("hoist.hangs")]
    if peer is None and hanging and any(parse_setting(setting)[0] == "plant" for setting in settings):
        click.echo(f"the steps {', '.join(hanging)} do not use the plant: the base of the robot is fixed", err=True)
    for step in chosen:
        checks = _take(step, name, robot, peer, settings, out / step.name)
        missed = [check for check in checks if not check.passed]
        done.append({"step": step.name, "passed": not missed, "checks": [_plain(check) for check in checks]})
        if not as_json:
            show(_table(step.name, checks))
        if missed:
            break
    if as_json:
        print_json({"robot": robot.name, "completed": not missed, "steps": done, "out": str(out)})
    if not missed:
        return DONE
    return say(f"step {step.name}: {missed[0].what}: {missed[0].note}; its record is {out / step.name}", TASK_FAILED)


def _require_free(step: Step, robot: Robot, settings: tuple[str, ...]) -> None:
    """Refuse user settings that the step fixes.

    Raises:
        InputError: A setting would change the power, the duration or another fixed setting of the step.
    """
    from idcontrol.config.configuration import parse_setting, without_unit
    from idcontrol.experiments.commission import settings_of

    for key, _ in map(parse_setting, settings):
        of_loop, inner = key.startswith("loop."), key.removeprefix("loop.")
        for name, value in settings_of(step, robot.system()).items():
            own = name.removeprefix("loop.")
            spellings = (f".{own}", f".{without_unit(own)}")
            if name.startswith("loop.") == of_loop and (
                any(each.endswith(f".{inner}") for each in spellings) or own.startswith(f"{inner}.")
            ):
                raise InputError(f"--set {key}: the step {step.name} always has {name}={value}; leave {key} out")


def _take(step: Step, name: str, robot: Robot, peer: str | None, settings: tuple[str, ...], out: Path) -> list[Check]:
    """Run a step, at a real machine only after the operator has armed it; return the step's checks.

    Raises:
        Stopped: The operator did not arm the machine, or a signal ended the loop before anything moved.
    """
    from idcontrol.experiments.commission import Check, expected, settings_of
    from idcontrol.record.recording import load

    if peer is not None:
        _ask(step, expected(robot) if step.name == "signs" else [])
        reached: dict[str, object] = {"peer": peer, "arm": True}
    else:
        reached = {"transport": "inprocess", "pacing": "fast"}
    system = robot.system()
    chosen = tuple(f"{key}={json.dumps(value)}" for key, value in settings_of(step, system).items())
    request = {**dict.fromkeys(CONNECTION), "robot": name, **reached}
    drive("trot", request, (*chosen, *settings), out, None)
    checks = step.judge(load(out), system)
    if peer is not None and step.name == "signs" and all(check.passed for check in checks):
        _forget_keys()  # an answer given while joints still move is no answer
        seen = click.confirm("Did every printed foot move, in this order and direction?", err=True)
        note = "correct the keys turned and joints of the joint order in the robot file"
        checks.append(Check("seen by the operator", float(seen), 1.0, 1.0, note))
    return checks


def _ask(step: Step, lines: list[str]) -> None:
    """Print the operator's task and `lines`, and wait until the operator types ``arm``.

    Raises:
        Stopped: The operator typed another word.
    """
    for line in (f"step {step.name}: {step.task}", "One person holds the switch of the motors' supply.", *lines):
        click.echo(line, err=True)
    _forget_keys()  # a key pressed too early must not move the machine
    if click.prompt("Type arm to let the machine move", err=True).strip().lower() != "arm":
        raise Stopped(f"step {step.name} was not armed; nothing has moved", TASK_FAILED)


def _forget_keys() -> None:
    """Discard what was typed before a question."""
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def _plain(check: Check) -> dict[str, object]:
    return {"what": check.what, "value": check.value, "range": [check.least, check.most], "passed": check.passed}


def _table(name: str, checks: list[Check]) -> Grid:
    """Return a table of the step's checks: measured number, accepted range, and a mark."""
    grid = Grid(name, "measured", "from", "to", "", words=(name, ""))
    for check in checks:
        numbers = (f"{number:.3g}" for number in (check.value, check.least, check.most))
        grid.add(check.what, *numbers, mark(check.passed))
    return grid
