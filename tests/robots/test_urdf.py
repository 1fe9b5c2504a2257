"""A URDF is parsed before Pinocchio reads it, so that each fault is reported with its line."""

import dataclasses

import numpy as np
import pytest

from idcontrol import robots
from idcontrol.dynamics.system import System, position_limits
from idcontrol.errors import InputError
from idcontrol.robots import urdf
from tests.robots import descriptions

HIP = '<axis xyz="1 0 0"/>'
LIMIT = '<limit lower="-2" upper="2" effort="9" velocity="20"/>'
END = "</robot>"
TAIL = f'<joint name="wag" type="revolute"><parent link="trunk"/><child link="tail"/>{HIP}{LIMIT}</joint>{END}'
FIXED = f'<joint name="{{}}" type="fixed"><parent link="{{}}"/><child link="{{}}"/></joint>{END}'
NO_MASS = descriptions.INERTIAL.format(mass=0, i=1)


def inspect(tmp_path, old, new, **options):
    """Return the findings in the description with `old` replaced by `new`, without frames and joints."""
    descriptions.write(tmp_path, urdf_old=old, urdf_new=new)
    return dataclasses.replace(urdf.inspect(tmp_path / "mule.urdf", **options), frames=(), joints={})


def test_the_frames_of_a_urdf_are_its_links_and_joints(tmp_path):
    descriptions.write(tmp_path)
    frames = urdf.inspect(tmp_path / "mule.urdf").frames
    assert frames[:4] == ("trunk", "FL_hip", "FL_hip_link", "FL_thigh")
    assert len(frames) == 1 + 4 * 8


def test_joint_stops_are_the_stops_of_their_machine(tmp_path):
    """The URDF's text gives the limits of Pinocchio's model: of a range, a continuous joint, a limit without range."""
    descriptions.write(tmp_path)
    path = tmp_path / "mule.urdf"
    one, two, rest = path.read_text().partition(LIMIT)
    endless = rest.replace('"revolute"', '"continuous"', 1).replace('lower="-2" upper="2"', "", 2)
    path.write_text(one + two + endless)
    system = System.from_urdf(path, free_flyer=True)
    lower, upper = position_limits(system.model, system.actuated_names)
    ends = {name: ends for name, *ends in zip(system.actuated_names, lower, upper, strict=True)}
    assert {name: list(ends) for name, ends in urdf.inspect(path).joints.items()} == ends
    assert [ends[name] for name in ("FL_hip", "FL_thigh", "FL_knee")] == [[-2, 2], [-np.inf, np.inf], [-np.inf, np.inf]]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (HIP, '<axis xyz="0 0 0"/>', "line 4: joint FL_hip: its axis is zero; give a direction such as 0 1 0"),
        (HIP, '<axis xyz="1 0 nan"/>', "line 5: joint FL_hip: axis xyz is 1 0 nan; give a finite number"),
        (HIP, '<axis xyz="1 0"/>', "line 5: joint FL_hip: axis xyz has 2 numbers; give 3"),
        (HIP, '<axis xyz="1_0 0 0"/>', "line 5: joint FL_hip: axis xyz is '1_0 0 0', not 3 numbers"),
        (HIP, '<axis xyz="${x}"/>', "line 5: joint FL_hip: axis xyz is '${x}', not 3 numbers; run xacro first"),
        (HIP, '<axis xyz="١ 0 0"/>', "line 5: joint FL_hip: axis xyz is '١ 0 0', not 3 numbers"),
        (HIP, '<axis xyz="1e-200 0 0"/>', "line 4: joint FL_hip: its axis is zero; give a direction such as 0 1 0"),
        (HIP, "<axis/>", "line 4: joint FL_hip: its axis has no xyz; give a direction such as 0 1 0"),
        (HIP, '<axis xyz="1e300 1e300 0"/>', "line 5: joint FL_hip: axis xyz is 1e300 1e300 0; give numbers below"),
        ('xyz="0.2 0.1 0"', 'xyz="1e300 0 0"', "line 5: joint FL_hip: origin xyz is 1e300 0 0; give numbers below"),
        ('<mass value="4"/>', '<mass value="1e300"/>', "line 2: link trunk: mass value is 1e300; give numbers below"),
        ('ixy="0"', 'ixy="1e308"', "line 3: link trunk: inertia ixy is 1e308; give numbers below 1e+09"),
        ('effort="9"', 'effort="-9"', "line 6: joint FL_hip: limit effort is negative (-9); correct the sign"),
        (LIMIT, f'{LIMIT}<dynamics friction="-1"/>', "line 6: joint FL_hip: dynamics friction is negative (-1)"),
        (LIMIT, f"{LIMIT}<mimic/>", "line 4: joint FL_hip: mimic has no joint; add it or delete the mimic"),
        (LIMIT, f'{LIMIT}<mimic joint="FL_knee" offset="x"/>', "line 6: joint FL_hip: mimic offset is 'x', not"),
        (LIMIT, f"{LIMIT}<safety_controller/>", "line 4: joint FL_hip: safety_controller has no k_velocity; add it"),
        ('name="FL_hip"', 'name="root_joint"', "line 4: joint root_joint: Pinocchio keeps that name for itself"),
        ('name="FL_hip"', 'name="universe"', "line 4: joint universe: Pinocchio keeps that name for itself"),
        ('name="FL_hip"', 'name="${leg}_hip"', "line 4: joint ${leg}_hip: the name is not expanded; run xacro first"),
        (END, f"<xacro:leg/>{END}", "line 88: <xacro:leg> is not expanded; run xacro first"),
        (END, f'<material name="m"/><material name="m"/>{END}', "line 88: material m: the name is taken"),
        (LIMIT, "", "line 4: joint FL_hip: a revolute joint needs <limit lower= upper= effort= velocity=>"),
        (LIMIT, '<limit effort="9"/>', "line 4: joint FL_hip: limit has no velocity; add it"),
        ('lower="-2"', 'lower="3"', "line 4: joint FL_hip: its lower limit is above its upper one; exchange them"),
        ('upper="2"', 'upper="inf"', "line 6: joint FL_hip: limit upper is inf; give a finite number"),
        ('"revolute"', '"hinge"', "line 4: joint FL_hip: type 'hinge' is unknown; known: revolute, continuous, prism"),
        (
            'link="trunk"',
            'link="trunc"',
            "line 4: joint FL_hip: parent link 'trunc' does not exist; the nearest is trunk",
        ),
        ('<child link="FL_hip_link"/>', "", "line 4: joint FL_hip: child link '' does not exist; the nearest is trunk"),
        ('name="FL_thigh"', 'name="FL_hip"', "line 10: joint FL_hip: the name is taken; rename one of the two"),
        ('name="FL_thigh"', "", "line 10: joint has no name; give it one"),
        (END, f'<link name="lost"/>{END}', "line 1: robot has 2 roots (trunk, lost); connect them with joints"),
        (END, FIXED.format("back", "FL_foot", "trunk"), "line 1: the links trunk, "),
        (
            END,
            FIXED.format("two", "trunk", "FL_foot"),
            "line 88: joint two: its child FL_foot is moved by joint FL_sole",
        ),
        (END, f'<link name="tail"/>{TAIL}', "line 88: link tail, which joint wag moves, has no <inertial>; give its"),
        (
            END,
            f'<link name="tail">{NO_MASS}</link>{TAIL}',
            "line 88: link tail, which joint wag moves, has no mass; give",
        ),
        ('<mass value="0.1"/>', '<mass value="-0.1"/>', "line 8: link FL_hip_link: its mass is negative (-0.1 kg)"),
        ('<mass value="0.1"/>', "", "line 8: link FL_hip_link: inertial has no <mass value=>; add it"),
        ('<mass value="4"/>', '<mass value="nan"/>', "line 2: link trunk: mass value is nan; give a finite number"),
        ('ixx="0.0001" ixy="0"', 'ixx="0.0001"', "line 8: link FL_hip_link: inertial has no <inertia> with ixx, ixy,"),
        ('ixy="0"', 'ixy="1"', "line 2: link trunk: a principal moment of its inertia is negative (-0.95 kg m²)"),
        ("<robot", "<sdf", "line 88: no valid XML: mismatched tag"),
    ],
)
def test_each_fault_of_a_urdf_is_reported_with_its_line(tmp_path, old, new, line):
    findings = inspect(tmp_path, old, new).problems
    assert [message for message in findings if message.startswith(line)], findings
    assert all("\n" not in message for message in findings)
    # a reported URDF never reaches Pinocchio
    with pytest.raises(InputError, match=r"mule\.urdf: line"):
        robots.load(tmp_path).system()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (None, "cannot be read: No such file or directory"),
        ("", "line 1: no valid XML: no element found"),
        ("<sdf/>", "line 1: the root element is <sdf>; a URDF has <robot>"),
        ('<robot name="x"/>', "line 1: robot has no links; a URDF needs at least one"),
        ('<?xml version="1.0" encoding="klingon"?><robot/>', "line 1: its encoding is unknown; save it as UTF-8"),
    ],
)
def test_a_file_that_is_no_urdf_is_refused(tmp_path, text, line):
    path = tmp_path / "x.urdf"
    if text is not None:
        path.write_text(text)
    assert urdf.inspect(path).problems == (line,)


def test_a_loop_beside_the_tree_is_named(tmp_path):
    link = '<link name="{0}"/><joint name="{0}_j" type="fixed"><parent link="{1}"/><child link="{0}"/></joint>'
    loop = link.format("one", "two") + link.format("two", "one")
    (message,) = inspect(tmp_path, "</robot>", loop + "</robot>").problems
    assert message == "line 1: the links one, two form a loop, or hang on one; a URDF is a tree: cut it open"


@pytest.mark.parametrize(
    ("new", "line"),
    [
        (f'{LIMIT}<mimic joint="FR_hip"/>', "it should follow joint FR_hip; here it moves on its own"),
        ('<limit effort="9" velocity="20"/>', "its limits leave it only 0; give lower and upper"),
    ],
    ids=["mimic", "no limits"],
)
def test_unused_or_implausible_values_are_warnings(tmp_path, new, line):
    assert inspect(tmp_path, LIMIT, new) == urdf.Findings(warnings=(f"line 4: joint FL_hip: {line}",))
    assert robots.check(tmp_path).fit


def test_an_inertia_beyond_the_triangle_inequality_is_a_warning_and_no_problem(tmp_path):
    findings = inspect(tmp_path, 'izz="0.0001"', 'izz="0.0003"')
    assert not findings.problems
    (message,) = findings.warnings
    line = "line 9: link FL_hip_link: no mass distribution has the principal moments 0.0001, 0.0001, 0.0003"
    assert message.startswith(line)


def test_a_zero_moment_of_either_sign_is_none(tmp_path):
    """CAD programs write such inertias for point masses; the link fixed to it has enough inertia."""
    tiny = 'ixx="-2e-35" ixy="0" ixz="0" iyy="0" iyz="0" izz="0"'
    ball = 'ixx="0.0001" ixy="0" ixz="0" iyy="0.0001" iyz="0" izz="0.0001"'
    assert inspect(tmp_path, ball, tiny) == urdf.Findings()
    assert robots.check(tmp_path).fit


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32"])
def test_a_urdf_that_is_not_utf_8_is_refused_in_these_words(tmp_path, encoding):
    path = descriptions.write(tmp_path).parent / "mule.urdf"
    path.write_bytes(descriptions.urdf().encode(encoding))
    assert urdf.inspect(path).problems == ("line 1: it is UTF-16 or UTF-32 text; save it as UTF-8",)


def test_mass_of_links_that_are_fixed_to_a_moving_one_counts(tmp_path):
    """A dummy root link with the trunk fixed to it, as Unitree's URDFs have it."""
    joint = '<joint name="base_j" type="fixed"><parent link="base"/><child link="trunk"/></joint>'
    assert inspect(tmp_path, "</robot>", f'<link name="base"/>{joint}</robot>') == urdf.Findings()


MESH = '<link name="FL_foot"><{use}><geometry><mesh filename="{name}"/></geometry></{use}></link>'


def with_mesh(tmp_path, name, use="collision"):
    return inspect(tmp_path / "urdf", '<link name="FL_foot"/>', MESH.format(use=use, name=name))


def test_a_missing_mesh_matters_to_geometry_and_not_to_dynamics(tmp_path):
    message = "line 24: link FL_foot: {} mesh 'foot.stl': no such file; add it or correct the name"
    assert with_mesh(tmp_path, "foot.stl") == urdf.Findings(geometry=(message.format("collision"),))
    assert with_mesh(tmp_path, "foot.stl", "visual") == urdf.Findings(warnings=(message.format("visual"),))
    assert robots.load(tmp_path / "urdf").system().n_actuated == 12
    assert robots.check(tmp_path / "urdf").fit
    with_mesh(tmp_path, "foot.stl")
    assert robots.check(tmp_path / "urdf").problems == ("mule.urdf: " + message.format("collision"),)


def test_meshes_load_by_package_by_path_and_by_file(tmp_path):
    """A ROS package around the URDF: meshes beside its folder."""
    (tmp_path / "mule" / "meshes").mkdir(parents=True)
    mesh = tmp_path / "mule" / "meshes" / "foot.stl"
    mesh.touch()
    package = tmp_path / "mule"
    (package / "package.xml").touch()
    descriptions.write(package / "urdf")
    file = package / "urdf" / "mule.urdf"
    # a robot file marks a folder like a package does; here only the package counts
    (package / "urdf" / "robot.toml").unlink()
    packaged = ("package://mule/meshes/foot.stl", "package:///mule/meshes/foot.stl")  # Pinocchio finds both
    for name in (*packaged, "../meshes/foot.stl", f"file://{mesh}", str(mesh)):
        assert urdf.mesh_file(name, file) == mesh


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../secret.stl", "leaves the package folder"),
        ("meshes/../../secret.stl", "leaves the package folder"),
        ("/etc/passwd", "leaves the package folder"),
        ("file:///etc/passwd", "leaves the package folder"),
        ("package://urdf/../secret.stl", "leaves the package folder"),
        ("package://../secret.stl", "no folder '..'"),
        ("package://nowhere/foot.stl", "no folder 'nowhere'"),
        ("package://", "no folder ''"),
        ("package:///../secret.stl", "no folder '..'"),
        ("https://example.org/foot.stl", "its scheme is unknown"),
        ("", "no such file"),
    ],
)
def test_a_mesh_name_cannot_leave_its_package(tmp_path, name, reason):
    (tmp_path / "secret.stl").touch()
    (message,) = with_mesh(tmp_path, name).geometry
    assert reason in message
    assert message.startswith(f"line 24: link FL_foot: collision mesh {name!r}: ")
