"""The compiled step against the general one, whose kernels it calls."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from idcontrol.contact.landing import Landing
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.controllers import schemes
from idcontrol.controllers.compiled import CompiledStep
from idcontrol.controllers.constraint import CONSTRAINT
from idcontrol.controllers.feedback import Gains
from idcontrol.controllers.inverse import InverseDynamics, Settings
from idcontrol.controllers.sap import SAP
from idcontrol.system import System
from idcontrol.types import Command, Reference, State, Status
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
    "id-sap": SAP,
    "id-constraint": CONSTRAINT,
}


GAINS = Gains(kp=400.0, kd=40.0)


def machine(*, limit: float = 100.0, mu: float = 0.7) -> tuple[System, SphereContacts]:
    system = System.from_urdf(scenes.LINKS, free_flyer=True, effort_limit=np.full(12, limit))
    return system, SphereContacts(system, scenes.FEET, scenes.RADIUS, plane(), mu)


def controller(scheme: schemes.Scheme, *, limit: float = 100.0, mu: float = 0.7) -> InverseDynamics:
    return InverseDynamics(scheme, *machine(limit=limit, mu=mu), GAINS, scenes.H)


def compiled(scheme: schemes.Scheme, state: State, reference: Reference, *, mu: float = 0.7) -> Command | None:
    """What the compiled step alone makes of a first step."""
    assert scheme.plain is not None
    system, contacts = machine(mu=mu)
    step = CompiledStep(scheme.plain, scheme.projects, system, contacts, GAINS, scenes.H, Settings())
    assert step.fits
    system.update(state.q, state.v)
    return step(state, reference, np.zeros(12))


def steps(quadruped, rng):
    """Sensible steps: a base that sways over its feet, then one foot after the other landing, lifting, in the air."""
    for k, (state, a) in enumerate(walker.swaying(quadruped, 60)):
        stance = np.ones(4, dtype=bool)
        stance[rng.integers(4)] = k % 3 != 0
        since, until = np.full(4, np.inf), np.full(4, np.inf)
        since[rng.integers(4)], until[rng.integers(4)] = 0.005 * rng.random(), 0.02 * rng.random()
        v = state.v + 0.02 * rng.normal(size=18)
        reference = walker.stand(a=a + rng.normal(size=12), stance=stance, since_touchdown=since, to_liftoff=until)
        yield structs.replace(state, v=v), reference


@pytest.mark.parametrize("name", SCHEMES)
def test_plain_steps_give_the_torques_of_the_general_step(quadruped, name):
    plain, general = controller(SCHEMES[name]), controller(replace(SCHEMES[name], plain=None))
    solved = 0
    for state, reference in steps(quadruped, np.random.default_rng(3)):
        if name == "id-coulomb-qp-raw":  # its optimum is whichever is found first, and warm starts decide
            plain.reset()
            general.reset()
        got, wanted = plain(state, reference), general(state, reference)
        assert got.status == wanted.status
        assert got.clipped == wanted.clipped
        if got.status is not Status.SOLVED:
            continue
        solved += 1
        # the same arithmetic in another order: rounding, amplified by whitening
        np.testing.assert_allclose(got.tau, wanted.tau, rtol=0, atol=1e-9)
        np.testing.assert_array_equal(got.predicted.identity, wanted.predicted.identity)
        np.testing.assert_allclose(got.predicted.force, wanted.predicted.force, rtol=0, atol=1e-7)
        np.testing.assert_allclose(got.predicted.normal, wanted.predicted.normal, rtol=0, atol=1e-15)
    assert solved > 20


def test_a_foot_that_has_settled_rests_in_either_step(quadruped):
    landing = Settings(landing=Landing(settle_s=0.002, slip_m_s=np.inf))
    scheme = schemes.COULOMB_QP
    plain, general = (
        InverseDynamics(s, *machine(), GAINS, scenes.H, landing) for s in (scheme, replace(scheme, plain=None))
    )
    never = controller(scheme)
    differences = []
    for state, reference in steps(quadruped, np.random.default_rng(3)):
        got, wanted = plain(state, reference), general(state, reference)
        # the same arithmetic in another order, as above
        np.testing.assert_allclose(got.tau, wanted.tau, rtol=0, atol=1e-9)
        differences.append(np.abs(got.tau - never(state, reference).tau).max())
    assert np.median(differences) > 1e-3


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("feet", [4, 2, 0])
def test_standing_is_plain_on_whatever_feet(quadruped, name, feet):
    reference = walker.stand(stance=np.array([feet > 0, feet > 2, feet > 2, feet > 0]))
    command = compiled(SCHEMES[name], walker.at_home(quadruped), reference)
    assert command is not None
    assert command.predicted.identity.size == feet


@pytest.mark.parametrize("name", ["id-coulomb-qp", "id-noslip-lcp", "id-noslip-qp"])
def test_where_sticking_takes_more_friction_than_there_is_the_model_decides(quadruped, name):
    # joints that move the resting base sideways at half of gravity while the feet stand: friction of 0.5 is needed
    state, scheme = walker.at_home(quadruped), SCHEMES[name]
    quadruped.update(state.q, state.v)
    J = scenes.foot_contacts(quadruped, 0.7).jacobian
    reference = walker.stand(a=np.linalg.solve(J[:, 6:], -J[:, 0] * 0.5 * 9.81))
    sticks = compiled(scheme, state, reference, mu=0.7)
    assert sticks is not None
    total = sticks.predicted.force.sum(axis=0)
    assert 0.4 < np.hypot(total[0], total[1]) / total[2] < 0.6

    slips = compiled(scheme, state, reference, mu=0.2)
    if name == "id-coulomb-qp":
        assert slips is not None
        assert slips.status is Status.SOLVED
    else:  # the model without slip has no such motion
        assert slips is None
    got, wanted = (controller(s, mu=0.2)(state, reference) for s in (scheme, replace(scheme, plain=None)))
    assert got.status == wanted.status
    assert got.dropped == wanted.dropped
    # the same arithmetic in another order, as above
    np.testing.assert_allclose(got.tau, wanted.tau, rtol=0, atol=1e-9)
    np.testing.assert_allclose(got.predicted.force, wanted.predicted.force, rtol=0, atol=1e-7)
    force = got.predicted.force
    # on level ground with tangents along x and y; impulses of 1e-2 N s to rounding
    assert (np.abs(force[:, :2]).sum(axis=1) <= 0.2 * force[:, 2] + 1e-9).all()
    assert np.hypot(*force[:, :2].sum(axis=0)) > 0.1 * force[:, 2].sum()


@pytest.mark.parametrize("name", SCHEMES)
def test_a_joint_at_its_limit_is_left_to_the_general_step(quadruped, name):
    plain, general = (controller(s, limit=0.3) for s in (SCHEMES[name], replace(SCHEMES[name], plain=None)))
    state = walker.at_home(quadruped)
    got, wanted = (c(state, walker.stand()) for c in (plain, general))
    assert got.clipped
    assert wanted.clipped
    np.testing.assert_array_equal(got.tau, wanted.tau)


def test_a_state_that_is_no_number_gives_no_torque(quadruped):
    state = walker.at_home(quadruped)
    v = state.v.copy()
    v[7] = np.nan
    command = controller(schemes.COULOMB_QP)(structs.replace(state, v=v), walker.stand())
    assert command.status is Status.FAILED
    assert not command.tau.any()
