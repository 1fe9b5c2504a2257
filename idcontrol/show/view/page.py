"""The page of a replay in the browser, made with the package viser: the 3-D scene, controls and curves."""

import contextlib
import html
import http
import importlib.util
import io
import itertools
import logging
import re
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import imageio.v3 as imageio
import numpy as np
import pinocchio as pin
import viser
import websockets.asyncio.server
from numpy.typing import NDArray
from viser import uplot

from idcontrol.errors import InputError, install_command
from idcontrol.record.plots import COLORS, DARK, thinned
from idcontrol.show.view.film import Film
from idcontrol.show.view.shapes import Mesh, arrow, pyramid, shaft
from idcontrol.show.view.stage import Shot, Stage
from idcontrol.types import Array

Rgb = tuple[int, int, int]

HOST = "127.0.0.1"
LOOPBACK = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.IGNORECASE)
"""Accepted names of this computer in the header ``Host``; the port may differ, because of tunnels."""
FRAMES_PER_S = 30.0
SETTLE_S = 0.3
"""Time to wait after stopping the server [s], in which its thread prints a last message."""
SPEEDS = ("0.02", "0.1", "0.25", "0.5", "1", "2", "5")

PREDICTED: Rgb = (37, 99, 235)
MEASURED: Rgb = (234, 88, 12)
LEGEND = {"measured force, true friction": MEASURED, "predicted force, assumed friction": PREDICTED}
"""Meaning of the colours of arrows and friction cones."""
PATH: Rgb = (110, 118, 130)
REFERENCE: Rgb = (22, 163, 74)
GROUND: Rgb = (236, 238, 241)
NET: Rgb = (190, 195, 203)

# shares of the stage's size
SHAFT, HEAD, HEAD_LENGTH = 0.008, 0.018, 0.045
CONE_HEIGHT = 0.12
LINE = 0.006
WAYPOINT = 0.02
LIFT = 0.002
"""Height of drawings above the ground, as a share of the stage's size."""

GHOST = 0.35
"""Opacity of the robot drawn at the reference."""
WINDOW_S, POINTS, CURVES_EVERY_S = 0.5, 75, 0.25
"""Time before and after the shown instant in curves [s], number of their bins, wall time between two updates [s]."""
FILM_S, FILM_FRAMES_PER_S, FILM_SIZE = 4.0, 20, (480, 720)
"""Length of an exported film [s of the wall clock], its rate, and its height and width in pixels."""

NARROW_PX, ABOVE = 576, 0.7
"""Page width [px] below which viser puts all panels below the stage, on up to 60 % of the height; and the share of half
the height by which the stage is then raised above the middle."""
FITTING_S = 5.0
"""Time in which the server sets the camera of a newly connected browser [s]."""
PUBLISHED = 1.25
"""Factor on the distance of the camera on a published page. Such a page cannot adapt the distance; with this factor the
stage fits pages up to twice as high as wide."""
PANELS_PX, LEAST_FREE = 630, 0.3
"""Width of the panels at both sides of a page [px], and minimum width between them, as a share of the page's height."""
CORNER = (
    '<div style="position:fixed;right:14px;bottom:54px;z-index:9;padding:2px 8px;border-radius:5px;background:#fffc;'
    'font:15px system-ui">{}<a href="{}" style="color:#2563eb">curves and figures of this run</a></div>'
)
"""Legend and link on a published page, above its time bar: viser shows notices at the top."""
EYE = np.array([1.6, -1.6, 1.0])
"""Position of the first camera relative to the point that it looks at, as shares of the stage's size."""


class _Arrow(NamedTuple):
    """An arrow along z of its frame, tail at the origin.

    Attributes:
        frame: The frame.
        rods: Two copies of each rod in `idcontrol.show.view.shapes.RODS`.
        head: The head.
    """

    frame: viser.FrameHandle
    rods: list[tuple[viser.MeshHandle, viser.MeshHandle]]
    head: viser.MeshHandle


class Page:
    """The scene in the browser.

    Attributes:
        server: The web server of the page.
        controls: Panel section for the controls of a `Player`; hidden without a player.
    """

    def __init__(self, server: viser.ViserServer, stage: Stage, title: str, *, follow: bool) -> None:
        """Set up the objects of `stage`; `follow` is True if the camera follows the robot until the user changes it."""
        self.server, self._stage = server, stage
        self._frames: list[viser.FrameHandle] = []
        self._cones: list[viser.FrameHandle] = []
        self._ghost: list[viser.FrameHandle] = []
        self._arrows: dict[str, list[_Arrow]] = {}
        server.gui.configure_theme(show_logo=False, show_share_button=False, brand_color=PREDICTED)
        server.gui.main_panel.dock_right()
        self._stage_frame = server.scene.add_frame("/stage", show_axes=False)
        self._light()
        self._build_ground()
        self._build_nodes()
        server.gui.add_markdown(f"**{title}**")
        self._caption = server.gui.add_html("")
        self.controls = server.gui.add_folder("Replay", visible=False)
        panel = server.gui.add_panel()  # the panel is folded on a narrow page
        panel.dock_below(server.gui.main_panel)
        self._shown = panel.add_tab("Shown")
        with self._shown:
            self._build_forces()
            self._build_ghost()
            self._follow = server.gui.add_checkbox("Follow", follow)
        self._centre: Array | None = None
        server.on_client_connect(self._keep_fitted)

    def show(self, shot: Shot, caption: dict[str, str]) -> None:
        """Move all objects to the poses of `shot`, and show `caption` as a table."""
        centre, before = shot.poses[:, :3].mean(axis=0), self._centre
        self._centre = centre
        if before is None:
            self._look_at(centre)
        elif self._follow.value:
            # move the world instead of the camera: the user may be turning the camera
            self._stage_frame.position = self._stage_frame.position - (centre - before) * [1.0, 1.0, 0.0]
        with self.server.atomic():
            for frame, pose in zip(self._frames, shot.poses, strict=True):
                _place(frame, pose)
            for cone, pose, loaded in zip(self._cones, shot.contact, shot.loaded, strict=True):
                _place(cone, pose)
                cone.visible = bool(loaded)
            for name, points in (("measured", shot.measured), ("predicted", shot.predicted)):
                for drawn, (tail, head) in zip(self._arrows[name], points, strict=True):
                    self._point(drawn, tail, head)
            for frame, pose in zip(self._ghost, shot.reference, strict=False):
                _place(frame, pose)
            self._caption.content = _table(caption)

    def _point(self, drawn: _Arrow, tail: Array, head: Array) -> None:
        """Draw an arrow from `tail` to `head`, shape (3,) each [m]; hide it if they coincide.

        An arrow shorter than its cone is drawn with the cone's length.

        Only poses and visibility change, which browsers apply together with the robot's poses. In a playing film,
        changes of meshes or scales would arrive late, and arrows would leave their feet.
        """
        along = head - tail
        length = float(np.linalg.norm(along))
        _appear(drawn.frame, length > 0.0)
        if length == 0.0:
            return
        drawn.frame.position, drawn.frame.wxyz = tuple(tail), _turn_to(along / length)
        tip = max(length - HEAD_LENGTH * self._stage.size, 0.0)
        drawn.head.position = (0.0, 0.0, tip)
        used, begin = shaft(tip) or (-1, 0.0)
        for i, (from_tail, to_head) in enumerate(drawn.rods):
            _appear(from_tail, i == used)
            _appear(to_head, i == used)
        if used >= 0:
            drawn.rods[used][1].position = (0.0, 0.0, begin)

    def _look_at(self, point: Array) -> None:
        """Let the camera of newly connected browsers look at `point`, shape (3,) [m], from slightly above."""
        camera = self.server.initial_camera
        camera.up = (0.0, 0.0, 1.0)
        camera.fov = np.deg2rad(40.0)
        camera.look_at = tuple(point)
        camera.position = tuple(point + self._stage.size * EYE)

    def corner(self, curves: str) -> str:
        """Return HTML for a corner of a published page: the legend if the scene has feet, and a link to `curves`.

        `curves` is the file name of a page in the same folder.
        """
        legend = _legend(LEGEND) if self._stage.feet else ""
        return CORNER.format(legend, html.escape(urllib.parse.quote(curves)))

    def frame_for_any_page(self) -> None:
        """Move the first camera back, so that the stage also fits tall pages."""
        camera = self.server.initial_camera
        camera.position = tuple(camera.look_at + PUBLISHED * self._stage.size * EYE)

    def _keep_fitted(self, client: viser.ClientHandle) -> None:
        """Fit the stage into the free part of a client's page for `FITTING_S`; then leave the camera to the user.

        A browser takes over the first camera, and reports its final size, only after it has connected.
        """
        began = time.monotonic()

        @client.camera.on_update
        async def fit(camera: viser.CameraHandle) -> None:
            if time.monotonic() - began < FITTING_S:
                position, look_at = self._fitted(camera)
                camera.position = position  # also moves the point that the camera looks at
                camera.look_at = look_at

    def _fitted(self, camera: viser.CameraHandle) -> tuple[Array, Array]:
        """Return the camera's position and look-at point, which show the stage between the panels of a page.

        On a narrow page, the stage is above the panels.
        """
        first = self.server.initial_camera
        away = first.position - first.look_at
        if camera.image_width < NARROW_PX:
            away = away / min(camera.aspect, 1.0)
            aim = first.look_at - [0.0, 0.0, ABOVE * np.linalg.norm(away) * np.tan(0.5 * first.fov)]
            return aim + away, aim
        free = (camera.image_width - PANELS_PX) / camera.image_height
        return first.look_at + away / np.clip(free, LEAST_FREE, 1.0), first.look_at

    def draw_way(self, path: Array, waypoints: Array) -> None:
        """Draw the path of the base, shape (n, 3) [m], and its waypoints, shape (k, 2) [m], on the ground."""
        scene, size = self.server.scene, self._stage.size
        handles: list[viser.SceneNodeHandle] = []
        if len(path) > 1:
            on_ground = self._on_ground(path[:, :2])
            pieces = np.stack([on_ground[:-1], on_ground[1:]], axis=1).astype(np.float32)
            handles.append(scene.add_line_segments("/stage/way/base", pieces, PATH, thickness=LINE * size))
        for i, place in enumerate(self._on_ground(waypoints), start=1):
            disc = scene.add_cylinder(
                f"/stage/way/waypoint {i}", radius=WAYPOINT * size, height=LIFT * size, color=REFERENCE,
                cast_shadow=False, position=tuple(place),
            )  # fmt: skip
            handles.append(disc)
        if handles:
            with self._shown:
                self._switch("Way and waypoints", handles)

    def _light(self) -> None:
        scene = self.server.scene
        scene.set_up_direction("+z")
        scene.configure_default_lights(enabled=True, cast_shadow=True)

    def _build_ground(self) -> None:
        ground, scene, size = self._stage.ground, self.server.scene, self._stage.size
        if ground is None:
            return
        cell = 10.0 ** np.floor(np.log10(size))
        if ground.heights.size:
            vertices, faces = _surface(ground.heights, ground.parameters)
            scene.add_mesh_simple(
                "/stage/ground", vertices, faces, color=GROUND, side="double", cast_shadow=False, receive_shadow=0.25
            )
            lines = self._on_ground(_net(ground.heights.shape, ground.parameters, cell).reshape(-1, 2))
            pieces = lines.reshape(-1, 2, 3).astype(np.float32)
            scene.add_line_segments("/stage/net", pieces, NET, thickness=0.4 * LINE * size)
            return
        n, offset = ground.parameters[:3], float(ground.parameters[3])
        scene.add_grid(
            "/stage/ground", plane="xy", infinite_grid=True, cell_size=cell, section_size=10.0 * cell,
            cell_color=(222, 225, 230), section_color=NET, fade_distance=25.0 * size,
            plane_color=GROUND, plane_opacity=1.0, shadow_opacity=0.25,
            wxyz=_turn_to(n), position=tuple(offset * n),
        )  # fmt: skip

    def _build_nodes(self) -> None:
        for i, node in enumerate(self._stage.nodes):
            name = f"/stage/bodies/{i} {node.name.replace('/', ' ')}"
            self._frames.append(self.server.scene.add_frame(name, show_axes=False))
            for k, mesh in enumerate(node.meshes):
                self._mesh(f"{name}/{k}", mesh)

    def _build_forces(self) -> None:
        """Add arrows and friction cones at the feet, with a switch for each kind and a legend."""
        stage, scene, gui = self._stage, self.server.scene, self.server.gui
        self._arrows = {"measured": [], "predicted": []}
        if not stage.feet:
            return
        gui.add_html(f'<div style="margin:4px 14px 8px">{_legend(LEGEND)}</div>')
        for name, colour in (("measured", MEASURED), ("predicted", PREDICTED)):
            whole = scene.add_frame(f"/stage/forces/{name}", show_axes=False)
            rods, head = arrow(SHAFT * stage.size, HEAD * stage.size, HEAD_LENGTH * stage.size, _shares(colour))
            for foot in range(stage.feet):
                place = f"/stage/forces/{name}/{foot}"
                frame = scene.add_frame(place, show_axes=False, visible=False)
                tails, heads = (
                    [self._mesh(f"{place}/{end} {k}", rod, shadow=False) for k, rod in enumerate(rods)]
                    for end in ("near", "far")
                )
                pairs = list(zip(tails, heads, strict=True))
                self._arrows[name].append(_Arrow(frame, pairs, self._mesh(f"{place}/head", head, shadow=False)))
            self._switch(f"Forces {name}", [whole])
        assumed, true = stage.scenery.mu_controller, stage.scenery.mu
        cones = [(mu, colour) for mu, colour in ((assumed, PREDICTED), (true, MEASURED)) if mu]
        words = [f"{mu:g} {who}" for who, mu in (("true", true), ("assumed", assumed)) if mu]
        if cones:
            self._switch("Friction cones", [scene.add_frame("/stage/cones", show_axes=False)])
            gui.add_html(_table({"friction": ", ".join(words)}))
        for foot in range(stage.feet):
            self._cones.append(scene.add_frame(f"/stage/cones/{foot}", show_axes=False, visible=False))
            for mu, colour in cones:
                shape = pyramid(mu, _shares(colour), 0.25)
                self._mesh(f"/stage/cones/{foot}/{mu:g}", shape, scale=CONE_HEIGHT * stage.size, shadow=False)

    def _build_ghost(self) -> None:
        """Add a translucent robot that shows the reference, hidden at first."""
        whole = self.server.scene.add_frame("/stage/reference", show_axes=False, visible=False)
        for i, node in enumerate(self._stage.nodes[: self._stage.links]):
            self._ghost.append(self.server.scene.add_frame(f"/stage/reference/{i}", show_axes=False))
            for k, mesh in enumerate(node.meshes):
                ghost = Mesh(mesh.vertices, mesh.faces, _shares(REFERENCE), GHOST)
                self._mesh(f"/stage/reference/{i}/{k}", ghost, shadow=False)
        self._switch("Reference", [whole], on=False)

    def _switch(self, label: str, handles: list[viser.SceneNodeHandle], *, on: bool = True) -> None:
        box = self.server.gui.add_checkbox(label, on)

        @box.on_update
        def _(_: object) -> None:
            for handle in handles:
                handle.visible = box.value

    def _mesh(self, name: str, mesh: Mesh, *, scale: float = 1.0, shadow: bool = True) -> viser.MeshHandle:
        return self.server.scene.add_mesh_simple(
            name, (scale * mesh.vertices).astype(np.float32), mesh.faces.astype(np.uint32), color=mesh.colour,
            opacity=None if mesh.opacity >= 1.0 else mesh.opacity, side="double", cast_shadow=shadow,
            receive_shadow=shadow,
        )  # fmt: skip

    def _on_ground(self, places: Array) -> Array:
        """Return points slightly above the ground, shape (n, 3), at `places`, x and y, shape (n, 2) [m]."""
        ground = self._stage.ground
        if ground is None:
            height = np.zeros(len(places))
        elif ground.heights.size:
            height = ground.height(places[:, 0], places[:, 1])
        else:
            n, offset = ground.parameters[:3], ground.parameters[3]
            height = (offset - places @ n[:2]) / n[2]
        return np.column_stack([places, height + LIFT * self._stage.size])


class Player:
    """Plays a film on a page: time slider, play and pause, speed, single steps, loop, and curves around the shown time.

    Attributes:
        slider: Slider with the shown time [s], which the user may drag.
        playing: True unless the film is paused; True also at the end of a film that does not repeat.
        speed: Drop-down menu with the speed relative to the run's own time.
        loop: Checkbox; if it is checked, the film repeats.
    """

    def __init__(self, page: Page, film: Film) -> None:
        """Add the controls to `page` and show the first row."""
        self._page, self._film = page, film
        begin, end = float(film.times[0]), float(film.times[-1])
        step = max(float(np.median(np.diff(film.times))), 1e-6) if len(film.times) > 1 else 1e-3
        self._time, self._shown, self.playing = begin, 0, True
        self._busy = threading.RLock()  # buttons call these functions from other threads
        page.controls.visible = True
        gui = page.server.gui
        with page.controls:
            self.slider = gui.add_slider("Time [s]", begin, max(end, begin + step), step, begin)
            self.speed = gui.add_dropdown("Speed", SPEEDS, initial_value="0.25")
            self._button = gui.add_button("Pause", icon=viser.Icon.PLAYER_PAUSE)
            steps = gui.add_button_group("Step", ("◀", "▶"))
            self.loop = gui.add_checkbox("Loop", True)
            kind = "as an MP4" if makes_mp4() else f"as a GIF; as an MP4 with {install_command('film')}"
            export = gui.add_button("Film", icon=viser.Icon.MOVIE, hint=f"{FILM_S:g} s from here on, {kind}")
        self._button.on_click(lambda _: self.toggle())
        steps.on_click(lambda event: self.step(1 if event.target.value == "▶" else -1))
        export.on_click(lambda event: event.client.send_file_download(*self.export(event.client)))
        self._curves: dict[str, viser.GuiUplotHandle] = {}
        if film.curves:
            panel = gui.add_panel()
            panel.dock_left()
            with panel.add_tab("Curves", viser.Icon.CHART_LINE):
                self._curves = {title: self._plot(title, curves) for title, curves in film.curves.items()}
        self._drawn_at = -np.inf
        page.draw_way(film.path, film.waypoints)
        page.show(film.shot(0), self._words(0))

    def toggle(self) -> None:
        """Switch between playing and pausing."""
        self.playing = not self.playing
        self._button.label = "Pause" if self.playing else "Play"
        self._button.icon = viser.Icon.PLAYER_PAUSE if self.playing else viser.Icon.PLAYER_PLAY

    def step(self, rows: int) -> None:
        """Pause, and move forward or back by some rows."""
        with self._busy:
            if self.playing:
                self.toggle()
            row = min(max(self._shown + rows, 0), len(self._film.times) - 1)
            self._time = float(self._film.times[row])
            self._show()

    def advance(self, elapsed: float) -> None:
        """Go to the slider's time if the user moved it; else, if playing, advance by `elapsed` [s] times the speed.

        At the end, the film repeats or stops.
        """
        with self._busy:
            if abs(self.slider.value - self._film.times[self._shown]) > 1e-8:
                self._time = self.slider.value  # the user has moved the slider
            elif self.playing:
                self._time += elapsed * float(self.speed.value)
                if self._time > self._film.times[-1]:
                    self._time = float(self._film.times[0 if self.loop.value else -1])
            self._show()

    def export(self, client: viser.ClientHandle) -> tuple[str, bytes]:
        """Return a film from the shown time on, at the chosen speed, drawn by a client's browser.

        Returns:
            Name and content of the file: an MP4 if `makes_mp4`, else a GIF. The film lasts `FILM_S`, less at the end of
            the run.
        """
        with self._busy:
            frames = []
            for _ in range(round(FILM_S * FILM_FRAMES_PER_S)):
                frames.append(photo(client, FILM_SIZE))
                self._time += float(self.speed.value) / FILM_FRAMES_PER_S
                if self._time > self._film.times[-1]:
                    break
                self._show()
        if makes_mp4():
            return "film.mp4", mp4(frames, FILM_FRAMES_PER_S)
        return "film.gif", gif(frames, FILM_FRAMES_PER_S)

    def publish(self, curves: str) -> str:
        """Return the film as a standalone HTML page that plays at the run's own speed.

        The page has no controls and no curves, but a legend, and a link to `curves`: the file name of a page in the
        same folder.
        """
        self._page.frame_for_any_page()
        serializer = self._page.server.get_scene_serializer()
        for t in np.arange(self._film.times[0], self._film.times[-1], 1.0 / FRAMES_PER_S):
            self._time = float(t)
            self._show()
            serializer.insert_sleep(1.0 / FRAMES_PER_S)
        return serializer.as_html().replace("</body>", self._page.corner(curves) + "</body>")

    def _plot(self, title: str, curves: Sequence[tuple[str, Array]]) -> viser.GuiUplotHandle:
        lines = (
            uplot.Series(label=name, stroke=color, width=1.2, points=uplot.Series_Points(show=False))
            for (name, _), color in zip([*curves, ("now", None)], itertools.cycle([*COLORS[: len(curves)], DARK]))
        )
        extremes = np.concatenate([_extremes(values) for _, values in curves])
        # with limits that follow the data, a browser draws nothing at the start of a film, when there is only one row
        scales = {
            "x": uplot.Scale(time=False, range=(-WINDOW_S, WINDOW_S)),
            "y": uplot.Scale(range=_extremes(extremes)),
        }
        return self._page.server.gui.add_uplot(
            self._window(curves), (uplot.Series(label="t"), *lines), title=title, aspect=1.9,
            scales=scales, legend=uplot.Legend(show=False),
            axes=(uplot.Axis(label="s from the shown instant", labelSize=20, size=30), uplot.Axis()),
        )  # fmt: skip

    def _window(self, curves: Sequence[tuple[str, Array]]) -> tuple[Array, ...]:
        """Return columns around the shown row: relative times [s], values of each curve, a vertical line at zero."""
        now = self._film.times[self._shown]
        rows = slice(self._film.row(now - WINDOW_S), self._film.row(now + WINDOW_S) + 1)
        columns = np.column_stack([values[rows] for _, values in curves])
        times, values = thinned(self._film.times[rows] - now, columns, POINTS)
        here = min(int(np.searchsorted(times, 0.0)), len(times) - 1)
        line = np.full(len(times) + 2, np.nan)
        line[here : here + 2] = _extremes(values)
        return np.insert(times, here, [0.0, 0.0]), *np.insert(values, [here, here], values[here], axis=0).T, line

    def _show(self) -> None:
        """Show the row of the current time, unless it is already shown."""
        row = self._film.row(self._time)
        if row != self._shown:
            self._shown = row
            self._page.show(self._film.shot(row), self._words(row))
            if not self.playing or time.monotonic() - self._drawn_at > CURVES_EVERY_S:
                self._drawn_at = time.monotonic()
                for title, plot in self._curves.items():
                    plot.data = self._window(self._film.curves[title])
        self.slider.value = round(float(self._film.times[row]), 9)

    def _words(self, row: int) -> dict[str, str]:
        words = {"time": f"{self._film.times[row]:.3f} s"}
        rate = self._film.torque_rate
        if rate is not None:
            words["torque rate"] = f"{rate[row]:.1f} N m/s"
            words["its mean"] = f"{rate.mean():.1f} N m/s"
        return words


def _extremes(values: Array) -> tuple[float, float]:
    """Return the smallest and largest of 0 and the finite `values`."""
    known = values[np.isfinite(values)]
    return float(known.min(initial=0.0)), float(known.max(initial=0.0))


def photo(client: viser.ClientHandle, size: tuple[int, int]) -> NDArray[np.uint8]:
    """Return a screenshot of `size` (height, width) on white from a client's browser, shape (height, width, 3)."""
    drawn = client.get_render(*size, transport_format="png").astype(np.float64)
    colour, opacity = drawn[..., :3], drawn[..., 3:] / 255.0
    return np.asarray(opacity * colour + (1.0 - opacity) * 255.0).astype(np.uint8)


def gif(frames: Sequence[NDArray[np.uint8]], frames_per_s: float) -> bytes:
    """Encode pictures of shape (height, width, 3) as a repeating GIF."""
    return bytes(imageio.imwrite("<bytes>", frames, extension=".gif", duration=round(1e3 / frames_per_s), loop=0))


def mp4(frames: Sequence[NDArray[np.uint8]], frames_per_s: float) -> bytes:
    """Encode pictures of shape (height, width, 3) as an MP4; both sizes are multiples of 16. Needs imageio-ffmpeg."""
    return bytes(imageio.imwrite("<bytes>", frames, extension=".mp4", fps=frames_per_s))


def makes_mp4() -> bool:
    """True if the package that encodes MP4 files is installed."""
    return importlib.util.find_spec("imageio_ffmpeg") is not None


def serve(port: int | None, title: str) -> viser.ViserServer:
    """Start a web server for the page on the loopback interface; it answers only requests of this computer.

    Args:
        port: Port; None means 8080, or the next free port.
        title: Title of the page in the browser.

    Raises:
        InputError: The port is in use or not allowed.
    """
    wanted = 8080 if port is None else port
    if port is not None and not _free(port):
        raise InputError(f"--port {port} is in use or not allowed; choose another or leave it out")
    # no message when a browser closes its connection
    logging.getLogger("websockets.server").setLevel(logging.CRITICAL)
    with contextlib.redirect_stdout(io.StringIO()), _strangers_refused():  # the command prints the address
        return viser.ViserServer(host=HOST, port=wanted, label=title, verbose=False)


def is_local(hosts: Sequence[str], origins: Sequence[str]) -> bool:
    """True if a request addresses this computer by a local name and does not come from a page of another server.

    A foreign web page can point its name to 127.0.0.1 (DNS rebinding) or open a WebSocket to this server. The browser
    then sends that name in the header ``Host``, or the page's origin in the header ``Origin``.

    Args:
        hosts: Values of all headers ``Host``.
        origins: Values of all headers ``Origin``; programs other than browsers send no such header.
    """
    if len(hosts) != 1 or LOOPBACK.fullmatch(hosts[0]) is None:
        return False
    return not origins or list(origins) == [f"http://{hosts[0]}"]


@contextlib.contextmanager
def _strangers_refused() -> Iterator[None]:
    """Let servers that viser starts in this context refuse requests that are not `is_local`."""
    plain = websockets.asyncio.server.serve

    def guarded(*arguments: Any, process_request: Callable[[Any, Any], Any], **options: Any) -> Any:
        def answer(connection: Any, request: Any) -> Any:
            if not is_local(request.headers.get_all("Host"), request.headers.get_all("Origin")):
                return connection.respond(http.HTTPStatus.FORBIDDEN, "only pages of this computer are answered\n")
            return process_request(connection, request)

        return plain(*arguments, process_request=answer, **options)

    websockets.asyncio.server.serve = guarded
    try:
        yield  # the server has started when its constructor returns
    finally:
        websockets.asyncio.server.serve = plain


def stop(server: viser.ViserServer) -> None:
    """Stop a web server without its message on standard output."""
    with contextlib.redirect_stdout(io.StringIO()):
        server.stop()
        time.sleep(SETTLE_S)


def play(player: Player, running: Callable[[], bool]) -> None:
    """Advance `player` in real time while `running` returns True, at most `FRAMES_PER_S` times per second."""
    before = time.monotonic()
    while running():
        now = time.monotonic()
        player.advance(now - before)
        before = now
        time.sleep(max(0.0, 1.0 / FRAMES_PER_S - (time.monotonic() - now)))


def _appear(handle: viser.SceneNodeHandle, visible: bool) -> None:
    if handle.visible != visible:
        handle.visible = visible


def _shares(colour: Rgb) -> tuple[float, float, float]:
    return colour[0] / 255.0, colour[1] / 255.0, colour[2] / 255.0


def _place(handle: viser.FrameHandle, pose: Array) -> None:
    handle.position = tuple(pose[:3])
    handle.wxyz = (pose[6], pose[3], pose[4], pose[5])


def _free(port: int) -> bool:
    try:
        with contextlib.closing(socket.socket()) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
    except (OSError, OverflowError):
        return False
    return True


def _turn_to(normal: Array) -> tuple[float, float, float, float]:
    """Return the shortest rotation from z to the unit vector `normal`, as a quaternion (w, x, y, z)."""
    x, y, z, w = pin.Quaternion.FromTwoVectors(np.array([0.0, 0.0, 1.0]), normal).coeffs()
    return w, x, y, z


def _surface(heights: Array, parameters: Array) -> tuple[Array, Array]:
    """Return the triangles of a height map with `Terrain.parameters`: vertices (n, 3) [m], faces (k, 3)."""
    rows, columns = heights.shape
    x = parameters[4] + parameters[6] * np.arange(rows)
    y = parameters[5] + parameters[7] * np.arange(columns)
    vertices = np.column_stack([np.repeat(x, columns), np.tile(y, rows), heights.ravel()])
    corner = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).ravel()
    first = np.column_stack([corner, corner + columns, corner + columns + 1])
    second = np.column_stack([corner, corner + columns + 1, corner + 1])
    return vertices.astype(np.float32), np.concatenate([first, second]).astype(np.uint32)


def _net(shape: tuple[int, ...], parameters: Array, cell: float) -> Array:
    """Return the segments of a net along the samples of a height map, x and y of both ends, shape (n, 2, 2) [m].

    The lines of the net are about `cell` [m] apart.
    """
    x = parameters[4] + parameters[6] * np.arange(shape[0])
    y = parameters[5] + parameters[7] * np.arange(shape[1])
    along_x = np.stack(np.meshgrid(x, y[:: max(round(cell / parameters[7]), 1)], indexing="ij"), axis=-1)
    along_y = np.stack(np.meshgrid(x[:: max(round(cell / parameters[6]), 1)], y, indexing="ij"), axis=-1)
    pieces_x = np.stack([along_x[:-1], along_x[1:]], axis=2).reshape(-1, 2, 2)
    pieces_y = np.stack([along_y[:, :-1], along_y[:, 1:]], axis=2).reshape(-1, 2, 2)
    return np.concatenate([pieces_x, pieces_y])


def _legend(colours: dict[str, Rgb]) -> str:
    lines = (
        f'<div><span style="color:rgb{colour}">&#9632;</span> {html.escape(name)}</div>'
        for name, colour in colours.items()
    )
    return f'<div style="font-size:13px">{"".join(lines)}</div>'


def _table(words: dict[str, str]) -> str:
    cell = "padding:1px 12px 1px 0"
    rows = (
        f'<tr><td style="{cell};color:#6b7280">{html.escape(name)}</td>'
        f'<td style="{cell};font-variant-numeric:tabular-nums">{html.escape(value)}</td></tr>'
        for name, value in words.items()
    )
    return f'<table style="margin:4px 14px 8px;font-size:13px">{"".join(rows)}</table>'
