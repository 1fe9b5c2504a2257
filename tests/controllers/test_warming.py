"""After warming, a controller compiles and loads nothing, and its memory is unchanged."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

from idcontrol import controllers, robots
from idcontrol.errors import InputError
from idcontrol.types import Command, Status
from tests.controllers import walker

BEGIN = """
    import gc
    import sys
    import numpy as np
    from msgspec import structs
    from numba.core.dispatcher import Dispatcher
    from idcontrol import controllers, robots

    robot = robots.load(sys.argv[3])
    start, reference = robot.standing_state(), robot.standing_reference()
    controller = controllers.make(sys.argv[1], robot, mu=0.5)
    if sys.argv[2] == "warm":
        controllers.warm(controller)

    def loaded():
        return sum(len(kernel.overloads) for kernel in gc.get_objects() if isinstance(kernel, Dispatcher))

    known = loaded()
"""

HARD = """
    rng, ended = np.random.default_rng(7), set()
    for k in range(300):
        v = rng.normal(size=18) * rng.choice([0.0, 0.02, 0.5, 5.0])
        stance, a = rng.random(4) < rng.choice([0.5, 1.0]), rng.normal(size=12) * rng.choice([0.0, 30.0, 300.0, 3000.0])
        state = structs.replace(start, v=v, t=1e-3 * k)
        asked = structs.replace(reference, stance=stance, a=a)
        ended |= {controller(state, asked).status.name, controller.fall_back(state, asked).status.name}
    print(loaded() - known, *sorted(ended))
"""

TOUCHING = """
    ground, q = robot.contacts(0.5), start.q
    for _ in range(100):  # it reaches for the ground
        ground.system.update(q, start.v)
        near = ground.detect(np.inf)
        q = ground.system.integrate(q, 0.1 * np.linalg.pinv(near.N) @ -near.gap, 1.0)
    rng, ended, touched = np.random.default_rng(7), set(), 0
    for k in range(300):
        v = rng.normal(size=9) * rng.choice([0.0, 0.02, 0.5, 5.0])
        stance, a = rng.random(4) < rng.choice([0.5, 1.0]), rng.normal(size=9) * rng.choice([0.0, 30.0, 300.0, 3000.0])
        state = structs.replace(start, q=q, v=v, t=1e-3 * k)
        command = controller(state, structs.replace(reference, q=q, stance=stance, a=a))
        ended.add(command.status.name)
        touched += command.predicted.force.any()
    assert touched > 50, touched
    print(loaded() - known, *sorted(ended))
"""


def kernels_loaded(code: str, name: str, begin: str, robot: str = "links") -> tuple[int, list[str]]:
    """Kernels that 300 hard calls load or compile in a separate process, and the statuses of the calls."""
    command = [sys.executable, "-c", textwrap.dedent(BEGIN) + textwrap.dedent(code), name, begin, robot]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded, *ended = done.stdout.split()
    return int(loaded), ended


@pytest.mark.parametrize(
    ("name", "robot"),
    [
        ("id-coulomb-qp", "links"),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in (("id-noslip-lcp", "links"), ("id-coulomb-qp", "solo12"))
        ),
    ],
)
def test_after_warming_no_call_loads_or_compiles_a_kernel(name, robot):
    loaded, ended = kernels_loaded(HARD, name, "warm", robot)
    assert {"SOLVED", "REPAIRED"} <= set(ended)
    assert loaded == 0


@pytest.mark.slow
def test_a_warm_arm_that_first_touches_the_ground_loads_nothing():
    assert kernels_loaded(TOUCHING, "id-coulomb-qp", "warm", "panda")[0] == 0


def test_warming_leaves_no_trace_in_the_controller(quadruped):
    state, reference = walker.at_home(quadruped), walker.stand(a=np.full(12, 3.0))
    cold, warmed = walker.controller(), walker.controller()
    for controller in (cold, warmed):
        controller(state, walker.stand(a=np.full(12, -2.0)))
    controllers.warm(warmed, lambda _: reference, state)
    assert cold(state, reference).tau.tobytes() == warmed(state, reference).tau.tobytes()


def test_a_controller_without_a_robot_is_warmed_in_a_chosen_state(quadruped):
    state, reference = walker.at_home(quadruped), walker.stand()
    with pytest.raises(InputError, match="pass it a planner and a start"):
        controllers.warm(walker.controller())
    with pytest.raises(InputError, match="pass it a planner and a start"):
        controllers.warm(walker.controller(), lambda _: reference)
    controllers.warm(walker.controller(), lambda _: reference, state)


def test_a_planner_is_called_in_the_standing_state_of_the_controllers_robot():
    robot, asked = robots.load("links"), []
    controller = controllers.make("pid", robot, mu=0.5)
    controllers.warm(controller, lambda state: (asked.append(state), robot.standing_reference())[1])
    assert [state.q.tobytes() for state in asked] == [robot.standing_state().q.tobytes()]


def test_a_users_controller_without_weak_references_can_be_built():
    robot = robots.load("links")
    slotted = controllers.make(f"{__name__}:Slotted", robot, mu=0.5)
    controllers.warm(slotted, lambda _: robot.standing_reference(), robot.standing_state())
    with pytest.raises(InputError, match="pass it a planner and a start"):
        controllers.warm(slotted)


class Slotted:
    """A controller that holds still, without room for a weak reference."""

    __slots__ = ("a",)

    def __init__(self, robot, mu, rate_hz):
        self.a = robot.standing_reference().q.size

    def reset(self):
        pass

    def __call__(self, state, reference):
        return Command(tau=np.zeros(self.a), status=Status.SOLVED)


class Kept:
    """A controller that `copy.deepcopy` does not copy, to record its calls."""

    def __init__(self, controller):
        self.inner = controller

    def __deepcopy__(self, memo):
        return self

    def __call__(self, state, reference):
        return self.inner(state, reference)


def test_warming_runs_the_balance_of_forces_for_sliding_feet(quadruped):
    """The first fallback takes milliseconds: the library of linear algebra is initialized."""
    kept = Kept(walker.controller())
    controllers.warm(kept, lambda _: walker.stand(), walker.at_home(quadruped))
    normal, tangential = kept.inner._friction.impulse
    assert normal > 0.0
    assert tangential > 0.0
