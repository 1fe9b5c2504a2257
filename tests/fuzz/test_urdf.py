"""Any URDF gives one clear line for each problem, promptly, and opens no other file."""

import contextlib
import os
import re
import sys
import time

import pytest
from hypothesis import strategies as st

from idcontrol import robots
from idcontrol.errors import InputError
from idcontrol.robots import urdf
from tests.fuzz import EFFORT, explore
from tests.robots import descriptions

SOUND = descriptions.urdf()
INERTIAL = descriptions.INERTIAL.format(mass=1, i=0.01)
PROMPT = 10.0
"""Longest time of a check [s]; it takes tenths of a second, on a busy computer seconds."""


@pytest.fixture(scope="module")
def watched():
    """Lists that receive the path of every file that Python opens."""
    lists: list[list[str]] = []

    def note(event, arguments):
        if event == "open":
            for opened in lists:
                opened.append(str(arguments[0]))

    sys.addaudithook(note)  # it stays: an audit hook cannot be removed
    return lists


def checked(folder, text: str | bytes) -> robots.Report:
    """Return the check of the mule with this URDF; all lines are printable."""
    descriptions.write(folder)
    path = folder / "mule.urdf"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    report = robots.check(folder)
    for line in (*report.problems, *report.warnings):
        assert line.isprintable(), line
        assert len(line) <= 500
    with contextlib.suppress(InputError):  # nothing else; where only geometry is wrong, not even that
        robots.load(folder).system()
    return report


def link(i: int) -> str:
    return f'<link name="l{i}">{INERTIAL}</link>'


def joint(i: int, parent: str, kind: str = "revolute") -> str:
    return (
        f'<joint name="j{i}" type="{kind}"><parent link="{parent}"/><child link="l{i}"/><axis xyz="1 0 0"/>'
        '<limit effort="1" velocity="1"/></joint>'
    )


def machine(n: int, parent, kind: str = "revolute") -> str:
    links = "".join(link(i) for i in range(n))
    return f'<robot name="x">{links}{"".join(joint(i, parent(i), kind) for i in range(1, n))}</robot>'


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (machine(100_000, lambda i: f"l{i - 1}").replace(INERTIAL, ""), "line 1: more than 1000 links"),
        (machine(302, lambda i: f"l{i - 1}", "prismatic"), "more than 300 moving joints"),
        (f"<robot>{'<a/>' * 4_000_000}</robot>", "line 1: more than 100000 elements"),
        (f"<robot>{'<a>' * 100_000}{'</a>' * 100_000}</robot>", "line 1: more than 100 elements within each other"),
        (f"<robot><link>{'<a>' * 100_000}{'</a>' * 100_000}</link></robot>", "line 1: more than 100 elements within"),
        (f"<robot>{' ' * urdf.MOST_BYTES}</robot>", "it is larger than 16 MiB"),
    ],
    ids=["links", "joints", "elements", "deep", "deep in a link", "bytes"],
)
def test_a_machine_of_absurd_size_is_refused_at_once(tmp_path, text, line):
    began = time.process_time()
    assert line in checked(tmp_path, text).problems[0]
    assert time.process_time() - began < PROMPT


@pytest.mark.parametrize("parent", [lambda i: f"l{i - 1}", lambda i: "l0"], ids=["chain", "star"])
def test_a_robot_with_the_largest_allowed_number_of_joints_is_read(tmp_path, parent):
    (tmp_path / "x.urdf").write_text(machine(101, parent))
    assert urdf.inspect(tmp_path / "x.urdf").problems == ()
    assert urdf.MOST_MOVING >= 100


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("which", ["mule.urdf", "robot.toml"])
def test_endless_files_are_not_read(tmp_path, kind, which):
    descriptions.write(tmp_path)
    path = tmp_path / which
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    assert not robots.check(tmp_path).fit


@pytest.mark.parametrize(
    "entity",
    [
        "<!DOCTYPE robot SYSTEM 'file:///etc/passwd'>",
        "<!DOCTYPE robot [<!ENTITY x SYSTEM 'file:///etc/passwd'>]>",
        "<!DOCTYPE robot [<!ENTITY a 'aaaaaaaaaa'>" + "".join(
            f"<!ENTITY a{i} '{f'&a{i - 1 if i else str()};' * 10}'>" for i in range(12)
        ) + "]>",
        "<!DOCTYPE robot [<!ENTITY % x SYSTEM 'http://localhost/x'> %x;]>",
    ],
    ids=["external type", "external entity", "billion laughs", "parameter entity"],
)  # fmt: skip
def test_entities_are_refused_before_they_expand(tmp_path, entity):
    (line,) = checked(tmp_path, f"{entity}<robot name='x'><link name='&a11;'/></robot>").problems
    assert "it declares a document type or an entity; delete that" in line


@pytest.mark.parametrize(
    "name",
    [
        "../../../../etc/passwd",
        "/etc/passwd",
        "file:///etc/passwd",
        "package://../../etc/passwd",
        "package://mule/../../../../etc/passwd",
        "package:///etc/passwd",
        "package://etc/passwd",
        "http://localhost/mesh.stl",
        "a" * 5000,
        "package://" + "a" * 5000 + "/x.stl",
        "..",
        "",
        "\\\\host\\share\\x.stl",
    ],
)
def test_meshes_outside_are_refused_and_nothing_outside_is_opened(tmp_path, name, watched):
    geometry = f'<collision><geometry><mesh filename="{name}"/></geometry></collision>'
    descriptions.write(tmp_path)
    text = SOUND.replace('<link name="FL_foot"/>', f'<link name="FL_foot">{geometry}</link>')
    opened: list[str] = []
    watched.append(opened)
    try:
        report = checked(tmp_path, text)
    finally:
        watched.clear()
    assert "collision mesh" in report.problems[0]
    assert any("mule.urdf" in path for path in opened)
    assert [path for path in opened if path.startswith("/etc") or "stl" in path] == []


NAMES = ["l" * 10_000, "\u009b31m", "&#10;two", "&#9;lines", "a/../../b", "%s%n", "{0}", "\u202egnp", "&lt;b&gt;", " "]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_shown_short_and_harmless(tmp_path, name):
    """Lines contain no line break and no terminal control characters; `checked` tests each line."""
    for text in (
        SOUND.replace('<axis xyz="1 0 0"/>', '<axis xyz="0 0 0"/>', 1).replace("FL_hip", name),
        SOUND.replace('<parent link="trunk"/>', f'<parent link="{name}"/>', 1),
        SOUND.replace('type="revolute"', f'type="{name}"', 1),
        SOUND.replace('value="4"', f'value="{name}"', 1),
        SOUND.replace("robot", f"{'r' * 10_000}"),
    ):
        assert not checked(tmp_path, text).fit


NUMBERS = [
    "nan", "inf", "-inf", "1e999", "-1", "0", "", " ", "1 2", "0x10", "1e-320", "1e300", "-1e300", "1,5", "1_0", "١"
]  # fmt: skip
ATTRIBUTE = re.compile(r'(xyz|value|i[xyz]{2}|lower|upper|effort|velocity|rpy|type|link|name)="[^"]*"')
ELEMENT = re.compile(
    r"<(?:link|joint|inertial|mass|inertia|axis|limit|parent|child|origin)[^>]*/>|<inertial>.*?</inertial>", re.DOTALL
)


def fit_runs(folder, text) -> None:
    """A URDF that the check accepts can be used in computations."""
    if checked(folder, text).fit:
        system = robots.load(folder).system()
        assert (system.M == system.M.T).all()


@EFFORT
def test_an_arbitrary_attribute_is_reported_or_harmless(tmp_path, effort):
    spots = list(ATTRIBUTE.finditer(SOUND))
    letters = st.text(st.characters(exclude_characters='<&"', exclude_categories=["Cs"]), max_size=8)

    def law(change):
        spot, value = change
        fit_runs(tmp_path, f'{SOUND[: spot.start()]}{spot[1]}="{value}"{SOUND[spot.end() :]}')

    explore(law, st.tuples(st.sampled_from(spots), st.sampled_from(NUMBERS) | letters), 30, effort)


@EFFORT
def test_elements_missing_doubled_or_moved_are_reported_or_harmless(tmp_path, effort):
    one = st.tuples(
        st.integers(0, 200),
        st.integers(0, 200),
        st.sampled_from(["", "double", "<box/>", "text", "<!-- -->", "<link/>", "<joint/>", "<joint"]),
    )

    def law(changes):
        text = SOUND
        for source, goal, what in changes:
            spots = list(ELEMENT.finditer(text))
            spot, other = spots[source % len(spots)], spots[goal % len(spots)].end()
            if what == "double":
                text = text[:other] + spot[0] + text[other:]
            else:
                text = text[: spot.start()] + what + text[spot.end() :]
        fit_runs(tmp_path, text)

    explore(law, st.lists(one, min_size=1, max_size=3), 30, effort)


@EFFORT
def test_bytes_that_are_no_urdf_are_reported(tmp_path, effort):
    def law(junk):
        assert not checked(tmp_path, junk).fit

    cut = st.binary(max_size=40).map(lambda junk: SOUND.encode()[:2000] + junk)
    explore(law, st.binary(max_size=200) | cut, 20, effort)


@pytest.mark.parametrize("which", ["mule.urdf", "robot.toml"])
@pytest.mark.parametrize("kind", ["folder", "loop"])
def test_a_path_without_a_file_is_reported(tmp_path, kind, which):
    descriptions.write(tmp_path)
    (tmp_path / which).unlink()
    if kind == "folder":
        (tmp_path / which).mkdir()
    else:
        (tmp_path / which).symlink_to(which)
    (line,) = robots.check(tmp_path).problems
    assert which in line


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "latin-1"])
def test_a_urdf_in_another_encoding_is_read_or_refused(tmp_path, encoding):
    checked(tmp_path, f'<?xml version="1.0" encoding="{encoding}"?>{SOUND}'.encode(encoding))
