"""Derivatives of a plant's step against differences of the step itself."""

import numpy as np
import pinocchio as pin
import pytest

from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.errors import InputError
from idcontrol.models import coulomb, dissipation
from idcontrol.plants.stepping import Stepping
from idcontrol.scenes.disturbances import scaled
from idcontrol.types import State
from tests import scenes
from tests.contact import bowl
from tests.differences import extended

pytestmark = pytest.mark.interpreted

STICKING, SLIDING = 0.0, 0.5
MODEL = coulomb.solve, 1e-3


def standing(speed, mu, model=coulomb.solve, feet=2):
    """A quadruped on two feet, with a state and torques; its feet stick, or slide at this speed."""
    system, rng = scenes.links(), np.random.default_rng(1)
    spheres = SphereContacts(system, scenes.FEET[:feet], scenes.RADIUS, plane(), mu)
    q = pin.integrate(system.model, scenes.home(system), np.r_[0.0, 0.0, -0.001, 0.002 * rng.normal(size=15)])
    system.update(q, np.zeros(18))
    J, v = spheres.detect(np.inf).jacobian, np.r_[0.8 * speed, 0.6 * speed, np.zeros(4), 0.02 * rng.normal(size=12)]
    if speed == STICKING:
        v -= np.linalg.pinv(J) @ (J @ v)
    return Stepping(system, spheres, model, 1e-3), State(t=0.0, q=q, v=system.to_pinocchio(v)), rng.normal(size=12)


@pytest.mark.covering
@pytest.mark.parametrize("by", ["q", "v", "tau", "mu"])
@pytest.mark.parametrize(("speed", "mu"), [(STICKING, 0.8), (SLIDING, 0.3)])
def test_derivatives_of_a_step_agree_with_differences(speed, mu, by):
    plant, state, tau = standing(speed, mu)
    system, rng = plant._system, np.random.default_rng(2)
    plant.reset(state)
    after, lin = plant.linearize(tau, 1e-3)
    assert lin.reason == ""
    assert lin.active.contacts == (("stick" if speed == STICKING else "slide"),) * 2
    direction = rng.normal(size=lin.jacobian(of="v_next", by=by).shape[1])

    def moved(size):
        change = {name: np.zeros(lin.jacobian(of="force", by=name).shape[1]) for name in ("q", "v", "tau", "mu")}
        change[by] = size * direction
        plant._contacts.mu = mu + change["mu"]
        plant.reset(State(t=0.0, q=pin.integrate(system.model, state.q, change["q"]), v=state.v + change["v"]))
        end = plant.step(tau + change["tau"], 1e-3)
        forces = plant.contact_forces().force.ravel()
        return np.concatenate((pin.difference(system.model, after.q, end.q), end.v, forces))

    measured, changes = extended(moved, 1e-5), lin.jvp(**{by: direction})
    derived = np.concatenate((changes["q_next"], changes["v_next"], changes["force"].ravel()))
    for part in (slice(0, 18), slice(18, 36), slice(36, None)):
        scale = max(np.abs(measured[part]).max(), 1e-3)
        # 1e-12 of rounding in forces, divided by the step
        assert np.abs(derived[part] - measured[part]).max() <= 1e-6 * scale


@pytest.mark.parametrize(("speed", "mu"), [(0.001, 0.8), (SLIDING, 0.1)])
def test_turned_normals_move_a_step_as_differences_do(speed, mu):
    system, rng = scenes.links(), np.random.default_rng(5)
    place, q = bowl.feet(system, scenes.home(system), mu)
    q[2] -= 0.001
    v = bowl.along(place, q, np.r_[0.8 * speed, 0.6 * speed, np.zeros(16)], 4)
    state, turn = State(t=0.0, q=q, v=system.to_pinocchio(v)), rng.normal(size=(4, 2))
    tau = rng.normal(size=12)
    plant = Stepping(system, place, *MODEL)
    plant.reset(state)
    _, lin = plant.linearize(tau, 1e-3)
    assert lin.reason == ""

    def moved(size):
        own = scenes.links()
        other = Stepping(own, bowl.turned(own, place, size * turn), *MODEL)
        other.reset(state)
        end = other.step(tau, 1e-3)
        return np.concatenate((end.v, other.contact_forces().force.ravel()))

    changes, measured = lin.jvp(normal=turn.ravel()), extended(moved, 1e-5)
    derived = np.concatenate((changes["v_next"], changes["force"].ravel()))
    for part in (slice(0, 18), slice(18, None)):
        np.testing.assert_allclose(derived[part], measured[part], rtol=0, atol=1e-6 * np.abs(measured[part]).max())


@pytest.mark.parametrize(("speed", "mu"), [(STICKING, 0.8), (SLIDING, 0.3)])
def test_heavier_links_move_a_step_as_differences_do(speed, mu):
    """All inertias grow by the same share."""
    plant, state, tau = standing(speed, mu)
    plant.reset(state)
    _, lin = plant.linearize(tau, 1e-3)

    def moved(share):
        heavier = scaled(plant._system, 1.0 + share)
        other = Stepping(heavier, SphereContacts(heavier, scenes.FEET[:2], scenes.RADIUS, plane(), mu), *MODEL)
        other.reset(state)
        return other.step(tau, 1e-3).v

    inertias = np.concatenate([body.toDynamicParameters() for body in plant._system.model.inertias.tolist()[1:]])
    measured, derived = extended(moved, 1e-3), lin.jvp(inertia=inertias)["v_next"]
    np.testing.assert_allclose(derived, measured, rtol=0, atol=1e-8 * np.abs(measured).max())


def test_a_load_on_joints_acts_as_torques_do():
    plant, state, tau = standing(STICKING, 0.8)
    plant.reset(state)
    _, lin = plant.linearize(tau, 1e-3)
    joints = plant._system.order[6:]
    np.testing.assert_array_equal(lin.jacobian(of="force", by="load")[:, joints], lin.jacobian(of="force", by="tau"))
    push = np.random.default_rng(3).normal(size=18)
    assert lin.vjp(v_next=push)["load"] @ push == pytest.approx(push @ lin.jvp(load=push)["v_next"], rel=1e-12)


def test_steps_without_a_derivative_are_refused():
    plant, state, tau = standing(STICKING, 0.8, dissipation.solve)
    plant.reset(state)
    with pytest.raises(InputError, match="only coulomb-lcp"):
        plant.linearize(tau, 1e-3)
    plant, state, tau = standing(STICKING, 0.8)
    plant.reset(state)
    with pytest.raises(InputError, match="needs substeps"):
        plant.linearize(tau, 1e-2)


def test_a_refused_step_in_flight_leaves_the_state_unchanged():
    plant, state, tau = standing(STICKING, 0.8)
    high = state.q.copy()
    high[2] += 1.0
    plant.reset(State(t=0.0, q=high, v=state.v))
    with pytest.raises(InputError, match="in flight"):
        plant.linearize(tau, 1e-3)
    after = plant.step(tau, 1e-3)
    assert after.t == 1e-3
    plant.reset(State(t=0.0, q=high, v=state.v))
    np.testing.assert_array_equal(after.q, plant.step(tau, 1e-3).q)


def test_unusable_arguments_are_refused_in_one_line():
    plant, state, tau = standing(STICKING, 0.8)
    for torques, dt, message in (
        (tau, -1e-3, "time step of a plant must be a positive number, not -0.001"),
        (tau, np.nan, "time step of a plant must be a positive number, not nan"),
        (tau[:3], 1e-3, r"torques have shape \(3,\)"),
        (np.full(12, np.nan), 1e-3, "not finite"),
    ):
        plant.reset(state)
        with pytest.raises(InputError, match=message) as caught:
            plant.linearize(torques, dt)
        assert "\n" not in str(caught.value)
    plant.reset(state)
    by_list, lin = plant.linearize(tau.tolist(), 1e-3)
    plant.reset(state)
    np.testing.assert_array_equal(by_list.q, plant.step(tau, 1e-3).q)
    np.testing.assert_array_equal(lin.tau, tau)
