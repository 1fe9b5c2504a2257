"""States and references of every shape, type and value: no controller raises, or answers with a NaN."""

import copy
import pickle
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numba
import numpy as np
import pytest
from msgspec import structs

from idcontrol import controllers
from idcontrol.contact.spheres import SphereContacts
from idcontrol.controllers import schemes
from idcontrol.controllers.inputs import Intake
from idcontrol.controllers.step import control_bound
from idcontrol.dynamics.system import LARGEST
from idcontrol.types import ContactForces, Status
from tests import GUARD_S, scenes
from tests.controllers import walker
from tests.controllers.test_step import controller
from tests.parameters import one_fast

ALL = tuple(controllers.available())
STATE, REFERENCE = ("q", "v"), ("q", "v", "a", "stance", "since_touchdown", "to_liftoff")
FIELDS = [("state", name) for name in STATE] + [("reference", name) for name in REFERENCE]


class Unreadable:
    """An object that raises when it is read as an array."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("not today")


def replaced(state, reference, where, name, value):
    """State and reference with one field replaced."""
    if where == "state":
        return structs.replace(state, **{name: value}), reference
    return state, structs.replace(reference, **{name: value})


class Liar(np.ndarray):
    """An array subclass that pretends to be plain."""

    @property
    def dtype(self):
        return np.dtype(np.float64)

    @property
    def strides(self):
        return (8,)


def at_home():
    return walker.at_home(scenes.links()), walker.stand()


def value_of(state, reference, where, name):
    return getattr(state if where == "state" else reference, name)


MISFITS = {
    "nothing": lambda x: None,
    "a number": lambda x: 1.0,
    "a word": lambda x: "q",
    "too short": lambda x: x[:-1].copy(),
    "one entry": lambda x: x[:1].copy(),
    "empty": lambda x: x[:0].copy(),
    "too long": lambda x: np.concatenate((x, x)),
    "two axes": lambda x: np.repeat(x[None], x.size, axis=0),
    "a column": lambda x: x[:, None].copy(),
    "complex": lambda x: x + 1j,
    "objects": lambda x: x.astype(object),
    "unreadable": lambda x: Unreadable(),
    "masked": lambda x: np.ma.masked_array(x, mask=np.arange(x.size) == 1),
    "ragged": lambda x: [[1.0], [1.0, 2.0]],
}


@pytest.mark.covering
@pytest.mark.parametrize(("where", "name"), FIELDS)
@pytest.mark.parametrize("misfit", MISFITS)
def test_misshapen_inputs_are_refused_by_name(where, name, misfit):
    state, reference = at_home()
    bad = MISFITS[misfit](value_of(state, reference, where, name))
    intake = Intake(scenes.links())
    assert intake.take(state, reference) == ""  # four feet are known from now on
    reason = intake.take(*replaced(state, reference, where, name, bad))
    if name in REFERENCE[3:] and misfit in ("too short", "one entry", "empty", "too long"):
        assert "entries" in reason  # one field with a different number of feet makes the others wrong
        assert "reference." in reason
    else:
        assert f"{where}.{name}" in reason or misfit in ("unreadable", "ragged")
        assert reason


def test_an_error_that_cannot_be_printed_is_no_error_of_the_controller():
    class Silent(Exception):
        def __str__(self):
            raise RuntimeError

    class Unreadable:
        def __array__(self, *_, **__):
            raise Silent

    state, reference = at_home()
    command = walker.controller("pid")(structs.replace(state, q=Unreadable()), reference)
    assert command.status is Status.FAILED
    assert "Silent" in command.dropped[0]


@pytest.mark.parametrize(("where", "name"), FIELDS)
@pytest.mark.parametrize("value", [np.nan, np.inf, 2.0 * LARGEST])
def test_values_that_are_not_numbers_are_refused_by_name(where, name, value):
    state, reference = at_home()
    bad = value_of(state, reference, where, name).astype(np.float64)
    bad[-1] = value
    reason = Intake(scenes.links()).take(*replaced(state, reference, where, name, bad))
    if name in REFERENCE[3:] and not np.isnan(value):
        assert reason == ""  # whatever is not 0 is planned to stand; times may be infinite
    else:
        assert f"{where}.{name}" in reason


@pytest.mark.parametrize("length", [0.0, 0.5, 0.9, 1.01, 2.0])
def test_a_quaternion_that_is_not_of_unit_length_is_refused(length):
    state, reference = at_home()
    q = state.q.copy()
    q[3:7] *= length
    reason = Intake(scenes.links()).take(structs.replace(state, q=q), reference)
    assert f"state.q[3:7] is a quaternion of length {length:.3g}" in reason


@pytest.mark.covering
@pytest.mark.parametrize("name", ["pid", "id-sensed-1", "id-coulomb-qp"])
@pytest.mark.parametrize(
    "kind", ["list", "read-only", "strided", "backward", "lying", "single precision", "big-endian", "pickled"]
)
def test_arrays_of_any_kind_give_the_torque_of_plain_ones(name, kind):
    """Values that are exact in single precision, so the torque is equal to the bit."""

    def build(x):
        if kind == "backward":
            return x[::-1].copy()[::-1]
        if kind == "pickled":
            return pickle.loads(pickle.dumps(x))
        if x.dtype == bool:
            return x.tolist() if kind == "list" else np.repeat(x, 2)[::2]
        if kind == "list":
            return x.tolist()
        if kind == "strided":
            return np.repeat(x, 2)[::2]
        if kind == "lying":
            return np.repeat(x, 2)[::2].view(Liar)
        if kind == "single precision":
            return x.astype(np.float32)
        if kind == "big-endian":
            return x.astype(">f8")
        return np.frombuffer(x.tobytes())

    def single(x):
        return x if x.dtype == bool else x.astype(np.float32).astype(np.float64)

    state, reference = at_home()
    state = structs.replace(state, **{key: single(getattr(state, key)) for key in STATE})
    reference = structs.replace(reference, **{key: single(getattr(reference, key)) for key in REFERENCE})
    plain = walker.controller(name)(state, reference)
    other = walker.controller(name)(
        structs.replace(state, **{key: build(getattr(state, key)) for key in STATE}),
        structs.replace(reference, **{key: build(getattr(reference, key)) for key in REFERENCE}),
    )
    assert plain.status is other.status is Status.SOLVED
    np.testing.assert_array_equal(other.tau, plain.tau)


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_no_kind_of_array_compiles_anything_after_construction():
    control = controller(schemes.COULOMB_QP)
    state, reference = at_home()
    control(state, reference)
    before = len(control_bound.signatures)
    for change in (np.float32, ">f8", np.float16):
        control(structs.replace(state, q=state.q.astype(change)), reference)
    frozen = state.v.copy()
    frozen.flags.writeable = False
    control(structs.replace(state, v=frozen[::-1][::-1]), reference)
    assert len(control_bound.signatures) == before == 1


class Spoiled(SphereContacts):
    """A detector whose contacts are spoiled by `spoil`."""

    spoil = staticmethod(lambda candidates: candidates)

    def detect(self, margin):
        return self.spoil(super().detect(margin).take(np.arange(4)))


def spoiled(field, value):
    def spoil(candidates):
        getattr(candidates, field)[0] = value
        return candidates

    return type("Spoiling", (Spoiled,), {"spoil": staticmethod(spoil)})


def raises(candidates):
    raise RuntimeError("no camera")


@pytest.mark.parametrize(
    "scheme",
    one_fast((schemes.COULOMB_QP, schemes.NO_SLIP_LCP, schemes.COULOMB_LCP, schemes.SPRINGS), schemes.COULOMB_QP),
)
@pytest.mark.parametrize(
    "detector",
    [
        spoiled("mu", -1.0),
        spoiled("mu", np.nan),
        spoiled("axes", np.nan),
        spoiled("axes", 1e300),
        type("Between", (Spoiled,), {"spoil": staticmethod(lambda c: replace(c, identity=c.identity + 0.5))}),
        type("Nothing", (Spoiled,), {"spoil": staticmethod(lambda candidates: None)}),
        type("Raising", (Spoiled,), {"spoil": staticmethod(raises)}),
    ],
    ids=["negative friction", "NaN friction", "NaN axes", "long axes", "identity between two", "nothing", "raises"],
)
def test_impossible_contacts_are_refused(scheme, detector):
    command = controller(scheme, detector=detector)(*at_home())
    assert command.status is Status.FAILED
    assert not command.tau.any()
    assert "contacts" in command.dropped[0]


def test_a_step_that_raises_reports_the_error_and_its_location():
    detector = type("Raising", (Spoiled,), {"spoil": staticmethod(raises)})
    (reason,) = controller(schemes.COULOMB_QP, detector=detector)(*at_home()).dropped
    line = raises.__code__.co_firstlineno + 1
    assert reason == f"contacts or step raised RuntimeError in raises (test_inputs.py:{line}): no camera"


def test_a_reference_of_another_number_of_feet_is_no_misfit():
    """Contacts of four feet are refused for a reference with two feet; with six feet, two have no contact."""
    control = controller(schemes.COULOMB_QP)
    state, _ = at_home()
    assert control(state, walker.stand(feet=2)).status is Status.FAILED
    assert control(state, walker.stand(feet=6)).status is Status.SOLVED
    assert control(state, walker.stand(feet=4)).status is Status.SOLVED


@pytest.mark.parametrize("feet", [5, 40])
def test_feet_without_contact_change_no_torque(feet):
    """Feet beyond the robot's four have no contact; the controller remembers only one step."""
    control, plain, (state, stand) = controller(schemes.COULOMB_QP), controller(schemes.COULOMB_QP), at_home()
    for reference in (walker.stand(feet=feet), stand, walker.stand(feet=feet)):
        np.testing.assert_array_equal(control(state, reference).tau, plain(state, stand).tau)


@pytest.mark.parametrize(
    "forces",
    [
        ContactForces(identity=np.array([0, 4]), force=np.zeros((2, 3)), normal=np.zeros((2, 3))),
        ContactForces(identity=np.array([-1]), force=np.zeros((1, 3)), normal=np.zeros((1, 3))),
        ContactForces(identity=np.array([0]), force=np.full((1, 3), np.nan), normal=np.zeros((1, 3))),
        ContactForces(identity=np.array([0, 1]), force=np.zeros((1, 3)), normal=np.zeros((1, 3))),
        ContactForces(identity=np.array([0.0]), force=np.zeros((1, 3)), normal=np.zeros((1, 3))),
        ContactForces(identity=np.array([[0]]), force=np.zeros((1, 3)), normal=np.zeros((1, 3))),
        ContactForces(identity=np.array([0]), force=np.full((1, 3), 1e300), normal=np.zeros((1, 3))),
        ContactForces(identity=np.array([0]), force=np.zeros((1, 3), dtype=complex), normal=np.zeros((1, 3))),
        ContactForces(identity=np.array([0]), force=np.ma.masked_less(np.zeros((1, 3)), 1.0), normal=np.zeros((1, 3))),
        "forces",
    ],
)
def test_impossible_sensed_forces_are_refused_and_forgotten(forces):
    control, fresh = walker.controller("id-sensed-2"), walker.controller("id-sensed-2")
    state, reference = at_home()
    command = control(structs.replace(state, forces=forces), reference)
    assert command.status is Status.FAILED
    assert "state.forces" in command.dropped[0]
    np.testing.assert_array_equal(control(state, reference).tau, fresh(state, reference).tau)


def test_sensed_forces_are_copied():
    """A driver reuses its buffer, and a plan changes its number of feet, between two calls."""
    control, other = walker.controller("id-sensed-2"), walker.controller("id-sensed-2")
    state, reference = at_home()
    force = np.ones((1, 3))
    sensed = ContactForces(identity=np.array([3]), force=force, normal=np.zeros((1, 3)))
    for one, later in ((control, np.nan), (other, 1.0)):
        force[:] = 1.0
        one(structs.replace(state, forces=sensed), reference)
        force[:] = later
    np.testing.assert_array_equal(control(state, reference).tau, other(state, reference).tau)
    for feet in (6, 2):
        assert control(structs.replace(state, forces=None), walker.stand(feet=feet)).status <= Status.REPAIRED


def drawn(rng, size, kind):
    """A value for a field of this size: of a wrong shape, or numbers from the smallest to the largest."""
    x = rng.normal(size=size)
    if rng.random() < 0.3:
        return MISFITS[rng.choice(list(MISFITS))](x)
    scale = 10.0 ** rng.uniform(-320.0, 10.0) if rng.random() < 0.7 else 10.0 ** rng.uniform(300.0, 307.0)
    x = scale * x
    if rng.random() < 0.2:
        x[rng.integers(size)] = rng.choice([np.nan, np.inf, -np.inf, 0.0])
    return x > 0.0 if kind == "stance" and rng.random() < 0.8 else x


def attack(name, calls):
    """Call with one or several random fields replaced; return the number of calls with each status."""
    rng = np.random.default_rng(calls)
    counts = dict.fromkeys(Status, 0)
    control = walker.controller(name, limit=50.0)
    state, reference = at_home()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(calls):
            passed = structs.replace(state, v=rng.normal(size=18) * 10.0 ** rng.uniform(-6, 3)), reference
            for where, field in FIELDS:
                if rng.random() < 0.12:
                    size = value_of(state, reference, where, field).size
                    passed = replaced(*passed, where, field, drawn(rng, size, field))
            command = control(*passed)
            assert command.tau.shape == (12,)
            assert np.isfinite(command.tau).all()
            assert (np.abs(command.tau) <= 50.0).all()
            if command.status is Status.FAILED:
                assert command.dropped
                assert not command.tau.any()
            counts[command.status] += 1
    return counts


@pytest.mark.parametrize("name", ALL)
def test_no_state_or_reference_makes_a_controller_raise_or_answer_with_a_nan(name):
    counts = attack(name, 150)
    assert counts[Status.FAILED] > 10
    assert sum(counts.values()) - counts[Status.FAILED] > 20


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_ten_thousand_attacks_on_each_controller(name):
    counts = attack(name, 10_000)
    print(name, {status.name: count for status, count in counts.items()})
    assert sum(counts.values()) == 10_000


@pytest.mark.covering
@pytest.mark.parametrize("name", ["pid", "id-sensed-1", "id-coulomb-smooth"])
@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_remembers_the_last_step_and_is_independent(name, copied):
    rng = np.random.default_rng(4)
    states = [structs.replace(at_home()[0], t=k * scenes.H, v=0.01 * rng.normal(size=18)) for k in range(6)]
    first, reference = walker.controller(name), at_home()[1]
    for state in states[:3]:
        first(state, reference)
    second = copied(first)
    ahead = [second(state, reference).tau for state in states[3:]]
    np.testing.assert_array_equal([first(state, reference).tau for state in states[3:]], ahead)
    if name == "id-coulomb-smooth":  # it learns from what was predicted for the last step
        assert first.load.any()
        np.testing.assert_array_equal(second.load, first.load)


def test_a_controller_refuses_a_call_from_a_second_thread():
    """One thread waits within the step, in the detector, while the other calls."""
    inside, done = threading.Event(), threading.Event()

    class Slow(SphereContacts):
        def detect(self, margin):
            inside.set()
            done.wait(GUARD_S)
            return super().detect(margin)

    control = controller(schemes.COULOMB_QP, detector=Slow)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(control, *at_home())
        assert inside.wait(GUARD_S)
        second = control(*at_home())
        done.set()
        assert first.result().status is Status.SOLVED
    assert second.status is Status.FAILED
    assert "two threads" in second.dropped[0]
    assert control(*at_home()).status is Status.SOLVED
