"""Our answers for a robot that stands are what it needs, by a judge that knows mechanics alone."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from idcontrol.errors import InputError
from idcontrol.experiments.standing import GRAVITY, Answer, Machine, judged, ours, situations, tsid


@pytest.fixture(scope="module")
def machine():
    return Machine("solo12")


@pytest.fixture(scope="module")
def asked(machine):
    return {situation.name: situation for situation in situations(machine)}


@pytest.mark.parametrize("controller", ["id-coulomb-qp", "id-coulomb-cone"])
def test_a_robot_that_can_stand_still_does_with_our_torques_and_with_the_forces_that_we_predict(
    machine, asked, controller
):
    for name in ("standing", "pushed", "tilted ground"):
        found = judged(machine, asked[name], ours(controller, machine, asked[name]))
        assert found["trunk"] < 1e-9, name
        assert found["slip"] < 1e-9, name
        assert found["wrench"] < 1e-9, name
        assert found["friction"] < 1.0 + 1e-9, name


def test_a_push_of_95_percent_of_what_friction_holds_takes_feet_to_the_edges_of_their_cones(machine, asked):
    """Front feet carry more of a robot that is pushed forward, so that all feet cannot use the same share."""
    assert judged(machine, asked["pushed"], ours("id-coulomb-cone", machine, asked["pushed"]))["friction"] > 0.95


def test_torques_for_friction_that_is_not_there_let_feet_slip(machine, asked):
    found = judged(machine, asked["wrong friction"], ours("id-coulomb-qp", machine, asked["wrong friction"]))
    assert found["slip"] > 1.0
    assert found["wrench"] < 1e-9  # the answer was right for what was told


def test_the_judge_finds_the_weight_that_an_answer_without_forces_leaves_to_nobody(machine, asked):
    nothing = Answer(tau=np.zeros(12), forces=np.zeros((4, 3)), a=np.zeros(18), seconds=0.0)
    found = judged(machine, asked["standing"], nothing)
    assert found["wrench"] == pytest.approx(machine.system.mass * GRAVITY)
    assert found["trunk"] > 1.0  # it sinks into its knees
    assert found["friction"] is None


def test_an_interpreter_without_tsid_is_refused_in_one_line(machine, asked):
    with pytest.raises(InputError, match=r"^tsid_python: .*: ModuleNotFoundError: No module named 'tsid'$"):
        tsid(sys.executable, machine, list(asked.values()))
    with pytest.raises(InputError, match="nowhere/python gives no answers of TSID: "):
        tsid("nowhere/python", machine, list(asked.values()))


def test_a_robot_without_four_legs_is_refused():
    with pytest.raises(InputError, match="arm has not four legs of three joints"):
        Machine("arm")
