"""``idcontrol view``: replay a recorded run in 3-D in the browser."""

import signal
import webbrowser
from pathlib import Path
from typing import Any

import click

from idcontrol.cli.console import DONE, say
from idcontrol.cli.options import FOLDER
from idcontrol.config.entries import library_of
from idcontrol.errors import InputError, install_command


@click.command("view", short_help="Replay a run in 3-D in the browser.")
@click.argument("folder", type=FOLDER, metavar="DIR")
@click.option("--port", type=int, metavar="N", help="Port on 127.0.0.1; by default 8080 or the next free port.")
@click.option("--no-browser", is_flag=True, help="Only serve the page; open it yourself.")
@click.option(
    "--publish",
    type=FOLDER,
    metavar="FILE",
    help="Only write the replay to this HTML file, and its curves to another.",
)
def command(folder: Path, port: int | None, no_browser: bool, publish: Path | None) -> int:
    """Replay the run in DIR in 3-D in the browser, until Ctrl-C or SIGTERM."""
    return view(folder, port, browser=not no_browser, publish=publish)


def view(folder: Path, port: int | None = None, *, browser: bool = True, publish: Path | None = None) -> int:
    """Replay a run until Ctrl-C or SIGTERM, or write the replay to the file `publish`; return the exit status.

    Raises:
        InputError: There is nothing to show, a package is missing, or the port or the file cannot be used.
    """
    from idcontrol.record.recording import load

    run = load(folder)
    try:
        from idcontrol.show.report import report, write_page
        from idcontrol.show.view.film import Film
        from idcontrol.show.view.page import Page, Player, play, serve, stop
    except ModuleNotFoundError as error:
        raise InputError(f"the view needs the package {error.name}: {install_command('viz')}") from error
    film = Film(run, find_robot)
    server = serve(port, f"idcontrol view {folder.name}")
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        player = Player(Page(server, film.stage, film.run.title, follow=film.strays()), film)
        if publish is not None:
            beside = publish.with_name(f"{publish.stem}-curves.html")
            write_page(beside, report(folder).read_text(encoding="utf-8"))
            write_page(publish, player.publish(beside.name))
            click.echo(f"{publish} plays without a server; it links to its curves in {beside}")
            return DONE
        address = f"http://{server.get_host()}:{server.get_port()}"
        note = f" ({run.note})" if run.note else ""
        click.echo(f"{folder} is shown at {address}{note}; Ctrl-C ends it")
        if browser:
            webbrowser.open(address)
        play(player, lambda: True)
    except KeyboardInterrupt:
        return say("the view has ended", DONE)
    finally:
        stop(server)
        signal.signal(signal.SIGTERM, before)
    return DONE


def find_robot(name: str) -> Any:
    """Return the robot called `name`, or at that path, from the first library that has it."""
    return library_of(name).load(name)
