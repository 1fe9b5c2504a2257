"""Make the page of pictures, one for each experiment: ``make gallery``; needs Chromium and the extra ``viz``.

Experiments in `IN_3D` are shown as scenes in 3-D, all others by a figure that their run draws.
"""

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
from PIL import Image, ImageChops

from idcontrol import cli
from idcontrol.cli.view import find_robot
from idcontrol.config.entries import EXPERIMENTS, entry_points, load_experiment
from idcontrol.record.drawing import recorded
from idcontrol.record.recording import load
from idcontrol.show.view.film import Film
from idcontrol.show.view.page import Page, Player, gif, photo, serve, stop

DOCS = Path(__file__).parent
OPTIONS = {
    "trot": "--duration 4",
    "rough": "--duration 4",
    "walk": "--robot g1",
    "sway": "--robot g1",
    "scaling": "--set 'contacts=[1,2,4,8,16,32,64]' --set samples=50 --set budget_s=0.3 "
    """--set 'schemes=["id-coulomb-qp","id-noslip-qp","id-sap"]'""",
    "contact-problems": "--preset hostile --set problems=400",
    "endurance": "--set steps=60000",
    "league": "--set random=20 --set hostile=20",
    "standing": "--set tsid_python=tsid/bin/python",
    "tosses": "--preset fitted --set data=cube_tosses.npz",
    "icub-forces": "--set data=icub_walk.npz",
}
COMMANDS = {
    name: f"idcontrol run {name} {OPTIONS.get(name, '')}".rstrip()
    for name in (
        "trot", "rough", "walk", "sway", "squat", "lift", "push", "reach", "teleop-walk", "grasp", "box-grip",
        "slip-control", "jar", "clutter", "sphere-stack", "incline", "spring-cylinder", "pendulum", "pendulum-limit",
        "foundation", "chatter", "enumeration", "lcp-suite", "scaling", "contact-problems", "endurance", "league",
        "standing", "tosses", "icub-forces",
    )
}  # fmt: skip
"""Command of each picture, in the order of the page."""
DATA = {"standing": "tsid/bin/python", "tosses": "cube_tosses.npz", "icub-forces": "icub_walk.npz"}
"""Data files of commands; if a file is missing, the existing picture is kept."""
SIZE = (360, 540)
"""Height and width of a picture in pixels."""
IN_3D = {"trot": SIZE, "rough": SIZE, "walk": (1200, 1200), "grasp": SIZE, "jar": (1080, 1620)}
"""Experiments shown in 3-D, with height and width in pixels before cropping."""
CROPPED = {"walk": (330, 400, 830, 850)}
"""Experiments whose picture is cropped to a box: left, top, right, bottom [pixels]."""
FIGURES = {"squat": "Feet", "reach": "Feet"}
"""Titles of figures for experiments whose first figure shows little."""
FILM_FROM_S, FILM_S, FILM_SPEED, FILM_FRAMES_PER_S = 1.0, 0.6, 0.25, 10
"""Film of the trot: start and length in the run's time [s], speed, frames per second."""


@contextmanager
def browser(address: str, profile: Path) -> Iterator[None]:
    """Open a page in a headless Chromium."""
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


def rendered(folder: Path, times: list[float], profile: Path, size: tuple[int, int] = SIZE) -> list[Any]:
    """Return pictures of a run at these times [s], drawn by a browser, shape (height, width, 3) each."""
    film = Film(load(folder), find_robot)
    server = serve(None, folder.name)
    arrived = threading.Event()
    clients: list[viser.ClientHandle] = []
    server.on_client_connect(lambda client: (clients.append(client), arrived.set()))
    try:
        player = Player(Page(server, film.stage, film.run.title, follow=True), film)
        player.toggle()
        with browser(f"http://{server.get_host()}:{server.get_port()}", profile):
            arrived.wait(60.0)
            time.sleep(8.0)  # wait until the browser has loaded the meshes
            frames = []
            for t in times:
                player.slider.value = t
                player.advance(0.0)
                frames.append(photo(clients[0], size))
        return frames
    finally:
        stop(server)


def picture(name: str, folder: Path, out: Path, profile: Path) -> Path:
    """Write the picture of a run into the folder `out`; return its path.

    The picture is the scene for an experiment in `IN_3D`, otherwise the figure in `FIGURES`, by default the first.
    """
    run = load(folder)
    if name not in IN_3D:
        figures = recorded(run.folder, run.meta)
        drawn = next((one for one in figures if one.title == FIGURES.get(name, one.title)), None)
        if drawn is None:
            sys.exit(f"{name} draws no figure; let its run draw one, for its report as well")
        (out / f"{name}.svg").write_bytes(base64.b64decode(drawn.source.partition(",")[2]))
        return out / f"{name}.svg"
    t = run.arrays["t"]
    (frame,) = rendered(folder, [float(t[len(t) // 2])], profile, IN_3D[name])
    image = Image.fromarray(frame)
    image = image.crop(CROPPED.get(name, (0, 0, *image.size)))
    blank = Image.new(image.mode, image.size, image.getpixel((0, 0)))
    image = image.crop(ImageChops.difference(image, blank).getbbox())
    # an octree keeps rare colours, here of the arrows; the median cut would drop them
    image.quantize(128, method=Image.Quantize.FASTOCTREE).save(out / f"{name}.png", optimize=True)
    return out / f"{name}.png"


def film(folder: Path, out: Path, profile: Path) -> None:
    """Write the film of a trot to `out` as a GIF."""
    times = FILM_FROM_S + np.arange(0.0, FILM_S, FILM_SPEED / FILM_FRAMES_PER_S)
    out.write_bytes(gif(rendered(folder, list(times), profile), FILM_FRAMES_PER_S))


def part(name: str, command: str, shown: Path) -> str:
    """Return the section of the page about one experiment."""
    image = f"![{name}](pictures/gallery/{shown.name})"
    summary = load_experiment(name).summary
    return "\n\n".join((f"## {name}", f"{summary[0].upper()}{summary[1:]}.", image, f"```sh\n{command}\n```"))


def main() -> None:
    """Run every experiment whose data exist, and write its picture; then write the page."""
    if missing := set(entry_points(EXPERIMENTS)) ^ set(COMMANDS):
        sys.exit(f"the gallery's commands and the installed experiments differ: {', '.join(sorted(missing))}")
    out = DOCS / "pictures" / "gallery"
    out.mkdir(parents=True, exist_ok=True)
    parts = ["# Gallery", "One picture of each experiment, and the command that made its run."]
    for name, command in COMMANDS.items():
        if name in DATA and not Path(DATA[name]).is_file():
            parts.append(part(name, command, next(out.glob(f"{name}.*"))))
            continue
        with TemporaryDirectory() as scratch:
            folder = Path(scratch) / "run"
            cli.main([*shlex.split(command)[1:], "--quiet", "--out", str(folder)])
            shown = picture(name, folder, out, Path(scratch) / "browser")
            if name == "trot":
                film(folder, DOCS / "pictures" / "trot.gif", Path(scratch) / "browser")
        parts.append(part(name, command, shown))
    (DOCS / "gallery.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
