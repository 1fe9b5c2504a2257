"""Every contact model and controller satisfies its laws on random machines in random states.

Machines are trees of 1 to 30 joints, floating or not, with links of 1 g to 1 t and up to six contacts anywhere, at any
angle, in or above the ground. Many are unlike any real machine.
"""

import numpy as np
import pytest
from hypothesis import assume
from hypothesis import strategies as st
from msgspec import structs

from idcontrol import controllers
from idcontrol.bench import judge
from idcontrol.bench.problems.machines import H, forward_step, inverse_step
from idcontrol.contact.spheres import SphereContacts
from idcontrol.contact.terrain import plane
from idcontrol.dynamics.system import System
from idcontrol.errors import InputError
from idcontrol.models import constraint, coulomb, coulomb_cone, dissipation, no_slip, sap
from idcontrol.models.step import PUSH_OUT_SPEED
from idcontrol.types import Reference, State, Status
from tests.fuzz import EFFORT, explore, machines

MODELS = {
    "coulomb": coulomb.solve,
    "coulomb, cone": coulomb_cone.solve,
    "dissipation": dissipation.solve,
    "one-stage": dissipation.one_stage,
    "noslip": no_slip.solve,
    "sap": sap.solve,
    "constraint": constraint.compliant(constraint.springs(constraint.STIFFNESS, constraint.DAMPING), constraint.solve),
}
RIGID = ("coulomb", "coulomb, cone", "dissipation", "noslip")
MANY = st.integers(0, 6)


def machine(seed: int, joints: int, floating: bool, **options: float) -> tuple[np.random.Generator, System]:
    """Return the machine; reject it if light links carry links so heavy that M loses all precision."""
    rng = np.random.default_rng(seed)
    try:
        return rng, machines.build(rng, joints, floating, **options)
    except InputError:
        assume(False)
        raise


@pytest.mark.covering
@EFFORT
@pytest.mark.parametrize("mode", ["forward", "inverse"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_keeps_momentum_cones_and_non_penetration(name, mode, effort):
    def law(inputs):
        (seed, joints, floating), count = inputs
        rng, system = machine(seed, joints, floating or mode == "inverse")
        q, v = machines.state(rng, system)
        system.update(q, v)
        touching, now = machines.contacts(rng, system, count), system.from_pinocchio(v)
        asked = 10.0 * rng.normal(size=joints)
        if mode == "forward":
            problem = forward_step(system, now, H * asked, touching)
        else:
            problem = inverse_step(system, now, now[system.n_unactuated :] + H * asked, touching)
        solution = MODELS[name](problem, None)

        if problem.prescribed is not None:
            np.testing.assert_array_equal(solution.v_plus[problem.prescribed.index], problem.prescribed.velocity)
        missing, size = judge.unbalanced(problem, solution), judge.momentum_terms(problem, solution)
        # relative to the terms that cancel: entries of M differ by up to 1e12
        assert (np.abs(missing) <= 1e-9 * size).all()

        # impulses below a millionth of a millionth of the weight's are rounding
        most = max(np.abs(solution.impulses).max(initial=0.0), 1e-4 * system.mass * 9.81 * H)
        pressing, along = solution.impulses[:, 0], np.linalg.norm(solution.impulses[:, 1:], axis=1)
        assert (pressing >= -1e-9 * most).all()
        if name != "noslip":
            assert (along <= touching.mu * pressing + 1e-8 * most).all()
        assert np.isfinite(solution.residual) or solution.status is Status.FALLBACK
        if name in RIGID and solution.status is Status.SOLVED and count:
            opening = touching.N @ solution.v_plus + np.maximum(touching.gap / H, -PUSH_OUT_SPEED)
            scale = 1.0 + np.abs(touching.N) @ np.abs(solution.v_plus)
            assert (opening >= -1e-7 * scale).all()
            if name != "dissipation":  # whose contacts open as they slide
                assert (pressing * opening <= 1e-7 * scale * most).all()
        if solution.status is Status.FALLBACK:
            assert solution.note
            assert not solution.impulses.any()

    law(((479001600, 26, False), 3))  # nothing but rounding presses
    explore(law, st.tuples(machines.machines(), MANY), 12, effort)


def on_the_ground(rng: np.random.Generator, system: System, feet: int) -> tuple[SphereContacts, State]:
    """Return ball feet on random links of a floating machine, the lowest on the ground or 0.1 mm in it."""
    frames = [str(name) for name in rng.choice(list(system.model.names)[2:], feet)]
    spheres = SphereContacts(system, frames, 0.02, plane(), rng.choice([0.1, 0.5, 1.0]))
    q, v = machines.state(rng, system, speed=0.1)
    system.update(q, v)
    spheres.detect(np.inf)
    q[2] -= spheres.gap.min() + rng.choice([0.0, 1e-4])
    return spheres, State(t=0.0, q=q, v=v)


def bits(command) -> bytes:
    """Return all numbers of a command."""
    predicted = b"" if command.predicted is None else command.predicted.force.tobytes()
    return command.tau.tobytes() + predicted + bytes([command.status, command.clipped])


@EFFORT
@pytest.mark.parametrize("name", controllers.available())
def test_a_controller_keeps_limits_and_cones_and_forgets_when_it_is_reset(name, effort):
    def law(inputs):
        (seed, joints, _), feet, demand = inputs
        rng, system = machine(seed, joints, True, limit=50.0)
        spheres, state = on_the_ground(rng, system, feet)
        setup = controllers.Setup(system=system, contacts=spheres, h=H, torque_gains=controllers.Gains(kp=50.0, kd=0.5))
        control = controllers.build(name, setup)
        standing = Reference.standing(system.joint_positions(state.q), feet)
        reference = structs.replace(standing, a=demand * rng.normal(size=joints))
        system.update(state.q, state.v)
        motion = np.abs(system.M) @ np.abs(system.from_pinocchio(state.v)) / H
        cancels = max(system.mass * 9.81, motion.max())  # forces that hold, and that would stop it within a period
        first = control(state, reference)
        for command in (first, control(state, reference)):
            assert np.isfinite(command.tau).all()
            assert (np.abs(command.tau) <= 50.0).all()
            assert command.status is not Status.FAILED
            assert (command.status is Status.SOLVED) == (not command.dropped)
            if command.predicted is not None:
                force = command.predicted.force
                normal = command.predicted.normal
                pressing = np.einsum("ij,ij->i", force, normal)
                along = np.linalg.norm(force - pressing[:, None] * normal, axis=1)
                # sums of some ten terms that cancel, each rounded; and the force itself, whose axes are turned
                rounding = 1e-14 * (cancels + np.abs(force).max(initial=0.0))
                assert (pressing >= -rounding).all()
                assert (along <= spheres.mu[command.predicted.identity] * pressing + rounding).all()
        control.reset()
        assert bits(control(state, reference)) == bits(first)

    law(((5, 5, False), 4, 0.0))  # two contacts at one place share nothing but rounding
    law(((1, 20, False), 4, 0.0))  # joints yield where no contact can be held
    law(((6327, 18, False), 1, 1e4))  # the same under an absurd demand
    law(((6, 1, False), 2, 1e4))  # two feet at one place that carry nothing while the joint takes all its torque
    law(((5, 5, False), 5, 0.0))  # friction of a rounding where nothing presses
    law(((171129272, 1, False), 6, 1e4))  # the same
    inputs = st.tuples(machines.machines(), st.integers(1, 6), st.sampled_from([0.0, 1.0, 100.0, 1e4]))
    explore(law, inputs, 8, effort)
