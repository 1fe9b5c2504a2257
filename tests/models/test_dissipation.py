"""Maximal dissipation, stage I: the projection of math.md 7.3 against the judge, and the physics of 7.2."""

from dataclasses import replace

import numpy as np
import pytest

from idcontrol.bench.problems.machines import forward_step, inverse_step
from idcontrol.controllers.projection import project
from idcontrol.models import dissipation
from idcontrol.models.step import Bilateral, Prescribed, StepProblem
from idcontrol.types import Status
from tests import scenes
from tests.parameters import solved
from tests.scenes import by_hand


def random_problem(system, rng, *, inverse, mu=None):
    """Return a moving quadruped on uneven ground.

    Some feet are in the air, and each foot has a different friction coefficient.
    """
    v = scenes.moving(system, rng)
    n = int(rng.integers(1, 5))
    contacts = scenes.foot_contacts(
        system,
        rng.choice([0.0, 0.1, 0.6, 1.0], n) * rng.uniform(0.5, 1.0, n) if mu is None else mu,
        normals=scenes.tilted(rng, n, 0.26),
        gap=rng.choice([0.0, 2e-4, 5e-3, -5e-5], n),
        feet=tuple(rng.permutation(4)[:n]),
        angle=rng.uniform(0, np.pi),
    )
    if inverse:
        return inverse_step(system, v, v[6:] + scenes.H * rng.normal(scale=30.0, size=12), contacts)
    return forward_step(system, v, scenes.H * rng.normal(scale=2.0, size=12), contacts)


def test_a_loaded_contact_lifts_as_it_slides_and_only_then(quadruped):
    """The artefact of convexity (math.md 7.3): N v⁺ + φ/h = μ max(|v_S|, |v_T|), to rounding."""
    rng = np.random.default_rng(40)
    sliding = 0
    for _ in range(50):
        problem = random_problem(quadruped, rng, inverse=True, mu=0.3)
        solution = dissipation.solve(problem)
        w = problem.contacts.jacobian @ solution.v_plus
        normal, s, t = w.reshape(3, -1)
        normal = normal + np.maximum(problem.contacts.gap / scenes.H, -0.1)
        slip = np.maximum(np.abs(s), np.abs(t))
        loaded = solution.impulses[:, 0] > 1e-6
        np.testing.assert_allclose(normal[loaded], 0.3 * slip[loaded], rtol=0, atol=1e-10)
        sliding += int((slip[loaded] > 1e-3).sum())
    assert sliding > 10  # otherwise the law was not tested


def test_rigid_rows_join_the_projection(quadruped):
    """Oracle: the null space of the rows, inside which the projection is solved again."""
    rng = np.random.default_rng(50)
    for _ in range(10):
        problem = random_problem(quadruped, rng, inverse=False, mu=0.4)
        ties = Bilateral(rows=rng.normal(size=(2, 18)), target=0.1 * rng.normal(size=2), compliance=np.zeros(2))
        solution = solved(dissipation.solve(replace(problem, bilateral=ties)))
        v_tied = np.linalg.pinv(ties.rows) @ ties.target
        _, _, vt = np.linalg.svd(ties.rows)
        Z = vt[2:].T
        inner = StepProblem(
            h=problem.h,
            M=Z.T @ problem.M @ Z,
            kappa=Z.T @ (problem.kappa + problem.M @ v_tied),
            contacts=replace(
                problem.contacts,
                jacobian=np.ascontiguousarray(problem.contacts.jacobian @ Z),
                surface_velocity=-problem.contacts.jacobian @ v_tied,
            ),
        )
        expected = v_tied + Z @ dissipation.solve(inner).v_plus
        np.testing.assert_allclose(solution.v_plus, expected, rtol=0, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize(("closing", "note"), [(0.0, "jam"), (0.1, "squeeze")])
def test_a_plate_dragged_between_walls_jams_unless_the_walls_close_on_it(closing, note):
    """The plate approaches neither wall, but sliding lifts it off one wall, and the other wall leaves no room."""
    jacobian = np.zeros((6, 3))  # the plate across the walls, which is free, and along them; the second wall
    jacobian[0] = [1.0, 0.0, 0.0]
    jacobian[1] = [-1.0, 0.0, -1.0]
    jacobian[2:4, 1] = 1.0
    contacts = by_hand(jacobian, 0.5)
    prescribed = Prescribed(index=np.array([1, 2]), velocity=np.array([1.0, closing]))
    problem = StepProblem(h=1e-3, M=np.eye(3), kappa=np.zeros(3), contacts=contacts, prescribed=prescribed)
    solution = dissipation.solve(problem)
    assert (solution.status, solution.note) == (Status.FALLBACK, note)
    assert not solution.impulses.any()


def test_normals_that_depend_on_held_tangents_get_no_force(quadruped):
    """With tilted normals, tangents of rank 6 hold the body; what remains of the normals is rounding (math.md 4.3)."""
    rng = np.random.default_rng(7)
    for _ in range(20):
        v = scenes.moving(quadruped, rng, speed=0.02)
        contacts = scenes.foot_contacts(quadruped, np.inf, normals=scenes.tilted(rng, 4, 0.1))
        b = project(quadruped.M, contacts.jacobian, np.zeros(12), v[6:])
        solution = solved(dissipation.solve(inverse_step(quadruped, v, b, contacts)))
        # the step moves no faster than its demand, about 0.02 rad/s
        assert np.abs(solution.v_plus).max() < 1.0
        assert np.abs(contacts.jacobian @ solution.v_plus).max() < 1e-6


def test_a_contact_whose_normal_velocity_is_not_finite_is_not_off_the_ground():
    c, rho = np.array([np.nan, 0.0, 0.0]), np.eye(3)
    missed = dissipation._off_the_ground(rho, c, np.zeros(3), np.array([0.5]), np.zeros(3), np.zeros(3))
    assert missed == np.inf
