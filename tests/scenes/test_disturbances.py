"""Each disturbance has only its described effect."""

import numpy as np
import pytest

from idcontrol import robots
from idcontrol.contact.terrain import plane
from idcontrol.errors import InputError
from idcontrol.planners.gait import Gait
from idcontrol.scenes.disturbances import (
    Delayed,
    Disturbance,
    Kicked,
    LeaningSpheres,
    Patch,
    Patched,
    WrongSchedule,
    delay_periods,
    leaning,
    loaded,
)
from idcontrol.scenes.locomotion import record_walk
from idcontrol.scenes.walk import WalkConfig, WalkScene
from idcontrol.types import ContactForces, Reference, State

H = 1e-3


class Scripted:
    """A plant that records its torques and touches the ground by a script."""

    def __init__(self, touching=()):
        self.torques, self.touching, self.last = [], list(touching), None
        self.pushed = []

    def reset(self, state):
        self.torques, self.pushed = [], []
        return state

    def push(self, velocity):
        self.pushed.append(len(self.torques))

    def step(self, tau, dt):
        self.torques.append(float(tau[0]))
        return State(t=0.0, q=np.zeros(0), v=np.zeros(0))

    def contact_forces(self):
        feet = np.array(self.touching[len(self.torques) - 1] if self.touching else [], dtype=np.int64)
        return ContactForces(identity=feet, force=np.ones((feet.size, 3)), normal=np.ones((feet.size, 3)))


def state(t=0.0):
    return State(t=t, q=np.zeros(0), v=np.zeros(0))


@pytest.mark.parametrize("earlier", [0, 2, 5, 20])
def test_a_kick_comes_so_many_steps_after_the_last_reset(earlier):
    plant = Scripted()
    kicked = Kicked(plant, 3, np.zeros(3), steps=2)
    for steps in (earlier, 10):
        kicked.reset(state())
        for _ in range(steps):
            kicked.step(np.zeros(1), H)
    assert plant.pushed == [3, 4]


@pytest.mark.parametrize("periods", [0, 1, 3])
def test_delayed_torques_arrive_in_order_and_so_many_periods_late(periods):
    plant = Scripted()
    delayed = Delayed(plant, periods)
    delayed.reset(state())
    tau = np.zeros(1)
    for k in range(8):
        tau[0] = k  # the same array every time: a plant must not see later commands through it
        delayed.step(tau, H)
    assert plant.torques == [max(0, k - periods) for k in range(8)]


def test_a_delay_that_is_no_whole_number_of_periods_is_refused():
    assert delay_periods("disturbance.delay_s", 0.003, H) == 3
    with pytest.raises(InputError, match=r"whole number of control periods of 0.001 s"):
        delay_periods("disturbance.delay_s", 0.0005, H)


@pytest.fixture(scope="module")
def links():
    return robots.load("links")


def spheres_of(links, system, lean=None):
    spheres = links.contacts(0.5, system=system)
    if lean is not None:
        feet = links.description.feet
        frames, radii, offsets = zip(*((foot.frame, foot.radius_m, foot.offset_m) for foot in feet), strict=True)
        spheres = LeaningSpheres(lean, system, frames, radii, plane(), 0.5, offsets=offsets)
    home = links.standing_state(system)
    system.update(home.q, 0.1 * np.ones(system.model.nv))
    return spheres


def test_feet_on_the_strip_have_its_friction_and_others_that_of_the_ground(links):
    contacts = spheres_of(links, links.system())
    contacts.detect(np.inf)
    front = contacts.centre[:, 0] > 0.0
    Patched(Scripted(), contacts, (0.0, 1.0), 0.1, 0.8).step(np.zeros(1), H)
    assert front.sum() == 2
    np.testing.assert_array_equal(contacts.mu, np.where(front, 0.1, 0.8))


def test_leaning_normals_lean_by_the_angle_and_rows_follow_their_axes(links):
    angle, system = 0.2, links.system()
    straight = spheres_of(links, system).detect(np.inf).take([0, 1, 2, 3])
    contacts = spheres_of(links, system, leaning(angle, 4, np.random.default_rng(1))).detect(np.inf)
    n = len(contacts)
    up = contacts.axes[:, 0, 2]
    assert np.arccos(up) == pytest.approx(angle, abs=1e-12)
    for axes in contacts.axes:
        assert axes @ axes.T == pytest.approx(np.eye(3), abs=1e-12)
        assert np.linalg.det(axes) == pytest.approx(1.0)
    # the velocity of the contact point in world axes does not depend on the axes it is measured along
    rows, before = (c.jacobian.reshape(3, n, -1) for c in (contacts, straight))
    for i in range(n):
        assert contacts.axes[i].T @ rows[:, i] == pytest.approx(straight.axes[i].T @ before[:, i], abs=1e-12)
        drift, still = contacts.drift.reshape(3, n)[:, i], straight.drift.reshape(3, n)[:, i]
        assert contacts.axes[i].T @ drift == pytest.approx(straight.axes[i].T @ still, abs=1e-12)
    assert np.abs(straight.drift).max() > 1e-3
    assert contacts.gap == pytest.approx(straight.gap)


class Trotting:
    """A planner that only knows its gait."""

    def __init__(self, gait):
        self.gait = gait

    def __call__(self, now):
        timing = self.gait.timing(now.t - 0.2)
        nothing = Reference.standing(np.zeros(1), 4)
        return Reference(
            q=nothing.q, v=nothing.v, a=nothing.a, stance=timing.stance, since_touchdown=timing.since_touchdown,
            to_liftoff=timing.to_liftoff, base_position=nothing.base_position, base_yaw=0.0, feet=nothing.feet,
        )  # fmt: skip


@pytest.mark.parametrize("late", [-0.05, -0.02, 0.02, 0.05])
def test_a_wrong_schedule_moves_every_touchdown_and_no_liftoff(late):
    gait = Gait()
    wrong, right = WrongSchedule(Trotting(gait), late, gait.swing_s, gait.stance_s), Trotting(gait)
    times = H * np.arange(2000)
    plan = np.array([wrong(state(t)).stance for t in times])
    true = np.array([right(state(t)).stance for t in times])
    for foot in range(4):
        for edges, shift in ((1, late), (-1, 0.0)):
            a, b = (np.flatnonzero(np.diff(s[:, foot].astype(int)) == edges) for s in (plan, true))
            assert len(a) >= 4
            # whole ticks: an event between two of them is seen at the next
            assert np.abs(H * (b[1:5] - a[1:5]) - shift).max() <= H + 1e-9


@pytest.mark.parametrize("late", [-0.02, 0.02])
def test_times_of_a_wrong_schedule_fit_its_stance(late):
    gait = Gait()
    wrong = WrongSchedule(Trotting(gait), late, gait.swing_s, gait.stance_s)
    for t in H * np.arange(1500):
        plan = wrong(state(t))
        assert np.isinf(plan.since_touchdown[~plan.stance]).all()
        assert np.isinf(plan.to_liftoff[~plan.stance]).all()
        both = plan.stance & np.isfinite(plan.since_touchdown) & np.isfinite(plan.to_liftoff)
        total = plan.since_touchdown[both] + plan.to_liftoff[both]
        assert total == pytest.approx(np.full(both.sum(), gait.stance_s + late), abs=1e-6)
        assert (plan.since_touchdown[both] >= 0.0).all()


def test_a_payload_adds_its_mass_where_the_base_has_its_own(links):
    bare = links.system()
    heavy = loaded(links.system(), 0.5)
    assert heavy.mass == pytest.approx(1.5 * bare.mass)
    before, after = bare.model.inertias[1], heavy.model.inertias[1]
    assert after.lever == pytest.approx(before.lever)
    assert after.inertia == pytest.approx(before.inertia)
    assert bare.mass == pytest.approx(links.system().mass)
    assert heavy.actuated_names == bare.actuated_names
    assert heavy.effort_limit == pytest.approx(bare.effort_limit)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"plant": "mujoco", "mu_range": (0.1, 1.0)}, "mujoco finds its own"),
        ({"plant": "mujoco", "patch": Patch(mu=0.1)}, "mujoco finds its own"),
        ({"plant": "pybullet", "disturbance": Disturbance(normal_error_rad=0.1)}, "pybullet finds its own"),
        ({"terrain": "heightmap"}, "or the name of one that comes with idcontrol: bumps"),
        ({"terrain": "heightmap", "height_map": "hills"}, "no height map at hills"),
    ],
)
def test_settings_that_do_not_go_together_are_refused_in_one_line(changes, line, tmp_path):
    with pytest.raises(InputError, match=line):
        record_walk(WalkScene.of(WalkConfig(duration_s=0.1, **changes)), tmp_path / "out")
