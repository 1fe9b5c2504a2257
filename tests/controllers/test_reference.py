"""``inverse.solver=reference``: the convex schemes with their problems solved as they are stated."""

from __future__ import annotations

import numpy as np
import pytest

from idcontrol.errors import InputError
from idcontrol.types import Status
from tests.controllers import walker

CONVEX = ("id-coulomb-qp", "id-coulomb-qp-raw", "id-coulomb-qp-1", "id-noslip-qp")


@pytest.mark.parametrize("name", CONVEX)
def test_torques_of_a_coherent_sequence_are_those_of_the_fast_solver(quadruped, name):
    fast, reference = (walker.controller(name, gains=walker.NO_FEEDBACK, solver=s) for s in ("fast", "reference"))
    rng = np.random.default_rng(0)
    for state, a in walker.swaying(quadruped, 12):
        asked = walker.stand(a=a + rng.normal(size=12))
        expected, command = fast(state, asked), reference(state, asked)
        assert expected.status is command.status is Status.SOLVED
        if name == "id-coulomb-qp-raw":  # which impulses give the motion is the solver's choice, and so is the torque
            for c in (expected, command):
                assert c.predicted.force[:, 2].sum() == pytest.approx(walker.WEIGHT, rel=0.3)
            np.testing.assert_allclose(command.predicted.force.sum(0), expected.predicted.force.sum(0), atol=1e-3)
            continue
        # what Clarabel leaves of the torques, of about 1 N m
        np.testing.assert_allclose(command.tau, expected.tau, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["id-coulomb-lcp", "id-coulomb-smooth", "id-noslip-lcp", "id-sap"])
def test_a_problem_that_is_not_convex_has_no_reference_and_says_which_have(name):
    with pytest.raises(InputError, match="not convex; those of id-coulomb-qp, "):
        walker.controller(name, solver="reference")


def test_the_printed_objective_has_no_reference():
    with pytest.raises(InputError, match="consistent objective only"):
        walker.controller("id-coulomb-qp", solver="reference", objective="printed")
