"""``idcontrol bus``: connect a loop to a robot on a bus."""

import click

from idcontrol.cli.console import DONE, print_json
from idcontrol.cli.loop import LOOPS
from idcontrol.cli.options import JSON, ROBOT, real
from idcontrol.config.entries import entry_points


@click.command("bus", short_help="Connect a loop to a robot with Unitree's messages on DDS.")
@ROBOT
@click.option(
    "--bind", default="127.0.0.1:9002", show_default=True, metavar="HOST:PORT", help="Address for the loop's --peer."
)
@click.option("--interface", metavar="NAME", help="Network interface to the robot; by default only this computer.")
@click.option(
    "--domain",
    type=click.IntRange(0, 232),
    default=0,
    show_default=True,
    metavar="N",
    help="Number of the DDS domain.",
)
@click.option(
    "--silence",
    "silence_s",
    type=real,
    default=0.04,
    show_default=True,
    metavar="S",
    help="Brake if the loop is silent for this time [s].",
)
@JSON
def command(robot: str | None, bind: str, interface: str | None, domain: int, silence_s: float, as_json: bool) -> int:
    """Relay messages between a loop with --peer and a robot on a bus, until the loop ends.

    The robot is go1 by default; the robot's file must list the joint order `unitree`.
    """
    from idcontrol.loop.realtime import one_blas_thread

    one_blas_thread()
    import msgspec

    from idcontrol.adapters.bus import serve
    from idcontrol.config.configuration import build
    from idcontrol.loop.session import resolve
    from idcontrol.loop.transport.udp import address

    entry = entry_points(LOOPS)["trot"]
    config = build(entry.load().presets["default"], {"robot": robot or "go1"}, {"robot": "--robot"})
    session = resolve(entry.value, config)
    count = serve(session, address(bind), interface=interface, domain=domain, silence_s=silence_s)
    if as_json:
        print_json(msgspec.to_builtins(count))
    else:
        click.echo(
            f"{count.commands} commands of the loop: {count.lost} lost, {count.overtaken} overtaken by newer ones; "
            f"{count.put} put on the bus, then {count.brakes} brake messages; "
            f"{count.states} states of the robot: {count.damaged} damaged"
        )
    return DONE
