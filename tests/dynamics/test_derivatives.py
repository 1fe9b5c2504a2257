"""Derivatives of multibody terms and contact rows against differences of the terms themselves."""

import numpy as np
import pinocchio as pin
import pytest

from idcontrol.contact.sensitivity import row_derivatives
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import height_map, plane
from idcontrol.dynamics.derivatives import energies, force_slopes, inertia_times, inverse_dynamics, motions, turning
from idcontrol.dynamics.system import System
from idcontrol.kernels.placements import placement_views
from tests import scenes
from tests.differences import extended

pytestmark = pytest.mark.interpreted

ROUNDING = 1e-8  # of extended differences with a step of 1e-3 and terms of order 100


def differences(f, q, v, system, by, step=1e-3):
    """Derivatives of f(q, v) by q ⊕ δ or by v, last axis."""

    def along(unit: np.ndarray) -> np.ndarray:
        if by == "v":
            return extended(lambda size: f(q, v + size * unit), step)
        tangent = system.to_pinocchio(unit)
        return extended(lambda size: f(pin.integrate(system.model, q, size * tangent), v), step)

    return np.stack([along(unit) for unit in np.eye(system.n_velocities)], axis=-1)


@pytest.fixture(scope="module")
def moving():
    """A quadruped close to home that tumbles, with its velocity in the system's order."""
    system, rng = scenes.links(), np.random.default_rng(3)
    q = pin.integrate(system.model, scenes.home(system), 0.1 * rng.normal(size=18))
    return system, q, rng.normal(size=18)


def agrees(derived, measured):
    np.testing.assert_allclose(derived, measured, rtol=0, atol=ROUNDING * np.abs(measured).max())


@pytest.mark.parametrize("by", ["q", "v"])
def test_inverse_dynamics_and_motion_have_their_derivatives(moving, by):
    system, q, v = moving
    acceleration = np.linspace(-3.0, 5.0, 18)

    def at(q: np.ndarray, v: np.ndarray) -> System:
        system.update(q, system.to_pinocchio(v))
        return system

    force = differences(lambda q, v: at(q, v).M @ acceleration + system.bias, q, v, system, by)
    velocity = differences(lambda q, v: at(q, v).motion.velocity.copy(), q, v, system, by)
    drift = differences(lambda q, v: at(q, v).motion.drift.copy(), q, v, system, by)
    at(q, v)
    by_q, by_v = inverse_dynamics(system, q, v, acceleration)
    motion = motions(system, placement_views(system.data.oMi), v)
    agrees(by_q if by == "q" else by_v, force)
    agrees(motion.velocity_q if by == "q" else system.jacobian[None] * system.support[:, None], velocity)
    agrees(motion.drift_q if by == "q" else motion.drift_v, drift)


def test_derivatives_of_forces_agree_with_pinocchio(moving):
    system, q, v = moving
    a = np.linspace(-3.0, 5.0, 18)
    system.update(q, system.to_pinocchio(v))
    tree = motions(system, placement_views(system.data.oMi), v).tree
    acceleration = system.motion.drift + (tree.support * a) @ tree.J.T
    acceleration[:, :3] -= system.model.gravity.linear
    by_q, by_v = force_slopes(tree, system.motion.velocity, acceleration)
    by_v -= system.M @ turning(system.flyer_rows, v)[1]
    for derived, known in zip((by_q, by_v), inverse_dynamics(system, q, v, a), strict=True):
        np.testing.assert_allclose(derived, known, rtol=0, atol=1e-13 * np.abs(known).max())


def test_inertia_has_its_derivative(moving):
    system, q, v = moving
    x = np.linspace(-1.0, 2.0, 18)

    def momentum(q: np.ndarray, v: np.ndarray) -> np.ndarray:
        system.update(q, system.to_pinocchio(v))
        return system.M @ x

    measured = differences(momentum, q, v, system, "q")
    system.update(q, system.to_pinocchio(v))
    tree = motions(system, placement_views(system.data.oMi), v).tree
    agrees(inertia_times(tree, x), measured)
    np.testing.assert_allclose(energies(tree, x[None])[0], x @ inertia_times(tree, x), rtol=0, atol=1e-13)


WAVES = 0.02 * np.sin(np.arange(12.0))[:, None] * np.cos(np.arange(12.0))


@pytest.mark.covering
@pytest.mark.parametrize("ground", [plane(), plane((0.2, -0.1, 1.0), 0.1), height_map(WAVES, 0.2)])
@pytest.mark.parametrize("by", ["q", "v"])
def test_contacts_of_spheres_have_their_derivatives(moving, ground, by):
    system, q, v = moving
    spheres = SphereContacts(system, scenes.FEET, scenes.RADIUS, ground, 0.5, orientation=0.3)

    def seen(name: str) -> np.ndarray:
        def contacts(q: np.ndarray, v: np.ndarray) -> np.ndarray:
            system.update(q, system.to_pinocchio(v))
            return np.array(getattr(spheres.detect(np.inf), name))

        return differences(contacts, q, v, system, by)

    drift, rest = seen("drift"), {name: seen(name) for name in ("jacobian", "gap", "axes")} if by == "q" else {}
    system.update(q, system.to_pinocchio(v))
    derived = row_derivatives(spheres, spheres.detect(np.inf), motions(system, placement_views(system.data.oMi), v))
    agrees(derived.drift_q[..., :18] if by == "q" else derived.drift_v, drift)
    for name, measured in rest.items():
        agrees(getattr(derived, name)[..., :18], measured)
