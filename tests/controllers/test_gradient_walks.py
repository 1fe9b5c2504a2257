"""Derivatives of control steps along trots, and of steps from hostile states."""

import dataclasses

import numpy as np
import pinocchio as pin
import pytest
from msgspec import structs

from idcontrol import controllers, robots
from idcontrol.scenes.walk import WalkConfig, WalkScene
from tests.controllers.test_gradient import STEPS, outputs, shifted
from tests.differences import extended

pytestmark = pytest.mark.slow


def room(lin, changes):
    """The smallest margin of a step, relative to the changes of its quantities."""
    force, torque, speed = (np.abs(changes[of]).max(initial=1e-300) for of in ("force", "tau", "v_next"))
    relative = force / max(np.abs(lin.force).max(initial=0.0), 1e-12)
    sizes = force, speed, torque, 20.0 * relative  # small multipliers change by a larger share than forces
    return min(margin / size for margin, size in zip(lin.margin, sizes, strict=True))


@pytest.mark.parametrize("mu", [0.1, 0.8, np.inf])
@pytest.mark.parametrize("robot", ["links", "go1"])
def test_derivatives_agree_with_differences_along_a_trot(robot, mu):
    scene, rng, judged = WalkScene.of(WalkConfig(robot=robot, mu=mu, seed=1)), np.random.default_rng(3), 0
    setup = scene.controller_setup()
    quiet = dataclasses.replace(setup.settings, impacts=False)  # commands predict forces of impacts, too
    controller = controllers.build("id-coulomb-qp", dataclasses.replace(setup, settings=quiet))
    for k, tick in enumerate(scene.simulated().ticks(1500)):
        if k % 30 != 15:
            continue
        controller.reset()
        command, lin = controller.linearize(tick.sensed, tick.reference)
        assert lin.reason == ""
        for by in ("q", "v", "reference"):
            direction = rng.normal(size=lin.jacobian(of="tau", by=by).shape[1])
            changes = lin.jvp(**{by: direction})
            if room(lin, {of: STEPS[by] * change for of, change in changes.items()}) < 2.0:
                continue  # the active set may change within the step of the differences

            def along(size, tick=tick, by=by, direction=direction):
                return outputs(shifted(controller, tick.sensed, tick.reference, by, size * direction))

            measured = extended(along, STEPS[by])
            derived = np.concatenate((changes["tau"], changes["force"].ravel()))
            scale = max(np.abs(measured).max(), 0.01 * np.abs(outputs(command)).max())
            assert np.abs(derived - measured).max() <= 1e-6 * scale
            judged += 1
    assert judged > 100  # of 150


def pattern(lin, mu):
    """Contacts in stance, their roles, the axes along which friction acts, and the forces on their cones."""
    x, y, z = np.abs(lin.force.T)
    small = 1e-6 * np.abs(lin.force).max()
    return (
        lin.active,
        lin.identity.tolist(),
        (x > small).tolist(),
        (y > small).tolist(),
        (mu * z - x - y > small).tolist(),
    )


@pytest.mark.parametrize("robot", ["links", "go1"])
def test_the_active_set_stays_the_same_within_the_margin_along_a_trot(robot):
    """On slippery ground, where feet slide along one or two edges of their pyramids."""
    scene, rng, judged = WalkScene.of(WalkConfig(robot=robot, mu=0.1, seed=2)), np.random.default_rng(4), 0
    setup = scene.controller_setup()
    quiet = dataclasses.replace(setup.settings, impacts=False, learn_friction=False)
    controller = controllers.build("id-coulomb-qp", dataclasses.replace(setup, settings=quiet))
    mu = float(controller._contacts.mu[0])
    for k, tick in enumerate(scene.simulated().ticks(1500)):
        if k % 20 != 15:
            continue
        controller.reset()
        _, lin = controller.linearize(tick.sensed, tick.reference)
        direction = rng.normal(size=3 * lin.tau.size)
        changes = lin.jvp(reference=direction)
        changes["force"] = np.linalg.norm(changes["force"], axis=1)
        size = 0.9 * room(lin, changes)
        if lin.reason or not 1e-4 < size < 1.0:  # the change of forces is not linear, or rounding
            continue
        for sign in (1.0, -1.0):
            q, v, a = (sign * size * direction).reshape(3, -1)
            wanted = tick.reference
            wanted = structs.replace(wanted, q=wanted.q + q, v=wanted.v + v, a=wanted.a + a)
            controller.reset()
            assert pattern(controller.linearize(tick.sensed, wanted)[1], mu) == pattern(lin, mu)
        judged += "slide" in lin.active.contacts
    assert judged > 10


@pytest.mark.parametrize("mu", [0.0, 0.8, np.inf])
def test_derivatives_of_hostile_states_are_finite(mu):
    """Singular legs, speeds up to 10⁴, references far away, and random stance."""
    robot, rng = robots.load("go1"), np.random.default_rng(0)
    controller, home, standing = (
        controllers.make("id-coulomb-qp", robot, mu=mu, rate_hz=1000),
        robot.standing_state(),
        robot.standing_reference(),
    )
    model = robot.system().model
    for _ in range(300):
        moved = 10.0 ** rng.uniform(-8.0, 1.0) * np.r_[np.zeros(3), rng.normal(size=15)]
        q = pin.integrate(model, home.q, np.where(rng.random(18) < rng.random(), moved, 0.0))
        q[7:] = np.where(rng.random(12) < 0.2, 0.0, q[7:])  # a stretched leg
        v = 10.0 ** rng.uniform(-12.0, 4.0) * np.where(rng.random(18) < rng.random(), rng.normal(size=18), 0.0)
        wanted = 10.0 ** rng.uniform([-8.0, -8.0, -4.0], [2.0, 4.0, 7.0]) * rng.normal(size=(12, 3))
        reference = structs.replace(
            standing, q=standing.q + wanted[:, 0], v=wanted[:, 1], a=wanted[:, 2], stance=rng.random(4) < 0.7
        )
        _, lin = controller.linearize(structs.replace(home, q=q, v=v), reference)
        assert all(np.isfinite(slope).all() for slope in lin.slopes.values())
        assert not np.isnan(lin.margin).any()
