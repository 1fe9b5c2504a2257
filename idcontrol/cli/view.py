"""``idcontrol view``: a recorded run in 3-D in the browser."""

from __future__ import annotations

import signal
import webbrowser
from pathlib import Path
from typing import Any

import click

from idcontrol.cli.console import DONE, say
from idcontrol.entries import ROBOTS, entry_points
from idcontrol.errors import InputError


@click.command("view", short_help="Replay a run in 3-D in the browser.")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--port", type=int, metavar="N", help="Port on 127.0.0.1; by default 8080 or the next that is free.")
@click.option("--no-browser", is_flag=True, help="Only serve the page; open it yourself.")
def command(folder: Path, port: int | None, no_browser: bool) -> int:
    """Replay the run in DIR in 3-D in the browser, until Ctrl-C or SIGTERM."""
    from idcontrol.record.recording import load

    run = load(folder)
    try:
        from idcontrol.show.view.film import Film
        from idcontrol.show.view.page import Page, Player, play, serve, stop
    except ModuleNotFoundError as error:
        raise InputError(f"the view needs the package {error.name}: pip install 'idcontrol[viz]'") from error
    film = Film(run, find_robot)
    server = serve(port, f"idcontrol view {folder.name}")
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        player = Player(Page(server, film.stage, film.title(), follow=film.strays()), film)
        address = f"http://{server.get_host()}:{server.get_port()}"
        note = f" ({run.note})" if run.note else ""
        click.echo(f"{folder} is shown at {address}{note}; Ctrl-C ends it")
        if not no_browser:
            webbrowser.open(address)
        play(player, lambda: True)
    except KeyboardInterrupt:
        return say("the view has ended", DONE)
    finally:
        stop(server)
        signal.signal(signal.SIGTERM, before)
    return DONE


def find_robot(name: str) -> Any:
    """The robot called `name`, or at that path, by the first library that knows it."""
    libraries = [entry.load() for entry in entry_points(ROBOTS).values()]
    if not libraries:
        raise InputError("no robot library is installed; install idcontrol with its robots")
    return next((library for library in libraries if name in library.names()), libraries[0]).load(name)
