"""One control step: stages, shortcut, and the contacts of a user's detector."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from msgspec import structs

from idcontrol.contact.landing import Landing
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.controllers import InverseSettings, schemes, step
from idcontrol.controllers.feedback import Gains
from idcontrol.controllers.inverse import InverseDynamics
from idcontrol.controllers.stance import RAMP_WEIGHT, ramp_weights
from idcontrol.dynamics.system import System
from idcontrol.kernels.arena import HEAP
from idcontrol.kernels.bound import bind
from idcontrol.types import Status
from tests import scenes
from tests.controllers import walker

SCHEMES = {
    "id-coulomb-qp": schemes.COULOMB_QP,
    "id-coulomb-qp-raw": schemes.COULOMB_QP_RAW,
    "id-coulomb-qp-1": schemes.COULOMB_QP_1,
    "id-noslip-lcp": schemes.NO_SLIP_LCP,
    "id-noslip-qp": schemes.NO_SLIP_QP,
    "id-coulomb-lcp": schemes.COULOMB_LCP,
    "id-coulomb-smooth": schemes.COULOMB_SMOOTH,
    "id-coulomb-cone": schemes.COULOMB_CONE,
    "id-sap": schemes.SAP,
    "id-constraint": schemes.SPRINGS,
}
TWO_STAGES = ("id-coulomb-qp", "id-noslip-lcp", "id-noslip-qp")
GAINS = Gains(kp=400.0, kd=40.0)


def controller(scheme, *, limit=100.0, mu=0.7, detector=SphereContacts, **settings):
    system = System.from_urdf(scenes.LINKS, free_flyer=True, effort_limit=np.full(12, limit))
    feet = detector(system, scenes.FEET, scenes.RADIUS, plane(), mu)
    return InverseDynamics(scheme, system, feet, GAINS, scenes.H, InverseSettings(**settings))


def steps(quadruped, rng):
    """Realistic steps: a base sways over its feet, and each foot in turn lands, lifts off, or is in the air."""
    for k, (state, a) in enumerate(walker.swaying(quadruped, 60)):
        stance = np.ones(4, dtype=bool)
        stance[rng.integers(4)] = k % 3 != 0
        since, until = np.full(4, np.inf), np.full(4, np.inf)
        since[rng.integers(4)], until[rng.integers(4)] = 0.005 * rng.random(), 0.02 * rng.random()
        v = state.v + 0.02 * rng.normal(size=18)
        reference = walker.stand(a=a + rng.normal(size=12), stance=stance, since_touchdown=since, to_liftoff=until)
        yield structs.replace(state, v=v), reference


@pytest.mark.parametrize("name", SCHEMES)
def test_a_detector_that_overrides_detect_is_obeyed(quadruped, name):
    command = controller(SCHEMES[name], detector=scenes.ThreeFeet)(walker.at_home(quadruped), walker.stand())
    assert command.predicted.identity.tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", TWO_STAGES)
def test_the_shortcut_gives_the_torques_of_the_scheme_and_is_reported(quadruped, name):
    short, full = (controller(SCHEMES[name], shortcut=on) for on in (True, False))
    stuck = 0
    for state, reference in steps(quadruped, np.random.default_rng(3)):
        quick, whole = short(state, reference), full(state, reference)
        assert whole.solved_by == SCHEMES[name].name
        assert quick.solved_by in ("sticking", SCHEMES[name].name)
        if quick.solved_by != "sticking":
            continue
        stuck += 1
        assert quick.status is whole.status is Status.SOLVED
        # v⁺ is unique and so is the smallest torque: rounding, amplified by whitening
        np.testing.assert_allclose(quick.tau, whole.tau, rtol=0, atol=1e-9)
        np.testing.assert_allclose(quick.predicted.force, whole.predicted.force, rtol=0, atol=1e-6)
    assert stuck > 20  # in other steps a foot slides, or forces exceed the pyramids


def test_every_torque_of_the_smooth_scheme_is_proved_the_nearest(quadruped):
    control = controller(schemes.COULOMB_SMOOTH, mu=0.1)
    plain = controller(schemes.COULOMB_LCP, mu=0.1)
    for state, reference in steps(quadruped, np.random.default_rng(3)):
        command = control(state, reference)
        assert command.proved
        assert command.gap == 0.0
        other = plain(state, reference)
        assert not other.proved
        assert np.isnan(other.gap)


def test_a_stopped_search_bounds_the_distance_to_a_nearer_torque(quadruped, monkeypatch):
    """In interpreted code, in which the search's budget can be set to zero."""
    monkeypatch.setattr(schemes, "tick_nodes", lambda contacts: 1)
    control, gaps = controller(schemes.COULOMB_SMOOTH, mu=0.1), []
    for state, reference in steps(quadruped, np.random.default_rng(3)):
        assembled = control.problem(state, reference)
        control(state, reference)
        f = np.zeros(assembled.target.size)
        answer = schemes.coulomb_lcp(bind(assembled), f, HEAP)
        if answer.ending == step.SOLVED and f.size:
            gaps.append(schemes.nearest.py_func(assembled, f, answer.impulse, HEAP)[1] / scenes.H)
    assert max(gaps) > 0.01


@pytest.mark.parametrize("name", TWO_STAGES)
def test_an_unstoppable_slide_on_ice_is_not_reported_as_sticking(quadruped, name):
    """Feet that slide on ice cannot be stopped: stage II alone would omit their rows."""
    rng = np.random.default_rng(2)
    quick, whole = (controller(SCHEMES[name], mu=0.0, shortcut=on) for on in (True, False))
    state = walker.at_home(quadruped)
    for _ in range(10):
        moving = structs.replace(state, v=0.1 * rng.normal(size=18))
        one, other = quick(moving, walker.stand()), whole(moving, walker.stand())
        assert one.status == other.status
        np.testing.assert_allclose(one.tau, other.tau, rtol=0, atol=1e-9 * max(1.0, np.abs(other.tau).max()))


@pytest.mark.parametrize("name", TWO_STAGES)
def test_the_model_decides_if_sticking_needs_too_much_friction(quadruped, name):
    # joints that move the resting base sideways at half of gravity while the feet stand: friction of 0.5 is needed
    state = walker.at_home(quadruped)
    quadruped.update(state.q, state.v)
    J = scenes.foot_contacts(quadruped, 0.7).jacobian
    reference = walker.stand(a=np.linalg.solve(J[:, 6:], -J[:, 0] * 0.5 * 9.81))
    sticks = controller(SCHEMES[name], mu=0.7)(state, reference)
    assert sticks.solved_by == "sticking"
    total = sticks.predicted.force.sum(axis=0)
    assert 0.4 < np.hypot(total[0], total[1]) / total[2] < 0.6

    slips = controller(SCHEMES[name], mu=0.2)(state, reference)
    assert slips.solved_by == SCHEMES[name].name
    if name == "id-coulomb-qp":
        assert slips.status is Status.SOLVED
    else:  # the model without slip does not allow this motion: tracking is relaxed
        assert slips.status is Status.REPAIRED
        assert slips.dropped == ("tracking",)
    force = slips.predicted.force
    # on level ground with tangents along x and y; impulses of 1e-2 N s to rounding
    assert (np.abs(force[:, :2]).sum(axis=1) <= 0.2 * force[:, 2] + 1e-9).all()
    assert np.hypot(*force[:, :2].sum(axis=0)) > 0.1 * force[:, 2].sum()


@pytest.mark.parametrize(
    "scheme", [schemes.COULOMB_LCP, schemes.COULOMB_CONE, schemes.COULOMB_QP], ids=lambda s: s.name
)
def test_compiled_impacts_equal_the_interpreted_model(quadruped, scheme):
    """Feet in random motion at the ground, planned to stand or not; the reference is the model in Python."""
    rng, landed = np.random.default_rng(3), 0
    compiled, python = controller(scheme), controller(replace(scheme, impact=None))
    without = controller(scheme, impacts=False)
    for _ in range(20):
        state = structs.replace(walker.at_home(quadruped), v=0.2 * rng.normal(size=18))
        reference = walker.stand(stance=rng.random(4) < 0.5, since_touchdown=rng.uniform(0.0, 0.02, 4))
        ours, theirs, none = (each(state, reference) for each in (compiled, python, without))
        np.testing.assert_array_equal(ours.tau, theirs.tau)
        np.testing.assert_array_equal(ours.predicted.identity, theirs.predicted.identity)
        np.testing.assert_array_equal(ours.predicted.normal, theirs.predicted.normal)
        # constants of rows are summed in another order: rounding of 1e-16 m/s in velocities that give these forces
        np.testing.assert_allclose(ours.predicted.force, theirs.predicted.force, rtol=1e-9, atol=1e-9 * walker.WEIGHT)
        landed += ours.predicted.identity.size > none.predicted.identity.size
    assert landed > 5


def test_a_foot_that_has_settled_rests(quadruped):
    settles, never = (
        controller(schemes.COULOMB_QP, landing=landing)
        for landing in (Landing(settle_s=0.002, slip_m_s=np.inf), Landing())
    )
    differences = [
        np.abs(settles(state, reference).tau - never(state, reference).tau).max()
        for state, reference in steps(quadruped, np.random.default_rng(3))
    ]
    assert np.median(differences) > 1e-3


def test_ramp_counts_the_load_of_a_sole_as_that_of_a_point_foot():
    """Corners that share a load F evenly cost ``Σ w_i (F/k)²``: as much as one contact with the load F."""
    times = SimpleNamespace(to_liftoff=np.full(5, np.inf), since_touchdown=np.full(5, 0.01))
    point = ramp_weights.py_func(np.array([2]), np.zeros(0, dtype=np.int64), times, 0.025, HEAP)
    assert point == pytest.approx([RAMP_WEIGHT * 0.6**3])
    for standing in ([0, 1, 2, 3, 4], [0, 3, 4]):  # the last one is a point foot beside a sole of four corners
        weight = ramp_weights.py_func(np.array(standing), np.array([0, 0, 0, 0, 1]), times, 0.025, HEAP)
        corners = weight[:-1]
        assert corners.sum() / corners.size**2 == pytest.approx(point[0])
        assert weight[-1] == pytest.approx(point[0])


@pytest.mark.interpreted
def test_more_contacts_than_the_allocated_number_are_all_predicted(quadruped):
    frames = scenes.FEET * 6
    system = System.from_urdf(scenes.LINKS, free_flyer=True, effort_limit=np.full(12, 100.0))
    feet = SphereContacts(system, frames, scenes.RADIUS, plane(), 0.7)
    control = InverseDynamics(schemes.NO_SLIP_LCP, system, feet, GAINS, scenes.H)
    command = control(walker.at_home(quadruped), walker.stand(feet=24))
    assert command.predicted.identity.size == 24
    assert command.predicted.force[:, 2].sum() == pytest.approx(walker.WEIGHT, rel=1e-9)


@pytest.mark.parametrize("mu", [0.7, np.inf])
def test_a_step_whose_torque_just_meets_its_limit_is_solved(quadruped, mu):
    """In compiled code and, with unbounded friction, in interpreted code: no demand was relaxed."""
    state, reference = walker.at_home(quadruped), walker.stand()
    free = controller(schemes.COULOMB_QP, mu=mu)(state, reference)
    command = controller(schemes.COULOMB_QP, mu=mu, limit=np.abs(free.tau).max())(state, reference)
    assert command.clipped
    assert command.dropped == ()
    assert command.status is Status.SOLVED
