"""Many controllers in one call give the same results as single controllers."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from idcontrol import controllers, robots, tasks
from idcontrol.batch import Commands, Controllers, References
from idcontrol.controllers import Gains, InverseSettings, Setup
from idcontrol.dynamics.system import System
from idcontrol.errors import InputError
from idcontrol.types import State, Status
from tests.parameters import one_fast

ROBOT = robots.load("solo12")
N, STEPS, H = 12, 6, 1e-3
MU = np.linspace(0.05, 1.0, N)


def demands(seed: int = 0) -> list[tuple[float, np.ndarray, np.ndarray, References]]:
    """Return times, states and references of a few steps; later rows move faster, so some steps relax a demand."""
    rng = np.random.default_rng(seed)
    start, home = ROBOT.standing_state(), ROBOT.standing_reference().q
    wild = np.geomspace(1e-3, 2.0, N)[:, None]
    results = []
    for step in range(STEPS):
        q = np.tile(start.q, (N, 1))
        q[:, 7:] += 0.05 * wild * rng.normal(size=(N, 12))
        v = wild * rng.normal(size=(N, 18))
        references = References.standing(home + 0.1 * wild * rng.normal(size=(N, 12)), 4)
        references.stance[::3, 1] = False
        references.since_touchdown[::4, 2] = 0.003 + step * H
        references.to_liftoff[::5, 3] = 0.004
        results.append((step * H, q, v, references))
    return results


def stepped(batch: Controllers, inputs: list[tuple[float, np.ndarray, np.ndarray, References]]) -> list[Commands]:
    return [batch(*each) for each in inputs]


def require_same(ours: list[Commands], theirs: list[Commands], rows: np.ndarray) -> None:
    for a, b in zip(ours, theirs, strict=True):
        assert all((x[rows] == y[rows]).all() for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize(
    "name", one_fast(("id-coulomb-qp", "id-noslip-lcp", "id-coulomb-lcp", "filter"), "id-coulomb-qp", "id-noslip-lcp")
)
def test_a_row_equals_a_single_controller_bit_for_bit(name):
    batch, inputs = Controllers(name, ROBOT, N, mu=MU), demands()
    ours = stepped(batch, inputs)
    statuses = set()
    for i in range(N):
        single = batch.single(MU[i])
        for (t, q, v, references), command in zip(inputs, ours, strict=True):
            alone = single(State(t=t, q=q[i], v=v[i]), references.row(i))
            assert (command.tau[i] == alone.tau).all()
            assert (command.status[i], command.residual[i], command.clipped[i]) == (
                alone.status,
                alone.residual,
                alone.clipped,
            )
            force = np.zeros((4, 3))
            force[alone.predicted.identity] = alone.predicted.force
            assert (command.force[i] == force).all()
            statuses.add(alone.status)
    assert {Status.SOLVED, Status.REPAIRED} <= statuses  # some relaxed a demand


def test_a_row_on_soles_with_tasks_equals_a_single_controller_bit_for_bit():
    robot, n = robots.load("g1"), 3
    start, rng = robot.standing_state(), np.random.default_rng(0)
    com = tasks.CoM(kp=100)
    com.set(robot.system().com(start.q), acceleration=[0.1, 0.2, 0.0])
    batch = Controllers("id-coulomb-qp", robot, n, mu=0.6, threads=2, tasks=[com, tasks.Posture(kp=30, weight=1e-2)])
    references = References.standing(np.tile(robot.standing_reference().q, (n, 1)), 2)
    references.stance[1, 0] = False
    singles = [batch.single(0.6) for _ in range(n)]
    for step in range(2):
        q, v = np.tile(start.q, (n, 1)), 0.02 * rng.normal(size=(n, start.v.size))
        v[2, 3] = np.nan if step == 1 else 0.0
        before = com.error
        ours = batch(step * H, q, v, references)
        assert (com.error == before).all()  # threads must not share the arrays of the tasks' errors
        for i in range(n):
            alone = singles[i](State(t=step * H, q=q[i], v=v[i]), references.row(i))
            assert ours.status[i] == alone.status
            assert (ours.tau[i] == alone.tau).all()
    assert ours.status[2] == Status.FAILED


def gains(inputs: tuple[np.ndarray, np.ndarray]) -> Gains:
    return Gains(kp=inputs[0], kd=inputs[1])


def test_torques_agree_with_pinocchio_terms_to_rounding():
    batch, inputs = Controllers("id-coulomb-qp", ROBOT, N, mu=MU), demands()
    ours = stepped(batch, inputs)
    compiled = ROBOT.system()
    names = compiled.actuated_names
    for i in range(3):  # slow rows, in which no decision depends on the last digit
        system = System(compiled.model, actuated=names, effort_limit=compiled.effort_limit, limits=compiled.limits)
        setup = Setup(
            system=system,
            contacts=ROBOT.contacts(float(MU[i]), system=system),
            h=H,
            acceleration_gains=gains(ROBOT.acceleration_gains()),
            torque_gains=gains(ROBOT.torque_gains(names)),
        )
        single = controllers.build("id-coulomb-qp", setup)
        for (t, q, v, references), command in zip(inputs, ours, strict=True):
            alone = single(State(t=t, q=q[i], v=v[i]), references.row(i))
            # terms agree to 1e-14, and the condition of contact problems is about 1e4
            assert command.tau[i] == pytest.approx(alone.tau, rel=0, abs=1e-9)


def test_a_nan_row_gets_no_torque_and_does_not_affect_others():
    whole = stepped(Controllers("id-coulomb-qp", ROBOT, N, mu=MU), demands())
    inputs = demands()
    for _, q, v, references in inputs:
        q[2, 9] = np.nan
        v[5, 0] = np.inf
        references.q[7, 3] = np.nan
    harmed = stepped(Controllers("id-coulomb-qp", ROBOT, N, mu=MU), inputs)
    bad = np.isin(np.arange(N), (2, 5, 7))
    assert all((command.status[bad] == Status.FAILED).all() for command in harmed)
    assert all((command.tau[bad] == 0.0).all() for command in harmed)
    require_same(harmed, whole, ~bad)


@pytest.mark.covering
@pytest.mark.parametrize("mu", [[0.1, 0.3, 0.6, 1.0], [np.inf]], ids=["finite", "infinite"])
@pytest.mark.parametrize("robot", ["go1", "links"])
@pytest.mark.parametrize("name", ["id-noslip-lcp", "id-noslip-qp", "id-coulomb-qp", "id-coulomb-lcp"])
def test_no_row_is_stepped_in_python(name, robot, mu, monkeypatch):
    """Random demands, a fifth of which have no motion without slip within the limits.

    With infinite friction, some have no consistent set of sticking contacts.
    """
    robot, n, rng = robots.load(robot), 200, np.random.default_rng(0)
    wild = np.geomspace(1e-3, 2.0, n)[:, None]
    batch = Controllers(name, robot, n, mu=np.resize(mu, n))
    monkeypatch.setattr(batch, "_step_in_python", lambda *_: pytest.fail("a row is stepped in Python"))
    q, home = np.tile(robot.standing_state().q, (n, 1)), robot.standing_reference().q
    q[:, 2] -= 0.004 * rng.random(n)
    q[:, 7:] += 0.05 * wild * rng.normal(size=(n, 12))
    references = References.standing(home + 0.1 * wild * rng.normal(size=(n, 12)), 4)
    commands = batch(0.0, q, wild * rng.normal(size=(n, 18)), references)
    assert (commands.status <= Status.REPAIRED).all()


@pytest.mark.parametrize("threads", [2, 5, 40])
def test_the_number_of_threads_changes_nothing(threads):
    inputs, every = demands(), np.arange(N)
    one = stepped(Controllers("id-coulomb-qp", ROBOT, N, mu=MU, threads=1), inputs)
    require_same(stepped(Controllers("id-coulomb-qp", ROBOT, N, mu=MU, threads=threads), inputs), one, every)


def test_reset_forgets_only_the_chosen_rows():
    inputs, chosen = demands(), np.arange(N) % 2 == 0
    batch, fresh, kept = (Controllers("id-coulomb-qp", ROBOT, N, mu=MU) for _ in range(3))
    stepped(batch, inputs[:3])
    stepped(kept, inputs[:3])
    batch.reset(chosen)
    ours, new, old = batch(*inputs[3]), fresh(*inputs[3]), kept(*inputs[3])
    require_same([ours], [new], chosen)
    require_same([ours], [old], ~chosen)
    assert (new.tau != old.tau).any()
    batch.reset()
    require_same([batch(*inputs[3])], [new], np.arange(N))


@pytest.mark.parametrize("which", [np.arange(N) % 2, np.ones(N - 1, dtype=bool), [True], 1.0 * (np.arange(N) < 2)])
def test_rows_to_reset_are_booleans(which):
    batch = Controllers("id-coulomb-qp", ROBOT, N, mu=MU)
    with pytest.raises(InputError, match=f"^reset needs {N} booleans, one for each robot$"):
        batch.reset(which)


@pytest.mark.parametrize("field", ["t", "q", "v", "references.q", "references.stance", "references.to_liftoff"])
def test_an_array_of_another_shape_is_refused_by_name(field):
    t, q, v, references = demands()[0]
    changed = {"t": np.full(N, t), "q": q, "v": v}
    part = field.removeprefix("references.")
    if field in changed:
        changed[field] = changed[field][1:]
    else:
        references = references._replace(**{part: getattr(references, part)[:, 1:]})
    with pytest.raises(InputError, match=f"{field} has shape"):
        Controllers("id-coulomb-qp", ROBOT, N, mu=0.7)(**changed, references=references)


@pytest.mark.parametrize(
    ("name", "change", "line"),
    [
        ("pid", {}, "pid has no compiled step"),
        ("id-coulomb-qp", {"mu": np.nan}, "mu must be"),
        ("id-coulomb-qp", {"mu": np.ones(N + 1)}, "mu must be"),
        ("id-coulomb-qp", {"n": 0}, "give 1 or more"),
        ("id-coulomb-qp", {"threads": 0}, "threads is 0"),
        ("filter", {"mu": np.inf}, "finite friction"),
        ("filter", {"tasks": [tasks.CoM()]}, "has no tasks"),
    ],
)
def test_unusable_batches_are_refused(name, change, line):
    with pytest.raises(InputError, match=line):
        Controllers(**{"name": name, "robot": ROBOT, "n": N, "mu": 0.7, "threads": 1} | change)


def test_calls_from_two_threads_come_one_after_the_other():
    settings = InverseSettings(rate_limit_nm_s=None, learn_friction=False, learn_load=False)
    batch = Controllers("id-coulomb-qp", ROBOT, N, mu=MU, threads=1, settings=settings)
    calls = demands()[:2]
    alone = [command.tau for command in stepped(batch, calls)]
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda call: batch(*call).tau, calls * 200))
    for tau, expected in zip(results, alone * 200, strict=True):
        np.testing.assert_allclose(tau, expected, rtol=0, atol=1e-6)  # warm starts differ, by rounding
