"""The suite of Table 1 of Trinkle et al. 1997: its problems are physical, its verdicts are checked."""

import numpy as np
import pytest

from idcontrol.experiments.lcp_suite import (
    TABLE_1,
    Config,
    by_lemke,
    by_principal_pivoting,
    data_sets,
    experiment,
    residual,
)


@pytest.mark.parametrize("row", TABLE_1, ids=lambda row: str(row["size"]))
def test_data_sets_have_the_paper_s_size(row):
    for lcp, mu, sliding in data_sets(np.random.default_rng(0), row["size"], 3):
        assert lcp.r.size == row["size"]
        assert lcp.touching.size - lcp.rolling.size == sliding
        assert 0.1 <= mu <= 1.0


def test_all_methods_that_solve_a_data_set_meet_the_residual():
    rng = np.random.default_rng(4)
    solved = {"lemke": 0, "ppm": 0}
    for lcp, _, _ in data_sets(rng, 16, 10):
        for name, one in (("lemke", by_lemke(lcp, 3, rng)), ("ppm", by_principal_pivoting(lcp))):
            assert one.solved == (one.residual <= 1e-8)
            solved[name] += one.solved
    assert min(solved.values()) >= 5


def test_a_wrong_answer_has_a_residual():
    lcp, _, _ = data_sets(np.random.default_rng(6), 10, 1)[0]
    assert residual(lcp, np.zeros(10)) > 1e-3
    assert residual(lcp, np.full(10, np.nan)) == np.inf
    assert residual(lcp, -np.ones(10)) > 1e-3


def test_the_suite_counts_every_data_set_once_and_writes_its_rows(tmp_path):
    metrics = experiment.run(Config(sizes=(2, 10)), tmp_path, lambda share: None)
    assert [row["size"] for row in metrics["rows"]] == [2, 10]
    for row in metrics["rows"]:
        assert row["sets"] == row["paper"]["sets"]
        assert row["solvable"] + row["without_solution"] + row["undecided"] == row["sets"]
        assert row["proved_by_certificate"] + row["proved_by_enumeration"] == row["without_solution"]
        assert {"solved", "iterations"} <= row["lemke"].keys() & row["ppm"].keys() & row["interior_point"].keys()
    assert metrics["completed"]
    assert metrics["paper"]["lemke_solved_10"] == 0.92
    assert (tmp_path / "metrics.json").exists()
