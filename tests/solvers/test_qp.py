"""One program, every backend that is installed, one answer."""

from __future__ import annotations

import re

import numpy as np
import pytest

from idcontrol.errors import InputError, UnknownName, install_command
from idcontrol.solvers import qp
from idcontrol.solvers.qp import QpProblem, available, solve_qp
from idcontrol.solvers.status import SolverStatus
from tests.solvers.test_active_set import feasible_program

# ECOS sees the objective as a cone and ends at the square root of its tolerance; the others work on the program itself
REACHED = {"ecos": 1e-4}


@pytest.mark.parametrize("backend", available())
@pytest.mark.parametrize("equalities", [0, 6])
def test_every_backend_finds_the_same_minimum(backend, equalities):
    for seed in range(3):
        program = feasible_program(np.random.default_rng(seed), 12, equalities, 16)
        result, ours = solve_qp(QpProblem(*program), backend), solve_qp(QpProblem(*program))
        expected = (SolverStatus.SOLVED, SolverStatus.INACCURATE) if backend == "ecos" else (SolverStatus.SOLVED,)
        assert result.status in expected
        assert result.residual <= REACHED.get(backend, 1e-8)
        np.testing.assert_allclose(result.x, ours.x, atol=REACHED.get(backend, 1e-7) * np.abs(ours.x).max())
        H, g, A, _, E, _ = program
        push = A.T @ result.multipliers + E.T @ result.equality_multipliers
        np.testing.assert_allclose(H @ result.x + g, push, atol=REACHED.get(backend, 1e-7) * np.abs(H @ result.x).max())


@pytest.mark.parametrize("backend", available())
def test_small_impulses_in_newton_seconds_are_solved_as_well_as_large_ones(backend):
    """Absolute tolerances of general libraries are coarse at 1e-3 N s (math.md, section 13.1): the adapter scales."""
    H, g, A, b, E, e = feasible_program(np.random.default_rng(7), 6, 1, 8)
    small = QpProblem(1e-4 * H, 1e-7 * g, 1e-2 * A, 1e-5 * b, 1e-2 * E, 1e-5 * e)
    x = solve_qp(QpProblem(H, g, A, b, E, e)).x
    # lengths are 1e-3 here: absolute tolerances of 1e-10 leave seven digits, ECOS three
    np.testing.assert_allclose(
        solve_qp(small, backend).x, 1e-3 * x, atol=1e-3 * (1e-3 if backend == "ecos" else 1e-5) * np.abs(x).max()
    )


@pytest.mark.parametrize("backend", available())
def test_no_backend_calls_contradicting_rows_solved(backend):
    result = solve_qp(QpProblem(np.eye(2), np.zeros(2), np.array([[1.0, 0.0], [-1.0, 0.0]]), np.ones(2)), backend)
    assert result.status is not SolverStatus.SOLVED


@pytest.mark.parametrize("backend", available())
def test_a_program_without_rows_is_newtons_step(backend):
    H, g = np.diag([1.0, 2.0]), np.array([1.0, -1.0])
    np.testing.assert_allclose(solve_qp(QpProblem(H, g), backend).x, [-1.0, 0.5], atol=1e-5)


def test_an_unknown_backend_is_told_by_name_and_the_known_ones_are_listed():
    with pytest.raises(UnknownName, match="did you mean 'daqp'"):
        solve_qp(QpProblem(np.eye(1), np.zeros(1)), "dapq")


def test_an_absent_package_is_not_registered_and_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(qp, "_installed", lambda packages: "proxsuite" not in packages)
    assert "proxqp" not in available()
    with pytest.raises(InputError, match=re.escape(install_command("bench"))):
        solve_qp(QpProblem(np.eye(1), np.zeros(1)), "proxqp")
