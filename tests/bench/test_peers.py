"""Peers solve the same problems as this library; otherwise timing rows would compare different work."""

import numpy as np
import pytest

from idcontrol.bench.peers import QP_PEERS, StageOne, installed
from idcontrol.bench.plants import ENGINES, SAME_JOINTS, step
from idcontrol.bench.problems.walks import problems
from idcontrol.bench.timing import answers
from idcontrol.models import dissipation
from idcontrol.models.whitened import whiten
from tests.bench.problems.short_walks import heap, solo12


@pytest.fixture(scope="module")
def steps():
    return problems(solo12(), 4)[:6]


@pytest.mark.parametrize("peer", QP_PEERS, ids=lambda peer: peer.name)
def test_general_solvers_find_the_motion_of_stage_one(peer, steps):
    if not installed(*peer.packages):
        pytest.skip(f"needs {peer.packages}")
    whitened = [whiten(each.problem) for each in steps]
    mu = steps[0].problem.contacts.mu
    results = answers(peer.make([StageOne.of(each.rho, each.c, mu) for each in whitened]), len(steps))
    for each, reduction, impulses in zip(steps, whitened, results, strict=True):
        ours = dissipation.solve(each.problem).impulses.T.ravel()
        speed = reduction.rho @ (reduction.rho.T @ (impulses - ours))
        assert np.abs(speed).max() < 1e-5  # m/s; their matrices are regularized


def test_stage_one_for_peers_has_the_same_optimum(steps):
    each = steps[0]
    reduction, contacts = whiten(each.problem), each.problem.contacts
    stage = StageOne.of(reduction.rho, reduction.c, contacts.mu)
    f = dissipation.solve(each.problem).impulses.T.ravel() / stage.scale
    N, S, T = f.reshape(3, -1)
    x = np.concatenate((N, np.maximum(S, 0), np.maximum(-S, 0), np.maximum(T, 0), np.maximum(-T, 0)))
    assert stage.impulses(x) == pytest.approx(f * stage.scale)
    assert (stage.C @ x).min() > -1e-9  # within the pyramids
    # first-order: no feasible direction, towards the apex or the edges of the pyramid, descends
    slope = stage.H @ x + stage.g
    assert slope @ x == pytest.approx(0.0, abs=1e-8)
    n = len(contacts)
    for edge in range(1, 5):
        for i in range(n):
            direction = np.zeros(5 * n)
            direction[i], direction[edge * n + i] = 1.0, contacts.mu[i]
            assert slope @ direction > -1e-8


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_take_the_same_step_as_our_plant(engine):
    walk = solo12()
    job = ENGINES[engine](walk)
    if job is None:
        pytest.skip("not installed")
    ours, theirs = answers(step(walk, "coulomb-lcp"), 40), answers(job, 40)
    off = [np.abs(a - b).max() for a, b in zip(ours, theirs, strict=True)]
    assert np.median(off) < SAME_JOINTS


def test_a_heap_in_drake_falls_as_ours_does():
    pytest.importorskip("pydrake")
    from idcontrol.bench import drake

    scene = heap(8)
    states = [scene.plant.reset(scene.start)]
    velocities = []
    for _ in range(10):
        states.append(scene.plant.step(scene.period_s))
        velocities.append(states[-1].velocity)
    theirs = answers(drake.heap(scene, states), 10)
    for results, ours in zip(theirs[:3], velocities, strict=False):
        # before the first touch, velocities differ only by the order of integration within a step
        assert results[:, :3] == pytest.approx(ours[:, :3], abs=1e-6)
    assert scene.round.any()
    assert not scene.round.all()
