"""Many bodies in contact: closed forms, momentum, energy, bad input."""

from dataclasses import replace
from typing import Any

import coal
import numpy as np
import pytest

from idcontrol.contact.body_contacts import BodyContacts
from idcontrol.contact.terrain import plane
from idcontrol.dynamics.bodies import Body, BodyState, Obstacle, Surface, kinetic_energy, momentum, solid
from idcontrol.errors import InputError
from idcontrol.models import coulomb, dissipation, sap
from idcontrol.models.sparse import SparseProblem, SparseSolution
from idcontrol.models.step import ContactModel
from idcontrol.plants.bodies import FreeBodies, dense
from idcontrol.types import Array, Status
from tests.parameters import one_fast

pytestmark = pytest.mark.interpreted

G = 9.81
EVERY = [coulomb.solve, dissipation.solve, sap.solve]


def ball(name: str = "ball", mu: float = 0.5) -> Body:
    return solid(name, coal.Sphere(0.05), 1000.0, Surface(mu=mu))


def cube(name: str = "cube", mu: float = 0.5) -> Body:
    return solid(name, coal.Box(0.1, 0.1, 0.1), 1000.0, Surface(mu=mu))


def moving(position: list[list[float]], velocity: list[list[float]]) -> BodyState:
    return BodyState.at_rest(np.array(position))._replace(velocity=np.array(velocity, dtype=np.float64))


@pytest.mark.parametrize("model", one_fast(EVERY, sap.solve))
def test_a_tower_of_cubes_presses_with_the_weight_above(model: ContactModel) -> None:
    tower = FreeBodies([cube(f"cube{i}") for i in range(3)], dense(model), terrain=plane())
    tower.reset(BodyState.at_rest(np.array([[0.0, 0.0, 0.05 + 0.1 * i] for i in range(3)])))
    for _ in range(50):
        tower.step(0.01)
    forces = tower.contact_forces()
    weight = tower.inertias.mass[0] * G
    for level in range(3):
        # the interface below cube `level`: body A is the lower of two cubes, or the cube on the ground
        below = (forces.body == [0, -1]).all(axis=1) if level == 0 else (forces.body == [level - 1, level]).all(axis=1)
        total = forces.force[below].sum(axis=0) * (1.0 if level == 0 else -1.0)
        # SAP's near-rigid contacts settle like a critically damped spring of period h
        assert total == pytest.approx([0.0, 0.0, (3 - level) * weight], abs=1e-6 * weight)
    assert np.abs(tower.state.velocity).max() < 1e-6


@pytest.mark.parametrize("model", one_fast(EVERY, coulomb.solve))
def test_a_ball_that_slides_ends_up_rolling_at_five_sevenths_of_its_speed(model: ContactModel) -> None:
    plant = FreeBodies([ball(mu=0.3)], dense(model), terrain=plane())
    plant.reset(moving([[0.0, 0.0, 0.05]], [[1.0, 0, 0, 0, 0, 0]]))
    onset = None
    for step in range(400):
        state = plant.step(1e-3)
        if onset is None and abs(state.velocity[0, 0] - 0.05 * state.velocity[0, 4]) < 2e-3:
            onset = (step + 1) * 1e-3
    # convex models lift a sliding ball by h μ v, which reduces the normal force for a while
    assert state.velocity[0, 0] == pytest.approx(5 / 7, abs=1e-9 if model is coulomb.solve else 2e-3)
    assert state.velocity[0, 0] == pytest.approx(0.05 * state.velocity[0, 4], abs=1e-5)
    assert onset == pytest.approx(2 / 7 / (0.3 * G), abs=3e-3)


@pytest.mark.parametrize("model", EVERY)
def test_balls_that_meet_go_on_together_with_their_momentum(model: ContactModel) -> None:
    plant = FreeBodies([ball("one"), solid("two", coal.Sphere(0.05), 3000.0)], dense(model), gravity=(0.0, 0.0, 0.0))
    plant.reset(moving([[0.0, 0, 0], [0.2, 0, 0]], [[1.0, 0, 0, 0, 0, 0], [-1.0, 0, 0, 0, 0, 0]]))
    for _ in range(100):
        state = plant.step(1e-3)
    # one fourth of the mass at 1 m/s, three fourths at -1 m/s; SAP's contact is a spring that gives a little back
    assert state.velocity[:, 0] == pytest.approx([-0.5, -0.5], abs=1e-9 if model is not sap.solve else 0.1)


@pytest.mark.parametrize("model", one_fast(EVERY, dissipation.solve))
def test_collisions_in_free_space_keep_both_momenta_and_lose_energy(model: ContactModel) -> None:
    """Forces between two boxes are equal and opposite and act at one point, at any orientation."""
    rng = np.random.default_rng(0)
    bodies = [cube(f"cube{i}") if i % 2 else ball(f"ball{i}") for i in range(4)]
    plant = FreeBodies(bodies, dense(model), gravity=(0.0, 0.0, 0.0))
    place = 0.13 * np.array([[i, j, 0.0] for i in range(2) for j in range(2)]) - [0.065, 0.065, 0.0]
    towards = np.hstack([-4.0 * place, rng.normal(size=(4, 3))])
    state = plant.reset(moving(place.tolist(), towards.tolist()))
    before, energy, touched = momentum(plant.inertias, state), kinetic_energy(plant.inertias, state), 0
    first = energy
    for _ in range(30):
        state = plant.step(5e-3)
        now = kinetic_energy(plant.inertias, state)
        touched += plant.contact_forces().force.any()
        # re-expressing the angular velocity may add energy of order h; contact takes much more
        assert now <= energy * (1.0 + 5e-3)
        energy = now
    after = momentum(plant.inertias, state)
    assert touched > 0
    assert energy < 0.8 * first
    assert after[0] == pytest.approx(before[0], abs=1e-12)
    # each impulse acts at the contact point of the step's beginning: exact about any point
    assert after[1] == pytest.approx(before[1], abs=1e-12)


def test_a_ball_between_walls_comes_to_rest_on_both() -> None:
    """Two fixed slabs at 45 degrees form a V; each carries m g / √2."""
    half = np.pi / 8
    walls = [
        Obstacle(
            name=f"wall{side}",
            shape=coal.Box(2.0, 2.0, 0.1),
            position=0.05 * np.array([side * np.sin(-np.pi / 4), 0.0, -np.cos(np.pi / 4)]) * np.array([-1, 1, 1]),
            orientation=(0.0, -side * np.sin(half), 0.0, np.cos(half)),
            surface=Surface(mu=0.0),
        )
        for side in (1.0, -1.0)
    ]
    plant = FreeBodies([ball(mu=0.5)], dense(coulomb.solve), obstacles=walls)
    plant.reset(BodyState.at_rest(np.array([[0.0, 0.0, 0.2]])))
    for _ in range(500):
        state = plant.step(2e-3)
    forces = plant.contact_forces()
    assert len(forces.force) == 2
    assert np.linalg.norm(forces.force, axis=1) == pytest.approx(
        [plant.inertias.mass[0] * G / np.sqrt(2)] * 2, rel=1e-6
    )
    assert np.abs(state.velocity).max() < 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("model", EVERY)
def test_bodies_that_start_inside_each_other_part_slowly(model: ContactModel) -> None:
    plant = FreeBodies([cube("one"), cube("two"), ball("three")], dense(model), terrain=plane())
    plant.reset(BodyState.at_rest(np.array([[0.0, 0, 0.05], [0.03, 0.01, 0.07], [0.0, 0.02, 0.06]])))
    for _ in range(300):
        state = plant.step(0.01)
        assert np.abs(state.velocity[:, :3]).max() < 3.0
    assert plant.contacts is not None
    assert plant.contacts.gap.min(initial=0.0) > -2e-3
    assert np.isfinite(state.position).all()


@pytest.mark.parametrize("h", [0.0, -1e-3, np.nan, np.inf])
def test_a_step_that_is_none_is_refused(h: float) -> None:
    plant = FreeBodies([ball()], dense(coulomb.solve), terrain=plane())
    with pytest.raises(InputError, match="step must be positive"):
        plant.step(h)


@pytest.mark.parametrize("what", ["position", "orientation", "velocity"])
def test_a_state_that_is_not_finite_is_refused(what: str) -> None:
    plant = FreeBodies([ball("a"), ball("b")], dense(coulomb.solve))
    state = BodyState.at_rest(np.array([[0.0, 0, 0], [1.0, 0, 0]]))
    bad = getattr(state, what).copy()
    bad[1, 0] = np.nan
    with pytest.raises(InputError, match=f"the {what} of body 1 is not finite"):
        plant.reset(state._replace(**{what: bad}))


def test_other_input_that_cannot_be_is_refused() -> None:
    plant = FreeBodies([ball()], dense(coulomb.solve))
    with pytest.raises(InputError, match="state of 1 bodies"):
        plant.reset(BodyState.at_rest(np.zeros((2, 3))))
    with pytest.raises(InputError, match="quaternion is zero"):
        plant.reset(BodyState.at_rest(np.zeros((1, 3)), np.zeros((1, 4))))
    for wrench in (np.full((1, 6), np.nan), np.zeros((2, 6)), np.zeros(6)):
        with pytest.raises(InputError, match="forces on bodies"):
            plant.step(1e-3, wrench)
    with pytest.raises(InputError, match="gravity"):
        FreeBodies([ball()], dense(coulomb.solve), gravity=(0.0, 0.0, np.nan))


@pytest.mark.parametrize(
    "model", [dense(coulomb.solve), pytest.param(sap.Sparse(sap.Parameters()), marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("force", [1e30, 1e155, 1e300])
def test_a_force_that_no_body_survives_is_named_before_numbers_overflow(model: Any, force: float) -> None:
    plant = FreeBodies([ball("calm"), ball("struck")], model, terrain=plane())
    plant.reset(BodyState.at_rest(np.array([[0.0, 0, 0.05], [1.0, 0, 0.05]])))
    wrench = np.zeros((2, 6))
    wrench[1, 4] = force
    with pytest.raises(InputError, match="body 'struck' would move at"):
        plant.step(1e-3, wrench)
    for _ in range(20):  # it continues
        plant.step(1e-3)
    assert plant.contact_forces().force[:, 2] == pytest.approx(plant.inertias.mass * G, rel=1e-3)


@pytest.mark.slow
def test_a_model_that_returns_no_number_is_detected() -> None:
    def broken(problem: SparseProblem, contacts: BodyContacts) -> SparseSolution:
        return replace(sap.solve_sparse(problem), v_plus=np.full_like(problem.v, np.nan))

    plant = FreeBodies([ball()], broken, terrain=plane())
    with pytest.raises(InputError, match="body 'ball' would move at nan"):
        plant.step(1e-3)


@pytest.mark.slow
def test_ten_thousand_contacts_are_solved_and_carry_the_weight() -> None:
    """A step of 2500 cubes side by side takes less than a second."""
    cubes = FreeBodies([cube(f"cube{i}") for i in range(2500)], lambda p, c: sap.solve_sparse(p), terrain=plane())
    place = np.array([[0.15 * (i % 50), 0.15 * (i // 50), 0.05] for i in range(2500)])
    cubes.reset(BodyState.at_rest(place))
    for _ in range(10):
        cubes.step(0.01)
    assert cubes.contacts is not None
    assert cubes.last is not None
    assert len(cubes.contacts) == 10_000
    assert cubes.last.status is Status.SOLVED
    assert cubes.contact_forces().force[:, 2].sum() == pytest.approx(2500 * G, rel=1e-4)  # still settling


@pytest.mark.slow
def test_a_problem_has_the_impulses_of_the_last_step() -> None:
    """One cube rests on the ground and another lands on it; without contact there is no impulse."""
    problems: list[SparseProblem] = []

    def solve(problem: SparseProblem, contacts: BodyContacts) -> SparseSolution:
        problems.append(problem)
        return sap.solve_sparse(problem)

    plant = FreeBodies([cube("below"), cube("above")], solve, terrain=plane())
    plant.reset(BodyState.at_rest(np.array([[0.0, 0.0, 0.05], [0.0, 0.0, 0.16]])))
    known: dict[int, Array] = {}
    for step in range(12):
        plant.step(0.01)
        contacts, last, carried = plant.contacts, plant.last, problems[-1].impulses
        assert contacts is not None
        assert last is not None
        if step == 0:
            assert carried is None
        else:
            assert carried is not None
            for i, identity in enumerate(contacts.identity):
                np.testing.assert_array_equal(carried[i], known.get(int(identity), np.zeros(3)))
        known = {int(identity): last.impulses[i] for i, identity in enumerate(contacts.identity)}
    assert len(known) == 8
    plant.reset(plant.state)
    plant.step(0.01)
    assert problems[-1].impulses is None


@pytest.mark.slow
def test_a_step_of_sap_in_one_call_is_the_step_by_parts() -> None:
    """Bodies that fall onto each other have bit-equal states, contacts, problems, solutions and forces."""
    parameters = sap.Parameters(tolerance=1e-6)

    def by_parts(problem: SparseProblem, contacts: BodyContacts) -> SparseSolution:
        return sap.Sparse(parameters)(problem, contacts)

    scene = [ball("ball"), cube("cube"), cube("other")]
    start = BodyState.at_rest(np.array([[0.01, 0.0, 0.3], [0.0, 0.0, 0.06], [0.06, 0.02, 0.18]]))
    one, other = (FreeBodies(scene, model, terrain=plane()) for model in (sap.Sparse(parameters), by_parts))
    wrench = np.tile([0.1, 0.0, 0.0, 0.0, 0.0, 0.01], (3, 1))
    for plant in (one, other):
        plant.reset(start)
        assert plant.contacts is None
        assert plant.contact_forces().force.shape == (0, 3)
    pushes = 0
    for step in range(60):
        for a, b in zip(*(plant.step(0.01, wrench if step % 2 else None) for plant in (one, other)), strict=True):
            np.testing.assert_array_equal(a, b)
        pushes += len(one.contact_forces().force)
        np.testing.assert_array_equal(one.contact_forces().force, other.contact_forces().force)
        for name in ("identity", "body", "point", "gap", "mu", "rows"):
            np.testing.assert_array_equal(getattr(one.contacts, name), getattr(other.contacts, name))
        for name in ("M", "v", "v_star", "tree", "stiffness", "damping"):
            np.testing.assert_array_equal(getattr(one.problem, name), getattr(other.problem, name))
        for name in ("v_plus", "impulses", "contact_velocity", "status", "residual", "iterations", "islands"):
            np.testing.assert_array_equal(getattr(one.last, name), getattr(other.last, name))
    assert pushes > 200


@pytest.mark.slow
def test_shapes_without_closed_form_are_stepped_with_sap_by_parts() -> None:
    stick = solid("stick", coal.Capsule(0.05, 0.2), 1000.0, Surface(mu=0.5))
    plant = FreeBodies([stick], sap.Sparse(sap.Parameters()), terrain=plane())
    plant.reset(BodyState.at_rest(np.array([[0.0, 0.0, 0.15]])))
    for _ in range(20):
        plant.step(1e-3)
    assert plant.contact_forces().force[:, 2].sum() == pytest.approx(plant.inertias.mass[0] * G, rel=1e-3)
