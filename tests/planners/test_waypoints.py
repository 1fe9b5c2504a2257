import math

import numpy as np
import pytest

from idcontrol.errors import InputError
from idcontrol.planners.commands import LimitedCommand, limit_command
from idcontrol.planners.waypoints import RADIUS, TURN_GAIN, Waypoints

DIAMOND = [(0.25, 0.0), (0.0, 0.25), (-0.25, 0.0), (0.0, -0.25)]


def drive(waypoints, seconds, *, pose=(0.0, 0.0, 0.0), h=1e-3):
    """Drive a unicycle within the limits of acceleration; return its poses and commands."""
    x, y, yaw = pose
    waypoints.reset(np.array([x, y, 0.2]))
    limited, rows = LimitedCommand.at_rest(), []
    command = limited.velocity
    for k in range(int(seconds / h)):
        said = waypoints(k * h, np.array([x, y, 0.2]), yaw)
        limit_command(h, (said.v_x, said.v_y, said.omega), 0.5, 8.0, limited)
        rows.append((x, y, yaw, waypoints.reached, waypoints.turning, *waypoints.previous, *waypoints.target, *command))
        x += h * (command[0] * math.cos(yaw) - command[1] * math.sin(yaw))
        y += h * (command[0] * math.sin(yaw) + command[1] * math.cos(yaw))
        yaw += h * command[2]
    return np.array(rows)


def test_a_unicycle_walks_the_diamond_round_and_round():
    rows = drive(Waypoints(DIAMOND, speed=0.2, turn=1.0), 30.0)
    x, y, reached = rows[:, 0], rows[:, 1], rows[:, 3].astype(int)
    assert reached[-1] >= 7
    for count in range(1, reached[-1] + 1):
        at = np.argmax(reached >= count)
        wanted = DIAMOND[(count - 1) % 4]
        # The pose of that tick, one step of 0.2 mm before the count.
        assert math.hypot(x[at] - wanted[0], y[at] - wanted[1]) < RADIUS
        assert rows[at, 5:7] == pytest.approx(wanted)
        assert rows[at, 7:9] == pytest.approx(DIAMOND[count % 4])


def test_turning_on_the_spot_has_hysteresis():
    waypoints = Waypoints([(5.0, 0.0)], speed=0.2, turn=1.0)
    here = np.zeros(3)
    waypoints.reset(here)
    said = [(yaw, waypoints(0.0, here, yaw), waypoints.turning) for yaw in (-0.39, -0.40, -0.2, -0.061, -0.059, -0.2)]
    assert [turning for _, _, turning in said] == [False, True, True, True, False, False]
    for yaw, command, turning in said:
        assert (command.v_x == 0.0) == turning
        assert command.omega == pytest.approx(min(1.0, -(TURN_GAIN if turning else 2.0) * yaw))


def test_from_the_set_time_on_it_asks_to_stand():
    waypoints = Waypoints(DIAMOND, speed=0.2, turn=1.0, stand_from_s=2.0)
    waypoints.reset(np.zeros(3))
    assert waypoints(1.999, np.zeros(3), 0.0).walk
    said = waypoints(2.0, np.zeros(3), 3.0)
    assert not said.walk
    assert not waypoints.turning


def test_a_single_reached_waypoint_is_approached_again():
    rows = drive(Waypoints([(0.1, 0.0)], speed=0.2, turn=1.0), 3.0)
    assert np.isfinite(rows).all()


@pytest.mark.parametrize(
    ("points", "speed", "said"),
    [
        ([], 0.2, "list of"),
        ([(0.0, 1.0, 2.0)], 0.2, "list of"),
        ([(0.0, math.nan)], 0.2, "list of"),
        ([(0.0, 1.0), (0.0,)], 0.2, "list of"),
        ([("north", "south")], 0.2, "list of"),
        ([(0.0, 1.0), (0.0, 1.0)], 0.2, "two waypoints in a row are equal"),
        ([(0.0, 1.0)], 0.0, "positive"),
    ],
)
def test_waypoints_that_cannot_be_walked_are_refused(points, speed, said):
    with pytest.raises(InputError, match=said):
        Waypoints(points, speed=speed, turn=1.0)
