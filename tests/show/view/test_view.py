"""Poses against Pinocchio, arrows against forces, time against rows; no browser is needed."""

import msgspec
import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idcontrol import robots
from idcontrol.cli.view import find_robot
from idcontrol.contact.terrain import height_map, plane
from idcontrol.errors import InputError
from idcontrol.record.recording import Recorder, load
from idcontrol.record.scenery import DrawableBody, DrawableGround, Scenery
from idcontrol.show.view.film import Film
from idcontrol.show.view.machine import OUTLINE
from idcontrol.show.view.shapes import pyramid, solid
from idcontrol.show.view.stage import Stage
from tests.show.view.runs import ROWS, walk

GRAVITY = 9.81


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    return Film(load(walk(tmp_path_factory.mktemp("view") / "run")), find_robot)


def rotated(pose):
    return pin.XYZQUATToSE3(pose)


def test_every_joint_is_where_pinocchio_has_it(film):
    model = robots.load("links").system().model
    data = model.createData()
    for row in (0, 7, ROWS - 1):
        pin.forwardKinematics(model, data, film.run.arrays["q"][row])
        shot = film.shot(row)
        for node, pose in zip(film.stage.nodes, shot.poses, strict=True):
            expected = data.oMi[model.getJointId(node.name)]
            np.testing.assert_allclose(rotated(pose).homogeneous, expected.homogeneous, atol=1e-12)


def test_the_shapes_of_a_robot_are_where_its_urdf_puts_them(film):
    model = robots.load("links").system().model
    nodes = {node.name: node for node in film.stage.nodes}
    body = nodes["root_joint"].meshes[0].vertices
    np.testing.assert_allclose(np.ptp(body, axis=0), [0.20, 0.14, 0.02], atol=1e-12)
    shank = np.concatenate([mesh.vertices for mesh in nodes["LF_Y_3"].meshes])
    foot = model.frames[model.getFrameId("LF_FOOT")].placement.translation
    # the foot sphere of radius 0.01 is part of what the knee carries
    assert np.linalg.norm(shank - foot, axis=1).min() <= 0.01 + 1e-9


def test_arrows_are_as_long_as_forces_and_the_whole_weight_is_as_long_as_the_stage(film):
    mass = pin.computeTotalMass(robots.load("links").system().model)
    assert film.stage.metres_per_newton * mass * GRAVITY == pytest.approx(film.stage.size)
    shot, arrays = film.shot(7), film.run.arrays
    for arrows, name in ((shot.measured, "force"), (shot.predicted, "force_pred")):
        drawn = (arrows[:, 1] - arrows[:, 0]) / film.stage.metres_per_newton
        np.testing.assert_allclose(drawn, arrays[name][7], atol=1e-9)


def test_contacts_are_below_the_feet_and_their_axes_lean_with_the_ground():
    slope = plane((0.2, -0.1, 1.0), 0.05)
    stage = Stage(Scenery(robot="links", ground=DrawableGround.of(slope)), find_robot)
    robot = robots.load("links")
    q = robot.standing_state().q
    shot, centres = stage.at({"q": q}), robots.foot_centres(robot, robot.system(), q)
    normal = slope.parameters[:3]
    for pose, centre in zip(shot.contact, centres, strict=True):
        placed = rotated(pose)
        np.testing.assert_allclose(placed.rotation[:, 2], normal, atol=1e-12)
        np.testing.assert_allclose(placed.translation, centre - 0.01 * normal, atol=1e-12)


@given(st.floats(-1.0, 10.0))
def test_a_time_leads_to_the_last_row_that_is_not_later(film, t):
    row = film.row(t)
    assert 0 <= row < ROWS
    assert film.times[row] <= max(t, 0.0)
    assert row == ROWS - 1 or film.times[row + 1] > t


def test_a_run_that_was_cut_short_is_shown_as_far_as_it_goes(tmp_path):
    run = load(walk(tmp_path / "cut", finish=False))
    assert not run.complete
    film = Film(run, find_robot)
    assert len(film.times) == ROWS
    assert np.isfinite(film.shot(ROWS - 1).poses).all()


def test_bodies_move_as_recorded_or_stay(tmp_path):
    ball = DrawableBody(name="ball", shape="sphere", size_m=(0.1,))
    wall = DrawableBody(name="wall", shape="box", size_m=(0.1, 2.0, 1.0), pose=(1.0, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0))
    scene = msgspec.to_builtins(Scenery(bodies=(ball, wall)))
    poses = np.tile([0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0], (5, 1))
    poses[:, 2] -= 0.1 * np.arange(5)
    with Recorder(tmp_path / "fall", {"t": (), "pose_ball": (7,)}, {}, {"scene": scene}) as recorder:
        for i in range(5):
            recorder.append(t=0.1 * i, pose_ball=poses[i])
        recorder.close({})
    film = Film(load(tmp_path / "fall"), find_robot)
    shot = film.shot(film.row(0.25))
    np.testing.assert_array_equal(shot.poses, [poses[2], wall.pose])
    assert film.torque_rate is None
    assert len(shot.contact) == len(film.path) == 0


@pytest.mark.parametrize(
    ("meta", "line"),
    [
        ({}, "nothing that can be seen in 3-D"),
        ({"scene": {"robt": "links"}}, "meta.scene"),
        ({"scene": {"bodies": [{"name": "x", "shape": "sphere", "size_m": [1, 2]}]}}, "size of a sphere has 1"),
        ({"scene": {"robot": "links"}}, "no row of q"),
    ],
)
def test_a_folder_without_geometry_gets_one_clear_line(tmp_path, meta, line):
    with Recorder(tmp_path / "run", {"t": ()}, {}, meta) as recorder:
        recorder.append(t=0.0)
        recorder.close({})
    with pytest.raises(InputError, match=line) as error:
        Film(load(tmp_path / "run"), find_robot)
    assert "\n" not in str(error.value)


def test_a_robot_that_has_changed_since_is_refused():
    stage = Stage(Scenery(robot="links"), find_robot)
    with pytest.raises(InputError, match="record the run again"):
        stage.at({"q": np.zeros(7)})


def test_ground_survives_its_way_through_the_record():
    rng = np.random.default_rng(1)
    hills = height_map(0.1 * rng.random((5, 7)), 0.05)
    stored = msgspec.json.decode(msgspec.json.encode(DrawableGround.of(hills)), type=DrawableGround).terrain()
    places = rng.uniform(-0.1, 0.1, (2, 50))
    # heights are stored as float32
    np.testing.assert_allclose(stored.height(*places), hills.height(*places), atol=1e-7)
    np.testing.assert_allclose(
        DrawableGround.of(plane((0.1, 0, 1), 0.3)).terrain().parameters, plane((0.1, 0, 1), 0.3).parameters
    )


def test_a_robot_without_shapes_is_drawn_by_rods_and_its_feet(tmp_path):
    robot = robots.load("links")
    text = robot.urdf.read_text()
    bare = tmp_path / "bare.urdf"
    while "<visual>" in text:
        text = text[: text.index("<visual>")] + text[text.index("</visual>") + len("</visual>") :]
    bare.write_text(text)
    (tmp_path / "robot.toml").write_text(robot.path.read_text().replace("links.urdf", "bare.urdf"))
    stage = Stage(Scenery(robot=str(tmp_path)), find_robot)
    model = robot.system().model
    assert {node.name for node in stage.nodes} == set(list(model.names)[1:])
    shank = next(node for node in stage.nodes if node.name == "RH_Y_3")
    sphere = shank.meshes[0].vertices
    centre = model.frames[model.getFrameId("RH_FOOT")].placement.translation
    np.testing.assert_allclose(np.linalg.norm(sphere - centre, axis=1), 0.01, atol=1e-12)


@pytest.mark.parametrize(
    ("shape", "size", "box"),
    [
        ("box", (0.1, 0.2, 0.3), (0.1, 0.2, 0.3)),
        ("sphere", (0.1,), (0.2, 0.2, 0.2)),
        ("cylinder", (0.1, 0.5), (0.2, 0.2, 0.5)),
        ("capsule", (0.1, 0.5), (0.2, 0.2, 0.7)),
    ],
)
def test_shapes_are_centred_and_as_large_as_they_are_said_to_be(shape, size, box):
    vertices = solid(shape, size, (0.5, 0.5, 0.5)).vertices
    np.testing.assert_allclose(vertices.max(axis=0), 0.5 * np.array(box), rtol=0.01)
    np.testing.assert_allclose(vertices.min(axis=0), -0.5 * np.array(box), rtol=0.01)


def test_the_edges_of_a_friction_pyramid_are_at_the_friction_limit():
    edges = pyramid(0.3, (0.0, 0.0, 1.0), 0.2).vertices[1:]
    np.testing.assert_allclose(np.abs(edges[:, :2]).sum(axis=1), 0.3 * edges[:, 2])


@pytest.fixture(scope="module")
def humanoid():
    return Stage(Scenery(robot="talos", mu=0.6), find_robot)


def test_a_sole_has_one_arrow_at_its_centre_of_pressure(humanoid):
    q, cop = robots.load("talos").standing_state().q, np.array([[0.02, 0.09, 0.0], [-0.03, -0.08, 0.0]])
    row = {"q": q, "force": np.tile([0.0, 0.0, 400.0], (2, 1)), "force_pred": np.full((2, 3), np.nan)}
    shot = humanoid.at(row | {"cop": cop, "cop_pred": np.full((2, 3), np.nan)})
    np.testing.assert_array_equal(shot.contact[:, :3], cop)
    np.testing.assert_allclose(shot.measured[:, 0] - cop, (shot.measured[:, 0] - cop)[::-1])  # only moved aside
    np.testing.assert_allclose(np.diff(shot.measured, axis=1)[:, 0], humanoid.metres_per_newton * row["force"])
    assert np.isfinite(shot.predicted).all()
    middle = humanoid.at(row).contact[:, :3]  # a loop records no centre of pressure
    np.testing.assert_allclose(middle, [[middle[0, 0], 0.085, 0.0], [middle[0, 0], -0.085, 0.0]], atol=1e-3)
    with pytest.raises(InputError, match="has 2 feet, cop of the record has shape"):
        humanoid.at(row | {"cop": cop[:1]})


def test_soles_have_outlines(humanoid):
    model = robots.load("talos").system().model
    frame = model.frames[model.getFrameId("left_sole_link")]
    node = next(node for node in humanoid.nodes if node.name == model.names[frame.parentJoint])
    rods = [mesh for mesh in node.meshes if mesh.colour == OUTLINE]
    points = np.concatenate([(mesh.vertices - frame.placement.translation) @ frame.placement.rotation for mesh in rods])
    assert len(rods) == 4
    np.testing.assert_allclose(np.abs(points).max(axis=0), [0.1, 0.065, 0.0], atol=5e-3)
