import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idcontrol.errors import InputError
from idcontrol.planners.commands import CommandLimits, LimitedCommand, Schedule, VelocityCommand, limit_command

SPEEDS = st.floats(-2.0, 2.0)
COMMANDS = st.tuples(SPEEDS, SPEEDS, SPEEDS)


@settings(deadline=None)  # the first call compiles
@given(start=COMMANDS, target=COMMANDS, dt=st.floats(1e-2, 0.1))
def test_the_command_never_changes_faster_than_its_limits_and_arrives_exactly(start, target, dt):
    limited = LimitedCommand(np.array(start), np.zeros(3))
    command, rate = limited
    for _ in range(1200):
        before = command.copy()
        limit_command(dt, target, 0.5, 8.0, limited)
        assert math.hypot(rate[0], rate[1]) <= 0.5 * (1 + 1e-9)
        assert abs(rate[2]) <= 8.0 * (1 + 1e-9)
        # Rounding of numbers up to 2.
        assert np.abs(command - (before + dt * rate)).max() < 1e-14
        if command.tolist() == list(target):
            break
    else:
        pytest.fail("the command never arrived")
    limit_command(dt, target, 0.5, 8.0, limited)
    assert not rate.any()


def test_a_schedule_stands_then_holds_each_piece_until_the_next():
    schedule = Schedule([(1.0, 0.2, 0.0, 0.0), (2.0, 0.0, 0.1, 0.5)], stand_from_s=3.0)
    where = np.zeros(3)
    assert schedule(0.5, where, 0.0) == VelocityCommand(walk=False)
    assert schedule(1.0, where, 0.0) == VelocityCommand(v_x=0.2)
    assert schedule(2.5, where, 0.0) == VelocityCommand(v_y=0.1, omega=0.5)
    assert schedule(3.0, where, 0.0) == VelocityCommand(walk=False)


def test_schedules_and_limits_that_make_no_sense_are_refused():
    with pytest.raises(InputError, match="increase"):
        Schedule([(1.0, 0.0, 0.0, 0.0), (1.0, 0.1, 0.0, 0.0)])
    with pytest.raises(InputError, match="needs finite numbers"):
        Schedule([(0.0, math.nan, 0.0, 0.0)])
    with pytest.raises(InputError, match="angular_rad_s2"):
        CommandLimits(angular_rad_s2=0.0)
