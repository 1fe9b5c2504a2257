"""User input becomes a configuration, or an error of one line."""

import math
from typing import Annotated, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idcontrol.config.configuration import build, parse_setting
from idcontrol.errors import InputError, UnknownName


class Friction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    cap: Annotated[float, msgspec.Meta(gt=0)] = 0.7
    estimate: float | None = None
    edges: tuple[float, ...] = (0.5, 1.0)


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    mu: Annotated[float, msgspec.Meta(ge=0)] = 0.8
    seed: int = 0
    preset: Literal["default", "paper"] = "default"
    mode: Literal["walk", "stand"] | None = None
    friction: Friction = Friction()


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("mu=0.5", "mu", 0.5),
        ("mu = inf", "mu", math.inf),
        ("mu=-inf", "mu", -math.inf),
        ("mu=Infinity", "mu", math.inf),  # JSON
        ("seed=3", "seed", 3),
        ("mu=.6", "mu", 0.6),
        ("turn=-.6e-1", "turn", -0.06),
        ("mu=1_0.", "mu", 10.0),
        ("push=[.2, -5., 1.e3,3]", "push", [0.2, -5.0, 1000.0, 3]),
        ("name=1.2.3.", "name", "1.2.3."),
        ("friction.edges=[1, 2.5]", "friction.edges", [1, 2.5]),
        ('friction={"cap": 1.0}', "friction", {"cap": 1.0}),  # JSON
        ("friction={cap = 1.0}", "friction", {"cap": 1.0}),  # TOML
        ("friction.estimate=null", "friction.estimate", None),
        ("flag=true", "flag", True),
        ('robot="links"', "robot", "links"),
        ("robot=links", "robot", "links"),
        ("robot=/tmp/a=b/robot.toml", "robot", "/tmp/a=b/robot.toml"),
        ("day=2020-01-01", "day", "2020-01-01"),
        ("name=", "name", ""),
        ("name=1\nother=2", "name", "1\nother=2"),
    ],
)
def test_values_are_read_as_toml_or_json_or_text(text, key, value):
    assert parse_setting(text) == (key, value)


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("1e999", "1e999 is too large"),
        ("-1e999", "-1e999 is too large"),
        (".1e999", "0.1e999 is too large"),
        ('{"cap": 1e999}', "1e999 is too large"),
        ("{cap = 1e999}", "1e999 is too large"),
        ("1" * 5000, "5000 digits"),
        ('{"cap": ' + "1" * 5000 + "}", "5000 digits"),
        ('{"cap": 1, "cap": 2}', "the key 'cap' appears twice"),
        ('{"a": {"cap": 1, "cap": 2}}', "the key 'cap' appears twice"),
    ],
)
def test_numbers_too_large_and_repeated_keys_are_refused_in_one_line(value, line):
    with pytest.raises(InputError, match=r"^--set friction: ") as error:
        parse_setting(f"friction={value}")
    assert line in str(error.value)
    assert "\n" not in str(error.value)


@given(st.text('=a.1 é"[]{}\0\n\u2028'))  # of all characters few texts have an equals sign
def test_any_text_is_a_setting_or_one_line(text):
    key, equals, _ = text.partition("=")
    if equals and key.strip():
        assert parse_setting(text)[0] == key.strip()
    else:
        with pytest.raises(InputError, match="KEY=VALUE"):
            parse_setting(text)


def test_the_last_part_of_a_key_suffices_if_it_is_unique():
    assert build(Config(), {"cap": 2.0}) == Config(friction=Friction(cap=2.0))
    with pytest.raises(InputError, match=r"^friction.cap: expected a number > 0.0; it is -1.0"):
        build(Config(), {"cap": -1.0})


def test_an_ambiguous_last_part_of_a_key_is_refused_with_all_matches():
    class Foot(msgspec.Struct, frozen=True):
        radius: float = 0.1

    class Pair(msgspec.Struct, frozen=True):
        left: Foot = Foot()
        right: Foot = Foot()

    with pytest.raises(InputError, match=r"'radius' may be any of left.radius, right.radius: write it in full"):
        build(Pair(), {"radius": 0.2})


@pytest.mark.parametrize("key", ["friction.cpa", "frictoin.cap", "mu.x", "seeds", "friction.cap.x", ""])
def test_an_unknown_key_is_refused_with_the_known_ones(key):
    with pytest.raises(UnknownName, match=r"known: friction, friction.cap"):
        build(Config(), {key: 1})


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"mu": -1.0}, "--mu: expected a number >= 0.0; it is -1.0"),
        ({"mu": math.nan}, "--mu: NaN is no value; give a number"),
        ({"friction.edges": [1, math.nan]}, "friction.edges: NaN is no value; give a number"),
        ({"friction.cap": "high"}, 'friction.cap: expected a number, got text; it is "high"'),
        ({"friction.estimate": "x"}, 'friction.estimate: expected a number or null, got text; it is "x"'),
        ({"friction.edges": [1, "x"]}, 'friction.edges[1]: expected a number, got text; it is [1, "x"]'),
        ({"friction": 3}, "friction: expected a table, got a whole number; it is 3"),
        ({"seed": 1.5}, "seed: expected a whole number, got a number; it is 1.5"),
        ({"preset": "papr"}, 'preset: expected one of default, paper; it is "papr"'),
        ({"mode": "run"}, 'mode: expected one of stand, walk; it is "run"'),
        ({"friction": {"cup": 1}}, "friction: object contains unknown field 'cup'; it is {\"cup\": 1}"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_in_one_line(changes, line):
    with pytest.raises(InputError) as caught:
        build(Config(), changes, {"mu": "--mu"})
    assert str(caught.value) == line


def test_a_check_of_the_whole_configuration_keeps_its_message():
    class Checked(msgspec.Struct, frozen=True):
        low: float = 0.0
        high: float = 1.0

        def __post_init__(self) -> None:
            if self.low > self.high:
                raise ValueError("low is above high")

    with pytest.raises(InputError, match=r"^low is above high$"):
        build(Checked(), {"low": 2.0})


class Gains(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kp_1_s2: float = 1.0
    kp_nm_rad: float = 1.0
    landing: str = "held"
    landing_s: float = 0.1


class Timed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    duration_s: float = 1.0
    gains: Gains = Gains()


def test_a_key_may_omit_its_unit_if_it_is_unique():
    assert build(Timed(), {"duration": 3.0}).duration_s == 3.0
    assert build(Timed(), {"gains.kp_nm_rad": 2.0, "landing": "free"}).gains == Gains(kp_nm_rad=2.0, landing="free")
    with pytest.raises(InputError, match=r"'kp' may be any of gains\.kp_1_s2, gains\.kp_nm_rad: write it in full"):
        build(Timed(), {"kp": 2.0})
    with pytest.raises(UnknownName, match=r"no setting 'durations'; did you mean 'duration_s'\?"):
        build(Timed(), {"durations": 3.0})


def test_an_unknown_name_among_many_gets_only_the_nearest_suggestion():
    many = [f"joint_{k}" for k in range(40)]
    assert str(UnknownName("joint", "joint_2x", many)) == "no joint 'joint_2x'; did you mean 'joint_2'?"
    assert str(UnknownName("joint", "elbow", many)).startswith("no joint 'elbow'; 40 known: joint_0, joint_1, ")
