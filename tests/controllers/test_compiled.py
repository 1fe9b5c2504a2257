"""The compiled step against the general one, whose kernels it calls."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.controllers import schemes
from idcontrol.controllers.constraint import CONSTRAINT
from idcontrol.controllers.feedback import Gains
from idcontrol.controllers.inverse import InverseDynamics
from idcontrol.controllers.sap import SAP
from idcontrol.system import System
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
    "id-sap": SAP,
    "id-constraint": CONSTRAINT,
}


def controller(scheme: schemes.Scheme, *, limit: float = 100.0, mu: float = 0.7) -> InverseDynamics:
    system = System.from_urdf(scenes.LINKS, free_flyer=True, effort_limit=np.full(12, limit))
    contacts = SphereContacts(system, scenes.FEET, scenes.RADIUS, plane(), mu)
    return InverseDynamics(scheme, system, contacts, Gains(kp=400.0, kd=40.0), scenes.H)


def steps(quadruped, rng):
    """Sensible steps: a base that sways over its feet, then one foot after the other landing, lifting, in the air."""
    for k, (state, a) in enumerate(walker.swaying(quadruped, 60)):
        stance = np.ones(4, dtype=bool)
        stance[rng.integers(4)] = k % 3 != 0
        since, until = np.full(4, np.inf), np.full(4, np.inf)
        since[rng.integers(4)], until[rng.integers(4)] = 0.005 * rng.random(), 0.02 * rng.random()
        v = state.v + 0.02 * rng.normal(size=18)
        reference = walker.stand(a=a + rng.normal(size=12), stance=stance, since_touchdown=since, to_liftoff=until)
        yield replace(state, v=v), reference


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
    command = controller(schemes.COULOMB_QP)(replace(state, v=v), walker.stand())
    assert command.status is Status.FAILED
    assert not command.tau.any()
