"""The study of smoothness: numbers of known torques, and who is said to be smoothest."""

import numpy as np
import pytest

from idcontrol.experiments import smoothness, trot
from tests import walks
from tests.experiments.outcomes import outcome, walked


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Two controllers with the same walk; the torques of one change twice as fast."""
    folder, results = tmp_path_factory.mktemp("walks"), []
    for factor, controller in ((1.0, "id-coulomb-qp"), (2.0, "pid")):
        data = walks.arrays(3.0)
        data["tau"] *= factor
        results.append(
            outcome(
                trot.experiment,
                {"controller": controller},
                walked(steps=3000, dtau_mean_nm_s=10.0 * factor, dtau_power_above={"20": 0.4, "50": 0.2, "100": 0.1}),
                walks.record(folder / controller, data=data, metrics={"completed": True}),
            )
        )
    return results


@pytest.mark.slow
def test_largest_rates_match_the_record_and_are_relative_to_the_torque_limit(outcomes):
    rates, _ = smoothness.tables(outcomes)
    tau = walks.arrays(3.0)["tau"]
    size = np.abs(np.diff(tau, axis=0)).max(axis=0) / walks.H
    column = rates.header.index("largest |dτ/dt| [N m/s]")
    assert [row[column] for row in rates.rows] == pytest.approx([size.max(), 2.0 * size.max()])
    assert rates.rows[0][column + 1] == pytest.approx(size[:6].max() / 2.0)  # six joints have a limit of 2 N m
    assert rates.rows[0][column + 2 : column + 5] == (0.4, 0.2, 0.1)


def test_the_end_of_a_fall_is_not_among_the_largest_rates(tmp_path):
    data = walks.arrays(3.0)
    data["tau"][2800] += 1e3
    folder = walks.record(tmp_path / "fell", data=data, metrics={"completed": False})
    assert smoothness.torques_in(folder, None).largest.max() > 1e5
    assert smoothness.torques_in(folder, 3.0).largest.max() < 1e5


def test_parts_add_up_to_the_mean_rate(outcomes):
    _, parts = smoothness.tables(outcomes)
    for row in parts.rows:
        assert sum(row[3:-1]) == pytest.approx(1.0)


def test_torques_of_all_controllers_are_drawn_and_nothing_where_nothing_ran(outcomes):
    (drawn,) = smoothness.pictures(outcomes)
    assert drawn.source.startswith("data:image/svg")
    assert smoothness.pictures([outcome(trot.experiment, {"controller": "pid"}, None)]) == ()
