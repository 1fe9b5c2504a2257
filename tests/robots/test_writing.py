"""Robot files that are written say the same when they are read, and their URDFs have the new inertias."""

import tomllib
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import numpy as np
import pinocchio as pin
import pytest

from idcontrol import robots
from idcontrol.errors import InputError
from idcontrol.robots import schema, urdf, writing
from tests.parameters import one_fast


@pytest.mark.parametrize("name", one_fast(robots.names(), "links", "panda", "talos"))
def test_a_written_robot_is_the_same_robot(name: str, tmp_path: Path) -> None:
    robot = robots.load(name)
    model = robot.system().model
    inertias = {link: model.inertias[joint] for link, joint in writing.moved_links(model).items()}
    assert len(inertias) == model.njoints - 1
    writing.save(robot, tmp_path / "new.toml", robot.description, {k: v for k, v in inertias.items() if v.mass > 0.0})
    again = robots.load(tmp_path / "new.toml")
    assert msgspec.structs.replace(again.description, urdf=robot.description.urdf) == robot.description
    for one, other in zip(again.system().model.inertias, model.inertias, strict=True):
        np.testing.assert_allclose(one.toDynamicParameters(), other.toDynamicParameters(), atol=1e-12)


def test_a_link_takes_the_mass_of_links_that_are_fixed_to_it(tmp_path: Path) -> None:
    robot = robots.load("go1")
    inertia = pin.Inertia(7.5, np.array([0.01, 0.0, 0.02]), np.diag([0.1, 0.2, 0.25]))
    writing.save(robot, tmp_path / "new.toml", robot.description, {"base": inertia})
    body = robots.load(tmp_path / "new.toml").system().model.inertias[1]
    assert body.mass == 7.5
    np.testing.assert_allclose(body.inertia, inertia.inertia, atol=1e-15)
    np.testing.assert_allclose(body.lever, inertia.lever, atol=1e-15)


def test_a_written_robot_takes_its_meshes_along(tmp_path: Path) -> None:
    robot = robots.load("go1")
    (tmp_path / "here").mkdir()
    writing.save(robot, tmp_path / "here" / "new.toml", robot.description, {})
    moved = robots.load((tmp_path / "here").rename(tmp_path / "there") / "new.toml")
    names = [[mesh.get("filename", "") for mesh in ET.parse(each.urdf).iter("mesh")] for each in (robot, moved)]
    assert names[0]
    for old, new in zip(*names, strict=True):
        copied = urdf.mesh_file(new, moved.urdf)
        assert copied.is_relative_to(tmp_path / "there")
        assert copied.read_bytes() == urdf.mesh_file(old, robot.urdf).read_bytes()
    assert not urdf.inspect(moved.urdf).geometry


def test_meshes_of_the_same_name_stay_apart(tmp_path: Path) -> None:
    tree = ET.Element("robot")
    for part in ("a", "b", "a"):
        (tmp_path / part).mkdir(exist_ok=True)
        (tmp_path / part / "link.stl").touch()
        ET.SubElement(tree, "mesh", filename=f"{part}/link.stl")
    files = writing._renamed_meshes(tree, tmp_path / "robot.urdf", "new.meshes")
    assert list(files.values()) == [tmp_path / "a" / "link.stl", tmp_path / "b" / "link.stl"]
    names = [mesh.get("filename") for mesh in tree.iter("mesh")]
    assert names[0] == names[2] == "new.meshes/link.stl"
    assert names[1] == f"new.meshes/{list(files)[1]}"


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    robot = robots.load("arm")
    writing.save(robot, tmp_path / "new.toml", robot.description, {})
    with pytest.raises(InputError, match=r"new.urdf exists already"):
        writing.save(robot, tmp_path / "new.toml", robot.description, {})


def test_texts_and_keys_of_any_letters_survive() -> None:
    table = {
        "a key": 'says "so"\n\\',
        "µ": [1, 2.5, [True]],
        "deep": {"er": {"*": 1e-30}},
        "rows": [{"x": 1}, {"x": 2}],
    }
    assert tomllib.loads(writing.toml(table)) == table


def test_a_description_is_written_without_defaults() -> None:
    text = writing.toml(writing._plain(robots.load("arm").description))
    assert schema.parse(tomllib.loads(text)) == (robots.load("arm").description, [])
    assert "command" not in text
    assert "gait" not in text
