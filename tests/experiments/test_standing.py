"""Our answers for a standing robot satisfy a judge based on mechanics only."""

import sys

import numpy as np
import pytest

from idcontrol.errors import InputError
from idcontrol.experiments import standing
from idcontrol.experiments.standing import GRAVITY, Answer, Machine, judged, ours, situations, tsid

pytestmark = pytest.mark.interpreted


@pytest.fixture(scope="module")
def machine():
    return Machine("solo12")


@pytest.fixture(scope="module")
def asked(machine):
    return {situation.name: situation for situation in situations(machine)}


@pytest.mark.slow
@pytest.mark.parametrize("controller", ["id-coulomb-qp", "id-coulomb-cone"])
def test_a_robot_that_can_stand_stands_under_our_torques_and_predicted_forces(machine, asked, controller):
    for name in ("standing", "pushed", "tilted ground"):
        verdict = judged(machine, asked[name], ours(controller, machine, asked[name]))
        assert verdict["trunk"] < 1e-9, name
        assert verdict["slip"] < 1e-9, name
        assert verdict["wrench"] < 1e-9, name
        assert verdict["friction"] < 1.0 + 1e-9, name


@pytest.mark.slow
def test_a_push_close_to_the_friction_limit_takes_feet_to_the_edges_of_their_cones(machine, asked):
    """Front feet carry more of a robot that is pushed forward, so that all feet cannot use the same share."""
    assert judged(machine, asked["pushed"], ours("id-coulomb-cone", machine, asked["pushed"]))["friction"] > 0.95


def test_torques_for_friction_that_is_not_there_let_feet_slip(machine, asked, monkeypatch):
    monkeypatch.setattr(standing, "REPEATS", 1)
    verdict = judged(machine, asked["wrong friction"], ours("id-coulomb-qp", machine, asked["wrong friction"]))
    assert verdict["slip"] > 1.0
    assert verdict["wrench"] < 1e-9  # the answer was right for the assumed friction


def test_the_judge_finds_the_unsupported_weight_of_an_answer_without_forces(machine, asked):
    nothing = Answer(tau=np.zeros(12), forces=np.zeros((4, 3)), a=np.zeros(18), seconds=0.0)
    verdict = judged(machine, asked["standing"], nothing)
    assert verdict["wrench"] == pytest.approx(machine.system.mass * GRAVITY)
    assert verdict["trunk"] > 1.0  # it sinks into its knees
    assert verdict["friction"] is None


def test_an_interpreter_without_tsid_is_refused_in_one_line(machine, asked):
    with pytest.raises(InputError, match=r"^\S*python\S* does not run TSID: pip install tsid"):
        tsid(sys.executable, machine, list(asked.values()))
    with pytest.raises(InputError, match=r"^nowhere/python does not run TSID: "):
        tsid("nowhere/python", machine, list(asked.values()))


def test_a_robot_without_four_legs_is_refused():
    with pytest.raises(InputError, match="arm needs four legs of three joints"):
        Machine("arm")
