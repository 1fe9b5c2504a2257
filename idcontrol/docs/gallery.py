"""Make the page of pictures, one for each experiment: ``make gallery``; needs Chromium and the extra ``viz``.

An experiment with a scene is shown in 3-D, one without by the first figure that it draws.
"""

from __future__ import annotations

import base64
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import viser
from PIL import Image

from idcontrol import cli
from idcontrol.cli.view import find_robot
from idcontrol.entries import load_experiment
from idcontrol.record.recording import load
from idcontrol.show.drawing import recorded
from idcontrol.show.view.film import Film
from idcontrol.show.view.page import Page, Player, gif, serve, stop

DOCS = Path(__file__).parent
COMMANDS = {
    "trot": "idcontrol run trot --duration 4",
    "rough": "idcontrol run rough --duration 4",
    "grasp": "idcontrol run grasp",
    "box-grip": "idcontrol run box-grip",
    "slip-control": "idcontrol run slip-control",
    "clutter": "idcontrol run clutter",
    "sphere-stack": "idcontrol run sphere-stack",
    "incline": "idcontrol run incline",
    "spring-cylinder": "idcontrol run spring-cylinder",
    "pendulum": "idcontrol run pendulum",
    "pendulum-limit": "idcontrol run pendulum-limit",
    "foundation": "idcontrol run foundation",
    "chatter": "idcontrol run chatter",
    "enumeration": "idcontrol run enumeration",
    "lcp-suite": "idcontrol run lcp-suite",
    "scaling": "idcontrol run scaling",
}
"""The command that makes each picture; experiments that draw nothing are left out."""
SIZE = (360, 540)
"""Height and width of a picture in pixels."""
FILM_FROM_S, FILM_S, FILM_SPEED, FILM_FRAMES_PER_S = 1.0, 0.6, 0.25, 10
"""The film of the trot: its first instant and its length in the run's own time [s], its speed and rate."""


@contextmanager
def browser(address: str, profile: Path) -> Iterator[None]:
    """A Chromium without a window that shows a page."""
    command = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if command is None:
        sys.exit("the gallery needs Chromium: apt-get install chromium")
    options = ["--headless=new", "--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
    process = subprocess.Popen(
        [command, *options, "--window-size=900,700", f"--user-data-dir={profile}", address],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def rendered(folder: Path, times: list[float], profile: Path) -> list[Any]:
    """Pictures of a run at these times [s], shape (height, width, 3) each, as a browser draws them."""
    film = Film(load(folder), find_robot)
    server = serve(None, folder.name)
    arrived = threading.Event()
    clients: list[viser.ClientHandle] = []
    server.on_client_connect(lambda client: (clients.append(client), arrived.set()))
    try:
        player = Player(Page(server, film.stage, film.title(), follow=True), film)
        player.toggle()
        with browser(f"http://{server.get_host()}:{server.get_port()}", profile):
            arrived.wait(60.0)
            time.sleep(8.0)  # meshes are on their way
            frames = []
            for t in times:
                player.slider.value = t
                player.advance(0.0)
                frames.append(clients[0].get_render(*SIZE, transport_format="png")[..., :3])
        return frames
    finally:
        stop(server)


def picture(name: str, folder: Path, out: Path, profile: Path) -> Path | None:
    """The picture of a run; None if it has none."""
    run = load(folder)
    if "scene" in run.meta:
        t = run.arrays["t"]
        (frame,) = rendered(folder, [float(t[len(t) // 2])], profile)
        Image.fromarray(frame).quantize(128).save(out / f"{name}.png", optimize=True)
        return out / f"{name}.png"
    for drawn in recorded(run.folder, run.meta):
        (out / f"{name}.svg").write_bytes(base64.b64decode(drawn.source.partition(",")[2]))
        return out / f"{name}.svg"
    return None


def film(folder: Path, out: Path, profile: Path) -> None:
    """The film of a trot, as a GIF."""
    times = FILM_FROM_S + np.arange(0.0, FILM_S, FILM_SPEED / FILM_FRAMES_PER_S)
    out.write_bytes(gif(rendered(folder, list(times), profile), FILM_FRAMES_PER_S))


def main() -> None:
    """Run every experiment of the gallery, write its picture, and the page of all of them."""
    out = DOCS / "pictures" / "gallery"
    out.mkdir(parents=True, exist_ok=True)
    parts = [
        "---\norphan: true\n---",
        "# Gallery",
        "Each picture and the command that made it; `make gallery` makes them again.",
    ]
    for name, command in COMMANDS.items():
        with TemporaryDirectory() as scratch:
            folder = Path(scratch) / "run"
            cli.main([*shlex.split(command)[1:], "--quiet", "--out", str(folder)])
            shown = picture(name, folder, out, Path(scratch) / "browser")
            if name == "trot":
                film(folder, DOCS / "pictures" / "trot.gif", Path(scratch) / "browser")
        if shown is not None:
            image = f"```{{image}} pictures/gallery/{shown.name}\n:alt: {name}\n:width: 640px\n```"
            parts += [f"## {name}", f"{load_experiment(name).summary}.", image, f"```sh\n{command}\n```"]
    (DOCS / "gallery.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
