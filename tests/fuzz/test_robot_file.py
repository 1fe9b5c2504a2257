"""Any robot file gives lines that name the key, no other exception, and opens no other file."""

import re
import time

import pytest
from hypothesis import strategies as st

from idcontrol import cli, robots
from idcontrol.robots import schema
from tests.fuzz import EFFORT, explore
from tests.parameters import one_fast
from tests.robots import descriptions

SOUND = descriptions.ROBOT_FILE


def checked(folder, text: str) -> robots.Report:
    """Return the check of the mule with this robot file; all lines are printable."""
    descriptions.write(folder)
    (folder / "robot.toml").write_bytes(text.encode("utf-8", "surrogatepass"))
    report = robots.check(folder)
    for line in (*report.problems, *report.warnings):
        assert line.isprintable(), line
        assert len(line) <= 500
    if report.fit:
        robots.load(folder).system()
    return report


VALUES = [
    "nan", "inf", "-1", "0", "true", '""', '"x"', "[]", "{}", "[[]]", "1e400", "0x" + "f" * 5000, "9" * 5000,
    "1e300", "-1e300",
    "1979-05-27", '"\\u0000"', '"\\n"', '"\\u009b31m"', "'" + "x" * 5000 + "'", "[" * 2000 + "]" * 2000, '{ "*" = 1 }',
    '{ "FL_*" = 1, "*_hip" = 2 }', '{ "nobody" = 1 }', '{ "*" = -1 }', '{ "a\\nb" = 1 }',
]  # fmt: skip
ENTRY = re.compile(r"^(\S+) = (.+)$", re.MULTILINE)


@pytest.mark.parametrize("value", one_fast(VALUES, *VALUES[::5]), ids=range(len(VALUES)))
def test_no_entry_takes_every_value(tmp_path, value):
    """Replace each key of the file in turn; some values fit some keys."""
    unfit = 0
    for entry in ENTRY.finditer(SOUND):
        unfit += not checked(tmp_path, f"{SOUND[: entry.start(2)]}{value}{SOUND[entry.end(2) :]}").fit
    assert unfit > 5


@pytest.mark.parametrize(
    "urdf",
    ["../../../../../../etc/passwd", "/etc/passwd", "package:numpy/../../../etc/passwd", "package:../../etc/passwd",
     "package:", "package:/etc/passwd", "x" * 5000, "package:" + "x" * 5000 + "/y", "/dev/zero", ".", ""],
)  # fmt: skip
def test_a_file_that_is_not_a_urdf_is_refused_without_showing_its_text(tmp_path, urdf):
    report = checked(tmp_path, SOUND.replace("mule.urdf", urdf))
    assert not report.fit
    assert "root:" not in " ".join(report.problems)


@EFFORT
def test_lines_cut_doubled_or_exchanged_are_reported_or_harmless(tmp_path, effort):
    lines = SOUND.splitlines()

    def law(changes):
        text = list(lines)
        for source, goal, what in changes:
            at = source % len(text)
            if what == "cut":
                text[at] = text[at][: goal % (len(text[at]) + 1)]
            elif what == "double":
                text.insert(goal % len(text), text[at])
            else:
                other = goal % len(text)
                text[at], text[other] = text[other], text[at]
        checked(tmp_path, "\n".join(text))

    change = st.tuples(st.integers(0, 200), st.integers(0, 200), st.sampled_from(["cut", "double", "exchange"]))
    explore(law, st.lists(change, min_size=1, max_size=3), 30, effort)


@pytest.mark.parametrize("key", ["{} = 1", "[{}]"], ids=["key", "table"])
def test_a_key_of_absurdly_many_parts_is_refused_at_once(tmp_path, key):
    """The TOML reader takes quadratic time in the parts of a key: minutes for a file of the allowed size."""
    began = time.process_time()
    (line,) = checked(tmp_path, SOUND + key.format(".".join(["gait"] * 100_000))).problems
    assert "more than 1000 dots" in line
    assert time.process_time() - began < 10.0


def test_a_mark_in_front_is_passed_over(tmp_path):
    assert checked(tmp_path, "\ufeff" + SOUND).fit


def test_a_robot_file_of_absurd_size_is_not_read(tmp_path):
    (line,) = checked(tmp_path, SOUND + "#" * schema.MOST_BYTES).problems
    assert "larger than 1 MiB" in line


@pytest.mark.parametrize(
    "name", ["x" * 5000, "x" * 5000 + ".urdf", "a\x00b.toml", "a\nb", "\x9b31m", "", "/", "..", "."]
)
def test_a_robot_of_any_name_is_reported_in_one_line(name, capsys):
    assert cli.main(["check", name]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said[:-1].isprintable()
    assert "Traceback" not in said
