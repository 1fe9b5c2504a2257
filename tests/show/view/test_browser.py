"""The page: its contents on the server, the command line, and the picture in a browser."""

import asyncio
import contextlib
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from types import SimpleNamespace

import imageio.v3 as imageio
import numpy as np
import pytest
import viser
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from idcontrol import cli
from idcontrol.cli.view import find_robot
from idcontrol.contact.terrain import height_map
from idcontrol.errors import InputError
from idcontrol.record.recording import Recorder, load
from idcontrol.record.scenery import DrawableGround, Scenery
from idcontrol.show.view import page
from idcontrol.show.view.film import Film
from idcontrol.show.view.page import FITTING_S, HEAD_LENGTH, HOST, WINDOW_S, Page, Player, gif, mp4, serve, stop
from idcontrol.show.view.stage import Stage
from tests import GUARD_S, walks
from tests.parameters import one_fast
from tests.show.view.runs import ROWS, STEP_S, walk

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return walk(tmp_path_factory.mktemp("page") / "run")


@contextlib.contextmanager
def played(folder):
    server = serve(None, "test")
    film = Film(load(folder), find_robot)
    yield Player(Page(server, film.stage, film.run.title, follow=False), film)
    stop(server)


@pytest.fixture
def player(folder):
    with played(folder) as player:
        yield player


@pytest.fixture(scope="module")
def unmoved(folder):
    """A player that tests only look at."""
    with played(folder) as player:
        yield player


def node(player, name):
    return player._page.server.scene.get_handle_by_name(name)


def base(player):
    return node(player, "/stage/bodies/0 root_joint").position


def test_the_page_is_served_on_loopback_alone(unmoved):
    server = unmoved._page.server
    assert server.get_host() == HOST == "127.0.0.1"
    with urllib.request.urlopen(f"http://{HOST}:{server.get_port()}", timeout=GUARD_S) as answer:
        assert answer.status == 200


def test_the_page_answers_only_names_of_this_computer(unmoved):
    """A page whose name an attacker lets point to 127.0.0.1 is not the page's own origin (DNS rebinding)."""
    port = unmoved._page.server.get_port()
    ours = ["127.0.0.1", f"localhost:{port}", "LOCALHOST:9000", f"[::1]:{port}"]
    others = ["evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "127.0.0.1@evil.example", "0.0.0.0", ""]
    for name in (*ours, *others, None):
        with contextlib.closing(http.client.HTTPConnection(HOST, port, timeout=GUARD_S)) as wire:
            wire.putrequest("GET", "/", skip_host=True)
            if name is not None:
                wire.putheader("Host", name)
            wire.endheaders()
            with wire.getresponse() as answer:
                assert answer.status == (200 if name in ours else 403), name


def test_connections_from_other_origins_are_refused(unmoved):
    port = unmoved._page.server.get_port()
    no_browser = None
    ours = [(HOST, f"http://127.0.0.1:{port}"), ("localhost", f"http://localhost:{port}"), (HOST, no_browser)]
    others = [
        (HOST, "http://evil.example"),
        (HOST, f"http://localhost:{port}"),
        (HOST, "http://127.0.0.1:3000"),  # a page of another program
        (HOST, f"https://127.0.0.1:{port}"),
        (HOST, "null"),
        ("evil.example", f"http://evil.example:{port}"),
        ("evil.example", no_browser),
    ]
    for name, origin in ours + others:
        wire = socket.create_connection((HOST, port), timeout=GUARD_S)
        options = {"sock": wire, "origin": origin, "subprotocols": [f"viser-v{viser.__version__}"], "max_size": None}
        if (name, origin) in ours:
            with connect(f"ws://{name}:{port}", **options) as page:
                assert page.recv(timeout=GUARD_S)
            continue
        with wire, pytest.raises(InvalidStatus) as refused:
            connect(f"ws://{name}:{port}", **options)
        assert refused.value.response.status_code == 403


@pytest.mark.slow
def test_a_dragged_slider_shows_its_row(player):
    player.toggle()
    film = player._film
    for row in (5, 2, ROWS - 1):
        player.slider.value = film.times[row]
        player.advance(0.1)
        np.testing.assert_allclose(base(player), film.run.arrays["q"][row, :3])


@pytest.mark.slow
def test_arrows_stand_on_their_feet_in_every_frame_and_only_poses_move_them(player):
    player.toggle()
    film, arrows = player._film, player._page._arrows
    meshes = [id(rod.vertices) for pair in arrows["measured"][0].rods for rod in pair]
    for row in range(ROWS):
        player.slider.value = film.times[row]
        player.advance(0.1)
        shot = film.shot(row)
        for name, points in (("measured", shot.measured), ("predicted", shot.predicted)):
            for drawn, (tail, head) in zip(arrows[name], points, strict=True):
                assert drawn.frame.visible == (tail != head).any()
                if not drawn.frame.visible:
                    continue
                np.testing.assert_allclose(drawn.frame.position, tail)
                w, x, y, z = drawn.frame.wxyz
                up = np.array([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)])
                tip = drawn.head.position[2]
                reached = tail + up * (tip + HEAD_LENGTH * film.stage.size)
                np.testing.assert_allclose(reached, head, atol=1e-6)
                # the visible rods reach from the foot to the head without a gap
                ends = [
                    (rod.position[2], rod.position[2] + rod.vertices[:, 2].max())
                    for pair in drawn.rods
                    for rod in pair
                    if rod.visible
                ]
                (begin, middle), (again, end) = ends
                assert (begin, end) == (0.0, pytest.approx(tip, abs=1e-6))
                assert again <= middle + 1e-6
    assert meshes == [id(rod.vertices) for pair in arrows["measured"][0].rods for rod in pair]


def test_the_reference_is_a_robot_of_its_own_that_is_hidden_at_first(player):
    film = player._film
    player.toggle()
    assert not node(player, "/stage/reference").visible
    player.slider.value = film.times[4]
    player.advance(0.1)
    q = film.run.arrays["q"][4].copy()
    q[7:] = film.run.arrays["q_des"][4]
    links = film.stage.at({"q": q}).poses
    for link in range(film.stage.links):
        np.testing.assert_allclose(node(player, f"/stage/reference/{link}").position, links[link, :3])


@pytest.mark.slow
def test_curves_surround_the_shown_time_on_fixed_axes(player):
    player.toggle()
    player.slider.value = player._film.times[7]
    player.advance(0.1)
    titles = ["torques [N m]", "vertical forces [N]", "joint errors [mrad]"]
    assert list(player._curves) == titles
    film, plot = player._film, player._curves[titles[0]]
    t, *tau, now = plot.data
    np.testing.assert_array_equal(t[np.isnan(now)], film.times - film.times[7])
    np.testing.assert_array_equal(np.transpose(tau)[np.isnan(now)], film.run.arrays["tau"])
    np.testing.assert_array_equal(t[~np.isnan(now)], [0.0, 0.0])
    assert plot.scales["x"]["range"] == (-WINDOW_S, WINDOW_S)
    low, high = plot.scales["y"]["range"]
    assert low <= film.run.arrays["tau"].min() < film.run.arrays["tau"].max() <= high
    assert len(player._curves[titles[1]].data) == 1 + 4 + 1


def seen_by(width, height=640):
    return SimpleNamespace(aspect=width / height, image_width=width, image_height=height)


@pytest.mark.parametrize(("width", "back"), one_fast([(1000, 640.0 / 370.0), (1280, 1.0)], (1000, 640.0 / 370.0)))
def test_a_page_with_little_room_between_its_panels_shows_all_of_the_stage(unmoved, width, back):
    first = unmoved._page.server.initial_camera
    position, look_at = unmoved._page._fitted(seen_by(width))
    np.testing.assert_allclose(position - look_at, back * (first.position - first.look_at))
    np.testing.assert_array_equal(look_at, first.look_at)


@pytest.mark.parametrize(("width", "height"), one_fast([(360, 640), (570, 400)], (360, 640)))
def test_a_narrow_page_shows_the_stage_above_its_panels(unmoved, width, height):
    first, size = unmoved._page.server.initial_camera, unmoved._page._stage.size
    position, look_at = unmoved._page._fitted(seen_by(width, height))
    ahead = (look_at - position) / np.linalg.norm(look_at - position)
    right = np.cross(ahead, [0.0, 0.0, 1.0])
    up = np.cross(right, ahead) / np.linalg.norm(right)
    towards = first.look_at - position
    above = np.arctan2(towards @ up, towards @ ahead)
    half = 0.5 * first.fov
    assert 0.5 < np.tan(above) / np.tan(half) < 0.8  # panels cover at most 60 % of the height
    seen = 2.0 * (towards @ ahead) * np.tan(half)  # height that the page shows at the stage
    assert min(seen * width / height, 0.4 * seen / 0.55) > size  # a stage is about half as high as wide


def test_a_new_page_fits_its_camera_for_some_seconds(unmoved, monkeypatch):
    updates = []
    camera = SimpleNamespace(on_update=updates.append)
    unmoved._page._keep_fitted(SimpleNamespace(camera=camera))
    (fit,) = updates
    for width in (400, 1000):  # the browser reports its size late
        vars(camera).update(vars(seen_by(width)))
        asyncio.run(fit(camera))
        np.testing.assert_array_equal(camera.position, unmoved._page._fitted(camera)[0])
        np.testing.assert_array_equal(camera.look_at, unmoved._page._fitted(camera)[1])
    camera.position = moved = camera.position + 0.1
    later = time.monotonic() + FITTING_S
    monkeypatch.setattr(page.time, "monotonic", lambda: later)
    asyncio.run(fit(camera))
    np.testing.assert_array_equal(camera.position, moved)


def test_a_published_replay_needs_no_server_has_a_legend_and_links_its_curves(tmp_path, capsys):
    folder = walks.record(tmp_path / "run", 0.2, scene=Scenery(robot="links"))
    assert cli.main(["view", str(folder), "--publish", str(tmp_path / "replay.html")]) == 0
    text = (tmp_path / "replay.html").read_text(encoding="utf-8")
    assert "__VISER_EMBED_DATA__" in text
    assert len(text) < 5e6
    assert re.findall(r'<a href="([^"]*)"', text) == ["replay-curves.html"]
    corner = text[text.index('<div style="position:fixed') : text.index("</body>")]
    assert "top:" not in corner  # where viser shows its notices
    assert "measured force" in corner
    assert "Torques" in (tmp_path / "replay-curves.html").read_text(encoding="utf-8")
    assert str(tmp_path / "replay.html") in capsys.readouterr().out


def test_a_film_is_a_gif_with_every_picture():
    frames = [np.full((8, 12, 3), shade, np.uint8) for shade in (0, 100, 200)]
    gif_pixels = imageio.imread(gif(frames, 20), extension=".gif")
    np.testing.assert_allclose(gif_pixels[:, 0, 0, 0], [0, 100, 200], atol=8)


@pytest.mark.slow
def test_a_film_is_an_mp4_where_the_encoder_is_installed():
    pytest.importorskip("imageio_ffmpeg")
    frames = [np.full((32, 48, 3), shade, np.uint8) for shade in (0, 100, 200)]
    content = mp4(frames, 20)
    assert content[4:8] == b"ftyp"


def test_a_height_map_is_covered_by_a_net_that_lies_on_it():
    hills = height_map(0.1 * np.random.default_rng(1).random((21, 31)), 0.02)
    server = serve(None, "hills")
    try:
        Page(server, Stage(Scenery(robot="links", ground=DrawableGround.of(hills)), find_robot), "hills", follow=False)
        net = server.scene.get_handle_by_name("/stage/net").points
        surface = server.scene.get_handle_by_name("/stage/ground").vertices
    finally:
        stop(server)
    # slightly above: 0.002 of the stage's size, which is less than a metre
    above = net[..., 2] - hills.height(net[..., 0], net[..., 1])
    assert (above > 0.0).all()
    assert (above < 0.002).all()
    assert len(surface) == 21 * 31
    np.testing.assert_allclose(surface[:, 2], hills.heights.ravel(), atol=1e-6)


def test_time_passes_at_the_chosen_speed_and_begins_anew_after_the_end(player):
    player.speed.value = "0.5"
    player.advance(2.0 * 3.5 * STEP_S)
    assert player.slider.value == pytest.approx(3 * STEP_S)
    player.advance(2.0 * ROWS * STEP_S)
    assert player.slider.value == 0.0


def test_a_port_that_is_taken_is_one_clear_line(player):
    with pytest.raises(InputError, match="--port"):
        serve(player._page.server.get_port(), "second")


def test_a_folder_without_geometry_is_unusable_input(tmp_path, capsys):
    with Recorder(tmp_path / "plain", {"t": ()}, {}, {}) as recorder:
        recorder.append(t=0.0)
        recorder.close({})
    assert cli.main(["view", str(tmp_path / "plain"), "--no-browser"]) == 2
    assert "nothing that can be seen" in capsys.readouterr().err


@pytest.fixture
def command(folder):
    """Run the command in a process of its own; yields the process and the address that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "idcontrol", "view", str(folder), "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a shell's background job would ignore Ctrl-C
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    line = process.stdout.readline()
    yield process, re.search(r"http://\S+:\d+", line).group()
    process.kill()
    process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_ctrl_c_and_sigterm_end_the_command_with_one_line(command, name):
    process, _ = command
    process.send_signal(getattr(signal, name))
    out, err = process.communicate(timeout=GUARD_S)
    assert process.returncode == 0
    assert out == ""
    assert err == "idcontrol: the view has ended\n"


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_a_browser_draws_robot_ground_and_both_colours_of_force(command, tmp_path):
    _, address = command
    picture = tmp_path / "page.png"
    arguments = [
        CHROMIUM, "--headless=new", "--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
        "--window-size=1100,800", "--virtual-time-budget=8000", f"--user-data-dir={tmp_path / 'profile'}",
        f"--screenshot={picture}", address,
    ]  # fmt: skip
    browser = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        browser.wait(timeout=150)
    finally:
        if browser.poll() is None:
            os.killpg(browser.pid, signal.SIGKILL)
            browser.wait()
            time.sleep(0.5)
    red, green, blue = np.moveaxis(imageio.imread(picture)[..., :3].astype(float), -1, 0)
    scene = np.s_[:, : int(0.7 * red.shape[1])]  # the controls are on the right
    blueish = (blue - red > 60) & (blue > 90)
    orange = (red - blue > 60) & (red > 120)
    dark = (red + green + blue) < 240
    for seen in (blueish, orange, dark):
        assert np.count_nonzero(seen[scene]) > 200  # an arrow is some hundreds of pixels, the robot thousands
