"""Contact rows against Pinocchio and against motion itself; selection and assembly of contacts."""

import dataclasses
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idcontrol.contact.contacts import Contacts, concatenate, contact_rows
from idcontrol.dynamics.system import System
from idcontrol.errors import InputError
from idcontrol.types import Array, Integers

from .machines import LEGS, quadruped, random_axes, random_state


def constructed():
    """The fields that a contact is made from."""
    return [f for f in dataclasses.fields(Contacts) if f.init]


@pytest.fixture(scope="module")
def system() -> System:
    return quadruped()


def foot_contacts(system: System, rng: np.random.Generator) -> tuple[Integers, Integers, Array, Array]:
    """Supporting joints, frames, points near the feet and random axes."""
    frames = np.array([system.frame(f"{leg}_FOOT") for leg in LEGS])
    point = np.ascontiguousarray(system.frame_position[frames] + rng.uniform(-0.05, 0.05, (4, 3)))
    return system.frame_joint[frames], frames, point, random_axes(4, rng)


def rows(system: System, a: Integers, b: Integers, point: Array, axes: Array) -> Array:
    out = np.full((3 * len(a), system.n_velocities), np.nan)
    contact_rows(system.jacobian, system.support, a, b, point, axes, out)
    return out


def rows_reference(system: System, frame_a: Integers, frame_b: Integers | None, point: Array, axes: Array) -> Array:
    """math.md 2, second form: J_lin - skew(p - p_frame) J_ang of Pinocchio's frame Jacobians, A minus B."""

    def at(frame: int, p: Array) -> Array:
        J = pin.getFrameJacobian(system.model, system.data, int(frame), pin.LOCAL_WORLD_ALIGNED)
        return (J[:3] - pin.skew(p - system.data.oMf[int(frame)].translation) @ J[3:])[:, system.order]

    velocity = np.stack([at(f, p) for f, p in zip(frame_a, point, strict=True)])
    if frame_b is not None:
        velocity -= np.stack([at(f, p) for f, p in zip(frame_b, point, strict=True)])
    return np.einsum("nij,njk->ink", axes, velocity).reshape(-1, system.n_velocities)


def random_contacts(n: int, m: int, rng: np.random.Generator) -> Contacts:
    return Contacts(
        identity=np.arange(n),
        point=rng.normal(size=(n, 3)),
        axes=random_axes(n, rng),
        gap=rng.normal(size=n),
        mu=rng.uniform(size=n),
        jacobian=rng.normal(size=(3 * n, m)),
        surface_velocity=rng.normal(size=3 * n),
        stiffness=rng.uniform(size=n),
        damping=rng.uniform(size=n),
    )


def test_rows_equal_pinocchios_frame_jacobian(system: System) -> None:
    rng = np.random.default_rng(0)
    zero = np.zeros(4, dtype=np.int64)
    for _ in range(20):
        system.update(*random_state(system, rng))
        joint, frames, point, axes = foot_contacts(system, rng)
        expected = rows_reference(system, frames, None, point, axes)
        # both sum a few products of order 1: rounding only
        assert np.abs(rows(system, joint, zero, point, axes) - expected).max() < 2e-15 * 4


def test_rows_of_two_bodies_are_the_difference_at_one_point(system: System) -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        system.update(*random_state(system, rng))
        joint, frames, point, axes = foot_contacts(system, rng)
        other = np.array([system.frame("box"), system.frame("RH_FOOT"), system.frame("box"), system.frame("LF_FOOT")])
        got = rows(system, joint, system.frame_joint[other], point, axes)
        # the base columns, common to two feet, cancel exactly in the kernel and to rounding in the difference
        assert np.abs(got - rows_reference(system, frames, other, point, axes)).max() < 2e-14


def test_columns_that_move_both_bodies_are_exactly_zero(system: System) -> None:
    rng = np.random.default_rng(2)
    system.update(*random_state(system, rng))
    joint, _, point, axes = foot_contacts(system, rng)
    base = system.support[joint].all(axis=0)
    assert base.sum() == 6
    assert not rows(system, joint, joint[::-1].copy(), point, axes)[:, base].any()


@given(st.lists(st.booleans(), min_size=5, max_size=5))
def test_take_keeps_every_contact_whole(mask: list[bool]) -> None:
    contacts = random_contacts(5, 7, np.random.default_rng(4))
    kept = contacts.take(np.array(mask))
    for i, j in enumerate(np.flatnonzero(mask)):
        assert kept.identity[i] == contacts.identity[j]
        for name in ("point", "axes", "gap", "mu", "stiffness", "damping", "N", "S", "T"):
            assert np.array_equal(getattr(kept, name)[i], getattr(contacts, name)[j])
        assert np.array_equal(kept.surface_velocity[i :: len(kept)], contacts.surface_velocity[j::5])
    parts = concatenate([kept, contacts.take(~np.array(mask))])
    back = parts.take(np.argsort(parts.identity))
    for f in constructed():
        assert np.array_equal(getattr(back, f.name), getattr(contacts, f.name))


@pytest.mark.parametrize("kind", [np.float64, np.bool_, np.dtype("<U3")])
def test_identities_that_are_no_whole_numbers_are_refused(kind: Any) -> None:
    """Cut to whole numbers, 0.2 and 0.7 would be one contact."""
    good = random_contacts(2, 3, np.random.default_rng(0))
    with pytest.raises(InputError, match=r"identity has type .*; it must be whole numbers"):
        dataclasses.replace(good, identity=np.array([0.2, 0.7]).astype(kind))
    assert dataclasses.replace(good, identity=np.array([4, 7], dtype=np.uint8)).packed[0].tolist() == [4, 7]


def test_power_of_world_forces_is_the_power_of_impulses(system: System) -> None:
    """(J v)·f = Σ F·v_point h: fixes the axes, the order of the blocks and the unit at once."""
    rng = np.random.default_rng(6)
    q, v = random_state(system, rng)
    system.update(q, v)
    joint, frames, point, axes = foot_contacts(system, rng)
    zero = np.zeros(4, dtype=np.int64)
    J = rows(system, joint, zero, point, axes)
    contacts = Contacts(identity=np.arange(4), point=point, axes=axes, gap=np.zeros(4), mu=np.ones(4), jacobian=J)
    impulses, h = rng.normal(size=(4, 3)), 2e-3
    world = np.tile(np.eye(3), (4, 1, 1))
    point_velocity = (rows_reference(system, frames, None, point, world) @ system.from_pinocchio(v)).reshape(3, 4).T
    power = (contacts.force_world(impulses, h) * point_velocity).sum() * h
    assert power == pytest.approx(impulses.T.ravel() @ J @ system.from_pinocchio(v), rel=1e-12)


@pytest.mark.parametrize(
    ("name", "value"),
    [("point", np.zeros((3, 3))), ("mu", np.ones(1)), ("jacobian", np.zeros((5, 5))), ("jacobian", np.zeros(6))],
)
def test_shapes_that_do_not_fit_are_named(name: str, value: Array) -> None:
    contacts = random_contacts(2, 5, np.random.default_rng(7))
    fields = {f.name: getattr(contacts, f.name) for f in constructed()}
    with pytest.raises(InputError, match=f"contacts: {name} has") as caught:
        Contacts(**(fields | {name: value}))
    assert "\n" not in str(caught.value)
