"""The loop on a simulated clock: order, arguments and times of the calls."""

import itertools
from dataclasses import dataclass, field

import numpy as np
import pytest
from msgspec import structs

from idcontrol.errors import InputError
from idcontrol.loop.simulated import ticks
from idcontrol.types import Command, ContactForces, Reference, State

H = 1e-3


def state(t, x):
    return State(t=t, q=np.array([x]), v=np.array([0.0]))


@dataclass
class Diary:
    """A plant, a planner and a controller that log their calls in order."""

    calls: list = field(default_factory=list)
    position: float = 0.0
    clock: float = 0.0

    def reset(self, start):
        self.calls.append(("reset", start.q[0]))
        self.position, self.clock = start.q[0], start.t
        return start

    def step(self, tau, dt):
        self.calls.append(("step", float(tau[0]), dt))
        self.position += float(tau[0]) * dt
        self.clock += dt
        return state(self.clock, self.position)

    def contact_forces(self):
        return ContactForces(
            identity=np.array([0]), force=np.array([[0.0, 0.0, self.position]]), normal=np.array([[0.0, 0.0, 1.0]])
        )

    def plan(self, seen):
        self.calls.append(("plan", seen.t, seen.q[0]))
        return Reference.standing(seen.q + 1.0, 0)

    def control(self, seen, reference):
        self.calls.append(("control", seen.t, seen.q[0], reference.q[0]))
        return Command(tau=reference.q - seen.q)


def run(diary, steps, **options):
    return ticks(diary, diary.plan, diary.control, state(0.0, 5.0), h=H, steps=steps, **options)


def test_every_period_plans_then_controls_then_steps():
    diary = Diary()
    list(run(diary, 2))
    assert diary.calls == [
        ("reset", 5.0),
        ("plan", 0.0, 5.0),
        ("control", 0.0, 5.0, 6.0),
        ("step", 1.0, H),
        ("plan", H, 5.0 + H),
        ("control", H, 5.0 + H, 6.0 + H),
        ("step", 1.0, H),
    ]


def test_each_tick_begins_where_the_last_one_ended():
    all_ticks = list(run(Diary(), 10))
    assert len(all_ticks) == 10
    for before, after in itertools.pairwise(all_ticks):
        assert after.state is before.after
    assert all(tick.controller_s >= 0.0 for tick in all_ticks)


def test_time_is_a_multiple_of_the_period_after_any_number_of_steps():
    n = 3000
    assert sum([H] * n) != n * H  # the time of a clock that adds up
    last = None
    for tick in run(Diary(), n):
        last = tick
    assert last.after.t == n * H
    assert last.state.t == (n - 1) * H


def test_planner_and_controller_see_only_what_is_sensed():
    diary = Diary()

    def blurred(true):
        return structs.replace(true, q=true.q + 100.0)

    tick = next(iter(run(diary, 1, sense=blurred)))
    assert ("plan", 0.0, 105.0) in diary.calls
    assert ("control", 0.0, 105.0, 106.0) in diary.calls
    assert tick.state.q[0] == 5.0
    assert tick.sensed.q[0] == 105.0
    assert tick.after.q[0] == pytest.approx(5.0 + H)


def test_the_state_carries_the_forces_of_the_period_before():
    """Controllers with force sensors sense past forces, not future forces."""
    first, second = run(Diary(), 2)
    assert first.state.forces is None
    assert first.after.forces is first.forces
    np.testing.assert_array_equal(second.state.forces.force, first.forces.force)
    assert second.forces.force[0, 2] != first.forces.force[0, 2]


@pytest.mark.parametrize("array", [lambda s: s.q, lambda s: s.v, lambda s: s.forces.force])
def test_a_controller_cannot_write_into_the_state_that_is_recorded(array):
    diary = Diary()

    def control(seen, reference):
        if seen.forces is not None:  # from the second period on
            array(seen)[:] = 0.0
        return Command(tau=np.zeros(1))

    with pytest.raises(ValueError, match="read-only"):
        list(ticks(diary, diary.plan, control, state(0.0, 5.0), h=H, steps=2))


def test_a_plant_that_hands_out_its_own_arrays_can_go_on_writing_into_them():
    own = state(0.0, 5.0)

    class Plant(Diary):
        def reset(self, start):
            return own

        def step(self, tau, dt):
            own.q[:] += 1.0
            return own

    plant = Plant()
    assert [tick.after.q[0] for tick in ticks(plant, plant.plan, plant.control, own, h=H, steps=2)] == [6.0, 7.0]


def test_a_controller_that_returns_no_command_is_refused_in_a_line():
    with pytest.raises(InputError, match=r"at 0\.000 s the controller returned NoneType; return a Command"):
        next(ticks(Diary(), Diary().plan, lambda state, reference: None, state(0.0, 5.0), h=H, steps=1))
