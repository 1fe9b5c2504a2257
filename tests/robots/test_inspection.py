"""The check reports every fault of a robot in one line each, or describes the robot."""

import json
import math
import re
import shutil

import pytest

from idcontrol import robots
from tests.robots import descriptions


def check(tmp_path, old="", new="", urdf_old="", urdf_new=""):
    return robots.check(descriptions.write(tmp_path, old=old, new=new, urdf_old=urdf_old, urdf_new=urdf_new))


def test_a_sound_robot_is_fit_and_shows_its_table(tmp_path):
    report = check(tmp_path)
    assert report.fit
    assert report.problems == report.warnings == ()
    assert json.loads(json.dumps(report.summary)) == report.summary
    # 4 kg and twelve links of 0.1 kg
    assert report.summary["mass_kg"] == pytest.approx(5.2, abs=1e-12)
    assert report.summary["joints"][2] == {
        "joint": "FL_knee",
        "torque_nm": 8.0,
        "velocity_rad_s": 20.0,
        "lower_rad": -2.0,
        "upper_rad": 2.0,
        "home_rad": -1.0,
        "kp_nm_rad": 50.0,
        "kd_nm_s_rad": 0.5,
    }
    foot = report.summary["feet"][0]
    assert (foot["foot"], foot["frame"], foot["joints"]) == ("LF", "FL_foot", ["FL_hip", "FL_thigh", "FL_knee"])
    assert foot["centre_m"] == pytest.approx([0.2, 0.1, 0.02], abs=1e-12)


def test_a_continuous_joint_has_no_limits_in_the_table(tmp_path):
    without_gait = descriptions.ROBOT_FILE.partition("[gait]")
    report = check(tmp_path, "".join(without_gait[1:]), "", urdf_old='"revolute"', urdf_new='"continuous"')
    assert report.fit
    assert (report.summary["joints"][0]["lower_rad"], report.summary["joints"][0]["upper_rad"]) == (None, None)


FIXED = 'robot.toml: gait: a robot with base = "fixed" cannot walk; let its base be "free-flyer", or leave [gait] out'


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("duty", "dutty", "robot.toml: gait.dutty: unknown key; did you mean duty?"),
        (
            '"*_knee" = -1.0',
            '"*_nee" = -1.0',
            'robot.toml: home.joints_rad."*_nee": matches no actuated joint; the nearest is HR_knee',
        ),
        (
            'frame = "FL_foot"',
            'frame = "FL_food"',
            "robot.toml: feet.LF.frame: no frame 'FL_food' in the URDF; the nearest: FL_foot, FL_sole, FL_hip",
        ),
        (
            'frame = "FR_foot"',
            'frame = "FL_foot"',
            "robot.toml: feet.RF.frame: joint FL_hip moves foot LF, too; the gait needs a leg for each foot: name "
            "another frame, or leave [gait] out",
        ),
        (
            'frame = "FL_foot"',
            'frame = "trunk"',
            "robot.toml: feet.LF.frame: no joint moves trunk; name a frame at the end of a leg",
        ),
        (
            'frame = "FL_foot"',
            'frame = "FL_thigh_link"',
            "robot.toml: feet.LF.frame: 2 actuated joints lead to FL_thigh_link, the gait needs 3; name another frame, "
            "or leave [gait] out",
        ),
        (
            '"*_knee" = -1.0',
            '"*_knee" = -2.5',
            "robot.toml: home.joints_rad: FL_knee is -2.5, beyond its limits [-2, 2]; move it inside",
        ),
        (
            "[gains.torque]",
            "lower_rad = { FL_knee = -0.5 }\n[gains.torque]",
            "robot.toml: home.joints_rad: FL_knee is -1, beyond its limits [-0.5, 2]; move it inside",
        ),
        # 0.1 m of shank at 0.5 rad and at 0.6 rad to the vertical
        (
            '"*_knee" = -1.0',
            '"*_knee" = -1.0\nFL_knee = -1.1',
            "robot.toml: home.joints_rad: foot LF is 5.2 mm above most of the feet; change the angles of its leg, or "
            "correct its radius_m = 0.02 or its offset_m",
        ),
        ('base = "free-flyer"', 'base = "fixed"', FIXED),
        # the feet stand on the ground by the other three
        (
            "radius_m = 0.02",
            "radius_m = 0.06",
            "robot.toml: home.joints_rad: foot LF is 40.0 mm below most of the feet; change the angles of its leg, or "
            "correct its radius_m = 0.06 or its offset_m",
        ),
        (
            '"*_thigh" = 0.5\n"*_knee" = -1.0',
            '"*_knee" = 0.05',
            "robot.toml: home.joints_rad: the leg of foot RH is stretched in the home pose: its joints cannot move the "
            "foot along it; bend its knee",
        ),
    ],
)
def test_each_fault_of_a_robot_file_is_reported_in_one_line(tmp_path, old, new, line):
    report = check(tmp_path, old, new)
    assert line in report.problems
    assert not report.fit
    assert not report.summary


def test_a_leg_that_the_planner_of_steps_would_refuse_is_not_fit_to_walk(tmp_path):
    (message,) = check(tmp_path, urdf_old='"revolute"', urdf_new='"continuous"').problems
    assert message.startswith("robot.toml: feet.LF.frame: joint FL_hip of its leg is continuous; make it revolute")
    (message,) = check(tmp_path, urdf_old='"revolute"', urdf_new='"prismatic"').problems
    assert message.startswith(
        "robot.toml: feet.LF.frame: joint FL_hip of its leg slides, the gait needs legs that turn;"
    )


@pytest.mark.parametrize(
    ("more", "urdf"),
    [("\nradius = 1", {}), ("", {"urdf_old": '<mass value="', "urdf_new": '<mass value="-'})],
    ids=["robot file", "URDF"],
)
def test_a_foot_missing_in_the_urdf_is_reported_if_either_file_is_unusable(tmp_path, more, urdf):
    report = check(tmp_path, old='frame = "FL_foot"', new=f'frame = "FL_fot"{more}', **urdf)
    assert (
        "robot.toml: feet.LF.frame: no frame 'FL_fot' in the URDF; the nearest: FL_foot, FL_sole, FL_thigh"
        in report.problems
    )
    assert len(report.problems) > 1


def test_one_warning_names_all_links_of_which_it_is_true(tmp_path):
    """Four thighs as thin as rods and one knee link of its own."""
    rod = 'ixx="0.0001" ixy="0" ixz="0" iyy="0.0001" iyz="0" izz="0.0003"'
    descriptions.write(tmp_path)
    head, *legs = (tmp_path / "mule.urdf").read_text().split('_thigh_link"><inertial')
    ball = 'ixx="0.0001" ixy="0" ixz="0" iyy="0.0001" iyz="0" izz="0.0001"'
    (tmp_path / "mule.urdf").write_text(
        '_thigh_link"><inertial'.join([head, *(leg.replace(ball, rod, 1) for leg in legs)])
    )
    (message,) = robots.check(tmp_path).warnings
    assert re.fullmatch(
        r"mule.urdf: lines \d+, \d+, \d+, \d+: links FL_thigh_link, FR_thigh_link, HL_thigh_link, HR_thigh_link: no "
        r"mass distribution has the principal moments 0.0001, 0.0001, 0.0003 kg m²; .*",
        message,
    )


def test_a_frame_name_that_a_joint_and_a_link_share_is_refused(tmp_path):
    (message,) = check(tmp_path, urdf_old='joint name="FL_sole"', urdf_new='joint name="FL_foot"').problems
    assert message == "robot.toml: feet.LF.frame: 'FL_foot' names a joint and a link; rename one in the URDF"


def test_an_inertia_matrix_that_is_singular_is_a_problem(tmp_path):
    """A point mass on the axis of its joint: mass, but no inertia that the motor could feel."""
    path = descriptions.write(tmp_path)
    text = (tmp_path / "mule.urdf").read_text()
    light = descriptions.INERTIAL.format(mass=0.1, i=1e-4)
    head, _, tail = text.rpartition(light)
    (tmp_path / "mule.urdf").write_text(head + descriptions.INERTIAL.format(mass=0.1, i=0) + tail)
    (message,) = robots.check(path).problems
    assert "the inertia matrix is not positive definite: joint 'HR_knee' moves no inertia" in message


def test_a_body_that_lies_on_a_frame_that_does_not_exist_is_not_fit(tmp_path):
    (tmp_path / "robot.toml").write_text(robots.load("solo12").path.read_text().replace('"base_link"', '"base_lnk"', 1))
    (message,) = robots.check(tmp_path).problems
    line = "robot.toml: lying.supports.belly LF.frame: no frame 'base_lnk' in the URDF; the nearest: base_link, "
    assert message.startswith(line)


def test_limits_of_the_robot_file_replace_zero_limits_of_the_urdf(tmp_path):
    path = descriptions.write(tmp_path)
    (tmp_path / "mule.urdf").write_text(descriptions.urdf().replace('effort="9"', 'effort="0"'))
    assert robots.check(path).problems == ()
    assert robots.load(path).system().effort_limit.tolist() == [9.0, 9.0, 8.0, *[9.0] * 9]


def test_a_limit_missing_in_all_joints_is_reported_in_one_line(tmp_path):
    path = descriptions.write(tmp_path)
    (tmp_path / "mule.urdf").write_text(re.sub("<limit .*/>", "", descriptions.urdf()))
    (message,) = robots.check(path).problems
    assert message.startswith("mule.urdf: lines 4, 10, 16, ")
    assert "HR_thigh, HR_knee: a revolute joint needs <limit" in message


@pytest.mark.parametrize("base", ["free-flyer", "fixed"])
def test_a_floating_joint_in_the_urdf_is_refused(tmp_path, base):
    joint = '<joint name="float" type="floating"><parent link="world"/><child link="trunk"/></joint></robot>'
    report = check(tmp_path, '"free-flyer"', f'"{base}"', urdf_old="</robot>", urdf_new=f'<link name="world"/>{joint}')
    line = "mule.urdf: line 88: joint float: it is a floating joint, the robot file says"
    assert any(problem.startswith(line) for problem in report.problems)


def test_feet_below_the_ground_under_a_fixed_base_are_a_warning(tmp_path):
    """Feet of 20 mm under two links of 0.1 m at 0.5 rad, whose base is held at height zero."""
    path = descriptions.write(tmp_path, old='"free-flyer"', new='"fixed"')
    path.write_text(path.read_text().partition("[gait]")[0])
    report = robots.check(path)
    assert report.problems == ()
    assert report.warnings == (
        "robot.toml: home.joints_rad: feet below the ground z = 0 by up to 196 mm: LF, RF, LH, RH; put a root link "
        'below the base in the URDF, or let its base be "free-flyer"',
    )


def changed(tmp_path, *changes):
    """Return the check of the robot after replacements of texts in its file or in the URDF."""
    for file in (descriptions.write(tmp_path), tmp_path / "mule.urdf"):
        text = file.read_text()
        for old, new in changes:
            text = text.replace(old, new)
        file.write_text(text)
    return robots.check(tmp_path)


TROT = "touchdown = { LF = 0.25, RF = 0.75, LH = 0.75, RH = 0.25 }"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        # the feet end above the hips: sin and cos of angles of 1 and 2.3 rad
        (
            [('"*_thigh" = 0.5', '"*_thigh" = 1.0'), ('"*_knee" = -1.0', '"*_knee" = 1.3')],
            "home.joints_rad: below the ground there, by up to 47 mm: FL_knee, FR_knee, HL_knee, HR_knee; fold the "
            "legs the other way, or correct the feet's frames",
        ),
        (
            [('xyz="0 0 -0.1"', 'xyz="0 0 0.1"')],
            "home.joints_rad: the mass centre is 0.15 m below the feet; z points up, and the robot stands on its feet: "
            "turn it over, or fold its legs the other way",
        ),
        (
            [("radius_m = 0.02", "radius_m = 1")],
            "feet: radius_m beyond half of the leg: LF has 1 m on a leg of 0.2 m, RF has 1 m on a leg of 0.2 m, LH has "
            "1 m on a leg of 0.2 m, RH has 1 m on a leg of 0.2 m; correct it",
        ),
        # the mass centre is 2 mm behind the diagonal of the feet that remain
        (
            [('[[feet]]\nname = "RH"\nframe = "HR_foot"\nradius_m = 0.02\n', ""), (", RH = 0.25 }", " }")],
            "feet: the mass centre is 2 mm beyond the edge of the support polygon; to stand on points, a robot needs "
            "three or more feet around it: change the home pose, or leave [gait] out",
        ),
        (
            [(TROT, "touchdown = { LF = 0.25, RF = 0.75, LH = 0.25, RH = 0.75 }"), ("duty = 0.75", "duty = 0.5")],
            "gait: the robot is for 150 ms on RF and RH alone, 100 mm beside its mass centre, and tips over; shorten "
            "gait.period_s, raise gait.duty, or have other feet land together",
        ),
        # a point mass on a line of two feet does not stay there, however well it begins
        (
            [("period_s = 0.3", "period_s = 300")],
            "gait: the robot is for 75000 ms on RF and LH alone, 2 mm beside its mass centre, and tips over; shorten "
            "gait.period_s, raise gait.duty, or have other feet land together",
        ),
        (
            [('"*" = 9, "FL_knee" = 8', '"*" = 0.3')],
            "limits.torque_nm: to carry 5.2 kg at home takes 2 times the torque limits on ground with friction 0.6; "
            "bend the legs less, or correct the limits or the masses",
        ),
        # a trot has two feet on the ground, each with twice the load
        (
            [('"*" = 9, "FL_knee" = 8', '"*" = 0.9')],
            "limits.torque_nm: on RF and LH alone the gait takes 1.4 times the torque limits; correct them",
        ),
        # millimetres; the hips are 20 mm + 2 cos(0.5) 100 mm above the ground
        (
            [("step_height_m = 0.02", "step_height_m = 20")],
            "gait.step_height_m = 20: the feet rise by 20 m, and the hips are 0.2 m high; correct it",
        ),
        (
            [("touchdown_speed_m_s = 0.1", "touchdown_speed_m_s = 100")],
            "gait.touchdown_speed_m_s = 100: the feet sink in a swing by 7.5 m, and the hips are 0.2 m high; correct "
            "it",
        ),
    ],
    ids=["knees", "z down", "radius", "three feet", "pace", "slow", "weak", "weak on two feet", "step", "touchdown"],
)
def test_a_robot_that_cannot_stand_or_walk_is_not_fit(tmp_path, changes, line):
    assert changed(tmp_path, *changes).problems == (f"robot.toml: {line}",)


SOLE = """[[soles]]
name = "{name}"
frame = "{leg}_foot"
radius_m = 0.02
corners_m = [[{x:.6f}, 0.01, -{z:.6f}], [{x:.6f}, -0.01, -{z:.6f}], [-{x:.6f}, 0.0, {z:.6f}]]
"""


def on_soles(tmp_path, old="", new="", legs=("FL", "FR", "HL", "HR")):
    """Check the robot without its gait, with a level sole in place of each foot; the shanks lean by 0.5 rad."""
    corner = {"x": 0.02 * math.cos(0.5), "z": 0.02 * math.sin(0.5)}
    before, _, rest = descriptions.ROBOT_FILE.partition("[[feet]]")
    limits = rest[rest.index("[limits]") : rest.index("[gait]")]
    path = descriptions.write(tmp_path)
    text = before + "".join(SOLE.format(name=leg, leg=leg, **corner) for leg in legs) + limits
    assert old in text
    path.write_text(text.replace(old, new, 1))
    return robots.check(path)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        # 13 N on the front edge of each sole, 28 mm behind the knee
        (
            {"old": '"*" = 9, "FL_knee" = 8', "new": '"*" = 0.1'},
            "limits.torque_nm: to carry 5.2 kg at home takes 3.6 times the torque limits on ground with friction 0.6; "
            "bend the legs less, or correct the limits or the masses",
        ),
        # the mass centre is 2 mm behind the middle of the hips, its hind legs are 200 mm away
        (
            {"legs": ("FL", "FR")},
            "soles: the mass centre is 184 mm beyond the edge of the support polygon; change the home pose, or correct "
            "corners_m",
        ),
        # one line for a sole: a corner is 100 mm further along the sole's frame, which leans by 0.5 rad
        (
            {"old": "corners_m = [[0.017552, 0.01", "new": "corners_m = [[0.117552, 0.01"},
            "home.joints_rad: a corner of sole FL is 47.9 mm above most of the feet; change the angles of its leg, or "
            "correct its corners_m",
        ),
    ],
    ids=["weak", "beside", "corner"],
)
def test_a_robot_that_cannot_stand_on_its_soles_is_not_fit(tmp_path, changes, line):
    assert on_soles(tmp_path).fit
    assert on_soles(tmp_path, **changes).problems == (f"robot.toml: {line}",)


def test_a_trot_of_minutes_on_a_line_below_the_mass_centre_is_not_fit(tmp_path):
    """The mass centre of solo12 is exactly above the diagonals: only unavoidable errors make it tip."""
    shutil.copy(robots.load("solo12").path, tmp_path)
    path = tmp_path / "robot.toml"
    path.write_text(re.sub(r"(?m)^period_s = .*", "period_s = 300", path.read_text()))
    (message,) = robots.check(path).problems
    assert "on RF and LH alone, 0 mm beside its mass centre, and tips over; shorten gait.period_s" in message


def test_a_pace_with_short_stances_of_two_feet_is_fit(tmp_path):
    """It runs to the end: the base leans by less than 0.1 rad until the other side lands."""
    assert changed(tmp_path, (TROT, "touchdown = { LF = 0.25, RF = 0.75, LH = 0.25, RH = 0.75 }")).problems == ()


def test_an_inertia_that_needs_more_room_than_the_robot_is_a_warning(tmp_path):
    heavy = (descriptions.INERTIAL.format(mass=4, i=0.05), descriptions.INERTIAL.format(mass=4, i=50))
    (message,) = changed(tmp_path, heavy).warnings
    assert message == (
        "mule.urdf: the body on joint root_joint has the inertia of 4 kg at a distance of 3.5 m, "
        "but the robot is 0.5 m large; correct its <inertial>"
    )


def test_massless_links_between_the_axes_of_a_ball_joint_are_a_warning(tmp_path):
    """The thigh carries what the hip link lacks: the machine has an inertia, and moves."""
    report = check(tmp_path, urdf_old=descriptions.INERTIAL.format(mass=0.1, i=1e-4), urdf_new="")
    assert report.problems == ()
    assert report.warnings == (
        "mule.urdf: line 8: link FL_hip_link, which joint FL_hip moves, has no <inertial>; give its mass and inertia",
    )


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (
            "solo21",
            "no robot 'solo21'; did you mean 'solo12'? known: anymal, arm, bolt, g1, go1, links, panda, solo12, talos",
        ),
        ("nowhere/robot.toml", "nowhere/robot.toml: no such robot file; "),
    ],
)
def test_a_missing_robot_is_a_problem_and_not_an_exception(name, line):
    report = robots.check(name)
    assert report.problems[0].startswith(line)
    assert report.robot == name


@pytest.mark.parametrize("name", robots.names())
def test_every_robot_that_comes_along_is_fit(name):
    report = robots.check(name)
    assert report.problems == ()
    assert report.robot == name
    assert len(report.summary["joints"]) == {"arm": 11, "bolt": 6, "g1": 29, "panda": 9, "talos": 32}.get(name, 12)


def test_feet_of_a_summary_are_soles_with_their_corners_or_points():
    sole, point = (robots.check(name).summary["feet"] for name in ("talos", "go1"))
    assert [(foot["foot"], foot["corners"]) for foot in sole] == [("left", 4), ("right", 4)]
    assert [foot["centre_m"][1] for foot in sole] == pytest.approx([0.085, -0.085], abs=1e-9)
    assert len(point) == 4
    assert "corners" not in point[0]
