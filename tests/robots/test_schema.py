"""A robot file has units in its keys, and each mistake is refused in one line that names the key."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idcontrol.errors import InputError
from idcontrol.robots import joints, schema
from tests.robots import descriptions


def problems(tmp_path, old, new):
    description, mistakes = schema.parse(schema.read(descriptions.write(tmp_path, old=old, new=new)))
    assert description is None or mistakes
    return mistakes


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("schema = 1", "schema = 2", "schema = 2: must be 1"),
        ('name = "mule"\n', "", "name: is missing; add it"),
        ('name = "mule"', 'name = ""', "name = '': expected text of length >= 1"),
        ('"free-flyer"', '"floating"', "base = 'floating': must be 'free-flyer' or 'fixed'"),
        ("duty = 0.75", "duty = 1.0", "gait.duty = 1.0: expected a number < 1.0"),
        ("period_s = 0.3", "period_s = -0.3", "gait.period_s = -0.3: expected a number > 0.0"),
        ("period_s = 0.3", 'period_s = "slow"', "gait.period_s = 'slow': expected a number, got text"),
        ("period_s = 0.3", "period_s = nan", "gait.period_s = nan: expected a number > 0.0"),
        ("period_s = 0.3", "period_s = inf", "gait.period_s = inf: must be finite"),
        ("period_s = 0.3", "period_s = true", "gait.period_s = True: expected a number, got bool"),
        ("radius_m = 0.02", "radius_m = 0", "feet[0].radius_m = 0: expected a number > 0.0"),
        (
            "radius_m = 0.02",
            "radius_m = 0.02\noffset_m = [0, nan, 0]",
            "feet[0].offset_m = [0, nan, 0]: must be finite",
        ),
        (
            "radius_m = 0.02",
            "radius_m = 0.02\noffset_m = [0, 1]",
            "feet[0].offset_m = [0, 1]: expected a list of length 3, got 2",
        ),
        ('"FL_knee" = 8', "x = 0", "limits.torque_nm.x = 0: expected a number > 0.0"),
        (
            "[limits]",
            '[lying]\nsupports = [{name = "belly", frame = "trunk", radius = 0.02, radius_m = 0.02}]\n[limits]',
            "lying.supports[0].radius: unknown key; did you mean radius_m?",
        ),
        ("[gait]", "[gaits]", "gaits: unknown key; did you mean gait?"),
        ("speed_m_s = 0.2", "speed_m_s = 0.2\nspeed_m = 1", "gait.speed_m: unknown key; did you mean speed_m_s?"),
        ("[home.joints_rad]", "[home]\njoints_rad = 3\n[x]", "home.joints_rad = 3: expected a table, got int"),
        ("schema = 1", "schema = 1\ncommand = 3", "command: must be a table, as in [command]"),
        ("LF = 0.25", "LF = 1.0", "gait.touchdown.LF = 1.0: expected a number < 1.0"),
        ("LF = 0.25", "XX = 0.25", "gait.touchdown.XX: no such foot; feet: LF, RF, LH, RH"),
        ("LF = 0.25, ", "", "gait.touchdown.LF: is missing; every foot needs its phase"),
        ('name = "LF"', 'name = "RF"', "feet: the name RF is given twice; rename one"),
        (
            "[limits]",
            '[[soles]]\nname = "RF"\nframe = "trunk"\ncorners_m = [[0, 0, 0], [1, 0, 0], [0, 1, 0]]\n[limits]',
            "soles: the name RF is given twice; rename one",
        ),
        ("[limits]", '[[soles]]\nname = "S"\nframe = "trunk"\n[limits]', "soles[0].corners_m: is missing; add it"),
    ],
)
def test_a_wrong_key_or_value_is_named_with_the_way_to_mend_it(tmp_path, old, new, line):
    assert line in problems(tmp_path, old, new)


def test_all_problems_are_reported_at_once(tmp_path):
    path = descriptions.write(tmp_path, old="duty = 0.75", new="duty = 2\nheight = 1")
    path.write_text(path.read_text().replace("turn_rad_s = 1.0", ""))
    _, mistakes = schema.parse(schema.read(path))
    assert [line.split(" ")[0].rstrip(":") for line in mistakes] == ["gait.height", "gait.duty", "gait.turn_rad_s"]


def test_a_gait_without_feet_is_refused(tmp_path):
    text = descriptions.ROBOT_FILE
    path = descriptions.write(tmp_path)
    path.write_text(text.partition("[[feet]]")[0] + "[limits]" + text.partition("[limits]")[2])
    assert (
        "gait: a robot without feet cannot walk; add [[feet]] or leave [gait] out" in schema.parse(schema.read(path))[1]
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"schema = 1\nschema = 1\n", r"no valid TOML: Cannot overwrite a value \(at line 2, column 11\)"),
        (b"schema = 1\nname = x\n", r"no valid TOML: Invalid value \(at line 2, column 8\)"),
        (b"\xff\xfe", "it is not UTF-8 text"),
        (b"x = " + b"[" * 100000, "no valid TOML"),
    ],
)
def test_a_file_that_is_no_toml_is_refused_with_its_line(tmp_path, content, reason):
    path = tmp_path / "robot.toml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=reason):
        schema.parse(schema.read(path))


def test_an_unreadable_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be read: it is no ordinary file"):
        schema.read(tmp_path)


def test_a_description_cannot_be_changed(tmp_path):
    description, _ = schema.parse(schema.read(descriptions.write(tmp_path)))
    with pytest.raises(AttributeError):
        description.name = "donkey"
    assert msgspec.to_builtins(description)["gait"]["period_s"] == 0.3


JOINTS = ("LF_HAA", "LF_KFE", "RF_HAA", "RF_KFE")


def test_a_table_gives_numbers_in_the_order_of_the_joints():
    values = joints.resolve({"*_KFE": 5, "*_HAA": 2, "RF_KFE": 7}, JOINTS, "kp")
    assert values.tolist() == [2, 5, 2, 7]
    assert joints.resolve({"LF_KFE": 1}, JOINTS, "home", default=0).tolist() == [0, 1, 0, 0]


@settings(deadline=None)
@given(st.permutations([("*", 1), ("*F_*", 2), ("LF_*", 3), ("LF_K*", 4), ("*_HAA", 5), ("LF_HAA", 6)]))
def test_the_narrowest_of_nested_patterns_applies_in_any_order(table):
    others = [joint for joint in JOINTS if joint != "RF_HAA"]  # which "*F_*" and "*_HAA" match alike
    assert joints.resolve(dict(table), others, "kp").tolist() == [6, 4, 2]
    (message,) = joints.problems(dict(table), JOINTS, "kp")
    assert message.startswith("kp: joint RF_HAA is matched by ")


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ({"*": 1, "LF_KFF": 1}, 'kp."LF_KFF": matches no actuated joint; the nearest is LF_KFE'),
        ({"*": 1, "*_HFE": 1}, 'kp."*_HFE": matches no actuated joint; the nearest is'),
        ({"*_KFE": 1}, "kp: no value for LF_HAA, RF_HAA; name each, or add a pattern that matches"),
        (
            {"LF_*": 1, "*_HAA": 1, "RF_KFE": 1},
            'kp: joint LF_HAA is matched by "LF_*" and "*_HAA"; name the joint itself',
        ),
        ({}, "kp: no value for LF_HAA, LF_KFE, RF_HAA, RF_KFE"),
    ],
)
def test_a_table_that_leaves_doubt_about_a_joint_is_refused(table, line):
    assert any(mistakes.startswith(line) for mistakes in joints.problems(table, JOINTS, "kp"))
    with pytest.raises(InputError):
        joints.resolve(table, JOINTS, "kp")
