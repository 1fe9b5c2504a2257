"""The suite of 001's Table 1: its problems are physical, its verdicts are checked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest

from idcontrol.errors import InputError
from idcontrol.experiments import piles
from idcontrol.experiments.lcp_suite import (
    TABLE_1,
    Config,
    LcpSuite,
    by_lemke,
    by_principal_pivoting,
    data_sets,
    inner_point,
    residual,
)
from idcontrol.experiments.piles import WORLD, random_pile
from idcontrol.models import acceleration
from idcontrol.models.acceleration import AccelerationProblem
from idcontrol.types import Status


@pytest.fixture
def pile():
    return random_pile(np.random.default_rng(0), 4, 12, 3)


def test_no_contact_of_a_pile_parts_and_only_those_told_to_slide(pile):
    passing = (pile.contacts.jacobian @ pile.v - pile.contacts.surface_velocity).reshape(3, -1)
    # velocities are about 1 m/s
    np.testing.assert_allclose(passing[0], 0.0, atol=1e-12)
    assert (np.hypot(*passing[1:]) > 0.05).sum() == 3
    assert (np.hypot(*passing[1:]) < 1e-12).sum() == 9
    slide = np.hypot(*passing[1:]) > 0.05
    assert (pile.pairs[slide, 1] == WORLD).all()


def test_every_body_of_a_pile_is_touched_and_its_inertia_is_one(pile):
    assert set(range(4)) <= set(pile.pairs[:, 0])
    for body in range(4):
        block = pile.M[6 * body : 6 * body + 6, 6 * body : 6 * body + 6]
        x, y, z = np.linalg.eigvalsh(block[3:, 3:])
        assert 0.0 < z < x + y
    np.testing.assert_array_equal(pile.M, pile.M.T)


def moved(pile, v, t):
    """Point and axes of each contact after the bodies have moved for t with constant velocities."""
    n = len(pile.contacts)
    turn = [pin.exp3(t * v[6 * b + 3 : 6 * b + 6]) for b in range(pile.position.shape[0])]
    position = pile.position + t * v.reshape(-1, 6)[:, :3]
    point, axes = np.empty((n, 3)), np.empty((n, 3, 3))
    for i, (a, b) in enumerate(pile.pairs):
        axes[i] = pile.contacts.axes[i] if b == WORLD else pile.contacts.axes[i] @ turn[b].T
        arm = pile.contacts.point[i] + pile.radius[i] * pile.contacts.axes[i, 0] - pile.position[a]
        point[i] = position[a] + turn[a] @ arm - pile.radius[i] * axes[i, 0]
    return point, axes, position


def test_drift_is_how_the_rows_change_along_the_motion(pile):
    """Central differences; also at a velocity that contacts would not allow, where every term counts."""
    rng = np.random.default_rng(1)
    for v in (pile.v, rng.normal(size=24)):
        ahead, behind = (piles.rows(pile.pairs, *moved(pile, v, t)) @ v for t in (1e-5, -1e-5))
        drift = piles.drift(pile.pairs, pile.contacts.point, pile.contacts.axes, pile.radius, pile.position, v)
        # second-order differences over 2e-5 s of accelerations of some 10 m/s²
        np.testing.assert_allclose(drift, (ahead - behind) / 2e-5, atol=1e-7)


def test_the_rows_of_a_pile_are_velocities_of_material_points(pile):
    v = np.random.default_rng(2).normal(size=24)
    for i, (a, b) in enumerate(pile.pairs):
        point = pile.contacts.point[i]
        passing = np.zeros(3)
        for body, sign in ((a, 1.0), (b, -1.0)):
            if body != WORLD:
                linear, angular = v[6 * body : 6 * body + 3], v[6 * body + 3 : 6 * body + 6]
                passing += sign * (linear + np.cross(angular, point - pile.position[body]))
        np.testing.assert_allclose(pile.contacts.jacobian[i::12] @ v, pile.contacts.axes[i] @ passing, atol=1e-12)


@pytest.mark.parametrize("row", TABLE_1, ids=lambda row: str(row.size))
def test_data_sets_have_the_paper_s_size(row):
    for lcp, mu, sliding in data_sets(np.random.default_rng(0), row.size, 3):
        assert lcp.r.size == row.size
        assert lcp.touching.size - lcp.rolling.size == sliding
        assert 0.1 <= mu <= 1.0


def test_where_all_contacts_roll_lemkes_method_finds_the_solution_that_exists():
    """Copositive, and the ray condition holds (001 section 5, Theorem 2 without its bound on μ)."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        pile = random_pile(rng, 3, 8, 0)
        problem = AccelerationProblem(
            M=pile.M,
            force=pile.force,
            v=pile.v,
            contacts=replace(pile.contacts, mu=np.full(8, 0.8)),
            drift=pile.drift,
        )
        assert acceleration.solve(problem).status is Status.SOLVED


def test_all_methods_that_solve_a_data_set_meet_the_residual():
    rng = np.random.default_rng(4)
    solved = {"lemke": 0, "ppm": 0}
    for lcp, _, _ in data_sets(rng, 16, 10):
        for name, one in (("lemke", by_lemke(lcp, 3, rng)), ("ppm", by_principal_pivoting(lcp))):
            assert one.solved == (one.residual <= 1e-8)
            solved[name] += one.solved
    assert min(solved.values()) >= 5


def test_the_inner_point_is_inside_or_there_is_none():
    rng = np.random.default_rng(5)
    found = 0
    for lcp, mu, _ in data_sets(rng, 30, 10):
        z = inner_point(lcp, mu)
        if z is not None:
            found += 1
            assert z.min() > 0.0
            assert (lcp.Q @ z + lcp.r).min() > 0.0
    assert found >= 5


def test_a_wrong_answer_has_a_residual():
    lcp, _, _ = data_sets(np.random.default_rng(6), 10, 1)[0]
    assert residual(lcp, np.zeros(10)) > 1e-3
    assert residual(lcp, np.full(10, np.nan)) == np.inf
    assert residual(lcp, -np.ones(10)) > 1e-3


@pytest.mark.parametrize("sizes", [(), (3,), (2, 11)])
def test_a_size_that_the_paper_does_not_have_is_refused_with_those_it_has(tmp_path, sizes):
    with pytest.raises(InputError, match="give some of the paper's, 2, 10, 16"):
        LcpSuite().run(Config(sizes=sizes), tmp_path, lambda share: None)


def test_the_suite_counts_every_data_set_once_and_writes_its_rows(tmp_path):
    metrics = LcpSuite().run(Config(sizes=(2, 10)), tmp_path, lambda share: None)
    assert [row["size"] for row in metrics["rows"]] == [2, 10]
    for row in metrics["rows"]:
        assert row["sets"] == row["paper"]["sets"]
        assert row["solvable"] + row["without_solution"] + row["undecided"] == row["sets"]
        assert row["proved_by_certificate"] + row["proved_by_enumeration"] == row["without_solution"]
        assert {"solved", "iterations"} <= row["lemke"].keys() & row["ppm"].keys() & row["interior_point"].keys()
    assert metrics["completed"]
    assert metrics["paper"]["lemke_solved_10"] == 0.92
    assert (tmp_path / "metrics.json").exists()
